//! Sparse matrices by a rule.

use gridz_sparse::element::Element;
use gridz_sparse::{Csr, Matrix, ValueChoice};
use serde::{Deserialize, Serialize};

use super::generate::Xorshift;

/// Columns, and the columns of each row's elements.
pub type Columns = (u64, Vec<Vec<i64>>);

/// Points of a grid with their neighbours, `b` unknowns each.
pub fn stencil(n: i64, b: i64, far: bool) -> Columns {
    let mut rows = Vec::new();
    for p in 0..n * n * n {
        let (i, j, k) = (p / n / n, p / n % n, p % n);
        let mut row = Vec::new();
        for (a, b, c) in (0..27i64).map(|q| (q / 9 - 1, q / 3 % 3 - 1, q % 3 - 1)) {
            let near = a.abs() + b.abs() + c.abs() <= 1;
            let inside = [i + a, j + b, k + c].iter().all(|x| (0..n).contains(x));
            if inside && (far || near) {
                row.push(((i + a) * n + j + b) * n + k + c);
            }
        }
        push_node(&mut rows, &row, b);
    }
    ((n * n * n * b) as u64, rows)
}

/// Nodes at random, with 2 to 12 neighbours less than `reach` away and `b` unknowns each.
pub fn mesh(n: i64, b: i64, reach: i64) -> Columns {
    let mut state = 1u64;
    let mut random = |below: i64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as i64) % below
    };
    let mut rows = Vec::new();
    for node in 0..n {
        let m = 2 + random(11);
        let mut row: Vec<i64> = (0..m).map(|_| (node + random(2 * reach) - reach).clamp(0, n - 1)).collect();
        row.sort_unstable();
        row.dedup();
        push_node(&mut rows, &row, b);
    }
    ((n * b) as u64, rows)
}

/// Every 150th row has an element less.
fn torn((n_cols, mut rows): Columns) -> Columns {
    rows.iter_mut().step_by(150).for_each(|row| row.truncate(row.len() - 1));
    (n_cols, rows)
}

/// Adds the `b` rows of a node with these neighbours.
fn push_node(rows: &mut Vec<Vec<i64>>, neighbours: &[i64], b: i64) {
    for _ in 0..b {
        rows.push(neighbours.iter().flat_map(|node| (0..b).map(move |j| node * b + j)).collect());
    }
}

/// A matrix in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixInput {
    /// The rule of its columns, and the numbers that belong to it.
    pub shape: String,
    pub size: i64,
    pub side: i64,
    /// The rule of its values, and how they are asked to be kept.
    pub values: String,
    pub choice: String,
    /// `float32` or `float64`.
    pub dtype: String,
}

impl MatrixInput {
    pub fn columns(&self) -> Columns {
        let (n, b) = (self.size, self.side);
        let mut random = Xorshift::new(n as u64);
        let mut below = |limit: i64| (random.next() >> 8) as i64 % limit;
        match &*self.shape {
            "stencil" => stencil(n, b, true),
            "cross" => stencil(n, b, false),
            "mesh" => mesh(n, b, 300.min(n / 3)),
            "near_mesh" => mesh(n, b, 40),
            // Five neighbours a node, near each other and anywhere.
            "even_mesh" => {
                let mut rows = Vec::new();
                for _ in 0..n {
                    let first = below(n - 50);
                    let node: Vec<i64> = (0..5).map(|k| first + 10 * k + below(9)).collect();
                    push_node(&mut rows, &node, b);
                }
                ((n * b) as u64, rows)
            }
            // Some nodes have rows that differ.
            "torn_mesh" => torn(mesh(n, b, 40)),
            "torn_even_mesh" => torn(Self { shape: "even_mesh".into(), ..self.clone() }.columns()),
            // Distances from the diagonal that have 2 bytes, where columns side by side are further apart.
            "slope" => {
                let (mut rows, in_slice) = (Vec::new(), 32 / b);
                (0..n).for_each(|i| push_node(&mut rows, &[i + i % in_slice * (65535 / (in_slice - 1)) / b], b));
                ((n * b + (1 << 16)) as u64, rows)
            }
            // A mesh with long rows: of all columns, of the same from the last one on, and of 300.
            "mesh_with_long_rows" => {
                let (n_cols, mut rows) = mesh(n, b, 40);
                let all: Vec<i64> = (0..n_cols as i64).collect();
                rows[5] = all.clone();
                rows[n as usize / 2] = all.iter().rev().copied().collect();
                rows[n as usize - 1] = all[..300].to_vec();
                (n_cols, rows)
            }
            // Three diagonals and a row of `size` elements.
            "arrow" => {
                let mut rows: Vec<Vec<i64>> = (0..200).map(|r| vec![r, r + 1, r + 2]).collect();
                rows[10] = (0..n).collect();
                (n as u64, rows)
            }
            // The same blocks of columns in all rows.
            "same" => {
                let mut rows = Vec::new();
                (0..n).for_each(|_| push_node(&mut rows, &[0, 2, 3], b));
                (4 * b as u64, rows)
            }
            "diagonal" => (n as u64, (0..n).map(|r| vec![r]).collect()),
            "row" => (n as u64, vec![(0..n).collect()]),
            "no_elements" => (7, vec![vec![]; n as usize]),
            "all_long" => (400, (0..n).map(|r| (r..r + 300).collect()).collect()),
            // Columns in no order, some of them twice.
            "unsorted" => (n as u64, (0..n).map(|_| (0..below(9)).map(|_| below(n) / 3 * 2).collect()).collect()),
            // The same in rows of very different lengths.
            "uneven" => {
                let length = |r: i64| if r % 29 == 3 { 60 } else { r * r % 7 };
                (n as u64, (0..n).map(|r| (0..length(r)).map(|_| below(n)).collect()).collect())
            }
            // Rows with elements near their nodes, and every third with one more, 20000 or 200000 nodes away.
            "bands" | "wide_bands" => {
                let far = if self.shape == "bands" { 20_000 } else { 200_000 };
                let mut rows = Vec::new();
                for i in 0..n {
                    let mut row: Vec<i64> = (0..3 + below(5)).map(|k| i + 9 * k + below(8)).collect();
                    row.extend((i % 3 == 0).then_some(i + far));
                    push_node(&mut rows, &row, b);
                }
                (1 << 20, rows)
            }
            // A long row in two clusters far from each other, and 20 shorter ones that differ.
            "clusters" => {
                let mut rows: Vec<Vec<i64>> = (0..20).map(|r| (0..r).map(|k| k * k * 2001).collect()).collect();
                rows[3] =
                    (0..n).map(|i| 3 * i + if i * 7 > n { 100_000 * (i * 7 / n).min(3) } else { 0 }).collect();
                (1 << 20, rows)
            }
            // The same with steps too far apart for their offsets.
            "far_clusters" => (1 << 34, vec![(0..n).chain((1 << 33)..(1 << 33) + n).collect()]),
            // Columns far from each other: codes of 4 bytes, and of 8.
            "wide" => {
                let (n_cols, mut rows) = (1 << 20, Vec::new());
                (0..n).for_each(|_| push_node(&mut rows, &[0; 5].map(|_| below(n_cols / b)), b));
                (n_cols as u64, rows)
            }
            "far" => {
                let mut rows = Vec::new();
                for i in 0..n {
                    let row = [i, (1 << 40) + i * i, (i64::MAX - 8) - i * 1_000_000_007, (1 << 33) - i];
                    push_node(&mut rows, &row.map(|column| column / b), b);
                }
                let long = 300.min(40 * (b - 1));
                rows[7].extend((0..4 * long).map(|i| i * 10_000_000_000_000_007));
                (i64::MAX as u64, rows)
            }
            // Long rows whose codes have 2 and 4 bytes.
            "scattered_long_rows" => {
                let mut rows: Vec<Vec<i64>> = (0..5).map(|r| vec![r, r + 2]).collect();
                rows[1] = (0..n).map(|i| i * 7919 % 60_000).collect();
                rows[4] = (0..n).map(|_| below(1 << 20)).collect();
                (1 << 20, rows)
            }
            other => panic!("unknown shape {other}"),
        }
    }

    fn choice(&self) -> ValueChoice {
        let name = |choice: &ValueChoice| format!("{choice:?}").to_lowercase();
        ValueChoice::ALL.into_iter().find(|choice| name(choice) == self.choice).unwrap()
    }
}

/// A matrix in rows, with memory of its own.
pub struct Rows<T> {
    pub n_cols: u64,
    pub starts: Vec<i64>,
    pub columns: Vec<i64>,
    pub values: Vec<T>,
    choice: ValueChoice,
}

impl<T: Element> Rows<T> {
    pub fn of(input: &MatrixInput) -> Self {
        assert_eq!(T::DTYPE.name(), input.dtype);
        let (n_cols, rows) = input.columns();
        let starts = std::iter::once(0).chain(rows.iter().scan(0, |end, row| {
            *end += row.len() as i64;
            Some(*end)
        }));
        let (starts, columns) = (starts.collect(), rows.concat());
        let mut random = Xorshift::new(columns.len() as u64);
        let value = |i: usize| T::from_bits(value_bits(&input.values, i, random.next(), T::BYTES));
        Self { n_cols, starts, values: (0..columns.len()).map(value).collect(), columns, choice: input.choice() }
    }

    pub fn compress(&self, pool: &gridz_codecs::cpu::pool::Pool) -> Matrix {
        let Self { n_cols, starts, columns, values, choice } = self;
        let csr = Csr { n_rows: starts.len() as u64 - 1, n_cols: *n_cols, starts, columns, values };
        gridz_sparse::compress(&csr, *choice, pool).unwrap()
    }
}

/// The bits of value `i` of a matrix.
fn value_bits(rule: &str, i: usize, random: u64, n_bytes: usize) -> u64 {
    let float = |value: f64| if n_bytes == 8 { value.to_bits() } else { u64::from((value as f32).to_bits()) };
    // Bits of the mantissa, and a number from 1 up.
    let (mantissa, one) = if n_bytes == 8 { (52, float(1.0)) } else { (23, float(1.0)) };
    match rule {
        "any" => one | random >> 11 & ((1 << mantissa) - 1),
        "one" => float(2.5),
        "negative_zero" => float(-0.0),
        "few" => float([1.0, -1.0, 0.0, -0.0, 3.5, 0.1][(random >> 40) as usize % 6]),
        "many" => float((random >> 40) as f64 % 900.0 / 7.0),
        // Numbers of other widths in each stretch.
        "widths" => {
            let width = [0, 8, 16, 24, 32, 48, 51][i / 700 % 7].min(mantissa + 2);
            one + ((random >> 8 & ((1 << width) - 1)) << if width < 20 { 2 } else { 0 })
        }
        // NaN with payloads, infinities, zeros of both signs, subnormals.
        "special" => {
            let (sign, infinity) = (1 << (8 * n_bytes - 1), one | one << 1);
            match random >> 32 & 63 {
                0 => infinity | 1 << (mantissa - 1) | i as u64,
                1 => sign | infinity,
                2 => infinity | 1,
                3..16 => sign,
                16..20 => i as u64,
                _ => one | random >> 40,
            }
        }
        other => panic!("unknown rule {other}"),
    }
}
