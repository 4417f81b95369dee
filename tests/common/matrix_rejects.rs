//! Frames of sparse matrices that are valid except for the defect in their names.

use gridz::ErrorKind::{self, Corrupt, Truncated, UnsupportedFormat};
use gridz_codecs::cpu::pool::Pool;
use gridz_sparse::Matrix;
use gridz_sparse::frame::{HEADER_BYTES, TableRanges, seal};
use gridz_sparse::layout::IN_ORDER;

use super::matrices::{MatrixInput, Rows};

/// A name, the error, and the frame.
pub type Reject = (&'static str, ErrorKind, fn() -> Vec<u8>);

/// A frame that is being changed.
struct Frame {
    bytes: Vec<u8>,
    at: TableRanges,
}

/// Fields of a slice.
const BASE: usize = 0;
const PLACE: usize = 8;
const VALUES_AT: usize = 12;
const CODES_AT: usize = 16;
const STEPS_AT: usize = 20;
const ORDER_AT: usize = 24;
const N_STEPS: usize = 28;
const WIDTH: usize = 29;
const FLAGS: usize = 30;
const N_ROWS: usize = 31;

/// Fields of the header.
const N_COLS: usize = 16;
const ELEMENTS: usize = 24;
const SUM: usize = 96;
const FRAME_BYTES: usize = 104;
const RESERVED: usize = 112;
const CRC: usize = 124;

impl Frame {
    fn of(shape: &str, size: i64, side: i64, values: &str, choice: &str) -> Self {
        let [shape, values, choice, dtype] = [shape, values, choice, "float32"].map(str::to_owned);
        let matrix =
            Rows::<f32>::of(&MatrixInput { shape, size, side, values, choice, dtype }).compress(&Pool::new(1));
        Self { bytes: matrix.frame().to_vec(), at: matrix.table_ranges().clone() }
    }

    /// Applies a change, and fixes the checksums.
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Vec<u8> {
        let before = self.bytes.clone();
        change(&mut self);
        assert!(before != self.bytes, "nothing was changed");
        assert!(Matrix::from_frame(&before, &Pool::new(1)).is_ok());
        seal(&mut self.bytes);
        self.bytes
    }

    /// Applies a change to the header, and fixes only its CRC.
    fn with_header(mut self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        change(&mut self.bytes);
        let crc = crc32c::crc32c(&self.bytes[..CRC]);
        self.bytes[CRC..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        self.bytes
    }

    /// A field of slice `i`.
    fn slice(&mut self, i: usize, field: usize) -> &mut [u8] {
        &mut self.bytes[self.at.slices.start + 32 * i + field..]
    }

    fn mask(&mut self, step: usize) -> &mut [u8] {
        &mut self.bytes[self.at.steps.start + 8 * step + 4..]
    }

    /// A field of long row `i`.
    fn long(&mut self, i: usize, field: usize) -> &mut [u8] {
        &mut self.bytes[self.at.long.start + 16 * i + field..]
    }
}

/// Adds to a number of 4 bytes.
fn add(to: &mut [u8], by: i32) {
    let number = u32::from_le_bytes(to[..4].try_into().unwrap()).wrapping_add_signed(by);
    to[..4].copy_from_slice(&number.to_le_bytes());
}

fn put(to: &mut [u8], number: u32) {
    to[..4].copy_from_slice(&number.to_le_bytes());
}

/// Three slices in order, each of one step; the last one has 6 rows.
fn diagonal() -> Frame {
    Frame::of("diagonal", 70, 1, "any", "plain")
}

/// Slices with rows sorted by length, with codes.
fn by_length() -> Frame {
    let mut frame = Frame::of("mesh", 130, 1, "one", "constant");
    assert_ne!(frame.slice(0, ORDER_AT)[..4], IN_ORDER.to_le_bytes());
    assert!(frame.slice(0, WIDTH)[0] > 0);
    frame
}

/// Two blocked slices.
fn blocked() -> Frame {
    Frame::of("cross", 3, 2, "one", "constant")
}

/// A long row, number 10 of 200, in order.
fn arrow() -> Frame {
    let mut frame = Frame::of("arrow", 5000, 1, "one", "constant");
    assert_eq!(frame.long(0, 0)[0], 10);
    frame
}

/// Three long rows and nothing else.
fn all_long() -> Frame {
    Frame::of("all_long", 3, 1, "one", "constant")
}

/// A single long row, whose second slice has an element in the first lane only.
fn long_row() -> Frame {
    Frame::of("row", 4097, 1, "one", "constant")
}

/// 70 empty rows.
fn no_elements() -> Frame {
    Frame::of("no_elements", 70, 1, "one", "plain")
}

fn dictionary() -> Frame {
    Frame::of("diagonal", 70, 1, "few", "dictionary")
}

/// Values in blocks.
fn blocks() -> Frame {
    Frame::of("diagonal", 70, 1, "any", "blocks")
}

/// `(name, error, valid frame, change)`, with matching checksums.
macro_rules! reject {
    ($name:literal, $error:ident, $sound:ident, $change:expr) => {
        ($name, $error, (|| $sound().with($change)) as fn() -> Vec<u8>)
    };
}

pub fn rejects() -> Vec<Reject> {
    [of_headers(), of_slices(), of_rows(), of_values(), of_long_rows()].concat()
}

fn of_headers() -> Vec<Reject> {
    vec![
        ("empty", Truncated, Vec::new),
        ("header_cut", Truncated, || diagonal().bytes[..HEADER_BYTES - 1].to_vec()),
        ("header_only", Truncated, || diagonal().bytes[..HEADER_BYTES].to_vec()),
        ("frame_cut", Truncated, || {
            let mut frame = diagonal().bytes;
            frame.pop();
            frame
        }),
        ("bytes_behind", Corrupt, || [diagonal().bytes, vec![0; 64]].concat()),
        ("header_bit", Corrupt, || {
            let mut frame = diagonal().bytes;
            frame[ELEMENTS] ^= 1;
            frame
        }),
        ("value_bit", Corrupt, || {
            let Frame { mut bytes, at } = diagonal();
            bytes[at.values.start] ^= 1;
            bytes
        }),
        ("checksum_bit", Corrupt, || diagonal().with_header(|header| header[SUM] ^= 1)),
        ("bytes_of_frame", Corrupt, || diagonal().with_header(|header| header[FRAME_BYTES] ^= 64)),
        reject!("bad_magic", Corrupt, diagonal, |frame| frame.bytes[3] = b'Z'),
        reject!("version_0", UnsupportedFormat, diagonal, |frame| frame.bytes[4] = 0),
        reject!("version_2", UnsupportedFormat, diagonal, |frame| frame.bytes[4] = 2),
        reject!("type_10", UnsupportedFormat, diagonal, |frame| frame.bytes[5] = 10),
        reject!("values_of_kind_5", UnsupportedFormat, diagonal, |frame| frame.bytes[6] = 5),
        reject!("side_0", Corrupt, diagonal, |frame| frame.bytes[7] = 0),
        reject!("side_7", Corrupt, diagonal, |frame| frame.bytes[7] = 7),
        reject!("rows_not_of_the_side", Corrupt, diagonal, |frame| frame.bytes[7] = 3),
        reject!("reserved_in_use", Corrupt, diagonal, |frame| frame.bytes[RESERVED + 11] = 1),
        reject!("one_element_more", Corrupt, diagonal, |frame| add(&mut frame.bytes[ELEMENTS..], 1)),
        reject!("one_element_fewer", Corrupt, diagonal, |frame| add(&mut frame.bytes[ELEMENTS..], -1)),
        reject!("one_row_more", Corrupt, diagonal, |frame| frame.bytes[8] += 1),
        reject!("one_row_fewer", Corrupt, diagonal, |frame| frame.bytes[8] -= 1),
        reject!("rows_without_end", Corrupt, diagonal, |frame| frame.bytes[8..16].fill(0xff)),
        reject!("a_table_outside", Corrupt, diagonal, |frame| frame.bytes[48] = 200),
        reject!("a_table_without_end", Corrupt, diagonal, |frame| frame.bytes[48..56].fill(0xff)),
        reject!("end_too_early", Corrupt, diagonal, |frame| frame.bytes.truncate(frame.bytes.len() - 64)),
    ]
}

fn of_slices() -> Vec<Reject> {
    vec![
        reject!("column_too_large", Corrupt, diagonal, |frame| frame.bytes[N_COLS] -= 1),
        reject!("column_below_0", Corrupt, diagonal, |frame| frame.slice(0, BASE)[..8].fill(0xff)),
        reject!("code_too_large", Corrupt, by_length, |frame| frame.bytes[frame.at.codes.start] = 0xff),
        reject!("column_of_a_block_too_large", Corrupt, blocked, |frame| frame.bytes[N_COLS] -= 1),
        reject!("block_over_the_end_of_numbers", Corrupt, blocked, |frame| {
            frame.bytes[N_COLS..N_COLS + 8].fill(0xff);
            // The first row's first block begins at the largest 64-bit number.
            add(frame.slice(0, BASE), -1);
        }),
        reject!("mask_0", Corrupt, diagonal, |frame| {
            put(frame.mask(1), 0);
            add(&mut frame.bytes[ELEMENTS..], -6);
        }),
        reject!("mask_of_a_lane_without_row", Corrupt, diagonal, |frame| {
            put(frame.mask(1), 0x7f);
            add(&mut frame.bytes[ELEMENTS..], 1);
            frame.bytes[N_COLS] += 1;
        }),
        reject!("full_slice_with_a_gap", Corrupt, diagonal, |frame| {
            put(frame.mask(0), !4);
            add(&mut frame.bytes[ELEMENTS..], -2);
        }),
        reject!("flag_8", Corrupt, diagonal, |frame| frame.slice(0, FLAGS)[0] |= 8),
        reject!("blocked_without_blocks", Corrupt, diagonal, |frame| frame.slice(0, FLAGS)[0] |= 2),
        reject!("codes_of_3_bytes", Corrupt, diagonal, |frame| frame.slice(0, WIDTH)[0] = 3),
        reject!("no_rows", Corrupt, diagonal, |frame| frame.slice(2, N_ROWS)[0] = 0),
        reject!("rows_33", Corrupt, diagonal, |frame| frame.slice(0, N_ROWS)[0] = 33),
        reject!("steps_outside", Corrupt, diagonal, |frame| frame.slice(0, N_STEPS)[0] = 3),
        reject!("steps_far_outside", Corrupt, diagonal, |frame| put(frame.slice(0, STEPS_AT), u32::MAX)),
        reject!("codes_outside", Corrupt, by_length, |frame| add(frame.slice(4, CODES_AT), 1)),
        reject!("no_codes_outside", Corrupt, diagonal, |frame| put(frame.slice(0, CODES_AT), 1)),
        reject!("values_outside", Corrupt, diagonal, |frame| add(frame.slice(2, VALUES_AT), 1)),
    ]
}

fn of_rows() -> Vec<Reject> {
    vec![
        reject!("place_twice", Corrupt, diagonal, |frame| put(frame.slice(1, PLACE), 0)),
        reject!("place_left_out", Corrupt, diagonal, |frame| put(frame.slice(1, PLACE), 2)),
        reject!("place_of_another_window", Corrupt, diagonal, |frame| put(frame.slice(2, PLACE), 120)),
        reject!("row_twice", Corrupt, by_length, |frame| {
            let at = frame.at.order.start;
            frame.bytes.copy_within(at..at + 2, at + 2);
        }),
        reject!("row_of_none", Corrupt, by_length, |frame| frame.bytes[frame.at.order.start] = 130),
        reject!("row_of_another_window", Corrupt, by_length, |frame| {
            let at = frame.at.order.start;
            frame.bytes[at..at + 2].copy_from_slice(&3840u16.to_le_bytes());
        }),
        reject!("row_nowhere", Corrupt, no_elements, |frame| frame.slice(2, N_ROWS)[0] -= 1),
        reject!("order_outside", Corrupt, by_length, |frame| add(frame.slice(4, ORDER_AT), 1)),
        reject!("two_kinds_of_order", Corrupt, by_length, |frame| put(frame.slice(1, ORDER_AT), IN_ORDER)),
    ]
}

fn of_values() -> Vec<Reject> {
    /// Entries of the table of values.
    const N_TABLE: usize = 72;
    /// Field of the value block of the first slice.
    fn block(frame: &mut Frame, field: usize) -> &mut u8 {
        &mut frame.bytes[frame.at.blocks.start + field]
    }
    vec![
        reject!("constants_of_2_values", Corrupt, by_length, |frame| frame.bytes[N_TABLE] = 2),
        reject!("plain_with_a_table", Corrupt, diagonal, |frame| {
            // A table of one entry, inserted before the values.
            let at = frame.at.values.start;
            frame.bytes.splice(at..at, [0; 64]);
            frame.bytes[N_TABLE] = 1;
        }),
        reject!("number_of_no_value", Corrupt, dictionary, |frame| frame.bytes[frame.at.values.start] = 6),
        reject!("number_of_no_value_without_element", Corrupt, dictionary, |frame| {
            let last = frame.at.values.end - 1;
            frame.bytes[last] = 6;
        }),
        reject!("numbers_of_5_bytes", Corrupt, blocks, |frame| *block(frame, 14) = 5),
        reject!("shift_64", Corrupt, blocks, |frame| *block(frame, 15) = 64),
        reject!("numbers_not_at_a_multiple_of_8", Corrupt, blocks, |frame| *block(frame, 8) = 4),
        reject!("numbers_outside", Corrupt, blocks, |frame| *block(frame, 13) = 1),
    ]
}

fn of_long_rows() -> Vec<Reject> {
    vec![
        reject!("long_row_elsewhere_too", Corrupt, arrow, |frame| {
            // Row 10 is in lane 10 of the first slice, without elements.
            let first = u32::from_le_bytes(frame.slice(0, STEPS_AT)[..4].try_into().unwrap());
            frame.mask(first as usize)[1] |= 4;
            add(&mut frame.bytes[ELEMENTS..], 1);
        }),
        reject!("long_row_of_none", Corrupt, arrow, |frame| frame.long(0, 0)[0] = 200),
        reject!("long_row_that_is_another", Corrupt, arrow, |frame| frame.long(0, 0)[0] = 11),
        reject!("long_row_of_2_64", Corrupt, arrow, |frame| frame.long(0, 0)[..8].fill(0xff)),
        reject!("long_rows_not_in_order", Corrupt, all_long, |frame| {
            frame.long(0, 0)[0] = 1;
            frame.long(1, 0)[0] = 0;
        }),
        reject!("long_row_twice", Corrupt, all_long, |frame| frame.long(1, 0)[0] = 0),
        reject!("long_row_without_slices", Corrupt, all_long, |frame| put(frame.long(0, 12), 0)),
        reject!("long_row_with_slices_of_another", Corrupt, all_long, |frame| put(frame.long(1, 8), 0)),
        reject!("slices_of_no_long_row", Corrupt, arrow, |frame| put(frame.long(0, 12), 1)),
        reject!("slices_of_long_rows_outside", Corrupt, arrow, |frame| put(frame.long(0, 12), 3)),
        reject!("long_and_relative", Corrupt, all_long, |frame| frame.slice(1, FLAGS)[0] |= 1),
        reject!("long_with_another_place", Corrupt, all_long, |frame| put(frame.slice(1, PLACE), 1)),
        reject!("long_by_length", Corrupt, all_long, |frame| put(frame.slice(1, ORDER_AT), 0)),
        reject!("long_with_31_rows", Corrupt, long_row, |frame| frame.slice(2, N_ROWS)[0] = 31),
    ]
}
