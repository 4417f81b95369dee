//! What `simd` has for each level of instructions, where there is none but that which every CPU has.

use crate::codec::lorenzo::block::{Source, Target, Work};
use crate::codec::lorenzo::rows::Portable;
pub use crate::codec::lorenzo::word::Word;
use crate::codec::lorenzo::{Chunk, decode_block, encode_block};
use crate::cpu::level::Level;
use crate::error::Result;

pub fn encode<W: Word>(
    _: Level,
    work: &mut Work<W>,
    chunk: &Chunk,
    source: &Source,
    shape: [usize; 3],
    out: &mut [u8],
) -> usize {
    encode_block(Portable, work, chunk, source, shape, out)
}

pub fn decode<W: Word>(
    _: Level,
    work: &mut Work<W>,
    chunk: &Chunk,
    shape: [usize; 3],
    bytes: &[u8],
    target: &mut Target,
) -> Result<()> {
    decode_block(Portable, work, chunk, shape, bytes, target)
}
