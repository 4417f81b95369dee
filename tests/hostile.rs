//! Damaged and hostile frames: an error, never a panic, never wrong data under
//! [`Verify::Checksum`], and never more memory than the caller's destination justifies.

#![allow(unsafe_code)] // the counting allocator

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::generate::{GENERATORS, Input, noise};
use common::{assert_same_bytes, cases, compress, decompress, lossy_specs, one_in, repair::repair, takes};
use gridz::codec::registry::{self, CODECS};
use gridz::format::header::{MAGIC, MAX_HEADER_BYTES, header_bytes};
use gridz::hdf5::cd::{RECORD_MAGIC, RECORD_VERSION, Values};
use gridz::{Context, DType, ErrorKind, Mode, Request, Verify};
use proptest::prelude::*;
use proptest::sample::Index;

// ---- counting allocations -------------------------------------------------------------------------

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(n_bytes: usize) {
    // A thread that is going away allocates after its counter is gone.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + n_bytes));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        count(n_bytes);
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.realloc(block, layout, n_bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `body` returns and all bytes the calling thread allocated meanwhile, freed or not.
fn allocated<R>(body: impl FnOnce() -> R) -> (R, usize) {
    let before = ALLOCATED.get();
    let result = body();
    (result, ALLOCATED.get() - before)
}

/// Most bytes that decompression into `dst_bytes` may allocate, in total.
///
/// ndzip keeps a list of the pieces of the destination: for 16 rows of 16 planes, at least 16 KiB of
/// data, sixteen slices and a little more, about 330 bytes. The rest is the text of an error and the axes of a region.
/// lorenzo works in three copies of a block of up to 2^14 words, szp in four of 2^12, and in the parts of a complex one; at level
/// dense in four of 2^16, two bytes a number and the slots of twelve tables. huffman
/// has three copies of a block of up to 2^15 numbers of four bytes, their codes and lengths, and two tables. cci has four copies of a block of up to 2^16 words, four numbers of four bytes for each of these, of every
/// fourth one a word, nine numbers for copies, which are thrice there, and four more, and what huffman has. mgard has the
/// grids before the last one, three quarters of the array, the numbers of half of it, and those of the first steps; and a block as szp.
fn allowance(frame: &[u8], dst_bytes: usize) -> usize {
    // The first byte of the parameters of szp says how large its blocks are.
    let log2_size = frame.get(9).and_then(|&rank| frame.get(40 + 8 * usize::from(rank)));
    let work = match frame.get(5) {
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
    let frame = compress(&input.array(), spec, &input.bytes(), &serial());
    let array = decompress(&frame, &serial()).unwrap();
    Sample { frame, array }
}

/// Workers would allocate where nobody counts.
fn serial() -> Context {
    Context::new(Some(1), None).unwrap()
}

/// One for each codec and, if it is not lossless, mode.
fn requests() -> impl Iterator<Item = Request> {
    CODECS.iter().filter_map(|entry| Request::new(entry.id.into(), 0).ok()).chain(lossy_specs())
}

/// Frames with fewer elements, since its blocks take longer.
fn zfp_samples(spec: &Request) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (dtype, extents) in [
        (DType::F32, &[300][..]),
        (DType::F64, &[20, 21]),
        (DType::F32, &[6, 7, 8]),
        (DType::F64, &[4, 5, 3, 6]),
        (DType::I32, &[17, 20]),
        (DType::I64, &[200]),
    ] {
        for generator in ["wave", "field_nan"] {
            if takes(spec, dtype) {
                samples.push(sample(spec, &Input::new(generator, dtype, extents)));
            }
        }
    }
    samples
}

/// One small frame per codec, type and rank, and a few with more blocks.
fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for spec in requests() {
        if spec.name() == "zfp" {
            samples.extend(zfp_samples(&spec));
            continue;
        }
        for dtype in [DType::F32, DType::F64] {
            for extents in [&[4099][..], &[64, 65], &[16, 16, 17]] {
                samples.push(sample(&spec, &Input::new("one", dtype, extents)));
                samples.push(sample(&spec, &Input::new("ramp", dtype, extents)));
            }
            samples.push(sample(&spec, &Input::new("wave", dtype, &[130, 129])));
            samples.push(sample(&spec, &Input::new("wave", dtype, &[3, 16, 33, 17])));
            samples.push(sample(&spec, &Input::new("ramp", dtype, &[3, 5])));
            // As many pieces of the destination as there can be; and planes that are smaller than what describes them.
            if takes(&spec, DType::U8) {
                samples.push(sample(&spec, &Input::new("one", DType::U8, &[1 << 16, 2, 2])));
            }
            samples.push(sample(&spec, &Input::new("one", dtype, &[16, 160, 16])));
        }
        if spec.mode() == Mode::Lossless {
            samples.push(sample(&spec, &Input::new("random", DType::Opaque, &[5, 5])));
        }
        if takes(&spec, DType::C64) {
            samples.push(sample(&spec, &Input::new("wave", DType::C64, &[20, 30])));
            samples.push(sample(&spec, &Input::new("special", DType::F16, &[20, 30])));
        }
        if takes(&spec, DType::I16) {
            samples.push(sample(&spec, &Input::new("walk", DType::I16, &[33])));
        }
        samples.push(sample(&spec, &Input::new("zero", DType::F32, &[0, 3])));
    }
    assert!(samples.iter().any(|sample| sample.frame[5] != registry::STORED));
    samples
}

/// What [`gridz::array_bytes`] lets a frame of unknown origin claim is hardly more than zeros need: a larger expansion would let hostile
/// frames claim memory that no writer can justify.
#[test]
fn expansions_are_those_of_zeros() {
    // Tables and blocks are much longer than the heads of payloads.
    const N: u64 = 1 << 23;
    // Of the others readers take larger blocks than writers make, or have no index.
    const NEAR: [&str; 4] = ["ndzip", "lorenzo", "szp", "cci"];
    let mut n_checked = 0;
    for entry in CODECS {
        let spec: Request = match entry.name {
            "stored" => continue,
            "szp" => "szp,abs=1,level=max".parse().unwrap(),
            "zfp" => "zfp,abs=1".parse().unwrap(),
            "mgard" => "mgard,abs=1".parse().unwrap(),
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

/// Decompresses both ways, counting memory; returns what the checksum says.
fn attack(frame: &[u8], dst: &mut [u8]) -> gridz::Result<usize> {
    let context = serial();
    let (info, n_bytes) = allocated(|| gridz::inspect(frame));
    assert!(n_bytes <= if info.is_ok() { 0 } else { 4096 }, "inspect allocated {n_bytes} bytes: {info:?}");
    if let Ok(n_bytes) = gridz::array_bytes(frame, None) {
        let max_expansion = registry::find(frame[5]).unwrap().max_expansion;
        assert!(n_bytes <= max_expansion * frame.len() as u64, "{n_bytes} bytes justified by {}", frame.len());
    }
    let mut result = None;
    for verify in [Verify::Structure, Verify::Checksum] {
        let (decoded, n_bytes) = allocated(|| gridz::decompress(frame, dst, verify, &context));
        assert!(
            n_bytes <= allowance(frame, dst.len()),
            "{n_bytes} bytes allocated for a destination of {}",
            dst.len()
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

/// Of places in frame `i` those in its header, and of the others one in so many, not the same ones in every frame.
fn tried(places: impl Iterator<Item = usize>, header: usize, i: usize) -> impl Iterator<Item = usize> {
    let are_tried = move |&(k, place): &(usize, usize)| place < header || (i + k).is_multiple_of(one_in());
    places.enumerate().filter(are_tried).map(|(_, place)| place)
}

#[test]
fn every_truncation_is_an_error() {
    for (i, Sample { frame, array }) in samples().into_iter().enumerate() {
        let mut dst = vec![0; array.len()];
        let step = frame.len() / 3000 + 1;
        let lengths = (0..frame.len()).filter(|n| *n < 1500 || n % step == 0 || frame.len() - n < 100);
        for n in tried(lengths, header_bytes(frame[9], 0), i) {
            assert_eq!(attack(&frame[..n], &mut dst).unwrap_err().kind(), ErrorKind::Truncated, "{n} bytes");
        }
        assert_eq!(attack(&frame, &mut dst), Ok(array.len()));
        assert_same_bytes(&dst, &array, "the whole frame");
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    for (i, Sample { frame, array }) in samples().into_iter().enumerate() {
        let mut dst = vec![0; array.len()];
        let mut flipped = frame.clone();
        // All bits of small frames; of larger ones those of the header, table and first heads, and a
        // bit of every so many of the rest, at changing places.
        let step = frame.len() / 250 + 1;
        let bits = (0..frame.len() * 8).filter(|bit| *bit < 700 * 8 || bit % (8 * step + 1) == 0);
        for bit in tried(bits, 8 * header_bytes(frame[9], 0), i) {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(attack(&flipped, &mut dst).is_err(), "bit {bit} of a frame of {} bytes", frame.len());
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// A destination that is too small is refused before anything is written to it.
#[test]
fn a_small_destination_stays_as_it_is() {
    for Sample { frame, array } in samples().into_iter().filter(|sample| !sample.array.is_empty()) {
        for n in [0, array.len() / 2, array.len() - 1] {
            let mut dst = noise(n);
            let need = array.len() as u64;
            assert_eq!(attack(&frame, &mut dst).unwrap_err().kind(), ErrorKind::DstTooSmall { need });
            assert_same_bytes(&dst, &noise(n), "the small destination");
        }
    }
}

/// A header may claim any size: nothing is allocated for it.
#[test]
fn claimed_sizes_allocate_nothing() {
    for spec in requests() {
        let mut frame = sample(&spec, &Input::new("ramp", DType::F32, &[1, 1, 4100])).frame;
        for extents in [[1 << 20, 1 << 20, 1 << 20], [1 << 60, 1, 1], [0, 1 << 62, 1], [1, 64, 1 << 24]] {
            for (field, extent) in frame[40..64].chunks_mut(8).zip(extents) {
                field.copy_from_slice(&u64::to_le_bytes(extent));
            }
            repair(&mut frame);
            assert!(attack(&frame, &mut [0; 4096]).is_err());
            // A region knows no size of the whole.
            let (start, count, mut one, context) = ([0, 0, 5], [1; 3], [0; 4], serial());
            let decode = || gridz::decompress_region(&frame, &start, &count, &mut one, Verify::Checksum, &context);
            let (region, n_bytes) = allocated(decode);
            assert!(
                region.is_err() && n_bytes <= allowance(&frame, 0),
                "{spec} {extents:?}: {n_bytes} bytes, {region:?}"
            );
            for expected in [None, Some(1 << 30)] {
                let claimed = gridz::inspect(&frame).map_or(u64::MAX, |info| info.array.n_bytes());
                let n_bytes = gridz::array_bytes(&frame, expected);
                assert!(n_bytes.is_err() || claimed < 1 << 30, "{extents:?}: {n_bytes:?}");
            }
        }
    }
}

/// A small frame: cheap enough to be attacked many thousand times.
fn some_sample() -> impl Strategy<Value = Sample> {
    let spec = prop::sample::select(requests().collect::<Vec<_>>());
    let dtype = prop::sample::select(vec![DType::F32, DType::F64, DType::I16, DType::C64, DType::Opaque]);
    let extents = prop::sample::select(vec![
        vec![4096],
        vec![8200],
        vec![64, 64],
        vec![70, 130],
        vec![16, 16, 16],
        vec![16, 35, 17],
        vec![2, 8, 17, 16],
        vec![],
        vec![9],
    ]);
    let all = (spec, prop::sample::select(&GENERATORS[..]), dtype, extents);
    all.prop_map(|(spec, generator, dtype, extents)| {
        let dtype = if takes(&spec, dtype) { dtype } else { DType::F32 };
        sample(&spec, &Input::new(generator, dtype, &extents))
    })
}

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", gridz::inspect(&self.frame))
    }
}

/// Values that programs trip over.
fn edge_value() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(vec![0, 1, 2, 0x7f, 0x80, 0xff])]
}

proptest! {
    #![proptest_config(cases(2000))]

    /// The header is as some writer could have made it, so the checks behind the checksums must hold.
    #[test]
    fn a_changed_header_under_right_checksums(
        sample in some_sample(),
        changes in prop::collection::vec((5..72usize, edge_value()), 1..4),
    ) {
        let mut frame = sample.frame;
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        repair(&mut frame);
        let _ = attack(&frame, &mut vec![0; sample.array.len()]);
    }

    #[test]
    fn a_changed_payload_under_right_checksums(
        sample in some_sample(),
        changes in prop::collection::vec((any::<Index>(), edge_value()), 1..6),
        near_the_start in any::<bool>(),
        length in prop::option::of(any::<Index>()),
    ) {
        let mut frame = sample.frame;
        let header_bytes = header_bytes(frame[9], 0);
        if let Some(length) = length {
            frame.truncate(header_bytes + length.index(frame.len() - header_bytes + 1));
        }
        let end = if near_the_start { frame.len().min(header_bytes + 600) } else { frame.len() };
        for (at, value) in changes {
            if end > header_bytes {
                let at = header_bytes + at.index(end - header_bytes);
                frame[at] = value;
            }
        }
        let payload_bytes = (frame.len() - header_bytes) as u64;
        frame[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
        repair(&mut frame);
        let _ = attack(&frame, &mut vec![0; sample.array.len()]);
    }

    #[test]
    fn bytes_of_any_kind(mut bytes in prop::collection::vec(edge_value(), 0..600), magic in any::<bool>()) {
        if magic && bytes.len() >= 12 {
            bytes[..4].copy_from_slice(&MAGIC);
            (bytes[4], bytes[5], bytes[6], bytes[9], bytes[11]) = (1, bytes[5] % 3, 1, bytes[9] % 5, 0);
            repair(&mut bytes);
        }
        prop_assert!(MAX_HEADER_BYTES < 600, "longer inputs are needed to reach the payload");
        let _ = attack(&bytes, &mut [0; 1 << 14]);
    }

    /// Files and users give the filter's cd_values: only the forms that exist are taken.
    #[test]
    fn cd_values_of_any_kind(
        mut words in prop::collection::vec(prop_oneof![any::<u32>(), 0..16u32], 0..=256),
        stored in any::<bool>(),
    ) {
        if stored && !words.is_empty() {
            words[0] = RECORD_MAGIC | RECORD_VERSION;
        }
        match Values::parse(&words) {
            Ok(Values::User(_)) => {
                // Without a value, and with one and a level and extras behind it.
                let has_value = words.len() >= 4 && words[1] != 0;
                prop_assert!(has_value || matches!(words[..], [] | [_] | [_, 0] | [_, 0, _]));
            }
            // What a later version added is described, but not written.
            Ok(Values::Record(record)) if record.request().is_err() => {
                prop_assert!(record.words().len() <= words.len());
            }
            Ok(Values::Record(record)) => prop_assert_eq!(record.words().len(), words.len()),
            Err(error) => prop_assert!(error.context().len() > 10),
        }
    }
}
