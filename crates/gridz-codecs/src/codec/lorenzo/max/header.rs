//! The header of a block.

use crate::codec::lorenzo::decimal::MAX_DIGITS;
use crate::codec::lorenzo::map::special;
use crate::codec::lorenzo::max::map::{BITS, CUT, DECIMAL, RANKS};
use crate::codec::lorenzo::max::predict::N;
use crate::error::{Error, ErrorKind, Result};
use crate::stage::predict::{MAX_ORDER, Orders};
use crate::stage::word::Word;

/// Bytes of a header.
pub const BYTES: usize = 32;

const RAW: u8 = 0;
const CONST: u8 = 1;
/// A layout that was never released; no decoder reads it.
const WITHDRAWN: u8 = 2;
const CODED: u8 = 3;

/// The content of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header<W> {
    /// The elements, verbatim.
    Raw,
    /// A single word.
    Constant(W),
    /// Numbers.
    Coded(Plan<W>),
}

/// The coding of a block's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan<W> {
    pub map: u8,
    /// BITS: the shift. CUT: the exponent. DECIMAL: digits.
    pub unit: u32,
    /// The word of masked elements.
    pub mask: Option<W>,
    pub looks_back: bool,
    /// The set of active predictions.
    pub active: u16,
    pub orders: Orders,
    /// RANKS: the number of distinct words.
    pub n_ranks: u32,
}

impl<W: Word> Header<W> {
    /// Writes the header.
    pub fn emit(&self, out: &mut [u8]) {
        out[..BYTES].fill(0);
        match self {
            Self::Raw => {}
            Self::Constant(word) => {
                out[0] = CONST;
                word.write(&mut out[16..]);
            }
            Self::Coded(plan) => {
                out[..3].copy_from_slice(&[
                    CODED,
                    plan.map,
                    u8::from(plan.mask.is_some()) | u8::from(plan.looks_back) << 1,
                ]);
                out[4..6].copy_from_slice(&(plan.unit as u16).to_le_bytes());
                out[6..8].copy_from_slice(&plan.active.to_le_bytes());
                out[8] = plan.orders[2] | plan.orders[1] << 4;
                out[9] = plan.orders[0];
                out[12..16].copy_from_slice(&plan.n_ranks.to_le_bytes());
                plan.mask.unwrap_or_default().write(&mut out[16..]);
            }
        }
    }

    /// Parses a header.
    ///
    /// # Errors
    /// `UnsupportedFormat` for a header that a later version may have written; `Corrupt`.
    pub fn parse(header: &[u8; BYTES], is_float: bool) -> Result<Self> {
        let newer = || {
            let text = "a lorenzo block is of an unknown kind; a newer gridz may read this data";
            Error::new(ErrorKind::UnsupportedFormat, text)
        };
        let zero = |from: usize, to: usize| header[from..to].iter().all(|&byte| byte == 0);
        let pair = |k: usize| u16::from_le_bytes([header[k], header[k + 1]]);
        let word = W::read(&header[16..]);
        if !zero(16 + W::BYTES, BYTES) {
            return Err(newer());
        }
        match header[0] {
            RAW if zero(1, BYTES) => Ok(Self::Raw),
            CONST if zero(1, 16) => Ok(Self::Constant(word)),
            CODED if header[1] <= RANKS && header[2] < 4 && header[3] == 0 && zero(10, 12) => {
                let orders = [header[9], header[8] >> 4, header[8] & 15];
                let [map, flags] = [header[1], header[2]];
                let (unit, active) = (u32::from(pair(4)), pair(6));
                let n_ranks = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
                if orders.iter().any(|&order| order > MAX_ORDER) || active >> N != 0 {
                    return Err(newer());
                }
                let is_sound = match map {
                    BITS => unit < W::BITS,
                    CUT => is_float && unit > 0 && unit < special::<W>(),
                    DECIMAL => is_float && (1..=MAX_DIGITS).contains(&unit),
                    _ => unit == 0,
                };
                let is_masked = flags & 1 == 1;
                if !is_sound || active == 0 || (map == RANKS) != (n_ranks > 0) || !is_masked && word != W::default()
                {
                    return Err(Error::corrupt("a lorenzo block is damaged: its header is invalid"));
                }
                let mask = is_masked.then_some(word);
                Ok(Self::Coded(Plan { map, unit, mask, looks_back: flags & 2 == 2, active, orders, n_ranks }))
            }
            WITHDRAWN => Err(Error::corrupt(
                "a lorenzo block is of a kind that no release has written; compress the data again",
            )),
            _ => Err(newer()),
        }
    }
}
