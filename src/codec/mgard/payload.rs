//! What a payload has in front of its numbers, and where these are.
//!
//! ```text
//! f64 bound | the first value, 8 bytes | u8 axes in the order of steps, 4 | u32 0 |
//! u64 which steps are cubic | f64 bin of each level, the coarsest first | u64 bytes of exact elements |
//! if there are several layers, of each: f64 bound | f64 bin | u64 bytes of table and blocks
//! table and blocks of numbers of layer 0 | exact elements | table and blocks of further layers
//! ```
//!
//! So what few layers need is in front, and the head tells how much that is.

use crate::codec::mgard::grid::{Grid, MAX_LEVELS, MAX_RANK, Step};
use crate::codec::mgard::numbers::{Arrays, Coded, UNIT, end_of_blocks};
use crate::codec::mgard::params::MAX_LAYERS;
use crate::error::{Error, ErrorKind, Result};
use crate::types::DType;

/// Bytes in front of the bins.
const FIXED_BYTES: usize = 32;
/// Bytes that tell of a layer.
const LAYER_BYTES: usize = 24;

/// What is told of a layer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Layer {
    /// No error is larger after it.
    pub bound: f64,
    /// Its bin; that of layer 0, where levels have bins, is 0.
    pub bin: f64,
    /// Bytes of its table and blocks.
    pub n_bytes: usize,
}

/// What is in front of the numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// The bits of what the first element is predicted to be.
    pub first: u64,
    pub grid: Grid,
    /// A bit for each step with cubic predictions.
    pub cubic: u64,
    /// The bins of the levels, the finest first.
    pub bins: [f64; MAX_LEVELS],
    /// Bytes of exact elements.
    pub n_exact: usize,
    /// The layers, of which there are so many.
    pub layers: [Layer; MAX_LAYERS],
    pub n_layers: usize,
}

impl Head {
    /// No error of the whole is larger.
    pub fn bound(&self) -> f64 {
        self.layers[self.n_layers - 1].bound
    }

    /// The bin of a step.
    pub fn bin(&self, step: &Step) -> f64 {
        self.bins[step.level as usize]
    }

    /// Whether a step, given by its number, has cubic predictions.
    pub fn is_cubic(&self, step: usize) -> bool {
        self.cubic >> step & 1 == 1
    }

    /// Writes it to `out`, which has exactly its bytes.
    pub fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.bound().to_le_bytes());
        out[8..16].copy_from_slice(&self.first.to_le_bytes());
        out[16..20].copy_from_slice(&self.grid.order);
        out[20..24].fill(0);
        out[24..32].copy_from_slice(&self.cubic.to_le_bytes());
        let bins = self.bins[..self.grid.n_levels() as usize].iter().rev();
        let told = if self.n_layers > 1 { self.n_layers } else { 0 };
        let of_layer = |&Layer { bound, bin, n_bytes }: &Layer| [bound.to_bits(), bin.to_bits(), n_bytes as u64];
        let layers = self.layers[..told].iter().flat_map(of_layer);
        let numbers = bins.map(|bin| bin.to_bits()).chain([self.n_exact as u64]).chain(layers);
        for (number, out) in numbers.zip(out[FIXED_BYTES..].chunks_exact_mut(8)) {
            out.copy_from_slice(&number.to_le_bytes());
        }
    }
}

/// Bytes of a head.
pub fn head_bytes(grid: &Grid, n_layers: usize) -> usize {
    FIXED_BYTES + 8 * (grid.n_levels() as usize + 1) + if n_layers > 1 { LAYER_BYTES * n_layers } else { 0 }
}

/// The parts of a payload, which may end early.
pub struct Payload<'p> {
    pub head: Head,
    /// The bytes of the head.
    pub front: &'p [u8],
    bytes: &'p [u8],
}

impl<'p> Payload<'p> {
    /// Of an array with this grid, but for the order of its axes, such words and so many layers. The payload has `n_all` bytes,
    /// of which there are the first ones.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated`, or `UnsupportedFormat`.
    pub fn parse(grid: Grid, words: DType, n_layers: usize, n_all: u64, bytes: &'p [u8]) -> Result<Self> {
        let n_head = head_bytes(&grid, n_layers);
        let front = bytes.get(..n_head).ok_or_else(|| truncated("its head"))?;
        let wrong = || Error::corrupt("the head of an mgard payload is not what it says");
        let number = |at: usize| u64::from_le_bytes(*front[at..].first_chunk().expect("bytes of the head"));
        let float = |at: usize| f64::from_bits(number(at));
        let size = |at: usize| usize::try_from(number(at)).map_err(|_| wrong());
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
            *bin = float(FIXED_BYTES + 8 * i);
        }
        let first = if words == DType::U32 { f32::from_bits(number(8) as u32).into() } else { float(8) };
        let behind = FIXED_BYTES + 8 * n_levels;
        let n_exact = size(behind)?;
        let n_rest = usize::try_from(n_all).ok().and_then(|n| n.checked_sub(n_head)?.checked_sub(n_exact));
        let mut n_left = n_rest.ok_or_else(wrong)?;
        let mut layers = [Layer::default(); MAX_LAYERS];
        if n_layers == 1 {
            layers[0] = Layer { bound: float(0), bin: 0.0, n_bytes: n_left };
        } else {
            let ats = (behind + 8..).step_by(LAYER_BYTES);
            for (layer, at) in layers[..n_layers].iter_mut().zip(ats) {
                *layer = Layer { bound: float(at), bin: float(at + 8), n_bytes: size(at + 16)? };
                n_left = n_left.checked_sub(layer.n_bytes).ok_or_else(wrong)?;
            }
            let is_apart = layers.iter().any(|layer| layer.n_bytes % UNIT > 0) || n_exact % UNIT > 0;
            if n_left > 0 || layers[0].bin.to_bits() != 0 || is_apart {
                return Err(wrong());
            }
        }
        let head = Head { first: number(8), grid, cubic: number(24), bins, n_exact, layers, n_layers };
        let is_size = |x: f64| x.is_finite() && x >= 0.0;
        let are_sizes = layers.iter().all(|layer| is_size(layer.bound) && is_size(layer.bin));
        if !first.is_finite() || !are_sizes || !bins.into_iter().all(is_size) || head.bound().to_bits() != number(0)
        {
            return Err(wrong());
        }
        Ok(Self { head, front, bytes })
    }

    /// Where exact elements begin.
    pub fn exact_at(&self) -> usize {
        self.front.len() + self.head.layers[0].n_bytes
    }

    /// Bytes that so many layers need.
    pub fn end(&self, n_layers: usize) -> usize {
        let further: usize = self.head.layers[1..n_layers].iter().map(|layer| layer.n_bytes).sum();
        self.exact_at() + self.head.n_exact + further
    }

    /// Bytes that the grid which is made with these arrays needs.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn end_of(&self, arrays: &Arrays) -> Result<usize> {
        if self.head.n_exact > 0 || !arrays.is_part() {
            return Ok(self.end(1));
        }
        let at = self.front.len();
        Ok(end_of_blocks(arrays, &self.bytes[at..], at)?.min(self.exact_at()))
    }

    /// The numbers of layer 0 that are in these arrays.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn numbers(&self, arrays: &Arrays) -> Result<Coded<'p>> {
        let at = self.front.len();
        let end = self.exact_at();
        // What is behind the blocks of these arrays may be missing.
        let bytes = &self.bytes[at..end.min(self.bytes.len())];
        Coded::parse(arrays, bytes, self.head.layers[0].n_bytes, at)
    }

    /// Those of a further layer.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn further_numbers(&self, k: usize, arrays: &Arrays) -> Result<Coded<'p>> {
        let (at, n_bytes) = (self.end(k), self.head.layers[k].n_bytes);
        let bytes = self.bytes.get(at..at + n_bytes).ok_or_else(|| truncated("a layer"))?;
        Coded::parse(arrays, bytes, n_bytes, at)
    }

    /// The exact elements.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn exact(&self) -> Result<&'p [u8]> {
        let at = self.exact_at();
        // None are not missing where there are only some blocks.
        if self.head.n_exact == 0 {
            return Ok(&[]);
        }
        self.bytes.get(at..at + self.head.n_exact).ok_or_else(|| truncated("its exact elements"))
    }
}

/// The error of a payload that ends within something.
pub fn truncated(within: &str) -> Error {
    Error::new(ErrorKind::Truncated, format!("an mgard payload ends within {within}"))
}
