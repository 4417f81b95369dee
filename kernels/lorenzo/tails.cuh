// Writes the tails of a block whose map is CUT (stage/cut.cuh). Called by all threads of a
// compressing CTA. Each warp writes the tails of one group; each lane joins its tails to a string.
// The numbers determine the lengths of the tails. The bits of the tails are reread from the array,
// since the words in shared memory are overwritten before there is room for tails.

#pragma once

#include "../common/elements.cuh"
#include "../stage/cut.cuh"
#include "../stage/pack.cuh"
#include "block.cuh"
#include "load.cuh"
#include "orders.cuh"

// At level fast, CUT must save at least about 1/kCutSaving of the bits, because tails take time.
constexpr u32 kCutSaving = 32;

template <typename B>
struct Tails {
    using W = typename B::W;
    static constexpr u32 kBits = Word<W>::kBits;

    LorenzoShared<B>& shared;

    // Number of bits of the tails in the rows that are sampled for the orders. Contains barriers.
    __device__ __forceinline__ u32 sampled_bits(const W* numbers, u32 e) const {
        const RowBox& box = shared.box;
        const u32 length = box.is_line() ? kRow : box.sx, n_rows = (box.m + length - 1) / length;
        const auto sample = OrderChoice<B>::sample_of(n_rows);
        const bool is_masked = shared.mask.is_used;
        u32 bits = 0;
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += B::kGroups * sample.step) {
            for (u32 x = lane_id(); x < length; x += kWarp) {
                const u32 i = row * length + x;
                if (i < box.m && !(is_masked && shared.mask.has(i))) bits += tail_bits(size_of(numbers[i]), e);
            }
        }
        const OrderChoice<B> costs{shared};
        __syncthreads();
        costs.share_cost(0, warp_sum(bits));
        __syncthreads();
        return costs.cost_of(0);
    }

    // Stores the number of whole words, and of remaining bits, in the strings of the warp's group.
    // `bits` is the length of the lane's string.
    __device__ __forceinline__ void share_counts(u32 bits) const {
        const u32 words = warp_sum(bits / kBits), left = warp_sum(bits % kBits);
        if (lane_id() == 0) shared.tail_words[threadIdx.x / kWarp] = words, shared.tail_bits[threadIdx.x / kWarp] = left;
    }
    // Bytes of the whole words of all groups; and of all tails, including the remaining bits. A
    // barrier must separate share_counts() from these calls.
    __device__ __forceinline__ u32 word_bytes() const { return before(shared.tail_words, B::kGroups) * static_cast<u32>(sizeof(W)); }
    __device__ __forceinline__ u32 n_bytes() const { return word_bytes() + (before(shared.tail_bits, B::kGroups) + 7) / 8; }

    // Writes the tails to the stage, which contains zeros from byte `begin` (a multiple of 8) on.
    __device__ __forceinline__ void write(const BlockLoader<B>& loader, const char* array, u32 e, unsigned char* stage, u32 begin) const {
        constexpr u32 kAtOnce = 4;  // rows with loads in flight
        const u32 group = threadIdx.x / kWarp, below = lanes_below(), first = group * kGroup + lane_id();
        u32 to = shared_address(stage) + begin + before(shared.tail_words, group) * static_cast<u32>(sizeof(W));
        // The array may have changed since the tails were counted, so all writes are limited to the
        // room for tails, which ends at `end`.
        const u32 end = shared_address(stage) + begin + shared.tail_bytes;
        W string = 0;  // bits that do not fill a word yet
        u32 filled = 0;
        const typename BlockLoader<B>::Finder elements(loader);
        const bool swaps = loader.args.flags & kSwapBytes;
        const auto word_at = [=](const char* at) {
            const W word = *reinterpret_cast<const W*>(at);
            return swaps ? swapped_bytes(word) : word;
        };
        const u32 m = shared.box.m;
        const bool is_masked = shared.mask.is_used;
#pragma unroll 1
        for (u32 i = first; i < first + kGroup; i += kAtOnce * kRow) {
            W words[kAtOnce];
#pragma unroll
            for (u32 k = 0; k < kAtOnce; ++k) {
                const u32 own = i + k * kRow;
                words[k] = own < m && !(is_masked && shared.mask.has(own)) ? word_at(elements.find(array, own, sizeof(W) << loader.args.own.log_parts)) : 0;
            }
#pragma unroll
            for (u32 k = 0; k < kAtOnce; ++k) {
                u32 n;
                const W tail = tail_of_float(words[k], e, n);
                const W all = string | tail << filled;
                filled += n;
                const bool is_full = filled >= kBits;
                const u32 full = __ballot_sync(kAllLanes, is_full);
                string = all;
                if (is_full) {
                    const u32 at = to + __popc(full & below) * static_cast<u32>(sizeof(W));
                    if (likely(at + static_cast<u32>(sizeof(W)) <= end)) store_shared(at, all);
                    // The rest of the tail begins the next word.
                    filled -= kBits;
                    string = filled > 0 ? tail >> (n - filled) : 0;
                }
                to += __popc(full) * static_cast<u32>(sizeof(W));
            }
        }
        const u32 at = 8 * (begin + word_bytes()) + before(shared.tail_bits, group) + warp_inclusive_sum(filled) - filled;
        if (filled > 0 && likely(at + filled <= 8 * (begin + shared.tail_bytes))) add_bits(shared_address(stage), at, string);
    }

    // Sum of the counts of all groups before `group`.
    static __device__ __forceinline__ u32 before(const u32 (&counts)[B::kGroups], u32 group) {
        u32 sum = 0;
#pragma unroll
        for (u32 g = 0; g < B::kGroups; ++g) sum += g < group ? counts[g] : 0;
        return sum;
    }
};
