// Floats as multiples of a power of two: the map FIXED, and back.

#pragma once

#include "words.cuh"

// The number of a float in the FIXED map.
template <typename W>
__device__ __forceinline__ W fixed_of_float(W word, u32 e) {
    constexpr u32 kMantissa = Word<W>::kMantissa;
    const u32 exponent = static_cast<u32>(word >> kMantissa) & Word<W>::kMaxExponent;
    const W f = (word & low_bits(W(), kMantissa)) | static_cast<W>(exponent > 0) << kMantissa;
    const s32 x = static_cast<s32>(max(exponent, 1u) - e);
    const W v = x >= 0 ? f << x : f >> -x;
    return word >> (Word<W>::kBits - 1) ? 0 - v : v;
}

// The inverse: the float that is `v` times a power of two. `e` is the block's exponent parameter.
// Sets `damaged` if the exponent is too large.
template <typename W>
__device__ __forceinline__ W float_of_fixed(W v, u32 e, bool& damaged) {
    constexpr u32 kMantissa = Word<W>::kMantissa;
    const W sign = v >> (Word<W>::kBits - 1), n = sign ? 0 - v : v;
    const u32 length = bit_length(n);
    const s32 x = static_cast<s32>(e + length) - static_cast<s32>(kMantissa + 1);
    if (n == 0) return 0;
    W bits;
    if (x >= 1) {
        damaged |= x >= static_cast<s32>(Word<W>::kMaxExponent);
        // The top bit moves to bit kMantissa and is masked out of the fraction.
        const W fraction = length > kMantissa + 1 ? n >> (length - kMantissa - 1) : n << (kMantissa + 1 - length);
        bits = (fraction & low_bits(W(), kMantissa)) | static_cast<W>(x) << kMantissa;
    } else {
        bits = n << (e - 1);
    }
    return bits | sign << (Word<W>::kBits - 1);
}
