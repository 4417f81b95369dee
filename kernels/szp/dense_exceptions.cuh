// Elements of a block of level dense that are kept exactly, as in exceptions.cuh: a thread has several words of the marks, which are in
// scratch.

#pragma once

#include "../stage/marks_write.cuh"
#include "block_work.cuh"
#include "dense_scratch.cuh"
#include "exceptions.cuh"

// As many as registers allow, several times per multiprocessor.
template <typename W>
constexpr u32 kPredictThreads = sizeof(W) == 4 ? 384 : 256;
constexpr u32 kPredictCtas = 2;
constexpr u32 kMostCandidates = 8;  // for the orders, at a time

// What the threads of the first pass have in common.
template <typename W>
struct DensePredictShared {
    static constexpr u32 kThreads = kPredictThreads<W>, kWarps = kThreads / kWarp, kSymbols = DenseBlock<W>::kSymbols, kSizes = 1 << 14, kLow = 4;

    union {
        // Of the last numbers; before the first ones are zeros. Where rows are of 32 numbers, of two rows in a word.
        unsigned char sizes[kSizes];
        u32 size_pairs[kSizes / 2];
        u32 marks[kDenseMarks];       // coded
    };
    typename ContextTablesMaker<kSymbols, kThreads>::State tables;
    Quantiser<W> quantiser;
    RowBox box;
    u32 costs[3][kMostCandidates];
    u32 low_costs[kLow * kLow * kLow];  // of orders below 4 along z, y and x
    u32 found;
    u32 of_warps[3][kWarps];
    u64 marks_totals[kWarps];
    W first_word, first_code, hole;
    u32 n_holes, n_others, marks_bytes, are_marks_coded;
};

template <typename W>
struct DenseExceptions {
    static constexpr u32 kNone = ~0u, kThreads = kPredictThreads<W>, kWarps = kThreads / kWarp, kOwn = kDenseMarks / kThreads;
    static_assert(kDenseMarks % kThreads == 0, "all threads have as many words");

    DensePredictShared<W>& shared;
    DenseBlock<W>& block;
    const Finder elements;
    const char* const array;
    const Element& element;
    const bool swaps;

    __device__ __forceinline__ W word(u32 i) const { return load_element<W>(elements.find(array, i, element.bytes), element, swaps); }
    // Those of the 32 numbers of a word that exist.
    __device__ __forceinline__ u32 existing(u32 word) const { return low_bits(0u, min(shared.box.m - min(shared.box.m, 32 * word), 32u)); }
    __device__ __forceinline__ u32 n_words() const { return (shared.box.m + 31) / 32; }

    // Gives each element without a code that of another one, and marks holes and others; is false, in all threads, if the block is to
    // have words instead. Barriers.
    __device__ __forceinline__ bool find() const {
        const u32 t = threadIdx.x, warp = t / kWarp, lane = lane_id(), m = shared.box.m;
        // The last before the thread's words that has a code, plus 1; the first of all; and the first without one.
        u32 through = 0, first_coded = kNone, first_uncoded = kNone;
#pragma unroll
        for (u32 k = kOwn; k-- > 0;) {
            const u32 at = kOwn * t + k, uncoded = block.uncoded[at], coded = existing(at) & ~uncoded;
            if (coded) through = max(through, 32 * at + 32 - __clz(coded)), first_coded = 32 * at + __ffs(coded) - 1;
            if (uncoded) first_uncoded = 32 * at + __ffs(uncoded) - 1;
        }
#pragma unroll
        for (u32 step = 1; step < kWarp; step *= 2) {
            const u32 before = __shfl_up_sync(kAllLanes, through, step);
            if (lane >= step) through = max(through, before);
        }
        first_coded = warp_min_unsigned(first_coded), first_uncoded = warp_min_unsigned(first_uncoded);
        if (lane == kWarp - 1) shared.of_warps[0][warp] = through, shared.of_warps[1][warp] = first_coded, shared.of_warps[2][warp] = first_uncoded;
        __syncthreads();
        u32 last = __shfl_up_sync(kAllLanes, through, 1), first = kNone, hole_at = kNone;
        if (lane == 0) last = 0;
        for (u32 w = 0; w < kWarps; ++w) {
            if (w < warp) last = max(last, shared.of_warps[0][w]);
            first = min(first, shared.of_warps[1][w]), hole_at = min(hole_at, shared.of_warps[2][w]);
        }
        if (first == kNone) return false;
        const W hole = hole_at != kNone ? word(hole_at) : 0;
        if (t == 0) shared.hole = hole;
#pragma unroll 1
        for (u32 k = warp; k < kDenseMarks; k += kWarps) {
            const u32 own = block.uncoded[k];
            const u32 marks = own ? __ballot_sync(kAllLanes, own >> lane & 1 && word(k * 32 + lane) == hole) : 0;
            if (lane == 0) block.holes[k] = marks, block.others[k] |= own & ~marks;
        }
        __syncthreads();
        u32 own_others = 0, own_holes = 0;
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) own_others += __popc(block.others[kOwn * t + k]), own_holes += __popc(block.holes[kOwn * t + k]);
        own_others = warp_sum(own_others), own_holes = warp_sum(own_holes);
        if (lane == 0) shared.of_warps[0][warp] = own_others, shared.of_warps[1][warp] = own_holes;
        __syncthreads();
        u32 n_others = 0, n_holes = 0;
        for (u32 w = 0; w < kWarps; ++w) n_others += shared.of_warps[0][w], n_holes += shared.of_warps[1][w];
        if (n_others * 8 > m) return false;
        u32 from = last > 0 ? last - 1 : first;
#pragma unroll 1
        for (u32 i = 32 * kOwn * t; i < min(32 * kOwn * (t + 1), m); ++i) {
            if (block.uncoded[i / 32] >> i % 32 & 1) {
                block.codes[i] = block.codes[from];
            } else {
                from = i;
            }
        }
        const u32 coded_bytes = changes().n_bytes(), plain_bytes = n_words() * 4;
        const W start = block.codes[0];
        __syncthreads();
#pragma unroll 1
        for (u32 i = t; i < m; i += kThreads) block.codes[i] -= start;
        if (t == 0) {
            shared.first_code += start;
            shared.n_holes = n_holes, shared.n_others = n_others;
            shared.marks_bytes = min(coded_bytes, plain_bytes), shared.are_marks_coded = coded_bytes <= plain_bytes;
        }
        __syncthreads();
        return true;
    }
    // What is written of the marks of holes, if they are coded. A barrier.
    using Marks = WrittenMarks<kThreads, kOwn>;
    __device__ __forceinline__ Marks changes() const {
        u32 own[kOwn];
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) {
            const u32 at = kOwn * threadIdx.x + k;
            own[k] = (shared.box.sz * shared.box.sy > 1 ? changed_marks(block.holes, shared.box.sx, at) : block.holes[at]) & existing(at);
        }
        return Marks(own, n_words(), shared.marks_totals);
    }

    // Bytes of both sections.
    __device__ __forceinline__ u32 holes_bytes() const { return shared.n_holes ? static_cast<u32>(sizeof(W)) + kAlignment + aligned_up(shared.marks_bytes, kAlignment) : 0; }
    __device__ __forceinline__ u32 places_bytes() const { return aligned_up(2 + 2 * shared.n_others, kAlignment); }
    __device__ __forceinline__ u32 others_bytes() const { return shared.n_others ? places_bytes() + aligned_up(shared.n_others * element.bytes, kAlignment) : 0; }
    __device__ __forceinline__ u32 n_bytes() const { return holes_bytes() + others_bytes(); }

    // Writes both. Barriers.
    __device__ __forceinline__ void write(unsigned char* to) const {
        if (shared.n_holes > 0) write_holes(to);
        if (shared.n_others > 0) write_others(to + holes_bytes());
    }
    __device__ __forceinline__ void write_holes(unsigned char* to) const {
        const u32 t = threadIdx.x, n = aligned_up(shared.marks_bytes, kAlignment) / 4;
        u32* const words = reinterpret_cast<u32*>(to);
        if (t == 0) {
            const u64 hole = shared.hole;
            words[0] = static_cast<u32>(hole);
            if (sizeof(W) == 8) words[1] = static_cast<u32>(hole >> 32);
            words[sizeof(W) / 4] = shared.n_holes | (shared.marks_bytes | (shared.are_marks_coded ? kCodedMarks : 0)) << 16;
        }
        if (shared.are_marks_coded) {
            for (u32 i = t; i < n; i += kThreads) shared.marks[i] = 0;
            __syncthreads();
            changes().write(reinterpret_cast<unsigned char*>(shared.marks), 0);
            __syncthreads();
        }
        const u32* const marks = shared.are_marks_coded ? shared.marks : block.holes;
        for (u32 i = t; i < n; i += kThreads) words[sizeof(W) / 4 + 1 + i] = marks[i];
    }
    __device__ __forceinline__ void write_others(unsigned char* to) const {
        const u32 t = threadIdx.x;
        for (u32 i = t; i < others_bytes() / 4; i += kThreads) reinterpret_cast<u32*>(to)[i] = 0;
        u32 own[kOwn];
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) own[k] = block.others[kOwn * t + k];
        // The barrier is that of the zeros, too.
        const Marks others(own, n_words(), shared.marks_totals);
        unsigned short* const places = reinterpret_cast<unsigned short*>(to);
        unsigned char* const to_elements = to + places_bytes();
        if (t == 0) places[0] = static_cast<unsigned short>(shared.n_others);
        u32 n = others.marked_before();
#pragma unroll 1
        for (u32 k = 0; k < kOwn; ++k) {
#pragma unroll 1
            for (u32 left = block.others[kOwn * t + k]; left != 0; left &= left - 1, ++n) {
                const u32 i = 32 * (kOwn * t + k) + __ffs(left) - 1;
                places[n + 1] = static_cast<unsigned short>(i);
                store_exact(to_elements + element.bytes * n, word(i));
            }
        }
    }
    // The frame has its elements at multiples of 4 bytes only.
    __device__ __forceinline__ void store_exact(unsigned char* to, u32 word) const { store_element(to, element, false, word); }
    __device__ __forceinline__ void store_exact(unsigned char* to, u64 word) const {
        reinterpret_cast<u32*>(to)[0] = static_cast<u32>(word), reinterpret_cast<u32*>(to)[1] = static_cast<u32>(word >> 32);
    }
};
