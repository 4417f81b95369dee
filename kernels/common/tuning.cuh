// The numbers that measurement chose, per architecture. Everything else follows from them.

#pragma once

#include "types.cuh"

// Asynchronous copies from global to shared memory, which exist from sm_80 on, pay only with buffers for input and
// output. Where a CTA cannot have so much shared memory, one buffer serves for both.
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

// CTAs per multiprocessor that registers of a compressing kernel are limited for.
constexpr u32 kCompressCtas = 2;

// The same of szp for words of 32 and 64 bits: as many as shared memory holds on sm_90. Where there is too little of it for
// asynchronous copies, it holds two of the first at most.
constexpr u32 kSzpCtasOfU32 = kAsyncCopy ? 6 : 4, kSzpCtasOfU64 = 3;

// A decompressing CTA has 128 threads for each block of f32, 256 for f64. Measured on sm_90; elsewhere as many as do
// not spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr u32 kDecompressBlocksPerSm = 10;
#else
constexpr u32 kDecompressBlocksPerSm = 6;
#endif
template <typename W, u32 kBlocks>
constexpr u32 kDecompressCtas = kDecompressBlocksPerSm * 4 / sizeof(W) / kBlocks;

// Every tile of a decompression adds its sums to one of so many slots of its chunk, and these to the chunk's
// totals: atomic operations at one address are slow, and with the totals alone they took a tenth of the time.
constexpr u32 kSlots = 31;

// Products of sparse matrices: threads of a CTA, and CTAs that registers are limited for. Each slice is a chain of loads that wait for one
// another, so the more of them are under way, the faster. Measured on sm_90; elsewhere as many as do not spill.
constexpr u32 kSparseThreads = 256;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
template <u32 Most>
constexpr u32 kSparseCtas = Most;
#else
template <u32 Most>
constexpr u32 kSparseCtas = Most < 3 ? Most : 3;
#endif
