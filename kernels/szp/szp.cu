// Entry points of the szp kernels, and how to launch them. The bodies are templates over the word.

#include "compress.cuh"
#include "decompress.cuh"
#include "range.cuh"

// CTAs per multiprocessor that registers are limited for.
template <typename W>
constexpr u32 kSzpDecompressCtas = sizeof(W) == 4 ? 7 : 6;
template <typename W>
constexpr u32 kSzpCompressCtas = sizeof(W) == 4 ? kSzpCtasOfU32 : kSzpCtasOfU64;

#define SZP(name, Word)                                                                                \
    extern "C" __global__ void __launch_bounds__(kSzpThreads, kSzpDecompressCtas<Word>)                \
        szp_decompress_##name(const __grid_constant__ DecompressArgs<Chunk> args) {                    \
        szp_decompress<Word>(args);                                                                    \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo szp_decompress_##name##_info = kSzpDecompressInfo<Word>;    \
    extern "C" __global__ void __launch_bounds__(kSzpThreads, kSzpDecompressCtas<Word>)                \
        szp_region_##name(const __grid_constant__ RegionArgs<Chunk> args) {                            \
        szp_decompress_region<Word>(args);                                                             \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo szp_region_##name##_info = kSzpDecompressInfo<Word>;        \
    extern "C" __global__ void __launch_bounds__(kSzpThreads, kSzpCompressCtas<Word>)                  \
        szp_compress_##name(const __grid_constant__ CompressArgs<Chunk> args) {                        \
        szp_compress<Word>(args);                                                                      \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo szp_compress_##name##_info = kSzpCompressInfo<Word>;        \
    extern "C" __global__ void __launch_bounds__(kRangeThreads, 4)                                     \
        szp_range_##name(const __grid_constant__ CompressArgs<Chunk> args) {                           \
        find_range<Word, kLogBlock>(args);                                                                        \
    }                                                                                                  \
    extern "C" __device__ const LaunchInfo szp_range_##name##_info = szp_launch(kRangeThreads, sizeof(RangeShared<Word>));

SZP(u32, u32)
SZP(u64, u64)
