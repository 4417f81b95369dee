// Writes the list of nonzero numbers that read_list in sparse.cuh reads. Each thread has 32
// numbers. The output is ORed into zeros.

#pragma once

#include "../common/warp.cuh"
#include "pack.cuh"
#include "sparse.cuh"

// A list that is to be written. Used by all kThreads threads of a CTA.
template <typename W, u32 kThreads>
struct WrittenList {
    const W* const numbers;
    u32 word;              // bitmap of the thread's nonzero numbers
    u32 next;              // index after the last nonzero number of preceding threads
    u32 low_before, n_low; // numbers' bits below the highest: before the thread, in total
    u32 gap_bits;

    // `words`: the bitmap of nonzero numbers, one word per thread. Contains a barrier.
    __device__ __forceinline__ WrittenList(const W* numbers, const u32* words, u32 (&totals)[kThreads / kWarp], u32 (&gaps)[kThreads / kWarp])
        : numbers(numbers), word(words[threadIdx.x]), next(0) {
        const u32 warp = threadIdx.x / kWarp;
#pragma unroll 1
        for (u32 k = threadIdx.x; k-- > 0;) {
            if (words[k] == 0) continue;
            next = k * 32 + 32 - __clz(words[k]);
            break;
        }
        u32 gap = 0, own = 0;
        for_marked([&](u32, u32 zeros, u32 low, W) { gap = max(gap, zeros), own += low; });
        const u32 through = warp_inclusive_sum(own);
        gap = warp_max_unsigned(gap);
        if (lane_id() == kWarp - 1) totals[warp] = through, gaps[warp] = gap;
        __syncthreads();
        low_before = through - own, n_low = 0;
#pragma unroll
        for (u32 w = 0; w < kThreads / kWarp; ++w) {
            if (w < warp) low_before += totals[w];
            n_low += totals[w];
            gap = max(gap, gaps[w]);
        }
        gap_bits = max(bit_length(gap), 1u);
    }

    // Calls `f(k, zeros, low, number)` for each of the thread's nonzero numbers: its index among
    // them, the zeros before it, its length minus 1, and the number.
    template <typename F>
    __device__ __forceinline__ void for_marked(const F& f) const {
        u32 before = next, k = 0;
#pragma unroll 1
        for (u32 left = word; left != 0; left &= left - 1, ++k) {
            const u32 i = threadIdx.x * 32 + __ffs(left) - 1;
            f(k, i - before, bit_length(numbers[i]) - 1, numbers[i]);
            before = i + 1;
        }
    }

    __device__ __forceinline__ u32 lengths_at(u32 n) const { return kSparseHeader + (n * gap_bits + 7) / 8; }
    __device__ __forceinline__ u32 strings_at(u32 n, u32 width) const { return lengths_at(n) + (n * length_bits(width) + 7) / 8; }
    // Bytes of a list of n numbers of up to `width` bits, header included.
    __device__ __forceinline__ u32 n_bytes(u32 n, u32 width) const { return strings_at(n, width) + (n_low + 7) / 8; }

    // Writes the fields after the header of the list, which begins at byte `at` of `to`.
    // `marked_before`: nonzero numbers before those of the thread.
    __device__ __forceinline__ void write(unsigned char* to, u32 at, u32 n, u32 width, u32 marked_before) const {
        const u32 words = shared_address(to), n_length = length_bits(width);
        u32 bit = 8 * (at + strings_at(n, width)) + low_before;
        for_marked([&](u32 k, u32 zeros, u32 low, W number) {
            add_bits(words, 8 * (at + kSparseHeader) + (marked_before + k) * gap_bits, zeros);
            add_bits(words, 8 * (at + lengths_at(n)) + (marked_before + k) * n_length, low);
            add_bits(words, bit, number & low_bits(W(), low));
            bit += low;
        });
    }
};
