// First pass of compression at level dense: one CTA turns a block of 65536 elements into small
// residuals.
//
//   1. Elements become codes or words, in scratch (codes.cuh).
//   2. Some rows are predicted with each candidate for the orders. One pass over these rows tries
//      all low orders together. Other candidates are tried together if they do not depend on each
//      other.
//   3. Rows are differenced, several at a time, and the sizes of the residuals are stored in shared
//      memory. Then each residual is counted in its context, which depends on earlier sizes, and
//      becomes a half-word entry in scratch. If its entry lacks some of its bits, the full residual
//      is stored there as well.
//   4. The tables of contexts are built and the front of the block is written
//      (stage/contexts_write.cuh).

#pragma once

#include "../stage/contexts_write.cuh"
#include "../stage/differences.cuh"
#include "dense_exceptions.cuh"

template <typename W>
struct DensePredictor : BlockCodes<W, DenseLevel<W>, DensePredictShared<W>> {
    using Shared = DensePredictShared<W>;
    using Codes = BlockCodes<W, DenseLevel<W>, Shared>;
    using Coding = DenseCoding<W>;
    using Entry = ContextEntry<Coding>;
    static constexpr u32 kThreads = Shared::kThreads, kWarps = Shared::kWarps, kSymbols = Coding::kSymbols;
    using Tables = ContextTablesMaker<Coding, kThreads>;
    using Codes::args, Codes::shared, Codes::block;
    // kPieces: pieces of rows that are differenced at a time. kSizes: sizes that are kept, of the
    // numbers being counted, of earlier numbers near them, and of the next pieces.
    static constexpr u32 kPieces = 16 * kWarps, kSizes = Shared::kSizes;
    static_assert(kFarthest + 2 * kPieces * kRow <= kSizes, "what is near is kept");

    using Codes::Codes;

    __device__ __forceinline__ void run() const {
        if (threadIdx.x == 0) Codes::prepare();
        if (threadIdx.x < kMostCandidates) shared.costs[0][threadIdx.x] = 0;
        if (threadIdx.x < kLow * kLow * kLow) shared.low_costs[threadIdx.x] = 0;
        __syncthreads();
        const u32 loaded = Codes::template load<Short>(), header = loaded & ~Codes::kAreShort;
        if (unlikely(loaded == Codes::kEnded)) return;
        if (unlikely(header & kHasFillMask)) exceptions().measure();
        Orders orders;
        W base;
        if (likely(loaded & Codes::kAreShort)) {
            predict<Short>(orders, base);
        } else {
            predict<W>(orders, base);
        }
        Tables{shared.tables}.run(block.ranges);
        write_front(header, orders, base);
    }
    __device__ __forceinline__ DenseExceptions<W> exceptions() const { return DenseExceptions<W>{Codes::exceptions()}; }
    template <typename N>
    __device__ __forceinline__ N* codes() const { return Codes::template codes<N>(); }
    template <typename N>
    __device__ __forceinline__ void predict(Orders& orders, W& base) const {
        // Reads may extend one row past the last number.
        if (threadIdx.x < kRow) codes<N>()[shared.box.m + threadIdx.x] = 0;
        __syncthreads();
        choose<N>(orders, base);
        difference<N>(orders, base);
    }

    using Sample = RowSample<17>;
    static __device__ __forceinline__ bool is_possible(const RowBox& box, const Orders& o) {
        return (o.z == 0 || box.sz > 1) && (o.y == 0 || box.sy > 1) && (o.x == 0 || box.sx > 1) && greatest(o) <= kMaxOrder;
    }
    // The lane's share of a prediction's cost: the bits of the sampled residuals.
    template <typename N>
    __device__ __forceinline__ u32 cost(W base, const Orders& o) const {
        const Sample sample(shared.box.n_existing_rows());
        u32 cost = 0;
        Differences<W, kWarps>{shared.box}.for_residuals(codes<N>(), base, o, sample.first, sample.step, [&](u32, W r) { cost += bit_length(r); });
        return cost;
    }
    // `low_costs` has the costs of orders below kLow. First it has only those below kFew, and the
    // cost of order 3 along all existing axes.
    static constexpr u32 kLow = Shared::kLow, kFew = kLow - 1;
    __device__ __forceinline__ bool has_short_rows() const { return !shared.box.is_line() && shared.box.sx <= kRow; }
    static __device__ __forceinline__ Orders cubic(const RowBox& box) { return Orders{box.sz > 1 ? 3u : 0u, box.sy > 1 ? 3u : 0u, box.sx > 1 ? 3u : 0u}; }
    static __device__ __forceinline__ u32 greatest(const Orders& o) { return max(max(o.z, o.y), o.x); }
    static __device__ __forceinline__ u32 place_of(const Orders& o) { return (o.z * kLow + o.y) * kLow + o.x; }
    // `known`: costs of all orders below this are known.
    __device__ __forceinline__ bool is_known(const Orders& o, u32 known) const {
        return known > 0 && (greatest(o) < known || (greatest(o) < kLow && place_of(o) == place_of(cubic(shared.box))));
    }

    // Finds the costs of all orders below kFew on every axis, and of cubic(). If kAll, finds the
    // other costs of orders below kLow instead. Rows have at most 32 numbers. A row and the three
    // before it, in four planes, are differenced step by step. The caller adds a barrier.
    template <typename N, bool kAll>
    __device__ __forceinline__ void find_low_costs(W middle) const {
        const RowBox& box = shared.box;
        const Sample sample(box.n_existing_rows());
        const Orders cube = cubic(box);
        const u32 lane = lane_id(), plane = box.sy * box.sx;
        // Costs of two orders along x share a word, as a lane's share of a cost is below 2^16. A
        // number without bits adds -1, so the bias kMany, which is more than the number of rows,
        // keeps costs positive.
        constexpr u32 kMany = 1 << 12;
        u32 costs[kLow][kLow][kLow / 2], n = kMany;
#pragma unroll
        for (u32 c = 0; c < kLow * kLow * kLow / 2; ++c) costs[c / (kLow * kLow / 2)][c / (kLow / 2) % kLow][c % (kLow / 2)] = kMany << 16 | kMany;
#pragma unroll 1
        for (u32 i = warp_id(); i < sample.n; i += kWarps, --n) {
            const u32 row = sample.first + i * sample.step;
            u32 y;
            const u32 z = box.planes.divide(row, y);
            const N* const at = codes<N>() + row * box.sx + lane;
            // Without differences along z (k = 0), all planes count as one, so the rows before may
            // be in the previous plane.
            W v[kLow][kLow];
#pragma unroll
            for (u32 k = 0; k < kLow; ++k) {
#pragma unroll
                for (u32 j = 0; j < kLow; ++j) v[k][j] = (k == 0 ? row >= j : z >= k && y >= j) ? static_cast<W>(*(at - k * plane - j * box.sx)) : 0;
            }
#pragma unroll
            for (u32 oz = 0; oz < kLow; ++oz) {
                if (oz > cube.z) break;
                W d[kLow];
#pragma unroll
                for (u32 j = 0; j < kLow; ++j) d[j] = v[0][j];
#pragma unroll
                for (u32 oy = 0; oy < kLow; ++oy) {
                    if (oy > cube.y) break;
                    const bool are_few = oz < kFew && oy < kFew, is_cubic = oz == cube.z && oy == cube.y;
                    if (kAll || are_few || is_cubic) {
                        W r = d[0];
#pragma unroll
                        for (u32 ox = 0; ox < kLow; ++ox) {
                            if (!kAll && are_few && ox == kFew) break;
                            const W different = oz + oy + ox == 0 ? r - middle : r;
                            // The bit subtracted here is added again below, through `n`.
                            if (kAll || are_few || ox == 0 || ox == kFew) costs[oz][oy][ox / 2] += (zigzag_length(different) - 1) << ox % 2 * 16;
                            const W left = __shfl_up_sync(kAllLanes, r, 1);
                            if (lane > 0) r -= left;
                        }
                    }
#pragma unroll
                    for (u32 j = 0; j + 1 < kLow; ++j) d[j] -= d[j + 1];
                }
#pragma unroll
                for (u32 j = 1; oz == 0 && j < kLow; ++j) v[0][j] = y >= j ? v[0][j] : 0;
#pragma unroll
                for (u32 k = 0; k + 1 < kLow; ++k) {
#pragma unroll
                    for (u32 j = 0; j < kLow; ++j) v[k][j] -= v[k + 1][j];
                }
            }
        }
        u32 own[2] = {};
#pragma unroll
        for (u32 c = 0; c < kLow * kLow * kLow; ++c) {
            const u32 both = costs[c / kLow / kLow][c / kLow % kLow][c % kLow / 2], own_cost = (c % 2 ? both >> 16 : both & 0xffff) - n;
            const u32 cost = warp_sum(lane < box.sx ? own_cost : 0);
            own[c / kWarp] = lane == c % kWarp ? cost : own[c / kWarp];
        }
        static_assert(kLow * kLow * kLow == 2 * kWarp, "a lane has two costs");
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            const u32 c = k * kWarp + lane;
            const bool was_known = is_known(Orders{c / kLow / kLow, c / kLow % kLow, c % kLow}, kFew);
            if (was_known != kAll) atomicAdd(&shared.low_costs[c], own[k]);
        }
    }

    // Finds the costs of `n` candidates, one per lane. `orders_of(c, o)` sets the orders of
    // candidate c and returns whether they are possible. Returns the least cost, and sets `best` to
    // the first candidate that has it. `round` counts from 0. Has barriers.
    template <typename N, typename F>
    __device__ __forceinline__ u32 try_all(u32 n, u32& round, u32& known, W middle, F orders_of, u32& best) const {
        u32* const costs = shared.costs[round % 3];
        const u32 lane = lane_id();
        Orders own;
        const bool is_possible = lane < n && orders_of(lane, own);
        u32 unknown = __ballot_sync(kAllLanes, is_possible && !is_known(own, known));
        if (known == kFew && warp_max_unsigned(unknown >> lane & 1 ? greatest(own) : 0) == kFew) {
            find_low_costs<N, true>(middle);
            known = kLow, unknown = 0;
            __syncthreads();
        }
        if (unknown) {
            // Clears the costs of the next round, whose old values all threads have read.
            ++round;
            if (threadIdx.x < kMostCandidates) shared.costs[round % 3][threadIdx.x] = 0;
#pragma unroll 1
            for (; unknown; unknown &= unknown - 1) {
                const u32 c = __ffs(unknown) - 1;
                Orders o;
                orders_of(c, o);
                const u32 sum = warp_sum(cost<N>(greatest(o) == 0 ? middle : 0, o));
                if (lane == 0) atomicAdd(&costs[c], sum);
            }
            __syncthreads();
        }
        const u32 cost = !is_possible ? ~0u : is_known(own, known) ? shared.low_costs[place_of(own)] : costs[lane], least = warp_min_unsigned(cost);
        best = __ffs(__ballot_sync(kAllLanes, cost == least)) - 1;
        return least;
    }

    // The 33rd of 64 sorted samples, that is, the greatest sample with at most 32 smaller ones.
    // `first` was subtracted from the numbers; the result lacks it, too. Called by all threads of a
    // warp.
    template <typename N>
    __device__ __forceinline__ W middle(W first) const {
        constexpr u32 kSamples = 64;
        const u32 m = shared.box.m, lane = lane_id();
        W keys[2];
#pragma unroll
        for (u32 k = 0; k < 2; ++k) keys[k] = (static_cast<W>(codes<N>()[(k * kWarp + lane) * m / kSamples]) + first) ^ kTopBit<W>;
        u32 n_less[2] = {};
#pragma unroll 4
        for (u32 i = 0; i < kWarp; ++i) {
#pragma unroll
            for (u32 from = 0; from < 2; ++from) {
                const W other = __shfl_sync(kAllLanes, keys[from], i);
#pragma unroll
                for (u32 k = 0; k < 2; ++k) n_less[k] += other < keys[k];
            }
        }
        const W found = warp_max_unsigned(max(n_less[0] <= kSamples / 2 ? keys[0] : W(0), n_less[1] <= kSamples / 2 ? keys[1] : W(0)));
        return (found ^ kTopBit<W>) - first;
    }

    // Chooses the orders, and the base relative to the first number. Has barriers.
    template <typename N>
    __device__ __forceinline__ void choose(Orders& best, W& base) const {
        const RowBox& box = shared.box;
        const W middle = this->middle<N>(shared.first_code);
        if (has_short_rows()) find_low_costs<N, false>(middle);
        u32 known = has_short_rows() ? kFew : 0;
        __syncthreads();
        // The first candidates: order 0 or 1 on each axis, then order 3 on all axes longer than 1.
        // Bit c of a constant is the order of candidate c.
        constexpr u32 kFirst = 6, kAlongZ = 0x30, kAlongY = 0x2c, kAlongX = 0x3a;
        const auto first = [&](u32 c, Orders& o) {
            o = c == kFirst ? cubic(box) : Orders{kAlongZ >> c & 1, kAlongY >> c & 1, kAlongX >> c & 1};
            return is_possible(box, o);
        };
        u32 round = 0, c;
        u32 least = try_all<N>(kFirst + 1, round, known, middle, first, c);
        first(c, best);
        const u32 order = greatest(best);
#pragma unroll 1
        for (u32 next = order + 1; order > 0 && next <= kMaxOrder; ++next) {
            const Orders o{best.z > 0 ? next : 0, best.y > 0 ? next : 0, best.x > 0 ? next : 0};
            const auto only = [&](u32, Orders& to) { return to = o, true; };
            const u32 other = try_all<N>(1, round, known, middle, only, c);
            if (other >= least) break;
            least = other, best = o;
        }
        // Raises or lowers the order along one axis by one, as long as this lowers the cost.
#pragma unroll 1
        for (;;) {
            const Orders from = best;
            const auto near = [&](u32 c, Orders& o) {
                const u32 step = c < 3 ? 1 : ~0u;
                o = from;
                if (c % 3 == 0) o.x += step;
                if (c % 3 == 1) o.y += step;
                if (c % 3 == 2) o.z += step;
                return is_possible(box, o);
            };
            const u32 other = try_all<N>(6, round, known, middle, near, c);
            if (other >= least) break;
            least = other;
            near(c, best);
        }
        base = greatest(best) == 0 ? middle : 0;
    }

    // Differences all rows and counts the residuals in their contexts. Has barriers.
    template <typename N>
    __device__ __forceinline__ void difference(const Orders& o, W base) const {
        const RowBox& box = shared.box;
        const Tables tables{shared.tables};
        tables.clear();
        for (u32 i = threadIdx.x; i < kSizes / 2; i += kThreads) shared.size_pairs[i] = 0;
        __syncthreads();
        if (box.is_line() || (box.sx == kRow && box.sy % kStep == 0)) return difference_rows<N>(tables, o, base);
        // Divides rows into pieces of at most 32 numbers.
        const SmallDivisor pieces((box.sx + kRow - 1) / kRow);
        const u32 n_pieces = pieces.divisor * box.sz * box.sy;
        u32 begin = 0;
#pragma unroll 1
        for (u32 first = 0; first < n_pieces; first += kPieces) {
            difference_pieces<N>(first, min(first + kPieces, n_pieces), pieces, o, base);
            __syncthreads();
            u32 piece, end = box.m;
            if (first + kPieces < n_pieces) {
                const u32 row = pieces.divide(first + kPieces, piece);
                end = row * box.sx + piece * kRow;
            }
            count(tables, begin, end);
            begin = end;
        }
        __syncthreads();
    }
    // Differences pieces [first, end) of rows, and stores the residuals and their sizes. Called by
    // all warps.
    template <typename N>
    __device__ __forceinline__ void difference_pieces(u32 first, u32 end, const SmallDivisor& pieces, const Orders& o, W base) const {
        const RowBox& box = shared.box;
        const Differences<W, kWarps> differences{box};
#pragma unroll 1
        for (u32 p = first + threadIdx.x / kWarp; p < end; p += kWarps) {
            u32 x;
            const u32 row = pieces.divide(p, x);
            x *= kRow;
            const W r = differences.residual(codes<N>(), base, o, row, x);
            if (x + lane_id() >= box.sx) continue;
            const u32 i = row * box.sx + x + lane_id();
            block.residuals[i] = r;
            shared.sizes[i % kSizes] = static_cast<unsigned char>(size_of_symbol(symbol_of(r)));
        }
    }
    // Counts the residuals of numbers [begin, end) in their contexts. Other warps may already
    // difference the next pieces, which does not overwrite the sizes that are read here.
    __device__ __forceinline__ void count(const Tables& tables, u32 begin, u32 end) const {
        const Near near(shared.box);
#pragma unroll 2
        for (u32 i = begin + threadIdx.x; i < end; i += kThreads) {
            const auto size = [&](u32 distance) -> u32 { return shared.sizes[(i - distance) % kSizes]; };
            const u32 up = size(near.up), behind = size(near.up + 1), beside = size(near.beside), two = size(2 * near.up);
            const u32 sum = near.plane ? 2 * up + behind + beside + two + 2 * size(near.plane) + size(near.below) : 3 * up + 2 * behind + 2 * beside + two;
            const W r = block.residuals[i];
            const u32 entry = Entry::in_context_of(sum, Entry::of(r));
            block.entries[i] = static_cast<unsigned short>(entry);
            tables.count(Entry::key(entry));
        }
    }

    // Implements difference() for boxes with rows of 32 numbers, where a warp has consecutive rows,
    // and for lines, treated as such rows. The kStep rows that are differenced together are in one
    // plane. Entries and sizes take half a word each, so that one instruction handles two rows
    // where possible.
    static constexpr u32 kOwnRows = kPieces / kWarps, kStep = 4, kPairs = kStep / 2;
    template <typename N>
    __device__ __forceinline__ void difference_rows(const Tables& tables, const Orders& orders, W base) const {
        const RowBox& box = shared.box;
        const Near near(box);
        const bool is_line = box.is_line();
        const u32 lane = lane_id(), n_rows = box.n_existing_rows(), plane = box.sy * kRow, m = box.m;
        const u32 oz = uniform(orders.z), oy = uniform(orders.y), ox = uniform(orders.x), height = oz > 0 ? uniform(box.sy) : ~0u;
        const bool is_last = lane == kRow - 1, is_below = near.below != near.plane;
        // The warp's rows, loaded while the previous ones are counted.
        W own[kOwnRows];
        const auto load = [&](u32 first) {
            const N* const from = codes<N>() + first * kRow + lane;
            if (likely(first + kOwnRows <= n_rows)) {
#pragma unroll
                for (u32 k = 0; k < kOwnRows; ++k) own[k] = static_cast<W>(from[k * kRow]);
            } else {
#pragma unroll
                for (u32 k = 0; k < kOwnRows; ++k) own[k] = first + k < n_rows ? static_cast<W>(from[k * kRow]) : 0;
            }
        };
        u32 first = warp_id() * kOwnRows;
        load(first);
#pragma unroll 1
        for (u32 round = 0; round < n_rows; round += kPieces, first += kPieces) {
            // Entries of numbers, two rows per word. Sizes have the same layout in shared memory.
            u32 entries[kOwnRows / 2] = {};
            u32* const to_sizes = shared.size_pairs + first / 2 * kRow % (kSizes / 2) + lane;
            if (first < n_rows) {
                u32 y = first, z = 0;
                if (oz > 0) z = box.planes.divide(first, y);
                // above[k]: the row before the warp's first one, differenced k times along y. On a
                // line: the last number before the warp's first row, differenced k times along the
                // line.
                W above[kMaxOrder] = {};
                if (is_line && first > 0) {
                    W v[1] = {static_cast<W>(codes<N>()[first * kRow - kRow + lane])};
                    difference_line(v, ox, above);
                }
#pragma unroll 1
                for (u32 row = first - min(oy, y); row < first; ++row) {
                    W v[1] = {static_cast<W>(codes<N>()[row * kRow + lane])};
                    difference_z(v, codes<N>() + row * kRow + lane, plane, oz, z);
                    difference_y(v, oy, above);
                }
#pragma unroll
                for (u32 g = 0; g < kOwnRows / kStep; ++g) {
                    const u32 row = first + g * kStep;
                    if (row >= n_rows) break;
                    W v[kStep];
#pragma unroll
                    for (u32 k = 0; k < kStep; ++k) v[k] = own[g * kStep + k] - base;
                    difference_z(v, codes<N>() + row * kRow + lane, plane, oz, z);
                    difference_y(v, oy, above);
                    if (unlikely(is_line)) {
                        difference_line(v, ox, above);
                    } else {
                        difference_x(v, ox);
                    }
                    W* const to = block.residuals + row * kRow + lane;
                    u32 own_entries[kStep], own_sizes[kStep];
#pragma unroll
                    for (u32 k = 0; k < kStep; ++k) {
                        const W r = 2 * magnitude(v[k]) + shifted_signed(v[k], Word<W>::kBits - 1);
                        own_entries[k] = Entry::of(r);
                        own_sizes[k] = size_of_symbol(Entry::key(own_entries[k]) - kSymbols);
                        if (Entry::is_long(r)) to[k * kRow] = r;
                    }
#pragma unroll
                    for (u32 p = 0; p < kPairs; ++p) {
                        const u32 pair = g * kPairs + p;
                        entries[pair] = __byte_perm(own_entries[2 * p], own_entries[2 * p + 1], 0x5410);
                        to_sizes[pair * kRow] = __byte_perm(own_sizes[2 * p], own_sizes[2 * p + 1], 0x5410);
                    }
                    y += kStep;
                    if (unlikely(y == height)) {
                        y = 0, ++z;
#pragma unroll
                        for (u32 k = 0; k < kMaxOrder; ++k) above[k] = nothing();
                    }
                }
            }
            load(first + kPieces);
            __syncthreads();
            // Sizes of two rows, which begin `rows` rows before the warp's first row.
            const auto pair_before = [&](u32 rows) { return shared.size_pairs[(first * kRow - rows * kRow) / 2 % (kSizes / 2) + lane]; };
            u32 two = pair_before(2), next = near.plane ? pair_before(near.plane / kRow) : 0;
            unsigned short* const to = block.entries + first * kRow + lane;
#pragma unroll
            for (u32 g = 0; g < kOwnRows / kStep; ++g) {
                if (first + g * kStep >= n_rows) break;
#pragma unroll
                for (u32 p = 0; p < kPairs; ++p) {
                    const u32 pair = g * kPairs + p, own = to_sizes[pair * kRow], one = __byte_perm(two, own, 0x5432);
                    const u32 before = __shfl_sync(kAllLanes, is_last ? two : one, (lane + kRow - 1) % kRow);
                    u32 sums = 5 * one + two + 2 * before;
                    if (near.plane) {
                        const u32 behind = next;
                        next = pair_before(near.plane / kRow - 2 * pair - 2);
                        sums = 3 * one + two + before + 2 * behind + (is_below ? __byte_perm(behind, next, 0x5432) : behind);
                    }
                    two = own;
#pragma unroll
                    for (u32 k = 0; k < 2; ++k) {
                        const u32 row = 2 * pair + k;
                        if (is_line && (first + row) * kRow + lane >= m) continue;
                        const u32 entry = Entry::in_context_of(k ? sums >> 16 : sums & 0xffff, k ? entries[pair] >> 16 : entries[pair]);
                        __stcs(to + row * kRow, static_cast<unsigned short>(entry));
                        tables.count(Entry::key(entry));
                    }
                }
            }
        }
        __syncthreads();
    }
    // Zero, hidden from the compiler. Otherwise the compiler would select between zero and the old
    // value for every row.
    static __device__ __forceinline__ W nothing() {
        u32 zero = 0;
        asm volatile("" : "+r"(zero));
        return zero;
    }
    static __device__ __forceinline__ u32 magnitude(u32 v) { return static_cast<u32>(max(static_cast<s32>(v), static_cast<s32>(0 - v))); }
    static __device__ __forceinline__ u64 magnitude(u64 v) { return static_cast<u64>(max(static_cast<s64>(v), static_cast<s64>(0 - v))); }
    // A value that is equal in all lanes, in a form that the compiler recognizes.
    static __device__ __forceinline__ u32 uniform(u32 n) { return __shfl_sync(kAllLanes, n, 0); }
    // Differences consecutive rows along z. The first row is at `from`.
    template <typename N, u32 kRows>
    static __device__ __forceinline__ void difference_z(W (&v)[kRows], const N* from, u32 plane, u32 order, u32 z) {
#pragma unroll 1
        for (u32 i = 1; i <= min(order, z); ++i) {
            from -= plane;
            const W factor = static_cast<W>(static_cast<s64>(kBinomials[order][i]));
#pragma unroll
            for (u32 k = 0; k < kRows; ++k) v[k] += factor * static_cast<W>(from[k * kRow]);
        }
    }
    // Differences consecutive rows along y. above[k] is the row before them, differenced k times.
    // Afterwards it is the last of these rows, differenced k times.
    template <u32 kRows>
    static __device__ __forceinline__ void difference_y(W (&v)[kRows], u32 order, W (&above)[kMaxOrder]) {
#pragma unroll
        for (u32 i = 0; i < kMaxOrder; ++i) {
            if (i >= order) break;
            const W last = v[kRows - 1];
#pragma unroll
            for (u32 k = kRows - 1; k > 0; --k) v[k] -= v[k - 1];
            v[0] -= above[i];
            above[i] = last;
        }
    }
    static __device__ __forceinline__ void difference_x(W (&v)[kStep], u32 order) {
        const W not_first = lane_id() > 0 ? ~W(0) : 0;
#pragma unroll 1
        for (u32 i = 0; i < order; ++i) {
#pragma unroll
            for (u32 k = 0; k < kStep; ++k) v[k] += __shfl_up_sync(kAllLanes, v[k], 1) * not_first;
        }
    }
    // Differences consecutive rows of a line. before[k] is the row before them, differenced k
    // times; only its last number is used.
    template <u32 kRows>
    static __device__ __forceinline__ void difference_line(W (&v)[kRows], u32 order, W (&before)[kMaxOrder]) {
        const u32 lane = lane_id();
#pragma unroll
        for (u32 i = 0; i < kMaxOrder; ++i) {
            if (i >= order) break;
            const W last = v[kRows - 1];
#pragma unroll
            for (u32 k = kRows; k-- > 0;) {
                const W row_before = k > 0 ? v[k > 0 ? k - 1 : 0] : before[i];
                v[k] -= __shfl_sync(kAllLanes, lane == kRow - 1 ? row_before : v[k], (lane + kRow - 1) % kRow);
            }
            before[i] = last;
        }
    }

    // Writes everything before the tails. Has barriers.
    __device__ __forceinline__ void write_front(u32 header, const Orders& orders, W base) const {
        unsigned char* const front = block.front();
        const u32 t = threadIdx.x, exceptions_at = kAlignment + sizeof(W);
        const u32 field_at = exceptions_at + exceptions().n_bytes(), tables_at = field_at + kTailsField;
        const u32 tables_bytes = (shared.tables.n_bits + 7) / 8, tails_at = tables_at + tables_bytes, tails_bytes = (shared.tables.n_tail_bits + 7) / 8;
        if (t == 0) {
            const W first = shared.first_code + base;
            u32* const words = reinterpret_cast<u32*>(front);
            words[0] = header | orders.x | orders.y << 3 | orders.z << 6;
            words[1] = static_cast<u32>(first);
            if (sizeof(W) == 8) words[2] = static_cast<u32>(static_cast<u64>(first) >> 32);
            words[field_at / 4] = tails_bytes;
            block.info.header = 0, block.info.tails_at = tails_at, block.info.front_bytes = tails_at + tails_bytes;
        }
        if (unlikely(header & (kHasFillMask | kHasOutliers))) exceptions().write(front + exceptions_at);
        for (u32 i = t; i < (tables_bytes + 3) / 4; i += kThreads) reinterpret_cast<u32*>(front + tables_at)[i] = shared.tables.words[i];
    }
};

template <typename W>
__device__ __forceinline__ void quant_dense_predict(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    if (has_other_fold(args, blockIdx.x / args.own.n_blocks)) return;
    DensePredictor<W>(args, *reinterpret_cast<DensePredictShared<W>*>(bytes)).run();
}
