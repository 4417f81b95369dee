// ndzip on the CPU, straight from the format's text: what the kernels are compared with. Slow and plain.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

namespace reference {

using Extents = std::array<uint64_t, 3>;  // slowest first, leading ones

template <typename W>
constexpr uint32_t kBits = 8 * sizeof(W);

inline Extents sides(int rank) {
    if (rank == 1) return {1, 1, 4096};
    if (rank == 2) return {1, 64, 64};
    return {16, 16, 16};
}

struct Grid {
    Extents n, side, blocks;
    uint64_t n_elements, n_blocks;
    Grid(int rank, Extents extents) : n(extents), side(sides(rank)) {
        for (int k = 0; k < 3; ++k) blocks[k] = n[k] / side[k];
        n_elements = n[0] * n[1] * n[2];
        n_blocks = blocks[0] * blocks[1] * blocks[2];
    }
    uint64_t n_border() const { return n_elements - 4096 * n_blocks; }
    // Element i of a block in the array.
    uint64_t element(uint64_t block, uint32_t i) const {
        const uint64_t b[3] = {block / (blocks[1] * blocks[2]), block / blocks[2] % blocks[1], block % blocks[2]};
        const uint64_t z = b[0] * side[0] + i / (side[1] * side[2]), y = b[1] * side[1] + i / side[2] % side[1];
        return (z * n[1] + y) * n[2] + b[2] * side[2] + i % side[2];
    }
    bool in_border(uint64_t e) const {
        const uint64_t at[3] = {e / (n[1] * n[2]), e / n[2] % n[1], e % n[2]};
        for (int k = 0; k < 3; ++k) {
            if (at[k] >= blocks[k] * side[k]) return true;
        }
        return false;
    }
};

template <typename W>
W fold_sign(W w) {
    return w >> (kBits<W> - 1) ? w ^ (~W(0) >> 1) : w;
}

template <typename W>
void transpose(W* group) {
    W columns[kBits<W>] = {};
    for (uint32_t c = 0; c < kBits<W>; ++c) {
        for (uint32_t j = 0; j < kBits<W>; ++j) columns[c] |= (group[j] >> (kBits<W> - 1 - c) & 1) << (kBits<W> - 1 - j);
    }
    std::copy(columns, columns + kBits<W>, group);
}

template <typename W>
std::vector<W> encode_block(const W* src, const Grid& grid, uint64_t block) {
    std::vector<W> v(4096);
    for (uint32_t i = 0; i < 4096; ++i) {
        const W w = src[grid.element(block, i)];
        v[i] = w << 1 | w >> (kBits<W> - 1);
    }
    uint32_t stride = 1;
    for (int axis = 2; axis >= 0; --axis) {
        for (uint32_t i = 4096; i-- > 0;) {
            if (i / stride % grid.side[axis]) v[i] -= v[i - stride];
        }
        stride *= grid.side[axis];
    }
    for (W& w : v) w = fold_sign(w);
    std::vector<W> out(4096 / kBits<W>);
    for (uint32_t g = 0; g < 4096 / kBits<W>; ++g) {
        W* group = v.data() + g * kBits<W>;
        for (uint32_t j = 0; j < kBits<W>; ++j) out[g] |= group[j];
        transpose(group);
        for (uint32_t c = 0; c < kBits<W>; ++c) {
            if (out[g] >> (kBits<W> - 1 - c) & 1) out.push_back(group[c]);
        }
    }
    return out;
}

template <typename Body>
void parallel(uint64_t n, Body body) {
    const uint64_t n_threads = std::max(1u, n < 64 ? 1u : std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (uint64_t k = 0; k < n_threads; ++k) {
        threads.emplace_back([=] {
            for (uint64_t i = n * k / n_threads; i < n * (k + 1) / n_threads; ++i) body(i);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

template <typename W>
std::vector<uint8_t> encode(const W* src, int rank, Extents extents) {
    const Grid grid(rank, extents);
    std::vector<std::vector<W>> blocks(grid.n_blocks);
    std::vector<W>* const out = blocks.data();
    parallel(grid.n_blocks, [=](uint64_t b) { out[b] = encode_block(src, grid, b); });
    std::vector<uint8_t> payload((4 * grid.n_blocks + sizeof(W) - 1) / sizeof(W) * sizeof(W));
    uint32_t end = 0;
    for (uint64_t b = 0; b < grid.n_blocks; ++b) {
        end += blocks[b].size();
        std::memcpy(&payload[4 * b], &end, 4);
    }
    const auto append = [&](const W* words, size_t n) {
        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(words);
        payload.insert(payload.end(), bytes, bytes + n * sizeof(W));
    };
    for (const std::vector<W>& block : blocks) append(block.data(), block.size());
    if (grid.n_border()) {
        for (uint64_t e = 0; e < grid.n_elements; ++e) {
            if (grid.in_border(e)) append(src + e, 1);
        }
    }
    return payload;
}

// Whether a payload passes all checks of the format.
template <typename W>
bool valid(const std::vector<uint8_t>& payload, int rank, Extents extents) {
    const Grid grid(rank, extents);
    const uint64_t table = (4 * grid.n_blocks + sizeof(W) - 1) / sizeof(W) * sizeof(W), n_heads = 4096 / kBits<W>;
    if (payload.size() < table) return false;
    uint64_t begin = 0;
    for (uint64_t b = 0; b < grid.n_blocks; ++b) {
        uint32_t end;
        std::memcpy(&end, &payload[4 * b], 4);
        if (end < begin + n_heads || end > begin + n_heads + 4096 || table + end * uint64_t(sizeof(W)) > payload.size()) return false;
        uint64_t words = n_heads;
        for (uint64_t h = 0; h < n_heads; ++h) {
            W head;
            std::memcpy(&head, &payload[table + (begin + h) * sizeof(W)], sizeof(W));
            words += __builtin_popcountll(head);
        }
        if (words != end - begin) return false;
        begin = end;
    }
    return payload.size() == table + (begin + grid.n_border()) * sizeof(W);
}

struct Sums {
    uint64_t a = 0, b = 0;
};

inline Sums checksum(const std::vector<uint8_t>& payload) {
    Sums sums;
    for (size_t i = 0; i < payload.size(); i += 4) {
        uint32_t word = 0;
        std::memcpy(&word, &payload[i], std::min<size_t>(4, payload.size() - i));
        const uint64_t x = word ^ 0x9e3779b9u;
        sums.a += x * x;
        sums.b += (i / 4 + 1) * (x * x);
    }
    return sums;
}

}  // namespace reference
