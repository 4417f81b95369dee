// Entry points and launch parameters of the kernels that decompress at level dense of quant.

#include "dense.cuh"

// kCtas: minimum number of resident CTAs per multiprocessor, for __launch_bounds__, which limits
// the registers per thread accordingly.
#define DENSE_DECOMPRESS(name, Word, kInArray, kCtas)                                            \
    extern "C" __global__ void __launch_bounds__(kDenseThreads, kCtas)                             \
        quant_dense_decompress_##name(const __grid_constant__ DecompressArgs<Chunk> args) {        \
        quant_dense_decompress<Word, kInArray>(args);                                              \
    }                                                                                            \
    extern "C" __device__ const LaunchInfo quant_dense_decompress_##name##_info = kDenseInfo<Word, kInArray>;

DENSE_DECOMPRESS(u32, u32, true, 16)
DENSE_DECOMPRESS(u64, u64, true, 12)
DENSE_DECOMPRESS(short, u32, false, 12)

#define DENSE_REGION(name, Word)                                                                 \
    extern "C" __global__ void __launch_bounds__(kDenseThreads, 10)                                \
        quant_dense_region_##name(const __grid_constant__ RegionArgs<Chunk> args) {                \
        quant_dense_decompress_region<Word>(args);                                                 \
    }                                                                                            \
    extern "C" __device__ const LaunchInfo quant_dense_region_##name##_info = kDenseInfo<Word, false>;

DENSE_REGION(u32, u32)
DENSE_REGION(u64, u64)
