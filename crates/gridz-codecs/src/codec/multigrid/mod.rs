//! `multigrid`: a hierarchy of grids, each predicted from the next coarser one, with a bound for
//! every element or for the mean square error.
//!
//! `grid` describes the grids, `refine` computes each grid from the previous one, and `numbers`
//! codes the residuals, in blocks of `arrays`. `runs` finds the nodes in the array, and `accuracy`
//! checks and measures the errors of an encoder. With several layers, each further layer codes what
//! the previous layers have left; `part` determines how much a progressive reader needs. `choose`
//! selects the predictions.
//! `encode` and `decode` process a chunk, and `payload` is the layout of a payload. `exact` stores
//! NaN, fill values and the elements that no prediction approximates well enough.
//!
//! A decoded element depends on all elements of its chunk. So arrays drift if parts of them are
//! rewritten.

mod accuracy;
mod arrays;
mod choose;
mod cuda;
mod decode;
mod encode;
mod exact;
mod grid;
mod norm;
mod numbers;
pub mod params;
mod part;
mod payload;
mod real;
mod refine;
mod runs;
mod walk;

use crate::codec::mode::Mode;
use crate::codec::{
    BlockCounts, Codec, CodecState, Decision, EncodeParams, Encoded, Job, Plan, Progressive, Promise, Speeds,
    not_written, unknown_params,
};
use crate::cpu::float::Ieee;
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::stage::element::Element;
use crate::stage::missing::MissingWords;
use crate::types::{Array, DType, Shape};
use grid::{Grid, MAX_RANK};
use params::Asked;
use payload::Payload;
use real::Real;

/// Room for the bytes of a payload other than numbers.
const FRONT_BYTES: u64 = 1 << 12;

/// Arrays must be smaller: the table of numbers counts units of four bytes in 32 bits.
const MOST_BYTES: usize = 1 << 34;

pub struct Multigrid;

impl Codec for Multigrid {
    fn max_rank(&self) -> usize {
        MAX_RANK
    }

    fn plan(&self, array: &Array, encode_params: &EncodeParams) -> Decision {
        let dtype = array.dtype();
        if !is_float(dtype) {
            let text =
                format!("multigrid does not support {} elements; use quant, or a lossless codec", dtype.name());
            return Decision::Refuse(Error::unsupported(text));
        }
        let asked = match Asked::new(encode_params, dtype) {
            Ok(asked) => asked,
            Err(error) => return Decision::Refuse(error),
        };
        let fold = Fold::Merge;
        let shape = fold.apply(array.shape(), MAX_RANK);
        if shape.n_elements() == 0 {
            return Decision::Store;
        }
        let Some(chunk) = Chunk::new(dtype, &shape, asked) else {
            let n_bytes = array.n_bytes();
            return Decision::Refuse(Error::unsupported(format!(
                "multigrid: a chunk has {n_bytes} bytes, but must be smaller than 16 GiB; choose smaller chunks"
            )));
        };
        let params = asked.to_params();
        Decision::Take(Plan { fold, params, bound: chunk.payload_bound(), layout: CodecState::new(chunk) })
    }

    fn speeds(&self, _params: &[u8]) -> Speeds {
        Speeds::of_core(0.3, 0.7)
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState> {
        if Asked::is_later(params) {
            return Err(unknown_params("multigrid", params));
        }
        let size = dtype.size().map(|size| size as usize);
        let asked = Asked::of_params(params, size).filter(|_| is_float(dtype));
        let chunk = asked.and_then(|asked| Chunk::new(dtype, shape, asked));
        chunk.map(CodecState::new).ok_or_else(|| not_written("multigrid", dtype, shape, params))
    }

    fn version(&self, params: &[u8]) -> u8 {
        if Asked::missing_code(params) == 0 { 1 } else { 2 }
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        let chunk: &Chunk = job.layout.get();
        match chunk.dtype {
            DType::F32 => encode::encode::<f32>(chunk, job, src, dst),
            _ => encode::encode::<f64>(chunk, job, src, dst),
        }
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        let chunk: &Chunk = job.layout.get();
        match chunk.dtype {
            DType::F32 => decode::decode::<f32>(chunk, job, payload, dst),
            _ => decode::decode::<f64>(chunk, job, payload, dst),
        }
    }

    fn promise(&self, params: &[u8], payload: &[u8], _n_bytes: u64) -> Promise {
        let Some(Asked { mode, value, .. }) = Asked::of_params(params, None) else { return Promise::NONE };
        let bound = match mode {
            Mode::Abs => Some(value),
            _ => payload.first_chunk().map(|&head| f64::from_le_bytes(head)),
        };
        Promise { mode, value, bound }
    }

    fn progressive(&self) -> Option<&dyn Progressive> {
        Some(self)
    }

    fn count_blocks(&self, job: &Job, payload: &[u8]) -> Option<Result<BlockCounts>> {
        let chunk: &Chunk = job.layout.get();
        Some(match chunk.dtype {
            DType::F32 => decode::count::<f32>(chunk, job, payload),
            _ => decode::count::<f64>(chunk, job, payload),
        })
    }

    /// Every element may depend on all others of its chunk, so the whole chunk is decoded.
    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>> {
        let chunk: &Chunk = job.layout.get();
        let sums = match chunk.dtype {
            DType::F32 => decode::decode_region::<f32>(chunk, job, payload, region, dst),
            _ => decode::decode_region::<f64>(chunk, job, payload, region, dst),
        };
        Ok(Some(sums?).filter(|_| job.verify))
    }
}

/// True if multigrid supports elements of this type.
fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// The properties of a chunk that are known before its elements.
#[derive(Clone, Copy)]
struct Chunk {
    grid: Grid,
    dtype: DType,
    asked: Asked,
}

impl Chunk {
    /// Returns `None` if the array is empty or too large.
    fn new(dtype: DType, shape: &Shape, asked: Asked) -> Option<Self> {
        let grid = Grid::new(shape)?;
        let n_bytes = grid.n_nodes().checked_mul(dtype.size()? as usize)?;
        (n_bytes < MOST_BYTES).then_some(Self { grid, dtype, asked })
    }

    /// How elements map to words.
    fn element(&self) -> Result<Element> {
        Element::of(self.dtype).ok_or_else(|| {
            let name = self.dtype.name();
            Error::corrupt(format!("the frame header is damaged: multigrid does not encode {name} elements"))
        })
    }

    /// The missing words, if there are any.
    fn missing<T: Real>(&self) -> Option<MissingWords<T::Word>> {
        let missing = &self.asked.missing;
        (!missing.is_none()).then(|| missing.of_part(self.dtype, 0, 1))
    }

    /// Maximum size in bytes of layer 0; an array whose layer 0 is larger is stored.
    fn room(&self) -> u64 {
        let n_bytes = self.grid.n_nodes() as u64 * u64::from(self.dtype.size().unwrap_or_default());
        n_bytes + n_bytes / 32 + FRONT_BYTES
    }

    /// Maximum size in bytes of a payload. A further layer is only written if the previous ones
    /// have fewer bytes than the array.
    fn payload_bound(&self) -> u64 {
        self.room() * if self.asked.n_layers > 1 { 2 } else { 1 }
    }

    /// Parses a payload of `n_all` bytes; `payload` may be truncated.
    fn parse<'p, T: Real>(&self, payload: &'p [u8], n_all: u64) -> Result<Payload<'p>> {
        let _ieee = Ieee::begin();
        let Asked { mode, value, n_layers, .. } = self.asked;
        let parsed = Payload::parse(self.grid, T::WORDS, n_layers, n_all, payload)?;
        let is_other =
            |(k, layer): (usize, &payload::Layer)| layer.bound.to_bits() != self.asked.of_layer(k, value).to_bits();
        if mode == Mode::Abs && parsed.head.layers[..n_layers].iter().enumerate().any(is_other) {
            return Err(Error::corrupt(
                "a multigrid payload is damaged: its bound does not match the frame header",
            ));
        }
        Ok(parsed)
    }
}
