//! Literal symbols: the numbers of the symbols that no copy makes.
//!
//! Without rows, a number is the difference with its sign folded in. With rows, where elements
//! mostly ascend, a number is a difference above 0, or 0 at the start of a row. The first element
//! of a row is coded in another list, relative to the first element of the previous row; that
//! difference is smaller than the one to the end of the previous row.

use crate::codec::cci::params::SYMBOLS_PER;
use crate::stage::entropy::lanes::LANES;
use crate::stage::rows::{Simd, first_lanes};
use crate::stage::word::Word;

/// Maps a signed number to an unsigned one (zigzag).
#[inline(always)]
pub fn fold_sign<W: Word>(number: W) -> W {
    number.wrapping_add(number) ^ number.shift_signed(W::BITS - 1)
}

/// The inverse of [`fold_sign`].
#[inline(always)]
pub fn unfold_sign<W: Word>(number: W) -> W {
    number >> 1 ^ W::ZERO.wrapping_sub(number & W::from_u64(1))
}

/// [`unfold_sign`] for a row of numbers.
#[inline(always)]
fn unfold_row<W: Word, S: Simd<W>>(s: S, row: S::Row) -> S::Row {
    let signs = s.sub(s.splat(W::ZERO), s.and(row, s.splat(W::from_u64(1))));
    s.xor(s.shift_right(row, 1), signs)
}

/// True if symbols with these differences are better coded as rows; they must not begin too many.
#[inline(always)]
pub fn have_rows<W: Word>(differences: &[W]) -> bool {
    let one = W::from_u64(1);
    let (mut n_falling, mut any_other) = (0_u32, false);
    for &difference in differences {
        // The difference is not above 0.
        n_falling += u32::from((difference.wrapping_sub(one) | difference) >> (W::BITS - 1) == one);
        any_other |= difference != differences[0];
    }
    any_other && SYMBOLS_PER * n_falling as usize <= differences.len()
}

/// True if a difference begins a row.
#[inline(always)]
pub fn begins_row<W: Word>(difference: W) -> bool {
    difference.to_i64() <= 0
}

/// Below this number of symbols, they are read one by one.
const FEW: usize = 8;

/// Writes literal symbols.
pub struct Writer<'a, W> {
    /// True if the block has rows.
    pub has_rows: bool,
    /// Destination of the numbers, padded by [`LANES`].
    pub numbers: &'a mut [W],
    /// Destination of the row starts, padded by [`LANES`].
    pub starts: &'a mut [W],
    /// Counts of the numbers and of the row starts written so far.
    pub n: [usize; 2],
}

impl<W: Word> Writer<'_, W> {
    /// Writes the numbers of the first `n` literal symbols. Both slices must have at least `n` +
    /// [`LANES`] elements; those from `n` on may have any value.
    #[inline(always)]
    pub fn put<S: Simd<W>>(&mut self, s: S, symbols: &[W], differences: &[W], n: usize) {
        let one = s.splat(W::from_u64(1));
        let mut at = 0;
        // Write whole rows. The next row overwrites the excess: the number of literals between
        // copies is arbitrary.
        while at < n {
            let row = s.load(&differences[at..]);
            let to = &mut self.numbers[self.n[0] + at..];
            if self.has_rows {
                let begins = s.gt_mask(s.sub(row, one), W::low_mask(W::BITS - 1).wrapping_sub(W::from_u64(1)));
                s.store(s.select_or_zero(!begins, row), to);
                let begins = begins & first_lanes(n - at);
                s.compress(begins, s.load(&symbols[at..]), &mut self.starts[self.n[1]..]);
                self.n[1] += begins.count_ones() as usize;
            } else {
                let signs = s.shift_right_signed(row, W::BITS - 1);
                s.store(s.xor(s.add(row, row), signs), to);
            }
            at += LANES;
        }
        self.n[0] += n;
    }

    /// Replaces the row starts by their differences, the first one from `start`. Returns the counts
    /// of numbers and starts.
    #[inline(always)]
    pub fn finish(self, start: W) -> [usize; 2] {
        let mut start = start;
        for to in &mut self.starts[..self.n[1]] {
            let before = std::mem::replace(&mut start, *to);
            *to = fold_sign(start.wrapping_sub(before));
        }
        self.n
    }
}

/// Reads literal symbols.
pub struct Reader<'a, W> {
    /// True if the block has rows.
    pub has_rows: bool,
    /// The numbers not yet read, and [`LANES`] more words.
    pub numbers: &'a [W],
    /// The row starts, one per zero among the numbers, and [`LANES`] more words.
    pub starts: &'a [W],
    /// How many of the starts have been used.
    pub n_starts: usize,
    /// First element of the last row.
    pub start: W,
}

impl<W: Word> Reader<'_, W> {
    /// First element of the next row. Not inlined into the loop, because most symbols begin no row.
    #[cold]
    #[inline(never)]
    fn next_row(&mut self) -> W {
        self.start = self.start.wrapping_add(unfold_sign(self.starts[self.n_starts]));
        self.n_starts += 1;
        self.start
    }

    /// Decodes `n` symbols, at most as many as remain; the first one follows `last`. Up to
    /// [`LANES`] words after them in `to` become arbitrary.
    #[inline(always)]
    pub fn take<S: Simd<W>>(&mut self, s: S, last: W, n: usize, to: &mut [W]) {
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
                symbol = symbol.wrapping_add(unfold_sign(numbers[i]));
                to[i] = symbol;
            }
            return;
        }
        for i in 0..to.len() {
            symbol = if numbers[i] == W::ZERO { self.next_row() } else { symbol.wrapping_add(numbers[i]) };
            to[i] = symbol;
        }
    }

    /// As [`Self::take`], with vector instructions.
    #[inline(always)]
    fn take_rows<S: Simd<W>>(&mut self, s: S, last: W, n: usize, to: &mut [W]) {
        let (mut last, mut start) = (s.splat(last), s.splat(self.start));
        let mut at = 0;
        while at < n {
            let row = s.load(&self.numbers[at..]);
            let symbols = if self.has_rows {
                let (sums, begins) = (s.prefix_sum(row), !s.gt_mask(row, W::ZERO) & first_lanes(n - at));
                if begins == 0 {
                    s.add(sums, last)
                } else {
                    let more = unfold_row(s, s.expand(begins, &self.starts[self.n_starts..]));
                    self.n_starts += begins.count_ones() as usize;
                    let starts = s.add(s.prefix_sum(more), start);
                    start = s.last(starts);
                    s.add(sums, s.fill_forward(!begins, s.sub(starts, sums), last))
                }
            } else {
                s.add(s.prefix_sum(unfold_row(s, row)), last)
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
