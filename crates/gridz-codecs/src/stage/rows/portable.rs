//! Rows as arrays, for every CPU.

use crate::cpu::isa::Isa;
use crate::stage::rows::{
    FACTORS, KEYS, Keys, LANES, Lanes, Simd, VALUES, WithSimd, mask_of, nearest, order_32, put_given,
};
use crate::stage::word::Word;

/// The kind of row that every CPU supports. Outlined tasks run with the instructions of a level.
#[derive(Clone, Copy)]
pub struct Portable(Isa);

/// Portable rows, also in outlined tasks.
pub const PORTABLE: Portable = Portable(Isa::PORTABLE);

impl Portable {
    /// Portable rows for code that outlines its loops, which run with the instructions of `level`.
    pub fn new(level: Isa) -> Self {
        Self(level)
    }
}

/// A row with the value of `$word` for every lane `$lane`.
macro_rules! each {
    ($lane:ident => $word:expr) => {{
        let mut row = [W::default(); LANES];
        for $lane in 0..LANES {
            row[$lane] = $word;
        }
        row
    }};
}

/// Runs a task in a function of its own.
#[inline(never)]
pub fn run<W: Word, T: WithSimd<W>>(task: T) -> T::Output {
    task.run(PORTABLE)
}

impl Keys for Portable {
    #[inline(always)]
    fn dot(self, a: &[f64; FACTORS], b: &[f64; FACTORS]) -> f64 {
        let mut sums = [0.0; 4];
        for k in 0..FACTORS {
            sums[k % 4] += a[k] * b[k];
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    #[inline(always)]
    fn chosen(self, values: &[f64; KEYS], lanes: &Lanes) -> [f64; VALUES] {
        lanes.0.map(|lane| values[lane as usize % KEYS])
    }

    #[inline(always)]
    fn ordered_singles(
        self,
        values: &[f64; KEYS],
        lanes: &Lanes,
        shift: u32,
        given: [(u8, i64); 2],
    ) -> [i64; VALUES] {
        let mut ordered = self.chosen(values, lanes).map(|value| {
            let value = value as f32;
            if value.is_finite() { i64::from(order_32(value.to_bits() as i32) >> shift) } else { 0 }
        });
        put_given(&mut ordered, given);
        ordered
    }

    #[inline(always)]
    fn nearest(self, values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES] {
        let mut numbers = self.chosen(values, lanes).map(nearest);
        put_given(&mut numbers, given);
        numbers
    }

    #[inline(always)]
    fn least(self, keys: &[u16; KEYS]) -> u16 {
        let mut least = keys[0];
        for &key in keys {
            least = least.min(key);
        }
        least
    }

    #[inline(always)]
    fn not_above(self, keys: &[u16; KEYS], most: u16) -> u32 {
        keys.iter().map(|&key| u32::from(key <= most)).sum()
    }

    #[inline(always)]
    fn n_same_bytes(self, a: &[u8; LANES], b: &[u8; LANES]) -> u32 {
        let (mut n, parts) = (0, a.as_chunks().0.iter().zip(b.as_chunks().0));
        for (a, b) in parts {
            let n_same = (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)).trailing_zeros() / u8::BITS;
            n += n_same;
            if n_same < 8 {
                break;
            }
        }
        n
    }
}

impl<W: Word> Simd<W> for Portable {
    type Row = [W; LANES];
    type Sum = u64;

    // On x86-64, only CPUs before 2013 and tests use this level.
    const IS_SMALL: bool = cfg!(target_arch = "x86_64");

    #[inline(always)]
    fn is_small(self) -> bool {
        <Self as Simd<W>>::IS_SMALL && self.0 == Isa::PORTABLE
    }
    #[inline(always)]
    fn outlined<T: WithSimd<W>>(self, task: T) -> T::Output {
        W::at_level(self.0, task)
    }
    #[inline(always)]
    fn outlined_for_all_words<T: WithSimd<u64>>(self, task: T) -> T::Output {
        u64::at_level(self.0, task)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn splat(self, word: W) -> Self::Row {
        [word; LANES]
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn load(self, from: &[W]) -> Self::Row {
        *from.first_chunk().expect("a row")
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn store(self, row: Self::Row, to: &mut [W]) {
        *to.first_chunk_mut().expect("room for a row") = row;
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn load_bytes(self, from: &[u8]) -> Self::Row {
        let from = &from[..LANES * W::BYTES];
        each!(i => W::read(&from[i * W::BYTES..]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn store_bytes(self, row: Self::Row, to: &mut [u8]) {
        for (word, to) in row.iter().zip(to[..LANES * W::BYTES].chunks_exact_mut(W::BYTES)) {
            word.write(to);
        }
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn add(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i].wrapping_add(b[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn sub(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i].wrapping_sub(b[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn and(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i] & b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn or(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i] | b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn xor(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i] ^ b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn mul_scalar(self, a: Self::Row, factor: W) -> Self::Row {
        each!(i => a[i].wrapping_mul(factor))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn mul(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i].wrapping_mul(b[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn shift_left(self, a: Self::Row, n: u32) -> Self::Row {
        each!(i => a[i] << (n / 2) << (n - n / 2))
    }
    #[inline(never)] // inlined, the words are carried through the loop one by one, not as vectors
    fn or_shifted(self, a: Self::Row, b: Self::Row, n: u32) -> Self::Row {
        each!(i => a[i] | b[i] << n)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn shift_right(self, a: Self::Row, n: u32) -> Self::Row {
        each!(i => a[i] >> n)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn shift_right_signed(self, a: Self::Row, n: u32) -> Self::Row {
        each!(i => a[i].shift_signed(n))
    }
    #[inline(never)] // as above
    fn shift_left_each(self, a: Self::Row, n: Self::Row) -> Self::Row {
        let bits = W::from_u64(W::BITS.into());
        each!(i => if n[i] < bits { a[i] << n[i].to_u64() as u32 } else { W::default() })
    }
    #[inline(never)] // as above
    fn shift_right_each(self, a: Self::Row, n: Self::Row) -> Self::Row {
        let bits = W::from_u64(W::BITS.into());
        each!(i => if n[i] < bits { a[i] >> n[i].to_u64() as u32 } else { W::default() })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn min_signed(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i].min_max_signed(b[i]).0)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn max_signed(self, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => a[i].min_max_signed(b[i]).1)
    }
    #[inline(never)] // as above
    fn leading_zeros(self, a: Self::Row) -> Self::Row {
        each!(i => W::from_u64(a[i].leading_zeros().into()))
    }
    #[inline(always)]
    fn no_sum(self) -> u64 {
        0
    }
    #[inline(never)] // as above
    fn add_leading_zeros(self, mut sum: u64, mask: u32, a: Self::Row) -> u64 {
        for (i, word) in a.iter().enumerate() {
            sum += u64::from(word.leading_zeros() * (mask >> i & 1));
        }
        sum
    }
    #[inline(never)] // as above
    fn add_group_zeros(self, mut sum: u64, a: Self::Row) -> u64 {
        for eight in a.as_chunks::<8>().0 {
            let any = eight.iter().fold(W::default(), |any, &word| any | word);
            sum += u64::from(any.leading_zeros());
        }
        sum
    }
    #[inline(always)]
    fn total(self, sum: u64) -> u64 {
        sum
    }
    #[inline(never)] // as above
    fn gt_mask(self, a: Self::Row, limit: W) -> u32 {
        let mut flags = [0; LANES];
        for (flag, &word) in flags.iter_mut().zip(&a) {
            *flag = u8::from(word > limit);
        }
        mask_of(&flags)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn select_or_zero(self, mask: u32, a: Self::Row) -> Self::Row {
        each!(i => if mask >> i & 1 == 1 { a[i] } else { W::default() })
    }
    #[inline(never)] // as above
    fn select(self, mask: u32, a: Self::Row, b: Self::Row) -> Self::Row {
        each!(i => if mask >> i & 1 == 1 { a[i] } else { b[i] })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn shift_in(self, a: Self::Row, before: Self::Row) -> Self::Row {
        each!(i => if i == 0 { before[LANES - 1] } else { a[i - 1] })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn prefix_sum(self, a: Self::Row) -> Self::Row {
        let mut sum = W::default();
        each!(i => {
            sum = sum.wrapping_add(a[i]);
            sum
        })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn last(self, a: Self::Row) -> Self::Row {
        [a[LANES - 1]; LANES]
    }
}
