//! The ndzip codec without frame, folding or fallback to `stored`.

use gridz::{DType, Result, Shape};
use gridz_codecs::codec::ndzip::{Ndzip, layout::Layout};
use gridz_codecs::codec::{Codec, Job};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;

pub fn encode(dtype: DType, extents: &[u64], raw: &[u8], pool: &Pool) -> Vec<u8> {
    let shape = Shape::new(extents).unwrap();
    let bound = Layout::new(&shape, dtype).unwrap().payload_bound();
    let mut stream = vec![0xee; bound as usize];
    let layout = Ndzip.layout(dtype, &shape, &[]).unwrap();
    let job = Job { dtype, shape, layout: &layout, pool, level: Isa::best(), verify: true };
    let encoded = Ndzip.encode(&job, raw, &mut stream).unwrap();
    stream.truncate(encoded.n_bytes);
    assert_eq!(encoded.sums, Checksum::of(&stream, 0));
    stream
}

pub fn decode(dtype: DType, extents: &[u64], stream: &[u8], pool: &Pool) -> Result<Vec<u8>> {
    let shape = Shape::new(extents).unwrap();
    let layout = Ndzip.layout(dtype, &shape, &[])?;
    let job = Job { dtype, shape, layout: &layout, pool, level: Isa::best(), verify: true };
    let n_bytes = job.shape.n_elements() * u64::from(dtype.size().unwrap());
    let mut raw = vec![0xdd; n_bytes as usize];
    let sums = Ndzip.decode(&job, stream, &mut raw)?;
    assert_eq!(sums, Checksum::of(stream, 0));
    Ok(raw)
}
