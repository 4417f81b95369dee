// Entry points and launch parameters of the kernels that decompress at level max of quant.

#include "max.cuh"

// kCtas: minimum number of resident CTAs per multiprocessor, for __launch_bounds__, which limits
// the registers per thread accordingly.
#define MAX_DECOMPRESS(name, Word, kInArray, kCtas)                                              \
    extern "C" __global__ void __launch_bounds__(kWarp, kCtas)                                     \
        quant_max_decompress_##name(const __grid_constant__ DecompressArgs<Chunk> args) {          \
        quant_max_decompress<Word, kInArray>(args);                                                \
    }                                                                                            \
    extern "C" __device__ const LaunchInfo quant_max_decompress_##name##_info = kMaxInfo<Word>;

MAX_DECOMPRESS(u32, u32, true, 16)
MAX_DECOMPRESS(u64, u64, true, 12)
MAX_DECOMPRESS(short, u32, false, 16)

#define MAX_REGION(name, Word, kCtas)                                                            \
    extern "C" __global__ void __launch_bounds__(kWarp, kCtas)                                     \
        quant_max_region_##name(const __grid_constant__ RegionArgs<Chunk> args) {                  \
        quant_max_decompress_region<Word>(args);                                                   \
    }                                                                                            \
    extern "C" __device__ const LaunchInfo quant_max_region_##name##_info = kMaxInfo<Word>;

MAX_REGION(u32, u32, 12)
MAX_REGION(u64, u64, 12)
