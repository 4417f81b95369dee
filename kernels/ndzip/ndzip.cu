// Entry points of the ndzip kernels, and their launch parameters. The bodies are templates over
// word and rank.

#include "compress.cuh"
#include "decompress.cuh"
#include "region.cuh"

#define NDZIP_COMPRESS(type, Word, rank)                                                       \
    extern "C" __global__ void __launch_bounds__(kCompressThreads, kCompressCtas)              \
        ndzip_compress_##type##_##rank##d(const __grid_constant__ CompressArgs<Blocks> args) { \
        compress<Word, rank>(args);                                                            \
    }                                                                                          \
    extern "C" __device__ const LaunchInfo ndzip_compress_##type##_##rank##d_info = kCompressInfo<Word>;

#define NDZIP_DECOMPRESS(name, Word, rank, blocks)                                                                    \
    extern "C" __global__ void __launch_bounds__((kDecompressThreads<Word, blocks>), (kDecompressCtas<Word, blocks>)) \
        ndzip_decompress_##name(const __grid_constant__ DecompressArgs<Blocks> args) {                                \
        decompress<Word, rank, blocks>(args);                                                                         \
    }                                                                                                                 \
    extern "C" __device__ const LaunchInfo ndzip_decompress_##name##_info = kDecompressInfo<Word, blocks>;

// Regions also compute the output position of each element, which takes registers. So the launch
// bounds require only half as many resident CTAs as for whole arrays.
#define NDZIP_REGION(name, Word, rank)                                                                      \
    extern "C" __global__ void __launch_bounds__((kDecompressThreads<Word, 1>), (kDecompressCtas<Word, 2>)) \
        ndzip_region_##name##_##rank##d(const __grid_constant__ RegionArgs<Blocks> args) {                  \
        decompress_region<Word, rank>(args);                                                                \
    }                                                                                                       \
    extern "C" __device__ const LaunchInfo ndzip_region_##name##_##rank##d_info = kDecompressInfo<Word, 1>;

NDZIP_COMPRESS(f32, u32, 1)
NDZIP_COMPRESS(f32, u32, 2)
NDZIP_COMPRESS(f32, u32, 3)
NDZIP_COMPRESS(f64, u64, 1)
NDZIP_COMPRESS(f64, u64, 2)
NDZIP_COMPRESS(f64, u64, 3)
NDZIP_DECOMPRESS(f32_1d, u32, 1, 1)
NDZIP_DECOMPRESS(f32_2d, u32, 2, 1)
NDZIP_DECOMPRESS(f32_3d, u32, 3, 1)
NDZIP_DECOMPRESS(f32_3d_unaligned, u32, 3, 2)
NDZIP_DECOMPRESS(f64_1d, u64, 1, 1)
NDZIP_DECOMPRESS(f64_2d, u64, 2, 1)
NDZIP_DECOMPRESS(f64_3d, u64, 3, 1)
NDZIP_REGION(f32, u32, 1)
NDZIP_REGION(f32, u32, 2)
NDZIP_REGION(f32, u32, 3)
NDZIP_REGION(f64, u64, 1)
NDZIP_REGION(f64, u64, 2)
NDZIP_REGION(f64, u64, 3)
