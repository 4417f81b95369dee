// Writes bitmaps in the coded form that bitmap.cuh reads. Each thread has one word of the bitmap,
// or several adjacent ones, so that the CTA's threads cover the longest bitmap. The numbers of
// nonzero words and bytes before a thread's words give the position of its output. Threads share
// output words, so all output is ORed into zeros.

#pragma once

#include <type_traits>

#include "../common/warp.cuh"
#include "pack.cuh"

// The bitmap word of the thread's 32 numbers, where each warp has the numbers of a group.
// `f(number)` returns whether a number is marked. Numbers past the last one may be marked, too.
template <typename W, typename F>
__device__ __forceinline__ u32 own_bitmap(const W* numbers, F f) {
    const W* const group = numbers + threadIdx.x / kWarp * kGroup + lane_id();
    u32 own = 0;
#pragma unroll 8
    for (u32 row = 0; row < kGroupRows; ++row) {
        const u32 bitmap = __ballot_sync(kAllLanes, f(group[row * kRow]));
        if (row == lane_id()) own = bitmap;
    }
    return own;
}

// Word i of the bitmap, coded as changes: each bit XOR the bit `distance` before it.
__device__ __forceinline__ u32 bitmap_changes(const u32* words, u32 distance, u32 i = threadIdx.x) {
    const u32 whole = distance / 32;
    const u32 low = i > whole ? words[i - whole - 1] : 0, high = i >= whole ? words[i - whole] : 0;
    return words[i] ^ __funnelshift_l(low, high, distance);
}

// Writes a bitmap. Used by all kThreads threads of a CTA, each with kOwn words.
template <u32 kThreads, u32 kOwn = 1>
struct BitmapWriter {
    static constexpr bool kFew = kThreads * kOwn <= 128;
    static_assert(kThreads * kOwn <= 4096, "what fits the fields of a sum");
    // Fields of a sum: the numbers of nonzero words, of nonzero bytes, and of marks.
    using Sum = std::conditional_t<kFew, u32, u64>;
    static constexpr u32 kBytesAt = kFew ? 8 : 16, kCountAt = kFew ? 18 : 32;

    u32 words[kOwn];
    u32 n_words;
    Sum before, all;

    // `own`: the thread's words; those past `n_words` are 0. Contains a barrier.
    __device__ __forceinline__ BitmapWriter(const u32 (&own)[kOwn], u32 n_words, Sum (&totals)[kThreads / kWarp]) : n_words(n_words) {
        Sum sum = 0;
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) words[k] = own[k], sum += sum_of(own[k]);
        const Sum through = warp_inclusive_sum(sum);
        const u32 warp = threadIdx.x / kWarp;
        if (lane_id() == kWarp - 1) totals[warp] = through;
        __syncthreads();
        before = through - sum, all = 0;
#pragma unroll
        for (u32 w = 0; w < kThreads / kWarp; ++w) {
            if (w < warp) before += totals[w];
            all += totals[w];
        }
    }
    // The highest bit of each nonzero byte.
    static __device__ __forceinline__ u32 nonzero(u32 word) { return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u; }
    static __device__ __forceinline__ Sum sum_of(u32 word) {
        return static_cast<Sum>(word != 0) | static_cast<Sum>(__popc(nonzero(word))) << kBytesAt | static_cast<Sum>(__popc(word)) << kCountAt;
    }
    __device__ __forceinline__ static u32 words_of(Sum sum) { return static_cast<u32>(sum) & low_bits(0u, kBytesAt); }
    __device__ __forceinline__ static u32 bytes_of(Sum sum) { return static_cast<u32>(sum >> kBytesAt) & low_bits(0u, kCountAt - kBytesAt); }
    __device__ __forceinline__ u32 n_marked() const { return static_cast<u32>(all >> kCountAt); }
    __device__ __forceinline__ u32 marked_before() const { return static_cast<u32>(before >> kCountAt); }
    __device__ __forceinline__ u32 presence_bytes() const { return (n_words + 7) / 8; }
    __device__ __forceinline__ u32 values_at() const { return presence_bytes() + (words_of(all) + 1) / 2; }
    __device__ __forceinline__ u32 n_bytes() const { return values_at() + bytes_of(all); }

    // ORs the coded bitmap into zeroed, word-aligned shared memory, from byte `at` on.
    __device__ __forceinline__ void write(unsigned char* to, u32 at) const {
        const u32 to_words = shared_address(to);
        if (kOwn == 1) {
            const u32 present = __ballot_sync(kAllLanes, words[0] != 0);
            if (lane_id() == 0 && present) add_bits(to_words, 8 * at + threadIdx.x, present);
        } else {
            u32 present = 0;
#pragma unroll
            for (u32 k = 0; k < kOwn; ++k) present |= static_cast<u32>(words[k] != 0) << k;
            if (present) add_bits(to_words, 8 * at + kOwn * threadIdx.x, present);
        }
        Sum sum = before;
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) {
            if (words[k] == 0) continue;
            const u32 bytes = nonzero(words[k]), nibble = (bytes >> 7 & 1) | (bytes >> 14 & 2) | (bytes >> 21 & 4) | (bytes >> 28 & 8);
            add_bits(to_words, 8 * (at + presence_bytes()) + 4 * words_of(sum), nibble);
            u32 value = at + values_at() + bytes_of(sum);
#pragma unroll 1
            for (u32 b = 0; b < 4; ++b) {
                const u32 byte = words[k] >> 8 * b & 0xff;
                if (byte) add_bits(to_words, 8 * value++, byte);
            }
            sum += sum_of(words[k]);
        }
    }
};
