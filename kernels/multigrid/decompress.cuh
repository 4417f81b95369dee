// Decompression, in passes:
//
//   1. A warp per chunk reads the head of its payload, and computes the plan (layout.cuh).
//   2. Two warps per block decode its numbers (numbers_read.cuh).
//   3. The numbers are converted to elements, step by step and layer by layer (below).
//   4. A CTA per piece writes the exact elements to the array (exact_read.cuh).
//   5. For a region: the array is in scratch, and the region is copied from there.

#pragma once

#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "walk.cuh"

// Scratch layout of all passes. Zeroed: the scratch of all chunks' tiles (common/tile.cuh), Visits,
// and this struct for each chunk. Then the other scratch of each chunk (Work).
struct DecompressZeroed {
    WalkCounters walk;
    Sums exact[kMostLayers];  // sums of the layers' exact elements, if there are several layers
};
__device__ __forceinline__ Visits& visits_of(const DecompressArgs<Chunk>& args) {
    return *reinterpret_cast<Visits*>(static_cast<char*>(args.scratch) + args.n_chunks * u64{kDecompressScratch});
}
__device__ __forceinline__ DecompressZeroed& zeroed_of(const DecompressArgs<Chunk>& args, u32 chunk) {
    return reinterpret_cast<DecompressZeroed*>(&visits_of(args) + 1)[chunk];
}
template <typename W>
__device__ __forceinline__ Work<W> work_of(const DecompressArgs<Chunk>& args, u32 chunk) {
    const u64 zeroed_bytes = args.n_chunks * (kDecompressScratch + sizeof(DecompressZeroed)) + sizeof(Visits);
    return Work<W>{::work_of(args.scratch, zeroed_bytes, args.own, chunk), args.own};
}
// Launch parameters of a pass.
constexpr LaunchInfo decompress_launch(u32 threads, u32 shared_bytes, u32 persistent) {
    return LaunchInfo{threads, shared_bytes, persistent, 1, sizeof(Visits), kDecompressScratch + sizeof(DecompressZeroed), 0};
}

// Address of a chunk's decoded array: the output, or scratch if only a region is wanted (kPart).
template <typename W, bool kPart>
__device__ __forceinline__ W* array_of(const DecompressArgs<Chunk>& args, u32 chunk) {
    return kPart ? reinterpret_cast<W*>(work_of<W>(args, chunk).array()) : reinterpret_cast<W*>(static_cast<char*>(args.dst) + chunk * args.dst_stride);
}

// Addresses and lengths of a frame and its payload.
struct Frame {
    const char* const frame;
    const u64 frame_bytes, n_bytes;  // n_bytes: of the payload
    const char* const payload;

    __device__ __forceinline__ Frame(const DecompressArgs<Chunk>& args, u32 chunk)
        : frame(static_cast<const char*>(args.src) + chunk * args.src_stride), frame_bytes(args.frame_bytes[chunk]),
          n_bytes(frame_bytes - args.encoded.n_bytes), payload(frame + args.encoded.n_bytes) {}
};

// Reads the head of a payload, and computes the plan. Called by one warp.
template <typename W>
struct HeadReader {
    const DecompressArgs<Chunk>& args;
    const Frame frame;
    Plan& plan;
    const Work<W> work;

    __device__ __forceinline__ HeadReader(const DecompressArgs<Chunk>& args, u32 chunk)
        : args(args), frame(args, chunk), plan(work_of<W>(args, chunk).plan()), work(work_of<W>(args, chunk)) {}

    __device__ __forceinline__ u64 number(u32 at) const { return *reinterpret_cast<const u64*>(frame.payload + at); }
    static __device__ __forceinline__ bool is_finite(double x) { return x >= 0 && x <= Real<u64>::kMax; }

    __device__ __forceinline__ void run() const {
        const Chunk& own = args.own;
        const u32 lane = lane_id(), head_bytes = own.head_bytes();
        const bool is_stored = ::is_stored(args.stored, frame.frame);
        u32 damage = 0;
        if (!is_stored) {
            const bool is_short = frame.frame_bytes < args.encoded.n_bytes + head_bytes || frame.frame_bytes < args.stored.n_bytes;
            damage = is_short || header_payload_bytes(frame.frame) > frame.n_bytes ? kMarkTruncated : frame.frame_bytes > args.max_frame_bytes ? kMarkCorrupt : 0;
        }
        if (lane == 0) plan.is_stored = is_stored, plan.n_steps = plan.n_front = plan.n_blocks = plan.n_tiles = 0;
        __syncwarp();
        if (!is_stored && damage == 0) damage = read(own);
        if (lane == 0) plan.damage = damage;
    }
    // Reads the head. Returns a damage code, or 0 if it is sound.
    __device__ __forceinline__ u32 read(const Chunk& own) const {
        const u32 lane = lane_id(), head_bytes = own.head_bytes();
        const u32* const words = reinterpret_cast<const u32*>(frame.payload);
        const u32 order = words[4];
        u32 axes = 0;
        for (u32 k = 0; k < kAxes; ++k) axes |= (order >> 8 * k & 0xff) < kAxes ? 1u << (order >> 8 * k & 0xff) : 0;
        if (axes != (1u << kAxes) - 1) return kMarkCorrupt;
        if (words[5] != 0 || (sizeof(W) == 4 && words[3] != 0)) return kMarkUnsupported;
        const Float<W> first = float_of(static_cast<W>(number(8)));
        bool is_sound = size_of(first) <= Real<W>::kMax && number(0) == number(own.n_layers > 1 ? own.layer_at(own.n_layers - 1) : 0);
        if (own.n_layers > 1) is_sound &= number(head_bytes - kCheckBytes) == check_of(words, (head_bytes - kCheckBytes) / 4);
        u64 at = head_bytes;
#pragma unroll 1
        for (u32 layer = 0; layer < own.n_layers; ++layer) is_sound &= read_layer(own, layer, at);
        is_sound &= at == frame.n_bytes;
        if (!__all_sync(kAllLanes, is_sound)) return kMarkCorrupt;
        if (lane == 0) plan.first = number(8), plan.order = order;
        __syncwarp();
        Planner{own, plan}.run();
        // The table must fit before the exact elements. If there are no blocks, nothing else may
        // precede them, which no other code checks.
        const u64 table_bytes = static_cast<u64>(kEntryBytes) * plan.n_blocks;
        u32 damage = 0;
        for (u32 layer = 0; layer < own.n_layers; ++layer) {
            const u64 n_bytes = plan.layers[layer].exact_at - plan.layers[layer].start;
            damage |= table_bytes > n_bytes ? kMarkTruncated : plan.n_blocks == 0 && n_bytes > 0 ? kMarkCorrupt : 0;
        }
        return damage;
    }
    // Reads the description of a layer, whose data begins at byte `at` of the payload, and moves
    // `at` past that data. Returns false if a value that the lane has read is invalid.
    __device__ __forceinline__ bool read_layer(const Chunk& own, u32 number_of_layer, u64& at) const {
        Layer& layer = plan.layers[number_of_layer];
        const bool is_only = own.n_layers == 1, is_first = number_of_layer == 0;
        const u32 layer_head = own.layer_at(number_of_layer), bins_at = is_first ? kHeadBytes : layer_head + kLayerBytes;
        const u64 n_exact = number(is_first ? own.layers_at() - 8 : layer_head + 24), left = frame.n_bytes - at;
        const u64 n_bytes = is_only ? left - min(n_exact, left) : number(layer_head + 8), check = is_only ? 0 : number(layer_head + 16);
        const u64 bound_bits = number(is_only ? 0 : layer_head);
        const double bound = __longlong_as_double(static_cast<s64>(bound_bits));
        // The length of every section must be a multiple of a word.
        bool is_sound = n_exact <= left && n_bytes <= left - n_exact && (n_exact | n_bytes) % kUnit == 0 && is_finite(bound);
        is_sound &= check <= ~0u && (n_exact > 0 || check == 0);
        if (own.mode == kAbs) {
            const double factor = static_cast<double>(u64{1} << kLayerBits * (own.n_layers - 1 - number_of_layer));
            const double asked = fmin(__longlong_as_double(static_cast<s64>(own.value)) * factor, Real<u64>::kMax);
            is_sound &= bound_bits == static_cast<u64>(__double_as_longlong(asked));
        }
        for (u32 i = lane_id(); i < own.n_levels; i += kWarp) {
            const double bin = __longlong_as_double(static_cast<s64>(number(bins_at + 8 * i)));
            is_sound &= is_finite(bin);
            layer.bins[own.n_levels - 1 - i] = bin;
        }
        if (lane_id() == 0) {
            layer.bound = bound, layer.predicts = is_first ? ~u64{0} : number(layer_head + 32), layer.cubic = number(is_first ? 24 : layer_head + 40);
            layer.n_exact = n_exact, layer.start = at, layer.exact_at = at + n_bytes, layer.exact_check = static_cast<u32>(check);
        }
        at += min(left, n_bytes + n_exact);
        return is_sound;
    }
    // The checksum of `n` words, in 32 bits. Called by one warp.
    static __device__ __forceinline__ u64 check_of(const u32* words, u32 n) {
        Sums sums;
        for (u32 i = lane_id(); i < n; i += kWarp) sums.add(i, words[i]);
        return static_cast<u32>(checksum_of(warp_sum(sums.a), warp_sum(sums.b), 4ull * n));
    }
};

// Reads the heads of all chunks. A CTA has one warp and takes one chunk after another.
template <typename W, bool kPart>
__device__ __forceinline__ void multigrid_read_heads(const DecompressArgs<Chunk>& args) {
    for (u32 chunk = blockIdx.x; chunk < args.n_chunks; chunk += gridDim.x) {
        const HeadReader<W> reader(args, chunk);
        reader.run();
        // If there are no steps, the first element is the whole array.
        const Plan& plan = reader.plan;
        if (lane_id() == 0 && plan.damage == 0 && !plan.is_stored) {
            const W word = static_cast<W>(plan.first);
            *array_of<W, kPart>(args, chunk) = args.flags & kSwapBytes ? swapped_bytes(word) : word;
        }
    }
}

// Converts numbers to elements. With several layers, there is a sweep for each: it reads the result
// of the layers before from one array and writes its own result to another. The arrays alternate
// such that the last result is in the destination.
template <typename W, bool kPart, bool kLayered>
struct Refiner {
    // Several layers take more registers, so a thread refines fewer nodes together.
    static constexpr u32 kBatch = kLayered ? 2 : ::kBatch<W>;

    const DecompressArgs<Chunk>& args;
    WalkShared& shared;

    __device__ __forceinline__ void run() const {
        visit_chunks(shared, visits_of(args), args.n_chunks, [&](u32 chunk) { refine_chunk(chunk); });
    }
    __device__ __forceinline__ void refine_chunk(u32 chunk) const {
        const Work<W> work = work_of<W>(args, chunk);
        const Plan& plan = work.plan();
        // Damaged chunks are not refined, as their result is not used.
        if (plan.is_stored || args.statuses[chunk] != kOk) return;
        WalkCounters& counters = zeroed_of(args, chunk).walk;
        const u32 n_steps = plan.n_steps, n_tiles = plan.n_tiles, n_layers = kLayered ? args.own.n_layers : 1;
        begin_walk(shared, plan);
        u32 next = threadIdx.x == 0 ? draw_tile(counters) : 0;
        for (;;) {
            __syncthreads();
            if (threadIdx.x == 0) locate_tile(shared, n_tiles, next, 0, n_layers, [](u32) { return false; });
            __syncthreads();
            const u32 number = shared.number, layer = kLayered ? shared.way : 0;
            if (number == kNoStep) return;
            if (threadIdx.x == 0) next = draw_tile(counters);
            do_tile(shared, plan, counters, [&](u32 step, u32 tile) {
                if (step == 0) {
                    if (threadIdx.x == 0) *work.before(plan, 0) = static_cast<W>(plan.first);
                    __syncthreads();
                }
                W* const array = array_of<W, kPart>(args, chunk);
                const bool ends_there = !kLayered || (n_layers - layer) % 2 == 1;
                W* const to = ends_there ? array : work.other_array();
                const W* const layers = ends_there ? work.other_array() : array;
                if (step + 1 == n_steps) {
                    refine_tile<true>(work, plan, layer, step, tile, layers, to);
                } else {
                    refine_tile<false>(work, plan, layer, step, tile, layers, work.before(plan, step + 1));
                }
            });
            // No CTA waits for the last step of the last layer, so its tiles are not counted.
            if (number + 1 == n_steps && layer + 1 == n_layers) continue;
            __syncthreads();
            if (threadIdx.x == 0) add_release(&counters.n_done, 1);
        }
    }
    // Refines a tile of step `number` of a layer, and writes the nodes after the step to `after`.
    // `layers`: the array as decoded from the layers before.
    template <bool kIsLast>
    __device__ __forceinline__ void refine_tile(const Work<W>& work, const Plan& plan, u32 layer, u32 number, u32 tile, const W* layers, W* after) const {
        const Step& step = shared.step;
        const Layer& of = plan.layers[layer];
        const bool swaps = kIsLast && args.flags & kSwapBytes && (!kLayered || layer + 1 == args.own.n_layers);
        const bool is_cubic = of.cubic >> number & 1, predicts = of.predicts >> number & 1;
        const W* const before = work.before(plan, number);
        const W* const numbers = work.numbers(layer) + step.first_number;
        const Float<W> bin = rounded_down(of.bins[step.level], W());
        // Maximum distance of predictions from the values of the layers before.
        const Float<W> reach = kLayered && layer > 0 ? rounded_down(plan.layers[layer - 1].bins[step.level], W()) * Float<W>(0.5) : Float<W>(0);
        const u32 first = tile * kTileNodes + threadIdx.x;
#pragma unroll 1
        for (u32 k = 0; k < kPerThread && first + k * kWalkThreads < step.n_nodes; k += kBatch) {
            Node nodes[kBatch];
            Beside<W> beside[kBatch];
            W codes[kBatch], had[kBatch];
            // Issue all loads together. Indices past the last node are replaced by it.
#pragma unroll
            for (u32 i = 0; i < kBatch; ++i) {
                nodes[i] = Node(step, min(first + (k + i) * kWalkThreads, step.n_nodes - 1));
                beside[i] = Beside<W>(step, is_cubic && predicts, nodes[i], before);
                codes[i] = numbers[nodes[i].has_new(step) ? nodes[i].number(step) : 0];
                had[i] = kLayered && layer > 0 && nodes[i].has_new(step) ? layers[nodes[i].element(step)] : W(0);
            }
#pragma unroll
            for (u32 i = 0; i < kBatch; ++i) {
                Float<W> expected = beside[i].prediction();
                if (kLayered && layer > 0) expected = predicts ? near(expected, float_of(had[i]), reach) : float_of(had[i]);
                const W own = beside[i].own, made = bits_of(ordinary(expected + whole(codes[i]) * bin));
                W* const to = after + nodes[i].after(step);
                *to = swaps ? swapped_bytes(own) : own;
                if (nodes[i].has_new(step)) to[step.inner] = swaps ? swapped_bytes(made) : made;
            }
        }
    }
};

template <typename W, bool kPart, bool kLayered>
__device__ __forceinline__ void multigrid_refine(const DecompressArgs<Chunk>& args) {
    __shared__ WalkShared shared;
    Refiner<W, kPart, kLayered>{args, shared}.run();
}

// Copies the wanted region of a decoded array to the output. A CTA copies a share of a chunk's
// region.
template <typename W>
__device__ __forceinline__ void multigrid_take(const RegionArgs<Chunk>& args) {
    constexpr u32 kThreads = 256;
    const u32 tiles = gridDim.x / args.n_chunks, chunk = blockIdx.x / tiles, tile = blockIdx.x - chunk * tiles;
    const Work<W> work = work_of<W>(args, chunk);
    if (work.plan().is_stored || args.statuses[chunk] != kOk) return;
    copy_region<kThreads>(args.region, sizeof(W), work.array(), static_cast<char*>(args.dst) + chunk * args.dst_stride, tile, tiles);
}
