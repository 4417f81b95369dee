//! Every CPU level writes the same bytes, reads those of every other one, and touches nothing else.

#![allow(unsafe_code)] // pages that cannot be accessed

mod common;

use common::generate::{GENERATORS, Input, Xorshift};
use common::vectors::vectors;
use common::{assert_same_bytes, cases, skip};
use gridz::codec::ndzip::{Ndzip, layout::Layout};
use gridz::codec::{Codec, Encoded, Job};
use gridz::cpu::level::Level;
use gridz::cpu::pool::Pool;
use gridz::format::checksum::Sums;
use gridz::settings::CpuLevel;
use gridz::{Context, DType, Error, Result, Shape};
use proptest::prelude::*;

/// Memory whose pages before and behind cannot be accessed. The bytes in use end at the second of them, or begin
/// at the first.
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
        // SAFETY: a fresh mapping, of which the middle is made accessible.
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
        // SAFETY: inside of the accessible part.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(self.start), self.n_bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows it any more.
        unsafe { libc::munmap(self.map.cast(), self.map_bytes) };
    }
}

/// One array for the codec.
struct Case {
    dtype: DType,
    shape: Shape,
    what: String,
}

impl Case {
    fn new(dtype: DType, extents: &[u64], what: &str) -> Self {
        Self { dtype, shape: Shape::new(extents).unwrap(), what: format!("{what} {} {extents:?}", dtype.name()) }
    }

    fn job<'a>(&self, level: Level, pool: &'a Pool) -> Job<'a> {
        Job { dtype: self.dtype, shape: self.shape, params: &[], pool, level, verify: true }
    }

    fn bound(&self) -> usize {
        Layout::new(&self.shape, self.dtype).unwrap().payload_bound() as usize
    }

    fn encode(&self, level: Level, raw: &[u8], dst: &mut [u8]) -> Encoded {
        Ndzip.encode(&self.job(level, &Pool::new(1)), raw, dst).unwrap()
    }

    fn decode(&self, level: Level, payload: &[u8], dst: &mut [u8]) -> Result<Sums> {
        Ndzip.decode(&self.job(level, &Pool::new(1)), payload, dst)
    }

    /// Encodes with all levels, decodes each result with all levels, each time between guard pages, and returns
    /// the payload.
    fn check(&self, raw: &[u8], at: At) -> Vec<u8> {
        let mut src = Guarded::new(raw, at);
        let mut payload: Option<Vec<u8>> = None;
        for level in Level::all() {
            let what = format!("{} by {level:?}", self.what);
            let mut dst = Guarded::new(&vec![0xee; self.bound()], at);
            let encoded = self.encode(level, src.bytes(), dst.bytes());
            let stream = &dst.bytes()[..encoded.n_bytes];
            assert_eq!(encoded.sums, Sums::of(stream), "{what}");
            match &payload {
                None => payload = Some(stream.to_vec()),
                Some(payload) => assert_same_bytes(stream, payload, &what),
            }
        }
        let payload = payload.unwrap();
        let mut stream = Guarded::new(&payload, at);
        for level in Level::all() {
            let what = format!("{} by {level:?}", self.what);
            let mut dst = Guarded::new(&vec![0xdd; raw.len()], at);
            assert_eq!(self.decode(level, stream.bytes(), dst.bytes()).unwrap(), Sums::of(&payload), "{what}");
            assert_same_bytes(dst.bytes(), raw, &what);
        }
        payload
    }
}

/// The other tests take the levels that there are; those that there are not are counted here.
#[test]
fn levels_that_this_cpu_has_not() {
    for level in [CpuLevel::Avx2, CpuLevel::Avx512] {
        if let Err(error) = Level::choose(Some(level)) {
            skip("levels", error.context());
        }
    }
}

#[test]
fn all_reference_vectors_by_every_level() {
    for vector in vectors("all_reference_vectors_by_every_level").unwrap_or_default() {
        let case = Case::new(vector.dtype, &vector.extents, &vector.name);
        for at in [At::Start, At::End] {
            assert_same_bytes(&case.check(&vector.raw, at), &vector.stream, &vector.name);
        }
    }
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
            vec![16, 32, 48]
        ]),
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn every_array(
        dtype in prop::sample::select(vec![DType::F32, DType::F64]),
        extents in extents(),
        generator in prop::sample::select(&GENERATORS[..]),
        seed in any::<u32>(),
        at_start in any::<bool>(),
    ) {
        let input = Input { seed: u64::from(seed), ..Input::new(generator, dtype, &extents) };
        let at = if at_start { At::Start } else { At::End };
        Case::new(dtype, &extents, generator).check(&input.bytes(), at);
    }

    /// Heads and columns of every kind: random bits, of which fewer and fewer are left from group to group.
    #[test]
    fn every_pattern_of_columns(
        dtype in prop::sample::select(vec![DType::F32, DType::F64]),
        extents in prop::sample::select(vec![vec![8192u64], vec![64, 128], vec![16, 16, 32]]),
        seed in any::<u32>(),
    ) {
        let mut random = Xorshift::new(u64::from(seed));
        let size = dtype.size().unwrap() as usize;
        let raw: Vec<u8> = (0..8192)
            .flat_map(|_| {
                let bits = random.next();
                let kept = random.next() & random.next() & random.next();
                (bits & kept >> (bits % 64)).to_le_bytes()[..size].to_vec()
            })
            .collect();
        Case::new(dtype, &extents, "sparse bits").check(&raw, At::End);
    }

    /// The same verdict on damaged payloads, and nothing accessed outside.
    #[test]
    fn damage_is_judged_alike(
        dtype in prop::sample::select(vec![DType::F32, DType::F64]),
        extents in extents(),
        seed in any::<u32>(),
        n_flips in 1..6usize,
        cut in prop::option::of(0..100_000usize),
    ) {
        let case = Case::new(dtype, &extents, "damaged");
        let input = Input { seed: u64::from(seed), ..Input::new("wave", dtype, &extents) };
        let raw = input.bytes();
        let mut payload = vec![0; case.bound()];
        let encoded = case.encode(Level::PORTABLE, &raw, &mut payload);
        payload.truncate(encoded.n_bytes);
        let mut random = Xorshift::new(u64::from(seed));
        for _ in 0..n_flips {
            // Half of them where the table and the first heads are.
            let range = if random.next() & 1 == 0 { payload.len() } else { payload.len().min(600) };
            let at = random.next() as usize % range;
            payload[at] ^= 1 << (random.next() % 8);
        }
        if let Some(cut) = cut {
            payload.truncate(cut);
        }
        let mut stream = Guarded::new(&payload, At::End);
        let mut verdicts: Vec<std::result::Result<(Sums, Vec<u8>), Error>> = Vec::new();
        for level in Level::all() {
            let mut dst = Guarded::new(&vec![0xdd; raw.len()], At::End);
            let result = case.decode(level, stream.bytes(), dst.bytes());
            verdicts.push(result.map(|sums| (sums, dst.bytes().to_vec())));
        }
        for verdict in &verdicts {
            match (verdict, &verdicts[0]) {
                (Ok(a), Ok(b)) => prop_assert!(a == b),
                (Err(a), Err(b)) => prop_assert!(a.kind() == b.kind() && a.context() == b.context()),
                _ => panic!("{:?} and {:?}", verdict.as_ref().err(), verdicts[0].as_ref().err()),
            }
        }
    }
}

/// Elements and payloads at any address.
#[test]
fn nothing_needs_to_be_aligned() {
    for dtype in [DType::F32, DType::F64] {
        for extents in [&[9000u64][..], &[70, 130], &[17, 34, 35]] {
            let case = Case::new(dtype, extents, "unaligned");
            let raw = Input::new("walk", dtype, extents).bytes();
            let payload = case.check(&raw, At::End);
            for level in Level::all() {
                for shift in [1, 2, 3, 5, 8, 13, 31, 63] {
                    let shifted = |bytes: &[u8]| [vec![0xaa; shift], bytes.to_vec(), vec![0xaa; 64]].concat();
                    let mut dst = shifted(&vec![0; case.bound()]);
                    let src = shifted(&raw);
                    let room = &mut dst[shift..shift + case.bound()];
                    let encoded = case.encode(level, &src[shift..shift + raw.len()], room);
                    assert_same_bytes(&room[..encoded.n_bytes], &payload, &case.what);
                    let mut dst = shifted(&vec![0; raw.len()]);
                    let src = shifted(&payload);
                    let room = &mut dst[shift..shift + raw.len()];
                    case.decode(level, &src[shift..shift + payload.len()], room).unwrap();
                    assert_same_bytes(&dst, &shifted(&raw), &case.what);
                }
            }
        }
    }
}

/// Levels and threads together, through the engine.
#[test]
fn frames_are_the_same() {
    for (dtype, extents) in [(DType::F32, &[100u64, 113, 127][..]), (DType::F64, &[640, 700])] {
        let input = Input::new("wave", dtype, extents);
        let (array, raw) = (input.array(), input.bytes());
        let context =
            |level: Level, threads| Context::new(Some(threads), None).unwrap().with_level(level.kind()).unwrap();
        let want = common::compress(&array, &common::ndzip(), &raw, &context(Level::PORTABLE, 1));
        for level in Level::all() {
            for threads in [1, 3] {
                let context = context(level, threads);
                let what = format!("{level:?}, {threads} threads");
                assert_same_bytes(&common::compress(&array, &common::ndzip(), &raw, &context), &want, &what);
                assert_same_bytes(&common::decompress(&want, &context).unwrap(), &raw, &what);
            }
        }
    }
}
