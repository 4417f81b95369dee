// The range of an array's numbers, by which a relative bound becomes an absolute one: a pass before compression, which leaves what
// it finds in the working memory of that. Numbers that are not finite, or missing, do not count.

#pragma once

#include "../common/elements.cuh"
#include "../common/warp.cuh"
#include "kinds.cuh"
#include "missing.cuh"
#include "words.cuh"

// Of a chunk, zeroed: places in the order of the numbers, as integers without sign.
struct RangeScratch {
    u64 most, before_least;  // the greatest, and the complement of the least
    u32 has_any, reserved;
};

// a · b, rounded down, for numbers that are not below 0.
__device__ __forceinline__ double product_down(double a, double b) {
    const double nearest = fmin(a * b, __longlong_as_double(0x7fefffffffffffffll));
    const double rest = __fma_rn(a, b, -nearest);
    // 2^-970
    const bool is_small = nearest < __longlong_as_double(53ll << 52);
    const s64 bits = __double_as_longlong(nearest);
    if (rest < 0 || is_small) return bits <= 0 ? 0.0 : __longlong_as_double(bits - 1);
    return nearest;
}

// The bound that a value times the range is.
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
constexpr u32 kRangeElements = 4096;  // of a share

// The least and the greatest of numbers, as they are found.
template <typename W>
struct Extremes {
    W most = 0, before_least = 0;  // places; of the least the complement. Both are 0 only where there are no numbers

    // All finite numbers that are not missing.
    __device__ __forceinline__ void add(const Places<W>& places, W word, const Missing& missing) {
        if (!places.is_finite(word) || missing.has(word, places)) return;
        add_finite(places, word);
    }
    __device__ __forceinline__ void add_finite(const Places<W>& places, W word) {
        const W place = places.place(word);
        most = max(most, place), before_least = max(before_least, static_cast<W>(~place));
    }
};

// Floats among which nobody has looked for infinities yet; NaNs add nothing.
struct FloatExtremes {
    float most = __uint_as_float(0xff800000u), least = __uint_as_float(0x7f800000u);

    __device__ __forceinline__ void add(u32 word) { most = fmaxf(most, float_of(word)), least = fminf(least, float_of(word)); }
    // Whether there are numbers, and no infinities.
    __device__ __forceinline__ bool are_finite() const { return least >= -3.402823466e38f && most <= 3.402823466e38f && least <= most; }
};

constexpr u32 kRangeWarps = kRangeThreads / kWarp;
template <typename W>
struct RangeShared {
    W most[kRangeWarps], before_least[kRangeWarps];
};

// Chunks of one type and shape, as numbers: elements of two parts are two.
template <typename W>
struct RangeChunks {
    const char* first;  // chunk
    u64 stride;         // bytes from chunk to chunk
    u32 n;
    u32 shares;    // of a chunk, each of kRangeElements numbers: as many as these take or more, all together below 2^32
    u64 elements;  // of a chunk
    u32 type;
    Element element;
    bool swaps;
    const Missing &even, &odd;  // of numbers with such places
};

// The shares of a CTA. Of one chunk they are far from each other, of several they follow each other, so that a CTA tells few chunks what
// it has found.
template <typename W>
struct RangeFinder {
    static constexpr u32 kUnits = kRangeElements / Word<W>::kPerUnit / kRangeThreads;
    // Whether the loads of the next share are under way while one is looked at. Shares of float64 would take twice as many registers.
    static constexpr bool kAhead = sizeof(W) == 4;

    const RangeChunks<W> chunks;
    RangeShared<W>& shared;
    const Places<W> places;

    __device__ __forceinline__ RangeFinder(const RangeChunks<W>& chunks, RangeShared<W>& shared) : chunks(chunks), shared(shared), places(chunks.type) {}

    __device__ __forceinline__ const Missing& missing_of(u32 part) const { return part % 2 ? chunks.odd : chunks.even; }

    struct Share {
        const char* from;
        u32 chunk, n;
        bool is_whole;  // of words that are loaded as they are, units at a time
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
                // Zeros of both signs have places of their own, but the same value.
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

    // `range_of` gives the RangeScratch of a chunk. By all threads of any grid.
    template <typename RangeOf>
    __device__ __forceinline__ void run(RangeOf range_of) const {
        const u32 end = chunks.shares * chunks.n;
        // From the end on: what was read last is still in the cache when compression begins.
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
            if (is_last || next.chunk != own.chunk) tell(range_of(own.chunk), extremes);
            if (is_last) return;
            number -= step, own = next;
#pragma unroll
            for (u32 k = 0; kAhead && k < kUnits; ++k) units[k] = ahead[k];
        }
    }
    // Adds what was found to that of a chunk, and begins anew. By all threads.
    __device__ __forceinline__ void tell(RangeScratch& range, Extremes<W>& extremes) const {
        const u32 warp = threadIdx.x / kWarp;
        const W own_most = warp_max_unsigned(extremes.most), own_before_least = warp_max_unsigned(extremes.before_least);
        if (lane_id() == 0) shared.most[warp] = own_most, shared.before_least[warp] = own_before_least;
        __syncthreads();
        if (threadIdx.x == 0) {
            W most = own_most, before_least = own_before_least;
#pragma unroll
            for (u32 w = 1; w < kRangeWarps; ++w) most = max(most, shared.most[w]), before_least = max(before_least, shared.before_least[w]);
            if (most | before_least) {
                // Of places of 32 bits the upper half is zeros.
                raise(range.most, most), raise(range.before_least, before_least);
                if (!*static_cast<volatile u32*>(&range.has_any)) atomicOr(&range.has_any, 1u);
            }
        }
        __syncthreads();
        extremes = Extremes<W>();
    }
    // What is there only grows, so nothing is to be done where it is as much already.
    static __device__ __forceinline__ void raise(u64& value, u64 to) {
        if (*static_cast<volatile u64*>(&value) < to) atomicMax(reinterpret_cast<unsigned long long*>(&value), to);
    }
};
