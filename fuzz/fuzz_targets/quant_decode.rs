//! The quant decoder with any bound and any blocks for a small array.
#![no_main]

mod blocks;
mod reach;

use gridz::{DType, Mode, Shape};
use gridz_codecs::codec::quant::Quant;
use gridz_codecs::codec::quant::layout;
use gridz_codecs::codec::quant::params::QuantLevel;
use libfuzzer_sys::fuzz_target;

const DTYPES: [DType; 8] =
    [DType::F32, DType::F64, DType::U8, DType::I16, DType::F16, DType::U32, DType::I64, DType::C64];

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, with, x, y, z, at, v, w], bytes)) = data.split_first_chunk() else { return };
    let dtype = DTYPES[usize::from(kind >> 4) % DTYPES.len()];
    let is_float = matches!(dtype, DType::F16 | DType::F32 | DType::F64 | DType::C64);
    let shape = Shape::new(&blocks::extents(kind, [x, y, z])).unwrap();
    let mode = if with & 1 == 1 && is_float { Mode::Pwrel } else { Mode::Abs };
    // A bound of any magnitude, but below 1 if it is relative.
    let exponent =
        if mode == Mode::Pwrel { 1022 - u64::from(v % 60) } else { u64::from(v) << 3 | u64::from(w & 7) };
    let value = f64::from_bits(exponent.clamp(1, 2046) << 52 | u64::from(w) << 44);
    let (level, id) =
        [(QuantLevel::Fast, 0), (QuantLevel::Max, 3), (QuantLevel::Dense, 2), (QuantLevel::Fast, 0)][usize::from(with >> 2 & 3)];
    let mut params = vec![level.log2_size(), 2, mode.id(), id];
    params.extend(value.to_le_bytes());
    if with & 2 != 0 {
        params.extend((0..dtype.size().unwrap()).map(|i| w.wrapping_mul(i as u8) | 1));
    }
    let layout = layout(dtype, &shape, 2, level).unwrap();
    let form = [layout.n_blocks(), layout.table_bytes(), layout.unit()];
    let payload =
        if kind & 4 == 0 { bytes.to_vec() } else { blocks::with_table(form, &value.to_le_bytes(), bytes) };
    blocks::attack(&Quant, dtype, &shape, &params, layout.payload_bound(), &payload, at);
});
