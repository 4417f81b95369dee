// Lengths of Huffman codes, as many bits as are allowed at most.
//
// Leaves are sorted by all threads. One makes the tree, which waits for memory all the time: other CTAs are to have work meanwhile. Then
// each leaf counts the levels above it. Where a code is too long, weights are halved, and all is done again.

#pragma once

#include "../common/warp.cuh"
#include "trees.cuh"

// In shared memory, for symbols below 2^12 that occur less than 2^20 times together.
template <u32 kSymbols, u32 kThreads>
struct CodeLengths {
    static constexpr u32 kSymbolBits = 12, kMost = 1u << kSymbolBits;
    static constexpr u32 power_of_two(u32 n) { return n <= 1 ? 1 : 2 * power_of_two((n + 1) / 2); }
    static constexpr u32 kLeaves = power_of_two(kSymbols);
    static_assert(kSymbols <= kMost, "a leaf is its weight and its symbol");

    u32 counts[kSymbols];   // of each symbol
    u32 leaves[kLeaves];    // weights above symbols
    u32 weights[kSymbols];  // of merged nodes
    unsigned short taken[kSymbols];   // leaves, before each node was made
    unsigned char lengths[kSymbols];  // that are found; 0 of symbols that do not occur
    u32 n_leaves;

    // Finds the lengths of the symbols that are counted. By all threads, behind a barrier; barriers, also at the end.
    __device__ __forceinline__ void find(u32 max_bits) {
        if (threadIdx.x == 0) n_leaves = 0;
        __syncthreads();
        for (u32 symbol = threadIdx.x; symbol < kSymbols; symbol += kThreads) {
            if (counts[symbol] > 0) leaves[atomicAdd(&n_leaves, 1)] = counts[symbol] << kSymbolBits | symbol;
            // A single one has a code of one bit, too.
            lengths[symbol] = counts[symbol] > 0;
        }
        __syncthreads();
        const u32 n = n_leaves;
        if (n < 2) return;
        for (;;) {
            sort(n);
            if (threadIdx.x == 0) merge_leaves<kSymbolBits>(leaves, n, weights, taken);
            __syncthreads();
            bool is_long = false;
            for (u32 leaf = threadIdx.x; leaf < n; leaf += kThreads) {
                const u32 length = depth_of_leaf(leaf, n, taken);
                is_long |= length > max_bits;
                lengths[leaves[leaf] % kMost] = static_cast<unsigned char>(length);
            }
            if (!__syncthreads_or(is_long)) return;
            for (u32 leaf = threadIdx.x; leaf < n; leaf += kThreads) {
                const u32 weight = leaves[leaf] >> kSymbolBits;
                leaves[leaf] = (weight + 1) / 2 << kSymbolBits | leaves[leaf] % kMost;
            }
            __syncthreads();
        }
    }

    // Sorts n leaves, by a bitonic network. Barriers.
    __device__ __forceinline__ void sort(u32 n) {
        const u32 padded = 1u << (32 - __clz(n - 1));
        for (u32 i = n + threadIdx.x; i < padded; i += kThreads) leaves[i] = ~0u;
        __syncthreads();
#pragma unroll 1
        for (u32 sorted = 2; sorted <= padded; sorted *= 2) {
#pragma unroll 1
            for (u32 step = sorted / 2; step > 0; step /= 2) {
#pragma unroll 1
                for (u32 pair = threadIdx.x; pair < padded / 2; pair += kThreads) {
                    const u32 i = 2 * pair - (pair & (step - 1)), a = leaves[i], b = leaves[i + step];
                    if ((a > b) == ((i & sorted) == 0)) leaves[i] = b, leaves[i + step] = a;
                }
                __syncthreads();
            }
        }
    }
};
