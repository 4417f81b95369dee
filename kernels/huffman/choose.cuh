// The first pass of compression. A CTA reads a block twice, and one row of eight before.
//
//   1. It counts the symbols in one of eight rows, with and without differences, and chooses the
//      shorter variant.
//   2. It counts all symbols, marks rows of zeros, and checks whether all elements are equal. It
//      builds codes (stage/section_write.cuh).
//   3. It adds up the code lengths of each lane, which give the length of the block.
//
// One thread builds the tree of the codes. So CTAs are small: others work meanwhile.
//
// Elements are loaded in units of 16 bytes. A row consists of several units.

#pragma once

#include "scratch.cuh"

constexpr u32 kChooseThreads = 128, kChooseWarps = kChooseThreads / kWarp;

template <typename T>
struct ChooseShared {
    static constexpr u32 kBitmapWords = HuffmanBlock<T>::kRows / 32;

    SectionChoice<T, kChooseThreads> choice;
    u32 bitmap[kBitmapWords];  // rows of zeros
    u64 squares[2];
    u32 tail_bits[2];      // of the sampled numbers, and of their differences
    u32 all_tail_bits, n_marked, last_row;
};

template <typename T>
struct HuffmanChooser {
    using Symbol = Symbols<T>;
    using Shared = ChooseShared<T>;
    static constexpr u32 kSymbols = Symbol::kCount, kSampleEvery = 8;
    static constexpr u32 kUnit = BlockNumbers<T>::kUnit, kRowUnits = BlockNumbers<T>::kRowUnits;

    const CompressArgs<Flat>& args;
    Shared& shared;
    HuffmanBlock<T>& block;
    const BlockNumbers<T> numbers;
    const u32 n_rows;

    __device__ __forceinline__ HuffmanChooser(const CompressArgs<Flat>& args, const HuffmanTile& tile, Shared& shared)
        : args(args), shared(shared), block(huffman_blocks<T>(args)[blockIdx.x]),
          numbers(args, static_cast<const char*>(args.src) + tile.chunk * args.src_stride, tile.index), n_rows(numbers.n_rows()) {}

    __device__ __forceinline__ u32* counts(u32 k) const { return k == 0 ? shared.choice.lengths.counts : shared.choice.lengths.leaves; }
    static __device__ __forceinline__ u32 units_of(u32 n_bytes) { return (kBlockHead + n_bytes + kUnitBytes - 1) / kUnitBytes; }

    __device__ __forceinline__ void run() const {
        for (u32 symbol = threadIdx.x; symbol < kSymbols; symbol += kChooseThreads) counts(0)[symbol] = counts(1)[symbol] = 0;
        for (u32 i = threadIdx.x; i < Shared::kBitmapWords; i += kChooseThreads) shared.bitmap[i] = 0;
        if (threadIdx.x < 2) shared.squares[threadIdx.x] = 0, shared.tail_bits[threadIdx.x] = 0;
        if (threadIdx.x == 0) shared.all_tail_bits = shared.n_marked = shared.last_row = 0;
        __syncthreads();
        count_sample();
        __syncthreads();
        add_squares();
        __syncthreads();
        const u32 n = sample_numbers();
        const bool are_differences = cost(n, 1) < cost(n, 0);
        for (u32 symbol = threadIdx.x; symbol < kSymbols; symbol += kChooseThreads) counts(0)[symbol] = 0;
        __syncthreads();
        const bool differ = __syncthreads_or(count(are_differences));
        if (!differ) {
            if (threadIdx.x == 0) block.kind = kConstBlock, block.n_units = units_of(sizeof(T)), block.element = numbers.element(0);
            return;
        }
        const bool has_bitmap = find_bitmap();
        __syncthreads();
        shared.choice.make_codes(block.section);
        __syncthreads();
        if (shared.choice.longest > 0) add_lengths(are_differences);
        __syncthreads();
        if (threadIdx.x < kWarp) shared.choice.count_words(block.section);
        __syncthreads();
        if (threadIdx.x == 0) finish(are_differences, has_bitmap);
    }

    // Counts the symbols of the sampled numbers, and of their differences.
    __device__ __forceinline__ void count_sample() const {
        u32 tail_bits[2] = {};
        const u32 n_units = (n_rows + kSampleEvery - 1) / kSampleEvery * kRowUnits;
#pragma unroll 1
        for (u32 unit = threadIdx.x; unit < n_units; unit += kChooseThreads) {
            const u32 first = unit / kRowUnits * kSampleEvery * kRow + unit % kRowUnits * kUnit;
            const auto elements = numbers.load(first);
#pragma unroll
            for (u32 are_differences = 0; are_differences < 2; ++are_differences) {
                u32 of[kUnit];
                numbers.numbers(elements, first, are_differences, of);
                const bool have_tails = BlockNumbers<T>::to_symbols(of);
#pragma unroll
                for (u32 k = 0; k < kUnit; ++k) {
                    if (first + k >= numbers.m) break;
                    atomicAdd(&counts(are_differences)[of[k]], 1);
                    if (have_tails) tail_bits[are_differences] += Symbol::tail_bits(of[k]);
                }
            }
        }
#pragma unroll
        for (u32 k = 0; k < 2 && Symbol::kHasTails; ++k) {
            const u32 sum = warp_sum(tail_bits[k]);
            if (lane_id() == 0) atomicAdd(&shared.tail_bits[k], sum);
        }
    }
    __device__ __forceinline__ u32 sample_numbers() const {
        const u32 n = (n_rows + kSampleEvery - 1) / kSampleEvery * kRow;
        return (n_rows - 1) % kSampleEvery == 0 ? n - (n_rows * kRow - numbers.m) : n;
    }
    __device__ __forceinline__ void add_squares() const {
        u64 sums[2] = {};
        for (u32 symbol = threadIdx.x; symbol < kSymbols; symbol += kChooseThreads) {
#pragma unroll
            for (u32 k = 0; k < 2; ++k) sums[k] += static_cast<u64>(counts(k)[symbol]) * counts(k)[symbol];
        }
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            const u64 sum = warp_sum(sums[k]);
            if (lane_id() == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&shared.squares[k]), sum);
        }
    }
    // Returns log2 of a positive number in sixteenths, rounded down. Interpolates linearly between
    // powers of two.
    static __device__ __forceinline__ u64 log(u64 number) {
        const u32 whole = bit_length(number) - 1;
        return 16 * static_cast<u64>(whole) + (number << (63 - whole) << 1 >> 60);
    }
    // Estimated size of n sampled numbers (k = 0) or differences (k = 1), in sixteenths of a bit.
    __device__ __forceinline__ u64 cost(u64 n, u32 k) const { return n * (log(n * n) - log(shared.squares[k])) + 16ull * shared.tail_bits[k]; }

    // Decides whether the section has a bitmap of omitted rows, whose zeros then do not count;
    // otherwise clears all marks. Also finds the last coded row. Contains a barrier.
    __device__ __forceinline__ bool find_bitmap() const {
        u32* const bitmap = shared.bitmap;
        const u32 own = threadIdx.x < Shared::kBitmapWords ? bitmap[threadIdx.x] : 0;
        if (own) atomicAdd(&shared.n_marked, __popc(own));
        __syncthreads();
        // In a coded row, each zero takes at least one bit. The bitmap takes one bit per row.
        const bool has_bitmap = kRow * shared.n_marked > n_rows;
        if (threadIdx.x == 0 && has_bitmap) counts(0)[0] -= kRow * shared.n_marked;
        if (threadIdx.x < Shared::kBitmapWords) {
            const u32 kept = has_bitmap ? own : 0, first = 32 * threadIdx.x;
            const u32 coded = first < n_rows ? ~kept & low_bits(0u, min(n_rows - first, 32u)) : 0;
            bitmap[threadIdx.x] = block.bitmap[threadIdx.x] = kept;
            if (coded) atomicMax(&shared.last_row, first + bit_length(coded) - 1);
        }
        return has_bitmap;
    }

    // Calls `f(first, of)` for the thread's units. `of` holds the kUnit numbers from index `first`
    // on; `first` is past the last row if the warp has more lanes than units are left.
    template <typename F>
    __device__ __forceinline__ void for_units(bool are_differences, F f) const {
        const u32 n_units = n_rows * kRowUnits, end = (n_units + kWarp - 1) / kWarp * kWarp;
        auto next = numbers.load(threadIdx.x * kUnit);
#pragma unroll 1
        for (u32 unit = threadIdx.x; unit < end; unit += kChooseThreads) {
            const auto elements = next;
            next = numbers.load((unit + kChooseThreads) * kUnit);
            u32 of[kUnit] = {};
            if (likely(unit < n_units)) numbers.numbers(elements, unit * kUnit, are_differences, of);
            f(unit * kUnit, of);
        }
    }
    // Counts all symbols and marks rows of zeros. Returns true if any of the thread's elements
    // differs from the block's first one.
    __device__ __forceinline__ bool count(bool are_differences) const {
        // What all numbers are if all elements are equal, except the first difference.
        const u32 expected = are_differences ? 0 : numbers.number(numbers.element(0));
        u32 tail_bits = 0, unexpected = 0;
        for_units(are_differences, [&](u32 first, u32 (&of)[kUnit]) {
            const bool exists = first < n_rows * kRow;
            u32 any = 0;
#pragma unroll
            for (u32 k = 0; k < kUnit; ++k) any |= of[k], unexpected |= k == 0 && first == 0 && are_differences ? 0 : exists ? of[k] ^ expected : 0;
            if (BlockNumbers<T>::to_symbols(of)) {
#pragma unroll
                for (u32 k = 0; k < kUnit; ++k) tail_bits += first + k < numbers.m ? Symbol::tail_bits(of[k]) : 0;
            }
            if (exists) {
#pragma unroll
                for (u32 k = 0; k < kUnit; ++k) atomicAdd(&counts(0)[of[k]], 1);
            }
            const u32 zeros = __ballot_sync(kAllLanes, any == 0 && exists);
            if (likely(zeros == 0)) return;
            // The units of the lane's row.
            const u32 of_row = low_bits(0u, kRowUnits) << lane_id() / kRowUnits * kRowUnits, row = first / kRow;
            if ((zeros & of_row) == of_row && lane_id() % kRowUnits == 0) atomicOr(&shared.bitmap[row / 32], 1u << row % 32);
        });
        if (Symbol::kHasTails) {
            const u32 sum = warp_sum(tail_bits);
            if (lane_id() == 0) atomicAdd(&shared.all_tail_bits, sum);
        }
        return unexpected != 0;
    }
    __device__ __forceinline__ void add_lengths(bool are_differences) const {
        // All units of a thread cover the same lanes.
        static_assert(kChooseThreads % kRowUnits == 0, "threads start at whole rows");
        u32 bits[kUnit] = {};
        const u32 first_lane = threadIdx.x % kRowUnits * kUnit;
        for_units(are_differences, [&](u32 first, u32 (&of)[kUnit]) {
            const u32 row = first / kRow;
            if (row >= n_rows || shared.bitmap[row / 32] >> row % 32 & 1) return;
            const bool is_last = row == shared.last_row;
            BlockNumbers<T>::to_symbols(of);
#pragma unroll
            for (u32 k = 0; k < kUnit; ++k) {
                const u32 length = shared.choice.lengths.lengths[of[k]];
                bits[k] += length;
                if (unlikely(is_last)) shared.choice.last[first_lane + k] = length;
            }
        });
#pragma unroll
        for (u32 k = 0; k < kUnit; ++k) atomicAdd(&shared.choice.lane_bits[first_lane + k], bits[k]);
    }

    // Writes the length and the header of the block. Called by one thread.
    __device__ __forceinline__ void finish(bool are_differences, bool has_bitmap) const {
        const auto& choice = shared.choice;
        const u32 tail_bytes = (shared.all_tail_bits + 7) / 8, raw_units = units_of(numbers.m * sizeof(T));
        SectionHead head;
        head.n_words = choice.n_words, head.has_bitmap = has_bitmap, head.length_bytes = choice.length_bytes();
        const u32 n_units = units_of(head.tails(n_rows) + tail_bytes);
        block.kind = n_units >= raw_units ? kRawBlock : kCodesBlock | static_cast<u32>(are_differences) << 8;
        block.n_units = min(n_units, raw_units);
        block.head[0] = choice.lowest | choice.n_symbols() << 16;
        block.head[1] = head.length_bytes | head.n_words << 16;
        block.head[2] = tail_bytes | static_cast<u32>(has_bitmap) << 31;
    }
};

template <typename T>
__device__ __forceinline__ void huffman_choose(const CompressArgs<Flat>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    HuffmanChooser<T>(args, HuffmanTile(args.own, blockIdx.x), *reinterpret_cast<ChooseShared<T>*>(bytes)).run();
}
