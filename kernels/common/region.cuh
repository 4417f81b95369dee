// A region of an array: which elements are decompressed, and their positions in the output. The
// twin of crates/gridz-codecs/src/format/region.rs.
//
// An array is viewed with three axes. A place is an index along such an axis. One of the axes may
// consist of several merged axes of the original array. A region, which is a box of the original
// array, then covers places on the merged axis that are in order but not contiguous. In the output,
// the region's elements are contiguous.

#pragma once

#include "types.cuh"
#include "warp.cuh"

// One of the original axes that form a merged axis. The outermost comes first.
struct AxisLevel {
    u64 stride;        // places on the merged axis per step on this one; 1 for the innermost
    u64 start, count;  // first index of the region on this axis, and number of indices
    u64 inner;         // places of the region per step on this axis; 1 for the innermost
};
constexpr u32 kMaxLevels = 34;

struct Region {
    u64 extents[3];        // extents of the array
    u64 first[3], end[3];  // the region's first place on each axis, and one past its last
    u64 count[3];          // number of places of the region on each axis
    u32 levels_of[4];      // levels of axis k: [levels_of[k], levels_of[k + 1]), at least one
    AxisLevel levels[kMaxLevels];

    // Number of the region's places before `place`.
    __device__ __forceinline__ u64 before(u32 axis, u64 place) const {
        const u32 innermost = levels_of[axis + 1] - 1;
        u64 n = 0;
#pragma unroll 1
        for (u32 l = levels_of[axis]; l < innermost; ++l) {
            const AxisLevel& level = levels[l];
            const u64 digit = place / level.stride;
            place -= digit * level.stride;
            if (digit < level.start) return n;
            if (digit - level.start >= level.count) return n + level.count * level.inner;
            n += (digit - level.start) * level.inner;
        }
        const AxisLevel& level = levels[innermost];
        return place < level.start ? n : n + min(place - level.start, level.count);
    }
    // True if `place` is in the region. `number` is then its index among the region's places.
    __device__ __forceinline__ bool find(u32 axis, u64 place, u64& number) const {
        const u32 innermost = levels_of[axis + 1] - 1;
        u64 n = 0;
#pragma unroll 1
        for (u32 l = levels_of[axis]; l < innermost; ++l) {
            const AxisLevel& level = levels[l];
            const u64 digit = place / level.stride;
            place -= digit * level.stride;
            if (digit < level.start || digit - level.start >= level.count) return false;
            n += (digit - level.start) * level.inner;
        }
        const AxisLevel& level = levels[innermost];
        number = n + (place - level.start);
        return place >= level.start && place - level.start < level.count;
    }
    // The place with index `number` among the region's places.
    __device__ __forceinline__ u64 place(u32 axis, u64 number) const {
        const u32 innermost = levels_of[axis + 1] - 1;
        u64 place = 0;
#pragma unroll 1
        for (u32 l = levels_of[axis]; l < innermost; ++l) {
            const AxisLevel& level = levels[l];
            const u64 digit = number / level.inner;
            number -= digit * level.inner;
            place += (level.start + digit) * level.stride;
        }
        return place + levels[innermost].start + number;
    }
    // True if the element at these places is in the region. `number` is then its output index.
    __device__ __forceinline__ bool find(u64 z, u64 y, u64 x, u64& number) const {
        u64 of_z, of_y, of_x;
        if (!find(0, z, of_z) || !find(1, y, of_y) || !find(2, x, of_x)) return false;
        number = (of_z * count[1] + of_y) * count[2] + of_x;
        return true;
    }
};
static_assert(sizeof(AxisLevel) == 32 && sizeof(Region) == 1200 && offsetof(Region, levels_of) == 96, "crates/gridz-codecs/src/codec/gpu.rs has the same structs");
static_assert(offsetof(Region, levels) == 112, "crates/gridz-codecs/src/codec/gpu.rs has the same struct");

// The arguments of a kernel that decompresses a region. `dst` holds the regions, which are
// `dst_stride` bytes apart.
template <typename Own>
struct RegionArgs : DecompressArgs<Own> {
    Region region;
};
static_assert(sizeof(RegionArgs<u64>) == sizeof(DecompressArgs<u64>) + sizeof(Region), "ABI");

// The blocks that a region may touch: along each axis n blocks from `first` on, limited to the
// existing blocks. With merged axes, some of these blocks may contain no element of the region.
struct Touched {
    u32 first[3], n[3];

    __device__ __forceinline__ Touched(const Region& region, const u32 (&log_sides)[3], const u32 (&n_blocks)[3]) {
#pragma unroll
        for (u32 k = 0; k < 3; ++k) {
            const u64 side = u64{1} << log_sides[k];
            first[k] = static_cast<u32>(min(region.first[k] >> log_sides[k], static_cast<u64>(n_blocks[k])));
            n[k] = static_cast<u32>(min((region.end[k] + side - 1) >> log_sides[k], static_cast<u64>(n_blocks[k]))) - first[k];
        }
    }
    __device__ __forceinline__ u32 count() const { return n[0] * n[1] * n[2]; }
    // Coordinates of a tile's block.
    __device__ __forceinline__ void locate(u32 tile, u32 (&block)[3]) const {
        const u32 rest = tile / n[2];
        block[0] = first[0] + rest / n[1];
        block[1] = first[1] + rest % n[1];
        block[2] = first[2] + tile % n[2];
    }
};

// True if a block contains elements of the region.
__device__ __forceinline__ bool has_some(const Region& region, const u32 (&log_sides)[3], const u32 (&block)[3]) {
    bool has = true;
    for (u32 k = 0; k < 3; ++k) {
        const u64 place = static_cast<u64>(block[k]) << log_sides[k];
        has &= region.before(k, place) < region.before(k, place + (u64{1} << log_sides[k]));
    }
    return has;
}

// The largest power of two up to 16 that divides n.
__device__ __forceinline__ u32 common_unit(u64 n) {
    const u32 low = static_cast<u32>(n) & (kUnitBytes - 1);
    return low ? low & (0 - low) : kUnitBytes;
}

// Copies `n_bytes` bytes. Called by a warp.
template <typename Unit>
__device__ __forceinline__ void copy_run(const char* from, char* to, u64 n_bytes) {
    for (u64 at = lane_id() * sizeof(Unit); at < n_bytes; at += kWarp * sizeof(Unit)) {
        *reinterpret_cast<Unit*>(to + at) = *reinterpret_cast<const Unit*>(from + at);
    }
}

// Copies a region of an array that is stored verbatim: the share of one tile. Called by all threads
// of the CTA; each warp copies runs of contiguous elements.
template <u32 kThreads>
__device__ __forceinline__ void copy_region(const Region& region, u64 element_bytes, const char* array, char* dst, u32 tile, u32 tiles) {
    const u64 length = region.levels[region.levels_of[3] - 1].count;  // elements of a run
    if (region.count[2] == 0) return;
    const u64 in_row = region.count[2] / length, n_bytes = length * element_bytes;
    const u64 n_runs = region.count[0] * region.count[1] * in_row;
    for (u64 run = tile * (kThreads / kWarp) + threadIdx.x / kWarp; run < n_runs; run += static_cast<u64>(tiles) * (kThreads / kWarp)) {
        const u64 row = run / in_row, x = region.place(2, run % in_row * length);
        const u64 z = region.place(0, row / region.count[1]), y = region.place(1, row % region.count[1]);
        const char* const from = array + ((z * region.extents[1] + y) * region.extents[2] + x) * element_bytes;
        char* const to = dst + run * n_bytes;
        switch (common_unit(reinterpret_cast<u64>(from) | reinterpret_cast<u64>(to) | n_bytes)) {
            case 16: copy_run<uint4>(from, to, n_bytes); break;
            case 8: copy_run<u64>(from, to, n_bytes); break;
            case 4: copy_run<u32>(from, to, n_bytes); break;
            case 2: copy_run<unsigned short>(from, to, n_bytes); break;
            default: copy_run<unsigned char>(from, to, n_bytes); break;
        }
    }
}
