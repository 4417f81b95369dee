//! Batches of chunks in GPU memory. No call waits for the GPU unless its documentation says so.
#![allow(unsafe_code, reason = "gives memory to a stream")]

use crate::async_args::{MAX_ARGS, NamedSlice, check_args, check_gpu_allowed, open};
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
use gridz_codecs::types::Array;
use gridz_cuda::{Device, DeviceSlice, Stream, StreamHandle};

/// Chunks of one type and shape, and the positions of their arrays and frames: array `i` begins at
/// `i * array_stride` bytes, frame `i` at `i * frame_stride`.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// Type and shape of each chunk.
    pub array: Array,
    /// Number of chunks, below 2^31.
    pub n_chunks: usize,
    /// Bytes from array to array, at least the length of an array. Ignored if there is only one.
    pub array_stride: u64,
    /// Bytes from frame to frame: a multiple of 16, at least
    /// [`compress_bound`](crate::compress_bound).
    pub frame_stride: u64,
}

/// A batch with a codec and its decisions, so that they are not repeated per call.
#[derive(Clone)]
pub struct PreparedBatch {
    batch: Batch,
    prepared: Prepared,
    /// The region of each array to decompress; `None`: all of it.
    region: Option<Region>,
}

/// The GPU memory of a batch. The parts must not overlap.
#[derive(Debug, Clone, Copy)]
pub struct BatchMemory<'a> {
    /// The arrays, aligned to the codec's numbers. [`PreparedBatch::spans`] returns the length.
    pub arrays: DeviceSlice<'a>,
    /// The slots for frames, 16-byte aligned. [`PreparedBatch::spans`] returns the length.
    pub frames: DeviceSlice<'a>,
    /// A u64 for the length of each frame, 8-byte aligned.
    pub frame_bytes: DeviceSlice<'a>,
    /// [`async_workspace_bytes`] bytes, 8-byte aligned. `None`: taken from gridz's stream-ordered
    /// memory pool.
    pub workspace: Option<DeviceSlice<'a>>,
}

impl Batch {
    /// Prepares the compression by `request`, or the decompression of its frames.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn prepare(&self, request: &Request) -> Result<PreparedBatch> {
        Ok(PreparedBatch { batch: *self, prepared: Prepared::new(&self.array, request)?, region: None })
    }

    /// Prepares the decompression of a region of each array from frames of `request`: along each
    /// axis `count` elements from `start` on. Lengths and strides of arrays then refer to the
    /// regions.
    ///
    /// # Errors
    /// As [`Prepared::new`]; `InvalidArgument` if the region is not inside the array.
    pub fn prepare_region(&self, request: &Request, start: &[u64], count: &[u64]) -> Result<PreparedBatch> {
        let region = Region::new(self.array.shape(), start, count)?;
        Ok(PreparedBatch { region: Some(region), ..self.prepare(request)? })
    }
}

impl PreparedBatch {
    /// Bytes from the start of the first array to the end of the last, and the same for the slots
    /// of frames.
    ///
    /// # Errors
    /// `InvalidArgument` with the reason for a stride that cannot be used, or if that many bytes
    /// cannot be addressed.
    pub fn spans(&self) -> Result<(u64, u64)> {
        let Batch { n_chunks, array_stride, frame_stride, .. } = self.batch;
        if n_chunks == 0 {
            return Ok((0, 0));
        }
        let (array_bytes, slot_bytes) = (self.array_bytes(), self.slot_bytes());
        let alignment = self.prepared.alignment();
        let (stride, name) = (array_stride, "array_stride");
        if n_chunks > 1 && (stride < array_bytes || !stride.is_multiple_of(alignment)) {
            let text =
                format!("{name} is {stride}; it must be a multiple of {alignment} and at least {array_bytes}");
            return Err(Error::invalid(text));
        }
        let (stride, name) = (frame_stride, "frame_stride");
        if stride < slot_bytes || !stride.is_multiple_of(FRAME_ALIGNMENT) {
            let text =
                format!("{name} is {stride}; it must be a multiple of {FRAME_ALIGNMENT} and at least {slot_bytes}");
            return Err(Error::invalid(text));
        }
        let span = |name: &str, stride: u64, last: u64| {
            let before = (n_chunks as u64 - 1).checked_mul(stride);
            let span = before.and_then(|before| before.checked_add(last)).filter(|&n| i64::try_from(n).is_ok());
            span.ok_or_else(|| {
                Error::invalid(format!("{n_chunks} chunks with a {name} of {stride} exceed the address space"))
            })
        };
        Ok((span("array_stride", array_stride, array_bytes)?, span("frame_stride", frame_stride, slot_bytes)?))
    }

    /// Number of bytes of an array, or of its region.
    fn array_bytes(&self) -> u64 {
        match &self.region {
            Some(region) => region.n_elements() * u64::from(self.batch.array.element_size()),
            None => self.batch.array.n_bytes(),
        }
    }

    /// Number of bytes that a frame can use of its slot.
    fn slot_bytes(&self) -> u64 {
        self.prepared.bound()
    }
}

/// Checks all memory of a call as far as the host can.
fn check_memory<'a>(
    prepared: &PreparedBatch,
    memory: &BatchMemory<'a>,
    statuses: Option<DeviceSlice<'a>>,
) -> Result<[Option<NamedSlice<'a>>; MAX_ARGS]> {
    let (array_span, frame_span) = prepared.spans()?;
    let n_chunks = prepared.batch.n_chunks as u64;
    let all = [
        Some(("arrays", memory.arrays, array_span, prepared.prepared.alignment())),
        Some(("frames", memory.frames, frame_span, FRAME_ALIGNMENT)),
        Some(("frame_bytes", memory.frame_bytes, 8 * n_chunks, 8)),
        statuses.map(|statuses| ("statuses", statuses, 4 * n_chunks, 4)),
        memory.workspace.map(|workspace| ("workspace", workspace, 0, 8)),
    ];
    check_args(all)
}

/// Enqueues the compression of a batch on a stream. When the stream has completed it, each frame is
/// at the start of its slot and its length is in `frame_bytes`; the rest of the slot is
/// unspecified. All memory must stay valid until then, as the creator of the [`StreamHandle`] has
/// promised.
///
/// # Errors
/// `InvalidArgument` with the name of the memory or stride that cannot be used, `UnsupportedJob`
/// for too large a batch, `Device`, `OutOfMemory`.
pub fn compress_async(
    batch: &Batch,
    memory: &BatchMemory,
    request: &Request,
    stream: StreamHandle,
    context: &Context,
) -> Result<()> {
    batch.prepare(request)?.compress(memory, stream, context)
}

/// Enqueues the decompression of a batch on a stream. When the stream has completed it, `statuses`
/// has an i32 for each frame: 0, or the C status for a damaged or truncated frame, whose array is
/// then unspecified. A frame counts as damaged unless it is a frame of the batch's array by
/// `request` or a stored one. `frame_bytes` is only read.
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
    /// As `compress_async`.
    pub fn compress(&self, memory: &BatchMemory, stream: StreamHandle, context: &Context) -> Result<()> {
        enqueue(self, Direction::Compress, memory, None, Verify::Checksum, stream, context)
    }

    /// As [`decompress_async`], of whole arrays or regions.
    ///
    /// # Errors
    /// As `decompress_async`.
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

    /// The kernels to launch.
    ///
    /// # Errors
    /// `UnsupportedJob` if there are none: an asynchronous call cannot fall back to the CPU.
    fn plan(&self, direction: Direction, verify: Verify) -> Result<GpuPlan> {
        match &self.region {
            Some(region) => {
                require_kernels(GpuPlan::region(&self.prepared, region, verify), "use gridz_decompress_region")
            }
            None => {
                let remedy = match direction {
                    Direction::Compress => "use gridz_compress, or another codec or level",
                    Direction::Decompress => "use gridz_decompress",
                };
                require_kernels(GpuPlan::new(direction, &self.prepared, verify), remedy)
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
    check_gpu_allowed(context)?;
    let all = check_memory(prepared, memory, statuses)?;
    let (stream, _entered) = open(stream, "frames", memory.frames, &all, context)?;
    let device = stream.device();
    let plan = prepared.plan(direction, verify)?;
    let stride = if batch.n_chunks > 1 { batch.array_stride } else { 0 };
    let launch = plan.launch(device, batch.n_chunks as u64, memory.arrays.address() | stride)?;
    let need = launch.scratch_bytes();
    let own_workspace;
    let scratch = match memory.workspace {
        Some(workspace) if workspace.n_bytes() < need => {
            let have = workspace.n_bytes();
            return Err(Error::invalid(format!(
                "workspace has {have} bytes; {need} are needed (gridz_async_workspace_bytes)"
            )));
        }
        Some(workspace) => workspace,
        None => {
            own_workspace = stream.alloc(need)?;
            own_workspace.all()
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
    // SAFETY: `check_memory` has verified length and alignment of all memory. The creator of the
    // stream's handle has promised that it lives long enough. A workspace of gridz is freed in
    // stream order.
    unsafe { launch.start(&stream, &memory, scratch) }
}

/// Waits for the work on a stream that creates or uses `memory`. A default stream belongs to the
/// current context, or to the GPU of `memory` if there is none. A stream that is being captured
/// cannot be waited for.
///
/// # Errors
/// `Device`, also for errors of that work.
pub fn wait_for(stream: StreamHandle, memory: DeviceSlice) -> Result<()> {
    stream.open(|| Device::of_memory(&[memory]))?.synchronize()
}

/// Workspace size for compression and decompression, also of regions, of `n_chunks` chunks on
/// `stream`, as far as the codec has kernels. Also loads these kernels in the stream's context, so
/// that later calls only enqueue work.
///
/// # Errors
/// `Device`, `OutOfMemory`, `UnsupportedJob` for too large a batch or if there are no kernels at
/// all.
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
    check_gpu_allowed(context)?;
    let stream = stream.open(|| Device::choose(settings))?;
    context.check_device(stream.device())?;
    let prepared = Prepared::new(array, request)?;
    // There may be kernels for decompression only: frames compressed by the CPU are then
    // decompressed here.
    let decompress =
        require_kernels(GpuPlan::new(Direction::Decompress, &prepared, Verify::Checksum), "use gridz_decompress")?;
    let zeros = vec![0; array.shape().extents().len()];
    let of_region = |count: &[u64]| {
        let region = GpuPlan::region(&prepared, &Region::new(array.shape(), &zeros, count)?, Verify::Structure);
        require_kernels(region, "use gridz_decompress_region")
    };
    let compress = match GpuPlan::new(Direction::Compress, &prepared, Verify::Checksum) {
        Attempt::Done(plan) => Some(plan),
        Attempt::Unsupported(_) => None,
    };
    let scratch_bytes = |plan: &GpuPlan| {
        // Whether the arrays will be aligned is not known yet.
        let size = |address| Ok(plan.launch(stream.device(), n_chunks as u64, address)?.scratch_bytes());
        Ok(size(0)?.max(size(1)?))
    };
    let mut max_bytes = scratch_bytes(&decompress)?.max(scratch_bytes(&of_region(&zeros)?)?);
    if let Some(compress) = compress {
        max_bytes = max_bytes.max(scratch_bytes(&compress)?);
    }
    // No region needs more than the whole array. For this many chunks, that may be too much for one
    // launch; then a call for such a region fails.
    match scratch_bytes(&of_region(array.shape().extents())?) {
        Err(error) if error.kind() == ErrorKind::UnsupportedJob => Ok(max_bytes),
        whole => Ok(max_bytes.max(whole?)),
    }
}

/// Enqueues work on a stream that packs frames from their slots and writes the offset of each.
/// Frames that do not fit are left out; the last offset, the end of all frames, shows that.
///
/// # Errors
/// As [`compress_async`].
pub fn pack_async(packing: &Packing, stream: StreamHandle, context: &Context) -> Result<()> {
    // SAFETY: `enqueue_packing` has verified length and alignment of all memory. The creator of the
    // stream's handle has promised that it lives long enough.
    enqueue_packing(packing, packing.n_frames.saturating_add(1), stream, context, |stream| unsafe {
        packing.pack(stream)
    })
}

/// Enqueues work on a stream that copies packed frames to slots. Frames that are not inside the
/// packed memory or longer than a slot get the length 0.
///
/// # Errors
/// As [`compress_async`].
pub fn unpack_async(packing: &Packing, stream: StreamHandle, context: &Context) -> Result<()> {
    if packing.lengths.is_none() {
        return Err(Error::invalid("lengths is NULL; pass memory for the lengths of the unpacked frames"));
    }
    // SAFETY: as above.
    enqueue_packing(packing, packing.n_frames, stream, context, |stream| unsafe { packing.unpack(stream) })
}

/// Checks the memory, and enqueues the work of `start`, which reads or writes `n_offsets` offsets.
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
    check_gpu_allowed(context)?;
    let stride = packing.slot_stride;
    if stride == 0 || !stride.is_multiple_of(FRAME_ALIGNMENT) {
        return Err(Error::invalid(format!(
            "frame_stride is {stride}; it must be a positive multiple of {FRAME_ALIGNMENT}"
        )));
    }
    let span = stride.checked_mul(n).ok_or_else(|| {
        Error::invalid(format!("{n} frames with a frame_stride of {stride} exceed the address space"))
    })?;
    let checked = check_args([
        Some(("frames", packing.slots, span, FRAME_ALIGNMENT)),
        Some(("packed", packing.packed, 0, FRAME_ALIGNMENT)),
        Some(("offsets", packing.offsets, n_offsets.saturating_mul(8), 8)),
        Some(("frame_bytes", packing.frame_bytes, 8 * n, 8)),
        packing.lengths.map(|lengths| ("lengths", lengths, 8 * n, 8)),
    ])?;
    let (stream, _entered) = open(stream, "frames", packing.slots, &checked, context)?;
    start(&stream)
}

/// The plan, or an error with the remedy.
///
/// # Errors
/// `UnsupportedJob` if there are no kernels.
fn require_kernels(attempt: Attempt<GpuPlan>, remedy: &str) -> Result<GpuPlan> {
    match attempt {
        Attempt::Done(plan) => Ok(plan),
        Attempt::Unsupported(reason) => Err(Error::unsupported(format!("{reason}; {remedy}"))),
    }
}
