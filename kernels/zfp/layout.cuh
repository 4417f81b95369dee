// Layout of the blocks in the array and of the sections in the payload. It must match the layout of
// the CPU codec.
//
//   stream | ends of sections | lengths of groups | ends of exceptions | exceptions | tail

#pragma once

#include "../common/elements.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "../stage/missing.cuh"
#include "numbers.cuh"
#include "transform.cuh"

constexpr u32 kSectionElements = 8192;
constexpr u32 kGroupElements = 256;
constexpr u32 kGroups = kSectionElements / kGroupElements;  // of a section
constexpr u32 kTailBytes = 24;

// A CTA encodes a section. A thread encodes blocks of 64 elements in total, or a quarter of a block
// of 256.
constexpr u32 kZfpThreads = 128;
constexpr u32 kZfpWarps = kZfpThreads / kWarp;
constexpr u32 kOwnElements = kSectionElements / kZfpThreads;
constexpr u32 kThreadsPerGroup = kGroupElements / kOwnElements;

__device__ __forceinline__ constexpr u32 aligned_up(u32 n, u32 to) { return (n + to - 1) / to * to; }

enum Mode : u32 { kLossless = 0, kAbs = 1, kRel = 2, kRate = 3, kPrecision = 4, kExpert = 7 };

// The host's description of a chunk.
struct Chunk {
    u64 extents[4];   // slowest first, padded with leading ones
    u64 value;        // modes abs and rel: the requested value, the bits of a double; else 0
    Missing missing;
    u32 n_blocks;     // including clipped ones
    u32 how;          // one byte each: mode, maxprec, 0, 1 if elements are floats
    u32 bits;         // minbits, and maxbits from bit 16 on
    s32 minexp;       // not used in mode rel
    u32 first_tile;   // for a region: the first tile that it touches
    // 1 for a region: CTAs exist only from `first_tile` to the last tile that it touches
    u32 is_part;

    __device__ __forceinline__ u32 mode() const { return how & 0xff; }
    __device__ __forceinline__ u32 max_precision() const { return how >> 8 & 0xff; }
    __device__ __forceinline__ bool is_float() const { return how >> 24; }
    __device__ __forceinline__ u32 min_bits() const { return bits & 0xffff; }
    __device__ __forceinline__ u32 max_bits() const { return bits >> 16; }
    __device__ __forceinline__ bool has_fixed_blocks() const { return min_bits() == max_bits(); }
    __device__ __forceinline__ bool has_bound() const { return mode() == kAbs || mode() == kRel; }
    __device__ __forceinline__ u64 elements() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
};
static_assert(sizeof(Chunk) == 152 && offsetof(Chunk, value) == 32, "crates/gridz-codecs/src/codec/zfp/cuda.rs has the same struct");

// Sizes in bytes of the parts of a chunk's payload, in order. sections() is the number of sections;
// each of them has blocks of up to 8192 elements in total.
template <u32 kRank>
struct Sections {
    const Chunk& chunk;

    __device__ __forceinline__ explicit Sections(const Chunk& chunk) : chunk(chunk) {}

    static constexpr u32 kBlocks = kSectionElements / kBlock<kRank>;       // of a section
    static constexpr u32 kGroupBlocks = kGroupElements / kBlock<kRank>;
    __device__ __forceinline__ u32 sections() const { return (chunk.n_blocks + kBlocks - 1) / kBlocks; }
    __device__ __forceinline__ u32 groups() const { return (chunk.n_blocks + kGroupBlocks - 1) / kGroupBlocks; }
    static __device__ __forceinline__ u64 stream_bytes(u64 bits) { return (bits + 63) / 64 * 8; }
    __device__ __forceinline__ u64 ends_bytes() const { return chunk.has_fixed_blocks() ? 0 : 8ull * sections(); }
    __device__ __forceinline__ u64 groups_bytes() const { return chunk.has_fixed_blocks() ? 0 : (2ull * groups() + 7) / 8 * 8; }
    // Size of the ends of exceptions; size of these ends and of all exceptions, which have `units`
    // units of 4 bytes, or 0 without exceptions.
    __device__ __forceinline__ u64 exception_ends_bytes() const { return (4ull * sections() + 7) / 8 * 8; }
    __device__ __forceinline__ u64 exceptions_bytes(u32 units) const { return units ? exception_ends_bytes() + (4ull * units + 7) / 8 * 8 : 0; }
    __device__ __forceinline__ u64 payload_bytes(u64 bits, u32 units) const {
        return stream_bytes(bits) + ends_bytes() + groups_bytes() + exceptions_bytes(units) + kTailBytes;
    }
};

// Number of blocks that a thread encodes, alone or with other threads; and index of the first of
// them. A CTA encodes the blocks of a section.
template <u32 kRank>
constexpr u32 kThreadBlocks = kRank < 4 ? kOwnElements / kBlock<kRank> : 1;
template <u32 kRank>
__device__ __forceinline__ u32 first_own_block(u32 section) { return (section * kZfpThreads + threadIdx.x) / kBlockThreads<kRank> * kThreadBlocks<kRank>; }

// A block's place in the array.
template <u32 kRank>
struct BlockPlace {
    u64 start;         // index in the array of the block's first element
    u32 there[kRank];  // number of existing elements along x, y, z, w, from 1 to 4
    bool is_whole;
};

// The blocks of an array.
template <u32 kRank>
struct BlockGrid {
    u64 extents[kRank];  // x first
    u32 n[kRank];        // blocks along each axis

    __device__ __forceinline__ explicit BlockGrid(const Chunk& chunk) {
#pragma unroll
        for (u32 k = 0; k < kRank; ++k) {
            extents[k] = chunk.extents[3 - k];
            n[k] = static_cast<u32>((extents[k] + 3) / 4);
        }
    }
    __device__ __forceinline__ BlockPlace<kRank> place(u32 block) const {
        BlockPlace<kRank> place{0, {}, true};
        u64 stride = 1;
        u32 rest = block;
#pragma unroll
        for (u32 k = 0; k < kRank; ++k) {
            u32 at = rest;
            if (k + 1 < kRank) rest = at / n[k], at -= rest * n[k];
            place.start += 4ull * at * stride;
            stride *= extents[k];
            place.there[k] = static_cast<u32>(min(extents[k] - u64{4} * at, u64{4}));
            place.is_whole &= place.there[k] == 4;
        }
        return place;
    }
    // Offset in the array from the first element of a block to its element `index`.
    __device__ __forceinline__ u64 offset(u32 index) const {
        u64 offset = 0, stride = 1;
#pragma unroll
        for (u32 k = 0; k < kRank; ++k) offset += (index >> 2 * k & 3) * stride, stride *= extents[k];
        return offset;
    }
};

// Whether element `index` of a block that may be clipped exists.
template <u32 kRank>
__device__ __forceinline__ bool is_there(const u32 (&there)[kRank], u32 index) {
    bool is_in = true;
#pragma unroll
    for (u32 k = 0; k < kRank; ++k) is_in &= (index >> 2 * k & 3) < there[k];
    return is_in;
}
