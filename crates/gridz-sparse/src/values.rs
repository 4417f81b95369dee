//! Coding of values (plain, constant, dictionary or blocks), and the choice among these codecs.
#![allow(unsafe_code, reason = "vector instructions, and the loads between them")]

use std::collections::HashMap;

use crate::access::AnyValues;
use crate::element::Element;
use crate::frame::View;
use crate::layout::{LANES, Slice, ValueBlock, ValueCodec};
#[cfg(target_arch = "x86_64")]
use crate::simd::load_codes;
use gridz_codecs::cpu::pages::fetch_ahead;
use gridz_codecs::error::{Error, Result, try_reserve, try_vec};

/// The values of slices, read in steps of 32.
pub trait Values<T>: Copy + Send + Sync {
    /// Parameters of a slice.
    type OfSlice: Copy;
    /// The parameters of slice `i`.
    fn of_slice(&self, i: usize, slice: &Slice) -> Self::OfSlice;
    /// The values of a step of the slice.
    fn step(&self, of: Self::OfSlice, step: usize) -> [T; LANES];
    /// The same values, as the type for all codecs.
    fn any(&self) -> AnyValues<'_, T>;
    /// The values of a step, as vectors.
    ///
    /// # Safety
    /// The caller must be compiled for AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn vectors(&self, of: Self::OfSlice, step: usize) -> [T::Vector; 2]
    where
        T: Element,
    {
        let values = self.step(of, step);
        // SAFETY: there are 32 values.
        unsafe { [T::load(values.as_ptr()), T::load(values.as_ptr().add(LANES / 2))] }
    }
}

/// The 32 elements of a step that begins with `bytes`.
#[inline(always)]
fn elements<T: Element>(bytes: &[u8]) -> [T; LANES] {
    let bytes = &bytes[..LANES * T::BYTES];
    let mut found = [T::default(); LANES];
    for (lane, found) in found.iter_mut().enumerate() {
        *found = T::read(&bytes[lane * T::BYTES..]);
    }
    found
}

/// See [`ValueCodec::Plain`].
#[derive(Clone, Copy)]
pub struct Plain<'a>(pub &'a [u8]);

impl<T: Element> Values<T> for Plain<'_> {
    type OfSlice = usize;

    fn any(&self) -> AnyValues<'_, T> {
        AnyValues::Plain(*self)
    }

    #[inline(always)]
    fn of_slice(&self, _: usize, slice: &Slice) -> usize {
        slice.values_at as usize
    }

    #[inline(always)]
    fn step(&self, of: usize, step: usize) -> [T; LANES] {
        let values = &self.0[(of + step) * LANES * T::BYTES..];
        fetch_ahead(&values[..LANES * T::BYTES]);
        elements(values)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn vectors(&self, of: usize, step: usize) -> [T::Vector; 2] {
        let values = &self.0[(of + step) * LANES * T::BYTES..][..LANES * T::BYTES];
        fetch_ahead(values);
        let values = values.as_ptr().cast::<T>();
        // SAFETY: there are 32 values, in little-endian order like this machine's; loads need no
        // alignment.
        unsafe { [T::load(values), T::load(values.add(LANES / 2))] }
    }
}

/// See [`ValueCodec::Constant`].
#[derive(Clone, Copy)]
pub struct Constant<T>(pub T);

impl<T: Element> Values<T> for Constant<T> {
    type OfSlice = ();

    fn any(&self) -> AnyValues<'_, T> {
        AnyValues::Constant(self.0)
    }

    #[inline(always)]
    fn of_slice(&self, _: usize, _: &Slice) {}

    #[inline(always)]
    fn step(&self, (): (), _: usize) -> [T; LANES] {
        [self.0; LANES]
    }
}

/// See [`ValueCodec::Dictionary8`] and [`ValueCodec::Dictionary16`]: indices of `W` bytes into a
/// table with an entry for each index.
#[derive(Clone, Copy)]
pub struct Dictionary<'a, T, const W: usize> {
    codes: &'a [u8],
    table: &'a [T],
    /// True if all indices are below 16.
    is_short: bool,
}

impl<'a, T: Element, const W: usize> Dictionary<'a, T, W> {
    /// Takes a table from [`Dictionary::table`], with an entry for every index of `W` bytes.
    pub fn new(view: &View<'a>, table: &'a [T]) -> Self {
        assert_eq!(table.len(), 1 << (8 * W), "an entry for every number");
        Self { codes: view.values(), table, is_short: view.head.n_different <= LANES / 2 && W == 1 }
    }

    /// The indices of a step.
    #[inline(always)]
    fn codes_of(&self, of: usize, step: usize) -> &'a [u8] {
        let codes = &self.codes[(of + step) * LANES * W..][..LANES * W];
        fetch_ahead(codes);
        codes
    }

    /// The table; unused entries are 0.
    pub fn table(view: &View) -> Result<Vec<T>> {
        let n = 1 << (8 * W);
        let mut table = try_vec(n, "values")?;
        table.extend((0..view.head.n_different).map(|i| view.different::<T>(i)));
        table.resize(n, T::default());
        Ok(table)
    }
}

impl<T: Element, const W: usize> Values<T> for Dictionary<'_, T, W> {
    type OfSlice = usize;

    fn any(&self) -> AnyValues<'_, T> {
        let (codes, table, is_short) = (self.codes, self.table, self.is_short);
        match W {
            1 => AnyValues::Dictionary8(Dictionary { codes, table, is_short }),
            _ => AnyValues::Dictionary16(Dictionary { codes, table, is_short }),
        }
    }

    #[inline(always)]
    fn of_slice(&self, _: usize, slice: &Slice) -> usize {
        slice.values_at as usize
    }

    #[inline(always)]
    fn step(&self, of: usize, step: usize) -> [T; LANES] {
        let codes = self.codes_of(of, step);
        let mut found = [T::default(); LANES];
        // The table has an entry for every index, so no bounds checks are needed.
        if W == 1 {
            let table: &[T; 1 << 8] = self.table.try_into().expect("made so long");
            for (found, &code) in found.iter_mut().zip(codes) {
                *found = table[usize::from(code)];
            }
            return found;
        }
        let table: &[T; 1 << 16] = self.table.try_into().expect("made so long");
        for (lane, found) in found.iter_mut().enumerate() {
            *found = table[usize::from(u16::from_le_bytes([codes[lane * W], codes[lane * W + W - 1]]))];
        }
        found
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn vectors(&self, of: usize, step: usize) -> [T::Vector; 2] {
        let codes = self.codes_of(of, step);
        let all = u16::MAX;
        // SAFETY: there are as many codes as lanes, and the table has an entry for each index.
        unsafe {
            let low = load_codes::<W>(codes.as_ptr(), all);
            let high = load_codes::<W>(codes.as_ptr().add(LANES / 2 * W), all);
            let table = self.table.as_ptr();
            match self.is_short {
                true => [T::pick(T::load(table), low), T::pick(T::load(table), high)],
                false => [T::gather(all, table, low), T::gather(all, table, high)],
            }
        }
    }
}

/// See [`ValueCodec::Blocks`].
#[derive(Clone, Copy)]
pub struct Blocks<'a>(pub View<'a>);

impl<T: Element> Values<T> for Blocks<'_> {
    type OfSlice = ValueBlock;

    fn any(&self) -> AnyValues<'_, T> {
        AnyValues::Blocks(*self)
    }

    #[inline(always)]
    fn of_slice(&self, i: usize, _: &Slice) -> ValueBlock {
        self.0.block(i)
    }

    #[inline(always)]
    fn step(&self, of: ValueBlock, step: usize) -> [T; LANES] {
        let numbers = self.numbers(&of, step);
        match of.width {
            0 => [T::from_bits(of.first); LANES],
            1 => decode::<T, 1>(&of, numbers),
            2 => decode::<T, 2>(&of, numbers),
            3 => decode::<T, 3>(&of, numbers),
            4 => decode::<T, 4>(&of, numbers),
            6 => decode::<T, 6>(&of, numbers),
            _ => decode::<T, 8>(&of, numbers),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn vectors(&self, of: ValueBlock, step: usize) -> [T::Vector; 2] {
        let numbers = self.numbers(&of, step);
        let (low, high) = numbers.split_at(numbers.len() / 2);
        // SAFETY: both have 16 numbers, of a width that has been checked.
        unsafe {
            [
                T::of_numbers(low.as_ptr(), of.width, of.shift, of.first),
                T::of_numbers(high.as_ptr(), of.width, of.shift, of.first),
            ]
        }
    }
}

impl<'a> Blocks<'a> {
    /// The numbers of a step.
    #[inline(always)]
    fn numbers(&self, of: &ValueBlock, step: usize) -> &'a [u8] {
        let n_bytes = LANES * usize::from(of.width);
        let numbers = &self.0.values()[of.at as usize + step * n_bytes..][..n_bytes];
        fetch_ahead(numbers);
        numbers
    }
}

#[inline(always)]
fn decode<T: Element, const W: usize>(of: &ValueBlock, numbers: &[u8]) -> [T; LANES] {
    let numbers = &numbers[..LANES * W];
    let mut found = [T::default(); LANES];
    for (lane, found) in found.iter_mut().enumerate() {
        let mut number = [0; 8];
        number[..W].copy_from_slice(&numbers[lane * W..][..W]);
        *found = T::from_bits(of.first.wrapping_add(u64::from_le_bytes(number) << of.shift));
    }
    found
}

/// The codec that was chosen for the values of a matrix.
#[derive(Debug)]
pub struct Chosen<T> {
    pub codec: ValueCodec,
    /// The distinct values, in the order of their first occurrence; empty if the codec has no
    /// table.
    pub different: Vec<T>,
    /// Index of each distinct value, by its bits.
    numbers: HashMap<u64, u32>,
}

/// The caller's choice of a value codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueChoice {
    /// The smallest codec, as far as it saves enough.
    Best = 0,
    /// Values stay unchanged.
    Plain = 1,
    /// All values are the same.
    Constant = 2,
    /// At most 65536 distinct values.
    Dictionary = 3,
    /// Blocks.
    Blocks = 4,
}

impl ValueChoice {
    /// All choices, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Best, Self::Plain, Self::Constant, Self::Dictionary, Self::Blocks];
}

/// Largest number of values in a table.
const MOST: usize = 1 << 16;

impl<T: Element> Chosen<T> {
    /// Chooses the codec for the values of a matrix. An empty slice means that all values are 1.
    ///
    /// # Errors
    /// `InvalidArgument` if the values do not suit the choice.
    pub fn of(values: &[T], choice: ValueChoice) -> Result<Self> {
        let mut chosen = Self { codec: ValueCodec::Plain, different: Vec::new(), numbers: HashMap::new() };
        if choice == ValueChoice::Plain {
            return Ok(chosen);
        }
        if choice == ValueChoice::Blocks {
            chosen.codec = ValueCodec::Blocks;
            return Ok(chosen);
        }
        let mut last = None;
        let one = [T::ONE];
        for value in if values.is_empty() { &one } else { values } {
            let bits = value.bits();
            if last == Some(bits) {
                continue;
            }
            last = Some(bits);
            let next = chosen.different.len();
            if *chosen.numbers.entry(bits).or_insert(next as u32) as usize == next {
                if next == MOST {
                    break;
                }
                chosen.different.push(*value);
            }
        }
        let n = chosen.numbers.len();
        // The table must be small compared with the indices that it saves.
        let pays = |bytes: usize| n * T::BYTES + values.len() * bytes < values.len() * T::BYTES;
        let codec = match choice {
            _ if n == 1 && choice != ValueChoice::Dictionary => Some(ValueCodec::Constant),
            ValueChoice::Constant => None,
            ValueChoice::Dictionary if n <= 256 => Some(ValueCodec::Dictionary8),
            ValueChoice::Dictionary if n <= MOST => Some(ValueCodec::Dictionary16),
            ValueChoice::Dictionary => None,
            _ if n <= 256 && pays(1) => Some(ValueCodec::Dictionary8),
            // A larger table does not fit in the cache; then blocks may be better.
            _ if n <= MOST / 16 && pays(2) => Some(ValueCodec::Dictionary16),
            _ => Some(ValueCodec::Blocks),
        };
        chosen.codec = codec.ok_or_else(|| {
            Error::invalid(match choice {
                ValueChoice::Constant => "the values are not all equal; choose another value coding",
                _ => "there are more than 65536 distinct values; choose another value coding",
            })
        })?;
        if chosen.codec == ValueCodec::Blocks {
            chosen.different.clear();
            chosen.numbers.clear();
        }
        Ok(chosen)
    }

    /// Codes the values and appends them. Blocks are coded by [`write_block`] instead.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn write(&self, values: &[T], to: &mut Vec<u8>) -> Result<()> {
        let bytes = match self.codec {
            ValueCodec::Plain => T::BYTES,
            ValueCodec::Constant | ValueCodec::Blocks => 0,
            ValueCodec::Dictionary8 => 1,
            ValueCodec::Dictionary16 => 2,
        };
        try_reserve(to, values.len() * bytes, "values")?;
        match self.codec {
            ValueCodec::Plain => write_all(values, to),
            ValueCodec::Constant | ValueCodec::Blocks => {}
            ValueCodec::Dictionary8 => to.extend(values.iter().map(|value| self.number(*value) as u8)),
            ValueCodec::Dictionary16 => {
                to.extend(values.iter().flat_map(|value| (self.number(*value) as u16).to_le_bytes()));
            }
        }
        Ok(())
    }

    /// Index of a value in the table; 0 for values at positions without an element, which may be
    /// missing in the table.
    fn number(&self, value: T) -> u32 {
        self.numbers.get(&value.bits()).copied().unwrap_or(0)
    }
}

/// Appends values unchanged.
fn write_all<T: Element>(values: &[T], to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(start + size_of_val(values), 0);
    for (to, value) in to[start..].chunks_exact_mut(T::BYTES).zip(values) {
        value.write(to);
    }
}

/// The numbers of a slice start at multiples of this, so that numbers of 2, 4, 6 and 8 bytes are
/// aligned for GPUs.
pub const NUMBERS_UNIT: usize = 8;
/// Possible numbers of bytes of a number.
pub const NUMBER_BYTES: [u8; 7] = [0, 1, 2, 3, 4, 6, 8];

/// Codes the values of a slice as a block. `present` says which positions have an element; values
/// at other positions are ignored.
///
/// # Errors
/// `OutOfMemory`.
pub fn write_block<T: Element>(
    values: &[T],
    present: impl Fn(usize) -> bool,
    to: &mut Vec<u8>,
) -> Result<ValueBlock> {
    try_reserve(to, NUMBERS_UNIT, "values")?;
    to.resize(to.len().next_multiple_of(NUMBERS_UNIT), 0);
    let (mut low, mut high, mut any) = (u64::MAX, 0, false);
    let bits = |i: usize| values[i].bits();
    for i in (0..values.len()).filter(|&i| present(i)) {
        (low, high, any) = (low.min(bits(i)), high.max(bits(i)), true);
    }
    if !any {
        return Ok(ValueBlock { first: 0, at: to.len() as u64, width: 0, shift: 0 });
    }
    let all = (0..values.len()).filter(|&i| present(i)).fold(0, |all, i| all | (bits(i) - low));
    let shift = if all == 0 { 0 } else { all.trailing_zeros() as u8 };
    let width = match (64 - (all >> shift).leading_zeros()).div_ceil(8) as u8 {
        5 => 6,
        7 => 8,
        width => width,
    };
    let block = ValueBlock { first: low, at: to.len() as u64, width, shift };
    try_reserve(to, values.len() * usize::from(width) + NUMBERS_UNIT, "values")?;
    for i in 0..values.len() {
        let number = if present(i) { (bits(i) - low) >> shift } else { 0 };
        to.extend(&number.to_le_bytes()[..usize::from(width)]);
    }
    Ok(block)
}
