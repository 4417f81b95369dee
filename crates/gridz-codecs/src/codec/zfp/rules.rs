//! What a writer does to a block before it is coded, and which elements it then keeps exactly: all for which the stream
//! would have another value than was asked for.

use crate::codec::zfp::block::{BitWriter, GROUP, Scalar, Value, encode, encode_checked, tiny_limit};
use crate::codec::zfp::elements::pad;
use crate::codec::zfp::exceptions::Found;
use crate::codec::zfp::layout::{Block, Layout};
use crate::codec::zfp::numbers::Numbers;
use crate::cpu::level::Level;
use crate::stage::missing::MissingWords;
use crate::stage::rows::RowWord;
use crate::stage::word::Word;

/// Elements that are compared with what a decoder makes of them.
pub trait Checked: Value + Scalar<Word: RowWord> {
    /// Significant bits of a float.
    const SIGNIFICANT_BITS: i32;

    /// A bound, rounded down to such a float.
    fn bound(bound: f64) -> Self;
    /// Whether the difference of two floats, rounded to such a float, is below a bound.
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

macro_rules! integer {
    ($integer:ty) => {
        impl Checked for $integer {
            const SIGNIFICANT_BITS: i32 = 0;

            fn bound(_: f64) -> Self {
                0
            }
            #[inline(always)]
            fn is_within(self, other: Self, _: Self) -> bool {
                self == other
            }
        }
    };
}

integer!(i32);
integer!(i64);

/// Memory for the work on blocks, one after the other; what is in it does not matter.
pub struct Scratch<T> {
    /// Elements as they are coded, where these are others.
    replaced: [T; GROUP],
    /// What a decoder makes of them.
    decoded: [T; GROUP],
}

impl<T: Scalar> Scratch<T> {
    /// Some of it.
    pub fn new() -> Self {
        Self { replaced: [T::default(); GROUP], decoded: [T::default(); GROUP] }
    }
}

/// The rules for all blocks of an array.
pub struct Rules<'a, T: Checked> {
    layout: &'a Layout,
    numbers: Numbers,
    level: Level,
    /// What elements are measured by that reaches this is left out.
    limit: T::Word,
    /// Blocks without an element that reaches this are coded as zeros.
    tiny: T::Word,
    /// The bound that is kept, if one is.
    bound: Option<T>,
    missing: Option<&'a MissingWords<T::Word>>,
}

impl<'a, T: Checked> Rules<'a, T> {
    /// For blocks that are cut by these numbers, a bound that is to be kept, and missing words.
    pub fn new(
        layout: &'a Layout,
        numbers: Numbers,
        level: Level,
        bound: Option<f64>,
        missing: Option<&'a MissingWords<T::Word>>,
    ) -> Self {
        let limit = match bound {
            _ if !T::IS_FLOAT => T::Word::from_u64(1) << (T::Word::BITS - 1),
            // Even the smallest float reaches a power of two below it.
            Some(_) => T::power(numbers.minexp + T::SIGNIFICANT_BITS + 1).word().max(T::Word::from_u64(1)),
            // Infinity.
            None => T::power(T::BIAS + 1).word(),
        };
        Self { layout, numbers, level, limit, tiny: tiny_limit::<T>(), bound: bound.map(T::bound), missing }
    }

    /// What an element is measured by.
    #[inline(always)]
    fn measure(element: T) -> T::Word {
        if T::IS_FLOAT {
            element.magnitude()
        } else {
            // From −2^(W−2) on to below 2^(W−2) there are 2^(W−1) integers.
            element.word().plus(T::Word::from_u64(1) << (T::Word::BITS - 2))
        }
    }

    /// Whether an element is left out of the stream.
    #[inline(always)]
    fn is_left_out(&self, element: T) -> bool {
        Self::measure(element) >= self.limit || self.is_missing(element)
    }

    #[inline(always)]
    fn is_missing(&self, element: T) -> bool {
        self.missing.is_some_and(|missing| missing.has(element.word()))
    }

    /// Whether any of some elements is missing.
    #[inline(always)]
    fn has_missing(&self, elements: &[T]) -> bool {
        let Some(missing) = self.missing else { return false };
        let has = |fill: T::Word| elements.iter().fold(false, |any, element| any | (element.word() == fill));
        missing.fills().iter().any(|&fill| has(fill))
            || missing.has_range() && elements.iter().fold(false, |any, element| any | missing.has(element.word()))
    }

    /// Whether elements are those of a block that is coded as zeros.
    #[inline(always)]
    fn is_tiny(&self, elements: &[T]) -> bool {
        T::IS_FLOAT && elements.iter().all(|element| element.magnitude() < self.tiny)
    }

    /// Encodes the blocks of a group with their padding; their bits. Exceptions are found, of which the first place in the
    /// section is `start`.
    #[inline(always)]
    pub fn encode(
        &self,
        blocks: &[Block],
        elements: &[T],
        out: &mut BitWriter,
        scratch: &mut Scratch<T>,
        (found, start): (&mut Found, usize),
    ) -> u32 {
        let (rank, numbers, n) = (self.layout.rank(), &self.numbers, self.layout.block_elements());
        if numbers.is_reversible() {
            return encode(self.level, rank, numbers, elements, out);
        }
        let replaced = &mut scratch.replaced[..elements.len()];
        // One look at all elements; most groups need no other.
        let (mut least, mut most) = (!T::Word::default(), T::Word::default());
        for &element in elements {
            let measure = Self::measure(element);
            (least, most) = (least.min(measure), most.max(measure));
        }
        let has_left_out = most >= self.limit || self.has_missing(elements);
        let mut coded = elements;
        if has_left_out {
            self.replace(blocks, elements, replaced);
            coded = replaced;
        }
        let may_be_tiny = T::IS_FLOAT && (has_left_out || least < self.tiny);
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
            let n_bits = encode(self.level, rank, numbers, coded, out);
            if has_left_out || has_tiny {
                self.find(blocks, elements, [coded, coded], found, start);
            }
            return n_bits;
        }
        let decoded = &mut scratch.decoded[..elements.len()];
        let n_bits = encode_checked(self.level, rank, numbers, coded, out, decoded);
        let all = elements.iter().zip(coded).zip(&*decoded);
        let has_exceptions = all
            .fold(false, |any, ((&element, &coded), &value)| any | self.is_off(element, coded, value))
            || self.has_missing(decoded);
        // What is padding here may be none of them; that is looked at where there may be some.
        if has_left_out || has_exceptions {
            self.find(blocks, elements, [coded, decoded], found, start);
        }
        n_bits
    }

    /// Whether an element that is not left out is not what a decoder makes of it, or may not be that.
    #[inline(always)]
    fn is_off(&self, element: T, coded: T, decoded: T) -> bool {
        match self.bound {
            Some(bound) => !element.is_within(decoded, bound),
            // It has become 0 in a tiny block.
            None => element.magnitude() != T::Word::default() && coded.magnitude() == T::Word::default(),
        }
    }

    /// Writes the elements of blocks as they are coded: those that are left out like the one before them in their block that
    /// is not, or else like the first one that is not.
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

    /// Finds the exceptions among the elements of blocks, which are coded so and decoded so.
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
