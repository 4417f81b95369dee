//! Batches of chunks in GPU memory: nothing here waits for the GPU.

use crate::codec::gpu::{Direction, FRAME_ALIGNMENT, Memory};
use crate::cuda::{Device, DeviceSlice, StreamHandle, gpu_of_address};
use crate::engine::launch::Plan;
use crate::engine::{Context, Spec, Verify, compress_bound};
use crate::error::{Error, ErrorKind, Result};
use crate::settings::Backend;
use crate::types::Array;

/// Chunks of one type and shape, and where they and their frames are: chunk `i` is `i * array_stride` bytes
/// behind the first, frame `i` likewise.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// What each chunk is.
    pub array: Array,
    /// How many there are, below 2^31.
    pub n_chunks: usize,
    /// Bytes from array to array, at least those of one. Means nothing where there is one chunk.
    pub array_stride: u64,
    /// Bytes from frame to frame: a multiple of 16, at least [`compress_bound`].
    pub frame_stride: u64,
}

/// The GPU memory of a batch. Nothing of it may overlap.
#[derive(Debug, Clone, Copy)]
pub struct BatchMemory<'a> {
    /// The arrays, aligned as the numbers that the codec looks at; [`Batch::spans`] has their bytes.
    pub arrays: DeviceSlice<'a>,
    /// The slots for frames, 16-byte aligned; [`Batch::spans`] has their bytes.
    pub frames: DeviceSlice<'a>,
    /// A u64 for the bytes of each frame, 8-byte aligned.
    pub frame_bytes: DeviceSlice<'a>,
    /// [`async_workspace_bytes`], 8-byte aligned; `None`: from a stream-ordered pool of gridz.
    pub workspace: Option<DeviceSlice<'a>>,
}

/// What the memory of a batch is called in an error: as the arguments of the C function.
struct Names {
    arrays: &'static str,
    frames: &'static str,
    array_stride: &'static str,
    frame_stride: &'static str,
}

fn names(direction: Direction) -> Names {
    match direction {
        Direction::Compress => {
            Names { arrays: "src", frames: "dst", array_stride: "src_stride", frame_stride: "dst_stride" }
        }
        Direction::Decompress => {
            Names { arrays: "dst", frames: "frames", array_stride: "dst_stride", frame_stride: "frame_stride" }
        }
    }
}

impl Batch {
    /// Bytes from the first array to the end of the last, and the same for the slots of frames.
    ///
    /// # Errors
    /// `InvalidArgument` naming what is wrong with a stride, or if so many bytes cannot be addressed.
    pub fn spans(&self, spec: &Spec, direction: Direction) -> Result<(u64, u64)> {
        if self.n_chunks == 0 {
            return Ok((0, 0));
        }
        let names = names(direction);
        let (array_bytes, bound) = (self.array.n_bytes(), compress_bound(&self.array, spec)?);
        let alignment = self.alignment(spec);
        let (stride, name) = (self.array_stride, names.array_stride);
        if self.n_chunks > 1 && (stride < array_bytes || !stride.is_multiple_of(alignment)) {
            let text = format!("{name} is {stride}; it must be a multiple of {alignment}, at least {array_bytes}");
            return Err(Error::invalid(text));
        }
        let slot_bytes = bound.next_multiple_of(FRAME_ALIGNMENT);
        let (stride, name) = (self.frame_stride, names.frame_stride);
        if stride < slot_bytes || !stride.is_multiple_of(FRAME_ALIGNMENT) {
            let text =
                format!("{name} is {stride}; it must be a multiple of {FRAME_ALIGNMENT}, at least {slot_bytes}");
            return Err(Error::invalid(text));
        }
        let span = |name: &str, stride: u64, last: u64| {
            let before = (self.n_chunks as u64 - 1).checked_mul(stride);
            let span = before.and_then(|before| before.checked_add(last)).filter(|&n| i64::try_from(n).is_ok());
            let n_chunks = self.n_chunks;
            span.ok_or_else(|| {
                Error::invalid(format!("{n_chunks} chunks with a {name} of {stride} cannot be addressed"))
            })
        };
        Ok((
            span(names.array_stride, self.array_stride, array_bytes)?,
            span(names.frame_stride, self.frame_stride, slot_bytes)?,
        ))
    }

    /// What kernels want the addresses of arrays to be a multiple of.
    fn alignment(&self, spec: &Spec) -> u64 {
        match spec.entry.codec.plan(&self.array, spec.level()) {
            Some(_) if !spec.entry.verbatim => u64::from(self.array.element_size()),
            _ => 1,
        }
    }
}

/// One memory of a call, by its name.
type Named<'a> = (&'static str, DeviceSlice<'a>);

/// All memory of a call, once kernels can be given it as far as the host can see.
fn check<'a>(
    batch: &Batch,
    memory: &BatchMemory<'a>,
    statuses: Option<DeviceSlice<'a>>,
    spec: &Spec,
    direction: Direction,
) -> Result<Vec<Named<'a>>> {
    let names = names(direction);
    let (array_span, frame_span) = batch.spans(spec, direction)?;
    let n_chunks = batch.n_chunks as u64;
    let all = [
        Some((names.arrays, memory.arrays, array_span, batch.alignment(spec))),
        Some((names.frames, memory.frames, frame_span, FRAME_ALIGNMENT)),
        Some(("frame_bytes", memory.frame_bytes, 8 * n_chunks, 8)),
        statuses.map(|statuses| ("statuses", statuses, 4 * n_chunks, 4)),
        memory.workspace.map(|workspace| ("workspace", workspace, 0, 8)),
    ];
    let mut checked: Vec<Named> = Vec::with_capacity(all.len());
    for (name, slice, need, alignment) in all.into_iter().flatten() {
        let (start, have) = (slice.address(), slice.n_bytes());
        if have < need {
            return Err(Error::invalid(format!("{name} has {have} bytes; {need} are needed")));
        }
        if have == 0 {
            continue;
        }
        if !start.is_multiple_of(alignment) {
            let text = format!("{name} is at {start:#x}; it must be aligned to {alignment} bytes");
            return Err(Error::invalid(text));
        }
        let overlaps =
            |other: &DeviceSlice| start < other.address() + other.n_bytes() && other.address() < start + have;
        if let Some((other, _)) = checked.iter().find(|(_, other)| overlaps(other)) {
            return Err(Error::invalid(format!("{other} and {name} overlap; give each memory of its own")));
        }
        checked.push((name, slice));
    }
    Ok(checked)
}

/// Gives the compression of a batch to a stream. When the stream has done it, each frame is at the start of its
/// slot, its bytes are in `frame_bytes`, and what follows it in the slot is unspecified. All memory has to stay
/// alive until then, as who made the [`StreamHandle`] has promised.
///
/// # Errors
/// `InvalidArgument` naming the memory or stride that cannot be used, `UnsupportedJob` for too large a batch,
/// `Device`, `OutOfMemory`.
pub fn compress_async(
    batch: &Batch,
    memory: &BatchMemory,
    spec: &Spec,
    stream: StreamHandle,
    context: &Context,
) -> Result<()> {
    enqueue(batch, memory, None, (spec, Verify::Checksum), stream, context)
}

/// Gives the decompression of a batch to a stream. When the stream has done it, there is an i32 for each frame in
/// `statuses`: 0, or the status of C for a damaged or truncated frame, whose array is unspecified then. A frame
/// that is not of the batch's array and `spec`, or stored, is damaged. `frame_bytes` is only read.
///
/// # Errors
/// As [`compress_async`].
pub fn decompress_async(
    batch: &Batch,
    memory: &BatchMemory,
    statuses: DeviceSlice,
    spec: &Spec,
    verify: Verify,
    stream: StreamHandle,
    context: &Context,
) -> Result<()> {
    enqueue(batch, memory, Some(statuses), (spec, verify), stream, context)
}

/// Compression, or decompression where there are `statuses`.
fn enqueue(
    batch: &Batch,
    memory: &BatchMemory,
    statuses: Option<DeviceSlice>,
    (spec, verify): (&Spec, Verify),
    stream: StreamHandle,
    context: &Context,
) -> Result<()> {
    let direction = if statuses.is_some() { Direction::Decompress } else { Direction::Compress };
    if batch.n_chunks == 0 {
        return Ok(());
    }
    check_gpu_wanted(context)?;
    let all = check(batch, memory, statuses, spec, direction)?;
    let frames = names(direction).frames;
    let stream = stream.open(|| Device::of_memory(&[memory.frames])).map_err(|error| match error.kind() {
        ErrorKind::InvalidArgument => not_gpu_memory(frames),
        _ => error,
    })?;
    let device = stream.device();
    context.check_device(device)?;
    let _entered = device.enter()?;
    for (name, slice) in all {
        if !device.reaches(slice)? {
            return Err(match gpu_of_address(slice.address()) {
                Some(other) => Error::invalid(format!(
                    "{name} is memory of GPU {other}, to which GPU {} has no access, and the stream is there",
                    device.gpu().ordinal
                )),
                None => not_gpu_memory(name),
            });
        }
    }
    let plan = plan(direction, &batch.array, spec, verify)?;
    let stride = if batch.n_chunks > 1 { batch.array_stride } else { 0 };
    let launch = plan.launch(device, batch.n_chunks as u64, memory.arrays.address() | stride)?;
    let need = launch.scratch_bytes();
    let ours;
    let scratch = match memory.workspace {
        Some(workspace) if workspace.n_bytes() < need => {
            let have = workspace.n_bytes();
            return Err(Error::invalid(format!(
                "workspace has {have} bytes; {need} are needed (gridz_async_workspace_bytes)"
            )));
        }
        Some(workspace) => workspace,
        None => {
            ours = stream.alloc(need)?;
            ours.all()
        }
    };
    let memory = Memory {
        arrays: memory.arrays,
        array_stride: batch.array_stride,
        frames: memory.frames,
        frame_stride: batch.frame_stride,
        slot_bytes: compress_bound(&batch.array, spec)?.next_multiple_of(FRAME_ALIGNMENT),
        frame_bytes: memory.frame_bytes,
        statuses,
    };
    launch.start(&stream, &plan.frames, &memory, scratch)
}

/// Bytes of workspace for compression or decompression of `n_chunks` chunks on `stream`, as far as the codec has kernels
/// for them. Afterwards those are loaded in its context, and such calls do nothing but give work to their stream.
///
/// # Errors
/// `Device`, `OutOfMemory`, `UnsupportedJob` for too large a batch and where there are no kernels at all.
pub fn async_workspace_bytes(
    array: &Array,
    n_chunks: usize,
    spec: &Spec,
    stream: StreamHandle,
    context: &Context,
) -> Result<u64> {
    let settings = context.settings()?;
    if n_chunks == 0 {
        return Ok(0);
    }
    check_gpu_wanted(context)?;
    let stream = stream.open(|| Device::choose(settings))?;
    context.check_device(stream.device())?;
    // What has been compressed by the CPU alone can be decompressed here.
    let decompress = plan(Direction::Decompress, array, spec, Verify::Checksum)?;
    let compress = Plan::by_spec(Direction::Compress, array, spec, Verify::Checksum);
    let mut most = 0;
    for plan in [Some(decompress), compress].into_iter().flatten() {
        // Nobody knows yet whether the arrays will be aligned.
        for address in [0, 1] {
            most = most.max(plan.launch(stream.device(), n_chunks as u64, address)?.scratch_bytes());
        }
    }
    Ok(most)
}

fn not_gpu_memory(name: &str) -> Error {
    Error::invalid(format!(
        "{name} is no memory that a GPU can use; gridz_compress and gridz_decompress take host memory"
    ))
}

fn plan(direction: Direction, array: &Array, spec: &Spec, verify: Verify) -> Result<Plan> {
    Plan::by_spec(direction, array, spec, verify).ok_or_else(|| {
        let text = match direction {
            Direction::Compress => "no kernels that compress; use gridz_compress, or another codec or level",
            Direction::Decompress => "no kernels that decompress; use gridz_decompress",
        };
        Error::unsupported(format!("{} at level {} has {text}", spec.name(), spec.level()))
    })
}

/// # Errors
/// `Device` if the GPU is ruled out.
fn check_gpu_wanted(context: &Context) -> Result<()> {
    match context.settings()?.backend {
        Backend::Cpu => Err(Error::device(
            "GRIDZ_BACKEND=cpu rules the GPU out, but asynchronous calls work on a GPU only; unset it, or use \
             gridz_compress and gridz_decompress",
        )),
        Backend::Auto | Backend::Cuda => Ok(()),
    }
}
