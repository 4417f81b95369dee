// Reads lists of numbers. All threads of a CTA call every function together. The twin of
// crates/gridz-codecs/src/codec/cci/lists.rs.
//
// If all numbers have the same width, all threads read them; otherwise the first warp does, 32
// numbers at a time.

#pragma once

#include "../stage/section.cuh"
#include "../stage/unpack.cuh"
#include "layout.cuh"

struct ListShared {
    SectionTables<u32> tables;
    u32 end;        // end of the list, in bytes from the block's start
    u32 is_damaged;
};

template <u32 kThreads>
struct ListReader {
    ListShared& shared;
    const unsigned char* const block;
    const u32 n_bytes;  // length of the block, a multiple of 4
    const bool has_codes;
    u32 at = kCodedHead;

    __device__ __forceinline__ ListReader(ListShared& shared, const unsigned char* block, u32 n_bytes, bool has_codes)
        : shared(shared), block(block), n_bytes(n_bytes), has_codes(has_codes) {
        if (threadIdx.x == 0) shared.is_damaged = n_bytes < kCodedHead;
        __syncthreads();
    }

    __device__ __forceinline__ bool is_sound() const { return !shared.is_damaged; }
    // Marks the block as damaged. Called by any thread, before a barrier.
    __device__ __forceinline__ void damage() const { shared.is_damaged = 1; }

    // Calls `put(i, number)` for the n numbers of the next list, in words of type N. `put` returns
    // true if the number is valid. Ends with a barrier. Does nothing if damage was found before.
    template <typename N, typename F>
    __device__ __forceinline__ void take(u32 n, F put) {
        if (n == 0 || !is_sound()) return;
        if (n_bytes - at < 4) {
            __syncthreads();
            if (threadIdx.x == 0) damage();
            __syncthreads();
            return;
        }
        const u32 head = *reinterpret_cast<const u32*>(block + at), form = head & 0xff, width = head >> 8 & 0xff, n_least = head >> 16 & 0xff;
        at += 4;
        // Every thread must have read the old damage flag before it is set.
        __syncthreads();
        if (form > 2 || head >> 24 || (form != 0 && head >> 8) || n_least > 2) {
            if (threadIdx.x == 0) damage();
        } else if (form == 0) {
            take_fixed<N>(n, width, n_least, put);
        } else if (form == 1) {
            if (warp_id() == 0) take_rows<N>(n, put);
        } else {
            take_codes<N>(n, put);
        }
        __syncthreads();
        at = shared.end;
    }

  private:
    // Records the end of the list, as a distance in bytes from `at`. Returns false in all threads
    // if it is outside of the block. Thread 0 does the work.
    __device__ __forceinline__ bool end_at(u64 bytes_from_here) const {
        const bool fits = bytes_from_here <= n_bytes - at;
        if (threadIdx.x == 0) {
            if (fits) shared.end = at + static_cast<u32>(bytes_from_here + 3) / 4 * 4;
            if (!fits || shared.end > n_bytes) damage();
        }
        return fits;
    }

    // Reads numbers of one width. Called by all threads.
    template <typename N, typename F>
    __device__ __forceinline__ void take_fixed(u32 n, u32 width, u32 n_least, F put) const {
        const u32* const words = reinterpret_cast<const u32*>(block + at);
        const bool fits = end_at(4ull * (n_least + (static_cast<u64>(width) * n + 31) / 32));
        if (!fits || width > Word<N>::kBits) {
            if (threadIdx.x == 0) damage();
            return;
        }
        const u64 least = (n_least > 0 ? words[0] : 0) | (n_least > 1 ? static_cast<u64>(words[1]) << 32 : 0);
        bool is_possible = true;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < n; i += kThreads) {
            const u64 number = least + (width > 0 ? load_bits(words + n_least, i * width, width, N()) : 0);
            is_possible &= number >= least && static_cast<N>(number) == number && put(i, static_cast<N>(number));
        }
        if (!is_possible) damage();
    }

    // Reads rows of 32 numbers, each row with a width of its own. Called by the first warp.
    template <typename N, typename F>
    __device__ __forceinline__ void take_rows(u32 n, F put) const {
        const u32 lane = lane_id(), n_rows = (n + kWarp - 1) / kWarp, width_bytes = (n_rows + 3) / 4 * 4;
        if (!end_at(width_bytes)) return;
        const u32* const words = reinterpret_cast<const u32*>(block + at + width_bytes);
        const u32 n_words = (n_bytes - at - width_bytes) / 4;
        bool is_possible = true;
        u32 n_taken = 0;
#pragma unroll 1
        for (u32 first = 0; first < n_rows; first += kWarp) {
            const u32 row = first + lane, width = row < n_rows ? block[at + row] : 0, of_row = row < n_rows ? min(n - row * kWarp, kWarp) : 0;
            is_possible &= width <= Word<N>::kBits;
            const u32 n_own = (width * of_row + 31) / 32, through = warp_inclusive_sum(n_own), before = n_taken + through - n_own;
            n_taken += __shfl_sync(kAllLanes, through, kWarp - 1);
            if (!__all_sync(kAllLanes, is_possible) || n_taken > n_words) {
                if (lane == 0) damage();
                return;
            }
            const u32 n_here = min(n_rows - first, kWarp);
#pragma unroll 1
            for (u32 k = 0; k < n_here; ++k) {
                const u32 w = __shfl_sync(kAllLanes, width, k), from = __shfl_sync(kAllLanes, before, k), i = (first + k) * kWarp + lane;
                if (i < n) is_possible &= put(i, w > 0 ? load_bits(words + from, lane * w, w, N()) : N(0));
            }
        }
        if (!is_possible) damage();
        end_at(width_bytes + 4ull * n_taken);
    }

    // Reads entropy-coded numbers. Called by all threads.
    template <typename N, typename F>
    __device__ __forceinline__ void take_codes(u32 n, F put) const {
        const unsigned char* const from = block + at;
        if (!has_codes || n_bytes - at < SectionHead::kBytes) {
            if (threadIdx.x == 0) damage();
            return;
        }
        const SectionHead head(reinterpret_cast<const u32*>(from));
        const u32 n_rows = (n + kWarp - 1) / kWarp;
        const bool is_possible = head.lowest + head.n_symbols <= Symbols<u32>::kCount && head.tail_bytes <= n_bytes;
        if (!is_possible || !end_at(static_cast<u64>(head.tails(n_rows)) + head.tail_bytes)) {
            if (threadIdx.x == 0) damage();
            return;
        }
        shared.tables.template read<kThreads>(head, from + head.lengths(n_rows));
        if (!shared.tables.is_sound) {
            if (threadIdx.x == 0) damage();
            return;
        }
        if (warp_id() > 0) return;
        bool is_right = true;
        const bool is_read = read_section<u32>(shared.tables, head, from, n, [&](u32 i, u32 number, bool exists) {
            if (exists) is_right &= put(i, static_cast<N>(number));
        });
        if (!is_read || !is_right) damage();
    }
};
