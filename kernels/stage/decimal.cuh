// The map DECIMAL and its inverse: floats as multiples of a power of ten. Every step is rounded to
// nearest, ties to even, as on the CPU. Division by a power of ten that is exact in float64 gives
// the same float as parsing the decimal fraction.

#pragma once

#include "words.cuh"

constexpr u32 kMaxDecimals = 22;  // 10^22 is the largest power of ten that is exact in float64
__constant__ const double kPowersOfTen[kMaxDecimals + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// The float that is `v` times 10^−e; `power` is 10^e.
__device__ __forceinline__ u32 float_of_decimal(u32 v, double power) {
    return __float_as_uint(__double2float_rn(__ddiv_rn(__int2double_rn(static_cast<s32>(v)), power)));
}
__device__ __forceinline__ u64 float_of_decimal(u64 v, double power) {
    return static_cast<u64>(__double_as_longlong(__ddiv_rn(__ll2double_rn(static_cast<s64>(v)), power)));
}

// Limit of the multiples in samples. Beyond it, any float would be a decimal fraction.
template <typename W>
constexpr double kDecimalLimit = sizeof(W) == 4 ? 8388608.0 : 2251799813685248.0;

__device__ __forceinline__ double value_of_float(u32 word) { return static_cast<double>(__uint_as_float(word)); }
__device__ __forceinline__ double value_of_float(u64 word) { return __longlong_as_double(static_cast<s64>(word)); }

// Returns true if a float is a multiple of 1 / `power`; `v` is the multiple.
template <typename W>
__device__ __forceinline__ bool decimal_of_float(W word, double power, s64& v) {
    const double product = __dmul_rn(value_of_float(word), power), rounded = rint(product);
    // Maximum deviation of the product from an integer, relative to the product. For a multiple, it
    // is less than half of this: it stems from two roundings to float64, or one to float32, which
    // is not subnormal for e up to 22. Few other floats are that near, and only these need the
    // division. The result does not depend on this test.
    constexpr double kNear = sizeof(W) == 4 ? 1.0 / (1 << 23) : 1.0 / (1ll << 51);
    v = 0;
    if (!(fabs(rounded) < 4 * kDecimalLimit<W>) || fabs(__dsub_rn(product, rounded)) > __dmul_rn(fabs(product), kNear)) return false;
    v = static_cast<s64>(rounded);
    return float_of_decimal(static_cast<W>(v), power) == word;
}

// The least e, from 1 on, for which the floats of all lanes are multiples of 10^−e, or 0 if there
// is none. `most` becomes the largest e for which the multiples are below the limit.
template <typename W>
__device__ __forceinline__ u32 least_decimals(W word, u32& most) {
    const double largest = value_of_float(warp_max_unsigned(word & ~kTopBit<W>)), limit = kDecimalLimit<W>;
    if (!(largest > 0 && largest < limit)) return 0;
    const u32 lane = lane_id(), at = min(lane, kMaxDecimals);
    const u32 fitting = __ballot_sync(kAllLanes, lane > 0 && lane <= kMaxDecimals && __dmul_rn(largest, kPowersOfTen[at]) <= limit);
    if (fitting == 0) return 0;
    u32 e = most = 31 - __clz(fitting);
    s64 v;
    if (!__all_sync(kAllLanes, decimal_of_float(word, kPowersOfTen[e], v))) return 0;
#pragma unroll 1
    for (; __all_sync(kAllLanes, v % 10 == 0); --e) {
        if (e == 1) return 0;
        v /= 10;
    }
    return e;
}
