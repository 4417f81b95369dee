// Decompression in one pass: one CTA a block.
//
//   1. All threads sum up the bytes of the block, and make the table of its codes (stage/section.cuh).
//   2. The first warp reads the numbers, a row of 32 at a time, adds up differences, and stores elements. The others wait.
//
// Of a region there is a CTA for each block from the first to the last that it touches, and only elements that are wanted are stored.

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/frame.cuh"
#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "../stage/boxes.cuh"
#include "../stage/section.cuh"
#include "layout.cuh"

constexpr u32 kHuffmanThreads = 64, kHuffmanWarps = kHuffmanThreads / kWarp;

template <typename T>
struct HuffmanShared {
    SectionTables<T> tables;
    CtaSums<kHuffmanWarps> sums;
};

// Elements have the bytes of T. kPart: only those of a region are stored, from the arguments of region.cuh.
template <typename T, bool kPart>
struct HuffmanDecompressor : DecompressTile<Numbers> {
    using Symbol = Symbols<T>;
    static constexpr u32 kBytes = sizeof(T);

    HuffmanShared<T>& shared;
    const u32 block;

    __device__ __forceinline__ HuffmanDecompressor(const DecompressArgs<Numbers>& args, HuffmanShared<T>& shared)
        : DecompressTile<Numbers>(args), shared(shared), block(kPart ? touched_block() : tile) {}

    __device__ __forceinline__ const uint2* table() const { return reinterpret_cast<const uint2*>(payload); }
    __device__ __forceinline__ u64 raw_bytes() const { return args.own.n * kBytes; }
    __device__ __forceinline__ bool is_last() const { return block + 1 == args.own.n_blocks; }
    __device__ __forceinline__ const Region& region() const { return static_cast<const RegionArgs<Numbers>&>(args).region; }
    __device__ __forceinline__ u32 touched_block() const {
        const u64 extents[3] = {1, 1, args.own.n};
        return touched_box(region(), extents, args.own.log_block(), tile);
    }
    // Of a region, blocks have been checked, not the payload.
    __device__ __forceinline__ void finish(u32 n_before) const { DecompressTile<Numbers>::finish(n_before, !kPart); }

    __device__ __forceinline__ void run() {
        // Header and table can be read whatever the frame's length is, so all these loads are under way together.
        const bool exists = block != kNoBlock, stored = is_stored(args.stored, frame);
        const u32 begin = exists && block ? table()[block - 1].x : 0;
        const uint2 entry = exists ? table()[block] : make_uint2(0, 0);
        u32 damage = stored ? check_length(frame_bytes, args.stored.n_bytes + raw_bytes()) : check_frame(args.own.table_bytes());
        if (kPart && damage == 0 && !stored) {
            damage = check_length(n_bytes, args.own.table_bytes() + static_cast<u64>(table()[args.own.n_blocks - 1].x) * kUnitBytes);
        }
        if (likely(!stored & (damage == 0) & exists)) return decode_block(begin, entry.x, entry.y);
        Sums sums;
        if (stored && kPart && damage == 0) {
            copy_region<kHuffmanThreads>(region(), kBytes, frame + args.stored.n_bytes, array, tile, tiles);
        } else if (stored && !kPart) {
            // Clipped blocks are shorter, so all tiles copy the same share.
            damage = copy_share<kHuffmanThreads, Pieces::kBytes>(raw_bytes(), (raw_bytes() / tiles / kUnitBytes + 1) * kUnitBytes, sums);
        }
        add(shared.sums, sums, damage);
        finish(count());
    }

    // The block that the table says is in units [begin, end).
    __device__ __forceinline__ void decode_block(u32 begin, u32 end, u32 check) {
        const u64 first = args.own.table_bytes() + static_cast<u64>(begin) * kUnitBytes, last = args.own.table_bytes() + static_cast<u64>(end) * kUnitBytes;
        const bool is_corrupt = (end <= begin) | (is_last() & (last < n_bytes));
        u32 damage = is_corrupt ? kMarkCorrupt : last > n_bytes ? kMarkTruncated : 0;
        const u64 block_bytes = damage ? 0 : last - first;
        const unsigned char* const source = reinterpret_cast<const unsigned char*>(payload) + first;
        const bool is_checked = sum_up(reinterpret_cast<const uint4*>(source), first, block_bytes, end, check, damage);
        if (block_bytes > 0) {
            const u32 kind = *reinterpret_cast<const u32*>(source), m = args.own.of_block(block);
            const u32 available = static_cast<u32>(min(block_bytes, static_cast<u64>(~0u)));
            if (kind == kRawBlock) {
                damage = check_units(m * kBytes, available);
                if (damage == 0) store_raw(source + kBlockHead, m);
            } else if (kind == kConstBlock) {
                damage = check_units(kBytes, available);
                const u32 element = *reinterpret_cast<const T*>(source + kBlockHead);
                if (damage == 0) {
                    for (u32 i = threadIdx.x; i < m; i += kHuffmanThreads) store(i, element);
                }
            } else if ((kind & ~0x100u) == kCodesBlock) {
                damage = decode_section(source + kBlockHead, available, m, kind >> 8);
            } else {
                // A block that a later version has written is none that is damaged, if its check is right.
                damage = is_checked ? kMarkUnsupported : kMarkCorrupt;
            }
            if (threadIdx.x == 0) report(damage);
        }
        __syncthreads();
        finish(count());
    }
    // Whether a block with so many bytes behind its head has as many as it is long.
    static __device__ __forceinline__ u32 check_units(u32 n, u32 block_bytes) {
        return (static_cast<u64>(n) + kBlockHead + kUnitBytes - 1) / kUnitBytes * kUnitBytes == block_bytes ? 0 : kMarkCorrupt;
    }

    // Sums up the block's bytes, which begin at byte `first` of the payload, and tells what is wrong; in the first thread, is whether the check is right.
    __device__ __forceinline__ bool sum_up(const uint4* units, u64 first, u64 block_bytes, u32 end, u32 check, u32 damage) const {
        Sums sums;
        UnitSums<kHuffmanThreads> unit_sums(first / 4 + 4 * threadIdx.x);
#pragma unroll 4
        for (u64 u = threadIdx.x; u < block_bytes / kUnitBytes; u += kHuffmanThreads) unit_sums.add(units[u]);
        unit_sums.finish(sums);
        shared.sums.share(sums);
        __syncthreads();
        if (threadIdx.x != 0) return true;
        sums = shared.sums.sum();
        const bool is_checked = static_cast<u32>(checksum_of(sums.a, sums.b, block_bytes)) == check;
        sums.add(2ull * block, end);
        sums.add(2ull * block + 1, check);
        if (is_last()) {
            for (u64 word = 2ull * args.own.n_blocks; word < args.own.table_bytes() / 4; ++word) sums.add(word, reinterpret_cast<const u32*>(payload)[word]);
        }
        slot()->add(sums);
        // What is cut off has no check.
        report(damage ? damage : !is_checked && !(args.flags & kSkipChecksum) ? kMarkCorrupt : 0);
        return is_checked;
    }

    // The section at `from`, of a block with so many bytes; is what is wrong, in the first thread.
    __device__ __forceinline__ u32 decode_section(const unsigned char* from, u32 block_bytes, u32 m, bool are_differences) const {
        const SectionHead head(reinterpret_cast<const u32*>(from));
        const u32 n_rows = (m + kWarp - 1) / kWarp;
        if (head.lowest + head.n_symbols > Symbol::kCount || head.tail_bytes > block_bytes) return kMarkCorrupt;
        if (const u32 damage = check_units(head.tails(n_rows) + head.tail_bytes, block_bytes)) return damage;
        shared.tables.template read<kHuffmanThreads>(head, from + head.lengths(n_rows));
        if (!shared.tables.is_sound) return kMarkCorrupt;
        if (warp_id() > 0) return 0;
        const bool has_signs = args.own.is_signed();
        u32 before = 0;
        const bool is_sound = read_section<T>(shared.tables, head, from, m, [&](u32 i, u32 number, bool exists) {
            u32 element = has_signs || are_differences ? Symbol::unfold_sign(number) : number;
            if (are_differences) {
                element = before + warp_inclusive_sum(element);
                before = __shfl_sync(kAllLanes, element, kWarp - 1);
            }
            if (exists) store(i, element);
        });
        return is_sound ? 0 : kMarkCorrupt;
    }

    // Elements as they are, in the machine's byte order.
    __device__ __forceinline__ void store_raw(const unsigned char* from, u32 m) const {
        T* const to = reinterpret_cast<T*>(array) + (static_cast<u64>(block) << args.own.log_block());
        if (!kPart && reinterpret_cast<u64>(to) % 4 == 0 && (kBytes == 1 || !(args.flags & kSwapBytes))) {
            const u32 n_words = m * kBytes / 4;
            for (u32 i = threadIdx.x; i < n_words; i += kHuffmanThreads) reinterpret_cast<u32*>(to)[i] = reinterpret_cast<const u32*>(from)[i];
            for (u32 i = 4 / kBytes * n_words + threadIdx.x; i < m; i += kHuffmanThreads) store(i, reinterpret_cast<const T*>(from)[i]);
        } else {
            for (u32 i = threadIdx.x; i < m; i += kHuffmanThreads) store(i, reinterpret_cast<const T*>(from)[i]);
        }
    }
    // Stores element i of the block, if it is wanted.
    __device__ __forceinline__ void store(u32 i, u32 element) const {
        u64 at = (static_cast<u64>(block) << args.own.log_block()) + i;
        if (kPart && !region().find(2, at, at)) return;
        store_element(array + at * kBytes, Element(args.encoded), args.flags & kSwapBytes, element);
    }
};

template <typename T>
__device__ __forceinline__ void huffman_decompress(const DecompressArgs<Numbers>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    HuffmanDecompressor<T, false>(args, *reinterpret_cast<HuffmanShared<T>*>(shared)).run();
}

template <typename T>
__device__ __forceinline__ void huffman_decompress_region(const RegionArgs<Numbers>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    HuffmanDecompressor<T, true>(args, *reinterpret_cast<HuffmanShared<T>*>(shared)).run();
}

template <typename T>
constexpr LaunchInfo kHuffmanDecompressInfo = {kHuffmanThreads, sizeof(HuffmanShared<T>), 0, 1, 0, kDecompressScratch, 0};
