// The two sums of the payload checksum (src/format/checksum.rs says why they are as they are). The payload's u32 words are
// seen as rows of 16 lanes; a is the sum of A(lane)·key(row)·word, b the same with weights B. They are sums of
// integers modulo 2^64, so everybody adds up what passes through its hands, and the order does not matter; but where
// in the payload it is must be known. A thread that takes every so many words, a multiple of 16, stays in its lanes: it
// multiplies by the weights when it has all.

#pragma once

#include "types.cuh"
#include "warp.cuh"

constexpr u32 kLanes = 16;

// The keys of rows are made by multiplications and shifts from row + 1, and the first multiplication makes steps of a
// sum: `steps` is (row + 1)·kKeyStep.
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
// Not in constant memory, where threads with other lanes would wait for each other. In one cache line.
alignas(128) __device__ const LaneWeights kLaneWeights;

struct Sums {
    u64 a = 0, b = 0;

    // Σ key·word of words in the lane of word `index` of the payload.
    __device__ __forceinline__ void add_lane(u64 index, u64 sum) {
        a += sum * kLaneWeights.a[index % kLanes];
        b += sum * kLaneWeights.b[index % kLanes];
    }
    // Word `index` of the payload.
    __device__ __forceinline__ void add(u64 index, u32 word) { add_lane(index, static_cast<u64>(key_of(key_steps(index))) * word); }
    // Takes back what was added as word `index`.
    __device__ __forceinline__ void remove(u64 index, u32 word) { add_lane(index, 0 - static_cast<u64>(key_of(key_steps(index))) * word); }
};

// The weights of lane i, in the registers of thread i of a warp, and again in the rest of it. For who needs weights now and then:
// in between, the cache may lose them.
struct WarpWeights {
    u32 own_a, own_b;

    __device__ __forceinline__ WarpWeights() : own_a(kLaneWeights.a[lane_id() % kLanes]), own_b(kLaneWeights.b[lane_id() % kLanes]) {}
    __device__ __forceinline__ u32 a(u32 lane) const { return __shfl_sync(kAllLanes, own_a, lane % kLanes); }
    __device__ __forceinline__ u32 b(u32 lane) const { return __shfl_sync(kAllLanes, own_b, lane % kLanes); }
    // By all threads: as Sums::add_lane.
    __device__ __forceinline__ void add_lane(u32 lane, u64 sum, Sums& sums) const {
        sums.a += sum * a(lane);
        sums.b += sum * b(lane);
    }
};

// Sums over words kStride apart, a multiple of a row.
template <u32 kStride>
struct StridedSums {
    static_assert(kStride % kLanes == 0, "a thread stays in its lane");
    u64 sum = 0;
    u32 steps;

    // From word `first` of the payload on.
    __device__ __forceinline__ explicit StridedSums(u64 first) : steps(key_steps(first)) {}
    __device__ __forceinline__ void add(u32 word) {
        sum += static_cast<u64>(key_of(steps)) * word;
        steps += kStride / kLanes * kKeyStep;
    }
    __device__ __forceinline__ void finish(u64 first, Sums& sums) const { sums.add_lane(first, sum); }
};

// Stores n words, of which the first one is word `first` of the payload, and adds up their sums, by all kThreads threads: word i
// is `word_of(i)`.
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

// The same over pairs of words, kStride pairs apart, of which the first is an even word.
template <u32 kStride>
struct PairSums {
    static_assert(kStride * 2 % kLanes == 0, "a thread stays in its lanes");
    u64 x = 0, y = 0;
    u32 steps;

    // From pair `first` of the payload on.
    __device__ __forceinline__ explicit PairSums(u64 first) : steps(key_steps(2 * first)) {}
    __device__ __forceinline__ void add(uint2 pair) {
        const u64 key = key_of(steps);
        x += key * pair.x;
        y += key * pair.y;
        steps += kStride * 2 / kLanes * kKeyStep;
    }
    __device__ __forceinline__ void finish(u64 first, Sums& sums) const { sums.add_lane(2 * first, x), sums.add_lane(2 * first + 1, y); }
};

// The same over units of four words, kStride units apart, a multiple of a row. The first word is a multiple of 4.
template <u32 kStride>
struct UnitSums {
    static_assert(kStride * 4 % kLanes == 0, "a thread stays in its lanes");
    u64 x = 0, y = 0, z = 0, w = 0;
    u32 steps, unit;  // unit of its row

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
    // The same by all threads of a warp.
    __device__ __forceinline__ void finish(const WarpWeights& weights, Sums& sums) const {
        weights.add_lane(4 * unit, x, sums);
        weights.add_lane(4 * unit + 1, y, sums);
        weights.add_lane(4 * unit + 2, z, sums);
        weights.add_lane(4 * unit + 3, w, sums);
    }
};

// A bijection that spreads every bit (the finaliser of SplitMix64).
__device__ __forceinline__ u64 mix(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// The checksum of so many bytes with these sums.
__device__ __forceinline__ u64 checksum_of(u64 a, u64 b, u64 n_bytes) { return mix(a + mix(b + n_bytes)); }

// Sums of the warps of a CTA, in shared memory.
template <u32 kWarps>
struct CtaSums {
    u64 a[kWarps], b[kWarps];

    // By all threads, with their own. Then a barrier.
    __device__ __forceinline__ void share(Sums sums) {
        sums.a = warp_sum(sums.a), sums.b = warp_sum(sums.b);
        if (lane_id() == 0) a[threadIdx.x / kWarp] = sums.a, b[threadIdx.x / kWarp] = sums.b;
    }
    // In place of that, by a warp that has none.
    __device__ __forceinline__ void clear() { a[threadIdx.x / kWarp] = b[threadIdx.x / kWarp] = 0; }
    // Of kSome warps, which begin with one of them.
    template <u32 kSome = kWarps>
    __device__ __forceinline__ Sums sum(u32 first = 0) const {
        Sums sums;
#pragma unroll
        for (u32 w = 0; w < kSome; ++w) sums.a += a[first + w], sums.b += b[first + w];
        return sums;
    }
};

// What all tiles of a chunk have added up so far, in scratch that was zeroed.
struct Totals {
    u64 sum_a, sum_b;
    u32 n_done;    // tiles, or parts of tiles
    u32 n_stored;  // those that were stored, in compression
    u32 marks;     // bits that tiles have set, in decompression
    u32 reserved;

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

    // By the warp of the thread that has counted the last part: sees what the others have released. First that thread does,
    // by its fence, then the others, which did not see the count themselves.
    __device__ __forceinline__ static void acquire() {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        __syncwarp();
    }
    // After that, the checksum of all, which are `n_bytes`.
    __device__ __forceinline__ u64 checksum(u64 n_bytes) const volatile { return checksum_of(sum_a, sum_b, n_bytes); }
};
