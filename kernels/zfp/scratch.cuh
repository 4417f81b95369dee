// Scratch data that the passes of compression share, which is zeroed before the first pass; and the
// error bound of a chunk.

#pragma once

#include "../common/checksum.cuh"
#include "../common/lookback.cuh"
#include "../stage/range.cuh"
#include "layout.cuh"

// State of a section.
struct Section {
    // The word of the stream that is shared with the previous section. Upper half: number of
    // sections that have added their bits. Lower half: these bits.
    u64 border;
    u64 end;              // number of bits of the stream up to the section's end
    u32 is_suspect;       // it may have exceptions
    u32 reserved;
    unsigned short bits[kZfpThreads];  // number of bits that each thread has added to the stream
};

struct ChunkState {
    Totals stream;   // sums of the stream
    // Sums of the payload after the stream, except the ends of exceptions. Also counts the finished
    // CTAs of the second pass.
    Totals rest;
    Totals ends;     // sums of the ends of exceptions
    Totals stored;   // sums of the payload if the chunk is stored
    u32 n_suspects;  // number of sections that may have exceptions
    u32 ticket;      // the next section of the second pass
    u32 is_stored;
    u32 reserved;
    u64 n_exceptions;
    RangeScratch range;  // for mode rel
};

struct Tickets {
    u32 first;  // the next section of the first pass
    u32 reserved[31];
};

// Launch parameters of a pass. A tile is a section. There is one CTA per section, or any number of
// CTAs if `persistent`.
constexpr LaunchInfo zfp_launch(u32 shared_bytes, u32 threads = kZfpThreads, u32 persistent = 0) {
    return LaunchInfo{threads, shared_bytes, persistent, 1, sizeof(Tickets), sizeof(ChunkState), 2 * sizeof(u64) + sizeof(Section)};
}

// Layout of scratch: Tickets; a ChunkState per chunk; two arrays with a look-back state per tile,
// for the bits of the stream and for the units of exceptions; a Section per tile.
struct ScratchView {
    Tickets* tickets;
    ChunkState* chunk;
    u64 *bits, *units;  // look-back states
    Section* sections;

    __device__ __forceinline__ ScratchView(void* scratch, u32 n_chunks, u32 tiles, u32 number) : tickets(static_cast<Tickets*>(scratch)) {
        const u64 n_tiles = static_cast<u64>(n_chunks) * tiles, first = static_cast<u64>(number) * tiles;
        u64* const states = reinterpret_cast<u64*>(chunks(scratch) + n_chunks);
        chunk = chunks(scratch) + number;
        bits = states + first, units = states + n_tiles + first;
        sections = reinterpret_cast<Section*>(states + 2 * n_tiles) + first;
    }
    static __device__ __forceinline__ ChunkState* chunks(void* scratch) { return reinterpret_cast<ChunkState*>(static_cast<Tickets*>(scratch) + 1); }
};

// The error bound of a chunk: the bits of a double, 0 if there is no bound; and the exponent of the
// lowest bit plane that is kept.
struct Bound {
    u64 bits;
    s32 minexp;
};
template <typename W>
__device__ __forceinline__ Bound bound_of(const Chunk& chunk, const ChunkState& state) {
    if (likely(chunk.mode() != kRel)) return {chunk.value, chunk.minexp};
    const u64 bits = bits_of(bound_of_range<W>(state.range, kFloatType<W>, float_of(chunk.value)));
    return {bits, exponent_of_bound(bits)};
}
