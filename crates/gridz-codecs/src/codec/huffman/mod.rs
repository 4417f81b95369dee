//! `huffman`: bytes and integers of up to 32 bits, by the frequencies of their values; after
//! Huffman-X of HPDR (Chen et al., 2023).
//!
//! For data that is neither smooth nor repetitive: categories, counts, noise. A chunk is one
//! sequence of numbers, cut into blocks with codes of their own (`stage::entropy`). Where neighbors
//! are similar, their differences are coded instead (`block`). Unlike Huffman-X, no stream needs a
//! code book of 66 KB that is read bit by bit.

mod block;
mod cuda;
pub mod params;

use std::marker::PhantomData;

use crate::codec::{
    BlockCounts, Codec, CodecState, Decision, EncodeParams, Encoded, Job, Params, Plan, Speeds, not_written,
};
use crate::cpu::isa::Isa;
use crate::error::Result;
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::payload::{BlockCoder, WithWord, Worker};
use crate::stage::blocks::source::Source;
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::entropy::symbols::Number;
use crate::stage::rows::Simd;
use crate::types::{Array, DType, Shape};
use block::Work;

pub struct Huffman;

impl Codec for Huffman {
    fn max_rank(&self) -> usize {
        params::MAX_RANK
    }

    fn plan(&self, array: &Array, _encode_params: &EncodeParams) -> Decision {
        let fold = Fold::Merge;
        let Some(element) = element(array.dtype()) else { return Decision::Store };
        let b = params::log2_size(element.bytes);
        match Chunk::new(array.dtype(), &fold.apply(array.shape(), params::MAX_RANK), &[b]) {
            // The array has no numbers, or too many.
            None => Decision::Store,
            Some(chunk) => {
                let bound = chunk.layout.payload_bound();
                Decision::Take(Plan { fold, params: Params::new(&[b]), bound, layout: CodecState::new(chunk) })
            }
        }
    }

    fn speeds(&self, _params: &[u8]) -> Speeds {
        Speeds::of_core(0.6, 1.0)
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState> {
        let chunk = Chunk::new(dtype, shape, params);
        chunk.map(CodecState::new).ok_or_else(|| not_written("huffman", dtype, shape, params))
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        with_worker(job, |worker| worker.encode(src, dst)).map(|(n_bytes, sums)| Encoded { n_bytes, sums })
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        with_worker(job, |worker| worker.decode(payload, dst))
    }

    fn count_blocks(&self, job: &Job, payload: &[u8]) -> Option<Result<BlockCounts>> {
        let mut counts = BlockCounts::default();
        let mut count = |bytes: &[u8], _| block::count(bytes, &mut counts);
        let looked = with_worker(job, |worker| worker.for_blocks(payload, &mut count));
        Some(looked.map(|()| counts))
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

/// Calls `run` with the worker for a job's numbers.
fn with_worker<R>(job: &Job, run: impl FnOnce(Worker) -> R) -> R {
    let chunk: &Chunk = job.layout.get();
    match chunk.element.bytes {
        1 => run(job.worker(&WithWord::new(&Coder::<u8>::new(chunk, job)))),
        2 => run(job.worker(&WithWord::new(&Coder::<u16>::new(chunk, job)))),
        _ => run(job.worker(&WithWord::new(&Coder::<u32>::new(chunk, job)))),
    }
}

/// Elements that the codec takes: integers of up to four bytes.
fn element(dtype: DType) -> Option<Element> {
    use DType::{I8, I16, I32, U8, U16, U32};
    Element::of(dtype).filter(|_| matches!(dtype, U8 | U16 | U32 | I8 | I16 | I32))
}

/// The common data of a chunk's blocks.
#[derive(Clone, Copy)]
struct Chunk {
    layout: Layout,
    element: Element,
    /// True if elements are signed, so that small numbers may be negative.
    is_signed: bool,
}

impl Chunk {
    /// Returns `None` if the codec cannot have written such a chunk.
    fn new(dtype: DType, shape: &Shape, params: &[u8]) -> Option<Self> {
        let &[b] = params else { return None };
        let element = element(dtype)?;
        let layout = params::layout(shape, element.bytes, b)?;
        Some(Self { layout, element, is_signed: matches!(dtype, DType::I8 | DType::I16 | DType::I32) })
    }
}

/// A chunk of such numbers, and the CPU level to use.
struct Coder<T> {
    chunk: Chunk,
    level: Isa,
    number: PhantomData<T>,
}

impl<T> Coder<T> {
    fn new(chunk: &Chunk, job: &Job) -> Self {
        Self { chunk: *chunk, level: job.level, number: PhantomData }
    }
}

impl<T: Number> BlockCoder<u32> for Coder<T> {
    const NAME: &'static str = "huffman";
    const IS_PER_LEVEL: bool = true;
    const UP_TO_AVX2: [bool; 2] = [true; 2];
    type Work = Work<T>;

    fn layout(&self) -> &Layout {
        &self.chunk.layout
    }

    fn element(&self) -> Element {
        self.chunk.element
    }

    fn work(&self) -> Result<Work<T>> {
        Work::new(self.chunk.layout.blocks.block_elements())
    }

    #[inline(always)]
    fn encode<S: Simd<u32>>(
        &self,
        _: S,
        work: &mut Work<T>,
        source: &Source,
        shape: [usize; 3],
        out: &mut [u8],
    ) -> usize {
        let bytes = &source.bytes[..shape[2] * T::BYTES];
        block::encode(work, self.level, self.chunk.is_signed, bytes, out)
    }

    fn decode<S: Simd<u32>>(
        &self,
        _: S,
        work: &mut Work<T>,
        shape: [usize; 3],
        bytes: &[u8],
        target: &mut Target,
    ) -> Result<()> {
        let to = &mut target.row(0, 0, T::BYTES)[..shape[2] * T::BYTES];
        block::decode(work, self.level, self.chunk.is_signed, bytes, to)
    }
}
