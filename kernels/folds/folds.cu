// The choice between two folds of an array (crates/gridz-codecs/src/codec/fold_choice.rs explains
// it). One CTA per chunk takes the samples: a warp has a run, a thread an element. The kernels that
// compress are launched once for each fold, and skip chunks of the other one.

#include "../common/elements.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "../stage/words.cuh"

struct FoldChoice {
    u64 n_elements;
    u64 rows[2], planes[2];  // elements of a row and of a plane with each fold, or 0 if there is one row, or one plane
    u32 log_parts;           // log2 of the parts of an element
    u32 other;               // the number of the other fold
};
static_assert(sizeof(FoldChoice) == 48, "crates/gridz-codecs/src/codec/fold_choice.rs has the same struct");

constexpr u32 kRuns = 32, kOrders = 8, kChoiceThreads = kRuns * kWarp, kGroupSize = 8;
constexpr u32 kFlat = 1;  // the number of Fold::Flat

template <typename W>
__device__ __forceinline__ void choose(const CompressArgs<FoldChoice>& args) {
    const FoldChoice& own = args.own;
    const u32 chunk = blockIdx.x, run = threadIdx.x / kWarp;
    __shared__ u32 bits[2 * kOrders];
    if (threadIdx.x < 2 * kOrders) bits[threadIdx.x] = 0;
    __syncthreads();
    Element element(args.encoded);
    const u32 pitch = element.bytes;
    element.bytes >>= own.log_parts;
    const char* const array = static_cast<const char*>(args.src) + chunk * args.src_stride;
    const u64 step = (own.n_elements - kWarp) / kRuns, at = run * step + ((40503 * run % (1u << 16) * step) >> 16) + lane_id();
    const auto before = [&](u64 distance) {
        return at < distance ? W(0) : load_element<W>(array + (at - distance) * pitch, element, args.flags & kSwapBytes);
    };
    const W here = before(0), one = before(1), along_x = here - one, twice = along_x - (one - before(2));
#pragma unroll 1
    for (u32 i = 0; i < 2; ++i) {
        const u64 row = own.rows[i], plane = own.planes[i];
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
    u64 costs[2];
    for (u32 i = 0; i < 2; ++i) {
        const u32 n_possible = 2u << (own.rows[i] > 0) << (own.planes[i] > 0);
        u32 least = bits[i * kOrders];
        for (u32 k = 1; k < n_possible; ++k) least = min(least, bits[i * kOrders + k]);
        costs[i] = least;
    }
    const bool is_better = own.other == kFlat ? 64 * costs[1] <= 65 * costs[0] : 32 * costs[1] < 31 * costs[0];
    args.folds[chunk] = is_better ? own.other : 0;
}

#define FOLDS_CHOOSE(name, Word)                                                                                                     \
    extern "C" __global__ void __launch_bounds__(kChoiceThreads) folds_choose_##name(const __grid_constant__ CompressArgs<FoldChoice> args) { \
        choose<Word>(args);                                                                                                          \
    }                                                                                                                                \
    extern "C" __device__ const LaunchInfo folds_choose_##name##_info = {kChoiceThreads, 0, 0, 1, 0, 0, 0};

FOLDS_CHOOSE(u32, u32)
FOLDS_CHOOSE(u64, u64)
