//! huffman: few and many symbols, tails, rows of zeros, differences, single codes, codes of maximal
//! length, for all lengths of blocks.

use gridz::{ByteOrder, DType};

use crate::arrays::{Random, array};
use crate::batch::{Batch, Layout};
use crate::driver::Stream;
use crate::{has_gpu, n_cases};

const TYPES: [DType; 6] = [DType::U8, DType::U16, DType::U32, DType::I8, DType::I16, DType::I32];

/// The bits of `n` numbers of a random kind, for elements of `bits` bits.
fn numbers(n: usize, bits: u32, random: &mut Random) -> Vec<u32> {
    let spread = random.pick(&[1, 2, 5, 9, 16, 32]);
    let base = random.pick(&[0, 1, 1000, 70_000, u64::from(u32::MAX)]);
    let mut walk = base;
    let kind = random.below(9);
    let (mut fibonacci, mut left) = ((1_u64, 1_u64), 1_u64);
    let mut symbol = 0;
    (0..n)
        .map(|i| {
            let any = random.word() >> 32;
            let falling = any >> (32 - bits) >> random.below(spread).min(bits as usize - 1);
            let number = match kind {
                // Many short numbers.
                0 | 1 => falling,
                // Alternating signs.
                2 => {
                    if any & 1 == 1 {
                        falling.wrapping_neg()
                    } else {
                        falling
                    }
                }
                // Similar neighbors.
                3 => {
                    walk = walk.wrapping_add(falling >> (bits / 2)).wrapping_sub(3);
                    walk
                }
                // Rows of zeros.
                4 => {
                    if i / 200 % 5 == 2 || i / 3000 % 3 == 1 {
                        falling
                    } else {
                        0
                    }
                }
                // One symbol in nearly all blocks.
                5 => {
                    if i == n / 2 {
                        base + 1
                    } else {
                        base
                    }
                }
                // All symbols equally often.
                6 => i as u64,
                // Fibonacci counts, so that codes get long.
                7 => {
                    if left == 0 {
                        fibonacci = (fibonacci.1, fibonacci.0 + fibonacci.1);
                        (left, symbol) = (fibonacci.0, symbol + 1);
                    }
                    left -= 1;
                    symbol
                }
                // White noise.
                _ => any,
            };
            number as u32
        })
        .collect()
}

#[test]
fn numbers_of_all_kinds() {
    if !has_gpu("numbers_of_all_kinds") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(81);
    let spec = "huffman".parse().unwrap();
    let n_cases = n_cases(300);
    for case in 0..n_cases as usize {
        let dtype = TYPES[case % TYPES.len()];
        let order = if random.once_in(4) { ByteOrder::Big } else { ByteOrder::Little };
        // Lengths near multiples of rows and of blocks.
        let around =
            random.pick(&[1, 32, 1024, 4096, 1 << 15, 1 << 16, if n_cases < 20 { 40_000 } else { 150_000 }]);
        let n = (around + random.below(40)).saturating_sub(random.below(40)).max(1);
        let array = array(dtype, order, &[n as u64]);
        let bytes = array.element_size() as usize;
        let n_chunks = random.pick(&[1, 1, 2, 5]);
        let layout = Layout { shift: if random.once_in(3) { random.below(4) } else { 0 }, ..Layout::of(n_chunks) };
        let chunks: Vec<Vec<u8>> = (0..n_chunks)
            .map(|_| {
                let numbers = numbers(n, 8 * bytes as u32, &mut random);
                let little = numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(bytes));
                let mut raw: Vec<u8> = little.collect();
                if order == ByteOrder::Big {
                    raw.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
                }
                raw
            })
            .collect();
        let what = format!("case {case}: {dtype:?} {order:?} {n} {layout:?}");
        Batch::new(&stream, array, &spec, layout).check(&chunks, &what);
    }
}
