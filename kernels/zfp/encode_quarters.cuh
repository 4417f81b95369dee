// Encodes bit planes of a block of four axes. The code of a plane is that of encode.cuh. A lane has
// 64 of its 256 bits, and makes their part of the code once it knows which lane has the last 1. All
// lanes before that one code all their places, and lanes after it none. The lengths of these
// strings give their places.

#pragma once

#include "../stage/pack.cuh"
#include "encode.cuh"
#include "quarters.cuh"

// Bits of a block, which four lanes write to its slot in shared memory. All lanes know the number
// of bits.
template <u32 kSlotWords>
struct QuarterWriter {
    u32 slot;              // address
    u32 head = 0, n = 0;   // the first bits, until begin(); total bits

    __device__ __forceinline__ explicit QuarterWriter(u32 slot) : slot(slot) {}

    // Appends to the first bits; fewer than 32 in total.
    __device__ __forceinline__ void put(u32 bits, u32 length) { head |= bits << n, n += length; }
    // Writes the first bits; all other bits are zeros.
    __device__ __forceinline__ void begin() const {
        static_assert(kSlotWords % 4 == 0, "whole units");
#pragma unroll 1
        for (u32 i = quarter(); i < kSlotWords / 4; i += kQuarterLanes) store_shared_16(slot + 16 * i, make_uint4(i ? 0 : head, 0, 0, 0));
        __syncwarp();
    }
    // Cuts or pads the bits to `wanted` bits. Zeros follow them.
    __device__ __forceinline__ void end_at(u32 wanted) {
        __syncwarp();
        const u32 last = slot + wanted / 32 * 4;
        if (wanted < n && quarter() == 0) store_shared_4(last, load_shared_4(last) & low_bits(0u, wanted % 32));
        n = wanted;
    }
    // The bits that a lane copies from the slot: a quarter of them, in whole words.
    __device__ __forceinline__ u32 share(u32& address) const {
        const u32 most = (n + 127) / 128 * 32, first = min(quarter() * most, n);
        address = slot + first / 8;
        return min(n - first, most);
    }
};

// Adds consecutive bits to zeros in shared memory, where other lanes add theirs.
struct BitAdder {
    u32 words;     // address
    u32 at;        // the next bit
    u32 word = 0;  // bits to be added at that place

    // Appends up to 32 bits. All bits above them must be 0.
    __device__ __forceinline__ void put(u32 bits, u32 length) {
        word |= __funnelshift_l(0, bits, at);
        const u32 next = at + length;
        if ((next ^ at) & 32) {
            or_shared(words + at / 32 * 4, word);
            word = __funnelshift_l(bits, 0, at);
        }
        at = next;
    }
    __device__ __forceinline__ void finish() const {
        if (word) or_shared(words + at / 32 * 4, word);
    }
};

// Adds the code of a plane; the lane has the part `plane` of its bits. The first `coded` bits of
// the whole plane are verbatim; their number grows. Called by all lanes of a warp; blocks that are
// done add nothing.
template <typename Writer>
__device__ __forceinline__ void put_quarter(Writer& writer, u32 table, u64 plane, u32& coded, bool is_done) {
    const u32 q = quarter(), first = kQuarterNumbers * q, lane_of_block = lane_id() - q;
    const u32 plain = min(max(coded, first) - first, kQuarterNumbers);
    u64 rest = plain < kQuarterNumbers ? plane >> plain : 0;
    const u32 some = __ballot_sync(kAllLanes, rest != 0) >> lane_of_block & 0xf, last = some ? bit_length(some) - 1 : 0;
    const u32 own_end = first + plain + bit_length(rest), end_of_last = __shfl_sync(kAllLanes, own_end, lane_of_block + last);
    const u32 end = some ? end_of_last : coded;
    const bool is_first = coded / kQuarterNumbers == q, is_last = q == last, is_full = some && end == kBlock<4>;
    u32 left = some && q <= last ? is_last ? bit_length(rest) : kQuarterNumbers - plain : 0;
    // The group-test bit, and a bit after every 1. The 1 at the end of a block is implied, and
    // nothing follows it.
    const u32 length = plain + is_first + left + __popcll(rest) - (is_full && q + 1 == kQuarterLanes ? 2 : 0);
    u32 lengths = length << 8 * q;
    lengths |= __shfl_xor_sync(kAllLanes, lengths, 1);
    lengths |= __shfl_xor_sync(kAllLanes, lengths, 2);
    if (is_done) return;

    BitAdder adder{writer.slot, writer.n + __dp4a(lengths, 0x01010101u & low_bits(0u, 8 * q), 0u)};
    writer.n += __dp4a(lengths, 0x01010101u, 0u), coded = end;
    const u32 low = static_cast<u32>(plane), high = static_cast<u32>(plane >> 32), n_low = min(plain, 32u);
    if (n_low) adder.put(low & low_bits(0u, n_low), n_low);
    if (plain > 32) adder.put(high & low_bits(0u, plain - 32), plain - 32);
    u32 skipped = !is_first;  // bits of a code that are already written
    while (left > 0) {
        const u32 n = min(left, 8u), entry = load_shared_4(table + 4 * (static_cast<u32>(rest) & 0xff));
        const u32 of_code = entry >> CodeTable::kLengthAt & 0xff, places = entry >> CodeTable::kPlacesAt;
        u32 code = entry & CodeTable::kMask, n_bits = of_code + n - places;
        if (!is_last || left > n) {
            // The last bit of this code must not end the plane, and all places must be coded.
            code |= 1u << (of_code - 1);
        } else if (is_full) {
            n_bits -= 2;
            code &= low_bits(0u, n_bits);
        }
        adder.put(code >> skipped, n_bits - skipped);
        rest >>= 8, left -= n, skipped = 1;
    }
    adder.finish();
}

// Adds the planes of blocks like put_planes(). Called by all lanes of a warp, which continue as
// long as any block has planes left.
template <typename W, typename Writer>
__device__ __forceinline__ void put_quarters(Writer& writer, u32 table, u32 own, const W (&v)[kQuarterNumbers], u32 precision, u32 limit) {
    using S = Slice<W, 4>;
    constexpr u32 kHalves = sizeof(W) / 4;
    u32 coded = 0, left = precision;
    u32 words[kQuarterNumbers];
#pragma unroll
    for (u32 i = 0; i < kQuarterNumbers; ++i) words[i] = static_cast<u32>(v[i] >> (Word<W>::kBits - 32));
    writer.begin();
#pragma unroll 1
    for (u32 half = 0; half < kHalves; ++half) {
#pragma unroll 1
        for (u32 slice = 0; slice < S::kSlices && __any_sync(kAllLanes, left > 0); ++slice) {
            S planes;
            planes.make(words, slice);
            planes.stage(own);
#pragma unroll 1
            for (u32 i = 0; i < S::kPlanes && __any_sync(kAllLanes, left > 0); ++i) {
                put_quarter(writer, table, S::load_plane(own, i), coded, left == 0);
                left = left == 0 || writer.n >= limit ? 0 : left - 1;
            }
        }
        if constexpr (kHalves == 2) {
#pragma unroll
            for (u32 i = 0; i < kQuarterNumbers; ++i) words[i] = static_cast<u32>(v[i]);
        }
    }
}
