// Decompression in one pass. A CTA decodes one block, or two adjacent blocks
// (decompress_shared.cuh), with 128 threads per block of f32 and 256 per block of f64; or it copies
// as many elements of the border. Many resident CTAs per multiprocessor hide each other's latency.
//
//   1. The offset table gives the block's position. If it is plausible, the block's words are
//      copied to shared memory (the stage) and added to the checksum. If the frame is stored, the
//      CTA copies its share of the bytes instead.
//   2. The heads give the positions of every thread's columns. Each thread reads its columns,
//      transposes them to a line of residuals, and adds these up along x. The number of columns
//      must match the table.
//   3. The lines pass through shared memory (in the place of the stage) twice, so that each thread
//      adds up columns along y, then z. Then it stores its elements, 8 bytes at a time if rows are
//      aligned.
//
// Damaged data never causes an access out of bounds: the table's entries are validated before they
// become addresses, and no heads can name columns beyond the stage.
//
// The CTA that finishes the last tile of a chunk verifies the header and its checksum.
//
// Memory traffic per element: the payload is read once, the elements are written once; shared
// memory is written and read three times.

#pragma once

#include "../common/checksum.cuh"
#include "../common/frame.cuh"
#include "../common/tile.cuh"
#include "../common/tuning.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "transform.cuh"
#include "decompress_shared.cuh"

// kSums: whether the blocks are added to the payload's checksum.
template <typename W, int kRank, u32 kBlocks, bool kSums = true>
struct Decompressor : DecompressTile<Blocks> {
    using Cell = typename CellOf<W>::Type;
    using Shared = DecompressShared<W, kBlocks>;
    static constexpr u32 kThreads = kDecompressThreads<W, kBlocks>;
    static constexpr u32 kLines = Type<W>::kLines;  // threads of a part, which decode one block
    static constexpr u32 kRowBytes = Sides<kRank>::kX * Type<W>::kBytes;
    static constexpr u32 kRowCells = kRowBytes / kCellBytes;

    Shared& shared;
    const Layout<W, kRank> layout;
    const u32 part;   // index in the tile of the block that the thread decodes
    const u32 block;  // index of this block in the chunk
    W* const dst;

    __device__ __forceinline__ Decompressor(const DecompressArgs<Blocks>& args, Shared& shared)
        : DecompressTile<Blocks>(args), shared(shared), layout(args.own), part(kBlocks == 1 ? 0 : threadIdx.x / kLines),
          block(tile * kBlocks + part), dst(reinterpret_cast<W*>(array)) {}
    // For a block other than the tile's.
    __device__ __forceinline__ Decompressor(const DecompressArgs<Blocks>& args, Shared& shared, u32 block)
        : DecompressTile<Blocks>(args), shared(shared), layout(args.own), part(0), block(block), dst(reinterpret_cast<W*>(array)) {}

    __device__ __forceinline__ void run() {
        // Header and table are readable whatever the frame's length is, so all these loads are in
        // flight together.
        const u32* const table = reinterpret_cast<const u32*>(payload);
        u32 begin = 0, end = 0;
        if (block < layout.n_blocks) {
            begin = block ? table[block - 1] : 0;
            end = table[block];
        }
        const bool stored = is_stored(args.stored, frame), is_block = tile < layout.block_tiles(kBlocks);
        u32 damage = check_frame(layout.table_bytes());
        // One branch for the common case: all operands of `&` are evaluated, without branches.
        if (likely(is_block & !stored & (damage == 0))) return decode_blocks(begin, end);

        if (stored) {
            Sums sums;
            damage = copy_share<kThreads, Pieces::kWords>(layout.n_elements() * Type<W>::kBytes, kBlocks * kBlock * Type<W>::kBytes, sums);
            add(shared.sums, sums, damage);
        } else if (damage) {
            report(damage);
            __syncthreads();
        } else {
            copy_border_tile(tile - layout.block_tiles(kBlocks));
        }
        finish(count());
    }

    // Waits for all threads of the part.
    __device__ __forceinline__ void part_sync() const {
        if (kBlocks == 1) {
            __syncthreads();
        } else {
            barrier_sync(1 + part, kLines);
        }
    }

    // Adds the sums of the part's threads to the checksum. Contains a barrier of the part.
    __device__ __forceinline__ void finish_sums(Sums sums) const {
        constexpr u32 kWarps = kLines / kWarp;
        if (kSums) shared.sums.share(sums);
        part_sync();
        if (kSums && threadIdx.x % kLines == 0) slot()->add(shared.sums.template sum<kWarps>(part * kWarps));
    }

    // Copies tile `number` of the border from the payload to the array.
    __device__ __forceinline__ void copy_border_tile(u32 number) const {
        constexpr u32 kElements = kBlocks * kBlock;
        const u32 words = layout.n_blocks ? reinterpret_cast<const u32*>(payload)[layout.n_blocks - 1] : 0;
        const u32 damage = check_length(n_bytes, layout.payload_bytes(words));
        const u32 first = number * kElements, n = damage ? 0 : min(layout.n_border - first, kElements);
        W* const from = reinterpret_cast<W*>(const_cast<char*>(payload));
        Sums sums;
        copy_border<kThreads, Towards::kArray>(layout, dst, from, layout.table_bytes() / Type<W>::kBytes + words + first, first, n,
                                    args.flags & kSwapBytes, sums);
        add(shared.sums, sums, damage);
    }

    // Decodes and stores the tile's blocks, one per part. The part's block has words [begin, end),
    // as given by the offset table.
    __device__ __forceinline__ void decode_blocks(u32 begin, u32 end) {
        if (kBlocks == 1 && unlikely(end - begin == Type<W>::kHeads)) return store_zeros(begin, end);
        const u32 damage = kBlocks == 1 || block < layout.n_blocks ? decode_block(begin, end) : 0;
        if (threadIdx.x % kLines == 0) report(damage);
        if (kRank == 3) __syncthreads();
        // `count()` is a global atomic and takes a while. With one block per CTA, it is issued
        // before the elements are stored, to hide its latency. With two, memory bandwidth is the
        // bottleneck, and an early atomic would delay the stores.
        u32 n_before = kBlocks == 1 ? count() : 0;
        // A damaged block is stored, too; its elements are garbage.
        if (unlikely(args.flags & kSwapBytes)) {
            store_blocks<Order::kSwapped>();
        } else {
            store_blocks<Order::kNative>();
        }
        if (kBlocks > 1) n_before = count();
        finish(n_before);
    }

    // Stores a block without columns. Its heads must be zeros; then its elements are zeros, and its
    // words add nothing to the checksum.
    __device__ __forceinline__ void store_zeros(u32 begin, u32 end) const {
        const u32 t = threadIdx.x;
        if (t == 0) shared.starts[0] = layout.block_start(block);
        u32 damage = end < begin ? kMarkCorrupt : check_place(end);
        const u64 first = layout.table_bytes() / 4 + static_cast<u64>(begin) * Type<W>::kParts;
        if (damage == 0 && t < Type<W>::kHeads * Type<W>::kParts && reinterpret_cast<const u32*>(payload)[first + t]) damage = kMarkCorrupt;
        report(damage);
        if (t == 0) {
            Sums sums;
            add_entry(end, sums);
            slot()->add(sums);
        }
        __syncthreads();
        const u32 n_before = count();
        store_blocks<Order::kNative, true>();
        finish(n_before);
    }

    // Returns a damage code if the block's end, word `end`, does not fit the payload's length;
    // otherwise 0.
    __device__ __forceinline__ u32 check_place(u32 end) const {
        const u64 need = layout.payload_bytes(end);
        return need > n_bytes ? kMarkTruncated : (block + 1 == layout.n_blocks) & (need < n_bytes) ? kMarkCorrupt : 0;
    }
    // Adds the block's table entry to the checksum; for the last block, also the padding of the
    // table.
    __device__ __forceinline__ void add_entry(u32 end, Sums& sums) const {
        sums.add(block, end);
        if (layout.has_pad() && block + 1 == layout.n_blocks) sums.add(block + 1, reinterpret_cast<const u32*>(payload)[block + 1]);
    }

    // Decodes the part's block to shared memory, and adds it up along x, in three dimensions also
    // along y. Returns a damage code, or 0 if the block is sound.
    __device__ __forceinline__ u32 decode_block(u32 begin, u32 end) {
        const u32 t = threadIdx.x % kLines, warp = t / kWarp;
        const u32 stage = shared_address(shared.bytes[part]);
        const bool is_corrupt = (end < begin) | (end - begin < Type<W>::kHeads) | (end - begin > Type<W>::kMaxWords);
        const u32 damage = is_corrupt ? kMarkCorrupt : check_place(end);
        const u32 n = damage ? 0 : (end - begin) * Type<W>::kParts;
        const u64 first = layout.table_bytes() / 4 + static_cast<u64>(begin) * Type<W>::kParts;
        Sums sums;
        stage_words(stage, t, first, n);
        // Do other work while the copies are in flight.
        if (warp == 0) shared.starts[part] = layout.block_start(block);
        if (t == 0) add_entry(end, sums);
        wait_copies();
        if (kSums) sum_up(stage, t, first, n, sums);
        finish_sums(sums);
        if (unlikely(damage)) return damage;

        // Lanes that have parts of the same columns (f64) read the same head.
        const u32 group = t / Type<W>::kParts / Type<W>::kParts;
        const u32 begin_of_block = stage + first % 4 * 4;
        const u32 head = load_shared_4(staged(begin_of_block + 4 * (group * Type<W>::kParts + Part<W>::head_half())));
        u32 in_warp;
        u32 at = Part<W>::columns_before(__popc(head), in_warp);
        // Every warp counts the columns of all heads, and those of the heads before its own. This
        // saves a barrier.
        constexpr u32 kHeadWords = Type<W>::kHeads * Type<W>::kParts, kWarpHeads = kHeadWords / (kLines / kWarp);
        u32 columns = 0, columns_before = 0;
#pragma unroll
        for (u32 k = 0; k < kHeadWords; k += kWarp) {
            const u32 n_ones = __popc(load_shared_4(staged(begin_of_block + 4 * (k + lane_id()))));
            columns += n_ones;
            if (k + lane_id() < warp * kWarpHeads) columns_before += n_ones;
        }
        const u32 words = Type<W>::kHeads + warp_sum(columns);
        at += Type<W>::kHeads + warp_sum(columns_before);

        // Even damaged heads name no more columns than a block can have, so `column` stays within
        // the stage.
        u32 column = begin_of_block + 4 * (at * Type<W>::kParts + Part<W>::column_half());
        W line[Type<W>::kLineElements];
        read_columns(head, column, line);
        add_up_x(line);
        // After this barrier, all threads of the part have read the stage.
        part_sync();
        if (unlikely(words != end - begin)) return kMarkCorrupt;
        const u32 to = stage + t * kLineBytes, key = swizzled<8>(t * kLineBytes) ^ t * kLineBytes;
        constexpr u32 kPerUnit = kUnitBytes / Type<W>::kBytes;
#pragma unroll
        for (u32 u = 0; u < kLineBytes / kUnitBytes; ++u) store_shared_16(to + (u * kUnitBytes ^ key), join(line + u * kPerUnit));
        part_sync();
        if (kRank == 3) add_up_y();
        return 0;
    }

    // Starts the copy of words [first, first + n) of the payload to the stage. Only whole 16-byte
    // units are copied, so the stage begins with the first % 4 words that precede `first`. The
    // copies bypass the L1 cache: the large shared memory leaves it few lines, which would limit
    // the loads in flight.
    __device__ __forceinline__ void stage_words(u32 stage, u32 t, u64 first, u32 n) const {
        constexpr u32 kUnitWords = kUnitBytes / 4, kStep = kLines * kUnitBytes;
        const u32 skipped = first % kUnitWords;
        const u32 n_units = n ? (skipped + n + kUnitWords - 1) / kUnitWords : 0;
        // The payload may end within the last unit.
        const bool is_cut = n && (first - skipped + n_units * kUnitWords) * 4 > n_bytes;
        const u32 n_copies = n_units - is_cut;
        const char* const from = payload + (first - skipped) * 4 + t * kUnitBytes;
        // kStep is a multiple of 1024 bytes, the period of staged(), so it can be added to a result
        // of staged().
        const u32 to = staged(stage + t * kUnitBytes);
#pragma unroll 2
        for (u32 u = t, step = 0; u < n_copies; u += kLines, step += kStep) copy_async<kUnitBytes, Fetch::k128Bytes>(to + step, from + step);
        if (unlikely(is_cut && t == n_copies % kLines)) {
            const u32* const last = reinterpret_cast<const u32*>(payload) + (first - skipped) + n_copies * kUnitWords;
            u32 words[kUnitWords];
#pragma unroll
            for (u32 w = 0; w < kUnitWords; ++w) words[w] = n_copies * kUnitWords + w < skipped + n ? last[w] : 0;
            store_shared_16(staged(stage + n_copies * kUnitBytes), join(words));
        }
    }

    // Adds words [first, first + n) of the payload, which are in the stage, to the checksum. Each
    // thread reads only words that it has copied itself.
    __device__ __forceinline__ void sum_up(u32 stage, u32 t, u64 first, u32 n, Sums& sums) const {
        constexpr u32 kUnitWords = kUnitBytes / 4, kStep = kLines * kUnitBytes;
        const u32 skipped = first % kUnitWords;
        const u32 n_units = n ? (skipped + n + kUnitWords - 1) / kUnitWords : 0;
        const u32 to = staged(stage + t * kUnitBytes);
        UnitSums<kLines> unit_sums(first - skipped + t * kUnitWords);
#pragma unroll 2
        for (u32 u = t, step = 0; u < n_units; u += kLines, step += kStep) unit_sums.add(load_shared_16(to + step));
        unit_sums.finish(sums);
        // Remove the words of the first and the last unit that do not belong to the block.
        if (n && t == 0) {
            for (u32 w = 0; w < skipped; ++w) sums.remove(first - skipped + w, load_shared_4(staged(stage + 4 * w)));
        }
        if (n && t == (n_units - 1) % kLines) {
            for (u32 w = skipped + n; w < n_units * kUnitWords; ++w) sums.remove(first - skipped + w, load_shared_4(staged(stage + 4 * w)));
        }
    }

    // Maps an address to its location in the stage. Units of 16 bytes are permuted within 128
    // bytes. This avoids most bank conflicts when adjacent threads read runs of equal length.
    static __device__ __forceinline__ u32 staged(u32 address) { return address ^ (address >> 3 & 7 * kUnitBytes); }

    // Reads the columns that the head names, and converts them to the residuals of the thread's
    // line, with the sign folding undone. The first column is at address `column`.
    __device__ __forceinline__ static void read_columns(u32 head, u32 column, W (&line)[Type<W>::kLineElements]) {
        u32 square[32];
        const auto load = [&](u32 c) {
            square[c] = 0;
            if (head >> (31 - c) & 1) {
                square[c] = load_shared_4(staged(column));
                column += Type<W>::kBytes;
            }
        };
        load(0);
        const bool has_long = has_long_words(head);
#pragma unroll
        for (u32 c = 1; c < kLongColumns; ++c) square[c] = 0;
        if (has_long) {
#pragma unroll
            for (u32 c = 1; c < kLongColumns; ++c) load(c);
        }
#pragma unroll
        for (u32 c = kLongColumns; c < 32; ++c) load(c);
        if constexpr (Type<W>::kParts == 1) {
            if (!has_long) {
                u32 middle = 0;
#pragma unroll
                for (u32 c = kLongColumns; c < 25; ++c) middle |= square[c];
                if (!__any_sync(kAllLanes, middle & ~kEdgeBits)) return unfold_narrow(square, line);
            }
        }
        transpose(square);
        from_square(square, line);
#pragma unroll
        for (W& residual : line) residual = fold_sign(residual);
    }

    // Undoes the differences along x.
    __device__ __forceinline__ void add_up_x(W (&v)[Type<W>::kLineElements]) const {
        constexpr u32 kElements = Type<W>::kLineElements, kX = Sides<kRank>::kX;
#pragma unroll
        for (u32 i = 0; i < kElements; ++i) {
            if (i % kX) v[i] += v[i - 1];
        }
        if (kRank == 3) return;
        // A row continues in the following lanes.
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

    // Adds up along the slowest axis, and stores the elements. The blocks are in shared memory,
    // permuted by swizzled<8>. If kZeros, they are all zeros instead.
    template <Order kOrder, bool kZeros = false>
    __device__ __forceinline__ void store_blocks() const {
        // Only rows of f32 may begin at addresses that are not multiples of 8 bytes. In three
        // dimensions, the kernel with two blocks per CTA decodes such rows.
        constexpr bool kAligned = Type<W>::kBytes == kCellBytes || (kRank == 3 && kBlocks == 1);
        const u64 misaligned = reinterpret_cast<u64>(dst) | (kRank > 1 ? static_cast<u64>(layout.columns) * Type<W>::kBytes : 0);
        if (kAligned || likely(misaligned % kCellBytes == 0)) {
            store_columns<kCellBytes, kOrder, kZeros>();
        } else {
            store_columns<4, kOrder, kZeros>();
        }
    }

    // Returns the address of the byte `further` bytes after offset o, for shared memory at `base`
    // that is permuted by swizzled<8>. `at` is swizzled<8>(o); o and `further` have no common set
    // bits. Whole lines are added rather than XORed, so that constant distances become constant
    // address offsets.
    static __device__ __forceinline__ u32 address(u32 base, u32 at, u32 further) {
        const u32 lines = further / kLineBytes * kLineBytes;
        return base + (at ^ swizzled<8>(further) ^ lines) + lines;
    }

    // Adds up along y in three dimensions. Every thread has a column of cells in a plane of its
    // block.
    __device__ __forceinline__ void add_up_y() const {
        const u32 t = threadIdx.x % kLines, stage = shared_address(shared.bytes[part]);
        const u32 at = swizzled<8>(t / kRowCells * 16 * kRowBytes + t % kRowCells * kCellBytes);
        Cell sum = Cell::of(make_uint2(0, 0));
#pragma unroll
        for (u32 y = 0; y < kCells; ++y) {
            const u32 cell = address(stage, at, y * kRowBytes);
            sum += Cell::of(load_shared_8(cell));
            store_shared_8(cell, sum.bits());
        }
    }

    // Adds up cells along the slowest axis and stores them, kWidth bytes at a time. If kWidth is 8,
    // the two words of a cell are adjacent. If it is 4, the second word is kFar bytes after the
    // first one, so that a warp still stores whole rows. With two blocks, adjacent threads have a
    // row of the first block, followed by the same row of the second one.
    template <u32 kWidth, Order kOrder, bool kZeros>
    __device__ __forceinline__ void store_columns() const {
        // kRowThreads: threads per row. kFarRows and kFar: distance from the first word of a cell
        // to the second one if kWidth is 4, in rows and in bytes of shared memory.
        constexpr u32 kRowThreads = kRank == 1 ? kThreads : kWidth == 8 ? kRowCells : kRank == 2 ? 32 : 16;
        constexpr u32 kFarRows = kRank == 3 ? 8 : 0;
        constexpr u32 kFar = kRank == 1 ? kThreads * 4 : kRank == 2 ? 128 : kFarRows * kRowBytes;
        const u32 x = threadIdx.x % kRowThreads * kWidth, row = threadIdx.x / (kRowThreads * kBlocks);
        const u32 beside = kBlocks == 1 ? 0 : threadIdx.x / kRowThreads % kBlocks;
        if (kBlocks > 1 && tile * kBlocks + beside >= layout.n_blocks) return;
        const u32 block = shared_address(shared.bytes[beside]);
        const u64 columns = layout.columns, plane = layout.plane;
        char* to = reinterpret_cast<char*>(dst + shared.starts[beside]) + x;
        const u64 far = kRank == 3 ? kFarRows * columns * Type<W>::kBytes : kFar;
        const auto load = [=](u32 at, u32 further) {
            if (kZeros) return Cell::of(make_uint2(0, 0));
            const u32 first = address(block, at, further);
            if (kWidth == 8) return Cell::of(load_shared_8(first));
            return Cell::of(make_uint2(load_shared_4(first), load_shared_4(address(block, at ^ swizzled<8>(kFar), further))));
        };
        const auto store = [=](char* to, const Cell& cell) {
            const uint2 v = cell.template value<kOrder>();
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
            for (u32 i = 0; i < kCells; ++i) store(to + i * kThreads * kCellBytes, load(at, i * kThreads * kCellBytes));
        }
        if (kRank == 2) {
            // Each thread has a quarter of a column.
            const u32 at = swizzled<8>(row * kCells * kRowBytes + x);
            Cell cells[kCells];
#pragma unroll
            for (u32 i = 0; i < kCells; ++i) {
                cells[i] = load(at, i * kRowBytes);
                if (i > 0) cells[i] += cells[i - 1];
            }
            // Store the quarter's sum in place of its last cell: only this thread reads that cell,
            // and has already loaded it.
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
                if (quarter < row) before += load(swizzled<8>(x), (quarter * kCells + kCells - 1) * kRowBytes);
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
                sum += load(at, z * 16 * kRowBytes);
                store(to, sum);
                to += plane * Type<W>::kBytes;
            }
        }
    }
};

template <typename W, int kRank, u32 kBlocks>
__device__ __forceinline__ void decompress(const DecompressArgs<Blocks>& args) {
    __shared__ DecompressShared<W, kBlocks> shared;
    Decompressor<W, kRank, kBlocks>(args, shared).run();
}

template <typename W, u32 kBlocks>
constexpr LaunchInfo kDecompressInfo = {kDecompressThreads<W, kBlocks>, 0, 0, kBlocks, 0, kDecompressScratch, 0};
