// Shared memory of a decompressing CTA, and the cells of 8 bytes that its threads load from it and
// add up. See the head of decompress.cuh.

#pragma once

#include "../common/checksum.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "transform.cuh"

// Threads of a CTA that decodes kBlocks blocks. Its threads form one part per block, with one
// thread per line. kBlocks is 2 for three-dimensional arrays of f32 whose rows are not aligned to
// sectors of 32 bytes: the CTA stores the rows of two adjacent blocks (64 bytes each) together, so
// that fewer sectors are written in two pieces. If rows are aligned, one block per CTA is slightly
// faster.
template <typename W, u32 kBlocks>
constexpr u32 kDecompressThreads = Type<W>::kLines * kBlocks;

template <typename W, u32 kBlocks>
struct DecompressShared {
    static constexpr u32 kWarps = kDecompressThreads<W, kBlocks> / kWarp;
    // Per block: the stage, with room for the longest block in whole units of 16 bytes; later the
    // elements.
    alignas(1024) unsigned char bytes[kBlocks][(Type<W>::kMaxWords * Type<W>::kBytes + 2 * kUnitBytes + 127) / 128 * 128];
    CtaSums<kWarps> sums;
    u32 starts[kBlocks];  // index in the array of each block's first element
    // In one dimension, the sum of each warp's words.
    u64 carries[kWarps];
};

// Byte order of the stored elements.
enum class Order : u32 { kNative, kSwapped };

// The 8 bytes that a thread loads and adds up at a time: two words of f32 or one word of f64.
struct Cell32 {
    u32 x, y;
    __device__ __forceinline__ void operator+=(Cell32 other) { x += other.x, y += other.y; }
    __device__ __forceinline__ uint2 bits() const { return make_uint2(x, y); }
    // The value to store, in the given byte order.
    template <Order kOrder>
    __device__ __forceinline__ uint2 value() const {
        const u32 first = rotated_right(x), second = rotated_right(y);
        return kOrder == Order::kSwapped ? make_uint2(swapped_bytes(first), swapped_bytes(second)) : make_uint2(first, second);
    }
    static __device__ __forceinline__ Cell32 of(uint2 v) { return Cell32{v.x, v.y}; }
};
struct Cell64 {
    u64 x;
    __device__ __forceinline__ void operator+=(Cell64 other) { x += other.x; }
    __device__ __forceinline__ uint2 bits() const { return make_uint2(static_cast<u32>(x), static_cast<u32>(x >> 32)); }
    template <Order kOrder>
    __device__ __forceinline__ uint2 value() const {
        const u64 value = rotated_right(x);
        return Cell64{kOrder == Order::kSwapped ? swapped_bytes(value) : value}.bits();
    }
    static __device__ __forceinline__ Cell64 of(uint2 v) { return Cell64{static_cast<u64>(v.y) << 32 | v.x}; }
};
template <typename W>
struct CellOf {
    using Type = Cell32;
};
template <>
struct CellOf<u64> {
    using Type = Cell64;
};
constexpr u32 kCellBytes = 8;
constexpr u32 kCells = 16;  // per thread
