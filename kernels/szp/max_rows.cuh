// The second pass of compression at level max where all elements of a block have codes: all numbers are known, so that none waits for another one, as
// each does in decompression (max_scan.cuh). A warp takes row after row, a lane four elements side by side: first what is left of them, then their
// contexts, from how much is left near them. Rows follow each other in registers: what was a row is then the row before. Those of the plane before
// are loaded again.
//
// Entries are in the order of decompression, in which a lane has every 32nd row. On their way there they are in a ring of times in shared memory; as
// soon as a row is done, the times are written at which no later row has an element.

#pragma once

#include "max_scratch.cuh"

// Numbers of a row that a lane needs: three before its own, its own, and one behind.
template <typename W>
struct MaxNumbers {
    static constexpr u32 kOwn = 4, kBefore = 3;

    W of[kBefore + kOwn + 1] = {};

    // Of the row behind `last`, from the lane's own ones; what is behind the end of the row is like its last number. What is in front of a row is
    // like the first number of the row before.
    __device__ __forceinline__ void follow(const MaxNumbers& last, const W (&own)[kOwn]) {
        const W front = last.of[kBefore];
#pragma unroll
        for (u32 i = 0; i < kOwn; ++i) of[kBefore + i] = own[i];
#pragma unroll
        for (u32 i = 0; i < kBefore; ++i) {
            const W before = __shfl_up_sync(kAllLanes, own[kOwn - kBefore + i], 1);
            of[i] = lane_id() == 0 ? front : before;
        }
        const W behind = __shfl_down_sync(kAllLanes, own[0], 1);
        of[kBefore + kOwn] = lane_id() == kWarp - 1 ? own[kOwn - 1] : behind;
    }
};

// Sizes of what is left of these, in pairs of half words, so that two are added at a time; and those of two before and behind.
struct MaxSizes {
    static constexpr u32 kPairs = 2;

    u32 of[kPairs + 2] = {};

    __device__ __forceinline__ void set(const u32 (&own)[kPairs]) {
        const u32 before = __shfl_up_sync(kAllLanes, own[kPairs - 1], 1), behind = __shfl_down_sync(kAllLanes, own[0], 1);
        of[0] = lane_id() == 0 ? 0 : before;
#pragma unroll
        for (u32 i = 0; i < kPairs; ++i) of[1 + i] = own[i];
        of[kPairs + 1] = lane_id() == kWarp - 1 ? 0 : behind;
    }
    // A pair, and those of two elements of which one is in it: the second one, or the first one.
    __device__ __forceinline__ u32 at(u32 pair) const { return of[1 + pair]; }
    __device__ __forceinline__ u32 one_before(u32 pair) const { return of[pair] >> 16 | of[1 + pair] << 16; }
    __device__ __forceinline__ u32 two_before(u32 pair) const { return of[pair]; }
    __device__ __forceinline__ u32 one_behind(u32 pair) const { return of[1 + pair] >> 16 | of[2 + pair] << 16; }
};
// A sum has all neighbours' sizes, up to 11 times the largest one.
static_assert(11 * kLargestMaxSize < 1 << 16, "half a word has a sum");

template <typename W>
struct MaxRowsShared {
    // A row has an element at so many times at most, and the next one begins no more than so many times later.
    static constexpr u32 kMostLength = 1 << kLogMaxRow, kMostLag = (kMostLength + 3 + kWarp - 1) / kWarp, kTimes = kMostLength + kMostLag + 1;
    // Of a time; one more than lanes, so that lanes with elements at different times do not meet in a bank.
    static constexpr u32 kStride = kWarp + 1;
    static_assert(kMostLength == MaxNumbers<W>::kOwn * kWarp, "a warp has a row");

    MaxWeights weights;
    unsigned short ring[kTimes * kStride];

    static __device__ __forceinline__ u32 wrapped(u32 time) { return min(time, time - kTimes); }
    // The entry of a lane at a time, which has passed the ring's end once at most.
    __device__ __forceinline__ unsigned short& entry(u32 time, u32 lane) { return ring[wrapped(time) * kStride + lane]; }
};

template <typename W>
struct MaxRows {
    using Shared = MaxRowsShared<W>;
    using Numbers = MaxNumbers<W>;
    using Entry = ContextEntry<MaxCoding<W>>;
    static constexpr u32 kOwn = Numbers::kOwn, kPairs = MaxSizes::kPairs;

    Shared& shared;
    u32* const counts;
    const MaxView& view;
    const u32 fraction;
    const W* const codes;
    unsigned short* const entries;
    W* const residuals;
    uint2* const sizes;  // of the last plane: pairs of lanes, row after row

    // Whether it can be used for these rows.
    static __device__ __forceinline__ bool takes(const MaxView& view) { return !view.is_line() && view.length <= Shared::kMostLength; }

    __device__ __forceinline__ void run() const {
        for (u32 i = lane_id(); i < Shared::kTimes * Shared::kStride; i += kWarp) shared.ring[i] = Entry::kNothing;
        __syncwarp();
        view.is_deep() ? rows<true>() : rows<false>();
    }

    // A lane's own codes of a row; behind its end the last one.
    __device__ __forceinline__ void load(u32 row, W (&own)[kOwn]) const {
        const W* const from = codes + row * view.length;
        const u32 x = kOwn * lane_id(), last = view.length - 1;
        if (view.length % kOwn == 0) {
            const uint4* const units = reinterpret_cast<const uint4*>(from + min(x, last + 1 - kOwn));
#pragma unroll
            for (u32 i = 0; i < kOwn; i += Word<W>::kPerUnit) split(units[i / Word<W>::kPerUnit], own + i);
            if (x > last) own[0] = own[kOwn - 1];
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) own[i] = from[min(x + i, last)];
        }
    }

    // kDeep: there are planes.
    template <bool kDeep>
    __device__ __forceinline__ void rows() const {
        constexpr u32 kAhead = 4;  // rows that are fetched so long before
        const u32 lane = lane_id(), n_rows = view.n_rows, per_plane = view.per_plane;
        Numbers own, north, up, up_north, up_south;
        MaxSizes own_sizes, north_sizes, up_sizes;
        W weights[kTaps];
        u32 south_sizes[kPairs] = {};
        // What is on its way: of the next row, and of that behind it in the plane before.
        W next[kOwn], next_south[kOwn] = {};
        uint2 next_sizes = {};
        load(0, next);
        u32 y = 0, kind = ~0u, time = 0, ring_time = 0;
#pragma unroll 1
        for (u32 row = 0; row < n_rows; ++row) {
            north = own, own.follow(north, next);
            if (kDeep) {
                up_north = up, up = up_south, up_south.follow(up, next_south);
                up_sizes.set(south_sizes);
                south_sizes[0] = next_sizes.x, south_sizes[1] = next_sizes.y;
            }
            if (row + 1 < n_rows) load(row + 1, next);
            if (row + kAhead < n_rows && kOwn * lane < view.length) fetch(codes + (row + kAhead) * view.length + kOwn * lane);
            if (kDeep && row + 2 >= per_plane) {
                load(row + 2 - per_plane, next_south);
                next_sizes = sizes[(y + 2 < per_plane ? y + 2 : y + 2 - per_plane) * kWarp + lane];
            }
            const u32 kind_now = view.kind(row, y);
            if (kind != kind_now) kind = kind_now, shared.weights.load(kind, weights);

            // What is left.
            W left[kOwn];
            u32 distances[kOwn], pairs[kPairs] = {};
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                W sum = static_cast<W>(1u << fraction >> 1);
#pragma unroll
                for (u32 k = 0; k < 3; ++k) {
                    sum += weights[k] * own.of[Numbers::kBefore + i - 1 - k];
                    if (kDeep) {
                        const u32 at = Numbers::kBefore + i - 1 + k;
                        sum += weights[7 + k] * up.of[at] + weights[10 + k] * up_north.of[at] + weights[13 + k] * up_south.of[at];
                    }
                }
#pragma unroll
                for (u32 k = 0; k < 4; ++k) sum += weights[3 + k] * north.of[Numbers::kBefore + i - 2 + k];
                const Expected<W> expected(own.of[Numbers::kBefore + i - 1], sum, fraction);
                const W above = own.of[Numbers::kBefore + i] - expected.number;
                left[i] = zigzag(expected.is_rounded_up ? 0 - above : above), distances[i] = expected.distance;
                const u32 size = static_cast<u32>(min(static_cast<W>((left[i] >> 1) + (left[i] & 1)), static_cast<W>(kLargestMaxSize)));
                pairs[i / 2] |= kOwn * lane + i < view.length ? size << 16 * (i % 2) : 0;
            }
            north_sizes = own_sizes, own_sizes.set(pairs);
            if (kDeep) sizes[y * kWarp + lane] = make_uint2(pairs[0], pairs[1]);

            // In which contexts.
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                const u32 pair = i / 2;
                u32 sum = 2 * own_sizes.one_before(pair) + own_sizes.two_before(pair) + 2 * north_sizes.at(pair) + north_sizes.one_before(pair) + north_sizes.one_behind(pair);
                if (kDeep) sum += 2 * up_sizes.at(pair) + up_sizes.one_behind(pair) + south_sizes[pair];
                const u32 context = max_context(sum >> 16 * (i % 2) & 0xffff, distances[i], fraction);
                const u32 x = kOwn * lane + i, key = context * Entry::kSymbols + kNoNumbers + symbol_of(left[i]);
                if (x < view.length) {
                    atomicAdd(&counts[key], 1u);
                    shared.entry(ring_time + x, row % kWarp) = static_cast<unsigned short>(static_cast<u32>(left[i]) << Entry::kKeyBits | key);
                    if (unlikely(Entry::is_long(left[i]))) residuals[(time + x) * kWarp + row % kWarp] = left[i];
                }
            }
            __syncwarp();
            const u32 n_done = row + 1 == n_rows ? view.length : row % kWarp == kWarp - 1 ? view.row_step() - (kWarp - 1) * view.lag : view.lag;
            write(time, ring_time, n_done);
            time += n_done, ring_time = Shared::wrapped(ring_time + n_done);
            if (++y == per_plane) y = 0;
        }
    }

    // Writes so many times, and clears them.
    __device__ __forceinline__ void write(u32 time, u32 ring_time, u32 n_times) const {
#pragma unroll 4
        for (u32 i = 0; i < n_times; ++i) {
            unsigned short& entry = shared.entry(ring_time + i, lane_id());
            entries[(time + i) * kWarp + lane_id()] = entry;
            entry = Entry::kNothing;
        }
    }
};
