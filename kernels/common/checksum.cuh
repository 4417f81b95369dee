// Computes the two sums of the payload checksum. Its design is explained in
// crates/gridz-codecs/src/format/checksum.rs.
//
// The payload's u32 words form rows of 16 lanes. Sum a is Σ A(lane)·key(row)·word; sum b uses the
// weights B instead. Both are sums of integers modulo 2^64, so each thread adds the words that it
// handles, in any order. A thread only needs the positions of its words in the payload. If its
// stride is a multiple of 16 words, its words are always in the same lanes, so it multiplies by the
// lane weights only once, at the end.

#pragma once

#include "types.cuh"
#include "warp.cuh"

constexpr u32 kLanes = 16;

// The key of a row: mixes the bits of row + 1 by multiplications and shifts. `steps` is the first
// product, (row + 1)·kKeyStep; its value for the next row only takes an addition.
constexpr u32 kKeyStep = 0xed5ad4bbu;
__host__ __device__ __forceinline__ constexpr u32 key_of(u32 steps) {
    u32 x = steps;
    x ^= x >> 11;
    x *= 0xac4c1b51u;
    x ^= x >> 15;
    x *= 0x31848babu;
    return x ^ x >> 14;
}
__host__ __device__ __forceinline__ constexpr u32 key_steps(u64 word) { return (static_cast<u32>(word / kLanes) + 1) * kKeyStep; }

struct LaneWeights {
    alignas(16) u32 a[kLanes];
    alignas(16) u32 b[kLanes];
    constexpr LaneWeights() : a(), b() {
        for (u32 lane = 0; lane < kLanes; ++lane) {
            a[lane] = key_of(((1u << 31) + lane + 1) * kKeyStep) | 1;
            b[lane] = key_of(((1u << 31) + kLanes + lane + 1) * kKeyStep) | 1;
        }
    }
};
// In global memory: constant memory would serialize the accesses of lanes to different addresses.
// Aligned to one cache line.
alignas(128) __device__ const LaneWeights kLaneWeights;

struct Sums {
    u64 a = 0, b = 0;

    // Adds `sum`, which is Σ key·word over words that are all in the lane of payload word `index`.
    __device__ __forceinline__ void add_lane(u64 index, u64 sum) {
        a += sum * kLaneWeights.a[index % kLanes];
        b += sum * kLaneWeights.b[index % kLanes];
    }
    // Adds word `index` of the payload.
    __device__ __forceinline__ void add(u64 index, u32 word) { add_lane(index, static_cast<u64>(key_of(key_steps(index))) * word); }
    // Undoes add() of word `index`.
    __device__ __forceinline__ void remove(u64 index, u32 word) { add_lane(index, 0 - static_cast<u64>(key_of(key_steps(index))) * word); }
};

// The lane weights in the registers of a warp: thread i holds the weights of lane i % 16. For
// kernels that use them so rarely that the cache would evict kLaneWeights in between.
struct WarpWeights {
    u32 own_a, own_b;

    __device__ __forceinline__ WarpWeights() : own_a(kLaneWeights.a[lane_id() % kLanes]), own_b(kLaneWeights.b[lane_id() % kLanes]) {}
    __device__ __forceinline__ u32 a(u32 lane) const { return __shfl_sync(kAllLanes, own_a, lane % kLanes); }
    __device__ __forceinline__ u32 b(u32 lane) const { return __shfl_sync(kAllLanes, own_b, lane % kLanes); }
    // Like Sums::add_lane, for a lane index. Called by all threads of the warp.
    __device__ __forceinline__ void add_lane(u32 lane, u64 sum, Sums& sums) const {
        sums.a += sum * a(lane);
        sums.b += sum * b(lane);
    }
};

// Sums the words of one thread, which are kStride apart. kStride is a multiple of a row.
template <u32 kStride>
struct StridedSums {
    static_assert(kStride % kLanes == 0, "a thread stays in its lane");
    u64 sum = 0;
    u32 steps;

    // Starts at word `first` of the payload.
    __device__ __forceinline__ explicit StridedSums(u64 first) : steps(key_steps(first)) {}
    __device__ __forceinline__ void add(u32 word) {
        sum += static_cast<u64>(key_of(steps)) * word;
        steps += kStride / kLanes * kKeyStep;
    }
    __device__ __forceinline__ void finish(u64 first, Sums& sums) const { sums.add_lane(first, sum); }
};

// Stores n words, and adds their checksum sums to `sums`. Called by all kThreads threads. Word i is
// `word_of(i)`; `to[0]` is word `first` of the payload.
template <u32 kThreads, typename F>
__device__ __forceinline__ void store_words(u32* to, u64 first, u32 n, Sums& sums, F word_of) {
    first += threadIdx.x;
    StridedSums<kThreads> word_sums(first);
#pragma unroll 8
    for (u32 i = threadIdx.x; i < n; i += kThreads) {
        const u32 word = word_of(i);
        to[i] = word;
        word_sums.add(word);
    }
    word_sums.finish(first, sums);
}

// Sums the word pairs of one thread, which are kStride pairs apart. Each pair starts at an even
// word.
template <u32 kStride>
struct PairSums {
    static_assert(kStride * 2 % kLanes == 0, "a thread stays in its lanes");
    u64 x = 0, y = 0;
    u32 steps;

    // Starts at pair `first` of the payload.
    __device__ __forceinline__ explicit PairSums(u64 first) : steps(key_steps(2 * first)) {}
    __device__ __forceinline__ void add(uint2 pair) {
        const u64 key = key_of(steps);
        x += key * pair.x;
        y += key * pair.y;
        steps += kStride * 2 / kLanes * kKeyStep;
    }
    __device__ __forceinline__ void finish(u64 first, Sums& sums) const { sums.add_lane(2 * first, x), sums.add_lane(2 * first + 1, y); }
};

// Sums the units of four words of one thread. The units are kStride units apart, a multiple of a
// row. `first`, the payload index of the first unit's first word, is a multiple of 4.
template <u32 kStride>
struct UnitSums {
    static_assert(kStride * 4 % kLanes == 0, "a thread stays in its lanes");
    u64 x = 0, y = 0, z = 0, w = 0;
    u32 steps, unit;  // unit: index of the unit in its row

    __device__ __forceinline__ explicit UnitSums(u64 first) : steps(key_steps(first)), unit(static_cast<u32>(first) / 4 % (kLanes / 4)) {}
    __device__ __forceinline__ void add(uint4 unit) {
        const u64 key = key_of(steps);
        x += key * unit.x;
        y += key * unit.y;
        z += key * unit.z;
        w += key * unit.w;
        steps += kStride * 4 / kLanes * kKeyStep;
    }
    __device__ __forceinline__ void finish(Sums& sums) const {
        const uint4 a = __ldg(reinterpret_cast<const uint4*>(kLaneWeights.a) + unit);
        const uint4 b = __ldg(reinterpret_cast<const uint4*>(kLaneWeights.b) + unit);
        sums.a += x * a.x + y * a.y + z * a.z + w * a.w;
        sums.b += x * b.x + y * b.y + z * b.z + w * b.w;
    }
    // Like finish(sums), with weights in registers. Called by all threads of a warp.
    __device__ __forceinline__ void finish(const WarpWeights& weights, Sums& sums) const {
        weights.add_lane(4 * unit, x, sums);
        weights.add_lane(4 * unit + 1, y, sums);
        weights.add_lane(4 * unit + 2, z, sums);
        weights.add_lane(4 * unit + 3, w, sums);
    }
};

// A bijection that spreads every bit over the word (the finalizer of SplitMix64).
__device__ __forceinline__ u64 mix(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// The checksum of `n_bytes` bytes with sums a and b.
__device__ __forceinline__ u64 checksum_of(u64 a, u64 b, u64 n_bytes) { return mix(a + mix(b + n_bytes)); }

// The sums of each warp of a CTA, in shared memory.
template <u32 kWarps>
struct CtaSums {
    u64 a[kWarps], b[kWarps];

    // Stores the sums of each warp. Called by all threads, each with its own sums. A barrier must
    // follow.
    __device__ __forceinline__ void share(Sums sums) {
        sums.a = warp_sum(sums.a), sums.b = warp_sum(sums.b);
        if (lane_id() == 0) a[threadIdx.x / kWarp] = sums.a, b[threadIdx.x / kWarp] = sums.b;
    }
    // Replaces share() in a warp that has no sums.
    __device__ __forceinline__ void clear() { a[threadIdx.x / kWarp] = b[threadIdx.x / kWarp] = 0; }
    // The total of kSome warps from warp `first` on.
    template <u32 kSome = kWarps>
    __device__ __forceinline__ Sums sum(u32 first = 0) const {
        Sums sums;
#pragma unroll
        for (u32 w = 0; w < kSome; ++w) sums.a += a[first + w], sums.b += b[first + w];
        return sums;
    }
};

// Running totals over the tiles of a chunk, in zeroed scratch memory.
struct Totals {
    u64 sum_a, sum_b;
    u32 n_done;    // finished tiles, or parts of tiles
    u32 n_stored;  // finished parts in stored form (compression)
    u32 marks;     // damage flags set by tiles (decompression)
    u32 reserved;

    __device__ __forceinline__ void add(Sums sums) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&sum_a), sums.a);
        atomicAdd(reinterpret_cast<unsigned long long*>(&sum_b), sums.b);
    }

    // Counts `n` parts whose sums this thread has added. Returns the number counted before. Release
    // semantics: after acquire(), the warp that counts the last part sees these sums and marks.
    __device__ __forceinline__ u32 count(u32 new_marks, u32 n) {
        if (new_marks) atomicOr(&marks, new_marks);
        u32 n_before;
        asm volatile("atom.release.gpu.global.add.u32 %0, [%1], %2;" : "=r"(n_before) : "l"(&n_done), "r"(n) : "memory");
        return n_before;
    }

    // Acquires the sums that other CTAs released. Called by the warp of the thread that counted the
    // last part. That thread's fence comes first; __syncwarp() extends it to the other lanes, which
    // did not observe the count themselves.
    __device__ __forceinline__ static void acquire() {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        __syncwarp();
    }
    // The checksum of all parts, `n_bytes` bytes in total. Call acquire() first.
    __device__ __forceinline__ u64 checksum(u64 n_bytes) const volatile { return checksum_of(sum_a, sum_b, n_bytes); }
};
