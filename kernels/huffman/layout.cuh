// The kinds of blocks. The twin of the CPU codec's layout.

#pragma once

#include "../stage/flat.cuh"

constexpr u32 kBlockHead = 4;  // bytes: kind, whether there are differences, zeros

enum BlockKind : u32 { kRawBlock = 0, kConstBlock = 1, kCodesBlock = 2 };
