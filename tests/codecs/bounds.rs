//! Error bounds hold for all types, in any part of an array, after any number of rewrites, and with
//! the same bytes everywhere.

use crate::common::bounds::{Bound, assert_kept, part_bytes};
use crate::common::generate::{GENERATORS, Input};
use crate::common::{Tally, assert_no_request, assert_refused, assert_same_bytes, cases, compress, decompress};
use gridz::{Array, ByteOrder, Context, CpuLevel, DType, Mode, Request, Shape};
use gridz_codecs::codec::registry;
use proptest::prelude::*;

fn request(text: &str) -> Request {
    text.parse().unwrap()
}

/// A pseudo-random number that depends only on the arguments.
fn noise(seed: u64, i: u64) -> u64 {
    let x = (seed ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x2545_f491_4f6c_dd1d);
    let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ x >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) ^ x >> 32
}

/// Every way to encode: instruction levels and thread counts.
fn contexts() -> Vec<Context> {
    let levels = [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512];
    let mut all: Vec<Context> =
        levels.iter().filter_map(|&level| Context::default().with_level(level).ok()).collect();
    all.push(Context::new(Some(3), None).unwrap());
    all
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::C64 | DType::C128)
}

/// The types that support bounds.
fn types() -> Vec<DType> {
    registry::find(3).unwrap().dtypes.to_vec()
}

/// Replacement of elements: none, the same bytes in about half of the array, or in scattered
/// elements.
#[derive(Debug, Clone, Copy)]
enum Spoilt {
    No,
    Half(u64),
    Some(u64),
}

fn spoil(raw: &mut [u8], size: usize, how: Spoilt) {
    let n = raw.len() / size;
    for (i, element) in raw.chunks_exact_mut(size).enumerate() {
        let (is_spoilt, seed) = match how {
            Spoilt::No => (false, 0),
            Spoilt::Half(seed) => ((i / 7 + i / 50) % (n / 9 + 2) < n / 18 + 1, seed),
            Spoilt::Some(seed) => (noise(seed, i as u64).is_multiple_of(50), noise(seed, i as u64 % 5)),
        };
        if is_spoilt {
            // NaN of all kinds, infinities, large numbers, random bits.
            let kinds = [u64::MAX, 0x7ff0_0000_7f80_7c00, 0x7e80_4c00_7150_1234, 0x8000_0000_8000_8080, seed];
            let word = kinds[seed as usize % kinds.len()] ^ (seed >> 60);
            let bytes = [word.to_le_bytes(), word.to_be_bytes()].concat();
            element.copy_from_slice(&bytes[..size]);
        }
    }
}

fn spoilt() -> impl Strategy<Value = Spoilt> {
    prop_oneof![Just(Spoilt::No), any::<u64>().prop_map(Spoilt::Half), any::<u64>().prop_map(Spoilt::Some)]
}

/// Bounds of any magnitude, most of them near the generators' numbers.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-300f64..300.0).prop_map(|x| 10f64.powf(x)),
        (-6f64..3.0).prop_map(|x| 10f64.powf(x)),
        (-12i32..12).prop_map(|x| 2f64.powi(x)),
    ]
}

fn extents() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1..70u64, 0..=4).prop_map(|mut extents| {
        let mut n = 1;
        for extent in &mut extents {
            *extent = (*extent).min(30_000 / n).max(1);
            n *= *extent;
        }
        extents
    })
}

#[test]
fn bounds_are_kept_and_kept_again() {
    let tally = Tally::default();
    proptest!(cases(500), |(
        dtype in prop::sample::select(types()),
        mode in prop::sample::select(&[Mode::Abs, Mode::Abs, Mode::Pwrel, Mode::Rel][..]),
        value in value(),
        generator in prop::sample::select(&GENERATORS[..]),
        spoilt in spoilt(),
        has_fill in any::<bool>(),
        extents in extents(),
    )| {
        tally.add("cases");
        prop_assume!(mode != Mode::Pwrel || is_float(dtype) && value < 1.0);
        let input = Input::new(generator, dtype, &extents);
        let (array, mut raw) = (input.array(), input.bytes());
        let size = dtype.size().unwrap() as usize;
        spoil(&mut raw, size, spoilt);
        let mut request = Request::with_mode(3, mode.id().into(), value, 0).unwrap();
        let fill = raw.chunks_exact(size).nth(raw.len() / size / 2).filter(|_| has_fill).map(<[u8]>::to_vec);
        if let Some(fill) = &fill {
            request = request.with_fill(&array, fill).unwrap();
        }
        let frame = compress(&array, &request, &raw, &Context::default());
        let decoded = decompress(&frame, &Context::default()).unwrap();
        tally.add_if("packed", frame[5] == request.codec());
        tally.add_if("changed", decoded != raw);
        for context in contexts() {
            assert_same_bytes(&compress(&array, &request, &raw, &context), &frame, &format!("{request:?} {array:?}"));
            assert_same_bytes(&decompress(&frame, &context).unwrap(), &decoded, &format!("{request:?} {array:?}"));
        }
        let bound = match mode {
            Mode::Pwrel => Bound::Relative(value),
            Mode::Abs => Bound::Absolute(value),
            _ => Bound::Absolute(value * range(dtype, &raw, fill.as_deref())),
        };
        assert_kept(dtype, &raw, &decoded, bound, fill.as_deref());
        if mode != Mode::Rel {
            let again = decompress(&compress(&array, &request, &decoded, &Context::default()), &Context::default());
            assert_same_bytes(&again.unwrap(), &decoded, &format!("{request:?} {array:?}, again"));
        }
    });
    tally.assert("packed", 40);
    tally.assert("changed", 20);
}

/// The range of the finite numbers of an array, without the parts of the fill value.
fn range(dtype: DType, raw: &[u8], fill: Option<&[u8]>) -> f64 {
    use crate::common::bounds::{Number, number};
    let n = part_bytes(dtype);
    let parts = dtype.size().unwrap() as usize / n;
    let (mut wholes, mut floats) = (Vec::new(), Vec::new());
    for (i, bytes) in raw.chunks_exact(n).enumerate() {
        let is_fill = fill.is_some_and(|fill| bytes == &fill[i % parts * n..][..n]);
        match number(dtype, bytes) {
            _ if is_fill => {}
            Number::Whole(x) => wholes.push(x),
            Number::Float(x) => floats.push(x),
        }
    }
    floats.retain(|x| x.is_finite());
    if let (Some(least), Some(most)) = (wholes.iter().min(), wholes.iter().max()) {
        return (most - least) as f64;
    }
    let least = floats.iter().copied().fold(f64::INFINITY, f64::min);
    let most = floats.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (most - least).clamp(0.0, f64::MAX)
}

/// Replaces single elements of a chunk by numbers of all kinds; all other elements stay within
/// their first bound.
#[test]
fn arrays_do_not_drift_while_parts_of_them_are_rewritten() {
    for (dtype, text) in [
        (DType::F32, "quant,abs=1e-2"),
        (DType::F64, "quant,abs=1e-2"),
        (DType::F32, "quant,pwrel=1e-3"),
        (DType::I32, "quant,abs=5"),
        (DType::C64, "quant,abs=1e-2,fill=-999"),
        (DType::F16, "quant,abs=.1"),
        (DType::F32, "quant,abs=1e-2,level=2"),
        (DType::C64, "quant,abs=1e-2,level=2,fill=-999"),
        (DType::F32, "quant,abs=1e-2,level=3"),
        (DType::C64, "quant,abs=1e-2,level=3,fill=-999"),
    ] {
        let input = Input::new("wave", dtype, &[40, 50]);
        let (array, size) = (input.array(), dtype.size().unwrap() as usize);
        let request = request(text);
        let bound = match request.mode() {
            Mode::Pwrel => Bound::Relative(request.value()),
            _ => Bound::Absolute(request.value()),
        };
        let mut latest = input.bytes();
        let mut frame = compress(&array, &request, &latest, &Context::default());
        for i in 0..400 {
            let mut now = decompress(&frame, &Context::default()).unwrap();
            let at = noise(1, i) as usize % (now.len() / size) * size;
            let word = [noise(2, i), 0x7149_f2ca_7149_f2ca, u64::MAX, 0xc479_c000_c479_c000][i as usize % 4];
            let element = [word.to_le_bytes(), word.to_le_bytes()].concat();
            now[at..at + size].copy_from_slice(&element[..size]);
            latest[at..at + size].copy_from_slice(&element[..size]);
            frame = compress(&array, &request, &now, &Context::default());
        }
        assert_kept(dtype, &latest, &decompress(&frame, &Context::default()).unwrap(), bound, None);
    }
}

#[test]
fn masks_and_spikes_are_cheap() {
    let (n, request) = (200usize, request("quant,abs=1e-3,fill=1e20"));
    let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[n as u64, n as u64]).unwrap()).unwrap();
    let size_of = |change: &dyn Fn(usize, usize, f32) -> f32| {
        let raw: Vec<u8> = (0..n * n)
            .flat_map(|i| {
                let (y, x) = (i / n, i % n);
                change(y, x, (x as f32 / 20.0).sin() + (y as f32 / 30.0).cos()).to_le_bytes()
            })
            .collect();
        let frame = compress(&array, &request, &raw, &Context::default());
        let back = decompress(&frame, &Context::default()).unwrap();
        assert_kept(DType::F32, &raw, &back, Bound::Absolute(1e-3), Some(&1e20f32.to_le_bytes()));
        frame.len()
    };
    let plain = size_of(&|_, _, v| v);
    let is_land = |y: usize, x: usize| (x as i64 - 100).pow(2) + (y as i64 - 90).pow(2) < 80 * 80;
    for hole in [1e20, f32::NAN, -999.0] {
        let masked = size_of(&|y, x, v| if is_land(y, x) { hole } else { v });
        assert!(masked < plain, "{hole}: {masked} bytes, {plain} without a mask");
    }
    let spiked = size_of(&|y, x, v| if y % 20 == 3 && x % 30 == 5 { 1e30 } else { v });
    assert!(spiked < plain + 20 * n * n / 600, "{spiked} bytes, {plain} without spikes");
}

#[test]
fn what_cannot_be_kept_is_refused_by_name() {
    let array =
        |dtype| Array::with_size(dtype, ByteOrder::Little, dtype.size().unwrap_or(3), Shape::new(&[100]).unwrap());
    for (dtype, text, says) in [
        (DType::Opaque, "quant,abs=1", "quant does not support opaque elements"),
        (DType::I32, "quant,pwrel=.1", "int32 elements, which are integers; use abs"),
    ] {
        assert_refused(&array(dtype).unwrap(), text, says);
    }
    for (text, says) in [
        ("quant", "quant: use mode 1, abs, or mode 2, rel, or mode 5, pwrel; it has no mode 0, lossless"),
        ("quant,abs=0", "0"),
        ("quant,abs=-1", "-1"),
        ("quant,abs=inf", "inf"),
        ("quant,abs=nan", "NaN"),
        ("quant,pwrel=1", "below 1"),
        ("quant,rate=8", "rate"),
        ("quant,abs=1,level=4", "quant does not have level 4"),
    ] {
        assert_no_request(text, says);
    }
}
