//! The chunks of a dataset through the GPU pipelines: frames equal the CPU's, errors of the caller end
//! the work, and frames that kernels reject go to the caller.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gridz::device::{
    ChunkInputs, ChunkOutputs, ChunkStream, DeviceChunks, DeviceSlice, Direction, FrameInputs, StridedCopy,
};
use gridz::{Array, ByteOrder, Context, DType, Error, ErrorKind, Part, Prepared, Request, STORED, Verify};
use gridz_codecs::settings::Backend;

use crate::arrays::{self, Kind, Random, array};
use crate::common::{assert_same_bytes, compresses_on_gpu, specs_of_gpus};
use crate::driver::{Memory, Stream};
use crate::shapes::dtype;
use crate::{cpu, has_gpu, n_cases};

/// Chunks of one array type with random contents, and their frames as the CPU writes them.
struct Chunks {
    prepared: Prepared,
    array: Array,
    arrays: Vec<Vec<u8>>,
    frames: Vec<Vec<u8>>,
    /// What the frames decompress to.
    decompressed: Vec<Vec<u8>>,
}

impl Chunks {
    fn new(array: Array, spec: &Request, n_chunks: usize, random: &mut Random) -> Self {
        let prepared = Prepared::new(&array, spec).unwrap();
        let n = array.shape().n_elements() as usize;
        let (mut arrays, mut frames, mut decompressed) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..n_chunks {
            let kind = Kind::random(random, n);
            let bytes = arrays::bytes(&array, kind, random);
            let mut frame = vec![0; prepared.bound() as usize];
            let n_bytes = prepared.compress(&bytes, &mut frame, &cpu()).unwrap();
            frame.truncate(n_bytes);
            let mut back = vec![0; bytes.len()];
            gridz::decompress(&frame, Part::All, &mut back, Verify::Checksum, &cpu()).unwrap();
            arrays.push(bytes);
            frames.push(frame);
            decompressed.push(back);
        }
        Self { prepared, array, arrays, frames, decompressed }
    }

    /// Batches of about `per_batch` chunks.
    fn stream<'a>(
        &'a self,
        direction: Direction,
        memory: Option<DeviceSlice>,
        per_batch: u64,
        context: &'a Context,
    ) -> ChunkStream<'a> {
        let batch_bytes = per_batch * self.array.n_bytes().max(4096);
        let plan = (&self.prepared, direction);
        let stream = ChunkStream::new(plan, self.arrays.len() as u64, memory, batch_bytes, context);
        stream.unwrap().expect("a GPU is required")
    }

    fn lengths(&self) -> Vec<u64> {
        self.frames.iter().map(|frame| frame.len() as u64).collect()
    }

    fn gather(&self, i: u64, at: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.arrays[i as usize][at..at + bytes.len()]);
    }

    fn read(&self, i: u64, at: usize, bytes: &mut [u8]) -> Result<(), Error> {
        bytes.copy_from_slice(&self.frames[i as usize][at..at + bytes.len()]);
        Ok(())
    }
}

fn on_cuda(threads: usize) -> Context {
    Context::new(Some(threads), None).unwrap().on(Backend::Cuda, None).unwrap()
}

fn random_chunks(spec: &Request, case: usize, random: &mut Random) -> Option<Chunks> {
    let order = if case % 5 == 4 { ByteOrder::Big } else { ByteOrder::Little };
    let most = random.pick(&[1000, 20_000, 200_000]);
    let extents = arrays::extents(random, 1 + case % 4, most);
    let array = array(dtype(spec, case), order, &extents);
    let n_chunks = 1 + random.below(30);
    // Stored chunks are only copied, by the CPU.
    let is_stored = spec.codec() == STORED || spec.why_stored(array.dtype()).is_some();
    (!is_stored && array.n_bytes() > 0 && compresses_on_gpu(&array, spec))
        .then(|| Chunks::new(array, spec, n_chunks, random))
}

#[test]
fn chunks_in_host_memory() {
    if !has_gpu("chunks_in_host_memory") {
        return;
    }
    let (mut random, mut n_reached) = (Random::new(21), 0);
    for spec in specs_of_gpus() {
        for case in 0..n_cases(20) as usize {
            let Some(chunks) = random_chunks(&spec, case, &mut random) else { continue };
            let (context, per_batch) = (on_cuda(1 + random.below(4)), 1 + random.below(8) as u64);
            let what = format!("{spec:?} {:?}, batches of {per_batch}", chunks.array);
            let (gather, mut next) = (|i, at, bytes: &mut [u8]| chunks.gather(i, at, bytes), 0);
            let stream = chunks.stream(Direction::Compress, None, per_batch, &context);
            let n_stored =
                stream.compress(chunks.arrays.len() as u64, ChunkInputs::Host(&gather), &mut |i, frame| {
                    assert_eq!(i, next, "{what}");
                    assert_same_bytes(frame, &chunks.frames[i as usize], &what);
                    next += 1;
                    Ok(())
                });
            if n_stored == Ok(0) {
                // There are no kernels that compress.
                continue;
            }
            assert_eq!(n_stored, Ok(chunks.arrays.len() as u64), "{what}");
            decompresses(&chunks, per_batch, &context, &what);
            n_reached += 1;
        }
    }
    assert!(n_reached >= 10 * n_cases(20) / 2, "{n_reached} lists of chunks");
}

/// All frames decompress, and the caller's function gets those that the kernels reject.
fn decompresses(chunks: &Chunks, per_batch: u64, context: &Context, what: &str) {
    let arrays: Vec<_> = chunks.arrays.iter().map(|array| Mutex::new(vec![0x5a; array.len()])).collect();
    let lengths = chunks.lengths();
    let read = |i, at, bytes: &mut [u8]| chunks.read(i, at, bytes);
    let decompress = |i: u64| {
        let mut array = arrays[i as usize].lock().unwrap();
        gridz::decompress(&chunks.frames[i as usize], Part::All, &mut *array, Verify::Checksum, &cpu()).map(drop)
    };
    let scatter = |i: u64, at: usize, bytes: &[u8]| {
        arrays[i as usize].lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let frames = FrameInputs { lengths: &lengths, read: &read, decompress: &decompress };
    let stream = chunks.stream(Direction::Decompress, None, per_batch, context);
    let mut next = 0;
    let outputs = ChunkOutputs::Host(&scatter);
    let n_done = stream.decompress(&frames, outputs, Verify::Checksum, &mut |done: Range<u64>| {
        assert_eq!(done.start, next, "{what}");
        next = done.end;
        Ok(())
    });
    assert_eq!(n_done, Ok(lengths.len() as u64), "{what}");
    for (array, wanted) in arrays.iter().zip(&chunks.decompressed) {
        assert_same_bytes(&array.lock().unwrap(), wanted, what);
    }
}

/// Chunks in GPU memory: each has a box with gaps, and padding around its elements.
#[test]
fn chunks_in_gpu_memory() {
    if !has_gpu("chunks_in_gpu_memory") {
        return;
    }
    let (stream, mut random) = (Stream::new(), Random::new(22));
    let (rows, columns, inside) = (70, 50, (60, 41));
    for (dtype, padding) in
        [(DType::F32, 7f32.to_le_bytes().to_vec()), (DType::U8, vec![9]), (DType::F64, vec![0; 8])]
    {
        let array = Array::new(dtype, ByteOrder::Little, gridz::Shape::new(&[rows, columns]).unwrap()).unwrap();
        let size = padding.len();
        let mut chunks = Chunks::new(array, &"lorenzo".parse().unwrap(), 9, &mut random);
        // Elements outside of the box are padding.
        for (bytes, frame) in chunks.arrays.iter_mut().zip(&mut chunks.frames) {
            for (i, element) in bytes.chunks_exact_mut(size).enumerate() {
                if i / columns as usize >= inside.0 || i % columns as usize >= inside.1 {
                    element.copy_from_slice(&padding);
                }
            }
            frame.resize(chunks.prepared.bound() as usize, 0);
            let n_bytes = chunks.prepared.compress(&*bytes, &mut *frame, &cpu()).unwrap();
            frame.truncate(n_bytes);
        }
        chunks.decompressed = chunks.arrays.clone();
        // In memory, every second element of a row belongs to a box.
        let box_bytes = inside.0 * inside.1 * 2 * size;
        let memory = Memory::new(&stream, chunks.arrays.len() * box_bytes, 0);
        let mut raw = vec![0xa5; memory.n_bytes()];
        let copy_of = |i: u64| StridedCopy {
            element_bytes: size,
            array_offset: i as usize * box_bytes,
            chunk_offset: 0,
            axes: vec![
                (inside.1, 2 * size as i64, size as i64),
                (inside.0, (2 * inside.1 * size) as i64, columns as i64 * size as i64),
            ],
        };
        for (i, bytes) in chunks.arrays.iter().enumerate() {
            for at in 0..inside.0 * inside.1 {
                let (row, column) = (at / inside.1, at % inside.1);
                let from = (row * columns as usize + column) * size;
                raw[i * box_bytes + 2 * at * size..][..size].copy_from_slice(&bytes[from..from + size]);
            }
        }
        memory.write(0, &raw);
        stream.synchronize();
        // SAFETY: the memory has that many bytes, and outlives the slice.
        let slice = unsafe { DeviceSlice::from_raw(memory.ptr(), memory.n_bytes() as u64) };
        let device_chunks = DeviceChunks { memory: slice, copy_of: &copy_of, padding: &padding };
        let (context, mut n) = (on_cuda(2), 0);
        let made = chunks.stream(Direction::Compress, Some(slice), 2, &context).compress(
            9,
            ChunkInputs::Device(device_chunks),
            &mut |i, frame| {
                assert_same_bytes(frame, &chunks.frames[i as usize], "a box in GPU memory");
                n += 1;
                Ok(())
            },
        );
        assert_eq!((made, n), (Ok(9), 9));
        // Only elements of the boxes are written.
        memory.write(0, &vec![0xa5; raw.len()]);
        stream.synchronize();
        let lengths = chunks.lengths();
        let read = |i, at, bytes: &mut [u8]| chunks.read(i, at, bytes);
        let frames =
            FrameInputs { lengths: &lengths, read: &read, decompress: &|i| panic!("frame {i} is rejected") };
        let made = chunks.stream(Direction::Decompress, Some(slice), 2, &context).decompress(
            &frames,
            ChunkOutputs::Device(device_chunks),
            Verify::Checksum,
            &mut |_| Ok(()),
        );
        assert_eq!(made, Ok(9));
        memory.assert_guards("boxes");
        assert_same_bytes(&memory.read_all(), &raw, "boxes in GPU memory");
    }
}

/// An error of a callback ends the work, and is the error of the call.
#[test]
fn errors_of_the_caller() {
    if !has_gpu("errors_of_the_caller") {
        return;
    }
    let mut random = Random::new(23);
    let array = array(DType::F32, ByteOrder::Little, &[40, 50]);
    let mut chunks = Chunks::new(array, &"lorenzo".parse().unwrap(), 40, &mut random);
    let context = on_cuda(3);
    let failed = || Error::new(ErrorKind::Cancelled, "the caller's own error");
    for bad in [0, 17, 39] {
        let (gather, mut n) = (|i, at, bytes: &mut [u8]| chunks.gather(i, at, bytes), 0);
        // The GPU waits for the slow thread, and must not wait for ever.
        let made = chunks.stream(Direction::Compress, None, 2, &context).compress(
            40,
            ChunkInputs::Host(&gather),
            &mut |i, _| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                n += 1;
                if i == bad { Err(failed()) } else { Ok(()) }
            },
        );
        assert_eq!((made.unwrap_err().context(), n), ("the caller's own error", bad + 1));
        // Errors of reading, of a rejected frame, and of the calling thread.
        let (lengths, n_rejected) = (chunks.lengths(), AtomicUsize::new(0));
        for place in 0..3 {
            if place == 1 {
                let middle = chunks.frames[bad as usize].len() / 2;
                chunks.frames[bad as usize][middle] ^= 1;
            }
            let read = |i, at, bytes: &mut [u8]| {
                if (place, i) == (0, bad) { Err(failed()) } else { chunks.read(i, at, bytes) }
            };
            let decompress = |i| {
                assert_eq!((place, i), (1, bad));
                n_rejected.fetch_add(1, Ordering::Relaxed);
                Err(failed())
            };
            let frames = FrameInputs { lengths: &lengths, read: &read, decompress: &decompress };
            let made = chunks.stream(Direction::Decompress, None, 2, &context).decompress(
                &frames,
                ChunkOutputs::Host(&|_, _, _| ()),
                Verify::Checksum,
                &mut |done: Range<u64>| if place == 2 && done.contains(&bad) { Err(failed()) } else { Ok(()) },
            );
            assert_eq!(made.unwrap_err().context(), "the caller's own error", "{bad} {place}");
            if place == 1 {
                let middle = chunks.frames[bad as usize].len() / 2;
                chunks.frames[bad as usize][middle] ^= 1;
            }
        }
        assert_eq!(n_rejected.into_inner(), 1);
    }
}
