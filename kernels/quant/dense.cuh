// Decompression at level dense: one CTA per block of 65536 elements.
//
//   1. All threads sum the bytes of the block and build the tables of its contexts
//      (stage/contexts.cuh).
//   2. The first warp reads the numbers, 32 at a time. It stores them as words at their elements'
//      positions in the array. If elements are shorter than words, or only some are wanted, it
//      stores them in scratch instead.
//   3. If rows have 32 numbers, the second warp follows it and computes prefix sums along x and y
//      in place. Otherwise all threads do that afterwards.
//   4. All threads compute prefix sums along z and convert the results to elements.
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
    u32 n_read;           // bytes of the block, or 0 if it is damaged
    // A phase of `read` completes when the first warp has read kReportRows rows, a phase of
    // `followed` when the second warp has summed them.
    Mbarrier read, followed;
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
        if (threadIdx.x == 0) shared.read.init(kWarp), shared.followed.init(kWarp);
        shared.tables.template read<kDenseThreads>(source + shared.plan.byte_groups, n_bytes - shared.plan.byte_groups);
        const bool has_rows = shared.box.sx == kRow;
        // Whether the second warp has anything to do.
        const bool is_followed = has_rows && (shared.plan.x | shared.plan.y);
        if (warp_id() == 0) {
            const u32 n_read = shared.tables.is_sound ? read_numbers(source, n_bytes, is_followed) : 0;
            if (threadIdx.x == 0) shared.n_read = n_read;
        } else if (shared.tables.is_sound && is_followed) {
            add_up_rows();
        }
        __syncthreads();
        const u32 log_unit = args.own.log_unit();
        if (shared.n_read == 0 || units_of(shared.n_read, log_unit) << log_unit != n_bytes) {
            if (threadIdx.x == 0) report(kMarkCorrupt);
            return;
        }
        if (!has_rows) {
            add_up();
            __syncthreads();
        }
        finish_numbers(source);
        __syncthreads();
        if (shared.plan.n_outliers > 0) Tile::put_outliers(shared.plan, source);
    }

    // Reads all numbers of the block and stores them. Returns the bytes of the block without the
    // zeros at its end, or 0 if it is damaged. Called by the first warp.
    __device__ __forceinline__ u32 read_numbers(const unsigned char* source, u32 n_bytes, bool is_followed) const {
        const Box& box = shared.box;
        const u32 start = shared.plan.byte_groups + shared.tables.n_bytes;
        const Places places = this->places();
        ContextReader<W> reader(shared.tables, source + start, n_bytes - start);
        if (box.sx == kRow) {
            W* to = places.at(0, 0, lane_id());
            // next_plane: words from the last row of a plane to the first row of the next plane.
            const u64 next_row = places.row, next_plane = places.plane - (box.sy - 1) * places.row;
            const u32 n_rows = box.sy;
            u32 y = 0;
            const auto take = [&](u32, W number) {
                *to = unzigzag(number);
                const bool ends = ++y == n_rows;
                to += ends ? next_plane : next_row;
                if (ends) y = 0;
            };
            u32 round = 0;
            reader.read(box, take, [&] {
                if (is_followed) report_round(round++);
            });
        } else {
            const SmallDivisor rows(box.sx), planes(box.sy);
            const auto take = [&](u32 i, W number) {
                u32 x, y;
                const u32 z = planes.divide(rows.divide(i, x), y);
                *places.at(z, y, x) = unzigzag(number);
            };
            reader.read(box, take, [] {});
        }
        const u32 n_read = reader.n_bytes();
        return n_read ? shared.plan.byte_groups + shared.tables.n_bytes + n_read : 0;
    }
    // Signals that the first warp has read the rows of `round`. It is never two rounds ahead of the
    // second warp.
    __device__ __forceinline__ void report_round(u32 round) const {
        if (round > 0) shared.followed.wait(round - 1);
        shared.read.arrive();
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

    // Prefix sums along x and y in rows of 32, as soon as they are read. Called by the second warp.
    __device__ __forceinline__ void add_up_rows() const {
        const u32 order_x = shared.plan.x, order_y = shared.plan.y, n_rows = shared.box.m / kRow, height = n_rows / n_planes();
        const Places places = this->places();
        const SmallDivisor planes(shared.box.sy);
        Running sums;
        u32 in_plane = 0;
#pragma unroll 1
        for (u32 first = 0; first < n_rows; first += kBatch) {
            W* at[kBatch];
            W v[kBatch];
            const u32 n = min(n_rows - first, kBatch);
            if (first % ContextReader<W>::kReportRows == 0) {
                const u32 round = first / ContextReader<W>::kReportRows;
                if (round > 0) shared.followed.arrive();
                shared.read.wait(round);
            }
#pragma unroll
            for (u32 i = 0; i < kBatch; ++i) {
                u32 y;
                const u32 z = planes.divide(first + min(i, n - 1), y);
                at[i] = places.at(z, y, lane_id());
                v[i] = *at[i];
            }
#pragma unroll 1
            for (u32 k = 0; k < order_x; ++k) {
#pragma unroll
                for (u32 i = 0; i < kBatch; ++i) v[i] = warp_inclusive_sum(v[i]);
            }
#pragma unroll
            for (u32 i = 0; i < kBatch; ++i) {
                if (i >= n) break;
                *at[i] = sums.add(order_y, v[i]);
                if (++in_plane == height) in_plane = 0, sums = Running();
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
