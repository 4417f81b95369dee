// Computes differences of numbers along the axes of a box, with a separate order for each axis.
// They are the residuals of predicting each number from preceding ones. Warps process rows of 32
// numbers, eight rows at a time in registers.

#pragma once

#include "../common/warp.cuh"
#include "boxes.cuh"
#include "groups.cuh"
#include "widths.cuh"
#include "words.cuh"

constexpr u32 kMaxOrder = 7;

struct Orders {
    u32 z, y, x;
};

// The orders packed into one register.
struct PackedOrders {
    u32 bits;
    __device__ __forceinline__ PackedOrders(const Orders& o) : bits(o.z | o.y << 8 | o.x << 16) {}
    __device__ __forceinline__ operator Orders() const { return Orders{bits & 0xff, bits >> 8 & 0xff, bits >> 16}; }
};

// Row n: the coefficients of (1 - x)^n.
__constant__ const s32 kBinomials[8][8] = {{1},
                                           {1, -1},
                                           {1, -2, 1},
                                           {1, -3, 3, -1},
                                           {1, -4, 6, -4, 1},
                                           {1, -5, 10, -10, 5, -1},
                                           {1, -6, 15, -20, 15, -6, 1},
                                           {1, -7, 21, -35, 35, -21, 7, -1}};

// The rows (of a line: pieces of 32 numbers) that are sampled for the costs of orders: one in
// kEvery, or all if there are fewer than kMinRows.
template <u32 kEvery>
struct RowSample {
    static constexpr u32 kFirst = 8, kStep = kEvery, kMinRows = 34, kEnough = 15;
    u32 first, step, n;
    // With `is_enough`, about kEnough rows are sampled in smaller blocks, too.
    __device__ __forceinline__ explicit RowSample(u32 n_rows, bool is_enough = false, bool in_full = false)
        : first(in_full || n_rows < kMinRows ? 0 : kFirst),
          step(in_full || n_rows < kMinRows ? 1 : is_enough ? min(kStep, n_rows / kEnough) : kStep), n((n_rows - first + step - 1) / step) {}
};

// Where fewer numbers are before a number than its order needs: numbers before the first one count
// as the base, or the order of number i is at most i.
enum class Start : u32 { kBase, kRising };

// Differences the numbers of a box with kWarps warps. A step of rows after the box must be
// readable. Numbers of type N may be narrower than words; they are sign-extended.
template <typename W, u32 kWarps, Start kStart = Start::kBase>
struct Differences {
    static constexpr bool kRises = kStart == Start::kRising;
    const RowBox& box;

    // The order of number i along an axis.
    static __device__ __forceinline__ u32 order_at(u32 order, u32 i) { return kRises ? min(order, i) : order; }
    // Whether pass k of differences subtracts a number from number i along an axis, which is not
    // the first.
    static __device__ __forceinline__ bool subtracts(u32 i, u32 k) { return !kRises || i > k; }

    // Writes the residuals of the warp's group and returns its widths. Contains barriers.
    __device__ __forceinline__ Widths write_residuals(const W* numbers, W* residuals, W base, const Orders& o, u32 (&lengths)[LengthCounts<W>::kCounts]) const {
        const u32 first = threadIdx.x / kWarp * kGroup, n = min(box.m - min(box.m, first), kGroup), rows = (n + kRow - 1) / kRow;
        LengthCounts<W> counts(lengths);
        if (likely(o.z > 0 ? box.has_steps_in_planes : box.has_steps)) {
            if (n > 0) {
                if (likely(!box.is_line() && (o.z | o.y | o.x) <= 1)) {
                    difference_group_low(numbers, residuals, base, o, first / kRow, rows, counts);
                } else {
                    difference_group(numbers, residuals, base, o, first / kRow, rows, counts);
                }
            }
            return choose_widths(counts, n, rows);
        }
        if (box.sx <= kRow && !box.is_line() && o.y <= 1) {
            difference_rows(numbers, residuals, base, o);
        } else {
            for_residuals(numbers, base, o, 0, 1, [&](u32 i, W r) { residuals[i] = r; });
        }
        // Fills the last row with zeros.
        if (box.m + threadIdx.x < (box.m + kRow - 1) / kRow * kRow) residuals[box.m + threadIdx.x] = 0;
        __syncthreads();
        return widths_of(residuals, box.m, lengths);
    }

    // The widths of the warp's group of m residuals. Zeros must fill the last row.
    static __device__ __forceinline__ Widths widths_of(const W* residuals, u32 m, u32 (&lengths)[LengthCounts<W>::kCounts]) {
        const u32 first = threadIdx.x / kWarp * kGroup, n = min(m - min(m, first), kGroup), rows = (n + kRow - 1) / kRow;
        LengthCounts<W> counts(lengths);
#pragma unroll 1
        for (u32 r = 0; r < rows; r += kStepRows) {
            W v[kStepRows];
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] = r + i < rows ? residuals[first + (r + i) * kRow + lane_id()] : 0;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) counts.add(v[i]);
        }
        return choose_widths(counts, n, rows);
    }

    // Calls `f(index, residual)` for the lanes' numbers in the warp's share of the rows first,
    // first + step, …
    template <typename N, typename F>
    __device__ __forceinline__ void for_residuals(const N* numbers, W base, const Orders& o, u32 first, u32 step, F f) const {
        const bool line = box.is_line();
        const u32 n_rows = line ? (box.m + kRow - 1) / kRow : box.sz * box.sy;
#pragma unroll 1
        for (u32 row = first + threadIdx.x / kWarp * step; row < n_rows; row += kWarps * step) {
            const u32 begin = line ? row * kRow : 0, end = line ? min(begin + kRow, box.m) : box.sx;
#pragma unroll 1
            for (u32 x = begin; x < end; x += kRow) {
                const W r = residual(numbers, base, o, line ? 0 : row, x);
                if (x + lane_id() < end) f((line ? 0 : row * box.sx) + x + lane_id(), r);
            }
        }
    }

    // The residual of the lane's number among the 32 numbers of a row from x on. x is a multiple of
    // 32.
    template <typename N>
    __device__ __forceinline__ W residual(const N* numbers, W base, const Orders& o, u32 row, u32 x) const {
        u32 z = 0, y = row;
        if (o.z > 0) z = box.planes.divide(row, y);
        const N* const at = numbers + row * box.sx + x + lane_id();
        W d = 0, left = 0;
#pragma unroll 1
        for (const N* from = x > 0 ? at - kRow : at; from <= at; from += kRow) left = d, d = difference_zy(from, base, o, z, y);
#pragma unroll 1
        for (u32 k = 0; k < o.x; ++k) difference_x(d, left, x > 0 ? 0 : k);
        return zigzag(d);
    }

    // The number at `at`, in row y of plane z, minus the base, differenced along z and y.
    template <typename N>
    __device__ __forceinline__ W difference_zy(const N* at, W base, const Orders& o, u32 z, u32 y) const {
        const u32 row = box.sx, plane = box.sy * row, order_y = order_at(o.y, y), order_z = order_at(o.z, z);
        W d = 0;
#pragma unroll 1
        for (u32 j = 0; j <= min(o.y, y); ++j) {
            W along_z = 0;
            const N* from = at - j * row;
#pragma unroll 4
            for (u32 i = 0; i <= min(o.z, z); ++i) {
                along_z += factor(order_z, i) * static_cast<W>(*from);
                from -= plane;
            }
            d += factor(order_y, j) * along_z;
        }
        // Subtracts the base from each number in the sum: the base times the sum of the factors.
        return d - base * factors_up_to(o.z, z) * factors_up_to(o.y, y);
    }
    static __device__ __forceinline__ W factor(u32 order, u32 i) { return static_cast<W>(static_cast<s64>(kBinomials[order][i])); }
    static __device__ __forceinline__ W factors_up_to(u32 order, u32 i) {
        if (kRises) return order == 0 || i == 0;
        return order == 0 ? 1 : i < order ? factor(order - 1, i) : 0;
    }

    // Subtracts from each number of a row its predecessor along x. `left`: the preceding 32
    // numbers, which are differenced as well. With rising orders, the first numbers up to number
    // `kept` are kept, except the first one.
    static __device__ __forceinline__ void difference_x(W& d, W& left, u32 kept = 0) {
        const W before = __shfl_sync(kAllLanes, lane_id() == kRow - 1 ? left : d, (lane_id() + kRow - 1) % kRow);
        d -= subtracts(lane_id(), kept) || lane_id() == 0 ? before : 0;
        // The first lanes of `left` become invalid, but its last lane remains valid for up to
        // kMaxOrder calls.
        left -= __shfl_up_sync(kAllLanes, left, 1);
    }

    // Loads a step of rows, differenced along z.
    __device__ __forceinline__ void load_step(const W* from, u32 row, u32 plane, const Orders& o, u32 z, W (&v)[kStepRows]) const {
#pragma unroll
        for (u32 i = 0; i < kStepRows; ++i) v[i] = from[i * row];
#pragma unroll 1
        for (u32 k = 1; k <= min(o.z, z); ++k) {
            from -= plane;
            const W f = factor(order_at(o.z, z), k);
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] += f * from[i * row];
        }
    }

    // Writes the residuals of rows of 32 numbers, from row `first` on, for orders up to 1, and
    // counts their lengths. Each step lies in one plane.
    __device__ __forceinline__ void difference_group_low(const W* numbers, W* residuals, W base, const Orders& o, u32 first, u32 rows,
                                                         LengthCounts<W>& counts) const {
        const u32 lane = lane_id(), plane = box.sy * kRow;
        const W not_first = o.x > 0 && lane > 0 ? ~W(0) : 0;
        u32 z = 0, y = first;
        if (o.z > 0) z = box.planes.divide(first, y);
        const W* from = numbers + first * kRow + lane;
        W* to = residuals + first * kRow + lane;
        // The row before a step, differenced along z. Steps at the start of a plane do not use it:
        // they subtract `own_base`, which is the base in the first plane and 0 in later planes,
        // where differences along z have removed the base. Without differences along y, `own_base`
        // is subtracted from all rows.
        W above = y > 0 ? from[-static_cast<s32>(kRow)] : 0;
        if (y > 0 && z > 0) above -= (from - plane)[-static_cast<s32>(kRow)];
        const W* const end = from + rows * kRow;
#pragma unroll 1
        for (; from < end; from += kStepRows * kRow, to += kStepRows * kRow) {
            const W own_base = z > 0 ? 0 : base;
            W v[kStepRows];
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] = from[i * kRow];
            if (likely(z > 0)) {
#pragma unroll
                for (u32 i = 0; i < kStepRows; ++i) v[i] -= (from - plane)[i * kRow];
            }
            if (likely(o.y > 0)) {
                const W last = v[kStepRows - 1];
#pragma unroll
                for (u32 i = kStepRows - 1; i > 0; --i) v[i] -= v[i - 1];
                v[0] -= y > 0 ? above : own_base;
                above = last;
            } else if (z == 0) {
#pragma unroll
                for (u32 i = 0; i < kStepRows; ++i) v[i] -= own_base;
            }
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] = zigzag(static_cast<W>(v[i] + __shfl_up_sync(kAllLanes, v[i], 1) * not_first));
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) to[i * kRow] = v[i];
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) counts.add(v[i]);
            y += kStepRows;
            if (o.z > 0 && y >= box.sy) y = 0, ++z;
        }
    }

    // Differences a step of rows along x; the lane has the number x of each row. Without
    // differences along y, the number before a row counts as the base.
    __device__ __forceinline__ void difference_step_x(W (&v)[kStepRows], const Orders& o, W base, u32 x) const {
#pragma unroll 1
        for (u32 k = 0; k < o.x; ++k) {
            const W subtracted = x > 0 && subtracts(x, k) ? ~W(0) : 0;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] += __shfl_up_sync(kAllLanes, v[i], 1) * subtracted;
            if (k > 0 || o.y > 0 || base == 0) continue;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] -= x > 0 ? 0 : base;
        }
    }

    // Writes the residuals of a box with rows of at most 32 numbers, for orders up to 1 along y.
    // Each set of 2^log_lanes lanes processes steps of rows; each step lies in one plane.
    __device__ __forceinline__ void difference_rows(const W* numbers, W* residuals, W base, const Orders& o) const {
        const u32 x = lane_id() & low_bits(0u, box.log_lanes), height = o.z > 0 ? box.sy : box.sz * box.sy, in_plane = (height + kStepRows - 1) / kStepRows;
        const u32 n_steps = in_plane * (o.z > 0 ? box.sz : 1), sharers = kWarps * kWarp >> box.log_lanes, share = (n_steps + sharers - 1) / kWarps >> (5 - box.log_lanes);
        const u32 first = (threadIdx.x >> box.log_lanes) * share;
        u32 z = min(first, n_steps - 1) / in_plane, y = (min(first, n_steps - 1) - z * in_plane) * kStepRows;
        W above = 0;
#pragma unroll 1
        for (u32 step = first; step < first + share; ++step) {
            const u32 row = z * height + y, n_rows = step < n_steps && x < box.sx ? min(height - y, kStepRows) : 0;
            const W* const from = numbers + row * box.sx + x;
            const W own_base = base * factors_up_to(o.z, z);
            W v[kStepRows];
            load_step(from, box.sx, height * box.sx, o, z, v);
            if (o.y > 0) {
                const W last = v[kStepRows - 1];
                if (y == 0) above = own_base;
                if (y > 0 && step == first) above = difference_zy(from - box.sx, base, Orders{o.z, 0, 0}, z, y) + own_base;
#pragma unroll
                for (u32 i = kStepRows - 1; i > 0; --i) v[i] -= v[i - 1];
                v[0] -= above;
                above = last;
            } else if (o.x == 0) {
#pragma unroll
                for (u32 i = 0; i < kStepRows; ++i) v[i] -= own_base;
            }
            difference_step_x(v, o, own_base, x);
            W* to = residuals + row * box.sx + x;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i, to += box.sx) {
                if (i < n_rows) *to = zigzag(v[i]);
            }
            // Do not advance past the last step.
            if (step + 1 < n_steps) y += kStepRows;
            if (y >= height) y = 0, ++z;
        }
    }

    // Writes the residuals of rows of 32 numbers, from row `first` on, and counts their lengths.
    // Each step lies in one plane.
    __device__ __forceinline__ void difference_group(const W* numbers, W* residuals, W base, const Orders& o, u32 first, u32 rows,
                                                     LengthCounts<W>& counts) const {
        const bool line = box.is_line();
        const u32 lane = lane_id();
        u32 z = 0, y = first;
        if (o.z > 0) z = box.planes.divide(first, y);
        // before[k * kRow]: the row before a step, differenced along z, and k times along y. For a
        // line, viewed as rows of 32: differenced k times along x. These rows are stored in the
        // place of the last residual rows. A group that does not begin a plane first processes one
        // extra step to obtain them.
        W* const before = residuals + (first + kGroupRows - kMaxOrder) * kRow + lane;
        const u32 skipped = y > 0 && (line ? o.x : o.y) > 0 ? kStepRows : 0;
        y -= skipped;
#pragma unroll 1
        for (u32 row = first - skipped; row < first + rows; row += kStepRows) {
            W v[kStepRows];
            const W* const from = numbers + row * kRow + lane;
            // The base after differences along z. Further differences of it vanish except at the
            // start.
            const W own_base = base * factors_up_to(o.z, z);
            load_step(from, kRow, box.sy * kRow, o, z, v);
            if (o.y == 0 && o.x == 0 && own_base != 0) {
#pragma unroll
                for (u32 i = 0; i < kStepRows; ++i) v[i] -= own_base;
            }
#pragma unroll 1
            for (u32 k = 0; k < o.y; ++k) {
                const W last = v[kStepRows - 1];
#pragma unroll
                for (u32 i = kStepRows - 1; i > 0; --i) v[i] -= subtracts(y + i, k) ? v[i - 1] : 0;
                v[0] -= y > 0 ? before[k * kRow] : k == 0 ? own_base : 0;
                before[k * kRow] = last;
            }
            if (line) {
#pragma unroll 1
                for (u32 k = 0; k < o.x; ++k) {
                    const W first_before = y > 0 ? before[k * kRow] : k == 0 ? own_base : 0;
                    before[k * kRow] = v[kStepRows - 1];
#pragma unroll
                    for (u32 i = kStepRows; i-- > 0;) {
                        const W row_before = i > 0 ? v[i > 0 ? i - 1 : 0] : first_before;
                        const W left = __shfl_sync(kAllLanes, lane == kRow - 1 ? row_before : v[i], (lane + kRow - 1) % kRow);
                        v[i] -= y > 0 || i > 0 || lane == 0 || subtracts(lane, k) ? left : 0;
                    }
                }
            } else {
                difference_step_x(v, o, own_base, lane);
            }
            y += kStepRows;
            if (o.z > 0 && y >= box.sy) y = 0, ++z;
            if (row < first) continue;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) {
                v[i] = zigzag(v[i]);
                residuals[(row + i) * kRow + lane] = v[i];
                counts.add(v[i]);
            }
        }
    }
};
