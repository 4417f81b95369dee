//! Conversions between the structs of C and the types of the engine.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::atomic::AtomicPtr;

use once_cell::race::OnceBox;

use crate::hdf5_types::gridz_h5_part_info;
use crate::progressive::*;
use crate::quality::{gridz_block_counts, gridz_quality_options, gridz_quality_report};
use crate::types::*;
use gridz::{BlockCounts, Context, Detail, FrameInfo, Mode, PartInfo, Request, Verify, device};
use gridz_codecs::codec::registry::{CODECS, Entry};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::settings::Backend;
use gridz_codecs::types::{Array, ByteOrder, DType, MAX_RANK, Shape};
use gridz_dataset::bulk::Tally;
use gridz_dataset::hdf5::progressive::PartAccess;
use gridz_quality::{Bound, Report};

/// Converts C's description of an array.
pub fn array(c: &gridz_array, extents: &[u64; MAX_RANK]) -> Result<Array> {
    let dtype = u8::try_from(c.dtype).ok().and_then(DType::from_id).ok_or_else(|| {
        let last = DType::ALL.len() - 1;
        Error::invalid(format!("dtype {} is not one of GRIDZ_DTYPE_*, which are 0 to {last}", c.dtype))
    })?;
    let order = match c.byte_order {
        GRIDZ_BYTE_ORDER_NATIVE => ByteOrder::NATIVE,
        GRIDZ_BYTE_ORDER_LITTLE => ByteOrder::Little,
        GRIDZ_BYTE_ORDER_BIG => ByteOrder::Big,
        other => return Err(Error::invalid(format!("byte_order {other} is not one of GRIDZ_BYTE_ORDER_*"))),
    };
    let element_size = match (c.element_size, dtype.size()) {
        (0, Some(size)) => size,
        (0, None) => {
            return Err(Error::invalid(
                "element_size is 0; with GRIDZ_DTYPE_OPAQUE set it to the bytes of one element",
            ));
        }
        (size, _) => size,
    };
    Array::with_size(dtype, order, element_size, Shape::new(&extents[..c.rank as usize])?)
}

/// Parses a request in text form; `None` is the default codec.
pub fn request(text: Option<&CStr>) -> Result<Request> {
    text.map_or_else(|| Ok(Request::default()), |text| utf8("the request", text)?.parse())
}

/// A text from C as UTF-8.
pub fn utf8<'a>(name: &str, text: &'a CStr) -> Result<&'a str> {
    text.to_str().map_err(|error| {
        Error::invalid(format!(
            "{name} is not valid UTF-8 from byte {} on; pass a text such as \"quant,abs=1e-3\"",
            error.valid_up_to()
        ))
    })
}

/// Type and extents of an array, for error texts.
pub fn description(array: &Array) -> String {
    let swapped = if array.order() == ByteOrder::NATIVE || array.element_size() == 1 {
        ""
    } else {
        " in the other byte order"
    };
    format!("{}{swapped} with the extents {:?}", array.dtype().name(), array.shape())
}

/// Number of codecs.
pub fn codec_count() -> usize {
    CODECS.len()
}

/// The name of the codec at `index` of the table, or null.
pub fn codec_name(index: usize) -> *const c_char {
    texts().get(index).map_or(ptr::null(), |texts| texts.name.as_ptr())
}

/// The codec at `index` of the table
pub fn codec(index: usize) -> Result<gridz_codec> {
    let (entry, texts) = CODECS.get(index).zip(texts().get(index)).ok_or_else(|| {
        Error::invalid(format!(
            "codec index {index} is out of range; it must be below gridz_codec_count(), which is {}",
            CODECS.len()
        ))
    })?;
    let bits = |ids: &mut dyn Iterator<Item = u8>| ids.fold(0, |bits, id| bits | 1 << id);
    Ok(gridz_codec {
        struct_size: 0,
        name: texts.name.as_ptr(),
        description: texts.about.as_ptr(),
        level_names: texts.level_names.as_ptr().cast(),
        level_numbers: texts.level_numbers.as_ptr(),
        n_levels: entry.levels.len() as u32,
        id: entry.id.into(),
        modes: bits(&mut entry.modes.iter().map(|mode| mode.id())),
        dtypes: bits(&mut entry.dtypes.iter().map(|dtype| dtype.id())),
        backends: GRIDZ_BACKEND_CPU | if device::gpu_available(entry) { GRIDZ_BACKEND_CUDA } else { 0 },
        reserved: 0,
    })
}

/// Descriptions of a codec for C, which live as long as the process.
struct Texts {
    name: CString,
    about: CString,
    /// Addresses of texts that are never freed. They are atomic pointers because those can be
    /// shared between threads.
    level_names: Vec<AtomicPtr<c_char>>,
    level_numbers: Vec<u32>,
}

/// The texts of each entry of the table.
fn texts() -> &'static [Texts] {
    static TEXTS: OnceBox<Vec<Texts>> = OnceBox::new();
    let to_c = |text: &str| CString::new(text).expect("the table's texts have no 0 byte");
    TEXTS.get_or_init(|| {
        let of = |entry: &Entry| Texts {
            name: to_c(entry.name),
            about: to_c(entry.about),
            level_names: entry.levels.iter().map(|level| AtomicPtr::new(to_c(level.name).into_raw())).collect(),
            level_numbers: entry.levels.iter().map(|level| level.number.into()).collect(),
        };
        Box::new(CODECS.iter().map(of).collect())
    })
}

/// Whether to verify checksums.
pub fn verify(c: &gridz_options) -> Result<Verify> {
    match c.flags {
        0 => Ok(Verify::Checksum),
        GRIDZ_FLAG_SKIP_CHECKSUM => Ok(Verify::Structure),
        other => Err(Error::invalid(format!("flags {other:#x} has unknown bits; only GRIDZ_FLAG_* are allowed"))),
    }
}

/// Creates the context that C asks for.
pub fn context(c: &gridz_context_options) -> Result<Context> {
    let threads = (c.threads != 0).then_some(c.threads as usize);
    let context = Context::new(threads, (c.memory_limit != 0).then_some(c.memory_limit))?;
    match c.device {
        GRIDZ_DEVICE_AUTO => Ok(context),
        GRIDZ_DEVICE_ALL => context.on_all_gpus(),
        GRIDZ_DEVICE_CPU => context.on(Backend::Cpu, None),
        GRIDZ_DEVICE_CUDA => context.on(Backend::Cuda, None),
        from_one => context.on(Backend::Cuda, Some(from_one - 1)),
    }
}

/// Converts a frame's description to C's struct.
pub fn frame_info(info: &FrameInfo) -> gridz_frame_info {
    let shape = info.array.shape();
    gridz_frame_info {
        struct_size: 0,
        dtype: u32::from(info.array.dtype().id()),
        byte_order: match info.array.order() {
            ByteOrder::Little => GRIDZ_BYTE_ORDER_LITTLE,
            ByteOrder::Big => GRIDZ_BYTE_ORDER_BIG,
        },
        element_size: info.array.element_size(),
        rank: u32::from(shape.rank()),
        extents: extents(shape),
        array_bytes: info.array.n_bytes(),
        frame_bytes: info.frame_bytes,
        codec_name: name_of(info.codec),
        codec: u32::from(info.codec),
        mode: info.promise.map_or(0, |promise| promise.mode.id().into()),
        value: info.promise.map_or(0.0, |promise| promise.value),
        bound: info.promise.and_then(|promise| promise.bound).unwrap_or(f64::NAN),
    }
}

fn extents(shape: &Shape) -> [u64; GRIDZ_MAX_RANK] {
    let mut extents = [0; GRIDZ_MAX_RANK];
    extents[..shape.extents().len()].copy_from_slice(shape.extents());
    extents
}

/// Converts C's choice of the part of a frame to read.
pub fn detail(detail: u32, value: f64) -> Result<Detail> {
    let whole = |what: &str, least: u32| match value as u32 {
        whole if f64::from(whole) == value => Ok(whole),
        _ => Err(Error::invalid(format!(
            "value {value} is not a valid {what}; it must be a whole number from {least} to {}",
            u32::MAX
        ))),
    };
    match detail {
        GRIDZ_DETAIL_LEVEL => whole("level", 0).map(Detail::Level),
        GRIDZ_DETAIL_LAYERS => whole("number of layers", 1).map(Detail::Layers),
        GRIDZ_DETAIL_ERROR => Ok(Detail::Error(value)),
        other => Err(Error::invalid(format!("detail {other} is not one of GRIDZ_DETAIL_*"))),
    }
}

/// Converts the description of a part of a frame to C's struct.
pub fn part_info(info: &PartInfo) -> gridz_part_info {
    gridz_part_info {
        struct_size: 0,
        rank: u32::from(info.shape.rank()),
        level: info.level,
        extents: extents(&info.shape),
        array_bytes: info.n_bytes,
        frame_bytes: info.frame_bytes,
        n_levels: info.n_levels,
        layers: info.layers,
        n_layers: info.n_layers,
        mode: info.promise.mode.id().into(),
        value: info.promise.value,
        bound: info.promise.bound.unwrap_or(f64::NAN),
    }
}

/// Converts the description of a part of a dataset to C's struct.
pub fn h5_part_info(access: &PartAccess, tally: &Tally) -> gridz_h5_part_info {
    let &Tally { n_chunks, stored_bytes, read_bytes, layers, n_layers, bound, rms } = tally;
    let mut extents = [0; GRIDZ_MAX_RANK];
    extents[..access.extents().len()].copy_from_slice(access.extents());
    gridz_h5_part_info {
        struct_size: 0,
        rank: access.extents().len() as u32,
        level: access.level(),
        extents,
        array_bytes: access.n_bytes(),
        n_chunks,
        stored_bytes,
        read_bytes,
        n_levels: access.n_levels(),
        layers,
        n_layers,
        reserved: 0,
        bound: bound.unwrap_or(f64::NAN),
        rms: rms.unwrap_or(f64::NAN),
    }
}

/// Converts the counts to C's struct.
pub fn block_counts(counts: &BlockCounts) -> gridz_block_counts {
    let BlockCounts { all, raw, constant, packed, entropy, .. } = *counts;
    let BlockCounts { fixed_point, dictionary, sparse, decimal, masked, cut, exact, .. } = *counts;
    gridz_block_counts {
        struct_size: 0,
        all,
        raw,
        constant,
        packed,
        entropy,
        fixed_point,
        dictionary,
        sparse,
        decimal,
        masked,
        cut,
        exact,
    }
}

/// Converts the error bound of a comparison.
pub fn bound(c: &gridz_quality_options) -> Result<Bound> {
    if c.reserved != 0 {
        return Err(Error::invalid(format!("reserved is {}, but must be 0", c.reserved)));
    }
    let mode = Mode::from_id(c.mode).ok_or_else(|| {
        let last = Mode::ALL.len() - 1;
        Error::invalid(format!("mode {} is not one of GRIDZ_MODE_*, which are 0 to {last}", c.mode))
    })?;
    Bound::new(mode, c.value)
}

/// Converts a comparison's results to C's struct.
pub fn quality_report(report: &Report) -> gridz_quality_report {
    let Report { elements, numbers, fill_mismatches, nan_mismatches, infinity_mismatches, .. } = *report;
    gridz_quality_report {
        struct_size: 0,
        elements,
        numbers,
        fill_mismatches,
        nan_mismatches,
        infinity_mismatches,
        largest_error: report.largest_error,
        largest_error_rest: report.largest_error_rest,
        largest_error_index: report.largest_error_index.unwrap_or(u64::MAX),
        largest_relative_error: report.largest_relative_error,
        largest_relative_error_index: report.largest_relative_error_index.unwrap_or(u64::MAX),
        bound: report.bound,
        error_over_bound: report.error_over_bound,
        minimum: report.minimum,
        maximum: report.maximum,
        range: report.range,
        l2_error: report.l2_error,
        rmse: report.rmse,
        nrmse: report.nrmse,
        psnr: report.psnr,
        correlation: report.correlation,
        ssim_2d: report.ssim_2d,
        ssim_3d: report.ssim_3d,
    }
}

/// Name of the codec `id` with a terminating 0 byte, valid for the lifetime of the process. Null if
/// there is no such codec.
fn name_of(id: u8) -> *const c_char {
    CODECS.iter().position(|entry| entry.id == id).map_or(ptr::null(), codec_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_of_c_are_those_of_the_library() {
        let version = format!("{GRIDZ_VERSION_MAJOR}.{GRIDZ_VERSION_MINOR}.{GRIDZ_VERSION_PATCH}");
        assert_eq!(version, gridz_codecs::VERSION);
        assert_eq!(GRIDZ_MAX_RANK, MAX_RANK);
        let dtypes = [
            (DType::Opaque, GRIDZ_DTYPE_OPAQUE),
            (DType::U8, GRIDZ_DTYPE_U8),
            (DType::U16, GRIDZ_DTYPE_U16),
            (DType::U32, GRIDZ_DTYPE_U32),
            (DType::U64, GRIDZ_DTYPE_U64),
            (DType::I8, GRIDZ_DTYPE_I8),
            (DType::I16, GRIDZ_DTYPE_I16),
            (DType::I32, GRIDZ_DTYPE_I32),
            (DType::I64, GRIDZ_DTYPE_I64),
            (DType::F16, GRIDZ_DTYPE_F16),
            (DType::Bf16, GRIDZ_DTYPE_BF16),
            (DType::F32, GRIDZ_DTYPE_F32),
            (DType::F64, GRIDZ_DTYPE_F64),
            (DType::C64, GRIDZ_DTYPE_C64),
            (DType::C128, GRIDZ_DTYPE_C128),
        ];
        let modes = [
            (Mode::Lossless, GRIDZ_MODE_LOSSLESS),
            (Mode::Abs, GRIDZ_MODE_ABS),
            (Mode::Rel, GRIDZ_MODE_REL),
            (Mode::Rate, GRIDZ_MODE_RATE),
            (Mode::Precision, GRIDZ_MODE_PRECISION),
            (Mode::Pwrel, GRIDZ_MODE_PWREL),
            (Mode::Rms, GRIDZ_MODE_RMS),
            (Mode::Expert, GRIDZ_MODE_EXPERT),
        ];
        assert_eq!(modes.map(|(mode, _)| mode), Mode::ALL);
        assert!(modes.iter().all(|&(mode, c)| u32::from(mode.id()) == c));
        assert_eq!(dtypes.map(|(dtype, _)| dtype), DType::ALL);
        assert!(dtypes.iter().all(|&(dtype, c)| u32::from(dtype.id()) == c));
    }

    #[test]
    fn every_codec_has_a_name() {
        for entry in CODECS {
            assert!(!name_of(entry.id).is_null());
        }
        assert!(name_of(255).is_null());
    }
}
