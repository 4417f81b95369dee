//! Where rows start, for passes that take no notice of rows otherwise.

use crate::stage::rows::LANES;

/// Where rows of the block start among every 32 numbers.
pub struct Starts {
    row: usize,
    /// The next 32 numbers begin in a row, this far from its start.
    offset: usize,
    /// Every multiple of the length of a row.
    multiples: u64,
}

impl Starts {
    /// From the first number of the block on.
    #[inline(always)]
    pub fn new(row: usize) -> Self {
        let mut multiples = 0;
        let mut at = 0;
        while at < 64 {
            multiples |= 1 << at;
            at += row;
        }
        Self { row, offset: 0, multiples }
    }

    /// Those among the next numbers.
    #[inline(always)]
    pub fn next(&mut self) -> u32 {
        let first = if self.offset == 0 { 0 } else { self.row - self.offset };
        self.offset = if self.row > LANES { self.offset + LANES } else { self.offset + LANES % self.row };
        if self.offset >= self.row {
            self.offset -= self.row;
        }
        if first < LANES { (self.multiples << first) as u32 } else { 0 }
    }
}
