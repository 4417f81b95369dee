//! The writer's processing of a block before it is coded, and its choice of elements to store
//! exactly: those that the stream would not reproduce as requested.

use crate::codec::zfp::block::{BitWriter, GROUP, Parameters, Scalar, Value, encode, tiny_limit};
use crate::codec::zfp::elements::pad;
use crate::codec::zfp::exceptions::Found;
use crate::codec::zfp::layout::{Block, Layout};
use crate::codec::zfp::numbers::Numbers;
use crate::cpu::isa::Isa;
use crate::stage::missing::MissingWords;
use crate::stage::rows::SimdWord;
use crate::stage::word::Word;

/// Elements that can be compared with their decoded values.
pub trait Checked: Value<Word: SimdWord> {
    /// Significant bits of a float.
    const SIGNIFICANT_BITS: i32;

    /// Converts a bound, rounding down.
    fn bound(bound: f64) -> Self;
    /// True if the difference of two floats, rounded to their type, is below a bound.
    fn is_within(self, other: Self, bound: Self) -> bool;
}

macro_rules! float {
    ($float:ident) => {
        impl Checked for $float {
            const SIGNIFICANT_BITS: i32 = $float::MANTISSA_DIGITS as i32;

            fn bound(bound: f64) -> Self {
                let nearest = bound as Self;
                if f64::from(nearest) > bound { nearest.next_down() } else { nearest }
            }
            #[inline(always)]
            fn is_within(self, other: Self, bound: Self) -> bool {
                (self - other).abs() < bound
            }
        }
    };
}

float!(f32);
float!(f64);

/// Scratch memory for blocks. Its contents between blocks are arbitrary.
pub struct Scratch<T> {
    /// The elements to code, if they differ from the original ones.
    replaced: [T; GROUP],
    /// The elements as a decoder restores them.
    decoded: [T; GROUP],
}

impl<T: Scalar> Scratch<T> {
    /// Zeroed scratch memory.
    pub fn new() -> Self {
        Self { replaced: [T::default(); GROUP], decoded: [T::default(); GROUP] }
    }
}

/// The rules for all blocks of an array.
pub struct Rules<'a, T: Checked> {
    layout: &'a Layout,
    numbers: Numbers,
    level: Isa,
    are_integers: bool,
    /// An element's measure is its word, masked with the first of these, plus the second: the
    /// magnitude of a float; for the 2^(W−1) integers from −2^(W−2) to below 2^(W−2), less than
    /// 2^(W−1).
    of_measure: [T::Word; 2],
    /// Elements whose measure reaches this are left out of the stream.
    limit: T::Word,
    /// Blocks are coded as zeros if no element's measure reaches this.
    tiny: T::Word,
    /// The bound in force, if any.
    bound: Option<T>,
    missing: Option<&'a MissingWords<T::Word>>,
}

impl<'a, T: Checked> Rules<'a, T> {
    /// The rules for blocks with these parameters, a bound to observe, and missing words.
    pub fn new(
        layout: &'a Layout,
        (numbers, are_integers): (Numbers, bool),
        level: Isa,
        bound: Option<f64>,
        missing: Option<&'a MissingWords<T::Word>>,
    ) -> Self {
        let bit = |k: u32| T::Word::from_u64(1) << k;
        let of_measure = match are_integers {
            true => [!T::Word::default(), bit(T::Word::BITS - 2)],
            false => [!bit(T::Word::BITS - 1), T::Word::default()],
        };
        let limit = match bound {
            _ if are_integers => bit(T::Word::BITS - 1),
            // Even the smallest float reaches a power of two below it.
            Some(_) => T::power(numbers.minexp + T::SIGNIFICANT_BITS + 1).word().max(bit(0)),
            // Infinity.
            None => T::power(T::BIAS + 1).word(),
        };
        let tiny = if are_integers { T::Word::default() } else { tiny_limit::<T>() };
        let bound = bound.map(T::bound);
        Self { layout, numbers, level, are_integers, of_measure, limit, tiny, bound, missing }
    }

    /// The quantity of an element that is compared with the limits.
    #[inline(always)]
    fn measure(&self, element: T) -> T::Word {
        let [mask, offset] = self.of_measure;
        (element.word() & mask).wrapping_add(offset)
    }

    /// True if an element is left out of the stream.
    #[inline(always)]
    fn is_left_out(&self, element: T) -> bool {
        self.measure(element) >= self.limit || self.is_missing(element)
    }

    #[inline(always)]
    fn is_missing(&self, element: T) -> bool {
        self.missing.is_some_and(|missing| missing.has(element.word()))
    }

    /// True if any of the elements is missing.
    #[inline(always)]
    fn has_missing(&self, elements: &[T]) -> bool {
        let Some(missing) = self.missing else { return false };
        let has = |fill: T::Word| elements.iter().fold(false, |any, element| any | (element.word() == fill));
        missing.fills().iter().any(|&fill| has(fill))
            || missing.has_range() && elements.iter().fold(false, |any, element| any | missing.has(element.word()))
    }

    /// True if these are the elements of a block that is coded as zeros.
    #[inline(always)]
    fn is_tiny(&self, elements: &[T]) -> bool {
        !self.are_integers && elements.iter().all(|element| element.magnitude() < self.tiny)
    }

    /// Encodes the blocks of a group, with their padding, and returns their bits. Records
    /// exceptions; the group's first position in the section is `start`.
    #[inline(always)]
    pub fn encode(
        &self,
        blocks: &[Block],
        elements: &[T],
        out: &mut BitWriter,
        scratch: &mut Scratch<T>,
        (found, start): (&mut Found, usize),
    ) -> u32 {
        let (rank, n) = (self.layout.rank(), self.layout.block_elements());
        let numbers = &Parameters { numbers: &self.numbers, are_integers: self.are_integers };
        if numbers.is_reversible() {
            return encode(self.level, rank, numbers, elements, out, None);
        }
        let replaced = &mut scratch.replaced[..elements.len()];
        // One pass over all elements; most groups need no other.
        let (mut least, mut most) = (!T::Word::default(), T::Word::default());
        for &element in elements {
            let measure = self.measure(element);
            (least, most) = (least.min(measure), most.max(measure));
        }
        let has_left_out = most >= self.limit || self.has_missing(elements);
        let mut coded = elements;
        if has_left_out {
            self.replace(blocks, elements, replaced);
            coded = replaced;
        }
        let may_be_tiny = !self.are_integers && (has_left_out || least < self.tiny);
        let has_tiny = may_be_tiny && coded.chunks_exact(n).any(|elements| self.is_tiny(elements));
        if has_tiny {
            if !has_left_out {
                replaced.copy_from_slice(elements);
            }
            replaced
                .chunks_exact_mut(n)
                .filter(|elements| self.is_tiny(elements))
                .for_each(|tiny| tiny.fill(T::default()));
            coded = replaced;
        }
        if self.bound.is_none() && self.missing.is_none() {
            let n_bits = encode(self.level, rank, numbers, coded, out, None);
            if has_left_out || has_tiny {
                self.find(blocks, elements, [coded, coded], found, start);
            }
            return n_bits;
        }
        let decoded = &mut scratch.decoded[..elements.len()];
        let n_bits = encode(self.level, rank, numbers, coded, out, Some(&mut *decoded));
        let all = elements.iter().zip(coded).zip(&*decoded);
        let has_exceptions = all
            .fold(false, |any, ((&element, &coded), &value)| any | self.is_off(element, coded, value))
            || self.has_missing(decoded);
        // Padding cannot be an exception. That is checked only if there may be exceptions.
        if has_left_out || has_exceptions {
            self.find(blocks, elements, [coded, decoded], found, start);
        }
        n_bits
    }

    /// True if the decoded value of an element that is in the stream is wrong, or might be.
    #[inline(always)]
    fn is_off(&self, element: T, coded: T, decoded: T) -> bool {
        match self.bound {
            Some(_) if self.are_integers => element.word() != decoded.word(),
            Some(bound) => !element.is_within(decoded, bound),
            // It became 0 in a tiny block.
            None => {
                let zero = T::Word::default();
                !self.are_integers && element.magnitude() != zero && coded.magnitude() == zero
            }
        }
    }

    /// Writes the elements of blocks as they are to be coded. An element that is left out is
    /// replaced by the previous coded element of its block, or else by the first one.
    #[inline(never)]
    fn replace(&self, blocks: &[Block], elements: &[T], replaced: &mut [T]) {
        let n = self.layout.block_elements();
        for (block, (elements, replaced)) in blocks.iter().zip(elements.chunks(n).zip(replaced.chunks_mut(n))) {
            let is_coded = |i: usize, element: T| block.has(i) && !self.is_left_out(element);
            let first = elements.iter().enumerate().find(|&(i, &element)| is_coded(i, element));
            let mut last = first.map_or(T::default(), |(_, &first)| first);
            for (i, (replaced, &element)) in replaced.iter_mut().zip(elements).enumerate() {
                if is_coded(i, element) {
                    last = element;
                }
                *replaced = last;
            }
            pad(self.layout, block, replaced);
        }
    }

    /// Finds the exceptions among the elements of blocks, given their coded and decoded values.
    #[inline(never)]
    fn find(&self, blocks: &[Block], elements: &[T], [coded, decoded]: [&[T]; 2], found: &mut Found, start: usize) {
        let n = self.layout.block_elements();
        for (i, &element) in elements.iter().enumerate() {
            let is_exception = self.is_left_out(element)
                || self.is_off(element, coded[i], decoded[i])
                || self.is_missing(decoded[i]);
            if is_exception && blocks[i / n].has(i % n) {
                found.push(start + i, element.word());
            }
        }
    }
}
