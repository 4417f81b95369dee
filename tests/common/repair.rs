//! Making the checksums of a tampered frame right again. The fuzz targets use this file too.

use gridz::format::checksum::checksum;
use gridz::format::header::header_bytes;

/// Makes both checksums of a frame that was tampered with right again, so that what reads it must look
/// at the fields themselves. Does nothing to bytes too short or too odd to tell where the payload is.
pub fn repair(frame: &mut [u8]) {
    if frame.len() < 40 {
        return;
    }
    let header_bytes = header_bytes(frame[9], usize::from(frame[11]));
    if header_bytes > frame.len() {
        return;
    }
    let checksum = checksum(&frame[header_bytes..]);
    frame[24..32].copy_from_slice(&checksum.to_le_bytes());
    frame[32..36].fill(0);
    let crc = crc32c::crc32c(&frame[..header_bytes]);
    frame[32..36].copy_from_slice(&crc.to_le_bytes());
}
