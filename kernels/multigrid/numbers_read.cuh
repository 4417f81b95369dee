// Decodes the numbers of a payload: two warps per block, in contexts of nearby numbers
// (stage/contexts.cuh). Stores them in the order of nodes. Also adds the rest of the payload to the
// checksum.

#pragma once

#include "../stage/contexts.cuh"
#include "decompress.cuh"

constexpr u32 kMostTablesBytes = 2048;  // maximum bytes of a block's head, field, tables and states
constexpr u32 kNumbersThreads = 2 * kWarp;

template <typename W>
struct NumbersShared {
    ContextTables<W> tables;
    Relay relay;
    CtaSums<kNumbersThreads / kWarp> sums;
};

template <typename W, bool kPart>
struct NumbersReader : DecompressTile<Chunk> {
    NumbersShared<W>& shared;
    const Work<W> work;
    const Plan& plan;

    __device__ __forceinline__ NumbersReader(const DecompressArgs<Chunk>& args, NumbersShared<W>& shared)
        : DecompressTile<Chunk>(args), shared(shared), work(work_of<W>(args, chunk)), plan(work.plan()) {}

    __device__ __forceinline__ void run() const {
        Sums sums;
        u32 damage = plan.damage;
        if (unlikely(plan.is_stored)) {
            const u64 raw_bytes = static_cast<u64>(args.own.elements()) * sizeof(W);
            if (kPart) {
                damage = check_length(frame_bytes, args.stored.n_bytes + raw_bytes);
                if (damage == 0) copy_region<kNumbersThreads>(static_cast<const RegionArgs<Chunk>&>(args).region, sizeof(W), frame + args.stored.n_bytes, array, tile, tiles);
            } else {
                damage = copy_share<kNumbersThreads, Pieces::kBytes>(raw_bytes, (raw_bytes / tiles / kUnitBytes + 1) * kUnitBytes, sums);
            }
        } else if (damage == 0) {
            sum_up_rest(sums);
            if (tile < plan.n_blocks * args.own.n_layers) damage = read_block(plan.layers[tile / plan.n_blocks], tile % plan.n_blocks, sums);
        }
        add(shared.sums, sums, damage);
        finish(count(), !(kPart && plan.is_stored));
    }
    // Adds words [first, first + n) of the payload to the sums.
    __device__ __forceinline__ void sum_up(u64 first, u64 n, Sums& sums) const {
        const u32* const words = reinterpret_cast<const u32*>(payload) + first;
        StridedSums<kNumbersThreads> word_sums(first + threadIdx.x);
#pragma unroll 4
        for (u64 i = threadIdx.x; i < n; i += kNumbersThreads) word_sums.add(words[i]);
        word_sums.finish(first + threadIdx.x, sums);
    }
    // Adds this tile's share of the exact elements to the checksum; the first tile also adds the
    // head.
    __device__ __forceinline__ void sum_up_rest(Sums& sums) const {
        if (tile == 0) sum_up(0, args.own.head_bytes() / 4, sums);
#pragma unroll 1
        for (u32 layer = 0; layer < args.own.n_layers; ++layer) {
            const u64 n_words = plan.layers[layer].n_exact / 4, share = n_words / tiles + 1, first = tile * share;
            if (first >= n_words) continue;
            Sums own;
            sum_up(plan.layers[layer].exact_at / 4 + first, min(share, n_words - first), own);
            sums.a += own.a, sums.b += own.b;
            if (args.own.n_layers > 1) add_exact(layer, own);
        }
    }
    // Adds to the sums of a layer's exact elements, which have a check of their own.
    __device__ __forceinline__ void add_exact(u32 layer, const Sums& own) const {
        const u64 a = warp_sum(own.a), b = warp_sum(own.b);
        Sums& all = zeroed_of(args, chunk).exact[layer];
        if (lane_id() > 0) return;
        atomicAdd(reinterpret_cast<unsigned long long*>(&all.a), static_cast<unsigned long long>(a));
        atomicAdd(reinterpret_cast<unsigned long long*>(&all.b), static_cast<unsigned long long>(b));
    }

    // Decodes a block of a layer. Returns a damage code, or 0 if the block is sound.
    __device__ __forceinline__ u32 read_block(const Layer& layer, u32 block, Sums& sums) const {
        const u32 entry_word = static_cast<u32>(layer.start / 4) + kEntryBytes / 4 * block;
        // Further layers begin at any word, so entries are read word by word.
        const u32* const table = reinterpret_cast<const u32*>(payload + layer.start) + 2 * block;
        const u32 begin = block ? table[-2] : 0, end = table[0], check = table[1];
        const u64 blocks_at = layer.start + static_cast<u64>(kEntryBytes) * plan.n_blocks, blocks_bytes = layer.exact_at - blocks_at;
        const u64 first = static_cast<u64>(begin) * kUnit, last = static_cast<u64>(end) * kUnit;
        if (last < first || last > blocks_bytes || (block + 1 == plan.n_blocks && last != blocks_bytes)) return kMarkCorrupt;
        const NumberBlock box(plan, block);
        // Reject a block that is longer than any valid one, without reading it.
        if (last - first > static_cast<u64>(box.m) * (sizeof(W) + 1) + kMostTablesBytes) return kMarkCorrupt;
        Sums own;
        sum_up((blocks_at + first) / 4, (last - first) / 4, own);
        shared.sums.share(own);
        __syncthreads();
        const Sums all = shared.sums.sum();
        __syncthreads();
        sums.a += own.a, sums.b += own.b;
        if (threadIdx.x == 0) sums.add(entry_word, end), sums.add(entry_word + 1, check);
        if (!(args.flags & kSkipChecksum) && static_cast<u32>(checksum_of(all.a, all.b, last - first)) != check) return kMarkCorrupt;
        return decode(box, work.numbers(static_cast<u32>(&layer - plan.layers)), reinterpret_cast<const unsigned char*>(payload + blocks_at + first), static_cast<u32>(last - first));
    }
    __device__ __forceinline__ u32 decode(const NumberBlock& block, W* numbers, const unsigned char* source, u32 n_bytes) const {
        if (n_bytes < kBlockHead) return kMarkCorrupt;
        const u32 kind = *reinterpret_cast<const u32*>(source);
        u32 n_read = 0;
        if (kind == kCoded) {
            n_read = decode_numbers(block, numbers, source + kBlockHead, n_bytes - kBlockHead);
            if (n_read == 0) return kMarkCorrupt;
        } else if (kind == kRaw) {
            n_read = block.m * sizeof(W);
            if (n_read > n_bytes - kBlockHead) return kMarkCorrupt;
            const NumberPlaces places(block);
            for (u32 i = threadIdx.x; i < block.m; i += kNumbersThreads) numbers[places(i)] = load_word<W>(source + kBlockHead + i * sizeof(W));
        } else if (kind == kZeros) {
            const NumberPlaces places(block);
            for (u32 i = threadIdx.x; i < block.m; i += kNumbersThreads) numbers[places(i)] = 0;
        } else {
            return kMarkUnsupported;
        }
        return aligned_up(kBlockHead + n_read, kUnit) == n_bytes ? 0 : kMarkCorrupt;
    }
    // Decodes numbers in contexts. Returns the number of bytes read, or 0 if they are damaged.
    __device__ __forceinline__ u32 decode_numbers(const NumberBlock& block, W* numbers, const unsigned char* source, u32 n_bytes) const {
        constexpr u32 kRows = TailReader<W>::kBatch;
        if (block.sx != kRow) {
            const NumberPlaces places(block);
            return read_in_contexts<kNumbersThreads>(shared.tables, shared.relay, source, n_bytes, block, [&](u32 row, u32, auto& rows) {
#pragma unroll
                for (u32 k = 0; k < kRows; ++k) {
                    const u32 i = (row + k) * kRow + lane_id();
                    if (i < block.m) numbers[places(i)] = rows[k];
                }
            });
        }
        W* to = numbers + block.start + lane_id();
        // Distances to the next row: within a plane, and from a plane's last row to the next plane.
        const u64 next_row = block.row, next_plane = block.plane - (block.sy - 1) * block.row;
        u32 y = 0;
        return read_in_contexts<kNumbersThreads>(shared.tables, shared.relay, source, n_bytes, block, [&](u32, u32 n, auto& rows) {
#pragma unroll
            for (u32 k = 0; k < kRows; ++k) {
                if (k >= n) break;
                *to = rows[k];
                const bool ends = ++y == block.sy;
                to += ends ? next_plane : next_row;
                if (ends) y = 0;
            }
        });
    }
};

template <typename W, bool kPart>
__device__ __forceinline__ void multigrid_read_numbers(const DecompressArgs<Chunk>& args) {
    extern __shared__ __align__(512) unsigned char bytes[];
    NumbersReader<W, kPart>(args, *reinterpret_cast<NumbersShared<W>*>(bytes)).run();
}
