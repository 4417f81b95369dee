//! What a payload has in front of its numbers, and where these are.
//!
//! ```text
//! f64 bound | the first value, 8 bytes | u8 axes in the order of steps, 4 | u32 0 |
//! u64 which steps are cubic | f64 bin of each level, the coarsest first | u64 bytes of exact elements |
//! table and blocks of numbers | exact elements
//! ```

use crate::codec::mgard::grid::{Grid, MAX_LEVELS, MAX_RANK, Step};
use crate::codec::mgard::numbers::{Arrays, Coded};
use crate::error::{Error, ErrorKind, Result};
use crate::types::DType;

/// Bytes in front of the bins.
const FIXED_BYTES: usize = 32;

/// What is in front of the numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// No error is larger.
    pub bound: f64,
    /// The bits of what the first element is predicted to be.
    pub first: u64,
    pub grid: Grid,
    /// A bit for each step with cubic predictions.
    pub cubic: u64,
    /// The bins of the levels, the finest first.
    pub bins: [f64; MAX_LEVELS],
}

impl Head {
    /// The bin of a step.
    pub fn bin(&self, step: &Step) -> f64 {
        self.bins[step.level as usize]
    }

    /// Whether a step, given by its number, has cubic predictions.
    pub fn is_cubic(&self, step: usize) -> bool {
        self.cubic >> step & 1 == 1
    }

    /// Writes it, with the bytes of exact elements, to `out`, which has exactly its bytes.
    pub fn write(&self, n_exact: usize, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.bound.to_le_bytes());
        out[8..16].copy_from_slice(&self.first.to_le_bytes());
        out[16..20].copy_from_slice(&self.grid.order);
        out[20..24].fill(0);
        out[24..32].copy_from_slice(&self.cubic.to_le_bytes());
        let bins = self.bins[..self.grid.n_levels() as usize].iter().rev();
        let numbers = bins.map(|bin| bin.to_bits()).chain([n_exact as u64]);
        for (number, out) in numbers.zip(out[FIXED_BYTES..].chunks_exact_mut(8)) {
            out.copy_from_slice(&number.to_le_bytes());
        }
    }
}

/// Bytes of a head.
pub fn head_bytes(grid: &Grid) -> usize {
    FIXED_BYTES + 8 * (grid.n_levels() as usize + 1)
}

/// The parts of a payload.
pub struct Payload<'p> {
    pub head: Head,
    /// The bytes of the head.
    pub front: &'p [u8],
    pub arrays: Arrays,
    pub numbers: Coded<'p>,
    /// Exact elements, and where they begin.
    pub exact: &'p [u8],
    pub exact_at: usize,
}

impl<'p> Payload<'p> {
    /// Of an array with this grid, but for the order of its axes, and such words.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated`, or `UnsupportedFormat`.
    pub fn parse(grid: Grid, words: DType, payload: &'p [u8]) -> Result<Self> {
        let n_head = head_bytes(&grid);
        let (front, rest) = payload.split_at_checked(n_head).ok_or_else(|| {
            let have = payload.len();
            Error::new(ErrorKind::Truncated, format!("an mgard payload has {have} of {n_head} bytes of its head"))
        })?;
        let wrong = || Error::corrupt("the head of an mgard payload is not what it says");
        let number = |at: usize| u64::from_le_bytes(*front[at..].first_chunk().expect("bytes of the head"));
        let order: [u8; MAX_RANK] = *front[16..].first_chunk().expect("bytes of the head");
        let grid = grid.ordered(order).ok_or_else(wrong)?;
        let unused = if words == DType::U32 { number(8) >> 32 } else { 0 };
        if front[20..24] != [0; 4] || unused != 0 {
            let text = "an mgard payload is of a kind unknown to this version; a newer gridz may read this data";
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let n_levels = grid.n_levels() as usize;
        let mut bins = [0.0; MAX_LEVELS];
        for (i, bin) in bins[..n_levels].iter_mut().rev().enumerate() {
            *bin = f64::from_bits(number(FIXED_BYTES + 8 * i));
        }
        let bound = f64::from_bits(number(0));
        let first =
            if words == DType::U32 { f32::from_bits(number(8) as u32).into() } else { f64::from_bits(number(8)) };
        if !first.is_finite() || !bins.iter().chain([&bound]).all(|x| x.is_finite() && *x >= 0.0) {
            return Err(wrong());
        }
        let n_exact = usize::try_from(number(FIXED_BYTES + 8 * n_levels)).map_err(|_| wrong())?;
        let n_coded = rest.len().checked_sub(n_exact).ok_or_else(wrong)?;
        let (coded, exact) = rest.split_at(n_coded);
        let arrays = Arrays::new(grid);
        let numbers = Coded::parse(&arrays, coded, n_head)?;
        let head = Head { bound, first: number(8), grid, cubic: number(24), bins };
        Ok(Self { head, front, arrays, numbers, exact, exact_at: n_head + n_coded })
    }
}
