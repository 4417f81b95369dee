//! Literal symbols: the numbers of those that no copy makes.
//!
//! A difference with its sign; or, where elements mostly ascend, in rows, a difference above 0, or 0 for what begins a row. That is told
//! by how much more it is than what began the row before, which says less than the difference to the end of that row.

use crate::error::{Error, Result};
use crate::stage::word::Word;

/// The number without sign of a number with one.
#[inline(always)]
pub fn fold_sign<W: Word>(number: W) -> W {
    number.plus(number) ^ number.shift_signed(W::BITS - 1)
}

/// The inverse of [`fold_sign`].
#[inline(always)]
pub fn unfold_sign<W: Word>(number: W) -> W {
    number >> 1 ^ W::ZERO.minus(number & W::from_u64(1))
}

/// Whether symbols with these differences, the first of which does not count, are better seen as rows.
#[inline(always)]
pub fn have_rows<W: Word>(differences: &[W]) -> bool {
    let one = W::from_u64(1);
    let (mut n_falling, mut any_other) = (0_u32, false);
    for &difference in &differences[1..] {
        // Not above 0.
        n_falling += u32::from((difference.minus(one) | difference) >> (W::BITS - 1) == one);
        any_other |= difference != differences[1];
    }
    any_other && 4 * n_falling as usize <= differences.len()
}

/// Whether a difference begins a row.
#[inline(always)]
pub fn begins_row<W: Word>(difference: W) -> bool {
    difference.to_i64() <= 0
}

/// Writes literal symbols.
pub struct Writer<'a, W> {
    /// Whether there are rows.
    pub has_rows: bool,
    /// Where their numbers go, and the starts of rows.
    pub numbers: &'a mut [W],
    /// See there.
    pub starts: &'a mut [W],
    /// How many there are of both.
    pub n: [usize; 2],
    /// What the last row began with.
    pub start: W,
}

impl<W: Word> Writer<'_, W> {
    /// Takes literal symbols with their differences.
    #[inline(always)]
    pub fn put(&mut self, symbols: &[W], differences: &[W]) {
        let [n, n_starts] = &mut self.n;
        let numbers = &mut self.numbers[*n..*n + symbols.len()];
        *n += symbols.len();
        if !self.has_rows {
            numbers.iter_mut().zip(differences).for_each(|(to, &difference)| *to = fold_sign(difference));
            return;
        }
        for ((to, &symbol), &difference) in numbers.iter_mut().zip(symbols).zip(differences) {
            *to = difference;
            if begins_row(difference) {
                *to = W::ZERO;
                self.starts[*n_starts] = fold_sign(symbol.minus(self.start));
                self.start = symbol;
                *n_starts += 1;
            }
        }
    }
}

/// Reads literal symbols.
pub struct Reader<'a, W> {
    /// Whether there are rows.
    pub has_rows: bool,
    /// The numbers that are left.
    pub numbers: &'a [W],
    /// The starts that are left.
    pub starts: &'a [W],
    /// What the last row began with.
    pub start: W,
}

impl<W: Word> Reader<'_, W> {
    /// Makes as many symbols as there is room for, the first of which follows `last`.
    ///
    /// # Errors
    /// `Corrupt` if there are not so many starts.
    #[inline(always)]
    pub fn take(&mut self, last: W, to: &mut [W]) -> Result<()> {
        let (numbers, rest) = self.numbers.split_at_checked(to.len()).ok_or_else(damage)?;
        self.numbers = rest;
        let mut symbol = last;
        if !self.has_rows {
            for (to, &number) in to.iter_mut().zip(numbers) {
                symbol = symbol.plus(unfold_sign(number));
                *to = symbol;
            }
            return Ok(());
        }
        for (to, &number) in to.iter_mut().zip(numbers) {
            symbol = if number == W::ZERO {
                let (&start, rest) = self.starts.split_first().ok_or_else(damage)?;
                self.starts = rest;
                self.start = self.start.plus(unfold_sign(start));
                self.start
            } else {
                symbol.plus(number)
            };
            *to = symbol;
        }
        Ok(())
    }
}

fn damage() -> Error {
    Error::corrupt("a cci block has other literal symbols than it should")
}
