//! Decompression of batches. Packed frames are uploaded with a table of their offsets. Kernels copy
//! them to slots and write arrays, which are downloaded unless the output is GPU memory.
#![allow(unsafe_code, reason = "gives memory to streams")]

use super::{BatchBuffers, GrowBuffer, Input, Output, Pipeline, copy_arrays, input_on_device, wait_for_upload};
use crate::backend::Attempt;
use crate::frame::{FRAME_ALIGNMENT, Verify};
use crate::launch::{GpuPlan, LaunchMemory};
use crate::packing::Packing;
use crate::prepared::Prepared;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::error::Result;
use gridz_cuda::Device;

/// State of a pipeline that decompresses.
pub struct Decompress {
    plan: GpuPlan,
    array_bytes: u64,
    slot_bytes: u64,
    /// Length of the frame in each slot, 0 for frames that were not copied there.
    lengths: GrowBuffer,
}

/// A pipeline that decompresses.
pub type DecompressPipeline = Pipeline<Decompress>;

impl DecompressPipeline {
    /// A pipeline on `device`, if there are kernels, for frames like those of `prepared` with at
    /// most `slot_bytes` bytes.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn new(
        device: &'static Device,
        prepared: &Prepared,
        slot_bytes: u64,
        verify: Verify,
    ) -> Result<Attempt<Self>> {
        GpuPlan::new(Direction::Decompress, prepared, verify).and_then(|plan| {
            let slot_bytes = slot_bytes.max(plan.min_frame_bytes()).next_multiple_of(FRAME_ALIGNMENT);
            let (array_bytes, lengths) = (prepared.array.n_bytes(), GrowBuffer::default());
            Self::with(device, Decompress { plan, array_bytes, slot_bytes, lengths })
        })
    }

    /// Begins to decompress frames of these lengths in a free entry, and to move the arrays to
    /// `output`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`, `UnsupportedJob`.
    ///
    /// # Safety
    /// `packed` must contain frames of these lengths, and `output` must have room for their arrays.
    /// Until the batch is finished or the pipeline is dropped, both must stay valid, `packed` must
    /// not change, and no other code may access `output`.
    pub unsafe fn begin(&mut self, index: usize, lengths: &[u64], packed: Input, output: Output) -> Result<()> {
        let Self { streams, ring, slots, direction, .. } = self;
        let &mut Decompress { ref plan, array_bytes, slot_bytes, lengths: ref mut checked_lengths } = direction;
        let (device, buffers) = (streams.device(), &mut ring[index]);
        let _entered = device.enter()?;
        let n_chunks = lengths.len() as u64;
        buffers.n_chunks = n_chunks;
        buffers.has_upload = !matches!(packed, Input::Device(..));
        buffers.has_download = true;
        let BatchBuffers {
            events, input_buffer, tables, tables_host, statuses, status_host, output_buffer, ..
        } = buffers;
        let table_bytes = 8 * n_chunks;
        let table = tables_host.reserve(device, 2 * table_bytes)?;
        let packed_bytes = write_table(table, lengths);
        let tables = tables.reserve(&streams.upload, 2 * table_bytes)?;
        // SAFETY: the caller's memory lives long enough by this function's contract, the pipeline's
        // as long as the pipeline.
        let (packed, _) =
            unsafe { input_on_device(streams, events, input_buffer, packed, FRAME_ALIGNMENT, (1, packed_bytes))? };
        // SAFETY: as above.
        unsafe { streams.upload.bring(tables, &*table)? };
        wait_for_upload(streams, events)?;
        let (to, array_stride) = match &output {
            Output::Device(to, stride) if (to.address() | stride).is_multiple_of(plan.alignment) => (*to, *stride),
            _ => (output_buffer.reserve(&streams.compute, n_chunks * array_bytes)?, array_bytes),
        };
        let slots = slots.reserve(&streams.compute, n_chunks * slot_bytes)?;
        let checked_lengths = checked_lengths.reserve(&streams.compute, table_bytes)?;
        let statuses = statuses.reserve(&streams.compute, 4 * n_chunks)?;
        let packing = Packing {
            n_frames: n_chunks,
            slots,
            slot_stride: slot_bytes,
            packed,
            offsets: tables.slice(0..table_bytes)?,
            frame_bytes: tables.slice(table_bytes..2 * table_bytes)?,
            lengths: Some(checked_lengths),
        };
        let memory = LaunchMemory {
            arrays: to,
            array_stride,
            frames: slots,
            frame_stride: slot_bytes,
            slot_bytes,
            frame_bytes: checked_lengths,
            statuses: Some(statuses),
        };
        let launch = plan.launch(device, n_chunks, to.address() | array_stride)?;
        let scratch = streams.compute.alloc(launch.scratch_bytes())?;
        streams.compute.record(&events.compute.begin)?;
        // SAFETY: all memory has the lengths that the kernels need. The pipeline's memory lives as
        // long as the pipeline, which synchronizes its streams when dropped; the caller's lives
        // long enough by this function's contract; scratch memory is freed in stream order.
        unsafe {
            packing.unpack(&streams.compute)?;
            launch.start(&streams.compute, &memory, scratch.all())?;
        }
        streams.compute.record(&events.compute.end)?;
        streams.download.wait(&events.compute.end)?;
        streams.download.record(&events.download.begin)?;
        // SAFETY: as above.
        unsafe {
            streams.download.fetch(statuses, status_host.reserve(device, 4 * n_chunks)?)?;
            match output {
                Output::Pinned(dst) => streams.download.fetch(to, dst)?,
                Output::Device(dst, stride) if dst.address() != to.address() => {
                    copy_arrays(&streams.download, (dst, stride), (to, array_bytes), n_chunks, array_bytes)?;
                }
                Output::Device(..) | Output::Staged | Output::Scattered => {}
            }
        }
        streams.download.record(&events.download.end)
    }

    /// True once the batch of an entry is done: then [`finish`](Self::finish) does not block, and a
    /// staged download can begin.
    ///
    /// # Errors
    /// `Device`.
    pub fn is_done(&self, index: usize) -> Result<bool> {
        self.ring[index].events.download.end.is_reached()
    }

    /// Waits until the batch of an entry is done.
    ///
    /// # Errors
    /// `Device`.
    pub fn wait(&self, index: usize) -> Result<()> {
        self.ring[index].events.download.end.synchronize()
    }

    /// Waits until the batch of an entry is done. The entry is free afterwards. Returns the indices
    /// within the batch of the frames that the kernels rejected; their arrays are unspecified.
    ///
    /// # Errors
    /// `Device`.
    pub fn finish(&mut self, index: usize) -> Result<Vec<u64>> {
        let buffers = self.finish_batch(index)?;
        let statuses = buffers.status_host.bytes().chunks_exact(4).take(buffers.n_chunks as usize);
        let rejected = statuses.zip(0..).filter(|(status, _)| status.iter().any(|&byte| byte != 0));
        Ok(rejected.map(|(_, i)| i).collect())
    }
}

/// Writes the offsets of packed frames to `table`, and then their lengths. Returns the bytes of all
/// frames.
fn write_table(table: &mut [u8], lengths: &[u64]) -> u64 {
    let (offsets, lengths_table) = table.split_at_mut(8 * lengths.len());
    let mut packed_bytes = 0;
    for ((offset, length), n_bytes) in
        offsets.chunks_exact_mut(8).zip(lengths_table.chunks_exact_mut(8)).zip(lengths)
    {
        offset.copy_from_slice(&u64::to_le_bytes(packed_bytes));
        length.copy_from_slice(&n_bytes.to_le_bytes());
        packed_bytes += n_bytes.next_multiple_of(FRAME_ALIGNMENT);
    }
    packed_bytes
}
