// The second and the third pass of compression at level dense.
//
// Second: a warp writes the string of a block, from its end to its front, and then it is known how long the block is. Entries are
// loaded some rows before they are needed. A row waits for the one before by a short chain only: what its symbols and tails are does not
// depend on states.
//
// Third: blocks get their places by the protocol of common/ordered_frames.cuh, and are copied there.

#pragma once

#include "../stage/contexts_write.cuh"
#include "dense_scratch.cuh"
#include "payload_write.cuh"

template <typename W>
struct DenseEncodeShared {
    typename ContextWriter<W>::Ranges ranges;
};

template <typename W>
struct DenseEncoder {
    using Entry = ContextEntry<W>;
    using Writer = ContextWriter<W>;
    static constexpr u32 kAhead = 32 / sizeof(W);  // rows that are loaded together
    static_assert(2 * (kAhead * Writer::kRowWords + Writer::kZeros) + kStateBytes <= DenseBlock<W>::kRowsBytes, "there is room");

    const CompressArgs<Chunk>& args;
    DenseBlock<W>& block;
    const u32 m;

    __device__ __forceinline__ DenseEncoder(const CompressArgs<Chunk>& args, const DenseTile& tile)
        : args(args), block(dense_blocks<W>(args)[tile.number]), m(find_box(args.own.extents, kLogDense, tile.index >> args.own.log_parts()).m) {}

    __device__ __forceinline__ u32 units(u32 n_bytes) const { return units_of(n_bytes, args.own.log_unit()); }

    __device__ __forceinline__ void run(DenseEncodeShared<W>& shared) const {
        DenseInfo<W>& info = block.info;
        if (info.header == kConstBlock) {
            if (lane_id() == 0) info.n_units = info.word == 0 ? 0 : units(kAlignment + sizeof(W));
            return;
        }
        const u32 raw_units = units(kAlignment + m * args.own.part(args.encoded).bytes), front_bytes = info.front_bytes;
        const u32 string = encode(shared, front_bytes), string_bytes = DenseBlock<W>::kFrontAndString - string;
        const bool is_raw = string == 0 || units(front_bytes + string_bytes) >= raw_units;
        if (lane_id() > 0) return;
        info.header = is_raw ? kRawBlock : 0, info.n_units = is_raw ? raw_units : units(front_bytes + string_bytes);
        info.string = string, info.string_bytes = string_bytes;
    }

    static __device__ __forceinline__ u32 place(u32 row) { return row * kRow + lane_id(); }
    // The number of an entry, as far as its tail goes.
    __device__ __forceinline__ W number(const Writer& writer, u32 entry, u32 i) const {
        return writer.has_long_tail(Entry::key(entry)) ? block.residuals[i] : Entry::tail(entry);
    }
    // Where the string begins, or 0 if there is no room for it.
    __device__ __forceinline__ u32 encode(DenseEncodeShared<W>& shared, u32 front_bytes) const {
        const bool may_be_long = shared.ranges.load(block.ranges);
        __syncwarp();
        Writer writer(shared.ranges, reinterpret_cast<unsigned short*>(block.codes), DenseBlock<W>::kFrontAndString / 2);
        const u32 least = (front_bytes + DenseBlock<W>::kRowsBytes) / 2;
        u32 end = (m + kRow - 1) / kRow;
        // The last ones one by one, so that whole rows are left, and as many as are loaded together.
#pragma unroll 1
        for (; end % kAhead != 0 || end * kRow > m; --end) {
            if (unlikely(writer.at < least)) return 0;
            const u32 i = place(end - 1), entry = i < m ? block.entries[i] : 0;
            writer.template put<false>(number(writer, entry, i), Entry::key(entry), i < m);
        }
        u32 entries[kAhead], next[kAhead];
        // Rows before `end`; where there are none any, so that nobody has to ask.
        const auto load = [&](u32 end) {
            const unsigned short* const from = block.entries + place(max(end, kAhead) - kAhead);
#pragma unroll
            for (u32 k = 0; k < kAhead; ++k) next[k] = from[(kAhead - 1 - k) * kRow];
        };
        if (end > 0) load(end);
#pragma unroll 1
        for (; end > 0; end -= kAhead) {
            if (unlikely(writer.at < least)) return 0;
#pragma unroll
            for (u32 k = 0; k < kAhead; ++k) entries[k] = next[k];
            load(end - kAhead);
            bool have_long = false;
#pragma unroll
            for (u32 k = 0; may_be_long && k < kAhead; ++k) have_long |= writer.has_long_tail(Entry::key(entries[k]));
            if (unlikely(may_be_long && __any_sync(kAllLanes, have_long))) {
                W numbers[kAhead];
#pragma unroll
                for (u32 k = 0; k < kAhead; ++k) numbers[k] = number(writer, entries[k], place(end - 1 - k));
#pragma unroll 1
                for (u32 k = 0; k < kAhead; ++k) {
                    writer.template put<false>(numbers[0], Entry::key(entries[0]), true);
#pragma unroll
                    for (u32 i = 1; i < kAhead; ++i) numbers[i - 1] = numbers[i], entries[i - 1] = entries[i];
                }
            } else {
#pragma unroll
                for (u32 k = 0; k < kAhead; ++k) writer.template put<true>(Entry::tail(entries[k]), Entry::key(entries[k]), true);
            }
        }
        writer.finish();
        if (lane_id() < DenseBlock<W>::kEndBytes / 4) reinterpret_cast<u32*>(block.front() + DenseBlock<W>::kFrontAndString)[lane_id()] = 0;
        return 2 * writer.at;
    }
};

constexpr u32 kPlaceThreads = 256, kPlaceWarps = kPlaceThreads / kWarp;

template <typename W>
struct DensePlaceShared {
    Drawn drawn[2];
    CtaSums<kPlaceWarps> sums;
    u32 before;
    RowBox box;
};

template <typename W>
struct DensePlacer {
    const CompressArgs<Chunk>& args;
    DensePlaceShared<W>& shared;
    const Element element;  // a part of one
    const OrderedFrames<FrameLayout> frames;

    __device__ __forceinline__ DensePlacer(const CompressArgs<Chunk>& args, DensePlaceShared<W>& shared)
        : args(args), shared(shared), element(args.own.part(args.encoded)),
          frames(args, FrameLayout{args.own, element.bytes << args.own.log_parts()}, args.own.n_blocks, args.own.n_blocks) {}

    __device__ __forceinline__ void run() const {
        const auto prepare = [&](const Drawn& tile) {
            shared.box.set(find_box(args.own.extents, kLogDense, tile.index >> args.own.log_parts()), kLogDense);
        };
        frames.run<kPlaceThreads>(shared.drawn, shared.sums, prepare, [&](const Drawn& tile) { return put(tile); });
    }

    // Puts a block to its place; the sums of that.
    __device__ __forceinline__ Sums put(const Drawn& tile) const {
        const u32 chunk = tile.chunk, index = tile.index;
        const DenseBlock<W>& block = dense_blocks<W>(args)[static_cast<u64>(chunk) * args.own.n_blocks + index];
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
            store(Words(block));
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

    // The words of a block: front and string behind each other.
    struct Words {
        const u32* const words;  // where both are
        const u32 front_bytes, end;
        const u32 string, shift;  // the string is so far behind the front, in words and bits

        __device__ __forceinline__ explicit Words(const DenseBlock<W>& block)
            : words(reinterpret_cast<const u32*>(block.codes)), front_bytes(block.info.front_bytes), end(block.info.front_bytes + block.info.string_bytes),
              string((block.info.string - block.info.front_bytes) / 4), shift((block.info.string - block.info.front_bytes) % 4 * 8) {}
        __device__ __forceinline__ u32 operator()(u32 i) const {
            const u32 at = 4 * i;
            u32 word = 0;
            if (at + 4 > front_bytes && at < end) {
                word = shift ? __funnelshift_r(words[i + string], words[i + string + 1], shift) : words[i + string];
                // Of the string's first word only what is behind the front, and nothing behind its end.
                if (at < front_bytes) word &= ~0u << 8 * (front_bytes - at);
                if (at + 4 > end) word &= low_bits(0u, 8 * (end - at));
            }
            return at < front_bytes ? word | words[i] : word;
        }
    };
};

template <typename W>
__device__ __forceinline__ void szp_dense_encode(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    DenseEncoder<W>(args, DenseTile(args.own, blockIdx.x)).run(*reinterpret_cast<DenseEncodeShared<W>*>(bytes));
}

template <typename W>
__device__ __forceinline__ void szp_dense_place(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    DensePlacer<W>(args, *reinterpret_cast<DensePlaceShared<W>*>(bytes)).run();
}
