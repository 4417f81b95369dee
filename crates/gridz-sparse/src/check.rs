//! Checks that the tables of a frame form a matrix, before any number in them is used as an index.
//!
//! Slices may share steps, so a few bytes can represent very many elements: 65 280 for each slice
//! of 32 bytes. Nevertheless the time of a check is proportional to the bytes of the frame. A
//! summary (`summaries`) combines 16 steps, so that each slice reads at most 46 entries. Only codes,
//! which slices do not share, are read one by one.

use std::ops::Range;

use crate::frame::View;
use crate::layout::{BLOCKED, CODE_UNIT, FULL, IN_ORDER, LANES, RELATIVE, Slice, ValueCodec, WINDOW};
use crate::summaries::{Masks, Reach, Summaries};
use crate::values::{NUMBER_BYTES, NUMBERS_UNIT};
use crate::walk::{Columns, lanes_of};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, Result, try_vec};

fn corrupt<T>(text: String) -> Result<T> {
    Err(Error::corrupt(format!("a sparse matrix is damaged: {text}")))
}

/// Slices in a unit of work for a thread.
const AT_A_TIME: usize = 1024;

/// The entries of a slice in the table of steps.
fn steps_of(slice: &Slice) -> Range<usize> {
    let start = slice.steps_at as usize;
    start..start + usize::from(slice.n_steps)
}

/// Sums over all slices.
#[derive(Debug, Default)]
struct Totals {
    elements: u64,
    code_bytes: u64,
    visits: u64,
}

/// Calls `check` with ranges of all slices, in parallel.
fn in_pieces<R: Send>(
    n_slices: usize,
    pool: &Pool,
    check: impl Fn(Range<usize>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut pieces = try_vec(n_slices.div_ceil(AT_A_TIME), "bookkeeping")?;
    pieces.extend((0..n_slices).step_by(AT_A_TIME).map(|i| i..n_slices.min(i + AT_A_TIME)));
    pool.map(pieces, check).into_iter().collect()
}

/// Checks all tables. Returns the number of steps and summaries read, which is a measure of the
/// time.
///
/// # Errors
/// `Corrupt`; `UnsupportedJob` for slices that share codes, or whose columns wrap around at 2^64,
/// which no writer produces; `OutOfMemory`.
pub fn tables(view: &View, pool: &Pool) -> Result<u64> {
    let head = view.head;
    let n_all = head.n_slices + head.n_long_slices;
    if !head.n_rows.is_multiple_of(head.block as u64) {
        return corrupt(format!("{} rows cannot be divided into nodes of {}", head.n_rows, head.block));
    }
    let n_different_is_right = match head.codec {
        ValueCodec::Constant => head.n_different == 1,
        ValueCodec::Dictionary8 => (1..=256).contains(&head.n_different),
        ValueCodec::Dictionary16 => (1..=65536).contains(&head.n_different),
        ValueCodec::Plain | ValueCodec::Blocks => head.n_different == 0,
    };
    if !n_different_is_right {
        return corrupt(format!(
            "a table of {} distinct values is not possible with value coding {}",
            head.n_different, head.codec as u8
        ));
    }
    let longest = (0..n_all).map(|i| usize::from(view.slice(i).n_steps)).max().unwrap_or(0);
    let masks = Summaries::<Masks>::new(view.all_steps(), longest)?;
    let pieces = in_pieces(n_all, pool, |slices| {
        let mut totals = Totals::default();
        for i in slices {
            let slice = view.slice(i);
            if !slice_is_inside(view, i, &masks, &mut totals) {
                return corrupt(format!("slice {i} refers to entries outside the tables"));
            }
            totals.code_bytes += slice.code_bytes(head.block) as u64;
        }
        Ok(totals)
    })?;
    let sum = |of: fn(&Totals) -> u64| pieces.iter().map(of).fold(0, u64::saturating_add);
    let nnz = sum(|totals| totals.elements);
    if nnz != head.nnz {
        return corrupt(format!("its slices have {nnz} elements, but its header says {}", head.nnz));
    }
    let code_bytes = sum(|totals| totals.code_bytes);
    if code_bytes > head.code_bytes as u64 {
        return Err(Error::unsupported(format!(
            "the slices of a sparse matrix need {code_bytes} bytes of codes in a table of {}; this library does \
             not support slices that share codes",
            head.code_bytes
        )));
    }
    let mut visits = sum(|totals| totals.visits);
    visits += rows(view, &masks)?;
    let is_known = |code: u16| usize::from(code) < head.n_different;
    let all_known = match head.codec {
        ValueCodec::Dictionary8 => view.values().iter().all(|&code| is_known(code.into())),
        ValueCodec::Dictionary16 => {
            view.values().as_chunks().0.iter().all(|&code| is_known(u16::from_le_bytes(code)))
        }
        _ => true,
    };
    if !all_known {
        return corrupt(format!(
            "an index of a value is outside the table of values, which has {} entries",
            head.n_different
        ));
    }
    Ok(visits + columns(view, pool)?)
}

/// Checks that the columns of all elements are below the number of columns. Returns the number of
/// steps and summaries read.
fn columns(view: &View, pool: &Pool) -> Result<u64> {
    let head = view.head;
    let n_all = view.n_slices();
    let without_codes = (0..n_all).map(|i| view.slice(i)).filter(|slice| slice.width == 0);
    let longest = without_codes.map(|slice| usize::from(slice.n_steps)).max().unwrap_or(0);
    let reaches = Summaries::<Reach>::new(view.all_steps(), longest)?;
    let pieces = in_pieces(n_all, pool, |slices| {
        let mut visits = 0;
        // Neighboring slices often have the same steps.
        let mut last = (0..0, Reach::default());
        for i in slices {
            let slice = view.slice(i);
            let columns = Columns::new(view, &slice, Isa::PORTABLE);
            let last_of_block = columns.side as u64 - 1;
            let mut worst = 0;
            if slice.width > 0 {
                for k in 0..columns.n_steps() {
                    let (mask, first) = columns.step(k);
                    // Saturate: a block at the upper end of u64 would wrap around to column 0.
                    let of_lanes = lanes_of(mask).map(|lane| first[lane].saturating_add(last_of_block));
                    worst = of_lanes.fold(worst, u64::max);
                }
                visits += columns.n_steps() as u64;
            } else if slice.n_steps > 0 {
                if last.0 != steps_of(&slice) {
                    let (reach, n) = reaches.of(steps_of(&slice));
                    (last, visits) = ((steps_of(&slice), reach), visits + n);
                }
                for ((&origin, &low), &high) in columns.origins.iter().zip(&last.1.low).zip(&last.1.high) {
                    if low > high {
                        // The lane has no elements.
                        continue;
                    }
                    let (low, high) = (origin.wrapping_add(low.into()), origin.wrapping_add(high.into()));
                    if low > high && low < head.n_cols {
                        return Err(Error::unsupported(format!(
                            "slice {i} of a sparse matrix has columns on both sides of 2^64, which this library \
                             does not support"
                        )));
                    }
                    worst = worst.max(low).max(high.saturating_add(last_of_block));
                }
            }
            if slice.n_steps > 0 && worst >= head.n_cols {
                return corrupt(format!(
                    "column {worst} in slice {i} is outside the matrix, which has {} columns",
                    head.n_cols
                ));
            }
        }
        Ok(visits)
    })?;
    Ok(pieces.into_iter().sum())
}

/// True if a slice's parts are inside the tables, and its steps have elements only in its lanes.
fn slice_is_inside(view: &View, i: usize, masks: &Summaries<Masks>, totals: &mut Totals) -> bool {
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
    // Each step must have an element. Then column 0 exists, which products read for lanes without
    // an element.
    let outside = if usize::from(n_lanes) == LANES { 0 } else { u32::MAX << n_lanes };
    let (masks, visits) = masks.of(steps_of(&slice));
    totals.visits += visits;
    totals.elements += masks.n_elements * slice.side(head.block) as u64;
    !masks.has_empty && masks.any & outside == 0 && (flags & FULL == 0 || masks.all == u32::MAX)
}

/// Checks that every row is in exactly one lane, or is a long row. A long row may have a lane too,
/// which must be empty. Returns the number of steps and summaries read.
fn rows(view: &View, masks: &Summaries<Masks>) -> Result<u64> {
    let head = view.head;
    let mut visits = 0;
    let in_window = WINDOW / LANES;
    let mut long = (0..head.n_long).map(|i| view.long(i)).peekable();
    let mut slices = (0..head.n_slices).peekable();
    let n_rows = usize::try_from(head.n_rows).unwrap_or(usize::MAX);
    // A frame cannot have more rows than lanes and long rows. So the loop below takes no longer
    // than reading the frame.
    if n_rows > head.n_slices.saturating_mul(LANES).saturating_add(head.n_long) {
        return corrupt(format!(
            "its {} slices and {} long rows cannot hold the {n_rows} rows of its header",
            head.n_slices, head.n_long
        ));
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
                    return corrupt(format!("row {row} in slice {i} is out of range or occurs twice"));
                }
            }
        }
        let first_slice = slices.peek().copied().unwrap_or(head.n_slices) - (place - window * in_window);
        while let Some(one) = long.next_if(|one| one.row < (first + n) as u64) {
            let at = (one.row as usize).wrapping_sub(first);
            let mut is_empty_lane = |at: usize| {
                let (masks, n) = masks.of(steps_of(&view.slice(first_slice + at / LANES)));
                visits += n;
                masks.any >> (at % LANES) & 1 == 0
            };
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
            return corrupt(format!("row {} is in no slice", first + row));
        }
    }
    if slices.next().is_some() || long.next().is_some() || next_long_slice != head.n_long_slices {
        return corrupt("some slices or long rows belong to no row".into());
    }
    Ok(visits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use crate::frame::{self, Head};
    use crate::layout::{SLICE_BYTES, Step};
    use crate::walk::{Walk, walk_columns};
    use gridz_codecs::error::ErrorKind;
    use gridz_codecs::types::DType;

    /// Pseudorandom numbers.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *state >> 33
    }

    /// The kind of all slices in a test frame. They share one table of steps.
    #[derive(Debug, Clone, Copy)]
    struct Kind {
        flags: u8,
        block: usize,
        is_in_order: bool,
        width: u8,
    }

    const KINDS: [Kind; 6] = [
        Kind { flags: 0, block: 1, is_in_order: true, width: 0 },
        Kind { flags: RELATIVE, block: 1, is_in_order: true, width: 0 },
        Kind { flags: RELATIVE, block: 1, is_in_order: false, width: 0 },
        Kind { flags: BLOCKED, block: 8, is_in_order: true, width: 0 },
        Kind { flags: RELATIVE | BLOCKED, block: 3, is_in_order: true, width: 0 },
        Kind { flags: RELATIVE | BLOCKED, block: 6, is_in_order: false, width: 0 },
    ];

    /// A frame of whole windows with constant values. Each slice has `n_steps` steps, starting at a
    /// random index of the table `steps`.
    fn frame_of(kind: Kind, n_windows: usize, n_steps: u8, steps: &[Step], n_cols: u64) -> (Head, Bytes) {
        let n_slices = n_windows * WINDOW / LANES;
        let n_order = if kind.is_in_order { 0 } else { WINDOW / kind.block };
        let mut head = Head {
            dtype: DType::F64,
            codec: ValueCodec::Constant,
            block: kind.block,
            n_rows: (n_windows * WINDOW) as u64,
            n_cols,
            nnz: 0,
            n_slices,
            n_long_slices: 0,
            n_steps: steps.len(),
            n_order,
            n_long: 0,
            n_different: 1,
            code_bytes: 1 << 14,
            value_bytes: 0,
        };
        let mut state = 7;
        let slices = (0..n_slices).map(|place| {
            let in_window = place % (WINDOW / LANES);
            Slice {
                base: if kind.flags & RELATIVE != 0 { 5 } else { 1000 },
                place: place as u32,
                values_at: 0,
                codes_at: 0,
                steps_at: (random(&mut state) % (steps.len() - usize::from(n_steps) + 1) as u64) as u32,
                order_at: if kind.is_in_order { IN_ORDER } else { (in_window * LANES / kind.block) as u32 },
                n_steps,
                width: kind.width,
                flags: kind.flags,
                n_lanes: LANES as u8,
            }
        });
        let slices: Vec<Slice> = slices.collect();
        for slice in &slices {
            let masks = &steps[slice.steps_at as usize..][..usize::from(n_steps)];
            let n: u64 = masks.iter().map(|step| u64::from(step.mask.count_ones())).sum();
            head.nnz += n * slice.side(kind.block) as u64;
        }
        let places = head.table_ranges().unwrap();
        let mut bytes = Bytes::zeroed(places.frame_bytes).unwrap();
        let to = bytes.get_mut();
        frame::begin(to, &head);
        let mut table = Vec::new();
        slices.iter().for_each(|slice| slice.write(&mut table));
        to[places.slices.start..][..n_slices * SLICE_BYTES].copy_from_slice(&table);
        table.clear();
        steps.iter().for_each(|step| step.write(&mut table));
        to[places.steps.start..][..table.len()].copy_from_slice(&table);
        table.clear();
        // The nodes of a window in reverse order.
        (0..n_order as u16).rev().for_each(|node| table.extend(node.to_le_bytes()));
        to[places.order.start..][..table.len()].copy_from_slice(&table);
        frame::seal(to);
        (head, bytes)
    }

    fn check(head: &Head, bytes: &Bytes) -> Result<u64> {
        tables(&View::new(head, &head.table_ranges().unwrap(), bytes.get()), &Pool::new(2))
    }

    /// The check of a 4 MB frame that represents up to 8 · 10^9 elements reads each byte only a few
    /// times.
    #[test]
    fn shared_steps_take_time_in_proportion_to_the_frame() {
        let full = |i: u32| Step { offset: i * 8, mask: u32::MAX };
        let steps: Vec<Step> = (0..4096).map(full).collect();
        let mut n_elements = 0;
        for kind in KINDS {
            let (head, bytes) = frame_of(kind, 1000, 255, &steps, 1 << 40);
            let visits = check(&head, &bytes).unwrap();
            let n_bytes = bytes.get().len() as u64;
            assert!(visits > 2 * head.n_slices as u64, "{kind:?}: every slice is looked at");
            assert!(visits < 3 * n_bytes, "{kind:?}: {visits} looks at {n_bytes} bytes");
            n_elements += head.nnz;
        }
        // 120 000 slices of 255 steps and 32 lanes, with blocks of sides 1, 1, 1, 8, 3 and 6.
        assert_eq!(n_elements, 120_000 * 255 * 32 * 20);
    }

    /// The largest column is that of an element, not of a lane without one.
    #[test]
    fn the_largest_column_is_that_of_an_element() {
        let mut state = 3;
        let mut n_checked = 0;
        for kind in KINDS {
            for n_steps in [1, 15, 16, 31, 33, 64, 255] {
                let few = |state: &mut u64| (random(state) & random(state) & random(state)) as u32;
                let steps: Vec<Step> = (0..300)
                    .map(|_| Step {
                        offset: random(&mut state) as u32 % 5000,
                        mask: few(&mut state) | 1 << (random(&mut state) % 32),
                    })
                    .collect();
                let (head, bytes) = frame_of(kind, 1, n_steps, &steps, u64::MAX);
                let mut worst = 0;
                let view = View::new(&head, &head.table_ranges().unwrap(), bytes.get());
                for i in 0..head.n_slices {
                    walk_columns(&view, i, &mut |Walk { column, .. }| worst = worst.max(column));
                }
                for (n_cols, fits) in [(worst + 1, true), (worst, false)] {
                    let (head, bytes) = frame_of(kind, 1, n_steps, &steps, n_cols);
                    let found = check(&head, &bytes);
                    let is_right = match &found {
                        Ok(_) => fits,
                        Err(error) => !fits && error.context().contains(&format!("column {worst} in slice")),
                    };
                    assert!(is_right, "{kind:?}, {n_steps} steps: {found:?} with {n_cols} columns");
                    n_checked += 1;
                }
            }
        }
        assert_eq!(n_checked, KINDS.len() * 7 * 2);
    }

    #[test]
    fn what_nothing_writes_is_refused() {
        let kind = Kind { flags: 0, block: 1, is_in_order: true, width: 1 };
        let steps = [Step { offset: 0, mask: u32::MAX }; 64];
        // The codes of 64 steps take 2048 bytes, so the table has room for those of eight slices.
        // Here 120 slices share the same codes.
        let (head, bytes) = frame_of(kind, 1, 64, &steps, 1 << 40);
        let error = check(&head, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedJob);
        assert!(error.context().contains("245760 bytes of codes in a table of 16384"), "{error}");

        let (mut head, bytes) = frame_of(KINDS[0], 1, 64, &steps, 1 << 40);
        head.nnz -= 1;
        let error = check(&head, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.context().contains("245760 elements, but its header says 245759"), "{error}");

        // With base 1000 and this offset, no column exceeds 2^64. With a base near 2^64 the second
        // step's columns do.
        let far = [Step { offset: 0, mask: u32::MAX }, Step { offset: 2000, mask: u32::MAX }];
        let (head, mut bytes) = frame_of(KINDS[0], 1, 2, &far, u64::MAX);
        let at = head.table_ranges().unwrap().slices.start;
        bytes.get_mut()[at..at + 8].copy_from_slice(&(u64::MAX - 1000).to_le_bytes());
        let error = check(&head, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedJob);
        assert!(error.context().contains("both sides of 2^64"), "{error}");
    }
}
