// Second pass of compression: everything after the stream. There is one CTA per section, or per 32
// sections of a chunk without suspects. A suspect is a section that may have exceptions according
// to the first pass.
//
// Each CTA writes its sections' ends and the lengths of their groups. It decodes suspects from the
// stream, and compares them with the array. If the chunk has suspects, decoupled look-back gives
// the positions of exceptions. The last CTA of a chunk writes the tail and the header. If the frame
// is not smaller than a stored one, it leaves the chunk to the third pass, which stores it.
//
// Most blocks need not be compared: their errors are below the bound. Let a block have d axes and
// exponent e, let W be the bits of a word, and P the bits of the type's significand. The planes
// below plane k = W − (e − minexp + 2d + 2) are not written. This changes each number by less than
// 2^(k+1)/3. The inverse transform amplifies this change by at most (15/4)^d, so that the error of
// an element is below (2/3)·(15/16)^d·2^minexp. Roundings of both transforms add less than 2^8
// units of plane 0, and rounding to the type adds less than 2^(e−P). The total is less than the
// bound if e − minexp is at most kSureExponents.
//
// There is one more way to violate the bound: a number, including its error, may not fit a word.
// That requires e = minexp − 1 and an element of at least 3/4·2^e. For smaller e, all planes are
// omitted, and the elements themselves are below the bound. For larger e, errors are relatively
// smaller. The first pass decodes such blocks itself, except those of four axes.
//
// Two more cases occur at the limits of the type. If 2^e is not a number of the type, an element
// may become infinite by its error. And the bound, rounded down to the type (to its largest number,
// or to 0), may be less than 2^minexp.

#pragma once

#include "../common/frame.cuh"
#include "block.cuh"
#include "decode.cuh"
#include "exceptions.cuh"
#include "scratch.cuh"

// Number of sections per CTA in a chunk without suspects.
constexpr u32 kQuietSections = 32;

template <typename W, u32 kRank>
struct FinishShared {
    ExceptionShared<W> exceptions;
    u32 codes[PlanesOf<kRank>::kEntries];
    alignas(16) u32 stage[8 * Slice<W, kRank>::kWords * kZfpThreads];
    alignas(16) u32 cells[kRank == 4 ? kZfpThreads / kQuarterLanes * kCellWords : 1];
    u32 warp_bits[kZfpWarps];
    CtaSums<kZfpWarps> sums;
    u32 tile;
    u64 before;  // units of exceptions in preceding sections
};

// Decodes a section, and marks its exceptions in shared memory. Returns the number that the thread
// has marked.
template <typename W, u32 kRank>
__device__ __forceinline__ u32 mark_exceptions(FinishShared<W, kRank>& shared, const Chunk& chunk, const BlockGrid<kRank>& grid, const W* array, bool swaps,
                                               const u32* stream, u64 stream_words, const ScratchView& scratch, u32 tile, const Bound& bound) {
    constexpr u32 n = kOwnNumbers<kRank>;
    const u32 t = threadIdx.x, warp = t / kWarp;
    for (u32 i = t; i < PlanesOf<kRank>::kEntries; i += kZfpThreads) shared.codes[i] = PlanesOf<kRank>::entry(i);
    const u32 n_bits = scratch.sections[tile].bits[t], through = warp_inclusive_sum(n_bits);
    if (lane_id() == kWarp - 1) shared.warp_bits[warp] = through;
    __syncthreads();
    u64 start = (tile ? scratch.sections[tile - 1].end : 0) + through - n_bits;
#pragma unroll
    for (u32 w = 0; w < kZfpWarps; ++w) {
        if (w < warp) start += shared.warp_bits[w];
    }
    // Threads that share a block all read it from its first bit on.
    if (kBlockThreads<kRank> > 1) start = __shfl_sync(kAllLanes, start, lane_id() / kBlockThreads<kRank> * kBlockThreads<kRank>);
    const LeftOut<W> left_out(chunk, bound);
    const u64 first_word = start / 32;
    BitReader<GlobalWords> reader{{stream + first_word, static_cast<u32>(min(stream_words - first_word, u64{1} << 20))}, static_cast<u32>(start % 32)};
    const u32 table = shared_address(shared.codes), own = Slice<W, kRank>::own_address(shared.stage);
    const u32 first = first_own_block<kRank>(tile), cells = shared_address(shared.cells) + t / kQuarterLanes * kCellWords * 4;
    u32* const bitmap = shared.exceptions.outliers + kOwnBitmapWords * t;
    u32 n_marked = 0;
    bitmap[0] = bitmap[1] = 0;
#pragma unroll 1
    for (u32 j = 0; j < kThreadBlocks<kRank>; ++j) {
        // With four axes, threads without a block take part in the exchanges of their warp.
        const bool exists = first + j < chunk.n_blocks;
        if (kRank < 4 && !exists) break;
        const auto place = own_part(grid, grid.place(exists ? first + j : 0));
        W decoded[n];
        restore_block<W, kRank, Lossy>(decoded, chunk, read_block<W, kRank, Lossy>(reader, table, own, chunk, bound.minexp, decoded), cells);
        u64 start_of_block = place.start;
        const auto load = [&](u32 i) {
            const W word = is_there(place.there, i) ? array[start_of_block + grid.offset(i)] : 0;
            return swaps ? swapped_bytes(word) : word;
        };
        W all = 0;
        if (left_out.is_float) {
#pragma unroll
            for (u32 i = 0; i < n; ++i) {
                const W word = load(i);
                if (!left_out.has(word)) all = max(all, word & Floats<W>::kMagnitude);
            }
        }
        all = max_of_block<kRank>(all);
        const bool is_tiny = left_out.is_float && exponent_of(all) < Floats<W>::kTiny;
        u64 found = 0;
        // Words are loaded again, rather than kept in registers.
        launder(start_of_block);
#pragma unroll
        for (u32 i = 0; i < n; ++i) {
            const W word = load(i);
            const bool is_exception = exists && is_there(place.there, i) && (left_out.has(word) || left_out.differs(word, decoded[i], is_tiny));
            found |= static_cast<u64>(is_exception) << i;
        }
        n_marked += __popcll(found);
        found <<= j * n % 64;
        bitmap[0] |= static_cast<u32>(found), bitmap[1] |= static_cast<u32>(found >> 32);
    }
    return n_marked;
}

template <typename W, u32 kRank>
__device__ __forceinline__ void zfp_finish(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    FinishShared<W, kRank>& shared = *reinterpret_cast<FinishShared<W, kRank>*>(shared_bytes);
    const Chunk& chunk = args.own;
    const u32 tiles = gridDim.x / args.n_chunks, t = threadIdx.x;
    const u32 chunk_number = blockIdx.x / tiles, number = blockIdx.x - chunk_number * tiles;
    const ScratchView scratch(args.scratch, args.n_chunks, tiles, chunk_number);
    ChunkState& state = *scratch.chunk;
    // Without suspects, a CTA has several sections, and most CTAs have none. With suspects, CTAs
    // wait for preceding sections, so tickets assign the sections in order.
    const bool has_suspects = state.n_suspects > 0;
    const u32 per_cta = has_suspects ? 1 : kQuietSections, n_ctas = (tiles + per_cta - 1) / per_cta;
    if (number >= n_ctas) return;
    if (t == 0) shared.tile = has_suspects ? atomicAdd(&state.ticket, 1) : number * per_cta;
    __syncthreads();
    const u32 tile = shared.tile, n_own = min(per_cta, tiles - tile);
    const Bound bound = bound_of<W>(chunk, state);
    const Sections<kRank> sections(chunk);
    const u64 bits = scratch.sections[tiles - 1].end, stream_bytes = Sections<kRank>::stream_bytes(bits);
    char* const frame = static_cast<char*>(args.dst) + chunk_number * args.dst_stride;
    char* const payload = frame + args.encoded.n_bytes;
    u32* const words = reinterpret_cast<u32*>(payload);
    const u64 raw_bytes = chunk.elements() * sizeof(W);
    // Whether the encoded frame, with `units` units of exceptions, is smaller than a stored frame.
    const auto is_smaller = [&](u64 units) {
        return units < 1ull << 32 && args.encoded.n_bytes + sections.payload_bytes(bits, static_cast<u32>(units)) < args.stored.n_bytes + raw_bytes;
    };
    Sums sums, of_ends;
    const auto put = [&](u64 i, u32 word, Sums& to) {
        words[i] = word;
        to.add(i, word);
    };

    const u64 ends_at = stream_bytes / 4, groups_at = ends_at + sections.ends_bytes() / 4, rest_at = groups_at + sections.groups_bytes() / 4;
    const bool may_be_smaller = is_smaller(0);
    if (may_be_smaller && !chunk.has_fixed_blocks()) {
        if (t < 2 * n_own) put(ends_at + 2ull * tile + t, static_cast<u32>(scratch.sections[tile + t / 2].end >> 32 * (t % 2)), sums);
        // A word has the lengths of two groups.
        for (u32 i = t; i < n_own * kGroups / 2; i += kZfpThreads) {
            const u64 word = static_cast<u64>(tile) * (kGroups / 2) + i;
            if (word >= sections.groups_bytes() / 4) break;
            const Section& section = scratch.sections[tile + i / (kGroups / 2)];
            u32 pair = 0;
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                u32 n_bits = 0;
#pragma unroll
                for (u32 j = 0; j < kThreadsPerGroup; ++j) n_bits += section.bits[(2 * (i % (kGroups / 2)) + k) * kThreadsPerGroup + j];
                pair |= n_bits << 16 * k;
            }
            put(groups_at + word, pair, sums);
        }
    }

    const bool may_have_exceptions = may_be_smaller && has_suspects;
    if (unlikely(may_have_exceptions)) {
        const BlockGrid<kRank> grid(chunk);
        const W* const array = reinterpret_cast<const W*>(static_cast<const char*>(args.src) + chunk_number * args.src_stride);
        const bool swaps = args.flags & kSwapBytes;
        const auto load = [&](u32 place) {
            const W word = array[PlacedElement<kRank>(grid, chunk, tile, place).offset];
            return swaps ? swapped_bytes(word) : word;
        };
        WrittenExceptions<W, kRank> exceptions;
        if (scratch.sections[tile].is_suspect) {
            const u32 n = mark_exceptions<W, kRank>(shared, chunk, grid, array, swaps, words, stream_bytes / 4, scratch, tile, bound);
            const u32 of_warp = warp_sum(n);
            if (lane_id() == 0 && of_warp) atomicAdd(reinterpret_cast<unsigned long long*>(&state.n_exceptions), static_cast<unsigned long long>(of_warp));
            exceptions.make(shared.exceptions, load);
        }
        const u32 units = exceptions.units();
        if (t < kWarp) {
            if (t == 0) publish_state(scratch.units + tile, units, tile == 0 ? kPrefix : kOwn);
            const u64 before = look_back<u64>(scratch.units, tile);
            if (t == 0) {
                if (tile > 0) publish_state(scratch.units + tile, before + units, kPrefix);
                shared.before = before;
            }
        }
        __syncthreads();
        const u64 before = shared.before, end = before + units;
        // Otherwise the chunk will be stored, and there may be no room for the exceptions.
        if (is_smaller(max(end, u64{1}))) {
            if (t == 0) put(rest_at + tile, static_cast<u32>(end), of_ends);
            if (units) exceptions.write(shared.exceptions, words, rest_at + sections.exception_ends_bytes() / 4 + before, load, sums);
        }
    }

    if (t == 0) state.ends.add(of_ends);
    shared.sums.share(sums);
    __syncthreads();
    if (t >= kWarp) return;
    u32 n_before = 0;
    if (t == 0) {
        state.rest.add(shared.sums.sum());
        n_before = state.rest.count(0, 1);
    }
    if (likely(__shfl_sync(kAllLanes, n_before, 0) + 1 != n_ctas)) return;
    Totals::acquire();
    const u64 units = may_have_exceptions ? await_prefix(scratch.units + tiles - 1) : 0;
    if (!may_be_smaller || !is_smaller(units)) {
        if (t == 0) state.is_stored = 1;
        return;
    }
    const u64 n_bytes = sections.payload_bytes(bits, static_cast<u32>(units)), tail_at = (n_bytes - kTailBytes) / 4;
    const volatile ChunkState& all = state;
    Sums tail;
    if (t == 0) {
        // Padding between the parts.
        if (units && sections.sections() % 2) words[rest_at + sections.sections()] = 0;
        if (units % 2) words[tail_at - 1] = 0;
        const u64 n = min(static_cast<u64>(all.n_exceptions), u64{0xffffffff});
        const u32 last[kTailBytes / 4] = {static_cast<u32>(bits), static_cast<u32>(bits >> 32), static_cast<u32>(bound.bits), static_cast<u32>(bound.bits >> 32),
                                          static_cast<u32>(n), static_cast<u32>(units)};
#pragma unroll
        for (u32 i = 0; i < kTailBytes / 4; ++i) put(tail_at + i, last[i], tail);
        tail.a += all.stream.sum_a + all.rest.sum_a + (units ? all.ends.sum_a : 0);
        tail.b += all.stream.sum_b + all.rest.sum_b + (units ? all.ends.sum_b : 0);
    }
    const u64 checksum = __shfl_sync(kAllLanes, checksum_of(tail.a, tail.b, n_bytes), 0);
    write_header(args.encoded, frame, n_bytes, checksum);
    if (t == 0) args.frame_bytes[chunk_number] = args.encoded.n_bytes + n_bytes;
}

// Third pass: stores the chunks that compression would not make smaller.
__device__ __forceinline__ void zfp_store_chunk(const CompressArgs<Chunk>& args) {
    __shared__ CtaSums<kZfpWarps> shared;
    const u32 tiles = gridDim.x / args.n_chunks, chunk_number = blockIdx.x / tiles, tile = blockIdx.x - chunk_number * tiles;
    ChunkState& state = *ScratchView(args.scratch, args.n_chunks, tiles, chunk_number).chunk;
    if (likely(!state.is_stored)) return;
    const u64 n_bytes = args.own.elements() * args.stored.words[3], share = (n_bytes / tiles / kUnitBytes + 1) * kUnitBytes, first = tile * share;
    unsigned char* const array = reinterpret_cast<unsigned char*>(const_cast<void*>(args.src)) + chunk_number * args.src_stride;
    char* const frame = static_cast<char*>(args.dst) + chunk_number * args.dst_stride;
    unsigned char* const payload = reinterpret_cast<unsigned char*>(frame) + args.stored.n_bytes;
    Sums sums;
    if (first < n_bytes) {
        const u32 n = static_cast<u32>(min(n_bytes - first, share));
        copy_stored<StoredCopy<kZfpThreads, 4, Towards::kPayload, Pieces::kWords>>(threadIdx.x, array, payload, first, n, sums);
    }
    shared.share(sums);
    __syncthreads();
    if (threadIdx.x >= kWarp) return;
    u32 n_before = 0;
    if (threadIdx.x == 0) {
        state.stored.add(shared.sum());
        n_before = state.stored.count(0, 1);
    }
    if (likely(__shfl_sync(kAllLanes, n_before, 0) + 1 != tiles)) return;
    Totals::acquire();
    write_header(args.stored, frame, n_bytes, state.stored.checksum(n_bytes));
    if (threadIdx.x == 0) args.frame_bytes[chunk_number] = args.stored.n_bytes + n_bytes;
}
