// Kernels that test the GPU infrastructure: struct layouts, launches, device loss, look-back and
// ordered frames (ordered_frames.cuh).

#include <cstddef>
#include <cstdint>

#include "lookback.cuh"
#include "ordered_frames.cuh"

struct SelftestArgs {
    uint64_t dst;  // uint64_t[8] for selftest_fields, uint32_t[n_words] for selftest_fill
    uint64_t n_words;
    uint64_t extents[3];
    uint32_t value;
    uint32_t other;
};
static_assert(sizeof(SelftestArgs) == 48, "crates/gridz-cuda has the same struct");
static_assert(offsetof(SelftestArgs, extents) == 16 && offsetof(SelftestArgs, other) == 44, "the same layout");

struct SelftestInfo {
    uint32_t threads;
    uint32_t shared_bytes;
};
static_assert(sizeof(SelftestInfo) == 8, "crates/gridz-cuda has the same struct");

extern "C" __device__ const SelftestInfo selftest_info = {128, 0};

// Copies every field of the arguments, as the device sees it, to `dst`. The host compares them with
// the values that it passed. Run by one thread.
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

// Sets word i to value + i. Works with any grid.
extern "C" __global__ void selftest_fill(const __grid_constant__ SelftestArgs args) {
    uint32_t* dst = reinterpret_cast<uint32_t*>(args.dst);
    uint64_t n_threads = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < args.n_words; i += n_threads) {
        dst[i] = args.value + uint32_t(i);
    }
}

// Traps if `value` is not 0. The process then loses the device.
extern "C" __global__ void selftest_trap(const __grid_constant__ SelftestArgs args) {
    if (args.value != 0) {
        asm volatile("trap;");
    }
}

// A number that depends on all bits of `i`.
__device__ u64 scrambled(u64 i) { return mix(i + 0x9e3779b97f4a7c15u); }
// Delays some tiles, so that tiles take different times.
__device__ void dawdle(u64 i) {
    if (scrambled(i) % 8 == 0) __nanosleep(static_cast<u32>(scrambled(i) >> 32) % 20000);
}

// Tests prefix sums over tiles, with CTAs of one warp. `dst` holds 8-byte items: a counter; n_words
// states, zero at first; n_words exclusive prefix sums (the kernel's output). Tile i contributes
// `scrambled(i) >> value`; every fourth tile contributes 0.
template <typename Sum>
__device__ void test_look_back(const SelftestArgs& args) {
    u64* const counter = reinterpret_cast<u64*>(args.dst);
    u64* const states = counter + 1;
    for (;;) {
        u32 tile = 0;
        if (lane_id() == 0) tile = atomicAdd(reinterpret_cast<u32*>(counter), 1);
        tile = __shfl_sync(kAllLanes, tile, 0);
        if (tile >= args.n_words) return;
        const Sum own = tile % 4 == 3 ? 0 : static_cast<Sum>(scrambled(tile) >> args.value);
        dawdle(tile);
        if (lane_id() == 0) publish_state(states + tile, own, tile == 0 ? kPrefix : kOwn);
        const Sum before = look_back<Sum>(states, tile);
        dawdle(tile + args.n_words);
        if (lane_id() == 0) {
            publish_state(states + tile, before + own, kPrefix);
            states[args.n_words + tile] = before;
        }
        // A thread can also wait for the inclusive prefix sum later.
        if (await_prefix(states + tile) != before + own) asm volatile("trap;");
    }
}
extern "C" __global__ void selftest_look_back_u32(const __grid_constant__ SelftestArgs args) { test_look_back<u32>(args); }
extern "C" __global__ void selftest_look_back_u64(const __grid_constant__ SelftestArgs args) { test_look_back<u64>(args); }

// The simplest codec: arrays consist of words, a tile has 128 words, and zeros are dropped. The
// payload is a table of u32 words with the end of each tile, padded to 16 bytes, followed by the
// nonzero words. Published lengths are multiplied by 2^kShift to test long sums.
struct SelftestWords {
    u64 n_words;
    u32 n_tiles;
    u32 reserved;
};
static_assert(sizeof(SelftestWords) == 16, "tests/cuda/device.rs has the same struct");

constexpr u32 kSelftestThreads = 128;

template <typename S, u32 kLog>
struct SelftestLayout {
    using Own = SelftestWords;
    using Sum = S;
    static constexpr u32 kPartsPerTile = 1, kShift = kLog;

    const SelftestWords& words;
    __device__ u64 table_bytes() const { return (4ull * words.n_tiles + 15) / 16 * 16; }
    __device__ u64 raw_bytes() const { return 4 * words.n_words; }
    __device__ u64 payload_bytes(Sum sum) const { return table_bytes() + 4 * static_cast<u64>(sum >> kShift); }
};

struct SelftestShared {
    Ticket ticket[2];
    CtaSums<kSelftestThreads / kWarp> sums;
    u32 counts[kSelftestThreads / kWarp];
    u32 before;
};

template <typename Layout>
__device__ void test_frames(const CompressArgs<SelftestWords>& args) {
    using Sum = typename Layout::Sum;
    __shared__ SelftestShared shared;
    const Layout layout{args.own};
    const OrderedFrames<Layout> frames(args, layout, args.own.n_tiles, args.own.n_tiles);
    frames.template run<kSelftestThreads>(shared.ticket, shared.sums, [](const Ticket&) {}, [&](const Ticket& tile) {
        const u32 chunk = tile.chunk, index = tile.index;
        const u32 warp = threadIdx.x / kWarp;
        const u64 at = static_cast<u64>(index) * kSelftestThreads + threadIdx.x;
        const u32 word = at < args.own.n_words ? reinterpret_cast<const u32*>(frames.source(chunk))[at] : 0;
        const u32 some = __ballot_sync(kAllLanes, word != 0);
        if (lane_id() == 0) shared.counts[warp] = __popc(some);
        __syncthreads();
        u32 length = 0, rank = __popc(some & lanes_below());
        for (u32 w = 0; w < kSelftestThreads / kWarp; ++w) {
            if (w < warp) rank += shared.counts[w];
            length += shared.counts[w];
        }
        const Sum own_sum = static_cast<Sum>(length) << Layout::kShift;
        dawdle(2 * (static_cast<u64>(chunk) * frames.tiles + index));
        if (threadIdx.x == 0) frames.publish(chunk, index, own_sum);
        dawdle(2 * (static_cast<u64>(chunk) * frames.tiles + index) + 1);
        if (warp == 0) {
            const Sum before = frames.place(chunk, index, own_sum);
            if (lane_id() == 0) shared.before = static_cast<u32>(before >> Layout::kShift);
        }
        __syncthreads();

        u32* const payload = reinterpret_cast<u32*>(frames.payload(chunk));
        Sums sums;
        const auto put = [&](u64 i, u32 value) {
            payload[i] = value;
            sums.add(i, value);
        };
        const u64 first = layout.table_bytes() / 4;
        if (word != 0) put(first + shared.before + rank, word);
        if (threadIdx.x == 0) put(index, shared.before + length);
        if (index + 1 == frames.tiles && threadIdx.x > 0 && index + threadIdx.x < first) put(index + threadIdx.x, 0);
        shared.sums.share(sums);
        __syncthreads();
        return shared.sums.sum();
    });
}

#define SELFTEST_FRAMES(name, Sum, shift)                                                                          \
    extern "C" __global__ void __launch_bounds__(kSelftestThreads, 4)                                              \
        selftest_frames_##name(const __grid_constant__ CompressArgs<SelftestWords> args) {                         \
        test_frames<SelftestLayout<Sum, shift>>(args);                                                             \
    }                                                                                                              \
    extern "C" __device__ const LaunchInfo selftest_frames_##name##_info = ordered_launch(kSelftestThreads, 0, 1);

SELFTEST_FRAMES(u32, u32, 0)
SELFTEST_FRAMES(u64, u64, 40)
