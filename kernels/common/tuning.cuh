// The numbers that measurement chose, per architecture. Everything else follows from them.

#pragma once

#include "types.cuh"

// Asynchronous copies from global to shared memory exist from sm_80 on. Without them, and with the
// 64 KiB of shared memory that sm_75 has, compression uses one buffer for input and output.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kAsyncCopy = false;
#else
constexpr bool kAsyncCopy = true;
#endif

// Output buffers per CTA of a compressing kernel: with two, the compute warps fill one while the writer
// warp empties the other.
constexpr u32 kStages = kAsyncCopy ? 2 : 1;

// Warps that copy output, per CTA of a compressing kernel. Divides its number of compute warps.
#ifndef KW
#define KW 2
#endif
constexpr u32 kWriterWarps = KW;

// CTAs per multiprocessor that registers are limited for. Shared memory allows no more when compressing.
constexpr u32 kCompressCtas = 2;
// f32: CTAs of 128 threads; f64: half as many of 256.
#ifndef DC
#define DC 8
#endif
#ifndef DB
#define DB 8
#endif
constexpr u32 kDecompressCtas = DC;
// Loads that a thread of a decompressing kernel has in flight.
constexpr u32 kDecompressBatch = DB;
