//! The report of `quality::compare` against the direct formulas, on small arrays.

use crate::common::Tally;
use gridz::{Array, ByteOrder, Context, DType, ErrorKind, Mode, Shape};
use gridz_codecs::codec::missing::MissingElements;
use gridz_quality::{Bound, Report, compare};
use proptest::prelude::*;

fn array(dtype: DType, extents: &[u64]) -> Array {
    Array::new(dtype, ByteOrder::NATIVE, Shape::new(extents).unwrap()).unwrap()
}

/// One fill value, or none.
fn missing(array: &Array, fill: Option<&[u8]>) -> MissingElements {
    let mut missing = MissingElements::none(array.element_size().into());
    fill.into_iter().for_each(|fill| missing.add(fill).unwrap());
    missing
}

fn report_of(array: &Array, original: &[u8], decoded: &[u8], bound: Bound, fill: Option<&[u8]>) -> Report {
    compare(array, original, decoded, bound, &missing(array, fill), &Context::default()).unwrap()
}

fn bytes<const N: usize, T: Copy>(numbers: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| to(number)).collect()
}

fn of_f64(original: &[f64], decoded: &[f64], extents: &[u64], bound: Bound) -> Report {
    let [a, b] = [original, decoded].map(|list| bytes(list, f64::to_ne_bytes));
    report_of(&array(DType::F64, extents), &a, &b, bound, None)
}

/// Deterministic pseudo-random numbers from 0 to 1.
fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed * 2_654_435_769 + 88_172_645_463_325_252;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(2_685_821_657_736_338_717) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..n).map(|_| next()).collect()
}

#[track_caller]
fn close(got: f64, expected: f64) {
    let is_same = got == expected || got.is_nan() && expected.is_nan();
    assert!(is_same || (got - expected).abs() <= 1e-9 * expected.abs(), "{got} instead of {expected}");
}

/// SSIM window by window, without running sums.
fn plain_ssim(a: &[f64], b: &[f64], extents: [usize; 3], window: [usize; 3], range: f64) -> f64 {
    let (mut sum, mut windows) = (0.0, 0.0);
    let n = window.iter().product::<usize>() as f64;
    for z in 0..=extents[0] - window[0] {
        for y in 0..=extents[1] - window[1] {
            for x in 0..=extents[2] - window[2] {
                let mut places = Vec::new();
                for dz in 0..window[0] {
                    for dy in 0..window[1] {
                        let row = ((z + dz) * extents[1] + y + dy) * extents[2] + x;
                        places.extend(row..row + window[2]);
                    }
                }
                let mean = |list: &[f64]| places.iter().map(|&i| list[i]).sum::<f64>() / n;
                let (ma, mb) = (mean(a), mean(b));
                let product = |f: &[f64], mf: f64, g: &[f64], mg: f64| {
                    places.iter().map(|&i| (f[i] - mf) * (g[i] - mg)).sum::<f64>() / (n - 1.0)
                };
                let (va, vb, cov) = (product(a, ma, a, ma), product(b, mb, b, mb), product(a, ma, b, mb));
                let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
                let similarity =
                    (2.0 * ma * mb + c1) * (2.0 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
                if !similarity.is_nan() {
                    (sum, windows) = (sum + similarity, windows + 1.0);
                }
            }
        }
    }
    sum / windows
}

/// The figures for finite numbers, by the direct formulas.
#[track_caller]
fn check_plainly(report: &Report, a: &[f64], b: &[f64]) {
    let n = a.len() as f64;
    let errors: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect();
    let largest = errors.iter().copied().fold(0.0, f64::max);
    let relative: Vec<f64> =
        errors.iter().zip(a).map(|(&error, a)| if error == 0.0 { 0.0 } else { error / a.abs() }).collect();
    let largest_relative = relative.iter().copied().fold(0.0, f64::max);
    assert_eq!((report.elements, report.numbers), (a.len() as u64, a.len() as u64));
    assert_eq!(report.largest_error, largest);
    assert_eq!(errors[report.largest_error_index.unwrap() as usize], largest);
    assert_eq!(report.largest_relative_error, largest_relative);
    let first = relative.iter().position(|&r| r == largest_relative).unwrap() as u64;
    assert_eq!(report.largest_relative_error_index, Some(first));
    let (least, most) = a.iter().fold((a[0], a[0]), |(least, most), &x| (x.min(least), x.max(most)));
    assert_eq!((report.minimum, report.maximum, report.range), (least, most, most - least));
    let squares: f64 = errors.iter().map(|e| e * e).sum();
    close(report.l2_error, squares.sqrt());
    close(report.rmse, (squares / n).sqrt());
    close(report.nrmse, (squares / n).sqrt() / (most - least));
    close(report.psnr, 20.0 * ((most - least) / (squares / n).sqrt()).log10());
    let mean = |list: &[f64]| list.iter().sum::<f64>() / n;
    let (ma, mb) = (mean(a), mean(b));
    let product =
        |f: &[f64], mf: f64, g: &[f64], mg: f64| -> f64 { f.iter().zip(g).map(|(f, g)| (f - mf) * (g - mg)).sum() };
    close(report.correlation, product(a, ma, b, mb) / (product(a, ma, a, ma) * product(b, mb, b, mb)).sqrt());
}

#[test]
fn a_volume_is_what_the_plain_formulas_say() {
    let extents = [11, 25, 80];
    let a: Vec<f64> =
        noise(11 * 25 * 80, 1).iter().enumerate().map(|(i, r)| (i as f64 / 300.0).sin() * 5.0 + r + 20.0).collect();
    let b: Vec<f64> = a.iter().zip(noise(a.len(), 2)).map(|(a, r)| a + 0.5 * (r - 0.5)).collect();
    let report = of_f64(&a, &b, &extents.map(|n| n as u64), Bound::Abs(0.2));
    check_plainly(&report, &a, &b);
    assert_eq!((report.bound, report.error_over_bound), (0.2, report.largest_error / 0.2));
    close(report.ssim_3d, plain_ssim(&a, &b, extents, [7; 3], report.range));
    let planes: Vec<f64> = (a.chunks(25 * 80).zip(b.chunks(25 * 80)))
        .map(|(a, b)| plain_ssim(a, b, [1, 25, 80], [1, 7, 7], report.range))
        .collect();
    close(report.ssim_2d, planes.iter().sum::<f64>() / 11.0);
    assert!(report.ssim_2d < 0.999 && report.ssim_2d > 0.9, "{report:?}");
}

#[test]
fn several_tiles_are_one_plane() {
    let (ny, nx) = (75, 300);
    let a: Vec<f64> = noise(ny * nx, 3).iter().enumerate().map(|(i, r)| (i % 300) as f64 / 9.0 + r).collect();
    let b: Vec<f64> = a.iter().map(|a| (a * 2.0).round() / 2.0).collect();
    // Axes of extent 1 are ignored, wherever they are.
    for extents in [vec![75, 300], vec![1, 75, 1, 300], vec![75, 300, 1]] {
        let report = of_f64(&a, &b, &extents, Bound::None);
        close(report.ssim_2d, plain_ssim(&a, &b, [1, ny, nx], [1, 7, 7], report.range));
        assert!(report.ssim_3d.is_nan());
    }
    assert!(of_f64(&a, &b, &[22500], Bound::None).ssim_2d.is_nan());
    assert!(of_f64(&a, &b, &[6, 3750], Bound::None).ssim_2d.is_nan());
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let n = 900 * 1000;
    let a: Vec<f64> = noise(n, 4).iter().map(|r| r * 1e5).collect();
    let b: Vec<f64> = a.iter().zip(noise(n, 5)).map(|(a, r)| a + r).collect();
    let [x, y] = [&a, &b].map(|list| bytes(list, f64::to_ne_bytes));
    let array = array(DType::F64, &[9, 100, 1000]);
    let of = |threads| {
        let context = Context::new(Some(threads), None).unwrap();
        compare(&array, &x, &y, Bound::Rel(1e-3), &missing(&array, None), &context).unwrap()
    };
    let one = of(1);
    check_plainly(&one, &a, &b);
    for threads in [2, 3, 7] {
        assert_eq!(of(threads), one);
    }
}

#[test]
fn of_equal_errors_the_first_counts() {
    let mut b = vec![1.0; 700_000];
    let a = b.clone();
    b[3] = 1.25;
    b[500] = 0.75;
    b[600_000] = 1.25;
    let report = of_f64(&a, &b, &[700_000], Bound::Abs(0.25));
    assert_eq!((report.largest_error_index, report.largest_relative_error_index), (Some(3), Some(3)));
    assert_eq!(report.error_over_bound, 1.0);
    b[600_000] = 1.25f64.next_up();
    let report = of_f64(&a, &b, &[700_000], Bound::Abs(0.25));
    assert_eq!(report.largest_error_index, Some(600_000));
    assert!(report.error_over_bound > 1.0);
}

#[test]
fn bounds_are_broken_by_what_f64_does_not_see() {
    // The difference, 1e20 + 1, is 1e20 in f64.
    let report = of_f64(&[1e20, 0.0], &[-1.0, 0.0], &[2], Bound::Abs(1e20));
    assert_eq!((report.largest_error, report.largest_error_rest), (1e20, 1.0));
    assert_eq!(report.error_over_bound, 1f64.next_up());
    let report = of_f64(&[1e20, 0.0], &[1.0, 0.0], &[2], Bound::Abs(1e20));
    assert_eq!((report.largest_error, report.largest_error_rest, report.error_over_bound), (1e20, -1.0, 1.0));
    // Of two errors that are equal in f64, the larger exact one is reported.
    let report = of_f64(&[1e20, 1e20, 1e20], &[1.0, -1.0, 0.0], &[3], Bound::Abs(1e20));
    assert_eq!((report.largest_error_index, report.largest_error_rest), (Some(1), 1.0));

    let of_i64 = |a: &[i64], b: &[i64], bound| {
        let [x, y] = [a, b].map(|list| bytes(list, i64::to_ne_bytes));
        report_of(&array(DType::I64, &[a.len() as u64]), &x, &y, bound, None)
    };
    let far = of_i64(&[i64::MIN, i64::MAX], &[i64::MAX, i64::MAX], Bound::Abs(2f64.powi(64)));
    assert_eq!((far.largest_error, far.largest_error_rest, far.error_over_bound), (2f64.powi(64), -1.0, 1.0));
    let near = of_i64(&[1 << 60, 0], &[(1 << 60) + 3, 0], Bound::Abs(2.0));
    assert_eq!((near.largest_error, near.error_over_bound), (3.0, 1.5));
    let [x, y] = [[u64::MAX, 5], [u64::MAX - 1, 5]].map(|list| bytes(&list, u64::to_ne_bytes));
    let report = report_of(&array(DType::U64, &[2]), &x, &y, Bound::Abs(0.5), None);
    assert_eq!((report.largest_error, report.error_over_bound), (1.0, 2.0));
}

#[test]
fn relative_bounds_are_exact() {
    // 3 · (1/3) is 1 in f64, but 2^-54 less exactly: an error of 1 exceeds both bounds.
    let third = 1.0 / 3.0;
    let report = of_f64(&[0.0, 3.0], &[1.0, 3.0], &[2], Bound::Rel(third));
    assert_eq!((report.bound, report.error_over_bound), (1f64.next_down(), 1f64.next_up()));
    let report = of_f64(&[3.0, 4.0], &[2.0, 4.0], &[2], Bound::Pwrel(third));
    assert!(report.error_over_bound > 1.0 && report.bound.is_nan());
    let report = of_f64(&[3.0, 4.0], &[2.0f64.next_up(), 4.0], &[2], Bound::Pwrel(third));
    assert!(report.error_over_bound <= 1.0);
    let report = of_f64(&[0.0, 4.0], &[1e-300, 4.0], &[2], Bound::Pwrel(0.5));
    assert_eq!((report.largest_relative_error, report.error_over_bound), (f64::INFINITY, f64::INFINITY));
    // A constant has range 0: the decoded array must be identical.
    assert_eq!(of_f64(&[7.0; 9], &[7.0; 9], &[9], Bound::Rel(0.1)).error_over_bound, 0.0);
    assert_eq!(of_f64(&[7.0; 9], &[7.1; 9], &[9], Bound::Rel(0.1)).error_over_bound, f64::INFINITY);
}

#[test]
fn very_large_and_very_small_numbers_have_figures_too() {
    let base: Vec<f64> = noise(500, 6).iter().map(|r| r - 0.5).collect();
    let near: Vec<f64> = base.iter().zip(noise(500, 7)).map(|(a, r)| a + 1e-3 * r).collect();
    let expected = of_f64(&base, &near, &[20, 25], Bound::Rel(1e-3));
    for exponent in [-1000, -600, 600, 1000] {
        let scale = 2f64.powi(exponent);
        let [a, b] = [&base, &near].map(|list| list.iter().map(|x| x * scale).collect::<Vec<_>>());
        let report = of_f64(&a, &b, &[20, 25], Bound::Rel(1e-3));
        close(report.rmse, expected.rmse * scale);
        close(report.l2_error, expected.l2_error * scale);
        let figures = |r: &Report| [r.psnr, r.nrmse, r.correlation, r.ssim_2d, r.error_over_bound];
        figures(&report).into_iter().zip(figures(&expected)).for_each(|(got, expected)| close(got, expected));
    }
    let report = of_f64(&[f64::MAX, 0.0], &[-f64::MAX, 0.0], &[2], Bound::Abs(1.0));
    assert_eq!((report.largest_error, report.error_over_bound), (f64::INFINITY, f64::INFINITY));
}

#[test]
fn what_is_no_number_counts_apart() {
    let nan = |payload: u32| f32::from_bits(0x7fc0_0000 | payload);
    let inf = f32::INFINITY;
    let a = [1.0, nan(1), nan(1), nan(2), 5.0, inf, inf, -inf, -999.0, -999.0, 3.0, 4.0, nan(3), inf];
    let b = [1.5, nan(1), nan(2), 2.0, nan(0), inf, -inf, 9.0, -999.0, -998.0, -999.0, inf, inf, nan(3)];
    let [x, y] = [a, b].map(|list| bytes(&list, f32::to_ne_bytes));
    let array = array(DType::F32, &[14]);
    let fill = (-999f32).to_ne_bytes();
    let report = report_of(&array, &x, &y, Bound::Abs(1.0), Some(&fill));
    let counts = |r: &Report| [r.numbers, r.fill_mismatches, r.nan_mismatches, r.infinity_mismatches];
    assert_eq!(counts(&report), [1, 2, 4, 4]);
    assert_eq!((report.largest_error, report.range, report.error_over_bound), (0.5, 0.0, 0.5));
    assert!(report.psnr == f64::NEG_INFINITY && report.correlation.is_nan());
    // Elements outside a valid range are missing too, and must be identical.
    let mut range = MissingElements::none(4);
    range.set_limit(0, &(-500f32).to_ne_bytes()).unwrap();
    let by_range = compare(&array, &x, &y, Bound::Abs(1.0), &range, &Context::default()).unwrap();
    assert_eq!(counts(&by_range), [1, 4, 4, 2]);
    // Without a fill value, these elements are numbers.
    let report = report_of(&array, &x, &y, Bound::None, None);
    assert_eq!(counts(&report), [4, 0, 4, 4]);
    assert_eq!((report.largest_error, report.minimum), (1002.0, -999.0));
    assert!(report.error_over_bound.is_nan());
}

#[test]
fn an_array_without_numbers_has_no_figures() {
    for (n, value) in [(0u64, 0.0), (9, f64::NAN)] {
        let list = vec![value; n as usize];
        let report = of_f64(&list, &list, &[n], Bound::Abs(1.0));
        assert_eq!((report.elements, report.numbers, report.largest_error_index), (n, 0, None));
        for figure in [report.largest_error, report.rmse, report.psnr, report.l2_error, report.error_over_bound] {
            assert!(figure.is_nan());
        }
    }
}

#[test]
fn windows_with_holes_are_left_out() {
    let (ny, nx) = (30, 40);
    let mut a: Vec<f64> = noise(ny * nx, 8);
    let b: Vec<f64> = a.iter().map(|a| a + 0.01).collect();
    a[5 * nx + 9] = f64::NAN;
    a[20 * nx + 30] = f64::INFINITY;
    let report = of_f64(&a, &b, &[30, 40], Bound::None);
    let holes: Vec<f64> = a.iter().map(|&a| if a.is_finite() { a } else { f64::NAN }).collect();
    close(report.ssim_2d, plain_ssim(&holes, &b, [1, ny, nx], [1, 7, 7], report.range));
    assert_eq!((report.nan_mismatches, report.infinity_mismatches), (1, 1));
}

/// The bytes of a number in each type.
fn encoded(dtype: DType, x: f64, order: ByteOrder) -> Vec<u8> {
    let mut bytes = match dtype {
        DType::U8 => (x as u8).to_le_bytes().to_vec(),
        DType::I8 => (x as i8).to_le_bytes().to_vec(),
        DType::U16 => (x as u16).to_le_bytes().to_vec(),
        DType::I16 => (x as i16).to_le_bytes().to_vec(),
        DType::U32 => (x as u32).to_le_bytes().to_vec(),
        DType::I32 => (x as i32).to_le_bytes().to_vec(),
        DType::U64 => (x as u64).to_le_bytes().to_vec(),
        DType::I64 => (x as i64).to_le_bytes().to_vec(),
        // Integers from 1 to 255 are exact in both: the exponent, and 10 or 7 bits after the
        // leading one.
        DType::F16 => half(x, 15, 10),
        DType::Bf16 => half(x, 127, 7),
        DType::F32 | DType::C64 => (x as f32).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    };
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

fn half(x: f64, bias: u16, mantissa_bits: u32) -> Vec<u8> {
    let exponent = x.log2().floor();
    let mantissa = (x / exponent.exp2() - 1.0) * f64::from(1 << mantissa_bits);
    (((exponent as u16 + bias) << mantissa_bits) | mantissa as u16).to_le_bytes().to_vec()
}

#[test]
fn all_types_and_orders_are_numbers() {
    let a: Vec<f64> = noise(180, 9).iter().map(|r| 1.0 + (r * 100.0).floor()).collect();
    let b: Vec<f64> = a.iter().zip(noise(180, 10)).map(|(a, r)| a + (r * 9.0).floor()).collect();
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Opaque) {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let [x, y] = [&a, &b]
                .map(|list| list.iter().flat_map(|&number| encoded(dtype, number, order)).collect::<Vec<u8>>());
            let is_complex = matches!(dtype, DType::C64 | DType::C128);
            let extents = if is_complex { vec![9, 10] } else { vec![9, 20] };
            let array = Array::new(dtype, order, Shape::new(&extents).unwrap()).unwrap();
            let fill = &x[..array.element_size() as usize];
            let report = report_of(&array, &x, &y, Bound::Rel(0.1), None);
            let whole = if is_complex {
                let parts = [0, 1].map(|part| {
                    let [a, b] =
                        [&a, &b].map(|list| list.iter().skip(part).step_by(2).copied().collect::<Vec<_>>());
                    plain_ssim(&a, &b, [1, 9, 10], [1, 7, 7], report.range)
                });
                assert_eq!(report.elements, 90);
                let expected = of_f64(&a, &b, &[180], Bound::Rel(0.1));
                assert_eq!(report.largest_error_index, expected.largest_error_index.map(|i| i / 2));
                assert_eq!((report.rmse, report.bound), (expected.rmse, expected.bound));
                (parts[0] + parts[1]) / 2.0
            } else {
                check_plainly(&report, &a, &b);
                plain_ssim(&a, &b, [1, 9, 20], [1, 7, 7], report.range)
            };
            close(report.ssim_2d, whole);
            // The first element is the fill value and is ignored, in both parts.
            let elements = x.chunks(fill.len()).zip(y.chunks(fill.len()));
            let fills = elements.filter(|(x, y)| (*x == fill) != (*y == fill)).count() as u64;
            let with_fill = report_of(&array, &x, &y, Bound::None, Some(fill));
            assert_eq!(with_fill.fill_mismatches, fills, "{dtype:?}");
            assert!(with_fill.numbers < report.numbers);
        }
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let context = Context::default();
    let kind = |array: &Array, a: &[u8], b: &[u8], bound| {
        compare(array, a, b, bound, &missing(array, None), &context).unwrap_err().kind()
    };
    let floats = array(DType::F32, &[2]);
    assert_eq!(kind(&floats, &[0; 8], &[0; 7], Bound::None), ErrorKind::InvalidArgument);
    assert_eq!(kind(&floats, &[0; 9], &[0; 8], Bound::None), ErrorKind::InvalidArgument);
    let mut range = MissingElements::none(8);
    range.set_limit(0, &[0; 8]).unwrap();
    let complex = array(DType::C64, &[1]);
    let error = compare(&complex, &[0; 8], &[0; 8], Bound::None, &range, &context).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let integers = array(DType::I16, &[2]);
    assert_eq!(kind(&integers, &[0; 4], &[0; 4], Bound::Pwrel(0.1)), ErrorKind::UnsupportedJob);
    let opaque = Array::bytes(4).unwrap();
    assert_eq!(kind(&opaque, &[0; 4], &[0; 4], Bound::None), ErrorKind::UnsupportedJob);

    assert_eq!(Bound::new(Mode::Lossless, 0.0), Ok(Bound::None));
    assert_eq!(Bound::new(Mode::Pwrel, 0.5), Ok(Bound::Pwrel(0.5)));
    for (mode, value) in [
        (Mode::Lossless, 1.0),
        (Mode::Abs, 0.0),
        (Mode::Abs, f64::NAN),
        (Mode::Rel, f64::INFINITY),
        (Mode::Rel, -1.0),
        (Mode::Pwrel, 1.0),
    ] {
        assert_eq!(Bound::new(mode, value).unwrap_err().kind(), ErrorKind::InvalidArgument, "{mode:?} {value}");
    }
    for mode in [Mode::Rate, Mode::Precision, Mode::Rms, Mode::Expert] {
        assert_eq!(Bound::new(mode, 1.0).unwrap_err().kind(), ErrorKind::UnsupportedJob, "{mode:?}");
    }
}

/// True if |x − y| > bound, exactly, for integers times a common power of two.
fn exceeds(x: i64, y: i64, bound: i64) -> bool {
    (i128::from(x) - i128::from(y)).abs() > i128::from(bound)
}

/// A relative bound: value = v · 2^-30, and numbers of 53 bits.
#[test]
fn a_relative_bound_too() {
    let tally = Tally::default();
    proptest!(ProptestConfig::default(), |(x in 1i64 << 30..1 << 53, v in 1i64..1 << 30, off in -2i64..=2)| {
        tally.add("cases");
        let error = ((i128::from(x) * i128::from(v)) >> 30) as i64 + off;
        let y = x - error;
        prop_assume!(y.abs() < 1 << 53);
        let value = v as f64 / f64::from(1 << 30);
        let report = of_f64(&[x as f64], &[y as f64], &[1], Bound::Pwrel(value));
        let is_broken = i128::from(error.abs()) << 30 > i128::from(x) * i128::from(v);
        prop_assert_eq!(report.error_over_bound > 1.0, is_broken);
        tally.add(if is_broken { "broken" } else { "kept" });
    });
    tally.assert("broken", 10);
    tally.assert("kept", 10);
}

/// Integers of at most 53 bits, times a power of two: integer arithmetic decides whether the bound
/// holds.
#[test]
fn a_bound_is_kept_or_broken_as_integers_say() {
    let tally = Tally::default();
    proptest!(ProptestConfig::default(), |(
        x in -(1i64 << 53)..1 << 53,
        y in -(1i64 << 53)..1 << 53,
        off in -2i64..=2,
        exponent in -500i32..500,
    )| {
        tally.add("cases");
        let bound = ((x - y).abs() + off).clamp(1, 1 << 53);
        let scale = 2f64.powi(exponent);
        let report = of_f64(&[x as f64 * scale], &[y as f64 * scale], &[1], Bound::Abs(bound as f64 * scale));
        prop_assert_eq!(report.error_over_bound > 1.0, exceeds(x, y, bound));
        tally.add(if exceeds(x, y, bound) { "broken" } else { "kept" });
        let sum = (report.largest_error / scale) as i128 + (report.largest_error_rest / scale) as i128;
        prop_assert_eq!(sum, (i128::from(x) - i128::from(y)).abs());
    });
    tally.assert("broken", 10);
    tally.assert("kept", 10);
}
