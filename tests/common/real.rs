//! Scientific arrays, which are not part of the project.

use std::fs;
use std::path::Path;
use std::process::Command;

use gridz::{Array, ByteOrder, DType, Shape};
use serde_json::Value;

use super::sha256;

/// One array of the reference data.
pub struct Real {
    pub file: String,
    pub array: Array,
    pub bytes: Vec<u8>,
}

/// Every array in the folder `data`, and the three arrays of every sparse matrix.
pub fn arrays(data: &Path) -> Vec<Real> {
    let manifest: Value = serde_json::from_str(&fs::read_to_string(data.join("MANIFEST.json")).unwrap()).unwrap();
    let mut arrays = Vec::new();
    for entry in manifest["entries"].as_array().unwrap() {
        match entry["kind"].as_str().unwrap() {
            "array" => {
                let extents: Vec<u64> = serde_json::from_value(entry["shape"].clone()).unwrap();
                let file = entry["file"].as_str().unwrap();
                arrays.push(read(data, file, entry["dtype"].as_str().unwrap(), Some(&extents), &entry["sha256"]));
            }
            "csr" => {
                for (part, file) in entry["files"].as_object().unwrap() {
                    let dtype = &entry[if part == "data" { "data_dtype" } else { "index_dtype" }];
                    let sha256 = &entry["sha256"][part];
                    arrays.push(read(data, file.as_str().unwrap(), dtype.as_str().unwrap(), None, sha256));
                }
            }
            // The source files of the arrays.
            "original_container" => {}
            kind => panic!("unknown kind {kind}"),
        }
    }
    arrays
}

/// The arrays of floats in the folders `data`, `data2` and `data3` of the reference data.
pub fn floats(shared: &Path) -> Vec<Real> {
    let mut floats = arrays(&shared.join("data"));
    for folder in ["data2", "data3"].map(|name| shared.join(name)) {
        let manifest: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("MANIFEST.json")).unwrap()).unwrap();
        for entry in manifest["entries"].as_array().unwrap() {
            let dtype = match entry["dtype"].as_str().unwrap() {
                "float16" => DType::F16,
                "<f4" | "float32" => DType::F32,
                "<f8" | "float64" => DType::F64,
                "complex64" => DType::C64,
                "complex128" => DType::C128,
                _ => continue,
            };
            let file = entry["file"].as_str().unwrap();
            let unpacked = Command::new("gzip").arg("-dc").arg(folder.join(file)).output().unwrap();
            assert!(unpacked.status.success(), "{file}");
            let extents: Vec<u64> = serde_json::from_value(entry["shape"].clone()).unwrap();
            let array = Array::new(dtype, ByteOrder::Little, Shape::new(&extents).unwrap()).unwrap();
            assert_eq!(unpacked.stdout.len() as u64, array.n_bytes(), "{file}");
            floats.push(Real { file: file.into(), array, bytes: unpacked.stdout });
        }
    }
    floats.retain(|real| real.array.dtype() != DType::I32);
    floats
}

fn read(data: &Path, file: &str, dtype: &str, extents: Option<&[u64]>, sha: &Value) -> Real {
    let bytes = fs::read(data.join(file)).unwrap();
    assert_eq!(sha.as_str().unwrap(), sha256(&bytes), "{file}");
    let order = if dtype.starts_with('>') { ByteOrder::Big } else { ByteOrder::Little };
    let dtype = match dtype.trim_start_matches(['<', '>']) {
        "f4" => DType::F32,
        "f8" => DType::F64,
        "i4" => DType::I32,
        other => panic!("{file}: element type {other}"),
    };
    let flat = [bytes.len() as u64 / u64::from(dtype.size().unwrap())];
    let shape = Shape::new(extents.unwrap_or(&flat)).unwrap();
    Real { file: file.into(), array: Array::new(dtype, order, shape).unwrap(), bytes }
}
