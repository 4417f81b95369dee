//! Row starts, for passes that otherwise ignore rows.

use crate::stage::rows::LANES;

/// Finds the row starts in every 32 numbers.
pub struct Starts {
    row: usize,
    /// Where in their row the next 32 numbers begin.
    offset: usize,
    /// A bit for every multiple of the row length.
    multiples: u64,
    /// The row starts in the previous 32 numbers.
    previous: u32,
}

impl Starts {
    /// Starts with the first number of the block.
    #[inline(always)]
    pub fn new(row: usize) -> Self {
        let mut multiples = 0;
        let mut at = 0;
        while at < 64 {
            multiples |= 1 << at;
            at += row;
        }
        Self { row, offset: 0, multiples, previous: 0 }
    }

    /// Masks of the row starts in the next 32 numbers, and of the first `n` numbers of each row;
    /// `n` is below 32.
    #[inline(always)]
    pub fn next_with(&mut self, n: usize) -> (u32, u32) {
        let starts = self.next();
        let all = u64::from(starts) << 32 | u64::from(self.previous);
        self.previous = starts;
        let mut first = 0;
        for i in 0..n {
            first |= all << i;
        }
        (starts, (first >> 32) as u32)
    }

    #[inline(always)]
    fn next(&mut self) -> u32 {
        let first = if self.offset == 0 { 0 } else { self.row - self.offset };
        self.offset = if self.row > LANES { self.offset + LANES } else { self.offset + LANES % self.row };
        if self.offset >= self.row {
            self.offset -= self.row;
        }
        if first < LANES { (self.multiples << first) as u32 } else { 0 }
    }
}
