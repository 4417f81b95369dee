// Data structures that host and kernels share. The host has the same structs, field by field; the
// assertions below fix sizes and offsets.

#pragma once

#include <cstddef>
#include <cstdint>

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// Size of the longest frame header, in words.
constexpr u32 kMaxHeaderWords = 140;

// Template of a header: the part that all frames of a launch by one codec have in common, and the
// data that a kernel needs to complete it. Three fields depend on the payload: its length (bytes 16
// to 23), its checksum (24 to 31) and the header's own CRC-32C (32 to 35). The CRC is linear, so
// each bit of the other two fields flips a known pattern in it.
struct FrameForm {
    u32 n_bytes;                 // length of the header, a multiple of 16
    u32 crc;                     // CRC-32C of the header with zeros in all three fields
    u32 crc_of_bit[128];         // the CRC pattern of bit i % 8 of byte 16 + i / 8
    u32 words[kMaxHeaderWords];  // the header with zeros in all three fields
};

// Options of a launch.
enum Flags : u32 {
    kSwapBytes = 1,     // the array's elements are big-endian
    kSkipChecksum = 2,  // do not compare the payload's checksum
    kOnlyFold = 4,      // only chunks with the fold of the flags; another launch has the rest
    kNotFold = 8,       // only chunks with any other fold
    kOnlyParam = 16,    // only frames with a byte of parameters as in the flags; another launch has the rest
    kNotParam = 32,     // only frames with any other byte there
};
// The number of a fold, as in a header, is in the flags from this bit on, and from the next ones a
// byte of parameters and its index.
constexpr u32 kFoldShift = 8, kParamShift = 16, kParamIndexShift = 24;
__device__ __forceinline__ u32 fold_of(u32 flags) { return flags >> kFoldShift & 0xff; }

// Outcome of a frame; the codes of gridz_status.
enum Status : s32 { kOk = 0, kCorrupt = 200, kTruncated = 201, kUnsupportedFormat = 202 };

// The arguments of a pass. All chunks of a launch have the same type and extents. `Own` is the
// codec's own struct, filled by its host side: the folded extents, the partition of a chunk, and so
// on. Its size is a multiple of 8 bytes. Pointers are device pointers; strides are bytes between
// chunks. The pass defines the initial contents of scratch (crates/gridz-codecs/src/codec/gpu.rs).
constexpr u32 kMaxOwnBytes = 320;

template <typename Own>
struct CompressArgs {
    static_assert(sizeof(Own) % 8 == 0 && sizeof(Own) <= kMaxOwnBytes, "whole words, not too many");
    const void* src;  // arrays, aligned to their element size
    u64 src_stride;
    // Frame slots, 16-byte aligned. A slot has room for a header and the longest payload, rounded
    // up to a multiple of 16 bytes.
    void* dst;
    u64 dst_stride;
    u64* frame_bytes;  // bytes of each frame, written by the kernel
    void* scratch;
    u32* folds;  // the fold of each chunk, if there are two
    Own own;
    u32 n_chunks;
    u32 flags;
    FrameForm encoded;  // headers of this codec's frames
    FrameForm stored;   // headers of frames of chunks that do not shrink
};

// True if a chunk has the other one of two folds, which is another launch.
template <typename Own>
__device__ __forceinline__ bool has_other_fold(const CompressArgs<Own>& args, u32 chunk) {
    return args.flags & kOnlyFold && args.folds[chunk] != fold_of(args.flags);
}

template <typename Own>
struct DecompressArgs {
    static_assert(sizeof(Own) % 8 == 0 && sizeof(Own) <= kMaxOwnBytes, "whole words, not too many");
    // Frames, 16-byte aligned. The header and the fixed-length part after it (tables) are readable,
    // whatever frame_bytes says.
    const void* src;
    u64 src_stride;
    const u64* frame_bytes;  // bytes of each frame
    u64 max_frame_bytes;     // longer frames are corrupt
    void* dst;               // arrays, aligned to their element size
    u64 dst_stride;
    s32* statuses;  // Status of each frame, written by the kernel
    void* scratch;
    Own own;
    u32 n_chunks;
    u32 flags;
    FrameForm encoded;
    FrameForm stored;
};

// Launch parameters of an entry point; README.md describes their use.
struct LaunchInfo {
    u32 threads;          // per CTA
    u32 shared_bytes;     // dynamic shared memory per CTA
    u32 persistent;       // 1: CTAs take tiles from a counter, any grid works; 0: one CTA per tile
    u32 blocks_per_tile;  // for each kind of block that the host counts
    u64 scratch_fixed_bytes;
    u64 scratch_bytes_per_chunk;
    u64 scratch_bytes_per_tile;
    u64 unzeroed_bytes_per_tile = 0;
};

static_assert(sizeof(FrameForm) == 1080 && offsetof(FrameForm, words) == 520, "ABI");
static_assert(sizeof(CompressArgs<u64>) == 2232 && offsetof(CompressArgs<u64>, own) == 56, "ABI");
static_assert(offsetof(CompressArgs<u64>, n_chunks) == 64 && offsetof(CompressArgs<u64>, encoded) == 72, "ABI");
static_assert(sizeof(DecompressArgs<u64>) == 2240 && offsetof(DecompressArgs<u64>, own) == 64, "ABI");
static_assert(offsetof(DecompressArgs<u64>, n_chunks) == 72 && offsetof(DecompressArgs<u64>, encoded) == 80, "ABI");
static_assert(sizeof(LaunchInfo) == 48 && offsetof(LaunchInfo, scratch_fixed_bytes) == 16, "ABI");
