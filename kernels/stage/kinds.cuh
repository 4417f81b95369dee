// Types of elements, and conversions between words and floats.

#pragma once

#include "words.cuh"

enum Type : u32 { kU8 = 1, kU16 = 2, kU32 = 3, kU64 = 4, kI8 = 5, kI32 = 7, kI64 = 8, kF16 = 9, kBf16 = 10, kF32 = 11, kF64 = 12 };
__device__ __forceinline__ bool is_float(u32 type) { return type >= kF16; }
__device__ __forceinline__ u32 fraction_bits_of(u32 type) { return type == kF16 ? 10 : type == kBf16 ? 7 : type == kF32 ? 23 : 52; }
__device__ __forceinline__ u32 bits_of_type(u32 type) {
    return type == kF64 ? 64 : type == kF32 ? 32 : type >= kF16 ? 16 : 8u << ((type - 1) & 3);
}

// The float type of a word's size.
template <typename W>
constexpr u32 kFloatType = sizeof(W) == 8 ? kF64 : kF32;
// The signed integer type of a word's size.
template <typename W>
constexpr u32 kIntegerType = sizeof(W) == 8 ? kI64 : kI32;

// Converts a word to the float that it represents, and back. Floats of 16 bits are represented as
// binary32.
__device__ __forceinline__ float widened(u32 type, u32 word) {
    if (type == kBf16) return __uint_as_float(word << 16);
    if (type == kF16) {
        float x;
        asm("{ .reg .b16 h, t; mov.b32 {h, t}, %1; cvt.f32.f16 %0, h; }" : "=f"(x) : "r"(word));
        return x;
    }
    return __uint_as_float(word);
}
__device__ __forceinline__ double widened(u32, u64 word) { return float_of(word); }
__device__ __forceinline__ u32 narrowed(u32 type, float x) {
    const u32 bits = __float_as_uint(x);
    if (type > kBf16) return bits;
    u32 half;
    if (type == kF16) {
        asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(half) : "f"(x));
        half &= 0x7fff;
    } else {
        const u32 size = bits & 0x7fffffffu;
        half = (size + 0x7fff + (size >> 16 & 1)) >> 16;
    }
    return half | (bits >> 31 ? 0xffff8000u : 0);
}
__device__ __forceinline__ u64 narrowed(u32, double x) { return bits_of(x); }
