// Refinement from the first element to the whole array, step by step, by all CTAs of a launch.
//
// A step needs all nodes of the step before. So a chunk's work is split into tiles, in the order of
// steps, and CTAs take tiles from a counter. Before a CTA refines a tile, it waits until all tiles
// of the steps before are done. A CTA does its tiles in their order and waits for earlier tiles
// only. So progress does not depend on the number of CTAs, or on which of them are resident. The
// first steps, which have small grids, are one tile (the front). With several chunks, CTAs move
// from chunk to chunk (visit_chunks).
//
// One refinement of a chunk is a sweep (`way`). An encoder may make several sweeps, with different
// bins. Each of its sweeps begins with the tiles of a stage before the first step. A decoder makes
// one sweep for each layer; an encoder has one launch for each layer.

#pragma once

#include "plan.cuh"
#include "real.cuh"

constexpr u32 kWalkThreads = 256;
constexpr u32 kPerThread = kTileNodes / kWalkThreads;
// Nodes that a thread refines together, so that their loads overlap.
template <typename W>
constexpr u32 kBatch = sizeof(W) == 4 ? 4 : 2;

// Zeroed scratch of a chunk. Padding keeps counters that many CTAs access on separate cache lines.
struct WalkCounters {
    u32 next;      // next tile to be taken
    u32 reserved[31];
    u32 n_done;    // number of finished tiles
    u32 n_decided; // number of sweeps after which the encoder has decided how to continue
    u32 reserved2[30];
};
// Zeroed scratch that all chunks share.
struct Visits {
    u32 next;
    u32 next_placed;  // next tile to be placed, if several layers are written
    u32 reserved[30];
};

constexpr u32 kNoStep = ~0u, kStageBefore = ~0u - 1;

struct WalkShared {
    Step step;
    u32 loaded;        // number of that step, or kNoStep
    u32 way;           // sweep of the CTA's last tile
    u32 visit;
    u32 number, tile;  // step of the located tile, and the tile's index in that step
    u32 needed;        // number of tiles that must be done first
    u32 first_tiles[kMostSteps + 1];  // first tiles of all steps, and the end of the last step
};

__device__ __forceinline__ u32 load_acquire(const u32* p) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
    return value;
}
__device__ __forceinline__ void wait_a_little() {
#if __CUDA_ARCH__ >= 700
    __nanosleep(100);
#endif
}
// Adds to a counter with release semantics: a thread that acquires the new value also sees
// everything stored before.
__device__ __forceinline__ void add_release(u32* p, u32 n) {
    __threadfence();
    atomicAdd(p, n);
}

// Calls `work(chunk)` several times for each chunk, on whichever CTAs are free, so that several
// CTAs can share a chunk and none is left to a single CTA at the end. Called by all threads;
// contains barriers.
template <typename F>
__device__ __forceinline__ void visit_chunks(WalkShared& shared, Visits& visits, u32 n_chunks, F work) {
    const u64 n_visits = static_cast<u64>(n_chunks) * (2 * ((gridDim.x + n_chunks - 1) / n_chunks) + 1);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) shared.visit = atomicAdd(&visits.next, 1);
        __syncthreads();
        const u32 visit = shared.visit;
        if (visit >= n_visits) return;
        work(visit % n_chunks);
    }
}

// Begins a visit of a chunk. Called by all threads; a barrier must follow.
__device__ __forceinline__ void begin_walk(WalkShared& shared, const Plan& plan) {
    if (threadIdx.x <= plan.n_steps) shared.first_tiles[threadIdx.x] = threadIdx.x < plan.n_steps ? plan.steps[threadIdx.x].first_tile : plan.n_tiles;
    if (threadIdx.x == 0) shared.loaded = kNoStep, shared.way = 0;
}

// Takes the next tile of a chunk; tiles are numbered over all sweeps. A CTA may take a tile while
// it works on the one before.
__device__ __forceinline__ u32 draw_tile(WalkCounters& counters) { return atomicAdd(&counters.next, 1); }

// Finds the step and the index of a taken tile, and the number of tiles that must be done first.
// Sets `number` to kNoStep if there are no more tiles. Called by one thread. `n_before`: number of
// tiles of the stage before the first step. `n_ways`: maximum number of sweeps. `is_over(way)`:
// called before every sweep but the first; returns true if that sweep is not needed; may wait.
template <typename IsOver>
__device__ __forceinline__ void locate_tile(WalkShared& shared, u32 n_tiles, u32 taken, u32 n_before, u32 n_ways, IsOver is_over) {
    const u32 of_way = n_before + n_tiles;
    shared.number = kNoStep, shared.needed = 0;
    if (of_way == 0 || taken / of_way >= n_ways) return;
    const u32 way = taken / of_way;
    u32 tile = taken - way * of_way;
    if (way != shared.way) {
        if (is_over(way)) return;
        shared.way = way, shared.loaded = kNoStep;
    }
    if (tile < n_before) {
        shared.number = kStageBefore, shared.tile = tile;
        return;
    }
    tile -= n_before;
    u32 step = shared.loaded != kNoStep && shared.first_tiles[shared.loaded] <= tile ? shared.loaded : 0;
    while (shared.first_tiles[step + 1] <= tile) ++step;
    const u32 first = shared.first_tiles[step];
    shared.number = step, shared.tile = tile - first;
    // A CTA that has done a tile of this step does not wait again.
    if (step != shared.loaded) shared.needed = way * of_way + n_before + first;
}

// Copies a step to shared memory, unless it is there already. Called by all threads; contains
// barriers.
__device__ __forceinline__ void load_step(WalkShared& shared, const Plan& plan, u32 step) {
    if (shared.loaded == step) return;
    __syncthreads();
    const u32* const from = reinterpret_cast<const u32*>(&plan.steps[step]);
    u32* const to = reinterpret_cast<u32*>(&shared.step);
    for (u32 i = threadIdx.x; i < sizeof(Step) / 4; i += kWalkThreads) to[i] = from[i];
    if (threadIdx.x == 0) shared.loaded = step;
    __syncthreads();
}

// Waits for the tiles that the located tile needs, and refines it by calls of `refine(step, tile)`.
// The front takes one call for each tile of its steps. Called by all threads; contains barriers.
template <typename F>
__device__ __forceinline__ void do_tile(WalkShared& shared, const Plan& plan, const WalkCounters& counters, F refine) {
    const u32 number = shared.number, tile = shared.tile, needed = shared.needed;
    load_step(shared, plan, number);
    if (needed > 0) {
        if (threadIdx.x == 0) {
            while (load_acquire(&counters.n_done) < needed) wait_a_little();
        }
        __syncthreads();
    }
    if (number >= plan.n_front) return refine(number, tile);
#pragma unroll 1
    for (u32 step = 0; step < plan.n_front; ++step) {
        load_step(shared, plan, step);
#pragma unroll 1
        for (u32 tile = 0; tile * kTileNodes < shared.step.n_nodes; ++tile) refine(step, tile);
        __syncthreads();
    }
}

// A node before a step, and the new node that follows it along the step's axis.
struct Node {
    u32 outer, pair, inner;  // coordinates: slower axes, the step's axis, faster axes
    u32 index;               // index among the nodes before the step

    Node() = default;
    __device__ __forceinline__ Node(const Step& step, u32 index) : index(index) {
        const u32 row = step.of_inner.divide(index, inner);
        outer = step.of_before.divide(row, pair);
    }
    __device__ __forceinline__ bool has_new(const Step& step) const { return 2 * pair + 1 < step.n; }
    // Index of the new node among the new ones; index of the node itself after the step.
    __device__ __forceinline__ u32 number(const Step& step) const { return (outer * (step.n / 2) + pair) * step.inner + inner; }
    __device__ __forceinline__ u32 after(const Step& step) const { return (outer * step.n + 2 * pair) * step.inner + inner; }
    // Index of the new node in the array.
    __device__ __forceinline__ u32 element(const Step& step) const {
        u32 place = (2 * pair + 1) * step.strides[step.axis], rest = inner;
#pragma unroll
        for (u32 k = kAxes; k-- > 1;) {
            if (k <= step.axis) continue;
            u32 digit;
            rest = step.of_after[k].divide(rest, digit);
            place += digit * step.strides[k];
        }
        rest = outer;
#pragma unroll
        for (u32 k = kAxes; k-- > 0;) {
            if (k >= step.axis) continue;
            u32 digit;
            rest = step.of_after[k].divide(rest, digit);
            place += digit * step.strides[k];
        }
        return place;
    }
};

// The up to four nodes that predict the new node after a node. All are loaded without branches, so
// that many loads are in flight together. The node itself replaces those that do not exist.
template <typename W>
struct Beside {
    using F = Float<W>;
    bool has_next, are_four;
    W own, next, before_own, after_next;

    Beside() = default;
    __device__ __forceinline__ Beside(const Step& step, bool is_cubic, const Node& node, const W* before)
        : has_next(node.pair + 1 < step.n_before), are_four(is_cubic && node.pair > 0 && node.pair + 2 < step.n_before) {
        const W* const at = before + node.index;
        own = *at, next = at[has_next ? step.inner : 0];
        before_own = after_next = 0;
        // `is_cubic` is the same for all nodes, so this branch does not diverge.
        if (is_cubic) before_own = *(at - (are_four ? step.inner : 0)), after_next = at[are_four ? 2 * step.inner : 0];
    }
    __device__ __forceinline__ F prediction() const {
        const F of_two = linear(float_of(own), float_of(next));
        const F of_four = cubic(float_of(before_own), float_of(own), float_of(next), float_of(after_next));
        return are_four ? of_four : has_next ? of_two : float_of(own);
    }
};
