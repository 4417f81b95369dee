//! What a payload has in front of its sections, and where these are.
//!
//! ```text
//! f64 bound | the first value, 8 bytes | u8 axes in the order of steps, 4 | u32 0 |
//! u64 which steps are cubic | f64 bin of each level, the coarsest first | u64 bytes of each section | zeros to a unit | sections
//! ```
//!
//! The sections are the numbers of the first steps together, those of each step behind these, and the elements that are kept
//! exactly, of which there may be none.

use crate::codec::mgard::grid::{Grid, MAX_RANK, Step};
use crate::codec::mgard::numbers::{self, UNIT};
use crate::error::{Error, ErrorKind, Result};
use crate::stage::blocks::layout::Layout;
use crate::types::DType;

/// Bytes in front of the bins.
const FIXED_BYTES: usize = 32;

/// What is in front of the sections.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// No error is larger.
    pub bound: f64,
    /// The bits of what the first element is predicted to be.
    pub first: u64,
    pub grid: Grid,
    /// A bit for each step with cubic predictions.
    pub cubic: u64,
    /// The bins of the levels, the coarsest first.
    pub bins: Vec<f64>,
}

impl Head {
    /// The bin of a step.
    pub fn bin(&self, step: &Step) -> f64 {
        self.bins[self.bins.len() - 1 - step.level as usize]
    }

    /// Whether a step, given by its number, has cubic predictions.
    pub fn is_cubic(&self, step: usize) -> bool {
        self.cubic >> step & 1 == 1
    }
}

/// Where the sections of numbers of a grid are laid out: the first one, if there are numbers, is that of the first steps, then one for each other step.
pub fn sections(grid: Grid, words: DType) -> Option<Vec<Layout>> {
    let n_front = grid.n_front();
    let n_together: usize = grid.steps().take(n_front).map(|step| step.n_new()).sum();
    let front = (n_together > 0).then(|| numbers::layout(&[n_together], words));
    let others = grid.steps().skip(n_front).map(|step| numbers::layout(&step.new_extents(), words));
    front.into_iter().chain(others).collect()
}

/// Bytes in front of the sections, so many of them of numbers.
pub fn head_bytes(grid: &Grid, n_of_numbers: usize) -> usize {
    (FIXED_BYTES + 8 * (grid.n_levels() as usize + n_of_numbers + 1)).next_multiple_of(UNIT)
}

/// Writes a head, and how long the sections are, to `out`, which has exactly their bytes.
pub fn write(head: &Head, lengths: &[u64], out: &mut [u8]) {
    out.fill(0);
    out[..8].copy_from_slice(&head.bound.to_le_bytes());
    out[8..16].copy_from_slice(&head.first.to_le_bytes());
    out[16..20].copy_from_slice(&head.grid.order);
    out[24..32].copy_from_slice(&head.cubic.to_le_bytes());
    let numbers = head.bins.iter().map(|bin| bin.to_bits()).chain(lengths.iter().copied());
    for (number, out) in numbers.zip(out[FIXED_BYTES..].chunks_exact_mut(8)) {
        out.copy_from_slice(&number.to_le_bytes());
    }
}

/// A payload's head, and its sections.
pub struct Payload<'p> {
    pub head: Head,
    /// The layouts of the sections of numbers.
    pub layouts: Vec<Layout>,
    /// These sections, and that of elements that are kept exactly.
    pub numbers: Vec<&'p [u8]>,
    pub exact: &'p [u8],
}

impl<'p> Payload<'p> {
    /// Of an array with this grid, but for the order of its axes.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated`, or `UnsupportedFormat`.
    pub fn parse(grid: Grid, words: DType, payload: &'p [u8]) -> Result<Self> {
        let truncated = |need: usize| {
            let have = payload.len();
            Error::new(ErrorKind::Truncated, format!("an mgard payload has {have} of {need} bytes of its front"))
        };
        let wrong = || Error::corrupt("the front of an mgard payload is not what it says");
        let fixed = payload.first_chunk::<FIXED_BYTES>().ok_or_else(|| truncated(FIXED_BYTES))?;
        let number = |at: usize| u64::from_le_bytes(*payload[at..].first_chunk().expect("bytes that are there"));
        let [a, b, c, d]: [u8; MAX_RANK] = [fixed[16], fixed[17], fixed[18], fixed[19]];
        let grid = grid.ordered([a, b, c, d]).ok_or_else(wrong)?;
        let unused = if words == DType::U32 { number(8) >> 32 } else { 0 };
        if fixed[20..24] != [0; 4] || unused != 0 {
            let text = "an mgard payload is of a kind unknown to this version; a newer gridz may read this data";
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let layouts = sections(grid, words).ok_or_else(wrong)?;
        let (n_sections, n_head) = (layouts.len() + 1, head_bytes(&grid, layouts.len()));
        let (front, mut rest) = payload.split_at_checked(n_head).ok_or_else(|| truncated(n_head))?;
        let n_levels = grid.n_levels() as usize;
        let bins: Vec<f64> = (0..n_levels).map(|i| f64::from_bits(number(FIXED_BYTES + 8 * i))).collect();
        let bound = f64::from_bits(number(0));
        let are_sound = |x: &f64| x.is_finite() && *x >= 0.0;
        let end = FIXED_BYTES + 8 * (n_levels + n_sections);
        if !bins.iter().chain([&bound]).all(are_sound) || front[end..].iter().any(|&zero| zero != 0) {
            return Err(wrong());
        }
        let mut numbers = Vec::with_capacity(n_sections);
        for i in 0..n_sections {
            let n_bytes = usize::try_from(number(FIXED_BYTES + 8 * (n_levels + i))).map_err(|_| wrong())?;
            let (section, behind) = rest.split_at_checked(n_bytes).ok_or_else(wrong)?;
            numbers.push(section);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(wrong());
        }
        let exact = numbers.pop().unwrap_or_default();
        Ok(Self { head: Head { bound, first: number(8), grid, cubic: number(24), bins }, layouts, numbers, exact })
    }
}
