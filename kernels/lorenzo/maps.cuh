// The map from a block's words to numbers that suits it, by all threads of a CTA.

#pragma once

#include "../common/elements.cuh"
#include "../stage/cut.cuh"
#include "../stage/decimal.cuh"
#include "../stage/fixed.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"
#include "mask_choice.cuh"
#include "orders.cuh"
#include "tails.cuh"

template <typename W>
struct MapChoice {
    static constexpr u32 kPerUnit = Word<W>::kPerUnit;

    LorenzoShared<W>& shared;
    const Element& element;

    // The bits that any word has, and those that all have, of all threads. Barriers.
    __device__ __forceinline__ void look_at_words(const W* words, W& any, W& all) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        any = all = words[0];
#pragma unroll 4
        for (u32 u = threadIdx.x; u < m / kPerUnit; u += kLorenzoThreads) {
            W own[kPerUnit];
            split(reinterpret_cast<const uint4*>(words)[u], own);
#pragma unroll
            for (u32 i = 0; i < kPerUnit; ++i) any |= own[i], all &= own[i];
        }
        if (m / kPerUnit * kPerUnit + threadIdx.x < m) {
            const W last = words[m / kPerUnit * kPerUnit + threadIdx.x];
            any |= last, all &= last;
        }
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
        any = warp_or(any);
        all = ~warp_or(~all);
        if (lane_id() == 0) shared.any[warp] = any, shared.all[warp] = all;
        __syncthreads();
#pragma unroll
        for (u32 w = 0; w < kGroups; ++w) any |= shared.any[w], all &= shared.all[w];
    }

    // The middle of samples, to shared memory, by a warp.
    __device__ __forceinline__ void share_middle(W sample) const {
        const W middle = OrderChoice<W>::middle_of(sample);
        if (lane_id() == 0) shared.middle = middle;
    }

    // Chooses map, orders and base; makes the words numbers. Those that are chosen are in `numbers`, the other buffer is
    // `other` then. Barriers.
    __device__ __forceinline__ void choose(W*& numbers, W*& other, W any, W all, Mapping<W>& mapping, Orders& orders) const {
        const u32 t = any ? trailing_zeros(any) : 0;
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
        const bool has_exponents = element.is_float && (any & ~all) >> Word<W>::kMantissa != 0;
#pragma unroll 1
        for (u32 map = kBits;;) {
            Orders own;
            // Shifts keep the order of words.
            const W middle = map == kBits ? shifted_signed(shared.middle, tried.shift) : shared.middle;
            u32 cost = OrderChoice<W>{shared}.choose_orders(map == kBits ? numbers : other, middle, tried.base, own);
            if (map == kCut) {
                cost += Tails<W>{shared}.sampled_bits(other, tried.shift);
                cost += cost / kCutSaving;
            }
            if (cost < lowest) lowest = cost, mapping = tried, orders = own;
            if (map == kBits && has_exponents && find_fixed(numbers, other, tried)) {
                map = kFixed;
            } else if (map < kDecimal && unlikely(shared.decimals > 0) && find_decimal(numbers, other, tried)) {
                map = kDecimal;
            } else if (map < kCut && has_exponents && find_cut(numbers, other, tried)) {
                map = kCut;
            } else {
                break;
            }
        }
        if (mapping.map == kBits) return;
        // The numbers of the last map that was tried are there.
        if (mapping.map != tried.map) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < shared.box.m; i += kLorenzoThreads) other[i] = number_of(static_cast<W>(numbers[i] << shared.shift), mapping);
            __syncthreads();
        }
        W* const words = numbers;
        numbers = other, other = words;
    }

    // The number of a float that the mapping suits.
    static __device__ __forceinline__ W number_of(W word, const Mapping<W>& mapping) {
        if (mapping.map == kFixed) return fixed_of_float(word, mapping.shift);
        s64 v;
        decimal_of_float(word, kPowersOfTen[mapping.shift], v);
        return static_cast<W>(v);
    }

    // Whether floats are worth cutting: they are finite and have two signs, or exponents that differ by two; their numbers, given
    // those of the map BITS. Barriers.
    __device__ __forceinline__ bool find_cut(const W* numbers, W* cut_numbers, Mapping<W>& cut) const {
        constexpr u32 kMinSpan = 2;
        const u32 t = shared.shift, m = shared.box.m, warp = threadIdx.x / kWarp;
        u32 lowest = ~0u, highest = 0, signs = 0;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W word = numbers[i] << t;
            lowest = min(lowest, exponent_of(word));
            highest = max(highest, exponent_of(word));
            signs |= 1u << (word >> (Word<W>::kBits - 1));
        }
        lowest = warp_min_unsigned(lowest);
        highest = warp_max_unsigned(highest);
        signs = warp_or(signs);
        // Who has come this far may be ahead of others in choose_orders.
        __syncthreads();
        if (lane_id() == 0) shared.first_bits[warp] = lowest, shared.last_bits[warp] = highest, shared.bad[warp] = signs;
        __syncthreads();
        for (u32 w = 0; w < kGroups; ++w) {
            lowest = min(lowest, shared.first_bits[w]);
            highest = max(highest, shared.last_bits[w]);
            signs |= shared.bad[w];
        }
        if (highest == Word<W>::kMaxExponent || (signs != 3 && highest - lowest < kMinSpan)) return false;
        cut.map = kCut, cut.shift = highest;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) cut_numbers[i] = cut_of_float(static_cast<W>(numbers[i] << t), highest);
        if (warp == 1) share_middle(cut_of_float(static_cast<W>(numbers[lane_id() % OrderChoice<W>::kSamples * m / OrderChoice<W>::kSamples] << t), highest));
        __syncthreads();
        return true;
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
#pragma unroll 1
        for (u32 first = warp * kWarp; first < m; first += kLorenzoThreads) {
            // The last one may be seen more than once.
            const W word = numbers[min(first + lane_id(), m - 1)] << t;
            const u32 exponent = static_cast<u32>(word >> kMantissa) & kMaxExponent, x = max(exponent, 1u);
            const W f = (word & low_bits(W(), kMantissa)) | static_cast<W>(exponent > 0) << kMantissa;
            bad = __any_sync(kAllLanes, exponent == kMaxExponent || word == kTopBit<W>);
            if (bad) break;
            if (f == 0) continue;
            lowest = min(lowest, x + trailing_zeros(f));
            highest = max(highest, x + bit_length(f));
        }
        lowest = warp_min_unsigned(lowest);
        highest = warp_max_unsigned(highest);
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
