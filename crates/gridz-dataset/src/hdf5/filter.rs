//! Entry points of the filter that libhdf5 calls.
//!
//! ```text
//! create   can_apply   rejects datasets that cannot be written
//!          set_local   stores the resolved request and the chunk's description in the cd_values
//! write    filter      chunk -> frame
//! read     filter      frame -> chunk; does not query libhdf5
//! ```
//!
//! Two rules follow from how libhdf5 handles failures. A filter that fails to *encode* loses the
//! chunk (mandatory filter) or leaves it uncompressed (optional filter), without a visible error.
//! So encoding falls back to `stored`, and fails only if there is no memory even for that. Second,
//! the caller's buffer is not modified before success is certain.

#![allow(unsafe_code)] // C entry points

use std::ffi::{CStr, c_int, c_uint, c_void};

use super::abi::{self, FilterClass, Hid};
use super::api::{Api, Callback};
use super::buf::HostBuffer;
use super::cd::{self, Values};
use super::dataset::{Before, Dataset};
use super::dl;
use super::record::Record;
use super::{report, shuffle};
use crate::bulk::{Buffer, FrameBuffer};
use gridz::{Context, Frame, Part, Prepared, Request, Verify};
use gridz::{Destination, Source};
use gridz_codecs::error::{Error, ErrorKind, Result, guarded};
use gridz_codecs::settings::{self, Backend, LogLevel};
use gridz_codecs::types::{Array, DType};

/// The filter's number, from the range for private use until one is registered.
pub const FILTER_ID: c_int = 34013;

/// Name of the filter. HDF5 stores it in every file and shows it where the plugin is missing.
const NAME: &CStr = const {
    let text = concat!(
        "gridz ",
        env!("CARGO_PKG_VERSION"),
        " (to read this data, install the gridz HDF5 plugin and point HDF5_PLUGIN_PATH to its folder)\0"
    );
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("the name ends in its only NUL"),
    }
};

static CLASS: FilterClass = FilterClass {
    version: abi::CLASS_VERSION,
    id: FILTER_ID,
    encoder_present: 1,
    decoder_present: 1,
    name: NAME.as_ptr(),
    can_apply: Some(can_apply),
    set_local: Some(set_local),
    filter: Some(filter),
};

/// The filter's `H5Z_class2_t`, which lives as long as the process. Programs that do not search plugins can pass it to
/// `H5Zregister`.
pub fn class() -> *const c_void {
    (&raw const CLASS).cast()
}

/// Defines a callback that calls `$body` with its own return address as a fourth argument. This
/// address lies in the libhdf5 that calls.
macro_rules! with_caller {
    ($name:ident => $body:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        unsafe extern "C" fn $name(dcpl: Hid, dtype: Hid, space: Hid) -> c_int {
            core::arch::naked_asm!("endbr64", "mov rcx, [rsp]", "jmp {}", sym $body)
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        unsafe extern "C" fn $name(dcpl: Hid, dtype: Hid, space: Hid) -> c_int {
            core::arch::naked_asm!("hint #34", "mov x3, x30", "b {}", sym $body)
        }

        // On other machines the library is not found: chunks are plain bytes unless the cd_values
        // say more.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        unsafe extern "C" fn $name(dcpl: Hid, dtype: Hid, space: Hid) -> c_int {
            $body(dcpl, dtype, space, std::ptr::null())
        }
    };
}

with_caller!(can_apply => can_apply_from);
with_caller!(set_local => set_local_from);

/// Called when a dataset is created, before `set_local`, and again when an existing dataset is
/// first written to. A positive result means that the filter applies. Zero would not keep libhdf5
/// from using an optional filter, so a refusal is always negative.
extern "C" fn can_apply_from(dcpl: Hid, dtype: Hid, space: Hid, caller: *const c_void) -> c_int {
    let result = prepare(Callback::CanApply, caller, |api| describe(api, dcpl, dtype, space).map(|_| ()));
    if result.is_ok() { 1 } else { -1 }
}

/// Replaces the cd_values by the dataset's record. Returns zero on success.
extern "C" fn set_local_from(dcpl: Hid, dtype: Hid, space: Hid, caller: *const c_void) -> c_int {
    let result = prepare(Callback::SetLocal, caller, |api| {
        let dataset = describe(api, dcpl, dtype, space)?.with_fill(api, dcpl, dtype)?;
        let shuffle = match dataset.before {
            Before::Shuffle(size) => Some(size),
            _ => None,
        };
        let words = Record::new(&dataset.request, dataset.array, shuffle)?.words();
        api.set_filter_values(dcpl, FILTER_ID, dataset.flags, &words)
            .ok_or_else(|| Error::new(ErrorKind::Host, "HDF5 rejected the cd_values of the filter"))?;
        if let Some(why) = dataset.why_stored() {
            report::line(&why);
        }
        if dataset.request.drifts() {
            // The text is the same for all datasets, so it is printed once.
            report::line(&format!(
                "{} that is not lossless drifts: if parts of a chunk are rewritten repeatedly, the error of its \
                 other elements can grow each time; write whole chunks, or use quant",
                dataset.request.name()
            ));
        }
        settings::log(LogLevel::Info, || {
            let (array, request) = (&dataset.array, &dataset.request);
            format!("new dataset: chunks of {} {:?} by {request}", array.dtype().name(), array.shape())
        });
        Ok(())
    });
    if result.is_ok() { 0 } else { -1 }
}

/// Runs one of the two callbacks of dataset creation and reports its error.
fn prepare(callback: Callback, caller: *const c_void, body: impl FnOnce(&Api) -> Result<()>) -> Result<()> {
    guarded(|| {
        let Some(api) = dl::calling_library(caller) else {
            report::line(
                "the HDF5 functions of this program cannot be found, so gridz cannot query the type of the chunks \
                 and stores them uncompressed; use a program with a shared libhdf5 1.10 or later",
            );
            return Ok(());
        };
        guarded(|| body(api)).inspect_err(|error| report::refuse(api, callback, error))
    })
}

fn describe(api: &Api, dcpl: Hid, dtype: Hid, space: Hid) -> Result<Dataset> {
    gridz::check_backend()?;
    Dataset::describe(api, FILTER_ID, dcpl, dtype, space)
}

/// The filter callback (`H5Z_func_t`). Returns the number of valid bytes in `*buffer`, or 0 on
/// failure, with everything unchanged.
///
/// # Safety
/// Only libhdf5 may call this, with pointers as it passes them to filters.
unsafe extern "C" fn filter(
    flags: c_uint,
    n_values: usize,
    values: *const c_uint,
    n_bytes: usize,
    buffer_bytes: *mut usize,
    buffer: *mut *mut c_void,
) -> usize {
    let body = || {
        // SAFETY: pointers from libhdf5, as `HostBuffer::new` requires them.
        let host = unsafe { HostBuffer::new(buffer, buffer_bytes, n_bytes) }?;
        let values = if values.is_null() {
            &[]
        } else {
            // SAFETY: libhdf5 passes that many words.
            unsafe { std::slice::from_raw_parts(values, n_values) }
        };
        if let Err(error) = gridz::check_environment() {
            report::line(&format!("{error}; the default is used"));
        }
        if flags & abi::FLAG_REVERSE == 0 {
            let (frame, n_valid) = encode(values, host.bytes())?;
            host.put(frame, n_valid);
            return Ok(n_valid);
        }
        let verify = if flags & abi::FLAG_SKIP_EDC == 0 { Verify::Checksum } else { Verify::Structure };
        let (chunk, n_valid) = decode(values, host.bytes(), verify)?;
        host.replace(chunk);
        Ok(n_valid)
    };
    // The inner guard turns a panic into an error to report. The outer guard covers the reporting.
    guarded(|| guarded(body).inspect_err(report::failed)).unwrap_or(0)
}

/// Encodes `chunk` as a frame. Returns a buffer that begins with the frame, and the frame's length.
fn encode(values: &[u32], chunk: &[u8]) -> Result<(FrameBuffer, usize)> {
    // Unusable cd_values were rejected at creation. If they appear anyway, or the chunk's length
    // disagrees with them because another filter changed it, the chunk is framed as plain bytes.
    let record = match Values::parse(values) {
        Ok(Values::Record(record)) if record.array().n_bytes() == chunk.len() as u64 => Some(record),
        Ok(_) => None,
        Err(error) => {
            report::line(&format!("{error}; the data is stored uncompressed"));
            None
        }
    };
    if let Some(record) = record {
        let compressed = guarded(|| {
            let request = record.request()?;
            match shuffled(&record) {
                None => compress(record.array(), &request, chunk),
                Some(size) => {
                    let mut array = Buffer::new(chunk.len())?;
                    shuffle::unshuffle(size, chunk, array.bytes());
                    compress(record.array(), &request, array.bytes())
                }
            }
        });
        match compressed {
            Ok(compressed) => return Ok(compressed),
            Err(error) => report::line(&format!("{error}; the data is stored uncompressed")),
        }
    }
    let stored = Request::new(u32::from(gridz::STORED), 0)?;
    compress(&Array::bytes(chunk.len() as u64)?, &stored, chunk)
}

fn compress(array: &Array, request: &Request, chunk: &[u8]) -> Result<(FrameBuffer, usize)> {
    let prepared = Prepared::new(array, request)?;
    let mut frame = FrameBuffer::new(prepared.bound() as usize)?;
    let n_bytes = on_any_backend(|context| {
        prepared.compress(Source::Host(chunk), Destination::Host(frame.bytes()), context)
    })?;
    Ok((frame, n_bytes))
}

/// Decodes `frame`. Returns a new buffer with the chunk, and the chunk's length.
fn decode(values: &[u32], frame: &[u8], verify: Verify) -> Result<(Buffer, usize)> {
    // Plain bytes may have any length: `encode` frames a chunk of unexpected length as plain bytes.
    let frame = Frame::parse(frame)?;
    let is_opaque = is_plain_bytes(&frame.info()?.array);
    let record = match Values::parse(values) {
        Ok(Values::Record(record)) => Some(record),
        Ok(Values::User(_)) => None,
        // HDF5 will unshuffle the result, so it must be shuffled, but these words do not say how.
        Err(error) if cd::may_be_shuffled(values, &error) && !is_opaque => return Err(error),
        Err(_) => None,
    };
    let expected = record.map(|record| record.array().n_bytes());
    // A damaged or hostile frame must not determine how much memory is allocated.
    let n_bytes = frame.array_bytes(expected)?;
    // libhdf5 before 2.2 treats the result as a whole chunk and would read past the end of a
    // shorter one.
    let may_vary = record.is_none_or(|record| is_plain_bytes(record.array())) || is_opaque;
    if n_bytes == 0 || !(may_vary || Some(n_bytes) == expected) {
        let text =
            format!("a frame contains {n_bytes} bytes of data, but the chunk has {} bytes", expected.unwrap_or(0));
        return Err(Error::corrupt(text));
    }
    // So the bytes may be fewer than a chunk, but the buffer may not be shorter. The file
    // determines the length of a chunk, so the rest of the buffer is zeroed memory that is never
    // touched.
    let mut chunk = match expected {
        Some(expected) if expected > n_bytes => Buffer::zeroed(expected as usize)?,
        _ => Buffer::new(n_bytes as usize)?,
    };
    on_any_backend(|context| frame.decompress(Part::All, chunk.bytes(), verify, context))?;
    if let Some(size) = record.as_ref().and_then(shuffled).filter(|_| !is_opaque) {
        let mut again = Buffer::new(chunk.bytes().len())?;
        shuffle::shuffle(size, chunk.bytes(), again.bytes());
        chunk = again;
    }
    Ok((chunk, n_bytes as usize))
}

/// Runs `work` as the settings say, and on the CPU if a required GPU fails. The GPU was available
/// when the dataset was created, and losing data would be worse than ignoring the setting.
fn on_any_backend<R>(mut work: impl FnMut(&Context) -> Result<R>) -> Result<R> {
    match work(&Context::lenient()) {
        Err(error)
            if matches!(error.kind(), ErrorKind::Device | ErrorKind::OutOfMemory | ErrorKind::InvalidArgument) =>
        {
            report::line(&format!("{error}; the CPU takes over"));
            work(&Context::lenient().on(Backend::Cpu, None)?)
        }
        result => result,
    }
}

/// The element size if chunks of such a dataset are shuffled but frames hold the array itself.
/// Plain bytes are framed unchanged.
fn shuffled(record: &Record) -> Option<usize> {
    record.shuffle().filter(|_| !is_plain_bytes(record.array())).map(|size| size as usize)
}

/// Whether `array` describes plain bytes. These describe chunks that another filter changes before
/// gridz, and chunks whose length does not fit their description.
pub(super) fn is_plain_bytes(array: &Array) -> bool {
    array.dtype() == DType::Opaque && array.element_size() == 1 && array.shape().rank() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridz_codecs::types::{ByteOrder, Shape};

    /// The user's fill value is read from the property list of a real libhdf5, in the type of the
    /// file.
    #[test]
    fn fill_values_are_those_of_the_property_list() {
        use crate::hdf5::dataset::with_fill;
        use hdf5_sys::h5::H5open;
        use hdf5_sys::h5p::{H5P_CLS_DATASET_CREATE, H5Pclose, H5Pcreate, H5Pset_fill_value};
        use hdf5_sys::h5t::*;

        // SAFETY: no other test uses libhdf5.
        assert!(unsafe { H5open() } >= 0);
        let api = dl::calling_library(H5open as *const c_void).expect("the library of a function of its own");
        let plain = "quant,abs=1".parse::<Request>().unwrap();
        let with = |text: &str| format!("quant,abs=1,fill={text}").parse::<Request>().unwrap();
        let array = |dtype, order| Array::new(dtype, order, Shape::new(&[5]).unwrap()).unwrap();
        let (f32be, i16le) = (array(DType::F32, ByteOrder::Big), array(DType::I16, ByteOrder::Little));
        // SAFETY: ids of this library, and a value of the type that stands beside it.
        let list = |dtype: Hid, value: *const c_void| unsafe {
            let dcpl = H5Pcreate(*H5P_CLS_DATASET_CREATE);
            assert!(dcpl >= 0 && (dtype < 0 || H5Pset_fill_value(dcpl, dtype, value) >= 0));
            dcpl
        };
        let pointer = |value: &dyn std::any::Any| std::ptr::from_ref(value).cast::<c_void>();
        let (number, nan) = (-999.0f64, f32::from_bits(0x7fc0_0001));
        let (same, other) = ([7.5f32; 3], [7.5f32, 7.5, 8.0]);
        // SAFETY: an array type of three numbers.
        let of_three = unsafe { H5Tarray_create2(*H5T_IEEE_F32BE, 1, &3) };
        // SAFETY: an array type of three native numbers.
        let three = unsafe { H5Tarray_create2(*H5T_NATIVE_FLOAT, 1, &3) };
        for (set, value, dtype, array, expected) in [
            (-1, std::ptr::null(), *H5T_IEEE_F32BE, f32be, Some(plain)),
            (*H5T_NATIVE_DOUBLE, std::ptr::null(), *H5T_IEEE_F32BE, f32be, Some(plain)),
            (*H5T_NATIVE_DOUBLE, pointer(&number), *H5T_IEEE_F32BE, f32be, Some(with("-999"))),
            (*H5T_NATIVE_DOUBLE, pointer(&number), *H5T_STD_I16LE, i16le, Some(with("-999"))),
            (*H5T_NATIVE_FLOAT, pointer(&nan), *H5T_IEEE_F32BE, f32be, Some(with("0x7fc00001"))),
            (three, pointer(&same), of_three, f32be, Some(with("7.5"))),
            (three, pointer(&other), of_three, f32be, None),
        ] {
            let dcpl = list(set, value);
            let missing = |request: Request| request.missing_elements(&array).unwrap();
            let found = with_fill(api, dcpl, dtype, &array, plain);
            match (&found, expected) {
                (Ok(found), Some(expected)) => assert_eq!(missing(*found), missing(expected)),
                (Err(error), None) => assert!(error.context().contains("an array of different values"), "{error}"),
                _ => panic!("{found:?}, not {expected:?}"),
            }
            // Fill values of the request stay, and that of the property list is added.
            if let Ok(again) = with_fill(api, dcpl, dtype, &array, with("1")) {
                assert_eq!(missing(again).fills().len(), if expected == Some(plain) { 1 } else { 2 });
                assert_eq!(missing(with_fill(api, dcpl, dtype, &array, again).unwrap()), missing(again));
            }
            // A codec without fill values does not query HDF5.
            assert_eq!(with_fill(api, -1, -1, &array, Request::default()).unwrap(), Request::default());
            let error = with_fill(&Api::without_fills(), dcpl, dtype, &array, plain).unwrap_err();
            assert!(error.context().contains("did not report whether the dataset has a fill value"), "{error}");
            // SAFETY: the list was created above.
            unsafe { H5Pclose(dcpl) };
        }
    }

    /// The file determines the chunk length in the cd_values. HDF5 gets a buffer of that length,
    /// but only the bytes of the frame take memory.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_record_of_a_large_chunk_takes_no_memory() {
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let (n, large) = (4096, 1usize << 30);
        let stored = Request::new(u32::from(gridz::STORED), 0).unwrap();
        let chunk: Vec<u8> = (0..n).map(|i| i as u8).collect();
        let (mut frame, n_frame) = compress(&Array::bytes(n as u64).unwrap(), &stored, &chunk).unwrap();
        let frame = &frame.bytes()[..n_frame];
        let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[large as u64 / 4]).unwrap()).unwrap();
        let words = Record::new(&Request::default(), array, None).unwrap().words();
        let before = resident();
        let (mut back, n_back) = decode(&words, frame, Verify::Checksum).unwrap();
        let taken = resident().saturating_sub(before);
        assert!(taken < 64 << 20, "{taken} bytes are resident");
        assert_eq!((n_back, back.n_bytes()), (n, large));
        assert!(back.bytes()[..n] == chunk && back.bytes()[large - n..].iter().all(|&byte| byte == 0));
    }

    /// Any bytes are restored, shuffled or not. (HDF5 leaves a shuffle out if it fails.)
    #[test]
    fn any_bytes_come_back_from_behind_a_shuffle() {
        for (dtype, extents, size) in
            [(DType::F32, &[100, 30][..], 4), (DType::F64, &[7, 11, 3], 24), (DType::I16, &[1], 2)]
        {
            let array = Array::new(dtype, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap();
            let n = array.n_bytes() as usize;
            for request in [Request::new(1, 0).unwrap(), Request::default()] {
                let words = Record::new(&request, array, Some(size)).unwrap().words();
                // The described length, and lengths that do not fit the description.
                for n in [n, n + 4, n.saturating_sub(3).max(1)] {
                    let chunk: Vec<u8> = (0..n).map(|i| (i / 100 + i % 4 * 50) as u8).collect();
                    let (mut frame, n_frame) = encode(&words, &chunk).unwrap();
                    let frame = &frame.bytes()[..n_frame];
                    let (mut back, n_back) = decode(&words, frame, Verify::Checksum).unwrap();
                    assert!(back.bytes()[..n_back] == chunk, "{request:?} {array:?} {n}");
                }
            }
        }
    }
}
