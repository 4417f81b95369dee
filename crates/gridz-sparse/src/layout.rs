//! How a sparse matrix lies in memory and in a frame, which is the same: the tables of `SPEC.md`, "Sparse matrices".
//!
//! Rows are taken by the 32, a *slice*, with one row in each *lane*; what the rows of a slice have at a *step*, one
//! element each, lies side by side. Steps have a mask of the lanes that have an element. So a vector, or the lanes of a GPU's warp, read
//! side by side what they need at a time, and every row is summed from its first element to its last, however many
//! lanes work at a time: the sums do not depend on the machine.
//!
//! The column of an element is a sum: the base of its slice, the row (or not), the offset of its step, and a code of
//! 0, 1, 2, 4 or 8 bytes. In a stencil all rows have their elements at the same distances from the diagonal: the code has no
//! bytes. The steps of a slice are kept once, whatever the number of slices that have the same.
//!
//! Matrices of several unknowns a node have blocks of `b` × `b` elements. There a slice may have a code for each node and
//! block, in place of each element, and a step is a step of blocks, of `b` elements a row.
//!
//! A window is [`WINDOW`] rows. Where its rows, taken as they come, would leave too many lanes without elements, they (nodes, with
//! blocks) are taken in another order, by length, in parts of the window where that takes few more steps. Rows that are much
//! longer than others are *long*: these have slices of their own, in which the 32 lanes take the elements of one row in turn, and
//! their 32 sums are added in a fixed order.

use gridz_codecs::error::{Error, Result};

/// Rows of a slice.
pub const LANES: usize = 32;
/// Rows of a window: a multiple of [`LANES`] and of all [`BLOCKS`].
pub const WINDOW: usize = 3840;
/// Most steps of a slice.
pub const MAX_STEPS: usize = 255;
/// Most elements that a lane has in a slice of a long row; its steps may be some more, where lanes wait.
pub const LONG_STEPS: usize = 128;
/// Sides of blocks.
pub const BLOCKS: [usize; 7] = [1, 2, 3, 4, 5, 6, 8];
/// Codes of a slice begin at a multiple of this.
pub const CODE_UNIT: usize = 32;
/// `order_at` of slices whose rows are in their order.
pub const IN_ORDER: u32 = u32::MAX;

/// Columns are relative to the row's (the node's, with blocks) number.
pub const RELATIVE: u8 = 1;
/// Steps are of blocks.
pub const BLOCKED: u8 = 2;
/// All lanes have an element at every step.
pub const FULL: u8 = 4;

/// Bytes of a [`Slice`].
pub const SLICE_BYTES: usize = 32;
/// Bytes of a [`Step`].
pub const STEP_BYTES: usize = 8;
/// Bytes of a [`Long`].
pub const LONG_BYTES: usize = 16;

/// Rows that are decoded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Added to all columns, modulo 2^64.
    pub base: u64,
    /// Number of the first row, by 32; of a slice whose rows have another order, of its place in the window.
    pub place: u32,
    /// Where its values begin, in steps of 32.
    pub values_at: u32,
    /// Where its codes begin, in [`CODE_UNIT`]s.
    pub codes_at: u32,
    /// The first of its steps.
    pub steps_at: u32,
    /// Where the order of its nodes begins, or [`IN_ORDER`].
    pub order_at: u32,
    /// Number of steps.
    pub n_steps: u8,
    /// Bytes of a code.
    pub width: u8,
    /// [`RELATIVE`], [`BLOCKED`], [`FULL`].
    pub flags: u8,
    /// Rows; the last lanes may have none.
    pub n_lanes: u8,
}

impl Slice {
    /// From a table.
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

    /// For a table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.base.to_le_bytes());
        for word in [self.place, self.values_at, self.codes_at, self.steps_at, self.order_at] {
            to.extend(word.to_le_bytes());
        }
        to.extend([self.n_steps, self.width, self.flags, self.n_lanes]);
    }

    /// Whether a flag is set.
    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Elements of a row at a step.
    #[inline(always)]
    pub fn side(&self, block: usize) -> usize {
        if self.has(BLOCKED) { block } else { 1 }
    }

    /// Where in its node the first row is, with blocks of `block`.
    #[inline(always)]
    pub fn phase(&self, block: usize) -> usize {
        (self.place as usize % (WINDOW / LANES) * LANES) % block
    }

    /// Codes at each step.
    #[inline(always)]
    pub fn n_codes(&self, block: usize) -> usize {
        if self.has(BLOCKED) { (self.phase(block) + LANES - 1) / block + 1 } else { LANES }
    }

    /// Bytes of its codes.
    #[inline(always)]
    pub fn code_bytes(&self, block: usize) -> usize {
        usize::from(self.n_steps) * self.n_codes(block) * usize::from(self.width)
    }

    /// Steps of 32 values.
    #[inline(always)]
    pub fn value_steps(&self, block: usize) -> usize {
        usize::from(self.n_steps) * self.side(block)
    }
}

/// Elements that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// Added to its columns.
    pub offset: u32,
    /// Lanes that have an element (a block's row).
    pub mask: u32,
}

impl Step {
    /// From a table.
    #[inline(always)]
    pub fn read(bytes: &[u8; STEP_BYTES]) -> Self {
        let both = u64::from_le_bytes(*bytes);
        Self { offset: both as u32, mask: (both >> 32) as u32 }
    }

    /// For a table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.offset.to_le_bytes());
        to.extend(self.mask.to_le_bytes());
    }
}

/// A row with slices of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long {
    /// The row.
    pub row: u64,
    /// The first of its slices, counted from the first of long rows.
    pub first: u32,
    /// How many.
    pub n: u32,
}

impl Long {
    /// From a table.
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

    /// For a table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.row.to_le_bytes());
        to.extend(self.first.to_le_bytes());
        to.extend(self.n.to_le_bytes());
    }
}

/// How values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueCodec {
    /// As they are.
    Plain = 0,
    /// One for all.
    Constant = 1,
    /// Numbers of 1 byte in a table of all different ones.
    Dictionary8 = 2,
    /// The same of 2 bytes.
    Dictionary16 = 3,
    /// Each slice has a first value and multiples of a power of two to add to it, as bits.
    Blocks = 4,
}

impl ValueCodec {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Constant, Self::Dictionary8, Self::Dictionary16, Self::Blocks];

    /// By its number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// How the values of a slice are kept in blocks: bits are `first` + (number << `shift`) with numbers of `width` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueBlock {
    /// What is added.
    pub first: u64,
    /// Where the numbers begin, in bytes.
    pub at: u64,
    /// Bytes of a number, 0 to 8.
    pub width: u8,
    /// Bits to the left.
    pub shift: u8,
}

/// Bytes of a [`ValueBlock`].
pub const VALUE_BLOCK_BYTES: usize = 16;

impl ValueBlock {
    /// From a table: the place has 48 bits.
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

    /// For a table.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.first.to_le_bytes());
        to.extend((self.at | u64::from(self.width) << 48 | u64::from(self.shift) << 56).to_le_bytes());
    }
}

/// A number of things that a table counts in 32 bits.
///
/// # Errors
/// `UnsupportedJob` if there are more.
pub fn counted(n: usize) -> Result<u32> {
    // The last number has another meaning in one of the tables.
    match u32::try_from(n) {
        Ok(n) if n < u32::MAX => Ok(n),
        _ => Err(Error::unsupported(
            "the matrix is too large for one frame, whose tables have fewer than 2^32 entries (more than 10^11 \
             elements); cut it into several by its rows",
        )),
    }
}

/// Refuses more rows than a frame can have, whose slices are counted in 32 bits.
///
/// # Errors
/// `UnsupportedJob`.
pub fn counted_rows(n_rows: u64) -> Result<()> {
    counted(usize::try_from(n_rows.div_ceil(LANES as u64)).unwrap_or(usize::MAX)).map(|_| ())
}
