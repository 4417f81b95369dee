// Layouts of blocks and of scratch. The twin of the CPU codec's layout.

#pragma once

#include "../stage/flat.cuh"

// Bytes before the elements of a raw block, and before the lists of a coded block.
constexpr u32 kRawHead = 16, kCodedHead = 24;
constexpr u32 kLogMostElements = 16;           // log2 of the maximum number of elements of a block
constexpr u32 kMostElements = 1u << kLogMostElements;
// A block has at most symbols / kSymbolsPer copies and rows, and copies / kSymbolsPer repeats. With
// runs, it has at most elements / kElementsPerRun symbols, one for each run.
constexpr u32 kSymbolsPer = 4;
constexpr u32 kElementsPerRun = 2;

enum BlockKind : u32 { kRawBlock = 0, kCodedBlock = 1 };
enum BlockFlags : u32 { kHasRuns = 1, kHasRows = 2 };

// A copy: the number of literal symbols between the previous copy and this one, its distance back,
// and its length, in symbols.
struct Copy {
    unsigned short literals, distance;
    u32 length;
};

// A repeat of preceding copies: the number of copies that were read between the previous repeat and
// this one, its length, and its distance back, in copies.
struct Repeat {
    unsigned short literals, length, distance, unused;
};

// Scratch of a block. Data from the lists is first stored at the end of its array. Then the array
// is completed from its start on, which never overwrites data that is still to be read.
template <typename W>
struct alignas(256) BlockScratch {
    W symbols[kMostElements];  // with runs: followed by the run lengths less 1, in the unused half
    W starts[kMostElements / kSymbolsPer];
    Copy copies[kMostElements / kSymbolsPer];
    Repeat repeats[kMostElements / kSymbolsPer / kSymbolsPer];

    __device__ __forceinline__ unsigned short* lengths() { return reinterpret_cast<unsigned short*>(symbols + kMostElements / kElementsPerRun); }
};
