//! The shared library, which belongs to another package than these tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// `libgridz.so` of the present sources, in the profile of this test. Cargo builds it if it is
/// missing or old, together with this test, so that both use the same build of all dependencies.
pub fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let exe = std::env::current_exe().unwrap();
        let folder = exe.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM").to_owned();
        let profile = folder.file_name().and_then(|name| name.to_str()).expect("the name of a profile");
        let profile = if profile == "debug" { "dev" } else { profile };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--lib", "--test", "api", "--profile", profile])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .env("CARGO_TARGET_DIR", folder.parent().expect("the target folder"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "libgridz.so does not build");
        folder.join("libgridz.so")
    };
    BUILT.get_or_init(build).clone()
}
