//! SPARSE: few numbers that are not 0.

use gridz::DType;

use super::{FAST, agree, agree_on_all, dtypes};
use crate::common::generate::Xorshift;
use crate::lorenzo::{SPARSE, SPLIT, data};

#[test]
fn payloads_of_jumps_are_the_defined_ones() {
    let extents: [&[u64]; 8] =
        [&[60], &[1060], &[9000], &[3000, 4], &[1100, 8], &[2000, 3], &[100, 90], &[18, 20, 22]];
    let seen = agree_on_all(data::jumps::bytes, dtypes(), &extents, 1200);
    for what in ["coder 4 map 0", "coder 4 map 1", "coder 4 map 3"] {
        assert!(seen.contains_key(what), "no block is {what}: {seen:#?}");
    }
}

/// A group with more than 15 numbers of 16 that are not 0 is one too many.
#[test]
fn one_dense_group_is_enough_as_defined() {
    for (n_zeros, coder) in [(64, SPARSE), (63, SPLIT)] {
        let mut random = Xorshift::new(1);
        let mut height = 0i64;
        let mut next = |i: usize| {
            height += match i {
                1024..2048 if i - 1024 >= n_zeros => random.next() as i64 >> 24,
                // Jumps, so that no value is there often.
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
