//! multigrid: error bounds and mean-square bounds hold for any array, with the same bytes everywhere.

use crate::common::bounds::{Bound, Number, assert_kept, number};
use crate::common::generate::{GENERATORS, Input};
use crate::common::{
    Tally, assert_no_request, assert_refused, assert_same_bytes, cases, compress, decompress, one_in,
};
use gridz::{
    Array, ByteOrder, Context, CpuLevel, DType, Detail, ErrorKind, Mode, PartInfo, Request, Shape, Verify,
};
use gridz_codecs::codec::registry::STORED;
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::header::{Header, header_bytes};
use proptest::prelude::*;

/// The codec's id.
const MULTIGRID: u8 = 5;

fn request(text: &str) -> Request {
    text.parse().unwrap()
}

/// Every way to encode: instruction levels and thread counts.
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

/// Encodes in all ways to the same frame, and decodes it in all ways to the same array.
fn check(array: &Array, request: &Request, raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let frame = compress(array, request, raw, &Context::default());
    let decoded = decompress(&frame, &Context::default()).unwrap();
    for context in contexts() {
        assert_same_bytes(&compress(array, request, raw, &context), &frame, &format!("{request} {array:?}"));
        assert_same_bytes(&decompress(&frame, &context).unwrap(), &decoded, &format!("{request} {array:?}"));
    }
    (frame, decoded)
}

/// The root-mean-square error of the finite elements that are not the fill value, relative to
/// `value`.
fn root_of_mean(dtype: DType, raw: &[u8], decoded: &[u8], (value, fill): (f64, Option<f64>)) -> f64 {
    let errors = values_of(dtype, raw).zip(values_of(dtype, decoded));
    // Divide first: squares of large errors would overflow.
    let errors = errors.filter(|&(x, _)| x.is_finite() && Some(x) != fill).map(|(x, y)| (x - y) / value);
    let (n, sum) = errors.fold((0u64, 0.0), |(n, sum), error| (n + 1, sum + error * error));
    if n == 0 { 0.0 } else { (sum / n as f64).sqrt() }
}

/// The range of the finite elements that are not the fill value.
fn range(dtype: DType, raw: &[u8], fill: Option<f64>) -> f64 {
    let ordinary = values_of(dtype, raw).filter(|&x| x.is_finite() && Some(x) != fill);
    let (least, most) =
        ordinary.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
    if most > least { (most - least).min(f64::MAX) } else { 0.0 }
}

/// Replaces some elements by special values.
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

/// Values of any magnitude, most of them near the generators' numbers.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        1 => (-300f64..300.0).prop_map(|x| 10f64.powf(x)),
        4 => (-6f64..3.0).prop_map(|x| 10f64.powf(x)),
        1 => (-12i32..12).prop_map(|x| 2f64.powi(x)),
    ]
}

#[test]
fn bounds_and_means_are_kept() {
    let tally = Tally::default();
    proptest!(cases(400), |(
        dtype in prop::sample::select(&[DType::F32, DType::F64][..]),
        mode in prop::sample::select(&["abs", "rel", "rms"][..]),
        value in value(),
        generator in prop::sample::select(&GENERATORS[..]),
        seed in any::<u64>(),
        has_fill in any::<bool>(),
        extents in extents(),
    )| {
        tally.add("cases");
        let input = Input::new(generator, dtype, &extents);
        let (array, mut raw) = (input.array(), input.bytes());
        spoil(dtype, &mut raw, seed);
        let fill = has_fill.then_some(-999.0);
        let request = request(&format!("multigrid,{mode}={value}{}", if has_fill { ",fill=-999" } else { "" }));
        let (frame, decoded) = check(&array, &request, &raw);
        tally.add_if("packed", frame[5] == MULTIGRID);
        tally.add_if("changed", decoded != raw);
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
        // The bound in a frame's header holds.
        if let Some(promised) = gridz::inspect(&frame).unwrap().promise.and_then(|promise| promise.bound) {
            assert_kept(dtype, &raw, &decoded, Bound::Absolute(promised), fill_bytes.as_deref());
        }
    });
    tally.assert("packed", 40);
    tally.assert("changed", 20);
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
            let (frame, decoded) = check(&array, &request(&format!("multigrid,rms={value}")), &raw);
            let root = root_of_mean(dtype, &raw, &decoded, (value, None));
            assert!(root <= 1.0 && root > 0.9, "{root} of {value}");
            let of_bound = compress(&array, &request(&format!("multigrid,abs={value}")), &raw, &Context::default());
            assert!(frame.len() < of_bound.len());
        }
    }
}

/// Masks and spikes take few bytes, and do not affect their neighbors.
#[test]
fn masks_and_spikes_are_cheap() {
    let extents = [64, 64, 64];
    let (array, request) = (array(DType::F32, &[64, 64, 64]), request("multigrid,abs=1e-3"));
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

/// A few spikes in a field of zeros do not count in a mean, but they are kept.
#[test]
fn no_error_is_far_above_the_mean() {
    let raw = bytes_of(DType::F64, (0..1_000_000).map(|i| if i % 400_000 == 9 { 490.0 } else { 0.0 }));
    let (_, decoded) = check(&array(DType::F64, &[1_000_000]), &request("multigrid,rms=1"), &raw);
    assert_kept(DType::F64, &raw, &decoded, Bound::Absolute(8.001), None);
}

#[test]
fn constants_are_small() {
    for (dtype, value) in [(DType::F32, 0.0), (DType::F32, 1013.25), (DType::F64, -1e300), (DType::F64, 1e-300)] {
        let raw = bytes_of(dtype, std::iter::repeat_n(value, 64 * 64 * 64));
        for text in ["multigrid,abs=1e-3", "multigrid,rel=1e-3", "multigrid,rms=1e-3"] {
            let (frame, decoded) = check(&array(dtype, &[64, 64, 64]), &request(text), &raw);
            assert_same_bytes(&decoded, &raw, text);
            assert!(frame.len() * 1000 < raw.len(), "{text}: {} bytes", frame.len());
        }
    }
}

/// Several blocks in an array of numbers, several arrays, and threads; with and without holes.
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
            for text in ["multigrid,abs=1e-4,fill=-999", "multigrid,rms=1e-3,fill=-999"] {
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

/// If a bound is too tight for floats of this magnitude, elements are exact; in the worst case, the
/// chunk is stored.
#[test]
fn tight_and_wide_bounds() {
    let raw = bytes_of(DType::F32, (0..30_000).map(|i| 1e9 + (f64::from(i) / 100.0).sin() * 1e5));
    for value in ["1e-30", "1", "40", "100", "1e5", "1e38", "1e300"] {
        let (_, decoded) =
            check(&array(DType::F32, &[30, 1000]), &request(&format!("multigrid,abs={value}")), &raw);
        assert_kept(DType::F32, &raw, &decoded, Bound::Absolute(value.parse().unwrap()), None);
    }
}

#[test]
fn counts_tell_of_exact_elements() {
    let mut raw = field(DType::F64, [20, 30, 40]);
    for i in [0, 77, 12_345] {
        raw[8 * i..8 * i + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    }
    let frame =
        compress(&array(DType::F64, &[20, 30, 40]), &request("multigrid,abs=1e-3"), &raw, &Context::default());
    let counts = gridz::count_blocks(&frame, &Context::default()).unwrap();
    assert_eq!((frame[5], counts.exact), (MULTIGRID, 3));
    assert_eq!(counts.all, counts.entropy + counts.constant + counts.raw);
    assert!(counts.all >= 3);
}

#[test]
fn what_multigrid_cannot_do_is_refused_with_a_reason() {
    assert_refused(
        &array(DType::I32, &[10]),
        "multigrid,abs=1",
        "multigrid does not support int32 elements; use quant",
    );
    assert_no_request("multigrid", "multigrid: use mode 1, abs, or mode 2, rel, or mode 6, rms");
    assert_no_request("multigrid,rms=0", "the value must be a finite number above 0");
    assert_no_request("multigrid,abs=1e-3,level=9", "level");
    for n in ["0", "9", "-1"] {
        let text = format!("multigrid,abs=1,layers={n}");
        assert_refused(&array(DType::F32, &[10]), &text, "layers must be from 1 to 8");
    }
    for (text, said) in [
        ("multigrid,rms=1,s=1", "for differences of neighbors use s=0, where their error is at most about twice"),
        ("multigrid,rms=1,s=-2.5", "s must be from -2 to 0"),
    ] {
        assert_refused(&array(DType::F32, &[10]), text, said);
    }
    assert_no_request("multigrid,abs=1,layers=1.5", "layers must be a whole number");
    assert_no_request("multigrid,abs=1,s=-1", "s is a parameter of mode rms, not of abs");
}

/// Squares of errors of such a magnitude underflow or overflow.
#[test]
fn means_are_kept_where_squares_underflow_or_overflow() {
    let input = Input::new("walk", DType::F64, &[64, 64]);
    let numbers: Vec<f64> = values_of(DType::F64, &input.bytes()).collect();
    let largest = numbers.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let mut n_changed = 0;
    for (dtype, exponents) in [
        (DType::F64, &[-306, -300, -250, -200, -170, -165, -160, -154, -100, 100, 154, 200, 290][..]),
        (DType::F32, &[-36, -30, -22, -10, 20, 30]),
    ] {
        for &exponent in exponents {
            for s in ["", ",s=-0.5", ",s=-1", ",s=-2"] {
                let value = 10f64.powi(exponent);
                let raw = bytes_of(dtype, numbers.iter().map(|x| x / largest * 300.0 * value));
                let request = request(&format!("multigrid,rms={value:e}{s}"));
                let (_, decoded) = check(&array(dtype, &[64, 64]), &request, &raw);
                let root = root_of_mean(dtype, &raw, &decoded, (value, None));
                assert!(root <= 1.0 + 1e-12, "{request}: {root} times the value");
                n_changed += u32::from(root > 0.0);
            }
        }
    }
    assert!(n_changed > 50, "{n_changed} of 76 are not lossless");
}

// ---- layers and levels ----------------------------------------------------------------------------

/// A frame whose writer has merged all axes, unlike this writer: its grids are those of the one
/// merged axis.
#[test]
fn grids_of_merged_axes() {
    let (line, plane) = (array(DType::F32, &[480]), array(DType::F32, &[24, 20]));
    let raw: Vec<u8> = (0..480).flat_map(|i| (i as f32 * 0.1).sin().to_le_bytes()).collect();
    let of_line = compress(&line, &request("multigrid,abs=1e-3,layers=2"), &raw, &Context::default());
    let header = Header::parse(&of_line).unwrap();
    let mut of_plane = vec![0; header_bytes(2, header.params.len())];
    Header { array: plane, fold: Fold::Flat, ..header }.emit(&mut of_plane);
    of_plane.extend_from_slice(&of_line[header.n_bytes()..]);
    for detail in [Detail::Layers(1), Detail::Layers(2), Detail::Level(1), Detail::Level(3)] {
        let ((of_line, line), (of_plane, plane)) = (part(&of_line, detail), part(&of_plane, detail));
        assert_eq!(line, plane, "{detail:?}");
        let expected: &[u64] = if of_line.level == 0 { &[24, 20] } else { of_line.shape.extents() };
        assert_eq!(of_plane.shape.extents(), expected, "{detail:?}");
    }
}

/// Reads a part from exactly the bytes that it needs; one byte less must fail.
fn part(frame: &[u8], detail: Detail) -> (PartInfo, Vec<u8>) {
    let read = |frame: &[u8]| -> gridz::Result<(PartInfo, Vec<u8>)> {
        let info = gridz::inspect_part(frame, detail)?;
        let mut dst = vec![0x5a; info.n_bytes as usize];
        let n_bytes =
            gridz::decompress(frame, gridz::Part::Detail(detail), &mut dst, Verify::Checksum, &Context::default())?;
        assert_eq!(n_bytes as u64, info.n_bytes);
        Ok((info, dst))
    };
    let whole = read(frame).unwrap();
    let n = whole.0.frame_bytes as usize;
    assert_eq!(read(&frame[..n]).unwrap(), whole);
    assert_eq!(read(&frame[..n - 1]).unwrap_err().kind(), ErrorKind::Truncated, "{detail:?}");
    whole
}

/// Every 2^level-th element along each axis.
fn coarse(raw: &[u8], extents: &[u64], size: usize, level: u32) -> Vec<u8> {
    let is_node = |place: usize| {
        let mut rest = place as u64;
        extents.iter().rev().all(|&n| {
            let at = rest % n;
            rest /= n;
            at.is_multiple_of(1 << level)
        })
    };
    raw.chunks_exact(size).enumerate().filter(|&(i, _)| is_node(i)).flat_map(|(_, x)| x.to_vec()).collect()
}

/// The guarantees hold for every part of a frame.
fn check_parts(array: &Array, raw: &[u8], frame: &[u8], decoded: &[u8], (value, fill): (f64, Option<f64>)) {
    let (dtype, size) = (array.dtype(), array.element_size() as usize);
    let fill_bytes = fill.map(|fill| bytes_of(dtype, std::iter::once(fill)));
    let n_layers = part(frame, Detail::Layers(1)).0.n_layers;
    let all = part(frame, Detail::Layers(n_layers)).0;
    let mut coarsest = Vec::new();
    for k in 1..=all.n_layers {
        let (info, read) = part(frame, Detail::Layers(k));
        assert_eq!((info.shape, info.layers, info.level), (*array.shape(), k, 0));
        let bound = info.promise.bound.unwrap();
        assert_kept(dtype, raw, &read, Bound::Absolute(bound), fill_bytes.as_deref());
        if info.promise.mode == Mode::Rms {
            let factor = 8f64.powi((all.n_layers - k) as i32);
            assert_eq!(info.promise.value, (value * factor).min(f64::MAX));
            assert!(root_of_mean(dtype, raw, &read, (info.promise.value, fill)) <= 1.0 + 1e-12);
        }
        let by_error = if info.promise.mode == Mode::Rms { info.promise.value } else { bound };
        let (found, _) = part(frame, Detail::Error(by_error));
        let is_earlier = found.layers < k && found.promise.bound.unwrap() <= by_error;
        assert!(found.layers == k || is_earlier || found.promise.mode == Mode::Rms && found.layers < k);
        if k == all.n_layers {
            assert_eq!(info.frame_bytes, frame.len() as u64);
            let below = by_error.next_down();
            assert!(below < 0.0 || part(frame, Detail::Error(below)).0.layers == k);
            assert_same_bytes(&read, decoded, "all layers");
        }
        if k == 1 {
            coarsest = read;
        }
    }
    let extents = array.shape().extents();
    let merged = extents.iter().filter(|&&n| n > 1).count() > 4;
    let mut last = u64::MAX;
    for level in 0..=all.n_levels {
        let (info, read) = part(frame, Detail::Level(level));
        let n_needed = info.frame_bytes;
        assert!(n_needed <= last && info.level == level && info.layers == 1);
        last = n_needed;
        if level > 0 && merged {
            assert_eq!(info.shape.extents().len(), 4);
            continue;
        }
        let expected: Vec<u64> = extents.iter().map(|n| n.div_ceil(1 << level)).collect();
        assert_eq!(info.shape.extents(), expected);
        assert_same_bytes(&read, &coarse(&coarsest, extents, size, level), "a coarser grid");
        let bound = Bound::Absolute(info.promise.bound.unwrap());
        assert_kept(dtype, &coarse(raw, extents, size, level), &read, bound, fill_bytes.as_deref());
    }
    assert_eq!(last, part(frame, Detail::Level(all.n_levels)).0.frame_bytes);
    for detail in [Detail::Level(all.n_levels + 1), Detail::Layers(0), Detail::Layers(all.n_layers + 1)] {
        let error = gridz::inspect_part(frame, detail).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn each_layer_comes_closer() {
    let tally = Tally::default();
    proptest!(cases(200), |(
        dtype in prop::sample::select(&[DType::F32, DType::F64][..]),
        mode in prop::sample::select(&["abs", "rel", "rms"][..]),
        (value, n_layers) in (value(), 1u32..=8),
        generator in prop::sample::select(&GENERATORS[..]),
        seed in any::<u64>(),
        (has_fill, big_endian) in any::<(bool, bool)>(),
        extents in extents(),
    )| {
        tally.add("cases");
        let input = Input { big_endian: false, ..Input::new(generator, dtype, &extents) };
        let mut raw = input.bytes();
        spoil(dtype, &mut raw, seed);
        let fill = has_fill.then_some(-999.0);
        let request =
            request(&format!("multigrid,{mode}={value},layers={n_layers}{}", if has_fill { ",fill=-999" } else { "" }));
        let (frame, decoded) = check(&input.array(), &request, &raw);
        if frame[5] == MULTIGRID {
            tally.add("packed");
            tally.add_if("several layers", n_layers > 1);
            check_parts(&input.array(), &raw, &frame, &decoded, (value, fill));
            if big_endian {
                let array = Array::new(dtype, ByteOrder::Big, *input.array().shape()).unwrap();
                let swapped = |raw: &[u8]| -> Vec<u8> {
                    let size = dtype.size().unwrap() as usize;
                    raw.chunks_exact(size).flat_map(|x| x.iter().rev().copied()).collect()
                };
                let frame = compress(&array, &request, &swapped(&raw), &Context::default());
                assert_same_bytes(&swapped(&part(&frame, Detail::Layers(n_layers)).1), &decoded, "big-endian");
            }
        } else {
            let error = gridz::inspect_part(&frame, Detail::Level(0)).unwrap_err();
            prop_assert!(error.to_string().contains("multigrid"), "{}", error);
            prop_assert_eq!(error.kind(), ErrorKind::UnsupportedJob);
        }
    });
    tally.assert("packed", 40);
    tally.assert("several layers", 30);
}

#[test]
fn layers_of_arrays_of_all_kinds() {
    let tally = Tally::default();
    let mut n_cases = 0;
    for dtype in [DType::F32, DType::F64] {
        for extents in [&[][..], &[1], &[2], &[3], &[65, 65, 65], &[300, 300], &[140_000], &[17, 3, 9, 30]] {
            let array = array(dtype, extents);
            let n = array.shape().n_elements() as usize;
            let of = |x: fn(usize) -> f64| bytes_of(dtype, (0..n).map(x));
            let wave = |i: usize| (i as f64 / 40.0).sin() + (i % 65) as f64 / 9.0;
            let kinds: [fn(usize) -> f64; 4] = [
                wave,
                |i| if i == 1 { f64::NAN } else { (i as f64 / 40.0).sin() },
                |i| if i == 2 { 1e30 } else { (i as f64 / 40.0).sin() },
                |_| 1013.25,
            ];
            for (raw, terms) in kinds.into_iter().flat_map(|kind| {
                ["abs=1e-3", "rms=1e-3", "abs=1e-40", "abs=1e37", "rel=1e-4", "abs=1e300", "rms=1e300"]
                    .map(|terms| (of(kind), terms))
            }) {
                // Seven requests, so that arrays and kinds get different ones.
                n_cases += 1;
                if n_cases % one_in() != 0 {
                    continue;
                }
                let request = request(&format!("multigrid,{terms},layers=4"));
                let frame = compress(&array, &request, &raw, &Context::default());
                tally.add("cases");
                if frame[5] == MULTIGRID {
                    tally.add("packed");
                    let decoded = decompress(&frame, &Context::default()).unwrap();
                    check_parts(&array, &raw, &frame, &decoded, (request.value(), None));
                }
            }
        }
    }
    assert_eq!(n_cases, 448);
    tally.assert("packed", 25);
}

/// Layers can be requested in the notations of all hosts, and frames of one layer do not mention
/// layers.
#[test]
fn layers_are_asked_for_in_all_notations() {
    let half = 0.5f64.to_bits();
    let words = [MULTIGRID.into(), 1, half as u32, (half >> 32) as u32, 1, 3];
    assert_eq!(Request::from_words(&words).unwrap(), request("multigrid,abs=0.5,layers=3"));
    assert_eq!(request("multigrid,abs=0.5,layers=3").to_string(), "multigrid,abs=0.5,level=fast,layers=3");
    let (array, raw) = (array(DType::F32, &[40, 50, 60]), field(DType::F32, [40, 50, 60]));
    let frame = |text: &str| compress(&array, &request(text), &raw, &Context::default());
    assert_same_bytes(&frame("multigrid,abs=1e-3,layers=1"), &frame("multigrid,abs=1e-3"), "one layer");
    // Layer 0 is about as large as a frame with only the larger bound.
    let (layered, alone) = (frame("multigrid,abs=1e-3,layers=2"), frame("multigrid,abs=8e-3"));
    let (first, _) = part(&layered, Detail::Layers(1));
    assert!(first.frame_bytes < alone.len() as u64 + 100);
    // It has no exact elements, so a coarser grid needs fewer bytes.
    let (coarser, _) = part(&layered, Detail::Level(2));
    assert!(coarser.frame_bytes * 2 < first.frame_bytes);
    assert_eq!(gridz::inspect(&layered).unwrap().promise.unwrap().bound, Some(1e-3));
}

/// Further layers are predicted where the array is smooth; elsewhere they cost little more than
/// noise does.
#[test]
fn layers_are_predicted() {
    let (array, smooth) = (array(DType::F32, &[64, 64, 64]), |i: usize| {
        let [z, y, x] = [i / 4096, i / 64 % 64, i % 64].map(|n| n as f64 / 20.0);
        z.sin() * (2.0 * y).cos() + 0.1 * (x * z).sin()
    });
    let raw = bytes_of(DType::F32, (0..64 * 64 * 64).map(smooth));
    for mode in ["abs", "rms"] {
        let size = |n_layers| {
            let text = format!("multigrid,{mode}=1e-5,layers={n_layers}");
            compress(&array, &request(&text), &raw, &Context::default()).len()
        };
        let [alone, two, four] = [1, 2, 4].map(size);
        assert!(2 * two < 3 * alone && 2 * four < 5 * alone, "{mode}: {alone}, {two} and {four} bytes");
    }
}

/// Wrong bits in a truncated frame are detected.
#[test]
fn damage_in_a_part_is_seen() {
    let (array, mut raw) = (array(DType::F32, &[30, 40, 50]), field(DType::F32, [30, 40, 50]));
    raw[4000..4004].copy_from_slice(&f32::NAN.to_le_bytes());
    let frame = compress(&array, &request("multigrid,abs=1e-3,layers=3"), &raw, &Context::default());
    for detail in [Detail::Level(1), Detail::Level(2), Detail::Layers(1), Detail::Layers(2), Detail::Layers(3)] {
        let (info, _) = part(&frame, detail);
        let n = info.frame_bytes as usize;
        let tally = Tally::default();
        for at in (0..n).step_by(if n > 2000 { 37 } else { 1 }) {
            let mut damaged = frame[..n].to_vec();
            damaged[at] ^= 1 << (at % 8);
            let mut dst = vec![0; info.n_bytes as usize];
            let read = gridz::decompress(
                &damaged,
                gridz::Part::Detail(detail),
                &mut dst,
                Verify::Checksum,
                &Context::default(),
            );
            // Blocks of finer grids may be needed only for the bytes of the table.
            assert!(read.is_err() || info.level > 0, "{detail:?}: byte {at} of {n}");
            tally.add("cases");
            tally.add_if("refused by the decoder", read.is_err() && gridz::inspect(&damaged).is_ok());
        }
        tally.assert("refused by the decoder", 40);
    }
}
