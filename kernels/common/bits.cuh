// Bit operations on 32-bit and 64-bit words that need no other thread.

#pragma once

#include "types.cuh"

__device__ __forceinline__ u32 rotated_left(u32 w) { return __funnelshift_l(w, w, 1); }
__device__ __forceinline__ u32 rotated_right(u32 w) { return __funnelshift_r(w, w, 1); }
__device__ __forceinline__ u64 rotated_left(u64 w) { return w << 1 | w >> 63; }
__device__ __forceinline__ u64 rotated_right(u64 w) { return w >> 1 | w << 63; }

// Reverses the byte order.
__device__ __forceinline__ u32 swapped_bytes(u32 w) { return __byte_perm(w, 0, 0x0123); }
__device__ __forceinline__ u64 swapped_bytes(u64 w) {
    return static_cast<u64>(swapped_bytes(static_cast<u32>(w))) << 32 | swapped_bytes(static_cast<u32>(w >> 32));
}

// Inverts all bits below the top bit if the top bit is set. The function is its own inverse.
__device__ __forceinline__ u32 fold_sign(u32 w) { return w ^ (static_cast<u32>(static_cast<s32>(w) >> 31) & 0x7fffffffu); }
__device__ __forceinline__ u64 fold_sign(u64 w) {
    const u32 sign = static_cast<u32>(static_cast<s32>(w >> 32) >> 31);
    return w ^ (static_cast<u64>(sign & 0x7fffffffu) << 32 | sign);
}

// Selects each bit from `set` where `mask` is 1, and from `clear` where it is 0. Written in
// assembly because the compiler does not generate this single LOP3 instruction.
__device__ __forceinline__ u32 select_bits(u32 mask, u32 set, u32 clear) {
    u32 selected;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(selected) : "r"(mask), "r"(set), "r"(clear));
    return selected;
}

// Sign-extends byte kByte of a word; byte 0 is the lowest.
template <u32 kByte>
__device__ __forceinline__ u32 signed_byte(u32 w) {
    u32 number;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(number) : "r"(w), "n"(0x8880 + 0x1111 * kByte));
    return number;
}

// Treats the rows as a grid of square matrices of 2·kHalf × 2·kHalf bits. In each matrix, swaps the
// two off-diagonal quarters of kHalf × kHalf bits.
template <u32 kHalf, u32 kRows>
__device__ __forceinline__ void exchange_quarters(u32 (&rows)[kRows]) {
    // Ones in the lower half of every field of 2·kHalf bits.
    constexpr u32 mask = 0xffffffffu / ((1u << kHalf) + 1);
#pragma unroll
    for (u32 i = 0; i < kRows; ++i) {
        if (i & kHalf) continue;
        const u32 upper = rows[i], lower = rows[i + kHalf];
        if (kHalf == 16) {
            rows[i] = __byte_perm(lower, upper, 0x7632);
            rows[i + kHalf] = __byte_perm(lower, upper, 0x5410);
        } else if (kHalf == 8) {
            rows[i] = __byte_perm(lower, upper, 0x7351);
            rows[i + kHalf] = __byte_perm(lower, upper, 0x6240);
        } else {
            rows[i] = select_bits(mask, lower >> kHalf, upper);
            rows[i + kHalf] = select_bits(mask, lower, upper << kHalf);
        }
    }
}

// Transposes a 32×32 bit matrix: bit 31−j of word c becomes bit 31−c of word j. The function is its
// own inverse. It takes 8 instructions per word and no shuffles, because one thread holds all 32
// words.
__device__ __forceinline__ void transpose(u32 (&rows)[32]) {
    exchange_quarters<16>(rows);
    exchange_quarters<8>(rows);
    exchange_quarters<4>(rows);
    exchange_quarters<2>(rows);
    exchange_quarters<1>(rows);
}

// Transposes four 8×8 bit matrices side by side.
__device__ __forceinline__ void transpose_bytes(u32 (&rows)[8]) {
    exchange_quarters<4>(rows);
    exchange_quarters<2>(rows);
    exchange_quarters<1>(rows);
}
