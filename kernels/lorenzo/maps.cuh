// Chooses the map from a block's words to numbers. Called by all threads of a CTA.

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

template <typename B>
struct MapChoice {
    using W = typename B::W;
    static constexpr u32 kPerUnit = Word<W>::kPerUnit;

    LorenzoShared<B>& shared;
    const Element& element;

    // Computes the OR (`any`) and the AND (`all`) of the words, in all threads, and examines
    // samples. Contains a barrier.
    __device__ __forceinline__ void look_at_words(const W* words, W& any, W& all) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        any = all = words[0];
#pragma unroll 4
        for (u32 u = threadIdx.x; u < m / kPerUnit; u += B::kThreads) {
            W own[kPerUnit];
            split(reinterpret_cast<const uint4*>(words)[u], own);
#pragma unroll
            for (u32 i = 0; i < kPerUnit; ++i) any |= own[i], all &= own[i];
        }
        if (m / kPerUnit * kPerUnit + threadIdx.x < m) {
            const W last = words[m / kPerUnit * kPerUnit + threadIdx.x];
            any |= last, all &= last;
        }
        // Three warps examine samples: for the mask, for the median, and for DECIMAL.
        if (warp == 0) {
            u32 n;
            const W word = MaskChoice<B>::most_frequent(words[lane_id() * m / kWarp], n);
            if (lane_id() == 0) shared.frequent = word, shared.n_frequent = n;
        }
        if (warp == 1) share_middle(words[lane_id() % OrderChoice<B>::kSamples * m / OrderChoice<B>::kSamples]);
        if (warp == B::kGroups - 1) {
            u32 most = 0;
            const u32 decimals = element.is_float ? least_decimals(words[lane_id() * m / kWarp], most) : 0;
            if (lane_id() == 0) shared.decimals = decimals, shared.most_decimals = most;
        }
        any = warp_or(any);
        all = ~warp_or(~all);
        if (lane_id() == 0) shared.any[warp] = any, shared.all[warp] = all;
        __syncthreads();
#pragma unroll
        for (u32 w = 0; w < B::kGroups; ++w) any |= shared.any[w], all &= shared.all[w];
    }

    // Writes the median of the lanes' samples to shared memory. Called by a warp.
    __device__ __forceinline__ void share_middle(W sample) const {
        const W middle = OrderChoice<B>::middle_of(sample);
        if (lane_id() == 0) shared.middle = middle;
    }

    // Chooses map, orders and base, and converts the words to numbers. On return, `numbers` is the
    // buffer with the numbers of the chosen map, and `other` is the other buffer. Contains
    // barriers.
    __device__ __forceinline__ void choose(W*& numbers, W*& other, W any, W all, Mapping<W>& mapping, Orders& orders) const {
        const u32 t = any ? trailing_zeros(any) : 0;
        if (t > 0) {
            convert(numbers, numbers, 0, [=](W word) { return shifted_signed(word, t); });
            __syncthreads();
        }
        // t is kept in shared memory because it is rarely needed.
        if (threadIdx.x == 0) shared.shift = t;
        mapping.map = kBits, mapping.shift = t;
        Mapping<W> tried = mapping;
        u32 lowest = ~0u;
        PackedOrders best = orders;
        const bool has_exponents = element.is_float && (any & ~all) >> Word<W>::kMantissa != 0;
        const bool has_signs = (any & ~all) >> (Word<W>::kBits - 1) != 0;
        if (has_exponents) look_at_exponents(numbers, t);
#pragma unroll 1
        for (u32 map = kBits;;) {
            Orders own;
            // Shifts preserve the order of words, so the shifted median is the median of the
            // numbers.
            const W middle = map == kBits ? shifted_signed(shared.middle, tried.shift) : shared.middle;
            u32 cost = OrderChoice<B>{shared}.choose_orders(map == kBits ? numbers : other, middle, tried.base, own);
            if (map == kCut) {
                cost += Tails<B>{shared}.sampled_bits(other, tried.shift);
                if (!B::kIsDense) cost += cost / kCutSaving;
            }
            // On equal costs, the map with the lowest value wins. CUT has the highest value, but is
            // tried before FIXED: if FIXED can be used, too, CUT is hardly ever better, and then
            // the buffer still holds the numbers of FIXED.
            if (cost < lowest || (cost == lowest && map < mapping.map)) lowest = cost, mapping = tried, best = own;
            if (map == kBits && has_exponents && find_cut(numbers, other, has_signs, tried)) {
                map = kCut;
            } else if ((map == kBits || map == kCut) && has_exponents && find_fixed(numbers, other, tried)) {
                map = kFixed;
            } else if (map != kDecimal && unlikely(shared.decimals > 0) && find_decimal(numbers, other, tried)) {
                map = kDecimal;
            } else {
                break;
            }
        }
        orders = best;
        if (mapping.map != kBits) {
            // `other` holds the numbers of the last map tried. If another map is chosen, compute
            // its numbers again.
            if (mapping.map != tried.map) {
                convert(numbers, other, shared.shift, [=](W word) { return number_of(word, mapping); });
                __syncthreads();
            }
            W* const words = numbers;
            numbers = other, other = words;
        }
        if (!B::kIsDense || likely(lowest >= shared.box.m / kFewBits || shared.mask.is_used)) return;
        // The samples cost few bits, but rows that were not sampled may cost many. Choose the
        // orders with all rows.
        if (threadIdx.x < kWarp) share_middle(numbers[lane_id() % OrderChoice<B>::kSamples * shared.box.m / OrderChoice<B>::kSamples]);
        __syncthreads();
        OrderChoice<B>{shared}.choose_orders(numbers, shared.middle, mapping.base, orders, true);
    }
    // At level dense, orders are chosen once more, with all rows, if the sampled residuals have
    // less than one bit per kFewBits elements of the block.
    static constexpr u32 kFewBits = 256;

    // Writes f(word) to `numbers` for all words of a block. `words` contains numbers of the map
    // BITS with shift t, or words if t = 0. May also convert values past the end.
    template <typename F>
    __device__ __forceinline__ void convert(const W* words, W* numbers, u32 t, F f) const {
        const u32 n_units = (shared.box.m + kPerUnit - 1) / kPerUnit;
#pragma unroll 1
        for (u32 u = threadIdx.x; u < n_units; u += B::kThreads) {
            W own[kPerUnit];
            split(reinterpret_cast<const uint4*>(words)[u], own);
#pragma unroll
            for (u32 i = 0; i < kPerUnit; ++i) own[i] = f(static_cast<W>(own[i] << t));
            reinterpret_cast<uint4*>(numbers)[u] = join(own);
        }
    }

    // The number of a float in the map; the float must be representable.
    static __device__ __forceinline__ W number_of(W word, const Mapping<W>& mapping) {
        if (mapping.map == kFixed) return fixed_of_float(word, mapping.shift);
        if (mapping.map == kCut) return cut_of_float(word, mapping.shift);
        s64 v;
        decimal_of_float(word, kPowersOfTen[mapping.shift], v);
        return static_cast<W>(v);
    }

    // Writes the least and the greatest exponent of the warp's share of the floats to shared
    // memory. `numbers` are those of the map BITS with shift t. May stop early at an infinity or
    // NaN.
    __device__ __forceinline__ void look_at_exponents(const W* numbers, u32 t) const {
        // The upper 32 bits of a float without its sign are ordered like its exponent, so exponents
        // are extracted only at the end.
        constexpr u32 kMantissa = Word<W>::kMantissa % 32, kInfinity = Word<W>::kMaxExponent << kMantissa;
        const u32 n_units = shared.box.m / kPerUnit, n_rest = shared.box.m % kPerUnit;
        u32 lowest = ~0u, highest = 0;
        const auto look = [&](W number) {
            const u32 size = static_cast<u32>((number << t) >> (Word<W>::kBits - 32)) & ~kTopBit<u32>;
            lowest = min(lowest, size), highest = max(highest, size);
        };
#pragma unroll 1
        for (u32 first = threadIdx.x / kWarp * kWarp; first < n_units; first += B::kThreads) {
            // Lanes past the end repeat the last unit.
            W own[kPerUnit];
            split(reinterpret_cast<const uint4*>(numbers)[min(first + lane_id(), n_units - 1)], own);
#pragma unroll
            for (u32 i = 0; i < kPerUnit; ++i) look(own[i]);
            if (__any_sync(kAllLanes, highest >= kInfinity)) break;
        }
        if (threadIdx.x < n_rest) look(numbers[n_units * kPerUnit + threadIdx.x]);
        lowest = warp_min_unsigned(lowest) >> kMantissa;
        highest = warp_max_unsigned(highest) >> kMantissa;
        if (lane_id() == 0) shared.lowest[threadIdx.x / kWarp] = max(lowest, 1u), shared.highest[threadIdx.x / kWarp] = max(highest, 1u);
    }
    // Combines the exponents of all warps to those of the block. Call after a barrier.
    __device__ __forceinline__ void find_exponents(u32& lowest, u32& highest) const {
        lowest = shared.lowest[0], highest = shared.highest[0];
#pragma unroll
        for (u32 w = 1; w < B::kGroups; ++w) lowest = min(lowest, shared.lowest[w]), highest = max(highest, shared.highest[w]);
    }

    // Returns true if CUT may make the block shorter: all floats are finite, and they have both
    // signs or exponents that differ by at least two. Then computes the numbers of CUT from those
    // of the map BITS. Contains barriers.
    __device__ __forceinline__ bool find_cut(const W* numbers, W* cut_numbers, bool has_signs, Mapping<W>& cut) const {
        constexpr u32 kMinSpan = 2;
        u32 lowest, e;
        find_exponents(lowest, e);
        if (e == Word<W>::kMaxExponent || (!has_signs && e - lowest < kMinSpan)) return false;
        cut.map = kCut, cut.shift = e;
        const u32 t = shared.shift, m = shared.box.m, first = threadIdx.x / kWarp * kGroup + lane_id();
        const bool is_masked = shared.mask.is_used;
        u32 bits = 0;
#pragma unroll 4
        for (u32 i = first; i < min(first + kGroup, m); i += kRow) {
            const W word = numbers[i] << t;
            cut_numbers[i] = cut_of_float(word, e);
            u32 n;
            tail_of_float(word, e, n);
            bits += is_masked && shared.mask.has(i) ? 0 : n;
        }
        Tails<B>{shared}.share_counts(bits);
        if (threadIdx.x / kWarp == 1) share_middle(cut_of_float(static_cast<W>(numbers[lane_id() % OrderChoice<B>::kSamples * m / OrderChoice<B>::kSamples] << t), e));
        __syncthreads();
        return true;
    }

    // Returns true if all floats are decimal fractions. Then computes the least number of digits
    // that suits all of them, and the numbers of DECIMAL from those of the map BITS. Contains
    // barriers.
    __device__ __forceinline__ bool find_decimal(const W* numbers, W* decimals, Mapping<W>& decimal) const {
        const u32 t = shared.shift;
        // Set even on failure: the numbers of the previous map are overwritten, and choose() must
        // recompute them if that map is chosen.
        decimal.map = kDecimal;
        // Small floats can have more digits than the samples, which are often larger. All e from
        // that of the samples on are tried up to the largest one, but only the first two if the
        // largest one does not suit. `kSuits` is added to e once it does.
        constexpr u32 kSuits = 32;
#pragma unroll 1
        for (u32 e = shared.decimals; e % kSuits <= kMaxDecimals;) {
            bool is_decimal = true;
#pragma unroll 1
            for (u32 i = threadIdx.x; i < shared.box.m; i += B::kThreads) {
                s64 v;
                is_decimal &= decimal_of_float(static_cast<W>(numbers[i] << t), kPowersOfTen[e % kSuits], v);
                decimals[i] = static_cast<W>(v);
            }
            // The number of digits of the samples is reread, to save registers.
            if (__syncthreads_and(is_decimal)) {
                if (e > shared.decimals + 2 && e < kSuits) {
                    e = shared.decimals + 2 + kSuits;
                    continue;
                }
                if (threadIdx.x < kWarp) share_middle(decimals[lane_id() % OrderChoice<B>::kSamples * shared.box.m / OrderChoice<B>::kSamples]);
                __syncthreads();
                decimal.shift = e % kSuits;
                return true;
            }
            if (e == shared.decimals || e >= kSuits) {
                ++e;
            } else if (e == shared.decimals + 1 && shared.most_decimals > e) {
                e = shared.most_decimals;
            } else {
                return false;
            }
        }
        return false;
    }

    // Returns true if FIXED can be used. Then computes its e, and its numbers from those of the map
    // BITS. Contains barriers.
    __device__ __forceinline__ bool find_fixed(const W* numbers, W* fixed_numbers, Mapping<W>& fixed) const {
        constexpr u32 kMostBits = Word<W>::kBits - 2;
        u32 lowest, highest;
        find_exponents(lowest, highest);
        if (highest == Word<W>::kMaxExponent) return false;
        const u32 t = shared.shift, m = shared.box.m, warp = threadIdx.x / kWarp, end = highest + Word<W>::kMantissa + 1;
        // Exponent of the lowest set bit of any float; 0 if FIXED cannot be used.
        u32 lowest_bit = end;
#pragma unroll 1
        for (u32 first = warp * kWarp; first < m; first += B::kThreads) {
            // Lanes past the end repeat the last number.
            const W word = numbers[min(first + lane_id(), m - 1)] << t, f = fraction_of(word);
            if (f != 0) lowest_bit = min(lowest_bit, exponent_of(word) + trailing_zeros(f));
            if (__any_sync(kAllLanes, end - lowest_bit > kMostBits || word == kTopBit<W>)) {
                lowest_bit = 0;
                break;
            }
        }
        lowest_bit = warp_min_unsigned(lowest_bit);
        // Other warps may still be in choose_orders(), and read data that is overwritten below.
        __syncthreads();
        if (lane_id() == 0) shared.first_bits[warp] = lowest_bit;
        __syncthreads();
        for (u32 w = 0; w < B::kGroups; ++w) lowest_bit = min(lowest_bit, shared.first_bits[w]);
        if (lowest_bit == 0) return false;
        fixed.map = kFixed, fixed.shift = lowest_bit;
        convert(numbers, fixed_numbers, t, [=](W word) { return fixed_of_float(word, lowest_bit); });
        if (warp == 1) share_middle(fixed_of_float(numbers[lane_id() % OrderChoice<B>::kSamples * m / OrderChoice<B>::kSamples] << t, lowest_bit));
        __syncthreads();
        return true;
    }
};
