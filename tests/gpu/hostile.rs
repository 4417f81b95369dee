//! Damaged and foreign frames: the GPU refuses them exactly when the CPU does, and nothing else is
//! affected.

use gridz::{Array, ByteOrder, DType, Request, Shape, Verify};
use gridz_codecs::codec::Decision;
use gridz_codecs::codec::mode::Mode;
use gridz_codecs::codec::registry::{self, STORED};
use gridz_codecs::format::checksum::checksum;
use gridz_codecs::format::header::{Header, header_bytes};

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, CORRUPT, Layout, SKIP_CHECKSUM, TRUNCATED, UNSUPPORTED};
use crate::common::{
    assert_same_bytes, compress, decompress, encode_params, multigrid, ndzip, repair::repair, specs_of_gpus, takes,
};
use crate::driver::{POISON, Stream};
use crate::{cpu, has_gpu, n_cases};

/// The possible headers of a frame of `array`, by the codec or by `stored`; their variable fields
/// are 0.
fn headers(array: &Array, spec: &Request) -> Vec<Vec<u8>> {
    let entries = [spec.codec(), STORED].map(|id| registry::find(id).unwrap());
    let planned = entries.into_iter().filter_map(|entry| match entry.codec.plan(array, &encode_params(spec)) {
        Decision::Take(plan) => Some((entry, plan)),
        Decision::Store | Decision::Refuse(_) => None,
    });
    planned
        .flat_map(|(entry, plan)| {
            let folds = [Some(plan.fold), entry.codec.alternative_fold(array.shape())];
            let params = [Some(plan.params), entry.codec.sibling_params(&plan.params)];
            let folds = folds.into_iter().flatten();
            folds.flat_map(move |fold| params.into_iter().flatten().map(move |params| (entry, params, fold)))
        })
        .map(|(entry, params, fold)| {
            let mut bytes = vec![0; header_bytes(array.shape().rank(), params.len())];
            let codec_version = entry.codec.version(&params);
            let header = Header {
                codec: entry.id,
                codec_version,
                fold,
                array: *array,
                params: &params,
                payload_bytes: 0,
                payload_checksum: 0,
            };
            header.emit(&mut bytes);
            bytes
        })
        .collect()
}

/// True if a frame's header matches `array`, whatever its payload is.
pub fn is_expected(array: &Array, spec: &Request, frame: &[u8]) -> bool {
    headers(array, spec).iter().any(|header| {
        frame.len() >= header.len() && frame[..16] == header[..16] && frame[36..header.len()] == header[36..]
    })
}

/// The CPU's result for a frame where one of `array` is expected.
fn by_cpu(array: &Array, spec: &Request, frame: &[u8], verify: Verify) -> Option<Vec<u8>> {
    if !is_expected(array, spec, frame) {
        return None;
    }
    let mut back = vec![0; array.n_bytes() as usize];
    gridz::decompress(frame, gridz::Part::All, &mut back, verify, &cpu()).ok().map(|_| back)
}

/// Damages `frame` in one of several ways; it may grow to at most `room` bytes.
pub fn damage(
    frame: &[u8],
    array: &Array,
    spec: &Request,
    room: usize,
    random: &mut Random,
) -> (&'static str, Vec<u8>) {
    let mut bytes = frame.to_vec();
    let header = header_bytes(array.shape().rank(), usize::from(frame[11]));
    let payload = bytes.len() - header;
    let flip = |bytes: &mut [u8], from: usize, to: usize, random: &mut Random| {
        if from < to {
            bytes[from + random.below(to - from)] ^= 1 << random.below(8);
        }
    };
    let end = bytes.len();
    let what = match random.below(14) {
        0 => {
            flip(&mut bytes, 0, header, random);
            "bit of the header"
        }
        1 => {
            flip(&mut bytes, header, end, random);
            "bit of the payload"
        }
        2 => {
            // The CRC matches, so the decoder must check each field itself.
            flip(&mut bytes, 4, header, random);
            repair(&mut bytes);
            "field of the header"
        }
        3 | 4 => {
            // Damage the table and the block heads, which contain values that a decoder might use
            // as a length.
            flip(&mut bytes, header, end.min(header + 700), random);
            repair(&mut bytes);
            "bit of the payload under a right checksum"
        }
        5 | 6 if payload >= 4 => {
            let n_words = (array.shape().n_elements() as usize / 4096).clamp(1, payload / 4);
            let at = header + 4 * random.below(n_words);
            let word = if random.once_in(2) { random.word() as u32 } else { random.below(10_000) as u32 };
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            repair(&mut bytes);
            "word of the table"
        }
        7 => {
            let from = header + random.below(payload + 1);
            bytes[from..].fill_with(|| random.word() as u8);
            repair(&mut bytes);
            "rubbish"
        }
        8 => {
            bytes.truncate(random.below(bytes.len()));
            "cut"
        }
        9 => {
            bytes.truncate(header + random.below(payload + 1));
            let n_bytes = (bytes.len() - header) as u64;
            bytes[16..24].copy_from_slice(&n_bytes.to_le_bytes());
            repair(&mut bytes);
            "shorter, and the header says so"
        }
        10 => {
            bytes.resize((end + 1 + random.below(100)).min(room), POISON);
            "too long"
        }
        11 => {
            bytes.resize((end + 1 + random.below(100)).min(room), 0);
            let n_bytes = (bytes.len() - header) as u64;
            bytes[16..24].copy_from_slice(&n_bytes.to_le_bytes());
            repair(&mut bytes);
            "longer, and the header says so"
        }
        12 => {
            let other = other_array(array, spec, random);
            bytes = compress(&other, spec, &vec![0; other.n_bytes() as usize], &cpu());
            bytes.truncate(room);
            "frame of another array"
        }
        _ => {
            bytes.fill_with(|| random.word() as u8);
            "random bytes"
        }
    };
    (what, bytes)
}

/// Another array description with the same number of bytes, or nearly.
fn other_array(array: &Array, spec: &Request, random: &mut Random) -> Array {
    let n = array.shape().n_elements();
    let other_order = if array.order() == ByteOrder::Big { ByteOrder::Little } else { ByteOrder::Big };
    let other_dtype = if array.dtype() == DType::F32 { DType::I32 } else { DType::I64 };
    match random.below(4) {
        0 => Array::new(array.dtype(), other_order, *array.shape()).unwrap(),
        1 if takes(spec, other_dtype) => Array::new(other_dtype, array.order(), *array.shape()).unwrap(),
        2 => Array::new(array.dtype(), array.order(), Shape::new(&[1, n]).unwrap()).unwrap(),
        _ => Array::new(array.dtype(), array.order(), Shape::new(&[n + 1]).unwrap()).unwrap(),
    }
}

/// A bad frame between two good ones, with and without checksum verification.
#[test]
fn damaged_frames() {
    if !has_gpu("damaged_frames") {
        return;
    }
    specs_of_gpus().for_each(|spec| damaged_frames_by(&spec));
}

fn damaged_frames_by(spec: &Request) {
    let stream = Stream::new();
    let mut random = Random::new(6);
    let (mut n_refused, mut n_read) = (0, 0);
    for case in 0..n_cases(50) {
        let is_other = case % 10 == 9 && takes(spec, DType::I16);
        let dtype = if is_other { DType::I16 } else { [DType::F32, DType::F64][case as usize % 2] };
        let order = [ByteOrder::Little, ByteOrder::Big][usize::from(case % 7 == 6)];
        let rank = 1 + random.below(4);
        let array = array(dtype, order, &arrays::extents(&mut random, rank, 60_000));
        let kind = Kind::random(&mut random, array.shape().n_elements() as usize);
        let raw = arrays::bytes(&array, kind, &mut random);
        let good = compress(&array, spec, &raw, &cpu());
        let kept = decompress(&good, &cpu()).unwrap();
        let layout = Layout { gap: 3, slot_gap: 128, ..Layout::of(3) };
        let batch = Batch::new(&stream, array, spec, layout);
        for round in 0..12 {
            let (how, bad) = damage(&good, &array, spec, batch.slot, &mut random);
            let what =
                format!("{spec:?} case {case}.{round}: {dtype:?} {order:?} {:?} {how}", array.shape().extents());
            batch.write_frames(&[&good, &bad, &good]);
            for (verify, flags) in [(Verify::Checksum, 0), (Verify::Structure, SKIP_CHECKSUM)] {
                batch.poison_results();
                batch.submit_decompress(flags);
                let (statuses, back) = (batch.read_statuses(), batch.back.read_all());
                let expected = by_cpu(&array, spec, &bad, verify);
                let is_right = match expected {
                    Some(_) => statuses[1] == 0,
                    None => [CORRUPT, TRUNCATED, UNSUPPORTED].contains(&statuses[1]),
                };
                assert!(
                    is_right,
                    "{what}, {verify:?}: status {}, CPU reads it: {}",
                    statuses[1],
                    expected.is_some()
                );
                if let Some(expected) = expected {
                    assert_same_bytes(batch.chunk(&back, 1), &expected, &what);
                    n_read += 1;
                } else {
                    n_refused += 1;
                }
                for i in [0, 2] {
                    assert_eq!(statuses[i], 0, "{what}: status of the good frame {i}");
                    assert_same_bytes(batch.chunk(&back, i), &kept, &format!("{what}: good frame {i}"));
                }
                for gap in back.chunks(batch.stride).map(|chunk| &chunk[raw.len()..]) {
                    assert!(gap.iter().all(|&byte| byte == POISON), "{what}: written between the arrays");
                }
                batch.assert_guards(&what);
            }
        }
        batch.check(&[raw.clone(), raw.clone(), raw], &format!("{spec:?} case {case}, after all that"));
    }
    println!("{spec:?}: {n_refused} refused, {n_read} read, as by the CPU");
}

/// Blocks of zeros have no columns. If a bit in a head claims a column, the column's data does not
/// exist.
#[test]
fn heads_without_columns() {
    if !has_gpu("heads_without_columns") {
        return;
    }
    let (spec, stream, mut random) = (ndzip(), Stream::new(), Random::new(8));
    for (dtype, extents, n_blocks) in [
        (DType::F32, &[48, 48, 48][..], 27),
        (DType::F64, &[48, 48, 48], 27),
        (DType::F32, &[64, 192], 3),
        (DType::F64, &[20_480], 5),
    ] {
        let array = array(dtype, ByteOrder::Little, extents);
        let raw = vec![0; array.n_bytes() as usize];
        let frame = compress(&array, &spec, &raw, &cpu());
        let start = header_bytes(array.shape().rank(), 0)
            + usize::next_multiple_of(4 * n_blocks, dtype.size().unwrap() as usize);
        // Each head takes one bit per element: 512 bytes for a block of 4096.
        assert_eq!(frame.len(), start + 512 * n_blocks, "{extents:?}");
        let batch = Batch::new(&stream, array, &spec, Layout::of(3));
        for _ in 0..20 {
            let mut bad = frame.clone();
            bad[start + random.below(512 * n_blocks)] ^= 1 << random.below(8);
            repair(&mut bad);
            batch.write_frames(&[&frame, &bad, &frame]);
            for (verify, flags) in [(Verify::Checksum, 0), (Verify::Structure, SKIP_CHECKSUM)] {
                assert_eq!(by_cpu(&array, &spec, &bad, verify), None);
                batch.poison_results();
                batch.submit_decompress(flags);
                assert_eq!(batch.read_statuses(), [0, CORRUPT, 0], "{dtype:?} {extents:?}");
                assert_same_bytes(batch.chunk(&batch.back.read_all(), 2), &raw, "the next frame");
            }
        }
    }
}

/// The caller supplies the lengths, but in device memory to which anything may have written.
#[test]
fn wrong_lengths() {
    if !has_gpu("wrong_lengths") {
        return;
    }
    specs_of_gpus().for_each(|spec| wrong_lengths_by(&spec));
}

fn wrong_lengths_by(spec: &Request) {
    let stream = Stream::new();
    let mut random = Random::new(7);
    for (dtype, extents) in [(DType::F32, &[33, 34, 35][..]), (DType::F64, &[130, 70]), (DType::U8, &[50_001])] {
        if !takes(spec, dtype) {
            continue;
        }
        let array = array(dtype, ByteOrder::Little, extents);
        let raw = arrays::bytes(&array, Kind::Walk, &mut random);
        let frame = compress(&array, spec, &raw, &cpu());
        let kept = decompress(&frame, &cpu()).unwrap();
        let n = frame.len() as u64;
        let lengths =
            [0, 1, 4, 39, 40, 47, 48, 63, 64, n - 1, n + 1, n + 16, 1 << 31, (1 << 32) + n, 1 << 40, u64::MAX];
        let batch = Batch::new(&stream, array, spec, Layout::of(lengths.len() + 1));
        batch.write_frames(&vec![&frame; batch.n_chunks]);
        // The last length is correct.
        batch.write_lengths(&[&lengths[..], &[n]].concat());
        for flags in [0, SKIP_CHECKSUM] {
            batch.poison_results();
            batch.submit_decompress(flags);
            let statuses = batch.read_statuses();
            for (length, status) in lengths.iter().zip(&statuses) {
                assert!(
                    [CORRUPT, TRUNCATED].contains(status),
                    "{spec:?} {extents:?} length {length}: status {status}"
                );
            }
            assert_eq!(statuses[lengths.len()], 0);
            assert_same_bytes(batch.chunk(&batch.back.read_all(), lengths.len()), &kept, "the right length");
            batch.assert_guards("wrong lengths");
        }
    }
}

/// Lengths and tables that are consistent with each other, but not with the slots: the kernels must
/// not read or write outside.
#[test]
fn lengths_and_tables_beyond_the_slot() {
    if !has_gpu("lengths_and_tables_beyond_the_slot") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(9);
    for (dtype, extents) in [(DType::F32, &[64, 64, 64][..]), (DType::F32, &[33, 50, 35]), (DType::F64, &[130, 70])]
    {
        let array = array(dtype, ByteOrder::Little, extents);
        let raw = arrays::bytes(&array, Kind::Walk, &mut random);
        let good = compress(&array, &crate::common::ndzip(), &raw, &cpu());
        let at = header_bytes(array.shape().rank(), 0);
        let starts = [0x0000_8000u32, 0x00f0_0000, 0x7000_0000, 0xf000_0000, 0xffff_ff00];
        let mut frames = Vec::new();
        let mut lengths = Vec::new();
        for &start in &starts {
            // First, blocks of plausible lengths that all lie far outside the slot. Then only the
            // last block lies outside; its end determines the end of the data.
            let mut all = good.clone();
            let n_blocks =
                extents.iter().map(|n| n / if extents.len() == 3 { 16 } else { 64 }).product::<u64>() as usize;
            for block in 0..n_blocks {
                let end = start.wrapping_add(200 * block as u32);
                all[at + 4 * block..at + 4 * block + 4].copy_from_slice(&end.to_le_bytes());
            }
            let mut last = good.clone();
            let entry = at + 4 * (n_blocks - 1);
            last[entry..entry + 4].copy_from_slice(&start.to_le_bytes());
            let size = u64::from(array.element_size());
            let border = array.n_bytes() / size - 4096 * n_blocks as u64;
            let agreeing =
                at as u64 + (4 * n_blocks as u64).next_multiple_of(size) + (u64::from(start) + border) * size;
            frames.extend([all.clone(), all, last.clone(), last]);
            lengths.extend([1 << 40, agreeing, agreeing, u64::MAX]);
        }
        frames.push(good.clone());
        lengths.push(good.len() as u64);
        let batch = Batch::new(&stream, array, &crate::common::ndzip(), Layout::of(frames.len()));
        batch.write_frames(&frames.iter().collect::<Vec<_>>());
        batch.write_lengths(&lengths);
        for flags in [0, SKIP_CHECKSUM] {
            batch.poison_results();
            batch.submit_decompress(flags);
            let statuses = batch.read_statuses();
            let (last, damaged) = statuses.split_last().unwrap();
            assert!(damaged.iter().all(|status| [CORRUPT, TRUNCATED].contains(status)), "{extents:?} {statuses:?}");
            assert_eq!(*last, 0);
            assert_same_bytes(batch.chunk(&batch.back.read_all(), damaged.len()), &raw, "the good frame");
            batch.assert_guards("lengths and tables");
        }
    }
}

/// A frame truncated anywhere after its header is reported as truncated, not just as corrupt.
#[test]
fn cut_frames_are_truncated() {
    if !has_gpu("cut_frames_are_truncated") {
        return;
    }
    let stream = Stream::new();
    let array = array(DType::F32, ByteOrder::Little, &[33, 34, 35]);
    let raw = arrays::bytes(&array, Kind::Walk, &mut Random::new(8));
    for spec in specs_of_gpus() {
        let frame = compress(&array, &spec, &raw, &cpu());
        let lengths = [64, 65, 200, frame.len() / 2, frame.len() - 1];
        let batch = Batch::new(&stream, array, &spec, Layout::of(lengths.len()));
        batch.write_frames(&lengths.map(|n| &frame[..n]));
        batch.submit_decompress(0);
        assert_eq!(batch.read_statuses(), [TRUNCATED; 5], "{spec:?}");
    }
}

/// Heads of multigrid layers with valid checks but invalid contents.
#[test]
fn heads_of_layers() {
    if !has_gpu("heads_of_layers") {
        return;
    }
    let (stream, mut random) = (Stream::new(), Random::new(9));
    let array = array(DType::F32, ByteOrder::Little, &[30, 40]);
    let mut raw = arrays::bytes(&array, Kind::Walk, &mut random);
    raw[400..404].copy_from_slice(&f32::NAN.to_le_bytes());
    let (mut n_refused, mut n_read) = (0, 0);
    for (spec, n_layers) in [("multigrid,abs=1e-3,layers=3", 3), ("multigrid,rms=1e-3,layers=2", 2)] {
        let spec: Request = spec.parse().unwrap();
        let good = compress(&array, &spec, &raw, &cpu());
        let start = header_bytes(2, usize::from(good[11]));
        // This array has six levels.
        let head = 32 + 48 + 8 + 24 + (n_layers - 1) * (48 + 48);
        assert_eq!(good[start + head..][..8], head_check(&good[start..][..head]), "where the check is");
        let batch = Batch::new(&stream, array, &spec, Layout { slot_gap: 128, ..Layout::of(1) });
        for case in 0..n_cases(400) {
            let mut bad = good.clone();
            let word = start + 8 * random.below(head / 8);
            match random.below(3) {
                0 => bad[word + random.below(8)] ^= 1 << random.below(8),
                1 => bad[word] = bad[word].wrapping_add(random.pick(&[4, 8, 252, 248])),
                _ => bad[word..][..8].copy_from_slice(&random.pick(&[0, 1, u64::MAX, 0x7ff0 << 48]).to_le_bytes()),
            }
            let check = head_check(&bad[start..][..head]);
            bad[start + head..][..8].copy_from_slice(&check);
            repair(&mut bad);
            batch.write_frames(&[&bad]);
            for (verify, flags) in [(Verify::Checksum, 0), (Verify::Structure, SKIP_CHECKSUM)] {
                batch.submit_decompress(flags);
                let what = format!("{spec:?} case {case}: byte {}, {verify:?}", word - start);
                let (status, expected) = (batch.read_statuses()[0], by_cpu(&array, &spec, &bad, verify));
                assert_eq!(status == 0, expected.is_some(), "{what}: status {status}");
                if let Some(expected) = expected {
                    assert_same_bytes(batch.chunk(&batch.back.read_all(), 0), &expected, &what);
                    n_read += 1;
                } else {
                    n_refused += 1;
                }
            }
        }
    }
    println!("{n_refused} refused, {n_read} read, as by the CPU");
}

pub fn head_check(head: &[u8]) -> [u8; 8] {
    (checksum(head) & 0xffff_ffff).to_le_bytes()
}

/// If a multigrid payload has no blocks, no bytes may be in their place.
#[test]
fn no_blocks() {
    if !has_gpu("no_blocks") {
        return;
    }
    let (spec, value) = (multigrid(Mode::Abs, 1e-3), 1e-3f64);
    let many = array(DType::F32, ByteOrder::Little, &[4096]);
    let mut good = compress(&many, &spec, &vec![0; 4 * 4096], &cpu());
    good.truncate(header_bytes(1, usize::from(good[11])));
    good[40..48].copy_from_slice(&1u64.to_le_bytes());
    good.extend(value.to_le_bytes());
    good.extend(u64::from(7.5f32.to_bits()).to_le_bytes());
    good.extend([0, 1, 2, 3, 0, 0, 0, 0]);
    good.extend([0; 16]);
    let mut bad = good.clone();
    bad.extend([0; 4]);
    for (frame, n_bytes) in [(&mut good, 40u64), (&mut bad, 44)] {
        frame[16..24].copy_from_slice(&n_bytes.to_le_bytes());
        repair(frame);
    }
    let one = array(DType::F32, ByteOrder::Little, &[1]);
    assert_eq!(by_cpu(&one, &spec, &good, Verify::Checksum), Some(7.5f32.to_le_bytes().to_vec()));
    assert_eq!(by_cpu(&one, &spec, &bad, Verify::Checksum), None);
    let stream = Stream::new();
    let batch = Batch::new(&stream, one, &spec, Layout { slot_gap: 128, ..Layout::of(2) });
    batch.write_frames(&[&good, &bad]);
    batch.submit_decompress(0);
    assert_eq!(batch.read_statuses(), [0, CORRUPT]);
    assert_same_bytes(batch.chunk(&batch.back.read_all(), 0), &7.5f32.to_le_bytes(), "one element");
}
