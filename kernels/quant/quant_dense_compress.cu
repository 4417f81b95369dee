// Entry points and launch parameters of the kernels that compress at level dense of quant.

#include "block_place.cuh"
#include "dense_predict.cuh"
#include "dense_write.cuh"

#define DENSE_COMPRESS(name, Word)                                                                                                                             \
    BLOCKS_PASS(quant_dense_range_##name, DenseBlock<Word>, kRangeThreads, 4, RangeShared<Word>, 1, find_range<Word, kLogDense>)                                 \
    BLOCKS_PASS(quant_dense_predict_##name, DenseBlock<Word>, kPredictThreads<Word>, kPredictCtas, DensePredictShared<Word>, 0, quant_dense_predict<Word>)         \
    BLOCKS_PASS(quant_dense_encode_##name, DenseBlock<Word>, kEncodeThreads, 16, DenseEncodeShared<Word>, 0, quant_dense_encode<Word>)                                      \
    BLOCKS_PASS(quant_dense_place_##name, DenseBlock<Word>, kPlaceThreads, 4, PlaceShared, 1, place_blocks<Word, DenseLevel<Word>>)

DENSE_COMPRESS(u32, u32)
DENSE_COMPRESS(u64, u64)
