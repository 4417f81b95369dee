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

// Scratch: of every chunk its totals, then kSlots slots.

template <typename W>
struct DecompressShared {
    // The stage of the longest block, to multiples of 16 bytes; then the elements of the block.
    alignas(1024) unsigned char bytes[(Type<W>::kMaxWords * Type<W>::kBytes + 2 * kUnitBytes + 127) / 128 * 128];
    u64 sums_a[kDecompressThreads<W> / kWarp], sums_b[kDecompressThreads<W> / kWarp];
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
        : args(args), shared(shared), layout(args.extents), tiles(args.n_chunks == 1 ? gridDim.x : gridDim.x / args.n_chunks),
          chunk(args.n_chunks == 1 ? 0 : blockIdx.x / tiles), index(blockIdx.x - chunk * tiles),
          payload(static_cast<const char*>(args.src) + chunk * args.src_stride), n_bytes(args.src_bytes[chunk]),
          dst(reinterpret_cast<W*>(static_cast<char*>(args.dst) + chunk * args.dst_stride)) {}

    // Adds up the sums of all threads. A barrier is passed.
    __device__ __forceinline__ void finish_sums(Sums sums) const {
        const u64 a = warp_sum(sums.a), b = warp_sum(sums.b);
        if (lane_id() == 0) shared.sums_a[threadIdx.x / kWarp] = a, shared.sums_b[threadIdx.x / kWarp] = b;
        __syncthreads();
        if (threadIdx.x != 0) return;
        sums = Sums();
#pragma unroll
        for (u32 w = 0; w < kThreads / kWarp; ++w) sums.a += shared.sums_a[w], sums.b += shared.sums_b[w];
        add_sums(slot(), sums);
    }

    // Counts the CTA's tile, with what is wrong with it; the last CTA of a slot adds the slot to the chunk's totals,
    // and the last of the chunk writes the result. This comes at the very end, since the count waits for the
    // thread's stores.
    __device__ __forceinline__ void finish(u32 errors) const {
        if (threadIdx.x != 0) return;
        ChunkTotals* const mine = slot();
        if (count_tiles(mine, errors, 1) + 1 != (tiles - index % kSlots + kSlots - 1) / kSlots) return;
        __threadfence();
        const volatile ChunkTotals* const sums = mine;
        add_sums(totals(), Sums{sums->sum_a, sums->sum_b});
        if (count_tiles(totals(), sums->errors, sums->n_done) + sums->n_done == tiles) {
            write_result(args.results + chunk, totals(), args.src_bytes[chunk]);
        }
    }
    __device__ __forceinline__ ChunkTotals* totals() const {
        return static_cast<ChunkTotals*>(args.scratch) + chunk * static_cast<u64>(1 + kSlots);
    }
    __device__ __forceinline__ ChunkTotals* slot() const { return totals() + 1 + index % kSlots; }

    // Whether the payload can end where the table says that the last block does.
    __device__ __forceinline__ u32 check_length(u32 words) const {
        const u64 expected = layout.payload_bytes(words);
        return expected == n_bytes ? 0 : 1u << (expected > n_bytes ? kTruncated : kCorrupt);
    }

    __device__ __forceinline__ void run() {
        if (index < layout.n_blocks) {
            decode_block();
        } else {
            copy_border_tile(index - layout.n_blocks);
        }
    }

    // Part `part` of the border, from payload to array.
    __device__ __forceinline__ void copy_border_tile(u32 part) const {
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
        finish_sums(sums);
        finish(errors);
    }

    // Block `index`.
    __device__ __forceinline__ void decode_block() {
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
        stage_words(first, n, sums);
        finish_sums(sums);
        if (errors) return finish(errors);

        // Both lanes with parts of the same columns read the same head.
        const u32 group = t / Type<W>::kParts / Type<W>::kParts;
        const u32 begin_of_block = stage + first % 4 * 4;
        const u32 head = load_shared_4(staged(begin_of_block + 4 * (group * Type<W>::kParts + Part<W>::head_half())));
        u32 in_warp;
        u32 at = Part<W>::columns_before(__popc(head), in_warp);
        // Every warp counts the columns of all heads, and of those before its own: that spares a barrier.
        constexpr u32 kHeadWords = Type<W>::kHeads * Type<W>::kParts, kWarpHeads = kHeadWords / (kThreads / kWarp);
        u32 columns = 0, columns_before = 0;
#pragma unroll
        for (u32 k = 0; k < kHeadWords; k += kWarp) {
            const u32 n_ones = __popc(load_shared_4(staged(begin_of_block + 4 * (k + lane_id()))));
            columns += n_ones;
            if (k + lane_id() < warp * kWarpHeads) columns_before += n_ones;
        }
        const u32 words = Type<W>::kHeads + warp_sum(columns);
        at += Type<W>::kHeads + warp_sum(columns_before);
        if (words != end - begin) return finish(1u << kCorrupt);

        u32 square[32];
        u32 column = begin_of_block + 4 * (at * Type<W>::kParts + Part<W>::column_half());
#pragma unroll
        for (u32 c = 0; c < 32; ++c) {
            square[c] = 0;
            if (head >> (31 - c) & 1) {
                square[c] = load_shared_4(staged(column));
                column += Type<W>::kBytes;
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
        finish(0);
    }

    // Copies words [first, first + n) of the payload to the stage, and adds up their sums. Whole units of 16 bytes
    // are copied, past the first level cache, whose few lines next to so much shared memory would limit the
    // loads in flight. So the stage begins with first % 4 words of what is before.
    __device__ __forceinline__ void stage_words(u64 first, u32 n, Sums& sums) const {
        constexpr u32 kUnitWords = kUnitBytes / 4, kStep = kThreads * kUnitBytes;
        const u32 t = threadIdx.x, stage = shared_address(shared.bytes), skipped = first % kUnitWords;
        const u32 n_units = n ? (skipped + n + kUnitWords - 1) / kUnitWords : 0;
        const char* const from = payload + (first - skipped) * 4 + t * kUnitBytes;
        // kStep is a multiple of a swizzle's period of 1024 bytes.
        const u32 to = staged(stage + t * kUnitBytes);
#pragma unroll 3
        for (u32 u = t, step = 0; u < n_units; u += kThreads, step += kStep) copy_async<kUnitBytes>(to + step, from + step);
        wait_copies();
        UnitSums<kThreads> unit_sums;
#pragma unroll 3
        for (u32 u = t, step = 0; u < n_units; u += kThreads, step += kStep) unit_sums.add(load_shared_16(to + step));
        unit_sums.finish(first - skipped + t * kUnitWords, sums);
        // Words of the first and the last unit that do not belong to the block.
        if (t == 0) {
            for (u32 w = 0; w < skipped; ++w) sums.remove(first - skipped + w, load_shared_4(staged(stage + 4 * w)));
        }
        if (n_units && t == (n_units - 1) % kThreads) {
            for (u32 w = skipped + n; w < n_units * kUnitWords; ++w) sums.remove(first - skipped + w, load_shared_4(staged(stage + 4 * w)));
        }
    }

    // Where the stage has what would be at an address: units of 16 bytes are permuted within 128 bytes, so that
    // threads reading runs of equal length side by side meet few bank conflicts.
    static __device__ __forceinline__ u32 staged(u32 address) { return address ^ (address >> 3 & 7 * kUnitBytes); }

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
constexpr LaunchInfo kDecompressInfo = {kDecompressThreads<W>, 0, 0, 1, 0, (1 + kSlots) * sizeof(ChunkTotals), 0};
