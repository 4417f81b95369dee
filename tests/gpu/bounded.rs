//! quant and multigrid: bounds of all modes, fill values, and elements that have no code or would exceed
//! their bound.

use gridz::{Array, ByteOrder, DType, Request};
use gridz_codecs::codec::missing::MissingElements;
use gridz_codecs::codec::mode::Mode;

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, Layout};
use crate::common::{multigrid, quant};
use crate::driver::Stream;
use crate::{has_gpu, n_cases};

const TYPES: [DType; 18] = [
    DType::F32,
    DType::F64,
    DType::F32,
    DType::I16,
    DType::F64,
    DType::F16,
    DType::F32,
    DType::U8,
    DType::I64,
    DType::Bf16,
    DType::I32,
    DType::C64,
    DType::F64,
    DType::U32,
    DType::U16,
    DType::U64,
    DType::I8,
    DType::C128,
];

pub fn is_float(dtype: DType) -> bool {
    matches!(dtype.parts().0, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
}

/// The number of the type that is nearest to `x`.
pub fn element(dtype: DType, x: f64) -> Vec<u8> {
    match dtype {
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        DType::F64 => x.to_le_bytes().to_vec(),
        DType::Bf16 => ((x as f32).to_bits().wrapping_shr(16) as u16).to_le_bytes().to_vec(),
        DType::F16 => half(x as f32).to_le_bytes().to_vec(),
        _ => (x as i64).to_le_bytes()[..dtype.size().unwrap() as usize].to_vec(),
    }
}

/// A binary16 float, rounded towards zero; 0 if it is too small.
fn half(x: f32) -> u16 {
    let bits = x.to_bits();
    let size = bits & 0x7fff_ffff;
    let place = (size >> 13).saturating_sub((127 - 15) << 10).min(0x7bff);
    (bits >> 16 & 0x8000) as u16 | place as u16
}

/// A smooth array with noise and difficult elements: other magnitudes, NaN, infinities, -0, and the
/// fill value.
pub fn hard(array: &Array, fill: f64, random: &mut Random) -> Vec<u8> {
    let (dtype, parts) = array.dtype().parts();
    let size = dtype.size().unwrap() as usize;
    let extents = array.shape().extents();
    let row = extents.last().copied().unwrap_or(1).max(1) as usize * parts;
    let scale = 2f64.powi(random.below(16) as i32 - 4);
    let (noise, hole, rare) =
        (random.pick(&[0.0, 1e-3, 0.1, 1.0]), random.below(4), random.pick(&[0, 0, 0, 3, 50, 3000]));
    let offset = random.pick(&[0.0, 0.0, 5.0, 100.0]);
    let mut bytes = Vec::with_capacity(array.n_bytes() as usize);
    for i in 0..array.shape().n_elements() as usize * parts {
        let (x, y) = (i % row, i / row);
        let wave = (x as f64 * 0.05).sin() * (y as f64 * 0.03).cos() + offset;
        let u = (random.word() >> 11) as f64 / (1u64 << 53) as f64;
        let mut value = element(dtype, scale * (wave + noise * (u - 0.5)));
        let in_hole = match hole {
            1 => (x as f64 * 0.03).sin() + (y as f64 * 0.02).sin() > 0.9,
            2 => i / 700 % 9 == 4,
            _ => false,
        };
        if in_hole {
            value =
                if is_float(dtype) && random.once_in(9) { element(dtype, f64::NAN) } else { element(dtype, fill) };
        }
        if rare > 0 && random.once_in(rare) {
            let others =
                [fill, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 1e30, 3e38, 1e300, 1e-40, scale * 1e4];
            value = element(dtype, random.pick(&others));
        }
        if rare > 0 && random.once_in(4 * rare) {
            value = random.word().to_le_bytes()[..size].to_vec();
        }
        if array.order() == ByteOrder::Big {
            value.reverse();
        }
        bytes.extend_from_slice(&value);
    }
    bytes
}

/// A random request, whose bound suits some elements of these arrays.
fn spec(dtype: DType, array: &Array, fill: f64, random: &mut Random) -> Request {
    let is_multigrid = matches!(dtype, DType::F32 | DType::F64) && random.once_in(2);
    let mode = random.pick(match is_float(dtype) {
        true if is_multigrid => &[Mode::Abs, Mode::Rel, Mode::Rms][..],
        true => &[Mode::Abs, Mode::Rel, Mode::Pwrel],
        false => &[Mode::Abs, Mode::Rel],
    });
    let value = match mode {
        Mode::Abs | Mode::Rms => random.pick(&[1e-30, 1e-6, 1e-4, 1e-3, 1e-2, 0.25, 1.0, 3.7, 1000.0, 1e19, 1e300]),
        _ => random.pick(&[1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.9]),
    };
    let spec = if is_multigrid {
        format!("multigrid,{}={value:?},layers={}", mode.name(), random.pick(&[1, 2, 3, 8])).parse().unwrap()
    } else {
        quant(mode, value, random.pick(&[1, 2, 3]))
    };
    if random.once_in(2) { spec } else { with_missing(&spec, array, fill, random) }
}

/// The request with this fill value, possibly more fill values, or with a valid range.
pub fn with_missing(spec: &Request, array: &Array, fill: f64, random: &mut Random) -> Request {
    let (number, parts) = array.dtype().parts();
    let in_order = |mut bytes: Vec<u8>| {
        if array.order() == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    };
    let mut missing = MissingElements::none(array.element_size().into());
    let n_more = if random.once_in(2) { 0 } else { 1 + random.below(7) };
    let more: Vec<f64> =
        (0..n_more).map(|_| random.pick(&[0.0, -99.0, 1.0, 2.0, 37.0, 37.5, 1e30, f64::NAN])).collect();
    for fill in std::iter::once(fill).chain(more) {
        // Complex fill values have two parts, which need not be equal.
        let part = |part: usize| fill + if part > 0 { random.pick(&[0.0, 1.0]) } else { 0.0 };
        let bytes: Vec<u8> = (0..parts).map(part).flat_map(|part| in_order(element(number, part))).collect();
        missing.add(&bytes).unwrap();
    }
    if parts == 1 && random.once_in(3) {
        let limits = [random.pick(&[0.0, 1.0]), random.pick(&[2.0, 40.0])];
        for (which, limit) in limits.into_iter().enumerate() {
            if random.once_in(2) {
                missing.set_limit(which, &in_order(element(number, limit))).unwrap();
            }
        }
    }
    spec.with_elements(array, &missing).unwrap()
}

/// Random extents: often those whose blocks take separate code paths.
fn extents(random: &mut Random, most: usize) -> Vec<u64> {
    let sides = |random: &mut Random, n: usize| (0..n).map(|_| 32 * (1 + random.below(3)) as u64).collect();
    match random.below(6) {
        0 => vec![4096 * (1 + random.below(4)) as u64],
        1 => sides(random, 3),
        2 => sides(random, 2),
        3 => vec![1 + random.below(9) as u64, 1 + random.below(40) as u64, 32 * (1 + random.below(2)) as u64],
        n => {
            let rank = n - 3 + random.below(2);
            arrays::extents(random, rank, most)
        }
    }
}

#[test]
fn bounds_of_all_kinds() {
    if !has_gpu("bounds_of_all_kinds") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(77);
    let n_cases = n_cases(600);
    let most = if n_cases < 20 { 60_000 } else { 300_000 };
    for case in 0..n_cases as usize {
        let dtype = TYPES[case % TYPES.len()];
        let order = if random.once_in(6) { ByteOrder::Big } else { ByteOrder::Little };
        let extents = extents(&mut random, most);
        let array = array(dtype, order, &extents);
        if array.shape().n_elements() == 0 {
            continue;
        }
        let fill = random.pick(&[-99.0, 0.0, 1.0, 37.5]);
        let spec = spec(dtype, &array, fill, &mut random);
        let n_chunks = random.pick(&[1, 1, 1, 2, 7]);
        let shift = if random.once_in(4) { random.below(4) } else { 0 };
        let layout = Layout { shift, gap: if shift > 0 { random.below(3) } else { 0 }, ..Layout::of(n_chunks) };
        let chunks: Vec<Vec<u8>> = (0..n_chunks)
            .map(|_| {
                let n = array.shape().n_elements() as usize;
                if random.once_in(8) {
                    let kind = Kind::random(&mut random, n);
                    arrays::bytes(&array, kind, &mut random)
                } else {
                    hard(&array, fill, &mut random)
                }
            })
            .collect();
        let what = format!("case {case}: {spec:?} {dtype:?} {order:?} {extents:?} {layout:?}");
        Batch::new(&stream, array, &spec, layout).check(&chunks, &what);
    }
}

/// At level max, a block whose elements all have codes is compressed row by row. Tests rows of all
/// lengths, in blocks of few and of many planes.
#[test]
fn rows_of_all_lengths() {
    if !has_gpu("rows_of_all_lengths") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(78);
    for case in 0..n_cases(226) as usize {
        let dtype = random.pick(&[DType::F32, DType::F32, DType::F64, DType::I16]);
        // Every length; in between, lengths that fill most of a ring, the longest ones, and short
        // ones, whose rows are joined.
        let length = match case % 2 {
            0 => 16 + case / 2 * 43 % 113,
            _ => [125, 128, 2 + random.below(14), 93, 64, 61, 130][case / 2 % 7],
        };
        let rows = 1 + random.below(40);
        let extents = match random.below(3) {
            0 => vec![16 * rows as u64, length as u64],
            _ => vec![1 + random.below(25) as u64, rows as u64, length as u64],
        };
        let array = array(dtype, ByteOrder::Little, &extents);
        let noise = random.pick(&[0.0, 0.01, 0.5]);
        let bytes: Vec<u8> = (0..array.shape().n_elements() as usize)
            .flat_map(|i| {
                let (x, y) = ((i % length) as f64, (i / length) as f64);
                let u = random.below(1 << 20) as f64 / f64::from(1 << 20);
                element(dtype, 9000.0 * ((x * 0.05).sin() * (y * 0.03).cos() + noise * (u - 0.5)))
            })
            .collect();
        let spec = quant(Mode::Rel, random.pick(&[1e-2, 1e-3, 1e-4, 1e-6]), 3);
        let what = format!("case {case}: {spec:?} {dtype:?} {extents:?} {noise}");
        Batch::new(&stream, array, &spec, Layout::of(1)).check(&[bytes], &what);
    }
}

/// A bound on the mean square takes several passes over an array, and CTAs may still take tiles of
/// passes that are no longer needed. That happens if a pass has few tiles compared with the number
/// of CTAs, on GPUs large and small.
#[test]
fn few_tiles_for_many_ctas() {
    if !has_gpu("few_tiles_for_many_ctas") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(79);
    let shapes =
        [&[24_000][..], &[30_000], &[40_000], &[32, 32, 32], &[64, 64, 64], &[1024, 1024], &[128, 128, 128]];
    for extents in &shapes[..n_cases(shapes.len() as u64) as usize] {
        for (n_chunks, value) in [(1, 1e-3), (3, 0.1), (8, 1e-5)] {
            let array = array(DType::F32, ByteOrder::Little, extents);
            // For zeros the largest bins are found quickly.
            let zeros = vec![0; array.n_bytes() as usize];
            let others = (1..n_chunks).map(|_| hard(&array, -99.0, &mut random));
            let chunks: Vec<Vec<u8>> = std::iter::once(zeros).chain(others).collect();
            for spec in [multigrid(Mode::Rms, value), format!("multigrid,rms={value:?},layers=2").parse().unwrap()]
            {
                Batch::new(&stream, array, &spec, Layout::of(n_chunks))
                    .check(&chunks, &format!("{spec:?} {extents:?}"));
            }
        }
    }
}

/// Errors are summed in steps that are small enough for one CTA, but larger than those that are
/// refined together.
#[test]
fn two_tiles_for_one_cta() {
    if !has_gpu("two_tiles_for_one_cta") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(80);
    let shapes = [&[16, 12, 33, 5][..], &[15, 17, 17, 5], &[45, 47], &[33, 9, 7], &[3001], &[63, 65]];
    for extents in &shapes[..n_cases(shapes.len() as u64) as usize] {
        for dtype in [DType::F32, DType::F64] {
            let array = array(dtype, ByteOrder::Little, extents);
            let chunks: Vec<Vec<u8>> = (0..7).map(|_| hard(&array, -99.0, &mut random)).collect();
            let spec = multigrid(Mode::Rms, 0.01);
            Batch::new(&stream, array, &spec, Layout::of(7)).check(&chunks, &format!("{dtype:?} {extents:?}"));
        }
    }
}
