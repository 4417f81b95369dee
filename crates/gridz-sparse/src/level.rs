//! Compiles code without explicit vector instructions for each level.
#![allow(unsafe_code, reason = "code for instructions that the CPU has been asked for")]

use gridz_codecs::cpu::isa::Isa;
#[cfg(target_arch = "x86_64")]
use gridz_codecs::settings::CpuLevel;

/// A computation whose `run` must be inlined.
pub trait SparseKernel {
    /// The result.
    type Output;
    fn run(self) -> Self::Output;
}

/// Runs a computation with the instructions of a level, but with AVX2 at most. Compilers turn this
/// code into slower code for AVX-512, with vectors of masks and gathers.
pub fn run_sparse_kernel<K: SparseKernel>(level: Isa, task: K) -> K::Output {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` exists only if the CPU has been checked for its instructions.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { with_avx2(task) },
        _ => task.run(),
    }
}

macro_rules! level {
    ([$($feature:tt)*] $name:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature($(enable = $feature),*)]
        fn $name<K: SparseKernel>(task: K) -> K::Output {
            task.run()
        }
    };
}
#[cfg(target_arch = "x86_64")]
gridz_codecs::cpu::isa::features!(avx2 => level! { with_avx2 });
