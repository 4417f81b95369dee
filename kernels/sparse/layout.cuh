// The tables of a sparse matrix: src/format/SPARSE.md. The structs are also in
// crates/gridz-sparse/src/layout.rs.

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"

constexpr u32 kWindowSlices = 120;
constexpr u32 kWindowRows = kWindowSlices * kWarp;
constexpr u32 kInOrder = 0xffffffffu;
constexpr u32 kCodeUnit = 32;

enum SliceFlags : u32 { kRelative = 1, kBlocked = 2, kFull = 4 };

// A group of 32 rows, one for each lane of a warp.
struct Slice {
    u64 base;
    u32 place;
    u32 values_at;
    u32 codes_at;
    u32 steps_at;
    u32 order_at;
    u32 n_steps : 8;
    u32 width : 8;
    u32 flags : 8;
    u32 n_lanes : 8;
};
static_assert(sizeof(Slice) == 32, "as in the frame");

struct LongRow {
    u64 row;
    u32 first;
    u32 n;
};
static_assert(sizeof(LongRow) == 16, "as in the frame");

// A matrix on a GPU, and the vectors of a product.
struct SparseArgs {
    const Slice* slices;
    const uint2* steps;  // offset, and mask of the lanes that have an element
    const unsigned short* order;
    const LongRow* long_rows;
    const void* different;
    const ulonglong2* value_blocks;
    const unsigned char* codes;
    const unsigned char* values;
    const void* x;
    void* y;
    void* long_sums;  // one for each slice of a long row
    u32 n_slices;     // number of slices of rows that are not long
    u32 n_all;        // number of all slices, including those of long rows
    u32 n_long;
    u32 block;
};
static_assert(sizeof(SparseArgs) == 104, "crates/gridz-sparse/src/gpu.rs has the same struct");

// The row of a lane. With blocks: also the index of its node in the slice, and that node's first
// row.
struct Row {
    u32 row;
    u32 node_row;
    u32 node;
};

template <bool Blocked>
__device__ __forceinline__ Row row_of(const SparseArgs& args, const Slice& slice, u32 lane) {
    const u32 in_window = slice.place % kWindowSlices;
    u32 node = lane, sub = 0;
    if (Blocked) {
        const u32 at = in_window * kWarp % args.block + lane;
        node = at / args.block;
        sub = at % args.block;
    }
    if (slice.order_at == kInOrder) return {slice.place * kWarp + lane, slice.place * kWarp + lane - sub, node};
    const u32 number = lane < slice.n_lanes ? args.order[static_cast<u64>(slice.order_at) + node] : 0;
    const u32 node_row = (slice.place - in_window) * kWarp + number * (Blocked ? args.block : 1);
    return {node_row + sub, node_row, node};
}

// Loads code `i`, of `Width` bytes.
template <u32 Width>
__device__ __forceinline__ u32 code_at(const unsigned char* codes, u64 i) {
    if constexpr (Width == 1) return codes[i];
    if constexpr (Width == 2) return reinterpret_cast<const unsigned short*>(codes)[i];
    if constexpr (Width == 4) return reinterpret_cast<const u32*>(codes)[i];
    // The lower half of an 8-byte code: columns have 32 bits here, and sums are modulo 2^32.
    if constexpr (Width == 8) return reinterpret_cast<const uint2*>(codes)[i].x;
    return 0;
}
