//! One block: its header, and the choice of what codes it best.

use crate::codec::BlockCounts;
use crate::codec::lorenzo::layout::{Layout, UNIT};
use crate::codec::lorenzo::params::Mode;
use crate::codec::lorenzo::predict::{self, MAX_ORDER, Orders};
use crate::codec::lorenzo::word::{Element, Word};
use crate::codec::lorenzo::{dict, huff, map, split};
use crate::error::{Error, ErrorKind, Result};

const RAW: u8 = 0;
const CONST: u8 = 1;
const SPLIT: u8 = 2;
const HUFF: u8 = 3;

const BITS: u8 = 0;
const FIXED: u8 = 1;
const DICT: u8 = 2;

/// A block's numbers while it is coded. Longer than the block, so that the last row of a group is whole and nothing need
/// be allocated for other blocks.
pub struct Work<W> {
    /// The elements as words, then their numbers.
    pub words: Vec<W>,
    /// Numbers by another map.
    other: Vec<W>,
    /// A row.
    row: Vec<W>,
}

impl<W: Word> Work<W> {
    /// For the blocks of a layout.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(layout: &Layout) -> Result<Self> {
        let n = layout.block_elements().next_multiple_of(split::LANES) + split::LANES;
        let words = || {
            let mut words = Vec::new();
            let bytes = (n * W::BYTES) as u64;
            words.try_reserve_exact(n).map_err(|_| Error::out_of_memory(bytes, "a block"))?;
            words.resize(n, W::default());
            Ok(words)
        };
        Ok(Self { words: words()?, other: words()?, row: words()? })
    }
}

/// What the numbers of a block mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning<W> {
    /// Differences of an integer map: its parameter, orders and base.
    Differences { map: u8, unit: u16, orders: Orders, base: W },
    /// Indices into a dictionary, with t.
    Dictionary(u16, dict::Fields<W>),
}

/// Writes the header of a block whose numbers follow.
fn emit_header<W: Word>(out: &mut [u8], coder: u8, meaning: Meaning<W>) {
    out[..UNIT].fill(0);
    let (map, base) = match meaning {
        Meaning::Differences { map, unit, orders: [oz, oy, ox], base } => {
            out[1] = ox | oy << 4;
            out[2] = oz;
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

/// The coder and, where numbers follow, their meaning.
fn parse_header<W: Word>(header: &[u8; UNIT]) -> Result<(u8, Option<Meaning<W>>, W)> {
    let newer = || {
        let text = "a lorenzo block is of a kind unknown to this version; a newer gridz may read this data";
        Error::new(ErrorKind::UnsupportedFormat, text)
    };
    let damage = || Error::corrupt("a lorenzo block has an impossible header");
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
        (SPLIT | HUFF, BITS | FIXED) => {
            if header[1] & 0x88 != 0 || header[2] > MAX_ORDER || header[3] != 0 || pair(6) != 0 {
                return Err(newer());
            }
            let unit = pair(4);
            if (map == BITS && u32::from(unit) >= W::BITS) || (map == FIXED && unit == 0) {
                return Err(damage());
            }
            Some(Meaning::Differences { map, unit, orders: [header[2], header[1] >> 4, header[1] & 7], base })
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

/// Encodes the block of this shape whose words are in `work` to the start of `out`, which has room for any; bytes of the
/// result, a multiple of [`UNIT`].
#[inline(always)]
pub fn encode<W: Word>(
    work: &mut Work<W>,
    shape: [usize; 3],
    element: Element,
    mode: Mode,
    out: &mut [u8],
) -> usize {
    let n: usize = shape.iter().product();
    let raw_bytes = UNIT + (n * element.bytes).next_multiple_of(UNIT);
    let Work { words, other, row } = work;
    let first = words[0];
    let (mut all, mut differing) = (W::default(), W::default());
    for &word in &words[..n] {
        all |= word;
        differing |= word ^ first;
    }
    if differing == W::default() {
        out[..UNIT].fill(0);
        out[0] = CONST;
        first.write(&mut out[8..]);
        return UNIT;
    }
    let shift = all.trailing_zeros();
    // Words of one sign and exponent are the same numbers in both maps, up to a constant.
    let is_fixed_better = element.is_float && differing >> W::FRACTION_BITS != W::default();
    let unit = if is_fixed_better { map::to_fixed(&words[..n], &mut other[..n]) } else { None };
    if shift > 0 {
        words[..n].iter_mut().for_each(|word| *word = word.shift_signed(shift));
    }

    let is_dense = mode == Mode::Dense;
    let mut best = predict::choose(&words[..n], shape, is_dense, row);
    let (mut map, mut map_unit) = (BITS, shift);
    if let Some(unit) = unit {
        let prediction = predict::choose(&other[..n], shape, is_dense, row);
        if prediction.cost < best.cost {
            (best, map, map_unit) = (prediction, FIXED, unit);
        }
    }
    if map == BITS {
        other[..n].copy_from_slice(&words[..n]);
    }
    predict::apply(&mut other[..n], shape, best.orders, best.base);
    other[n..n.next_multiple_of(split::LANES)].fill(W::default());
    let meaning = Meaning::Differences { map, unit: map_unit as u16, orders: best.orders, base: best.base };

    let mut n_bytes = raw_bytes;
    if is_dense {
        let coding = huff::Coding::choose(&other[..n]);
        let need = padded(coding.n_bytes());
        if need < n_bytes {
            n_bytes = need;
            emit_header(out, HUFF, meaning);
            fill(out, coding.n_bytes());
            coding.write(&other[..n], &mut out[UNIT..UNIT + coding.n_bytes()]);
        }
        if let Some(coding) = dict::Coding::choose(&words[..n], other, n_bytes) {
            let need = padded(coding.n_bytes());
            if need < n_bytes {
                n_bytes = need;
                emit_header(out, SPLIT, Meaning::Dictionary(shift as u16, coding.fields));
                fill(out, coding.n_bytes());
                coding.write(other, &mut out[UNIT..UNIT + coding.n_bytes()]);
            }
        }
    } else {
        let coding = split::Coding::choose(other, n);
        let need = padded(coding.n_bytes());
        if need < n_bytes {
            n_bytes = need;
            emit_header(out, SPLIT, meaning);
            fill(out, coding.n_bytes());
            coding.write(other, &mut out[UNIT..UNIT + coding.n_bytes()]);
        }
    }
    if n_bytes == raw_bytes {
        out[..UNIT].fill(0);
        words[..n].iter_mut().for_each(|word| *word = *word << shift);
        fill(out, n * element.bytes);
        element.store(&words[..n], &mut out[UNIT..raw_bytes]);
    }
    n_bytes
}

/// Bytes of a block whose header so many bytes follow.
fn padded(n_bytes: usize) -> usize {
    UNIT + n_bytes.next_multiple_of(UNIT)
}

/// Writes the zeros behind them.
fn fill(out: &mut [u8], n_bytes: usize) {
    out[UNIT + n_bytes..padded(n_bytes)].fill(0);
}

/// Decodes the block of this shape in `bytes` to the words at the start of `work`.
///
/// # Errors
/// `Corrupt`, or `UnsupportedFormat` for blocks that only a later version can have written.
#[inline(always)]
pub fn decode<W: Word>(work: &mut Work<W>, shape: [usize; 3], element: Element, bytes: &[u8]) -> Result<()> {
    let n: usize = shape.iter().product();
    let damage = || Error::corrupt("a lorenzo block is not as long as its contents");
    let (header, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
    let (coder, meaning, base) = parse_header::<W>(header)?;
    let words = &mut work.words;
    let n_bytes = match (coder, meaning) {
        (RAW, _) => {
            let n_bytes = n * element.bytes;
            element.load(rest.get(..n_bytes).ok_or_else(damage)?, &mut words[..n]);
            n_bytes
        }
        (_, Some(Meaning::Differences { map, unit, orders, base })) => {
            let n_bytes = match coder {
                SPLIT => split::read(rest, n, words)?,
                _ => huff::read(rest, &mut words[..n])?,
            };
            predict::undo(&mut words[..n], shape, orders, base);
            match map {
                FIXED if !element.is_float => {
                    return Err(Error::corrupt("a lorenzo block has floats where integers are"));
                }
                FIXED => map::from_fixed(&mut words[..n], unit.into())?,
                _ => words[..n].iter_mut().for_each(|word| *word = *word << unit.into()),
            }
            n_bytes
        }
        (_, Some(Meaning::Dictionary(shift, fields))) => {
            let n_bytes = dict::read(&fields, rest, n, words)?;
            words[..n].iter_mut().for_each(|word| *word = *word << shift.into());
            n_bytes
        }
        (_, None) => {
            words[..n].fill(base);
            0
        }
    };
    if padded(n_bytes) == bytes.len() { Ok(()) } else { Err(damage()) }
}

/// Counts a block by its kind.
///
/// # Errors
/// As [`decode`], for the header.
pub fn count(bytes: &[u8], counts: &mut BlockCounts) -> Result<()> {
    let header = bytes.first_chunk().ok_or_else(|| Error::corrupt("a lorenzo block has no header"))?;
    // Whatever W is, headers are alike but for the values in them.
    let (coder, meaning, _) = parse_header::<u64>(header)?;
    counts.all += 1;
    match coder {
        RAW => counts.raw += 1,
        CONST => counts.constant += 1,
        SPLIT => counts.packed += 1,
        _ => counts.entropy += 1,
    }
    match meaning {
        Some(Meaning::Differences { map: FIXED, .. }) => counts.fixed_point += 1,
        Some(Meaning::Dictionary(..)) => counts.dictionary += 1,
        _ => {}
    }
    Ok(())
}
