// Planes of a block, which become bits.
//
// Behind the bits that are written as they are, a plane's code follows from its other bits x: a 1 in front, and then x as far as its highest
// 1, where a 1 stands behind every 1, but a 0 behind the last. So eight bits of x become up to 16 bits of code, which are in a table. As a
// place is passed by the codes of all planes together only once, that is hardly more than one look into the table for each plane.

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "planes.cuh"

// Of every byte: its code with a 1 behind every 1, how long that is as far as the highest 1 (with what is behind it), and how many 1 there are.
struct CodeTable {
    static constexpr u32 kLengthAt = 16, kOnesAt = 24;
    u32 entries[256];

    constexpr CodeTable() : entries() {
        for (u32 byte = 0; byte < 256; ++byte) {
            u32 code = 0, at = 0, length = 0, ones = 0;
            for (u32 i = 0; i < 8; ++i, ++at) {
                if (!(byte >> i & 1)) continue;
                code |= 3u << at++;
                length = at + 1, ++ones;
            }
            entries[byte] = code | length << kLengthAt | ones << kOnesAt;
        }
    }
};
__device__ const CodeTable kCodeTable;

// Puts bits one behind the other to shared memory, the first lowest.
struct BitWriter {
    const u32 first;  // address
    u32 address;
    u32 word = 0, n = 0;  // the last word, which has n < 32 bits

    __device__ __forceinline__ explicit BitWriter(u32 address) : first(address), address(address) {}

    __device__ __forceinline__ u32 length() const { return (address - first) * 8 + n; }
    // Up to 32 bits; there are no others above them.
    __device__ __forceinline__ void put(u32 bits, u32 length) {
        word |= bits << n;
        const u32 next = __funnelshift_l(bits, 0, n);
        n += length;
        if (n >= 32) {
            store_shared_4(address, word);
            address += 4, word = next, n -= 32;
        }
    }
    // Makes it so long.
    __device__ __forceinline__ void end_at(u32 wanted) {
        if (wanted < length()) {
            const u32 to = first + wanted / 32 * 4;
            if (to != address) word = load_shared_4(to), address = to;
            n = wanted % 32;
            word &= low_bits(0u, n);
        }
        while (length() < wanted) put(0, min(wanted - length(), 32 - n));
    }
    __device__ __forceinline__ void finish() const {
        if (n > 0) store_shared_4(address, word);
    }
};

// Adds the code of a plane of n numbers, of which `coded` come as they are; they become more.
template <u32 kRank>
__device__ __forceinline__ void put_plane(BitWriter& writer, u32 table, Plane<kRank> plane, u32& coded) {
    constexpr u32 n = kBlock<kRank>;
    u32 before = 1, n_before = 1;  // what comes before the next code
    if (kRank < 3) {
        before = static_cast<u32>(plane) & low_bits(0u, coded), n_before = coded;
        if (coded == n) {
            writer.put(before, n);
            return;
        }
    } else {
        const u32 low = static_cast<u32>(plane), high = static_cast<u32>(static_cast<u64>(plane) >> 32);
        if (coded < 32) {
            writer.put(low & low_bits(0u, coded), coded);
        } else {
            writer.put(low, 32);
            writer.put(high & low_bits(0u, coded - 32), coded - 32);
            if (coded == n) return;
        }
    }
    Plane<kRank> rest = plane >> coded;
    if (rest == 0) {
        // A plane of fewer numbers has fewer than 32 bits with this one.
        writer.put(kRank < 3 ? before : 0, kRank < 3 ? n_before + 1 : 1);
        return;
    }
    if (kRank < 3) before |= 1u << n_before++;
    coded += bit_length(rest);
    if (kRank > 1) {
        while (rest > 0xff) {
            const u32 entry = load_shared_4(table + 4 * (static_cast<u32>(rest) & 0xff));
            writer.put((entry & 0xffff) << n_before | before, n_before + 8 + (entry >> CodeTable::kOnesAt));
            before = 0, n_before = 0;
            rest >>= 8;
        }
    }
    // The 1 at the end of a block need not be told, and is not followed by anything.
    const u32 entry = load_shared_4(table + 4 * static_cast<u32>(rest)), cut = coded == n;
    const u32 length = (entry >> CodeTable::kLengthAt & 0xff) - cut;
    writer.put((entry & low_bits(0u, length - 1)) << n_before | before, n_before + length - cut);
}

// Adds the planes of a block from the highest on, `precision` of them, until the writer has `limit` bits or more.
template <typename W, u32 kRank>
__device__ __forceinline__ void put_planes(BitWriter& writer, u32 table, const W (&v)[kBlock<kRank>], u32 precision, u32 limit) {
    using S = Slice<W, kRank>;
    constexpr u32 kHalves = sizeof(W) / 4;
    u32 coded = 0, left = precision;
    u32 words[kBlock<kRank>];
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) words[i] = static_cast<u32>(v[i] >> (Word<W>::kBits - 32));
#pragma unroll 1
    for (u32 half = 0; half < kHalves && left > 0; ++half) {
#pragma unroll 1
        for (u32 slice = 0; slice < S::kSlices && left > 0; ++slice) {
            S planes;
            planes.make(words, slice);
#pragma unroll 1
            for (u32 field = S::kFields; field-- > 0 && left > 0;) {
#pragma unroll
                for (u32 c = 0; c < 8; ++c) {
                    if (left > 0) {
                        Plane<kRank> plane;
                        if constexpr (kRank == 3) {
                            plane = static_cast<u64>(planes.rows[S::kWords - 1][c]) << 32 | planes.rows[0][c];
                        } else {
                            plane = planes.rows[0][c] >> field * S::kFieldBits & low_bits(0u, S::kN);
                        }
                        put_plane<kRank>(writer, table, plane, coded);
                        left = writer.length() >= limit ? 0 : left - 1;
                    }
                }
            }
        }
        if constexpr (kHalves == 2) {
#pragma unroll
            for (u32 i = 0; i < kBlock<kRank>; ++i) words[i] = static_cast<u32>(v[i]);
        }
    }
}
