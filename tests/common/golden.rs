//! Folders of golden frames, and their manifests.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::root;

pub fn folder(name: &str) -> PathBuf {
    root().join("tests/golden").join(name)
}

/// The rows of a manifest; none if it does not exist yet.
pub fn manifest<Row: DeserializeOwned>(folder: &Path) -> Vec<Row> {
    #[derive(Deserialize)]
    struct Manifest<Row> {
        frame: Vec<Row>,
    }
    let Ok(text) = fs::read_to_string(folder.join("MANIFEST.toml")) else { return Vec::new() };
    toml::from_str::<Manifest<Row>>(&text).unwrap().frame
}

/// Every frame file below `folder`, by its name in the manifest.
fn frame_files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            names.extend(frame_files(&path).iter().map(|inner| format!("{name}/{inner}")));
        } else if name != "MANIFEST.toml" {
            names.push(name);
        }
    }
    names.sort();
    names
}

pub fn assert_same_files(folder: &Path, mut rows: Vec<String>) {
    rows.sort();
    assert_eq!(frame_files(folder), rows, "files and manifest of {}", folder.display());
}

/// A frame that must be refused.
#[derive(Serialize, Deserialize)]
pub struct Reject {
    pub file: String,
    /// Name of the `ErrorKind`.
    pub error: String,
}

/// Asserts that each frame of a folder is refused with the error in its manifest, and that the
/// folder has at least `n` frames.
pub fn assert_refused(folder: &Path, n: usize, read: impl Fn(&[u8]) -> Result<(), gridz::Error>) {
    let rows: Vec<Reject> = manifest(folder);
    assert_same_files(folder, rows.iter().map(|row| row.file.clone()).collect());
    assert!(rows.len() >= n);
    let mut wrong = Vec::new();
    for row in rows {
        let result = read(&fs::read(folder.join(&row.file)).unwrap());
        println!("{}: {result:?}", row.file);
        match result {
            Err(error) if format!("{:?}", error.kind()) == row.error && error.context().len() > 10 => {}
            _ => wrong.push(format!("{}: {result:?}, not {}", row.file, row.error)),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

pub fn write_manifest<Row: Serialize>(folder: &Path, head: &str, rows: &[Row]) {
    #[derive(Serialize)]
    struct Manifest<'a, Row> {
        frame: &'a [Row],
    }
    let text = toml::to_string(&Manifest { frame: rows }).unwrap();
    fs::write(folder.join("MANIFEST.toml"), format!("# {head}\n\n{text}")).unwrap();
}
