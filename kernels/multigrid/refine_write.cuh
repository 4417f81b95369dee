// Computes the numbers of all elements, step by step. Each new node is predicted from values that a
// decoder has, and its number is the code of the difference. With several layers, the prediction
// also uses the array as decoded from the layer before. The counterpart of refine.rs.

#pragma once

#include "bins.cuh"

// Number of bitmap words that one tile clears in the stage before the first step.
constexpr u32 kClearedWords = 8192;

struct RefineShared {
    WalkShared walk;
    u64 squares[kWalkThreads / kWarp];
    u32 n_measured[kWalkThreads / kWarp];
};

// kLists: there are several fill values, or a valid range.
template <typename W, bool kLayered, bool kLists>
struct RefineWriter {
    using F = Float<W>;
    using Bins = ::Bins<W, kLayered>;
    // Several layers take more registers, so a thread refines fewer nodes together.
    static constexpr u32 kBatch = kLayered ? 2 : ::kBatch<W>;

    const CompressArgs<Chunk>& args;
    RefineShared& shared;

    __device__ __forceinline__ void run() const {
        visit_chunks(shared.walk, visits_of(args), args.n_chunks, [&](u32 chunk) { Way(args, shared, chunk).run(); });
    }

    struct Way {
        const CompressArgs<Chunk>& args;
        RefineShared& shared;
        const Chunk& own;
        const Work<W> work;
        Plan& plan;
        CompressZeroed& zeroed;
        const Array<W> array;
        const W fill;  // first fill value, or NaN if there is none: no layer codes a NaN
        const u32 layer;

        __device__ __forceinline__ Way(const CompressArgs<Chunk>& args, RefineShared& shared, u32 chunk)
            : args(args), shared(shared), own(args.own), work(work_of<W>(args, chunk)), plan(work.plan()), zeroed(zeroed_of(args, chunk)), array(args, chunk),
              fill(static_cast<W>(args.own.missing.fills[0])), layer(layer_of<kLayered>(plan)) {}

        __device__ __forceinline__ u32 n_words() const { return work.n_bitmap_words(); }
        __device__ __forceinline__ bool is_measured() const { return own.mode == kRms; }
        // True if the layers before store any element exactly; true if they store this one exactly.
        __device__ __forceinline__ bool has_exact_before() const { return kLayered && zeroed.has_exact_before; }
        __device__ __forceinline__ bool is_exact_before(u32 element) const { return work.bitmap_before()[element / 32] >> element % 32 & 1; }

        __device__ __forceinline__ void run() const {
            if (plan.is_stored) return;
            WalkShared& walk = shared.walk;
            const u32 n_before = (n_words() + kClearedWords - 1) / kClearedWords, n_ways = is_measured() ? kTries + 1 : 1;
            const auto is_over = [&](u32 way) {
                while (load_acquire(&zeroed.walk.n_decided) < way) wait_a_little();
                const u32 n = *static_cast<volatile u32*>(&zeroed.tries.n_ways);
                return n > 0 && way >= n;
            };
            const u32 n_steps = plan.n_steps, n_tiles = plan.n_tiles;
            begin_walk(walk, plan);
            u32 next = threadIdx.x == 0 ? draw_tile(zeroed.walk) : 0;
            for (;;) {
                __syncthreads();
                if (threadIdx.x == 0) locate_tile(walk, n_tiles, next, n_before, n_ways, is_over);
                __syncthreads();
                const u32 number = walk.number;
                if (number == kNoStep) return;
                if (threadIdx.x == 0) next = draw_tile(zeroed.walk);
                if (number == kStageBefore) {
                    begin(walk.tile);
                } else {
                    do_tile(walk, plan, zeroed.walk, [&](u32 step, u32 tile) {
                        if (step + 1 == n_steps) {
                            refine_tile<true>(step, tile);
                        } else {
                            refine_tile<false>(step, tile);
                        }
                    });
                    // No CTA waits for the last step, unless the search for bins continues after
                    // it.
                    if (number + 1 == n_steps && !is_measured()) continue;
                }
                __syncthreads();
                if (threadIdx.x == 0) end_tile(n_before + n_tiles);
            }
        }
        // Counts a finished tile. In mode rms, the CTA that finishes a sweep decides how to
        // continue.
        __device__ __forceinline__ void end_tile(u32 of_way) const {
            __threadfence();
            const u32 n_done = atomicAdd(&zeroed.walk.n_done, 1) + 1;
            if (n_done % of_way != 0 || !is_measured()) return;
            __threadfence();
            const u32 n_before = n_done / of_way - 1;
            // If the number of sweeps is known, there is nothing to decide.
            if (zeroed.tries.n_ways == 0) Bins{own, plan, zeroed.tries, layer}.decide(n_before);
            if (zeroed.tries.n_ways != n_before + 1) zeroed.has_exact = 0;
            // After the last decision, no CTA needs to wait for one.
            add_release(&zeroed.walk.n_decided, zeroed.tries.n_ways > 0 ? kTries + 1 : 1);
        }

        // Does a tile of the stage before the first step: clears its share of the marks. The first
        // tile also encodes the first element.
        __device__ __forceinline__ void begin(u32 tile) const {
            const u32 end = min(n_words() - tile * kClearedWords, kClearedWords);
            u32* const bitmap = work.bitmap() + tile * kClearedWords;
            for (u32 i = threadIdx.x; i < end; i += kWalkThreads) bitmap[i] = 0;
            if (tile > 0) return;
            __syncthreads();
            if (threadIdx.x > 0) return;
            const W element = array[0], first = static_cast<W>(plan.first);
            *work.before(plan, 0) = first;
            if (has_exact_before() && is_exact_before(0)) return;
            const bool keeps = is_kept(element, float_of(first), F(0), Bins::limit(plan.layers[layer]));
            if (!keeps) mark(0);
            if (is_measured() && keeps) {
                const u32 size = size_of_error(float_of(element) - float_of(first), static_cast<F>(zeroed.tries.units));
                add_errors(static_cast<u64>(size) * size, 1);
            }
        }
        __device__ __forceinline__ void mark(u32 element) const {
            atomicOr(work.bitmap() + element / 32, 1u << element % 32);
            zeroed.has_exact = 1;
        }
        __device__ __forceinline__ bool is_missing(W word) const { return kLists ? ::is_missing<!kLayered>(own, word) : word == fill; }
        // True if an element may be decoded to `back`.
        __device__ __forceinline__ bool is_kept(W element, F back, F n_bins, F limit) const {
            return size_of(float_of(element) - back) < limit && size_of(n_bins) < Real<W>::kCodes && !is_missing(element) && !is_missing(bits_of(back));
        }
        // Magnitude of an error, in units.
        __device__ __forceinline__ u32 size_of_error(F error, F units) const {
            W code;
            nearest<W>(error * units, code);
            return static_cast<u32>((code + 1) / 2);
        }
        __device__ __forceinline__ void add_errors(u64 squares, u64 n) const {
            atomicAdd(reinterpret_cast<unsigned long long*>(&zeroed.tries.squares), static_cast<unsigned long long>(squares));
            atomicAdd(reinterpret_cast<unsigned long long*>(&zeroed.tries.n_measured), static_cast<unsigned long long>(n));
        }

        template <bool kIsLast>
        __device__ __forceinline__ void refine_tile(u32 number, u32 tile) const {
            const Step& step = shared.walk.step;
            const W* const before = work.before(plan, number);
            // Only the next layer needs the nodes that result from the last step.
            const bool has_after = !kIsLast || (kLayered && layer + 1 < own.n_layers);
            W* const after = kIsLast ? (kLayered ? work.values(layer) : nullptr) : work.before(plan, number + 1);
            W* const numbers = work.numbers() + step.first_number;
            const Layer& of = plan.layers[layer];
            const F bin = rounded_down(of.bins[step.level], W()), inverse = inverse_of(bin), limit = Bins::limit(of), units = is_measured() ? static_cast<F>(zeroed.tries.units) : F(0);
            const bool is_further = kLayered && layer > 0, predicts = !is_further || of.predicts >> number & 1, is_cubic = of.cubic >> number & 1 && predicts;
            // Maximum distance of predictions from the values of the layer before.
            const F reach = is_further ? rounded_down(plan.layers[layer - 1].bins[step.level], W()) * F(0.5) : F(0);
            const W* const values = is_further ? work.values(layer - 1) : nullptr;
            const bool hides = is_further && has_exact_before();
            const u32 first = tile * kTileNodes + threadIdx.x;
            u64 squares = 0;
            u32 n_measured = 0;
#pragma unroll 1
            for (u32 k = 0; k < kPerThread && first + k * kWalkThreads < step.n_nodes; k += kBatch) {
                Beside<W> beside[kBatch];
                W elements[kBatch], had[kBatch];
                u32 to[kBatch], places[kBatch], to_numbers[kBatch];
                bool has_new[kBatch];
                // Issue all loads together. Indices past the last node are replaced by it, without
                // a new node.
#pragma unroll
                for (u32 i = 0; i < kBatch; ++i) {
                    const u32 index = first + (k + i) * kWalkThreads;
                    const Node node(step, min(index, step.n_nodes - 1));
                    beside[i] = Beside<W>(step, is_cubic, node, before), has_new[i] = index < step.n_nodes && node.has_new(step);
                    to[i] = kIsLast && !kLayered ? 0 : node.after(step), to_numbers[i] = node.number(step), places[i] = has_new[i] ? node.element(step) : 0;
                    elements[i] = array[places[i]];
                    had[i] = is_further ? values[places[i]] : W(0);
                    // A NaN replaces elements that the layers before store exactly, because no
                    // layer codes a NaN.
                    if (hides && is_exact_before(places[i])) elements[i] = ~W(0);
                }
#pragma unroll
                for (u32 i = 0; i < kBatch; ++i) {
                    if (has_after) after[to[i]] = beside[i].own;
                    if (!has_new[i]) continue;
                    const W element = elements[i];
                    F expected = beside[i].prediction();
                    if (is_further) expected = predicts ? near(expected, float_of(had[i]), reach) : float_of(had[i]);
                    const F n_bins = (float_of(element) - expected) * inverse;
                    W code;
                    const F back = expected + nearest<W>(n_bins, code) * bin;
                    const bool has_code = is_kept(element, back, n_bins, limit);
                    // A decoder adds 0 to the prediction, which turns -0 into 0.
                    const F made = has_code ? back : expected + F(0);
                    numbers[to_numbers[i]] = has_code ? code : W(0);
                    if (has_after) after[to[i] + step.inner] = bits_of(made);
                    const bool keeps = has_code || is_kept(element, made, F(0), limit);
                    if (unlikely(!keeps) && !(hides && is_exact_before(places[i]))) mark(places[i]);
                    if (is_measured()) {
                        const u32 size = keeps ? size_of_error(float_of(element) - made, units) : 0;
                        squares += static_cast<u64>(size) * size, n_measured += has_code;
                    }
                }
            }
            if (is_measured()) measure(squares, n_measured);
        }
        // Adds up the measurements of all threads. Contains barriers.
        __device__ __forceinline__ void measure(u64 squares, u32 n) const {
            const u32 warp = threadIdx.x / kWarp;
            squares = warp_sum(squares), n = warp_sum(n);
            // The first thread may still read the sums of the tile before: in the front, no other
            // barrier separates tiles of a step.
            __syncthreads();
            if (lane_id() == 0) shared.squares[warp] = squares, shared.n_measured[warp] = n;
            __syncthreads();
            if (threadIdx.x > 0) return;
            for (u32 w = 1; w < kWalkThreads / kWarp; ++w) squares += shared.squares[w], n += shared.n_measured[w];
            if (n > 0 || squares > 0) add_errors(squares, n);
        }
    };
};

template <typename W, bool kLayered, bool kLists>
__device__ __forceinline__ void multigrid_refine_write(const CompressArgs<Chunk>& args) {
    __shared__ RefineShared shared;
    RefineWriter<W, kLayered, kLists>{args, shared}.run();
}
