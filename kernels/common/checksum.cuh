// The two sums of the payload checksum: with g(w) = (w XOR K)², a is the sum of g(w_i) and b that of
// (i + 1)·g(w_i) over the payload's u32 words. They are sums of integers modulo 2^64, so everybody adds
// up what passes through its hands, and the order does not matter.

#pragma once

#include "types.cuh"
#include "warp.cuh"

__device__ __forceinline__ u64 checksum_square(u32 word) {
    const u32 x = word ^ 0x9e3779b9u;
    return static_cast<u64>(x) * x;
}

struct Sums {
    u64 a = 0, b = 0;

    // Word `index` of the payload.
    __device__ __forceinline__ void add(u64 index, u32 word) {
        const u64 g = checksum_square(word);
        a += g;
        b += (index + 1) * g;
    }
    // Takes back what was added as word `index`.
    __device__ __forceinline__ void remove(u64 index, u32 word) {
        const u64 g = checksum_square(word);
        a -= g;
        b -= (index + 1) * g;
    }
};

// Sums over words kStride apart. Instead of a weighted sum it keeps the sum of all running sums, which is
// Σ (n − k)·g(w_k): two additions a word, no 64-bit multiplication.
template <u32 kStride>
struct StridedSums {
    u64 plain = 0, running = 0;
    u32 n = 0;

    __device__ __forceinline__ void add(u32 word) {
        plain += checksum_square(word);
        running += plain;
        ++n;
    }
    // The first word was word `first` of the payload.
    __device__ __forceinline__ void finish(u64 first, Sums& sums) const {
        sums.a += plain;
        sums.b += (first + 1) * plain + kStride * (n * plain - running);
    }
};

// The same over units of four words, kStride units apart.
template <u32 kStride>
struct UnitSums {
    u64 plain = 0, running = 0;
    u64 within = 0;  // Σ (3 − j)·g over words j = 0…3 of the units
    u32 n = 0;

    __device__ __forceinline__ void add(uint4 unit) {
        const u64 one = checksum_square(unit.x), two = one + checksum_square(unit.y), three = two + checksum_square(unit.z);
        within += one + two + three;
        plain += three + checksum_square(unit.w);
        running += plain;
        ++n;
    }
    // The first word was word `first` of the payload.
    __device__ __forceinline__ void finish(u64 first, Sums& sums) const {
        sums.a += plain;
        sums.b += (first + 1) * plain + (3 * plain - within) + 4 * kStride * (n * plain - running);
    }
};

// What all tiles of a chunk have added up so far. Zero at the launch.
struct ChunkTotals {
    u64 sum_a, sum_b;
    u32 n_done;  // tiles
    u32 errors;  // bit s: a tile saw Status s
    u64 reserved;
};

// Adds sums of a tile to the chunk's.
__device__ __forceinline__ void add_sums(ChunkTotals* totals, Sums sums) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&totals->sum_a), sums.a);
    atomicAdd(reinterpret_cast<unsigned long long*>(&totals->sum_b), sums.b);
}

// Counts `n_tiles` tiles whose sums this thread has added, and is how many were counted before. Release:
// whoever counts later sees these sums.
__device__ __forceinline__ u32 count_tiles(ChunkTotals* totals, u32 errors, u32 n_tiles) {
    if (errors) atomicOr(&totals->errors, errors);
    u32 n_before;
    asm volatile("atom.release.gpu.global.add.u32 %0, [%1], %2;" : "=r"(n_before) : "l"(&totals->n_done), "r"(n_tiles) : "memory");
    return n_before;
}


// By the thread that has counted the last tile of the chunk: it acquires what all others have released.
__device__ __forceinline__ void write_result(ChunkResult* result, const volatile ChunkTotals* totals, u64 n_bytes) {
    __threadfence();
    const u32 errors = totals->errors;
    const u32 status = errors & 1u << kCorrupt ? kCorrupt : errors & 1u << kTruncated ? kTruncated : kOk;
    *result = ChunkResult{n_bytes, totals->sum_a, totals->sum_b, status, 0};
}
