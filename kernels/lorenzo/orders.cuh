// Chooses the orders of differences along each axis that make the residuals of a block shortest, by
// the same rules as the CPU codec. Some rows are predicted with each candidate for the orders; the
// sum of the bit lengths of their residuals is the candidate's cost. Called by all threads of a
// CTA.

#pragma once

#include "../stage/differences.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"

template <typename B>
struct OrderChoice {
    using W = typename B::W;
    using D = Differences<W, B::kGroups, Start::kRising>;
    // A full box has kFullHeight rows per plane, as in blocks of large three-dimensional arrays,
    // and at least kMinDepth planes. One row of each plane is sampled.
    static constexpr u32 kFullHeight = 16, kMinDepth = B::kIsDense ? 16 : 3;

    LorenzoShared<B>& shared;

    static __device__ __forceinline__ bool is_full(const Box& box) { return box.sx == kRow && box.sy == kFullHeight && box.sz >= kMinDepth; }

    __device__ __forceinline__ D differences() const { return D{shared.box}; }

    // Returns the upper median of eight samples: the fifth in ascending signed order. Called by a
    // warp; lane j has sample j mod 8.
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

    // Chooses orders and base for the numbers and returns their cost. The base is `middle` if all
    // orders are 0, otherwise the first number. If `in_full`, all rows are used instead of samples.
    // Contains barriers.
    __device__ __forceinline__ u32 choose_orders(const W* numbers, W middle, W& base, Orders& best, bool in_full = false) const {
        const W first = numbers[0];
        const bool is_masked = shared.mask.is_used, is_line = shared.box.is_line(), has_short_rows = shared.box.sx <= kRow && !is_line;
        // The warp's share of the cost of orders for which no pass over all candidates computes it.
        const auto cost_alone = [&](const Orders& o) {
            const bool is_low = has_short_rows && !in_full && max(max(o.z, o.y), o.x) <= 3;
            const W own_base = (o.z | o.y | o.x) == 0 ? middle : first;
            return is_low ? low_cost(numbers, own_base, o) : sampled_cost(numbers, own_base, o, in_full);
        };
        if (unlikely(in_full)) {
#pragma unroll 1
            for (u32 c = 0; c <= kCubic; ++c) {
                if (exists(c)) share_cost(c, cost_alone(candidate(c)));
            }
        } else if (unlikely(is_masked)) {
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
                if (exists(c)) share_cost(c, cost_alone(candidate(c)));
            }
        }
        __syncthreads();
        const u32 mine = min(lane_id(), is_masked ? kCubic - 1 : kCubic);
        const u32 key = warp_min_unsigned(exists(mine) ? cost_of(mine) << 3 | mine : ~0u);
        u32 lowest = key / 8;
        best = candidate(key % 8);
        u32 order = max(max(best.z, best.y), best.x);
        base = order == 0 ? middle : first;
        if (is_masked || (!B::kIsDense && order == 0)) return lowest;
        // Try higher orders along the axes of the best candidate, as long as the cost decreases.
        // The costs of order 2, and of order 3 if that is a candidate, may already be known.
        const bool is_known = (shared.is_full || is_line) && !in_full, is_cubic = is_line || (best.z > 0 && best.y > 0 && best.x > 0);
#pragma unroll 1
        while (order > 0 && order < kMaxOrder) {
            ++order;
            const Orders o{best.z > 0 ? order : 0, best.y > 0 ? order : 0, best.x > 0 ? order : 0};
            u32 place = order == 2 ? second(key % 8) : kCubic;
            if (!is_known || order > 3 || (order == 3 && !is_cubic)) {
                // Alternate between two entries of `costs`, so that no warp still reads the one
                // that is written now.
                place = kHigher + order % 2;
                share_cost(place, cost_alone(o));
                __syncthreads();
            }
            const u32 cost = cost_of(place);
            if (cost >= lowest) break;
            lowest = cost, best = o;
        }
        if (B::kIsDense) {
            search(lowest, best, cost_alone);
            base = (best.z | best.y | best.x) == 0 ? middle : first;
        }
        return lowest;
    }
    // Hill climbing: moves to the best neighbor of the orders as long as its cost is lower.
    // Contains barriers.
    template <typename F>
    __device__ __forceinline__ void search(u32& lowest, Orders& best, const F& cost_alone) const {
        u32 places = kSearch;
        PackedOrders from = best;
#pragma unroll 1
        for (;;) {
            u32 possible = 0;
#pragma unroll 1
            for (u32 i = 0; i < kNeighbours; ++i) {
                if (!has_neighbour(from, i)) continue;
                possible |= 1u << i;
                share_cost(places + i, cost_alone(neighbour(from, i)));
            }
            __syncthreads();
            const u32 mine = min(lane_id(), kNeighbours - 1), key = warp_min_unsigned(possible >> mine & 1 ? cost_of(places + mine) << 3 | mine : ~0u);
            if (possible == 0 || key / 8 >= lowest) break;
            lowest = key / 8, from = neighbour(from, key % 8);
            // Alternate between two sets of entries, as above.
            places = 2 * kSearch + kNeighbours - places;
        }
        best = from;
    }
    // A neighbor has an order that is higher by one along x, y or z (neighbors 0 to 2), or lower by
    // one (3 to 5).
    static constexpr u32 kNeighbours = 6;
    static __device__ __forceinline__ Orders neighbour(const Orders& o, u32 i) {
        const u32 step = i < 3 ? 1 : ~0u, axis = i % 3;
        return Orders{o.z + (axis == 2 ? step : 0), o.y + (axis == 1 ? step : 0), o.x + (axis == 0 ? step : 0)};
    }
    __device__ __forceinline__ bool has_neighbour(const Orders& o, u32 i) const {
        const RowBox& box = shared.box;
        const u32 axis = i % 3, order = axis == 0 ? o.x : axis == 1 ? o.y : o.z, extent = axis == 0 ? box.sx : axis == 1 ? box.sy : box.sz;
        return i < 3 ? order < kMaxOrder && extent > 1 : order > 0;
    }
    // Indices into `costs`. Entries 0 to kCubic: the candidates. second(c): candidate c with order
    // 2 instead of 1, if the same pass computes its cost. From kHigher on: higher orders. From
    // kSearch on: neighbors.
    static constexpr u32 kCubic = 6, kHigher = 12, kSearch = 14;
    static __device__ constexpr u32 second(u32 c) { return kCubic + c; }
    __device__ __forceinline__ void share_cost(u32 place, u32 own) const {
        if (lane_id() == 0) shared.costs[place][threadIdx.x / kWarp] = own;
    }
    __device__ __forceinline__ u32 cost_of(u32 c) const {
        u32 sum = 0;
#pragma unroll
        for (u32 g = 0; g < B::kGroups; g += 4) {
            const uint4 costs = *reinterpret_cast<const uint4*>(shared.costs[c] + g);
            sum += costs.x + costs.y + costs.z + costs.w;
        }
        return sum;
    }

    // The orders tried first. Candidates 0 to 5 have order 0 or 1 on each axis: bit c of a constant
    // is the order of candidate c along that axis. Candidate 6 has order 3 on each axis whose
    // extent exceeds 1.
    static constexpr u32 kAlongZ = 0x30, kAlongY = 0x2c, kAlongX = 0x3a;
    __device__ __forceinline__ Orders candidate(u32 c) const {
        return c < kCubic ? Orders{kAlongZ >> c & 1, kAlongY >> c & 1, kAlongX >> c & 1} : shared.cubic;
    }
    // Mask of the candidates whose differences are along axes with an extent above 1 only.
    static __device__ __forceinline__ u32 candidates_of(const Box& box) {
        return low_bits(0u, kCubic + 1) & ~((box.sz == 1 ? kAlongZ : 0) | (box.sy == 1 ? kAlongY : 0) | (box.sx == 1 ? kAlongX : 0));
    }
    __device__ __forceinline__ bool exists(u32 c) const { return shared.candidates >> c & 1; }

    using Sample = RowSample<17>;
    static __device__ __forceinline__ Sample sample_of(u32 n_rows, bool in_full = false) { return Sample(n_rows, B::kIsDense, in_full); }

    // Sum of the bit lengths of the warp's share of the sampled residuals.
    __device__ __forceinline__ u32 sampled_cost(const W* numbers, W base, const Orders& o, bool in_full) const {
        const Sample sample = sample_of(shared.box.n_existing_rows(), in_full);
        u32 cost = 0;
        differences().for_residuals(numbers, base, o, sample.first, sample.step, [&](u32, W r) { cost += bit_length(r); });
        return warp_sum(cost);
    }

    // Computes the warp's share of the costs of all candidates but the last, for a block with a
    // mask. Masked elements do not count.
    __device__ __forceinline__ void masked_costs(const W* numbers, W first, W middle) const {
        if (shared.is_full) return full_costs<true>(numbers, first, middle);
        if (shared.box.sx <= kRow && !shared.box.is_line()) return first_costs<true>(numbers, first, middle);
        const Sample sample = sample_of(shared.box.n_existing_rows());
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

    // Computes the warp's share of the costs of all candidates but the last, for a box with rows of
    // at most 32 numbers.
    template <bool kIsMasked>
    __device__ __forceinline__ void first_costs(const W* numbers, W first, W middle) const {
        const RowBox& box = shared.box;
        const u32 n_rows = box.sz * box.sy, x = lane_id() & low_bits(0u, box.log_lanes);
        const Sample sample = sample_of(n_rows);
        const u32 own_rows = (kWarp >> box.log_lanes) * sample.step;
        const W not_first = x > 0 ? ~W(0) : 0;
        u32 costs[kCubic] = {};
#pragma unroll 1
        for (u32 first_row = sample.first + threadIdx.x / kWarp * own_rows; first_row < n_rows; first_row += B::kGroups * own_rows) {
            const u32 wanted = first_row + (lane_id() >> box.log_lanes) * sample.step, row = min(wanted, n_rows - 1);
            u32 y;
            const u32 z = shared.box.planes.divide(row, y);
            const W* const at = numbers + row * box.sx + x;
            // Missing neighbors equal the base.
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

    // Computes the differences of a lane's number for candidates 0 to 5. `above` and `before` are
    // the preceding numbers along y and z. `change` is the difference along z of `above`.
    static __device__ __forceinline__ void first_differences(W own, W above, W before, W change, W first, W middle, W not_first, W (&d)[kCubic]) {
        const W along_y = own - above, along_z = own - before;
        d[0] = own - middle, d[1] = own - first, d[2] = d[3] = along_y, d[4] = along_z, d[5] = along_z - change;
#pragma unroll
        for (u32 c = 0; c < kCubic; ++c) {
            if (has_x(c)) difference_x(d[c], not_first);
        }
    }
    static __device__ constexpr bool has_x(u32 c) { return kAlongX >> c & 1; }
    // Subtracts the preceding number along x. `not_first` is -1, or 0 in a lane whose number is the
    // first of its row.
    static __device__ __forceinline__ void difference_x(W& d, W not_first) { d += __shfl_up_sync(kAllLanes, d, 1) * not_first; }
    // -1 in lanes after lane k, else 0.
    static __device__ __forceinline__ W after(u32 k) { return lane_id() > k ? ~W(0) : 0; }

    // Adds up the costs of a warp's lanes, and writes the sums to `costs` in shared memory.
    template <u32 kCosts>
    __device__ __forceinline__ void share_costs(const u32 (&costs)[kCosts]) const {
        // Add up two costs at a time in one word: each sum is below 2^16.
#pragma unroll
        for (u32 c = 0; c < kCosts; c += 2) {
            const u32 both = warp_sum(costs[c] | costs[c + 1] << 16);
            share_cost(c, both & 0xffff);
            share_cost(c + 1, both >> 16);
        }
    }

    // Only numbers up to a distance of i > 0 exist. Sets those at a distance of 2 and 3 so that
    // differences of orders 2 and 3 equal those of order i.
    static __device__ __forceinline__ void extend(W (&v)[4], u32 i) {
        if (i == 1) v[2] = v[3] = v[1];
        if (i == 2) v[3] = 2 * v[2] - v[1];
    }

    // Computes the warp's share of the costs of all candidates for a full box, and of candidates 1
    // to 5 with order 2 instead of 1. With a mask, computes only the costs of candidates 0 to 5.
    template <bool kIsMasked>
    __device__ __forceinline__ void full_costs(const W* numbers, W first, W middle) const {
        constexpr u32 kPlane = kFullHeight * kRow;
        static_assert(kMinDepth * kFullHeight >= Sample::kMinRows, "not all rows are sampled");
        static_assert(!B::kIsDense || kMinDepth * kFullHeight / Sample::kEnough >= Sample::kStep, "one row in kStep is sampled");
        const auto second_of = [](const W (&v)[4]) { return v[0] - 2 * v[1] + v[2]; };
        const auto third_of = [](const W (&v)[4]) { return v[0] - v[3] + 3 * (v[2] - v[1]); };
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
        u32 costs[second(kCubic)] = {};
#pragma unroll 1
        for (u32 i = threadIdx.x / kWarp; Sample::kFirst + i * Sample::kStep < shared.box.sz * kFullHeight; i += B::kGroups) {
            // One row is sampled in each plane; its costs also depend on the three rows before it.
            // At level dense, it may be among the first three rows of a plane, which have fewer
            // rows before them.
            static_assert(Sample::kStep == kFullHeight + 1 && Sample::kFirst >= 3, "rows of a full box");
            const u32 row = Sample::kFirst + i * Sample::kStep, z = row / kFullHeight, y = row % kFullHeight;
            const W* const at = numbers + row * kRow + lane_id();
            W rows[4], before = 0, change = 0, seconds[4], thirds[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                // Before the first plane, numbers equal the base. Without differences along z, the
                // rows of all planes form one sequence.
                const bool is_in_plane = !B::kIsDense || j <= y;
                W along_z[4];
#pragma unroll
                for (u32 k = 0; k < 4; ++k) along_z[k] = k <= z && is_in_plane ? *(at - k * kPlane - j * kRow) : first;
                if (j == 0) before = along_z[1];
                if (j == 1) change = along_z[0] - along_z[1];
                rows[j] = is_in_plane ? along_z[0] : *(at - j * kRow);
                extend(along_z, z);
                seconds[j] = second_of(along_z), thirds[j] = third_of(along_z);
            }
            if (B::kIsDense) extend(seconds, y), extend(thirds, y);
            W d[kCubic];
            first_differences(rows[0], rows[1], before, change, first, middle, not_first, d);
            if (kIsMasked) {
                const bool counts = !shared.mask.has(row * kRow + lane_id());
#pragma unroll
                for (u32 c = 0; c < kCubic; ++c) costs[c] += counts ? zigzag_length(d[c]) : 0;
            } else {
#pragma unroll
                for (u32 c = 0; c < kCubic; ++c) costs[c] += zigzag_length(d[c]);
                d[2] = d[3] = second_of(rows), d[4] = seconds[0], d[5] = second_of(seconds);
#pragma unroll
                for (u32 c = 1; c < kCubic; ++c) {
                    // d[1] has already been differenced once.
                    if (has_x(c) && c > 1) difference_x(d[c], not_first);
                    if (has_x(c)) difference_x(d[c], after(1));
                    costs[second(c)] += zigzag_length(d[c]);
                }
                W cubic = third_of(thirds);
#pragma unroll
                for (u32 k = 0; k < 3; ++k) difference_x(cubic, after(k));
                costs[kCubic] += zigzag_length(cubic);
            }
        }
        share_costs(costs);
    }

    // Computes the warp's share of the costs of all candidates for a line (orders 0, 1 and 3 along
    // x), and of order 2.
    __device__ __forceinline__ void line_costs(const W* numbers, W first, W middle) const {
        const u32 m = shared.box.m, n_rows = (m + kRow - 1) / kRow, lane = lane_id();
        const Sample sample = sample_of(n_rows);
        u32 costs[4] = {};
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += B::kGroups * sample.step) {
            const W* const at = numbers + row * kRow + lane;
            const bool exists = row * kRow + lane < m;
            const W own = *at;
            W d = own - first, left = row > 0 ? *(at - kRow) - first : 0;
            if (exists) costs[0] += zigzag_length(static_cast<W>(own - middle));
#pragma unroll
            for (u32 k = 1; k <= 3; ++k) {
                D::difference_x(d, left, row > 0 ? 0 : k - 1);
                if (exists) costs[k] += zigzag_length(d);
            }
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            share_cost(k < 2 ? k : k == 2 ? second(1) : kCubic, warp_sum(costs[k]));
        }
    }

    // Same as sampled_cost, for orders up to 3 in a box with rows of at most 32 numbers.
    __device__ __forceinline__ u32 low_cost(const W* numbers, W base, const Orders& o) const {
        const RowBox& box = shared.box;
        const u32 n_rows = box.sz * box.sy, plane = box.sy * box.sx, x = lane_id() & low_bits(0u, box.log_lanes);
        const Sample sample = sample_of(n_rows);
        const u32 own_rows = (kWarp >> box.log_lanes) * sample.step;
        u32 cost = 0;
#pragma unroll 1
        for (u32 first_row = sample.first + threadIdx.x / kWarp * own_rows; first_row < n_rows; first_row += B::kGroups * own_rows) {
            const u32 wanted = first_row + (lane_id() >> box.log_lanes) * sample.step, row = min(wanted, n_rows - 1);
            u32 z = 0, y = row;
            if (o.z > 0) z = shared.box.planes.divide(row, y);
            const W* at = numbers + row * box.sx + x;
            const u32 order_y = D::order_at(o.y, y), order_z = D::order_at(o.z, z);
            const W z1 = D::factor(order_z, 1), z2 = D::factor(order_z, 2), z3 = D::factor(order_z, 3);
            W d = 0;
#pragma unroll
            for (u32 j = 0; j <= 3; ++j) {
                if (j > order_y) break;
                W along_z = *at;
                if (order_z >= 1) along_z += z1 * *(at - plane);
                if (order_z >= 2) along_z += z2 * *(at - 2 * plane);
                if (order_z >= 3) along_z += z3 * *(at - 3 * plane);
                d += D::factor(order_y, j) * along_z;
                at -= box.sx;
            }
            // Differences remove the base from all numbers but the first ones.
            if ((order_z | order_y) == 0) d -= base;
#pragma unroll 1
            for (u32 k = 0; k < o.x; ++k) d -= __shfl_up_sync(kAllLanes, d, 1) & (x > k ? ~W(0) : 0);
            if (x < box.sx && wanted < n_rows) cost += zigzag_length(d);
        }
        return warp_sum(cost);
    }
};
