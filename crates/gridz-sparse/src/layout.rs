//! Layout of a sparse matrix, which is the same in memory and in a frame: the tables of
//! `src/format/SPARSE.md`.
//!
//! A *slice* is a group of 32 rows, one in each *lane*. The elements of a slice at a *step*, one
//! per row, are contiguous. Each step has a mask of the lanes that have an element. So a CPU
//! vector, or the lanes of a GPU warp, read contiguous memory. Every row is summed from its first
//! element to its last, independent of the number of lanes that work at a time. So the sums do not
//! depend on the machine.
//!
//! The column of an element is a sum of the slice's base, the row (optional), the step's offset,
//! and a code of 0, 1, 2, 4 or 8 bytes. In a stencil all rows have their elements at the same
//! distances from the diagonal, so the code has no bytes. Slices with the same steps share one copy
//! of them.
//!
//! Matrices with several unknowns per node have blocks of `b` × `b` elements. There a slice may
//! have one code for each node and block instead of one for each element. A step is then a step of
//! blocks, with `b` elements per row.
//!
//! A window is [`WINDOW`] rows. If the original order of its rows would leave too many lanes
//! without elements, the rows (nodes, with blocks) are sorted by length. They are sorted within
//! parts of the window if that takes few more steps. Rows that are much longer than the rest
//! are *long*: they have slices of their own, in which the 32 lanes take the elements of one row in
//! turn. The 32 sums are added in a fixed order.

use gridz_codecs::error::{Error, Result};

/// Rows of a slice.
pub const LANES: usize = 32;
/// Rows of a window: a multiple of [`LANES`] and of all [`BLOCKS`].
pub const WINDOW: usize = 3840;
/// Largest number of steps of a slice.
pub const MAX_STEPS: usize = 255;
/// Largest number of elements per lane in a slice of a long row. The slice may have some more
/// steps, if lanes wait.
pub const LONG_STEPS: usize = 128;
/// Possible sides of blocks.
pub const BLOCKS: [usize; 7] = [1, 2, 3, 4, 5, 6, 8];
/// The codes of a slice start at a multiple of this.
pub const CODE_UNIT: usize = 32;
/// `order_at` of slices whose rows are in their original order.
pub const IN_ORDER: u32 = u32::MAX;

/// Columns are relative to the number of the row (with blocks: the node's first row).
pub const RELATIVE: u8 = 1;
/// Steps consist of blocks.
pub const BLOCKED: u8 = 2;
/// All lanes have an element at every step.
pub const FULL: u8 = 4;

/// Bytes of a [`Slice`].
pub const SLICE_BYTES: usize = 32;
/// Bytes of a [`Step`].
pub const STEP_BYTES: usize = 8;
/// Bytes of a [`Long`].
pub const LONG_BYTES: usize = 16;

/// A group of rows that is decoded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Added to all columns, modulo 2^64.
    pub base: u64,
    /// Position of the slice: 120 times its window plus its index in the window. If rows are in
    /// order, this is the first row divided by 32.
    pub place: u32,
    /// Start of its values, in units of 32 values.
    pub values_at: u32,
    /// Start of its codes, in [`CODE_UNIT`]s.
    pub codes_at: u32,
    /// Index of its first step.
    pub steps_at: u32,
    /// Start of its nodes in the table of orders, or [`IN_ORDER`].
    pub order_at: u32,
    /// Number of steps.
    pub n_steps: u8,
    /// Bytes of a code.
    pub width: u8,
    /// A combination of [`RELATIVE`], [`BLOCKED`], [`FULL`].
    pub flags: u8,
    /// Number of rows; lanes after them have no row.
    pub n_lanes: u8,
}

impl Slice {
    /// Reads an entry of the table.
    #[inline(always)]
    pub fn read(bytes: &[u8; SLICE_BYTES]) -> Self {
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        Self {
            base: u64::from(word(0)) | u64::from(word(4)) << 32,
            place: word(8),
            values_at: word(12),
            codes_at: word(16),
            steps_at: word(20),
            order_at: word(24),
            n_steps: bytes[28],
            width: bytes[29],
            flags: bytes[30],
            n_lanes: bytes[31],
        }
    }

    /// Appends an entry to the table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.base.to_le_bytes());
        for word in [self.place, self.values_at, self.codes_at, self.steps_at, self.order_at] {
            to.extend(word.to_le_bytes());
        }
        to.extend([self.n_steps, self.width, self.flags, self.n_lanes]);
    }

    /// True if `flag` is set.
    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Elements per row and step.
    #[inline(always)]
    pub fn side(&self, block: usize) -> usize {
        if self.has(BLOCKED) { block } else { 1 }
    }

    /// Position of the first row within its node, with blocks of side `block`.
    #[inline(always)]
    pub fn phase(&self, block: usize) -> usize {
        (self.place as usize % (WINDOW / LANES) * LANES) % block
    }

    /// Codes per step.
    #[inline(always)]
    pub fn n_codes(&self, block: usize) -> usize {
        if self.has(BLOCKED) { (self.phase(block) + LANES - 1) / block + 1 } else { LANES }
    }

    /// Bytes of its codes.
    #[inline(always)]
    pub fn code_bytes(&self, block: usize) -> usize {
        usize::from(self.n_steps) * self.n_codes(block) * usize::from(self.width)
    }

    /// Steps of 32 values each.
    #[inline(always)]
    pub fn value_steps(&self, block: usize) -> usize {
        usize::from(self.n_steps) * self.side(block)
    }
}

/// Elements that are stored contiguously, at most one (with blocks: one row of a block) per lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// Added to its columns.
    pub offset: u32,
    /// Lanes that have an element (with blocks: a row of a block).
    pub mask: u32,
}

impl Step {
    /// Reads an entry of the table.
    #[inline(always)]
    pub fn read(bytes: &[u8; STEP_BYTES]) -> Self {
        let both = u64::from_le_bytes(*bytes);
        Self { offset: both as u32, mask: (both >> 32) as u32 }
    }

    /// Appends an entry to the table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.offset.to_le_bytes());
        to.extend(self.mask.to_le_bytes());
    }
}

/// A row with slices of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long {
    /// Number of the row.
    pub row: u64,
    /// Index of its first slice among the slices of long rows.
    pub first: u32,
    /// Number of its slices.
    pub n: u32,
}

impl Long {
    /// Reads an entry of the table.
    #[inline(always)]
    pub fn read(bytes: &[u8; LONG_BYTES]) -> Self {
        let (row, rest) = bytes.split_at(8);
        let both = u64::from_le_bytes(rest.try_into().expect("8 bytes"));
        Self {
            row: u64::from_le_bytes(row.try_into().expect("8 bytes")),
            first: both as u32,
            n: (both >> 32) as u32,
        }
    }

    /// Appends an entry to the table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.row.to_le_bytes());
        to.extend(self.first.to_le_bytes());
        to.extend(self.n.to_le_bytes());
    }
}

/// Coding of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueCodec {
    /// Unchanged.
    Plain = 0,
    /// One value for all elements.
    Constant = 1,
    /// Indices of 1 byte into a table of the distinct values.
    Dictionary8 = 2,
    /// Indices of 2 bytes into a table of the distinct values.
    Dictionary16 = 3,
    /// The bits of a value are the slice's first value plus a multiple of a power of two.
    Blocks = 4,
}

impl ValueCodec {
    /// All codecs, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Constant, Self::Dictionary8, Self::Dictionary16, Self::Blocks];

    /// The codec with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Coding of a slice's values as a block: the bits of a value are `first` + (number << `shift`),
/// with numbers of `width` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueBlock {
    /// Added to all numbers.
    pub first: u64,
    /// Start of the numbers, in bytes.
    pub at: u64,
    /// Bytes of a number, 0 to 8.
    pub width: u8,
    /// Left shift, in bits.
    pub shift: u8,
}

/// Bytes of a [`ValueBlock`].
pub const VALUE_BLOCK_BYTES: usize = 16;

impl ValueBlock {
    /// Reads an entry of the table, in which `at` has 48 bits.
    #[inline(always)]
    pub fn read(bytes: &[u8; VALUE_BLOCK_BYTES]) -> Self {
        let (first, rest) = bytes.split_at(8);
        let rest = u64::from_le_bytes(rest.try_into().expect("8 bytes"));
        Self {
            first: u64::from_le_bytes(first.try_into().expect("8 bytes")),
            at: rest & ((1 << 48) - 1),
            width: (rest >> 48) as u8,
            shift: (rest >> 56) as u8,
        }
    }

    /// Appends an entry to the table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.first.to_le_bytes());
        to.extend((self.at | u64::from(self.width) << 48 | u64::from(self.shift) << 56).to_le_bytes());
    }
}

/// Converts a count to 32 bits, for the tables.
///
/// # Errors
/// `UnsupportedJob` if it does not fit.
pub fn counted(n: usize) -> Result<u32> {
    // The largest number is reserved: it is [`IN_ORDER`] in the table of slices.
    match u32::try_from(n) {
        Ok(n) if n < u32::MAX => Ok(n),
        _ => Err(Error::unsupported(format!(
            "the matrix is too large for one frame: a table would have {n} entries, and at most {} are supported \
                 (more than 10^11 elements); divide it by rows into several matrices",
            u32::MAX - 1
        ))),
    }
}

/// Rejects more rows than a frame can have; it counts slices in 32 bits.
///
/// # Errors
/// `UnsupportedJob`.
pub fn counted_rows(n_rows: u64) -> Result<()> {
    counted(usize::try_from(n_rows.div_ceil(LANES as u64)).unwrap_or(usize::MAX)).map(|_| ())
}
