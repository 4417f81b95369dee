// What the threads of a compressing CTA have in common: its block, in shared memory. See the head of compress.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "../stage/huff_write.cuh"
#include "../stage/marks_write.cuh"
#include "layout.cuh"

// Blocks of a level: fast has 2^12 elements, dense 2^13.
template <typename Number, u32 kLog>
struct BlocksOf {
    using W = Number;
    static constexpr bool kIsDense = kLog > 12;
    static constexpr u32 kLogBlock = kLog, kElements = 1 << kLog, kGroups = kElements / kGroup;
    static constexpr u32 kThreads = kGroups * kWarp;  // a warp a group
    static_assert(kElements / 32 == kThreads, "a thread has a word of marks");
};

// How the elements of a block become numbers.
template <typename W>
struct Mapping {
    u32 map, shift;  // t or e, whatever e is of
    W base;
};

// The numbers of a block or what is made of them. A step of rows behind them can be read.
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
    u32 n_masked, n_bytes;   // elements; bytes of their marks
    u32 all_bytes;           // of the mask
    u32 n_coded;             // numbers that are left
    u32 marks[B::kElements / 32];
    typename WrittenMarks<B::kThreads>::Sum totals[2][B::kGroups];
    u32 firsts[B::kGroups];

    __device__ __forceinline__ bool has(u32 i) const { return marks[i / 32] >> i % 32 & 1; }
};

// What only dense looks at.
template <typename B, bool kIsDense = B::kIsDense>
struct Codes {};
template <typename B>
struct Codes<B, true> {
    using W = typename B::W;
    HuffState<W, B::kThreads> huff;
    u32 t;                               // zeros at the end that all words have
    W lowest[B::kGroups], highest[B::kGroups];
    u32 from, entries[12], top;          // what a dictionary would have, with so many low bits and more
    u32 n_distinct;
    u32 n_entries, low;                  // of a dictionary, and bits below them
    u32 delta_bits, delta_shift;
    u32 delta_bytes;                     // in front of the numbers, if there is one
};

template <typename B>
struct LorenzoShared {
    using W = typename B::W;
    // The block's words, then its numbers, then the stage, at most as long as a block in RAW; and the residuals, then lists
    // of patches. With other maps than BITS they change places.
    Buffer<B> buffers[2];
    // What each warp knows of the words, or of its costs: bits that any or all have, and others.
    W any[B::kGroups], all[B::kGroups];
    u32 first_bits[B::kGroups], last_bits[B::kGroups];
    u32 lowest[B::kGroups], highest[B::kGroups];  // exponents
    alignas(16) u32 costs[B::kIsDense ? 26 : 14][B::kGroups];
    u32 lengths[B::kGroups][LengthCounts<W>::kCounts];
    uint4 sections[B::kGroups];  // bytes of a group's sections
    u32 n_nonzero, longest;   // numbers that are not 0, and their bits
    u32 tail_words[B::kGroups], tail_bits[B::kGroups], tail_bytes;  // of CUT, behind the numbers
    uint2 group_headers[B::kGroups];
    uint4 header;             // of the block, in SPLIT
    CtaSums<B::kGroups> sums;
    MaskState<B> mask;
    u32 nonzero[B::kElements / 32];  // marks, for SPARSE
    u32 sparse_bytes;             // of SPARSE
    Codes<B> codes;               // of HUFF and DICT
    bool is_list;
    W frequent;                   // the word that most samples have
    u32 n_frequent;               // how many have it
    u32 decimals;                 // with which samples are decimal fractions
    u32 shift;                    // t of BITS
    W middle;                     // of samples of the numbers that are looked at
    RowBox box;
    alignas(16) Orders cubic;  // 3 where the box has an extent
    u32 candidates;            // for the orders, as bits
    bool is_full;              // at least kMinDepth planes of 16 rows of 32
    Drawn drawn[2];
    u32 before;  // units of all blocks before
};
