//! Encoding: several threads encode sections, each to bit 0 of its own memory, and append them to
//! the stream in order. Index and exceptions are collected, because their position depends on the
//! end of the stream.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::codec::mode::Mode;
use crate::codec::zfp::Chunk;
use crate::codec::zfp::block::{BitWriter, GROUP, Scalar};
use crate::codec::zfp::elements::BlockPositions;
use crate::codec::zfp::exceptions::{ALIGNMENT, reserve};
use crate::codec::zfp::join::{Joined, Place};
use crate::codec::zfp::layout::{Block, Layout, MOST_BLOCKS, next};
use crate::codec::zfp::memory::Work;
use crate::codec::zfp::numbers::Numbers;
use crate::codec::zfp::params::bounded;
use crate::codec::zfp::rules::{Checked, Rules, Scratch};
use crate::codec::{Encoded, Job};
use crate::cpu::float::Ieee;
use crate::cpu::isa::{Kernel, dispatch_up_to_avx2};
use crate::cpu::ordered::in_turn;
use crate::cpu::pool::{Pool, lock};
use crate::cpu::thread_cache::ThreadCache;
use crate::error::Result;
use crate::format::checksum::Checksum;
use crate::stage::element::Element;
use crate::stage::hasher::{Prefetch, checksum_of};
use crate::stage::missing::MissingWords;
use crate::stage::quantize;
use crate::stage::range::Ranger;
use crate::stage::word::Word;

/// Sections that a thread encodes at a time. Their stream is still in the cache when it is
/// appended.
const PER_PIECE: usize = 8;

/// Spare bytes after the stream of a piece. With this much room, blocks are written without
/// checking for the end.
const BEHIND: usize = 8 << 10;

/// Encodes `src` into `dst`. If the result does not fit, its length is reported as that of `src`.
///
/// # Errors
/// `OutOfMemory`.
pub fn encode<T: Checked>(chunk: &Chunk, job: &Job, src: &[u8], dst: &mut [u8]) -> Result<Encoded> {
    let _ieee = Ieee::begin();
    let Chunk { layout, asked, .. } = chunk;
    let missing = chunk.missing::<T::Word>();
    let bound = match asked.mode {
        Mode::Abs => Some(asked.value),
        Mode::Rel => Some(relative_bound::<T>(chunk, job, src, missing.as_ref())?),
        _ => None,
    };
    let numbers = if asked.mode == Mode::Rel { bounded(bound.unwrap_or_default()) } else { asked.numbers };
    let rules = Rules::<T>::new(layout, (numbers, chunk.are_integers()), job.level, bound, missing.as_ref());
    let places = BlockPositions::new(layout);
    let alone = Pool::new(1);
    let pool = if job.pool.pieces(src.len() as u64) == 1 { &alone } else { job.pool };

    let (sums, is_full) = (Mutex::new(Checksum::default()), AtomicBool::new(false));
    let make = |piece: usize| {
        // Each thread sets its own floating-point mode.
        let _ieee = Ieee::begin();
        let mut work = ThreadCache::<Work>::take();
        let is_vain = is_full.load(Ordering::Relaxed);
        let sections = piece * PER_PIECE..((piece + 1) * PER_PIECE).min(layout.n_sections());
        let task =
            Piece { rules: &rules, places: &places, layout, numbers: &numbers, src, sections, work: &mut work };
        let made = if is_vain { Ok(()) } else { dispatch_up_to_avx2(job.level, task) };
        made.map(|()| work)
    };
    let turn = |made, joined: &mut _| {
        let placed = take_turn(made, joined);
        is_full.fetch_or(placed.is_none(), Ordering::Relaxed);
        placed
    };
    let finish = |placed: Option<(Place, ThreadCache<Work>)>| {
        let Some((mut place, work)) = placed else { return };
        place.write(&work.stream);
        let of_piece = checksum_of(job.level, Prefetch::Nothing, place.bytes, place.start as u64);
        let mut all = lock(&sums);
        *all = all.combine(of_piece);
    };
    let n_pieces = layout.n_sections().div_ceil(PER_PIECE);
    let Joined { n_bits, waiting, index, .. } =
        in_turn(pool, n_pieces, Ok(Joined::new(&mut *dst)), make, turn, finish)?;

    let start = n_bits as usize / 64 * 8;
    let whole = if is_full.into_inner() {
        None
    } else {
        // The last, partial word.
        dst[start..].iter_mut().zip(waiting.to_le_bytes()).for_each(|(to, from)| *to = from);
        index.write(layout, numbers.is_fixed(), n_bits, bound, dst)
    };
    let Some(n_bytes) = whole else { return Ok(Encoded { n_bytes: src.len(), sums: Checksum::default() }) };
    let of_rest = checksum_of(job.level, Prefetch::Nothing, &dst[start..n_bytes], start as u64);
    Ok(Encoded { n_bytes, sums: sums.into_inner().unwrap_or_default().combine(of_rest) })
}

/// The place of a piece in the stream, if it fits.
fn take_turn<'d>(
    made: Result<ThreadCache<Work>>,
    joined: &mut Result<Joined<'d>>,
) -> Option<(Place<'d>, ThreadCache<Work>)> {
    let Ok(so_far) = joined else { return None };
    let placed = made.and_then(|work| Ok(so_far.take(&work)?.map(|place| (place, work))));
    placed.unwrap_or_else(|failure| {
        *joined = Err(failure);
        None
    })
}

/// Converts the value of mode rel to an absolute bound for this array.
fn relative_bound<T: Checked>(
    chunk: &Chunk,
    job: &Job,
    src: &[u8],
    missing: Option<&MissingWords<T::Word>>,
) -> Result<f64> {
    let Some(element) = Element::of(chunk.dtype) else { return Ok(0.0) };
    let numbers = quantize::Numbers::of(chunk.dtype);
    let ranger = Ranger { pool: job.pool, level: job.level, element, numbers };
    ranger.bound(src, missing.map(std::slice::from_ref), chunk.asked.value)
}

/// Maximum number of bits of a block.
fn most_bits<T: Scalar>(layout: &Layout, numbers: &Numbers) -> usize {
    let (n, planes) = (layout.block_elements(), T::Word::BITS as usize);
    // Every element in every plane, and flags for every plane and every element, which say whether
    // more follows. Before them come two flags, an exponent and a number of planes.
    let all = (n + 1) * planes + n + (2 + T::EXPONENT_BITS + T::PLANES_BITS) as usize;
    all.max(numbers.minbits as usize).min(numbers.maxbits as usize)
}

/// Encodes consecutive sections.
struct Piece<'a, T: Checked> {
    rules: &'a Rules<'a, T>,
    places: &'a BlockPositions<'a>,
    layout: &'a Layout,
    numbers: &'a Numbers,
    src: &'a [u8],
    sections: Range<usize>,
    work: &'a mut Work,
}

impl<T: Checked> Kernel for Piece<'_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn run(self) -> Result<()> {
        let Self { rules, places, layout, numbers, src, sections, work } = self;
        let n_blocks = sections.len() * layout.per_section();
        let most_bytes = (n_blocks * most_bits::<T>(layout, numbers)).div_ceil(64) * 8 + BEHIND;
        let Work { stream, index, found, .. } = work;
        index.clear();
        index.reserve(PER_PIECE)?;
        if stream.len() < most_bytes {
            stream.clear();
            reserve(stream, most_bytes)?;
            stream.resize(most_bytes, 0);
        }
        let (n, mut scratch) = (layout.block_elements(), Scratch::new());
        let (mut elements, mut blocks) = ([T::default(); GROUP], [Block::default(); MOST_BLOCKS]);
        let mut out = BitWriter::new(stream, 0);
        for section in sections {
            found.begin()?;
            let start = out.position();
            let mut all = layout.blocks(layout.section(section));
            for place in (0..layout.groups_of(section).len()).map(|group| group * GROUP) {
                let blocks = next(&mut all, &mut blocks[..layout.per_group()]);
                let elements = &mut elements[..blocks.len() * n];
                places.load(src, blocks, elements);
                let n_bits = rules.encode(blocks, elements, &mut out, &mut scratch, (found, place));
                index.groups.push(n_bits as u16);
            }
            index.sections.push((out.position() - start) as u64);
            let before = index.exceptions.len();
            found.write::<T::Word>(&mut index.exceptions)?;
            index.units.push(((index.exceptions.len() - before) / ALIGNMENT) as u32);
            index.n_exceptions += found.len() as u64;
        }
        debug_assert!(!out.ran_out());
        work.n_bits = out.position();
        out.finish();
        Ok(())
    }
}
