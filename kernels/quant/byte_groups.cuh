// Writes groups of eight numbers: chooses the widths of a block, and writes its groups' bytes.

#pragma once

#include "../stage/pack.cuh"
#include "block_work.cuh"

// The smallest width in `present` above 32·slot + lane, or ~0 if there is none.
template <u32 kSlots>
__device__ __forceinline__ u32 next_width(const u32 (&present)[kSlots], u32 slot, u32 lane) {
    u32 next = ~0u;
#pragma unroll
    for (u32 k = kSlots; k-- > 0;) {
        const u32 later = k > slot ? present[k] : k == slot ? present[k] & (0xfffffffeu << lane) : 0;
        if (later) next = k * 32 + __ffs(later) - 1;
    }
    return next;
}

// Chooses the widths of a block, given the number of groups of each bit length, by the same rule as
// the CPU encoder: it repeatedly removes the width whose removal lengthens the groups the least.
// Called by one warp. No length exceeds kLongest.
template <u32 kLongest, typename W>
__device__ __forceinline__ void choose_table(QuantShared<W>& shared, u32 n_groups) {
    // Slot k of a lane stands for width 32·k + lane.
    constexpr u32 kSlots = kLongest / 32 + 1;
    const u32 lane = lane_id();
    u32 counts[kSlots], present[kSlots], best_present[kSlots] = {};
    u32 n_bytes = 0, n = 0;
#pragma unroll
    for (u32 k = 0; k < kSlots; ++k) {
        const u32 width = k * 32 + lane;
        counts[k] = width <= kLongest ? shared.n_of_length[width] : 0;
        n_bytes += counts[k] * width;
        present[k] = __ballot_sync(kAllLanes, counts[k] > 0);
        n += __popc(present[k]);
    }
    n_bytes = warp_sum(n_bytes);
    u32 best = ~0u, best_n = 1, best_bytes = 0;
#pragma unroll 1
    for (;;) {
        if (n <= kMaxWidths) {
            const u32 all = n_bytes + n + (n_groups * index_bits(n) + 7) / 8;
            if (all < best) {
                best = all, best_n = n, best_bytes = n_bytes;
#pragma unroll
                for (u32 k = 0; k < kSlots; ++k) best_present[k] = present[k];
            }
        }
        if (n == 1) break;
        u32 key = ~0u;
#pragma unroll
        for (u32 k = 0; k < kSlots; ++k) {
            const u32 next = next_width<kSlots>(present, k, lane);
            if (present[k] >> lane & 1 && next != ~0u) key = min(key, counts[k] * (next - k * 32 - lane) << 8 | (k * 32 + lane));
        }
        key = warp_min_unsigned(key);
        // Each further removal costs at least as much as this one. This tests whether `fewer`
        // widths could still be better.
        const auto may_be_better = [&](u32 fewer) {
            return fewer < n && n_bytes + (n - fewer) * (key >> 8) + fewer + (n_groups * index_bits(fewer) + 7) / 8 < best;
        };
        if (n <= kMaxWidths && !may_be_better(n - 1) && !may_be_better(4) && !may_be_better(2) && !may_be_better(1)) break;
        const u32 removed = key & 0xff, slot = removed / 32;
        n_bytes += key >> 8, --n;
        u32 moved = 0;
#pragma unroll
        for (u32 k = 0; k < kSlots; ++k) {
            const u32 own = __shfl_sync(kAllLanes, counts[k], removed % 32);
            if (k == slot) moved = own;
        }
        u32 next = ~0u;
#pragma unroll
        for (u32 k = 0; k < kSlots; ++k) {
            if (k != slot) continue;
            next = next_width<kSlots>(present, k, removed % 32);
            present[k] &= ~(1u << removed % 32);
        }
#pragma unroll
        for (u32 k = 0; k < kSlots; ++k) {
            if (next == k * 32 + lane) counts[k] += moved;
        }
    }
    u32 before = 0;
#pragma unroll
    for (u32 k = 0; k < kSlots; ++k) {
        const u32 length = k * 32 + lane, entry = before + __popc(best_present[k] & lanes_below()), is_width = best_present[k] >> lane & 1;
        const u32 width = is_width ? length : next_width<kSlots>(best_present, k, lane);
        if (length <= kLongest) shared.width_of_length[length] = entry << 16 | (width & 0xff);
        if (is_width) shared.table[entry] = static_cast<unsigned char>(length);
        before += __popc(best_present[k]);
    }
    if (lane == 0) shared.n_widths = best_n, shared.group_bytes = best_bytes;
}
// ORs a group of numbers, with `width` bits each, into zeroed shared memory, from byte `at` on.
template <typename N>
__device__ __forceinline__ void add_group(const N (&r)[kByteGroup], u32 width, u32 at) {
#pragma unroll
    for (u32 p = 0; p < sizeof(N); ++p) {
        if (8 * p >= width) break;
        const u32 bits = min(width - 8 * p, 8u);
        u32 fields[2];
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            u32 words[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) words[i] = static_cast<u32>(static_cast<u64>(r[4 * h + i]) >> p / 4 * 32);
            constexpr u32 select = 0x40;
            const u32 low = __byte_perm(words[0], words[1], select + p % 4 * 0x11), high = __byte_perm(words[2], words[3], select + p % 4 * 0x11);
            const u32 bytes = __byte_perm(low, high, 0x5410);
            const u32 pairs = (bytes & 0x00ff00ffu) | (bytes >> 8 & 0x00ff00ffu) << bits;
            fields[h] = (pairs & 0xffff) | pairs >> 16 << 2 * bits;
        }
        const u64 string = fields[0] | static_cast<u64>(fields[1]) << 4 * bits;
        const u32 low = static_cast<u32>(string), high = static_cast<u32>(string >> 32), to = (at + 8 * p) & ~3u, shift = (at & 3) * 8;
        or_shared(to, low << shift);
        const u32 second = __funnelshift_l(low, high, shift), third = __funnelshift_l(high, 0, shift);
        if (second) or_shared(to + 4, second);
        if (third) or_shared(to + 8, third);
    }
}
