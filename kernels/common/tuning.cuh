// Numbers chosen by measurement, per architecture. All other sizes follow from them.

#pragma once

#include "types.cuh"

// Asynchronous copies from global to shared memory (sm_80 and later) pay only with separate input
// and output buffers. Where a CTA cannot have that much shared memory, one buffer serves for both.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800 || __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
constexpr bool kAsyncCopy = false;
constexpr u32 kMaxSharedBytes = 64 << 10;
#else
constexpr bool kAsyncCopy = true;
constexpr u32 kMaxSharedBytes = 163 << 10;
#endif

// Output buffers per CTA of a compressing kernel: with two, the compute warps fill one while the writer
// warps empty the other.
constexpr u32 kStages = kAsyncCopy ? 2 : 1;

// Warps that copy output, per CTA of a compressing kernel. Divides its number of compute warps.
constexpr u32 kWriterWarps = 2;

// CTAs per multiprocessor for which the register count of a compressing kernel is limited.
constexpr u32 kCompressCtas = 2;

// The same for quant with words of 32 and 64 bits: as many as fit in shared memory on sm_90. Without
// asynchronous copies, shared memory holds at most two CTAs of 32-bit words.
constexpr u32 kQuantCtasOfU32 = kAsyncCopy ? 6 : 4, kQuantCtasOfU64 = 3;

// A decompressing CTA has 128 threads per block of f32, 256 per block of f64. Measured on sm_90.
// Other architectures get the largest number that causes no spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr u32 kDecompressBlocksPerSm = 10;
#else
constexpr u32 kDecompressBlocksPerSm = 6;
#endif
template <typename W, u32 kBlocks>
constexpr u32 kDecompressCtas = kDecompressBlocksPerSm * 4 / sizeof(W) / kBlocks;

// Slots per chunk. Every tile of a decompression adds its sums to one slot, and the slots are added
// to the chunk's totals: atomic operations at one address are slow. With the totals alone, they
// took a tenth of the time.
constexpr u32 kSlots = 31;

// Products of sparse matrices: threads per CTA, and CTAs per multiprocessor for which registers are
// limited. Each slice is a chain of dependent loads, so more slices in flight are faster. Measured
// on sm_90. Other architectures get the largest number that causes no spills.
constexpr u32 kSparseThreads = 256;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
template <u32 Most>
constexpr u32 kSparseCtas = Most;
#else
template <u32 Most>
constexpr u32 kSparseCtas = Most < 3 ? Most : 3;
#endif
