// Decompression in one pass: one CTA a block, of 128 threads for f32 and 256 for f64, or as many
// elements of the border; many CTAs per multiprocessor hide each other's waiting.
//
//   1. The offset table says where the block is; if that can be, its words are copied to shared memory (the
//      stage), and summed up for the checksum.
//   2. The heads say where every thread's columns are; if their number is that of the table, each thread
//      reads its columns, transposes them, and has a line of residuals, which it adds up along x.
//   3. The lines go through shared memory (in the place of the stage) twice, so that each thread adds up
//      columns along y, then z. Then it stores what it has, 8 bytes at a time if rows allow.
//
// Nothing that is read is used before it is checked: the table's entries before they become addresses, and
// positions of columns follow from heads whose ones have been counted to be those of the block.
//
// Bytes per element: the payload is read once, the elements are written once; shared memory is written and
// read three times.

#pragma once

#include "../common/checksum.cuh"
#include "../common/tuning.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "transform.cuh"

template <typename W>
constexpr u32 kDecompressThreads = Type<W>::kLines;

template <typename W>
struct DecompressShared {
    static constexpr u32 kStageBytes = 4 * padded(Type<W>::kMaxWords * Type<W>::kParts);
    static constexpr u32 kBlockBytes = kBlock * Type<W>::kBytes;
    alignas(128) unsigned char bytes[(kStageBytes > kBlockBytes ? kStageBytes : kBlockBytes) + 127 & ~127u];
    u64 sums_a[kDecompressThreads<W> / kWarp], sums_b[kDecompressThreads<W> / kWarp];
    u32 warp_columns[kDecompressThreads<W> / kWarp];
    // In one dimension, the sum of each warp's words.
    u64 carries[kDecompressThreads<W> / kWarp];
};

// A cell is what a thread adds up side by side with one instruction's loads: two words of f32 or one of f64.
struct Cell32 {
    u32 x, y;
    __device__ __forceinline__ void operator+=(Cell32 other) { x += other.x, y += other.y; }
    __device__ __forceinline__ uint2 bits() const { return make_uint2(x, y); }
    __device__ __forceinline__ uint2 rotated() const { return make_uint2(rotated_right(x), rotated_right(y)); }
    static __device__ __forceinline__ Cell32 of(uint2 v) { return Cell32{v.x, v.y}; }
};
struct Cell64 {
    u64 x;
    __device__ __forceinline__ void operator+=(Cell64 other) { x += other.x; }
    __device__ __forceinline__ uint2 bits() const { return make_uint2(static_cast<u32>(x), static_cast<u32>(x >> 32)); }
    __device__ __forceinline__ uint2 rotated() const { return Cell64{rotated_right(x)}.bits(); }
    static __device__ __forceinline__ Cell64 of(uint2 v) { return Cell64{static_cast<u64>(v.y) << 32 | v.x}; }
};
template <typename W>
struct CellOf {
    using Type = Cell32;
};
template <>
struct CellOf<u64> {
    using Type = Cell64;
};
constexpr u32 kCellBytes = 8;
constexpr u32 kCells = 16;  // per thread

template <typename W, int kRank>
struct Decompressor {
    using Cell = typename CellOf<W>::Type;
    static constexpr u32 kThreads = kDecompressThreads<W>;
    static constexpr u32 kRowBytes = Sides<kRank>::kX * Type<W>::kBytes;
    static constexpr u32 kRowCells = kRowBytes / kCellBytes;

    const NdzipDecompressArgs& args;
    DecompressShared<W>& shared;
    const Layout<W, kRank> layout;
    const u32 tiles, chunk, index;
    const char* const payload;
    const u64 n_bytes;
    W* const dst;

    __device__ __forceinline__ Decompressor(const NdzipDecompressArgs& args, DecompressShared<W>& shared)
        : args(args), shared(shared), layout(args.extents), tiles(layout.tiles(1)),
          chunk(args.n_chunks == 1 ? 0 : blockIdx.x / tiles), index(blockIdx.x - chunk * tiles),
          payload(static_cast<const char*>(args.src) + chunk * args.src_stride), n_bytes(args.src_bytes[chunk]),
          dst(reinterpret_cast<W*>(static_cast<char*>(args.dst) + chunk * args.dst_stride)) {}

    // Adds up the sums of the CTA's threads and what is wrong, and finishes the chunk if it is the last CTA.
    // All warps have put their sums into `shared`, a barrier ago.
    __device__ __forceinline__ void finish(u32 errors) const {
        if (threadIdx.x != 0) return;
        Sums sums;
#pragma unroll
        for (u32 w = 0; w < kThreads / kWarp; ++w) sums.a += shared.sums_a[w], sums.b += shared.sums_b[w];
        ChunkTotals* totals = static_cast<ChunkTotals*>(args.scratch) + chunk;
        if (finish_tiles(totals, sums, errors, 1, tiles)) write_result(args.results + chunk, totals, n_bytes);
    }

    __device__ __forceinline__ void share_sums(Sums sums) const {
        sums.a = warp_sum(sums.a);
        sums.b = warp_sum(sums.b);
        if (lane_id() == 0) shared.sums_a[threadIdx.x / kWarp] = sums.a, shared.sums_b[threadIdx.x / kWarp] = sums.b;
    }

    // Whether the payload can end where the table says that the last block does.
    __device__ __forceinline__ u32 check_length(u32 words) const {
        const u64 expected = layout.payload_bytes(words);
        return expected == n_bytes ? 0 : 1u << (expected > n_bytes ? kTruncated : kCorrupt);
    }

    __device__ __forceinline__ void run() {
        const u32 errors = index < layout.n_blocks ? decode_block() : copy_border_tile(index - layout.n_blocks);
        __syncthreads();
#ifndef A1
        finish(errors);
#endif
    }

    // Part `part` of the border, from payload to array.
    __device__ __forceinline__ u32 copy_border_tile(u32 part) const {
        const u64 table = layout.table_bytes();
        u32 errors = 0;
        Sums sums;
        if (table > n_bytes) {
            errors = 1u << kTruncated;
        } else {
            const u32 words = layout.n_blocks ? reinterpret_cast<const u32*>(payload)[layout.n_blocks - 1] : 0;
            errors = check_length(words);
            const u32 first = part * kBlock, n = errors ? 0 : min(layout.n_border - first, kBlock);
            W* const from = reinterpret_cast<W*>(const_cast<char*>(payload));
            copy_border<kThreads, true>(layout, dst, from, table / Type<W>::kBytes + words + first, first, n, sums);
        }
        share_sums(sums);
        return errors;
    }

    // Block `index`. The result is the same in all threads.
    __device__ __forceinline__ u32 decode_block() {
        const u32 t = threadIdx.x, warp = t / kWarp;
        const u32 stage = shared_address(shared.bytes);
        const u64 table_bytes = layout.table_bytes();
        const u32* const payload32 = reinterpret_cast<const u32*>(payload);

        u32 errors = 0, begin = 0, end = 0;
        if (table_bytes > n_bytes) {
            errors = 1u << kTruncated;
        } else {
            begin = index ? payload32[index - 1] : 0;
            end = payload32[index];
            if (end < begin || end - begin < Type<W>::kHeads || end - begin > Type<W>::kMaxWords) {
                errors = 1u << kCorrupt;
            } else if (layout.payload_bytes(end) > n_bytes) {
                errors = 1u << kTruncated;
            } else if (index + 1 == layout.n_blocks) {
                errors = check_length(end);
            }
        }
        const u32 n = errors ? 0 : (end - begin) * Type<W>::kParts;
        const u64 first = table_bytes / 4 + static_cast<u64>(begin) * Type<W>::kParts;
        Sums sums;
        if (t == 0 && errors == 0) {
            sums.add(index, end);
            if (layout.has_pad() && index + 1 == layout.n_blocks) sums.add(index + 1, payload32[index + 1]);
        }
#ifdef A3
        if (t == 32 && index + A3 < layout.n_blocks && table_bytes <= n_bytes) {
            const u32 pb = payload32[index + A3 - 1];
            const u64 byte = (table_bytes + static_cast<u64>(pb) * Type<W>::kBytes) & ~127ull;
            if (byte + A3B <= n_bytes) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(payload + byte), "r"(A3B) : "memory");
        }
#endif
        stage_words(payload32 + first, n, first, sums);
        share_sums(sums);
        if (errors) return errors;
        __syncthreads();

        // Both lanes with parts of the same columns read the same head.
        const u32 group = t / Type<W>::kParts / Type<W>::kParts;
        u32 head = load_shared_4(stage + 4 * padded(group * Type<W>::kParts + Part<W>::head_half()));
        u32 in_warp;
        u32 at = Part<W>::columns_before(__popc(head), in_warp) + Type<W>::kHeads;
        if (lane_id() == 0) shared.warp_columns[warp] = in_warp;
        __syncthreads();
        u32 words = Type<W>::kHeads;
#pragma unroll
        for (u32 w = 0; w < kThreads / kWarp; ++w) {
            const u32 columns = shared.warp_columns[w];
            words += columns;
            if (w < warp) at += columns;
        }
        if (words != end - begin) return 1u << kCorrupt;

        u32 square[32];
        u32 word = at * Type<W>::kParts + Part<W>::column_half();
#pragma unroll
        for (u32 c = 0; c < 32; ++c) {
            square[c] = 0;
            if (head >> (31 - c) & 1) {
                square[c] = load_shared_4(stage + 4 * padded(word));
                word += Type<W>::kParts;
            }
        }
        transpose(square);
        W line[Type<W>::kLineElements];
        from_square(square, line);
        add_up_x(line);
        __syncthreads();  // the stage has been read
        const u32 to = stage + t * kLineBytes, key = swizzled<8>(t * kLineBytes) ^ t * kLineBytes;
        constexpr u32 kPerUnit = kUnitBytes / Type<W>::kBytes;
#pragma unroll
        for (u32 u = 0; u < kLineBytes / kUnitBytes; ++u) store_shared_16(to + (u * kUnitBytes ^ key), join(line + u * kPerUnit));
        __syncthreads();
        store_block(stage);
        return 0;
    }

    // Copies `n` words to the stage, and adds up their sums; the first is word `first` of the payload.
    __device__ __forceinline__ void stage_words(const u32* words, u32 n, u64 first, Sums& sums) const {
#ifdef A4
        {
        const u32 t = threadIdx.x;
        const u32* from = words + t;
        u32 to = shared_address(shared.bytes) + 4 * padded(t);
        constexpr u32 kStep = 4 * padded(kThreads);
        u32 i = t, k = 0;
        for (; i - t + 4 * kThreads <= n; i += 4 * kThreads, to += 4 * kStep) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) copy_async<4>(to + j * kStep, words + i + j * kThreads);
        }
#pragma unroll
            for (u32 j = 0; j < 4; ++j) if (i + j * kThreads < n) copy_async<4>(to + j * kStep, words + i + j * kThreads);
        wait_copies();
        StridedSums<kThreads> strided;
        to = shared_address(shared.bytes) + 4 * padded(t); i = t;
        for (; i - t + 4 * kThreads <= n; i += 4 * kThreads, to += 4 * kStep) {
#pragma unroll
            for (u32 j = 0; j < 4; ++j) strided.add(load_shared_4(to + j * kStep));
        }
#pragma unroll
            for (u32 j = 0; j < 4; ++j) if (i + j * kThreads < n) strided.add(load_shared_4(to + j * kStep));
        strided.finish(first + t, sums);
        return;
        }
#endif
        constexpr u32 kBatch = kDecompressBatch;  // loads in flight
        const u32 t = threadIdx.x;
        StridedSums<kThreads> strided;
        // kThreads is a multiple of 32, so the padding of a thread's words grows by the same amount.
        constexpr u32 kStep = 4 * padded(kThreads);
        u32 to = shared_address(shared.bytes) + 4 * padded(t), i = t;
        for (; i - t + kBatch * kThreads <= n; i += kBatch * kThreads, to += kBatch * kStep) {
            u32 batch[kBatch];
#pragma unroll
            for (u32 j = 0; j < kBatch; ++j) batch[j] = __ldcs(words + i + j * kThreads);
#pragma unroll
            for (u32 j = 0; j < kBatch; ++j) {
                store_shared_4(to + j * kStep, batch[j]);
#ifndef A2
                strided.add(batch[j]);
#endif
            }
        }
        u32 batch[kBatch];
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            if (i + j * kThreads < n) batch[j] = __ldcs(words + i + j * kThreads);
        }
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            if (i + j * kThreads < n) {
                store_shared_4(to + j * kStep, batch[j]);
#ifndef A2
                strided.add(batch[j]);
#endif
            }
        }
        strided.finish(first + t, sums);
    }

    // Undoes the sign folding, then the differences along x.
    __device__ __forceinline__ void add_up_x(W (&v)[Type<W>::kLineElements]) const {
        constexpr u32 kElements = Type<W>::kLineElements, kX = Sides<kRank>::kX;
#pragma unroll
        for (u32 i = 0; i < kElements; ++i) {
            v[i] = fold_sign(v[i]);
            if (i % kX) v[i] += v[i - 1];
        }
        if (kRank == 3) return;
        // The row goes on in other lanes.
        constexpr u32 kRowLanes = kRank == 2 ? kX / kElements : kWarp;
        const u32 lane = lane_id() % kRowLanes;
        W through = v[kElements - 1];
#pragma unroll
        for (u32 step = 1; step < kRowLanes; step *= 2) {
            const W before = __shfl_up_sync(kAllLanes, through, step);
            if (lane >= step) through += before;
        }
        W before = through - v[kElements - 1];
        if (kRank == 1) {
            if (lane == kWarp - 1) shared.carries[threadIdx.x / kWarp] = through;
            __syncthreads();
#pragma unroll
            for (u32 w = 0; w < kThreads / kWarp; ++w) {
                if (w < threadIdx.x / kWarp) before += static_cast<W>(shared.carries[w]);
            }
        }
#pragma unroll
        for (u32 i = 0; i < kElements; ++i) v[i] += before;
    }

    // Adds up along the other axes and stores. The block is in shared memory, swizzled<8>.
    __device__ __forceinline__ void store_block(u32 block) const {
        if (kRank == 3) add_up_y(block);
        // Are there rows whose words are not all at multiples of 8 bytes? (Of f32 only.)
        const u64 misaligned = reinterpret_cast<u64>(dst) | (kRank > 1 ? static_cast<u64>(layout.columns) * Type<W>::kBytes : 0);
        if (Type<W>::kBytes == kCellBytes || misaligned % kCellBytes == 0) {
            store_columns<kCellBytes>(block);
        } else {
            store_columns<4>(block);
        }
    }

    // Adds up along y in three dimensions: every thread has a column of cells of a plane.
    __device__ __forceinline__ void add_up_y(u32 block) const {
        const u32 column = threadIdx.x / kRowCells * 16 * kRowBytes + threadIdx.x % kRowCells * kCellBytes;
        const u32 at = swizzled<8>(column);
        Cell sum = Cell::of(make_uint2(0, 0));
#pragma unroll
        for (u32 y = 0; y < kCells; ++y) {
            const u32 cell = block + (at ^ swizzled<8>(y * kRowBytes));
            sum += Cell::of(load_shared_8(cell));
            store_shared_8(cell, sum.bits());
        }
        __syncthreads();
    }

    // The cells that a thread adds up along the slowest axis and stores. Their words are adjacent if kWidth is
    // 8. If it is 4, the second word is at such a distance that the warp still stores whole rows.
    template <u32 kWidth>
    __device__ __forceinline__ void store_columns(u32 block) const {
        // Bytes and rows from a cell's first word to its second; threads per row.
        constexpr u32 kRowThreads = kRank == 1 ? kThreads : kWidth == 8 ? kRowCells : kRank == 2 ? 32 : 16;
        constexpr u32 kFarRows = kRank == 3 ? 8 : 0;
        constexpr u32 kFar = kRank == 1 ? kThreads * 4 : kRank == 2 ? 128 : kFarRows * kRowBytes;
        const u32 x = threadIdx.x % kRowThreads * kWidth, row = threadIdx.x / kRowThreads;
        const u64 columns = layout.columns, plane = layout.plane;
        char* to = reinterpret_cast<char*>(dst + layout.block_start(index)) + x;
        const u64 far = kRank == 3 ? kFarRows * columns * Type<W>::kBytes : kFar;
        const auto load = [=](u32 at) {
            if (kWidth == 8) return Cell::of(load_shared_8(block + at));
            return Cell::of(make_uint2(load_shared_4(block + at), load_shared_4(block + (at ^ swizzled<8>(kFar)))));
        };
        const auto store = [=](char* to, const Cell& cell) {
            const uint2 v = cell.rotated();
            if (kWidth == 8) {
                store_global_8(to, v);
            } else {
                *reinterpret_cast<u32*>(to) = v.x;
                *reinterpret_cast<u32*>(to + far) = v.y;
            }
        };
        if (kRank == 1) {
            const u32 at = swizzled<8>(x);
#pragma unroll
            for (u32 i = 0; i < kCells; ++i) store(to + i * kThreads * kCellBytes, load(at ^ swizzled<8>(i * kThreads * kCellBytes)));
        }
        if (kRank == 2) {
            // A quarter of a column.
            const u32 at = swizzled<8>(row * kCells * kRowBytes + x);
            Cell cells[kCells];
#pragma unroll
            for (u32 i = 0; i < kCells; ++i) {
                cells[i] = load(at ^ swizzled<8>(i * kRowBytes));
                if (i > 0) cells[i] += cells[i - 1];
            }
            // The last cell of a quarter is read by none but its owner, who has it now: there goes the sum.
            const u32 last = block + (at ^ swizzled<8>((kCells - 1) * kRowBytes));
            const uint2 sum = cells[kCells - 1].bits();
            if (kWidth == 8) {
                store_shared_8(last, sum);
            } else {
                store_shared_4(last, sum.x);
                store_shared_4(block + (at ^ swizzled<8>((kCells - 1) * kRowBytes) ^ swizzled<8>(kFar)), sum.y);
            }
            __syncthreads();
            Cell before = Cell::of(make_uint2(0, 0));
#pragma unroll
            for (u32 quarter = 0; quarter < 3; ++quarter) {
                if (quarter < row) before += load(swizzled<8>(x) ^ swizzled<8>((quarter * kCells + kCells - 1) * kRowBytes));
            }
            to += row * kCells * columns * Type<W>::kBytes;
#pragma unroll
            for (u32 i = 0; i < kCells; ++i) {
                cells[i] += before;
                store(to, cells[i]);
                to += columns * Type<W>::kBytes;
            }
        }
        if (kRank == 3) {
            const u32 at = swizzled<8>(row * kRowBytes + x);
            to += row * columns * Type<W>::kBytes;
            Cell sum = Cell::of(make_uint2(0, 0));
#pragma unroll
            for (u32 z = 0; z < kCells; ++z) {
                sum += load(at ^ swizzled<8>(z * 16 * kRowBytes));
                store(to, sum);
                to += plane * Type<W>::kBytes;
            }
        }
    }
};

template <typename W, int kRank>
__device__ __forceinline__ void decompress(const NdzipDecompressArgs& args) {
    __shared__ DecompressShared<W> shared;
    Decompressor<W, kRank>(args, shared).run();
}

template <typename W>
constexpr LaunchInfo kDecompressInfo = {kDecompressThreads<W>, 0, 0, 1, 0, sizeof(ChunkTotals), 0};
