// The map from a block's words to numbers that suits it, and the range of these, by all threads of a CTA.

#pragma once

#include "../common/elements.cuh"
#include "../stage/decimal.cuh"
#include "../stage/fixed.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"
#include "mask_choice.cuh"
#include "orders.cuh"

template <typename W>
struct MapChoice {
    static constexpr u32 kPerUnit = Word<W>::kPerUnit;

    LorenzoShared<W>& shared;
    const Element& element;

    // The bits that any word has, and the words' signed range, of all threads. Barriers.
    __device__ __forceinline__ void look_at_words(const W* words, W& all_or, W& low, W& high) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        low = high = all_or = words[0];
        const auto look = [&](W word) {
            all_or |= word;
            low = signed_min(low, word);
            high = signed_max(high, word);
        };
#pragma unroll 4
        for (u32 u = threadIdx.x; u < m / kPerUnit; u += kLorenzoThreads) {
            W own[kPerUnit];
            split(reinterpret_cast<const uint4*>(words)[u], own);
#pragma unroll
            for (u32 i = 0; i < kPerUnit; ++i) look(own[i]);
        }
        if (m / kPerUnit * kPerUnit + threadIdx.x < m) look(words[m / kPerUnit * kPerUnit + threadIdx.x]);
        // What samples say is asked by one warp each.
        if (warp == 0) {
            u32 n;
            const W word = MaskChoice<W>::most_frequent(words[lane_id() * m / kWarp], n);
            if (lane_id() == 0) shared.frequent = word, shared.n_frequent = n;
        }
        if (warp == 1) share_middle(words[lane_id() % OrderChoice<W>::kSamples * m / OrderChoice<W>::kSamples]);
        if (warp == kGroups - 1) {
            const u32 decimals = element.is_float ? least_decimals(words[lane_id() * m / kWarp]) : 0;
            if (lane_id() == 0) shared.decimals = decimals;
        }
        all_or = warp_or(all_or);
        low = warp_min(low);
        high = warp_max(high);
        if (lane_id() == 0) shared.ors[warp] = all_or, shared.lows[warp] = low, shared.highs[warp] = high;
        __syncthreads();
#pragma unroll
        for (u32 w = 0; w < kGroups; ++w) {
            all_or |= shared.ors[w];
            low = signed_min(low, shared.lows[w]);
            high = signed_max(high, shared.highs[w]);
        }
    }

    // The middle of samples, to shared memory, by a warp.
    __device__ __forceinline__ void share_middle(W sample) const {
        const W middle = OrderChoice<W>::middle_of(sample);
        if (lane_id() == 0) shared.middle = middle;
    }

    // Chooses map, orders and base; makes the words numbers. Those that are chosen are in `numbers`, the other buffer is
    // `other` then. Barriers.
    __device__ __forceinline__ void choose(W*& numbers, W*& other, W all_or, W low, W high, Mapping<W>& mapping, Orders& orders) const {
        const u32 t = all_or ? trailing_zeros(all_or) : 0;
        if (t > 0) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < shared.box.m; i += kLorenzoThreads) numbers[i] = shifted_signed(numbers[i], t);
            __syncthreads();
        }
        // Read again where it is seldom needed.
        if (threadIdx.x == 0) shared.shift = t;
        mapping.map = kBits, mapping.shift = t;
        Mapping<W> tried = mapping;
        u32 lowest = ~0u;
        // Words between two that have the same sign and exponent have these, too. The highest word of most that FIXED cannot have
        // is that of infinity.
        const bool tries_fixed = element.is_float && (low ^ high) >> Word<W>::kMantissa != 0 && low != kTopBit<W> &&
                                 static_cast<u32>(high >> Word<W>::kMantissa) != Word<W>::kMaxExponent;
#pragma unroll 1
        for (u32 map = kBits;;) {
            Orders own;
            // Shifts keep the order of words.
            const W middle = map == kBits ? shifted_signed(shared.middle, tried.shift) : shared.middle;
            const u32 cost = OrderChoice<W>{shared}.choose_orders(map == kBits ? numbers : other, middle, tried.base, own);
            if (cost < lowest) lowest = cost, mapping = tried, orders = own;
            if (map == kBits && tries_fixed && find_fixed(numbers, other, tried)) {
                map = kFixed;
            } else if (map != kDecimal && unlikely(shared.decimals > 0) && find_decimal(numbers, other, tried)) {
                map = kDecimal;
            } else {
                break;
            }
        }
        if (mapping.map == kBits) return;
        // The numbers of the last map that was tried are there.
        if (mapping.map != tried.map) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < shared.box.m; i += kLorenzoThreads) other[i] = fixed_of_float(numbers[i] << shared.shift, mapping.shift);
            __syncthreads();
        }
        W* const words = numbers;
        numbers = other, other = words;
    }

    // Whether all floats are decimal fractions, with as many digits as their samples or one more, and their numbers, given those
    // of the map BITS. Barriers.
    __device__ __forceinline__ bool find_decimal(const W* numbers, W* decimals, Mapping<W>& decimal) const {
        const u32 first = shared.decimals, t = shared.shift;
        // Even if it fails: the numbers of FIXED are overwritten, and choose has to make them again.
        decimal.map = kDecimal;
#pragma unroll 1
        for (u32 e = first; e <= min(first + 1, kMaxDecimals); ++e) {
            bool is_decimal = true;
#pragma unroll 1
            for (u32 i = threadIdx.x; i < shared.box.m; i += kLorenzoThreads) {
                s64 v;
                is_decimal &= decimal_of_float(static_cast<W>(numbers[i] << t), kPowersOfTen[e], v);
                decimals[i] = static_cast<W>(v);
            }
            if (!__syncthreads_and(is_decimal)) continue;
            if (threadIdx.x < kWarp) share_middle(decimals[lane_id() % OrderChoice<W>::kSamples * shared.box.m / OrderChoice<W>::kSamples]);
            __syncthreads();
            decimal.shift = e;
            return true;
        }
        return false;
    }

    // Whether FIXED can be used, its e, and its numbers, given those of the map BITS. Barriers.
    __device__ __forceinline__ bool find_fixed(const W* numbers, W* fixed_numbers, Mapping<W>& fixed) const {
        const u32 t = shared.shift;
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        constexpr u32 kMantissa = Word<W>::kMantissa, kMaxExponent = Word<W>::kMaxExponent;
        u32 lowest = ~0u, highest = 0;
        bool bad = false;
#pragma unroll 2
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W word = numbers[i] << t;
            const u32 exponent = static_cast<u32>(word >> kMantissa) & kMaxExponent, x = max(exponent, 1u);
            const W f = (word & low_bits(W(), kMantissa)) | static_cast<W>(exponent > 0) << kMantissa;
            bad |= exponent == kMaxExponent;
            if (f == 0) continue;
            lowest = min(lowest, x + trailing_zeros(f));
            highest = max(highest, x + bit_length(f));
        }
        lowest = warp_min_unsigned(lowest);
        highest = warp_max_unsigned(highest);
        bad = __any_sync(kAllLanes, bad);
        if (lane_id() == 0) shared.first_bits[warp] = lowest, shared.last_bits[warp] = highest, shared.bad[warp] = bad;
        __syncthreads();
        for (u32 w = 0; w < kGroups; ++w) {
            lowest = min(lowest, shared.first_bits[w]);
            highest = max(highest, shared.last_bits[w]);
            bad |= shared.bad[w] != 0;
        }
        if (bad || highest - lowest > Word<W>::kBits - 2) return false;
        fixed.map = kFixed, fixed.shift = lowest;
#pragma unroll 2
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) fixed_numbers[i] = fixed_of_float(numbers[i] << t, lowest);
        if (warp == 1) share_middle(fixed_of_float(numbers[lane_id() % OrderChoice<W>::kSamples * m / OrderChoice<W>::kSamples] << t, lowest));
        __syncthreads();
        return true;
    }
};
