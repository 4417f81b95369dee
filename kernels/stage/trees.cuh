// Trees of Huffman codes, made by one thread from leaves in the order of their weights. The twin of src/stage/entropy/huffman.rs, which
// says how they come about, so that they are the same everywhere.

#pragma once

#include "../common/types.cuh"

// Merges the two lightest of n leaves and of nodes until one is left; of equally light ones leaves come first. The weights of leaves are
// above kShift bits; nodes get theirs, and both get the numbers of the nodes above them.
template <u32 kShift, typename Node>
__device__ __forceinline__ void merge_leaves(const u32* leaves, u32 n, u32* weights, Node* parents_of_leaves, Node* parents) {
    constexpr u32 kNone = ~0u;
    u32 leaf = 0, merged = 0, next_leaf = n > 0 ? leaves[0] >> kShift : kNone, next_merged = kNone;
#pragma unroll 1
    for (u32 node = 0; node + 1 < n; ++node) {
        u32 weight = 0;
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            if (next_leaf <= next_merged) {
                weight += next_leaf;
                parents_of_leaves[leaf++] = static_cast<Node>(node);
                next_leaf = leaf < n ? leaves[leaf] >> kShift : kNone;
            } else {
                weight += next_merged;
                parents[merged++] = static_cast<Node>(node);
                next_merged = merged < node ? weights[merged] : kNone;
            }
        }
        weights[node] = weight;
        if (merged == node) next_merged = weight;
    }
}

// How deep a leaf is. A single one has a code of one bit, too.
template <typename Node>
__device__ __forceinline__ u32 depth_of_leaf(u32 leaf, u32 n, const Node* parents_of_leaves, const Node* parents) {
    u32 depth = 1;
    if (n < 2) return depth;
#pragma unroll 1
    for (u32 node = parents_of_leaves[leaf]; node + 2 < n; node = parents[node]) ++depth;
    return depth;
}
