// Loads the values of a slice, in each encoding. A step has 32 values, one per lane. A value is
// first loaded as stored in memory (Loaded) and decoded later, so that loads of several steps are
// in flight at a time. kAhead is the number of these steps. For steps of blocks, kBlockAhead is the
// number of values per lane in these steps. kCtas is the minimum number of resident CTAs per
// multiprocessor, for __launch_bounds__, which limits the registers per thread accordingly. All
// these numbers were measured on sm_90, where plain values gain from more CTAs, other encodings
// from more loads in flight. PlainDeep is for rows with many elements that have codes of their own:
// most loads of the vector wait for loads of codes, so more steps are in flight.
// Values are read once. So they are loaded with an evict-first hint (__ldcs), which leaves the
// caches to the vector.

#pragma once

#include "layout.cuh"

template <typename T>
struct Plain {
    using Loaded = T;
    static constexpr u32 kAhead = 4, kBlockAhead = 10, kCtas = kSparseCtas<8>;
    const T* values;
    __device__ __forceinline__ Plain(const SparseArgs& args, const Slice& slice, u32, u32 lane)
        : values(reinterpret_cast<const T*>(args.values) + static_cast<u64>(slice.values_at) * kWarp + lane) {}
    __device__ __forceinline__ Loaded load(u32 step) const { return __ldcs(values + static_cast<u64>(step) * kWarp); }
    __device__ __forceinline__ T value(Loaded loaded) const { return loaded; }
};

template <typename T>
struct PlainDeep : Plain<T> {
    using Plain<T>::Plain;
    static constexpr u32 kAhead = 8, kCtas = kSparseCtas<6>;
};

struct Empty {};

template <typename T>
struct Constant {
    using Loaded = Empty;
    static constexpr u32 kAhead = 8, kBlockAhead = 10, kCtas = kSparseCtas<6>;
    T all;
    __device__ __forceinline__ Constant(const SparseArgs& args, const Slice&, u32, u32) : all(*static_cast<const T*>(args.different)) {}
    __device__ __forceinline__ Loaded load(u32) const { return {}; }
    __device__ __forceinline__ T value(Loaded) const { return all; }
};

template <typename T, typename Number>
struct Dictionary {
    using Loaded = Number;
    static constexpr u32 kAhead = sizeof(T) == 8 ? 4 : 8, kBlockAhead = 10, kCtas = kSparseCtas<5>;
    const Number* numbers;
    const T* table;
    __device__ __forceinline__ Dictionary(const SparseArgs& args, const Slice& slice, u32, u32 lane)
        : numbers(reinterpret_cast<const Number*>(args.values) + static_cast<u64>(slice.values_at) * kWarp + lane),
          table(static_cast<const T*>(args.different)) {}
    __device__ __forceinline__ Loaded load(u32 step) const { return __ldcs(numbers + static_cast<u64>(step) * kWarp); }
    __device__ __forceinline__ T value(Loaded number) const { return __ldg(table + number); }
};

// Values whose bits are `first + (number << shift)`, with unaligned numbers of 0 to 8 bytes. Loads
// only the words that contain bytes of the number. A lane's numbers begin at the same byte of a
// word in every step, since the length of a step is a multiple of 32 bytes.
template <typename T>
struct Blocks {
    static constexpr u32 kWords = sizeof(T) / 4;
    struct Loaded {
        u32 words[kWords + 1];
    };
    static constexpr u32 kAhead = 4, kBlockAhead = 4, kCtas = kSparseCtas<6>;
    u64 first;
    const u32* words;
    u32 width, shift, begin;
    __device__ __forceinline__ Blocks(const SparseArgs& args, const Slice&, u32 i, u32 lane) {
        const ulonglong2 block = args.value_blocks[i];
        first = block.x;
        width = static_cast<u32>(block.y >> 48) & 255;
        shift = static_cast<u32>(block.y >> 56);
        begin = lane * width % 4;
        words = reinterpret_cast<const u32*>(args.values + (block.y & ((u64(1) << 48) - 1)) + (lane * width - begin));
    }
    __device__ __forceinline__ Loaded load(u32 step) const {
        const u32* from = words + static_cast<u64>(step) * (kWarp / 4) * width;
        Loaded loaded;
#pragma unroll
        for (u32 i = 0; i <= kWords; i++) loaded.words[i] = 4 * i < begin + width ? __ldcs(from + i) : 0;
        return loaded;
    }
    __device__ __forceinline__ T value(const Loaded& loaded) const {
        u64 number = __funnelshift_r(loaded.words[0], loaded.words[1], 8 * begin);
        if constexpr (kWords == 2) number |= u64(__funnelshift_r(loaded.words[1], loaded.words[2], 8 * begin)) << 32;
        if (width < 8) number &= (u64(1) << (8 * width)) - 1;
        const u64 bits = first + (number << shift);
        if constexpr (kWords == 2) return __longlong_as_double(static_cast<long long>(bits));
        else return __uint_as_float(static_cast<u32>(bits));
    }
};
