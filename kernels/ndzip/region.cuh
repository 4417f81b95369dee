// Decompression of a region. There is one CTA per block that the region may touch; it stores the
// wanted elements one by one.
//
// The tiles are first these blocks, then parts of the region's elements in the border, then shares
// of the payload for the checksum. Blocks have no checksums of their own, so the checksum of the
// whole payload is verified. If this is skipped, there are no tiles of the last kind.

#pragma once

#include "../common/region.cuh"
#include "decompress.cuh"

// Numbers the border elements of a region. First are the tails of rows, which follow the blocks
// along x; then the remaining rows of planes with blocks; then the remaining planes.
template <typename W, int kRank>
struct RegionBorder {
    const Region& region;
    const Layout<W, kRank>& layout;
    const u64 covered_z, covered_y, covered_x;  // number of positions along each axis that blocks cover
    u64 in_z, in_y, in_x;                       // how many of these positions are in the region
    u64 n_tails, n_rows, n_planes;              // number of elements of each kind

    __device__ __forceinline__ RegionBorder(const Region& region, const Layout<W, kRank>& layout)
        : region(region), layout(layout), covered_z(layout.covered_z), covered_y(layout.blocks_y * Sides<kRank>::kY),
          covered_x(layout.n_blocks ? layout.blocks_x * Sides<kRank>::kX : 0) {
        const u64 (&count)[3] = region.count;
        in_z = region.before(0, covered_z), in_y = region.before(1, covered_y), in_x = region.before(2, covered_x);
        n_tails = in_z * in_y * (count[2] - in_x);
        n_rows = in_z * (count[1] - in_y) * count[2];
        n_planes = (count[0] - in_z) * count[1] * count[2];
    }

    __device__ __forceinline__ u64 count() const { return n_tails + n_rows + n_planes; }

    // Returns the position in the border of the region's border element `i`. Sets `to` to its
    // position in the region.
    __device__ __forceinline__ u64 locate(u64 i, u64& to) const {
        const u64 (&count)[3] = region.count;
        const bool is_tail = i < n_tails, is_row = !is_tail && i < n_tails + n_rows;
        const u64 rest = is_tail ? i : is_row ? i - n_tails : i - n_tails - n_rows;
        // Extents of the part of the region that contains the element, and the start of this part.
        const u64 row = is_tail ? count[2] - in_x : count[2], rows = is_tail ? in_y : is_row ? count[1] - in_y : count[1];
        const u64 from_x = is_tail ? in_x : 0, from_y = is_row ? in_y : 0, from_z = is_tail || is_row ? 0 : in_z;
        const u64 of_row = rest / row, of_x = from_x + rest % row, of_z = from_z + of_row / rows, of_y = from_y + of_row % rows;
        to = (of_z * count[1] + of_y) * count[2] + of_x;
        const u64 z = region.place(0, of_z), y = region.place(1, of_y), x = region.place(2, of_x);
        const u64 columns = layout.columns, tail = columns - covered_x, per_plane = layout.plane - covered_y * covered_x;
        if (is_tail) return z * per_plane + y * tail + (x - covered_x);
        if (is_row) return z * per_plane + covered_y * tail + (y - covered_y) * columns + x;
        return covered_z * per_plane + (z - covered_z) * layout.plane + y * columns + x;
    }
};

template <typename W, int kRank>
struct RegionDecompressor : Decompressor<W, kRank, 1, false> {
    using Base = Decompressor<W, kRank, 1, false>;
    using typename Base::Cell;
    using typename Base::Shared;
    using Base::args, Base::block, Base::dst, Base::frame, Base::frame_bytes, Base::layout, Base::n_bytes, Base::payload, Base::shared,
        Base::tile, Base::tiles;
    static constexpr u32 kThreads = Base::kThreads;
    static constexpr u32 kLogX = kRank == 1 ? 12 : kRank == 2 ? 6 : 4, kLogY = kRank == 1 ? 0 : kLogX, kLogZ = kRank == 3 ? kLogX : 0;
    static constexpr u32 kNoBlock = ~0u;

    const Region& region;

    __device__ __forceinline__ RegionDecompressor(const RegionArgs<Blocks>& args, Shared& shared)
        : Base(args, shared, touched_block(args)), region(args.region) {}

    static __device__ __forceinline__ Touched touched_by(const RegionArgs<Blocks>& args) {
        const Layout<W, kRank> layout(args.own);
        const u32 logs[3] = {kLogZ, kLogY, kLogX};
        const u32 n_blocks[3] = {layout.n_blocks ? layout.covered_z >> kLogZ : 0, layout.blocks_y, layout.blocks_x};
        return Touched(args.region, logs, n_blocks);
    }
    // The block of the CTA's tile, or kNoBlock if the tile is not a block or contains no element of
    // the region.
    static __device__ __forceinline__ u32 touched_block(const RegionArgs<Blocks>& args) {
        const DecompressTile<Blocks> tile(args);
        const Layout<W, kRank> layout(args.own);
        const Touched touched = touched_by(args);
        if (tile.tile >= touched.count()) return kNoBlock;
        const u32 logs[3] = {kLogZ, kLogY, kLogX};
        u32 at[3];
        touched.locate(tile.tile, at);
        return has_some(args.region, logs, at) ? (at[0] * layout.blocks_y + at[1]) * layout.blocks_x + at[2] : kNoBlock;
    }

    __device__ __forceinline__ void run() {
        const bool stored = is_stored(args.stored, frame);
        u32 damage = stored ? Base::check_length(frame_bytes, args.stored.n_bytes + layout.raw_bytes()) : Base::check_frame(layout.table_bytes());
        const u32 words = stored || damage || layout.n_blocks == 0 ? 0 : reinterpret_cast<const u32*>(payload)[layout.n_blocks - 1];
        if (damage == 0 && !stored) damage = Base::check_length(n_bytes, layout.payload_bytes(words));
        Sums sums;
        if (damage == 0) {
            if (stored) {
                copy_region<kThreads>(region, Type<W>::kBytes, frame + args.stored.n_bytes, reinterpret_cast<char*>(dst), tile, tiles);
            } else if (block != kNoBlock) {
                damage = decode();
            } else {
                copy_or_sum(words, sums);
            }
        }
        Base::add(shared.sums, sums, damage);
        Base::finish(Base::count(), !stored);
    }

    // Decodes the tile's block, and stores its elements in the region. Returns a damage code, or 0
    // if the block is sound.
    __device__ __forceinline__ u32 decode() {
        const u32* const table = reinterpret_cast<const u32*>(payload);
        const u32 damage = Base::decode_block(block ? table[block - 1] : 0, table[block]);
        if (kRank == 3) __syncthreads();
        // A damaged block is stored, too; its elements are garbage.
        if (args.flags & kSwapBytes) {
            store_elements<Order::kSwapped>();
        } else {
            store_elements<Order::kNative>();
        }
        return damage;
    }

    // Processes a tile other than a block: copies border elements, or adds a share of the payload
    // to the checksum. Does nothing for a block without elements of the region.
    __device__ __forceinline__ void copy_or_sum(u32 words, Sums& sums) const {
        const u32 n_blocks = touched_by(static_cast<const RegionArgs<Blocks>&>(args)).count();
        if (tile < n_blocks) return;
        const RegionBorder<W, kRank> border(region, layout);
        const u32 n_border = static_cast<u32>((border.count() + kBlock - 1) / kBlock), number = tile - n_blocks;
        if (number < n_border) return copy_border_part(border, number, words);
        if (!(args.flags & kSkipChecksum)) sum_share(number - n_border, tiles - n_blocks - n_border, sums);
    }

    // Copies part `number` of the region's border elements. In the payload, the border follows
    // blocks of `words` words in total.
    __device__ __forceinline__ void copy_border_part(const RegionBorder<W, kRank>& border, u32 number, u32 words) const {
        const W* const from = reinterpret_cast<const W*>(payload + layout.table_bytes()) + words;
        const u64 begin = static_cast<u64>(number) * kBlock, end = min(border.count(), begin + kBlock);
        for (u64 i = begin + threadIdx.x; i < end; i += kThreads) {
            u64 to;
            const W word = from[border.locate(i, to)];
            dst[to] = args.flags & kSwapBytes ? swapped_bytes(word) : word;
        }
    }

    // Adds share `number` of `n_shares` equal shares of the payload to the checksum. The payload's
    // size is a multiple of 4 bytes.
    __device__ __forceinline__ void sum_share(u32 number, u32 n_shares, Sums& sums) const {
        const u64 n_units = n_bytes / kUnitBytes, share = n_units / n_shares + 1;
        const u64 begin = number * share, end = min(n_units, begin + share);
        UnitSums<kThreads> unit_sums(4 * (begin + threadIdx.x));
        constexpr u32 kBatch = 4;  // loads in flight
        for (u64 first = begin + threadIdx.x; first < end; first += kBatch * kThreads) {
            uint4 units[kBatch];
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                if (first + k * kThreads < end) units[k] = reinterpret_cast<const uint4*>(payload)[first + k * kThreads];
            }
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                if (first + k * kThreads < end) unit_sums.add(units[k]);
            }
        }
        unit_sums.finish(sums);
        const u64 word = 4 * n_units + threadIdx.x;
        if (number == 0 && word < n_bytes / 4) sums.add(word, reinterpret_cast<const u32*>(payload)[word]);
    }

    // Adds up along the slowest axis, as store_columns does, and stores the wanted elements. The
    // block is in shared memory, permuted by swizzled<8>.
    template <Order kOrder>
    __device__ __forceinline__ void store_elements() const {
        constexpr u32 kRowBytes = Base::kRowBytes, kRowThreads = kRank == 1 ? kThreads : Base::kRowCells, kInCell = kCellBytes / Type<W>::kBytes;
        const u32 stage = shared_address(shared.bytes[0]);
        const u32 column = threadIdx.x % kRowThreads, row = threadIdx.x / kRowThreads, x = column * kCellBytes;
        const u32 bx = block % layout.blocks_x, rest = block / layout.blocks_x;
        const u32 by = kRank == 1 ? 0 : rest % layout.blocks_y, bz = kRank == 3 ? rest / layout.blocks_y : 0;
        const auto load = [=](u32 at) { return Cell::of(load_shared_8(stage + at)); };
        const auto store = [&](u32 z, u32 y, u32 element, const Cell& cell) {
            const uint2 v = cell.template value<kOrder>();
#pragma unroll
            for (u32 i = 0; i < kInCell; ++i) {
                u64 to;
                const bool is_wanted = region.find((static_cast<u64>(bz) << kLogZ) + z, (static_cast<u64>(by) << kLogY) + y,
                                                   (static_cast<u64>(bx) << kLogX) + element + i, to);
                if (is_wanted) dst[to] = static_cast<W>(kInCell == 2 ? (i ? v.y : v.x) : static_cast<u64>(v.y) << 32 | v.x);
            }
        };
        if (kRank == 1) {
#pragma unroll 1
            for (u32 i = 0; i < kCells; ++i) {
                store(0, 0, (i * kThreads + column) * kInCell, load(swizzled<8>(x + i * kThreads * kCellBytes)));
            }
        }
        if (kRank == 2) {
            // Each thread has a quarter of a column. The quarter's sum replaces its last cell.
            const u32 at = swizzled<8>(row * kCells * kRowBytes + x);
            Cell sum = Cell::of(make_uint2(0, 0));
#pragma unroll 1
            for (u32 i = 0; i < kCells; ++i) sum += load(at ^ swizzled<8>(i * kRowBytes));
            const Cell last = load(at ^ swizzled<8>((kCells - 1) * kRowBytes));
            store_shared_8(stage + (at ^ swizzled<8>((kCells - 1) * kRowBytes)), sum.bits());
            __syncthreads();
            sum = Cell::of(make_uint2(0, 0));
#pragma unroll 1
            for (u32 quarter = 0; quarter < row; ++quarter) sum += load(swizzled<8>(x) ^ swizzled<8>((quarter * kCells + kCells - 1) * kRowBytes));
#pragma unroll 1
            for (u32 i = 0; i < kCells; ++i) {
                sum += i + 1 < kCells ? load(at ^ swizzled<8>(i * kRowBytes)) : last;
                store(0, row * kCells + i, column * kInCell, sum);
            }
        }
        if (kRank == 3) {
            const u32 at = swizzled<8>(row * kRowBytes + x);
            Cell sum = Cell::of(make_uint2(0, 0));
#pragma unroll 1
            for (u32 z = 0; z < kCells; ++z) {
                sum += load(at ^ swizzled<8>(z * 16 * kRowBytes));
                store(z, row, column * kInCell, sum);
            }
        }
    }
};

template <typename W, int kRank>
__device__ __forceinline__ void decompress_region(const RegionArgs<Blocks>& args) {
    __shared__ DecompressShared<W, 1> shared;
    RegionDecompressor<W, kRank>(args, shared).run();
}
