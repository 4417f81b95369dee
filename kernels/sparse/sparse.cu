// y = A x for a matrix that stays compressed, one warp a slice: every lane has a row, and sums it from its first element to its
// last, as the CPU does. What the warp reads at a step lies side by side. Loads of several steps are under way at a time: the
// sums wait for one another, but loads do not.

#include "values.cuh"

constexpr u32 kSparseThreads = 256;

// Steps `first` to `first + N` of a slice without blocks.
template <u32 N, u32 Width, bool Full, typename T, typename V>
__device__ __forceinline__ T add_steps(T sum, const V& values, const T* x, const uint2* steps, const unsigned char* codes, u32 origin,
                                       u32 lane, u32 first) {
    T value[N], other[N];
    bool is_there[N];
#pragma unroll
    for (u32 i = 0; i < N; i++) {
        const u32 k = first + i;
        const uint2 step = __ldg(steps + k);
        is_there[i] = Full || (step.y >> lane & 1) != 0;
        const u32 column = origin + step.x + code_at<Width>(codes, static_cast<u64>(k) * kWarp + lane);
        value[i] = values.at(k);
        other[i] = x[is_there[i] ? column : 0];
    }
#pragma unroll
    for (u32 i = 0; i < N; i++) {
        const T next = sum + value[i] * other[i];
        sum = is_there[i] ? next : sum;
    }
    return sum;
}

template <u32 Width, bool Full, typename T, typename V>
__device__ __forceinline__ T lane_sum(const V& values, const T* x, const uint2* steps, const unsigned char* codes, u32 origin, u32 n, u32 lane) {
    constexpr u32 kAhead = V::kAhead;
    T sum = 0;
    u32 k = 0;
    for (; k + kAhead <= n; k += kAhead) sum = add_steps<kAhead, Width, Full>(sum, values, x, steps, codes, origin, lane, k);
    if (k + kAhead / 2 <= n) {
        sum = add_steps<kAhead / 2, Width, Full>(sum, values, x, steps, codes, origin, lane, k);
        k += kAhead / 2;
    }
    for (; k < n; k++) sum = add_steps<1, Width, Full>(sum, values, x, steps, codes, origin, lane, k);
    return sum;
}

// The same of a slice with blocks of a side of `Side`: a step is `Side` columns.
template <u32 N, u32 Side, u32 Width, typename T, typename V>
__device__ __forceinline__ T add_blocks(T sum, const V& values, const T* x, const uint2* steps, const unsigned char* codes, u32 n_codes,
                                        u32 origin, u32 node, u32 lane, u32 first) {
    T value[N][Side], other[N][Side];
    bool is_there[N];
#pragma unroll
    for (u32 i = 0; i < N; i++) {
        const u32 k = first + i;
        const uint2 step = __ldg(steps + k);
        is_there[i] = (step.y >> lane & 1) != 0;
        const u32 column = origin + step.x + code_at<Width>(codes, static_cast<u64>(k) * n_codes + node);
#pragma unroll
        for (u32 j = 0; j < Side; j++) {
            value[i][j] = values.at(k * Side + j);
            other[i][j] = x[is_there[i] ? column + j : 0];
        }
    }
#pragma unroll
    for (u32 i = 0; i < N; i++) {
#pragma unroll
        for (u32 j = 0; j < Side; j++) {
            const T next = sum + value[i][j] * other[i][j];
            sum = is_there[i] ? next : sum;
        }
    }
    return sum;
}

template <u32 Side, u32 Width, typename T, typename V>
__device__ __forceinline__ T block_sum(const V& values, const T* x, const uint2* steps, const unsigned char* codes, u32 n_codes, u32 origin,
                                       u32 node, u32 n, u32 lane) {
    constexpr u32 kBlocks = Side < 4 && V::kAhead > 4 ? V::kAhead / 2 / Side * 2 : 1;
    T sum = 0;
    u32 k = 0;
    for (; k + kBlocks <= n; k += kBlocks) {
        sum = add_blocks<kBlocks, Side, Width>(sum, values, x, steps, codes, n_codes, origin, node, lane, k);
    }
    for (; k < n; k++) sum = add_blocks<1, Side, Width>(sum, values, x, steps, codes, n_codes, origin, node, lane, k);
    return sum;
}

template <u32 Side, typename T, typename V>
__device__ __forceinline__ T block_sum_of(const V& values, const T* x, const uint2* steps, const unsigned char* codes, u32 n_codes, u32 origin,
                                          const Row& row, const Slice& slice, u32 lane) {
    const u32 n = slice.n_steps;
    switch (slice.width) {
        case 0: return block_sum<Side, 0>(values, x, steps, codes, n_codes, origin, row.node, n, lane);
        case 1: return block_sum<Side, 1>(values, x, steps, codes, n_codes, origin, row.node, n, lane);
        case 2: return block_sum<Side, 2>(values, x, steps, codes, n_codes, origin, row.node, n, lane);
        case 4: return block_sum<Side, 4>(values, x, steps, codes, n_codes, origin, row.node, n, lane);
        default: return block_sum<Side, 8>(values, x, steps, codes, n_codes, origin, row.node, n, lane);
    }
}

template <typename T, typename V>
__device__ __forceinline__ void multiply(const SparseArgs& args) {
    const u32 i = blockIdx.x * (kSparseThreads / kWarp) + warp_id();
    if (i >= args.n_all) return;
    const u32 lane = lane_id();
    const Slice slice = args.slices[i];
    const Row row = row_of(args, slice, lane);
    const V values(args, slice, i, lane);
    const T* x = static_cast<const T*>(args.x);
    const uint2* steps = args.steps + slice.steps_at;
    const unsigned char* codes = args.codes + static_cast<u64>(slice.codes_at) * kCodeUnit;
    const u32 n = slice.n_steps;
    u32 origin = static_cast<u32>(slice.base);
    T sum;
    if (slice.flags & kBlocked) {
        if (slice.flags & kRelative) origin += row.node_row;
        const u32 n_codes = (slice.place % kWindowSlices * kWarp % args.block + kWarp - 1) / args.block + 1;
        switch (args.block) {
            case 2: sum = block_sum_of<2>(values, x, steps, codes, n_codes, origin, row, slice, lane); break;
            case 3: sum = block_sum_of<3>(values, x, steps, codes, n_codes, origin, row, slice, lane); break;
            case 4: sum = block_sum_of<4>(values, x, steps, codes, n_codes, origin, row, slice, lane); break;
            case 5: sum = block_sum_of<5>(values, x, steps, codes, n_codes, origin, row, slice, lane); break;
            case 6: sum = block_sum_of<6>(values, x, steps, codes, n_codes, origin, row, slice, lane); break;
            default: sum = block_sum_of<8>(values, x, steps, codes, n_codes, origin, row, slice, lane); break;
        }
    } else {
        if (slice.flags & kRelative) origin += row.row;
        const bool is_full = (slice.flags & kFull) != 0;
        switch (slice.width) {
            case 0:
                sum = is_full ? lane_sum<0, true>(values, x, steps, codes, origin, n, lane)
                              : lane_sum<0, false>(values, x, steps, codes, origin, n, lane);
                break;
            case 1: sum = lane_sum<1, false>(values, x, steps, codes, origin, n, lane); break;
            case 2: sum = lane_sum<2, false>(values, x, steps, codes, origin, n, lane); break;
            case 4: sum = lane_sum<4, false>(values, x, steps, codes, origin, n, lane); break;
            default: sum = lane_sum<8, false>(values, x, steps, codes, origin, n, lane); break;
        }
    }
    if (i < args.n_slices) {
        if (lane < slice.n_lanes) static_cast<T*>(args.y)[row.row] = sum;
        return;
    }
    // The order of the CPU: lane l and l + 16, then l + 8, and so on.
#pragma unroll
    for (u32 half = kWarp / 2; half > 0; half /= 2) sum += __shfl_down_sync(kAllLanes, sum, half);
    if (lane == 0) static_cast<T*>(args.long_sums)[i - args.n_slices] = sum;
}

// The sums of long rows, from those of their slices: one thread each.
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

#define KERNEL(name, body) \
    extern "C" __global__ void __launch_bounds__(kSparseThreads) name(const __grid_constant__ SparseArgs args) { body; }

KERNEL(sparse_f32_plain, (multiply<float, Plain<float>>(args)))
KERNEL(sparse_f32_constant, (multiply<float, Constant<float>>(args)))
KERNEL(sparse_f32_dictionary8, (multiply<float, Dictionary<float, unsigned char>>(args)))
KERNEL(sparse_f32_dictionary16, (multiply<float, Dictionary<float, unsigned short>>(args)))
KERNEL(sparse_f32_blocks, (multiply<float, Blocks<float>>(args)))
KERNEL(sparse_f64_plain, (multiply<double, Plain<double>>(args)))
KERNEL(sparse_f64_constant, (multiply<double, Constant<double>>(args)))
KERNEL(sparse_f64_dictionary8, (multiply<double, Dictionary<double, unsigned char>>(args)))
KERNEL(sparse_f64_dictionary16, (multiply<double, Dictionary<double, unsigned short>>(args)))
KERNEL(sparse_f64_blocks, (multiply<double, Blocks<double>>(args)))
KERNEL(sparse_f32_long, add_long<float>(args))
KERNEL(sparse_f64_long, add_long<double>(args))
