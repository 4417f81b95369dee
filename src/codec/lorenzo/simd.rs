//! The loops of this codec, compiled once for each level of instructions.
//!
//! They are written so that a compiler makes vector instructions of them; what it cannot find by itself is in
//! [`lanes`](super::lanes).

#![allow(unsafe_code)] // functions that need instructions of the CPU

use crate::codec::Encoded;
use crate::codec::lorenzo::word::Word;
use crate::codec::lorenzo::{Chunk, Sections, Strip};
use crate::cpu::level::Level;
use crate::error::Result;
use crate::format::checksum::Sums;
use crate::settings::CpuLevel;

macro_rules! level {
    ($name:ident, $features:literal) => {
        mod $name {
            use super::*;

            #[target_feature(enable = $features)]
            pub fn encode<W: Word>(
                chunk: &Chunk,
                src: &[u8],
                first_block: usize,
                table: &mut [u8],
                out: &mut [u8],
            ) -> Result<Encoded> {
                crate::codec::lorenzo::encode_blocks::<W>(chunk, src, first_block, table, out)
            }

            #[target_feature(enable = $features)]
            pub fn decode<W: Word>(
                chunk: &Chunk,
                sections: &Sections,
                verify: bool,
                strips: &mut [Strip],
            ) -> Result<Sums> {
                crate::codec::lorenzo::decode_blocks::<W>(chunk, sections, verify, strips)
            }
        }
    };
}

level!(avx2, "avx2,bmi1,bmi2,lzcnt,popcnt");
level!(
    avx512,
    "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,gfni"
);

/// Encodes blocks with the instructions of a level.
pub fn encode_blocks<W: Word>(
    level: Level,
    chunk: &Chunk,
    src: &[u8],
    first_block: usize,
    table: &mut [u8],
    out: &mut [u8],
) -> Result<Encoded> {
    match level.kind() {
        CpuLevel::Scalar => super::encode_blocks::<W>(chunk, src, first_block, table, out),
        // SAFETY: a `Level` is proof that the CPU has its instructions.
        CpuLevel::Avx2 => unsafe { avx2::encode::<W>(chunk, src, first_block, table, out) },
        // SAFETY: as above.
        CpuLevel::Avx512 => unsafe { avx512::encode::<W>(chunk, src, first_block, table, out) },
    }
}

/// Decodes strips with the instructions of a level.
pub fn decode_blocks<W: Word>(
    level: Level,
    chunk: &Chunk,
    sections: &Sections,
    verify: bool,
    strips: &mut [Strip],
) -> Result<Sums> {
    match level.kind() {
        CpuLevel::Scalar => super::decode_blocks::<W>(chunk, sections, verify, strips),
        // SAFETY: a `Level` is proof that the CPU has its instructions.
        CpuLevel::Avx2 => unsafe { avx2::decode::<W>(chunk, sections, verify, strips) },
        // SAFETY: as above.
        CpuLevel::Avx512 => unsafe { avx512::decode::<W>(chunk, sections, verify, strips) },
    }
}
