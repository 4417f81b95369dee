// Decompression steps common to blocks of all sizes and levels: one CTA locates a block, checks it,
// and stores its exceptions and elements in the array.

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/frame.cuh"
#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "../common/warp.cuh"
#include "../stage/boxes.cuh"
#include "../stage/bitmap.cuh"
#include "../stage/words.cuh"
#include "block.cuh"
#include "layout.cuh"
#include "quantize.cuh"

// Base of the decompressors. Blocks have up to 2^kLog elements. `Shared` holds the box, the
// quantizer, the checksum sums and, at levels that have one, the fill mask's bitmap. If kPart, only
// the elements of a region are stored; the launch arguments are then those of region.cuh.
template <typename W, u32 kLog, u32 kThreads, bool kPart, typename Shared, u32 kLogRow = ::kLogRow>
struct BlockTile : DecompressTile<Chunk> {
    using Plan = BlockPlan<W>;

    Shared& shared;
    const u32 block;

    __device__ __forceinline__ BlockTile(const DecompressArgs<Chunk>& args, Shared& shared)
        : DecompressTile<Chunk>(args), shared(shared), block(kPart ? touched_block() : tile) {}

    // The part of an element that the block holds (complex elements have two parts), and the
    // address of this part in the array's first element.
    __device__ __forceinline__ Element part() const { return args.own.part(args.encoded); }
    __device__ __forceinline__ char* dst() const { return array + (block & ((1u << args.own.log_parts()) - 1)) * part().bytes; }

    __device__ __forceinline__ const uint2* table() const { return reinterpret_cast<const uint2*>(payload + kHeadBytes); }

    // Decodes the tile's block by `decode(begin, end, check)`, which also ends the tile. The block
    // is in units [begin, end) after the table; `check` is its checksum. If the frame is stored,
    // copies the tile's share of the raw bytes instead.
    template <typename Decode>
    __device__ __forceinline__ void run(Decode decode) {
        if (!is_mine()) return;
        // Header and table can be read before the frame's length is checked, so all these loads are
        // in flight together.
        const u32 begin = block ? table()[block - 1].x : 0;
        const uint2 entry = table()[block];
        const bool stored = is_stored(args.stored, frame);
        u32 damage = check_frame(args.own.table_bytes());
        if (likely(!stored & (damage == 0))) return decode(begin, entry.x, entry.y);
        Sums sums;
        if (stored) {
            const u64 raw_bytes = args.own.elements() * Element(args.encoded).bytes;
            damage = copy_share<kThreads, Pieces::kBytes>(raw_bytes, (raw_bytes / tiles / kUnitBytes + 1) * kUnitBytes, sums);
        }
        add(shared.sums, sums, damage);
        finish(count());
    }

    // Like run(), for a tile of a region.
    template <typename Decode>
    __device__ __forceinline__ void run_part(Decode decode) {
        if (!is_mine()) return;
        const bool stored = is_stored(args.stored, frame);
        const u32 element_bytes = Element(args.encoded).bytes;
        const u64 raw_bytes = args.own.elements() * element_bytes, table_end = args.own.table_bytes();
        u32 damage = stored ? check_length(frame_bytes, args.stored.n_bytes + raw_bytes) : check_frame(table_end);
        if (damage == 0 && !stored) {
            const u64 n_units = table()[args.own.n_blocks - 1].x;
            damage = check_length(n_bytes, table_end + (n_units << args.own.log_unit()));
        }
        if (damage == 0 && !stored && block != kNoBlock) return decode(block ? table()[block - 1].x : 0, table()[block].x, table()[block].y);
        if (damage == 0 && stored) copy_region<kThreads>(region(), element_bytes, frame + args.stored.n_bytes, array, tile, tiles);
        if (threadIdx.x == 0) report(damage);
        __syncthreads();
        finish(count());
    }
    __device__ __forceinline__ const Region& region() const { return static_cast<const RegionArgs<Chunk>&>(args).region; }

    // The block that this tile of a region decodes, or kNoBlock.
    __device__ __forceinline__ u32 touched_block() const {
        const u32 log_parts = args.own.log_parts(), box = touched_box(region(), args.own.extents, kLog, tile >> log_parts, kLogRow);
        return box == kNoBlock ? kNoBlock : box << log_parts | (tile & ((1u << log_parts) - 1));
    }
    // For a region, only the blocks that it touches have been read, so the checksum of the whole
    // payload is not verified.
    __device__ __forceinline__ void finish(u32 n_before) const { DecompressTile<Chunk>::finish(n_before, !kPart); }

    // Reads the error bound in force from the frame. Sets `is_sound` to whether it is valid.
    __device__ __forceinline__ double bound(bool& is_sound) const {
        const u64 bits = *reinterpret_cast<const u64*>(payload);
        is_sound = args.own.mode() == kRel ? bits < 0x7ff0000000000000ull || bits == u64{1} << 63 : bits == args.own.value;
        return __longlong_as_double(static_cast<s64>(bits));
    }

    // Location of a block in the payload, the bound in force, and a damage code, or 0 if both are
    // sound.
    struct Extent {
        double bound;  // in force
        u64 first, n_bytes;
        u32 damage;
    };
    // Converts units [begin, end), from the table, to bytes, and checks them.
    __device__ __forceinline__ Extent extent(u32 begin, u32 end) const {
        const u32 log_unit = args.own.log_unit();
        const u64 table_end = args.own.table_bytes(), first = table_end + (static_cast<u64>(begin) << log_unit), last = table_end + (static_cast<u64>(end) << log_unit);
        bool is_bound_sound;
        const double in_force = bound(is_bound_sound);
        const bool is_corrupt = (end < begin) | (is_last() & (last < n_bytes)) | !is_bound_sound;
        const u32 damage = is_corrupt ? kMarkCorrupt : last > n_bytes ? kMarkTruncated : 0;
        return Extent{in_force, first, damage ? 0 : last - first, damage};
    }
    __device__ __forceinline__ bool is_last() const { return block + 1 == args.own.n_blocks; }
    // Finds the box of the block and prepares the quantizer. Called by one thread, before a
    // barrier.
    __device__ __forceinline__ void prepare(const Extent& extent) const {
        shared.box = find_box(args.own.extents, kLog, block >> args.own.log_parts(), kLogRow);
        shared.quantizer.set(args.own, extent.bound);
    }
    // Adds the words of a block to the checksum sums. Called by all threads.
    __device__ __forceinline__ void sum_up(const Extent& extent, Sums& sums) const {
        const u64 first = extent.first / 4 + threadIdx.x;
        const u32* const words = reinterpret_cast<const u32*>(payload + extent.first);
        StridedSums<kThreads> word_sums(first);
#pragma unroll 4
        for (u64 word = threadIdx.x; word < extent.n_bytes / 4; word += kThreads) word_sums.add(words[word]);
        word_sums.finish(first, sums);
    }
    // Adds the block's sums, which all threads shared before a barrier, and the sums of its table
    // entry to the payload's sums, and reports damage. Returns whether the block matches its check.
    // Called by the first thread.
    __device__ __forceinline__ bool add_sums(const Extent& extent, u32 end, u32 check) const {
        Sums sums = shared.sums.sum();
        const bool is_checked = static_cast<u32>(checksum_of(sums.a, sums.b, extent.n_bytes)) == check;
        constexpr u32 table_word = kHeadBytes / 4;
        sums.add(table_word + 2ull * block, end);
        sums.add(table_word + 2ull * block + 1, check);
        const u32* const words = reinterpret_cast<const u32*>(payload);
        if (block == 0) sums.add(0, words[0]), sums.add(1, words[1]);
        if (is_last()) {
            for (u64 word = table_word + 2ull * args.own.n_blocks; word < args.own.table_bytes() / 4; ++word) sums.add(word, words[word]);
        }
        slot()->add(sums);
        // A block with a damaged location was not summed, so its check is not compared.
        report(extent.damage ? extent.damage : !is_checked && !(args.flags & kSkipChecksum) ? kMarkCorrupt : 0);
        return is_checked;
    }

    // Decodes the block in units [begin, end) after the table directly from the frame. `read(plan,
    // source, n_bytes)` reads the plan, which is then stored in shared memory, and returns a damage
    // code or 0. `decode(source, n_bytes)` decodes a block with numbers and stores its elements.
    // Called by all threads.
    template <typename Read, typename Decode>
    __device__ __forceinline__ void decode_block(u32 begin, u32 end, u32 check, Read read, Decode decode) const {
        const Extent extent = this->extent(begin, end);
        const unsigned char* const source = reinterpret_cast<const unsigned char*>(payload) + extent.first;
        Sums sums;
        if (threadIdx.x == kThreads - 1) prepare(extent);
        sum_up(extent, sums);
        shared.sums.share(sums);
        __syncthreads();
        bool is_checked = true;
        if (threadIdx.x == 0) is_checked = add_sums(extent, end, check);
        u32 damage = extent.damage;
        // Clamps the length to 32 bits. A block that is too long remains too long.
        const u32 n_bytes = static_cast<u32>(min(extent.n_bytes, u64{Shared::kMostBytes} + kUnitBytes));
        auto plan = typename Shared::Plan();
        plan.header = kConstBlock, plan.base = 0, plan.n_outliers = 0;
        if (damage == 0 && n_bytes > 0) {
            damage = read(plan, source, n_bytes);
            if (damage == 0 && extent.n_bytes > Shared::kMostBytes) damage = kMarkCorrupt;
            if (damage == 0 && plan.header == kConstBlock) plan.base = load_word<W>(source + kAlignment);
            // An unsupported block is corrupt if its check fails. Otherwise a later version wrote
            // it.
            if (threadIdx.x == 0) report(damage == kMarkUnsupported && !is_checked ? kMarkCorrupt : damage);
        }
        // From here on, the plan is in shared memory, to save registers.
        if (threadIdx.x == 0) shared.plan = plan;
        __syncthreads();
        if (unlikely(damage)) return finish(count());
        if (unlikely(plan.header == kRawBlock)) {
            const Element element = part();
            store_elements([&](u32 i) { return load_unaligned(source + kAlignment + i * element.bytes, element); });
        } else if (unlikely(plan.header == kConstBlock)) {
            const W word = plan.base;
            store_elements([&](u32) { return word; });
        } else {
            decode(source, n_bytes);
        }
        __syncthreads();
        finish(count());
    }

    // Checks that the positions of outliers ascend and are in the block. put_outliers() ignores
    // positions outside it.
    __device__ __forceinline__ void check_outliers(const Plan& plan, const unsigned char* block, u32 m) const {
        const unsigned short* const places = reinterpret_cast<const unsigned short*>(block + plan.outliers);
        bool is_sound = true;
        for (u32 i = threadIdx.x + 1; i <= plan.n_outliers; i += kThreads) is_sound &= places[i] < m && (i == 1 || places[i] > places[i - 1]);
        if (!is_sound) report(kMarkCorrupt);
    }
    // Copies the outliers from the frame to the array.
    __device__ __forceinline__ void put_outliers(const Plan& plan, const unsigned char* block) const {
        const Element element = part();
        const unsigned short* const places = reinterpret_cast<const unsigned short*>(block + plan.outliers);
        for (u32 i = threadIdx.x; i < plan.n_outliers; i += kThreads) {
            const u32 place = places[i + 1];
            if (place < shared.box.m) store_place(place, element, load_unaligned(block + plan.outlier_elements + i * element.bytes, element));
        }
    }
    // Loads an element that may be aligned to only 4 bytes.
    static __device__ __forceinline__ W load_unaligned(const unsigned char* from, const Element& element) {
        return sizeof(W) == 8 ? load_word<W>(from) : load_element<W>(from, element, false);
    }

    __device__ __forceinline__ W fill_of(const Plan& plan, const unsigned char* source) const {
        return load_word<W>(source + plan.fill_mask);
    }
    // Reads the fill mask. If it is damaged, reports this and returns false, in all threads.
    __device__ __forceinline__ bool read_fill_mask(const Plan& plan, const unsigned char* source) const {
        const Box& box = shared.box;
        const unsigned char* const from = source + plan.bitmap();
        bool is_sound = true;
        if (plan.is_bitmap_coded) {
            const CodedBitmap<1u << kLog> coded(from, plan.bitmap_bytes, box.m);
            is_sound = coded.is_sound && coded.n_bytes == plan.bitmap_bytes;
            if (is_sound) {
                is_sound = shared.bitmap.read(coded, box.m);
                if (box.sz * box.sy > 1) shared.bitmap.undo_changes(box.m, box.sx);
            }
        } else {
            is_sound = shared.bitmap.read(reinterpret_cast<const u32*>(from), box.m);
        }
        is_sound = shared.bitmap.count(box.m, plan.n_filled, is_sound);
        if (!is_sound && threadIdx.x == 0) report(kMarkCorrupt);
        return is_sound;
    }

    // Stores the elements of a box of any shape; for a region, only those in it. `word_of(i)` is
    // the word of element i.
    template <typename F>
    __device__ __forceinline__ void store_elements(F word_of) const {
        const Element element = part();
        const SmallDivisor rows(shared.box.sx), planes(shared.box.sy);
#pragma unroll 1
        for (u32 i = threadIdx.x; i < shared.box.m; i += kThreads) store_at(i, rows, planes, element, word_of(i));
    }
    __device__ __forceinline__ void store_place(u32 i, const Element& element, W word) const {
        store_at(i, SmallDivisor(shared.box.sx), SmallDivisor(shared.box.sy), element, word);
    }
    __device__ __forceinline__ void store_at(u32 i, const SmallDivisor& rows, const SmallDivisor& planes, const Element& element, W word) const {
        u32 x, y;
        const u32 row = rows.divide(i, x), z = planes.divide(row, y);
        store_at(z, y, x, element, word);
    }
    __device__ __forceinline__ void store_at(u32 z, u32 y, u32 x, const Element& element, W word) const {
        const Box& box = shared.box;
        const u64 width = args.own.extents[2], height = args.own.extents[1];
        u64 at = box.start + (z * height + y) * width + x;
        if (kPart) {
            const u64 first_row = box.start / width, first_x = box.start - first_row * width, first_z = first_row / height;
            if (!region().find(first_z + z, first_row - first_z * height + y, first_x + x, at)) return;
        }
        store_element(dst() + (at * element.bytes << args.own.log_parts()), element, args.flags & kSwapBytes, word);
    }
};
