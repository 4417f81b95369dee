// Compression of blocks of small codes. Two numbers share a word, which takes half the memory, and
// nearly half the instructions.
//
// Numbers are codes minus the block's first code. They have at most 13 bits with their sign, so all
// their differences of order 1 along three axes fit 16 bits. A word of two numbers is one integer,
// low + 65536·high. Sums of such words with any factors are right in both halves, as long as the
// results fit. Adding kZeros makes the halves unsigned, so that they can be unpacked.
//
// A row has 32 numbers, 64 bytes, in shared memory. Rows of clipped boxes are shorter and end in
// arbitrary values. A thread handles a row. A full line is treated as such rows, where each row
// continues the previous one.

#pragma once

#include "../stage/pack.cuh"
#include "block_work.cuh"

constexpr u32 kZeros = 0x80008000u;     // two biased numbers that are 0
constexpr u32 kMostNarrow = 1 << 12;    // magnitudes of numbers are below this
constexpr u32 kPairs = kRow / 2;        // words of a row
constexpr u32 kNarrowRows = kElements / kRow;

// All ones in those halves whose top bit is set, else zeros.
__device__ __forceinline__ u32 broadcast_signs(u32 pair) {
    u32 signs;
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(signs) : "r"(pair));
    return signs;
}
// Zigzag-encodes two biased numbers to two unsigned numbers.
__device__ __forceinline__ u32 zigzag_pair(u32 pair) { return (pair << 1 & 0xfffefffeu) ^ ~broadcast_signs(pair); }
// The pair that starts with the second number of `before`.
__device__ __forceinline__ u32 pair_between(u32 before, u32 pair) { return __funnelshift_l(before, pair, 16); }
// Bit length of the longest of eight unsigned numbers.
__device__ __forceinline__ u32 longest_of(const u32 (&pairs)[4]) {
    const u32 any = pairs[0] | pairs[1] | pairs[2] | pairs[3];
    return bit_length((any | any >> 16) & 0xffff);
}
// Keeps the first `n` numbers of a group of eight and zeroes the rest.
__device__ __forceinline__ void cut_group(u32 (&pairs)[4], s32 n) {
#pragma unroll
    for (s32 i = 0; i < 4; ++i) pairs[i] = 2 * i + 1 < n ? pairs[i] : 2 * i < n ? pairs[i] & 0xffff : 0;
}

template <typename W>
struct NarrowNumbers {
    static constexpr u32 kRowBytes = kRow * 2;
    unsigned char* const at;
    __device__ __forceinline__ explicit NarrowNumbers(QuantShared<W>& shared) : at(reinterpret_cast<unsigned char*>(shared.buffers[0].words)) {}
    // Eight numbers of a row, swizzled so that vertical neighbors have no bank conflicts.
    __device__ __forceinline__ uint4& byte_group(u32 row, u32 c) const {
        return *reinterpret_cast<uint4*>(at + row * kRowBytes + (c ^ (row >> 1 & 3)) * kUnitBytes);
    }
    __device__ __forceinline__ void load(u32 row, u32 c, u32 (&pairs)[4]) const { split(byte_group(row, c), pairs); }
    __device__ __forceinline__ void add(u32 row, u32 c, u32 factor, u32 (&pairs)[4]) const {
        u32 other[4];
        load(row, c, other);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) pairs[i] += factor * other[i];
    }
    // A number as it is stored, with a bias of 2^15.
    __device__ __forceinline__ unsigned short& number(u32 row, u32 x) const { return reinterpret_cast<unsigned short*>(&byte_group(row, x / kByteGroup))[x % kByteGroup]; }
};

// Chooses the orders of a block of small codes, like QuantOrders. A lane handles eight numbers of a
// row.
template <typename W>
struct NarrowOrders {
    // Differences along neither z nor y, along y, along z, and along both: each with and without
    // differences along x.
    static constexpr u32 kForms = 4;

    QuantShared<W>& shared;
    const NarrowNumbers<W> numbers;
    const RowBox& box;
    const u32 first_row, next_row, n_tasks;

    __device__ __forceinline__ explicit NarrowOrders(QuantShared<W>& shared)
        : shared(shared), numbers(shared), box(shared.box), first_row(are_all() ? 0 : 8), next_row(are_all() ? 1 : 13),
          n_tasks(4 * (are_all() ? n_rows() : (n_rows() + 4) / 13)) {}
    __device__ __forceinline__ u32 n_rows() const { return shared.box.n_rows(); }
    __device__ __forceinline__ bool are_all() const { return n_rows() < 34; }

    struct Task {
        u32 row, c;
        u32 z, y;
        bool exists;
    };
    __device__ __forceinline__ Task task(u32 i) const {
        Task task;
        task.exists = i < n_tasks;
        const u32 own = task.exists ? i : 0;
        task.row = first_row + own / 4 * next_row, task.c = i % 4;
        task.z = box.planes.divide(task.row, task.y);
        return task;
    }
    // Numbers past the end of a row cost nothing.
    __device__ __forceinline__ u32 cost_of(u32 (&pairs)[4], const Task& task) const {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) pairs[i] = zigzag_pair(pairs[i]);
        if (unlikely(box.sx < kRow)) cut_group(pairs, static_cast<s32>(box.sx) - static_cast<s32>(task.c * kByteGroup));
        return task.exists ? longest_of(pairs) : 0;
    }
    // Differences groups along x. Called by all lanes; adjacent lanes have adjacent groups of a
    // row. `before`: the pair before the row.
    __device__ __forceinline__ void difference_x(u32 (&pairs)[4], u32 c, u32 before) const {
        u32 left = __shfl_up_sync(kAllLanes, pairs[3], 1);
        if (c == 0) left = before;
#pragma unroll
        for (u32 i = 3; i > 0; --i) pairs[i] = pairs[i] - pair_between(pairs[i - 1], pairs[i]) + kZeros;
        pairs[0] = pairs[0] - pair_between(left, pairs[0]) + kZeros;
    }

    // Adds up the costs of all candidates whose orders are 0 or 1, except the candidate without
    // differences.
    __device__ __forceinline__ void first_costs() const {
        const u32 n_forms = box.sz > 1 ? kForms : box.is_line() ? 1 : kForms / 2, n = n_forms * n_tasks;
#pragma unroll 1
        for (u32 first = threadIdx.x - lane_id(); first < n; first += kQuantThreads) {
            const u32 i = first + lane_id(), form = (i >= n_tasks) + (i >= 2 * n_tasks) + (i >= 3 * n_tasks);
            Task own = task(i - form * n_tasks);
            // Without differences along z, all planes count as one.
            const bool has_y = form & 1 && (form & 2 ? own.y : own.row) > 0, has_z = form & 2 && own.z > 0;
            u32 pairs[4];
            numbers.load(own.row, own.c, pairs);
            if (has_y) numbers.add(own.row - 1, own.c, ~0u, pairs);
            if (has_z) numbers.add(own.row - box.sy, own.c, ~0u, pairs);
            if (has_y && has_z) numbers.add(own.row - box.sy - 1, own.c, 1, pairs);
            const u32 zeros = has_y || has_z ? kZeros : 0;
#pragma unroll
            for (u32 k = 0; k < 4; ++k) pairs[k] += zeros;
            u32 along_x[4] = {pairs[0], pairs[1], pairs[2], pairs[3]};
            difference_x(along_x, own.c, unlikely(box.is_line()) && own.row > 0 ? numbers.byte_group(own.row - 1, 3).w : kZeros);
            const u32 costs = cost_of(pairs, own) | cost_of(along_x, own) << 16;
            const u32 last_form = __shfl_sync(kAllLanes, form, kWarp - 1);
#pragma unroll 1
            for (u32 f = __shfl_sync(kAllLanes, form, 0); f <= last_form; ++f) {
                const u32 sum = warp_sum(form == f ? costs : 0);
                if (lane_id() == 0) atomicAdd(&shared.narrow_costs[f], sum);
            }
        }
    }

    // Adds the warp's share of the cost of order `kOrder` along the axes of `o` to
    // narrow_costs[to]. `most` is the OR of all magnitudes.
    template <u32 kOrder>
    __device__ __forceinline__ void add_cost(u32 to, const Orders& o, u32 most, u32 first_warp) const {
        static_assert(kOrder == 2 || kOrder == 3, "only orders 2 and 3 are implemented");
        // If box.sy is a multiple of 8, rows that follow each other along z have the same swizzle.
        const bool is_small = ((2 * most + 1) << (o.z + o.y)) <= 0xffff && (o.z == 0 || box.sy % 8 == 0);
#pragma unroll 1
        for (u32 first = (threadIdx.x / kWarp + kQuantWarps - first_warp) % kQuantWarps * kWarp; first < n_tasks; first += kQuantThreads) {
            const Task own = task(first + lane_id());
            const u32 y = o.z > 0 ? own.y : own.row;
            u32 d[kByteGroup] = {};
            if (likely(is_small)) {
                u32 pairs[4] = {}, of_z[kOrder + 1], places[kOrder + 1], all_z = 0, factors = 0;
                // Rows that do not exist add nothing.
#pragma unroll
                for (u32 i = 0; i <= kOrder; ++i) {
                    const bool exists = i <= min(o.z, own.z);
                    of_z[i] = exists ? factor_of<kOrder>(i) : 0, places[i] = exists ? i * box.sy * numbers.kRowBytes : 0;
                    all_z += of_z[i];
                }
#pragma unroll
                for (u32 j = 0; j <= kOrder; ++j) {
                    if (j > o.y) break;
                    const u32 of_y = j <= y ? factor_of<kOrder>(j) : 0;
                    factors += of_y * all_z;
                    const unsigned char* const at = reinterpret_cast<const unsigned char*>(&numbers.byte_group(own.row - min(j, y), own.c));
#pragma unroll
                    for (u32 i = 0; i <= kOrder; ++i) {
                        if (i > o.z) break;
                        u32 other[4];
                        split(*reinterpret_cast<const uint4*>(at - places[i]), other);
                        const u32 factor = of_y * of_z[i];
#pragma unroll
                        for (u32 k = 0; k < 4; ++k) pairs[k] += factor * other[k];
                    }
                }
                take_apart(pairs, factors, 1, d);
            } else {
#pragma unroll 1
                for (u32 j = 0; j <= min(o.y, y); ++j) {
                    u32 pairs[4] = {}, factors = 0;
#pragma unroll 1
                    for (u32 i = 0; i <= min(o.z, own.z); ++i) {
                        const u32 factor = static_cast<u32>(kBinomials[o.z][i]);
                        factors += factor;
                        numbers.add(own.row - i * box.sy - j, own.c, factor, pairs);
                    }
                    take_apart(pairs, factors, static_cast<u32>(kBinomials[o.y][j]), d);
                }
                __syncwarp();
            }
            // The last number of the previous row, for each order of differences.
            u32 before[3] = {};
            if (unlikely(box.is_line()) && own.row > 0) {
                const uint4 last = numbers.byte_group(own.row - 1, 3);
                const u32 a = last.z >> 16, b = last.w & 0xffff, c = last.w >> 16;
                before[0] = c - 0x8000, before[1] = c - b, before[2] = c - 2 * b + a;
            }
#pragma unroll
            for (u32 k = 0; k < kOrder; ++k) {
                if (o.x == 0) break;
                const u32 left = __shfl_up_sync(kAllLanes, d[kByteGroup - 1], 1);
#pragma unroll
                for (u32 i = kByteGroup - 1; i > 0; --i) d[i] -= d[i - 1];
                d[0] -= own.c > 0 ? left : before[k];
            }
            if (unlikely(box.sx < kRow)) {
#pragma unroll
                for (u32 i = 0; i < kByteGroup; ++i) d[i] = own.c * kByteGroup + i < box.sx ? d[i] : 0;
            }
            u32 any = 0;
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) any |= d[i] ^ d[i] << 1;
            const u32 sum = warp_sum(own.exists ? bit_length(any) : 0);
            if (lane_id() == 0) atomicAdd(&shared.narrow_costs[to], sum);
        }
    }
    // Factor i of a difference of this order: a binomial coefficient with its sign.
    template <u32 kOrder>
    static __device__ __forceinline__ constexpr u32 factor_of(u32 i) {
        return i == 0 ? 1 : i == 1 ? 0 - kOrder : i == 2 ? (kOrder == 2 ? 1 : 3) : ~0u;
    }
    // Unpacks the numbers of pairs, which contain `zeros` biases, and adds them to `d` times a
    // factor.
    static __device__ __forceinline__ void take_apart(const u32 (&pairs)[4], u32 zeros, u32 factor, u32 (&d)[kByteGroup]) {
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            const u32 pair = pairs[k] + (1 - zeros) * kZeros;
            d[2 * k] += factor * ((pair & 0xffff) - 0x8000), d[2 * k + 1] += factor * ((pair >> 16) - 0x8000);
        }
    }

    // Finds the fifth of eight sorted samples, and the cost without differences. Called by one
    // warp.
    __device__ __forceinline__ void middle_cost() const {
        constexpr u32 kSamples = 8;
        const u32 j = lane_id() % kSamples, place = j * box.m / kSamples;
        u32 x;
        const u32 row = SmallDivisor(min(box.sx, kRow)).divide(place, x);
        const u32 own = numbers.number(row, x);
        u32 rank = 0;
#pragma unroll
        for (u32 i = 0; i < kSamples; ++i) {
            const u32 other = __shfl_sync(kAllLanes, own, i);
            rank += other < own || (other == own && i < j);
        }
        const u32 between = __shfl_sync(kAllLanes, own, __ffs(__ballot_sync(kAllLanes, rank == kSamples / 2)) - 1) - 0x8000;
        u32 cost = 0;
#pragma unroll 1
        for (u32 first = 0; first < n_tasks; first += kWarp) {
            const Task own = task(first + lane_id());
            u32 pairs[4];
            numbers.load(own.row, own.c, pairs);
#pragma unroll
            for (u32 i = 0; i < 4; ++i) pairs[i] -= between * 0x10001;
            cost += cost_of(pairs, own);
        }
        cost = warp_sum(cost);
        if (lane_id() == 0) shared.narrow_middle = between, shared.narrow_costs[kForms] = cost;
    }

    // Chooses the orders, and the base relative to the first number. Returns false, in all threads,
    // if the search needs orders that are not tried here. If it returns true, the last two warps
    // have called `keeper.place()` meanwhile. Has barriers.
    template <typename Keeper>
    __device__ __forceinline__ bool choose(u32 most, Orders& best, u32& base, const Keeper& keeper) const {
        constexpr u32 kCubicAt = kForms + 1, kHigherAt = kForms + 2;
        const Orders cubic{box.sz > 1 ? 3u : 0u, box.sy > 1 ? 3u : 0u, box.sx > 1 ? 3u : 0u};
        if (threadIdx.x >= kQuantThreads - kWarp) middle_cost();
        add_cost<3>(kCubicAt, cubic, most, 1);
        first_costs();
        __syncthreads();
        // Compares the candidates in the same order as the CPU encoder; on a tie the first one
        // wins.
        const uint4 forms = *reinterpret_cast<const uint4*>(shared.narrow_costs);
        const bool has_z = box.sz > 1, has_y = box.sy > 1, has_x = box.sx > 1;
        u32 key = shared.narrow_costs[kForms] << 4;
        const auto look = [&](bool exists, u32 cost, u32 place) { key = exists ? min(key, cost << 4 | place) : key; };
        look(has_x, forms.x >> 16, 1);
        look(has_y, forms.y & 0xffff, 2);
        look(has_y && has_x, forms.y >> 16, 3);
        look(has_z && has_x, forms.z >> 16, 4);
        look(has_z && has_y && has_x, forms.w >> 16, 5);
        look(has_z, forms.z & 0xffff, 6);
        look(has_z && has_y, forms.w & 0xffff, 7);
        look(true, shared.narrow_costs[kCubicAt], 8);
        const u32 c = key & 15;
        constexpr u32 kAlongZ = 0xf0, kAlongY = 0xac, kAlongX = 0x3a;
        best = c == 8 ? cubic : Orders{kAlongZ >> c & 1, kAlongY >> c & 1, kAlongX >> c & 1};
        u32 lowest = key >> 4, order = c == 0 ? 0 : c == 8 ? 3 : 1;
        base = order == 0 ? shared.narrow_middle : 0;
        if (threadIdx.x >= 2 * kWarp && order <= 1) keeper.place();
        if (order == 0) return true;
        const auto of_order = [&](u32 n) { return Orders{best.z > 0 ? n : 0, best.y > 0 ? n : 0, best.x > 0 ? n : 0}; };
        if (likely(order == 1)) {
            const Orders quadratic = of_order(2);
            add_cost<2>(kHigherAt, quadratic, most, 0);
            __syncthreads();
            const u32 other = shared.narrow_costs[kHigherAt];
            if (likely(other >= lowest)) return true;
            lowest = other, best = quadratic;
            const Orders third = of_order(3);
            add_cost<3>(kHigherAt + 1, third, most, 0);
            __syncthreads();
            if (shared.narrow_costs[kHigherAt + 1] >= lowest) return true;
        }
        // Order 4 is not tried here.
        return false;
    }
};

// The numbers of a thread's row. difference() leaves unsigned residuals.
template <typename W>
struct NarrowRow {
    u32 pairs[kPairs];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (u32 i = 0; i < kPairs; ++i) pairs[i] = 0;
    }
    __device__ __forceinline__ void add(const NarrowNumbers<W>& numbers, u32 row, u32 factor) {
#pragma unroll
        for (u32 c = 0; c < 4; ++c) {
            u32 other[4];
            numbers.load(row, c, other);
#pragma unroll
            for (u32 k = 0; k < 4; ++k) pairs[4 * c + k] += factor * other[k];
        }
    }

    // Loads the row and differences it.
    __device__ __forceinline__ void difference(const NarrowNumbers<W>& numbers, const RowBox& box, u32 row, const Orders& o, u32 base) {
        u32 y = row;
        const u32 z = o.z > 0 ? box.planes.divide(row, y) : 0;
        if (likely((o.z | o.y) <= 1)) {
            const bool has_y = o.y > 0 && y > 0, has_z = o.z > 0 && z > 0;
            const u32 zeros = (has_y || has_z ? kZeros : 0) - base * 0x10001;
#pragma unroll
            for (u32 i = 0; i < kPairs; ++i) pairs[i] = zeros;
            add(numbers, row, 1);
            if (has_y) add(numbers, row - 1, ~0u);
            if (has_z) {
                add(numbers, row - box.sy, ~0u);
                if (has_y) add(numbers, row - box.sy - 1, 1);
            }
        } else {
            u32 factors = 0;
#pragma unroll
            for (u32 i = 0; i < kPairs; ++i) pairs[i] = 0;
#pragma unroll 1
            for (u32 j = 0; j <= min(o.y, y); ++j) {
#pragma unroll 1
                for (u32 i = 0; i <= min(o.z, z); ++i) {
                    const u32 factor = static_cast<u32>(kBinomials[o.y][j] * kBinomials[o.z][i]);
                    factors += factor;
                    add(numbers, row - i * box.sy - j, factor);
                }
            }
#pragma unroll
            for (u32 i = 0; i < kPairs; ++i) pairs[i] += (1 - factors) * kZeros;
        }
        // The last pair of the previous row, and its first differences. Higher orders do not occur
        // here.
        u32 before = kZeros, next_before = kZeros;
        if (unlikely(box.is_line()) && row > 0) {
            const uint4 last = numbers.byte_group(row - 1, 3);
            before = last.w, next_before = last.w - pair_between(last.z, last.w) + kZeros;
        }
#pragma unroll 1
        for (u32 k = 0; k < o.x; ++k) {
#pragma unroll
            for (u32 i = kPairs - 1; i > 0; --i) pairs[i] = pairs[i] - pair_between(pairs[i - 1], pairs[i]) + kZeros;
            pairs[0] = pairs[0] - pair_between(before, pairs[0]) + kZeros;
            before = next_before;
        }
#pragma unroll
        for (u32 i = 0; i < kPairs; ++i) pairs[i] = zigzag_pair(pairs[i]);
    }
    __device__ __forceinline__ u32 length(u32 c) const {
        const u32 byte_group[4] = {pairs[4 * c], pairs[4 * c + 1], pairs[4 * c + 2], pairs[4 * c + 3]};
        return longest_of(byte_group);
    }
};

// ORs a string of up to 64 bits into zeroed shared memory, from byte `at` on.
__device__ __forceinline__ void add_bytes(u32 low, u32 high, u32 at) {
    const u32 to = at & ~3u, shift = (at & 3) * 8;
    or_shared(to, low << shift);
    const u32 second = __funnelshift_l(low, high, shift), third = __funnelshift_l(high, 0, shift);
    if (second) or_shared(to + 4, second);
    if (third) or_shared(to + 8, third);
}
// Like add_group(), for a group of numbers with `width` bits each, at most 16.
__device__ __forceinline__ void add_narrow_group(u32 a, u32 b, u32 c, u32 d, u32 width, u32 at) {
    if (width > 8) {
        add_bytes(__byte_perm(a, b, 0x6420), __byte_perm(c, d, 0x6420), at);
        a = a >> 8 & 0x00ff00ffu, b = b >> 8 & 0x00ff00ffu, c = c >> 8 & 0x00ff00ffu, d = d >> 8 & 0x00ff00ffu;
        at += 8, width -= 8;
    }
    // The upper number of a pair directly follows the lower one; the second pair follows the first.
    const u32 one = 1u << width, up = one - 0x10000u, two = one * one;
    const u32 first = (a + (a >> 16) * up) + (b + (b >> 16) * up) * two, second = (c + (c >> 16) * up) + (d + (d >> 16) * up) * two;
    add_bytes(first | __funnelshift_lc(0, second, 4 * width), __funnelshift_lc(second, 0, 4 * width), at);
}
