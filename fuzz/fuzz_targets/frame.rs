//! Any bytes as a frame. The last byte selects whether its header is completed, so that the checks
//! after magic and checksums are reached.
#![no_main]

#[path = "../../tests/common/decoder.rs"]
#[allow(dead_code, reason = "this target only asks whether there is a decoder")]
mod decoder;
mod reach;
#[path = "../../tests/common/repair.rs"]
mod repair;

use std::sync::LazyLock;

use gridz::{Context, ErrorKind, Verify};
use gridz_codecs::codec::registry;
use gridz_codecs::format::header::{FORMAT_VERSION, MAGIC, header_bytes};
use libfuzzer_sys::fuzz_target;
use reach::REACH;

/// Larger arrays are refused, as for a destination that is too small.
const MOST_BYTES: u64 = 1 << 20;

static SERIAL: LazyLock<Context> = LazyLock::new(|| Context::new(Some(1), None).unwrap());

fuzz_target!(|data: &[u8]| {
    let Some((mode, bytes)) = data.split_last() else { return };
    let mut frame = bytes.to_vec();
    if mode & 1 != 0 && frame.len() >= 40 {
        frame[..4].copy_from_slice(&MAGIC);
        frame[4] = FORMAT_VERSION;
        let payload_bytes = frame.len().saturating_sub(header_bytes(frame[9], usize::from(frame[11])));
        frame[16..24].copy_from_slice(&(payload_bytes as u64).to_le_bytes());
        // In half of the inputs, the checks of blocks are left unchanged.
        if mode & 2 == 0 { repair::repair(&mut frame) } else { repair::reseal(&mut frame) }
    }
    let info = gridz::inspect(&frame);
    let n_bytes = info.as_ref().map_or(64, |info| info.array.n_bytes());
    if let Ok(justified) = gridz::Frame::parse(&frame).and_then(|frame| frame.array_bytes(None)) {
        let max_expansion = registry::find(frame[5]).unwrap().max_expansion;
        assert!(justified == n_bytes && justified <= max_expansion * frame.len() as u64);
    }
    let mut dst = vec![0; n_bytes.min(MOST_BYTES) as usize];
    if n_bytes <= MOST_BYTES && decoder::Decoder::of(&frame).is_ok() {
        REACH.reached();
    }
    let checked = gridz::decompress(&frame, gridz::Part::All, &mut dst, Verify::Checksum, &SERIAL);
    let array = dst.clone();
    let unchecked = gridz::decompress(&frame, gridz::Part::All, &mut dst, Verify::Structure, &SERIAL);
    for result in [&checked, &unchecked] {
        match result {
            Ok(n) => assert!(*n as u64 == n_bytes && info.as_ref().unwrap().frame_bytes == frame.len() as u64),
            Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
        }
    }
    if checked.is_ok() {
        REACH.accepted();
        assert!(unchecked.is_ok() && dst == array);
    }
});
