//! Any bytes as the frame of a sparse matrix, with fixed checksums: the result is an error, or a
//! usable matrix.
#![no_main]

mod reach;

use std::sync::LazyLock;

use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_sparse::Matrix;
use gridz_sparse::element::{Element, Semiring};
use gridz_sparse::frame::{HEADER_BYTES, seal};
use libfuzzer_sys::fuzz_target;
use reach::REACH;

static SERIAL: LazyLock<Pool> = LazyLock::new(|| Pool::new(1));

fn use_all<T: Element>(matrix: &Matrix) {
    let head = *matrix.head();
    let (x, mut y) = (vec![T::ONE; head.n_cols as usize], vec![T::ONE; head.n_rows as usize]);
    let mut z = x.clone();
    for level in Isa::all() {
        gridz_sparse::multiply(matrix, Semiring::PlusTimes, &x, &mut y, level, &SERIAL).unwrap();
        gridz_sparse::multiply_transposed(matrix, Semiring::MinPlus, 1, &y, &mut z, level, &SERIAL).unwrap();
    }
    let (x, mut y) = (vec![T::ONE; x.len() * 3], vec![T::ONE; y.len() * 3]);
    gridz_sparse::multiply_wide(matrix, Semiring::PlusTimes, 3, &x, &mut y, Isa::best(), &SERIAL).unwrap();
    let rows = gridz_sparse::decode::<i64, T>(matrix, 0..head.n_rows, &SERIAL).unwrap();
    assert_eq!(rows.columns.len() as u64, gridz_sparse::count(matrix, 0..head.n_rows).unwrap());
}

fuzz_target!(|bytes: &[u8]| {
    let mut frame = bytes.to_vec();
    if frame.len() >= HEADER_BYTES {
        frame[..5].copy_from_slice(b"GRDM\x01");
        seal(&mut frame);
    }
    let matrix = match Matrix::from_frame(&frame, &SERIAL) {
        Ok(matrix) => matrix,
        Err(error) => {
            // The checksums are valid, so this error is about the tables.
            if error.context().starts_with("a sparse matrix is damaged") {
                REACH.reached();
            }
            return;
        }
    };
    REACH.reached();
    REACH.accepted();
    // Empty columns cost nothing in a frame.
    if matrix.head().n_cols > 1 << 20 {
        return;
    }
    match matrix.head().dtype {
        gridz::DType::F32 => use_all::<f32>(&matrix),
        _ => use_all::<f64>(&matrix),
    }
});
