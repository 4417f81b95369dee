// Compression, in passes:
//
//   1. In mode rel: finds the range of the array, which determines the bound (choose.cuh).
//   2. Two passes find the median and choose bins, the order of axes and the cubic steps
//      (choose.cuh).
//   3. Refines step by step, from the first element to the whole array, and computes a number for
//      each element: the code of its difference from a prediction. Predictions only use values that
//      a decoder has. Mode rms repeats this several times (refine_write.cuh).
//   4. Two passes encode the numbers. A CTA per block counts its numbers in their contexts and
//      builds the tables; then a warp writes the string, and another one the tails
//      (numbers_write.cuh).
//   5. A CTA per piece of the array finds the exact elements and their encoded size
//      (exact_write.cuh).
//   6. Finds the places of blocks and pieces in the payload by the protocol of
//      common/ordered_frames.cuh, and writes them (place.cuh).
//
// With several layers, passes 3 to 6 run once for each. After each layer, another pass chooses bins
// and predictions of the next layer (layers_write.cuh). The last pass writes the head. The scratch
// is that of one layer, plus the array as decoded from the layer before.
//
// Data that passes share is in the chunks' scratch (layout.cuh). Shared data that must be zeroed
// first is in CompressZeroed.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/range.cuh"
#include "walk.cuh"

// State of the search for a chunk's bins in mode rms, between two sweeps; and the results of the
// last sweep.
struct Tries {
    double half, best_half;  // half-width of the finest bins: current, best
    double unit;             // amount that rounding may add to an error
    u32 has_best;
    u32 n_ways;              // total number of sweeps; 0 if not yet decided
    u64 squares, n_measured; // sum of squared errors, in squared units; number of errors
    double units;            // units in an error of 1
};

// The zeroed scratch of a chunk.
struct CompressZeroed {
    RangeScratch range;
    u64 before_first;   // number of elements minus index of the first ordinary one; 0: not found
    u64 largest;        // bits of the largest magnitude of an element that may have a code
    u32 n_looked;       // number of shares searched for the largest element
    u32 has_exact;      // whether the current layer stores any element exactly
    u32 has_exact_before, reserved;  // whether any layer before stores an element exactly
    WalkCounters walk;
    Tries tries;
    Sums exact[kMostLayers];  // sums of the layers' exact elements, if there are several layers
};

// Index of the layer that is being written.
template <bool kLayered>
__device__ __forceinline__ u32 layer_of(const Plan& plan) { return kLayered ? plan.layer : 0; }

// Describes a frame to ordered_frames.cuh. Lengths of tiles are in units of kUnit bytes. The length
// of the first tile includes the table.
struct FrameLayout {
    using Own = Chunk;
    using Sum = u64;
    static constexpr u32 kPartsPerTile = 1;

    const Chunk& own;
    const u32 word_bytes;

    __device__ __forceinline__ u64 raw_bytes() const { return static_cast<u64>(own.elements()) * word_bytes; }
    __device__ __forceinline__ u64 payload_bytes(u64 units) const { return own.head_bytes() + units * kUnit; }
};

// Scratch layout of all passes. Zeroed: the protocol's scratch, Visits, and a CompressZeroed for
// each chunk. Then the other scratch of each chunk (Work).
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

// Reads the elements of a chunk's array, in native byte order.
template <typename W>
struct Array {
    const W* const elements;
    const bool swaps;

    __device__ __forceinline__ Array(const CompressArgs<Chunk>& args, u32 chunk)
        : elements(reinterpret_cast<const W*>(static_cast<const char*>(args.src) + chunk * args.src_stride)), swaps(args.flags & kSwapBytes) {}
    __device__ __forceinline__ W operator[](u32 i) const { return swaps ? swapped_bytes(elements[i]) : elements[i]; }
};

// True if an element is missing. kUnrolls: unrolls the loop over fill values. This takes fewer
// registers if many loads are in flight, and more if few are.
template <bool kUnrolls = false, typename W>
__device__ __forceinline__ bool is_missing(const Chunk& own, W word) {
    bool is_fill = false;
#pragma unroll(kUnrolls ? kMaxFills : 1)
    for (u32 i = 0; i < kMaxFills; ++i) is_fill |= word == static_cast<W>(own.missing.fills[i]);
    return is_fill || float_of(word) < float_of(static_cast<W>(own.least)) || float_of(word) > float_of(static_cast<W>(own.most));
}

// True if an element is finite and not missing.
template <typename W>
__device__ __forceinline__ bool is_ordinary(const Chunk& own, W word) {
    return size_of(float_of(word)) <= Real<W>::kMax && !(own.missing.any() && is_missing(own, word));
}
