// Floats of both widths, in single operations of IEEE 754, and predictions. The counterpart of
// real.rs and of the predictions in refine.rs.

#pragma once

#include "../stage/words.cuh"

template <typename W>
struct Real;
template <>
struct Real<u32> {
    static constexpr float kMax = 3.402823466e38f;
    static constexpr u32 kFraction = 23;
    // Integers below kCodes have codes. Floats of the size of kMiddle are integers.
    static constexpr float kCodes = 1 << 22, kMiddle = 12582912.0f;
};
template <>
struct Real<u64> {
    static constexpr double kMax = 1.7976931348623157e308;
    static constexpr u32 kFraction = 52;
    static constexpr double kCodes = u64{1} << 51, kMiddle = 6755399441055744.0;
};

// 1 / x, or 0 if that is not finite.
template <typename F>
__device__ __forceinline__ F inverse_of(F x) {
    const F inverse = F(1) / x;
    return size_of(inverse) <= Real<decltype(bits_of(x))>::kMax ? inverse : F(0);
}

// The integer nearest to x, which is below kCodes, and its code: 0, -1, 1, -2, …
template <typename W>
__device__ __forceinline__ Float<W> nearest(Float<W> x, W& code) {
    constexpr Float<W> kMiddle = Real<W>::kMiddle;
    const Float<W> shifted = x + kMiddle;
    code = zigzag(static_cast<W>(bits_of(shifted) - bits_of(kMiddle)));
    return shifted - kMiddle;
}
// The integer with a code.
template <typename W>
__device__ __forceinline__ Float<W> whole(W code) {
    constexpr Float<W> kMiddle = Real<W>::kMiddle;
    return float_of(static_cast<W>(bits_of(kMiddle) + unzigzag(code))) - kMiddle;
}

// A prediction or a node, or 0 if it is not finite, because of damage or because sums of large
// numbers are infinite.
template <typename F>
__device__ __forceinline__ F ordinary(F x) {
    return size_of(x) <= Real<decltype(bits_of(x))>::kMax ? x : F(0);
}
// The value nearest to a prediction that is within `reach` of another value.
template <typename F>
__device__ __forceinline__ F near(F predicted, F value, F reach) {
    const F least = value - reach, most = value + reach, above = predicted < least ? least : predicted;
    return above > most ? most : above;
}
template <typename F>
__device__ __forceinline__ F linear(F a, F b) {
    return ordinary(a * F(0.5) + b * F(0.5));
}
template <typename F>
__device__ __forceinline__ F cubic(F a, F b, F c, F d) {
    return ordinary((b + c) * F(0.5625) - (a + d) * F(0.0625));
}
