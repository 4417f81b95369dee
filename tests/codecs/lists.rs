//! Every list of codecs, levels and modes that is not generated from the registry agrees with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gridz::Mode;
use gridz_codecs::codec::registry::CODECS;

use crate::common::root;

/// A file of the project: its lines without comment markers, joined by single spaces.
fn text(file: &str) -> String {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let words =
        text.lines().flat_map(|line| line.trim_start().trim_start_matches(['/', '!', '*']).split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn says(file: &str, sentence: &str) {
    assert!(text(file).contains(sentence), "{file} does not say: {sentence}");
}

/// 0 `stored`, 1 `ndzip`, …
fn codecs() -> String {
    let codecs: Vec<String> = CODECS.iter().map(|codec| format!("{} `{}`", codec.id, codec.name)).collect();
    codecs.join(", ")
}

fn modes() -> String {
    let modes: Vec<String> = Mode::ALL.iter().map(|mode| format!("{} {}", mode.id(), mode.name())).collect();
    modes.join(", ")
}

/// The expected constants of C or Fortran: the registry's names after `GRIDZ_`.
fn constants(kind: &str) -> BTreeMap<String, u32> {
    let named = |name: &str, number: u32| (format!("GRIDZ_{kind}_{}", name.to_uppercase()), number);
    match kind {
        "CODEC" => CODECS.iter().map(|codec| named(codec.name, codec.id.into())).collect(),
        "MODE" => Mode::ALL.iter().map(|mode| named(mode.name(), mode.id().into())).collect(),
        _ => {
            let levels = CODECS.iter().flat_map(|codec| codec.levels);
            levels.map(|level| named(level.name, level.number.into())).chain([named("default", 0)]).collect()
        }
    }
}

/// The constants of one kind that a header defines: `NAME` and, after `between`, a number.
fn defined(file: &str, kind: &str, between: &str) -> BTreeMap<String, u32> {
    let (text, prefix) = (text(file), format!("GRIDZ_{kind}_"));
    let found = text.match_indices(&prefix).filter_map(|(at, _)| {
        let (name, rest) = text[at..].split_once(' ')?;
        let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let number: String = rest.strip_prefix(between)?.chars().take_while(char::is_ascii_digit).collect();
        Some((name.to_owned(), number.parse().ok().filter(|_| is_name)?))
    });
    found.collect()
}

#[test]
fn headers_have_the_constants_of_the_registry() {
    for kind in ["CODEC", "LEVEL", "MODE"] {
        // The constants of the modes are defined in gridz.h.
        let in_c = if kind == "MODE" { BTreeMap::new() } else { constants(kind) };
        assert_eq!(defined("include/gridz_hdf5.h", kind, ""), in_c, "include/gridz_hdf5.h");
        assert_eq!(defined("include/gridz_hdf5.f90", kind, "= "), constants(kind), "include/gridz_hdf5.f90");
    }
    assert_eq!(defined("include/gridz.h", "MODE", ""), constants("MODE"), "include/gridz.h");
}

#[test]
fn texts_name_the_codecs_of_the_registry() {
    says("docs/reference.md", &format!("| `[codec]`, `[codec, 0]` | {} |", codecs()));
    for codec in CODECS {
        let versions: Vec<String> = codec.reads.iter().map(u8::to_string).collect();
        says("src/format/SPEC.md", &format!("| `{}` | {} | {} |", codec.name, codec.id, versions.join(", ")));
        says("tests/hosts/support.py", &codec.name.to_uppercase());
        says("tests/installed/abi.c", &format!("\"{}\"", codec.name));
    }
    let (names, ids): (Vec<String>, Vec<String>) =
        CODECS.iter().map(|codec| (codec.name.to_uppercase(), codec.id.to_string())).unzip();
    says("tests/hosts/support.py", &format!("{} = {}", names.join(", "), ids.join(", ")));
}

#[test]
fn texts_name_the_levels_of_the_registry() {
    for codec in CODECS.iter().filter(|codec| !codec.levels.is_empty()) {
        let name = codec.name;
        let levels: Vec<String> =
            codec.levels.iter().map(|level| format!("{} {}", level.number, level.name)).collect();
        let listed = [&[format!("{} (the default)", levels[0])], &levels[1..]].concat().join(", ");
        says("docs/reference.md", &format!("`{name}`: {listed};"));
    }
}

/// Python's tests cover every codec at every level.
#[test]
fn python_tries_every_level() {
    for codec in CODECS {
        for level in codec.level_numbers() {
            let known = codec.levels.iter().find(|known| known.number == level);
            let level = known.map_or(level.to_string(), |known| known.name.to_uppercase());
            says("tests/hosts/support.py", &format!("({}, {level})", codec.name.to_uppercase()));
        }
    }
}

#[test]
fn texts_name_the_modes() {
    says("docs/reference.md", &format!("The modes are {}.", modes()));
    says("src/format/SPEC.md", &format!("The modes are {};", modes()));
}

/// The paths in CONTRIBUTING's list for new codecs.
fn listed() -> Vec<String> {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let section = text.split("## ").find(|section| section.starts_with("Adding a codec")).expect("a section");
    let quoted = section.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.contains(['/', '.']) && !word.contains(' ')).map(str::to_owned).collect()
}

#[test]
fn what_a_new_codec_needs_is_there() {
    let listed = listed();
    assert!(listed.len() > 10, "{listed:?}");
    for path in &listed {
        for codec in CODECS {
            let path = path.replace("<name>", codec.name);
            // Not every codec has kernels.
            let is_optional = path.starts_with("kernels/");
            assert!(root().join(&path).exists() || is_optional, "CONTRIBUTING.md names {path}, which is missing");
        }
    }
}

/// A codec is a folder, an entry, a section of the specification, and goldens.
#[test]
fn every_codec_has_all_its_parts() {
    let spec = fs::read_to_string(root().join("src/format/SPEC.md")).unwrap();
    let folder = root().join("crates/gridz-codecs/src/codec");
    for codec in CODECS {
        let name = codec.name;
        assert!(folder.join(name).join("mod.rs").exists(), "no folder for codec {name}");
        let is_heading = |line: &str| line.starts_with('#') && line.contains(name);
        assert!(spec.lines().any(is_heading), "SPEC.md has no heading for codec {name}");
        let goldens = fs::read_dir(root().join("tests/golden/v8").join(name));
        assert!(goldens.is_ok_and(|mut files| files.next().is_some()), "no goldens of codec {name}");
    }
    let folders: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in folders.iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap();
        assert!(CODECS.iter().any(|codec| *codec.name == *name), "codec folder {} has no entry", path.display());
    }
}

/// `build.rs` recompiles a kernel when files in its own folder or in the shared folders change, and
/// no others.
#[test]
fn kernels_include_only_shared_folders() {
    let mut n_includes = 0;
    for folder in fs::read_dir(root().join("kernels")).unwrap().map(|entry| entry.unwrap().path()) {
        for file in folder.read_dir().into_iter().flatten().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(&file).unwrap();
            for included in text.lines().filter_map(|line| line.strip_prefix("#include \"")) {
                n_includes += 1;
                let is_shared = included.starts_with("../common/") || included.starts_with("../stage/");
                assert!(is_shared || !included.contains('/'), "{} includes {included}", file.display());
            }
        }
    }
    assert!(n_includes > 0);
}

/// A file that names more than one codec may need a change for a new codec.
#[test]
fn no_list_of_codecs_is_forgotten() {
    let listed = listed();
    let names: Vec<&str> = CODECS.iter().filter(|codec| codec.name != "stored").map(|codec| codec.name).collect();
    let mut files = Vec::new();
    visit(root(), &mut files);
    let mut found = 0;
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let file = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let is_own = CODECS.iter().any(|codec| file.contains(&format!("/{}/", codec.name)));
        let text = text.to_lowercase();
        if is_own || names.iter().filter(|name| text.contains(**name)).count() < 2 {
            continue;
        }
        found += 1;
        let is_listed = |path: &String| file == path || path.ends_with('/') && file.starts_with(path.as_str());
        assert!(listed.iter().any(is_listed), "{file} names several codecs; CONTRIBUTING.md does not say so");
    }
    assert!(found > 10, "{found} files name several codecs");
}

/// Collects all files except build output, downloads and hidden files.
fn visit(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_left_out = name.starts_with('.') || ["target", "artifacts", "__pycache__"].contains(&name.as_str());
        match path.is_dir() {
            _ if is_left_out => {}
            true => visit(&path, files),
            false => files.push(path),
        }
    }
}
