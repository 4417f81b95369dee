// Reads the tails of a block whose map is CUT (stage/cut.cuh). Called by all threads of a
// decompressing CTA. Each warp reads the tails of some groups; in each group, a lane reads one
// string of tails.
//
// The words of a group's strings are stored in the order of the tails that contain their last bits.
// So strings are decoded backwards: the remaining bits first, then another word whenever a tail
// starts before the bits at hand. The lengths of tails are known, so the words for several rows
// are loaded together.

#pragma once

#include "../common/warp.cuh"
#include "../stage/cut.cuh"
#include "../stage/groups.cuh"
#include "../stage/unpack.cuh"
#include "layout.cuh"
#include "mask.cuh"

// Reader of tails, in shared memory. Place: layout of the numbers in the tile.
template <typename Place, u32 kNumbers, u32 kWarps>
struct TailReader {
    using W = typename Place::Word;
    static constexpr u32 kBits = Word<W>::kBits, kTailGroups = kNumbers / kGroup;

    u32 lane_bits[kTailGroups][kWarp];          // length of each string in bits
    u32 words[kTailGroups], left[kTailGroups];  // per group: number of whole words, and of remaining bits

    // Replaces the m numbers of a tile by their floats, and masked ones by the mask's word. `mask`
    // is null if there is none. The tails begin at byte `begin` of a block, a multiple of 8.
    // Returns false in all threads if the tails do not end where the block does. Sets `damaged` in
    // each thread that finds a number out of range. Contains a barrier.
    template <typename Mask>
    __device__ __forceinline__ bool read(unsigned char* tile, u32 m, const Mask* mask, W base, u32 e, const unsigned char* block,
                                         u32 begin, u32 block_bytes, bool& damaged) {
        constexpr u32 kAtOnce = 4;  // rows whose words are loaded together
        const u32 lane = lane_id(), below = lanes_below(), n_groups = (m + kGroup - 1) / kGroup;
        const auto number = [=](u32 row) -> W& { return *reinterpret_cast<W*>(tile + Place::row(row) + Place::in_row(lane)); };
        const auto bits_of = [=](u32 row, W v) {
            const bool has_tail = row * kRow + lane < m && !(mask && mask->bitmap.has(row));
            return has_tail ? tail_bits(size_of(v), e) : 0;
        };
#pragma unroll 1
        for (u32 g = threadIdx.x / kWarp; g < n_groups; g += kWarps) {
            u32 bits = 0;
#pragma unroll 4
            for (u32 row = g * kGroupRows; row < (g + 1) * kGroupRows; ++row) bits += bits_of(row, number(row) + base);
            lane_bits[g][lane] = bits;
            const u32 n_words = warp_sum(bits / kBits), n_left = warp_sum(bits % kBits);
            if (lane == 0) words[g] = n_words, left[g] = n_left;
        }
        __syncthreads();
        u32 all_words = 0, all_left = 0;
#pragma unroll 1
        for (u32 g = 0; g < n_groups; ++g) all_words += words[g], all_left += left[g];
        const u32 n_bytes = all_words * static_cast<u32>(sizeof(W)) + (all_left + 7) / 8;
        if (n_bytes > block_bytes - begin || block_bytes - begin - n_bytes >= kUnitBytes) return false;
        u32 behind = 0, left_before = 0;
#pragma unroll 1
        for (u32 g = 0; g < n_groups; ++g) {
            behind += words[g];
            if (g % kWarps != threadIdx.x / kWarp) {
                left_before += left[g];
                continue;
            }
            // `from`: end of the group's words that have not been read. `there`: the n_there bits
            // at hand, first the remaining bits of the lane's string.
            const W* from = reinterpret_cast<const W*>(block + begin) + behind;
            u32 n_there = lane_bits[g][lane] % kBits;
            const u32 at = all_words * kBits + left_before + warp_inclusive_sum(n_there) - n_there;
            W there = n_there > 0 ? load_bits(reinterpret_cast<const u32*>(block + begin), at, n_there, W()) : 0;
            left_before += left[g];
#pragma unroll 1
            for (u32 row = (g + 1) * kGroupRows; row > g * kGroupRows; row -= kAtOnce) {
                u32 bits[kAtOnce];
                W next[kAtOnce];
                u32 n = n_there;
#pragma unroll
                for (u32 k = 0; k < kAtOnce; ++k) {
                    bits[k] = bits_of(row - 1 - k, number(row - 1 - k) + base);
                    const bool takes = bits[k] > n;
                    const u32 takers = __ballot_sync(kAllLanes, takes);
                    from -= __popc(takers);
                    next[k] = takes ? from[__popc(takers & below)] : 0;
                    n += (takes ? kBits : 0) - bits[k];
                }
#pragma unroll
                for (u32 k = 0; k < kAtOnce; ++k) {
                    // If the bits at hand suffice, the tail is their upper bits. Otherwise it is
                    // the upper bits of the next word, with all bits at hand above them.
                    const bool takes = bits[k] > n_there;
                    const u32 n_upper = takes ? bits[k] - n_there : bits[k];
                    n_there += (takes ? kBits : 0) - bits[k];
                    const W source = takes ? next[k] : there;
                    W tail = source >> n_there;
                    if (takes && n_upper < kBits) tail |= there << n_upper;
                    there = source & low_bits(W(), n_there);
                    W& own = number(row - 1 - k);
                    const W v = own + base;
                    if (mask && mask->bitmap.has(row - 1 - k)) {
                        own = mask->word;
                    } else if ((row - 1 - k) * kRow + lane < m) {
                        own = float_of_cut(v, tail, bits[k], e, damaged);
                    }
                }
            }
        }
        return true;
    }
};
