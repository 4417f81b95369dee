//! Masks: the masked elements, whether a mask pays off, and the remaining elements.

use gridz::DType;

use super::{DENSE, FAST, agree, agree_on_all, dtypes};
use crate::lorenzo::{HUFF, SPARSE, SPLIT, data};

/// Offset of the first block in a payload of one block.
const BLOCK: usize = 16;
const FILL: i64 = -(1 << 40);

fn is_masked(payload: &[u8]) -> bool {
    payload[BLOCK + 3] == 1
}

fn raw(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `n` distinct numbers that are nearly on a line, with `FILL` in the gaps.
fn with_gaps(n: usize, is_gap: impl Fn(usize) -> bool) -> Vec<i64> {
    let value = |i: usize| 100 * i as i64 + (i * i % 97) as i64;
    (0..n).map(|i| if is_gap(i) { FILL } else { value(i) }).collect()
}

/// All types; whole, clipped and thin blocks; rows wider than 32 and narrower than 8.
#[test]
fn payloads_with_gaps_are_the_defined_ones() {
    let extents: [&[u64]; 19] = [
        &[64],
        &[65],
        &[1050],
        &[4096],
        &[9000],
        &[9, 11],
        &[128, 64],
        &[100, 33],
        &[70, 70],
        &[600, 7],
        &[1500, 3],
        &[3, 2000],
        &[5, 6, 7],
        &[16, 16, 32],
        &[17, 18, 35],
        &[50, 20, 7],
        &[20, 40, 2],
        &[2, 3, 700],
        &[3, 4, 5, 40],
    ];
    let seen = agree_on_all(data::gaps::bytes, dtypes(), &extents, 6000);
    for what in [
        "coder 2 map 0 masked, 0 levels of patches",
        "coder 2 map 0 masked, 1 levels of patches",
        "coder 2 map 0 masked, 2 levels of patches",
        "coder 2 map 1 masked, 1 levels of patches",
        "coder 2 map 3 masked, 1 levels of patches",
        "coder 3 map 0 masked, flag 0",
        "coder 3 map 0 masked, flag 1",
        "coder 3 map 1 masked, flag 0",
        "coder 3 map 3 masked, flag 0",
        "coder 4 map 0 masked, list",
        "coder 4 map 0 masked, marks",
        "coder 4 map 1 masked, list",
        "coder 4 map 3 masked, list",
    ] {
        assert!(seen.contains_key(what), "no block is {what}: {seen:#?}");
    }
}

/// A mask is used if it has at most an eighth of the masked elements' bytes.
#[test]
fn masks_pay_as_defined() {
    // A plain bitmap: 528 bytes with the mask's header. One element in each byte of the bitmap, and
    // some more.
    for (n_gaps, pays) in [(527, false), (528, true)] {
        let values = with_gaps(4096, |i| i % 8 == 0 || i % 8 == 1 && i / 8 < n_gaps - 512);
        for log2 in [FAST, DENSE] {
            let payload = agree(DType::I64, &[4096], &raw(&values), log2, "gaps");
            assert_eq!(is_masked(&payload), pays, "{n_gaps} gaps");
        }
    }
    // A two-level bitmap of two bytes or six: 32 bytes with padding and the mask's header.
    for (n_gaps, pays) in [(31, false), (32, true)] {
        let payload = agree(DType::I64, &[64], &raw(&with_gaps(64, |i| i < n_gaps)), FAST, "gaps");
        assert_eq!(is_masked(&payload), pays, "{n_gaps} gaps");
    }
    // Fewer than that are never masked.
    let payload = agree(DType::I64, &[63], &raw(&with_gaps(63, |i| i < 60)), FAST, "gaps");
    assert!(!is_masked(&payload));
}

/// The bitmap is coded in two levels if that is not longer.
#[test]
fn bitmaps_are_coded_as_defined() {
    for (n_zero_bytes, is_coded) in [(80, 1), (79, 0)] {
        // The fourth byte of `n_zero_bytes` words of the bitmap is zero.
        let values = with_gaps(4096, |i| i % 8 < 2 && !(i / 8 % 4 == 3 && i / 32 < n_zero_bytes));
        let payload = agree(DType::I64, &[4096], &raw(&values), FAST, "marks");
        assert_eq!((is_masked(&payload), payload[BLOCK + 16 + 11] >> 7), (true, is_coded));
    }
}

/// The masked word is determined from the samples.
#[test]
fn masked_words_are_the_defined_ones() {
    let sample = |j: usize| 128 * j;
    for (n_samples, masks) in [(2, false), (3, true)] {
        let mut values = with_gaps(4096, |i| i % 128 > 64);
        (0..n_samples).for_each(|j| values[sample(12 * j)] = FILL);
        let payload = agree(DType::I64, &[4096], &raw(&values), FAST, "samples");
        assert_eq!(is_masked(&payload), masks, "{n_samples} samples");
    }
    // Two candidate words: `FILL` is more frequent and occurs earlier, `other` is among the first
    // samples.
    let other = FILL + 1;
    for (n_samples, word) in [(4, other), (5, FILL)] {
        let mut values = with_gaps(4096, |i| i % 128 > 50);
        (0..4096).filter(|i| (20..=50).contains(&(i % 128))).for_each(|i| values[i] = other);
        values[1] = FILL;
        (0..4).for_each(|j| values[sample(j)] = other);
        (0..n_samples).for_each(|j| values[sample(j + 10)] = FILL);
        let payload = agree(DType::I64, &[4096], &raw(&values), FAST, "two words");
        assert!(is_masked(&payload));
        assert_eq!(payload[BLOCK + 16..][..8], word.to_le_bytes(), "{n_samples} samples");
    }
}

/// With two values, one is masked, and nothing remains of the other.
#[test]
fn two_values_are_the_defined_ones() {
    for &dtype in dtypes() {
        for log2 in [FAST, DENSE] {
            for (first, second) in [(0, 0x41), (0x41, 0), (0xff, 0x41)] {
                let size = dtype.size().unwrap() as usize;
                let raw = [vec![first; 40 * 64 * size], vec![second; 84 * 64 * size]].concat();
                let payload = agree(dtype, &[124, 64], &raw, log2, "two values");
                // The shortest coder depends on how the mask is padded.
                let nothing = match payload[BLOCK] {
                    HUFF if log2 == DENSE => [0, 0, 0, 0x80],
                    SPLIT => [0; 4],
                    coder => {
                        assert_eq!(coder, SPARSE);
                        [0, 0, 0, 1]
                    }
                };
                assert!(is_masked(&payload));
                let word_bytes = if size < 8 { 4 } else { 8 };
                let bitmap = usize::from(payload[BLOCK + 16 + word_bytes + 2]);
                let mask = (word_bytes + 4 + bitmap).next_multiple_of(8);
                assert_eq!(payload[BLOCK + 16 + mask..][..4], nothing);
            }
        }
    }
}
