// Bits, which become planes of a block again: the twin of encode.cuh. Eight bits of code, from a place where a 1 was in front, become up to
// eight bits of the plane by a table. Near the end of the block, or of its bits, they are looked at one by one.

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "image.cuh"
#include "layout.cuh"
#include "planes.cuh"

// Of every eight bits: those of the plane, how many these are, how many bits of code they took, and whether nothing is behind them.
struct PlaneTable {
    static constexpr u32 kPlacesAt = 8, kLengthAt = 16, kEndsAt = 31;
    u32 entries[256];

    constexpr PlaneTable() : entries() {
        for (u32 code = 0; code < 256; ++code) {
            u32 plane = 0, places = 0, at = 0, ends = 0;
            while (at < 8 && !ends) {
                if (!(code >> at & 1)) {
                    ++places, ++at;
                    continue;
                }
                // What is behind the 1 belongs to it.
                if (at == 7) break;
                plane |= 1u << places++;
                ends = !(code >> (at + 1) & 1);
                at += 2;
            }
            entries[code] = plane | places << kPlacesAt | at << kLengthAt | ends << kEndsAt;
        }
    }
};
__device__ const PlaneTable kPlaneTable;

// Words of a stream: an image in shared memory, or as they are.
struct StreamWords {
    const u32* words;
    u32 n_words;  // behind them are zeros
    u32 mask;     // 31 of an image, or 0

    __device__ __forceinline__ u32 operator[](u32 i) const { return i < n_words ? words[image_place(i, mask)] : 0; }
};

// Reads bits one behind the other. Behind the last word there are zeros.
struct BitReader {
    const StreamWords& stream;
    u32 word, next;  // what is looked at, and the next one
    u32 at;          // word that is loaded next
    u32 offset;      // in `word`, below 32

    __device__ __forceinline__ BitReader(const StreamWords& stream, u32 place)
        : stream(stream), word(stream[place / 32]), next(stream[place / 32 + 1]), at(place / 32 + 2), offset(place % 32) {}

    __device__ __forceinline__ u32 place() const { return (at - 2) * 32 + offset; }
    // The next 32 bits.
    __device__ __forceinline__ u32 peek() const { return __funnelshift_r(word, next, offset); }
    // Goes on by up to 32.
    __device__ __forceinline__ void skip(u32 n) {
        offset += n;
        if (offset >= 32) {
            word = next, offset -= 32;
            next = stream[at++];
        }
    }
    __device__ __forceinline__ u32 get(u32 n) {
        const u32 bits = peek() & low_bits(0u, n);
        skip(n);
        return bits;
    }
    __device__ __forceinline__ void move_to(u32 place) {
        word = stream[place / 32], next = stream[place / 32 + 1], at = place / 32 + 2, offset = place % 32;
    }
};

// The next plane, of which `left` bits are there at most: they become fewer.
template <u32 kRank>
__device__ __forceinline__ Plane<kRank> get_plane(BitReader& reader, u32 table, u32& left, u32& coded) {
    constexpr u32 n = kBlock<kRank>;
    const u32 n_plain = min(coded, left);
    left -= n_plain;
    Plane<kRank> plane;
    if (kRank < 3 || n_plain <= 32) {
        plane = reader.get(n_plain);
    } else {
        plane = reader.get(32);
        plane |= static_cast<Plane<kRank>>(static_cast<u64>(reader.get(n_plain - 32)) << (kRank < 3 ? 0 : 32));
    }
    if (left == 0 || coded == n) return plane;
    --left;
    if (!reader.get(1)) return plane;
    for (;;) {
        const u32 entry = load_shared_4(table + 4 * (reader.peek() & 0xff));
        const u32 places = entry >> PlaneTable::kPlacesAt & 0xff, length = entry >> PlaneTable::kLengthAt & 0xff;
        if (coded + places >= n || length > left) break;
        plane |= static_cast<Plane<kRank>>(entry & 0xff) << coded;
        coded += places, left -= length;
        reader.skip(length);
        if (entry >> PlaneTable::kEndsAt) return plane;
    }
    // Here a 1 is ahead, as far as there are bits.
    for (;;) {
        while (left > 0 && coded < n - 1) {
            --left;
            if (reader.get(1)) break;
            ++coded;
        }
        plane |= static_cast<Plane<kRank>>(1) << coded++;
        if (left == 0 || coded == n) return plane;
        --left;
        if (!reader.get(1)) return plane;
    }
}

// Reads `precision` planes of a block from the highest on, as far as there are bits; the others are zeros.
template <typename W, u32 kRank>
__device__ __forceinline__ void get_planes(BitReader& reader, u32 table, W (&v)[kBlock<kRank>], u32 precision, u32& left) {
    using S = Slice<W, kRank>;
    constexpr u32 kHalves = sizeof(W) / 4;
    u32 coded = 0, n_planes = left > 0 ? precision : 0;
    u32 words[kBlock<kRank>];
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = 0, words[i] = 0;
#pragma unroll 1
    for (u32 half = 0; half < kHalves && n_planes > 0; ++half) {
#pragma unroll 1
        for (u32 slice = 0; slice < S::kSlices && n_planes > 0; ++slice) {
            S planes;
#pragma unroll
            for (u32 w = 0; w < S::kWords; ++w) {
#pragma unroll
                for (u32 c = 0; c < 8; ++c) planes.rows[w][c] = 0;
            }
#pragma unroll 1
            for (u32 field = S::kFields; field-- > 0 && n_planes > 0;) {
#pragma unroll
                for (u32 c = 0; c < 8; ++c) {
                    if (n_planes > 0) {
                        const Plane<kRank> plane = get_plane<kRank>(reader, table, left, coded);
                        if constexpr (kRank == 3) {
                            planes.rows[0][c] = static_cast<u32>(plane), planes.rows[S::kWords - 1][c] = static_cast<u32>(plane >> 32);
                        } else {
                            planes.rows[0][c] |= plane << field * S::kFieldBits;
                        }
                        n_planes = left > 0 ? n_planes - 1 : 0;
                    }
                }
            }
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
template <typename W, u32 kRank, typename Lines>
__device__ __forceinline__ void decode_block(BitReader& reader, u32 table, const Chunk& chunk, W (&v)[kBlock<kRank>]) {
    using F = Floats<W>;
    constexpr u32 kBits = Word<W>::kBits;
    const u32 start = reader.place();
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
    const u32 used = reader.place() - start;
    u32 left = is_zero ? 0 : chunk.max_bits() - min(used, chunk.max_bits());
    get_planes<W, kRank>(reader, table, v, precision, left);
    if (reader.place() - start < chunk.min_bits()) reader.move_to(start + chunk.min_bits());
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = from_negabinary(v[i]);
    transform_back<kRank, Lines>(v);
    if (!chunk.is_float()) return;
    const W scale = power_of_two<W>(e - static_cast<s32>(kBits) + 2);
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = !Lines::kIsReversible || is_scaled ? scaled_down(v[i], scale) : fold_sign(v[i]);
}
