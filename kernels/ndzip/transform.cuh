// Conversion between the elements of a block and its bit columns: the cooperative part of the
// integer Lorenzo transform and the bit transposition.
//
// A thread transposes 32×32 bits in its registers. For f32, these bits are its line. For f64, the
// 64×64 bits of a group are four such squares in four lanes. Lane 0 has the high halves of elements
// 0…31, lane 1 their low halves; lanes 2 and 3 have those of elements 32…63. So column c consists
// of two half words: the upper one (elements 0…31) is in lane 0 or 1, the lower one (elements
// 32…63) in lane 2 or 3.

#pragma once

#include "../common/bits.cuh"
#include "../common/warp.cuh"
#include "../stage/words.cuh"
#include "layout.cuh"

// Distance, in lines, between neighbors along the slowest axis of a block.
template <typename W, int kRank>
constexpr u32 kOuterLines = (kRank == 3 ? 256 : 64) * Type<W>::kBytes / kLineBytes;

// Computes the residuals of line `line` of a tile: its words are rotated, differenced and
// sign-folded. `slot` is the address of the tile in shared memory, which is permuted by
// swizzled<128>. `zeros` is the address of a line of zeros, which replaces predecessors outside of
// the block. Predecessors along the slowest axis are also read from shared memory: this takes 8
// loads of 16 bytes instead of 32 shuffles. Called by all lanes of a warp, with adjacent lines.
template <typename W, int kRank>
__device__ __forceinline__ void read_residuals(u32 slot, u32 zeros, u32 line, W (&v)[Type<W>::kLineElements]) {
    constexpr u32 kElements = Type<W>::kLineElements, kPerUnit = kUnitBytes / Type<W>::kBytes;
    const u32 in_block = line % Type<W>::kLines;
    const u32 own = slot + line * kLineBytes, own_key = swizzled<128>(line * kLineBytes) ^ line * kLineBytes;

    if (kRank == 1) {
#pragma unroll
        for (u32 u = 0; u < kLineBytes / kUnitBytes; ++u) split(load_shared_16(own + (u * kUnitBytes ^ own_key)), v + u * kPerUnit);
#pragma unroll
        for (u32 i = 0; i < kElements; ++i) v[i] = rotated_left(v[i]);
        const u32 last = line * kLineBytes - Type<W>::kBytes;
        const u32 before = in_block ? slot + swizzled<128>(last) : zeros;
        W first;
        if (Type<W>::kBytes == 8) {
            const uint2 halves = load_shared_8(before);
            first = static_cast<W>(static_cast<u64>(halves.y) << 32 | halves.x);
        } else {
            first = load_shared_4(before);
        }
        const W predecessor = rotated_left(first);
#pragma unroll
        for (u32 i = kElements - 1; i > 0; --i) v[i] -= v[i - 1];
        v[0] -= predecessor;
    } else {
        const u32 outer = line - kOuterLines<W, kRank>;
        const bool has_outer = in_block >= kOuterLines<W, kRank>;
        const u32 before = has_outer ? slot + outer * kLineBytes : zeros;
        const u32 before_key = has_outer ? swizzled<128>(outer * kLineBytes) ^ outer * kLineBytes : 0;
#pragma unroll
        for (u32 u = 0; u < kLineBytes / kUnitBytes; ++u) {
            W predecessors[kPerUnit];
            split(load_shared_16(own + (u * kUnitBytes ^ own_key)), v + u * kPerUnit);
            split(load_shared_16(before + (u * kUnitBytes ^ before_key)), predecessors);
#pragma unroll
            for (u32 i = 0; i < kPerUnit; ++i) {
                v[u * kPerUnit + i] = rotated_left(v[u * kPerUnit + i]) - rotated_left(predecessors[i]);
            }
        }
    }
    if (kRank == 2) {
        constexpr u32 kLinesPerRow = kOuterLines<W, 2>;
        const W before = __shfl_up_sync(kAllLanes, v[kElements - 1], 1);
#pragma unroll
        for (u32 i = kElements - 1; i > 0; --i) v[i] -= v[i - 1];
        v[0] -= line % kLinesPerRow ? before : 0;
    }
    if (kRank == 3) {
        // A line is two rows of f32 or one of f64. The row before the line is the last row of the
        // previous lane.
        constexpr u32 kRow = 16;
        const bool has_row = in_block % kOuterLines<W, 3> != 0;
#pragma unroll
        for (u32 i = 0; i < kRow; ++i) {
            const W before = __shfl_up_sync(kAllLanes, v[kElements - kRow + i], 1);
            if (kElements > kRow) v[kElements - kRow + i] -= v[i];
            v[i] -= has_row ? before : 0;
        }
#pragma unroll
        for (u32 i = kElements - 1; i > 0; --i) {
            if (i % kRow) v[i] -= v[i - 1];
        }
    }
#pragma unroll
    for (u32 i = 0; i < kElements; ++i) v[i] = fold_sign(v[i]);
}

// Converts the thread's line to the 32 rows of the square that it transposes. from_square is the
// inverse.
__device__ __forceinline__ void to_square(const u32 (&line)[32], u32 (&square)[32]) {
#pragma unroll
    for (u32 i = 0; i < 32; ++i) square[i] = line[i];
}
__device__ __forceinline__ void to_square(const u64 (&line)[16], u32 (&square)[32]) {
    const bool high = lane_id() % 2 == 0;
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
        const u32 upper = static_cast<u32>(line[i] >> 32), lower = static_cast<u32>(line[i]);
        const u32 other = __shfl_xor_sync(kAllLanes, high ? lower : upper, 1);
        square[i] = high ? upper : other;
        square[16 + i] = high ? other : lower;
    }
}
__device__ __forceinline__ void from_square(const u32 (&square)[32], u32 (&line)[32]) { to_square(square, line); }
__device__ __forceinline__ void from_square(const u32 (&square)[32], u64 (&line)[16]) {
    const bool high = lane_id() % 2 == 0;
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
        const u32 other = __shfl_xor_sync(kAllLanes, high ? square[16 + i] : square[i], 1);
        const u32 upper = high ? square[i] : other, lower = high ? other : square[16 + i];
        line[i] = static_cast<u64>(upper) << 32 | lower;
    }
}

// Columns 1 to 11 contain bits 30 to 20, which only long words have. If no lane of a warp has such
// columns, they are skipped.
constexpr u32 kLongColumns = 12;
__device__ __forceinline__ bool has_long_words(u32 head) { return __any_sync(kAllLanes, head & 0x7ff00000u); }

// A square of f32 is narrow if only the top bit and the lowest seven bits of its words may be set.
// Words 0 and 16 are exempt: they may begin rows, and have no predecessor along x, so their
// residuals are long even where a field is smooth. In a narrow square, the first column and the
// last seven hold one byte of each word. All other columns contain bits of words 0 and 16 only.
constexpr u32 kNarrowBits = 0x8000007fu;  // of a word
constexpr u32 kEdgeBits = 0x80008000u;    // of a column: the bits of words 0 and 16

// The same as transpose(), for a narrow square.
__device__ __forceinline__ void transpose_narrow(u32 (&square)[32]) {
    const u32 upper = __byte_perm(square[16], square[0], 0x7632), lower = __byte_perm(square[16], square[0], 0x5410);
    u32 bytes[8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        const u32 low = __byte_perm(__byte_perm(square[i + 24], square[i + 16], 0x0040), __byte_perm(square[i + 8], square[i], 0x0040), 0x5410);
        const u32 top = __byte_perm(__byte_perm(square[i + 24], square[i + 16], 0x0073), __byte_perm(square[i + 8], square[i], 0x0073), 0x5410);
        bytes[i] = select_bits(0x7f7f7f7fu, low, top);
    }
    transpose_bytes(bytes);
    square[0] = bytes[0];
#pragma unroll
    for (u32 c = 1; c < 16; ++c) square[c] = upper << c & kEdgeBits;
#pragma unroll
    for (u32 c = 0; c < 9; ++c) square[16 + c] = lower << c & kEdgeBits;
#pragma unroll
    for (u32 c = 1; c < 8; ++c) square[24 + c] = bytes[c];
}

// Computes the words of a narrow square from its columns, and undoes fold_sign.
__device__ __forceinline__ void unfold_narrow(const u32 (&square)[32], u32 (&line)[32]) {
    u32 upper = 0, lower = 0;
#pragma unroll
    for (u32 c = 1; c < 16; ++c) upper |= square[c] >> c;
#pragma unroll
    for (u32 c = 0; c < 9; ++c) lower |= square[16 + c] >> c;
    u32 bytes[8];
    bytes[0] = square[0];
#pragma unroll
    for (u32 c = 1; c < 8; ++c) bytes[c] = square[24 + c] ^ square[0];
    transpose_bytes(bytes);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        line[i] = signed_byte<3>(bytes[i]);
        line[i + 8] = signed_byte<2>(bytes[i]);
        line[i + 16] = signed_byte<1>(bytes[i]);
        line[i + 24] = signed_byte<0>(bytes[i]);
    }
    line[0] ^= __byte_perm(lower, upper, 0x7632);
    line[16] ^= __byte_perm(lower, upper, 0x5410);
}

// The thread's share of a group. A group belongs to one lane for f32, to four lanes for f64.
template <typename W>
struct Part {
    // True if the thread writes the head of its columns. For f64, two lanes of a group share each
    // column (0 and 2, or 1 and 3); the first of the two writes the head.
    static __device__ __forceinline__ bool leads() { return Type<W>::kParts == 1 || lane_id() % 4 < 2; }
    // Index of the thread's u32 in the group's head word, and in the words of its columns.
    static __device__ __forceinline__ u32 head_half() { return Type<W>::kParts == 1 ? 0 : 1 - lane_id() % 2; }
    static __device__ __forceinline__ u32 column_half() { return Type<W>::kParts == 1 ? 0 : leads() ? 1 : 0; }

    // Returns the number of columns that precede the thread's columns in its warp. `columns` is the
    // number of columns in the thread's head. Sets `in_warp` to the warp's total.
    static __device__ __forceinline__ u32 columns_before(u32 columns, u32& in_warp) {
        const u32 counted = leads() ? columns : 0;
        const u32 through = warp_inclusive_sum(counted);
        in_warp = __shfl_sync(kAllLanes, through, kWarp - 1);
        const u32 before = through - counted;
        return Type<W>::kParts == 1 ? before : __shfl_sync(kAllLanes, before, lane_id() & ~2u);
    }
};
