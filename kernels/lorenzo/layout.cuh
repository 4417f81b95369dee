// Where everything is: blocks in the array, sections in the payload and in a block. The twin of the layout of the CPU
// codec.
//
//   table: u32 end of each block in units of 16 bytes, u32 its check | pad to 16 bytes | blocks
//
// In shared memory the numbers of a block are kept in segments of 128 bytes, 32 of u32 or 16 of u64, each followed by
// 16 bytes of padding, and in blocks that may have HUFF eight of them by 16 more. Then threads that read adjacent words,
// threads that read adjacent segments 16 bytes at a time, and those that write the runs of HUFF, which are 8 rows apart,
// meet few bank conflicts.

#pragma once

#include "../common/bits.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"

constexpr u32 kGroup = 1024;       // numbers that are packed with the same widths
constexpr u32 kRow = 32;           // numbers of a row of a group, one a lane
constexpr u32 kGroupRows = kGroup / kRow;
constexpr u32 kHeaderBytes = 16;   // of a block
constexpr u32 kSegmentBytes = 128;
constexpr u32 kSegmentStride = kSegmentBytes + kUnitBytes;

template <typename W>
struct Type {
    static constexpr u32 kBytes = sizeof(W);
    static constexpr u32 kBits = 8 * kBytes;
    static constexpr u32 kSegment = kSegmentBytes / kBytes;        // numbers
    static constexpr u32 kRowSegments = kRow / kSegment;
    static constexpr u32 kPerUnit = kUnitBytes / kBytes;
    static constexpr u32 kMantissa = kBytes == 8 ? 52 : 23;        // bits of the fraction of the float of this size
    static constexpr u32 kMaxExponent = kBytes == 8 ? 2047 : 255;  // that of infinity
};

enum Coder : u32 { kRaw = 0, kConst = 1, kSplit = 2, kHuff = 3 };
enum Map : u32 { kBits = 0, kFixed = 1, kDict = 2 };

// The instruction finds -1 in 0.
__device__ __forceinline__ u32 bit_length(u32 v) {
    u32 highest;
    asm("bfind.u32 %0, %1;" : "=r"(highest) : "r"(v));
    return highest + 1;
}
__device__ __forceinline__ u32 bit_length(u64 v) {
    u32 highest;
    asm("bfind.u64 %0, %1;" : "=r"(highest) : "l"(v));
    return highest + 1;
}
__device__ __forceinline__ u32 trailing_zeros(u32 v) { return __ffs(v) - 1; }
__device__ __forceinline__ u32 trailing_zeros(u64 v) { return __ffsll(v) - 1; }

// The lowest n bits, n at most the number of bits.
__device__ __forceinline__ u32 low_bits(u32, u32 n) { return n ? ~0u >> (32 - n) : 0; }
__device__ __forceinline__ u64 low_bits(u64, u32 n) { return n ? ~0ull >> (64 - n) : 0; }

// Shift to the right, filled with copies of the top bit.
__device__ __forceinline__ u32 shifted_signed(u32 v, u32 n) { return static_cast<u32>(static_cast<s32>(v) >> n); }
__device__ __forceinline__ u64 shifted_signed(u64 v, u32 n) { return static_cast<u64>(static_cast<s64>(v) >> n); }

// Words in two's complement.
template <typename W>
constexpr W kTopBit = static_cast<W>(1) << (8 * sizeof(W) - 1);
__device__ __forceinline__ u32 signed_min(u32 a, u32 b) { return static_cast<u32>(min(static_cast<s32>(a), static_cast<s32>(b))); }
__device__ __forceinline__ u32 signed_max(u32 a, u32 b) { return static_cast<u32>(max(static_cast<s32>(a), static_cast<s32>(b))); }
__device__ __forceinline__ u64 signed_min(u64 a, u64 b) { return static_cast<s64>(a) < static_cast<s64>(b) ? a : b; }
__device__ __forceinline__ u64 signed_max(u64 a, u64 b) { return static_cast<s64>(a) > static_cast<s64>(b) ? a : b; }
template <typename W>
__device__ __forceinline__ W warp_max(W v) { return warp_max_unsigned(v ^ kTopBit<W>) ^ kTopBit<W>; }
template <typename W>
__device__ __forceinline__ W warp_min(W v) { return ~warp_max(static_cast<W>(~v)); }

// Differences to numbers without sign, small if the difference is, and back.
template <typename W>
__device__ __forceinline__ W zigzag(W d) { return d << 1 ^ shifted_signed(d, Type<W>::kBits - 1); }
// How long that number is.
template <typename W>
__device__ __forceinline__ u32 zigzag_length(W d) { return bit_length(d ^ d << 1); }
__device__ __forceinline__ u32 unzigzag(u32 r) {
    // One instruction for all bits like the last one.
    u32 sign;
    asm("bfe.s32 %0, %1, 0, 1;" : "=r"(sign) : "r"(r));
    return r >> 1 ^ sign;
}
__device__ __forceinline__ u64 unzigzag(u64 r) { return r >> 1 ^ (0 - (r & 1)); }

// What the host says of a chunk.
struct Blocks {
    u64 extents[3];  // slowest first, with leading ones
    u32 n_blocks;    // clipped ones too
    u32 reserved;
};
static_assert(sizeof(Blocks) == 32 && offsetof(Blocks, n_blocks) == 24, "src/codec/lorenzo/cuda.rs has the same struct");

// The block shape is made of powers of two.
struct Shape {
    u32 log_z, log_y, log_x;
};

__device__ __forceinline__ u32 ceil_log2(u64 n) { return n <= 1 ? 0 : 64 - __clzll(n - 1); }

__device__ __forceinline__ Shape block_shape(const u64 (&extents)[3], u32 log_block) {
    const u32 z = ceil_log2(extents[0]), y = ceil_log2(extents[1]), x = ceil_log2(extents[2]);
    if (extents[0] == 1 && extents[1] == 1) return Shape{0, 0, log_block};
    const u32 rows = log_block - min(x, 5u);
    u32 log_y = min(y, rows), log_z = 0;
    if (extents[0] > 1) {
        log_z = min(z, rows - min(y, (rows + 1) / 2));
        log_y = min(y, rows - log_z);
    }
    return Shape{log_z, log_y, min(x, log_block - log_y - log_z)};
}

// A block in the array.
struct Box {
    u64 start;        // first element
    u32 sz, sy, sx;   // extents
    u32 m;            // elements
};

// Block `block` of a chunk with these extents, slowest first.
__device__ __forceinline__ Box find_box(const u64 (&extents)[3], u32 log_block, u32 block) {
    const Shape shape = block_shape(extents, log_block);
    const u32 n_x = static_cast<u32>((extents[2] + (1ull << shape.log_x) - 1) >> shape.log_x);
    const u32 n_y = static_cast<u32>((extents[1] + (1ull << shape.log_y) - 1) >> shape.log_y);
    const u32 rest = block / n_x, bx = block - rest * n_x, bz = rest / n_y, by = rest - bz * n_y;
    const u64 z = static_cast<u64>(bz) << shape.log_z, y = static_cast<u64>(by) << shape.log_y, x = static_cast<u64>(bx) << shape.log_x;
    Box box;
    box.start = (z * extents[1] + y) * extents[2] + x;
    box.sz = static_cast<u32>(min(extents[0] - z, u64{1} << shape.log_z));
    box.sy = static_cast<u32>(min(extents[1] - y, u64{1} << shape.log_y));
    box.sx = static_cast<u32>(min(extents[2] - x, u64{1} << shape.log_x));
    box.m = box.sz * box.sy * box.sx;
    return box;
}

// Division by a small number that many threads divide by, for dividends below 2^15.
struct SmallDivisor {
    u32 divisor, reciprocal;
    __device__ __forceinline__ explicit SmallDivisor(u32 d) : divisor(d), reciprocal((0xffffffffu / d) + 1) {}
    __device__ __forceinline__ u32 divide(u32 n, u32& rest) const {
        const u32 quotient = divisor == 1 ? n : __umulhi(n, reciprocal);
        rest = n - quotient * divisor;
        return quotient;
    }
};

__device__ __forceinline__ u64 table_bytes(u32 n_blocks) { return (8ull * n_blocks + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }

// Where segments, rows and numbers of a block of 2^kLog elements are in shared memory, in bytes.
template <typename W, u32 kLog>
struct Places {
    using Word = W;
    // Blocks of more than 2^12 elements are those of `dense`.
    static constexpr u32 kBehindEight = kLog > 12 ? kUnitBytes : 0;
    static __device__ __forceinline__ constexpr u32 segment(u32 i) { return i * kSegmentStride + i / 8 * kBehindEight; }
    static __device__ __forceinline__ constexpr u32 row(u32 i) { return segment(i * Type<W>::kRowSegments); }
    static __device__ __forceinline__ constexpr u32 in_row(u32 i) {
        return i / Type<W>::kSegment * kSegmentStride + i % Type<W>::kSegment * Type<W>::kBytes;
    }
    static __device__ __forceinline__ constexpr u32 number(u32 i) { return row(i / kRow) + in_row(i % kRow); }
};

// What the array's elements are, from the header that the host has prepared.
struct Element {
    u32 bytes;
    bool is_float;   // float32 or float64
    bool is_signed;  // extended to words with its top bit

    __device__ __forceinline__ explicit Element(const FrameForm& form) {
        const u32 type = form.words[2] & 0xff;
        bytes = form.words[3];
        is_float = type == 11 || type == 12;
        is_signed = type > 4;
    }
};

// The word of an element of fewer bytes than the word or as many, maybe in the other order.
template <typename W>
__device__ __forceinline__ W word_of_element(u64 word, const Element&, bool swaps) { return swaps ? swapped_bytes(word) : word; }
template <typename W>
__device__ __forceinline__ W word_of_element(u32 word, const Element&, bool swaps) { return swaps ? swapped_bytes(word) : word; }
template <typename W>
__device__ __forceinline__ W word_of_element(unsigned short bytes, const Element& element, bool swaps) {
    const u32 word = swaps ? __byte_perm(bytes, 0, 0x4401) : bytes;
    return element.is_signed ? static_cast<u32>(static_cast<s32>(static_cast<short>(word))) : word;
}
template <typename W>
__device__ __forceinline__ W word_of_element(unsigned char byte, const Element& element, bool) {
    return element.is_signed ? static_cast<u32>(static_cast<s32>(static_cast<signed char>(byte))) : byte;
}

// The word of the element at `from`.
template <typename W>
__device__ __forceinline__ W load_element(const void* from, const Element& element, bool swaps) {
    if (sizeof(W) == 8 || element.bytes == 4) return word_of_element<W>(*static_cast<const W*>(from), element, swaps);
    if (element.bytes == 2) return word_of_element<W>(*static_cast<const unsigned short*>(from), element, swaps);
    return word_of_element<W>(*static_cast<const unsigned char*>(from), element, swaps);
}

template <typename W>
__device__ __forceinline__ void store_element(void* to, const Element& element, bool swaps, W word) {
    if (sizeof(W) == 8 || element.bytes == 4) {
        *static_cast<W*>(to) = swaps ? swapped_bytes(word) : word;
    } else if (element.bytes == 2) {
        *static_cast<unsigned short*>(to) = static_cast<unsigned short>(swaps ? __byte_perm(static_cast<u32>(word), 0, 0x4401) : word);
    } else {
        *static_cast<unsigned char*>(to) = static_cast<unsigned char>(word);
    }
}

// The FIXED map, back: the float that is `v` times a power of two; `e` belongs to the block. `damaged` is set
// where the exponent is too large.
template <typename W>
__device__ __forceinline__ W float_of_fixed(W v, u32 e, bool& damaged) {
    constexpr u32 kMantissa = Type<W>::kMantissa;
    const W sign = v >> (Type<W>::kBits - 1), n = sign ? 0 - v : v;
    const u32 length = bit_length(n);
    const s32 x = static_cast<s32>(e + length) - static_cast<s32>(kMantissa + 1);
    if (n == 0) return 0;
    W bits;
    if (x >= 1) {
        damaged |= x >= static_cast<s32>(Type<W>::kMaxExponent);
        // The top bit goes to bit kMantissa and out of the fraction.
        const W fraction = length > kMantissa + 1 ? n >> (length - kMantissa - 1) : n << (kMantissa + 1 - length);
        bits = (fraction & low_bits(W(), kMantissa)) | static_cast<W>(x) << kMantissa;
    } else {
        bits = n << (e - 1);
    }
    return bits | sign << (Type<W>::kBits - 1);
}

// The words of a unit.
__device__ __forceinline__ void split(uint4 unit, u32* words) {
    words[0] = unit.x, words[1] = unit.y, words[2] = unit.z, words[3] = unit.w;
}
__device__ __forceinline__ void split(uint4 unit, u64* words) {
    words[0] = static_cast<u64>(unit.y) << 32 | unit.x, words[1] = static_cast<u64>(unit.w) << 32 | unit.z;
}
__device__ __forceinline__ uint4 join(const u32* words) { return make_uint4(words[0], words[1], words[2], words[3]); }
__device__ __forceinline__ uint4 join(const u64* words) {
    return make_uint4(static_cast<u32>(words[0]), static_cast<u32>(words[0] >> 32), static_cast<u32>(words[1]),
                      static_cast<u32>(words[1] >> 32));
}

// How long things of a frame are, for ordered_frames.cuh: a tile is a block, of so many units of 16 bytes.
struct FrameLayout {
    using Own = Blocks;
    using Sum = u32;
    static constexpr u32 kPartsPerTile = 1;

    const Blocks& blocks;
    const u32 element_bytes;

    __device__ __forceinline__ u64 raw_bytes() const { return blocks.extents[0] * blocks.extents[1] * blocks.extents[2] * element_bytes; }
    __device__ __forceinline__ u64 payload_bytes(u32 units) const {
        return table_bytes(blocks.n_blocks) + static_cast<u64>(units) * kUnitBytes;
    }
};
