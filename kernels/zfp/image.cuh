// Layout of the stream's words in shared memory.

#pragma once

#include "../common/types.cuh"

// Index in shared memory of word i of the stream. Units of four words stay together. The
// permutation avoids most bank conflicts of threads whose words are a power of two apart.
__device__ __forceinline__ u32 image_place(u32 i) { return i ^ (i >> 5 & 7) << 2; }
