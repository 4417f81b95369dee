// Exceptions of a block at level dense: writes the fill mask, and the positions and elements of
// outliers, which are stored exactly.

#pragma once

#include "codes.cuh"
#include "dense_scratch.cuh"

// Threads per CTA: as many as registers allow with kPredictCtas CTAs per multiprocessor.
template <typename W>
constexpr u32 kPredictThreads = sizeof(W) == 4 ? 384 : 256;
constexpr u32 kPredictCtas = 2;
constexpr u32 kMostCandidates = 8;  // maximum number of orders that are tried together

// Shared memory of the first pass.
template <typename W>
struct DensePredictShared : CodesShared<W, kPredictThreads<W>> {
    static constexpr u32 kSizes = 1 << 14, kLow = 4;

    union {
        // Sizes of the most recent numbers, with zeros before the first number. With rows of 32
        // numbers, each word of `size_pairs` has sizes of two rows instead.
        unsigned char sizes[kSizes];
        u32 size_pairs[kSizes / 2];
        u32 bitmap[kLargeBitmap];  // the coded fill mask
    };
    typename ContextTablesMaker<DenseCoding<W>, kPredictThreads<W>>::State tables;
    u32 costs[3][kMostCandidates];
    u32 low_costs[kLow * kLow * kLow];  // costs of orders below 4 along z, y and x
    u32 bitmap_bytes, is_bitmap_coded;
};

template <typename W>
struct DenseExceptions : LargeExceptions<W, DensePredictShared<W>, DenseBlock<W>> {
    using Exceptions = LargeExceptions<W, DensePredictShared<W>, DenseBlock<W>>;
    using Exceptions::shared, Exceptions::block, Exceptions::element, Exceptions::kThreads, Exceptions::kOwn;

    // Chooses the form of the fill mask, plain or coded, which gives its length. Has barriers.
    __device__ __forceinline__ void measure() const {
        const u32 coded_bytes = changes().n_bytes(), plain_bytes = this->n_words() * 4;
        if (threadIdx.x == 0) shared.bitmap_bytes = min(coded_bytes, plain_bytes), shared.is_bitmap_coded = coded_bytes <= plain_bytes;
        __syncthreads();
    }
    // The fill mask in coded form. Has a barrier.
    __device__ __forceinline__ typename Exceptions::Bitmap changes() const {
        u32 own[kOwn];
#pragma unroll
        for (u32 k = 0; k < kOwn; ++k) {
            const u32 at = kOwn * threadIdx.x + k;
            own[k] = (shared.box.sz * shared.box.sy > 1 ? bitmap_changes(block.bitmap.fill_mask, shared.box.sx, at) : block.bitmap.fill_mask[at]) & this->existing(at);
        }
        return typename Exceptions::Bitmap(own, this->n_words(), shared.bitmap_totals);
    }

    // Bytes of the fill mask section, of the outliers' positions, of the outliers section, and of
    // both sections.
    __device__ __forceinline__ u32 fill_mask_bytes() const { return shared.n_filled ? static_cast<u32>(sizeof(W)) + kAlignment + aligned_up(shared.bitmap_bytes, kAlignment) : 0; }
    __device__ __forceinline__ u32 places_bytes() const { return aligned_up(2 + 2 * shared.n_outliers, kAlignment); }
    __device__ __forceinline__ u32 outlier_bytes() const { return shared.n_outliers ? places_bytes() + aligned_up(shared.n_outliers * element.bytes, kAlignment) : 0; }
    __device__ __forceinline__ u32 n_bytes() const { return fill_mask_bytes() + outlier_bytes(); }

    // Writes both sections. Has barriers.
    __device__ __forceinline__ void write(unsigned char* to) const {
        if (shared.n_filled > 0) write_fill_mask(to);
        if (shared.n_outliers > 0) write_outliers(to + fill_mask_bytes());
    }
    __device__ __forceinline__ void write_fill_mask(unsigned char* to) const {
        const u32 t = threadIdx.x, n = aligned_up(shared.bitmap_bytes, kAlignment) / 4;
        u32* const words = reinterpret_cast<u32*>(to);
        if (t == 0) {
            const u64 fill = shared.fill;
            words[0] = static_cast<u32>(fill);
            if (sizeof(W) == 8) words[1] = static_cast<u32>(fill >> 32);
            words[sizeof(W) / 4] = shared.n_filled | (shared.bitmap_bytes | (shared.is_bitmap_coded ? kCodedBitmap : 0)) << 16;
        }
        if (shared.is_bitmap_coded) {
            for (u32 i = t; i < n; i += kThreads) shared.bitmap[i] = 0;
            __syncthreads();
            changes().write(reinterpret_cast<unsigned char*>(shared.bitmap), 0);
            __syncthreads();
        }
        const u32* const bitmap = shared.is_bitmap_coded ? shared.bitmap : block.bitmap.fill_mask;
        for (u32 i = t; i < n; i += kThreads) words[sizeof(W) / 4 + 1 + i] = bitmap[i];
    }
    __device__ __forceinline__ void write_outliers(unsigned char* to) const {
        const u32 t = threadIdx.x;
        for (u32 i = t; i < outlier_bytes() / 4; i += kThreads) reinterpret_cast<u32*>(to)[i] = 0;
        __syncthreads();
        unsigned short* const places = reinterpret_cast<unsigned short*>(to);
        unsigned char* const to_elements = to + places_bytes();
        if (t == 0) places[0] = static_cast<unsigned short>(shared.n_outliers);
        this->for_outliers([&](u32 n, u32 i) {
            places[n + 1] = static_cast<unsigned short>(i);
            this->store_exact(to_elements + element.bytes * n, this->word(i));
        });
    }
};
