// Decompression in one pass: one CTA per block of 4096 elements. Many CTAs per multiprocessor hide
// each other's latency.
//
//   1. The table says where the block is. Its bytes are copied to shared memory (the stage) and
//      summed for the block's check and the checksum. If the frame is stored, the CTA copies its
//      share of the raw bytes instead.
//   2. A thread reads the width indices of four groups, and so their widths. A prefix sum gives the
//      start of each group.
//   3. A thread unpacks four groups into registers: from four consecutive rows or, on a line, 32
//      consecutive numbers. The threads together compute prefix sums along x and y, and write the
//      results to shared memory (the tile), which overwrites the stage.
//   4. A thread computes prefix sums along a column in z, converts the codes to words, and stores
//      them, 16 bytes at a time where the rows allow it.
//
// Blocks without rows of 32 elements, and those with a fill mask or with numbers that may need 64
// bits, are summed in the tile, axis by axis, by generic code. 64-bit numbers are read from the
// frame.
//
// For a region there is one CTA per block, from the first to the last block that it touches. The
// CTA stores the wanted elements one by one.

#pragma once

#include "block_tile.cuh"
#include "byte_group_reader.cuh"
#include "decompress_shared.cuh"

// kPart: stores only the elements of a region; the launch arguments are then those of region.cuh.
template <typename W, bool kPart = false>
struct QuantDecompressor : BlockTile<W, kLogBlock, kQuantThreads, kPart, QuantDecompressShared<W>> {
    using Shared = QuantDecompressShared<W>;
    using Tile = BlockTile<W, kLogBlock, kQuantThreads, kPart, Shared>;
    using Plan = BlockPlan<W>;
    using Tile::args, Tile::array, Tile::payload, Tile::shared;
    using Tile::count, Tile::finish, Tile::part, Tile::report, Tile::store_elements;
    static constexpr u32 kRowBytes = kRow * sizeof(u32);
    static constexpr u32 kSinglePlane = ~0u;

    using Tile::Tile;

    __device__ __forceinline__ void run() {
        const auto decode = [&](u32 begin, u32 end, u32 check) { decode_block(begin, end, check); };
        if (kPart) {
            Tile::run_part(decode);
        } else {
            Tile::run(decode);
        }
    }

    // Decodes the block in units [begin, end) after the table; `check` is its checksum.
    __device__ __forceinline__ void decode_block(u32 begin, u32 end, u32 check) {
        const u32 t = threadIdx.x, log_unit = args.own.log_unit();
        const typename Tile::Extent extent = Tile::extent(begin, end);
        // Only a damaged block, or one from a later version, is longer.
        const bool is_staged = extent.n_bytes <= Shared::kMostBytes;
        const unsigned char* const source = reinterpret_cast<const unsigned char*>(payload) + extent.first;
        // Clamps the length to 32 bits. A block that is too long remains too long.
        const u32 n_bytes = static_cast<u32>(min(extent.n_bytes, u64{Shared::kMostBytes} + kUnitBytes)), offset = static_cast<u32>(extent.first) % kUnitBytes;
        Sums sums;
        if (t == kQuantThreads - 1) Tile::prepare(extent);
        if (likely(is_staged)) {
            stage_block(extent.first - offset, offset, n_bytes, sums);
        } else {
            Tile::sum_up(extent, sums);
        }
        shared.sums.share(sums);
        __syncthreads();
        bool is_checked = true;
        if (t == 0) is_checked = Tile::add_sums(extent, end, check);
        u32 damage = extent.damage;
        Plan plan;
        plan.header = kConstBlock, plan.base = 0, plan.n_outliers = 0;
        u32 four_widths = 0, start = 0;
        if (damage == 0 && n_bytes > 0) {
            const unsigned char* const stage = shared.stage + offset;
            const u32 m = shared.box.m;
            damage = plan.read(is_staged ? stage : source, n_bytes, log_unit, m, part().bytes, shared.quantizer.kind != Quantized::kNothing, true);
            if (damage == 0 && !is_staged) damage = kMarkCorrupt;
            if (damage == 0 && plan.header == kConstBlock) {
                const u32* const words = reinterpret_cast<const u32*>(stage);
                plan.base = sizeof(W) == 8 ? static_cast<W>(static_cast<u64>(words[2]) << 32 | words[1]) : static_cast<W>(words[1]);
            }
            if (damage == 0 && !plan.is_plain()) damage = find_groups(plan, stage, n_bytes, log_unit, m, four_widths, start);
            if (damage == 0 && plan.n_outliers > 0) Tile::check_outliers(plan, stage, m);
            if (t == 2 * kWarp && damage == 0 && !plan.is_plain() && !plan.is_table_sound()) report(kMarkCorrupt);
            // An unsupported block is corrupt if its check fails. Otherwise a later version wrote
            // it.
            if (t == 0) report(damage == kMarkUnsupported && !is_checked ? kMarkCorrupt : damage);
        }
        if (unlikely(damage)) {
            __syncthreads();
            return finish(count());
        }
        if (unlikely(plan.header == kRawBlock)) {
            const unsigned char* const elements = shared.stage + offset + kAlignment;
            const Element element = part();
            store_elements([&](u32 i) { return Tile::load_unaligned(elements + i * element.bytes, element); });
        } else if (unlikely(plan.header == kConstBlock)) {
            const W word = plan.base;
            store_elements([&](u32) { return word; });
        } else {
            decode_numbers(plan, source, offset, four_widths, start);
        }
        __syncthreads();
        if (plan.n_outliers > 0) {
            Tile::put_outliers(plan, source);
            __syncthreads();
        }
        finish(count());
    }

    // Copies the 16-byte units of a block to the stage, from payload byte `from` on, a multiple of
    // 16, and adds the block's words to the checksum sums.
    __device__ __forceinline__ void stage_block(u64 from, u32 offset, u32 n_bytes, Sums& sums) const {
        // An empty block may be at the end of the payload, where no unit can be read.
        const u32 end = offset + n_bytes, n_units = n_bytes ? (end + kUnitBytes - 1) / kUnitBytes : 0, to = shared_address(shared.stage);
        const char* const source = payload + from;
        const u64 available = Tile::n_bytes - from;
#pragma unroll 2
        for (u32 u = threadIdx.x; u < n_units; u += kQuantThreads) {
            if (likely((u + 1) * kUnitBytes <= available)) {
                copy_async<kUnitBytes>(to + u * kUnitBytes, source + u * kUnitBytes);
            } else {
                for (u32 at = u * kUnitBytes; at < end; at += 4) store_shared_4(to + at, *reinterpret_cast<const u32*>(source + at));
            }
        }
        wait_copies();
        UnitSums<kQuantThreads> unit_sums(from / 4 + 4 * threadIdx.x);
#pragma unroll 1
        for (u32 u = threadIdx.x; u < n_units; u += kQuantThreads) {
            uint4 unit = load_shared_16(to + u * kUnitBytes);
            const u32 at = u * kUnitBytes;
            if (unlikely(at < offset || at + kUnitBytes > end)) {
                if (at < offset || at >= end) unit.x = 0;
                if (at + 4 < offset || at + 4 >= end) unit.y = 0;
                if (at + 8 < offset || at + 8 >= end) unit.z = 0;
                if (at + 12 < offset || at + 12 >= end) unit.w = 0;
            }
            unit_sums.add(unit);
        }
        unit_sums.finish(sums);
    }

    // Finds the widths of the thread's four groups and the start of the first one. Returns a damage
    // code, or 0 if the groups are sound. Has a barrier.
    __device__ __forceinline__ u32 find_groups(const Plan& plan, const unsigned char* stage, u32 n_bytes, u32 log_unit, u32 m, u32& four_widths, u32& start) const {
        const u32 n_groups = (m + kByteGroup - 1) / kByteGroup, bits = index_bits(plan.n_widths);
        const u32 at = (shared_address(stage) + plan.index) * 8 + 4 * threadIdx.x * bits;
        four_widths = plan.widths_of(load_shared_bits(at, 4 * bits, 0u)) & low_bits(0u, 8 * min(n_groups - min(n_groups, 4 * threadIdx.x), 4u));
        const u32 own = __dp4a(four_widths, 0x01010101u, 0u), through = warp_inclusive_sum(own);
        if (lane_id() == kWarp - 1) shared.totals[threadIdx.x / kWarp] = through;
        if (__syncthreads_or((four_widths & 0x80808080u) != 0)) return kMarkCorrupt;
        u32 before = 0, all = 0;
#pragma unroll
        for (u32 w = 0; w < kQuantWarps; ++w) {
            if (w < threadIdx.x / kWarp) before += shared.totals[w];
            all += shared.totals[w];
        }
        start = plan.byte_groups + before + through - own;
        return units_of(plan.byte_groups + all, log_unit) << log_unit == n_bytes ? 0 : kMarkCorrupt;
    }

    // Decodes the block's numbers and stores its elements in the array.
    __device__ __forceinline__ void decode_numbers(Plan& plan, const unsigned char* source, u32 offset, u32 four_widths, u32 start) {
        const Box& box = shared.box;
        const bool is_line = box.sz * box.sy == 1;
        // For 64-bit words: with these limits, prefix sums of order-1 differences, plus the base,
        // fit 32 bits.
        const bool is_narrow = sizeof(W) == 4 || (plan.longest() <= 16 && !(plan.header & kHasWords) && static_cast<u64>(plan.base) + (1u << 29) < 1u << 30);
        const bool is_high = !plan_is_low(plan), has_rows = box.sx == kRow && (plan.z == 0 || box.sz == 1 || (box.sy % 8 == 0 && (box.sy & (box.sy - 1)) == 0));
        const bool is_fast = !kPart && args.own.log_parts() == 0 && likely((is_line || has_rows) && is_narrow && !(plan.header & kHasFillMask) && !is_high);
        W* const numbers = reinterpret_cast<W*>(shared.stage);
        if (sizeof(W) == 4 || likely(is_fast)) {
            // In a box, a thread has the same column of groups in four rows. Otherwise it has four
            // consecutive groups.
            const bool by_columns = is_fast && !is_line;
            u32 v[4][kByteGroup];
            read(by_columns, offset, four_widths, start, v);
            if (likely(by_columns)) {
                if (likely(plan.x > 0)) add_up_x(v);
                if (likely(plan.y > 0)) add_up_y(v, plan.z > 0 && box.sz > 1 ? box.sy / 4 : kSinglePlane);
                const u32 column = threadIdx.x % 4, first = threadIdx.x / 4 * 4, y = plan.z > 0 ? first & (box.sy - 1) : first;
                __syncthreads();
#pragma unroll
                for (u32 k = 0; k < 4; ++k) put_group(first + k, y + k, column, v[k]);
            } else if (is_fast) {
                if (plan.x > 0) add_up_line(v);
                __syncthreads();
#pragma unroll
                for (u32 k = 0; k < 4; ++k) put_group(threadIdx.x, threadIdx.x, k, v[k]);
            } else {
                __syncthreads();
                uint4* const to = reinterpret_cast<uint4*>(shared.stage) + 8 * threadIdx.x;
#pragma unroll
                for (u32 k = 0; k < 4; ++k) to[2 * k] = join(v[k]), to[2 * k + 1] = join(v[k] + 4);
            }
            if (likely(is_fast)) {
                __syncthreads();
                return store_codes(plan);
            }
        } else {
            __syncthreads();
            u32 at = start;
#pragma unroll 1
            for (u32 k = 0; k < 4; ++k) {
                const u32 width = four_widths >> 8 * k & 0xff;
#pragma unroll 1
                for (u32 i = 0; i < kByteGroup; ++i) numbers[(4 * threadIdx.x + k) * kByteGroup + i] = unzigzag(static_cast<W>(ByteGroupReader::number(source + at, width, i)));
                at += width;
            }
        }
        __syncthreads();
        const u32 plane = box.sy * box.sx, lines = plan.z == 0 ? 1 : box.sz, height = box.sz * box.sy / lines;
        add_up_axis(numbers, plan.x, box.sx, 1, box.sz * box.sy, Lines{1, box.sx, 0});
        if (height > 1) add_up_axis(numbers, plan.y, height, box.sx, lines * box.sx, Lines{box.sx, height * box.sx, 1});
        if (box.sz > 1) add_up_axis(numbers, plan.z, box.sz, plane, plane, Lines{plane, 0, 1});
        const bool has_fill_mask = plan.header & kHasFillMask;
        if (has_fill_mask && !Tile::read_fill_mask(plan, source)) return;
        const W fill = has_fill_mask ? Tile::fill_of(plan, source) : 0, base = plan.base;
        const bool is_words = plan.header & kHasWords;
        store_elements([&](u32 i) {
            if (has_fill_mask && shared.bitmap.words[i / 32] >> i % 32 & 1) return fill;
            const W number = numbers[i] + base;
            return is_words ? number : shared.quantizer.value(number);
        });
    }

    static __device__ __forceinline__ bool plan_is_low(const Plan& plan) { return (plan.x | plan.y | plan.z) <= 1; }

    // Unpacks four groups: the thread's own consecutive ones, or the same column of groups in four
    // rows. The widths of these rows are spread over four threads.
    __device__ __forceinline__ void read(bool by_columns, u32 offset, u32 four_widths, u32 start, u32 (&v)[4][kByteGroup]) const {
        const u32 stage = shared_address(shared.stage) + offset;
        u32 at[4], widths[4];
        if (likely(by_columns)) {
            const u32 column = lane_id() % 4, before = low_bits(0u, 8 * column) & 0x01010101u;
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                const u32 lane = lane_id() / 4 * 4 + k;
                const u32 in_row = __shfl_sync(kAllLanes, four_widths, lane), row_start = __shfl_sync(kAllLanes, start, lane);
                widths[k] = in_row >> 8 * column & 0xff;
                at[k] = stage + __dp4a(in_row, before, row_start);
            }
        } else {
            u32 next = stage + start;
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                widths[k] = four_widths >> 8 * k & 0xff, at[k] = next;
                next += widths[k];
            }
        }
        ByteGroupReader::read(at, widths, v);
    }

    // Byte offset of a 16-byte chunk of the tile. The swizzle avoids most bank conflicts, both when
    // threads write groups and when they read rows. `y` is the row's index in its plane, or among
    // all rows.
    __device__ __forceinline__ static u32 chunk_at(u32 row, u32 y, u32 chunk) { return row * kRowBytes + (chunk ^ (y & 7) ^ (y >> 2 & 1)) * kUnitBytes; }
    __device__ __forceinline__ void put_group(u32 row, u32 y, u32 column, const u32 (&v)[kByteGroup]) const {
        const u32 at = chunk_at(row, y, 2 * column);
        *reinterpret_cast<uint4*>(shared.stage + at) = join(v);
        *reinterpret_cast<uint4*>(shared.stage + (at ^ kUnitBytes)) = join(v + 4);
    }

    // Prefix sums along rows. Four threads share a row.
    static __device__ __forceinline__ void add_up_x(u32 (&v)[4][kByteGroup]) {
        const u32 column = lane_id() % 4;
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
#pragma unroll
            for (u32 i = 1; i < kByteGroup; ++i) v[k][i] += v[k][i - 1];
            u32 through = v[k][kByteGroup - 1];
            const u32 one = __shfl_up_sync(kAllLanes, through, 1);
            if (column >= 1) through += one;
            const u32 two = __shfl_up_sync(kAllLanes, through, 2);
            if (column >= 2) through += two;
            const u32 before = through - v[k][kByteGroup - 1];
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) v[k][i] += before;
        }
    }
    // Prefix sums along y. A plane has `4 * height` rows, where `height` is a power of two; or
    // there is a single plane (kSinglePlane). Has barriers if a plane spans several warps.
    __device__ __forceinline__ void add_up_y(u32 (&v)[4][kByteGroup], u32 height) const {
        const u32 own = threadIdx.x / 4, warp = threadIdx.x / kWarp;
        const u32 in_plane = height == kSinglePlane ? own : own & (height - 1), in_warp = min(in_plane, own % 8);
#pragma unroll
        for (u32 k = 1; k < 4; ++k) {
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) v[k][i] += v[k - 1][i];
        }
        u32 before[kByteGroup];
#pragma unroll
        for (u32 i = 0; i < kByteGroup; ++i) {
            u32 through = v[3][i];
            const u32 one = __shfl_up_sync(kAllLanes, through, 4);
            if (in_warp >= 1) through += one;
            const u32 two = __shfl_up_sync(kAllLanes, through, 8);
            if (in_warp >= 2) through += two;
            before[i] = through - v[3][i];
        }
        if (height > 4) {
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) {
                const u32 four = __shfl_up_sync(kAllLanes, before[i] + v[3][i], 16);
                if (in_warp >= 4) before[i] += four;
            }
        }
        if (height > 8) {
            if (own % 8 == 7) {
#pragma unroll
                for (u32 i = 0; i < kByteGroup; ++i) shared.carries[warp][threadIdx.x % 4 * kByteGroup + i] = before[i] + v[3][i];
            }
            __syncthreads();
#pragma unroll 1
            for (u32 w = warp - in_plane / 8; w < warp; ++w) {
#pragma unroll
                for (u32 i = 0; i < kByteGroup; ++i) before[i] += shared.carries[w][threadIdx.x % 4 * kByteGroup + i];
            }
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) v[k][i] += before[i];
        }
    }
    // Prefix sums along a line. A thread has 32 numbers. Has a barrier.
    __device__ __forceinline__ void add_up_line(u32 (&v)[4][kByteGroup]) const {
        const u32 warp = threadIdx.x / kWarp;
#pragma unroll
        for (u32 i = 1; i < kRow; ++i) v[i / kByteGroup][i % kByteGroup] += v[(i - 1) / kByteGroup][(i - 1) % kByteGroup];
        const u32 own = v[3][kByteGroup - 1], through = warp_inclusive_sum(own);
        if (lane_id() == kWarp - 1) shared.carries[warp][0] = through;
        __syncthreads();
        u32 before = through - own;
        for (u32 w = 0; w < warp; ++w) before += shared.carries[w][0];
#pragma unroll
        for (u32 i = 0; i < kRow; ++i) v[i / kByteGroup][i % kByteGroup] += before;
    }

    // Lines along an axis: line l begins with number l / a * b + l % a * c.
    struct Lines {
        u32 a, b, c;
    };
    // Prefix sums along any axis of any box: along `n_lines` lines of `length` numbers that are
    // `distance` apart.
    __device__ __forceinline__ void add_up_axis(W* numbers, u32 order, u32 length, u32 distance, u32 n_lines, Lines lines) const {
        const SmallDivisor divisor(lines.a);
        // Number of adjacent threads that share a line.
        u32 sharers = 1;
        while (sharers < kWarp && 2 * sharers * n_lines <= kQuantThreads && 2 * sharers <= length) sharers *= 2;
        const u32 share = (length + sharers - 1) / sharers, mine = threadIdx.x % sharers;
#pragma unroll 1
        for (u32 k = 0; k < order; ++k) {
#pragma unroll 1
            for (u32 from = 0; from < n_lines; from += kQuantThreads / sharers) {
                const u32 line = from + threadIdx.x / sharers;
                u32 rest;
                const u32 quotient = divisor.divide(line, rest), start = quotient * lines.b + rest * lines.c;
                const u32 begin = line < n_lines ? min(mine * share, length) : 0, end = line < n_lines ? min(begin + share, length) : 0;
                W sum = 0;
                if (sharers > 1) {
                    W own = 0;
                    for (u32 i = begin; i < end; ++i) own += numbers[start + i * distance];
                    W through = own;
                    for (u32 step = 1; step < sharers; step *= 2) {
                        const W before = __shfl_up_sync(kAllLanes, through, step);
                        if (mine >= step) through += before;
                    }
                    sum = through - own;
                }
                for (u32 i = begin; i < end; ++i) numbers[start + i * distance] = sum += numbers[start + i * distance];
            }
            __syncthreads();
        }
    }

    // Decodes the codes in the tile, which has rows of 32, and stores the elements.
    __device__ __forceinline__ void store_codes(const Plan& plan) const {
        const Box& box = shared.box;
        const u32 element_bytes = Element(args.encoded).bytes;
        constexpr u32 kPerUnit = Word<W>::kPerUnit;
        const u32 misaligned = static_cast<u32>(reinterpret_cast<u64>(array) + box.start * element_bytes) |
                               (box.sz * box.sy > 1 ? static_cast<u32>(args.own.extents[2]) * element_bytes : 0);
        const bool is_aligned = misaligned % (kPerUnit * element_bytes) == 0 && !(args.flags & kSwapBytes) && element_bytes == sizeof(W);
        if (likely(is_aligned)) {
            store_rows<kPerUnit>(plan);
        } else {
            store_rows<1>(plan);
        }
    }

    __device__ __forceinline__ W word_of(u32 code, const Plan& plan) const {
        const W number = static_cast<W>(static_cast<s64>(static_cast<s32>(code)));
        return plan.header & kHasWords ? number : shared.quantizer.value(number);
    }
    static __device__ __forceinline__ Float<W> signed_float(u32 code) {
        return sizeof(W) == 8 ? static_cast<Float<W>>(__int2double_rn(static_cast<s32>(code))) : static_cast<Float<W>>(__int2float_rn(static_cast<s32>(code)));
    }

    // Computes prefix sums along z and stores kN adjacent elements of a row at a time. A line is
    // treated as rows of 32, plus a shorter rest.
    template <u32 kN>
    __device__ __forceinline__ void store_rows(const Plan& plan) const {
        const Box& box = shared.box;
        const Element element = part();
        const bool is_line = box.sz * box.sy == 1, swaps = args.flags & kSwapBytes;
        // Without differences along z, the tile treats all planes as one, but in the array they are
        // apart.
        const u32 depth = is_line ? 1 : box.sz, height = is_line ? box.m / kRow : box.sy;
        const u64 row = (is_line ? kRow : args.own.extents[2]) * element.bytes, plane = args.own.extents[1] * row;
        char* const to = array + box.start * element.bytes;
        constexpr u32 kPerRow = kRow / kN;
        // Elements in the first zone are their codes times a step.
        const bool is_near = shared.quantizer.near_limit > Float<W>(0) && !(plan.header & kHasWords);
        const Float<W> step = shared.quantizer.steps[0], limit = is_near ? shared.quantizer.starts[1] : Float<W>(0);
        const u32 base = static_cast<u32>(plan.base);
        const bool adds = plan.z > 0, is_one_plane = !adds && !is_line;
        const auto number_at = [&](u32 z, u32 y, u32 x) {
            const u32 r = z * height + y;
            return reinterpret_cast<const u32*>(shared.stage + chunk_at(r, is_one_plane ? r : y, x / 4)) + x % 4;
        };
        const auto load = [&](u32 z, u32 y, u32 x, u32 (&v)[kN]) {
            const u32* const at = number_at(z, y, x);
            if (kN == 4) {
                split(*reinterpret_cast<const uint4*>(at), v);
            } else if (kN == 2) {
                const uint2 two = *reinterpret_cast<const uint2*>(at);
                v[0] = two.x, v[kN - 1] = two.y;
            } else {
                v[0] = *at;
            }
        };
#pragma unroll 1
        for (u32 column = threadIdx.x; column < height * kPerRow; column += kQuantThreads) {
            const u32 y = column / kPerRow, x = column % kPerRow * kN;
            char* const first = to + y * row + x * element.bytes;
            // The prefix sum so far along z.
            u32 before[kN];
#pragma unroll
            for (u32 i = 0; i < kN; ++i) before[i] = base;
            Float<W> greatest = 0;
            if (likely(is_near)) {
                char* out = first;
#pragma unroll 2
                for (u32 z = 0; z < depth; ++z, out += plane) {
                    u32 v[kN];
                    load(z, y, x, v);
                    W words[kN];
#pragma unroll
                    for (u32 i = 0; i < kN; ++i) {
                        v[i] += before[i];
                        if (adds) before[i] = v[i];
                        const Float<W> value = signed_float(v[i]) * step;
                        greatest = fmax(greatest, size_of(value));
                        words[i] = bits_of(value);
                    }
                    if (kN == 1) {
                        store_element(out, element, swaps, words[0]);
                    } else {
                        store_global_16(out, join(words));
                    }
                }
            }
            // If a value is outside the first zone, the whole column is decoded again, one by one.
            if (likely(greatest < limit)) continue;
#pragma unroll 1
            for (u32 i = 0; i < kN; ++i) {
                u32 code = base;
                char* out = first + i * element.bytes;
#pragma unroll 1
                for (u32 z = 0; z < depth; ++z, out += plane) {
                    const u32 sum = code + *number_at(z, y, x + i);
                    if (adds) code = sum;
                    store_element(out, element, swaps, word_of(sum, plan));
                }
            }
        }
        if (is_line && threadIdx.x < box.m % kRow) {
            const u32 code = *reinterpret_cast<const u32*>(shared.stage + chunk_at(height, height, threadIdx.x / 4) + threadIdx.x % 4 * 4) + base;
            store_element(to + (height * kRow + threadIdx.x) * element.bytes, element, swaps, word_of(code, plan));
        }
    }
};

template <typename W>
__device__ __forceinline__ void quant_decompress(const DecompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char shared[];
    QuantDecompressor<W>(args, *reinterpret_cast<QuantDecompressShared<W>*>(shared)).run();
}

template <typename W>
__device__ __forceinline__ void quant_decompress_region(const RegionArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char shared[];
    QuantDecompressor<W, true>(args, *reinterpret_cast<QuantDecompressShared<W>*>(shared)).run();
}

template <typename W>
constexpr LaunchInfo kQuantDecompressInfo = {kQuantThreads, sizeof(QuantDecompressShared<W>), 0, 1, 0, kDecompressScratch, 0};
