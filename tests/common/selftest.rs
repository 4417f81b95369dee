//! The kernels of `kernels/common/selftest.cu`, which are not part of the library.

use std::sync::OnceLock;

use gridz_cuda::Fatbin;

include!(concat!(env!("OUT_DIR"), "/fatbin_for_tests.rs"));

/// The fatbin of the self-test. Panics if nothing was compiled for GPUs.
pub fn fatbin() -> &'static Fatbin {
    static FATBIN: OnceLock<Fatbin> = OnceLock::new();
    FATBIN.get_or_init(|| {
        let image = SELFTEST.expect("these tests were built without CUDA kernels");
        // The allocator's alignment is what the driver requires for images.
        Fatbin::new("selftest", image.to_vec().leak()).unwrap()
    })
}
