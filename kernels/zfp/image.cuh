// Words of the stream in shared memory.

#pragma once

#include "../common/types.cuh"

// Place of word i. Units of four words stay together. Words of threads that are a power of two
// apart are in different banks.
__device__ __forceinline__ u32 image_place(u32 i) { return i ^ (i >> 5 & 7) << 2; }
