//! The arrangement of a block as rows, which 32 lanes decode side by side, and the memory cells of
//! their numbers.
//!
//! Row `r` belongs to lane `r % 32`. It begins when the previous row is `lag` elements ahead, so
//! that its neighbors in previous rows are known. At each time step, every lane has one memory
//! cell. The cells of two rows at the same position are a fixed distance apart, whatever their
//! lanes. So the neighbors of all 32 lanes in one direction are 32 adjacent cells.

use crate::stage::rows::{LANES, first_lanes};

/// Rows with fewer elements are merged.
const MIN_LENGTH: usize = 16;
/// Planes with fewer rows are merged.
const MIN_PLANE: usize = 3;
/// Blocks with fewer rows become a line.
const MIN_ROWS: usize = 8;
/// Minimum number of elements by which a row trails the previous one.
const MIN_LAG: usize = 2;
/// Cells before a row that contain the number of its first neighbor.
pub const MARGIN: usize = 3;

/// The position of a row, which determines its existing neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No row precedes it.
    First = 0,
    /// It is in the first plane.
    Plane = 1,
    /// It is the first one of a later plane.
    Top = 2,
    /// It is between other rows of a later plane.
    Inner = 3,
    /// It is the last one of a later plane.
    Bottom = 4,
}

/// A block arranged as rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Elements of the block.
    pub n: usize,
    /// Elements of a row.
    pub length: usize,
    /// Rows of a plane; all rows if there is one plane.
    pub per_plane: usize,
    n_rows: usize,
    /// 0 for a line, whose 32 parts are independent.
    lag: usize,
}

impl View {
    /// Arranges a block of this shape.
    pub fn new([mut sz, mut sy, mut sx]: [usize; 3]) -> Self {
        let n = sz * sy * sx;
        if sx < MIN_LENGTH {
            (sz, sy, sx) = (1, sz, sy * sx);
        }
        if sy < MIN_PLANE {
            (sz, sy) = (1, sz * sy);
        }
        if sx < MIN_LENGTH || sz * sy < MIN_ROWS {
            return Self { n, length: n.div_ceil(LANES), per_plane: LANES, n_rows: LANES, lag: 0 };
        }
        let lag = MIN_LAG.max((sx + MARGIN).div_ceil(LANES));
        Self { n, length: sx, per_plane: sy, n_rows: sz * sy, lag }
    }

    /// True if rows are parts of a line.
    pub fn is_line(&self) -> bool {
        self.lag == 0
    }

    /// True if there are several planes.
    pub fn is_deep(&self) -> bool {
        self.n_rows > self.per_plane
    }

    /// The kinds of rows that occur.
    pub fn kinds(&self) -> &'static [Kind] {
        use Kind::{Bottom, First, Inner, Plane, Top};
        match (self.is_line(), self.is_deep()) {
            (true, _) => &[First],
            (_, false) => &[First, Plane],
            _ => &[First, Plane, Top, Inner, Bottom],
        }
    }

    /// The kind of row that samples are taken from: the most frequent one.
    pub fn sampled(&self) -> Kind {
        match (self.is_line(), self.is_deep()) {
            (true, _) => Kind::First,
            (_, false) => Kind::Plane,
            _ => Kind::Inner,
        }
    }

    /// The kind of a row.
    pub fn kind(&self, row: usize) -> Kind {
        let y = row % self.per_plane;
        match (row < self.per_plane, y) {
            _ if self.is_line() => Kind::First,
            (true, 0) => Kind::First,
            (true, _) => Kind::Plane,
            (_, 0) => Kind::Top,
            _ if y + 1 == self.per_plane => Kind::Bottom,
            _ => Kind::Inner,
        }
    }

    /// Cells from one row to the next.
    pub fn row_step(&self) -> usize {
        LANES * self.lag + 1
    }

    /// Cells before those of time step 0.
    pub fn front(&self) -> usize {
        match self.is_line() {
            true => LANES * MIN_LENGTH,
            false => LANES * MARGIN + self.row_step() * if self.is_deep() { self.per_plane + 1 } else { 1 },
        }
    }

    /// The time step at which a row begins.
    fn start(&self, row: usize) -> usize {
        self.lag * (row % LANES) + self.row_step() * (row / LANES)
    }

    /// Number of time steps.
    pub fn n_times(&self) -> usize {
        self.length + if self.is_line() { 0 } else { self.start(self.n_rows - 1) }
    }

    /// Cells that a GPU stores of the previous rows, and of the previous plane, rounded up to whole
    /// time steps. When it compresses row by row, it stores magnitudes of the rows of a plane
    /// instead.
    pub fn kept_cells(&self) -> usize {
        let rows = if self.is_deep() { self.per_plane + 1 } else { 1 };
        let n = if self.is_line() { 0 } else { rows * self.row_step() + 3 * LANES };
        n.max(4 * LANES).next_multiple_of(4 * LANES)
    }

    /// Number of all cells.
    pub fn n_cells(&self) -> usize {
        self.front() + LANES * self.n_times()
    }
}

/// The assignment of elements to lanes at a time step.
#[derive(Clone, Debug)]
pub struct Schedule {
    view: View,
    time: usize,
    /// The next row to begin, and the next one to end.
    next: usize,
    ending: usize,
    /// The lanes that have an element.
    pub lanes: u32,
    /// The element of each lane. Lanes without one have an arbitrary index, less than a row beyond
    /// the block.
    pub places: [u32; LANES],
}

impl Schedule {
    /// The state before the first step.
    pub fn new(view: View) -> Self {
        let part = |lane: usize| (lane * view.length) as u32;
        let places = if view.is_line() { std::array::from_fn(part) } else { [0; LANES] };
        Self { view, time: 0, next: 0, ending: 0, lanes: 0, places }
    }

    /// Begins the next step. Returns the row that begins with it, if any.
    #[inline(always)]
    pub fn begin(&mut self) -> Option<usize> {
        let View { n, length, n_rows, .. } = self.view;
        if self.view.is_line() {
            self.lanes = first_lanes((n - self.time).div_ceil(length));
            return None;
        }
        if self.ending < n_rows && self.view.start(self.ending) + length == self.time {
            self.lanes &= !(1 << (self.ending % LANES));
            self.ending += 1;
        }
        if self.next == n_rows || self.view.start(self.next) != self.time {
            return None;
        }
        let (row, lane) = (self.next, self.next % LANES);
        self.next += 1;
        self.lanes |= 1 << lane;
        self.places[lane] = (row * length) as u32;
        Some(row)
    }

    #[inline(always)]
    pub fn end(&mut self) {
        self.time += 1;
        for lane in 0..LANES {
            self.places[lane] += self.lanes >> lane & 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_become_rows() {
        let of = |shape| {
            let View { length, per_plane, n_rows, lag, .. } = View::new(shape);
            (length, per_plane, n_rows, lag)
        };
        assert_eq!(of([1, 1, 1]), (1, 32, 32, 0));
        assert_eq!(of([1, 1, 1000]), (32, 32, 32, 0));
        assert_eq!(of([1, 7, 100]), (22, 32, 32, 0));
        assert_eq!(of([1, 8, 100]), (100, 8, 8, 4));
        assert_eq!(of([1, 400, 3]), (38, 32, 32, 0));
        assert_eq!(of([20, 400, 3]), (1200, 20, 20, 38));
        assert_eq!(of([20, 2, 64]), (64, 40, 40, 3));
        assert_eq!(of([5, 5, 16]), (16, 5, 25, 2));
        assert_eq!(of([32, 64, 128]), (128, 64, 2048, 5));
    }

    #[test]
    fn every_element_has_its_turn_in_its_own_cell() {
        for shape in
            [[1, 1, 1], [1, 1, 95], [1, 1, 97], [1, 9, 61], [1, 40, 62], [3, 5, 17], [4, 40, 30], [70, 3, 94]]
        {
            let view = View::new(shape);
            if !view.is_line() {
                // A GPU reads one row farther than a plane back, or one row back. It prefetches
                // what is two rows of a plane nearer, four steps ahead.
                let farthest = view.row_step() * if view.is_deep() { view.per_plane + 1 } else { 1 };
                assert!(view.kept_cells() >= farthest + LANES && view.kept_cells().is_multiple_of(4 * LANES));
                assert!(!view.is_deep() || view.row_step() * (view.per_plane - 1) >= 4 * LANES);
                // Or magnitudes of half a word, with as many elements per row as lanes have.
                let row_bytes = 2 * LANES * if view.length <= 2 * LANES { 2 } else { 4 };
                assert!(!view.is_deep() || view.per_plane * row_bytes <= view.kept_cells() * (4 + 2));
            }
            let (mut cells, mut seen) = (vec![None; view.n_cells()], vec![false; view.n]);
            let mut schedule = Schedule::new(view);
            for time in 0..view.n_times() {
                if let Some(row) = schedule.begin() {
                    assert_eq!(schedule.places[row % LANES] as usize, row * view.length);
                }
                assert!(schedule.places.iter().all(|&place| (place as usize) < view.n + LANES));
                for lane in (0..LANES).filter(|lane| schedule.lanes >> lane & 1 != 0) {
                    let place = schedule.places[lane] as usize;
                    assert!(!std::mem::replace(&mut seen[place], true), "{shape:?}");
                    let (row, x) = (place / view.length, place % view.length);
                    let cell = view.front() + LANES * x + view.row_step() * row;
                    assert_eq!(cell, view.front() + LANES * time + lane, "{shape:?}");
                    assert_eq!(cells[cell].replace(place), None);
                    // The margin before a row is empty.
                    if !view.is_line() {
                        assert!((1..=MARGIN).all(|k| cells[cell - LANES * (x + k)].is_none()));
                    }
                    // The neighbors in previous rows are present.
                    if x > 0 {
                        assert_eq!(cells[cell - LANES], Some(place - 1));
                    }
                    if row > 0 && !view.is_line() && x + 1 < view.length {
                        assert_eq!(cells[cell - view.row_step() + LANES], Some(place - view.length + 1));
                    }
                    if view.kind(row) == Kind::Inner && x + 1 < view.length {
                        let below = view.per_plane - 1;
                        assert_eq!(
                            cells[cell - view.row_step() * below + LANES],
                            Some(place - view.length * below + 1)
                        );
                    }
                }
                schedule.end();
            }
            assert!(seen.iter().all(|&seen| seen), "{shape:?}");
        }
    }
}
