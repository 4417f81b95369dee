// What the passes of a compression leave for each other, zeroed before the first.

#pragma once

#include "../common/checksum.cuh"
#include "../common/lookback.cuh"
#include "layout.cuh"

// What is told of a section.
struct Section {
    u64 border;           // the word that it shares with the section before: how many have given their bits, and these
    u64 end;              // bits of the stream up to its end
    u32 is_suspect;       // it may have exceptions
    u32 reserved;
    unsigned short bits[kZfpThreads];  // of the stream, that threads have made
};

struct ChunkState {
    Totals stream;   // sums of the stream
    Totals rest;     // and of what is behind it, less the ends of exceptions; counts sections of the second pass
    Totals ends;     // sums of these
    Totals stored;   // of a payload that is the array
    u32 n_suspects;  // sections
    u32 is_stored;
    u64 n_exceptions;
};

struct Tickets {
    u32 first, second;  // of the passes
    u32 reserved[30];
};

// How to launch a pass: a tile is a section.
constexpr LaunchInfo zfp_launch(u32 shared_bytes) {
    return LaunchInfo{kZfpThreads, shared_bytes, 0, 1, sizeof(Tickets), sizeof(ChunkState), 2 * sizeof(u64) + sizeof(Section)};
}

// All of it: Tickets, ChunkState of each chunk, and of each tile two states of look-back, for the bits of the stream and for the units of
// exceptions, and Section.
struct ScratchView {
    Tickets* tickets;
    ChunkState* chunk;
    u64 *bits, *units;  // states
    Section* sections;

    __device__ __forceinline__ ScratchView(void* scratch, u32 n_chunks, u32 tiles, u32 number) : tickets(static_cast<Tickets*>(scratch)) {
        ChunkState* const chunks = reinterpret_cast<ChunkState*>(tickets + 1);
        const u64 n_tiles = static_cast<u64>(n_chunks) * tiles, first = static_cast<u64>(number) * tiles;
        u64* const states = reinterpret_cast<u64*>(chunks + n_chunks);
        chunk = chunks + number;
        bits = states + first, units = states + n_tiles + first;
        sections = reinterpret_cast<Section*>(states + 2 * n_tiles) + first;
    }
};
