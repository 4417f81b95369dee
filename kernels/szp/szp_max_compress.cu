// Entry points of the kernels that compress at level max of szp, and how to launch them.

#include "block_place.cuh"
#include "max_find.cuh"
#include "max_load.cuh"
#include "max_write.cuh"

// The last one is how many CTAs per multiprocessor registers are limited for, where each is a warp.
#define MAX_COMPRESS(name, Word, kWarpCtas)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(kRangeThreads, 4) szp_max_range_##name(const __grid_constant__ CompressArgs<Chunk> args) {  \
        find_range<Word, kLogMax>(args);                                                                                                     \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_max_range_##name##_info = blocks_launch<MaxBlock<Word>>(kRangeThreads, sizeof(RangeShared<Word>), 1);      \
    extern "C" __global__ void __launch_bounds__(kMaxLoadThreads<Word>, kMaxLoadCtas)                                                        \
        szp_max_load_##name(const __grid_constant__ CompressArgs<Chunk> args) {                                                              \
        szp_max_load<Word>(args);                                                                                                            \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_max_load_##name##_info = blocks_launch<MaxBlock<Word>>(kMaxLoadThreads<Word>, sizeof(MaxLoadShared<Word>), 0); \
    extern "C" __global__ void __launch_bounds__(kWarp, kWarpCtas) szp_max_find_##name(const __grid_constant__ CompressArgs<Chunk> args) {   \
        szp_max_find<Word>(args);                                                                                                            \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_max_find_##name##_info = blocks_launch<MaxBlock<Word>>(kWarp, sizeof(MaxFindShared<Word>), 0);             \
    extern "C" __global__ void __launch_bounds__(kWarp, kWarpCtas) szp_max_write_##name(const __grid_constant__ CompressArgs<Chunk> args) {  \
        szp_max_write<Word>(args);                                                                                                           \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_max_write_##name##_info = blocks_launch<MaxBlock<Word>>(kWarp, sizeof(MaxWriteShared<Word>), 0);           \
    extern "C" __global__ void __launch_bounds__(kPlaceThreads, 4) szp_max_place_##name(const __grid_constant__ CompressArgs<Chunk> args) {  \
        place_blocks<Word, MaxLevel<Word>>(args);                                                                                            \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_max_place_##name##_info = blocks_launch<MaxBlock<Word>>(kPlaceThreads, sizeof(PlaceShared), 1);

MAX_COMPRESS(u32, u32, 16)
MAX_COMPRESS(u64, u64, 8)
