//! Fill values: the element that an array stores where it has no data, such as the -999 of a land
//! mask.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::types::DType;

/// Maximum size in bytes of an element that can be a fill value.
pub const MAX_FILL_BYTES: usize = 16;

/// A fill value. Request text has no element type, so the value may be a number that is converted
/// to an element once the array is known.
#[derive(Debug, Clone, Copy)]
pub enum Fill {
    /// An integer.
    Whole(i128),
    /// A number that is not an integer, or is beyond the range of `Whole`. Its element is the
    /// nearest value of the type.
    Number(f64),
    /// The bits of an element of `n_bytes` bytes.
    Bits {
        /// Its bytes, 1 to 16.
        n_bytes: u8,
        /// The element as one little-endian integer.
        bits: u128,
    },
}

impl Fill {
    /// Converts the little-endian bytes of an element of this type. The result is a number if a
    /// number converts to the same element.
    ///
    /// # Errors
    /// `InvalidArgument` if the number of bytes is wrong for the type, or too large for any number.
    pub fn of_bytes(dtype: DType, bytes: &[u8]) -> Result<Self> {
        let n_bytes = bytes.len();
        if !(1..=MAX_FILL_BYTES).contains(&n_bytes) || dtype.size().is_some_and(|size| size as usize != n_bytes) {
            return Err(Error::invalid(format!(
                "a fill value of type {} cannot have {n_bytes} bytes",
                dtype.name()
            )));
        }
        let mut all = [0; MAX_FILL_BYTES];
        all[..n_bytes].copy_from_slice(bytes);
        let bits = u128::from_le_bytes(all);
        let unused = 128 - 8 * n_bytes;
        let as_number = match dtype {
            DType::F32 => Self::number(f32::from_bits(bits as u32).into()),
            DType::F64 => Self::number(f64::from_bits(bits as u64)),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Self::Whole((bits << unused) as i128 >> unused),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Self::Whole(bits as i128),
            _ => Self::Bits { n_bytes: n_bytes as u8, bits },
        };
        let as_bits = Self::Bits { n_bytes: n_bytes as u8, bits };
        Ok(if as_number.bits(dtype, n_bytes as u64).is_ok_and(|same| same == bits) { as_number } else { as_bits })
    }

    /// Converts a number. All NaNs become the same, and -0 is not an integer.
    pub(super) fn number(number: f64) -> Self {
        let is_whole = number.fract() == 0.0 && is_within(number) && number.to_bits() != (-0f64).to_bits();
        match is_whole {
            true => Self::Whole(number as i128),
            false => Self::Number(if number.is_nan() { f64::from_bits(0x7ff8 << 48) } else { number }),
        }
    }

    /// Converts the value to an element of this type and size, as one little-endian integer. For
    /// complex types, a number is the real part.
    ///
    /// # Errors
    /// `InvalidArgument` if no element of the type has this value.
    pub fn bits(&self, dtype: DType, element_size: u64) -> Result<u128> {
        let wrong = |why: &str| {
            let text = format!("fill={self} is {why} {}; give a value of that type, or remove it", dtype.name());
            Err(Error::invalid(text))
        };
        let number = match *self {
            Self::Bits { n_bytes, bits } => {
                return if element_size == u64::from(n_bytes) {
                    Ok(bits)
                } else {
                    wrong("of another size than type")
                };
            }
            Self::Whole(number) => number as f64,
            Self::Number(number) => number,
        };
        // The number that is then rounded to a narrower float, and the integer, if the value is
        // one.
        let (to_narrow, whole) = match *self {
            Self::Whole(whole) => (rounded_to_odd(whole), Some(whole)),
            _ => (number, (number == 0.0).then_some(0)),
        };
        let integer = |least: i128, most: i128| whole.filter(|whole| (least..=most).contains(whole));
        let found = match dtype {
            DType::Opaque => None,
            DType::U8 => integer(0, u8::MAX.into()).map(|n| n as u128),
            DType::U16 => integer(0, u16::MAX.into()).map(|n| n as u128),
            DType::U32 => integer(0, u32::MAX.into()).map(|n| n as u128),
            DType::U64 => integer(0, u64::MAX.into()).map(|n| n as u128),
            DType::I8 => integer(i8::MIN.into(), i8::MAX.into()).map(|n| u128::from(n as u8)),
            DType::I16 => integer(i16::MIN.into(), i16::MAX.into()).map(|n| u128::from(n as u16)),
            DType::I32 => integer(i32::MIN.into(), i32::MAX.into()).map(|n| u128::from(n as u32)),
            DType::I64 => integer(i64::MIN.into(), i64::MAX.into()).map(|n| u128::from(n as u64)),
            DType::F16 => narrow(to_narrow, 5, 10),
            DType::Bf16 => narrow(to_narrow, 8, 7),
            DType::F32 | DType::C64 => narrow(to_narrow, 8, 23),
            DType::F64 | DType::C128 => Some(number.to_bits().into()),
        };
        found.map_or_else(|| wrong("not a value of type"), Ok)
    }
}

/// Converts an integer to a float64 by rounding to odd: an inexact result is odd, so that it lies
/// between the same narrower floats as the integer. Rounding it again, to a narrower float, gives
/// the same result as rounding the integer.
fn rounded_to_odd(whole: i128) -> f64 {
    let nearest = whole as f64;
    let bits = nearest.to_bits();
    match (nearest.abs() as u128).cmp(&whole.unsigned_abs()) {
        Ordering::Equal => nearest,
        Ordering::Less => f64::from_bits(bits | 1),
        Ordering::Greater => f64::from_bits((bits - 1) | 1),
    }
}

/// The bits of the nearest IEEE number with these field widths, ties to even. Returns `None` if
/// `value` is finite and exceeds the largest such number.
fn narrow(value: f64, exponent_bits: i32, mantissa_bits: i32) -> Option<u128> {
    let infinity = ((1u64 << exponent_bits) - 1) << mantissa_bits;
    let sign = u64::from(value.is_sign_negative()) << (exponent_bits + mantissa_bits);
    let magnitude = if value.is_nan() {
        infinity | 1 << (mantissa_bits - 1)
    } else if value.is_infinite() {
        infinity
    } else {
        let least_exponent = 2 - (1 << (exponent_bits - 1));
        let exponent = (value.abs().to_bits() >> 52) as i32 - 1023;
        let unit = exponent.max(least_exponent) - mantissa_bits;
        // The factor is a power of two that float64 represents, because `unit` is only a little
        // below the least exponent. So the product is exact.
        let n_units = (value.abs() * 2f64.powi(-unit)).round_ties_even() as u64;
        let below = (unit + mantissa_bits - least_exponent) as u64;
        Some(n_units + (below << mantissa_bits)).filter(|&bits| bits < infinity)?
    };
    Some((sign | magnitude).into())
}

impl FromStr for Fill {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse("fill", text)
    }
}

impl Fill {
    /// Parses the value of a parameter: a number, or `0x` and the bits of an element, two digits
    /// per byte, most significant first.
    ///
    /// # Errors
    /// `InvalidArgument` for other text.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        if let Some(digits) = text.strip_prefix("0x") {
            let n_bytes = digits.len() / 2;
            let is_element = digits.len() % 2 == 0
                && (1..=MAX_FILL_BYTES).contains(&n_bytes)
                && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            if is_element && let Ok(bits) = u128::from_str_radix(digits, 16) {
                return Ok(Self::Bits { n_bytes: n_bytes as u8, bits });
            }
        } else if let Ok(number) = text.parse::<i128>()
            && !(number == 0 && text.starts_with('-'))
        {
            return Ok(Self::Whole(number));
        } else if let Ok(number) = text.parse::<f64>()
            // Text with digits is infinite only if the number is too large.
            && (number.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit()))
        {
            return Ok(Self::number(number));
        }
        Err(Error::invalid(format!(
            "{name}={text} is not valid; give a number, such as {name}=-999, or the bits of an element, such as \
             {name}=0x7fc00001"
        )))
    }
}

impl fmt::Display for Fill {
    /// Text that parses to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Whole(number) => {
                let (plain, float) = (number.to_string(), number as f64);
                let scientific = format!("{float:e}");
                let is_exact = is_within(float) && float as i128 == number;
                f.write_str(if is_exact && scientific.len() < plain.len() { &scientific } else { &plain })
            }
            Self::Number(number) => f.write_str(&shortest(number)),
            Self::Bits { n_bytes, bits } => write!(f, "0x{bits:0width$x}", width = 2 * usize::from(n_bytes)),
        }
    }
}

impl PartialEq for Fill {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Whole(a), Self::Whole(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a.to_bits() == b.to_bits(),
            (Self::Bits { n_bytes, bits }, Self::Bits { n_bytes: n, bits: b }) => (n_bytes, bits) == (n, b),
            _ => false,
        }
    }
}

/// True if a number, if it is an integer, fits an `i128`.
fn is_within(number: f64) -> bool {
    number.abs() < 2f64.powi(127)
}

/// The shorter text of a number, plain or scientific. Both parse to the same bits.
pub fn shortest(value: f64) -> String {
    let (plain, scientific) = (value.to_string(), format!("{value:e}"));
    if plain.len() <= scientific.len() { plain } else { scientific }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn bits(text: &str, dtype: DType) -> Option<u128> {
        text.parse::<Fill>().unwrap().bits(dtype, dtype.size().unwrap_or(4).into()).ok()
    }

    #[test]
    fn numbers_become_elements_of_every_type() {
        for (text, dtype, expected) in [
            ("255", DType::U8, Some(255)),
            ("256", DType::U8, None),
            ("-1", DType::U8, None),
            ("-1", DType::I8, Some(0xff)),
            ("-128", DType::I8, Some(0x80)),
            ("-129", DType::I8, None),
            ("-9999", DType::I16, Some(0xd8f1)),
            ("-999.0", DType::I32, Some(0xffff_fc19)),
            ("1e20", DType::I64, None),
            ("1e200", DType::U64, None),
            ("nan", DType::U64, None),
            ("-9223372036854775807", DType::I64, Some(0x8000_0000_0000_0001)),
            ("18446744073709551614", DType::U64, Some(0xffff_ffff_ffff_fffe)),
            (".5", DType::I32, None),
            ("-999", DType::F32, Some((-999f32).to_bits().into())),
            ("1e20", DType::F32, Some(1e20f32.to_bits().into())),
            ("9.969209968386869e36", DType::F32, Some(0x7cf0_0000)),
            ("1e39", DType::F32, None),
            ("inf", DType::F32, Some(0x7f80_0000)),
            ("-0", DType::F32, Some(0x8000_0000)),
            ("0", DType::F32, Some(0)),
            ("nan", DType::F32, Some(0x7fc0_0000)),
            ("-999.9", DType::F64, Some((-999.9f64).to_bits().into())),
            ("-999", DType::F16, Some(0xe3ce)),
            ("65504", DType::F16, Some(0x7bff)),
            ("65520", DType::F16, None),
            ("6e-8", DType::F16, Some(1)),
            ("1e20", DType::Bf16, Some(0x60ad)),
            ("-999", DType::C64, Some((-999f32).to_bits().into())),
            ("-999", DType::C128, Some((-999f64).to_bits().into())),
            ("-999", DType::Opaque, None),
            ("0x7fc00001", DType::F32, Some(0x7fc0_0001)),
            ("0x7fc00001", DType::F64, None),
            ("0x7fc00001", DType::Opaque, Some(0x7fc0_0001)),
        ] {
            assert_eq!(bits(text, dtype), expected, "{text} {dtype:?}");
        }
        let error = "1e20".parse::<Fill>().unwrap().bits(DType::I64, 8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error.context().starts_with("fill=1e20 is not a value of type int64; give a value of that type"),
            "{error}"
        );
    }

    /// A whole number is rounded once. Rounding to float64 first would give the middle between two
    /// float32, which would then be rounded down.
    #[test]
    fn whole_numbers_are_rounded_once() {
        let text = "1152921573326323713"; // 2^60 + 2^36 + 1
        let nearest: f32 = text.parse().unwrap();
        assert_eq!(bits(text, DType::F32), Some(nearest.to_bits().into()));
    }

    /// A number that is too large for a float64 is not a fill value, just as 1e39 is not one of
    /// float32.
    #[test]
    fn a_number_beyond_all_is_not_infinity() {
        assert!("1e400".parse::<Fill>().is_err() && "-1e400".parse::<Fill>().is_err());
        assert!("-inf".parse::<Fill>().is_ok());
    }

    /// The text of an element is its value or its bits, never an integer that happens to round to
    /// it.
    #[test]
    fn bits_of_floats_are_no_whole_numbers() {
        for (dtype, bits, text) in [(DType::F16, 0x7777u16, "0x7777"), (DType::Bf16, 0x468d, "0x468d")] {
            // 30576 and 18048, not 30583 and 18061.
            assert_eq!(Fill::of_bytes(dtype, &bits.to_le_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn narrowing_is_what_the_cpu_does() {
        let mut random = 88_172_645_463_325_252_u64;
        for i in 0..200_000u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // All float64, and values near float32: between two of them, and at the ends of the
            // range.
            let value = match i % 3 {
                0 => f64::from_bits(random),
                1 => f64::from(f32::from_bits(random as u32)) * (1.0 + (random >> 60) as f64 * 2f64.powi(-27)),
                _ => f64::from(f32::from_bits(random as u32 & 0x807f_ffff)) * 0.5,
            };
            let expected = value as f32;
            let expected = (!expected.is_infinite() || value.is_infinite()).then_some(expected.to_bits());
            let found = narrow(value, 8, 23);
            if value.is_nan() {
                assert!(f32::from_bits(found.unwrap() as u32).is_nan());
            } else {
                assert_eq!(found, expected.map(u128::from), "{value:e}");
            }
        }
    }

    #[test]
    fn elements_come_back_as_text() {
        for (dtype, bytes, text) in [
            (DType::I16, &(-9999i16).to_le_bytes()[..], "-9999"),
            (DType::U64, &u64::MAX.to_le_bytes(), "18446744073709551615"),
            (DType::I64, &i64::MIN.to_le_bytes(), "-9223372036854775808"),
            (DType::F32, &1e20f32.to_le_bytes(), "100000002004087734272"),
            (DType::F64, &1e20f64.to_le_bytes(), "1e20"),
            (DType::F64, &1e300f64.to_le_bytes(), "1e300"),
            (DType::F32, &[0, 0, 0xf0, 0x7c], "9.969209968386869e36"),
            (DType::F64, &(-999.9f64).to_le_bytes(), "-999.9"),
            (DType::F32, &(-0f32).to_le_bytes(), "-0"),
            (DType::F32, &[0, 0, 0xc0, 0x7f], "NaN"),
            (DType::F32, &[1, 0, 0xc0, 0x7f], "0x7fc00001"),
            (DType::F64, &[0, 0, 0, 0, 0, 0, 0xf8, 0xff], "0xfff8000000000000"),
            (DType::F16, &[0xce, 0xe3], "0xe3ce"),
            (DType::C64, &[0, 0, 0, 0, 1, 0, 0, 0], "0x0000000100000000"),
            (DType::C128, &[7; 16], "0x07070707070707070707070707070707"),
        ] {
            let fill = Fill::of_bytes(dtype, bytes).unwrap();
            assert_eq!(fill.to_string(), text);
            let back: Fill = text.parse().unwrap();
            assert_eq!(back, fill);
            assert_eq!(back.bits(dtype, bytes.len() as u64).unwrap().to_le_bytes()[..bytes.len()], *bytes);
        }
        assert_eq!("-nan".parse::<Fill>().unwrap(), "nan".parse().unwrap());
        for (dtype, n_bytes) in [(DType::Opaque, 17), (DType::Opaque, 0), (DType::F32, 8), (DType::C64, 4)] {
            assert!(Fill::of_bytes(dtype, &[0; 17][..n_bytes]).is_err(), "{dtype:?} {n_bytes}");
        }
        for wrong in ["", "abc", "0x", "0x1", "0x0g", "0x+1", "0x000000000000000000000000000000000000", "1 2"] {
            let said = wrong.parse::<Fill>().unwrap_err().to_string();
            assert!(said.contains(" is not valid; give a number"), "{wrong}: {said}");
        }
    }
}
