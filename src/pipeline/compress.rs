//! Compression of batches. Arrays are uploaded or already in GPU memory. Kernels write frames to
//! slots, pack them, and write their lengths to pinned memory. Once the host knows the lengths,
//! exactly that many bytes are downloaded.
#![allow(unsafe_code, reason = "gives memory to streams")]

use super::{BatchBuffers, Input, Output, Pipeline, input_on_device, wait_for_upload};
use crate::backend::Attempt;
use crate::frame::{FRAME_ALIGNMENT, Verify, max_packed_bytes, stored_bytes};
use crate::launch::{GpuPlan, LaunchMemory};
use crate::packing::Packing;
use crate::prepared::Prepared;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::error::{Error, Result};
use gridz_cuda::Device;

/// State of a pipeline that compresses.
pub struct Compress<'p> {
    prepared: &'p Prepared,
    plan: GpuPlan,
}

/// A pipeline that compresses.
pub type CompressPipeline<'p> = Pipeline<Compress<'p>>;

impl<'p> CompressPipeline<'p> {
    /// A pipeline on `device`, if there are kernels.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn new(device: &'static Device, prepared: &'p Prepared) -> Result<Attempt<Self>> {
        GpuPlan::new(Direction::Compress, prepared, Verify::Checksum)
            .and_then(|plan| Self::with(device, Compress { prepared, plan }))
    }

    /// Begins to compress `n_chunks` arrays in a free entry.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// `arrays` must contain `n_chunks` arrays. They must stay valid and unchanged until the batch
    /// is finished or the pipeline is dropped.
    pub unsafe fn begin(&mut self, index: usize, n_chunks: u64, arrays: Input) -> Result<()> {
        let Self { streams, ring, slots, direction: Compress { prepared, plan }, .. } = self;
        let (device, buffers) = (streams.device(), &mut ring[index]);
        let _entered = device.enter()?;
        buffers.n_chunks = n_chunks;
        buffers.has_upload = !matches!(arrays, Input::Device(..));
        buffers.has_download = false;
        let BatchBuffers { events, has_upload, input_buffer, tables, status_host, output_buffer, .. } = buffers;
        let parts = (n_chunks, prepared.array.n_bytes());
        // SAFETY: the caller's memory lives long enough by this function's contract, the pipeline's
        // as long as the pipeline.
        let (arrays, array_stride) =
            unsafe { input_on_device(streams, events, input_buffer, arrays, plan.alignment, parts)? };
        if *has_upload {
            wait_for_upload(streams, events)?;
        }
        let slot_bytes = prepared.bound();
        let slots = slots.reserve(&streams.compute, n_chunks * slot_bytes)?;
        let tables = tables.reserve(&streams.compute, 8 * (2 * n_chunks + 1))?;
        let packed = output_buffer.reserve(&streams.compute, n_chunks * max_packed_bytes(&prepared.array))?;
        status_host.reserve(device, 8 * n_chunks)?;
        let memory = LaunchMemory {
            arrays,
            array_stride,
            frames: slots,
            frame_stride: slot_bytes,
            slot_bytes,
            frame_bytes: tables.slice(0..8 * n_chunks)?,
            statuses: None,
        };
        let packing = Packing {
            n_frames: n_chunks,
            slots,
            slot_stride: slot_bytes,
            packed,
            offsets: tables.slice(8 * n_chunks..8 * (2 * n_chunks + 1))?,
            frame_bytes: memory.frame_bytes,
            lengths: Some(status_host.on_device()?),
        };
        let launch = plan.launch(device, n_chunks, arrays.address() | array_stride)?;
        let scratch = streams.compute.alloc(launch.scratch_bytes())?;
        streams.compute.record(&events.compute.begin)?;
        // SAFETY: all memory has the lengths that the kernels need. The pipeline's memory lives as
        // long as the pipeline, which synchronizes its streams when dropped; the caller's lives
        // long enough by this function's contract; scratch memory is freed in stream order.
        unsafe {
            launch.start(&streams.compute, &memory, scratch.all())?;
            packing.pack(&streams.compute)?;
        }
        streams.compute.record(&events.compute.end)
    }

    /// True once the frames of an entry are complete: then [`lengths`](Self::lengths) does not
    /// block.
    ///
    /// # Errors
    /// `Device`, also for errors of the kernels.
    pub fn is_compressed(&self, index: usize) -> Result<bool> {
        self.ring[index].events.compute.end.is_reached()
    }

    /// Waits until the frames of an entry are complete and returns their lengths.
    ///
    /// # Errors
    /// As [`is_compressed`](Self::is_compressed); `Internal` for an impossible length.
    pub fn lengths(&self, index: usize) -> Result<impl Iterator<Item = u64>> {
        let max_bytes = stored_bytes(&self.direction.prepared.array);
        let buffers = &self.ring[index];
        buffers.events.compute.end.synchronize()?;
        let lengths =
            || buffers.status_host.bytes().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let lengths = move || lengths().take(buffers.n_chunks as usize);
        if let Some(n_bytes) = lengths().find(|&n_bytes| n_bytes == 0 || n_bytes > max_bytes) {
            return Err(Error::internal(format_args!("a kernel returned a frame of {n_bytes} bytes")));
        }
        Ok(lengths())
    }

    /// Begins to download the packed frames of an entry to the start of `output`. Waits for their
    /// lengths.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    ///
    /// # Safety
    /// `output` must have room for the frames. It must stay valid, and no other code may access it,
    /// until the batch is finished or the pipeline is dropped.
    pub unsafe fn download(&mut self, index: usize, output: Output) -> Result<()> {
        let packed_bytes = self.lengths(index)?.map(|n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT)).sum();
        let Self { streams, ring, .. } = self;
        let (device, buffers) = (streams.device(), &mut ring[index]);
        let _entered = device.enter()?;
        let packed = buffers.output_buffer.slice(0..packed_bytes)?;
        streams.download.record(&buffers.events.download.begin)?;
        // SAFETY: the kernels have written that many bytes, as the host has checked. The pipeline's
        // memory lives as long as the pipeline, and the output long enough by this function's
        // contract.
        unsafe {
            match output {
                Output::Pinned(to) => streams.download.fetch(packed, &mut to[..packed_bytes as usize])?,
                Output::Device(to, _) => streams.download.copy(to.slice(0..packed_bytes)?, packed)?,
                Output::Staged | Output::Scattered => return Ok(()),
            }
        }
        buffers.has_download = true;
        streams.download.record(&buffers.events.download.end)
    }

    /// True once the download of an entry has completed, or if it has none: then
    /// [`finish`](Self::finish) does not block.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, index: usize) -> Result<bool> {
        let buffers = &self.ring[index];
        Ok(!buffers.has_download || buffers.events.download.end.is_reached()?)
    }

    /// Waits until the batch of an entry is done. The entry is free afterwards.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, index: usize) -> Result<()> {
        self.finish_batch(index).map(drop)
    }
}
