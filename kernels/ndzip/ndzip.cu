// Entry points of the ndzip kernels, and how to launch them. The bodies are templates over word and rank.

#include "compress.cuh"
#include "decompress.cuh"

#define NDZIP_ENTRY_POINTS(type, Word, rank)                                                                       \
    extern "C" __global__ void __launch_bounds__(kCompressThreads, kCompressCtas)                                   \
        ndzip_compress_##type##_##rank##d(const __grid_constant__ NdzipCompressArgs args) {                         \
        compress<Word, rank>(args);                                                                                 \
    }                                                                                                               \
    extern "C" __global__ void __launch_bounds__(kDecompressThreads<Word>, kDecompressCtas / Type<Word>::kParts)    \
        ndzip_decompress_##type##_##rank##d(const __grid_constant__ NdzipDecompressArgs args) {                     \
        decompress<Word, rank>(args);                                                                               \
    }                                                                                                               \
    extern "C" __device__ const LaunchInfo ndzip_compress_##type##_##rank##d_info = kCompressInfo<Word>;            \
    extern "C" __device__ const LaunchInfo ndzip_decompress_##type##_##rank##d_info = kDecompressInfo<Word>;

NDZIP_ENTRY_POINTS(f32, u32, 1)
NDZIP_ENTRY_POINTS(f32, u32, 2)
NDZIP_ENTRY_POINTS(f32, u32, 3)
NDZIP_ENTRY_POINTS(f64, u64, 1)
NDZIP_ENTRY_POINTS(f64, u64, 2)
NDZIP_ENTRY_POINTS(f64, u64, 3)
