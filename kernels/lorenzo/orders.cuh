// The orders of differences along each axis that make the numbers of a block shortest, as the rules of the format's writer find
// them: some rows are predicted with each candidate, and the bits of their residuals are the costs. By all threads of a CTA.

#pragma once

#include "../stage/differences.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"

template <typename W>
struct OrderChoice {
    using D = Differences<W, kGroups>;
    // Rows of a plane in blocks of large arrays in three dimensions, and their planes. With fewer than kMinDepth all rows are
    // sampled.
    static constexpr u32 kFullHeight = 16, kMaxDepth = kElements / (kFullHeight * kRow), kMinDepth = 3;

    LorenzoShared<W>& shared;

    static __device__ __forceinline__ bool is_full(const Box& box) { return box.sx == kRow && box.sy == kFullHeight && box.sz >= kMinDepth; }

    __device__ __forceinline__ D differences() const { return D{shared.box}; }

    // The fifth of eight samples, as signed numbers, by a warp of which lane j has sample j mod 8.
    static constexpr u32 kSamples = 8;
    static __device__ __forceinline__ W middle_of(W own) {
        const u32 j = lane_id() % kSamples;
        const W key = own ^ kTopBit<W>;
        u32 rank = 0;
#pragma unroll
        for (u32 i = 0; i < kSamples; ++i) {
            const W other = __shfl_sync(kAllLanes, key, i);
            rank += other < key || (other == key && i < j);
        }
        return __shfl_sync(kAllLanes, own, __ffs(__ballot_sync(kAllLanes, rank == kSamples / 2)) - 1);
    }

    // Chooses orders and base for numbers, of which `middle` is that for no differences, and is the cost. Barriers.
    __device__ __forceinline__ u32 choose_orders(const W* numbers, W middle, W& base, Orders& best) const {
        const u32 warp = threadIdx.x / kWarp;
        const W first = numbers[0];
        const bool is_masked = shared.mask.is_used, has_short_rows = shared.box.sx <= kRow && !shared.box.is_line();
        u32 c = 0, lowest = ~0u, order = 0, costs_2_and_3[2];
        if (unlikely(is_masked)) {
            masked_costs(numbers, first, middle);
            c = kCubic;
        } else if (likely(shared.is_full)) {
            full_costs(numbers, first, middle, costs_2_and_3);
            c = kCubic;
        } else if (has_short_rows) {
            first_costs(numbers, first, middle);
            c = kCubic;
        } else if (shared.box.is_line()) {
            line_costs(numbers, first, middle, costs_2_and_3);
            c = kCubic;
        }
        Orders o = candidate(c);
#pragma unroll 1
        for (;; ++c) {
            u32 own = 0;
            const bool is_known = is_masked || shared.box.is_line() || (shared.is_full && (o.z > 0) & (o.y > 0) & (o.x > 0));
            if (likely(is_known && order <= 3)) {
                own = is_masked ? 0 : c == kCubic || order == 3 ? costs_2_and_3[1] : costs_2_and_3[0];
            } else if (has_short_rows && order <= 3) {
                own = low_cost(numbers, first, o);
            } else if (c > kCubic || exists(o)) {
                own = sampled_cost(numbers, c == 0 ? middle : first, o);
            }
            // Two places in turn: nobody reads the one any more that is written.
            const u32 place = c < kCubic ? c : kCubic + c % 2;
            if (lane_id() == 0) shared.costs[place][warp] = own;
            if (c < kCubic) {
                o = candidate(c + 1);
                continue;
            }
            __syncthreads();
            if (c == kCubic) {
                const u32 mine = min(lane_id(), is_masked ? kCubic - 1 : kCubic);
                const u32 key = warp_min_unsigned(exists(candidate(mine)) ? cost_of(mine) << 3 | mine : ~0u);
                lowest = key / 8, best = candidate(key % 8);
                order = max(max(best.z, best.y), best.x);
                base = order == 0 ? middle : first;
            } else {
                const u32 cost = cost_of(place);
                if (cost >= lowest) break;
                lowest = cost, best = o;
            }
            if (order == 0 || order == kMaxOrder || is_masked) break;
            // The next higher order of the best one.
            ++order;
            o = Orders{best.z > 0 ? order : 0, best.y > 0 ? order : 0, best.x > 0 ? order : 0};
        }
        return lowest;
    }
    __device__ __forceinline__ u32 cost_of(u32 c) const {
        const uint4 costs = *reinterpret_cast<const uint4*>(shared.costs[c]);
        return costs.x + costs.y + costs.z + costs.w;
    }

    // The orders that are tried first: 0 or 1 on each axis, then 3 where the block has an extent. Bit c of each number
    // belongs to candidate c.
    static constexpr u32 kCubic = 6;
    __device__ __forceinline__ Orders candidate(u32 c) const {
        return c < kCubic ? Orders{0x30u >> c & 1, 0x2cu >> c & 1, 0x3au >> c & 1} : shared.cubic;
    }
    // Whether the block has an extent along the axes of these orders.
    __device__ __forceinline__ bool exists(const Orders& o) const {
        return o.z <= shared.cubic.z && o.y <= shared.cubic.y && o.x <= shared.cubic.x;
    }

    // Of the block's rows, or of a line's pieces of 32, these are looked at for the costs.
    struct Sample {
        static constexpr u32 kFirst = 8, kStep = 17, kMinRows = 34;
        u32 first, step;
        __device__ __forceinline__ explicit Sample(u32 n_rows) : first(n_rows < kMinRows ? 0 : kFirst), step(n_rows < kMinRows ? 1 : kStep) {}
    };

    // Bits of the warp's share of the sampled residuals.
    __device__ __forceinline__ u32 sampled_cost(const W* numbers, W base, const Orders& o) const {
        const Sample sample(shared.box.is_line() ? (shared.box.m + kRow - 1) / kRow : shared.box.sz * shared.box.sy);
        u32 cost = 0;
        differences().for_residuals(numbers, base, o, sample.first, sample.step, [&](u32, W r) { cost += bit_length(r); });
        return warp_sum(cost);
    }

    // The warp's share of the costs of all candidates but the last, where masked elements do not count.
    __device__ __forceinline__ void masked_costs(const W* numbers, W first, W middle) const {
        const Sample sample(shared.box.is_line() ? (shared.box.m + kRow - 1) / kRow : shared.box.sz * shared.box.sy);
#pragma unroll 1
        for (u32 c = 0; c < kCubic; ++c) {
            const Orders o = candidate(c);
            u32 cost = 0;
            if (exists(o)) {
                differences().for_residuals(numbers, c == 0 ? middle : first, o, sample.first, sample.step,
                                            [&](u32 i, W r) { cost += shared.mask.has(i) ? 0 : bit_length(r); });
            }
            cost = warp_sum(cost);
            if (lane_id() == 0) shared.costs[c][threadIdx.x / kWarp] = cost;
        }
    }

    // The warp's share of the costs of all candidates but the last, in a box of rows of 32 at most.
    __device__ __forceinline__ void first_costs(const W* numbers, W first, W middle) const {
        const RowBox& box = shared.box;
        const u32 lane = lane_id(), n_rows = box.sz * box.sy;
        const Sample sample(n_rows);
        u32 costs[6] = {};
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += kGroups * sample.step) {
            u32 y;
            const u32 z = shared.box.planes.divide(row, y);
            const W* const at = numbers + row * box.sx + lane;
            // Numbers that there are not are the base.
            const W own = *at, above = row > 0 ? *(at - box.sx) : first, before = z > 0 ? *(at - box.sy * box.sx) : first;
            const W both = z > 0 && y > 0 ? *(at - box.sy * box.sx - box.sx) : first;
            add_first_costs(own, above, before, y > 0 ? above - both : 0, first, middle, lane < box.sx, costs);
        }
        share_first_costs(costs);
    }

    // Adds the costs of a lane's number and, where `counts`, the first candidates: with the numbers before it along y and z,
    // and how much along y the one plane differs from the other.
    static __device__ __forceinline__ void add_first_costs(W own, W above, W before, W change, W first, W middle, bool counts, u32 (&costs)[6]) {
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
        W d[6] = {own - middle, own - first, own - above, own - above, own - before, own - before - change};
#pragma unroll
        for (u32 c = 0; c < 6; ++c) {
            if (0x3au >> c & 1) d[c] += __shfl_up_sync(kAllLanes, d[c], 1) * not_first;
            if (counts) costs[c] += zigzag_length(d[c]);
        }
    }
    __device__ __forceinline__ void share_first_costs(const u32 (&costs)[6]) const {
        // Two sums at a time: none is as large as 2^16.
#pragma unroll
        for (u32 c = 0; c < 6; c += 2) {
            const u32 both = warp_sum(costs[c] | costs[c + 1] << 16);
            if (lane_id() == 0) shared.costs[c][threadIdx.x / kWarp] = both & 0xffff, shared.costs[c + 1][threadIdx.x / kWarp] = both >> 16;
        }
    }

    // The same in a full box, and the costs of orders 2, 2, 2 and 3, 3, 3.
    __device__ __forceinline__ void full_costs(const W* numbers, W first, W middle, u32 (&second_and_third)[2]) const {
        constexpr u32 kPlane = kFullHeight * kRow;
        static_assert((kMinDepth - 1) * kFullHeight < Sample::kMinRows && kMinDepth * kFullHeight >= Sample::kMinRows, "not all rows are sampled");
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
        const auto second = [](const W (&v)[4]) { return v[0] - 2 * v[1] + v[2]; };
        const auto third = [](const W (&v)[4]) { return v[0] - v[3] + 3 * (v[2] - v[1]); };
        u32 costs[6] = {}, cost_2 = 0, cost_3 = 0;
#pragma unroll 1
        for (u32 z = threadIdx.x / kWarp; z < shared.box.sz; z += kGroups) {
            // In each plane one row is sampled, with three before it.
            static_assert(Sample::kStep == kFullHeight + 1 && Sample::kFirst >= 3 && Sample::kFirst + kMaxDepth <= kFullHeight, "rows of a full box");
            const W* const at = numbers + (Sample::kFirst + z * Sample::kStep) * kRow + lane_id();
            W own, above, before, change, seconds[4], thirds[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                // Numbers that there are not are the base.
                W along_z[4];
#pragma unroll
                for (u32 i = 0; i < 4; ++i) along_z[i] = i <= z ? *(at - i * kPlane - j * kRow) : first;
                if (j == 0) own = along_z[0], before = along_z[1];
                if (j == 1) above = along_z[0], change = above - along_z[1];
                seconds[j] = second(along_z), thirds[j] = third(along_z);
            }
            add_first_costs(own, above, before, change, first, middle, true, costs);
            W d = second(seconds);
#pragma unroll
            for (u32 k = 0; k < 2; ++k) d += __shfl_up_sync(kAllLanes, d, 1) * not_first;
            cost_2 += zigzag_length(d);
            d = third(thirds);
#pragma unroll
            for (u32 k = 0; k < 3; ++k) d += __shfl_up_sync(kAllLanes, d, 1) * not_first;
            cost_3 += zigzag_length(d);
        }
        share_first_costs(costs);
        const u32 both = warp_sum(cost_2 | cost_3 << 16);
        second_and_third[0] = both & 0xffff, second_and_third[1] = both >> 16;
    }

    // The warp's share of the costs of the candidates that a line can have but the last, and of orders 2 and 3.
    __device__ __forceinline__ void line_costs(const W* numbers, W first, W middle, u32 (&second_and_third)[2]) const {
        const u32 m = shared.box.m, n_rows = (m + kRow - 1) / kRow, lane = lane_id();
        const Sample sample(n_rows);
        u32 costs[4] = {};
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += kGroups * sample.step) {
            const W* const at = numbers + row * kRow + lane;
            const bool exists = row * kRow + lane < m;
            const W own = *at;
            W d = own - first, left = row > 0 ? *(at - kRow) - first : 0;
            if (exists) costs[0] += zigzag_length(static_cast<W>(own - middle));
#pragma unroll
            for (u32 k = 1; k <= 3; ++k) {
                D::difference_x(d, left);
                if (exists) costs[k] += zigzag_length(d);
            }
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            costs[k] = warp_sum(costs[k]);
            if (k < 2 && lane == 0) shared.costs[k][threadIdx.x / kWarp] = costs[k];
            if (k >= 2) second_and_third[k - 2] = costs[k];
        }
    }

    // As sampled_cost, of orders up to 3 in a box of rows of 32 at most.
    __device__ __forceinline__ u32 low_cost(const W* numbers, W base, const Orders& o) const {
        const RowBox& box = shared.box;
        const u32 lane = lane_id(), n_rows = box.sz * box.sy, plane = box.sy * box.sx;
        const Sample sample(n_rows);
        const W z1 = D::factor(o.z, 1), z2 = D::factor(o.z, 2), z3 = D::factor(o.z, 3);
        const W y_factors[4] = {1, D::factor(o.y, 1), D::factor(o.y, 2), D::factor(o.y, 3)};
        const W is_right = lane > 0 ? ~W(0) : 0;
        u32 cost = 0;
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += kGroups * sample.step) {
            u32 z = 0, y = row;
            if (o.z > 0) z = shared.box.planes.divide(row, y);
            const W* at = numbers + row * box.sx + lane;
            // Numbers that there are not are the base.
            W d = 0;
#pragma unroll
            for (u32 j = 0; j <= 3; ++j) {
                if (j > o.y) break;
                W along_z = o.z > 0 ? 0 : base;
                if (j <= y) {
                    along_z = *at;
                    if (o.z > 0) {
                        const W v1 = z >= 1 ? *(at - plane) : base, v2 = z >= 2 ? *(at - 2 * plane) : base, v3 = z >= 3 ? *(at - 3 * plane) : base;
                        along_z += z1 * v1 + z2 * v2 + z3 * v3;
                    }
                }
                d += y_factors[j] * along_z;
                at -= box.sx;
            }
            if ((o.z | o.y) == 0) d -= base;
#pragma unroll 1
            for (u32 k = 0; k < o.x; ++k) d -= __shfl_up_sync(kAllLanes, d, 1) & is_right;
            if (lane < box.sx) cost += zigzag_length(d);
        }
        return warp_sum(cost);
    }
};
