//! Builds the frame of a matrix from its rows.
//!
//! Threads code windows into parts, which are then concatenated. The result does not depend on the
//! number of threads. All windows without elements share one coded part. So, until the frame is
//! allocated, a matrix of few elements takes little memory, even with very many rows.

use std::collections::HashMap;

use crate::bytes::Bytes;
use crate::csr::{Index, Source};
use crate::element::Element;
use crate::frame::{self, Head, TableRanges};
use crate::layout::{
    BLOCKS, CODE_UNIT, IN_ORDER, LANES, Long, SLICE_BYTES, Slice, Step, VALUE_BLOCK_BYTES, ValueBlock, ValueCodec,
    WINDOW, counted, counted_rows,
};
use crate::values::{Chosen, NUMBERS_UNIT, ValueChoice, write_block};
use crate::window::{Coder, Part, Plan, find_block};
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, Result, try_reserve, try_vec};

/// Windows in a unit of work for a thread.
const AT_A_TIME: usize = 8;
/// Number of windows that are examined to choose the coding of values.
const SAMPLES: usize = 8;

/// A part whose values are coded. The code that concatenates parts is the same for all types.
struct Done {
    part: Part<()>,
    values: Vec<u8>,
    blocks: Vec<ValueBlock>,
}

/// Builds the frame of a matrix.
///
/// # Errors
/// `InvalidArgument` for values that do not suit `choice`; `UnsupportedJob` for a matrix that is
/// too large; `OutOfMemory`.
pub fn build<I: Index, T: Element>(
    source: &Source<I, T>,
    choice: ValueChoice,
    pool: &Pool,
) -> Result<(Head, Bytes)> {
    counted_rows(source.n_rows)?;
    let mut chosen = Chosen::of(source.values, choice)?;
    let block = find_block(source, &BLOCKS);
    if choice == ValueChoice::Best && chosen.codec == ValueCodec::Blocks && !blocks_pay(source, block, &mut chosen)?
    {
        chosen.codec = ValueCodec::Plain;
    }
    let plan = Plan { block, step_bytes: LANES * bytes_of::<T>(chosen.codec) };

    let n_windows = source.n_windows();
    // The last window may have fewer rows than the others, so it is always coded.
    let is_coded = |window: &usize| !source.is_empty(*window) || window + 1 == n_windows;
    let mut windows = try_vec((0..n_windows).filter(is_coded).count(), "bookkeeping")?;
    windows.extend((0..n_windows).filter(is_coded));
    let empty = match (0..n_windows).find(|window| !is_coded(window)) {
        Some(window) => {
            let mut part = Coder::new(source, plan).window(window)?;
            part.slices.iter_mut().for_each(|slice| slice.place -= place_of(window));
            Some(values_of(part, block, &chosen)?)
        }
        None => None,
    };
    let code = |windows: &[usize]| {
        let mut coder = Coder::new(source, plan);
        let one = |&window: &usize| values_of(coder.window(window)?, block, &chosen);
        windows.iter().map(one).collect::<Result<Vec<_>>>()
    };
    let mut coded = try_vec(windows.len(), "windows")?;
    for done in pool.map(windows.chunks(AT_A_TIME).collect(), code) {
        coded.extend(done?);
    }
    let rows: Vec<u64> = coded.iter().flat_map(|done| done.part.long.iter().copied()).collect();
    let code = |row: u64| values_of(Coder::new(source, plan).long(row as usize)?, block, &chosen);
    let of_long = pool.map(rows.clone(), code).into_iter().collect::<Result<Vec<_>>>()?;

    let mut long = try_vec(rows.len(), "long rows")?;
    let mut first = 0;
    for (&row, done) in rows.iter().zip(&of_long) {
        let n = done.part.slices.len();
        long.push(Long { row, first: counted(first)?, n: counted(n)? });
        first += n;
    }
    let mut different = try_vec(chosen.different.len() * T::BYTES, "values")?;
    for value in &chosen.different {
        let at = different.len();
        different.resize(at + T::BYTES, 0);
        value.write(&mut different[at..]);
    }
    let head = Head {
        dtype: T::DTYPE,
        codec: chosen.codec,
        block,
        n_rows: source.n_rows,
        n_cols: source.n_cols,
        nnz: source.columns.len() as u64,
        n_slices: 0,
        n_long_slices: 0,
        n_steps: 0,
        n_order: 0,
        n_long: long.len(),
        n_different: chosen.different.len(),
        code_bytes: 0,
        value_bytes: 0,
    };
    assemble(head, &different, Parts { n_windows, windows, coded, empty, of_long }, &long)
}

/// Position of the first slice of a window.
fn place_of(window: usize) -> u32 {
    (window * (WINDOW / LANES)) as u32
}

/// Approximate bytes of a value.
fn bytes_of<T: Element>(codec: ValueCodec) -> usize {
    match codec {
        ValueCodec::Plain => T::BYTES,
        ValueCodec::Constant => 0,
        ValueCodec::Dictionary8 => 1,
        ValueCodec::Dictionary16 => 2,
        ValueCodec::Blocks => T::BYTES / 2,
    }
}

/// True if blocks save a fifth of the values' bytes in some sample windows.
fn blocks_pay<I: Index, T: Element>(source: &Source<I, T>, block: usize, chosen: &mut Chosen<T>) -> Result<bool> {
    let mut coder = Coder::new(source, Plan { block, step_bytes: LANES * T::BYTES });
    let n_windows = source.n_windows();
    let (mut plain, mut coded) = (0, 0);
    for window in (0..n_windows).step_by(n_windows.div_ceil(SAMPLES).max(1)) {
        let done = values_of(coder.window(window)?, block, chosen)?;
        plain += done.part.slices.iter().map(|slice| slice.value_steps(block) * LANES * T::BYTES).sum::<usize>();
        coded += done.values.len();
    }
    Ok(coded * 5 <= plain * 4)
}

/// Codes the values of a part.
fn values_of<T: Element>(part: Part<T>, block: usize, chosen: &Chosen<T>) -> Result<Done> {
    let Part { slices, steps, codes, values: plain, order, long } = part;
    let (mut values, mut blocks) = (Vec::new(), Vec::new());
    chosen.write(&plain, &mut values)?;
    if chosen.codec == ValueCodec::Blocks {
        let mut steps = &steps[..];
        for slice in &slices {
            let (own, rest) = steps.split_at(usize::from(slice.n_steps));
            steps = rest;
            let side = slice.side(block);
            let range =
                slice.values_at as usize * LANES..(slice.values_at as usize + slice.value_steps(block)) * LANES;
            let present = |i: usize| own[i / LANES / side].mask >> (i % LANES) & 1 != 0;
            blocks.push(write_block(&plain[range], present, &mut values)?);
        }
    }
    if chosen.codec == ValueCodec::Blocks {
        values.resize(values.len().next_multiple_of(NUMBERS_UNIT), 0);
    }
    Ok(Done { part: Part { slices, steps, codes, values: Vec::new(), order, long }, values, blocks })
}

/// All parts of a frame.
struct Parts {
    n_windows: usize,
    /// The windows of `coded`.
    windows: Vec<usize>,
    coded: Vec<Done>,
    /// The part of every other window, with the positions of the first window.
    empty: Option<Done>,
    of_long: Vec<Done>,
}

impl Parts {
    /// Calls `see` for each part in the order of the frame. The other arguments are the number to
    /// add to the positions of its slices, and whether the part represents an empty window.
    fn each(&mut self, mut see: impl FnMut(&mut Done, u32, bool) -> Result<()>) -> Result<()> {
        let mut coded = self.windows.iter().zip(&mut self.coded).peekable();
        for window in 0..self.n_windows {
            match (coded.next_if(|(of, _)| **of == window), &mut self.empty) {
                (Some((_, done)), _) => see(done, 0, false)?,
                (None, Some(empty)) => see(empty, place_of(window), true)?,
                (None, None) => {
                    return Err(Error::internal("a window of a sparse matrix was not encoded"));
                }
            }
        }
        self.of_long.iter_mut().try_for_each(|done| see(done, 0, false))
    }
}

/// Sizes of all parts before a part, or of all parts.
#[derive(Debug, Default, Clone, Copy)]
struct Sizes {
    slices: usize,
    code_bytes: usize,
    value_steps: usize,
    value_bytes: usize,
    order: usize,
}

impl Sizes {
    /// Adds a part.
    fn add(&mut self, done: &Done, block: usize) {
        let part = &done.part;
        self.slices += part.slices.len();
        self.code_bytes = (self.code_bytes + part.codes.len()).next_multiple_of(CODE_UNIT);
        self.value_steps += part.slices.iter().map(|slice| slice.value_steps(block)).sum::<usize>();
        self.value_bytes += done.values.len();
        self.order += part.order.len();
    }
}

/// Concatenates the parts. `head` lacks their sizes; `different` are the bytes of the values in the
/// table of values.
fn assemble(head: Head, different: &[u8], mut parts: Parts, long: &[Long]) -> Result<(Head, Bytes)> {
    let (steps, all) = share_steps(&mut parts, head.block)?;
    // If these totals fit in 32 bits, so do the positions in all slices.
    for n in [all.value_steps, all.code_bytes / CODE_UNIT, all.order] {
        counted(n)?;
    }
    let n_long_slices = parts.of_long.iter().map(|done| done.part.slices.len()).sum::<usize>();
    let head = Head {
        n_slices: all.slices - n_long_slices,
        n_long_slices,
        n_steps: steps.len(),
        n_order: all.order,
        code_bytes: all.code_bytes,
        value_bytes: all.value_bytes,
        ..head
    };
    let places = head.table_ranges().map_err(|error| Error::unsupported(error.context().to_owned()))?;
    let mut frame = Bytes::zeroed(places.frame_bytes)?;
    let bytes = frame.get_mut();
    frame::begin(bytes, &head);
    put(bytes, places.steps.start, &steps, |one, to| one.write(to));
    put(bytes, places.long.start, long, |one, to| one.write(to));
    bytes[places.different.start..][..different.len()].copy_from_slice(different);
    write_parts(bytes, &places, &mut parts, head.block)?;
    frame::seal(bytes);
    Ok((head, frame))
}

/// Collects the steps of all slices and sets the slices' positions in them. Slices with the same
/// steps share them. Also returns the sizes of all parts.
fn share_steps(parts: &mut Parts, block: usize) -> Result<(Vec<Step>, Sizes)> {
    let mut steps: Vec<Step> = Vec::new();
    let mut known: HashMap<Box<[Step]>, u32> = HashMap::new();
    let mut all = Sizes::default();
    let mut knows_empty = false;
    parts.each(|done, _, is_empty| {
        all.add(done, block);
        // Slices of empty windows share the same steps, wherever the windows are.
        if is_empty && std::mem::replace(&mut knows_empty, true) {
            return Ok(());
        }
        let mut rest = &done.part.steps[..];
        for slice in &mut done.part.slices {
            let (own, others) = rest.split_at(usize::from(slice.n_steps));
            rest = others;
            slice.steps_at = match known.get(own) {
                Some(&at) => at,
                None => {
                    let at = counted(steps.len())?;
                    try_reserve(&mut steps, own.len(), "steps")?;
                    steps.extend(own);
                    known.insert(own.into(), at);
                    at
                }
            };
        }
        Ok(())
    })?;
    Ok((steps, all))
}

/// Writes the tables, codes and values of the parts.
fn write_parts(bytes: &mut [u8], places: &TableRanges, parts: &mut Parts, block: usize) -> Result<()> {
    let mut before = Sizes::default();
    parts.each(|done, place, _| {
        let part = &done.part;
        put(bytes, places.slices.start + before.slices * SLICE_BYTES, &part.slices, |slice, to| {
            let is_in_order = slice.order_at == IN_ORDER;
            let slice = Slice {
                place: slice.place + place,
                codes_at: slice.codes_at + (before.code_bytes / CODE_UNIT) as u32,
                values_at: slice.values_at + before.value_steps as u32,
                order_at: if is_in_order { IN_ORDER } else { slice.order_at + before.order as u32 },
                ..*slice
            };
            slice.write(to);
        });
        if !done.blocks.is_empty() {
            put(bytes, places.blocks.start + before.slices * VALUE_BLOCK_BYTES, &done.blocks, |one, to| {
                ValueBlock { at: one.at + before.value_bytes as u64, ..*one }.write(to);
            });
        }
        put(bytes, places.order.start + before.order * 2, &part.order, |node, to| to.extend(node.to_le_bytes()));
        bytes[places.codes.start + before.code_bytes..][..part.codes.len()].copy_from_slice(&part.codes);
        bytes[places.values.start + before.value_bytes..][..done.values.len()].copy_from_slice(&done.values);
        before.add(done, block);
        Ok(())
    })
}

/// Writes consecutive entries of a table, starting at offset `at`.
fn put<E>(bytes: &mut [u8], mut at: usize, entries: &[E], write: impl Fn(&E, &mut Vec<u8>)) {
    let mut entry = Vec::new();
    for one in entries {
        entry.clear();
        write(one, &mut entry);
        bytes[at..at + entry.len()].copy_from_slice(&entry);
        at += entry.len();
    }
}
