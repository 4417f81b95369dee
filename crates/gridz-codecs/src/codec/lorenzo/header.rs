//! The header of a block: its coder, and the meaning of its numbers.

use crate::codec::BlockCounts;
use crate::codec::lorenzo::layout::UNIT;
use crate::codec::lorenzo::{decimal, dict, map};
use crate::error::{Error, ErrorKind, Result};
use crate::stage::predict::{MAX_ORDER, Orders};
use crate::stage::word::Word;

pub const RAW: u8 = 0;
pub const CONST: u8 = 1;
pub const SPLIT: u8 = 2;
pub const HUFF: u8 = 3;
pub const SPARSE: u8 = 4;

pub const BITS: u8 = 0;
pub const FIXED: u8 = 1;
pub const DICT: u8 = 2;
pub const DECIMAL: u8 = 3;
pub const CUT: u8 = 4;

/// The bit of byte 3 that says that a mask follows.
const MASKED: u8 = 1;

/// The meaning of a block's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning<W> {
    /// Differences of an integer map: the map's parameter, orders and base, and whether a mask
    /// precedes them.
    Differences { map: u8, unit: u16, orders: Orders, base: W, is_masked: bool },
    /// Indices into a dictionary. The number is the shift: the trailing zero bits that all words
    /// share.
    Dictionary(u16, dict::Fields<W>),
}

/// Writes the header of a block whose numbers follow.
pub fn emit<W: Word>(out: &mut [u8], coder: u8, meaning: Meaning<W>) {
    out[..UNIT].fill(0);
    let (map, base) = match meaning {
        Meaning::Differences { map, unit, orders: [oz, oy, ox], base, is_masked } => {
            out[1] = ox | oy << 4;
            out[2] = oz;
            out[3] = if is_masked { MASKED } else { 0 };
            out[4..6].copy_from_slice(&unit.to_le_bytes());
            (map, base)
        }
        Meaning::Dictionary(shift, fields) => {
            out[1..4].copy_from_slice(&[fields.low_bits, fields.delta_bits, fields.delta_shift]);
            out[4..6].copy_from_slice(&shift.to_le_bytes());
            out[6..8].copy_from_slice(&fields.n_entries.to_le_bytes());
            (DICT, fields.base)
        }
    };
    out[0] = coder | map << 4;
    base.write(&mut out[8..]);
}

/// Returns the coder and, if numbers follow, their meaning.
pub fn parse<W: Word>(header: &[u8; UNIT]) -> Result<(u8, Option<Meaning<W>>, W)> {
    let newer = || {
        let text = "a lorenzo block is of an unknown kind; a newer gridz may read this data";
        Error::new(ErrorKind::UnsupportedFormat, text)
    };
    let damage = || Error::corrupt("a lorenzo block is damaged: its header is invalid");
    let (coder, map) = (header[0] % 16, header[0] / 16);
    let pair = |k: usize| u16::from_le_bytes([header[k], header[k + 1]]);
    let base = W::read(&header[8..]);
    if header[8 + W::BYTES..].iter().any(|&byte| byte != 0) {
        return Err(newer());
    }
    let meaning = match (coder, map) {
        (RAW | CONST, BITS) => {
            if header[1..8].iter().any(|&byte| byte != 0) || (coder == RAW && base != W::default()) {
                return Err(newer());
            }
            None
        }
        (SPLIT | HUFF | SPARSE, BITS | FIXED | DECIMAL | CUT) => {
            if header[1] & 0x88 != 0 || header[2] > MAX_ORDER || header[3] & !MASKED != 0 || pair(6) != 0 {
                return Err(newer());
            }
            let unit = pair(4);
            let is_sound = match map {
                BITS => u32::from(unit) < W::BITS,
                FIXED => unit > 0,
                CUT => unit > 0 && u32::from(unit) < map::special::<W>(),
                _ => (1..=decimal::MAX_DIGITS).contains(&unit.into()),
            };
            if !is_sound {
                return Err(damage());
            }
            let orders = [header[2], header[1] >> 4, header[1] & 7];
            Some(Meaning::Differences { map, unit, orders, base, is_masked: header[3] == MASKED })
        }
        (SPLIT, DICT) => {
            if u32::from(pair(4)) >= W::BITS {
                return Err(damage());
            }
            let [_, low_bits, delta_bits, delta_shift, ..] = *header;
            let fields = dict::Fields { low_bits, delta_bits, delta_shift, n_entries: pair(6), base };
            Some(Meaning::Dictionary(pair(4), fields))
        }
        _ => return Err(newer()),
    };
    Ok((coder, meaning, base))
}

/// Counts a block by its kind.
///
/// # Errors
/// As [`parse`], except for checks that depend on the bits of a word.
pub fn count(bytes: &[u8], counts: &mut BlockCounts) -> Result<()> {
    let header = bytes
        .first_chunk()
        .ok_or_else(|| Error::corrupt("a lorenzo block is damaged: its header is incomplete"))?;
    // Headers of all word sizes differ only in the values in them.
    let (coder, meaning, _) = parse::<u64>(header)?;
    counts.all += 1;
    match coder {
        RAW => counts.raw += 1,
        CONST => counts.constant += 1,
        SPLIT => counts.packed += 1,
        SPARSE => counts.sparse += 1,
        _ => counts.entropy += 1,
    }
    match meaning {
        Some(Meaning::Differences { map, is_masked, .. }) => {
            counts.fixed_point += u64::from(map == FIXED);
            counts.decimal += u64::from(map == DECIMAL);
            counts.cut += u64::from(map == CUT);
            counts.masked += u64::from(is_masked);
        }
        Some(Meaning::Dictionary(..)) => counts.dictionary += 1,
        None => {}
    }
    Ok(())
}
