// Writes blocks of all sizes to the payload.

#pragma once

#include "../common/elements.cuh"
#include "../common/ordered_frames.cuh"
#include "exceptions.cuh"
#include "range.cuh"

// Index of the part of each element that a block holds.
__device__ __forceinline__ u32 part_of(const Chunk& own, u32 index) { return index & ((1u << own.log_parts()) - 1); }

// Word i (32 bits) of a raw or constant block of m elements.
template <typename W>
__device__ __forceinline__ u32 plain_word(u32 header, W constant, u32 i, const Finder& elements, const char* array, const Element& element, u32 m, bool swaps) {
    if (i == 0) return header;
    const u32 first = (i - 1) * kAlignment;
    if (header == kConstBlock) return first < sizeof(W) ? static_cast<u32>(static_cast<u64>(constant) >> 8 * first) : 0;
    const u32 size = element.bytes;
    if (sizeof(W) == 8) {
        if (i > 2 * m) return 0;
        return static_cast<u32>(static_cast<u64>(load_element<W>(elements.find(array, first / 8, 8), element, swaps)) >> first % 8 * 8);
    }
    u32 word = 0;
#pragma unroll 1
    for (u32 byte = 0; byte < 4; byte += size) {
        const u32 number = (first + byte) / size;
        if (number >= m) break;
        word |= (static_cast<u32>(load_element<W>(elements.find(array, number, size), element, swaps)) & low_bits(0u, 8 * size)) << 8 * byte;
    }
    return word;
}

// Writes the table entry of a block, given the sums of its bytes. With the first block it also
// writes the bound, with the last one the zeros after the table. Adds all these bytes to `sums`.
// Called by one thread.
template <typename W>
__device__ __forceinline__ void add_entry(const OrderedFrames<FrameLayout>& frames, u32 chunk, u32 block, u32 before, u32 n_units, Sums& sums) {
    const Chunk& own = frames.args.own;
    const u32 check = static_cast<u32>(checksum_of(sums.a, sums.b, n_units << own.log_unit())), end = before + n_units;
    char* const to = frames.payload(chunk);
    u32* const words = reinterpret_cast<u32*>(to);
    constexpr u32 table_word = kHeadBytes / 4;
    reinterpret_cast<uint2*>(to + kHeadBytes)[block] = make_uint2(end, check);
    sums.add(table_word + 2ull * block, end);
    sums.add(table_word + 2ull * block + 1, check);
    if (block == 0) {
        const u64 bits = static_cast<u64>(__double_as_longlong(bound_of<W>(frames.args, chunk)));
        words[0] = static_cast<u32>(bits), words[1] = static_cast<u32>(bits >> 32);
        sums.add(0, static_cast<u32>(bits));
        sums.add(1, static_cast<u32>(bits >> 32));
    }
    if (block + 1 == frames.tiles) {
        // Zeros do not change the sums.
        for (u64 word = table_word + 2ull * frames.tiles; word < own.table_bytes() / 4; ++word) words[word] = 0;
    }
}
