//! What `simd` has for each level of instructions, where there is none but that which every CPU has.

use crate::codec::Encoded;
use crate::codec::lorenzo::block::{Source, Target, Work};
use crate::codec::lorenzo::rows::Portable;
pub use crate::codec::lorenzo::word::Word;
use crate::codec::lorenzo::{Chunk, Sections, decode_block, encode_block};
use crate::cpu::level::Level;
use crate::error::Result;
use crate::format::checksum::Sums;

pub fn encode<W: Word>(
    _: Level,
    work: &mut Work<W>,
    chunk: &Chunk,
    source: &Source,
    shape: [usize; 3],
    out: &mut [u8],
) -> Encoded {
    encode_block(Portable, work, chunk, source, shape, out)
}

pub fn decode<W: Word>(
    _: Level,
    work: &mut Work<W>,
    chunk: &Chunk,
    sections: &Sections,
    index: usize,
    verify: bool,
    target: &mut Target,
) -> Result<Sums> {
    decode_block(Portable, work, chunk, sections, index, verify, target)
}
