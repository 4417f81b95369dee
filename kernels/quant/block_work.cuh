// The shared memory of a compressing CTA: its block. See the head of compress.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "layout.cuh"
#include "quantize.cuh"

constexpr u32 kCandidates = 9;  // orders that are tried first

template <typename W>
struct alignas(128) Buffer {
    // One step of rows after the numbers may be read.
    W words[kElements + kStepRows * kRow];
};

// Findings of threads about a block's elements, as bits.
enum Found : u32 {
    kWordsDiffer = 1,
    kCodesDiffer = 2,
    kUncoded = 4,  // some have no code
    kOutside = 8,  // some are not within the bound
    kFar = 16,     // numbers are too large for the method that was tried
};

// A block that is made, but not yet in the payload, or not yet counted.
struct PendingBlock {
    u32 exists, chunk, index;
    u32 n_units, before;  // of this block, and of all blocks before
    u32 stage;            // byte offset in the buffers
    CtaSums<kQuantWarps> sums;
};

template <typename W>
struct QuantShared {
    // Codes, then the stage; also residuals that are not in registers.
    Buffer<W> buffers[2];
    Quantizer<W> quantizer;
    u32 quantized_chunk;  // chunk that it is set for
    alignas(16) u32 found[kQuantWarps];
    alignas(16) u32 costs[kCandidates + 3][kQuantWarps];
    alignas(16) u32 narrow_costs[8];  // see narrow.cuh
    u32 narrow_middle;
    u32 narrow_misses;                // score of recent blocks that were not narrow
    u32 totals[kQuantWarps];
    u32 bitmap_totals[kQuantWarps];
    u32 n_of_length[72];     // groups of each length
    // The width that a group of this length gets, and its table entry in the upper half.
    u32 width_of_length[72];
    alignas(8) unsigned char table[kMaxWidths];
    u32 n_widths, group_bytes;
    u32 uncoded[kElements / 32], outliers[kElements / 32], fill_mask[kElements / 32];  // marks
    W first_word, first_code, middle, fill;
    u32 n_filled, n_outliers, bitmap_bytes;  // exceptions
    u32 is_bitmap_coded;
    RowBox box, next_box;
    BoxGrid grid;
    Ticket ticket, next;
    u32 is_found;  // whether `next` and its box are known
    // One per turn, then one that is copied at once.
    PendingBlock pending[4];
};
