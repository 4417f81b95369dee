// Blocks of four axes: 256 numbers, shared by four adjacent lanes. Each lane has a quarter, so that
// a thread has 64 numbers, as with a block of three axes. Three distributions of the numbers are
// needed:
//
//   - cubes: lane w has all numbers at place w along the slowest axis, for loads and stores, and
//     for the transform along the other three axes.
//   - columns: lane x has all numbers at place x along the fastest axis, for the transform along
//     the slowest.
//   - order: lane q has places 64·q to 64·q + 63 of the order in the stream, for bit planes.
//
// Numbers are redistributed through cells in shared memory, 32 bits of each number at a time. This
// needs only barriers of a warp.

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "transform.cuh"

constexpr u32 kQuarterNumbers = 64;
constexpr u32 kQuarterLanes = 4;
__device__ __forceinline__ u32 quarter() { return threadIdx.x % kQuarterLanes; }

// Distance in words between the cells of adjacent blocks, so that the cells of a warp's blocks
// begin in different banks.
constexpr u32 kCellWords = 268;
static_assert(kCellWords >= kBlock<4> && kCellWords % 8 == 4, "of whole units, and an odd number of them");

// Cell of number 4·unit + x of the cube at place w. Units of four numbers stay together. Lanes that
// access one unit of each cube, or one number of each unit, use different banks.
__host__ __device__ __forceinline__ constexpr u32 cell_of(u32 w, u32 unit, u32 x) { return 64 * w + 4 * (unit ^ w) + x; }

// The cells of the numbers in the order of the stream, one byte each.
struct CellOrder {
    alignas(16) u32 words[kBlock<4> / 4];

    constexpr CellOrder() : words() {
        constexpr unsigned char kOrder[kBlock<4>] = {
            0, 1, 4, 16, 64, 5, 80, 17, 68, 65, 20, 2, 8, 32, 128, 84, 81, 69, 21, 6, 18, 66, 24, 72, 9, 96, 33, 36, 129, 132, 144, 3, 12, 48,
            192, 85, 82, 70, 22, 73, 25, 88, 37, 100, 97, 148, 145, 133, 10, 160, 34, 136, 130, 40, 7, 19, 67, 28, 76, 13, 112, 49, 52, 193,
            196, 208, 86, 89, 101, 149, 161, 137, 41, 134, 38, 164, 26, 152, 146, 104, 98, 74, 83, 71, 23, 77, 29, 92, 53, 116, 113, 212, 209,
            197, 11, 35, 131, 44, 140, 14, 176, 50, 56, 194, 200, 224, 90, 165, 102, 153, 150, 105, 168, 162, 138, 42, 87, 93, 117, 213, 27,
            75, 99, 39, 135, 147, 108, 45, 141, 156, 30, 78, 177, 180, 54, 114, 120, 57, 198, 210, 216, 201, 225, 228, 15, 240, 51, 204, 195,
            60, 169, 166, 154, 106, 91, 103, 151, 109, 157, 94, 181, 118, 121, 214, 217, 229, 163, 139, 43, 142, 46, 172, 58, 184, 178, 232,
            226, 202, 241, 205, 61, 199, 55, 244, 31, 220, 211, 124, 115, 79, 170, 167, 155, 107, 158, 110, 173, 122, 185, 182, 233, 230, 218,
            95, 245, 119, 221, 215, 125, 242, 206, 62, 203, 59, 248, 47, 236, 227, 188, 179, 143, 171, 174, 186, 234, 246, 222, 126, 219, 123,
            249, 111, 237, 231, 189, 183, 159, 252, 243, 207, 63, 175, 250, 187, 238, 235, 190, 253, 247, 223, 127, 254, 251, 239, 191, 255};
        for (u32 i = 0; i < kBlock<4>; ++i) {
            const u32 number = kOrder[i];
            words[i / 4] |= cell_of(number / 64, number / 4 % 16, number % 4) << 8 * (i % 4);
        }
    }
};
__device__ const CellOrder kCellOrder;

// The three distributions. `cells` is the address of the block's cells.
struct Cubes {
    u32 units[4];

    __device__ __forceinline__ explicit Cubes(u32 cells) {
#pragma unroll
        for (u32 k = 0; k < 4; ++k) units[k] = cells + 4 * cell_of(quarter(), k, 0);
    }
    __device__ __forceinline__ void put(const u32 (&v)[kQuarterNumbers]) const {
#pragma unroll
        for (u32 k = 0; k < 16; ++k) store_shared_16(units[k % 4] + k / 4 * 64, join(v + 4 * k));
    }
    __device__ __forceinline__ void get(u32 (&v)[kQuarterNumbers]) const {
#pragma unroll
        for (u32 k = 0; k < 16; ++k) split(load_shared_16(units[k % 4] + k / 4 * 64), v + 4 * k);
    }
};
// The numbers of a line along the slowest axis are consecutive in `v`.
struct Columns {
    u32 first;

    __device__ __forceinline__ explicit Columns(u32 cells) : first(cells + 4 * quarter()) {}
    __device__ __forceinline__ void put(const u32 (&v)[kQuarterNumbers]) const {
#pragma unroll
        for (u32 i = 0; i < kQuarterNumbers; ++i) store_shared_4(first + 4 * cell_of(i % 4, i / 4, 0), v[i]);
    }
    __device__ __forceinline__ void get(u32 (&v)[kQuarterNumbers]) const {
#pragma unroll
        for (u32 i = 0; i < kQuarterNumbers; ++i) v[i] = load_shared_4(first + 4 * cell_of(i % 4, i / 4, 0));
    }
};
struct Order {
    u32 cells;

    __device__ __forceinline__ explicit Order(u32 cells) : cells(cells) {}
    template <typename Use>
    __device__ __forceinline__ void each(Use use) const {
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            u32 words[4];
            split(__ldg(reinterpret_cast<const uint4*>(kCellOrder.words) + 4 * quarter() + k), words);
#pragma unroll
            for (u32 i = 0; i < 16; ++i) use(16 * k + i, cells + 4 * (words[i / 4] >> 8 * (i % 4) & 0xff));
        }
    }
    __device__ __forceinline__ void put(const u32 (&v)[kQuarterNumbers]) const {
        each([&](u32 i, u32 address) { store_shared_4(address, v[i]); });
    }
    __device__ __forceinline__ void get(u32 (&v)[kQuarterNumbers]) const {
        each([&](u32 i, u32 address) { v[i] = load_shared_4(address); });
    }
};

// Cells for a lane's own words, which no other lane accesses. Words of 64 bits take two cells each.
template <typename W>
struct OwnCells {
    u32 cells;

    __device__ __forceinline__ explicit OwnCells(u32 cells) : cells(cells) {}
    __device__ __forceinline__ u32 address(u32 i) const { return cells + 4 * cell_of(quarter(), i / 4, i % 4); }
    __device__ __forceinline__ void store(u32 i, W word) const {
        store_shared_4(address(i), static_cast<u32>(word));
        if (sizeof(W) == 8) store_shared_4(address(i) + 4 * kBlock<4>, static_cast<u32>(static_cast<u64>(word) >> 32));
    }
    __device__ __forceinline__ W load(u32 i) const {
        const u32 low = load_shared_4(address(i));
        return sizeof(W) == 8 ? static_cast<W>(static_cast<u64>(load_shared_4(address(i) + 4 * kBlock<4>)) << 32 | low) : low;
    }
};

// Changes the distribution of numbers. Called by all lanes of a warp. Other uses of the cells,
// before or after, need a barrier of the warp in between.
template <typename From, typename To, typename W>
__device__ __forceinline__ void share_out(u32 cells, W (&v)[kQuarterNumbers]) {
#pragma unroll
    for (u32 shift = 0; shift < Word<W>::kBits; shift += 32) {
        // Addresses are computed again for the other half, rather than kept in registers.
        launder(cells);
        const From from(cells);
        const To to(cells);
        u32 words[kQuarterNumbers];
#pragma unroll
        for (u32 i = 0; i < kQuarterNumbers; ++i) words[i] = static_cast<u32>(v[i] >> shift);
        from.put(words);
        __syncwarp();
        to.get(words);
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < kQuarterNumbers; ++i) {
            const W others = v[i] & ~(static_cast<W>(0xffffffffu) << shift);
            v[i] = others | static_cast<W>(words[i]) << shift;
        }
    }
}

// Transforms the numbers of a block, and changes their distribution from cubes to the order of the
// stream. cubes_of_order() is the inverse.
template <typename Lines, typename W>
__device__ __forceinline__ void order_of_cubes(u32 cells, W (&v)[kQuarterNumbers]) {
    transform_forth<3, Lines>(v);
    share_out<Cubes, Columns>(cells, v);
#pragma unroll
    for (u32 i = 0; i < kQuarterNumbers; i += 4) Lines::forth(v[i], v[i + 1], v[i + 2], v[i + 3]);
    share_out<Columns, Order>(cells, v);
}
template <typename Lines, typename W>
__device__ __forceinline__ void cubes_of_order(u32 cells, W (&v)[kQuarterNumbers]) {
    share_out<Order, Columns>(cells, v);
#pragma unroll
    for (u32 i = 0; i < kQuarterNumbers; i += 4) Lines::back(v[i], v[i + 1], v[i + 2], v[i + 3]);
    share_out<Columns, Cubes>(cells, v);
    transform_back<3, Lines>(v);
}

// Reductions over all threads that share a block: the largest word, OR of all bits, and whether any
// flag is true.
template <u32 kRank, typename W>
__device__ __forceinline__ W max_of_block(W word) {
#pragma unroll
    for (u32 step = 1; step < kBlockThreads<kRank>; step *= 2) word = max(word, __shfl_xor_sync(kAllLanes, word, step));
    return word;
}
template <u32 kRank, typename W>
__device__ __forceinline__ W or_of_block(W word) {
#pragma unroll
    for (u32 step = 1; step < kBlockThreads<kRank>; step *= 2) word |= __shfl_xor_sync(kAllLanes, word, step);
    return word;
}
template <u32 kRank>
__device__ __forceinline__ bool any_of_block(bool is_true) { return kBlockThreads<kRank> == 1 ? is_true : or_of_block<kRank>(static_cast<u32>(is_true)) != 0; }

// If threads share blocks, whether the flag is true for any thread of the warp, so that all of them
// take the same branch. Otherwise the thread's own flag.
template <u32 kRank>
__device__ __forceinline__ bool any_of_warp(bool is_true) { return kBlockThreads<kRank> == 1 ? is_true : __any_sync(kAllLanes, is_true); }

// The elements of a block of four axes at place w along the slowest. The array may have none of
// them.
struct Cube : BlockPlace<3> {
    u32 w;

    __device__ __forceinline__ Cube(const BlockGrid<4>& grid, const BlockPlace<4>& place, u32 w)
        : BlockPlace<3>{place.start + grid.offset(64 * w), {place.there[0], place.there[1], place.there[2]}, false}, w(w) {
        if (w >= place.there[3]) there[0] = 0;
        is_whole = there[0] + there[1] + there[2] == 12;
    }
};

// Returns the last codable word of the preceding cubes of the block; if they have none, the first
// codable word of the block. `first` and `last` are the first and the last codable word of the
// lane's cube, if `has_any`.
template <typename W>
__device__ __forceinline__ W word_before(const Cube& cube, W first, W last, bool has_any) {
    const u32 lane_of_block = lane_id() - quarter();
    const u32 some = __ballot_sync(kAllLanes, has_any) >> lane_of_block & 0xf, before = some & low_bits(0u, cube.w);
    const W last_before = __shfl_sync(kAllLanes, last, lane_of_block + (before ? bit_length(before) - 1 : 0));
    const W first_of_all = __shfl_sync(kAllLanes, first, lane_of_block + (some ? trailing_zeros(some) : 0));
    return before ? last_before : first_of_all;
}

// A thread's part of a block in the array: all of it, or a cube.
template <u32 kRank>
__device__ __forceinline__ BlockPlace<kRank> own_part(const BlockGrid<kRank>&, const BlockPlace<kRank>& place) { return place; }
__device__ __forceinline__ Cube own_part(const BlockGrid<4>& grid, const BlockPlace<4>& place) { return Cube(grid, place, quarter()); }
// The same for loads: in a clipped block, a cube of padding is replaced by the cube that it copies.
template <u32 kRank>
__device__ __forceinline__ BlockPlace<kRank> own_source(const BlockGrid<kRank>&, const BlockPlace<kRank>& place) { return place; }
__device__ __forceinline__ Cube own_source(const BlockGrid<4>& grid, const BlockPlace<4>& place) {
    const u32 w = quarter(), n = place.there[3];
    return Cube(grid, place, w < n ? w : w == 2 && n == 2);
}

// Whether a destination of decompression has any element of a block.
template <u32 kRank, typename Target>
__device__ __forceinline__ bool touches(const Target& target, const BlockGrid<kRank>&, const BlockPlace<kRank>& place) { return target.touches(place); }
template <typename Target>
__device__ __forceinline__ bool touches(const Target& target, const BlockGrid<4>& grid, const BlockPlace<4>& place) {
    bool has_any = false;
#pragma unroll 1
    for (u32 w = 0; w < place.there[3]; ++w) has_any |= target.touches(Cube(grid, place, w), place.there[2]);
    return has_any;
}
