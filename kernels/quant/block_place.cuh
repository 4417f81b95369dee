// Last pass of compression with blocks of 65536 elements, at levels dense and max: finds each
// block's position in the payload by the protocol of common/ordered_frames.cuh, and copies the
// block there.

#pragma once

#include "blocks_scratch.cuh"
#include "payload_write.cuh"

constexpr u32 kPlaceThreads = 256, kPlaceWarps = kPlaceThreads / kWarp;

struct PlaceShared {
    Ticket ticket[2];
    CtaSums<kPlaceWarps> sums;
    u32 before;
    RowBox box;
};

template <typename W, typename Level>
struct BlockPlacer {
    using Block = typename Level::Block;

    const CompressArgs<Chunk>& args;
    PlaceShared& shared;
    const Element element;  // an element, or one part of a complex element
    const OrderedFrames<FrameLayout> frames;

    __device__ __forceinline__ BlockPlacer(const CompressArgs<Chunk>& args, PlaceShared& shared)
        : args(args), shared(shared), element(args.own.part(args.encoded)),
          frames(args, FrameLayout{args.own, element.bytes << args.own.log_parts()}, args.own.n_blocks, args.own.n_blocks) {}

    __device__ __forceinline__ void run() const {
        const auto prepare = [&](const Ticket& tile) {
            shared.box.set(find_box(args.own.extents, Level::kLog, tile.index >> args.own.log_parts(), Level::kLogRow), Level::kLog);
        };
        frames.run<kPlaceThreads>(shared.ticket, shared.sums, prepare, [&](const Ticket& tile) { return put(tile); });
    }

    // Copies a block to its position in the payload and writes its table entry. Returns the
    // checksum sums of both, in the first thread only.
    __device__ __forceinline__ Sums put(const Ticket& tile) const {
        const u32 chunk = tile.chunk, index = tile.index;
        const Block& block = Level::block(args, chunk * args.own.n_blocks + index);
        const u32 n_units = block.info.n_units;
        if (threadIdx.x == 0) frames.publish(chunk, index, n_units);
        if (threadIdx.x < kWarp) {
            const u32 before = frames.place(chunk, index, n_units);
            if (threadIdx.x == 0) shared.before = before;
        }
        __syncthreads();
        const u32 log_unit = args.own.log_unit(), before = shared.before, n_words = n_units << log_unit >> 2;
        const u64 first = args.own.table_bytes() + (static_cast<u64>(before) << log_unit);
        u32* const to = reinterpret_cast<u32*>(frames.payload(chunk) + first);
        Sums sums;
        const auto store = [&](auto word_of) { store_words<kPlaceThreads>(to, first / 4, n_words, sums, word_of); };
        if (likely(block.info.header == 0)) {
            store(FrontAndString(reinterpret_cast<const u32*>(block.front()), block.info.front_bytes, block.info.string, block.info.string_bytes));
        } else {
            const Finder elements(args.own, shared.box);
            const char* const array = frames.source(chunk) + part_of(args.own, index) * element.bytes;
            const u32 header = block.info.header;
            const W word = header == kConstBlock ? block.info.word : W(0);
            store([&](u32 i) { return plain_word<W>(header, word, i, elements, array, element, shared.box.m, args.flags & kSwapBytes); });
        }
        shared.sums.share(sums);
        __syncthreads();
        Sums all;
        if (threadIdx.x == 0) {
            all = shared.sums.sum();
            add_entry<W>(frames, chunk, index, before, n_units, all);
        }
        return all;
    }
};

template <typename W, typename Level>
__device__ __forceinline__ void place_blocks(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    BlockPlacer<W, Level>(args, *reinterpret_cast<PlaceShared*>(bytes)).run();
}
