//! Chunks of more than 4 GiB. They are filled on the device with pieces whose length divides no
//! power of two, so that an address or length truncated to 32 bits is detected.

use gridz::{Array, ByteOrder, DType, Request};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::format::header::Header;
use gridz_codecs::stage::hasher::{Hasher, Prefetch};

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, Layout};
use crate::common::assert_same_bytes;
use crate::driver::Stream;
use crate::has_gpu;

/// Bytes of a piece: about 64 MiB, 8 times a prime.
const PIECE: usize = 8 * 8_388_593;

/// Fills `batch.src` with copies of `piece`.
fn fill(batch: &Batch, piece: &[u8]) {
    batch.src.write(0, piece);
    let mut have = piece.len();
    while have < batch.src.n_bytes() {
        let n_bytes = have.min(batch.src.n_bytes() - have);
        batch.src.copy_within(0, have, n_bytes);
        have += n_bytes;
    }
}

/// Compresses, decompresses, and compares the result with copies of `piece`. Returns the frame's
/// length and header.
fn round_trip(batch: &Batch, piece: &[u8], what: &str) -> (u64, Vec<u8>) {
    fill(batch, piece);
    batch.submit_compress();
    let n_bytes = batch.read_lengths()[0];
    batch.submit_decompress(0);
    assert_eq!(batch.read_statuses(), [0], "{what}");
    let mut found = vec![0; piece.len()];
    for at in (0..batch.back.n_bytes()).step_by(piece.len()) {
        let n = piece.len().min(batch.back.n_bytes() - at);
        batch.back.read_into(at, &mut found[..n]);
        assert_same_bytes(&found[..n], &piece[..n], &format!("{what}, from byte {at}"));
    }
    batch.assert_guards(what);
    (n_bytes, batch.frames.read(0, 48))
}

/// The whole array in host memory.
fn copies(piece: &[u8], n_bytes: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(n_bytes);
    while all.len() < n_bytes {
        all.extend_from_slice(&piece[..piece.len().min(n_bytes - all.len())]);
    }
    all
}

#[test]
fn one_array_of_more_than_4_gib() {
    if has_gpu("one_array_of_more_than_4_gib") {
        // 4.4 GiB
        check(&array(DType::F64, ByteOrder::Little, &[590_558_003]), &crate::common::ndzip());
    }
}

#[test]
fn zfp_of_more_than_4_gib() {
    if has_gpu("zfp_of_more_than_4_gib") {
        // 4.4 GiB; no axis has a whole number of blocks.
        check(&array(DType::F32, ByteOrder::Little, &[1201, 1003, 991]), &"zfp".parse().unwrap());
    }
}

/// Checks one chunk: the decompressed array, and the frame.
fn check(array: &Array, spec: &Request) {
    let stream = Stream::new();
    let what = format!("{spec:?}, {array:?}");
    let n = PIECE as u64 * array.shape().n_elements() / array.n_bytes();
    let piece =
        arrays::bytes(&arrays::array(array.dtype(), ByteOrder::Little, &[n]), Kind::Walk, &mut Random::new(9));
    let batch = Batch::new(&stream, *array, spec, Layout::of(1));
    let (n_bytes, header) = round_trip(&batch, &piece, &what);
    // The header contains the payload's length and checksum: if it equals the CPU's, so does the
    // payload.
    let raw = copies(&piece, array.n_bytes() as usize);
    let mut frame = vec![0; gridz::compress_bound(array, spec).unwrap() as usize];
    let n_by_cpu = gridz::compress(array, spec, &raw, &mut frame, &all_cores()).unwrap();
    assert_eq!(n_bytes, n_by_cpu as u64, "{what}");
    assert_same_bytes(&header, &frame[..48], &format!("header of {what}"));
}

fn all_cores() -> gridz::Context {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(16));
    gridz::Context::new(Some(threads), None).unwrap().on(gridz_codecs::settings::Backend::Cpu, None).unwrap()
}

#[test]
fn more_than_4_gib_that_are_stored() {
    if !has_gpu("more_than_4_gib_that_are_stored") {
        return;
    }
    let stream = Stream::new();
    let array = Array::bytes((8 << 30) + 5).unwrap();
    let piece = arrays::bytes(&Array::bytes(PIECE as u64).unwrap(), Kind::Noise, &mut Random::new(10));
    let batch = Batch::new(&stream, array, &crate::common::ndzip(), Layout::of(1));
    let (n_bytes, header) = round_trip(&batch, &piece, "8 GiB");
    let mut hasher = Hasher::new(Isa::best(), Prefetch::Nothing);
    for start in (0..array.n_bytes()).step_by(PIECE) {
        hasher.update(&piece[..(array.n_bytes() - start).min(PIECE as u64) as usize], start);
    }
    let expected = Header {
        codec: 0,
        codec_version: 1,
        fold: gridz_codecs::format::fold::Fold::Merge,
        array,
        params: &[],
        payload_bytes: array.n_bytes(),
        payload_checksum: hasher.checksum().finish(array.n_bytes()),
    };
    let mut bytes = vec![0; expected.n_bytes()];
    expected.emit(&mut bytes);
    assert_eq!(n_bytes, array.n_bytes() + bytes.len() as u64);
    assert_same_bytes(&header, &bytes[..48], "header of 8 GiB");
}
