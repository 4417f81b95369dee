// Compression (`fast`) in one pass: one CTA a block of 4096 elements at a time, many CTAs per multiprocessor.
//
// Blocks are handed out in their order by a counter, chunk after chunk. For every block:
//   1. Its words are copied to shared memory.
//   2. The bits that all have, their range and, where exponents differ, what FIXED needs to know are found by all threads.
//   3. Some rows are predicted with each candidate for the orders; the bits of their residuals are the costs.
//   4. A warp has a group: it writes the residuals to shared memory and counts for every width how many are longer, in
//      bit slices: word k of six counts in binary, bit by bit, the residuals of a lane that are longer than k bits. Then
//      lane k knows the count of width k and what it costs.
//   5. The size of the block is published, and the groups are packed to a stage in the place of the words.
//   6. The first warp looks back for the place of the block; all copy the stage to the payload and sum it up.
//
// Who finishes the last block of a chunk writes the frame's header. If the chunk does not get smaller it is done again,
// after all others, by copying the array.

#pragma once

#include "../common/checksum.cuh"
#include "../common/frame.cuh"
#include "../common/lookback.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"
#include "widths.cuh"

constexpr u32 kLogBlock = 12;
constexpr u32 kElements = 1 << kLogBlock;
constexpr u32 kGroups = kElements / kGroup;
constexpr u32 kLorenzoThreads = kGroups * kWarp;  // a warp a group

// Scratch: this, then ChunkState per chunk, then one look-back state per block. Counters that many look at are apart.
struct LorenzoScratch {
    u32 next_tile;
    u32 reserved[31];
    u32 n_finished;  // chunks
    u32 n_redo;      // of which so many are to be stored
    u32 reserved2[30];
};
struct ChunkState {
    Totals encoded, stored;
    u32 to_redo;  // entry of a list that all chunks share
    u32 reserved[3];
};

struct Orders {
    u32 z, y, x;
};

// How the elements of a block become numbers.
template <typename W>
struct Mapping {
    u32 map, shift;  // t or e
    W base;

    __device__ __forceinline__ W value(W word) const {
        if (likely(map == kBits)) return shifted_signed(word, shift);
        constexpr u32 kMantissa = Type<W>::kMantissa;
        const u32 exponent = static_cast<u32>(word >> kMantissa) & Type<W>::kMaxExponent;
        const W f = (word & low_bits(W(), kMantissa)) | static_cast<W>(exponent > 0) << kMantissa;
        const s32 x = static_cast<s32>(max(exponent, 1u) - shift);
        const W v = x >= 0 ? f << x : f >> -x;
        return word >> (Type<W>::kBits - 1) ? 0 - v : v;
    }
    __device__ __forceinline__ W operator()(W word) const { return value(word) - base; }
};

template <typename W>
struct LorenzoShared {
    alignas(128) W words[kElements + kUnitBytes / sizeof(W)];  // then the stage, at most as long as a block in RAW
    alignas(128) W residuals[kElements];                        // then lists of patches
    // What each warp knows of the words, or of its costs.
    W ors[kGroups], ands[kGroups], lows[kGroups], highs[kGroups];
    u32 first_bits[kGroups], last_bits[kGroups], bad[kGroups];
    u32 costs[kGroups][8];
    Widths widths[kGroups];
    u64 sums_a[kGroups], sums_b[kGroups];
    Box box;
    SmallDivisor rows = SmallDivisor(1), planes = SmallDivisor(1);  // by the box's extents x and y
    u32 tile;
    u32 before;   // units of all blocks before
    u32 to_store;  // chunk
};

__constant__ const s32 kBinomials[8][8] = {{1},
                                           {1, -1},
                                           {1, -2, 1},
                                           {1, -3, 3, -1},
                                           {1, -4, 6, -4, 1},
                                           {1, -5, 10, -10, 5, -1},
                                           {1, -6, 15, -20, 15, -6, 1},
                                           {1, -7, 21, -35, 35, -21, 7, -1}};

template <typename W>
struct LorenzoCompressor {
    using Shared = LorenzoShared<W>;
    static constexpr u32 kPerUnit = Type<W>::kPerUnit;

    const CompressArgs& args;
    Shared& shared;
    const u32 tiles;
    LorenzoScratch* const scratch;
    ChunkState* const chunks;
    u64* const states;
    const Element element;

    __device__ __forceinline__ LorenzoCompressor(const CompressArgs& args, Shared& shared)
        : args(args), shared(shared), tiles(args.n_blocks), scratch(static_cast<LorenzoScratch*>(args.scratch)),
          chunks(reinterpret_cast<ChunkState*>(scratch + 1)), states(reinterpret_cast<u64*>(chunks + args.n_chunks)), element(args.encoded) {}

    __device__ __forceinline__ const char* source(u32 chunk) const { return static_cast<const char*>(args.src) + chunk * args.src_stride; }
    __device__ __forceinline__ char* frame(u32 chunk) const { return static_cast<char*>(args.dst) + chunk * args.dst_stride; }
    __device__ __forceinline__ char* payload(u32 chunk) const { return frame(chunk) + args.encoded.n_bytes; }
    __device__ __forceinline__ u64* chunk_states(u32 chunk) const { return states + static_cast<u64>(chunk) * tiles; }
    __device__ __forceinline__ u64 raw_bytes() const { return args.extents[0] * args.extents[1] * args.extents[2] * element.bytes; }

    __device__ __forceinline__ void run() {
        for (;;) {
            if (threadIdx.x == 0) shared.tile = atomicAdd(&scratch->next_tile, 1);
            __syncthreads();
            const u32 tile = shared.tile;
            const u32 chunk = args.n_chunks == 1 ? tile >= tiles : min(tile / tiles, args.n_chunks);
            if (unlikely(chunk >= args.n_chunks)) {
                if (!store_again(tile - args.n_chunks * tiles)) return;
            } else {
                encode(chunk, tile - chunk * tiles);
            }
        }
    }

    // Part `redo` of the chunks that are to be stored, once all are finished for the first time. Is false if there is none.
    __device__ __forceinline__ bool store_again(u32 redo) const {
        if (threadIdx.x == 0) {
            u32 n_finished;
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n_finished) : "l"(&scratch->n_finished) : "memory");
            } while (n_finished < args.n_chunks);
            const u32 entry = redo / tiles;
            const bool exists = entry < *static_cast<volatile u32*>(&scratch->n_redo);
            shared.to_store = exists ? *static_cast<volatile u32*>(&chunks[entry].to_redo) : args.n_chunks;
        }
        __syncthreads();
        const u32 chunk = shared.to_store;
        if (chunk >= args.n_chunks) return false;
        const u64 share = (raw_bytes() / tiles / kUnitBytes + 1) * kUnitBytes, first = redo % tiles * share;
        Sums sums;
        if (first < raw_bytes()) {
            unsigned char* const array = reinterpret_cast<unsigned char*>(const_cast<char*>(source(chunk)));
            unsigned char* const to = reinterpret_cast<unsigned char*>(frame(chunk)) + args.stored.n_bytes;
            copy_stored<StoredCopy<kLorenzoThreads, 4, false, false>>(threadIdx.x, array, to, first, static_cast<u32>(min(raw_bytes() - first, share)), sums);
        }
        share_sums(sums);
        __syncthreads();
        finish(chunk, shared_sums(), true);
        return true;
    }

    // Adds the sums of one part of a chunk, which the first thread has. The last part completes the frame, or has the chunk
    // stored.
    __device__ __forceinline__ void finish(u32 chunk, Sums sums, bool is_stored) const {
        if (threadIdx.x < kWarp) {
            Totals& totals = is_stored ? chunks[chunk].stored : chunks[chunk].encoded;
            u32 n_done = 0;
            if (threadIdx.x == 0) {
                totals.add(sums);
                n_done = totals.count(0, 1) + 1;
            }
            if (unlikely(__shfl_sync(kAllLanes, n_done, 0) == tiles)) {
                __syncwarp();
                const u64 checksum = totals.checksum();
                const u64 encoded_bytes = table_bytes(tiles) + static_cast<u64>(await_prefix(chunk_states(chunk) + tiles - 1)) * kUnitBytes;
                const bool stores = args.encoded.n_bytes + encoded_bytes >= args.stored.n_bytes + raw_bytes();
                if (stores == is_stored) {
                    const FrameForm& form = stores ? args.stored : args.encoded;
                    const u64 n_bytes = stores ? raw_bytes() : encoded_bytes;
                    write_header(form, frame(chunk), n_bytes, checksum);
                    if (threadIdx.x == 0) args.frame_bytes[chunk] = form.n_bytes + n_bytes;
                }
                if (!is_stored && threadIdx.x == 0) {
                    if (stores) chunks[atomicAdd(&scratch->n_redo, 1)].to_redo = chunk;
                    __threadfence();
                    atomicAdd(&scratch->n_finished, 1);
                }
            }
        }
        __syncthreads();
    }
    __device__ __forceinline__ void share_sums(Sums sums) const {
        const u64 a = warp_sum(sums.a), b = warp_sum(sums.b);
        if (lane_id() == 0) shared.sums_a[threadIdx.x / kWarp] = a, shared.sums_b[threadIdx.x / kWarp] = b;
    }
    __device__ __forceinline__ Sums shared_sums() const {
        Sums sums;
#pragma unroll
        for (u32 w = 0; w < kGroups; ++w) sums.a += shared.sums_a[w], sums.b += shared.sums_b[w];
        return sums;
    }

    __device__ __forceinline__ void encode(u32 chunk, u32 block) const {
        const u32 warp = threadIdx.x / kWarp, lane = lane_id();
        if (threadIdx.x == kLorenzoThreads - 1) {
            const Box found = find_box(args.extents, kLogBlock, block);
            shared.box = found;
            shared.rows = SmallDivisor(found.sx);
            shared.planes = SmallDivisor(found.sy);
        }
        __syncthreads();
        const u32 m = shared.box.m;
        load_words(source(chunk));
        __syncthreads();

        W all_or = 0, all_and = ~W(0), low = 0, high = 0;
        look_at_words(all_or, all_and, low, high);
        const bool is_const = all_or == all_and;
        Mapping<W> mapping = {kBits, 0, 0};
        Orders orders = {0, 0, 0};
        Widths own = {};
        u32 split_bytes = 0;
        if (likely(!is_const)) {
            const u32 t = trailing_zeros(all_or);
            choose(Mapping<W>{kBits, t, 0}, shifted_signed(low, t), shifted_signed(high, t), all_or ^ all_and, mapping, orders);
            own = write_residuals(mapping, orders);
            if (lane == 0) shared.widths[warp] = own;
            __syncthreads();
        }
        // Sections of SPLIT.
        const u32 n_groups = (m + kGroup - 1) / kGroup;
        u32 packed = kHeaderBytes + 8 * n_groups, bitmap = 0, patches = 0, all_packed = packed, all_bitmaps = 0, all_patches = 0;
        if (likely(!is_const)) {
#pragma unroll
            for (u32 g = 0; g < kGroups; ++g) {
                const Widths w = shared.widths[g];
                if (g == warp) packed = all_packed, bitmap = all_bitmaps, patches = all_patches;
                all_packed += w.packed_bytes();
                all_bitmaps += w.bitmap_bytes();
                all_patches += w.patch_bytes();
            }
            bitmap += all_packed;
            patches += all_packed + all_bitmaps;
            split_bytes = all_packed + all_bitmaps + all_patches;
        }
        const u32 raw_units = 1 + (m * element.bytes + kUnitBytes - 1) / kUnitBytes;
        const u32 split_units = (split_bytes + kUnitBytes - 1) / kUnitBytes;
        const u32 coder = is_const ? kConst : split_units < raw_units ? kSplit : kRaw;
        const u32 n_units = coder == kConst ? 1 : coder == kSplit ? split_units : raw_units;
        u64* const chunk_state = chunk_states(chunk);
        if (threadIdx.x == 0) publish_state(chunk_state + block, n_units, block == 0 ? kPrefix : kOwn);

        unsigned char* const stage = reinterpret_cast<unsigned char*>(shared.words);
        if (likely(coder == kSplit)) {
            // Bits are added to zeros, in words of 4 bytes.
            for (u32 at = (all_packed + all_bitmaps) / 4 * 4 + threadIdx.x * 4; at < n_units * kUnitBytes; at += kLorenzoThreads * 4) {
                *reinterpret_cast<u32*>(stage + at) = 0;
            }
            __syncthreads();
            if (threadIdx.x == 0) write_block_header(stage, mapping, orders);
            if (warp < n_groups) {
                if (lane == 0) *reinterpret_cast<uint2*>(stage + kHeaderBytes + 8 * warp) = own.header();
                pack(stage + packed, stage + bitmap, stage, patches, own);
            }
        }
        __syncthreads();
        if (warp == 0) {
            const u32 before = look_back(chunk_state, block);
            if (lane == 0) {
                if (block > 0) publish_state(chunk_state + block, before + n_units, kPrefix);
                shared.before = before;
            }
        }
        __syncthreads();
        const u32 before = shared.before;
        char* const to = payload(chunk);
        const u64 first = table_bytes(tiles) + static_cast<u64>(before) * kUnitBytes;
        UnitSums<kLorenzoThreads> unit_sums;
#pragma unroll 2
        for (u32 u = threadIdx.x; u < n_units; u += kLorenzoThreads) {
            const uint4 unit = likely(coder == kSplit) ? load_shared_16(shared_address(stage) + u * kUnitBytes) : plain_unit(coder, u, all_or, m);
            store_global_16(to + first + u * kUnitBytes, unit);
            unit_sums.add(unit);
        }
        Sums sums;
        unit_sums.finish(4 * threadIdx.x, sums);
        share_sums(sums);
        __syncthreads();
        sums = Sums();
        if (threadIdx.x == 0) {
            sums = shared_sums();
            const u32 check = static_cast<u32>(mix(sums.a + mix(sums.b))), end = before + n_units;
            u32* const table = reinterpret_cast<u32*>(to);
            reinterpret_cast<uint2*>(table)[block] = make_uint2(end, check);
            // Words of the payload count from its beginning.
            sums.b += first / 4 * sums.a;
            sums.add(2ull * block, end);
            sums.add(2ull * block + 1, check);
            if (block + 1 == tiles) {
                for (u64 word = 2ull * tiles; word < table_bytes(tiles) / 4; ++word) {
                    table[word] = 0;
                    sums.add(word, 0);
                }
            }
        }
        finish(chunk, sums, false);
    }

    // Unit `u` of a block in RAW or CONST.
    __device__ __forceinline__ uint4 plain_unit(u32 coder, u32 u, W word, u32 m) const {
        if (u == 0) {
            const u64 base = coder == kConst ? word : 0;
            return make_uint4(coder, 0, static_cast<u32>(base), static_cast<u32>(base >> 32));
        }
        u64 halves[2] = {0, 0};
        for (u32 byte = 0; byte < kUnitBytes; byte += element.bytes) {
            const u32 i = ((u - 1) * kUnitBytes + byte) / element.bytes;
            const u64 bits = i < m ? static_cast<u64>(shared.words[i]) & low_bits(static_cast<u64>(0), 8 * element.bytes) : 0;
            halves[0] |= byte < 8 ? bits << 8 * byte : 0;
            halves[1] |= byte < 8 ? 0 : bits << 8 * (byte - 8);
        }
        return join(halves);
    }

    __device__ __forceinline__ void write_block_header(unsigned char* stage, const Mapping<W>& mapping, const Orders& orders) const {
        const u64 base = mapping.base;
        *reinterpret_cast<uint4*>(stage) = make_uint4(kSplit | mapping.map << 4 | orders.x << 8 | orders.y << 12 | orders.z << 16, mapping.shift,
                                                      static_cast<u32>(base), static_cast<u32>(base >> 32));
    }

    // The words of the block, to shared memory.
    __device__ __forceinline__ void load_words(const char* array) const {
        const Box& box = shared.box;
        const bool swaps = args.flags & kSwapBytes;
        const char* const start = array + box.start * element.bytes;
        const SmallDivisor rows = shared.rows, planes = shared.planes;
        const u64 misaligned = reinterpret_cast<u64>(start) | (box.sz * box.sy > 1 ? args.extents[2] * sizeof(W) : 0);
        const bool is_line = box.sz * box.sy == 1 && box.m % kRow == 0;
        if (likely(element.bytes == sizeof(W) && (box.sx == kRow || is_line) && misaligned % kUnitBytes == 0 && !swaps)) {
            // So many rows at a time, by all threads.
            constexpr u32 kRowUnits = kRow / kPerUnit, kRows = kLorenzoThreads / kRowUnits;
            const u32 height = is_line ? kElements / kRow : box.sy;
            const u64 columns = is_line ? kRow : args.extents[2], plane = is_line ? 0 : args.extents[1] * args.extents[2];
            const char* const from = start + threadIdx.x % kRowUnits * kUnitBytes;
            const u32 to = shared_address(shared.words) + threadIdx.x * kUnitBytes;
            u32 y, z = planes.divide(threadIdx.x / kRowUnits, y);
            if (is_line) y = threadIdx.x / kRowUnits, z = 0;
#pragma unroll 4
            for (u32 row = 0; row < box.m / kRow; row += kRows) {
                if (row + threadIdx.x / kRowUnits < box.m / kRow) {
                    copy_async<kUnitBytes>(to + row * kRow * static_cast<u32>(sizeof(W)), from + (z * plane + y * columns) * sizeof(W));
                }
                for (y += kRows; y >= height; y -= height) ++z;
            }
            wait_copies();
        } else {
            for (u32 i = threadIdx.x; i < box.m; i += kLorenzoThreads) {
                u32 x, y;
                const u32 row = rows.divide(i, x), z = planes.divide(row, y);
                shared.words[i] = load_element<W>(start + ((z * args.extents[1] + y) * args.extents[2] + x) * element.bytes, element, swaps);
            }
        }
    }

    // The bits that some or all words have, and their signed range, of all threads. Barriers.
    __device__ __forceinline__ void look_at_words(W& all_or, W& all_and, W& low, W& high) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        // Whoever has no word takes the first.
        low = high = shared.words[0];
        all_or = all_and = low;
#pragma unroll 8
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W word = shared.words[i];
            all_or |= word;
            all_and &= word;
            low = signed_min(low, word);
            high = signed_max(high, word);
        }
        all_or = warp_or(all_or);
        all_and = ~warp_or(static_cast<W>(~all_and));
        low = warp_min(low);
        high = warp_max(high);
        if (lane_id() == 0) shared.ors[warp] = all_or, shared.ands[warp] = all_and, shared.lows[warp] = low, shared.highs[warp] = high;
        __syncthreads();
#pragma unroll
        for (u32 w = 0; w < kGroups; ++w) {
            all_or |= shared.ors[w];
            all_and &= shared.ands[w];
            low = signed_min(low, shared.lows[w]);
            high = signed_max(high, shared.highs[w]);
        }
    }

    // Chooses map, orders and base.
    __device__ __forceinline__ void choose(Mapping<W> bits, W low, W high, W differing, Mapping<W>& mapping, Orders& orders) const {
        mapping = bits;
        u32 cost = choose_orders(mapping, low, high, orders);
        if (likely(!element.is_float || differing >> Type<W>::kMantissa == 0)) return;
        Mapping<W> fixed = {kFixed, 0, 0};
        Orders fixed_orders;
        if (!find_fixed(fixed, low, high)) return;
        const u32 fixed_cost = choose_orders(fixed, low, high, fixed_orders);
        if (fixed_cost < cost) mapping = fixed, orders = fixed_orders;
    }

    // Whether FIXED can be used, its e, and the range of values. Barriers.
    __device__ __forceinline__ bool find_fixed(Mapping<W>& fixed, W& low, W& high) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        constexpr u32 kMantissa = Type<W>::kMantissa;
        u32 lowest = ~0u, highest = 0;
        bool bad = false;
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W word = shared.words[i];
            const u32 exponent = static_cast<u32>(word >> kMantissa) & Type<W>::kMaxExponent, x = max(exponent, 1u);
            const W f = (word & low_bits(W(), kMantissa)) | static_cast<W>(exponent > 0) << kMantissa;
            bad |= exponent == Type<W>::kMaxExponent || word == static_cast<W>(1) << (Type<W>::kBits - 1);
            if (f == 0) continue;
            lowest = min(lowest, x + trailing_zeros(f));
            highest = max(highest, x + bit_length(f));
        }
        lowest = ~warp_max_unsigned(~lowest);
        highest = warp_max_unsigned(highest);
        bad = __any_sync(kAllLanes, bad);
        if (lane_id() == 0) shared.first_bits[warp] = lowest, shared.last_bits[warp] = highest, shared.bad[warp] = bad;
        __syncthreads();
        for (u32 w = 0; w < kGroups; ++w) {
            lowest = min(lowest, shared.first_bits[w]);
            highest = max(highest, shared.last_bits[w]);
            bad |= shared.bad[w] != 0;
        }
        if (bad || highest - lowest > Type<W>::kBits - 2) return false;
        fixed.shift = lowest;
        low = high = fixed.value(shared.words[0]);
        for (u32 i = threadIdx.x; i < m; i += kLorenzoThreads) {
            const W v = fixed.value(shared.words[i]);
            low = signed_min(low, v);
            high = signed_max(high, v);
        }
        low = warp_min(low);
        high = warp_max(high);
        __syncthreads();
        if (lane_id() == 0) shared.lows[warp] = low, shared.highs[warp] = high;
        __syncthreads();
        for (u32 w = 0; w < kGroups; ++w) low = signed_min(low, shared.lows[w]), high = signed_max(high, shared.highs[w]);
        return true;
    }

    // Chooses orders and base for a map whose values are from `low` to `high`, and is the cost. Barriers.
    __device__ __forceinline__ u32 choose_orders(Mapping<W>& mapping, W low, W high, Orders& best) const {
        const Box& box = shared.box;
        const u32 warp = threadIdx.x / kWarp;
        const W range = high - low;
        const W middle = low + (range >> 1) + (range & 1), first = mapping.value(shared.words[0]);
        u32 c = 0;
        if (likely(box.sx == kRow && mapping.map == kBits)) {
            mapping.base = first;
            first_costs(mapping, middle);
            c = 6;
        }
#pragma unroll 1
        for (; c < 7; ++c) {
            mapping.base = c == 0 ? middle : first;
            const bool is_cubic = c == 6 && box.sx == kRow && box.sz > 1 && box.sy > 1 && mapping.map == kBits;
            const u32 cost = likely(is_cubic) ? cubic_cost(mapping) : sampled_cost(mapping, candidate(c));
            if (lane_id() == 0) shared.costs[warp][c] = cost;
        }
        __syncthreads();
        u32 lowest = ~0u;
#pragma unroll
        for (u32 c = 0; c < 7; ++c) {
            const Orders o = candidate(c);
            const u32 cost = cost_of(c);
            const bool exists = (o.z == 0 || box.sz > 1) && (o.y == 0 || box.sy > 1) && (o.x == 0 || box.sx > 1);
            if (exists && cost < lowest) lowest = cost, best = o;
        }
        const u32 order = max(max(best.z, best.y), best.x);
        const Orders unit = {best.z > 0, best.y > 0, best.x > 0};
        mapping.base = order == 0 ? middle : first;
        if (order == 0) return lowest;
#pragma unroll 1
        for (u32 next = order + 1; next <= 7; ++next) {
            const Orders o = {unit.z * next, unit.y * next, unit.x * next};
            const u32 own = sampled_cost(mapping, o);
            __syncthreads();
            if (lane_id() == 0) shared.costs[warp][0] = own;
            __syncthreads();
            const u32 cost = cost_of(0);
            if (cost >= lowest) break;
            lowest = cost, best = o;
        }
        return lowest;
    }
    __device__ __forceinline__ u32 cost_of(u32 c) const {
        u32 cost = 0;
#pragma unroll
        for (u32 w = 0; w < kGroups; ++w) cost += shared.costs[w][c];
        return cost;
    }

    // The orders that are tried first: 0 or 1 on each axis, then 3 where the block has an extent. Bit c of each number
    // belongs to candidate c.
    __device__ __forceinline__ Orders candidate(u32 c) const {
        const Box& box = shared.box;
        if (c < 6) return Orders{0x30u >> c & 1, 0x2cu >> c & 1, 0x3au >> c & 1};
        return Orders{box.sz > 1 ? 3u : 0u, box.sy > 1 ? 3u : 0u, box.sx > 1 ? 3u : 0u};
    }

    // Bits of the warp's share of the sampled residuals.
    __device__ __forceinline__ u32 sampled_cost(const Mapping<W>& mapping, const Orders& o) const {
        const Box& box = shared.box;
        const bool is_line = box.sz * box.sy == 1;
        const u32 n_rows = is_line ? (box.m + kRow - 1) / kRow : box.sz * box.sy, length = is_line ? kRow : box.sx;
        const u32 first = n_rows < 34 ? 0 : 8, step = n_rows < 34 ? 1 : 17;
        u32 cost = 0;
        for (u32 row = first + threadIdx.x / kWarp * step; row < n_rows; row += kGroups * step) {
            if (likely(box.sx == kRow)) {
                cost += bit_length(row_residual(mapping, o, row));
            } else {
                for (u32 x = lane_id(); x < length; x += kWarp) {
                    const u32 i = row * length + x;
                    if (i < box.m) cost += bit_length(residual(mapping, o, i));
                }
            }
        }
        return warp_sum(cost);
    }

    // The warp's share of the costs of all candidates but the last, of rows of 32.
    __device__ __forceinline__ void first_costs(const Mapping<W>& mapping, W middle) const {
        const Box& box = shared.box;
        const u32 n_rows = box.sz * box.sy, first = n_rows < 34 ? 0 : 8, step = n_rows < 34 ? 1 : 17;
        u32 costs[6] = {};
        for (u32 row = first + threadIdx.x / kWarp * step; row < n_rows; row += kGroups * step) {
            u32 y;
            shared.planes.divide(row, y);
            const W* const at = shared.words + row * kRow + lane_id();
            const u32 plane = box.sy * kRow;
            const bool has_z = row >= box.sy, has_row = row > 0;
            const auto number = [&](bool exists, u32 distance) { return exists ? shifted_signed(*(at - distance), mapping.shift) - mapping.base : 0; };
            const W own = number(true, 0), above = number(has_row, kRow), before = number(has_z, plane), both = number(has_z && y > 0, plane + kRow);
            const W d[6] = {own + mapping.base - middle, own, own - above, own - above, own - before, own - before - (y > 0 ? above - both : 0)};
#pragma unroll
            for (u32 c = 0; c < 6; ++c) {
                const W left = __shfl_up_sync(kAllLanes, d[c], 1);
                const bool takes = (0x3au >> c & 1) && lane_id() > 0;
                costs[c] += bit_length(zigzag(static_cast<W>(takes ? d[c] - left : d[c])));
            }
        }
#pragma unroll
        for (u32 c = 0; c < 6; ++c) {
            const u32 cost = warp_sum(costs[c]);
            if (lane_id() == 0) shared.costs[threadIdx.x / kWarp][c] = cost;
        }
    }

    // As sampled_cost, of orders 3, 3, 3 in a box of rows of 32.
    __device__ __forceinline__ u32 cubic_cost(const Mapping<W>& mapping) const {
        const Box& box = shared.box;
        const u32 n_rows = box.sz * box.sy, first = n_rows < 34 ? 0 : 8, step = n_rows < 34 ? 1 : 17;
        const auto cubic = [](const W (&v)[4]) { return v[0] - v[3] + 3 * (v[2] - v[1]); };
        u32 cost = 0;
        for (u32 row = first + threadIdx.x / kWarp * step; row < n_rows; row += kGroups * step) {
            u32 y;
            const u32 z = shared.planes.divide(row, y);
            W along_y[4];
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                const W* at = shared.words + (row - j) * kRow + lane_id();
                W along_z[4];
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    along_z[i] = i <= z && j <= y ? shifted_signed(*at, mapping.shift) - mapping.base : 0;
                    at -= box.sy * kRow;
                }
                along_y[j] = cubic(along_z);
            }
            W d = cubic(along_y);
#pragma unroll
            for (u32 k = 0; k < 3; ++k) {
                const W before = __shfl_up_sync(kAllLanes, d, 1);
                d -= lane_id() > 0 ? before : 0;
            }
            cost += bit_length(zigzag(d));
        }
        return warp_sum(cost);
    }

    // The residual of the lane's number in a row of 32.
    __device__ __forceinline__ W row_residual(const Mapping<W>& mapping, const Orders& o, u32 row) const {
        const Box& box = shared.box;
        u32 z = 0, y = row;
        if (o.z > 0) z = shared.planes.divide(row, y);
        const W* const at = shared.words + row * kRow + lane_id();
        W d = 0;
        for (u32 i = 0; i <= min(o.z, z); ++i) {
            for (u32 j = 0; j <= min(o.y, y); ++j) {
                const W factor = static_cast<W>(static_cast<s64>(kBinomials[o.z][i] * kBinomials[o.y][j]));
                d += factor * mapping(at[-static_cast<s32>((i * box.sy + j) * kRow)]);
            }
        }
        for (u32 k = 0; k < o.x; ++k) {
            const W before = __shfl_up_sync(kAllLanes, d, 1);
            if (lane_id() > 0) d -= before;
        }
        return zigzag(d);
    }

    // The residual of number `i` in a box of any shape.
    __device__ __forceinline__ W residual(const Mapping<W>& mapping, const Orders& o, u32 i) const {
        const Box& box = shared.box;
        u32 x, y, z = 0;
        y = shared.rows.divide(i, x);
        if (o.z > 0) z = shared.planes.divide(y, y);
        W d = 0;
        for (u32 a = 0; a <= min(o.z, z); ++a) {
            for (u32 b = 0; b <= min(o.y, y); ++b) {
                for (u32 c = 0; c <= min(o.x, x); ++c) {
                    const W factor = static_cast<W>(static_cast<s64>(kBinomials[o.z][a] * kBinomials[o.y][b] * kBinomials[o.x][c]));
                    d += factor * mapping(shared.words[i - (a * box.sy + b) * box.sx - c]);
                }
            }
        }
        return zigzag(d);
    }

    // Writes the residuals of the warp's group, and is its widths.
    __device__ __forceinline__ Widths write_residuals(const Mapping<W>& mapping, const Orders& o) const {
        constexpr u32 kN = 8;
        const Box& box = shared.box;
        const u32 first = threadIdx.x / kWarp * kGroup, n = min(box.m - min(box.m, first), kGroup), rows = (n + kRow - 1) / kRow;
        BitCounts<W> counts;
        if (likely(box.sx == kRow && n == kGroup && o.z <= 1 && o.y <= 1 && mapping.map == kBits && (o.z * o.y == 0 || box.sy % kN == 0))) {
            // What the row before has, differenced along z.
            W above = 0;
            u32 row = first / kRow, y = row;
            if (o.z > 0) shared.planes.divide(row, y);
            if (o.y > 0 && y > 0) above = difference_z(mapping, o.z, row - 1);
#pragma unroll 1
            for (u32 r = 0; r < kGroupRows; r += kN) {
                W v[kN];
#pragma unroll
                for (u32 i = 0; i < kN; ++i) v[i] = difference_z(mapping, o.z, row + i);
                if (o.y > 0) {
                    const W last = v[kN - 1];
#pragma unroll
                    for (u32 i = kN - 1; i > 0; --i) v[i] -= v[i - 1];
                    v[0] -= y > 0 ? above : 0;
                    above = last;
                    y += kN;
                    if (o.z > 0 && y >= box.sy) shared.planes.divide(y, y);
                }
                for (u32 k = 0; k < o.x; ++k) {
#pragma unroll
                    for (u32 i = 0; i < kN; ++i) {
                        const W before = __shfl_up_sync(kAllLanes, v[i], 1);
                        v[i] -= lane_id() > 0 ? before : 0;
                    }
                }
#pragma unroll
                for (u32 i = 0; i < kN; ++i) {
                    v[i] = zigzag(v[i]);
                    shared.residuals[first + (r + i) * kRow + lane_id()] = v[i];
                }
                counts.add(v);
                row += kN;
            }
            return choose_widths(counts, n, rows);
        }
#pragma unroll 1
        for (u32 r = 0; r < rows; r += kN) {
            W v[kN];
#pragma unroll
            for (u32 i = 0; i < kN; ++i) v[i] = 0;
#pragma unroll 1
            for (u32 k = 0; k < min(kN, rows - r); ++k) {
                const u32 i = first + (r + k) * kRow + lane_id();
                const W value = box.sx == kRow ? row_residual(mapping, o, i / kRow) : i < box.m ? residual(mapping, o, i) : 0;
                shared.residuals[i] = value;
#pragma unroll
                for (u32 e = 0; e < kN; ++e) v[e] = e == k ? value : v[e];
            }
            counts.add(v);
        }
        return choose_widths(counts, n, rows);
    }

    // The lane's number in a row of 32, or its difference to the row before along z.
    __device__ __forceinline__ W difference_z(const Mapping<W>& mapping, u32 order, u32 row) const {
        const W* const at = shared.words + row * kRow + lane_id();
        const W v = shifted_signed(*at, mapping.shift);
        return v - (order > 0 && row >= shared.box.sy ? shifted_signed(at[-static_cast<s32>(shared.box.sy * kRow)], mapping.shift) : mapping.base);
    }

    // Packs rows of a group. If kPatches, numbers that are longer than `w` are marked in the bitmap, and what is left of
    // them goes to a list in the place of the numbers; is how many these are.
    template <bool kPatches>
    static __device__ __forceinline__ u32 pack_rows(unsigned char* packed, unsigned char* bitmap, W* numbers, u32 rows, u32 w) {
        const u32 lane = lane_id(), below = (1u << lane) - 1;
        const W mask = low_bits(W(), w);
        const W* from = numbers + lane;
        u32* const marks = reinterpret_cast<u32*>(bitmap);
        W* out = reinterpret_cast<W*>(packed) + lane;
        W word = 0;
        u32 filled = 0, n_patched = 0;
#pragma unroll 4
        for (u32 r = 0; r < rows; ++r) {
            const W number = *from, low = number & mask;
            from += kRow;
            word |= low << filled;
            const W rest = behind(low, filled);
            filled += w;
            if (filled >= Type<W>::kBits) {
                *out = word;
                out += kWarp;
                word = rest;
                filled -= Type<W>::kBits;
            }
            if (!kPatches) continue;
            const bool is_patched = number != low;
            const u32 patched = __ballot_sync(kAllLanes, is_patched);
            // The list is not longer than what has been read.
            if (is_patched) numbers[n_patched + __popc(patched & below)] = number >> w;
            if (lane == 0) marks[r] = patched;
            n_patched += __popc(patched);
        }
        if (filled > 32) *out = word;
        if (filled > 0 && filled <= 32) *(reinterpret_cast<u32*>(out - lane) + lane) = static_cast<u32>(word);
        return n_patched;
    }

    // Packs the warp's group.
    __device__ __forceinline__ void pack(unsigned char* packed, unsigned char* bitmap, unsigned char* stage, u32 patches, const Widths& widths) const {
        const u32 lane = lane_id(), below = (1u << lane) - 1, rows = widths.rows, w = widths.w;
        W* const numbers = shared.residuals + threadIdx.x / kWarp * kGroup;
        const u32 n_patched = widths.e1 > 0 ? pack_rows<true>(packed, bitmap, numbers, rows, w) : pack_rows<false>(packed, bitmap, numbers, rows, w);
        if (n_patched == 0) return;

        __syncwarp();
        const u32 words = shared_address(stage);
        const u32 first_string = patches * 8, again = first_string + (widths.n1 * widths.e1 + 7) / 8 * 8;
        const u32 second_string = again + (widths.n1 + 7) / 8 * 8;
        const W first_mask = low_bits(W(), widths.e1);
        u32 n_again = 0;
        for (u32 from = 0; from < widths.n1; from += kWarp) {
            const u32 p = from + lane;
            const W patch = p < widths.n1 ? numbers[p] : 0, rest = patch & ~first_mask;
            if (p < widths.n1) add_bits(words, first_string + p * widths.e1, patch & first_mask);
            if (widths.e2 == 0) continue;
            const u32 twice = __ballot_sync(kAllLanes, rest != 0);
            if (lane == 0) add_bits(words, again + from, twice);
            if (rest != 0) add_bits(words, second_string + (n_again + __popc(twice & below)) * widths.e2, rest >> widths.e1);
            n_again += __popc(twice);
        }
    }

    // What is left of a number behind the word where it begins with bit `filled`.
    static __device__ __forceinline__ u32 behind(u32 number, u32 filled) { return __funnelshift_l(number, 0, filled); }
    static __device__ __forceinline__ u64 behind(u64 number, u32 filled) { return number >> 1 >> (63 - filled); }

    // Adds bits to a bit string in shared memory.
    static __device__ __forceinline__ void add_bits(u32 words, u32 at, u32 bits) {
        words += at / 32 * 4;
        or_shared(words, bits << at % 32);
        const u32 high = __funnelshift_l(bits, 0, at);
        if (high) or_shared(words + 4, high);
    }
    static __device__ __forceinline__ void add_bits(u32 words, u32 at, u64 bits) {
        add_bits(words, at, static_cast<u32>(bits));
        if (bits >> 32) add_bits(words, at + 32, static_cast<u32>(bits >> 32));
    }
    static __device__ __forceinline__ void or_shared(u32 address, u32 bits) {
        asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(address), "r"(bits) : "memory");
    }
};

template <typename W>
__device__ __forceinline__ void compress(const CompressArgs& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    LorenzoCompressor<W>(args, *reinterpret_cast<LorenzoShared<W>*>(bytes)).run();
}

template <typename W>
constexpr LaunchInfo kLorenzoCompressInfo = {kLorenzoThreads, sizeof(LorenzoShared<W>), 1, 1, sizeof(LorenzoScratch), sizeof(ChunkState), sizeof(u64)};
