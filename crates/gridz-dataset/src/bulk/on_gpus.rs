//! Transfers whose chunks GPUs encode or decode, many in a batch (`gridz::device::ChunkStream`).
#![allow(unsafe_code, reason = "threads write parts of one memory")]

use std::ops::Range;

use crate::bulk::buffer::Buffer;
use crate::bulk::placement::Placement;
use crate::bulk::progressive::Place;
use crate::bulk::selection::{Covers, Part, for_each_box};
use crate::bulk::store::{ChunkStore, Frames};
use crate::bulk::transfer::{Memory, Progress, Transfer, report};
use gridz::device::{
    ChunkInputs, ChunkOutputs, ChunkStream, DeviceChunks, DeviceSlice, Direction, FrameInputs, JOB_BYTES,
    StridedCopy,
};
use gridz::{Prepared, Source};
use gridz_codecs::error::Result;

/// Batches get this share of the memory limit. Several are in flight, each with raw bytes on the GPU
/// and frames on the host.
const BATCHES_PER_LIMIT: u64 = 8;

impl Transfer<'_> {
    /// GPUs for the chunks, whose arrays are in `memory` of a GPU or in host memory. `None` if the CPU
    /// should process them.
    fn stream<'a>(
        &'a self,
        plan: (&'a Prepared, Direction),
        memory: Option<DeviceSlice>,
    ) -> Result<Option<ChunkStream<'a>>> {
        // Pieces of chunks in host memory are whole elements. Bytes are swapped only when pieces are
        // copied from host memory.
        let (size, is_on_host) = (self.placement.element_bytes(), memory.is_none());
        let can_swap = is_on_host && plan.1 == Direction::Compress;
        let is_whole = !is_on_host || size.is_power_of_two() && size <= JOB_BYTES;
        if !is_whole || self.placement.swaps() && !can_swap {
            return Ok(None);
        }
        let batch_bytes = self.memory_limit / BATCHES_PER_LIMIT;
        ChunkStream::new(plan, self.selection.n_chunks(), memory, batch_bytes, self.context)
    }

    /// The copy of the elements of a chunk, for an array in GPU memory.
    fn device_copy(&self, number: u64) -> StridedCopy {
        let part = self.selection.part(number);
        self.placement.box_of(&part).expect("bytes that are not swapped")
    }

    /// Writes the first chunks of the selection, as [`Transfer::write`]. Returns their number, which
    /// is 0 if the CPU should encode all of them.
    pub(super) fn write_on_gpus(
        &self,
        store: &mut dyn ChunkStore,
        memory: Source,
        progress: Progress,
    ) -> Result<u64> {
        let Some(Frames { prepared, .. }) = self.coder.frames() else { return Ok(0) };
        let on_device = match memory {
            Source::Host(_) => None,
            Source::Device(memory) => Some(memory),
        };
        let Some(stream) = self.stream((prepared, Direction::Compress), on_device)? else { return Ok(0) };
        // Elements that a write keeps are decoded by the CPU.
        if self.selection.parts().any(|part| part.covers() == Covers::Part) {
            return Ok(0);
        }
        let zeros = vec![0; self.placement.element_bytes()];
        let padding = self.fill.unwrap_or(&zeros);
        let gather = |number: u64, at: usize, bytes: &mut [u8]| {
            let Source::Host(memory) = memory else { return };
            let part = self.selection.part(number);
            if part.covers() != Covers::Whole {
                bytes.chunks_exact_mut(padding.len()).for_each(|element| element.copy_from_slice(padding));
            }
            for_each_piece(self.placement, &part, self.selection.chunk(), at, bytes.len(), |piece| {
                self.placement.gather_range(piece, memory, at, bytes);
            });
        };
        let copy_of = |number: u64| self.device_copy(number);
        let inputs = match memory {
            Source::Host(_) => ChunkInputs::Host(&gather),
            Source::Device(memory) => ChunkInputs::Device(DeviceChunks { memory, copy_of: &copy_of, padding }),
        };
        let mut done = 0;
        stream.compress(self.selection.n_chunks(), inputs, &mut |number, frame| {
            let part = self.selection.part(number);
            store.write(part.chunk(), frame)?;
            done += self.bytes_of(&part);
            report(progress, done, self.total_bytes())
        })
    }

    /// Reads chunks of the selection, as [`Transfer::read`]. Returns the numbers of the chunks that
    /// were not read, and the bytes of those that were.
    pub(super) fn read_on_gpus(
        &self,
        store: &mut dyn ChunkStore,
        memory: &Memory,
        progress: Progress,
    ) -> Result<(Vec<u64>, u64)> {
        let all = || ((0..self.selection.n_chunks()).collect(), 0);
        let Some(Frames { prepared, verify, file: Some(file) }) = self.coder.frames() else { return Ok(all()) };
        let on_device = match memory {
            Memory::Host(_) => None,
            Memory::Device(memory) => Some(*memory),
        };
        let Some(stream) = self.stream((prepared, Direction::Decompress), on_device)? else { return Ok(all()) };
        let (mut numbers, mut places, mut lengths, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut bytes = Buffer::new(0)?;
        for part in 0..self.selection.n_chunks() {
            match store.read(self.selection.part(part).chunk(), &mut bytes)? {
                Some(encoded) if encoded.mask == 0 => {
                    let place = Place::from_bytes(&bytes.bytes()[..encoded.n_bytes])?;
                    numbers.push(part);
                    lengths.push(place.n_bytes);
                    places.push(place);
                }
                _ => rest.push(part),
            }
        }
        let read = |i: u64, at: usize, bytes: &mut [u8]| file.read_at(places[i as usize].at + at as u64, bytes);
        let buffers = Default::default();
        let decompress = |i: u64| {
            let (part, place) = (self.selection.part(numbers[i as usize]), places[i as usize].to_bytes());
            self.decode_to(memory, &part, Some((0, &place)), self.context, &buffers)
        };
        let frames = FrameInputs { lengths: &lengths, read: &read, decompress: &decompress };
        let scatter = |i: u64, at: usize, bytes: &[u8]| {
            let Memory::Host(memory) = memory else { return };
            let part = self.selection.part(numbers[i as usize]);
            for_each_piece(self.placement, &part, self.selection.chunk(), at, bytes.len(), |piece| {
                // SAFETY: the parts of a selection share no elements, elements of a placement share
                // no bytes, and each byte of a part is stored once.
                unsafe { self.placement.scatter_range(piece, at, bytes, memory) };
            });
        };
        let copy_of = |i: u64| self.device_copy(numbers[i as usize]);
        let outputs = match memory {
            Memory::Host(_) => ChunkOutputs::Host(&scatter),
            Memory::Device(memory) => {
                ChunkOutputs::Device(DeviceChunks { memory: *memory, copy_of: &copy_of, padding: &[] })
            }
        };
        let mut done = 0;
        let n_read = stream.decompress(&frames, outputs, verify, &mut |chunks: Range<u64>| {
            for i in chunks {
                done += self.bytes_of(&self.selection.part(numbers[i as usize]));
                report(progress, done, self.total_bytes())?;
            }
            Ok(())
        })?;
        rest.extend(&numbers[n_read as usize..]);
        rest.sort_unstable();
        Ok((rest, done))
    }
}

/// Calls `visit` with the pieces of `part` in a range of its chunk: `n_bytes` bytes from byte `begin`
/// on.
fn for_each_piece(
    placement: &Placement,
    part: &Part,
    chunk: &[u64],
    begin: usize,
    n_bytes: usize,
    mut visit: impl FnMut(&Part),
) {
    let size = placement.element_bytes();
    let elements = (begin / size) as u64..((begin + n_bytes) / size) as u64;
    for_each_box(chunk, elements, |start, count| {
        if let Some(piece) = part.within(start, count) {
            visit(&piece);
        }
    });
}
