// Layout of the blocks in the array and of the sections in the payload. It must match the layout of
// the CPU codec.
//
//   offset table: u32 end of each block in words | pad to a word | blocks | border elements
//
// A word has the size of an element. The border consists of the elements outside of complete
// blocks. A thread owns a *line*: 128 consecutive bytes of a block, which are 32 elements of f32 or
// 16 of f64. A block has 128 lines of f32 or 256 of f64.

#pragma once

#include "../common/bits.cuh"
#include "../common/checksum.cuh"
#include "../common/frame.cuh"
#include "../common/types.cuh"

constexpr u32 kBlock = 4096;
constexpr u32 kLineBytes = 128;
// Parts in which a compressed tile is counted as finished: either each of the 8 compute warps
// counts one part, or each writer warp counts an equal share of the parts.
constexpr u32 kPartsPerTile = 8;

template <typename W>
struct Type {
    static constexpr u32 kBytes = sizeof(W);
    static constexpr u32 kBits = 8 * kBytes;
    static constexpr u32 kParts = kBytes / 4;                         // u32 words per word
    static constexpr u32 kHeads = kBlock / kBits;                     // per block, one for each group of kBits elements
    static constexpr u32 kLineElements = kLineBytes / kBytes;
    static constexpr u32 kLines = kBlock / kLineElements;             // per block
    static constexpr u32 kMaxWords = kBlock + kHeads;                 // maximum of an encoded block
};

template <int kRank>
struct Sides {
    static constexpr u32 kX = kRank == 1 ? 4096 : kRank == 2 ? 64 : 16;
    static constexpr u32 kY = kRank == 1 ? 1 : kX;
    static constexpr u32 kZ = kRank == 3 ? 16 : 1;
};

// Divides u32 numbers by a divisor that is used many times.
struct Divisor {
    u32 divisor, reciprocal;  // floor((2^32 − 1) / divisor), which gives quotients at most one too small
    __device__ __forceinline__ explicit Divisor(u32 d) : divisor(d), reciprocal(d ? ~0u / d : 0) {}
    __device__ __forceinline__ u32 divide(u32 n, u32& rest) const {
        u32 quotient = __umulhi(n, reciprocal);
        rest = n - quotient * divisor;
        if (rest >= divisor) rest -= divisor, ++quotient;
        return quotient;
    }
};

// The host's description of a chunk.
struct Blocks {
    u64 extents[3];          // slowest first, padded with leading ones
    u32 n_blocks, n_border;  // number of complete blocks, and of elements outside of them
};
static_assert(sizeof(Blocks) == 32 && offsetof(Blocks, n_blocks) == 24, "crates/gridz-codecs/src/codec/ndzip/cuda.rs has the same struct");

// Geometry of one chunk. The host has made sure that the payload has fewer than 2^32 words, so
// counts of elements and words fit u32. Offsets in bytes are u64.
template <typename W, int kRank>
struct Layout {
    u32 rows, columns;         // extents along y and x; planes follow from n_elements
    u32 blocks_y, blocks_x;
    u32 n_blocks, n_border;
    u32 covered_z;             // number of planes that contain blocks
    u64 plane;                 // elements per plane

    __device__ __forceinline__ explicit Layout(const Blocks& blocks)
        : rows(static_cast<u32>(blocks.extents[1])), columns(static_cast<u32>(blocks.extents[2])), blocks_y(rows / Sides<kRank>::kY),
          blocks_x(columns / Sides<kRank>::kX), n_blocks(blocks.n_blocks), n_border(blocks.n_border),
          covered_z(n_blocks ? static_cast<u32>(blocks.extents[0]) / Sides<kRank>::kZ * Sides<kRank>::kZ : 0),
          plane(static_cast<u64>(rows) * columns) {}

    // Number of tiles of one chunk, at least one. The tiles of blocks precede those of the border.
    // A tile has `blocks_per_tile` blocks, or as many elements of the border.
    __device__ __forceinline__ u32 block_tiles(u32 blocks_per_tile) const {
        return (n_blocks + blocks_per_tile - 1) / blocks_per_tile;
    }
    __device__ __forceinline__ u32 tiles(u32 blocks_per_tile) const {
        const u32 elements = blocks_per_tile * kBlock;
        const u32 n = block_tiles(blocks_per_tile) + n_border / elements + (n_border % elements != 0);
        return n ? n : 1;
    }

    __device__ __forceinline__ u64 n_elements() const { return static_cast<u64>(n_blocks) * kBlock + n_border; }

    // Index in the array of a block's first element.
    __device__ __forceinline__ u32 block_start(u32 block) const {
        if (kRank == 1) return block * kBlock;
        const u32 rest = block / blocks_x;
        return block_start(block % blocks_x, kRank == 3 ? rest % blocks_y : rest, kRank == 3 ? rest / blocks_y : 0);
    }
    // The same, but faster for frequent calls: `by_x` and `by_y` divide by blocks_x and blocks_y.
    __device__ __forceinline__ u32 block_start(u32 block, const Divisor& by_x, const Divisor& by_y) const {
        if (kRank == 1) return block * kBlock;
        u32 bx, by, bz = 0;
        const u32 rest = by_x.divide(block, bx);
        if (kRank == 3) {
            bz = by_y.divide(rest, by);
        } else {
            by = rest;
        }
        return block_start(bx, by, bz);
    }
    __device__ __forceinline__ u32 block_start(u32 bx, u32 by, u32 bz) const {
        return (bz * Sides<kRank>::kZ * rows + by * Sides<kRank>::kY) * columns + bx * Sides<kRank>::kX;
    }

    // Size of the offset table and its padding in bytes, which is also the position of block 0.
    __device__ __forceinline__ u64 table_bytes() const {
        return (4ull * n_blocks + Type<W>::kBytes - 1) / Type<W>::kBytes * Type<W>::kBytes;
    }
    __device__ __forceinline__ bool has_pad() const { return Type<W>::kBytes == 8 && n_blocks % 2 == 1; }

    // Members that ordered_frames.cuh requires. The lengths of tiles are in words.
    using Own = Blocks;
    using Sum = u32;
    static constexpr u32 kPartsPerTile = ::kPartsPerTile;
    __device__ __forceinline__ u64 raw_bytes() const { return n_elements() * Type<W>::kBytes; }
    __device__ __forceinline__ u64 payload_bytes(u64 words) const { return table_bytes() + (words + n_border) * Type<W>::kBytes; }
};

// Maps indices of border elements to positions in the array. The border has, for every plane with
// blocks, first the tails of the rows that blocks cover, then the remaining rows of the plane. The
// remaining planes follow. Without blocks, all elements belong to the border.
template <typename W, int kRank>
struct Border {
    const u32 covered_x, columns;
    const u32 tails;      // elements in all tails of a plane
    const u32 in_planes;  // border elements in planes with blocks
    const u64 plane, rest_of_plane, rest_of_array;
    const Divisor tail, per_plane;

    __device__ __forceinline__ explicit Border(const Layout<W, kRank>& layout)
        : covered_x(layout.n_blocks ? layout.blocks_x * Sides<kRank>::kX : 0), columns(layout.columns),
          tails((columns - covered_x) * layout.blocks_y * Sides<kRank>::kY),
          in_planes(layout.covered_z * (static_cast<u32>(layout.plane) - layout.blocks_y * Sides<kRank>::kY * covered_x)),
          plane(layout.plane), rest_of_plane(static_cast<u64>(layout.blocks_y) * Sides<kRank>::kY * columns),
          rest_of_array(layout.covered_z * layout.plane), tail(columns - covered_x),
          per_plane(layout.covered_z ? in_planes / layout.covered_z : 0) {}

    // Position in the array of element `i` of the border.
    __device__ __forceinline__ u64 element(u32 i) const {
        if (i >= in_planes) return rest_of_array + (i - in_planes);
        u32 in_plane, x;
        const u32 z = per_plane.divide(i, in_plane);
        if (in_plane >= tails) return z * plane + rest_of_plane + (in_plane - tails);
        const u32 y = tail.divide(in_plane, x);
        return z * plane + static_cast<u64>(y) * columns + covered_x + x;
    }
};

// Copies elements [first, first + n) of the border between the array and the payload. In the
// payload, they begin at word `base`. If `swaps`, the array has the opposite byte order. Adds the
// copied words to the checksum. Called by kThreads threads.
template <u32 kThreads, Towards kTowards, typename W, int kRank>
__device__ __forceinline__ void copy_border(const Layout<W, kRank>& layout, W* array, W* payload, u64 base, u32 first, u32 n,
                                            bool swaps, Sums& sums) {
    constexpr u32 kBatch = 4;  // loads in flight
    constexpr bool kToArray = kTowards == Towards::kArray;
    const Border<W, kRank> border(layout);
    // `low` sums 32-bit words, or the lower halves of 64-bit words; `high` sums the upper halves.
    constexpr u32 kParts = Type<W>::kParts;
    const u64 first_part = (base + threadIdx.x) * kParts;
    StridedSums<kThreads * kParts> low(first_part), high(first_part + kParts - 1);
    for (u32 i = threadIdx.x; i < n; i += kBatch * kThreads) {
        W words[kBatch];
        u64 elements[kBatch];
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            const u32 k = i + j * kThreads;
            if (k >= n) continue;
            elements[j] = border.element(first + k);
            words[j] = kToArray ? payload[base + k] : array[elements[j]];
            if (!kToArray && swaps) words[j] = swapped_bytes(words[j]);
        }
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            const u32 k = i + j * kThreads;
            if (k >= n) continue;
            if (kToArray) {
                array[elements[j]] = swaps ? swapped_bytes(words[j]) : words[j];
            } else {
                payload[base + k] = words[j];
            }
            low.add(static_cast<u32>(words[j]));
            if (kParts == 2) high.add(static_cast<u32>(static_cast<u64>(words[j]) >> 32));
        }
    }
    low.finish(first_part, sums);
    if (kParts == 2) high.finish(first_part + 1, sums);
}

// An encoded block in shared memory consists of u32 words with one word of padding after every 32.
// This avoids most bank conflicts when adjacent threads access runs of equal length.
__device__ __forceinline__ constexpr u32 padded(u32 word) { return word + word / 32; }

// A line in shared memory is eight units of 16 bytes. They are permuted by XOR to avoid bank
// conflicts when threads read the same unit of adjacent lines, or adjacent rows. Two lines
// whose indices differ by kFar are read together, so their units are in different halves of the
// banks. The permutation is linear: swizzled(a | b) = swizzled(a) ^ swizzled(b) if a and b have no
// common set bits.
template <u32 kFar>
__device__ __forceinline__ constexpr u32 swizzled(u32 byte) {
    const u32 line = byte / kLineBytes;
    return byte ^ ((line % 8 ^ (line / kFar % 2) * 4) * kUnitBytes);
}
