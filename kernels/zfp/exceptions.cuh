// Exceptions: elements of a section whose words are not those decoded from its blocks. They are
// filled elements, which all have the same word, and outliers, which have words of their own. The
// functions are called by all threads of a CTA.
//
//   u16 filled, u16 outliers, u16 bytes of the bitmap of each
//   | fill value | fill mask | outlier bitmap | outlier words

#pragma once

#include "../common/checksum.cuh"
#include "../stage/bitmap.cuh"
#include "../stage/pack.cuh"
#include "layout.cuh"

constexpr u32 kExceptionHead = 8;
constexpr u32 kPlainBitmap = kSectionElements / 8;  // bytes of a bitmap that is not coded
constexpr u32 kCodedBitmap = 1 << 15;               // flag in the size of a coded bitmap
constexpr u32 kBitmapWords = kSectionElements / kBitmapWordBits;
constexpr u32 kOwnBitmapWords = kBitmapWords / kZfpThreads;

// The element at index `place` of a section, whose blocks include their padding.
template <u32 kRank>
struct PlacedElement {
    BlockPlace<kRank> block{};
    u64 offset = 0;
    bool has_block = false, exists = false;

    __device__ __forceinline__ PlacedElement(const BlockGrid<kRank>& grid, const Chunk& chunk, u32 section, u32 place) {
        const u64 number = static_cast<u64>(section) * Sections<kRank>::kBlocks + place / kBlock<kRank>;
        if (number >= chunk.n_blocks) return;
        const u32 index = place % kBlock<kRank>;
        has_block = true, block = grid.place(static_cast<u32>(number));
        exists = is_there(block.there, index), offset = block.start + grid.offset(index);
    }
};

// The coded form of a bitmap; each thread has two words of it. Also counts the nonzero words and
// their nonzero bytes, before the thread's own words and in all.
struct OwnBitmap {
    static constexpr u32 kBytesAt = 16;

    u32 words[kOwnBitmapWords];
    u32 nonzero, bytes_before, n_bytes_nonzero, n_nonzero;

    // Mask of the nonzero bytes of a word.
    static __device__ __forceinline__ u32 bytes_of(u32 word) {
        const u32 high = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
        return (high >> 7 & 1) | (high >> 14 & 2) | (high >> 21 & 4) | (high >> 28 & 8);
    }

    // Contains barriers.
    __device__ __forceinline__ OwnBitmap(const u32 (&own)[kOwnBitmapWords], u32 (&totals)[kZfpWarps]) {
        u32 count = 0;
#pragma unroll
        for (u32 k = 0; k < kOwnBitmapWords; ++k) {
            words[k] = own[k];
            count += (own[k] != 0) | __popc(bytes_of(own[k])) << kBytesAt;
        }
        const u32 through = warp_inclusive_sum(count), warp = threadIdx.x / kWarp;
        __syncthreads();
        if (lane_id() == kWarp - 1) totals[warp] = through;
        __syncthreads();
        u32 before = through - count, all = 0;
#pragma unroll
        for (u32 w = 0; w < kZfpWarps; ++w) {
            if (w < warp) before += totals[w];
            all += totals[w];
        }
        nonzero = before % (1 << kBytesAt), bytes_before = before >> kBytesAt;
        n_nonzero = all % (1 << kBytesAt), n_bytes_nonzero = all >> kBytesAt;
    }
    static constexpr u32 kPresence = kBitmapWords / 8;
    __device__ __forceinline__ u32 values_at() const { return kPresence + (n_nonzero + 1) / 2; }
    __device__ __forceinline__ u32 n_bytes() const { return values_at() + n_bytes_nonzero; }

    // Adds the coded bitmap to zeros in shared memory.
    __device__ __forceinline__ void write(u32* to) const {
        const u32 address = shared_address(to);
        u32 n = nonzero, value = values_at() + bytes_before;
#pragma unroll
        for (u32 k = 0; k < kOwnBitmapWords; ++k) {
            if (words[k] == 0) continue;
            const u32 i = kOwnBitmapWords * threadIdx.x + k;
            add_bits(address, i, 1u);
            add_bits(address, 8 * kPresence + 4 * n++, bytes_of(words[k]));
#pragma unroll 1
            for (u32 b = 0; b < 4; ++b) {
                const u32 byte = words[k] >> 8 * b & 0xff;
                if (byte) add_bits(address, 8 * value++, byte);
            }
        }
    }
};

// Exceptions of a section in compression. Everything except the words of outliers is in shared
// memory.
template <typename W>
struct ExceptionShared {
    u32 fill_mask[kBitmapWords], outliers[kBitmapWords];
    u32 head[(kExceptionHead + sizeof(W) + 2 * kPlainBitmap) / 4];
    u32 totals[kZfpWarps];
    u32 first;  // place of the first exception
    W fill;
};

template <typename W, u32 kRank>
struct WrittenExceptions {
    u32 n_filled = 0, n_outliers = 0, outliers_before = 0;
    u32 head_bytes = 0;  // bytes in shared memory

    __device__ __forceinline__ u32 units() const { return (head_bytes + n_outliers * static_cast<u32>(sizeof(W))) / 4; }

    static __device__ __forceinline__ u32 sum_of(u32 own, ExceptionShared<W>& shared, u32& before) {
        const u32 through = warp_inclusive_sum(own), warp = threadIdx.x / kWarp;
        __syncthreads();
        if (lane_id() == kWarp - 1) shared.totals[warp] = through;
        __syncthreads();
        u32 all = 0;
        before = through - own;
#pragma unroll
        for (u32 w = 0; w < kZfpWarps; ++w) {
            if (w < warp) before += shared.totals[w];
            all += shared.totals[w];
        }
        return all;
    }

    // Divides the exceptions of a section, which are marked in shared.outliers, into filled
    // elements and outliers, and writes everything but the words of outliers to shared memory.
    // Afterwards, shared.outliers marks only outliers. `load` returns the word of the element at a
    // place. Contains barriers, one of them at the start.
    template <typename Load>
    __device__ __forceinline__ void make(ExceptionShared<W>& shared, Load load) {
        const u32 t = threadIdx.x;
        u32* const mine = shared.outliers + kOwnBitmapWords * t;
        if (t == 0) shared.first = ~0u;
        __syncthreads();
        for (u32 i = t; i < sizeof(shared.head) / 4; i += kZfpThreads) shared.head[i] = 0;
#pragma unroll
        for (u32 k = kOwnBitmapWords; k-- > 0;) {
            if (mine[k]) atomicMin(&shared.first, (kOwnBitmapWords * t + k) * kBitmapWordBits + trailing_zeros(mine[k]));
        }
        __syncthreads();
        if (shared.first == ~0u) return;
        if (t == 0) shared.fill = load(shared.first);
        __syncthreads();
        u32 fill_mask[kOwnBitmapWords], outliers[kOwnBitmapWords];
#pragma unroll
        for (u32 k = 0; k < kOwnBitmapWords; ++k) {
            fill_mask[k] = 0;
#pragma unroll 1
            for (u32 left = mine[k]; left; left &= left - 1) {
                const u32 bit = trailing_zeros(left);
                if (load((kOwnBitmapWords * t + k) * kBitmapWordBits + bit) == shared.fill) fill_mask[k] |= 1u << bit;
            }
            outliers[k] = mine[k] & ~fill_mask[k];
            mine[k] = outliers[k];
            shared.fill_mask[kOwnBitmapWords * t + k] = fill_mask[k];
        }
        u32 before;
        n_filled = sum_of(__popc(fill_mask[0]) + __popc(fill_mask[1]), shared, before);
        n_outliers = sum_of(__popc(outliers[0]) + __popc(outliers[1]), shared, outliers_before);
        u32 changes[kOwnBitmapWords];
#pragma unroll
        for (u32 k = 0; k < kOwnBitmapWords; ++k) {
            const u32 i = kOwnBitmapWords * t + k;
            changes[k] = fill_mask[k] ^ __funnelshift_l(i ? shared.fill_mask[i - 1] : 0, fill_mask[k], 1);
        }
        // The first exception is a filled element, so there is at least one.
        u32 at = kExceptionHead + sizeof(W);
        const u32 of_fill = write_bitmap(shared, at, changes, fill_mask);
        const u32 of_outliers = n_outliers ? write_bitmap(shared, at, outliers, outliers) : 0;
        if (t == 0) {
            shared.head[0] = n_filled | n_outliers << 16;
            shared.head[1] = of_fill | of_outliers << 16;
            shared.head[2] = static_cast<u32>(shared.fill);
            if (sizeof(W) == 8) shared.head[3] = static_cast<u32>(static_cast<u64>(shared.fill) >> 32);
        }
        head_bytes = at;
        __syncthreads();
    }
    // Writes a bitmap in its shorter form, from byte `at` of shared.head on, and moves `at` past
    // it. Returns its size field in the head.
    static __device__ __forceinline__ u32 write_bitmap(ExceptionShared<W>& shared, u32& at, const u32 (&coded)[kOwnBitmapWords], const u32 (&plain)[kOwnBitmapWords]) {
        const OwnBitmap bitmap(coded, shared.totals);
        const u32 n_bytes = bitmap.n_bytes();
        u32* const to = shared.head + at / 4;
        if (n_bytes < kPlainBitmap) {
            bitmap.write(to);
            at += aligned_up(n_bytes, 4);
            return n_bytes | kCodedBitmap;
        }
#pragma unroll
        for (u32 k = 0; k < kOwnBitmapWords; ++k) to[kOwnBitmapWords * threadIdx.x + k] = plain[k];
        at += kPlainBitmap;
        return kPlainBitmap;
    }
    // Writes the exceptions to the payload, from word `first` on, and adds them to the checksum.
    template <typename Load>
    __device__ __forceinline__ void write(const ExceptionShared<W>& shared, u32* payload, u64 first, Load load, Sums& sums) const {
        const u32 t = threadIdx.x;
        const auto put = [&](u64 i, u32 word) {
            payload[i] = word;
            sums.add(i, word);
        };
        for (u32 i = t; i < head_bytes / 4; i += kZfpThreads) put(first + i, shared.head[i]);
        u64 to = first + head_bytes / 4 + outliers_before * (sizeof(W) / 4);
#pragma unroll 1
        for (u32 k = 0; k < kOwnBitmapWords; ++k) {
#pragma unroll 1
            for (u32 left = shared.outliers[kOwnBitmapWords * t + k]; left; left &= left - 1) {
                const u64 word = load((kOwnBitmapWords * t + k) * kBitmapWordBits + trailing_zeros(left));
                put(to++, static_cast<u32>(word));
                if (sizeof(W) == 8) put(to++, static_cast<u32>(word >> 32));
            }
        }
    }
};

// Exceptions of a section in decompression.
template <typename W>
struct ReadShared {
    Bitmap<kSectionElements, kZfpThreads> fill_mask, outliers;
};

// Decodes the exceptions of a section from `n_words` words, and stores them by `store(place,
// word)`, which returns false for padding. Returns false, in all threads, if they are damaged.
// Contains barriers, one of them at the start.
template <typename W, typename Store>
__device__ __forceinline__ bool apply_exceptions(ReadShared<W>& shared, const u32* words, u32 n_words, Store store) {
    __syncthreads();
    if (n_words < kExceptionHead / 4) return false;
    const u32 n_filled = words[0] & 0xffff, n_outliers = words[0] >> 16;
    u32 at = kExceptionHead / 4;
    W fill = 0;
    if (n_filled) {
        if (n_words - at < sizeof(W) / 4) return false;
        fill = words[at];
        if (sizeof(W) == 8) fill |= static_cast<W>(static_cast<u64>(words[at + 1]) << (sizeof(W) == 8 ? 32 : 0));
        at += sizeof(W) / 4;
    }
    if (n_filled + n_outliers == 0) return false;
    const auto read = [&](Bitmap<kSectionElements, kZfpThreads>& bitmap, u32 n, u32 field, bool are_changes) {
        const u32 n_bytes = field & (kCodedBitmap - 1);
        bool is_sound = true;
        if (n == 0) {
            if (field) return false;
            for (u32 i = threadIdx.x; i < kBitmapWords; i += kZfpThreads) bitmap.words[i] = 0;
        } else {
            if ((n_bytes + 3) / 4 > n_words - at) return false;
            if (field & kCodedBitmap) {
                const CodedBitmap coded(reinterpret_cast<const unsigned char*>(words + at), n_bytes, kSectionElements);
                if (!coded.is_sound || coded.n_bytes != n_bytes) return false;
                is_sound = bitmap.read(coded, kSectionElements);
                if (are_changes) bitmap.undo_changes(kSectionElements, 1);
            } else {
                if (n_bytes != kPlainBitmap) return false;
                is_sound = bitmap.read(words + at, kSectionElements);
            }
            at += (n_bytes + 3) / 4;
        }
        return bitmap.count(kSectionElements, n, is_sound);
    };
    if (!read(shared.fill_mask, n_filled, words[1] & 0xffff, true) || !read(shared.outliers, n_outliers, words[1] >> 16, false)) return false;
    if (n_words - at != n_outliers * (sizeof(W) / 4)) return false;
    bool is_sound = true;
#pragma unroll 1
    for (u32 i = threadIdx.x / kWarp; i < kBitmapWords; i += kZfpWarps) {
        const bool is_fill = shared.fill_mask.has(i), is_outlier = shared.outliers.has(i);
        if (!is_fill && !is_outlier) continue;
        W word = fill;
        if (is_outlier) {
            const u32* const from = words + at + shared.outliers.n_before(i) * (sizeof(W) / 4);
            word = from[0];
            if (sizeof(W) == 8) word |= static_cast<W>(static_cast<u64>(from[1]) << (sizeof(W) == 8 ? 32 : 0));
        }
        is_sound &= !(is_fill && is_outlier) && store(i * kBitmapWordBits + lane_id(), word);
    }
    return __syncthreads_and(is_sound);
}
