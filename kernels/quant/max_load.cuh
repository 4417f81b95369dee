// First pass of compression at level max: a CTA converts the elements of a block to codes or words
// (codes.cuh), chooses the weights that predict them (max_weights.cuh), and writes the part of the
// block before the tables.

#pragma once

#include "codes.cuh"
#include "max_scratch.cuh"
#include "max_weights.cuh"

template <typename W>
constexpr u32 kMaxLoadThreads = sizeof(W) == 4 ? 192 : 128;
constexpr u32 kMaxLoadCtas = 4;

template <typename W>
struct MaxLoadShared : CodesShared<W, kMaxLoadThreads<W>> {
    typename WeightsChooser<kMaxLoadThreads<W>>::State chooser;
};

template <typename W>
struct MaxLoader : BlockCodes<W, MaxLevel<W>, MaxLoadShared<W>> {
    using Shared = MaxLoadShared<W>;
    using Codes = BlockCodes<W, MaxLevel<W>, Shared>;
    using Codes::shared, Codes::block, Codes::element;
    using Codes::Codes;

    __device__ __forceinline__ void run() const {
        if (threadIdx.x == 0) Codes::prepare();
        __syncthreads();
        const u32 header = Codes::template load<W>();
        if (unlikely(header == Codes::kEnded)) return;
        __syncthreads();
        const MaxView view(shared.box);
        WeightsChooser<Shared::kThreads>{shared.chooser, view, shared.box.m}.run(block.codes);
        write_front(header, view);
    }

    __device__ __forceinline__ void write_front(u32 header, const MaxView& view) const {
        unsigned char* const front = block.front();
        const u32 t = threadIdx.x, weights_header = shared.chooser.header, n_outliers = shared.n_outliers;
        const u32 fill_mask = kAlignment + sizeof(W), outliers = fill_mask + (shared.n_filled ? sizeof(W) + kAlignment : 0);
        const u32 weights = outliers + (n_outliers ? kAlignment + aligned_up(n_outliers * element.bytes, kAlignment) : 0);
        const u32 weights_bytes = weights_header & kHasWeights ? aligned_up(2 * view.n_weights(), kAlignment) : 0;
        if (t == 0) {
            store(front, header | weights_header);
            store(front + kAlignment, shared.first_code);
            if (shared.n_filled) store(front + fill_mask, shared.fill), store(front + fill_mask + sizeof(W), shared.n_filled);
            // The last word of each section is zeroed first, for the padding.
            if (n_outliers) store(front + weights - kAlignment, 0u), store(front + outliers, n_outliers);
            if (weights_bytes) store(front + weights + weights_bytes - kAlignment, 0u);
            block.info.header = 0, block.info.front_bytes = weights + weights_bytes;
            block.has_weights = weights_header & kHasWeights, block.has_exceptions = header & (kHasFillMask | kHasOutliers);
        }
        for (u32 i = t; i < kRowKinds * kTaps; i += Shared::kThreads) block.weights.of[i / kTaps][i % kTaps] = shared.chooser.weights.of[i / kTaps][i % kTaps];
        __syncthreads();
        if (weights_bytes && warp_id() == 0) shared.chooser.weights.write(view, front + weights);
        if (n_outliers) {
            const auto exceptions = Codes::exceptions();
            unsigned char* const to = front + outliers + kAlignment;
            exceptions.for_outliers([&](u32 n, u32 i) { exceptions.store_exact(to + element.bytes * n, exceptions.word(i)); });
        }
    }
    static __device__ __forceinline__ void store(unsigned char* to, u32 word) { *reinterpret_cast<u32*>(to) = word; }
    static __device__ __forceinline__ void store(unsigned char* to, u64 word) { store(to, static_cast<u32>(word)), store(to + 4, static_cast<u32>(word >> 32)); }
};

template <typename W>
__device__ __forceinline__ void quant_max_load(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    if (has_other_fold(args, blockIdx.x / args.own.n_blocks)) return;
    MaxLoader<W>(args, *reinterpret_cast<MaxLoadShared<W>*>(bytes)).run();
}
