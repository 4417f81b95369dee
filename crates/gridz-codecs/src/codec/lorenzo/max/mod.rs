//! Level `max`: for archives. Codes elements sequentially, with models that adapt to the previous
//! elements.
//!
//! A block's words become numbers (`map`). Each number is predicted in several ways (`predict`,
//! `lorenzo`, `lookback`), and the prediction that was best nearby is used. The difference is coded
//! as its length, its sign and its bits (`residual`). The code for this is written once for both
//! directions (`body`); `choose` and `orders` have a writer's choices. All per-element code is
//! inlined, so that it is compiled with the instructions of the caller's level.

mod body;
mod choose;
mod domain;
mod header;
mod lookback;
mod lorenzo;
mod map;
mod orders;
mod predict;
mod residual;

use std::ops::Range;

use crate::codec::BlockCounts;
use crate::codec::lorenzo::layout::UNIT;
use crate::cpu::thread_cache::{Cacheable, ThreadCache, at_least, bytes_of};
use crate::error::{Error, Result, try_vec};
use crate::stage::blocks::layout::Layout;
use crate::stage::blocks::payload::BlockCoder;
use crate::stage::blocks::source::{self, Source};
use crate::stage::blocks::target::Target;
use crate::stage::element::Element;
use crate::stage::entropy::model::Model;
use crate::stage::entropy::range::{Coder, Decoder, Encoder};
use crate::stage::predict::Orders;
use crate::stage::rows::{LANES, Simd, SimdWord, WithSimd};
use crate::stage::word::Word;
use body::{Memory, code_mask, code_numbers, code_words};
use choose::Part;
use domain::{Doubles, Integers, Singles};
use header::{Header, Plan};
use lookback::{LOG2_PLACES, Tables};
use lorenzo::Lorenzo;
use map::{BITS, CUT, DECIMAL, RANKS, code_tail};
use orders::most_orders;
use predict::{N, Scores, Values};
use residual::{Coded, Models};

pub use header::BYTES as HEADER_BYTES;

/// The common data of a chunk's blocks.
#[derive(Clone, Copy)]
pub struct Max {
    pub layout: Layout,
    pub element: Element,
    /// The period, in steps along the slowest axis; 0 if there is none.
    pub period: u32,
}

/// Scratch memory for blocks, cached per thread; its contents between blocks are arbitrary. Buffers
/// have room for a block followed by the part for trials. With blocks of the largest size, a thread
/// caches about 14 MB.
#[derive(Default)]
pub struct Work<W> {
    words: Vec<W>,
    /// The distinct words, in ascending order.
    ranks: Vec<W>,
    numbers: Vec<i64>,
    tails: Vec<u64>,
    masked: Vec<bool>,
    values: Vec<f64>,
    planes: Vec<i64>,
    rows: Vec<i64>,
    above: Vec<Scores>,
    coded: Vec<Coded>,
    tables: Tables,
    models: Vec<Models>,
}

impl<W: Word> Cacheable for Work<W> {
    fn n_bytes(&self) -> usize {
        let Self { words, ranks, numbers, tails, masked, values, planes, rows, above, coded, tables, models } =
            self;
        let of_elements = bytes_of(words) + bytes_of(ranks) + bytes_of(tails) + bytes_of(masked) + bytes_of(values);
        let of_numbers = [numbers, planes, rows].map(bytes_of).iter().sum::<usize>();
        let of_rows = bytes_of(above) + bytes_of(coded);
        of_elements + of_numbers + of_rows + bytes_of(&tables.one) + bytes_of(&tables.two) + bytes_of(models)
    }
}

impl<W: Word> Work<W> {
    /// Allocates for a block of this shape.
    fn prepare(&mut self, shape: [usize; 3]) -> Result<()> {
        let [sz, sy, sx] = shape;
        let n = sz * sy * sx;
        let with_part = n + Part::of(shape).n_elements();
        at_least(&mut self.words, with_part + 2 * LANES)?;
        at_least(&mut self.numbers, with_part)?;
        at_least(&mut self.tails, with_part)?;
        at_least(&mut self.masked, with_part)?;
        at_least(&mut self.values, Values::needs(shape))?;
        // A single row has no rows around it.
        let places = if sz * sy == 1 { 1 } else { sx };
        at_least(&mut self.above, places)?;
        at_least(&mut self.coded, places)
    }

    /// Allocates for differences of these orders.
    fn prepare_orders(&mut self, orders: Orders, shape: [usize; 3]) -> Result<()> {
        let [planes, rows] = Lorenzo::needs(orders, shape);
        at_least(&mut self.planes, planes)?;
        at_least(&mut self.rows, rows)
    }

    /// Codes numbers of a block from `start` on, which have a shape of their own.
    #[inline(always)]
    fn code<S: Simd<W>, C: Coder>(
        &mut self,
        s: S,
        coder: &mut C,
        plan: &Plan<W>,
        (shape, lag): ([usize; 3], usize),
        start: usize,
        is_float: bool,
    ) -> [u32; N] {
        s.outlined_up_to_avx2(CodeNumbers { work: self, coder, plan, shape, lag, start, is_float })
    }
}

/// [`Work::code`] as a task.
struct CodeNumbers<'a, W: Word, C> {
    work: &'a mut Work<W>,
    coder: &'a mut C,
    plan: &'a Plan<W>,
    shape: [usize; 3],
    lag: usize,
    start: usize,
    is_float: bool,
}

impl<W: Word, C: Coder> WithSimd<W> for CodeNumbers<'_, W, C> {
    type Output = [u32; N];

    #[inline(always)]
    fn run<S: Simd<W>>(self, s: S) -> [u32; N] {
        let Self { work, coder, plan, shape, lag, start, is_float } = self;
        let Work { numbers, masked, values, planes, rows, above, coded, tables, models, .. } = work;
        let memory = &mut Memory { models: &mut models[0], values, planes, rows, above, coded, tables };
        let n = shape[0] * shape[1] * shape[2];
        let (masked, numbers) = (&masked[start..start + n], &mut numbers[start..start + n]);
        match (plan.map, is_float) {
            (BITS, true) if W::BITS == 32 => {
                code_numbers((s, coder), &Singles(plan.unit), memory, plan, (shape, lag), masked, numbers)
            }
            (BITS, true) => {
                code_numbers((s, coder), &Doubles(plan.unit), memory, plan, (shape, lag), masked, numbers)
            }
            _ => code_numbers((s, coder), &Integers, memory, plan, (shape, lag), masked, numbers),
        }
    }
}

/// The period in elements.
fn lag_of(shape: [usize; 3], period: u32) -> usize {
    let [_, sy, sx] = shape;
    let step = match shape {
        [1, 1, _] => 1,
        [1, ..] => sx,
        _ => sy * sx,
    };
    // A period beyond the block has no effect.
    step.saturating_mul(period as usize)
}

impl<W: SimdWord> BlockCoder<W> for Max {
    const NAME: &'static str = "lorenzo";
    type Work = ThreadCache<Work<W>>;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn element(&self) -> Element {
        self.element
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn work(&self) -> Result<ThreadCache<Work<W>>> {
        // Allocate for the largest block first, because encoding a block cannot fail.
        let mut work = ThreadCache::<Work<W>>::take();
        at_least(&mut work.tables.one, 1 << LOG2_PLACES)?;
        at_least(&mut work.tables.two, 1 << LOG2_PLACES)?;
        if work.models.is_empty() {
            work.models = try_vec(1, "a block")?;
            work.models.push(Models::NEW);
        }
        for (_, shape) in self.layout.blocks.kinds().filter(|&(n_blocks, _)| n_blocks > 0) {
            work.prepare(shape)?;
            work.prepare_orders(most_orders(shape), shape)?;
            at_least(&mut work.ranks, shape.iter().product())?;
        }
        Ok(work)
    }

    #[inline(always)]
    fn encode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut ThreadCache<Work<W>>,
        source: &Source,
        shape: [usize; 3],
        out: &mut [u8],
    ) -> usize {
        let n = shape[0] * shape[1] * shape[2];
        let (work, element) = (&mut **work, self.element);
        let block = source::load(s, source, shape, element, &mut work.words);
        if block.range[0] == block.range[1] {
            Header::Constant(block.first).emit(out);
            return HEADER_BYTES;
        }
        for word in &mut work.words[..n] {
            *word = word.wrapping_add(block.first);
        }
        let raw_bytes = HEADER_BYTES + (n * element.bytes).next_multiple_of(UNIT);
        let (head, place) = out[..raw_bytes].split_at_mut(HEADER_BYTES);
        let plan = choose::choose(s, work, place, (shape, self.period), element.is_float);
        let mut encoder = Encoder::new(place);
        code(s, work, &mut encoder, &plan, (shape, lag_of(shape, self.period)), element.is_float);
        if let Some((front, back)) = encoder.finish() {
            let n_bytes = (front + back).next_multiple_of(UNIT);
            if n_bytes < place.len() {
                let end = place.len();
                place.copy_within(end - back.., n_bytes - back);
                place[front..n_bytes - back].fill(0);
                Header::Coded(plan).emit(head);
                return HEADER_BYTES + n_bytes;
            }
        }
        Header::<W>::Raw.emit(head);
        place.fill(0);
        source.copy(shape, element, place);
        raw_bytes
    }

    #[inline(always)]
    fn decode<S: Simd<W>>(
        &self,
        s: S,
        work: &mut ThreadCache<Work<W>>,
        shape: [usize; 3],
        bytes: &[u8],
        target: &mut Target,
    ) -> Result<()> {
        let n = shape[0] * shape[1] * shape[2];
        let (work, element) = (&mut **work, self.element);
        let damage = || Error::corrupt("a lorenzo block is damaged: its length does not match its contents");
        let (head, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
        match Header::<W>::parse(head, element.is_float)? {
            Header::Raw => {
                if rest.len() != (n * element.bytes).next_multiple_of(UNIT) {
                    return Err(damage());
                }
                target.copy(&rest[..n * element.bytes], shape, element.bytes);
                return Ok(());
            }
            Header::Constant(word) => {
                if !rest.is_empty() {
                    return Err(damage());
                }
                work.prepare(shape)?;
                work.words[..n].fill(word);
            }
            Header::Coded(plan) => {
                let is_possible = (0..3).all(|k| plan.orders[k] == 0 || shape[k] > 1);
                if plan.n_ranks as usize > n || !is_possible {
                    return Err(Error::corrupt("a lorenzo block is damaged: its header is invalid"));
                }
                work.prepare(shape)?;
                work.prepare_orders(plan.orders, shape)?;
                at_least(&mut work.ranks, plan.n_ranks as usize)?;
                let mut decoder = Decoder::new(rest);
                code(s, work, &mut decoder, &plan, (shape, lag_of(shape, self.period)), element.is_float);
                if !decoder.is_sound() {
                    return Err(damage());
                }
                to_words(work, &plan, n, element.is_float)?;
            }
        }
        target.store(s, &work.words, shape, element);
        Ok(())
    }
}

/// Codes a whole block.
#[inline(always)]
fn code<W: Word, S: Simd<W>, C: Coder>(
    s: S,
    work: &mut Work<W>,
    coder: &mut C,
    plan: &Plan<W>,
    (shape, lag): ([usize; 3], usize),
    is_float: bool,
) {
    let n = shape[0] * shape[1] * shape[2];
    if plan.mask.is_some() {
        code_mask(coder, &mut work.masked[..n], shape);
    }
    code_words(coder, &mut work.ranks[..plan.n_ranks as usize]);
    work.code(s, coder, plan, (shape, lag), 0, is_float);
    if plan.map == CUT {
        code_tails(work, coder, plan, 0..n);
    }
}

/// Codes the tails of some elements.
#[inline(always)]
fn code_tails<W: Word, C: Coder>(work: &mut Work<W>, coder: &mut C, plan: &Plan<W>, elements: Range<usize>) {
    let mut models = [Model::NEW; 65];
    for i in elements {
        if plan.mask.is_none() || !work.masked[i] {
            work.tails[i] = code_tail::<W, _>(&mut models, coder, work.numbers[i], plan.unit, work.tails[i]);
        }
    }
}

/// Converts numbers to words.
#[inline(always)]
fn to_words<W: Word>(work: &mut Work<W>, plan: &Plan<W>, n: usize, is_float: bool) -> Result<()> {
    let Work { words, ranks, numbers, tails, masked, .. } = work;
    let ranks = &ranks[..plan.n_ranks as usize];
    for i in 0..n {
        let number = numbers[i];
        let word = match plan.mask {
            Some(word) if masked[i] => Some(word),
            _ => match plan.map {
                BITS => {
                    let word = W::from_u64((number as u64) << plan.unit);
                    Some(if is_float { map::order(word) } else { word })
                }
                CUT => map::uncut(number, tails[i], plan.unit),
                DECIMAL => Some(map::from_decimal(number, plan.unit)),
                _ => usize::try_from(number).ok().and_then(|rank| ranks.get(rank).copied()),
            },
        };
        words[i] = word
            .ok_or_else(|| Error::corrupt("a lorenzo block is damaged: a value exceeds the range of its type"))?;
    }
    Ok(())
}

/// Counts a block by its kind.
///
/// # Errors
/// As [`Header::parse`], except for checks that depend on the bits of a word.
pub fn count(bytes: &[u8], is_float: bool, counts: &mut BlockCounts) -> Result<()> {
    let head = bytes
        .first_chunk()
        .ok_or_else(|| Error::corrupt("a lorenzo block is damaged: its header is incomplete"))?;
    counts.all += 1;
    match Header::<u64>::parse(head, is_float)? {
        Header::Raw => counts.raw += 1,
        Header::Constant(_) => counts.constant += 1,
        Header::Coded(plan) => {
            counts.entropy += 1;
            counts.masked += u64::from(plan.mask.is_some());
            counts.cut += u64::from(plan.map == CUT);
            counts.decimal += u64::from(plan.map == DECIMAL);
            counts.dictionary += u64::from(plan.map == RANKS);
        }
    }
    Ok(())
}
