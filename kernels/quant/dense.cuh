// Decompression at level dense: one CTA per block of 65536 elements.
//
//   1. All threads sum the bytes of the block and build the tables of its contexts
//      (stage/contexts.cuh).
//   2. The first warp reads the symbols of the numbers, 32 at a time.
//   3. The second warp follows it and adds the tails. If rows have 32 numbers, it computes prefix
//      sums along x and y. It stores the results as words at their elements' positions in the array.
//      If elements are shorter than words, or only some are wanted, it stores them in scratch
//      instead.
//   4. If rows do not have 32 numbers, all threads compute prefix sums along x and y in place.
//   5. All threads compute prefix sums along z and convert the results to elements.
//
// Each step of 32 numbers depends on the one before. So step 2 takes nearly all the time, and its
// loop contains nothing else.

#pragma once

#include "../stage/contexts.cuh"
#include "block_tile.cuh"

constexpr u32 kDenseThreads = 64, kDenseWarps = kDenseThreads / kWarp;

template <typename W>
struct DenseShared {
    using Plan = BlockPlan<W>;
    // Maximum bytes of a block.
    static constexpr u32 kMostBytes = (sizeof(W) << kLogDense) + kUnitBytes;

    union {
        ContextTables<W> tables;
        Bitmap<1u << kLogDense, kDenseThreads> bitmap;
    };
    Quantizer<W> quantizer;
    Box box;
    CtaSums<kDenseWarps> sums;
    Plan plan;
    Relay relay;
    W of_warps[kDenseWarps];  // sum of each warp's numbers
};

// kInArray: elements are as long as words, and all are wanted. kPart: as in block_tile.cuh.
template <typename W, bool kInArray, bool kPart = false>
struct DenseDecompressor : BlockTile<W, kLogDense, kDenseThreads, kPart, DenseShared<W>> {
    static_assert(!kInArray || !kPart, "a region has no places for other elements");
    using Shared = DenseShared<W>;
    using Tile = BlockTile<W, kLogDense, kDenseThreads, kPart, Shared>;
    using Plan = BlockPlan<W>;
    using Tile::args, Tile::payload, Tile::shared;
    using Tile::count, Tile::finish, Tile::part, Tile::report, Tile::store_elements;

    // Numbers that a thread handles together. In a region, just one, as each also needs its
    // position there.
    static constexpr u32 kBatch = kPart ? 1 : 4, kColumnBatch = kPart ? 1 : 32 / sizeof(W);

    using Tile::Tile;

    __device__ __forceinline__ void run() {
        const auto decode = [&](u32 begin, u32 end, u32 check) {
            Tile::decode_block(
                begin, end, check, [&](Plan& plan, const unsigned char* source, u32 n_bytes) { return read_plan(plan, source, n_bytes); },
                [&](const unsigned char* source, u32 n_bytes) { decode_numbers(source, n_bytes); });
        };
        if constexpr (kPart) {
            Tile::run_part(decode);
        } else {
            Tile::run(decode);
        }
    }
    // Reads and checks the front of a block. Returns a damage code, or 0 if it is sound.
    __device__ __forceinline__ u32 read_plan(Plan& plan, const unsigned char* source, u32 n_bytes) const {
        const u32 m = shared.box.m, damage = plan.read(source, n_bytes, args.own.log_unit(), m, part().bytes, shared.quantizer.kind != Quantized::kNothing, false);
        if (damage == 0 && plan.n_outliers > 0) Tile::check_outliers(plan, source, m);
        return damage;
    }

    // Locations of the box's numbers.
    struct Places {
        W* first;
        u64 row, plane;  // words from one row or plane to the next
        u32 step;        // words from number to number

        __device__ __forceinline__ W* at(u32 z, u32 y, u32 x) const { return first + (z * plane + y * row + x * step); }
    };
    __device__ __forceinline__ Places places() const {
        const Box& box = shared.box;
        if (kInArray) {
            const u32 step = 1u << args.own.log_parts();
            const u64 row = args.own.extents[2] * step;
            return Places{reinterpret_cast<W*>(Tile::dst()) + box.start * step, row, args.own.extents[1] * row, step};
        }
        char* const all = static_cast<char*>(args.scratch) + static_cast<u64>(args.n_chunks) * kDecompressScratch;
        W* const first = reinterpret_cast<W*>(all) + ((static_cast<u64>(Tile::chunk) * Tile::tiles + Tile::tile) << kLogDense);
        return Places{first, box.sx, static_cast<u64>(box.sy) * box.sx, 1};
    }

    // Running prefix sums of orders 1 to kMaxOrder.
    struct Running {
        W sums[kMaxOrder] = {};
        __device__ __forceinline__ W add(u32 order, W number) {
#pragma unroll
            for (u32 k = 0; k < kMaxOrder; ++k) {
                if (k >= order) break;
                number = sums[k] += number;
            }
            return number;
        }
    };

    // Decodes the block's numbers and stores its elements in the array.
    __device__ __forceinline__ void decode_numbers(const unsigned char* source, u32 n_bytes) {
        const u32 start = shared.plan.byte_groups, log_unit = args.own.log_unit();
        const u32 n_read = read_numbers(source + start, n_bytes - start);
        if (n_read == 0 || units_of(start + n_read, log_unit) << log_unit != n_bytes) {
            if (threadIdx.x == 0) report(kMarkCorrupt);
            return;
        }
        if (shared.box.sx != kRow) {
            add_up();
            __syncthreads();
        }
        finish_numbers(source);
        __syncthreads();
        if (shared.plan.n_outliers > 0) Tile::put_outliers(shared.plan, source);
    }
    // Reads the numbers of the block and stores them; if rows have 32 numbers, their prefix sums along
    // x and y. Returns the bytes that were read, or 0 if they are damaged. Has barriers.
    __device__ __forceinline__ u32 read_numbers(const unsigned char* from, u32 n_bytes) const {
        const Box& box = shared.box;
        const SmallDivisor rows(box.sx), planes(box.sy);
        const u64 next_row = places().row;
        W* to = places().at(0, 0, lane_id());
        Running sums;
        u32 y = 0, z = 0;
        return read_in_contexts<kDenseThreads>(shared.tables, shared.relay, from, n_bytes, box, [&](u32 row, u32 n, auto& numbers) {
            constexpr u32 kRows = TailReader<W>::kBatch;
#pragma unroll
            for (u32 i = 0; i < kRows; ++i) numbers[i] = unzigzag(numbers[i]);
            if (box.sx != kRow) {
                store_any(row, numbers, rows, planes);
                return;
            }
#pragma unroll 1
            for (u32 k = 0; k < shared.plan.x; ++k) {
#pragma unroll
                for (u32 i = 0; i < kRows; ++i) numbers[i] = warp_inclusive_sum(numbers[i]);
            }
#pragma unroll
            for (u32 i = 0; i < kRows; ++i) {
                if (i >= n) break;
                *to = sums.add(shared.plan.y, numbers[i]);
                to += next_row;
                if (++y < box.sy) continue;
                y = 0, to = places().at(++z, 0, lane_id());
                if (shared.plan.z > 0) sums = Running();
            }
        });
    }
    // Stores rows of 32 numbers of any block, from row `row` of these on.
    template <u32 kRows>
    __device__ __forceinline__ void store_any(u32 row, const W (&numbers)[kRows], const SmallDivisor& rows, const SmallDivisor& planes) const {
#pragma unroll
        for (u32 k = 0; k < kRows; ++k) {
            const u32 i = (row + k) * kRow + lane_id();
            if (i >= shared.box.m) break;
            u32 x, y;
            const u32 z = planes.divide(rows.divide(i, x), y);
            *places().at(z, y, x) = numbers[k];
        }
    }

    // Number of planes for differences along y. Without differences along z, all planes count as
    // one.
    __device__ __forceinline__ u32 n_planes() const { return shared.plan.z > 0 ? shared.box.sz : 1; }

    // Prefix sums along x and y, in any box. Has barriers.
    __device__ __forceinline__ void add_up() const {
        const Box& box = shared.box;
        const Places places = this->places();
        if (box.sz * box.sy == 1) {
            for (u32 k = 0; k < shared.plan.x; ++k) add_up_line(places);
            return;
        }
        add_up(shared.plan.x, box.sz * box.sy, box.sx, [&](u32 line, u32 i) { return places.at(line / box.sy, line % box.sy, i); });
        __syncthreads();
        const u32 n = n_planes(), height = box.sz * box.sy / n;
        add_up(shared.plan.y, n * box.sx, height, [&](u32 line, u32 i) {
            const u32 row = line / box.sx * height + i;
            return places.at(row / box.sy, row % box.sy, line % box.sx);
        });
    }

    // Prefix sums along lines of `length` numbers. Number i of a line is at `at(line, i)`. A thread
    // handles whole lines.
    template <typename F>
    __device__ __forceinline__ void add_up(u32 order, u32 n_lines, u32 length, F at) const {
        if (order == 0) return;
#pragma unroll 1
        for (u32 line = threadIdx.x; line < n_lines; line += kDenseThreads) {
            Running sums;
#pragma unroll 1
            for (u32 i = 0; i < length; ++i) {
                W* const number = at(line, i);
                *number = sums.add(order, *number);
            }
        }
    }

    // Prefix sums along a line. Each warp has a part of it. Has barriers.
    __device__ __forceinline__ void add_up_line(const Places& places) const {
        const u32 m = shared.box.m, n_rows = (m + kRow - 1) / kRow, share = (n_rows + kDenseWarps - 1) / kDenseWarps * kRow;
        const u32 begin = min(threadIdx.x / kWarp * share, m), end = min(begin + share, m);
        W sum = 0;
#pragma unroll 4
        for (u32 i = begin + lane_id(); i < end; i += kRow) sum += *places.at(0, 0, i);
#pragma unroll
        for (u32 step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
        __syncthreads();
        if (lane_id() == 0) shared.of_warps[threadIdx.x / kWarp] = sum;
        __syncthreads();
        W before = 0;
        for (u32 w = 0; w < threadIdx.x / kWarp; ++w) before += shared.of_warps[w];
#pragma unroll 1
        for (u32 i = begin + lane_id(); i - lane_id() < end; i += kBatch * kRow) {
            W v[kBatch];
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) v[k] = i + k * kRow < end ? *places.at(0, 0, i + k * kRow) : W(0);
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) v[k] = warp_inclusive_sum(v[k]);
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                v[k] += before;
                before = __shfl_sync(kAllLanes, v[k], kWarp - 1);
                if (i + k * kRow < end) *places.at(0, 0, i + k * kRow) = v[k];
            }
        }
    }

    // Computes prefix sums along z, converts the results to elements and stores them.
    __device__ __forceinline__ void finish_numbers(const unsigned char* source) const {
        const Box& box = shared.box;
        if (shared.plan.header & kHasFillMask && !Tile::read_fill_mask(shared.plan, source)) return;
        const u32 order = shared.plan.z, plane = box.sy * box.sx, m = box.m;
        const Places places = this->places();
        const SmallDivisor rows(box.sx), planes(box.sy);
        W codes[kColumnBatch];
        if (order > 0) {
#pragma unroll 1
            for (u32 column = threadIdx.x; column < plane; column += kDenseThreads) {
                u32 x;
                const u32 y = rows.divide(column, x);
                W* from = places.at(0, y, x);
                Running sums;
#pragma unroll 1
                for (u32 first = 0; first < box.sz; first += kColumnBatch) {
                    const u32 n = min(box.sz - first, kColumnBatch);
                    W* const at = from;
#pragma unroll
                    for (u32 i = 0; i < kColumnBatch; ++i) {
                        codes[i] = *from;
                        if (first + i + 1 < box.sz) from += places.plane;
                    }
#pragma unroll
                    for (u32 i = 0; i < kColumnBatch; ++i) codes[i] = sums.add(order, codes[i]);
                    const auto advance = [&](W*& at, u32) { at += places.plane; };
                    finish_some(source, codes, n, at, advance, [&](u32 i) { return (first + i) * plane + column; });
                }
            }
            return;
        }
#pragma unroll 1
        for (u32 first = threadIdx.x; first < m; first += kColumnBatch * kDenseThreads) {
            const u32 n = min((m - first + kDenseThreads - 1) / kDenseThreads, kColumnBatch);
            const auto number = [&](u32 i) { return first + i * kDenseThreads; };
            const auto advance = [&](W*& at, u32 i) {
                u32 x, y;
                const u32 z = planes.divide(rows.divide(number(i), x), y);
                at = places.at(z, y, x);
            };
            W* at;
#pragma unroll
            for (u32 i = kColumnBatch; i-- > 0;) {
                advance(at, min(i, n - 1));
                codes[i] = *at;
            }
            finish_some(source, codes, n, at, advance, number);
        }
    }
    // Adds the base to n codes and stores their elements. Code i is number `number(i)` of the
    // block. `at` is the address of the first one; `advance(at, i)` moves it to that of code i.
    template <typename Advance, typename Number>
    __device__ __forceinline__ void finish_some(const unsigned char* source, W (&codes)[kColumnBatch], u32 n, W* at, Advance advance, Number number) const {
        const bool has_fill_mask = shared.plan.header & kHasFillMask, is_words = shared.plan.header & kHasWords;
        const W base = shared.plan.base;
        // Elements in the first zone are their codes times a step.
        const bool is_near = shared.quantizer.near_limit > Float<W>(0) && !is_words && !has_fill_mask;
        const Float<W> step = shared.quantizer.steps[0], limit = is_near ? shared.quantizer.starts[1] : Float<W>(0);
        Float<W> greatest = 0;
#pragma unroll
        for (u32 i = 0; i < kColumnBatch; ++i) {
            codes[i] += base;
            greatest = fmax(greatest, size_of(signed_float(codes[i]) * step));
        }
        if (likely(greatest < limit)) {
#pragma unroll
            for (u32 i = 0; i < kColumnBatch; ++i) {
                if (i >= n) break;
                if (i > 0) advance(at, i);
                store(at, number(i), bits_of(signed_float(codes[i]) * step));
            }
            return;
        }
        // If a value is outside the first zone, decodes all codes one by one. Hiding the address
        // keeps the compiler from holding the fields used here in registers meanwhile.
        u64 address = reinterpret_cast<u64>(&shared);
        launder(address);
        const Shared& shared = *reinterpret_cast<const Shared*>(address);
#pragma unroll
        for (u32 i = 0; i < kColumnBatch; ++i) {
            if (i >= n) break;
            if (i > 0) advance(at, i);
            const u32 own = number(i);
            const bool is_fill = has_fill_mask && shared.bitmap.words[own / 32] >> own % 32 & 1;
            store(at, own, is_fill ? Tile::fill_of(shared.plan, source) : is_words ? codes[i] : value_of(shared.quantizer, codes[i]));
        }
    }
    static __device__ __noinline__ W value_of(const Quantizer<W>& quantizer, W code) { return quantizer.value(code); }
    // Stores the element of a number, given its word.
    __device__ __forceinline__ void store(W* at, u32 number, W word) const {
        if (kInArray) {
            *at = args.flags & kSwapBytes ? swapped_bytes(word) : word;
        } else {
            Tile::store_place(number, part(), word);
        }
    }
    static __device__ __forceinline__ float signed_float(u32 code) { return __int2float_rn(static_cast<s32>(code)); }
    static __device__ __forceinline__ double signed_float(u64 code) { return __ll2double_rn(static_cast<s64>(code)); }
};

template <typename W, bool kInArray>
__device__ __forceinline__ void quant_dense_decompress(const DecompressArgs<Chunk>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    DenseDecompressor<W, kInArray>(args, *reinterpret_cast<DenseShared<W>*>(shared)).run();
}

template <typename W>
__device__ __forceinline__ void quant_dense_decompress_region(const RegionArgs<Chunk>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    DenseDecompressor<W, false, true>(args, *reinterpret_cast<DenseShared<W>*>(shared)).run();
}

template <typename W, bool kInArray>
constexpr LaunchInfo kDenseInfo = {kDenseThreads, sizeof(DenseShared<W>), 0, 1, 0, kDecompressScratch, kInArray ? 0 : sizeof(W) << kLogDense};
