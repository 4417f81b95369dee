//! The lorenzo decoder with any blocks for a small array.
#![no_main]

mod blocks;
mod reach;

use gridz::{DType, Shape};
use gridz_codecs::codec::lorenzo::{Lorenzo, layout};
use libfuzzer_sys::fuzz_target;

const DTYPES: [DType; 7] = [DType::F32, DType::F64, DType::U8, DType::I16, DType::I32, DType::U64, DType::C64];

fuzz_target!(|data: &[u8]| {
    let Some((&[mode, b, x, y, z, at], bytes)) = data.split_first_chunk() else { return };
    let dtype = DTYPES[usize::from(mode >> 4) % DTYPES.len()];
    let shape = Shape::new(&blocks::extents(mode, [x, y, z])).unwrap();
    // Both versions of the payload; version 2 has a period.
    let params = &[[12, 13, 14, 16, 17, 18][usize::from(b % 6)], b / 6, 0, 0, 0][..if b % 6 < 3 { 1 } else { 5 }];
    let layout = layout::new(dtype, &shape, params[0]).unwrap();
    let form = [layout.n_blocks(), layout.table_bytes(), layout.unit()];
    let payload = if mode & 4 == 0 { bytes.to_vec() } else { blocks::with_table(form, &[], bytes) };
    blocks::attack(&Lorenzo, dtype, &shape, params, layout.payload_bound(), &payload, at);
});
