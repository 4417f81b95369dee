// Lengths of Huffman codes, as many bits as are allowed at most. The twin of src/stage/entropy/huffman.rs, which says how they come about,
// so that they are the same everywhere.
//
// Leaves are sorted by all threads. One merges them, which waits for memory all the time: other CTAs are to have work meanwhile. Then
// each leaf counts the nodes above it. Where a code is too long, weights are halved, and all is done again.

#pragma once

#include "../common/warp.cuh"

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
    unsigned short parents_of_leaves[kSymbols], parents[kSymbols];
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
            if (threadIdx.x == 0) merge(n);
            __syncthreads();
            bool is_long = false;
            for (u32 leaf = threadIdx.x; leaf < n; leaf += kThreads) {
                const u32 length = depth(leaf, n);
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

    // Merges the two lightest of leaves and nodes until one is left, by one thread. Of equally light ones leaves come first.
    __device__ __forceinline__ void merge(u32 n) {
        constexpr u32 kNone = ~0u;
        u32 leaf = 0, merged = 0, next_leaf = leaves[0] >> kSymbolBits, next_merged = kNone;
#pragma unroll 1
        for (u32 node = 0; node + 1 < n; ++node) {
            u32 weight = 0;
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                if (next_leaf <= next_merged) {
                    weight += next_leaf;
                    parents_of_leaves[leaf++] = static_cast<unsigned short>(node);
                    next_leaf = leaf < n ? leaves[leaf] >> kSymbolBits : kNone;
                } else {
                    weight += next_merged;
                    parents[merged++] = static_cast<unsigned short>(node);
                    next_merged = merged < node ? weights[merged] : kNone;
                }
            }
            weights[node] = weight;
            if (merged == node) next_merged = weight;
        }
    }
    // How many nodes are above a leaf.
    __device__ __forceinline__ u32 depth(u32 leaf, u32 n) const {
        u32 depth = 1;
#pragma unroll 1
        for (u32 node = parents_of_leaves[leaf]; node + 2 < n; node = parents[node]) ++depth;
        return depth;
    }
};
