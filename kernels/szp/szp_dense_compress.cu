// Entry points of the kernels that compress at level dense of szp, and how to launch them.

#include "block_place.cuh"
#include "dense_predict.cuh"
#include "dense_write.cuh"

#define DENSE_COMPRESS(name, Word)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(kRangeThreads, 4) szp_dense_range_##name(const __grid_constant__ CompressArgs<Chunk> args) { \
        find_range<Word, kLogDense>(args);                                                                                                   \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_dense_range_##name##_info = blocks_launch<DenseBlock<Word>>(kRangeThreads, sizeof(RangeShared<Word>), 1);  \
    extern "C" __global__ void __launch_bounds__(kPredictThreads<Word>, kPredictCtas)                                                                       \
        szp_dense_predict_##name(const __grid_constant__ CompressArgs<Chunk> args) {                                                         \
        szp_dense_predict<Word>(args);                                                                                                       \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_dense_predict_##name##_info =                                                                 \
        blocks_launch<DenseBlock<Word>>(kPredictThreads<Word>, sizeof(DensePredictShared<Word>), 0);                                                            \
    extern "C" __global__ void __launch_bounds__(kWarp, 16) szp_dense_encode_##name(const __grid_constant__ CompressArgs<Chunk> args) {      \
        szp_dense_encode<Word>(args);                                                                                                        \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_dense_encode_##name##_info = blocks_launch<DenseBlock<Word>>(kWarp, sizeof(DenseEncodeShared<Word>), 0);   \
    extern "C" __global__ void __launch_bounds__(kPlaceThreads, 4) szp_dense_place_##name(const __grid_constant__ CompressArgs<Chunk> args) { \
        place_blocks<Word, DenseLevel<Word>>(args);                                                                                                         \
    }                                                                                                                                        \
    extern "C" __device__ const LaunchInfo szp_dense_place_##name##_info = blocks_launch<DenseBlock<Word>>(kPlaceThreads, sizeof(PlaceShared), 1);

DENSE_COMPRESS(u32, u32)
DENSE_COMPRESS(u64, u64)
