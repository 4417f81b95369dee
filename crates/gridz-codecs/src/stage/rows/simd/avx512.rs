//! AVX-512 with VBMI and VBMI2: a row is two or four registers.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{Token, byte_groups, each, quantize, rows};
use crate::stage::element::Element;
use crate::stage::quantize::{Coded, Uniform, any_codes, any_values};
use crate::stage::rows::{BYTE_GROUPS_ROOM, LANES, LENGTHS, Simd, WithSimd, first_lanes};
use crate::stage::word::Word;

/// Proof that the CPU has the instructions of the level.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Token for Avx512 {
    #[inline(always)]
    unsafe fn new() -> Self {
        Self(())
    }
}

/// Compresses words (`compress_*`), or expands them with zeros elsewhere (`expand_*`). The
/// instruction waits for the old value of its destination even if that is not used. So the
/// compiler's choice of a register could chain unrelated rows together. Here the destination is the
/// source.
macro_rules! in_place {
    ($visibility:vis $name:ident, $instruction:literal, $mask:ty, $vector:ty, $class:ident) => {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2")]
        $visibility fn $name(present: $mask, mut words: $vector) -> $vector {
            // SAFETY: the instruction changes nothing but the register.
            unsafe {
                asm!(
                    concat!($instruction, " {words}{{{present}}}{{z}}, {words}"),
                    words = inout($class) words,
                    present = in(kreg) present,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            words
        }
    };
}

in_place!(compress_32, "vpcompressd", __mmask16, __m512i, zmm_reg);
in_place!(compress_64, "vpcompressq", __mmask8, __m512i, zmm_reg);
in_place!(expand_32, "vpexpandd", __mmask16, __m512i, zmm_reg);
in_place!(expand_64, "vpexpandq", __mmask8, __m512i, zmm_reg);
in_place!(pub compress_8, "vpcompressb", __mmask32, __m256i, ymm_reg);
in_place!(pub expand_8, "vpexpandb", __mmask32, __m256i, ymm_reg);
in_place!(pub compress_wide_8, "vpcompressb", __mmask64, __m512i, zmm_reg);
in_place!(pub expand_wide_8, "vpexpandb", __mmask64, __m512i, zmm_reg);

/// The lowest byte of every word.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn narrow_32(row: [__m512i; 2]) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set_m128i(_mm512_cvtepi32_epi8(row[1]), _mm512_cvtepi32_epi8(row[0])) }
}

/// [`narrow_32`] for 64-bit words.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn narrow_64(row: [__m512i; 4]) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm_unpacklo_epi64(_mm512_cvtepi64_epi8(row[0]), _mm512_cvtepi64_epi8(row[1]));
        let high = _mm_unpacklo_epi64(_mm512_cvtepi64_epi8(row[2]), _mm512_cvtepi64_epi8(row[3]));
        _mm256_set_m128i(high, low)
    }
}

/// Zero-extends bytes to words.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn widen_32(bytes: __m256i) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let [low, high] = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
        [_mm512_cvtepu8_epi32(low), _mm512_cvtepu8_epi32(high)]
    }
}

/// [`widen_32`] for 64-bit words.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn widen_64(bytes: __m256i) -> [__m512i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let [low, high] = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
        [
            _mm512_cvtepu8_epi64(low),
            _mm512_cvtepu8_epi64(_mm_unpackhi_epi64(low, low)),
            _mm512_cvtepu8_epi64(high),
            _mm512_cvtepu8_epi64(_mm_unpackhi_epi64(high, high)),
        ]
    }
}

/// The lowest bytes of 64 words, in any order. The bits above these bytes must be zero.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn low_bytes_32(words: [__m512i; 4]) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let (low, high) = (_mm512_packus_epi32(words[0], words[1]), _mm512_packus_epi32(words[2], words[3]));
        _mm512_packus_epi16(low, high)
    }
}

/// [`low_bytes_32`] for 64-bit words.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn low_bytes_64(words: [__m512i; 8]) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let mut halves = [words[0]; 4];
        for i in 0..4 {
            halves[i] = _mm512_or_si512(words[i], _mm512_slli_epi64::<32>(words[i + 4]));
        }
        low_bytes_32(halves)
    }
}

/// Values times a power, rounded to integers without −0, and a mask of those smaller than `limit`.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn rounded(values: __m512d, power: f64, limit: f64) -> (__m512d, __mmask8) {
    // SAFETY: the caller's promise.
    unsafe {
        let products = _mm512_mul_pd(values, _mm512_set1_pd(power));
        let rounded = _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(products);
        let are_small = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(_mm512_abs_pd(rounded), _mm512_set1_pd(limit));
        (_mm512_add_pd(rounded, _mm512_setzero_pd()), are_small)
    }
}

/// [`Simd::to_multiples`] for a register, and a mask of the floats that are multiples.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn multiples_32(floats: __m512i, power: f64, limit: f64) -> (__m512i, __mmask16) {
    // SAFETY: the caller's promise.
    unsafe {
        let [low, high] = [_mm512_castsi512_si256(floats), _mm512_extracti64x4_epi64::<1>(floats)];
        let low = _mm512_cvtps_pd(_mm256_castsi256_ps(low));
        let high = _mm512_cvtps_pd(_mm256_castsi256_ps(high));
        let ((low, low_mask), (high, high_mask)) = (rounded(low, power, limit), rounded(high, power, limit));
        let multiples = join(_mm512_cvtpd_epi32(low), _mm512_cvtpd_epi32(high));
        let are_equal = _mm512_cmpeq_epi32_mask(floats, quotients_32(low, high, power));
        (multiples, are_equal & (u16::from(low_mask) | u16::from(high_mask) << 8))
    }
}

/// [`multiples_32`] for 64-bit words.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn multiples_64(floats: __m512i, power: f64, limit: f64) -> (__m512i, __mmask8) {
    // SAFETY: the caller's promise.
    unsafe {
        let (values, are_small) = rounded(_mm512_castsi512_pd(floats), power, limit);
        let quotients = _mm512_castpd_si512(_mm512_div_pd(values, _mm512_set1_pd(power)));
        (_mm512_cvtpd_epi64(values), are_small & _mm512_cmpeq_epi64_mask(floats, quotients))
    }
}

/// [`Simd::quotients`] for a register.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn floats_32(multiples: __m512i, power: f64) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let [low, high] = [_mm512_castsi512_si256(multiples), _mm512_extracti64x4_epi64::<1>(multiples)];
        quotients_32(_mm512_cvtepi32_pd(low), _mm512_cvtepi32_pd(high), power)
    }
}

/// [`floats_32`] for 64-bit words.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn floats_64(multiples: __m512i, power: f64) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_castpd_si512(_mm512_div_pd(_mm512_cvtepi64_pd(multiples), _mm512_set1_pd(power))) }
}

/// Quotients, rounded to 32-bit floats.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn quotients_32(low: __m512d, high: __m512d, power: f64) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let power = _mm512_set1_pd(power);
        let [low, high] = [_mm512_cvtpd_ps(_mm512_div_pd(low, power)), _mm512_cvtpd_ps(_mm512_div_pd(high, power))];
        join(_mm256_castps_si256(low), _mm256_castps_si256(high))
    }
}

/// Joins two halves to a register.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn join(low: __m256i, high: __m256i) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high) }
}

/// [`Simd::counts_larger`]. Each length becomes a byte: bit k is set if the length is larger than
/// `limit` + k. Eight such bytes are transposed, so that byte k has bit k of all eight. The ones in
/// it are counted.
///
/// # Safety
/// The CPU must have AVX-512 with VBMI, BITALG and GFNI.
#[inline(always)]
unsafe fn counts_larger(bytes: &[u8; LENGTHS], limit: u8) -> [u64; 8] {
    // SAFETY: the caller's promise; a register has 64 bytes.
    unsafe {
        // As many low bits as the length exceeds `limit` by, at most eight.
        let marks =
            _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 3, 7, 15, 31, 63, 127, -1, -1, -1, -1, -1, -1, -1, -1));
        let fifteen = _mm512_set1_epi8(15);
        let mut counts = _mm512_setzero_si512();
        for bytes in bytes.as_chunks::<64>().0 {
            let above = _mm512_subs_epu8(_mm512_loadu_si512(bytes.as_ptr().cast()), _mm512_set1_epi8(limit as i8));
            let marks = _mm512_shuffle_epi8(marks, _mm512_min_epu8(above, fifteen));
            // The product of a matrix with the unit vectors is its columns. The matrix's first row
            // is the last byte.
            let columns = _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(0x0102_0408_1020_4080), marks);
            counts = _mm512_add_epi8(counts, _mm512_popcnt_epi8(columns));
        }
        // Gathers byte k of all eight words in word k.
        let words = _mm512_permutexvar_epi8(_mm512_loadu_si512(COLUMNS.as_ptr().cast()), counts);
        let sums = _mm512_sad_epu8(words, _mm512_setzero_si512());
        let mut result = [0; 8];
        _mm512_storeu_si512(result.as_mut_ptr().cast(), sums);
        result
    }
}

/// The transpose of 8×8 bytes whose rows are in reverse order.
const COLUMNS: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 8 * 8 + 7 - i / 8) as u8;
        i += 1;
    }
    table
};

/// A one in every byte.
const BYTES: u64 = 0x0101_0101_0101_0101;

/// The operations for a type of word. A register has `$lanes` words, a row has `$n` registers.
macro_rules! level {
    (
        $word:ty, $n:literal, $lanes:literal, $mask:ty, $set1:ident, $add:ident, $sub:ident, $mul:ident, $sll:ident,
        $srl:ident, $sra:ident, $shrd:ident, $ror:ident, $ternary:ident, $total:ident, $min:ident, $max:ident,
        $lzcnt:ident, $cmpgt:ident, $keep:ident, $align:ident, $permute:ident, $store:ident, $compress:ident,
        $expand:ident, $bytes:literal, $narrow:ident, $widen:ident, $low_bytes:ident, $blend:ident, $least:ident,
        $most:ident, $any:ident, $multiples:ident, $floats:ident, $floating:ident, { $($narrow_elements:tt)* }
    ) => {
        impl Simd<$word> for Avx512 {
            type Row = [__m512i; $n];
            type Sum = __m512i;

            #[inline(always)]
            fn outlined<T: WithSimd<$word>>(self, task: T) -> T::Output {
                // SAFETY: the token is proof of the instructions, which include AVX2.
                unsafe { if T::UP_TO_AVX2 { super::with_avx2(task) } else { super::with_avx512(task) } }
            }
            #[inline(always)]
            fn outlined_for_all_words<T: WithSimd<u64>>(self, task: T) -> T::Output {
                // SAFETY: the token is proof of the instructions, which include AVX2.
                unsafe { if T::UP_TO_AVX2 { super::with_avx2(task) } else { super::with_avx512(task) } }
            }

            $($narrow_elements)*
            rows! { $word, __m512i, $n, $bytes, _mm512_loadu_si512, _mm512_storeu_si512 }
            each! { splat(word: $word) [__m512i; $n] = $set1(word as _) }
            each! { add(a, b) = $add(a, b) }
            each! { sub(a, b) = $sub(a, b) }
            each! { and(a, b) = _mm512_and_si512(a, b) }
            each! { or(a, b) = _mm512_or_si512(a, b) }
            each! { xor(a, b) = _mm512_xor_si512(a, b) }
            each! { min_signed(a, b) = $min(a, b) }
            each! { max_signed(a, b) = $max(a, b) }
            each! { mul_scalar(a; factor: $word) = $mul(a, $set1(factor as _)) }
            each! { mul(a, b) = $mul(a, b) }
            each! { shift_left(a; n: u32) = $sll(a, $set1(n as _)) }
            each! { shift_right(a; n: u32) = $srl(a, $set1(n as _)) }
            each! { shift_right_signed(a; n: u32) = $sra(a, $set1(n as _)) }
            each! { shift_left_each(a, n) = $sll(a, n) }
            each! { shift_right_each(a, n) = $srl(a, n) }
            each! { leading_zeros(a) = $lzcnt(a) }
            each! { quotients(a; power: f64) = $floats(a, power) }
            each! { shift_pair_right(low, high; n: u32) = $shrd(low, high, $set1(n as _)) }

            #[inline(always)]
            fn no_sum(self) -> Self::Sum {
                // SAFETY: the token is proof of the instructions.
                unsafe { _mm512_setzero_si512() }
            }
            #[inline(always)]
            fn add_leading_zeros(self, mut sum: Self::Sum, mask: u32, a: Self::Row) -> Self::Sum {
                for (i, a) in a.into_iter().enumerate() {
                    // SAFETY: the token is proof of the instructions.
                    sum = unsafe { $add(sum, $keep((mask >> (i * $lanes)) as $mask, $lzcnt(a))) };
                }
                sum
            }
            #[inline(always)]
            fn add_group_zeros(self, sum: Self::Sum, a: Self::Row) -> Self::Sum {
                // SAFETY: the token is proof of the instructions.
                unsafe {
                    let zeros = $narrow(Simd::<$word>::leading_zeros(self, a));
                    let least = _mm256_and_si256(byte_groups::least(zeros), _mm256_set1_epi64x(0xff));
                    $add(sum, _mm512_zextsi256_si512(least))
                }
            }
            #[inline(always)]
            fn total(self, sum: Self::Sum) -> u64 {
                // SAFETY: the token is proof of the instructions.
                unsafe { $total(sum) as u64 }
            }
            #[inline(always)]
            fn unzigzag(self, mut a: Self::Row) -> Self::Row {
                for a in &mut a {
                    // SAFETY: the token is proof of the instructions.
                    *a = unsafe {
                        // After the rotation the lowest bit is the top bit. If it is set, invert
                        // all other bits.
                        let turned = $ror::<1>(*a);
                        let sign = $sra(turned, $set1(<$word>::BITS as _));
                        $ternary::<{ 0xf0 ^ (0xcc & 0xaa) }>(turned, sign, $set1((<$word>::MAX >> 1) as _))
                    };
                }
                a
            }

            #[inline(always)]
            fn store_some_bytes(self, row: Self::Row, n: usize, to: &mut [u8]) {
                let to = &mut to[..n * $bytes];
                let mut lanes = first_lanes(n);
                let mut at = to.as_mut_ptr();
                for row in row {
                    // SAFETY: the token is proof of the instructions; only the first `n` words are
                    // written, and `to` has room for them. An address whose lanes are all masked
                    // out is not accessed.
                    unsafe { $store(at.cast(), lanes as $mask, row) };
                    at = at.wrapping_add(64);
                    lanes = lanes >> ($lanes - 1) >> 1;
                }
            }
            #[inline(always)]
            fn gt_mask(self, a: Self::Row, limit: $word) -> u32 {
                let mut mask = 0;
                for (i, a) in a.into_iter().enumerate() {
                    // SAFETY: the token is proof of the instructions.
                    mask |= u32::from(unsafe { $cmpgt(a, $set1(limit as _)) }) << (i * $lanes);
                }
                mask
            }
            #[inline(always)]
            fn reload_bytes(self, _: &[u8], is_next: bool, next: Self::Row, mut last: Self::Row) -> Self::Row {
                // A row at any address has registers that cross a cache line, so loading it takes
                // longer.
                let mask = (is_next as $mask).wrapping_neg();
                for i in 0..$n {
                    // SAFETY: the token is proof of the instructions.
                    last[i] = unsafe { $blend(mask, last[i], next[i]) };
                }
                last
            }
            #[inline(always)]
            fn select_or_zero(self, mask: u32, mut a: Self::Row) -> Self::Row {
                for (i, a) in a.iter_mut().enumerate() {
                    // SAFETY: the token is proof of the instructions.
                    *a = unsafe { $keep((mask >> (i * $lanes)) as $mask, *a) };
                }
                a
            }
            #[inline(always)]
            fn select(self, mask: u32, mut a: Self::Row, b: Self::Row) -> Self::Row {
                for i in 0..$n {
                    // SAFETY: the token is proof of the instructions.
                    a[i] = unsafe { $blend((mask >> (i * $lanes)) as $mask, b[i], a[i]) };
                }
                a
            }
            #[inline(always)]
            fn fill_forward(self, mask: u32, mut a: Self::Row, before: Self::Row) -> Self::Row {
                /// For every lane, the bits of all lanes up to it.
                const UP_TO: [$word; $lanes] = {
                    let mut table = [1; $lanes];
                    let mut i = 1;
                    while i < $lanes {
                        table[i] = 2 * table[i - 1] + 1;
                        i += 1;
                    }
                    table
                };
                // SAFETY: the token is proof of the instructions; the table is as long as a register.
                unsafe {
                    let up_to = _mm512_loadu_si512(UP_TO.as_ptr().cast());
                    let mut last = $permute($set1($lanes - 1), before[$n - 1]);
                    for (i, a) in a.iter_mut().enumerate() {
                        let present = $set1((!mask >> (i * $lanes)) as $mask as _);
                        let candidates = _mm512_and_si512(present, up_to);
                        let nearest = $sub($set1((<$word>::BITS - 1) as _), $lzcnt(candidates));
                        let is_there = $cmpgt(candidates, _mm512_setzero_si512());
                        *a = $blend(is_there, last, $permute(nearest, *a));
                        last = $permute($set1($lanes - 1), *a);
                    }
                }
                a
            }
            #[inline(always)]
            fn to_multiples(
                self,
                mask: u32,
                mut floats: Self::Row,
                power: f64,
                limit: f64,
            ) -> Option<Self::Row> {
                let mut others = 0;
                for (i, floats) in floats.iter_mut().enumerate() {
                    // SAFETY: the token is proof of the instructions.
                    let (multiples, are) = unsafe { $multiples(*floats, power, limit) };
                    *floats = multiples;
                    others |= u32::from(!are) << (i * $lanes);
                }
                if others & mask == 0 { Some(floats) } else { None }
            }
            #[inline(always)]
            fn lowest(self, a: Self::Row) -> $word {
                let mut lowest = a[0];
                for a in &a[1..] {
                    // SAFETY: the token is proof of the instructions.
                    lowest = unsafe { $min(lowest, *a) };
                }
                // SAFETY: as above.
                unsafe { $least(lowest) as $word }
            }
            #[inline(always)]
            fn highest(self, a: Self::Row) -> $word {
                let mut highest = a[0];
                for a in &a[1..] {
                    // SAFETY: the token is proof of the instructions.
                    highest = unsafe { $max(highest, *a) };
                }
                // SAFETY: as above.
                unsafe { $most(highest) as $word }
            }
            #[inline(always)]
            fn any(self, a: Self::Row) -> $word {
                let mut any = a[0];
                for a in &a[1..] {
                    // SAFETY: the token is proof of the instructions.
                    any = unsafe { _mm512_or_si512(any, *a) };
                }
                // SAFETY: as above.
                unsafe { $any(any) as $word }
            }
            #[inline(always)]
            fn shift_in(self, a: Self::Row, before: Self::Row) -> Self::Row {
                let mut row = a;
                for i in 0..$n {
                    let before = if i == 0 { before[$n - 1] } else { a[i - 1] };
                    // SAFETY: the token is proof of the instructions.
                    row[i] = unsafe { $align::<{ $lanes - 1 }>(a[i], before) };
                }
                row
            }
            #[inline(always)]
            fn prefix_sum(self, mut a: Self::Row) -> Self::Row {
                // SAFETY: the token is proof of the instructions.
                unsafe {
                    // Each step handles all registers, so that no register waits for its own last
                    // step.
                    let zero = _mm512_setzero_si512();
                    for a in &mut a {
                        *a = $add(*a, $align::<{ $lanes - 1 }>(*a, zero));
                    }
                    for a in &mut a {
                        *a = $add(*a, $align::<{ $lanes - 2 }>(*a, zero));
                    }
                    for a in &mut a {
                        *a = $add(*a, $align::<{ $lanes - 4 }>(*a, zero));
                    }
                    if $lanes > 8 {
                        for a in &mut a {
                            *a = $add(*a, $align::<{ $lanes - 8 }>(*a, zero));
                        }
                    }
                    let mut before = $permute($set1($lanes - 1), a[0]);
                    for i in 1..$n {
                        let last = $permute($set1($lanes - 1), a[i]);
                        a[i] = $add(a[i], before);
                        before = $add(before, last);
                    }
                }
                a
            }
            #[inline(always)]
            fn last(self, a: Self::Row) -> Self::Row {
                // SAFETY: the token is proof of the instructions.
                [unsafe { $permute($set1($lanes - 1), a[$n - 1]) }; $n]
            }
            #[inline(always)]
            fn compress(self, mask: u32, a: Self::Row, to: &mut [$word]) {
                let to = to[..LANES].as_mut_ptr();
                let mut n = 0;
                for (i, a) in a.into_iter().enumerate() {
                    let present = (mask >> (i * $lanes)) as $mask;
                    // SAFETY: the token is proof of the instructions; `n` is at most the number of
                    // words in the registers before this one, so the store ends within the 32
                    // words.
                    unsafe { _mm512_storeu_si512(to.add(n).cast(), $compress(present, a)) };
                    n += present.count_ones() as usize;
                }
            }
            #[inline(always)]
            fn expand(self, mask: u32, from: &[$word]) -> Self::Row {
                let from = from[..LANES].as_ptr();
                // SAFETY: the token is proof of the instructions; `n` is at most the number of
                // words in the registers before this one, so the load ends within the 32 words.
                unsafe {
                    let mut row = [_mm512_setzero_si512(); $n];
                    let mut n = 0;
                    for (i, row) in row.iter_mut().enumerate() {
                        let present = (mask >> (i * $lanes)) as $mask;
                        *row = $expand(present, _mm512_loadu_si512(from.add(n).cast()));
                        n += present.count_ones() as usize;
                    }
                    row
                }
            }
            #[inline(always)]
            fn unpack_bits(self, from: &[u8], width: u32) -> Self::Row {
                const LANE: [$word; $lanes] = {
                    let mut lane = [0; $lanes];
                    let mut i = 0;
                    while i < $lanes {
                        lane[i] = i as $word;
                        i += 1;
                    }
                    lane
                };
                let from = &from[..LANES * $bytes];
                assert!(width <= <$word>::BITS - 7, "a field and what is before it in its first byte fit a word");
                // SAFETY: the token is proof of the instructions. The fields for a register have at
                // most as many bytes as a register, so all loads end within the bytes of a row.
                unsafe {
                    let bits = $mul(_mm512_loadu_si512(LANE.as_ptr().cast()), $set1(width as _));
                    let first_bytes = $mul($srl(bits, $set1(3)), $set1(0x0101_0101_0101_0101_u64 as _));
                    let bytes = $add(first_bytes, $set1(0x0706_0504_0302_0100_u64 as _));
                    let shifts = _mm512_and_si512(bits, $set1(7));
                    let mask = $set1(<$word as Word>::low_mask(width) as _);
                    let mut row = [mask; $n];
                    for (i, row) in row.iter_mut().enumerate() {
                        let all = _mm512_loadu_si512(from.as_ptr().add(i * $lanes * width as usize / 8).cast());
                        let words = _mm512_permutexvar_epi8(bytes, all);
                        *row = _mm512_and_si512($srl(words, shifts), mask);
                    }
                    row
                }
            }
            #[inline(always)]
            fn lengths(self, numbers: &[$word], lengths: &mut [u8; LENGTHS]) -> u32 {
                let mut any = self.splat(0 as $word);
                let mut at = 0;
                while at < numbers.len() {
                    let first = self.load(&numbers[at..]);
                    let mut second = self.splat(0 as $word);
                    if numbers.len() - at > LANES {
                        second = self.load(&numbers[at + LANES..]);
                    }
                    let mut zeros = [first[0]; 2 * $n];
                    for i in 0..$n {
                        // SAFETY: the token is proof of the instructions.
                        unsafe {
                            any[i] = _mm512_or_si512(any[i], _mm512_or_si512(first[i], second[i]));
                            zeros[i] = $lzcnt(first[i]);
                            zeros[$n + i] = $lzcnt(second[i]);
                        }
                    }
                    let to = lengths[at..][..2 * LANES].as_mut_ptr();
                    // SAFETY: as above; a register has as many bytes as two rows have lanes.
                    unsafe {
                        let lengths = _mm512_sub_epi8(_mm512_set1_epi8(<$word>::BITS as i8), $low_bytes(zeros));
                        _mm512_storeu_si512(to.cast(), lengths);
                    }
                    at += 2 * LANES;
                }
                Simd::<$word>::any(self, any).bit_length()
            }
            #[inline(always)]
            fn counts_larger(self, bytes: &[u8; LENGTHS], limit: u8) -> [u64; 8] {
                // SAFETY: the token is proof of the instructions; a register has as many bytes as are loaded.
                unsafe { counts_larger(bytes, limit) }
            }
            #[inline(always)]
            fn compress_low_bytes(self, mask: u32, a: Self::Row, start: u32, to: &mut [u8]) {
                let bytes = Simd::<$word>::shift_right(self, a, start);
                let to = to[..LANES].as_mut_ptr();
                // SAFETY: the token is proof of the instructions; 32 bytes are written.
                unsafe { _mm256_storeu_si256(to.cast(), compress_8(mask, $narrow(bytes))) };
            }
            #[inline(always)]
            fn expand_low_bytes(self, mask: u32, from: &[u8]) -> Self::Row {
                let from = from[..LANES].as_ptr();
                // SAFETY: the token is proof of the instructions; 32 bytes are read.
                unsafe { $widen(expand_8(mask, _mm256_loadu_si256(from.cast()))) }
            }
            #[inline(always)]
            fn gt_mask_bytes(self, bytes: &[u8], limit: u8) -> u32 {
                let from = bytes[..LANES].as_ptr();
                // SAFETY: the token is proof of the instructions; 32 bytes are read.
                unsafe { _mm256_cmpgt_epu8_mask(_mm256_loadu_si256(from.cast()), _mm256_set1_epi8(limit as i8)) }
            }
            #[inline(always)]
            fn compress_bytes(self, mask: u32, bytes: &[u8], to: &mut [u8]) {
                let (from, to) = (bytes[..LANES].as_ptr(), to[..LANES].as_mut_ptr());
                // SAFETY: the token is proof of the instructions; 32 bytes are read and written.
                unsafe { _mm256_storeu_si256(to.cast(), compress_8(mask, _mm256_loadu_si256(from.cast()))) };
            }
            #[inline(always)]
            fn expand_bytes(self, mask: u32, from: &[u8], to: &mut [u8]) {
                let (from, to) = (from[..LANES].as_ptr(), to[..LANES].as_mut_ptr());
                // SAFETY: the token is proof of the instructions; 32 bytes are read and written.
                unsafe {
                    let bytes = expand_8(mask, _mm256_loadu_si256(from.cast()));
                    _mm256_storeu_si256(to.cast(), _mm256_or_si256(_mm256_loadu_si256(to.cast()), bytes));
                }
            }
            #[inline(always)]
            fn quantize(self, uniform: &Uniform<$word>, floats: Self::Row) -> Coded<Self::Row> {
                if uniform.float.is_narrow() {
                    return any_codes(self, uniform, floats);
                }
                let mut coded = Coded { codes: floats, are_coded: 0, are_within: 0 };
                for (i, code) in coded.codes.iter_mut().enumerate() {
                    // SAFETY: the token is proof of the instructions.
                    let (codes, are_coded, are_within) = unsafe { quantize::$floating::quantize(*code, uniform) };
                    *code = codes;
                    coded.are_coded |= u32::from(are_coded) << (i * $lanes);
                    coded.are_within |= u32::from(are_within) << (i * $lanes);
                }
                coded
            }
            #[inline(always)]
            fn dequantize(self, uniform: &Uniform<$word>, mut codes: Self::Row) -> Self::Row {
                if uniform.float.is_narrow() {
                    return any_values(self, uniform, codes);
                }
                for code in &mut codes {
                    // SAFETY: the token is proof of the instructions.
                    *code = unsafe { quantize::$floating::dequantize(*code, uniform) };
                }
                codes
            }
            #[inline(always)]
            fn group_lengths(self, numbers: &[$word], lengths: &mut [u8]) {
                for (k, out) in lengths.chunks_exact_mut(LANES / 8).enumerate() {
                    let mut zeros = Simd::<$word>::load(self, &numbers[k * LANES..]);
                    // SAFETY: the token is proof of the instructions.
                    unsafe {
                        for zeros in &mut zeros {
                            *zeros = $lzcnt(*zeros);
                        }
                        let least = byte_groups::least($narrow(zeros));
                        let four = _mm256_cvtepi64_epi8(least);
                        let lengths = _mm_sub_epi8(_mm_set1_epi8(<$word>::BITS as i8), four);
                        out.copy_from_slice(&_mm_cvtsi128_si32(lengths).to_le_bytes());
                    }
                }
            }
            #[inline(always)]
            fn look_up(self, table: &[u8; 128], bytes: &mut [u8]) {
                // SAFETY: the token is proof of the instructions; a register has 64 bytes.
                unsafe {
                    let low = _mm512_loadu_si512(table.as_ptr().cast());
                    let high = _mm512_loadu_si512(table.as_ptr().add(64).cast());
                    for bytes in bytes.as_chunks_mut::<64>().0 {
                        let found = _mm512_permutex2var_epi8(low, _mm512_loadu_si512(bytes.as_ptr().cast()), high);
                        _mm512_storeu_si512(bytes.as_mut_ptr().cast(), found);
                    }
                }
            }
            #[inline(always)]
            fn pack_byte_groups(self, row: Self::Row, widths: [u8; LANES / 8], out: &mut [u8]) {
                let out = out[..BYTE_GROUPS_ROOM].as_mut_ptr();
                // SAFETY: the token is proof of the instructions; each register's packed bytes are
                // at most 64.
                unsafe {
                    if byte_groups::are_up_to(widths, 8) {
                        return _mm256_storeu_si256(out.cast(), byte_groups::pack_one(widths, $narrow(row)));
                    }
                    let mut at = 0;
                    for (i, words) in row.into_iter().enumerate() {
                        let (bytes, n_bytes) = byte_groups::pack::<$bytes>(widths, i * $lanes / 8, words);
                        _mm512_storeu_si512(out.add(at).cast(), bytes);
                        at += n_bytes;
                    }
                }
            }
            #[inline(always)]
            fn unpack_byte_groups(self, widths: [u8; LANES / 8], from: &[u8]) -> Self::Row {
                let from = from[..BYTE_GROUPS_ROOM].as_ptr();
                // SAFETY: the token is proof of the instructions; each register's packed bytes are
                // at most 64.
                unsafe {
                    if byte_groups::are_up_to(widths, 8) {
                        return $widen(byte_groups::unpack_one(widths, _mm256_loadu_si256(from.cast())));
                    }
                    let mut row = [_mm512_setzero_si512(); $n];
                    let mut at = 0;
                    for (i, row) in row.iter_mut().enumerate() {
                        let bytes = _mm512_loadu_si512(from.add(at).cast());
                        let (words, n_bytes) = byte_groups::unpack::<$bytes>(widths, i * $lanes / 8, bytes);
                        *row = words;
                        at += n_bytes;
                    }
                    row
                }
            }
            #[inline(always)]
            fn prefetch(self, byte: *const u8) {
                // SAFETY: nothing is accessed.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(byte.cast()) };
            }
            #[inline(always)]
            fn pext(self, bytes: u64, n: u32) -> u64 {
                // SAFETY: the token is proof of the instructions.
                unsafe { _pext_u64(bytes, BYTES * ((1 << n) - 1)) }
            }
            #[inline(always)]
            fn pdep(self, bits: u64, n: u32) -> u64 {
                // SAFETY: the token is proof of the instructions.
                unsafe { _pdep_u64(bits, BYTES * ((1 << n) - 1)) }
            }
        }
    };
}

level!(
    u32,
    2,
    16,
    __mmask16,
    _mm512_set1_epi32,
    _mm512_add_epi32,
    _mm512_sub_epi32,
    _mm512_mullo_epi32,
    _mm512_sllv_epi32,
    _mm512_srlv_epi32,
    _mm512_srav_epi32,
    _mm512_shrdv_epi32,
    _mm512_ror_epi32,
    _mm512_ternarylogic_epi32,
    _mm512_reduce_add_epi32,
    _mm512_min_epi32,
    _mm512_max_epi32,
    _mm512_lzcnt_epi32,
    _mm512_cmpgt_epu32_mask,
    _mm512_maskz_mov_epi32,
    _mm512_alignr_epi32,
    _mm512_permutexvar_epi32,
    _mm512_mask_storeu_epi32,
    compress_32,
    expand_32,
    4,
    narrow_32,
    widen_32,
    low_bytes_32,
    _mm512_mask_blend_epi32,
    _mm512_reduce_min_epi32,
    _mm512_reduce_max_epi32,
    _mm512_reduce_or_epi32,
    multiples_32,
    floats_32,
    f32x16,
    {
        #[inline(always)]
        fn load_elements(self, element: Element, from: &[u8]) -> Self::Row {
            if element.bytes > 2 {
                return Simd::<u32>::load_bytes(self, from);
            }
            let from = from[..LANES * element.bytes].as_ptr();
            // SAFETY: the token is proof of the instructions; as many bytes are read as 32 elements have.
            unsafe {
                if element.bytes == 1 {
                    let bytes = _mm256_loadu_si256(from.cast());
                    if !element.is_signed() {
                        return widen_32(bytes);
                    }
                    let [low, high] = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
                    return [_mm512_cvtepi8_epi32(low), _mm512_cvtepi8_epi32(high)];
                }
                let [low, high] = [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())];
                if element.is_signed() {
                    [_mm512_cvtepi16_epi32(low), _mm512_cvtepi16_epi32(high)]
                } else {
                    [_mm512_cvtepu16_epi32(low), _mm512_cvtepu16_epi32(high)]
                }
            }
        }
        #[inline(always)]
        fn store_elements(self, row: Self::Row, element: Element, to: &mut [u8]) {
            if element.bytes > 2 {
                return Simd::<u32>::store_bytes(self, row, to);
            }
            let to = to[..LANES * element.bytes].as_mut_ptr();
            // SAFETY: the token is proof of the instructions; as many bytes are written as 32 elements have.
            unsafe {
                if element.bytes == 1 {
                    _mm256_storeu_si256(to.cast(), narrow_32(row));
                } else {
                    let [low, high] = [_mm512_cvtepi32_epi16(row[0]), _mm512_cvtepi32_epi16(row[1])];
                    _mm512_storeu_si512(to.cast(), join(low, high));
                }
            }
        }
    }
);
level!(
    u64,
    4,
    8,
    __mmask8,
    _mm512_set1_epi64,
    _mm512_add_epi64,
    _mm512_sub_epi64,
    _mm512_mullo_epi64,
    _mm512_sllv_epi64,
    _mm512_srlv_epi64,
    _mm512_srav_epi64,
    _mm512_shrdv_epi64,
    _mm512_ror_epi64,
    _mm512_ternarylogic_epi64,
    _mm512_reduce_add_epi64,
    _mm512_min_epi64,
    _mm512_max_epi64,
    _mm512_lzcnt_epi64,
    _mm512_cmpgt_epu64_mask,
    _mm512_maskz_mov_epi64,
    _mm512_alignr_epi64,
    _mm512_permutexvar_epi64,
    _mm512_mask_storeu_epi64,
    compress_64,
    expand_64,
    8,
    narrow_64,
    widen_64,
    low_bytes_64,
    _mm512_mask_blend_epi64,
    _mm512_reduce_min_epi64,
    _mm512_reduce_max_epi64,
    _mm512_reduce_or_epi64,
    multiples_64,
    floats_64,
    f64x8,
    {}
);
