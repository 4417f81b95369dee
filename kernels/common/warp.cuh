// Cooperation of threads: scans and sums over a warp, barriers, mbarriers, asynchronous copies, and
// memory accesses whose order or width matters.

#pragma once

#include "tuning.cuh"
#include "types.cuh"

// Branch hints. The compiler moves unlikely code out of line, so that likely instructions are
// contiguous and are fetched faster.
__device__ __forceinline__ bool likely(bool condition) { return __builtin_expect(condition, 1); }
__device__ __forceinline__ bool unlikely(bool condition) { return __builtin_expect(condition, 0); }

constexpr u32 kWarp = 32;
constexpr u32 kAllLanes = 0xffffffffu;
constexpr u32 kUnitBytes = 16;  // the widest load or store of a thread

__device__ __forceinline__ u32 lane_id() { return threadIdx.x % kWarp; }

// The index of the warp in its CTA, in a form that the compiler knows to be uniform over the lanes.
// Otherwise, in code that only some warps run, the compiler would test before each vote that all
// lanes are present.
__device__ __forceinline__ u32 warp_id() { return __shfl_sync(kAllLanes, threadIdx.x / kWarp, 0); }

// Mask of the lanes before this one. `volatile` keeps the compiler from recomputing it at each use.
__device__ __forceinline__ u32 lanes_below() {
    u32 mask;
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    return mask;
}

// Hides from the optimizer how a value was computed, so that it compiles the code as written. The
// optimizer's own version would take more instructions or registers.
__device__ __forceinline__ void launder(u32& value) { asm("" : "+r"(value)); }
__device__ __forceinline__ void launder(u64& value) { asm("" : "+l"(value)); }

// The thread index as a laundered value. The compiler computes values derived from it where they
// are used, instead of keeping them in registers across an earlier loop.
__device__ __forceinline__ u32 opaque_thread_id() {
    u32 thread = threadIdx.x;
    launder(thread);
    return thread;
}

// Sum of the values of this lane and all lanes before it.
template <typename T>
__device__ __forceinline__ T warp_inclusive_sum(T value) {
#pragma unroll
    for (u32 step = 1; step < kWarp; step *= 2) {
        const T before = __shfl_up_sync(kAllLanes, value, step);
        if (lane_id() >= step) value += before;
    }
    return value;
}

// Sum over the warp, in all lanes.
__device__ __forceinline__ u32 warp_sum(u32 value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kAllLanes, value);
#else
#pragma unroll
    for (u32 step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
#endif
}

__device__ __forceinline__ u64 warp_sum(u64 value) {
#if __CUDA_ARCH__ >= 800
    // The sum of 32 pieces of 22 bits fits 32 bits.
    constexpr u32 piece = (1u << 22) - 1;
    const u64 low = warp_sum(static_cast<u32>(value) & piece);
    const u64 middle = warp_sum(static_cast<u32>(value >> 22) & piece);
    const u64 high = warp_sum(static_cast<u32>(value >> 44));
    return low + (middle << 22) + (high << 44);
#else
#pragma unroll
    for (u32 step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
#endif
}

// OR, minimum and maximum over the warp, in all lanes.
__device__ __forceinline__ u32 warp_or(u32 value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(kAllLanes, value);
#else
#pragma unroll
    for (u32 step = kWarp / 2; step > 0; step /= 2) value |= __shfl_xor_sync(kAllLanes, value, step);
    return value;
#endif
}
__device__ __forceinline__ u64 warp_or(u64 value) {
    return static_cast<u64>(warp_or(static_cast<u32>(value >> 32))) << 32 | warp_or(static_cast<u32>(value));
}
__device__ __forceinline__ u32 warp_max_unsigned(u32 value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAllLanes, value);
#else
#pragma unroll
    for (u32 step = kWarp / 2; step > 0; step /= 2) value = max(value, __shfl_xor_sync(kAllLanes, value, step));
    return value;
#endif
}
__device__ __forceinline__ u32 warp_min_unsigned(u32 value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(kAllLanes, value);
#else
    return ~warp_max_unsigned(~value);
#endif
}
__device__ __forceinline__ u64 warp_max_unsigned(u64 value) {
    // The greatest upper half, then the greatest lower half among the values that have it.
    const u32 high = warp_max_unsigned(static_cast<u32>(value >> 32));
    const u32 low = warp_max_unsigned(value >> 32 == high ? static_cast<u32>(value) : 0);
    return static_cast<u64>(high) << 32 | low;
}

// Barrier `id`, for n of the CTA's threads.
__device__ __forceinline__ void barrier_sync(u32 id, u32 n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }

// The 32-bit address of an object in shared memory, for the accesses below.
__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ uint4 load_shared_16(u32 address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void store_shared_16(u32 address, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ uint2 load_shared_8(u32 address) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void store_shared_8(u32 address, uint2 v) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}
__device__ __forceinline__ u32 load_shared_4(u32 address) {
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void store_shared_4(u32 address, u32 v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ u32 load_shared_2(u32 address) {
    unsigned short v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void store_shared_2(u32 address, u32 v) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<unsigned short>(v)) : "memory");
}
__device__ __forceinline__ u32 load_shared_1(u32 address) {
    u32 v;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ void store_shared_1(u32 address, u32 v) {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

// An mbarrier in shared memory: once `n_arrivals` threads have arrived, it releases the waiting
// threads, and the next round begins. Writes before an arrival are visible after the wait. No
// thread may be more than one round late. From sm_80 on this is a hardware mbarrier; on older
// architectures, a counter that only grows.
struct alignas(8) Mbarrier {
    u32 count, n_arrivals;

    // Called by one thread, before a barrier of all threads.
    __device__ __forceinline__ void init(u32 n) {
#if __CUDA_ARCH__ >= 800
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(n) : "memory");
#else
        count = 0, n_arrivals = n;
#endif
    }

    __device__ __forceinline__ void arrive() {
#if __CUDA_ARCH__ >= 800
        asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(this)) : "memory");
#else
        __threadfence_block();
        atomicAdd(&count, 1);
#endif
    }

    // Waits for the end of round `round`, counted from 0.
    __device__ __forceinline__ void wait(u32 round) {
#if __CUDA_ARCH__ >= 900
        constexpr u32 kLongNs = 1000000;  // longest suspension of a waiting thread
        u32 is_open;
        do {
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2, %3; selp.u32 %0, 1, 0, p; }"
                : "=r"(is_open) : "r"(shared_address(this)), "r"(round & 1), "r"(kLongNs) : "memory");
        } while (!is_open);
#elif __CUDA_ARCH__ >= 800
        u32 is_open;
        do {
            asm volatile(
                "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(is_open) : "r"(shared_address(this)), "r"(round & 1) : "memory");
        } while (!is_open);
#else
        while (*static_cast<volatile u32*>(&count) < (round + 1) * n_arrivals) {}
        __threadfence_block();
#endif
    }
};

// Stores 8 or 16 bytes with one instruction. The compiler may split the store of a vector into
// words, which doubles the traffic to the L2 cache.
__device__ __forceinline__ void store_global_8(void* p, uint2 v) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}

__device__ __forceinline__ void store_global_16(void* p, uint4 v) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// Stores data that is not read soon (evict-first), so that the L2 cache evicts it before data that
// was only read. Use it for whole lines: partly written lines stay until the rest is written.
__device__ __forceinline__ void store_global_streaming(u32* p, u32 word) { __stcs(p, word); }
__device__ __forceinline__ void store_global_streaming(void* p, uint4 v) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// Prefetches the line of an address into the L2 cache.
__device__ __forceinline__ void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Prefetches the line of an address into the L1 cache.
__device__ __forceinline__ void prefetch_l1(const void* p) { asm volatile("prefetch.global.L1 [%0];" ::"l"(p)); }

// How many bytes around a copy's source are prefetched to the L2 cache (a hint).
enum class Fetch : u32 { kNoMore, k128Bytes, k256Bytes };

// Starts a copy of kBytes (4, 8 or 16) from global to shared memory; both addresses are aligned to
// kBytes. kFetch is a hint, for 16 bytes only.
template <u32 kBytes, Fetch kFetch = Fetch::kNoMore>
__device__ __forceinline__ void copy_async(u32 shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    if (kBytes == 16 && kFetch == Fetch::k256Bytes) {
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
    } else if (kBytes == 16 && kFetch == Fetch::k128Bytes) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
    } else if (kBytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(global), "n"(kBytes) : "memory");
    }
#else
    if (kBytes == 16) store_shared_16(shared, *static_cast<const uint4*>(global));
    if (kBytes == 8) store_shared_8(shared, *static_cast<const uint2*>(global));
    if (kBytes == 4) store_shared_4(shared, *static_cast<const u32*>(global));
#endif
}

// Waits for all copies that this thread has started; other threads see them after a barrier.
__device__ __forceinline__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
