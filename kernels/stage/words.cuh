// Words of 32 or 64 bits that hold numbers: operations for both sizes.

#pragma once

#include "../common/bits.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"

template <typename W>
struct Word {
    static constexpr u32 kBytes = sizeof(W);
    static constexpr u32 kBits = 8 * kBytes;
    static constexpr u32 kPerUnit = kUnitBytes / kBytes;
    static constexpr u32 kMantissa = kBytes == 8 ? 52 : 23;        // fraction bits of the float of this size
    static constexpr u32 kMaxExponent = kBytes == 8 ? 2047 : 255;  // exponent of infinity
};

// Number of significant bits. BFIND returns -1 for 0.
__device__ __forceinline__ u32 bit_length(u32 v) {
    u32 highest;
    asm("bfind.u32 %0, %1;" : "=r"(highest) : "r"(v));
    return highest + 1;
}
__device__ __forceinline__ u32 bit_length(u64 v) {
    u32 highest;
    asm("bfind.u64 %0, %1;" : "=r"(highest) : "l"(v));
    return highest + 1;
}
__device__ __forceinline__ u32 trailing_zeros(u32 v) { return __ffs(v) - 1; }
__device__ __forceinline__ u32 trailing_zeros(u64 v) { return __ffsll(v) - 1; }

// A mask of the lowest n bits; n is at most the number of bits of a word.
__device__ __forceinline__ u32 low_bits(u32, u32 n) { return n ? ~0u >> (32 - n) : 0; }
__device__ __forceinline__ u64 low_bits(u64, u32 n) { return n ? ~0ull >> (64 - n) : 0; }

// Arithmetic right shift.
__device__ __forceinline__ u32 shifted_signed(u32 v, u32 n) { return static_cast<u32>(static_cast<s32>(v) >> n); }
__device__ __forceinline__ u64 shifted_signed(u64 v, u32 n) { return static_cast<u64>(static_cast<s64>(v) >> n); }

// The sign bit. Words are in two's complement.
template <typename W>
constexpr W kTopBit = static_cast<W>(1) << (8 * sizeof(W) - 1);

// Floats of a word's size.
__device__ __forceinline__ float float_of(u32 word) { return __uint_as_float(word); }
__device__ __forceinline__ double float_of(u64 word) { return __longlong_as_double(static_cast<s64>(word)); }
__device__ __forceinline__ u32 bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ u64 bits_of(double x) { return static_cast<u64>(__double_as_longlong(x)); }
template <typename W>
using Float = decltype(float_of(W()));
__device__ __forceinline__ float size_of(float x) { return fabsf(x); }
__device__ __forceinline__ double size_of(double x) { return fabs(x); }
// The largest float not above x; x is not negative.
__device__ __forceinline__ float rounded_down(double x, u32) { return fminf(__double2float_rz(x), __uint_as_float(0x7f7fffffu)); }
__device__ __forceinline__ double rounded_down(double x, u64) { return fmin(x, __longlong_as_double(0x7fefffffffffffffll)); }

// Zigzag coding: maps differences to unsigned numbers, small magnitudes to small numbers, and back.
template <typename W>
__device__ __forceinline__ W zigzag(W d) { return d << 1 ^ shifted_signed(d, Word<W>::kBits - 1); }
// Bit length of the zigzag-coded number.
template <typename W>
__device__ __forceinline__ u32 zigzag_length(W d) { return bit_length(d ^ d << 1); }
__device__ __forceinline__ u32 unzigzag(u32 r) {
    // BFE replicates the lowest bit into all bits with one instruction.
    u32 sign;
    asm("bfe.s32 %0, %1, 0, 1;" : "=r"(sign) : "r"(r));
    return r >> 1 ^ sign;
}
__device__ __forceinline__ u64 unzigzag(u64 r) { return r >> 1 ^ (0 - (r & 1)); }

// Splits a unit into words, and the reverse.
__device__ __forceinline__ void split(uint4 unit, u32* words) {
    words[0] = unit.x, words[1] = unit.y, words[2] = unit.z, words[3] = unit.w;
}
__device__ __forceinline__ void split(uint4 unit, u64* words) {
    words[0] = static_cast<u64>(unit.y) << 32 | unit.x, words[1] = static_cast<u64>(unit.w) << 32 | unit.z;
}
__device__ __forceinline__ uint4 join(const u32* words) { return make_uint4(words[0], words[1], words[2], words[3]); }
__device__ __forceinline__ uint4 join(const u64* words) {
    return make_uint4(static_cast<u32>(words[0]), static_cast<u32>(words[0] >> 32), static_cast<u32>(words[1]),
                      static_cast<u32>(words[1] >> 32));
}

// Loads a word at a multiple of four bytes.
template <typename W>
__device__ __forceinline__ W load_word(const unsigned char* from) {
    const u32* const words = reinterpret_cast<const u32*>(from);
    return sizeof(W) == 8 ? static_cast<W>(static_cast<u64>(words[1]) << 32 | words[0]) : static_cast<W>(words[0]);
}
