// The choice between two folds of a chunk, by the codes of its samples (stage/fold_choice.cuh).

#pragma once

#include "../stage/fold_choice.cuh"
#include "../stage/range.cuh"
#include "layout.cuh"
#include "quantize.cuh"

struct QuantChoice {
    FoldChoice choice;
    Chunk chunk;
};
static_assert(sizeof(QuantChoice) == 272, "crates/gridz-codecs/src/codec/quant/cuda.rs has the same struct");

template <typename W>
struct ChoiceShared {
    u32 bits[2 * kOrders];
    Extremes<W> extremes[kRuns];
    Quantizer<W> quantizer;
};

template <typename W>
__device__ __forceinline__ void choose_fold(const CompressArgs<QuantChoice>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    ChoiceShared<W>& shared = *reinterpret_cast<ChoiceShared<W>*>(bytes);
    const Chunk& chunk = args.own.chunk;
    const Samples<W, QuantChoice> samples(args, args.own.choice, shared.bits);
    if (chunk.mode() == kRel) {
        Extremes<W> own;
        own.add(Places<W>(chunk.dtype()), samples.word(0), chunk.missing[0]);
#pragma unroll
        for (u32 lanes = kWarp / 2; lanes > 0; lanes /= 2) {
            own.most = max(own.most, __shfl_xor_sync(kAllLanes, own.most, lanes));
            own.before_least = max(own.before_least, __shfl_xor_sync(kAllLanes, own.before_least, lanes));
        }
        if (lane_id() == 0) shared.extremes[threadIdx.x / kWarp] = own;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double bound = __longlong_as_double(static_cast<s64>(chunk.value));
        if (chunk.mode() == kRel) {
            RangeScratch range = {};
            for (u32 run = 0; run < kRuns; ++run) {
                range.most = max(range.most, static_cast<u64>(shared.extremes[run].most));
                range.before_least = max(range.before_least, static_cast<u64>(shared.extremes[run].before_least));
            }
            range.has_any = (range.most | range.before_least) != 0;
            bound = bound_of_range<W>(range, chunk.dtype(), bound);
        }
        shared.quantizer.set(chunk, bound);
    }
    __syncthreads();
    const Quantizer<W>& quantizer = shared.quantizer;
    samples.choose([&](W word) {
        if (quantizer.kind == Quantized::kNothing) return word;
        const Coded<W> coded = chunk.has_missing() ? quantizer.code_beside(chunk.missing[0], word) : quantizer.code(word);
        return coded.is_coded ? coded.code : W(0);
    });
}
