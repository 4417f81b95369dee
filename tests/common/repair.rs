//! Recomputes the checksums of a damaged frame. The fuzz targets use this file too.

use std::ops::Range;

use gridz_codecs::codec::registry;
use gridz_codecs::codec::{cci, huffman, lorenzo, quant};
use gridz_codecs::format::checksum::{Checksum, checksum};
use gridz_codecs::format::header::{Header, header_bytes};

/// Bytes of an entry of a table: the end of a block and its check.
const ENTRY: usize = 8;

/// Recomputes both checksums of a damaged frame, so that a reader must check the fields themselves.
/// Changes nothing if the frame is too short to locate its payload.
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

/// [`repair`] for the checks within the payload as well, so that the damage reaches the decoder of each block.
/// A table whose ends are damaged keeps its checks: the decoder refuses such a table before it reads a block.
pub fn reseal(frame: &mut [u8]) {
    repair(frame);
    for (at, part) in parts(frame).unwrap_or_default() {
        let payload = &mut frame[at.payload..];
        let check = Checksum::of(&payload[part.clone()], part.start as u64).finish(part.len() as u64) as u32;
        // Check fields in the head of multigrid have 64 bits; their upper half is zero.
        let field = &mut payload[at.check..at.check + at.width];
        field.copy_from_slice(&u64::from(check).to_le_bytes()[..at.width]);
    }
    repair(frame);
}

/// In a payload with one table, makes the last block end at the end of the payload. Changes nothing
/// in other payloads.
#[allow(dead_code, reason = "the fuzz targets do not use it")]
pub fn close_table(frame: &mut Vec<u8>) {
    let Some((start, form)) = form(frame) else { return };
    let n_bytes = frame.len() - start;
    if n_bytes < form.blocks_at || form.n_blocks == 0 {
        return;
    }
    frame.resize(start + form.blocks_at + (n_bytes - form.blocks_at).next_multiple_of(form.unit), 0);
    let end = (frame.len() - start - form.blocks_at) / form.unit;
    let entry = start + form.table_at + ENTRY * (form.n_blocks - 1);
    frame[entry..entry + 4].copy_from_slice(&(end as u32).to_le_bytes());
}

/// Location of a check: the start of the payload in the frame, the check's offset in the payload,
/// and its size.
struct Check {
    payload: usize,
    check: usize,
    width: usize,
}

/// Location of a table in a payload: the table, the first block, and the unit of the block ends in
/// bytes.
struct Form {
    table_at: usize,
    n_blocks: usize,
    blocks_at: usize,
    unit: usize,
}

/// Start of the payload of a frame, and location of its table, for the codecs that have one.
fn form(frame: &[u8]) -> Option<(usize, Form)> {
    let header = Header::parse(frame).ok()?;
    let entry = registry::find(header.codec)?;
    let (dtype, params) = (header.array.dtype(), header.params);
    let shape = header.fold.apply(header.array.shape(), entry.codec.max_rank());
    let size = dtype.size()? as usize;
    // Only parameters that the codec accepts have a layout.
    entry.codec.layout(dtype, &shape, params).ok()?;
    let layout = match entry.name {
        "lorenzo" => lorenzo::layout::new(dtype, &shape, params[0])?,
        "quant" => {
            let asked = quant::params::Asked::of_params(params, Some(size))?;
            quant::layout(dtype, &shape, asked.log2_unit, asked.level)?
        }
        "huffman" => huffman::params::layout(&shape, size, params[0])?,
        "cci" => cci::params::layout(&shape, size, params)?.0,
        _ => return None,
    };
    let (table_at, n_blocks) = (layout.head_bytes(), layout.n_blocks());
    let form = Form { table_at, n_blocks, blocks_at: layout.table_bytes(), unit: layout.unit() };
    Some((header.n_bytes(), form))
}

/// The checks of a payload in the order in which they can be computed, and the bytes of the payload that each covers.
fn parts(frame: &[u8]) -> Option<Vec<(Check, Range<usize>)>> {
    let mut parts = Vec::new();
    if let Some((start, Form { table_at, n_blocks, blocks_at, unit })) = form(frame) {
        let table = table_at..table_at + ENTRY * n_blocks;
        of_table(start, &frame[start..], table, blocks_at, unit, &mut parts)?;
        return Some(parts);
    }
    let header = Header::parse(frame).ok()?;
    let entry = registry::find(header.codec).filter(|entry| entry.name == "multigrid")?;
    let shape = header.fold.apply(header.array.shape(), entry.codec.max_rank());
    entry.codec.layout(header.array.dtype(), &shape, header.params).ok()?;
    let n_levels = shape.extents().iter().map(|n| u64::BITS - (n - 1).leading_zeros()).max()? as usize;
    of_layers(header.n_bytes(), &frame[header.n_bytes()..], n_levels, usize::from(header.params[2]) + 1)
}

/// The blocks of a table, which begin at `at` in the payload.
fn of_table(
    start: usize,
    payload: &[u8],
    table: Range<usize>,
    at: usize,
    unit: usize,
    parts: &mut Vec<(Check, Range<usize>)>,
) -> Option<()> {
    let mut first = at;
    for (i, entry) in payload.get(table.clone())?.chunks_exact(ENTRY).enumerate() {
        let end = at + u32::from_le_bytes(*entry.first_chunk()?) as usize * unit;
        payload.get(first..end)?;
        let check = table.start + ENTRY * i + 4;
        parts.push((Check { payload: start, check, width: 4 }, first..end));
        first = end;
    }
    Some(())
}

/// The tables, exact elements and head of a payload of multigrid (`SPEC.md`, multigrid, "Payload").
fn of_layers(start: usize, payload: &[u8], n_levels: usize, n_layers: usize) -> Option<Vec<(Check, Range<usize>)>> {
    let number = |at: usize| usize::try_from(u64::from_le_bytes(*payload.get(at..)?.first_chunk()?)).ok();
    let bins = 8 * n_levels;
    let exact_of_first = 32 + bins;
    let further = |k: usize| exact_of_first + 32 + (k - 1) * (48 + bins);
    let head = if n_layers == 1 { exact_of_first + 8 } else { further(n_layers) + 8 };
    let mut parts = Vec::new();
    let mut at = head;
    for k in 0..n_layers {
        // The bytes of table and blocks, of exact elements, and the offset of the latter's check.
        let (n_bytes, n_exact, check) = match (n_layers, k) {
            (1, _) => {
                let n_exact = number(exact_of_first)?;
                (payload.len().checked_sub(head)?.checked_sub(n_exact)?, n_exact, None)
            }
            (_, 0) => (number(exact_of_first + 16)?, number(exact_of_first)?, Some(exact_of_first + 24)),
            _ => (number(further(k) + 8)?, number(further(k) + 24)?, Some(further(k) + 16)),
        };
        let blocks = at.checked_add(n_bytes).filter(|&end| end <= payload.len())?;
        let end = blocks.checked_add(n_exact).filter(|&end| end <= payload.len())?;
        // The last block ends where the exact elements begin, which gives the number of blocks.
        let is_last = |n: &usize| {
            let last = payload[at + ENTRY * (n - 1)..].first_chunk().map_or(0, |&end| u32::from_le_bytes(end));
            ENTRY * n + 4 * last as usize == n_bytes
        };
        let n_blocks = if n_bytes == 0 { 0 } else { (1..=n_bytes / ENTRY).find(is_last)? };
        let table = at..at + ENTRY * n_blocks;
        of_table(start, &payload[..blocks], table.clone(), table.end, 4, &mut parts)?;
        if let Some(check) = check.filter(|_| n_exact > 0) {
            parts.push((Check { payload: start, check, width: 8 }, blocks..end));
        }
        at = end;
    }
    if n_layers > 1 {
        parts.push((Check { payload: start, check: head - 8, width: 8 }, 0..head - 8));
    }
    Some(parts)
}
