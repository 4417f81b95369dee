// What the threads of a compressing CTA have in common: its block, in shared memory. See the head of compress.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "layout.cuh"

constexpr u32 kLogBlock = 12;
constexpr u32 kElements = 1 << kLogBlock;
constexpr u32 kGroups = kElements / kGroup;
constexpr u32 kLorenzoThreads = kGroups * kWarp;  // a warp a group

// How the elements of a block become numbers.
template <typename W>
struct Mapping {
    u32 map, shift;  // t or e, whatever e is of
    W base;
};

// The numbers of a block or what is made of them. A step of rows behind them can be read.
template <typename W>
struct alignas(128) Buffer {
    W words[kElements + kStepRows * kRow];
};

// The mask of a block, if it has one (mask_choice.cuh).
template <typename W>
struct MaskState {
    W word;
    bool is_used, is_coded;
    u32 n_masked, n_bytes;   // elements; bytes of their marks
    u32 all_bytes;           // of the mask
    u32 n_coded;             // numbers that are left
    u32 marks[kElements / 32];
    u32 totals[2][kGroups], firsts[kGroups];

    __device__ __forceinline__ bool has(u32 i) const { return marks[i / 32] >> i % 32 & 1; }
};
static_assert(kElements / 32 == kLorenzoThreads, "a thread has a word of marks");

template <typename W>
struct LorenzoShared {
    // The block's words, then its numbers, then the stage, at most as long as a block in RAW; and the residuals, then lists
    // of patches. With other maps than BITS they change places.
    Buffer<W> buffers[2];
    // What each warp knows of the words, or of its costs: bits that any or all have, and others.
    W any[kGroups], all[kGroups];
    u32 first_bits[kGroups], last_bits[kGroups];
    u32 lowest[kGroups], highest[kGroups];  // exponents
    alignas(16) u32 costs[14][kGroups];
    u32 lengths[kGroups][LengthCounts<W>::kCounts];
    uint4 sections[kGroups];  // bytes of a group's sections
    u32 n_nonzero, longest;   // numbers that are not 0, and their bits
    u32 tail_words[kGroups], tail_bits[kGroups], tail_bytes;  // of CUT, behind the numbers
    uint2 group_headers[kGroups];
    uint4 header;             // of the block, in SPLIT
    CtaSums<kGroups> sums;
    MaskState<W> mask;
    u32 nonzero[kElements / 32];  // marks, for SPARSE
    u32 sparse_bytes;             // of SPARSE
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
