// State of a compressing CTA in shared memory, for the block that it encodes. See the head of
// compress.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "../stage/huff_write.cuh"
#include "../stage/bitmap_write.cuh"
#include "layout.cuh"

// Block sizes of the levels: 2^12 elements in fast, 2^13 in dense.
template <typename Number, u32 kLog>
struct BlocksOf {
    using W = Number;
    static constexpr bool kIsDense = kLog > 12;
    static constexpr u32 kLogBlock = kLog, kElements = 1 << kLog, kGroups = kElements / kGroup;
    static constexpr u32 kThreads = kGroups * kWarp;  // one warp per group
    static_assert(kElements / 32 == kThreads, "a thread has a word of marks");
};

// Parameters of the map from the elements of a block to numbers.
template <typename W>
struct Mapping {
    u32 map, shift;  // t or e, depending on the map
    W base;
};

// Room for the numbers of a block, or for derived data. One step of rows after the numbers can be
// read.
template <typename B>
struct alignas(128) Buffer {
    typename B::W words[B::kElements + kStepRows * kRow];
};

// The mask of a block, if it has one (mask_choice.cuh).
template <typename B>
struct MaskState {
    using W = typename B::W;
    W word;
    bool is_used, is_coded;
    u32 n_masked, n_bytes;   // number of masked elements; bytes of their marks
    u32 all_bytes;           // size of the mask in bytes, with its header
    u32 n_coded;             // number of unmasked elements
    u32 bitmap[B::kElements / 32];
    typename BitmapWriter<B::kThreads>::Sum totals[2][B::kGroups];
    u32 firsts[B::kGroups];

    __device__ __forceinline__ bool has(u32 i) const { return bitmap[i / 32] >> i % 32 & 1; }
};

// State for level dense only.
template <typename B, bool kIsDense = B::kIsDense>
struct Codes {};
template <typename B>
struct Codes<B, true> {
    using W = typename B::W;
    HuffState<W, B::kThreads> huff;
    u32 t;                               // number of trailing zeros that all words have
    W lowest[B::kGroups], highest[B::kGroups];
    // entries[i]: number of entries of a dictionary with from + i low bits. top: bitmap of the
    // following level, for more low bits.
    u32 from, entries[12], top;
    u32 n_distinct;
    u32 n_entries, low;                  // number of entries of the dictionary, and of low bits
    u32 delta_bits, delta_shift;
    u32 delta_bytes;                     // size in bytes of the deltas before the numbers; 0 without a dictionary
};

template <typename B>
struct LorenzoShared {
    using W = typename B::W;
    // One buffer holds the block's words, then its numbers, then the stage, which is at most as
    // long as a RAW block. The other one holds the residuals, then lists of patches. Maps other
    // than BITS swap the buffers.
    Buffer<B> buffers[2];
    // Per warp: OR and AND of the words; other partial results.
    W any[B::kGroups], all[B::kGroups];
    u32 first_bits[B::kGroups], last_bits[B::kGroups];
    u32 lowest[B::kGroups], highest[B::kGroups];  // least and greatest exponents of floats
    alignas(16) u32 costs[B::kIsDense ? 26 : 14][B::kGroups];
    u32 lengths[B::kGroups][LengthCounts<W>::kCounts];
    uint4 sections[B::kGroups];  // sizes of each group's sections in bytes
    u32 n_nonzero, longest;   // number of nonzero residuals; bit length of the longest one
    u32 tail_words[B::kGroups], tail_bits[B::kGroups], tail_bytes;  // sizes of the tails of CUT
    uint2 group_headers[B::kGroups];
    uint4 header;             // header of the block as coded by SPLIT
    CtaSums<B::kGroups> sums;
    MaskState<B> mask;
    u32 nonzero[B::kElements / 32];  // bitmap of nonzero residuals, for SPARSE
    u32 sparse_bytes;             // size of the numbers in SPARSE, in bytes
    Codes<B> codes;               // for HUFF and DICT
    bool is_list;
    W frequent;                   // the most frequent word of the samples
    u32 n_frequent;               // its count among the samples
    u32 decimals;                 // decimal digits of the samples; 0 if they are not decimal fractions
    u32 most_decimals;            // largest number of digits that the samples allow
    u32 shift;                    // t of the map BITS
    W middle;                     // median of samples of the words, or of the numbers of the map tried last
    RowBox box;
    alignas(16) Orders cubic;  // order 3 on each axis whose extent exceeds 1
    u32 candidates;            // mask of candidates for the orders
    bool is_full;              // the block has at least kMinDepth planes of 16 rows of 32 numbers
    Ticket ticket[2];
    u32 before;  // number of units of all preceding blocks
};
