// Chooses and writes masks. With a mask, a block omits all elements that have one frequent word,
// such as a fill value. A mask is used if it takes at most about an eighth of the bytes of these
// elements.
//
// The word is the most frequent one of some samples. The marks of the masked elements are in shared
// memory, one 32-bit word per thread. Each masked element is first replaced by the last unmasked
// element before it, so that maps and orders are chosen as if the mask did not exist. Later, each
// masked number is replaced by its prediction: its residual becomes 0, and is omitted.

#pragma once

#include "../common/elements.cuh"
#include "../stage/differences.cuh"
#include "../stage/bitmap_write.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"

template <typename B>
struct MaskChoice {
    using W = typename B::W;
    static constexpr u32 kMinElements = 64, kMinSamples = 3, kSampleStep = 4;

    LorenzoShared<B>& shared;
    const Element& element;

    // Returns, in all lanes, the most frequent word of a warp's samples, and its count in `n`. Only
    // the words of every fourth lane are candidates.
    static __device__ __forceinline__ W most_frequent(W sample, u32& n) {
        const u32 equal = __popc(__match_any_sync(kAllLanes, sample));
        const u32 key = warp_max_unsigned(lane_id() % kSampleStep == 0 ? equal << 8 | (kWarp - lane_id()) : 0);
        n = key >> 8;
        return __shfl_sync(kAllLanes, sample, kWarp - (key & 0xff));
    }

    // Chooses a mask for the words of a block, and replaces the masked words. Returns false if no
    // mask is used. Called by all threads; contains barriers. `scratch` has room for one index per
    // 32 words.
    __device__ __forceinline__ bool choose(W* words, u32* scratch) const {
        MaskState<B>& mask = shared.mask;
        const u32 m = shared.box.m, t = threadIdx.x, warp = t / kWarp, lane = lane_id(), n_words = (m + 31) / 32;
        const W word = shared.frequent;
        const u32 exist = t < n_words ? low_bits(0u, min(m - t * 32, 32u)) : 0, own = own_bitmap(words, [=](W own) { return own == word; }) & exist;
        mask.bitmap[t] = own;
        const BitmapWriter<B::kThreads> bitmap({own}, n_words, mask.totals[0]);
        const BitmapWriter<B::kThreads> coded({written(exist)}, n_words, mask.totals[1]);
        const u32 plain = 4 * n_words, n_masked = bitmap.n_marked(), n_bytes = min(plain, coded.n_bytes());
        const u32 all_bytes = mask_bytes<W>(n_bytes), cost = kUnitBytes + (n_bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
        if (8 * cost > n_masked * element.bytes) return false;
        // `last`: 1 + index of the last unmasked number among the thread's 32 numbers; then, by a
        // running maximum, among these and all preceding numbers of the warp. `first`: index of the
        // warp's first unmasked number.
        const u32 others = ~own & exist;
        u32 last = others ? t * 32 + 32 - __clz(others) : 0;
#pragma unroll
        for (u32 step = 1; step < kWarp; step *= 2) {
            const u32 before = __shfl_up_sync(kAllLanes, last, step);
            if (lane >= step) last = max(last, before);
        }
        const u32 first = warp_min_unsigned(others ? t * 32 + __ffs(others) - 1 : ~0u);
        // The totals of `bitmap` can be overwritten: since the barrier in the constructor of
        // `coded`, no thread reads them.
        if (lane == kWarp - 1) mask.totals[0][warp] = last;
        if (lane == 0) mask.firsts[warp] = first;
        if (t == 0) {
            mask.word = word, mask.is_used = true, mask.n_masked = n_masked, mask.n_coded = m - n_masked;
            mask.n_bytes = n_bytes, mask.all_bytes = all_bytes, mask.is_coded = coded.n_bytes() <= plain;
        }
        last = __shfl_up_sync(kAllLanes, last, 1);
        if (lane == 0) last = 0;
        __syncthreads();
        u32 first_of_all = ~0u;
#pragma unroll
        for (u32 w = 0; w < B::kGroups; ++w) {
            if (w < warp) last = max(last, static_cast<u32>(mask.totals[0][w]));
            first_of_all = min(first_of_all, mask.firsts[w]);
        }
        scratch[t] = last > 0 ? last - 1 : first_of_all;
        __syncthreads();
#pragma unroll 1
        for (u32 row = warp; row < n_words; row += B::kGroups) {
            const u32 i = row * kRow + lane, masked = mask.bitmap[row], before = ~masked & lanes_below();
            if (i < m && masked >> lane & 1) words[i] = words[before ? row * kRow + 31 - __clz(before) : scratch[row]];
        }
        __syncthreads();
        return true;
    }

    // The thread's word of the coded mask. `exist` has the bits of existing numbers.
    __device__ __forceinline__ u32 written(u32 exist) const {
        const bool has_rows = !shared.box.is_line();
        return (has_rows ? bitmap_changes(shared.mask.bitmap, shared.box.sx) : shared.mask.bitmap[threadIdx.x]) & exist;
    }

    // Replaces masked numbers by their predictions. All orders are at most 1. In each step, a warp
    // fills kAtOnce rows, which depend on the preceding rows along y and z. With differences along
    // y, a warp fills every kGroups-th plane, and is one step later than the previous warp.
    // Otherwise it fills every kGroups-th set of kAtOnce rows in each plane. `lasts` has room for
    // one number per row. Contains barriers.
    __device__ __forceinline__ void fill(W* numbers, W* lasts, W base, const Orders& o) const {
        constexpr u32 kAtOnce = 4;  // rows per step
        const RowBox& box = shared.box;
        const u32 warp = threadIdx.x / kWarp, lane = lane_id(), up_to_lane = lanes_below() | 1u << lane, length = box.sx;
        const u32 depth = o.z > 0 ? box.sz : 1, height = o.z > 0 ? box.sy : box.sz * box.sy, plane = height * length;
        if (box.is_line()) {
            // With differences, masked numbers already equal their predictions: the previous
            // number, or the base.
            if (o.x > 0) return;
#pragma unroll 1
            for (u32 i = threadIdx.x; i < box.m; i += B::kThreads) numbers[i] = shared.mask.has(i) ? base : numbers[i];
            return;
        }
        const u32 in_plane = (height + kAtOnce - 1) / kAtOnce, steps = o.y > 0 ? in_plane + B::kGroups - 1 : (in_plane + B::kGroups - 1) / B::kGroups;
#pragma unroll 1
        for (u32 x = lane; x - lane < length; x += kWarp) {
            // Missing neighbors equal the base.
            W above = base, above_before = base;
#pragma unroll 1
            for (u32 first_z = 0; first_z < depth; first_z += o.y > 0 ? B::kGroups : 1) {
#pragma unroll 1
                for (u32 step = 0; step < steps; ++step) {
                    const u32 z = first_z + (o.y > 0 ? warp : 0), y = (o.y > 0 ? step - warp : step * B::kGroups + warp) * kAtOnce;
                    if (y == 0) above = above_before = base;
                    if (z < depth && y < height) {
                        W own[kAtOnce], before[kAtOnce];
                        u32 others[kAtOnce];
#pragma unroll
                        for (u32 k = 0; k < kAtOnce; ++k) {
                            const u32 i = (z * height + y + k) * length + x;
                            const bool exists = x < length && y + k < height;
                            own[k] = exists ? numbers[i] : 0;
                            before[k] = exists && z > 0 ? numbers[i - plane] : base;
                            others[k] = __ballot_sync(kAllLanes, exists && !shared.mask.has(i));
                        }
#pragma unroll
                        for (u32 k = 0; k < kAtOnce; ++k) {
                            const u32 i = (z * height + y + k) * length + x, known = others[k] & up_to_lane;
                            const W predicted = above + before[k] - above_before;
                            W filled = __shfl_sync(kAllLanes, static_cast<W>(own[k] - predicted), 31 - __clz(known)) * o.x;
                            if (known == 0) filled = 0;
                            if (length > kRow) {
                                W& last = lasts[z * height + y + k];
                                if (known == 0 && x >= kWarp) filled = last;
                                __syncwarp();
                                if (lane == kWarp - 1) last = filled;
                            }
                            if (x < length && y + k < height && !(others[k] >> lane & 1)) {
                                own[k] = filled + predicted;
                                numbers[i] = own[k];
                            }
                            if (o.y > 0) above = own[k], above_before = before[k];
                        }
                    }
                    __syncthreads();
                }
            }
        }
    }
    // Copies the residuals of unmasked numbers to `coded`, without gaps, and fills the last row
    // with zeros. Each warp copies the residuals of one group.
    __device__ __forceinline__ void leave_out(const W* residuals, W* coded) const {
        const u32 lane = lane_id(), below = lanes_below(), n = shared.mask.n_coded, group = threadIdx.x / kWarp, m = shared.box.m;
        W* to = coded;
#pragma unroll 1
        for (u32 g = 0; g < group; ++g) to += kGroup - warp_sum(static_cast<u32>(__popc(shared.mask.bitmap[g * kGroupRows + lane])));
#pragma unroll 4
        for (u32 i = group * kGroup; i < min((group + 1) * kGroup, m); i += kRow) {
            const u32 others = ~shared.mask.bitmap[i / kRow] & low_bits(0u, min(m - i, kRow));
            if (others >> lane & 1) to[__popc(others & below)] = residuals[i + lane];
            to += __popc(others);
        }
        if (threadIdx.x < (0 - n) % kRow) coded[n + threadIdx.x] = 0;
    }

    // Writes the mask after the header of a block, where the stage must contain zeros. Called by
    // all threads; contains barriers.
    __device__ __forceinline__ void write(unsigned char* stage) const {
        MaskState<B>& mask = shared.mask;
        const u32 t = threadIdx.x, m = shared.box.m, n_words = (m + 31) / 32;
        unsigned char* const to = stage + kHeaderBytes;
        if (t == 0) {
            *reinterpret_cast<W*>(to) = mask.word;
            *reinterpret_cast<u32*>(to + sizeof(W)) = mask.n_masked | (mask.n_bytes | (mask.is_coded ? kCodedMarks : 0)) << 16;
        }
        const u32 exist = t < n_words ? low_bits(0u, min(m - t * 32, 32u)) : 0;
        if (mask.is_coded) {
            BitmapWriter<B::kThreads>({written(exist)}, n_words, mask.totals[0]).write(to, kMaskHeaderBytes<W>);
        } else if (t < n_words) {
            reinterpret_cast<u32*>(to + kMaskHeaderBytes<W>)[t] = mask.bitmap[t];
        }
    }
};
