//! Literal symbols: the numbers of those that no copy makes.
//!
//! A difference with its sign; or, where elements mostly ascend, in rows, a difference above 0, or 0 for what begins a row. That is told
//! by how much more it is than what began the row before, which says less than the difference to the end of that row.

use crate::codec::cci::params::SYMBOLS_PER;
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

/// Whether symbols with these differences are better seen as rows: if there are not too many.
#[inline(always)]
pub fn have_rows<W: Word>(differences: &[W]) -> bool {
    let one = W::from_u64(1);
    let (mut n_falling, mut any_other) = (0_u32, false);
    for &difference in differences {
        // Not above 0.
        n_falling += u32::from((difference.minus(one) | difference) >> (W::BITS - 1) == one);
        any_other |= difference != differences[0];
    }
    any_other && SYMBOLS_PER * n_falling as usize <= differences.len()
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
        let (mut n_before, mut start) = (*n_starts, self.start);
        for i in 0..symbols.len() {
            let begins = begins_row(differences[i]);
            // What begins no row is written over by what does.
            self.starts[n_before] = fold_sign(symbols[i].minus(start));
            n_before += usize::from(begins);
            start = if begins { symbols[i] } else { start };
            numbers[i] = if begins { W::ZERO } else { differences[i] };
        }
        (*n_starts, self.start) = (n_before, start);
    }
}

/// Reads literal symbols.
pub struct Reader<'a, W> {
    /// Whether there are rows.
    pub has_rows: bool,
    /// The numbers that are left.
    pub numbers: &'a [W],
    /// The starts of rows, as many as there are zeros among the numbers.
    pub starts: &'a [W],
    /// How many of them are taken.
    pub n_starts: usize,
    /// What the last row began with.
    pub start: W,
}

impl<W: Word> Reader<'_, W> {
    /// What the next row begins with. Never part of the loop: most symbols begin none.
    #[cold]
    #[inline(never)]
    fn next_row(&mut self) -> W {
        self.start = self.start.plus(unfold_sign(self.starts[self.n_starts]));
        self.n_starts += 1;
        self.start
    }

    /// Makes as many symbols as there is room for, which are not more than are left; the first one follows `last`.
    #[inline(always)]
    pub fn take(&mut self, last: W, to: &mut [W]) {
        let (numbers, rest) = self.numbers.split_at(to.len());
        self.numbers = rest;
        let mut symbol = last;
        if !self.has_rows {
            for i in 0..to.len() {
                symbol = symbol.plus(unfold_sign(numbers[i]));
                to[i] = symbol;
            }
            return;
        }
        for i in 0..to.len() {
            symbol = if numbers[i] == W::ZERO { self.next_row() } else { symbol.plus(numbers[i]) };
            to[i] = symbol;
        }
    }
}
