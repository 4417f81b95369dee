// Exceptions of a block, which are stored exactly: filled elements, which all have the same word,
// and outliers. Called by all threads of a CTA.

#pragma once

#include "../common/elements.cuh"
#include "../stage/bitmap_write.cuh"
#include "numbers.cuh"

// Finds the addresses of a block's elements, or of one part of each, by their indices.
struct Finder {
    const Chunk& chunk;
    const RowBox& box;
    const SmallDivisor rows;  // divides by the length of a row

    __device__ __forceinline__ Finder(const Chunk& chunk, const RowBox& box) : chunk(chunk), box(box), rows(box.is_line() ? kRow : box.sx) {}

    // Address of element i. `array` is the address of the part in the array's first element; a part
    // has `part_bytes` bytes.
    __device__ __forceinline__ const char* find(const char* array, u32 i, u32 part_bytes) const {
        const u64 next_row = box.is_line() ? kRow : chunk.extents[2];
        u32 x, y;
        const u32 z = box.planes.divide(rows.divide(i, x), y);
        return array + ((box.start + z * chunk.extents[1] * next_row + y * next_row + x) * part_bytes << chunk.log_parts());
    }
};

template <typename W, bool kRows>
struct QuantExceptions {
    static constexpr u32 kNone = ~0u;
    static_assert(kQuantThreads == kElements / 32, "a thread has a word of marks");

    QuantShared<W>& shared;
    const Numbers<W, kRows> numbers;
    const Finder elements;
    const char* const array;
    const Element& element;
    const bool swaps;

    __device__ __forceinline__ W word(u32 i) const { return load_element<W>(elements.find(array, i, element.bytes), element, swaps); }

    // Gives each element without a code the code of another element, and marks filled elements and
    // outliers in their bitmaps. Returns false, in all threads, if the block must store words
    // instead. Has barriers.
    __device__ __forceinline__ bool find() const {
        const u32 t = threadIdx.x, warp = t / kWarp, lane = lane_id(), m = shared.box.m;
        const u32 exist = low_bits(0u, min(m - min(m, 32 * t), 32u)), uncoded = shared.uncoded[t], coded = exist & ~uncoded;
        // Number indices: the last with a code up to the end of the thread's word, plus 1; the
        // first with a code; and the first without one.
        u32 through = coded ? 32 * t + 32 - __clz(coded) : 0;
#pragma unroll
        for (u32 step = 1; step < kWarp; step *= 2) {
            const u32 before = __shfl_up_sync(kAllLanes, through, step);
            if (lane >= step) through = max(through, before);
        }
        const u32 first_coded = warp_min_unsigned(coded ? 32 * t + __ffs(coded) - 1 : kNone);
        const u32 first_uncoded = warp_min_unsigned(uncoded ? 32 * t + __ffs(uncoded) - 1 : kNone);
        if (lane == kWarp - 1) shared.costs[0][warp] = through, shared.costs[1][warp] = first_coded, shared.costs[2][warp] = first_uncoded;
        __syncthreads();
        u32 last = __shfl_up_sync(kAllLanes, through, 1), first = kNone, fill_at = kNone;
        if (lane == 0) last = 0;
        for (u32 w = 0; w < kQuantWarps; ++w) {
            if (w < warp) last = max(last, shared.costs[0][w]);
            first = min(first, shared.costs[1][w]), fill_at = min(fill_at, shared.costs[2][w]);
        }
        if (first == kNone) return false;
        if (fill_at != kNone) {
            const W fill = word(fill_at);
            if (t == 0) shared.fill = fill;
#pragma unroll 1
            for (u32 k = warp; k < kElements / 32; k += kQuantWarps) {
                const u32 own = shared.uncoded[k];
                const u32 bitmap = own ? __ballot_sync(kAllLanes, own >> lane & 1 && word(k * 32 + lane) == fill) : 0;
                if (lane == 0) shared.fill_mask[k] = bitmap, shared.outliers[k] |= own & ~bitmap;
            }
        } else {
            shared.fill_mask[t] = 0;
        }
        __syncthreads();
        const u32 own_outliers = warp_sum(static_cast<u32>(__popc(shared.outliers[t]))), own_filled = warp_sum(static_cast<u32>(__popc(shared.fill_mask[t])));
        if (lane == 0) shared.costs[3][warp] = own_outliers, shared.costs[4][warp] = own_filled;
        __syncthreads();
        u32 n_outliers = 0, n_filled = 0;
        for (u32 w = 0; w < kQuantWarps; ++w) n_outliers += shared.costs[3][w], n_filled += shared.costs[4][w];
        if (n_outliers * 8 > m) return false;
        if (uncoded) {
            u32 from = last > 0 ? last - 1 : first;
#pragma unroll 1
            for (u32 i = 32 * t; i < min(32 * t + 32, m); ++i) {
                if (uncoded >> i % 32 & 1) {
                    numbers[i] = numbers[from];
                } else {
                    from = i;
                }
            }
        }
        const u32 changes = (shared.box.sz * shared.box.sy > 1 ? bitmap_changes(shared.fill_mask, shared.box.sx) : shared.fill_mask[t]) & exist;
        const u32 coded_bytes = BitmapWriter<kQuantThreads>({changes}, (m + 31) / 32, shared.bitmap_totals).n_bytes();
        const u32 plain_bytes = (m + 31) / 32 * 4;
        const auto start = numbers[0];
        __syncthreads();
#pragma unroll 1
        for (u32 i = t; i < m; i += kQuantThreads) numbers[i] -= start;
        if (t == 0) {
            shared.first_code += sizeof(start) == sizeof(W) ? static_cast<W>(start) : static_cast<W>(static_cast<s64>(static_cast<s32>(start)));
            shared.n_filled = n_filled, shared.n_outliers = n_outliers;
            shared.bitmap_bytes = min(coded_bytes, plain_bytes), shared.is_bitmap_coded = coded_bytes <= plain_bytes;
        }
        __syncthreads();
        return true;
    }

    // Bytes of the fill mask section and of the outliers section.
    __device__ __forceinline__ u32 fill_mask_bytes() const { return shared.n_filled ? static_cast<u32>(sizeof(W)) + kAlignment + aligned_up(shared.bitmap_bytes, kAlignment) : 0; }
    __device__ __forceinline__ u32 outlier_bytes() const {
        return shared.n_outliers ? aligned_up(2 + 2 * shared.n_outliers, kAlignment) + aligned_up(shared.n_outliers * element.bytes, kAlignment) : 0;
    }

    // Writes both sections to the zeroed stage, from byte `at` on. Has barriers.
    __device__ __forceinline__ void write(unsigned char* stage, u32 at) const {
        const u32 t = threadIdx.x, m = shared.box.m, n_words = (m + 31) / 32;
        const u32 exist = low_bits(0u, min(m - min(m, 32 * t), 32u));
        if (shared.n_filled > 0) {
            if (t == 0) {
                u32* const to = reinterpret_cast<u32*>(stage + at);
                const u64 fill = shared.fill;
                to[0] = static_cast<u32>(fill);
                if (sizeof(W) == 8) to[1] = static_cast<u32>(fill >> 32);
                to[sizeof(W) / 4] = shared.n_filled | (shared.bitmap_bytes | (shared.is_bitmap_coded ? kCodedBitmap : 0)) << 16;
            }
            const u32 bitmap = at + sizeof(W) + kAlignment;
            if (shared.is_bitmap_coded) {
                const u32 changes = (shared.box.sz * shared.box.sy > 1 ? bitmap_changes(shared.fill_mask, shared.box.sx) : shared.fill_mask[t]) & exist;
                BitmapWriter<kQuantThreads>({changes}, n_words, shared.bitmap_totals).write(stage, bitmap);
            } else if (t < n_words) {
                reinterpret_cast<u32*>(stage + bitmap)[t] = shared.fill_mask[t];
            }
            at += fill_mask_bytes();
        }
        __syncthreads();
        if (shared.n_outliers == 0) return;
        const BitmapWriter<kQuantThreads> outliers({shared.outliers[t]}, n_words, shared.bitmap_totals);
        unsigned short* const places = reinterpret_cast<unsigned short*>(stage + at);
        unsigned char* const to = stage + at + aligned_up(2 + 2 * shared.n_outliers, kAlignment);
        if (t == 0) places[0] = static_cast<unsigned short>(shared.n_outliers);
        u32 n = outliers.marked_before();
#pragma unroll 1
        for (u32 left = outliers.words[0]; left != 0; left &= left - 1, ++n) {
            const u32 i = 32 * t + __ffs(left) - 1;
            places[n + 1] = static_cast<unsigned short>(i);
            const u64 bits = word(i);
            if (sizeof(W) == 8) {
                u32* const words = reinterpret_cast<u32*>(to + 8 * n);
                words[0] = static_cast<u32>(bits), words[1] = static_cast<u32>(bits >> 32);
            } else {
                store_element(to + element.bytes * n, element, false, static_cast<W>(bits));
            }
        }
    }
};
