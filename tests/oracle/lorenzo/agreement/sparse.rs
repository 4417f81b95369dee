//! The coder SPARSE: few nonzero numbers.

use gridz::DType;

use super::{FAST, agree, agree_on_all, dtypes};
use crate::common::generate::Xorshift;
use crate::lorenzo::{SPARSE, SPLIT, data};

#[test]
fn payloads_of_jumps_are_the_defined_ones() {
    let extents: [&[u64]; 8] =
        [&[60], &[1060], &[9000], &[3000, 4], &[1100, 8], &[2000, 3], &[100, 90], &[18, 20, 22]];
    let seen = agree_on_all(data::jumps::bytes, dtypes(), &extents, 1200);
    for what in ["coder 4 map 0, list", "coder 4 map 0, marks", "coder 4 map 1, list", "coder 4 map 3, list"] {
        assert!(seen.contains_key(what), "no block is {what}: {seen:#?}");
    }
}

/// SPARSE is not used if one group has more than 15 nonzero numbers in 16.
#[test]
fn one_dense_group_is_enough_as_defined() {
    for (n_zeros, coder) in [(64, SPARSE), (63, SPLIT)] {
        let mut random = Xorshift::new(1);
        let mut height = 0i64;
        let mut next = |i: usize| {
            height += match i {
                1024..2048 if i - 1024 >= n_zeros => random.next() as i64 >> 24,
                // Jumps, so that no value is frequent.
                _ if i % 200 == 199 => 1 << 20,
                _ => 0,
            };
            height
        };
        let raw: Vec<u8> = (0..4096).map(&mut next).flat_map(|height| height.to_le_bytes()).collect();
        let payload = agree(DType::I64, &[4096], &raw, FAST, "a dense group");
        assert_eq!((payload[16], payload[17], payload[19]), (coder, 1, 0), "{n_zeros} zeros");
    }
}

/// A list has at most 256 numbers.
#[test]
fn lists_are_as_long_as_defined() {
    for (n_jumps, is_list) in [(256, true), (257, false)] {
        let mut height = 1i64;
        let mut next = |i: usize| {
            // The jumps differ in size, and most are small: so a list is shorter than a bitmap with
            // the same number of bits for each number.
            height += if i % 15 == 7 && i / 15 < n_jumps { 1 + ((i as i64 / 15) << (i % 4)) } else { 0 };
            height += if i == 22 { 1 << 50 } else { 0 };
            height
        };
        let raw: Vec<u8> = (0..4096).map(&mut next).flat_map(|height| height.to_le_bytes()).collect();
        let payload = agree(DType::I64, &[4096], &raw, FAST, "jumps");
        // The bitmap form is longer than SPLIT.
        assert_eq!(payload[16] == SPARSE, is_list, "{n_jumps} jumps");
    }
}
