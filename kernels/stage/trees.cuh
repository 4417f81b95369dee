// Builds trees of Huffman codes with one thread, from leaves sorted by weight. The counterpart of
// crates/gridz-codecs/src/stage/entropy/huffman.rs, which defines the order, so that trees are the
// same everywhere.

#pragma once

#include "../common/types.cuh"

// Repeatedly merges the two lightest among n leaves and the nodes built so far, until one node is
// left. On ties, leaves are taken first. A leaf's weight is in the bits above kShift; the sum of
// weights is below 2^30. Weights are halved `halvings` times, rounded up. Nodes are built in
// ascending order of weight, so both nodes and leaves are consumed in order. taken[node * stride]: the
// number of leaves consumed before the node was built. Without branches, so that the lanes of a warp
// can build several trees at once.
template <u32 kShift, typename Count>
__device__ __forceinline__ void merge_leaves(const u32* leaves, u32 n, u32* weights, Count* taken, u32 halvings = 0, u32 stride = 1) {
    constexpr u32 kNone = 1u << 30;
    const auto weight = [&](u32 leaf) { return leaf < n ? (((leaves[leaf] >> kShift) - 1) >> halvings) + 1 : kNone; };
    u32 leaf = 0;
#pragma unroll 1
    for (u32 node = 0; node + 1 < n; ++node) {
        const u32 merged = 2 * node - leaf;
        const u32 leaf_0 = weight(leaf), leaf_1 = weight(leaf + 1);
        const u32 node_0 = merged < node ? weights[merged * stride] : kNone;
        const u32 node_1 = merged + 1 < node ? weights[(merged + 1) * stride] : kNone;
        taken[node * stride] = static_cast<Count>(leaf);
        // Two leaves, two nodes, or one of each.
        weights[node * stride] = min(min(leaf_0 + leaf_1, node_0 + node_1), leaf_0 + node_0);
        leaf += (leaf_0 <= node_1) + (leaf_1 <= node_0);
    }
}

// Depth of a leaf. Leaves and nodes consumed later are never deeper, so the leaves of a level are
// contiguous: they were consumed by the nodes of the level above. A single leaf gets a code of one
// bit.
template <typename Count>
__device__ __forceinline__ u32 depth_of_leaf(u32 leaf, u32 n, const Count* taken, u32 stride = 1) {
    u32 depth = 1;
    if (n < 2) return depth;
    // The first node of the level above.
    u32 first = n - 2;
#pragma unroll 1
    for (u32 start = taken[first * stride]; leaf < start; start = taken[first * stride]) first = 2 * first - start, ++depth;
    return depth;
}
