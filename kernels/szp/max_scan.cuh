// The way through a block of level max, which both directions share: 32 lanes predict their numbers, and tell in which context what is left of
// them is coded. The twin of src/codec/szp/max/scan.rs.
//
// What a lane needs of its own row, of the row before, and of the plane before, follows it from element to element, in registers: at each time
// there is one more of each row. That of the row before is in shared memory, which has the last few times; if rows are long, and that of the plane
// before, it is in scratch, from where it is on its way one time earlier. There a time has 32 cells side by side, of which the oldest are
// replaced.

#pragma once

#include "max_view.cuh"

// In shared memory.
template <typename W>
struct MaxCells {
    // Times that are kept for the row after each, if it is no more than one less behind.
    static constexpr u32 kTimes = 6, kCells = kTimes * kWarp;

    W numbers[kCells];
    unsigned short sizes[kCells];
    MaxWeights weights;
    SmallDivisor planes = SmallDivisor(1);  // by the rows of a plane
};

// What is kept of a block in scratch.
template <typename W>
struct KeptCells {
    W* numbers;
    unsigned short* sizes;
    u32 n_cells;

    // Bytes of so many cells. src/codec/szp/cuda.rs knows them, too.
    static __device__ __forceinline__ u64 n_bytes(u32 n_cells) { return n_cells * (sizeof(W) + sizeof(unsigned short)); }
    __device__ __forceinline__ KeptCells(char* memory, u32 n_cells)
        : numbers(reinterpret_cast<W*>(memory)), sizes(reinterpret_cast<unsigned short*>(numbers + n_cells)), n_cells(n_cells) {}
    // The place of a cell that is so far from place `at`, no farther than there are cells.
    __device__ __forceinline__ u32 place(u32 at, u32 before) const { return min(at - before, at - before + n_cells); }
};

// The next element of a lane, if it takes part: where it is, what is expected of its number, and in which context.
template <typename W>
struct MaxStep {
    bool takes_part;
    u32 time, row, x;
    Expected<W> expected;
    u32 context;
};

// A number, and the size of what was left of it.
template <typename W>
struct SizedNumber {
    W number;
    u32 size;
};

// The coder makes of a step what its number is, and is told when a row begins; in all lanes at once.
template <typename W, typename Coder>
struct MaxScan {
    MaxCells<W>& cells;
    const KeptCells<W> kept;
    const MaxView& view;
    const u32 n_elements, fraction;

    __device__ __forceinline__ void run(Coder& coder) const {
        if (view.is_line()) return line(coder);
        if (view.lag < MaxCells<W>::kTimes) return view.is_deep() ? rows<true, true>(coder) : rows<false, true>(coder);
        view.is_deep() ? rows<true, false>(coder) : rows<false, false>(coder);
    }

    __device__ __forceinline__ W half() const { return static_cast<W>(1u << fraction >> 1); }

    // 32 parts of a line.
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

    // kDeep: there are planes. kNear: the last times of the row before are in shared memory.
    template <bool kDeep, bool kNear>
    __device__ __forceinline__ void rows(Coder& coder) const {
        constexpr bool kKeeps = kDeep || !kNear;
        // Cells are fetched so many times before they are needed: two rows of a plane are at least as far apart.
        constexpr u32 kCells = MaxCells<W>::kCells, kAhead = 4;
        const u32 lane = lane_id(), row_step = view.row_step(), n_times = view.n_times();
        for (u32 i = lane; i < kCells; i += kWarp) cells.numbers[i] = 0, cells.sizes[i] = 0;
        if (lane == 0) cells.planes = SmallDivisor(view.per_plane);
        if (kKeeps) {
            for (u32 i = lane; i < kept.n_cells; i += kWarp) kept.numbers[i] = 0, kept.sizes[i] = 0;
        }
        __syncwarp();
        // Cells back to the same element in the rows before, and in the plane before.
        const u32 north = row_step, up = row_step * view.per_plane, up_north = up + row_step, up_south = up - row_step;
        // Of the row: weights, numbers before this one, and that in front of the row.
        W weights[kTaps] = {}, west[3] = {}, front = 0;
        u32 west_sizes[2] = {};
        // Of the row before: from two before to the one behind. And of three rows of the plane before: from the one before to the one behind. What
        // comes next of these is on its way.
        W of_north[4] = {}, of_up[3] = {}, of_up_north[3] = {}, of_up_south[3] = {}, next[3] = {};
        u32 north_sizes[3] = {}, up_sizes[2] = {}, up_south_size = 0, next_sizes[2] = {};
        u32 row = lane, x = 0 - view.lag * lane, cell = lane, time_cell = 0;
        // At the end of a loop what is on its way is copied, and waited for.
#pragma unroll Coder::kTogether
        for (u32 time = 0; time < n_times; ++time) {
            const bool begins = x == 0 && row < view.n_rows;
            if (__any_sync(kAllLanes, begins)) {
                const W front_before = __shfl_sync(kAllLanes, front, (lane + kWarp - 1) % kWarp);
                if (begins) {
                    front = of_north[2];
                    west[0] = west[1] = west[2] = front;
                    of_north[0] = of_north[1] = front_before;
                    if (kDeep) kept.numbers[kept.place(cell, kWarp)] = front;
                    u32 y;
                    cells.planes.divide(row, y);
                    cells.weights.load(view.kind(row, y), weights);
                    coder.begin(row);
                }
                __syncwarp();
            }
            if (kNear) {
                // The lane before is so many times behind, and the last lane one more.
                const u32 behind = (lane > 0 ? view.lag - 1 : view.lag) * kWarp;
                const u32 at = time_cell + (time_cell < behind ? kCells : 0) - behind + (lane + kWarp - 1) % kWarp;
                of_north[3] = cells.numbers[at], north_sizes[2] = cells.sizes[at];
            }
            if (kDeep) {
                of_up[2] = next[0], of_up_north[2] = next[1], of_up_south[2] = next[2], up_sizes[1] = next_sizes[0], up_south_size = next_sizes[1];
                // As far as it was kept long ago, it comes from memory.
                const u32 at_up = kept.place(cell, up - 2 * kWarp), later = kept.place(cell, up_south - kAhead * kWarp);
                fetch(kept.numbers + later), fetch(kept.sizes + later);
                next[0] = kept.numbers[at_up], next_sizes[0] = kept.sizes[at_up];
                next[1] = kept.numbers[kept.place(cell, up_north - 2 * kWarp)];
                next[2] = kept.numbers[kept.place(cell, up_south - 2 * kWarp)];
                next_sizes[1] = kept.sizes[kept.place(cell, up_south - kWarp)];
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
            // What comes next, before all that waits for this number.
#pragma unroll
            for (u32 i = 0; i < 3; ++i) of_north[i] = of_north[i + 1];
            north_sizes[0] = north_sizes[1], north_sizes[1] = north_sizes[2];
            if (!kNear) {
                const u32 at = kept.place(cell, north - 2 * kWarp);
                of_north[3] = kept.numbers[at], north_sizes[2] = kept.sizes[at];
            }
            if (kDeep) {
#pragma unroll
                for (u32 i = 0; i < 2; ++i) of_up[i] = of_up[i + 1], of_up_north[i] = of_up_north[i + 1], of_up_south[i] = of_up_south[i + 1];
                up_sizes[0] = up_sizes[1];
            }
            const bool takes_part = x < view.length && row < view.n_rows;
            const Expected<W> expected(west[0], sum, fraction);
            const SizedNumber<W> coded = coder.code(MaxStep<W>{takes_part, time, row, x, expected, max_context(sizes, expected.distance, fraction)});
            // What is behind a row is its last number.
            const W number = takes_part ? coded.number : west[0];
            const u32 size = takes_part ? coded.size : 0;
            if (kNear) cells.numbers[time_cell + lane] = number, cells.sizes[time_cell + lane] = static_cast<unsigned short>(size);
            if (kKeeps) kept.numbers[cell] = number, kept.sizes[cell] = static_cast<unsigned short>(size);
            west[2] = west[1], west[1] = west[0], west[0] = number;
            west_sizes[1] = west_sizes[0], west_sizes[0] = size;
            time_cell = time_cell + kWarp == kCells ? 0 : time_cell + kWarp;
            if (kKeeps) cell = kept.place(cell + kWarp, kept.n_cells);
            if (++x == row_step) x = 0, row += kWarp;
            __syncwarp();
        }
    }
};
