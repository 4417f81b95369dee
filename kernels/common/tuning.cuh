// Numbers chosen by measurement, per architecture. All other sizes follow from them.

#pragma once

#include "types.cuh"

// Asynchronous copies from global to shared memory (sm_80 and later) are faster only with separate
// input and output buffers. If a CTA cannot have enough shared memory for two, one buffer serves
// for both.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800 || __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
constexpr bool kAsyncCopy = false;
constexpr u32 kMaxSharedBytes = 64 << 10;
#else
constexpr bool kAsyncCopy = true;
constexpr u32 kMaxSharedBytes = 163 << 10;
#endif

// Output buffers per CTA of a compressing kernel. With two buffers, the compute warps fill one
// while the writer warps empty the other.
constexpr u32 kStages = kAsyncCopy ? 2 : 1;

// Warps per CTA of a compressing kernel that copy output. Must divide the number of compute warps.
constexpr u32 kWriterWarps = 2;

// Minimum number of resident CTAs per multiprocessor of a compressing kernel, for
// __launch_bounds__, which limits the registers per thread accordingly.
constexpr u32 kCompressCtas = 2;

// The same for quant, with words of 32 and 64 bits. On sm_90, shared memory holds this many CTAs.
// Without asynchronous copies, the limit for 32-bit words is lower, because multiprocessors have
// less shared memory.
constexpr u32 kQuantCtasOfU32 = kAsyncCopy ? 6 : 4, kQuantCtasOfU64 = 3;

// Minimum number of resident f32 blocks per multiprocessor of a decompressing kernel; half as many
// f64 blocks. __launch_bounds__ limits the registers accordingly. A CTA has 128 threads per block
// of f32, 256 per block of f64. The value for sm_90 was measured. Other architectures get the
// largest number that causes no spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr u32 kDecompressBlocksPerSm = 10;
#else
constexpr u32 kDecompressBlocksPerSm = 6;
#endif
template <typename W, u32 kBlocks>
constexpr u32 kDecompressCtas = kDecompressBlocksPerSm * 4 / sizeof(W) / kBlocks;

// The same for huffman and cci, whose CTAs decompress a block each. For huffman on sm_90, 16 CTAs were
// faster than 12; 20 were not faster.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr u32 kHuffmanCtas = 16, kCciCtas = 14;
#else
constexpr u32 kHuffmanCtas = 8, kCciCtas = 8;
#endif

// Slots per chunk. Every decompressed tile adds its sums to one slot, and the slots are added to
// the chunk's totals. This spreads the atomic operations, which are slow at a single address:
// without slots, they took a tenth of the decompression time.
constexpr u32 kSlots = 31;

// Products of sparse matrices: threads per CTA, and minimum number of resident CTAs per
// multiprocessor, for __launch_bounds__, which limits the registers per thread accordingly. Each
// slice is a chain of dependent loads, so more slices in flight are faster. On sm_90, `Most`
// applies, which was measured for each kernel. Other architectures get the largest number that
// causes no spills.
constexpr u32 kSparseThreads = 256;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
template <u32 Most>
constexpr u32 kSparseCtas = Most;
#else
template <u32 Most>
constexpr u32 kSparseCtas = Most < 3 ? Most : 3;
#endif
