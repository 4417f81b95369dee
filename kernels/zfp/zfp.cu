// Entry points of the zfp kernels, and their launch parameters. The bodies are templates over the
// word, the rank and the transform.

#include "compress.cuh"
#include "decompress.cuh"
#include "finish.cuh"
#include "range.cuh"

// Minimum number of resident CTAs per multiprocessor, for __launch_bounds__, which limits the
// registers per thread accordingly.
template <typename W, u32 kRank>
constexpr u32 kStreamCtas = sizeof(W) == 4 ? 4 : 2;
// The same for kernels that need more registers.
template <typename W>
constexpr u32 kRareCtas = sizeof(W) == 4 ? 3 : 2;

#define ZFP(name, Word, rank, Lines, ctas)                                                                    \
    extern "C" __global__ void __launch_bounds__(kZfpThreads, ctas)                                         \
        zfp_compress_##name(const __grid_constant__ CompressArgs<Chunk> args) {                              \
        zfp_compress<Word, rank, Lines>(args);                                                               \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_compress_##name##_info =                                      \
        zfp_launch(sizeof(StreamShared<Word, rank>));                                                        \
    extern "C" __global__ void __launch_bounds__(kZfpThreads, ctas)                                         \
        zfp_decompress_##name(const __grid_constant__ DecompressArgs<Chunk> args) {                          \
        zfp_decompress<Word, rank, Lines, WholeArray<Word, kOwnAxes<rank>>>(args);                           \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_decompress_##name##_info = {                                  \
        kZfpThreads, sizeof(DecodeShared<Word, rank>), 0, 1, 0, kDecompressScratch, 0};                      \
    extern "C" __global__ void __launch_bounds__(kZfpThreads, 2)                                             \
        zfp_region_##name(const __grid_constant__ RegionArgs<Chunk> args) {                                  \
        zfp_decompress<Word, rank, Lines, PartOfArray<Word, kOwnAxes<rank>>>(args);                          \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_region_##name##_info = {                                      \
        kZfpThreads, sizeof(DecodeShared<Word, rank>), 0, 1, 0, kDecompressScratch, 0};

#define ZFP_FINISH(name, Word, rank)                                                                         \
    extern "C" __global__ void __launch_bounds__(kZfpThreads, kRareCtas<Word>)                               \
        zfp_finish_##name(const __grid_constant__ CompressArgs<Chunk> args) {                                \
        zfp_finish<Word, rank>(args);                                                                        \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_finish_##name##_info = zfp_launch(sizeof(FinishShared<Word, rank>));

#define ZFP_RANGE(name, Word)                                                                                \
    extern "C" __global__ void __launch_bounds__(kRangeThreads, 4)                                           \
        zfp_range_##name(const __grid_constant__ CompressArgs<Chunk> args) {                                 \
        zfp_find_range<Word>(args);                                                                          \
    }                                                                                                        \
    extern "C" __device__ const LaunchInfo zfp_range_##name##_info = zfp_launch(sizeof(RangeShared<Word>), kRangeThreads, 1);

extern "C" __global__ void __launch_bounds__(kZfpThreads) zfp_store(const __grid_constant__ CompressArgs<Chunk> args) { zfp_store_chunk(args); }
extern "C" __device__ const LaunchInfo zfp_store_info = zfp_launch(0);

ZFP_RANGE(u32, u32)
ZFP_RANGE(u64, u64)
ZFP_FINISH(u32_1d, u32, 1)
ZFP_FINISH(u32_2d, u32, 2)
ZFP_FINISH(u32_3d, u32, 3)
ZFP_FINISH(u32_4d, u32, 4)
ZFP_FINISH(u64_1d, u64, 1)
ZFP_FINISH(u64_2d, u64, 2)
ZFP_FINISH(u64_3d, u64, 3)
ZFP_FINISH(u64_4d, u64, 4)
ZFP(u32_1d, u32, 1, Lossy, (kStreamCtas<u32, 1>))
ZFP(u32_2d, u32, 2, Lossy, (kStreamCtas<u32, 2>))
ZFP(u32_3d, u32, 3, Lossy, (kStreamCtas<u32, 3>))
ZFP(u32_4d, u32, 4, Lossy, (kStreamCtas<u32, 4>))
ZFP(u64_1d, u64, 1, Lossy, (kStreamCtas<u64, 1>))
ZFP(u64_2d, u64, 2, Lossy, (kStreamCtas<u64, 2>))
ZFP(u64_3d, u64, 3, Lossy, (kStreamCtas<u64, 3>))
ZFP(u64_4d, u64, 4, Lossy, (kStreamCtas<u64, 4>))
ZFP(lossless_u32_1d, u32, 1, Reversible, kRareCtas<u32>)
ZFP(lossless_u32_2d, u32, 2, Reversible, kRareCtas<u32>)
ZFP(lossless_u32_3d, u32, 3, Reversible, kRareCtas<u32>)
ZFP(lossless_u32_4d, u32, 4, Reversible, kRareCtas<u32>)
ZFP(lossless_u64_1d, u64, 1, Reversible, kRareCtas<u64>)
ZFP(lossless_u64_2d, u64, 2, Reversible, kRareCtas<u64>)
ZFP(lossless_u64_3d, u64, 3, Reversible, kRareCtas<u64>)
ZFP(lossless_u64_4d, u64, 4, Reversible, kRareCtas<u64>)
