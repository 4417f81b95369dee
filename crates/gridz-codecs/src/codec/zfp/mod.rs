//! `zfp`: blocks of 4 elements along each axis, by the stream of zfp (Lindstrom, "Fixed-Rate Compressed Floating-Point
//! Arrays", TVCG 2014), bit for bit that of libzfp 1.0.
//!
//! `block` codes one block. After the stream comes an index, which other decoders do not need;
//! threads and region reads use it to locate blocks (`layout`, `index`, `payload`). It is followed
//! by the elements that the stream would not reproduce as requested (`rules`, `exceptions`). So
//! bounds hold for every element, and fill values and NaN are restored. `encode` and `decode`
//! process a chunk.
//!
//! A decoded element depends on all elements of its block. So with a bound or a rate, arrays drift
//! if parts of them are rewritten.

pub mod block;
mod cuda;
mod decode;
mod elements;
mod encode;
mod exceptions;
mod index;
mod join;
pub mod layout;
mod memory;
pub mod numbers;
pub mod params;
mod payload;
mod rules;
mod scatter;
mod third_party;

use crate::codec::mode::Mode;
use crate::codec::{
    BlockCounts, Codec, CodecState, Decision, EncodeParams, Encoded, Job, Plan, Promise, Speeds, not_written,
    unknown_params,
};
use crate::error::{Error, Result};
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::stage::missing::MissingWords;
use crate::stage::rows::SimdWord;
use crate::types::{Array, DType, Shape};
use layout::{Layout, MAX_RANK, Tail};
use numbers::Numbers;
use params::{Asked, bounded};

pub struct Zfp;

/// Calls a function with the float that has as many bits as the elements of a chunk. Integers are
/// processed as floats with the same bits.
macro_rules! by_float {
    ($dtype:expr, $module:ident::$function:ident($($argument:expr),*)) => {
        match $dtype.size() {
            Some(8) => $module::$function::<f64>($($argument),*),
            _ => $module::$function::<f32>($($argument),*),
        }
    };
}
use by_float;

impl Codec for Zfp {
    fn max_rank(&self) -> usize {
        MAX_RANK
    }

    fn plan(&self, array: &Array, encode_params: &EncodeParams) -> Decision {
        let (dtype, is_lossless) = (array.dtype(), encode_params.mode == Mode::Lossless);
        if !is_number(dtype) {
            if is_lossless {
                return Decision::Store;
            }
            let text = format!("zfp does not support {} elements; use quant, or a lossless codec", dtype.name());
            return Decision::Refuse(Error::unsupported(text));
        }
        let fold = Fold::Merge;
        let shape = fold.apply(array.shape(), MAX_RANK);
        let asked = match Asked::new(encode_params, dtype, shape.extents().len()) {
            Ok(asked) => asked,
            Err(error) => return Decision::Refuse(error),
        };
        if shape.n_elements() == 0 {
            return Decision::Store;
        }
        match Chunk::new(dtype, &shape, asked) {
            Some(chunk) if chunk.can_shrink() => {
                let params = asked.to_params();
                Decision::Take(Plan { fold, params, bound: array.n_bytes(), layout: CodecState::new(chunk) })
            }
            None if !is_lossless => Decision::Refuse(Error::unsupported(format!(
                "zfp: a chunk of extents {shape:?} has 2^32 blocks or more; choose smaller chunks"
            ))),
            _ => Decision::Store,
        }
    }

    fn speeds(&self, _params: &[u8]) -> Speeds {
        Speeds::of_core(0.6, 0.8)
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState> {
        if Asked::is_later(params) {
            return Err(unknown_params("zfp", params));
        }
        let is_sound = is_number(dtype);
        let asked = is_sound.then(|| Asked::of_params(params, dtype, shape.extents().len())).flatten();
        let chunk = asked.and_then(|asked| Chunk::new(dtype, shape, asked)).filter(Chunk::can_shrink);
        chunk.map(CodecState::new).ok_or_else(|| not_written("zfp", dtype, shape, params))
    }

    fn version(&self, params: &[u8]) -> u8 {
        if Asked::missing_code(params) == 0 { 1 } else { 2 }
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        let chunk: &Chunk = job.layout.get();
        by_float!(chunk.dtype, encode::encode(chunk, job, src, dst))
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        let chunk: &Chunk = job.layout.get();
        by_float!(chunk.dtype, decode::decode(chunk, job, payload, dst))
    }

    fn promise(&self, params: &[u8], payload: &[u8], n_bytes: u64) -> Promise {
        let Some((mode, value)) = Asked::mode_of(params) else { return Promise::NONE };
        let bound = match mode {
            Mode::Lossless => Some(0.0),
            Mode::Abs => Some(value),
            // The bound is at the end of the payload.
            Mode::Rel if payload.len() as u64 == n_bytes => Tail::of(payload).map(|tail| tail.bound),
            _ => None,
        };
        Promise { mode, value, bound }
    }

    fn count_blocks(&self, job: &Job, payload: &[u8]) -> Option<Result<BlockCounts>> {
        let chunk: &Chunk = job.layout.get();
        Some(match chunk.dtype {
            DType::F64 | DType::I64 => decode::count::<u64>(chunk, payload),
            _ => decode::count::<u32>(chunk, payload),
        })
    }

    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>> {
        let chunk: &Chunk = job.layout.get();
        by_float!(chunk.dtype, decode::decode_region(chunk, job, payload, region, dst))
    }
}

/// True if zfp supports elements of this type.
fn is_number(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64 | DType::F32 | DType::F64)
}

fn are_integers(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// The common data of a chunk's blocks.
#[derive(Clone, Copy)]
struct Chunk {
    layout: Layout,
    dtype: DType,
    asked: Asked,
}

impl Chunk {
    /// Returns `None` if the array is empty or has too many blocks.
    fn new(dtype: DType, shape: &Shape, asked: Asked) -> Option<Self> {
        Some(Self { layout: Layout::new(shape)?, dtype, asked })
    }

    fn are_integers(&self) -> bool {
        are_integers(self.dtype)
    }

    /// True if a block may have fewer bits than its elements.
    fn can_shrink(&self) -> bool {
        let element_bits = 8 * self.dtype.size().unwrap_or(0);
        self.asked.numbers.minbits < self.layout.block_elements() as u32 * element_bits
    }

    /// The missing words, if there are any.
    fn missing<W: SimdWord>(&self) -> Option<MissingWords<W>> {
        let missing = &self.asked.missing;
        (!missing.is_none()).then(|| missing.of_part(self.dtype, 0, 1))
    }

    /// The truncation of blocks if this bound is in force.
    fn numbers_of(&self, bound: f64) -> Result<Numbers> {
        let Asked { mode, value, numbers, .. } = self.asked;
        let is_sound = match mode {
            Mode::Abs => bound.to_bits() == value.to_bits(),
            Mode::Rel => bound.is_finite() && bound.is_sign_positive(),
            _ => bound.to_bits() == 0,
        };
        match is_sound {
            true if mode == Mode::Rel => Ok(bounded(bound)),
            true => Ok(numbers),
            false => Err(Error::corrupt("a zfp payload is damaged: its bound does not match the frame header")),
        }
    }
}
