//! Sources that change while kernels compress them. The frames may be corrupt, but kernels
//! terminate, nothing is written outside the slots and the workspace, and the next compression of a
//! stable array gives the CPU's bytes.
//!
//! On a GPU, a second stream copies parts of other arrays over the source. The emulator changes the
//! source whenever it switches to another thread of a CTA.

use std::sync::atomic::{AtomicU64, Ordering};

use gridz::{Array, ByteOrder, DType, Request};
use gridz_codecs::format::header::MAX_HEADER_BYTES;

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, CORRUPT, Layout, TRUNCATED, UNSUPPORTED};
use crate::common::{compress, compresses_on_gpu, takes};
use crate::driver::{Memory, Stream, is_poison};
use crate::{cpu, has_gpu, mock_cuda, n_cases};

/// Every codec, level and mode that has kernels, with a type of each class.
const REQUESTS: [(&str, &[DType]); 30] = [
    ("stored", &[DType::U8]),
    ("ndzip", &[DType::F32, DType::F64]),
    ("lorenzo,level=fast", &[DType::F32, DType::F64, DType::I16, DType::U64]),
    ("lorenzo,level=dense", &[DType::F32, DType::F64, DType::U8, DType::I32]),
    ("huffman", &[DType::U8, DType::U16, DType::I32]),
    ("quant,abs=1e-3", &[DType::F32, DType::F64, DType::C64]),
    ("quant,abs=3", &[DType::I32, DType::U16]),
    ("quant,rel=1e-4", &[DType::F32, DType::I64]),
    ("quant,pwrel=1e-3", &[DType::F32, DType::F64, DType::F16]),
    ("quant,abs=1e-3,level=dense", &[DType::F32, DType::F64]),
    ("quant,rel=1e-4,level=dense", &[DType::F32, DType::I32]),
    ("quant,pwrel=1e-3,level=dense", &[DType::F32, DType::C128]),
    ("quant,abs=1e-3,level=max", &[DType::F32, DType::F64]),
    ("quant,rel=1e-4,level=max", &[DType::F32, DType::I16]),
    ("quant,pwrel=1e-3,level=max", &[DType::F32, DType::F64]),
    ("zfp,lossless", &[DType::F32, DType::F64, DType::I32, DType::I64]),
    ("zfp,abs=1e-3", &[DType::F32, DType::F64]),
    ("zfp,rel=1e-4", &[DType::F32, DType::F64]),
    ("zfp,rate=9.5", &[DType::F32, DType::F64]),
    ("zfp,precision=14", &[DType::F32, DType::I64]),
    ("zfp,expert,minbits=20,maxbits=300", &[DType::F64]),
    ("multigrid,abs=1e-3", &[DType::F32, DType::F64]),
    ("multigrid,rel=1e-4", &[DType::F32, DType::F64]),
    ("multigrid,rms=1e-2", &[DType::F32, DType::F64]),
    ("multigrid,abs=1e-3,layers=3", &[DType::F32, DType::F64]),
    ("multigrid,rel=1e-4,layers=2", &[DType::F32]),
    ("multigrid,rms=1e-2,layers=2", &[DType::F32, DType::F64]),
    ("quant,abs=1e-3,fill=9.5", &[DType::F32]),
    ("zfp,abs=1e-3,fill=9.5", &[DType::F32]),
    ("multigrid,abs=1e-3,fill=9.5", &[DType::F64]),
];

/// Number of contents between which the source changes.
const N_VARIANTS: usize = 4;
const N_CHUNKS: usize = 2;

/// Generates the contents of one chunk. Some elements are NaN of one kind or of any kind, or have
/// one of a few words, so that exceptions, masks and dictionaries differ between contents.
fn content(array: &Array, random: &mut Random) -> Vec<u8> {
    let n = array.shape().n_elements() as usize;
    let kind = match random.below(8) {
        0 => Kind::Noise,
        1 => Kind::NoiseThenWalk(random.below(n)),
        2 => Kind::WalkThenNoise(random.below(n)),
        3 => Kind::Rule("few"),
        4 => Kind::Rule("wave"),
        5 => Kind::Rule("decimals"),
        6 => Kind::Rule("uneven"),
        _ => Kind::random(random, n),
    };
    let mut bytes = arrays::bytes(array, kind, random);
    let size = array.element_size() as usize;
    let words = [random.word(), random.word(), 0, 0x3ff8 << 48 | 0x3fc0_0000];
    let (how, seldom) = (random.below(5), random.pick(&[1, 2, 10, 200]));
    for element in bytes.chunks_exact_mut(size) {
        if how < 2 || !random.once_in(seldom) {
            continue;
        }
        for part in element.chunks_mut(8) {
            let not_a_number = if part.len() == 4 { 0x7fc0_0000 } else { 0x7ff8 << 48 };
            let word = match how {
                2 => not_a_number,
                3 => not_a_number | random.word() >> 50,
                _ => random.pick(&words),
            };
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
    }
    bytes
}

fn shapes(random: &mut Random, is_large: bool) -> Vec<u64> {
    let scale = if is_large { 8 } else { 1 };
    let odd = random.below(3) as u64;
    match random.below(4) {
        0 => vec![scale * 20_000 + odd],
        1 => vec![scale * 130 + odd, 192 - odd],
        2 => vec![scale * 24 + odd, 32 + odd, 32],
        _ => vec![scale * 5, 17, 16 + odd, 20],
    }
}

/// Counts over all calls.
#[derive(Debug, Default)]
struct Seen {
    calls: u64,
    /// Frames of the first round that do not correspond to any complete content of the source.
    mixed: u64,
    refused: u64,
}

/// Compresses while the source changes; adds the known number of changes to `changes`.
fn compress_while_changing(batch: &Batch, variants: &[Vec<u8>], random: &mut Random, changes: &AtomicU64) {
    let all = variants.concat();
    batch.src.write(0, &variants[0]);
    // SAFETY: source and contents live until the second call, and meanwhile only this thread runs
    // kernels.
    let is_emulated =
        unsafe { mock_cuda::change(batch.src.ptr(), &all, variants[0].len(), random.word()) }.is_some();
    if is_emulated {
        batch.submit_compress();
        // SAFETY: this ends the changes.
        let n = unsafe { mock_cuda::change(std::ptr::null_mut(), &[], 0, 0) };
        changes.fetch_add(n.unwrap_or(0), Ordering::Relaxed);
        return;
    }
    let other = Stream::new();
    let contents = Memory::of(&other, &all, 0);
    let copy = |random: &mut Random| {
        let n = variants[0].len();
        let (first, most) = (random.below(n) / 16 * 16, n >> random.below(12));
        let n_bytes = (1 + random.below(most)).min(n - first);
        contents.copy_to(random.below(variants.len()) * n + first, &batch.src, first, n_bytes);
        changes.fetch_add(1, Ordering::Relaxed);
    };
    (0..20).for_each(|_| copy(random));
    batch.submit_compress();
    (0..60).for_each(|_| copy(random));
    other.synchronize();
}

fn check(spec: &Request, dtype: DType, seed: u64, n_rounds: u64, changes: &AtomicU64) -> Seen {
    let (stream, mut random, mut seen) = (Stream::new(), Random::new(seed), Seen::default());
    // SAFETY: nothing is changed.
    let is_emulated = unsafe { mock_cuda::change(std::ptr::null_mut(), &[], 0, 0) }.is_some();
    for round in 0..n_rounds {
        let order = if random.once_in(5) { ByteOrder::Big } else { ByteOrder::Little };
        let array = array(dtype, order, &shapes(&mut random, !is_emulated));
        assert!(compresses_on_gpu(&array, spec), "{spec} {dtype:?}");
        let layout = Layout { slot_gap: 4096, has_workspace: true, ..Layout::of(N_CHUNKS) };
        let batch = Batch::new(&stream, array, spec, layout);
        let what = format!("{spec} {dtype:?} {order:?} {:?}, round {round}", array.shape().extents());
        let contents: Vec<Vec<Vec<u8>>> =
            (0..N_VARIANTS).map(|_| (0..N_CHUNKS).map(|_| content(&array, &mut random)).collect()).collect();
        batch.frames.fill(crate::driver::POISON);
        batch.lengths.fill(crate::driver::POISON);
        let variants: Vec<Vec<u8>> = contents.iter().map(|chunks| chunks.concat()).collect();
        compress_while_changing(&batch, &variants, &mut random, changes);
        stream.synchronize();

        let frames = batch.frames.read_all();
        let lengths = batch.read_lengths();
        for (i, (slot, &n_bytes)) in frames.chunks(batch.slot).zip(&lengths).enumerate() {
            assert!(n_bytes as usize <= batch.bound, "{what}: chunk {i} has {n_bytes} of {} bytes", batch.bound);
            assert!(is_poison(&slot[batch.bound..]), "{what}: written past slot {i}");
            let frame = &slot[..n_bytes as usize];
            // Only in the first round, because the CPU takes longest.
            if round == 0 {
                let of_one = contents.iter().any(|chunks| compress(&array, spec, &chunks[i], &cpu()) == frame);
                seen.mixed += u64::from(!of_one);
            }
        }
        seen.calls += 1;
        batch.assert_guards(&what);
        // Any frame must either decode or be refused.
        batch.poison_results();
        batch.submit_decompress(0);
        for status in batch.read_statuses() {
            assert!([0, CORRUPT, TRUNCATED, UNSUPPORTED].contains(&status), "{what}: status {status}");
            seen.refused += u64::from(status != 0);
        }
        batch.assert_guards(&what);
        if round == 0 {
            batch.check(&contents[1], &format!("{what}, and then a stable one"));
        }
    }
    seen
}

#[test]
fn sources_that_change() {
    if !has_gpu("sources_that_change") {
        return;
    }
    const { assert!(MAX_HEADER_BYTES < 4096, "a slot's gap is longer than headers") };
    let n_rounds = n_cases(5);
    let changes = AtomicU64::new(0);
    let (mut n_kinds, mut n_mixed) = (0, 0);
    for (seed, (text, dtypes)) in REQUESTS.into_iter().enumerate() {
        let spec: Request = text.parse().unwrap();
        for &dtype in dtypes {
            assert!(takes(&spec, dtype), "{text} {dtype:?}");
            let seen = check(&spec, dtype, 100 + seed as u64, n_rounds, &changes);
            println!("{text} {dtype:?}: {seen:?}");
            assert_eq!(seen.calls, n_rounds, "{text} {dtype:?}");
            n_kinds += 1;
            n_mixed += seen.mixed;
        }
    }
    // Nearly all frames are of a changed source; there are two for each kind.
    assert!(n_mixed >= n_kinds, "{n_mixed} of {n_kinds} kinds");
    assert!(changes.into_inner() >= n_kinds * n_rounds);
}
