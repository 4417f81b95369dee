// The second pass of compression at level max: a warp goes the way that decompression goes (max_scan.cuh), and finds what is left of numbers, in
// which contexts. Each becomes an entry of half a word, in the order in which they will be read, and is counted. Codes are loaded by units, one unit
// before they are needed.

#pragma once

#include "max_scratch.cuh"

template <typename W>
struct MaxFindShared {
    MaxCells<W> cells;
    u32 counts[MaxCoding<W>::kKeys];
};

template <typename W>
struct MaxFinder {
    using Level = MaxLevel<W>;
    using Entry = ContextEntry<MaxCoding<W>>;

    // Finds entries.
    struct Coder {
        static constexpr u32 kPer = Word<W>::kPerUnit;

        const MaxView& view;
        const u32 m;
        const u32 per;  // codes that are loaded at a time, a power of two
        const W* const codes;
        const BlockMarks* const marks;  // of exceptions, if there are some
        unsigned short* const entries;
        W* const residuals;
        u32* const counts;
        W own[kPer], next[kPer];  // codes from this one on, and those behind them

        // Loads codes from a place of a row on, where a row, or part of a line, has some.
        __device__ __forceinline__ void load(W (&to)[kPer], u32 row, u32 x) const {
            const u32 i = row * view.length + x;
            if (row >= view.n_rows || x >= view.length || i >= m) return;
            if (per == kPer) {
                split(*reinterpret_cast<const uint4*>(codes + i), to);
            } else {
                to[0] = codes[i];
            }
        }
        __device__ __forceinline__ void start(u32 row) { load(own, row, 0), load(next, row, per); }
        __device__ __forceinline__ void begin(u32) {}
        __device__ __forceinline__ SizedNumber<W> code(const MaxStep<W>& step) {
            const W code = own[0];
            if (step.x < view.length) {
#pragma unroll
                for (u32 k = 0; k + 1 < kPer; ++k) own[k] = own[k + 1];
                if ((step.x & (per - 1)) == per - 1) {
#pragma unroll
                    for (u32 k = 0; k < kPer; ++k) own[k] = next[k];
                    load(next, step.row, step.x + 1 + per);
                }
            } else if (step.x == view.length) {
                // The row is over, and the next one begins a few times later.
                start(step.row + kWarp);
            }
            const u32 i = step.row * view.length + step.x;
            bool is_hole = false, is_other = false;
            if (unlikely(marks != nullptr) && step.takes_part) is_hole = marks->holes[i / 32] >> i % 32 & 1, is_other = marks->others[i / 32] >> i % 32 & 1;
            const W number = unlikely(is_hole | is_other) ? step.expected.number : code;
            const W above = number - step.expected.number, left = zigzag(step.expected.is_rounded_up ? 0 - above : above);
            u32 symbol = kNoNumbers + symbol_of(left), size = static_cast<u32>(min(static_cast<W>((left >> 1) + (left & 1)), static_cast<W>(kLargestMaxSize)));
            if (unlikely(is_hole)) symbol = kHoleSymbol, size = kHoleSize;
            if (unlikely(is_other)) symbol = kOtherSymbol;
            const u32 at = step.time * kWarp + lane_id(), key = step.context * Entry::kSymbols + symbol;
            if (step.takes_part) {
                atomicAdd(&counts[key], 1u);
                if (Entry::is_long(left)) residuals[at] = left;
            }
            entries[at] = static_cast<unsigned short>(step.takes_part ? static_cast<u32>(left) << Entry::kKeyBits | key : Entry::kNothing);
            return SizedNumber<W>{number, size};
        }
    };

    static __device__ __forceinline__ void run(const CompressArgs<Chunk>& args, MaxFindShared<W>& shared) {
        const BlockOfAll tile(args.own, blockIdx.x);
        typename Level::Block& block = Level::block(args, tile.number);
        if (block.info.header == kConstBlock) return;
        const Box box = find_box(args.own.extents, Level::kLog, tile.index >> args.own.log_parts(), Level::kLogRow);
        const MaxView view(box);
        const u32 lane = lane_id();
        for (u32 i = lane; i < MaxCoding<W>::kKeys; i += kWarp) shared.counts[i] = 0;
        for (u32 i = lane; i < kRowKinds * kTaps; i += kWarp) shared.cells.weights.of[i / kTaps][i % kTaps] = block.weights.of[i / kTaps][i % kTaps];
        __syncwarp();
        Coder coder{view, box.m, view.length % Coder::kPer == 0 ? Coder::kPer : 1, block.codes, block.has_exceptions ? &block.marks : nullptr,
                    Level::entries(args.own, block), Level::residuals(block), shared.counts, {}, {}};
        coder.start(lane);
        MaxScan<W, Coder>{shared.cells, Level::cells(args.own, block), view, box.m, block.has_weights ? kWeightBits : 0}.run(coder);
        __syncwarp();
        for (u32 i = lane; i < MaxCoding<W>::kKeys; i += kWarp) block.counts[i] = shared.counts[i];
    }
};

template <typename W>
__device__ __forceinline__ void szp_max_find(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    MaxFinder<W>::run(args, *reinterpret_cast<MaxFindShared<W>*>(bytes));
}
