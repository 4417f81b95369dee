//! One chunk: frame, codec, fallback. The only place where they are put together.

pub mod device;
mod gpu;

use std::time::Instant;

pub use crate::codec::registry::STORED;
use crate::codec::registry::{self, Entry};
use crate::codec::{Encoded, Job, Plan};
use crate::cpu::pool::Pool;
use crate::error::{Error, ErrorKind, Result};
use crate::format::fold::Fold;
use crate::format::header::{Header, header_bytes};
use crate::settings::{self, Backend, LogLevel, Settings};
use crate::types::{Array, ByteOrder, DType};

/// The back ends' names in the log, as in `GRIDZ_BACKEND`.
const CPU: &str = "cpu";
const CUDA: &str = "cuda";

/// Whether what `GRIDZ_*` demands is there, for those who can still tell somebody: who demands the GPU
/// gets an error where there is none, never the CPU in silence.
///
/// # Errors
/// `InvalidArgument` for an environment variable that cannot be used, `Device` saying why there is no
/// GPU.
pub fn check_backend() -> Result<()> {
    gpu::check(settings::checked()?)
}

/// What to compress with.
#[derive(Clone, Copy)]
pub struct Spec {
    entry: &'static Entry,
    level: u16,
}

impl Spec {
    /// Codec `codec` at `level`, where 0 is the codec's default.
    ///
    /// # Errors
    /// `UnsupportedJob` naming what this version has.
    pub fn new(codec: u32, level: u32) -> Result<Self> {
        let entry = u8::try_from(codec).ok().and_then(registry::find).ok_or_else(|| {
            let available = registry::available();
            Error::unsupported(format!("codec {codec} is unknown to gridz {}; it has {available}", crate::VERSION))
        })?;
        let level = u16::try_from(level).ok().filter(|&level| level <= entry.max_level).ok_or_else(|| {
            let Entry { name, max_level, .. } = entry;
            Error::unsupported(match max_level {
                0 => format!("{name} knows only level 0, not {level}"),
                _ => format!("{name} has levels 0 to {max_level}, not {level}"),
            })
        })?;
        Ok(Self { entry, level })
    }

    /// The codec's number.
    pub fn codec(&self) -> u8 {
        self.entry.id
    }

    /// The codec's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// The level, 0 = default.
    pub fn level(&self) -> u16 {
        self.level
    }
}

impl Default for Spec {
    /// The default lossless codec of this version.
    fn default() -> Self {
        Self::new(u32::from(registry::DEFAULT), 0).expect("the default codec is in the table")
    }
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} level {}", self.name(), self.level)
    }
}

/// Resources of a caller: threads and memory. `Default` means the pool of the process and no limit.
/// May be used from several threads at once.
#[derive(Debug, Default)]
pub struct Context {
    pool: Option<Pool>,
    memory_limit: Option<u64>,
    settings: Option<Settings>,
}

impl Context {
    /// A context with its own `threads` workers (`None`: the pool of the process) that may allocate at
    /// most `memory_limit` bytes of working memory per call.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 threads or more than 1024.
    pub fn new(threads: Option<usize>, memory_limit: Option<u64>) -> Result<Self> {
        if threads.is_some_and(|n| !(1..=settings::MAX_THREADS).contains(&n)) {
            let max = settings::MAX_THREADS;
            return Err(Error::invalid(format!("a context has 1 to {max} threads")));
        }
        Ok(Self { pool: threads.map(Pool::new), memory_limit, settings: None })
    }

    /// The same context for one back end, whatever `GRIDZ_BACKEND` says, and for GPU `device`, counted from
    /// 0, or the one that gridz chooses.
    ///
    /// # Errors
    /// `Device` if that is [`Backend::Cuda`] and no GPU can be used, `InvalidArgument` for one that is not
    /// there.
    pub fn on(self, backend: Backend, device: Option<u32>) -> Result<Self> {
        let settings = settings::or_default().clone();
        let settings = Settings { backend, device: device.or(settings.device), ..settings };
        gpu::check(&settings)?;
        Ok(Self { settings: Some(settings), ..self })
    }

    fn settings(&self) -> &Settings {
        self.settings.as_ref().unwrap_or_else(|| settings::or_default())
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap_or_else(|| Pool::global())
    }

    /// Working memory, zeroed.
    fn scratch(&self, n_bytes: usize) -> Result<Vec<u8>> {
        let need = n_bytes as u64;
        if let Some(limit) = self.memory_limit.filter(|&limit| limit < need) {
            let text = format!("{need} bytes of working memory are over the context's limit of {limit}");
            return Err(Error::new(ErrorKind::OutOfMemory, text));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(n_bytes).map_err(|_| Error::out_of_memory(need, "working memory"))?;
        bytes.resize(n_bytes, 0);
        Ok(bytes)
    }
}

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
    let planned = spec.entry.codec.plan(array).map_or(0, |plan| {
        let rank = array.shape().rank();
        header_bytes(rank, plan.params.len()) as u64 + plan.bound
    });
    let bound = stored_bytes(array).max(planned);
    isize::try_from(bound).map_err(|_| Error::invalid(format!("a chunk of {bound} bytes cannot be addressed")))?;
    Ok(bound)
}

/// Bytes of `array` as a `stored` frame: no frame that [`compress`] returns is longer, unless by the
/// codec's parameters in its header.
pub fn stored_bytes(array: &Array) -> u64 {
    header_bytes(array.shape().rank(), 0) as u64 + array.n_bytes()
}

/// Compresses the chunk `src` of `array` into a frame at the start of `dst` and returns its bytes.
///
/// # Errors
/// `InvalidArgument` if `src` is not as long as the array, `DstTooSmall` if `dst` is shorter than
/// [`compress_bound`], `OutOfMemory`; `Device` where a GPU is required and fails.
pub fn compress(array: &Array, spec: &Spec, src: &[u8], dst: &mut [u8], context: &Context) -> Result<usize> {
    gpu::check(context.settings())?;
    check_source(array, src.len() as u64)?;
    let need = compress_bound(array, spec)?;
    if (dst.len() as u64) < need {
        return Err(too_small(dst.len() as u64, need));
    }
    let begin = Instant::now();
    let encoded = match spec.entry.codec.plan(array) {
        Some(plan) => encode(array, spec.entry, &plan, src, dst, context)?,
        None => None,
    };
    let (n_bytes, backend) = match encoded {
        Some(done) => done,
        None => (store(array, src, dst)?, CPU),
    };
    settings::log(LogLevel::Debug, || {
        let (ms, codec) = (begin.elapsed().as_secs_f64() * 1e3, dst[5]);
        let name = registry::find(codec).map_or("?", |entry| entry.name);
        let (dtype, shape) = (array.dtype().name(), array.shape());
        format!(
            "compressed {dtype} {shape:?} by {name}: {} -> {n_bytes} bytes in {ms:.3} ms on {backend}",
            src.len()
        )
    });
    Ok(n_bytes)
}

/// Writes `src` as a `stored` frame, which every array can be, and returns its bytes.
///
/// # Errors
/// `InvalidArgument` if `src` is not as long as the array, `DstTooSmall` if `dst` has no room for it
/// and the header.
pub fn store(array: &Array, src: &[u8], dst: &mut [u8]) -> Result<usize> {
    check_source(array, src.len() as u64)?;
    let entry = registry::find(registry::STORED).expect("stored is in the table");
    let plan = entry.codec.plan(array).expect("stored takes every array");
    let need = stored_bytes(array);
    if (dst.len() as u64) < need {
        return Err(too_small(dst.len() as u64, need));
    }
    let done = encode(array, entry, &plan, src, dst, &Context::default())?;
    Ok(done.expect("stored is never refused for its size").0)
}

fn check_source(array: &Array, have: u64) -> Result<()> {
    let need = array.n_bytes();
    if have != need {
        return Err(Error::invalid(format!("the source has {have} bytes, the array {need}")));
    }
    Ok(())
}

/// Encodes with one codec: bytes of the frame, and what computed it. `None` if the codec does not shrink
/// the chunk.
fn encode(
    array: &Array,
    entry: &Entry,
    plan: &Plan,
    src: &[u8],
    dst: &mut [u8],
    context: &Context,
) -> Result<Option<(usize, &'static str)>> {
    let (header_dst, payload_dst) = dst.split_at_mut(header_bytes(array.shape().rank(), plan.params.len()));
    let job = job(array, entry, plan.fold, &plan.params, context);
    let mut swapped;
    let src = if is_swapped(array, entry) {
        swapped = context.scratch(src.len())?;
        swapped.copy_from_slice(src);
        swap_bytes(&mut swapped, array.dtype());
        &swapped
    } else {
        src
    };
    let by_gpu = match entry.gpu {
        Some(gpu) => gpu::attempt(context, array.n_bytes(), |device| {
            gpu::encode(gpu, &job, src, &mut payload_dst[..plan.bound as usize], device)
        })?,
        None => None,
    };
    let (encoded, backend) = match by_gpu {
        Some(encoded) => (encoded, CUDA),
        None => (entry.codec.encode(&job, src, payload_dst)?, CPU),
    };
    let n_bytes = encoded.n_bytes;
    if n_bytes >= src.len() && entry.id != registry::STORED {
        return Ok(None);
    }
    header_of(array, entry, plan, &encoded).emit(header_dst);
    Ok(Some((header_dst.len() + n_bytes, backend)))
}

fn header_of<'a>(array: &Array, entry: &Entry, plan: &'a Plan, encoded: &Encoded) -> Header<'a> {
    Header {
        codec: entry.id,
        codec_version: entry.version,
        fold: plan.fold,
        array: *array,
        params: &plan.params,
        payload_bytes: encoded.n_bytes as u64,
        payload_checksum: encoded.sums.mixed(),
    }
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
    registry::find(codec).filter(|entry| entry.version == version).ok_or_else(|| {
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
    gpu::check(context.settings())?;
    let header = Header::parse(frame)?;
    let array = &header.array;
    let entry = entry_of(&header)?;
    let payload = &frame[header.n_bytes()..];
    check_payload(&header, payload.len() as u64)?;
    let n_bytes = array.n_bytes();
    let have = dst.len() as u64;
    let dst = dst.get_mut(..n_bytes as usize).ok_or_else(|| too_small(have, n_bytes))?;
    let begin = Instant::now();
    let job = job(array, entry, header.fold, header.params, context);
    let by_gpu = match entry.gpu {
        Some(gpu) => gpu::attempt(context, n_bytes, |device| gpu::decode(gpu, &job, payload, dst, device))?,
        None => None,
    };
    let (sums, backend) = match by_gpu {
        Some(sums) => (sums, CUDA),
        None => (entry.codec.decode(&job, payload, dst)?, CPU),
    };
    if verify == Verify::Checksum && sums.mixed() != header.payload_checksum {
        return Err(Error::corrupt("the data is damaged: its checksum does not match"));
    }
    if is_swapped(array, entry) {
        swap_bytes(dst, array.dtype());
    }
    settings::log(LogLevel::Debug, || {
        let (ms, name) = (begin.elapsed().as_secs_f64() * 1e3, entry.name);
        let (dtype, shape) = (array.dtype().name(), array.shape());
        format!(
            "decompressed {dtype} {shape:?} by {name}: {} -> {n_bytes} bytes in {ms:.3} ms on {backend}",
            frame.len()
        )
    });
    Ok(n_bytes as usize)
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

fn job<'a>(array: &Array, entry: &Entry, fold: Fold, params: &'a [u8], context: &'a Context) -> Job<'a> {
    let shape = if entry.verbatim { *array.shape() } else { fold.apply(array.shape(), entry.codec.max_rank()) };
    Job { dtype: array.dtype(), shape, params, pool: context.pool() }
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
