// Builds a dictionary of a block's words (DICT, at level dense only) if it may make the block
// shorter. Called by all threads of a CTA.
//
// The words are reread from the array where they are needed: in shared memory, they have been
// converted to numbers, and masked ones have been replaced. Most blocks have too many distinct
// words for a dictionary. When a block is loaded, a bitmap of the upper bits of its words detects
// most of these blocks; later, bitmaps of hashed words detect others. For the remaining blocks,
// first samples and then all words are sorted in `work`. Entries are moved to the end of `work`.
// The stage is at the start of `work`, and does not reach the entries as long as it contains only
// deltas.

#pragma once

#include "../common/elements.cuh"
#include "../stage/pack.cuh"
#include "../stage/widths.cuh"
#include "block.cuh"
#include "load.cuh"

template <typename B>
struct Dictionary {
    using W = typename B::W;
    using Signed = std::make_signed_t<W>;
    static constexpr u32 kBits = Word<W>::kBits, kSamples = 1024;
    static constexpr u32 kWorkWords = sizeof(Buffer<B>) / sizeof(W);

    LorenzoShared<B>& shared;
    const BlockLoader<B>& loader;
    const Ticket& tile;
    W* const work;

    // The words of the block, without their common trailing zeros.
    struct Values {
        const Dictionary& dictionary;
        const typename BlockLoader<B>::Finder elements;
        const char* const array;

        __device__ __forceinline__ explicit Values(const Dictionary& dictionary)
            : dictionary(dictionary), elements(dictionary.loader), array(dictionary.loader.source(dictionary.tile)) {}
        __device__ __forceinline__ W operator()(u32 i) const {
            const BlockLoader<B>& loader = dictionary.loader;
            const W word = load_element<W>(elements.find(array, i), loader.element, loader.args.flags & kSwapBytes);
            return shifted_signed(word, dictionary.shared.codes.t);
        }
    };
    // Number of bits of an index into n_entries entries.
    static __device__ __forceinline__ u32 index_bits(u32 n_entries) { return bit_length(n_entries - 1); }

    // Returns true if the block is expected to take fewer than `limit` bytes with a dictionary.
    // Then the fields of the dictionary are in shared memory, its entries are at the end of `work`,
    // and `own` has the widths of the warp's group of numbers. Contains barriers.
    __device__ __forceinline__ bool choose(u32 limit, Widths& own) const {
        const u32 m = shared.box.m, stride = max(m / kSamples, 1u), n_samples = min((m + stride - 1) / stride, kSamples);
        if (likely(!may_be_short(limit))) return false;
        fill<kSamples>(n_samples, stride);
        u32 entries[kBits / kWarp];
        sort_and_count<kSamples>(n_samples, entries);
        bool is_promising = false;
#pragma unroll
        for (u32 p = 0; p < kBits / kWarp; ++p) {
            is_promising |= 4 * entries[p] <= 3 * n_samples && m * (index_bits(entries[p]) + p * kWarp + lane_id()) < 8 * limit;
        }
        if (!__any_sync(kAllLanes, is_promising)) return false;

        fill<B::kElements>(m, 1);
        sort_and_count<B::kElements>(m, entries);
        // On equal costs, the largest number of low bits wins.
        constexpr u32 kLow = 127;
        u32 key = ~0u;
#pragma unroll
        for (u32 p = 0; p < kBits / kWarp; ++p) {
            const u32 k = p * kWarp + lane_id(), bits = index_bits(entries[p]), cost = m * (bits + k) + entries[p] * (kBits - k) / 2;
            if (entries[p] <= m / 2 && k + bits <= kBits) key = min(key, cost * (kLow + 1) + kLow - k);
        }
        key = warp_min_unsigned(key);
        if (key == ~0u || key / (kLow + 1) >= 8 * limit) return false;
        const u32 low = kLow - key % (kLow + 1), n_entries = __shfl_sync(kAllLanes, low < kWarp ? entries[0] : entries[kBits / kWarp - 1], low % kWarp);
        keep_entries(low, n_entries);
        own = measure();
        return true;
    }

    // Counts the entries of a dictionary with k low bits, for each k from shared.codes.from on.
    // Called when the block has been loaded. All words end in t zeros. `bitmap` need not be
    // initialized. Contains barriers.
    static __device__ __forceinline__ void count_entries(LorenzoShared<B>& shared, const W* words, u32 t, u32* bitmap) {
        Codes<B>& codes = shared.codes;
        const u32 m = shared.box.m, thread = opaque_thread_id(), lane = thread % kWarp, warp = thread / kWarp;
        Signed least = static_cast<Signed>(words[0]), greatest = least;
        for_words(words, m, thread, [&](W word) {
            least = min(least, static_cast<Signed>(word)), greatest = max(greatest, static_cast<Signed>(word));
        });
        // Map them to unsigned numbers in the same order.
        W lowest = static_cast<W>(least) ^ kTopBit<W>, highest = static_cast<W>(greatest) ^ kTopBit<W>;
        highest = warp_max_unsigned(highest), lowest = ~warp_max_unsigned(static_cast<W>(~lowest));
        if (lane == 0) codes.lowest[warp] = lowest, codes.highest[warp] = highest;
        uint4* const units = reinterpret_cast<uint4*>(bitmap);
#pragma unroll 1
        for (u32 i = thread; i < kBitmapUnits; i += B::kThreads) units[i] = make_uint4(0, 0, 0, 0);
        if (thread < kCounted) codes.entries[thread] = 0;
        if (thread == 0) codes.top = 0;
        __syncthreads();
#pragma unroll
        for (u32 g = 0; g < B::kGroups; ++g) lowest = min(lowest, codes.lowest[g]), highest = max(highest, codes.highest[g]);
        const u32 length = bit_length(static_cast<W>((highest >> t) - (lowest >> t))), from = length - min(length, kLevels), shift = t + from;
        // Subtracted from a shifted signed word, this gives an index into the bitmap.
        const u32 base = (static_cast<u32>(lowest >> shift) & ~low_bits(0u, kLevels)) - static_cast<u32>(kTopBit<W> >> shift);
        const u32 to = shared_address(bitmap);
        if (thread == 0) codes.from = from;
        for_words(words, m, thread, [&](W word) {
            const u32 place = static_cast<u32>(shifted_signed(word, shift)) - base;
            u32 at = place / 32;
            launder(at);
            or_shared(to + 4 * at, 1u << place % 32);
        });
        __syncthreads();
        // Each bit of a level is the OR of two bits of the previous level. Lane k keeps a mask of
        // the nonzero units of round k.
        u32 counts[kCounted] = {}, units_with_any = 0;
#pragma unroll
        for (u32 round = 0; round < kBitmapUnits / B::kThreads; ++round) {
            const u32 have_any = __ballot_sync(kAllLanes, count_levels(units[round * B::kThreads + thread], counts));
            units_with_any = lane == round ? have_any : units_with_any;
        }
        count_levels(units_with_any, counts + kUnitLevels);
        if (units_with_any) or_shared(shared_address(&codes.top), 1u << (lane * B::kThreads / kWarp + warp));
#pragma unroll
        for (u32 level = 0; level < kCounted; ++level) {
            const u32 n = warp_sum(counts[level]);
            if (lane == 0) atomicAdd(&codes.entries[level], n);
        }
    }
    // The bitmap has kLevels + 1 levels. kUnitLevels: levels within a unit of four words. kCounted:
    // these and the levels within words that have one bit per unit. kTopLevels: the remaining
    // levels, which are within the word codes.top.
    static constexpr u32 kLevels = 15, kUnitLevels = 7, kCounted = kUnitLevels + 5, kTopLevels = kLevels + 1 - kCounted;
    static constexpr u32 kBitmapWords = 2 << kLevels >> 5, kBitmapUnits = kBitmapWords / 4;
    static_assert(sizeof(Codes<B>::entries) == 4 * kCounted, "of each there is a count");
    static_assert(kBitmapUnits % B::kThreads == 0 && kBitmapUnits <= kWarp * kWarp, "all threads have as many");

    // Calls `f(word)` for the thread's share of m words.
    template <typename F>
    static __device__ __forceinline__ void for_words(const W* words, u32 m, u32 thread, F f) {
        constexpr u32 kPerUnit = Word<W>::kPerUnit;
#pragma unroll 2
        for (u32 u = thread; u < m / kPerUnit; u += B::kThreads) {
            W own[kPerUnit];
            split(reinterpret_cast<const uint4*>(words)[u], own);
#pragma unroll
            for (u32 k = 0; k < kPerUnit; ++k) f(own[k]);
        }
        if (thread < m % kPerUnit) f(words[m - 1 - thread]);
    }
    // ORs each bit with the one `distance` above it, and keeps the bits of `mask`.
    static __device__ __forceinline__ u32 halved(u32 word, u32 distance, u32 mask) { return (word | word >> distance) & mask; }
    // Adds the bit counts of kUnitLevels levels of four words, and returns whether any bit is set.
    // As soon as only every second bit of the words is used, two words are merged into one.
    static __device__ __forceinline__ bool count_levels(uint4 unit, u32* counts) {
        counts[0] += __popc(unit.x) + __popc(unit.y) + __popc(unit.z) + __popc(unit.w);
        const u32 one = halved(unit.x, 1, 0x55555555) | halved(unit.y, 1, 0x55555555) << 1;
        const u32 two = halved(unit.z, 1, 0x55555555) | halved(unit.w, 1, 0x55555555) << 1;
        counts[1] += __popc(one) + __popc(two);
        u32 all = halved(one, 2, 0x33333333) | halved(two, 2, 0x33333333) << 2;
        counts[2] += __popc(all);
        all = halved(all, 4, 0x0f0f0f0f), counts[3] += __popc(all);
        all = halved(all, 8, 0x000f000f), counts[4] += __popc(all);
        // From here on, there is one bit per word.
        all = halved(all, 16, 0xf), counts[5] += __popc(all);
        all = halved(all, 1, 0x5), counts[6] += __popc(all);
        return all != 0;
    }
    // Adds the bit counts of five levels of a word.
    static __device__ __forceinline__ void count_levels(u32 word, u32* counts) {
        counts[0] += __popc(word);
        word = (word | word >> 1) & 0x55555555, counts[1] += __popc(word);
        word = (word | word >> 2) & 0x11111111, counts[2] += __popc(word);
        word = (word | word >> 4) & 0x01010101, counts[3] += __popc(word);
        word = (word | word >> 8) & 0x00010001, counts[4] += __popc(word);
    }

    // True if a block with a dictionary may take fewer than `limit` bytes, judging by lower bounds
    // of the number of entries. Contains barriers.
    __device__ __forceinline__ bool may_be_short(u32 limit) const {
        const Codes<B>& codes = shared.codes;
        const u32 m = shared.box.m, thread = opaque_thread_id(), most_bits = (8 * limit - 1) / m;
        const auto is_short = [=](u32 k, u32 n) { return n <= m / 2 && m * (index_bits(n) + k) + n * (kBits - k) / 2 < 8 * limit; };
        const u32 level = thread % kWarp, from = codes.from;
        // Levels from kCounted on are those of codes.top. With even more low bits, there is at
        // least one entry.
        u32 counts[5] = {}, n_entries = level < kCounted ? codes.entries[level] : 1;
        count_levels(codes.top, counts);
#pragma unroll
        for (u32 i = 0; i < kTopLevels; ++i) n_entries = level == kCounted + i ? counts[i] : n_entries;
        if (__any_sync(kAllLanes, from + level < kBits && is_short(from + level, n_entries))) return true;
        if (from + kWarp < kBits && is_short(from + kWarp, 1)) return true;
        u32 k = from, n = codes.entries[0];
#pragma unroll 1
        for (;;) {
            // With fewer low bits, there are at least as many entries.
            const u32 bits = index_bits(n);
            if (k == 0 || n > m / 2 || bits > most_bits) return false;
            k = min(k - 1, most_bits - bits);
            n = count_hashed(k);
            if (is_short(k, n)) return true;
        }
    }
    // Returns a lower bound of the number of entries with k low bits: words with the same hash
    // count as one. Contains barriers.
    __device__ __forceinline__ u32 count_hashed(u32 k) const {
        u32* const bitmap = reinterpret_cast<u32*>(work);
        const u32 thread = opaque_thread_id();
        const Values value(*this);
        __syncthreads();
#pragma unroll 1
        for (u32 i = thread; i < kBitmapWords / 4; i += B::kThreads) reinterpret_cast<uint4*>(bitmap)[i] = make_uint4(0, 0, 0, 0);
        if (thread == 0) shared.codes.n_distinct = 0;
        __syncthreads();
#pragma unroll 4
        for (u32 i = thread; i < shared.box.m; i += B::kThreads) {
            const u32 place = static_cast<u32>(static_cast<u64>(shifted_signed(value(i), k)) * 0x9e3779b97f4a7c15u >> (64 - kLevels - 1));
            or_shared(shared_address(bitmap + place / 32), 1u << place % 32);
        }
        __syncthreads();
        u32 n = 0;
#pragma unroll 4
        for (u32 i = thread; i < kBitmapWords; i += B::kThreads) n += __popc(bitmap[i]);
        n = warp_sum(n);
        if (thread % kWarp == 0) atomicAdd(&shared.codes.n_distinct, n);
        __syncthreads();
        return shared.codes.n_distinct;
    }

    // Writes n values, with the indices 0, stride, 2·stride, …, to `work`, and fills it up to kN
    // with the largest number. Contains barriers.
    template <u32 kN>
    __device__ __forceinline__ void fill(u32 n, u32 stride) const {
        const Values value(*this);
        __syncthreads();
#pragma unroll 1
        for (u32 i = threadIdx.x; i < kN; i += B::kThreads) work[i] = i < n ? value(i * stride) : kTopBit<W> - 1;
        __syncthreads();
    }

    // Sorts the kN numbers in `work` as signed numbers, by Batcher's bitonic sort. Lane k gets the
    // number of entries of the first n numbers with k low bits in entries[0], and with k + 32 low
    // bits in entries[1]. Contains barriers.
    template <u32 kN>
    __device__ __forceinline__ void sort_and_count(u32 n, u32 (&entries)[kBits / kWarp]) const {
#pragma unroll 1
        for (u32 size = 2; size <= kN; size *= 2) {
#pragma unroll 1
            for (u32 step = size / 2; step > 0; step /= 2) {
#pragma unroll 2
                for (u32 i = threadIdx.x; i < kN / 2; i += B::kThreads) {
                    const u32 low = 2 * i - (i & (step - 1)), high = low + step;
                    const W a = work[low], b = work[high];
                    if ((static_cast<Signed>(a) > static_cast<Signed>(b)) == ((low & size) == 0)) work[low] = b, work[high] = a;
                }
                __syncthreads();
            }
        }
        {
            LengthCounts<W> counts(shared.lengths[threadIdx.x / kWarp]);
#pragma unroll 1
            for (u32 i = threadIdx.x; i + 1 < n; i += B::kThreads) counts.add(work[i] ^ work[i + 1]);
        }
        __syncthreads();
        u32 above = 1;
#pragma unroll
        for (u32 p = kBits / kWarp; p-- > 0;) {
            u32 own = 0;
#pragma unroll
            for (u32 g = 0; g < B::kGroups; ++g) own += shared.lengths[g][(p + 1) * kWarp - lane_id()];
            const u32 longer = warp_inclusive_sum(own) + above;
            above = __shfl_sync(kAllLanes, longer, kWarp - 1);
            entries[p] = __shfl_sync(kAllLanes, longer, kWarp - 1 - lane_id());
        }
    }

    __device__ __forceinline__ W* entries_of(u32 n_entries) const { return work + kWorkWords - n_entries; }

    // Writes the entries to the end of `work`: one for all sorted values with the same upper bits.
    // Proceeds from the last value to the first, so that no unread value is overwritten. Also
    // determines the fields of the deltas. Contains barriers.
    __device__ __forceinline__ void keep_entries(u32 low, u32 n_entries) const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp;
        u32 left = n_entries;
#pragma unroll 1
        for (u32 first = (m - 1) / B::kThreads * B::kThreads;; first -= B::kThreads) {
            const u32 i = first + threadIdx.x;
            const W own = i < m ? shifted_signed(work[i], low) : 0;
            const bool is_last = i < m && (i + 1 == m || shifted_signed(work[i + 1], low) != own);
            const u32 last = __ballot_sync(kAllLanes, is_last);
            if (lane_id() == 0) shared.first_bits[warp] = __popc(last);
            __syncthreads();
            u32 before = 0, all = 0;
#pragma unroll
            for (u32 g = 0; g < B::kGroups; ++g) {
                const u32 n = shared.first_bits[g];
                before += g < warp ? n : 0, all += n;
            }
            if (is_last) work[kWorkWords - n_entries + left - all + before + __popc(last & lanes_below())] = own << low;
            left -= all;
            __syncthreads();
            if (first == 0) break;
        }
        const W* const entries = entries_of(n_entries);
        W all = 0;
#pragma unroll 1
        for (u32 i = threadIdx.x; i + 1 < n_entries; i += B::kThreads) all |= entries[i + 1] - entries[i];
        all = warp_or(all);
        if (lane_id() == 0) shared.any[warp] = all;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (u32 g = 0; g < B::kGroups; ++g) all |= shared.any[g];
            Codes<B>& codes = shared.codes;
            codes.n_entries = n_entries, codes.low = low;
            codes.delta_shift = all ? trailing_zeros(all) : 0;
            codes.delta_bits = bit_length(static_cast<W>(all >> codes.delta_shift));
        }
        __syncthreads();
    }

    // The number of a value: the index of its entry, followed by its low bits.
    __device__ __forceinline__ W number_of(W value) const {
        const u32 low = shared.codes.low, n_entries = shared.codes.n_entries;
        const W* const entries = entries_of(n_entries);
        const Signed wanted = static_cast<Signed>(shifted_signed(value, low) << low);
        u32 first = 0, last = n_entries - 1;
#pragma unroll 1
        while (first < last) {
            const u32 middle = (first + last) / 2;
            if (static_cast<Signed>(entries[middle]) < wanted) first = middle + 1;
            else last = middle;
        }
        return static_cast<W>(first) << low | (value & low_bits(W(), low));
    }

    // The widths of the warp's group of numbers.
    __device__ __forceinline__ Widths measure() const {
        const u32 m = shared.box.m, warp = threadIdx.x / kWarp, first = warp * kGroup, n = min(m - min(m, first), kGroup), rows = (n + kRow - 1) / kRow;
        LengthCounts<W> counts(shared.lengths[warp]);
        const Values value(*this);
#pragma unroll 1
        for (u32 i = first + lane_id(); i - lane_id() < first + n; i += kRow) counts.add(i < m ? number_of(value(i)) : 0);
        return choose_widths(counts, n, rows);
    }

    __device__ __forceinline__ u32 delta_bytes() const { return ((shared.codes.n_entries - 1) * shared.codes.delta_bits + 63) / 64 * 8; }
    __device__ __forceinline__ uint4 header() const {
        const Codes<B>& codes = shared.codes;
        const u64 base = *entries_of(codes.n_entries);
        return make_uint4(kSplit | kDict << 4 | codes.low << 8 | codes.delta_bits << 16 | codes.delta_shift << 24, codes.t | codes.n_entries << 16,
                          static_cast<u32>(base), static_cast<u32>(base >> 32));
    }

    // Writes all numbers to `numbers`, and fills the last row with zeros. Writes the deltas to the
    // stage, which is at the start of `work`. Contains barriers.
    __device__ __forceinline__ void write(W* numbers, unsigned char* stage) const {
        const u32 m = shared.box.m, n_entries = shared.codes.n_entries, bits = shared.codes.delta_bits;
        const Values value(*this);
#pragma unroll 1
        for (u32 i = threadIdx.x; i < (m + kRow - 1) / kRow * kRow; i += B::kThreads) numbers[i] = i < m ? number_of(value(i)) : 0;
#pragma unroll 1
        for (u32 at = threadIdx.x * 4; at < delta_bytes(); at += B::kThreads * 4) *reinterpret_cast<u32*>(stage + kHeaderBytes + at) = 0;
        __syncthreads();
        const W* const entries = entries_of(n_entries);
#pragma unroll 1
        for (u32 i = threadIdx.x; i + 1 < n_entries; i += B::kThreads) {
            add_bits(shared_address(stage), 8 * kHeaderBytes + i * bits, static_cast<W>((entries[i + 1] - entries[i]) >> shared.codes.delta_shift));
        }
        __syncthreads();
    }
};
