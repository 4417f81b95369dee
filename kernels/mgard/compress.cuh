// Compression, in passes:
//
//   1. choose.cuh, in mode rel: the range of the array, by which the bound is known.
//   2. choose.cuh, two passes: an element in the middle, and what is chosen: bins, the order of axes, which steps are cubic.
//   3. refine_write.cuh: step by step from the first element to the array, each number by what a decoder has; of a mean of squares several times.
//   4. numbers_write.cuh, two passes: a CTA a block counts its numbers in their contexts, and makes the tables; then a warp writes the string.
//   5. exact_write.cuh: a CTA a piece finds out what of it is kept exactly, and how many bytes that takes.
//   6. place.cuh: everything gets its place in the payload by the protocol of common/ordered_frames.cuh.
//
// Of several layers, passes 3 to 6 follow each other once for each. Behind them is one more (layers_write.cuh), which chooses for the next layer; at the end the head
// is written. Memory is that of one layer, but for what the layer before has of the array.
//
// What passes leave for each other is in the chunks' working memory (layout.cuh), but for what has to be zeroed first.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/range.cuh"
#include "walk.cuh"

// How a chunk's bins are found where the mean of squares counts, between two ways; and what the last way has found.
struct Tries {
    double half, best_half;  // of a bin of the finest level, and of those that were best
    double unit;             // that rounding may add to an error
    u32 has_best;
    u32 n_ways;              // after which the last one is done, if that is decided already
    u64 squares, n_measured; // errors, in units, and how many elements have one
    double units;            // of an error of 1
};

// Of a chunk, zeroed.
struct CompressZeroed {
    RangeScratch range;
    u64 before_first;   // the number of elements less that of the first ordinary one, if that is asked for
    u64 largest;        // bits of the size of the largest element that counts
    u32 n_looked;       // shares of the array that were looked at for it
    u32 has_exact;      // whether any element is kept exactly
    u32 has_exact_before, reserved;  // by the layers before
    WalkCounters walk;
    Tries tries;
    Sums exact[kMostLayers];  // of sections of exact elements, if there are several layers
};

// The layer that is written.
template <bool kLayered>
__device__ __forceinline__ u32 layer_of(const Plan& plan) { return kLayered ? plan.layer : 0; }

// How long things of a frame are, for ordered_frames.cuh. Lengths are in units; that of the first tile has the table, too.
struct FrameLayout {
    using Own = Chunk;
    using Sum = u64;
    static constexpr u32 kPartsPerTile = 1;

    const Chunk& own;
    const u32 word_bytes;

    __device__ __forceinline__ u64 raw_bytes() const { return static_cast<u64>(own.elements()) * word_bytes; }
    __device__ __forceinline__ u64 payload_bytes(u64 units) const { return own.head_bytes() + units * kUnit; }
};

// Scratch of all passes: that of the protocol, then what is zeroed besides.
__device__ __forceinline__ u64 protocol_bytes(const CompressArgs<Chunk>& args) {
    return sizeof(FramesScratch) + args.n_chunks * (sizeof(ChunkScratch) + u64{8} * args.own.n_tiles);
}
__device__ __forceinline__ Visits& visits_of(const CompressArgs<Chunk>& args) {
    return *reinterpret_cast<Visits*>(static_cast<char*>(args.scratch) + protocol_bytes(args));
}
__device__ __forceinline__ CompressZeroed& zeroed_of(const CompressArgs<Chunk>& args, u32 chunk) {
    return reinterpret_cast<CompressZeroed*>(&visits_of(args) + 1)[chunk];
}
template <typename W>
__device__ __forceinline__ Work<W> work_of(const CompressArgs<Chunk>& args, u32 chunk) {
    const u64 zeroed_bytes = protocol_bytes(args) + sizeof(Visits) + args.n_chunks * sizeof(CompressZeroed);
    return Work<W>{::work_of(args.scratch, zeroed_bytes, args.own, chunk), args.own};
}
constexpr LaunchInfo compress_launch(u32 threads, u32 shared_bytes, u32 persistent) {
    return LaunchInfo{threads, shared_bytes, persistent, 1, sizeof(FramesScratch) + sizeof(Visits), sizeof(ChunkScratch) + sizeof(CompressZeroed), sizeof(u64)};
}

// A chunk's array.
template <typename W>
struct Array {
    const W* const elements;
    const bool swaps;

    __device__ __forceinline__ Array(const CompressArgs<Chunk>& args, u32 chunk)
        : elements(reinterpret_cast<const W*>(static_cast<const char*>(args.src) + chunk * args.src_stride)), swaps(args.flags & kSwapBytes) {}
    __device__ __forceinline__ W operator[](u32 i) const { return swaps ? swapped_bytes(elements[i]) : elements[i]; }
};

// Whether an element is missing. Comparisons one after the other take fewer registers than a loop where there are many loads under way, and
// more where there are few.
template <bool kUnrolls = false, typename W>
__device__ __forceinline__ bool is_missing(const Chunk& own, W word) {
    bool is_fill = false;
#pragma unroll(kUnrolls ? kMaxFills : 1)
    for (u32 i = 0; i < kMaxFills; ++i) is_fill |= word == static_cast<W>(own.missing.fills[i]);
    return is_fill || float_of(word) < float_of(static_cast<W>(own.least)) || float_of(word) > float_of(static_cast<W>(own.most));
}

// Whether an element is finite, and not missing.
template <typename W>
__device__ __forceinline__ bool is_ordinary(const Chunk& own, W word) {
    return size_of(float_of(word)) <= Real<W>::kMax && !(own.missing.any() && is_missing(own, word));
}
