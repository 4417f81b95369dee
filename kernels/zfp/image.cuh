// Words of the stream in shared memory.

#pragma once

#include "../common/types.cuh"

// Where word i is: units of four words stay whole. Threads have words that are a power of two apart, which so are in different banks.
__device__ __forceinline__ u32 image_place(u32 i) { return i ^ (i >> 5 & 7) << 2; }
