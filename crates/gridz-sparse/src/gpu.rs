//! y = A x on a GPU, with the kernels in `kernels/sparse`. The frame is copied to the GPU once,
//! unchanged, and decoded during the product.
#![allow(unsafe_code, reason = "starts kernels")]

use crate::layout::{LANES, ValueCodec};
use crate::matrix::Matrix;
use gridz_codecs::cpu::pool::lock;
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::DType;
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Grid, KernelStruct, Stream, StreamHandle};

gridz_codecs::kernel_struct! {
    /// `SparseArgs` in `kernels/sparse/layout.cuh`.
    struct SparseArgs, size 104 {
        slices: u64,
        steps: u64,
        order: u64,
        long_rows: u64,
        different: u64,
        value_blocks: u64,
        codes: u64,
        values: u64,
        x: u64,
        y: u64,
        long_sums: u64,
        n_slices: u32,
        n_all: u32,
        n_long: u32,
        block: u32,
    }
}

/// Threads of a CTA.
const THREADS: u32 = 256;
/// Slices per CTA, one per warp.
const SLICES: u64 = 8;

/// Names of the kernels for one element type.
struct Kernels {
    /// Indexed by the numbers of [`ValueCodec`]. Entry 0: for matrices without blocks. Entry 1: for
    /// matrices with blocks.
    slices: [[&'static str; 2]; ValueCodec::ALL.len()],
    /// For plain values of rows with many elements that have codes of their own, without blocks.
    deep: &'static str,
    /// For long rows.
    long: &'static str,
}

/// Smallest mean number of elements per lane for which the kernel `deep` is faster.
const DEEP_ROW: u64 = 10;

macro_rules! kernels {
    ($name:literal) => {
        Kernels {
            slices: kernels!($name: "_plain", "_constant", "_dictionary8", "_dictionary16", "_blocks"),
            deep: concat!($name, "_plain_deep"),
            long: concat!($name, "_long"),
        }
    };
    ($name:literal: $($values:literal),*) => {
        [$([concat!($name, $values), concat!($name, $values, "_blocked")]),*]
    };
}

const OF_F32: Kernels = kernels!("sparse_f32");
const OF_F64: Kernels = kernels!("sparse_f64");

/// A matrix's frame in GPU memory.
#[derive(Debug)]
pub struct OnGpu {
    device: &'static Device,
    frame: DeviceBuffer<'static>,
}

impl Matrix {
    /// Address of the frame in the memory of a GPU. The first call copies the frame there; the copy
    /// lives as long as the matrix.
    fn address_on(&self, device: &'static Device) -> Result<u64> {
        let mut all = lock(self.on_gpus());
        if let Some(found) = all.iter().find(|one| std::ptr::eq(one.device, device)) {
            return Ok(found.frame.all().address());
        }
        let stream = device.stream()?;
        let frame = stream.alloc(self.frame_bytes() as u64)?;
        stream.copy_in(frame.all(), self.frame())?;
        let address = frame.all().address();
        all.push(OnGpu { device, frame });
        Ok(address)
    }
}

/// y = A x with vectors in GPU memory. With a stream, the product is enqueued on it without
/// waiting; without one, this waits for the result.
///
/// # Errors
/// `InvalidArgument` for vectors of another length or alignment, and for memory of two GPUs or of
/// none; `UnsupportedJob`, `OutOfMemory`, `Device`.
///
/// # Safety
/// The vectors must not overlap. They and the matrix must live until the stream has completed the
/// work.
pub unsafe fn multiply_on_gpu(
    matrix: &Matrix,
    x: DeviceSlice,
    y: DeviceSlice,
    stream: Option<StreamHandle>,
) -> Result<()> {
    let device = || Device::of_memory(&[x, y]);
    // SAFETY: the same promises.
    unsafe {
        match stream {
            Some(stream) => give(matrix, x, y, &stream.open(device)?),
            None => {
                let stream = device()?.stream()?;
                give(matrix, x, y, &stream)?;
                stream.synchronize()
            }
        }
    }
}

/// Enqueues the product on a stream.
///
/// # Errors
/// `InvalidArgument` for vectors of another length or with the wrong alignment; `UnsupportedJob`
/// for a matrix with more than 2^32 rows or columns; `OutOfMemory`, `Device`.
///
/// # Safety
/// The vectors must not overlap. They and the matrix must live until the stream has completed the
/// work.
unsafe fn give(matrix: &Matrix, x: DeviceSlice, y: DeviceSlice, stream: &Stream) -> Result<()> {
    let head = matrix.head();
    let element = u64::from(head.dtype.size().unwrap_or(0));
    for (name, vector, n) in [("x", x, head.n_cols), ("y", y, head.n_rows)] {
        if n.checked_mul(element) != Some(vector.n_bytes()) {
            let n_bytes = vector.n_bytes();
            let text = format!(
                "{name} has {n_bytes} bytes; with this matrix it must have {n} elements of {element} bytes"
            );
            return Err(Error::invalid(text));
        }
        if !vector.address().is_multiple_of(element) {
            let address = vector.address();
            return Err(Error::invalid(format!(
                "{name} is at {address:#x}; it must be aligned to {element} bytes"
            )));
        }
        if n > 1 << 32 {
            return Err(Error::unsupported(format!(
                "the matrix has {n} rows or columns; GPUs support at most 2^32"
            )));
        }
    }
    let n_all = (head.n_slices + head.n_long_slices) as u64;
    if n_all == 0 {
        return Ok(());
    }
    let device = stream.device();
    let frame = matrix.address_on(device)?;
    let places = matrix.table_ranges();
    let at = |table: &std::ops::Range<usize>| frame + table.start as u64;
    // Stream-ordered allocation takes as long as a small product, so it is avoided if possible.
    let long_sums = match head.n_long_slices {
        0 => None,
        n => Some(stream.alloc(n as u64 * element)?),
    };
    let args = SparseArgs {
        slices: at(&places.slices),
        steps: at(&places.steps),
        order: at(&places.order),
        long_rows: at(&places.long),
        different: at(&places.different),
        value_blocks: at(&places.blocks),
        codes: at(&places.codes),
        values: at(&places.values),
        x: x.address(),
        y: y.address(),
        long_sums: long_sums.as_ref().map_or(0, |sums| sums.all().address()),
        // A frame has fewer than 2^32 of each.
        n_slices: head.n_slices as u32,
        n_all: n_all as u32,
        n_long: head.n_long as u32,
        block: head.block as u32,
    };
    let kernels = if head.dtype == DType::F32 { &OF_F32 } else { &OF_F64 };
    // Elements at the distances of a stencil have no codes; `deep` is for elements with codes.
    let is_deep = head.nnz >= DEEP_ROW * LANES as u64 * n_all && head.code_bytes as u64 >= head.nnz;
    let of_slices = match head.codec {
        ValueCodec::Plain if is_deep && head.block == 1 => kernels.deep,
        codec => kernels.slices[codec as usize][usize::from(head.block > 1)],
    };
    let module = device.module(gridz::device::kernels("sparse")?)?;
    let grid = |n: u64, each: u64| Grid { ctas: n.div_ceil(each) as u32, threads: THREADS, shared_bytes: 0 };
    // SAFETY: tables and vectors are as long as the matrix says, whose tables have been checked;
    // the rest is the caller's promise.
    unsafe {
        module.function(of_slices)?.launch(grid(n_all, SLICES), stream, args.as_bytes())?;
        if head.n_long > 0 {
            let grid = grid(head.n_long as u64, THREADS.into());
            module.function(kernels.long)?.launch(grid, stream, args.as_bytes())?;
        }
    }
    Ok(())
}
