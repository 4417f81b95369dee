// Decodes bits to the planes of a block: the counterpart of encode.cuh. After the verbatim bits, a
// table maps nine bits of code to up to eight bits of the plane. The results are truncated where
// the block or its bits end. Blocks of four numbers are read differently (line.cuh).

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "image.cuh"
#include "layout.cuh"
#include "line.cuh"
#include "planes.cuh"
#include "quarters.cuh"

// For every nine bits of code: the bits of the plane that they encode, the number of these bits,
// the number of code bits used, and whether the code of the plane ends.
struct PlaneTable {
    static constexpr u32 kEntries = 512, kPlacesAt = 8, kLengthAt = 16, kEndsAt = 31;
    u32 entries[kEntries];

    constexpr PlaneTable() : entries() {
        for (u32 code = 0; code < kEntries; ++code) {
            u32 plane = 0, places = 0, at = 1, ends = !(code & 1);
            while (at < 9 && !ends) {
                if (!(code >> at & 1)) {
                    ++places, ++at;
                    continue;
                }
                // A 1 is used only together with the bit after it.
                if (at == 8) break;
                plane |= 1u << places++;
                ends = !(code >> (at + 1) & 1);
                at += 2;
            }
            entries[code] = plane | places << kPlacesAt | at << kLengthAt | ends << kEndsAt;
        }
    }
};

__device__ const PlaneTable kPlaneTable;

// The table for blocks of this rank, which is copied to shared memory.
template <u32 kRank>
struct PlanesOf {
    static constexpr u32 kEntries = kRank == 1 ? LinePlanes::kEntries : PlaneTable::kEntries;
    static __device__ __forceinline__ u32 entry(u32 i) { return kRank == 1 ? kLinePlanes.entries[i] : kPlaneTable.entries[i % PlaneTable::kEntries]; }
};

// A stream in shared memory, followed by kZeroWords words of zeros. If blocks have a fixed size and
// padding separates the threads' words, arbitrary words follow it: no bits after those of a block
// affect the result.
constexpr u32 kZeroWords = 4;
struct SharedWords {
    u32 address;
    u32 n_words;

    // Returns four words from word i on.
    __device__ __forceinline__ uint4 load(u32 i) const {
        const u32 at = address + 4 * min(i, n_words);
        return make_uint4(load_shared_4(at), load_shared_4(at + 4), load_shared_4(at + 8), load_shared_4(at + 12));
    }
    __device__ __forceinline__ u32 pair(u32 place) const {
        const u32 at = address + 4 * min(place / 32, n_words);
        return __funnelshift_r(load_shared_4(at), load_shared_4(at + 4), place);
    }
    // Whether the thread has another block.
    __device__ __forceinline__ bool goes_on(bool has_next, u32, u32) const { return has_next; }
};
// A stream in global memory. Zeros follow it.
struct GlobalWords {
    const u32* words;
    u32 n_words;

    __device__ __forceinline__ u32 word(u32 i) const { return i < n_words ? words[i] : 0; }
    __device__ __forceinline__ uint4 load(u32 i) const { return make_uint4(word(i), word(i + 1), word(i + 2), word(i + 3)); }
    __device__ __forceinline__ u32 pair(u32 place) const { return __funnelshift_r(word(place / 32), word(place / 32 + 1), place); }
};
// A stream in global memory. Each thread has its next words in shared memory: its window. Other
// words are read from global memory. A window may contain up to three words of other data after the
// stream's end, which are read only if the stream is damaged.
struct WindowWords {
    static constexpr u32 kUnits = 16, kWords = 4 * kUnits;
    // Distance in words between the windows of adjacent threads. It is odd, so that windows begin
    // in different banks.
    static constexpr u32 kStride = kWords + 1;

    GlobalWords stream;  // begins at a multiple of 16 bytes
    u32 address;         // of the thread's window
    u32 first;           // index in the stream of the window's first word

    __device__ __forceinline__ WindowWords(const GlobalWords& stream, const u32* windows, u32 place)
        : stream(stream), address(shared_address(windows) + 4 * kStride * threadIdx.x), first(place / 32 - kWords) {}

    __device__ __forceinline__ uint4 load(u32 i) const {
        if (unlikely(i - first > kWords - 4)) return stream.load(i);
        const u32 at = address + 4 * (i - first);
        return make_uint4(load_shared_4(at), load_shared_4(at + 4), load_shared_4(at + 8), load_shared_4(at + 12));
    }
    __device__ __forceinline__ u32 pair(u32 place) const {
        const u32 i = place / 32;
        if (unlikely(i - first > kWords - 2)) return stream.pair(place);
        const u32 at = address + 4 * (i - first);
        return __funnelshift_r(load_shared_4(at), load_shared_4(at + 4), place);
    }
    // Whether any thread of the warp has another block. If the window of any such thread contains
    // fewer than `n_wanted` further words, the windows of all threads are moved to their current
    // positions. Called by the whole warp.
    __device__ __forceinline__ bool goes_on(bool has_next, u32 place, u32 n_wanted) {
        const u32 next = place / 32;
        const bool is_short = has_next && static_cast<s32>(min(next + n_wanted, stream.n_words) - first) > static_cast<s32>(kWords);
        if (likely(!__any_sync(kAllLanes, is_short))) return __any_sync(kAllLanes, has_next);
        first = next / 4 * 4;
        __syncwarp();
        // Half a warp fills the window of one thread.
        const u32 own = 4 * (lane_id() % kUnits), windows = address - 4 * kStride * lane_id();
#pragma unroll 4
        for (u32 k = 0; k < kUnits; ++k) {
            const u32 lane = 2 * k + lane_id() / kUnits, i = __shfl_sync(kAllLanes, first, lane) + own;
            const uint4 unit = i < stream.n_words ? *reinterpret_cast<const uint4*>(stream.words + i) : uint4{};
            const u32 to = windows + 4 * (kStride * lane + own);
            store_shared_4(to, unit.x), store_shared_4(to + 4, unit.y), store_shared_4(to + 8, unit.z), store_shared_4(to + 12, unit.w);
        }
        __syncwarp();
        return true;
    }
};

// Reads consecutive bits.
template <typename Words>
struct BitReader {
    Words words;
    u32 place;

    // peek() returns the next 32 bits. get() returns the next n bits and advances past them.
    __device__ __forceinline__ u32 peek() const { return words.pair(place); }
    __device__ __forceinline__ u32 get(u32 n) {
        const u32 bits = peek() & low_bits(0u, n);
        place += n;
        return bits;
    }
};

// The lane's part of the first n bits of a plane of a block of four axes. These bits are verbatim
// in the stream, from bit `start` on.
template <typename Words>
__device__ __forceinline__ u64 plain_quarter(const Words& words, u32 start, u32 n) {
    const u32 first = kQuarterNumbers * quarter();
    if (n <= first) return 0;
    const uint4 four = words.load((start + first) / 32);
    const u64 bits = static_cast<u64>(__funnelshift_r(four.y, four.z, start)) << 32 | __funnelshift_r(four.x, four.y, start);
    return bits & low_bits(u64{0}, min(n - first, kQuarterNumbers));
}
// The lane's part of `bits`, which are bits of the plane from bit `at` on.
__device__ __forceinline__ u64 part_of_quarter(u32 bits, u32 at) {
    const u32 ahead = at - kQuarterNumbers * quarter(), behind = 0 - ahead;
    return ahead < kQuarterNumbers ? static_cast<u64>(bits) << ahead : behind < 32 ? bits >> behind : 0;
}

// Decodes the next plane from bits before position `end`. The first `n_coded` bits of the plane are
// verbatim; updates `n_coded` for the next plane. For a block of four axes, all four lanes read the
// whole code, since it determines the position of the next plane. Each lane returns its own 64 bits
// of the plane.
template <u32 kRank, typename Words>
__device__ __forceinline__ u64 get_plane(BitReader<Words>& reader, u32 table, u32 end, u32& n_coded) {
    constexpr u32 n = kBlock<kRank>;
    const u32 start = reader.place;
    u32 coded = n_coded;
    // With 32 or more verbatim bits, the first 32 are taken at once.
    u32 first = 0, word, rest, before = coded;
    const bool is_high = kRank == 3 && coded >= 32;
    if (kRank == 2) {
        word = reader.peek();
        rest = word >> coded;
    } else if (kRank == 4) {
        word = 0;
        rest = reader.words.pair(start + coded);
    } else {
        const uint4 words = reader.words.load(start / 32);
        first = __funnelshift_r(words.x, words.y, start);
        const u32 second = __funnelshift_r(words.y, words.z, start), third = __funnelshift_r(words.z, words.w, start);
        word = is_high ? second : first;
        before -= is_high ? 32 : 0;
        rest = __funnelshift_r(word, is_high ? third : second, before);
    }
    const u32 plain = word & low_bits(0u, before), left = end - start;
    u64 plane = is_high ? static_cast<u64>(plain) << 32 | first : plain;
    if (kRank == 4) plane = plain_quarter(reader.words, start, min(coded, left));
    if (unlikely(coded >= left)) {
        reader.place = end;
        return kRank == 4 ? plane : plane & low_bits(u64{0}, left);
    }
    u32 place = start + coded;
    if (coded < n) {
        // Number of known bits in `rest`, which begins with the group-test bit.
        u32 n_rest = kRank == 2 ? 32 - coded : 32;
        for (;;) {
            // Bits past the end are zeros, and look like places without a 1. If the code is cut off
            // there, a 1 is assumed at the cut.
            const u32 n_there = min(end - place, 9u), entry = load_shared_4(table + 4 * (rest & low_bits(0u, n_there)));
            u32 found = entry & 0xff, places = entry >> PlaneTable::kPlacesAt & 0xff, length = entry >> PlaneTable::kLengthAt & 0xff;
            bool ends = entry >> PlaneTable::kEndsAt;
            if (n_there < 9 && !ends) {
                places -= 9 - n_there, length = n_there, ends = true;
                found |= 1u << places++;
            }
            if (coded + places + !ends >= n) {
                // The 1 is that of the last number, which is implied: only the numbers before it
                // are coded.
                places = n - 1 - coded;
                found &= low_bits(0u, places);
                length = 1 + places + __popc(found);
                found |= 1u << places++;
            }
            plane |= kRank == 4 ? part_of_quarter(found, coded) : static_cast<u64>(found) << coded;
            coded += places, place += length;
            if (ends || coded == n) break;
            // The table expects a group-test bit of 1, for which the bit before this position is
            // replaced.
            --place;
            n_rest -= length - 1;
            rest = n_rest >= 9 ? rest >> (length - 1) : reader.words.pair(place);
            if (n_rest < 9) n_rest = 32;
            rest |= 1;
        }
    }
    // The 0 after the last 1 may have been cut off.
    reader.place = min(place, end), n_coded = coded;
    return plane;
}

// Like get_planes(), for blocks of 16 or 64 numbers.
template <typename W, u32 kRank, typename Words>
__device__ __forceinline__ void get_slices(BitReader<Words>& reader, u32 table, u32 own, W (&v)[kOwnNumbers<kRank>], u32 precision, u32 end) {
    using S = Slice<W, kRank>;
    constexpr u32 kHalves = sizeof(W) / 4;
    u32 coded = 0, left = precision;
    u32 words[kOwnNumbers<kRank>];
#pragma unroll
    for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) v[i] = 0, words[i] = 0;
#pragma unroll 1
    for (u32 half = 0; half < kHalves && left > 0; ++half) {
#pragma unroll 1
        for (u32 slice = 0; slice < S::kSlices && left > 0; ++slice) {
            S planes;
#pragma unroll
            for (u32 w = 0; w < S::kWords; ++w) {
#pragma unroll
                for (u32 c = 0; c < 8; ++c) planes.rows[w][c] = 0;
            }
            planes.stage(own);
            const u32 n = min(left, S::kPlanes);
#pragma unroll 1
            for (u32 i = 0; i < n && reader.place < end; ++i) {
                const u64 plane = get_plane<kRank>(reader, table, end, coded);
                S::store_plane(own, i, static_cast<u32>(plane), static_cast<u32>(plane >> 32));
            }
            left = reader.place < end ? left - n : 0;
            planes.unstage(own);
            planes.add_to(words, slice);
        }
#pragma unroll
        for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) {
            if constexpr (kHalves == 1) {
                v[i] = words[i];
            } else {
                v[i] |= static_cast<W>(static_cast<u64>(words[i]) << (half ? 0 : 32));
                words[i] = 0;
            }
        }
    }
}

// Reads `precision` planes of a block, the highest first, as far as there are bits before position
// `end`. All other planes are zeros.
template <typename W, u32 kRank, typename Words>
__device__ __forceinline__ void get_planes(BitReader<Words>& reader, u32 table, u32 own, W (&v)[kOwnNumbers<kRank>], u32 precision, u32 end) {
    if constexpr (kRank == 1) {
        get_line_planes(reader, table, own, v, precision, end);
    } else {
        get_slices<W, kRank>(reader, table, own, v, precision, end);
    }
}

// How the integers of a block are converted to elements: they are scaled by 2^e if `is_scaled`.
struct Form {
    s32 e;
    bool is_scaled;
};

// Reads the integers of a block from the stream, or of the thread's part of it.
template <typename W, u32 kRank, typename Lines, typename Words>
__device__ __forceinline__ Form read_block(BitReader<Words>& reader, u32 table, u32 own, const Chunk& chunk, s32 minexp, W (&v)[kOwnNumbers<kRank>]) {
    using F = Floats<W>;
    constexpr u32 kBits = Word<W>::kBits;
    const u32 start = reader.place, end = start + chunk.max_bits();
    bool is_scaled = chunk.is_float(), is_zero = false;
    s32 e = 0;
    u32 precision = min(kBits, chunk.max_precision());
    if (chunk.is_float()) {
        is_zero = !reader.get(1);
        if (Lines::kIsReversible && !is_zero) is_scaled = !reader.get(1);
        if (!is_zero && is_scaled) {
            const u32 stored = reader.get(F::kExponentBits);
            e = static_cast<s32>(stored) - F::kBias;
            if (!Lines::kIsReversible) {
                const s32 wanted = stored ? e - minexp + 2 * static_cast<s32>(kRank) + 2 : 0;
                precision = static_cast<u32>(max(0, min(wanted, static_cast<s32>(precision))));
            }
        }
    }
    if (Lines::kIsReversible && !is_zero) precision = min(precision, reader.get(F::kPlaneCountBits) + 1);
    get_planes<W, kRank>(reader, table, own, v, is_zero ? 0 : precision, end);
    reader.place = max(reader.place, start + chunk.min_bits());
    return Form{e, is_scaled};
}

// Converts the integers of a block to the words of its elements, including padding. Four lanes that
// share a block exchange numbers in `cells`.
template <typename W, u32 kRank, typename Lines>
__device__ __forceinline__ void restore_block(W (&v)[kOwnNumbers<kRank>], const Chunk& chunk, const Form& form, u32 cells) {
#pragma unroll
    for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) v[i] = from_negabinary(v[i]);
    if constexpr (kRank == 4) {
        cubes_of_order<Lines>(cells, v);
    } else {
        transform_back<kRank, Lines>(v);
    }
    if (!chunk.is_float()) return;
    const W scale = power_of_two<W>(form.e - static_cast<s32>(Word<W>::kBits) + 2);
#pragma unroll
    for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) v[i] = !Lines::kIsReversible || form.is_scaled ? scaled_down(v[i], scale) : fold_sign(v[i]);
}
