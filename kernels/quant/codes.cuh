// First step of compression with blocks of 65536 elements, at levels dense and max: a CTA converts
// the elements of a block to codes or words, subtracts the first one, and stores them in scratch.
//
// If all elements are in the first zone of the quantizer, a code takes one product. Otherwise
// elements are quantized one by one, and those that have no code or violate the bound are marked as
// exceptions, in bitmaps in scratch. A thread handles several words of each bitmap.

#pragma once

#include "../stage/bitmap_write.cuh"
#include "blocks_scratch.cuh"
#include "each_element.cuh"
#include "payload_write.cuh"

// Shared memory of the CTA.
template <typename W, u32 kThreadsOfAll>
struct CodesShared {
    static constexpr u32 kThreads = kThreadsOfAll, kWarps = kThreads / kWarp;

    Quantizer<W> quantizer;
    RowBox box;
    u32 found;
    u32 of_warps[3][kWarps];
    u64 bitmap_totals[kWarps];
    W first_word, first_code, fill;
    u32 n_filled, n_outliers;
};

template <typename W, typename Shared, typename Block>
struct LargeExceptions {
    static constexpr u32 kNone = ~0u, kThreads = Shared::kThreads, kWarps = kThreads / kWarp, kOwn = kLargeBitmap / kThreads;
    static_assert(kLargeBitmap % kThreads == 0, "all threads have as many words");

    Shared& shared;
    Block& block;
    const Finder elements;
    const char* const array;
    const Element& element;
    const bool swaps;

    __device__ __forceinline__ W word(u32 i) const { return load_element<W>(elements.find(array, i, element.bytes), element, swaps); }
    // Mask of those numbers that exist, among the 32 numbers of a bitmap word.
    __device__ __forceinline__ u32 existing(u32 word) const { return low_bits(0u, min(shared.box.m - min(shared.box.m, 32 * word), 32u)); }
    __device__ __forceinline__ u32 n_words() const { return (shared.box.m + 31) / 32; }

    // Gives each element without a code the code of another element, and marks filled elements and
    // outliers in their bitmaps. Returns false, in all threads, if the block must store words
    // instead. Has barriers.
    __device__ __forceinline__ bool find() const {
        const u32 t = threadIdx.x, warp = t / kWarp, lane = lane_id(), m = shared.box.m;
        // Number indices: the last with a code up to the end of the thread's words, plus 1; the
        // first with a code; and the first without one.
        u32 through = 0, first_coded = kNone, first_uncoded = kNone;
#pragma unroll
        for (u32 k = kOwn; k-- > 0;) {
            const u32 at = kOwn * t + k, uncoded = block.bitmap.uncoded[at], coded = existing(at) & ~uncoded;
            if (coded) through = max(through, 32 * at + 32 - __clz(coded)), first_coded = 32 * at + __ffs(coded) - 1;
            if (uncoded) first_uncoded = 32 * at + __ffs(uncoded) - 1;
        }
#pragma unroll
        for (u32 step = 1; step < kWarp; step *= 2) {
            const u32 before = __shfl_up_sync(kAllLanes, through, step);
            if (lane >= step) through = max(through, before);
        }
        first_coded = warp_min_unsigned(first_coded), first_uncoded = warp_min_unsigned(first_uncoded);
        if (lane == kWarp - 1) shared.of_warps[0][warp] = through, shared.of_warps[1][warp] = first_coded, shared.of_warps[2][warp] = first_uncoded;
        __syncthreads();
        u32 last = __shfl_up_sync(kAllLanes, through, 1), first = kNone, fill_at = kNone;
        if (lane == 0) last = 0;
        for (u32 w = 0; w < kWarps; ++w) {
            if (w < warp) last = max(last, shared.of_warps[0][w]);
            first = min(first, shared.of_warps[1][w]), fill_at = min(fill_at, shared.of_warps[2][w]);
        }
        if (first == kNone) return false;
        const W fill = fill_at != kNone ? word(fill_at) : 0;
        if (t == 0) shared.fill = fill;
#pragma unroll 1
        for (u32 k = warp; k < kLargeBitmap; k += kWarps) {
            const u32 own = block.bitmap.uncoded[k];
            const u32 bitmap = own ? __ballot_sync(kAllLanes, own >> lane & 1 && word(k * 32 + lane) == fill) : 0;
            if (lane == 0) block.bitmap.fill_mask[k] = bitmap, block.bitmap.outliers[k] |= own & ~bitmap;
        }
        __syncthreads();
        u32 own_outliers = 0, own_filled = 0;
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) own_outliers += __popc(block.bitmap.outliers[kOwn * t + k]), own_filled += __popc(block.bitmap.fill_mask[kOwn * t + k]);
        own_outliers = warp_sum(own_outliers), own_filled = warp_sum(own_filled);
        if (lane == 0) shared.of_warps[0][warp] = own_outliers, shared.of_warps[1][warp] = own_filled;
        __syncthreads();
        u32 n_outliers = 0, n_filled = 0;
        for (u32 w = 0; w < kWarps; ++w) n_outliers += shared.of_warps[0][w], n_filled += shared.of_warps[1][w];
        if (n_outliers * 8 > m) return false;
        u32 from = last > 0 ? last - 1 : first;
#pragma unroll 1
        for (u32 i = 32 * kOwn * t; i < min(32 * kOwn * (t + 1), m); ++i) {
            if (block.bitmap.uncoded[i / 32] >> i % 32 & 1) {
                block.codes[i] = block.codes[from];
            } else {
                from = i;
            }
        }
        __syncthreads();
        const W start = block.codes[0];
        __syncthreads();
#pragma unroll 1
        for (u32 i = t; i < m; i += kThreads) block.codes[i] -= start;
        if (t == 0) {
            shared.first_code += start;
            shared.n_filled = n_filled, shared.n_outliers = n_outliers;
        }
        __syncthreads();
        return true;
    }
    // Calls `f(n, i)` for every outlier: i is the index of the element, n that of the outlier. Has
    // a barrier.
    using Bitmap = BitmapWriter<kThreads, kOwn>;
    template <typename F>
    __device__ __forceinline__ void for_outliers(F f) const {
        u32 own[kOwn];
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) own[k] = block.bitmap.outliers[kOwn * threadIdx.x + k];
        const Bitmap outliers(own, n_words(), shared.bitmap_totals);
        u32 n = outliers.marked_before();
#pragma unroll 1
        for (u32 k = 0; k < kOwn; ++k) {
#pragma unroll 1
            for (u32 left = block.bitmap.outliers[kOwn * threadIdx.x + k]; left != 0; left &= left - 1, ++n) f(n, 32 * (kOwn * threadIdx.x + k) + __ffs(left) - 1);
        }
    }
    // Stores an element in the frame, where it is aligned to only 4 bytes.
    __device__ __forceinline__ void store_exact(unsigned char* to, u32 word) const { store_element(to, element, false, word); }
    __device__ __forceinline__ void store_exact(unsigned char* to, u64 word) const {
        reinterpret_cast<u32*>(to)[0] = static_cast<u32>(word), reinterpret_cast<u32*>(to)[1] = static_cast<u32>(word >> 32);
    }
};

// Type of codes that are stored in 16 bits. The codes of all resident CTAs then fit the L2 cache,
// from which they are read at least twice. Accesses to data that is read or written once have
// evict-first hints.
using Short = short;

template <typename W, typename Level, typename SharedOfAll>
struct BlockCodes {
    using Shared = SharedOfAll;
    using Block = typename Level::Block;
    static constexpr u32 kThreads = Shared::kThreads, kWarps = Shared::kWarps;

    const CompressArgs<Chunk>& args;
    Shared& shared;
    const BlockOfAll tile;
    const Element element;  // an element, or one part of a complex element
    Block& block;

    __device__ __forceinline__ BlockCodes(const CompressArgs<Chunk>& args, Shared& shared)
        : args(args), shared(shared), tile(args.own, blockIdx.x), element(args.own.part(args.encoded)), block(Level::block(args, blockIdx.x)) {}

    // Called by one thread, before a barrier.
    __device__ __forceinline__ void prepare() const {
        shared.box.set(find_box(args.own.extents, Level::kLog, tile.index >> args.own.log_parts(), Level::kLogRow), Level::kLog);
        shared.quantizer.set(args.own, bound_of<W>(args, tile.chunk));
        shared.n_filled = shared.n_outliers = 0;
    }
    // Stores the block's codes or words in scratch and returns its header flags. For a constant
    // block, records it and returns kEnded. N is W, or Short to store codes in 16 bits; the result
    // contains kAreShort if all codes fit. Has barriers.
    static constexpr u32 kEnded = ~0u, kAreShort = 1u << 31;
    template <typename N>
    __device__ __forceinline__ u32 load() const {
        const bool has_codes = shared.quantizer.kind != Quantized::kNothing;
        u32 found = kFar, are_short = 0;
        if (shared.quantizer.near_limit > Float<W>(0) && args.own.has_plain_elements()) {
            found = load_near<N>();
            if (sizeof(N) < sizeof(W)) are_short = found & (kFar | kWide) ? 0 : kAreShort;
            if (kMayBeWide<N> && unlikely((found & (kFar | kWide)) == kWide)) found = load_near<W>();
        }
        if (unlikely(found & kFar)) found = share(load_any(has_codes));
        if (unlikely(!(found & kWordsDiffer))) return end_constant(shared.first_word);
        if (unlikely(has_codes && found & (kUncoded | kOutside))) {
            if (exceptions().find()) return (shared.n_filled ? kHasFillMask : 0) | (shared.n_outliers ? kHasOutliers : 0);
        } else if (has_codes) {
            return likely(found & kCodesDiffer) ? are_short : end_constant(shared.quantizer.value(shared.first_code));
        }
        if (has_codes) share(load_any(false));
        return kHasWords;
    }
    // Flag in addition to Found: some codes do not fit Short.
    static constexpr u32 kShortLimit = 1u << 15, kWide = 1u << 31;
    // Codes in the first zone of float32 are all below 2^14.
    template <typename N>
    static constexpr bool kMayBeWide = sizeof(N) < sizeof(W) && sizeof(W) == 8;
    template <typename N>
    __device__ __forceinline__ N* codes() const { return reinterpret_cast<N*>(block.codes); }

    // Built anew for each use, so that it takes no registers in between.
    __device__ __forceinline__ Finder elements() const { return Finder(args.own, shared.box); }
    __device__ __forceinline__ const char* array() const {
        return static_cast<const char*>(args.src) + tile.chunk * args.src_stride + part_of(args.own, tile.index) * element.bytes;
    }
    __device__ __forceinline__ LargeExceptions<W, Shared, Block> exceptions() const {
        return LargeExceptions<W, Shared, Block>{shared, block, elements(), array(), element, (args.flags & kSwapBytes) != 0};
    }
    // Records a block whose elements all equal this word.
    __device__ __forceinline__ u32 end_constant(W word) const {
        if (threadIdx.x == 0) block.info.header = kConstBlock, block.info.word = word;
        return kEnded;
    }

    // ORs `found` over all threads. Has barriers.
    __device__ __forceinline__ u32 share(u32 found) const {
        found = warp_or(found);
        if (threadIdx.x == 0) shared.found = 0;
        __syncthreads();
        if (lane_id() == 0 && found) atomicOr(&shared.found, found);
        __syncthreads();
        found = shared.found;
        __syncthreads();
        return found;
    }

    // Whether rows consist of whole, aligned 16-byte units, so that elements can be loaded by
    // units.
    __device__ __forceinline__ bool has_units() const {
        const u64 start = reinterpret_cast<u64>(array()) + shared.box.start * sizeof(W), next_row = args.own.extents[2] * sizeof(W);
        return shared.box.sx % Word<W>::kPerUnit == 0 && (start | (shared.box.is_line() ? 0 : next_row)) % kUnitBytes == 0 && !(args.flags & kSwapBytes);
    }
    // Stores the codes of a block minus its first code, and returns flags: kFar if an element is
    // not in the first zone, kWide if a code does not fit N. Has barriers.
    template <typename N>
    __device__ __forceinline__ u32 load_near() const { return share(has_units() ? load_near<N, Word<W>::kPerUnit>() : load_near<N, 1>()); }
    // Implements load_near(), with `kN` elements at a time.
    template <typename N, u32 kN>
    __device__ __forceinline__ u32 load_near() const {
        using F = Float<W>;
        // Loads in flight while the previous batch is converted.
        constexpr u32 kBatch = 4, kApart = kN * kThreads;
        const Quantizer<W>& quantizer = shared.quantizer;
        const F step = quantizer.steps[0], inverse = quantizer.inverses[0], bound = quantizer.bound, limit = quantizer.near_limit;
        const bool swaps = kN == 1 && args.flags & kSwapBytes;
        // Adding this rounds a small number to an integer, whose bits are then the low bits of the
        // sum.
        const F magic = sizeof(W) == 8 ? static_cast<F>(6755399441055744.0) : static_cast<F>(12582912.0f);
        const u32 m = shared.box.m;
        const Finder elements = this->elements();
        const char* const array = this->array();
        W ahead[kBatch][kN];
        const auto load = [&](u32 i) {
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                if (i + k * kApart >= m) break;
                const char* const from = elements.find(array, i + k * kApart, sizeof(W));
                if (kN == 1) {
                    ahead[k][0] = *reinterpret_cast<const W*>(from);
                } else {
                    split(__ldcs(reinterpret_cast<const uint4*>(from)), ahead[k]);
                }
            }
        };
        load(kN * threadIdx.x);
        const W first_word = load_element<W>(elements.find(array, 0, sizeof(W)), element, swaps);
        const u32 first = static_cast<u32>(bits_of(float_of(first_word) * inverse + magic));
        if (threadIdx.x == 0) shared.first_word = first_word, shared.first_code = sign_extended(first - static_cast<u32>(bits_of(magic)));
        bool is_near = true;
        W words_differ = 0;
        u32 codes_differ = 0, widths = 0;
#pragma unroll 1
        for (u32 i = kN * threadIdx.x; i < m; i += kBatch * kApart) {
            W words[kBatch][kN];
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
#pragma unroll
                for (u32 j = 0; j < kN; ++j) words[k][j] = ahead[k][j];
            }
            load(i + kBatch * kApart);
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                if (i + k * kApart >= m) break;
                u32 codes[kN];
#pragma unroll
                for (u32 j = 0; j < kN; ++j) {
                    const W word = swaps ? swapped_bytes(words[k][j]) : words[k][j];
                    const F value = float_of(word), whole = value * inverse + magic;
                    is_near &= (size_of(value - (whole - magic) * step) <= bound) & (size_of(value) < limit);
                    const u32 code = static_cast<u32>(bits_of(whole)) - first;
                    words_differ |= word ^ first_word, codes_differ |= code;
                    if (kMayBeWide<N>) widths |= code + kShortLimit;
                    codes[j] = code;
                }
                store(this->codes<N>() + i + k * kApart, codes);
            }
        }
        const bool are_wide = kMayBeWide<N> && widths >= 2 * kShortLimit;
        return (words_differ ? kWordsDiffer : 0) | (codes_differ ? kCodesDiffer : 0) | (is_near ? 0 : kFar) | (are_wide ? kWide : 0);
    }
    // Stores consecutive codes.
    template <u32 kN>
    static __device__ __forceinline__ void store(W* to, const u32 (&codes)[kN]) {
        W words[kN];
#pragma unroll
        for (u32 j = 0; j < kN; ++j) words[j] = sign_extended(codes[j]);
        if constexpr (kN == 1) {
            *to = words[0];
        } else {
            *reinterpret_cast<uint4*>(to) = join(words);
        }
    }
    template <u32 kN>
    static __device__ __forceinline__ void store(Short* to, const u32 (&codes)[kN]) {
        if constexpr (kN == 1) {
            *to = static_cast<Short>(codes[0]);
        } else if constexpr (kN == 2) {
            *reinterpret_cast<u32*>(to) = __byte_perm(codes[0], codes[1], 0x5410);
        } else {
            *reinterpret_cast<uint2*>(to) = make_uint2(__byte_perm(codes[0], codes[1], 0x5410), __byte_perm(codes[2], codes[3], 0x5410));
        }
    }
    static __device__ __forceinline__ W sign_extended(u32 code) { return static_cast<W>(static_cast<s64>(static_cast<s32>(code))); }

    // Stores the numbers of any block, codes or words, one by one. For codes, marks elements that
    // have no code or violate the bound. Returns the thread's Found flags.
    __device__ __forceinline__ u32 load_any(bool are_codes) const {
        const Finder elements = this->elements();
        const char* const array = this->array();
        const Missing& missing = args.own.missing[part_of(args.own, tile.index) == 0 ? 0 : 1];
        const EachElement<W> each{shared.quantizer, elements, array, element, (args.flags & kSwapBytes) != 0, args.own.has_missing(), missing, shared.box.m};
        W first_word;
        const W first = each.first(are_codes, first_word);
        if (threadIdx.x == 0) shared.first_word = first_word, shared.first_code = first;
        return each.template load<kWarps>(are_codes, first_word, first, block.bitmap.uncoded, block.bitmap.outliers, kLargeBitmap, [&](u32 i, W number) {
            block.codes[i] = number;
            return 0u;
        });
    }
};
