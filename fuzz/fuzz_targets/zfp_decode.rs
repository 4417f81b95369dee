//! The zfp codec with any elements and any parameters, and its decoder with payloads damaged in a
//! few places. Random bytes would not pass the checks of the sums in the index.
#![no_main]

mod blocks;
mod reach;

use gridz::{DType, Mode, Shape};
use gridz_codecs::codec::missing::MissingElements;
use gridz_codecs::codec::zfp::Zfp;
use gridz_codecs::codec::zfp::numbers::{Numbers, REVERSIBLE};
use gridz_codecs::codec::zfp::params::{Asked, are_possible, bounded};
use gridz_codecs::codec::{Codec, Job};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use libfuzzer_sys::fuzz_target;

const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::I32, DType::I64];

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, with, x, y, z, at, v, w], rest)) = data.split_first_chunk() else { return };
    // Positions and replacement bytes of the damages; then the elements.
    let n_damaged = usize::from(with >> 4 & 3);
    let Some((damages, bytes)) = rest.split_at_checked(3 * n_damaged) else { return };
    if bytes.is_empty() {
        return;
    }
    let dtype = DTYPES[usize::from(kind >> 4) % DTYPES.len()];
    let size = dtype.size().unwrap() as usize;
    let mut extents = blocks::extents(kind, [x, y, z]);
    if with & 128 != 0 {
        // One more axis: up to four in total.
        extents.insert(0, 2 + u64::from(at % 5));
    }
    let shape = Shape::new(&extents).unwrap();
    let is_float = matches!(dtype, DType::F32 | DType::F64);
    let bound = f64::from_bits((u64::from(v) << 3 | u64::from(w & 7)).clamp(1, 2046) << 52);
    let default = Numbers::DEFAULT;
    let (mode, value, numbers) = match with & 3 {
        0 => (Mode::Lossless, 0.0, Numbers { minexp: REVERSIBLE, ..default }),
        1 if is_float => (Mode::Abs, bound, bounded(bound)),
        2 if is_float => (Mode::Rel, bound.min(0.5), default),
        _ => {
            let [minbits, more] = [v, w].map(u32::from);
            let maxbits = minbits + if with & 4 == 0 { 0 } else { 1 + 9 * more };
            let minexp = if with & 8 == 0 { default.minexp } else { i32::from(w) - 128 };
            (Mode::Expert, 0.0, Numbers { minbits, maxbits, maxprec: 1 + more % 64, minexp })
        }
    };
    if !are_possible(mode, &numbers, dtype) {
        return;
    }
    let has_fill = with & 64 != 0 && mode != Mode::Lossless;
    let mut missing = MissingElements::none(size as u64);
    if has_fill {
        let fills: [[u8; 8]; 2] = [0, 1].map(|k| std::array::from_fn(|i| w.wrapping_mul(i as u8) | k));
        // One fill value, or several.
        fills[..1 + usize::from(w & 1)].iter().for_each(|fill| missing.add(&fill[..size]).unwrap());
    }
    let params = Asked { mode, value, numbers, missing }.to_params();
    let Ok(layout) = Zfp.layout(dtype, &shape, &params) else { return };

    let pool = Pool::new(1);
    let job = Job { dtype, shape, layout: &layout, pool: &pool, level: Isa::best(), verify: false };
    let array: Vec<u8> = bytes.iter().copied().cycle().take(shape.n_elements() as usize * size).collect();
    let mut payload = vec![0; array.len()];
    let n_bytes = Zfp.encode(&job, &array, &mut payload).unwrap().n_bytes;
    if n_bytes >= array.len() {
        return;
    }
    payload.truncate(n_bytes);
    // Half of them relative to the end, where index and tail are.
    for &[low, high, wrong] in damages.as_chunks().0 {
        let place = usize::from(u16::from_le_bytes([low, high & 127])) % n_bytes;
        payload[if high < 128 { place } else { n_bytes - 1 - place }] ^= wrong;
    }
    let decoded = blocks::decode(&Zfp, dtype, &shape, &params, &payload, at);
    assert!(n_damaged > 0 || decoded.is_some_and(|decoded| mode != Mode::Lossless || decoded == array));
});
