//! The huffman decoder with any blocks for a small array.
#![no_main]

mod blocks;
mod reach;

use gridz::{DType, Shape};
use gridz_codecs::codec::huffman::{Huffman, params};
use libfuzzer_sys::fuzz_target;

const DTYPES: [DType; 6] = [DType::U8, DType::U16, DType::U32, DType::I8, DType::I16, DType::I32];

fuzz_target!(|data: &[u8]| {
    let Some((&[mode, b, x, y, at], bytes)) = data.split_first_chunk() else { return };
    let dtype = DTYPES[usize::from(mode >> 4) % DTYPES.len()];
    // After folding, there is one axis.
    let shape = Shape::new(&blocks::extents(0, [x, y, 0])).unwrap();
    let params = [12 + b % 5];
    let layout = params::layout(&shape, dtype.size().unwrap() as usize, params[0]).unwrap();
    let form = [layout.n_blocks(), layout.table_bytes(), layout.unit()];
    let payload = if mode & 4 == 0 { bytes.to_vec() } else { blocks::with_table(form, &[], bytes) };
    blocks::attack(&Huffman, dtype, &shape, &params, layout.payload_bound(), &payload, at);
});
