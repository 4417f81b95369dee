// Conversion of a block's elements to integers and back.

#pragma once

#include "../common/types.cuh"
#include "../stage/words.cuh"

// Properties of floats with as many bits as a word.
template <typename W>
struct Floats {
    static constexpr u32 kFraction = Word<W>::kMantissa;
    static constexpr u32 kExponentBits = Word<W>::kBits - 1 - kFraction;
    static constexpr s32 kBias = (1 << (kExponentBits - 1)) - 1;
    static constexpr s32 kPlaneCountBits = sizeof(W) == 8 ? 6 : 5;
    // Blocks whose exponent is below this one are coded as zeros, unless the transform is
    // reversible.
    static constexpr s32 kTiny = static_cast<s32>(Word<W>::kBits) - 2 - kBias;
    static constexpr W kMagnitude = static_cast<W>(~kTopBit<W>);
    static constexpr W kInfinity = static_cast<W>(static_cast<W>(Word<W>::kMaxExponent) << kFraction);
};

// The exponent of a block whose largest magnitude has this word: e of f·2^e, with f from 1/2 to
// below 1. All subnormal numbers have the same exponent, and 0 one less.
template <typename W>
__device__ __forceinline__ s32 exponent_of(W magnitude) {
    return static_cast<s32>(magnitude >> Floats<W>::kFraction) - (Floats<W>::kBias - 1) - (magnitude == 0);
}

// The word of 2^p, for p up to the greatest exponent of the type; 0 below the least subnormal
// number.
template <typename W>
__device__ __forceinline__ W power_of_two(s32 p) {
    const s32 stored = p + Floats<W>::kBias;
    if (stored > 0) return static_cast<W>(stored) << Floats<W>::kFraction;
    const s32 place = stored + static_cast<s32>(Floats<W>::kFraction) - 1;
    return place < 0 ? 0 : static_cast<W>(1) << place;
}

// The exponent of the lowest bit plane that is kept: that of the bound's highest bit. `bits` are
// those of the bound, a double, which may be subnormal.
__device__ __forceinline__ s32 exponent_of_bound(u64 bits) {
    const s32 exponent = static_cast<s32>(bits >> 52) - 1023;
    return exponent > -1023 ? exponent : static_cast<s32>(bit_length(bits | 1)) - 1 - 1074;
}

// Scales a float, and truncates it toward zero to an integer, which must fit a word.
__device__ __forceinline__ u32 scaled_up(u32 word, u32 scale) { return static_cast<u32>(__float2int_rz(__fmul_rn(float_of(word), float_of(scale)))); }
__device__ __forceinline__ u64 scaled_up(u64 word, u64 scale) {
    return static_cast<u64>(__double2ll_rz(__dmul_rn(float_of(word), float_of(scale))));
}
// Rounds an integer to a float, and scales it, which may round again.
__device__ __forceinline__ u32 scaled_down(u32 i, u32 scale) { return bits_of(__fmul_rn(__int2float_rn(static_cast<s32>(i)), float_of(scale))); }
__device__ __forceinline__ u64 scaled_down(u64 i, u64 scale) {
    return bits_of(__dmul_rn(__ll2double_rn(static_cast<s64>(i)), float_of(scale)));
}

// Rounds a double, given by its bits, down to the type.
__device__ __forceinline__ u32 rounded_down(u64 bits, u32) { return bits_of(__double2float_rd(float_of(bits))); }
__device__ __forceinline__ u64 rounded_down(u64 bits, u64) { return bits; }

// Whether the magnitude of the rounded difference of two floats is below a bound.
__device__ __forceinline__ bool is_near(u32 x, u32 y, u32 bound) { return fabsf(__fsub_rn(float_of(x), float_of(y))) < float_of(bound); }
__device__ __forceinline__ bool is_near(u64 x, u64 y, u64 bound) { return fabs(__dsub_rn(float_of(x), float_of(y))) < float_of(bound); }
