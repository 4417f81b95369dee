// What crosses the boundary between the host and the kernels. The host has the same structs, field by
// field; the assertions below fix size and offsets.

#pragma once

#include <cstddef>
#include <cstdint>

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// The longest frame header, in words.
constexpr u32 kMaxHeaderWords = 140;

// The header that all frames of a launch with the same codec have in common, and what a kernel needs to
// complete it. Three fields depend on the payload: its length (bytes 16 to 23), its checksum (24 to 31) and
// the header's own CRC-32C (32 to 35). The CRC is linear, so each bit of the other two flips it by a known
// pattern.
struct FrameForm {
    u32 n_bytes;                 // of the header, a multiple of 16
    u32 crc;                     // CRC-32C of the header with zeros in all three fields
    u32 crc_of_bit[128];         // what bit i % 8 of byte 16 + i / 8 flips in it
    u32 words[kMaxHeaderWords];  // the header with zeros in all three fields
};

// How the frames of a launch are made or read.
enum Flags : u32 {
    kSwapBytes = 1,     // the array's elements are big-endian
    kSkipChecksum = 2,  // do not compare the payload's checksum
};

// What became of a frame; the codes of gridz_status.
enum Status : s32 { kOk = 0, kCorrupt = 200, kTruncated = 201, kUnsupportedFormat = 202 };

// The arguments of a pass. All chunks of a launch have the same type and extents. `Own` is what the codec has to say of them
// (extents, folded for it, and what it cuts a chunk into), a struct of whole words of 8 bytes that its host side fills.
// Pointers are device pointers, strides are bytes from chunk to chunk. The pass says what it finds in scratch
// (src/codec/gpu.rs).
constexpr u32 kMaxOwnBytes = 256;

template <typename Own>
struct CompressArgs {
    static_assert(sizeof(Own) % 8 == 0 && sizeof(Own) <= kMaxOwnBytes, "whole words, not too many");
    const void* src;  // arrays, aligned as their elements are
    u64 src_stride;
    void* dst;  // 16-byte aligned slots for frames, each of the header and the payload's bound rounded up to 16
    u64 dst_stride;
    u64* frame_bytes;  // bytes of each frame, written by the kernel
    void* scratch;
    Own own;
    u32 n_chunks;
    u32 flags;
    FrameForm encoded;  // headers of frames by this codec
    FrameForm stored;   // and of those that it does not make smaller
};

template <typename Own>
struct DecompressArgs {
    static_assert(sizeof(Own) % 8 == 0 && sizeof(Own) <= kMaxOwnBytes, "whole words, not too many");
    // 16-byte aligned frames; headers and what follows them of a fixed length (tables) can be read, whatever
    // frame_bytes says
    const void* src;
    u64 src_stride;
    const u64* frame_bytes;  // bytes of each frame
    u64 max_frame_bytes;     // those that say they are longer are corrupt
    void* dst;               // arrays, aligned as their elements are
    u64 dst_stride;
    s32* statuses;  // Status of each frame, written by the kernel
    void* scratch;
    Own own;
    u32 n_chunks;
    u32 flags;
    FrameForm encoded;
    FrameForm stored;
};

// How to launch an entry point; README.md says how to use it.
struct LaunchInfo {
    u32 threads;          // per CTA
    u32 shared_bytes;     // dynamic shared memory per CTA
    u32 persistent;       // 1: CTAs fetch their tiles, any grid works; 0: one CTA a tile
    u32 blocks_per_tile;  // a tile is so many blocks of either kind
    u64 scratch_fixed_bytes;
    u64 scratch_bytes_per_chunk;
    u64 scratch_bytes_per_tile;
    u64 unzeroed_bytes_per_tile = 0;
};

static_assert(sizeof(FrameForm) == 1080 && offsetof(FrameForm, words) == 520, "ABI");
static_assert(sizeof(CompressArgs<u64>) == 2224 && offsetof(CompressArgs<u64>, own) == 48, "ABI");
static_assert(offsetof(CompressArgs<u64>, n_chunks) == 56 && offsetof(CompressArgs<u64>, encoded) == 64, "ABI");
static_assert(sizeof(DecompressArgs<u64>) == 2240 && offsetof(DecompressArgs<u64>, own) == 64, "ABI");
static_assert(offsetof(DecompressArgs<u64>, n_chunks) == 72 && offsetof(DecompressArgs<u64>, encoded) == 80, "ABI");
static_assert(sizeof(LaunchInfo) == 48 && offsetof(LaunchInfo, scratch_fixed_bytes) == 16, "ABI");
