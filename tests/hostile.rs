//! Damaged and hostile frames: the result is an error, never a panic, never wrong data under
//! [`Verify::Checksum`], and memory use is bounded by the caller's destination.
//!
//! Every test counts the cases that reached its target, in most tests the decoder of a codec, and
//! asserts that count.

#![allow(unsafe_code)] // the counting allocator

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Instant;

use common::damage::{self, Answers, frame_of, is_possible, requests};
use common::decoder::{Decoder, Stage};
use common::generate::{GENERATORS, Input, Xorshift, noise};
use common::repair::{repair, reseal};
use common::{assert_same_bytes, compress, decompress, one_in, takes};
use gridz::{Context, DType, ErrorKind, Request, Verify};
use gridz_codecs::codec::registry::{self, CODECS};
use gridz_codecs::codec::{Detail, Progressive};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::format::header::{FORMAT_VERSION, MAGIC, header_bytes};
use gridz_dataset::hdf5::cd::Values;
use gridz_dataset::hdf5::record::{RECORD_MAGIC, RECORD_VERSION, Record};

// ---- counting allocations -------------------------------------------------------------------------

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(n_bytes: usize) {
    // An exiting thread may allocate after its counter was destroyed.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + n_bytes));
}

// SAFETY: every call is forwarded unchanged to the system allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        count(n_bytes);
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(block, layout, n_bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The result of `body`, and all bytes that the calling thread allocated meanwhile, freed or not.
fn allocated<R>(body: impl FnOnce() -> R) -> (R, usize) {
    let before = ALLOCATED.get();
    let result = body();
    (result, ALLOCATED.get() - before)
}

/// Upper bound for the bytes that decompression into `dst_bytes` may allocate, in total.
///
/// ndzip: a list of the pieces of the destination: for 16 rows of 16 planes, at least 16 KiB of
/// data, sixteen slices and a little more, about 330 bytes. The rest is the text of an error and
/// the axes of a region.
///
/// lorenzo: three copies of a block of up to 2^14 words.
///
/// quant: four copies of a block of up to 2^12 words, and the parts of a complex block; at level
/// dense four of 2^16, two bytes a number and the slots of twelve tables.
///
/// huffman: three copies of a block of up to 2^15 numbers of four bytes, their codes and lengths,
/// and two tables.
///
/// cci: four copies of a block of up to 2^16 words, and four numbers of four bytes for each word.
/// For every fourth word: one word, nine numbers for copies, which are stored three times, and four
/// more. In addition, huffman's memory.
///
/// multigrid: the grids before the last one, three quarters of the array; the numbers of half of it,
/// and those of the first steps; and a block as for quant.
fn allowance(frame: &[u8], dst_bytes: usize) -> usize {
    // The first byte of quant's parameters is the logarithm of its block size.
    let log2_size = frame.get(9).and_then(|&rank| frame.get(40 + 8 * usize::from(rank)));
    let work = match frame.get(5) {
        // At level max: the models of a block, and for each element of one its word, number, tail,
        // value and differences.
        Some(2) if frame.get(6) == Some(&2) => (1 << 20) + 160 * dst_bytes.min(1 << 18),
        Some(2) => 8 * (3 * ((1 << 14) + 64) + 16),
        Some(3) if log2_size == Some(&16) => 8 * (4 * ((1 << 16) + 64) + 16) + 2 * (1 << 16) + 128 + (12 << 12),
        Some(3) => 8 * (4 * ((1 << 12) + 64) + 16) + (8 << 12),
        Some(5) => 8 * (2 * ((1 << 16) + 64) + (1 << 12)) + 2 * (1 << 16) + 128 + ((4 * 12) << 12) + 8192,
        Some(6) => (3 * 4 + 2 + 1) * ((1 << 15) + 32) + (1 << 14) + (1 << 13),
        Some(7) => {
            (4 * 8 + 4 * 4 + (8 + 3 * 12 + 4 * 4) / 4 + 3 * 4 + 2 + 1) * ((1 << 16) + 64) + (1 << 14) + (1 << 13)
        }
        _ => 0,
    };
    let grids = if frame.get(5) == Some(&5) { dst_bytes + dst_bytes / 2 } else { 0 };
    work + grids + dst_bytes / 32 + 2048
}

// ---- frames ---------------------------------------------------------------------------------------

struct Sample {
    frame: Vec<u8>,
    array: Vec<u8>,
}

fn sample(spec: &Request, input: &Input) -> Sample {
    let frame = frame_of(spec, input, &serial());
    let array = decompress(&frame, &serial()).unwrap();
    Sample { frame, array }
}

/// A context without worker threads, since their allocations would not be counted.
fn serial() -> Context {
    Context::new(Some(1), None).unwrap()
}

/// Number of bytes in a frame's header.
fn header_of(frame: &[u8]) -> usize {
    header_bytes(frame[9], usize::from(frame[11]))
}

/// Number of random cases of a test: `all` with `GRIDZ_ALL_CASES=1`, otherwise a fraction of them.
fn n_cases(all: u64) -> u64 {
    all.div_ceil(one_in() as u64)
}

/// One small frame per request, type and rank, and a few with more blocks. Requests for missing
/// elements and for levels have fewer shapes.
fn samples() -> Vec<Sample> {
    let (mut samples, mut kinds) = (Vec::new(), BTreeSet::new());
    let mut add = |spec: &Request, rule: &str, dtype: DType, extents: &[u64]| {
        let input = Input::new(rule, dtype, extents);
        if is_possible(spec, &input.array()) {
            let sample = sample(spec, &input);
            kinds.insert((sample.frame[5], sample.frame[6], spec.level(), spec.mode().id()));
            samples.push(sample);
        }
    };
    for spec in requests() {
        // zfp's blocks take more time.
        if spec.name() == "zfp" {
            for (dtype, extents) in [
                (DType::F32, &[300][..]),
                (DType::F64, &[20, 21]),
                (DType::F32, &[6, 7, 8]),
                (DType::F64, &[4, 5, 3, 6]),
                (DType::I32, &[17, 20]),
                (DType::I64, &[200]),
            ] {
                add(&spec, "wave", dtype, extents);
                add(&spec, "field_nan", dtype, extents);
            }
            continue;
        }
        for dtype in DType::ALL {
            add(&spec, "ramp", dtype, &[20, 30]);
        }
        add(&spec, "zero", DType::F32, &[0, 3]);
        if !spec.missing().is_none() || spec.level() > 1 {
            add(&spec, "field", DType::F32, &[33, 20]);
            add(&spec, "wave", DType::F64, &[6, 7, 8, 5]);
            continue;
        }
        for dtype in [DType::F32, DType::F64] {
            for extents in [&[4099][..], &[64, 65], &[16, 16, 17]] {
                add(&spec, "one", dtype, extents);
                add(&spec, "ramp", dtype, extents);
            }
            add(&spec, "wave", dtype, &[130, 129]);
            add(&spec, "wave", dtype, &[3, 16, 33, 17]);
            add(&spec, "ramp", dtype, &[3, 5]);
            add(&spec, "one", dtype, &[16, 160, 16]);
        }
        // The largest number of pieces of a destination, and planes that are smaller than their
        // description.
        add(&spec, "one", DType::U8, &[1 << 16, 2, 2]);
        add(&spec, "mesh", DType::U32, &[4099]);
        add(&spec, "random", DType::Opaque, &[5, 5]);
        add(&spec, "special", DType::F16, &[20, 30]);
        add(&spec, "walk", DType::I16, &[33]);
    }
    // Every codec at every level in every mode, and every version of a codec.
    for entry in CODECS {
        for (level, mode) in
            entry.level_numbers().flat_map(|level| entry.modes.iter().map(move |mode| (level, mode)))
        {
            let is_of = |kind: &&(u8, u8, u16, u8)| (kind.0, kind.2, kind.3) == (entry.id, level, mode.id());
            assert!(kinds.iter().any(|kind| is_of(&kind)), "{} at level {level}, {mode:?}", entry.name);
        }
        for &version in entry.reads {
            let is_of = |kind: &(u8, u8, u16, u8)| (kind.0, kind.1) == (entry.id, version);
            assert!(kinds.iter().any(is_of), "{} version {version}", entry.name);
        }
    }
    samples
}

/// The expansion that [`gridz::array_bytes`] accepts from a frame of unknown origin is only
/// slightly larger than that of zeros. A larger one would let hostile frames claim memory that no
/// writer can justify.
#[test]
fn expansions_are_those_of_zeros() {
    // Large enough that tables and blocks are much longer than the heads of payloads.
    const N: u64 = 1 << 23;
    // The other codecs' readers accept larger or shorter blocks than their writers produce, or
    // payloads without an index.
    const NEAR: [&str; 3] = ["ndzip", "lorenzo", "quant"];
    let mut n_checked = 0;
    for entry in CODECS {
        let spec: Request = match entry.name {
            "stored" => continue,
            "quant" => "quant,abs=1,level=max".parse().unwrap(),
            "zfp" => "zfp,abs=1".parse().unwrap(),
            "multigrid" => "multigrid,abs=1".parse().unwrap(),
            "lorenzo" => "lorenzo,level=max".parse().unwrap(),
            name => name.parse().unwrap(),
        };
        let dtype = [DType::F64, DType::U64, DType::U32].into_iter().find(|dtype| takes(&spec, *dtype)).unwrap();
        let dtype = if entry.dtypes.contains(&dtype) { dtype } else { *entry.dtypes.last().unwrap() };
        let input = Input::new("zero", dtype, &[N]);
        let frame = compress(&input.array(), &spec, &input.bytes(), &serial());
        assert_eq!(frame[5], entry.id, "{spec}");
        let payload = frame.len() - header_bytes(1, usize::from(frame[11]));
        let expansion = input.array().n_bytes() / payload as u64;
        println!("{spec} {dtype:?}: {expansion} of {}", entry.max_expansion);
        assert!(expansion <= entry.max_expansion, "{spec}: {expansion} is more than the registry says");
        let n_least = if NEAR.contains(&entry.name) { entry.max_expansion * 9 / 10 } else { 1 };
        assert!(
            expansion >= n_least,
            "{spec}: {expansion} is much less than the {} of the registry",
            entry.max_expansion
        );
        n_checked += 1;
    }
    assert_eq!(n_checked, CODECS.len() - 1);
}

static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(samples);

/// Decompresses with both kinds of verification, and checks the allocations; returns the result
/// under [`Verify::Checksum`].
fn attack(frame: &[u8], dst: &mut [u8]) -> gridz::Result<usize> {
    let context = serial();
    let (info, n_bytes) = allocated(|| gridz::inspect(frame));
    assert!(n_bytes <= if info.is_ok() { 0 } else { 4096 }, "inspect allocated {n_bytes} bytes: {info:?}");
    if let Ok(n_bytes) = gridz::Frame::parse(frame).and_then(|frame| frame.array_bytes(None)) {
        let max_expansion = registry::find(frame[5]).unwrap().max_expansion;
        assert!(n_bytes <= max_expansion * frame.len() as u64, "{n_bytes} bytes justified by {}", frame.len());
    }
    let mut result = None;
    for verify in [Verify::Structure, Verify::Checksum] {
        let (decoded, n_bytes) =
            allocated(|| gridz::decompress(frame, gridz::Part::All, &mut *dst, verify, &context));
        assert!(
            n_bytes <= allowance(frame, dst.len()),
            "{n_bytes} bytes allocated for a destination of {} by codec {:?}",
            dst.len(),
            frame.get(5)
        );
        if let Err(error) = &decoded {
            assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
        }
        if let Ok(n_bytes) = decoded {
            assert_eq!(n_bytes as u64, info.as_ref().unwrap().array.n_bytes());
        }
        result = Some(decoded);
    }
    result.unwrap()
}

/// Selects positions in frame `i`: all in its header, and one in `one_in` of the others, which vary
/// from frame to frame.
fn tried(places: impl Iterator<Item = usize>, header: usize, i: usize) -> impl Iterator<Item = usize> {
    let are_tried = move |&(k, place): &(usize, usize)| place < header || (i + k).is_multiple_of(one_in());
    places.enumerate().filter(are_tried).map(|(_, place)| place)
}

#[test]
fn every_truncation_is_an_error() {
    let (mut n_in_headers, mut n_in_payloads) = (0, 0);
    for (i, Sample { frame, array }) in SAMPLES.iter().enumerate() {
        let mut dst = vec![0; array.len()];
        let step = frame.len() / 3000 + 1;
        let lengths = (0..frame.len()).filter(|n| *n < 1500 || n % step == 0 || frame.len() - n < 100);
        for n in tried(lengths, header_of(frame), i) {
            assert_eq!(attack(&frame[..n], &mut dst).unwrap_err().kind(), ErrorKind::Truncated, "{n} bytes");
            *if n < header_of(frame) { &mut n_in_headers } else { &mut n_in_payloads } += 1;
        }
        assert_eq!(attack(frame, &mut dst), Ok(array.len()));
        assert_same_bytes(&dst, array, "the whole frame");
    }
    println!("{n_in_headers} cuts in headers, {n_in_payloads} in payloads of {} frames", SAMPLES.len());
    assert!(n_in_headers > 40 * SAMPLES.len() && n_in_payloads > 100 * SAMPLES.len() / one_in());
}

#[test]
fn every_flipped_bit_is_an_error() {
    let (mut n_in_headers, mut n_decoded) = (0, 0);
    for (i, Sample { frame, array }) in SAMPLES.iter().enumerate() {
        let mut dst = vec![0; array.len()];
        let mut flipped = frame.clone();
        // All bits of small frames. For larger frames, the bits of the header, table and first
        // heads, and a fraction of the others, at varying positions.
        let step = frame.len() / 250 + 1;
        let bits = (0..frame.len() * 8).filter(|bit| *bit < 700 * 8 || bit % (8 * step + 1) == 0);
        for bit in tried(bits, 8 * header_of(frame), i) {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(attack(&flipped, &mut dst).is_err(), "bit {bit} of a frame of {} bytes", frame.len());
            match Decoder::of(&flipped) {
                Ok(_) => n_decoded += 1,
                Err(_) => n_in_headers += 1,
            }
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
    println!("{n_in_headers} bits refused in headers, {n_decoded} given to decoders");
    assert!(n_in_headers >= 8 * 48 * SAMPLES.len() && n_decoded > 300 * SAMPLES.len() / one_in());
}

/// A destination that is too small is refused before anything is written to it.
#[test]
fn a_small_destination_stays_as_it_is() {
    let mut n_refused = 0;
    for Sample { frame, array } in SAMPLES.iter().filter(|sample| !sample.array.is_empty()) {
        for n in [0, array.len() / 2, array.len() - 1] {
            let mut dst = noise(n);
            let need = array.len() as u64;
            assert_eq!(attack(frame, &mut dst).unwrap_err().kind(), ErrorKind::DstTooSmall { need });
            assert_same_bytes(&dst, &noise(n), "the small destination");
            n_refused += 1;
        }
    }
    assert!(n_refused > 3 * 400, "{n_refused} small destinations");
}

/// A header may claim any size: no memory is allocated for the claim.
#[test]
fn claimed_sizes_allocate_nothing() {
    let (mut n_claims, mut n_decoders) = (0, 0);
    for spec in requests() {
        let dtypes = [DType::F32, DType::I32];
        let Some(dtype) =
            dtypes.into_iter().find(|&dtype| is_possible(&spec, &Input::new("ramp", dtype, &[9]).array()))
        else {
            panic!("{spec} takes neither float32 nor int32")
        };
        // The first generator whose array the codec does not store.
        let frames = GENERATORS.iter().map(|rule| sample(&spec, &Input::new(rule, dtype, &[1, 1, 4100])).frame);
        let frame = frames.into_iter().find(|frame| frame[5] == spec.codec());
        let mut frame = frame.unwrap_or_else(|| panic!("{spec}: all are stored"));
        for extents in [[1 << 20, 1 << 20, 1 << 20], [1 << 60, 1, 1], [0, 1 << 62, 1], [1, 64, 1 << 24]] {
            for (field, extent) in frame[40..64].chunks_mut(8).zip(extents) {
                field.copy_from_slice(&u64::to_le_bytes(extent));
            }
            repair(&mut frame);
            n_decoders += u64::from(Decoder::of(&frame).is_ok());
            assert!(attack(&frame, &mut [0; 4096]).is_err());
            // The destination of a region does not limit the claimed size of the whole array.
            let (start, count, mut one, context) = ([0, 0, 5], [1; 3], [0; 4], serial());
            let decode = || {
                gridz::decompress(
                    &frame,
                    gridz::Part::Region { start: &start, count: &count },
                    &mut one,
                    Verify::Checksum,
                    &context,
                )
            };
            let (region, n_bytes) = allocated(decode);
            assert!(
                region.is_err() && n_bytes <= allowance(&frame, 0),
                "{spec} {extents:?}: {n_bytes} bytes, {region:?}"
            );
            for expected in [None, Some(1 << 30)] {
                let claimed = gridz::inspect(&frame).map_or(u64::MAX, |info| info.array.n_bytes());
                let n_bytes = gridz::Frame::parse(&frame).and_then(|frame| frame.array_bytes(expected));
                assert!(n_bytes.is_err() || claimed < 1 << 30, "{extents:?}: {n_bytes:?}");
            }
            n_claims += 1;
        }
    }
    println!("{n_claims} claims, {n_decoders} of them with a layout");
    assert!(n_claims == 4 * requests().len() as u64 && 5 * n_decoders > n_claims);
}

/// [`reseal`] writes the same checks as the encoders; without resealing, a damaged block is refused
/// just for its check.
#[test]
fn resealed_frames_have_the_checks_of_encoders() {
    let mut with_checks = BTreeSet::new();
    for Sample { frame, array } in SAMPLES.iter() {
        let mut sealed = frame.clone();
        reseal(&mut sealed);
        assert_same_bytes(&sealed, frame, "a resealed frame without damage");
        let mut damaged = frame.clone();
        let Some(last) = damaged.get_mut(header_of(frame)..).and_then(<[u8]>::last_mut) else { continue };
        *last ^= 0x55;
        repair(&mut damaged);
        let repaired = attack(&damaged, &mut vec![0; array.len()]);
        reseal(&mut damaged);
        let resealed = attack(&damaged, &mut vec![0; array.len()]);
        let is_of_check = |result: &gridz::Result<usize>| {
            result.as_ref().is_err_and(|error| error.context().contains("checksum does not match"))
        };
        assert!(!is_of_check(&resealed), "{resealed:?}");
        if is_of_check(&repaired) {
            with_checks.insert(frame[5]);
        }
    }
    let names: Vec<_> = with_checks.iter().map(|&id| registry::find(id).unwrap().name).collect();
    assert_eq!(names, ["lorenzo", "quant", "multigrid", "huffman", "cci"]);
}

// ---- random frames --------------------------------------------------------------------------------

/// Counts how far the frames of a test get.
#[derive(Debug, Default)]
struct Reach {
    cases: u64,
    header: u64,
    frame: u64,
    parameters: u64,
    decoder: u64,
    accepted: u64,
    codecs: BTreeSet<u8>,
}

impl Reach {
    fn attack(&mut self, frame: &[u8], dst: &mut [u8]) {
        self.cases += 1;
        let is_accepted = attack(frame, dst).is_ok();
        match Decoder::of(frame) {
            Err(Stage::Header) => self.header += 1,
            Err(Stage::Frame) => self.frame += 1,
            Err(Stage::Parameters) => self.parameters += 1,
            Ok(decoder) => {
                self.decoder += 1;
                self.codecs.insert(decoder.entry.id);
            }
        }
        self.accepted += u64::from(is_accepted);
        assert!(!is_accepted || Decoder::of(frame).is_ok(), "a frame was decoded that reaches no decoder");
    }

    /// Asserts that at least this percentage of the cases reached a decoder, and that all codecs'
    /// decoders were reached.
    fn assert(&self, what: &str, percent: u64) {
        println!("{what}: {self:?}");
        assert!(100 * self.decoder >= percent * self.cases, "{what}: {self:?}");
        assert!(self.accepted < self.decoder, "{what}: {self:?}");
        assert_eq!(self.codecs.len(), CODECS.len(), "{what}: {self:?}");
    }
}

/// A byte from a set of error-prone values.
fn edge_byte(random: &mut Xorshift) -> u8 {
    let edges = [0, 1, 2, 0x7f, 0x80, 0xff];
    if random.below(2) == 0 { random.next() as u8 } else { edges[random.below(edges.len() as u64) as usize] }
}

fn one_of<'a, T>(items: &'a [T], random: &mut Xorshift) -> &'a T {
    &items[random.below(items.len() as u64) as usize]
}

/// A random small frame; the codec is chosen first.
fn some_sample(random: &mut Xorshift) -> Sample {
    static REQUESTS: LazyLock<Vec<Request>> = LazyLock::new(requests);
    let extents =
        [&[4096][..], &[8200], &[64, 64], &[70, 130], &[16, 16, 16], &[16, 35, 17], &[2, 8, 17, 16], &[], &[9]];
    let entry = one_of(CODECS, random);
    let of_codec: Vec<&Request> = REQUESTS.iter().filter(|spec| spec.codec() == entry.id).collect();
    loop {
        let spec = one_of(&of_codec, random);
        let dtype = *one_of(entry.dtypes, random);
        let (generator, extents) = (*one_of(&GENERATORS, random), *one_of(&extents, random));
        let input = Input::new(generator, dtype, extents);
        if is_possible(spec, &input.array()) {
            return sample(spec, &input);
        }
    }
}

/// Runs `n_cases(all)` cases. Prints the number of a failing case: it is the seed of
/// [`Xorshift::new`] that reproduces it.
fn for_cases(all: u64, case: impl Fn(&mut Xorshift, &mut Reach)) -> Reach {
    struct Report(u64);
    impl Drop for Report {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed in the case with seed {}", self.0);
            }
        }
    }
    let mut reach = Reach::default();
    for seed in 0..n_cases(all) {
        let report = Report(seed);
        case(&mut Xorshift::new(seed), &mut reach);
        drop(report);
    }
    reach
}

/// Another writer could have produced the header, so every check after the header's checksum must
/// hold.
#[test]
fn a_changed_header_under_right_checksums() {
    let reach = for_cases(8000, |random, reach| {
        let Sample { mut frame, array } = some_sample(random);
        for _ in 0..1 + random.below(3) {
            let at = 4 + random.below(header_of(&frame).min(frame.len()) as u64 - 4) as usize;
            frame[at] = edge_byte(random);
        }
        // Half of the frames have the length that the header states.
        if random.below(2) == 0 {
            let n_bytes = frame.len().saturating_sub(header_of(&frame)) as u64;
            frame[16..24].copy_from_slice(&n_bytes.to_le_bytes());
        }
        repair(&mut frame);
        reach.attack(&frame, &mut vec![0; array.len()]);
    });
    // The header's own checks refuse most changes, which is the target; some reach a decoder.
    reach.assert("changed headers", 5);
    assert!(10 * reach.header > reach.cases && reach.frame > 0 && reach.parameters > 0, "{reach:?}");
}

#[test]
fn a_changed_payload_under_right_checksums() {
    let reach = for_cases(8000, |random, reach| {
        let Sample { mut frame, array } = some_sample(random);
        let header = header_of(&frame);
        if random.below(2) == 0 {
            frame.truncate(header + random.below((frame.len() - header) as u64 + 1) as usize);
        }
        let near_the_start = random.below(2) == 0;
        let end = if near_the_start { frame.len().min(header + 600) } else { frame.len() };
        for _ in 0..1 + random.below(5) {
            if end > header {
                frame[header + random.below((end - header) as u64) as usize] = edge_byte(random);
            }
        }
        let n_bytes = (frame.len() - header) as u64;
        frame[16..24].copy_from_slice(&n_bytes.to_le_bytes());
        reseal(&mut frame);
        reach.attack(&frame, &mut vec![0; array.len()]);
    });
    reach.assert("changed payloads", 100);
    assert!(10 * reach.accepted > reach.cases, "{reach:?}");
}

/// Random bytes, with or without a plausible header.
#[test]
fn bytes_of_any_kind() {
    let reach = for_cases(16_000, |random, reach| {
        let mut bytes: Vec<u8> = (0..random.below(600)).map(|_| edge_byte(random)).collect();
        match random.below(4) {
            // Magic and checksums are valid; the fields have random valid values.
            0 if bytes.len() >= 40 => {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = FORMAT_VERSION;
                let entry = one_of(CODECS, random);
                // Not every codec has both versions.
                (bytes[5], bytes[6]) = (entry.id, 1 + random.below(2) as u8);
                let dtype = *one_of(&DType::ALL, random);
                (bytes[7], bytes[8]) = (0, dtype.id());
                (bytes[9], bytes[10]) = (random.below(4) as u8, random.below(2) as u8);
                bytes[11] = *one_of(&[0, 0, 1, 2, 5, 12, 16, 20], random);
                bytes[12..16].copy_from_slice(&dtype.size().unwrap_or(5).to_le_bytes());
                let params = 40 + 8 * usize::from(bytes[9]);
                let end = header_of(&bytes);
                bytes.resize(bytes.len().max(end), 0);
                for extent in bytes[40..params].chunks_mut(8) {
                    extent.copy_from_slice(&random.below(20).to_le_bytes());
                }
                let n_params = usize::from(bytes[11]);
                bytes[params + n_params..end].fill(0);
                bytes[36..40].fill(0);
                let n_bytes = bytes.len().saturating_sub(header_of(&bytes)) as u64;
                bytes[16..24].copy_from_slice(&n_bytes.to_le_bytes());
                repair(&mut bytes);
            }
            1 | 2 => {
                let Sample { mut frame, .. } = some_sample(random);
                frame.truncate(header_of(&frame));
                frame.append(&mut bytes);
                let n_bytes = (frame.len() - header_of(&frame)) as u64;
                frame[16..24].copy_from_slice(&n_bytes.to_le_bytes());
                reseal(&mut frame);
                bytes = frame;
            }
            _ => (),
        }
        reach.attack(&bytes, &mut [0; 1 << 18]);
    });
    reach.assert("any bytes", 40);
    assert!(reach.header > 0 && reach.frame > 0 && reach.parameters > 0, "{reach:?}");
}

/// Files and users provide the filter's cd_values: only the defined forms are accepted.
#[test]
fn cd_values_of_any_kind() {
    let (mut n_users, mut n_records, mut n_later, mut n_refused) = (0, 0, 0, 0);
    // Records of every codec, to be changed in a few places.
    let records: Vec<Vec<u32>> = requests()
        .iter()
        .filter_map(|spec| {
            let array = Input::new("ramp", DType::F32, &[20, 30]).array();
            is_possible(spec, &array).then(|| Record::new(spec, array, None).unwrap().words().to_vec())
        })
        .collect();
    for seed in 0..n_cases(16_000) {
        let mut random = Xorshift::new(seed);
        let mut words: Vec<u32> = (0..random.below(257))
            .map(|_| if random.below(2) == 0 { random.next() as u32 } else { random.below(16) as u32 })
            .collect();
        match random.below(4) {
            0 if !words.is_empty() => words[0] = RECORD_MAGIC | RECORD_VERSION,
            1 => {
                words = one_of(&records, &mut random).clone();
                for _ in 0..random.below(3) {
                    let at = random.below(words.len() as u64) as usize;
                    words[at] ^= 1 << random.below(32);
                }
                words.truncate(words.len() - usize::from(random.below(8) == 0));
            }
            2 => {
                words.truncate(random.below(6) as usize);
                words.iter_mut().for_each(|word| *word %= 9);
            }
            _ => (),
        }
        match Values::parse(&words) {
            Ok(Values::User(_)) => {
                // Without a value, or with a value, a level and codec parameters.
                let has_value = words.len() >= 4 && words[1] != 0;
                assert!(has_value || matches!(words[..], [] | [_] | [_, 0] | [_, 0, _]), "seed {seed}: {words:?}");
                n_users += 1;
            }
            // A record of a later version is described, but not written.
            Ok(Values::Record(record)) if record.request().is_err() => {
                assert!(record.words().len() <= words.len(), "seed {seed}: {words:?}");
                n_later += 1;
            }
            Ok(Values::Record(record)) => {
                assert_eq!(record.words().len(), words.len(), "seed {seed}: {words:?}");
                n_records += 1;
            }
            Err(error) => {
                assert!(error.context().len() > 10, "seed {seed}: {error}");
                n_refused += 1;
            }
        }
    }
    println!(
        "cd_values: {n_users} of users, {n_records} records, {n_later} of later versions, {n_refused} refused"
    );
    assert!(n_users > 100 && n_records > 100 && n_later > 0 && n_refused > 1000);
}

// ---- resealed payloads ----------------------------------------------------------------------------

/// Results for resealed frames of one codec and level.
#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    decoded: u64,
    accepted: u64,
    only_checks: u64,
    boxes: u64,
    parts: u64,
    most_bytes: usize,
    slowest_ms: u128,
    answers: Answers,
}

/// Damages frames of a codec and level, reseals them, and passes the payloads to the decoders of
/// all CPU levels. These must agree on whether they accept each payload, and on every value.
fn resealed(name: &str, level: u16) {
    let entry = CODECS.iter().find(|entry| entry.name == name).unwrap();
    let samples = damage::samples(entry, level, &serial());
    let wanted = if one_in() == 1 { 100_000 } else { 2_000 };
    let (pool, begin) = (Pool::new(1), Instant::now());
    let mut tally = Tally::default();
    let (mut first, mut other, mut again) = (Vec::new(), Vec::new(), Vec::new());
    while tally.decoded < wanted {
        let seed = tally.cases;
        tally.cases += 1;
        assert!(tally.cases < 2 * wanted, "{name} level {level}: {tally:?}");
        let mut random = Xorshift::new(seed);
        let some = |random: &mut Xorshift| one_of(&samples[..], random).as_slice();
        let frame = damage::damaged(some(&mut random), some(&mut random), &mut random);
        let Ok(decoder) = Decoder::of(&frame) else { continue };
        tally.decoded += 1;
        let what = format!("{name} level {level}, seed {seed}");
        let n_bytes = decoder.array.n_bytes() as usize;
        first.resize(n_bytes, 0);
        other.resize(n_bytes, 0);
        again.resize(n_bytes, 0);
        let start = Instant::now();
        let mut decode = |level, verify, dst: &mut [u8]| {
            dst.fill(0x5a);
            let (result, n_bytes) = allocated(|| decoder.decode(&pool, level, verify, dst));
            tally.most_bytes = tally.most_bytes.max(n_bytes);
            assert!(n_bytes <= allowance(&frame, dst.len()), "{what}: {n_bytes} bytes for {}", dst.len());
            result
        };
        let result = decode(Isa::PORTABLE, true, &mut first);
        for level in Isa::all().skip(1) {
            let same = decode(level, true, &mut other);
            assert_eq!(same, result, "{what}: {level:?}");
            assert!(result.is_err() || other == first, "{what}: other values at {level:?}");
        }
        let levels: Vec<Isa> = Isa::all().collect();
        let unchecked = decode(*one_of(&levels, &mut random), false, &mut again);
        tally.slowest_ms = tally.slowest_ms.max(start.elapsed().as_millis());
        match &result {
            Ok(sums) => {
                assert_eq!(*sums, Checksum::of(decoder.payload, 0), "{what}");
                assert!(unchecked.is_ok() && again == first, "{what}: other values without checks");
                tally.accepted += 1;
                tally.answers.add("accepted");
            }
            Err(error) => {
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::Corrupt | ErrorKind::Truncated | ErrorKind::UnsupportedFormat
                    ),
                    "{what}: {error}"
                );
                let is_of_check = error.context().contains("checksum does not match");
                tally.only_checks += u64::from(is_of_check);
                assert!(unchecked.is_err() || is_of_check, "{what}: {error}, but not without checks");
                tally.answers.add(error.context());
            }
        }
        // The engine returns the decoder's result: so `Decoder::of` is right about reaching the
        // decoder.
        if seed % 16 == 0 {
            let by_engine = gridz::decompress(&frame, gridz::Part::All, &mut other, Verify::Checksum, &serial());
            assert_eq!(by_engine.map(drop), result.clone().map(drop), "{what}");
        }
        if decoder.shape.n_elements() > 0 {
            let ((part, got, expected), n_bytes) =
                allocated(|| damage::decode_box(&decoder, &pool, &mut random, true, &first));
            // The box and the expected elements are allocated by the test.
            assert!(n_bytes <= allowance(&frame, first.len()) + 8 * first.len() + 4096, "{what}: {n_bytes}");
            if result.is_ok() {
                assert!(part.is_ok() && got == expected, "{what}: a box has other values, {:?}", part.err());
                tally.boxes += 1;
            }
        }
        let job = decoder.job(&pool, Isa::best(), true);
        if let Some(counts) = decoder.entry.codec.count_blocks(&job, decoder.payload) {
            assert!(counts.is_ok() || result.is_err() || entry.name == "zfp", "{what}: {counts:?}");
        }
        if let Some(progressive) = decoder.entry.codec.progressive() {
            let detail = [Detail::Level(random.below(5) as u32), Detail::Layers(1 + random.below(3) as u32)];
            tally.parts += u64::from(read_part(&decoder, progressive, *one_of(&detail, &mut random)));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let Tally { cases, decoded, accepted, only_checks, boxes, parts, most_bytes, slowest_ms, answers } = &tally;
    println!(
        "{name} level {level}: seeds 0 to {cases} of {} frames, {decoded} decoded, {accepted} accepted, {only_checks} refused by a check \
         only, {boxes} boxes, {parts} parts compared; at most {most_bytes} bytes and {slowest_ms} ms a case; {seconds:.1} s",
        samples.len()
    );
    for (answer, n) in &answers.0 {
        println!("  {n:6} {answer}");
    }
    // Nearly all damage is in payloads, and nearly all resealed blocks pass their checks.
    assert!(10 * decoded >= 9 * cases && 20 * only_checks <= *decoded, "{name} level {level}: {tally:?}");
    assert!(*accepted > 0 && (accepted < decoded) && *boxes > 0, "{name} level {level}: {tally:?}");
    assert!(name != "multigrid" || *parts > 0, "{tally:?}");
}

/// Decodes a part of a payload, from all bytes and from only those that the part needs: both give
/// the same result. Returns true if it succeeds.
fn read_part(decoder: &Decoder, progressive: &dyn Progressive, detail: Detail) -> bool {
    let (pool, n_all) = (Pool::new(1), decoder.payload.len() as u64);
    let job = decoder.job(&pool, Isa::best(), true);
    let Ok(part) = progressive.part(&decoder.layout, decoder.payload, n_all, detail) else { return false };
    let nodes = decoder.shape.extents().iter().map(|n| n.div_ceil(1 << part.level) as usize);
    let mut dst = vec![0; nodes.product::<usize>() * decoder.array.element_size() as usize];
    let whole = progressive.decode_part(&job, decoder.payload, n_all, &part, &mut dst);
    let mut again = vec![0; dst.len()];
    let cut = progressive.decode_part(&job, &decoder.payload[..part.n_bytes as usize], n_all, &part, &mut again);
    assert_eq!(whole, cut);
    assert!(whole.is_err() || dst == again);
    whole.is_ok()
}

macro_rules! resealed {
    ($($test:ident: $name:literal $level:literal,)*) => {
        $(#[test]
        fn $test() {
            resealed($name, $level);
        })*

        #[test]
        fn resealed_payloads_are_of_every_codec_and_level() {
            let all = CODECS.iter().flat_map(|entry| entry.level_numbers().map(move |level| (entry.name, level)));
            assert_eq!(BTreeSet::from([$(($name, $level)),*]), all.collect());
        }
    };
}
resealed! {
    resealed_stored: "stored" 0,
    resealed_ndzip: "ndzip" 0,
    resealed_lorenzo_fast: "lorenzo" 1,
    resealed_lorenzo_dense: "lorenzo" 2,
    resealed_lorenzo_max: "lorenzo" 3,
    resealed_quant_fast: "quant" 1,
    resealed_quant_dense: "quant" 2,
    resealed_quant_max: "quant" 3,
    resealed_zfp: "zfp" 1,
    resealed_multigrid: "multigrid" 1,
    resealed_huffman: "huffman" 0,
    resealed_cci_fast: "cci" 1,
    resealed_cci_dense: "cci" 2,
}
