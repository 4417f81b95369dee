//! Adaptive models of symbols below 16.

use crate::stage::entropy::range::Coder;
use crate::stage::rows::{KEYS, Keys};

pub const SYMBOLS: usize = KEYS;
/// The sum of the frequencies.
const ALL: u16 = 1 << 15;
/// Adaptation rates by the number of symbols seen so far, up to the last: the model moves by 2^-n
/// of the distance, rounded up.
const RATES: [u8; 32] =
    [1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6];

/// Cumulative frequencies: where each symbol's range starts. No frequency is below 1. Each model has
/// a cache line of its own, because loads that follow stores across two lines are slow.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Symbols {
    starts: [u16; SYMBOLS],
    n_seen: u16,
}

/// For each symbol, the starts to move to, where all other symbols have a frequency of 1; and a
/// mask of the starts that grow. There the distance is negated before it is shifted, so that it is
/// rounded up, too.
const WITH: [[[u16; SYMBOLS]; 2]; SYMBOLS] = {
    let mut with = [[[0; SYMBOLS]; 2]; SYMBOLS];
    let mut i = 0;
    while i < SYMBOLS * SYMBOLS {
        let (symbol, k) = (i / SYMBOLS, i % SYMBOLS);
        let grows = k > symbol;
        with[symbol][0][k] = if grows { ALL - (SYMBOLS - k) as u16 } else { k as u16 };
        with[symbol][1][k] = if grows { u16::MAX } else { 0 };
        i += 1;
    }
    with
};

impl Symbols {
    /// Initial state: all symbols are equally likely.
    pub const NEW: Self = Self::of([ALL / SYMBOLS as u16; SYMBOLS]);

    /// Initial state with these frequencies.
    pub const fn of(frequencies: [u16; SYMBOLS]) -> Self {
        let mut starts = [0; SYMBOLS];
        let mut k = 1;
        while k < SYMBOLS {
            starts[k] = starts[k - 1] + frequencies[k - 1];
            k += 1;
        }
        assert!(starts[SYMBOLS - 1] + frequencies[SYMBOLS - 1] == ALL);
        Self { starts, n_seen: 0 }
    }

    /// Codes a symbol by this model alone.
    #[inline(always)]
    pub fn code<K: Keys, C: Coder>(&mut self, (k, coder): (K, &mut C), symbol: usize) -> usize {
        let symbol = coder.symbol(k, &self.starts.map(|start| 2 * start), symbol) % SYMBOLS;
        self.update(symbol);
        symbol
    }

    #[inline(always)]
    fn update(&mut self, symbol: usize) {
        let rate = RATES[usize::from(self.n_seen) % RATES.len()];
        self.n_seen = (self.n_seen + 1).min(RATES.len() as u16 - 1);
        let [with, growing] = &WITH[symbol];
        for k in 0..SYMBOLS {
            let way = (with[k].wrapping_sub(self.starts[k]) ^ growing[k]).wrapping_sub(growing[k]);
            let step = (way as i16 >> rate) as u16;
            self.starts[k] = self.starts[k].wrapping_add((step ^ growing[k]).wrapping_sub(growing[k]));
        }
    }
}

/// Codes a symbol by the mean of two models.
#[inline(always)]
pub fn code_by_two<K: Keys, C: Coder>(
    (k, coder): (K, &mut C),
    a: &mut Symbols,
    b: &mut Symbols,
    symbol: usize,
) -> usize {
    let mut sums = *a;
    for (start, other) in sums.starts.iter_mut().zip(&b.starts) {
        *start += other;
    }
    let symbol = coder.symbol(k, &sums.starts, symbol) % SYMBOLS;
    a.update(symbol);
    b.update(symbol);
    symbol
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::entropy::range::{Decoder, Encoder};
    use crate::stage::rows::PORTABLE;

    /// Codes symbols by one model and by two in turn; returns the results.
    fn all<C: Coder>(coder: &mut C, symbols: &[usize]) -> Vec<usize> {
        let [mut a, mut b, mut c] = [Symbols::NEW; 3];
        let code = |(i, &symbol): (usize, &usize)| {
            let symbol = match i % 2 {
                0 => code_by_two((PORTABLE, coder), &mut a, &mut b, symbol),
                _ => b.code((PORTABLE, coder), symbol),
            };
            c.update(symbol);
            for model in [&a, &b, &c] {
                assert!(model.starts[0] == 0 && model.starts.is_sorted_by(|a, b| a < b));
                assert!(model.starts[SYMBOLS - 1] < ALL);
            }
            symbol
        };
        symbols.iter().enumerate().map(code).collect()
    }

    #[test]
    fn symbols_come_back_and_none_is_impossible() {
        let of = |i: usize| [0, SYMBOLS - 1, i % SYMBOLS, i * i / 7 % SYMBOLS, 5][i / 1000];
        let symbols: Vec<usize> = (0..5000).map(of).collect();
        let mut bytes = vec![0; 1 << 14];
        let mut encoder = Encoder::new(&mut bytes);
        all(&mut encoder, &symbols);
        let (coded, _) = encoder.finish().unwrap();
        let mut decoder = Decoder::new(&bytes[..coded]);
        assert_eq!(all(&mut decoder, &symbols.iter().map(|_| 0).collect::<Vec<_>>()), symbols);
        assert!(decoder.is_sound());
    }
}
