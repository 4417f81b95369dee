//! Copies of boxes of elements in GPU memory, between a strided array and a chunk
//! (`kernels/boxes`).
#![allow(unsafe_code, reason = "starts kernels, and gives memory to a stream")]

use crate::context::Context;
use crate::kernels;
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::MAX_RANK;
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Grid, KernelStruct, Stream};

/// Maximum number of axes: those of an array, and one for the units of an element.
const MAX_AXES: usize = MAX_RANK + 1;

gridz_codecs::kernel_struct! {
    /// `BoxArgs` in `kernels/boxes/boxes.cu`.
    struct BoxArgs, size 824 {
        src: u64,
        dst: u64,
        n_units: u64,
        unit_bytes: u32,
        n_axes: u32,
        counts: [u64; MAX_AXES],
        src_strides: [u64; MAX_AXES],
        dst_strides: [u64; MAX_AXES],
    }
}

const THREADS: u32 = 256;
/// Maximum number of CTAs per multiprocessor.
const CTAS_PER_MULTIPROCESSOR: u32 = 8;

/// A box of elements, in an array and in a chunk.
#[derive(Debug, Clone)]
pub struct StridedCopy {
    /// Number of bytes of an element.
    pub element_bytes: usize,
    /// Byte offset of the first element in the array's memory.
    pub array_offset: usize,
    /// Byte offset of the first element in the chunk.
    pub chunk_offset: usize,
    /// For each axis, the fastest first: number of elements, byte stride in the array, byte stride
    /// in the chunk.
    pub axes: Vec<(usize, i64, i64)>,
}

impl StridedCopy {
    /// Bytes of all elements.
    pub(super) fn n_bytes(&self) -> u64 {
        self.axes.iter().map(|axis| axis.0 as u64).product::<u64>() * self.element_bytes as u64
    }
}

/// GPU memory for one chunk, on the GPU of an array.
pub struct DeviceChunk<'a> {
    stream: Stream<'static>,
    chunk: DeviceBuffer<'static>,
    array: DeviceSlice<'a>,
}

impl<'a> DeviceChunk<'a> {
    /// Allocates `n_bytes` bytes on the GPU that owns `array`.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`; `InvalidArgument` for memory of another GPU than the context's.
    pub fn new(array: DeviceSlice<'a>, n_bytes: usize, context: &Context) -> Result<Self> {
        let device = Device::of_memory(&[array])?;
        context.check_device(device)?;
        let stream = device.stream()?;
        let chunk = stream.alloc(n_bytes as u64)?;
        // Other streams use the chunk as well, and only this stream is ordered after the memory's
        // previous use.
        stream.synchronize()?;
        Ok(Self { stream, chunk, array })
    }

    /// The chunk's memory.
    pub fn chunk(&self) -> DeviceSlice<'_> {
        self.chunk.all()
    }

    /// Fills the chunk with `bytes`.
    ///
    /// # Errors
    /// `Device`.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.stream.copy_in(self.chunk.all(), bytes)
    }

    /// Copies a box from the array to the chunk, and waits for it.
    ///
    /// # Errors
    /// `Device`, `Internal` for a box that is not inside the memory.
    pub fn gather(&self, copy: &StridedCopy) -> Result<()> {
        // SAFETY: both memories live until the next line has waited.
        unsafe { self.box_on_stream().gather(copy)? };
        self.stream.synchronize()
    }

    /// Copies a box from the chunk to the array, and waits for it.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter(&self, copy: &StridedCopy) -> Result<()> {
        // SAFETY: as in `gather`.
        unsafe { self.box_on_stream().scatter(copy)? };
        self.stream.synchronize()
    }

    fn box_on_stream(&self) -> DeviceBox<'_> {
        DeviceBox { stream: &self.stream, array: self.array, chunk: self.chunk.all() }
    }
}

impl Drop for DeviceChunk<'_> {
    fn drop(&mut self) {
        // If it fails, no work continues either.
        let _ = self.stream.synchronize();
    }
}

/// A chunk and an array in GPU memory, between which a stream copies.
pub(super) struct DeviceBox<'a> {
    pub stream: &'a Stream<'a>,
    pub array: DeviceSlice<'a>,
    pub chunk: DeviceSlice<'a>,
}

impl DeviceBox<'_> {
    /// Starts a copy of a box from the array to the chunk.
    ///
    /// # Errors
    /// `Device`, `Internal` for a box that is not inside the memory.
    ///
    /// # Safety
    /// Both memories must live until the stream has completed the work.
    pub unsafe fn gather(&self, copy: &StridedCopy) -> Result<()> {
        let axes = copy.axes.iter().map(|&(count, array, chunk)| (count, array, chunk));
        let (src, dst) = ((self.array, copy.array_offset), (self.chunk, copy.chunk_offset));
        // SAFETY: by this function's contract.
        unsafe { start(self.stream, src, dst, axes, copy.element_bytes) }
    }

    /// Starts a copy of a box from the chunk to the array.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    ///
    /// # Safety
    /// As [`gather`](Self::gather).
    pub unsafe fn scatter(&self, copy: &StridedCopy) -> Result<()> {
        let axes = copy.axes.iter().map(|&(count, array, chunk)| (count, chunk, array));
        let (src, dst) = ((self.chunk, copy.chunk_offset), (self.array, copy.array_offset));
        // SAFETY: by this function's contract.
        unsafe { start(self.stream, src, dst, axes, copy.element_bytes) }
    }

    /// Starts to fill the chunk with copies of `element`.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    ///
    /// # Safety
    /// As [`gather`](Self::gather), also for the memory of `element`.
    pub unsafe fn fill(&self, element: DeviceSlice) -> Result<()> {
        let n_bytes = element.n_bytes();
        let axis = ((self.chunk.n_bytes() / n_bytes) as usize, 0, n_bytes as i64);
        // SAFETY: by this function's contract.
        unsafe { start(self.stream, (element, 0), (self.chunk, 0), [axis].into_iter(), n_bytes as usize) }
    }
}

/// Starts a copy of a box of elements. `axes`: for each axis, the fastest first, number of elements,
/// byte stride in the source, byte stride in the destination.
///
/// # Safety
/// Both memories must live until the stream has completed the work.
unsafe fn start(
    stream: &Stream,
    (src, src_offset): (DeviceSlice, usize),
    (dst, dst_offset): (DeviceSlice, usize),
    axes: impl Iterator<Item = (usize, i64, i64)>,
    element_bytes: usize,
) -> Result<()> {
    let element = element_bytes as i64;
    let mut all: Vec<(u64, i64, i64)> = axes.map(|(count, src, dst)| (count as u64, src, dst)).collect();
    // An axis without gaps on both sides becomes one run of bytes.
    let mut run_bytes = element_bytes as u64;
    if let Some(&(count, src, dst)) = all.first()
        && (src, dst) == (element, element)
    {
        run_bytes *= count;
        all.remove(0);
    }
    check_inside(&all, run_bytes, src_offset, src.n_bytes(), |axis| axis.1)?;
    check_inside(&all, run_bytes, dst_offset, dst.n_bytes(), |axis| axis.2)?;
    let (from, to) = (src.address() + src_offset as u64, dst.address() + dst_offset as u64);
    let bits = all.iter().fold(run_bytes | from | to, |bits, axis| bits | axis.1 as u64 | axis.2 as u64);
    let unit_bytes = 1u64 << bits.trailing_zeros().min(4);
    all.insert(0, (run_bytes / unit_bytes, unit_bytes as i64, unit_bytes as i64));
    let n_units = all.iter().map(|axis| axis.0).product();
    let mut args = BoxArgs {
        src: from,
        dst: to,
        n_units,
        unit_bytes: unit_bytes as u32,
        n_axes: all.len() as u32,
        counts: [1; MAX_AXES],
        src_strides: [0; MAX_AXES],
        dst_strides: [0; MAX_AXES],
    };
    for (i, &(count, src, dst)) in all.iter().enumerate() {
        (args.counts[i], args.src_strides[i], args.dst_strides[i]) = (count, src as u64, dst as u64);
    }
    let device = stream.device();
    let function = device.module(kernels::find("boxes")?)?.function("boxes_copy")?;
    let max_ctas = u64::from(device.gpu().multiprocessors * CTAS_PER_MULTIPROCESSOR);
    let ctas = n_units.div_ceil(THREADS.into()).clamp(1, max_ctas) as u32;
    // SAFETY: all units are inside of both memories, as checked above. Both live long enough by this
    // function's contract.
    unsafe { function.launch(Grid { ctas, threads: THREADS, shared_bytes: 0 }, stream, args.as_bytes()) }
}

/// Checks that a box is inside a memory of `n_bytes` bytes.
fn check_inside(
    axes: &[(u64, i64, i64)],
    run_bytes: u64,
    at: usize,
    n_bytes: u64,
    stride: impl Fn(&(u64, i64, i64)) -> i64,
) -> Result<()> {
    let (mut low, mut high) = (at as i128, at as i128 + i128::from(run_bytes));
    for axis in axes {
        let reach = i128::from(stride(axis)) * (i128::from(axis.0) - 1).max(0);
        low += reach.min(0);
        high += reach.max(0);
    }
    if low < 0 || high > i128::from(n_bytes) || axes.len() >= MAX_AXES {
        return Err(Error::internal("a box outside of its memory"));
    }
    Ok(())
}
