// Missing elements: those with the bits of a fill value, and those outside of the valid range. A
// lossy codec stores them bit for bit, and no other element may be decoded to a missing one. The
// counterpart of crates/gridz-codecs/src/stage/missing.rs.

#pragma once

#include "kinds.cuh"
#include "words.cuh"

// Maps words to places: unsigned integers in the same order as the numbers of the words.
template <typename W>
struct Places {
    const u32 type, bits;
    const W size_mask, last_finite, top;

    __device__ __forceinline__ explicit Places(u32 type)
        : type(type), bits(bits_of_type(type)), size_mask(low_bits(W(), bits - 1)),
          last_finite(is_float(type) ? (low_bits(W(), bits - 1 - fraction_bits_of(type)) << fraction_bits_of(type)) - 1 : 0),
          top(is_float(type) || !(type == kU32 || type == kU64) ? kTopBit<W> : 0) {}

    __device__ __forceinline__ bool is_finite(W word) const { return !is_float(type) || (word & size_mask) <= last_finite; }
    // The place of a word, an unsigned integer.
    __device__ __forceinline__ W place(W word) const {
        const W signs = is_float(type) ? shifted_signed(word, Word<W>::kBits - 1) & ~kTopBit<W> : 0;
        return (word ^ signs) ^ top;
    }
    __device__ __forceinline__ W word(W place) const {
        const W signed_place = place ^ top;
        return is_float(type) && signed_place >> (Word<W>::kBits - 1) ? signed_place ^ ~kTopBit<W> : signed_place;
    }
    // The difference of two numbers, rounded down.
    __device__ __forceinline__ double difference(W most, W least) const {
        if (is_float(type)) return __dsub_rd(static_cast<double>(widened(type, most)), static_cast<double>(widened(type, least)));
        // Widened to 64 bits, signed and unsigned differences are both right modulo 2^64.
        const bool is_signed = !(type == kU32 || type == kU64);
        const u64 a = is_signed && sizeof(W) == 4 ? static_cast<u64>(static_cast<s64>(static_cast<s32>(most))) : static_cast<u64>(most);
        const u64 b = is_signed && sizeof(W) == 4 ? static_cast<u64>(static_cast<s64>(static_cast<s32>(least))) : static_cast<u64>(least);
        return __ull2double_rd(a - b);
    }
};

constexpr u32 kMaxFills = 8;

// The host's description of the missing elements, or of those of one part of complex elements.
struct Missing {
    u64 fills[kMaxFills];  // words; unused ones have all bits set
    u64 least, span;       // place of the least valid number; distance to that of the greatest
    u32 n_fills, has_range;

    __device__ __forceinline__ bool any() const { return n_fills | has_range; }
    template <typename W>
    __device__ __forceinline__ bool has(W word, const Places<W>& places) const {
        bool is_missing = false;
#pragma unroll 1
        for (u32 i = 0; i < n_fills; ++i) is_missing |= word == static_cast<W>(fills[i]);
        if (unlikely(has_range)) is_missing |= static_cast<W>(places.place(word) - static_cast<W>(least)) > static_cast<W>(span);
        return is_missing;
    }
    template <typename W>
    __device__ __forceinline__ bool has(W word, u32 type) const {
        return has(word, Places<W>(type));
    }
};
static_assert(sizeof(Missing) == 88, "crates/gridz-codecs/src/codec/gpu.rs has the same struct");
