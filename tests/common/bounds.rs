//! Checks error bounds in exact arithmetic, without code of the library.

use gridz::DType;

/// The quantity that a bound limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// The absolute error.
    Absolute(f64),
    /// The error relative to the element.
    Relative(f64),
}

/// A number of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Whole(i128),
    Float(f64),
}

/// The type of the parts of elements.
fn part(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    }
}

/// Number of bytes of a part.
pub fn part_bytes(dtype: DType) -> usize {
    part(dtype).size().unwrap() as usize
}

/// The number with these little-endian bytes.
pub fn number(dtype: DType, bytes: &[u8]) -> Number {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let (bits, unused) = (u64::from_le_bytes(all), 64 - 8 * bytes.len());
    let float = |fraction_bits: u32, exponent_bits: u32| {
        let (fraction, exponent) =
            (bits & ((1 << fraction_bits) - 1), bits >> fraction_bits & ((1 << exponent_bits) - 1));
        let bias = (1 << (exponent_bits - 1)) - 1;
        let size = match exponent {
            e if e == (1 << exponent_bits) - 1 => {
                if fraction == 0 {
                    f64::INFINITY
                } else {
                    f64::NAN
                }
            }
            0 => fraction as f64 * 2f64.powi(1 - bias - fraction_bits as i32),
            e => (fraction | 1 << fraction_bits) as f64 * 2f64.powi(e as i32 - bias - fraction_bits as i32),
        };
        Number::Float(if bits >> (fraction_bits + exponent_bits) & 1 == 1 { -size } else { size })
    };
    match part(dtype) {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Number::Whole(bits.into()),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            Number::Whole(((bits << unused) as i64 >> unused).into())
        }
        DType::F16 => float(10, 5),
        DType::Bf16 => float(7, 8),
        DType::F32 => Number::Float(f32::from_bits(bits as u32).into()),
        _ => Number::Float(f64::from_bits(bits)),
    }
}

/// A difference as two numbers: the rounded difference, and the rounding error.
fn difference(a: f64, b: f64) -> (f64, f64) {
    let high = a - b;
    let b_part = a - high;
    let a_part = high + b_part;
    (high, (a - a_part) + (b_part - b))
}

/// True if a number is within the bound of its original.
pub fn is_kept(was: Number, is: Number, bound: Bound) -> bool {
    match (was, is, bound) {
        (Number::Whole(was), Number::Whole(is), Bound::Absolute(bound)) => {
            // An integer is at most a bound if it is at most the bound's integer part.
            bound >= 2f64.powi(70) || was.abs_diff(is) <= bound as u128
        }
        (Number::Float(was), Number::Float(is), Bound::Absolute(bound)) => {
            let (high, low) = difference(was, is);
            let (high, low) = if high < 0.0 { (-high, -low) } else { (high, low) };
            high < bound || high == bound && low <= 0.0
        }
        (Number::Float(was), Number::Float(is), Bound::Relative(bound)) => {
            // Scaling by a power of two is exact; without it, products of small numbers would be
            // rounded.
            let scale = if was.abs() < 1e-200 { 2f64.powi(300) } else { 1.0 };
            let (was, is) = (was * scale, is * scale);
            let (high, low) = difference(was, is);
            let (high, low) = if high < 0.0 { (-high, -low) } else { (high, low) };
            let limit = bound * was.abs();
            let rest = bound.mul_add(was.abs(), -limit);
            high < limit && high <= limit - (limit * f64::EPSILON) || (high - limit) + (low - rest) <= 0.0
        }
        _ => panic!("no bound of {was:?} and {is:?}"),
    }
}

/// Panics if an array breaks the guarantee: finite elements must be within the bound, all others
/// equal bit for bit, and the fill value (given as bytes) must be exactly where it was.
#[track_caller]
pub fn assert_kept(dtype: DType, was: &[u8], is: &[u8], bound: Bound, fill: Option<&[u8]>) {
    assert_eq!(was.len(), is.len());
    let n = part_bytes(dtype);
    for (i, (a, b)) in was.chunks_exact(n).zip(is.chunks_exact(n)).enumerate() {
        let (x, y) = (number(dtype, a), number(dtype, b));
        let is_exact = matches!(x, Number::Float(x) if !x.is_finite());
        assert!(
            if is_exact { a == b } else { is_kept(x, y, bound) },
            "{dtype:?} number {i}: {x:?} became {y:?}, {bound:?}"
        );
    }
    if let Some(fill) = fill {
        for (i, (a, b)) in was.chunks_exact(fill.len()).zip(is.chunks_exact(fill.len())).enumerate() {
            assert_eq!(
                a == fill,
                b == fill,
                "{dtype:?} element {i}: {a:x?} became {b:x?}, the fill value is {fill:x?}"
            );
        }
    }
}
