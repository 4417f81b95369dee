// The range of an array's elements, by which a relative bound becomes an absolute one: a pass before compression, which leaves what
// it finds behind the working memory of that.

#pragma once

#include "../common/elements.cuh"
#include "../common/ordered_frames.cuh"
#include "quantise.cuh"

// Of a chunk, zeroed: places in the order of the numbers, as integers without sign.
struct RangeScratch {
    u64 most, before_least;  // the greatest, and the complement of the least
    u32 has_any, reserved;
};

// As ordered_launch.
constexpr LaunchInfo szp_launch(u32 threads, u32 shared_bytes) {
    return LaunchInfo{threads, shared_bytes, 1, 1, sizeof(FramesScratch), sizeof(ChunkScratch) + sizeof(RangeScratch), sizeof(u64)};
}

__device__ __forceinline__ RangeScratch* range_scratch(const CompressArgs<Chunk>& args) {
    char* const scratch = static_cast<char*>(args.scratch) + sizeof(FramesScratch);
    return reinterpret_cast<RangeScratch*>(scratch + args.n_chunks * (sizeof(ChunkScratch) + static_cast<u64>(args.own.n_blocks) * sizeof(u64)));
}

// The places of words in the order of their numbers.
template <typename W>
struct Places {
    const u32 type, bits;
    const W size_mask, last_finite, top;

    __device__ __forceinline__ explicit Places(u32 type)
        : type(type), bits(bits_of_type(type)), size_mask(low_bits(W(), bits - 1)),
          last_finite((low_bits(W(), bits - 1 - fraction_bits_of(type)) << fraction_bits_of(type)) - 1),
          top(is_float(type) || !(type == kU32 || type == kU64) ? kTopBit<W> : 0) {}

    __device__ __forceinline__ bool is_finite(W word) const { return !is_float(type) || (word & size_mask) <= last_finite; }
    // As an integer without sign.
    __device__ __forceinline__ W place(W word) const {
        const W signs = is_float(type) ? shifted_signed(word, Word<W>::kBits - 1) & ~kTopBit<W> : 0;
        return (word ^ signs) ^ top;
    }
    __device__ __forceinline__ W word(W place) const {
        const W signed_place = place ^ top;
        return is_float(type) && signed_place >> (Word<W>::kBits - 1) ? signed_place ^ ~kTopBit<W> : signed_place;
    }
    // The difference of two numbers, rounded down.
    __device__ __forceinline__ double difference(W most, W least) const {
        if (is_float(type)) return __dsub_rd(static_cast<double>(widened(type, most)), static_cast<double>(widened(type, least)));
        // What is without sign in words of 64 bits has the right difference modulo 2^64.
        const bool is_signed = !(type == kU32 || type == kU64);
        const u64 a = is_signed && sizeof(W) == 4 ? static_cast<u64>(static_cast<s64>(static_cast<s32>(most))) : static_cast<u64>(most);
        const u64 b = is_signed && sizeof(W) == 4 ? static_cast<u64>(static_cast<s64>(static_cast<s32>(least))) : static_cast<u64>(least);
        return __ull2double_rd(a - b);
    }
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

// The shares of a CTA: 4096 elements each.
template <typename W>
__device__ __forceinline__ void find_range(const CompressArgs<Chunk>& args) {
    const Element element(args.encoded);
    const Places<W> places(args.own.dtype());
    const bool swaps = args.flags & kSwapBytes, has_fill = args.own.has_fill();
    const W fill = static_cast<W>(args.own.fill);
    const u64 elements = args.own.elements();
    const u32 tiles = args.own.n_blocks;
    RangeScratch* const ranges = range_scratch(args);
    W most = 0, before_least = 0;
    bool has_any = false;
    const auto look = [&](W word) {
        if (!places.is_finite(word) || (has_fill && word == fill)) return;
        const W place = places.place(word);
        most = max(most, place), before_least = max(before_least, static_cast<W>(~place));
        has_any = true;
    };
    const u64 end = static_cast<u64>(tiles) * args.n_chunks;
    // From the end on: what was read last is still in the cache when compression begins.
    for (u64 i = blockIdx.x; i < end; i += gridDim.x) {
        const u64 number = end - 1 - i;
        const u32 chunk = static_cast<u32>(number / tiles), tile = static_cast<u32>(number - static_cast<u64>(chunk) * tiles);
        const u64 first = static_cast<u64>(tile) * kElements;
        const u32 n = first < elements ? static_cast<u32>(min(elements - first, u64{kElements})) : 0;
        const char* const from = static_cast<const char*>(args.src) + chunk * args.src_stride + first * element.bytes;
        if (likely(n == kElements && element.bytes == sizeof(W) && !swaps && reinterpret_cast<u64>(from) % kUnitBytes == 0)) {
            constexpr u32 kUnits = kElements / Word<W>::kPerUnit / kRangeThreads;
            uint4 units[kUnits];
#pragma unroll
            for (u32 k = 0; k < kUnits; ++k) units[k] = reinterpret_cast<const uint4*>(from)[k * kRangeThreads + threadIdx.x];
#pragma unroll
            for (u32 k = 0; k < kUnits; ++k) {
                W words[Word<W>::kPerUnit];
                split(units[k], words);
#pragma unroll
                for (u32 i = 0; i < Word<W>::kPerUnit; ++i) look(words[i]);
            }
        } else {
            for (u32 i = threadIdx.x; i < n; i += kRangeThreads) look(load_element<W>(from + i * element.bytes, element, swaps));
        }
        // The next share may be of another chunk.
        if (number >= gridDim.x && (number - gridDim.x) / tiles == chunk) continue;
        most = warp_max_unsigned(most), before_least = warp_max_unsigned(before_least);
        if (__any_sync(kAllLanes, has_any) && lane_id() == 0) {
            atomicMax(reinterpret_cast<unsigned long long*>(&ranges[chunk].most), static_cast<u64>(most));
            // Of places of 32 bits the upper half is zeros.
            atomicMax(reinterpret_cast<unsigned long long*>(&ranges[chunk].before_least), static_cast<u64>(before_least));
            atomicOr(&ranges[chunk].has_any, 1u);
        }
        most = 0, before_least = 0, has_any = false;
    }
}
