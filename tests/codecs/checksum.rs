//! The payload checksum against rearrangements, patterns that defeat sums with regular weights, and
//! random damage.
//!
//! Every family of damages is also applied to the checksum of format version 1, whose weights were 1
//! and the position. That checksum must miss some of them; otherwise the family would prove nothing.

use std::time::Instant;

use crate::common::generate::{Input, Xorshift};
use crate::common::{compress, decompress, shared, specs};
use gridz::{Array, Context, DType, ErrorKind, Request, Shape};
use gridz_codecs::format::checksum::{self, LANES, WEIGHTS, key};
use gridz_codecs::format::header::Header;

// ---- checksums
// -------------------------------------------------------------------------------------

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    })
}

/// The checksum as SPEC.md defines it, word by word.
fn by_definition(bytes: &[u8]) -> u64 {
    let [mut a, mut b] = [0u64; 2];
    for (i, word) in words(bytes).enumerate() {
        let product = u64::from(key((i / LANES) as u32)) * u64::from(word);
        a = a.wrapping_add(product.wrapping_mul(u64::from(WEIGHTS[0][i % LANES])));
        b = b.wrapping_add(product.wrapping_mul(u64::from(WEIGHTS[1][i % LANES])));
    }
    mix(a.wrapping_add(mix(b.wrapping_add(bytes.len() as u64))))
}

/// The checksum of format version 1.
fn linear(bytes: &[u8]) -> u64 {
    let [mut a, mut b] = [0u64; 2];
    for (word, i) in words(bytes).zip(1..) {
        let square = u64::from(word ^ 0x9e37_79b9).pow(2);
        a = a.wrapping_add(square);
        b = b.wrapping_add(square.wrapping_mul(i));
    }
    mix(a.wrapping_add(mix(b)))
}

/// Counts damaged copies of an array, and those that the version 1 checksum misses. Asserts that
/// the current one misses none.
struct Judge {
    good: Vec<u8>,
    today: u64,
    linear: u64,
    n_damages: u64,
    n_fooled_linear: u64,
}

impl Judge {
    fn new(good: Vec<u8>) -> Self {
        let (today, linear) = (checksum::checksum(&good), linear(&good));
        Self { good, today, linear, n_damages: 0, n_fooled_linear: 0 }
    }

    #[track_caller]
    fn see(&mut self, damaged: &[u8], what: impl FnOnce() -> String) {
        if damaged == self.good {
            return;
        }
        assert_ne!(checksum::checksum(damaged), self.today, "{}", what());
        self.n_damages += 1;
        self.n_fooled_linear += u64::from(linear(damaged) == self.linear);
    }

    /// Applies one damage to a copy.
    #[track_caller]
    fn damage(&mut self, what: impl FnOnce() -> String, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut damaged = self.good.clone();
        damage(&mut damaged);
        self.see(&damaged, what);
    }
}

/// Highly structured arrays, similar to real payloads on which sums with regular weights fail.
fn structured(n_bytes: usize) -> Vec<(&'static str, Vec<u8>)> {
    let of =
        |word: &dyn Fn(usize) -> u32| (0..n_bytes / 4).flat_map(|i| word(i).to_le_bytes()).collect::<Vec<u8>>();
    let mut random = Xorshift::new(88172645463325252);
    let few: Vec<u32> = (0..4).map(|_| random.next() as u32).collect();
    let noise: Vec<u32> = (0..n_bytes / 4).map(|_| random.next() as u32).collect();
    vec![
        ("palindromes", of(&|i| [1, 2, 2, 1][i % 4])),
        ("Thue-Morse", of(&|i| i.count_ones() % 2)),
        ("ramp", of(&|i| i as u32)),
        ("squares", of(&|i| (i * i) as u32)),
        ("four words", of(&|i| few[noise[i] as usize % 4])),
        ("top bits", of(&|i| (noise[i] & 1) << 31)),
        ("rare ones", of(&|i| u32::from(noise[i].is_multiple_of(61)))),
        ("period of 16", of(&|i| few[i % 16 / 4] + (i % 16) as u32)),
        ("floats", of(&|i| ((i / 7) as f32).sqrt().to_bits())),
        ("noise", of(&|i| noise[i])),
    ]
}

// ---- definition ------------------------------------------------------------------------------------

#[test]
fn the_sums_are_those_of_the_definition() {
    for n in (0..300).chain([100_003, 1 << 18]) {
        for (name, bytes) in structured(n + 4) {
            let bytes = &bytes[..n.min(bytes.len())];
            assert_eq!(checksum::checksum(bytes), by_definition(bytes), "{n} bytes of {name}");
        }
    }
    let ones = vec![0xff; 1 << 20];
    assert_eq!(checksum::checksum(&ones), by_definition(&ones));
}

#[test]
fn parts_combine_in_any_order() {
    let (_, bytes) = structured(30_000).pop().unwrap();
    let sums = |range: std::ops::Range<usize>| checksum::Checksum::of(&bytes[range.clone()], range.start as u64);
    for cut in [0, 4, 60, 64, 68, 4096, 29_996] {
        let both = sums(cut..bytes.len()).combine(sums(0..cut));
        assert_eq!(both.finish(bytes.len() as u64), checksum::checksum(&bytes), "cut at {cut}");
    }
}

/// Among the rows of payloads below 256 GiB, no two share a key, and none has key 0. [`key`] is a
/// bijection, since it is composed of bijections; this test checks the input that it maps to 0.
#[test]
fn keys_are_not_zero_and_weights_are_odd() {
    assert_eq!(key(u32::MAX), 0);
    assert!(WEIGHTS.as_flattened().iter().all(|weight| weight % 2 == 1));
    let mut weights = WEIGHTS.as_flattened().to_vec();
    weights.sort_unstable();
    weights.dedup();
    assert_eq!(weights.len(), 2 * LANES);
}

// ---- rearrangements --------------------------------------------------------------------------------

/// All exchanges of two aligned parts of equal size, or some thousands if there are more.
#[test]
fn exchanged_parts_are_seen() {
    let mut fooled = 0;
    for (name, bytes) in structured(1 << 13) {
        let mut judge = Judge::new(bytes);
        for log in 2..13 {
            let size = 1 << log;
            let n = judge.good.len() / size;
            let step = (n * n / 2 / 4000).max(1);
            let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
            for (i, j) in pairs.step_by(step) {
                judge.damage(
                    || format!("{name}: parts {i} and {j} of {size} bytes"),
                    |bytes| {
                        let (left, right) = bytes.split_at_mut(j * size);
                        left[i * size..][..size].swap_with_slice(&mut right[..size]);
                    },
                );
            }
        }
        fooled += judge.n_fooled_linear;
    }
    assert!(fooled > 100, "version 1 is fooled by {fooled} only");
}

#[test]
fn rotated_reversed_and_repeated_parts_are_seen() {
    let mut fooled = 0;
    for (name, bytes) in structured(1 << 13) {
        let mut judge = Judge::new(bytes);
        for log in 2..=13 {
            let size = 1 << log;
            for start in (0..judge.good.len()).step_by(size.max(64)) {
                let shifts = (2..log).flat_map(|log| [1 << log, size - (1 << log)]).chain([1, 2, 3]);
                for shift in shifts {
                    judge.damage(
                        || format!("{name}: {size} bytes from {start} rotated by {shift}"),
                        |bytes| bytes[start..start + size].rotate_left(shift),
                    );
                }
                judge.damage(
                    || format!("{name}: words of {size} bytes from {start} reversed"),
                    |bytes| bytes[start..start + size].as_chunks_mut::<4>().0.reverse(),
                );
                judge.damage(
                    || format!("{name}: {size} bytes from {start} reversed"),
                    |bytes| bytes[start..start + size].reverse(),
                );
                let from = (start + size) % judge.good.len();
                judge.damage(
                    || format!("{name}: {size} bytes from {from} also at {start}"),
                    |bytes| bytes.copy_within(from..from + size, start),
                );
            }
        }
        fooled += judge.n_fooled_linear;
    }
    assert!(fooled > 10, "version 1 is fooled by {fooled} only");
}

/// Differences of ± d in the order of the Thue–Morse sequence cancel against every polynomial in
/// the position whose degree is smaller than the sequence's order: word by word, by rows, and
/// within a lane.
#[test]
fn thue_morse_sequences_are_seen() {
    let mut fooled = 0;
    for order in 1..=14 {
        for stride in [1, 4, LANES, 5 * LANES] {
            for d in [1u32, 3, 0x0100_0000, 1 << 31] {
                let n = 1usize << order;
                let payload = |sign: u32| -> Vec<u8> {
                    let word = |i: usize| match i % stride {
                        0 if (i / stride).count_ones() % 2 == sign => 7 + d,
                        _ => 7,
                    };
                    (0..n * stride).flat_map(|i| word(i).to_le_bytes()).collect()
                };
                let mut judge = Judge::new(payload(0));
                judge.see(&payload(1), || format!("order {order}, stride {stride}, {d:#x}"));
                fooled += judge.n_fooled_linear;
            }
        }
    }
    assert!(fooled > 100, "version 1 is fooled by {fooled} only");
}

#[test]
fn words_and_bytes_that_shift_and_zeros_that_come_are_seen() {
    for (name, mut bytes) in structured(5000) {
        bytes.extend([0; 100]);
        let mut judge = Judge::new(bytes);
        for n in 1..100 {
            judge.damage(|| format!("{name}: {n} zeros more"), |bytes| bytes.extend(vec![0; n]));
            judge.damage(|| format!("{name}: {n} zeros less"), |bytes| bytes.truncate(bytes.len() - n));
            judge.damage(|| format!("{name}: {n} bytes to the right"), |bytes| bytes.rotate_right(n));
            judge.damage(|| format!("{name}: {n} bytes to the left"), |bytes| bytes.rotate_left(n));
            judge.damage(
                || format!("{name}: word {n} twice"),
                |bytes| {
                    let end = bytes.len();
                    bytes.copy_within(4 * n..end - 4, 4 * n + 4);
                },
            );
        }
    }
}

/// A stuck or swapped data line inverts one bit of neighboring words.
#[test]
fn every_bit_counts_alone_and_with_its_neighbours() {
    for (name, bytes) in structured(4096) {
        let mut judge = Judge::new(bytes);
        for bit in 0..judge.good.len() * 8 {
            judge.damage(|| format!("{name}: bit {bit}"), |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        }
        for n in [2, 4, 8, 16, 64] {
            for (bit, start) in (0..32).flat_map(|bit| (0..130).map(move |start| (bit, 7 * start))) {
                judge.damage(
                    || format!("{name}: bit {bit} of {n} words from {start}"),
                    |bytes| (start..start + n).for_each(|word| bytes[4 * word + bit / 8] ^= 1 << (bit % 8)),
                );
            }
        }
    }
}

// ---- frames ----------------------------------------------------------------------------------------

/// Payloads of every codec and level, of generated and real arrays.
fn payloads() -> Vec<(String, Vec<u8>)> {
    let mut payloads = Vec::new();
    let mut add = |name: &str, array: Array, raw: &[u8]| {
        for spec in specs() {
            let frame = compress(&array, &spec, raw, &Context::default());
            let n = Header::parse(&frame).unwrap().n_bytes();
            payloads.push((format!("{name} by {spec:?}"), frame[n..].to_vec()));
        }
    };
    for (generator, dtype, extents) in
        [("wave", DType::F32, &[16, 32, 32][..]), ("walk", DType::F64, &[64, 64]), ("few", DType::I32, &[5000])]
    {
        let input = Input::new(generator, dtype, extents);
        add(generator, input.array(), &input.bytes());
    }
    if let Some(folder) = shared("checksum") {
        for name in ["sperr_vorticity_2d.f32.bin", "metoffice_a1b_tas_3d.f32.bin", "ncl_pop_urot_2d_fill.f32.bin"] {
            let raw = &std::fs::read(folder.join("data").join(name)).unwrap()[..64 << 10];
            add(
                name,
                Array::new(DType::F32, gridz::ByteOrder::Little, Shape::new(&[128, 128]).unwrap()).unwrap(),
                raw,
            );
        }
    }
    payloads
}

/// Ten million damages of payloads (by default one hundred thousand; set `GRIDZ_CHECKSUM_DAMAGES`):
/// words and bytes are replaced, inverted, exchanged, moved, repeated or removed.
#[test]
fn random_damage_is_seen() {
    let wanted: usize = std::env::var("GRIDZ_CHECKSUM_DAMAGES").map_or(100_000, |n| n.parse().expect("a number"));
    let payloads = payloads();
    let mut random = Xorshift::new(4);
    let (begin, mut n_seen) = (Instant::now(), 0);
    'all: loop {
        for (name, payload) in &payloads {
            // Use only a part of the payload, for speed.
            let n = payload.len().min(512 + random.next() as usize % 1024) / 4 * 4;
            let from = random.next() as usize % (payload.len() - n + 1);
            let good = &payload[from..from + n];
            let sum = checksum::checksum(good);
            let mut below = |n: usize| random.next() as usize % n;
            for _ in 0..1000 {
                let mut bad = good.to_vec();
                for _ in 0..1 + below(3) {
                    let unit = [1, 4, 4, 8, 16, 64][below(6)];
                    let size = unit * (1 + below(8.min(n / unit / 2)));
                    let mut place = || below((n - size) / unit + 1) * unit;
                    let (at, other) = (place(), place());
                    match below(6) {
                        0 => bad[at..at + size].rotate_left(unit.min(size - 1)),
                        1 => bad[at] ^= 1 << below(8),
                        2 => bad.copy_within(other..other + size, at),
                        3 => bad[at..at + size].reverse(),
                        4 => (0..size).for_each(|i| bad.swap(at + i, other + i)),
                        _ => bad[at..at + size].iter_mut().for_each(|byte| *byte = below(256) as u8),
                    }
                }
                if bad != good {
                    assert_ne!(checksum::checksum(&bad), sum, "{name} from {from}");
                    n_seen += 1;
                }
                if n_seen == wanted {
                    break 'all;
                }
            }
        }
    }
    println!("{n_seen} damages seen in {:.0} s", begin.elapsed().as_secs_f64());
}

/// A reader of version 1 would have accepted this as [1, 2, 2, 1].
#[test]
fn a_rearranged_frame_is_an_error() {
    let array = Array::new(DType::I32, gridz::ByteOrder::Little, Shape::new(&[4]).unwrap()).unwrap();
    let raw = |values: [i32; 4]| values.map(i32::to_le_bytes).concat();
    let stored = Request::new(0, 0).unwrap();
    let mut frame = compress(&array, &stored, &raw([1, 2, 2, 1]), &Context::default());
    let at = frame.len() - 16;
    frame[at..].copy_from_slice(&raw([2, 1, 1, 2]));
    assert_eq!(linear(&raw([1, 2, 2, 1])), linear(&raw([2, 1, 1, 2])));
    assert_eq!(decompress(&frame, &Context::default()).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Exchanges two lorenzo blocks of equal length together with their checks in the table.
#[test]
fn exchanged_blocks_are_an_error_also_in_regions() {
    let input = Input::new("ramp", DType::I32, &[1 << 14]);
    let values: Vec<u8> = input.bytes();
    let raw: Vec<u8> = values
        .chunks(4)
        .enumerate()
        .flat_map(|(i, word)| {
            // Blocks that differ but have equal lengths.
            let word = u32::from_le_bytes(word.try_into().unwrap());
            (word ^ (i as u32 >> 12) ^ ((i as u32 * 7) & 15)).to_le_bytes()
        })
        .collect();
    let array = input.array();
    let frame = compress(&array, &Request::new(2, 1).unwrap(), &raw, &Context::default());
    let header = Header::parse(&frame).unwrap();
    let payload = header.n_bytes();
    let entry = |i: usize| u32::from_le_bytes(frame[payload + 8 * i..][..4].try_into().unwrap()) as usize * 16;
    let n_blocks = 4;
    let starts: Vec<usize> = (0..n_blocks).map(|i| if i == 0 { 0 } else { entry(i - 1) }).collect();
    let pair = (0..n_blocks).flat_map(|i| (i + 1..n_blocks).map(move |j| (i, j)));
    let length = |i: usize| entry(i) - starts[i];
    let Some((i, j)) = pair.into_iter().find(|&(i, j)| length(i) == length(j)) else {
        panic!("no equally long blocks")
    };
    let blocks = payload + 8 * n_blocks;
    let mut bad = frame.clone();
    for k in 0..length(i) {
        bad.swap(blocks + starts[i] + k, blocks + starts[j] + k);
    }
    for k in 4..8 {
        bad.swap(payload + 8 * i + k, payload + 8 * j + k);
    }
    assert_ne!(bad, frame, "the blocks are equal");
    assert_eq!(decompress(&bad, &Context::default()).unwrap_err().kind(), ErrorKind::Corrupt);
    // A region read decodes only this block, and the block's check depends on its position.
    let mut part = vec![0; 4];
    let start = [(i as u64) << 12];
    let result = gridz::decompress(
        &bad,
        gridz::Part::Region { start: &start, count: &[1] },
        &mut part,
        gridz::Verify::Checksum,
        &Context::default(),
    );
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt);
}
