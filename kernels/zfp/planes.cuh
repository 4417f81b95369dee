// Converts 16 or 64 numbers in registers to bit planes and back. (For blocks of four numbers, see
// line.cuh.) A slice is 16 planes of a block of 16 numbers, or 8 planes of a block of 64. Planes
// are needed from the highest on, and often only some of them, so slices are made one at a time.
// Only the selectors of bytes depend on the slice's index, so that all slices share the same code.
//
// A word of a slice has kFields fields, which belong to different planes. Row c has bit 7 − c of
// each byte of the numbers that the slice covers.
//
// Between the conversion and the coding of planes, a slice is in shared memory, where a loop can
// index planes.

#pragma once

#include "../common/bits.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "transform.cuh"

template <typename W, u32 kRank>
struct Slice {
    static constexpr u32 kN = kOwnNumbers<kRank>;
    static constexpr u32 kWords = kN > 32 ? kN / 32 : 1;    // of a plane
    static constexpr u32 kFields = kN > 32 ? 1 : 32 / kN;  // planes in a word
    static constexpr u32 kPlanes = 8 * kFields;
    // Slices of 32-bit numbers, or of one half of 64-bit numbers.
    static constexpr u32 kSlices = 32 / kPlanes;

    u32 rows[kWords][8];

    // Makes slice `slice` of the words `v`. Slice 0 has the highest planes.
    __device__ __forceinline__ void make(const u32 (&v)[kN], u32 slice) {
        const u32 byte = 3 - slice * kFields;  // the highest of the slice
        // Selector: byte `byte` of both words; for rank 2 also the byte below, which shares the
        // row.
        const u32 pair = kRank == 2 ? (byte - 1) | (4 + byte - 1) << 4 | byte << 8 | (4 + byte) << 12 : byte | (4 + byte) << 4;
#pragma unroll
        for (u32 w = 0; w < kWords; ++w) {
#pragma unroll
            for (u32 q = 0; q < 8; ++q) {
                const u32 i = 32 * w + q;
                u32 row = __byte_perm(v[place_of<kRank>(i % kN)], v[place_of<kRank>((i + 8) % kN)], pair);
                if (kRank >= 3) {
                    const u32 high = __byte_perm(v[place_of<kRank>((i + 16) % kN)], v[place_of<kRank>((i + 24) % kN)], pair);
                    row = __byte_perm(row, high, 0x5410);
                }
                rows[w][7 - q] = row;
            }
        }
#pragma unroll
        for (u32 w = 0; w < kWords; ++w) transpose_bytes(rows[w]);
    }

    // Writes the planes of the slice to the words `v`: the inverse of make().
    __device__ __forceinline__ void add_to(u32 (&v)[kN], u32 slice) {
#pragma unroll
        for (u32 w = 0; w < kWords; ++w) transpose_bytes(rows[w]);
        const u32 byte = 3 - slice * kFields;
        // A selector that replaces byte `byte` by byte m of the row, and keeps all other bytes.
        const auto selector = [](u32 byte, u32 m) { return (0x3210u & ~(0xfu << 4 * byte)) | (4 + m) << 4 * byte; };
#pragma unroll
        for (u32 w = 0; w < kWords; ++w) {
#pragma unroll
            for (u32 m = 0; m < 4; ++m) {
                const u32 select = kRank == 2 ? selector(byte - 1 + m / 2, m) : selector(byte, m);
#pragma unroll
                for (u32 q = 0; q < 8; ++q) {
                    const u32 i = 32 * w + q + 8 * (kRank == 2 ? m % 2 : m);
                    u32& to = v[place_of<kRank>(i % kN)];
                    to = __byte_perm(to, rows[w][7 - q], select);
                }
            }
        }
    }

    // Stores and loads the slice in shared memory, where the rows of all threads are interleaved.
    // `own` is the address of the thread's first word.
    static constexpr u32 kRowBytes = 4 * kWords * kZfpThreads;
    static __device__ __forceinline__ u32 own_address(const u32* stage) { return shared_address(stage) + 4 * kWords * threadIdx.x; }
    __device__ __forceinline__ void stage(u32 own) const {
#pragma unroll
        for (u32 c = 0; c < 8; ++c) {
            if constexpr (kWords == 2) {
                store_shared_8(own + c * kRowBytes, make_uint2(rows[0][c], rows[1][c]));
            } else {
                store_shared_4(own + c * kRowBytes, rows[0][c]);
            }
        }
    }
    __device__ __forceinline__ void unstage(u32 own) {
#pragma unroll
        for (u32 c = 0; c < 8; ++c) {
            if constexpr (kWords == 2) {
                const uint2 row = load_shared_8(own + c * kRowBytes);
                rows[0][c] = row.x, rows[1][c] = row.y;
            } else {
                rows[0][c] = load_shared_4(own + c * kRowBytes);
            }
        }
    }
    // Loads plane i of a slice from shared memory. Plane 0 is the highest.
    static __device__ __forceinline__ u64 load_plane(u32 own, u32 i) {
        const u32 row = own + i % 8 * kRowBytes, field = kFields - 1 - i / 8;
        if constexpr (kWords == 2) {
            const uint2 words = load_shared_8(row);
            return static_cast<u64>(words.y) << 32 | words.x;
        } else {
            return load_shared_2(row + 2 * field);
        }
    }
    // Stores plane i of a slice to shared memory. All rows must be zeros before the first plane is
    // stored.
    static __device__ __forceinline__ void store_plane(u32 own, u32 i, u32 low, u32 high) {
        const u32 row = own + i % 8 * kRowBytes, field = kFields - 1 - i / 8;
        if constexpr (kWords == 2) {
            store_shared_8(row, make_uint2(low, high));
        } else {
            store_shared_2(row + 2 * field, low);
        }
    }
};
