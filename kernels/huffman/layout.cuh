// The kinds of blocks. They must match those of the CPU codec.

#pragma once

#include "../stage/flat.cuh"

constexpr u32 kBlockHead = 4;  // bytes: the kind, 1 if numbers are differences (else 0), two zeros

enum BlockKind : u32 { kRawBlock = 0, kConstBlock = 1, kCodesBlock = 2 };
