// Kernels that test the machinery around kernels: structs, launches, loss of a device.

#include <cstddef>
#include <cstdint>

struct SelftestArgs {
    uint64_t dst;  // uint64_t[8] for selftest_fields, uint32_t[n_words] for selftest_fill
    uint64_t n_words;
    uint64_t extents[3];
    uint32_t value;
    uint32_t other;
};
static_assert(sizeof(SelftestArgs) == 48, "src/cuda has the same struct");
static_assert(offsetof(SelftestArgs, extents) == 16 && offsetof(SelftestArgs, other) == 44, "the same layout");

struct SelftestInfo {
    uint32_t threads;
    uint32_t shared_bytes;
};
static_assert(sizeof(SelftestInfo) == 8, "src/cuda has the same struct");

extern "C" __device__ const SelftestInfo selftest_info = {128, 0};

// One thread: every field of the arguments as the device sees it, to be compared with what the host wrote.
extern "C" __global__ void selftest_fields(const __grid_constant__ SelftestArgs args) {
    uint64_t* dst = reinterpret_cast<uint64_t*>(args.dst);
    dst[0] = args.dst;
    dst[1] = args.n_words;
    dst[2] = args.extents[0];
    dst[3] = args.extents[1];
    dst[4] = args.extents[2];
    dst[5] = args.value;
    dst[6] = args.other;
    dst[7] = sizeof(SelftestArgs);
}

// Any grid: word i becomes value + i.
extern "C" __global__ void selftest_fill(const __grid_constant__ SelftestArgs args) {
    uint32_t* dst = reinterpret_cast<uint32_t*>(args.dst);
    uint64_t n_threads = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < args.n_words; i += n_threads) {
        dst[i] = args.value + uint32_t(i);
    }
}

// Loses the device for this process.
extern "C" __global__ void selftest_trap(const __grid_constant__ SelftestArgs args) {
    if (args.value != 0) {
        asm volatile("trap;");
    }
}
