// Chooses the weights of the neighbors that predict a block's numbers: from least squares, or those
// of differences. The counterpart of crates/gridz-codecs/src/codec/quant/max/weights.rs, which
// gives the reasons. Called by all threads of a CTA; some steps run on a single warp.
//
// All sums are of integers, so their order does not matter. Linear systems are solved in single
// operations of binary64, in the order given by docs/writer.md.

#pragma once

#include "../common/warp.cuh"
#include "max_view.cuh"

template <u32 kThreads>
struct WeightsChooser {
    static constexpr u32 kWarps = kThreads / kWarp;
    // Maximum number of sampled elements. Options are tried on every second sample, to decide
    // whether weights are used. Shared memory holds either these samples or the other ones.
    static constexpr u32 kSamples = 1 << 10, kHalf = kSamples / 2;
    static constexpr u32 kStride = kHalf + 1;  // so that taps are in different banks
    static constexpr s32 kLimit = 1 << 19;        // larger differences count as this
    // The distances between samples vary by the golden section, in units of 2^-16.
    static constexpr u32 kGolden = 40503;
    static constexpr u32 kCounts = 1 << 20, kLittleSpread = 1 << 4, kLittleLeft = 1 << 2;
    static constexpr u32 kOptions = 8;            // weights, and seven orders of differences
    static constexpr u32 kLengths = 32, kSpreads = 32;
    // A thread multiplies a tap with four others, over a part of the samples.
    static constexpr u32 kFour = 4, kProducts = 39, kParts = 4;
    static constexpr u32 kFactorStride = kTaps + 1;

    // State in shared memory.
    struct State {
        // Differences from the previous number: of the sampled number itself, then of its
        // neighbors.
        s32 samples[kTaps][kStride];
        u32 counts[kHalf];            // how often a sample counts
        u32 taken[kSamples / 32];     // marks of elements that are samples
        u32 n_samples;                // number of all samples
        // Sums of products. Column 0 has the products with the number itself. The matrix is
        // symmetric, and only the columns up to the diagonal are computed.
        u64 sums[kTaps][kTaps];
        union {
            double factors[kRowKinds][kTaps][kFactorStride];
            u32 tables[kOptions][kSpreads * kLengths / 2];  // how often bit lengths occur, two in a word
        };
        u64 costs[kOptions];
        MaxWeights weights;
        u32 header;                   // header bits that stand for the weights
    };
    State& state;
    const MaxView& view;
    const u32 n_elements;

    // Finds the weights that suit these numbers best, and the header bits for them, and stores both
    // in the state. Called by all threads; has barriers.
    template <typename W>
    __device__ __forceinline__ void run(const W* numbers) const {
        const u32 sampled = view.n_kinds() == 1 ? 0 : view.is_deep() ? 3 : 1, warp = warp_id();
        find_samples(sampled);
        if (state.n_samples == 0) {
            if (warp == 0) state.weights.read(view, 1, nullptr);
            if (threadIdx.x == 0) state.header = 1;
            __syncthreads();
            return;
        }
        for (u32 i = threadIdx.x; i < kRowKinds * kTaps; i += kThreads) state.weights.of[i / kTaps][i % kTaps] = 0;
        const u32 n_tried = (state.n_samples + 1) / 2, n_others = state.n_samples / 2;
        take(numbers, 0);
#pragma unroll 1
        for (u32 round = 0; round < 3; ++round) {
            for (u32 i = threadIdx.x; i < kTaps * kTaps; i += kThreads) state.sums[i / kTaps][i % kTaps] = 0;
            weigh(n_tried, round > 0, sampled);
            __syncthreads();
            multiply(n_tried);
            __syncthreads();
            if (round < 2) {
                if (warp == 0) solve(sampled);
                __syncthreads();
            }
        }
        take(numbers, 1);
        weigh(n_others, true, sampled);
        __syncthreads();
        multiply(n_others);
        __syncthreads();
        take(numbers, 0);
        for (u32 kind = warp; kind < view.n_kinds(); kind += kWarps) solve(kind);
        __syncthreads();
        for (u32 option = warp; option < kOptions; option += kWarps) find_cost(option, n_tried, sampled);
        __syncthreads();
        if (threadIdx.x == 0) choose(n_tried);
        __syncthreads();
        if (warp == 0 && !(state.header & kHasWeights)) state.weights.read(view, state.header, nullptr);
        __syncthreads();
    }

    // A neighbour's distance in planes, rows and elements.
    struct Distance {
        s32 z, y, x;
    };
    static __device__ __forceinline__ constexpr Distance distance(u32 tap) {
        return tap < 3    ? Distance{0, 0, -1 - static_cast<s32>(tap)}
               : tap < 7  ? Distance{0, -1, static_cast<s32>(tap) - 5}
               : tap < 10 ? Distance{-1, 0, static_cast<s32>(tap) - 8}
               : tap < 13 ? Distance{-1, -1, static_cast<s32>(tap) - 11}
                          : Distance{-1, 1, static_cast<s32>(tap) - 14};
    }
    static __device__ __forceinline__ s32 limited(u32 difference) { return min(max(static_cast<s32>(difference), -kLimit), kLimit); }
    static __device__ __forceinline__ s32 limited(u64 difference) {
        return static_cast<s32>(min(max(static_cast<s64>(difference), static_cast<s64>(-kLimit)), static_cast<s64>(kLimit)));
    }

    // Index of the element that may be sample i.
    __device__ __forceinline__ u32 place(u32 i) const {
        const u32 step = (n_elements + kSamples - 1) / kSamples;
        return i * step + (i * kGolden % (1u << 16) * step >> 16);
    }
    // Marks the samples: elements of kind `sampled` that have all neighbors within the block. Has
    // barriers.
    __device__ __forceinline__ void find_samples(u32 sampled) const {
        if (threadIdx.x == 0) state.n_samples = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < kSamples; i += kThreads) {
            const u32 at = place(i), x = at % view.length;
            const bool has_all = view.is_line() ? at >= kTaps : view.kind(at / view.length) == sampled && x >= 3 && x + 1 < view.length;
            const u32 marks = __ballot_sync(kAllLanes, has_all && at < n_elements);
            if (lane_id() == 0) state.taken[i / 32] = marks, atomicAdd(&state.n_samples, static_cast<u32>(__popc(marks)));
        }
        __syncthreads();
    }
    // Loads the differences of every second sample, from sample `first` on. Has a barrier.
    template <typename W>
    __device__ __forceinline__ void take(const W* numbers, u32 first) const {
        const u32 lane = lane_id(), n_taps = view.is_line() || view.is_deep() ? kTaps : kPlaneTaps;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < kSamples; i += kThreads) {
            const u32 marks = state.taken[i / 32];
            u32 to = __popc(marks & ((1u << lane) - 1));
            for (u32 k = 0; k < i / 32; ++k) to += __popc(state.taken[k]);
            if (!(marks >> lane & 1) || to % 2 != first) continue;
            to /= 2;
            const W* const at = numbers + place(i);
            const W before = at[-1];
            state.samples[0][to] = limited(at[0] - before);
#pragma unroll
            for (u32 tap = 1; tap < kTaps; ++tap) {
                const Distance d = distance(tap);
                const s32 rows = d.z * static_cast<s32>(view.per_plane) + d.y;
                const s32 offset = view.is_line() ? -1 - static_cast<s32>(tap) : rows * static_cast<s32>(view.length) + d.x;
                state.samples[tap][to] = tap < n_taps ? limited(at[offset] - before) : 0;
            }
        }
        __syncthreads();
    }

    __device__ __forceinline__ u32 spread(u32 s) const {
        u32 spread = 0;
#pragma unroll
        for (u32 tap = 1; tap < kTaps; ++tap) spread += static_cast<u32>(abs(state.samples[tap][s]));
        return spread;
    }
    // The residual of a sample with these weights.
    __device__ __forceinline__ s64 left(u32 s, const short (&weights)[kTaps], u32 fraction) const {
        s64 sum = (1 << fraction) >> 1;
#pragma unroll
        for (u32 tap = 1; tap < kTaps; ++tap) sum += static_cast<s64>(state.samples[tap][s]) * weights[tap];
        return state.samples[0][s] - (sum >> fraction);
    }

    // Sets how often n samples count. Badly predicted samples count less, and so do samples whose
    // neighbors differ much.
    __device__ __forceinline__ void weigh(u32 n, bool are_known, u32 sampled) const {
#pragma unroll 1
        for (u32 s = threadIdx.x; s < n; s += kThreads) {
            const s64 left = are_known ? this->left(s, state.weights.of[sampled], kWeightBits) : 0;
            const u64 divisor = static_cast<u64>(kLittleSpread + spread(s)) * static_cast<u64>(kLittleLeft + (left < 0 ? -left : left));
            state.counts[s] = divisor < kCounts ? kCounts / static_cast<u32>(divisor) : 1;
        }
    }

    // Adds up products of taps over n samples.
    __device__ __forceinline__ void multiply(u32 n) const {
#pragma unroll 1
        for (u32 job = threadIdx.x; job < kParts * kProducts; job += kThreads) {
            const u32 part = job / kProducts;
            u32 i = 1, four = job % kProducts;
            for (; four > i / kFour; ++i) four -= i / kFour + 1;
            const u32 j = four * kFour, begin = part * n / kParts, end = (part + 1) * n / kParts;
            const s32 *const of_i = state.samples[i], *const of_j = state.samples[j];
            s64 sums[kFour] = {};
#pragma unroll 2
            for (u32 s = begin; s < end; ++s) {
                const s32 weighed = of_i[s] * static_cast<s32>(state.counts[s]);
#pragma unroll
                for (u32 k = 0; k < kFour; ++k) sums[k] += static_cast<s64>(weighed) * of_j[k * kStride + s];
            }
#pragma unroll
            for (u32 k = 0; k < kFour; ++k) atomicAdd(reinterpret_cast<unsigned long long*>(&state.sums[i][j + k]), static_cast<unsigned long long>(sums[k]));
        }
    }

    // Sets the weights of a kind of rows by least squares, if there is a solution. Called by one
    // warp.
    __device__ __forceinline__ void solve(u32 kind) const {
        const u32 lane = lane_id(), present = view.present(kind) & ((view.is_line() || view.is_deep() ? 1u << kTaps : 1u << kPlaneTaps) - 2), n = __popc(present);
        // The lane's neighbour.
        u32 others = present;
        for (u32 k = 0; k < lane && others; ++k) others &= others - 1;
        const u32 tap = others ? __ffs(others) - 1 : 0;
        double(&factor)[kTaps][kFactorStride] = state.factors[kind];
        for (u32 i = 0; i < n; ++i) {
            const u32 tap_i = __shfl_sync(kAllLanes, tap, i);
            if (lane > i) continue;
            double sum = static_cast<double>(static_cast<s64>(state.sums[tap_i][tap]));
            if (lane == i) sum = sum + sum / 65536.0 + 1.0;
            factor[i][lane] = sum;
        }
        double x = lane < n ? static_cast<double>(static_cast<s64>(state.sums[tap][0])) : 0.0;
        // Computes the Cholesky factor column by column; a lane has a row. Includes the forward
        // substitution.
        for (u32 k = 0; k < n; ++k) {
            __syncwarp();
            const double square = factor[k][k];
            if (!(square > 0.0)) return;
            const double root = sqrt(square);
            const bool is_below = lane > k && lane < n;
            if (lane == k) x = x / root;
            const double x_k = __shfl_sync(kAllLanes, x, k), own = is_below ? factor[lane][k] / root : 0.0;
            __syncwarp();
            if (lane == k) factor[k][k] = root;
            if (is_below) factor[lane][k] = own, x -= own * x_k;
            __syncwarp();
            if (!is_below) continue;
            for (u32 j = k + 1; j <= lane; ++j) factor[lane][j] -= own * factor[j][k];
        }
        __syncwarp();
        for (u32 i = n; i-- > 0;) {
            const double product = lane > i && lane < n ? factor[lane][i] * x : 0.0;
            double sum = __shfl_sync(kAllLanes, x, i);
            for (u32 k = i + 1; k < n; ++k) sum -= __shfl_sync(kAllLanes, product, k);
            if (lane == i) x = sum / factor[i][i];
        }
        // Clamps a weight that is out of range; NaN becomes 0.
        const s32 weight = x == x ? __double2int_rn(x * static_cast<double>(1 << kWeightBits)) : 0;
        if (lane < n) state.weights.of[kind][tap] = static_cast<short>(min(max(weight, -32768), 32767));
    }

    // 16 · log2(number), for a number above 0, rounded down. It is linear between powers of two.
    static __device__ __forceinline__ u32 log(u32 number) {
        const u32 whole = bit_length(number) - 1;
        return 16 * whole + ((number << (31 - whole) << 1) >> 28);
    }
    static __device__ __forceinline__ u32 of_count(u32 n) { return n > 0 ? n * log(n) : 0; }
    // Finds the cost of n samples with an option, in 1/16 bits: the entropy of the residuals' bit
    // lengths, in classes by how much neighbors differ, plus the bits below the highest one. Called
    // by one warp.
    __device__ __forceinline__ void find_cost(u32 option, u32 n, u32 sampled) const {
        const u32 lane = lane_id();
        u32* const table = state.tables[option];
        for (u32 i = lane; i < kSpreads * kLengths / 2; i += kWarp) table[i] = 0;
        short weights[kTaps];
#pragma unroll
        for (u32 tap = 0; tap < kTaps; ++tap) weights[tap] = option == 0 ? state.weights.of[sampled][tap] : MaxWeights::of_differences(view, sampled, option, tap);
        __syncwarp();
        u32 below = 0;
#pragma unroll 1
        for (u32 s = lane; s < n; s += kWarp) {
            const s64 left = this->left(s, weights, option == 0 ? kWeightBits : 0);
            const u32 length = bit_length(static_cast<u64>(left << 1 ^ left >> 63)), at = bit_length(spread(s)) * kLengths + length;
            atomicAdd(&table[at / 2], 1u << at % 2 * 16);
            below += max(length, 1u) - 1;
        }
        __syncwarp();
        u32 total = 0, apart = 0;
        for (u32 i = 0; i < kLengths / 2; ++i) {
            // Lanes start at different words, as the same word of all classes is in one bank.
            const u32 two = table[lane * (kLengths / 2) + (i + lane) % (kLengths / 2)];
            total += (two & 0xffff) + (two >> 16), apart += of_count(two & 0xffff) + of_count(two >> 16);
        }
        const u32 together = of_count(total);
        const u32 cost = warp_sum(together > apart ? together - apart : 0) + 16 * warp_sum(below);
        if (lane == 0) state.costs[option] = cost;
    }
    // Chooses the cheapest option. Called by one thread.
    __device__ __forceinline__ void choose(u32 n_tried) const {
        const u64 per_sample = n_elements / n_tried;
        // Weights also cost the bits that store them.
        u64 best = state.costs[0] * per_sample + 8 * 16 * 2 * view.n_weights();
        state.header = kHasWeights;
        for (u32 orders = 1; orders < kOptions; ++orders) {
            const u64 cost = state.costs[orders] * per_sample;
            if (cost < best) best = cost, state.header = orders;
        }
    }
};
