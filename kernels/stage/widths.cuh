// How long the numbers of a group are, and the widths that pack them best; all by one warp.

#pragma once

#include "../common/bits.cuh"
#include "../common/warp.cuh"
#include "groups.cuh"

// Transposes 32×32 bit matrices of which each lane has a row.
struct Transposition {
    // By steps of 16 and 8 whole bytes are exchanged.
    u32 bytes[2];
    // By steps of 4, 2 and 1 the other lane's row is rotated, and has the bits that are not in the mask.
    u32 rotations[3], masks[3];

    __device__ __forceinline__ Transposition() {
        bytes[0] = lane_id() & 16 ? 0x3276 : 0x5410;
        bytes[1] = lane_id() & 8 ? 0x3715 : 0x6240;
#pragma unroll
        for (u32 i = 0; i < 3; ++i) {
            const u32 step = 4 >> i, lower = 0xffffffffu / ((1u << step) + 1);
            rotations[i] = lane_id() & step ? 32 - step : step;
            masks[i] = lane_id() & step ? ~lower : lower;
        }
    }
    __device__ __forceinline__ u32 operator()(u32 row) const {
#pragma unroll
        for (u32 i = 0; i < 2; ++i) row = __byte_perm(row, __shfl_xor_sync(kAllLanes, row, 16 >> i), bytes[i]);
#pragma unroll
        for (u32 i = 0; i < 3; ++i) {
            const u32 other = __shfl_xor_sync(kAllLanes, row, 4 >> i);
            row = select_bits(masks[i], row, __funnelshift_l(other, other, rotations[i]));
        }
        return row;
    }
};

// Adds three bits at every position: sum, and carry of twice the weight.
__device__ __forceinline__ void add_three(u32& carry, u32& sum, u32 a, u32 b) {
    carry = (sum & a) | (sum & b) | (a & b);
    sum = sum ^ a ^ b;
}

// How many numbers of the warp are longer than k bits, for every k. Until counted() each lane counts its own, at most 32
// of them: bit k of plane p is bit p of the count for k.
struct BitPlanes {
    u32 planes[6] = {};

    // Eight numbers: each has ones for all k below its length.
    __device__ __forceinline__ void add(const u32 (&longer)[8]) {
        u32 twos[4], fours[2], eights;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) add_three(twos[i], planes[0], longer[2 * i], longer[2 * i + 1]);
        add_three(fours[0], planes[1], twos[0], twos[1]);
        add_three(fours[1], planes[1], twos[2], twos[3]);
        add_three(eights, planes[2], fours[0], fours[1]);
#pragma unroll
        for (u32 p = 3; p < 6; ++p) {
            const u32 carry = planes[p] & eights;
            planes[p] ^= eights;
            eights = carry;
        }
    }
    // Of all lanes, for the lane's k.
    __device__ __forceinline__ u32 counted(const Transposition& transposed) const {
        u32 count = 0;
#pragma unroll
        for (u32 p = 0; p < 6; ++p) count += __popc(transposed(planes[p])) << p;
        return count;
    }
};

// Ones for all bits that a number has up to its highest. There are 2^32 - 1 zeros above that of 0; so far is shifted to
// zero.
__device__ __forceinline__ u32 ones_up_to_highest(u32 number) {
    u32 above, ones;
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(above) : "r"(number));
    asm("shr.u32 %0, %1, %2;" : "=r"(ones) : "r"(~0u), "r"(above));
    return ones;
}

template <typename W>
struct BitCounts {
    static constexpr u32 kParts = sizeof(W) / 4;
    BitPlanes parts[kParts];

    __device__ __forceinline__ void add(const W (&numbers)[8]) {
        u32 longer[kParts][8];
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            const u32 low = static_cast<u32>(numbers[i]), high = static_cast<u32>(static_cast<u64>(numbers[i]) >> 32);
            longer[0][i] = kParts == 2 && high ? ~0u : ones_up_to_highest(low);
            if (kParts == 2) longer[kParts - 1][i] = ones_up_to_highest(high);
        }
#pragma unroll
        for (u32 p = 0; p < kParts; ++p) parts[p].add(longer[p]);
    }
};

// The cheapest widths by the rule of the format's writer: the longest part of the numbers that all have is packed, one or
// two more parts are patched where they are needed.
template <typename W>
__device__ __forceinline__ Widths choose_widths(const BitCounts<W>& counts, u32 n, u32 rows) {
    constexpr u32 kParts = BitCounts<W>::kParts;
    const u32 lane = lane_id();
    // The lane has widths k = lane and, of words of 64 bits, lane + 32.
    const Transposition transposed;
    u32 longer[kParts], mx = 0, k0 = 0;
#pragma unroll
    for (u32 p = 0; p < kParts; ++p) {
        longer[p] = counts.parts[p].counted(transposed);
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
    // Of equal costs the first width is the greatest, the second the least: so they are the low bits of what is compared.
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
        // The first width for this second one.
        const bool is_twice = k2 < mx;
        const u32 rest = is_twice ? bytes(h2 * (mx - k2)) : 0;
        u32 key = ~0u;
#pragma unroll
        for (u32 p = 0; p < kParts; ++p) {
            const u32 own = p * 32 + lane, patches = bytes(longer[p] * (k2 - own)) + (is_twice ? bytes(longer[p]) : 0) + rest;
            if (own >= k0 && own < k2) key = min(key, own_packed[p] + patches * (kLow + 1));
        }
        key = warp_min_unsigned(key);
        // If this changes nothing, nor will the rest.
        if (key / (kLow + 1) >= best) break;
        best = key / (kLow + 1), k = kLow - key % (kLow + 1);
        // The second width for this first one.
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
