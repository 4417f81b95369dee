// Parses the header of a block and finds the byte offsets of its sections. Checks lengths and
// offsets before they are used.

#pragma once

#include "../common/tile.cuh"
#include "../stage/differences.cuh"
#include "../stage/words.cuh"
#include "layout.cuh"

// Checks a raw block, whose elements take `raw_bytes` bytes, or a constant block. `start`: the
// block's first word. Returns a damage code, or 0 if the block is sound.
template <typename W>
__device__ __forceinline__ u32 plain_damage(u32 start, u32 raw_bytes, u32 n_bytes, u32 log_unit) {
    if (start != kRawBlock && start != kConstBlock) return kMarkUnsupported;
    const u32 need = kAlignment + (start == kRawBlock ? raw_bytes : static_cast<u32>(sizeof(W)));
    return units_of(need, log_unit) << log_unit == n_bytes ? 0 : kMarkCorrupt;
}

template <typename W>
struct BlockPlan {
    u32 header;
    u32 x, y, z;  // orders of differences along each axis
    u32 n_widths;
    u32 table[2];  // bit widths of groups, one byte each, padded with 0xff
    W base;
    // Byte offset of the fill mask section, bytes of its bitmap, and number of filled elements.
    u32 fill_mask, bitmap_bytes, n_filled;
    bool is_bitmap_coded;
    // Byte offset of the outliers section, number of outliers, and byte offset of their elements.
    u32 outliers, n_outliers, outlier_elements;
    u32 index, byte_groups;                     // byte offsets: width indices, groups

    __device__ __forceinline__ bool is_plain() const { return header & kRawBlock; }
    __device__ __forceinline__ u32 bitmap() const { return fill_mask + sizeof(W) + kAlignment; }

    // Reads the header of a block of m elements that has `n_bytes` bytes, at least one unit.
    // Returns a damage code, or 0 if the header is sound. `has_codes`: the quantizer has codes, so
    // the block need not contain words. `has_widths`: groups have widths; otherwise the block has
    // entropy codes, which begin at `byte_groups`.
    __device__ __forceinline__ u32 read(const unsigned char* block, u32 n_bytes, u32 log_unit, u32 m, u32 element_bytes, bool has_codes, bool has_widths) {
        const u32* const words = reinterpret_cast<const u32*>(block);
        const u32 start = words[0];
        header = start & 0xffff;
        n_filled = n_outliers = 0;
        if (is_plain()) return plain_damage<W>(start, m * element_bytes, n_bytes, log_unit);
        if (!(header & kHasWords) && !has_codes) return kMarkCorrupt;
        if (header & kHasWords && header & (kHasFillMask | kHasOutliers)) return kMarkUnsupported;
        x = header & 7, y = header >> 3 & 7, z = header >> 6 & 7;
        n_widths = has_widths ? (header >> kWidthsAt & 7) + 1 : 0;
        if (!has_widths && header >> kWidthsAt & 7) return kMarkUnsupported;
        u32 at = aligned_up(2 + n_widths, kAlignment);
        if (at + sizeof(W) > n_bytes) return kMarkCorrupt;
        const u32 second = n_widths > 2 ? words[1] : 0, third = n_widths > 6 ? words[2] : 0;
        table[0] = __funnelshift_r(start, second, 16), table[1] = __funnelshift_r(second, third, 16);
        if (n_widths < 4) table[0] |= ~low_bits(0u, 8 * n_widths);
        if (n_widths < 8) table[1] |= ~low_bits(0u, 8 * max(n_widths, 4u) - 32);
        base = load_word<W>(block + at);
        at += sizeof(W);
        if (header & kHasFillMask) {
            fill_mask = at;
            if (bitmap() > n_bytes) return kMarkCorrupt;
            const u32 head = words[bitmap() / 4 - 1];
            n_filled = head & 0xffff, bitmap_bytes = head >> 16 & ~kCodedBitmap, is_bitmap_coded = head >> 16 & kCodedBitmap;
            if (n_filled == 0 || (!is_bitmap_coded && bitmap_bytes != (m + 31) / 32 * 4)) return kMarkCorrupt;
            at = bitmap() + aligned_up(bitmap_bytes, kAlignment);
            if (at > n_bytes) return kMarkCorrupt;
        }
        if (header & kHasOutliers) {
            outliers = at;
            if (at + kAlignment > n_bytes) return kMarkCorrupt;
            n_outliers = words[at / 4] & 0xffff;
            outlier_elements = at + aligned_up(2 + 2 * n_outliers, kAlignment);
            at = outlier_elements + aligned_up(n_outliers * element_bytes, kAlignment);
            if (n_outliers == 0 || at > n_bytes) return kMarkCorrupt;
        }
        index = at;
        byte_groups = at + aligned_up(((m + kByteGroup - 1) / kByteGroup * index_bits(n_widths) + 7) / 8, kAlignment);
        return byte_groups > n_bytes ? kMarkCorrupt : 0;
    }

    // Whether the widths ascend and are at most the bits of a word. Memory safety does not depend
    // on this check.
    __device__ __forceinline__ bool is_table_sound() const {
        bool is_sound = true;
        u32 before = 0;
#pragma unroll
        for (u32 i = 0; i < kMaxWidths; ++i) {
            const u32 width = table[i / 4] >> i % 4 * 8 & 0xff;
            if (i < n_widths) is_sound &= width <= Word<W>::kBits && (i == 0 || width > before);
            before = width;
        }
        return is_sound;
    }
    __device__ __forceinline__ u32 longest() const { return (n_widths > 4 ? table[1] : table[0]) >> (n_widths - 1) % 4 * 8 & 0xff; }

    // The widths of four groups, one byte each, given their packed indices in the table of widths.
    // Indices past its end give 0xff.
    __device__ __forceinline__ u32 widths_of(u32 entries) const {
        const u32 n = index_bits(n_widths), up = 4 - n, mask = low_bits(0u, n);
        const u32 selector = (entries & mask) | (entries << up & mask << 4) | (entries << 2 * up & mask << 8) | (entries << 3 * up & mask << 12);
        return __byte_perm(table[0], table[1], selector);
    }
};
