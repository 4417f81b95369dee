// The values of a slice, however they are kept: those of a step are 32, one for each lane. kAhead: steps whose loads are begun together,
// as many as registers allow.

#pragma once

#include "layout.cuh"

template <typename T>
struct Plain {
    static constexpr u32 kAhead = 8;
    const T* values;
    __device__ __forceinline__ Plain(const SparseArgs& args, const Slice& slice, u32, u32 lane)
        : values(reinterpret_cast<const T*>(args.values) + static_cast<u64>(slice.values_at) * kWarp + lane) {}
    __device__ __forceinline__ T at(u32 step) const { return values[static_cast<u64>(step) * kWarp]; }
};

template <typename T>
struct Constant {
    static constexpr u32 kAhead = 8;
    T value;
    __device__ __forceinline__ Constant(const SparseArgs& args, const Slice&, u32, u32) : value(*static_cast<const T*>(args.different)) {}
    __device__ __forceinline__ T at(u32) const { return value; }
};

template <typename T, typename Number>
struct Dictionary {
    static constexpr u32 kAhead = 8;
    const Number* numbers;
    const T* table;
    __device__ __forceinline__ Dictionary(const SparseArgs& args, const Slice& slice, u32, u32 lane)
        : numbers(reinterpret_cast<const Number*>(args.values) + static_cast<u64>(slice.values_at) * kWarp + lane),
          table(static_cast<const T*>(args.different)) {}
    __device__ __forceinline__ T at(u32 step) const { return table[numbers[static_cast<u64>(step) * kWarp]]; }
};

template <typename T>
struct Blocks {
    static constexpr u32 kAhead = sizeof(T) == 8 ? 2 : 4;
    u64 first;
    const unsigned char* numbers;
    u32 width, shift;
    __device__ __forceinline__ Blocks(const SparseArgs& args, const Slice&, u32 i, u32 lane) {
        const ulonglong2 told = args.value_blocks[i];
        first = told.x;
        width = static_cast<u32>(told.y >> 48) & 255;
        shift = static_cast<u32>(told.y >> 56);
        numbers = args.values + (told.y & ((u64(1) << 48) - 1)) + lane * width;
    }
    __device__ __forceinline__ T at(u32 step) const {
        const unsigned char* bytes = numbers + static_cast<u64>(step) * kWarp * width;
        const unsigned short* halves = reinterpret_cast<const unsigned short*>(bytes);
        u64 number = 0;
        // The same for all lanes; what has an even number of bytes is aligned.
        switch (width) {
            case 8: number = *reinterpret_cast<const u64*>(bytes); break;
            case 6: number = halves[0] | u64(halves[1]) << 16 | u64(halves[2]) << 32; break;
            case 4: number = *reinterpret_cast<const u32*>(bytes); break;
            case 3: number = bytes[0] | u32(bytes[1]) << 8 | u32(bytes[2]) << 16; break;
            case 2: number = halves[0]; break;
            case 1: number = bytes[0]; break;
        }
        const u64 bits = first + (number << shift);
        if constexpr (sizeof(T) == 8) return __longlong_as_double(static_cast<long long>(bits));
        else return __uint_as_float(static_cast<u32>(bits));
    }
};
