// The second and the third pass of compression.
//
// Second pass: a block has two warps. The first one writes the words of all lanes, from codes that
// the other one looks up a batch of rows ahead. Then that one writes the tails. Third pass: blocks get their positions by the
// protocol of common/ordered_frames.cuh, and are copied there.

#pragma once

#include "scratch.cuh"

constexpr u32 kWriteThreads = 2 * kWarp;

template <typename T>
struct WriteShared {
    alignas(16) u32 batches[2][BlockNumbers<T>::kUnit * kWarp];  // codes of these rows, and of the next ones
    u32 codes[Symbols<T>::kCount];
    u32 bitmap[HuffmanBlock<T>::kRows / 32];
};

template <typename T>
struct HuffmanWriter {
    using Symbol = Symbols<T>;
    // Rows whose codes are looked up together; a lane looks up a unit of numbers.
    static constexpr u32 kBatch = BlockNumbers<T>::kUnit;

    WriteShared<T>& shared;
    HuffmanBlock<T>& block;
    const BlockNumbers<T> numbers;
    const u32 n_rows;
    const bool are_differences;

    __device__ __forceinline__ HuffmanWriter(const CompressArgs<Flat>& args, const HuffmanTile& tile, WriteShared<T>& shared)
        : shared(shared), block(huffman_blocks<T>(args)[blockIdx.x]),
          numbers(args, static_cast<const char*>(args.src) + tile.chunk * args.src_stride, tile.index), n_rows(numbers.n_rows()), are_differences(block.kind >> 8) {}

    __device__ __forceinline__ void run() const {
        if ((block.kind & 0xff) != kCodesBlock) return;
        const SectionHead head(block.head);
        for (u32 symbol = threadIdx.x; symbol < Symbol::kCount; symbol += kWriteThreads) {
            shared.codes[symbol] = block.section.longest && symbol - head.lowest < head.n_symbols ? block.section.codes[symbol] : 0;
        }
        for (u32 i = threadIdx.x; i < HuffmanBlock<T>::kRows / 32; i += kWriteThreads) shared.bitmap[i] = block.bitmap[i];
        u32* const words = reinterpret_cast<u32*>(block.bytes);
        const u32 tails = kBlockHead + head.tails(n_rows);
        // Tails are added to zeros, and zeros fill the last unit.
        for (u32 i = tails / 4 + threadIdx.x; i < block.n_units * (kUnitBytes / 4); i += kWriteThreads) words[i] = 0;
        __syncthreads();
        if (warp_id() > 0) {
            if (lane_id() < kUnitBytes / 4) words[lane_id()] = lane_id() == 0 ? block.kind : block.head[lane_id() - 1];
            copy_bytes(kBlockHead + head.bitmap(), shared.bitmap, head.lengths(n_rows) - head.bitmap());
            copy_bytes(kBlockHead + head.lengths(n_rows), block.section.halves, head.length_bytes);
        }
        if (head.n_words > 0) write_words(head.n_words);
        if (head.tail_bytes == 0) return;
        __syncwarp();
        if (warp_id() > 0) write_tails(words, block.n_units * (kUnitBytes / 4), 8 * tails);
    }

    // Writes the words of all lanes, from the last row to the first. Ends with a barrier.
    __device__ __forceinline__ void write_words(u32 n_words) const {
        LaneWriter writer(block.section.lane_counts[lane_id()], block.section.longest, reinterpret_cast<unsigned short*>(block.bytes + kUnitBytes), n_words);
        const u32 n_batches = (n_rows + kBatch - 1) / kBatch;
        const auto first_of = [&](u32 batch) { return (batch * kWarp + lane_id()) * kBatch; };
        auto unit = numbers.load(first_of(n_batches - 1));
#pragma unroll 1
        for (u32 i = n_batches;; --i) {
            // The batch before the one that is written.
            if (warp_id() > 0 && i > 0) {
                u32 of[kBatch];
                numbers.numbers(unit, first_of(i - 1), are_differences, of);
                if (i > 1) unit = numbers.load(first_of(i - 2));
                BlockNumbers<T>::to_symbols(of);
                const u32 to = shared_address(shared.batches[(i - 1) % 2]) + 4 * lane_id() * kBatch;
#pragma unroll
                for (u32 k = 0; k < kBatch; ++k) of[k] = shared.codes[of[k]];
#pragma unroll
                for (u32 k = 0; k < kBatch; k += 4) store_shared_16(to + 4 * k, make_uint4(of[k], of[k + 1], of[k + 2], of[k + 3]));
            } else if (warp_id() == 0 && i < n_batches) {
                put_batch(writer, i * kBatch, shared_address(shared.batches[i % 2]) + 4 * lane_id());
            }
            __syncthreads();
            if (i == 0) break;
        }
        if (warp_id() == 0) writer.finish();
    }
    // Writes a batch of rows, whose codes for this lane begin at the address `from`. Called by a warp.
    __device__ __forceinline__ void put_batch(LaneWriter& writer, u32 first_row, u32 from) const {
        // The rows of a batch are in one word of the bitmap.
        const u32 n = min(n_rows - first_row, kBatch), left_out = shared.bitmap[first_row / 32] >> first_row % 32;
        if (likely(n == kBatch && (left_out & low_bits(0u, kBatch)) == 0)) {
#pragma unroll
            for (u32 k = kBatch; k-- > 0;) writer.put(load_shared_4(from + 4 * kRow * k));
        } else {
#pragma unroll 1
            for (u32 k = n; k-- > 0;) {
                if (!(left_out >> k & 1)) writer.put(load_shared_4(from + 4 * kRow * k));
            }
        }
    }
    // Copies n bytes to byte `at` of the block. Called by a warp.
    __device__ __forceinline__ void copy_bytes(u32 at, const u32* from, u32 n) const {
        for (u32 i = lane_id(); i < n; i += kWarp) block.bytes[at + i] = static_cast<unsigned char>(from[i / 4] >> i % 4 * 8);
    }
    // Adds the tails to zeros, from bit `at` of the block on. The block has `n_words` words.
    // Omitted rows have no tails, since zeros have none. Called by a warp.
    __device__ __forceinline__ void write_tails(u32* words, u32 n_words, u32 at) const {
        auto next = numbers.load(lane_id() * kBatch);
#pragma unroll 1
        for (u32 batch = 0; batch < numbers.m; batch += kBatch * kWarp) {
            const u32 first = batch + lane_id() * kBatch;
            u32 of[kBatch], any = 0, n = 0;
            numbers.numbers(next, first, are_differences, of);
            next = numbers.load(first + kBatch * kWarp);
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) any |= of[k];
            if (!__any_sync(kAllLanes, any >= kDirectSymbols)) continue;
            const auto tail_bits = [&](u32 k) { return first + k < numbers.m ? Symbol::tail_bits(Symbol::of(of[k])) : 0; };
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) n += tail_bits(k);
            const u32 through = at + warp_inclusive_sum(n);
            at = through - n;
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                const u32 n_tail = tail_bits(k), tail = of[k] & low_bits(0u, n_tail);
                // If numbers have changed since they were counted, their tails may exceed the
                // available room.
                if (n_tail > 0 && likely(at + n_tail <= 32 * n_words)) {
                    atomicOr(words + at / 32, tail << at % 32);
                    const u32 behind = __funnelshift_l(tail, 0, at);
                    if (behind) atomicOr(words + at / 32 + 1, behind);
                }
                at += n_tail;
            }
            at = __shfl_sync(kAllLanes, through, kWarp - 1);
        }
    }
};

// Describes lengths to ordered_frames.cuh: a tile is a block, and lengths are in units of 16 bytes.
struct HuffmanFrames {
    using Own = Flat;
    using Sum = u32;
    static constexpr u32 kPartsPerTile = 1;

    const Flat& own;
    const u32 element_bytes;

    __device__ __forceinline__ u64 raw_bytes() const { return own.n * element_bytes; }
    __device__ __forceinline__ u64 payload_bytes(u32 units) const { return own.table_bytes() + static_cast<u64>(units) * kUnitBytes; }
};

constexpr u32 kPlaceThreads = 256;

struct PlaceShared {
    Ticket ticket[2];
    CtaSums<kPlaceThreads / kWarp> sums;
    u32 before;
};

template <typename T>
struct HuffmanPlacer {
    const CompressArgs<Flat>& args;
    PlaceShared& shared;
    const OrderedFrames<HuffmanFrames> frames;

    __device__ __forceinline__ HuffmanPlacer(const CompressArgs<Flat>& args, PlaceShared& shared)
        : args(args), shared(shared), frames(args, HuffmanFrames{args.own, sizeof(T)}, args.own.n_blocks, args.own.n_blocks) {}

    __device__ __forceinline__ void run() const {
        frames.run<kPlaceThreads>(shared.ticket, shared.sums, [](const Ticket&) {}, [&](const Ticket& tile) { return put(tile); });
    }

    // Copies a block to its position in the payload. Thread 0 returns the block's part of the checksum.
    __device__ __forceinline__ Sums put(const Ticket& tile) const {
        const u32 chunk = tile.chunk, index = tile.index;
        const HuffmanBlock<T>& block = huffman_blocks<T>(args)[static_cast<u64>(chunk) * args.own.n_blocks + index];
        const u32 n_units = block.n_units, kind = block.kind;
        if (threadIdx.x == 0) frames.publish(chunk, index, n_units);
        if (threadIdx.x < kWarp) {
            const u32 before = frames.place(chunk, index, n_units);
            if (threadIdx.x == 0) shared.before = before;
        }
        __syncthreads();
        const u32 before = shared.before, n_words = n_units * (kUnitBytes / 4);
        const u64 first = args.own.table_bytes() + static_cast<u64>(before) * kUnitBytes;
        u32* const to = reinterpret_cast<u32*>(frames.payload(chunk) + first);
        Sums sums;
        const auto store = [&](auto word_of) { store_words<kPlaceThreads>(to, first / 4, n_words, sums, word_of); };
        if (kind == kRawBlock) {
            const BlockNumbers<T> numbers(args, frames.source(chunk), index);
            store([&](u32 i) { return i == 0 ? kRawBlock : raw_word(numbers, i - 1); });
        } else if (kind == kConstBlock) {
            store([&](u32 i) { return i == 0 ? kConstBlock : i == 1 ? block.element : 0; });
        } else {
            const u32* const words = reinterpret_cast<const u32*>(block.bytes);
            store([&](u32 i) { return words[i]; });
        }
        shared.sums.share(sums);
        __syncthreads();
        Sums all;
        if (threadIdx.x == 0) {
            all = shared.sums.sum();
            add_entry(chunk, index, before, n_units, all);
        }
        return all;
    }
    // Word i of the raw elements.
    static __device__ __forceinline__ u32 raw_word(const BlockNumbers<T>& numbers, u32 i) {
        constexpr u32 kPerWord = 4 / sizeof(T);
        u32 word = 0;
#pragma unroll
        for (u32 k = 0; k < kPerWord; ++k) {
            if (i * kPerWord + k < numbers.m) word |= numbers.element(i * kPerWord + k) << 8 * sizeof(T) * k;
        }
        return word;
    }
    // Writes the table entry of a block, and the zeros after the last entry. Adds the entry to the
    // sums. Called by one thread.
    __device__ __forceinline__ void add_entry(u32 chunk, u32 index, u32 before, u32 n_units, Sums& sums) const {
        const u32 check = static_cast<u32>(checksum_of(sums.a, sums.b, n_units * kUnitBytes)), end = before + n_units;
        char* const to = frames.payload(chunk);
        reinterpret_cast<uint2*>(to)[index] = make_uint2(end, check);
        sums.add(2ull * index, end);
        sums.add(2ull * index + 1, check);
        if (index + 1 < frames.tiles) return;
        // Zeros add nothing to the sums.
        for (u64 word = 2ull * frames.tiles; word < args.own.table_bytes() / 4; ++word) reinterpret_cast<u32*>(to)[word] = 0;
    }
};

template <typename T>
__device__ __forceinline__ void huffman_write(const CompressArgs<Flat>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    HuffmanWriter<T>(args, HuffmanTile(args.own, blockIdx.x), *reinterpret_cast<WriteShared<T>*>(bytes)).run();
}

template <typename T>
__device__ __forceinline__ void huffman_place(const CompressArgs<Flat>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    HuffmanPlacer<T>(args, *reinterpret_cast<PlaceShared*>(bytes)).run();
}
