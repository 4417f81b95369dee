// Chooses the orders of differences that make the groups of a block shortest, by the same rules as
// the CPU encoder. Some rows are differenced with each candidate; its cost is the bit length of the
// longest of every eight residuals, summed up. Called by all threads of a CTA.

#pragma once

#include "numbers.cuh"

template <typename W, bool kRows>
struct QuantOrders {
    using N = typename Numbers<W, kRows>::N;
    static constexpr u32 kCubic = kCandidates - 1, kQuadratic = kCandidates, kHigher = kCandidates + 1;

    QuantShared<W>& shared;
    const Numbers<W, kRows> numbers;

    __device__ __forceinline__ explicit QuantOrders(QuantShared<W>& shared) : shared(shared), numbers(shared) {}

    // The first candidates: order 0 or 1 on each axis, then order 3 on all axes longer than 1. Bit
    // c of a constant is the order of candidate c.
    static constexpr u32 kAlongZ = 0xf0, kAlongY = 0xac, kAlongX = 0x3a;
    static_assert(((kAlongZ >> 6 & 1) | (kAlongY >> 7 & 1)) == 1, "(1, 0, 0) and (1, 1, 0) are the last");
    __device__ __forceinline__ Orders candidate(u32 c) const {
        if (c < kCubic) return Orders{kAlongZ >> c & 1, kAlongY >> c & 1, kAlongX >> c & 1};
        return Orders{shared.box.sz > 1 ? 3u : 0u, shared.box.sy > 1 ? 3u : 0u, shared.box.sx > 1 ? 3u : 0u};
    }
    __device__ __forceinline__ bool exists(u32 c) const {
        const RowBox& box = shared.box;
        const u32 missing = (box.sz == 1 ? kAlongZ : 0) | (box.sy == 1 ? kAlongY : 0) | (box.sx == 1 ? kAlongX : 0);
        return !(missing >> c & 1);
    }

    // Whether there are several planes, and rows that follow each other along z have the same
    // swizzle in shared memory.
    __device__ __forceinline__ bool is_even() const { return shared.box.sz > 1 && shared.box.sy % 8 == 0; }

    using Sample = RowSample<13>;

    // The fifth of eight sorted samples. `first` was subtracted from the numbers; the result lacks
    // it, too. Called by all threads of a warp.
    __device__ __forceinline__ N middle(N first) const {
        constexpr u32 kSamples = 8;
        const u32 j = lane_id() % kSamples;
        const N own = numbers[j * shared.box.m / kSamples], key = (own + first) ^ kTopBit<N>;
        u32 rank = 0;
#pragma unroll
        for (u32 i = 0; i < kSamples; ++i) {
            const N other = __shfl_sync(kAllLanes, key, i);
            rank += other < key || (other == key && i < j);
        }
        return __shfl_sync(kAllLanes, own, __ffs(__ballot_sync(kAllLanes, rank == kSamples / 2)) - 1);
    }

    // Chooses the orders, and the base relative to the first number. Has barriers.
    __device__ __forceinline__ void choose(N first, Orders& best, N& base) const {
        if (threadIdx.x >= kQuantThreads - kWarp) {
            const N own = middle(first);
            if (lane_id() == 0) shared.middle = own;
            if (kRows && !shared.box.is_line()) middle_cost(own);
        }
        if (kRows && !shared.box.is_line()) {
            first_costs();
            if (likely(is_even())) {
                high_costs();
            } else {
                share_cost(kCubic, cost(0, candidate(kCubic)));
            }
        } else {
            __syncthreads();
            const bool are_short = !kRows && shared.box.sx <= kRow;
            if (are_short) short_costs();
#pragma unroll 1
            for (u32 c = are_short ? kCubic : 0; c <= kCubic; ++c) {
                if (exists(c)) share_cost(c, cost(c == 0 ? static_cast<N>(shared.middle) : 0, candidate(c)));
            }
        }
        __syncthreads();
        const u32 mine = min(lane_id(), kCubic), key = warp_min_unsigned(exists(mine) ? cost_of(mine) << 4 | mine : ~0u);
        u32 lowest = key / 16;
        best = candidate(key % 16);
        u32 order = max(max(best.z, best.y), best.x);
        base = order == 0 ? static_cast<N>(shared.middle) : 0;
        if (order == 0) return;
        // The costs of orders 2 and 3 along all axes may be known.
        const bool are_known = kRows && is_even() && best.z > 0 && best.y > 0 && best.x > 0;
#pragma unroll 1
        while (order < kMaxOrder) {
            ++order;
            const Orders o{best.z > 0 ? order : 0, best.y > 0 ? order : 0, best.x > 0 ? order : 0};
            // Alternates between two places, so that no thread still reads the one that is written.
            u32 place = kHigher + order % 2;
            if (are_known && order <= 3) {
                place = order == 2 ? kQuadratic : kCubic;
            } else {
                share_cost(place, cost(0, o));
                __syncthreads();
            }
            const u32 other = cost_of(place);
            if (other >= lowest) break;
            lowest = other, best = o;
        }
    }
    __device__ __forceinline__ void share_cost(u32 place, u32 own) const {
        if (lane_id() == 0) shared.costs[place][threadIdx.x / kWarp] = own;
    }
    __device__ __forceinline__ u32 cost_of(u32 c) const {
        const uint4 costs = *reinterpret_cast<const uint4*>(shared.costs[c]);
        return costs.x + costs.y + costs.z + costs.w;
    }

    // The warp's share of the cost of any orders.
    __device__ __forceinline__ u32 cost(N base, const Orders& o) const { return cost(base, o, numbers); }

    // For rows of any length: a warp handles a row.
    __device__ __forceinline__ u32 cost(W base, const Orders& o, const Numbers<W, false>& numbers) const {
        const RowBox& box = shared.box;
        const bool is_line = box.is_line();
        const Sample sample(box.n_existing_rows());
        const Differences<W, kQuantWarps> differences{box};
        u32 cost = 0;
#pragma unroll 1
        for (u32 i = threadIdx.x / kWarp; i < sample.n; i += kQuantWarps) {
            const u32 row = sample.first + i * sample.step;
            const u32 begin = is_line ? row * kRow : 0, end = is_line ? min(begin + kRow, box.m) : box.sx;
#pragma unroll 1
            for (u32 x = begin; x < end; x += kRow) {
                W r = differences.residual(numbers.at, base, o, is_line ? 0 : row, x);
                if (x + lane_id() >= end) r = 0;
#pragma unroll
                for (u32 step = 1; step < kByteGroup; step *= 2) r |= __shfl_xor_sync(kAllLanes, r, step);
                cost += lane_id() % kByteGroup == 0 ? bit_length(r) : 0;
            }
        }
        return warp_sum(cost);
    }

    // The warp's share of the costs of all candidates except the last one, in a box with rows of at
    // most 32.
    __device__ __forceinline__ void short_costs() const { short_costs(numbers); }
    __device__ __forceinline__ void short_costs(const Numbers<W, true>&) const {}
    __device__ __forceinline__ void short_costs(const Numbers<W, false>& numbers) const {
        const RowBox& box = shared.box;
        const Sample sample(box.n_existing_rows());
        const u32 x = min(lane_id(), box.sx - 1);
        const W between = static_cast<W>(shared.middle);
        u32 costs[kCubic] = {};
#pragma unroll 1
        for (u32 i = threadIdx.x / kWarp; i < sample.n; i += kQuantWarps) {
            const u32 row = sample.first + i * sample.step;
            u32 y;
            const u32 z = box.planes.divide(row, y);
            // Numbers that do not exist are zeros.
            const W* const at = numbers.at + row * box.sx + x;
            const W own = *at, above = row > 0 ? *(at - box.sx) : 0, behind = z > 0 ? *(at - box.sy * box.sx) : 0;
            const W both = z > 0 && y > 0 ? *(at - box.sy * box.sx - box.sx) : 0;
            const W along_y = own - above, along_z = own - behind;
            W d[kCubic] = {own - between, own, along_y, along_y, along_z, along_z - (y > 0 ? above - both : 0), along_z, 0};
            d[7] = d[5];
#pragma unroll
            for (u32 c = 0; c < kCubic; ++c) {
                if (kAlongX >> c & 1) {
                    const W left = __shfl_up_sync(kAllLanes, d[c], 1);
                    if (lane_id() > 0) d[c] -= left;
                }
                W any = lane_id() < box.sx ? d[c] ^ d[c] << 1 : 0;
#pragma unroll
                for (u32 step = 1; step < kByteGroup; step *= 2) any |= __shfl_xor_sync(kAllLanes, any, step);
                costs[c] += lane_id() % kByteGroup == 0 ? bit_length(any) : 0;
            }
        }
#pragma unroll
        for (u32 c = 0; c < kCubic; ++c) share_cost(c, warp_sum(costs[c]));
    }

    // For rows of 32 numbers: a thread handles four numbers.
    __device__ __forceinline__ u32 cost(u32 base, const Orders& o, const Numbers<W, true>& numbers) const {
        const RowBox& box = shared.box;
        const Sample sample(box.n_existing_rows());
        const RowDifferences<W> differences{numbers, box};
        u32 cost = 0;
#pragma unroll 1
        for (u32 first = threadIdx.x - lane_id(); first < 8 * sample.n; first += kQuantThreads) {
            const u32 wanted = first + lane_id(), task = min(wanted, 8 * sample.n - 1), row = sample.first + task / 8 * sample.step, chunk = task % 8;
            u32 any = 0;
            if (box.is_line()) {
                u32 d[12];
#pragma unroll
                for (u32 k = 0; k < 3; ++k) {
                    const u32 at = row * 8 + chunk + k;
                    u32 four[4] = {base, base, base, base};
                    if (at >= 2) split(numbers.chunk((at - 2) / 8, (at - 2) % 8), four);
#pragma unroll
                    for (u32 i = 0; i < 4; ++i) d[4 * k + i] = four[i] - base;
                }
#pragma unroll
                for (u32 k = 0; k < kMaxOrder; ++k) {
                    if (k >= o.x) break;
#pragma unroll
                    for (u32 i = 11; i > 0; --i) d[i] -= d[i - 1];
                }
#pragma unroll
                for (u32 i = 0; i < 4; ++i) any |= row * kRow + chunk * 4 + i < box.m ? d[8 + i] ^ d[8 + i] << 1 : 0;
            } else {
                u32 y, d[4];
                const u32 z = differences.place(row, o, y);
                differences.load_zy(row, z, y, 4 * chunk, o, base, d);
#pragma unroll 1
                for (u32 k = 0; k < o.x; ++k) difference_x(d, chunk);
                any = lengths_of(d);
            }
            cost += cost_of_pair(any, wanted < 8 * sample.n);
        }
        return warp_sum(cost);
    }
    static __device__ __forceinline__ void difference_x(u32 (&d)[4], u32 chunk) {
        const u32 left = __shfl_up_sync(kAllLanes, d[3], 1);
        d[3] -= d[2], d[2] -= d[1], d[1] -= d[0];
        if (chunk > 0) d[0] -= left;
    }
    // A number that has the bit length of the longest of these numbers in zigzag form.
    static __device__ __forceinline__ u32 lengths_of(const u32 (&d)[4]) {
        u32 any = 0;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) any |= d[i] ^ d[i] << 1;
        return any;
    }
    // The bit length of the longest of eight numbers. Two threads have half of the numbers each.
    static __device__ __forceinline__ u32 cost_of_pair(u32 any, bool exists) {
        any |= __shfl_xor_sync(kAllLanes, any, 1);
        return exists && lane_id() % 2 == 0 ? bit_length(any) : 0;
    }
    // cost_of_pair() for two candidates: even lanes return the first cost, odd lanes the other one.
    static __device__ __forceinline__ u32 cost_of_two(const u32 (&d)[4], u32 other, bool exists) {
        const bool is_odd = lane_id() % 2;
        const u32 own = lengths_of(d), any = (is_odd ? other : own) | __shfl_xor_sync(kAllLanes, is_odd ? own : other, 1);
        return exists ? bit_length(any) : 0;
    }
    // Adds up the costs from cost_of_two() over the warp, and stores both sums.
    __device__ __forceinline__ void share_two(u32 even, u32 odd, u32 own) const {
        const u32 both = warp_sum(own << lane_id() % 2 * 16);
        share_cost(even, both & 0xffff);
        share_cost(odd, both >> 16);
    }

    // The warp's share of the costs of orders 2 and 3 along all axes, if is_even().
    __device__ __forceinline__ void high_costs() const { high_costs(numbers); }
    __device__ __forceinline__ void high_costs(const Numbers<W, false>&) const {}
    __device__ __forceinline__ void high_costs(const Numbers<W, true>& numbers) const {
        const RowBox& box = shared.box;
        const Sample sample(box.n_existing_rows());
        u32 costs = 0;
#pragma unroll 1
        for (u32 first = threadIdx.x - lane_id(); first < 8 * sample.n; first += kQuantThreads) {
            const u32 wanted = first + lane_id(), task = min(wanted, 8 * sample.n - 1), row = sample.first + task / 8 * sample.step, chunk = task % 8;
            u32 y;
            const u32 z = box.planes.divide(row, y);
            const u32 plane = box.sy * numbers.kRowBytes;
            // Differences of both orders, along z and then along y.
            u32 two[4] = {}, three[4] = {};
#pragma unroll 1
            for (u32 j = 0; j < min(y + 1, 4u); ++j) {
                u32 v[4][4] = {};
                const unsigned char* const at = reinterpret_cast<const unsigned char*>(&numbers.chunk(row - j, chunk));
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    if (i <= z) split(*reinterpret_cast<const uint4*>(at - i * plane), v[i]);
                }
                const u32 of_two = j == 1 ? ~1u : j < 3 ? 1u : 0u, of_three = j == 0 ? 1u : j == 1 ? ~2u : j == 2 ? 3u : ~0u;
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const u32 second = v[0][i] - 2 * v[1][i] + v[2][i], third = v[0][i] - v[3][i] + 3 * (v[2][i] - v[1][i]);
                    two[i] += of_two * second;
                    three[i] += of_three * third;
                }
            }
#pragma unroll
            for (u32 k = 0; k < 3; ++k) difference_x(three, chunk);
#pragma unroll
            for (u32 k = 0; k < 2; ++k) difference_x(two, chunk);
            costs += cost_of_two(three, lengths_of(two), wanted < 8 * sample.n);
        }
        share_two(kCubic, kQuadratic, costs);
    }

    // The cost without differences. Called by one warp.
    __device__ __forceinline__ void middle_cost(N between) const { middle_cost(between, numbers); }
    __device__ __forceinline__ void middle_cost(W, const Numbers<W, false>&) const {}
    __device__ __forceinline__ void middle_cost(u32 between, const Numbers<W, true>& numbers) const {
        const Sample sample(shared.box.n_existing_rows());
        u32 cost = 0;
#pragma unroll 1
        for (u32 first = 0; first < 8 * sample.n; first += kWarp) {
            const u32 wanted = first + lane_id(), task = min(wanted, 8 * sample.n - 1);
            u32 d[4];
            split(numbers.chunk(sample.first + task / 8 * sample.step, task % 8), d);
#pragma unroll
            for (u32 i = 0; i < 4; ++i) d[i] -= between;
            cost += cost_of_pair(lengths_of(d), wanted < 8 * sample.n);
        }
        cost = warp_sum(cost);
        if (lane_id() < kQuantWarps) shared.costs[0][lane_id()] = lane_id() == 0 ? cost : 0;
    }

    // The warp's share of the costs of all candidates except the first and the last one, in a box
    // of rows of 32.
    __device__ __forceinline__ void first_costs() const { first_costs(numbers); }
    __device__ __forceinline__ void first_costs(const Numbers<W, false>&) const {}
    __device__ __forceinline__ void first_costs(const Numbers<W, true>& numbers) const {
        const RowBox& box = shared.box;
        const Sample sample(box.n_existing_rows());
        const RowDifferences<W> differences{numbers, box};
        u32 cost_1 = 0, costs_23 = 0, costs_46 = 0, costs_57 = 0;
#pragma unroll 1
        for (u32 first = threadIdx.x - lane_id(); first < 8 * sample.n; first += kQuantThreads) {
            const u32 wanted = first + lane_id(), task = min(wanted, 8 * sample.n - 1), row = sample.first + task / 8 * sample.step, chunk = task % 8;
            u32 y;
            const u32 z = box.planes.divide(row, y);
            // Numbers that do not exist are zeros.
            u32 d[4], above[4] = {}, e[4] = {}, both[4] = {};
            differences.load(row, 4 * chunk, d);
            if (row > 0) differences.load(row - 1, 4 * chunk, above);
            if (z > 0) differences.load(row - box.sy, 4 * chunk, e);
            if (z > 0 && y > 0) differences.load(row - box.sy - 1, 4 * chunk, both);
            const u32 in_plane = y > 0 ? 1 : 0;
            const bool counts = wanted < 8 * sample.n;
            u32 f[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                e[i] = d[i] - e[i];
                f[i] = e[i] - (above[i] * in_plane - both[i]);
                above[i] = d[i] - above[i];
            }
            difference_x(d, chunk);
            cost_1 += cost_of_pair(lengths_of(d), counts);
            u32 before = lengths_of(above);
            difference_x(above, chunk);
            costs_23 += cost_of_two(above, before, counts);
            before = lengths_of(e);
            difference_x(e, chunk);
            costs_46 += cost_of_two(e, before, counts);
            before = lengths_of(f);
            difference_x(f, chunk);
            costs_57 += cost_of_two(f, before, counts);
        }
        share_cost(1, warp_sum(cost_1));
        share_two(3, 2, costs_23);
        share_two(4, 6, costs_46);
        share_two(5, 7, costs_57);
    }
};
