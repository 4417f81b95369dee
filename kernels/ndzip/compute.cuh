// The compute warps of a compressing CTA: they read tiles, encode their blocks, and write them to a
// stage. See the head of compress.cuh.

#pragma once

#include "layout.cuh"
#include "tiles.cuh"
#include "transform.cuh"

template <typename W, int kRank>
struct ComputeWarps {
    const OrderedFrames<Layout<W, kRank>>& frames;
    CompressShared& shared;
    const Layout<W, kRank>& layout;

    __device__ __forceinline__ ComputeWarps(const OrderedFrames<Layout<W, kRank>>& frames, CompressShared& shared)
        : frames(frames), shared(shared), layout(frames.layout) {}

    __device__ __forceinline__ const W* source(u32 chunk) const { return reinterpret_cast<const W*>(frames.source(chunk)); }

    __device__ __forceinline__ bool has_blocks(const Ticket& tile) const { return tile.kind < kStart && tile.index < frames.n_placed; }

    // Returns the tile of a ticket, with the positions of its blocks.
    __device__ __forceinline__ Tile with_blocks(const Ticket& ticket) const {
        Tile tile{ticket, {0, 0}};
        if (!has_blocks(tile)) return tile;
        const u32 first = tile.index * kTileBlocks<W>;
        tile.starts[0] = layout.block_start(first, shared.by_x, shared.by_y);
        tile.starts[1] = first + 1 < layout.n_blocks ? layout.block_start(first + 1, shared.by_x, shared.by_y) : tile.starts[0];
        return tile;
    }

    // Starts the copy of a tile to the slot, if the tile has blocks. Adjacent threads copy adjacent
    // pieces of a row, kBytes bytes each. In three dimensions, the next threads copy the same row
    // of the second block, which usually follows in memory.
    template <u32 kBytes>
    __device__ __forceinline__ void copy_tile(const Tile& tile, u32 slot) const {
        if (!has_blocks(tile)) return;
        constexpr u32 kBlocks = kTileBlocks<W>, kX = Sides<kRank>::kX, kY = Sides<kRank>::kY;
        constexpr u32 kElements = kBytes / Type<W>::kBytes;
        constexpr u32 kCopies = kTileBytes / kBytes / kComputeThreads;
        // For rows of 128 bytes, the hint of 256 bytes lets two adjacent CTAs share a memory access.
        constexpr Fetch kFetch = kRank == 3 && kBlocks == 1 ? Fetch::k256Bytes : Fetch::k128Bytes;
        const u32 t = threadIdx.x;
        const W* src = source(tile.chunk);
        // kRowThreads threads copy a row. kBeside rows, one of each block, are copied side by side,
        // and kRows such rows in each step. In one dimension, a "row" is the bytes that all threads
        // copy in a step.
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
            // `rows`: number of rows in the previous steps. A step copies whole planes, or a part
            // of one plane. If the tile has no second block, the first block is copied to its
            // place.
            const u32 rows = i * kRows;
            const bool in_second = kRank < 3 && rows >= kBlockRows;
            const u64 skip = kRank == 3 ? rows / kY * plane_bytes + rows % kY * row_bytes : rows % kBlockRows * row_bytes;
            copy_async<kBytes, kFetch>(slot + (to ^ swizzled<128>(rows * kRowBytes)), (in_second ? second : start) + skip);
        }
    }

    __device__ __forceinline__ void copy_tile(const Tile& tile, u32 slot, bool aligned) const {
        if (likely(aligned)) {
            copy_tile<kUnitBytes>(tile, slot);
        } else {
            copy_tile<Type<W>::kBytes>(tile, slot);
        }
    }

    __device__ __forceinline__ void run() {
        const u32 t = threadIdx.x, warp = t / kWarp;
        const u32 slot = shared_address(kAsyncCopy ? shared.slot : shared.stages[0]);
        const u32 zeros = shared_address(shared.zeros);
        const u64 misaligned = reinterpret_cast<u64>(frames.args.src) | (frames.args.n_chunks > 1 ? frames.args.src_stride : 0) |
                               (kRank > 1 ? static_cast<u64>(layout.columns) * Type<W>::kBytes : 0);
        const bool aligned = misaligned % kUnitBytes == 0;
        constexpr u32 kWarpsPerBlock = Type<W>::kLines / kWarp;

        if (lane_id() == 0) shared.pending[warp] = Pending{0, 0, kFirst, 0, 0, 0};
        __syncwarp();
        u32 n = 0;  // tiles passed to the writer warps
        bool is_copied = false;
        for (u32 k = 0;; ++k) {
            // A tile is taken as late as possible: other CTAs wait for its size, so this CTA should
            // start on it at once.
            const Tile& tile = shared.tiles[k % 2];
            Tile& next = shared.tiles[(k + 1) % 2];
            const TileKind kind = tile.kind;
            const u32 chunk = tile.chunk, index = tile.index;
            if (unlikely(!has_blocks(tile) || (kind == kRewrite && frames.is_stored(frames.await_sum(chunk))))) {
                // Count the warp's finished parts before it changes to another chunk. After the
                // last tile, other CTAs wait for these parts.
                if (kind > kStart || !is_of(kind, chunk)) report();
                if (kind < kStart) {
                    copy_tile_as_it_is(kind, chunk, index);
                } else if (kind > kStart) {
                    hand_over(n, SizedTile{kind, 0, 0, 0, 0, false});
                    if (kind == kNone) break;
                    await_stage(n);
                    shared.full_mbarriers[n % kStages].arrive();
                    ++n;
                }
                wait_copies();
                if (t == 0) next = with_blocks(kind == kPastEnd ? frames.await_rewrite(tile.number) : frames.resolve(frames.take()));
                barrier_sync(kComputeBarrier, kComputeThreads);
                is_copied = false;
                continue;
            }
            if (unlikely(!is_copied)) copy_tile(tile, slot, aligned);
            is_copied = kAsyncCopy;
            wait_copies();
            barrier_sync(kComputeBarrier, kComputeThreads);
            u32 ticket = 0;
            if (kAsyncCopy && t == 0) ticket = frames.take();
            if (unlikely(frames.args.flags & kSwapBytes)) swap_line(slot);

            u32 square[32];
            {
                W line[Type<W>::kLineElements];
                read_residuals<W, kRank>(slot, zeros, t, line);
                to_square(line, square);
            }
            u32 head = 0;
#pragma unroll
            for (u32 i = 0; i < 32; ++i) {
                if (i % 16) head |= square[i];
            }
            const bool is_narrow = Type<W>::kParts == 1 && !__any_sync(kAllLanes, head & ~kNarrowBits);
            head |= square[0] | square[16];
            if (Type<W>::kParts == 2) head |= __shfl_xor_sync(kAllLanes, head, 2);
            // The last tile may lack the second block.
            const bool whole = index * kTileBlocks<W> + kTileBlocks<W> <= layout.n_blocks;
            const bool present = warp < kWarpsPerBlock || whole;
            if (!present) head = 0;
            u32 in_warp;
            u32 at = Part<W>::columns_before(__popc(head), in_warp);
            if (lane_id() == 0) shared.warp_columns[warp] = in_warp;
            if (kAsyncCopy && t == 0) next = with_blocks(frames.resolve(ticket));
            // This barrier also ensures that all threads have read the slot.
            barrier_sync(kComputeBarrier, kComputeThreads);

            if (kAsyncCopy && likely(aligned)) copy_tile<kUnitBytes>(next, slot);
            // Sizes of the first block and of the tile in words. The thread's columns begin at word
            // `at` of the tile.
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
            if (t == 0 && kind == kFirst) frames.publish(chunk, index, words);
            const bool stored = kind == kFirst && guess_stored(n, chunk, words >= (whole ? kTileBlocks<W> : 1) * kBlock);
            hand_over(n, SizedTile{kind, chunk, index, first_words, words, stored});
            // An unaligned tile takes many small copies, which would delay the size. So they are
            // started after it has been published.
            if (kAsyncCopy && unlikely(!aligned)) copy_tile<Type<W>::kBytes>(next, slot);

            if (likely(!stored)) {
                // A warp without columns has nothing to transpose.
                if (is_narrow) {
                    if (in_warp) transpose_narrow(square);
                } else {
                    transpose(square);
                }
                if (kAsyncCopy) await_stage(n);
                const u32 stage = shared.stage_address(n);
                if (present && Part<W>::leads()) {
                    const u32 group = t % Type<W>::kLines / Type<W>::kParts / Type<W>::kParts;
                    const u32 word = (in_second * first_words + group) * Type<W>::kParts + Part<W>::head_half();
                    store_shared_4(stage + 4 * padded(word), head);
                }
                if (likely(in_warp)) {
                    u32 word = at * Type<W>::kParts + Part<W>::column_half();
                    const auto store = [&](u32 c) {
                        if (head >> (31 - c) & 1) {
                            store_shared_4(stage + 4 * padded(word), square[c]);
                            word += Type<W>::kParts;
                        }
                    };
                    store(0);
                    if (has_long_words(head)) {
#pragma unroll
                        for (u32 c = 1; c < kLongColumns; ++c) store(c);
                    }
#pragma unroll
                    for (u32 c = kLongColumns; c < 32; ++c) store(c);
                }
            } else {
                if (kAsyncCopy) await_stage(n);
                stage_stored_tile(shared.stage_address(n), chunk, index);
            }
            shared.full_mbarriers[n % kStages].arrive();
            ++n;
            if (!kAsyncCopy) {
                // Take the next tile only when the stage of this tile is free, so that the size of
                // the next tile is known soon after it is taken.
                await_stage(n);
                if (t == 0) next = with_blocks(frames.resolve(frames.take()));
                barrier_sync(kComputeBarrier, kComputeThreads);
            }
        }
    }

    // Passes the n-th tile to the writer warps.
    __device__ __forceinline__ void hand_over(u32 n, const SizedTile& tile) {
        if (threadIdx.x != 0) return;
        shared.sized[n % kSizedSlots] = tile;
        shared.sized_mbarriers[n % kSizedSlots].arrive();
    }
    // Waits until the stage of the n-th tile is free.
    __device__ __forceinline__ void await_stage(u32 n) {
        if (n >= kStages) shared.empty_mbarriers[n % kStages].wait(n / kStages - 1);
    }

    // Reverses the bytes of the elements in the thread's line of the slot.
    __device__ __forceinline__ void swap_line(u32 slot) const {
        for (u32 u = 0; u < kLineBytes / kUnitBytes; ++u) {
            const u32 at = slot + threadIdx.x * kLineBytes + u * kUnitBytes;
            W words[kUnitBytes / Type<W>::kBytes];
            split(load_shared_16(at), words);
            for (W& word : words) word = swapped_bytes(word);
            store_shared_16(at, join(words));
        }
        barrier_sync(kComputeBarrier, kComputeThreads);
    }

    // Copies a tile that is not encoded: a tile of the border, or of a chunk that is known to be
    // stored. Called by the compute warps.
    __device__ __forceinline__ void copy_tile_as_it_is(TileKind kind, u32 chunk, u32 index) const {
        constexpr u32 kElements = kTileBlocks<W> * kBlock;
        const u32 words = frames.await_sum(chunk);
        const bool stores = frames.is_stored(words);
        Sums sums;
        if (stores) {
            copy_stored_tile(chunk, index, sums);
        } else {
            const u32 first = (index - frames.n_placed) * kElements;
            const u64 base = layout.table_bytes() / Type<W>::kBytes + words + first;
            copy_border<kComputeThreads, Towards::kPayload>(layout, const_cast<W*>(source(chunk)), reinterpret_cast<W*>(frames.payload(chunk)), base, first,
                                                min(layout.n_border - first, kElements), frames.args.flags & kSwapBytes, sums);
        }
        // The warp keeps its sums in shared memory, and adds them to the chunk's totals later.
        sums.a = warp_sum(sums.a);
        sums.b = warp_sum(sums.b);
        Pending& pending = shared.pending[threadIdx.x / kWarp];
        __syncwarp();
        if (lane_id() == 0) {
            if (pending.parts == 0) pending = Pending{0, 0, kind, chunk, 0, 0};
            pending.sum_a += sums.a;
            pending.sum_b += sums.b;
            pending.parts += 1;
            pending.n_stored += stores;
        }
        __syncwarp();
    }

    // True if the warp's uncounted parts belong to this chunk, and to tiles of this kind.
    __device__ __forceinline__ bool is_of(TileKind kind, u32 chunk) const {
        const Pending& pending = shared.pending[threadIdx.x / kWarp];
        return pending.chunk == chunk && pending.kind == kind;
    }

    // Copies a tile's share of a stored frame.
    __device__ __forceinline__ void copy_stored_tile(u32 chunk, u32 index, Sums& sums) const {
        const StoredRange range(layout.raw_bytes(), index);
        unsigned char* const array = reinterpret_cast<unsigned char*>(const_cast<W*>(source(chunk)));
        copy_stored<StoredCopy<kComputeThreads, 2, Towards::kPayload, Pieces::kWords>>(threadIdx.x, array, frames.stored_payload(chunk), range.first, range.n, sums);
    }

    // Copies a tile's share of a stored frame to a stage, except for words at the end that do not
    // fill a unit of 16 bytes.
    __device__ __forceinline__ void stage_stored_tile(u32 stage, u32 chunk, u32 index) const {
        const StoredRange range(layout.raw_bytes(), index);
        const char* const from = reinterpret_cast<const char*>(source(chunk)) + range.first;
        const bool aligned = reinterpret_cast<u64>(from) % kUnitBytes == 0;
#pragma unroll 1
        for (u32 at = threadIdx.x * kUnitBytes; at + kUnitBytes <= range.n; at += kComputeThreads * kUnitBytes) {
            if (aligned) {
                copy_async<kUnitBytes>(stage + at, from + at);
            } else {
                for (u32 w = 0; w < kUnitBytes; w += 4) copy_async<4>(stage + at + w, from + at + w);
            }
        }
        wait_copies();
    }

    // Guesses whether the chunk of the n-th tile will be stored. `grows` is true if the tile by
    // itself does not shrink. The writer warps have finished tile n - 3, since its stage has been
    // reused.
    __device__ __forceinline__ bool guess_stored(u32 n, u32 chunk, bool grows) const {
        const Progress& progress = shared.progress[(n - 3) % kSizedSlots];
        return n >= 3 && progress.chunk == chunk ? !progress.is_smaller : grows;
    }

    // Adds the warp's uncounted sums to the totals of their chunk, and counts its finished parts.
    __device__ __forceinline__ void report() const {
        Pending& pending = shared.pending[threadIdx.x / kWarp];
        const Pending reported = pending;
        __syncwarp();
        if (lane_id() == 0) pending.parts = 0;
        __syncwarp();
        if (reported.parts == 0) return;
        const Sums sums{reported.sum_a, reported.sum_b};
        frames.complete(reported.kind, reported.chunk, frames.count(reported.kind, reported.chunk, sums, reported.parts, reported.n_stored));
    }
};
