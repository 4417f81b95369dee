// Compression with several layers: makes the choices for the next layer after a layer is written,
// writes a layer's tiles to their places, and writes the head at the end. The counterpart of
// `encode` in encode.rs.

#pragma once

#include "place.cuh"
#include "sample.cuh"

constexpr u32 kNextThreads = 256;

struct NextShared {
    Costs costs[kAxes * kSampledLevels];
    u32 goes_on;
};

// Ends a layer of a chunk, and chooses bins and predictions of the next one.
template <typename W>
struct NextLayer {
    using F = Float<W>;
    using Bins = ::Bins<W, true>;
    const CompressArgs<Chunk>& args;
    NextShared& shared;
    const u32 chunk;
    const Chunk& own;
    const Work<W> work;
    Plan& plan;
    CompressZeroed& zeroed;

    __device__ __forceinline__ NextLayer(const CompressArgs<Chunk>& args, NextShared& shared, u32 chunk)
        : args(args), shared(shared), chunk(chunk), own(args.own), work(work_of<W>(args, chunk)), plan(work.plan()), zeroed(zeroed_of(args, chunk)) {}

    // Called by all threads; contains barriers.
    __device__ __forceinline__ void run() const {
        if (threadIdx.x == 0) shared.goes_on = begin();
        if (threadIdx.x < kAxes * kSampledLevels) shared.costs[threadIdx.x] = Costs{};
        __syncthreads();
        if (!shared.goes_on) return;
        const u32 layer = plan.layer;
        const Array<W> array(args, chunk);
        const F reach = rounded_down(plan.layers[layer - 1].bins[0], W()) * F(0.5);
        Sampler<W, kNextThreads, true>{own, array, shared.costs, work.values(layer - 1), reach}.run(rounded_down(plan.layers[layer].bins[0], W()));
        __syncthreads();
        if (threadIdx.x == 0) bins(layer).widen();
        if (threadIdx.x >= kWarp) return;
        const u64 predicts = steps_that(plan, shared.costs, [](const Costs& of) { return min(of.linear, of.cubic) < of.nothing; });
        const u64 cubic = steps_that(plan, shared.costs, is_cubic);
        if (lane_id() == 0) plan.layers[layer].predicts = predicts, plan.layers[layer].cubic = cubic;
    }
    __device__ __forceinline__ Bins bins(u32 layer) const { return Bins{own, plan, zeroed.tries, layer}; }

    // Ends a layer and begins the next one. Returns false if none is to be written. Called by one
    // thread.
    __device__ __forceinline__ bool begin() const {
        const u32 number = plan.layer + 1;
        plan.layer = number;
        if (plan.is_stored) return false;
        Layer& before = plan.layers[number - 1];
        before.exact_at = before.start + static_cast<u64>(kEntryBytes) * plan.n_blocks + kUnit * plan.block_units;
        if (number == own.n_layers) return false;
        Layer& layer = plan.layers[number];
        layer.start = before.exact_at + before.n_exact, layer.n_exact = 0;
        // If the payload already has as many bytes as the array, the array is stored.
        plan.is_stored = layer.start >= static_cast<u64>(own.elements()) * sizeof(W);
        if (plan.is_stored) return false;
        plan.block_units = 0;
        zeroed.has_exact_before |= zeroed.has_exact, zeroed.has_exact = 0;
        zeroed.walk.next = zeroed.walk.n_done = zeroed.walk.n_decided = 0;
        zeroed.tries.has_best = 0;
        bins(number).begin(bins(number).bound(zeroed.range), zeroed.tries.unit);
        return true;
    }
};

// The tile number of the first head: the heads follow the tiles of all layers of all chunks.
__device__ __forceinline__ u32 first_head(const CompressArgs<Chunk>& args) { return args.n_chunks * (args.own.n_tiles - 1); }

// Prepares the next layer, with one CTA per chunk.
template <typename W>
__device__ __forceinline__ void multigrid_next_layer(const CompressArgs<Chunk>& args) {
    __shared__ NextShared shared;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        Visits& visits = visits_of(args);
        visits.next = visits.next_placed = 0;
        // The protocol's tile counter is used for the heads only, and for the stored chunks after
        // them. Tiles of layers have their own counter, `next_placed`.
        static_cast<FramesScratch*>(args.scratch)->next_tile = first_head(args);
    }
    NextLayer<W>(args, shared, blockIdx.x).run();
}

template <typename W>
struct LayerPlacer : Placer<W, true> {
    using Base = Placer<W, true>;
    using Base::args, Base::shared, Base::own, Base::frames;

    __device__ __forceinline__ LayerPlacer(const CompressArgs<Chunk>& args, PlaceShared& shared) : Base(args, shared) {}

    // Writes the tiles of a layer to their places, for all chunks. Called by all threads.
    __device__ __forceinline__ void run_layer() const {
        const u32 n = this->n_tiles(), n_all = n * args.n_chunks;
        for (;;) {
            if (threadIdx.x == kPlaceThreads - 1) {
                const u32 number = atomicAdd(&visits_of(args).next_placed, 1);
                shared.ticket[0] = Ticket{number < n_all ? kFirst : kNone, number, number / n, number % n};
            }
            __syncthreads();
            if (shared.ticket[0].kind == kNone) return;
            const u32 chunk = shared.ticket[0].chunk;
            const Sums all = this->put(shared.ticket[0]);
            // No call of complete(): the head is the last tile of the chunk.
            if (threadIdx.x < kWarp) frames.count(kFirst, chunk, all, 1, 0);
        }
    }

    // Writes the heads of all chunks, and stores the chunks that must be stored. Called by all
    // threads.
    __device__ __forceinline__ void run_heads() const {
        for (;;) {
            if (threadIdx.x == kPlaceThreads - 1) shared.ticket[0].number = frames.take();
            __syncthreads();
            const u32 chunk = shared.ticket[0].number - first_head(args), index = own.n_tiles - 1;
            if (chunk >= args.n_chunks) break;
            if (threadIdx.x == 0) frames.publish(chunk, index, 0);
            if (threadIdx.x < kWarp) frames.place(chunk, index, 0);
            const Sums all = put_head(chunk);
            if (threadIdx.x < kWarp) frames.complete(kFirst, chunk, frames.count(kFirst, chunk, all, 1, 0));
            __syncthreads();
        }
        frames.template run_rewrites<kPlaceThreads>(shared.ticket[0], shared.sums);
    }
    // Writes the head of a chunk. Returns its checksum sums in the first thread. Contains a
    // barrier.
    __device__ __forceinline__ Sums put_head(u32 chunk) const {
        const Plan& plan = work_of<W>(args, chunk).plan();
        const CompressZeroed& zeroed = zeroed_of(args, chunk);
        if (plan.is_stored) return Sums();
        u32* const to = this->payload(chunk);
        const u32 n_words = (own.head_bytes() - kCheckBytes) / 4;
        Sums sums;
        store_words<kPlaceThreads>(to, 0, n_words, sums, [&](u32 i) { return static_cast<u32>(number(plan, zeroed, i / 2) >> 32 * (i % 2)); });
        shared.sums.share(sums);
        __syncthreads();
        Sums all;
        if (threadIdx.x == 0) {
            all = shared.sums.sum();
            const u32 check = static_cast<u32>(checksum_of(all.a, all.b, u64{4} * n_words));
            to[n_words] = check, to[n_words + 1] = 0;
            all.add(n_words, check);
        }
        return all;
    }
    // The 8-byte field `i` of a head.
    __device__ __forceinline__ u64 number(const Plan& plan, const CompressZeroed& zeroed, u32 i) const {
        const auto bits = [](double x) { return static_cast<u64>(__double_as_longlong(x)); };
        const auto bin = [&](u32 layer, u32 level) { return bits(plan.layers[layer].bins[own.n_levels - 1 - level]); };
        // The fields that all layers have: bound, bytes of table and blocks, check of exact
        // elements.
        const auto of_any = [&](u32 layer, u32 i) -> u64 {
            const Layer& of = plan.layers[layer];
            const Sums& exact = zeroed.exact[layer];
            if (i < 2) return i == 0 ? bits(of.bound) : of.exact_at - of.start;
            return of.n_exact > 0 ? static_cast<u32>(checksum_of(exact.a, exact.b, of.n_exact)) : 0;
        };
        constexpr u32 kFront = kHeadBytes / 8, kOfAny = kFirstLayerBytes / 8, kFurther = kLayerBytes / 8;
        if (i < kFront) return i == 0 ? bits(plan.layers[own.n_layers - 1].bound) : i == 1 ? plan.first : i == 2 ? plan.order : plan.layers[0].cubic;
        i -= kFront;
        if (i < own.n_levels) return bin(0, i);
        i -= own.n_levels;
        if (i == 0) return plan.layers[0].n_exact;
        i -= 1;
        if (i < kOfAny) return of_any(0, i);
        i -= kOfAny;
        const u32 layer = 1 + i / (kFurther + own.n_levels);
        i %= kFurther + own.n_levels;
        if (i < kOfAny) return of_any(layer, i);
        const Layer& of = plan.layers[layer];
        return i == 3 ? of.n_exact : i == 4 ? of.predicts : i == 5 ? of.cubic : bin(layer, i - kFurther);
    }
};

template <typename W>
__device__ __forceinline__ void multigrid_place_layer(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    LayerPlacer<W>(args, *reinterpret_cast<PlaceShared*>(bytes)).run_layer();
}
template <typename W>
__device__ __forceinline__ void multigrid_write_heads(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    LayerPlacer<W>(args, *reinterpret_cast<PlaceShared*>(bytes)).run_heads();
}
