// Decompression in one pass: one CTA a block.
//
//   1. All threads sum up the bytes of the block, and read its lists to scratch (lists.cuh).
//   2. The first warp makes the symbols: 32 literal ones at a time, by sums over the warp, and copies, whose symbols do not wait for each
//      other: what a copy makes of what it makes itself is told by how often it went round.
//   3. Symbols are stored by all threads; or the first warp makes elements of runs, a run a lane.
//
// Of a region there is a CTA for each block from the first to the last that it touches, and only elements that are wanted are stored.

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/frame.cuh"
#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "../stage/boxes.cuh"
#include "lists.cuh"

constexpr u32 kCciThreads = 64, kCciWarps = kCciThreads / kWarp;

struct CciShared {
    ListShared lists;
    CtaSums<kCciWarps> sums;
    u32 n_own;      // copies that no repeat makes
    u32 n_numbers;  // of literal symbols
    u32 n_starts;
};

// Elements have the bytes of W. kPart: only those of a region are stored, from the arguments of region.cuh.
template <typename W, bool kPart>
struct CciDecompressor : DecompressTile<Indices> {
    static constexpr u32 kBytes = sizeof(W);
    using Lists = ListReader<kCciThreads>;

    CciShared& shared;
    const u32 block;

    __device__ __forceinline__ CciDecompressor(const DecompressArgs<Indices>& args, CciShared& shared)
        : DecompressTile<Indices>(args), shared(shared), block(kPart ? touched_block() : tile) {}

    __device__ __forceinline__ const uint2* table() const { return reinterpret_cast<const uint2*>(payload); }
    __device__ __forceinline__ u64 raw_bytes() const { return args.own.n * kBytes; }
    __device__ __forceinline__ bool is_last() const { return block + 1 == args.own.n_blocks; }
    __device__ __forceinline__ const Region& region() const { return static_cast<const RegionArgs<Indices>&>(args).region; }
    __device__ __forceinline__ u32 touched_block() const {
        const u64 extents[3] = {1, 1, args.own.n};
        return touched_box(region(), extents, args.own.log_block(), tile);
    }
    __device__ __forceinline__ BlockScratch<W>& scratch() const {
        const u64 before = (static_cast<u64>(args.n_chunks) * kDecompressScratch + 255) / 256 * 256;
        return reinterpret_cast<BlockScratch<W>*>(static_cast<char*>(args.scratch) + before)[static_cast<u64>(chunk) * tiles + tile];
    }
    // Of a region, blocks have been checked, not the payload.
    __device__ __forceinline__ void finish(u32 n_before) const { DecompressTile<Indices>::finish(n_before, !kPart); }

    __device__ __forceinline__ void run() {
        // Header and table can be read whatever the frame's length is, so all these loads are under way together.
        const bool exists = block != kNoBlock, stored = is_stored(args.stored, frame);
        const u32 begin = exists && block ? table()[block - 1].x : 0;
        const uint2 entry = exists ? table()[block] : make_uint2(0, 0);
        u32 damage = stored ? check_length(frame_bytes, args.stored.n_bytes + raw_bytes()) : check_frame(args.own.table_bytes());
        if (kPart && damage == 0 && !stored) {
            damage = check_length(n_bytes, args.own.table_bytes() + static_cast<u64>(table()[args.own.n_blocks - 1].x) * kUnitBytes);
        }
        if (likely(!stored & (damage == 0) & exists)) return decode_block(begin, entry.x, entry.y);
        Sums sums;
        if (stored && kPart && damage == 0) {
            copy_region<kCciThreads>(region(), kBytes, frame + args.stored.n_bytes, array, tile, tiles);
        } else if (stored && !kPart) {
            // Clipped blocks are shorter, so all tiles copy the same share.
            damage = copy_share<kCciThreads, Pieces::kBytes>(raw_bytes(), (raw_bytes() / tiles / kUnitBytes + 1) * kUnitBytes, sums);
        }
        add(shared.sums, sums, damage);
        finish(count());
    }

    // The block that the table says is in units [begin, end).
    __device__ __forceinline__ void decode_block(u32 begin, u32 end, u32 check) {
        const u64 first = args.own.table_bytes() + static_cast<u64>(begin) * kUnitBytes, last = args.own.table_bytes() + static_cast<u64>(end) * kUnitBytes;
        const bool is_corrupt = (end <= begin) | (is_last() & (last < n_bytes));
        u32 damage = is_corrupt ? kMarkCorrupt : last > n_bytes ? kMarkTruncated : 0;
        const u64 block_bytes = damage ? 0 : last - first;
        const unsigned char* const source = reinterpret_cast<const unsigned char*>(payload) + first;
        const bool is_checked = sum_up(reinterpret_cast<const uint4*>(source), first, block_bytes, end, check, damage);
        if (block_bytes > 0) {
            const u32 m = args.own.of_block(block);
            const uint4 head = *reinterpret_cast<const uint4*>(source);
            const u32 available = static_cast<u32>(min(block_bytes, static_cast<u64>(~0u) / kUnitBytes * kUnitBytes));
            const u32 kind = head.x & 0xff, flags = head.x >> 8;
            bool is_unknown = false;
            if (kind == kRawBlock && (flags | head.y | head.z | head.w) == 0) {
                damage = (static_cast<u64>(m) * kBytes + kRawHead + kUnitBytes - 1) / kUnitBytes * kUnitBytes == available ? 0 : kMarkCorrupt;
                if (damage == 0) store_all(reinterpret_cast<const W*>(source + kRawHead), m);
            } else if (kind == kCodedBlock && flags <= (kHasRuns | kHasRows)) {
                damage = decode_lists(source, available, m, flags, head);
            } else {
                is_unknown = true;
            }
            // A block that a later version has written is none that is damaged, if its check is right.
            if (threadIdx.x == 0) report(is_unknown ? is_checked ? kMarkUnsupported : kMarkCorrupt : damage);
        }
        __syncthreads();
        finish(count());
    }

    // Sums up the block's bytes, which begin at byte `first` of the payload, and tells what is wrong; in the first thread, is whether the check is right.
    __device__ __forceinline__ bool sum_up(const uint4* units, u64 first, u64 block_bytes, u32 end, u32 check, u32 damage) const {
        Sums sums;
        UnitSums<kCciThreads> unit_sums(first / 4 + 4 * threadIdx.x);
#pragma unroll 4
        for (u64 u = threadIdx.x; u < block_bytes / kUnitBytes; u += kCciThreads) unit_sums.add(units[u]);
        unit_sums.finish(sums);
        shared.sums.share(sums);
        __syncthreads();
        if (threadIdx.x != 0) return true;
        sums = shared.sums.sum();
        const bool is_checked = static_cast<u32>(checksum_of(sums.a, sums.b, block_bytes)) == check;
        sums.add(2ull * block, end);
        sums.add(2ull * block + 1, check);
        if (is_last()) {
            for (u64 word = 2ull * args.own.n_blocks; word < args.own.table_bytes() / 4; ++word) sums.add(word, reinterpret_cast<const u32*>(payload)[word]);
        }
        slot()->add(sums);
        // What is cut off has no check.
        report(damage ? damage : !is_checked && !(args.flags & kSkipChecksum) ? kMarkCorrupt : 0);
        return is_checked;
    }

    // Decodes a block of n elements; is what is wrong, in the first thread.
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
        Lists lists(shared.lists, source, block_bytes, args.own.has_codes());
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
        if ((lists.at + kUnitBytes - 1) / kUnitBytes * kUnitBytes != block_bytes) return kMarkCorrupt;
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
    __device__ __forceinline__ void is_wrong(const Lists& lists) const {
        __syncthreads();
        if (threadIdx.x == 0) lists.damage();
        __syncthreads();
    }

    // Reads repeats and copies to scratch, and tells how many literal symbols there are.
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

    // Makes all copies of those at the end that no repeat makes, by a warp.
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

    // Makes symbols, and the lengths of runs, by a warp. Whether all copies are possible.
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

    // Literal symbols, by a warp.
    struct Literals {
        BlockScratch<W>& own;
        W base;
        bool has_runs, has_rows;
        u32 from = 0, n_starts = 0;  // the next number, and starts that are taken
        W start = base;              // of the last row

        // The next n symbols, the first of which is at `at`.
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
                    // The lane that began the row.
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

    // Stores the elements of runs, by a warp. Whether there are as many as the block has.
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
            // Long ones by all lanes.
#pragma unroll 1
            for (u32 left = __ballot_sync(kAllLanes, length >= kLong); left; left &= left - 1) {
                const u32 lane = __ffs(left) - 1, all = __shfl_sync(kAllLanes, length, lane), to = __shfl_sync(kAllLanes, begin, lane);
                const W from = __shfl_sync(kAllLanes, symbol, lane);
                for (u32 k = lane_id(); k < all; k += kWarp) store(to + k, from + k);
            }
        }
        return at == n;
    }

    // Stores all elements of the block, by all threads.
    __device__ __forceinline__ void store_all(const W* elements, u32 n) const {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < n; i += kCciThreads) store(i, elements[i]);
    }
    // Stores element i of the block, if it is wanted.
    __device__ __forceinline__ void store(u32 i, W element) const {
        u64 at = (static_cast<u64>(block) << args.own.log_block()) + i;
        if (kPart && !region().find(2, at, at)) return;
        reinterpret_cast<W*>(array)[at] = args.flags & kSwapBytes ? swapped_bytes(element) : element;
    }
};

template <typename W>
__device__ __forceinline__ void cci_decompress(const DecompressArgs<Indices>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    CciDecompressor<W, false>(args, *reinterpret_cast<CciShared*>(shared)).run();
}

template <typename W>
__device__ __forceinline__ void cci_decompress_region(const RegionArgs<Indices>& args) {
    extern __shared__ __align__(512) unsigned char shared[];
    CciDecompressor<W, true>(args, *reinterpret_cast<CciShared*>(shared)).run();
}

template <typename W>
constexpr LaunchInfo kCciDecompressInfo = {kCciThreads, sizeof(CciShared), 0, 1, 0, kDecompressScratch, 0, sizeof(BlockScratch<W>)};
