// Copies frames between their slots and a packed buffer. In the packed buffer, each frame begins at
// the end of the previous one, rounded up to a multiple of 16; zeros fill the gap. One CTA computes
// the offsets; then each CTA copies a piece of a frame. Memory bandwidth limits the copies.
//
// Also chooses the shorter one of two frames of each chunk.

#include "../common/types.cuh"
#include "../common/warp.cuh"

// Pointers are device pointers; `offsets`, `frame_bytes` and `lengths` may point to pinned host
// memory.
struct PackingArgs {
    void* slots;  // 16-byte aligned, slot_stride bytes apart (a multiple of 16)
    u64 slot_stride;
    void* packed;  // 16-byte aligned
    u64 packed_bytes;
    u64* offsets;  // of each frame in `packed`, followed by the end of the last frame
    const u64* frame_bytes;
    u64* lengths;  // output: lengths of all frames, 0 for invalid ones; or null
    u32 n_frames;
    u32 pieces;  // per slot
};
static_assert(sizeof(PackingArgs) == 64, "src/packing.rs has the same struct");

// Slots of frames, and of other frames of the same chunks. Pointers and strides are as above.
struct ShorterArgs {
    void* slots;
    u64 slot_stride;
    u64* frame_bytes;
    const void* others;
    u64 other_stride;
    const u64* other_bytes;
    u32 n_frames;
    u32 pieces;  // per slot of the other frames
};
static_assert(sizeof(ShorterArgs) == 56, "src/packing.rs has the same struct");

constexpr u32 kPlaceThreads = 1024;
constexpr u32 kCopyThreads = 256;
constexpr u32 kUnitsPerThread = 8;
constexpr u32 kPieceBytes = kCopyThreads * kUnitsPerThread * kUnitBytes;

__device__ __forceinline__ u64 padded(u64 n_bytes) { return (n_bytes + (kUnitBytes - 1)) / kUnitBytes * kUnitBytes; }

// A slot has at most slot_stride bytes. A greater length is invalid and counts as 0.
__device__ __forceinline__ u64 length_of(const PackingArgs& args, u32 frame) {
    const u64 n_bytes = args.frame_bytes[frame];
    return n_bytes <= args.slot_stride ? n_bytes : 0;
}

// Computes the packed offsets of frames in slots.
extern "C" __global__ void __launch_bounds__(kPlaceThreads) packing_place(const __grid_constant__ PackingArgs args) {
    constexpr u32 kWarps = kPlaceThreads / kWarp;
    __shared__ u64 sums[kWarps];
    u64 before = 0;
    for (u32 first = 0; first < args.n_frames; first += kPlaceThreads) {
        const u32 frame = first + threadIdx.x;
        const u64 n_bytes = frame < args.n_frames ? length_of(args, frame) : 0;
        u64 end = warp_inclusive_sum(padded(n_bytes));
        if (lane_id() == kWarp - 1) sums[threadIdx.x / kWarp] = end;
        __syncthreads();
        u64 all = 0;
        for (u32 warp = 0; warp < kWarps; warp++) {
            if (warp < threadIdx.x / kWarp) end += sums[warp];
            all += sums[warp];
        }
        if (frame < args.n_frames) {
            args.offsets[frame] = before + end - padded(n_bytes);
            if (args.lengths) args.lengths[frame] = n_bytes;
        }
        before += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) args.offsets[args.n_frames] = before;
}

// The part of a frame that one CTA copies.
struct Piece {
    u32 frame;
    u64 begin;

    // `pieces`: per slot.
    __device__ __forceinline__ explicit Piece(u32 pieces) : frame(blockIdx.x / pieces), begin(static_cast<u64>(blockIdx.x % pieces) * kPieceBytes) {}

    // Copies the piece of a frame of `n_bytes` bytes, and writes zeros up to a multiple of 16.
    __device__ __forceinline__ void copy(const char* from, char* to, u64 n_bytes) const {
        const uint4* const src = reinterpret_cast<const uint4*>(from + begin);
        uint4* const dst = reinterpret_cast<uint4*>(to + begin);
        const u32 left = static_cast<u32>(min(n_bytes - begin, static_cast<u64>(kPieceBytes)));
        const u32 units = (left + (kUnitBytes - 1)) / kUnitBytes;
        uint4 held[kUnitsPerThread];
#pragma unroll
        for (u32 i = 0; i < kUnitsPerThread; i++) {
            const u32 unit = threadIdx.x + i * kCopyThreads;
            if (unit < units) held[i] = src[unit];
        }
#pragma unroll
        for (u32 i = 0; i < kUnitsPerThread; i++) {
            const u32 unit = threadIdx.x + i * kCopyThreads;
            if (unit < units) dst[unit] = cut(held[i], left - unit * kUnitBytes);
        }
    }

    // Keeps the first `left` bytes of a unit and clears the rest.
    static __device__ __forceinline__ uint4 cut(uint4 unit, u32 left) {
        return {cut(unit.x, left, 0), cut(unit.y, left, 4), cut(unit.z, left, 8), cut(unit.w, left, 12)};
    }
    static __device__ __forceinline__ u32 cut(u32 word, u32 left, u32 first) {
        const u32 n_bytes = left > first ? left - first : 0;
        return n_bytes >= 4 ? word : word & ((1u << 8 * n_bytes) - 1);
    }
};

// Copies frames from the slots to the offsets that packing_place has computed. Skips a frame that
// does not fit; the caller detects this from the end of the last frame in `offsets`.
extern "C" __global__ void __launch_bounds__(kCopyThreads) packing_pack(const __grid_constant__ PackingArgs args) {
    const Piece piece(args.pieces);
    const u64 n_bytes = length_of(args, piece.frame), offset = args.offsets[piece.frame];
    if (piece.begin >= n_bytes || offset + padded(n_bytes) > args.packed_bytes) return;
    piece.copy(static_cast<const char*>(args.slots) + piece.frame * args.slot_stride, static_cast<char*>(args.packed) + offset, n_bytes);
}

// Copies frames from the packed buffer to the slots. Offsets and lengths are untrusted: a frame
// outside of the buffer gets length 0.
extern "C" __global__ void __launch_bounds__(kCopyThreads) packing_unpack(const __grid_constant__ PackingArgs args) {
    const Piece piece(args.pieces);
    const u64 n_bytes = length_of(args, piece.frame), offset = args.offsets[piece.frame];
    const bool is_inside = offset % kUnitBytes == 0 && offset <= args.packed_bytes && padded(n_bytes) <= args.packed_bytes - offset;
    if (piece.begin == 0 && threadIdx.x == 0) args.lengths[piece.frame] = is_inside ? n_bytes : 0;
    if (!is_inside || piece.begin >= n_bytes) return;
    piece.copy(static_cast<const char*>(args.packed) + offset, static_cast<char*>(args.slots) + piece.frame * args.slot_stride, n_bytes);
}

// Copies the other frame of each chunk over its frame if it is shorter. packing_take_lengths
// follows: until then, other CTAs compare the lengths.
extern "C" __global__ void __launch_bounds__(kCopyThreads) packing_take_shorter(const __grid_constant__ ShorterArgs args) {
    const Piece piece(args.pieces);
    const u64 n_bytes = args.other_bytes[piece.frame];
    if (n_bytes >= args.frame_bytes[piece.frame] || piece.begin >= n_bytes) return;
    piece.copy(static_cast<const char*>(args.others) + piece.frame * args.other_stride, static_cast<char*>(args.slots) + piece.frame * args.slot_stride, n_bytes);
}

// Stores the lengths of the shorter frames.
extern "C" __global__ void __launch_bounds__(kCopyThreads) packing_take_lengths(const __grid_constant__ ShorterArgs args) {
    const u32 frame = blockIdx.x * kCopyThreads + threadIdx.x;
    if (frame < args.n_frames) args.frame_bytes[frame] = min(args.frame_bytes[frame], args.other_bytes[frame]);
}
