// Encodes the blocks of numbers, in two passes. First, a CTA counts the numbers of a block in their
// contexts, and builds the tables (stage/contexts_write.cuh). Then a warp writes the string, which
// determines the block's length, and another one the tails. The counterpart of `EncodeBlock` in numbers.rs.

#pragma once

#include "../stage/contexts.cuh"
#include "../stage/contexts_write.cuh"
#include "compress.cuh"

template <typename W>
using NumberCoding = Coding<W, kNumberContexts, 0, true>;

// An encoded block in scratch. This struct is followed by an entry for each number, then by the
// block's bytes. In these, the front (head, tables and tails) is written from the start on, and the string
// backwards from the end.
template <typename W>
struct alignas(8) MadeBlock {
    u32 kind, n_units;
    u32 front_bytes;           // bytes of the head, the tables and the tails
    u32 string, string_bytes;  // the string's offset, and its bytes including the states
    u32 tails_at;              // where the tails begin
    u32 reserved[2];
    // For each key: the first slot of the symbol (lower half), and its frequency (upper half).
    u32 ranges[NumberCoding<W>::kKeys];

    __device__ __forceinline__ unsigned short* entries() { return reinterpret_cast<unsigned short*>(this + 1); }
    __device__ __forceinline__ unsigned char* bytes(u32 m) { return reinterpret_cast<unsigned char*>(this + 1) + aligned_up(2 * m, kUnitBytes); }
    __device__ __forceinline__ const unsigned char* bytes(u32 m) const { return const_cast<MadeBlock*>(this)->bytes(m); }
    // Available bytes for front and string of a block of m numbers.
    static __device__ __forceinline__ u32 room(u32 m) { return aligned_up(m * static_cast<u32>(sizeof(W)), kUnitBytes) + kStringRowsBytes - kStringEndBytes; }
};
// Bytes of a block in scratch, in addition to a fixed number of bytes for each of its numbers.
template <typename W>
constexpr u32 kMadeBytes = sizeof(MadeBlock<W>) + kStringRowsBytes + 4 * kUnitBytes;
static_assert(kMadeBytes<u32> == 6336 && kMadeBytes<u64> == 9408, "crates/gridz-codecs/src/codec/multigrid/cuda.rs leaves so much");

template <typename W>
__device__ __forceinline__ MadeBlock<W>& made_block(const Work<W>& work, const NumberBlock& block, u32 index) {
    const u64 of_numbers = block.n_before * (sizeof(W) + sizeof(unsigned short)) / kUnitBytes * kUnitBytes;
    return *reinterpret_cast<MadeBlock<W>*>(work.start + work.own.blocks + static_cast<u64>(index) * kMadeBytes<W> + of_numbers);
}
// The chunk and the block of a CTA. Every chunk gets CTAs for the maximum number of blocks.
struct BlockOfAll {
    u32 chunk, index;

    __device__ __forceinline__ explicit BlockOfAll(const Chunk& own) : chunk(blockIdx.x / own.n_blocks), index(blockIdx.x % own.n_blocks) {}
};

constexpr u32 kCountThreads = 256;
// Numbers that a CTA counts in a round, and numbers per thread.
constexpr u32 kCountRound = 4096, kCountPer = kCountRound / kCountThreads;

template <typename W>
struct CountShared {
    // Ring buffer of the sizes of the last numbers; zeros stand for numbers before the first one.
    // The next round's sizes may be written while other threads still read for this round.
    static constexpr u32 kSizes = 1 << 14;
    static_assert(kFarthest + 2 * kCountRound <= kSizes, "what is near is kept");

    unsigned char sizes[kSizes];
    typename ContextTablesMaker<NumberCoding<W>, kCountThreads>::State tables;
};

template <typename W>
__device__ __forceinline__ void multigrid_count(const CompressArgs<Chunk>& args) {
    using Coding = NumberCoding<W>;
    using Entry = ContextEntry<Coding>;
    using Tables = ContextTablesMaker<Coding, kCountThreads>;
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    CountShared<W>& shared = *reinterpret_cast<CountShared<W>*>(shared_bytes);
    const BlockOfAll tile(args.own);
    const Work<W> work = work_of<W>(args, tile.chunk);
    const Plan& plan = work.plan();
    if (plan.is_stored || tile.index >= plan.n_blocks) return;
    const NumberBlock block(plan, tile.index);
    MadeBlock<W>& made = made_block(work, block, tile.index);
    unsigned short* const entries = made.entries();
    const NumberPlaces places(block);
    const Near near(block);
    const Tables tables{shared.tables};
    tables.clear();
    for (u32 i = threadIdx.x; i < CountShared<W>::kSizes / 4; i += kCountThreads) reinterpret_cast<u32*>(shared.sizes)[i] = 0;
    __syncthreads();
    const auto size = [&](u32 i) -> u32 { return shared.sizes[i % CountShared<W>::kSizes]; };
    const W* const from = work.numbers();
    W any = 0;
#pragma unroll 1
    for (u32 first = threadIdx.x; first - threadIdx.x < block.m; first += kCountRound) {
        W numbers[kCountPer];
#pragma unroll
        for (u32 k = 0; k < kCountPer; ++k) {
            const u32 i = first + k * kCountThreads;
            numbers[k] = i < block.m ? from[places(i)] : W(0);
        }
#pragma unroll
        for (u32 k = 0; k < kCountPer; ++k) {
            any |= numbers[k];
            shared.sizes[(first + k * kCountThreads) % CountShared<W>::kSizes] = static_cast<unsigned char>(size_of_symbol(symbol_of(numbers[k])));
        }
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < kCountPer; ++k) {
            const u32 i = first + k * kCountThreads;
            if (i >= block.m) break;
            const u32 up = size(i - near.up), behind = size(i - near.up - 1), beside = size(i - near.beside), two = size(i - 2 * near.up);
            const u32 sum = near.plane ? 2 * up + behind + beside + two + 2 * size(i - near.plane) + size(i - near.below) : 3 * up + 2 * behind + 2 * beside + two;
            const u32 entry = Entry::in_context_of(sum, Entry::of(numbers[k]));
            entries[i] = static_cast<unsigned short>(entry);
            tables.count(Entry::key(entry));
        }
    }
    if (!__syncthreads_or(any != 0)) {
        if (threadIdx.x == 0) made.kind = kZeros, made.n_units = kBlockHead / kUnit;
        return;
    }
    tables.run(made.ranges);
    const u32 tables_bytes = (shared.tables.n_bits + 7) / 8;
    u32* const front = reinterpret_cast<u32*>(made.bytes(block.m));
    for (u32 i = threadIdx.x; i < (tables_bytes + 3) / 4; i += kCountThreads) front[2 + i] = shared.tables.words[i];
    if (threadIdx.x > 0) return;
    const u32 tails_at = kBlockHead + kTailsField + tables_bytes, tails_bytes = (shared.tables.n_tail_bits + 7) / 8;
    front[0] = kCoded, front[1] = tails_bytes;
    made.kind = kCoded, made.tails_at = tails_at, made.front_bytes = tails_at + tails_bytes;
}

constexpr u32 kStringThreads = 2 * kWarp;

template <typename W>
struct StringShared {
    typename ContextWriter<NumberCoding<W>>::Ranges ranges;
    typename TailWriter<NumberCoding<W>, NumberPlaces>::Buffer buffer;
};

template <typename W>
__device__ __forceinline__ void multigrid_write_string(const CompressArgs<Chunk>& args) {
    using Coding = NumberCoding<W>;
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    StringShared<W>& shared = *reinterpret_cast<StringShared<W>*>(shared_bytes);
    const BlockOfAll tile(args.own);
    const Work<W> work = work_of<W>(args, tile.chunk);
    Plan& plan = work.plan();
    if (plan.is_stored || tile.index >= plan.n_blocks) return;
    const NumberBlock block(plan, tile.index);
    MadeBlock<W>& made = made_block(work, block, tile.index);
    const u32 front_bytes = made.front_bytes, end = MadeBlock<W>::room(block.m);
    const bool is_coded = made.kind == kCoded;
    __syncthreads();  // the first warp may change the kind
    if (warp_id() == 1) {
        if (is_coded && has_room(front_bytes, end)) {
            TailWriter<Coding, NumberPlaces>{shared.buffer, made.entries(), work.numbers(), block.m, reinterpret_cast<u32*>(made.bytes(block.m)), NumberPlaces(block)}
                .write(made.tails_at);
        }
        return;
    }
    if (is_coded) {
        const bool may_be_long = shared.ranges.load(made.ranges);
        __syncwarp();
        const StringWriter<Coding, false, NumberPlaces> writer{shared.ranges, may_be_long, made.entries(), work.numbers(), block.m,
                                                               made.bytes(block.m), NumberPlaces(block)};
        const u32 string = writer.write(front_bytes, end);
        const u32 n_bytes = front_bytes + end - string, raw_bytes = kBlockHead + block.m * static_cast<u32>(sizeof(W));
        const bool is_raw = string == 0 || n_bytes >= raw_bytes;
        if (threadIdx.x == 0) {
            made.kind = is_raw ? kRaw : kCoded, made.n_units = ((is_raw ? raw_bytes : n_bytes) + kUnit - 1) / kUnit;
            made.string = string, made.string_bytes = end - string;
        }
        __syncwarp();
    }
    if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&plan.block_units), static_cast<unsigned long long>(made.n_units));
}
