//! Literal symbols: the numbers of those that no copy makes.
//!
//! A difference with its sign; or, where elements mostly ascend, in rows, a difference above 0, or 0 for what begins a row. That is told
//! by how much more it is than what began the row before, which says less than the difference to the end of that row.

use crate::codec::cci::params::SYMBOLS_PER;
use crate::stage::entropy::lanes::LANES;
use crate::stage::rows::{Rows, first_lanes};
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

/// The same of a row of numbers.
#[inline(always)]
fn unfold_row<W: Word, S: Rows<W>>(s: S, row: S::Row) -> S::Row {
    let signs = s.minus(s.splat(W::ZERO), s.and(row, s.splat(W::from_u64(1))));
    s.xor(s.shift_right(row, 1), signs)
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

/// Symbols that are made one by one.
const FEW: usize = 8;

/// Writes literal symbols.
pub struct Writer<'a, W> {
    /// Whether there are rows.
    pub has_rows: bool,
    /// Where their numbers go, and the starts of rows, behind which there is room for [`LANES`].
    pub numbers: &'a mut [W],
    /// See there.
    pub starts: &'a mut [W],
    /// How many there are of both.
    pub n: [usize; 2],
}

impl<W: Word> Writer<'_, W> {
    /// Takes the first `n` literal symbols with their differences. There are [`LANES`] more of both, or anything.
    #[inline(always)]
    pub fn put<S: Rows<W>>(&mut self, s: S, symbols: &[W], differences: &[W], n: usize) {
        let one = s.splat(W::from_u64(1));
        let mut at = 0;
        // Whole rows, of which what is too much is written over: between copies there are any number of literals.
        while at < n {
            let row = s.load(&differences[at..]);
            let to = &mut self.numbers[self.n[0] + at..];
            if self.has_rows {
                let begins = s.larger(s.minus(row, one), W::low_mask(W::BITS - 1).minus(W::from_u64(1)));
                s.store(s.keep(!begins, row), to);
                let begins = begins & first_lanes(n - at);
                s.squeeze(begins, s.load(&symbols[at..]), &mut self.starts[self.n[1]..]);
                self.n[1] += begins.count_ones() as usize;
            } else {
                let signs = s.shift_right_signed(row, W::BITS - 1);
                s.store(s.xor(s.plus(row, row), signs), to);
            }
            at += LANES;
        }
        self.n[0] += n;
    }

    /// How many numbers and starts there are. These become what they are more than those before, the first one than `start`.
    #[inline(always)]
    pub fn finish(self, start: W) -> [usize; 2] {
        let mut start = start;
        for to in &mut self.starts[..self.n[1]] {
            let before = std::mem::replace(&mut start, *to);
            *to = fold_sign(start.minus(before));
        }
        self.n
    }
}

/// Reads literal symbols.
pub struct Reader<'a, W> {
    /// Whether there are rows.
    pub has_rows: bool,
    /// The numbers that are left, and [`LANES`] words more.
    pub numbers: &'a [W],
    /// The starts of rows, as many as there are zeros among the numbers, and [`LANES`] words more.
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

    /// Makes `n` symbols, which are not more than are left; the first one follows `last`. There is room for [`LANES`] more, which become
    /// anything.
    #[inline(always)]
    pub fn take<S: Rows<W>>(&mut self, s: S, last: W, n: usize, to: &mut [W]) {
        let (numbers, rest) = self.numbers.split_at(n);
        if n >= FEW {
            self.take_rows(s, last, n, to);
            self.numbers = rest;
            return;
        }
        self.numbers = rest;
        let (mut symbol, to) = (last, &mut to[..n]);
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

    /// The same in rows of the CPU's.
    #[inline(always)]
    fn take_rows<S: Rows<W>>(&mut self, s: S, last: W, n: usize, to: &mut [W]) {
        let (mut last, mut start) = (s.splat(last), s.splat(self.start));
        let mut at = 0;
        while at < n {
            let row = s.load(&self.numbers[at..]);
            let symbols = if self.has_rows {
                let (sums, begins) = (s.running_sums(row), !s.larger(row, W::ZERO) & first_lanes(n - at));
                if begins == 0 {
                    s.plus(sums, last)
                } else {
                    let more = unfold_row(s, s.spread(begins, &self.starts[self.n_starts..]));
                    self.n_starts += begins.count_ones() as usize;
                    let starts = s.plus(s.running_sums(more), start);
                    start = s.last(starts);
                    s.plus(sums, s.fill_forward(!begins, s.minus(starts, sums), last))
                }
            } else {
                s.plus(s.running_sums(unfold_row(s, row)), last)
            };
            s.store(symbols, &mut to[at..]);
            last = s.last(symbols);
            at += LANES;
        }
        let mut words = [W::ZERO; LANES];
        s.store(start, &mut words);
        self.start = words[0];
    }
}
