//! Frames that must stay readable forever.
//!
//! `golden/v8/<codec>/` holds frames of this format with their manifest. The encoder must still
//! produce each of them byte for byte. A change of the bytes needs a decision: either a new codec
//! version, or, if only the writer's choices within the format change, `only_read` for the old frame
//! and a new frame next to it. The decoder must read all frames. `golden/v8_reject/` holds frames that
//! must be refused, with the expected error. Files are only ever added, by `cargo test --test codecs -- --ignored
//! golden::bless`, which never changes existing ones.

use std::fs;

use crate::common::generate::{Input, noise};
use crate::common::golden::{Reject, assert_refused, assert_same_files, folder, manifest, write_manifest};
use crate::common::{assert_same_bytes, compress, compress_at_level, decompress, repair::repair, sha256};
use crate::context_rejects;
use gridz::{Context, DType, ErrorKind, Request, Verify};
use gridz_codecs::codec::Job;
use gridz_codecs::codec::registry::{self, CODECS};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::header::Header;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Golden {
    file: String,
    /// The requested codec, which is also the file's folder, and its level.
    asked: String,
    #[serde(default, skip_serializing_if = "is_default")]
    level: u16,
    /// Further parameters of the request, such as `abs=1e-3,fill=-999`.
    #[serde(default, skip_serializing_if = "is_default")]
    terms: String,
    /// The current writer makes other choices: the frame is only read.
    #[serde(default, skip_serializing_if = "is_default")]
    only_read: bool,
    /// Present if the frame follows the format, but this release's writer would choose otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chosen: Option<Chosen>,
    /// The codec that the frame names.
    codec: String,
    codec_version: u8,
    /// Release that wrote the file.
    writer: String,
    frame_sha256: String,
    /// SHA-256 of the decoded array. With `terms`, it may differ from the input.
    array_sha256: String,
    input: Input,
}

impl Golden {
    fn request(&self) -> Request {
        request(&self.asked, self.level, &self.terms)
    }
}

/// The fold, and the block exponent of a `lorenzo` frame or the unit exponent of a `quant` frame.
#[derive(Serialize, Deserialize, Clone, Copy)]
struct Chosen {
    fold: u8,
    b: u8,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn spec(name: &str, level: u16) -> Request {
    request(name, level, "")
}

fn request(codec: &str, level: u16, terms: &str) -> Request {
    let level = if level > 0 { format!("level={level}") } else { String::new() };
    let parts = [codec, &level, terms].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(",").parse().unwrap()
}

#[test]
fn goldens_decode() {
    let v8 = folder("v8");
    let rows: Vec<Golden> = manifest(&v8);
    assert_same_files(&v8, rows.iter().map(|row| row.file.clone()).collect());
    for entry in CODECS {
        assert!(rows.iter().any(|row| entry.has_name(&row.codec)), "no golden of codec {}", entry.name);
    }
    for row in rows {
        let frame = fs::read(v8.join(&row.file)).unwrap();
        assert_eq!(sha256(&frame), row.frame_sha256, "{} was changed", row.file);
        let info = gridz::inspect(&frame).unwrap();
        assert_eq!(info.array, row.input.array(), "{}", row.file);
        let entry = registry::find(info.codec).unwrap();
        assert!(entry.has_name(&row.codec), "{} is of {}", row.file, entry.name);
        assert_eq!(info.frame_bytes, frame.len() as u64, "{}", row.file);
        assert_eq!(frame[6], row.codec_version, "{}", row.file);
        for threads in [1, 2] {
            let array = decompress(&frame, &Context::new(Some(threads), None).unwrap()).unwrap();
            assert_eq!(sha256(&array), row.array_sha256, "{}", row.file);
            if row.terms.is_empty() {
                assert_same_bytes(&array, &row.input.bytes(), &row.file);
            }
        }
    }
}

/// Re-encoding a decoded array does not change it: nothing drifts. Exceptions: `rel`, since the
/// range differs, and zfp and multigrid, which do drift.
#[test]
fn decoded_goldens_stay_as_they_are() {
    let v8 = folder("v8");
    let mut n = 0;
    let stays = |row: &&Golden| {
        let drifts = ["zfp", "multigrid"].contains(&&*row.asked);
        !row.terms.is_empty() && !row.terms.starts_with("rel=") && !drifts
    };
    for row in manifest::<Golden>(&v8).iter().filter(stays) {
        let (frame, context) = (fs::read(v8.join(&row.file)).unwrap(), Context::default());
        let array = decompress(&frame, &context).unwrap();
        let again = compress(&row.input.array(), &row.request(), &array, &context);
        assert_same_bytes(&decompress(&again, &context).unwrap(), &array, &row.file);
        n += 1;
    }
    assert!(n > 20);
}

#[test]
fn goldens_are_encoded_to_the_same_bytes() {
    let v8 = folder("v8");
    let mut n_current = 0;
    for row in manifest::<Golden>(&v8) {
        if !row.only_read {
            let golden = fs::read(v8.join(&row.file)).unwrap();
            let mut frame = make(&row.request(), row.chosen, &row.input);
            if params_of(&frame) != params_of(&golden) {
                // The writer's frame is that of another level, which is shorter.
                let b = params_of(&golden)[unit_at(&row.asked)];
                frame = make(&row.request(), Some(Chosen { fold: golden[10], b }), &row.input);
            }
            assert_same_bytes(&frame, &golden, &row.file);
            n_current += 1;
        }
    }
    assert!(n_current >= CODECS.len());
}

fn params_of(frame: &[u8]) -> &[u8] {
    Header::parse(frame).unwrap().params
}

#[test]
fn rejects_are_refused_with_the_right_kind() {
    assert_refused(&folder("v8_reject"), rejects().len(), |frame| {
        gridz::decompress(frame, gridz::Part::All, &mut vec![0; 1 << 20], Verify::Checksum, &Context::default())
            .map(|_| ())
    });
}

// ---- creating the files
// ---------------------------------------------------------------------------

/// The frame of a case.
fn make(request: &Request, chosen: Option<Chosen>, input: &Input) -> Vec<u8> {
    let (array, bytes) = (input.array(), input.bytes());
    let Some(Chosen { fold, b }) = chosen else { return compress(&array, request, &bytes, &Context::default()) };
    let frame = compress_at_level(&array, request, &bytes, &Context::default());
    assert_eq!(frame[5], request.codec(), "the frame of another codec");
    let folded = Fold::from_id(fold).unwrap().apply(array.shape(), 3);
    let (pool, level) = (Pool::new(1), Isa::best());
    let codec = registry::find(frame[5]).unwrap().codec;
    let header_bytes = frame.len() - u64::from_le_bytes(frame[16..24].try_into().unwrap()) as usize;
    let mut header = frame[..header_bytes].to_vec();
    header[10] = fold;
    let params = 40 + 8 * usize::from(array.shape().rank());
    let params = params..params + usize::from(header[11]);
    header[params.clone()][unit_at(request.name())] = b;
    let layout = codec.layout(array.dtype(), &folded, &header[params]).unwrap();
    let job = Job { dtype: array.dtype(), shape: folded, layout: &layout, pool: &pool, level, verify: true };
    let mut payload = vec![0; 2 * bytes.len() + 4096];
    let n_bytes = codec.encode(&job, &bytes, &mut payload).unwrap().n_bytes;
    header[16..24].copy_from_slice(&(n_bytes as u64).to_le_bytes());
    let mut frame = [&header, &payload[..n_bytes]].concat();
    repair(&mut frame);
    frame
}

/// The index of [`Chosen::b`] in a codec's parameters.
fn unit_at(codec: &str) -> usize {
    if codec == "quant" { 1 } else { 0 }
}

/// A golden frame to be created.
struct Case {
    /// The file's folder, and the requested codec.
    codec: &'static str,
    level: u16,
    terms: &'static str,
    name: &'static str,
    chosen: Option<Chosen>,
    input: Input,
}

fn case(codec: &'static str, name: &'static str, generator: &str, dtype: DType, extents: &[u64]) -> Case {
    let input = Input::new(generator, dtype, extents);
    Case { codec, level: 0, terms: "", name, chosen: None, input }
}

fn big(codec: &'static str, name: &'static str, generator: &str, dtype: DType, extents: &[u64]) -> Case {
    let case = case(codec, name, generator, dtype, extents);
    Case { input: Input { big_endian: true, ..case.input }, ..case }
}

/// Frames that every release reads and this one does not write.
fn others() -> Vec<Case> {
    let case = |name, fold, b, generator, dtype, extents: &[u64]| Case {
        level: 2,
        chosen: Some(Chosen { fold, b }),
        ..case("lorenzo", name, generator, dtype, extents)
    };
    let at_max =
        |name, generator, dtype, extents: &[u64]| Case { level: 3, ..case(name, 0, 18, generator, dtype, extents) };
    let bounded = |terms, name, fold, b, generator, dtype, extents: &[u64]| Case {
        codec: "quant",
        level: 0,
        terms,
        ..case(name, fold, b, generator, dtype, extents)
    };
    vec![
        case("b14_f32_3d", 0, 14, "wave", DType::F32, &[40, 33, 37]),
        case("b14_f64_1d", 0, 14, "patches", DType::F64, &[20000]),
        case("b14_f32_few_values", 0, 14, "few", DType::F32, &[150, 130]),
        case("flat_f32_3d", 1, 12, "wave", DType::F32, &[20, 30, 40]),
        case("flat_f64_dense", 1, 13, "cubic", DType::F64, &[30, 30, 20]),
        bounded("abs=1e-2", "units_of_8", 0, 3, "field_gaps", DType::F32, &[90, 60]),
        bounded("abs=1e-2", "units_of_16", 0, 4, "field_nan", DType::F64, &[30, 20, 10]),
        bounded("abs=1e-2", "flat", 1, 2, "field", DType::F32, &[30, 20, 10]),
        // The frame of a lower level is shorter.
        at_max("max_f32_decimals_symbols", "decimals", DType::F32, &[90, 91]),
        at_max("max_f32_gaps_symbols", "gaps", DType::F32, &[20, 20, 30]),
        at_max("max_f64_2d_symbols", "patches", DType::F64, &[90, 70]),
        at_max("max_f64_special_walk_symbols", "walk", DType::F64, &[3000]),
        at_max("max_i32_jumps_symbols", "jumps", DType::I32, &[5000]),
        at_max("max_u8_2d", "wave", DType::U8, &[60, 70]),
    ]
}

/// Frames that this release writes.
fn cases() -> Vec<Case> {
    let dense = |name, generator, dtype, extents: &[u64]| Case {
        level: 2,
        ..case("lorenzo", name, generator, dtype, extents)
    };
    let max = |name, generator, dtype, extents: &[u64]| Case {
        level: 3,
        ..case("lorenzo", name, generator, dtype, extents)
    };
    let bounded = |terms, name, generator, dtype, extents: &[u64]| Case {
        terms,
        ..case("quant", name, generator, dtype, extents)
    };
    let bounded_max = |terms, name, generator, dtype, extents: &[u64]| Case {
        level: 3,
        ..bounded(terms, name, generator, dtype, extents)
    };
    let bounded_dense = |terms, name, generator, dtype, extents: &[u64]| Case {
        level: 2,
        ..bounded(terms, name, generator, dtype, extents)
    };
    let zfp = |terms, name, generator, dtype, extents: &[u64]| Case {
        terms,
        ..case("zfp", name, generator, dtype, extents)
    };
    let grids = |terms, name, generator, dtype, extents: &[u64]| Case {
        terms,
        ..case("multigrid", name, generator, dtype, extents)
    };
    vec![
        case("stored", "f32_2d", "ramp", DType::F32, &[7, 11]),
        big("stored", "f64_big_endian", "special", DType::F64, &[3, 5]),
        case("stored", "u8_1d", "random", DType::U8, &[1001]),
        case("stored", "opaque_5_bytes", "random", DType::Opaque, &[3, 9]),
        case("stored", "complex128_rank_7", "random", DType::C128, &[1, 2, 1, 3, 1, 2, 1]),
        case("stored", "rank_0", "pi", DType::F64, &[]),
        case("stored", "no_elements", "zero", DType::I32, &[4, 0, 2]),
        case("ndzip", "f32_1d_border", "walk", DType::F32, &[4096 + 33]),
        case("ndzip", "f32_2d_border", "wave", DType::F32, &[65, 130]),
        case("ndzip", "f32_3d_border", "wave", DType::F32, &[16, 33, 17]),
        case("ndzip", "f64_1d_border", "walk", DType::F64, &[4096 + 1]),
        case("ndzip", "f64_2d_border", "ramp", DType::F64, &[66, 130]),
        case("ndzip", "f64_3d_border", "wave", DType::F64, &[16, 17, 17]),
        case("ndzip", "f64_3d_three_blocks", "minus_seven_and_a_quarter", DType::F64, &[48, 16, 16]),
        case("ndzip", "f32_4d_merged", "wave", DType::F32, &[2, 8, 1, 17, 16]),
        case("ndzip", "f32_5d_merged", "ramp", DType::F32, &[2, 2, 5, 17, 19]),
        case("ndzip", "f64_6d_flat", "ramp", DType::F64, &[4, 4, 4, 4, 4, 5]),
        case("ndzip", "f32_2d_flat", "ramp", DType::F32, &[4200, 2]),
        big("ndzip", "f32_big_endian", "wave", DType::F32, &[64, 65]),
        big("ndzip", "f64_big_endian", "ramp", DType::F64, &[4100]),
        case("ndzip", "f32_constant", "pi", DType::F32, &[32, 32, 32]),
        case("ndzip", "f32_zero_rank_32", "zero", DType::F32, &[[1; 29].as_slice(), &[16, 16, 16]].concat()),
        case("ndzip", "f32_incompressible", "special", DType::F32, &[16, 16, 16]),
        case("ndzip", "f32_too_small", "ramp", DType::F32, &[3, 5, 15]),
        case("ndzip", "f64_rank_0", "one", DType::F64, &[]),
        case("ndzip", "f32_no_elements", "zero", DType::F32, &[0, 64]),
        case("ndzip", "i16_3d", "walk", DType::I16, &[16, 16, 3]),
        case("ndzip", "f16_2d", "special", DType::F16, &[9, 30]),
        big("ndzip", "u64_big_endian", "walk", DType::U64, &[77]),
        case("lorenzo", "f32_3d", "wave", DType::F32, &[16, 32, 64]),
        case("lorenzo", "f32_3d_clipped", "wave", DType::F32, &[17, 33, 37]),
        case("lorenzo", "f64_3d_clipped", "wave", DType::F64, &[9, 19, 35]),
        case("lorenzo", "f32_2d", "patches", DType::F32, &[130, 65]),
        case("lorenzo", "f64_1d", "patches", DType::F64, &[9001]),
        case("lorenzo", "f64_smooth", "cubic", DType::F64, &[20, 30, 40]),
        case("lorenzo", "f32_smooth", "cubic", DType::F32, &[70, 80]),
        case("lorenzo", "f64_5d_thin", "ramp", DType::F64, &[3, 1, 2, 700, 2]),
        case("lorenzo", "f32_incompressible", "special", DType::F32, &[64, 64]),
        case("lorenzo", "f64_special_walk", "walk", DType::F64, &[5000]),
        case("lorenzo", "f32_constant", "pi", DType::F32, &[32, 32, 32]),
        case("lorenzo", "f32_few_values", "few", DType::F32, &[90, 91]),
        case("lorenzo", "u8_2d", "wave", DType::U8, &[100, 100]),
        case("lorenzo", "i8_1d", "walk", DType::I8, &[5000]),
        case("lorenzo", "u16_3d", "patches", DType::U16, &[12, 20, 40]),
        case("lorenzo", "i16_2d", "cubic", DType::I16, &[64, 65]),
        case("lorenzo", "f16_1d", "cubic", DType::F16, &[4100]),
        case("lorenzo", "bf16_2d", "few", DType::Bf16, &[50, 90]),
        case("lorenzo", "u32_1d", "patches", DType::U32, &[4097]),
        case("lorenzo", "i64_3d", "cubic", DType::I64, &[9, 18, 27]),
        big("lorenzo", "f32_big_endian", "wave", DType::F32, &[64, 65]),
        big("lorenzo", "u64_big_endian", "patches", DType::U64, &[4100]),
        case("lorenzo", "f32_gaps_3d", "gaps", DType::F32, &[20, 30, 40]),
        case("lorenzo", "f64_gaps_1d", "gaps", DType::F64, &[9000]),
        case("lorenzo", "u8_gaps_2d", "gaps", DType::U8, &[90, 100]),
        case("lorenzo", "i16_gaps_thin", "gaps", DType::I16, &[3000, 3]),
        case("lorenzo", "f32_decimals", "decimals", DType::F32, &[90, 91]),
        case("lorenzo", "f64_decimals", "decimals", DType::F64, &[5000]),
        case("lorenzo", "f64_decimal_gaps", "decimal_gaps", DType::F64, &[20, 20, 30]),
        case("lorenzo", "i32_jumps", "jumps", DType::I32, &[9000]),
        case("lorenzo", "u64_jumps_2d", "jumps", DType::U64, &[3000, 4]),
        big("lorenzo", "f32_gaps_big_endian", "gaps", DType::F32, &[64, 65]),
        case("lorenzo", "f32_ripples_3d", "ripples", DType::F32, &[20, 30, 40]),
        case("lorenzo", "f64_ripples_1d", "ripples", DType::F64, &[9000]),
        case("lorenzo", "f32_ripple_gaps_3d", "ripple_gaps", DType::F32, &[20, 30, 40]),
        case("lorenzo", "f32_subnormals", "faint_ripples", DType::F32, &[90, 91]),
        case("lorenzo", "f64_subnormals", "faint_ripples", DType::F64, &[70, 3]),
        big("lorenzo", "f32_ripples_big_endian", "ripples", DType::F32, &[64, 65]),
        case("lorenzo", "i64_jumps", "jumps", DType::I64, &[9000]),
        case("lorenzo", "f32_middle", "field_over_time", DType::F32, &[9, 6, 10, 13]),
        case("lorenzo", "i16_middle", "field_over_time", DType::I16, &[5, 1, 3, 4, 20, 9]),
        case("lorenzo", "f64_rows", "field_of_rows", DType::F64, &[3, 5000]),
        dense("dense_f32_middle", "field_over_time", DType::F32, &[9, 6, 10, 13]),
        dense("dense_complex64_rows", "field_of_rows", DType::C64, &[3, 5000]),
        max("max_f32_middle", "field_over_time", DType::F32, &[9, 6, 10, 13]),
        bounded("rel=1e-3", "rel_f32_middle", "field_over_time", DType::F32, &[9, 6, 10, 13]),
        bounded("pwrel=1e-2", "pwrel_f64_rows", "field_of_rows", DType::F64, &[3, 5000]),
        bounded_dense("abs=0.1", "dense_f64_middle", "field_over_time", DType::F64, &[9, 6, 10, 13]),
        bounded_max("abs=0.1", "max_f32_rows", "field_of_rows", DType::F32, &[3, 5000]),
        bounded_max("rel=1e-4", "max_by_dense_f64_thin", "field", DType::F64, &[300, 40, 3]),
        bounded_max("abs=0.1", "max_by_dense_f32_missing", "field_gaps", DType::F32, &[90, 7]),
        case("lorenzo", "i32_steps", "steps", DType::I32, &[9000]),
        max("max_f32_3d_symbols", "wave", DType::F32, &[17, 33, 37]),
        max("max_f64_smooth_symbols", "cubic", DType::F64, &[10, 20, 30]),
        max("max_f32_few_values_symbols", "few", DType::F32, &[90, 91]),
        max("max_f64_1d_symbols", "ripples", DType::F64, &[5000]),
        max("max_f32_4d_symbols", "wave", DType::F32, &[4, 5, 12, 20]),
        max("max_f32_incompressible_symbols", "special", DType::F32, &[30, 30]),
        max("max_by_dense_f64_2d", "patches", DType::F64, &[90, 70]),
        max("max_by_dense_u8_2d", "wave", DType::U8, &[60, 70]),
        max("max_by_fast_f64_2d", "cubic", DType::F64, &[90, 101]),
        case("lorenzo", "f64_rank_0", "pi", DType::F64, &[]),
        case("lorenzo", "f32_no_elements", "zero", DType::F32, &[0, 3]),
        case("lorenzo", "complex64", "random", DType::C64, &[30]),
        case("lorenzo", "complex64_3d", "field", DType::C64, &[17, 20, 15]),
        big("lorenzo", "complex128_big_endian_special", "field_nan", DType::C128, &[3000]),
        dense("dense_complex64_holes", "field_gaps", DType::C64, &[90, 101]),
        dense("dense_complex128_3d", "field", DType::C128, &[20, 21, 22]),
        max("max_complex64_4d", "field", DType::C64, &[4, 5, 12, 20]),
        dense("dense_f32_3d", "wave", DType::F32, &[17, 33, 37]),
        dense("dense_f64_3d", "patches", DType::F64, &[20, 21, 40]),
        dense("dense_f64_smooth", "cubic", DType::F64, &[20, 30, 40]),
        dense("dense_f32_zero_runs", "islands", DType::F32, &[100, 130]),
        dense("dense_f32_few_values", "few", DType::F32, &[90, 91]),
        dense("dense_f64_few_values", "few", DType::F64, &[9000]),
        dense("dense_i32_few_values", "few", DType::I32, &[3, 2000]),
        dense("dense_f64_special_walk", "walk", DType::F64, &[9000]),
        dense("dense_f32_incompressible", "random", DType::F32, &[64, 64]),
        dense("dense_u8", "walk", DType::U8, &[9, 1000]),
        dense("dense_f32_gaps", "gaps", DType::F32, &[100, 130]),
        dense("dense_f32_decimal_gaps", "decimal_gaps", DType::F32, &[20, 30, 30]),
        dense("dense_f64_decimals", "decimals", DType::F64, &[9000]),
        dense("dense_i32_jumps", "jumps", DType::I32, &[10000]),
        dense("dense_f32_ripples_3d", "ripples", DType::F32, &[20, 30, 40]),
        dense("dense_f64_ripples_1d", "ripples", DType::F64, &[9000]),
        dense("dense_f32_ripple_gaps", "ripple_gaps", DType::F32, &[100, 130]),
        dense("dense_f64_ripple_gaps_3d", "ripple_gaps", DType::F64, &[20, 30, 30]),
        dense("dense_f32_subnormals", "faint_ripples", DType::F32, &[30, 31, 20]),
        dense("dense_f64_subnormals", "faint_ripples", DType::F64, &[9000]),
        dense("dense_i32_thin", "patches", DType::I32, &[3000, 3]),
        dense("dense_u16_thin", "walk", DType::U16, &[700, 31]),
        dense("dense_f32_thin_3d", "ripples", DType::F32, &[500, 2, 2]),
        dense("dense_i64_jumps", "jumps", DType::I64, &[10, 2000]),
        dense("dense_i64_steps", "steps", DType::I64, &[10000]),
        dense("dense_one_element", "pi", DType::F64, &[1, 1]),
        bounded("abs=1e-3", "f32_3d_clipped", "field", DType::F32, &[17, 33, 37]),
        bounded("abs=1e-2", "f64_2d", "field", DType::F64, &[130, 65]),
        bounded("abs=0.05", "f32_zones", "cubic", DType::F32, &[4000]),
        bounded("abs=2e-13", "f64_zones", "field_noise", DType::F64, &[3000]),
        bounded("abs=0.25", "f16_2d", "field", DType::F16, &[90, 91]),
        bounded("abs=0.25", "bf16_thin", "field", DType::Bf16, &[2, 700, 3]),
        bounded("abs=2", "u8_2d", "field", DType::U8, &[100, 60]),
        bounded("abs=1", "i8_1d", "field", DType::I8, &[5000]),
        bounded("abs=3.9", "u16_3d", "field", DType::U16, &[12, 20, 30]),
        bounded("abs=0.5", "i16_lossless", "field", DType::I16, &[64, 65]),
        bounded("abs=1e300", "u32_to_one_value", "field_noise", DType::U32, &[4097]),
        bounded("abs=7", "i32_1d", "walk", DType::I32, &[5000]),
        bounded("abs=100", "u64_2d", "patches", DType::U64, &[100, 45]),
        bounded("abs=1e9", "i64_3d", "patches", DType::I64, &[9, 18, 27]),
        bounded("rel=1e-3", "rel_f32_4d", "field_spikes", DType::F32, &[3, 4, 20, 30]),
        bounded("rel=1e-4,fill=-999", "rel_f64_gaps", "field_gaps", DType::F64, &[90, 91]),
        bounded("rel=1e-2", "rel_f32_still", "pi", DType::F32, &[5000]),
        bounded("rel=1e-2", "rel_i16", "field", DType::I16, &[5000]),
        bounded("pwrel=1e-3", "pwrel_f32", "field_scales", DType::F32, &[9000]),
        bounded("pwrel=1e-2,fill=-999", "pwrel_f64_gaps", "field_gaps", DType::F64, &[20, 21, 22]),
        bounded("pwrel=0.1", "pwrel_f16", "field_scales", DType::F16, &[60, 70]),
        bounded("pwrel=0.9", "pwrel_bf16", "field_nan", DType::Bf16, &[5000]),
        bounded("abs=1e-2,fill=-999", "f32_holes", "field_gaps", DType::F32, &[20, 30, 40]),
        bounded("abs=1e-2", "f32_nan_holes", "field_nan", DType::F32, &[70, 130]),
        bounded("abs=1e-2", "f64_nan_holes_1d", "field_nan", DType::F64, &[6000]),
        // 100, which is the code of 25 times the step.
        bounded("abs=0.125,fill=24.9755859375", "f32_fill_among_codes", "ramp", DType::F32, &[5000]),
        bounded("abs=1e-2,fill=0x7fc00001", "f32_nan_fill", "field_nan", DType::F32, &[3000]),
        bounded("abs=1e-2", "f32_random_holes", "field_random_holes", DType::F32, &[5000]),
        bounded("abs=0.9", "i64_smooth", "field_power", DType::I64, &[3000]),
        bounded("abs=1e-3", "f32_spikes", "field_spikes", DType::F32, &[70, 80]),
        bounded("abs=1e-300", "f32_no_codes", "field", DType::F32, &[4000]),
        bounded("abs=1e-3", "f64_raw_block", "field_after_bits", DType::F64, &[9000]),
        bounded("abs=1e-3", "f32_zero_blocks", "field_growing", DType::F32, &[14000]),
        bounded("abs=1e-2", "f32_still", "field_still", DType::F32, &[9000]),
        Case { terms: "abs=1e-2,fill=-999", ..big("quant", "f32_big_endian", "field_gaps", DType::F32, &[64, 65]) },
        bounded("abs=1e-3", "f64_rank_0", "pi", DType::F64, &[]),
        bounded("abs=1e-3", "f32_no_elements", "zero", DType::F32, &[0, 3]),
        bounded("abs=1e-2", "complex64", "field", DType::C64, &[17, 20, 15]),
        bounded("rel=1e-3,fill=-999", "complex128_holes", "field_gaps", DType::C128, &[60, 50]),
        Case { terms: "pwrel=1e-2", ..big("quant", "complex64_big_endian", "field_nan", DType::C64, &[3000]) },
        bounded_max("abs=1e-2", "max_f32_3d_64k", "field", DType::F32, &[7, 33, 37]),
        bounded_max("abs=0.5", "max_f64_2d_64k", "field", DType::F64, &[60, 65]),
        bounded_max("abs=0.1", "max_f32_1d_64k", "walk", DType::F32, &[5000]),
        bounded_max("abs=1e-2", "max_f32_two_blocks_64k", "field", DType::F32, &[17, 40, 130]),
        bounded_max("abs=1e-2", "max_f32_long_rows_64k", "field", DType::F32, &[9, 10, 300]),
        bounded_max("abs=1e-2", "max_f32_thin_64k", "field", DType::F32, &[20, 70, 3]),
        bounded_max("abs=1e-2,fill=-999", "max_f32_holes_64k", "field_gaps", DType::F32, &[9, 20, 30]),
        bounded_max("abs=1e-2", "max_f64_nan_holes_64k", "field_nan", DType::F64, &[70, 60]),
        bounded_max("abs=1e-3", "max_f32_spikes_64k", "field_spikes", DType::F32, &[60, 80]),
        bounded_max("abs=1e-300", "max_f32_no_codes_64k", "field", DType::F32, &[4000]),
        bounded_max("abs=1e-2", "max_f32_still_64k", "field_still", DType::F32, &[4000]),
        bounded_max("abs=0.5", "max_i64_steps_64k", "steps", DType::I64, &[10, 400]),
        bounded_max("abs=3.9", "max_u16_3d_64k", "field", DType::U16, &[5, 20, 30]),
        bounded_max("pwrel=1e-2", "max_pwrel_f16_64k", "field_scales", DType::F16, &[60, 70]),
        bounded_max("rel=1e-3,fill=-999", "max_complex64_holes_64k", "field_gaps", DType::C64, &[40, 50]),
        bounded_dense("abs=1e-2", "dense_f32_3d_joint", "field", DType::F32, &[7, 33, 37]),
        bounded_dense("abs=0.5", "dense_f64_2d_joint", "field", DType::F64, &[60, 65]),
        bounded_dense("abs=0.1", "dense_f32_1d_joint", "walk", DType::F32, &[5000]),
        bounded_dense("abs=1e-2", "dense_f32_thin_joint", "field", DType::F32, &[20, 70, 3]),
        bounded_dense("abs=1e-2", "dense_f32_large_planes_joint", "field", DType::F32, &[3, 140, 40]),
        bounded_dense("abs=1e-2", "dense_f32_long_rows_joint", "field", DType::F32, &[3, 5000]),
        bounded_dense("abs=1e-2,fill=-999", "dense_f32_holes_joint", "field_gaps", DType::F32, &[9, 20, 30]),
        bounded_dense("abs=1e-2", "dense_f64_nan_holes_joint", "field_nan", DType::F64, &[70, 60]),
        bounded_dense("abs=1e-3", "dense_f32_spikes_joint", "field_spikes", DType::F32, &[60, 80]),
        bounded_dense("abs=1e-300", "dense_f32_no_codes_joint", "field", DType::F32, &[4000]),
        bounded_dense("abs=1e-2", "dense_f32_still", "field_still", DType::F32, &[4000]),
        bounded_dense("abs=0.5", "dense_i64_steps_joint", "steps", DType::I64, &[10, 400]),
        bounded_dense("abs=3.9", "dense_u16_3d", "field", DType::U16, &[5, 20, 30]),
        bounded_dense("pwrel=1e-2", "dense_pwrel_f16_joint", "field_scales", DType::F16, &[60, 70]),
        bounded_dense("rel=1e-3,fill=-999", "dense_complex64_holes_joint", "field_gaps", DType::C64, &[40, 50]),
        case("huffman", "u8_1d", "walk", DType::U8, &[70_000]),
        case("huffman", "u8_2d_steps", "steps", DType::U8, &[90, 61]),
        case("huffman", "i8_few", "few", DType::I8, &[3, 50, 70]),
        case("huffman", "u16_walk", "walk", DType::U16, &[40_000]),
        case("huffman", "u16_patches", "patches", DType::U16, &[200, 201]),
        case("huffman", "i16_jumps", "jumps", DType::I16, &[9001]),
        case("huffman", "i16_few", "few", DType::I16, &[100, 97]),
        case("huffman", "u32_steps", "steps", DType::U32, &[33_000]),
        case("huffman", "i32_jumps", "jumps", DType::I32, &[20, 30, 40]),
        case("huffman", "i32_walk", "walk", DType::I32, &[5000]),
        case("huffman", "u32_zero_runs", "patches", DType::U32, &[40_000]),
        case("huffman", "u8_still", "zero", DType::U8, &[100, 100]),
        case("huffman", "u16_incompressible", "random", DType::U16, &[4000]),
        case("huffman", "i32_one_element", "walk", DType::I32, &[1]),
        case("huffman", "f32_2d", "ramp", DType::F32, &[20, 30]),
        big("huffman", "i16_big_endian", "walk", DType::I16, &[64, 65]),
        case("cci", "i32_stencil", "stencil", DType::I32, &[40_000]),
        case("cci", "i32_mesh", "mesh", DType::I32, &[30_000]),
        case("cci", "u32_columns", "columns", DType::U32, &[20_000]),
        case("cci", "i64_columns", "columns", DType::I64, &[9000]),
        case("cci", "i64_stencil", "stencil", DType::I64, &[70_000]),
        case("cci", "u64_pointers", "pointers", DType::U64, &[30_000]),
        case("cci", "i64_walk", "walk", DType::I64, &[5000]),
        case("cci", "u32_steps", "steps", DType::U32, &[33_000]),
        case("cci", "i32_patches", "patches", DType::I32, &[200, 51]),
        case("cci", "u64_jumps", "jumps", DType::U64, &[3, 5000]),
        case("cci", "i32_still", "zero", DType::I32, &[70_000]),
        case("cci", "i32_incompressible", "random", DType::I32, &[4000]),
        case("cci", "i64_one_element", "walk", DType::I64, &[1]),
        case("cci", "i16_2d", "steps", DType::I16, &[20, 30]),
        big("cci", "i32_big_endian", "mesh", DType::I32, &[64, 65]),
        Case { level: 1, ..case("cci", "fast_i32_mesh", "mesh", DType::I32, &[20_000]) },
        Case { level: 1, ..case("cci", "fast_u64_columns", "columns", DType::U64, &[9000]) },
        Case { level: 1, ..case("cci", "fast_i64_walk", "walk", DType::I64, &[3000]) },
        zfp("", "f32_3d_clipped", "wave", DType::F32, &[17, 33, 37]),
        zfp("", "f64_2d", "wave", DType::F64, &[70, 65]),
        zfp("", "f32_1d_gaps", "gaps", DType::F32, &[9000]),
        zfp("", "f64_4d", "field", DType::F64, &[9, 6, 7, 11]),
        zfp("", "f32_subnormals", "faint_ripples", DType::F32, &[90, 91]),
        zfp("", "i32_1d", "jumps", DType::I32, &[9000]),
        zfp("", "i64_4d", "cubic", DType::I64, &[7, 8, 9, 10]),
        zfp("", "f32_5d_merged", "wave", DType::F32, &[3, 2, 1, 5, 9, 17]),
        zfp("", "f32_incompressible", "special", DType::F32, &[64, 64]),
        zfp("", "u8_2d", "walk", DType::U8, &[20, 30]),
        big("zfp", "i32_big_endian", "steps", DType::I32, &[64, 65]),
        zfp("abs=1e-3", "abs_f32_3d", "field", DType::F32, &[17, 33, 37]),
        zfp("abs=1e-6", "abs_f64_4d", "field", DType::F64, &[5, 10, 9, 13]),
        zfp("abs=1e-2,fill=-999", "abs_f32_holes", "field_gaps", DType::F32, &[20, 30, 40]),
        zfp("abs=1e-2", "abs_f32_nan_holes", "field_nan", DType::F32, &[70, 130]),
        zfp("abs=1e-2", "abs_f64_random_holes", "field_random_holes", DType::F64, &[6000]),
        zfp("abs=1e-3", "abs_f32_spikes", "field_spikes", DType::F32, &[70, 80]),
        zfp("abs=1e-2,fill=0x7fc00001", "abs_f32_nan_fill", "field_nan", DType::F32, &[9000]),
        zfp("abs=1e30", "abs_f32_to_zeros", "field", DType::F32, &[200, 200]),
        zfp("abs=1e-300", "abs_f32_still", "pi", DType::F32, &[9000]),
        zfp("rel=1e-3", "rel_f32_4d", "field_spikes", DType::F32, &[3, 4, 20, 30]),
        zfp("rel=1e-4,fill=-999", "rel_f64_gaps", "field_gaps", DType::F64, &[90, 91]),
        zfp("rel=1e-2", "rel_f32_still", "pi", DType::F32, &[9000]),
        zfp("rate=8", "rate_f32_3d", "field", DType::F32, &[17, 33, 37]),
        zfp("rate=6.3", "rate_f64_1d", "field_noise", DType::F64, &[9001]),
        zfp("rate=11", "rate_i32_2d", "field", DType::I32, &[64, 65]),
        zfp("rate=4", "rate_i64_3d", "patches", DType::I64, &[9, 18, 27]),
        zfp("rate=1", "rate_f32_4d", "field", DType::F32, &[9, 10, 11, 12]),
        zfp("rate=9,fill=-999", "rate_f32_holes", "field_gaps", DType::F32, &[90, 61]),
        zfp("rate=16", "rate_f32_subnormals", "faint_ripples", DType::F32, &[20, 91]),
        zfp("precision=14", "precision_f32_2d", "field_scales", DType::F32, &[90, 70]),
        zfp("precision=32,fill=-999", "precision_f64_3d", "field_gaps", DType::F64, &[17, 20, 15]),
        zfp("precision=20", "precision_i32_1d", "walk", DType::I32, &[5000]),
        zfp("precision=9", "precision_f32_nan", "field_nan", DType::F32, &[6, 7, 8, 9]),
        zfp("expert,minbits=40,maxbits=300,maxprec=20,minexp=-9", "expert_f32_2d", "field", DType::F32, &[90, 70]),
        zfp("expert,maxbits=17", "expert_i64_1d", "jumps", DType::I64, &[9000]),
        Case {
            terms: "abs=1e-2,fill=-999",
            ..big("zfp", "abs_f32_big_endian", "field_gaps", DType::F32, &[64, 65])
        },
        grids("abs=1e-3", "abs_f32_3d", "field", DType::F32, &[17, 33, 37]),
        grids("abs=1e-6", "abs_f64_4d", "field", DType::F64, &[5, 10, 9, 13]),
        grids("abs=1e-2", "abs_f32_1d", "field_noise", DType::F32, &[9001]),
        grids("abs=1e-4", "abs_f64_2d", "wave", DType::F64, &[130, 65]),
        grids("abs=1e-3", "abs_f32_several_blocks", "field", DType::F32, &[70, 64, 66]),
        grids("abs=1e-2,fill=-999", "abs_f32_holes", "field_gaps", DType::F32, &[20, 30, 40]),
        grids("abs=1e-2", "abs_f32_nan_holes", "field_nan", DType::F32, &[70, 130]),
        grids("abs=1e-2", "abs_f64_random_holes", "field_random_holes", DType::F64, &[6000]),
        grids("abs=1e-3", "abs_f32_spikes", "field_spikes", DType::F32, &[70, 80]),
        grids("abs=1e30", "abs_f32_to_zeros", "field", DType::F32, &[200, 200]),
        grids("abs=1e-7", "abs_f32_below_precision", "field", DType::F32, &[30, 40]),
        grids("abs=1e-300", "abs_f32_still", "pi", DType::F32, &[9000]),
        grids("rel=1e-3", "rel_f32_4d", "field_spikes", DType::F32, &[3, 4, 20, 30]),
        grids("rel=1e-4,fill=-999", "rel_f64_gaps", "field_gaps", DType::F64, &[90, 91]),
        grids("rel=1e-2", "rel_f32_still", "pi", DType::F32, &[9000]),
        grids("rms=1e-2", "rms_f32_3d", "field", DType::F32, &[17, 33, 37]),
        grids("rms=1e-3,fill=-999", "rms_f64_gaps", "field_gaps", DType::F64, &[90, 91]),
        grids("rms=1e-3", "rms_f32_1d", "field_noise", DType::F32, &[5000]),
        grids("abs=1e-3", "abs_f32_5d_merged", "field", DType::F32, &[3, 2, 1, 5, 9, 17]),
        grids("abs=1e-3", "abs_f32_incompressible", "special", DType::F32, &[64, 64]),
        grids("abs=1e-3", "abs_f32_thin", "field", DType::F32, &[2000, 1, 3]),
        Case {
            terms: "abs=1e-2,fill=-999",
            ..big("multigrid", "abs_f32_big_endian", "field_gaps", DType::F32, &[64, 65])
        },
        grids("abs=1e-3", "abs_f64_rank_0", "pi", DType::F64, &[]),
        grids("abs=1e-3", "abs_f32_no_elements", "zero", DType::F32, &[0, 3]),
        grids("abs=1e-3,layers=3", "layers_abs_f32_3d", "field", DType::F32, &[20, 33, 37]),
        grids("abs=1e-4,layers=4", "layers_smooth_f64_2d", "wave", DType::F64, &[90, 130]),
        grids("rms=1e-3,layers=2", "layers_rms_f32_nan", "field_nan", DType::F32, &[30, 40, 20]),
        grids("rel=1e-4,layers=8", "layers_rel_f64_1d", "field_gaps", DType::F64, &[3000]),
        grids("rms=1e-2,s=-1", "norm_f32_3d", "field", DType::F32, &[17, 20, 33]),
        grids("rms=1e-2,s=-0.5,layers=2", "norm_layers_f64", "field_nan", DType::F64, &[40, 50]),
        zfp("rate=8", "rate_f64_rank_0", "pi", DType::F64, &[]),
        zfp("abs=1e-3", "abs_f32_no_elements", "zero", DType::F32, &[0, 3]),
        // Version 2 of the codec: lists of missing elements.
        bounded(
            "abs=1e-2,fill=-999,fill=0,fill=0x7fc00001",
            "f32_three_fills",
            "field_gaps",
            DType::F32,
            &[20, 30, 40],
        ),
        bounded("abs=8,fill=0", "i32_fill_zero", "walk", DType::I32, &[5000]),
        bounded(
            "abs=1e-2,fill=-999,valid_min=-0.5,valid_max=20",
            "f32_valid_range",
            "field_gaps",
            DType::F32,
            &[64, 65],
        ),
        bounded("abs=2,fill=0,valid_max=200", "u8_fill_zero_and_limit", "field", DType::U8, &[100, 60]),
        bounded("pwrel=1e-2,fill=-999,valid_min=0", "pwrel_f16_limit", "field_scales", DType::F16, &[60, 70]),
        bounded("rel=1e-3,fill=-999,fill=1", "complex64_two_fills", "field_gaps", DType::C64, &[40, 50]),
        bounded_dense(
            "abs=1e-2,fill=-999,fill=0,valid_max=20",
            "dense_f32_missing",
            "field_gaps",
            DType::F32,
            &[9, 20, 30],
        ),
        bounded_max(
            "abs=1e-2,fill=-999,fill=0,valid_max=20",
            "max_f32_missing",
            "field_gaps",
            DType::F32,
            &[9, 20, 30],
        ),
        Case {
            terms: "abs=1e-2,fill=-999,fill=1e20,valid_min=-5",
            ..big("quant", "f64_missing_big_endian", "field_gaps", DType::F64, &[64, 65])
        },
        zfp("abs=1e-2,fill=-999,fill=0,valid_max=20", "abs_f32_missing", "field_gaps", DType::F32, &[20, 30, 40]),
        zfp("rel=1e-4,fill=0,valid_min=-1", "rel_f64_missing", "field_gaps", DType::F64, &[90, 91]),
        zfp("rate=9,fill=0", "rate_f32_fill_zero", "field_gaps", DType::F32, &[90, 61]),
        zfp("precision=20,fill=0,fill=5", "precision_i32_fills", "walk", DType::I32, &[5000]),
        grids("abs=1e-2,fill=-999,fill=0,valid_max=20", "abs_f32_missing", "field_gaps", DType::F32, &[20, 30, 40]),
        grids("rms=1e-3,fill=0,valid_min=-1", "rms_f64_missing", "field_gaps", DType::F64, &[90, 91]),
        grids("abs=1e-3,layers=3,fill=0,fill=-999", "layers_f32_fills", "field_gaps", DType::F32, &[20, 33, 37]),
    ]
}

/// The name of a damage to a good frame, the expected error, and the damaged frame.
pub type Damage = (&'static str, ErrorKind, fn() -> Vec<u8>);

const HEADER: usize = 64;

/// Two blocks of f32 with a border: a table of 8 bytes, blocks of 128 heads.
fn good() -> Vec<u8> {
    let input = Input::new("ramp", DType::F32, &[1, 2, 4100]);
    compress(&input.array(), &spec("ndzip", 0), &input.bytes(), &Context::default())
}

/// The good frame after `change`, with matching checksums.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = good();
    change(&mut frame);
    let payload_bytes = (frame.len() - HEADER) as u64;
    frame[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
    repair(&mut frame);
    frame
}

/// Moves entry `i` of the offset table by `by` words.
fn moved(i: usize, by: i32) -> Vec<u8> {
    changed(|frame| {
        let entry = &mut frame[HEADER + 4 * i..][..4];
        let end = u32::from_le_bytes(entry.try_into().unwrap());
        entry.copy_from_slice(&end.wrapping_add_signed(by).to_le_bytes());
    })
}

/// A frame of quant with two fill values, at byte 68, after `change` and with a valid header
/// checksum.
fn missing(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let input = Input::new("field_gaps", DType::F32, &[90, 91]);
    let request = request("quant", 0, "abs=1e-2,fill=-999,fill=7");
    let mut frame = compress(&input.array(), &request, &input.bytes(), &Context::default());
    assert_eq!((frame[4], frame[6], frame[11], frame[59]), (8, 2, 20, 2 << 2));
    assert_eq!(frame[68..72], (-999f32).to_le_bytes());
    change(&mut frame);
    repair(&mut frame);
    frame
}

fn header_only(extents: [u64; 3], payload_bytes: u64) -> Vec<u8> {
    let mut frame = good()[..HEADER].to_vec();
    for (field, extent) in frame[40..].chunks_mut(8).zip(extents) {
        field.copy_from_slice(&extent.to_le_bytes());
    }
    frame[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
    repair(&mut frame);
    frame
}

fn stored(n_payload: usize) -> Vec<u8> {
    let input = Input::new("ramp", DType::I32, &[3, 4, 5]);
    let mut frame = compress(&input.array(), &spec("stored", 0), &input.bytes(), &Context::default());
    frame.resize(HEADER + n_payload, 0);
    frame[16..24].copy_from_slice(&(n_payload as u64).to_le_bytes());
    repair(&mut frame);
    frame
}

/// Bytes of a lorenzo frame before its table, for arrays of one axis; and before its first block,
/// if it has only one.
const LORENZO_HEADER: usize = 64;
const LORENZO_BLOCK: usize = LORENZO_HEADER + 16;

/// A lorenzo frame of one block, after `change` of the block, with matching checks.
fn block(level: u16, generator: &str, dtype: DType, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let input = Input::new(generator, dtype, &[4000]);
    let frame = compress(&input.array(), &spec("lorenzo", level), &input.bytes(), &Context::default());
    assert_eq!((frame[5], frame[11]), (2, 1), "{generator} is not coded");
    let mut block = frame[LORENZO_BLOCK..].to_vec();
    change(&mut block);
    block.resize(block.len().next_multiple_of(16), 0);
    let end = (block.len() / 16) as u32;
    let check = Checksum::of(&block, 16).finish(block.len() as u64) as u32;
    let table = [end.to_le_bytes(), check.to_le_bytes(), [0; 4], [0; 4]].concat();
    finished([&frame[..LORENZO_HEADER], &table, &block].concat())
}

/// Sets the payload length of a frame, and fixes its checksums.
fn finished(mut frame: Vec<u8>) -> Vec<u8> {
    let payload_bytes = (frame.len() - LORENZO_HEADER) as u64;
    frame[16..24].copy_from_slice(&payload_bytes.to_le_bytes());
    repair(&mut frame);
    frame
}

/// A block coded by SPLIT, with two levels of patches in its first group: widths are bytes 16 to
/// 18, numbers of patches bytes 20 to 23.
fn split(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    block(1, "patches", DType::U32, |block| {
        assert!(block[0] == 2 && block[16..19].iter().all(|&width| width > 0));
        change(block);
    })
}

/// A block coded by HUFF.
fn huff(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    block(2, "patches", DType::U32, |block| {
        assert_eq!(block[0], 3);
        change(block);
    })
}

/// A block with a dictionary.
fn dict(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    block(2, "few", DType::F32, |block| {
        assert_eq!(block[0], 2 | 2 << 4);
        change(block);
    })
}

/// A block with a mask, whose bitmap has two levels.
fn masked(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    block(1, "gaps", DType::F32, |block| {
        assert_eq!((block[3], block[23] >> 7), (1, 1));
        change(block);
    })
}

/// A block of decimal numbers.
fn decimals(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    block(1, "decimals", DType::F64, |block| {
        assert_eq!(block[0] >> 4, 3);
        change(block);
    })
}

/// A block coded by SPARSE, with a bitmap.
fn sparse(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    block(1, "steps", DType::I32, |block| {
        assert_eq!((block[0], block[19]), (4, 0));
        change(block);
    })
}

/// A block of 4000 integers coded by SPARSE: c, w, g and three strings.
fn list(c: u16, w: u8, g: u8, strings: &[u8]) -> Vec<u8> {
    block(1, "jumps", DType::I32, |block| {
        assert_eq!(block[0], 4);
        *block = [&[4], &[0; 15][..], &c.to_le_bytes(), &[w, g], strings].concat();
    })
}

/// A block of 4000 floats mapped by CUT. Each has the number v = `base`; `n_tail_bytes` zero bytes
/// follow as their tails.
fn cut(dtype: DType, e: u16, base: i32, n_tail_bytes: usize) -> Vec<u8> {
    block(1, "walk", dtype, |block| {
        let [e, base] = [e.to_le_bytes().to_vec(), base.to_le_bytes().to_vec()];
        let no_numbers = [0, 0, 0, 1];
        *block = [vec![4 | 4 << 4, 0, 0, 0], e, vec![0; 2], base, vec![0; 4], no_numbers.to_vec()].concat();
        block.resize(block.len() + n_tail_bytes, 0);
    })
}

/// Offset of the first bitmap in a block of four groups.
fn first_bitmap(block: &[u8]) -> usize {
    let rows = [32, 32, 32, 29];
    48 + (0..4).map(|g| 128 * (rows[g] * usize::from(block[16 + 8 * g])).div_ceil(32)).sum::<usize>()
}

/// A frame of two lorenzo blocks, after a change of their table.
fn lorenzo_table(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let input = Input::new("walk", DType::F32, &[8000]);
    let mut frame = compress(&input.array(), &spec("lorenzo", 1), &input.bytes(), &Context::default());
    change(&mut frame[LORENZO_HEADER..LORENZO_HEADER + 16]);
    finished(frame)
}

fn lorenzo_rejects() -> Vec<Damage> {
    use ErrorKind::{Corrupt, Truncated, UnsupportedFormat};
    vec![
        ("lorenzo_table_cut", Truncated, || {
            let mut frame = lorenzo_table(|_| ());
            frame.truncate(LORENZO_HEADER + 15);
            finished(frame)
        }),
        ("lorenzo_table_decreases", Corrupt, || lorenzo_table(|table| table[8..12].fill(0))),
        ("lorenzo_table_past_the_end", Corrupt, || lorenzo_table(|table| table[11] = 1)),
        ("lorenzo_table_before_the_end", Corrupt, || lorenzo_table(|table| table[8] -= 1)),
        ("lorenzo_check", Corrupt, || lorenzo_table(|table| table[4] ^= 1)),
        ("lorenzo_no_block", Corrupt, || split(|block| block.clear())),
        ("lorenzo_coder_5", UnsupportedFormat, || split(|block| block[0] = 5)),
        ("lorenzo_map_5", UnsupportedFormat, || split(|block| block[0] |= 5 << 4)),
        ("lorenzo_mask_of_none", Corrupt, || masked(|block| block[20..22].fill(0))),
        ("lorenzo_mask_of_one_more", Corrupt, || masked(|block| block[20] = block[20].wrapping_add(1))),
        ("lorenzo_mask_marks_cut", Corrupt, || masked(|block| block[22] -= 1)),
        ("lorenzo_mask_past_the_end", Corrupt, || masked(|block| block[23] = 0xff)),
        ("lorenzo_mask_not_coded", Corrupt, || masked(|block| block[23] &= 0x7f)),
        ("lorenzo_decimal_of_0_digits", Corrupt, || decimals(|block| block[4] = 0)),
        ("lorenzo_decimal_of_23_digits", Corrupt, || decimals(|block| block[4] = 23)),
        ("lorenzo_decimal_of_integers", Corrupt, || {
            split(|block| block[..6].copy_from_slice(&[2 | 3 << 4, 0, 0, 0, 1, 0]))
        }),
        ("lorenzo_sparse_count", Corrupt, || sparse(|block| block[16] += 1)),
        ("lorenzo_sparse_width_33", Corrupt, || sparse(|block| block[18] = 33)),
        ("lorenzo_sparse_width_0", Corrupt, || sparse(|block| block[18] = 0)),
        ("lorenzo_sparse_cut", Corrupt, || sparse(|block| block.truncate(block.len() - 16))),
        // Each list is valid except for the defect in its name.
        ("lorenzo_list_of_15_bits", Corrupt, || list(1, 1, 15, &[0; 2])),
        ("lorenzo_list_of_257", Corrupt, || list(257, 1, 1, &[0; 33])),
        // 4000 zeros: a length of 12, in four bits, and the 11 bits below the highest one.
        ("lorenzo_list_past_the_end", Corrupt, || list(1, 1, 14, &(12u16 | (4000 - 2048) << 4).to_le_bytes())),
        ("lorenzo_list_longer_than_the_longest", Corrupt, || list(1, 1, 2, &[3])),
        ("lorenzo_list_width_33", Corrupt, || list(1, 33, 1, &[0; 2])),
        ("lorenzo_list_width_0", Corrupt, || list(1, 0, 1, &[0; 2])),
        ("lorenzo_list_of_none_with_bits", Corrupt, || list(0, 1, 1, &[])),
        // Lengths of gaps in 32 bytes, those of numbers in 160 bytes, up to 992 bytes of other bits.
        ("lorenzo_list_cut", Corrupt, || list(256, 32, 1, &[])),
        ("lorenzo_list_lengths_cut", Corrupt, || list(256, 32, 1, &[0; 32 + 160 - 16])),
        ("lorenzo_list_bits_cut", Corrupt, || list(256, 32, 1, &[&[0; 32][..], &[0xff; 160 + 992 - 16]].concat())),
        ("lorenzo_cut_of_integers", Corrupt, || cut(DType::I32, 127, 0, 0)),
        ("lorenzo_cut_e_0", Corrupt, || cut(DType::F32, 0, 0, 0)),
        ("lorenzo_cut_e_255", Corrupt, || cut(DType::F32, 255, 0, 0)),
        ("lorenzo_cut_e_2047", Corrupt, || cut(DType::F64, 2047, 0, 0)),
        ("lorenzo_cut_too_large", Corrupt, || cut(DType::F32, 127, 1 << 24, 0)),
        ("lorenzo_cut_too_far_below_zero", Corrupt, || cut(DType::F32, 127, -1 << 24, 0)),
        ("lorenzo_cut_without_tails", Corrupt, || cut(DType::F32, 127, -1, 0)),
        ("lorenzo_cut_tails_cut", Corrupt, || cut(DType::F32, 127, -1, 16_000 - 16)),
        // Five bits each: 608 words, and 17 bits remain in each of 32 lanes.
        ("lorenzo_cut_left_over_cut", Corrupt, || cut(DType::F32, 127, 1 << 18, 2432 + 68 - 16)),
        ("lorenzo_cut_left_over_too_long", Corrupt, || cut(DType::F32, 127, 1 << 18, 2432 + 68 + 16)),
        ("lorenzo_cut_tails_too_long", Corrupt, || cut(DType::F32, 127, -1, 16_000 + 16)),
        ("lorenzo_huff_dict", UnsupportedFormat, || huff(|block| block[0] |= 2 << 4)),
        ("lorenzo_raw_fixed", UnsupportedFormat, || split(|block| block[0] = 1 << 4)),
        ("lorenzo_order_x_8", UnsupportedFormat, || split(|block| block[1] |= 8)),
        ("lorenzo_order_y_8", UnsupportedFormat, || split(|block| block[1] |= 0x80)),
        ("lorenzo_order_z_8", UnsupportedFormat, || split(|block| block[2] = 8)),
        ("lorenzo_reserved_byte_3", UnsupportedFormat, || split(|block| block[3] = 2)),
        ("lorenzo_reserved_byte_6", UnsupportedFormat, || split(|block| block[6] = 1)),
        ("lorenzo_base_of_64_bits", UnsupportedFormat, || split(|block| block[12] = 1)),
        ("lorenzo_raw_with_orders", UnsupportedFormat, || split(|block| block[..4].copy_from_slice(&[0, 1, 0, 0]))),
        ("lorenzo_raw_too_short", Corrupt, || split(|block| block[..16].fill(0))),
        ("lorenzo_const_too_long", Corrupt, || {
            split(|block| block[..16].copy_from_slice(&[&[1; 1][..], &[0; 15]].concat()))
        }),
        ("lorenzo_shift_32", Corrupt, || split(|block| block[4] = 32)),
        ("lorenzo_fixed_of_integers", Corrupt, || {
            split(|block| block[..5].copy_from_slice(&[2 | 1 << 4, 1, 0, 0, 9]))
        }),
        ("lorenzo_fixed_unit_0", Corrupt, || {
            block(1, "patches", DType::F32, |block| (block[0], block[4], block[5]) = (2 | 1 << 4, 0, 0))
        }),
        ("lorenzo_fixed_too_large", Corrupt, || {
            block(1, "patches", DType::F32, |block| (block[0], block[4], block[5]) = (2 | 1 << 4, 0, 1))
        }),
        ("lorenzo_block_cut", Corrupt, || split(|block| block.truncate(block.len() - 32))),
        ("lorenzo_block_too_long", Corrupt, || split(|block| block.extend([0; 16]))),
        ("lorenzo_split_headers_cut", Corrupt, || split(|block| block.truncate(32))),
        ("lorenzo_split_widths_over_32", Corrupt, || split(|block| block[18] = 33 - block[16] - block[17])),
        ("lorenzo_split_reserved", Corrupt, || split(|block| block[19] = 1)),
        ("lorenzo_split_no_patches", Corrupt, || split(|block| block[20..22].fill(0))),
        ("lorenzo_split_no_second_patches", Corrupt, || split(|block| block[22..24].fill(0))),
        ("lorenzo_split_patches_of_no_bits", Corrupt, || split(|block| block[17] = 0)),
        ("lorenzo_split_more_second_patches", Corrupt, || split(|block| block[22] = block[20].wrapping_add(1))),
        ("lorenzo_split_more_patches_than_numbers", Corrupt, || split(|block| block[21] = 5)),
        ("lorenzo_split_bitmap", Corrupt, || {
            split(|block| {
                let at = first_bitmap(block);
                block[at] ^= 1;
            })
        }),
        ("lorenzo_split_second_bitmap", Corrupt, || {
            split(|block| {
                let bitmaps = 4 * (32 + 32 + 32 + 29);
                let n_patched = usize::from(u16::from_le_bytes([block[20], block[21]]));
                let at = first_bitmap(block) + bitmaps + (n_patched * usize::from(block[17])).div_ceil(8);
                block[at] ^= 1;
            })
        }),
        ("lorenzo_huff_symbols", Corrupt, || huff(|block| block[16] = block[17] + 1)),
        ("lorenzo_huff_symbol_33", Corrupt, || huff(|block| block[17] = 33)),
        ("lorenzo_huff_pivot_33", Corrupt, || huff(|block| block[18] = 33)),
        ("lorenzo_huff_lengths_of_17_bits", Corrupt, || huff(|block| block[19] = 17)),
        ("lorenzo_huff_lengths_cut", Corrupt, || huff(|block| block.truncate(32))),
        ("lorenzo_huff_codes_overlap", Corrupt, || huff(|block| block[22..26].fill(0x11))),
        ("lorenzo_huff_code_of_11_bits", Corrupt, || huff(|block| block[22] = 0x0b)),
        ("lorenzo_huff_no_codes", Corrupt, || {
            huff(|block| {
                let n_lengths = 4 * usize::from(block[17] - block[16] + 1);
                block[22..22 + n_lengths.div_ceil(2)].fill(0);
            })
        }),
        ("lorenzo_huff_lanes_too_short", Corrupt, || huff(|block| block[20] -= 1)),
        ("lorenzo_huff_lanes_too_long", Corrupt, || huff(|block| block[21] = 0x10)),
        ("lorenzo_huff_lane_of_65536", Corrupt, || huff(|block| block[20..22].fill(0xff))),
        ("lorenzo_dict_no_entries", Corrupt, || dict(|block| block[6..8].fill(0))),
        ("lorenzo_dict_low_bits", Corrupt, || dict(|block| block[1] = 32)),
        ("lorenzo_dict_delta_bits", Corrupt, || dict(|block| block[2] = 33)),
        ("lorenzo_dict_delta_shift", Corrupt, || dict(|block| block[3] = 32)),
        ("lorenzo_dict_entry_missing", Corrupt, || {
            // With one delta less, the deltas take one word less.
            dict(|block| {
                block[6] -= 1;
                block.drain(16..24);
            })
        }),
        ("lorenzo_dict_cut", Corrupt, || dict(|block| block.truncate(32))),
        ("lorenzo_size_11", Corrupt, || {
            let mut frame = split(|_| ());
            frame[48] = 11;
            finished(frame)
        }),
        ("lorenzo_size_15", Corrupt, || {
            let mut frame = split(|_| ());
            frame[48] = 15;
            finished(frame)
        }),
        ("lorenzo_of_complex", Corrupt, || {
            let mut frame = split(|_| ());
            (frame[8], frame[12]) = (13, 8);
            finished(frame)
        }),
        ("lorenzo_without_elements", Corrupt, || {
            let mut frame = split(|_| ());
            frame[40..48].fill(0);
            finished(frame)
        }),
        ("lorenzo_of_other_extents", Corrupt, || {
            let mut frame = split(|_| ());
            frame[41] = 0x10;
            finished(frame)
        }),
    ]
}

/// A quant frame of one axis with 4000 elements, after a change of its header and its payload.
fn quant_frame(terms: &str, dtype: DType, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let input = Input::new("field", dtype, &[4000]);
    let mut frame = compress(&input.array(), &request("quant", 0, terms), &input.bytes(), &Context::default());
    assert_eq!((frame[5], frame[49]), (3, 2), "{terms} is not coded in units of 4 bytes");
    change(&mut frame);
    finished(frame)
}

/// A quant frame after a change of its only block, with a matching check.
pub fn quant_block(terms: &str, dtype: DType, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    quant_frame(terms, dtype, |frame| {
        let mut block = frame.split_off(LORENZO_HEADER + 16);
        change(&mut block);
        block.resize(block.len().next_multiple_of(4), 0);
        let table = &mut frame[LORENZO_HEADER + 8..];
        table[..4].copy_from_slice(&(block.len() as u32 / 4).to_le_bytes());
        table[4..].copy_from_slice(&(Checksum::of(&block, 16).finish(block.len() as u64) as u32).to_le_bytes());
        frame.extend(block);
    })
}

/// A block of float32 that consists of these sections.
fn quant_sections(h: u16, widths: &[u8], sections: &[&[u8]]) -> Vec<u8> {
    quant_block("abs=1e-2", DType::F32, |block| {
        let base = &[0; 4][..];
        block.clear();
        for section in
            [&[&[h as u8, (h >> 8) as u8], widths].concat(), base].into_iter().chain(sections.iter().copied())
        {
            block.extend(section);
            block.resize(block.len().next_multiple_of(4), 0);
        }
    })
}

/// A frame of two quant blocks, after a change of their table.
fn quant_table(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let input = Input::new("field", DType::F32, &[8000]);
    let mut frame = compress(&input.array(), &request("quant", 0, "abs=1e-2"), &input.bytes(), &Context::default());
    change(&mut frame[LORENZO_HEADER + 8..LORENZO_HEADER + 24]);
    finished(frame)
}

/// Each frame is valid except for the defect in its name.
fn quant_rejects() -> Vec<Damage> {
    use ErrorKind::{Corrupt, Truncated, UnsupportedFormat};
    const HOLES: u16 = 1 << 13;
    const OTHERS: u16 = 1 << 14;
    const WORDS: u16 = 1 << 12;
    fn params(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        quant_frame("abs=1e-2", DType::F32, |frame| change(&mut frame[48..]))
    }
    fn value(value: f64) -> Vec<u8> {
        params(|rest| {
            rest[4..12].copy_from_slice(&value.to_le_bytes());
            rest[16..24].copy_from_slice(&value.to_le_bytes());
        })
    }
    fn bound_of_rel(bound: f64) -> Vec<u8> {
        quant_frame("rel=1e-2", DType::F32, |frame| {
            frame[LORENZO_HEADER..LORENZO_HEADER + 8].copy_from_slice(&bound.to_le_bytes());
        })
    }
    fn n_params(n: u8) -> Vec<u8> {
        params(|rest| {
            rest[12..16].fill(1);
        })
        .into_iter()
        .enumerate()
        .map(|(i, byte)| if i == 11 { n } else { byte })
        .collect()
    }
    /// One hole, the first element: its word, count, bytes of the bitmap, bitmap.
    fn hole(n: u16, n_bytes: u16, marks: &[u8]) -> Vec<u8> {
        let numbers = [n.to_le_bytes(), n_bytes.to_le_bytes()].concat();
        quant_sections(HOLES, &[0], &[&[0; 4], &numbers, marks])
    }
    /// Exceptions at these places, with a claimed count of `n`.
    fn others(n: u16, places: &[u16]) -> Vec<u8> {
        let numbers: Vec<u8> = [n].iter().chain(places).flat_map(|place| place.to_le_bytes()).collect();
        quant_sections(OTHERS, &[0], &[&numbers, &vec![7; 4 * places.len()]])
    }
    const CODED: u16 = 1 << 15;
    vec![
        ("quant_size_13", Corrupt, || params(|rest| rest[0] = 13)),
        ("quant_units_of_2_bytes", Corrupt, || params(|rest| rest[1] = 1)),
        ("quant_units_of_32_bytes", Corrupt, || params(|rest| rest[1] = 5)),
        ("quant_mode_0", Corrupt, || params(|rest| rest[2] = 0)),
        ("quant_mode_3", Corrupt, || params(|rest| rest[2] = 3)),
        ("quant_mode_6", Corrupt, || params(|rest| rest[2] = 6)),
        ("quant_reserved_parameter", UnsupportedFormat, || params(|rest| rest[3] = 1)),
        ("quant_value_0", Corrupt, || value(0.0)),
        ("quant_value_negative", Corrupt, || value(-1e-2)),
        ("quant_value_infinite", Corrupt, || value(f64::INFINITY)),
        ("quant_value_nan", Corrupt, || value(f64::NAN)),
        ("quant_value_1_of_pwrel", Corrupt, || {
            quant_frame("pwrel=0.5", DType::F32, |frame| {
                frame[52..60].copy_from_slice(&1f64.to_le_bytes());
                frame[64..72].copy_from_slice(&1f64.to_le_bytes());
            })
        }),
        ("quant_bound_is_not_the_value", Corrupt, || params(|rest| rest[16] ^= 1)),
        ("quant_bound_is_not_the_value_of_pwrel", Corrupt, || {
            quant_frame("pwrel=0.5", DType::F32, |frame| frame[64] ^= 1)
        }),
        ("quant_bound_of_rel_nan", Corrupt, || bound_of_rel(f64::NAN)),
        ("quant_bound_of_rel_infinite", Corrupt, || bound_of_rel(f64::INFINITY)),
        ("quant_bound_of_rel_negative", Corrupt, || bound_of_rel(-1.0)),
        ("quant_bound_of_rel_0_with_codes", Corrupt, || bound_of_rel(0.0)),
        ("quant_fill_zero", Corrupt, || {
            quant_frame("abs=1e-2,fill=-999", DType::F32, |frame| frame[60..64].fill(0))
        }),
        ("quant_parameters_of_11_bytes", Corrupt, || {
            let mut frame = n_params(11);
            frame[59..64].fill(0);
            finished(frame)
        }),
        ("quant_parameters_of_13_bytes", Corrupt, || {
            let mut frame = n_params(13);
            frame[61..64].fill(0);
            finished(frame)
        }),
        ("quant_pwrel_of_integers", Corrupt, || quant_frame("pwrel=0.5", DType::F32, |frame| frame[8] = 7)),
        ("quant_of_opaque", Corrupt, || quant_frame("abs=1e-2", DType::F32, |frame| frame[8] = 0)),
        ("quant_without_elements", Corrupt, || quant_frame("abs=1e-2", DType::F32, |frame| frame[40..48].fill(0))),
        ("quant_of_other_extents", Corrupt, || quant_frame("abs=1e-2", DType::F32, |frame| frame[41] = 0x10)),
        ("quant_bound_cut", Truncated, || quant_frame("abs=1e-2", DType::F32, |frame| frame.truncate(71))),
        ("quant_table_cut", Truncated, || quant_frame("abs=1e-2", DType::F32, |frame| frame.truncate(79))),
        ("quant_table_decreases", Corrupt, || quant_table(|table| table[8..12].fill(0))),
        ("quant_table_past_the_end", Corrupt, || quant_table(|table| table[11] = 1)),
        ("quant_table_before_the_end", Corrupt, || quant_table(|table| table[8] -= 1)),
        ("quant_check", Corrupt, || quant_table(|table| table[4] ^= 1)),
        ("quant_h_8002", UnsupportedFormat, || quant_sections(0x8002, &[0], &[])),
        ("quant_h_9000", UnsupportedFormat, || quant_sections(0x9000, &[0], &[])),
        ("quant_words_with_holes", UnsupportedFormat, || quant_sections(WORDS | HOLES, &[0], &[])),
        ("quant_words_with_others", UnsupportedFormat, || quant_sections(WORDS | OTHERS, &[0], &[])),
        ("quant_raw_with_more", UnsupportedFormat, || quant_sections(0x8000, &[1], &[&[0; 15_996]])),
        ("quant_constant_with_more", UnsupportedFormat, || quant_sections(0x8001, &[0, 1], &[])),
        ("quant_raw_cut", Corrupt, || quant_sections(0x8000, &[0], &[&[0; 4 * 3998]])),
        ("quant_raw_too_long", Corrupt, || quant_sections(0x8000, &[0], &[&[0; 4 * 4000]])),
        ("quant_constant_cut", Corrupt, || {
            quant_block("abs=1e-2", DType::F32, |block| *block = vec![1, 0x80, 0, 0])
        }),
        ("quant_constant_too_long", Corrupt, || quant_sections(0x8001, &[0], &[&[0; 4]])),
        ("quant_base_cut", Corrupt, || quant_block("abs=1e-2", DType::F32, |block| *block = vec![0; 4])),
        ("quant_numbers_too_long", Corrupt, || quant_sections(0, &[0], &[&[0; 4]])),
        ("quant_width_33", Corrupt, || quant_sections(0, &[33], &[&[0; 33 * 500]])),
        ("quant_widths_out_of_order", Corrupt, || quant_sections(1 << 9, &[1, 0], &[&[0xff; 63]])),
        ("quant_widths_equal", Corrupt, || quant_sections(1 << 9, &[0, 0], &[&[0; 63]])),
        ("quant_entry_past_the_table", Corrupt, || {
            quant_sections(2 << 9, &[0, 1, 2], &[&[&[3][..], &[0; 124]].concat()])
        }),
        ("quant_entries_cut", Corrupt, || quant_sections(7 << 9, &[0, 1, 2, 3, 4, 5, 6, 7], &[&[0; 184]])),
        ("quant_groups_cut", Corrupt, || quant_sections(0, &[1], &[&[0; 496]])),
        ("quant_groups_too_long", Corrupt, || quant_sections(0, &[1], &[&[0; 504]])),
        ("quant_holes_none", Corrupt, || hole(0, 500, &[0; 500])),
        ("quant_holes_one_more", Corrupt, || hole(2, 500, &[&[1][..], &[0; 499]].concat())),
        ("quant_holes_one_less", Corrupt, || hole(1, 500, &[&[3][..], &[0; 499]].concat())),
        ("quant_holes_marks_of_496_bytes", Corrupt, || hole(1, 496, &[&[1][..], &[0; 495]].concat())),
        ("quant_holes_marks_of_504_bytes", Corrupt, || hole(1, 504, &[&[1][..], &[0; 503]].concat())),
        // 16 bytes mark only the first word as nonzero, and one byte marks only its first byte.
        ("quant_holes_coded_one_more", Corrupt, || hole(2, CODED | 18, &[&[1][..], &[0; 15], &[1, 1]].concat())),
        ("quant_holes_coded_marks_cut", Corrupt, || hole(1, CODED | 17, &[&[1][..], &[0; 15], &[1]].concat())),
        ("quant_holes_coded_marks_too_long", Corrupt, || {
            hole(1, CODED | 19, &[&[1][..], &[0; 15], &[1, 1, 0]].concat())
        }),
        ("quant_holes_cut", Corrupt, || hole(1, 0x7fff, &[1])),
        ("quant_others_none", Corrupt, || others(0, &[])),
        ("quant_others_equal", Corrupt, || others(2, &[5, 5])),
        ("quant_others_descending", Corrupt, || others(3, &[7, 9, 8])),
        ("quant_others_past_the_end", Corrupt, || others(2, &[5, 4000])),
        ("quant_others_cut", Corrupt, || others(0xffff, &[5])),
        ("quant_codes_of_a_bound_without", Corrupt, || {
            quant_block("abs=1e-60", DType::F32, |block| *block = vec![0, 0, 0, 0, 5, 0, 0, 0])
        }),
    ]
}

fn rejects() -> Vec<Damage> {
    [other_rejects(), lorenzo_rejects(), quant_rejects(), context_rejects::rejects()].concat()
}

fn other_rejects() -> Vec<Damage> {
    use ErrorKind::{Corrupt, Truncated, UnsupportedFormat};
    vec![
        ("empty", Truncated, Vec::new),
        ("noise", Corrupt, || noise(500)),
        ("bad_magic", Corrupt, || changed(|frame| frame[0] = b'g')),
        ("header_bit", Corrupt, || {
            let mut frame = good();
            frame[45] ^= 4;
            frame
        }),
        ("header_cut", Truncated, || good()[..HEADER - 1].to_vec()),
        ("fixed_header_cut", Truncated, || good()[..39].to_vec()),
        ("format_0", UnsupportedFormat, || changed(|frame| frame[4] = 0)),
        ("format_1", UnsupportedFormat, || changed(|frame| frame[4] = 1)),
        ("format_6", UnsupportedFormat, || changed(|frame| frame[4] = 6)),
        ("future_format", UnsupportedFormat, || changed(|frame| frame[4] = 9)),
        ("unknown_codec", UnsupportedFormat, || changed(|frame| frame[5] = 255)),
        ("codec_version_2", UnsupportedFormat, || changed(|frame| frame[6] = 2)),
        ("codec_version_0", UnsupportedFormat, || changed(|frame| frame[6] = 0)),
        ("unknown_flag", UnsupportedFormat, || changed(|frame| frame[7] = 0x80)),
        ("unknown_dtype", UnsupportedFormat, || changed(|frame| frame[8] = 15)),
        ("rank_33", Corrupt, || {
            let mut frame = good();
            frame[9] = 33;
            frame
        }),
        ("fold_2", UnsupportedFormat, || changed(|frame| frame[10] = 2)),
        ("element_size_8_of_f32", Corrupt, || changed(|frame| frame[12] = 8)),
        ("opaque_of_no_bytes", Corrupt, || changed(|frame| (frame[8], frame[12]) = (0, 0))),
        ("big_endian_bytes", Corrupt, || changed(|frame| (frame[7], frame[8], frame[12]) = (1, 1, 1))),
        ("reserved_in_use", UnsupportedFormat, || changed(|frame| frame[37] = 1)),
        ("params_of_ndzip", Corrupt, || {
            // The last two extents become parameters of a rank-1 array.
            changed(|frame| (frame[9], frame[11]) = (1, 16))
        }),
        ("elements_overflow", Corrupt, || header_only([1 << 32, 1 << 31, 4], 0)),
        ("bytes_overflow", Corrupt, || header_only([1 << 31, 1 << 31, 1], 0)),
        ("payload_overflow", Truncated, || header_only([1, 2, 4100], u64::MAX)),
        ("payload_missing", Truncated, || good()[..HEADER].to_vec()),
        ("payload_cut", Truncated, || {
            let mut frame = good();
            frame.pop();
            frame
        }),
        ("trailing_byte", Corrupt, || {
            let mut frame = good();
            frame.push(0);
            frame
        }),
        ("payload_bit_of_a_column", Corrupt, || {
            let mut frame = good();
            let last_column = frame.len() - 4 * 4 * 2 - 1;
            frame[last_column] ^= 1;
            frame
        }),
        ("payload_bit_of_the_border", Corrupt, || {
            let mut frame = good();
            *frame.last_mut().unwrap() ^= 0x80;
            frame
        }),
        ("missing_in_version_1", UnsupportedFormat, || missing(|frame| frame[6] = 1)),
        ("missing_fill_twice", Corrupt, || missing(|frame| frame.copy_within(68..72, 72))),
        ("missing_more_than_there_are", Corrupt, || missing(|frame| frame[59] = 3 << 2)),
        ("missing_nine_fills", Corrupt, || missing(|frame| frame[59] = 9 << 2)),
        ("missing_one_fill_in_version_2", Corrupt, || {
            missing(|frame| {
                (frame[59], frame[11]) = (1 << 2, 16);
                frame[72..76].fill(0);
            })
        }),
        ("fill_of_zero_in_version_1", Corrupt, || {
            missing(|frame| {
                (frame[6], frame[59], frame[11]) = (1, 0, 16);
                frame[68..76].fill(0);
            })
        }),
        ("table_cut", Truncated, || changed(|frame| frame.truncate(HEADER + 7))),
        ("table_decreases", Corrupt, || moved(1, -2000)),
        ("table_first_block_too_short", Corrupt, || changed(|frame| frame[HEADER..][..4].fill(0))),
        ("table_block_too_long", Corrupt, || moved(0, 8192)),
        ("table_wraps", Corrupt, || changed(|frame| frame[HEADER + 4..][..4].fill(0xff))),
        ("table_past_the_end", Truncated, || moved(1, 500)),
        ("table_and_heads_disagree", Corrupt, || moved(0, 1)),
        ("head_with_one_column_more", Corrupt, || changed(|frame| frame[HEADER + 8 + 4 * 100 + 3] |= 0x80)),
        ("border_too_long", Corrupt, || changed(|frame| frame.extend([0; 4]))),
        ("border_too_short", Corrupt, || changed(|frame| frame.truncate(frame.len() - 4))),
        ("border_of_half_a_word", Corrupt, || changed(|frame| frame.extend([0; 2]))),
        ("ndzip_of_integers", Corrupt, || changed(|frame| frame[8] = 7)),
        ("ndzip_of_other_extents", Corrupt, || changed(|frame| frame[48] = 1)),
        ("stored_too_short", Corrupt, || stored(239)),
        ("stored_too_long", Corrupt, || stored(241)),
        ("stored_nothing", Corrupt, || stored(0)),
    ]
}

/// Writes the files that do not exist yet, and their manifest rows.
#[test]
#[ignore = "adds files to tests/golden"]
fn bless() {
    let v8 = folder("v8");
    let mut rows: Vec<Golden> = manifest(&v8);
    for Case { codec, level, terms, name, chosen, input } in cases().into_iter().chain(others()) {
        let file = format!("{codec}/{name}.gridz");
        if v8.join(&file).exists() {
            continue;
        }
        let frame = make(&request(codec, level, terms), chosen, &input);
        let array = decompress(&frame, &Context::default()).unwrap();
        let entry = registry::find(frame[5]).unwrap();
        let codec_version = frame[6];
        let (frame_sha256, array_sha256) = (sha256(&frame), sha256(&array));
        fs::create_dir_all(v8.join(codec)).unwrap();
        fs::write(v8.join(&file), frame).unwrap();
        rows.push(Golden {
            file,
            asked: codec.into(),
            level,
            terms: terms.into(),
            only_read: false,
            chosen,
            codec: entry.name.into(),
            codec_version,
            writer: gridz::VERSION.into(),
            frame_sha256,
            array_sha256,
            input,
        });
    }
    write_manifest(&v8, "Frames that decode for ever; written and explained by tests/codecs/golden.rs.", &rows);

    let reject = folder("v8_reject");
    let mut rows: Vec<Reject> = manifest(&reject);
    fs::create_dir_all(&reject).unwrap();
    for (name, kind, make) in rejects() {
        let file = format!("{name}.gridz");
        if !reject.join(&file).exists() {
            fs::write(reject.join(&file), make()).unwrap();
            rows.push(Reject { file, error: format!("{kind:?}") });
        }
    }
    write_manifest(&reject, "Frames that must be refused; written and explained by tests/codecs/golden.rs.", &rows);
}
