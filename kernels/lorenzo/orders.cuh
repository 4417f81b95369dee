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
        const W first = numbers[0];
        const bool is_masked = shared.mask.is_used, is_line = shared.box.is_line(), has_short_rows = shared.box.sx <= kRow && !is_line;
        if (unlikely(is_masked)) {
            masked_costs(numbers, first, middle);
        } else if (likely(shared.is_full)) {
            full_costs<false>(numbers, first, middle);
        } else if (has_short_rows) {
            first_costs<false>(numbers, first, middle);
            share_cost(kCubic, low_cost(numbers, first, candidate(kCubic)));
        } else if (is_line) {
            line_costs(numbers, first, middle);
        } else {
#pragma unroll 1
            for (u32 c = 0; c <= kCubic; ++c) {
                if (exists(c)) share_cost(c, sampled_cost(numbers, c == 0 ? middle : first, candidate(c)));
            }
        }
        __syncthreads();
        const u32 mine = min(lane_id(), is_masked ? kCubic - 1 : kCubic);
        const u32 key = warp_min_unsigned(exists(mine) ? cost_of(mine) << 3 | mine : ~0u);
        u32 lowest = key / 8;
        best = candidate(key % 8);
        u32 order = max(max(best.z, best.y), best.x);
        base = order == 0 ? middle : first;
        if (is_masked || order == 0) return lowest;
        // The next higher orders of the best one. The first of them, and the one that is a candidate, may be known.
        const bool is_known = shared.is_full || is_line, is_cubic = is_line || (best.z > 0 && best.y > 0 && best.x > 0);
#pragma unroll 1
        while (order < kMaxOrder) {
            ++order;
            const Orders o{best.z > 0 ? order : 0, best.y > 0 ? order : 0, best.x > 0 ? order : 0};
            u32 place = order == 2 ? second(key % 8) : kCubic;
            if (!is_known || order > 3 || (order == 3 && !is_cubic)) {
                // Two places in turn: nobody reads the one any more that is written.
                place = kHigher + order % 2;
                share_cost(place, has_short_rows && order <= 3 ? low_cost(numbers, first, o) : sampled_cost(numbers, first, o));
                __syncthreads();
            }
            const u32 cost = cost_of(place);
            if (cost >= lowest) break;
            lowest = cost, best = o;
        }
        return lowest;
    }
    // The places of costs that warps share: of the candidates, of order 2 instead of 1 in candidate c where that is found with
    // them, and of higher orders.
    static constexpr u32 kCubic = 6, kHigher = 12;
    static __device__ constexpr u32 second(u32 c) { return kCubic + c; }
    __device__ __forceinline__ void share_cost(u32 place, u32 own) const {
        if (lane_id() == 0) shared.costs[place][threadIdx.x / kWarp] = own;
    }
    __device__ __forceinline__ u32 cost_of(u32 c) const {
        const uint4 costs = *reinterpret_cast<const uint4*>(shared.costs[c]);
        return costs.x + costs.y + costs.z + costs.w;
    }

    // The orders that are tried first: 0 or 1 on each axis, then 3 where the block has an extent. Bit c of each number
    // belongs to candidate c.
    static constexpr u32 kAlongZ = 0x30, kAlongY = 0x2c, kAlongX = 0x3a;
    __device__ __forceinline__ Orders candidate(u32 c) const {
        return c < kCubic ? Orders{kAlongZ >> c & 1, kAlongY >> c & 1, kAlongX >> c & 1} : shared.cubic;
    }
    // Those that the box has an extent for, as bits.
    static __device__ __forceinline__ u32 candidates_of(const Box& box) {
        return low_bits(0u, kCubic + 1) & ~((box.sz == 1 ? kAlongZ : 0) | (box.sy == 1 ? kAlongY : 0) | (box.sx == 1 ? kAlongX : 0));
    }
    __device__ __forceinline__ bool exists(u32 c) const { return shared.candidates >> c & 1; }

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
        if (shared.is_full) return full_costs<true>(numbers, first, middle);
        if (shared.box.sx <= kRow && !shared.box.is_line()) return first_costs<true>(numbers, first, middle);
        const Sample sample(shared.box.is_line() ? (shared.box.m + kRow - 1) / kRow : shared.box.sz * shared.box.sy);
#pragma unroll 1
        for (u32 c = 0; c < kCubic; ++c) {
            u32 cost = 0;
            if (exists(c)) {
                differences().for_residuals(numbers, c == 0 ? middle : first, candidate(c), sample.first, sample.step,
                                            [&](u32 i, W r) { cost += shared.mask.has(i) ? 0 : bit_length(r); });
            }
            share_cost(c, warp_sum(cost));
        }
    }

    // The warp's share of the costs of all candidates but the last, in a box of rows of 32 at most.
    template <bool kIsMasked>
    __device__ __forceinline__ void first_costs(const W* numbers, W first, W middle) const {
        const RowBox& box = shared.box;
        const u32 n_rows = box.sz * box.sy, x = lane_id() & low_bits(0u, box.log_lanes);
        const Sample sample(n_rows);
        const u32 own_rows = (kWarp >> box.log_lanes) * sample.step;
        const W not_first = x > 0 ? ~W(0) : 0;
        u32 costs[kCubic] = {};
#pragma unroll 1
        for (u32 first_row = sample.first + threadIdx.x / kWarp * own_rows; first_row < n_rows; first_row += kGroups * own_rows) {
            const u32 wanted = first_row + (lane_id() >> box.log_lanes) * sample.step, row = min(wanted, n_rows - 1);
            u32 y;
            const u32 z = shared.box.planes.divide(row, y);
            const W* const at = numbers + row * box.sx + x;
            // Numbers that there are not are the base.
            const W own = *at, above = row > 0 ? *(at - box.sx) : first, before = z > 0 ? *(at - box.sy * box.sx) : first;
            const W both = z > 0 && y > 0 ? *(at - box.sy * box.sx - box.sx) : first;
            W d[kCubic];
            first_differences(own, above, before, y > 0 ? above - both : 0, first, middle, not_first, d);
            if (x >= box.sx || wanted >= n_rows || (kIsMasked && shared.mask.has(row * box.sx + x))) continue;
#pragma unroll
            for (u32 c = 0; c < kCubic; ++c) costs[c] += zigzag_length(d[c]);
        }
        share_costs(costs);
    }

    // The differences of a lane's number for the first candidates, with the numbers before it along y and z, and how much along y the
    // one plane differs from the other.
    static __device__ __forceinline__ void first_differences(W own, W above, W before, W change, W first, W middle, W not_first, W (&d)[kCubic]) {
        const W along_y = own - above, along_z = own - before;
        d[0] = own - middle, d[1] = own - first, d[2] = d[3] = along_y, d[4] = along_z, d[5] = along_z - change;
#pragma unroll
        for (u32 c = 0; c < kCubic; ++c) {
            if (has_x(c)) difference_x(d[c], not_first);
        }
    }
    static __device__ constexpr bool has_x(u32 c) { return kAlongX >> c & 1; }
    // Less the number before it along x; `not_first` is -1, or 0 where there is none.
    static __device__ __forceinline__ void difference_x(W& d, W not_first) { d += __shfl_up_sync(kAllLanes, d, 1) * not_first; }

    // Shares the sums of a warp's costs.
    template <u32 kCosts>
    __device__ __forceinline__ void share_costs(const u32 (&costs)[kCosts]) const {
        // Two sums at a time: none is as large as 2^16.
#pragma unroll
        for (u32 c = 0; c < kCosts; c += 2) {
            const u32 both = warp_sum(costs[c] | costs[c + 1] << 16);
            share_cost(c, both & 0xffff);
            share_cost(c + 1, both >> 16);
        }
    }

    // The warp's share of the costs of all candidates in a full box, and of each with order 2 instead of 1; of a masked one only the first ones.
    template <bool kIsMasked>
    __device__ __forceinline__ void full_costs(const W* numbers, W first, W middle) const {
        constexpr u32 kPlane = kFullHeight * kRow;
        static_assert((kMinDepth - 1) * kFullHeight < Sample::kMinRows && kMinDepth * kFullHeight >= Sample::kMinRows, "not all rows are sampled");
        const auto second_of = [](const W (&v)[4]) { return v[0] - 2 * v[1] + v[2]; };
        const auto third_of = [](const W (&v)[4]) { return v[0] - v[3] + 3 * (v[2] - v[1]); };
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
        u32 costs[second(kCubic)] = {};
#pragma unroll 1
        for (u32 z = threadIdx.x / kWarp; z < shared.box.sz; z += kGroups) {
            // In each plane one row is sampled, with three before it.
            static_assert(Sample::kStep == kFullHeight + 1 && Sample::kFirst >= 3 && Sample::kFirst + kMaxDepth <= kFullHeight, "rows of a full box");
            const W* const at = numbers + (Sample::kFirst + z * Sample::kStep) * kRow + lane_id();
            W rows[4], before, change, seconds[4], thirds[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                // Numbers that there are not are the base.
                W along_z[4];
#pragma unroll
                for (u32 i = 0; i < 4; ++i) along_z[i] = i <= z ? *(at - i * kPlane - j * kRow) : first;
                if (j == 0) before = along_z[1];
                if (j == 1) change = along_z[0] - along_z[1];
                rows[j] = along_z[0], seconds[j] = second_of(along_z), thirds[j] = third_of(along_z);
            }
            W d[kCubic];
            first_differences(rows[0], rows[1], before, change, first, middle, not_first, d);
            if (kIsMasked) {
                const bool counts = !shared.mask.has((Sample::kFirst + z * Sample::kStep) * kRow + lane_id());
#pragma unroll
                for (u32 c = 0; c < kCubic; ++c) costs[c] += counts ? zigzag_length(d[c]) : 0;
            } else {
#pragma unroll
                for (u32 c = 0; c < kCubic; ++c) costs[c] += zigzag_length(d[c]);
                d[2] = d[3] = second_of(rows), d[4] = seconds[0], d[5] = second_of(seconds);
#pragma unroll
                for (u32 c = 1; c < kCubic; ++c) {
                    // Those of candidate 1 have been differenced once.
                    if (has_x(c) && c > 1) difference_x(d[c], not_first);
                    if (has_x(c)) difference_x(d[c], not_first);
                    costs[second(c)] += zigzag_length(d[c]);
                }
                W cubic = third_of(thirds);
#pragma unroll
                for (u32 k = 0; k < 3; ++k) difference_x(cubic, not_first);
                costs[kCubic] += zigzag_length(cubic);
            }
        }
        share_costs(costs);
    }

    // The warp's share of the costs of the candidates that a line can have, and of order 2.
    __device__ __forceinline__ void line_costs(const W* numbers, W first, W middle) const {
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
            share_cost(k < 2 ? k : k == 2 ? second(1) : kCubic, warp_sum(costs[k]));
        }
    }

    // As sampled_cost, of orders up to 3 in a box of rows of 32 at most.
    __device__ __forceinline__ u32 low_cost(const W* numbers, W base, const Orders& o) const {
        const RowBox& box = shared.box;
        const u32 n_rows = box.sz * box.sy, plane = box.sy * box.sx, x = lane_id() & low_bits(0u, box.log_lanes);
        const Sample sample(n_rows);
        const u32 own_rows = (kWarp >> box.log_lanes) * sample.step;
        const W z1 = D::factor(o.z, 1), z2 = D::factor(o.z, 2), z3 = D::factor(o.z, 3);
        const W y_factors[4] = {1, D::factor(o.y, 1), D::factor(o.y, 2), D::factor(o.y, 3)};
        const W not_first = x > 0 ? ~W(0) : 0;
        u32 cost = 0;
#pragma unroll 1
        for (u32 first_row = sample.first + threadIdx.x / kWarp * own_rows; first_row < n_rows; first_row += kGroups * own_rows) {
            const u32 wanted = first_row + (lane_id() >> box.log_lanes) * sample.step, row = min(wanted, n_rows - 1);
            u32 z = 0, y = row;
            if (o.z > 0) z = shared.box.planes.divide(row, y);
            const W* at = numbers + row * box.sx + x;
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
            for (u32 k = 0; k < o.x; ++k) d -= __shfl_up_sync(kAllLanes, d, 1) & not_first;
            if (x < box.sx && wanted < n_rows) cost += zigzag_length(d);
        }
        return warp_sum(cost);
    }
};
