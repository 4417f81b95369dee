//! The large functions of this crate for each type of elements and indices.
//!
//! A generic function is compiled in each crate that calls it. Those here have hundreds of kilobytes
//! of vector code, so callers reach them through tables, and they are compiled once.
#![allow(clippy::type_complexity, reason = "these are the signatures of the functions")]

use std::ops::Range;

use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::Result;

use crate::bytes::Bytes;
use crate::csr::Source;
use crate::element::Semiring;
use crate::frame::Head;
use crate::matrix::Matrix;
use crate::rows::{self, Room};
use crate::values::ValueChoice;
use crate::{build, product, turned, wide};

/// For elements of type `T`.
#[derive(Debug)]
pub struct Functions<T: 'static> {
    /// [`crate::multiply`].
    pub multiply: fn(&Matrix, Semiring, &[T], &mut [T], Isa, &Pool) -> Result<()>,
    /// [`crate::multiply_wide`].
    pub multiply_wide: fn(&Matrix, Semiring, usize, &[T], &mut [T], Isa, &Pool) -> Result<()>,
    /// [`crate::multiply_transposed`].
    pub multiply_transposed: fn(&Matrix, Semiring, usize, &[T], &mut [T], Isa, &Pool) -> Result<()>,
    /// With 32-bit indices.
    pub of_i32: Indexed<i32, T>,
    /// With 64-bit indices.
    pub of_i64: Indexed<i64, T>,
}

/// For indices of type `I` and elements of type `T`.
#[derive(Debug)]
pub struct Indexed<I: 'static, T: 'static> {
    /// [`build::build`].
    pub build: fn(&Source<I, T>, ValueChoice, &Pool) -> Result<(Head, Bytes)>,
    /// [`crate::decode_to`].
    pub decode_to: fn(&Matrix, Range<u64>, Room<I, T>, &Pool) -> Result<()>,
}

macro_rules! table {
    () => {
        Functions {
            multiply: product::multiply,
            multiply_wide: wide::multiply_wide,
            multiply_transposed: turned::multiply_transposed,
            of_i32: Indexed { build: build::build, decode_to: rows::decode_to },
            of_i64: Indexed { build: build::build, decode_to: rows::decode_to },
        }
    };
}

/// The functions for elements of type f32.
pub static OF_F32: Functions<f32> = table!();
/// The functions for elements of type f64.
pub static OF_F64: Functions<f64> = table!();
