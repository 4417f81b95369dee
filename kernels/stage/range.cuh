// Finds the range of an array's numbers, which turns a relative bound into an absolute one. This
// pass runs before compression and stores its result in the scratch memory of compression. Numbers
// that are missing or not finite are ignored.

#pragma once

#include "../common/elements.cuh"
#include "../common/warp.cuh"
#include "kinds.cuh"
#include "missing.cuh"
#include "words.cuh"

// The range of a chunk, initially zeroed, as places (missing.cuh): unsigned integers in the same
// order as the numbers.
struct RangeScratch {
    u64 most, before_least;  // the greatest place, and the complement of the least
    u32 has_any, reserved;
};

// a · b, rounded down, for numbers that are not negative.
__device__ __forceinline__ double product_down(double a, double b) {
    const double nearest = fmin(a * b, __longlong_as_double(0x7fefffffffffffffll));
    const double rest = __fma_rn(a, b, -nearest);
    // Below 2^-970, `rest` may be inexact, so the result is rounded down in any case.
    const bool is_small = nearest < __longlong_as_double(53ll << 52);
    const s64 bits = __double_as_longlong(nearest);
    if (rest < 0 || is_small) return bits <= 0 ? 0.0 : __longlong_as_double(bits - 1);
    return nearest;
}

// The absolute bound: `value` times the range.
template <typename W>
__device__ __forceinline__ double bound_of_range(const RangeScratch& range, u32 type, double value) {
    if (!range.has_any) return 0;
    const Places<W> places(type);
    const W most = static_cast<W>(range.most), least = static_cast<W>(~range.before_least);
    if (most == least) return 0;
    const double difference = places.difference(places.word(most), places.word(least));
    return difference > 0 ? product_down(difference, value) : 0;
}

constexpr u32 kRangeThreads = 256;
constexpr u32 kRangeElements = 4096;  // numbers per share

// The least and the greatest number so far.
template <typename W>
struct Extremes {
    // `most` is a place, `before_least` the complement of a place. Both are 0 only if there are no
    // numbers.
    W most = 0, before_least = 0;

    // Adds a number if it is finite and not missing.
    __device__ __forceinline__ void add(const Places<W>& places, W word, const Missing& missing) {
        if (!places.is_finite(word) || missing.has(word, places)) return;
        add_finite(places, word);
    }
    __device__ __forceinline__ void add_finite(const Places<W>& places, W word) {
        const W place = places.place(word);
        most = max(most, place), before_least = max(before_least, static_cast<W>(~place));
    }
};

// Extremes of floats, before a test for infinities. NaNs are ignored.
struct FloatExtremes {
    float most = __uint_as_float(0xff800000u), least = __uint_as_float(0x7f800000u);

    __device__ __forceinline__ void add(u32 word) { most = fmaxf(most, float_of(word)), least = fminf(least, float_of(word)); }
    // True if there are numbers and no infinities.
    __device__ __forceinline__ bool are_finite() const { return least >= -3.402823466e38f && most <= 3.402823466e38f && least <= most; }
};

constexpr u32 kRangeWarps = kRangeThreads / kWarp;
template <typename W>
struct RangeShared {
    W most[kRangeWarps], before_least[kRangeWarps];
};

// Chunks of one type and shape, viewed as numbers: an element with two parts counts as two numbers.
template <typename W>
struct RangeChunks {
    const char* first;  // address of the first chunk
    u64 stride;         // bytes from chunk to chunk
    u32 n;
    // Number of shares of kRangeElements numbers per chunk: enough to cover the chunk, or more. The
    // total number of shares is below 2^32.
    u32 shares;
    u64 elements;  // numbers per chunk
    u32 type;
    Element element;
    bool swaps;
    const Missing &even, &odd;  // for numbers with even and with odd indices
};

// Processes the shares of a CTA. If there is one chunk, its shares are far apart. If there are
// several chunks, the shares are contiguous, so that a CTA reports its results to few chunks.
template <typename W>
struct RangeFinder {
    static constexpr u32 kUnits = kRangeElements / Word<W>::kPerUnit / kRangeThreads;
    // Whether the next share's loads are in flight while a share is examined. For 64-bit words,
    // this would take twice as many registers.
    static constexpr bool kAhead = sizeof(W) == 4;

    const RangeChunks<W> chunks;
    RangeShared<W>& shared;
    const Places<W> places;

    __device__ __forceinline__ RangeFinder(const RangeChunks<W>& chunks, RangeShared<W>& shared) : chunks(chunks), shared(shared), places(chunks.type) {}

    __device__ __forceinline__ const Missing& missing_of(u32 part) const { return part % 2 ? chunks.odd : chunks.even; }

    struct Share {
        const char* from;
        u32 chunk, n;
        bool is_whole;  // whether words can be loaded unchanged, a unit at a time
    };
    __device__ __forceinline__ Share share(u32 number) const {
        Share share;
        share.chunk = chunks.n == 1 ? 0 : number / chunks.shares;
        const u64 first = static_cast<u64>(number - share.chunk * chunks.shares) * kRangeElements;
        share.n = first < chunks.elements ? static_cast<u32>(min(chunks.elements - first, u64{kRangeElements})) : 0;
        share.from = chunks.first + share.chunk * chunks.stride + first * chunks.element.bytes;
        share.is_whole = share.n == kRangeElements && chunks.element.bytes == sizeof(W) && !chunks.swaps && reinterpret_cast<u64>(share.from) % kUnitBytes == 0;
        return share;
    }
    __device__ __forceinline__ void load(const Share& share, uint4 (&units)[kUnits]) const {
        if (!share.is_whole) return;
#pragma unroll
        for (u32 k = 0; k < kUnits; ++k) units[k] = reinterpret_cast<const uint4*>(share.from)[k * kRangeThreads + threadIdx.x];
    }
    __device__ __forceinline__ void look(const uint4 (&units)[kUnits], Extremes<u32>& extremes) const {
        if (likely(chunks.type == kF32 && !chunks.even.any())) {
            FloatExtremes floats;
#pragma unroll
            for (u32 k = 0; k < kUnits; ++k) floats.add(units[k].x), floats.add(units[k].y), floats.add(units[k].z), floats.add(units[k].w);
            if (likely(floats.are_finite())) {
                // Zeros of both signs have different places, but the same value.
                extremes.add_finite(places, bits_of(floats.most)), extremes.add_finite(places, bits_of(floats.least));
                return;
            }
        }
        look_at_each(units, extremes);
    }
    __device__ __forceinline__ void look(const uint4 (&units)[kUnits], Extremes<u64>& extremes) const { look_at_each(units, extremes); }
    __device__ __forceinline__ void look_at_each(const uint4 (&units)[kUnits], Extremes<W>& extremes) const {
#pragma unroll
        for (u32 k = 0; k < kUnits; ++k) {
            W words[Word<W>::kPerUnit];
            split(units[k], words);
#pragma unroll
            for (u32 i = 0; i < Word<W>::kPerUnit; ++i) extremes.add(places, words[i], missing_of(i));
        }
    }

    // Finds the ranges of all chunks. `range_of(chunk)` returns the RangeScratch of a chunk. Called
    // by all threads of a grid of any size.
    template <typename RangeOf>
    __device__ __forceinline__ void run(RangeOf range_of) const {
        const u32 end = chunks.shares * chunks.n;
        // Start at the end: the shares read last are still cached when compression begins.
        u32 number, step, left;
        if (chunks.n == 1) {
            number = end - 1 - blockIdx.x, step = gridDim.x, left = blockIdx.x < end ? number / step + 1 : 0;
        } else {
            const u32 first = static_cast<u32>(u64{end} * blockIdx.x / gridDim.x);
            number = static_cast<u32>(u64{end} * (blockIdx.x + 1) / gridDim.x) - 1, step = 1, left = number + 1 - first;
        }
        if (left == 0) return;
        Extremes<W> extremes;
        Share own = share(number);
        uint4 units[kUnits];
        if (kAhead) load(own, units);
        for (;;) {
            if (!kAhead) load(own, units);
            const bool is_last = --left == 0;
            const Share next = is_last ? own : share(number - step);
            uint4 ahead[kUnits];
            if (kAhead && !is_last) load(next, ahead);
            if (likely(own.is_whole)) {
                look(units, extremes);
            } else {
                for (u32 i = threadIdx.x; i < own.n; i += kRangeThreads) {
                    extremes.add(places, load_element<W>(own.from + i * chunks.element.bytes, chunks.element, chunks.swaps), missing_of(i));
                }
            }
            if (is_last || next.chunk != own.chunk) report(range_of(own.chunk), extremes);
            if (is_last) return;
            number -= step, own = next;
#pragma unroll
            for (u32 k = 0; kAhead && k < kUnits; ++k) units[k] = ahead[k];
        }
    }
    // Merges the results into those of a chunk and resets them. Called by all threads.
    __device__ __forceinline__ void report(RangeScratch& range, Extremes<W>& extremes) const {
        const u32 warp = threadIdx.x / kWarp;
        const W own_most = warp_max_unsigned(extremes.most), own_before_least = warp_max_unsigned(extremes.before_least);
        if (lane_id() == 0) shared.most[warp] = own_most, shared.before_least[warp] = own_before_least;
        __syncthreads();
        if (threadIdx.x == 0) {
            W most = own_most, before_least = own_before_least;
#pragma unroll
            for (u32 w = 1; w < kRangeWarps; ++w) most = max(most, shared.most[w]), before_least = max(before_least, shared.before_least[w]);
            if (most | before_least) {
                // The upper half of 32-bit places is zero.
                raise(range.most, most), raise(range.before_least, before_least);
                if (!*static_cast<volatile u32*>(&range.has_any)) atomicOr(&range.has_any, 1u);
            }
        }
        __syncthreads();
        extremes = Extremes<W>();
    }
    // Values only grow, so skip the atomic operation where the value is large enough.
    static __device__ __forceinline__ void raise(u64& value, u64 to) {
        if (*static_cast<volatile u64*>(&value) < to) atomicMax(reinterpret_cast<unsigned long long*>(&value), to);
    }
};
