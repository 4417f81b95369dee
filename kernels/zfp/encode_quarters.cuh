// Encodes bit planes of a block of four axes. The code of a plane is that of encode.cuh. Each of
// four lanes has 64 of its 256 bits, and encodes them once it knows which lane has the last 1:
// lanes before that one code all their bits, and lanes after it none. The lengths of these codes
// give the position of each lane's code.

#pragma once

#include "../stage/pack.cuh"
#include "encode.cuh"
#include "quarters.cuh"

// Writes the bits of a block: four lanes write to the block's slot in shared memory. All of them
// know the number of bits.
template <u32 kSlotWords>
struct QuarterWriter {
    u32 slot;              // address
    u32 head = 0, n = 0;   // the first bits, which begin() writes; total number of bits

    __device__ __forceinline__ explicit QuarterWriter(u32 slot) : slot(slot) {}

    // Appends to the first bits, which are fewer than 32 in total.
    __device__ __forceinline__ void put(u32 bits, u32 length) { head |= bits << n, n += length; }
    // Writes the first bits, and fills the rest of the slot with zeros.
    __device__ __forceinline__ void begin() const {
        static_assert(kSlotWords % 4 == 0, "whole units");
#pragma unroll 1
        for (u32 i = quarter(); i < kSlotWords / 4; i += kQuarterLanes) store_shared_16(slot + 16 * i, make_uint4(i ? 0 : head, 0, 0, 0));
        __syncwarp();
    }
    // Truncates the bits to `wanted` bits, or pads them with the zeros of the slot.
    __device__ __forceinline__ void end_at(u32 wanted) {
        __syncwarp();
        const u32 last = slot + wanted / 32 * 4;
        if (wanted < n && quarter() == 0) store_shared_4(last, load_shared_4(last) & low_bits(0u, wanted % 32));
        n = wanted;
    }
    // Returns the number of bits that a lane copies from the slot, a quarter in whole words, and
    // sets `address` to their address.
    __device__ __forceinline__ u32 share(u32& address) const {
        const u32 most = (n + 127) / 128 * 32, first = min(quarter() * most, n);
        address = slot + first / 8;
        return min(n - first, most);
    }
};

// Writes consecutive bits to shared memory. The bits are ORed into zeros, since other lanes write
// to the same words.
struct BitAdder {
    u32 words;     // address
    u32 at;        // position of the next bit
    u32 word = 0;  // pending bits of the word at that position

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

// Writes the code of a plane. `plane` is the lane's part of its bits. The first `coded` bits of the
// whole plane are verbatim; updates `coded` for the next plane. Called by all lanes of a warp;
// lanes of finished blocks (is_done) write nothing.
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
    // Besides the plane's bits, there are a group-test bit and a bit after every 1. The last
    // number's 1 is implied, and no bit follows it.
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
            // Another 1 follows: the last bit of this code must not end the plane, and all n bits
            // must be coded.
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

// Writes the planes of blocks, like put_planes(). Called by all lanes of a warp, which continue as
// long as any of their blocks has planes left.
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
