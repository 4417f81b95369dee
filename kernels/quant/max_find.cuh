// Second pass of compression at level max: a warp finds the residuals and their contexts. Each
// residual is counted in its context and becomes a half-word entry, in the order of decompression.
//
// Blocks of short rows without exceptions are handled row by row (max_rows.cuh). For lines, long
// rows, and blocks with exceptions, a warp follows the order of decompression (max_scan.cuh). The
// expected number of an exception takes the place of its code. Codes are loaded one time step
// before they are needed.

#pragma once

#include "max_rows.cuh"

template <typename W>
struct MaxScanShared {
    MaxCells<W> cells;
    u32 counts[MaxCoding<W>::kKeys];
};

template <typename W>
union MaxFindShared {
    MaxScanShared<W> scan;
    MaxRowsShared<W> rows;
};

template <typename W>
struct MaxFinder {
    using Level = MaxLevel<W>;
    using Rows = MaxRows<W>;
    using Entry = ContextEntry<MaxCoding<W>>;

    // The coder for MaxScan: finds the entry of each residual.
    struct Coder {
        static constexpr u32 kTogether = 2;  // time steps that are unrolled together

        const MaxView& view;
        // Number of elements; time steps from one row of a lane to its next.
        const u32 m, period;
        const W* const codes;
        const BlockBitmaps* const bitmap;  // of exceptions, or null
        unsigned short* const entries;
        W* const residuals;
        u32* const counts;
        W ahead;

        __device__ __forceinline__ void begin(u32) {}
        __device__ __forceinline__ void load(u32 row, u32 x) {
            const u32 i = row * view.length + x;
            if (x < view.length && row < view.n_rows && i < m) ahead = codes[i];
        }
        __device__ __forceinline__ SizedNumber<W> code(const MaxStep<W>& step) {
            const W code = ahead;
            const bool is_next_row = step.x + 1 == period;
            load(is_next_row ? step.row + kWarp : step.row, is_next_row ? 0 : step.x + 1);
            const u32 i = step.row * view.length + step.x;
            bool is_fill = false, is_outlier = false;
            if (unlikely(bitmap != nullptr) && step.takes_part) is_fill = bitmap->fill_mask[i / 32] >> i % 32 & 1, is_outlier = bitmap->outliers[i / 32] >> i % 32 & 1;
            const W number = unlikely(is_fill | is_outlier) ? step.expected.number : code;
            const W left = step.expected.left(number);
            u32 symbol = kNoNumbers + symbol_of(left), size = max_size(left);
            if (unlikely(is_fill)) symbol = kFillSymbol, size = kFillSize;
            if (unlikely(is_outlier)) symbol = kOutlierSymbol;
            const u32 at = step.time * kWarp + lane_id(), key = step.context * Entry::kSymbols + symbol;
            if (step.takes_part) {
                atomicAdd(&counts[key], 1u);
                if (Entry::is_long(left)) residuals[at] = left;
            }
            entries[at] = static_cast<unsigned short>(step.takes_part ? Entry::with_key(left, key) : Entry::kNothing);
            return SizedNumber<W>{number, size};
        }
    };

    static __device__ __forceinline__ void run(const CompressArgs<Chunk>& args, MaxFindShared<W>& shared) {
        const BlockOfAll tile(args.own, blockIdx.x);
        if (has_other_fold(args, tile.chunk)) return;
        typename Level::Block& block = Level::block(args, tile.number);
        if (block.info.header == kConstBlock) return;
        const Box box = find_box(args.own.extents, Level::kLog, tile.index >> args.own.log_parts(), Level::kLogRow);
        const MaxView view(box);
        const u32 fraction = block.has_weights ? kWeightBits : 0;
        const CellWindow<W> cells = Level::cells(args.own, block);
        unsigned short* const entries = Level::entries(args.own, block);
        W* const residuals = Level::residuals(block);
        if (block.is_by_rows(view)) {
            // In this case, the memory of the cells holds sizes.
            u32* const sizes = reinterpret_cast<u32*>(cells.numbers);
            counted(block, shared.rows.weights, shared.rows.counts, [&] { Rows{shared.rows, view, fraction, block.codes, entries, residuals, sizes}.run(); });
        } else {
            counted(block, shared.scan.cells.weights, shared.scan.counts, [&] {
                const BlockBitmaps* const bitmap = block.has_exceptions ? &block.bitmap : nullptr;
                Coder coder{view, box.m, view.is_line() ? ~0u : view.row_step(), block.codes, bitmap, entries, residuals, shared.scan.counts, 0};
                // On a line, all lanes begin at once. In rows, only the first lane does.
                if (view.is_line() || lane_id() == 0) coder.load(lane_id(), 0);
                MaxScan<W, Coder>{shared.scan.cells, cells, view, box.m, fraction}.run(coder);
            });
        }
    }
    // Loads the weights, calls `find`, and stores the counts. Keys from kCounts on get a count of
    // 0.
    template <u32 kCounts, typename Find>
    static __device__ __forceinline__ void counted(typename Level::Block& block, MaxWeights& weights, u32 (&counts)[kCounts], Find find) {
        const u32 lane = lane_id();
        for (u32 i = lane; i < kCounts; i += kWarp) counts[i] = 0;
        for (u32 i = lane; i < kRowKinds * kTaps; i += kWarp) weights.of[i / kTaps][i % kTaps] = block.weights.of[i / kTaps][i % kTaps];
        __syncwarp();
        find();
        __syncwarp();
        for (u32 i = lane; i < MaxCoding<W>::kKeys; i += kWarp) block.counts[i] = i < kCounts ? counts[i] : 0;
    }
};

template <typename W>
__device__ __forceinline__ void quant_max_find(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    MaxFinder<W>::run(args, *reinterpret_cast<MaxFindShared<W>*>(bytes));
}
