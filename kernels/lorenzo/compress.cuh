// Compression in one pass, by the protocol of common/ordered_frames.cuh. A CTA encodes one block of
// 4096 elements at a time (`fast`), or of 8192 (`dense`); several CTAs run per multiprocessor. For
// every block:
//
//   1. Copy its words to shared memory (load.cuh). All threads compute the OR and the AND of the
//      words and examine samples: a frequent word may be masked (mask_choice.cuh). Trailing zeros
//      common to all words are shifted out; the results are the numbers of the map BITS (maps.cuh).
//   2. Predict some rows with each candidate for the orders; the bits of their residuals are the
//      costs (orders.cuh). If exponents or signs differ, also try the numbers of the map FIXED, in
//      the other buffer. If samples are decimal fractions, try DECIMAL. If signs differ, or
//      exponents differ by at least two, try CUT (tails.cuh).
//   3. Write residuals to the other buffer (stage/differences.cuh). If the block has whole planes,
//      a warp computes eight rows of its group at a time in registers; otherwise it computes rows
//      one by one. Masked numbers are replaced by their predictions before this step, and omitted
//      after it.
//   4. Each warp builds, in shared memory, a histogram of the bit lengths of its group's residuals.
//      From it, lane k gets the number of residuals that are longer than k bits, and the cost of
//      width k (stage/widths.cuh). If few residuals are nonzero, SPARSE may be shorter.
//   5. Publish the size of the block. Write the mask, and groups (stage/pack.cuh) or sparse
//      numbers, to a stage in the place of the numbers.
//   6. The first warp looks back for the block's position. All threads copy the stage to the
//      payload and sum it up.
//
// Level dense does more before it publishes the size: it builds Huffman codes for the lengths of
// residuals (HUFF, stage/huff_write.cuh), may build a dictionary of the words (DICT,
// dictionary.cuh), and tries the neighbors of the best orders.
//
// A slow block delays all CTAs that look back at it, so the code for clipped blocks must be fast,
// too.
//
// A chunk that turns out not to shrink is stored instead, after all chunks have been encoded.

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/ordered_frames.cuh"
#include "../common/warp.cuh"
#include "../stage/boxes.cuh"
#include "../stage/decimal.cuh"
#include "../stage/differences.cuh"
#include "../stage/fixed.cuh"
#include "../stage/bitmap.cuh"
#include "../stage/bitmap_write.cuh"
#include "../stage/pack.cuh"
#include "../stage/sparse_write.cuh"
#include "../stage/widths.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "dictionary.cuh"
#include "layout.cuh"
#include "load.cuh"
#include "maps.cuh"
#include "mask_choice.cuh"
#include "orders.cuh"
#include "tails.cuh"

template <typename B>
struct LorenzoCompressor {
    using W = typename B::W;
    using Shared = LorenzoShared<B>;
    static constexpr u32 kPerUnit = Word<W>::kPerUnit;

    const CompressArgs<Blocks>& args;
    Shared& shared;
    const Element element;  // an element, or one part of a complex element
    const OrderedFrames<FrameLayout> frames;

    __device__ __forceinline__ LorenzoCompressor(const CompressArgs<Blocks>& args, Shared& shared)
        : args(args), shared(shared), element(args.own.part(args.encoded)),
          frames(args, FrameLayout{args.own, Element(args.encoded).bytes}, args.own.n_blocks, args.own.n_blocks) {}

    __device__ __forceinline__ void run() const {
        frames.run<B::kThreads>(
            shared.ticket, shared.sums, [&](const Ticket& tile) { prepare(tile); }, [&](const Ticket& tile) { return encode(tile); });
    }

    // Prepares the data that all threads need about a block. Called by one thread.
    __device__ __forceinline__ void prepare(const Ticket& tile) const {
        const Box found = find_box(args.own.extents, B::kLogBlock, args.own.box(tile.index));
        shared.box.set(found, B::kLogBlock);
        shared.is_full = OrderChoice<B>::is_full(found);
        shared.candidates = OrderChoice<B>::candidates_of(found);
        shared.mask.is_used = false;
        shared.n_nonzero = shared.longest = shared.tail_bytes = 0;
        shared.cubic = Orders{found.sz > 1 ? 3u : 0u, found.sy > 1 ? 3u : 0u, found.sx > 1 ? 3u : 0u};
    }

    // Encodes the block. Thread 0 returns the sums. Called by all threads. `tile` is reread where
    // needed, to save registers.
    __device__ __forceinline__ Sums encode(const Ticket& tile) const {
        const u32 warp = threadIdx.x / kWarp, lane = lane_id();
        const u32 m = shared.box.m;
        W* numbers = shared.buffers[0].words;
        W* residuals = shared.buffers[1].words;
        const BlockLoader<B> loader{args, shared.box, element};
        loader.load_words(loader.source(tile), numbers);
        __syncthreads();

        if constexpr (B::kIsDense) Huff::clear(shared.codes.huff);
        const MapChoice<B> maps{shared, element};
        const MaskChoice<B> masks{shared, element};
        W any, all;
        // Repeat once if a mask has replaced words.
#pragma unroll 1
        do {
            maps.look_at_words(numbers, any, all);
            if constexpr (B::kIsDense) {
                if (likely(!shared.mask.is_used) && any != all) {
                    const u32 t = trailing_zeros(any);
                    if (threadIdx.x == 0) shared.codes.t = t, shared.codes.delta_bytes = 0;
                    Dictionary<B>::count_entries(shared, numbers, t, reinterpret_cast<u32*>(residuals));
                }
            }
        } while (unlikely(any != all && !shared.mask.is_used && shared.n_frequent >= MaskChoice<B>::kMinSamples && m >= MaskChoice<B>::kMinElements) &&
                 masks.choose(numbers, reinterpret_cast<u32*>(residuals)));
        const bool is_const = any == all && !shared.mask.is_used;
        if (likely(!is_const)) {
            Mapping<W> mapping;
            Orders orders = {0, 0, 0};
            maps.choose(numbers, residuals, any, all, mapping, orders);
            if (threadIdx.x == 0) shared.header = block_header(mapping, orders, shared.mask.is_used);
            if (unlikely(mapping.map == kCut) && threadIdx.x == 0) shared.tail_bytes = Tails<B>{shared}.n_bytes();
            // `is_used` is reread where needed, to save registers.
            if (unlikely(shared.mask.is_used)) {
                masks.fill(numbers, residuals, mapping.base, orders);
                __syncthreads();
            }
            Widths own = Differences<W, B::kGroups, Start::kRising>{shared.box}.write_residuals(numbers, residuals, mapping.base, orders, shared.lengths[warp]);
            if (unlikely(shared.mask.is_used)) {
                __syncthreads();
                masks.leave_out(residuals, numbers);
                W* const coded = numbers;
                numbers = residuals, residuals = coded;
                __syncthreads();
                own = Differences<W, B::kGroups>::widths_of(residuals, shared.mask.n_coded, shared.lengths[warp]);
            }
            if (lane == 0) shared.group_headers[warp] = own.header();
            if (lane == 0) {
                shared.sections[warp] = make_uint4(own.packed_bytes(), own.bitmap_bytes(), own.patch_bytes(), 0);
                atomicAdd(&shared.n_nonzero, own.n_nonzero);
                atomicMax(&shared.longest, own.w + own.e1 + own.e2);
            }
            if constexpr (B::kIsDense) {
                // Numbers of short rows are coded in column order: the columns often contain
                // different quantities.
                const bool is_by_columns = shared.box.sx < kRun && !shared.box.is_line() && !shared.mask.is_used;
                if (threadIdx.x == 0) shared.codes.huff.set(n_coded(), is_by_columns ? shared.box.sx : 0);
            }
            __syncthreads();
        }
        // The buffer's index takes fewer registers than its address.
        u32 place = numbers == shared.buffers[0].words ? 0 : 1;
        launder(place);
        numbers = shared.buffers[place].words, residuals = shared.buffers[1 - place].words;
        u32 coder, n_units;
        choose_coder(tile, is_const, numbers, residuals, coder, n_units);
        if (threadIdx.x == 0) frames.publish(tile.chunk, tile.index, n_units);

        unsigned char* const stage = reinterpret_cast<unsigned char*>(numbers);
        const bool is_masked = shared.mask.is_used;
        const u32 n_coded = this->n_coded(), contents = this->contents();
        const SplitPlan split(shared.sections, contents, n_coded);
        if (likely(coder == kSplit)) {
            // Strings of patches are added to zeros, which are written here in words of 4 bytes.
            for (u32 at = split.packed + split.bitmaps + threadIdx.x * 4; at < n_units * kUnitBytes; at += B::kThreads * 4) {
                *reinterpret_cast<u32*>(stage + at) = 0;
            }
            if (unlikely(is_masked)) write_zeros(stage, contents);
            __syncthreads();
            if (threadIdx.x == 0) *reinterpret_cast<uint4*>(stage) = shared.header;
            if (unlikely(is_masked)) masks.write(stage);
            if (warp < split.n_groups) {
                const uint2 own_header = shared.group_headers[warp];
                if (lane == 0) *reinterpret_cast<uint2*>(stage + contents + 8 * warp) = own_header;
                const Widths own(own_header, min(n_coded - warp * kGroup, kGroup));
                u32 packed = contents + 8 * split.n_groups, bitmap = split.packed, patches = split.packed + split.bitmaps;
#pragma unroll 1
                for (u32 g = 0; g < warp; ++g) {
                    const uint4 bytes = shared.sections[g];
                    packed += bytes.x, bitmap += bytes.y, patches += bytes.z;
                }
                pack(stage + packed, stage + bitmap, stage, patches, residuals + warp * kGroup, own);
            }
        } else if (coder == kSparse) {
            write_zeros(stage, n_units * kUnitBytes);
            __syncthreads();
            if (is_masked) masks.write(stage);
            write_sparse(stage, contents, residuals, n_coded);
        }
        if constexpr (B::kIsDense) {
            if (likely(coder == kHuff)) {
                write_zeros(stage, n_units * kUnitBytes);
                __syncthreads();
                if (threadIdx.x == 0) *reinterpret_cast<uint4*>(stage) = make_uint4((shared.header.x & ~0xfu) | kHuff, shared.header.y, shared.header.z, shared.header.w);
                if (unlikely(is_masked)) masks.write(stage);
                Huff{shared.codes.huff, residuals}.write(stage, contents);
            }
        }
        const bool is_cut = (shared.header.x >> 4 & 0xf) == kCut;
        if (unlikely(coder == kRaw && (is_cut || is_masked || B::kIsDense))) {
            reload(tile, numbers);
        } else if (unlikely(coder != kConst && is_cut)) {
            u32 end = coder == kSparse ? contents + shared.sparse_bytes : split.end();
            if constexpr (B::kIsDense) end = coder == kHuff ? contents + shared.codes.huff.n_bytes : end;
            write_tails(tile, stage, tails_at(end));
        }
        __syncthreads();
        if (warp == 0) {
            const u32 before = frames.place(tile.chunk, tile.index, n_units);
            if (lane == 0) shared.before = before;
        }
        __syncthreads();
        const u32 before = shared.before;
        char* const to = frames.payload(tile.chunk);
        const u32 tiles = frames.tiles;
        const u64 first = table_bytes(tiles) + static_cast<u64>(before) * kUnitBytes;
        UnitSums<B::kThreads> unit_sums(first / 4 + 4 * threadIdx.x);
        const auto put = [&](u32 u, uint4 unit) {
            store_global_16(to + first + u * kUnitBytes, unit);
            unit_sums.add(unit);
        };
        if (likely(coder != kConst && coder != kRaw)) {
#pragma unroll 2
            for (u32 u = threadIdx.x; u < n_units; u += B::kThreads) put(u, load_shared_16(shared_address(stage) + u * kUnitBytes));
        } else {
#pragma unroll 1
            for (u32 u = threadIdx.x; u < n_units; u += B::kThreads) put(u, plain_unit(coder, u, numbers, m));
        }
        Sums sums;
        unit_sums.finish(sums);
        shared.sums.share(sums);
        const u32 block = tile.index;
        __syncthreads();
        sums = Sums();
        if (threadIdx.x == 0) {
            sums = shared.sums.sum();
            const u32 check = static_cast<u32>(checksum_of(sums.a, sums.b, n_units * kUnitBytes)), end = before + n_units;
            u32* const table = reinterpret_cast<u32*>(to);
            reinterpret_cast<uint2*>(table)[block] = make_uint2(end, check);
            sums.add(2ull * block, end);
            sums.add(2ull * block + 1, check);
            if (block + 1 == tiles) {
                // Zeros add nothing to the sums.
                for (u64 word = 2ull * tiles; word < table_bytes(tiles) / 4; ++word) table[word] = 0;
            }
        }
        return sums;
    }

    __device__ __forceinline__ static void write_zeros(unsigned char* stage, u32 n_bytes) {
#pragma unroll 1
        for (u32 at = threadIdx.x * kUnitBytes; at < n_bytes; at += B::kThreads * kUnitBytes) {
            *reinterpret_cast<uint4*>(stage + at) = make_uint4(0, 0, 0, 0);
        }
    }

    // Byte offset of the tails if the numbers end at `numbers_end`; number of units up to the end
    // of the tails.
    static __device__ __forceinline__ u32 tails_at(u32 numbers_end) { return (numbers_end + 7) / 8 * 8; }
    __device__ __forceinline__ u32 units_to(u32 numbers_end) const { return (tails_at(numbers_end) + shared.tail_bytes + kUnitBytes - 1) / kUnitBytes; }

    // The sections of SPLIT: number of groups; end of the packed numbers; sizes of all bitmaps and
    // patches; in bytes.
    struct SplitPlan {
        u32 n_groups, packed, bitmaps = 0, patches = 0;

        __device__ __forceinline__ SplitPlan(const uint4 (&sections)[B::kGroups], u32 contents, u32 n_coded)
            : n_groups((n_coded + kGroup - 1) / kGroup), packed(contents + 8 * n_groups) {
#pragma unroll
            for (u32 g = 0; g < B::kGroups; ++g) packed += sections[g].x, bitmaps += sections[g].y, patches += sections[g].z;
        }
        __device__ __forceinline__ u32 end() const { return packed + bitmaps + patches; }
    };

    // Number of coded numbers; byte offset of their sections in the block.
    __device__ __forceinline__ u32 n_coded() const { return unlikely(shared.mask.is_used) ? shared.mask.n_coded : shared.box.m; }
    __device__ __forceinline__ u32 contents() const {
        u32 bytes = kHeaderBytes + (unlikely(shared.mask.is_used) ? shared.mask.all_bytes : 0);
        if constexpr (B::kIsDense) bytes += shared.codes.delta_bytes;
        return bytes;
    }

    // Chooses the coder that makes the block shortest; on a tie, the one tried first. Contains
    // barriers.
    __device__ __forceinline__ void choose_coder(const Ticket& tile, bool is_const, W* numbers, W* residuals, u32& coder, u32& n_units) const {
        const u32 m = shared.box.m;
        coder = is_const ? kConst : kRaw, n_units = is_const ? 1 : 1 + (m * element.bytes + kUnitBytes - 1) / kUnitBytes;
        if (unlikely(is_const)) return;
        const auto take_shorter = [&](u32 own, u32 end) {
            const u32 units = units_to(end);
            if (units < n_units) coder = own, n_units = units;
        };
        if constexpr (B::kIsDense) {
            const Huff huff{shared.codes.huff, residuals};
            static_assert(sizeof(typename Huff::Work) <= sizeof(Buffer<B>) && alignof(typename Huff::Work) <= alignof(Buffer<B>), "there is room");
            take_shorter(kHuff, contents() + huff.look(shared.lengths, *reinterpret_cast<typename Huff::Work*>(numbers)));
        }
        take_shorter(kSplit, SplitPlan(shared.sections, contents(), n_coded()).end());
        // Without a list, SPARSE takes more than n_nonzero * longest bits. Try it only if it can be
        // shorter.
        const u32 n_nonzero = shared.n_nonzero;
        if (unlikely(n_nonzero < Widths::kMany && (n_nonzero <= kMaxListed || contents() + (n_nonzero * shared.longest + 7) / 8 < n_units * kUnitBytes))) {
            take_shorter(kSparse, contents() + sparse_bytes(residuals, n_coded()));
        }
        if constexpr (B::kIsDense) {
            const BlockLoader<B> loader{args, shared.box, element};
            const Dictionary<B> dictionary{shared, loader, tile, numbers};
            Widths own(0, 0, 0, 0, 0, 0);
            if (unlikely(dictionary.choose(n_units * kUnitBytes, own))) take_dictionary(dictionary, own, residuals, coder, n_units);
        }
    }

    using Huff = WrittenHuff<W, B::kThreads>;

    // Replaces the chosen coder by SPLIT with DICT if this is shorter. `own` has the widths of the
    // warp's numbers. Contains barriers.
    __device__ __forceinline__ void take_dictionary(const Dictionary<B>& dictionary, const Widths& own, W* residuals, u32& coder, u32& n_units) const {
        const u32 warp = threadIdx.x / kWarp, m = shared.box.m;
        const uint4 bytes = make_uint4(own.packed_bytes(), own.bitmap_bytes(), own.patch_bytes(), 0);
        if (lane_id() == 0) shared.first_bits[warp] = bytes.x + bytes.y + bytes.z;
        __syncthreads();
        u32 n_bytes = kHeaderBytes + dictionary.delta_bytes() + (m + kGroup - 1) / kGroup * 8;
#pragma unroll
        for (u32 g = 0; g < B::kGroups; ++g) n_bytes += shared.first_bits[g];
        const u32 units = (n_bytes + kUnitBytes - 1) / kUnitBytes;
        if (units >= n_units) return;
        coder = kSplit, n_units = units;
        if (lane_id() == 0) shared.group_headers[warp] = own.header(), shared.sections[warp] = bytes;
        if (threadIdx.x == 0) {
            shared.header = dictionary.header(), shared.tail_bytes = 0;
            shared.mask.is_used = false, shared.codes.delta_bytes = dictionary.delta_bytes();
        }
        dictionary.write(residuals, reinterpret_cast<unsigned char*>(dictionary.work));
    }

    // Reloads the words of a RAW block whose numbers were overwritten, as numbers of BITS.
    __device__ __forceinline__ void reload(const Ticket& tile, W* words) const {
        __syncthreads();
        if (threadIdx.x == 0) shared.header = make_uint4(0, 0, 0, 0);
        const BlockLoader<B> loader{args, shared.box, element};
        loader.load_each(loader.source(tile), words);
    }

    // CUT: writes the tails to the stage, from byte `begin` on.
    __device__ __forceinline__ void write_tails(const Ticket& tile, unsigned char* stage, u32 begin) const {
        const BlockLoader<B> loader{args, shared.box, element};
        Tails<B>{shared}.write(loader, loader.source(tile), shared.header.y, stage, begin);
    }

    // Returns the size of n numbers in SPARSE, in bytes. Saves the marks of nonzero numbers for
    // write_sparse.
    __device__ __forceinline__ u32 sparse_bytes(const W* residuals, u32 n) const {
        const u32 exist = low_bits(0u, min(n - min(n, threadIdx.x * 32), 32u)), own = own_bitmap(residuals, [](W r) { return r != 0; }) & exist;
        shared.nonzero[threadIdx.x] = own;
        const BitmapWriter<B::kThreads> bitmap({own}, (n + 31) / 32, shared.mask.totals[0]);
        const u32 n_marked = bitmap.n_marked(), width = shared.longest;
        u32 n_bytes = kSparseHeader + bitmap.n_bytes() + (n_marked * width + 7) / 8;
        bool is_list = false;
        if (n_marked <= kMaxListed) {
            const WrittenList<W, B::kThreads> list(residuals, shared.nonzero, shared.first_bits, shared.last_bits);
            is_list = list.n_bytes(n_marked, width) < n_bytes;
            if (is_list) n_bytes = list.n_bytes(n_marked, width);
        }
        if (threadIdx.x == 0) shared.sparse_bytes = n_bytes, shared.is_list = is_list;
        return n_bytes;
    }
    __device__ __forceinline__ void write_sparse(unsigned char* stage, u32 at, const W* residuals, u32 n) const {
        const u32 width = shared.longest;
        const BitmapWriter<B::kThreads> bitmap({shared.nonzero[threadIdx.x]}, (n + 31) / 32, shared.mask.totals[1]);
        if (threadIdx.x == 0) {
            uint4 header = shared.header;
            header.x = (header.x & ~0xfu) | kSparse;
            *reinterpret_cast<uint4*>(stage) = header;
            *reinterpret_cast<u32*>(stage + at) = bitmap.n_marked() | width << 16;
        }
        if (shared.is_list) {
            const WrittenList<W, B::kThreads> list(residuals, shared.nonzero, shared.first_bits, shared.last_bits);
            if (threadIdx.x == 0) stage[at + 3] = list.gap_bits;
            list.write(stage, at, bitmap.n_marked(), width, bitmap.marked_before());
            return;
        }
        bitmap.write(stage, at + kSparseHeader);
        u32 bit = 8 * (at + kSparseHeader + bitmap.n_bytes()) + bitmap.marked_before() * width;
#pragma unroll 1
        for (u32 left = bitmap.words[0]; left != 0; left &= left - 1) {
            add_bits(shared_address(stage), bit, residuals[threadIdx.x * 32 + __ffs(left) - 1]);
            bit += width;
        }
    }

    // Returns unit `u` of a block in RAW or CONST.
    __device__ __forceinline__ uint4 plain_unit(u32 coder, u32 u, const W* numbers, u32 m) const {
        if (u == 0) {
            const u64 base = coder == kConst ? numbers[0] : 0;
            return make_uint4(coder, 0, static_cast<u32>(base), static_cast<u32>(base >> 32));
        }
        const u32 map = shared.header.x >> 4 & 0xf, shift = shared.header.y;
        if (likely(map == kBits && shift == 0 && element.bytes == sizeof(W) && u * kPerUnit <= m)) return reinterpret_cast<const uint4*>(numbers)[u - 1];
        u64 halves[2] = {0, 0};
#pragma unroll 1
        for (u32 byte = 0; byte < kUnitBytes; byte += element.bytes) {
            const u32 i = ((u - 1) * kUnitBytes + byte) / element.bytes;
            bool damaged;
            const W own = i >= m ? 0 : map == kBits ? numbers[i] << shift : map == kFixed ? float_of_fixed(numbers[i], shift, damaged)
                                                                                     : float_of_decimal(numbers[i], kPowersOfTen[shift]);
            const u64 bits = static_cast<u64>(own) & low_bits(static_cast<u64>(0), 8 * element.bytes);
            halves[0] |= byte < 8 ? bits << 8 * byte : 0;
            halves[1] |= byte < 8 ? 0 : bits << 8 * (byte - 8);
        }
        return join(halves);
    }

    static __device__ __forceinline__ uint4 block_header(const Mapping<W>& mapping, const Orders& orders, bool is_masked) {
        const u64 base = mapping.base;
        const u32 flags = kSplit | mapping.map << 4 | orders.x << 8 | orders.y << 12 | orders.z << 16 | static_cast<u32>(is_masked) << 24;
        return make_uint4(flags, mapping.shift, static_cast<u32>(base), static_cast<u32>(base >> 32));
    }
};

template <typename W, u32 kLog>
__device__ __forceinline__ void compress(const CompressArgs<Blocks>& args) {
    using B = BlocksOf<W, kLog>;
    extern __shared__ __align__(128) unsigned char bytes[];
    LorenzoCompressor<B>(args, *reinterpret_cast<LorenzoShared<B>*>(bytes)).run();
}

template <typename W, u32 kLog>
constexpr LaunchInfo kLorenzoCompressInfo = ordered_launch(BlocksOf<W, kLog>::kThreads, sizeof(LorenzoShared<BlocksOf<W, kLog>>), 1);
