//! The four parameters of a zfp stream.

/// The minimum exponent that marks lossless streams.
pub const REVERSIBLE: i32 = -1075;

/// The truncation of blocks: the parameters of a zfp stream that represent every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// Minimum number of bits of a block.
    pub minbits: u32,
    /// Maximum number of bits of a block.
    pub maxbits: u32,
    /// Maximum number of bit planes of a block.
    pub maxprec: u32,
    /// Exponent of the lowest bit plane of floats that is coded, or [`REVERSIBLE`].
    pub minexp: i32,
}

impl Numbers {
    /// No truncation; but floats are rounded if their block has larger ones.
    pub const DEFAULT: Self = Self { minbits: 1, maxbits: 16658, maxprec: 64, minexp: -1074 };

    /// True if blocks are lossless.
    pub fn is_reversible(&self) -> bool {
        self.minexp == REVERSIBLE
    }

    /// True if all blocks have the same number of bits.
    pub fn is_fixed(&self) -> bool {
        self.minbits == self.maxbits
    }
}
