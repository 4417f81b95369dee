//! Rows of 32 words: the operations that the loops of stages consist of.
//!
//! Numbers are packed in rows of 32 lanes, and most blocks have rows of 32 elements, so a row is
//! the natural vector. [`Portable`] is an array and leaves vectorization to the compiler; `simd`
//! uses registers. A value that implements [`Simd`] is proof that the CPU has the instructions it
//! uses, so all operations are safe.
//!
//! A loop is written once, as a [`WithSimd`] over any kind of row, and [`dispatch`] compiles it for
//! each level. Everything in it is inlined into a function with the level's instructions. So tasks
//! are plain loops. Iterators and closures would be compiled separately, without those
//! instructions.

mod outlined;
mod portable;
#[cfg(target_arch = "x86_64")]
mod simd;

use crate::cpu::float::Ieee;
use crate::cpu::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::settings::CpuLevel;
pub(crate) use outlined::outlined;
pub use portable::{PORTABLE, Portable};
#[cfg(target_arch = "x86_64")]
pub use simd::SimdWord;

use crate::stage::bits::window;
use crate::stage::element::Element;
use crate::stage::quantize::{Coded, Uniform, any_codes, any_values, lanes_of};
use crate::stage::word::Word;

/// Lanes of a row.
pub const LANES: usize = 32;
/// Bit lengths that are counted together.
pub const LENGTHS: usize = 1024;

/// Maximum number of bytes of four groups of eight numbers, plus eight.
pub const BYTE_GROUPS_ROOM: usize = LANES * 8 + 8;

/// The first `n` of 32 lanes.
#[inline(always)]
pub fn first_lanes(n: usize) -> u32 {
    if n < LANES { (1 << n) - 1 } else { u32::MAX }
}

/// Mask of the lanes whose flags are 1; all other flags are 0. Shifts of the flags would have the
/// same result. But with AVX-512, compilers turn them into masked loads of constants. If a mask is
/// always empty, the page of the constants is never faulted in, and each such load costs the CPU
/// several hundred cycles.
#[inline(always)]
pub fn mask_of(flags: &[u8; LANES]) -> u32 {
    let mut mask = 0;
    for (i, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
        // The product has flag k in bit 56 + k.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= (bits as u32) << (8 * i);
    }
    mask
}

/// Unpacks a row of bit fields, `N` from each window.
#[inline(always)]
fn unpack_fields<W: Word, const N: usize>(from: &[u8], width: u32) -> [W; LANES] {
    let mut row = [W::default(); LANES];
    let mut at = 0;
    for several in row.as_chunks_mut::<N>().0 {
        let bits = window(from, at);
        for (k, field) in (0..).zip(several) {
            *field = W::from_u64(bits >> (k * width)) & W::low_mask(width);
        }
        at += N * width as usize;
    }
    row
}

/// Words that have rows at every level.
#[cfg(not(target_arch = "x86_64"))]
pub trait SimdWord: Word {}
#[cfg(not(target_arch = "x86_64"))]
impl<W: Word> SimdWord for W {}

/// A computation that runs with any kind of row.
pub trait WithSimd<W: Word> {
    type Output;
    /// True if the task is compiled for AVX2 at most, because AVX-512 does not make it faster.
    const UP_TO_AVX2: bool = false;
    /// Runs the task. Implementations must inline everything.
    fn run<S: Simd<W>>(self, s: S) -> Self::Output;
}

/// Runs a task with the instructions of a level and with IEEE 754 arithmetic.
pub fn dispatch<W: SimdWord, T: WithSimd<W>>(level: Isa, task: T) -> T::Output {
    let _ieee = Ieee::begin();
    at_level(level, task)
}

/// As [`dispatch`], but only the tasks that `task` outlines are compiled for each level. For the
/// code of whole blocks, which is large and has its loops in such tasks.
pub fn dispatch_block<W: SimdWord, T: WithSimd<W>>(level: Isa, task: T) -> T::Output {
    let _ieee = Ieee::begin();
    task.run(Portable::new(level))
}

/// Runs a task with the instructions of a level, in a function of its own.
#[allow(unsafe_code)] // functions that need instructions
pub fn at_level<W: SimdWord, T: WithSimd<W>>(level: Isa, task: T) -> T::Output {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is proof that the CPU has its instructions.
        CpuLevel::Avx512 if !T::UP_TO_AVX2 => unsafe { simd::with_avx512(task) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above; AVX-512 includes AVX2.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { simd::with_avx2(task) },
        _ => portable::run(task),
    }
}

/// Receives rows, one after the other.
pub trait RowSink<W: Word, S: Simd<W>> {
    /// Takes the next row.
    fn take(&mut self, s: S, row: S::Row);
}

/// A sink that stores rows in memory.
pub struct Stored<'a, W>(pub &'a mut [W]);

impl<W: Word, S: Simd<W>> RowSink<W, S> for Stored<'_, W> {
    #[inline(always)]
    fn take(&mut self, s: S, row: S::Row) {
        let (to, rest) = std::mem::take(&mut self.0).split_at_mut(LANES);
        s.store(row, to);
        self.0 = rest;
    }
}

/// Prefetches data line by line during other work: if many lines were requested at once, the CPU
/// would wait for the first ones.
pub trait Prefetcher {
    /// Prefetches the next line.
    fn prefetch_next<W: Word, S: Simd<W>>(&mut self, s: S);
}

/// Prefetches nothing.
pub struct NoPrefetch;

impl Prefetcher for NoPrefetch {
    #[inline(always)]
    fn prefetch_next<W: Word, S: Simd<W>>(&mut self, _: S) {}
}

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// A one in every 8, 16 or 32 bits.
const EACH_8: u64 = u64::MAX / 0xff;
const EACH_16: u64 = u64::MAX / 0xffff;
const EACH_32: u64 = u64::MAX / 0xffff_ffff;
/// The lower one of every two fields of 8, 16 or 32 bits.
const LOWER_8: u64 = EACH_16 * 0xff;
const LOWER_16: u64 = EACH_32 * 0xffff;
const LOWER_32: u64 = 0xffff_ffff;

/// The largest of the widths of a row's groups.
#[inline(always)]
fn longest(widths: [u8; LANES / 8]) -> usize {
    let [a, b, c, d] = widths;
    a.max(b).max(c.max(d)).into()
}

/// Maps the word of a float to an integer with the order of the values; its own inverse.
#[inline(always)]
pub fn order_32(word: i32) -> i32 {
    word ^ (word >> 31 & i32::MAX)
}

/// The integer nearest to a value, limited to the range; 0 for NaN.
#[inline(always)]
pub fn nearest(value: f64) -> i64 {
    (value + if value < 0.0 { -0.5 } else { 0.5 }) as i64
}

/// Replaces the numbers of the lanes in these masks.
#[inline(always)]
pub fn put_given(numbers: &mut [i64; VALUES], given: [(u8, i64); 2]) {
    for (lanes, number) in given {
        if lanes > 0 {
            numbers[lanes.trailing_zeros() as usize] = number;
        }
    }
}

/// Number of keys that are searched at once.
pub const KEYS: usize = 16;

/// Number of floats that are converted at once.
pub const VALUES: usize = 8;

/// The lanes of the floats that are converted, each below [`KEYS`].
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Lanes(pub [u64; VALUES]);

/// Number of factors of a dot product.
pub const FACTORS: usize = 12;

/// Operations on keys, on bytes, and on a few floats.
pub trait Keys: Copy {
    /// The dot product in four lanes. Each lane adds products to 0 in ascending order; the result is
    /// (lane 0 + lane 1) + (lane 2 + lane 3).
    fn dot(self, a: &[f64; FACTORS], b: &[f64; FACTORS]) -> f64;
    /// The values of these lanes.
    fn chosen(self, values: &[f64; KEYS], lanes: &Lanes) -> [f64; VALUES];
    /// The words of the chosen values as float32, in the order of values ([`order_32`]) and shifted to
    /// the right by `shift`, which is below 32; 0 for values that are not finite. Results in the masks
    /// of `given` are these numbers instead.
    fn ordered_singles(
        self,
        values: &[f64; KEYS],
        lanes: &Lanes,
        shift: u32,
        given: [(u8, i64); 2],
    ) -> [i64; VALUES];
    /// The integers nearest to the chosen values: those values plus 0.5, or minus 0.5 if they are
    /// negative, cast to i64. `given` as above.
    fn nearest(self, values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES];
    /// The smallest key.
    fn least(self, keys: &[u16; KEYS]) -> u16;
    /// Number of keys that are not above `most`.
    fn not_above(self, keys: &[u16; KEYS], most: u16) -> u32;
    /// Length of the common prefix in bytes.
    fn n_same_bytes(self, a: &[u8; LANES], b: &[u8; LANES]) -> u32;
}

/// Operations on rows of words. In masks, bit j stands for lane j.
pub trait Simd<W: Word>: Keys {
    /// 32 words.
    type Row: Copy;
    /// Partial sums.
    type Sum: Copy;

    /// True if small code is better than fast code: then loops have no special cases, and blocks
    /// are completed in memory before they are stored.
    const IS_SMALL: bool = false;

    /// [`Self::IS_SMALL`] of the rows of outlined tasks.
    #[inline(always)]
    fn is_small(self) -> bool {
        Self::IS_SMALL
    }

    /// Runs a task in a function that all its callers share, with the best instructions. All other
    /// code is inlined into its caller, so a step with several callers is outlined unless it takes
    /// less than about 100 ns. `outlined!` makes tasks of functions.
    fn outlined<T: WithSimd<W>>(self, task: T) -> T::Output;
    /// As [`Simd::outlined`], for a task that is the same for all words, so that it is compiled once.
    fn outlined_for_all_words<T: WithSimd<u64>>(self, task: T) -> T::Output;

    /// A word in all lanes.
    fn splat(self, word: W) -> Self::Row;
    /// The first 32 words.
    fn load(self, from: &[W]) -> Self::Row;
    /// Writes the first 32 words.
    fn store(self, row: Self::Row, to: &mut [W]);
    /// Loads a row from little-endian bytes.
    fn load_bytes(self, from: &[u8]) -> Self::Row;
    /// Like [`Simd::load_bytes`], for a row that is already in registers: `next` if `is_next`, else
    /// `last`.
    #[inline(always)]
    fn reload_bytes(self, from: &[u8], _is_next: bool, _next: Self::Row, _last: Self::Row) -> Self::Row {
        self.load_bytes(from)
    }
    /// Writes the little-endian bytes of a row.
    fn store_bytes(self, row: Self::Row, to: &mut [u8]);
    /// Writes only the bytes of the first `n` words.
    #[inline(always)]
    fn store_some_bytes(self, row: Self::Row, n: usize, to: &mut [u8]) {
        let mut words = [W::default(); LANES];
        self.store(row, &mut words);
        for (word, to) in words[..n].iter().zip(to.chunks_exact_mut(W::BYTES)) {
            word.write(to);
        }
    }

    /// Loads the first 32 elements as words.
    #[inline(always)]
    fn load_elements(self, element: Element, from: &[u8]) -> Self::Row {
        if element.bytes == W::BYTES {
            return self.load_bytes(from);
        }
        let mut words = [W::default(); LANES];
        element.load(&from[..LANES * element.bytes], &mut words);
        self.load(&words)
    }
    /// Writes 32 words as elements.
    #[inline(always)]
    fn store_elements(self, row: Self::Row, element: Element, to: &mut [u8]) {
        if element.bytes == W::BYTES {
            return self.store_bytes(row, to);
        }
        let mut words = [W::default(); LANES];
        self.store(row, &mut words);
        element.store(&words, &mut to[..LANES * element.bytes]);
    }

    fn add(self, a: Self::Row, b: Self::Row) -> Self::Row;
    fn sub(self, a: Self::Row, b: Self::Row) -> Self::Row;
    fn and(self, a: Self::Row, b: Self::Row) -> Self::Row;
    fn or(self, a: Self::Row, b: Self::Row) -> Self::Row;
    fn xor(self, a: Self::Row, b: Self::Row) -> Self::Row;
    /// Products with a word.
    fn mul_scalar(self, a: Self::Row, factor: W) -> Self::Row;
    /// Products of words.
    fn mul(self, a: Self::Row, b: Self::Row) -> Self::Row;
    /// Shifts by `n` bits, at most the bits of a word.
    fn shift_left(self, a: Self::Row, n: u32) -> Self::Row;
    /// Shifts by fewer bits than a word has.
    fn shift_right(self, a: Self::Row, n: u32) -> Self::Row;
    fn shift_right_signed(self, a: Self::Row, n: u32) -> Self::Row;
    /// Shifts every word by its own number of bits. Shifts by the bits of a word, or more, result
    /// in 0.
    fn shift_left_each(self, a: Self::Row, n: Self::Row) -> Self::Row;
    fn shift_right_each(self, a: Self::Row, n: Self::Row) -> Self::Row;
    /// `a` combined by OR with `b` shifted left, by fewer bits than a word has.
    #[inline(always)]
    fn or_shifted(self, a: Self::Row, b: Self::Row, n: u32) -> Self::Row {
        self.or(a, self.shift_left(b, n))
    }
    /// The low words of double words that are shifted right by fewer bits than a word has.
    #[inline(always)]
    fn shift_pair_right(self, low: Self::Row, high: Self::Row, n: u32) -> Self::Row {
        self.or(self.shift_right(low, n), self.shift_left(high, W::BITS - n))
    }
    fn min_signed(self, a: Self::Row, b: Self::Row) -> Self::Row;
    fn max_signed(self, a: Self::Row, b: Self::Row) -> Self::Row;
    /// Zero bits above the highest one.
    fn leading_zeros(self, a: Self::Row) -> Self::Row;
    /// The sum 0.
    fn no_sum(self) -> Self::Sum;
    /// Adds the leading zeros of the words of a mask.
    fn add_leading_zeros(self, sum: Self::Sum, mask: u32, a: Self::Row) -> Self::Sum;
    /// Adds, for every eight words, the leading zeros that all of them have.
    fn add_group_zeros(self, sum: Self::Sum, a: Self::Row) -> Self::Sum;
    /// The whole sum.
    fn total(self, sum: Self::Sum) -> u64;
    /// Mask of the words larger than `limit`, as unsigned numbers.
    fn gt_mask(self, a: Self::Row, limit: W) -> u32;
    /// The words in the lanes of a mask, zeros elsewhere.
    fn select_or_zero(self, mask: u32, a: Self::Row) -> Self::Row;
    /// The words of `a` in the lanes of a mask, those of `b` elsewhere.
    #[inline(always)]
    fn select(self, mask: u32, a: Self::Row, b: Self::Row) -> Self::Row {
        self.or(self.select_or_zero(mask, a), self.select_or_zero(!mask, b))
    }
    /// Moves every word up by one lane; the first lane gets the last word of `before`.
    fn shift_in(self, a: Self::Row, before: Self::Row) -> Self::Row;
    /// Prefix sums: every word plus all words before it.
    fn prefix_sum(self, a: Self::Row) -> Self::Row;
    /// The last word in all lanes.
    fn last(self, a: Self::Row) -> Self::Row;
    /// Replaces the words in the lanes of a mask, each by the word of the nearest lane before it
    /// that is not in the mask. If there is none, the last word of `before` is used.
    #[inline(always)]
    fn fill_forward(self, mask: u32, a: Self::Row, before: Self::Row) -> Self::Row {
        if mask == 0 {
            return a;
        }
        if mask == u32::MAX {
            return self.last(before);
        }
        let mut words = [W::default(); LANES];
        self.store(before, &mut words);
        let mut last = words[LANES - 1];
        self.store(a, &mut words);
        for (i, word) in words.iter_mut().enumerate() {
            last = if mask >> i & 1 == 1 { last } else { *word };
            *word = last;
        }
        self.load(&words)
    }
    /// Multiplies floats by a power of ten and rounds them to integers. Other lanes than those of
    /// the mask are arbitrary.
    ///
    /// `None` unless, in all lanes of the mask, the integer is smaller than `limit` and the float
    /// nearest to its quotient by the power is the original one, bit for bit.
    #[inline(always)]
    fn to_multiples(self, mask: u32, floats: Self::Row, power: f64, limit: f64) -> Option<Self::Row> {
        let mut words = [W::default(); LANES];
        self.store(floats, &mut words);
        let mut i = 0;
        while i < LANES {
            let value = (words[i].to_float() * power).round_ties_even();
            let multiple = W::from_u64(value as i64 as u64);
            // A value that is not finite is not below the limit.
            let is_multiple = value.abs() < limit && W::from_float(multiple.to_i64() as f64 / power) == words[i];
            if mask >> i & 1 == 1 && !is_multiple {
                return None;
            }
            words[i] = multiple;
            i += 1;
        }
        Some(self.load(&words))
    }
    /// The floats nearest to integers divided by a power of ten.
    #[inline(always)]
    fn quotients(self, multiples: Self::Row, power: f64) -> Self::Row {
        let mut words = [W::default(); LANES];
        self.store(multiples, &mut words);
        for word in &mut words {
            *word = W::from_float(word.to_i64() as f64 / power);
        }
        self.load(&words)
    }

    /// Compresses: writes the words of a mask contiguously. May overwrite 32 words of `to`.
    #[inline(always)]
    fn compress(self, mask: u32, a: Self::Row, to: &mut [W]) {
        let mut words = [W::default(); LANES];
        self.store(a, &mut words);
        let mut rest = mask;
        for to in &mut to[..mask.count_ones() as usize] {
            *to = words[rest.trailing_zeros() as usize % LANES];
            rest &= rest - 1;
        }
    }
    /// Expands: puts the first words in the lanes of a mask, zeros elsewhere. `from` has at least
    /// 32 words.
    #[inline(always)]
    fn expand(self, mask: u32, from: &[W]) -> Self::Row {
        let mut words = [W::default(); LANES];
        let mut rest = mask;
        for &from in &from[..mask.count_ones() as usize] {
            words[rest.trailing_zeros() as usize % LANES] = from;
            rest &= rest - 1;
        }
        self.load(&words)
    }
    /// Unpacks contiguous fields of `width` bits, from the first byte on. A word has at least 7
    /// bits more than a field, and `from` has at least the bytes of a row of words.
    #[inline(always)]
    fn unpack_bits(self, from: &[u8], width: u32) -> Self::Row {
        match width {
            0..=14 => self.load(&unpack_fields::<W, 4>(from, width)),
            15..=28 => self.load(&unpack_fields::<W, 2>(from, width)),
            _ => self.load(&unpack_fields::<W, 1>(from, width)),
        }
    }
    /// Writes the bit lengths of whole rows, at most [`LENGTHS`] numbers, in any order; returns the
    /// largest length.
    #[inline(always)]
    fn lengths(self, numbers: &[W], lengths: &mut [u8; LENGTHS]) -> u32 {
        let all_bits = self.splat(W::from_u64(W::BITS.into()));
        let mut any = self.splat(W::default());
        let mut at = 0;
        while at < numbers.len() {
            // Combine the lengths of as many rows as a word has bytes in one row.
            let mut bytes = self.splat(W::default());
            let mut shift = 0;
            let mut row = at;
            while shift < W::BITS && row < numbers.len() {
                let this = self.load(&numbers[row..]);
                any = self.or(any, this);
                bytes = self.or(bytes, self.shift_left(self.sub(all_bits, self.leading_zeros(this)), shift));
                shift += 8;
                row += LANES;
            }
            self.store_bytes(bytes, &mut lengths[at..]);
            at = row;
        }
        self.any(any).bit_length()
    }
    /// Numbers of bytes larger than `limit`, than `limit` + 1, and so on. All bytes are below 128.
    #[inline(always)]
    fn counts_larger(self, bytes: &[u8; LENGTHS], limit: u8) -> [u64; 8] {
        // Neighboring lengths are often equal: with several tables, no increment waits for the one
        // before.
        let mut counts = [[0u16; 128]; 4];
        for four in bytes.as_chunks::<4>().0 {
            for (counts, &byte) in counts.iter_mut().zip(four) {
                counts[usize::from(byte) % 128] += 1;
            }
        }
        let mut sums = [0; 8];
        let mut sum = 0;
        for i in (usize::from(limit) + 1..128).rev() {
            sum += u64::from(counts[0][i] + counts[1][i] + counts[2][i] + counts[3][i]);
            if let Some(at) = sums.get_mut(i - 1 - usize::from(limit)) {
                *at = sum;
            }
        }
        sums
    }
    /// Like [`Simd::compress`], for the byte of each word from bit `start` on.
    #[inline(always)]
    fn compress_low_bytes(self, mask: u32, a: Self::Row, start: u32, to: &mut [u8]) {
        let mut words = [W::default(); LANES];
        self.store(a, &mut words);
        let mut rest = mask;
        for to in &mut to[..mask.count_ones() as usize] {
            *to = (words[rest.trailing_zeros() as usize % LANES] >> start).to_u64() as u8;
            rest &= rest - 1;
        }
    }
    /// Like [`Simd::expand`], from bytes to words.
    #[inline(always)]
    fn expand_low_bytes(self, mask: u32, from: &[u8]) -> Self::Row {
        let mut words = [W::default(); LANES];
        let mut rest = mask;
        for &from in &from[..mask.count_ones() as usize] {
            words[rest.trailing_zeros() as usize % LANES] = W::from_u64(from.into());
            rest &= rest - 1;
        }
        self.load(&words)
    }
    /// Mask of the first 32 bytes that are larger than `limit`.
    #[inline(always)]
    fn gt_mask_bytes(self, bytes: &[u8], limit: u8) -> u32 {
        let mut flags = [0; LANES];
        for (flag, &byte) in flags.iter_mut().zip(&bytes[..LANES]) {
            *flag = u8::from(byte > limit);
        }
        mask_of(&flags)
    }
    /// Like [`Simd::compress`], for the first 32 bytes.
    #[inline(always)]
    fn compress_bytes(self, mask: u32, bytes: &[u8], to: &mut [u8]) {
        let mut rest = mask;
        for to in &mut to[..mask.count_ones() as usize] {
            *to = bytes[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
    }
    /// Combines the bytes of a mask by OR with the next bytes of `from`.
    #[inline(always)]
    fn expand_bytes(self, mask: u32, from: &[u8], to: &mut [u8]) {
        let mut rest = mask;
        for &from in &from[..mask.count_ones() as usize] {
            to[rest.trailing_zeros() as usize] |= from;
            rest &= rest - 1;
        }
    }
    /// Packs the lowest `n` bits of each of eight bytes; `n` is at most 8.
    #[inline(always)]
    fn pext(self, bytes: u64, n: u32) -> u64 {
        // Three times, join every two fields by shifting the upper one down.
        let ones = bytes & (EACH_8 * u64::low_mask(n));
        let upper = ones & !LOWER_8;
        let twos = ones & LOWER_8 | upper >> (8 - n);
        let upper = twos & !LOWER_16;
        let fours = twos & LOWER_16 | upper >> (16 - 2 * n);
        let upper = fours & !LOWER_32;
        fours & LOWER_32 | upper >> (32 - 4 * n)
    }
    /// The inverse of [`Simd::pext`]: unpacks `n` bits to each of eight bytes.
    #[inline(always)]
    fn pdep(self, bits: u64, n: u32) -> u64 {
        let lower = u64::low_mask(4 * n);
        let fours = bits & lower | (bits & (lower << (4 * n))) << (32 - 4 * n);
        let lower = EACH_32 * u64::low_mask(2 * n);
        let twos = fours & lower | (fours & (lower << (2 * n))) << (16 - 2 * n);
        let lower = EACH_16 * u64::low_mask(n);
        twos & lower | (twos & (lower << n)) << (8 - n)
    }
    /// Quantizes floats.
    #[inline(always)]
    fn quantize(self, uniform: &Uniform<W>, floats: Self::Row) -> Coded<Self::Row> {
        match W::first_codes(uniform, &lanes_of(self, floats)) {
            Some(codes) => Coded { codes: self.load(&codes), are_coded: u32::MAX, are_within: u32::MAX },
            None => any_codes(self, uniform, floats),
        }
    }
    /// The floats that codes stand for.
    #[inline(always)]
    fn dequantize(self, uniform: &Uniform<W>, codes: Self::Row) -> Self::Row {
        match W::first_values(uniform, &lanes_of(self, codes)) {
            Some(values) => self.load(&values),
            None => any_values(self, uniform, codes),
        }
    }
    /// Writes the bit length of the longest of every eight numbers, in whole rows.
    #[inline(always)]
    fn group_lengths(self, numbers: &[W], lengths: &mut [u8]) {
        let mut g = 0;
        while g < lengths.len() {
            let mut any = W::default();
            let mut i = 0;
            while i < 8 {
                any |= numbers[8 * g + i];
                i += 1;
            }
            lengths[g] = any.bit_length() as u8;
            g += 1;
        }
    }
    /// Replaces bytes below 128 by their entries in a table. The number of bytes is a multiple of
    /// 64.
    #[inline(always)]
    fn look_up(self, table: &[u8; 128], bytes: &mut [u8]) {
        for byte in bytes {
            *byte = table[usize::from(*byte) % 128];
        }
    }
    /// Packs four groups of eight numbers, each into as many bytes as its width in bits, see
    /// [`byte_groups`](crate::stage::byte_groups). `out` has room for [`BYTE_GROUPS_ROOM`] bytes;
    /// those after the packed ones are arbitrary.
    #[inline(always)]
    fn pack_byte_groups(self, row: Self::Row, widths: [u8; LANES / 8], out: &mut [u8]) {
        let words = lanes_of(self, row);
        let mut parts = [[0; LANES]; 8];
        let longest = longest(widths);
        let mut p = 0;
        while 8 * p < longest {
            let mut i = 0;
            while i < LANES {
                parts[p][i] = (words[i] >> (8 * p) as u32).to_u64() as u8;
                i += 1;
            }
            p += 1;
        }
        let (mut at, mut g) = (0, 0);
        while g < widths.len() {
            let (mut n_bits, mut p) = (usize::from(widths[g]), 0);
            while n_bits > 0 {
                let n = n_bits.min(8);
                let bytes = u64::from_le_bytes(*parts[p][8 * g..].first_chunk().expect("a group"));
                out[at..at + 8].copy_from_slice(&self.pext(bytes, n as u32).to_le_bytes());
                (at, p, n_bits) = (at + n, p + 1, n_bits - n);
            }
            g += 1;
        }
    }
    /// Unpacks four groups of eight numbers. `from` has at least [`BYTE_GROUPS_ROOM`] bytes.
    #[inline(always)]
    fn unpack_byte_groups(self, widths: [u8; LANES / 8], from: &[u8]) -> Self::Row {
        let mut parts = [[0; LANES]; 8];
        let (mut at, mut g) = (0, 0);
        while g < widths.len() {
            let (mut n_bits, mut p) = (usize::from(widths[g]), 0);
            while n_bits > 0 {
                let n = n_bits.min(8);
                let bits = u64::from_le_bytes(*from[at..].first_chunk().expect("eight bytes"));
                let bytes = self.pdep(bits, n as u32);
                parts[p][8 * g..8 * g + 8].copy_from_slice(&bytes.to_le_bytes());
                (at, p, n_bits) = (at + n, p + 1, n_bits - n);
            }
            g += 1;
        }
        let mut words = [W::default(); LANES];
        let longest = longest(widths);
        let mut p = 0;
        while 8 * p < longest {
            let mut i = 0;
            while i < LANES {
                words[i] |= W::from_u64(parts[p][i].into()) << (8 * p) as u32;
                i += 1;
            }
            p += 1;
        }
        self.load(&words)
    }
    /// Prefetches a byte; its address may be invalid.
    #[inline(always)]
    fn prefetch(self, _byte: *const u8) {}

    /// Signed numbers as unsigned ones: 0, −1, 1, −2, … become 0, 1, 2, 3, …
    #[inline(always)]
    fn zigzag(self, a: Self::Row) -> Self::Row {
        self.xor(self.add(a, a), self.shift_right_signed(a, W::BITS - 1))
    }
    /// The inverse of [`Simd::zigzag`].
    #[inline(always)]
    fn unzigzag(self, a: Self::Row) -> Self::Row {
        let zero = self.splat(W::default());
        let odd = self.and(a, self.splat(W::from_u64(1)));
        self.xor(self.shift_right(a, 1), self.sub(zero, odd))
    }
    /// The smallest word, as signed numbers.
    #[inline(always)]
    fn lowest(self, a: Self::Row) -> W {
        let mut words = [W::default(); LANES];
        self.store(a, &mut words);
        let mut lowest = words[0];
        for word in words {
            lowest = lowest.min_max_signed(word).0;
        }
        lowest
    }
    /// The largest word, as signed numbers.
    #[inline(always)]
    fn highest(self, a: Self::Row) -> W {
        let mut words = [W::default(); LANES];
        self.store(a, &mut words);
        let mut highest = words[0];
        for word in words {
            highest = highest.min_max_signed(word).1;
        }
        highest
    }
    /// The bits that are set in any lane.
    #[inline(always)]
    fn any(self, a: Self::Row) -> W {
        let mut words = [W::default(); LANES];
        self.store(a, &mut words);
        let mut any = W::default();
        for word in words {
            any |= word;
        }
        any
    }
}

#[cfg(test)]
mod tests;
