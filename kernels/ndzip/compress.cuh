// Compression in one pass. Persistent CTAs of 8 compute warps and 2 writer warps; a tile is 32 KiB of
// input (two blocks of f32, one of f64) or 8192 (f32) or 4096 (f64) elements of the border.
//
// Tiles are handed out in their order by a counter: chunk after chunk, of each first the blocks, then the
// border. The compute warps, for every tile of blocks:
//   1. wait for its copy to shared memory (the slot), read it, difference it: now the heads, and so the
//      size, are known;
//   2. publish the size, hand it to the writer warps, start the copy of the next tile into the slot;
//   3. transpose, and write heads and columns, as they will be in the payload, to a stage in shared memory.
// Meanwhile the writer warps look back for the place of the tile (each by itself), one writes the offset
// table, then they copy the stage to the payload and sum it up for the checksum. Tiles of the border are copied by the compute
// warps as soon as the chunk's last block is placed.
//
// Barriers: compute and writer warps meet in named barriers only. kSized: the size of a tile is in
// `sized`; four of them, since the compute warps run at most three tiles ahead (they wait for a free
// stage). kFull: a stage is written. kEmpty: it may be overwritten.
//
// Bytes per element: all are read once, and once more from shared memory for the slowest axis; the payload
// is written once. Without asynchronous copies slot and stage are the same memory and nothing overlaps but
// CTAs.

#pragma once

#include "../common/checksum.cuh"
#include "../common/lookback.cuh"
#include "../common/tuning.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "transform.cuh"

constexpr u32 kTileBytes = 32768;
constexpr u32 kComputeThreads = kTileBytes / kLineBytes;
constexpr u32 kComputeWarps = kComputeThreads / kWarp;
constexpr u32 kCompressThreads = kComputeThreads + kWriterWarps * kWarp;

template <typename W>
constexpr u32 kTileBlocks = kTileBytes / kBlock / Type<W>::kBytes;

// Room for the longest tile, that of two blocks of f32.
constexpr u32 kStageBytes = (4 * padded(2 * Type<u32>::kMaxWords) + 127) / 128 * 128;

enum Barrier : u32 { kComputeBarrier = 1, kSizedBarrier = 2, kFullBarrier = 6, kEmptyBarrier = 8 };

struct Tile {
    u32 chunk;  // n_chunks: there are no more tiles
    u32 index;  // in the chunk
    u32 starts[2];  // first elements of its blocks
};

struct SizedTile {
    u32 chunk, index;
    u32 first_words, words;  // of the first block and of the tile
};

struct CompressShared {
    alignas(128) unsigned char stages[kStages][kStageBytes];
    alignas(128) unsigned char slot[kAsyncCopy ? kTileBytes : 128];
    alignas(128) uint4 zeros[kLineBytes / kUnitBytes];
    Tile tiles[2];  // this and the next
    SizedTile sized[4];
    u32 warp_columns[kComputeWarps];
};
static_assert(kStageBytes >= kTileBytes, "without asynchronous copies the slot is the stage");

// Scratch: this, then ChunkTotals per chunk, then one u64 per tile.
struct CompressScratch {
    u32 next_tile;
    u32 reserved[7];
};

// A tile is finished by all compute warps, if it is of the border, or by all writer warps; each counts for its
// part of so many shares.
constexpr u32 kShares = kComputeWarps;

template <typename W, int kRank>
struct Compressor {
    const NdzipCompressArgs& args;
    CompressShared& shared;
    const Layout<W, kRank> layout;
    const u32 block_tiles, tiles;
    CompressScratch* const scratch;
    ChunkTotals* const totals;
    u64* const states;

    __device__ __forceinline__ Compressor(const NdzipCompressArgs& args, CompressShared& shared)
        : args(args), shared(shared), layout(args.extents), block_tiles(layout.block_tiles(kTileBlocks<W>)),
          tiles(layout.tiles(kTileBlocks<W>)), scratch(static_cast<CompressScratch*>(args.scratch)),
          totals(reinterpret_cast<ChunkTotals*>(scratch + 1)), states(reinterpret_cast<u64*>(totals + args.n_chunks)) {}

    __device__ __forceinline__ const W* source(u32 chunk) const {
        return reinterpret_cast<const W*>(static_cast<const char*>(args.src) + chunk * args.src_stride);
    }
    __device__ __forceinline__ char* payload(u32 chunk) const { return static_cast<char*>(args.dst) + chunk * args.dst_stride; }
    __device__ __forceinline__ u64* chunk_states(u32 chunk) const { return states + static_cast<u64>(chunk) * tiles; }

    // The tile with a number that the counter gave.
    __device__ __forceinline__ Tile locate(u32 number) const {
        Tile tile;
        tile.chunk = args.n_chunks == 1 ? (number >= tiles) : min(number / tiles, args.n_chunks);
        tile.index = number - tile.chunk * tiles;
        const u32 first = tile.index * kTileBlocks<W>;
        tile.starts[0] = tile.starts[1] = 0;
        if (!has_blocks(tile)) return tile;
        tile.starts[0] = layout.block_start(first);
        tile.starts[1] = first + 1 < layout.n_blocks ? layout.block_start(first + 1) : tile.starts[0];
        return tile;
    }
    __device__ __forceinline__ bool is_end(const Tile& tile) const { return tile.chunk >= args.n_chunks; }
    __device__ __forceinline__ bool has_blocks(const Tile& tile) const { return !is_end(tile) && tile.index < block_tiles; }

    // Starts the copy of a tile into the slot. Adjacent threads copy adjacent kBytes of a row and, in three
    // dimensions, of the same row of the second block, which mostly follows in memory.
    template <u32 kBytes>
    __device__ __forceinline__ void copy_tile(const Tile& tile, u32 slot) const {
        constexpr u32 kBlocks = kTileBlocks<W>, kX = Sides<kRank>::kX, kY = Sides<kRank>::kY;
        constexpr u32 kElements = kBytes / Type<W>::kBytes;
        constexpr u32 kCopies = kTileBytes / kBytes / kComputeThreads;
        const u32 t = threadIdx.x;
        const W* src = source(tile.chunk);
        // So many threads copy a row, or the same row of both blocks; so many rows at a time. In one dimension
        // a "row" is what all threads copy at a time.
        constexpr u32 kRowThreads = kRank == 1 ? kComputeThreads : kX / kElements;
        constexpr u32 kRowBytes = kRowThreads * kBytes;
        constexpr u32 kBeside = kRank == 3 ? kBlocks : 1;
        constexpr u32 kRows = kComputeThreads / (kRowThreads * kBeside);
        constexpr u32 kBlockRows = kBlock * Type<W>::kBytes / kRowBytes;
        const u32 x = t % kRowThreads, beside = t / kRowThreads % kBeside, row = t / (kRowThreads * kBeside);
        const u64 inner = row / kY * layout.plane + static_cast<u64>(row % kY) * layout.columns + x * kElements;
        const char* const start = reinterpret_cast<const char*>(src + tile.starts[beside] + inner);
        const char* const second = reinterpret_cast<const char*>(src + tile.starts[1] + inner);
        const u64 row_bytes = kRank == 1 ? kRowBytes : static_cast<u64>(layout.columns) * Type<W>::kBytes;
        const u64 plane_bytes = layout.plane * Type<W>::kBytes;
        const u32 to = swizzled<128>(beside * kBlock * Type<W>::kBytes + row * kRowBytes + x * kBytes);
#pragma unroll
        for (u32 i = 0; i < kCopies; ++i) {
            // Rows before those of this step. A step is whole planes or part of one. If the second block is
            // missing its place gets the first again.
            const u32 rows = i * kRows;
            const bool in_second = kRank < 3 && rows >= kBlockRows;
            const u64 skip = kRank == 3 ? rows / kY * plane_bytes + rows % kY * row_bytes : rows % kBlockRows * row_bytes;
            copy_async<kBytes>(slot + (to ^ swizzled<128>(rows * kRowBytes)), (in_second ? second : start) + skip);
        }
    }

    __device__ __forceinline__ void copy_tile(const Tile& tile, u32 slot, bool aligned) const {
        if (!has_blocks(tile)) return;
        if (aligned) {
            copy_tile<kUnitBytes>(tile, slot);
        } else {
            copy_tile<Type<W>::kBytes>(tile, slot);
        }
    }

    // The compute warps.
    __device__ __forceinline__ void compute() {
        const u32 t = threadIdx.x, warp = t / kWarp;
        const u32 slot = shared_address(kAsyncCopy ? shared.slot : shared.stages[0]);
        const u32 zeros = shared_address(shared.zeros);
        const u64 misaligned = reinterpret_cast<u64>(args.src) | (args.n_chunks > 1 ? args.src_stride : 0) |
                               (kRank > 1 ? static_cast<u64>(layout.columns) * Type<W>::kBytes : 0);
        const bool aligned = misaligned % kUnitBytes == 0;
        constexpr u32 kWarpsPerBlock = Type<W>::kLines / kWarp;

        if (kAsyncCopy) copy_tile(shared.tiles[0], slot, aligned);
        u32 n = 0;  // tiles of blocks so far
        for (u32 k = 0;; ++k) {
            // A tile is drawn as late as possible, so that no other waits for one that nobody works on.
            const u32 chunk = shared.tiles[k % 2].chunk, index = shared.tiles[k % 2].index;
            if (chunk >= args.n_chunks) break;
            Tile& next = shared.tiles[(k + 1) % 2];
            if (index >= block_tiles) {
                copy_border_tile(chunk, index - block_tiles);
                if (t == 0) next = locate(atomicAdd(&scratch->next_tile, 1));
                barrier_sync(kComputeBarrier, kComputeThreads);
                if (kAsyncCopy) copy_tile(next, slot, aligned);
                continue;
            }
            const u32 stage_index = n % kStages;
            if (!kAsyncCopy) {
                copy_tile(shared.tiles[k % 2], slot, aligned);
            }
            wait_copies();
            barrier_sync(kComputeBarrier, kComputeThreads);
            u32 drawn = 0;
            if (kAsyncCopy && t == 0) drawn = atomicAdd(&scratch->next_tile, 1);

            u32 square[32];
            {
                W line[Type<W>::kLineElements];
                read_residuals<W, kRank>(slot, zeros, t, line);
                to_square(line, square);
            }
            u32 head = 0;
#pragma unroll
            for (u32 i = 0; i < 32; ++i) head |= square[i];
            if (Type<W>::kParts == 2) head |= __shfl_xor_sync(kAllLanes, head, 2);
            // The last tile may have no second block.
            const bool whole = index * kTileBlocks<W> + kTileBlocks<W> <= layout.n_blocks;
            const bool present = warp < kWarpsPerBlock || whole;
            if (!present) head = 0;
            u32 in_warp;
            u32 at = Part<W>::columns_before(__popc(head), in_warp);
            if (lane_id() == 0) shared.warp_columns[warp] = in_warp;
            if (kAsyncCopy && t == 0) next = locate(drawn);
            // Now the slot has been read, too.
            barrier_sync(kComputeBarrier, kComputeThreads);

            // Words of the blocks; the thread's columns begin at word `at` of the tile.
            u32 first_words = Type<W>::kHeads, words = kTileBlocks<W> == 2 && whole ? 2 * Type<W>::kHeads : Type<W>::kHeads;
#pragma unroll
            for (u32 w = 0; w < kComputeWarps; ++w) {
                const u32 columns = shared.warp_columns[w];
                if (w < kWarpsPerBlock) first_words += columns;
                words += columns;
                if (w < warp) at += columns;
            }
            const u32 in_second = kTileBlocks<W> == 2 && warp >= kWarpsPerBlock;
            at += (in_second + 1) * Type<W>::kHeads;
            if (t == 0) {
                publish_state(chunk_states(chunk) + index, words, index == 0 ? kPrefix : kOwn);
                shared.sized[n % 4] = SizedTile{chunk, index, first_words, words};
            }
            barrier_arrive(kSizedBarrier + n % 4, kCompressThreads);
            if (kAsyncCopy) copy_tile(next, slot, aligned);

            transpose(square);

            if (kAsyncCopy) barrier_sync(kEmptyBarrier + stage_index, kCompressThreads);
            const u32 stage = shared_address(shared.stages[stage_index]);
            if (present && Part<W>::leads()) {
                const u32 group = t % Type<W>::kLines / Type<W>::kParts / Type<W>::kParts;
                const u32 word = (in_second * first_words + group) * Type<W>::kParts + Part<W>::head_half();
                store_shared_4(stage + 4 * padded(word), head);
            }
            u32 word = at * Type<W>::kParts + Part<W>::column_half();
#pragma unroll
            for (u32 c = 0; c < 32; ++c) {
                if (head >> (31 - c) & 1) {
                    store_shared_4(stage + 4 * padded(word), square[c]);
                    word += Type<W>::kParts;
                }
            }
            barrier_arrive(kFullBarrier + stage_index, kCompressThreads);
            ++n;
            if (!kAsyncCopy) {
                // Only now that this tile's stage is free the next may be drawn: its size will be known at once.
                barrier_sync(kEmptyBarrier, kCompressThreads);
                if (t == 0) next = locate(atomicAdd(&scratch->next_tile, 1));
                barrier_sync(kComputeBarrier, kComputeThreads);
            }
        }
        if (t == 0) shared.sized[n % 4] = SizedTile{args.n_chunks, 0, 0, 0};
        barrier_arrive(kSizedBarrier + n % 4, kCompressThreads);
        if (kAsyncCopy) {
            for (u32 s = 0; s < kStages; ++s) barrier_sync(kEmptyBarrier + s, kCompressThreads);
        }
    }

    // Part `part` of the border, from array to payload.
    __device__ __forceinline__ void copy_border_tile(u32 chunk, u32 part) const {
        constexpr u32 kElements = kTileBlocks<W> * kBlock;
        const u64 words = block_tiles ? await_prefix(chunk_states(chunk) + block_tiles - 1) : 0;
        const u32 first = part * kElements;
        const u64 base = layout.table_bytes() / Type<W>::kBytes + words + first;
        Sums sums;
        copy_border<kComputeThreads, false>(layout, const_cast<W*>(source(chunk)), reinterpret_cast<W*>(payload(chunk)), base, first,
                                            min(layout.n_border - first, kElements), sums);
        finish(chunk, sums, 1);
    }

    // Adds up a warp's sums for `shares` of the chunk's tiles.
    __device__ __forceinline__ void finish(u32 chunk, Sums sums, u32 shares) const {
        sums.a = warp_sum(sums.a);
        sums.b = warp_sum(sums.b);
        if (lane_id() != 0) return;
        add_sums(totals + chunk, sums);
        if (count_tiles(totals + chunk, 0, shares) + shares == tiles * kShares) {
            const u64 words = block_tiles ? await_prefix(chunk_states(chunk) + block_tiles - 1) : 0;
            write_result(args.results + chunk, totals + chunk, layout.payload_bytes(words));
        }
    }

    // The writer warps.
    __device__ __forceinline__ void write() const {
        const u32 lane = lane_id(), writer = threadIdx.x / kWarp - kComputeWarps;
        if (kAsyncCopy) {
            for (u32 s = 0; s < kStages; ++s) barrier_arrive(kEmptyBarrier + s, kCompressThreads);
        }
        Sums sums;
        u32 chunk = args.n_chunks, shares = 0;  // whose sums these are
        for (u32 n = 0;; ++n) {
            barrier_sync(kSizedBarrier + n % 4, kCompressThreads);
            const SizedTile tile = shared.sized[n % 4];
            if (tile.chunk != chunk) {
                if (shares) finish(chunk, sums, shares);
                sums = Sums();
                chunk = tile.chunk;
                shares = 0;
            }
            if (tile.chunk >= args.n_chunks) break;
            shares += kShares / kWriterWarps;

            u64* chunk_state = chunk_states(chunk);
            const u32 before = look_back(chunk_state, tile.index);
            if (lane == 0 && writer == 0 && tile.index > 0) publish_state(chunk_state + tile.index, before + tile.words, kPrefix);

            u32* const out = reinterpret_cast<u32*>(payload(chunk));
            const u32 block = tile.index * kTileBlocks<W> + lane;
            if (writer == 0 && lane < kTileBlocks<W> && block < layout.n_blocks) {
                const u32 end = before + (lane == 0 ? tile.first_words : tile.words);
                out[block] = end;
                sums.add(block, end);
                if (layout.has_pad() && block + 1 == layout.n_blocks) {
                    out[block + 1] = 0;
                    sums.add(block + 1, 0);
                }
            }
            const u32 stage = n % kStages;
            barrier_sync(kFullBarrier + stage, kCompressThreads);
            const u64 first = layout.table_bytes() / 4 + static_cast<u64>(before) * Type<W>::kParts;
            copy_stage(shared_address(shared.stages[stage]), out + first, tile.words * Type<W>::kParts, first, writer, sums);
            barrier_arrive(kEmptyBarrier + stage, kCompressThreads);
        }
    }

    // Copies `n` u32 words of a stage to `out`, word `first` of the payload. Every store of a warp is a whole
    // line of 128 bytes, except at both ends: whole sectors without any shifting of words. The writer warps
    // take turns, line by line.
    __device__ __forceinline__ void copy_stage(u32 stage, u32* out, u32 n, u64 first, u32 writer, Sums& sums) const {
        constexpr u32 kBatch = 8, kStride = kWriterWarps * kWarp;
        constexpr u32 kStep = 4 * padded(kStride);
        const u32 skew = reinterpret_cast<u64>(out) / 4 % kWarp;
        StridedSums<kStride> strided;
        u32 i = writer * kWarp + lane_id() - skew, line_end = (writer + 1) * kWarp - skew;
        if (static_cast<s32>(i) >= 0) {
            if (i < n) {
                const u32 word = load_shared_4(stage + 4 * padded(i));
                out[i] = word;
                strided.add(word);
            }
            strided.finish(first + i, sums);
            strided = StridedSums<kStride>();
        }
        i += kStride, line_end += kStride;
        const u32 start = i;
        u32 from = stage + 4 * padded(i);
        for (; line_end + (kBatch - 1) * kStride <= n; line_end += kBatch * kStride) {
            u32 words[kBatch];
#pragma unroll
            for (u32 j = 0; j < kBatch; ++j) words[j] = load_shared_4(from + j * kStep);
#pragma unroll
            for (u32 j = 0; j < kBatch; ++j) {
                out[i + j * kStride] = words[j];
                strided.add(words[j]);
            }
            from += kBatch * kStep;
            i += kBatch * kStride;
        }
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            if (i + j * kStride < n) {
                const u32 word = load_shared_4(from + j * kStep);
                out[i + j * kStride] = word;
                strided.add(word);
            }
        }
        strided.finish(first + start, sums);
    }
};

template <typename W, int kRank>
__device__ __forceinline__ void compress(const NdzipCompressArgs& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    CompressShared& shared = *reinterpret_cast<CompressShared*>(bytes);
    Compressor<W, kRank> compressor(args, shared);
    if (threadIdx.x < kLineBytes / kUnitBytes) shared.zeros[threadIdx.x] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
        shared.tiles[0] = compressor.locate(atomicAdd(&compressor.scratch->next_tile, 1));
    }
    __syncthreads();
    if (threadIdx.x < kComputeThreads) {
        compressor.compute();
    } else {
        compressor.write();
    }
}

template <typename W>
constexpr LaunchInfo kCompressInfo = {kCompressThreads,        sizeof(CompressShared), 1, kTileBlocks<W>,
                                      sizeof(CompressScratch), sizeof(ChunkTotals),    sizeof(u64)};
