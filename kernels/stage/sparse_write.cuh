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
    u32 gap_low_before, n_gap_low;  // the same of gaps
    u32 gap_bits;          // of the longest gap, at least 1

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
        u32 gap = 0, own = 0, own_gap = 0;
        for_marked([&](u32, u32 zeros, u32 low, W) { gap = max(gap, zeros), own += low, own_gap += low_length(zeros); });
        const u32 through = warp_inclusive_sum(own), gap_through = warp_inclusive_sum(own_gap);
        gap = warp_max_unsigned(gap);
        // Both are below 2^16: there are few numbers, and gaps have up to 13 bits.
        if (lane_id() == kWarp - 1) totals[warp] = through, gaps[warp] = gap << 16 | gap_through;
        __syncthreads();
        low_before = through - own, n_low = 0, gap_low_before = gap_through - own_gap, n_gap_low = 0;
#pragma unroll
        for (u32 w = 0; w < kThreads / kWarp; ++w) {
            if (w < warp) low_before += totals[w], gap_low_before += gaps[w] & 0xffff;
            n_low += totals[w], n_gap_low += gaps[w] & 0xffff;
            gap = max(gap, gaps[w] >> 16);
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

    // Number of bits below the highest one.
    static __device__ __forceinline__ u32 low_length(u32 zeros) { return max(bit_length(zeros), 1u) - 1; }
    // Bits of the header and of the lengths of gaps; of these and of the lengths of n numbers of up
    // to `width` bits.
    __device__ __forceinline__ u32 lengths_at(u32 n) const { return 8 * kSparseHeader + n * bit_length(gap_bits); }
    __device__ __forceinline__ u32 low_at(u32 n, u32 width) const { return lengths_at(n) + n * length_bits(width); }
    // Bytes of a list, header included.
    __device__ __forceinline__ u32 n_bytes(u32 n, u32 width) const { return (low_at(n, width) + n_gap_low + n_low + 7) / 8; }

    // Writes the fields after the header of the list, which begins at byte `at` of `to`.
    // `marked_before`: nonzero numbers before those of the thread.
    __device__ __forceinline__ void write(unsigned char* to, u32 at, u32 n, u32 width, u32 marked_before) const {
        const u32 words = shared_address(to), n_length = length_bits(width), n_gap = bit_length(gap_bits);
        u32 gap_bit = 8 * at + low_at(n, width) + gap_low_before, bit = 8 * at + low_at(n, width) + n_gap_low + low_before;
        for_marked([&](u32 k, u32 zeros, u32 low, W number) {
            add_bits(words, 8 * (at + kSparseHeader) + (marked_before + k) * n_gap, bit_length(zeros));
            add_bits(words, 8 * at + lengths_at(n) + (marked_before + k) * n_length, low);
            add_bits(words, gap_bit, zeros & low_bits(0u, low_length(zeros)));
            add_bits(words, bit, number & low_bits(W(), low));
            gap_bit += low_length(zeros), bit += low;
        });
    }
};
