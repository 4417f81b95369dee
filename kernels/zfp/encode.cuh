// Encodes bit planes of a block.
//
// A plane consists of verbatim bits, followed by the code of its other bits x. If x is 0, the code
// is a single 0. Otherwise it is a 1, followed by the bits of x from the lowest to the highest 1;
// after each 1 of x, a 1 is inserted, but after the highest one a 0. So eight bits of x become up
// to 17 bits of code, which a table contains. Each number is coded like this in one plane only: in
// all following planes, its bits are verbatim. So there is hardly more than one lookup per plane.
// Blocks of four numbers are written differently (line.cuh).

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "line.cuh"
#include "planes.cuh"

// For every byte x: its code, the length of the code, and the number of bits of x up to its highest
// 1.
struct CodeTable {
    static constexpr u32 kLengthAt = 20, kPlacesAt = 28, kMask = (1 << kLengthAt) - 1;
    u32 entries[256];

    constexpr CodeTable() : entries() {
        for (u32 byte = 0; byte < 256; ++byte) {
            u32 code = byte != 0, at = 1, length = 1, places = 0;
            for (u32 i = 0; i < 8; ++i, ++at) {
                if (!(byte >> i & 1)) continue;
                code |= 1u << at++;
                if (byte >> (i + 1)) code |= 1u << at;
                length = at + 1, places = i + 1;
            }
            entries[byte] = code | length << kLengthAt | places << kPlacesAt;
        }
    }
};

__device__ const CodeTable kCodeTable;

// The table for blocks of this rank, which is copied to shared memory.
template <u32 kRank>
struct CodesOf {
    static constexpr u32 kEntries = kRank == 1 ? LineCodes::kEntries : 256;
    static __device__ __forceinline__ u32 entry(u32 i) { return kRank == 1 ? kLineCodes.entries[i] : kCodeTable.entries[i % 256]; }
};

// Writes consecutive bits to shared memory, the first one lowest.
struct BitWriter {
    u32 address;            // of the current word
    u32 word = 0, n = 0;    // the current word; total number of bits

    __device__ __forceinline__ explicit BitWriter(u32 address) : address(address) {}

    // Appends up to 32 bits. All bits above them must be 0.
    __device__ __forceinline__ void put(u32 bits, u32 length) {
        word |= __funnelshift_l(0, bits, n);
        const u32 next = n + length;
        if ((next ^ n) & 32) {
            store_shared_4(address, word);
            address += 4, word = __funnelshift_l(bits, 0, n);
        }
        n = next;
    }
    // Truncates the bits to `wanted` bits, or pads them with zeros.
    __device__ __forceinline__ void end_at(u32 wanted) {
        if (wanted < n) {
            const u32 back = n / 32 - wanted / 32;
            if (back) address -= 4 * back, word = load_shared_4(address);
            n = wanted, word &= low_bits(0u, n % 32);
        }
        while (n < wanted) put(0, min(wanted - n, 32u));
    }
    __device__ __forceinline__ void finish() const {
        if (n % 32) store_shared_4(address, word);
    }
};

// Writes the code of a plane. Its first `coded` bits are verbatim; updates `coded` for the next
// plane.
template <u32 kRank>
__device__ __forceinline__ void put_plane(BitWriter& writer, u32 table, u64 plane, u32& coded) {
    constexpr u32 n = kBlock<kRank>;
    const u32 low = static_cast<u32>(plane), high = static_cast<u32>(plane >> 32);
    u32 before = 0, n_before = 0;  // bits to be written together with the next code
    if (kRank == 2) {
        before = low & low_bits(0u, coded), n_before = coded;
    } else {
        const u32 n_low = min(coded, 32u);
        writer.put(low & low_bits(0u, n_low), n_low);
        if (coded > 32) writer.put(high & low_bits(0u, coded - 32), coded - 32);
    }
    if (coded == n) {
        if (kRank == 2) writer.put(before, n);
        return;
    }
    u64 rest = kRank == 2 ? low >> coded : plane >> coded;
    u32 skipped = 0;  // bits of the next code that are already written
    while (rest > 0xff) {
        const u32 byte = static_cast<u32>(rest) & 0xff, entry = load_shared_4(table + 4 * byte);
        const u32 length = entry >> CodeTable::kLengthAt & 0xff, places = entry >> CodeTable::kPlacesAt;
        // Another 1 follows: the last bit of this code must not end the plane, and all bits of the
        // byte must be coded.
        const u32 code = (entry & CodeTable::kMask) | 1u << (length - 1);
        writer.put(code >> skipped << n_before | before, length + 8 - places - skipped + n_before);
        before = 0, n_before = 0;
        rest >>= 8, coded += 8, skipped = 1;
    }
    const u32 entry = load_shared_4(table + 4 * static_cast<u32>(rest));
    u32 code = (entry & CodeTable::kMask) >> skipped, length = (entry >> CodeTable::kLengthAt & 0xff) - skipped;
    coded += entry >> CodeTable::kPlacesAt;
    if (coded == n) {
        // The last number's 1 is implied, and no bit follows it.
        length -= 2;
        code &= low_bits(0u, length);
    }
    writer.put(code << n_before | before, length + n_before);
}

// Like put_planes(), for blocks of 16 or 64 numbers.
template <typename W, u32 kRank>
__device__ __forceinline__ void put_slices(BitWriter& writer, u32 table, u32 own, const W (&v)[kBlock<kRank>], u32 precision, u32 limit) {
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
            planes.stage(own);
#pragma unroll 1
            for (u32 i = 0; i < S::kPlanes && left > 0; ++i) {
                put_plane<kRank>(writer, table, S::load_plane(own, i), coded);
                left = writer.n >= limit ? 0 : left - 1;
            }
        }
        if constexpr (kHalves == 2) {
#pragma unroll
            for (u32 i = 0; i < kBlock<kRank>; ++i) words[i] = static_cast<u32>(v[i]);
        }
    }
}

// Writes `precision` planes of a block, the highest first, until the writer has `limit` bits or
// more. `own` is the address in shared memory where the thread keeps a slice.
template <typename W, u32 kRank>
__device__ __forceinline__ void put_planes(BitWriter& writer, u32 table, u32 own, const W (&v)[kBlock<kRank>], u32 precision, u32 limit) {
    if constexpr (kRank == 1) {
        put_line_planes(writer, table, own, v, precision, limit);
    } else {
        put_slices<W, kRank>(writer, table, own, v, precision, limit);
    }
}
