//! Regions of frames: the same elements as the CPU's, for any location of frame and destination, and
//! no other bytes are written.

use std::ffi::{CStr, c_void};
use std::ptr;

use gridz::{Array, ByteOrder, DType, Request, Verify};
use gridz_capi::api::{gridz_decompress_region, gridz_last_error};
use gridz_capi::types::gridz_options;
use gridz_codecs::codec::registry;

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, CORRUPT, Layout, SKIP_CHECKSUM, TRUNCATED, UNSUPPORTED};
use crate::common::{assert_same_bytes, compress, decompress, specs_of_gpus};
use crate::driver::{Memory, POISON, Stream, is_poison};
use crate::hostile::{damage, is_expected};
use crate::shapes::dtype;
use crate::{cpu, has_gpu, n_cases};

/// A box in an array.
#[derive(Debug, Clone)]
struct Box {
    start: Vec<u64>,
    count: Vec<u64>,
}

impl Box {
    /// A random box: along each axis all, one, or some indices; rarely none.
    fn random(random: &mut Random, extents: &[u64]) -> Self {
        let (mut start, mut count) = (Vec::new(), Vec::new());
        for &extent in extents {
            let first = random.below(extent as usize + 1) as u64;
            let (first, n) = match random.below(5) {
                0 | 1 => (0, extent),
                2 if extent > 0 => (first.min(extent - 1), 1),
                _ if extent > first => (first, 1 + random.below((extent - first) as usize) as u64),
                _ => (first, u64::from(first < extent && !random.once_in(9))),
            };
            start.push(first);
            count.push(n);
        }
        Self { start, count }
    }

    fn n_bytes(&self, array: &Array) -> usize {
        self.count.iter().product::<u64>() as usize * array.element_size() as usize
    }

    /// The CPU's result.
    fn by_cpu(&self, frame: &[u8], array: &Array, verify: Verify) -> gridz::Result<Vec<u8>> {
        let mut dst = vec![0; self.n_bytes(array)];
        gridz::decompress(
            frame,
            gridz::Part::Region { start: &self.start, count: &self.count },
            &mut dst,
            verify,
            &cpu(),
        )
        .map(|_| dst)
    }

    /// The synchronous call; returns its status.
    fn decompress(&self, frame: (*const c_void, usize), dst: (*mut c_void, usize), flags: u64) -> i32 {
        let options = gridz_options {
            struct_size: size_of::<gridz_options>(),
            context: ptr::null(),
            request: ptr::null(),
            flags,
            fill_value: ptr::null(),
            n_fill_values: 0,
            valid_min: ptr::null(),
            valid_max: ptr::null(),
        };
        let (mut n_bytes, rank) = (0, self.start.len() as u32);
        let (start, count) = (self.start.as_ptr(), self.count.as_ptr());
        // SAFETY: disjoint memory of these sizes, and `rank` numbers each for start and count.
        unsafe {
            gridz_decompress_region(
                frame.0,
                frame.1,
                rank,
                start,
                count,
                dst.0,
                dst.1,
                &raw mut n_bytes,
                &raw const options,
            )
        }
    }
}

/// Extents of any rank up to 6.
fn extents(random: &mut Random, rank: usize, most: usize) -> Vec<u64> {
    if rank <= 4 {
        return arrays::extents(random, rank, most);
    }
    loop {
        let extents: Vec<u64> = (0..rank).map(|_| 1 + random.below(19) as u64).collect();
        if extents.iter().product::<u64>() <= most as u64 {
            return extents;
        }
    }
}

#[test]
fn random_regions() {
    if !has_gpu("random_regions") {
        return;
    }
    specs_of_gpus().for_each(|spec| random_regions_by(&spec));
}

fn random_regions_by(spec: &Request) {
    let stream = Stream::new();
    let mut random = Random::new(31);
    let n_cases = n_cases(200);
    let most = if n_cases < 20 { 60_000 } else { 400_000 };
    for case in 0..n_cases as usize {
        let order = [ByteOrder::Little, ByteOrder::Big][usize::from(case % 5 == 4)];
        let array = array(dtype(spec, case), order, &extents(&mut random, 1 + case / 2 % 6, most));
        let n_chunks = 1 + random.below(3);
        let n = array.shape().n_elements() as usize;
        let chunks: Vec<Vec<u8>> = (0..n_chunks)
            .map(|_| {
                let kind = Kind::random(&mut random, n);
                arrays::bytes(&array, kind, &mut random)
            })
            .collect();
        let frames: Vec<Vec<u8>> = chunks.iter().map(|raw| compress(&array, spec, raw, &cpu())).collect();
        let has_workspace = random.once_in(2);
        let batch = Batch::new(&stream, array, spec, Layout { has_workspace, ..Layout::of(n_chunks) });
        batch.write_frames(&frames);
        for _ in 0..4 {
            let part = Box::random(&mut random, array.shape().extents());
            let what = format!("{spec:?} case {case}: {array:?} {part:?}");
            check(&stream, &batch, &frames, &part, &mut random, &what);
        }
        batch.assert_guards("regions");
    }
}

/// Checks a batch of regions on the stream; then the first frame alone, with source and destination
/// in host and GPU memory.
fn check(stream: &Stream, batch: &Batch, frames: &[Vec<u8>], part: &Box, random: &mut Random, what: &str) {
    let array = &batch.array;
    let size = array.element_size() as usize;
    let (n_bytes, shift, gap) = (part.n_bytes(array), random.below(4) * size, random.below(3) * size);
    let expected: Vec<Vec<u8>> =
        frames.iter().map(|frame| part.by_cpu(frame, array, Verify::Checksum).unwrap()).collect();
    let stride = n_bytes + gap;
    for flags in [0, SKIP_CHECKSUM] {
        let back = Memory::new(stream, frames.len() * stride, shift);
        batch.statuses.fill(POISON);
        batch.submit_region(&part.start, &part.count, &back, stride, flags);
        let bytes = back.read_all();
        assert_eq!(batch.read_statuses(), vec![0; frames.len()], "{what}");
        for (i, expected) in expected.iter().enumerate() {
            let (own, between) = bytes[i * stride..(i + 1) * stride].split_at(n_bytes);
            assert_same_bytes(own, expected, &format!("{what}, chunk {i}"));
            assert!(is_poison(between), "{what}: written between the regions");
        }
        back.assert_guards(what);
    }
    let frame = &frames[0];
    let (on_gpu, in_gpu) =
        (Memory::of(stream, frame, random.below(3) * 5), Memory::new(stream, n_bytes + 3, shift));
    for (from_gpu, to_gpu) in [(true, true), (true, false), (false, true)] {
        in_gpu.fill(POISON);
        stream.synchronize();
        let mut in_host = vec![POISON; n_bytes + 3];
        let from = if from_gpu { on_gpu.ptr() } else { frame.as_ptr().cast::<c_void>().cast_mut() };
        let to: *mut c_void = if to_gpu { in_gpu.ptr() } else { in_host.as_mut_ptr().cast() };
        let status = part.decompress((from, frame.len()), (to, n_bytes + 3), 0);
        // SAFETY: the string is valid until the next error of this thread.
        let text = unsafe { CStr::from_ptr(gridz_last_error()) };
        assert_eq!(status, 0, "{what}, GPU's frame {from_gpu}, GPU's destination {to_gpu}: {text:?}");
        let bytes = if to_gpu { in_gpu.read_all() } else { in_host };
        assert_same_bytes(&bytes[..n_bytes], &expected[0], what);
        assert!(is_poison(&bytes[n_bytes..]), "{what}: written past the region");
        in_gpu.assert_guards(what);
    }
}

/// If the CPU can read a damaged frame, so can the GPU. The GPU may also read frames that the CPU
/// refuses, since it checks only a part of the table. Then its elements are those of the undamaged
/// frame.
#[test]
fn regions_of_damaged_frames() {
    if !has_gpu("regions_of_damaged_frames") {
        return;
    }
    specs_of_gpus().for_each(|spec| regions_of_damaged_frames_by(&spec));
}

fn regions_of_damaged_frames_by(spec: &Request) {
    let stream = Stream::new();
    let mut random = Random::new(32);
    let (mut n_refused, mut n_read, mut n_more) = (0, 0, 0);
    for case in 0..n_cases(40) as usize {
        let order = [ByteOrder::Little, ByteOrder::Big][usize::from(case % 7 == 6)];
        let rank = 1 + random.below(5);
        let array = array(dtype(spec, case), order, &extents(&mut random, rank, 60_000));
        let kind = Kind::random(&mut random, array.shape().n_elements() as usize);
        let good = compress(&array, spec, &arrays::bytes(&array, kind, &mut random), &cpu());
        let batch = Batch::new(&stream, array, spec, Layout { slot_gap: 128, ..Layout::of(3) });
        // For an empty region, the CPU reads only the header.
        let mut boxes = (0..20).map(|_| Box::random(&mut random, array.shape().extents()));
        let Some(part) = boxes.find(|part| part.n_bytes(&array) > 0) else { continue };
        let sound = part.by_cpu(&good, &array, Verify::Checksum).unwrap();
        let (n_bytes, size) = (sound.len(), array.element_size() as usize);
        for round in 0..12 {
            let (how, bad) = damage(&good, &array, spec, batch.slot, &mut random);
            let what = format!("{spec:?} case {case}.{round}: {array:?} {part:?} {how}");
            let is_plain = ["bit of the header", "bit of the payload", "cut", "too long"].contains(&how);
            batch.write_frames(&[&good, &bad, &good]);
            for (verify, flags) in [(Verify::Checksum, 0), (Verify::Structure, SKIP_CHECKSUM)] {
                let back = Memory::new(&stream, 3 * (n_bytes + size), 0);
                batch.statuses.fill(POISON);
                batch.submit_region(&part.start, &part.count, &back, n_bytes + size, flags);
                let (statuses, bytes) = (batch.read_statuses(), back.read_all());
                let chunk = |i: usize| &bytes[i * (n_bytes + size)..][..n_bytes];
                let expected = match is_expected(&array, spec, &bad) {
                    true => part.by_cpu(&bad, &array, verify).ok(),
                    false => None,
                };
                match (&expected, statuses[1]) {
                    (Some(expected), 0) => {
                        assert_same_bytes(chunk(1), expected, &what);
                        n_read += 1;
                    }
                    (None, 0) => {
                        assert!(is_expected(&array, spec, &bad), "{what}");
                        if is_plain && verify == Verify::Checksum {
                            assert_same_bytes(chunk(1), &sound, &what);
                        }
                        n_more += 1;
                    }
                    (None, status) => {
                        assert!([CORRUPT, TRUNCATED, UNSUPPORTED].contains(&status), "{what}: status {status}");
                        n_refused += 1;
                    }
                    (Some(_), status) => panic!("{what}, {verify:?}: status {status}, but the CPU reads it"),
                }
                for i in [0, 2] {
                    assert_eq!(statuses[i], 0, "{what}: status of the good frame {i}");
                    assert_same_bytes(chunk(i), &sound, &format!("{what}: good frame {i}"));
                }
                for gap in bytes.chunks(n_bytes + size).map(|chunk| &chunk[n_bytes..]) {
                    assert!(is_poison(gap), "{what}: written between the regions");
                }
                back.assert_guards(&what);
                batch.assert_guards(&what);

                // A single frame is described by its own header.
                let (frame, back) = (Memory::of(&stream, &bad, 0), Memory::new(&stream, n_bytes, 0));
                let status = part.decompress((frame.ptr(), bad.len()), (back.ptr(), n_bytes), flags);
                let mut by_cpu = vec![POISON; n_bytes];
                let expected = gridz::decompress(
                    &bad,
                    gridz::Part::Region { start: &part.start, count: &part.count },
                    &mut by_cpu,
                    verify,
                    &cpu(),
                );
                match expected {
                    Ok(n) => {
                        assert_eq!(status, 0, "{what}, {verify:?}, alone");
                        assert_same_bytes(&back.read(0, n), &by_cpu[..n], &what);
                    }
                    Err(_) if status == 0 && is_plain && verify == Verify::Checksum => {
                        assert_same_bytes(&back.read_all(), &sound, &what);
                    }
                    Err(_) => {}
                }
                back.assert_guards(&what);
            }
        }
    }
    println!("{spec:?}: {n_refused} refused, {n_read} read, as by the CPU; {n_more} more read");
}

/// Damage far from a region has no effect if the blocks have checks or if there are none at all. It
/// is detected if only the payload has a checksum.
#[test]
fn damage_elsewhere() {
    if !has_gpu("damage_elsewhere") {
        return;
    }
    let stream = Stream::new();
    let array = array(DType::F32, ByteOrder::Little, &[40, 50, 64]);
    let raw = arrays::bytes(&array, Kind::Rule("walk"), &mut Random::new(33));
    for spec in specs_of_gpus() {
        let mut frame = compress(&array, &spec, &raw, &cpu());
        let kept = decompress(&frame, &cpu()).unwrap();
        let codec = registry::find(gridz::inspect(&frame).unwrap().codec).unwrap().name;
        // In the last block, or the gap after it.
        let last = frame.len() - 40;
        frame[last] ^= 4;
        let [near, far] = match codec {
            "lorenzo" | "quant" => [0, CORRUPT],
            "stored" => [0, 0],
            _ => [CORRUPT, CORRUPT],
        };
        let batch = Batch::new(&stream, array, &spec, Layout::of(1));
        batch.write_frames(&[&frame]);
        for (start, flags, status) in [([0; 3], 0, near), ([0; 3], SKIP_CHECKSUM, 0), ([39, 49, 63], 0, far)] {
            let back = Memory::new(&stream, 4, 0);
            batch.submit_region(&start, &[1; 3], &back, 4, flags);
            assert_eq!(batch.read_statuses()[0], status, "{spec:?} {start:?} {flags}");
            if start == [0; 3] && status == 0 {
                assert_same_bytes(&back.read_all(), &kept[..4], "the first element");
            }
        }
    }
}

/// Captured in a graph, which is created once and replayed for other frames.
#[test]
fn regions_in_graphs() {
    if !has_gpu("regions_in_graphs") {
        return;
    }
    let stream = Stream::new();
    let array = array(DType::F32, ByteOrder::Little, &[40, 50, 64]);
    let part = Box { start: vec![3, 7, 20], count: vec![30, 20, 33] };
    let n_bytes = part.n_bytes(&array);
    for spec in specs_of_gpus() {
        // The query for the workspace size has loaded the kernels.
        let batch = Batch::new(&stream, array, &spec, Layout { has_workspace: true, ..Layout::of(4) });
        let back = Memory::new(&stream, 4 * n_bytes, 0);
        let graph = stream.capture(|| batch.submit_region(&part.start, &part.count, &back, n_bytes, 0));
        for seed in 40..43 {
            let mut random = Random::new(seed);
            let mut chunk = || arrays::bytes(&array, Kind::Mixed, &mut random);
            let frames: Vec<Vec<u8>> = (0..4).map(|_| compress(&array, &spec, &chunk(), &cpu())).collect();
            batch.write_frames(&frames);
            back.fill(POISON);
            stream.replay(&graph);
            let bytes = back.read_all();
            assert_eq!(batch.read_statuses(), [0; 4]);
            for (frame, region) in frames.iter().zip(bytes.chunks(n_bytes)) {
                let expected = part.by_cpu(frame, &array, Verify::Checksum).unwrap();
                assert_same_bytes(region, &expected, &format!("{spec:?}, replay {seed}"));
            }
        }
    }
}
