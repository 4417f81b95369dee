//! `quant`: error-bounded compression of numbers of all types, after cuSZp (Huang et al., SC '23).
//!
//! Elements are quantized to integer codes; a code stands for the elements within the bound
//! (`stage::quantize`). Elements without a suitable code are stored exactly (`exceptions`). Codes
//! are predicted in blocks as lorenzo predicts words (`stage::predict`), and the residuals are
//! packed (`packing`, `block`). Level fast packs them in groups of eight (`stage::byte_groups`);
//! level dense uses an entropy code (`stage::entropy::contexts`). Level max works differently
//! (`max`).
//!
//! A code depends on its element alone, so rewriting parts of an array any number of times causes
//! no drift. Real and imaginary parts of complex elements are in separate blocks.

mod block;
mod cuda;
mod loops;
mod max;
mod packing;
pub mod params;

use std::marker::PhantomData;

use crate::codec::fold_choice::{self, FoldChoice, Samples, ToNumbers, Words};
use crate::codec::mode::Mode;
use crate::codec::{
    BlockCounts, Codec, CodecState, Decision, EncodeParams, Encoded, Job, Params, Plan, Promise, Speeds,
    not_written, unknown_params,
};
use crate::cpu::float::Ieee;
use crate::cpu::isa::Isa;
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::Checksum;
use crate::format::fold::Fold;
use crate::format::region::FoldedRegion;
use crate::stage::blocks::layout::{Form, Layout};
use crate::stage::blocks::payload::{BlockCoder, WithWord, Worker};
use crate::stage::blocks::source::Source;
use crate::stage::blocks::target::Target;
use crate::stage::byte_groups::Widths;
use crate::stage::element::Element;
use crate::stage::entropy::contexts;
use crate::stage::missing::MissingWords;
use crate::stage::quantize::{Coded, Numbers, Quantizer};
use crate::stage::range::{Ranger, bound_of};
use crate::stage::rows::{Simd, SimdWord};
use crate::stage::word::Word;
use crate::types::{Array, DType, Shape};
use block::{Coding, MAX_PARTS, RAW_HEAD, Work};
use packing::Packing;
use params::{Asked, LOG2_UNITS, MAX_RANK, QuantLevel};

/// Bytes before a payload's table: the bound in force.
const HEAD_BYTES: usize = 8;

/// Maximum number of bytes of a block in addition to one word per element.
const MOST_AROUND_WORDS: usize = 16;

pub struct Quant;

impl Codec for Quant {
    fn max_rank(&self) -> usize {
        MAX_RANK
    }

    fn alternative_fold(&self, shape: &Shape) -> Option<Fold> {
        fold_choice::alternative(shape)
    }

    fn takes_other_fold(&self, choice: &FoldChoice, job: &Job, src: &[u8]) -> bool {
        let chunk: &Chunk = job.layout.get();
        let samples = Samples { choice, element: chunk.element, bytes: src, level: job.level };
        match chunk.element.word_bits() {
            64 => take_other::<u64>(chunk, &samples),
            _ => take_other::<u32>(chunk, &samples),
        }
    }

    fn plan(&self, array: &Array, encode_params: &EncodeParams) -> Decision {
        let refuse = |text: String| Decision::Refuse(Error::unsupported(text));
        let (dtype, name) = (array.dtype(), array.dtype().name());
        let (number, _) = dtype.parts();
        if Element::of(number).is_none() {
            return refuse(format!("quant does not support {name} elements; use a lossless codec"));
        }
        if encode_params.mode == Mode::Pwrel && Quantizer::<u64>::relative(number, encode_params.value).is_none() {
            return refuse(format!(
                "quant: mode pwrel does not support {name} elements, which are integers; use abs"
            ));
        }
        if array.shape().n_elements() == 0 {
            return Decision::Store;
        }
        let fold = Fold::Merge;
        let shape = fold.apply(array.shape(), MAX_RANK);
        let other_shape = self.alternative_fold(array.shape()).map(|fold| fold.apply(array.shape(), MAX_RANK));
        for log2_unit in LOG2_UNITS {
            let asked = match Asked::new(encode_params, dtype, log2_unit) {
                Ok(asked) => asked,
                Err(error) => return Decision::Refuse(error),
            };
            // Both kinds of frames of a request for max have the same unit.
            let sibling_fits = asked.sibling().is_none_or(|sibling| Chunk::new(dtype, &shape, sibling).is_some());
            if let Some(chunk) = Chunk::new(dtype, &shape, asked).filter(|_| sibling_fits) {
                let (mut bound, params) = (chunk.layout.payload_bound(), asked.to_params());
                if let Some(other) = other_shape.as_ref().and_then(|shape| Chunk::new(dtype, shape, asked)) {
                    bound = bound.max(other.layout.payload_bound());
                }
                return Decision::Take(Plan { fold, params, bound, layout: CodecState::new(chunk) });
            }
        }
        refuse(format!(
            "quant: a chunk of {} bytes could have a payload of 64 GiB or more; choose smaller chunks",
            array.n_bytes()
        ))
    }

    fn fallback_levels(&self, level: u16) -> &'static [u16] {
        params::fallback_levels(level)
    }

    fn sibling_params(&self, params: &[u8]) -> Option<Params> {
        Asked::sibling_params(params)
    }

    fn speeds(&self, params: &[u8]) -> Speeds {
        match Asked::of_params(params, None).map(|asked| asked.level) {
            Some(QuantLevel::Dense) => Speeds::of_core(0.6, 1.1),
            Some(QuantLevel::Max) => Speeds { core: [0.13, 0.3], slow_kernels: Some([20.0, 20.0]) },
            _ => Speeds::of_core(1.4, 2.8),
        }
    }

    fn layout(&self, dtype: DType, shape: &Shape, params: &[u8]) -> Result<CodecState> {
        let wrong = || not_written("quant", dtype, shape, params);
        if Asked::is_later(params) {
            return Err(unknown_params("quant", params));
        }
        let (number, parts) = dtype.parts();
        let element = Element::of(number).ok_or_else(wrong)?;
        let asked = Asked::of_params(params, Some(element.bytes * parts)).ok_or_else(wrong)?;
        Chunk::new(dtype, shape, asked).map(CodecState::new).ok_or_else(wrong)
    }

    fn version(&self, params: &[u8]) -> u8 {
        if Asked::missing_code(params) == 0 { 1 } else { 2 }
    }

    fn encode(&self, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
        let chunk: &Chunk = job.layout.get();
        match chunk.element.word_bits() {
            64 => encode::<u64>(chunk, job, src, dst),
            _ => encode::<u32>(chunk, job, src, dst),
        }
    }

    fn decode(&self, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
        let chunk: &Chunk = job.layout.get();
        let bound = chunk.bound_of(payload)?;
        match chunk.element.word_bits() {
            64 => decode::<u64>(&Coder::new(chunk, bound), job, payload, dst),
            _ => decode::<u32>(&Coder::new(chunk, bound), job, payload, dst),
        }
    }

    fn promise(&self, params: &[u8], payload: &[u8], _n_bytes: u64) -> Promise {
        let Some(Asked { mode, value, .. }) = Asked::of_params(params, None) else { return Promise::NONE };
        let bound = match mode {
            Mode::Abs => Some(value),
            Mode::Rel => payload.first_chunk().map(|&head| f64::from_le_bytes(head)),
            _ => None,
        };
        Promise { mode, value, bound }
    }

    fn count_blocks(&self, job: &Job, payload: &[u8]) -> Option<Result<BlockCounts>> {
        let chunk: &Chunk = job.layout.get();
        let mut counts = BlockCounts::default();
        let mut looked = || {
            let bound = chunk.bound_of(payload)?;
            match chunk.element.word_bits() {
                64 => count::<u64>(&Coder::new(chunk, bound), job, payload, &mut counts),
                _ => count::<u32>(&Coder::new(chunk, bound), job, payload, &mut counts),
            }
        };
        Some(looked().map(|()| counts))
    }

    fn decode_region(
        &self,
        job: &Job,
        payload: &[u8],
        region: &FoldedRegion,
        dst: &mut [u8],
    ) -> Result<Option<Checksum>> {
        let chunk: &Chunk = job.layout.get();
        let bound = chunk.bound_of(payload)?;
        match chunk.element.word_bits() {
            64 => decode_region::<u64>(&Coder::new(chunk, bound), job, payload, region, dst),
            _ => decode_region::<u32>(&Coder::new(chunk, bound), job, payload, region, dst),
        }?;
        Ok(None)
    }
}

/// The layout of payloads of such arrays, of rank 1 to 3, with units of 2^`log2_unit` bytes.
/// Returns `None` for unsupported elements, for an empty array, or if a payload could exceed what
/// the block table can describe.
pub fn layout(dtype: DType, shape: &Shape, log2_unit: u8, level: QuantLevel) -> Option<Layout> {
    let (number, parts) = dtype.parts();
    let form = Form { head_bytes: HEAD_BYTES, unit: 1 << log2_unit, row: level.row(), block_head: RAW_HEAD, parts };
    Layout::new(shape, Element::of(number)?.bytes, level.log2_size(), form)
}

/// The common data of a chunk's blocks.
#[derive(Clone, Copy)]
struct Chunk {
    layout: Layout,
    /// How a part of an element maps to a word, and the type of the part.
    element: Element,
    number: DType,
    asked: Asked,
}

impl Chunk {
    /// Returns `None` if the array is empty, or if a payload could exceed what the block table can
    /// describe.
    fn new(dtype: DType, shape: &Shape, asked: Asked) -> Option<Self> {
        let number = dtype.parts().0;
        let layout = layout(dtype, shape, asked.log2_unit, asked.level)?;
        Some(Self { layout, element: Element::of(number)?, number, asked })
    }

    /// The missing words of each part of the elements. Elements of one part use the first entry.
    fn missing<W: Word>(&self) -> Option<[MissingWords<W>; MAX_PARTS]> {
        let (missing, n_parts) = (&self.asked.missing, self.layout.parts());
        (!missing.is_none())
            .then(|| std::array::from_fn(|part| missing.of_part(self.number, part % n_parts, n_parts)))
    }

    /// The bound in force, from the start of a payload.
    fn bound_of(&self, payload: &[u8]) -> Result<f64> {
        let bound = payload.first_chunk().ok_or_else(|| {
            let have = payload.len();
            Error::new(
                ErrorKind::Truncated,
                format!("a quant payload is truncated: it has {have} of the {HEAD_BYTES} bytes of its header"),
            )
        })?;
        let bound = f64::from_le_bytes(*bound);
        let Asked { mode, value, .. } = self.asked;
        let is_sound =
            if mode == Mode::Rel { bound.is_finite() && bound >= 0.0 } else { bound.to_bits() == value.to_bits() };
        if is_sound {
            Ok(bound)
        } else {
            Err(Error::corrupt("a quant payload is damaged: its bound does not match the frame header"))
        }
    }
}

/// Calls `run` with the worker for a chunk's blocks; the chunk's level selects how they are coded.
fn with_worker<W: SimdWord, R>(coder: &Coder<W>, job: &Job, encodes: bool, run: impl FnOnce(Worker) -> R) -> R {
    match coder.chunk.asked.level {
        QuantLevel::Fast => run(job.worker(&WithWord::new(&Packed::<_, Widths>::new(coder, job, encodes)))),
        QuantLevel::Dense => {
            run(job.worker(&WithWord::new(&Packed::<_, contexts::Work>::new(coder, job, encodes))))
        }
        QuantLevel::Max => run(job.worker(&WithWord::new(&Max { coder, encodes, level: job.level }))),
    }
}

/// A chunk and the quantization of its elements.
struct Coder<W> {
    chunk: Chunk,
    coding: Coding<W>,
}

impl<W: SimdWord> Coder<W> {
    fn new(chunk: &Chunk, bound: f64) -> Self {
        let _ieee = Ieee::begin();
        let quantizer = match chunk.asked.mode {
            Mode::Pwrel => Quantizer::relative(chunk.number, bound),
            _ if bound > 0.0 => Quantizer::absolute(chunk.number, bound),
            _ => None,
        };
        Self { chunk: *chunk, coding: Coding { element: chunk.element, quantizer, missing: chunk.missing() } }
    }

    /// Checks that a block is no longer than the words of a whole block plus [`MOST_AROUND_WORDS`]
    /// bytes. A GPU has room for that many; writers store longer blocks raw.
    #[inline(always)]
    fn check_length(&self, block: &[u8]) -> Result<()> {
        let most = self.chunk.layout.blocks.block_elements() * W::BYTES + MOST_AROUND_WORDS;
        if block.len() <= most {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "a quant block is damaged: it has {} bytes, but at most {most} are possible",
            block.len()
        )))
    }
}

/// Whether the other fold suits a chunk better, judged by samples. In mode rel, the range of the
/// samples takes the place of the chunk's range.
fn take_other<W: SimdWord>(chunk: &Chunk, samples: &Samples) -> bool {
    let _ieee = Ieee::begin();
    let Asked { mode, value, .. } = chunk.asked;
    let missing = chunk.missing::<W>();
    let missing = missing.as_ref().map(|[first, _]| first);
    let bound = if mode == Mode::Rel {
        let numbers = Numbers::of(chunk.number);
        bound_of(numbers, samples.range(numbers, missing), value)
    } else {
        value
    };
    match Coder::<W>::new(chunk, bound).coding.quantizer {
        Some(quantizer) => samples.take_other(&Codes { quantizer, missing }),
        None => samples.take_other::<W>(&Words),
    }
}

/// Words are encoded as codes. Those without a code count as 0.
struct Codes<'a, W> {
    quantizer: Quantizer<W>,
    missing: Option<&'a MissingWords<W>>,
}

impl<W: Word> ToNumbers<W> for Codes<'_, W> {
    #[inline(always)]
    fn convert<S: Simd<W>>(&self, s: S, words: S::Row) -> S::Row {
        let Coded { codes, are_coded, .. } = block::code_row(s, &self.quantizer, words, self.missing);
        s.select_or_zero(are_coded, codes)
    }
}

fn encode<W: SimdWord>(chunk: &Chunk, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
    let _ieee = Ieee::begin();
    let Asked { mode, value, .. } = chunk.asked;
    let bound = if mode == Mode::Rel {
        let numbers = Numbers::of(chunk.number);
        let ranger = Ranger { pool: job.pool, level: job.level, element: chunk.element, numbers };
        let missing = chunk.missing::<W>();
        ranger.bound(src, missing.as_ref().map(|missing| &missing[..chunk.layout.parts()]), value)?
    } else {
        value
    };
    dst[..HEAD_BYTES].copy_from_slice(&bound.to_le_bytes());
    let coder = Coder::<W>::new(chunk, bound);
    let (n_bytes, sums) = with_worker(&coder, job, true, |worker| worker.encode(src, dst))?;
    Ok(Encoded { n_bytes, sums })
}

fn decode<W: SimdWord>(coder: &Coder<W>, job: &Job, payload: &[u8], dst: &mut [u8]) -> Result<Checksum> {
    with_worker(coder, job, false, |worker| worker.decode(payload, dst))
}

fn decode_region<W: SimdWord>(
    coder: &Coder<W>,
    job: &Job,
    payload: &[u8],
    region: &FoldedRegion,
    dst: &mut [u8],
) -> Result<()> {
    with_worker(coder, job, false, |worker| worker.decode_region(payload, region, dst))
}

fn count<W: SimdWord>(coder: &Coder<W>, job: &Job, payload: &[u8], counts: &mut BlockCounts) -> Result<()> {
    let element = coder.chunk.element;
    let count = match coder.chunk.asked.level {
        QuantLevel::Fast => block::count::<W, Widths>,
        QuantLevel::Dense => block::count::<W, contexts::Work>,
        QuantLevel::Max => max::count::<W>,
    };
    with_worker(coder, job, false, |worker| {
        worker.for_blocks(payload, |bytes, shape| count(bytes, shape, element, counts))
    })
}

/// The blocks of a chunk, with one kind of packing.
struct Packed<'a, W, P> {
    coder: &'a Coder<W>,
    /// True if blocks are to be encoded.
    encodes: bool,
    /// CPU level to use.
    level: Isa,
    packing: PhantomData<fn() -> P>,
}

impl<'a, W: SimdWord, P: Packing<W>> Packed<'a, W, P> {
    fn new(coder: &'a Coder<W>, job: &Job, encodes: bool) -> Self {
        Self { coder, encodes, level: job.level, packing: PhantomData }
    }
}

impl<W: SimdWord, P: Packing<W>> BlockCoder<W> for Packed<'_, W, P> {
    const NAME: &'static str = "quant";
    type Work = Work<W, P>;

    fn layout(&self) -> &Layout {
        &self.coder.chunk.layout
    }

    fn element(&self) -> Element {
        self.coder.chunk.element
    }

    fn work(&self) -> Result<Work<W, P>> {
        Work::new(self.layout(), self.encodes, self.level)
    }

    #[inline(always)]
    fn encode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut Work<W, P>,
        source: &Source,
        shape: [usize; 3],
        out: &mut [u8],
    ) -> usize {
        block::encode(s, work, &self.coder.coding, self.layout().unit(), source, shape, out)
    }

    #[inline(always)]
    fn decode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut Work<W, P>,
        shape: [usize; 3],
        bytes: &[u8],
        target: &mut Target,
    ) -> Result<()> {
        self.coder.check_length(bytes)?;
        block::decode(s, work, &self.coder.coding, self.layout().unit(), shape, bytes, target)
    }
}

/// The blocks of a chunk at level max.
struct Max<'a, W> {
    coder: &'a Coder<W>,
    /// True if blocks are to be encoded.
    encodes: bool,
    /// CPU level to use.
    level: Isa,
}

impl<W: SimdWord> BlockCoder<W> for Max<'_, W> {
    const NAME: &'static str = "quant";
    type Work = max::Work<W>;

    fn layout(&self) -> &Layout {
        &self.coder.chunk.layout
    }

    fn element(&self) -> Element {
        self.coder.chunk.element
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn work(&self) -> Result<max::Work<W>> {
        max::Work::new(self.layout(), self.encodes, self.level)
    }

    #[inline(always)]
    fn encode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut max::Work<W>,
        source: &Source,
        shape: [usize; 3],
        out: &mut [u8],
    ) -> usize {
        max::encode(s, work, &self.coder.coding, self.layout().unit(), source, shape, out)
    }

    #[inline(always)]
    fn decode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut max::Work<W>,
        shape: [usize; 3],
        bytes: &[u8],
        target: &mut Target,
    ) -> Result<()> {
        self.coder.check_length(bytes)?;
        max::decode(s, work, &self.coder.coding, self.layout().unit(), shape, bytes, target)
    }
}
