// The host's description of a chunk, the coarser and coarser grids of its array, and the data that
// passes share. The counterpart of grid.rs and payload.rs of the CPU codec.
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
// Numbers of all steps up to a grid of this many nodes are coded together.
constexpr u32 kFrontNodes = 1 << 12;
constexpr u32 kLogNumbers = 16;             // of a block, at most
constexpr u32 kHeadBytes = 32;              // before the bins
constexpr u32 kMostLayers = 8, kLayerBits = 3;                           // a layer's bound is the next one's, times 1 << kLayerBits
// kFirstLayerBytes: description of the first of several layers. kLayerBytes: of each other one,
// without bins. kCheckBytes: check of all descriptions.
constexpr u32 kFirstLayerBytes = 24, kLayerBytes = 48, kCheckBytes = 8;
constexpr u32 kEntryBytes = 8;              // of a block in the table
constexpr u32 kBlockHead = 4;               // of a block: its kind
constexpr u32 kUnit = 4;                    // blocks begin at multiples of this
constexpr u32 kLogPiece = 15, kPiece = 1 << kLogPiece;  // exact elements are stored piece by piece

// Kinds of blocks, and the contents of pieces.
enum BlockKind : u32 { kRaw = 0, kCoded = 1, kZeros = 2 };
enum PieceFlags : u32 { kFillMask = 1, kOutliers = 2 };
constexpr u32 kCodedBitmap = 1 << 15;  // flag in the bytes of marks

enum Mode : u32 { kAbs = 1, kRel = 2, kRms = 6 };

__device__ __forceinline__ constexpr u32 aligned_up(u32 n, u32 to) { return (n + to - 1) / to * to; }

// The host's description of a chunk. The fields from `numbers` on are byte offsets in its scratch.
struct Chunk {
    u32 extents[kAxes];  // slowest first, with leading ones; they multiply to less than 2^32
    u64 value;           // bits of the requested value
    Missing missing;
    u64 least, most;     // the words of the limits of the valid range, or of infinities
    u32 mode, n_levels;
    u32 n_blocks;        // of numbers, at most: the number depends on the order of the axes
    u32 n_pieces;
    u32 n_layers;
    u32 n_tiles;         // that get a place in the payload in compression
    // `numbers`: those of all steps, and more with several layers (Work). `near`: the grid before
    // the last step, and every second one before that. `far`: the other grids.
    u64 numbers, near, far;
    // A bit for each exact element; with several layers also for those of the layers before.
    u64 bitmap;
    u64 pieces;              // descriptions of the pieces
    u64 blocks;              // that are made
    u64 array;               // the array, if only a region is wanted
    u64 n_bytes;             // of all data

    __device__ __forceinline__ u32 elements() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
    // Strides along each axis, in elements.
    __device__ __forceinline__ void find_strides(u32 (&strides)[kAxes]) const {
        strides[kAxes - 1] = 1;
#pragma unroll
        for (u32 k = kAxes - 1; k > 0; --k) strides[k - 1] = strides[k] * extents[k];
    }
    // Offset of the descriptions of layers; and of the bound, bytes and check of a layer.
    __device__ __forceinline__ u32 layers_at() const { return kHeadBytes + 8 * (n_levels + 1); }
    __device__ __forceinline__ u32 layer_at(u32 layer) const {
        return layers_at() + (layer > 0 ? kFirstLayerBytes + (layer - 1) * (kLayerBytes + 8 * n_levels) : 0);
    }
    __device__ __forceinline__ u32 head_bytes() const { return n_layers > 1 ? layer_at(n_layers) + kCheckBytes : layers_at(); }
    // Maximum bytes of a payload with one layer, or of layer 0. Several layers may take twice as
    // many.
    __device__ __forceinline__ u64 payload_bound(u32 word_bytes) const {
        const u64 n_bytes = static_cast<u64>(elements()) * word_bytes;
        return n_bytes + n_bytes / 32 + 4096;
    }
};
static_assert(sizeof(Chunk) == 216 && offsetof(Chunk, numbers) == 152, "crates/gridz-codecs/src/codec/multigrid/cuda.rs has the same struct");

// Divides numbers below 2^32 by a number that is at least 1.
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

// A step: new nodes between the existing ones, along an axis.
struct Step {
    u32 axis, level;
    u32 after[kAxes];    // extents after it
    u32 strides[kAxes];  // elements of the array from one node to the next, after it
    u32 n, n_before, inner;  // nodes along the axis, after and before it; nodes of all faster axes
    u32 n_nodes, n_new;      // nodes before it, and new ones
    u32 first_number, first_tile;
    u32 reserved;        // copied with it
    Divisor of_inner, of_before, of_after[kAxes];
};

// Numbers of one or several steps, as an array that is cut into blocks.
struct NumbersOf {
    u64 extents[3];
    u32 first_number, first_block;
};

// Description of a layer.
struct Layer {
    double bound;
    double bins[kMostLevels];  // the finest level first
    // A bit for each step that predicts from nodes, and for each cubic one; all steps of layer 0
    // predict.
    u64 predicts, cubic;
    u64 n_exact;               // bytes of the section of exact elements
    // Payload offsets of its table, and of that section. In compression, only set with several
    // layers.
    u64 start, exact_at;
    u32 exact_check, reserved;
};

// Places and sizes of all data of a chunk, once the order of axes is known.
struct Plan {
    Layer layers[kMostLayers];
    u64 first;                 // bits of the predicted first element
    u64 block_units;           // of all blocks of the layer that is written
    u32 order;                 // a byte for each axis
    u32 n_steps, n_front;      // steps, and the number of those with small grids
    u32 n_arrays, n_blocks, n_tiles;
    u32 damage;                // of a payload
    u32 is_stored;
    u32 layer;                 // of several, being written
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

// A block of numbers, which are in the order of nodes.
struct NumberBlock : Box {
    u64 row, plane;  // from one to the next
    u64 n_before;    // numbers of the blocks before

    // `start` is relative to the numbers of all steps.
    __device__ __forceinline__ NumberBlock(const Plan& plan, u32 block) {
        const NumbersOf& of = plan.array_of(block);
        static_cast<Box&>(*this) = find_box(of.extents, kLogNumbers, block - of.first_block);
        row = of.extents[2], plane = of.extents[1] * row;
        const u64 z = start / plane, y = (start - z * plane) / row, x = start - z * plane - y * row;
        n_before = of.first_number + z * plane + sz * (y * row + sy * x);
        start += of.first_number;
    }
};
// The places of a block's numbers.
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

// The scratch of a chunk, after the zeroed part.
template <typename W>
struct Work {
    char* const start;
    const Chunk& own;

    __device__ __forceinline__ Plan& plan() const { return *reinterpret_cast<Plan*>(start); }
    // A decoder has the numbers of all layers.
    __device__ __forceinline__ W* numbers(u32 layer = 0) const { return reinterpret_cast<W*>(start + own.numbers) + static_cast<u64>(layer) * own.elements(); }
    // After the numbers of all layers, if there are several.
    __device__ __forceinline__ W* other_array() const { return numbers(own.n_layers); }
    // The grid before a step.
    __device__ __forceinline__ W* before(const Plan& plan, u32 step) const {
        return reinterpret_cast<W*>(start + ((plan.n_steps - step) % 2 == 1 ? own.near : own.far));
    }
    // In compression with several layers: a layer's values for the array, for the next layer. They
    // follow the numbers, which are those of one layer.
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
