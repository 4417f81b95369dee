// Decodes the numbers of a block that are coded by rANS, each in a context of preceding numbers.
// One warp decodes 32 numbers per step (rans.cuh). The counterpart of
// crates/gridz-codecs/src/stage/entropy/contexts.rs, which defines the contexts.
//
// In blocks of rows of 32, and in lines, the neighbors of a number are in registers, except for
// those in the previous plane.

#pragma once

#include "boxes.cuh"
#include "rans.cuh"
#include "unpack.cuh"

constexpr u32 kNumberContexts = 12;
constexpr u32 kFarthest = 1 << 12;   // largest distance of a neighbor
constexpr u32 kLargestSize = 255;

// Tables of the contexts, and sizes of recent numbers, in shared memory.
template <typename W>
struct ContextTables : RansTables<kNumberContexts, kWordSymbols<W>> {
    // Ring buffer of the sizes of the last 4096 numbers. A size is half of a number, rounded up and
    // clamped to kLargestSize.
    unsigned char sizes[kFarthest];

    // Reads the tables like RansTables::read, and clears the sizes.
    template <u32 kThreads>
    __device__ __forceinline__ void read(const unsigned char* from, u32 available) {
        for (u32 i = threadIdx.x; i < kFarthest / 4; i += kThreads) reinterpret_cast<u32*>(sizes)[i] = 0;
        RansTables<kNumberContexts, kWordSymbols<W>>::template read<kThreads>(from, available);
    }
};

// Distances from a number to the neighbors that determine its context. A neighbor that counts
// several times is listed once.
struct Near {
    u32 up, beside, plane, below;  // plane: 0 if there is no previous plane
    bool is_row;                   // the neighbors lie in rows of 32

    __device__ __forceinline__ explicit Near(const Box& box) {
        const u32 row = box.sz * box.sy == 1 || box.sx > kFarthest / 2 ? kRow : box.sx;
        up = row * ((kRow + row - 1) / row);
        beside = up - 1 >= kRow ? up - 1 : up;
        plane = box.sy * box.sx;
        if (box.sz == 1 || plane < kRow || plane > kFarthest) plane = 0;
        below = plane - min(plane, up) >= kRow ? plane - up : plane;
        is_row = row == kRow;
    }
};

// Decodes the numbers of a block. Used by one warp.
template <typename W>
struct ContextReader : RansReader<W, ContextTables<W>, 0> {
    using Reader = RansReader<W, ContextTables<W>, 0>;
    // Rows between two calls of `report`.
    static constexpr u32 kReportRows = 64;

    const u32 sizes;  // address in shared memory

    // `from` and `available`: as in RansReader.
    __device__ __forceinline__ ContextReader(ContextTables<W>& tables, const unsigned char* from, u32 available)
        : Reader(tables, from, available), sizes(shared_address(tables.sizes)) {}

    // Decodes the next number of each lane; unless kAll, only in lanes that take part. `sum`, the
    // sum of the neighbors' sizes, determines the context.
    template <bool kAll>
    __device__ __forceinline__ W number(u32 sum, bool takes_part) {
        u32 symbol;
        return Reader::template number<kAll>(bit_length(sum), takes_part, symbol);
    }
    static __device__ __forceinline__ u32 size_of_number(W number) {
        return static_cast<u32>(min(static_cast<W>((number >> 1) + (number & 1)), static_cast<W>(kLargestSize)));
    }

    // Calls `take(i, number)` for every number i of a box. Calls `report()` after every kReportRows
    // rows and after the last whole row, but only if the block is viewed as rows of 32 numbers.
    template <typename F, typename Report>
    __device__ __forceinline__ void read(const Box& box, F take, Report report) {
        const Near near(box);
        const u32 m = box.m;
        if (!near.is_row) {
            read_any(near, m, take, report);
        } else if (near.plane) {
            read_rows<true>(near, m, take, report);
        } else {
            read_rows<false>(near, m, take, report);
        }
    }

    template <bool kValue>
    struct Bool {
        static constexpr bool value = kValue;
    };
    // read() for blocks in which the neighbors of a number are in rows of 32 numbers.
    template <bool kPlane, typename F, typename Report>
    __device__ __forceinline__ void read_rows(const Near& near, u32 m, F take, Report report) {
        const u32 lane = lane_id(), lane_before = (lane + kRow - 1) % kRow;
        const bool is_last = lane == kRow - 1, is_below = near.below != near.plane;
        // Sizes one and two rows before, and in the previous plane. `at`: index in `sizes` of the
        // number at distance near.below.
        u32 one = 0, two = 0, plane = 0, at = 0 - near.below + lane;
        const auto step = [&](auto all, u32 i) {
            const u32 before = __shfl_sync(kAllLanes, is_last ? two : one, lane_before);
            u32 sum;
            if (kPlane) {
                const u32 next = load_shared_1(sizes + at % kFarthest);
                sum = 3 * one + two + 2 * (is_below ? plane : next) + next + before;
                plane = next;
            } else {
                sum = 5 * one + two + 2 * before;
            }
            const W number = this->number<decltype(all)::value>(sum, i < m);
            two = one, one = size_of_number(number);
            // All lanes have read the size that this replaces, as the votes in number() synchronize
            // them.
            if (kPlane) store_shared_1(sizes + i % kFarthest, one);
            if (decltype(all)::value || i < m) take(i, number);
        };
        const u32 n_whole = m / kRow;
        u32 i = lane;
#pragma unroll 1
        for (u32 row = 0; row < n_whole;) {
            const u32 end = min(row + kReportRows, n_whole);
#pragma unroll 1
            for (; row < end; ++row, i += kRow, at += kRow) step(Bool<true>(), i);
            report();
        }
        if (n_whole * kRow < m) step(Bool<false>(), i);
    }

    // read() for all other blocks.
    template <typename F, typename Report>
    __device__ __forceinline__ void read_any(const Near& near, u32 m, F take, Report report) {
#pragma unroll 1
        for (u32 i = lane_id(); i - lane_id() < m; i += kRow) {
            const auto size = [&](u32 distance) { return load_shared_1(sizes + (i - distance) % kFarthest); };
            const u32 up = size(near.up), behind = size(near.up + 1), beside = size(near.beside), two = size(2 * near.up);
            const u32 sum = near.plane ? 2 * up + behind + beside + two + 2 * size(near.plane) + size(near.below) : 3 * up + 2 * behind + 2 * beside + two;
            const W number = this->number<false>(sum, i < m);
            store_shared_1(sizes + i % kFarthest, size_of_number(number));
            __syncwarp();
            if (i < m) take(i, number);
        }
    }
};
