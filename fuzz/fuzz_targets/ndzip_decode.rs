//! The ndzip decoder with any payload for a small array, or with a payload whose table matches its
//! heads, which must decode.
#![no_main]

mod reach;

use std::sync::LazyLock;

use gridz::{DType, Shape};
use gridz_codecs::codec::ndzip::{Ndzip, layout::Layout};
use gridz_codecs::codec::{Codec, Job};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;
use libfuzzer_sys::fuzz_target;
use reach::REACH;

static SERIAL: LazyLock<Pool> = LazyLock::new(|| Pool::new(1));

fuzz_target!(|data: &[u8]| {
    let Some((&[mode, a, b, c], bytes)) = data.split_first_chunk() else { return };
    let dtype = if mode & 1 == 0 { DType::F32 } else { DType::F64 };
    let [a, b, c] = [a, b, c].map(u64::from);
    let shape = match mode >> 1 & 3 {
        0 => Shape::new(&[(a | b << 8) % 12_500]),
        1 => Shape::new(&[a % 140, b % 140]),
        _ => Shape::new(&[a % 36, b % 36, c % 36]),
    }
    .unwrap();
    let is_complete = mode & 8 != 0;
    let payload = if is_complete { complete(&shape, dtype, bytes) } else { bytes.to_vec() };

    let layout = Ndzip.layout(dtype, &shape, &[]).unwrap();
    let job = |level| Job { dtype, shape, layout: &layout, pool: &SERIAL, level, verify: true };
    let n_bytes = shape.n_elements() as usize * dtype.size().unwrap() as usize;
    let mut array = vec![0; n_bytes];
    REACH.reached();
    let result = Ndzip.decode(&job(Isa::PORTABLE), &payload, &mut array);
    for level in Isa::all() {
        let mut same = vec![0; n_bytes];
        assert_eq!(Ndzip.decode(&job(level), &payload, &mut same), result, "{level:?}");
        assert!(result.is_err() || same == array, "{level:?}");
    }
    match result {
        Ok(sums) => assert_eq!(sums, Checksum::of(&payload, 0)),
        Err(error) => return assert!(!is_complete, "{error}"),
    }
    REACH.accepted();
    // Other encoders may produce other streams of this array, but this encoder's stream must decode
    // to it.
    let mut stream = vec![0; Layout::new(&shape, dtype).unwrap().payload_bound() as usize];
    let encoded = Ndzip.encode(&job(Isa::best()), &array, &mut stream).unwrap();
    assert!(encoded.n_bytes <= payload.len() || !is_complete);
    let mut back = vec![1; n_bytes];
    Ndzip.decode(&job(Isa::best()), &stream[..encoded.n_bytes], &mut back).unwrap();
    assert!(back == array);
});

/// A payload with heads, columns and border from `bytes`, then zeros.
fn complete(shape: &Shape, dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let layout = Layout::new(shape, dtype).unwrap();
    let mut bytes = bytes.iter().copied().chain(std::iter::repeat(0));
    let mut payload = vec![0; layout.table_bytes()];
    for block in 0..layout.n_blocks() {
        let heads: Vec<u8> = bytes.by_ref().take(layout.n_heads() * layout.word_bytes()).collect();
        let n_columns: u32 = heads.iter().map(|byte| byte.count_ones()).sum();
        payload.extend(heads);
        payload.extend(bytes.by_ref().take(n_columns as usize * layout.word_bytes()));
        let end = (payload.len() - layout.table_bytes()) / layout.word_bytes();
        payload[4 * block..][..4].copy_from_slice(&(end as u32).to_le_bytes());
    }
    payload.extend(bytes.take(layout.n_border() * layout.word_bytes()));
    payload
}
