//! Makes the frame of a matrix from its rows.
//!
//! Windows are coded side by side, then put one behind the other; nothing depends on the number of threads.

use std::collections::HashMap;

use crate::cpu::pool::Pool;
use crate::error::{Error, Result, try_vec};
use crate::sparse::bytes::Bytes;
use crate::sparse::csr::{Csr, Index};
use crate::sparse::element::Element;
use crate::sparse::frame::{self, Head};
use crate::sparse::layout::{
    BLOCKS, CODE_UNIT, IN_ORDER, LANES, Long, Slice, Step, ValueBlock, ValueCodec, WINDOW, counted,
};
use crate::sparse::values::{Chosen, NUMBERS_UNIT, ValueChoice, write_block};
use crate::sparse::window::{Coder, Part, Plan, find_block};

/// Windows that are coded by one thread at a time.
const AT_A_TIME: usize = 8;
/// Windows that are looked at before it is decided how values are kept.
const SAMPLES: usize = 8;

/// What a part becomes when its values are coded.
struct Done<T> {
    part: Part<T>,
    values: Vec<u8>,
    blocks: Vec<ValueBlock>,
}

/// The frame of a matrix.
///
/// # Errors
/// `InvalidArgument` for what is no matrix, or values that are not as `choice` says; `UnsupportedJob` for one that is too large;
/// `OutOfMemory`.
pub fn build<I: Index, T: Element>(csr: &Csr<I, T>, choice: ValueChoice, pool: &Pool) -> Result<(Head, Bytes)> {
    csr.check()?;
    counted(csr.n_rows.div_ceil(LANES as u64) as usize)?;
    let mut chosen = Chosen::of(csr.values, choice)?;
    let block = find_block(csr, &BLOCKS);
    if choice == ValueChoice::Best && chosen.codec == ValueCodec::Blocks && !blocks_pay(csr, block, &mut chosen)? {
        chosen.codec = ValueCodec::Plain;
    }
    let plan = Plan { block, step_bytes: LANES * bytes_of::<T>(chosen.codec) };

    let n_windows = (csr.n_rows as usize).div_ceil(WINDOW);
    let windows: Vec<_> = (0..n_windows).step_by(AT_A_TIME).map(|i| i..n_windows.min(i + AT_A_TIME)).collect();
    let code = |windows: std::ops::Range<usize>| {
        let mut coder = Coder::new(csr, plan);
        let one = |window: usize| Ok(values_of(coder.window(window * WINDOW)?, block, &chosen));
        windows.map(one).collect::<Result<Vec<_>>>()
    };
    let mut parts: Vec<Done<T>> = Vec::new();
    for done in pool.map(windows, code) {
        parts.extend(done?);
    }
    let rows: Vec<u64> = parts.iter().flat_map(|done| done.part.long.iter().copied()).collect();
    let n_in_lanes = parts.len();
    let code = |row: u64| Ok(values_of(Coder::new(csr, plan).long(row as usize)?, block, &chosen));
    for done in pool.map(rows.clone(), code) {
        parts.push(done?);
    }

    let mut long = try_vec(rows.len(), "long rows")?;
    let mut first = 0;
    for (&row, done) in rows.iter().zip(&parts[n_in_lanes..]) {
        let n = done.part.slices.len();
        long.push(Long { row, first: counted(first)?, n: counted(n)? });
        first += n;
    }
    assemble(csr, block, chosen, parts, n_in_lanes, long)
}

/// Bytes of a value, nearly.
fn bytes_of<T: Element>(codec: ValueCodec) -> usize {
    match codec {
        ValueCodec::Plain => T::BYTES,
        ValueCodec::Constant => 0,
        ValueCodec::Dictionary8 => 1,
        ValueCodec::Dictionary16 => 2,
        ValueCodec::Blocks => T::BYTES / 2,
    }
}

/// Whether blocks save a fifth of the values' bytes, in some windows.
fn blocks_pay<I: Index, T: Element>(csr: &Csr<I, T>, block: usize, chosen: &mut Chosen<T>) -> Result<bool> {
    let mut coder = Coder::new(csr, Plan { block, step_bytes: LANES * T::BYTES });
    let n_windows = (csr.n_rows as usize).div_ceil(WINDOW);
    let (mut plain, mut coded) = (0, 0);
    for window in (0..n_windows).step_by(n_windows.div_ceil(SAMPLES).max(1)) {
        let done = values_of(coder.window(window * WINDOW)?, block, chosen);
        plain += done.part.slices.iter().map(|slice| slice.value_steps(block) * LANES * T::BYTES).sum::<usize>();
        coded += done.values.len();
    }
    Ok(coded * 5 <= plain * 4)
}

/// Codes the values of a part.
fn values_of<T: Element>(mut part: Part<T>, block: usize, chosen: &Chosen<T>) -> Done<T> {
    let (mut values, mut blocks) = (Vec::new(), Vec::new());
    chosen.write(&part.values, &mut values);
    if chosen.codec == ValueCodec::Blocks {
        let mut steps = &part.steps[..];
        for slice in &part.slices {
            let (own, rest) = steps.split_at(usize::from(slice.n_steps));
            steps = rest;
            let side = slice.side(block);
            let range =
                slice.values_at as usize * LANES..(slice.values_at as usize + slice.value_steps(block)) * LANES;
            let present = |i: usize| own[i / LANES / side].mask >> (i % LANES) & 1 != 0;
            blocks.push(write_block(&part.values[range], present, &mut values));
        }
    }
    if chosen.codec == ValueCodec::Blocks {
        values.resize(values.len().next_multiple_of(NUMBERS_UNIT), 0);
    }
    part.values = Vec::new();
    Done { part, values, blocks }
}

/// Puts parts one behind the other.
fn assemble<I: Index, T: Element>(
    csr: &Csr<I, T>,
    block: usize,
    chosen: Chosen<T>,
    parts: Vec<Done<T>>,
    n_in_lanes: usize,
    long: Vec<Long>,
) -> Result<(Head, Bytes)> {
    let sum = |of: &dyn Fn(&Done<T>) -> usize| parts.iter().map(of).sum::<usize>();
    let n_all = sum(&|done| done.part.slices.len());
    let mut slices: Vec<Slice> = try_vec(n_all, "slices")?;
    let mut blocks: Vec<ValueBlock> = try_vec(sum(&|done| done.blocks.len()), "value blocks")?;
    let mut steps: Vec<Step> = Vec::new();
    let mut known: HashMap<Box<[Step]>, u32> = HashMap::new();
    let (mut codes_at, mut values_at, mut value_bytes, mut n_order) = (0usize, 0usize, 0u64, 0usize);
    for done in &parts {
        let part = &done.part;
        let mut rest = &part.steps[..];
        for slice in &part.slices {
            let (own, others) = rest.split_at(usize::from(slice.n_steps));
            rest = others;
            let steps_at = match known.get(own) {
                Some(&at) => at,
                None => {
                    let at = counted(steps.len())?;
                    steps.extend(own);
                    known.insert(own.into(), at);
                    at
                }
            };
            slices.push(Slice {
                steps_at,
                codes_at: counted(codes_at / CODE_UNIT + slice.codes_at as usize)?,
                values_at: counted(values_at + slice.values_at as usize)?,
                order_at: match slice.order_at {
                    IN_ORDER => IN_ORDER,
                    at => counted(n_order + at as usize)?,
                },
                ..*slice
            });
        }
        blocks.extend(done.blocks.iter().map(|one| ValueBlock { at: one.at + value_bytes, ..*one }));
        codes_at = (codes_at + part.codes.len()).next_multiple_of(CODE_UNIT);
        values_at += part.slices.iter().map(|slice| slice.value_steps(block)).sum::<usize>();
        value_bytes += done.values.len() as u64;
        n_order += part.order.len();
    }
    drop(known);
    counted(values_at)?;
    let n_slices = parts[..n_in_lanes].iter().map(|done| done.part.slices.len()).sum();
    let head = Head {
        dtype: T::DTYPE,
        codec: chosen.codec,
        block,
        n_rows: csr.n_rows,
        n_cols: csr.n_cols,
        nnz: csr.columns.len() as u64,
        n_slices,
        n_long_slices: n_all - n_slices,
        n_steps: steps.len(),
        n_order,
        n_long: long.len(),
        n_different: chosen.different.len(),
        code_bytes: codes_at,
        value_bytes: value_bytes as usize,
    };
    let places = head.places().map_err(|error| Error::unsupported(error.context().to_owned()))?;
    let mut frame = Bytes::zeroed(places.frame_bytes)?;
    let bytes = frame.get_mut();
    frame::begin(bytes, &head);
    let mut table = Vec::new();
    let mut put = |at: usize, write: &dyn Fn(&mut Vec<u8>)| {
        table.clear();
        write(&mut table);
        bytes[at..at + table.len()].copy_from_slice(&table);
    };
    put(places.slices.start, &|to| slices.iter().for_each(|one| one.write(to)));
    put(places.steps.start, &|to| steps.iter().for_each(|one| one.write(to)));
    put(places.long.start, &|to| long.iter().for_each(|one| one.write(to)));
    put(places.blocks.start, &|to| blocks.iter().for_each(|one| one.write(to)));
    put(places.different.start, &|to| {
        for value in &chosen.different {
            let start = to.len();
            to.resize(start + T::BYTES, 0);
            value.write(&mut to[start..]);
        }
    });
    let (mut order_at, mut codes_at, mut values_at) = (places.order.start, places.codes.start, places.values.start);
    for done in parts {
        for node in &done.part.order {
            bytes[order_at..order_at + 2].copy_from_slice(&node.to_le_bytes());
            order_at += 2;
        }
        let codes = &done.part.codes;
        bytes[codes_at..codes_at + codes.len()].copy_from_slice(codes);
        codes_at += codes.len().next_multiple_of(CODE_UNIT);
        bytes[values_at..values_at + done.values.len()].copy_from_slice(&done.values);
        values_at += done.values.len();
    }
    frame::seal(bytes);
    Ok((head, frame))
}
