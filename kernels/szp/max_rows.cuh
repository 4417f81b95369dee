// The second pass of compression at level max where all elements of a block have codes: all numbers are known, so that none waits for another one, as
// each does in decompression (max_scan.cuh). A warp takes row after row, a lane some elements side by side: first what is left of them, then their
// contexts, from how much is left near them. Rows follow each other in registers: what was a row is then the row before. Those of the plane before
// are loaded again. All loads are of the next row, and nothing is done with them before it comes.
//
// Entries are in the order of decompression, in which a lane has every 32nd row. On their way there they are in shared memory; as soon as a row is
// done, the times are written at which no later row has an element.

#pragma once

#include "max_scratch.cuh"

// Numbers of a row that a lane needs: three before its own, its own, and one behind.
template <typename W, u32 kOwn>
struct MaxNumbers {
    static constexpr u32 kBefore = 3;

    W of[kBefore + kOwn + 1] = {};

    // Of the row behind `last`, from the lane's own ones. What is behind a row's end is like its last number; what is in front of it is like the first
    // number of the row before.
    __device__ __forceinline__ void follow(const MaxNumbers& last, const W (&own)[kOwn]) {
        // Of the first lane, which all that have neighbours in front of the row need.
        const W front = kOwn < kBefore ? __shfl_sync(kAllLanes, last.of[kBefore], 0) : last.of[kBefore];
#pragma unroll
        for (u32 i = 0; i < kOwn; ++i) of[kBefore + i] = own[i];
#pragma unroll
        for (u32 i = 1; i <= kBefore; ++i) {
            const u32 lanes = (i + kOwn - 1) / kOwn;
            const W before = __shfl_up_sync(kAllLanes, own[lanes * kOwn - i], lanes);
            of[kBefore - i] = lane_id() < lanes ? front : before;
        }
        const W behind = __shfl_down_sync(kAllLanes, own[0], 1);
        of[kBefore + kOwn] = lane_id() == kWarp - 1 ? own[kOwn - 1] : behind;
    }
};

// Pairs of half words, at a multiple of their bytes.
__device__ __forceinline__ void load_pairs(const u32* from, u32 (&pairs)[1]) { pairs[0] = *from; }
__device__ __forceinline__ void load_pairs(const u32* from, u32 (&pairs)[2]) {
    const uint2 words = *reinterpret_cast<const uint2*>(from);
    pairs[0] = words.x, pairs[1] = words.y;
}
__device__ __forceinline__ void store_pairs(u32* to, const u32 (&pairs)[1]) { *to = pairs[0]; }
__device__ __forceinline__ void store_pairs(u32* to, const u32 (&pairs)[2]) { *reinterpret_cast<uint2*>(to) = make_uint2(pairs[0], pairs[1]); }

// Sizes of what is left of these, in pairs of half words, so that two are added at a time; and those of two before and behind.
template <u32 kPairs>
struct MaxSizes {
    u32 of[kPairs + 2] = {};

    __device__ __forceinline__ void set(const u32 (&own)[kPairs]) {
        const u32 before = __shfl_up_sync(kAllLanes, own[kPairs - 1], 1), behind = __shfl_down_sync(kAllLanes, own[0], 1);
        of[0] = lane_id() == 0 ? 0 : before;
#pragma unroll
        for (u32 i = 0; i < kPairs; ++i) of[1 + i] = own[i];
        of[kPairs + 1] = lane_id() == kWarp - 1 ? 0 : behind;
    }
    // A pair, and those one or two elements before it and one behind.
    __device__ __forceinline__ u32 at(u32 pair) const { return of[1 + pair]; }
    __device__ __forceinline__ u32 one_before(u32 pair) const { return of[pair] >> 16 | of[1 + pair] << 16; }
    __device__ __forceinline__ u32 two_before(u32 pair) const { return of[pair]; }
    __device__ __forceinline__ u32 one_behind(u32 pair) const { return of[1 + pair] >> 16 | of[2 + pair] << 16; }
};
// A sum has sizes of neighbours, 11 times the largest one at most.
static_assert(11 * kLargestMaxSize < 1 << 16, "half a word has a sum");

// Entries on their way, in shared memory. A ring has those of every 16th row, one row behind the other: the longer rows are, the more of the row before
// is written when one begins. The longest sum that is left of any length is that of 125 elements, of which 64 are written: 186.
struct MaxRings {
    static constexpr u32 kRings = 16, kLength = 188;

    unsigned short of[kRings * kLength];

    // From a place in a ring, no farther than there are entries.
    static __device__ __forceinline__ u32 wrapped(u32 place) { return min(place, place - kLength); }
    __device__ __forceinline__ unsigned short& entry(u32 ring, u32 place) { return of[ring % kRings * kLength + wrapped(place)]; }
};

template <typename W>
struct MaxRowsShared {
    MaxWeights weights;
    alignas(8) MaxRings rings;
    u32 counts[MaxCoding<W>::kSymbols * kMaxSizeContexts];
};

template <typename W>
struct MaxRows {
    using Shared = MaxRowsShared<W>;
    using Entry = ContextEntry<MaxCoding<W>>;

    Shared& shared;
    const MaxView& view;
    const u32 fraction;
    const W* const codes;
    unsigned short* const entries;
    W* const residuals;
    u32* const sizes;  // of the last plane: pairs of lanes, row after row

    __device__ __forceinline__ void run() const {
        if (view.length <= 2 * kWarp) return view.is_deep() ? rows<2, true>() : rows<2, false>();
        view.is_deep() ? rows<4, true>() : rows<4, false>();
    }

    // Whether a lane's own elements are together at a multiple of their bytes.
    template <u32 kOwn>
    __device__ __forceinline__ bool are_together() const { return view.length % kOwn == 0; }
    // Words at a multiple of their bytes.
    template <u32 kOwn>
    static __device__ __forceinline__ void load_words(const W* from, W (&own)[kOwn]) {
        if constexpr (sizeof(own) < kUnitBytes) {
            load_pairs(from, own);
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; i += Word<W>::kPerUnit) split(*reinterpret_cast<const uint4*>(from + i), own + i);
        }
    }
    template <u32 kOwn>
    static __device__ __forceinline__ void store_words(W* to, const W (&own)[kOwn]) {
        if constexpr (sizeof(own) < kUnitBytes) {
            store_pairs(to, own);
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; i += Word<W>::kPerUnit) *reinterpret_cast<uint4*>(to + i) = join(own + i);
        }
    }

    // A lane's own codes of a row, on their way; of lanes behind its end the last one is the row's last.
    template <u32 kOwn>
    __device__ __forceinline__ void load(u32 row, W (&own)[kOwn]) const {
        const W* const from = codes + row * view.length;
        const u32 x = kOwn * lane_id();
        if (are_together<kOwn>()) {
            load_words(from + min(x, view.length - kOwn), own);
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) own[i] = from[min(x + i, view.length - 1)];
        }
    }
    // kOwn: elements of a lane. kDeep: there are planes.
    template <u32 kOwn, bool kDeep>
    __device__ __forceinline__ void rows() const {
        constexpr u32 kPairs = kOwn / 2, kBefore = MaxNumbers<W, kOwn>::kBefore;
        constexpr u32 kAhead = 4;  // rows that are fetched so long before
        const u32 lane = lane_id(), n_rows = view.n_rows, per_plane = view.per_plane, length = view.length, x = kOwn * lane;
        MaxNumbers<W, kOwn> own, north, up, up_north, up_south;
        MaxSizes<kPairs> own_sizes, north_sizes, up_sizes;
        u32 south_sizes[kPairs] = {};
        W weights[kTaps];
        // What is on its way: of the next row, and of that behind it in the plane before.
        W next[kOwn], next_south[kOwn] = {};
        u32 next_sizes[kPairs] = {};
        load(0, next);
        // Of the row: its place in its plane, its kind, when it begins, and where in its ring. And where that row begins whose entries a lane writes.
        u32 y = 0, kind = ~0u, time = 0, begin = 0, begin_of_lane = 0;
#pragma unroll 1
        for (u32 row = 0; row < n_rows; ++row) {
            if (x >= length) next[0] = next[kOwn - 1], next_south[0] = next_south[kOwn - 1];
            north = own, own.follow(north, next);
            if (kDeep) {
                up_north = up, up = up_south, up_south.follow(up, next_south);
                up_sizes.set(south_sizes);
#pragma unroll
                for (u32 i = 0; i < kPairs; ++i) south_sizes[i] = next_sizes[i];
            }
            if (row + 1 < n_rows) load(row + 1, next);
            if (row + kAhead < n_rows && x < length) fetch(codes + (row + kAhead) * length + x);
            if (kDeep && row + 2 >= per_plane) {
                load(row + 2 - per_plane, next_south);
                load_pairs(sizes + ((y + 2 < per_plane ? y + 2 : y + 2 - per_plane) * kWarp + lane) * kPairs, next_sizes);
            }
            const u32 last_kind = kind;
            kind = view.kind(row, y);
            if (kind != last_kind) shared.weights.load(kind, weights);

            // What is left.
            W left[kOwn];
            u32 distances[kOwn], pairs[kPairs] = {};
            bool has_long = false;
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                const u32 at = kBefore + i;
                W sum = static_cast<W>(1u << fraction >> 1);
#pragma unroll
                for (u32 k = 0; k < 3; ++k) {
                    sum += weights[k] * own.of[at - 1 - k];
                    if (kDeep) sum += weights[7 + k] * up.of[at - 1 + k] + weights[10 + k] * up_north.of[at - 1 + k] + weights[13 + k] * up_south.of[at - 1 + k];
                }
#pragma unroll
                for (u32 k = 0; k < 4; ++k) sum += weights[3 + k] * north.of[at - 2 + k];
                const Expected<W> expected(own.of[at - 1], sum, fraction);
                const W above = own.of[at] - expected.number;
                left[i] = zigzag(expected.is_rounded_up ? 0 - above : above), distances[i] = expected.distance;
                has_long |= x + i < length && Entry::is_long(left[i]);
                pairs[i / 2] |= x + i < length ? max_size(left[i]) << 16 * (i % 2) : 0;
            }
            if (unlikely(has_long)) store_residuals(row * length + x, left);
            north_sizes = own_sizes, own_sizes.set(pairs);
            if (kDeep) store_pairs(sizes + (y * kWarp + lane) * kPairs, pairs);

            // In which contexts.
            u32 found[kOwn];
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                const u32 pair = i / 2;
                u32 sums = 2 * (own_sizes.one_before(pair) + north_sizes.at(pair)) + own_sizes.two_before(pair) + north_sizes.one_before(pair) + north_sizes.one_behind(pair);
                if (kDeep) sums += 2 * up_sizes.at(pair) + up_sizes.one_behind(pair) + south_sizes[pair];
                const u32 context = max_size_context(sums >> 16 * (i % 2) & 0xffff, distances[i], fraction), key = context * Entry::kSymbols + kNoNumbers + symbol_of(left[i]);
                if (x + i < length) atomicAdd(&shared.counts[key], 1u);
                found[i] = (static_cast<u32>(left[i]) << Entry::kKeyBits | key) & 0xffff;
            }
            // A ring's place may be one that was written last.
            __syncwarp();
            put(row, begin + x, found);
            __syncwarp();

            const u32 lane_of_row = row % kWarp;
            if (lane == lane_of_row) begin_of_lane = begin;
            const u32 n_done = row + 1 == n_rows ? length : lane_of_row == kWarp - 1 ? view.row_step() - (kWarp - 1) * view.lag : view.lag;
            write(row, time, n_done, begin_of_lane);
            time += n_done;
            if (row % MaxRings::kRings == MaxRings::kRings - 1) begin = MaxRings::wrapped(begin + length);
            if (++y == per_plane) y = 0;
        }
    }

    // All of a lane's numbers, where an entry has not all of one.
    template <u32 kOwn>
    __device__ __forceinline__ void store_residuals(u32 at, const W (&left)[kOwn]) const {
        if (are_together<kOwn>()) {
            store_words(residuals + at, left);
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                if (kOwn * lane_id() + i < view.length) residuals[at + i] = left[i];
            }
        }
    }
    // Puts a lane's entries of a row into its ring.
    template <u32 kOwn>
    __device__ __forceinline__ void put(u32 row, u32 place, const u32 (&found)[kOwn]) const {
        const u32 x = kOwn * lane_id();
        if (are_together<kOwn>()) {
            if (x >= view.length) return;
            u32 pairs[kOwn / 2];
#pragma unroll
            for (u32 i = 0; i < kOwn / 2; ++i) pairs[i] = found[2 * i] | found[2 * i + 1] << 16;
            store_pairs(reinterpret_cast<u32*>(&shared.rings.entry(row, place)), pairs);
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                if (x + i < view.length) shared.rings.entry(row, place + i) = static_cast<unsigned short>(found[i]);
            }
        }
    }
    // Writes so many times, from that on at which a row begins. A lane has its last row up to this one.
    __device__ __forceinline__ void write(u32 row, u32 time, u32 n_times, u32 begin) const {
        const u32 lane = lane_id(), lane_of_row = row % kWarp, age = (lane_of_row - lane) % kWarp;
        const u32 first = age <= row ? age * view.lag + (lane > lane_of_row) : view.length;
        unsigned short* const to = entries + time * kWarp + lane;
#pragma unroll 6
        for (u32 i = 0; i < n_times; ++i) {
            const u32 x = first + i;
            to[i * kWarp] = x < view.length ? shared.rings.entry(lane, begin + x) : static_cast<unsigned short>(Entry::kNothing);
        }
    }
};
