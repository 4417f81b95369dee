// Third pass of compression at level max: a warp builds the tables of contexts and writes the
// string of a block, which determines the block's length.

#pragma once

#include "max_scratch.cuh"

template <typename W>
union MaxWriteShared {
    typename ContextTablesMaker<MaxCoding<W>, kWarp>::State tables;
    typename ContextWriter<MaxCoding<W>>::Ranges ranges;
};

// Maps the index of an entry to that of its residual: the same index or, if residuals are stored in
// the order of rows, the index in that order. Blocks with this order have fewer than 2^16 time
// steps, as SmallDivisor requires. An entry of a lane without an element has no residual; its
// result is not used.
struct ResidualPlaces {
    const MaxView view;
    const bool is_by_rows;
    const SmallDivisor steps;

    __device__ __forceinline__ ResidualPlaces(const MaxView& view, bool is_by_rows) : view(view), is_by_rows(is_by_rows), steps(view.row_step()) {}
    __device__ __forceinline__ u32 operator()(u32 entry) const {
        if (!is_by_rows) return entry;
        const u32 lane = entry % kWarp;
        u32 x;
        const u32 rows_before = kWarp * steps.divide(entry / kWarp - view.lag * lane, x);
        return (rows_before + lane) * view.length + x;
    }
};

template <typename W>
__device__ __forceinline__ void quant_max_write(const CompressArgs<Chunk>& args) {
    using Level = MaxLevel<W>;
    using Coding = MaxCoding<W>;
    extern __shared__ __align__(128) unsigned char bytes[];
    MaxWriteShared<W>& shared = *reinterpret_cast<MaxWriteShared<W>*>(bytes);
    const BlockOfAll tile(args.own, blockIdx.x);
    if (has_other_fold(args, tile.chunk)) return;
    typename Level::Block& block = Level::block(args, tile.number);
    BlockInfo<W>& info = block.info;
    const u32 lane = lane_id(), log_unit = args.own.log_unit();
    if (info.header == kConstBlock) {
        if (lane == 0) info.n_units = info.word == 0 ? 0 : units_of(kAlignment + sizeof(W), log_unit);
        return;
    }
    const Box box = find_box(args.own.extents, Level::kLog, tile.index >> args.own.log_parts(), Level::kLogRow);
    const u32 raw_units = units_of(kAlignment + box.m * args.own.part(args.encoded).bytes, log_unit), tables_at = info.front_bytes;
    const ContextTablesMaker<Coding, kWarp> maker{shared.tables};
    maker.clear();
    __syncthreads();
    for (u32 i = lane; i < Coding::kKeys; i += kWarp) shared.tables.counts[i] = block.counts[i];
    __syncthreads();
    maker.run(block.ranges);
    const u32 n_words = (shared.tables.n_bits + 31) / 32;
    for (u32 i = lane; i < n_words; i += kWarp) reinterpret_cast<u32*>(block.front() + tables_at)[i] = shared.tables.words[i];
    __syncthreads();
    const bool may_be_long = shared.ranges.load(block.ranges);
    __syncthreads();
    const u32 front_bytes = tables_at + 4 * n_words;
    const MaxView view(box);
    const ResidualPlaces places(view, block.is_by_rows(view));
    const StringWriter<Coding, true, ResidualPlaces> writer{shared.ranges, may_be_long, Level::entries(args.own, block), Level::residuals(block), view.n_times() * kWarp,
                                                            block.front(), places};
    const u32 string = writer.write(front_bytes, Level::Block::kFrontAndString), string_bytes = Level::Block::kFrontAndString - string;
    const u32 units = units_of(front_bytes + string_bytes, log_unit);
    const bool is_raw = string == 0 || units >= raw_units;
    if (lane > 0) return;
    info.header = is_raw ? kRawBlock : 0, info.n_units = is_raw ? raw_units : units;
    info.front_bytes = front_bytes, info.string = string, info.string_bytes = string_bytes;
}
