// Decompression of the blocks of a flat payload (flat.cuh), one block per CTA.

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/frame.cuh"
#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "boxes.cuh"
#include "flat.cuh"

// All threads sum up the bytes of a block. Then the codec decodes the block by
//
//   Self::decode(const unsigned char* source, u32 block_bytes, u32 m, bool is_checked)
//
// m: the block's elements. decode() returns a damage code, or 0 if the block is sound; only the
// result of thread 0 is used. `is_checked` says whether the block matches its checksum; it is valid
// in thread 0 only. Elements have the size of T. kPart: stores only the elements of a region; the
// launch arguments are then those of region.cuh, and there is one CTA for each block from the first
// to the last that the region touches.
template <typename Self, typename T, u32 kThreads, bool kPart>
struct FlatTile : DecompressTile<Flat> {
    static constexpr u32 kBytes = sizeof(T), kWarps = kThreads / kWarp;

    CtaSums<kWarps>& sums;
    const u32 block;

    __device__ __forceinline__ FlatTile(const DecompressArgs<Flat>& args, CtaSums<kWarps>& sums)
        : DecompressTile<Flat>(args), sums(sums), block(kPart ? touched_block() : tile) {}

    __device__ __forceinline__ const uint2* table() const { return reinterpret_cast<const uint2*>(payload); }
    __device__ __forceinline__ u64 raw_bytes() const { return args.own.n * kBytes; }
    __device__ __forceinline__ bool is_last() const { return block + 1 == args.own.n_blocks; }
    __device__ __forceinline__ const Region& region() const { return static_cast<const RegionArgs<Flat>&>(args).region; }
    __device__ __forceinline__ u32 touched_block() const {
        const u64 extents[3] = {1, 1, args.own.n};
        return touched_box(region(), extents, args.own.log_block(), tile);
    }
    // For a region, only the blocks that it touches have been read, so the checksum of the whole
    // payload is not verified.
    __device__ __forceinline__ void finish(u32 n_before) const { DecompressTile<Flat>::finish(n_before, !kPart); }

    __device__ __forceinline__ void run() {
        // Header and table can be read before the frame's length is checked, so all these loads are
        // in flight together.
        const bool exists = block != kNoBlock, stored = is_stored(args.stored, frame);
        const u32 begin = exists && block ? table()[block - 1].x : 0;
        const uint2 entry = exists ? table()[block] : make_uint2(0, 0);
        u32 damage = stored ? check_length(frame_bytes, args.stored.n_bytes + raw_bytes()) : check_frame(args.own.table_bytes());
        if (kPart && damage == 0 && !stored) {
            damage = check_length(n_bytes, args.own.table_bytes() + static_cast<u64>(table()[args.own.n_blocks - 1].x) * kUnitBytes);
        }
        if (likely(!stored & (damage == 0) & exists)) return decode_block(begin, entry.x, entry.y);
        Sums own;
        if (stored && kPart && damage == 0) {
            copy_region<kThreads>(region(), kBytes, frame + args.stored.n_bytes, array, tile, tiles);
        } else if (stored && !kPart) {
            // All tiles copy equal shares, as the last block may be shorter.
            damage = copy_share<kThreads, Pieces::kBytes>(raw_bytes(), (raw_bytes() / tiles / kUnitBytes + 1) * kUnitBytes, own);
        }
        add(sums, own, damage);
        finish(count());
    }

    // Decodes the block in units [begin, end), as listed in the table.
    __device__ __forceinline__ void decode_block(u32 begin, u32 end, u32 check) {
        const u64 first = args.own.table_bytes() + static_cast<u64>(begin) * kUnitBytes, last = args.own.table_bytes() + static_cast<u64>(end) * kUnitBytes;
        const bool is_corrupt = (end <= begin) | (is_last() & (last < n_bytes));
        const u32 damage = is_corrupt ? kMarkCorrupt : last > n_bytes ? kMarkTruncated : 0;
        const u64 block_bytes = damage ? 0 : last - first;
        const unsigned char* const source = reinterpret_cast<const unsigned char*>(payload) + first;
        const bool is_checked = sum_up(reinterpret_cast<const uint4*>(source), first, block_bytes, end, check, damage);
        if (block_bytes > 0) {
            const u32 available = static_cast<u32>(min(block_bytes, static_cast<u64>(~0u) / kUnitBytes * kUnitBytes));
            const u32 of_codec = static_cast<Self*>(this)->decode(source, available, args.own.of_block(block), is_checked);
            if (threadIdx.x == 0) report(of_codec);
        }
        __syncthreads();
        finish(count());
    }
    // The damage code of a block of unknown kind. If its checksum is right, a later version has
    // written it.
    static __device__ __forceinline__ u32 unknown(bool is_checked) { return is_checked ? kMarkUnsupported : kMarkCorrupt; }
    // Returns a damage code if a block with `n` bytes of contents does not have the required
    // length, or 0.
    static __device__ __forceinline__ u32 check_units(u64 n, u32 block_bytes) {
        return (n + kUnitBytes - 1) / kUnitBytes * kUnitBytes == block_bytes ? 0 : kMarkCorrupt;
    }

    // Sums up the block's bytes, which begin at byte `first` of the payload, and reports damage.
    // Thread 0 returns true if the block checksum is right.
    __device__ __forceinline__ bool sum_up(const uint4* units, u64 first, u64 block_bytes, u32 end, u32 check, u32 damage) const {
        Sums all;
        UnitSums<kThreads> unit_sums(first / 4 + 4 * threadIdx.x);
#pragma unroll 4
        for (u64 u = threadIdx.x; u < block_bytes / kUnitBytes; u += kThreads) unit_sums.add(units[u]);
        unit_sums.finish(all);
        sums.share(all);
        __syncthreads();
        if (threadIdx.x != 0) return true;
        all = sums.sum();
        const bool is_checked = static_cast<u32>(checksum_of(all.a, all.b, block_bytes)) == check;
        all.add(2ull * block, end);
        all.add(2ull * block + 1, check);
        if (is_last()) {
            for (u64 word = 2ull * args.own.n_blocks; word < args.own.table_bytes() / 4; ++word) all.add(word, reinterpret_cast<const u32*>(payload)[word]);
        }
        slot()->add(all);
        // A block with a damaged location was not summed, so its checksum is not compared.
        report(damage ? damage : !is_checked && !(args.flags & kSkipChecksum) ? kMarkCorrupt : 0);
        return is_checked;
    }

    // Finds the index of block element i in the output. Returns false if the element is not wanted.
    __device__ __forceinline__ bool find(u32 i, u64& at) const {
        at = (static_cast<u64>(block) << args.own.log_block()) + i;
        return !kPart || region().find(2, at, at);
    }
};
