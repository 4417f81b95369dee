// Symbols of numbers of 8, 16 and 32 bits, and definitions that Huffman encoder and decoder share.
// The counterpart of crates/gridz-codecs/src/stage/entropy/symbols.rs and lanes.rs, which define
// the symbols of numbers and the 16-bit words that 32 lanes share.

#pragma once

#include "../common/warp.cuh"
#include "groups.cuh"
#include "words.cuh"

constexpr u32 kDirectBits = 11;                 // numbers with fewer bits are their own symbols
constexpr u32 kDirectSymbols = 1 << kDirectBits;
// Number of bits after the highest one that the symbol of a larger number contains.
constexpr u32 kHeadBits = 2;
constexpr u32 kMostCodeBits = 14;
constexpr u32 kCodeWordBits = 16;               // bits of a lane's word

// T: unsigned type of the numbers, of one, two or four bytes.
template <typename T>
struct Symbols {
    static constexpr u32 kBits = 8 * sizeof(T);
    static constexpr bool kHasTails = kBits > kDirectBits;
    static constexpr u32 kCount = kHasTails ? kDirectSymbols + ((kBits - kDirectBits) << kHeadBits) : 1u << kBits;

    // The number of tail bits of a symbol's numbers, and their value above the tail.
    static __device__ __forceinline__ u32 tail_bits(u32 symbol) {
        return kHasTails && symbol >= kDirectSymbols ? kDirectBits - kHeadBits + ((symbol - kDirectSymbols) >> kHeadBits) : 0;
    }
    static __device__ __forceinline__ u32 above_tail(u32 symbol) {
        constexpr u32 kHead = 1u << kHeadBits;
        return kHasTails && symbol >= kDirectSymbols ? kHead | (symbol & (kHead - 1)) : symbol;
    }
    // The symbol of a number.
    static __device__ __forceinline__ u32 of(u32 number) {
        if (!kHasTails || number < kDirectSymbols) return number;
        const u32 n_tail = bit_length(number) - 1 - kHeadBits;
        return kDirectSymbols + ((n_tail + kHeadBits - kDirectBits) << kHeadBits) + (number >> n_tail & ((1u << kHeadBits) - 1));
    }
    // Maps signed numbers to unsigned ones, small magnitudes to small numbers, and back. Bytes are
    // unchanged.
    static __device__ __forceinline__ u32 fold_sign(u32 number) {
        if (kBits == 8) return number & 0xff;
        return (number << 1 ^ (number >> (kBits - 1) & 1 ? ~0u : 0)) & low_bits(0u, kBits);
    }
    static __device__ __forceinline__ u32 unfold_sign(u32 number) { return kBits == 8 ? number : unzigzag(number); }
};

// The header of a section.
struct SectionHead {
    static constexpr u32 kBytes = 12;

    u32 lowest, n_symbols, length_bytes, n_words, tail_bytes;
    bool has_bitmap;

    SectionHead() = default;
    __device__ __forceinline__ explicit SectionHead(const u32* words)
        : lowest(words[0] & 0xffff), n_symbols(words[0] >> 16), length_bytes(words[1] & 0xffff), n_words(words[1] >> 16), tail_bytes(words[2] & 0x7fffffff),
          has_bitmap(words[2] >> 31) {}
    // Byte offsets of the parts of a section with n_rows rows.
    __device__ __forceinline__ u32 bitmap() const { return kBytes + 2 * n_words; }
    __device__ __forceinline__ u32 lengths(u32 n_rows) const { return bitmap() + (has_bitmap ? (n_rows + 7) / 8 : 0); }
    __device__ __forceinline__ u32 tails(u32 n_rows) const { return lengths(n_rows) + length_bytes; }
};

// Half bytes of code lengths: 15 starts a gap; the next half byte plus kLeastGap is the number of
// symbols without a code.
constexpr u32 kGapHalf = 15, kLeastGap = 3;
