//! mgard: bounds and means of squares are kept, whatever the array is, with the same bytes everywhere.

mod common;

use common::bounds::{Bound, Number, assert_kept, number};
use common::generate::{GENERATORS, Input};
use common::{assert_no_request, assert_refused, assert_same_bytes, cases, compress, decompress};
use gridz::codec::registry::STORED;
use gridz::{Array, ByteOrder, Context, CpuLevel, DType, Request, Shape};
use proptest::prelude::*;

/// The codec's number.
const MGARD: u8 = 5;

fn request(text: &str) -> Request {
    text.parse().unwrap()
}

/// Every way to encode: instructions, and threads.
fn contexts() -> Vec<Context> {
    let levels = [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512];
    let mut all: Vec<Context> =
        levels.iter().filter_map(|&level| Context::default().with_level(level).ok()).collect();
    all.push(Context::new(Some(3), None).unwrap());
    all
}

fn array(dtype: DType, extents: &[u64]) -> Array {
    Array::new(dtype, ByteOrder::Little, Shape::new(extents).unwrap()).unwrap()
}

fn bytes_of(dtype: DType, values: impl Iterator<Item = f64>) -> Vec<u8> {
    match dtype {
        DType::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
        _ => values.flat_map(f64::to_le_bytes).collect(),
    }
}

fn values_of(dtype: DType, raw: &[u8]) -> impl Iterator<Item = f64> {
    raw.chunks_exact(dtype.size().unwrap() as usize).map(move |bytes| match number(dtype, bytes) {
        Number::Float(x) => x,
        Number::Whole(x) => x as f64,
    })
}

/// Encodes in all ways to the same frame, decodes that in all ways to the same array.
fn check(array: &Array, request: &Request, raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let frame = compress(array, request, raw, &Context::default());
    let decoded = decompress(&frame, &Context::default()).unwrap();
    for context in contexts() {
        assert_same_bytes(&compress(array, request, raw, &context), &frame, &format!("{request} {array:?}"));
        assert_same_bytes(&decompress(&frame, &context).unwrap(), &decoded, &format!("{request} {array:?}"));
    }
    (frame, decoded)
}

/// The root of the mean of the squares of the errors of finite elements that are not the fill value, by a value.
fn root_of_mean(dtype: DType, raw: &[u8], decoded: &[u8], (value, fill): (f64, Option<f64>)) -> f64 {
    let errors = values_of(dtype, raw).zip(values_of(dtype, decoded));
    // Divided first: squares of large errors are infinite.
    let errors = errors.filter(|&(x, _)| x.is_finite() && Some(x) != fill).map(|(x, y)| (x - y) / value);
    let (n, sum) = errors.fold((0u64, 0.0), |(n, sum), error| (n + 1, sum + error * error));
    if n == 0 { 0.0 } else { (sum / n as f64).sqrt() }
}

/// The largest finite element less the smallest, of those that are not the fill value.
fn range(dtype: DType, raw: &[u8], fill: Option<f64>) -> f64 {
    let ordinary = values_of(dtype, raw).filter(|&x| x.is_finite() && Some(x) != fill);
    let (least, most) =
        ordinary.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
    if most > least { (most - least).min(f64::MAX) } else { 0.0 }
}

/// What stands in some elements instead.
fn spoil(dtype: DType, raw: &mut [u8], seed: u64) {
    let size = dtype.size().unwrap() as usize;
    let n = raw.len() / size;
    let wrong = [f64::NAN, f64::INFINITY, -999.0, 1e30, f64::NEG_INFINITY, 1e20];
    for (i, element) in raw.chunks_exact_mut(size).enumerate() {
        let place = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed);
        let is_spoilt = match seed % 4 {
            0 => false,
            1 => place >> 58 == 0,
            2 => (i / 7 + i / 50) % (n / 9 + 2) < n / 18 + 1,
            _ => i == seed as usize / 4 % n,
        };
        if is_spoilt {
            let value = wrong[(if seed % 4 == 2 { seed / 4 } else { place >> 20 }) as usize % wrong.len()];
            element.copy_from_slice(&bytes_of(dtype, std::iter::once(value)));
        }
    }
}

fn extents() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![1..6u64, 1..90u64], 0..=6).prop_map(|mut extents| {
        let mut n = 1;
        for extent in &mut extents {
            *extent = (*extent).min(40_000 / n).max(1);
            n *= *extent;
        }
        extents
    })
}

/// Values of any size, most of them near the numbers that generators make.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        1 => (-300f64..300.0).prop_map(|x| 10f64.powf(x)),
        4 => (-6f64..3.0).prop_map(|x| 10f64.powf(x)),
        1 => (-12i32..12).prop_map(|x| 2f64.powi(x)),
    ]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn bounds_and_means_are_kept(
        dtype in prop::sample::select(&[DType::F32, DType::F64][..]),
        mode in prop::sample::select(&["abs", "rel", "rms"][..]),
        value in value(),
        generator in prop::sample::select(&GENERATORS[..]),
        seed in any::<u64>(),
        has_fill in any::<bool>(),
        extents in extents(),
    ) {
        let input = Input::new(generator, dtype, &extents);
        let (array, mut raw) = (input.array(), input.bytes());
        spoil(dtype, &mut raw, seed);
        let fill = has_fill.then_some(-999.0);
        let request = request(&format!("mgard,{mode}={value}{}", if has_fill { ",fill=-999" } else { "" }));
        let (frame, decoded) = check(&array, &request, &raw);
        let fill_bytes = fill.map(|fill| bytes_of(dtype, std::iter::once(fill)));
        let bound = match mode {
            "abs" => value,
            "rel" => value * range(dtype, &raw, fill),
            _ => {
                let root = root_of_mean(dtype, &raw, &decoded, (value, fill));
                prop_assert!(root <= 1.0 + 1e-12, "{} times {}", root, value);
                f64::INFINITY
            }
        };
        assert_kept(dtype, &raw, &decoded, Bound::Absolute(bound), fill_bytes.as_deref());
        // What a frame says of its bound is true.
        if let Some(promised) = gridz::inspect(&frame).unwrap().promise.and_then(|promise| promise.bound) {
            assert_kept(dtype, &raw, &decoded, Bound::Absolute(promised), fill_bytes.as_deref());
        }
    }
}

/// A smooth field with noise.
fn field(dtype: DType, extents: [usize; 3]) -> Vec<u8> {
    let [nz, ny, nx] = extents;
    let at = |i: usize| {
        let (z, y, x) = (i / (ny * nx), i / nx % ny, i % nx);
        let noise = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (z as f64 / 9.0).sin() * (y as f64 / 13.0).cos() + (x as f64 / 21.0).sin() + noise as f64 * 1e-10
    };
    bytes_of(dtype, (0..nz * ny * nx).map(at))
}

#[test]
fn a_mean_of_squares_is_used_up() {
    for dtype in [DType::F32, DType::F64] {
        let (array, raw) = (array(dtype, &[40, 50, 60]), field(dtype, [40, 50, 60]));
        for value in [1e-1, 1e-2, 1e-3, 1e-4] {
            let (frame, decoded) = check(&array, &request(&format!("mgard,rms={value}")), &raw);
            let root = root_of_mean(dtype, &raw, &decoded, (value, None));
            assert!(root <= 1.0 && root > 0.9, "{root} of {value}");
            let of_bound = compress(&array, &request(&format!("mgard,abs={value}")), &raw, &Context::default());
            assert!(frame.len() < of_bound.len());
        }
    }
}

/// Masks and spikes are few bytes, and do no harm to what is beside them.
#[test]
fn masks_and_spikes_are_cheap() {
    let extents = [64, 64, 64];
    let (array, request) = (array(DType::F32, &[64, 64, 64]), request("mgard,abs=1e-3"));
    let plain = field(DType::F32, extents);
    let n_plain = compress(&array, &request, &plain, &Context::default()).len();
    for (what, value, is_wrong, most) in [
        ("half of it is NaN", f32::NAN, (|i| i / 64 % 64 < 32) as fn(usize) -> bool, 1.0),
        ("half of it is 1e20", 1e20, |i| i / 64 % 64 < 32, 1.0),
        ("a spike", 1e30, |i| i == 133_000, 1.001),
        ("spikes", 1e30, |i| i % 10_007 == 0, 1.04),
        ("a NaN", f32::NAN, |i| i == 0, 1.001),
    ] {
        let mut raw = plain.clone();
        for (_, element) in raw.chunks_exact_mut(4).enumerate().filter(|&(i, _)| is_wrong(i)) {
            element.copy_from_slice(&value.to_le_bytes());
        }
        let (frame, decoded) = check(&array, &request, &raw);
        assert_kept(DType::F32, &raw, &decoded, Bound::Absolute(1e-3), None);
        assert!((frame.len() as f64) < most * n_plain as f64, "{what}: {} bytes, {n_plain} without", frame.len());
    }
}

/// A few spikes in a field of zeros do not count for a mean, but they are not lost.
#[test]
fn no_error_is_far_above_the_mean() {
    let raw = bytes_of(DType::F64, (0..1_000_000).map(|i| if i % 400_000 == 9 { 490.0 } else { 0.0 }));
    let (_, decoded) = check(&array(DType::F64, &[1_000_000]), &request("mgard,rms=1"), &raw);
    assert_kept(DType::F64, &raw, &decoded, Bound::Absolute(8.001), None);
}

#[test]
fn constants_are_small() {
    for (dtype, value) in [(DType::F32, 0.0), (DType::F32, 1013.25), (DType::F64, -1e300), (DType::F64, 1e-300)] {
        let raw = bytes_of(dtype, std::iter::repeat_n(value, 64 * 64 * 64));
        for text in ["mgard,abs=1e-3", "mgard,rel=1e-3", "mgard,rms=1e-3"] {
            let (frame, decoded) = check(&array(dtype, &[64, 64, 64]), &request(text), &raw);
            assert_same_bytes(&decoded, &raw, text);
            assert!(frame.len() * 1000 < raw.len(), "{text}: {} bytes", frame.len());
        }
    }
}

/// Several blocks in an array of numbers, several arrays, and threads; as it is and with holes.
#[test]
fn large_arrays_are_the_same_in_all_ways() {
    for (dtype, extents) in [
        (DType::F32, [130, 129, 131]),
        (DType::F64, [1, 1030, 517]),
        (DType::F32, [1, 1, 700_001]),
        (DType::F64, [150_000, 1, 3]),
        (DType::F32, [2, 300_000, 1]),
    ] {
        for seed in [0, 1] {
            let mut raw = field(dtype, extents);
            spoil(dtype, &mut raw, seed);
            for text in ["mgard,abs=1e-4,fill=-999", "mgard,rms=1e-3,fill=-999"] {
                let (frame, decoded) = check(&array(dtype, &extents.map(|n| n as u64)), &request(text), &raw);
                assert_ne!(frame[5], STORED);
                let fill = bytes_of(dtype, std::iter::once(-999.0));
                let bound = if text.contains("abs") { 1e-4 } else { f64::INFINITY };
                assert_kept(dtype, &raw, &decoded, Bound::Absolute(bound), Some(&fill));
                assert!(root_of_mean(dtype, &raw, &decoded, (1e-3, Some(-999.0))) <= 1.0);
            }
        }
    }
}

/// Where a bound is too tight for floats of this size, elements are exact, and the chunk is stored at worst.
#[test]
fn tight_and_wide_bounds() {
    let raw = bytes_of(DType::F32, (0..30_000).map(|i| 1e9 + (f64::from(i) / 100.0).sin() * 1e5));
    for value in ["1e-30", "1", "40", "100", "1e5", "1e38", "1e300"] {
        let (_, decoded) = check(&array(DType::F32, &[30, 1000]), &request(&format!("mgard,abs={value}")), &raw);
        assert_kept(DType::F32, &raw, &decoded, Bound::Absolute(value.parse().unwrap()), None);
    }
}

#[test]
fn counts_tell_of_exact_elements() {
    let mut raw = field(DType::F64, [20, 30, 40]);
    for i in [0, 77, 12_345] {
        raw[8 * i..8 * i + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    }
    let frame = compress(&array(DType::F64, &[20, 30, 40]), &request("mgard,abs=1e-3"), &raw, &Context::default());
    let counts = gridz::count_blocks(&frame, &Context::default()).unwrap();
    assert_eq!((frame[5], counts.exact), (MGARD, 3));
    assert_eq!(counts.all, counts.entropy + counts.constant + counts.raw);
    assert!(counts.all >= 3);
}

#[test]
fn what_mgard_cannot_do_is_refused_with_a_reason() {
    assert_refused(&array(DType::I32, &[10]), "mgard,abs=1", "mgard does not take int32 elements; use szp");
    assert_no_request("mgard", "mgard: use mode 1, abs, or mode 2, rel, or mode 6, rms");
    assert_no_request("mgard,rms=0", "the value must be a finite number above 0");
    assert_no_request("mgard,abs=1e-3,level=9", "level");
}
