// Groups of numbers that are packed with the same widths, and their headers.

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"

constexpr u32 kGroup = 1024;   // numbers in a group
constexpr u32 kRow = kWarp;    // numbers in a row of a group, one per lane
constexpr u32 kGroupRows = kGroup / kRow;

// A group's header: each number has w packed bits; n1 numbers have a patch of e1 further bits, and
// n2 of these have a second patch of e2 bits.
struct Widths {
    u32 rows;
    u32 w, e1, e2;
    u32 n1, n2;
    u32 n_nonzero = kMany;  // numbers that are not 0, or kMany if unknown

    // n_nonzero is not computed if it exceeds 15/16 of the numbers. kMany exceeds the numbers of a
    // block, but sums over a few groups stay small.
    static constexpr u32 kMany = 1 << 13;

    __device__ __forceinline__ Widths(u32 rows, u32 w, u32 e1, u32 e2, u32 n1, u32 n2) : rows(rows), w(w), e1(e1), e2(e2), n1(n1), n2(n2) {}
    // From the header of a group of n numbers.
    __device__ __forceinline__ Widths(uint2 header, u32 n)
        : rows((n + kRow - 1) / kRow), w(header.x & 0xff), e1(header.x >> 8 & 0xff), e2(header.x >> 16), n1(header.y & 0xffff), n2(header.y >> 16) {}

    __device__ __forceinline__ u32 packed_bytes() const { return (rows * w + 31) / 32 * 128; }
    __device__ __forceinline__ u32 bitmap_bytes() const { return e1 ? 4 * rows : 0; }
    __device__ __forceinline__ u32 patch_bytes() const { return (n1 * e1 + 7) / 8 + (e2 ? (n1 + 7) / 8 + (n2 * e2 + 7) / 8 : 0); }
    __device__ __forceinline__ uint2 header() const { return make_uint2(w | e1 << 8 | e2 << 16, n1 | n2 << 16); }
};
