//! Lists of numbers, in one of three forms: one width for all, one width per 32 numbers, or an
//! entropy code.
//!
//! ```text
//! u8 form | u8 width | u8 words of the least number | u8 0 | the least number, widths | fields, or a section | zeros to 4 bytes
//! ```
//!
//! 32 numbers of w bits take w 32-bit words, so each row of 32 begins at a word, whatever the
//! widths are.

use crate::cpu::isa::Isa;
use crate::cpu::thread_cache::bytes_of;
use crate::error::{Error, Result, try_vec};
use crate::stage::entropy::lanes::LANES;
use crate::stage::entropy::section::{self, Coding};
use crate::stage::rows::{Simd, WithSimd, dispatch, outlined};
use crate::stage::word::Word;

/// The forms of a list.
const FIXED: u8 = 0;
const ROWS: u8 = 1;
const CODES: u8 = 2;
/// Bytes of a list's head. The length of a list is a multiple of this.
const HEAD: usize = 4;
const WORD_BYTES: usize = 4;
/// Shorter lists do not pay for the table of an entropy code.
const LEAST_CODES: usize = 64;

/// Scratch memory for lists.
pub struct Work {
    /// Numbers of a section, padded to whole rows.
    numbers: Vec<u32>,
    section: section::Work<u32>,
}

impl Work {
    /// Allocates for lists of up to `n` numbers.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n: usize) -> Result<Self> {
        let n = n.next_multiple_of(LANES);
        let mut numbers = try_vec(n, "a block")?;
        numbers.resize(n, 0);
        Ok(Self { numbers, section: section::Work::new(n)? })
    }

    /// Bytes that this memory occupies.
    pub fn n_bytes(&self) -> usize {
        bytes_of(&self.numbers) + self.section.n_bytes()
    }
}

/// Writes consecutive lists.
pub struct Writer<'a> {
    /// Scratch memory.
    pub work: &'a mut Work,
    /// CPU level to use.
    pub level: Isa,
    /// True if lists may have an entropy code.
    pub has_codes: bool,
    /// Destination.
    pub out: &'a mut [u8],
    /// Bytes written so far.
    pub n_bytes: usize,
}

impl Writer<'_> {
    /// Writes a list. Returns `None` if it does not fit; nothing more may be written then.
    pub fn put<W: Word>(&mut self, numbers: &[W]) -> Option<()> {
        dispatch(self.level, Put { writer: self, numbers })
    }

    #[inline(always)]
    fn put_inlined<W: Word>(&mut self, numbers: &[W]) -> Option<()> {
        let n = numbers.len();
        if n == 0 {
            return Some(());
        }
        let (mut least, mut most, mut row_words) = (numbers[0], numbers[0], 0);
        for row in numbers.chunks(LANES) {
            let mut any = W::ZERO;
            for &number in row {
                (any, least, most) = (any | number, least.min(number), most.max(number));
            }
            row_words += (any.bit_length() as usize * row.len()).div_ceil(8 * WORD_BYTES);
        }
        let least_words = least.bit_length().div_ceil(8 * WORD_BYTES as u32) as usize;
        let width = most.wrapping_sub(least).bit_length();
        let fixed = WORD_BYTES * (least_words + (width as usize * n).div_ceil(8 * WORD_BYTES));
        let rows = n.div_ceil(LANES).next_multiple_of(WORD_BYTES) + WORD_BYTES * row_words;
        let shortest = fixed.min(rows);
        if self.has_codes && n >= LEAST_CODES && shortest > LEAST_CODES && most.bit_length() <= u32::BITS {
            for (to, &number) in self.work.numbers.iter_mut().zip(numbers) {
                *to = number.to_u64() as u32;
            }
            let all = &mut self.work.numbers[..n.next_multiple_of(LANES)];
            let coding = Coding::choose(all, n, &mut self.work.section, self.level);
            let n_bytes = coding.n_bytes();
            // A small gain is not worth the time that an entropy code takes.
            if n_bytes + n_bytes / 32 < shortest {
                let at = self.take([CODES, 0, 0, 0], n_bytes)?;
                let out = &mut self.out[at];
                coding.write(&self.work.numbers, &self.work.section, self.level, &mut out[..n_bytes]);
                out[n_bytes..].fill(0);
                return Some(());
            }
        }
        if fixed <= rows {
            let at = self.take([FIXED, width as u8, least_words as u8, 0], fixed)?;
            let (head, mut out) = self.out[at].split_at_mut(WORD_BYTES * least_words);
            head.copy_from_slice(&least.to_u64().to_le_bytes()[..head.len()]);
            for row in numbers.chunks(LANES) {
                out = put_row(row, least, width, out);
            }
        } else {
            let at = self.take([ROWS, 0, 0, 0], rows)?;
            let (widths, mut out) = self.out[at].split_at_mut(n.div_ceil(LANES).next_multiple_of(WORD_BYTES));
            widths.fill(0);
            for (row, to) in numbers.chunks(LANES).zip(widths) {
                let width = row.iter().fold(W::ZERO, |any, &number| any | number).bit_length();
                *to = width as u8;
                out = put_row(row, W::ZERO, width, out);
            }
        }
        Some(())
    }

    /// Writes a head, and returns the range of the following `n_bytes`, rounded up to whole words.
    fn take(&mut self, head: [u8; HEAD], n_bytes: usize) -> Option<std::ops::Range<usize>> {
        let start = self.n_bytes + HEAD;
        let end = start + n_bytes.next_multiple_of(WORD_BYTES);
        self.out.get_mut(self.n_bytes..end)?[..HEAD].copy_from_slice(&head);
        self.n_bytes = end;
        Some(start..end)
    }
}

/// [`Writer::put`], compiled for a level.
struct Put<'a, 'w, W> {
    writer: &'a mut Writer<'w>,
    numbers: &'a [W],
}

impl<W: Word> WithSimd<u32> for Put<'_, '_, W> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<S: Simd<u32>>(self, _: S) -> Option<()> {
        self.writer.put_inlined(self.numbers)
    }
}

/// Words of a row, followed by some zero words.
type RowWords = [u32; 2 * LANES + 4];

/// Writes up to 32 numbers as `width`-bit differences from `least`. Returns the rest of `out`.
#[inline(always)]
fn put_row<'o, W: Word>(row: &[W], least: W, width: u32, out: &'o mut [u8]) -> &'o mut [u8] {
    let mut bytes = [0; 8 * LANES + 8];
    match width {
        0..=16 => put_together::<W, 4>(row, least, width, &mut bytes),
        17..=32 => put_together::<W, 2>(row, least, width, &mut bytes),
        _ => put_together::<W, 1>(row, least, width, &mut bytes),
    }
    let (to, rest) = out.split_at_mut(row_bytes(width, row.len()));
    to.copy_from_slice(&bytes[..to.len()]);
    rest
}

/// Writes numbers as differences from `least`, N at a time, which together have at most 64 bits.
#[inline(always)]
fn put_together<W: Word, const N: usize>(row: &[W], least: W, width: u32, bytes: &mut [u8; 8 * LANES + 8]) {
    let (mut waiting, mut n_bits, mut at) = (0_u64, 0, 0);
    let mut put = |value: u64, n: u32| {
        waiting |= value << n_bits;
        n_bits += n;
        if n_bits >= u64::BITS {
            bytes[at..at + 8].copy_from_slice(&waiting.to_le_bytes());
            (at, n_bits) = (at + 8, n_bits - u64::BITS);
            // Nothing remains of a value whose bits were all written.
            waiting = value.checked_shr(n - n_bits).unwrap_or(0);
        }
    };
    let mut several = row.chunks_exact(N);
    for numbers in &mut several {
        let mut value = 0;
        for (k, &number) in (0..).zip(numbers) {
            value |= number.wrapping_sub(least).to_u64() << (k * width);
        }
        put(value, N as u32 * width);
    }
    for &number in several.remainder() {
        put(number.wrapping_sub(least).to_u64(), width);
    }
    bytes[at..at + 8].copy_from_slice(&waiting.to_le_bytes());
}

/// Reads a row of up to 32 numbers.
trait ReadRow<W>: Copy {
    /// Reads `width`-bit differences from the start of `bytes`, and adds `least` to each.
    fn read(self, bytes: &[u8], width: u32, least: W, row: &mut [W]);
}

/// Reads rows with the vector instructions of a CPU level.
#[derive(Clone, Copy)]
struct ByRows<S>(S);

impl<W: Word, S: Simd<W>> ReadRow<W> for ByRows<S> {
    #[inline(always)]
    fn read(self, bytes: &[u8], width: u32, least: W, row: &mut [W]) {
        let Self(s) = self;
        match bytes.get(..LANES * W::BYTES) {
            Some(bytes) if row.len() == LANES && width <= W::BITS - 7 => {
                s.store(s.add(s.unpack_bits(bytes, width), s.splat(least)), row);
            }
            _ => read_row(bytes, width, least, row),
        }
    }
}

/// Reads rows with portable code.
#[derive(Clone, Copy)]
struct OneByOne;

impl<W: Word> ReadRow<W> for OneByOne {
    #[inline(always)]
    fn read(self, bytes: &[u8], width: u32, least: W, row: &mut [W]) {
        read_row(bytes, width, least, row);
    }
}

/// Reads up to 32 numbers of `width` bits and adds `least`.
#[inline(always)]
fn read_row<W: Word>(bytes: &[u8], width: u32, least: W, row: &mut [W]) {
    let from = &bytes[..row_bytes(width, row.len())];
    let mut words: RowWords = [0; 2 * LANES + 4];
    for (word, from) in words.iter_mut().zip(from.as_chunks::<WORD_BYTES>().0) {
        *word = u32::from_le_bytes(*from);
    }
    match row.first_chunk_mut::<LANES>() {
        Some(row) if width <= 16 => unpack(&words, width, least, row),
        _ => {
            for (i, number) in row.iter_mut().enumerate() {
                *number = least.wrapping_add(field(&words, i as u32, width));
            }
        }
    }
}

/// Bytes of a row of `n` numbers of `width` bits.
#[inline(always)]
fn row_bytes(width: u32, n: usize) -> usize {
    WORD_BYTES * (width as usize * n).div_ceil(8 * WORD_BYTES)
}

/// Field `i` of `width` bits.
#[inline(always)]
fn field<W: Word>(words: &RowWords, i: u32, width: u32) -> W {
    let (k, shift) = ((i * width / 32) as usize % (2 * LANES), i * width % 32);
    let mut bits = (u64::from(words[k]) | u64::from(words[k + 1]) << 32) >> shift;
    if W::BITS > 32 {
        bits |= u64::from(words[k + 2]) << 32 << (32 - shift);
    }
    W::from_u64(bits) & W::low_mask(width)
}

/// Reads a row of numbers of up to 16 bits. Each width has its own code, so that shifts and
/// positions are constants. Never inlined, because it is long.
#[inline(never)]
fn unpack<W: Word>(words: &RowWords, width: u32, least: W, row: &mut [W; LANES]) {
    macro_rules! of_width {
        ($($width:literal)*) => {
            match width {
                $($width => (0..LANES).for_each(|i| row[i] = least.wrapping_add(field(words, i as u32, $width))),)*
                _ => row.fill(least),
            }
        };
    }
    of_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
}

/// Reads consecutive lists.
pub struct Reader<'a, 'b> {
    /// Scratch memory.
    pub work: &'a mut Work,
    /// CPU level to use.
    pub level: Isa,
    /// True if lists may have an entropy code.
    pub has_codes: bool,
    /// The bytes that have not been read.
    pub bytes: &'b [u8],
}

outlined! {
    /// Reads a list of numbers and overwrites all of `numbers`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn take<'a, 'b, 'c, W>(_s, reader: &'a mut Reader<'b, 'c>, numbers: &'a mut [u32]) -> Result<()> {
        reader.take_by(OneByOne, numbers)
    }

    /// As [`take`], with vector instructions: for long lists of words.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn take_rows<'a, 'b, 'c, W>(s, reader: &'a mut Reader<'b, 'c>, numbers: &'a mut [W]) -> Result<()> {
        reader.take_by(ByRows(s), numbers)
    }
}

impl Reader<'_, '_> {
    #[inline(always)]
    fn take_by<W: Word, R: ReadRow<W>>(&mut self, reader: R, numbers: &mut [W]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let early = || damage("too few bytes");
        let (&head, bytes) = self.bytes.split_first_chunk::<HEAD>().ok_or_else(early)?;
        match head {
            [FIXED, width, least_words @ 0..=2, 0] if u32::from(width) <= W::BITS => {
                let n_least = WORD_BYTES * usize::from(least_words);
                let (least, mut rest) = bytes.split_at_checked(n_least).ok_or_else(early)?;
                let mut all = [0; 8];
                all[..n_least].copy_from_slice(least);
                let least = u64::from_le_bytes(all);
                let most = W::low_mask(width.into()).to_u64();
                // No sum has more bits than a number can have if even the largest possible sum has
                // not; then no check per number is needed.
                let is_small = least.checked_add(most).is_some_and(|most| most <= W::low_mask(W::BITS).to_u64());
                for row in numbers.chunks_mut(LANES) {
                    let behind = rest.get(row_bytes(width.into(), row.len())..).ok_or_else(early)?;
                    reader.read(rest, width.into(), W::from_u64(least), row);
                    rest = behind;
                    if !is_small && row.iter().any(|&number| number.to_u64() < least) {
                        return Err(damage("numbers that are too large"));
                    }
                }
                self.bytes = rest;
            }
            [ROWS, 0, 0, 0] => {
                let n_widths = numbers.len().div_ceil(LANES);
                let (widths, mut rest) =
                    bytes.split_at_checked(n_widths.next_multiple_of(WORD_BYTES)).ok_or_else(early)?;
                for (row, &width) in numbers.chunks_mut(LANES).zip(widths) {
                    if u32::from(width) > W::BITS {
                        return Err(damage("invalid widths"));
                    }
                    let behind = rest.get(row_bytes(width.into(), row.len())..).ok_or_else(early)?;
                    reader.read(rest, width.into(), W::ZERO, row);
                    rest = behind;
                }
                self.bytes = rest;
            }
            [CODES, 0, 0, 0] if self.has_codes => {
                let all = &mut self.work.numbers[..numbers.len()];
                let n_bytes = section::read(bytes, all, &mut self.work.section, self.level)?;
                for (number, &from) in numbers.iter_mut().zip(&*all) {
                    *number = W::from_u64(from.into());
                }
                self.bytes = bytes.get(n_bytes.next_multiple_of(WORD_BYTES)..).ok_or_else(early)?;
            }
            _ => return Err(damage("an invalid header")),
        }
        Ok(())
    }
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a list in a cci block is damaged: it has {what}"))
}
