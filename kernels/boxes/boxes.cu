// Copies boxes of elements between two arrays in GPU memory with any strides. Used to copy parts of
// chunks to and from an array.

#include "../common/types.cuh"
#include "../common/warp.cuh"

// Maximum number of axes: those of an array, and one for the units of an element.
constexpr u32 kMaxAxes = 33;

// A box to be copied, in units of 1, 2, 4, 8 or 16 bytes that are aligned in both arrays. The
// fastest axis comes first. Strides are in bytes and may be negative.
struct BoxArgs {
    const char* src;
    char* dst;
    u64 n_units;
    u32 unit_bytes;
    u32 n_axes;
    u64 counts[kMaxAxes];
    s64 src_strides[kMaxAxes];
    s64 dst_strides[kMaxAxes];
};
static_assert(sizeof(BoxArgs) == 824, "src/strided_copy.rs has the same struct");

constexpr u32 kBoxThreads = 256;

template <typename Unit>
__device__ __forceinline__ void copy_units(const BoxArgs& args) {
    const u64 step = static_cast<u64>(gridDim.x) * kBoxThreads;
    for (u64 unit = static_cast<u64>(blockIdx.x) * kBoxThreads + threadIdx.x; unit < args.n_units; unit += step) {
        u64 rest = unit;
        s64 from = 0, to = 0;
        for (u32 axis = 0; axis < args.n_axes; axis++) {
            const u64 count = args.counts[axis];
            // 32-bit divisions are much faster.
            const u64 next = (rest | count) >> 32 ? rest / count : static_cast<u32>(rest) / static_cast<u32>(count);
            const s64 at = static_cast<s64>(rest - next * count);
            from += at * args.src_strides[axis];
            to += at * args.dst_strides[axis];
            rest = next;
        }
        *reinterpret_cast<Unit*>(args.dst + to) = *reinterpret_cast<const Unit*>(args.src + from);
    }
}

extern "C" __global__ void __launch_bounds__(kBoxThreads) boxes_copy(const __grid_constant__ BoxArgs args) {
    switch (args.unit_bytes) {
        case 16: return copy_units<uint4>(args);
        case 8: return copy_units<u64>(args);
        case 4: return copy_units<u32>(args);
        case 2: return copy_units<unsigned short>(args);
        default: return copy_units<unsigned char>(args);
    }
}
