// Shared memory of a CTA that compresses blocks of 4096 elements. See the head of compress.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "layout.cuh"
#include "quantize.cuh"

constexpr u32 kCandidates = 9;  // combinations of orders that are tried first

template <typename W>
struct alignas(128) Buffer {
    // Reads may extend one step of rows past the numbers.
    W words[kElements + kStepRows * kRow];
};

// Properties of a block's elements that threads find, as flags.
enum Found : u32 {
    kWordsDiffer = 1,
    kCodesDiffer = 2,
    kUncoded = 4,  // some elements have no code
    kOutside = 8,  // some elements violate the bound
    kFar = 16,     // numbers are too large for the method that was tried
};

// An encoded block that is not yet copied to the payload, or not yet counted as complete.
struct PendingBlock {
    u32 exists, chunk, index;
    u32 n_units, before;  // length of this block, and of all blocks before it, in units
    u32 stage;            // byte offset in the buffers
    CtaSums<kQuantWarps> sums;
};

template <typename W>
struct QuantShared {
    // First the numbers, later the block's staging buffer; also residuals that are not in
    // registers.
    Buffer<W> buffers[2];
    Quantizer<W> quantizer;
    u32 quantized_chunk;  // chunk for which the quantizer is set
    alignas(16) u32 found[kQuantWarps];
    alignas(16) u32 costs[kCandidates + 3][kQuantWarps];
    alignas(16) u32 narrow_costs[8];  // see narrow.cuh
    u32 narrow_middle;
    u32 narrow_misses;                // score of recent blocks that were not narrow
    u32 totals[kQuantWarps];
    u32 bitmap_totals[kQuantWarps];
    u32 n_of_length[72];     // number of groups of each bit length
    // For each bit length: the width of such groups and, in the upper half, its index in `table`.
    u32 width_of_length[72];
    alignas(8) unsigned char table[kMaxWidths];
    u32 n_widths, group_bytes;
    u32 uncoded[kElements / 32], outliers[kElements / 32], fill_mask[kElements / 32];  // bitmaps
    W first_word, first_code, middle, fill;
    u32 n_filled, n_outliers, bitmap_bytes;  // exceptions, and bytes of the fill mask
    u32 is_bitmap_coded;
    RowBox box, next_box;
    BoxGrid grid;
    Ticket ticket, next;
    u32 is_found;  // whether `next` and its box are known
    // One per turn, then one for a block that is copied at once (see compress.cuh).
    PendingBlock pending[4];
};
