//! The sequence in which the parts of a block are coded. Each part is written once, for both
//! directions.

use crate::codec::lorenzo::max::domain::Domain;
use crate::codec::lorenzo::max::lookback::{Lookback, Tables};
use crate::codec::lorenzo::max::lorenzo::Lorenzo;
use crate::codec::lorenzo::max::predict::{LOOKBACK, N, Predictor, Scores, Values};
use crate::codec::lorenzo::max::residual::{self, Around, Coded, Models};
use crate::stage::entropy::model::Model;
use crate::stage::entropy::range::Coder;
use crate::stage::predict::Orders;
use crate::stage::rows::{Simd, WithSimd};
use crate::stage::word::Word;

/// The models and buffers for coding numbers.
pub struct Memory<'a> {
    pub models: &'a mut Models,
    /// Preceded by zeros.
    pub values: &'a mut [f64],
    pub planes: &'a mut [i64],
    pub rows: &'a mut [i64],
    pub above: &'a mut [Scores],
    pub coded: &'a mut [Coded],
    pub tables: &'a mut Tables,
}

/// Codes the mask, that is, which elements are masked.
#[inline(always)]
pub fn code_mask<C: Coder>(coder: &mut C, masked: &mut [bool], [sz, sy, sx]: [usize; 3]) {
    let mut models = [Model::NEW; 512];
    for row in 0..sz * sy {
        let (n, u, far_n) = (row % sy > 0, row >= sy, row % sy > 1);
        let start = row * sx;
        // The last three elements of this row; in the row to the north, the three up to the next
        // position.
        let mut west = 0;
        let mut north = usize::from(n && masked[start - sx]);
        for x in 0..sx {
            let i = start + x;
            let has_next = x + 1 < sx;
            north = (2 * north + usize::from(n && has_next && masked[i + 1 - sx])) % 8;
            let context = west
                + 8 * north
                + 64 * usize::from(far_n && masked[i - 2 * sx])
                + 128 * usize::from(u && masked[i - sy * sx])
                + 256 * usize::from(u && has_next && masked[i + 1 - sy * sx]);
            masked[i] = models[context].code(coder, masked[i]);
            west = (2 * west + usize::from(masked[i])) % 8;
        }
    }
}

/// Codes distinct words in ascending order.
#[inline(always)]
pub fn code_words<W: Word, C: Coder>(coder: &mut C, words: &mut [W]) {
    let mut models = [Model::NEW; 128];
    let mut before = W::default();
    for word in words {
        let difference = word.wrapping_sub(before).to_u64();
        let length = difference.bit_length();
        let mut node = 1;
        for k in (0..7).rev() {
            node = 2 * node + usize::from(models[node].code(coder, length >> k & 1 == 1));
        }
        let n = (node as u32 - 128).min(W::BITS);
        let difference = if n == 0 { 0 } else { 1 << (n - 1) | coder.plain(n - 1, difference) };
        *word = before.wrapping_add(W::from_u64(difference));
        before = *word;
    }
}

/// Codes the numbers of a block, until the coder fails. Returns how often each prediction was used.
/// Masked elements get an arbitrary number. The code is the same for all words.
pub struct CodeNumbers<'a, 'm, C> {
    pub coder: &'a mut C,
    pub domain: Domain,
    pub memory: Memory<'m>,
    pub orders: Orders,
    pub looks_back: bool,
    /// The predictions that are used, as bits.
    pub active: u16,
    pub shape: [usize; 3],
    /// The period in elements.
    pub lag: usize,
    /// Which elements are masked, if any are.
    pub masked: Option<&'a [bool]>,
    pub numbers: &'a mut [i64],
}

impl<C: Coder> WithSimd<u64> for CodeNumbers<'_, '_, C> {
    type Output = [u32; N];
    // For AVX-512, compilers make slower code here, with wide loads after narrow stores, and gathers.
    const UP_TO_AVX2: bool = true;

    #[inline(always)]
    fn run<S: Simd<u64>>(self, s: S) -> [u32; N] {
        let Self { coder, domain, memory, orders, looks_back, active, shape, lag, masked, numbers } = self;
        let [sz, sy, sx] = shape;
        let Memory { models, values, planes, rows, above, coded, tables } = memory;
        *models = Models::NEW;
        let lorenzo = Lorenzo::new(orders, shape, planes, rows);
        let looks_back = looks_back && active >> LOOKBACK & 1 == 1;
        let lookback = Lookback::new(tables, looks_back);
        // A lag is a number of whole rows, except in a block with a single row.
        let values = Values { all: values, shape, lag: lag / sx };
        let places = if sz * sy == 1 { 1 } else { sx };
        let mut predictor = Predictor::new(s, values, &mut above[..places], active, lorenzo, lookback);
        let coded = &mut coded[..places];
        coded.fill(Coded::default());
        let mut uses = [0; N];
        let mut i = 0;
        for (z, y) in (0..sz).flat_map(|z| (0..sy).map(move |y| (z, y))) {
            if !coder.is_sound() {
                break;
            }
            predictor.start_row(z, y);
            let mut west = Coded::default();
            for x in 0..sx {
                if masked.is_some_and(|masked| masked[i]) {
                    numbers[i] = predictor.stand_in(domain, x);
                    predictor.note(domain, x, numbers[i]);
                    i += 1;
                    continue;
                }
                if predictor.lookback.code(coder, numbers[i]) {
                    numbers[i] = predictor.lookback.prediction().expect("what is expected");
                    predictor.note(domain, x, numbers[i]);
                } else {
                    let best = predictor.best(domain, x);
                    if C::KNOWS {
                        // Before the number is coded, which takes as long as the next step waits for this.
                        predictor.learn(domain, x, numbers[i]);
                    }
                    let around = Around { west, north: coded[x.min(places - 1)] };
                    (numbers[i], west) = residual::code(models, (s, coder), &best, &around, numbers[i]);
                    coded[x.min(places - 1)] = west;
                    uses[best.which] += 1;
                    if !C::KNOWS {
                        predictor.learn(domain, x, numbers[i]);
                    }
                }
                if looks_back {
                    predictor.look_back(domain, numbers, i);
                }
                i += 1;
            }
        }
        uses
    }
}
