//! Batches of chunks in device memory, through the asynchronous C API.

use std::ffi::{CStr, CString};
use std::ptr;

use gridz::{Array, ByteOrder, Request};
use gridz_capi::api::gridz_last_error;
use gridz_capi::batch::gridz_batch;
use gridz_capi::cuda::{gridz_async_workspace_bytes, gridz_compress_async, gridz_decompress_async};
use gridz_capi::types::{gridz_array, gridz_options};
use gridz_codecs::codec::mode::Mode;

use crate::common::{assert_same_bytes, compress, compresses_on_gpu, decompress};
use crate::cpu;
use crate::driver::{Memory, POISON, Stream, is_poison};

pub const CORRUPT: i32 = 200;
pub const TRUNCATED: i32 = 201;
pub const UNSUPPORTED: i32 = 202;
pub const SKIP_CHECKSUM: u64 = 1;

/// Memory layout of a batch's chunks.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub n_chunks: usize,
    /// Offset of the first array from an aligned address, in elements.
    pub shift: usize,
    /// Elements between two arrays.
    pub gap: usize,
    /// Bytes between the slots of two frames.
    pub slot_gap: usize,
    /// True if the caller provides the workspace; otherwise gridz allocates it.
    pub has_workspace: bool,
}

impl Layout {
    pub fn of(n_chunks: usize) -> Self {
        Self { n_chunks, shift: 0, gap: 0, slot_gap: 0, has_workspace: false }
    }
}

/// Chunks of one array description, their frames, and the memory for both results.
pub struct Batch<'s> {
    pub array: Array,
    pub spec: Request,
    pub n_chunks: usize,
    pub src: Memory<'s>,
    pub frames: Memory<'s>,
    pub lengths: Memory<'s>,
    pub back: Memory<'s>,
    pub statuses: Memory<'s>,
    pub workspace: Option<Memory<'s>>,
    /// Distance from array to array and from frame to frame, in bytes.
    pub stride: usize,
    pub slot: usize,
    /// Number of bytes of a slot that gridz may write.
    pub bound: usize,
    stream: &'s Stream,
}

impl<'s> Batch<'s> {
    pub fn new(stream: &'s Stream, array: Array, spec: &Request, layout: Layout) -> Self {
        let Layout { n_chunks, shift, gap, slot_gap, has_workspace } = layout;
        let element = array.element_size() as usize;
        let stride = array.n_bytes() as usize + gap * element;
        let bound = (gridz::compress_bound(&array, spec).unwrap() as usize).next_multiple_of(16);
        let slot = bound + slot_gap.next_multiple_of(16);
        let arrays = || Memory::new(stream, n_chunks * stride, shift * element);
        let mut batch = Self {
            array,
            spec: *spec,
            n_chunks,
            src: arrays(),
            frames: Memory::new(stream, n_chunks * slot, 0),
            lengths: Memory::new(stream, 8 * n_chunks, 0),
            back: arrays(),
            statuses: Memory::new(stream, 4 * n_chunks, 0),
            workspace: None,
            stride,
            slot,
            bound,
            stream,
        };
        if has_workspace {
            batch.workspace = Some(Memory::new(stream, batch.workspace_bytes(), 0));
        }
        batch
    }

    fn workspace_bytes(&self) -> usize {
        let mut n_bytes = 0;
        let status = self.with_c_batch(0, |batch| {
            // SAFETY: the structs and the number are local variables.
            unsafe { gridz_async_workspace_bytes(batch, &mut n_bytes) }
        });
        assert_ok(status);
        n_bytes
    }

    /// Calls `call` with the batch as a C struct: compression from `src`, or decompression to `back`
    /// after a change of `arrays`.
    fn with_c_batch(&self, flags: u64, call: impl FnOnce(&mut gridz_batch) -> i32) -> i32 {
        let array = gridz_array {
            struct_size: size_of::<gridz_array>(),
            dtype: u32::from(self.array.dtype().id()),
            byte_order: if self.array.order() == ByteOrder::Big { 2 } else { 1 },
            element_size: self.array.element_size(),
            rank: u32::from(self.array.shape().rank()),
            extents: self.array.shape().extents().as_ptr(),
        };
        // The text contains the missing elements, too.
        let request = CString::new(self.spec.to_string()).expect("a request");
        let options = gridz_options {
            struct_size: size_of::<gridz_options>(),
            context: ptr::null(),
            request: request.as_ptr(),
            flags,
            fill_value: ptr::null(),
            n_fill_values: 0,
            valid_min: ptr::null(),
            valid_max: ptr::null(),
        };
        let workspace =
            self.workspace.as_ref().map_or((ptr::null_mut(), 0), |memory| (memory.ptr(), memory.n_bytes()));
        call(&mut gridz_batch {
            struct_size: size_of::<gridz_batch>(),
            array: &raw const array,
            n: self.n_chunks,
            arrays: self.src.ptr(),
            array_stride: self.stride,
            frames: self.frames.ptr(),
            frame_stride: self.slot,
            frame_bytes: self.lengths.ptr(),
            packed: ptr::null_mut(),
            packed_bytes: 0,
            offsets: ptr::null_mut(),
            statuses: self.statuses.ptr(),
            start: ptr::null(),
            count: ptr::null(),
            workspace: workspace.0,
            workspace_bytes: workspace.1,
            stream: self.stream.raw(),
            options: &raw const options,
        })
    }

    /// Only submits the compression to the stream.
    pub fn submit_compress(&self) {
        // SAFETY: device memory of the sizes that the API requires, which outlives the stream's work.
        assert_ok(self.with_c_batch(0, |batch| unsafe { gridz_compress_async(batch) }));
    }

    /// Only submits the decompression to the stream.
    pub fn submit_decompress(&self, flags: u64) {
        assert_ok(self.with_c_batch(flags, |batch| {
            batch.arrays = self.back.ptr();
            // SAFETY: as above.
            unsafe { gridz_decompress_async(batch) }
        }));
    }

    /// Submits the decompression of a region of each frame, to `dst`, `stride` bytes apart.
    pub fn submit_region(&self, start: &[u64], count: &[u64], dst: &Memory, stride: usize, flags: u64) {
        assert_ok(self.with_c_batch(flags, |batch| {
            (batch.arrays, batch.array_stride) = (dst.ptr(), stride);
            (batch.start, batch.count) = (start.as_ptr(), count.as_ptr());
            // SAFETY: as above, and one number for each axis of the array.
            unsafe { gridz_decompress_async(batch) }
        }));
    }

    pub fn read_lengths(&self) -> Vec<u64> {
        let bytes = self.lengths.read_all();
        bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    pub fn write_lengths(&self, lengths: &[u64]) {
        self.lengths.write(0, &lengths.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>());
    }

    pub fn read_statuses(&self) -> Vec<i32> {
        let bytes = self.statuses.read_all();
        bytes.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    /// Chunk `i` of arrays that were read from the device.
    pub fn chunk<'a>(&self, arrays: &'a [u8], i: usize) -> &'a [u8] {
        &arrays[i * self.stride..][..self.array.n_bytes() as usize]
    }

    pub fn write_chunks(&self, chunks: &[Vec<u8>]) {
        let mut all = self.src.read_all();
        for (slot, chunk) in all.chunks_mut(self.stride.max(1)).zip(chunks) {
            slot[..chunk.len()].copy_from_slice(chunk);
        }
        self.src.write(0, &all);
    }

    /// Writes frames, and poison after each.
    pub fn write_frames(&self, frames: &[impl AsRef<[u8]>]) {
        self.frames.fill(POISON);
        let mut all = self.frames.read_all();
        for (slot, frame) in all.chunks_mut(self.slot).zip(frames) {
            slot[..frame.as_ref().len()].copy_from_slice(frame.as_ref());
        }
        self.frames.write(0, &all);
        self.write_lengths(&frames.iter().map(|frame| frame.as_ref().len() as u64).collect::<Vec<_>>());
    }

    /// Poisons all memory that a call is to write.
    pub fn poison_results(&self) {
        for memory in [&self.back, &self.statuses].into_iter().chain(&self.workspace) {
            memory.fill(POISON);
        }
    }

    #[track_caller]
    pub fn assert_guards(&self, what: &str) {
        let all = [&self.src, &self.frames, &self.lengths, &self.back, &self.statuses];
        all.into_iter().chain(&self.workspace).for_each(|memory| memory.assert_guards(what));
    }

    /// Decompresses the frames in the slots; the result must be `chunks`.
    pub fn assert_reads(&self, chunks: &[Vec<u8>], what: &str) {
        self.poison_results();
        self.submit_decompress(0);
        let back = self.back.read_all();
        for (i, (status, raw)) in self.read_statuses().into_iter().zip(chunks).enumerate() {
            assert_eq!(status, 0, "{what}, chunk {i}: status");
            assert_same_bytes(self.chunk(&back, i), raw, &format!("{what}, chunk {i}"));
            assert!(is_poison(&back[i * self.stride + raw.len()..(i + 1) * self.stride]), "{what}, chunk {i}: gap");
        }
    }

    /// The CPU's frames.
    fn by_cpu(&self, chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let cpu = cpu();
        chunks.iter().map(|raw| compress(&self.array, &self.spec, raw, &cpu)).collect()
    }

    /// The expected decompressed chunks: the originals, or the CPU's decoding of its frames.
    fn kept(&self, chunks: &[Vec<u8>], by_cpu: &[Vec<u8>]) -> Vec<Vec<u8>> {
        if self.spec.mode() == Mode::Lossless {
            return chunks.to_vec();
        }
        by_cpu.iter().map(|frame| decompress(frame, &cpu()).unwrap()).collect()
    }

    /// Checks decompression: the GPU decodes the CPU's frames.
    fn check_decompression(&self, chunks: &[Vec<u8>], what: &str) {
        let by_cpu = self.by_cpu(chunks);
        self.write_frames(&by_cpu);
        self.assert_reads(&self.kept(chunks, &by_cpu), what);
        self.assert_guards(what);
    }

    /// Checks compression and decompression, as far as kernels exist: every frame equals the CPU's,
    /// frames of both back ends decode, and nothing else is written.
    pub fn check(&self, chunks: &[Vec<u8>], what: &str) {
        if !compresses_on_gpu(&self.array, &self.spec) {
            return self.check_decompression(chunks, what);
        }
        let by_cpu = self.by_cpu(chunks);
        let kept = &self.kept(chunks, &by_cpu);
        self.write_chunks(chunks);
        let src = self.src.read_all();
        self.poison_results();
        self.frames.fill(POISON);
        self.lengths.fill(POISON);
        self.submit_compress();
        let frames = self.frames.read_all();
        for (i, (n_bytes, frame)) in self.read_lengths().into_iter().zip(&by_cpu).enumerate() {
            let what = format!("{what}, chunk {i}");
            assert_eq!(n_bytes, frame.len() as u64, "{what}: length of the frame");
            let slot = &frames[i * self.slot..(i + 1) * self.slot];
            assert_same_bytes(&slot[..frame.len()], frame, &what);
            assert!(is_poison(&slot[self.bound..]), "{what}: written past the slot's bound");
        }
        self.assert_reads(kept, &format!("{what}, frames of the GPU"));
        self.write_frames(&by_cpu);
        self.assert_reads(kept, &format!("{what}, frames of the CPU"));
        assert!(self.src.read_all() == src, "{what}: the source changed");
        self.assert_guards(what);
    }
}

#[track_caller]
fn assert_ok(status: i32) {
    // SAFETY: the string is valid until the next error of this thread.
    let text = unsafe { CStr::from_ptr(gridz_last_error()) };
    assert_eq!(status, 0, "{text:?}");
}
