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
// table, then they copy the stage to the payload and sum it up for the checksum. Tiles of the border are
// copied by the compute warps as soon as the chunk's last block is placed. Who finishes the last tile of a
// chunk writes the frame's header.
//
// A chunk that does not get smaller is stored instead, but that is known only when its last block is placed.
// So the CTA guesses: where the last tile it has placed in the chunk shows nothing saved so far, the compute warps
// do not transpose the next, but fill the stage with as many of the array's bytes, which the writer warps copy to where
// a stored frame has them. Where a chunk turns out to be written the wrong way, or partly so, all of its tiles are
// done again, after all others; then everything is known beforehand.
//
// Compute and writer warps meet at gates. sized: the size of a tile is in `sized`; four of them, since the
// compute warps run at most three tiles ahead (they wait for a free stage). full: a stage is written. empty:
// it may be overwritten.
//
// Bytes per element: all are read once, and once more from shared memory for the slowest axis; the payload
// is written once. Without asynchronous copies slot and stage are the same memory and nothing overlaps but
// CTAs.

#pragma once

#include "../common/checksum.cuh"
#include "../common/frame.cuh"
#include "../common/lookback.cuh"
#include "../common/tuning.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "tiles.cuh"
#include "transform.cuh"

template <typename W, int kRank>
struct Compressor {
    const CompressArgs<Blocks>& args;
    CompressShared& shared;
    const Layout<W, kRank> layout;
    const u32 block_tiles, tiles;
    CompressScratch* const scratch;
    CompressChunk* const chunks;
    u64* const states;

    __device__ __forceinline__ Compressor(const CompressArgs<Blocks>& args, CompressShared& shared)
        : args(args), shared(shared), layout(args.own), block_tiles(layout.block_tiles(kTileBlocks<W>)),
          tiles(layout.tiles(kTileBlocks<W>)), scratch(static_cast<CompressScratch*>(args.scratch)),
          chunks(reinterpret_cast<CompressChunk*>(scratch + 1)), states(reinterpret_cast<u64*>(chunks + args.n_chunks)) {}

    __device__ __forceinline__ const W* source(u32 chunk) const {
        return reinterpret_cast<const W*>(static_cast<const char*>(args.src) + chunk * args.src_stride);
    }
    __device__ __forceinline__ char* frame(u32 chunk) const { return static_cast<char*>(args.dst) + chunk * args.dst_stride; }
    __device__ __forceinline__ char* payload(u32 chunk) const { return frame(chunk) + args.encoded.n_bytes; }
    __device__ __forceinline__ u64* chunk_states(u32 chunk) const { return states + static_cast<u64>(chunk) * tiles; }
    __device__ __forceinline__ u64 raw_bytes() const { return layout.n_elements() * Type<W>::kBytes; }

    // Words of all blocks of a chunk, as soon as they are known.
    __device__ __forceinline__ u32 await_words(u32 chunk) const { return await_prefix(chunk_states(chunk) + block_tiles - 1); }
    __device__ __forceinline__ bool is_stored(u32 words) const { return layout.payload_bytes(words) >= raw_bytes(); }

    // The next tile that nobody has.
    __device__ __forceinline__ u32 draw() const { return atomicAdd(&scratch->next_tile, 1); }

    // The tile with this number.
    __device__ __forceinline__ Tile locate(u32 number) const {
        const u32 chunk = args.n_chunks == 1 ? (number >= tiles) : min(number / tiles, args.n_chunks);
        return Tile{chunk < args.n_chunks ? kFirst : kBeyond, number, chunk, number - chunk * tiles, {0, 0}};
    }

    // What a tile that was kBeyond is, once all chunks are finished for the first time.
    __device__ __forceinline__ Tile await_redo(u32 number) const {
        u32 n_finished;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n_finished) : "l"(&scratch->n_finished) : "memory");
        } while (n_finished < args.n_chunks);
        const u32 redo = number - args.n_chunks * tiles, entry = redo / tiles;
        const bool exists = entry < *static_cast<volatile u32*>(&scratch->n_redo);
        const u32 chunk = exists ? *static_cast<volatile u32*>(&chunks[entry].to_redo) : 0;
        return Tile{exists ? kRedo : kNone, number, chunk, redo - entry * tiles, {0, 0}};
    }

    __device__ __forceinline__ bool has_blocks(const Tile& tile) const { return tile.kind < kStart && tile.index < block_tiles; }

    // Finds the tile's blocks.
    __device__ __forceinline__ Tile with_blocks(Tile tile) const {
        if (!has_blocks(tile)) return tile;
        const u32 first = tile.index * kTileBlocks<W>;
        tile.starts[0] = layout.block_start(first);
        tile.starts[1] = first + 1 < layout.n_blocks ? layout.block_start(first + 1) : tile.starts[0];
        return tile;
    }

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
        if (likely(aligned)) {
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

        if (lane_id() == 0) shared.untold[warp] = Untold{0, 0, kFirst, 0, 0, 0};
        __syncwarp();
        u32 n = 0;  // tiles handed to the writer warps
        bool is_copied = false;
        for (u32 k = 0;; ++k) {
            // A tile is drawn as late as possible, so that no other waits for one that nobody works on.
            const Tile& tile = shared.tiles[k % 2];
            Tile& next = shared.tiles[(k + 1) % 2];
            const TileKind kind = tile.kind;
            const u32 chunk = tile.chunk, index = tile.index;
            if (unlikely(!has_blocks(tile) || (kind == kRedo && is_stored(await_words(chunk))))) {
                // Behind the last tile others wait for what is not told here.
                if (kind > kStart || !is_of(kind, chunk)) tell();
                if (kind < kStart) {
                    copy_tile_as_it_is(kind, chunk, index);
                } else if (kind > kStart) {
                    hand_over(n, SizedTile{kind, 0, 0, 0, 0, false});
                    if (kind == kNone) break;
                    await_stage(n);
                    shared.full_gates[n % kStages].arrive();
                    ++n;
                }
                wait_copies();
                if (t == 0) next = with_blocks(kind == kBeyond ? await_redo(tile.number) : locate(draw()));
                barrier_sync(kComputeBarrier, kComputeThreads);
                is_copied = false;
                continue;
            }
            if (unlikely(!is_copied)) copy_tile(tile, slot, aligned);
            is_copied = kAsyncCopy;
            wait_copies();
            barrier_sync(kComputeBarrier, kComputeThreads);
            u32 drawn = 0;
            if (kAsyncCopy && t == 0) drawn = draw();
            if (unlikely(args.flags & kSwapBytes)) swap_line(slot);

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
            if (kAsyncCopy && t == 0) next = with_blocks(locate(drawn));
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
            if (t == 0 && kind == kFirst) publish_state(chunk_states(chunk) + index, words, index == 0 ? kPrefix : kOwn);
            const bool stored = kind == kFirst && guess_stored(n, chunk, words >= (whole ? kTileBlocks<W> : 1) * kBlock);
            hand_over(n, SizedTile{kind, chunk, index, first_words, words, stored});
            if (kAsyncCopy) copy_tile(next, slot, aligned);

            if (likely(!stored)) {
                transpose(square);
                if (kAsyncCopy) await_stage(n);
                const u32 stage = stage_address(n);
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
            } else {
                if (kAsyncCopy) await_stage(n);
                stage_stored_tile(stage_address(n), chunk, index);
            }
            shared.full_gates[n % kStages].arrive();
            ++n;
            if (!kAsyncCopy) {
                // Only now that this tile's stage is free the next may be drawn: its size will be known at once.
                await_stage(n);
                if (t == 0) next = with_blocks(locate(draw()));
                barrier_sync(kComputeBarrier, kComputeThreads);
            }
        }
    }

    // Gives the n-th tile to the writer warps.
    __device__ __forceinline__ void hand_over(u32 n, const SizedTile& tile) {
        if (threadIdx.x != 0) return;
        shared.sized[n % kSizedSlots] = tile;
        shared.sized_gates[n % kSizedSlots].arrive();
    }
    __device__ __forceinline__ u32 stage_address(u32 n) const { return shared_address(shared.stages[n % kStages]); }
    // Waits until the stage of the n-th tile is free.
    __device__ __forceinline__ void await_stage(u32 n) {
        if (n >= kStages) shared.empty_gates[n % kStages].wait(n / kStages - 1);
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

    // A tile that needs no arithmetic, by the compute warps: of the border, or of a chunk that is known to be stored.
    __device__ __forceinline__ void copy_tile_as_it_is(TileKind kind, u32 chunk, u32 index) const {
        constexpr u32 kElements = kTileBlocks<W> * kBlock;
        const u32 words = await_words(chunk);
        const u32 mark = is_stored(words) ? kStored : kEncoded;
        Sums sums;
        if (mark == kStored) {
            copy_stored_tile(chunk, index, sums);
        } else {
            const u32 first = (index - block_tiles) * kElements;
            const u64 base = layout.table_bytes() / Type<W>::kBytes + words + first;
            copy_border<kComputeThreads, false>(layout, const_cast<W*>(source(chunk)), reinterpret_cast<W*>(payload(chunk)), base, first,
                                                min(layout.n_border - first, kElements), args.flags & kSwapBytes, sums);
        }
        // The warp keeps its sums, to tell them later.
        sums.a = warp_sum(sums.a);
        sums.b = warp_sum(sums.b);
        Untold& untold = shared.untold[threadIdx.x / kWarp];
        __syncwarp();
        if (lane_id() == 0) {
            if (untold.parts == 0) untold = Untold{0, 0, kind, chunk, 0, 0};
            untold.sum_a += sums.a;
            untold.sum_b += sums.b;
            untold.parts += 1;
            untold.marks |= mark;
        }
        __syncwarp();
    }

    // Whether what the warp has not told yet is of this chunk.
    __device__ __forceinline__ bool is_of(TileKind kind, u32 chunk) const {
        const Untold& untold = shared.untold[threadIdx.x / kWarp];
        return untold.chunk == chunk && untold.kind == kind;
    }

    // The bytes of a stored frame that a tile has to copy: as many as it has itself, whatever it is.
    struct StoredRange {
        u64 first;
        u32 n;
    };
    __device__ __forceinline__ StoredRange stored_range(u32 index) const {
        const u64 n_bytes = raw_bytes(), first = min(static_cast<u64>(index) * kTileBytes, n_bytes);
        return StoredRange{first, static_cast<u32>(min(n_bytes - first, static_cast<u64>(kTileBytes)))};
    }
    __device__ __forceinline__ unsigned char* stored_payload(u32 chunk) const {
        return reinterpret_cast<unsigned char*>(frame(chunk)) + args.stored.n_bytes;
    }

    // Copies them, by the compute warps.
    __device__ __forceinline__ void copy_stored_tile(u32 chunk, u32 index, Sums& sums) const {
        const StoredRange range = stored_range(index);
        unsigned char* const array = reinterpret_cast<unsigned char*>(const_cast<W*>(source(chunk)));
        copy_stored<StoredCopy<kComputeThreads, 2, false, true>>(threadIdx.x, array, stored_payload(chunk), range.first, range.n, sums);
    }

    // Copies those of a tile of blocks to a stage, by the compute warps. Words at the end that are no unit remain.
    __device__ __forceinline__ void stage_stored_tile(u32 stage, u32 chunk, u32 index) const {
        const StoredRange range = stored_range(index);
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

    // From there to the payload, by the writer warps.
    __device__ __forceinline__ void write_stored_tile(u32 stage, u32 chunk, u32 index, Sums& sums) const {
        constexpr u32 kThreads = kWriterWarps * kWarp;
        const StoredRange range = stored_range(index);
        const u32 thread = threadIdx.x - kComputeThreads, n_units = range.n / kUnitBytes;
        unsigned char* const to = stored_payload(chunk) + range.first;
        UnitSums<kThreads> unit_sums(range.first / 4 + 4 * thread);
#pragma unroll 2
        for (u32 at = thread * kUnitBytes; at < n_units * kUnitBytes; at += kThreads * kUnitBytes) {
            const uint4 unit = load_shared_16(stage + at);
            store_global_16(to + at, unit);
            unit_sums.add(unit);
        }
        unit_sums.finish(sums);
        const u32 word = n_units * 4 + thread;
        if (4 * word < range.n) {
            const u32 value = reinterpret_cast<const u32*>(reinterpret_cast<const char*>(source(chunk)) + range.first)[word];
            reinterpret_cast<u32*>(to)[word] = value;
            sums.add(range.first / 4 + word, value);
        }
    }

    // Whether the n-th tile, which by itself does not get smaller if `grows`, will probably be stored. The writer warps
    // are done with the tile that had the stage before the stage of the last one.
    __device__ __forceinline__ bool guess_stored(u32 n, u32 chunk, bool grows) const {
        const Progress& progress = shared.progress[(n - 3) % kSizedSlots];
        return n >= 3 && progress.chunk == chunk ? !progress.is_smaller : grows;
    }

    // Tells what a compute warp has not told yet.
    __device__ __forceinline__ void tell() const {
        Untold& untold = shared.untold[threadIdx.x / kWarp];
        const Untold told = untold;
        __syncwarp();
        if (lane_id() == 0) untold.parts = 0;
        __syncwarp();
        if (told.parts) finish(told.kind, told.chunk, Sums{told.sum_a, told.sum_b}, told.marks, told.parts);
    }

    // Adds a warp's sums, the same in all lanes, for `parts` parts of the chunk's tiles. The last of all completes the
    // frame, or has the chunk done again.
    __device__ __forceinline__ void finish(TileKind kind, u32 chunk, Sums sums, u32 marks, u32 parts) const {
        CompressChunk& mine = chunks[chunk];
        Totals& totals = kind == kRedo ? mine.redo : mine.first;
        u32 n_done = 0;
        __syncwarp();
        if (lane_id() == 0) {
            totals.add(sums);
            n_done = totals.count(marks, parts) + parts;
        }
        if (likely(__shfl_sync(kAllLanes, n_done, 0) != tiles * kPartsPerTile)) return;
        __syncwarp();
        Totals::acquire();
        const u32 words = await_words(chunk);
        const bool stored = is_stored(words);
        const bool is_right = *static_cast<volatile u32*>(&totals.marks) == (stored ? kStored : kEncoded);
        if (is_right) {
            const FrameForm& form = stored ? args.stored : args.encoded;
            const u64 n_bytes = stored ? raw_bytes() : layout.payload_bytes(words);
            write_header(form, frame(chunk), n_bytes, totals.checksum(n_bytes));
            if (lane_id() == 0) args.frame_bytes[chunk] = form.n_bytes + n_bytes;
        }
        if (kind == kRedo || lane_id() != 0) return;
        if (!is_right) chunks[atomicAdd(&scratch->n_redo, 1)].to_redo = chunk;
        __threadfence();
        atomicAdd(&scratch->n_finished, 1);
    }

    // The writer warps.
    __device__ __forceinline__ void write() {
        const u32 lane = lane_id(), writer = threadIdx.x / kWarp - kComputeWarps;
        Sums sums;
        TileKind kind = kFirst;
        u32 chunk = 0, parts = 0, marks = 0;  // whose sums these are
        for (u32 n = 0;; ++n) {
            shared.sized_gates[n % kSizedSlots].wait(n / kSizedSlots);
            const SizedTile tile = shared.sized[n % kSizedSlots];
            if (unlikely(parts && (tile.kind != kind || tile.chunk != chunk))) {
                sums.a = warp_sum(sums.a);
                sums.b = warp_sum(sums.b);
                finish(kind, chunk, sums, marks, parts);
                sums = Sums();
                parts = marks = 0;
            }
            if (tile.kind == kNone) break;
            const u32 stage = n % kStages;
            if (unlikely(tile.kind == kBeyond)) {
                shared.full_gates[stage].wait(n / kStages);
                shared.empty_gates[stage].arrive();
                continue;
            }
            kind = tile.kind;
            chunk = tile.chunk;

            u64* chunk_state = chunk_states(chunk);
            const u32 before = look_back(chunk_state, tile.index);
            if (lane == 0 && writer == 0) {
                if (tile.index > 0) publish_state(chunk_state + tile.index, before + tile.words, kPrefix);
                const u32 n_elements = min((tile.index + 1) * kTileBlocks<W>, layout.n_blocks) * kBlock;
                shared.progress[n % kSizedSlots] = Progress{chunk, before + tile.words < n_elements};
            }
            parts += kPartsPerTile / kWriterWarps;
            if (unlikely(tile.is_stored)) {
                marks |= kStored;
                shared.full_gates[stage].wait(n / kStages);
                write_stored_tile(stage_address(n), chunk, tile.index, sums);
                shared.empty_gates[stage].arrive();
                continue;
            }
            marks |= kEncoded;
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
            shared.full_gates[stage].wait(n / kStages);
            const u64 first = layout.table_bytes() / 4 + static_cast<u64>(before) * Type<W>::kParts;
            copy_stage(stage_address(n), out + first, tile.words * Type<W>::kParts, first, writer, sums);
            shared.empty_gates[stage].arrive();
        }
    }

    // Copies `n` u32 words of a stage to `out`, word `first` of the payload. Every store of a warp is a whole
    // line of 128 bytes, except at both ends: whole sectors without any shifting of words. The writer warps
    // take turns, line by line.
    __device__ __forceinline__ void copy_stage(u32 stage, u32* out, u32 n, u64 first, u32 writer, Sums& sums) const {
        constexpr u32 kBatch = 8, kStride = kWriterWarps * kWarp;
        constexpr u32 kStep = 4 * padded(kStride);
        const u32 skew = reinterpret_cast<u64>(out) / 4 % kWarp;
        u32 i = writer * kWarp + lane_id() - skew, line_end = (writer + 1) * kWarp - skew;
        // Of the thread's words, which are all in the same lane of their rows.
        u64 sum = 0;
        if (static_cast<s32>(i) >= 0 && i < n) {
            const u32 word = load_shared_4(stage + 4 * padded(i));
            out[i] = word;
            sum = static_cast<u64>(key_of(key_steps(first + i))) * word;
        }
        i += kStride, line_end += kStride;
        const u64 in_lane = first + i;
        u32 from = stage + 4 * padded(i);
        // A batch of a warp is in fewer than 32 rows, so each thread makes the key of one.
        constexpr u32 kStepRows = kStride / kLanes;
        static_assert((kBatch - 1) * kStepRows + (kWarp + kLanes - 2) / kLanes < kWarp, "a key for every row");
        const u64 warp_first = first + line_end - kWarp;
        const u32 row = (static_cast<u32>(warp_first) % kLanes + lane_id()) / kLanes;
        u32 steps = key_steps(warp_first) + lane_id() * kKeyStep;
        const auto add = [&](u32 keys, u32 j, u32 word) {
            sum += static_cast<u64>(__shfl_sync(kAllLanes, keys, row + j * kStepRows)) * word;
        };
        for (; line_end + (kBatch - 1) * kStride <= n; line_end += kBatch * kStride) {
            u32 words[kBatch];
#pragma unroll
            for (u32 j = 0; j < kBatch; ++j) words[j] = load_shared_4(from + j * kStep);
            const u32 keys = key_of(steps);
#pragma unroll
            for (u32 j = 0; j < kBatch; ++j) {
                out[i + j * kStride] = words[j];
                add(keys, j, words[j]);
            }
            steps += kBatch * kStepRows * kKeyStep;
            from += kBatch * kStep;
            i += kBatch * kStride;
        }
        const u32 keys = key_of(steps);
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            u32 word = 0;
            if (i + j * kStride < n) {
                word = load_shared_4(from + j * kStep);
                out[i + j * kStride] = word;
            }
            add(keys, j, word);
        }
        sums.add_lane(in_lane, sum);
    }
};

template <typename W, int kRank>
__device__ __forceinline__ void compress(const CompressArgs<Blocks>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    CompressShared& shared = *reinterpret_cast<CompressShared*>(bytes);
    Compressor<W, kRank> compressor(args, shared);
    if (threadIdx.x < kLineBytes / kUnitBytes) shared.zeros[threadIdx.x] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
        for (Gate& gate : shared.sized_gates) gate.init(1);
        for (Gate& gate : shared.full_gates) gate.init(kComputeThreads);
        for (Gate& gate : shared.empty_gates) gate.init(kWriterWarps * kWarp);
        shared.tiles[0].kind = kStart;
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
                                      sizeof(CompressScratch), sizeof(CompressChunk),  sizeof(u64)};
