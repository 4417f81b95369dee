//! Any bytes as a frame. The last byte chooses whether its header is completed, so that the checks
//! behind magic and checksums are reached.
#![no_main]

#[path = "../../tests/common/repair.rs"]
mod repair;

use std::sync::LazyLock;

use gridz::codec::registry;
use gridz::format::header::{FORMAT_VERSION, MAGIC, header_bytes};
use gridz::{Context, ErrorKind, Verify};
use libfuzzer_sys::fuzz_target;

/// Larger arrays are refused like too small a destination.
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
        repair::repair(&mut frame);
    }
    let info = gridz::inspect(&frame);
    let n_bytes = info.as_ref().map_or(64, |info| info.array.n_bytes());
    if let Ok(justified) = gridz::array_bytes(&frame, None) {
        let max_expansion = registry::find(frame[5]).unwrap().max_expansion;
        assert!(justified == n_bytes && justified <= max_expansion * frame.len() as u64);
    }
    let mut dst = vec![0; n_bytes.min(MOST_BYTES) as usize];
    let checked = gridz::decompress(&frame, &mut dst, Verify::Checksum, &SERIAL);
    let array = dst.clone();
    let unchecked = gridz::decompress(&frame, &mut dst, Verify::Structure, &SERIAL);
    for result in [&checked, &unchecked] {
        match result {
            Ok(n) => assert!(*n as u64 == n_bytes && info.as_ref().unwrap().frame_bytes == frame.len() as u64),
            Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
        }
    }
    if checked.is_ok() {
        assert!(unchecked.is_ok() && dst == array);
    }
});
