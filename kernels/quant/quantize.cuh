// Quantizers: map words to codes, and codes to words within a bound. The counterpart of
// crates/gridz-codecs/src/stage/quantize.rs, which explains how and why. The arithmetic is the
// same, operation by operation.

#pragma once

#include "../stage/kinds.cuh"
#include "../stage/words.cuh"
#include "layout.cuh"

// Arithmetic with floats of a word's size.
__device__ __forceinline__ float to_float(u32 n) { return __uint2float_rn(n); }
__device__ __forceinline__ double to_float(u64 n) { return __ull2double_rn(n); }
__device__ __forceinline__ u32 whole_of(float x) { return __float2uint_rz(x); }
__device__ __forceinline__ u64 whole_of(double x) { return __double2ull_rz(x); }

constexpr u32 kZones = 4;

enum class Quantized : u32 { kNothing, kUniform, kWhole, kRelative };

// A quantized word.
template <typename W>
struct Coded {
    W code;
    bool is_coded, is_within;
};

// A quantizer, in shared memory.
template <typename W>
struct Quantizer {
    using F = Float<W>;
    static constexpr u32 kCountingBits = 8 * sizeof(W) - 2;  // used for a code's magnitude

    Quantized kind;
    u32 type;
    // Floats with an absolute bound: starts of the zones, their steps, the inverses of the steps,
    // and the codes of the starts.
    F starts[kZones], steps[kZones], inverses[kZones];
    W firsts[kZones];
    F most, bound;
    // Elements below this magnitude are in the first zone, and not at its end. 0 if types are
    // narrower than a word.
    F near_limit;
    // Integers, and floats with a pointwise relative bound: the number of values on either side of
    // a quantized value that share its code, the number of all values that share it, and (floats
    // only) the multiple of `whole` that stands for the smallest normal number.
    W half, whole, first;
    W greatest, least_size;  // integers: the greatest value, and the magnitude of the least
    bool is_far;             // the step exceeds every word

    // Called by one thread.
    __device__ __forceinline__ void set(const Chunk& chunk, double bound) {
        type = chunk.dtype();
        kind = Quantized::kNothing;
        near_limit = 0;
        if (chunk.mode() == kPwrel) {
            set_relative(bound);
        } else if (bound > 0 && is_float(type)) {
            set_uniform(bound);
        } else if (bound > 0) {
            set_whole(bound);
        }
    }

    __device__ __forceinline__ void set_relative(double asked) {
        kind = Quantized::kRelative;
        const u32 fraction_bits = fraction_bits_of(type);
        half = static_cast<W>(__double2ull_rz(asked * static_cast<double>(u64{1} << fraction_bits)));
        whole = 2 * half + 1;
        first = ((static_cast<W>(1) << fraction_bits) + half) / whole;
    }
    __device__ __forceinline__ void set_whole(double asked) {
        kind = Quantized::kWhole;
        const u32 bits = bits_of_type(type);
        const bool is_unsigned = type <= kU64;
        greatest = low_bits(W(), is_unsigned ? bits : bits - 1);
        least_size = is_unsigned ? 0 : greatest + 1;
        const u64 floor = __double2ull_rz(asked), limited = floor < greatest ? floor : greatest;
        half = static_cast<W>(limited);
        whole = 2 * half + 1;
        is_far = half >> (8 * sizeof(W) - 1);
    }

    // The n highest bits of a step that has `length` significant bits.
    static __device__ __forceinline__ F cut(F all, u32 length, u32 n) {
        const u32 cleared = length - min(length, n);
        return float_of(static_cast<W>(bits_of(all) >> cleared << cleared));
    }
    __device__ __forceinline__ void set_uniform(double asked) {
        constexpr u32 kMantissa = Word<W>::kMantissa;
        const F all = rounded_down(2.0 * asked * (1.0 - 1.0 / 1024.0), W());
        const W bits = bits_of(all);
        const u32 length = bit_length(static_cast<W>((bits & low_bits(W(), kMantissa)) | static_cast<W>(bits >> kMantissa != 0) << kMantissa));
        const u32 fraction_bits = fraction_bits_of(type);
        const F unit = cut(all, length, 1);
        const F inverse = F(1) / unit;
        if (unit == F(0) || bits_of(inverse) == static_cast<W>(Word<W>::kMaxExponent) << kMantissa) return;
        kind = Quantized::kUniform;
        constexpr u32 step_bits[kZones] = {10, 6, 3, 1};
#pragma unroll
        for (u32 k = 0; k < kZones; ++k) {
            steps[k] = cut(all, length, step_bits[k]);
            inverses[k] = F(1) / steps[k];
        }
        most = to_float(static_cast<W>(static_cast<W>(1) << (fraction_bits + 2)));
        bound = rounded_down(asked, W());
        starts[0] = 0, firsts[0] = 0;
#pragma unroll
        for (u32 k = 1; k < kZones; ++k) {
            const u32 log = fraction_bits + 1 - min(fraction_bits + 1, step_bits[k - 1]);
            starts[k] = unit * to_float(static_cast<W>(static_cast<W>(1) << log));
            const bool is_finite = bits_of(starts[k]) >> kMantissa != Word<W>::kMaxExponent;
            firsts[k] = is_finite ? firsts[k - 1] + whole_of(steps_to(starts[k], starts[k - 1], steps[k - 1], inverses[k - 1], k - 1)) + 1
                                  : static_cast<W>(1) << kCountingBits;
        }
        // For float64, the limit also keeps codes so small that their differences fit 32 bits.
        if (type > kBf16) near_limit = starts[1] - F(2) * steps[0];
        if (sizeof(W) == 8) near_limit = fmin(near_limit, steps[0] * F(1 << 18));
    }

    // The number of steps from the start of a zone that comes nearest to `size`.
    static __device__ __forceinline__ F steps_to(F size, F start, F step, F inverse, u32 zone) {
        const F rest = size - start;
        const F n = rint(rest * inverse);
        if (zone == 0) return n;
        const F error = rest - n * step, half = step * F(0.5);
        return n + (error > half ? F(1) : F(0)) - (error < -half ? F(1) : F(0));
    }

    __device__ __forceinline__ Coded<W> code(W word) const {
        if (kind == Quantized::kUniform) return uniform_code(word);
        if (kind == Quantized::kWhole) return {whole_code(word), true, true};
        if (kind == Quantized::kRelative) return relative_code(word);
        return {0, false, false};
    }
    // Like code(), but missing elements have no code, and an element whose code would decode to a
    // missing element counts as outside the bound.
    __device__ __forceinline__ Coded<W> code_beside(const Missing& missing, W word) const {
        const Places<W> places(type);
        Coded<W> coded = code(word);
        coded.is_coded &= !missing.has(word, places);
        coded.is_within &= !missing.has(value(coded.code), places);
        return coded;
    }
    __device__ __forceinline__ W value(W code) const {
        if (kind == Quantized::kUniform) return uniform_value(code);
        if (kind == Quantized::kWhole) return whole_value(code);
        if (kind == Quantized::kRelative) return relative_value(code);
        return code;
    }

    __device__ __forceinline__ Coded<W> uniform_code(W word) const {
        const F x = widened(type, word), size = size_of(x);
        if (likely(size < near_limit)) {
            const F n = rint(x * inverses[0]);
            const W code = sizeof(W) == 8 ? static_cast<W>(static_cast<s64>(__double2int_rn(n))) : static_cast<W>(__float2int_rn(n));
            return {code, true, size_of(x - n * steps[0]) <= bound};
        }
        u32 k = 0;
#pragma unroll
        for (u32 i = 1; i < kZones; ++i) k += size >= starts[i];
        const F n = steps_to(size, starts[k], steps[k], inverses[k], k);
        if (!(n < most)) return {0, false, false};
        const W code_size = whole_of(n) + firsts[k], code = x < F(0) ? 0 - code_size : code_size;
        const F error = x - widened(type, uniform_value(code));
        return {code, true, size_of(error) <= bound};
    }
    __device__ __forceinline__ W uniform_value(W code) const {
        const bool is_negative = code >> (8 * sizeof(W) - 1);
        const W size = (is_negative ? 0 - code : code) & low_bits(W(), kCountingBits);
        u32 k = 0;
#pragma unroll
        for (u32 i = 1; i < kZones; ++i) k += size >= firsts[i];
        F x = to_float(static_cast<W>(size - firsts[k])) * steps[k] + starts[k];
        if (k + 1 < kZones) x = x < starts[k + 1] ? x : starts[k + 1];
        return narrowed(type, is_negative ? -x : x);
    }

    __device__ __forceinline__ bool is_unsigned_word() const { return sizeof(W) == 8 ? type == kU64 : type == kU32; }
    __device__ __forceinline__ W whole_code(W word) const {
        const bool is_negative = !is_unsigned_word() && word >> (8 * sizeof(W) - 1);
        const W size = is_negative ? 0 - word : word;
        if (is_far) return size > half;
        const W quotient = size / whole, nearest = quotient + (size - quotient * whole > half);
        return is_negative ? 0 - nearest : nearest;
    }
    __device__ __forceinline__ W whole_value(W code) const {
        const bool is_negative = !is_unsigned_word() && code >> (8 * sizeof(W) - 1);
        const W n = is_negative ? 0 - code : code, limit = is_negative ? least_size : greatest;
        const W product = n * whole;
        const bool is_beyond = (is_far && n > 0) || high_product(n, whole) != 0 || product > limit;
        const W size = is_beyond ? limit : product;
        return is_negative ? 0 - size : size;
    }
    static __device__ __forceinline__ u32 high_product(u32 a, u32 b) { return __umulhi(a, b); }
    static __device__ __forceinline__ u64 high_product(u64 a, u64 b) { return __umul64hi(a, b); }

    __device__ __forceinline__ Coded<W> relative_code(W word) const {
        const u32 fraction_bits = fraction_bits_of(type), bits = bits_of_type(type);
        const bool is_negative = word >> (bits - 1) & 1;
        const W place = word & low_bits(W(), bits - 1), infinity = low_bits(W(), bits - 1 - fraction_bits) << fraction_bits;
        if (place == 0 && !is_negative) return {0, true, true};
        if (place >> fraction_bits == 0 || place >= infinity) return {0, false, false};
        const W multiple = (place + half) / whole;
        if (multiple * whole >= infinity) return {0, false, false};
        const W size = multiple - first + 1;
        return {is_negative ? 0 - size : size, true, true};
    }
    __device__ __forceinline__ W relative_value(W code) const {
        if (code == 0) return 0;
        const u32 bits = bits_of_type(type);
        const bool is_negative = code >> (8 * sizeof(W) - 1);
        const W multiple = (is_negative ? 0 - code : code) + first - 1;
        const W mask = low_bits(W(), bits - 1);
        return (multiple * whole & mask) | (is_negative ? ~mask : 0);
    }
};
