//! Entropy coding with AVX-512.

pub mod lanes;
pub mod rans;

use crate::cpu::isa::Isa;
use crate::settings::CpuLevel;

/// Proof that the CPU has AVX-512.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// `None` if the CPU lacks AVX-512 or must not use it.
    pub fn at(level: Isa) -> Option<Self> {
        (level.kind() == CpuLevel::Avx512).then_some(Self(()))
    }
}

/// Compiles functions with AVX-512.
macro_rules! avx512 {
    (one [$($feature:tt)*] $function:item) => { #[target_feature($(enable = $feature),*)] $function };
    ($features:tt $($function:item)*) => { $(avx512! { one $features $function })* };
}
use avx512;
