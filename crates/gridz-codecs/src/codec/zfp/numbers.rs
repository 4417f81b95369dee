//! The four numbers of a zfp stream.

/// The least exponent that says that arrays come back as they were, bit for bit.
pub const REVERSIBLE: i32 = -1075;

/// How blocks are cut: the mode of a zfp stream, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// Bits that a block has at least.
    pub minbits: u32,
    /// Bits that a block has at most.
    pub maxbits: u32,
    /// Planes that a block has at most.
    pub maxprec: u32,
    /// The exponent of the lowest plane of floats that is kept, or [`REVERSIBLE`].
    pub minexp: i32,
}

impl Numbers {
    /// Nothing is cut, but floats are rounded where their block has larger ones.
    pub const DEFAULT: Self = Self { minbits: 1, maxbits: 16658, maxprec: 64, minexp: -1074 };

    /// Whether blocks come back as they were.
    pub fn is_reversible(&self) -> bool {
        self.minexp == REVERSIBLE
    }

    /// Whether all blocks have the same number of bits.
    pub fn is_fixed(&self) -> bool {
        self.minbits == self.maxbits
    }
}
