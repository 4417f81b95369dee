// Decompression in one pass: one CTA per block (stage/flat_tile.cuh).
//
//   1. All threads sum up the bytes of the block, and read its lists to scratch (lists.cuh).
//   2. The first warp generates the symbols: 32 literals at a time, by prefix sums over the warp;
//      then copies. The symbols of a copy do not depend on each other, even if it overlaps its own
//      output: they are symbols of the source, plus an increment for each round through it.
//   3. If there are runs, the first warp expands them, one per lane. Otherwise all threads store
//      the symbols.

#pragma once

#include "../stage/flat_tile.cuh"
#include "lists.cuh"

constexpr u32 kCciThreads = 64, kCciWarps = kCciThreads / kWarp;

struct CciShared {
    ListShared lists;
    CtaSums<kCciWarps> sums;
    u32 n_own;      // number of copies that no repeat generates
    u32 n_numbers;  // number of literal symbols
    u32 n_starts;   // number of starts of rows
};

template <typename W, bool kPart>
struct CciDecompressor : FlatTile<CciDecompressor<W, kPart>, W, kCciThreads, kPart> {
    using Base = FlatTile<CciDecompressor, W, kCciThreads, kPart>;
    using Lists = ListReader<kCciThreads>;
    using Base::args, Base::array, Base::block, Base::chunk, Base::kBytes, Base::tile, Base::tiles;

    CciShared& shared;

    __device__ __forceinline__ CciDecompressor(const DecompressArgs<Flat>& args, CciShared& shared) : Base(args, shared.sums), shared(shared) {}

    __device__ __forceinline__ BlockScratch<W>& scratch() const {
        const u64 before = (static_cast<u64>(args.n_chunks) * kDecompressScratch + 255) / 256 * 256;
        return reinterpret_cast<BlockScratch<W>*>(static_cast<char*>(args.scratch) + before)[static_cast<u64>(chunk) * tiles + tile];
    }
    __device__ __forceinline__ u32 decode(const unsigned char* source, u32 block_bytes, u32 m, bool is_checked) {
        const uint4 head = *reinterpret_cast<const uint4*>(source);
        const u32 kind = head.x & 0xff, flags = head.x >> 8;
        if (kind == kRawBlock && (flags | head.y | head.z | head.w) == 0) {
            const u32 damage = Base::check_units(static_cast<u64>(m) * kBytes + kRawHead, block_bytes);
            if (damage == 0) store_all(reinterpret_cast<const W*>(source + kRawHead), m);
            return damage;
        }
        const bool is_coded = kind == kCodedBlock && flags <= (kHasRuns | kHasRows);
        return is_coded ? decode_lists(source, block_bytes, m, flags, head) : Base::unknown(is_checked);
    }

    // Decodes the lists of a coded block of n elements. Called by all threads. Returns a damage
    // code, or 0 if the block is sound.
    __device__ __forceinline__ u32 decode_lists(const unsigned char* source, u32 block_bytes, u32 n, u32 flags, uint4 head) {
        const bool has_runs = flags & kHasRuns, has_rows = flags & kHasRows;
        const u32 m = has_runs ? head.y : n, n_copies = head.z, n_repeats = head.w;
        if (m == 0 || m > (has_runs ? n / kElementsPerRun : n) || (!has_runs && head.y > 0) || n_copies > m / kSymbolsPer || n_repeats > n_copies / kSymbolsPer ||
            block_bytes < 2 * kUnitBytes) {
            return kMarkCorrupt;
        }
        const uint2 base_words = *reinterpret_cast<const uint2*>(source + kUnitBytes);
        const W base = load_word<W>(source + kUnitBytes);
        if (kBytes == 4 && base_words.y != 0) return kMarkCorrupt;
        BlockScratch<W>& own = scratch();
        Lists lists(shared.lists, source, block_bytes, args.own.flag());
        read_copies(lists, own, n_copies, n_repeats, m);
        if (lists.is_sound()) {
            const u32 n_numbers = shared.n_numbers, n_made = m - n_numbers;
            u32 n_zeros = 0;
            lists.template take<W>(n_numbers, [&](u32 i, W number) {
                own.symbols[n_made + i] = number;
                n_zeros += number == 0;
                return true;
            });
            if (has_rows && n_zeros > 0) atomicAdd(&shared.n_starts, n_zeros);
            if (has_runs) {
                lists.template take<u32>(n_numbers, [&](u32 i, u32 number) {
                    own.lengths()[n_made + i] = static_cast<unsigned short>(number);
                    return number < kMostElements;
                });
            }
            __syncthreads();
            const u32 n_starts = shared.n_starts;
            if (n_starts > m / kSymbolsPer) {
                if (lists.is_sound()) is_wrong(lists);
            } else {
                lists.template take<W>(n_starts, [&](u32 i, W number) {
                    own.starts[i] = number;
                    return true;
                });
            }
        }
        __syncthreads();
        if (!lists.is_sound()) return kMarkCorrupt;
        if (const u32 damage = Base::check_units(lists.at, block_bytes)) return damage;
        if (warp_id() == 0) {
            const bool is_made = make_symbols(own, m, n_copies, base, has_runs, has_rows);
            if (!is_made || (has_runs && !store_runs(own, m, n))) {
                if (lane_id() == 0) lists.damage();
            }
        }
        __syncthreads();
        if (!lists.is_sound()) return kMarkCorrupt;
        if (!has_runs) store_all(own.symbols, n);
        return 0;
    }
    // Marks the block as damaged. Called by all threads; contains barriers.
    __device__ __forceinline__ void is_wrong(const Lists& lists) const {
        __syncthreads();
        if (threadIdx.x == 0) lists.damage();
        __syncthreads();
    }

    // Reads repeats and copies to scratch, and computes the number of literal symbols.
    __device__ __forceinline__ void read_copies(Lists& lists, BlockScratch<W>& own, u32 n_copies, u32 n_repeats, u32 m) {
        constexpr u32 kMost = kMostElements / kSymbolsPer;
        lists.template take<u32>(n_repeats, [&](u32 i, u32 number) {
            own.repeats[i].literals = static_cast<unsigned short>(number);
            return number <= kMost;
        });
        lists.template take<u32>(n_repeats, [&](u32 i, u32 number) {
            own.repeats[i].length = static_cast<unsigned short>(number);
            return number - 1 < kMost;
        });
        lists.template take<u32>(n_repeats, [&](u32 i, u32 number) {
            own.repeats[i].distance = static_cast<unsigned short>(number);
            return number - 1 < kMost;
        });
        if (!lists.is_sound()) return;
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 at = 0, n_own = 0;
            bool is_possible = true;
            for (u32 k = 0; k < n_repeats && is_possible; ++k) {
                const Repeat repeat = own.repeats[k];
                at += repeat.literals, n_own += repeat.literals;
                is_possible = repeat.distance <= at && at + repeat.length <= n_copies;
                at += repeat.length;
            }
            if (!is_possible) lists.damage();
            shared.n_own = n_own + n_copies - at;
            shared.n_starts = 0;
        }
        __syncthreads();
        if (!lists.is_sound()) return;
        const u32 n_own = shared.n_own;
        Copy* const copies = own.copies + (n_copies - n_own);
        lists.template take<u32>(n_own, [&](u32 i, u32 number) {
            copies[i].literals = static_cast<unsigned short>(number);
            return number < kMostElements;
        });
        lists.template take<u32>(n_own, [&](u32 i, u32 number) {
            const s64 distance = static_cast<s64>(copies[i].literals) - 1 + static_cast<s32>(unzigzag(number));
            copies[i].distance = static_cast<unsigned short>(distance);
            return distance >= 1 && distance < static_cast<s64>(kMostElements);
        });
        lists.template take<u32>(n_own, [&](u32 i, u32 number) {
            copies[i].length = number * copies[i].distance;
            return static_cast<u64>(number) * copies[i].distance <= kMostElements;
        });
        lists.template take<u32>(n_own, [&](u32 i, u32 number) {
            copies[i].length += number - 1;
            return number < copies[i].distance && copies[i].length - 1 < kMostElements;
        });
        if (!lists.is_sound()) return;
        __syncthreads();
        if (warp_id() == 0) {
            expand_repeats(own, n_copies, n_repeats, n_own);
            u64 n_literals = 0, n_made = 0;
            for (u32 k = lane_id(); k < n_copies; k += kWarp) n_literals += own.copies[k].literals, n_made += own.copies[k].length;
            n_literals = warp_sum(n_literals), n_made = warp_sum(n_made);
            if (lane_id() == 0) {
                if (n_literals + n_made > m) lists.damage();
                shared.n_numbers = m - static_cast<u32>(n_made);
            }
        }
        __syncthreads();
    }

    // Expands the repeats to copies: generates all copies from the n_own ones that were read to the
    // end of the array. Called by a warp.
    static __device__ __forceinline__ void expand_repeats(BlockScratch<W>& own, u32 n_copies, u32 n_repeats, u32 n_own) {
        u32 at = 0, from = n_copies - n_own;
#pragma unroll 1
        for (u32 k = 0; k < n_repeats; ++k) {
            const Repeat repeat = own.repeats[k];
#pragma unroll 1
            for (u32 first = 0; first < repeat.literals; first += kWarp) {
                const u32 i = first + lane_id();
                const Copy copy = i < repeat.literals ? own.copies[from + i] : Copy{};
                __syncwarp();
                if (i < repeat.literals) own.copies[at + i] = copy;
                __syncwarp();
            }
            at += repeat.literals, from += repeat.literals;
#pragma unroll 1
            for (u32 i = lane_id(); i < repeat.length; i += kWarp) own.copies[at + i] = own.copies[at - repeat.distance + i % repeat.distance];
            __syncwarp();
            at += repeat.length;
        }
    }

    // Generates all symbols of a block, and the lengths of their runs. Returns false if a copy is
    // invalid. Called by a warp.
    static __device__ __forceinline__ bool make_symbols(BlockScratch<W>& own, u32 m, u32 n_copies, W base, bool has_runs, bool has_rows) {
        Literals literals{own, base, has_runs, has_rows};
        u32 n_left = 0;
        for (u32 k = lane_id(); k < n_copies; k += kWarp) n_left += own.copies[k].length;
        literals.from = warp_sum(n_left);
        u32 at = 0;
#pragma unroll 1
        for (u32 k = 0; k < n_copies; ++k) {
            const Copy copy = own.copies[k];
            literals.make(at, copy.literals);
            at += copy.literals;
            if (copy.distance > at) return false;
            const W before = at == copy.distance ? base : own.symbols[at - copy.distance - 1], added = own.symbols[at - 1] - before;
            const W* const from = own.symbols + at - copy.distance;
            const unsigned short* const lengths = own.lengths() + at - copy.distance;
#pragma unroll 1
            for (u32 i = lane_id(); i < copy.length; i += kWarp) {
                const u32 rounds = i / copy.distance, place = i - rounds * copy.distance;
                own.symbols[at + i] = from[place] + added * (rounds + 1);
                if (has_runs) own.lengths()[at + i] = lengths[place];
            }
            __syncwarp();
            at += copy.length;
        }
        literals.make(at, m - at);
        return true;
    }

    // Generates literal symbols. Called by a warp.
    struct Literals {
        BlockScratch<W>& own;
        W base;
        bool has_runs, has_rows;
        u32 from = 0, n_starts = 0;  // index of the next number; number of starts consumed
        W start = base;              // start of the last row

        // Generates the next n symbols, from index `at` on.
        __device__ __forceinline__ void make(u32 at, u32 n) {
            const u32 lane = lane_id();
            W last = n == 0 || at == 0 ? base : own.symbols[at - 1];
#pragma unroll 1
            for (u32 first = 0; first < n; first += kWarp) {
                const u32 i = first + lane;
                const bool exists = i < n;
                const W number = exists ? own.symbols[from + i] : W(0);
                const unsigned short length = exists && has_runs ? own.lengths()[from + i] : 0;
                const bool begins = has_rows && exists && number == 0;
                const u32 rows = __ballot_sync(kAllLanes, begins);
                W sum = warp_inclusive_sum(has_rows ? number : static_cast<W>(unzigzag(number)));
                W of_row = last;
                if (rows) {
                    const W more = begins ? static_cast<W>(unzigzag(own.starts[n_starts + __popc(rows & lanes_below())])) : W(0);
                    const W starts = start + warp_inclusive_sum(more);
                    // The last lane, up to this one, in which a row starts.
                    const u32 before = rows & (lanes_below() | 1u << lane), begun = before ? bit_length(before) - 1 : 0;
                    const W start_of_row = __shfl_sync(kAllLanes, starts, begun), sum_of_row = __shfl_sync(kAllLanes, sum, begun);
                    if (before) of_row = start_of_row, sum -= sum_of_row;
                    start = __shfl_sync(kAllLanes, starts, kWarp - 1);
                    n_starts += __popc(rows);
                }
                const W symbol = of_row + sum;
                __syncwarp();
                if (exists) {
                    own.symbols[at + i] = symbol;
                    if (has_runs) own.lengths()[at + i] = length;
                }
                last = __shfl_sync(kAllLanes, symbol, kWarp - 1);
                __syncwarp();
            }
            from += n;
        }
    };

    // Stores the elements of runs, in which each element is the one before plus 1. Returns true if
    // there are exactly n elements. Called by a warp.
    __device__ __forceinline__ bool store_runs(BlockScratch<W>& own, u32 m, u32 n) const {
        constexpr u32 kLong = 16;
        u32 at = 0;
#pragma unroll 1
        for (u32 first = 0; first < m; first += kWarp) {
            const u32 i = first + lane_id(), length = i < m ? own.lengths()[i] + 1u : 0;
            const W symbol = i < m ? own.symbols[i] : W(0);
            const u32 through = warp_inclusive_sum(length), begin = at + through - length;
            at += __shfl_sync(kAllLanes, through, kWarp - 1);
            if (at > n) return false;
#pragma unroll 1
            for (u32 k = 0; k < (length < kLong ? length : 0); ++k) store(begin + k, symbol + k);
            // All lanes store a long run together.
#pragma unroll 1
            for (u32 left = __ballot_sync(kAllLanes, length >= kLong); left; left &= left - 1) {
                const u32 lane = __ffs(left) - 1, all = __shfl_sync(kAllLanes, length, lane), to = __shfl_sync(kAllLanes, begin, lane);
                const W from = __shfl_sync(kAllLanes, symbol, lane);
                for (u32 k = lane_id(); k < all; k += kWarp) store(to + k, from + k);
            }
        }
        return at == n;
    }

    // Stores all elements of the block. Called by all threads.
    __device__ __forceinline__ void store_all(const W* elements, u32 n) const {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < n; i += kCciThreads) store(i, elements[i]);
    }
    // Stores element i of the block, if it is in the region.
    __device__ __forceinline__ void store(u32 i, W element) const {
        u64 at;
        if (!Base::find(i, at)) return;
        reinterpret_cast<W*>(array)[at] = args.flags & kSwapBytes ? swapped_bytes(element) : element;
    }
};

template <typename W>
__device__ __forceinline__ void cci_decompress(const DecompressArgs<Flat>& args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    CciDecompressor<W, false>(args, *reinterpret_cast<CciShared*>(shared)).run();
}

template <typename W>
__device__ __forceinline__ void cci_decompress_region(const RegionArgs<Flat>& args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    CciDecompressor<W, true>(args, *reinterpret_cast<CciShared*>(shared)).run();
}

template <typename W>
constexpr LaunchInfo kCciDecompressInfo = {kCciThreads, sizeof(CciShared), 0, 1, 0, kDecompressScratch, 0, sizeof(BlockScratch<W>)};
