// Decompression, in passes: the head of a payload is read and all that follows from it is planned, by a warp a chunk; numbers are decoded,
// by a warp a block (numbers_read.cuh), and become elements step by step (below); then elements that are kept exactly get to their places
// (exact_read.cuh). Where a region is wanted, the array is in the working memory, and what is wanted of it is copied at the end.

#pragma once

#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "walk.cuh"

// Scratch of all passes: zeroed are those of the tiles of all chunks (common/tile.cuh), then these. Then the chunks' own.
struct DecompressZeroed {
    WalkCounters walk;
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
// How to launch a pass.
constexpr LaunchInfo decompress_launch(u32 threads, u32 shared_bytes, u32 persistent) {
    return LaunchInfo{threads, shared_bytes, persistent, 1, sizeof(Visits), kDecompressScratch + sizeof(DecompressZeroed), 0};
}

// Where the array of a chunk is: that of the caller, or if only a region is wanted, one in the working memory.
template <typename W, bool kPart>
__device__ __forceinline__ W* array_of(const DecompressArgs<Chunk>& args, u32 chunk) {
    return kPart ? reinterpret_cast<W*>(work_of<W>(args, chunk).array()) : reinterpret_cast<W*>(static_cast<char*>(args.dst) + chunk * args.dst_stride);
}

// A frame, and its payload.
struct Frame {
    const char* const frame;
    const u64 frame_bytes, n_bytes;  // of the payload
    const char* const payload;

    __device__ __forceinline__ Frame(const DecompressArgs<Chunk>& args, u32 chunk)
        : frame(static_cast<const char*>(args.src) + chunk * args.src_stride), frame_bytes(args.frame_bytes[chunk]),
          n_bytes(frame_bytes - args.encoded.n_bytes), payload(frame + args.encoded.n_bytes) {}
};

// Reads the head of a payload, and plans. By a warp.
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
            damage = is_short || payload_bytes_told(frame.frame) > frame.n_bytes ? kMarkTruncated : frame.frame_bytes > args.max_frame_bytes ? kMarkCorrupt : 0;
        }
        if (lane == 0) plan.is_stored = is_stored, plan.n_exact = 0, plan.n_steps = plan.n_front = plan.n_blocks = plan.n_tiles = 0;
        __syncwarp();
        if (!is_stored && damage == 0) damage = read(own);
        if (lane == 0) plan.damage = damage;
    }
    // What is wrong with it.
    __device__ __forceinline__ u32 read(const Chunk& own) const {
        const u32 lane = lane_id(), head_bytes = own.head_bytes();
        const u32* const words = reinterpret_cast<const u32*>(frame.payload);
        const u32 order = words[4];
        u32 axes = 0;
        for (u32 k = 0; k < kAxes; ++k) axes |= (order >> 8 * k & 0xff) < kAxes ? 1u << (order >> 8 * k & 0xff) : 0;
        if (axes != (1u << kAxes) - 1) return kMarkCorrupt;
        if (words[5] != 0 || (sizeof(W) == 4 && words[3] != 0)) return kMarkUnsupported;
        const double bound = __longlong_as_double(static_cast<s64>(number(0)));
        const Float<W> first = float_of(static_cast<W>(number(8)));
        bool is_sound = is_finite(bound) && size_of(first) <= Real<W>::kMax && (own.mode != kAbs || number(0) == own.value);
        for (u32 i = lane; i < own.n_levels; i += kWarp) {
            const double bin = __longlong_as_double(static_cast<s64>(number(kHeadBytes + 8 * i)));
            is_sound &= is_finite(bin);
            plan.bins[own.n_levels - 1 - i] = bin;
        }
        const u64 n_exact = number(head_bytes - 8);
        // All sections are of whole words.
        is_sound &= n_exact <= frame.n_bytes - head_bytes && (n_exact | frame.n_bytes) % kUnit == 0;
        if (!__all_sync(kAllLanes, is_sound)) return kMarkCorrupt;
        if (lane == 0) plan.bound = bound, plan.first = number(8), plan.order = order, plan.cubic = number(24), plan.n_exact = n_exact;
        __syncwarp();
        Planner{own, plan}.run();
        const u64 table_end = head_bytes + static_cast<u64>(kEntryBytes) * plan.n_blocks, exact_at = frame.n_bytes - n_exact;
        // Without blocks nobody else looks at what is between.
        return table_end > exact_at ? kMarkTruncated : plan.n_blocks == 0 && table_end < exact_at ? kMarkCorrupt : 0;
    }
};

// By CTAs of a warp: a chunk each, as long as there are more.
template <typename W, bool kPart>
__device__ __forceinline__ void mgard_read_heads(const DecompressArgs<Chunk>& args) {
    for (u32 chunk = blockIdx.x; chunk < args.n_chunks; chunk += gridDim.x) {
        const HeadReader<W> reader(args, chunk);
        reader.run();
        // What the way begins with, and what it leads to where there are no steps.
        const Plan& plan = reader.plan;
        if (lane_id() == 0 && plan.damage == 0 && !plan.is_stored) {
            const W word = static_cast<W>(plan.first);
            *reader.work.before(plan, 0) = word;
            *array_of<W, kPart>(args, chunk) = args.flags & kSwapBytes ? swapped_bytes(word) : word;
        }
    }
}

// Numbers become elements.
template <typename W, bool kPart>
struct Refiner {
    const DecompressArgs<Chunk>& args;
    WalkShared& shared;

    __device__ __forceinline__ void run() const {
        visit_chunks(shared, visits_of(args), args.n_chunks, [&](u32 chunk) { refine_chunk(chunk); });
    }
    __device__ __forceinline__ void refine_chunk(u32 chunk) const {
        const Work<W> work = work_of<W>(args, chunk);
        const Plan& plan = work.plan();
        // What is damaged is not refined: nobody needs it.
        if (plan.is_stored || args.statuses[chunk] != kOk) return;
        WalkCounters& counters = zeroed_of(args, chunk).walk;
        const u32 n_steps = plan.n_steps, n_tiles = plan.n_tiles;
        begin_walk(shared, plan);
        u32 next = threadIdx.x == 0 ? draw_tile(counters) : 0;
        for (;;) {
            __syncthreads();
            if (threadIdx.x == 0) locate_tile(shared, counters, n_tiles, next, 0, 1, [](u32) { return true; });
            __syncthreads();
            const u32 number = shared.number;
            if (number == kNoStep) return;
            if (threadIdx.x == 0) next = draw_tile(counters);
            do_tile(shared, plan, counters, [&](u32 step, u32 tile) {
                if (step + 1 == n_steps) {
                    refine_tile<true>(work, plan, step, tile, array_of<W, kPart>(args, chunk));
                } else {
                    refine_tile<false>(work, plan, step, tile, work.before(plan, step + 1));
                }
            });
            // Nobody waits for the last step.
            if (number + 1 == n_steps) continue;
            __syncthreads();
            if (threadIdx.x == 0) add_release(&counters.n_done, 1);
        }
    }
    template <bool kIsLast>
    __device__ __forceinline__ void refine_tile(const Work<W>& work, const Plan& plan, u32 number, u32 tile, W* after) const {
        const Step& step = shared.step;
        const bool swaps = kIsLast && args.flags & kSwapBytes;
        const W* const before = work.before(plan, number);
        const W* const numbers = work.numbers() + step.first_number;
        const Float<W> bin = rounded_down(plan.bins[step.level], W());
        const u32 first = tile * kTileNodes + threadIdx.x;
#pragma unroll 1
        for (u32 k = 0; k < kPerThread && first + k * kWalkThreads < step.n_nodes; k += kBatch<W>) {
            Node nodes[kBatch<W>];
            Beside<W> beside[kBatch<W>];
            W codes[kBatch<W>];
            // All loads are under way together. Behind the last node is that one again.
#pragma unroll
            for (u32 i = 0; i < kBatch<W>; ++i) {
                nodes[i] = Node(step, min(first + (k + i) * kWalkThreads, step.n_nodes - 1));
                beside[i] = Beside<W>(step, nodes[i], before);
                codes[i] = numbers[nodes[i].has_new(step) ? nodes[i].number(step) : 0];
            }
#pragma unroll
            for (u32 i = 0; i < kBatch<W>; ++i) {
                const W own = beside[i].own, made = bits_of(ordinary(beside[i].prediction() + whole(codes[i]) * bin));
                W* const to = after + nodes[i].after(step);
                *to = swaps ? swapped_bytes(own) : own;
                if (nodes[i].has_new(step)) to[step.inner] = swaps ? swapped_bytes(made) : made;
            }
        }
    }
};

template <typename W, bool kPart>
__device__ __forceinline__ void mgard_refine(const DecompressArgs<Chunk>& args) {
    __shared__ WalkShared shared;
    Refiner<W, kPart>{args, shared}.run();
}

// Copies what is wanted of an array that is decoded. A CTA copies a share of a chunk.
template <typename W>
__device__ __forceinline__ void mgard_take(const RegionArgs<Chunk>& args) {
    constexpr u32 kThreads = 256;
    const u32 tiles = gridDim.x / args.n_chunks, chunk = blockIdx.x / tiles, tile = blockIdx.x - chunk * tiles;
    const Work<W> work = work_of<W>(args, chunk);
    if (work.plan().is_stored || args.statuses[chunk] != kOk) return;
    copy_region<kThreads>(args.region, sizeof(W), work.array(), static_cast<char*>(args.dst) + chunk * args.dst_stride, tile, tiles);
}
