//! Lanes of HUFF in blocks of level `dense`, where a lane's numbers and its string share shared
//! memory.
//!
//! A lane's string is copied to the end of the lane's output, and is read while the numbers
//! overwrite it. 64-bit numbers with 7-bit symbol codes have strings longer than the numbers
//! themselves, so near the end of the lane, the numbers overtake the string.

use gridz::{ByteOrder, Context, DType, Request};

use crate::arrays::{Random, array};
use crate::batch::{Batch, Layout};
use crate::common::compress;
use crate::driver::Stream;
use crate::has_gpu;

const BLOCK: usize = 1 << 13;
/// Number of numbers in a lane.
const LANE: usize = BLOCK / 32;

/// Alternating runs of short and of longer random numbers; in some lanes, `n_long` numbers of 64
/// bits near the end.
fn block(random: &mut Random, n_long: usize, every: usize, skipped: usize) -> Vec<u8> {
    let number = |random: &mut Random, i: usize| {
        let (lane, left) = (i / LANE, LANE - i % LANE);
        if lane % every == every - 1 && left > skipped && left <= skipped + n_long {
            return 1 << 63 | random.word() >> 3;
        }
        let bits = if (i / 32).is_multiple_of(2) { 4 } else { 12 + random.below(9) as u32 };
        (random.word() >> (64 - bits)).wrapping_sub(1 << (bits - 1))
    };
    (0..BLOCK).flat_map(|i| number(random, i).to_le_bytes()).collect()
}

#[test]
fn numbers_that_overtake_their_string() {
    let dense = Request::new(2, 2).unwrap();
    let array = array(DType::I64, ByteOrder::Little, &[BLOCK as u64]);
    let mut random = Random::new(6);
    let mut chunks = Vec::new();
    for n_long in [4, 8, 12, 16, 17, 20, 24, 32, 48] {
        for every in [4, 8, 16, 31] {
            for skipped in [0, 1, 2, 4] {
                chunks.push(block(&mut random, n_long, every, skipped));
            }
        }
    }
    let n_huff = chunks.iter().filter(|raw| {
        let frame = compress(&array, &dense, raw, &crate::cpu());
        gridz::count_blocks(&frame, &Context::default()).unwrap().entropy == 1
    });
    assert_eq!(n_huff.count(), chunks.len(), "blocks that are not by HUFF");
    if !has_gpu("numbers_that_overtake_their_string") {
        return;
    }
    let stream = Stream::new();
    Batch::new(&stream, array, &dense, Layout::of(chunks.len())).check(&chunks, "long numbers at the end of lanes");
}
