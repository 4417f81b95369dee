//! Codes a window of rows: chooses their order and the long rows, and builds their slices.

use std::cmp::Reverse;
use std::ops::Range;

use crate::csr::{Index, Source};
use crate::element::Element;
use crate::layout::{BLOCKED, CODE_UNIT, IN_ORDER, LANES, LONG_STEPS, MAX_STEPS, Slice, Step};
use crate::pack::{Items, Packed, Packer, full_flag, lanes_of_nodes};
use gridz_codecs::error::{Result, try_reserve, try_vec};

/// Coded rows. The positions of steps, codes, values and order in its slices are relative to this
/// part.
#[derive(Debug, Default)]
pub struct Part<T> {
    /// Slices; `steps_at` is set later.
    pub slices: Vec<Slice>,
    /// The steps of all slices, concatenated.
    pub steps: Vec<Step>,
    /// Codes; those of each slice start at a multiple of [`CODE_UNIT`].
    pub codes: Vec<u8>,
    /// Values of all steps, 32 each.
    pub values: Vec<T>,
    /// Indices of nodes in the window.
    pub order: Vec<u16>,
    /// Numbers of the long rows.
    pub long: Vec<u64>,
}

/// Parameters of a matrix's coding.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Side of its blocks.
    pub block: usize,
    /// Approximate bytes of the values of a step.
    pub step_bytes: usize,
}

/// A row with more elements than this is always long, because a slice has at most this many steps.
const ALWAYS_LONG: usize = MAX_STEPS;
/// A row with at most this many elements is never long.
const NEVER_LONG: usize = 2 * LANES;

/// Sizes, in rows, of the parts of a window within which rows may be sorted by length.
const PARTS: [usize; 4] = [256, 480, 960, 1920];
/// Smallest mean number of steps per slice for which sorting within parts is tried; with fewer it
/// gains nothing.
const NEAR_STEPS: usize = 8;

/// Codes rows of one matrix.
pub struct Coder<'a, I, T> {
    source: &'a Source<'a, I, T>,
    plan: Plan,
    packer: Packer,
    packed: Packed,
    /// The first row of the window.
    first: usize,
    /// The start of each of its rows, and the end of the last one.
    starts: Vec<usize>,
}

impl<'a, I: Index, T: Element> Coder<'a, I, T> {
    /// Takes a matrix that has been checked.
    pub fn new(source: &'a Source<'a, I, T>, plan: Plan) -> Self {
        let (packer, packed) = (Packer::default(), Packed::default());
        Self { source, plan, packer, packed, first: 0, starts: Vec::new() }
    }

    /// Elements of a row of the window.
    fn range(&self, row: usize) -> Range<usize> {
        self.starts[row - self.first]..self.starts[row - self.first + 1]
    }

    /// Columns of a row of the window.
    fn row(&self, row: usize) -> &'a [I] {
        &self.source.columns[self.range(row)]
    }

    /// Codes a window.
    pub fn window(&mut self, window: usize) -> Result<Part<T>> {
        let block = self.plan.block;
        let Range { start: first, end } = self.source.rows_of(window);
        let n_rows = end - first;
        self.first = first;
        self.source.starts_of(window, &mut self.starts);
        let mut part = Part::default();
        let lens: Vec<usize> = self.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let RowOrder { is_long, nodes, n_steps } = RowOrder::choose(&lens, block);
        part.long = (0..n_rows).filter(|&row| is_long[row]).map(|row| (first + row) as u64).collect();
        let n = nodes.as_ref().map_or(n_rows, |nodes| nodes.len() * block);
        part.values.extend(try_vec::<T>(LANES * n_steps, "values")?);
        for i in (0..n).step_by(LANES) {
            let rows: Vec<Option<usize>> = (i..n.min(i + LANES))
                .map(|i| nodes.as_ref().map_or(i, |nodes| row_of(nodes, block, i)))
                .map(|row| (!is_long[row]).then_some(first + row))
                .collect();
            let place = ((first + i) / LANES) as u32;
            let order_at = if nodes.is_some() { (i / block) as u32 } else { IN_ORDER };
            self.slice(&mut part, &rows, i % block, place, order_at)?;
        }
        part.order = nodes.unwrap_or_default();
        Ok(part)
    }

    /// Codes a slice of these rows. The first row is at position `phase` of its node.
    fn slice(
        &mut self,
        part: &mut Part<T>,
        rows: &[Option<usize>],
        phase: usize,
        place: u32,
        order_at: u32,
    ) -> Result<()> {
        let (source, block) = (self.source, self.plan.block);
        let is_blocked = block > 1 && self.has_blocks(rows, phase);
        let side = if is_blocked { block } else { 1 };
        self.packer.clear();
        if is_blocked {
            // The first lane of each node in this slice.
            let mut lane = 0;
            while lane < rows.len() {
                let sub = (phase + lane) % block;
                let row = rows[lane];
                let origin = row.map_or(0, |row| row - sub);
                let columns = row.map_or(&[][..], |row| self.row(row));
                self.packer.item(origin as u64, columns.iter().step_by(block).map(|column| column.get()));
                lane += block - sub;
            }
        } else {
            for row in rows {
                let columns = row.map_or(&[][..], |row| self.row(row));
                self.packer.item(row.unwrap_or(0) as u64, columns.iter().map(|column| column.get()));
            }
        }
        let n_codes = if is_blocked { (phase + LANES - 1) / block + 1 } else { LANES };
        self.packer.pack(n_codes, self.plan.step_bytes * side, Items::Rows, &mut self.packed);
        let steps = &mut self.packed.steps;
        if is_blocked {
            for step in &mut *steps {
                step.mask = lanes_of_nodes(step.mask, block, phase, rows.len());
            }
        }
        let values_at = part.values.len() / LANES;
        let n_values = steps.len() * side * LANES;
        try_reserve(&mut part.values, n_values, "values")?;
        part.values.resize(part.values.len() + n_values, T::default());
        let values = &mut part.values[values_at * LANES..];
        for (lane, row) in rows.iter().enumerate() {
            let Some(row) = *row else { continue };
            let range = self.range(row);
            let item = if is_blocked { (phase + lane) / block } else { lane };
            for (i, at) in range.enumerate() {
                let step = self.packer.step_of(item, i / side);
                values[(step * side + i % side) * LANES + lane] = source.value(at);
            }
        }
        let flags = if is_blocked { BLOCKED } else { 0 };
        self.finish(
            part,
            Slice { place, values_at: values_at as u32, order_at, flags, n_lanes: rows.len() as u8, ..EMPTY },
        )
    }

    /// Codes a long row: slices whose lanes take its elements in turn.
    pub fn long(&mut self, row: usize) -> Result<Part<T>> {
        let mut part = Part::default();
        let Range { mut start, end } = self.source.range(row);
        let columns = &self.source.columns[start..end];
        // If lanes wait, a slice has at most an eighth, or two, more steps.
        let n_waiting = columns.len() / 8 + 2 * LANES * columns.len().div_ceil(LANES * LONG_STEPS);
        part.values = try_vec::<T>(columns.len().next_multiple_of(LANES) + n_waiting, "values")?;
        for columns in columns.chunks(LANES * LONG_STEPS) {
            self.packer.clear();
            for lane in 0..LANES {
                self.packer.item(0, columns.iter().skip(lane).step_by(LANES).map(|column| column.get()));
            }
            self.packer.pack(LANES, self.plan.step_bytes, Items::Lanes, &mut self.packed);
            let values_at = part.values.len() / LANES;
            let n_values = self.packed.steps.len() * LANES;
            try_reserve(&mut part.values, n_values, "values")?;
            part.values.resize(part.values.len() + n_values, T::default());
            let values = &mut part.values[values_at * LANES..];
            for i in 0..columns.len() {
                let lane = i % LANES;
                values[self.packer.step_of(lane, i / LANES) * LANES + lane] = self.source.value(start + i);
            }
            start += columns.len();
            self.finish(
                &mut part,
                Slice { values_at: values_at as u32, order_at: IN_ORDER, n_lanes: LANES as u8, ..EMPTY },
            )?;
        }
        Ok(part)
    }

    /// Appends the packed slice to the part.
    fn finish(&mut self, part: &mut Part<T>, slice: Slice) -> Result<()> {
        let packed = &self.packed;
        try_reserve(&mut part.slices, 1, "slices")?;
        try_reserve(&mut part.codes, packed.codes.len() + CODE_UNIT, "codes")?;
        try_reserve(&mut part.steps, packed.steps.len(), "steps")?;
        let codes_at = crate::frame::pad_codes(&mut part.codes);
        part.slices.push(Slice {
            base: packed.base,
            codes_at,
            n_steps: packed.steps.len() as u8,
            width: packed.width,
            flags: slice.flags | packed.flags | full_flag(&packed.steps),
            ..slice
        });
        part.codes.extend(&packed.codes);
        part.steps.extend(&packed.steps);
        Ok(())
    }

    /// True if all rows of each node have the same columns, in runs of the block's side.
    fn has_blocks(&self, rows: &[Option<usize>], phase: usize) -> bool {
        let block = self.plan.block;
        (0..rows.len()).all(|lane| {
            let Some(row) = rows[lane] else { return true };
            let columns = self.row(row);
            let same = (phase + lane).is_multiple_of(block)
                || lane == 0
                || rows[lane - 1].is_some_and(|above| are_same(self.row(above), columns));
            same && (lane > 0 && !(phase + lane).is_multiple_of(block) || are_runs(columns, block))
        })
    }
}

const EMPTY: Slice = Slice {
    base: 0,
    place: 0,
    values_at: 0,
    codes_at: 0,
    steps_at: 0,
    order_at: 0,
    n_steps: 0,
    width: 0,
    flags: 0,
    n_lanes: 0,
};

fn are_same<I: Index>(a: &[I], b: &[I]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.get() == b.get())
}

fn are_runs<I: Index>(columns: &[I], block: usize) -> bool {
    let is_run = |run: &[I]| run.iter().zip(run[0].get()..).all(|(column, next)| column.get() == next);
    columns.len().is_multiple_of(block) && columns.chunks(block).all(is_run)
}

/// The order in which the rows of a window are coded.
struct RowOrder {
    /// For each row, true if it is long. Long rows are in no slice of the window.
    is_long: Vec<bool>,
    /// The nodes without long rows, in coding order; `None` if all rows keep their places.
    nodes: Option<Vec<u16>>,
    /// Total number of steps of the slices.
    n_steps: usize,
}

impl RowOrder {
    /// Chooses the order for rows with these numbers of elements, in nodes of `block` rows.
    fn choose(lens: &[usize], block: usize) -> Self {
        let n_rows = lens.len();
        // The longest row of each node. Rows of a node stay together.
        let longest: Vec<usize> =
            lens.chunks_exact(block).map(|lens| lens.iter().copied().max().unwrap_or(0)).collect();
        let of_node = |node: &u16| longest[usize::from(*node)];
        let mut nodes: Vec<u16> = (0..longest.len() as u16).collect();
        sort_by_length(&mut nodes, &longest, usize::MAX);
        let n_long = n_long(&nodes, block, of_node);
        let mut is_long = vec![false; n_rows];
        for &node in &nodes[..n_long] {
            is_long[usize::from(node) * block..][..block].fill(true);
        }
        nodes.drain(..n_long);

        // Total number of steps of all slices, in both orders.
        let short = |row: usize| if is_long[row] { 0 } else { lens[row] };
        let steps_of = |n: usize, row: &dyn Fn(usize) -> usize| -> usize {
            (0..n).step_by(LANES).map(|i| (i..n.min(i + LANES)).map(|i| short(row(i))).max().unwrap_or(0)).sum()
        };
        let n_sorted = nodes.len() * block;
        let in_order = steps_of(n_rows, &|i| i);
        let sorted = steps_of(n_sorted, &|i| row_of(&nodes, block, i));
        if in_order * 20 <= sorted * 23 {
            return Self { is_long, nodes: None, n_steps: in_order };
        }
        if sorted >= NEAR_STEPS * n_sorted.div_ceil(LANES) {
            // Neighboring rows use the same parts of the vector, so they stay together if that
            // takes few more steps.
            for part_rows in PARTS.into_iter().filter(|rows| rows.is_multiple_of(block)) {
                let mut near = nodes.clone();
                sort_by_length(&mut near, &longest, part_rows / block);
                let n_steps = steps_of(n_sorted, &|i| row_of(&near, block, i));
                if n_steps * 25 <= sorted * 26 {
                    return Self { is_long, nodes: Some(near), n_steps };
                }
            }
        }
        Self { is_long, nodes: Some(nodes), n_steps: sorted }
    }
}

/// Sorts nodes by their longest rows, longest first, within parts of this many consecutive nodes.
fn sort_by_length(nodes: &mut [u16], longest: &[usize], part: usize) {
    nodes.sort_by_key(|&node| (usize::from(node) / part, Reverse(longest[usize::from(node)])));
}

/// The row at position `i` of nodes in this order.
fn row_of(nodes: &[u16], block: usize, i: usize) -> usize {
    usize::from(nodes[i / block]) * block + i % block
}

/// Number of nodes, longest first, whose rows are long: they would make a slice much larger than
/// its contents.
fn n_long(order: &[u16], block: usize, len: impl Fn(&u16) -> usize) -> usize {
    let in_slice = LANES.div_ceil(block);
    let is_long = |at: usize| {
        let longest = len(&order[at]);
        if longest > ALWAYS_LONG {
            return true;
        }
        let others: usize = order[at..].iter().take(in_slice).map(&len).sum();
        longest > NEVER_LONG && longest * in_slice > 2 * others
    };
    (0..order.len()).take_while(|&at| is_long(at)).count()
}

/// The side of a matrix's blocks: the largest side for which nine tenths of the elements are in
/// blocks.
pub fn find_block<I: Index, T: Element>(source: &Source<I, T>, sides: &[usize]) -> usize {
    /// An eighth of the number of nodes to examine.
    const PLACES: usize = 64;
    let fits = |side: usize| {
        let n_nodes = source.n_rows as usize / side;
        let (mut all, mut inside) = (0usize, 0usize);
        let stride = (n_nodes / (PLACES * 8)).max(1);
        for node in (0..n_nodes).step_by(stride) {
            let first = source.row(node * side);
            let same = (1..side).all(|sub| are_same(first, source.row(node * side + sub)));
            all += first.len();
            inside += if same && are_runs(first, side) { first.len() } else { 0 };
        }
        all > 0 && inside * 10 >= all * 9
    };
    let mut sides = sides.iter().rev().filter(|&&side| side > 1 && source.n_rows.is_multiple_of(side as u64));
    sides.find(|&&side| fits(side)).copied().unwrap_or(1)
}
