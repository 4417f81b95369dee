// Compression (`fast`) in one pass: one CTA a block of 4096 elements at a time, many CTAs per multiprocessor.
//
// Blocks are handed out in their order by a counter, chunk after chunk. For every block:
//   1. Its words are copied to shared memory. The bits that any has and their range are found by all threads; zeros at the
//      end that all have are shifted out, and what is left are the numbers of the map BITS.
//   2. Some rows are predicted with each candidate for the orders; the bits of their residuals are the costs. Where
//      exponents differ, the numbers of the map FIXED go to the other buffer and are tried as well.
//   3. Residuals go to the other buffer: a warp makes eight rows at a time, in registers. Of whole planes these are its
//      group's; of other boxes each row is for itself.
//   4. A warp has a group: it counts for every width how many residuals are longer, in bit slices: word k of six counts in
//      binary, bit by bit, the residuals of a lane that are longer than k bits. Then lane k knows the count of width k and
//      what it costs.
//   5. The size of the block is published, and the groups are packed to a stage in the place of the numbers.
//   6. The first warp looks back for the place of the block; all copy the stage to the payload and sum it up.
//
// A block that takes longer than others holds up all that look back at it. So the paths for clipped blocks matter, too.
//
// Who finishes the last block of a chunk writes the frame's header. If the chunk does not get smaller it is done again,
// after all others, by copying the array.

#pragma once

#include "../common/checksum.cuh"
#include "../common/frame.cuh"
#include "../common/ordered_frames.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "widths.cuh"

constexpr u32 kLogBlock = 12;
constexpr u32 kElements = 1 << kLogBlock;
constexpr u32 kGroups = kElements / kGroup;
constexpr u32 kLorenzoThreads = kGroups * kWarp;  // a warp a group

struct Orders {
    u32 z, y, x;
};

// How the elements of a block become numbers.
template <typename W>
struct Mapping {
    u32 map, shift;  // t or e
    W base;
};

// The number of a float by FIXED.
template <typename W>
__device__ __forceinline__ W fixed_of_float(W word, u32 e) {
    constexpr u32 kMantissa = Type<W>::kMantissa;
    const u32 exponent = static_cast<u32>(word >> kMantissa) & Type<W>::kMaxExponent;
    const W f = (word & low_bits(W(), kMantissa)) | static_cast<W>(exponent > 0) << kMantissa;
    const s32 x = static_cast<s32>(max(exponent, 1u) - e);
    const W v = x >= 0 ? f << x : f >> -x;
    return word >> (Type<W>::kBits - 1) ? 0 - v : v;
}

// The numbers of a block or what is made of them. A step of rows behind them can be read.
constexpr u32 kStepRows = 8;  // rows that a warp has at a time
template <typename W>
struct alignas(128) Buffer {
    W words[kElements + kStepRows * kRow];
};

template <typename W>
struct LorenzoShared {
    // The block's words, then its numbers, then the stage, at most as long as a block in RAW; and the residuals, then lists
    // of patches. With FIXED they change places.
    Buffer<W> buffers[2];
    // What each warp knows of the words, or of its costs.
    W ors[kGroups], lows[kGroups], highs[kGroups];
    u32 first_bits[kGroups], last_bits[kGroups], bad[kGroups];
    alignas(16) u32 costs[8][kGroups];
    uint4 sections[kGroups];  // bytes of a group's sections
    uint4 header;             // of the block, in SPLIT
    CtaSums<kGroups> sums;
    Box box;
    SmallDivisor planes = SmallDivisor(1);  // by the rows of a plane
    Orders cubic;                           // 3 where the box has an extent
    bool is_full;                           // at least kMinDepth planes of 16 rows of 32
    bool has_steps, has_steps_in_planes;    // rows of 32, so many that a step is of one group, and of one plane
    Drawn drawn;
    u32 before;  // units of all blocks before
};

// Row n: (1 - x)^n.
__constant__ const s32 kBinomials[8][8] = {{1},
                                           {1, -1},
                                           {1, -2, 1},
                                           {1, -3, 3, -1},
                                           {1, -4, 6, -4, 1},
                                           {1, -5, 10, -10, 5, -1},
                                           {1, -6, 15, -20, 15, -6, 1},
                                           {1, -7, 21, -35, 35, -21, 7, -1}};

template <typename W>
struct LorenzoCompressor {
    using Shared = LorenzoShared<W>;
    static constexpr u32 kPerUnit = Type<W>::kPerUnit;
    static constexpr u32 kMaxOrder = 7;
    // Rows of a plane in blocks of large arrays in three dimensions, and their planes. With fewer than kMinDepth all rows are
    // sampled.
    static constexpr u32 kFullHeight = 16, kMaxDepth = kElements / (kFullHeight * kRow), kMinDepth = 3;

    const CompressArgs<Blocks>& args;
    Shared& shared;
    const Element element;
    const OrderedFrames<FrameLayout> frames;

    __device__ __forceinline__ LorenzoCompressor(const CompressArgs<Blocks>& args, Shared& shared)
        : args(args), shared(shared), element(args.encoded),
          frames(args, FrameLayout{args.own, element.bytes}, args.own.n_blocks, args.own.n_blocks) {}

    __device__ __forceinline__ void run() const {
        frames.run<kLorenzoThreads>(shared.drawn, shared.sums, [&](u32 chunk, u32 block) { return encode(chunk, block); });
    }

    // Makes the frame's block, and is the sums in the first thread. By all threads.
    __device__ __forceinline__ Sums encode(u32 chunk, u32 block) const {
        const u32 warp = threadIdx.x / kWarp, lane = lane_id();
        if (threadIdx.x == kLorenzoThreads - 1) {
            const Box found = find_box(args.own.extents, kLogBlock, block);
            shared.box = found;
            // A line is seen as rows of 32 in one plane.
            shared.planes = SmallDivisor(found.sz * found.sy == 1 ? kElements / kRow : found.sy);
            shared.is_full = found.sx == kRow && found.sy == kFullHeight && found.sz >= kMinDepth;
            shared.has_steps = (found.sx == kRow || found.sz * found.sy == 1) && found.m % (kStepRows * kRow) == 0;
            shared.has_steps_in_planes = shared.has_steps && found.sy % kStepRows == 0;
            shared.cubic = Orders{found.sz > 1 ? 3u : 0u, found.sy > 1 ? 3u : 0u, found.sx > 1 ? 3u : 0u};
        }
        __syncthreads();
        const u32 m = shared.box.m;
        W* numbers = shared.buffers[0].words;
        W* residuals = shared.buffers[1].words;
        load_words(frames.source(chunk), numbers);
        __syncthreads();

        W all_or, low, high;
        look_at_words(numbers, all_or, low, high);
        const bool is_const = low == high;
        uint2 own_header = {};
        if (likely(!is_const)) {
            Mapping<W> mapping = {kBits, 0, 0};
            Orders orders = {0, 0, 0};
            choose(numbers, residuals, all_or, low, high, mapping, orders);
            if (threadIdx.x == 0) shared.header = block_header(mapping, orders);
            const Widths own = write_residuals(numbers, residuals, mapping.base, orders);
            own_header = own.header();
            if (lane == 0) shared.sections[warp] = make_uint4(own.packed_bytes(), own.bitmap_bytes(), own.patch_bytes(), 0);
            __syncthreads();
        }
        // Sections of SPLIT.
        const u32 n_groups = (m + kGroup - 1) / kGroup;
        u32 packed = kHeaderBytes + 8 * n_groups, bitmap = 0, patches = 0, all_packed = packed, all_bitmaps = 0, all_patches = 0;
#pragma unroll
        for (u32 g = 0; g < kGroups; ++g) {
            const uint4 bytes = shared.sections[g];
            if (g < warp) packed += bytes.x, bitmap += bytes.y, patches += bytes.z;
            all_packed += bytes.x;
            all_bitmaps += bytes.y;
            all_patches += bytes.z;
        }
        bitmap += all_packed;
        patches += all_packed + all_bitmaps;
        const u32 raw_units = 1 + (m * element.bytes + kUnitBytes - 1) / kUnitBytes;
        const u32 split_units = (all_packed + all_bitmaps + all_patches + kUnitBytes - 1) / kUnitBytes;
        const u32 coder = is_const ? kConst : split_units < raw_units ? kSplit : kRaw;
        const u32 n_units = coder == kConst ? 1 : coder == kSplit ? split_units : raw_units;
        if (threadIdx.x == 0) frames.publish(chunk, block, n_units);

        unsigned char* const stage = reinterpret_cast<unsigned char*>(numbers);
        if (likely(coder == kSplit)) {
            // Strings are added to zeros, in words of 4 bytes.
            for (u32 at = all_packed + all_bitmaps + threadIdx.x * 4; at < n_units * kUnitBytes; at += kLorenzoThreads * 4) {
                *reinterpret_cast<u32*>(stage + at) = 0;
            }
            __syncthreads();
            if (threadIdx.x == 0) *reinterpret_cast<uint4*>(stage) = shared.header;
            if (warp < n_groups) {
                if (lane == 0) *reinterpret_cast<uint2*>(stage + kHeaderBytes + 8 * warp) = own_header;
                const Widths own(own_header, min(m - warp * kGroup, kGroup));
                pack(stage + packed, stage + bitmap, stage, patches, residuals + warp * kGroup, own);
            }
        }
        __syncthreads();
        if (warp == 0) {
            const u32 before = frames.place(chunk, block, n_units);
            if (lane == 0) shared.before = before;
        }
        __syncthreads();
        const u32 before = shared.before;
        char* const to = frames.payload(chunk);
        const u32 tiles = frames.tiles;
        const u64 first = table_bytes(tiles) + static_cast<u64>(before) * kUnitBytes;
        UnitSums<kLorenzoThreads> unit_sums(first / 4 + 4 * threadIdx.x);
        const auto put = [&](u32 u, uint4 unit) {
            store_global_16(to + first + u * kUnitBytes, unit);
            unit_sums.add(unit);
        };
        if (likely(coder == kSplit)) {
#pragma unroll 2
            for (u32 u = threadIdx.x; u < n_units; u += kLorenzoThreads) put(u, load_shared_16(shared_address(stage) + u * kUnitBytes));
        } else {
#pragma unroll 1
            for (u32 u = threadIdx.x; u < n_units; u += kLorenzoThreads) put(u, plain_unit(coder, u, numbers, m));
        }
        Sums sums;
        unit_sums.finish(sums);
        shared.sums.share(sums);
        __syncthreads();
        sums = Sums();
        if (threadIdx.x == 0) {
            sums = shared.sums.sum();
            const u32 check = static_cast<u32>(checksum_of(sums.a, sums.b, n_units * kUnitBytes)), end = before + n_units;
            u32* const table = reinterpret_cast<u32*>(to);
            reinterpret_cast<uint2*>(table)[block] = make_uint2(end, check);
            sums.add(2ull * block, end);
            sums.add(2ull * block + 1, check);
            if (block + 1 == tiles) {
                // Zeros add nothing.
                for (u64 word = 2ull * tiles; word < table_bytes(tiles) / 4; ++word) table[word] = 0;
            }
        }
        return sums;
    }

    // Unit `u` of a block in RAW or CONST.
    __device__ __forceinline__ uint4 plain_unit(u32 coder, u32 u, const W* numbers, u32 m) const {
        if (u == 0) {
            const u64 base = coder == kConst ? numbers[0] : 0;
            return make_uint4(coder, 0, static_cast<u32>(base), static_cast<u32>(base >> 32));
        }
        const u32 map = shared.header.x >> 4 & 0xf, shift = shared.header.y;
        if (likely(map == kBits && shift == 0 && element.bytes == sizeof(W) && u * kPerUnit <= m)) return reinterpret_cast<const uint4*>(numbers)[u - 1];
        u64 halves[2] = {0, 0};
#pragma unroll 1
        for (u32 byte = 0; byte < kUnitBytes; byte += element.bytes) {
            const u32 i = ((u - 1) * kUnitBytes + byte) / element.bytes;
            bool damaged;
            const W own = i >= m ? 0 : map == kBits ? numbers[i] << shift : float_of_fixed(numbers[i], shift, damaged);
            const u64 bits = static_cast<u64>(own) & low_bits(static_cast<u64>(0), 8 * element.bytes);
            halves[0] |= byte < 8 ? bits << 8 * byte : 0;
            halves[1] |= byte < 8 ? 0 : bits << 8 * (byte - 8);
        }
        return join(halves);
    }

    static __device__ __forceinline__ uint4 block_header(const Mapping<W>& mapping, const Orders& orders) {
        const u64 base = mapping.base;
        const u32 flags = kSplit | mapping.map << 4 | orders.x << 8 | orders.y << 12 | orders.z << 16;
        return make_uint4(flags, mapping.shift, static_cast<u32>(base), static_cast<u32>(base >> 32));
    }

    __device__ __forceinline__ bool is_line() const { return shared.box.sz * shared.box.sy == 1; }

    // The words of the block, to shared memory.
    __device__ __forceinline__ void load_words(const char* array, W* words) const {
        const Box& box = shared.box;
        const char* const start = array + box.start * element.bytes;
        const u64 row_bytes = (is_line() ? kRow : args.own.extents[2]) * element.bytes, plane_bytes = args.own.extents[1] * row_bytes;
        const u64 misaligned = reinterpret_cast<u64>(start) | row_bytes;
        const u32 n_rows = box.m / kRow;
        // All threads copy some rows of one plane at a time.
        constexpr u32 kRowUnits = kRow / kPerUnit, kRows = kLorenzoThreads / kRowUnits;
        const u32 height = shared.planes.divisor;
        const bool is_aligned = element.bytes == sizeof(W) && misaligned % kUnitBytes == 0 && !(args.flags & kSwapBytes);
        if (likely(is_aligned && (box.sx == kRow || is_line()) && box.m % kRow == 0 && (height % kRows == 0 || box.sz == 1))) {
            const u32 first = threadIdx.x / kRowUnits;
            const char* from = start + first * row_bytes + threadIdx.x % kRowUnits * kUnitBytes;
            const u64 next_plane = plane_bytes - height * row_bytes;
            u32 to = shared_address(words) + threadIdx.x * kUnitBytes, y = 0;
#pragma unroll 4
            for (u32 row = first; row < n_rows; row += kRows) {
                copy_async<kUnitBytes>(to, from);
                to += kLorenzoThreads * kUnitBytes;
                from += kRows * row_bytes;
                y += kRows;
                if (y == height) y = 0, from += next_plane;
            }
            wait_copies();
            return;
        }
        if (sizeof(W) == 8 || element.bytes == 4) {
            load_rows(start, words);
        } else if (element.bytes == 2) {
            load_narrow<unsigned short>(start, words, misaligned);
        } else {
            load_narrow<unsigned char>(start, words, misaligned);
        }
    }

    // The same for rows that are not aligned. A warp has a quarter of them.
    __device__ __forceinline__ void load_rows(const char* start, W* words) const {
        const Box& box = shared.box;
        const u64 next_row = is_line() ? kRow : args.own.extents[2], next_plane = args.own.extents[1] * next_row;
        const u32 length = is_line() ? kRow : box.sx, n_rows = (box.m + length - 1) / length, height = shared.planes.divisor;
        const u32 share = (n_rows + kGroups - 1) / kGroups, first = threadIdx.x / kWarp * share, last = min(first + share, n_rows);
#pragma unroll 1
        for (u32 x = lane_id(); x < length; x += kWarp) {
            u32 y;
            const u32 z = shared.planes.divide(first, y);
            const W* from = reinterpret_cast<const W*>(start) + (z * next_plane + y * next_row + x);
            const u32 to = shared_address(words), end = min(last * length, box.m);
#pragma unroll 4
            for (u32 number = first * length + x; number < end; number += length) {
                copy_async<sizeof(W)>(to + number * static_cast<u32>(sizeof(W)), from);
                from += next_row;
                if (++y == height) y = 0, from += next_plane - height * next_row;
            }
        }
        wait_copies();
        if (!(args.flags & kSwapBytes)) return;
        __syncthreads();
        for (u32 i = threadIdx.x; i < box.m; i += kLorenzoThreads) words[i] = swapped_bytes(words[i]);
    }

    // The same for elements T that become words, where possible all that are in 32 bits at a time.
    template <typename T>
    __device__ __forceinline__ void load_narrow(const char* start, W* words, u64 misaligned) const {
        const Box& box = shared.box;
        const SmallDivisor planes = shared.planes;
        const bool swaps = args.flags & kSwapBytes;
        const u64 next_row = is_line() ? kRow : args.own.extents[2], next_plane = args.own.extents[1] * next_row;
        const u32 length = is_line() ? kRow : box.sx;
        constexpr u32 kAtOnce = 4 / sizeof(T), kPerRow = kRow / kAtOnce, kBatch = 4;  // loads under way
        if (likely(misaligned % 4 == 0 && length == kRow && box.m % kRow == 0)) {
            for (u32 first = threadIdx.x; first < box.m / kAtOnce; first += kBatch * kLorenzoThreads) {
                u32 batch[kBatch];
#pragma unroll
                for (u32 i = 0; i < kBatch; ++i) {
                    const u32 at = first + i * kLorenzoThreads;
                    u32 y;
                    const u32 z = planes.divide(at / kPerRow, y);
                    if (at < box.m / kAtOnce) batch[i] = *reinterpret_cast<const u32*>(start + (z * next_plane + y * next_row) * sizeof(T) + at % kPerRow * 4);
                }
#pragma unroll
                for (u32 i = 0; i < kBatch; ++i) {
                    const u32 at = first + i * kLorenzoThreads;
                    if (at >= box.m / kAtOnce) continue;
#pragma unroll
                    for (u32 k = 0; k < kAtOnce; ++k) words[at * kAtOnce + k] = word_of_element<W>(static_cast<T>(batch[i] >> 8 * sizeof(T) * k), element, swaps);
                }
            }
            return;
        }
        const u32 n_rows = (box.m + length - 1) / length;
        for (u32 row = threadIdx.x / kWarp; row < n_rows; row += kGroups) {
            u32 y;
            const u32 z = planes.divide(row, y);
            const T* const from = reinterpret_cast<const T*>(start) + (z * next_plane + y * next_row);
#pragma unroll 1
            for (u32 x = lane_id(); x < length && row * length + x < box.m; x += kWarp) words[row * length + x] = word_of_element<W>(from[x], element, swaps);
        }
    }

    // The bits that any word has, and the words' signed range, of all threads. Barriers.
    __device__ __forceinline__ void look_at_words(const W* words, W& all_or, W& low, W& high) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        low = high = all_or = words[0];
        const auto look = [&](W word) {
            all_or |= word;
            low = signed_min(low, word);
            high = signed_max(high, word);
        };
#pragma unroll 4
        for (u32 u = threadIdx.x; u < m / kPerUnit; u += kLorenzoThreads) {
            W own[kPerUnit];
            split(reinterpret_cast<const uint4*>(words)[u], own);
#pragma unroll
            for (u32 i = 0; i < kPerUnit; ++i) look(own[i]);
        }
        if (m / kPerUnit * kPerUnit + threadIdx.x < m) look(words[m / kPerUnit * kPerUnit + threadIdx.x]);
        all_or = warp_or(all_or);
        low = warp_min(low);
        high = warp_max(high);
        if (lane_id() == 0) shared.ors[warp] = all_or, shared.lows[warp] = low, shared.highs[warp] = high;
        __syncthreads();
#pragma unroll
        for (u32 w = 0; w < kGroups; ++w) {
            all_or |= shared.ors[w];
            low = signed_min(low, shared.lows[w]);
            high = signed_max(high, shared.highs[w]);
        }
    }

    // Chooses map, orders and base; makes the words numbers. Those that are chosen are in `numbers`, the other buffer is
    // `other` then. Barriers.
    __device__ __forceinline__ void choose(W*& numbers, W*& other, W all_or, W low, W high, Mapping<W>& mapping, Orders& orders) const {
        const u32 t = trailing_zeros(all_or);
        if (t > 0) {
#pragma unroll 1
            for (u32 i = threadIdx.x; i < shared.box.m; i += kLorenzoThreads) numbers[i] = shifted_signed(numbers[i], t);
            __syncthreads();
        }
        mapping.shift = t;
        Mapping<W> tried = mapping;
        const W* candidate = numbers;
        W first = shifted_signed(low, t), last = shifted_signed(high, t);
        u32 lowest = ~0u;
#pragma unroll 1
        for (u32 map = kBits; map <= kFixed; ++map) {
            if (map == kFixed) {
                // Words between two that have the same sign and exponent have these, too.
                if (likely(!element.is_float || (low ^ high) >> Type<W>::kMantissa == 0)) return;
                first = low, last = high;
                if (!find_fixed(numbers, other, tried, first, last)) return;
                candidate = other;
            }
            Orders own;
            const u32 cost = choose_orders(candidate, first, last, tried.base, own);
            if (cost >= lowest) return;
            lowest = cost, mapping = tried, orders = own;
        }
        W* const words = numbers;
        numbers = other, other = words;
    }

    // Whether FIXED can be used, its e, and its numbers and their range, given those of the words. Barriers.
    __device__ __forceinline__ bool find_fixed(const W* numbers, W* fixed_numbers, Mapping<W>& fixed, W& low, W& high) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        constexpr u32 kMantissa = Type<W>::kMantissa, kMaxExponent = Type<W>::kMaxExponent;
        // The highest word of most that cannot be used.
        if (low == kTopBit<W> || static_cast<u32>(high >> kMantissa) == kMaxExponent) return false;
        const u32 t = fixed.shift;
        fixed.map = kFixed;
        u32 lowest = ~0u, highest = 0;
        bool bad = false;
#pragma unroll 2
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W word = numbers[i] << t;
            const u32 exponent = static_cast<u32>(word >> kMantissa) & kMaxExponent, x = max(exponent, 1u);
            const W f = (word & low_bits(W(), kMantissa)) | static_cast<W>(exponent > 0) << kMantissa;
            bad |= exponent == kMaxExponent;
            if (f == 0) continue;
            lowest = min(lowest, x + trailing_zeros(f));
            highest = max(highest, x + bit_length(f));
        }
        lowest = warp_min_unsigned(lowest);
        highest = warp_max_unsigned(highest);
        bad = __any_sync(kAllLanes, bad);
        if (lane_id() == 0) shared.first_bits[warp] = lowest, shared.last_bits[warp] = highest, shared.bad[warp] = bad;
        __syncthreads();
        for (u32 w = 0; w < kGroups; ++w) {
            lowest = min(lowest, shared.first_bits[w]);
            highest = max(highest, shared.last_bits[w]);
            bad |= shared.bad[w] != 0;
        }
        if (bad || highest - lowest > Type<W>::kBits - 2) return false;
        fixed.shift = lowest;
        low = high = fixed_of_float(numbers[0] << t, lowest);
#pragma unroll 2
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W v = fixed_of_float(numbers[i] << t, lowest);
            fixed_numbers[i] = v;
            low = signed_min(low, v);
            high = signed_max(high, v);
        }
        low = warp_min(low);
        high = warp_max(high);
        if (lane_id() == 0) shared.lows[warp] = low, shared.highs[warp] = high;
        __syncthreads();
        for (u32 w = 0; w < kGroups; ++w) low = signed_min(low, shared.lows[w]), high = signed_max(high, shared.highs[w]);
        return true;
    }

    // Chooses orders and base for numbers from `low` to `high`, and is the cost. Barriers.
    __device__ __forceinline__ u32 choose_orders(const W* numbers, W low, W high, W& base, Orders& best) const {
        const u32 warp = threadIdx.x / kWarp;
        const W range = high - low;
        const W middle = low + (range >> 1) + (range & 1), first = numbers[0];
        const bool has_short_rows = shared.box.sx <= kRow && !is_line();
        u32 c = 0, lowest = ~0u, order = 0, costs_2_and_3[2];
        if (likely(shared.is_full)) {
            full_costs(numbers, first, middle, costs_2_and_3);
            c = kCubic;
        } else if (has_short_rows) {
            first_costs(numbers, first, middle);
            c = kCubic;
        } else if (is_line()) {
            line_costs(numbers, first, middle, costs_2_and_3);
            c = kCubic;
        }
        Orders o = candidate(c);
#pragma unroll 1
        for (;; ++c) {
            u32 own = 0;
            const bool is_known = is_line() || (shared.is_full && (o.z > 0) & (o.y > 0) & (o.x > 0));
            if (likely(is_known && order <= 3)) {
                own = c == kCubic || order == 3 ? costs_2_and_3[1] : costs_2_and_3[0];
            } else if (has_short_rows && order <= 3) {
                own = low_cost(numbers, first, o);
            } else if (c > kCubic || exists(o)) {
                own = sampled_cost(numbers, c == 0 ? middle : first, o);
            }
            // Two places in turn: nobody reads the one any more that is written.
            const u32 place = c < kCubic ? c : kCubic + c % 2;
            if (lane_id() == 0) shared.costs[place][warp] = own;
            if (c < kCubic) {
                o = candidate(c + 1);
                continue;
            }
            __syncthreads();
            if (c == kCubic) {
                const u32 mine = min(lane_id(), kCubic);
                const u32 key = warp_min_unsigned(exists(candidate(mine)) ? cost_of(mine) << 3 | mine : ~0u);
                lowest = key / 8, best = candidate(key % 8);
                order = max(max(best.z, best.y), best.x);
                base = order == 0 ? middle : first;
            } else {
                const u32 cost = cost_of(place);
                if (cost >= lowest) break;
                lowest = cost, best = o;
            }
            if (order == 0 || order == kMaxOrder) break;
            // The next higher order of the best one.
            ++order;
            o = Orders{best.z > 0 ? order : 0, best.y > 0 ? order : 0, best.x > 0 ? order : 0};
        }
        return lowest;
    }
    __device__ __forceinline__ u32 cost_of(u32 c) const {
        const uint4 costs = *reinterpret_cast<const uint4*>(shared.costs[c]);
        return costs.x + costs.y + costs.z + costs.w;
    }

    // The orders that are tried first: 0 or 1 on each axis, then 3 where the block has an extent. Bit c of each number
    // belongs to candidate c.
    static constexpr u32 kCubic = 6;
    __device__ __forceinline__ Orders candidate(u32 c) const {
        return c < kCubic ? Orders{0x30u >> c & 1, 0x2cu >> c & 1, 0x3au >> c & 1} : shared.cubic;
    }
    // Whether the block has an extent along the axes of these orders.
    __device__ __forceinline__ bool exists(const Orders& o) const {
        return o.z <= shared.cubic.z && o.y <= shared.cubic.y && o.x <= shared.cubic.x;
    }

    // Of the block's rows, or of a line's pieces of 32, these are looked at for the costs.
    struct Sample {
        static constexpr u32 kFirst = 8, kStep = 17, kMinRows = 34;
        u32 first, step;
        __device__ __forceinline__ explicit Sample(u32 n_rows) : first(n_rows < kMinRows ? 0 : kFirst), step(n_rows < kMinRows ? 1 : kStep) {}
    };

    // Does `f(number, residual)` for the lanes' numbers in the warp's share of the rows first, first + step, …
    template <typename F>
    __device__ __forceinline__ void for_residuals(const W* numbers, W base, const Orders& o, u32 first, u32 step, F f) const {
        const Box& box = shared.box;
        const bool line = is_line();
        const u32 n_rows = line ? (box.m + kRow - 1) / kRow : box.sz * box.sy;
#pragma unroll 1
        for (u32 row = first + threadIdx.x / kWarp * step; row < n_rows; row += kGroups * step) {
            const u32 begin = line ? row * kRow : 0, end = line ? min(begin + kRow, box.m) : box.sx;
#pragma unroll 1
            for (u32 x = begin; x < end; x += kRow) {
                const W r = residual(numbers, base, o, line ? 0 : row, x);
                if (x + lane_id() < end) f((line ? 0 : row * box.sx) + x + lane_id(), r);
            }
        }
    }

    // Bits of the warp's share of the sampled residuals.
    __device__ __forceinline__ u32 sampled_cost(const W* numbers, W base, const Orders& o) const {
        const Sample sample(is_line() ? (shared.box.m + kRow - 1) / kRow : shared.box.sz * shared.box.sy);
        u32 cost = 0;
        for_residuals(numbers, base, o, sample.first, sample.step, [&](u32, W r) { cost += bit_length(r); });
        return warp_sum(cost);
    }

    // The warp's share of the costs of all candidates but the last, in a box of rows of 32 at most.
    __device__ __forceinline__ void first_costs(const W* numbers, W first, W middle) const {
        const Box& box = shared.box;
        const u32 lane = lane_id(), n_rows = box.sz * box.sy;
        const Sample sample(n_rows);
        u32 costs[6] = {};
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += kGroups * sample.step) {
            u32 y;
            const u32 z = shared.planes.divide(row, y);
            const W* const at = numbers + row * box.sx + lane;
            // Numbers that there are not are the base.
            const W own = *at, above = row > 0 ? *(at - box.sx) : first, before = z > 0 ? *(at - box.sy * box.sx) : first;
            const W both = z > 0 && y > 0 ? *(at - box.sy * box.sx - box.sx) : first;
            add_first_costs(own, above, before, y > 0 ? above - both : 0, first, middle, lane < box.sx, costs);
        }
        share_first_costs(costs);
    }

    // Adds the costs of a lane's number and, where `counts`, the first candidates: with the numbers before it along y and z,
    // and how much along y the one plane differs from the other.
    static __device__ __forceinline__ void add_first_costs(W own, W above, W before, W change, W first, W middle, bool counts, u32 (&costs)[6]) {
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
        W d[6] = {own - middle, own - first, own - above, own - above, own - before, own - before - change};
#pragma unroll
        for (u32 c = 0; c < 6; ++c) {
            if (0x3au >> c & 1) d[c] += __shfl_up_sync(kAllLanes, d[c], 1) * not_first;
            if (counts) costs[c] += zigzag_length(d[c]);
        }
    }
    __device__ __forceinline__ void share_first_costs(const u32 (&costs)[6]) const {
        // Two sums at a time: none is as large as 2^16.
#pragma unroll
        for (u32 c = 0; c < 6; c += 2) {
            const u32 both = warp_sum(costs[c] | costs[c + 1] << 16);
            if (lane_id() == 0) shared.costs[c][threadIdx.x / kWarp] = both & 0xffff, shared.costs[c + 1][threadIdx.x / kWarp] = both >> 16;
        }
    }

    // The same in a full box, and the costs of orders 2, 2, 2 and 3, 3, 3.
    __device__ __forceinline__ void full_costs(const W* numbers, W first, W middle, u32 (&second_and_third)[2]) const {
        constexpr u32 kPlane = kFullHeight * kRow;
        static_assert((kMinDepth - 1) * kFullHeight < Sample::kMinRows && kMinDepth * kFullHeight >= Sample::kMinRows, "not all rows are sampled");
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
        const auto second = [](const W (&v)[4]) { return v[0] - 2 * v[1] + v[2]; };
        const auto third = [](const W (&v)[4]) { return v[0] - v[3] + 3 * (v[2] - v[1]); };
        u32 costs[6] = {}, cost_2 = 0, cost_3 = 0;
#pragma unroll 1
        for (u32 z = threadIdx.x / kWarp; z < shared.box.sz; z += kGroups) {
            // In each plane one row is sampled, with three before it.
            static_assert(Sample::kStep == kFullHeight + 1 && Sample::kFirst >= 3 && Sample::kFirst + kMaxDepth <= kFullHeight, "rows of a full box");
            const W* const at = numbers + (Sample::kFirst + z * Sample::kStep) * kRow + lane_id();
            W own, above, before, change, seconds[4], thirds[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                // Numbers that there are not are the base.
                W along_z[4];
#pragma unroll
                for (u32 i = 0; i < 4; ++i) along_z[i] = i <= z ? *(at - i * kPlane - j * kRow) : first;
                if (j == 0) own = along_z[0], before = along_z[1];
                if (j == 1) above = along_z[0], change = above - along_z[1];
                seconds[j] = second(along_z), thirds[j] = third(along_z);
            }
            add_first_costs(own, above, before, change, first, middle, true, costs);
            W d = second(seconds);
#pragma unroll
            for (u32 k = 0; k < 2; ++k) d += __shfl_up_sync(kAllLanes, d, 1) * not_first;
            cost_2 += zigzag_length(d);
            d = third(thirds);
#pragma unroll
            for (u32 k = 0; k < 3; ++k) d += __shfl_up_sync(kAllLanes, d, 1) * not_first;
            cost_3 += zigzag_length(d);
        }
        share_first_costs(costs);
        const u32 both = warp_sum(cost_2 | cost_3 << 16);
        second_and_third[0] = both & 0xffff, second_and_third[1] = both >> 16;
    }

    // The warp's share of the costs of the candidates that a line can have but the last, and of orders 2 and 3.
    __device__ __forceinline__ void line_costs(const W* numbers, W first, W middle, u32 (&second_and_third)[2]) const {
        const u32 m = shared.box.m, n_rows = (m + kRow - 1) / kRow, lane = lane_id();
        const Sample sample(n_rows);
        u32 costs[4] = {};
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += kGroups * sample.step) {
            const W* const at = numbers + row * kRow + lane;
            const bool exists = row * kRow + lane < m;
            const W own = *at;
            W d = own - first, left = row > 0 ? *(at - kRow) - first : 0;
            if (exists) costs[0] += zigzag_length(static_cast<W>(own - middle));
#pragma unroll
            for (u32 k = 1; k <= 3; ++k) {
                difference_x(d, left);
                if (exists) costs[k] += zigzag_length(d);
            }
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            costs[k] = warp_sum(costs[k]);
            if (k < 2 && lane == 0) shared.costs[k][threadIdx.x / kWarp] = costs[k];
            if (k >= 2) second_and_third[k - 2] = costs[k];
        }
    }

    // Subtracts from a row of numbers those before them along x; `left` is the row before, which is differenced, too.
    __device__ __forceinline__ void difference_x(W& d, W& left) const {
        d -= __shfl_sync(kAllLanes, lane_id() == kRow - 1 ? left : d, (lane_id() + kRow - 1) % kRow);
        // Its first lanes become wrong, but the last is right as often as is needed.
        left -= __shfl_up_sync(kAllLanes, left, 1);
    }

    // As sampled_cost, of orders up to 3 in a box of rows of 32 at most.
    __device__ __forceinline__ u32 low_cost(const W* numbers, W base, const Orders& o) const {
        const Box& box = shared.box;
        const u32 lane = lane_id(), n_rows = box.sz * box.sy, plane = box.sy * box.sx;
        const Sample sample(n_rows);
        const W z1 = factor(o.z, 1), z2 = factor(o.z, 2), z3 = factor(o.z, 3);
        const W y_factors[4] = {1, factor(o.y, 1), factor(o.y, 2), factor(o.y, 3)};
        const W is_right = lane > 0 ? ~W(0) : 0;
        u32 cost = 0;
#pragma unroll 1
        for (u32 row = sample.first + threadIdx.x / kWarp * sample.step; row < n_rows; row += kGroups * sample.step) {
            u32 z = 0, y = row;
            if (o.z > 0) z = shared.planes.divide(row, y);
            const W* at = numbers + row * box.sx + lane;
            // Numbers that there are not are the base.
            W d = 0;
#pragma unroll
            for (u32 j = 0; j <= 3; ++j) {
                if (j > o.y) break;
                W along_z = o.z > 0 ? 0 : base;
                if (j <= y) {
                    along_z = *at;
                    if (o.z > 0) {
                        const W v1 = z >= 1 ? *(at - plane) : base, v2 = z >= 2 ? *(at - 2 * plane) : base, v3 = z >= 3 ? *(at - 3 * plane) : base;
                        along_z += z1 * v1 + z2 * v2 + z3 * v3;
                    }
                }
                d += y_factors[j] * along_z;
                at -= box.sx;
            }
            if ((o.z | o.y) == 0) d -= base;
#pragma unroll 1
            for (u32 k = 0; k < o.x; ++k) d -= __shfl_up_sync(kAllLanes, d, 1) & is_right;
            if (lane < box.sx) cost += zigzag_length(d);
        }
        return warp_sum(cost);
    }

    // The residual of the lane's number, of those from x on in a row. A multiple of 32 is before x.
    __device__ __forceinline__ W residual(const W* numbers, W base, const Orders& o, u32 row, u32 x) const {
        u32 z = 0, y = row;
        if (o.z > 0) z = shared.planes.divide(row, y);
        const W* const at = numbers + row * shared.box.sx + x + lane_id();
        W d = 0, left = 0;
#pragma unroll 1
        for (const W* from = x > 0 ? at - kRow : at; from <= at; from += kRow) left = d, d = difference_zy(from, base, o, z, y);
#pragma unroll 1
        for (u32 k = 0; k < o.x; ++k) difference_x(d, left);
        return zigzag(d);
    }

    // The number at `at`, in row y of plane z, less the base, differenced along z and y.
    __device__ __forceinline__ W difference_zy(const W* at, W base, const Orders& o, u32 z, u32 y) const {
        const u32 row = shared.box.sx, plane = shared.box.sy * row;
        W d = 0;
#pragma unroll 1
        for (u32 j = 0; j <= min(o.y, y); ++j) {
            W along_z = 0;
            const W* from = at - j * row;
#pragma unroll 4
            for (u32 i = 0; i <= min(o.z, z); ++i) {
                along_z += factor(o.z, i) * *from;
                from -= plane;
            }
            d += factor(o.y, j) * along_z;
        }
        // The base of those numbers that there are.
        return d - base * factors_up_to(o.z, z) * factors_up_to(o.y, y);
    }
    static __device__ __forceinline__ W factor(u32 order, u32 i) { return static_cast<W>(static_cast<s64>(kBinomials[order][i])); }
    static __device__ __forceinline__ W factors_up_to(u32 order, u32 i) { return order == 0 ? 1 : i < order ? factor(order - 1, i) : 0; }

    // Writes the residuals of the warp's group, and is its widths. Barriers.
    __device__ __forceinline__ Widths write_residuals(const W* numbers, W* residuals, W base, const Orders& o) const {
        const Box& box = shared.box;
        const u32 first = threadIdx.x / kWarp * kGroup, n = min(box.m - min(box.m, first), kGroup), rows = (n + kRow - 1) / kRow;
        BitCounts<W> counts;
        if (likely(o.z > 0 ? shared.has_steps_in_planes : shared.has_steps)) {
            if (n > 0) difference_group(numbers, residuals, base, o, first / kRow, rows, counts);
            return choose_widths(counts, n, rows);
        }
        if (box.sx <= kRow && !is_line() && o.y <= 1) {
            difference_rows(numbers, residuals, base, o);
        } else {
            for_residuals(numbers, base, o, 0, 1, [&](u32 i, W r) { residuals[i] = r; });
        }
        // Numbers that are missing in the last row.
        if (box.m + threadIdx.x < (box.m + kRow - 1) / kRow * kRow) residuals[box.m + threadIdx.x] = 0;
        __syncthreads();
#pragma unroll 1
        for (u32 r = 0; r < rows; r += kStepRows) {
            W v[kStepRows];
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] = r + i < rows ? residuals[first + (r + i) * kRow + lane_id()] : 0;
            counts.add(v);
        }
        return choose_widths(counts, n, rows);
    }

    // A step of rows, differenced along z.
    __device__ __forceinline__ void load_step(const W* from, u32 row, u32 plane, const Orders& o, u32 z, W (&v)[kStepRows]) const {
#pragma unroll
        for (u32 i = 0; i < kStepRows; ++i) v[i] = from[i * row];
#pragma unroll 1
        for (u32 k = 1; k <= min(o.z, z); ++k) {
            from -= plane;
            const W f = factor(o.z, k);
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] += f * from[i * row];
        }
    }

    // A row, differenced along z with an order up to 1.
    __device__ __forceinline__ W low_row(const W* from, const Orders& o, u32 z) const {
        return o.z > 0 && z > 0 ? *from - *(from - shared.box.sy * kRow) : *from;
    }

    // A step of rows of 32 in one plane, differenced with orders up to 1. `above` is low_row of the row before it, then of its
    // last one.
    __device__ __forceinline__ void difference_step_low(const W* from, const Orders& o, u32 z, u32 y, W own_base, W& above, W (&v)[kStepRows]) const {
#pragma unroll
        for (u32 i = 0; i < kStepRows; ++i) v[i] = from[i * kRow];
        if (likely(o.z > 0 && z > 0)) {
            from -= shared.box.sy * kRow;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] -= from[i * kRow];
        }
        if (likely(o.y > 0)) {
            const W last = v[kStepRows - 1];
#pragma unroll
            for (u32 i = kStepRows - 1; i > 0; --i) v[i] -= v[i - 1];
            v[0] -= y > 0 ? above : own_base;
            above = last;
        } else if (own_base != 0) {
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] -= own_base;
        }
        const W not_first = o.x > 0 && lane_id() > 0 ? ~W(0) : 0;
#pragma unroll
        for (u32 i = 0; i < kStepRows; ++i) v[i] += __shfl_up_sync(kAllLanes, v[i], 1) * not_first;
    }

    // Differences along x, where all rows begin with the first lane. Without those along y they begin with the base.
    __device__ __forceinline__ void difference_step_x(W (&v)[kStepRows], const Orders& o, W base) const {
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
#pragma unroll 1
        for (u32 k = 0; k < o.x; ++k) {
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] += __shfl_up_sync(kAllLanes, v[i], 1) * not_first;
            if (k > 0 || o.y > 0 || base == 0) continue;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) v[i] -= base & ~not_first;
        }
    }

    // The residuals of a box of rows of 32 at most, with an order along y up to 1. A warp has steps of rows, each in one
    // plane.
    __device__ __forceinline__ void difference_rows(const W* numbers, W* residuals, W base, const Orders& o) const {
        const Box& box = shared.box;
        const u32 lane = lane_id(), height = o.z > 0 ? box.sy : box.sz * box.sy, in_plane = (height + kStepRows - 1) / kStepRows;
        const u32 n_steps = in_plane * (o.z > 0 ? box.sz : 1), share = (n_steps + kGroups - 1) / kGroups;
        const u32 first = threadIdx.x / kWarp * share;
        W above = 0;
#pragma unroll 1
        for (u32 step = first; step < min(first + share, n_steps); ++step) {
            const u32 z = step / in_plane, y = step % in_plane * kStepRows, row = z * height + y;
            const W* const from = numbers + row * box.sx + lane;
            const W own_base = base * factors_up_to(o.z, z);
            W v[kStepRows];
            load_step(from, box.sx, height * box.sx, o, z, v);
            if (o.y > 0) {
                const W last = v[kStepRows - 1];
                if (y == 0) above = own_base;
                if (y > 0 && step == first) above = difference_zy(from - box.sx, base, Orders{o.z, 0, 0}, z, y) + own_base;
#pragma unroll
                for (u32 i = kStepRows - 1; i > 0; --i) v[i] -= v[i - 1];
                v[0] -= above;
                above = last;
            } else if (o.x == 0) {
#pragma unroll
                for (u32 i = 0; i < kStepRows; ++i) v[i] -= own_base;
            }
            difference_step_x(v, o, own_base);
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) {
                if (y + i < height && lane < box.sx) residuals[(row + i) * box.sx + lane] = zigzag(v[i]);
            }
        }
    }

    // The residuals of rows from `first` on, in steps that are in one plane each.
    __device__ __forceinline__ void difference_group(const W* numbers, W* residuals, W base, const Orders& o, u32 first, u32 rows,
                                                     BitCounts<W>& counts) const {
        const Box& box = shared.box;
        const bool line = is_line(), is_low = !line && (o.z | o.y | o.x) <= 1;
        const u32 lane = lane_id();
        u32 z = 0, y = first;
        if (o.z > 0) z = shared.planes.divide(first, y);
        // The row before a step, after differences along z. With higher orders, and of a line, which is rows of 32, there are
        // more: after differences along y or x. They are kept where the last rows will be, and a step more than there are in the
        // group finds what is before that.
        W above = is_low && o.y > 0 && y > 0 ? low_row(numbers + (first - 1) * kRow + lane, o, z) : 0;
        W* const before = residuals + (first + kGroupRows - kMaxOrder) * kRow + lane;
        const u32 skipped = !is_low && y > 0 && (line ? o.x : o.y) > 0 ? kStepRows : 0;
        y -= skipped;
#pragma unroll 1
        for (u32 row = first - skipped; row < first + rows; row += kStepRows) {
            W v[kStepRows];
            const W* const from = numbers + row * kRow + lane;
            // Less the base, of which differences are free but where they begin.
            const W own_base = base * factors_up_to(o.z, z);
            if (likely(is_low)) {
                difference_step_low(from, o, z, y, own_base, above, v);
            } else {
                load_step(from, kRow, box.sy * kRow, o, z, v);
                if (o.y == 0 && o.x == 0 && own_base != 0) {
#pragma unroll
                    for (u32 i = 0; i < kStepRows; ++i) v[i] -= own_base;
                }
#pragma unroll 1
                for (u32 k = 0; k < o.y; ++k) {
                    const W last = v[kStepRows - 1];
#pragma unroll
                    for (u32 i = kStepRows - 1; i > 0; --i) v[i] -= v[i - 1];
                    v[0] -= y > 0 ? before[k * kRow] : k == 0 ? own_base : 0;
                    before[k * kRow] = last;
                }
                if (line) {
#pragma unroll 1
                    for (u32 k = 0; k < o.x; ++k) {
                        const W first_before = y > 0 ? before[k * kRow] : k == 0 ? own_base : 0;
                        before[k * kRow] = v[kStepRows - 1];
#pragma unroll
                        for (u32 i = kStepRows; i-- > 0;) {
                            const W row_before = i > 0 ? v[i > 0 ? i - 1 : 0] : first_before;
                            v[i] -= __shfl_sync(kAllLanes, lane == kRow - 1 ? row_before : v[i], (lane + kRow - 1) % kRow);
                        }
                    }
                } else {
                    difference_step_x(v, o, own_base);
                }
            }
            y += kStepRows;
            if (o.z > 0 && y >= box.sy) y = 0, ++z;
            if (row < first) continue;
#pragma unroll
            for (u32 i = 0; i < kStepRows; ++i) {
                v[i] = zigzag(v[i]);
                residuals[(row + i) * kRow + lane] = v[i];
            }
            counts.add(v);
        }
    }

    // The string of a lane, whose numbers follow each other: the last kBits bits of it, to which a number's low w bits are
    // added, and the word that begins `filled` bits before these. kFar: w is more than 31.
    template <bool kFar>
    static __device__ __forceinline__ u32 appended(u32 string, u32 number, u32 w) { return __funnelshift_rc(string, number, w); }
    template <bool kFar>
    static __device__ __forceinline__ u64 appended(u64 string, u64 number, u32 w) {
        const u32 s0 = static_cast<u32>(string), s1 = static_cast<u32>(string >> 32), n0 = static_cast<u32>(number), n1 = static_cast<u32>(number >> 32);
        if (kFar) return static_cast<u64>(__funnelshift_rc(n0, n1, w - 32)) << 32 | __funnelshift_rc(s1, n0, w - 32);
        return static_cast<u64>(__funnelshift_r(s1, n0, w)) << 32 | __funnelshift_r(s0, s1, w);
    }
    static __device__ __forceinline__ u32 completed(u32 string, u32 number, u32 filled) { return __funnelshift_l(string, number, filled); }
    static __device__ __forceinline__ u64 completed(u64 string, u64 number, u32 filled) {
        const u32 s0 = static_cast<u32>(string), s1 = static_cast<u32>(string >> 32), n0 = static_cast<u32>(number), n1 = static_cast<u32>(number >> 32);
        const bool far = filled & 32;
        const u32 a = far ? s0 : s1, b = far ? s1 : n0, c = far ? n0 : n1;
        return static_cast<u64>(__funnelshift_l(b, c, filled)) << 32 | __funnelshift_l(a, b, filled);
    }
    // What is left of a number, and whether that is anything.
    template <bool kFar>
    static __device__ __forceinline__ W behind(W number, u32 w) { return kFar ? static_cast<u32>(static_cast<u64>(number) >> 32) >> (w - 32) : number >> w; }
    template <bool kFar>
    static __device__ __forceinline__ bool is_longer(u32 number, u32 w) { return number > low_bits(0u, w); }
    template <bool kFar>
    static __device__ __forceinline__ bool is_longer(u64 number, u32 w) {
        const u32 low = static_cast<u32>(number), high = static_cast<u32>(number >> 32);
        return (kFar ? high >> (w - 32) : high | low >> w) != 0;
    }

    // Packs rows of a group. If kPatches, numbers that are longer than `w` are marked in the bitmap, and what is left of
    // them goes to a list in the place of the numbers.
    template <bool kPatches, bool kFar>
    static __device__ __forceinline__ void pack_rows(unsigned char* packed, unsigned char* bitmap, W* numbers, u32 rows, u32 w) {
        constexpr u32 kBits = Type<W>::kBits, kAtOnce = 4;  // rows
        const u32 lane = lane_id(), below = lanes_below();
        const u32 out = shared_address(packed) + lane * static_cast<u32>(sizeof(W));
        u32 marks = shared_address(bitmap), list = shared_address(numbers);
        const W* from = numbers + lane;
        W string = 0;
        u32 at = 0;  // where a number begins in the string
        const auto append = [&](W number) {
            // As much as is known of the word: what comes later writes it again.
            u32 word = at / kBits * kBits;
            keep(word);
            if (sizeof(W) == 4 ? w > 0 : at % kBits + w >= kBits) store_shared(out + word * (kWarp / 8), completed(string, number, at));
            string = appended<kFar>(string, number, w);
            at += w;
        };
        const auto mark = [&](W number) {
            if (!kPatches) return;
            const bool is_patched = is_longer<kFar>(number, w);
            const u32 patched = __ballot_sync(kAllLanes, is_patched);
            // The list is not longer than what has been read.
            if (is_patched) store_shared(list + __popc(patched & below) * static_cast<u32>(sizeof(W)), behind<kFar>(number, w));
            if (lane == 0) store_shared_4(marks, patched);
            marks += 4;
            list += __popc(patched) * static_cast<u32>(sizeof(W));
        };
        u32 r = 0;
#pragma unroll 1
        for (; r + kAtOnce <= rows; r += kAtOnce) {
            W v[kAtOnce];
#pragma unroll
            for (u32 i = 0; i < kAtOnce; ++i) v[i] = from[i * kRow];
            from += kAtOnce * kRow;
            __syncwarp();
#pragma unroll
            for (u32 i = 0; i < kAtOnce; ++i) append(v[i]);
#pragma unroll
            for (u32 i = 0; i < kAtOnce; ++i) mark(v[i]);
            __syncwarp();
        }
#pragma unroll 1
        for (; r < rows; ++r, from += kRow) {
            const W number = *from;
            __syncwarp();
            append(number);
            mark(number);
            __syncwarp();
        }
        // What is left of the string is its end, of which only half a word may be stored.
        const u32 filled = at % kBits;
        if (filled == 0) return;
        const W word = string >> (kBits - filled);
        unsigned char* const last = packed + at / kBits * (kWarp * sizeof(W));
        if (filled > 32) reinterpret_cast<W*>(last)[lane] = word;
        if (filled <= 32) reinterpret_cast<u32*>(last)[lane] = static_cast<u32>(word);
    }
    static __device__ __forceinline__ void store_shared(u32 address, u32 word) { store_shared_4(address, word); }
    static __device__ __forceinline__ void store_shared(u32 address, u64 word) {
        store_shared_8(address, make_uint2(static_cast<u32>(word), static_cast<u32>(word >> 32)));
    }

    // Packs a group.
    static __device__ __forceinline__ void pack(unsigned char* packed, unsigned char* bitmap, unsigned char* stage, u32 patches, W* numbers, const Widths& widths) {
        const u32 lane = lane_id(), below = lanes_below(), rows = widths.rows, w = widths.w;
        if (sizeof(W) == 8 && w >= 32) {
            if (widths.e1 == 0) return pack_rows<false, true>(packed, bitmap, numbers, rows, w);
            pack_rows<true, true>(packed, bitmap, numbers, rows, w);
        } else {
            if (widths.e1 == 0) return pack_rows<false, false>(packed, bitmap, numbers, rows, w);
            pack_rows<true, false>(packed, bitmap, numbers, rows, w);
        }
        const u32 words = shared_address(stage), first = patches * 8, again = first + (widths.n1 * widths.e1 + 7) / 8 * 8;
        u32 n = widths.n1, bits = widths.e1, at = first;
        // Once more with the list of what is left behind the first patches.
#pragma unroll 1
        for (;;) {
            end_list(numbers, n);
            add_string(words, at, numbers, n, bits);
            if (widths.e2 == 0 || at != first) return;
            u32 n_again = 0;
#pragma unroll 1
            for (u32 from = 0; from < n; from += kWarp) {
                const W rest = numbers[from + lane] >> bits;
                __syncwarp();
                const u32 twice = __ballot_sync(kAllLanes, rest != 0);
                if (rest != 0) numbers[n_again + __popc(twice & below)] = rest;
                if (lane == 0) add_bits(words, again + from, twice);
                n_again += __popc(twice);
                __syncwarp();
            }
            at = again + (n + 7) / 8 * 8, n = n_again, bits = widths.e2;
        }
    }

    // Writes the zeros behind a list that add_string reads. A list is so much shorter than its group.
    static __device__ __forceinline__ void end_list(W* list, u32 n) {
        list[n + lane_id()] = 0;
        __syncwarp();
    }

    // Adds a string of the low `bits` of n fields, from bit `first` on, to zeros in shared memory.
    static __device__ __forceinline__ void add_string(u32 words, u32 first, const W* fields, u32 n, u32 bits) {
        if (likely(bits <= 8)) {
            // A lane has four fields, aligned, and a power of two for the place of each.
            const u32 mask = low_bits(0u, bits), one = 1u << bits, two = one * one, three = two * one;
#pragma unroll 1
            for (u32 i = 4 * lane_id(); i < n; i += 4 * kWarp) {
                u32 own[4];
#pragma unroll
                for (u32 k = 0; k < 4; k += kPerUnit) {
                    W unit[kPerUnit];
                    split(*reinterpret_cast<const uint4*>(fields + i + k), unit);
#pragma unroll
                    for (u32 e = 0; e < kPerUnit; ++e) own[k + e] = static_cast<u32>(unit[e]) & mask;
                }
                add_bits(words, first + i * bits, own[0] + own[1] * one + own[2] * two + own[3] * three);
            }
        } else {
#pragma unroll 1
            for (u32 i = lane_id(); i < n; i += kWarp) add_bits(words, first + i * bits, fields[i] & low_bits(W(), bits));
        }
        __syncwarp();
    }

    // Adds bits to a bit string in shared memory.
    static __device__ __forceinline__ void add_bits(u32 words, u32 at, u32 bits) {
        words += at / 32 * 4;
        or_shared(words, bits << at % 32);
        const u32 high = __funnelshift_l(bits, 0, at);
        if (high) or_shared(words + 4, high);
    }
    static __device__ __forceinline__ void add_bits(u32 words, u32 at, u64 bits) {
        add_bits(words, at, static_cast<u32>(bits));
        if (bits >> 32) add_bits(words, at + 32, static_cast<u32>(bits >> 32));
    }
    static __device__ __forceinline__ void or_shared(u32 address, u32 bits) {
        asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
    }
};

template <typename W>
__device__ __forceinline__ void compress(const CompressArgs<Blocks>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    LorenzoCompressor<W>(args, *reinterpret_cast<LorenzoShared<W>*>(bytes)).run();
}

template <typename W>
constexpr LaunchInfo kLorenzoCompressInfo = ordered_launch(kLorenzoThreads, sizeof(LorenzoShared<W>), 1);
