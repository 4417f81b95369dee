//! The C API as C programs use it: the header, the symbols of the shared library, and programs that
//! the system's C compiler builds with AddressSanitizer and UndefinedBehaviorSanitizer.
//!
//! A machine without a C compiler or binutils fails these tests; it does not skip them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::library::library;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a command to completion, whatever its exit status.
fn run(command: &mut Command) -> Output {
    let name = command.get_program().to_string_lossy().into_owned();
    command.output().unwrap_or_else(|error| {
        panic!(
            "cannot run {name} ({error}); these tests need a C compiler and binutils: apt install gcc g++ binutils"
        )
    })
}

/// Runs a command that must succeed; returns its output.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed, {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

/// Compiles a C program against the shared library, with sanitizers.
fn compile(source: &str) -> PathBuf {
    let sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
    let program = compile_with(source, &sanitizers);
    let symbols = succeed(Command::new("nm").arg(&program));
    assert!(symbols.contains("__asan_init"), "{} was built without AddressSanitizer", program.display());
    program
}

/// Compiles a C program against the shared library.
fn compile_with(source: &str, options: &[&str]) -> PathBuf {
    let source = root().join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().unwrap());
    let library = library();
    // Programs look up the library by its soname, a file that cargo does not create.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lib");
    let link = folder.join("libgridz.so.0");
    fs::create_dir_all(&folder).unwrap();
    let own = folder.join(format!("of.{}.{:?}", std::process::id(), std::thread::current().id()));
    std::os::unix::fs::symlink(&library, &own).unwrap();
    fs::rename(own, link).unwrap();
    succeed(
        Command::new("cc")
            .args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g", "-pthread"])
            .args(options)
            .arg("-I")
            .arg(root().join("include"))
            .arg(&source)
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", folder.display()))
            .args(["-lm", "-o"])
            .arg(&program),
    );
    program
}

/// A command for a program without gridz variables in its environment.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GRIDZ_") {
            command.env_remove(name);
        }
    }
    command
}

#[test]
fn the_c_test_passes_under_sanitizers() {
    let program = compile("tests/c_abi/test_gridz.c");
    let printed = succeed(&mut clean(&program));
    assert!(printed.ends_with("all 27 tests of the C API passed\n"), "{printed}");

    let printed = succeed(clean(&program).arg("bad-env").env("GRIDZ_THREADS", "many"));
    assert_eq!(printed, "bad-env: ok\n");

    // Verify that the test can fail: the sanitizer must detect a read past a buffer.
    let output = run(clean(&program).arg("overflow"));
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && report.contains("heap-buffer-overflow"), "{report}");
}

#[test]
fn the_c_test_of_sparse_matrices_passes_under_sanitizers() {
    let printed = succeed(&mut clean(&compile("tests/c_abi/test_cci.c")));
    assert_eq!(printed, "all 5 tests of sparse matrices passed\n");
}

/// Children that are forked while other threads are in calls, and small calls without system calls.
#[test]
fn small_calls_survive_forks_and_need_no_system_calls() {
    let program = compile_with("tests/c_abi/test_fork.c", &["-std=c11"]);
    let n_forks = if std::env::var_os("GRIDZ_ALL_CASES").is_some() { 20_000 } else { 2_000 };
    for backend in ["auto", "cpu"] {
        let threads = [("GRIDZ_BACKEND", backend), ("GRIDZ_THREADS", "1")];
        let printed = succeed(clean(&program).args(["forks", &n_forks.to_string()]).envs(threads));
        let expected = format!("{n_forks} children: 0 crashed, 0 hung, 0 wrong; the threads made as many calls\n");
        assert_eq!(printed, expected, "{backend}");
        let printed = succeed(clean(&program).args(["calls", "1000"]).envs(threads));
        assert_eq!(printed, "small calls: 2000 asked the system for nothing but memory\n", "{backend}");
    }
    // Verify that the test can fail: the filter ends a process that opens a file.
    let output = run(clean(&program).arg("forbidden"));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(31), "{output:?}");
    println!("{}", succeed(clean(&program).arg("time")).trim_end());
}

#[test]
fn the_c_example_runs() {
    let printed = succeed(&mut clean(&compile("examples/c/compress_array.c")));
    assert!(printed.contains("codec lorenzo: 96 x 96 x 96 floats"), "{printed}");
    assert!(printed.ends_with("the same bit for bit\n"), "{printed}");
}

#[test]
fn each_header_is_c_and_cplusplus_by_itself() {
    for Header { name, .. } in headers() {
        let file = root().join(format!("include/{name}.h"));
        for (compiler, standard, language) in [("cc", "-std=c99", "c"), ("c++", "-std=c++11", "c++")] {
            let warnings = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
            succeed(Command::new(compiler).arg(standard).args(warnings).args(["-x", language]).arg(&file));
        }
    }
}

/// A header that cbindgen generates, from an entry of `headers.toml`.
#[derive(serde::Deserialize)]
struct Header {
    name: String,
    modules: Vec<String>,
    includes: Vec<String>,
    about: String,
}

impl Header {
    /// The path in the repository.
    fn path(&self) -> String {
        format!("include/{}.h", self.name)
    }

    /// The text that cbindgen generates now.
    fn generate(&self) -> String {
        let mut config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
        config.header = Some(self.about.clone());
        config.include_guard = Some(format!("{}_H", self.name.to_uppercase()));
        config.sys_includes = vec!["stddef.h".into(), "stdint.h".into()];
        config.includes = self.includes.clone();
        let module = |name: &String| root().join(format!("crates/gridz-capi/src/{name}.rs"));
        let builder = self.modules.iter().map(module).fold(cbindgen::Builder::new(), cbindgen::Builder::with_src);
        let mut text = Vec::new();
        builder.with_config(config).generate().unwrap().write(&mut text);
        String::from_utf8(text).unwrap()
    }
}

/// The headers that cbindgen generates.
fn headers() -> Vec<Header> {
    #[derive(serde::Deserialize)]
    struct File {
        header: Vec<Header>,
    }
    toml::from_str::<File>(&read("crates/gridz-capi/headers.toml")).unwrap().header
}

#[test]
fn headers_are_fresh() {
    for header in headers() {
        assert!(
            read(&header.path()) == header.generate(),
            "{} is out of date with crates/gridz-capi/src; regenerate it with\n\
             cargo test --test api -- --ignored bless_headers",
            header.path()
        );
    }
}

#[test]
#[ignore = "writes include/*.h; run it by name"]
fn bless_headers() {
    for header in headers() {
        fs::write(root().join(header.path()), header.generate()).unwrap();
    }
}

/// A newcomer can read the main header from top to bottom.
#[test]
fn the_main_header_is_short() {
    let n_functions = functions_of(&read("include/gridz.h")).len();
    assert!(n_functions <= 20, "gridz.h declares {n_functions} functions");
}

#[test]
fn the_header_has_the_version_of_the_package() {
    let header = read("include/gridz.h");
    let defined = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define GRIDZ_VERSION_{name} ")));
        line.unwrap_or_else(|| panic!("no GRIDZ_VERSION_{name}")).to_owned()
    };
    let version = ["MAJOR", "MINOR", "PATCH"].map(defined).join(".");
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(manifest["workspace"]["package"]["version"].as_str(), Some(version.as_str()));
}

/// The body of every C function is a single call of a guard, so no panic can reach C.
#[test]
fn no_c_function_lacks_its_guard() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates/gridz-capi/src")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for (start, _) in text.match_indices("extern \"C\" fn ") {
            let before = text[..start].trim_end();
            let function = &text[start + "extern \"C\" fn ".len()..];
            let name = &function[..function.find('(').unwrap()];
            assert!(before.ends_with("#[unsafe(no_mangle)]\npub unsafe"), "{name} in {}", path.display());
            let body = &function[function.find("{\n").unwrap() + 2..function.find("\n}\n").unwrap()];
            let code: Vec<&str> =
                body.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty()).collect();
            let code = code.join("\n");
            let call = code.strip_suffix(';').unwrap_or(&code);
            let guarded =
                ["guard(", "guard_or(", "guard_size(", "guard_text("].iter().any(|guard| call.starts_with(guard));
            assert!(guarded && closes_at_its_end(call), "{name} is not one call of a guard:\n{code}");
            found.insert(name.to_owned());
        }
    }
    assert_eq!(found, declared(), "functions in crates/gridz-capi/src and in the headers");
}

/// True if the first parenthesis of `call` is closed by its last character.
fn closes_at_its_end(call: &str) -> bool {
    let mut depth = 0;
    for (i, c) in call.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return i + 1 == call.len();
        }
    }
    false
}

/// Raw pointers are dereferenced in one file only.
#[test]
fn only_ptr_follows_pointers() {
    for entry in fs::read_dir(root().join("crates/gridz-capi/src")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let follows =
            ["from_raw", "from_ptr", "as_ref()", "as_mut()", "read_unaligned", "write_unaligned", "unsafe { *"];
        let found: Vec<_> = follows.iter().filter(|follow| text.contains(**follow)).collect();
        let is_ptr = path.file_name().unwrap() == "ptr.rs";
        assert_eq!(is_ptr, !found.is_empty(), "{}: {found:?}", path.display());
    }
}

/// The functions that the headers declare.
fn declared() -> BTreeSet<String> {
    headers().iter().flat_map(|header| functions_of(&read(&header.path()))).collect()
}

/// The functions that a header declares.
fn functions_of(header: &str) -> BTreeSet<String> {
    let code: String = header.split("extern \"C\" {").nth(1).unwrap().lines().map(code_of).collect();
    let names = code.split(';').filter_map(|declaration| {
        let name = declaration.split('(').next()?.rsplit([' ', '*']).next()?;
        name.starts_with("gridz_").then(|| name.to_owned())
    });
    names.collect()
}

/// A line of the header without comments and preprocessor lines.
fn code_of(line: &str) -> &str {
    if line.starts_with('#') { "" } else { line.split("//").next().unwrap() }
}

#[test]
fn the_library_exports_only_its_api() {
    let library = library();
    let listed = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let symbols: BTreeSet<String> =
        listed.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
    let (api, other): (BTreeSet<_>, BTreeSet<_>) =
        symbols.into_iter().partition(|symbol| symbol.starts_with("gridz_"));
    assert_eq!(api, declared(), "{} against the headers", library.display());
    let foreign: Vec<_> = other.iter().filter(|symbol| !symbol.starts_with("H5PL")).collect();
    assert!(foreign.is_empty(), "{} exports {foreign:?}", library.display());
}

#[test]
fn the_library_needs_only_the_c_library() {
    let library = library();
    let listed = succeed(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&library));
    let needed: Vec<&str> = listed
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .map(|line| line.split(['[', ']']).nth(1).unwrap())
        .collect();
    assert!(needed.iter().any(|name| name.starts_with("libc.so")), "{listed}");
    let allowed = ["libc.so", "libgcc_s.so", "libm.so", "ld-linux"];
    let foreign: Vec<_> =
        needed.iter().filter(|name| !allowed.iter().any(|allowed| name.starts_with(allowed))).collect();
    assert!(foreign.is_empty(), "{} needs {foreign:?}", library.display());
}
