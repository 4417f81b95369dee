// The choice between two folds of an array (crates/gridz-codecs/src/codec/fold_choice.rs explains
// it). One CTA per chunk takes the samples: a warp has a run, a thread an element. The kernels that
// compress are launched once for each fold, and skip chunks of the other one.

#pragma once

#include "../common/elements.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "words.cuh"

struct FoldChoice {
    u64 n_elements;
    u64 rows[2], planes[2];  // elements of a row and of a plane with each fold, or 0 if there is one row, or one plane
    u32 log_parts;           // log2 of the parts of an element
    u32 other;               // the number of the other fold
};
static_assert(sizeof(FoldChoice) == 48, "crates/gridz-codecs/src/codec/fold_choice.rs has the same struct");

constexpr u32 kRuns = 32, kOrders = 8, kChoiceThreads = kRuns * kWarp, kGroupSize = 8;
constexpr u32 kFlat = 1;  // the number of Fold::Flat

// The samples of a chunk, or of the real parts of its elements.
template <typename W, typename Own>
struct Samples {
    const CompressArgs<Own>& args;
    const FoldChoice& choice;
    u32 (&bits)[2 * kOrders];  // in shared memory
    const Element element;     // a part of an element
    const u32 pitch;
    const char* const array;
    const u64 at;  // the thread's element

    __device__ __forceinline__ Samples(const CompressArgs<Own>& args, const FoldChoice& choice, u32 (&bits)[2 * kOrders])
        : args(args), choice(choice), bits(bits), element(part_of(args, choice)), pitch(element.bytes << choice.log_parts),
          array(static_cast<const char*>(args.src) + blockIdx.x * args.src_stride), at(own_element(choice)) {}

    static __device__ __forceinline__ Element part_of(const CompressArgs<Own>& args, const FoldChoice& choice) {
        Element element(args.encoded);
        element.bytes >>= choice.log_parts;
        return element;
    }
    static __device__ __forceinline__ u64 own_element(const FoldChoice& choice) {
        const u64 run = threadIdx.x / kWarp, step = (choice.n_elements - kWarp) / kRuns;
        return run * step + ((40503 * run % (1u << 16) * step) >> 16) + lane_id();
    }

    // The word of the element `distance` before the thread's, or 0 before the first one.
    __device__ __forceinline__ W word(u64 distance) const {
        return at < distance ? W(0) : load_element<W>(array + (at - distance) * pitch, element, args.flags & kSwapBytes);
    }

    // Chooses the chunk's fold. `number_of(word)` is the number that a word is encoded as. Has
    // barriers.
    template <typename F>
    __device__ __forceinline__ void choose(F number_of) const {
        if (threadIdx.x < 2 * kOrders) bits[threadIdx.x] = 0;
        __syncthreads();
        const auto before = [&](u64 distance) { return number_of(word(distance)); };
        const W here = before(0), one = before(1), along_x = here - one, twice = along_x - (one - before(2));
#pragma unroll 1
        for (u32 i = 0; i < 2; ++i) {
            const u64 row = choice.rows[i], plane = choice.planes[i];
            W differences[kOrders] = {along_x, twice, here, here, here, here, here, here};
            if (row > 0) {
                const W above = before(row);
                differences[2] = here - above, differences[3] = along_x - (above - before(row + 1));
            }
            if (plane > 0) {
                const W behind = before(plane), along_xz = behind - before(plane + 1), behind_above = before(plane + row);
                differences[4] = here - behind, differences[5] = along_x - along_xz;
                differences[6] = differences[2] - (behind - behind_above);
                differences[7] = differences[3] - (along_xz - (behind_above - before(plane + row + 1)));
            }
#pragma unroll
            for (u32 k = 0; k < kOrders; ++k) {
                W longest = zigzag(differences[k]);
#pragma unroll
                for (u32 lanes = 1; lanes < kGroupSize; lanes *= 2) longest |= __shfl_xor_sync(kAllLanes, longest, lanes);
                const u32 n = warp_sum(lane_id() % kGroupSize == 0 ? bit_length(longest) : 0);
                if (lane_id() == 0) atomicAdd(&bits[i * kOrders + k], n);
            }
        }
        __syncthreads();
        if (threadIdx.x != 0) return;
        u32 costs[2];
        for (u32 i = 0; i < 2; ++i) {
            const u32 n_possible = 2u << (choice.rows[i] > 0) << (choice.planes[i] > 0);
            costs[i] = bits[i * kOrders];
            for (u32 k = 1; k < n_possible; ++k) costs[i] = min(costs[i], bits[i * kOrders + k]);
        }
        const bool is_better = choice.other == kFlat ? 64 * costs[1] <= 65 * costs[0] : 32 * costs[1] < 31 * costs[0];
        args.folds[blockIdx.x] = is_better ? choice.other : 0;
    }
};

constexpr LaunchInfo choice_launch(u32 shared_bytes) { return LaunchInfo{kChoiceThreads, shared_bytes, 0, 1, 0, 0, 0}; }
