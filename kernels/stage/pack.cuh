// Packs the numbers of a group with the chosen widths (widths.cuh) into shared memory. Called by
// one warp.
//
// Lane j has the numbers j of all rows. Their low bits form a bit string; its word k is stored 32
// words after word k - 1, so that each store of the warp covers 32 adjacent words. Longer numbers
// go to a list, and their remaining bits are packed separately as patches.

#pragma once

#include "../common/warp.cuh"
#include "groups.cuh"
#include "words.cuh"

// Patches: whether any number is longer than the width. Width: whether the width is more than 31
// (kFar) or not.
enum class Patches : u32 { kNone, kSome };
enum class Width : u32 { kNear, kFar };

// Both functions append a number to a lane's bit string. Only its last kBits bits are known.
// appended(): the last kBits bits after the low w bits of the number are appended. completed(): the
// word that starts with the string's last `filled` bits and continues with the number.
template <Width kWidth>
__device__ __forceinline__ u32 appended(u32 string, u32 number, u32 w) { return __funnelshift_rc(string, number, w); }
template <Width kWidth>
__device__ __forceinline__ u64 appended(u64 string, u64 number, u32 w) {
    const u32 s0 = static_cast<u32>(string), s1 = static_cast<u32>(string >> 32), n0 = static_cast<u32>(number), n1 = static_cast<u32>(number >> 32);
    if (kWidth == Width::kFar) return static_cast<u64>(__funnelshift_rc(n0, n1, w - 32)) << 32 | __funnelshift_rc(s1, n0, w - 32);
    return static_cast<u64>(__funnelshift_r(s1, n0, w)) << 32 | __funnelshift_r(s0, s1, w);
}
__device__ __forceinline__ u32 completed(u32 string, u32 number, u32 filled) { return __funnelshift_l(string, number, filled); }
__device__ __forceinline__ u64 completed(u64 string, u64 number, u32 filled) {
    const u32 s0 = static_cast<u32>(string), s1 = static_cast<u32>(string >> 32), n0 = static_cast<u32>(number), n1 = static_cast<u32>(number >> 32);
    const bool far = filled & 32;
    const u32 a = far ? s0 : s1, b = far ? s1 : n0, c = far ? n0 : n1;
    return static_cast<u64>(__funnelshift_l(b, c, filled)) << 32 | __funnelshift_l(a, b, filled);
}
// Returns a mask of the lanes whose number is greater than `limit`, and stores these numbers
// contiguously from address `list` on. In assembly because the compiler would compare twice.
__device__ __forceinline__ u32 list_greater(u32 number, u32 limit, u32 below, u32 list) {
    u32 marks;
    asm volatile(
        "{ .reg .pred p; .reg .u32 at; setp.gt.u32 p, %1, %2; vote.sync.ballot.b32 %0, p, 0xffffffff; and.b32 at, %0, %3; popc.b32 at, at;"
        " mad.lo.u32 at, at, 4, %4; @p st.shared.u32 [at], %1; }"
        : "=&r"(marks) : "r"(number), "r"(limit), "r"(below), "r"(list) : "memory");
    return marks;
}
__device__ __forceinline__ u32 list_greater(u64 number, u64 limit, u32 below, u32 list) {
    u32 marks;
    asm volatile(
        "{ .reg .pred p; .reg .u32 at; setp.gt.u64 p, %1, %2; vote.sync.ballot.b32 %0, p, 0xffffffff; and.b32 at, %0, %3; popc.b32 at, at;"
        " mad.lo.u32 at, at, 8, %4; @p st.shared.u64 [at], %1; }"
        : "=&r"(marks) : "l"(number), "l"(limit), "r"(below), "r"(list) : "memory");
    return marks;
}

__device__ __forceinline__ void store_shared(u32 address, u32 word) { store_shared_4(address, word); }
__device__ __forceinline__ void store_shared(u32 address, u64 word) {
    store_shared_8(address, make_uint2(static_cast<u32>(word), static_cast<u32>(word >> 32)));
}

// Packs rows of a group. With patches, marks the numbers longer than `w` in the bitmap and moves
// them to a list. The list overwrites the numbers, but only those already read.
template <Patches kPatches, Width kWidth, typename W>
__device__ __forceinline__ void pack_rows(unsigned char* packed, unsigned char* bitmap, W* numbers, u32 rows, u32 w) {
    constexpr u32 kBits = Word<W>::kBits, kAtOnce = 4;  // rows that are loaded together
    const u32 lane = lane_id(), below = lanes_below();
    const u32 out = shared_address(packed) + lane * static_cast<u32>(sizeof(W));
    u32 marks = shared_address(bitmap), list = shared_address(numbers);
    const W* from = numbers + lane;
    W string = 0;
    u32 at = 0;  // start of the number in the string
    const auto append = [&](W number) {
        // Store the word as far as it is known; later numbers rewrite it.
        u32 word = at / kBits * kBits;
        launder(word);
        if (sizeof(W) == 4 ? w > 0 : at % kBits + w >= kBits) store_shared(out + word * (kWarp / 8), completed(string, number, at));
        string = appended<kWidth>(string, number, w);
        at += w;
    };
    const W limit = low_bits(W(), w);
    const auto mark = [&](u32 row, W number) {
        if (kPatches == Patches::kNone) return;
        const u32 patched = list_greater(number, limit, below, list);
        if (lane == 0) store_shared_4(marks + 4 * row, patched);
        list += __popc(patched) * static_cast<u32>(sizeof(W));
    };
    u32 r = 0;
#pragma unroll 1
    for (; r + kAtOnce <= rows; r += kAtOnce) {
        W v[kAtOnce];
#pragma unroll
        for (u32 i = 0; i < kAtOnce; ++i) v[i] = from[i * kRow];
        from += kAtOnce * kRow;
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < kAtOnce; ++i) append(v[i]);
#pragma unroll
        for (u32 i = 0; i < kAtOnce; ++i) mark(i, v[i]);
        marks += 4 * kAtOnce;
    }
#pragma unroll 1
    for (; r < rows; ++r, from += kRow, marks += 4) {
        const W number = *from;
        __syncwarp();
        append(number);
        mark(0, number);
    }
    __syncwarp();
    // Store the rest of the string. It may be only half a word long.
    const u32 filled = at % kBits;
    if (filled == 0) return;
    const W word = string >> (kBits - filled);
    unsigned char* const last = packed + at / kBits * (kWarp * sizeof(W));
    if (filled > 32) reinterpret_cast<W*>(last)[lane] = word;
    if (filled <= 32) reinterpret_cast<u32*>(last)[lane] = static_cast<u32>(word);
}

__device__ __forceinline__ void or_shared(u32 address, u32 bits) {
    asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
}
// ORs bits into a bit string in shared memory, from bit `at` on.
__device__ __forceinline__ void add_bits(u32 words, u32 at, u32 bits) {
    words += at / 32 * 4;
    or_shared(words, bits << at % 32);
    const u32 high = __funnelshift_l(bits, 0, at);
    if (high) or_shared(words + 4, high);
}
__device__ __forceinline__ void add_bits(u32 words, u32 at, u64 bits) {
    add_bits(words, at, static_cast<u32>(bits));
    if (bits >> 32) add_bits(words, at + 32, static_cast<u32>(bits >> 32));
}

// Writes zeros after a list, which add_string() reads. A list is short enough to leave room for
// them in its group.
template <typename W>
__device__ __forceinline__ void end_list(W* list, u32 n) {
    list[n + lane_id()] = 0;
    __syncwarp();
}

// ORs `bits` bits of each of n numbers, taken from bit `shift` on, into zeroed shared memory, from
// bit `first` on.
template <typename W>
__device__ __forceinline__ void add_string(u32 words, u32 first, const W* numbers, u32 n, u32 shift, u32 bits) {
    if (likely(bits <= 8)) {
        // A lane combines four aligned fields; powers of two shift each one to its position.
        const u32 mask = low_bits(0u, bits), one = 1u << bits, two = one * one, three = two * one;
#pragma unroll 1
        for (u32 i = 4 * lane_id(); i < n; i += 4 * kWarp) {
            u32 own[4];
#pragma unroll
            for (u32 k = 0; k < 4; k += Word<W>::kPerUnit) {
                W unit[Word<W>::kPerUnit];
                split(*reinterpret_cast<const uint4*>(numbers + i + k), unit);
#pragma unroll
                for (u32 e = 0; e < Word<W>::kPerUnit; ++e) own[k + e] = static_cast<u32>(unit[e] >> shift) & mask;
            }
            add_bits(words, first + i * bits, own[0] + own[1] * one + own[2] * two + own[3] * three);
        }
    } else {
#pragma unroll 1
        for (u32 i = lane_id(); i < n; i += kWarp) add_bits(words, first + i * bits, numbers[i] >> shift & low_bits(W(), bits));
    }
    __syncwarp();
}

// Packs a group.
template <typename W>
__device__ __forceinline__ void pack(unsigned char* packed, unsigned char* bitmap, unsigned char* stage, u32 patches, W* numbers, const Widths& widths) {
    const u32 lane = lane_id(), below = lanes_below(), rows = widths.rows, w = widths.w;
    if (sizeof(W) == 8 && w >= 32) {
        if (widths.e1 == 0) return pack_rows<Patches::kNone, Width::kFar>(packed, bitmap, numbers, rows, w);
        pack_rows<Patches::kSome, Width::kFar>(packed, bitmap, numbers, rows, w);
    } else {
        if (widths.e1 == 0) return pack_rows<Patches::kNone, Width::kNear>(packed, bitmap, numbers, rows, w);
        pack_rows<Patches::kSome, Width::kNear>(packed, bitmap, numbers, rows, w);
    }
    const u32 words = shared_address(stage), first = patches * 8, again = first + (widths.n1 * widths.e1 + 7) / 8 * 8;
    u32 n = widths.n1, shift = w, bits = widths.e1, at = first;
    // A second round packs the numbers of the list that are patched twice.
#pragma unroll 1
    for (;;) {
        end_list(numbers, n);
        add_string(words, at, numbers, n, shift, bits);
        if (widths.e2 == 0 || at != first) return;
        shift += bits;
        const W limit = low_bits(W(), shift);
        u32 n_again = 0;
#pragma unroll 1
        for (u32 from = 0; from < n; from += kWarp) {
            const W number = numbers[from + lane];
            __syncwarp();
            const u32 twice = list_greater(number, limit, below, shared_address(numbers + n_again));
            if (lane == 0) add_bits(words, again + from, twice);
            n_again += __popc(twice);
        }
        __syncwarp();
        // Limits n to the counted numbers, for which there is room. Numbers of a dictionary are
        // recomputed from an array that may have changed since they were counted.
        at = again + (n + 7) / 8 * 8, n = min(n_again, widths.n2), bits = widths.e2;
    }
}
