// Compression (`fast`) in one pass, by the protocol of common/ordered_frames.cuh: one CTA a block of 4096 elements at a time,
// many CTAs per multiprocessor. For every block:
//   1. Its words are copied to shared memory (load.cuh). The bits that any has and their range are found by all threads;
//      zeros at the end that all have are shifted out, and what is left are the numbers of the map BITS (maps.cuh).
//   2. Some rows are predicted with each candidate for the orders; the bits of their residuals are the costs (orders.cuh).
//      Where exponents differ, the numbers of the map FIXED go to the other buffer and are tried as well.
//   3. Residuals go to the other buffer (stage/differences.cuh): a warp makes eight rows at a time, in registers. Of whole
//      planes these are its group's; of other boxes each row is for itself.
//   4. A warp has a group: it counts for every width how many residuals are longer, in bit slices: word k of six counts in
//      binary, bit by bit, the residuals of a lane that are longer than k bits. Then lane k knows the count of width k and
//      what it costs (stage/widths.cuh).
//   5. The size of the block is published, and the groups are packed to a stage in the place of the numbers
//      (stage/pack.cuh).
//   6. The first warp looks back for the place of the block; all copy the stage to the payload and sum it up.
//
// A block that takes longer than others holds up all that look back at it. So the paths for clipped blocks matter, too.
//
// Chunks that do not get smaller are encoded first, and copied at the end.

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/ordered_frames.cuh"
#include "../common/warp.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "../stage/fixed.cuh"
#include "../stage/pack.cuh"
#include "../stage/widths.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"
#include "load.cuh"
#include "maps.cuh"
#include "orders.cuh"

template <typename W>
struct LorenzoCompressor {
    using Shared = LorenzoShared<W>;
    static constexpr u32 kPerUnit = Word<W>::kPerUnit;

    const CompressArgs<Blocks>& args;
    Shared& shared;
    const Element element;
    const OrderedFrames<FrameLayout> frames;

    __device__ __forceinline__ LorenzoCompressor(const CompressArgs<Blocks>& args, Shared& shared)
        : args(args), shared(shared), element(args.encoded),
          frames(args, FrameLayout{args.own, element.bytes}, args.own.n_blocks, args.own.n_blocks) {}

    __device__ __forceinline__ void run() const {
        frames.run<kLorenzoThreads>(shared.drawn, shared.sums, [&](u32 chunk, u32 block) { return encode(chunk, block); });
    }

    // Makes the frame's block, and is the sums in the first thread. By all threads.
    __device__ __forceinline__ Sums encode(u32 chunk, u32 block) const {
        const u32 warp = threadIdx.x / kWarp, lane = lane_id();
        if (threadIdx.x == kLorenzoThreads - 1) {
            const Box found = find_box(args.own.extents, kLogBlock, block);
            shared.box.set(found, kLogBlock);
            shared.is_full = OrderChoice<W>::is_full(found);
            shared.cubic = Orders{found.sz > 1 ? 3u : 0u, found.sy > 1 ? 3u : 0u, found.sx > 1 ? 3u : 0u};
        }
        __syncthreads();
        const u32 m = shared.box.m;
        W* numbers = shared.buffers[0].words;
        W* residuals = shared.buffers[1].words;
        BlockLoader<W>{args, shared.box, element}.load_words(frames.source(chunk), numbers);
        __syncthreads();

        W all_or, low, high;
        const MapChoice<W> maps{shared, element};
        maps.look_at_words(numbers, all_or, low, high);
        const bool is_const = low == high;
        uint2 own_header = {};
        if (likely(!is_const)) {
            Mapping<W> mapping = {kBits, 0, 0};
            Orders orders = {0, 0, 0};
            maps.choose(numbers, residuals, all_or, low, high, mapping, orders);
            if (threadIdx.x == 0) shared.header = block_header(mapping, orders);
            const Widths own = Differences<W, kGroups>{shared.box}.write_residuals(numbers, residuals, mapping.base, orders);
            own_header = own.header();
            if (lane == 0) shared.sections[warp] = make_uint4(own.packed_bytes(), own.bitmap_bytes(), own.patch_bytes(), 0);
            __syncthreads();
        }
        // Sections of SPLIT.
        const u32 n_groups = (m + kGroup - 1) / kGroup;
        u32 packed = kHeaderBytes + 8 * n_groups, bitmap = 0, patches = 0, all_packed = packed, all_bitmaps = 0, all_patches = 0;
#pragma unroll
        for (u32 g = 0; g < kGroups; ++g) {
            const uint4 bytes = shared.sections[g];
            if (g < warp) packed += bytes.x, bitmap += bytes.y, patches += bytes.z;
            all_packed += bytes.x;
            all_bitmaps += bytes.y;
            all_patches += bytes.z;
        }
        bitmap += all_packed;
        patches += all_packed + all_bitmaps;
        const u32 raw_units = 1 + (m * element.bytes + kUnitBytes - 1) / kUnitBytes;
        const u32 split_units = (all_packed + all_bitmaps + all_patches + kUnitBytes - 1) / kUnitBytes;
        const u32 coder = is_const ? kConst : split_units < raw_units ? kSplit : kRaw;
        const u32 n_units = coder == kConst ? 1 : coder == kSplit ? split_units : raw_units;
        if (threadIdx.x == 0) frames.publish(chunk, block, n_units);

        unsigned char* const stage = reinterpret_cast<unsigned char*>(numbers);
        if (likely(coder == kSplit)) {
            // Strings are added to zeros, in words of 4 bytes.
            for (u32 at = all_packed + all_bitmaps + threadIdx.x * 4; at < n_units * kUnitBytes; at += kLorenzoThreads * 4) {
                *reinterpret_cast<u32*>(stage + at) = 0;
            }
            __syncthreads();
            if (threadIdx.x == 0) *reinterpret_cast<uint4*>(stage) = shared.header;
            if (warp < n_groups) {
                if (lane == 0) *reinterpret_cast<uint2*>(stage + kHeaderBytes + 8 * warp) = own_header;
                const Widths own(own_header, min(m - warp * kGroup, kGroup));
                pack(stage + packed, stage + bitmap, stage, patches, residuals + warp * kGroup, own);
            }
        }
        __syncthreads();
        if (warp == 0) {
            const u32 before = frames.place(chunk, block, n_units);
            if (lane == 0) shared.before = before;
        }
        __syncthreads();
        const u32 before = shared.before;
        char* const to = frames.payload(chunk);
        const u32 tiles = frames.tiles;
        const u64 first = table_bytes(tiles) + static_cast<u64>(before) * kUnitBytes;
        UnitSums<kLorenzoThreads> unit_sums(first / 4 + 4 * threadIdx.x);
        const auto put = [&](u32 u, uint4 unit) {
            store_global_16(to + first + u * kUnitBytes, unit);
            unit_sums.add(unit);
        };
        if (likely(coder == kSplit)) {
#pragma unroll 2
            for (u32 u = threadIdx.x; u < n_units; u += kLorenzoThreads) put(u, load_shared_16(shared_address(stage) + u * kUnitBytes));
        } else {
#pragma unroll 1
            for (u32 u = threadIdx.x; u < n_units; u += kLorenzoThreads) put(u, plain_unit(coder, u, numbers, m));
        }
        Sums sums;
        unit_sums.finish(sums);
        shared.sums.share(sums);
        __syncthreads();
        sums = Sums();
        if (threadIdx.x == 0) {
            sums = shared.sums.sum();
            const u32 check = static_cast<u32>(checksum_of(sums.a, sums.b, n_units * kUnitBytes)), end = before + n_units;
            u32* const table = reinterpret_cast<u32*>(to);
            reinterpret_cast<uint2*>(table)[block] = make_uint2(end, check);
            sums.add(2ull * block, end);
            sums.add(2ull * block + 1, check);
            if (block + 1 == tiles) {
                // Zeros add nothing.
                for (u64 word = 2ull * tiles; word < table_bytes(tiles) / 4; ++word) table[word] = 0;
            }
        }
        return sums;
    }

    // Unit `u` of a block in RAW or CONST.
    __device__ __forceinline__ uint4 plain_unit(u32 coder, u32 u, const W* numbers, u32 m) const {
        if (u == 0) {
            const u64 base = coder == kConst ? numbers[0] : 0;
            return make_uint4(coder, 0, static_cast<u32>(base), static_cast<u32>(base >> 32));
        }
        const u32 map = shared.header.x >> 4 & 0xf, shift = shared.header.y;
        if (likely(map == kBits && shift == 0 && element.bytes == sizeof(W) && u * kPerUnit <= m)) return reinterpret_cast<const uint4*>(numbers)[u - 1];
        u64 halves[2] = {0, 0};
#pragma unroll 1
        for (u32 byte = 0; byte < kUnitBytes; byte += element.bytes) {
            const u32 i = ((u - 1) * kUnitBytes + byte) / element.bytes;
            bool damaged;
            const W own = i >= m ? 0 : map == kBits ? numbers[i] << shift : float_of_fixed(numbers[i], shift, damaged);
            const u64 bits = static_cast<u64>(own) & low_bits(static_cast<u64>(0), 8 * element.bytes);
            halves[0] |= byte < 8 ? bits << 8 * byte : 0;
            halves[1] |= byte < 8 ? 0 : bits << 8 * (byte - 8);
        }
        return join(halves);
    }

    static __device__ __forceinline__ uint4 block_header(const Mapping<W>& mapping, const Orders& orders) {
        const u64 base = mapping.base;
        const u32 flags = kSplit | mapping.map << 4 | orders.x << 8 | orders.y << 12 | orders.z << 16;
        return make_uint4(flags, mapping.shift, static_cast<u32>(base), static_cast<u32>(base >> 32));
    }
};

template <typename W>
__device__ __forceinline__ void compress(const CompressArgs<Blocks>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    LorenzoCompressor<W>(args, *reinterpret_cast<LorenzoShared<W>*>(bytes)).run();
}

template <typename W>
constexpr LaunchInfo kLorenzoCompressInfo = ordered_launch(kLorenzoThreads, sizeof(LorenzoShared<W>), 1);
