// Second pass of compression at level dense: a warp writes the string of a block, which determines
// the block's length. Another warp writes the tails.

#pragma once

#include "../stage/contexts_write.cuh"
#include "dense_scratch.cuh"

constexpr u32 kEncodeThreads = 2 * kWarp;

template <typename W>
struct DenseEncodeShared {
    typename ContextWriter<DenseCoding<W>>::Ranges ranges;
    typename TailWriter<DenseCoding<W>>::Buffer buffer;
};

template <typename W>
struct DenseEncoder {
    const CompressArgs<Chunk>& args;
    DenseBlock<W>& block;
    const u32 m;

    __device__ __forceinline__ DenseEncoder(const CompressArgs<Chunk>& args, const BlockOfAll& tile)
        : args(args), block(DenseLevel<W>::block(args, tile.number)), m(find_box(args.own.extents, kLogDense, tile.index >> args.own.log_parts()).m) {}

    __device__ __forceinline__ u32 units(u32 n_bytes) const { return units_of(n_bytes, args.own.log_unit()); }

    __device__ __forceinline__ void run(DenseEncodeShared<W>& shared) const {
        BlockInfo<W>& info = block.info;
        const bool is_constant = info.header == kConstBlock;
        __syncthreads();  // the first warp may change the header
        if (is_constant) {
            if (threadIdx.x == 0) info.n_units = info.word == 0 ? 0 : units(kAlignment + sizeof(W));
            return;
        }
        const u32 raw_units = units(kAlignment + m * args.own.part(args.encoded).bytes), front_bytes = info.front_bytes;
        if (warp_id() == 1) {
            if (has_room(front_bytes, DenseBlock<W>::kFrontAndString)) {
                TailWriter<DenseCoding<W>>{shared.buffer, block.entries, block.residuals, m, reinterpret_cast<u32*>(block.front())}.write(info.tails_at);
            }
            return;
        }
        const bool may_be_long = shared.ranges.load(block.ranges);
        __syncwarp();
        const StringWriter<DenseCoding<W>, false> writer{shared.ranges, may_be_long, block.entries, block.residuals, m, block.front()};
        const u32 string = writer.write(front_bytes, DenseBlock<W>::kFrontAndString), string_bytes = DenseBlock<W>::kFrontAndString - string;
        const bool is_raw = string == 0 || units(front_bytes + string_bytes) >= raw_units;
        if (threadIdx.x > 0) return;
        info.header = is_raw ? kRawBlock : 0, info.n_units = is_raw ? raw_units : units(front_bytes + string_bytes);
        info.string = string, info.string_bytes = string_bytes;
    }
};

template <typename W>
__device__ __forceinline__ void quant_dense_encode(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    const BlockOfAll tile(args.own, blockIdx.x);
    if (has_other_fold(args, tile.chunk)) return;
    DenseEncoder<W>(args, tile).run(*reinterpret_cast<DenseEncodeShared<W>*>(bytes));
}
