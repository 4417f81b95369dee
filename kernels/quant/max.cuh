// Decompression at level max: one warp per block of 65536 elements.
//
//   1. The bytes of the block are summed, and the tables of its contexts are built
//      (stage/rans.cuh).
//   2. Numbers are decoded, 32 at a time, one from each of 32 rows (max_scan.cuh). Each one is
//      converted to an element and stored at once.
//   3. Outliers, which are stored exactly, are copied to their positions.

#pragma once

#include "../stage/rans.cuh"
#include "block_tile.cuh"
#include "max_scan.cuh"

// The header of a block, and the byte offsets of its sections.
template <typename W>
struct MaxPlan {
    u32 header, n_filled, n_outliers;
    u32 outliers, weights;  // byte offsets of the sections
    W base, fill;

    // Reads the header of a block of m elements that has `n_bytes` bytes, at least one unit.
    // Returns a damage code, or 0 if the header is sound.
    __device__ __forceinline__ u32 read(const unsigned char* block, u32 n_bytes, u32 log_unit, u32 m, u32 element_bytes, bool has_codes) {
        constexpr u32 kKnown = 2 * kHasWeights - 1 | kHasWords | kHasFillMask | kHasOutliers;
        const u32* const words = reinterpret_cast<const u32*>(block);
        header = words[0] & 0xffff;
        n_filled = n_outliers = 0;
        if (header & kRawBlock) return plain_damage<W>(words[0], m * element_bytes, n_bytes, log_unit);
        if (words[0] & ~kKnown || (header & kHasWords && header & (kHasFillMask | kHasOutliers))) return kMarkUnsupported;
        u32 at = kAlignment;
        if (at + sizeof(W) > n_bytes) return kMarkCorrupt;
        base = load_word<W>(block + at);
        at += sizeof(W);
        if (header & kHasFillMask) {
            if (at + sizeof(W) + 4 > n_bytes) return kMarkCorrupt;
            fill = load_word<W>(block + at);
            n_filled = words[(at + sizeof(W)) / 4];
            at += sizeof(W) + 4;
            if (n_filled == 0) return kMarkCorrupt;
        }
        if (header & kHasOutliers) {
            if (at + 4 > n_bytes) return kMarkCorrupt;
            n_outliers = words[at / 4];
            outliers = at + 4;
            const u64 end = outliers + (static_cast<u64>(n_outliers) * element_bytes + kAlignment - 1) / kAlignment * kAlignment;
            if (n_outliers == 0 || end > n_bytes) return kMarkCorrupt;
            at = static_cast<u32>(end);
        }
        weights = at;
        return header & kHasWords || has_codes ? 0 : kMarkCorrupt;
    }
};

template <typename W>
struct MaxShared {
    using Plan = MaxPlan<W>;
    // Maximum bytes of a block.
    static constexpr u32 kMostBytes = (sizeof(W) << kLogMax) + kUnitBytes;

    RansTables<kMaxContexts, kNoNumbers + kWordSymbols<W>> tables;
    MaxCells<W> cells;
    Quantizer<W> quantizer;
    Box box;
    CtaSums<1> sums;
    Plan plan;
};

// kInArray: elements are as long as words, and all are wanted. kPart: as in block_tile.cuh.
template <typename W, bool kInArray, bool kPart = false>
struct MaxDecompressor : BlockTile<W, kLogMax, kWarp, kPart, MaxShared<W>, kLogMaxRow> {
    static_assert(!kInArray || !kPart, "a region has no places for other elements");
    using Shared = MaxShared<W>;
    using Tile = BlockTile<W, kLogMax, kWarp, kPart, Shared, kLogMaxRow>;
    using Plan = typename Shared::Plan;
    using Reader = RansReader<W, decltype(Shared::tables), kNoNumbers>;
    using Tile::args, Tile::payload, Tile::shared;
    using Tile::count, Tile::finish, Tile::part, Tile::report, Tile::store_elements;

    using Tile::Tile;

    __device__ __forceinline__ void run() {
        const auto decode = [&](u32 begin, u32 end, u32 check) {
            Tile::decode_block(
                begin, end, check, [&](Plan& plan, const unsigned char* source, u32 n_bytes) { return read_plan(plan, source, n_bytes); },
                [&](const unsigned char* source, u32 n_bytes) {
                    if (!decode_numbers(source, n_bytes) && threadIdx.x == 0) report(kMarkCorrupt);
                });
        };
        if constexpr (kPart) {
            Tile::run_part(decode);
        } else {
            Tile::run(decode);
        }
    }
    // Reads and checks the front of a block. Returns a damage code, or 0 if it is sound.
    __device__ __forceinline__ u32 read_plan(Plan& plan, const unsigned char* source, u32 n_bytes) const {
        return plan.read(source, n_bytes, args.own.log_unit(), shared.box.m, part().bytes, shared.quantizer.kind != Quantized::kNothing);
    }

    // The block's scratch memory: the outlier bitmap, with a bit for each element, then the window
    // of cells.
    static constexpr u32 kBitmapWords = (1u << kLogMax) / 32;
    __device__ __forceinline__ u32* scratch() const {
        // After the zeroed part, at a multiple of the host's alignment.
        static_assert(kDecompressScratch % kScratchAlignment == 0, "nothing is between");
        char* const all = static_cast<char*>(args.scratch) + static_cast<u64>(args.n_chunks) * kDecompressScratch;
        const u64 n_bytes = 4 * kBitmapWords + CellWindow<W>::n_bytes(args.own.n_cells);
        return reinterpret_cast<u32*>(all + (static_cast<u64>(Tile::chunk) * Tile::tiles + Tile::tile) * n_bytes);
    }

    // Decodes the block's numbers and stores its elements in the array. Returns whether the block
    // is sound.
    __device__ __forceinline__ bool decode_numbers(const unsigned char* source, u32 n_bytes) {
        const MaxView view(shared.box);
        const u32 header = shared.plan.header, weights = shared.plan.weights;
        const u32 tables = weights + (header & kHasWeights ? aligned_up(2 * view.n_weights(), kAlignment) : 0);
        if (tables > n_bytes) return false;
        u32* const bitmap = scratch();
        if (shared.plan.n_outliers > 0) {
            for (u32 i = lane_id(); i < kBitmapWords; i += kWarp) bitmap[i] = 0;
        }
        shared.cells.weights.read(view, header, source + weights);
        shared.tables.template read<kWarp>(source + tables, n_bytes - tables);
        const u32 string = tables + aligned_up(shared.tables.n_bytes, kAlignment);
        if (!shared.tables.is_sound || string > n_bytes) return false;
        Coder coder(*this, view, Reader(shared.tables, source + string, n_bytes - string), bitmap);
        const CellWindow<W> window(reinterpret_cast<char*>(bitmap + kBitmapWords), args.own.n_cells);
        MaxScan<W, Coder>{shared.cells, window, view, shared.box.m, header & kHasWeights ? kWeightBits : 0}.run(coder);
        // The two counts of a lane do not overflow, as a lane has fewer than 2^16 elements.
        const u32 n_read = coder.reader.n_bytes(), n_filled = warp_sum(coder.found % kOutlierFound), n_outliers = warp_sum(coder.found / kOutlierFound);
        const u32 log_unit = args.own.log_unit();
        const bool is_sound = n_read > 0 && units_of(string + n_read, log_unit) << log_unit == n_bytes && n_filled == shared.plan.n_filled && n_outliers == shared.plan.n_outliers;
        if (is_sound && n_outliers > 0) put_outliers(bitmap, source);
        return is_sound;
    }

    // Increments of a lane's counts, which share a word: filled elements, and above them outliers.
    static constexpr u32 kFillFound = 1, kOutlierFound = 1 << 16;

    // Called by MaxScan: decodes numbers and stores the elements computed from them. All of its state
    // is in registers.
    struct Coder {
        // kPer: words per 16-byte unit. kTogether: time steps that are unrolled together.
        static constexpr u32 kPer = Word<W>::kPerUnit, kTogether = 1;

        const MaxDecompressor& block;
        Reader reader;
        u32* const bitmap;
        const u32 length;
        const bool has_places, has_units, swaps;  // see has_places() and has_units() below
        const u32 log_step;
        const W base;
        const Float<W> step, limit;  // elements below the limit are their codes times a step
        W* place = nullptr;          // address of the lane's row, if has_places
        W before[kPer - 1] = {};     // words of elements not yet stored
        u32 found = 0;

        __device__ __forceinline__ Coder(const MaxDecompressor& block, const MaxView& view, const Reader& reader, u32* bitmap)
            : block(block), reader(reader), bitmap(bitmap), length(view.length), has_places(block.has_places(view)), has_units(has_places && block.has_units(view)),
              swaps(has_places && block.args.flags & kSwapBytes), log_step(block.args.own.log_parts()), base(block.shared.plan.base),
              step(block.shared.quantizer.steps[0]), limit(block.limit()) {}

        __device__ __forceinline__ void begin(u32 row) {
            if (kInArray && has_places) place = block.place_of(row, length);
        }
        __device__ __forceinline__ SizedNumber<W> code(const MaxStep<W>& at) {
            u32 symbol;
            const W left = reader.template number<false>(at.context, at.takes_part, symbol);
            SizedNumber<W> coded{at.expected.with(left), max_size(left)};
            const W code = coded.number + base;
            const Float<W> value = signed_float(code) * step;
            W word = bits_of(value);
            if (at.takes_part) {
                if (unlikely(!(size_of(value) < limit))) word = any_word(block.shared, code);
                if (unlikely(symbol < kNoNumbers)) {
                    found += symbol == kFillSymbol ? kFillFound : kOutlierFound;
                    if (symbol == kFillSymbol) word = block.shared.plan.fill, coded.size = kFillSize;
                    const u32 i = at.row * length + at.x;
                    if (symbol == kOutlierSymbol) atomicOr(bitmap + i / 32, 1u << i % 32);
                }
                if (swaps) word = swapped_bytes(word);
                put(at, word);
            }
#pragma unroll
            for (u32 k = 0; k + 2 < kPer; ++k) before[k] = before[k + 1];
            before[kPer - 2] = word;
            return coded;
        }
        __device__ __forceinline__ void put(const MaxStep<W>& at, W word) const {
            if (kInArray && has_units) {
                // Stores one 16-byte unit at a time, then the remaining elements at the end of a
                // row.
                if (at.x % kPer == kPer - 1) {
                    W words[kPer];
#pragma unroll
                    for (u32 k = 0; k + 1 < kPer; ++k) words[k] = before[k];
                    words[kPer - 1] = word;
                    store_global_16(place + at.x - (kPer - 1), join(words));
                } else if (at.x + 1 == length) {
                    place[at.x] = word;
#pragma unroll
                    for (u32 k = 1; k < kPer; ++k) {
                        if (k <= at.x % kPer) place[at.x - k] = before[kPer - 1 - k];
                    }
                }
            } else if (kInArray && has_places) {
                place[at.x << log_step] = word;
            } else {
                block.store_place(at.row * length + at.x, block.part(), word);
            }
        }
    };
    // Whether the view's rows, or the parts of a line, are contiguous in the array.
    __device__ __forceinline__ bool has_places(const MaxView& view) const {
        return kInArray && (view.is_line() ? shared.box.sz * shared.box.sy == 1 : view.length == shared.box.sx);
    }
    __device__ __forceinline__ W* place_of(u32 row, u32 length) const {
        const Box& box = shared.box;
        u64 first = static_cast<u64>(row) * length;
        if (length == box.sx) {
            // The view joins planes of one or two rows to one plane.
            u32 y = box.sy == 1 ? 0 : row & 1;
            const u32 z = box.sy < 3 ? row >> (box.sy - 1) : shared.cells.planes.divide(row, y);
            first = (z * args.own.extents[1] + y) * args.own.extents[2];
        }
        return reinterpret_cast<W*>(Tile::dst()) + ((box.start + first) << args.own.log_parts());
    }
    // Whether rows begin at multiples of a unit in the array, and all have the same length.
    __device__ __forceinline__ bool has_units(const MaxView& view) const {
        const u64 first = reinterpret_cast<u64>(Tile::dst()) + shared.box.start * sizeof(W), next_row = (view.is_line() ? view.length : args.own.extents[2]) * sizeof(W);
        const bool are_whole = !view.is_line() || shared.box.m % view.length == 0;
        return args.own.log_parts() == 0 && are_whole && (first | next_row) % kUnitBytes == 0;
    }
    // Elements below this are their codes times the first step.
    __device__ __forceinline__ Float<W> limit() const {
        return shared.quantizer.near_limit > Float<W>(0) && !(shared.plan.header & kHasWords) ? shared.quantizer.starts[1] : Float<W>(0);
    }
    static __device__ __noinline__ W any_word(const Shared& shared, W code) { return shared.plan.header & kHasWords ? code : shared.quantizer.value(code); }
    static __device__ __forceinline__ float signed_float(u32 code) { return __int2float_rn(static_cast<s32>(code)); }
    static __device__ __forceinline__ double signed_float(u64 code) { return __ll2double_rn(static_cast<s64>(code)); }

    // Copies the outliers from the frame, where they are in the order of their positions, to the
    // array. `bitmap` marks these positions.
    __device__ __forceinline__ void put_outliers(const u32* bitmap, const unsigned char* source) const {
        __syncwarp();
        const Element element = part();
        const unsigned char* const elements = source + shared.plan.outliers;
        u32 before = 0;
#pragma unroll 1
        for (u32 first = 0; first < kBitmapWords; first += kWarp) {
            const u32 own = bitmap[first + lane_id()], n = __popc(own), through = warp_inclusive_sum(n);
            u32 at = before + through - n;
#pragma unroll 1
            for (u32 left = own; left != 0; left &= left - 1, ++at) {
                Tile::store_place(32 * (first + lane_id()) + __ffs(left) - 1, element, Tile::load_unaligned(elements + at * element.bytes, element));
            }
            before += __shfl_sync(kAllLanes, through, kWarp - 1);
        }
    }
};

template <typename W, bool kInArray>
__device__ __forceinline__ void quant_max_decompress(const DecompressArgs<Chunk>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    MaxDecompressor<W, kInArray>(args, *reinterpret_cast<MaxShared<W>*>(shared)).run();
}

template <typename W>
__device__ __forceinline__ void quant_max_decompress_region(const RegionArgs<Chunk>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    MaxDecompressor<W, false, true>(args, *reinterpret_cast<MaxShared<W>*>(shared)).run();
}

// The scratch bytes of a block depend on the array; the host adds them.
template <typename W>
constexpr LaunchInfo kMaxInfo = {kWarp, sizeof(MaxShared<W>), 0, 1, 0, kDecompressScratch, 0};
