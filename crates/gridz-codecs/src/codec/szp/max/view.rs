//! How a block is seen: rows, which 32 lanes decode side by side, and where their numbers are in the meantime.
//!
//! Row `r` belongs to lane `r % 32` and begins when the row before it is `lag` elements ahead, so that its neighbours in rows
//! before are known. At each time every lane has one cell of memory. A row's cell is a fixed distance from that of the same
//! place in any other row, whatever their lanes: so what lies in one direction from all 32 lanes is 32 cells side by side.

use crate::stage::rows::{LANES, first_lanes};

/// Shorter rows are joined …
const MIN_LENGTH: usize = 16;
/// … as are planes of fewer rows …
const MIN_PLANE: usize = 3;
/// … and fewer rows are a line.
const MIN_ROWS: usize = 8;
/// A row begins so many elements behind the one before it, at least.
const MIN_LAG: usize = 2;
/// Cells in front of a row that have its first neighbour's number.
pub const MARGIN: usize = 3;

/// What is known of the place of a row, and so which neighbours it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No row is before it.
    First = 0,
    /// In the first plane.
    Plane = 1,
    /// The first one of another plane.
    Top = 2,
    /// Between other rows of another plane.
    Inner = 3,
    /// The last one of another plane.
    Bottom = 4,
}

/// A block as rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Elements of the block.
    pub n: usize,
    /// Elements of a row.
    pub length: usize,
    /// Rows of a plane; all if there is one plane.
    pub per_plane: usize,
    n_rows: usize,
    /// 0 for a line: its 32 parts know nothing of each other.
    lag: usize,
}

impl View {
    /// A block of this shape.
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

    /// Whether rows are parts of a line.
    pub fn is_line(&self) -> bool {
        self.lag == 0
    }

    /// Whether there are several planes.
    pub fn is_deep(&self) -> bool {
        self.n_rows > self.per_plane
    }

    /// Which kinds of rows there are.
    pub fn kinds(&self) -> &'static [Kind] {
        use Kind::{Bottom, First, Inner, Plane, Top};
        match (self.is_line(), self.is_deep()) {
            (true, _) => &[First],
            (_, false) => &[First, Plane],
            _ => &[First, Plane, Top, Inner, Bottom],
        }
    }

    /// The kind of which samples are: that of most rows.
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

    /// Cells in front of those of time 0.
    pub fn front(&self) -> usize {
        match self.is_line() {
            true => LANES * MIN_LENGTH,
            false => LANES * MARGIN + self.row_step() * if self.is_deep() { self.per_plane + 1 } else { 1 },
        }
    }

    /// When a row begins.
    fn start(&self, row: usize) -> usize {
        self.lag * (row % LANES) + self.row_step() * (row / LANES)
    }

    /// Steps until all are done.
    pub fn n_times(&self) -> usize {
        self.length + if self.is_line() { 0 } else { self.start(self.n_rows - 1) }
    }

    /// Cells that a GPU keeps of the rows before, and of the plane before; as many as of whole times. Where it compresses row by row, it has sizes of the
    /// rows of a plane in their place.
    pub fn kept_cells(&self) -> usize {
        let rows = if self.is_deep() { self.per_plane + 1 } else { 1 };
        let n = if self.is_line() { 0 } else { rows * self.row_step() + 3 * LANES };
        n.max(4 * LANES).next_multiple_of(4 * LANES)
    }

    /// All cells.
    pub fn n_cells(&self) -> usize {
        self.front() + LANES * self.n_times()
    }
}

/// Who does what at a time.
#[derive(Clone, Debug)]
pub struct Schedule {
    view: View,
    time: usize,
    /// The next row to begin and the next one to end.
    next: usize,
    ending: usize,
    /// The lanes that have an element.
    pub lanes: u32,
    /// The element that a lane has; of other lanes any one, or one less than a row behind the block.
    pub places: [u32; LANES],
}

impl Schedule {
    /// Before the first step.
    pub fn new(view: View) -> Self {
        let part = |lane: usize| (lane * view.length) as u32;
        let places = if view.is_line() { std::array::from_fn(part) } else { [0; LANES] };
        Self { view, time: 0, next: 0, ending: 0, lanes: 0, places }
    }

    /// Begins the next step; the row that begins with it, if any does.
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

    /// Ends a step.
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
                // A GPU reads what is one row farther than a plane back, or a row, and fetches what is two rows of a plane nearer four times before.
                let farthest = view.row_step() * if view.is_deep() { view.per_plane + 1 } else { 1 };
                assert!(view.kept_cells() >= farthest + LANES && view.kept_cells().is_multiple_of(4 * LANES));
                assert!(!view.is_deep() || view.row_step() * (view.per_plane - 1) >= 4 * LANES);
                // Or sizes of half a word, of as many elements a row as lanes have.
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
                    // What is in front of a row, and behind it.
                    if !view.is_line() {
                        assert!((1..=MARGIN).all(|k| cells[cell - LANES * (x + k)].is_none()));
                    }
                    // What is read of rows before is there.
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
