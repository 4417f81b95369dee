//! Frames of `quant` at level dense that must be refused because their numbers in contexts are damaged.

use gridz::{Context, DType, ErrorKind};

use crate::common::decompress;
use crate::golden::{Damage, quant_block};

/// Where the bytes of the tails are, in a block without holes and other exceptions.
const TAILS_AT: usize = 8;
/// Contexts, elements of the block, and bits of a word.
const CONTEXTS: usize = 12;
const N: usize = 4000;
const WORD_BITS: usize = 32;

/// Each frame is valid except for the defect in its name.
pub fn rejects() -> Vec<Damage> {
    use ErrorKind::Corrupt;
    vec![
        ("contexts_tails_one_byte_more", Corrupt, || tails(|n| n + 1)),
        ("contexts_tails_one_byte_less", Corrupt, || tails(|n| n - 1)),
        ("contexts_tails_of_4_gib", Corrupt, || tails(|_| u32::MAX)),
        ("contexts_tails_cut", Corrupt, || numbers(|block| block.truncate(TAILS_AT + 3))),
        ("contexts_tables_cut", Corrupt, || numbers(|block| block.truncate(TAILS_AT + 6))),
        ("contexts_states_cut", Corrupt, || one_symbol(2 * WORD_BITS + 1, |block| block.truncate(block.len() - 4))),
        ("contexts_state_too_low", Corrupt, || {
            one_symbol(2 * WORD_BITS + 1, |block| {
                let last = block.len() - 2;
                block[last] = 0;
            })
        }),
        ("contexts_string_cut", Corrupt, || numbers(|block| block.truncate(block.len() - 4))),
        ("contexts_string_too_long", Corrupt, || one_symbol(2 * WORD_BITS + 1, |block| block.extend([0; 4]))),
        ("contexts_symbol_of_33_bits", Corrupt, || one_symbol(2 * WORD_BITS + 2, |_| ())),
    ]
}

/// A change of a block whose sections in front of its numbers are the head and the base.
fn numbers(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    quant_block("abs=1e-2,level=2", DType::F32, |block| {
        assert_eq!(block[1] >> 4, 0, "words, holes or other exceptions");
        change(block);
    })
}

/// Other bytes of the tails than there are.
fn tails(change: fn(u32) -> u32) -> Vec<u8> {
    numbers(|block| {
        let field: &mut [u8; 4] = block[TAILS_AT..].first_chunk_mut().unwrap();
        *field = change(u32::from_le_bytes(*field)).to_le_bytes();
    })
}

/// A block whose numbers all have one symbol, and zeros as their tails. All contexts share its table.
fn one_symbol(symbol: usize, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let bits_of = |value: usize, n: usize| (0..n).map(move |bit| value >> bit & 1 != 0);
    let mut table: Vec<bool> = vec![true; CONTEXTS - 1];
    table.push(false);
    // The number of symbols, and the index of the last one, which has all slots. All other symbols have none.
    table.extend(bits_of(symbol + 1, 8).chain(bits_of(symbol, 8)).chain((0..4 * symbol).map(|_| false)));
    let table = table.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit)));
    let tails = (N * (symbol / 2 - 2)).div_ceil(8);
    numbers(|block| {
        block.truncate(TAILS_AT);
        block.extend((tails as u32).to_le_bytes());
        block.extend(table);
        block.extend(vec![0; tails]);
        block.extend([0, 0, 1, 0].repeat(32));
        change(block);
    })
}

#[test]
fn the_longest_symbol_of_a_word_is_read() {
    let frame = one_symbol(2 * WORD_BITS + 1, |_| ());
    assert_eq!(decompress(&frame, &Context::default()).unwrap().len(), 4 * N);
}
