//! The kernels of `kernels/common/selftest.cu`, which the library does not hold.

use std::sync::OnceLock;

use gridz_cuda::Fatbin;

include!(concat!(env!("OUT_DIR"), "/fatbin_for_tests.rs"));

/// Panics where nothing was compiled for GPUs.
pub fn fatbin() -> &'static Fatbin {
    static FATBIN: OnceLock<Fatbin> = OnceLock::new();
    FATBIN.get_or_init(|| {
        let image = SELFTEST.expect("these tests were built without CUDA kernels");
        // The allocator aligns as the driver wants images to be.
        Fatbin::new("selftest", image.to_vec().leak()).unwrap()
    })
}
