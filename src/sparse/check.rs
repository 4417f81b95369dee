//! Whether the tables of a frame are those of a matrix, before anything in them is used as a place.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cpu::pool::Pool;
use crate::error::{Error, Result};
use crate::sparse::frame::{View, step};
use crate::sparse::layout::{BLOCKED, CODE_UNIT, FULL, IN_ORDER, LANES, RELATIVE, Slice, ValueCodec, WINDOW};
use crate::sparse::rows::slice_count;
use crate::sparse::values::{NUMBER_BYTES, NUMBERS_UNIT};
use crate::sparse::walk::{Walk, walk_columns};

fn corrupt<T>(text: String) -> Result<T> {
    Err(Error::corrupt(format!("a sparse matrix is damaged: {text}")))
}

/// Checks all tables.
///
/// # Errors
/// `Corrupt`.
pub fn tables(view: &View, pool: &Pool) -> Result<()> {
    let head = view.head;
    let n_all = head.n_slices + head.n_long_slices;
    if !head.n_rows.is_multiple_of(head.block as u64) {
        return corrupt(format!("{} rows are no nodes of {}", head.n_rows, head.block));
    }
    let n_different_is_right = match head.codec {
        ValueCodec::Constant => head.n_different == 1,
        ValueCodec::Dictionary8 => (1..=256).contains(&head.n_different),
        ValueCodec::Dictionary16 => (1..=65536).contains(&head.n_different),
        ValueCodec::Plain | ValueCodec::Blocks => head.n_different == 0,
    };
    if !n_different_is_right {
        return corrupt(format!("{} different values", head.n_different));
    }
    for i in 0..n_all {
        if !slice_is_inside(view, i) {
            return corrupt(format!("slice {i} leaves its tables"));
        }
    }
    rows(view)?;
    let is_known = |code: u16| usize::from(code) < head.n_different;
    let all_known = match head.codec {
        ValueCodec::Dictionary8 => view.values().iter().all(|&code| is_known(code.into())),
        ValueCodec::Dictionary16 => {
            view.values().as_chunks().0.iter().all(|&code| is_known(u16::from_le_bytes(code)))
        }
        _ => true,
    };
    if !all_known {
        return corrupt("a value has a number that is not in the table".into());
    }
    let nnz = AtomicU64::new(0);
    let at_a_time = 1024;
    let parts: Vec<_> = (0..n_all).step_by(at_a_time).map(|i| i..n_all.min(i + at_a_time)).collect();
    let checked = pool.map(parts, |part| -> Result<()> {
        for i in part {
            let mut count = 0;
            let mut worst = 0;
            walk_columns(view, i, &mut |Walk { column, .. }| {
                count += 1;
                worst = worst.max(column);
            });
            if count > 0 && worst >= head.n_cols {
                return corrupt(format!("column {worst} in slice {i} is none of {}", head.n_cols));
            }
            nnz.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    });
    checked.into_iter().collect::<Result<()>>()?;
    let nnz = nnz.into_inner();
    if nnz != head.nnz {
        return corrupt(format!("{nnz} elements, but the header says {}", head.nnz));
    }
    Ok(())
}

/// Whether a slice's parts are inside of the tables.
fn slice_is_inside(view: &View, i: usize) -> bool {
    let head = view.head;
    let slice = view.slice(i);
    let Slice { width, flags, n_lanes, .. } = slice;
    let is_long = i >= head.n_slices;
    let end = |start: u32, n: usize| start as usize + n;
    let code_end = slice.codes_at as usize * CODE_UNIT + slice.code_bytes(head.block);
    let value_steps = slice.value_steps(head.block);
    let values_fit = match head.codec {
        ValueCodec::Constant => true,
        ValueCodec::Dictionary8 => end(slice.values_at, value_steps) * LANES <= head.value_bytes,
        ValueCodec::Dictionary16 => end(slice.values_at, value_steps) * LANES * 2 <= head.value_bytes,
        ValueCodec::Plain => {
            let element = head.dtype.size().unwrap_or(0) as usize;
            end(slice.values_at, value_steps) * LANES * element <= head.value_bytes
        }
        ValueCodec::Blocks => {
            let block = view.block(i);
            let n_bytes = (value_steps * LANES * usize::from(block.width)) as u64;
            NUMBER_BYTES.contains(&block.width)
                && block.shift < 64
                && block.at.is_multiple_of(NUMBERS_UNIT as u64)
                && block.at + n_bytes <= head.value_bytes as u64
        }
    };
    let order_fits = slice.order_at == IN_ORDER
        || slice.order_at as usize + (slice.phase(head.block) + usize::from(n_lanes).max(1) - 1) / head.block
            < head.n_order;
    let lanes_fit = (1..=LANES as u8).contains(&n_lanes) && (!is_long || usize::from(n_lanes) == LANES);
    let kind_is_right = matches!(width, 0 | 1 | 2 | 4 | 8)
        && flags & !(RELATIVE | BLOCKED | FULL) == 0
        && (flags & BLOCKED == 0 || head.block > 1)
        && !(is_long && (flags & (RELATIVE | BLOCKED) != 0 || slice.order_at != IN_ORDER || slice.place != 0));
    if !(kind_is_right && lanes_fit && order_fits && values_fit) {
        return false;
    }
    if end(slice.steps_at, usize::from(slice.n_steps)) > head.n_steps || code_end > head.code_bytes {
        return false;
    }
    // A step has an element: then there is a column 0, which code reads where a lane has none.
    let outside = if usize::from(n_lanes) == LANES { 0 } else { u32::MAX << n_lanes };
    let steps = view.steps(&slice);
    (0..steps.len()).all(|k| {
        let mask = step(steps, k).mask;
        mask != 0 && mask & outside == 0 && (flags & FULL == 0 || mask == u32::MAX)
    })
}

/// Whether every row is in one lane, or is a long one, whose lanes, if it has one, are empty.
fn rows(view: &View) -> Result<()> {
    let head = view.head;
    let in_window = WINDOW / LANES;
    let mut long = (0..head.n_long).map(|i| view.long(i)).peekable();
    let mut slices = (0..head.n_slices).peekable();
    let n_rows = usize::try_from(head.n_rows).unwrap_or(usize::MAX);
    // A frame cannot have more rows than it has lanes and long rows: what follows takes no longer than to read it.
    if n_rows > head.n_slices.saturating_mul(LANES).saturating_add(head.n_long) {
        return corrupt(format!("{n_rows} rows are more than its slices have"));
    }
    let (mut next_long_slice, mut last_long) = (0, None);
    let mut seen = vec![false; WINDOW];
    for window in 0..n_rows.div_ceil(WINDOW) {
        let first = window * WINDOW;
        let n = (n_rows - first).min(WINDOW);
        seen[..n].fill(false);
        let mut place = window * in_window;
        let mut is_in_order = None;
        while let Some(i) = slices.next_if(|&i| view.slice(i).place as usize / in_window == window) {
            let slice = view.slice(i);
            let same_kind = *is_in_order.get_or_insert(slice.order_at == IN_ORDER) == (slice.order_at == IN_ORDER);
            if slice.place as usize != place || !same_kind {
                return corrupt(format!("slice {i} is out of order"));
            }
            place += 1;
            for row in view.rows(&slice) {
                let at = (row as usize).wrapping_sub(first);
                if at >= n || std::mem::replace(&mut seen[at], true) {
                    return corrupt(format!("row {row} is in slice {i}, and not once"));
                }
            }
        }
        let first_slice = slices.peek().copied().unwrap_or(head.n_slices) - (place - window * in_window);
        while let Some(one) = long.next_if(|one| one.row < (first + n) as u64) {
            let at = (one.row as usize).wrapping_sub(first);
            let is_empty_lane = |at: usize| slice_count(view, first_slice + at / LANES, 1 << (at % LANES)) == 0;
            let is_new = at < n
                && last_long < Some(one.row)
                && (!std::mem::replace(&mut seen[at], true) || is_in_order == Some(true) && is_empty_lane(at));
            last_long = Some(one.row);
            if !is_new || one.first as usize != next_long_slice || one.n == 0 {
                return corrupt(format!("long row {} is out of order", one.row));
            }
            next_long_slice += one.n as usize;
        }
        if let Some(row) = seen[..n].iter().position(|&seen| !seen) {
            return corrupt(format!("row {} is nowhere", first + row));
        }
    }
    if slices.next().is_some() || long.next().is_some() || next_long_slice != head.n_long_slices {
        return corrupt("slices or long rows are left over".into());
    }
    Ok(())
}
