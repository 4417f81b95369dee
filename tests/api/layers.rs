//! The layers of the source: which module may use which, which files may contain `unsafe`, and the
//! parts of a codec.
//!
//! The compiler does not enforce layers among the modules of one crate, so this test reads the
//! sources: every `crate::` and `super::` path must be an edge of [`EDGES`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gridz_codecs::codec::registry::CODECS;

/// Modules that every layer above may use.
const BASE: [&str; 4] = ["error", "types", "settings", "format"];

/// Each layer, the layers that it may use, and whether it may use all of [`BASE`]. Every layer may
/// use itself. `codec/*` is one codec's folder; `codec/* definition` its files that define the
/// bytes.
const EDGES: &[(&str, &[&str], bool)] = &[
    ("error", &[], false),
    ("types", &["error"], false),
    ("settings", &["error"], false),
    ("format", &["error", "types"], false),
    ("cpu", &[], true),
    ("cuda", &[], true),
    ("stage", &["cpu"], true),
    ("codec", &["stage", "cpu", "cuda"], true),
    ("codec/* definition", &["codec", "stage"], true),
    ("codec/*", &["codec", "stage", "cpu", "cuda"], true),
    ("registry", &["codec", "codec/*"], true),
    ("request", &["codec", "registry"], true),
    ("engine", &["codec", "registry", "request", "cpu", "cuda"], true),
    ("quality", &["engine", "cpu"], true),
    ("sparse", &["cpu", "cuda"], true),
    ("bulk", &["engine", "cpu"], true),
    ("hdf5", &["engine", "bulk"], true),
    ("ffi", &["engine", "quality", "sparse", "bulk", "hdf5", "registry"], true),
];

/// Layers whose files must not form a dependency cycle.
const WITHOUT_CIRCLES: [&str; 3] = ["engine", "cuda", "bulk"];

/// Files of a codec that must be independent of the back end.
const DEFINITION: [&str; 4] = ["params", "layout", "scalar", "word"];

/// One source file: its path below `src` and its text.
type Source = (String, String);

// ---- reading Rust ---------------------------------------------------------------------------------

/// Identifiers, `::` and single signs, without comments, literals and lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut i) = (Vec::new(), 0);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => i += chars[i..].iter().take_while(|&&c| c != '\n').count(),
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 || i >= chars.len() {
                        break;
                    }
                }
            }
            '"' => i = end_of_string(&chars, i),
            '\'' if at(i + 1) == '\\' => {
                // The character after the backslash may itself be a quote.
                i += 3 + chars[i + 3..].iter().take_while(|&&c| c != '\'').count() + 1;
            }
            '\'' if at(i + 2) == '\'' => i += 3,
            '\'' => i += 1 + chars[i + 1..].iter().take_while(|&&c| is_word(c)).count(),
            c if is_word(c) => {
                i += chars[i..].iter().take_while(|&&c| is_word(c)).count();
                let word: String = chars[start..i].iter().collect();
                let n_hashes = chars[i..].iter().take_while(|&&c| c == '#').count();
                if at(i + n_hashes) == '"' && matches!(word.as_str(), "r" | "br" | "cr") {
                    let close: String = std::iter::once('"').chain(std::iter::repeat_n('#', n_hashes)).collect();
                    let rest: String = chars[i + n_hashes + 1..].iter().collect();
                    let end = rest.find(&close).map_or(rest.len(), |end| end + close.len());
                    i += n_hashes + 1 + rest[..end].chars().count();
                } else {
                    tokens.push(word);
                }
            }
            ':' if at(i + 1) == ':' => {
                tokens.push("::".into());
                i += 2;
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(c.into());
                }
                i += 1;
            }
        }
    }
    tokens
}

fn end_of_string(chars: &[char], open: usize) -> usize {
    let mut i = open + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The absolute paths, without `crate`, that a file of module `file` names through `crate`, `super`
/// or `self`.
fn paths(file: &[String], text: &str) -> BTreeSet<Vec<String>> {
    let tokens = tokens(text);
    let mut found = BTreeSet::new();
    let mut module = file.to_vec();
    let mut braces: Vec<bool> = Vec::new(); // for each open brace, true if it opens an inline module
    for (i, token) in tokens.iter().enumerate() {
        let next = |n: usize| tokens.get(i + n).map_or("", String::as_str);
        match token.as_str() {
            "mod" if next(2) == "{" => module.push(next(1).to_owned()),
            "{" => braces.push(i >= 2 && tokens[i - 2] == "mod"),
            "}" if braces.pop() == Some(true) => drop(module.pop()),
            "crate" if next(1) == "::" => drop(expand(&tokens[i + 2..], Vec::new(), &mut found)),
            // Only the first `super` of `super::super`: the rest is parsed from there.
            "super" | "self" if next(1) == "::" && (i == 0 || tokens[i - 1] != "::") => {
                let mut base = module.clone();
                let mut at = i;
                while tokens[at] == "super" {
                    base.pop();
                    at += if tokens.get(at + 1).is_some_and(|t| t == "::") { 2 } else { 1 };
                }
                at += if tokens[at] == "self" { 2 } else { 0 };
                expand(&tokens[at..], base, &mut found);
            }
            _ => {}
        }
    }
    found
}

/// Adds the paths of a use tree that begins at `tokens`, below `prefix`; returns its length.
fn expand(tokens: &[String], mut prefix: Vec<String>, found: &mut BTreeSet<Vec<String>>) -> Option<usize> {
    let mut i = 0;
    loop {
        let token = tokens.get(i)?.as_str();
        if token == "{" {
            i += 1;
            while tokens.get(i)? != "}" {
                i += if tokens[i] == "," { 1 } else { expand(&tokens[i..], prefix.clone(), found)? };
            }
            return Some(i + 1);
        }
        if token != "self" {
            prefix.push(token.to_owned());
        }
        if tokens.get(i + 1).is_none_or(|next| next != "::") || tokens.get(i + 2).is_some_and(|t| t == "<") {
            found.insert(prefix);
            // `path as name` in a tree
            return Some(if tokens.get(i + 1).is_some_and(|t| t == "as") { i + 3 } else { i + 1 });
        }
        i += 2;
    }
}

// ---- checks
// ---------------------------------------------------------------------------------------

/// `codec/ndzip/mod.rs` is the module `codec::ndzip`.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    stem.split('/').map(str::to_owned).collect()
}

/// The layer of a module, or of an item in a module; `folders` are the codecs.
fn layer_of(path: &[String], folders: &BTreeSet<String>) -> String {
    match path {
        [codec, second, ..] if codec == "codec" && ["registry", "request"].contains(&second.as_str()) => {
            second.clone()
        }
        [codec, second, ..] if codec == "codec" && folders.contains(second) => format!("codec/{second}"),
        [first, ..] => first.clone(),
        [] => "lib".into(),
    }
}

/// Names that `lib.rs` re-exports, with their original modules.
fn re_exports(lib: &str) -> BTreeMap<String, String> {
    let tokens = tokens(lib);
    let mut names = BTreeMap::new();
    for (i, _) in tokens.iter().enumerate().filter(|(_, token)| *token == "use") {
        let mut found = BTreeSet::new();
        expand(&tokens[i + 1..], Vec::new(), &mut found);
        names.extend(found.into_iter().map(|path| (path.last().unwrap().clone(), path[0].clone())));
    }
    names
}

/// Every edge that is not in the table, as an error message.
fn forbidden_edges(sources: &[Source]) -> Vec<String> {
    let modules: BTreeSet<String> = sources.iter().map(|(file, _)| module_of(file)[0].clone()).collect();
    let folders: BTreeSet<String> = sources
        .iter()
        .filter_map(|(file, _)| Some(file.strip_prefix("codec/")?.split_once('/')?.0.to_owned()))
        .collect();
    let lib = sources.iter().find(|(file, _)| file == "lib.rs").map_or("", |(_, text)| text.as_str());
    let re_exports = re_exports(lib);
    let mut wrong = Vec::new();
    for (file, text) in sources.iter().filter(|(file, _)| file != "lib.rs") {
        let module = module_of(file);
        let from = layer_of(&module, &folders);
        let is_definition = module.len() > 2 && DEFINITION.contains(&module.last().unwrap().as_str());
        let row = match from.starts_with("codec/") {
            true if is_definition => "codec/* definition",
            true => "codec/*",
            false => &from,
        };
        let Some((_, allowed, base)) = EDGES.iter().find(|(layer, ..)| *layer == row) else {
            wrong.push(format!("{file} is in no known layer"));
            continue;
        };
        for mut path in paths(&module, text) {
            if let Some(origin) = re_exports.get(&path[0]) {
                path.insert(0, origin.clone());
            }
            // Constants that lib.rs itself defines belong to no layer; a glob would hide edges.
            if !modules.contains(&path[0]) && path[0] != "*" {
                continue;
            }
            let to = layer_of(&path, &folders);
            let is_allowed = to == from
                || allowed.contains(&to.as_str())
                || allowed.contains(&"codec/*") && to.starts_with("codec/")
                || *base && BASE.contains(&to.as_str());
            if !is_allowed {
                wrong.push(format!("{file} uses crate::{}, but {row} may not use {to}", path.join("::")));
            }
        }
    }
    wrong
}

/// The dependencies among the files of a layer. A name that is not one of the layer's modules
/// belongs to the layer's own file, which uses all the others.
fn edges_inside(layer: &str, sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let lib = sources.iter().find(|(file, _)| file == "lib.rs").map_or("", |(_, text)| text.as_str());
    let re_exports = re_exports(lib);
    let inside = |path: &[String]| path.first().is_some_and(|first| first == layer);
    let modules: Vec<(Vec<String>, &str)> = sources
        .iter()
        .map(|(file, text)| (module_of(file), text.as_str()))
        .filter(|(module, _)| inside(module))
        .collect();
    let name = |path: &[String]| match path.get(1) {
        Some(second) if modules.iter().any(|(module, _)| module.get(1) == Some(second)) => second.clone(),
        _ => layer.to_owned(),
    };
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, text) in &modules {
        let from = name(module);
        for mut path in paths(module, text) {
            if let Some(origin) = re_exports.get(&path[0]) {
                path.insert(0, origin.clone());
            }
            if inside(&path) && name(&path) != from {
                edges.entry(from.clone()).or_default().insert(name(&path));
            }
        }
    }
    edges
}

/// A dependency cycle among the files of a layer, if any: `a → b → a`.
fn circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    fn visit(
        at: &str,
        edges: &BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<String> {
        if let Some(start) = way.iter().position(|step| step == at) {
            return Some(format!("{} → {at}", way[start..].join(" → ")));
        }
        if done.contains(at) {
            return None;
        }
        way.push(at.to_owned());
        let found = edges.get(at).into_iter().flatten().find_map(|to| visit(to, edges, way, done));
        way.pop();
        done.insert(at.to_owned());
        found
    }
    let mut done = BTreeSet::new();
    edges.keys().find_map(|from| visit(from, edges, &mut Vec::new(), &mut done))
}

/// The files in which `lib.rs` allows `unsafe`, parsed from its one sentence about that.
fn unsafe_files(lib: &str) -> Vec<String> {
    let lines = lib.lines().skip_while(|line| !line.contains("`unsafe` is allowed in"));
    let sentence: Vec<&str> = lines.take_while(|line| line.len() > "//!".len()).collect();
    assert!(!sentence.is_empty(), "the sentence in lib.rs");
    let sentence = sentence.join(" ");
    let quoted = sentence.split('`').skip(3).step_by(2);
    quoted
        .flat_map(|path| match path.split_once('{') {
            Some((head, rest)) => {
                let (names, tail) = rest.split_once('}').expect("a closing brace");
                names.split(',').map(|name| format!("{head}{name}{tail}")).collect()
            }
            None => vec![path.to_owned()],
        })
        .collect()
}

/// Files that contain `unsafe` and are not covered by `allowed` (files or folders).
fn forbidden_unsafe(sources: &[Source], allowed: &[String]) -> Vec<String> {
    let is_allowed =
        |file: &str| allowed.iter().any(|a| a == file || a.ends_with('/') && file.starts_with(a.as_str()));
    let has_unsafe = |text: &str| tokens(text).iter().any(|token| token == "unsafe");
    sources.iter().filter(|(file, text)| has_unsafe(text) && !is_allowed(file)).map(|(f, _)| f.clone()).collect()
}

// ---- this project ---------------------------------------------------------------------------------

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    fn visit(folder: &Path, src: &Path, sources: &mut Vec<Source>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, src, sources);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(src).unwrap().to_str().unwrap().to_owned();
                sources.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut sources = Vec::new();
    visit(&root().join("src"), &root().join("src"), &mut sources);
    assert!(sources.len() > 10, "only {} source files", sources.len());
    sources
}

#[test]
fn no_layer_uses_one_above_it() {
    let wrong = forbidden_edges(&sources());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn no_layer_goes_in_circles() {
    let sources = sources();
    for layer in WITHOUT_CIRCLES {
        let edges = edges_inside(layer, &sources);
        assert!(edges.len() > 1, "{layer}: {edges:?}");
        assert_eq!(circle(&edges), None, "{layer}");
    }
}

#[test]
fn unsafe_is_only_where_lib_rs_says() {
    let sources = sources();
    let lib = &sources.iter().find(|(file, _)| file == "lib.rs").unwrap().1;
    let allowed = unsafe_files(lib);
    assert!(allowed.contains(&"ffi/".to_owned()) && allowed.len() > 3, "{allowed:?}");
    assert_eq!(forbidden_unsafe(&sources, &allowed), [""; 0]);
}

/// All code that calls the CUDA driver, or handles a missing one, is in one folder.
#[test]
fn only_cuda_calls_the_driver() {
    let wrong = |(file, text): &&Source| !file.starts_with("cuda/") && tokens(text).iter().any(|t| t == "CUresult");
    let sources = sources();
    assert_eq!(sources.iter().filter(wrong).map(|(file, _)| file).collect::<Vec<_>>(), [""; 0]);
    assert!(sources.iter().any(|(file, text)| file.starts_with("cuda/") && text.contains("CUresult")));
}

/// Kernels include only files of their own folder, `common/` and `stage/`: `build.rs` recompiles a
/// kernel only if files of these folders have changed.
#[test]
fn kernels_include_what_all_can_use() {
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

/// The public API is what `lib.rs` re-exports; only `format`, with the text of the format, is shown.
#[test]
fn modules_are_no_interface() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let lines: Vec<&str> = lib.lines().collect();
    let shown: Vec<&str> = (1..lines.len())
        .filter(|&i| lines[i].starts_with("pub mod ") && lines[i - 1] != "#[doc(hidden)]")
        .map(|i| lines[i])
        .collect();
    assert_eq!(shown, ["pub mod format;"]);
}

/// A codec consists of a folder, a registry entry, a section of the specification, and goldens.
#[test]
fn every_codec_has_all_its_parts() {
    let spec = fs::read_to_string(root().join("src/format/SPEC.md")).unwrap();
    for entry in CODECS {
        let name = entry.name;
        assert!(root().join("src/codec").join(name).join("mod.rs").exists(), "no folder for codec {name}");
        let is_heading = |line: &str| line.starts_with('#') && line.contains(name);
        assert!(spec.lines().any(is_heading), "SPEC.md has no heading for codec {name}");
        let goldens = fs::read_dir(root().join("tests/golden/v5").join(name));
        assert!(goldens.is_ok_and(|mut files| files.next().is_some()), "no goldens of codec {name}");
    }
    for (file, _) in sources() {
        if let Some((folder, _)) = file.strip_prefix("codec/").and_then(|rest| rest.split_once('/')) {
            assert!(CODECS.iter().any(|entry| entry.name == folder), "codec folder {folder} has no entry");
        }
    }
}

// ---- the checker itself ---------------------------------------------------------------------------

/// A small crate with `text` as `file`.
fn with(file: &str, text: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = [
        "engine.rs",
        "error.rs",
        "types.rs",
        "cpu/mod.rs",
        "cuda/mod.rs",
        "hdf5/mod.rs",
        "codec/mod.rs",
        "codec/registry.rs",
        "codec/request.rs",
        "codec/one/mod.rs",
        "codec/one/scalar.rs",
        "codec/two/mod.rs",
        "ffi/mod.rs",
        "format/mod.rs",
    ]
    .map(|file| (file.to_owned(), String::new()))
    .into();
    sources.push(("lib.rs".into(), "pub use engine::{Context, compress};\npub const VERSION: u8 = 1;".into()));
    sources.retain(|(name, _)| name != file);
    sources.push((file.into(), text.into()));
    sources
}

#[test]
fn the_checker_sees_forbidden_edges() {
    for (file, text) in [
        ("codec/one/mod.rs", "use crate::hdf5::x;"),
        ("codec/one/mod.rs", "use crate::codec::two::Two;"),
        ("codec/one/mod.rs", "use crate::codec::registry;"),
        ("codec/one/mod.rs", "use crate::{types::A, engine::{self}};"),
        ("codec/one/mod.rs", "fn f() { g(crate::engine::compress()) }"),
        ("codec/one/mod.rs", "use super::super::engine::X;"),
        ("codec/one/mod.rs", "mod tests { use super::super::two::X; }"),
        ("codec/one/mod.rs", "use crate::Context;"),
        ("codec/one/mod.rs", "use crate::*;"),
        ("codec/one/scalar.rs", "use crate::cpu::pool::Pool;"),
        ("codec/one/scalar.rs", "const A: char = '\\''; /* /* */ */ use crate::cpu as c;"),
        ("cuda/mod.rs", "use crate::codec::one;"),
        ("cuda/mod.rs", "use crate::cpu::X;"),
        ("codec/one/scalar.rs", "use crate::cuda::Device;"),
        ("hdf5/mod.rs", "use crate::cuda::Device;"),
        ("engine.rs", "use crate::codec::one::One;"),
        ("hdf5/mod.rs", "use crate::codec::registry::CODECS;"),
        ("codec/one/mod.rs", "use crate::codec::request::Request;"),
        ("error.rs", "use super::types::A;"),
        ("format/mod.rs", "use crate::{\n    error::A as B,\n    cpu,\n};"),
        ("novel.rs", ""),
    ] {
        assert_eq!(forbidden_edges(&with(file, text)).len(), 1, "{file}: {text}");
    }
}

#[test]
fn the_checker_allows_the_rest() {
    for (file, text) in [
        ("codec/one/mod.rs", "use crate::codec::{Codec, Job}; use crate::codec::one::scalar; use crate::cpu::X;"),
        ("codec/one/mod.rs", "use self::scalar::x; use super::Codec; mod tests { use super::*; }"),
        ("codec/one/mod.rs", "// use crate::hdf5::x;\n/* crate::ffi::y */ const S: &str = \"crate::ffi::z\";"),
        (
            "codec/one/mod.rs",
            "const S: &str = r#\"\" crate::ffi::z\"#; const C: char = '\"'; fn f<'a>(x: &'a u8) {}",
        ),
        ("codec/one/mod.rs", "pub(crate) fn f() { crate::VERSION; }"),
        ("codec/one/scalar.rs", "use super::{scalar, X}; use crate::format::A;"),
        ("codec/one/cuda.rs", "use crate::cuda::{Device, Stream}; crate::kernel_struct! { }"),
        ("codec/registry.rs", "use crate::codec::{Codec, one, two::Two};"),
        ("codec/request.rs", "use crate::codec::{mode::Mode, registry};"),
        ("ffi/mod.rs", "use crate::{Context, compress, codec::registry, hdf5::register};"),
    ] {
        assert_eq!(forbidden_edges(&with(file, text)), [""; 0], "{file}: {text}");
    }
}

#[test]
fn the_checker_sees_circles() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let lib = file("lib.rs", "pub use gridz::Context;");
    let face = file("engine.rs", "mod a; mod b; pub use crate::engine::a::Context;");
    let circle_of = |a: &str, b: &str| {
        let sources = [lib.clone(), face.clone(), file("engine/a.rs", a), file("engine/b.rs", b)];
        circle(&edges_inside("engine", &sources))
    };
    assert_eq!(circle_of("use crate::engine::b::X;", "use crate::types::Y;"), None);
    assert_eq!(circle_of("use crate::engine::b::X;", "use super::a::Y;").as_deref(), Some("a → b → a"));
    for face in ["use crate::engine::Context;", "use super::Context;", "use crate::Context;"] {
        assert_eq!(circle_of(face, "").as_deref(), Some("a → engine → a"), "{face}");
    }
}

#[test]
fn the_checker_sees_unsafe() {
    let lib = "//! `unsafe` is allowed in `hdf5/{dl,buf}.rs` and `ffi/`, nowhere else.";
    let allowed = unsafe_files(lib);
    assert_eq!(allowed, ["hdf5/dl.rs", "hdf5/buf.rs", "ffi/"]);
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let sources = [
        file("cpu/mod.rs", "fn f() { unsafe { g() } }"),
        file("hdf5/mod.rs", "unsafe fn f() {}"),
        file("hdf5/dl.rs", "unsafe fn f() {}"),
        file("ffi/api.rs", "unsafe fn f() {}"),
        file("engine.rs", "#![deny(unsafe_code)] // unsafe\nconst S: &str = \"unsafe\";"),
    ];
    assert_eq!(forbidden_unsafe(&sources, &allowed), ["cpu/mod.rs", "hdf5/mod.rs"]);
}
