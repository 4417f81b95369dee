// Computes the lengths of Huffman codes, limited to a maximum.
//
// All threads sort the leaves. One thread builds a tree; latency limits it, so other CTAs should be
// resident meanwhile. Weights are halved until no code is too long: if there is room, each lane of a
// warp builds the tree of another number of halvings, which takes no more instructions than one
// tree. Then the levels above each leaf are counted.

#pragma once

#include "../common/warp.cuh"
#include "trees.cuh"

// State in shared memory. Symbols are below 2^12; the sum of their counts is below 2^20.
template <u32 kSymbols, u32 kThreads>
struct CodeLengths {
    static constexpr u32 kSymbolBits = 12, kMost = 1u << kSymbolBits;
    static_assert(kSymbols <= kMost, "a leaf is its weight and its symbol");
    // Number of nodes of the trees that are built at the same time. Nodes with the same index in
    // different trees are adjacent in memory.
    static constexpr u32 kTrees = 4, kNodes = kSymbols > 256 * kTrees ? kSymbols : 256 * kTrees;

    union {
        u32 counts[kSymbols];  // occurrences of each symbol
        u32 weights[kNodes];   // of merged nodes
    };
    u32 leaves[kSymbols];             // weight in the bits above the symbol
    unsigned short taken[kNodes];     // leaves consumed before each node was built
    unsigned char lengths[kSymbols];  // the result; 0 for symbols that do not occur
    u32 n_leaves;
    bool is_low[kTrees];  // no code of the tree is too long

    // Computes the lengths for the counted symbols; overwrites the counts. Called by all threads
    // after a barrier; contains barriers, one at the end.
    __device__ __forceinline__ void find(u32 max_bits) {
        if (threadIdx.x == 0) n_leaves = 0;
        __syncthreads();
        for (u32 symbol = threadIdx.x; symbol < kSymbols; symbol += kThreads) {
            if (counts[symbol] > 0) leaves[atomicAdd(&n_leaves, 1)] = counts[symbol] << kSymbolBits | symbol;
            // A single symbol gets a code of one bit.
            lengths[symbol] = counts[symbol] > 0;
        }
        __syncthreads();
        const u32 n = n_leaves;
        if (n < 2) return;
        sort(n);
        const u32 trees = min(kNodes / n, kTrees), tree = threadIdx.x;
        u32 halvings = 0;
        for (;; halvings += trees) {
            if (tree < trees) {
                merge_leaves<kSymbolBits>(leaves, n, weights + tree, taken + tree, halvings + tree, trees);
                // No leaf is deeper than the first one.
                is_low[tree] = depth_of_leaf(0, n, taken + tree, trees) <= max_bits;
            }
            __syncthreads();
            u32 found = 0;
            while (found < trees && !is_low[found]) ++found;
            if (found < trees) {
                halvings += found;
                break;
            }
            __syncthreads();
        }
        // Leaves that now weigh the same are ordered by symbol.
        if (halvings > 0) {
            for (u32 leaf = threadIdx.x; leaf < n; leaf += kThreads) {
                const u32 weight = leaves[leaf] >> kSymbolBits;
                leaves[leaf] = (((weight - 1) >> halvings) + 1) << kSymbolBits | leaves[leaf] % kMost;
            }
            __syncthreads();
            sort(n);
        }
        const unsigned short* const nodes = taken + halvings % trees;
        for (u32 leaf = threadIdx.x; leaf < n; leaf += kThreads) {
            lengths[leaves[leaf] % kMost] = static_cast<unsigned char>(depth_of_leaf(leaf, n, nodes, trees));
        }
        __syncthreads();
    }

    // Sorts n leaves with a bitonic network all of whose comparisons are in the same direction, so
    // that leaves past the end need not exist. Contains barriers.
    __device__ __forceinline__ void sort(u32 n) {
        const u32 padded = 1u << (32 - __clz(n - 1));
#pragma unroll 1
        for (u32 sorted = 2; sorted <= padded; sorted *= 2) {
#pragma unroll 1
            for (u32 step = sorted / 2; step > 0; step /= 2) {
                // The first step compares with the mirror image.
                const u32 mirror = step == sorted / 2 ? sorted - 1 : step;
#pragma unroll 1
                for (u32 pair = threadIdx.x; pair < padded / 2; pair += kThreads) {
                    const u32 i = 2 * pair - (pair & (step - 1)), other = i ^ mirror;
                    if (other >= n) continue;
                    const u32 a = leaves[i], b = leaves[other];
                    if (a > b) leaves[i] = b, leaves[other] = a;
                }
                __syncthreads();
            }
        }
    }
};
