// SPLIT, back to numbers: a warp unpacks rows of a group into registers, then adds the bits of patched numbers.
//
// Lane j has the numbers j of all rows, whose packed bits are a string of words 32 words apart, so that every load of
// the warp is 32 adjacent words. The patches of a group are unpacked first, one a lane, to a list in shared memory;
// a patched number finds its own by counting those before it.

#pragma once

#include "../common/warp.cuh"
#include "layout.cuh"

// Bits [at, at + n) of a bit string that begins at a multiple of 4 bytes, n from 1 to the bits of the result. Words that
// have no such bits are only read if kAll.
template <bool kAll>
__device__ __forceinline__ u32 load_bits(const u32* string, u32 at, u32 n, u32) {
    const u32* const words = string + at / 32;
    return __funnelshift_r(words[0], kAll || at % 32 + n > 32 ? words[1] : 0, at) & low_bits(0u, n);
}
template <bool kAll>
__device__ __forceinline__ u64 load_bits(const u32* string, u32 at, u32 n, u64) {
    const u32* const words = string + at / 32;
    const u32 middle = kAll || at % 32 + n > 32 ? words[1] : 0, last = kAll || at % 32 + n > 64 ? words[2] : 0;
    const u64 bits = static_cast<u64>(__funnelshift_r(middle, last, at)) << 32 | __funnelshift_r(words[0], middle, at);
    return bits & low_bits(static_cast<u64>(0), n);
}

// What a group's header says, and where its sections are, in bytes from the first group's header.
struct GroupPlan {
    u32 n, rows;           // numbers and their rows
    u32 w, e1, e2;         // bits
    u32 n1, n2;            // patched numbers
    u32 packed, bitmap, patches;
};

// The sections of a block in SPLIT: lane g knows group g, of which there are at most kGroups.
template <typename W, u32 kGroups>
struct SplitPlan {
    u32 widths, counts;            // the group's header
    u32 packed, bitmap, patches;   // where its sections begin
    u32 bitmaps;                   // and the first bitmap of all
    u32 n_bytes;                   // of all groups
    u32 m;
    bool is_sound;

    // `headers` is aligned to 8 bytes; the payload has `available` bytes from there.
    __device__ __forceinline__ SplitPlan(const unsigned char* headers, u32 available, u32 m) : m(m) {
        const u32 g = lane_id(), n_groups = (m + kGroup - 1) / kGroup;
        widths = counts = packed = bitmap = patches = bitmaps = n_bytes = 0;
        is_sound = available >= 8 * n_groups;
        if (!is_sound || m == 0) return;
        u32 sections = 0, patch_bytes = 0;
        bool fits = true;
        if (g < n_groups) {
            const uint2 header = *reinterpret_cast<const uint2*>(headers + 8 * g);
            widths = header.x;
            counts = header.y;
            const GroupPlan group = decoded(g, widths, counts);
            fits = widths >> 24 == 0 && group.w + group.e1 + group.e2 <= Type<W>::kBits && (group.n1 == 0) == (group.e1 == 0) &&
                   (group.n2 == 0) == (group.e2 == 0) && group.n1 <= group.n && group.n2 <= group.n1;
            sections = (group.rows * group.w + 31) / 32 | (group.e1 ? group.rows : 0) << 16;
            patch_bytes = (group.n1 * group.e1 + 7) / 8 + (group.e2 ? (group.n1 + 7) / 8 + (group.n2 * group.e2 + 7) / 8 : 0);
        }
        is_sound = __all_sync(kAllLanes, fits);
        if (!is_sound) return;
        u32 through = sections, patches_through = patch_bytes;
#pragma unroll
        for (u32 step = 1; step < kGroups; step *= 2) {
            const u32 before = __shfl_up_sync(kAllLanes, through, step), patches_before = __shfl_up_sync(kAllLanes, patches_through, step);
            if (g >= step) through += before, patches_through += patches_before;
        }
        const u32 all = __shfl_sync(kAllLanes, through, kGroups - 1), all_patches = __shfl_sync(kAllLanes, patches_through, kGroups - 1);
        bitmaps = 8 * n_groups + all % 65536 * 128;
        packed = 8 * n_groups + (through - sections) % 65536 * 128;
        bitmap = bitmaps + (through - sections) / 65536 * 4;
        patches = bitmaps + all / 65536 * 4 + patches_through - patch_bytes;
        n_bytes = bitmaps + all / 65536 * 4 + all_patches;
        is_sound = n_bytes <= available;
    }

    __device__ __forceinline__ GroupPlan decoded(u32 g, u32 widths, u32 counts) const {
        GroupPlan group;
        group.n = min(m - min(m, g * kGroup), kGroup);
        group.rows = (group.n + kRow - 1) / kRow;
        group.w = widths & 0xff, group.e1 = widths >> 8 & 0xff, group.e2 = widths >> 16 & 0xff;
        group.n1 = counts & 0xffff, group.n2 = counts >> 16;
        return group;
    }

    // That of the lane.
    __device__ __forceinline__ GroupPlan own_group() const {
        GroupPlan group = decoded(lane_id(), widths, counts);
        group.packed = packed, group.bitmap = bitmap, group.patches = patches;
        return group;
    }

    // By all lanes, with the same g.
    __device__ __forceinline__ GroupPlan group(u32 g) const {
        GroupPlan group = decoded(g, __shfl_sync(kAllLanes, widths, g), __shfl_sync(kAllLanes, counts, g));
        group.packed = __shfl_sync(kAllLanes, packed, g);
        group.bitmap = __shfl_sync(kAllLanes, bitmap, g);
        group.patches = __shfl_sync(kAllLanes, patches, g);
        return group;
    }
};

// The low bits of the numbers in rows [first, first + kRows) of a group. kWhole: there are 32 rows, and a row of words
// behind the group can be read.
template <bool kWhole, u32 kRows>
__device__ __forceinline__ void unpack(const unsigned char* packed, const GroupPlan& group, u32 first, u32 (&v)[kRows]) {
    const unsigned char* const mine = packed + lane_id() * 4;
    const u32 mask = low_bits(0u, group.w);
    u32 at = first * group.w;
#pragma unroll
    for (u32 r = 0; r < kRows; ++r) {
        const u32* const words = reinterpret_cast<const u32*>(mine + (at & ~31u) * 4);
        const bool is_there = kWhole || (first + r < group.rows && group.w > 0);
        const u32 low = is_there ? words[0] : 0;
        const u32 high = kWhole || (is_there && at % 32 + group.w > 32) ? words[32] : 0;
        v[r] = __funnelshift_r(low, high, at) & mask;
        at += group.w;
    }
}

template <bool kWhole, u32 kRows>
__device__ __forceinline__ void unpack(const unsigned char* packed, const GroupPlan& group, u32 first, u64 (&v)[kRows]) {
    const u64 mask = low_bits(static_cast<u64>(0), group.w);
    // Words of 64 bits, and behind them maybe one of 32.
    const u32 halves = (group.rows * group.w + 31) / 32, whole = halves / 2;
    const auto load = [=](u32 k) -> u64 {
        if (k < whole) return *reinterpret_cast<const u64*>(packed + k * 256 + lane_id() * 8);
        return 2 * k < halves ? *reinterpret_cast<const u32*>(packed + k * 256 + lane_id() * 4) : 0;
    };
    u32 at = first * group.w, loaded = at / 64;
    u64 low = load(loaded), high = load(loaded + 1);
#pragma unroll
    for (u32 r = 0; r < kRows; ++r) {
        if (at / 64 != loaded) {
            ++loaded;
            low = high;
            high = load(loaded + 1);
        }
        const u32 w0 = static_cast<u32>(low), w1 = static_cast<u32>(low >> 32), w2 = static_cast<u32>(high), w3 = static_cast<u32>(high >> 32);
        const u32 a = at & 32 ? w1 : w0, b = at & 32 ? w2 : w1, c = at & 32 ? w3 : w2;
        v[r] = (static_cast<u64>(__funnelshift_r(b, c, at)) << 32 | __funnelshift_r(a, b, at)) & mask;
        at += group.w;
    }
}

// The patches of a warp's rows [first, first + kRows) of a group.
template <typename W, u32 kRows>
struct Patches {
    // Of each row which numbers are patched, and how many are before it.
    struct Rows {
        uint2 rows[kRows];
    };
    const W* list;
    const uint2* rows;
    u32 below;  // lanes

    // Unpacks them to the end of the shared memory that the rows will have. If four rows are read before they are
    // written, no patch is overwritten that is still needed: so much shorter is the list. Is false if the bitmaps are not
    // what the group's header says.
    template <bool kAll>
    __device__ __forceinline__ bool unpack(const unsigned char* sections, const GroupPlan& group, u32 first, unsigned char* own, Rows& shared_rows) {
        constexpr u32 kOwnBytes = kRows * Type<W>::kRowSegments * kSegmentStride;
        const u32 lane = lane_id();
        below = (1u << lane) - 1;
        const u32 bits = lane < group.rows ? reinterpret_cast<const u32*>(sections + group.bitmap)[lane] : 0;
        const u32 in_row = group.n - min(group.n, lane * kRow);
        bool is_sound = in_row >= kRow || bits >> in_row == 0;
        const u32 through = warp_inclusive_sum(static_cast<u32>(__popc(bits)));
        is_sound &= __shfl_sync(kAllLanes, through, kWarp - 1) == group.n1;
        is_sound = __all_sync(kAllLanes, is_sound);
        // Patches before the first row and behind the last.
        const u32 before = through - __popc(bits);
        const u32 begin = __shfl_sync(kAllLanes, before, first), end = __shfl_sync(kAllLanes, through, first + kRows - 1);
        if (lane - first < kRows) shared_rows.rows[lane - first] = make_uint2(bits, before - begin);
        W* const to = reinterpret_cast<W*>(own + kOwnBytes) - (end - begin);
        list = to;
        rows = shared_rows.rows;
        if (!is_sound) return false;

        // The strings begin at any byte.
        const u32* const strings = reinterpret_cast<const u32*>(sections + group.patches / 4 * 4);
        const u32 first_string = group.patches % 4 * 8;
        if (group.e2 == 0) {
#pragma unroll 2
            for (u32 p = begin + lane; p < end; p += kWarp) to[p - begin] = load_bits<kAll>(strings, first_string + p * group.e1, group.e1, W());
        } else {
            const u32 again = first_string + (group.n1 * group.e1 + 7) / 8 * 8, second_string = again + (group.n1 + 7) / 8 * 8;
            u32 n_again = 0;
#pragma unroll 1
            for (u32 from = 0; from < group.n1; from += kWarp) {
                const u32 p = from + lane;
                const u32 twice = load_bits<kAll>(strings, again + from, min(group.n1 - from, kWarp), 0u);
                if (p >= begin && p < end) {
                    W patch = load_bits<kAll>(strings, first_string + p * group.e1, group.e1, W());
                    const u32 q = n_again + __popc(twice & below);
                    if (twice >> lane & 1 && q < group.n2) patch |= load_bits<kAll>(strings, second_string + q * group.e2, group.e2, W()) << group.e1;
                    to[p - begin] = patch;
                }
                n_again += __popc(twice);
            }
            is_sound = n_again == group.n2;
        }
        __syncwarp();
        return is_sound;
    }

    // Adds them to rows [from, from + kN) of the warp's.
    template <u32 kN>
    __device__ __forceinline__ void add(u32 from, u32 w, W (&v)[kN]) const {
#pragma unroll
        for (u32 r = 0; r < kN; ++r) {
            const uint2 row = rows[from + r];
            const W patch = list[row.y + __popc(row.x & below)];
            if (row.x & below + 1) v[r] |= patch << w;
        }
    }
};
