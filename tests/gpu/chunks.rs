//! Many chunks at once through the GPU pipelines: packed frames equal the CPU's for every location
//! of arrays and frames, and any number of batches.

use std::ffi::{CStr, c_void};
use std::ptr;

use gridz::device::{ChunkArray, compress_chunks, decompress_chunks, packed_bound};
use gridz::{ByteOrder, Context, ErrorKind, Mode, Request, Verify};
use gridz::{Destination, Source};
use gridz_capi::api::gridz_last_error;
use gridz_capi::batch::gridz_batch;
use gridz_capi::cuda::{gridz_pack_async, gridz_unpack_async};
use gridz_codecs::settings::{self, Backend};
use gridz_cuda::{Device, DeviceSlice, PinnedBuffer};

use crate::arrays::{self, Kind, Random, array};
use crate::common::{assert_same_bytes, compresses_on_gpu, specs_of_gpus};
use crate::driver::{Memory, Stream};
use crate::shapes::dtype;
use crate::{cpu, has_gpu, n_cases};

/// Location of one end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Pageable,
    Pinned,
    Gpu,
}

const PLACES: [Place; 3] = [Place::Pageable, Place::Pinned, Place::Gpu];

/// Memory in that location.
enum Space<'s> {
    Pageable(Vec<u8>),
    Pinned(PinnedBuffer),
    Gpu(Memory<'s>),
}

impl<'s> Space<'s> {
    fn new(place: Place, bytes: &[u8], stream: &'s Stream, shift: usize) -> Self {
        match place {
            Place::Pageable => Self::Pageable(bytes.to_vec()),
            Place::Pinned => {
                let device = Device::choose(settings::checked().unwrap()).unwrap();
                let mut pinned = device.pinned(bytes.len()).unwrap();
                pinned.copy_from_slice(bytes);
                Self::Pinned(pinned)
            }
            Place::Gpu => {
                let memory = Memory::new(stream, bytes.len(), shift);
                memory.write(0, bytes);
                stream.synchronize();
                Self::Gpu(memory)
            }
        }
    }

    fn source(&self) -> Source<'_> {
        match self {
            Self::Pageable(bytes) => Source::Host(bytes),
            Self::Pinned(bytes) => Source::Host(bytes),
            Self::Gpu(memory) => Source::Device(slice(memory)),
        }
    }

    fn destination(&mut self) -> Destination<'_> {
        match self {
            Self::Pageable(bytes) => Destination::Host(bytes),
            Self::Pinned(bytes) => Destination::Host(bytes),
            Self::Gpu(memory) => Destination::Device(slice(memory)),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Pageable(bytes) => bytes.clone(),
            Self::Pinned(bytes) => bytes.to_vec(),
            Self::Gpu(memory) => {
                memory.assert_guards("lists");
                memory.read_all()
            }
        }
    }
}

fn slice<'a>(memory: &'a Memory) -> DeviceSlice<'a> {
    // SAFETY: the memory has that many bytes, and outlives the slice.
    unsafe { DeviceSlice::from_raw(memory.ptr(), memory.n_bytes() as u64) }
}

/// A context whose batches have about `n_bytes` bytes.
fn with_batches_of(n_bytes: u64, threads: usize) -> Context {
    Context::new(Some(threads), Some(8 * n_bytes)).unwrap().on(Backend::Cuda, None).unwrap()
}

#[test]
fn random_lists() {
    if !has_gpu("random_lists") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(5);
    for spec in specs_of_gpus() {
        for case in 0..n_cases(60) as usize {
            random_list(&stream, &spec, case, &mut random);
        }
    }
}

fn random_list(stream: &Stream, spec: &Request, case: usize, random: &mut Random) {
    let dtype = dtype(spec, case);
    let order = if case % 5 == 4 { ByteOrder::Big } else { ByteOrder::Little };
    let most = random.pick(&[1000, 20_000, 300_000]);
    let extents = arrays::extents(random, 1 + case / 2 % 4, most);
    let array = array(dtype, order, &extents);
    let n_chunks = 1 + random.below(30);
    let gap = if random.once_in(3) { random.below(50) as u64 } else { 0 };
    let chunks = ChunkArray { array, n_chunks, stride: array.n_bytes() + gap };
    let (from, to) = (random.pick(&PLACES), random.pick(&PLACES));
    let what =
        format!("{spec:?} {dtype:?} {order:?} {extents:?} {n_chunks} chunks, {gap} between, {from:?} to {to:?}");
    let kinds: Vec<Kind> =
        (0..n_chunks).map(|_| Kind::random(random, array.shape().n_elements() as usize)).collect();
    let mut raw = vec![0xa5; chunks.span("stride").unwrap() as usize];
    for (i, &kind) in kinds.iter().enumerate() {
        let at = i * chunks.stride as usize;
        raw[at..at + array.n_bytes() as usize].copy_from_slice(&arrays::bytes(&array, kind, random));
    }
    let bound = packed_bound(&array, n_chunks).unwrap() as usize;
    let (mut wanted, mut wanted_lengths) = (vec![0; bound], vec![0; n_chunks]);
    let dst = Destination::Host(&mut wanted);
    let end = compress_chunks(&chunks, spec, Source::Host(&raw), dst, &mut wanted_lengths, &cpu()).unwrap();
    wanted.truncate(end as usize);

    let threads = 1 + random.below(8);
    // The CPU path needs memory for everything.
    let is_cpus = !compresses_on_gpu(&array, spec);
    let batch = if is_cpus { 1 << 30 } else { array.n_bytes().max(1000) * (1 + random.below(8) as u64) };
    let context = with_batches_of(batch, threads);
    let src = Space::new(from, &raw, stream, random.below(3) * array.element_size() as usize);
    let capacity = if random.once_in(2) { wanted.len() } else { bound };
    let mut frames = Space::new(to, &vec![0x5a; capacity], stream, 16 * random.below(3));
    let mut lengths = vec![0; n_chunks];
    let made = compress_chunks(&chunks, spec, src.source(), frames.destination(), &mut lengths, &context);
    assert_eq!(made, Ok(end), "{what}");
    assert_eq!(lengths, wanted_lengths, "{what}");
    assert_same_bytes(&frames.bytes()[..end as usize], &wanted, &what);
    if capacity == wanted.len() {
        let mut short = Space::new(to, &wanted[1..], stream, 0);
        let error = compress_chunks(&chunks, spec, src.source(), short.destination(), &mut lengths, &context);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::DstTooSmall { need: bound as u64 }, "{what}");
    }

    let packed = Space::new(to, &wanted, stream, 16 * random.below(3));
    let mut back =
        Space::new(from, &vec![0xa5; raw.len()], stream, random.below(3) * array.element_size() as usize);
    let verify = Verify::Checksum;
    // The CPU also leaves the gaps between the arrays unchanged, and works beside the GPU where
    // allowed.
    let context = match random.below(4) {
        0 => cpu(),
        1 => Context::new(Some(threads), None).unwrap(),
        _ => context,
    };
    decompress_chunks(&chunks, packed.source(), &wanted_lengths, back.destination(), verify, &context)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    if spec.mode() == Mode::Lossless {
        assert_same_bytes(&back.bytes(), &raw, &what);
    }

    // The error for a damaged frame contains its index.
    let i = random.below(n_chunks);
    let at: u64 = wanted_lengths[..i].iter().map(|n_bytes| n_bytes.next_multiple_of(16)).sum();
    let mut damaged = wanted.clone();
    damaged[at as usize + random.below(wanted_lengths[i] as usize)] ^= 1 << random.below(8);
    let packed = Space::new(to, &damaged, stream, 0);
    let result = decompress_chunks(&chunks, packed.source(), &wanted_lengths, back.destination(), verify, &context);
    let error = result.expect_err(&what);
    assert!(error.context().starts_with(&format!("frame {i}: ")), "{what}: {error}");
}

#[test]
fn frames_of_other_codecs_are_read_too() {
    if !has_gpu("frames_of_other_codecs_are_read_too") {
        return;
    }
    let array = array(gridz::DType::F32, ByteOrder::Little, &[40, 50, 60]);
    let chunks = ChunkArray { array, n_chunks: 9, stride: array.n_bytes() };
    let mut random = Random::new(6);
    let raw: Vec<u8> =
        (0..9).flat_map(|_| arrays::bytes(&array, Kind::random(&mut random, 120_000), &mut random)).collect();
    let (mut packed, mut lengths) = (Vec::new(), Vec::new());
    for (i, chunk) in raw.chunks(array.n_bytes() as usize).enumerate() {
        let codec: Request = ["ndzip", "lorenzo", "stored"][i % 3].parse().unwrap();
        let frame = crate::common::compress(&array, &codec, chunk, &cpu());
        lengths.push(frame.len() as u64);
        packed.extend(frame);
        packed.resize(packed.len().next_multiple_of(16), 0);
    }
    let mut back = vec![0; raw.len()];
    let context = with_batches_of(2 * array.n_bytes(), 3);
    let dst = Destination::Host(&mut back);
    decompress_chunks(&chunks, Source::Host(&packed), &lengths, dst, Verify::Checksum, &context).unwrap();
    assert_same_bytes(&back, &raw, "frames of three codecs");
}

/// Packs a batch's frames and unpacks them again on the stream. A frame that is not inside the
/// packed bytes gets length 0.
#[test]
fn frames_are_packed_on_a_stream() {
    if !has_gpu("frames_are_packed_on_a_stream") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(7);
    for case in 0..n_cases(40) as usize {
        let n = random.pick(&[1, 2, 40, 3000]);
        let slot = 16 * (1 + random.below(if n > 100 { 200 } else { 9000 }));
        let lengths: Vec<u64> = (0..n).map(|_| random.below(slot + 1) as u64).collect();
        let mut slots = vec![0u8; n * slot];
        slots.iter_mut().for_each(|byte| *byte = random.word() as u8);
        let mut wanted = Vec::new();
        let mut offsets = Vec::new();
        for (frame, &n_bytes) in slots.chunks(slot).zip(&lengths) {
            offsets.push(wanted.len() as u64);
            wanted.extend(&frame[..n_bytes as usize]);
            wanted.resize(wanted.len().next_multiple_of(16), 0);
        }
        offsets.push(wanted.len() as u64);
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let frames = Memory::of(&stream, &slots, 0);
        let frame_bytes = Memory::of(&stream, &words(&lengths), 0);
        let packed = Memory::new(&stream, wanted.len() + 16, 0);
        let places = Memory::new(&stream, 8 * (n + 1), 0);
        // SAFETY: the memory has these sizes, and lives until the stream is synchronized.
        let status = unsafe {
            let slots = (n, frames.ptr(), slot, frame_bytes.ptr());
            gridz_pack_async(&packing(slots, (packed.ptr(), wanted.len(), places.ptr()), &stream))
        };
        assert_eq!(status, 0, "{}", last_error());
        assert_same_bytes(&packed.read_all()[..wanted.len()], &wanted, &format!("case {case}: packed"));
        assert_same_bytes(&places.read_all(), &words(&offsets), &format!("case {case}: offsets"));
        packed.assert_guards("packed");
        places.assert_guards("offsets");

        // A few invalid offsets.
        let (mut wrong, mut kept) = (offsets.clone(), lengths.clone());
        for _ in 0..random.below(3) {
            let i = random.below(n);
            wrong[i] = random.pick(&[offsets[n] + 16, u64::MAX - 15, offsets[i] + 1]);
            kept[i] = 0;
        }
        let places = Memory::of(&stream, &words(&wrong), 0);
        let (back, out_lengths) = (Memory::new(&stream, n * slot, 0), Memory::new(&stream, 8 * n, 0));
        back.fill(0x5a);
        // SAFETY: as above.
        let status = unsafe {
            let slots = (n, back.ptr(), slot, frame_bytes.ptr());
            let batch = packing(slots, (packed.ptr(), wanted.len(), places.ptr()), &stream);
            gridz_unpack_async(&batch, out_lengths.ptr())
        };
        assert_eq!(status, 0, "{}", last_error());
        // An empty frame is valid at any offset.
        let found = out_lengths.read_all();
        assert_same_bytes(&found, &words(&kept), &format!("case {case}: lengths"));
        for (i, (found, frame)) in back.read_all().chunks(slot).zip(slots.chunks(slot)).enumerate() {
            let n_bytes = kept[i] as usize;
            assert_same_bytes(&found[..n_bytes], &frame[..n_bytes], &format!("case {case}: frame {i}"));
        }
        back.assert_guards("slots");
        out_lengths.assert_guards("lengths");
    }
}

/// A batch of frames in slots, and packed. It has no arrays.
fn packing(
    (n, frames, frame_stride, frame_bytes): (usize, *mut c_void, usize, *mut usize),
    (packed, packed_bytes, offsets): (*mut c_void, usize, *mut usize),
    stream: &Stream,
) -> gridz_batch {
    gridz_batch {
        struct_size: size_of::<gridz_batch>(),
        array: ptr::null(),
        n,
        arrays: ptr::null_mut(),
        array_stride: 0,
        frames,
        frame_stride,
        frame_bytes,
        packed,
        packed_bytes,
        offsets,
        statuses: ptr::null_mut(),
        start: ptr::null(),
        count: ptr::null(),
        workspace: ptr::null_mut(),
        workspace_bytes: 0,
        stream: stream.raw(),
        options: ptr::null(),
    }
}

fn last_error() -> String {
    // SAFETY: text that lives until the next failing call of this thread.
    unsafe { CStr::from_ptr(gridz_last_error()) }.to_string_lossy().into_owned()
}
