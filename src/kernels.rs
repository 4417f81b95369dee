//! The embedded CUDA kernels: one fatbin per `kernels/<folder>/<name>.cu`.

use gridz_codecs::error::{Error, Result};
#[allow(unused_imports, reason = "used where the build embeds kernels")]
use gridz_cuda::Aligned;
use gridz_cuda::Fatbin;

// `static FATBINS: &[Fatbin]`, written by build.rs; empty without nvcc.
include!(concat!(env!("OUT_DIR"), "/fatbins.rs"));

/// The kernels of the source file `name`.
///
/// # Errors
/// `Device` if this library was built without them.
pub fn find(name: &str) -> Result<&'static Fatbin> {
    FATBINS.iter().find(|fatbin| fatbin.name() == name).ok_or_else(|| {
        Error::device(match FATBINS {
            [] => "this gridz was built without CUDA kernels; build it with nvcc (make cuda)".to_owned(),
            _ => format!("this gridz has no CUDA kernels of {name}"),
        })
    })
}
