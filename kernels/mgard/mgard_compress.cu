// Entry points of the kernels that compress by mgard, and how to launch them.

#include "choose.cuh"
#include "layers_write.cuh"
#include "refine_write.cuh"

#define PASS(name, kThreads, kCtas, kShared, kPersistent, ...)                                                               \
    extern "C" __global__ void __launch_bounds__(kThreads, kCtas) name(const __grid_constant__ CompressArgs<Chunk> args) { \
        __VA_ARGS__(args);                                                                                                 \
    }                                                                                                                      \
    extern "C" __device__ const LaunchInfo name##_info = compress_launch(kThreads, kShared, kPersistent);

#define PASSES(bits)                                                                                                              \
    PASS(mgard_range_u##bits, kRangeThreads, 4, 0, 1, mgard_find_range<u##bits>)                                                  \
    PASS(mgard_first_u##bits, kChooseThreads, 4, 0, 1, mgard_find_first<u##bits>)                                                 \
    PASS(mgard_choose_u##bits, kChooseThreads, 4, 0, 1, mgard_choose<u##bits, false>)                                             \
    PASS(mgard_refine_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, mgard_refine_write<u##bits, false, false>)                  \
    PASS(mgard_refine_lists_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, mgard_refine_write<u##bits, false, true>)             \
    PASS(mgard_count_u##bits, kCountThreads, bits == 32 ? 3 : 2, sizeof(CountShared<u##bits>), 0, mgard_count<u##bits>)                            \
    PASS(mgard_string_u##bits, kWarp, 16, sizeof(StringShared<u##bits>), 0, mgard_write_string<u##bits>)                          \
    PASS(mgard_exact_u##bits, kExactThreads, 4, 0, 0, mgard_measure_exact<u##bits, false>)                                        \
    PASS(mgard_place_u##bits, kPlaceThreads, 3, sizeof(PlaceShared), 1, mgard_place<u##bits>)                                       \
    PASS(mgard_layers_choose_u##bits, kChooseThreads, 4, 0, 1, mgard_choose<u##bits, true>)                                        \
    PASS(mgard_layers_refine_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, mgard_refine_write<u##bits, true, false>)            \
    PASS(mgard_layers_refine_lists_u##bits, kWalkThreads, bits == 32 ? 3 : 2, 0, 1, mgard_refine_write<u##bits, true, true>)       \
    PASS(mgard_layers_exact_u##bits, kExactThreads, 4, 0, 0, mgard_measure_exact<u##bits, true>)                                   \
    PASS(mgard_layers_place_u##bits, kPlaceThreads, 3, sizeof(PlaceShared), 1, mgard_place_layer<u##bits>)                         \
    PASS(mgard_layers_next_u##bits, kNextThreads, 4, 0, 0, mgard_next_layer<u##bits>)                                              \
    PASS(mgard_layers_heads_u##bits, kPlaceThreads, 3, sizeof(PlaceShared), 1, mgard_write_heads<u##bits>)

PASSES(32)
PASSES(64)
