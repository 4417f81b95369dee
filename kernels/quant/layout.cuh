// Layout of the payload's blocks and of a block's sections. The counterpart of the CPU codec's
// layout.
//
//   bound, a float64 | table, per block: u32 end in units of U bytes, u32 check | zeros up to a
//   multiple of U | blocks

#pragma once

#include "../common/elements.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "../stage/groups.cuh"
#include "../stage/missing.cuh"

constexpr u32 kLogBlock = 12;
constexpr u32 kElements = 1 << kLogBlock;
constexpr u32 kLogDense = 16;   // log2 of a block's elements at level dense
constexpr u32 kLogMax = 16;     // log2 of a block's elements at level max
// Log2 of a row's elements at level max. Rows are longer only if the block's other axes are short.
constexpr u32 kLogMaxRow = 7;
constexpr u32 kScratchAlignment = 256;  // alignment in bytes of scratch that is not zeroed
// A thread handles a row of 32 numbers, or 32 consecutive numbers of a line.
constexpr u32 kQuantThreads = kElements / kRow;
constexpr u32 kQuantWarps = kQuantThreads / kWarp;
constexpr u32 kHeadBytes = 8;   // bytes before the table
constexpr u32 kAlignment = 4;   // alignment in bytes of a block's sections
constexpr u32 kByteGroup = 8;       // numbers per group
constexpr u32 kByteGroups = kElements / kByteGroup;
constexpr u32 kMaxWidths = 8;   // maximum number of widths in a block's table

// Flags of a block's header.
enum Header : u32 { kHasWords = 1 << 12, kHasFillMask = 1 << 13, kHasOutliers = 1 << 14, kRawBlock = 1 << 15, kConstBlock = kRawBlock | 1 };
constexpr u32 kWidthsAt = 9;         // bit position of the number of widths
constexpr u32 kCodedBitmap = 1 << 15; // flag in the byte count of the fill mask's bitmap

enum Mode : u32 { kAbs = 1, kRel = 2, kPwrel = 5 };

// The host's description of a chunk.
struct Chunk {
    u64 extents[3];  // slowest axis first, padded with ones in front
    u32 n_blocks;    // number of blocks, including clipped ones
    // Four bytes, the lowest first: log2 of a unit's bytes; mode; 1 if elements may be missing,
    // plus 2 if elements are complex; type of an element's part.
    u32 how;
    u64 value;       // bits of the requested bound, a float64
    Missing missing[2];  // one per part of an element; equal if elements have one part
    u32 n_times;     // level max: maximum number of time steps of a block,
    u32 n_cells;     // and number of cells kept for it (max_scan.cuh)

    __device__ __forceinline__ u32 log_unit() const { return how & 0xff; }
    __device__ __forceinline__ u32 mode() const { return how >> 8 & 0xff; }
    __device__ __forceinline__ bool has_missing() const { return how >> 16 & 1; }
    // Log2 of the number of parts of an element, which is 1 or 2. Each box of the array has one
    // block per part.
    __device__ __forceinline__ u32 log_parts() const { return how >> 17 & 1; }
    // Whether elements have one part and none may be missing.
    __device__ __forceinline__ bool has_plain_elements() const { return (how >> 16 & 0xff) == 0; }
    __device__ __forceinline__ u32 dtype() const { return how >> 24; }
    __device__ __forceinline__ u64 elements() const { return extents[0] * extents[1] * extents[2]; }
    // How a part of an element is loaded as a word.
    __device__ __forceinline__ Element part(const FrameForm& form) const {
        Element element(form);
        element.bytes >>= log_parts();
        return element;
    }
    // Bytes of head and table, rounded up to whole units.
    __device__ __forceinline__ u64 table_bytes() const {
        const u64 unit = u64{1} << log_unit();
        return (kHeadBytes + 8ull * n_blocks + unit - 1) / unit * unit;
    }
};
static_assert(sizeof(Chunk) == 224 && offsetof(Chunk, value) == 32, "crates/gridz-codecs/src/codec/quant/cuda.rs has the same struct");

__device__ __forceinline__ constexpr u32 aligned_up(u32 n, u32 to) { return (n + to - 1) / to * to; }
__device__ __forceinline__ u32 units_of(u32 n_bytes, u32 log_unit) { return (n_bytes + (1u << log_unit) - 1) >> log_unit; }

// Number of bits that index one of n widths.
__device__ __forceinline__ u32 index_bits(u32 n) { return n <= 1 ? 0 : 32 - __clz(n - 1); }

// Describes a frame's lengths for ordered_frames.cuh. A tile is a block; its length is in units.
struct FrameLayout {
    using Own = Chunk;
    using Sum = u32;
    static constexpr u32 kPartsPerTile = 1;

    const Chunk& chunk;
    const u32 element_bytes;  // of a whole element, with all its parts

    __device__ __forceinline__ u64 raw_bytes() const { return chunk.elements() * element_bytes; }
    __device__ __forceinline__ u64 payload_bytes(u32 units) const { return chunk.table_bytes() + (static_cast<u64>(units) << chunk.log_unit()); }
};
