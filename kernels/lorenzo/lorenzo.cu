// Entry points of the lorenzo kernels, and their launch parameters. The bodies are templates over
// the word and the log2 of the block's elements.

#include "../stage/fold_choice.cuh"
#include "compress.cuh"
#include "decompress.cuh"

// Minimum number of resident CTAs per multiprocessor, for __launch_bounds__, which limits the
// registers per thread accordingly. On sm_90: as many CTAs as fit in shared memory. Elsewhere: the
// largest number that causes no spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr u32 kSharedPerSm = 228 << 10, kReservedPerCta = 1 << 10;
#else
constexpr u32 kSharedPerSm = 0, kReservedPerCta = 0;
#endif
template <typename W, u32 kLog>
constexpr u32 kLorenzoDecompressCtas = kSharedPerSm ? kSharedPerSm / (sizeof(DecompressShared<W, kLog>) + kReservedPerCta) : 16 / sizeof(W);

#define LORENZO_DECOMPRESS(name, Word, log)                                                                                  \
    extern "C" __global__ void __launch_bounds__((DecompressShared<Word, log>::kThreads), kLorenzoDecompressCtas<Word, log>) \
        lorenzo_decompress_##name##_##log(const __grid_constant__ DecompressArgs<Blocks> args) {                             \
        decompress<Word, log>(args);                                                                                         \
    }                                                                                                                        \
    extern "C" __device__ const LaunchInfo lorenzo_decompress_##name##_##log##_info = kDecompressInfo<Word, log>;

LORENZO_DECOMPRESS(u32, u32, 12)
LORENZO_DECOMPRESS(u32, u32, 13)
LORENZO_DECOMPRESS(u32, u32, 14)
LORENZO_DECOMPRESS(u64, u64, 12)
LORENZO_DECOMPRESS(u64, u64, 13)
LORENZO_DECOMPRESS(u64, u64, 14)

// Regions also compute the output position of each element, which takes registers. So fewer CTAs
// must be resident.
template <typename W, u32 kLog>
constexpr u32 kLorenzoRegionCtas = kLorenzoDecompressCtas<W, kLog> > 2 ? kLorenzoDecompressCtas<W, kLog> - 2 : 1;

#define LORENZO_REGION(name, Word, log)                                                                                  \
    extern "C" __global__ void __launch_bounds__((DecompressShared<Word, log>::kThreads), kLorenzoRegionCtas<Word, log>) \
        lorenzo_region_##name##_##log(const __grid_constant__ RegionArgs<Blocks> args) {                                 \
        decompress_region<Word, log>(args);                                                                              \
    }                                                                                                                    \
    extern "C" __device__ const LaunchInfo lorenzo_region_##name##_##log##_info = kDecompressInfo<Word, log>;

LORENZO_REGION(u32, u32, 12)
LORENZO_REGION(u32, u32, 13)
LORENZO_REGION(u32, u32, 14)
LORENZO_REGION(u64, u64, 12)
LORENZO_REGION(u64, u64, 13)
LORENZO_REGION(u64, u64, 14)

template <typename W, u32 kLog>
constexpr u32 kLorenzoCompressCtas = kSharedPerSm ? kSharedPerSm / (sizeof(LorenzoShared<BlocksOf<W, kLog>>) + kReservedPerCta)
                                                  : (sizeof(W) == 4 ? 4 : 3) >> (kLog - 12);

#define LORENZO_COMPRESS(name, Word, log)                                                                                \
    extern "C" __global__ void __launch_bounds__((BlocksOf<Word, log>::kThreads), kLorenzoCompressCtas<Word, log>)       \
        lorenzo_compress_##name##_##log(const __grid_constant__ CompressArgs<Blocks> args) {                             \
        compress<Word, log>(args);                                                                                       \
    }                                                                                                                    \
    extern "C" __device__ const LaunchInfo lorenzo_compress_##name##_##log##_info = kLorenzoCompressInfo<Word, log>;

LORENZO_COMPRESS(u32, u32, 12)
LORENZO_COMPRESS(u32, u32, 13)
LORENZO_COMPRESS(u64, u64, 12)
LORENZO_COMPRESS(u64, u64, 13)

#define LORENZO_CHOOSE(name, Word)                                                                                                             \
    extern "C" __global__ void __launch_bounds__(kChoiceThreads) lorenzo_choose_##name(const __grid_constant__ CompressArgs<FoldChoice> args) { \
        __shared__ u32 bits[2 * kOrders];                                                                                                      \
        Samples<Word, FoldChoice>(args, args.own, bits).choose([](Word word) { return word; });                                                \
    }                                                                                                                                          \
    extern "C" __device__ const LaunchInfo lorenzo_choose_##name##_info = choice_launch(0);

LORENZO_CHOOSE(u32, u32)
LORENZO_CHOOSE(u64, u64)
