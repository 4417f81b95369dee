// Estimates the costs of predictions from samples of the finest levels. They determine the order of
// axes and how steps predict. The counterpart of choose.rs.

#pragma once

#include "compress.cuh"

// Number of sampled levels, from the finest on. Coarser levels are treated like the last of these.
constexpr u32 kSampledLevels = 3;
// The finest level has one sample per kSampleEvery elements, within these limits. Each coarser
// level has half as many.
constexpr u32 kSampleEvery = 1 << 10, kLeastSamples = 1 << 6, kMostSamples = 1 << 10;

// A pseudorandom position in [0, 1), in units of 2^-64. Digits to any bases can be extracted from
// it.
struct Place {
    u64 rest;

    __device__ __forceinline__ explicit Place(u32 i) : rest((static_cast<u64>(i) + 1) * 0x9e3779b97f4a7c15ull) {}
    __device__ __forceinline__ u32 digit(u32 base) {
        const u64 digit = __umul64hi(rest, base);
        rest *= base;
        return static_cast<u32>(digit);
    }
};

// Total costs of the residuals of samples along an axis at a level: without prediction (only in
// layers after the first), with linear, and with cubic predictions; and the number of samples.
struct Costs {
    u64 nothing, linear, cubic;
    u32 n, reserved;
};

// Evaluates samples. Called by all kThreads threads. kFurther: for a layer after the first;
// `values` is then the array as decoded from the layers before, and `reach` is the maximum distance
// of predictions from it.
template <typename W, u32 kThreads, bool kFurther>
struct Sampler {
    using F = Float<W>;
    static constexpr u32 kCosts = 2 + kFurther;

    const Chunk& own;
    const Array<W>& array;
    Costs (&costs)[kAxes * kSampledLevels];
    const W* const values;
    const F reach;

    __device__ __forceinline__ u32 n_samples(u32 level) const { return min(max(own.elements() / kSampleEvery, kLeastSamples), kMostSamples) >> level; }
    // Adds up the costs of all samples for bins of length `bin`. Each warp takes 32 samples of an
    // axis and level at a time.
    __device__ __forceinline__ void run(F bin) const {
        const F inverse = inverse_of(bin);
        u32 strides[kAxes], n_units = 0;
        own.find_strides(strides);
        for (u32 level = 0; level < kSampledLevels; ++level) n_units += units_of(level);
#pragma unroll 1
        for (u32 i = threadIdx.x / kWarp; i < kAxes * n_units; i += kThreads / kWarp) {
            const u32 axis = i / n_units;
            u32 level = 0, unit = i - axis * n_units;
            while (unit >= units_of(level)) unit -= units_of(level++);
            u32 extent = 0, stride = 0;
#pragma unroll
            for (u32 k = 0; k < kAxes; ++k) {
                if (k == axis) extent = own.extents[k], stride = strides[k] << level;
            }
            const u32 last = (extent - 1) >> level, n_new = (last + 1) / 2, number = unit * kWarp + lane_id();
            if (n_new == 0) continue;
            Place digits(number);
            const u32 along = 2 * digits.digit(n_new) + 1;
            u32 place = along * stride;
#pragma unroll
            for (u32 other = 0; other < kAxes; ++other) {
                if (other != axis) place += digits.digit(own.extents[other]) * strides[other];
            }
            u32 own_costs[kCosts], sums[kCosts];
            const bool counts = cost(place, stride, along, last, bin, inverse, own_costs) && number < n_samples(level);
#pragma unroll
            for (u32 k = 0; k < kCosts; ++k) sums[k] = warp_sum(counts ? own_costs[k] : 0);
            const u32 n = warp_sum(static_cast<u32>(counts));
            if (lane_id() > 0) continue;
            Costs& to = costs[axis * kSampledLevels + level];
            atomicAdd(reinterpret_cast<unsigned long long*>(&to.linear), static_cast<unsigned long long>(sums[0]));
            atomicAdd(reinterpret_cast<unsigned long long*>(&to.cubic), static_cast<unsigned long long>(sums[1]));
            if (kFurther) atomicAdd(reinterpret_cast<unsigned long long*>(&to.nothing), static_cast<unsigned long long>(sums[kCosts - 1]));
            atomicAdd(&to.n, n);
        }
    }
    __device__ __forceinline__ u32 units_of(u32 level) const { return (n_samples(level) + kWarp - 1) / kWarp; }
    // Computes the costs of a node with linear and with cubic predictions, and without prediction.
    // Returns false if the node or one of its neighbors is not an ordinary number.
    __device__ __forceinline__ bool cost(u32 place, u32 step, u32 along, u32 last, F bin, F inverse, u32 (&costs)[kCosts]) const {
        bool are_ordinary = true;
        const auto element = [&](u32 place) {
            const W word = array[place];
            are_ordinary &= is_ordinary(own, word);
            return float_of(word);
        };
        const auto rounded = [&](u32 place) {
            const F x = element(place), n_bins = x * inverse;
            W code;
            return size_of(n_bins) < Real<W>::kCodes ? nearest<W>(n_bins, code) * bin : x;
        };
        const F of = element(place), before = rounded(place - step);
        const F value = kFurther ? float_of(values[place]) : F(0);
        const auto cost_of = [&](F predicted) {
            if (kFurther) predicted = near(predicted, value, reach);
            const F n_bins = fmin(size_of((of - predicted) * inverse), F(Real<W>::kCodes));
            W code;
            nearest<W>(n_bins, code);
            return log_of(1 + static_cast<u64>(code));
        };
        if (kFurther) costs[kCosts - 1] = cost_of(value);
        if (along == last) {
            costs[0] = costs[1] = cost_of(before);
            return are_ordinary;
        }
        const F after = rounded(place + step);
        costs[0] = costs[1] = cost_of(linear(before, after));
        if (along < 3 || along + 3 > last) return are_ordinary;
        const F far_before = rounded(place - 3 * step), far_after = rounded(place + 3 * step);
        costs[1] = cost_of(cubic(far_before, before, after, far_after));
        return are_ordinary;
    }
    // Approximate log2 in sixteenths of a bit (crates/gridz-codecs/src/stage/entropy/log.rs).
    static __device__ __forceinline__ u32 log_of(u64 number) {
        const u32 whole = bit_length(number) - 1;
        return 16 * whole + static_cast<u32>(number << (63 - whole) << 1 >> 60);
    }
};

// Bit mask of the steps whose costs satisfy `are`. Called by one warp.
template <typename F>
__device__ __forceinline__ u64 steps_that(const Plan& plan, const Costs (&costs)[kAxes * kSampledLevels], F are) {
    u64 steps = 0;
    for (u32 i = lane_id(); i < plan.n_steps; i += kWarp) {
        const Step& step = plan.steps[i];
        steps |= static_cast<u64>(are(costs[step.axis * kSampledLevels + min(step.level, kSampledLevels - 1)])) << i;
    }
    return warp_or(steps);
}
__device__ __forceinline__ bool is_cubic(const Costs& of) { return of.cubic < of.linear; }
