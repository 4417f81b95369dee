//! Link arguments of the shared library.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // libhdf5 unloads its plugins in H5close while our worker threads may still be alive. Code that
    // a live thread runs must stay mapped.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // Programs ask for this name at run time. The number grows with every release that breaks
        // programs linked against the previous one. cargo sets no soname.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgridz.so.0");
    }
}
