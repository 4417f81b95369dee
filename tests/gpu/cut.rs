//! zfp: blocks truncated by rate, precision, bounds or all four numbers, fill values, elements that
//! blocks cannot represent, arrays without a range, and chunks of a few elements.

use gridz::{ByteOrder, DType, Mode, Request};

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, Layout};
use crate::bounded::{element, hard, is_float, with_missing};
use crate::driver::Stream;
use crate::{has_gpu, n_cases};

const TYPES: [DType; 6] = [DType::F32, DType::F64, DType::F32, DType::I32, DType::F64, DType::I64];

/// A random request for such elements.
fn spec(dtype: DType, random: &mut Random) -> Request {
    let n = if is_float(dtype) { 6 } else { 3 };
    let text = match random.below(n) {
        0 => format!("zfp,rate={}", random.pick(&[3.1, 4.0, 8.0, 9.5, 16.0, 24.0, 31.0])),
        1 => format!("zfp,precision={}", random.pick(&[1, 5, 14, 23, 40, 64])),
        2 => {
            let (least, most) = random.pick(&[(0, 16658), (20, 300), (64, 64), (1, 40), (100, 101)]);
            let (planes, exponent) = (random.pick(&[64, 20, 3]), random.pick(&[-1074, -12, 0]));
            format!("zfp,expert,minbits={least},maxbits={most},maxprec={planes},minexp={exponent}")
        }
        3 => format!(
            "zfp,rel={}",
            random.pick(&["1e-300", "1e-9", "1e-6", "1e-4", "1e-3", "0.01", "0.1", "0.9", "7.0"])
        ),
        _ => format!(
            "zfp,abs={}",
            random.pick(&[
                "1e-300", "1e-30", "1e-6", "1e-3", "0.01", "0.25", "3.7", "1000.0", "1e19", "1e33", "1e300"
            ])
        ),
    };
    text.parse().unwrap()
}

#[test]
fn blocks_that_are_cut() {
    if !has_gpu("blocks_that_are_cut") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(79);
    let n_cases = n_cases(600);
    let most = if n_cases < 20 { 60_000 } else { 300_000 };
    for case in 0..n_cases as usize {
        let dtype = TYPES[case % TYPES.len()];
        let order = if random.once_in(6) { ByteOrder::Big } else { ByteOrder::Little };
        let extents = arrays::extents(&mut random, 1 + case / 2 % 4, most);
        let array = array(dtype, order, &extents);
        let n = array.shape().n_elements() as usize;
        if n == 0 {
            continue;
        }
        let fill = random.pick(&[-99.0, 0.0, 1.0, 37.0]);
        let mut spec = spec(dtype, &mut random);
        if random.once_in(2) {
            spec = with_missing(&spec, &array, fill, &mut random);
        }
        let n_chunks = random.pick(&[1, 1, 1, 2, 7]);
        let shift = if random.once_in(4) { random.below(4) } else { 0 };
        let layout = Layout { shift, gap: if shift > 0 { random.below(3) } else { 0 }, ..Layout::of(n_chunks) };
        let chunks: Vec<Vec<u8>> = (0..n_chunks)
            .map(|_| match random.once_in(4) {
                true => arrays::bytes(&array, Kind::random(&mut random, n), &mut random),
                false => hard(&array, fill, &mut random),
            })
            .collect();
        let what = format!("case {case}: {spec:?} {dtype:?} {order:?} {extents:?} {layout:?}");
        Batch::new(&stream, array, &spec, layout).check(&chunks, &what);
    }
}

/// With few planes, elements below 2^k decode to -2^k; that must not be a fill value.
#[test]
fn blocks_that_decode_to_their_limit() {
    if !has_gpu("blocks_that_decode_to_their_limit") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(53);
    for (dtype, fill) in [(DType::F32, -2.0), (DType::F64, -2.0), (DType::F32, 2.0)] {
        for extents in [&[16_000][..], &[128, 125], &[20, 40, 20]] {
            for text in ["zfp,rate=4", "zfp,precision=2", "zfp,precision=4"] {
                let array = array(dtype, ByteOrder::Little, extents);
                let spec = text.parse::<Request>().unwrap().with_fill(&array, &element(dtype, fill)).unwrap();
                let n = array.shape().n_elements();
                let chunk: Vec<u8> =
                    (0..n).flat_map(|_| element(dtype, random.pick(&[0.75, -0.75, 0.5, -0.5, 0.9]))).collect();
                Batch::new(&stream, array, &spec, Layout::of(1))
                    .check(&[chunk], &format!("{spec} {dtype:?} {extents:?}"));
            }
        }
    }
}

/// Chunks whose header alone is longer than their stored data.
#[test]
fn chunks_of_a_few_elements() {
    if !has_gpu("chunks_of_a_few_elements") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(80);
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        for extents in [&[1][..], &[2], &[5], &[8], &[3, 2], &[4, 4], &[2, 2, 2], &[2, 2, 2, 2], &[4, 2, 3, 3]] {
            let array = array(dtype, ByteOrder::Little, extents);
            for spec in ["zfp", "zfp,rate=8", "zfp,rate=31", "zfp,precision=23", "zfp,abs=1e-6"] {
                let spec: Request = spec.parse().unwrap();
                if spec.mode() == Mode::Abs && !is_float(dtype) {
                    continue;
                }
                let chunks: Vec<Vec<u8>> = (0..10).map(|_| hard(&array, 37.0, &mut random)).collect();
                let what = format!("{spec:?} {dtype:?} {extents:?}");
                Batch::new(&stream, array, &spec, Layout::of(chunks.len())).check(&chunks, &what);
            }
        }
    }
}

/// A batch with chunks without a range, with the smallest range, with the largest, and others.
#[test]
fn ranges_at_their_ends() {
    if !has_gpu("ranges_at_their_ends") {
        return;
    }
    const FILL: f64 = -99.0;
    let stream = Stream::new();
    for (dtype, least, most) in [(DType::F32, 1e-45, f64::from(f32::MAX)), (DType::F64, 5e-324, f64::MAX)] {
        for extents in [&[1][..], &[5000], &[70, 90], &[9, 10, 300]] {
            let array = array(dtype, ByteOrder::Little, extents);
            let n = array.shape().n_elements() as usize;
            let kinds: [&dyn Fn(usize) -> f64; 10] = [
                &|_| f64::NAN,
                &|_| FILL,
                &|_| 3.25,
                &|i| [0.0, -0.0][i % 2],
                &|i| [f64::INFINITY, f64::NEG_INFINITY, f64::NAN][i % 3],
                &|i| [most, -most][i % 2],
                &|i| least * (i % 7) as f64,
                &|i| (i as f64 * 0.05).sin(),
                &|i| if i == n / 2 { FILL } else { 3.25 },
                &|i| if i + 1 == n { 4.0 } else { [FILL, 3.25, f64::NAN][i % 3] },
            ];
            let chunks: Vec<Vec<u8>> =
                kinds.iter().map(|kind| (0..n).flat_map(|i| element(dtype, kind(i))).collect()).collect();
            for value in ["1e-300", "1e-6", "0.5", "1e300"] {
                let without: Request = format!("zfp,rel={value}").parse().unwrap();
                let with = without.with_fill(&array, &element(dtype, FILL)).unwrap();
                for spec in [without, with] {
                    let what = format!("{spec:?} {dtype:?} {extents:?}");
                    Batch::new(&stream, array, &spec, Layout::of(chunks.len())).check(&chunks, &what);
                }
            }
        }
    }
}
