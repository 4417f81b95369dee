//! Packs the residuals of a block: in groups of eight with a width each or, at level dense, by an
//! entropy code with contexts.

use crate::cpu::isa::Isa;
use crate::error::{Error, Result};
use crate::stage::blocks::layout::Layout;
use crate::stage::byte_groups::Widths;
use crate::stage::entropy::contexts;
use crate::stage::exceptions::ALIGNMENT;
use crate::stage::predict::{Cost, Each, GroupMaxBits};
use crate::stage::rows::{Prefetcher, RowSink, Simd, Stored, WithSimd, outlined};
use crate::stage::samples::{FEW, Samples};
use crate::stage::word::Word;

/// Number of samples of large blocks whose median is taken.
const MANY: usize = 64;

/// A packing of numbers, with its scratch memory.
pub trait Packing<W: Word>: Sized {
    /// The cost function that prediction minimizes.
    type Cost: Cost<W>;
    /// True if a longer search for better predictions pays.
    const SEARCHES: bool;
    /// True if numbers have the symbols of an entropy code.
    const IS_ENTROPY: bool;

    /// Allocates for the blocks of a layout, for encoding or only for decoding.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn new(layout: &Layout, encodes: bool, level: Isa) -> Result<Self>;

    /// An approximate median of numbers, each minus `base`.
    fn middle(numbers: &[W], base: W) -> W;

    /// Plans the packing of a block's numbers, which are padded with zeros to a whole row. Returns
    /// the number of bytes that follow the exceptions, or `None` if the block is better stored raw.
    fn choose<S: Simd<W>>(&mut self, s: S, numbers: &[W], shape: [usize; 3]) -> Option<usize>;

    /// The bytes that follow a block's header.
    fn table(&self) -> &[u8];

    /// Writes the numbers that `choose` has planned. May prefetch one line by `ahead` for each row.
    fn write<S: Simd<W>>(&self, s: S, numbers: &[W], out: &mut [u8], ahead: &mut impl Prefetcher);

    /// Bytes of the table of a block whose header has this number; `None` if the number is invalid.
    fn table_bytes(in_header: u16) -> Option<usize>;

    /// Unpacks the numbers of a block, row by row. `table` is the block's table, and `bytes` begins
    /// after the exceptions. Returns the number of bytes read.
    ///
    /// # Errors
    /// `Corrupt`.
    fn unpack<S: Simd<W>>(
        &mut self,
        s: S,
        table: &[u8],
        bytes: &[u8],
        shape: [usize; 3],
        sink: &mut impl RowSink<W, S>,
    ) -> Result<usize>;

    /// [`Packing::unpack`] to `numbers`, which has room for whole rows, as a task.
    fn unpack_to<S: Simd<W>>(
        &mut self,
        s: S,
        table: &[u8],
        bytes: &[u8],
        shape: [usize; 3],
        numbers: &mut [W],
    ) -> Result<usize>;
}

impl<W: Word> Packing<W> for Widths {
    type Cost = GroupMaxBits;
    const SEARCHES: bool = false;
    const IS_ENTROPY: bool = false;

    fn new(_: &Layout, _: bool, _: Isa) -> Result<Self> {
        Ok(Self::new())
    }

    #[inline(always)]
    fn middle(numbers: &[W], base: W) -> W {
        Samples::middle::<FEW>(numbers, base)
    }

    #[inline(always)]
    fn choose<S: Simd<W>>(&mut self, s: S, numbers: &[W], [sz, sy, sx]: [usize; 3]) -> Option<usize> {
        let n = sz * sy * sx;
        find_lengths(s, self, numbers, n);
        s.outlined_for_all_words(Choose { widths: self, n });
        Some(self.index_bytes().next_multiple_of(ALIGNMENT) + self.n_bytes)
    }

    fn table(&self) -> &[u8] {
        Self::table(self)
    }

    #[inline(always)]
    fn write<S: Simd<W>>(&self, s: S, numbers: &[W], out: &mut [u8], ahead: &mut impl Prefetcher) {
        write_groups(s, self, numbers, out, ahead);
    }

    fn table_bytes(in_header: u16) -> Option<usize> {
        Some(usize::from(in_header) + 1)
    }

    #[inline(always)]
    fn unpack<S: Simd<W>>(
        &mut self,
        s: S,
        table: &[u8],
        bytes: &[u8],
        [sz, sy, sx]: [usize; 3],
        sink: &mut impl RowSink<W, S>,
    ) -> Result<usize> {
        let damage = || Error::corrupt("a quant block is damaged: its packed groups are incomplete");
        let n = sz * sy * sx;
        let index_bytes = Self::bytes_of_index(table.len(), n);
        let index = bytes.get(..index_bytes).ok_or_else(damage)?;
        s.outlined_for_all_words(Read { widths: self, table, index, n, limit: W::BITS })?;
        let byte_groups = bytes.get(index_bytes.next_multiple_of(ALIGNMENT)..).ok_or_else(damage)?;
        Self::unpack(self, s, byte_groups.get(..self.n_bytes).ok_or_else(damage)?, sink);
        Ok(index_bytes.next_multiple_of(ALIGNMENT) + self.n_bytes)
    }

    #[inline(always)]
    fn unpack_to<S: Simd<W>>(
        &mut self,
        s: S,
        table: &[u8],
        bytes: &[u8],
        shape: [usize; 3],
        numbers: &mut [W],
    ) -> Result<usize> {
        unpack_rows(s, self, table, bytes, shape, numbers)
    }
}

outlined! {
    /// Finds the bit lengths of the groups of `n` numbers.
    fn find_lengths<'a, W>(s, widths: &'a mut Widths, numbers: &'a [W], n: usize) {
        widths.find_lengths(s, numbers, n);
    }

    /// Unpacks the numbers of a block to `numbers`, which has room for whole rows.
    fn unpack_rows<'a, W>(
        s,
        widths: &'a mut Widths,
        table: &'a [u8],
        bytes: &'a [u8],
        shape: [usize; 3],
        numbers: &'a mut [W],
    ) -> Result<usize> {
        Packing::unpack(widths, s, table, bytes, shape, &mut Stored(numbers))
    }

    /// Writes the index of the groups, and the groups.
    fn write_groups<'a, W, P: Prefetcher>(
        s,
        widths: &'a Widths,
        numbers: &'a [W],
        out: &'a mut [u8],
        ahead: &'a mut P,
    ) {
        let index_bytes = widths.index_bytes();
        let (index, byte_groups) = out.split_at_mut(index_bytes.next_multiple_of(ALIGNMENT));
        let (index, zeros) = index.split_at_mut(index_bytes);
        widths.write_index(s, index);
        zeros.fill(0);
        widths.pack(s, numbers, byte_groups, ahead);
    }
}

/// Chooses the widths of the groups of `n` numbers, whose lengths are known.
struct Choose<'a> {
    widths: &'a mut Widths,
    n: usize,
}

impl WithSimd<u64> for Choose<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<u64>>(self, s: S) {
        self.widths.choose(s, self.n);
    }
}

/// Reads the widths of the groups of `n` numbers.
struct Read<'a> {
    widths: &'a mut Widths,
    table: &'a [u8],
    index: &'a [u8],
    n: usize,
    /// Maximum width.
    limit: u32,
}

impl WithSimd<u64> for Read<'_> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<S: Simd<u64>>(self, s: S) -> Result<()> {
        self.widths.read(s, self.table, self.index, (self.n, self.limit))
    }
}

impl<W: Word> Packing<W> for contexts::Work {
    type Cost = Each;
    const SEARCHES: bool = true;
    const IS_ENTROPY: bool = true;

    fn new(layout: &Layout, encodes: bool, level: Isa) -> Result<Self> {
        let n = layout.blocks.block_elements();
        Self::new(n, encodes.then(|| layout.block_bound(n)), level)
    }

    #[inline(always)]
    fn middle(numbers: &[W], base: W) -> W {
        Samples::middle::<MANY>(numbers, base)
    }

    #[inline(always)]
    fn choose<S: Simd<W>>(&mut self, s: S, numbers: &[W], shape: [usize; 3]) -> Option<usize> {
        contexts::encode(s, self, numbers, shape)
    }

    fn table(&self) -> &[u8] {
        &[]
    }

    #[inline(always)]
    fn write<S: Simd<W>>(&self, s: S, numbers: &[W], out: &mut [u8], _: &mut impl Prefetcher) {
        contexts::write(s, self, numbers, out);
    }

    fn table_bytes(in_header: u16) -> Option<usize> {
        (in_header == 0).then_some(0)
    }

    #[inline(always)]
    fn unpack<S: Simd<W>>(
        &mut self,
        s: S,
        _: &[u8],
        bytes: &[u8],
        shape: [usize; 3],
        sink: &mut impl RowSink<W, S>,
    ) -> Result<usize> {
        self.decode(s, bytes, shape, sink)
    }

    #[inline(always)]
    fn unpack_to<S: Simd<W>>(
        &mut self,
        s: S,
        _: &[u8],
        bytes: &[u8],
        shape: [usize; 3],
        numbers: &mut [W],
    ) -> Result<usize> {
        contexts::decode(s, self, bytes, shape, numbers)
    }
}
