//! Interleaved asymmetric numeral systems (rANS): 32 states, one for each lane, share a stream of
//! u16, the *string*.
//!
//! In a step, every lane that takes part codes a symbol with up to six plain bits after it, or only
//! plain bits. Then each state below 2^16 takes the next u16, in the order of lanes. One u16 for
//! each step is enough, since a symbol and six bits take at most 16 bits from a state. Encoders run
//! backwards.

use crate::cpu::isa::Isa;
use crate::error::{Error, Result};
use crate::stage::entropy::frequencies::{LOG2_TOTAL, entry};
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::{Avx2, Avx512, rans as simd};
use crate::stage::rows::LANES;

/// Bytes of the states, which precede the string.
pub const STATE_BYTES: usize = 4 * LANES;
/// States are never below this; encoders start with it.
pub const LOWEST: u32 = 1 << 16;
/// Maximum number of plain bits per lane of a step without symbols, and of a step with symbols.
pub const MAX_BITS: u32 = 16;
pub const BITS_WITH_SYMBOL: u32 = MAX_BITS - LOG2_TOTAL;

/// Reads symbols and bits.
pub struct Decoder<'a> {
    states: [u32; LANES],
    string: &'a [u8],
    at: usize,
    #[cfg(target_arch = "x86_64")]
    avx512: Option<Avx512>,
}

impl<'a> Decoder<'a> {
    /// Starts with the states and the string at the start of `bytes`.
    ///
    /// # Errors
    /// `Corrupt`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "other CPUs have one level"))]
    pub fn new(bytes: &'a [u8], level: Isa) -> Result<Self> {
        let (states, string) = bytes.split_at_checked(STATE_BYTES).ok_or_else(damage)?;
        let (states, _) = states.as_chunks();
        let states: [u32; LANES] = std::array::from_fn(|lane| u32::from_le_bytes(states[lane]));
        if states.iter().any(|&state| state < LOWEST) {
            return Err(damage());
        }
        Ok(Self {
            states,
            string,
            at: 0,
            #[cfg(target_arch = "x86_64")]
            avx512: Avx512::at(level),
        })
    }

    /// Reads the symbols of the lanes that take part. `contexts` has the first slot of each lane's
    /// context. The caller must end the step with [`Decoder::bits`], or with [`Decoder::refill`] if
    /// no bits follow.
    #[inline(always)]
    pub fn symbols(&mut self, slots: &[u32], contexts: &[u32; LANES], lanes: u32) -> [u8; LANES] {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx512) = self.avx512 {
            return simd::symbols(avx512, &mut self.states, slots, contexts, lanes);
        }
        let mut symbols = [0; LANES];
        for lane in 0..LANES {
            let state = self.states[lane];
            let (symbol, frequency, distance) =
                entry(slots[(contexts[lane] + (state & ((1 << LOG2_TOTAL) - 1))) as usize]);
            symbols[lane] = symbol;
            let next = frequency.wrapping_mul(state >> LOG2_TOTAL).wrapping_add(distance);
            self.states[lane] = if lanes >> lane & 1 != 0 { next } else { state };
        }
        symbols
    }

    /// Reads `n` bits for each lane, up to [`MAX_BITS`], or up to [`BITS_WITH_SYMBOL`] after
    /// symbols. Ends the step.
    #[inline(always)]
    pub fn bits(&mut self, n: &[u32; LANES]) -> [u32; LANES] {
        #[cfg(target_arch = "x86_64")]
        if let Some((avx512, next)) = self.next_words() {
            let (bits, n_words) = simd::bits(avx512, &mut self.states, next, n);
            self.at += 2 * n_words;
            return bits;
        }
        let mut bits = [0; LANES];
        for lane in 0..LANES {
            bits[lane] = self.states[lane] & ((1 << n[lane]) - 1);
            self.states[lane] >>= n[lane];
        }
        self.refill();
        bits
    }

    /// The next word for every lane, if the string has that many left.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn next_words(&self) -> Option<(Avx512, &'a [u8; 2 * LANES])> {
        Some((self.avx512?, self.string.get(self.at..)?.first_chunk()?))
    }

    /// Ends a step: refills states from the string.
    #[inline(always)]
    pub fn refill(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if let Some((avx512, next)) = self.next_words() {
            self.at += 2 * simd::refill(avx512, &mut self.states, next);
            return;
        }
        let mut low = 0;
        for lane in 0..LANES {
            low |= u32::from(self.states[lane] < LOWEST) << lane;
        }
        while low != 0 {
            let lane = low.trailing_zeros() as usize;
            low &= low - 1;
            let next =
                self.string.get(self.at..self.at + 2).map_or(0, |next| u16::from_le_bytes([next[0], next[1]]));
            self.states[lane] = self.states[lane] << 16 | u32::from(next);
            self.at += 2;
        }
    }

    /// Returns the bytes of states and string. All states must have returned to the encoder's
    /// initial state.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn finish(self) -> Result<usize> {
        let is_whole = self.at <= self.string.len() && self.states == [LOWEST; LANES];
        if is_whole { Ok(STATE_BYTES + self.at) } else { Err(damage()) }
    }
}

/// Writes symbols and bits backwards, from the end of its memory.
pub struct Encoder<'a> {
    states: [u32; LANES],
    string: &'a mut [u16],
    /// Index where the string begins; it wraps beyond the end of the memory if that is too small.
    at: usize,
    #[cfg(target_arch = "x86_64")]
    avx512: Option<Avx512>,
    #[cfg(target_arch = "x86_64")]
    avx2: Option<Avx2>,
}

impl<'a> Encoder<'a> {
    /// Starts an empty string at the end of `string`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "other CPUs have one level"))]
    pub fn new(string: &'a mut [u16], level: Isa) -> Self {
        Self {
            states: [LOWEST; LANES],
            at: string.len(),
            string,
            #[cfg(target_arch = "x86_64")]
            avx512: Avx512::at(level),
            #[cfg(target_arch = "x86_64")]
            avx2: Avx2::at(level),
        }
    }

    /// Prepends the symbols of the lanes that take part, each followed by `n` bits, up to
    /// [`BITS_WITH_SYMBOL`]. Other lanes have no bits. `ranges` has each symbol's first slot and,
    /// in the upper half, its frequency, which is not 0. The ranges of other lanes are ignored.
    #[inline(always)]
    pub fn symbols(&mut self, ranges: &[u32; LANES], lanes: u32, bits: &[u32; LANES], n: &[u32; LANES]) {
        #[cfg(target_arch = "x86_64")]
        if let (Some(avx512), Some(before)) = (self.avx512, room(self.string, self.at)) {
            self.at -= simd::put_symbols(avx512, &mut self.states, before, (ranges, lanes), (bits, n));
            return;
        }
        for lane in (0..LANES).rev().filter(|lane| lanes >> lane & 1 != 0) {
            let (start, frequency) = (ranges[lane] & 0xffff, ranges[lane] >> 16);
            let state =
                self.drained(lane, u64::from(frequency) << (32 - LOG2_TOTAL - n[lane])) << n[lane] | bits[lane];
            self.states[lane] = (state / frequency) << LOG2_TOTAL | (state % frequency + start);
        }
    }

    /// As [`Encoder::symbols`], without bits.
    #[inline(always)]
    pub fn symbols_alone(&mut self, ranges: &[u32; LANES], lanes: u32) {
        #[cfg(target_arch = "x86_64")]
        if let (None, Some(avx2), Some(before)) = (self.avx512, self.avx2, room(self.string, self.at)) {
            self.at -= simd::put_symbols_avx2(avx2, &mut self.states, before, (ranges, lanes));
            return;
        }
        self.symbols(ranges, lanes, &[0; LANES], &[0; LANES]);
    }

    /// Prepends `n` bits of each lane, up to [`MAX_BITS`].
    #[inline(always)]
    pub fn bits(&mut self, bits: &[u32; LANES], n: &[u32; LANES]) {
        #[cfg(target_arch = "x86_64")]
        if let (Some(avx512), Some(before)) = (self.avx512, room(self.string, self.at)) {
            self.at -= simd::put_bits(avx512, &mut self.states, before, bits, n);
            return;
        }
        for lane in (0..LANES).rev() {
            let state = self.drained(lane, 1 << (32 - n[lane]));
            self.states[lane] = state << n[lane] | bits[lane];
        }
    }

    /// Returns the state. If it is not below the limit, its lower half is first moved to the
    /// string.
    #[inline(always)]
    fn drained(&mut self, lane: usize, limit: u64) -> u32 {
        let state = self.states[lane];
        if u64::from(state) < limit {
            return state;
        }
        self.at = self.at.wrapping_sub(1);
        if let Some(place) = self.string.get_mut(self.at) {
            *place = state as u16;
        }
        state >> 16
    }

    /// Prepends the states; returns all words, or `None` if the memory is too small.
    pub fn finish(self) -> Option<&'a [u16]> {
        let start = self.at.checked_sub(STATE_BYTES / 2)?;
        let words = self.string.get_mut(start..)?;
        for (words, state) in words.chunks_exact_mut(2).zip(self.states) {
            words.copy_from_slice(&[state as u16, (state >> 16) as u16]);
        }
        Some(words)
    }
}

/// Room for a word of every lane in front of index `at`, if there is that much.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn room(string: &mut [u16], at: usize) -> Option<&mut [u16; LANES]> {
    string.get_mut(..at)?.last_chunk_mut()
}

/// Writes words as little-endian bytes.
pub fn put_words(words: &[u16], out: &mut [u8]) {
    for (out, word) in out.chunks_exact_mut(2).zip(words) {
        out.copy_from_slice(&word.to_le_bytes());
    }
}

fn damage() -> Error {
    Error::corrupt("a block is damaged: its string of entropy codes ends in a wrong state")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::entropy::frequencies::{Frequencies, MAX_SYMBOLS};

    /// A lane in a step: whether it takes part, context, symbol, number of bits, bits.
    type Part = (bool, usize, u8, u32, u32);

    /// Bits and their number for each lane: those in the symbol's step, or those that follow.
    fn bits_of(step: &[Part; LANES], is_with_symbol: bool) -> ([u32; LANES], [u32; LANES]) {
        let n = |part: &Part| part.3.min(BITS_WITH_SYMBOL);
        let of = |part: &Part| match (part.0, is_with_symbol) {
            (false, _) => (0, 0),
            (true, true) => (part.4 & ((1 << n(part)) - 1), n(part)),
            (true, false) => (part.4 >> n(part), part.3 - n(part)),
        };
        (step.map(|part| of(&part).0), step.map(|part| of(&part).1))
    }

    fn lanes_of(step: &[Part; LANES]) -> u32 {
        (0..LANES).fold(0, |lanes, lane| lanes | u32::from(step[lane].0) << lane)
    }

    /// Encodes some steps: symbols of two contexts, and bits, with some lanes left out.
    fn string(n_steps: usize) -> (Vec<u8>, impl Fn(usize, usize) -> Part, Vec<u32>) {
        let of = |step: usize, lane: usize| {
            let mixed = (step * 0x9e37 + lane * 0x79b9) ^ (step * lane);
            let n = (mixed % 17) as u32;
            let bits = (mixed as u32).wrapping_mul(0x0131_4159) >> 8 & ((1 << n) - 1);
            (!mixed.is_multiple_of(7), mixed % 2, [3, 3, 3, 0, 9, 9, 131][mixed % 13 % 7], n, bits)
        };
        let mut counts = [[0; MAX_SYMBOLS]; 2];
        (0..n_steps).for_each(|step| {
            (0..LANES).for_each(|lane| {
                let (takes_part, context, symbol, ..) = of(step, lane);
                counts[context][usize::from(symbol)] += u32::from(takes_part);
            });
        });
        let frequencies = counts.map(|counts| Frequencies::new(&counts));
        let mut slots = vec![0; 2 << LOG2_TOTAL];
        let mut memory = vec![0; 4 * LANES * (n_steps + 1)];
        frequencies.iter().zip(slots.chunks_mut(1 << LOG2_TOTAL)).for_each(|(of, slots)| of.fill(slots));
        let mut strings = Isa::all().map(|level| {
            let mut encoder = Encoder::new(&mut memory, level);
            for step in (0..n_steps).rev() {
                let steps: [Part; LANES] = std::array::from_fn(|lane| of(step, lane));
                let (bits, n) = bits_of(&steps, false);
                encoder.bits(&bits, &n);
                let range = |part: Part| frequencies[part.1].ranges()[usize::from(part.2)];
                let (bits, n) = bits_of(&steps, true);
                encoder.symbols(&steps.map(range), lanes_of(&steps), &bits, &n);
            }
            let words = encoder.finish().unwrap();
            let mut bytes = vec![0; 2 * words.len()];
            put_words(words, &mut bytes);
            bytes
        });
        let bytes = strings.next().unwrap();
        assert!(strings.all(|other| other == bytes));
        (bytes, of, slots)
    }

    fn read(
        bytes: &[u8],
        n_steps: usize,
        slots: &[u32],
        mut check: impl FnMut(usize, [u8; LANES], [u32; LANES]),
    ) -> Result<usize> {
        let (_, of, _) = string(0);
        let mut all = Isa::all().map(|level| {
            let mut decoder = Decoder::new(bytes, level)?;
            for step in 0..n_steps {
                let steps: [Part; LANES] = std::array::from_fn(|lane| of(step, lane));
                let contexts = steps.map(|part| (part.1 as u32) << LOG2_TOTAL);
                let symbols = decoder.symbols(slots, &contexts, lanes_of(&steps));
                let (_, first) = bits_of(&steps, true);
                let mut bits = [0; LANES];
                if step % 3 == 0 || first != [0; LANES] {
                    bits = decoder.bits(&first);
                } else {
                    decoder.refill();
                }
                let above = decoder.bits(&bits_of(&steps, false).1);
                for lane in 0..LANES {
                    bits[lane] |= above[lane] << first[lane];
                }
                check(step, symbols, bits);
            }
            decoder.finish()
        });
        let first = all.next().expect("every CPU has a level");
        assert!(all.all(|other| other.as_ref().ok() == first.as_ref().ok()));
        first
    }

    #[test]
    fn symbols_and_bits_come_back() {
        for n_steps in [0, 1, 2, 300] {
            let (mut bytes, of, slots) = string(n_steps);
            let n_bytes = bytes.len();
            bytes.extend([1, 2, 3]);
            let used = read(&bytes, n_steps, &slots, |step, symbols, bits| {
                for lane in 0..LANES {
                    let (takes_part, _, symbol, _, of_lane) = of(step, lane);
                    assert!(!takes_part || (symbols[lane], bits[lane]) == (symbol, of_lane), "{step} {lane}");
                }
            });
            assert_eq!(used.unwrap(), n_bytes);
        }
    }

    #[test]
    fn damage_is_found_or_does_no_harm() {
        let (bytes, _, slots) = string(40);
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at], 40, &slots, |_, _, _| ()).is_err());
            // Damaged plain bits may go unnoticed; this must only not panic.
            let mut other = bytes.clone();
            other[at] ^= 1 << (at % 8);
            let _ = read(&other, 40, &slots, |_, _, _| ());
        }
        assert!(read(&bytes, 40, &vec![u32::MAX; slots.len()], |_, _, _| ()).is_err());
        assert!(read(&bytes, 40, &vec![0; slots.len()], |_, _, _| ()).is_err());
    }

    #[test]
    fn a_string_without_room_is_none() {
        let mut memory = [0; 3];
        for level in Isa::all() {
            let mut encoder = Encoder::new(&mut memory, level);
            (0..8).for_each(|_| encoder.bits(&[1; LANES], &[7; LANES]));
            assert!(encoder.finish().is_none());
        }
    }
}
