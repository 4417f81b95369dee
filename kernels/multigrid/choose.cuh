// The encoder's decisions before it encodes: bins, order of axes, predictions, and whether the
// array is stored. The counterpart of `Coder::plan` in encode.rs, and of its choices for layer 0.
//
// The encoder first needs the median of some sampled elements. Only if none of these is ordinary
// (finite and not missing), all CTAs search for the first ordinary element of the array. Then all
// CTAs search for the largest element that may have a code. The array is split into shares for
// these searches. The CTA that finishes the last share of a chunk makes the decisions.

#pragma once

#include "bins.cuh"
#include "sample.cuh"

constexpr u32 kChooseThreads = 256;
constexpr u32 kShare = 16384;     // elements of a share, which a CTA searches at a time
constexpr u32 kMiddleOf = 63;     // elements that are sampled to find the median

struct ChooseShared {
    u64 middle;            // word of the median
    u32 has_middle;
    u32 chunk;             // chunk of the median
    u32 is_last;
    u64 largest[kChooseThreads / kWarp];
    Costs costs[kAxes * kSampledLevels];
};

constexpr u32 kNoChunk = ~0u;

// Number of shares of an array.
__device__ __forceinline__ u32 shares_of(const Chunk& own) { return (own.elements() - 1) / kShare + 1; }

template <typename W, bool kLayered>
struct Chooser {
    using F = Float<W>;
    const CompressArgs<Chunk>& args;
    ChooseShared& shared;
    const u32 chunk;
    const Chunk& own;
    const Array<W> array;
    CompressZeroed& zeroed;
    const Work<W> work;
    Plan& plan;

    __device__ __forceinline__ Chooser(const CompressArgs<Chunk>& args, ChooseShared& shared, u32 chunk)
        : args(args), shared(shared), chunk(chunk), own(args.own), array(args, chunk), zeroed(zeroed_of(args, chunk)), work(work_of<W>(args, chunk)), plan(work.plan()) {}

    // Finds the median of the ordinary elements among the sampled ones, if there are any. Called by
    // all threads; contains barriers.
    __device__ __forceinline__ void find_middle() const {
        if (shared.chunk == chunk) return;
        __syncthreads();
        if (threadIdx.x < kWarp) {
            const u32 lane = lane_id();
            const Places<W> places(kFloatType<W>);
            W own_places[2];
            bool exist[2];
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                const u32 i = k * kWarp + lane;
                const W word = array[Place(i).digit(own.elements())];
                exist[k] = i < kMiddleOf && is_ordinary(own, word);
                own_places[k] = places.place(word);
            }
            u32 n = 0, n_less[2] = {}, n_equal_before[2] = {};
#pragma unroll 1
            for (u32 i = 0; i < 2 * kWarp; ++i) {
                const bool exists = __shfl_sync(kAllLanes, i < kWarp ? exist[0] : exist[1], i % kWarp);
                const W place = __shfl_sync(kAllLanes, i < kWarp ? own_places[0] : own_places[1], i % kWarp);
                n += exists;
#pragma unroll
                for (u32 k = 0; k < 2; ++k) {
                    n_less[k] += exists && place < own_places[k];
                    n_equal_before[k] += exists && place == own_places[k] && i < k * kWarp + lane;
                }
            }
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                if (exist[k] && n_less[k] + n_equal_before[k] == n / 2) shared.middle = places.word(own_places[k]);
            }
            if (lane == 0) shared.has_middle = n > 0, shared.chunk = chunk;
        }
        __syncthreads();
    }

    // Searches a share for the first ordinary element, unless there is a median. Called by all
    // threads; contains barriers.
    __device__ __forceinline__ void find_first(u32 share) const {
        find_middle();
        if (likely(shared.has_middle)) return;
        const u32 n = own.elements(), end = min(n - share * kShare, kShare);
        u32 first = ~0u;
        for (u32 i = threadIdx.x; i < end && first == ~0u; i += kChooseThreads) {
            if (is_ordinary(own, array[share * kShare + i])) first = share * kShare + i;
        }
        first = warp_min_unsigned(first);
        if (lane_id() == 0 && first != ~0u) atomicMax(reinterpret_cast<unsigned long long*>(&zeroed.before_first), static_cast<unsigned long long>(n - first));
    }

    // The reference word: the median, or the first ordinary element, or 0 if there is none.
    // Elements that are too far from it have no code.
    __device__ __forceinline__ W first_word() const {
        if (likely(shared.has_middle)) return static_cast<W>(shared.middle);
        return zeroed.before_first > 0 ? array[static_cast<u32>(own.elements() - zeroed.before_first)] : W(0);
    }
    __device__ __forceinline__ Bins<W, kLayered> bins() const { return Bins<W, kLayered>{own, plan, zeroed.tries, 0}; }
    __device__ __forceinline__ double bound() const { return bins().bound(zeroed.range); }
    // The prediction of the first element: the reference word. With several layers, it is the
    // element itself if that is ordinary and not too far from the reference word.
    __device__ __forceinline__ W predicted_first(double bound) const {
        const W middle = first_word();
        if (!kLayered) return middle;
        const W first = array[0];
        const bool is_near = is_ordinary(own, first) && size_of(float_of(first) - float_of(middle)) < rounded_down(bound, W()) * Real<W>::kCodes;
        return is_near ? first : middle;
    }

    // Searches a share for the largest element that may have a code. The CTA that finishes the
    // chunk's last share also makes the decisions. Called by all threads; contains barriers.
    __device__ __forceinline__ void find_largest(u32 share) const {
        find_middle();
        const F middle = float_of(first_word()), farthest = rounded_down(bound(), W()) * Real<W>::kCodes;
        const u32 end = min(own.elements() - share * kShare, kShare);
        F largest = 0;
#pragma unroll 8
        for (u32 i = threadIdx.x; i < end; i += kChooseThreads) {
            const W word = array[share * kShare + i];
            const F x = float_of(word);
            // The first condition is false for elements that are not finite.
            if (size_of(x - middle) < farthest && size_of(x) > largest && !(own.missing.any() && is_missing(own, word))) largest = size_of(x);
        }
        const W all = warp_max_unsigned(bits_of(largest));
        if (lane_id() == 0) shared.largest[threadIdx.x / kWarp] = all;
        __syncthreads();
        if (threadIdx.x == 0) {
            u64 most = 0;
            for (u32 w = 0; w < kChooseThreads / kWarp; ++w) most = max(most, shared.largest[w]);
            if (most > 0) atomicMax(reinterpret_cast<unsigned long long*>(&zeroed.largest), static_cast<unsigned long long>(most));
            __threadfence();
            shared.is_last = atomicAdd(&zeroed.n_looked, 1) + 1 == shares_of(own);
            __threadfence();
        }
        __syncthreads();
        if (shared.is_last) choose();
    }

    // Makes all decisions for a chunk. Called by all threads; contains barriers.
    __device__ __forceinline__ void choose() const {
        if (threadIdx.x == 0) {
            const double size = float_of(static_cast<W>(*static_cast<volatile u64*>(&zeroed.largest)));
            // The unit in the last place of the largest element: about the amount that rounding may
            // add to an error.
            const s32 exponent = static_cast<s32>(static_cast<u64>(__double_as_longlong(size)) >> 52) - 1023 - static_cast<s32>(Real<W>::kFraction);
            const double unit = size == 0 || exponent <= -1023 ? 0.0 : __longlong_as_double(static_cast<s64>(exponent + 1023) << 52);
            const double bound = this->bound();
            plan.first = predicted_first(bound);
            plan.is_stored = 0, plan.damage = 0, plan.layers[0].n_exact = 0, plan.block_units = 0;
            if (kLayered) plan.layer = 0, plan.layers[0].start = own.head_bytes();
            bins().begin(bound, unit);
        }
        if (threadIdx.x < kAxes * kSampledLevels) shared.costs[threadIdx.x] = Costs{};
        __syncthreads();
        Sampler<W, kChooseThreads, false>{own, array, shared.costs, nullptr, F(0)}.run(rounded_down(plan.layers[0].bins[0], W()));
        __syncthreads();
        if (threadIdx.x == 0) bins().widen();
        if (threadIdx.x < kWarp) decide();
        __syncthreads();
    }

    // Chooses the order of axes and the cubic steps from the costs, and whether the array is
    // stored. Called by one warp.
    __device__ __forceinline__ void decide() const {
        if (lane_id() == 0) {
            // For each axis: the mean cost of its samples at the finest level with the better of
            // the two predictions, in 2^-16 of the unit of costs. The axis with the lowest mean
            // comes last; on a tie, the first of these axes.
            u64 each[kAxes];
            for (u32 axis = 0; axis < kAxes; ++axis) {
                const Costs& of = shared.costs[axis * kSampledLevels];
                each[axis] = of.n > 0 ? (min(of.linear, of.cubic) << 16) / of.n : 0;
            }
            u32 order = 0;
            for (u32 axis = 0; axis < kAxes; ++axis) {
                u32 place = 0;
                for (u32 other = 0; other < kAxes; ++other) place += each[other] > each[axis] || (each[other] == each[axis] && other > axis);
                order |= axis << 8 * place;
            }
            plan.order = order;
        }
        __syncwarp();
        Planner{own, plan}.run();
        // The costs of a step's axis and level decide whether it is cubic.
        const u64 cubic = steps_that(plan, shared.costs, is_cubic);
        if (lane_id() == 0) {
            plan.layers[0].cubic = cubic;
            // If the blocks might not fit into the payload, the array is stored.
            const u64 most_bytes = own.head_bytes() + static_cast<u64>(kEntryBytes + kBlockHead) * plan.n_blocks + static_cast<u64>(sizeof(W)) * (own.elements() - 1);
            plan.is_stored = most_bytes > own.payload_bound(sizeof(W));
        }
    }
};

template <typename W>
__device__ __forceinline__ void multigrid_find_range(const CompressArgs<Chunk>& args) {
    __shared__ RangeShared<W> shared;
    const Chunk& own = args.own;
    const u32 shares = (own.elements() - 1) / kRangeElements + 1;
    const RangeChunks<W> chunks{static_cast<const char*>(args.src), args.src_stride, args.n_chunks, shares, own.elements(), kFloatType<W>,
                                Element(args.encoded), (args.flags & kSwapBytes) != 0, own.missing, own.missing};
    RangeFinder<W>(chunks, shared).run([&](u32 number) -> RangeScratch& { return zeroed_of(args, number).range; });
}

// Calls `look(chooser, share)` for all shares of all chunks.
template <typename W, bool kLayered, typename F>
__device__ __forceinline__ void look_at_shares(const CompressArgs<Chunk>& args, F look) {
    __shared__ ChooseShared shared;
    if (threadIdx.x == 0) shared.chunk = kNoChunk;
    __syncthreads();
    const u32 shares = shares_of(args.own);
    const u64 n = static_cast<u64>(shares) * args.n_chunks;
    // A CTA takes consecutive shares. So even with many chunks, its shares belong to few of them,
    // and it computes few medians (one per chunk).
    const u64 first = n * blockIdx.x / gridDim.x, end = n * (blockIdx.x + 1) / gridDim.x;
    for (u64 i = first; i < end; ++i) {
        look(Chooser<W, kLayered>(args, shared, static_cast<u32>(i / shares)), static_cast<u32>(i % shares));
        __syncthreads();
    }
}
template <typename W>
__device__ __forceinline__ void multigrid_find_first(const CompressArgs<Chunk>& args) {
    look_at_shares<W, false>(args, [](const Chooser<W, false>& chooser, u32 share) { chooser.find_first(share); });
}
template <typename W, bool kLayered>
__device__ __forceinline__ void multigrid_choose(const CompressArgs<Chunk>& args) {
    look_at_shares<W, kLayered>(args, [](const Chooser<W, kLayered>& chooser, u32 share) { chooser.find_largest(share); });
}
