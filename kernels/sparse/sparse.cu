// Computes y = A x for a matrix that stays compressed, with one warp per slice. Each lane sums one
// row from its first element to its last, as the CPU does. The data that the warp reads in a step
// is contiguous. The additions depend on each other, but the loads do not, so loads of several
// steps are in flight at a time. Loads of values are issued first, since they do not depend on
// other loads. The last steps of a slice are also processed together: one by one, each would wait
// for memory.

#include "values.cuh"

// Finds the columns of a lane's elements. In a step, a lane has `Side` consecutive columns, which
// are its row of a block. Without blocks (Side = 1), each lane has its own codes; otherwise, the
// lanes of a node share them.
struct Columns {
    const uint2* steps;
    const unsigned char* codes;
    u32 origin, lane, n_steps, n_codes = 0, node = 0;

    template <u32 Width, u32 Side>
    __device__ __forceinline__ u32 at(const uint2& step, u32 k) const {
        if constexpr (Side == 1) return origin + step.x + code_at<Width>(codes, static_cast<u64>(k) * kWarp + lane);
        return origin + step.x + code_at<Width>(codes, static_cast<u64>(k) * n_codes + node);
    }
};

// Adds the products of steps `first` to `first + N - 1`. There are no branches, so all loads are
// issued before the first result is used.
template <u32 N, u32 Side, u32 Width, bool Full, typename T, typename V>
__device__ __forceinline__ T add_steps(T sum, const V& values, const T* x, const Columns& columns, u32 first) {
    typename V::Loaded loaded[N][Side];
    T other[N][Side];
    uint2 step[N];
    bool is_there[N];
#pragma unroll
    for (u32 i = 0; i < N; i++) {
#pragma unroll
        for (u32 j = 0; j < Side; j++) loaded[i][j] = values.load((first + i) * Side + j);
        step[i] = __ldg(columns.steps + first + i);
    }
#pragma unroll
    for (u32 i = 0; i < N; i++) {
        const u32 column = columns.at<Width, Side>(step[i], first + i);
        is_there[i] = Full || (step[i].y >> columns.lane & 1) != 0;
#pragma unroll
        for (u32 j = 0; j < Side; j++) other[i][j] = __ldg(x + (is_there[i] ? column + j : 0));
    }
#pragma unroll
    for (u32 i = 0; i < N; i++) {
#pragma unroll
        for (u32 j = 0; j < Side; j++) {
            const T next = sum + values.value(loaded[i][j]) * other[i][j];
            sum = is_there[i] ? next : sum;
        }
    }
    return sum;
}

template <u32 Side, u32 Width, bool Full, typename T, typename V>
__device__ __forceinline__ T lane_sum(const V& values, const T* x, const Columns& columns) {
    constexpr u32 kSteps = Side == 1 ? V::kAhead : V::kBlockAhead / Side > 1 ? V::kBlockAhead / Side : 1;
    const u32 n = columns.n_steps;
    T sum = 0;
    u32 k = 0;
#pragma unroll 1
    for (; k + kSteps <= n; k += kSteps) sum = add_steps<kSteps, Side, Width, Full>(sum, values, x, columns, k);
    if constexpr (kSteps > 4) {
        if (k + 4 <= n) {
            sum = add_steps<4, Side, Width, Full>(sum, values, x, columns, k);
            k += 4;
        }
    }
    if constexpr (kSteps > 3) {
        if (k + 3 == n) return add_steps<3, Side, Width, Full>(sum, values, x, columns, k);
    }
    if constexpr (kSteps > 2) {
        if (k + 2 == n) return add_steps<2, Side, Width, Full>(sum, values, x, columns, k);
    }
    if constexpr (kSteps > 1) {
        if (k + 1 == n) return add_steps<1, Side, Width, Full>(sum, values, x, columns, k);
    }
    return sum;
}

template <u32 Side, typename T, typename V>
__device__ __forceinline__ T sum_of(const V& values, const T* x, const Columns& columns, const Slice& slice) {
    switch (slice.width) {
        case 0:
            if constexpr (Side == 1) {
                if (slice.flags & kFull) return lane_sum<Side, 0, true>(values, x, columns);
            }
            return lane_sum<Side, 0, false>(values, x, columns);
        case 1: return lane_sum<Side, 1, false>(values, x, columns);
        case 2: return lane_sum<Side, 2, false>(values, x, columns);
        case 4: return lane_sum<Side, 4, false>(values, x, columns);
        default: return lane_sum<Side, 8, false>(values, x, columns);
    }
}

// Blocked: the matrix has blocks, but some slices may have none.
template <bool Blocked, typename T, typename V>
__device__ __forceinline__ void multiply(const SparseArgs& args) {
    const u32 i = blockIdx.x * (kSparseThreads / kWarp) + warp_id();
    if (i >= args.n_all) return;
    const u32 lane = lane_id();
    const Slice slice = args.slices[i];
    const Row row = row_of<Blocked>(args, slice, lane);
    const V values(args, slice, i, lane);
    const T* x = static_cast<const T*>(args.x);
    const bool is_blocked = Blocked && (slice.flags & kBlocked) != 0;
    const u32 origin = static_cast<u32>(slice.base) + (slice.flags & kRelative ? (is_blocked ? row.node_row : row.row) : 0);
    Columns columns{args.steps + slice.steps_at, args.codes + static_cast<u64>(slice.codes_at) * kCodeUnit, origin, lane, slice.n_steps};
    T sum;
    if constexpr (Blocked) {
        columns.node = row.node;
        columns.n_codes = (slice.place % kWindowSlices * kWarp % args.block + kWarp - 1) / args.block + 1;
        switch (is_blocked ? args.block : 1) {
            case 1: sum = sum_of<1, T>(values, x, columns, slice); break;
            case 2: sum = sum_of<2, T>(values, x, columns, slice); break;
            case 3: sum = sum_of<3, T>(values, x, columns, slice); break;
            case 4: sum = sum_of<4, T>(values, x, columns, slice); break;
            case 5: sum = sum_of<5, T>(values, x, columns, slice); break;
            case 6: sum = sum_of<6, T>(values, x, columns, slice); break;
            default: sum = sum_of<8, T>(values, x, columns, slice); break;
        }
    } else {
        sum = sum_of<1, T>(values, x, columns, slice);
    }
    // Recomputed from a laundered thread index, so that no register holds it during the summation.
    const u32 slice_now = blockIdx.x * (kSparseThreads / kWarp) + opaque_thread_id() / kWarp;
    if (slice_now < args.n_slices) {
        if (lane < slice.n_lanes) static_cast<T*>(args.y)[row.row] = sum;
        return;
    }
    // The lanes have parts of one long row. They are added in the CPU's order: lanes l and l + 16,
    // then l and l + 8, and so on.
#pragma unroll
    for (u32 half = kWarp / 2; half > 0; half /= 2) sum += __shfl_down_sync(kAllLanes, sum, half);
    if (lane == 0) static_cast<T*>(args.long_sums)[slice_now - args.n_slices] = sum;
}

// Computes the sums of long rows from the sums of their slices: one row per thread.
template <typename T>
__device__ __forceinline__ void add_long(const SparseArgs& args) {
    const u32 i = blockIdx.x * kSparseThreads + threadIdx.x;
    if (i >= args.n_long) return;
    const LongRow row = args.long_rows[i];
    const T* sums = static_cast<const T*>(args.long_sums) + row.first;
    T sum = sums[0];
    for (u32 k = 1; k < row.n; k++) sum += sums[k];
    static_cast<T*>(args.y)[row.row] = sum;
}

#define KERNEL(name, ctas, ...) \
    extern "C" __global__ void __launch_bounds__(kSparseThreads, ctas) name(const __grid_constant__ SparseArgs args) { __VA_ARGS__; }
#define KERNELS(name, T, ...) \
    KERNEL(name, (__VA_ARGS__::kCtas), multiply<false, T, __VA_ARGS__>(args)) \
    KERNEL(name##_blocked, (kSparseCtas<4>), multiply<true, T, __VA_ARGS__>(args))
#define ALL_KERNELS(type, T) \
    KERNELS(sparse_##type##_plain, T, Plain<T>) \
    KERNEL(sparse_##type##_plain_deep, PlainDeep<T>::kCtas, multiply<false, T, PlainDeep<T>>(args)) \
    KERNELS(sparse_##type##_constant, T, Constant<T>) \
    KERNELS(sparse_##type##_dictionary8, T, Dictionary<T, unsigned char>) \
    KERNELS(sparse_##type##_dictionary16, T, Dictionary<T, unsigned short>) \
    KERNELS(sparse_##type##_blocks, T, Blocks<T>) \
    KERNEL(sparse_##type##_long, (kSparseCtas<4>), add_long<T>(args))

ALL_KERNELS(f32, float)
ALL_KERNELS(f64, double)
