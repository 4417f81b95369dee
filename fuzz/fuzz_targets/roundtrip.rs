//! Round trips of any array. Lossless codecs restore the array; codecs with a bound return an array
//! that does not change in further round trips. The frame is within its bound, and the same at
//! every CPU level.
#![no_main]

mod reach;

use std::sync::LazyLock;

use gridz::{Array, ByteOrder, Context, DType, Mode, Request, Shape, Verify};
use gridz_codecs::codec::registry::CODECS;
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::format::header::header_bytes;
use libfuzzer_sys::fuzz_target;
use reach::REACH;

/// Larger arrays would only slow the fuzzer down.
const MOST_ELEMENTS: u64 = 10_000;

/// A context per level, the portable one first.
static SERIAL: LazyLock<Vec<Context>> = LazyLock::new(|| {
    Isa::all().map(|level| Context::new(Some(1), None).unwrap().with_level(level.kind()).unwrap()).collect()
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
    // The input is repeated up to the array's size.
    let n_bytes = array.n_bytes() as usize;
    let raw: Vec<u8> = if values.is_empty() {
        vec![0; n_bytes]
    } else {
        values.repeat(n_bytes / values.len() + 1)[..n_bytes].to_vec()
    };

    let levels: Vec<u16> = entry.level_numbers().chain([0]).collect();
    let level = u32::from(levels[usize::from(order_and_level >> 1) % levels.len()]);
    let spec = match Request::new(u32::from(entry.id), level) {
        Ok(spec) => spec,
        // The value is any number; some are invalid as a bound.
        Err(_) => {
            let value = f64::from_bits(u64::from_le_bytes(*raw.first_chunk().unwrap_or(&[0x3f; 8])));
            let modes = entry.modes.iter().map(|mode| mode.id());
            let mode = modes.cycle().nth(usize::from(codec) / CODECS.len()).unwrap();
            let Ok(spec) = Request::with_mode(entry.id.into(), mode.into(), value.abs(), level) else { return };
            spec
        }
    };
    let Ok(bound) = gridz::compress_bound(&array, &spec) else { return };
    REACH.reached();
    let mut frame = vec![0xaa; bound as usize];
    let frame_bytes = gridz::compress(&array, &spec, &raw, &mut frame, &SERIAL[0]).unwrap();
    let frame = &frame[..frame_bytes];
    // Arrays that the codec cannot compress are stored.
    if frame[5] == entry.id {
        REACH.accepted();
    }
    assert!(frame_bytes <= header_bytes(array.shape().rank(), 0) + n_bytes);
    assert_eq!(gridz::inspect(frame).unwrap().array, array);
    assert_eq!(gridz::Frame::parse(frame).and_then(|frame| frame.array_bytes(None)), Ok(n_bytes as u64));
    let decode = |frame: &[u8], context: &Context| {
        let mut back = vec![0x55; n_bytes];
        assert_eq!(gridz::decompress(frame, gridz::Part::All, &mut back, Verify::Checksum, context), Ok(n_bytes));
        back
    };
    let expected = if spec.mode() == Mode::Lossless { raw.clone() } else { decode(frame, &SERIAL[0]) };
    for context in &*SERIAL {
        let mut other = vec![0xbb; bound as usize];
        assert_eq!(gridz::compress(&array, &spec, &raw, &mut other, context), Ok(frame_bytes));
        assert!(other[..frame_bytes] == *frame);
        assert!(decode(frame, context) == expected);
    }
    if spec.mode() != Mode::Rel {
        let mut again = vec![0xcc; bound as usize];
        let n = gridz::compress(&array, &spec, &expected, &mut again, &SERIAL[0]).unwrap();
        assert!(decode(&again[..n], &SERIAL[0]) == expected);
    }
});
