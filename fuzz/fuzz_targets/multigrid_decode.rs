//! The multigrid codec with any elements and any bound, and its decoder with payloads damaged in a few
//! places. Random bytes would not pass the checks of the lengths at the front.
#![no_main]

mod blocks;
mod reach;

use gridz::{DType, Mode, Shape};
use gridz_codecs::codec::multigrid::Multigrid;
use gridz_codecs::codec::{Codec, Detail, Job, CodecState, Progressive};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, with, x, y, z, at, v], rest)) = data.split_first_chunk() else { return };
    // Positions and replacement bytes of the damages; then the elements.
    let n_damaged = usize::from(with >> 4 & 3);
    let Some((damages, bytes)) = rest.split_at_checked(3 * n_damaged) else { return };
    if bytes.is_empty() {
        return;
    }
    let dtype = if kind & 16 == 0 { DType::F32 } else { DType::F64 };
    let size = dtype.size().unwrap() as usize;
    let mut extents = blocks::extents(kind, [x, y, z]);
    if with & 128 != 0 {
        // One more axis: up to four in total.
        extents.insert(0, 2 + u64::from(at % 5));
    }
    let shape = Shape::new(&extents).unwrap();
    let value = f64::from_bits((u64::from(v) << 3).clamp(1, 2046) << 52);
    let mode = [Mode::Abs, Mode::Rel, Mode::Rms][usize::from(with & 3) % 3];
    let n_layers = 1 + (kind >> 5 & 3);
    let mut params = [[mode.id(), 1, n_layers - 1, 0, 0, 0, 0, 0], value.to_le_bytes()].concat();
    if with & 64 != 0 {
        params.extend((1..=size as u8).map(|i| v.wrapping_mul(i) | 1));
    }
    let layout = Multigrid.layout(dtype, &shape, &params).unwrap();

    let pool = Pool::new(1);
    let job = Job { dtype, shape, layout: &layout, pool: &pool, level: Isa::best(), verify: false };
    let array: Vec<u8> = bytes.iter().copied().cycle().take(shape.n_elements() as usize * size).collect();
    let mut payload = vec![0; 2 * (array.len() + array.len() / 32 + 4096)];
    let n_bytes = Multigrid.encode(&job, &array, &mut payload).unwrap().n_bytes;
    if n_bytes >= array.len() {
        return;
    }
    payload.truncate(n_bytes);
    for &[low, high, wrong] in damages.as_chunks().0 {
        let place = usize::from(u16::from_le_bytes([low, high])) % n_bytes;
        payload[place] ^= wrong;
    }
    let decoded = blocks::decode(&Multigrid, dtype, &shape, &params, &payload, at);
    assert!(n_damaged > 0 || decoded.is_some());

    let details = [Detail::Level((at & 7).into()), Detail::Layers((v & 7).into()), Detail::Error(value)];
    details.into_iter().for_each(|detail| read_part(&layout, &job, &payload, detail));
});

/// Decodes a part of a payload, which may be damaged: from the whole payload, and from only the bytes
/// that the part needs. Both must agree.
fn read_part(layout: &CodecState, job: &Job, payload: &[u8], detail: Detail) {
    let n_all = payload.len() as u64;
    let Ok(part) = Multigrid.part(layout, payload, n_all, detail) else { return };
    let size = job.dtype.size().unwrap() as usize;
    let nodes = job.shape.extents().iter().map(|n| n.div_ceil(1 << part.level) as usize);
    let mut dst = vec![0; nodes.product::<usize>() * size];
    let whole = Multigrid.decode_part(job, payload, n_all, &part, &mut dst);
    let mut again = vec![0; dst.len()];
    let cut = Multigrid.decode_part(job, &payload[..part.n_bytes as usize], n_all, &part, &mut again);
    assert_eq!(whole, cut);
    assert!(whole.is_err() || dst == again);
}
