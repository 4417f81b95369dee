// Quantization bins, and the search for them in mode rms. The counterpart of `Coder::widen` and
// `Plan::set_bins` in encode.rs.

#pragma once

#include "compress.cuh"

// In mode rms with several axes, each level has bins shorter by kFiner than the next finer level,
// in total by at most kFinest.
constexpr double kFiner = 1.5, kFinest = 4.0;
constexpr u32 kTries = 4;              // maximum number of sweeps that measure errors
constexpr double kLargestError = 8.0;  // maximum half-width of a bin, in requested errors
constexpr double kUnits = 32768.0;     // units per bin; errors are measured in units
// The true root mean square error exceeds that of errors rounded to units by at most this many
// units.
constexpr double kRounded = 0.511;

// Chooses the bins of a layer. Used by one thread.
template <typename W, bool kLayered>
struct Bins {
    const Chunk& own;
    Plan& plan;
    Tries& tries;
    const u32 layer;

    // The requested value of this layer, given that of the last layer.
    __device__ __forceinline__ double of_layer(double value) const {
        if (!kLayered) return value;
        return fmin(value * static_cast<double>(u64{1} << kLayerBits * (own.n_layers - 1 - layer)), Real<u64>::kMax);
    }
    __device__ __forceinline__ double asked_of_all() const { return __longlong_as_double(static_cast<s64>(own.value)); }
    __device__ __forceinline__ double asked() const { return of_layer(asked_of_all()); }
    // The error bound of the layer; in mode rms, its requested root mean square error.
    __device__ __forceinline__ double bound(const RangeScratch& range) const {
        return own.mode == kRel ? of_layer(bound_of_range<W>(range, kFloatType<W>, asked_of_all())) : asked();
    }
    // The half-width of a bin that keeps errors within a bound if rounding adds up to `unit`; at
    // least half of the bound.
    static __device__ __forceinline__ double within(double bound, double unit) { return fmax(bound - unit, bound / 2); }
    // Sets the bins and the bound. `half` is the half-width of the finest level's bins; each
    // coarser level has bins shorter by `finer`, in total by at most kFinest.
    __device__ __forceinline__ void set(double half, double bound, double finer) const {
        Layer& to = plan.layers[layer];
        double factor = 1;
#pragma unroll 1
        for (u32 i = 0; i < own.n_levels; ++i) {
            to.bins[i] = rounded_down(fmin(2 * half, static_cast<double>(Real<W>::kMax) / 16) / factor, W());
            factor = fmin(kFinest, factor * finer);
        }
        if (own.n_levels == 0) to.bins[0] = 0;
        to.bound = bound;
    }
    // Errors must be smaller than this limit. If the bound is 0, the limit is the smallest positive
    // number, so that only error 0 is allowed.
    static __device__ __forceinline__ Float<W> limit(const Layer& of) { return fmax(rounded_down(of.bound, W()), float_of(W(1))); }

    // Sets the bins for a bound. `unit`: amount that rounding may add to an error.
    __device__ __forceinline__ void begin(double bound, double unit) const {
        tries.unit = unit, tries.n_ways = own.mode == kRms ? 0 : 1;
        set(within(bound, unit), bound, 1.0);
    }
    // In mode rms, starts the search with wider bins. Called after begin().
    __device__ __forceinline__ void widen() const {
        // Uniformly distributed errors in bins with this half-width have the requested RMS.
        if (own.mode == kRms) attempt(asked() * 1.7320508075688772);
    }
    // Prepares a sweep that measures the errors of bins with this half-width.
    __device__ __forceinline__ void attempt(double half) const {
        u32 n_axes = 0;
        for (u32 k = 0; k < kAxes; ++k) n_axes += own.extents[k] > 1;
        tries.half = half, tries.squares = tries.n_measured = 0;
        set(half, fmin(half + fmin(tries.unit, half), Real<u64>::kMax), n_axes > 1 ? kFiner : 1.0);
        tries.units = rounded_down(kUnits / static_cast<double>(rounded_down(plan.layers[layer].bins[0], W())), W());
    }
    // Decides how to continue after a sweep: with other bins, or not at all. `n_before`: number of
    // sweeps before it.
    __device__ __forceinline__ void decide(u32 n_before) const {
        const double value = asked(), half = tries.half;
        // Volatile, because other CTAs have added to these fields.
        const volatile Tries& found = tries;
        const double mean = __ull2double_rn(found.squares) / __ull2double_rn(max(static_cast<u64>(found.n_measured), u64{1}));
        const double root = (sqrt(mean) + kRounded) / tries.units;
        double next = half * fmin(fmax(value / root * (root <= value ? 0.9995 : 0.998), 0.125), 8.0);
        bool ends = n_before + 1 == kTries;
        if (root <= value && (!tries.has_best || half > tries.best_half)) {
            tries.has_best = 1, tries.best_half = half;
            ends |= !(next <= Real<u64>::kMax) || next < half * 1.005;
        }
        next = fmin(next, kLargestError * value);
        if (!ends && next != half) return attempt(next);
        if (tries.has_best && tries.best_half == half) {
            // The current bins are the best ones.
            tries.n_ways = n_before + 1;
            return;
        }
        tries.n_ways = n_before + 2;
        if (tries.has_best) return attempt(tries.best_half);
        // No sweep had a small enough RMS. If each error is below the value, so is the RMS.
        set(within(value, tries.unit), value, 1.0);
        tries.units = 0, tries.squares = tries.n_measured = 0;
    }
};
