//! One chunk: frame, codec, fallback. The only place where they are put together.

mod context;
pub mod device;
mod gpu;
mod launch;
mod region;
mod staging;

use std::time::Instant;

pub use crate::codec::BlockCounts;
pub use crate::codec::mode::Mode;
pub use crate::codec::registry::MAX_EXTRAS;
pub use crate::codec::registry::STORED;
use crate::codec::registry::{self, Entry};
pub use crate::codec::request::Request;
/// The same, under the name that it had.
pub use crate::codec::request::Request as Spec;
use crate::codec::{Encoded, Job, Plan};
pub use crate::engine::context::{Context, check_backend, check_environment};
use crate::engine::gpu::{Destination, Source};
pub use crate::engine::region::decompress_region;
use crate::error::{Error, ErrorKind, Result};
use crate::format::fold::Fold;
use crate::format::header::{Header, header_bytes};
use crate::settings::{self, LogLevel};
use crate::types::{Array, ByteOrder, DType, Shape};

/// The back ends' names in the log, as in `GRIDZ_BACKEND`.
const CPU: &str = "cpu";
const CUDA: &str = "cuda";

/// What a frame says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameInfo {
    /// The array inside.
    pub array: Array,
    /// Number of the codec that wrote the payload.
    pub codec: u8,
    /// Its name, if this version has it.
    pub codec_name: Option<&'static str>,
    /// Bytes of the whole frame.
    pub frame_bytes: u64,
}

/// Whether decompression compares the payload with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Compare.
    Checksum,
    /// Only check what decoding needs to be safe.
    Structure,
}

/// Bytes that [`compress`] needs as destination: no chunk of this array, whatever its values, takes
/// more while it is being compressed. The result itself is never longer than the raw bytes and the
/// header.
///
/// # Errors
/// `InvalidArgument` if so many bytes cannot be addressed.
pub fn compress_bound(array: &Array, spec: &Spec) -> Result<u64> {
    let planned = spec.entry.codec.plan(array, spec.level).map_or(0, |plan| {
        let rank = array.shape().rank();
        header_bytes(rank, plan.params.len()) as u64 + plan.bound
    });
    let bound = stored_bytes(array).max(planned);
    isize::try_from(bound).map_err(|_| Error::invalid(format!("a chunk of {bound} bytes cannot be addressed")))?;
    Ok(bound)
}

/// Bytes of `array` as a `stored` frame: no frame that [`compress`] returns is longer.
pub fn stored_bytes(array: &Array) -> u64 {
    header_bytes(array.shape().rank(), 0) as u64 + array.n_bytes()
}

/// Compresses the chunk `src` of `array` into a frame at the start of `dst` and returns its bytes.
///
/// # Errors
/// `InvalidArgument` if `src` is not as long as the array, `DstTooSmall` if `dst` is shorter than
/// [`compress_bound`], `OutOfMemory`; `Device` where a GPU is required and fails.
pub fn compress(array: &Array, spec: &Spec, src: &[u8], dst: &mut [u8], context: &Context) -> Result<usize> {
    let settings = context.settings()?;
    gpu::check(settings)?;
    check_source(array, src.len() as u64)?;
    let need = compress_bound(array, spec)?;
    if (dst.len() as u64) < need {
        return Err(too_small(dst.len() as u64, need));
    }
    let begin = Instant::now();
    let plan = spec.entry.codec.plan(array, spec.level);
    // What is only copied is copied fastest where it is.
    let by_gpu = match &plan {
        Some(_) if spec.entry.id != STORED => gpu::attempt(context, array.n_bytes(), |device| {
            gpu::compress(device, array, spec, Source::Host(src), Destination::Host(&mut *dst), context)
        })?,
        _ => None,
    };
    let (n_bytes, backend) = match (by_gpu, &plan) {
        (Some(n_bytes), _) => (n_bytes, CUDA),
        (None, Some(plan)) => (encode(array, spec.entry, plan, src, dst, context)?, CPU),
        (None, None) => (store(array, src, dst)?, CPU),
    };
    log_compressed(array, spec, n_bytes, begin, backend);
    Ok(n_bytes)
}

/// Writes `src` as a `stored` frame, which every array can be, and returns its bytes.
///
/// # Errors
/// `InvalidArgument` if `src` is not as long as the array, `DstTooSmall` if `dst` has no room for it
/// and the header.
pub fn store(array: &Array, src: &[u8], dst: &mut [u8]) -> Result<usize> {
    check_source(array, src.len() as u64)?;
    let need = stored_bytes(array);
    if (dst.len() as u64) < need {
        return Err(too_small(dst.len() as u64, need));
    }
    let (entry, plan) = stored(array);
    encode(array, entry, &plan, src, dst, &Context::lenient())
}

/// The row of `stored` and its plan for an array.
fn stored(array: &Array) -> (&'static Entry, Plan) {
    let entry = registry::find(STORED).expect("stored is in the table");
    (entry, entry.codec.plan(array, 0).expect("stored takes every array"))
}

fn check_source(array: &Array, have: u64) -> Result<()> {
    let need = array.n_bytes();
    if have != need {
        return Err(Error::invalid(format!("the source has {have} bytes, the array {need}")));
    }
    Ok(())
}

/// Encodes with one codec, or stores what that does not shrink: bytes of the frame.
fn encode(
    array: &Array,
    entry: &Entry,
    plan: &Plan,
    src: &[u8],
    dst: &mut [u8],
    context: &Context,
) -> Result<usize> {
    let (header_dst, payload_dst) = dst.split_at_mut(header_bytes(array.shape().rank(), plan.params.len()));
    let job = job(array, entry, plan.fold, &plan.params, true, context)?;
    let mut swapped;
    let little = if is_swapped(array, entry) {
        swapped = context.scratch(src.len())?;
        swapped.copy_from_slice(src);
        swap_bytes(&mut swapped, array.dtype());
        &swapped
    } else {
        src
    };
    let Encoded { n_bytes, sums } = entry.codec.encode(&job, little, payload_dst)?;
    if (header_dst.len() + n_bytes) as u64 >= stored_bytes(array) && entry.id != STORED {
        return store(array, src, dst);
    }
    let header = header_of(array, entry, plan.fold, &plan.params);
    Header { payload_bytes: n_bytes as u64, payload_checksum: sums.checksum(n_bytes as u64), ..header }
        .emit(header_dst);
    Ok(header_dst.len() + n_bytes)
}

/// The header of a frame without payload.
fn header_of<'a>(array: &Array, entry: &Entry, fold: Fold, params: &'a [u8]) -> Header<'a> {
    let (codec, codec_version) = (entry.id, entry.version);
    Header { codec, codec_version, fold, array: *array, params, payload_bytes: 0, payload_checksum: 0 }
}

fn log_compressed(array: &Array, spec: &Spec, n_bytes: usize, begin: Instant, backend: &str) {
    // What a codec shrinks is shorter than a stored frame.
    let name = if n_bytes as u64 == stored_bytes(array) { "stored" } else { spec.name() };
    log("compressed", array, name, (array.n_bytes(), n_bytes as u64), begin, backend);
}

/// One line for one chunk, if they are wanted.
fn log(done: &str, array: &Array, codec: &str, (from, to): (u64, u64), begin: Instant, backend: &str) {
    settings::log(LogLevel::Debug, || {
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        let (dtype, shape) = (array.dtype().name(), array.shape());
        format!("{done} {dtype} {shape:?} by {codec}: {from} -> {to} bytes in {ms:.3} ms on {backend}")
    });
}

/// What `frame` is. Reads the header only; the payload may be missing.
///
/// # Errors
/// `Truncated`, `Corrupt` or `UnsupportedFormat` for a header that cannot be used.
pub fn inspect(frame: &[u8]) -> Result<FrameInfo> {
    let header = Header::parse(frame)?;
    Ok(FrameInfo {
        array: header.array,
        codec: header.codec,
        codec_name: registry::find(header.codec).map(|entry| entry.name),
        frame_bytes: header.frame_bytes()?,
    })
}

/// Counts the blocks of the payload in `frame` by how they are coded, and compares their checks.
///
/// # Errors
/// `UnsupportedJob` for codecs that have no kinds of blocks, `Truncated`, `Corrupt`, `UnsupportedFormat`.
pub fn count_blocks(frame: &[u8], context: &Context) -> Result<BlockCounts> {
    let header = Header::parse(frame)?;
    let entry = entry_of(&header)?;
    let payload = &frame[header.n_bytes()..];
    check_payload(&header, payload.len() as u64)?;
    let job = job(&header.array, entry, header.fold, header.params, true, context)?;
    entry
        .codec
        .count_blocks(&job, payload)
        .unwrap_or_else(|| Err(Error::unsupported(format!("blocks of {} are all of one kind", entry.name))))
}

/// What a codec is told of a chunk.
fn job<'a>(
    array: &Array,
    entry: &Entry,
    fold: Fold,
    params: &'a [u8],
    verify: bool,
    context: &'a Context,
) -> Result<Job<'a>> {
    let shape = codec_shape(array, entry, fold);
    Ok(Job { dtype: array.dtype(), shape, params, pool: context.pool(), level: context.level()?, verify })
}

/// Bytes to allocate for the array in `frame`, which may be damaged or hostile and must not choose
/// that freely: at most `expected`, the bytes its owner knows it should have, or, where nobody knows,
/// what a payload of its length can expand to.
///
/// # Errors
/// As [`inspect`]; `Corrupt` if the frame asks for more, `UnsupportedFormat` if its codec is unknown.
pub fn array_bytes(frame: &[u8], expected: Option<u64>) -> Result<u64> {
    let header = Header::parse(frame)?;
    let entry = entry_of(&header)?;
    let payload_bytes = header.frame_bytes()?.min(frame.len() as u64) - header.n_bytes() as u64;
    let possible = payload_bytes.saturating_mul(entry.max_expansion);
    let limit = match expected {
        // A filter that ran before may have made the chunk longer; that costs no more than the payload.
        Some(expected) if entry.id == STORED => expected.max(possible),
        Some(expected) => expected,
        None => possible,
    };
    let n_bytes = header.array.n_bytes();
    if n_bytes > limit {
        let text = format!("the frame claims an array of {n_bytes} bytes where at most {limit} can be");
        return Err(Error::corrupt(text));
    }
    Ok(n_bytes)
}

/// The codec of a frame.
fn entry_of(header: &Header) -> Result<&'static Entry> {
    let (codec, version) = (header.codec, header.codec_version);
    registry::find(codec).filter(|entry| entry.reads.contains(&version)).ok_or_else(|| {
        let ours = crate::VERSION;
        let text =
            format!("codec {codec} version {version} is unknown to gridz {ours}; a newer gridz may read this data");
        Error::new(ErrorKind::UnsupportedFormat, text)
    })
}

/// Decompresses `frame`, which must be exactly one frame, to the start of `dst` and returns the
/// array's bytes. After an error the contents of `dst` are unspecified.
///
/// # Errors
/// `DstTooSmall` if the array does not fit, `Truncated`, `Corrupt`, `UnsupportedFormat`,
/// `OutOfMemory`; `Device` where a GPU is required and fails.
pub fn decompress(frame: &[u8], dst: &mut [u8], verify: Verify, context: &Context) -> Result<usize> {
    let settings = context.settings()?;
    gpu::check(settings)?;
    let header = Header::parse(frame)?;
    let array = &header.array;
    let entry = entry_of(&header)?;
    let payload = &frame[header.n_bytes()..];
    check_payload(&header, payload.len() as u64)?;
    let n_bytes = array.n_bytes();
    let have = dst.len() as u64;
    let dst = dst.get_mut(..n_bytes as usize).ok_or_else(|| too_small(have, n_bytes))?;
    let begin = Instant::now();
    let by_gpu = match entry.id {
        STORED => None,
        _ => gpu::attempt(context, n_bytes, |device| {
            gpu::decompress(device, &header, Source::Host(frame), Destination::Host(&mut *dst), verify, context)
        })?,
    };
    let backend = match by_gpu {
        Some(()) => CUDA,
        None => {
            decode(&header, entry, payload, dst, verify, context)?;
            CPU
        }
    };
    log("decompressed", array, entry.name, (frame.len() as u64, n_bytes), begin, backend);
    Ok(n_bytes as usize)
}

/// Decodes a payload into all of `dst`.
fn decode(
    header: &Header,
    entry: &Entry,
    payload: &[u8],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let array = &header.array;
    let job = job(array, entry, header.fold, header.params, verify == Verify::Checksum, context)?;
    let sums = entry.codec.decode(&job, payload, dst)?;
    if verify == Verify::Checksum && sums.checksum(header.payload_bytes) != header.payload_checksum {
        return Err(Error::corrupt("the data is damaged: its checksum does not match"));
    }
    if is_swapped(array, entry) {
        swap_bytes(dst, array.dtype());
    }
    Ok(())
}

/// Whether exactly the frame's payload follows the header.
fn check_payload(header: &Header, have: u64) -> Result<()> {
    let need = header.payload_bytes;
    if have < need {
        return Err(Error::new(ErrorKind::Truncated, format!("the frame has {have} of {need} bytes of payload")));
    }
    if have > need {
        return Err(Error::corrupt(format!("{} bytes follow the frame", have - need)));
    }
    Ok(())
}

/// The shape that a codec sees.
fn codec_shape(array: &Array, entry: &Entry, fold: Fold) -> Shape {
    if entry.verbatim { *array.shape() } else { fold.apply(array.shape(), entry.codec.max_rank()) }
}

/// Codecs see little-endian elements.
fn is_swapped(array: &Array, entry: &Entry) -> bool {
    array.order() == ByteOrder::Big && !entry.verbatim
}

/// Reverses the bytes of every number; elements that are no numbers have no order to change.
fn swap_bytes(bytes: &mut [u8], dtype: DType) {
    if let Some(size) = dtype.number_size() {
        bytes.chunks_exact_mut(size as usize).for_each(<[u8]>::reverse);
    }
}

fn too_small(have: u64, need: u64) -> Error {
    Error::new(
        ErrorKind::DstTooSmall { need },
        format!("a destination of {have} bytes is too small; {need} are needed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_swapped_number_by_number() {
        let swapped = |dtype| {
            let mut bytes: Vec<u8> = (1..=8).collect();
            swap_bytes(&mut bytes, dtype);
            bytes
        };
        assert_eq!(swapped(DType::F64), [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(swapped(DType::F32), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(swapped(DType::C64), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(swapped(DType::Opaque), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
