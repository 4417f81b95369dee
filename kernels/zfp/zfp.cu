// Entry points of the zfp kernels, and how to launch them. The bodies are templates over the word, the rank and the transform.

#include "compress.cuh"
#include "decompress.cuh"
#include "finish.cuh"

// CTAs per multiprocessor that registers are limited for.
template <typename W, u32 kRank>
constexpr u32 kStreamCtas = sizeof(W) == 4 ? 4 : kRank == 3 ? 2 : 2;

#define ZFP(name, Word, rank, Lines)                                                                         \
    extern "C" __global__ void __launch_bounds__(kZfpThreads, kStreamCtas<Word, rank>)                       \
        zfp_compress_##name(const __grid_constant__ CompressArgs<Chunk> args) {                              \
        zfp_compress<Word, rank, Lines>(args);                                                               \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_compress_##name##_info =                                      \
        zfp_launch(sizeof(StreamShared<Word, rank>));                                                        \
    extern "C" __global__ void __launch_bounds__(kZfpThreads, kStreamCtas<Word, rank>)                       \
        zfp_decompress_##name(const __grid_constant__ DecompressArgs<Chunk> args) {                          \
        zfp_decompress<Word, rank, Lines>(args);                                                             \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_decompress_##name##_info = {                                  \
        kZfpThreads, sizeof(DecodeShared<Word, rank>), 0, 1, 0, kDecompressScratch, 0};

#define ZFP_FINISH(name, Word, rank)                                                                         \
    extern "C" __global__ void __launch_bounds__(kZfpThreads, kStreamCtas<Word, rank>)                       \
        zfp_finish_##name(const __grid_constant__ CompressArgs<Chunk> args) {                                \
        zfp_finish<Word, rank>(args);                                                                        \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_finish_##name##_info = zfp_launch(sizeof(FinishShared<Word, rank>));

extern "C" __global__ void __launch_bounds__(kZfpThreads) zfp_store(const __grid_constant__ CompressArgs<Chunk> args) { zfp_store_chunk(args); }
extern "C" __device__ const LaunchInfo zfp_store_info = zfp_launch(0);

ZFP_FINISH(u32_1d, u32, 1)
ZFP_FINISH(u32_2d, u32, 2)
ZFP_FINISH(u32_3d, u32, 3)
ZFP_FINISH(u64_1d, u64, 1)
ZFP_FINISH(u64_2d, u64, 2)
ZFP_FINISH(u64_3d, u64, 3)
ZFP(u32_1d, u32, 1, Lossy)
ZFP(u32_2d, u32, 2, Lossy)
ZFP(u32_3d, u32, 3, Lossy)
ZFP(u64_1d, u64, 1, Lossy)
ZFP(u64_2d, u64, 2, Lossy)
ZFP(u64_3d, u64, 3, Lossy)
ZFP(lossless_u32_1d, u32, 1, Reversible)
ZFP(lossless_u32_2d, u32, 2, Reversible)
ZFP(lossless_u32_3d, u32, 3, Reversible)
ZFP(lossless_u64_1d, u64, 1, Reversible)
ZFP(lossless_u64_2d, u64, 2, Reversible)
ZFP(lossless_u64_3d, u64, 3, Reversible)
