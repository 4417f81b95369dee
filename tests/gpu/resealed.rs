//! Damage that decoders have to detect: blocks are damaged and resealed, so that all checksums
//! match. The GPU accepts such a frame exactly when the CPU does, and decodes it to the same values.
//!
//! `GRIDZ_GPU_CASES` is the number of frames for each request and type, even if it is larger than
//! the default.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gridz::{Array, ByteOrder, DType, Request, Verify};
use gridz_codecs::format::checksum::{Checksum, checksum};
use gridz_codecs::format::header::header_bytes;

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, CORRUPT, Layout, SKIP_CHECKSUM, TRUNCATED, UNSUPPORTED};
use crate::common::repair::repair;
use crate::common::{assert_same_bytes, compress, takes};
use crate::driver::Stream;
use crate::{cpu, has_gpu};

/// Every codec, level and mode that the GPU reads, with a type of each class.
const REQUESTS: [(&str, &[DType]); 22] = [
    ("stored", &[DType::U8]),
    ("ndzip", &[DType::F32, DType::F64]),
    ("lorenzo,level=fast", &[DType::F32, DType::F64, DType::I16, DType::U64]),
    ("lorenzo,level=dense", &[DType::F32, DType::F64, DType::U8, DType::I32]),
    ("huffman", &[DType::U8, DType::U16, DType::I32]),
    ("cci,level=fast", &[DType::U32, DType::I64]),
    ("cci,level=dense", &[DType::I32, DType::U64]),
    ("quant,abs=1e-3", &[DType::F32, DType::F64, DType::C64]),
    ("quant,abs=3", &[DType::U8, DType::I64]),
    ("quant,pwrel=1e-3", &[DType::F16, DType::F64]),
    ("quant,rel=1e-4,level=dense", &[DType::F32, DType::F64, DType::U16]),
    ("quant,rel=1e-4,level=max", &[DType::F32, DType::F64, DType::I16]),
    ("zfp,lossless", &[DType::F32, DType::F64, DType::I32, DType::I64]),
    ("zfp,abs=1e-3", &[DType::F32, DType::F64]),
    ("zfp,rel=1e-4", &[DType::F32]),
    ("zfp,rate=9.5", &[DType::F64, DType::I32]),
    ("zfp,precision=14", &[DType::F32]),
    ("zfp,expert,minbits=20,maxbits=300", &[DType::F64]),
    ("multigrid,abs=1e-3", &[DType::F32, DType::F64]),
    ("multigrid,rel=1e-4", &[DType::F64]),
    ("multigrid,rms=1e-2", &[DType::F32]),
    ("multigrid,abs=1e-3,layers=3", &[DType::F32, DType::F64]),
];

/// Number of frames in a call.
const AT_ONCE: usize = 512;

/// Number of damaged frames for each request and type.
fn n_frames() -> usize {
    std::env::var("GRIDZ_GPU_CASES").map_or(1000, |n| n.parse().expect("GRIDZ_GPU_CASES is a number"))
}

/// The table before a payload's blocks: each entry has the block's end, in units from the end of
/// the table, and its check.
#[derive(Debug, Clone, Copy)]
struct Table {
    /// Offsets in the payload of the first entry, and of the first block.
    entries: usize,
    blocks: usize,
    n: usize,
    unit: usize,
}

impl Table {
    /// The table of a valid frame, if its payload has one; `None` for codecs whose blocks have no
    /// checks.
    fn of(frame: &[u8], payload: &[u8]) -> Option<Self> {
        let (entries, unit, behind) = match frame[5] {
            2 | 6 | 7 => (0, 16, 0),
            // The logarithm of a unit is the second byte of the parameters, which follow the
            // extents.
            3 => (8, 1 << frame[40 + 8 * usize::from(frame[9]) + 1], 0),
            5 => return Self::of_multigrid(payload),
            _ => return None,
        };
        Self::find(payload, entries, behind, unit, unit)
    }

    /// The table of a payload of one layer: it follows a head with a bin for each level, and the
    /// length of the exact elements.
    fn of_multigrid(payload: &[u8]) -> Option<Self> {
        (0..33).find_map(|n_levels| {
            let head = 32 + 8 * (n_levels + 1);
            let n_exact = u64::from_le_bytes(payload.get(head - 8..head)?.try_into().unwrap());
            Self::find(payload, head, usize::try_from(n_exact).ok()?, 4, 4)
        })
    }

    /// The table whose last block ends `behind` bytes before the end of the payload; blocks begin
    /// at a multiple of `alignment`.
    fn find(payload: &[u8], entries: usize, behind: usize, unit: usize, alignment: usize) -> Option<Self> {
        let end =
            |i: usize| payload.get(entries + 8 * i..)?.first_chunk().map(|&end| u32::from_le_bytes(end) as usize);
        (1..=payload.len() / 8).find_map(|n| {
            let blocks = (entries + 8 * n).next_multiple_of(alignment);
            let is_end = end(n - 1)?.checked_mul(unit)?.checked_add(blocks)?.checked_add(behind)? == payload.len();
            let rises = (1..n).all(|i| end(i - 1) <= end(i));
            (is_end && rises).then_some(Self { entries, blocks, n, unit })
        })
    }

    fn end(&self, payload: &[u8], i: usize) -> usize {
        let at = self.entries + 8 * i;
        let end = u32::from_le_bytes(payload[at..at + 4].try_into().unwrap());
        self.blocks.saturating_add((end as usize).saturating_mul(self.unit))
    }

    /// The bytes of block `i` in the payload, or `None` if the table is inconsistent.
    fn block(&self, payload: &[u8], i: usize) -> Option<std::ops::Range<usize>> {
        let start = if i == 0 { self.blocks } else { self.end(payload, i - 1) };
        let end = self.end(payload, i);
        (start <= end && end <= payload.len()).then_some(start..end)
    }

    /// Fixes the checks of all blocks.
    fn seal(&self, payload: &mut [u8]) {
        for i in 0..self.n {
            let Some(block) = self.block(payload, i) else { continue };
            let n_bytes = block.len() as u64;
            let check = Checksum::of(&payload[block.clone()], block.start as u64).finish(n_bytes) as u32;
            payload[self.entries + 8 * i + 4..][..4].copy_from_slice(&check.to_le_bytes());
        }
    }
}

/// Fixes all checks of a frame, as far as its table is consistent.
fn seal(frame: &mut [u8], header: usize, table: Option<Table>) {
    let n_bytes = (frame.len() - header) as u64;
    frame[16..24].copy_from_slice(&n_bytes.to_le_bytes());
    if let Some(table) = table {
        table.seal(&mut frame[header..]);
    }
    repair(frame);
}

/// A frame with damage that decoders may or may not detect, with fixed checks; no longer than
/// `room`.
fn damaged(good: &[u8], header: usize, table: Option<Table>, room: usize, random: &mut Random) -> Vec<u8> {
    let mut frame = good.to_vec();
    let payload = frame.len() - header;
    // Start and length of the bytes to be damaged.
    let (start, length) = match table {
        Some(table) if !random.once_in(6) => {
            let block = table.block(&good[header..], random.below(table.n)).expect("a block of a sound frame");
            (header + block.start, block.len())
        }
        _ => (header, payload),
    };
    if length == 0 {
        return frame;
    }
    // Blocks and payloads begin with the fields that describe the rest; zfp's fields are at the
    // end.
    let at = |random: &mut Random| {
        let most = random.pick(&[16, 40, 200, length]).min(length);
        let place = random.below(most);
        start + if random.once_in(5) { length - 1 - place } else { place }
    };
    for _ in 0..random.pick(&[1, 1, 1, 2, 5]) {
        let place = at(random);
        match random.below(10) {
            0..3 => frame[place] ^= 1 << random.below(8),
            3 => frame[place] = frame[place].wrapping_add(random.pick(&[1, 255])),
            4 => frame[place] = random.word() as u8,
            5 => {
                // A small number, or one at a limit.
                let small = random.below(70) as u16;
                let word: u16 = random.pick(&[0, 1, small, 4095, 4096, 4097, 8192, 8193, 0x7fff, 0x8000, 0xffff]);
                let place = place / 2 * 2;
                if place + 2 <= start + length {
                    frame[place..place + 2].copy_from_slice(&word.to_le_bytes());
                }
            }
            6 => {
                let place = place / 4 * 4;
                let small = random.below(5000) as u32;
                let any = random.word() as u32;
                let word = random.pick(&[0, 1, small, u32::MAX, 1 << 31, any]);
                if place + 4 <= start + length {
                    frame[place..place + 4].copy_from_slice(&word.to_le_bytes());
                }
            }
            7 => {
                // Copies bytes of another block, or of another part of this one.
                let from = header + random.below(payload);
                let n = random.pick(&[4, 16, 64]).min(start + length - place).min(frame.len() - from);
                let part = frame[from..from + n].to_vec();
                frame[place..place + n].copy_from_slice(&part);
            }
            8 => {
                // Overwrites the following bytes with zeros or noise.
                let end = (place + random.pick(&[4, 32, 1000])).min(start + length);
                let any = random.once_in(2);
                frame[place..end].fill_with(|| if any { random.word() as u8 } else { 0 });
            }
            _ => {
                // Lengthens or shortens the block by a unit at its end; then the table must change
                // too.
                let (unit, end) = (table.map_or(8, |table| table.unit), start + length);
                let grows = random.once_in(2);
                if grows && frame.len() + unit <= room {
                    frame.splice(end..end, vec![0; unit]);
                } else if !grows
                    && length >= 2 * unit
                    && end - unit >= header + table.map_or(0, |table| table.blocks)
                {
                    frame.drain(end - unit..end);
                } else {
                    continue;
                }
                if let Some(table) = table {
                    move_ends(&mut frame[header..], table, end - header, grows);
                }
                break;
            }
        }
    }
    seal(&mut frame, header, table);
    frame
}

/// Moves the ends of blocks by one unit forward or backward, from the block on whose end was byte
/// `end` of the payload.
fn move_ends(payload: &mut [u8], table: Table, end: usize, grows: bool) {
    for i in 0..table.n {
        if table.end(payload, i) < end {
            continue;
        }
        let at = table.entries + 8 * i;
        let old = u32::from_le_bytes(payload[at..at + 4].try_into().unwrap());
        let new = if grows { old.wrapping_add(1) } else { old.wrapping_sub(1) };
        payload[at..at + 4].copy_from_slice(&new.to_le_bytes());
    }
}

/// True if all checksums of a frame match, so that a decoder processes it.
fn is_sealed(frame: &[u8], header: usize, table: Option<Table>) -> bool {
    let payload = &frame[header..];
    let of_blocks = table.is_none_or(|table| {
        (0..table.n).all(|i| {
            let check = &payload[table.entries + 8 * i + 4..][..4];
            table.block(payload, i).is_none_or(|block| {
                let n_bytes = block.len() as u64;
                Checksum::of(&payload[block.clone()], block.start as u64).finish(n_bytes) as u32
                    == u32::from_le_bytes(check.try_into().unwrap())
            })
        })
    });
    of_blocks && frame[24..32] == checksum(payload).to_le_bytes()
}

/// The CPU's results for frames of `array`, on all cores.
fn by_cpu(array: &Array, frames: &[Vec<u8>], verify: Verify) -> Vec<Option<Vec<u8>>> {
    let (next, n_threads) = (AtomicUsize::new(0), thread::available_parallelism().map_or(1, usize::from));
    let mut all: Vec<Option<Vec<u8>>> = vec![None; frames.len()];
    let work = || {
        let (context, mut done) = (gridz::Context::new(Some(1), None).unwrap(), Vec::new());
        let context = context.on(gridz_codecs::settings::Backend::Cpu, None).unwrap();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(frame) = frames.get(i) else { return done };
            let mut back = vec![0; array.n_bytes() as usize];
            let result = gridz::decompress(frame, gridz::Part::All, &mut back, verify, &context);
            done.push((i, result.ok().map(|_| back)));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..n_threads.min(16)).map(|_| scope.spawn(work)).collect();
        for (i, result) in workers.into_iter().flat_map(|worker| worker.join().unwrap()) {
            all[i] = result;
        }
    });
    all
}

#[derive(Debug, Default)]
struct Seen {
    /// Frames whose checksums all match.
    sealed: usize,
    refused: usize,
    read: usize,
}

fn content(array: &Array, codec: &str, random: &mut Random) -> Vec<u8> {
    if codec == "cci" {
        let generator = random.pick(&["stencil", "mesh", "columns", "pointers", "patches"]);
        return arrays::bytes(array, Kind::Rule(generator), random);
    }
    let kinds = [
        "wave",
        "few",
        "islands",
        "gaps",
        "decimals",
        "decimal_gaps",
        "jumps",
        "uneven",
        "ripples",
        "steps",
        "special",
    ];
    let kind = if random.once_in(3) { Kind::Mixed } else { Kind::Rule(random.pick(&kinds)) };
    arrays::bytes(array, kind, random)
}

fn check(spec: &Request, dtype: DType, random: &mut Random) -> Seen {
    let (stream, mut seen, n) = (Stream::new(), Seen::default(), n_frames());
    for round in 0..n.div_ceil(AT_ONCE) {
        let extents = random.pick(&[&[5000][..], &[80, 70], &[17, 20, 33], &[4100], &[3, 5, 18, 20]]);
        let order = if random.once_in(8) { ByteOrder::Big } else { ByteOrder::Little };
        let array = array(dtype, order, extents);
        let goods: Vec<Vec<u8>> =
            (0..4).map(|_| compress(&array, spec, &content(&array, spec.name(), random), &cpu())).collect();
        let layout = Layout { slot_gap: 0, ..Layout::of(AT_ONCE.min(n)) };
        let batch = Batch::new(&stream, array, spec, layout);
        let mut tables = Vec::new();
        let frames: Vec<Vec<u8>> = (0..batch.n_chunks)
            .map(|_| {
                let good = &goods[random.below(goods.len())];
                let header = header_bytes(array.shape().rank(), usize::from(good[11]));
                let table = Table::of(good, &good[header..]);
                let frame = damaged(good, header, table, batch.bound, random);
                tables.push((header, table));
                frame
            })
            .collect();
        seen.sealed +=
            frames.iter().zip(&tables).filter(|(frame, (header, table))| is_sealed(frame, *header, *table)).count();
        batch.write_frames(&frames);
        for (verify, flags) in [(Verify::Checksum, 0), (Verify::Structure, SKIP_CHECKSUM)] {
            batch.poison_results();
            batch.submit_decompress(flags);
            let (statuses, back) = (batch.read_statuses(), batch.back.read_all());
            for (i, (status, expected)) in statuses.into_iter().zip(by_cpu(&array, &frames, verify)).enumerate() {
                let what = format!("{spec} {dtype:?} {order:?} {extents:?}, round {round}, frame {i}, {verify:?}");
                let is_right = if expected.is_some() {
                    status == 0
                } else {
                    [CORRUPT, TRUNCATED, UNSUPPORTED].contains(&status)
                };
                if !is_right {
                    let path = std::env::temp_dir().join("gridz-resealed-frame");
                    std::fs::write(&path, &frames[i]).unwrap();
                    panic!(
                        "{what}: status {status}, CPU reads it: {}; the frame is in {}",
                        expected.is_some(),
                        path.display()
                    );
                }
                match expected {
                    Some(expected) => {
                        assert_same_bytes(batch.chunk(&back, i), &expected, &what);
                        seen.read += 1;
                    }
                    None => seen.refused += 1,
                }
            }
            batch.assert_guards(&format!("{spec} {dtype:?} {extents:?}"));
        }
    }
    seen
}

#[test]
fn damage_under_right_checksums() {
    if !has_gpu("damage_under_right_checksums") {
        return;
    }
    let mut random = Random::new(77);
    for (text, dtypes) in REQUESTS {
        let spec: Request = text.parse().unwrap();
        for &dtype in dtypes {
            assert!(takes(&spec, dtype), "{text} {dtype:?}");
            let seen = check(&spec, dtype, &mut random);
            println!("{text} {dtype:?}: {seen:?}");
            let n = n_frames().div_ceil(AT_ONCE) * AT_ONCE.min(n_frames());
            assert_eq!(seen.refused + seen.read, 2 * n, "{text} {dtype:?}");
            // In some tables the ends are not ascending; such frames have no blocks to be sealed.
            assert!(seen.sealed * 10 >= 9 * n, "{text} {dtype:?}: {seen:?}");
            assert!(n < 100 || (seen.refused > 0 && seen.read > 0), "{text} {dtype:?}: {seen:?}");
        }
    }
}

/// A lorenzo frame with this header and one block, with valid checks.
fn of_one_block(header: &[u8], block: &[u32]) -> Vec<u8> {
    let words = [block.len() as u32 / 4, 0, 0, 0].into_iter().chain(block.iter().copied());
    let mut frame: Vec<u8> = header.iter().copied().chain(words.flat_map(u32::to_le_bytes)).collect();
    seal(&mut frame, header.len(), Some(Table { entries: 0, blocks: 16, n: 1, unit: 16 }));
    frame
}

/// A lorenzo dictionary has at most one entry per element of the block; here, all elements have
/// index 0.
#[test]
fn dictionaries_of_all_sizes() {
    if !has_gpu("dictionaries_of_all_sizes") {
        return;
    }
    const M: u32 = 4096;
    let stream = Stream::new();
    let array = array(DType::F32, ByteOrder::Little, &[u64::from(M)]);
    let spec: Request = "lorenzo,level=fast".parse().unwrap();
    let zeros = compress(&array, &spec, &vec![0; 4 * M as usize], &cpu());
    let header = header_bytes(1, usize::from(zeros[11]));
    let sizes = [0, 1, 2, M - 1, M, M + 1, 8192, 0xffff];
    let frames: Vec<Vec<u8>> = sizes
        .iter()
        .map(|n_entries| {
            // The block header: SPLIT with a dictionary whose entries are all the base; groups of
            // numbers without bits.
            let block = [[0x22, n_entries << 16, 7.5f32.to_bits(), 0], [0; 4], [0; 4]].concat();
            of_one_block(&zeros[..header], &block)
        })
        .collect();
    let batch = Batch::new(&stream, array, &spec, Layout::of(frames.len()));
    batch.write_frames(&frames);
    for (verify, flags) in [(Verify::Checksum, 0), (Verify::Structure, SKIP_CHECKSUM)] {
        batch.submit_decompress(flags);
        let (statuses, expected) = (batch.read_statuses(), by_cpu(&array, &frames, verify));
        for ((n, status), expected) in sizes.into_iter().zip(statuses).zip(&expected) {
            assert_eq!(expected.is_some(), (1..=M).contains(&n), "{n} entries, by the CPU");
            assert_eq!(status, if expected.is_some() { 0 } else { CORRUPT }, "{n} entries");
        }
        let back = batch.back.read_all();
        assert_same_bytes(batch.chunk(&back, 4), expected[4].as_ref().unwrap(), "as many entries as elements");
    }
}

/// In a group with 5 patched numbers, the last byte of the bitmap of second-level patches must have
/// 0 from bit 5 on.
#[test]
fn marks_after_the_last_patched_number() {
    if !has_gpu("marks_after_the_last_patched_number") {
        return;
    }
    let stream = Stream::new();
    let array = array(DType::F32, ByteOrder::Little, &[4096]);
    let spec: Request = "lorenzo,level=fast".parse().unwrap();
    let zeros = compress(&array, &spec, &vec![0; 4 * 4096], &cpu());
    let header = header_bytes(1, usize::from(zeros[11]));
    let frames: Vec<Vec<u8>> = (0..8)
        .map(|behind| {
            // SPLIT. In the first of four groups, numbers have no packed bits; 5 are patched with
            // one bit, and one of these with another.
            let heads = [2, 0, 0, 0, 0x0001_0100, 0x0001_0005, 0, 0, 0, 0, 0, 0];
            let mut rows = [0; 32];
            rows[0] = 0b11111;
            let strings = [0b10101 | (0b100 | behind << 5) << 8 | 1 << 16, 0, 0, 0];
            let block = [&heads[..], &rows, &strings].concat();
            of_one_block(&zeros[..header], &block)
        })
        .collect();
    let batch = Batch::new(&stream, array, &spec, Layout::of(frames.len()));
    batch.write_frames(&frames);
    batch.submit_decompress(0);
    let (statuses, expected) = (batch.read_statuses(), by_cpu(&array, &frames, Verify::Checksum));
    let is_read: Vec<bool> = expected.iter().map(Option::is_some).collect();
    assert_eq!(is_read, [true, false, false, false, false, false, false, false], "by the CPU");
    assert_eq!(statuses, [0].into_iter().chain([CORRUPT; 7]).collect::<Vec<_>>());
    assert_same_bytes(batch.chunk(&batch.back.read_all(), 0), expected[0].as_ref().unwrap(), "no mark is wrong");
}
