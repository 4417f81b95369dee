//! Sparse matrices on a GPU: the same bits as on the CPU, for every kind of slice and of values.

use std::time::Instant;

use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_cuda::Device;
use gridz_sparse::element::{Element, Semiring};
use gridz_sparse::frame::seal;
use gridz_sparse::{Csr, Matrix, ValueChoice};

use crate::arrays::Random;
use crate::{has_gpu, n_cases};

struct Own {
    n_cols: u64,
    starts: Vec<i64>,
    columns: Vec<i64>,
}

impl Own {
    fn of(n_cols: i64, rows: impl Iterator<Item = Vec<i64>>) -> Self {
        let (mut starts, mut columns) = (vec![0], Vec::new());
        for row in rows {
            columns.extend(row);
            starts.push(columns.len() as i64);
        }
        Self { n_cols: n_cols as u64, starts, columns }
    }
}

/// A deterministic pseudo-random number below `below`.
fn random(state: &mut u64, below: i64) -> i64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    ((*state >> 33) as i64) % below
}

/// Matrices with slices of every kind, and their names.
fn matrices(n: i64) -> Vec<(String, Own)> {
    let mut all = Vec::new();
    let mut state = 3;
    for b in [1, 2, 3, 4, 5, 6, 8] {
        let band = (0..n / b).map(|node| (-40..=40).step_by(20).map(move |d| node + d).collect::<Vec<_>>());
        let bands: Vec<Vec<i64>> =
            band.map(|row| row.into_iter().filter(|at| (0..n / b).contains(at)).collect()).collect();
        let mesh: Vec<Vec<i64>> = (0..n / b)
            .map(|node| {
                let n_here = 1 + random(&mut state, 9);
                let mut row: Vec<i64> =
                    (0..n_here).map(|_| (node + random(&mut state, 700) - 350).clamp(0, n / b - 1)).collect();
                row.sort_unstable();
                row.dedup();
                row
            })
            .collect();
        for (name, nodes) in [("band", bands), ("mesh", mesh)] {
            let rows = nodes.iter().flat_map(|row| {
                let wide: Vec<i64> = row.iter().flat_map(|node| (0..b).map(move |j| node * b + j)).collect();
                (0..b).map(move |_| wide.clone())
            });
            all.push((format!("{name} with blocks of {b}"), Own::of(n / b * b, rows)));
        }
    }
    // Rows of all lengths, with arbitrary columns: long rows, codes of 4 bytes, empty rows.
    let wide = 300_000;
    let any: Vec<Vec<i64>> = (0..n)
        .map(|r| {
            let n_here = if r % 997 == 5 { 9000 } else { random(&mut state, 12) };
            (0..n_here).map(|_| random(&mut state, wide)).collect()
        })
        .collect();
    all.push(("any".into(), Own::of(wide, any.into_iter())));
    // Rows that are long enough for the other kernel, in two bands far from each other, so that
    // some codes stay short.
    let bands: Vec<Vec<i64>> = (0..n)
        .map(|r| {
            let n_near = random(&mut state, 24);
            let n_here = n_near + random(&mut state, 24);
            let start = |far: i64| (r * 20 + far * 200_000).min(wide - 2000);
            (0..n_here).map(|i| start(i64::from(i >= n_near)) + random(&mut state, 2000)).collect()
        })
        .collect();
    all.push(("two bands".into(), Own::of(wide, bands.into_iter())));
    all.push(("one".into(), Own::of(1, std::iter::once(vec![0]))));
    all.push(("empty".into(), Own::of(7, (0..70).map(|_| vec![]))));
    all.push(("nothing".into(), Own::of(0, std::iter::empty())));
    all
}

fn check<T: Element + std::fmt::Debug>(name: &str, own: &Own, values: &[T], choice: ValueChoice) {
    let csr = Csr {
        n_rows: own.starts.len() as u64 - 1,
        n_cols: own.n_cols,
        starts: &own.starts,
        columns: &own.columns,
        values,
    };
    let matrix = gridz_sparse::compress(&csr, choice, &Pool::new(2)).unwrap();
    check_product::<T>(name, &matrix);
}

/// Asserts that the GPU's product equals the CPU's bit for bit.
fn check_product<T: Element + std::fmt::Debug>(name: &str, matrix: &Matrix) {
    let (head, pool) = (matrix.head(), Pool::new(2));
    let bytes = |vector: &[T]| {
        let mut bytes = vec![0; size_of_val(vector)];
        bytes.chunks_exact_mut(T::BYTES).zip(vector).for_each(|(to, one)| one.write(to));
        bytes
    };
    let x: Vec<T> = (0..head.n_cols).map(|i| if i % 3 == 0 { T::ONE } else { T::ONE.plus(T::ONE) }).collect();
    let mut want = vec![T::default(); head.n_rows as usize];
    gridz_sparse::multiply(matrix, Semiring::PlusTimes, &x, &mut want, Isa::best(), &pool).unwrap();

    let device = Device::choose(gridz_codecs::settings::checked().unwrap()).unwrap();
    let stream = device.stream().unwrap();
    let (from, to) =
        (stream.alloc(size_of_val(&x[..]) as u64).unwrap(), stream.alloc(size_of_val(&want[..]) as u64).unwrap());
    stream.copy_in(from.all(), &bytes(&x)).unwrap();
    stream.copy_in(to.all(), &vec![0xee; size_of_val(&want[..])]).unwrap();
    for _ in 0..2 {
        // SAFETY: both live until the copy below has synchronized the stream.
        unsafe { gridz_sparse::multiply_on_gpu(matrix, from.all(), to.all(), Some(stream.handle())).unwrap() };
    }
    let mut found = vec![0; size_of_val(&want[..])];
    stream.copy_out(to.all(), &mut found).unwrap();
    assert!(found == bytes(&want), "{name}, values {:?}", head.codec);
    if head.n_rows > 0 {
        // SAFETY: as above.
        let short = unsafe { gridz_sparse::multiply_on_gpu(matrix, from.all(), from.all(), None) };
        assert!(head.n_rows == head.n_cols || short.is_err());
    }
}

#[test]
fn products_have_the_bits_of_the_cpu() {
    if !has_gpu("sparse::products_have_the_bits_of_the_cpu") {
        return;
    }
    let start = Instant::now();
    for (name, own) in matrices(8000) {
        let n = own.columns.len();
        let any = |i: usize| 0.1 + ((i * i) % 99991) as f64 / 7.3;
        let few = |i: usize| (i * i % 13) as f64;
        let more = |i: usize| (i * i % 1009) as f64;
        let near = |i: usize| 1.0 + (i % 4093) as f64 * 2f64.powi(-20);
        for (choice, value) in [
            (ValueChoice::Plain, &any as &dyn Fn(usize) -> f64),
            (ValueChoice::Best, &few),
            (ValueChoice::Dictionary, &more),
            (ValueChoice::Blocks, &near),
        ] {
            let values: Vec<f64> = (0..n).map(value).collect();
            check(&name, &own, &values, choice);
            let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
            check(&name, &own, &values, choice);
        }
        check::<f64>(&name, &own, &[], ValueChoice::Best);
        check::<f32>(&name, &own, &[], ValueChoice::Constant);
    }
    println!("sparse matrices: {:?}", start.elapsed());
}

/// Matrices with damaged tables under a valid checksum: if [`Matrix::from_frame`] accepts one, its
/// product is the same on both sides.
#[test]
fn damaged_matrices() {
    if !has_gpu("sparse::damaged_matrices") {
        return;
    }
    let (mut random, pool) = (Random::new(31), Pool::new(1));
    let (mut n_read, mut n_refused) = (0, 0);
    for (name, own) in matrices(300) {
        let values: Vec<f64> = (0..own.columns.len()).map(|i| (i * i % 13) as f64).collect();
        let csr = Csr {
            n_rows: own.starts.len() as u64 - 1,
            n_cols: own.n_cols,
            starts: &own.starts,
            columns: &own.columns,
            values: &values,
        };
        for choice in [ValueChoice::Plain, ValueChoice::Dictionary, ValueChoice::Blocks] {
            let matrix = gridz_sparse::compress(&csr, choice, &pool).unwrap();
            let good = &matrix.frame()[..matrix.frame_bytes()];
            // The head stays unchanged, because it determines the lengths of the vectors.
            let start = gridz_sparse::frame::HEADER_BYTES;
            for _ in 0..n_cases(40) {
                let mut bad = good.to_vec();
                if good.len() == start {
                    continue;
                }
                for _ in 0..random.pick(&[1, 1, 2, 4]) {
                    let most = random.pick(&[64, 400, good.len()]).min(good.len() - start);
                    let at = start + random.below(most);
                    bad[at] = if random.once_in(2) { bad[at] ^ 1 << random.below(8) } else { random.word() as u8 };
                }
                seal(&mut bad);
                match Matrix::from_frame(&bad, &pool) {
                    Ok(matrix) => {
                        check_product::<f64>(&format!("{name}, damaged"), &matrix);
                        n_read += 1;
                    }
                    Err(_) => n_refused += 1,
                }
            }
        }
    }
    println!("{n_refused} refused, {n_read} multiplied, as by the CPU");
    assert!(n_read > 0 && n_refused > 0, "{n_refused} refused, {n_read} multiplied");
}
