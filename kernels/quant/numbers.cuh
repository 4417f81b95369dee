// The numbers of a block of 4096 elements during compression: codes or words, minus the first one.
//
// kRows: the block has rows of 32 numbers, or is a line, which is treated as such rows. Its numbers
// have 32 bits, and a thread handles a row. The numbers of all other blocks have as many bits as a
// word.

#pragma once

#include "block_work.cuh"

template <typename W, bool kRows>
struct Numbers {
    using N = W;
    W* const at;
    __device__ __forceinline__ explicit Numbers(QuantShared<W>& shared) : at(shared.buffers[0].words) {}
    __device__ __forceinline__ W& operator[](u32 i) const { return at[i]; }
};
template <typename W>
struct Numbers<W, true> {
    using N = u32;
    static constexpr u32 kRowBytes = kRow * sizeof(u32);
    unsigned char* const at;
    __device__ __forceinline__ explicit Numbers(QuantShared<W>& shared) : at(reinterpret_cast<unsigned char*>(shared.buffers[0].words)) {}
    // 16 bytes of a row, swizzled so that accesses to vertical neighbors have no bank conflicts.
    __device__ __forceinline__ uint4& chunk(u32 row, u32 chunk) const {
        return *reinterpret_cast<uint4*>(at + row * kRowBytes + (chunk ^ (row & 7)) * kUnitBytes);
    }
    __device__ __forceinline__ u32& operator[](u32 i) const { return reinterpret_cast<u32*>(&chunk(i / kRow, i % kRow / 4))[i % 4]; }
};

// Differences of rows of 32 numbers, in registers.
template <typename W>
struct RowDifferences {
    const Numbers<W, true> numbers;
    const RowBox& box;

    // Loads kN numbers (4 or 8) of a row, from number `first` on, a multiple of kN.
    template <u32 kN>
    __device__ __forceinline__ void load(u32 row, u32 first, u32 (&v)[kN]) const {
        // The swizzle keeps pairs of chunks adjacent, so the two addresses differ in one bit.
        unsigned char* const at = reinterpret_cast<unsigned char*>(&numbers.chunk(row, first / 4));
        split(*reinterpret_cast<const uint4*>(at), v);
        if (kN == 8) split(*reinterpret_cast<const uint4*>(numbers.at + ((at - numbers.at) ^ kUnitBytes)), v + kN - 4);
    }
    // Adds kN numbers of a row, times `factor`, to `v`.
    template <u32 kN>
    __device__ __forceinline__ void add(u32 row, u32 first, u32 factor, u32 (&v)[kN]) const {
        u32 other[kN];
        load(row, first, other);
#pragma unroll
        for (u32 i = 0; i < kN; ++i) v[i] += factor * other[i];
    }
    // Loads kN numbers of a row, differenced along z and y, minus the base.
    template <u32 kN>
    __device__ __forceinline__ void load_zy(u32 row, u32 z, u32 y, u32 first, const Orders& o, u32 base, u32 (&v)[kN]) const {
        load(row, first, v);
        if ((o.z | o.y) <= 1) {
            if (o.y > 0 && y > 0) add(row - 1, first, ~0u, v);
            if (o.z > 0 && z > 0) {
                add(row - box.sy, first, ~0u, v);
                if (o.y > 0 && y > 0) add(row - box.sy - 1, first, 1u, v);
            }
        } else {
#pragma unroll 1
            for (u32 i = 0; i <= min(o.z, z); ++i) {
#pragma unroll 1
                for (u32 j = i == 0; j <= min(o.y, y); ++j) add(row - i * box.sy - j, first, static_cast<u32>(kBinomials[o.z][i] * kBinomials[o.y][j]), v);
            }
        }
        if (base != 0) {
#pragma unroll
            for (u32 i = 0; i < kN; ++i) v[i] -= base;
        }
    }
    // Returns the plane of a row, and sets `y` to the row's index in it. Without differences along
    // z, all planes count as one.
    __device__ __forceinline__ u32 place(u32 row, const Orders& o, u32& y) const {
        y = row;
        return o.z > 0 ? box.planes.divide(row, y) : 0;
    }
};

// Differences a row along x, group by group. last[k] is the last number of the previous group,
// differenced k times.
struct Carries {
    u32 last[kMaxOrder] = {};

    __device__ __forceinline__ void difference(u32 (&d)[kByteGroup], u32 order) {
#pragma unroll
        for (u32 k = 0; k < kMaxOrder; ++k) {
            if (k >= order) break;
            const u32 before = last[k];
            last[k] = d[kByteGroup - 1];
#pragma unroll
            for (u32 i = kByteGroup - 1; i > 0; --i) d[i] -= d[i - 1];
            d[0] -= before;
        }
    }
};
