//! Frames of sparse matrices that must stay readable forever; see `golden.rs`.
//!
//! `golden/v5_matrices/` holds the frames. They are read to the same rows and have the same product.
//! Of the frames with the same input, the writer still produces the last one, byte for byte; earlier
//! writers produced all others. `golden/v5_matrices_reject/` holds frames that must be refused, with
//! the expected error. Files are only ever added, by `cargo test --test codecs -- --ignored
//! sparse_golden::bless`, which never changes existing ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::golden::{Reject, assert_refused, assert_same_files, folder, manifest, write_manifest};
use crate::common::matrices::{MatrixInput, Rows};
use crate::common::matrix_rejects::rejects;
use crate::common::{assert_same_bytes, sha256};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_sparse::Matrix;
use gridz_sparse::element::{Element, Semiring};
use gridz_sparse::frame::step;
use gridz_sparse::layout::{BLOCKED, FULL, IN_ORDER, RELATIVE, ValueCodec, WINDOW};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Golden {
    file: String,
    /// Release that wrote the file.
    writer: String,
    frame_sha256: String,
    /// SHA-256 of starts and columns, 8 bytes each, and values, one after another.
    rows_sha256: String,
    /// SHA-256 of y = A x, where every NaN is the positive quiet one without payload. Absent for
    /// matrices with too many columns for a vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    product_sha256: Option<String>,
    input: MatrixInput,
}

const FRAMES: &str = "v5_matrices";
const REJECTS: &str = "v5_matrices_reject";
/// Largest number of columns of a matrix for which a product is computed.
const MOST_COLUMNS: u64 = 1 << 20;

/// Calls `$run::<T>($arguments)` for the matrix's type.
macro_rules! by_type {
    ($dtype:expr, $run:ident($($arguments:expr),*)) => {
        match $dtype {
            "float32" => $run::<f32>($($arguments),*),
            "float64" => $run::<f64>($($arguments),*),
            other => panic!("matrices of {other}"),
        }
    };
}

fn make<T: Element>(input: &MatrixInput, pool: &Pool) -> Vec<u8> {
    Rows::<T>::of(input).compress(pool).frame().to_vec()
}

/// The bytes of starts, columns and values.
fn rows_bytes<T: Element>(starts: &[i64], columns: &[i64], values: &[T]) -> Vec<u8> {
    let mut bytes: Vec<u8> = starts.iter().chain(columns).flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(values.iter().flat_map(|value| value.bits().to_le_bytes().into_iter().take(T::BYTES)));
    bytes
}

fn decoded<T: Element>(matrix: &Matrix, pool: &Pool) -> Vec<u8> {
    let rows = gridz_sparse::decode::<i64, T>(matrix, 0..matrix.head().n_rows, pool).unwrap();
    rows_bytes(&rows.starts, &rows.columns, &rows.values)
}

/// The rows of the input.
fn rows_of_input<T: Element>(input: &MatrixInput) -> Vec<u8> {
    let rows = Rows::<T>::of(input);
    rows_bytes(&rows.starts, &rows.columns, &rows.values)
}

/// A x, for a fixed x: multiples of 1/7, some of them negative and some 0.
fn product<T: Element>(matrix: &Matrix, level: Isa, pool: &Pool) -> Vec<u8> {
    let element = |i: u64| {
        let seventh =
            if i % 11 == 3 { 0.0 } else { (i * 37 % 101) as f64 / 7.0 * if i % 3 == 1 { -1.0 } else { 1.0 } };
        T::from_bits(if T::BYTES == 8 { seventh.to_bits() } else { u64::from((seventh as f32).to_bits()) })
    };
    let x: Vec<T> = (0..matrix.head().n_cols).map(element).collect();
    let mut y = vec![T::INFINITY; matrix.head().n_rows as usize];
    gridz_sparse::multiply(matrix, Semiring::PlusTimes, &x, &mut y, level, pool).unwrap();
    let nan =
        if T::BYTES == 8 { f64::NAN.to_bits() & !(1 << 63) } else { u64::from(f32::NAN.to_bits() & !(1 << 31)) };
    let is_nan = |y: &T| y.partial_cmp(y).is_none();
    y.iter().flat_map(|y| if is_nan(y) { nan } else { y.bits() }.to_le_bytes().into_iter().take(T::BYTES)).collect()
}

#[test]
fn frames_are_read() {
    let v5 = folder(FRAMES);
    let rows: Vec<Golden> = manifest(&v5);
    assert_same_files(&v5, rows.iter().map(|row| row.file.clone()).collect());
    assert!(rows.len() >= cases().len());
    for row in rows {
        let frame = fs::read(v5.join(&row.file)).unwrap();
        assert_eq!(sha256(&frame), row.frame_sha256, "{} was changed", row.file);
        let dtype = &*row.input.dtype;
        for pool in [1, 3].map(Pool::new) {
            let matrix = Matrix::from_frame(&frame, &pool).unwrap();
            let found = by_type!(dtype, decoded(&matrix, &pool));
            assert_eq!(sha256(&found), row.rows_sha256, "{}", row.file);
            assert_same_bytes(&found, &by_type!(dtype, rows_of_input(&row.input)), &row.file);
            assert_eq!(row.product_sha256.is_some(), matrix.head().n_cols <= MOST_COLUMNS, "{}", row.file);
            for level in Isa::all() {
                if let Some(want) = &row.product_sha256 {
                    let found = by_type!(dtype, product(&matrix, level, &pool));
                    assert_eq!(&sha256(&found), want, "{} at {level:?}", row.file);
                }
            }
        }
    }
}

#[test]
fn frames_are_written_as_ever() {
    let v5 = folder(FRAMES);
    let rows: Vec<Golden> = manifest(&v5);
    for (i, row) in rows.iter().enumerate() {
        if rows[i + 1..].iter().any(|later| later.input == row.input) {
            continue;
        }
        let frame = fs::read(v5.join(&row.file)).unwrap();
        for pool in [1, 3].map(Pool::new) {
            let made = by_type!(&*row.input.dtype, make(&row.input, &pool));
            assert_same_bytes(&made, &frame, &row.file);
        }
    }
}

#[test]
fn rejects_are_refused_with_the_right_kind() {
    assert_refused(&folder(REJECTS), rejects().len(), |frame| Matrix::from_frame(frame, &Pool::new(1)).map(|_| ()));
}

/// The format features that occur in a frame.
fn features(matrix: &Matrix) -> BTreeSet<String> {
    let (head, view) = (matrix.head(), matrix.view());
    let mut found = BTreeSet::new();
    let mut see = |text: String| found.insert(text);
    see(format!("{}, {:?}", head.dtype.name(), head.codec));
    see(format!("side {}", head.block));
    if head.nnz == 0 {
        see(format!("no elements in {} rows", head.n_rows.min(2)));
    }
    if head.n_rows == 1 {
        see("one row".into());
    }
    if head.n_cols > 1 << 32 {
        see("columns beyond 2^32".into());
    }
    // The number of elements in the longest row of a slice.
    let longest = |i: usize| {
        let slice = view.slice(i);
        let steps = view.steps(&slice);
        let n = |lane: usize| (0..steps.len()).filter(|&k| step(steps, k).mask >> lane & 1 == 1).count();
        (0..32).map(n).max().unwrap_or(0) * slice.side(head.block)
    };
    for i in 0..view.n_slices() {
        let slice = view.slice(i);
        let steps = view.steps(&slice);
        if head.codec == ValueCodec::Blocks && slice.n_steps > 0 {
            see(format!("{}, numbers of {} bytes", head.dtype.name(), view.block(i).width));
            see(format!("values shifted: {}", view.block(i).shift > 0));
        }
        let masks: Vec<u32> = (0..steps.len()).map(|k| step(steps, k).mask).collect();
        let wait = masks.windows(2).any(|pair| pair[1] & !pair[0] != 0);
        if i >= head.n_slices {
            see(format!("long, {} bytes of codes", slice.width));
            see(format!("long, lanes wait: {wait}"));
            continue;
        }
        see(format!("{} bytes of codes, lanes wait: {wait}", slice.width));
        let in_window = |i: usize| view.slice(i).place as usize / (WINDOW / 32);
        if i > 0 && slice.order_at != IN_ORDER && in_window(i - 1) == in_window(i) && longest(i - 1) < longest(i) {
            see("ordered by length in parts".into());
        }
        if steps.is_empty() {
            see("a slice without steps".into());
            continue;
        }
        let has = |flag: u8| u8::from(slice.flags & flag != 0);
        let is_blocked = has(BLOCKED);
        see(format!("blocked {is_blocked}, relative {}, {} bytes of codes", has(RELATIVE), slice.width));
        see(format!("blocked {is_blocked}, full {}", has(FULL)));
        let is_in_order = slice.order_at == IN_ORDER;
        let is_first = slice.place < (WINDOW / 32) as u32;
        see(format!("blocked {is_blocked} of {}, in order {is_in_order}", head.block));
        see(format!("first window {is_first}, in order {is_in_order}"));
        if slice.n_lanes < 32 {
            see(format!("fewer than 32 rows, in order {is_in_order}"));
        }
        let masks = masks.iter().fold(0, |all, mask| all | mask);
        if masks >> (slice.n_lanes - 1) & 1 == 0 || (masks.count_ones() as u8) < slice.n_lanes {
            see("a row without elements beside others".into());
        }
    }
    let mut long = (0..head.n_long).map(|i| view.long(i));
    if long.any(|long| long.n > 1) {
        see("a long row of several slices".into());
    }
    if head.n_long > 1 {
        see("several long rows".into());
    }
    let order = if head.n_order > 0 { "by length" } else { "in order" };
    see(format!("long {}, {order}", head.n_long > 0));
    found
}

/// Every part of the format that the writer can produce occurs in some frame.
#[test]
fn frames_have_everything() {
    let v5 = folder(FRAMES);
    let mut found = BTreeSet::new();
    let mut n_bytes = 0;
    for row in manifest::<Golden>(&v5) {
        let frame = fs::read(v5.join(&row.file)).unwrap();
        assert!(frame.len() < 200_000, "{}", row.file);
        n_bytes += frame.len();
        found.extend(features(&Matrix::from_frame(&frame, &Pool::new(1)).unwrap()));
    }
    assert!(n_bytes < 1_500_000, "{n_bytes} bytes");
    let mut wanted: Vec<String> = Vec::new();
    for dtype in ["float32", "float64"] {
        wanted.extend(ValueCodec::ALL.map(|codec| format!("{dtype}, {codec:?}")));
        let widths = if dtype == "float32" { &[0, 1, 2, 3, 4][..] } else { &[0, 1, 2, 3, 4, 6, 8] };
        wanted.extend(widths.iter().map(|width| format!("{dtype}, numbers of {width} bytes")));
    }
    for side in [1, 2, 3, 4, 5, 6, 8] {
        wanted.push(format!("side {side}"));
        if side > 1 {
            wanted.extend([true, false].map(|in_order| format!("blocked 1 of {side}, in order {in_order}")));
        }
    }
    wanted.extend(WANTED.iter().map(ToString::to_string));
    let missing: Vec<_> = wanted.iter().filter(|text| !found.contains(*text)).collect();
    assert!(missing.is_empty(), "missing: {missing:#?} of {found:#?}");
}

const WANTED: &[&str] = &[
    "values shifted: true",
    "values shifted: false",
    "blocked 0, relative 0, 0 bytes of codes",
    "blocked 0, relative 0, 1 bytes of codes",
    "blocked 0, relative 0, 2 bytes of codes",
    "blocked 0, relative 0, 4 bytes of codes",
    "blocked 0, relative 0, 8 bytes of codes",
    "blocked 0, relative 1, 0 bytes of codes",
    "blocked 0, relative 1, 1 bytes of codes",
    "blocked 0, relative 1, 2 bytes of codes",
    "blocked 1, relative 0, 0 bytes of codes",
    "blocked 1, relative 0, 1 bytes of codes",
    "blocked 1, relative 0, 2 bytes of codes",
    "blocked 1, relative 1, 0 bytes of codes",
    "blocked 1, relative 0, 4 bytes of codes",
    "blocked 1, relative 0, 8 bytes of codes",
    "blocked 1, relative 1, 1 bytes of codes",
    "blocked 1, relative 1, 2 bytes of codes",
    "blocked 0, full 0",
    "blocked 0, full 1",
    "blocked 1, full 0",
    "blocked 1, full 1",
    "blocked 0 of 3, in order true",
    "blocked 0 of 3, in order false",
    "first window true, in order true",
    "first window true, in order false",
    "first window false, in order true",
    "first window false, in order false",
    "fewer than 32 rows, in order true",
    "fewer than 32 rows, in order false",
    "a slice without steps",
    "a row without elements beside others",
    "no elements in 0 rows",
    "no elements in 2 rows",
    "one row",
    "columns beyond 2^32",
    "long, 0 bytes of codes",
    "long, 1 bytes of codes",
    "long, 2 bytes of codes",
    "long, 4 bytes of codes",
    "long, 8 bytes of codes",
    "a long row of several slices",
    "several long rows",
    "0 bytes of codes, lanes wait: true",
    "1 bytes of codes, lanes wait: true",
    "2 bytes of codes, lanes wait: true",
    "long, lanes wait: true",
    "ordered by length in parts",
    "long true, in order",
    "long true, by length",
];

// ---- creating the files
// ---------------------------------------------------------------------------

/// Names, shapes with size and side, values and their coding, and types.
#[rustfmt::skip]
fn cases() -> Vec<(&'static str, MatrixInput)> {
    let case = |name, shape: &str, size, side, values: &str, choice: &str, dtype: &str| {
        let [shape, values, choice, dtype] = [shape, values, choice, dtype].map(str::to_owned);
        (name, MatrixInput { shape, size, side, values, choice, dtype })
    };
    vec![
        case("stencil_f32", "stencil", 8, 1, "any", "best", "float32"),
        case("cross_of_two_windows", "cross", 16, 1, "one", "best", "float32"),
        case("cross_blocks_of_3", "cross", 5, 3, "one", "best", "float64"),
        case("cross_blocks_of_4", "cross", 4, 4, "few", "best", "float32"),
        case("cross_blocks_of_5", "cross", 4, 5, "one", "constant", "float32"),
        case("cross_blocks_of_8", "cross", 3, 8, "one", "best", "float64"),
        case("mesh_blocks_of_2", "mesh", 300, 2, "any", "best", "float64"),
        case("mesh_blocks_of_3", "mesh", 200, 3, "any", "best", "float32"),
        case("mesh_blocks_of_4", "mesh", 120, 4, "many", "dictionary", "float32"),
        case("mesh_blocks_of_5", "mesh", 90, 5, "few", "best", "float64"),
        case("mesh_blocks_of_6", "mesh", 80, 6, "one", "best", "float32"),
        case("mesh_blocks_of_8", "mesh", 70, 8, "few", "best", "float32"),
        case("torn_mesh", "torn_mesh", 500, 3, "few", "best", "float32"),
        case("same_blocks", "same", 40, 4, "one", "best", "float32"),
        case("mesh_of_two_windows", "mesh", 4000, 1, "one", "best", "float64"),
        case("near_mesh", "near_mesh", 700, 1, "few", "best", "float32"),
        case("widths_f32", "near_mesh", 900, 1, "widths", "blocks", "float32"),
        case("widths_in_blocks", "near_mesh", 100, 3, "widths", "blocks", "float64"),
        case("special_f32", "near_mesh", 300, 1, "special", "plain", "float32"),
        case("special_f64", "unsorted", 300, 1, "special", "blocks", "float64"),
        case("negative_zeros", "diagonal", 65, 1, "negative_zero", "best", "float64"),
        case("arrow", "arrow", 9000, 1, "few", "best", "float32"),
        case("long_rows", "mesh_with_long_rows", 700, 1, "any", "best", "float32"),
        case("all_long", "all_long", 12, 1, "many", "dictionary", "float64"),
        case("long_row_only", "row", 4097, 1, "widths", "blocks", "float32"),
        case("unsorted", "unsorted", 600, 1, "any", "plain", "float32"),
        case("uneven", "uneven", 500, 1, "many", "best", "float64"),
        case("wide", "wide", 150, 1, "any", "plain", "float64"),
        case("far", "far", 100, 1, "any", "best", "float64"),
        case("wide_blocks", "wide", 30, 3, "few", "best", "float64"),
        case("far_blocks", "far", 30, 4, "few", "best", "float32"),
        case("slope", "slope", 100, 1, "one", "best", "float32"),
        case("slope_of_blocks", "slope", 60, 2, "few", "best", "float64"),
        case("even_blocks_of_6", "even_mesh", 100, 6, "one", "best", "float32"),
        case("torn_blocks_in_order", "torn_even_mesh", 250, 3, "few", "best", "float64"),
        case("scattered_long_rows", "scattered_long_rows", 600, 1, "one", "best", "float32"),
        case("widths_in_order", "diagonal", 4950, 1, "widths", "blocks", "float64"),
        case("empty", "no_elements", 0, 1, "one", "best", "float64"),
        case("no_elements", "no_elements", 70, 1, "one", "plain", "float32"),
        case("bands", "bands", 900, 1, "any", "plain", "float32"),
        case("wide_bands", "wide_bands", 500, 1, "any", "plain", "float64"),
        case("bands_of_blocks", "wide_bands", 300, 3, "few", "best", "float64"),
        case("far_clusters", "far_clusters", 1000, 1, "one", "best", "float32"),
        case("clusters", "clusters", 5000, 1, "many", "best", "float32"),
        case("one_row", "row", 5, 1, "any", "best", "float32"),
    ]
}

/// Writes the files that do not exist yet, and their rows.
#[test]
#[ignore = "adds files to tests/golden"]
fn bless() {
    let v5 = folder(FRAMES);
    fs::create_dir_all(&v5).unwrap();
    let pool = Pool::new(1);
    let mut rows: Vec<Golden> = manifest(&v5);
    for (name, input) in cases() {
        let dtype = &*input.dtype;
        let frame = by_type!(dtype, make(&input, &pool));
        let frame_sha256 = sha256(&frame);
        let before: Vec<_> = rows.iter().filter(|row| row.input == input).collect();
        if before.last().is_some_and(|row| row.frame_sha256 == frame_sha256) {
            continue;
        }
        let file =
            if before.is_empty() { format!("{name}.gridz") } else { format!("{name}_{}.gridz", before.len() + 1) };
        let matrix = Matrix::from_frame(&frame, &pool).unwrap();
        let can_be_multiplied = matrix.head().n_cols <= MOST_COLUMNS;
        let product_sha256 = can_be_multiplied
            .then(|| sha256(&by_type!(dtype, product(&matrix, Isa::all().next().unwrap(), &pool))));
        let rows_sha256 = sha256(&by_type!(dtype, decoded(&matrix, &pool)));
        let writer = gridz::VERSION.into();
        add(&v5, &file, &frame);
        rows.push(Golden { file, writer, frame_sha256, rows_sha256, product_sha256, input });
    }
    let head =
        "Frames of sparse matrices that are read for ever; written and explained by tests/codecs/sparse_golden.rs.";
    write_manifest(&v5, head, &rows);

    let reject = folder(REJECTS);
    fs::create_dir_all(&reject).unwrap();
    let mut rows: Vec<Reject> = manifest(&reject);
    for (name, kind, make) in rejects() {
        let file = format!("{name}.gridz");
        if !reject.join(&file).exists() {
            add(&reject, &file, &make());
            rows.push(Reject { file, error: format!("{kind:?}") });
        }
    }
    let head =
        "Frames of sparse matrices that must be refused; written and explained by tests/codecs/sparse_golden.rs.";
    write_manifest(&reject, head, &rows);
}

fn add(folder: &Path, file: &str, frame: &[u8]) {
    fs::write(folder.join(file), frame).unwrap();
}
