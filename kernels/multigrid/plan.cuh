// Computes the steps of a grid and the arrays of their numbers, with one warp. The counterpart of
// grid.rs and of Arrays in arrays.rs.

#pragma once

#include "layout.cuh"

// Nodes of a tile, which a CTA refines at a time. Only nodes that exist before the step count.
constexpr u32 kTileNodes = 2048;

// Computes the parts of a plan that depend on the order of axes, which must be set. Used by one
// warp.
struct Planner {
    const Chunk& own;
    Plan& plan;

    __device__ __forceinline__ u32 axis_at(u32 place) const { return plan.order >> 8 * place & 0xff; }
    // Number of nodes along an axis at a level.
    __device__ __forceinline__ u32 extent(u32 axis, u32 level) const { return static_cast<u32>(static_cast<u64>(own.extents[axis] - 1) >> level) + 1; }

    __device__ __forceinline__ void run() const {
        const u32 lane = lane_id(), n = own.n_levels * kAxes;
        u32 n_steps = 0;
#pragma unroll 1
        for (u32 first = 0; first < n; first += kWarp) {
            // Each lane takes one level and axis, from the coarsest level on: the step that adds
            // the nodes of this level along this axis.
            const u32 i = first + lane, place = i % kAxes, level = own.n_levels - 1 - min(i / kAxes, own.n_levels - 1), axis = axis_at(place);
            const bool exists = i < n && extent(axis, level) > 1;
            const u32 all = __ballot_sync(kAllLanes, exists), step = n_steps + __popc(all & lanes_below());
            if (exists) make_step(step, place, axis, level);
            n_steps += __popc(all);
        }
        if (lane == 0) plan.n_steps = n_steps;
        __syncwarp();
        if (lane == 0) number_steps(n_steps);
        __syncwarp();
    }
    __device__ __forceinline__ void make_step(u32 number, u32 place, u32 axis, u32 level) const {
        Step& step = plan.steps[number];
        u32 strides[kAxes];
        own.find_strides(strides);
        step.axis = axis, step.level = level, step.reserved = 0;
        u32 outer = 1, inner = 1;
#pragma unroll
        for (u32 other = 0; other < kAxes; ++other) {
            u32 other_place = 0;
            for (u32 p = 0; p < kAxes; ++p) other_place = axis_at(p) == other ? p : other_place;
            const u32 other_level = level + (other_place > place), after = extent(other, other_level);
            step.after[other] = after;
            // An axis with one node has no next node, so its stride is not used.
            step.strides[other] = after > 1 ? strides[other] << other_level : 0;
            step.of_after[other].set(after);
            if (other < axis) outer *= after;
            if (other > axis) inner *= after;
        }
        step.n = step.after[axis], step.n_before = step.n - step.n / 2, step.inner = inner;
        step.n_nodes = outer * step.n_before * inner, step.n_new = outer * (step.n / 2) * inner;
        step.of_inner.set(inner), step.of_before.set(step.n_before);
    }
    // Sets the first number and the first tile of each step, and the arrays. Called by one thread.
    __device__ __forceinline__ void number_steps(u32 n_steps) const {
        u32 first_number = 0, n_tiles = 0, n_front = 0, n_arrays = 0, n_blocks = 0;
#pragma unroll 1
        for (u32 i = 0; i < n_steps; ++i) {
            Step& step = plan.steps[i];
            const bool is_front = step.n_nodes + step.n_new <= kFrontNodes;
            // The front (the first steps, which have small grids) is one tile.
            step.first_number = first_number, step.first_tile = is_front ? 0 : n_tiles;
            first_number += step.n_new, n_front += is_front;
            n_tiles = is_front ? 1 : n_tiles + (step.n_nodes - 1) / kTileNodes + 1;
            // All numbers of the front are one array, which its last step adds.
            if (is_front && i + 1 < n_steps && plan.steps[i + 1].n_nodes + plan.steps[i + 1].n_new <= kFrontNodes) continue;
            NumbersOf& of = plan.arrays[n_arrays++];
            of.first_block = n_blocks;
            if (is_front) {
                of.first_number = 0;
                of.extents[0] = of.extents[1] = 1, of.extents[2] = first_number;
            } else {
                of.first_number = step.first_number;
                merge(step, of.extents);
            }
            n_blocks += count_blocks(of.extents);
        }
        plan.n_front = n_front, plan.n_arrays = n_arrays, plan.n_blocks = n_blocks, plan.n_tiles = n_tiles;
    }
    // Folds the extents of a step's new nodes to three axes: drops axes with one node; if four are
    // left, merges the first two.
    __device__ __forceinline__ void merge(const Step& step, u64 (&extents)[3]) const {
        u64 last[kAxes] = {1, 1, 1, 1};
#pragma unroll
        for (u32 k = 0; k < kAxes; ++k) {
            const u32 extent = k == step.axis ? step.n / 2 : step.after[k];
            if (extent == 1) continue;
#pragma unroll
            for (u32 i = 0; i + 1 < kAxes; ++i) last[i] = last[i + 1];
            last[kAxes - 1] = extent;
        }
        extents[0] = last[0] * last[1], extents[1] = last[2], extents[2] = last[3];
    }
    static __device__ __forceinline__ u32 count_blocks(const u64 (&extents)[3]) {
        const BoxGrid grid(extents, kLogNumbers);
        return static_cast<u32>((extents[0] + (u64{1} << grid.shape.log_z) - 1) >> grid.shape.log_z) * grid.n_y * grid.n_x;
    }
};
