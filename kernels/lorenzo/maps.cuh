// The map from a block's words to numbers that suits it, and the range of these, by all threads of a CTA.

#pragma once

#include "../common/elements.cuh"
#include "../stage/fixed.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"
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

    // Chooses map, orders and base; makes the words numbers. Those that are chosen are in `numbers`, the other buffer is
    // `other` then. Barriers.
    __device__ __forceinline__ void choose(W*& numbers, W*& other, W all_or, W low, W high, Mapping<W>& mapping, Orders& orders) const {
        const u32 t = trailing_zeros(all_or);
        if (t > 0) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < shared.box.m; i += kLorenzoThreads) numbers[i] = shifted_signed(numbers[i], t);
            __syncthreads();
        }
        mapping.shift = t;
        Mapping<W> tried = mapping;
        const W* candidate = numbers;
        W first = shifted_signed(low, t), last = shifted_signed(high, t);
        u32 lowest = ~0u;
#pragma unroll 1
        for (u32 map = kBits; map <= kFixed; ++map) {
            if (map == kFixed) {
                // Words between two that have the same sign and exponent have these, too.
                if (likely(!element.is_float || (low ^ high) >> Word<W>::kMantissa == 0)) return;
                first = low, last = high;
                if (!find_fixed(numbers, other, tried, first, last)) return;
                candidate = other;
            }
            Orders own;
            const u32 cost = OrderChoice<W>{shared}.choose_orders(candidate, first, last, tried.base, own);
            if (cost >= lowest) return;
            lowest = cost, mapping = tried, orders = own;
        }
        W* const words = numbers;
        numbers = other, other = words;
    }

    // Whether FIXED can be used, its e, and its numbers and their range, given those of the words. Barriers.
    __device__ __forceinline__ bool find_fixed(const W* numbers, W* fixed_numbers, Mapping<W>& fixed, W& low, W& high) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        constexpr u32 kMantissa = Word<W>::kMantissa, kMaxExponent = Word<W>::kMaxExponent;
        // The highest word of most that cannot be used.
        if (low == kTopBit<W> || static_cast<u32>(high >> kMantissa) == kMaxExponent) return false;
        const u32 t = fixed.shift;
        fixed.map = kFixed;
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
        fixed.shift = lowest;
        low = high = fixed_of_float(numbers[0] << t, lowest);
#pragma unroll 2
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W v = fixed_of_float(numbers[i] << t, lowest);
            fixed_numbers[i] = v;
            low = signed_min(low, v);
            high = signed_max(high, v);
        }
        low = warp_min(low);
        high = warp_max(high);
        if (lane_id() == 0) shared.lows[warp] = low, shared.highs[warp] = high;
        __syncthreads();
        for (u32 w = 0; w < kGroups; ++w) low = signed_min(low, shared.lows[w]), high = signed_max(high, shared.highs[w]);
        return true;
    }
};
