// Encodes the numbers of a block as a section of Huffman codes. The counterpart of
// crates/gridz-codecs/src/stage/entropy/section/write.rs and ../lanes.rs.
//
// SectionChoice, used by all threads of a CTA, computes codes from counts, the half bytes that
// describe their lengths, and the size of the lanes' words. LaneWriter, used by a warp, writes the
// words, from the last row to the first. A row's numbers and codes do not depend on the following
// row, so the caller prepares the codes of several rows, and only a few instructions form a dependency chain.

#pragma once

#include "code_lengths.cuh"
#include "symbols.cuh"

// The chosen codes of a section.
template <typename T>
struct SectionCodes {
    static constexpr u32 kSymbols = Symbols<T>::kCount;

    // From the lowest to the highest symbol: left-aligned in 32 bits; the length is in the low bits.
    u32 codes[kSymbols];
    u32 halves[(kSymbols + 7) / 8];  // code lengths in the format of the section
    u32 lane_counts[kWarp];          // bits of a lane after the last row
    u32 longest;                     // longest code length; 0 if there is at most one code
};

// Chooses the codes of a section; resides in shared memory.
template <typename T, u32 kThreads>
struct SectionChoice {
    static constexpr u32 kSymbols = Symbols<T>::kCount, kLengths = kCodeWordBits;

    CodeLengths<kSymbols, kThreads> lengths;
    u32 halves[(kSymbols + 7) / 8];
    u32 lowest, highest, n_used;  // least and greatest symbol that occurs; number of them
    u32 next[kLengths];           // by length: number of codes, later the next code
    u32 longest, n_halves;
    u32 lane_bits[kWarp], last[kWarp];  // total bits of a lane's codes; bits of its code in the last row
    u32 n_words;

    // Builds codes for the symbols that `lengths` has counted. Called by all threads after a
    // barrier; contains barriers, one at the end.
    __device__ __forceinline__ void make_codes(SectionCodes<T>& to) {
        if (threadIdx.x == 0) lowest = kSymbols, highest = 0, n_used = 0, longest = 0, n_halves = 0;
        if (threadIdx.x < kLengths) next[threadIdx.x] = 0;
        if (threadIdx.x < kWarp) lane_bits[threadIdx.x] = last[threadIdx.x] = 0;
        for (u32 i = threadIdx.x; i < (kSymbols + 7) / 8; i += kThreads) halves[i] = 0;
        __syncthreads();
        u32 low = kSymbols, high = 0, n = 0;
        for (u32 symbol = threadIdx.x; symbol < kSymbols; symbol += kThreads) {
            if (lengths.counts[symbol] > 0) low = min(low, symbol), high = symbol, ++n;
        }
        if (n > 0) atomicMin(&lowest, low), atomicMax(&highest, high), atomicAdd(&n_used, n);
        __syncthreads();
        if (n_used == 0) {
            if (threadIdx.x == 0) lowest = 0, to.longest = 0;
            __syncthreads();
            return;
        }
        constexpr u32 kFewBits = 11, kMoreBits = 3;
        lengths.find(min(max(bit_length(n_used) - 1 + kMoreBits, kFewBits), kMostCodeBits));
        __syncthreads();
        for (u32 symbol = threadIdx.x; symbol < kSymbols; symbol += kThreads) {
            if (lengths.lengths[symbol] > 0) atomicAdd(&next[lengths.lengths[symbol]], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) first_codes();
        __syncthreads();
        if (threadIdx.x < kWarp) {
            give_codes(to);
        } else if (threadIdx.x < 2 * kWarp) {
            tell_lengths();
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < (kSymbols + 7) / 8; i += kThreads) to.halves[i] = halves[i];
        if (threadIdx.x == 0) to.longest = longest;
    }
    __device__ __forceinline__ u32 n_symbols() const { return n_used > 0 ? highest - lowest + 1 : 0; }
    __device__ __forceinline__ u32 length_bytes() const { return (n_halves + 1) / 2; }

    // Computes the first code of each length. Called by one thread.
    __device__ __forceinline__ void first_codes() {
        u32 code = 0;
#pragma unroll 1
        for (u32 length = 1; length <= kMostCodeBits; ++length) {
            const u32 n = next[length];
            code *= 2;
            next[length] = code;
            code += n;
            if (n > 0 && n_used > 1) longest = length;
        }
    }
    // Assigns codes in the order of symbols. Called by a warp.
    __device__ __forceinline__ void give_codes(SectionCodes<T>& to) {
#pragma unroll 1
        for (u32 first = lowest; first <= highest; first += kWarp) {
            const u32 symbol = first + lane_id(), length = symbol <= highest ? lengths.lengths[symbol] : 0;
            const u32 same = __match_any_sync(kAllLanes, length);
            const u32 code = next[length] + __popc(same & lanes_below());
            if (symbol <= highest) to.codes[symbol] = length > 0 ? code << (32 - length) | length : 0;
            __syncwarp();
            if (length > 0 && (same & lanes_below()) == 0) next[length] += __popc(same);
            __syncwarp();
        }
    }
    // Writes the half bytes. Called by a warp: each symbol with a code writes those of the gap
    // before it and its own.
    __device__ __forceinline__ void tell_lengths() {
        constexpr u32 kMostGap = kLeastGap + kGapHalf;
        u32 at = 0, previous = lowest - 1;
#pragma unroll 1
        for (u32 first = lowest; first <= highest; first += kWarp) {
            const u32 symbol = first + lane_id(), length = symbol <= highest ? lengths.lengths[symbol] : 0;
            const u32 used = __ballot_sync(kAllLanes, length > 0), before = used & lanes_below();
            u32 gap = symbol - 1 - (before ? first + bit_length(before) - 1 : previous);
            const u32 rest = gap % kMostGap;
            const u32 n = length > 0 ? 2 * (gap / kMostGap) + (rest >= kLeastGap ? 2 : rest) + 1 : 0, through = warp_inclusive_sum(n);
            if (length > 0) {
                u32 to = at + through - n;
                while (gap >= kLeastGap) {
                    const u32 some = min(gap, kMostGap);
                    put_half(to, kGapHalf), put_half(to + 1, some - kLeastGap);
                    to += 2, gap -= some;
                }
                put_half(to + gap, length);
            }
            at += __shfl_sync(kAllLanes, through, kWarp - 1);
            if (used) previous = first + bit_length(used) - 1;
        }
        if (lane_id() == 0) n_halves = at;
    }
    __device__ __forceinline__ void put_half(u32 at, u32 half) { atomicOr(&halves[at / 8], half << at % 8 * 4); }

    // Computes how many words the lanes need, from their bits. Called by a warp.
    __device__ __forceinline__ void count_words(SectionCodes<T>& to) {
        const u32 lane = lane_id(), bits = lane_bits[lane], of_last = last[lane];
        // Before a reader decodes the last row, each lane has at least as many bits as the longest
        // code. Choose their number so that the lane's bits fill whole words.
        const u32 count = longest + (0 - (longest + bits - of_last)) % kCodeWordBits - of_last;
        to.lane_counts[lane] = count;
        const u32 sum = warp_sum(longest > 0 ? (bits + count) / kCodeWordBits : 0);
        if (lane == 0) n_words = sum;
    }
};

// Writes the words of the lanes. Called by a warp.
struct LaneWriter {
    u32 bits, count;  // the lane's bits, left-aligned; their number
    const u32 longest, from_here;  // from_here: mask of the lanes from this one on
    unsigned short* const words;
    const u32 n_words;
    u32 end;  // number of words not written yet

    __device__ __forceinline__ LaneWriter(u32 count, u32 longest, unsigned short* words, u32 n_words)
        : bits(0), count(count), longest(longest), from_here(~lanes_below()), words(words), n_words(n_words), end(n_words) {}

    // Puts a code in front of each lane's bits, and writes the words that become complete at the
    // other end.
    __device__ __forceinline__ void put(u32 code) {
        const u32 length = code & 0xff, next = count + length;
        const bool is_full = next >= kCodeWordBits + longest;
        const u32 full = __ballot_sync(kAllLanes, is_full);
        store(is_full, end - __popc(full & from_here), __funnelshift_l(bits, 0, count));
        end -= __popc(full);
        bits = bits >> length | (code & 0xffff0000u);
        count = is_full ? next - kCodeWordBits : next;
    }
    // Writes the words that a reader takes before the first row.
    __device__ __forceinline__ void finish() {
        const u32 left = __ballot_sync(kAllLanes, count > 0);
        store(count > 0, end - __popc(left & from_here), bits >> kCodeWordBits);
    }
    // Stores a word if `exists`, without a branch. If numbers have changed since they were counted,
    // they may need more words than there is room for; then `end` wraps around.
    __device__ __forceinline__ void store(bool exists, u32 at, u32 word) const {
        if (exists & (at < n_words)) words[at] = static_cast<unsigned short>(word);
    }
};
