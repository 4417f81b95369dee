// What blocks are. The twin of the layout of the CPU codec.

#pragma once

#include "../stage/flat.cuh"

constexpr u32 kBlockHead = 4;  // bytes: kind, whether there are differences, zeros

enum BlockKind : u32 { kRawBlock = 0, kConstBlock = 1, kCodesBlock = 2 };
