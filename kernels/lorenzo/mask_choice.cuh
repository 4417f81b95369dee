// Masks, chosen and written: elements that have all the same word, such as a fill value, are left out where that takes few bytes.
//
// Which word that is, samples say. Its marks are kept in shared memory, a word a thread. From then on a masked
// element is seen as the last one before it that is not, so that maps and orders are chosen as if it were like the
// others. At last it becomes what the prediction says it is, which takes one row after the other: a warp does so, and
// writes the residuals of the others behind each other.

#pragma once

#include "../common/elements.cuh"
#include "../stage/differences.cuh"
#include "../stage/marks_write.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"

template <typename W>
struct MaskChoice {
    static constexpr u32 kMinElements = 64, kMinSamples = 3, kSampleStep = 4;

    LorenzoShared<W>& shared;
    const Element& element;

    // The word that most of a warp's samples have, of every fourth, in all lanes, and how many have it.
    static __device__ __forceinline__ W most_frequent(W sample, u32& n) {
        const u32 equal = __popc(__match_any_sync(kAllLanes, sample));
        const u32 key = warp_max_unsigned(lane_id() % kSampleStep == 0 ? equal << 8 | (kWarp - lane_id()) : 0);
        n = key >> 8;
        return __shfl_sync(kAllLanes, sample, kWarp - (key & 0xff));
    }

    // Looks for a mask for the words of a block, and replaces the masked ones, by all threads. There is room for a number a row
    // in `scratch`. Barriers.
    __device__ __forceinline__ bool choose(W* words, u32* scratch) const {
        MaskState<W>& mask = shared.mask;
        const u32 m = shared.box.m, t = threadIdx.x, warp = t / kWarp, lane = lane_id(), n_words = (m + 31) / 32;
        const W word = shared.frequent;
        mask.marks[t] = 0;
        __syncthreads();
#pragma unroll 1
        for (u32 row = warp; row < n_words; row += kGroups) {
            const u32 i = row * kRow + lane, marks = __ballot_sync(kAllLanes, i < m && words[i] == word);
            if (lane == 0) mask.marks[row] = marks;
        }
        __syncthreads();
        const u32 own = mask.marks[t], exist = t < n_words ? low_bits(0u, min(m - t * 32, 32u)) : 0;
        const WrittenMarks<kLorenzoThreads> marks(own, n_words, mask.totals[0]);
        const WrittenMarks<kLorenzoThreads> coded(written(exist), n_words, mask.totals[1]);
        const u32 plain = 4 * n_words, n_masked = marks.n_marked(), n_bytes = min(plain, coded.n_bytes());
        const u32 all_bytes = kMaskHeaderBytes + (n_bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
        if (8 * all_bytes > n_masked * element.bytes) return false;
        // The number behind the last one not masked of the word and, at the end of the warp, of all words of it; and the first one.
        const u32 others = ~own & exist;
        u32 last = others ? t * 32 + 32 - __clz(others) : 0;
#pragma unroll
        for (u32 step = 1; step < kWarp; step *= 2) {
            const u32 before = __shfl_up_sync(kAllLanes, last, step);
            if (lane >= step) last = max(last, before);
        }
        const u32 first = warp_min_unsigned(others ? t * 32 + __ffs(others) - 1 : ~0u);
        // Nobody reads the totals any more that were written before the last barrier but one.
        if (lane == kWarp - 1) mask.totals[0][warp] = last;
        if (lane == 0) mask.firsts[warp] = first;
        if (t == 0) mask.word = word, mask.is_used = true, mask.n_masked = n_masked, mask.n_bytes = n_bytes, mask.all_bytes = all_bytes, mask.is_coded = coded.n_bytes() <= plain;
        last = __shfl_up_sync(kAllLanes, last, 1);
        if (lane == 0) last = 0;
        __syncthreads();
        u32 first_of_all = ~0u;
#pragma unroll
        for (u32 w = 0; w < kGroups; ++w) {
            if (w < warp) last = max(last, mask.totals[0][w]);
            first_of_all = min(first_of_all, mask.firsts[w]);
        }
        scratch[t] = last > 0 ? last - 1 : first_of_all;
        __syncthreads();
#pragma unroll 1
        for (u32 row = warp; row < n_words; row += kGroups) {
            const u32 i = row * kRow + lane, masked = mask.marks[row], before = ~masked & lanes_below();
            if (i < m && masked >> lane & 1) words[i] = words[before ? row * kRow + 31 - __clz(before) : scratch[row]];
        }
        __syncthreads();
        return true;
    }

    // What is written of the thread's marks, if they are coded; `exist` has those of the numbers that there are.
    __device__ __forceinline__ u32 written(u32 exist) const {
        const bool has_rows = !shared.box.is_line();
        return (has_rows ? changed_marks(shared.mask.marks, shared.box.sx) : shared.mask.marks[threadIdx.x]) & exist;
    }

    // Writes the residuals of the numbers that are not masked behind each other, and makes the others what is predicted, by
    // the first warp. No order is above 1. Is how many residuals there are.
    __device__ __forceinline__ u32 difference(W* numbers, W* residuals, W base, const Orders& o) const {
        const RowBox& box = shared.box;
        const u32 lane = lane_id(), row_length = box.sx, height = o.z > 0 ? box.sy : box.sz * box.sy, plane = height * row_length;
        u32 n = 0, y = 0, z = 0;
#pragma unroll 1
        for (u32 first = 0; first < box.m; first += row_length) {
            W before = 0;
#pragma unroll 1
            for (u32 x = lane; x - lane < row_length; x += kWarp) {
                const u32 i = first + x;
                const bool exists = x < row_length, is_masked = exists && shared.mask.has(i);
                W predicted = 0;
                if (exists && o.y > 0 && y > 0) predicted += numbers[i - row_length] - base;
                if (exists && o.z > 0 && z > 0) predicted += numbers[i - plane] - base;
                if (exists && o.y > 0 && y > 0 && o.z > 0 && z > 0) predicted -= numbers[i - plane - row_length] - base;
                const W own = exists ? numbers[i] - base - predicted : 0;
                const u32 others = __ballot_sync(kAllLanes, exists && !is_masked), up_to_here = others & (lanes_below() | 1u << lane);
                W filled = __shfl_sync(kAllLanes, own, up_to_here ? 31 - __clz(up_to_here) : 0);
                if (up_to_here == 0) filled = before;
                if (o.x == 0) filled = is_masked ? 0 : own;
                W left = __shfl_up_sync(kAllLanes, filled, 1);
                if (lane == 0) left = before;
                if (o.x == 0) left = 0;
                before = __shfl_sync(kAllLanes, filled, kWarp - 1);
                if (is_masked) numbers[i] = filled + predicted + base;
                if (exists && !is_masked) residuals[n + __popc(others & lanes_below())] = zigzag(static_cast<W>(filled - left));
                n += __popc(others);
            }
            if (++y == height) y = 0, ++z;
            __syncwarp();
        }
        if (lane < (0 - n) % kRow) residuals[n + lane] = 0;
        return n;
    }

    // Adds the mask to zeros behind the header of a block, by all threads. Barriers.
    __device__ __forceinline__ void write(unsigned char* stage) const {
        MaskState<W>& mask = shared.mask;
        const u32 t = threadIdx.x, m = shared.box.m, n_words = (m + 31) / 32;
        unsigned char* const to = stage + kHeaderBytes;
        if (t == 0) {
            const u64 word = mask.word;
            const u32 counts = mask.n_masked | mask.n_bytes << 16;
            *reinterpret_cast<uint4*>(to) = make_uint4(static_cast<u32>(word), static_cast<u32>(word >> 32), counts, mask.is_coded);
        }
        const u32 exist = t < n_words ? low_bits(0u, min(m - t * 32, 32u)) : 0;
        if (mask.is_coded) {
            WrittenMarks<kLorenzoThreads>(written(exist), n_words, mask.totals[0]).write(to, kMaskHeaderBytes);
        } else if (t < n_words) {
            reinterpret_cast<u32*>(to + kMaskHeaderBytes)[t] = mask.marks[t];
        }
    }
};
