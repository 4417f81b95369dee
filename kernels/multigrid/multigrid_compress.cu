// Entry points of the kernels that compress by multigrid, and how to launch them.

#include "choose.cuh"
#include "layers_write.cuh"
#include "refine_write.cuh"

#define PASS(name, kThreads, kCtas, kShared, kPersistent, ...)                                                               \
    extern "C" __global__ void __launch_bounds__(kThreads, kCtas) name(const __grid_constant__ CompressArgs<Chunk> args) { \
        __VA_ARGS__(args);                                                                                                 \
    }                                                                                                                      \
    extern "C" __device__ const LaunchInfo name##_info = compress_launch(kThreads, kShared, kPersistent);

#define PASSES(bits)                                                                                                              \
    PASS(multigrid_range_u##bits, kRangeThreads, 4, 0, 1, multigrid_find_range<u##bits>)                                                  \
    PASS(multigrid_first_u##bits, kChooseThreads, 4, 0, 1, multigrid_find_first<u##bits>)                                                 \
    PASS(multigrid_choose_u##bits, kChooseThreads, 4, 0, 1, multigrid_choose<u##bits, false>)                                             \
    PASS(multigrid_refine_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, multigrid_refine_write<u##bits, false, false>)                  \
    PASS(multigrid_refine_lists_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, multigrid_refine_write<u##bits, false, true>)             \
    PASS(multigrid_count_u##bits, kCountThreads, bits == 32 ? 3 : 2, sizeof(CountShared<u##bits>), 0, multigrid_count<u##bits>)                            \
    PASS(multigrid_string_u##bits, kStringThreads, 12, sizeof(StringShared<u##bits>), 0, multigrid_write_string<u##bits>)                          \
    PASS(multigrid_exact_u##bits, kExactThreads, 4, 0, 0, multigrid_measure_exact<u##bits, false>)                                        \
    PASS(multigrid_place_u##bits, kPlaceThreads, 3, sizeof(PlaceShared), 1, multigrid_place<u##bits>)                                       \
    PASS(multigrid_layers_choose_u##bits, kChooseThreads, 4, 0, 1, multigrid_choose<u##bits, true>)                                        \
    PASS(multigrid_layers_refine_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, multigrid_refine_write<u##bits, true, false>)            \
    PASS(multigrid_layers_refine_lists_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, multigrid_refine_write<u##bits, true, true>)       \
    PASS(multigrid_layers_exact_u##bits, kExactThreads, 4, 0, 0, multigrid_measure_exact<u##bits, true>)                                   \
    PASS(multigrid_layers_place_u##bits, kPlaceThreads, 3, sizeof(PlaceShared), 1, multigrid_place_layer<u##bits>)                         \
    PASS(multigrid_layers_next_u##bits, kNextThreads, 4, 0, 0, multigrid_next_layer<u##bits>)                                              \
    PASS(multigrid_layers_heads_u##bits, kPlaceThreads, 3, sizeof(PlaceShared), 1, multigrid_write_heads<u##bits>)

PASSES(32)
PASSES(64)
