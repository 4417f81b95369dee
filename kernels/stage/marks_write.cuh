// Marks, written: what marks.cuh reads. A thread has a word of them, so the CTA has as many threads as there can be words. How many
// words, bytes and marks are before its own says where everything of it is. Threads share the words that they write, so all is added
// to zeros.

#pragma once

#include <type_traits>

#include "../common/warp.cuh"
#include "pack.cuh"

// The word of marks of the thread's 32 numbers, where a warp has those of a group: `f` says of a number whether it is marked. Numbers
// behind the last one may be marked, too.
template <typename W, typename F>
__device__ __forceinline__ u32 own_marks(const W* numbers, F f) {
    const W* const group = numbers + threadIdx.x / kWarp * kGroup + lane_id();
    u32 own = 0;
#pragma unroll 8
    for (u32 row = 0; row < kGroupRows; ++row) {
        const u32 marks = __ballot_sync(kAllLanes, f(group[row * kRow]));
        if (row == lane_id()) own = marks;
    }
    return own;
}

// The word that the marks of a thread's 32 numbers become when each is XORed with that of the number `distance` before it.
__device__ __forceinline__ u32 changed_marks(const u32* words, u32 distance) {
    const u32 i = threadIdx.x, whole = distance / 32;
    const u32 low = i > whole ? words[i - whole - 1] : 0, high = i >= whole ? words[i - whole] : 0;
    return words[i] ^ __funnelshift_l(low, high, distance);
}

// By all kThreads threads of a CTA.
template <u32 kThreads>
struct WrittenMarks {
    static_assert(kThreads <= 256, "what fits the fields of a sum");
    // Fields: words that are not 0, their bytes that are not 0, marks.
    using Sum = std::conditional_t<kThreads <= 128, u32, u64>;
    static constexpr u32 kBytesAt = kThreads <= 128 ? 8 : 16, kMarksAt = kThreads <= 128 ? 18 : 32;

    u32 word, nonzero;  // the highest bit of each byte that is not 0
    u32 n_words;
    Sum before, all;

    // The thread's word of so many that there are; others have 0. There is a barrier.
    __device__ __forceinline__ WrittenMarks(u32 word, u32 n_words, Sum (&totals)[kThreads / kWarp])
        : word(word), nonzero((((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u), n_words(n_words) {
        const Sum own = static_cast<Sum>(word != 0) | static_cast<Sum>(__popc(nonzero)) << kBytesAt | static_cast<Sum>(__popc(word)) << kMarksAt;
        const Sum through = warp_inclusive_sum(own);
        const u32 warp = threadIdx.x / kWarp;
        if (lane_id() == kWarp - 1) totals[warp] = through;
        __syncthreads();
        before = through - own, all = 0;
#pragma unroll
        for (u32 w = 0; w < kThreads / kWarp; ++w) {
            if (w < warp) before += totals[w];
            all += totals[w];
        }
    }

    __device__ __forceinline__ static u32 words_of(Sum sum) { return static_cast<u32>(sum) & low_bits(0u, kBytesAt); }
    __device__ __forceinline__ static u32 bytes_of(Sum sum) { return static_cast<u32>(sum >> kBytesAt) & low_bits(0u, kMarksAt - kBytesAt); }
    __device__ __forceinline__ u32 n_marked() const { return static_cast<u32>(all >> kMarksAt); }
    __device__ __forceinline__ u32 marked_before() const { return static_cast<u32>(before >> kMarksAt); }
    __device__ __forceinline__ u32 presence_bytes() const { return (n_words + 7) / 8; }
    __device__ __forceinline__ u32 values_at() const { return presence_bytes() + (words_of(all) + 1) / 2; }
    __device__ __forceinline__ u32 n_bytes() const { return values_at() + bytes_of(all); }

    // Adds the marks to zeros from byte `at` of shared memory that is aligned to words.
    __device__ __forceinline__ void write(unsigned char* to, u32 at) const {
        const u32 words = shared_address(to);
        const u32 present = __ballot_sync(kAllLanes, word != 0);
        if (lane_id() == 0 && present) add_bits(words, 8 * at + threadIdx.x, present);
        if (word == 0) return;
        const u32 nibble = (nonzero >> 7 & 1) | (nonzero >> 14 & 2) | (nonzero >> 21 & 4) | (nonzero >> 28 & 8);
        add_bits(words, 8 * (at + presence_bytes()) + 4 * words_of(before), nibble);
        u32 value = at + values_at() + bytes_of(before);
#pragma unroll 1
        for (u32 b = 0; b < 4; ++b) {
            const u32 byte = word >> 8 * b & 0xff;
            if (byte) add_bits(words, 8 * value++, byte);
        }
    }
};
