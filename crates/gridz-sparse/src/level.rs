//! Code without vector instructions of its own, compiled for each level.
#![allow(unsafe_code, reason = "code for instructions that the CPU has been asked for")]

use gridz_codecs::cpu::level::Level;
#[cfg(target_arch = "x86_64")]
use gridz_codecs::settings::CpuLevel;

/// Work, whose function must be inlined.
pub trait Task {
    /// What comes of it.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

/// Does work with the instructions of a level, of which those of AVX2 are the most here: what compilers make of AVX-512, with vectors of
/// masks and gathers, is slower.
pub fn at_level<K: Task>(level: Level, task: K) -> K::Output {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: whoever has the level has asked the CPU.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { with_avx2(task) },
        _ => task.run(),
    }
}

macro_rules! level {
    ([$($feature:tt)*] $name:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature($(enable = $feature),*)]
        fn $name<K: Task>(task: K) -> K::Output {
            task.run()
        }
    };
}
#[cfg(target_arch = "x86_64")]
gridz_codecs::cpu::level::features!(avx2 => level! { with_avx2 });
