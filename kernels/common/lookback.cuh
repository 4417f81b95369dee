// Decoupled look-back (Merrill and Garland): a prefix sum over tiles in the same pass that makes them.
//
// Every tile has one 64-bit state: value << 2 | status. It begins empty (0), then holds the tile's own
// sum (kOwn), at last the sum up to and including the tile (kPrefix). Value and status change in one
// store, so relaxed accesses are enough: nobody reads anything else on the strength of a state.
// Values have up to 62 bits; who knows that all sums fit 32 asks for u32, which is half the work.
//
// A tile waits for tiles before it only, and tiles are handed out in their order, so the first
// unfinished tile never waits: no deadlock, whatever CTAs are resident.

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

// Waits for the sum up to and including a tile.
__device__ __forceinline__ u64 await_prefix(const u64* state) {
    u64 value = load_state(state);
    while ((value & 3) != kPrefix) value = load_state(state);
    return value >> 2;
}

// Sum over all tiles before `tile`, by one warp, which looks at 32 tiles at a time. A narrow window is
// best: nearly always the tiles needed are among the 32 before.
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
            // Lanes behind the nearest prefix do not matter.
        } while (__any_sync(kAllLanes, (state & 3) == 0 && lane_id() <= first));
        sum += warp_sum(lane_id() <= first ? static_cast<Sum>(state >> 2) : 0);
        if (prefixes) break;
    }
    return sum;
}
