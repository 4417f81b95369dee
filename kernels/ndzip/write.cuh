// The writer warps of a compressing CTA: they find the position of each tile and copy its stage
// there. See the head of compress.cuh.

#pragma once

#include "layout.cuh"
#include "tiles.cuh"

template <typename W, int kRank>
struct WriterWarps {
    const OrderedFrames<Layout<W, kRank>>& frames;
    CompressShared& shared;
    const Layout<W, kRank>& layout;
    const u32 lane, writer;
    const WarpWeights weights;

    // Sums of the warp for one chunk that it has not counted yet. Except in stored data, all words
    // of a thread are in the same lane of the checksum's rows, since a warp writes whole lines of
    // the frame. `in_lane` is the sum of these words.
    Sums sums;
    u64 in_lane = 0;
    TileKind kind = kFirst;
    u32 chunk = 0, parts = 0, n_stored = 0;

    __device__ __forceinline__ WriterWarps(const OrderedFrames<Layout<W, kRank>>& frames, CompressShared& shared)
        : frames(frames), shared(shared), layout(frames.layout), lane(lane_id()), writer(threadIdx.x / kWarp - kComputeWarps) {}

    __device__ __forceinline__ void run() {
        for (u32 n = 0;; ++n) {
            shared.sized_mbarriers[n % kSizedSlots].wait(n / kSizedSlots);
            const SizedTile tile = shared.sized[n % kSizedSlots];
            const bool exists = tile.kind < kStart, stores = exists && tile.is_stored;
            // Place the tile first: later tiles wait for it.
            const u32 before = likely(exists) ? place(n, tile) : 0;
            // Then count the warp's parts of the previous chunk. The result of this atomic is used
            // only after the tile's table entries have been written, to hide its latency.
            const TileKind done_kind = kind;
            const u32 done_chunk = chunk;
            const bool reports = parts && (tile.kind != kind || tile.chunk != chunk);
            const u32 n_done = unlikely(reports) ? report() : 0;
            if (likely(exists)) kind = tile.kind, chunk = tile.chunk, parts += kPartsPerTile / kWriterWarps;
            if (likely(exists && !stores)) write_table(tile, before);
            if (unlikely(reports)) frames.complete(done_kind, done_chunk, n_done);
            if (tile.kind == kNone) break;
            shared.full_mbarriers[n % kStages].wait(n / kStages);
            if (unlikely(stores)) {
                n_stored += kPartsPerTile / kWriterWarps;
                write_stored_tile(shared.stage_address(n), tile.chunk, tile.index);
            } else if (likely(exists)) {
                copy_stage(shared.stage_address(n), tile, before);
            }
            shared.empty_mbarriers[n % kStages].arrive();
        }
    }

    // Returns the number of words before a tile in its chunk, and publishes the tile's end.
    __device__ __forceinline__ u32 place(u32 n, const SizedTile& tile) const {
        const u32 before = frames.look_back(tile.chunk, tile.index), end = before + tile.words;
        if (lane == 0 && writer == 0) {
            // If a chunk is written a second time, the positions that were published the first time
            // stay valid. Each CTA chooses from the sum of all lengths how to write the chunk. So all
            // CTAs must see the same sum, even if the source has changed since, and this length with
            // it.
            if (likely(tile.kind == kFirst)) frames.publish_end(tile.chunk, tile.index, end);
            const u32 n_elements = min((tile.index + 1) * kTileBlocks<W>, layout.n_blocks) * kBlock;
            shared.progress[n % kSizedSlots] = Progress{tile.chunk, end < n_elements};
        }
        return before;
    }

    // Adds the warp's uncounted sums and parts to the chunk's totals. Lane 0 returns the number of
    // finished parts of the chunk.
    __device__ __forceinline__ u32 report() {
        weights.add_lane(row_lane(chunk), in_lane, sums);
        sums.a = warp_sum(sums.a);
        sums.b = warp_sum(sums.b);
        const u32 n_done = frames.count(kind, chunk, sums, parts, n_stored);
        sums = Sums();
        in_lane = parts = n_stored = 0;
        return n_done;
    }

    // The lane of the checksum's rows that contains the words that the thread writes.
    __device__ __forceinline__ u32 row_lane(u32 chunk) const {
        return (lane - static_cast<u32>(reinterpret_cast<u64>(frames.payload(chunk)) / 4)) % kLanes;
    }

    // Writes the table entries of the tile's blocks. Only the last writer warp does so, by its
    // threads whose checksum lane contains the entries.
    __device__ __forceinline__ void write_table(const SizedTile& tile, u32 before) {
        const u32 first = tile.index * kTileBlocks<W>, i = (row_lane(tile.chunk) - first) % kLanes, block = first + i;
        if (writer + 1 < kWriterWarps || lane >= kLanes || i >= kTileBlocks<W> || block >= layout.n_blocks) return;
        u32* const table = reinterpret_cast<u32*>(frames.payload(tile.chunk));
        const u32 end = before + (i == 0 ? tile.first_words : tile.words);
        table[block] = end;
        in_lane += static_cast<u64>(key_of(key_steps(block))) * end;
        // A zero adds nothing to the sums.
        if (layout.has_pad() && block + 1 == layout.n_blocks) table[block + 1] = 0;
    }

    // Copies a tile's share of a stored frame from the stage to the frame.
    __device__ __forceinline__ void write_stored_tile(u32 stage, u32 chunk, u32 index) {
        constexpr u32 kThreads = kWriterWarps * kWarp;
        const StoredRange range(layout.raw_bytes(), index);
        const u32 thread = threadIdx.x - kComputeThreads, n_units = range.n / kUnitBytes;
        unsigned char* const to = frames.stored_payload(chunk) + range.first;
        UnitSums<kThreads> unit_sums(range.first / 4 + 4 * thread);
#pragma unroll 2
        for (u32 at = thread * kUnitBytes; at < n_units * kUnitBytes; at += kThreads * kUnitBytes) {
            const uint4 unit = load_shared_16(stage + at);
            store_global_streaming(to + at, unit);
            unit_sums.add(unit);
        }
        unit_sums.finish(weights, sums);
        const u32 word = n_units * 4 + thread;
        if (4 * word < range.n) {
            const u32 value = reinterpret_cast<const u32*>(frames.source(chunk) + range.first)[word];
            reinterpret_cast<u32*>(to)[word] = value;
            sums.add(range.first / 4 + word, value);
        }
    }

    // Copies a stage to its position in the payload. Each store of a warp writes an aligned line of
    // 128 bytes, except at both ends of the tile. So whole sectors are written, and words need not
    // be shifted. The writer warps alternate line by line.
    __device__ __forceinline__ void copy_stage(u32 stage, const SizedTile& tile, u32 before) {
        const u64 first = layout.table_bytes() / 4 + static_cast<u64>(before) * Type<W>::kParts;
        const u32 n = tile.words * Type<W>::kParts;
        u32* const out = reinterpret_cast<u32*>(frames.payload(tile.chunk)) + first;
        constexpr u32 kBatch = 8, kStride = kWriterWarps * kWarp;
        constexpr u32 kStep = 4 * padded(kStride);
        const u32 skew = reinterpret_cast<u64>(out) / 4 % kWarp;
        u32 i = writer * kWarp + lane - skew, line_end = (writer + 1) * kWarp - skew;
        u64 sum = in_lane;
        if (static_cast<s32>(i) >= 0 && i < n) {
            const u32 word = load_shared_4(stage + 4 * padded(i));
            out[i] = word;
            sum += static_cast<u64>(key_of(key_steps(first + i))) * word;
        }
        i += kStride, line_end += kStride;
        u32 from = stage + 4 * padded(i);
        // A warp's batch spans fewer than 32 rows of the checksum, so each lane computes the key of
        // one row, and the lanes exchange them by shuffles.
        constexpr u32 kStepRows = kStride / kLanes;
        static_assert((kBatch - 1) * kStepRows + (kWarp + kLanes - 2) / kLanes < kWarp, "a key for every row");
        const u64 warp_first = first + line_end - kWarp;
        const u32 row = (static_cast<u32>(warp_first) % kLanes + lane) / kLanes;
        u32 steps = key_steps(warp_first) + lane * kKeyStep;
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
                store_global_streaming(out + i + j * kStride, words[j]);
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
        in_lane = sum;
    }
};
