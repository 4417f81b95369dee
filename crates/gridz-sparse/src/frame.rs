//! The frame of a sparse matrix: a header, and tables that start at multiples of 64 bytes. A matrix
//! in memory is its frame.

use std::ops::Range;

use crate::element::Element;
use crate::layout::{
    CODE_UNIT, IN_ORDER, LANES, LONG_BYTES, Long, SLICE_BYTES, STEP_BYTES, Slice, Step, VALUE_BLOCK_BYTES,
    ValueBlock, ValueCodec, WINDOW,
};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::checksum::checksum;
use gridz_codecs::types::DType;

/// First bytes of a frame.
pub const MAGIC: [u8; 4] = *b"GRDM";
/// Version that this library writes and reads.
pub const VERSION: u8 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
/// Tables start at multiples of this.
pub const UNIT: usize = 64;
/// Offset of the header's CRC-32C.
const CRC_AT: usize = HEADER_BYTES - 4;

/// Contents of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Type of values: F32 or F64.
    pub dtype: DType,
    /// Coding of the values.
    pub codec: ValueCodec,
    /// Side of blocks.
    pub block: usize,
    /// Rows.
    pub n_rows: u64,
    /// Columns.
    pub n_cols: u64,
    /// Elements.
    pub nnz: u64,
    /// Slices of rows that are not long.
    pub n_slices: usize,
    /// Slices of long rows.
    pub n_long_slices: usize,
    /// Entries of the table of steps.
    pub n_steps: usize,
    /// Entries of the table of orders.
    pub n_order: usize,
    /// Long rows.
    pub n_long: usize,
    /// Number of distinct values, if the values are coded by a table.
    pub n_different: usize,
    /// Bytes of codes.
    pub code_bytes: usize,
    /// Bytes of values.
    pub value_bytes: usize,
}

/// Byte ranges of the tables in a frame.
#[derive(Debug, Clone)]
pub struct TableRanges {
    /// [`Slice`]s.
    pub slices: Range<usize>,
    /// [`Step`]s.
    pub steps: Range<usize>,
    /// Indices of nodes, 2 bytes each.
    pub order: Range<usize>,
    /// [`Long`] rows.
    pub long: Range<usize>,
    /// Distinct values.
    pub different: Range<usize>,
    /// [`ValueBlock`]s.
    pub blocks: Range<usize>,
    /// Codes of columns.
    pub codes: Range<usize>,
    /// Values.
    pub values: Range<usize>,
    /// Bytes of the whole frame.
    pub frame_bytes: usize,
}

impl Head {
    /// The byte ranges of the tables.
    ///
    /// # Errors
    /// `Corrupt` if no frame can be that long.
    pub fn table_ranges(&self) -> Result<TableRanges> {
        let mut end = HEADER_BYTES;
        let mut next = |n: usize, bytes: usize| -> Result<Range<usize>> {
            let too_many = || {
                let Self { n_rows, nnz, n_slices, n_long_slices, n_steps, n_order, n_long, .. } = self;
                let Self { n_different, code_bytes, value_bytes, .. } = self;
                Error::corrupt(format!(
                    "the header of a sparse matrix is damaged: its counts ({n_rows} rows, {nnz} elements, \
                     {n_slices} slices of short rows, {n_long_slices} slices of long rows, {n_steps} steps, \
                     {n_order} nodes, {n_long} long rows, {n_different} distinct values, {code_bytes} bytes of \
                     codes, {value_bytes} bytes of values) describe a frame of 2^62 bytes or more; the limit is \
                     below that"
                ))
            };
            let start = end;
            let n_bytes = n.checked_mul(bytes).ok_or_else(too_many)?;
            let stop = start.checked_add(n_bytes).filter(|&stop| stop < 1 << 62).ok_or_else(too_many)?;
            end = stop.next_multiple_of(UNIT);
            Ok(start..stop)
        };
        let element = self.dtype.size().unwrap_or(0) as usize;
        let all_slices = self.n_slices.saturating_add(self.n_long_slices);
        let n_blocks = if self.codec == ValueCodec::Blocks { all_slices } else { 0 };
        Ok(TableRanges {
            slices: next(all_slices, SLICE_BYTES)?,
            steps: next(self.n_steps, STEP_BYTES)?,
            order: next(self.n_order, 2)?,
            long: next(self.n_long, LONG_BYTES)?,
            different: next(self.n_different, element)?,
            blocks: next(n_blocks, VALUE_BLOCK_BYTES)?,
            codes: next(self.code_bytes, 1)?,
            values: next(self.value_bytes, 1)?,
            frame_bytes: end,
        })
    }

    /// Writes the header without its checksums.
    fn write(&self, to: &mut [u8]) {
        to[..4].copy_from_slice(&MAGIC);
        to[4..8].copy_from_slice(&[VERSION, self.dtype as u8, self.codec as u8, self.block as u8]);
        let counts = [
            self.n_rows,
            self.n_cols,
            self.nnz,
            self.n_slices as u64,
            self.n_long_slices as u64,
            self.n_steps as u64,
            self.n_order as u64,
            self.n_long as u64,
            self.n_different as u64,
            self.code_bytes as u64,
            self.value_bytes as u64,
        ];
        for (to, count) in to[8..].chunks_exact_mut(8).zip(counts) {
            to.copy_from_slice(&count.to_le_bytes());
        }
    }

    /// Reads the header of a frame.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt`, `UnsupportedFormat`.
    pub fn read(frame: &[u8]) -> Result<Self> {
        let corrupt = |text: &'static str| Err(Error::corrupt(text));
        let Some(head) = frame.get(..HEADER_BYTES) else {
            let text = format!("the header of a sparse matrix is truncated after {} bytes", frame.len());
            return Err(Error::new(ErrorKind::Truncated, text));
        };
        if head[..4] != MAGIC {
            return corrupt("not a frame of a sparse matrix: the data does not begin with GRDM");
        }
        let crc = u32::from_le_bytes(head[CRC_AT..].try_into().expect("4 bytes"));
        if crc32c::crc32c(&head[..CRC_AT]) != crc {
            return corrupt("the header of a sparse matrix is damaged: its checksum does not match");
        }
        let newer = |text: String| Err(Error::new(ErrorKind::UnsupportedFormat, text));
        if head[4] != VERSION {
            return newer(format!(
                "the sparse matrix has format version {}; this library reads version {VERSION}",
                head[4]
            ));
        }
        let dtype = match head[5] {
            11 => DType::F32,
            12 => DType::F64,
            other => {
                return newer(format!(
                    "the sparse matrix has element type {other}; this library supports 11 and 12"
                ));
            }
        };
        let Some(codec) = ValueCodec::from_number(head[6]) else {
            return newer(format!(
                "the sparse matrix has value coding {}, which this library does not support",
                head[6]
            ));
        };
        let block = usize::from(head[7]);
        if !crate::layout::BLOCKS.contains(&block) {
            return Err(Error::corrupt(format!(
                "the header of a sparse matrix is damaged: its block side {block} is not one of {:?}",
                crate::layout::BLOCKS
            )));
        }
        let word = |i: usize| u64::from_le_bytes(head[8 + 8 * i..][..8].try_into().expect("8 bytes"));
        let count = |i: usize| word(i) as usize;
        if head[112..CRC_AT].iter().any(|&byte| byte != 0) {
            return corrupt("the header of a sparse matrix is damaged: reserved bytes are not 0");
        }
        Ok(Self {
            dtype,
            codec,
            block,
            n_rows: word(0),
            n_cols: word(1),
            nnz: word(2),
            n_slices: count(3),
            n_long_slices: count(4),
            n_steps: count(5),
            n_order: count(6),
            n_long: count(7),
            n_different: count(8),
            code_bytes: count(9),
            value_bytes: count(10),
        })
    }
}

/// Offset of the checksum of all bytes after the header.
const SUM_AT: Range<usize> = 96..104;
/// Offset of the length of the frame in bytes.
const BYTES_AT: Range<usize> = 104..112;

/// Writes the checksums and the length of a frame, which must be complete otherwise.
pub fn seal(frame: &mut [u8]) {
    let sum = checksum(&frame[HEADER_BYTES..]);
    frame[SUM_AT].copy_from_slice(&sum.to_le_bytes());
    let n_bytes = frame.len() as u64;
    frame[BYTES_AT].copy_from_slice(&n_bytes.to_le_bytes());
    let crc = crc32c::crc32c(&frame[..CRC_AT]);
    frame[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Writes the header of a new frame, without its checksums.
pub fn begin(frame: &mut [u8], head: &Head) {
    head.write(&mut frame[..HEADER_BYTES]);
}

/// Checks the length and the checksum of a frame.
///
/// # Errors
/// `Truncated`, `Corrupt`.
pub fn check_sums(frame: &[u8], frame_bytes: usize) -> Result<()> {
    let word = |range: Range<usize>| u64::from_le_bytes(frame[range].try_into().expect("8 bytes"));
    if word(BYTES_AT) != frame_bytes as u64 {
        let stated = word(BYTES_AT);
        return Err(Error::corrupt(format!(
            "the header of a sparse matrix is damaged: it states a length of {stated} bytes, but its tables need \
             {frame_bytes} bytes"
        )));
    }
    if frame.len() < frame_bytes {
        let text = format!("a sparse matrix is truncated: it has {} of {frame_bytes} bytes", frame.len());
        return Err(Error::new(ErrorKind::Truncated, text));
    }
    if frame.len() > frame_bytes {
        return Err(Error::corrupt(format!(
            "{} bytes follow the frame of a sparse matrix; pass exactly one frame",
            frame.len() - frame_bytes
        )));
    }
    if word(SUM_AT) != checksum(&frame[HEADER_BYTES..]) {
        return Err(Error::corrupt("a sparse matrix is damaged: its checksum does not match"));
    }
    Ok(())
}

/// Pads codes to a multiple of [`CODE_UNIT`] and returns their length in these units.
pub fn pad_codes(codes: &mut Vec<u8>) -> u32 {
    codes.resize(codes.len().next_multiple_of(CODE_UNIT), 0);
    (codes.len() / CODE_UNIT) as u32
}

/// The tables of a matrix.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Contents of the header.
    pub head: &'a Head,
    slices: &'a [[u8; SLICE_BYTES]],
    steps: &'a [[u8; STEP_BYTES]],
    order: &'a [[u8; 2]],
    long: &'a [[u8; LONG_BYTES]],
    different: &'a [u8],
    blocks: &'a [[u8; VALUE_BLOCK_BYTES]],
    codes: &'a [u8],
    values: &'a [u8],
}

impl<'a> View<'a> {
    /// The tables of a frame with these byte ranges.
    pub fn new(head: &'a Head, places: &TableRanges, frame: &'a [u8]) -> Self {
        let of = |range: &Range<usize>| &frame[range.clone()];
        Self {
            head,
            slices: of(&places.slices).as_chunks().0,
            steps: of(&places.steps).as_chunks().0,
            order: of(&places.order).as_chunks().0,
            long: of(&places.long).as_chunks().0,
            different: of(&places.different),
            blocks: of(&places.blocks).as_chunks().0,
            codes: of(&places.codes),
            values: of(&places.values),
        }
    }

    /// Slice `i`; the slices of long rows follow all others.
    #[inline(always)]
    pub fn slice(&self, i: usize) -> Slice {
        Slice::read(&self.slices[i])
    }

    /// Number of slices, including those of long rows.
    pub fn n_slices(&self) -> usize {
        self.slices.len()
    }

    /// The steps of a slice.
    #[inline(always)]
    pub fn steps(&self, slice: &Slice) -> &'a [[u8; STEP_BYTES]] {
        &self.steps[slice.steps_at as usize..][..usize::from(slice.n_steps)]
    }

    /// The steps of all slices.
    pub fn all_steps(&self) -> &'a [[u8; STEP_BYTES]] {
        self.steps
    }

    /// The order of nodes, starting at entry `at`.
    #[inline(always)]
    pub fn order(&self, at: usize) -> &'a [[u8; 2]] {
        &self.order[at..]
    }

    /// Long row `i`.
    pub fn long(&self, i: usize) -> Long {
        Long::read(&self.long[i])
    }

    /// The codes of a slice.
    #[inline(always)]
    pub fn codes(&self, slice: &Slice) -> &'a [u8] {
        &self.codes[slice.codes_at as usize * CODE_UNIT..][..slice.code_bytes(self.head.block)]
    }

    /// Distinct value `i`.
    #[inline(always)]
    pub fn different<T: Element>(&self, i: usize) -> T {
        T::read(&self.different[i * T::BYTES..])
    }

    /// Coding of the values of slice `i`.
    #[inline(always)]
    pub fn block(&self, i: usize) -> ValueBlock {
        ValueBlock::read(&self.blocks[i])
    }

    /// Bytes of values.
    #[inline(always)]
    pub fn values(&self) -> &'a [u8] {
        self.values
    }

    /// The row of each lane of a slice.
    pub fn rows(&self, slice: &Slice) -> impl Iterator<Item = u64> + use<> {
        self.lanes(slice).0.into_iter().take(usize::from(slice.n_lanes))
    }

    /// The row of each lane of a slice, and its position in its node. Lanes without rows have
    /// unspecified results. This avoids divisions, which take longer than summing a row.
    #[inline(always)]
    pub fn lanes(&self, slice: &Slice) -> ([u64; LANES], [u8; LANES]) {
        let block = self.head.block;
        let (mut rows, mut subs) = ([0; LANES], [0; LANES]);
        let mut sub = slice.phase(block);
        let first = u64::from(slice.place) * LANES as u64;
        if slice.order_at == IN_ORDER {
            for lane in 0..LANES {
                rows[lane] = first + lane as u64;
                subs[lane] = sub as u8;
                sub = if sub + 1 == block { 0 } else { sub + 1 };
            }
            return (rows, subs);
        }
        let window = u64::from(slice.place / (WINDOW / LANES) as u32) * WINDOW as u64;
        let mut order = self.order[slice.order_at as usize..].iter();
        let mut node = 0;
        for lane in 0..usize::from(slice.n_lanes) {
            if lane == 0 || sub == 0 {
                // The entries of a checked slice exist.
                node = order.next().map_or(0, |&node| u64::from(u16::from_le_bytes(node)) * block as u64);
            }
            rows[lane] = window + node + sub as u64;
            subs[lane] = sub as u8;
            sub = if sub + 1 == block { 0 } else { sub + 1 };
        }
        (rows, subs)
    }
}

/// Step `k` of a slice's steps.
#[inline(always)]
pub fn step(steps: &[[u8; STEP_BYTES]], k: usize) -> Step {
    Step::read(&steps[k])
}
