// Layout of the blocks in the array, and of the sections in the payload and in a block. It must
// match the layout of the CPU codec.
//
//   table: u32 end of each block in 16-byte units, u32 block checksum | pad to 16 bytes | blocks
//
// In shared memory, the numbers of a block are in segments of 128 bytes (32 numbers of u32 or 16 of
// u64). 16 bytes of padding follow each segment; in blocks that may be coded by HUFF, another 16
// bytes follow every eight segments. This avoids most bank conflicts of three access patterns:
// reads of adjacent words, reads of adjacent segments 16 bytes at a time, and writes of the runs of
// HUFF, which are 8 rows apart.

#pragma once

#include "../common/elements.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "../stage/groups.cuh"

constexpr u32 kHeaderBytes = 16;      // size of a block's header
constexpr u32 kMaskUnit = 8;          // alignment of the end of its mask
// Size of the header of the mask: the word; the number of masked elements, and the bytes of the marks.
template <typename W>
constexpr u32 kMaskHeaderBytes = sizeof(W) + 4;
constexpr u32 kCodedMarks = 0x8000;   // flag added to the bytes of the marks
// Size of a mask with n bytes of marks.
template <typename W>
__device__ __forceinline__ u32 mask_bytes(u32 n) { return (kMaskHeaderBytes<W> + n + kMaskUnit - 1) / kMaskUnit * kMaskUnit; }
constexpr u32 kSegmentBytes = 128;
constexpr u32 kSegmentStride = kSegmentBytes + kUnitBytes;

template <typename W>
struct Segment {
    static constexpr u32 kNumbers = kSegmentBytes / sizeof(W);
    static constexpr u32 kPerRow = kRow / kNumbers;
};

enum Coder : u32 { kRaw = 0, kConst = 1, kSplit = 2, kHuff = 3, kSparse = 4 };
enum Map : u32 { kBits = 0, kFixed = 1, kDict = 2, kDecimal = 3, kCut = 4 };

// The host's description of a chunk.
struct Blocks {
    u64 extents[3];  // slowest first, padded with leading ones
    u32 n_blocks;    // including clipped ones
    u32 log_parts;   // log2 of the parts of an element, 1 if it is complex: each box has a block for each part

    // How a part of an element is loaded as a word.
    __device__ __forceinline__ Element part(const FrameForm& form) const {
        Element element(form);
        element.bytes >>= log_parts;
        element.is_float |= log_parts != 0;
        return element;
    }
    // The box of a block, and the offset of its part in an element.
    __device__ __forceinline__ u32 box(u32 block) const { return block >> log_parts; }
    __device__ __forceinline__ u32 offset(u32 block, const Element& part) const { return (block & ((1u << log_parts) - 1)) * part.bytes; }
};
static_assert(sizeof(Blocks) == 32 && offsetof(Blocks, log_parts) == 28, "crates/gridz-codecs/src/codec/lorenzo/cuda.rs has the same struct");

__device__ __forceinline__ u64 table_bytes(u32 n_blocks) { return (8ull * n_blocks + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }

// Byte offsets of segments, rows and numbers of a block of 2^kLog elements in shared memory.
template <typename W, u32 kLog>
struct Places {
    using Word = W;
    // Only level `dense`, which may use HUFF, has blocks of more than 2^12 elements.
    static constexpr u32 kBehindEight = kLog > 12 ? kUnitBytes : 0;
    static __device__ __forceinline__ constexpr u32 segment(u32 i) { return i * kSegmentStride + i / 8 * kBehindEight; }
    static __device__ __forceinline__ constexpr u32 row(u32 i) { return segment(i * Segment<W>::kPerRow); }
    static __device__ __forceinline__ constexpr u32 in_row(u32 i) {
        return i / Segment<W>::kNumbers * kSegmentStride + i % Segment<W>::kNumbers * sizeof(W);
    }
    static __device__ __forceinline__ constexpr u32 number(u32 i) { return row(i / kRow) + in_row(i % kRow); }
};

// Describes lengths to ordered_frames.cuh: a tile is a block, and lengths are in units of 16 bytes.
struct FrameLayout {
    using Own = Blocks;
    using Sum = u32;
    static constexpr u32 kPartsPerTile = 1;

    const Blocks& blocks;
    const u32 element_bytes;  // of a whole element, with all its parts

    __device__ __forceinline__ u64 raw_bytes() const { return blocks.extents[0] * blocks.extents[1] * blocks.extents[2] * element_bytes; }
    __device__ __forceinline__ u64 payload_bytes(u32 units) const {
        return table_bytes(blocks.n_blocks) + static_cast<u64>(units) * kUnitBytes;
    }
};
