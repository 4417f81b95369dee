// Encodes and decodes the planes of a block of four numbers, two at a time by tables. A plane has
// up to seven bits of code; most planes have four or fewer.
//
// Planes are counted from the highest on. In shared memory, for decoding, plane i is byte 3 − i/8
// of row i % 8. For encoding, planes 2i and 2i + 1 are the two halves of byte 3 − i/4 of row i % 4.

#pragma once

#include "../common/bits.cuh"
#include "planes.cuh"

// For every number of verbatim bits, and every two planes (the higher one in the lower four bits):
// their code, its length, the length of the first plane's code, and the number of verbatim bits of
// the next plane.
struct LineCodes {
    static constexpr u32 kEntries = 5 * 256, kCodeBits = 14, kFirstLengthAt = 16, kLengthAt = 20, kCountAt = 28;
    u32 entries[kEntries];

    constexpr LineCodes() : entries() {
        for (u32 coded = 0; coded <= 4; ++coded) {
            for (u32 pair = 0; pair < 256; ++pair) {
                u32 code = 0, length = 0, first_length = 0, next = coded;
                for (u32 k = 0; k < 2; ++k) {
                    const u32 plane = pair >> 4 * k & 15;
                    code |= (plane & ((1u << next) - 1)) << length;
                    length += next;
                    while (next < 4) {
                        const u32 rest = plane >> next;
                        code |= (rest ? 1u : 0u) << length++;
                        if (!rest) break;
                        while (next < 3) {
                            const u32 bit = plane >> next & 1;
                            code |= bit << length++;
                            if (bit) break;
                            ++next;
                        }
                        ++next;
                    }
                    if (k == 0) first_length = length;
                }
                entries[coded * 256 + pair] = code | first_length << kFirstLengthAt | length << kLengthAt | next << kCountAt;
            }
        }
    }
};

// For every number of verbatim bits, and every eight bits of code: the one or two planes at their
// start; the length of the first plane's code, and of both codes; the number of verbatim bits after
// the first plane, and after both.
struct LinePlanes {
    static constexpr u32 kEntries = 5 * 256, kFirstLengthAt = 8, kFirstCountAt = 12, kLengthAt = 16, kCountAt = 20, kHasTwoAt = 24;
    u32 entries[kEntries];

    constexpr LinePlanes() : entries() {
        for (u32 coded = 0; coded <= 4; ++coded) {
            for (u32 bits = 0; bits < 256; ++bits) {
                u32 entry = 0, length = 0, count = coded;
                for (u32 k = 0; k < 2; ++k) {
                    u32 at = length + count, next = count, plane = bits >> length & ((1u << count) - 1);
                    while (next < 4) {
                        if (!(bits >> at++ & 1)) break;
                        while (next < 3) {
                            if (bits >> at++ & 1) break;
                            ++next;
                        }
                        plane |= 1u << next++;
                    }
                    if (at > 8) break;
                    entry |= plane << 4 * k;
                    length = at, count = next;
                    if (k == 0) entry |= length << kFirstLengthAt | count << kFirstCountAt;
                    if (k == 1) entry |= 1u << kHasTwoAt;
                }
                entries[coded * 256 + bits] = entry | length << kLengthAt | count << kCountAt;
            }
        }
    }
};
__device__ const LineCodes kLineCodes;
__device__ const LinePlanes kLinePlanes;

// Transposes four words, shifted right by `shift`, to rows with one plane of four bits in each
// byte.
template <typename W>
__device__ __forceinline__ void make_line_rows(u32 (&rows)[8], const W (&v)[4], u32 shift) {
#pragma unroll
    for (u32 q = 0; q < 8; ++q) rows[7 - q] = q < 4 ? static_cast<u32>(v[q % 4] >> shift) : 0;
    transpose_bytes(rows);
}

// put_planes() for blocks of four numbers.
template <typename W, typename Writer>
__device__ __forceinline__ void put_line_planes(Writer& writer, u32 table, u32 own, const W (&v)[4], u32 precision, u32 limit) {
    constexpr u32 kRowBytes = Slice<W, 1>::kRowBytes;
    u32 coded = 0, left = precision;
#pragma unroll 1
    for (u32 half = 0; half < sizeof(W) / 4 && left > 0; ++half) {
        u32 rows[8];
        make_line_rows(rows, v, half ? 0 : Word<W>::kBits - 32);
#pragma unroll
        for (u32 c = 0; c < 4; ++c) store_shared_4(own + c * kRowBytes, rows[2 * c] | rows[2 * c + 1] << 4);
#pragma unroll 1
        for (u32 i = 0; i < 16 && left > 0; ++i) {
            const u32 pair = load_shared_1(own + i % 4 * kRowBytes + 3 - i / 4);
            const bool is_one = left == 1;
            const u32 entry = load_shared_4(table + 1024 * coded + 4 * (is_one ? pair & 15 : pair));
            writer.put(entry & low_bits(0u, LineCodes::kCodeBits), entry >> (is_one ? LineCodes::kFirstLengthAt : LineCodes::kLengthAt) & 15);
            coded = entry >> LineCodes::kCountAt;
            left = is_one || writer.n >= limit ? 0 : left - 2;
        }
    }
}

// Decodes a plane whose code is cut off after its first `n` bits.
__device__ __forceinline__ u32 cut_line_plane(u32 bits, u32 n, u32 coded) {
    u32 at = min(coded, n), plane = bits & low_bits(0u, at);
    while (at < n && coded < 4 && bits >> at++ & 1) {
        // If the code is cut off before the next 1, this 1 is assumed at the cut, like the implied
        // 1 of the last number.
        while (at < n && coded < 3 && !(bits >> at++ & 1)) ++coded;
        plane |= 1u << coded++;
    }
    return plane;
}

// get_planes() for blocks of four numbers.
template <typename W, typename Reader>
__device__ __forceinline__ void get_line_planes(Reader& reader, u32 table, u32 own, W (&v)[4], u32 precision, u32 end) {
    constexpr u32 kRowBytes = Slice<W, 1>::kRowBytes;
    u32 coded = 0, left = precision;
#pragma unroll
    for (u32 q = 0; q < 4; ++q) v[q] = 0;
#pragma unroll 1
    for (u32 half = 0; half < sizeof(W) / 4 && left > 0; ++half) {
        const auto put = [&](u32 i, u32 plane) { store_shared_1(own + i % 8 * kRowBytes + 3 - i / 8, plane); };
#pragma unroll
        for (u32 c = 0; c < 8; ++c) store_shared_4(own + c * kRowBytes, 0);
        const u32 n = min(left, 32u);
        u32 bits = 0, n_bits = 0;
#pragma unroll 1
        for (u32 i = 0; i < n && reader.place < end;) {
            if (n_bits < 8) bits = reader.peek(), n_bits = 32;
            const u32 entry = load_shared_4(table + 1024 * coded + 4 * (bits & 0xff)), n_left = end - reader.place;
            u32 length = entry >> LinePlanes::kLengthAt & 15, count = entry >> LinePlanes::kCountAt & 7, n_planes = 1 + (entry >> LinePlanes::kHasTwoAt);
            if (length > n_left || i + n_planes > n) {
                length = entry >> LinePlanes::kFirstLengthAt & 15, count = entry >> LinePlanes::kFirstCountAt & 7, n_planes = 1;
            }
            if (unlikely(length > n_left)) {
                put(i, cut_line_plane(bits, n_left, coded));
                reader.place = end;
                break;
            }
            put(i, entry & 15);
            if (n_planes == 2) put(i + 1, entry >> 4 & 15);
            i += n_planes, coded = count;
            reader.place += length, bits >>= length, n_bits -= length;
        }
        left = reader.place < end ? left - n : 0;
        u32 rows[8];
#pragma unroll
        for (u32 c = 0; c < 8; ++c) rows[c] = load_shared_4(own + c * kRowBytes);
        transpose_bytes(rows);
#pragma unroll
        for (u32 q = 0; q < 4; ++q) v[q] |= static_cast<W>(rows[7 - q]) << (half ? 0 : Word<W>::kBits - 32);
    }
}
