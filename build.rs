//! Link arguments of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // libhdf5 unloads its plugins in H5close while our worker threads may still be alive; code that
    // a live thread runs must stay mapped.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
