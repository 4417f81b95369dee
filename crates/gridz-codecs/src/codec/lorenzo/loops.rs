//! The loops of blocks, for each level.

use crate::codec::lorenzo::huff;
use crate::error::Result;
use crate::stage::bitmap::Bitmap;
use crate::stage::blocks::target::{Line, Shifted};
use crate::stage::pack;
use crate::stage::predict::{ANY, LineSums, Orders, Start};
use crate::stage::rows::{LANES, Prefetcher, outlined};

outlined! {
    /// Replaces differences to `first` by the differences of the same numbers shifted to the right.
    pub fn shift_words<'a, W>(s, words: &'a mut [W], n: usize, first: W, shift: u32) {
        let (first, base) = (s.splat(first), s.splat(first.shift_signed(shift)));
        let mut at = 0;
        while at < n {
            let row = s.shift_right_signed(s.add(s.load(&words[at..]), first), shift);
            s.store(s.sub(row, base), &mut words[at..]);
            at += LANES;
        }
    }

    /// Subtracts the first number from all numbers, and returns it.
    pub fn subtract_first<'a, W>(s, v: &'a mut [W], n: usize) -> W {
        let base = v[0];
        let first = s.splat(base);
        let mut at = 0;
        while at < n {
            s.store(s.sub(s.load(&v[at..]), first), &mut v[at..]);
            at += LANES;
        }
        base
    }

    /// Adds `first` to `n` words, and shifts the sums to the right. Prefetches a line of `ahead` for
    /// each row.
    pub fn add_and_shift<'a, W, P: Prefetcher>(
        s,
        words: &'a mut [W],
        n: usize,
        first: W,
        shift: u32,
        ahead: &'a mut P,
    ) {
        let mut at = 0;
        while at < n {
            ahead.prefetch_next(s);
            let row = s.add(s.load(&words[at..]), s.splat(first));
            s.store(s.shift_right_signed(row, shift), &mut words[at..]);
            at += LANES;
        }
    }

    /// Shifts `n` words to the left.
    pub fn shift_left<'a, W>(s, words: &'a mut [W], n: usize, shift: u32) {
        let mut at = 0;
        while at < n {
            s.store(s.shift_left(s.load(&words[at..]), shift), &mut words[at..]);
            at += LANES;
        }
    }

    /// Expands lanes: writes the `n` numbers to the unmasked positions of `to`, and zeros to the
    /// others.
    pub fn expand<'a, W>(s, masked: &'a Bitmap, numbers: &'a mut [W], n: usize, to: &'a mut [W]) {
        // The last loads read beyond the first `n` numbers. What they read must be zero.
        numbers[n..n + LANES].fill(W::default());
        let (mut from, mut k) = (0, 0);
        while k < masked.words().len() {
            let coded = masked.others(k);
            s.store(s.expand(coded, &numbers[from..]), &mut to[k * LANES..]);
            from += coded.count_ones() as usize;
            k += 1;
        }
    }

    /// Writes `word` to the masked elements.
    pub fn put_masked<'a, W>(s, word: W, masked: &'a Bitmap, words: &'a mut [W]) {
        let word = s.splat(word);
        let mut k = 0;
        while k < masked.words().len() {
            let (bitmap, at) = (masked.words()[k], k * LANES);
            s.store(s.select(bitmap, word, s.load(&words[at..])), &mut words[at..]);
            k += 1;
        }
    }

    /// Reads packed differences of a single row, and stores their sums directly.
    pub fn read_line<'a, 'b, W>(
        s,
        bytes: &'a [u8],
        n: usize,
        orders: Orders,
        base: W,
        scratch: &'a mut pack::Scratch<W>,
        line: &'a mut Line<'b, Shifted>,
    ) -> Result<usize> {
        if S::IS_SMALL {
            unreachable!("rows are completed in memory");
        }
        if orders[2] == 1 {
            pack::read_rows(s, bytes, n, scratch, &mut LineSums::<_, _, 1>::new(s, (orders, Start::Rising), base, line))
        } else {
            pack::read_rows(s, bytes, n, scratch, &mut LineSums::<_, _, ANY>::new(s, (orders, Start::Rising), base, line))
        }
    }

    /// Reads `n` Huffman coded numbers. If they are ordered by columns, orders them by rows of this
    /// many elements.
    pub fn read_entropy<'a, W>(
        _s,
        bytes: &'a [u8],
        n: usize,
        columns: Option<usize>,
        other: &'a mut [W],
        numbers: &'a mut [W],
    ) -> Result<usize> {
        // One call, because it is inlined.
        let to = if columns.is_some() { &mut *other } else { &mut *numbers };
        let n_bytes = huff::read(bytes, &mut to[..n])?;
        if let Some(row) = columns {
            huff::from_columns(&other[..n], row, numbers);
        }
        Ok(n_bytes)
    }

    /// Plans the Huffman codes of numbers.
    pub fn plan_entropy<'a, W>(_s, numbers: &'a [W]) -> huff::Coding {
        huff::Coding::choose(numbers)
    }

    /// Writes numbers as planned.
    pub fn write_entropy<'a, W>(_s, coding: &'a huff::Coding, numbers: &'a [W], out: &'a mut [u8]) {
        coding.write(numbers, out);
    }
}
