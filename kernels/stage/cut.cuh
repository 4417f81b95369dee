// The map CUT and its inverse: a float is cut at a power of two. The bits above the cut are a
// number, the bits below it a tail. The number alone determines the length of the tail.

#pragma once

#include "words.cuh"

// The magnitude of a number.
template <typename W>
__device__ __forceinline__ W size_of(W v) { return v >> (Word<W>::kBits - 1) ? 0 - v : v; }

// Length in bits of the tail of a number of this magnitude; `e` is the block's exponent parameter.
template <typename W>
__device__ __forceinline__ u32 tail_bits(W size, u32 e) {
    const u32 length = bit_length(size);
    const u32 below = Word<W>::kMantissa + 1 - min(length, Word<W>::kMantissa + 1);
    return length == 0 ? 0 : length == 1 ? Word<W>::kBits : min(below, e - 1);
}

// The exponent of a float, and its significand with the leading bit.
template <typename W>
__device__ __forceinline__ u32 exponent_of(W word) { return max(static_cast<u32>(word >> Word<W>::kMantissa) & Word<W>::kMaxExponent, 1u); }

template <typename W>
__device__ __forceinline__ W fraction_of(W word) {
    const bool is_normal = (word >> Word<W>::kMantissa & Word<W>::kMaxExponent) != 0;
    return (word & low_bits(W(), Word<W>::kMantissa)) | static_cast<W>(is_normal) << Word<W>::kMantissa;
}

// The number of a float in the map CUT; `e` is the block's exponent parameter.
template <typename W>
__device__ __forceinline__ W cut_of_float(W word, u32 e) {
    const W size = max(fraction_of(word) >> min(e - exponent_of(word), Word<W>::kBits - 1), static_cast<W>(word != 0));
    return word >> (Word<W>::kBits - 1) ? 0 - size : size;
}

// The tail of a float; `n` is its length in bits.
template <typename W>
__device__ __forceinline__ W tail_of_float(W word, u32 e, u32& n) {
    const u32 n_cut = min(e - exponent_of(word), Word<W>::kBits - 1);
    const W fraction = fraction_of(word);
    const bool is_long = fraction >> n_cut > 1;
    n = is_long ? n_cut : word == 0 ? 0 : Word<W>::kBits;
    return is_long ? fraction & low_bits(W(), n_cut) : word;
}

// The float of a number and its tail of n bits. Sets `damaged` if the number is too large.
template <typename W>
__device__ __forceinline__ W float_of_cut(W v, W tail, u32 n, u32 e, bool& damaged) {
    const W size = size_of(v);
    damaged |= size >> (Word<W>::kMantissa + 1) != 0;
    if (size <= 1) return tail;
    return ((size << n | tail) + (static_cast<W>(e - n - 1) << Word<W>::kMantissa)) | (v & kTopBit<W>);
}
