// Entry points and launch parameters of the quant kernels. Their bodies are templates over the
// word.

#include "choose.cuh"
#include "compress.cuh"
#include "decompress.cuh"
#include "range.cuh"

// Minimum number of resident CTAs per multiprocessor, for __launch_bounds__, which limits the
// registers per thread accordingly.
template <typename W>
constexpr u32 kQuantDecompressCtas = sizeof(W) == 4 ? 7 : 6;
template <typename W>
constexpr u32 kQuantCompressCtas = sizeof(W) == 4 ? kQuantCtasOfU32 : kQuantCtasOfU64;

#define QUANT(name, Word)                                                                                \
    extern "C" __global__ void __launch_bounds__(kQuantThreads, kQuantDecompressCtas<Word>)                \
        quant_decompress_##name(const __grid_constant__ DecompressArgs<Chunk> args) {                    \
        quant_decompress<Word>(args);                                                                    \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo quant_decompress_##name##_info = kQuantDecompressInfo<Word>;    \
    extern "C" __global__ void __launch_bounds__(kQuantThreads, kQuantDecompressCtas<Word>)                \
        quant_region_##name(const __grid_constant__ RegionArgs<Chunk> args) {                            \
        quant_decompress_region<Word>(args);                                                             \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo quant_region_##name##_info = kQuantDecompressInfo<Word>;        \
    extern "C" __global__ void __launch_bounds__(kQuantThreads, kQuantCompressCtas<Word>)                  \
        quant_compress_##name(const __grid_constant__ CompressArgs<Chunk> args) {                        \
        quant_compress<Word>(args);                                                                      \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo quant_compress_##name##_info = kQuantCompressInfo<Word>;        \
    extern "C" __global__ void __launch_bounds__(kRangeThreads, 4)                                     \
        quant_range_##name(const __grid_constant__ CompressArgs<Chunk> args) {                           \
        find_range<Word, kLogBlock>(args);                                                                        \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo quant_range_##name##_info = quant_launch(kRangeThreads, sizeof(RangeShared<Word>));         \
    extern "C" __global__ void __launch_bounds__(kChoiceThreads)                                       \
        quant_choose_##name(const __grid_constant__ CompressArgs<QuantChoice> args) {                  \
        choose_fold<Word>(args);                                                                       \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo quant_choose_##name##_info = choice_launch(sizeof(ChoiceShared<Word>));

QUANT(u32, u32)
QUANT(u64, u64)
