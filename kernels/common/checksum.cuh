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
    u64 plain = 0;
    u64 running = 0;  // of `plain` before each unit
    u64 within = 0;   // of `plain` after words 0, 1 and 2 of each unit
    u32 n = 0;

    __device__ __forceinline__ void add(uint4 unit) {
        running += plain;
        const u64 one = plain + checksum_square(unit.x), two = one + checksum_square(unit.y), three = two + checksum_square(unit.z);
        within += one + two + three;
        plain = three + checksum_square(unit.w);
        ++n;
    }
    // The first word was word `first` of the payload.
    __device__ __forceinline__ void finish(u64 first, Sums& sums) const {
        // Σ (3 − j)·g over words j = 0…3 of the units, and the sum of all running sums.
        const u64 reversed = within - 3 * running, all = running + plain;
        sums.a += plain;
        sums.b += (first + 1) * plain + (3 * plain - reversed) + 4 * kStride * (n * plain - all);
    }
};

// A bijection that spreads every bit (the finaliser of SplitMix64).
__device__ __forceinline__ u64 mix(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// What all tiles of a chunk have added up so far. Zero at the launch.
struct Totals {
    u64 sum_a, sum_b;
    u32 n_done;  // tiles, or parts of tiles
    u32 marks;   // bits that tiles have set
    u64 reserved;

    __device__ __forceinline__ void add(Sums sums) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&sum_a), sums.a);
        atomicAdd(reinterpret_cast<unsigned long long*>(&sum_b), sums.b);
    }

    // Counts `n` parts whose sums this thread has added, and is how many were counted before. Release: whoever
    // counts later sees these sums and marks.
    __device__ __forceinline__ u32 count(u32 new_marks, u32 n) {
        if (new_marks) atomicOr(&marks, new_marks);
        u32 n_before;
        asm volatile("atom.release.gpu.global.add.u32 %0, [%1], %2;" : "=r"(n_before) : "l"(&n_done), "r"(n) : "memory");
        return n_before;
    }

    // By the thread that has counted the last part, or its warp after that: the checksum of all, from what the others
    // have released.
    __device__ __forceinline__ u64 checksum() const volatile {
        __threadfence();
        return mix(sum_a + mix(sum_b));
    }
};
