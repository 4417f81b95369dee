//! The range of an array alone, from which a relative bound is derived before anything is
//! compressed.

use std::ops::Range;

use crate::exact::Exact;
use crate::number::{AnyNumber, Kind, Number, Task, with_numbers_of};
use crate::pair::is_missing;
use crate::{PIECE, check, pieces};
use gridz::{Context, MissingElements};
use gridz_codecs::cpu::float::Ieee;
use gridz_codecs::error::Result;
use gridz_codecs::types::{Array, ByteOrder, DType};

/// The smallest and the largest number of an array; each part of a complex element counts. Missing
/// elements and numbers that are not finite do not count. A number that f64 cannot represent is
/// rounded towards the inside of the range. `[∞, −∞]` if no number counts.
///
/// # Errors
/// `InvalidArgument` for a buffer whose length is not the array's, `UnsupportedJob` for elements
/// that are no numbers, `OutOfMemory`.
pub fn range(array: &Array, bytes: &[u8], missing: &MissingElements, context: &Context) -> Result<[f64; 2]> {
    check(array, &[("data", bytes)], missing)?;
    let parts = if matches!(array.dtype(), DType::C64 | DType::C128) { 2 } else { 1 };
    let n_elements = array.shape().n_elements() as usize;
    let look = with_numbers_of(array.dtype(), LookFunction)?;
    Look { bytes, order: array.order(), parts, missing }.all(look, n_elements, context)
}

/// `value` times the range, both rounded down, so that an error within the bound is at most `value`
/// times the true range. 0, which is not a valid bound, if the range is empty or zero, or if one of
/// the three numbers is not finite.
pub fn relative_bound([minimum, maximum]: [f64; 2], value: f64) -> f64 {
    let is_range = minimum < maximum && value > 0.0 && [minimum, maximum, value].iter().all(|n| n.is_finite());
    if is_range { Exact::difference(maximum, minimum).times_down(value) } else { 0.0 }
}

struct Look<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    parts: usize,
    missing: &'a MissingElements,
}

/// [`Look::look`] for numbers of a type.
struct LookFunction;

impl Task for LookFunction {
    type Output = fn(&Look, Range<usize>) -> Option<[AnyNumber; 2]>;

    fn run<N: Number>(self) -> Result<Self::Output> {
        Ok(|look, elements| look.look::<N>(elements).map(|extremes| extremes.map(N::exactly)))
    }
}

impl Look<'_> {
    /// The range of all elements.
    fn all(
        &self,
        look: fn(&Look, Range<usize>) -> Option<[AnyNumber; 2]>,
        n_elements: usize,
        context: &Context,
    ) -> Result<[f64; 2]> {
        let work = |elements: Range<usize>| {
            let _ieee = Ieee::begin();
            look(self, elements)
        };
        let found = context.pool().map(pieces(n_elements, PIECE[0])?, work);
        let extremes = found.into_iter().flatten().reduce(AnyNumber::extremes);
        Ok(extremes.map_or([f64::INFINITY, f64::NEG_INFINITY], |[least, most]| {
            [least.up_and_down()[0], most.up_and_down()[1]]
        }))
    }

    fn look<N: Number>(&self, elements: Range<usize>) -> Option<[N; 2]> {
        let size = N::BYTES * self.parts;
        let bytes = &self.bytes[elements.start * size..elements.end * size];
        let mut extremes: Option<[N; 2]> = None;
        for i in 0..elements.len() {
            let element = &bytes[i * size..(i + 1) * size];
            if !self.missing.is_none() && is_missing::<N>(self.missing, element, self.order) {
                continue;
            }
            for part in 0..self.parts {
                let number = N::at(bytes, i * self.parts + part, self.order);
                if number.kind() != Kind::Finite {
                    continue;
                }
                let [least, most] = extremes.get_or_insert([number; 2]);
                if number.is_below(*least) {
                    *least = number;
                }
                if most.is_below(number) {
                    *most = number;
                }
            }
        }
        extremes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridz_codecs::types::Shape;

    fn found(dtype: DType, order: ByteOrder, bytes: &[u8], fill: Option<&[u8]>) -> [f64; 2] {
        let mut missing = MissingElements::none(dtype.size().unwrap().into());
        fill.into_iter().for_each(|fill| missing.add(fill).unwrap());
        within(dtype, order, bytes, &missing)
    }

    fn within(dtype: DType, order: ByteOrder, bytes: &[u8], missing: &MissingElements) -> [f64; 2] {
        let n = bytes.len() as u64 / u64::from(dtype.size().unwrap());
        let array = Array::new(dtype, order, Shape::new(&[n]).unwrap()).unwrap();
        let ranges = [1, 3]
            .map(|threads| range(&array, bytes, missing, &Context::new(Some(threads), None).unwrap()).unwrap());
        assert_eq!(ranges[0], ranges[1]);
        ranges[0]
    }

    #[test]
    fn only_numbers_count() {
        let floats = [f32::NAN, 3.0, -999.0, f32::INFINITY, 1.0, -2.5];
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let of =
                |float: f32| if order == ByteOrder::Little { float.to_le_bytes() } else { float.to_be_bytes() };
            let bytes: Vec<u8> = floats.iter().flat_map(|&float| of(float)).collect();
            assert_eq!(found(DType::F32, order, &bytes, None), [-999.0, 3.0]);
            assert_eq!(found(DType::F32, order, &bytes, Some(&of(-999.0))), [-2.5, 3.0]);
            assert_eq!(found(DType::C64, order, &bytes, None), [-999.0, 3.0]);
            let mut missing = MissingElements::none(4);
            missing.set_limit(0, &of(-500.0)).unwrap();
            assert_eq!(within(DType::F32, order, &bytes, &missing), [-2.5, 3.0]);
            missing.set_limit(1, &of(3.0)).unwrap();
            missing.add(&of(-2.5)).unwrap();
            assert_eq!(within(DType::F32, order, &bytes, &missing), [1.0, 3.0]);
        }
        assert_eq!(
            found(DType::F32, ByteOrder::Little, &f32::NAN.to_le_bytes(), None),
            [f64::INFINITY, f64::NEG_INFINITY]
        );
        assert_eq!(found(DType::I8, ByteOrder::Little, &[0x80, 5, 0x7f], None), [-128.0, 127.0]);
        let large = [(1u64 << 53) + 1, (1 << 63) + 1];
        let bytes: Vec<u8> = large.iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(found(DType::U64, ByteOrder::Little, &bytes, None), [2f64.powi(53) + 2.0, 2f64.powi(63)]);
        let many: Vec<u8> =
            (0..3_000_000u32).flat_map(|i| (i.wrapping_mul(7919) % 3_000_017).to_le_bytes()).collect();
        let expected = (0..3_000_000u32).map(|i| i.wrapping_mul(7919) % 3_000_017);
        let (least, most) = (expected.clone().min().unwrap(), expected.max().unwrap());
        assert_eq!(found(DType::U32, ByteOrder::Little, &many, None), [f64::from(least), f64::from(most)]);
    }

    #[test]
    fn bounds_are_rounded_down() {
        assert_eq!(relative_bound([1.0, 3.0], 0.25), 0.5);
        assert_eq!(relative_bound([1.0, 1.0], 0.25), 0.0);
        assert_eq!(relative_bound([f64::INFINITY, f64::NEG_INFINITY], 0.25), 0.0);
        for (least, most, value) in [
            (0.0, 1.0, f64::NAN),
            (0.0, 1.0, f64::INFINITY),
            (0.0, 1.0, -1.0),
            (0.0, f64::NAN, 0.1),
            (f64::NEG_INFINITY, 1.0, 0.1),
        ] {
            assert_eq!(relative_bound([least, most], value), 0.0);
        }
        // 0.1 is a little more than a tenth.
        assert!(relative_bound([0.0, 3.0], 0.1) <= 0.1 * 3.0);
        // The range exceeds the largest f64, which is used instead.
        assert_eq!(relative_bound([-f64::MAX, f64::MAX], 0.25), f64::MAX / 4.0);
    }
}
