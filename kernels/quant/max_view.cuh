// View of a block of level max as rows, which 32 lanes code in parallel. The counterpart of
// crates/gridz-codecs/src/codec/quant/max/view.rs, and of the weights of
// crates/gridz-codecs/src/codec/quant/max/weights.rs.
//
// A lane has every 32nd row. It begins a row when the previous row is `lag` elements ahead. So two
// rows of a lane are 32 * lag + 1 time steps apart, and two adjacent rows as many cells.

#pragma once

#include "../stage/boxes.cuh"
#include "layout.cuh"

constexpr u32 kMaxContexts = 28, kMaxSizeContexts = 25;  // all contexts, and those of sizes alone
// Symbols of elements without a number, and how many such symbols there are.
constexpr u32 kFillSymbol = 0, kOutlierSymbol = 1, kNoNumbers = 2;
constexpr u32 kLargestMaxSize = (1 << 11) - 1, kFillSize = 1 << 15;
constexpr u32 kTaps = 16, kPlaneTaps = 7, kRowKinds = 5;
constexpr u32 kHasWeights = 1 << 3;  // in a header; the bits below it are orders of differences
constexpr u32 kWeightBits = 12;      // fraction bits of a weight

struct MaxView {
    u32 length, per_plane, n_rows, lag;  // a lag of 0 means a line, of 32 parts

    __device__ __forceinline__ explicit MaxView(const Box& box) {
        constexpr u32 kMinLength = 16, kMinPlane = 3, kMinRows = 8;
        u32 sz = box.sz, sy = box.sy, sx = box.sx;
        if (sx < kMinLength) sx *= sy, sy = sz, sz = 1;
        if (sy < kMinPlane) sy *= sz, sz = 1;
        if (sx < kMinLength || sz * sy < kMinRows) {
            length = (box.m + kWarp - 1) / kWarp, per_plane = n_rows = kWarp, lag = 0;
        } else {
            length = sx, per_plane = sy, n_rows = sz * sy, lag = lag_of(sx);
        }
    }
    // The lag of rows of this length.
    static __host__ __device__ constexpr u32 lag_of(u32 length) {
        constexpr u32 kMinLag = 2, kMargin = 3;
        const u32 lag = (length + kMargin + kWarp - 1) / kWarp;
        return lag < kMinLag ? kMinLag : lag;
    }
    __device__ __forceinline__ bool is_line() const { return lag == 0; }
    __device__ __forceinline__ bool is_deep() const { return n_rows > per_plane; }
    __device__ __forceinline__ u32 row_step() const { return kWarp * lag + 1; }
    __device__ __forceinline__ u32 n_times() const {
        const u32 last = n_rows - 1;
        return length + (is_line() ? 0 : lag * (last % kWarp) + row_step() * (last / kWarp));
    }
    // The kind of a row, which determines the neighbors it has. `row` is its index, `y` that in its
    // plane.
    __device__ __forceinline__ u32 kind(u32 row, u32 y) const {
        if (row < per_plane) return is_line() || row == 0 ? 0 : 1;
        return y == 0 ? 2 : y + 1 == per_plane ? 4 : 3;
    }
    __device__ __forceinline__ u32 kind(u32 row) const { return kind(row, row % per_plane); }
    __device__ __forceinline__ u32 n_kinds() const { return is_line() ? 1 : is_deep() ? kRowKinds : 2; }
    // A bit for each neighbour that rows of a kind have.
    __device__ __forceinline__ u32 present(u32 kind) const {
        return is_line() ? 0xffff : kind == 0 ? 0x0007 : kind == 1 ? 0x007f : kind == 2 ? 0xe387 : kind == 3 ? 0xffff : 0x1fff;
    }
    // Number of weights that are written: for each kind of row, all but that of the first neighbor.
    __device__ __forceinline__ u32 n_weights() const {
        u32 n = 0;
        for (u32 kind = 0; kind < n_kinds(); ++kind) n += __popc(present(kind)) - 1;
        return n;
    }
};

// The weights of all kinds of rows, except those of the first neighbor. load() computes these so
// that the weights of a row add up to 0.
struct MaxWeights {
    short of[kRowKinds][kTaps];

    // The weight of a neighbor in differences of these orders; bits 0 to 2 stand for x, y and z.
    // Axes without a neighbor are ignored.
    static __device__ __forceinline__ short of_differences(const MaxView& view, u32 kind, u32 orders, u32 tap) {
        // Four bits per neighbor: the axes along which the neighbor is one element before, or 0 if
        // it is elsewhere.
        const u32 present = view.present(kind), axes = static_cast<u32>(0x0000670450230000ull >> 4 * tap) & 7;
        const u32 has = 1 | (present >> 5 & 1) << 1 | (present >> 8 & 1) << 2;
        const bool is_one = axes && !(axes & ~(orders & has)) && present >> tap & 1 && !view.is_line();
        return is_one ? (__popc(axes) & 1 ? 1 : -1) : 0;
    }
    // Sets the weights from `written`, if the header has kHasWeights, or from the header's orders
    // of differences. Called by one warp.
    __device__ __forceinline__ void read(const MaxView& view, u32 header, const unsigned char* written) {
        const u32 tap = lane_id();
        u32 before = 0;
#pragma unroll 1
        for (u32 kind = 0; kind < view.n_kinds(); ++kind) {
            const u32 present = view.present(kind), below = (1u << tap) - 2;
            if (tap == 0) of[kind][0] = 0;
            if (tap > 0 && tap < kTaps) {
                // `written` is aligned to two bytes.
                const bool is_written = header & kHasWeights && present >> tap & 1;
                of[kind][tap] = is_written ? reinterpret_cast<const short*>(written)[before + __popc(present & below)]
                                : header & kHasWeights ? static_cast<short>(0) : of_differences(view, kind, header, tap);
            }
            before += __popc(present) - 1;
        }
        __syncwarp();
    }
    // Writes all n_weights() weights in the form that read() expects. Called by one warp.
    __device__ __forceinline__ void write(const MaxView& view, unsigned char* to) const {
        const u32 tap = lane_id();
        u32 before = 0;
#pragma unroll 1
        for (u32 kind = 0; kind < view.n_kinds(); ++kind) {
            const u32 present = view.present(kind), below = (1u << tap) - 2;
            if (tap > 0 && tap < kTaps && present >> tap & 1) reinterpret_cast<short*>(to)[before + __popc(present & below)] = of[kind][tap];
            before += __popc(present) - 1;
        }
    }
    // Loads the weights of a kind of row as words. The first weight is computed: all add up to 0.
    template <typename W>
    __device__ __forceinline__ void load(u32 kind, W (&weights)[kTaps]) const {
        weights[0] = 0;
#pragma unroll
        for (u32 i = 1; i < kTaps; ++i) {
            weights[i] = static_cast<W>(static_cast<s64>(of[kind][i]));
            weights[0] -= weights[i];
        }
    }
};

// The size of a residual, from its coded form.
template <typename W>
__device__ __forceinline__ u32 max_size(W left) { return static_cast<u32>(min(static_cast<W>((left >> 1) + (left & 1)), static_cast<W>(kLargestMaxSize))); }

// The context of a symbol without filled elements nearby. It depends on the sum of the sizes of
// nearby residuals, and on the distance of the prediction from its rounded value, in units of
// 2^-fraction.
__device__ __forceinline__ u32 max_size_context(u32 sizes, u32 distance, u32 fraction) {
    constexpr u32 kRoundedUpTo = 5, kMostLength = 12, kLongerAt = 3 * (kRoundedUpTo + 1);
    static_assert(kMaxSizeContexts == kLongerAt + kMostLength - kRoundedUpTo, "the following ones are of filled elements");
    const u32 length = bit_length(sizes), sixths = min(6 * distance >> fraction, 2u);
    return length > kRoundedUpTo ? min(length, kMostLength) + (kLongerAt - kRoundedUpTo - 1) : 3 * length + sixths;
}
// The context of a symbol, if filled elements may be nearby.
__device__ __forceinline__ u32 max_context(u32 sizes, u32 distance, u32 fraction) {
    const u32 context = max_size_context(sizes, distance, fraction);
    if (likely(sizes < kFillSize)) return context;
    return kMaxSizeContexts + (sizes >= 4 * kFillSize) + (sizes >= 8 * kFillSize);
}

// The expected value of a number.
template <typename W>
struct Expected {
    W number;
    u32 distance;     // from the prediction to `number`
    bool is_rounded_up;

    // Computes it from the previous number, and from `sum`: the weighted sum of the neighbors, plus
    // one half, in units of 2^-fraction.
    __device__ __forceinline__ Expected(W before, W sum, u32 fraction) {
        const s32 above = static_cast<s32>(static_cast<u32>(sum) & ((1u << fraction) - 1)) - (1 << fraction >> 1);
        number = before + shifted_signed(sum, fraction);
        distance = static_cast<u32>(abs(above)), is_rounded_up = above < 0;
    }
    // The residual of a number in zigzag form, and the number that has such a residual.
    __device__ __forceinline__ W left(W of) const { return zigzag(is_rounded_up ? number - of : of - number); }
    __device__ __forceinline__ W with(W left) const { return is_rounded_up ? number - unzigzag(left) : number + unzigzag(left); }
};
