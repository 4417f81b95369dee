// Where everything is, in blocks and in scratch. The twin of the layout of the CPU codec.

#pragma once

#include "../stage/flat.cuh"

constexpr u32 kRawHead = 16, kCodedHead = 24;  // bytes in front of elements, and of lists
constexpr u32 kLogMostElements = 16;           // of a block
constexpr u32 kMostElements = 1u << kLogMostElements;
constexpr u32 kSymbolsPer = 4;                 // a block has up to its symbols divided by that of copies, and of rows; and so its copies of repeats
constexpr u32 kElementsPerRun = 2;

enum BlockKind : u32 { kRawBlock = 0, kCodedBlock = 1 };
enum BlockFlags : u32 { kHasRuns = 1, kHasRows = 2 };

// A copy: literal symbols before it, how far back what it copies is, and how long it is.
struct Copy {
    unsigned short literals, distance;
    u32 length;
};

// Copies that are as those before.
struct Repeat {
    unsigned short literals, length, distance, unused;
};

// In scratch, of a block. What is not made by copies comes at the end of its array first: what is then made, from the start on, never
// reaches what has not been read.
template <typename W>
struct alignas(256) BlockScratch {
    W symbols[kMostElements];  // with runs, their lengths less 1 are behind those that a block can have then
    W starts[kMostElements / kSymbolsPer];
    Copy copies[kMostElements / kSymbolsPer];
    Repeat repeats[kMostElements / kSymbolsPer / kSymbolsPer];

    __device__ __forceinline__ unsigned short* lengths() { return reinterpret_cast<unsigned short*>(symbols + kMostElements / kElementsPerRun); }
};
