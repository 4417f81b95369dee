// Decodes masks. The masked elements of a block all have the same word, and no numbers are coded
// for them.
//
// The numbers of the unmasked elements are decoded first, contiguously, as if they were a block.
// Then the marks are decoded to shared memory, and the numbers are moved to their positions, from
// the end of the tile to its start. In each round, each warp moves a few rows through registers. A
// number never moves towards the start, so no unread number is overwritten.

#pragma once

#include "../common/tile.cuh"
#include "../common/warp.cuh"
#include "../stage/boxes.cuh"
#include "../stage/bitmap.cuh"
#include "../stage/words.cuh"
#include "layout.cuh"

// The header of a block's mask. The initial values describe a block without a mask.
struct MaskPlan {
    u32 n_masked = 0;
    u32 n_bytes = 0;  // size of the marks in bytes
    bool is_coded = false;
    u32 numbers = kHeaderBytes;  // start of the numbers of unmasked elements, in bytes from the block's start

    // Reads the mask header of a block of m elements. Returns a damage code, or 0 if the header is
    // sound.
    template <typename W>
    __device__ __forceinline__ u32 read(const unsigned char* block, u32 block_bytes, u32 m) {
        if (block_bytes < kHeaderBytes + kMaskHeaderBytes<W>) return kMarkCorrupt;
        const u32 counts = *reinterpret_cast<const u32*>(block + kHeaderBytes + sizeof(W));
        n_masked = counts & 0xffff, n_bytes = counts >> 16 & (kCodedMarks - 1), is_coded = counts >> 16 & kCodedMarks;
        numbers = kHeaderBytes + mask_bytes<W>(n_bytes);
        const bool is_sound = n_masked > 0 && n_masked < m && numbers <= block_bytes && (is_coded || n_bytes == (m + 31) / 32 * 4);
        return is_sound ? 0 : kMarkCorrupt;
    }
};

// A mask in shared memory. Called by all threads of a CTA.
template <typename Place, u32 kNumbers, u32 kThreads>
struct Mask {
    using W = typename Place::Word;
    Bitmap<kNumbers, kThreads> bitmap;
    W word;  // the word of masked elements

    // Reads the mask of a block. Returns false in all threads if it is damaged.
    __device__ __forceinline__ bool read(const unsigned char* block, const MaskPlan& plan, const Box& box) {
        if (threadIdx.x == 0) word = *reinterpret_cast<const W*>(block + kHeaderBytes);
        const unsigned char* const from = block + kHeaderBytes + kMaskHeaderBytes<W>;
        bool is_sound;
        if (plan.is_coded) {
            const CodedBitmap coded(from, plan.n_bytes, box.m);
            if (!coded.is_sound || coded.n_bytes != plan.n_bytes) return false;
            is_sound = bitmap.read(coded, box.m);
            if (box.sz * box.sy > 1) bitmap.undo_changes(box.m, box.sx);
        } else {
            is_sound = bitmap.read(reinterpret_cast<const u32*>(from), box.m);
        }
        return bitmap.count(box.m, plan.n_masked, is_sound);
    }

    // Moves the contiguous numbers at the start of the tile to their positions in a block of m
    // elements. Masked elements get 0.
    __device__ __forceinline__ void expand(unsigned char* tile, u32 m) const {
        constexpr u32 kN = 4, kStep = kN * kThreads / kWarp;  // rows per round: of a warp, and of all warps
        const u32 n_rows = (m + kRow - 1) / kRow;
        const auto number = [=](u32 row, u32 i) -> W& { return *reinterpret_cast<W*>(tile + Place::row(row) + Place::in_row(i)); };
#pragma unroll 1
        for (u32 first = (n_rows - 1) / kStep * kStep;; first -= kStep) {
            const u32 own = first + threadIdx.x / kWarp * kN;
            W v[kN];
#pragma unroll
            for (u32 r = 0; r < kN; ++r) {
                v[r] = 0;
                if (own + r >= n_rows || bitmap.has(own + r)) continue;
                const u32 from = (own + r) * kRow + lane_id() - bitmap.n_before(own + r);
                v[r] = number(from / kRow, from % kRow);
            }
            __syncthreads();
#pragma unroll
            for (u32 r = 0; r < kN; ++r) {
                if (own + r < n_rows) number(own + r, lane_id()) = v[r];
            }
            if (first == 0) return;
        }
    }
};
