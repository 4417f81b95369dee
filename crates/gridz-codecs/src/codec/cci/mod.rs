//! `cci`: indices, such as the column indices and row pointers of sparse matrices; after CCI
//! (Lawlor, 2013).
//!
//! Rows of such a matrix resemble earlier rows. A chunk is one sequence of numbers, cut into
//! independent blocks. A block is encoded in these steps; `block` runs them all:
//!
//! - `runs`: elements that ascend by 1 may become runs;
//! - `copies`: what remains are differences. A sequence of differences that occurred before is
//!   copied; copying adds a constant to earlier elements, many at a time;
//! - `literals`: differences say little where a matrix row begins, so its first element is coded
//!   relative to the first element of the previous row;
//! - `lists`: the remaining differences are stored in lists with fixed widths or an entropy code.

mod block;
mod copies;
mod cuda;
mod lists;
mod literals;
pub mod params;
mod repeats;
mod runs;

use crate::codec::{Codec, CodecState, Decision, EncodeParams, Encoded, Job, Plan, Speeds, not_written};
use crate::cpu::isa::Isa;
use crate::error::Result;
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::payload::{BlockCoder, Blocks, WithWord, Worker};
use crate::stage::blocks::source::Source;
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::rows::{Simd, SimdWord};
use crate::types::{Array, DType, Shape};
use block::Work;

pub struct Cci;

/// Calls `run` with the worker for a job's words.
fn with_worker<R>(job: &Job, run: impl FnOnce(Worker) -> R) -> R {
    let coder = Coder { chunk: *job.layout.get(), level: job.level };
    let blocks: &dyn Blocks = match coder.chunk.element.bytes {
        8 => &WithWord::<u64, _>::new(&coder),
        _ => &WithWord::<u32, _>::new(&coder),
    };
    run(job.worker(blocks))
}

impl Codec for Cci {
    fn max_rank(&self) -> usize {
        params::MAX_RANK
    }

    fn plan(&self, array: &Array, encode_params: &EncodeParams) -> Decision {
        let (fold, params) = (Fold::Merge, params::choose(encode_params.level));
        match Chunk::new(array.dtype(), &fold.apply(array.shape(), params::MAX_RANK), &params) {
            // The array has no indices, or too many.
            None => Decision::Store,
            Some(chunk) => {
                let bound = chunk.layout.payload_bound();
                Decision::Take(Plan { fold, params, bound, layout: CodecState::new(chunk) })
            }
        }
    }

    fn speeds(&self, _params: &[u8]) -> Speeds {
        Speeds::of_core(0.5, 1.0)
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState> {
        let chunk = Chunk::new(dtype, shape, params);
        chunk.map(CodecState::new).ok_or_else(|| not_written("cci", dtype, shape, params))
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        with_worker(job, |worker| worker.encode(src, dst)).map(|(n_bytes, sums)| Encoded { n_bytes, sums })
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        with_worker(job, |worker| worker.decode(payload, dst))
    }

    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>> {
        with_worker(job, |worker| worker.decode_region(payload, region, dst))?;
        Ok(None)
    }
}

/// Elements that the codec takes: integers of four and eight bytes.
fn element(dtype: DType) -> Option<Element> {
    use DType::{I32, I64, U32, U64};
    Element::of(dtype).filter(|_| matches!(dtype, U32 | U64 | I32 | I64))
}

/// The common data of a chunk's blocks.
#[derive(Clone, Copy)]
struct Chunk {
    layout: Layout,
    element: Element,
    /// True if lists may have an entropy code.
    has_codes: bool,
}

impl Chunk {
    /// Returns `None` if the codec cannot have written such a chunk.
    fn new(dtype: DType, shape: &Shape, params: &[u8]) -> Option<Self> {
        let element = element(dtype)?;
        let (layout, has_codes) = params::layout(shape, element.bytes, params)?;
        Some(Self { layout, element, has_codes })
    }
}

/// A chunk and the CPU level to use for it.
struct Coder {
    chunk: Chunk,
    level: Isa,
}

impl<W: SimdWord> BlockCoder<W> for Coder {
    const NAME: &'static str = "cci";
    const IS_PER_LEVEL: bool = true;
    const UP_TO_AVX2: [bool; 2] = [false, true];
    type Work = Work<W>;

    fn layout(&self) -> &Layout {
        &self.chunk.layout
    }

    fn element(&self) -> Element {
        self.chunk.element
    }

    fn work(&self) -> Result<Work<W>> {
        Work::new(self.chunk.layout.blocks.block_elements())
    }

    #[inline(always)]
    fn encode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut Work<W>,
        source: &Source,
        shape: [usize; 3],
        out: &mut [u8],
    ) -> usize {
        let bytes = &source.bytes[..shape[2] * W::BYTES];
        block::encode(s, work, self.level, self.chunk.has_codes, bytes, out)
    }

    #[inline(always)]
    fn decode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut Work<W>,
        shape: [usize; 3],
        bytes: &[u8],
        target: &mut Target,
    ) -> Result<()> {
        let to = &mut target.row(0, 0, W::BYTES)[..shape[2] * W::BYTES];
        block::decode(s, work, self.level, self.chunk.has_codes, bytes, to)
    }
}
