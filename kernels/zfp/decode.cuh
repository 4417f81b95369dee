// Bits, which become planes of a block again: the twin of encode.cuh. From behind the bits that come as they are, nine bits of code become up to
// eight bits of the plane by a table. Near the end of the block, or of its bits, a step is one 1 of the plane. Of a block of four numbers a
// whole plane is looked up.

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "image.cuh"
#include "layout.cuh"
#include "planes.cuh"

// Of every nine bits: those of the plane, how many these are, how many bits of code they took, and whether nothing is behind them.
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
                // What is behind the 1 belongs to it.
                if (at == 8) break;
                plane |= 1u << places++;
                ends = !(code >> (at + 1) & 1);
                at += 2;
            }
            entries[code] = plane | places << kPlacesAt | at << kLengthAt | ends << kEndsAt;
        }
    }
};

// Of every eight bits, and every count of those that come as they are in a plane of four numbers: the plane, how many bits it took, and
// the next count.
struct LinePlaneTable {
    static constexpr u32 kEntries = 5 * 256, kLengthAt = 8, kCountAt = 16;
    u32 entries[kEntries];

    constexpr LinePlaneTable() : entries() {
        for (u32 coded = 0; coded <= 4; ++coded) {
            for (u32 code = 0; code < 256; ++code) {
                u32 plane = code & ((1u << coded) - 1), at = coded, next = coded;
                while (next < 4) {
                    if (!(code >> at++ & 1)) break;
                    while (next < 3) {
                        if (code >> at++ & 1) break;
                        ++next;
                    }
                    plane |= 1u << next++;
                }
                entries[coded * 256 + code] = plane | at << kLengthAt | next << kCountAt;
            }
        }
    }
};
__device__ const PlaneTable kPlaneTable;
__device__ const LinePlaneTable kLinePlaneTable;

// The table for a rank, which goes to shared memory.
template <u32 kRank>
struct PlanesOf {
    static constexpr u32 kEntries = kRank == 1 ? LinePlaneTable::kEntries : PlaneTable::kEntries;
    static __device__ __forceinline__ u32 entry(u32 i) { return kRank == 1 ? kLinePlaneTable.entries[i] : kPlaneTable.entries[i % PlaneTable::kEntries]; }
};

// A stream in shared memory, which goes on with so many words of zeros.
constexpr u32 kZeroWords = 4;
struct SharedWords {
    u32 address;
    u32 n_words;

    // Four words from word i on.
    __device__ __forceinline__ uint4 load(u32 i) const {
        const u32 at = address + 4 * min(i, n_words);
        return make_uint4(load_shared_4(at), load_shared_4(at + 4), load_shared_4(at + 8), load_shared_4(at + 12));
    }
    __device__ __forceinline__ u32 pair(u32 place) const {
        const u32 at = address + 4 * min(place / 32, n_words);
        return __funnelshift_r(load_shared_4(at), load_shared_4(at + 4), place);
    }
};
// One that is not. Behind it are zeros.
struct GlobalWords {
    const u32* words;
    u32 n_words;

    __device__ __forceinline__ u32 word(u32 i) const { return i < n_words ? words[i] : 0; }
    __device__ __forceinline__ uint4 load(u32 i) const { return make_uint4(word(i), word(i + 1), word(i + 2), word(i + 3)); }
    __device__ __forceinline__ u32 pair(u32 place) const { return __funnelshift_r(word(place / 32), word(place / 32 + 1), place); }
};

// Reads bits one behind the other.
template <typename Words>
struct BitReader {
    const Words words;
    u32 place;

    // The next 32 bits, and so many of them.
    __device__ __forceinline__ u32 peek() const { return words.pair(place); }
    __device__ __forceinline__ u32 get(u32 n) {
        const u32 bits = peek() & low_bits(0u, n);
        place += n;
        return bits;
    }
};

// Reads what is left of a plane, from where it tells whether there is a 1 from `coded` on, or behind that where there is one.
template <u32 n, typename Words>
__device__ __forceinline__ u64 get_rest(BitReader<Words>& reader, u32 table, u32 end, u32& coded, bool has_one) {
    u64 plane = 0;
    for (;;) {
        if (!has_one) {
            if (coded == n || reader.place >= end || !reader.get(1)) return plane;
        }
        if (n > 4 && reader.place > 0) {
            // As if the 1 was in front.
            --reader.place;
            const u32 entry = load_shared_4(table + 4 * ((reader.peek() | 1) & 0x1ff));
            const u32 places = entry >> PlaneTable::kPlacesAt & 0xff, length = entry >> PlaneTable::kLengthAt & 0xff;
            if (coded + places < n && reader.place + length <= end) {
                plane |= static_cast<u64>(entry & 0xff) << coded;
                coded += places, reader.place += length;
                if (entry >> PlaneTable::kEndsAt) return plane;
                has_one = true;
                continue;
            }
            ++reader.place;
        }
        // Zeros as far as there are bits; but that the last number has the 1 need not be told.
        const u32 most = min(end - min(end, reader.place), n - 1 - coded);
        u32 zeros = 0, few;
        do {
            const u32 bits = reader.peek();
            few = min(bits ? trailing_zeros(bits) : 32, most - zeros);
            reader.place += few, zeros += few;
        } while (few == 32);
        if (zeros < most) ++reader.place;
        plane |= u64{1} << (coded + zeros);
        coded += zeros + 1;
        has_one = false;
    }
}

// The next plane, where bits end before place `end`.
template <u32 kRank, typename Words>
__device__ __forceinline__ u64 get_plane(BitReader<Words>& reader, u32 table, u32 end, u32& coded) {
    constexpr u32 n = kBlock<kRank>;
    const u32 start = reader.place;
    if (kRank == 1) {
        const u32 bits = reader.peek(), entry = load_shared_4(table + 1024 * coded + 4 * (bits & 0xff));
        const u32 length = entry >> LinePlaneTable::kLengthAt & 0xff;
        if (likely(start + length <= end)) {
            reader.place += length;
            coded = entry >> LinePlaneTable::kCountAt;
            return entry & 0xff;
        }
        const u32 plain = min(coded, end - start);
        reader.place += plain;
        return (bits & low_bits(0u, plain)) | get_rest<n>(reader, table, end, coded, false);
    }
    // From 32 bits that come as they are on, the first 32 are taken at once.
    u32 first = 0, word, rest, before = coded;
    const bool is_high = kRank == 3 && coded >= 32;
    if (kRank == 2) {
        word = reader.peek();
        rest = word >> coded;
    } else {
        const uint4 words = reader.words.load(start / 32);
        first = __funnelshift_r(words.x, words.y, start);
        const u32 second = __funnelshift_r(words.y, words.z, start), third = __funnelshift_r(words.z, words.w, start);
        word = is_high ? second : first;
        before -= is_high ? 32 : 0;
        rest = __funnelshift_r(word, is_high ? third : second, before);
    }
    u32 entry = load_shared_4(table + 4 * (rest & 0x1ff));
    if (coded == n) entry = 1u << PlaneTable::kEndsAt;
    const u32 found = entry & 0xff, places = entry >> PlaneTable::kPlacesAt & 0xff, length = entry >> PlaneTable::kLengthAt & 0xff;
    const u32 plain = word & low_bits(0u, before);
    if (likely(entry >> PlaneTable::kEndsAt && (coded + places < n || places == 0) && start + coded + length <= end)) {
        const u32 low = plain | __funnelshift_l(0, found, before), high = __funnelshift_l(found, 0, before);
        reader.place = start + coded + length;
        coded += places;
        return is_high ? static_cast<u64>(low) << 32 | first : static_cast<u64>(high) << 32 | low;
    }
    const u32 n_plain = min(coded, end - start);
    u64 plane = is_high ? static_cast<u64>(plain) << 32 | first : plain;
    if (n_plain < coded) plane &= (u64{1} << n_plain) - 1;
    reader.place = start + n_plain;
    return plane | get_rest<n>(reader, table, end, coded, false);
}

// Reads `precision` planes of a block from the highest on, as far as there are bits before place `end`; the others are zeros.
template <typename W, u32 kRank, typename Words>
__device__ __forceinline__ void get_planes(BitReader<Words>& reader, u32 table, u32 own, W (&v)[kBlock<kRank>], u32 precision, u32 end) {
    using S = Slice<W, kRank>;
    constexpr u32 kHalves = sizeof(W) / 4;
    u32 coded = 0, left = reader.place < end ? precision : 0;
    u32 words[kBlock<kRank>];
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = 0, words[i] = 0;
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
#pragma unroll 1
            for (u32 i = 0; i < S::kPlanes && left > 0; ++i) {
                const u64 plane = get_plane<kRank>(reader, table, end, coded);
                S::store_plane(own, i, static_cast<u32>(plane), static_cast<u32>(plane >> 32));
                left = reader.place < end ? left - 1 : 0;
            }
            planes.unstage(own);
            planes.add_to(words, slice);
        }
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; ++i) {
            if constexpr (kHalves == 1) {
                v[i] = words[i];
            } else {
                v[i] |= static_cast<W>(static_cast<u64>(words[i]) << (half ? 0 : 32));
                words[i] = 0;
            }
        }
    }
}

// A block, as the words of its elements; those of padding, too.
template <typename W, u32 kRank, typename Lines, typename Words>
__device__ __forceinline__ void decode_block(BitReader<Words>& reader, u32 table, u32 own, const Chunk& chunk, W (&v)[kBlock<kRank>]) {
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
                const s32 wanted = stored ? e - chunk.minexp + 2 * static_cast<s32>(kRank) + 2 : 0;
                precision = static_cast<u32>(max(0, min(wanted, static_cast<s32>(precision))));
            }
        }
    }
    if (Lines::kIsReversible && !is_zero) precision = min(precision, reader.get(F::kPlaneCountBits) + 1);
    get_planes<W, kRank>(reader, table, own, v, is_zero ? 0 : precision, end);
    reader.place = max(reader.place, start + chunk.min_bits());
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = from_negabinary(v[i]);
    transform_back<kRank, Lines>(v);
    if (!chunk.is_float()) return;
    const W scale = power_of_two<W>(e - static_cast<s32>(kBits) + 2);
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = !Lines::kIsReversible || is_scaled ? scaled_down(v[i], scale) : fold_sign(v[i]);
}
