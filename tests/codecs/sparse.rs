//! Sparse matrices compared with simple loops, bit for bit, at every instruction level and for
//! several numbers of threads; and damaged frames.

use crate::common::damage::Answers;
use crate::common::generate::Xorshift;
use crate::common::matrices::{mesh, stencil};
use crate::common::{Tally, one_in};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::ErrorKind;
use gridz_sparse::element::{Element, Semiring};
use gridz_sparse::frame::{HEADER_BYTES, seal};
use gridz_sparse::{Csr, Matrix, ValueChoice};
use proptest::prelude::*;

/// A CSR matrix that owns its memory.
#[derive(Debug, Clone)]
struct Own<T> {
    n_cols: u64,
    starts: Vec<i64>,
    columns: Vec<i64>,
    values: Vec<T>,
}

impl<T: Element + std::fmt::Debug> Own<T> {
    fn of(n_cols: u64, rows: Vec<Vec<i64>>, value: impl Fn(usize) -> T) -> Self {
        let mut starts = vec![0];
        let mut columns = Vec::new();
        for row in rows {
            columns.extend(row);
            starts.push(columns.len() as i64);
        }
        let values = (0..columns.len()).map(value).collect();
        Self { n_cols, starts, columns, values }
    }

    fn csr(&self) -> Csr<'_, i64, T> {
        let Self { n_cols, starts, columns, values } = self;
        Csr { n_rows: starts.len() as u64 - 1, n_cols: *n_cols, starts, columns, values }
    }

    fn compress(&self, choice: ValueChoice) -> Matrix {
        gridz_sparse::compress(&self.csr(), choice, &Pool::new(1)).unwrap()
    }

    /// The elements of row `r`, in order.
    fn row(&self, r: usize) -> impl Iterator<Item = (usize, T)> {
        let range = self.starts[r] as usize..self.starts[r + 1] as usize;
        range.map(|i| (self.columns[i] as usize, self.values[i]))
    }
}

fn zero<T: Element>(ring: Semiring) -> T {
    match ring {
        Semiring::PlusTimes | Semiring::OrAnd => T::default(),
        Semiring::MinPlus => T::INFINITY,
        Semiring::MaxTimes => T::MINUS_INFINITY,
    }
}

fn add<T: Element>(ring: Semiring, sum: T, a: T, x: T) -> T {
    let none = T::default();
    match ring {
        Semiring::PlusTimes => sum.plus(a.times(x)),
        Semiring::MinPlus => {
            if a.plus(x) < sum {
                a.plus(x)
            } else {
                sum
            }
        }
        Semiring::MaxTimes => {
            if a.times(x) > sum {
                a.times(x)
            } else {
                sum
            }
        }
        Semiring::OrAnd => {
            if sum != none || (a != none && x != none) {
                T::ONE
            } else {
                none
            }
        }
    }
}

/// Combines two results.
fn join<T: Element>(ring: Semiring, a: T, b: T) -> T {
    match ring {
        Semiring::PlusTimes | Semiring::OrAnd => add(ring, a, b, T::ONE),
        Semiring::MinPlus => add(ring, a, b, T::default()),
        Semiring::MaxTimes => add(ring, a, b, T::ONE),
    }
}

/// A row's product as defined in `SPARSE.md`: from the first element to the last, or in 32 sums for
/// each 4096 elements.
fn row_product<T: Element>(ring: Semiring, row: &[(usize, T)], is_long: bool, x: impl Fn(usize) -> T) -> T {
    let sum = |elements: &mut dyn Iterator<Item = &(usize, T)>| {
        elements.fold(zero(ring), |sum, &(column, value)| add(ring, sum, value, x(column)))
    };
    if !is_long {
        return sum(&mut row.iter());
    }
    let parts = row.chunks(4096).map(|part| {
        let mut sums: Vec<T> = (0..32).map(|lane| sum(&mut part.iter().skip(lane).step_by(32))).collect();
        while sums.len() > 1 {
            let half = sums.len() / 2;
            sums = (0..half).map(|i| join(ring, sums[i], sums[i + half])).collect();
        }
        sums[0]
    });
    parts.reduce(|a, b| join(ring, a, b)).unwrap()
}

fn bits<T: Element>(values: &[T]) -> Vec<u64> {
    values.iter().map(|value| value.bits()).collect()
}

/// Checks every operation of a matrix against simple loops.
fn check<T: Number>(own: &Own<T>, choice: ValueChoice) -> Matrix {
    let matrix = own.compress(choice);
    let n_rows = own.starts.len() - 1;
    let n_cols = own.n_cols as usize;
    let pools = [1, 3].map(Pool::new);
    let frame = matrix.frame().to_vec();
    assert_eq!(
        gridz_sparse::compress(&own.csr(), choice, &pools[1]).unwrap().frame(),
        frame,
        "threads change nothing"
    );
    let again = Matrix::from_frame(&frame, &pools[1]).unwrap();
    assert_eq!(again.frame(), frame);

    for rows in [0..n_rows, n_rows / 3..n_rows / 2, n_rows..n_rows] {
        let rows = rows.start as u64..rows.end as u64;
        let found = gridz_sparse::decode::<i64, T>(&matrix, rows.clone(), &pools[0]).unwrap();
        let (start, end) = (own.starts[rows.start as usize], own.starts[rows.end as usize]);
        assert_eq!(found.columns, own.columns[start as usize..end as usize]);
        assert_eq!(bits(&found.values), bits(&own.values[start as usize..end as usize]));
        let starts: Vec<i64> =
            own.starts[rows.start as usize..=rows.end as usize].iter().map(|at| at - start).collect();
        assert_eq!(found.starts, starts);
        assert_eq!(gridz_sparse::count(&matrix, rows).unwrap(), (end - start) as u64);
    }

    let view = again.view();
    let long: Vec<u64> = (0..view.head.n_long).map(|i| view.long(i).row).collect();
    let n = 3;
    let x: Vec<T> = (0..n_cols * n).map(|i| T::element(i)).collect();
    let first: Vec<T> = x.iter().step_by(n).copied().collect();
    for ring in Semiring::ALL {
        let mut want = vec![T::default(); n_rows * n];
        for r in 0..n_rows {
            let row: Vec<(usize, T)> = own.row(r).collect();
            for j in 0..n {
                let is_long = long.contains(&(r as u64));
                want[r * n + j] = row_product(ring, &row, is_long, |column| x[column * n + j]);
            }
        }
        let want_first: Vec<T> = want.iter().step_by(n).copied().collect();
        for pool in &pools {
            for level in Isa::all() {
                let mut y = vec![T::INFINITY; n_rows];
                gridz_sparse::multiply(&matrix, ring, &first, &mut y, level, pool).unwrap();
                assert_eq!(bits(&y), bits(&want_first), "{ring:?} at {level:?}");
                let mut y = vec![T::INFINITY; n_rows * n];
                gridz_sparse::multiply_wide(&matrix, ring, n, &x, &mut y, level, pool).unwrap();
                assert_eq!(bits(&y), bits(&want), "{ring:?} at {level:?}");
            }
        }

        // The transpose: the same bits with any number of threads, at any level, with one vector
        // and several. Except for rounding (the order of summation differs), the sums equal those
        // of the columns.
        let x: Vec<T> = (0..n_rows * n).map(|i| T::element(i)).collect();
        let first: Vec<T> = x.iter().step_by(n).copied().collect();
        let mut found = Vec::new();
        for (level, pool) in Isa::all().flat_map(|level| pools.iter().map(move |pool| (level, pool))) {
            let mut y = vec![T::ONE; n_cols * n];
            gridz_sparse::multiply_transposed(&matrix, ring, n, &x, &mut y, level, pool).unwrap();
            let mut z = vec![T::ONE; n_cols];
            gridz_sparse::multiply_transposed(&matrix, ring, 1, &first, &mut z, level, pool).unwrap();
            assert_eq!(bits(&z), bits(&y.iter().step_by(n).copied().collect::<Vec<_>>()), "{ring:?} at {level:?}");
            if found.is_empty() {
                found = y.clone();
            }
            assert_eq!(bits(&y), bits(&found), "{ring:?} at {level:?}");
        }
        let mut want = vec![zero::<T>(ring); n_cols * n];
        for r in 0..n_rows {
            for (column, value) in own.row(r) {
                for j in 0..n {
                    want[column * n + j] = add(ring, want[column * n + j], value, x[r * n + j]);
                }
            }
        }
        for (found, want) in found.iter().zip(&want) {
            let far = (found.number() - want.number()).abs();
            assert!(found == want || far <= 1e-3 * (1.0 + want.number().abs()), "{found:?} {want:?}");
        }
    }
    matrix
}

/// The element types.
trait Number: Element + std::fmt::Debug {
    /// Element `i` of a vector.
    fn element(i: usize) -> Self;
    /// The value as f64, for comparisons.
    fn number(self) -> f64;
}

macro_rules! numbers {
    ($($type:ident)*) => {$(
        impl Number for $type {
            fn element(i: usize) -> Self {
                if i % 7 == 3 { 0.0 } else { 1.0 + (i * 37 % 101) as $type / 64.3 }
            }

            fn number(self) -> f64 {
                self.into()
            }
        }
    )*};
}
numbers!(f32 f64);

/// Values of several kinds: arbitrary, one, few, many, counts, smooth.
fn value(kind: usize, i: usize) -> f64 {
    match kind {
        0 => 0.1 + (i as f64 * 0.7).sin(),
        1 => 2.5,
        2 => [1.0, -1.0, 0.0, -0.0, 3.5][i * i % 5],
        3 => (i * i % 1009) as f64 / 7.0,
        4 => (i * i % 19) as f64,
        _ => 1.0 + 1e-4 * (i as f64 / 100.0).cos(),
    }
}

fn check_both(n_cols: u64, rows: &[Vec<i64>], kind: usize, choice: ValueChoice) -> Matrix {
    check(&Own::of(n_cols, rows.to_vec(), |i| value(kind, i) as f32), choice);
    check(&Own::of(n_cols, rows.to_vec(), |i| value(kind, i)), choice)
}

#[test]
fn stencils_have_no_codes() {
    for (b, far) in [(1, true), (1, false), (2, true), (3, false), (4, false), (5, false)] {
        let (n, rows) = stencil(17 - 2 * b, b, far);
        let matrix = check_both(n, &rows, 0, ValueChoice::Plain);
        let kinds = gridz_sparse::kinds(&matrix);
        assert_eq!(matrix.head().block as i64, b);
        assert!(kinds.by_distance * 10 > matrix.head().nnz * 7, "{kinds:?}");
    }
}

#[test]
fn meshes_have_a_code_for_each_block() {
    for b in [2, 3, 4, 6, 8] {
        let (n, rows) = mesh(9000 / b, b, 300);
        let matrix = check_both(n, &rows, 0, ValueChoice::Plain);
        let kinds = gridz_sparse::kinds(&matrix);
        assert_eq!(matrix.head().block as i64, b);
        assert!(kinds.blocked * 10 > matrix.head().nnz * 9, "{kinds:?}");
        assert!(matrix.head().n_order > 0, "rows of many lengths take another order");
    }
}

#[test]
fn values_are_kept_in_every_way() {
    use gridz_sparse::layout::ValueCodec;
    let (n, rows) = mesh(4500, 1, 300);
    for (kind, codec) in [
        (0, ValueCodec::Plain),
        (1, ValueCodec::Constant),
        (2, ValueCodec::Dictionary8),
        (3, ValueCodec::Dictionary16),
        (4, ValueCodec::Dictionary8),
        (5, ValueCodec::Blocks),
    ] {
        let matrix = check_both(n, &rows, kind, ValueChoice::Best);
        assert_eq!(matrix.head().codec, codec, "kind {kind}");
        check_both(n, &rows, kind, ValueChoice::Blocks);
    }
    let own = Own::of(n, rows, |i| value(0, i));
    gridz_sparse::compress(&own.csr(), ValueChoice::Constant, &Pool::new(1)).unwrap_err();
}

#[test]
fn small_empty_and_odd_matrices() {
    for rows in [vec![], vec![vec![]; 70], vec![vec![0]], vec![vec![]; 1]] {
        check_both(1, &rows, 0, ValueChoice::Plain);
    }
    check_both(0, &vec![vec![]; 5000], 0, ValueChoice::Best);
    // A single block, with no further columns.
    for b in [2, 3, 4, 5] {
        check_both(b as u64, &vec![(0..b).collect(); b as usize], 0, ValueChoice::Plain);
    }
    // A full row, rows with descending and duplicate columns, and rows of 64-bit columns.
    let full: Vec<i64> = (0..10000).collect();
    let mut rows = vec![vec![3, 3, 1, 9999, 1]; 4000];
    rows[77] = full.clone();
    rows[3999] = full.into_iter().rev().take(300).collect();
    let matrix = check_both(10000, &rows, 0, ValueChoice::Plain);
    assert_eq!(matrix.head().n_long, 2);
}

#[test]
fn columns_of_64_bits_come_back() {
    let far = 1 << 40;
    let rows: Vec<Vec<i64>> =
        (0..100).map(|r| vec![r, far + r * r, (i64::MAX - 1) - r * 1_000_000_007, far - r]).collect();
    let own = Own::of(i64::MAX as u64, rows, |i| i as f64);
    let matrix = own.compress(ValueChoice::Best);
    let matrix = Matrix::from_frame(matrix.frame(), &Pool::new(1)).unwrap();
    let found = gridz_sparse::decode::<i64, f64>(&matrix, 0..100, &Pool::new(1)).unwrap();
    assert_eq!((found.columns, found.values), (own.columns.clone(), own.values.clone()));
    assert!(gridz_sparse::decode::<i32, f64>(&matrix, 0..100, &Pool::new(1)).is_err());
}

/// Codes that could be short, in steps that are further apart than an offset can represent.
#[test]
fn clusters_far_from_each_other_come_back() {
    let clusters = |n: i64, far: i64| (0..n).chain(far..far + n).collect::<Vec<_>>();
    for far in [1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 33, 1 << 40] {
        // A long row, and short ones. A third of the short ones has only the second cluster.
        let short = (0..64).map(|r| if r % 3 == 0 { vec![far + r, far + r + 1] } else { clusters(4 + r % 5, far) });
        let rows: Vec<Vec<i64>> = std::iter::once(clusters(2000, far)).chain(short).collect();
        let own = Own::of(1 << 41, rows, |i| i as f64);
        let matrix = own.compress(ValueChoice::Plain);
        let matrix = Matrix::from_frame(matrix.frame(), &Pool::new(1)).unwrap();
        let found = gridz_sparse::decode::<i64, f64>(&matrix, 0..65, &Pool::new(1)).unwrap();
        assert!((found.columns, found.values) == (own.columns.clone(), own.values.clone()), "{far}");
    }
}

#[test]
fn tables_of_too_large_matrices_are_refused() {
    use gridz_sparse::layout::counted;
    assert!(counted((1 << 32) - 2).is_ok() && counted((1 << 32) - 1).is_err());
    // More than 2^32 elements are allowed: values are counted in units of 32.
    assert!(counted((1usize << 33) / 32).is_ok());
}

/// A matrix given by columns has the same frame as by rows, even if most windows of rows have no
/// elements.
#[test]
fn columns_have_the_frame_of_their_rows() {
    let (n, dense) = mesh(9000, 1, 300);
    // Of 20 windows of rows, three have elements.
    let far = |i: i64| [2, 7 * 3840 + 11, 7 * 3840 + 10, 19 * 3840 + 5].map(|row| row + i % 3).to_vec();
    let few: Vec<Vec<i64>> = (0..200).map(|i| if i == 40 { vec![] } else { far(i) }).collect();
    let long: Vec<Vec<i64>> = (0..2000).map(|i| vec![i % 5, 40_000]).collect();
    let mut n_empty = 0;
    for (n, columns) in
        [(n, dense), (20 * 3840, few.clone()), (20 * 3840 - 5000, few[40..41].to_vec()), (50_000, long)]
    {
        let given = Own::of(n, columns, |i| value(2, i));
        let mut rows = vec![vec![]; n as usize];
        for column in 0..given.starts.len() - 1 {
            given.row(column).for_each(|(row, value)| rows[row].push((column as i64, value)));
        }
        n_empty += rows.chunks(3840).filter(|rows| rows.iter().all(Vec::is_empty)).count();
        let values: Vec<f64> = rows.iter().flatten().map(|&(_, value)| value).collect();
        let n_cols = given.starts.len() as u64 - 1;
        let columns_of = |row: Vec<(i64, f64)>| row.into_iter().map(|(column, _)| column).collect();
        let own = Own::of(n_cols, rows.into_iter().map(columns_of).collect(), |i| values[i]);
        for choice in [ValueChoice::Best, ValueChoice::Plain, ValueChoice::Blocks] {
            for pool in [1, 3].map(Pool::new) {
                let found = gridz_sparse::compress_transposed(&given.csr(), choice, &pool).unwrap();
                assert!(found.frame() == own.compress(choice).frame(), "{n} rows, {choice:?}");
                let again = Matrix::from_frame(found.frame(), &pool).unwrap();
                let back = gridz_sparse::decode::<i64, f64>(&again, 0..n, &pool).unwrap();
                assert_eq!((&back.starts, &back.columns), (&own.starts, &own.columns));
                assert_eq!(bits(&back.values), bits(&own.values));
            }
        }
    }
    // Empty windows: of 20, of 19, and of 14, where one row is long.
    assert_eq!(n_empty, 17 + 19 + 12);
}

/// More windows than one thread decodes at a time, with any first and last row.
#[test]
fn rows_of_many_windows_are_decoded() {
    let n_rows = 40 * 3840 + 17;
    let rows: Vec<Vec<i64>> =
        (0..n_rows).map(|r| if r % 7 == 0 { vec![r % 50, r % 50 + 3] } else { vec![] }).collect();
    let own = Own::of(60, rows, |i| value(0, i));
    let matrix = own.compress(ValueChoice::Plain);
    let pool = Pool::new(3);
    for (first, end) in [(0, n_rows), (1, n_rows - 1), (3839, 3841), (16 * 3840, 33 * 3840), (100_000, 100_000)] {
        let (start, stop) = (own.starts[first as usize], own.starts[end as usize]);
        let found = gridz_sparse::decode::<i32, f64>(&matrix, first as u64..end as u64, &pool).unwrap();
        assert!(
            found
                .columns
                .iter()
                .map(|&column| i64::from(column))
                .eq(own.columns[start as usize..stop as usize].iter().copied())
        );
        assert_eq!(bits(&found.values), bits(&own.values[start as usize..stop as usize]));
        let starts = own.starts[first as usize..=end as usize].iter().map(|at| at - start);
        assert!(found.starts.iter().map(|&start| i64::from(start)).eq(starts), "rows {first} to {end}");
    }
    let mut starts = [0i64; 3];
    let room = gridz_sparse::Room { starts: &mut starts, columns: &mut [0; 3], values: &mut [0.0; 0] };
    let error = gridz_sparse::decode_to::<i64, f64>(&matrix, 0..2, room, &pool).unwrap_err();
    assert!(error.context().contains("columns has room for 3, but these rows need 2"), "{error}");
}

#[test]
fn what_is_no_matrix_is_refused() {
    let pool = Pool::new(1);
    let refuse = |n_cols: u64, starts: &[i32], columns: &[i32], part: &str| {
        let values = vec![1f32; columns.len()];
        let csr = Csr { n_rows: 2, n_cols, starts, columns, values: &values };
        let error = gridz_sparse::compress(&csr, ValueChoice::Best, &pool).unwrap_err();
        assert!(error.context().contains(part), "{error}");
    };
    refuse(3, &[0, 1], &[0], "one more than rows");
    refuse(3, &[0, 2, 1], &[0], "row 1 starts at 2 and ends at 1");
    refuse(3, &[0, 1, 3], &[0, 1], "from 0 to 3");
    refuse(3, &[1, 1, 2], &[0, 1], "from 1 to 2");
    refuse(3, &[0, 1, 2], &[0, 3], "column 3");
    refuse(3, &[0, 1, 2], &[0, -1], "column -1");
    let csr = Csr { n_rows: 1, n_cols: 1, starts: &[0, 1], columns: &[0], values: &[1f32, 2.0] };
    assert!(gridz_sparse::compress(&csr, ValueChoice::Best, &pool).is_err());
}

/// Frames with every kind of table.
fn frames() -> Vec<Vec<u8>> {
    let (n, mut rows) = mesh(4500, 1, 300);
    rows[10] = (0..n as i64).collect();
    let (m, blocks) = mesh(1500, 3, 300);
    let (s, points) = stencil(9, 1, true);
    let mut frames = Vec::new();
    for (n, rows, kinds) in [(n, rows, vec![0, 2, 3, 5]), (m, blocks, vec![1]), (s, points, vec![4])] {
        for kind in kinds {
            let own = Own::of(n, rows.clone(), |i| value(kind, i) as f32);
            frames.push(own.compress(ValueChoice::Best).frame().to_vec());
        }
    }
    frames
}

/// Reads a frame and, if that succeeds, performs the operations that could fail. Returns true if it
/// was read.
fn use_frame(frame: &[u8]) -> bool {
    let pool = Pool::new(1);
    let Ok(matrix) = Matrix::from_frame(frame, &pool) else { return false };
    // Empty columns cost nothing in a frame, but they do in a vector.
    if matrix.head().n_cols > 1 << 20 {
        return true;
    }
    // Damage may change the element type.
    match matrix.head().dtype {
        gridz::DType::F32 => use_all::<f32>(&matrix, &pool),
        _ => use_all::<f64>(&matrix, &pool),
    }
    true
}

fn use_all<T: Number>(matrix: &Matrix, pool: &Pool) {
    let head = *matrix.head();
    let x: Vec<T> = (0..head.n_cols as usize).map(|i| T::element(i % 16)).collect();
    let mut y = vec![T::default(); head.n_rows as usize];
    let products = Isa::all().map(|level| {
        gridz_sparse::multiply(matrix, Semiring::PlusTimes, &x, &mut y, level, pool).unwrap();
        // The bits of NaN depend on the order of summation.
        y.iter().map(|y| if y.number().is_nan() { 0 } else { y.bits() }).collect::<Vec<_>>()
    });
    let products: Vec<_> = products.collect();
    assert!(products.iter().all(|product| *product == products[0]), "instructions change nothing");
    let rows = gridz_sparse::decode::<i64, T>(matrix, 0..head.n_rows, pool).unwrap();
    assert_eq!(rows.columns.len() as u64, gridz_sparse::count(matrix, 0..head.n_rows).unwrap());
    for level in Isa::all() {
        for n in [1, 3] {
            let (mut x, mut y) = (vec![T::ONE; head.n_cols as usize * n], vec![T::ONE; head.n_rows as usize * n]);
            gridz_sparse::multiply_transposed(matrix, Semiring::PlusTimes, n, &y, &mut x, level, pool).unwrap();
            gridz_sparse::multiply_wide(matrix, Semiring::MinPlus, n, &x, &mut y, level, pool).unwrap();
        }
    }
}

#[test]
fn any_number_of_vectors() {
    let (n_cols, mut rows) = mesh(9000, 1, 300);
    rows[77] = (0..n_cols as i64).collect();
    let own = Own::of(n_cols, rows, |i| value(0, i));
    let (matrix, pool) = (own.compress(ValueChoice::Plain), Pool::new(3));
    for n in [1, 2, 4, 5, 7, 8, 11, 16, 33, gridz_sparse::MAX_VECTORS] {
        let x: Vec<f64> = (0..n_cols as usize * n).map(f64::element).collect();
        let mut y = vec![0.0; x.len()];
        let mut transposed = y.clone();
        gridz_sparse::multiply_wide(&matrix, Semiring::PlusTimes, n, &x, &mut y, Isa::best(), &pool).unwrap();
        gridz_sparse::multiply_transposed(&matrix, Semiring::PlusTimes, n, &x, &mut transposed, Isa::best(), &pool)
            .unwrap();
        for j in [0, n / 2, n - 1] {
            let one = |all: &[f64]| all.iter().skip(j).step_by(n).copied().collect::<Vec<_>>();
            let mut want = vec![0.0; n_cols as usize];
            gridz_sparse::multiply(&matrix, Semiring::PlusTimes, &one(&x), &mut want, Isa::PORTABLE, &pool)
                .unwrap();
            assert_eq!(bits(&one(&y)), bits(&want), "vector {j} of {n}");
            gridz_sparse::multiply_transposed(
                &matrix,
                Semiring::PlusTimes,
                1,
                &one(&x),
                &mut want,
                Isa::PORTABLE,
                &pool,
            )
            .unwrap();
            assert_eq!(bits(&one(&transposed)), bits(&want), "vector {j} of {n}, transposed");
        }
    }
}

#[test]
fn damage_is_seen() {
    let mut n_damaged = 0;
    for frame in frames() {
        assert!(use_frame(&frame));
        for at in (0..frame.len()).step_by(frame.len() / 97 + 1) {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            assert!(!use_frame(&damaged), "byte {at} of {}", frame.len());
            assert!(!use_frame(&frame[..at]), "cut at {at}");
            n_damaged += 1;
        }
        assert!(!use_frame(&[&frame[..], &[0]].concat()));
    }
    assert!(n_damaged >= 6 * 90, "{n_damaged} damaged frames");
}

/// A header's claims are compared with the frame's length before memory is allocated.
#[test]
fn headers_that_claim_too_much_are_refused() {
    let own = Own::of(3, vec![vec![0, 2]; 100], |_| 1f32);
    let good = own.compress(ValueChoice::Plain).frame().to_vec();
    let mut refused = 0;
    // The fields for rows, elements, and the entries of all tables.
    for field in [8, 24, 32, 40, 48, 56, 64, 72, 80, 88] {
        for claim in [1u64 << 40, 1 << 61, u64::MAX] {
            let mut frame = good.clone();
            frame[field..field + 8].copy_from_slice(&claim.to_le_bytes());
            seal(&mut frame);
            let error = Matrix::from_frame(&frame, &Pool::new(1)).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Truncated), "{field}: {error}");
            refused += 1;
        }
    }
    assert_eq!(refused, 30);
    // Empty columns cost nothing.
    let mut frame = good;
    frame[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    seal(&mut frame);
    assert_eq!(Matrix::from_frame(&frame, &Pool::new(1)).unwrap().head().n_cols, u64::MAX);
}

/// For lanes without an element, the code reads element 0 of the vector; so the vector must have
/// one.
#[test]
fn steps_without_elements_are_refused() {
    let own = Own::of(3, vec![vec![0, 2]], |_| 1f32);
    let mut frame = own.compress(ValueChoice::Plain).frame().to_vec();
    let step = HEADER_BYTES + 64;
    assert_eq!(frame[step + 4..step + 8], 1u32.to_le_bytes(), "the mask of the first step");
    frame[step + 4] = 0;
    frame[24] -= 1; // elements
    seal(&mut frame);
    assert!(!use_frame(&frame));
}

/// A long row has its elements in separate slices, and none in its lane of a regular slice.
#[test]
fn long_rows_with_elements_elsewhere_are_refused() {
    let rows = (0..300).map(|r| if r == 10 { (0..302).collect() } else { vec![r, r + 1, r + 2] }).collect();
    let own = Own::of(302, rows, |_| 1f32);
    let mut frame = own.compress(ValueChoice::Plain).frame().to_vec();
    let slice = &frame[HEADER_BYTES..HEADER_BYTES + 32];
    let steps_at = u32::from_le_bytes(slice[20..24].try_into().unwrap()) as usize;
    assert_eq!(slice[24..28], u32::MAX.to_le_bytes(), "rows in order");
    let n_slices = [32, 40].map(|at| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap()) as usize);
    let step = (HEADER_BYTES + 32 * n_slices.iter().sum::<usize>()).next_multiple_of(64) + 8 * steps_at;
    assert_eq!(frame[step + 5] >> 2 & 1, 0, "lane 10 has no element");
    frame[step + 5] |= 1 << 2;
    frame[24] += 1; // elements
    seal(&mut frame);
    let error = Matrix::from_frame(&frame, &Pool::new(1)).unwrap_err().to_string();
    assert!(error.contains("long row 10"), "{error}");
}

/// A step of blocks may apply to only some rows of a node; this writer never produces that.
#[test]
fn rows_of_a_node_may_differ() {
    let own = Own::of(6, vec![vec![3, 4, 5]; 3], |i| i as f32);
    let mut frame = own.compress(ValueChoice::Plain).frame().to_vec();
    let step = HEADER_BYTES + 64;
    assert_eq!((frame[7], frame[step + 4]), (3, 7), "a block of three rows");
    frame[step + 4] = 6;
    frame[24] = 6; // elements
    seal(&mut frame);
    assert!(use_frame(&frame));
}

/// Small matrices with every kind of table, whose frames are damaged and resealed: 100000 with
/// `GRIDZ_ALL_CASES=1`. All levels compute the same products of the accepted ones.
#[test]
fn resealed_matrices() {
    let mut samples = Vec::new();
    for (b, far, kinds) in [(1, false, 0..6), (3, false, 0..6), (1, true, 0..2)] {
        let (n, mut rows) = if far { stencil(4, 1, true) } else { mesh(120, b, 30) };
        for kind in kinds {
            // A matrix with a long row.
            if kind == 5 {
                rows[10] = (0..n as i64).cycle().take(600).collect();
            }
            let own = Own::of(n, rows.clone(), |i| value(kind, i) as f32);
            samples.push(own.compress(ValueChoice::Best).frame().to_vec());
        }
    }
    let wanted = if one_in() == 1 { 100_000 } else { 2_000 };
    let (mut n_cases, mut n_reached, mut n_accepted, mut answers) = (0, 0, 0, Answers::default());
    while n_reached < wanted {
        let mut random = Xorshift::new(n_cases);
        n_cases += 1;
        let mut frame = samples[random.below(samples.len() as u64) as usize].clone();
        for _ in 0..1 + random.below(3) {
            // Half of the damage is in the tables, which follow the header.
            let range = match random.below(8) {
                0 => 4..HEADER_BYTES - 24,
                1..5 => HEADER_BYTES..frame.len().min(HEADER_BYTES + 600),
                _ => HEADER_BYTES..frame.len(),
            };
            let at = range.start + random.below(range.len() as u64) as usize;
            match random.below(4) {
                0 => frame[at] ^= 1 << random.below(8),
                1 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
                2 => frame[at] = frame[at].wrapping_add(random.below(3) as u8).wrapping_sub(1),
                _ => {
                    let from = HEADER_BYTES + random.below((frame.len() - HEADER_BYTES) as u64) as usize;
                    let n = (1 + random.below(32) as usize).min(frame.len() - at.max(from));
                    frame.copy_within(from..from + n, at);
                }
            }
        }
        if random.below(16) == 0 {
            frame.truncate(HEADER_BYTES + random.below((frame.len() - HEADER_BYTES) as u64) as usize);
        }
        seal(&mut frame);
        let refused = Matrix::from_frame(&frame, &Pool::new(1)).err();
        answers.add(refused.as_ref().map_or("accepted", |error| error.context()));
        // The checksums are valid, so this error is about the tables.
        if refused.as_ref().is_none_or(|error| error.context().contains("sparse matrix is damaged")) {
            n_reached += 1;
        }
        assert_eq!(use_frame(&frame), refused.is_none(), "seed {}", n_cases - 1);
        n_accepted += u64::from(refused.is_none());
    }
    println!("seeds 0 to {n_cases}: {n_reached} reached the checks of tables, {n_accepted} accepted");
    answers.0.iter().for_each(|(answer, n)| println!("  {n:6} {answer}"));
    assert!(4 * n_reached > n_cases && 20 * n_accepted > n_reached && n_accepted < n_reached);
}

/// Rows of any lengths and columns.
#[test]
fn any_matrix() {
    let tally = Tally::default();
    proptest!(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }, |(
        n_cols in 1..400i64,
        lengths in prop::collection::vec(prop_oneof![8 => 0..9usize, 2 => 0..70usize, 1 => 0..700usize], 0..200),
        spread in 1..400i64,
        sorted in any::<bool>(),
        kind in 0..6usize,
        seed in any::<u64>(),
    )| {
        tally.add("cases");
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as i64
        };
        let rows: Vec<Vec<i64>> = lengths.iter().enumerate().map(|(r, &n)| {
            let mut row: Vec<i64> = (0..n).map(|_| (r as i64 + random() % spread) % n_cols).collect();
            if sorted {
                row.sort_unstable();
            }
            row
        }).collect();
        let matrix = check_both(n_cols as u64, &rows, kind, ValueChoice::Best);
        tally.add_if("elements", matrix.head().nnz > 0);
        tally.add_if("long rows", matrix.head().n_long > 0);
    });
    tally.assert("elements", 50);
    tally.assert("long rows", 2);
}

/// Frames with valid checksums but invalid tables: the result is an error or a matrix, never a
/// panic or an invalid read.
#[test]
fn hostile_tables_do_no_harm() {
    let tally = Tally::default();
    proptest!(ProptestConfig { cases: 1200, failure_persistence: None, ..ProptestConfig::default() }, |(
        which in 0..6usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u32>()), 1..4),
        in_header in any::<bool>(),
    )| {
        tally.add("cases");
        static FRAMES: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
        let mut frame = FRAMES.get_or_init(frames)[which].clone();
        for (at, how, word) in changes {
            // In the tables, which precede values and codes, or in the header, which is short.
            let range = if in_header { 4..104 } else { HEADER_BYTES..frame.len() };
            let at = range.start + at.index((range.len() - 4).clamp(1, 8192));
            let old = u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
            let new = match how {
                0 => old.wrapping_add(1),
                1 => old.wrapping_sub(1),
                2 => old ^ 1 << (word % 32),
                _ => word,
            };
            frame[at..at + 4].copy_from_slice(&new.to_le_bytes());
        }
        seal(&mut frame);
        let is_accepted = use_frame(&frame);
        tally.add_if("accepted", is_accepted);
        // The checksums are valid, so this error is about the tables.
        let refused = Matrix::from_frame(&frame, &Pool::new(1)).err();
        let is_of_tables = refused.is_some_and(|error| error.context().contains("sparse matrix is damaged"));
        tally.add_if("refused by the tables", is_of_tables);
    });
    tally.assert("accepted", 5);
    tally.assert("refused by the tables", 30);
}
