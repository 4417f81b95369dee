//! Entropy coding with vector instructions.

pub mod contexts;
pub mod lanes;
pub mod lanes_avx2;
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

/// Proof that the CPU has AVX2.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// `None` if the CPU lacks AVX2 or must not use it.
    pub fn at(level: Isa) -> Option<Self> {
        (level.kind() >= CpuLevel::Avx2).then_some(Self(()))
    }
}

/// Compiles functions with the instructions of a level.
macro_rules! with {
    (one [$($feature:tt)*] $function:item) => { #[target_feature($(enable = $feature),*)] $function };
    ($features:tt $($function:item)*) => { $(with! { one $features $function })* };
}
use with;
