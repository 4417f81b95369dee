// Words of the stream in shared memory.

#pragma once

#include "../common/types.cuh"

// Where word i is. Threads have words that are a power of two apart, which so are in different banks.
__device__ __forceinline__ u32 image_place(u32 i, u32 mask = 31) { return i ^ (i >> 5 & mask); }
