// The tails of a block whose map is CUT (stage/cut.cuh), by all threads of a compressing CTA. A warp has those of a group. The
// numbers say how long they are; their bits are read from the array again, since the words are gone when there is room for them.

#pragma once

#include "../common/elements.cuh"
#include "../stage/cut.cuh"
#include "../stage/pack.cuh"
#include "block.cuh"
#include "load.cuh"
#include "orders.cuh"

// Tails take time: CUT must save this part of the bits.
constexpr u32 kCutSaving = 32;

template <typename W>
struct Tails {
    LorenzoShared<W>& shared;

    // Bits of the tails in the rows that orders are chosen by. Barriers.
    __device__ __forceinline__ u32 sampled_bits(const W* numbers, u32 e) const {
        const RowBox& box = shared.box;
        const u32 length = box.is_line() ? kRow : box.sx, n_rows = (box.m + length - 1) / length;
        const typename OrderChoice<W>::Sample sample(n_rows);
        u32 bits = 0;
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += kGroups * sample.step) {
            for (u32 x = lane_id(); x < length; x += kWarp) bits += bits_of(numbers, row * length + x, e);
        }
        const OrderChoice<W> costs{shared};
        __syncthreads();
        costs.share_cost(0, warp_sum(bits));
        __syncthreads();
        return costs.cost_of(0);
    }

    // Finds how many bits each group has. Barriers.
    __device__ __forceinline__ void count(const W* numbers, u32 e) const {
        u32 bits = 0;
#pragma unroll 1
        for (u32 i = 0; i < kGroup; i += kWarp) bits += bits_of(numbers, first() + i, e);
        bits = warp_sum(bits);
        if (lane_id() == 0) shared.tail_bits[threadIdx.x / kWarp] = bits;
        __syncthreads();
        if (threadIdx.x != 0) return;
        bits = 0;
        for (u32 g = 0; g < kGroups; ++g) bits += shared.tail_bits[g];
        shared.tail_bytes = (bits + 7) / 8;
    }

    // Adds the tails to zeros from byte `begin` of the stage on.
    __device__ __forceinline__ void write(const BlockLoader<W>& loader, const char* array, u32 e, unsigned char* stage, u32 begin) const {
        u32 at = 8 * begin;
        for (u32 g = 0; g < threadIdx.x / kWarp; ++g) at += shared.tail_bits[g];
#pragma unroll 1
        for (u32 k = 0; k < kGroup; k += kWarp) {
            const u32 i = first() + k;
            W word = has_tail(i) ? loader.word(array, i) : 0;
            const u32 n_cut = min(e - exponent_of(word), Word<W>::kBits - 1);
            u32 n = word == 0 ? 0 : Word<W>::kBits;
            if (fraction_of(word) >> n_cut > 1) n = n_cut, word = fraction_of(word) & low_bits(W(), n_cut);
            const u32 through = warp_inclusive_sum(n);
            if (n > 0) add_bits(shared_address(stage), at + through - n, word);
            at += __shfl_sync(kAllLanes, through, kWarp - 1);
        }
    }

    // The lane's first element of the warp's group.
    __device__ __forceinline__ u32 first() const { return threadIdx.x / kWarp * kGroup + lane_id(); }
    __device__ __forceinline__ bool has_tail(u32 i) const { return i < shared.box.m && !(shared.mask.is_used && shared.mask.has(i)); }
    __device__ __forceinline__ u32 bits_of(const W* numbers, u32 i, u32 e) const { return has_tail(i) ? tail_bits(size_of(numbers[i]), e) : 0; }
};
