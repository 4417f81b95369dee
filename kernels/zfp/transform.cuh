// The transform of zfp: lines of four numbers along each axis, in registers, and the order in which
// a block's numbers are then coded. All loops are unrolled, so that the order costs nothing.

#pragma once

#include "../common/types.cuh"
#include "../stage/words.cuh"

// Number of elements of a block of this rank.
template <u32 kRank>
constexpr u32 kBlock = 1u << 2 * kRank;

// A thread has a whole block, or a quarter of a block of four axes (quarters.cuh). These are the
// number of axes and of numbers in its part, and the number of threads that share a block.
template <u32 kRank>
constexpr u32 kOwnAxes = kRank < 4 ? kRank : 3;
template <u32 kRank>
constexpr u32 kOwnNumbers = kBlock<kOwnAxes<kRank>>;
template <u32 kRank>
constexpr u32 kBlockThreads = kBlock<kRank> / kOwnNumbers<kRank>;

// Index, in a thread's part of a block, of number i in the order of the stream. Quarters (rank 4)
// are already in this order.
template <u32 kRank>
__host__ __device__ __forceinline__ constexpr u32 place_of(u32 i) {
    constexpr unsigned char kPlane[16] = {0, 1, 4, 5, 2, 8, 6, 9, 3, 12, 10, 7, 13, 11, 14, 15};
    constexpr unsigned char kCube[64] = {0,  1,  4,  16, 20, 17, 5,  2,  8,  32, 21, 6,  18, 24, 9,  33, 36, 3,  12, 48, 22, 25,
                                         37, 40, 34, 10, 7,  19, 28, 13, 49, 52, 41, 38, 26, 23, 29, 53, 11, 35, 44, 14, 50, 56,
                                         42, 27, 39, 45, 30, 54, 57, 60, 51, 15, 43, 46, 58, 61, 55, 31, 62, 59, 47, 63};
    return kRank == 1 || kRank == 4 ? i : kRank == 2 ? kPlane[i % 16] : kCube[i % 64];
}

// The mask for conversions between two's complement and negabinary, in which zfp codes numbers.
template <typename W>
constexpr W kNegabinary = static_cast<W>(0xaaaaaaaaaaaaaaaau);
template <typename W>
__device__ __forceinline__ W to_negabinary(W i) { return (i + kNegabinary<W>) ^ kNegabinary<W>; }
template <typename W>
__device__ __forceinline__ W from_negabinary(W u) { return (u ^ kNegabinary<W>) - kNegabinary<W>; }

template <typename W>
__device__ __forceinline__ W halved(W i) { return shifted_signed(i, 1); }

// The lossy transform of a line of four numbers, and its inverse. It is nearly orthogonal, and
// loses up to two low bits.
struct Lossy {
    static constexpr bool kIsReversible = false;
    template <typename W>
    static __device__ __forceinline__ void forth(W& x, W& y, W& z, W& w) {
        x += w, x = halved(x), w -= x;
        z += y, z = halved(z), y -= z;
        x += z, x = halved(x), z -= x;
        w += y, w = halved(w), y -= w;
        w += halved(y), y -= halved(w);
    }
    template <typename W>
    static __device__ __forceinline__ void back(W& x, W& y, W& z, W& w) {
        y += halved(w), w -= halved(y);
        y += w, w -= y - w;
        z += x, x -= z - x;
        y += z, z -= y - z;
        w += x, x -= w - x;
    }
};

// The lossless transform of a line of four numbers, and its inverse: differences up to the third
// order.
struct Reversible {
    static constexpr bool kIsReversible = true;
    template <typename W>
    static __device__ __forceinline__ void forth(W& x, W& y, W& z, W& w) {
        w -= z, z -= y, y -= x;
        w -= z, z -= y;
        w -= z;
    }
    template <typename W>
    static __device__ __forceinline__ void back(W& x, W& y, W& z, W& w) {
        w += z;
        z += y, w += z;
        y += x, z += y, w += z;
    }
};

template <u32 kRank, typename Lines, typename W>
__device__ __forceinline__ void transform_forth(W (&v)[kBlock<kRank>]) {
#pragma unroll
    for (u32 stride = 1; stride < kBlock<kRank>; stride *= 4) {
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; ++i) {
            if (i / stride % 4 == 0) Lines::forth(v[i], v[i + stride], v[i + 2 * stride], v[i + 3 * stride]);
        }
    }
}
template <u32 kRank, typename Lines, typename W>
__device__ __forceinline__ void transform_back(W (&v)[kBlock<kRank>]) {
#pragma unroll
    for (u32 stride = kBlock<kRank> / 4; stride > 0; stride /= 4) {
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; ++i) {
            if (i / stride % 4 == 0) Lines::back(v[i], v[i + stride], v[i + 2 * stride], v[i + 3 * stride]);
        }
    }
}

// Fills the padding of a clipped block with copies of its elements. `there`: number of existing
// elements along each axis, from 1 to 4.
template <u32 kRank, typename W>
__device__ __forceinline__ void pad(W (&v)[kBlock<kRank>], const u32 (&there)[kRank]) {
#pragma unroll
    for (u32 axis = 0; axis < kRank; ++axis) {
        const u32 stride = 1u << 2 * axis, m = there[axis];
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; ++i) {
            if (i / stride % 4 != 0) continue;
            if (m < 2) v[i + stride] = v[i];
            if (m < 3) v[i + 2 * stride] = v[i + stride];
            if (m < 4) v[i + 3 * stride] = v[i];
        }
    }
}
