// Reads groups of eight numbers.

#pragma once

#include "../common/warp.cuh"
#include "../stage/words.cuh"
#include "layout.cuh"

struct ByteGroupReader {
    // Spreads the first four fields of a bit string, of `bits` bits each (at most eight), to one
    // byte each.
    static __device__ __forceinline__ u32 pdep(u32 string, u32 bits, u32 pair_mask, u32 mask) {
        const u32 pairs = (string & pair_mask) | (string >> 2 * bits & pair_mask) << 16;
        return (pairs & mask) | (pairs >> bits & mask) << 8;
    }
    // Reads a part of a group from byte `at` of shared memory: up to eight bits of each number.
    // Returns one byte for each of the first four numbers, and for each of the last four.
    static __device__ __forceinline__ uint2 part(u32 at, u32 bits) {
        const u32 words = at & ~3u, shift = at * 8;
        const u32 first = load_shared_4(words), second = load_shared_4(words + 4), third = load_shared_4(words + 8);
        const u32 low = __funnelshift_r(first, second, shift), high = __funnelshift_r(second, third, shift);
        const u32 mask = (1u << bits) - 1, pair_mask = (1u << 2 * bits) - 1, masks = mask * 0x10001;
        return make_uint2(pdep(low, bits, pair_mask, masks), pdep(__funnelshift_rc(low, high, 4 * bits), bits, pair_mask, masks));
    }

    // Reads four groups of numbers with at most 32 bits each from shared memory, and decodes their
    // signs. `at`: address of each group. Called by all threads of a warp.
    static __device__ __forceinline__ void read(const u32 (&at)[4], const u32 (&widths)[4], u32 (&v)[4][kByteGroup]) {
        const u32 longest = warp_max_unsigned(max(max(widths[0], widths[1]), max(widths[2], widths[3])));
        if (likely(longest <= 8)) {
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                const uint2 bytes = part(at[k], widths[k]);
                const u32 low = signed_bytes(bytes.x), high = signed_bytes(bytes.y);
                v[k][0] = signed_byte<0>(low), v[k][1] = signed_byte<1>(low), v[k][2] = signed_byte<2>(low), v[k][3] = signed_byte<3>(low);
                v[k][4] = signed_byte<0>(high), v[k][5] = signed_byte<1>(high), v[k][6] = signed_byte<2>(high), v[k][7] = signed_byte<3>(high);
            }
            return;
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) v[k][i] = 0;
#pragma unroll
            for (u32 p = 0; p < 4; ++p) {
                if (8 * p >= longest) break;
                const uint2 bytes = part(at[k] + 8 * p, widths[k] - min(widths[k], 8 * p) > 8 ? 8 : widths[k] - min(widths[k], 8 * p));
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    v[k][i] |= (bytes.x >> 8 * i & 0xff) << 8 * p;
                    v[k][4 + i] |= (bytes.y >> 8 * i & 0xff) << 8 * p;
                }
            }
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) v[k][i] = unzigzag(v[k][i]);
        }
    }
    // Decodes zigzag in each of four bytes.
    static __device__ __forceinline__ u32 signed_bytes(u32 bytes) { return (bytes >> 1 & 0x7f7f7f7fu) ^ (bytes & 0x01010101u) * 0xff; }

    // Reads number i of a group of any width from the frame, in zigzag form.
    static __device__ __forceinline__ u64 number(const unsigned char* group, u32 width, u32 i) {
        u64 number = 0;
        for (u32 p = 0; 8 * p < width; ++p) {
            const u32 bits = min(width - 8 * p, 8u), first = i * bits;
            const unsigned char* const from = group + 8 * p + first / 8;
            u32 field = from[0];
            if (first % 8 + bits > 8) field |= from[1] << 8;
            number |= static_cast<u64>(field >> first % 8 & low_bits(0u, bits)) << 8 * p;
        }
        return number;
    }
};
