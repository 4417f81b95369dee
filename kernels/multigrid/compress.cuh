// Compression, in passes:
//
//   1. choose.cuh, in mode rel: the range of the array, which determines the bound.
//   2. choose.cuh, two passes: the median, and all choices: bins, the order of axes, the cubic
//      steps.
//   3. refine_write.cuh: step by step from the first element to the array. Each number is relative
//      to the values that a decoder has. Mode rms repeats this several times.
//   4. numbers_write.cuh, two passes: a CTA per block counts its numbers in their contexts and
//      builds the tables; then a warp writes the string.
//   5. exact_write.cuh: a CTA per piece finds its exact elements, and the bytes that they take.
//   6. place.cuh: everything gets its place in the payload by the protocol of
//      common/ordered_frames.cuh.
//
// With several layers, passes 3 to 6 run once for each. One more pass follows them
// (layers_write.cuh), which makes the choices for the next layer. At the end the head is written.
// Scratch is that of one layer, plus the values that the layer before has for the array.
//
// Data that passes share is in the chunks' scratch (layout.cuh), except for data that must be
// zeroed first.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/range.cuh"
#include "walk.cuh"

// State of the search for a chunk's bins in mode rms, between two sweeps; and the results of the
// last sweep.
struct Tries {
    double half, best_half;  // half a bin of the finest level, now and for the best bins
    double unit;             // amount that rounding may add to an error
    u32 has_best;
    u32 n_ways;              // number of sweeps after which the search ends, once decided
    u64 squares, n_measured; // of errors, in units; number of elements measured
    double units;            // of an error of 1
};

// Scratch of a chunk, zeroed.
struct CompressZeroed {
    RangeScratch range;
    u64 before_first;   // number of elements minus the index of the first ordinary one, if needed
    u64 largest;        // bits of the magnitude of the largest element that counts
    u32 n_looked;       // shares of the array that were searched for it
    u32 has_exact;      // whether any element is stored exactly
    u32 has_exact_before, reserved;  // the same, by the layers before
    WalkCounters walk;
    Tries tries;
    Sums exact[kMostLayers];  // of sections of exact elements, if there are several layers
};

// The layer that is written.
template <bool kLayered>
__device__ __forceinline__ u32 layer_of(const Plan& plan) { return kLayered ? plan.layer : 0; }

// Lengths of a frame's parts, for ordered_frames.cuh, in units. That of the first tile includes the
// table.
struct FrameLayout {
    using Own = Chunk;
    using Sum = u64;
    static constexpr u32 kPartsPerTile = 1;

    const Chunk& own;
    const u32 word_bytes;

    __device__ __forceinline__ u64 raw_bytes() const { return static_cast<u64>(own.elements()) * word_bytes; }
    __device__ __forceinline__ u64 payload_bytes(u64 units) const { return own.head_bytes() + units * kUnit; }
};

// Scratch of all passes: that of the protocol, then other zeroed data.
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

// Whether an element is missing. Unrolled comparisons take fewer registers than a loop if many
// loads are in flight, and more if few are.
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
