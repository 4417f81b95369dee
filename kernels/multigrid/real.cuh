// Arithmetic of f32 and f64, and predictions. Every operation is rounded on its own (IEEE 754), so
// results equal those of the CPU. The counterpart of real.rs and of the predictions in refine.rs.

#pragma once

#include "../stage/words.cuh"

template <typename W>
struct Real;
template <>
struct Real<u32> {
    static constexpr float kMax = 3.402823466e38f;
    static constexpr u32 kFraction = 23;
    // Integers of magnitude below kCodes have codes. Adding kMiddle to such a number rounds it to
    // an integer, because all floats near kMiddle are integers.
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

// Returns the integer nearest to x, whose magnitude is below kCodes. Sets `code`: 0, 1, 2, 3, …
// stand for 0, -1, 1, -2, …
template <typename W>
__device__ __forceinline__ Float<W> nearest(Float<W> x, W& code) {
    constexpr Float<W> kMiddle = Real<W>::kMiddle;
    const Float<W> shifted = x + kMiddle;
    code = zigzag(static_cast<W>(bits_of(shifted) - bits_of(kMiddle)));
    return shifted - kMiddle;
}
// The integer with this code.
template <typename W>
__device__ __forceinline__ Float<W> whole(W code) {
    constexpr Float<W> kMiddle = Real<W>::kMiddle;
    return float_of(static_cast<W>(bits_of(kMiddle) + unzigzag(code))) - kMiddle;
}

// Returns 0 for a prediction or a node that is not finite. Damaged data and sums of large numbers
// cause such values.
template <typename F>
__device__ __forceinline__ F ordinary(F x) {
    return size_of(x) <= Real<decltype(bits_of(x))>::kMax ? x : F(0);
}
// Clamps a prediction to the numbers within `reach` of `value`.
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
