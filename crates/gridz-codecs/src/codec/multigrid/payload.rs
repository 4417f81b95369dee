//! The head of a payload, and the positions of its numbers.
//!
//! ```text
//! f64 bound | the first value, 8 bytes | u8 axes in the order of steps, 4 | u32 0 |
//! u64 which steps are cubic | f64 bin of each level, the coarsest first | u64 bytes of exact elements |
//! if there are several layers, of the first: f64 bound | u64 bytes of table and blocks | u64 check of exact elements
//!     of each further one: f64 bound | u64 bytes of table and blocks | u64 check of exact elements |
//!     u64 bytes of exact elements | u64 which steps predict | u64 which are cubic | f64 bin of each level
//!     u64 check of what is before it
//! of each layer: table and blocks of numbers | exact elements
//! ```
//!
//! So the bytes that few layers need come first, and the head gives their number.

use crate::codec::multigrid::arrays::Arrays;
use crate::codec::multigrid::grid::{Grid, MAX_LEVELS, MAX_RANK, Step};
use crate::codec::multigrid::numbers::{Coded, UNIT, end_of_blocks};
use crate::codec::multigrid::params::MAX_LAYERS;
use crate::codec::multigrid::real::Real;
use crate::codec::multigrid::refine::{From, Rule};
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::Checksum;
use crate::stage::blocks::table::check_of;
use crate::types::DType;

/// Bytes before the bins.
const FIXED_BYTES: usize = 32;
/// Bytes that describe the first of several layers; and each further one, in addition to its bins.
const FIRST_LAYER_BYTES: usize = 24;
const LAYER_BYTES: usize = 48;
/// Bytes of a head's checksum.
const CHECK_BYTES: usize = 8;

/// The description of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    /// The error bound after this layer.
    pub bound: f64,
    /// A bit for each step that predicts from nodes, and a bit for each whose predictions are
    /// cubic. In layer 0, all steps predict from nodes.
    pub predicts: u64,
    pub cubic: u64,
    /// The bins of the levels, the finest first.
    pub bins: [f64; MAX_LEVELS],
    /// Bytes of its table and blocks.
    pub n_bytes: usize,
    /// Bytes of the elements that are exact from this layer on, and their checksum if there are
    /// several layers.
    pub n_exact: usize,
    pub exact_check: u32,
}

impl Layer {
    /// The initial value, before anything about the layer is known.
    pub const NEW: Self = Self {
        bound: 0.0,
        predicts: u64::MAX,
        cubic: 0,
        bins: [0.0; MAX_LEVELS],
        n_bytes: 0,
        n_exact: 0,
        exact_check: 0,
    };

    /// Its bins, the coarsest level first, as the head stores them.
    fn bins(&self, n_levels: usize) -> impl Iterator<Item = u64> {
        self.bins[..n_levels].iter().rev().map(|bin| bin.to_bits())
    }

    /// The bin of a step.
    fn bin<T: Real>(&self, step: &Step) -> T {
        T::at_most(self.bins[step.level as usize])
    }

    /// The maximum distance of values from the array, except where they are exact, as given by the
    /// bins: half a bin of that level.
    pub fn reach<T: Real>(&self, step: &Step) -> T {
        self.bin::<T>(step) * T::HALF
    }
}

/// The bytes before the numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head {
    /// Bits of the prediction of the first element.
    pub first: u64,
    pub grid: Grid,
    /// The layers; the first `n_layers` are used.
    pub layers: [Layer; MAX_LAYERS],
    pub n_layers: usize,
}

impl Head {
    /// The error bound of the whole payload.
    pub fn bound(&self) -> f64 {
        self.layers[self.n_layers - 1].bound
    }

    /// How the numbers of step `i` become elements in layer `k`.
    pub fn rule<T: Real>(&self, k: usize, i: usize, step: &Step) -> Rule<T> {
        let layer = &self.layers[k];
        let from = match (layer.predicts >> i & 1, layer.cubic >> i & 1) {
            (0, _) => From::Layers,
            (_, 0) => From::Two,
            _ => From::Four,
        };
        let reach = if k > 0 { self.layers[k - 1].reach(step) } else { T::ZERO };
        Rule::new(from, reach, layer.bin(step))
    }

    /// Writes the head to `out`, which has exactly its bytes.
    pub fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.bound().to_le_bytes());
        out[8..16].copy_from_slice(&self.first.to_le_bytes());
        out[16..20].copy_from_slice(&self.grid.order);
        out[20..24].fill(0);
        let [first, further @ ..] = &self.layers;
        out[24..32].copy_from_slice(&first.cubic.to_le_bytes());
        let n_levels = self.grid.n_levels() as usize;
        let of_any = |layer: &Layer| [layer.bound.to_bits(), layer.n_bytes as u64, layer.exact_check.into()];
        let further = further[..self.n_layers - 1].iter().flat_map(|layer| {
            let of_further = [layer.n_exact as u64, layer.predicts, layer.cubic];
            of_any(layer).into_iter().chain(of_further).chain(layer.bins(n_levels))
        });
        let numbers = first.bins(n_levels).chain([first.n_exact as u64]).chain(of_any(first)).chain(further);
        // With a single layer, `out` has room for its bins and exact elements only.
        for (number, out) in numbers.zip(out[FIXED_BYTES..].chunks_exact_mut(8)) {
            out.copy_from_slice(&number.to_le_bytes());
        }
        if self.n_layers > 1 {
            let (head, check) = out.split_at_mut(out.len() - CHECK_BYTES);
            check.copy_from_slice(&check_of_head(head).to_le_bytes());
        }
    }
}

/// Bytes of a head.
pub fn head_bytes(grid: &Grid, n_layers: usize) -> usize {
    let bins = 8 * grid.n_levels() as usize;
    let of_layers = FIRST_LAYER_BYTES + (n_layers - 1) * (LAYER_BYTES + bins) + CHECK_BYTES;
    FIXED_BYTES + bins + 8 + if n_layers > 1 { of_layers } else { 0 }
}

/// The checksum of a head, without its checksum field.
fn check_of_head(head: &[u8]) -> u64 {
    check_of(Checksum::of(head, 0), head.len()).into()
}

/// The parts of a payload, which may be truncated.
pub struct Payload<'p> {
    pub head: Head,
    /// The bytes of the head.
    pub front: &'p [u8],
    bytes: &'p [u8],
}

impl<'p> Payload<'p> {
    /// Parses a payload of `n_all` bytes; `bytes` may be truncated. It belongs to an array with
    /// this grid, except for the order of its axes, and with such words and `n_layers` layers.
    ///
    /// # Errors
    /// `Corrupt`, `Truncated`, or `UnsupportedFormat`.
    pub fn parse(grid: Grid, words: DType, n_layers: usize, n_all: u64, bytes: &'p [u8]) -> Result<Self> {
        let n_head = head_bytes(&grid, n_layers);
        let front = bytes.get(..n_head).ok_or_else(|| truncated("its header"))?;
        let wrong = || Error::corrupt("the header of a multigrid payload is damaged: its values are inconsistent");
        let number = |at: usize| u64::from_le_bytes(*front[at..].first_chunk().expect("bytes of the head"));
        let float = |at: usize| f64::from_bits(number(at));
        let size = |at: usize| usize::try_from(number(at)).map_err(|_| wrong());
        let order: [u8; MAX_RANK] = *front[16..].first_chunk().expect("bytes of the head");
        let grid = grid.ordered(order).ok_or_else(wrong)?;
        let unused = if words == DType::U32 { number(8) >> 32 } else { 0 };
        if front[20..24] != [0; 4] || unused != 0 {
            let text = "a multigrid payload is of an unknown kind; a newer gridz may read this data";
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let n_levels = grid.n_levels() as usize;
        let bins = |at: usize| {
            let mut bins = [0.0; MAX_LEVELS];
            for (i, bin) in bins[..n_levels].iter_mut().rev().enumerate() {
                *bin = float(at + 8 * i);
            }
            bins
        };
        let first = if words == DType::U32 { f32::from_bits(number(8) as u32).into() } else { float(8) };
        let behind = FIXED_BYTES + 8 * n_levels;
        let mut layers = [Layer::NEW; MAX_LAYERS];
        layers[0] = Layer { cubic: number(24), bins: bins(FIXED_BYTES), n_exact: size(behind)?, ..Layer::NEW };
        let n_all = usize::try_from(n_all).map_err(|_| wrong())?;
        let without = |n: usize, layer: &Layer| n.checked_sub(layer.n_bytes)?.checked_sub(layer.n_exact);
        let n_left = without(n_all, &layers[0]).and_then(|n| n.checked_sub(n_head)).ok_or_else(wrong)?;
        if n_layers == 1 {
            (layers[0].bound, layers[0].n_bytes) = (float(0), n_left);
        } else {
            if number(n_head - CHECK_BYTES) != check_of_head(&front[..n_head - CHECK_BYTES]) {
                return Err(Error::corrupt(
                    "the header of a multigrid payload is damaged: its checksum does not match",
                ));
            }
            let check = |at: usize| u32::try_from(number(at)).map_err(|_| wrong());
            (layers[0].bound, layers[0].n_bytes) = (float(behind + 8), size(behind + 16)?);
            layers[0].exact_check = check(behind + 24)?;
            let ats = (behind + 8 + FIRST_LAYER_BYTES..).step_by(LAYER_BYTES + 8 * n_levels);
            for (layer, at) in layers[1..n_layers].iter_mut().zip(ats) {
                let (n_bytes, exact_check, n_exact) = (size(at + 8)?, check(at + 16)?, size(at + 24)?);
                let (predicts, cubic, bins) = (number(at + 32), number(at + 40), bins(at + LAYER_BYTES));
                *layer = Layer { bound: float(at), predicts, cubic, bins, n_bytes, n_exact, exact_check };
            }
            let is_odd = |layer: &Layer| {
                let is_unchecked = layer.n_exact == 0 && layer.exact_check != 0;
                !(layer.n_bytes | layer.n_exact).is_multiple_of(UNIT) || is_unchecked
            };
            if layers.iter().any(is_odd) || layers.iter().try_fold(n_all - n_head, without) != Some(0) {
                return Err(wrong());
            }
        }
        let head = Head { first: number(8), grid, layers, n_layers };
        let is_size = |x: f64| x.is_finite() && x >= 0.0;
        let are_sizes = layers.iter().all(|layer| is_size(layer.bound) && layer.bins.into_iter().all(is_size));
        if !first.is_finite() || !are_sizes || head.bound().to_bits() != number(0) {
            return Err(wrong());
        }
        Ok(Self { head, front, bytes })
    }

    /// Byte offset of a layer, that is, of its table.
    fn start(&self, k: usize) -> usize {
        self.front.len() + self.head.layers[..k].iter().map(|layer| layer.n_bytes + layer.n_exact).sum::<usize>()
    }

    /// Byte offset of a layer's exact elements.
    pub fn exact_at(&self, k: usize) -> usize {
        self.start(k) + self.head.layers[k].n_bytes
    }

    /// Bytes that the first `n_layers` layers need.
    pub fn end(&self, n_layers: usize) -> usize {
        self.start(n_layers)
    }

    /// Bytes that the grid built from these arrays needs.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn end_of(&self, arrays: &Arrays) -> Result<usize> {
        if self.head.layers[0].n_exact > 0 || !arrays.is_part() {
            return Ok(self.end(1));
        }
        let at = self.front.len();
        Ok(end_of_blocks(arrays, &self.bytes[at..], at)?.min(self.exact_at(0)))
    }

    /// The numbers of a layer that are in these arrays.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn numbers(&self, k: usize, arrays: &Arrays) -> Result<Coded<'p>> {
        let at = self.start(k);
        // The bytes after the blocks of these arrays may be missing.
        let end = self.exact_at(k).min(self.bytes.len());
        let bytes = self.bytes.get(at..end).ok_or_else(|| truncated("a layer"))?;
        Coded::parse(arrays, bytes, self.head.layers[k].n_bytes, at)
    }

    /// The elements that are exact from a layer on.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn exact(&self, k: usize) -> Result<&'p [u8]> {
        let (at, n_exact) = (self.exact_at(k), self.head.layers[k].n_exact);
        // An empty section is not truncated, even if only some blocks are available.
        if n_exact == 0 {
            return Ok(&[]);
        }
        self.bytes.get(at..at + n_exact).ok_or_else(|| truncated("its exact elements"))
    }
}

/// The error of a payload that ends within the part `within`.
pub fn truncated(within: &str) -> Error {
    Error::new(ErrorKind::Truncated, format!("a multigrid payload is truncated within {within}"))
}
