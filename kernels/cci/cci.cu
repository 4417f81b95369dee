// Entry points of the cci kernels, and their launch parameters.

#include "decompress.cuh"

// The entry points for one element size; `name` gives the bits of an element.
#define CCI(name, Type)                                                                                                                     \
    extern "C" __global__ void __launch_bounds__(kCciThreads, kCciCtas) cci_decompress_##name(const __grid_constant__ DecompressArgs<Flat> args) { \
        cci_decompress<Type>(args);                                                                                                         \
    }                                                                                                                                       \
    extern "C" __device__ const LaunchInfo cci_decompress_##name##_info = kCciDecompressInfo<Type>;                                         \
    extern "C" __global__ void __launch_bounds__(kCciThreads, 8) cci_region_##name(const __grid_constant__ RegionArgs<Flat> args) {         \
        cci_decompress_region<Type>(args);                                                                                                  \
    }                                                                                                                                       \
    extern "C" __device__ const LaunchInfo cci_region_##name##_info = kCciDecompressInfo<Type>;

CCI(u32, u32)
CCI(u64, u64)
