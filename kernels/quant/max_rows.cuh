// Second pass of compression at level max, for blocks of short rows without exceptions. All numbers
// are known in advance, so none waits for another one, as each does in decompression
// (max_scan.cuh).
//
// A warp handles row after row; a lane has two or four adjacent elements. It first finds their
// residuals, then their contexts, from the sizes of nearby residuals. Rows move through registers:
// each row becomes the previous row. Rows of the previous plane are loaded again. All data is
// loaded one row before it is needed, and not used until then.
//
// Entries are written in the order of decompression, in which a lane has every 32nd row. They wait
// in shared memory. After each row, the entries are written for all time steps at which no later
// row has an element.

#pragma once

#include "max_scratch.cuh"

// Numbers of a row that a lane needs: kBefore numbers before its own, its own kOwn numbers, and one
// after them.
template <typename W, u32 kOwn, u32 kBefore>
struct MaxNumbers {
    W of[kBefore + kOwn + 1] = {};

    // Sets the numbers of the row that follows `last`, given the lane's own ones. Numbers past the
    // row's end equal its last number. Numbers before the row's start equal the first number of
    // `last`.
    __device__ __forceinline__ void follow(const MaxNumbers& last, const W (&own)[kOwn]) {
        // The first number of `last`, for lanes with neighbors before the row's start.
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

// Words of a lane, aligned to their total size, but at most to 16 bytes.
template <typename W, u32 n>
struct alignas(n * sizeof(W) < kUnitBytes ? n * sizeof(W) : kUnitBytes) MaxWords {
    W of[n];
};
template <typename W, u32 n>
__device__ __forceinline__ void load_words(const W* from, W (&to)[n]) {
    const MaxWords<W, n> words = *reinterpret_cast<const MaxWords<W, n>*>(from);
#pragma unroll
    for (u32 i = 0; i < n; ++i) to[i] = words.of[i];
}
template <typename W, u32 n>
__device__ __forceinline__ void store_words(W* to, const W (&from)[n]) {
    MaxWords<W, n> words;
#pragma unroll
    for (u32 i = 0; i < n; ++i) words.of[i] = from[i];
    *reinterpret_cast<MaxWords<W, n>*>(to) = words;
}

// Sizes of the residuals of a lane's own numbers, and of the two numbers before and after these.
// They are pairs of half words, so that two are added at a time.
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
    // Sizes of a pair; of the pairs one and two elements before it; and of the pair one element
    // after it.
    __device__ __forceinline__ u32 at(u32 pair) const { return of[1 + pair]; }
    __device__ __forceinline__ u32 one_before(u32 pair) const { return of[pair] >> 16 | of[1 + pair] << 16; }
    __device__ __forceinline__ u32 two_before(u32 pair) const { return of[pair]; }
    __device__ __forceinline__ u32 one_behind(u32 pair) const { return of[1 + pair] >> 16 | of[2 + pair] << 16; }
};
// A sum of neighbors' sizes is at most 11 times the largest size.
static_assert(11 * kLargestMaxSize < 1 << 16, "half a word has a sum");

// Ring buffers in shared memory for entries that are not yet written. A ring has the entries of
// every 16th row, one row after another. When a row begins, most of the previous row in its ring
// has been written. Rows of 125 elements need the most room: 125 entries, and up to 61 of the
// previous row.
struct MaxRings {
    static constexpr u32 kRings = 16, kLength = 192;
    static_assert(kLength % 4 == 0, "entries of a lane are stored together");

    // Whether a ring has room for a row and the unwritten entries of the two rows before it in the
    // ring.
    static constexpr bool has_room(u32 length) {
        const u32 written = kRings * MaxView::lag_of(length);
        return (length <= written || 2 * length - written <= kLength) && (length <= 2 * written || 3 * length - 2 * written <= kLength);
    }
    static constexpr bool has_room_up_to(u32 length) { return length == 0 || (has_room(length) && has_room_up_to(length - 1)); }

    unsigned short of[kRings * kLength];

    // An index in a ring, wrapped around once if it is past the end.
    static __device__ __forceinline__ u32 wrapped(u32 place) { return min(place, place - kLength); }
    __device__ __forceinline__ unsigned short& entry(u32 ring, u32 place) { return of[ring % kRings * kLength + wrapped(place)]; }
};

static_assert(MaxRings::has_room_up_to(1 << kLogMaxRow), "for rows of all lengths");

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
    // Size pairs of all lanes for the most recent rows, indexed by the place of a row in its plane.
    u32* const sizes;

    __device__ __forceinline__ void run() const {
        if (view.length <= 2 * kWarp) return view.is_deep() ? rows<2, true>() : rows<2, false>();
        view.is_deep() ? rows<4, true>() : rows<4, false>();
    }

    // Whether a lane's own elements are aligned to their total size, so that one access loads or
    // stores all.
    template <u32 kOwn>
    __device__ __forceinline__ bool are_aligned() const { return view.length % kOwn == 0; }

    // Loads a lane's own codes of a row. A lane past the row's end gets the row's last code as its
    // last one.
    template <u32 kOwn>
    __device__ __forceinline__ void load(u32 row, W (&own)[kOwn]) const {
        const W* const from = codes + row * view.length;
        const u32 x = kOwn * lane_id();
        if (are_aligned<kOwn>()) {
            load_words(from + min(x, view.length - kOwn), own);
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) own[i] = from[min(x + i, view.length - 1)];
        }
    }
    // kOwn: elements of a lane. kDeep: there are several planes.
    template <u32 kOwn, bool kDeep>
    __device__ __forceinline__ void rows() const {
        constexpr u32 kPairs = kOwn / 2, kBefore = 3, kBeforeAbove = 1;
        constexpr u32 kAhead = 4;  // codes are prefetched this many rows ahead
        const u32 lane = lane_id(), n_rows = view.n_rows, per_plane = view.per_plane, length = view.length, x = kOwn * lane;
        // Masks of pairs: which of the lane's own elements exist.
        u32 inside[kPairs];
#pragma unroll
        for (u32 i = 0; i < kPairs; ++i) inside[i] = (x + 2 * i < length ? 0xffff : 0) | (x + 2 * i + 1 < length ? 0xffff0000 : 0);
        MaxNumbers<W, kOwn, kBefore> own, north;
        MaxNumbers<W, kOwn, kBeforeAbove> up, up_north, up_south;
        MaxSizes<kPairs> own_sizes, north_sizes, up_sizes;
        u32 south_sizes[kPairs] = {};
        W weights[kTaps];
        // Loads in flight: the next row and, in the previous plane, the row after the next one.
        W next[kOwn], next_south[kOwn] = {};
        u32 next_sizes[kPairs] = {};
        load(0, next);
        // The row's index in its plane, its kind, and its start in its ring.
        u32 y = 0, kind = ~0u, begin = 0;
        Writing writing{entries + lane, 0, length};
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
            if (row + kAhead < n_rows && x < length) prefetch_l2(codes + (row + kAhead) * length + x);
            if (kDeep && row + 2 >= per_plane) {
                load(row + 2 - per_plane, next_south);
                load_words(sizes + ((y + 2 < per_plane ? y + 2 : y + 2 - per_plane) * kWarp + lane) * kPairs, next_sizes);
            }
            const u32 last_kind = kind;
            kind = view.kind(row, y);
            if (kind != last_kind) shared.weights.load(kind, weights);

            // Finds the residuals.
            W left[kOwn];
            W all = 0;
            u32 distances[kOwn], of_left[kOwn], pairs[kPairs];
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                const u32 at = kBefore + i;
                W sum = static_cast<W>(1u << fraction >> 1);
#pragma unroll
                for (u32 k = 0; k < 3; ++k) {
                    sum += weights[k] * own.of[at - 1 - k];
                    const u32 above = kBeforeAbove + i - 1 + k;
                    if (kDeep) sum += weights[7 + k] * up.of[above] + weights[10 + k] * up_north.of[above] + weights[13 + k] * up_south.of[above];
                }
#pragma unroll
                for (u32 k = 0; k < 4; ++k) sum += weights[3 + k] * north.of[at - 2 + k];
                const Expected<W> expected(own.of[at - 1], sum, fraction);
                left[i] = expected.left(own.of[at]), distances[i] = expected.distance;
                of_left[i] = max_size(left[i]), all |= left[i];
            }
            if (unlikely(Entry::is_long(all)) && x < length) store_residuals(row * length + x, left);
#pragma unroll
            for (u32 i = 0; i < kPairs; ++i) pairs[i] = (of_left[2 * i] | of_left[2 * i + 1] << 16) & inside[i];
            north_sizes = own_sizes, own_sizes.set(pairs);
            if (kDeep) store_words(sizes + (y * kWarp + lane) * kPairs, pairs);

            // Finds the contexts.
            u32 found[kOwn];
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                const u32 pair = i / 2;
                u32 sums = 2 * (own_sizes.one_before(pair) + north_sizes.at(pair)) + own_sizes.two_before(pair);
                sums += north_sizes.one_before(pair) + north_sizes.one_behind(pair);
                if (kDeep) sums += 2 * up_sizes.at(pair) + up_sizes.one_behind(pair) + south_sizes[pair];
                const u32 context = max_size_context(sums >> 16 * (i % 2) & 0xffff, distances[i], fraction);
                const u32 key = context * Entry::kSymbols + kNoNumbers + symbol_of(left[i]);
                if (x + i < length) atomicAdd(&shared.counts[key], 1u);
                found[i] = Entry::with_key(left[i], key);
            }
            // Other lanes may still read entries that put() overwrites.
            __syncwarp();
            put(row, begin + x, found);
            __syncwarp();
            if (lane == row % kWarp) writing.begin = begin, writing.x = 0;
            // Writes up to the start of the next row or, after the last row, to its end.
            write(writing, row + 1 == n_rows ? length : view.lag + (row % kWarp == kWarp - 1));
            if (row % MaxRings::kRings == MaxRings::kRings - 1) begin = MaxRings::wrapped(begin + length);
            if (++y == per_plane) y = 0;
        }
    }

    // Stores all residuals of a lane, as the entry of at least one lacks some of its bits.
    template <u32 kOwn>
    __device__ __forceinline__ void store_residuals(u32 at, const W (&left)[kOwn]) const {
        if (are_aligned<kOwn>()) {
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
        if (are_aligned<kOwn>()) {
            if (x >= view.length) return;
            u32 pairs[kOwn / 2];
#pragma unroll
            for (u32 i = 0; i < kOwn / 2; ++i) pairs[i] = found[2 * i] | found[2 * i + 1] << 16;
            store_words(reinterpret_cast<u32*>(&shared.rings.entry(row, place)), pairs);
        } else {
#pragma unroll
            for (u32 i = 0; i < kOwn; ++i) {
                if (x + i < view.length) shared.rings.entry(row, place + i) = static_cast<unsigned short>(found[i]);
            }
        }
    }
    // A lane's output: the next destination, and the index `x` in the row being written, which
    // starts at `begin` in its ring.
    struct Writing {
        unsigned short* to;
        u32 begin, x;
    };
    // Writes a lane's entries of `n_times` time steps.
    __device__ __forceinline__ void write(Writing& writing, u32 n_times) const {
        constexpr u32 kTogether = MaxView::lag_of(1 << kLogMaxRow) + 1;
#pragma unroll 1
        for (u32 done = 0; done < n_times; done += kTogether) {
            unsigned short of[kTogether];
#pragma unroll
            for (u32 i = 0; i < kTogether; ++i) {
                const u32 x = writing.x + done + i;
                of[i] = x < view.length ? shared.rings.entry(lane_id(), writing.begin + x) : static_cast<unsigned short>(Entry::kNothing);
            }
#pragma unroll
            for (u32 i = 0; i < kTogether; ++i) {
                if (done + i < n_times) writing.to[(done + i) * kWarp] = of[i];
            }
        }
        writing.to += n_times * kWarp, writing.x += n_times;
    }
};
