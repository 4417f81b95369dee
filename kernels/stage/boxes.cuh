// Boxes: the blocks of an array of up to three axes. The extents of a block are powers of two;
// blocks at the end of an axis are clipped.

#pragma once

#include "../common/region.cuh"
#include "../common/types.cuh"
#include "groups.cuh"

constexpr u32 kLogRow = 5;  // the logarithm of kRow

// log2 of the extents of a block.
struct Shape {
    u32 log_z, log_y, log_x;
};

__device__ __forceinline__ u32 ceil_log2(u64 n) { return n <= 1 ? 0 : 64 - __clzll(n - 1); }

// The block shape of an array: at most 2^log_block elements, in rows of 2^log_row elements. Rows
// are longer if the other axes are short.
__device__ __forceinline__ Shape block_shape(const u64 (&extents)[3], u32 log_block, u32 log_row) {
    const u32 z = ceil_log2(extents[0]), y = ceil_log2(extents[1]), x = ceil_log2(extents[2]);
    if (extents[0] == 1 && extents[1] == 1) return Shape{0, 0, log_block};
    const u32 rows = log_block - min(x, log_row);
    u32 log_y = min(y, rows), log_z = 0;
    if (extents[0] > 1) {
        log_z = min(z, rows - min(y, (rows + 1) / 2));
        log_y = min(y, rows - log_z);
    }
    return Shape{log_z, log_y, min(x, log_block - log_y - log_z)};
}

// A block in the array.
struct Box {
    u64 start;        // index of the first element in the array
    u32 sz, sy, sx;   // extents
    u32 m;            // number of elements
};

// The boxes of a chunk: a grid of blocks of one shape.
struct BoxGrid {
    Shape shape;
    u32 n_y, n_x;

    __device__ __forceinline__ BoxGrid(const u64 (&extents)[3], u32 log_block, u32 log_row = kLogRow) : shape(block_shape(extents, log_block, log_row)) {
        n_x = static_cast<u32>((extents[2] + (1ull << shape.log_x) - 1) >> shape.log_x);
        n_y = static_cast<u32>((extents[1] + (1ull << shape.log_y) - 1) >> shape.log_y);
    }
    __device__ __forceinline__ Box box(const u64 (&extents)[3], u32 block) const {
        const u32 rest = block / n_x, bx = block - rest * n_x, bz = rest / n_y, by = rest - bz * n_y;
        const u64 z = static_cast<u64>(bz) << shape.log_z, y = static_cast<u64>(by) << shape.log_y, x = static_cast<u64>(bx) << shape.log_x;
        Box box;
        box.start = (z * extents[1] + y) * extents[2] + x;
        box.sz = static_cast<u32>(min(extents[0] - z, u64{1} << shape.log_z));
        box.sy = static_cast<u32>(min(extents[1] - y, u64{1} << shape.log_y));
        box.sx = static_cast<u32>(min(extents[2] - x, u64{1} << shape.log_x));
        box.m = box.sz * box.sy * box.sx;
        return box;
    }
};

// Box of block `block` of a chunk with these extents, slowest axis first.
__device__ __forceinline__ Box find_box(const u64 (&extents)[3], u32 log_block, u32 block, u32 log_row = kLogRow) {
    return BoxGrid(extents, log_block, log_row).box(extents, block);
}

// The block of a tile of a region, or kNoBlock if the tile has none, or none that contains elements
// of the region.
constexpr u32 kNoBlock = ~0u;
__device__ __forceinline__ u32 touched_box(const Region& region, const u64 (&extents)[3], u32 log_block, u32 tile, u32 log_row = kLogRow) {
    const Shape shape = block_shape(extents, log_block, log_row);
    const u32 logs[3] = {shape.log_z, shape.log_y, shape.log_x};
    u32 n_blocks[3], at[3];
    for (u32 k = 0; k < 3; ++k) n_blocks[k] = static_cast<u32>((extents[k] + (u64{1} << logs[k]) - 1) >> logs[k]);
    const Touched touched(region, logs, n_blocks);
    if (tile >= touched.count()) return kNoBlock;
    touched.locate(tile, at);
    return has_some(region, logs, at) ? (at[0] * n_blocks[1] + at[1]) * n_blocks[2] + at[2] : kNoBlock;
}

// Divides by a number up to 2^16 that is used many times. Dividends must be below 2^16.
struct SmallDivisor {
    u32 divisor, reciprocal;
    __device__ __forceinline__ explicit SmallDivisor(u32 d) : divisor(d), reciprocal((0xffffffffu / d) + 1) {}
    __device__ __forceinline__ u32 divide(u32 n, u32& rest) const {
        const u32 quotient = divisor == 1 ? n : __umulhi(n, reciprocal);
        rest = n - quotient * divisor;
        return quotient;
    }
};

constexpr u32 kStepRows = 8;  // rows that a warp processes at a time

// A box in shared memory, with derived values for warps that process rows of it.
struct RowBox : Box {
    SmallDivisor planes = SmallDivisor(1);  // divisor: the rows of a plane
    u32 log_lanes;                          // log2 of the lanes per row; other lanes of a warp process other rows
    // Whether rows have 32 elements and fill whole steps; and whether, in addition, no step crosses
    // planes.
    bool has_steps, has_steps_in_planes;

    // Called by one thread. Blocks have at most 2^log_block elements.
    __device__ __forceinline__ void set(const Box& found, u32 log_block) {
        static_cast<Box&>(*this) = found;
        // A line is viewed as rows of 32 in one plane.
        planes = SmallDivisor(found.sz * found.sy == 1 ? (1u << log_block) / kRow : found.sy);
        log_lanes = found.sz * found.sy == 1 ? 5 : min(ceil_log2(found.sx), 5u);
        has_steps = (found.sx == kRow || found.sz * found.sy == 1) && found.m % (kStepRows * kRow) == 0;
        has_steps_in_planes = has_steps && found.sy % kStepRows == 0;
    }
    __device__ __forceinline__ bool is_line() const { return sz * sy == 1; }
    // Number of rows; for a line, as if it were not clipped.
    __device__ __forceinline__ u32 n_rows() const { return is_line() ? planes.divisor : sz * sy; }
    // Number of rows; for a line, only those that exist.
    __device__ __forceinline__ u32 n_existing_rows() const { return is_line() ? (m + kRow - 1) / kRow : sz * sy; }
};
