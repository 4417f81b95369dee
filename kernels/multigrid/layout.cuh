// The host's description of a chunk, the grids of its array from fine to coarse, and the data that
// passes share. The counterpart of grid.rs and payload.rs of the CPU codec. Format of the payload:
//
//   f64 bound | first value, 8 bytes | u8 axes in the order of steps, 4 | u32 0 | u64 cubic steps |
//   f64 bin of each level, the coarsest first | u64 bytes of exact elements | descriptions of
//   layers, if there are several |
//   for each layer: table: u32 end of each block in units, u32 its check | blocks of numbers |
//   exact elements

#pragma once

#include "../common/elements.cuh"
#include "../common/types.cuh"
#include "../common/warp.cuh"
#include "../stage/boxes.cuh"
#include "../stage/missing.cuh"

constexpr u32 kAxes = 4;
constexpr u32 kMostLevels = 33, kMostSteps = kMostLevels + kAxes;
// The numbers of the first steps, up to a grid with this many nodes, are coded together (the
// front).
constexpr u32 kFrontNodes = 1 << 12;
constexpr u32 kLogNumbers = 16;             // log2 of the maximum number of numbers in a block
constexpr u32 kHeadBytes = 32;              // bytes of the head before the bins
// The bound of a layer is that of the next layer, times 1 << kLayerBits.
constexpr u32 kMostLayers = 8, kLayerBits = 3;
// Bytes of the description of the first of several layers; of the description of each other layer,
// without its bins; and of the check of the head.
constexpr u32 kFirstLayerBytes = 24, kLayerBytes = 48, kCheckBytes = 8;
constexpr u32 kEntryBytes = 8;              // bytes of a block's entry in the table
constexpr u32 kBlockHead = 4;               // bytes of a block before its data: its kind
constexpr u32 kUnit = 4;                    // bytes; lengths and positions are multiples of it
constexpr u32 kLogPiece = 15, kPiece = 1 << kLogPiece;  // exact elements are stored piece by piece

// Kinds of blocks, and flags for the contents of pieces.
enum BlockKind : u32 { kRaw = 0, kCoded = 1, kZeros = 2 };
enum PieceFlags : u32 { kFillMask = 1, kOutliers = 2 };
constexpr u32 kCodedBitmap = 1 << 15;  // flag in the size of a fill mask: the mask is coded

enum Mode : u32 { kAbs = 1, kRel = 2, kRms = 6 };

__device__ __forceinline__ constexpr u32 aligned_up(u32 n, u32 to) { return (n + to - 1) / to * to; }

// The host's description of a chunk. The fields from `numbers` on are byte offsets in its scratch.
struct Chunk {
    u32 extents[kAxes];  // slowest first, with leading ones; their product is less than 2^32
    u64 value;           // bits of the requested error (f64)
    Missing missing;
    u64 least, most;     // words of the valid range's limits, or of infinities
    u32 mode, n_levels;
    u32 n_blocks;        // maximum number of blocks; the order of axes determines how many exist
    u32 n_pieces;
    u32 n_layers;
    u32 n_tiles;         // tiles that compression places in the payload, of all layers
    // `numbers`: the numbers of all steps; with several layers, more arrays follow (Work). `near`:
    // the grid before the last step, and every second grid before that. `far`: the other grids.
    u64 numbers, near, far;
    // A bit for each element, set if it is exact. With several layers, the bits of the layers
    // before follow.
    u64 bitmap;
    u64 pieces;              // descriptions of the pieces (PieceInfo)
    u64 blocks;              // encoded blocks (MadeBlock)
    u64 array;               // decoded array, if only a region is wanted
    u64 n_bytes;             // bytes of the chunk's scratch

    __device__ __forceinline__ u32 elements() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
    // Sets the strides along each axis, in elements.
    __device__ __forceinline__ void find_strides(u32 (&strides)[kAxes]) const {
        strides[kAxes - 1] = 1;
#pragma unroll
        for (u32 k = kAxes - 1; k > 0; --k) strides[k - 1] = strides[k] * extents[k];
    }
    // Payload offsets of the descriptions of all layers, and of the description of one layer.
    __device__ __forceinline__ u32 layers_at() const { return kHeadBytes + 8 * (n_levels + 1); }
    __device__ __forceinline__ u32 layer_at(u32 layer) const {
        return layers_at() + (layer > 0 ? kFirstLayerBytes + (layer - 1) * (kLayerBytes + 8 * n_levels) : 0);
    }
    __device__ __forceinline__ u32 head_bytes() const { return n_layers > 1 ? layer_at(n_layers) + kCheckBytes : layers_at(); }
    // Maximum number of bytes of a payload with one layer, or up to the end of layer 0. With
    // several layers, payloads may have twice as many.
    __device__ __forceinline__ u64 payload_bound(u32 word_bytes) const {
        const u64 n_bytes = static_cast<u64>(elements()) * word_bytes;
        return n_bytes + n_bytes / 32 + 4096;
    }
};
static_assert(sizeof(Chunk) == 216 && offsetof(Chunk, numbers) == 152, "crates/gridz-codecs/src/codec/multigrid/cuda.rs has the same struct");

// Divides 32-bit numbers by a number that is at least 1, without a division instruction.
struct Divisor {
    u64 reciprocal;
    u32 divisor, reserved;

    __device__ __forceinline__ void set(u32 d) { divisor = d, reserved = 0, reciprocal = ~u64{0} / d + 1; }
    __device__ __forceinline__ u32 divide(u32 n, u32& rest) const {
        const u64 high = static_cast<u64>(n) * static_cast<u32>(reciprocal >> 32), low = static_cast<u64>(n) * static_cast<u32>(reciprocal);
        const u32 quotient = divisor == 1 ? n : static_cast<u32>((high + (low >> 32)) >> 32);
        rest = n - quotient * divisor;
        return quotient;
    }
};

// A refinement step. It adds new nodes between the existing ones, along an axis.
struct Step {
    u32 axis, level;
    u32 after[kAxes];    // extents of the grid after the step
    u32 strides[kAxes];  // distances of neighboring nodes after the step, in elements
    // `n`, `n_before`: nodes along the axis, after and before the step. `inner`: nodes of all
    // faster axes.
    u32 n, n_before, inner;
    u32 n_nodes, n_new;      // number of nodes before the step, and of new nodes
    u32 first_number, first_tile;
    u32 reserved;        // padding
    Divisor of_inner, of_before, of_after[kAxes];
};

// Numbers of one or several steps, as an array that is cut into blocks.
struct NumbersOf {
    u64 extents[3];
    u32 first_number, first_block;
};

// The parameters of a layer, and the positions of its sections in the payload.
struct Layer {
    double bound;
    double bins[kMostLevels];  // bin length of each level, the finest first
    // Bit masks of steps: those that predict from nodes (in layer 0, all steps), and those with
    // cubic predictions.
    u64 predicts, cubic;
    u64 n_exact;               // bytes of the section of exact elements
    // Payload offsets of the layer's table, and of its section of exact elements. Compression sets
    // them only with several layers.
    u64 start, exact_at;
    u32 exact_check, reserved;
};

// The layers and the order of axes of a chunk, and the steps and arrays that follow from them.
struct Plan {
    Layer layers[kMostLayers];
    u64 first;                 // bits of the predicted first element
    u64 block_units;           // total units of all blocks of the layer that is being written
    u32 order;                 // axes in the order of steps, one byte each, the first one lowest
    u32 n_steps, n_front;      // number of steps, and of those in the front
    u32 n_arrays, n_blocks, n_tiles;
    u32 damage;                // damage code of the payload, or 0 (decompression)
    u32 is_stored;
    u32 layer;                 // index of the layer that is being written
    u32 reserved;
    Step steps[kMostSteps];
    NumbersOf arrays[kMostSteps];

    // The array that contains a block.
    __device__ __forceinline__ const NumbersOf& array_of(u32 block) const {
        u32 low = 0, high = n_arrays;
        while (high - low > 1) {
            const u32 middle = (low + high) / 2;
            if (arrays[middle].first_block <= block) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return arrays[low];
    }
};
constexpr u32 kPlanBytes = 16384;
static_assert(sizeof(Plan) <= kPlanBytes, "the host leaves so much");

// A block of numbers, which are stored in the order of nodes.
struct NumberBlock : Box {
    u64 row, plane;  // distance from one row or plane to the next
    u64 n_before;    // number of numbers in all blocks before

    // Sets `start` to an index into the numbers of all steps.
    __device__ __forceinline__ NumberBlock(const Plan& plan, u32 block) {
        const NumbersOf& of = plan.array_of(block);
        static_cast<Box&>(*this) = find_box(of.extents, kLogNumbers, block - of.first_block);
        row = of.extents[2], plane = of.extents[1] * row;
        const u64 z = start / plane, y = (start - z * plane) / row, x = start - z * plane - y * row;
        n_before = of.first_number + z * plane + sz * (y * row + sy * x);
        start += of.first_number;
    }
};
// Maps the index of a number in its block to its index among the numbers of all steps.
struct NumberPlaces {
    const u64 start, row, plane;
    const SmallDivisor rows, planes;

    __device__ __forceinline__ explicit NumberPlaces(const NumberBlock& block)
        : start(block.start), row(block.row), plane(block.plane), rows(block.sx), planes(block.sy) {}
    __device__ __forceinline__ u64 operator()(u32 i) const {
        u32 x, y;
        const u32 z = planes.divide(rows.divide(i, x), y);
        return start + z * plane + y * row + x;
    }
};

// The part of a chunk's scratch that is not zeroed.
template <typename W>
struct Work {
    char* const start;
    const Chunk& own;

    __device__ __forceinline__ Plan& plan() const { return *reinterpret_cast<Plan*>(start); }
    // The numbers of a layer. A decoder has those of all layers, an encoder only those of one (0).
    __device__ __forceinline__ W* numbers(u32 layer = 0) const { return reinterpret_cast<W*>(start + own.numbers) + static_cast<u64>(layer) * own.elements(); }
    // A decoder's second array, if there are several layers. It follows the numbers of all layers.
    __device__ __forceinline__ W* other_array() const { return numbers(own.n_layers); }
    // The nodes before a step, as a contiguous array.
    __device__ __forceinline__ W* before(const Plan& plan, u32 step) const {
        return reinterpret_cast<W*>(start + ((plan.n_steps - step) % 2 == 1 ? own.near : own.far));
    }
    // In compression with several layers: the array as decoded from a layer, for the next layer.
    // These arrays follow the numbers.
    __device__ __forceinline__ W* values(u32 layer) const { return numbers(1 + layer % 2); }
    __device__ __forceinline__ u32 n_bitmap_words() const { return own.elements() / 32 + (own.elements() % 32 > 0); }
    __device__ __forceinline__ u32* bitmap_before() const { return bitmap() + n_bitmap_words(); }
    __device__ __forceinline__ u32* bitmap() const { return reinterpret_cast<u32*>(start + own.bitmap); }
    __device__ __forceinline__ char* array() const { return start + own.array; }
};
constexpr u32 kWorkAlignment = 256;
__device__ __forceinline__ char* work_of(void* scratch, u64 zeroed_bytes, const Chunk& own, u32 chunk) {
    return static_cast<char*>(scratch) + (zeroed_bytes + kWorkAlignment - 1) / kWorkAlignment * kWorkAlignment + chunk * own.n_bytes;
}
