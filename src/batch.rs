//! Batches of chunks in GPU memory: nothing here waits for the GPU.
#![allow(unsafe_code, reason = "gives memory to a stream")]

use crate::backend::Attempt;
use crate::context::Context;
use crate::frame::{FRAME_ALIGNMENT, Verify};
use crate::launch::{GpuPlan, LaunchMemory};
use crate::packing::Packing;
use crate::prepared::Prepared;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::codec::request::Request;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::region::Region;
use gridz_codecs::settings::Backend;
use gridz_codecs::types::Array;
use gridz_cuda::{Device, DeviceSlice, Entered, Stream, StreamHandle, gpu_of_address};

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
    /// Bytes from frame to frame: a multiple of 16, at least [`compress_bound`](crate::compress_bound).
    pub frame_stride: u64,
}

/// A batch, and how its frames are made or read.
#[derive(Clone)]
pub struct PreparedBatch {
    batch: Batch,
    prepared: Prepared,
    /// What of each array is decompressed, if that is not everything.
    region: Option<Region>,
}

/// The GPU memory of a batch. Nothing of it may overlap.
#[derive(Debug, Clone, Copy)]
pub struct BatchMemory<'a> {
    /// The arrays, aligned as the numbers that the codec looks at; [`PreparedBatch::spans`] has their bytes.
    pub arrays: DeviceSlice<'a>,
    /// The slots for frames, 16-byte aligned; [`PreparedBatch::spans`] has their bytes.
    pub frames: DeviceSlice<'a>,
    /// A u64 for the bytes of each frame, 8-byte aligned.
    pub frame_bytes: DeviceSlice<'a>,
    /// [`async_workspace_bytes`], 8-byte aligned; `None`: from a stream-ordered pool of gridz.
    pub workspace: Option<DeviceSlice<'a>>,
}

/// What the memory of a batch is called in an error: as the arguments of the C function.
struct MemoryNames {
    arrays: &'static str,
    frames: &'static str,
    array_stride: &'static str,
    frame_stride: &'static str,
}

fn names(direction: Direction) -> MemoryNames {
    match direction {
        Direction::Compress => {
            MemoryNames { arrays: "src", frames: "dst", array_stride: "src_stride", frame_stride: "dst_stride" }
        }
        Direction::Decompress => MemoryNames {
            arrays: "dst",
            frames: "frames",
            array_stride: "dst_stride",
            frame_stride: "frame_stride",
        },
    }
}

impl Batch {
    /// Prepares the compression by `request`, or the decompression of what that makes.
    ///
    /// # Errors
    /// Those of [`Prepared::new`].
    pub fn prepare(&self, request: &Request) -> Result<PreparedBatch> {
        Ok(PreparedBatch { batch: *self, prepared: Prepared::new(&self.array, request)?, region: None })
    }

    /// Prepares the decompression of a region of what `request` makes: along each axis `count` elements from `start` on.
    /// What is said of arrays then holds for the regions.
    ///
    /// # Errors
    /// Those of [`Prepared::new`]; `InvalidArgument` if the region is not one of the array.
    pub fn prepare_region(&self, request: &Request, start: &[u64], count: &[u64]) -> Result<PreparedBatch> {
        let region = Region::new(self.array.shape(), start, count)?;
        Ok(PreparedBatch { region: Some(region), ..self.prepare(request)? })
    }
}

impl PreparedBatch {
    /// Bytes from the first array to the end of the last, and the same for the slots of frames.
    ///
    /// # Errors
    /// `InvalidArgument` naming what is wrong with a stride, or if so many bytes cannot be addressed.
    pub fn spans(&self, direction: Direction) -> Result<(u64, u64)> {
        let Batch { n_chunks, array_stride, frame_stride, .. } = self.batch;
        if n_chunks == 0 {
            return Ok((0, 0));
        }
        let names = names(direction);
        let (array_bytes, slot_bytes) = (self.array_bytes(), self.slot_bytes());
        let alignment = self.prepared.alignment();
        let (stride, name) = (array_stride, names.array_stride);
        if n_chunks > 1 && (stride < array_bytes || !stride.is_multiple_of(alignment)) {
            let text = format!("{name} is {stride}; it must be a multiple of {alignment}, at least {array_bytes}");
            return Err(Error::invalid(text));
        }
        let (stride, name) = (frame_stride, names.frame_stride);
        if stride < slot_bytes || !stride.is_multiple_of(FRAME_ALIGNMENT) {
            let text =
                format!("{name} is {stride}; it must be a multiple of {FRAME_ALIGNMENT}, at least {slot_bytes}");
            return Err(Error::invalid(text));
        }
        let span = |name: &str, stride: u64, last: u64| {
            let before = (n_chunks as u64 - 1).checked_mul(stride);
            let span = before.and_then(|before| before.checked_add(last)).filter(|&n| i64::try_from(n).is_ok());
            span.ok_or_else(|| {
                Error::invalid(format!("{n_chunks} chunks with a {name} of {stride} cannot be addressed"))
            })
        };
        Ok((
            span(names.array_stride, array_stride, array_bytes)?,
            span(names.frame_stride, frame_stride, slot_bytes)?,
        ))
    }

    /// Bytes of an array, or of the region of it that is wanted.
    fn array_bytes(&self) -> u64 {
        match &self.region {
            Some(region) => region.n_elements() * u64::from(self.batch.array.element_size()),
            None => self.batch.array.n_bytes(),
        }
    }

    /// Bytes of a slot that are a frame's.
    fn slot_bytes(&self) -> u64 {
        self.prepared.bound()
    }
}

/// One memory of a call, by its name.
type Named<'a> = (&'static str, DeviceSlice<'a>);

/// Most memories of a call.
const MEMORIES: usize = 5;

/// All memory of a call, once kernels can be given it as far as the host can see.
fn check<'a>(
    prepared: &PreparedBatch,
    memory: &BatchMemory<'a>,
    statuses: Option<DeviceSlice<'a>>,
    direction: Direction,
) -> Result<[Option<Named<'a>>; MEMORIES]> {
    let names = names(direction);
    let (array_span, frame_span) = prepared.spans(direction)?;
    let n_chunks = prepared.batch.n_chunks as u64;
    let all = [
        Some((names.arrays, memory.arrays, array_span, prepared.prepared.alignment())),
        Some((names.frames, memory.frames, frame_span, FRAME_ALIGNMENT)),
        Some(("frame_bytes", memory.frame_bytes, 8 * n_chunks, 8)),
        statuses.map(|statuses| ("statuses", statuses, 4 * n_chunks, 4)),
        memory.workspace.map(|workspace| ("workspace", workspace, 0, 8)),
    ];
    checked(all)
}

/// What a memory must be: its name, itself, the bytes that it must have and what its address is a multiple of.
type Wanted<'a> = (&'static str, DeviceSlice<'a>, u64, u64);

fn checked(all: [Option<Wanted>; MEMORIES]) -> Result<[Option<Named>; MEMORIES]> {
    let mut checked: [Option<Named>; MEMORIES] = [None; MEMORIES];
    for (i, (name, slice, need, alignment)) in all.into_iter().flatten().enumerate() {
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
        if let Some((other, _)) = checked.iter().flatten().find(|(_, other)| overlaps(other)) {
            return Err(Error::invalid(format!("{other} and {name} overlap; give each memory of its own")));
        }
        checked[i] = Some((name, slice));
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
    request: &Request,
    stream: StreamHandle,
    context: &Context,
) -> Result<()> {
    batch.prepare(request)?.compress(memory, stream, context)
}

/// Gives the decompression of a batch to a stream. When the stream has done it, there is an i32 for each frame in
/// `statuses`: 0, or the status of C for a damaged or truncated frame, whose array is unspecified then. A frame
/// that is not of the batch's array and `request`, or stored, is damaged. `frame_bytes` is only read.
///
/// # Errors
/// As [`compress_async`].
pub fn decompress_async(
    batch: &Batch,
    memory: &BatchMemory,
    statuses: DeviceSlice,
    request: &Request,
    verify: Verify,
    stream: StreamHandle,
    context: &Context,
) -> Result<()> {
    batch.prepare(request)?.decompress(memory, statuses, verify, stream, context)
}

impl PreparedBatch {
    /// As [`compress_async`].
    ///
    /// # Errors
    /// As that.
    pub fn compress(&self, memory: &BatchMemory, stream: StreamHandle, context: &Context) -> Result<()> {
        enqueue(self, Direction::Compress, memory, None, Verify::Checksum, stream, context)
    }

    /// As [`decompress_async`], of whole arrays or regions.
    ///
    /// # Errors
    /// As that.
    pub fn decompress(
        &self,
        memory: &BatchMemory,
        statuses: DeviceSlice,
        verify: Verify,
        stream: StreamHandle,
        context: &Context,
    ) -> Result<()> {
        enqueue(self, Direction::Decompress, memory, Some(statuses), verify, stream, context)
    }

    /// # Errors
    /// `UnsupportedJob` if there are no kernels: there is no way back to the CPU.
    fn plan(&self, direction: Direction, verify: Verify) -> Result<GpuPlan> {
        match &self.region {
            Some(region) => require(GpuPlan::region(&self.prepared, region, verify), "use gridz_decompress_region"),
            None => {
                let remedy = match direction {
                    Direction::Compress => "use gridz_compress, or another codec or level",
                    Direction::Decompress => "use gridz_decompress",
                };
                require(GpuPlan::new(direction, &self.prepared, verify), remedy)
            }
        }
    }
}

fn enqueue(
    prepared: &PreparedBatch,
    direction: Direction,
    memory: &BatchMemory,
    statuses: Option<DeviceSlice>,
    verify: Verify,
    stream: StreamHandle,
    context: &Context,
) -> Result<()> {
    let batch = &prepared.batch;
    if batch.n_chunks == 0 {
        return Ok(());
    }
    check_gpu_wanted(context)?;
    let all = check(prepared, memory, statuses, direction)?;
    let (stream, _entered) = open(stream, names(direction).frames, memory.frames, &all, context)?;
    let device = stream.device();
    let plan = prepared.plan(direction, verify)?;
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
    let memory = LaunchMemory {
        arrays: memory.arrays,
        array_stride: batch.array_stride,
        frames: memory.frames,
        frame_stride: batch.frame_stride,
        slot_bytes: prepared.slot_bytes(),
        frame_bytes: memory.frame_bytes,
        statuses,
    };
    // SAFETY: `check` has seen that all memory is as long and as aligned as it must be. Who made the handle of the
    // stream has promised that it lives long enough, and ours is freed in the stream's order.
    unsafe { launch.start(&stream, &memory, scratch) }
}

/// The stream, in its context, from which all memory is reached; a default stream is that of `memory`, which has this name.
fn open<'a>(
    stream: StreamHandle<'a>,
    name: &str,
    memory: DeviceSlice,
    all: &[Option<Named>],
    context: &Context,
) -> Result<(Stream<'a>, Entered)> {
    let stream = stream.open(|| Device::of_memory(&[memory])).map_err(|error| match error.kind() {
        ErrorKind::InvalidArgument => not_gpu_memory(name),
        _ => error,
    })?;
    let device = stream.device();
    context.check_device(device)?;
    let entered = device.enter()?;
    for &(name, slice) in all.iter().flatten() {
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
    Ok((stream, entered))
}

/// Waits for the work that a stream has, with which `memory` is made or used. A default stream is that of the current context, or of
/// this memory's if there is none. A stream that is being captured cannot be waited for.
///
/// # Errors
/// `Device`, also for what that work did wrong.
pub fn wait_for(stream: StreamHandle, memory: DeviceSlice) -> Result<()> {
    stream.open(|| Device::of_memory(&[memory]))?.synchronize()
}

/// Bytes of workspace for compression or decompression, also of regions, of `n_chunks` chunks on `stream`, as far as the codec has
/// kernels for them. Afterwards those are loaded in its context, and such calls do nothing but give work to their
/// stream.
///
/// # Errors
/// `Device`, `OutOfMemory`, `UnsupportedJob` for too large a batch and where there are no kernels at all.
pub fn async_workspace_bytes(
    array: &Array,
    n_chunks: usize,
    request: &Request,
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
    let prepared = Prepared::new(array, request)?;
    // What has been compressed by the CPU alone can be decompressed here.
    let decompress =
        require(GpuPlan::new(Direction::Decompress, &prepared, Verify::Checksum), "use gridz_decompress")?;
    let zeros = vec![0; array.shape().extents().len()];
    let of_region = |count: &[u64]| {
        let region = GpuPlan::region(&prepared, &Region::new(array.shape(), &zeros, count)?, Verify::Structure);
        require(region, "use gridz_decompress_region")
    };
    let compress = match GpuPlan::new(Direction::Compress, &prepared, Verify::Checksum) {
        Attempt::Done(plan) => Some(plan),
        Attempt::Unsupported(_) => None,
    };
    let bytes = |plan: &GpuPlan| {
        // Nobody knows yet whether the arrays will be aligned.
        let of = |address| Ok(plan.launch(stream.device(), n_chunks as u64, address)?.scratch_bytes());
        Ok(of(0)?.max(of(1)?))
    };
    let mut most = bytes(&decompress)?.max(bytes(&of_region(&zeros)?)?);
    if let Some(compress) = compress {
        most = most.max(bytes(&compress)?);
    }
    // No region needs more than all of the array. Of so many chunks that may be too much for one launch, as the call for such a
    // region says.
    match bytes(&of_region(array.shape().extents())?) {
        Err(error) if error.kind() == ErrorKind::UnsupportedJob => Ok(most),
        whole => Ok(most.max(whole?)),
    }
}

/// Gives work to a stream that moves frames from their slots to where they lie close together, behind which it knows the
/// offset of each. Frames without room are left out; the last offset, where they would end, tells it.
///
/// # Errors
/// As [`compress_async`].
pub fn pack_async(packing: &Packing, stream: StreamHandle, context: &Context) -> Result<()> {
    // SAFETY: `enqueue_packing` has seen that all memory is as long and as aligned as it must be. Who made the handle of the
    // stream has promised that it lives long enough.
    enqueue_packing(packing, packing.n_frames + 1, stream, context, |stream| unsafe { packing.pack(stream) })
}

/// Gives work to a stream that moves packed frames to slots. Frames that are not inside the packed memory, or longer than a
/// slot, have no bytes from then on.
///
/// # Errors
/// As [`compress_async`].
pub fn unpack_async(packing: &Packing, stream: StreamHandle, context: &Context) -> Result<()> {
    if packing.lengths.is_none() {
        return Err(Error::invalid("there is no memory for the lengths of frames that are unpacked"));
    }
    // SAFETY: as above.
    enqueue_packing(packing, packing.n_frames, stream, context, |stream| unsafe { packing.unpack(stream) })
}

/// `n_offsets`: so many are read or written.
fn enqueue_packing(
    packing: &Packing,
    n_offsets: u64,
    stream: StreamHandle,
    context: &Context,
    start: impl FnOnce(&Stream) -> Result<()>,
) -> Result<()> {
    let n = packing.n_frames;
    if n == 0 {
        return Ok(());
    }
    check_gpu_wanted(context)?;
    let stride = packing.slot_stride;
    if stride == 0 || !stride.is_multiple_of(FRAME_ALIGNMENT) {
        return Err(Error::invalid(format!(
            "frame_stride is {stride}; it must be a multiple of {FRAME_ALIGNMENT}"
        )));
    }
    let span = stride.checked_mul(n).ok_or_else(|| Error::invalid(format!("{n} frames cannot be addressed")))?;
    let checked = checked([
        Some(("frames", packing.slots, span, FRAME_ALIGNMENT)),
        Some(("packed", packing.packed, 0, FRAME_ALIGNMENT)),
        Some(("offsets", packing.offsets, n_offsets.saturating_mul(8), 8)),
        Some(("frame_bytes", packing.frame_bytes, 8 * n, 8)),
        packing.lengths.map(|lengths| ("lengths", lengths, 8 * n, 8)),
    ])?;
    let (stream, _entered) = open(stream, "frames", packing.slots, &checked, context)?;
    start(&stream)
}

fn not_gpu_memory(name: &str) -> Error {
    Error::invalid(format!(
        "{name} is no memory that a GPU can use; gridz_compress and gridz_decompress take host memory"
    ))
}

/// # Errors
/// `UnsupportedJob` if there are no kernels.
fn require(attempt: Attempt<GpuPlan>, remedy: &str) -> Result<GpuPlan> {
    match attempt {
        Attempt::Done(plan) => Ok(plan),
        Attempt::Unsupported(reason) => Err(Error::unsupported(format!("{reason}; {remedy}"))),
    }
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
