//! The loops of blocks, for each level, and the conversions in them.

use crate::codec::quant::packing::Packing;
use crate::error::Result;
use crate::stage::blocks::target::{Finish, Line};
use crate::stage::exceptions::Bitmap;
use crate::stage::predict::{ANY, LineSums, Orders, Start};
use crate::stage::quantize::{Relative, Uniform, lanes_of};
use crate::stage::rows::{LANES, Simd, first_lanes, outlined};
use crate::stage::word::Word;

/// Converts codes to floats, or keeps unquantized words, while rows are stored.
#[derive(Clone, Copy)]
pub struct Values<'a, W>(pub Option<&'a Uniform<W>>);

impl<W: Word> Finish<W> for Values<'_, W> {
    #[inline(always)]
    fn words<S: Simd<W>>(&self, s: S, row: S::Row) -> S::Row {
        match self.0 {
            Some(uniform) => s.dequantize(uniform, row),
            None => row,
        }
    }
}

/// Converts codes of either quantizer of floats while the single row of a block is stored.
pub struct LineValues<'a, W> {
    pub uniform: Option<&'a Uniform<W>>,
    pub relative: Option<&'a Relative<W>>,
}

impl<W: Word> Finish<W> for LineValues<'_, W> {
    #[inline(always)]
    fn words<S: Simd<W>>(&self, s: S, row: S::Row) -> S::Row {
        match self.relative {
            Some(relative) => RelativeValues(relative).words(s, row),
            None => Values(self.uniform).words(s, row),
        }
    }
}

/// Converts codes with a relative bound to floats while rows are stored.
#[derive(Clone, Copy)]
pub struct RelativeValues<'a, W>(pub &'a Relative<W>);

impl<W: Word> Finish<W> for RelativeValues<'_, W> {
    const IS_SLOW: bool = true;

    #[inline(always)]
    fn words<S: Simd<W>>(&self, s: S, row: S::Row) -> S::Row {
        let mut lanes = lanes_of(s, row);
        self.0.dequantize(&mut lanes);
        s.load(&lanes)
    }
}

outlined! {
    /// True if all of `n` numbers are 0.
    pub fn is_zero<'a, W>(s, v: &'a [W], n: usize) -> bool {
        let mut at = 0;
        while at < n {
            if s.gt_mask(s.load(&v[at..]), W::default()) & first_lanes(n - at) != 0 {
                return false;
            }
            at += LANES;
        }
        true
    }

    /// Unpacks the numbers of a block of a single row, and stores the values of their sums.
    #[expect(clippy::too_many_arguments)]
    pub fn unpack_line<'a, 'b, W, P: Packing<W>>(
        s,
        packing: &'a mut P,
        table: &'a [u8],
        bytes: &'a [u8],
        shape: [usize; 3],
        orders: Orders,
        base: W,
        line: &'a mut Line<'b, LineValues<'b, W>>,
    ) -> Result<usize> {
        if S::IS_SMALL {
            unreachable!("rows are completed in memory");
        }
        // An entropy code takes longer than the sums, whatever their order.
        if orders[2] == 1 && !P::IS_ENTROPY {
            packing.unpack(s, table, bytes, shape, &mut LineSums::<_, _, 1>::new(s, (orders, Start::Zeros), base, line))
        } else {
            packing.unpack(s, table, bytes, shape, &mut LineSums::<_, _, ANY>::new(s, (orders, Start::Zeros), base, line))
        }
    }

    /// Writes `word` to the filled elements.
    pub fn put_filled<'a, W>(s, word: W, filled: &'a Bitmap, words: &'a mut [W]) {
        for (k, &lanes) in filled.words().iter().enumerate() {
            if lanes != 0 {
                let words = &mut words[k * LANES..];
                s.store(s.select(lanes, s.splat(word), s.load(words)), words);
            }
        }
    }
}
