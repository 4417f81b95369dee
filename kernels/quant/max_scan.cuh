// Traversal of a block of level max, shared by compression and decompression: 32 lanes predict
// their numbers and find the contexts of the residuals. The counterpart of
// crates/gridz-codecs/src/codec/quant/max/scan.rs.
//
// A lane needs data of its own row, of the previous row, and of the previous plane. This data moves
// through registers: at each time step, one more element of each row is added. Data of the previous
// row is in shared memory, which holds the last few time steps. If rows are long, it is in scratch
// instead, like data of the previous plane, and is loaded one time step earlier. In scratch, each
// time step has 32 adjacent cells, which replace the oldest ones.

#pragma once

#include "max_view.cuh"

// Shared memory of a scan.
template <typename W>
struct MaxCells {
    // Time steps whose data is kept for the next row. The lag must be smaller.
    static constexpr u32 kTimes = 6, kCells = kTimes * kWarp;

    W numbers[kCells];
    unsigned short sizes[kCells];
    MaxWeights weights;
    SmallDivisor planes = SmallDivisor(1);  // divides by the rows of a plane
};

// Ring buffer of a block's cells, in scratch.
template <typename W>
struct CellWindow {
    W* numbers;
    unsigned short* sizes;
    u32 n_cells;

    // Bytes of `n_cells` cells. crates/gridz-codecs/src/codec/quant/cuda.rs has the same formula.
    static __device__ __forceinline__ u64 n_bytes(u32 n_cells) { return n_cells * (sizeof(W) + sizeof(unsigned short)); }
    __device__ __forceinline__ CellWindow(char* memory, u32 n_cells)
        : numbers(reinterpret_cast<W*>(memory)), sizes(reinterpret_cast<unsigned short*>(numbers + n_cells)), n_cells(n_cells) {}
    // Index of the cell that is `before` cells before `at`, wrapped around once if necessary.
    __device__ __forceinline__ u32 place(u32 at, u32 before) const { return min(at - before, at - before + n_cells); }
};

// A lane's element at a time step, if it takes part: its position, expected number, and context.
template <typename W>
struct MaxStep {
    bool takes_part;
    u32 time, row, x;
    Expected<W> expected;
    u32 context;
};

// A number, and the size of its residual.
template <typename W>
struct SizedNumber {
    W number;
    u32 size;
};

// Scans a block. `coder.code(step)` returns the number of a step and the size of its residual; all
// lanes call it at once. A lane calls `coder.begin(row)` when it begins a row.
template <typename W, typename Coder>
struct MaxScan {
    MaxCells<W>& cells;
    const CellWindow<W> window;
    const MaxView& view;
    const u32 n_elements, fraction;

    __device__ __forceinline__ void run(Coder& coder) const {
        if (view.is_line()) return line(coder);
        if (view.lag < MaxCells<W>::kTimes) return view.is_deep() ? rows<true, true>(coder) : rows<false, true>(coder);
        view.is_deep() ? rows<true, false>(coder) : rows<false, false>(coder);
    }

    __device__ __forceinline__ W half() const { return static_cast<W>(1u << fraction >> 1); }

    // Scans a line, in 32 parts.
    __device__ __forceinline__ void line(Coder& coder) const {
        const u32 first = lane_id() * view.length;
        W weights[kTaps], before[kTaps] = {};
        cells.weights.load(0, weights);
        u32 sizes[4] = {};
        coder.begin(lane_id());
#pragma unroll 1
        for (u32 x = 0; x < view.length; ++x) {
            W sum = half();
#pragma unroll
            for (u32 i = kTaps; i-- > 0;) sum += weights[i] * before[i];
            const Expected<W> expected(before[0], sum, fraction);
            const u32 context = max_context(4 * sizes[0] + 3 * sizes[1] + 2 * sizes[2] + sizes[3], expected.distance, fraction);
            const SizedNumber<W> coded = coder.code(MaxStep<W>{first + x < n_elements, x, lane_id(), x, expected, context});
#pragma unroll
            for (u32 i = kTaps - 1; i > 0; --i) before[i] = before[i - 1];
#pragma unroll
            for (u32 i = 3; i > 0; --i) sizes[i] = sizes[i - 1];
            before[0] = coded.number, sizes[0] = coded.size;
        }
    }

    // kDeep: there are several planes. kNear: the last time steps of the previous row are in shared
    // memory.
    template <bool kDeep, bool kNear>
    __device__ __forceinline__ void rows(Coder& coder) const {
        constexpr bool kKeeps = kDeep || !kNear;
        // kAhead: cells are prefetched this many time steps before they are needed. The cells of
        // `up_south` are at least as old.
        constexpr u32 kCells = MaxCells<W>::kCells, kAhead = 4;
        const u32 lane = lane_id(), row_step = view.row_step(), n_times = view.n_times();
        for (u32 i = lane; i < kCells; i += kWarp) cells.numbers[i] = 0, cells.sizes[i] = 0;
        if (lane == 0) cells.planes = SmallDivisor(view.per_plane);
        if (kKeeps) {
            for (u32 i = lane; i < window.n_cells; i += kWarp) window.numbers[i] = 0, window.sizes[i] = 0;
        }
        __syncwarp();
        // Distances in cells to the same element in the previous row, and in three rows of the
        // previous plane.
        const u32 north = row_step, up = row_step * view.per_plane, up_north = up + row_step, up_south = up - row_step;
        // For the lane's row: its weights, the previous numbers, and the number that precedes the
        // row.
        W weights[kTaps] = {}, west[3] = {}, front = 0;
        u32 west_sizes[2] = {};
        // Numbers of the previous row, from two elements before the current one to one after it;
        // and of three rows of the previous plane, from one element before to one after. The loads
        // of the next elements of these three rows are in flight.
        W of_north[4] = {}, of_up[3] = {}, of_up_north[3] = {}, of_up_south[3] = {}, next[3] = {};
        u32 north_sizes[3] = {}, up_sizes[2] = {}, up_south_size = 0, next_sizes[2] = {};
        u32 row = lane, x = 0 - view.lag * lane, cell = lane, time_cell = 0;
        // Each iteration of the loop ends with a copy of the loads in flight, which waits for them.
        // Unrolling makes such copies rarer.
#pragma unroll Coder::kTogether
        for (u32 time = 0; time < n_times; ++time) {
            const bool begins = x == 0 && row < view.n_rows;
            if (__any_sync(kAllLanes, begins)) {
                const W front_before = __shfl_sync(kAllLanes, front, (lane + kWarp - 1) % kWarp);
                if (begins) {
                    front = of_north[2];
                    west[0] = west[1] = west[2] = front;
                    of_north[0] = of_north[1] = front_before;
                    if (kDeep) window.numbers[window.place(cell, kWarp)] = front;
                    u32 y;
                    cells.planes.divide(row, y);
                    cells.weights.load(view.kind(row, y), weights);
                    coder.begin(row);
                }
                __syncwarp();
            }
            if (kNear) {
                // Distance in cells to the needed number of the previous lane. Lane 0 follows the
                // last lane, which coded its number one time step earlier.
                const u32 behind = (lane > 0 ? view.lag - 1 : view.lag) * kWarp;
                const u32 at = time_cell + (time_cell < behind ? kCells : 0) - behind + (lane + kWarp - 1) % kWarp;
                of_north[3] = cells.numbers[at], north_sizes[2] = cells.sizes[at];
            }
            if (kDeep) {
                of_up[2] = next[0], of_up_north[2] = next[1], of_up_south[2] = next[2], up_sizes[1] = next_sizes[0], up_south_size = next_sizes[1];
                // Cells that were written long ago may be in device memory, so they are prefetched.
                const u32 at_up = window.place(cell, up - 2 * kWarp), later = window.place(cell, up_south - kAhead * kWarp);
                prefetch_l2(window.numbers + later), prefetch_l2(window.sizes + later);
                next[0] = window.numbers[at_up], next_sizes[0] = window.sizes[at_up];
                next[1] = window.numbers[window.place(cell, up_north - 2 * kWarp)];
                next[2] = window.numbers[window.place(cell, up_south - 2 * kWarp)];
                next_sizes[1] = window.sizes[window.place(cell, up_south - kWarp)];
            }
            W sum = half();
            if (kDeep) {
#pragma unroll
                for (u32 i = 0; i < 3; ++i) sum += weights[7 + i] * of_up[i] + weights[10 + i] * of_up_north[i] + weights[13 + i] * of_up_south[i];
            }
#pragma unroll
            for (u32 i = 0; i < 4; ++i) sum += weights[3 + i] * of_north[i];
            sum += weights[2] * west[2] + weights[1] * west[1] + weights[0] * west[0];
            u32 sizes = 2 * west_sizes[0] + west_sizes[1] + 2 * north_sizes[1] + north_sizes[0] + north_sizes[2];
            if (kDeep) sizes += 2 * up_sizes[0] + up_sizes[1] + up_south_size;
            // Prepares the next element, before anything that waits for this number.
#pragma unroll
            for (u32 i = 0; i < 3; ++i) of_north[i] = of_north[i + 1];
            north_sizes[0] = north_sizes[1], north_sizes[1] = north_sizes[2];
            if (!kNear) {
                const u32 at = window.place(cell, north - 2 * kWarp);
                of_north[3] = window.numbers[at], north_sizes[2] = window.sizes[at];
            }
            if (kDeep) {
#pragma unroll
                for (u32 i = 0; i < 2; ++i) of_up[i] = of_up[i + 1], of_up_north[i] = of_up_north[i + 1], of_up_south[i] = of_up_south[i + 1];
                up_sizes[0] = up_sizes[1];
            }
            const bool takes_part = x < view.length && row < view.n_rows;
            const Expected<W> expected(west[0], sum, fraction);
            const SizedNumber<W> coded = coder.code(MaxStep<W>{takes_part, time, row, x, expected, max_context(sizes, expected.distance, fraction)});
            // Past a row's end, its last number repeats.
            const W number = takes_part ? coded.number : west[0];
            const u32 size = takes_part ? coded.size : 0;
            if (kNear) cells.numbers[time_cell + lane] = number, cells.sizes[time_cell + lane] = static_cast<unsigned short>(size);
            if (kKeeps) window.numbers[cell] = number, window.sizes[cell] = static_cast<unsigned short>(size);
            west[2] = west[1], west[1] = west[0], west[0] = number;
            west_sizes[1] = west_sizes[0], west_sizes[0] = size;
            time_cell = time_cell + kWarp == kCells ? 0 : time_cell + kWarp;
            if (kKeeps) cell = window.place(cell + kWarp, window.n_cells);
            if (++x == row_step) x = 0, row += kWarp;
            __syncwarp();
        }
    }
};
