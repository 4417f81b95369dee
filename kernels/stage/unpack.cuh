// Unpacks numbers: a warp writes the patches of a group's rows to the positions of the numbers.
// Then it unpacks the rows and adds them to the patches.
//
// Lane j has the numbers j of all rows. Their packed bits form a string whose words are 32 words
// apart, so that every load of the warp covers 32 adjacent words. Patches are stored row by row.

#pragma once

#include "../common/warp.cuh"
#include "groups.cuh"
#include "words.cuh"

// Bits [at, at + n) of a bit string that starts at a multiple of 4 bytes. n is from 1 to the bits
// of the result. Reads only words that contain such bits.
__device__ __forceinline__ u32 load_bits(const u32* string, u32 at, u32 n, u32) {
    const u32* const words = string + at / 32;
    return __funnelshift_r(words[0], at % 32 + n > 32 ? words[1] : 0, at) & low_bits(0u, n);
}
__device__ __forceinline__ u64 load_bits(const u32* string, u32 at, u32 n, u64) {
    const u32* const words = string + at / 32;
    const u32 middle = at % 32 + n > 32 ? words[1] : 0, last = at % 32 + n > 64 ? words[2] : 0;
    const u64 bits = static_cast<u64>(__funnelshift_r(middle, last, at)) << 32 | __funnelshift_r(words[0], middle, at);
    return bits & low_bits(static_cast<u64>(0), n);
}

// load_bits() for shared memory, where any word can be read. `at` counts bits from address 0.
__device__ __forceinline__ u32 load_shared_bits(u32 at, u32 n, u32) {
    const u32 words = at / 32 * 4;
    return __funnelshift_r(load_shared_4(words), load_shared_4(words + 4), at) & low_bits(0u, n);
}
__device__ __forceinline__ u64 load_shared_bits(u32 at, u32 n, u64) {
    const u32 words = at / 32 * 4, low = load_shared_4(words), middle = load_shared_4(words + 4), last = load_shared_4(words + 8);
    const u64 bits = static_cast<u64>(__funnelshift_r(middle, last, at)) << 32 | __funnelshift_r(low, middle, at);
    return bits & low_bits(static_cast<u64>(0), n);
}

// A group's header, and the positions of its sections, in bytes from the first group's header.
struct GroupPlan {
    u32 n, rows;           // numbers and their rows
    u32 w, e1, e2;         // widths in bits
    u32 n1, n2;            // numbers with a patch, and with a second patch
    u32 packed, bitmap, patches;
};

// The sections of packed numbers. Lane g holds group g; there are at most kGroups groups.
template <typename W, u32 kGroups>
struct PackedSections {
    u32 widths, counts;            // the group's header
    u32 packed, bitmap, patches;   // offsets of its sections
    u32 bitmaps;                   // offset of the first bitmap
    u32 n_bytes;                   // total of all groups
    u32 m;
    bool is_sound;

    // `headers` is aligned to 8 bytes; the payload has `available` bytes from there.
    __device__ __forceinline__ PackedSections(const unsigned char* headers, u32 available, u32 m) : m(m) {
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
            fits = widths >> 24 == 0 && group.w + group.e1 + group.e2 <= Word<W>::kBits && (group.n1 == 0) == (group.e1 == 0) &&
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

    // The lane's group.
    __device__ __forceinline__ GroupPlan own_group() const {
        GroupPlan group = decoded(lane_id(), widths, counts);
        group.packed = packed, group.bitmap = bitmap, group.patches = patches;
        return group;
    }

    // Group g. Called by all lanes with the same g.
    __device__ __forceinline__ GroupPlan group(u32 g) const {
        GroupPlan group = decoded(g, __shfl_sync(kAllLanes, widths, g), __shfl_sync(kAllLanes, counts, g));
        group.packed = __shfl_sync(kAllLanes, packed, g);
        group.bitmap = __shfl_sync(kAllLanes, bitmap, g);
        group.patches = __shfl_sync(kAllLanes, patches, g);
        return group;
    }
};

// Location of sections: in a frame, or staged in shared memory, where any word, and some rows of
// words after the sections, can be read.
enum class Source : u32 { kFrame, kStage };

// Unpacks the low bits of the numbers in rows [first, first + kRows) of a group.
template <Source kSource, u32 kRows>
__device__ __forceinline__ void unpack(const unsigned char* packed, const GroupPlan& group, u32 first, u32 (&v)[kRows]) {
    const unsigned char* const mine = packed + lane_id() * 4;
    const u32 mask = low_bits(0u, group.w), shared = kSource == Source::kStage ? shared_address(mine) : 0;
    u32 at = first * group.w;
#pragma unroll
    for (u32 r = 0; r < kRows; ++r) {
        u32 word = at / 32 * 32;
        if (kSource == Source::kStage) {
            launder(word), launder(at);
            const u32 low = load_shared_4(shared + word * 4), high = load_shared_4(shared + word * 4 + 128);
            v[r] = __funnelshift_r(low, high, at) & mask;
        } else {
            const u32* const words = reinterpret_cast<const u32*>(mine + word * 4);
            const bool is_there = first + r < group.rows && group.w > 0;
            const u32 low = is_there ? words[0] : 0, high = is_there && at % 32 + group.w > 32 ? words[32] : 0;
            v[r] = __funnelshift_r(low, high, at) & mask;
        }
        at += group.w;
    }
}

template <Source, u32 kRows>
__device__ __forceinline__ void unpack(const unsigned char* packed, const GroupPlan& group, u32 first, u64 (&v)[kRows]) {
    const u64 mask = low_bits(static_cast<u64>(0), group.w);
    // Words of 64 bits; possibly one of 32 bits after them.
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

// The strings of patches of a group.
template <typename W, Source kSource>
struct PatchStrings {
    static constexpr bool kShared = kSource == Source::kStage;
    const u32* words;
    u32 e1, e2;
    u32 first, marks, second;  // bit positions of the strings

    __device__ __forceinline__ PatchStrings(const unsigned char* sections, const GroupPlan& group) : e1(group.e1), e2(group.e2) {
        // The patches may start at any byte.
        words = reinterpret_cast<const u32*>(sections + group.patches / 4 * 4);
        first = (kShared ? shared_address(words) * 8 : 0) + group.patches % 4 * 8;
        marks = first + (group.n1 * e1 + 7) / 8 * 8;
        second = marks + (group.n1 + 7) / 8 * 8;
    }
    template <typename T>
    __device__ __forceinline__ T load(u32 at, u32 n, T zero) const {
        return kShared ? load_shared_bits(at, n, zero) : load_bits(words, at, n, zero);
    }
    // Patch i, and the bits that second patch j adds above it.
    __device__ __forceinline__ W patch(u32 i) const { return load(first + i * e1, e1, W()); }
    __device__ __forceinline__ W again(u32 j) const { return load(second + j * e2, e2, W()) << e1; }
};

// Some of a row's patches. numbers: mask of the patched numbers. twice: bit i is set if the i-th of
// these patches is patched again. The remaining fields count the preceding patches and second
// patches.
struct RowPatches {
    u32 numbers, twice;
    u32 before, before_twice;
};

// Whether some numbers are patched twice.
enum class Patched : u32 { kOnce, kTwice };

// Passes a row's patches to `put(number, patch)`, two independent ones at a time.
template <Patched kPatched, typename W, Source kSource, typename Put>
__device__ __forceinline__ void take_patches(const PatchStrings<W, kSource>& strings, RowPatches left, Put put) {
    u32 at = strings.first + left.before * strings.e1, at_again = strings.second + left.before_twice * strings.e2;
    // Takes the next patch; `number` is its number as a bit. Without a patch, `number` is 0 and the
    // result arbitrary.
    const auto take = [&](u32& number) {
        number = left.numbers & (0 - left.numbers);
        left.numbers ^= number;
        W patch = strings.load(at, strings.e1, W());
        at += left.numbers ? strings.e1 : 0;
        if (kPatched == Patched::kOnce) return patch;
        const u32 is_twice = left.twice & 1;
        left.twice >>= 1;
        // Faster than a branch, but only where the load is valid without a second patch.
        if (strings.kShared || is_twice) patch |= (strings.load(at_again, strings.e2, W()) & (0 - static_cast<W>(is_twice))) << strings.e1;
        at_again += is_twice ? strings.e2 : 0;
        return patch;
    };
#pragma unroll 1
    while (left.numbers) {
        u32 numbers[2];
        const W one = take(numbers[0]), two = take(numbers[1]);
        put((bit_length(numbers[0]) - 1) % kRow, one);
        if (numbers[1]) put((bit_length(numbers[1]) - 1) % kRow, two);
    }
}

// Writes the patches of a warp's rows [first, first + kRows) of a group, shifted to their position
// in the numbers. They are written over zeros to the rows' segments of shared memory, which begin
// at `rows`. Returns false if the bitmaps contradict the group's header. A lane has a row, or half
// of one.
template <typename Place, Source kSource, u32 kRows>
__device__ __forceinline__ bool unpack_patches(const unsigned char* sections, const GroupPlan& group, u32 first, unsigned char* rows) {
    using W = typename Place::Word;
    static_assert(kRows == kWarp || 2 * kRows == kWarp, "a lane has a row or half of one");
    const u32 lane = lane_id();
    const PatchStrings<W, kSource> strings(sections, group);
    const auto put = [=](u32 row, u32 number, W patch) {
        *reinterpret_cast<W*>(rows + Place::row(row) + Place::in_row(number)) = patch << group.w;
    };

    // Each lane examines one of the group's rows.
    RowPatches own = {lane < group.rows ? reinterpret_cast<const u32*>(sections + group.bitmap)[lane] : 0, 0, 0, 0};
    const u32 n = __popc(own.numbers), in_row = group.n - min(group.n, lane * kRow);
    own.before = warp_inclusive_sum(n) - n;
    if (!__all_sync(kAllLanes, in_row >= kRow || own.numbers >> in_row == 0) || __shfl_sync(kAllLanes, own.before + n, kWarp - 1) != group.n1) return false;
    if (group.e2 > 0) {
        if (n > 0) own.twice = strings.load(strings.marks + own.before, n, 0u);
        const u32 n_twice = __popc(own.twice);
        own.before_twice = warp_inclusive_sum(n_twice) - n_twice;
        if (__shfl_sync(kAllLanes, own.before_twice + n_twice, kWarp - 1) != group.n2) return false;
        // Bits after the last mark in its byte must be zero.
        const u32 n_behind = (0 - group.n1) % 8;
        if (n_behind > 0 && strings.load(strings.marks + group.n1, n_behind, 0u) != 0) return false;
    }
    const auto of_row = [&](u32 row) {
        return RowPatches{__shfl_sync(kAllLanes, own.numbers, row), __shfl_sync(kAllLanes, own.twice, row),
                          __shfl_sync(kAllLanes, own.before, row), __shfl_sync(kAllLanes, own.before_twice, row)};
    };

    // Rows with more than 1.5 times the average number of patches would stall the other lanes. They
    // are processed one after the other, with one patch per lane.
    const bool has_many = n > group.n1 * 3 / (2 * kWarp) + 1;
    const u32 below = lanes_below();
#pragma unroll 1
    for (u32 full = __ballot_sync(kAllLanes, has_many) >> first & low_bits(0u, kRows); full; full &= full - 1) {
        const u32 row = __ffs(full) - 1;
        const RowPatches patches = of_row(first + row);
        if (!(patches.numbers >> lane & 1)) continue;
        const u32 i = __popc(patches.numbers & below);
        W patch = strings.patch(patches.before + i);
        if (patches.twice >> i & 1) patch |= strings.again(patches.before_twice + __popc(patches.twice & low_bits(0u, i)));
        put(row, lane, patch);
    }
    if (has_many) own.numbers = 0;

    if (kRows < kWarp) {
        // Lanes from kRows on take the upper halves.
        own = of_row(first + lane % kRows);
        if (lane < kRows) {
            own.numbers &= 0xffff;
        } else {
            const u32 n_lower = __popc(own.numbers & 0xffff);
            own.numbers &= 0xffff0000;
            own.before += n_lower, own.before_twice += __popc(own.twice & low_bits(0u, n_lower));
            own.twice >>= n_lower;
        }
    }
    const auto put_own = [=](u32 number, W patch) { put(lane % kRows, number, patch); };
    if (likely(group.e2 == 0)) {
        take_patches<Patched::kOnce>(strings, own, put_own);
    } else {
        take_patches<Patched::kTwice>(strings, own, put_own);
    }
    __syncwarp();
    return true;
}
