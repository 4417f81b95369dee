// Decoupled look-back (Merrill and Garland): computes a prefix sum over tiles in the same pass that
// computes the summands.
//
// Every tile has one 64-bit state: value << 2 | status. It starts empty (0), then holds the tile's
// own sum (kOwn), and finally the inclusive prefix sum (kPrefix). One store changes value and
// status together, and readers of a state rely on no other data, so relaxed accesses suffice.
// Values have up to 62 bits. If all sums fit 32 bits, use Sum = u32, which halves the work.
//
// A tile only waits for lower-numbered tiles, and tiles are handed out in order. So the first
// unfinished tile never waits: there is no deadlock, whichever CTAs are resident.

#pragma once

#include "types.cuh"
#include "warp.cuh"

constexpr u64 kOwn = 1;
constexpr u64 kPrefix = 2;

__device__ __forceinline__ u64 load_state(const u64* state) {
    u64 value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(state) : "memory");
    return value;
}

__device__ __forceinline__ void publish_state(u64* state, u64 value, u64 status) {
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(state), "l"(value << 2 | status) : "memory");
}

// Waits for the inclusive prefix sum of a tile, and returns it.
__device__ __forceinline__ u64 await_prefix(const u64* state) {
    u64 value = load_state(state);
    while ((value & 3) != kPrefix) value = load_state(state);
    return value >> 2;
}

// Sum over all tiles before `tile`. Called by one warp, which reads 32 states at a time. A narrow
// window is best: the needed states are nearly always among the 32 preceding ones.
template <typename Sum>
__device__ __forceinline__ Sum look_back(const u64* states, u32 tile) {
    Sum sum = 0;
    for (s32 window = static_cast<s32>(tile) - 1; window >= 0; window -= kWarp) {
        const s32 mine = window - static_cast<s32>(lane_id());
        u64 state = kPrefix;
        u32 prefixes, first;
        do {
            if (mine >= 0) state = load_state(states + mine);
            prefixes = __ballot_sync(kAllLanes, (state & 3) == kPrefix);
            first = prefixes ? __ffs(prefixes) - 1 : kWarp - 1;
            // Lanes beyond the nearest prefix do not matter.
        } while (__any_sync(kAllLanes, (state & 3) == 0 && lane_id() <= first));
        sum += warp_sum(lane_id() <= first ? static_cast<Sum>(state >> 2) : 0);
        if (prefixes) break;
    }
    return sum;
}
