//! Every CPU level writes the same bytes, reads the bytes of every other level, and accesses nothing
//! else.

#![allow(unsafe_code)] // guard pages

use crate::common::generate::{GENERATORS, Input, Xorshift};
use crate::common::vectors::vectors;
use crate::common::{Tally, assert_same_bytes, cases, one_in, skip};
use std::sync::LazyLock;

use gridz::{Array, ByteOrder, Context, DType, Error, Mode, Result, Shape};
use gridz_codecs::codec::registry::{CODECS, Entry};
use gridz_codecs::codec::{Decision, EncodeParams, Encoded, Job, Plan};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::settings::CpuLevel;
use proptest::prelude::*;

/// Memory between two guard pages. The used bytes end at the second guard page, or begin after the
/// first.
struct Guarded {
    map: *mut u8,
    map_bytes: usize,
    start: usize,
    n_bytes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    Start,
    End,
}

impl Guarded {
    fn new(content: &[u8], at: At) -> Self {
        const PAGE: usize = 1 << 16;
        let n_bytes = content.len();
        let room = n_bytes.next_multiple_of(PAGE);
        let map_bytes = room + 2 * PAGE;
        // SAFETY: a fresh mapping; its middle is made accessible.
        let map = unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                map_bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(map, libc::MAP_FAILED);
            let middle = map.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(middle.cast(), room, libc::PROT_READ | libc::PROT_WRITE), 0);
            map.cast::<u8>()
        };
        let start = PAGE + if at == At::End { room - n_bytes } else { 0 };
        let mut guarded = Self { map, map_bytes, start, n_bytes };
        guarded.bytes().copy_from_slice(content);
        guarded
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: inside the accessible part.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(self.start), self.n_bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows it any longer.
        unsafe { libc::munmap(self.map.cast(), self.map_bytes) };
    }
}

/// Every level with one thread, and with two if they share the work: the array is then split
/// differently.
fn ways(n_bytes: usize) -> impl Iterator<Item = (Isa, &'static Pool)> {
    static POOLS: LazyLock<[Pool; 2]> = LazyLock::new(|| [1, 2].map(Pool::new));
    let pools = POOLS.iter().filter(move |pool| pool.pieces(n_bytes as u64) > 1 || std::ptr::eq(*pool, &POOLS[0]));
    pools.flat_map(|pool| Isa::all().map(move |level| (level, pool)))
}

/// One array for one codec at one of its levels.
struct Case {
    entry: &'static Entry,
    dtype: DType,
    shape: Shape,
    plan: Plan,
    is_lossless: bool,
    what: String,
}

impl Case {
    /// `None` if the codec does not support such arrays.
    fn new(
        entry: &'static Entry,
        encode_params: EncodeParams,
        dtype: DType,
        extents: &[u64],
        what: &str,
    ) -> Option<Self> {
        let array = Array::new(dtype, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap();
        let Decision::Take(plan) = entry.codec.plan(&array, &encode_params) else { return None };
        let shape = plan.fold.apply(array.shape(), entry.codec.max_rank());
        let EncodeParams { mode, value, level, .. } = encode_params;
        let is_lossless = mode == Mode::Lossless;
        let what = format!("{} {mode:?} {value} {level} {what} {} {extents:?}", entry.name, dtype.name());
        Some(Self { entry, dtype, shape, plan, is_lossless, what })
    }

    /// Every codec that supports such arrays, at each of its levels, and in each of its modes with
    /// some value.
    fn all(dtype: DType, extents: &[u64], what: &str) -> Vec<Self> {
        let mut cases = Vec::new();
        for entry in CODECS {
            for encode_params in entry.level_numbers().map(EncodeParams::lossless) {
                for &mode in entry.modes {
                    let values: &[_] = match mode {
                        Mode::Lossless | Mode::Expert => &[(0.0, None)],
                        Mode::Rate => &[(7.3, None), (2.0, Some("63"))],
                        Mode::Precision => &[(13.0, None)],
                        Mode::Abs => &[(1e-3, None), (40.0, Some("63")), (1e6, None)],
                        _ => &[(1e-3, None)],
                    };
                    for &(value, fill) in values {
                        let mut encode_params = encode_params;
                        (encode_params.mode, encode_params.value) = (mode, value);
                        if let Some(fill) = fill {
                            encode_params.missing.add(fill.parse().unwrap()).unwrap();
                        }
                        for (value, param) in encode_params.codec_params.iter_mut().zip(entry.codec_params) {
                            *value = param.default;
                        }
                        cases.extend(Self::new(entry, encode_params, dtype, extents, what));
                    }
                }
            }
        }
        cases
    }

    fn job<'a>(&'a self, level: Isa, pool: &'a Pool) -> Job<'a> {
        Job { dtype: self.dtype, shape: self.shape, layout: &self.plan.layout, pool, level, verify: true }
    }

    /// Enough bytes for any payload: zfp gives up if a payload is as long as the array, which must
    /// not happen here.
    fn bound(&self) -> usize {
        let bound = self.plan.bound as usize;
        if self.entry.name == "zfp" { 8 * bound + 4096 } else { bound }
    }

    fn encode(&self, level: Isa, raw: &[u8], dst: &mut [u8]) -> Encoded {
        self.entry.codec.encode(&self.job(level, &Pool::new(1)), raw, dst).unwrap()
    }

    fn decode(
        &self,
        (level, pool): (Isa, &Pool),
        payload: &[u8],
        dst: &mut [u8],
        verify: bool,
    ) -> Result<Checksum> {
        self.entry.codec.decode(&Job { verify, ..self.job(level, pool) }, payload, dst)
    }

    /// Encodes at all levels and decodes each result at all levels, each time between guard pages.
    /// Returns the payload, or `None` if the chunk is stored.
    fn check(&self, raw: &[u8], at: At) -> Option<Vec<u8>> {
        let mut src = Guarded::new(raw, at);
        let mut payload: Option<Vec<u8>> = None;
        for level in Isa::all() {
            let what = format!("{} by {level:?}", self.what);
            let mut dst = Guarded::new(&vec![0xee; self.bound()], at);
            let encoded = self.encode(level, src.bytes(), dst.bytes());
            if self.entry.name == "multigrid" && encoded.n_bytes >= raw.len() {
                // multigrid gave up, whatever the destination's size is.
                return None;
            }
            let stream = &dst.bytes()[..encoded.n_bytes];
            assert_eq!(encoded.sums, Checksum::of(stream, 0), "{what}");
            match &payload {
                None => payload = Some(stream.to_vec()),
                Some(payload) => assert_same_bytes(stream, payload, &what),
            }
        }
        let payload = payload.unwrap();
        let mut expected = raw.to_vec();
        if !self.is_lossless {
            self.decode((Isa::PORTABLE, &Pool::new(1)), &payload, &mut expected, true).unwrap();
        }
        let mut stream = Guarded::new(&payload, at);
        for (level, pool) in ways(raw.len()) {
            let what = format!("{} by {level:?}", self.what);
            let mut dst = Guarded::new(&vec![0xdd; raw.len()], at);
            assert_eq!(
                self.decode((level, pool), stream.bytes(), dst.bytes(), true).unwrap(),
                Checksum::of(&payload, 0),
                "{what}"
            );
            assert_same_bytes(dst.bytes(), &expected, &what);
        }
        Some(payload)
    }
}

impl Case {
    /// Decodes an arbitrary payload at all levels. Returns true if they accept it.
    fn judge(&self, payload: &[u8], n_bytes: usize, verify: bool) -> bool {
        let mut stream = Guarded::new(payload, At::End);
        let mut verdicts: Vec<std::result::Result<(Checksum, Vec<u8>), Error>> = Vec::new();
        for way in ways(n_bytes) {
            let mut dst = Guarded::new(&vec![0xdd; n_bytes], At::End);
            let result = self.decode(way, stream.bytes(), dst.bytes(), verify);
            verdicts.push(result.map(|sums| (sums, dst.bytes().to_vec())));
        }
        for verdict in &verdicts {
            match (verdict, &verdicts[0]) {
                (Ok(a), Ok(b)) => assert!(a == b, "{}", self.what),
                (Err(a), Err(b)) => assert!(a.kind() == b.kind() && a.context() == b.context(), "{}", self.what),
                _ => panic!("{}: {:?} and {:?}", self.what, verdict.as_ref().err(), verdicts[0].as_ref().err()),
            }
        }
        verdicts[0].is_ok()
    }
}

/// The other tests use the available levels; the unavailable ones are logged here.
#[test]
fn levels_that_this_cpu_has_not() {
    for level in [CpuLevel::Avx2, CpuLevel::Avx512] {
        if let Err(error) = Isa::choose(Some(level)) {
            skip("levels", error.context());
        }
    }
}

#[test]
fn all_reference_vectors_by_every_level() {
    for vector in vectors("all_reference_vectors_by_every_level").unwrap_or_default() {
        let entry = CODECS.iter().find(|entry| entry.name == "ndzip").unwrap();
        let case =
            Case::new(entry, EncodeParams::lossless(0), vector.dtype, &vector.extents, &vector.name).unwrap();
        for at in [At::Start, At::End] {
            assert_same_bytes(&case.check(&vector.raw, at).unwrap(), &vector.stream, &vector.name);
        }
    }
}

/// Arrays large enough for several threads, intact and damaged.
#[test]
fn arrays_for_two_threads_by_every_level() {
    let arrays = [
        (DType::F32, &[70, 80, 50][..]),
        (DType::F32, &[17, 130, 130]),
        (DType::F64, &[600, 300]),
        (DType::F64, &[200_001]),
        (DType::U16, &[9, 300, 210]),
    ];
    let tally = Tally::default();
    for (i, (dtype, extents)) in arrays.into_iter().enumerate() {
        let n_bytes = extents.iter().product::<u64>() as usize * dtype.size().unwrap() as usize;
        let raw: Vec<u8> =
            (0..n_bytes as u32).map(|i| ((i / 64).wrapping_mul(0x9e37_79b9) >> (i % 32)) as u8).collect();
        // Of each array other codecs and levels.
        for case in Case::all(dtype, extents, "for threads").into_iter().skip(i % one_in()).step_by(one_in()) {
            tally.add("cases");
            let Some(payload) = case.check(&raw, At::End) else { continue };
            tally.add("payloads");
            for i in 0..12 / one_in() {
                let mut damaged = payload.clone();
                let at = i * 0x9e37_79b9 % damaged.len();
                damaged[at] ^= 1 << (i % 8);
                let is_accepted = case.judge(&damaged, raw.len(), i % 2 == 0);
                tally.add(if is_accepted { "accepted" } else { "refused" });
            }
            case.judge(&payload[..payload.len() - 16], raw.len(), true);
        }
    }
    tally.assert("payloads", 50);
    tally.assert("accepted", 5);
    tally.assert("refused", 50);
}

/// Element types: those that all codecs support are the most likely.
fn dtypes() -> impl Strategy<Value = DType> {
    prop_oneof![
        prop::sample::select(vec![DType::F32, DType::F64]),
        prop::sample::select(DType::ALL.into_iter().filter(|&dtype| dtype != DType::Opaque).collect::<Vec<_>>()),
    ]
}

/// Arrays of one to three axes with few blocks, some with a border.
fn extents() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        (1..20_000u64).prop_map(|n| vec![n]),
        (60..200u64, 60..200u64).prop_map(|(y, x)| vec![y, x]),
        (14..40u64, 14..40u64, 14..50u64).prop_map(|(z, y, x)| vec![z, y, x]),
        prop::sample::select(vec![
            vec![4096],
            vec![8192],
            vec![64, 64],
            vec![64, 128],
            vec![16, 16, 16],
            vec![16, 32, 48],
            vec![40, 41, 27],
            vec![33, 35, 3],
            vec![2, 2, 5000],
            vec![70, 2, 50],
            vec![200, 3],
            vec![3, 5000],
        ]),
    ]
}

/// All levels agree on damaged payloads, and access nothing outside.
#[test]
fn damage_is_judged_alike() {
    let tally = Tally::default();
    proptest!(cases(400), |(
        dtype in dtypes(),
        extents in extents(),
        generator in prop::sample::select(vec!["wave", "walk", "special"]),
        seed in any::<u32>(),
        n_flips in 1..6usize,
        cut in prop::option::of(0..100_000usize),
        verify in any::<bool>(),
    )| {
        tally.add("cases");
        for case in Case::all(dtype, &extents, "damaged") {
            let input = Input { seed: u64::from(seed), ..Input::new(generator, dtype, &extents) };
            let raw = input.bytes();
            let mut payload = vec![0; case.bound()];
            let encoded = case.encode(Isa::PORTABLE, &raw, &mut payload);
            payload.truncate(encoded.n_bytes);
            let mut random = Xorshift::new(u64::from(seed));
            for _ in 0..n_flips {
                // Half of them in the table and the first heads.
                let range = if random.next() & 1 == 0 { payload.len() } else { payload.len().min(600) };
                let at = random.next() as usize % range;
                payload[at] ^= 1 << (random.next() % 8);
            }
            if let Some(cut) = cut {
                payload.truncate(cut);
            }
            let is_accepted = case.judge(&payload, raw.len(), verify);
            tally.add(if is_accepted { "accepted" } else { "refused" });
            tally.add_if("refused without checks", !is_accepted && !verify);
        }
    });
    tally.assert("accepted", 50);
    tally.assert("refused", 200);
    tally.assert("refused without checks", 50);
}

/// Widths and patches of every kind: noise of some bits with an occasional longer number, on a
/// slope.
#[test]
fn every_pattern_of_lengths() {
    let tally = Tally::default();
    proptest!(cases(400), |(
        dtype in dtypes(),
        extents in prop::sample::select(vec![vec![8192u64], vec![64, 128], vec![16, 16, 32], vec![12, 13, 27]]),
        seed in any::<u32>(),
        often in 0..64u32,
        seldom in 0..64u32,
        slope in 0..50u64,
    )| {
        tally.add("cases");
        let mut random = Xorshift::new(u64::from(seed));
        let size = dtype.size().unwrap() as usize;
        let n: u64 = extents.iter().product();
        let raw: Vec<u8> = (0..n)
            .flat_map(|i| {
                let bits = if random.next().is_multiple_of(11) { seldom } else { often };
                (i * slope).wrapping_add(random.next() >> bits).to_le_bytes().repeat(2)[..size].to_vec()
            })
            .collect();
        for case in Case::all(dtype, &extents, "lengths") {
            tally.add_if("packed", case.check(&raw, At::Start).is_some_and(|payload| payload.len() < raw.len()));
        }
    });
    tally.assert("packed", 200);
}

/// Heads and columns of every kind: random bits, with ever fewer bits from group to group.
#[test]
fn every_pattern_of_columns() {
    let tally = Tally::default();
    proptest!(cases(400), |(
        dtype in prop::sample::select(vec![DType::F32, DType::F64]),
        extents in prop::sample::select(vec![vec![8192u64], vec![64, 128], vec![16, 16, 32]]),
        seed in any::<u32>(),
    )| {
        tally.add("cases");
        let mut random = Xorshift::new(u64::from(seed));
        let size = dtype.size().unwrap() as usize;
        let raw: Vec<u8> = (0..8192)
            .flat_map(|_| {
                let bits = random.next();
                let kept = random.next() & random.next() & random.next();
                (bits & kept >> (bits % 64)).to_le_bytes()[..size].to_vec()
            })
            .collect();
        for case in Case::all(dtype, &extents, "sparse bits") {
            tally.add_if("packed", case.check(&raw, At::End).is_some_and(|payload| payload.len() < raw.len()));
        }
    });
    tally.assert("packed", 200);
}

#[test]
fn every_array() {
    let tally = Tally::default();
    proptest!(cases(400), |(
        dtype in dtypes(),
        extents in extents(),
        generator in prop::sample::select(&GENERATORS[..]),
        seed in any::<u32>(),
        at_start in any::<bool>(),
    )| {
        tally.add("cases");
        let input = Input { seed: u64::from(seed), ..Input::new(generator, dtype, &extents) };
        let at = if at_start { At::Start } else { At::End };
        for case in Case::all(dtype, &extents, generator) {
            tally.add_if("packed", case.check(&input.bytes(), at).is_some_and(|payload| payload.len() < input.bytes().len()));
        }
    });
    tally.assert("packed", 200);
}

/// Elements and payloads at any address.
#[test]
fn nothing_needs_to_be_aligned() {
    let tally = Tally::default();
    for dtype in [DType::F32, DType::F64, DType::U16] {
        for extents in [&[9000u64][..], &[70, 130], &[17, 34, 35]] {
            for case in Case::all(dtype, extents, "unaligned") {
                let raw = Input::new("walk", dtype, extents).bytes();
                tally.add("cases");
                let Some(payload) = case.check(&raw, At::End) else { continue };
                tally.add("payloads");
                let mut expected = vec![0; raw.len()];
                case.decode((Isa::PORTABLE, &Pool::new(1)), &payload, &mut expected, true).unwrap();
                for (level, shift) in
                    Isa::all().flat_map(|level| [1, 2, 3, 5, 8, 13, 31, 63].map(|shift| (level, shift)))
                {
                    let shifted = |bytes: &[u8]| [vec![0xaa; shift], bytes.to_vec(), vec![0xaa; 64]].concat();
                    let mut dst = shifted(&vec![0; case.bound()]);
                    let src = shifted(&raw);
                    let room = &mut dst[shift..shift + case.bound()];
                    let encoded = case.encode(level, &src[shift..shift + raw.len()], room);
                    assert_same_bytes(&room[..encoded.n_bytes], &payload, &case.what);
                    let mut dst = shifted(&vec![0; raw.len()]);
                    let src = shifted(&payload);
                    let room = &mut dst[shift..shift + raw.len()];
                    let pool = &Pool::new(1);
                    case.decode((level, pool), &src[shift..shift + payload.len()], room, true).unwrap();
                    assert_same_bytes(&dst, &shifted(&expected), &case.what);
                }
            }
        }
    }
    tally.assert("payloads", 80);
}

/// Levels and threads together, through the engine.
#[test]
fn frames_are_the_same() {
    for (dtype, extents) in [(DType::F32, &[100u64, 113, 127][..]), (DType::F64, &[640, 700])] {
        let input = Input::new("wave", dtype, extents);
        let (array, raw) = (input.array(), input.bytes());
        let context =
            |level: Isa, threads| Context::new(Some(threads), None).unwrap().with_level(level.kind()).unwrap();
        for spec in crate::common::specs() {
            let want = crate::common::compress(&array, &spec, &raw, &context(Isa::PORTABLE, 1));
            for (level, threads) in Isa::all().flat_map(|level| [(level, 1), (level, 3)]) {
                let context = context(level, threads);
                let what = format!("{spec:?} {level:?}, {threads} threads");
                assert_same_bytes(&crate::common::compress(&array, &spec, &raw, &context), &want, &what);
                assert_same_bytes(&crate::common::decompress(&want, &context).unwrap(), &raw, &what);
            }
        }
    }
}
