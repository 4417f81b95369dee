// Entry points and launch parameters of the kernels that compress at level max of quant.

#include "block_place.cuh"
#include "max_find.cuh"
#include "max_load.cuh"
#include "max_write.cuh"

// kWarpCtas: for passes with CTAs of one warp, the minimum number of resident CTAs per
// multiprocessor, for __launch_bounds__, which limits the registers per thread accordingly.
#define MAX_COMPRESS(name, Word, kWarpCtas)                                                                                               \
    BLOCKS_PASS(quant_max_range_##name, MaxBlock<Word>, kRangeThreads, 4, RangeShared<Word>, 1, find_range<Word, kLogMax>)                  \
    BLOCKS_PASS(quant_max_load_##name, MaxBlock<Word>, kMaxLoadThreads<Word>, kMaxLoadCtas, MaxLoadShared<Word>, 0, quant_max_load<Word>)     \
    BLOCKS_PASS(quant_max_find_##name, MaxBlock<Word>, kWarp, kWarpCtas, MaxFindShared<Word>, 0, quant_max_find<Word>)                        \
    BLOCKS_PASS(quant_max_write_##name, MaxBlock<Word>, kWarp, kWarpCtas, MaxWriteShared<Word>, 0, quant_max_write<Word>)                     \
    BLOCKS_PASS(quant_max_place_##name, MaxBlock<Word>, kPlaceThreads, 4, PlaceShared, 1, place_blocks<Word, MaxLevel<Word>>)

MAX_COMPRESS(u32, u32, 16)
MAX_COMPRESS(u64, u64, 8)
