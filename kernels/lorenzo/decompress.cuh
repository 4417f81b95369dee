// Decompression in one pass, one CTA per block. Many resident CTAs per multiprocessor hide each
// other's latency.
//
//   1. The table gives the block's position. If it is plausible, the block's bytes are copied to
//      shared memory (the stage) and summed up for the block checksum and the payload checksum. If
//      the frame is stored, the CTA copies its share of the bytes instead.
//   2. Each warp unpacks rows of a group, undoes the zigzag coding, adds up along y within its
//      rows, and writes them to shared memory (the tile).
//   3. Each thread adds up a segment of a row, then columns along z, and stores the elements, 16
//      bytes at a time if rows are aligned.
//
// Blocks whose rows do not have 32 elements are added up in the tile, axis by axis, by one routine
// for all shapes. One warp decodes HUFF; the other warps wait. Only blocks of up to 4096 elements
// in SPLIT, without DICT, are unpacked from the stage; all other blocks are read from the frame.
//
// For DECIMAL, CUT or masked elements, the words are computed in the tile before it is stored.
// Tails are read from the frame.
//
// For a region, there is one CTA per block that the region may touch. It stores the wanted elements
// one by one.
//
// All data is validated before use. The CTA that finishes the last tile of a chunk verifies the
// header and its checksum.

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/frame.cuh"
#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "../common/tuning.cuh"
#include "../common/warp.cuh"
#include "../stage/boxes.cuh"
#include "../stage/cut.cuh"
#include "../stage/decimal.cuh"
#include "../stage/fixed.cuh"
#include "../stage/huff.cuh"
#include "../stage/sparse.cuh"
#include "../stage/unpack.cuh"
#include "../stage/words.cuh"
#include "layout.cuh"
#include "mask.cuh"
#include "tails_read.cuh"
#include "decompress_shared.cuh"

// kPart: decompresses a region; the arguments are then RegionArgs (region.cuh).
template <typename W, u32 kLog, bool kPart = false>
struct Decompressor : DecompressTile<Blocks> {
    using Shared = DecompressShared<W, kLog>;
    using Place = Places<W, kLog>;
    static constexpr u32 kBlock = 1u << kLog;
    static constexpr u32 kThreads = Shared::kThreads, kWarps = Shared::kWarps;
    static constexpr u32 kRows = kBlock / kRow;
    // Rows that a warp processes at a time: 32 of u32, 16 of u64.
    static constexpr u32 kWarpRows = 4096 / kRow / kWarps;
    static constexpr u32 kStepRows = kWarpRows * kWarps;
    static constexpr u32 kSegment = Segment<W>::kNumbers, kUnits = kSegmentBytes / kUnitBytes;
    static constexpr u32 kEntries = kEntryBytes / sizeof(W);
    static_assert(kEntryBytes <= Shared::kStageBytes && sizeof(HuffTables) <= Shared::kStageBytes, "what the stage is used for");

    Shared& shared;
    const u32 block;
    char* const dst;  // the array's first element, or its part

    __device__ __forceinline__ Decompressor(const DecompressArgs<Blocks>& args, Shared& shared)
        : DecompressTile<Blocks>(args), shared(shared), block(kPart ? touched_block() : tile), dst(array + args.own.offset(block, part())) {}

    // How the block's part of an element is stored, which is the element unless it is complex.
    __device__ __forceinline__ Element part() const { return args.own.part(args.encoded); }

    using Plan = BlockPlan;

    __device__ __forceinline__ void run() {
        if (!is_mine()) return;
        // Header and table are readable whatever the frame's length is, so all these loads are in
        // flight together.
        const uint2* const table = reinterpret_cast<const uint2*>(payload);
        const u32 begin = block ? table[block - 1].x : 0;
        const uint2 entry = table[block];
        const bool stored = is_stored(args.stored, frame);
        u32 damage = check_frame(table_bytes(args.own.n_blocks));
        if (likely(!stored & (damage == 0))) return decode_block(begin, entry.x, entry.y);
        Sums sums;
        if (stored) {
            const u64 raw_bytes = args.own.extents[0] * args.own.extents[1] * args.own.extents[2] * Element(args.encoded).bytes;
            // Clipped blocks have fewer elements, so the bytes are divided evenly among the tiles
            // instead.
            damage = copy_share<kThreads, Pieces::kBytes>(raw_bytes, (raw_bytes / tiles / kUnitBytes + 1) * kUnitBytes, sums);
        }
        add(shared.rows().sums, sums, damage);
        finish(count());
    }

    // Same as run(), for a tile of a region.
    __device__ __forceinline__ void run_part() {
        if (!is_mine()) return;
        const bool stored = is_stored(args.stored, frame);
        const u32 element_bytes = Element(args.encoded).bytes;
        const u64 raw_bytes = args.own.extents[0] * args.own.extents[1] * args.own.extents[2] * element_bytes;
        u32 damage = stored ? check_length(frame_bytes, args.stored.n_bytes + raw_bytes) : check_frame(table_bytes(args.own.n_blocks));
        if (damage == 0 && !stored) {
            const u32 n_units = reinterpret_cast<const uint2*>(payload)[args.own.n_blocks - 1].x;
            damage = check_length(n_bytes, table_bytes(args.own.n_blocks) + static_cast<u64>(n_units) * kUnitBytes);
        }
        if (damage == 0 && !stored && block != kNoBlock) {
            const uint2* const table = reinterpret_cast<const uint2*>(payload);
            return decode_block(block ? table[block - 1].x : 0, table[block].x, table[block].y);
        }
        if (damage == 0 && stored) copy_region<kThreads>(region(), element_bytes, frame + args.stored.n_bytes, array, tile, tiles);
        if (threadIdx.x == 0) report(damage);
        __syncthreads();
        finish(count());
    }
    __device__ __forceinline__ const Region& region() const { return static_cast<const RegionArgs<Blocks>&>(args).region; }
    // The block that this tile of a region decodes, or kNoBlock.
    __device__ __forceinline__ u32 touched_block() const {
        const u32 box = touched_box(region(), args.own.extents, kLog, args.own.box(tile));
        return box == kNoBlock ? kNoBlock : box << args.own.log_parts | (tile & ((1u << args.own.log_parts) - 1));
    }

    // For a region, the checksums of the blocks have been verified, so that of the payload is not.
    __device__ __forceinline__ void finish(u32 n_before) const { DecompressTile<Blocks>::finish(n_before, !kPart); }

    // Decodes the block in units [begin, end) of 16 bytes, as given by the table. `check` is the
    // block's checksum in the table.
    __device__ __forceinline__ void decode_block(u32 begin, u32 end, u32 check) {
        const u32 t = threadIdx.x;
        const u64 table_end = table_bytes(args.own.n_blocks);
        const u64 need = table_end + static_cast<u64>(end) * kUnitBytes;
        const bool is_last = block + 1 == args.own.n_blocks;
        const bool is_corrupt = (end <= begin) | (end - begin > kMostUnits) | (is_last & (need < n_bytes));
        u32 damage = is_corrupt ? kMarkCorrupt : need > n_bytes ? kMarkTruncated : 0;
        const u32 n_units = damage ? 0 : end - begin;
        const u64 first = table_end + static_cast<u64>(begin) * kUnitBytes;
        const unsigned char* const source = reinterpret_cast<const unsigned char*>(payload) + first;
        const bool is_staged = Shared::kStaged && n_units <= Shared::kMaxStaged / kUnitBytes;
        unsigned char* const stage = shared.stage;
        Sums sums;
        if (Shared::kStaged && likely(is_staged)) {
            // The first warp parses the block; meanwhile the others copy it.
            if (t < kWarp) {
                read_ahead(source, n_units * kUnitBytes);
            } else {
                constexpr u32 kCopiers = kThreads - kWarp;
                const u32 to = shared_address(stage);
#pragma unroll 1
                for (u32 u = t - kWarp; u < n_units; u += kCopiers) copy_async<kUnitBytes>(to + u * kUnitBytes, source + u * kUnitBytes);
                wait_copies();
                UnitSums<kCopiers> unit_sums(first / 4 + 4 * (t - kWarp));
#pragma unroll 1
                for (u32 u = t - kWarp; u < n_units; u += kCopiers) unit_sums.add(load_shared_16(to + u * kUnitBytes));
                unit_sums.finish(sums);
            }
        } else {
            UnitSums<kThreads> unit_sums(first / 4 + 4 * t);
            if (t == kThreads - 1) shared.box = find_box(args.own.extents, kLog, args.own.box(block));
            constexpr u32 kBatch = 5;  // loads in flight
            for (u32 first_unit = t; first_unit < n_units; first_unit += kBatch * kThreads) {
                uint4 units[kBatch];
#pragma unroll
                for (u32 k = 0; k < kBatch; ++k) {
                    if (first_unit + k * kThreads < n_units) units[k] = reinterpret_cast<const uint4*>(source)[first_unit + k * kThreads];
                }
#pragma unroll
                for (u32 k = 0; k < kBatch; ++k) {
                    if (first_unit + k * kThreads < n_units) unit_sums.add(units[k]);
                }
            }
            unit_sums.finish(sums);
        }
        shared.rows().sums.share(sums);
        __syncthreads();
        bool is_checked = true;
        if (t == 0) {
            sums = shared.rows().sums.sum();
            const u32 own_check = static_cast<u32>(checksum_of(sums.a, sums.b, n_units * kUnitBytes));
            is_checked = own_check == check;
            sums.add(2ull * block, end);
            sums.add(2ull * block + 1, check);
            if (is_last) {
                for (u64 word = 2ull * args.own.n_blocks; word < table_end / 4; ++word) sums.add(word, reinterpret_cast<const u32*>(payload)[word]);
            }
            slot()->add(sums);
            // A truncated block has no checksum to compare.
            if (damage == 0 && !is_checked && !(args.flags & kSkipChecksum)) damage = kMarkCorrupt;
            report(damage);
        }

        Plan plan = {};
        if (n_units > 0) {
            if (Shared::kStaged && likely(is_staged)) {
                plan = shared.rows().ahead.plan;
                damage = shared.rows().ahead.damage;
            } else {
                damage = read_header(*reinterpret_cast<const uint4*>(source), plan);
            }
            if (likely(damage == 0)) damage = fill(is_staged, stage, source, n_units * kUnitBytes, plan);
            // A block of an unknown kind was written by a later version if its checksum is right;
            // otherwise it is damaged.
            if (t == 0) report(damage == kMarkUnsupported && !is_checked ? kMarkCorrupt : damage);
        }
        __syncthreads();
        if (unlikely(damage)) return finish(count());
        add_up(plan);
        complete(plan);
        // `count()` is a global atomic and takes a while. It is issued before the elements are
        // stored, to hide its latency, unless store() may still report damage (FIXED).
        u32 n_before = is_fixed() ? 0 : count();
        store(plan);
        if (is_fixed()) {
            __syncthreads();
            n_before = count();
        }
        finish(n_before);
    }

    // Locates a block in the array, and reads its header and groups from the frame. Called by the
    // first warp.
    __device__ __forceinline__ void read_ahead(const unsigned char* source, u32 block_bytes) const {
        if (block_bytes == 0) return;
        const uint4 header = *reinterpret_cast<const uint4*>(source);
        const Box box = find_box(args.own.extents, kLog, args.own.box(block));
        Plan plan = {};
        MaskPlan mask;
        u32 damage = read_header(header, plan);
        if (unlikely(damage == 0 && plan.map & kMasked)) {
            damage = mask.template read<W>(source, block_bytes, box.m);
            if (damage) mask = MaskPlan();
        }
        const u32 n_numbers = box.m - mask.n_masked;
        const PackedSections<W, kBlock / kGroup> split(source + mask.numbers, block_bytes - mask.numbers, n_numbers);
        auto& ahead = shared.rows().ahead;
        if (lane_id() < kBlock / kGroup) ahead.groups[lane_id()] = split.own_group();
        if (lane_id() != 0) return;
        shared.box = box;
        ahead.plan = plan, ahead.mask = mask;
        ahead.damage = damage, ahead.n_numbers = n_numbers;
        ahead.is_whole = split.is_sound && ends_at(mask.numbers + split.n_bytes, block_bytes, plan);
    }

    // Parses the header of a block. Returns a damage code, or 0 if the header is sound. Thread 0
    // saves `shared.offset` for store(), which runs after a barrier.
    __device__ __forceinline__ u32 read_header(uint4 words, Plan& plan) const {
        const bool is_float = part().is_float;
        const u32 flags = words.x;
        plan.coder = flags & 0xf, plan.map = flags >> 4 & 0xf;
        plan.x = flags >> 8 & 7, plan.y = flags >> 12 & 7, plan.z = flags >> 16 & 7;
        const u32 shift = words.y & 0xffff;
        const bool is_plain = plan.coder <= kConst;
        const bool is_dict = plan.map == kDict;
        // Reserved bits that are not zero also indicate a later version.
        const bool is_known = plan.coder <= kSparse && plan.map <= kCut && (!is_plain || plan.map == kBits) && !(plan.coder > kSplit && is_dict) &&
                              (sizeof(W) == 8 || words.w == 0) &&
                              (is_plain ? flags >> 8 == 0 && words.y == 0 && (plan.coder == kConst || (words.z | words.w) == 0)
                                        : is_dict || ((flags & 0xfef88800) == 0 && words.y >> 16 == 0));
        if (!is_known) return kMarkUnsupported;
        bool is_sound = shift < Word<W>::kBits;
        if (plan.map == kFixed) is_sound = is_float && shift >= 1;
        if (plan.map == kDecimal) is_sound = is_float && shift >= 1 && shift <= kMaxDecimals;
        if (plan.map == kCut) is_sound = is_float && shift >= 1 && shift < Word<W>::kMaxExponent;
        if (is_dict) {
            const u32 k = flags >> 8 & 0xff, bits = flags >> 16 & 0xff, of_deltas = flags >> 24;
            is_sound &= k < Word<W>::kBits && bits <= Word<W>::kBits && of_deltas < Word<W>::kBits && words.y >> 16 > 0;
        }
        if (is_plain || is_dict) plan.x = plan.y = plan.z = 0;
        if (!is_dict && flags >> 24 & 1) plan.map |= kMasked;
        // Entries of a dictionary are numbers in the map BITS.
        const u32 map = is_dict ? u32{kBits} : plan.map;
        if (threadIdx.x == 0) shared.offset = Offset<W>{map << 16 | shift, static_cast<W>(static_cast<u64>(words.w) << 32 | words.z)};
        return is_sound ? 0 : kMarkCorrupt;
    }

    __device__ __forceinline__ u32 fill(bool is_staged, const unsigned char* stage, const unsigned char* source, u32 block_bytes, Plan& plan) {
        if (Shared::kStaged && likely(is_staged && plan.coder == kSplit && plan.map != kDict)) {
            const auto& ahead = shared.rows().ahead;
            if (!ahead.is_whole) return kMarkCorrupt;
            const u32 first = threadIdx.x / kWarp * kWarpRows;
            // For order 1 along y, each warp adds up its rows while it unpacks them.
            const bool adds_y = plan.y == 1 && y_in_rows(plan) && !(plan.map & kMasked);
            if (first * kRow < ahead.n_numbers) fill_rows<Source::kStage>(stage + ahead.mask.numbers, ahead.groups[first / kGroupRows], first, plan, adds_y);
            // Without differences along z, columns continue across warps: add_up_x() adds the sums
            // of the preceding warps.
            if (adds_y) plan.y = 0, plan.adds_above = plan.z == 0;
            u32 block_bytes;
            return likely(!(plan.map & kMasked)) ? 0 : expand(find_again(block_bytes), ahead.mask);
        }
        // After this barrier, all threads have read the stage.
        __syncthreads();
        return fill_from_frame(source, *reinterpret_cast<const uint4*>(source), block_bytes, plan);
    }

    // Unpacks rows [first, first + kWarpRows) of a SPLIT block from its sections to the tile.
    // Called by a warp. Undoes the zigzag coding except for DICT.
    template <Source kSource>
    __device__ __forceinline__ void fill_rows(const unsigned char* sections, const GroupPlan group, u32 first, const Plan& plan, bool adds_y) const {
        constexpr u32 kN = 4;  // rows at a time: more would exceed the instruction cache
        const u32 in_group = first % kGroupRows;
        unsigned char* const own = shared.tile + Place::row(first);
        static_assert(kWarpRows * Segment<W>::kPerRow == kWarp, "a lane has a segment");
        uint4* const zeros = reinterpret_cast<uint4*>(own + Place::segment(lane_id()));
#pragma unroll
        for (u32 u = 0; u < kUnits; ++u) zeros[u] = make_uint4(0, 0, 0, 0);
        __syncwarp();
        if (likely(group.e1 > 0) && !unpack_patches<Place, kSource, kWarpRows>(sections, group, in_group, own)) report(kMarkCorrupt);
        const u32 n_rows = kSource == Source::kStage ? min(group.rows - in_group, kWarpRows) : kWarpRows;
        W sum = 0;
#pragma unroll 1
        for (u32 r = 0; r < n_rows; r += kN) {
            W v[kN];
            unpack<kSource>(sections + group.packed, group, in_group + r, v);
            unsigned char* const to = own + Place::row(r) + Place::in_row(lane_id());
#pragma unroll
            for (u32 i = 0; i < kN; ++i) v[i] |= *reinterpret_cast<const W*>(to + Place::row(i));
            if (kSource == Source::kStage || plan.map != kDict) {
#pragma unroll
                for (u32 i = 0; i < kN; ++i) v[i] = unzigzag(v[i]);
            }
            if (adds_y) {
                v[0] += plan.z > 0 && r % 16 == 0 ? 0 : sum;
#pragma unroll
                for (u32 i = 1; i < kN; ++i) v[i] += v[i - 1];
                sum = v[kN - 1];
            }
#pragma unroll
            for (u32 i = 0; i < kN; ++i) *reinterpret_cast<W*>(to + Place::row(i)) = v[i];
        }
        if (!adds_y) return;
        // Computed only here, the address occupies no register earlier.
        u32 warp = threadIdx.x / kWarp;
        launder(warp);
        shared.last(warp, lane_id()) = sum;
    }

    // Decodes the numbers of any block from the frame to the tile. Returns a damage code, or 0.
    __device__ __forceinline__ u32 fill_from_frame(const unsigned char* from, uint4 words, u32 block_bytes, Plan& plan) const {
        const u32 m = shared.box.m;
        MaskPlan mask;
        const bool is_masked = plan.map & kMasked;
        if (is_masked) {
            const u32 damage = mask.template read<W>(from, block_bytes, m);
            if (damage) return damage;
        }
        const u32 damage = fill_numbers(from, mask.numbers, words, block_bytes, m - mask.n_masked, plan);
        return !is_masked || damage ? damage : expand(from, mask);
    }

    // Locates the block in the payload again, so that its address and size occupy no registers in
    // the meantime.
    __device__ __forceinline__ const unsigned char* find_again(u32& block_bytes) const {
        u32 block = this->block;
        launder(block);
        const u32* const table = reinterpret_cast<const u32*>(payload);
        const u32 begin = block ? table[2 * block - 2] : 0;
        block_bytes = (table[2 * block] - begin) * kUnitBytes;
        return reinterpret_cast<const unsigned char*>(payload) + table_bytes(args.own.n_blocks) + static_cast<u64>(begin) * kUnitBytes;
    }

    // Reads the mask of a block, and moves the coded numbers to their positions. Returns a damage
    // code, or 0.
    __device__ __forceinline__ u32 expand(const unsigned char* from, const MaskPlan& mask) const {
        // After this barrier, the numbers are complete, and the stage or the tables can be
        // overwritten.
        __syncthreads();
        if (!shared.mask().read(from, mask, shared.box)) return kMarkCorrupt;
        shared.mask().expand(shared.tile, shared.box.m);
        return 0;
    }

    // Decodes the m coded numbers, which start at byte `begin` of a block, to the tile. Undoes the
    // zigzag coding except for RAW, CONST and DICT. All threads return the same damage code, or 0;
    // damage that only some threads detect is reported instead.
    __device__ __forceinline__ u32 fill_numbers(const unsigned char* from, u32 begin, uint4 words, u32 block_bytes, u32 m, Plan& plan) const {
        const Element element = part();
        const u32 available = block_bytes - begin;
        if (plan.coder == kHuff) return fill_huff(from, begin, available, m, plan);
        if (plan.coder == kSparse) {
            const u32 n_bytes = read_sparse<Place>(from + begin, available, m, shared.mask().bitmap, shared.tile);
            return n_bytes == 0 || !ends_at(begin + n_bytes, block_bytes, plan) ? kMarkCorrupt : 0;
        }
        if (plan.coder <= kConst) {
            const u32 need = plan.coder == kRaw ? m * element.bytes : 0;
            if (need > available || available - need >= kUnitBytes) return kMarkCorrupt;
#pragma unroll 1
            for (u32 i = threadIdx.x; i < m; i += kThreads) {
                const W word = plan.coder == kRaw ? load_element<W>(from + begin + i * element.bytes, element, false) : 0;
                *reinterpret_cast<W*>(shared.tile + Place::number(i)) = word;
            }
            return 0;
        }
        const bool is_dict = plan.map == kDict;
        // A dictionary has at most as many entries as the block has elements: m, since a block with
        // a dictionary has no mask.
        if (is_dict && words.y >> 16 > m) return kMarkCorrupt;
        const u32 deltas = is_dict ? ((words.y >> 16) - 1) * (words.x >> 16 & 0xff) : 0;  // size in bits
        const u32 skipped = begin + (deltas + 63) / 64 * 8;
        if (skipped > block_bytes) return kMarkCorrupt;
        const PackedSections<W, kBlock / kGroup> split(from + skipped, block_bytes - skipped, m);
        if (!split.is_sound || !ends_at(skipped + split.n_bytes, block_bytes, plan)) return kMarkCorrupt;
#pragma unroll 1
        for (u32 first = threadIdx.x / kWarp * kWarpRows; first * kRow < m; first += kStepRows) {
            fill_rows<Source::kFrame>(from + skipped, split.group(first / kGroupRows), first, plan, false);
        }
        if (is_dict) {
            __syncthreads();
            look_up(reinterpret_cast<const u32*>(from + begin), words, m);
        }
        return 0;
    }

    // True if a block may end after numbers that end at byte `numbers_end`. With tails, records
    // where they start; make_words() checks where they end.
    __device__ __forceinline__ bool ends_at(u32 numbers_end, u32 block_bytes, const Plan& plan) const {
        if ((plan.map & ~kMasked) != kCut) return block_bytes - numbers_end < kUnitBytes;
        if (threadIdx.x == 0) shared.tails = (numbers_end + 7) / 8 * 8;
        return true;
    }

    // Address of the lane's number in row first + r of the tile. A warp has rows [first, first +
    // kWarpRows).
    __device__ __forceinline__ W* row_numbers(u32 first, u32 r) const {
        return reinterpret_cast<W*>(shared.tile + Place::row(first) + Place::in_row(lane_id()) + Place::row(r));
    }
    __device__ __forceinline__ void store_rows(const W (&v)[kWarpRows], u32 first) const {
#pragma unroll
        for (u32 r = 0; r < kWarpRows; ++r) *row_numbers(first, r) = v[r];
    }

    // True if sums along y can be computed in registers, one column per lane: rows have 32 numbers,
    // and columns extend over the whole block or over planes of 16 rows.
    __device__ __forceinline__ bool y_in_rows(const Plan& plan) const {
        return plan.y > 0 && shared.box.sx == kRow && (plan.z == 0 || shared.box.sy == 16);
    }

    // Adds up along y once, from row k of a column on. `v` is the lane's column in the warp's rows,
    // which begin with row `first`. Without differences along z, columns continue across warps and
    // steps: `carry` is the column's sum in the preceding steps, and is updated.
    __device__ __forceinline__ void add_up_columns(W (&v)[kWarpRows], const Plan& plan, u32 first, u32 k, W& carry) const {
        if (plan.z > 0) {
#pragma unroll
            for (u32 r = 1; r < kWarpRows; ++r) {
                if (r % 16 > k) v[r] += v[r - 1];
            }
            return;
        }
#pragma unroll
        for (u32 r = 1; r < kWarpRows; ++r) {
            if (first + r > k) v[r] += v[r - 1];
        }
        shared.last(threadIdx.x / kWarp, lane_id()) = v[kWarpRows - 1];
        __syncthreads();
        W before = carry;
#pragma unroll
        for (u32 w = 0; w < kWarps; ++w) {
            const W sum = shared.last(w, lane_id());
            if (w < threadIdx.x / kWarp) before += sum;
            carry += sum;
        }
        __syncthreads();
#pragma unroll
        for (u32 r = 0; r < kWarpRows; ++r) v[r] += before;
    }

    // Decodes numbers in HUFF to the tile. Returns a damage code, or 0; reports damaged strings.
    __device__ __forceinline__ u32 fill_huff(const unsigned char* block, u32 begin, u32 available, u32 m, const Plan& block_plan) const {
        const unsigned char* const from = block + begin;
        HuffTables& tables = *reinterpret_cast<HuffTables*>(shared.stage);
        const HuffPlan plan(from, available, m, Word<W>::kBits);
        if (!plan.is_sound || !ends_at(begin + plan.n_bytes, begin + available, block_plan)) return kMarkCorrupt;
        const Box& box = shared.box;
        const bool by_columns = box.sx < kRow && box.sz * box.sy > 1 && !(block_plan.map & kMasked);
        // Strings with numbers in column order are not copied to the tile: the numbers are written
        // all over the tile, and would overwrite unread strings.
        const bool are_copied = !by_columns && copy_strings<Place, kWarps>(from, plan, m, shared.tile);
        bool is_sound = true;
        for (u32 context = threadIdx.x / kWarp; context < kContexts; context += kWarps) is_sound &= make_table(from + plan.lengths, plan, context, tables);
        wait_copies();
        __syncthreads();
        if (threadIdx.x < kWarp) {
            Outcome outcome = are_copied ? decode_strings<Place, Strings::kInTile>(from, plan, m, 1, tables, shared.tile) : kOverwritten;
            if (outcome == kOverwritten) outcome = decode_strings<Place, Strings::kInFrame>(from, plan, m, by_columns ? box.sx : 1, tables, shared.tile);
            is_sound &= outcome == kDecoded;
        }
        if (!is_sound) report(kMarkCorrupt);
        return 0;
    }

    // Returns the sum of the values of all threads before this one. Contains barriers.
    __device__ __forceinline__ W sum_before(W value, W& sum_of_all) const {
        const W through = warp_inclusive_sum(value);
        if (lane_id() == kWarp - 1) shared.rows().carries[threadIdx.x / kWarp] = through;
        __syncthreads();
        W before = through - value;
        sum_of_all = 0;
#pragma unroll
        for (u32 w = 0; w < kWarps; ++w) {
            if (w < threadIdx.x / kWarp) before += shared.rows().carries[w];
            sum_of_all += shared.rows().carries[w];
        }
        __syncthreads();
        return before;
    }

    // DICT: replaces each number in the tile, which is an index and low bits, by the sum of the
    // entry (without the base) and the low bits. Entries are computed kEntries at a time. A thread
    // handles 32 of its numbers at a time; `pending` marks those that no computed entry has
    // replaced yet.
    __device__ __forceinline__ void look_up(const u32* deltas, uint4 words, u32 m) const {
        const u32 k = words.x >> 8 & 0xff, bits = words.x >> 16 & 0xff, shift = words.x >> 24, n = words.y >> 16;
        constexpr u32 kPerThread = kEntries / kThreads;
        W* const entries = reinterpret_cast<W*>(shared.stage);
        for (u32 first = 0; first < m; first += 32 * kThreads) {
            u32 pending = 0;
            for (u32 j = 0; j < 32; ++j) pending |= static_cast<u32>(first + j * kThreads + threadIdx.x < m) << j;
            W before = 0;
            for (u32 from = 0; from < n; from += kEntries) {
                W own[kPerThread];
                W sum = 0;
                for (u32 e = 0; e < kPerThread; ++e) {
                    const u32 i = from + threadIdx.x * kPerThread + e;
                    if (i > 0 && i < n && bits > 0) sum += load_bits(deltas, (i - 1) * bits, bits, W()) << shift;
                    own[e] = sum;
                }
                W all;
                const W start = before + sum_before(sum, all);
                for (u32 e = 0; e < kPerThread; ++e) entries[threadIdx.x * kPerThread + e] = start + own[e];
                before += all;
                __syncthreads();
                for (u32 j = 0; j < 32; ++j) {
                    if (!(pending >> j & 1)) continue;
                    W& number = *reinterpret_cast<W*>(shared.tile + Place::number(first + j * kThreads + threadIdx.x));
                    const W entry = number >> k;
                    if (entry < from || entry >= min(from + kEntries, n)) continue;
                    number = entries[static_cast<u32>(entry) - from] + (number & low_bits(W(), k));
                    pending &= ~(1u << j);
                }
                __syncthreads();
            }
            if (pending) report(kMarkCorrupt);
        }
    }

    // Adds up in the tile along y and x, unless done while it was filled.
    __device__ __forceinline__ void add_up(Plan& plan) const {
        const Box& box = shared.box;
        const u32 sz = box.sz, sy = box.sy, sx = box.sx;
        if (plan.y > 0) {
            if (y_in_rows(plan)) {
                add_up_rows(plan);
            } else {
                const u32 lines = plan.z == 0 ? 1 : sz;
                add_up_axis(plan.y, sz * sy / lines, sx, lines * sx, Lines{sx, sz * sy / lines * sx, 1});
            }
        }
        if (plan.x > 0 || plan.adds_above) {
            if (sz * sy == 1) {
                add_up_x<RowLength::kBlock>(plan);
            } else if (likely(sx == kRow)) {
                add_up_x<RowLength::k32>(plan);
            } else {
                add_up_axis(plan.x, sx, 1, sz * sy, Lines{1, sx, 0});
            }
        }
    }

    // Completes the tile for store(): adds up along z if store() cannot do so, and computes the
    // words of blocks with DECIMAL, CUT or a mask.
    __device__ __forceinline__ void complete(Plan& plan) const {
        const Box& box = shared.box;
        // The map is reread where needed, to save registers.
        const auto needs_words = [&] { return shared.offset.map() >= kDecimal; };
        if (plan.z > 0 && (!(box.sx == kRow && stores_rows()) || needs_words())) {
            const u32 plane = box.sy * box.sx;
            if (box.sx == kRow) {
                add_up_planes(plan.z);
            } else {
                add_up_axis(plan.z, box.sz, plane, plane, Lines{plane, 0, 1});
            }
            plan.z = 0;
        }
        if (unlikely(needs_words())) make_words();
    }
    // True if store() must undo FIXED, which may report damage.
    __device__ __forceinline__ bool is_fixed() const { return shared.offset.map() == kFixed; }

    // True if elements are stored in rows of 32: these are the rows of the block, or pieces of a
    // block that is contiguous in the array.
    __device__ __forceinline__ bool stores_rows() const { return !kPart && args.own.log_parts == 0 && (shared.box.sx == kRow || is_contiguous()); }
    __device__ __forceinline__ bool is_contiguous() const {
        const Box& box = shared.box;
        const u64 (&extents)[3] = args.own.extents;
        return box.sz * box.sy == 1 || (box.sx == extents[2] && (box.sz == 1 || box.sy == extents[1]));
    }

    // Adds up along y in registers.
    __device__ __forceinline__ void add_up_rows(const Plan& plan) const {
        for (u32 k = plan.y; k-- > 0;) {
            W carry = 0;
#pragma unroll 1
            for (u32 step = 0; step < kRows; step += kStepRows) {
                const u32 first = step + threadIdx.x / kWarp * kWarpRows;
                W v[kWarpRows];
#pragma unroll
                for (u32 r = 0; r < kWarpRows; ++r) v[r] = *row_numbers(first, r);
                add_up_columns(v, plan, first, k, carry);
                store_rows(v, first);
            }
        }
        __syncthreads();
    }

    // Adds up along x. A thread has a segment, which is a row or part of a row.
    template <RowLength kLength>
    __device__ __forceinline__ void add_up_x(const Plan& plan) const {
        const u32 n_segments = (shared.box.m + kSegment - 1) / kSegment;
        constexpr u32 kPerUnit = Word<W>::kPerUnit;
        constexpr bool kWhole = kLength == RowLength::kBlock;
        // In a single row, every order takes a separate round: a segment may need the sums of all
        // preceding threads.
        const u32 rounds = kWhole ? plan.x : 1, in_round = kWhole ? 1 : plan.x;
#pragma unroll 1
        for (u32 round = rounds; round-- > 0;) {
            W carry = 0;
#pragma unroll 1
            for (u32 step = 0; step < n_segments; step += kThreads) {
                const u32 s = step + threadIdx.x;
                const bool exists = s < n_segments;
                uint4* const units = reinterpret_cast<uint4*>(shared.tile + Place::segment(s));
                W* const above = shared.above(threadIdx.x / kWarp);
                if (!kWhole && plan.adds_above) {
                    // All segments of a warp belong to rows that the same warp has filled.
                    W sum = 0;
                    for (u32 w = 0; w < threadIdx.x / kWarp; ++w) sum += shared.last(w, lane_id());
                    above[lane_id()] = sum;
                    __syncwarp();
                }
                W v[kSegment];
#pragma unroll
                for (u32 u = 0; u < kUnits; ++u) split(exists ? units[u] : make_uint4(0, 0, 0, 0), v + u * kPerUnit);
                if (!kWhole && plan.adds_above) {
                    const uint4* const part = reinterpret_cast<const uint4*>(above + s % Segment<W>::kPerRow * kSegment);
#pragma unroll
                    for (u32 u = 0; u < kUnits; ++u) {
                        W words[kPerUnit];
                        split(part[u], words);
#pragma unroll
                        for (u32 i = 0; i < kPerUnit; ++i) v[u * kPerUnit + i] += words[i];
                    }
                }
#pragma unroll 1
                for (u32 k = in_round; k-- > 0;) {
                    // Pass k starts with number k of a row.
                    const u32 start = kWhole ? (s == 0 ? round : 0) : s % Segment<W>::kPerRow == 0 ? k : 0;
#pragma unroll
                    for (u32 i = 1; i < kSegment; ++i) {
                        if (i > start) v[i] += v[i - 1];
                    }
                    W before = 0;
                    if (kWhole) {
                        W all;
                        before = carry + sum_before(v[kSegment - 1], all);
                        carry += all;
                    } else if (Segment<W>::kPerRow == 2) {
                        before = __shfl_up_sync(kAllLanes, v[kSegment - 1], 1);
                        if (s % 2 == 0) before = 0;
                    }
                    if (kWhole || Segment<W>::kPerRow == 2) {
#pragma unroll
                        for (u32 i = 0; i < kSegment; ++i) v[i] += before;
                    }
                }
                if (exists) {
#pragma unroll
                    for (u32 u = 0; u < kUnits; ++u) units[u] = join(v + u * kPerUnit);
                }
            }
        }
        __syncthreads();
    }

    // Adds up along z in a box with rows of 32 numbers. A thread has columns of adjacent numbers.
    __device__ __forceinline__ void add_up_planes(u32 order) const {
        constexpr u32 kPerUnit = Word<W>::kPerUnit, kPerRow = kRow / kPerUnit;
        const u32 height = shared.box.sy, n_rows = shared.box.sz * height;
#pragma unroll 1
        for (u32 column = threadIdx.x; column < height * kPerRow; column += kThreads) {
            unsigned char* const first = shared.tile + Place::in_row(column % kPerRow * kPerUnit);
#pragma unroll 1
            for (u32 k = order; k-- > 0;) {
                W sum[kPerUnit] = {};
#pragma unroll 4
                for (u32 row = column / kPerRow + k * height; row < n_rows; row += height) {
                    uint4& unit = *reinterpret_cast<uint4*>(first + Place::row(row));
                    W own[kPerUnit];
                    split(unit, own);
#pragma unroll
                    for (u32 i = 0; i < kPerUnit; ++i) sum[i] += own[i];
                    unit = join(sum);
                }
            }
        }
        __syncthreads();
    }

    // Lines along an axis: line l starts at number l / a * b + l % a * c.
    struct Lines {
        u32 a, b, c;
    };

    // Adds up along any axis of any box: there are `n_lines` lines of `length` numbers each, and
    // the numbers of a line are `distance` apart.
    __device__ __forceinline__ void add_up_axis(u32 order, u32 length, u32 distance, u32 n_lines, Lines lines) const {
        const SmallDivisor divisor(lines.a);
        // Number of adjacent threads that share a line.
        u32 sharers = 1;
        while (sharers < kWarp && 2 * sharers * n_lines <= kThreads && 2 * sharers <= length) sharers *= 2;
        const u32 share = (length + sharers - 1) / sharers, mine = threadIdx.x % sharers;
        // Pass k starts with number k of a line.
        for (u32 k = order; k-- > 0;) {
            for (u32 from = 0; from < n_lines; from += kThreads / sharers) {
                const u32 line = from + threadIdx.x / sharers;
                u32 rest;
                const u32 quotient = divisor.divide(line, rest), start = quotient * lines.b + rest * lines.c;
                const u32 end = line < n_lines ? min((mine + 1) * share, length) : 0, begin = line < n_lines ? max(mine * share, k) : 0;
                const auto number = [&](u32 i) -> W& { return *reinterpret_cast<W*>(shared.tile + Place::number(start + i * distance)); };
                W sum = 0;
                if (sharers > 1) {
                    W own = 0;
                    for (u32 i = begin; i < end; ++i) own += number(i);
                    W through = own;
                    for (u32 step = 1; step < sharers; step *= 2) {
                        const W before = __shfl_up_sync(kAllLanes, through, step);
                        if (mine >= step) through += before;
                    }
                    sum = through - own;
                }
                for (u32 i = begin; i < end; ++i) number(i) = sum += number(i);
            }
            __syncthreads();
        }
    }

    // Replaces the numbers of the tile by the words of their elements, as numbers of BITS with
    // shift and base 0.
    __device__ __forceinline__ void make_words() const {
        const Offset<W> offset = shared.offset;
        const bool is_masked = offset.map() & kMasked;
        const u32 map = offset.map() & ~kMasked;
        bool damaged = false;
        __syncthreads();
        if (threadIdx.x == 0) shared.offset = Offset<W>{};
        if (map == kCut) {
            u32 block_bytes;
            const unsigned char* const source = find_again(block_bytes);
            const auto* const mask = is_masked ? &shared.mask() : nullptr;
            damaged = !shared.tail_reader().read(shared.tile, shared.box.m, mask, offset.base, offset.shift(), source, shared.tails, block_bytes,
                                                 damaged) ||
                      damaged;
        } else {
            const double power = kPowersOfTen[map == kDecimal ? offset.shift() : 0];
#pragma unroll 1
            for (u32 row = threadIdx.x / kWarp; row * kRow < shared.box.m; row += kWarps) {
                W& number = *row_numbers(row, 0);
                if (is_masked && shared.mask().bitmap.has(row)) {
                    number = shared.mask().word;
                } else if (row * kRow + lane_id() < shared.box.m) {
                    number = map == kDecimal ? float_of_decimal(number + offset.base, power)
                           : map == kFixed   ? word_of<kFixed>(number, offset, damaged)
                                             : word_of<kBits>(number, offset, damaged);
                }
            }
        }
        if (damaged) report(kMarkCorrupt);
        __syncthreads();
    }

    // Returns the word of an element, given its number in the tile.
    template <Map kMap>
    static __device__ __forceinline__ W word_of(W v, const Offset<W>& offset, bool& damaged) {
        if (kMap == kFixed) return float_of_fixed(v + offset.base, offset.shift(), damaged);
        if (sizeof(W) == 8) return (v + offset.base) << offset.shift();
        // A multiply-add is one instruction, but the compiler must not know that the factor is a
        // power of two.
        u32 factor = 1u << offset.shift();
        launder(factor);
        return v * factor + (offset.base << offset.shift());
    }

    // Stores the tile to the array.
    __device__ __forceinline__ void store(const Plan& plan) const {
        constexpr u32 kPerUnit = Word<W>::kPerUnit;
        const Box& box = shared.box;
        bool damaged = false;
        if (likely(stores_rows())) {
            const u32 element_bytes = Element(args.encoded).bytes;
            const bool is_narrow = sizeof(W) == 4 && element_bytes != sizeof(W);
            const auto is_aligned_to = [&](u32 bytes) {
                // The low bits suffice; a 64-bit remainder would be slow.
                const u32 misaligned = static_cast<u32>(reinterpret_cast<u64>(dst + box.start * bytes)) |
                                       (box.sx == kRow ? static_cast<u32>(args.own.extents[2]) * bytes : 0);
                return misaligned % (kPerUnit * bytes) == 0 && !(args.flags & kSwapBytes);
            };
            const bool is_aligned = !is_narrow && is_aligned_to(sizeof(W));
            if (unlikely(is_narrow)) {
                if (element_bytes == 2 ? is_aligned_to(2) : is_aligned_to(1)) {
                    store_rows_by<kPerUnit, kBits, Size::kNarrow>(plan, damaged);
                } else {
                    store_rows_by<1, kBits, Size::kNarrow>(plan, damaged);
                }
            } else if (is_fixed() && !(is_aligned && plan.z <= 1)) {
                store_rows_by<1, kFixed>(plan, damaged);
            } else if (is_fixed()) {
                store_rows_by<kPerUnit, kFixed>(plan, damaged);
            } else if (likely(is_aligned)) {
                store_rows_by<kPerUnit, kBits>(plan, damaged);
            } else {
                store_rows_by<1, kBits>(plan, damaged);
            }
        } else {
            store_box(damaged);
        }
        if (damaged) report(kMarkCorrupt);
    }

    // The size of elements: that of words, or narrower.
    enum class Size : u32 { kWord, kNarrow };

    // Stores kWords adjacent elements, given their words. Bytes can be swapped only if kWords is 1.
    template <u32 kWords, Size kSize>
    __device__ __forceinline__ void store_words(char* to, const Element& element, bool swaps, const W (&v)[kWords]) const {
        if (kWords == 1 && kSize == Size::kWord) {
            *reinterpret_cast<W*>(to) = swaps ? swapped_bytes(v[0]) : v[0];
        } else if (kWords == 1) {
            store_element(to, element, swaps, v[0]);
        } else if (kSize == Size::kWord) {
            store_global_16(to, join(v));
        } else if (element.bytes == 2) {
            *reinterpret_cast<uint2*>(to) = make_uint2(__byte_perm(v[0], v[1], 0x5410), __byte_perm(v[2 % kWords], v[3 % kWords], 0x5410));
        } else {
            *reinterpret_cast<u32*>(to) = __byte_perm(__byte_perm(v[0], v[1], 0x0040), __byte_perm(v[2 % kWords], v[3 % kWords], 0x0040), 0x5410);
        }
    }

    // Adds up along z and stores kWords adjacent elements of a row at a time. A block that is
    // contiguous in the array is viewed as rows of 32, plus a remainder.
    template <u32 kWords, Map kMap, Size kSize = Size::kWord>
    __device__ __forceinline__ void store_rows_by(const Plan& plan, bool& damaged) const {
        const Box& box = shared.box;
        const Element element(args.encoded);
        const bool is_line = box.sx != kRow;
        const u32 element_bytes = kSize == Size::kWord ? static_cast<u32>(sizeof(W)) : element.bytes;
        const u32 depth = is_line ? 1 : box.sz, height = is_line ? box.m / kRow : box.sy;
        const u64 row = (is_line ? kRow : args.own.extents[2]) * element_bytes, plane = args.own.extents[1] * row;
        char* const to = dst + box.start * element_bytes;
        constexpr u32 kPerRow = kRow / kWords;
        const Offset<W> offset = shared.offset;
        // Whether this instance supports orders above 1 along z. With FIXED and several words,
        // there are not enough registers; store() then selects another instance.
        constexpr bool kSumsMore = kMap != kFixed || kWords == 1;
        const bool swaps = kWords == 1 && args.flags & kSwapBytes;
#pragma unroll 1
        for (u32 column = threadIdx.x; column < height * kPerRow; column += kThreads) {
            const u32 y = column / kPerRow, x = column % kPerRow * kWords;
            const unsigned char* const from = shared.tile + Place::in_row(x);
            char* out = to + y * row + x * element_bytes;
            const auto load = [&](u32 z, W (&v)[kWords]) {
                const unsigned char* const at = from + Place::row(z * height + y);
                if (kWords == 1) {
                    v[0] = *reinterpret_cast<const W*>(at);
                } else {
                    split(*reinterpret_cast<const uint4*>(at), v);
                }
            };
            const auto put = [&](W (&v)[kWords]) {
#pragma unroll
                for (u32 i = 0; i < kWords; ++i) v[i] = word_of<kMap>(v[i], offset, damaged);
                store_words<kWords, kSize>(out, element, swaps, v);
                out += plane;
            };
            if (likely(!kSumsMore || plan.z <= 1)) {
                W sum[kWords] = {};
                const W keeps = plan.z;
#pragma unroll 4
                for (u32 z = 0; z < depth; ++z) {
                    W v[kWords];
                    load(z, v);
#pragma unroll
                    for (u32 i = 0; i < kWords; ++i) v[i] = sum[i] = sum[i] * keeps + v[i];
                    put(v);
                }
            } else {
                // Running sums: those of each pass add up those of the pass after it. Pass k starts
                // with plane k.
                W sums[7][kWords] = {};
#pragma unroll 1
                for (u32 z = 0; z < depth; ++z) {
                    W v[kWords];
                    load(z, v);
#pragma unroll
                    for (u32 k = 7; k-- > 0;) {
                        if (k >= plan.z || k > z) continue;
#pragma unroll
                        for (u32 i = 0; i < kWords; ++i) v[i] = sums[k][i] += v[i];
                    }
                    put(v);
                }
            }
        }
        if (is_line && threadIdx.x < box.m % kRow) {
            const u32 i = height * kRow + threadIdx.x;
            const W v = *reinterpret_cast<const W*>(shared.tile + Place::number(i));
            store_element(to + i * element_bytes, element, args.flags & kSwapBytes, word_of<kMap>(v, offset, damaged));
        }
    }

    // Stores elements of any size in a box of any shape, or only the elements of a region.
    __device__ __forceinline__ void store_box(bool& damaged) const {
        const Box& box = shared.box;
        const bool is_fixed = this->is_fixed();
        const Element element = part();
        const u32 pitch = element.bytes << args.own.log_parts;
        const SmallDivisor rows(box.sx), planes(box.sy);
        const Offset<W> offset = shared.offset;
        const u64 first_row = kPart ? box.start / args.own.extents[2] : 0, first_x = box.start - first_row * args.own.extents[2];
        const u64 first_z = kPart ? first_row / args.own.extents[1] : 0, first_y = first_row - first_z * args.own.extents[1];
        char* const to = dst + box.start * pitch;
        const u64 row_bytes = args.own.extents[2] * pitch, plane_bytes = args.own.extents[1] * row_bytes;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < box.m; i += kThreads) {
            u32 x, y;
            const u32 row = rows.divide(i, x), z = planes.divide(row, y);
            const W v = *reinterpret_cast<const W*>(shared.tile + Place::number(i));
            const W word = is_fixed ? word_of<kFixed>(v, offset, damaged) : word_of<kBits>(v, offset, damaged);
            char* out = to + z * plane_bytes + y * row_bytes + x * pitch;
            if (kPart) {
                u64 at;
                if (!region().find(first_z + z, first_y + y, first_x + x, at)) continue;
                out = dst + at * pitch;
            }
            store_element(out, element, args.flags & kSwapBytes, word);
        }
    }
};

template <typename W, u32 kLog>
__device__ __forceinline__ void decompress(const DecompressArgs<Blocks>& args) {
    extern __shared__ __align__(128) unsigned char shared[];
    Decompressor<W, kLog>(args, *reinterpret_cast<DecompressShared<W, kLog>*>(shared)).run();
}

template <typename W, u32 kLog>
__device__ __forceinline__ void decompress_region(const RegionArgs<Blocks>& args) {
    extern __shared__ __align__(128) unsigned char shared[];
    Decompressor<W, kLog, true>(args, *reinterpret_cast<DecompressShared<W, kLog>*>(shared)).run_part();
}

template <typename W, u32 kLog>
constexpr LaunchInfo kDecompressInfo = {DecompressShared<W, kLog>::kThreads, sizeof(DecompressShared<W, kLog>), 0, 1, 0, kDecompressScratch, 0};
