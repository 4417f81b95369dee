// Scratch data of a block, which the compression passes share, and launch parameters of the passes.
//
//   1. choose.cuh, one CTA per block: decides whether to code differences, builds the codes, and
//      computes all sizes.
//   2. write.cuh, two warps per block: writes the block.
//   3. write.cuh: copies the block to its position in the payload (common/ordered_frames.cuh).

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/section_write.cuh"
#include "layout.cuh"

// log2 of the maximum number of elements of a block.
template <typename T>
constexpr u32 kLogNumbers = sizeof(T) == 1 ? 16 : 15;

template <typename T>
struct alignas(256) HuffmanBlock {
    static constexpr u32 kRows = (1u << kLogNumbers<T>) / kRow, kMostBytes = (sizeof(T) << kLogNumbers<T>) + kUnitBytes;

    u32 kind;  // BlockKind in the lowest byte; 1 in the next byte if numbers are differences
    u32 n_units;
    u32 element;             // element of a constant block
    u32 head[3];             // header of the section
    u32 bitmap[kRows / 32];   // rows that the section omits
    SectionCodes<T> section;
    alignas(16) unsigned char bytes[kMostBytes];  // the block, if it has codes
};

// Launch parameters of any of the passes, which share the scratch layout.
template <typename T>
constexpr LaunchInfo huffman_launch(u32 threads, u32 shared_bytes, u32 persistent) {
    LaunchInfo info = ordered_launch(threads, shared_bytes, 1);
    info.persistent = persistent, info.unzeroed_bytes_per_tile = sizeof(HuffmanBlock<T>);
    return info;
}

// The blocks of all chunks, after the zeroed part of scratch.
template <typename T>
__device__ __forceinline__ HuffmanBlock<T>* huffman_blocks(const CompressArgs<Flat>& args) {
    constexpr u64 alignment = 256;
    const u64 n_bytes = sizeof(FramesScratch) + args.n_chunks * (sizeof(ChunkScratch) + static_cast<u64>(args.own.n_blocks) * sizeof(u64));
    return reinterpret_cast<HuffmanBlock<T>*>(static_cast<char*>(args.scratch) + (n_bytes + alignment - 1) / alignment * alignment);
}

// The numbers of a block, computed from its elements in the array.
template <typename T>
struct BlockNumbers {
    using Symbol = Symbols<T>;
    // kUnit elements, which belong to one row, are loaded together.
    static constexpr u32 kUnit = kUnitBytes / sizeof(T), kRowUnits = kRow / kUnit;

    const T* const elements;
    const u32 m;
    const bool swaps, is_signed;

    __device__ __forceinline__ BlockNumbers(const CompressArgs<Flat>& args, const char* array, u32 block)
        : elements(reinterpret_cast<const T*>(array) + (static_cast<u64>(block) << args.own.log_block())), m(args.own.of_block(block)),
          swaps(args.flags & kSwapBytes), is_signed(args.own.flag()) {}

    __device__ __forceinline__ u32 n_rows() const { return (m + kRow - 1) / kRow; }
    __device__ __forceinline__ u32 element(u32 i) const { return native(elements[i]); }
    __device__ __forceinline__ u32 native(u32 element) const {
        if (sizeof(T) == 1 || !swaps) return element;
        return sizeof(T) == 2 ? __byte_perm(element, 0, 0x4401) : swapped_bytes(element);
    }
    // The number of an element; or of its difference from the previous element `before`, which is
    // 0 for the first element.
    __device__ __forceinline__ u32 number(u32 element) const { return is_signed ? Symbol::fold_sign(element) : element; }
    __device__ __forceinline__ u32 difference(u32 element, u32 before) const { return Symbol::fold_sign(element - before); }
    // Number i; past the end, the last number.
    __device__ __forceinline__ u32 number(u32 i, bool are_differences) const {
        const u32 at = min(i, m - 1), own = element(at);
        return are_differences ? difference(own, at > 0 ? element(at - 1) : 0) : number(own);
    }
    // kUnit elements, in native byte order. The element before them is as in memory, so that nothing
    // waits for its load yet; it is 0 for the first unit.
    struct Unit {
        uint4 words;
        T before;
    };
    // Loads the unit from `first` on, which is a multiple of kUnit. If it is not whole, the unit is
    // not used.
    __device__ __forceinline__ Unit load(u32 first) const {
        Unit unit = {};
        if (unlikely(first + kUnit > m)) return unit;
        if (first > 0) unit.before = elements[first - 1];
        if (likely(reinterpret_cast<u64>(elements) % kUnitBytes == 0 && !swaps)) {
            unit.words = *reinterpret_cast<const uint4*>(elements + first);
        } else {
            u32 words[4] = {};
#pragma unroll
            for (u32 k = 0; k < kUnit; ++k) words[k * sizeof(T) / 4] |= element(first + k) << k * sizeof(T) % 4 * 8;
            unit.words = make_uint4(words[0], words[1], words[2], words[3]);
        }
        return unit;
    }
    // Computes the numbers of the unit from `first` on. Past the end, the last number repeats.
    __device__ __forceinline__ void numbers(const Unit& unit, u32 first, bool are_differences, u32 (&of)[kUnit]) const {
        if (unlikely(first + kUnit > m)) {
#pragma unroll 1
            for (u32 k = 0; k < kUnit; ++k) {
                const u32 own = number(first + k, are_differences);
#pragma unroll
                for (u32 i = 0; i < kUnit; ++i) of[i] = i == k ? own : of[i];
            }
            return;
        }
        const u32 words[4] = {unit.words.x, unit.words.y, unit.words.z, unit.words.w};
#pragma unroll
        for (u32 k = 0; k < kUnit; ++k) of[k] = words[k * sizeof(T) / 4] >> k * sizeof(T) % 4 * 8 & low_bits(0u, 8 * sizeof(T));
        // Branches for the whole unit, instead of one for each element.
        if (are_differences) {
#pragma unroll
            for (u32 k = kUnit; k-- > 0;) of[k] -= k > 0 ? of[k - 1] : native(unit.before);
        }
        if (are_differences || is_signed) {
#pragma unroll
            for (u32 k = 0; k < kUnit; ++k) of[k] = Symbol::fold_sign(of[k]);
        }
    }
    // Replaces numbers by their symbols. Returns true if any number has a tail.
    static __device__ __forceinline__ bool to_symbols(u32 (&of)[kUnit]) {
        if (!Symbol::kHasTails) return false;
        u32 any = 0;
#pragma unroll
        for (u32 k = 0; k < kUnit; ++k) any |= of[k];
        if (likely(any < kDirectSymbols)) return false;
#pragma unroll
        for (u32 k = 0; k < kUnit; ++k) of[k] = Symbol::of(of[k]);
        return true;
    }
};

// Position of a block, given its index among the blocks of all chunks.
struct HuffmanTile {
    u32 chunk, index;

    __device__ __forceinline__ HuffmanTile(const Flat& own, u32 number) : chunk(number / own.n_blocks), index(number % own.n_blocks) {}
};
