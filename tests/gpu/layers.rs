//! multigrid with several layers: the GPU's frames equal the CPU's in all modes, and the cases for which
//! layers exist do occur.

use gridz::{Array, ByteOrder, DType, Request};
use gridz_codecs::codec::mode::Mode;
use gridz_codecs::format::header::header_bytes;

use crate::arrays::{self, Random, array};
use crate::batch::{Batch, Layout};
use crate::bounded::{element, with_missing};
use crate::common::{compress, compresses_on_gpu};
use crate::driver::Stream;
use crate::hostile::head_check;
use crate::{cpu, has_gpu, n_cases};

/// Waves along all axes, with noise, outliers, and a mask of fill values or NaN.
fn field(array: &Array, fill: f64, random: &mut Random) -> Vec<u8> {
    let dtype = array.dtype();
    let extents = array.shape().extents();
    let lengths: Vec<f64> = extents.iter().map(|_| random.pick(&[0.003, 0.02, 0.1, 0.7])).collect();
    let noise = random.pick(&[0.0, 1e-5, 1e-3, 0.1]);
    let (wild, mask) = (random.pick(&[0, 0, 5000, 100]), random.below(3));
    let scale = random.pick(&[1.0, 1.0, 300.0]);
    // Values near the fill value: decoding could produce the fill value, which is valid only for
    // elements that had it.
    let is_near_fill = random.once_in(3);
    let mut bytes = Vec::with_capacity(array.n_bytes() as usize);
    for i in 0..array.shape().n_elements() as usize {
        let (mut rest, mut wave, mut hole) = (i, 0.0, 0.0);
        for (&extent, &length) in extents.iter().zip(&lengths).rev() {
            let x = (rest % extent as usize) as f64;
            rest /= extent as usize;
            wave += (x * length).sin();
            hole += (x * 0.04).cos();
        }
        let u = (random.word() >> 11) as f64 / (1u64 << 53) as f64;
        let mut value =
            if is_near_fill { fill * (1.0 + 4e-6 * (u - 0.5)) } else { scale * (wave + noise * (u - 0.5)) };
        if mask > 0 && hole > 0.6 * extents.len() as f64 {
            value = if mask == 1 { fill } else { f64::NAN };
        }
        if wild > 0 && random.once_in(wild) {
            // Some of the large values are close enough for the bounds of the first layers only.
            let large = [40.0, 300.0, 2000.0, 1e4, 1e5, 1e6].map(|factor| factor * scale * (0.5 + u));
            let others = [fill, 1e30, f64::INFINITY, f64::NAN, -0.0, 1e-42];
            value = if random.once_in(2) { random.pick(&large) } else { random.pick(&others) };
        }
        let mut value = element(dtype, value);
        if array.order() == ByteOrder::Big {
            value.reverse();
        }
        bytes.extend(value);
    }
    bytes
}

/// Counts of the cases that occurred in frames.
#[derive(Debug, Default)]
struct Seen {
    stored: usize,
    encoded: usize,
    /// Layers with exact elements: first layers, and later ones.
    exact: [usize; 2],
    /// Later layers in which any step predicts, and in which some do not.
    predicts: [usize; 2],
}

impl Seen {
    /// Adds the counts from a frame's head.
    fn add(&mut self, frame: &[u8], array: &Array, n_layers: usize) {
        if gridz::inspect(frame).unwrap().codec_name != Some("multigrid") {
            self.stored += 1;
            return;
        }
        self.encoded += 1;
        let extents = array.shape().extents();
        let levels = (u64::BITS - (extents.iter().max().unwrap() - 1).leading_zeros()) as usize;
        let payload = &frame[header_bytes(array.shape().rank(), usize::from(frame[11]))..];
        let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap());
        let first = 32 + 8 * levels;
        self.exact[0] += usize::from(number(first) > 0);
        let mut at = first + 8 + 24;
        for _ in 1..n_layers {
            self.exact[1] += usize::from(number(at + 24) > 0);
            let predicts = number(at + 32);
            self.predicts[0] += usize::from(predicts != 0);
            self.predicts[1] += usize::from(predicts.trailing_ones() < levels as u32);
            at += 48 + 8 * levels;
        }
        assert_eq!(payload[at..at + 8], head_check(&payload[..at]), "where the check is");
    }
}

#[test]
fn frames_of_layers() {
    if !has_gpu("frames_of_layers") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(21);
    let n_cases = n_cases(300) as usize;
    let most = if n_cases < 20 { 100_000 } else { 600_000 };
    let mut seen = Seen::default();
    for case in 0..n_cases {
        let dtype = [DType::F32, DType::F64][case % 2];
        let order = if random.once_in(5) { ByteOrder::Big } else { ByteOrder::Little };
        let extents = arrays::extents(&mut random, 1 + case / 2 % 4, most);
        let array = array(dtype, order, &extents);
        let mode = [Mode::Abs, Mode::Rms, Mode::Rel][case % 3];
        let value: f64 = random.pick(&[1e-7, 1e-5, 1e-4, 1e-3, 0.02]);
        let n_layers = random.pick(&[2, 2, 3, 4, 8]);
        let spec: Request = format!("multigrid,{}={value:?},layers={n_layers}", mode.name()).parse().unwrap();
        let fill: f64 = random.pick(&[-99.0, 1.0, 0.25]);
        let spec = if random.once_in(2) { with_missing(&spec, &array, fill, &mut random) } else { spec };
        assert!(compresses_on_gpu(&array, &spec), "{spec:?}");
        let n_chunks = random.pick(&[1, 1, 2, 5]);
        let layout = Layout { has_workspace: random.once_in(2), ..Layout::of(n_chunks) };
        let chunks: Vec<Vec<u8>> = (0..n_chunks).map(|_| field(&array, fill, &mut random)).collect();
        let what = format!("case {case}: {spec:?} {dtype:?} {order:?} {extents:?} {layout:?}");
        Batch::new(&stream, array, &spec, layout).check(&chunks, &what);
        for chunk in &chunks {
            seen.add(&compress(&array, &spec, chunk, &cpu()), &array, n_layers);
        }
    }
    println!("{seen:?}");
    if n_cases >= 20 {
        let Seen { stored, encoded, exact, predicts } = seen;
        assert!(stored.min(encoded).min(exact[0]).min(exact[1]).min(predicts[0]).min(predicts[1]) > 0);
    }
}
