// Loads the words of a block from the array to shared memory. Called by all threads of a CTA.

#pragma once

#include "../common/elements.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"

template <typename B>
struct BlockLoader {
    using W = typename B::W;
    static constexpr u32 kPerUnit = Word<W>::kPerUnit;

    const CompressArgs<Blocks>& args;
    const RowBox& box;
    const Element& element;  // an element, or one part of a complex element

    // The first element of the array that a block is in, or its part.
    __device__ __forceinline__ const char* source(const Ticket& tile) const {
        return static_cast<const char*>(args.src) + tile.chunk * args.src_stride + args.own.offset(tile.index, element);
    }

    // Loads the words by the fastest routine for the block's alignment and shape and the element's
    // size.
    __device__ __forceinline__ void load_words(const char* array, W* words) const {
        if (unlikely(args.own.log_parts)) return load_each(array, words);
        const char* const start = array + box.start * element.bytes;
        const u64 row_bytes = (box.is_line() ? kRow : args.own.extents[2]) * element.bytes, plane_bytes = args.own.extents[1] * row_bytes;
        const u64 misaligned = reinterpret_cast<u64>(start) | row_bytes;
        const u32 height = box.planes.divisor;
        const bool is_aligned = element.bytes == sizeof(W) && misaligned % kUnitBytes == 0 && !(args.flags & kSwapBytes);
        if (likely(is_aligned && (box.sx == kRow || box.is_line()) && box.m % (kSlab * kRow) == 0 && (height % kSlab == 0 || box.sz == 1))) {
            copy_slabs(start, row_bytes, plane_bytes, words);
            return;
        }
        if (sizeof(W) == 8 || element.bytes == 4) {
            load_rows(start, words);
        } else if (element.bytes == 2) {
            load_narrow<unsigned short>(start, words, misaligned);
        } else {
            load_narrow<unsigned char>(start, words, misaligned);
        }
    }

    // Copies a block with aligned rows of 32 numbers, in slabs of kSlab rows, each within one
    // plane. All threads copy units of 16 bytes.
    static constexpr u32 kSlab = 16;  // rows
    __device__ __forceinline__ void copy_slabs(const char* start, u64 row_bytes, u64 plane_bytes, W* words) const {
        constexpr u32 kRowUnits = kRow / kPerUnit, kRows = B::kThreads / kRowUnits;
        constexpr u32 kAtOnce = kRows > kSlab ? kRows / kSlab : 1;  // slabs that all threads copy at a time
        const u32 height = box.planes.divisor, own = threadIdx.x / (kSlab * kRowUnits);
        // If each plane is one slab, or if there is only one plane, the slabs are equally far
        // apart, and one loop copies all of them.
        const bool is_even = height == kSlab || box.sz == 1;
        const u32 n_slabs = is_even ? box.m / (kSlab * kRow) : height / kSlab, n_planes = is_even ? 1 : box.sz;
        const u64 next_rows = kRows * row_bytes, next_slab = height == kSlab ? plane_bytes : kSlab * row_bytes;
        const char* plane = start + own * next_slab + threadIdx.x / kRowUnits % kSlab * row_bytes + threadIdx.x % kRowUnits * kUnitBytes;
        u32 next_plane = shared_address(words) + threadIdx.x * kUnitBytes;
#pragma unroll 1
        for (u32 z = 0; z < n_planes; ++z, plane += plane_bytes, next_plane += n_slabs * (kSlab * kRowUnits * kUnitBytes)) {
            const char* slab = plane;
            u32 to = next_plane;
#pragma unroll 4
            for (u32 i = own; i < n_slabs; i += kAtOnce, slab += kAtOnce * next_slab) {
                const char* from = slab;
#pragma unroll
                for (u32 row = 0; row < kSlab; row += kRows, from += next_rows, to += B::kThreads * kUnitBytes) copy_async<kUnitBytes>(to, from);
            }
        }
        wait_copies();
    }

    // Loads rows that are not aligned. The threads form sets, each with one thread per number of a
    // row (at most 32). Each set loads an equal share of the rows.
    __device__ __forceinline__ void load_rows(const char* start, W* words) const {
        const u64 next_row = box.is_line() ? kRow : args.own.extents[2], next_plane = args.own.extents[1] * next_row;
        const u32 length = box.is_line() ? kRow : box.sx, n_rows = (box.m + length - 1) / length, height = box.planes.divisor;
        const u32 sharers = B::kThreads >> box.log_lanes, share = (n_rows + sharers - 1) / B::kGroups >> (5 - box.log_lanes);
        const u32 first = (threadIdx.x >> box.log_lanes) * share, last = min(first + share, n_rows);
#pragma unroll 1
        for (u32 x = threadIdx.x & low_bits(0u, box.log_lanes); x < length; x += kWarp) {
            u32 y;
            const u32 z = box.planes.divide(first, y);
            const W* from = reinterpret_cast<const W*>(start) + (z * next_plane + y * next_row + x);
            const u32 to = shared_address(words), end = min(last * length, box.m);
#pragma unroll 4
            for (u32 number = first * length + x; number < end; number += length) {
                copy_async<sizeof(W)>(to + number * static_cast<u32>(sizeof(W)), from);
                from += next_row;
                if (++y == height) y = 0, from += next_plane - height * next_row;
            }
        }
        wait_copies();
        if (!(args.flags & kSwapBytes)) return;
        __syncthreads();
        for (u32 i = threadIdx.x; i < box.m; i += B::kThreads) words[i] = swapped_bytes(words[i]);
    }

    // Loads elements of type T, which are narrower than words. If they are aligned, loads 32 bits
    // at a time.
    template <typename T>
    __device__ __forceinline__ void load_narrow(const char* start, W* words, u64 misaligned) const {
        const SmallDivisor planes = box.planes;
        const bool swaps = args.flags & kSwapBytes;
        const u64 next_row = box.is_line() ? kRow : args.own.extents[2], next_plane = args.own.extents[1] * next_row;
        const u32 length = box.is_line() ? kRow : box.sx;
        constexpr u32 kAtOnce = 4 / sizeof(T), kPerRow = kRow / kAtOnce, kBatch = 4;  // loads in flight
        if (likely(misaligned % 4 == 0 && length == kRow && box.m % kRow == 0)) {
            for (u32 first = threadIdx.x; first < box.m / kAtOnce; first += kBatch * B::kThreads) {
                u32 batch[kBatch];
#pragma unroll
                for (u32 i = 0; i < kBatch; ++i) {
                    const u32 at = first + i * B::kThreads;
                    u32 y;
                    const u32 z = planes.divide(at / kPerRow, y);
                    if (at < box.m / kAtOnce) batch[i] = *reinterpret_cast<const u32*>(start + (z * next_plane + y * next_row) * sizeof(T) + at % kPerRow * 4);
                }
#pragma unroll
                for (u32 i = 0; i < kBatch; ++i) {
                    const u32 at = first + i * B::kThreads;
                    if (at >= box.m / kAtOnce) continue;
#pragma unroll
                    for (u32 k = 0; k < kAtOnce; ++k) words[at * kAtOnce + k] = word_of_element<W>(static_cast<T>(batch[i] >> 8 * sizeof(T) * k), element, swaps);
                }
            }
            return;
        }
        const u32 n_rows = (box.m + length - 1) / length;
        for (u32 row = threadIdx.x / kWarp; row < n_rows; row += B::kGroups) {
            u32 y;
            const u32 z = planes.divide(row, y);
            const T* const from = reinterpret_cast<const T*>(start) + (z * next_plane + y * next_row);
#pragma unroll 1
            for (u32 x = lane_id(); x < length && row * length + x < box.m; x += kWarp) words[row * length + x] = word_of_element<W>(from[x], element, swaps);
        }
    }

    // Loads elements one by one, whatever their place is.
    __device__ __forceinline__ void load_each(const char* array, W* words) const {
        const Finder elements(*this);
        const bool swaps = args.flags & kSwapBytes;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < box.m; i += B::kThreads) words[i] = load_element<W>(elements.find(array, i), element, swaps);
    }

    // Finds the address of an element from its index in the block.
    struct Finder {
        const BlockLoader& loader;
        const SmallDivisor rows;  // divides by the number of elements per row

        __device__ __forceinline__ explicit Finder(const BlockLoader& loader) : loader(loader), rows(loader.box.is_line() ? kRow : loader.box.sx) {}

        __device__ __forceinline__ const char* find(const char* array, u32 i) const { return find(array, i, loader.element.bytes << loader.args.own.log_parts); }
        __device__ __forceinline__ const char* find(const char* array, u32 i, u32 pitch) const {
            const RowBox& box = loader.box;
            const u64 next_row = box.is_line() ? kRow : loader.args.own.extents[2];
            u32 x, y;
            const u32 z = box.planes.divide(rows.divide(i, x), y);
            return array + (box.start + z * loader.args.own.extents[1] * next_row + y * next_row + x) * pitch;
        }
    };
};
