//! `lorenzo`: lossless compression of integers and floats, gridz's own.
//!
//! An array is split into independent blocks. Elements that share one word, such as a fill value,
//! may be omitted (`mask`). The remaining elements become numbers (`map`, `decimal`), whose
//! differences along the axes (`stage::predict`) are coded by their bit lengths. `stage::pack`
//! packs them, with patches for outliers; `huff` gives each length a code; and `stage::sparse`
//! lists the few nonzero ones. Two modes, `fast` and `dense`, choose among these differently
//! (`params`, `block`); the decoder does not depend on the mode. The third one, `max`, is a
//! different format, for archives (`max`). Real and imaginary parts of complex elements are in
//! separate blocks.
//!
//! `stage::blocks` splits a chunk into pieces for threads.

mod block;
mod cuda;
mod cut;
mod decimal;
mod dict;
mod header;
mod huff;
pub mod layout;
mod loops;
mod map;
mod mask;
mod max;
pub mod params;

use crate::codec::fold_choice::{self, FoldChoice, Samples, Words};
use crate::codec::{
    BlockCounts, Codec, CodecState, Decision, EncodeParams, Encoded, Job, Plan, Speeds, not_written,
};
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
use params::Mode;

pub struct Lorenzo;

/// Calls `run` with the worker for a job's words and level.
fn with_worker<R>(job: &Job, run: impl FnOnce(Worker) -> R) -> R {
    let chunk: &Chunk = job.layout.get();
    let at_max = max::Max { layout: chunk.layout, element: chunk.element, period: chunk.period };
    let blocks: &dyn Blocks = match (Mode::of(chunk.b), chunk.element.word_bits()) {
        (Mode::Max, 64) => &WithWord::<u64, _>::new(&at_max),
        (Mode::Max, _) => &WithWord::<u32, _>::new(&at_max),
        (_, 64) => &WithWord::<u64, _>::new(chunk),
        _ => &WithWord::<u32, _>::new(chunk),
    };
    run(job.worker(blocks))
}

impl Codec for Lorenzo {
    fn max_rank(&self) -> usize {
        params::MAX_RANK
    }

    fn alternative_fold(&self, shape: &Shape) -> Option<Fold> {
        fold_choice::alternative(shape)
    }

    fn takes_other_fold(&self, choice: &FoldChoice, job: &Job, src: &[u8]) -> bool {
        let &Chunk { element, .. } = job.layout.get();
        let samples = Samples { choice, element, bytes: src, level: job.level };
        match element.word_bits() {
            64 => samples.take_other::<u64>(&Words),
            _ => samples.take_other::<u32>(&Words),
        }
    }

    fn plan(&self, array: &Array, encode_params: &EncodeParams) -> Decision {
        let (fold, params) = (Fold::Merge, params::choose(array, encode_params.level));
        let chunk = |fold: Fold| Chunk::new(array.dtype(), &fold.apply(array.shape(), params::MAX_RANK), &params);
        // The array has no numbers, or too many.
        let Some(merged) = chunk(fold) else { return Decision::Store };
        let mut bound = merged.layout.payload_bound();
        if let Some(other) = self.alternative_fold(array.shape()).and_then(chunk) {
            bound = bound.max(other.layout.payload_bound());
        }
        Decision::Take(Plan { fold, params, bound, layout: CodecState::new(merged) })
    }

    fn fallback_levels(&self, level: u16) -> &'static [u16] {
        params::fallback_levels(level)
    }

    fn speeds(&self, params: &[u8]) -> Speeds {
        match params.first().map(|&b| params::Mode::of(b)) {
            Some(params::Mode::Dense) => Speeds::of_core(0.2, 0.7),
            Some(params::Mode::Max) => Speeds { core: [0.02, 0.03], slow_kernels: Some([0.0, 0.0]) },
            _ => Speeds::of_core(1.0, 1.9),
        }
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState> {
        let chunk = Chunk::new(dtype, shape, params);
        chunk.map(CodecState::new).ok_or_else(|| not_written("lorenzo", dtype, shape, params))
    }

    fn version(&self, params: &[u8]) -> u8 {
        if params.len() == 1 { 1 } else { 2 }
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        with_worker(job, |worker| worker.encode(src, dst)).map(|(n_bytes, sums)| Encoded { n_bytes, sums })
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        with_worker(job, |worker| worker.decode(payload, dst))
    }

    fn count_blocks(&self, job: &Job, payload: &[u8]) -> Option<Result<BlockCounts>> {
        let chunk: &Chunk = job.layout.get();
        let mut counts = BlockCounts::default();
        let is_float = chunk.element.is_float;
        let mut count = |bytes: &[u8], _| match Mode::of(chunk.b) {
            Mode::Max => max::count(bytes, is_float, &mut counts),
            _ => header::count(bytes, &mut counts),
        };
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

/// The common data of a chunk's blocks.
#[derive(Clone, Copy)]
struct Chunk {
    layout: Layout,
    /// An element, or a part of a complex one.
    element: Element,
    /// The parameters: base-2 logarithm of a block's elements, and the period in planes, rows or
    /// elements.
    b: u8,
    period: u32,
}

impl Chunk {
    /// Returns `None` if the codec cannot have written such a chunk.
    fn new(dtype: DType, shape: &Shape, params: &[u8]) -> Option<Self> {
        let (b, period) = match *params {
            [b] if layout::LOG2_SIZES.contains(&b) => (b, 0),
            [b, p0, p1, p2, p3] if layout::LOG2_SIZES_MAX.contains(&b) => (b, u32::from_le_bytes([p0, p1, p2, p3])),
            _ => return None,
        };
        let layout = layout::new(dtype, shape, b)?;
        let element = Element::of(dtype.parts().0)?;
        Some(Self { layout, element, b, period })
    }
}

impl<W: SimdWord> BlockCoder<W> for Chunk {
    const NAME: &'static str = "lorenzo";
    type Work = Work<W>;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn element(&self) -> Element {
        self.element
    }

    fn is_slow(&self) -> bool {
        Mode::of(self.b) == Mode::Dense
    }

    fn work(&self) -> Result<Work<W>> {
        Work::new(&self.layout)
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
        block::encode(s, work, source, shape, self.element, Mode::of(self.b), out)
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
        block::decode(s, work, shape, self.element, bytes, target)
    }
}
