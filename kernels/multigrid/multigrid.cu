// Entry points of the kernels that decompress multigrid, and how to launch them.

#include "exact_read.cuh"
#include "numbers_read.cuh"

#define PASS(name, Args, kThreads, kCtas, kShared, kPersistent, ...)                                                 \
    extern "C" __global__ void __launch_bounds__(kThreads, kCtas) name(const __grid_constant__ Args<Chunk> args) { \
        __VA_ARGS__(args);                                                                                         \
    }                                                                                                              \
    extern "C" __device__ const LaunchInfo name##_info = decompress_launch(kThreads, kShared, kPersistent);

// Warps decode numbers sequentially and often wait, so the numbers pass runs as many of them as
// registers and shared memory allow.
#define PASSES(what, Args, bits, kPart)                                                                                                \
    PASS(multigrid_##what##_heads_u##bits, Args, kWarp, 16, 0, 1, multigrid_read_heads<u##bits, kPart>)                                          \
    PASS(multigrid_##what##_numbers_u##bits, Args, kNumbersThreads, 16, sizeof(NumbersShared<u##bits>), 0, multigrid_read_numbers<u##bits, kPart>)         \
    PASS(multigrid_##what##_refine_u##bits, Args, kWalkThreads, 4, 0, 1, multigrid_refine<u##bits, kPart, false>)                                \
    PASS(multigrid_##what##_layers_u##bits, Args, kWalkThreads, 3, 0, 1, multigrid_refine<u##bits, kPart, true>)                                 \
    PASS(multigrid_##what##_exact_u##bits, Args, kExactThreads, 4, 0, 0, multigrid_read_exact<u##bits, kPart>)

PASSES(decompress, DecompressArgs, 32, false)
PASSES(decompress, DecompressArgs, 64, false)
PASSES(region, RegionArgs, 32, true)
PASSES(region, RegionArgs, 64, true)
PASS(multigrid_region_take_u32, RegionArgs, 256, 4, 0, 0, multigrid_take<u32>)
PASS(multigrid_region_take_u64, RegionArgs, 256, 4, 0, 0, multigrid_take<u64>)
