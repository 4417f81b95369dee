//! Any array comes back, from a frame no longer than it may be, which is the same from every CPU level.
#![no_main]

use std::sync::LazyLock;

use gridz::codec::registry::CODECS;
use gridz::cpu::level::Level;
use gridz::format::header::header_bytes;
use gridz::{Array, ByteOrder, Context, DType, Shape, Request, Verify};
use libfuzzer_sys::fuzz_target;

/// Larger arrays only make the fuzzer slow.
const MOST_ELEMENTS: u64 = 10_000;

/// A context per level, the portable one first.
static SERIAL: LazyLock<Vec<Context>> = LazyLock::new(|| {
    Level::all().map(|level| Context::new(Some(1), None).unwrap().with_level(level.kind()).unwrap()).collect()
});

fuzz_target!(|data: &[u8]| {
    let Some((&[codec, dtype, order_and_level, rank], bytes)) = data.split_first_chunk() else { return };
    let entry = &CODECS[usize::from(codec) % CODECS.len()];
    let Some((extents, values)) = bytes.split_at_checked(2 * (usize::from(rank) % 9)) else { return };
    let mut n_elements = 1;
    let mut shape = Vec::new();
    for extent in extents.chunks_exact(2) {
        let extent = u64::from(u16::from_le_bytes([extent[0], extent[1]])) % (MOST_ELEMENTS / n_elements + 1);
        n_elements *= extent.max(1);
        shape.push(extent);
    }
    let shape = Shape::new(&shape).unwrap();
    let order = if order_and_level & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let array = match DType::from_id(dtype % 15).unwrap() {
        DType::Opaque => Array::opaque(u32::from(dtype) + 1, shape).unwrap(),
        dtype => Array::new(dtype, order, shape).unwrap(),
    };
    // Elements that the input does not reach repeat it.
    let n_bytes = array.n_bytes() as usize;
    let raw: Vec<u8> = if values.is_empty() {
        vec![0; n_bytes]
    } else {
        values.repeat(n_bytes / values.len() + 1)[..n_bytes].to_vec()
    };

    let levels: Vec<u16> = entry.level_numbers().chain([0]).collect();
    let level = u32::from(levels[usize::from(order_and_level >> 1) % levels.len()]);
    let spec = Request::new(u32::from(entry.id), level).unwrap();
    let mut frame = vec![0xaa; gridz::compress_bound(&array, &spec).unwrap() as usize];
    let frame_bytes = gridz::compress(&array, &spec, &raw, &mut frame, &SERIAL[0]).unwrap();
    let frame = &frame[..frame_bytes];
    assert!(frame_bytes <= header_bytes(array.shape().rank(), 0) + n_bytes);
    assert_eq!(gridz::inspect(frame).unwrap().array, array);
    assert_eq!(gridz::array_bytes(frame, None), Ok(n_bytes as u64));
    for context in &*SERIAL {
        let mut other = vec![0xbb; gridz::compress_bound(&array, &spec).unwrap() as usize];
        assert_eq!(gridz::compress(&array, &spec, &raw, &mut other, context), Ok(frame_bytes));
        assert!(other[..frame_bytes] == *frame);
        let mut back = vec![0x55; n_bytes];
        assert_eq!(gridz::decompress(frame, &mut back, Verify::Checksum, context), Ok(n_bytes));
        assert!(back == raw);
    }
});
