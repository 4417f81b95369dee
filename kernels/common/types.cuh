// What crosses the boundary between the host and the kernels. The host has the same structs, field by
// field; the assertions below fix size and offsets.

#pragma once

#include <cstddef>
#include <cstdint>

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;

// One per chunk, written in full by the kernel.
struct ChunkResult {
    u64 n_bytes;   // bytes of the payload
    u64 sum_a;     // the two sums of the payload checksum, before mixing
    u64 sum_b;
    u32 status;    // Status
    u32 reserved;  // zero
};

enum Status : u32 { kOk = 0, kCorrupt = 1, kTruncated = 2 };

// All chunks of a launch have the same type and extents (slowest first, leading ones). Pointers are
// device pointers, strides are bytes from chunk to chunk, scratch is zeroed by the caller.
struct NdzipCompressArgs {
    const void* src;  // aligned as its elements are
    u64 src_stride;
    void* dst;  // 16-byte aligned slots, each of the payload's bound rounded up to 16
    u64 dst_stride;
    ChunkResult* results;
    void* scratch;
    u64 extents[3];
    u32 n_chunks;
    u32 reserved;
};

struct NdzipDecompressArgs {
    const void* src;  // 16-byte aligned slots
    u64 src_stride;
    const u64* src_bytes;  // bytes of each payload
    void* dst;             // aligned as its elements are
    u64 dst_stride;
    ChunkResult* results;
    void* scratch;
    u64 extents[3];
    u32 n_chunks;
    u32 reserved;
};

// How to launch an entry point; README.md says how to use it.
struct LaunchInfo {
    u32 threads;          // per CTA
    u32 shared_bytes;     // dynamic shared memory per CTA
    u32 persistent;       // 1: CTAs fetch their tiles, any grid works; 0: one CTA a tile
    u32 blocks_per_tile;  // a tile is so many blocks, or as many elements of the border
    u64 scratch_fixed_bytes;
    u64 scratch_bytes_per_chunk;
    u64 scratch_bytes_per_tile;
};

static_assert(sizeof(ChunkResult) == 32 && offsetof(ChunkResult, status) == 24, "ABI");
static_assert(sizeof(NdzipCompressArgs) == 80 && offsetof(NdzipCompressArgs, extents) == 48, "ABI");
static_assert(offsetof(NdzipCompressArgs, n_chunks) == 72, "ABI");
static_assert(sizeof(NdzipDecompressArgs) == 88 && offsetof(NdzipDecompressArgs, extents) == 56, "ABI");
static_assert(offsetof(NdzipDecompressArgs, n_chunks) == 80, "ABI");
static_assert(sizeof(LaunchInfo) == 40 && offsetof(LaunchInfo, scratch_fixed_bytes) == 16, "ABI");
