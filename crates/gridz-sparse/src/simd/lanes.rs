//! 16 elements at a time: one register of f32, two of f64.

use std::arch::x86_64::*;

/// Largest number of registers that 32 elements take.
pub const MOST: usize = 4;

/// Element types with vectors of 16, in one or two registers.
///
/// # Safety
/// All functions need AVX-512 (F, BW, DQ, VL) and must be inlined into code that is compiled for
/// it.
pub unsafe trait Lanes: Copy {
    /// A vector of 16 elements.
    type Vector: Copy;
    /// Zeros.
    unsafe fn zero() -> Self::Vector;
    /// 16 contiguous elements.
    unsafe fn load(from: *const Self) -> Self::Vector;
    /// The contiguous elements in `mask`, and zeros elsewhere.
    unsafe fn load_some(mask: u16, from: *const Self) -> Self::Vector;
    /// The elements at `from + at` in `mask`, and zeros elsewhere.
    unsafe fn gather(mask: u16, from: *const Self, at: __m512i) -> Self::Vector;
    /// Permutes a vector: lane i gets element `at[i]`.
    unsafe fn pick(of: Self::Vector, at: __m512i) -> Self::Vector;
    /// Broadcasts one value.
    unsafe fn same(value: Self) -> Self::Vector;
    /// 16 elements whose bits are `first` plus a number at `from`. Numbers have `width` bytes and
    /// are shifted left by `shift`.
    unsafe fn of_numbers(from: *const u8, width: u8, shift: u8, first: u64) -> Self::Vector;
    /// One register.
    type Register: Copy;
    /// Number of elements in a register.
    const GROUP: usize;
    /// Zeros.
    unsafe fn zeros() -> Self::Register;
    /// The elements in `side` of each node in `present`, starting at `from + columns[node]`, and
    /// zeros elsewhere. Each node takes four elements of the two registers, which determines the
    /// number of nodes.
    unsafe fn nodes(from: *const Self, columns: *const u32, present: u32, side: u8) -> [Self::Register; 2];
    /// Four elements of each node, starting at `from + columns[node]`, for as many nodes as two
    /// registers hold.
    unsafe fn whole_nodes(from: *const Self, columns: *const u32) -> [Self::Register; 2];
    /// Indices for [`Lanes::pick_of`]; only the first 8 are used if a register has 8 elements.
    unsafe fn numbers(numbers: &[u32; 16]) -> __m512i;
    /// Permutes two registers: lane i gets the element with the index `numbers[i]`.
    unsafe fn pick_of(of: [Self::Register; 2], numbers: __m512i) -> Self::Register;
    /// `sum + a × b` in `mask`, each rounded.
    unsafe fn add_group(mask: u16, sum: Self::Register, a: Self::Register, b: Self::Register) -> Self::Register;
    /// The registers of 32 elements; unused entries are unspecified.
    fn groups(vectors: [Self::Vector; 2]) -> [Self::Register; MOST];
    /// Stores a register as contiguous elements.
    unsafe fn store_group(to: *mut Self, group: Self::Register);
    /// `sum + a × b`, each rounded.
    unsafe fn add_product(sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `sum + a × b` in `mask`, each rounded, and `sum` elsewhere.
    unsafe fn add_some(mask: u16, sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Stores 16 contiguous elements.
    unsafe fn store(to: *mut Self, vector: Self::Vector);
}

// SAFETY: AVX-512 instructions only; the caller is responsible for pointers.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one intrinsic each, whose promises are the trait's")]
unsafe impl Lanes for f32 {
    type Vector = __m512;

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_some(mask: u16, from: *const f32) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }

    #[inline(always)]
    unsafe fn gather(mask: u16, from: *const f32, at: __m512i) -> __m512 {
        unsafe { _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), mask, at, from) }
    }

    #[inline(always)]
    unsafe fn pick(of: __m512, at: __m512i) -> __m512 {
        unsafe { _mm512_permutexvar_ps(at, of) }
    }

    #[inline(always)]
    unsafe fn add_product(sum: __m512, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(sum, _mm512_mul_ps(a, b)) }
    }

    #[inline(always)]
    unsafe fn add_some(mask: u16, sum: __m512, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mask_add_ps(sum, mask, sum, _mm512_mul_ps(a, b)) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, vector: __m512) {
        unsafe { _mm512_storeu_ps(to, vector) }
    }

    #[inline(always)]
    unsafe fn same(value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn of_numbers(from: *const u8, width: u8, shift: u8, first: u64) -> __m512 {
        unsafe {
            let low = _mm512_cvtepi64_epi32(bits_of_8(from, width, shift, first));
            let high = _mm512_cvtepi64_epi32(bits_of_8(from.add(8 * usize::from(width)), width, shift, first));
            _mm512_castsi512_ps(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high))
        }
    }

    type Register = __m512;
    const GROUP: usize = 16;

    #[inline(always)]
    unsafe fn zeros() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn nodes(from: *const f32, columns: *const u32, present: u32, side: u8) -> [__m512; 2] {
        unsafe {
            let mut registers = [_mm512_setzero_ps(); 2];
            for (i, register) in registers.iter_mut().enumerate() {
                let low = _mm512_castps128_ps512(node_f32(from, columns, present, side, 4 * i));
                let low = _mm512_insertf32x4::<1>(low, node_f32(from, columns, present, side, 4 * i + 1));
                let low = _mm512_insertf32x4::<2>(low, node_f32(from, columns, present, side, 4 * i + 2));
                *register = _mm512_insertf32x4::<3>(low, node_f32(from, columns, present, side, 4 * i + 3));
            }
            registers
        }
    }

    #[inline(always)]
    unsafe fn whole_nodes(from: *const f32, columns: *const u32) -> [__m512; 2] {
        unsafe {
            let mut registers = [_mm512_setzero_ps(); 2];
            for (i, register) in registers.iter_mut().enumerate() {
                let columns = columns.add(4 * i);
                let low = _mm512_castps128_ps512(_mm_loadu_ps(from.add(*columns as usize)));
                let low = _mm512_insertf32x4::<1>(low, _mm_loadu_ps(from.add(*columns.add(1) as usize)));
                let low = _mm512_insertf32x4::<2>(low, _mm_loadu_ps(from.add(*columns.add(2) as usize)));
                *register = _mm512_insertf32x4::<3>(low, _mm_loadu_ps(from.add(*columns.add(3) as usize)));
            }
            registers
        }
    }

    #[inline(always)]
    unsafe fn numbers(numbers: &[u32; 16]) -> __m512i {
        unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn pick_of(of: [__m512; 2], numbers: __m512i) -> __m512 {
        unsafe { _mm512_permutex2var_ps(of[0], numbers, of[1]) }
    }

    #[inline(always)]
    unsafe fn add_group(mask: u16, sum: __m512, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mask_add_ps(sum, mask, sum, _mm512_mul_ps(a, b)) }
    }

    #[inline(always)]
    fn groups([low, high]: [__m512; 2]) -> [__m512; MOST] {
        [low, high, low, high]
    }

    #[inline(always)]
    unsafe fn store_group(to: *mut f32, group: __m512) {
        unsafe { _mm512_storeu_ps(to, group) }
    }
}

/// Elements 0 to 7 of a vector, and 8 to 15.
type Pair = (__m512d, __m512d);

// SAFETY: as above.
#[allow(clippy::undocumented_unsafe_blocks, reason = "a few intrinsics each, whose promises are the trait's")]
unsafe impl Lanes for f64 {
    type Vector = Pair;

    #[inline(always)]
    unsafe fn zero() -> Pair {
        unsafe { (_mm512_setzero_pd(), _mm512_setzero_pd()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Pair {
        unsafe { (_mm512_loadu_pd(from), _mm512_loadu_pd(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn load_some(mask: u16, from: *const f64) -> Pair {
        let [low, high] = mask.to_le_bytes();
        unsafe { (_mm512_maskz_loadu_pd(low, from), _mm512_maskz_loadu_pd(high, from.wrapping_add(8))) }
    }

    #[inline(always)]
    unsafe fn gather(mask: u16, from: *const f64, at: __m512i) -> Pair {
        let [low, high] = mask.to_le_bytes();
        unsafe {
            let zero = _mm512_setzero_pd();
            let first = _mm512_mask_i32gather_pd::<8>(zero, low, _mm512_castsi512_si256(at), from);
            // Large blocks have few nodes, so the upper half is often empty.
            let second = match high {
                0 => zero,
                _ => _mm512_mask_i32gather_pd::<8>(zero, high, _mm512_extracti64x4_epi64::<1>(at), from),
            };
            (first, second)
        }
    }

    #[inline(always)]
    unsafe fn pick(of: Pair, at: __m512i) -> Pair {
        unsafe {
            let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(at));
            let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(at));
            (_mm512_permutex2var_pd(of.0, low, of.1), _mm512_permutex2var_pd(of.0, high, of.1))
        }
    }

    #[inline(always)]
    unsafe fn add_product(sum: Pair, a: Pair, b: Pair) -> Pair {
        unsafe { (_mm512_add_pd(sum.0, _mm512_mul_pd(a.0, b.0)), _mm512_add_pd(sum.1, _mm512_mul_pd(a.1, b.1))) }
    }

    #[inline(always)]
    unsafe fn add_some(mask: u16, sum: Pair, a: Pair, b: Pair) -> Pair {
        let [low, high] = mask.to_le_bytes();
        unsafe {
            (
                _mm512_mask_add_pd(sum.0, low, sum.0, _mm512_mul_pd(a.0, b.0)),
                _mm512_mask_add_pd(sum.1, high, sum.1, _mm512_mul_pd(a.1, b.1)),
            )
        }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f64, vector: Pair) {
        unsafe {
            _mm512_storeu_pd(to, vector.0);
            _mm512_storeu_pd(to.add(8), vector.1);
        }
    }

    #[inline(always)]
    unsafe fn same(value: f64) -> Pair {
        unsafe { (_mm512_set1_pd(value), _mm512_set1_pd(value)) }
    }

    #[inline(always)]
    unsafe fn of_numbers(from: *const u8, width: u8, shift: u8, first: u64) -> Pair {
        unsafe {
            let low = bits_of_8(from, width, shift, first);
            let high = bits_of_8(from.add(8 * usize::from(width)), width, shift, first);
            (_mm512_castsi512_pd(low), _mm512_castsi512_pd(high))
        }
    }

    type Register = __m512d;
    const GROUP: usize = 8;

    #[inline(always)]
    unsafe fn zeros() -> __m512d {
        unsafe { _mm512_setzero_pd() }
    }

    #[inline(always)]
    unsafe fn nodes(from: *const f64, columns: *const u32, present: u32, side: u8) -> [__m512d; 2] {
        unsafe {
            let mut registers = [_mm512_setzero_pd(); 2];
            for (i, register) in registers.iter_mut().enumerate() {
                let low = _mm512_castpd256_pd512(node_f64(from, columns, present, side, 2 * i));
                *register = _mm512_insertf64x4::<1>(low, node_f64(from, columns, present, side, 2 * i + 1));
            }
            registers
        }
    }

    #[inline(always)]
    unsafe fn whole_nodes(from: *const f64, columns: *const u32) -> [__m512d; 2] {
        unsafe {
            let mut registers = [_mm512_setzero_pd(); 2];
            for (i, register) in registers.iter_mut().enumerate() {
                let columns = columns.add(2 * i);
                let low = _mm512_castpd256_pd512(_mm256_loadu_pd(from.add(*columns as usize)));
                *register = _mm512_insertf64x4::<1>(low, _mm256_loadu_pd(from.add(*columns.add(1) as usize)));
            }
            registers
        }
    }

    #[inline(always)]
    unsafe fn numbers(numbers: &[u32; 16]) -> __m512i {
        unsafe { _mm512_cvtepu32_epi64(_mm256_loadu_si256(numbers.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn pick_of(of: [__m512d; 2], numbers: __m512i) -> __m512d {
        unsafe { _mm512_permutex2var_pd(of[0], numbers, of[1]) }
    }

    #[inline(always)]
    unsafe fn add_group(mask: u16, sum: __m512d, a: __m512d, b: __m512d) -> __m512d {
        unsafe { _mm512_mask_add_pd(sum, mask as u8, sum, _mm512_mul_pd(a, b)) }
    }

    #[inline(always)]
    fn groups([low, high]: [Pair; 2]) -> [__m512d; MOST] {
        [low.0, low.1, high.0, high.1]
    }

    #[inline(always)]
    unsafe fn store_group(to: *mut f64, group: __m512d) {
        unsafe { _mm512_storeu_pd(to, group) }
    }
}

// Functions instead of closures: closures would be compiled without AVX-512, and each intrinsic
// would become a call.

/// The elements of node `i` in `side`, if the node is in `present`, else zeros.
#[inline(always)]
unsafe fn node_f32(from: *const f32, columns: *const u32, present: u32, side: u8, i: usize) -> __m128 {
    let mask = if present >> i & 1 != 0 { side } else { 0 };
    // SAFETY: the promises of [`Lanes::nodes`].
    unsafe { _mm_maskz_loadu_ps(mask, from.wrapping_add(*columns.add(i) as usize)) }
}

/// The elements of node `i` in `side`, if the node is in `present`, else zeros.
#[inline(always)]
unsafe fn node_f64(from: *const f64, columns: *const u32, present: u32, side: u8, i: usize) -> __m256d {
    let mask = if present >> i & 1 != 0 { side } else { 0 };
    // SAFETY: as above.
    unsafe { _mm256_maskz_loadu_pd(mask, from.wrapping_add(*columns.add(i) as usize)) }
}

/// `first` plus 8 numbers of `width` bytes, shifted left, modulo 2^64.
#[inline(always)]
unsafe fn bits_of_8(from: *const u8, width: u8, shift: u8, first: u64) -> __m512i {
    // SAFETY: only the bytes of the 8 numbers are read.
    unsafe {
        let numbers = match width {
            0 => _mm512_setzero_si512(),
            1 => _mm512_cvtepu8_epi64(_mm_loadl_epi64(from.cast())),
            2 => _mm512_cvtepu16_epi64(_mm_loadu_si128(from.cast())),
            // Each group of three 4-byte words moves to a quarter of its own. Then each number
            // moves to its position there.
            3 => {
                let all = _mm256_maskz_loadu_epi32(0x3f, from.cast());
                let quarters = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5));
                let spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
                _mm512_cvtepu32_epi64(_mm256_shuffle_epi8(quarters, _mm256_broadcastsi128_si256(spread)))
            }
            4 => _mm512_cvtepu32_epi64(_mm256_loadu_si256(from.cast())),
            6 => {
                let all = _mm512_maskz_loadu_epi32(0xfff, from.cast());
                let places = _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
                let spread = _mm_setr_epi8(0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1);
                _mm512_shuffle_epi8(_mm512_permutexvar_epi32(places, all), _mm512_broadcast_i32x4(spread))
            }
            _ => _mm512_loadu_si512(from.cast()),
        };
        let moved = _mm512_sll_epi64(numbers, _mm_cvtsi32_si128(i32::from(shift)));
        _mm512_add_epi64(moved, _mm512_set1_epi64(first as i64))
    }
}
