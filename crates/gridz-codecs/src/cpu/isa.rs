//! Which instructions the CPU has.
//!
//! An [`Isa`] is made only after the CPU was checked, so code that has one may use its
//! instructions.

use crate::error::{Error, Result};
use crate::settings::CpuLevel;

/// Instructions that this CPU has. A larger level includes the smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(CpuLevel);

impl Isa {
    /// The level that every CPU has.
    pub const PORTABLE: Self = Self(CpuLevel::Scalar);

    /// The levels of this CPU, the best one last.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512].into_iter().filter(|&level| is_here(level)).map(Self)
    }

    /// The best level of this CPU.
    pub fn best() -> Self {
        Self::all().next_back().unwrap_or(Self::PORTABLE)
    }

    /// The level `wanted`, or the best one.
    ///
    /// # Errors
    /// `InvalidArgument` if the CPU does not have it.
    pub fn choose(wanted: Option<CpuLevel>) -> Result<Self> {
        match wanted {
            None => Ok(Self::best()),
            Some(level) if is_here(level) => Ok(Self(level)),
            Some(level) => {
                let (name, best) = (level.name(), Self::best().kind().name());
                let text =
                    format!("GRIDZ_CPU_LEVEL={name} is not available on this CPU; its highest level is {best}");
                Err(Error::invalid(text))
            }
        }
    }

    /// Which level it is.
    pub fn kind(self) -> CpuLevel {
        self.0
    }
}

/// The only list of the levels' instructions: `features!(avx2 => then! { … })` expands to
/// `then! { ["avx2" …] … }`.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! features {
    (avx2 => $then:ident! { $($rest:tt)* }) => {
        $then! { ["avx2" "bmi1" "bmi2" "lzcnt" "pclmulqdq" "popcnt"] $($rest)* }
    };
    // Ice Lake, Zen 4 and newer. Older CPUs with AVX-512 lack the last five and take AVX2.
    (avx512 => $then:ident! { $($rest:tt)* }) => {
        $then! {
            ["avx2" "bmi1" "bmi2" "lzcnt" "pclmulqdq" "popcnt" "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"
             "avx512vbmi" "avx512vbmi2" "avx512bitalg" "avx512vpopcntdq" "gfni"]
            $($rest)*
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub use crate::features;

/// A computation that compilers vectorize: it is compiled with the instructions of each level, and
/// uses none explicitly. (For rows of words there is
/// [`WithSimd`](crate::stage::rows::WithSimd).)
pub trait Kernel {
    /// The result.
    type Output;
    /// Runs the computation. It must be `#[inline(always)]`, with everything that should use the
    /// level's instructions.
    fn run(self) -> Self::Output;
    /// [`Self::run`] for portable code on x86-64, which only CPUs before 2013 and tests use: small
    /// code is better than fast code there.
    #[inline(always)]
    fn run_small(self) -> Self::Output
    where
        Self: Sized,
    {
        self.run()
    }
}

/// Runs a kernel with the instructions of a level.
#[allow(unsafe_code)] // functions that need instructions
pub fn dispatch<K: Kernel>(level: Isa, kernel: K) -> K::Output {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is proof that the CPU has its instructions.
        CpuLevel::Avx2 => unsafe { with_avx2(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        CpuLevel::Avx512 => unsafe { with_avx512(kernel) },
        _ => portable(kernel),
    }
}

/// As [`dispatch`], but with AVX2 at most. From some code compilers make slower code for AVX-512,
/// with vectors of masks and gathers.
#[allow(unsafe_code)] // functions that need instructions
pub fn dispatch_up_to_avx2<K: Kernel>(level: Isa, kernel: K) -> K::Output {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is proof that the CPU has its instructions; those of AVX-512 include AVX2.
        CpuLevel::Avx2 | CpuLevel::Avx512 => unsafe { with_avx2(kernel) },
        _ => portable(kernel),
    }
}

/// Runs a kernel in a function that all dispatchers share.
#[inline(never)]
fn portable<K: Kernel>(kernel: K) -> K::Output {
    if cfg!(target_arch = "x86_64") { kernel.run_small() } else { kernel.run() }
}

#[cfg(target_arch = "x86_64")]
macro_rules! run {
    ([$($feature:tt)*] $name:ident) => {
        #[target_feature($(enable = $feature),*)]
        fn $name<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
    };
}
#[cfg(target_arch = "x86_64")]
features!(avx2 => run! { with_avx2 });
#[cfg(target_arch = "x86_64")]
features!(avx512 => run! { with_avx512 });

/// Whether the CPU has a level. The standard library checks it once and caches the answer without a
/// lock.
#[cfg(target_arch = "x86_64")]
fn is_here(level: CpuLevel) -> bool {
    macro_rules! has_all {
        ([$($feature:tt)*]) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
    }
    match level {
        CpuLevel::Scalar => true,
        CpuLevel::Avx2 => features!(avx2 => has_all! {}),
        CpuLevel::Avx512 => features!(avx512 => has_all! {}),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn is_here(level: CpuLevel) -> bool {
    level == CpuLevel::Scalar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_cpu() {
        let all: Vec<Isa> = Isa::all().collect();
        assert_eq!(all[0], Isa::PORTABLE);
        assert!(all.is_sorted());
        assert_eq!(Isa::choose(None).unwrap(), *all.last().unwrap());
        for wanted in [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512] {
            match Isa::choose(Some(wanted)) {
                Ok(level) => assert!(all.contains(&level) && level.kind() == wanted),
                Err(error) => {
                    assert!(!all.iter().any(|level| level.kind() == wanted));
                    assert!(
                        error.context().contains(&format!("GRIDZ_CPU_LEVEL={} is not available", wanted.name())),
                        "{error}"
                    );
                }
            }
        }
    }
}
