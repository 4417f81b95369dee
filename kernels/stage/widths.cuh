// The bit lengths of a group's numbers, and the widths that pack them best; computed by one warp.

#pragma once

#include "../common/bits.cuh"
#include "../common/warp.cuh"
#include "groups.cuh"
#include "words.cuh"

// Histogram of bit lengths of a warp's numbers, in the warp's shared memory.
template <typename W>
struct LengthCounts {
    static constexpr u32 kBits = 8 * sizeof(W), kParts = kBits / kWarp, kCounts = kBits + 1;

    const u32 counts;  // address in shared memory

    __device__ __forceinline__ explicit LengthCounts(u32 (&counts)[kCounts]) : counts(shared_address(counts)) {
#pragma unroll
        for (u32 p = 0; p < kParts; ++p) counts[1 + p * kWarp + lane_id()] = 0;
        __syncwarp();
    }
    // The count of length 0 is not used, and is not cleared.
    __device__ __forceinline__ void add(W number) { asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(counts + 4 * bit_length(number)) : "memory"); }
    // Number of numbers longer than k bits, for the lane's k: its index and, for 64-bit words, its
    // index + 32.
    __device__ __forceinline__ void longer(u32 (&longer)[kParts]) const {
        __syncwarp();
        u32 above = 0;
#pragma unroll
        for (u32 p = kParts; p-- > 0;) {
            longer[p] = __shfl_sync(kAllLanes, warp_inclusive_sum(load_shared_4(counts + 4 * ((p + 1) * kWarp - lane_id()))), kWarp - 1 - lane_id()) + above;
            above = __shfl_sync(kAllLanes, longer[p], 0);
        }
    }
};

// Finds the cheapest widths, by the same rule as the CPU encoder. The low part of all numbers is
// packed. One or two further parts are patches, stored only for numbers that need them.
template <typename W>
__device__ __forceinline__ Widths choose_widths(const LengthCounts<W>& counts, u32 n, u32 rows) {
    constexpr u32 kParts = LengthCounts<W>::kParts;
    const u32 lane = lane_id();
    // The lane's widths are k = lane and, for 64-bit words, lane + 32.
    u32 longer[kParts], mx = 0, k0 = 0;
    counts.longer(longer);
#pragma unroll
    for (u32 p = 0; p < kParts; ++p) {
        mx += __popc(__ballot_sync(kAllLanes, longer[p] > 0));
        k0 += __popc(__ballot_sync(kAllLanes, 16 * longer[p] > 15 * n));
    }
    const auto longer_than = [&](u32 k) {
        const u32 low = __shfl_sync(kAllLanes, longer[0], k % 32), high = kParts == 2 ? __shfl_sync(kAllLanes, longer[kParts - 1], k % 32) : 0;
        return k >= 32 * kParts ? 0 : k >= 32 ? high : low;
    };
    const auto packed_bytes = [=](u32 k) { return (rows * k + 31) / 32 * 128; };
    const auto bytes = [](u32 bits) { return (bits + 7) / 8; };
    u32 best = packed_bytes(mx), k = mx, k2 = mx, h2 = 0;
    // On ties, the greatest first width and the least second width win: so the width is in the low
    // bits of the compared key.
    constexpr u32 kLow = 127;
    u32 own_packed[kParts], next_longer[kParts];
#pragma unroll
    for (u32 p = 0; p < kParts; ++p) {
        own_packed[p] = (packed_bytes(p * 32 + lane) + 4 * rows) * (kLow + 1) + kLow - (p * 32 + lane);
        const u32 next = __shfl_down_sync(kAllLanes, longer[p], 1);
        next_longer[p] = p + 1 < kParts && lane == 31 ? 0 : next;
    }
    if (kParts == 2) {
        const u32 across = __shfl_sync(kAllLanes, longer[kParts - 1], 0);
        if (lane == 31) next_longer[0] = across;
    }
    for (u32 round = 0; round < 3; ++round) {
        // The best first width for this second one.
        const bool is_twice = k2 < mx;
        const u32 rest = is_twice ? bytes(h2 * (mx - k2)) : 0;
        u32 key = ~0u;
#pragma unroll
        for (u32 p = 0; p < kParts; ++p) {
            const u32 own = p * 32 + lane, patches = bytes(longer[p] * (k2 - own)) + (is_twice ? bytes(longer[p]) : 0) + rest;
            if (own >= k0 && own < k2) key = min(key, own_packed[p] + patches * (kLow + 1));
        }
        key = warp_min_unsigned(key);
        // Fixed point reached.
        if (key / (kLow + 1) >= best) break;
        best = key / (kLow + 1), k = kLow - key % (kLow + 1);
        // The best second width for this first one.
        const u32 h = longer_than(k), marks = bytes(h), fixed = packed_bytes(k) + 4 * rows;
        key = ~0u;
#pragma unroll
        for (u32 p = 0; p < kParts; ++p) {
            const u32 own = p * 32 + lane + 1, again = own < mx ? marks + bytes(next_longer[p] * (mx - own)) : 0;
            if (own > k && own <= mx) key = min(key, (fixed + bytes(h * (own - k)) + again) * (kLow + 1) | own);
        }
        key = warp_min_unsigned(key);
        if (key / (kLow + 1) >= best) break;
        best = key / (kLow + 1), k2 = key % (kLow + 1), h2 = longer_than(k2);
    }
    Widths widths(rows, k, k2 - k, mx - k2, 0, 0);
    if (widths.e1) widths.n1 = longer_than(k);
    if (widths.e2) widths.n2 = h2;
    if (k0 == 0) widths.n_nonzero = longer_than(0);
    return widths;
}
