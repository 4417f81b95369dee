// Decompression. A thread decodes a group of 256 elements, or 64 elements if blocks have a fixed
// size, one block after another in registers. Four threads share a block of four axes.
//
// The part of the stream with a CTA's sections is copied to shared memory, and added to the
// checksum on the way. If it does not fit there, it is only added to the checksum, and each warp
// copies the words that its threads read next. (Blocks of four axes are read from global memory
// instead.) The rest of the payload is divided evenly among the CTAs, which add it to the checksum.

#pragma once

#include "../common/checksum.cuh"
#include "../common/region.cuh"
#include "../common/tile.cuh"
#include "../common/warp.cuh"
#include "decode.cuh"
#include "exceptions.cuh"
#include "layout.cuh"
#include "../stage/boxes.cuh"

// Contents of a payload's tail, and whether they are plausible (is_sound).
template <u32 kRank>
struct Tail {
    u64 bits;
    u32 units;
    s32 minexp;
    bool is_sound;

    // The payload must be long enough for a tail.
    __device__ __forceinline__ Tail(const Sections<kRank>& sections, const char* payload, u64 n_bytes) {
        const uint2* const tail = reinterpret_cast<const uint2*>(payload + (n_bytes - n_bytes % 8 - kTailBytes));
        const uint2 own = tail[0], of_bound = tail[1], counts = tail[2];
        bits = static_cast<u64>(own.y) << 32 | own.x;
        units = counts.y;
        const Chunk& chunk = sections.chunk;
        const u64 bound = static_cast<u64>(of_bound.y) << 32 | of_bound.x;
        minexp = chunk.mode() == kRel ? exponent_of_bound(bound) : chunk.minexp;
        is_sound = bits <= 8 * n_bytes && sections.payload_bytes(bits, units) == n_bytes;
        is_sound &= chunk.mode() == kRel ? bound < 0x7ff0000000000000u : bound == chunk.value;
        if (chunk.has_fixed_blocks()) is_sound &= bits == static_cast<u64>(chunk.n_blocks) * chunk.max_bits();
    }
};

template <typename W, u32 kRank>
struct DecodeShared {
    // Words of the stream, with room for zeros after them, and for a word of padding per thread.
    static constexpr u32 kImageWords = 10240;
    static constexpr u32 kRoom = kImageWords - kZfpThreads - 2 * kZeroWords;
    static_assert(kZfpThreads / kQuarterLanes * kCellWords <= kImageWords, "where blocks of four axes share their numbers out");
    static_assert(kZfpThreads * WindowWords::kStride <= kImageWords, "windows");

    union {
        alignas(16) u32 image[kImageWords];
        ReadShared<W> exceptions;
    };
    alignas(16) u32 stage[8 * Slice<W, kRank>::kWords * kZfpThreads];
    u32 codes[PlanesOf<kRank>::kEntries];
    CtaSums<kZfpWarps> sums;
};

// Maximum number of bits of a section: the lengths of its groups are u16.
constexpr u32 kMostSectionBits = kGroups * 0xffff;

// Positions in the stream, in bits, of a CTA's sections and of the thread's group or blocks.
struct OwnBits {
    u64 start, end;  // of all sections of the CTA
    u64 own;         // start of the thread's bits
    u32 n_own;       // number of the thread's bits
    u32 damage;
};

// The blocks [first, end) of a thread. It decodes only those before `end_wanted`.
struct OwnBlocks {
    u32 first, end, end_wanted;
};

// Number of sections that a CTA decodes.
template <u32 kRank>
__device__ __forceinline__ u32 n_own_sections(const Chunk& chunk) { return kRank == 4 || chunk.has_fixed_blocks() ? 1 : kZfpThreads / kGroups; }

// Finds and validates the positions of a CTA's sections. The lengths of a section's groups must add
// up to its length only if a block of the section is wanted. `is_wanted`: a block of the thread is
// wanted.
template <u32 kRank>
__device__ __forceinline__ OwnBits find_bits(const Sections<kRank>& sections, const Tail<kRank>& tail, const char* payload, u32 first_section, u32 n_sections,
                                             bool is_wanted) {
    const Chunk& chunk = sections.chunk;
    OwnBits found{};
    if (chunk.has_fixed_blocks()) {
        const u64 first = static_cast<u64>(first_section) * Sections<kRank>::kBlocks;
        const u64 own = first + threadIdx.x * kOwnElements / kBlock<kRank>, n_blocks = chunk.n_blocks;
        found.start = first * chunk.max_bits(), found.end = min(first + Sections<kRank>::kBlocks, n_blocks) * chunk.max_bits();
        found.own = min(own, n_blocks) * chunk.max_bits();
        return found;
    }
    const u64* const ends = reinterpret_cast<const u64*>(payload + Sections<kRank>::stream_bytes(tail.bits));
    const unsigned short* const groups = reinterpret_cast<const unsigned short*>(ends + sections.sections());
    const u32 section = first_section + (kRank == 4 ? 0 : threadIdx.x / kWarp), last = first_section + n_sections - 1;
    found.start = first_section ? ends[first_section - 1] : 0, found.end = ends[last];
    // Each lane has one group of a section.
    const u32 group = section * kGroups + lane_id();
    const bool exists = group < sections.groups();
    found.n_own = exists ? groups[group] : 0;
    const u32 through = warp_inclusive_sum(found.n_own), all = __shfl_sync(kAllLanes, through, kWarp - 1);
    bool is_sound = found.start <= found.end && found.end <= tail.bits && (last + 1 < sections.sections() || found.end == tail.bits);
    if (section <= last) {
        const u64 before = section ? ends[section - 1] : 0, end = ends[section];
        // Even if no block is wanted, a section must not exceed the maximum number of bits. So word
        // and bit positions within a CTA's sections fit 32 bits.
        is_sound &= before <= end && before >= found.start && end <= found.end && end - before <= kMostSectionBits;
        if (__any_sync(kAllLanes, is_wanted)) is_sound &= end - before == all;
        found.own = before + through - found.n_own;
    }
    if (kRank == 4) {
        // A block of four axes is a group. Get the position of the block that the thread shares.
        const u32 of_block = threadIdx.x / kQuarterLanes;
        found.own = __shfl_sync(kAllLanes, found.own, of_block), found.n_own = __shfl_sync(kAllLanes, found.n_own, of_block);
    }
    if (!is_sound) found.damage = kMarkCorrupt;
    return found;
}

// Destination of elements: the whole array.
template <typename W, u32 kRank>
struct WholeArray {
    static constexpr bool kIsRegion = false;
    W* array;
    const BlockGrid<kRank> grid;
    bool is_aligned;

    __device__ __forceinline__ WholeArray(const DecompressArgs<Chunk>& args, char* array)
        : array(reinterpret_cast<W*>(array)), grid(args.own),
          is_aligned((reinterpret_cast<u64>(array) | (kRank > 1 ? grid.extents[0] * sizeof(W) : 0)) % kUnitBytes == 0) {}

    // Stores the words of a block.
    __device__ __forceinline__ void store(const W (&v)[kBlock<kRank>], const BlockPlace<kRank>& place) const {
        W* const start = array + place.start;
        if (likely(place.is_whole && is_aligned)) {
#pragma unroll
            for (u32 i = 0; i < kBlock<kRank>; i += Word<W>::kPerUnit) store_global_16(start + grid.offset(i), join(&v[i]));
        } else {
#pragma unroll
            for (u32 i = 0; i < kBlock<kRank>; ++i) {
                if (is_there(place.there, i)) start[grid.offset(i)] = v[i];
            }
        }
    }
    // Stores the word of one element.
    __device__ __forceinline__ void store(W word, u64 offset) const { array[offset] = word; }
    __device__ __forceinline__ bool touches(const BlockPlace<kRank>&, u32 = 4) const { return true; }
};

// Destination of elements: a region of the array. Of four axes, the two slowest are merged into
// one.
template <typename W, u32 kRank>
struct PartOfArray {
    static constexpr bool kIsRegion = true;
    W* array;
    const Region& region;

    __device__ __forceinline__ PartOfArray(const DecompressArgs<Chunk>& args, char* array)
        : array(reinterpret_cast<W*>(array)), region(static_cast<const RegionArgs<Chunk>&>(args).region) {}

    // Converts the offset of an element in the array to its positions on the axes x, y and z.
    __device__ __forceinline__ void split_offset(u64 offset, u64 (&at)[kRank]) const {
#pragma unroll
        for (u32 k = 0; k < kRank; ++k) {
            const u64 extent = region.extents[2 - k];
            at[k] = k + 1 < kRank ? offset % extent : offset;
            offset /= extent;
        }
    }
    __device__ __forceinline__ u64 number(const u64 (&numbers)[kRank]) const {
        u64 all = 0;
#pragma unroll
        for (u32 k = kRank; k-- > 0;) all = all * region.count[2 - k] + numbers[k];
        return all;
    }
    __device__ __forceinline__ void store(const W (&v)[kBlock<kRank>], const BlockPlace<kRank>& place) const {
        u64 at[kRank], numbers[kRank][4];
        u32 wanted[kRank];
        split_offset(place.start, at);
#pragma unroll
        for (u32 k = 0; k < kRank; ++k) {
            wanted[k] = 0;
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                numbers[k][i] = 0;
                if (i < place.there[k] && region.find(2 - k, at[k] + i, numbers[k][i])) wanted[k] |= 1u << i;
            }
        }
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; ++i) {
            bool is_wanted = true;
            u64 own[kRank];
#pragma unroll
            for (u32 k = 0; k < kRank; ++k) is_wanted &= wanted[k] >> (i >> 2 * k & 3) & 1, own[k] = numbers[k][i >> 2 * k & 3];
            if (is_wanted) array[number(own)] = v[i];
        }
    }
    __device__ __forceinline__ void store(W word, u64 offset) const {
        u64 at[kRank], own[kRank];
        split_offset(offset, at);
        bool is_wanted = true;
#pragma unroll
        for (u32 k = 0; k < kRank; ++k) is_wanted &= region.find(2 - k, at[k], own[k]);
        if (is_wanted) array[number(own)] = word;
    }
    // Whether the region contains any element of a block. `n_slowest` is the extent of the block
    // along the slowest axis. It may be below 4 for a cube of a block of four axes: then the next
    // cube follows on the merged axis.
    __device__ __forceinline__ bool touches(const BlockPlace<kRank>& place, u32 n_slowest = 4) const {
        u64 at[kRank];
        split_offset(place.start, at);
        bool is_in = true;
#pragma unroll
        for (u32 k = 0; k < kRank; ++k) is_in &= region.before(2 - k, at[k]) < region.before(2 - k, at[k] + (k + 1 < kRank ? 4 : n_slowest));
        return is_in;
    }
};

template <u32 kRank, typename Target>
__device__ __forceinline__ OwnBlocks own_blocks(const Chunk& chunk, u32 first_section, const Target& target) {
    const u32 n_elements = n_own_sections<kRank>(chunk) == 1 ? kOwnElements : kGroupElements, n_own = max(n_elements / kBlock<kRank>, 1u);
    const u64 start = static_cast<u64>(first_section) * Sections<kRank>::kBlocks + threadIdx.x * n_elements / kBlock<kRank>, n_blocks = chunk.n_blocks;
    OwnBlocks blocks{static_cast<u32>(min(start, n_blocks)), static_cast<u32>(min(start + n_own, n_blocks)), 0};
    blocks.end_wanted = blocks.end;
    if constexpr (Target::kIsRegion) {
        const BlockGrid<kRank> grid(chunk);
        while (blocks.end_wanted > blocks.first && !touches(target, grid, grid.place(blocks.end_wanted - 1))) --blocks.end_wanted;
    }
    return blocks;
}

// Adds words [first, end) of the payload to the checksum.
__device__ __forceinline__ void sum_words(const u32* payload, u64 first, u64 end, Sums& sums) {
    StridedSums<kZfpThreads> word_sums(first + threadIdx.x);
#pragma unroll 4
    for (u64 i = first + threadIdx.x; i < end; i += kZfpThreads) word_sums.add(payload[i]);
    word_sums.finish(first + threadIdx.x, sums);
}

// Number of units of 16 bytes that a thread loads at a time.
constexpr u32 kBatch = 4;

// An estimate that most blocks do not exceed: the number of words of a block, including words that
// are loaded past its end.
template <typename W, u32 kRank>
constexpr u32 kWordsOfBlock = kBlock<kRank> * sizeof(W) * 3 / 32 + 6;

// Decodes the sections of a CTA, whose positions in the stream have been validated.
template <typename W, u32 kRank, typename Lines, typename Target>
__device__ __forceinline__ void decode_tile(const DecompressTile<Chunk>& tile, DecodeShared<W, kRank>& shared, const Sections<kRank>& sections,
                                            const Tail<kRank>& tail, const OwnBits& own, const OwnBlocks& blocks, u32 first_section, const Target& target,
                                            Sums& sums) {
    using Shared = DecodeShared<W, kRank>;
    const Chunk& chunk = sections.chunk;
    const u32 t = threadIdx.x;
    const u32* const payload = reinterpret_cast<const u32*>(tile.payload);
    // Words are copied in units of four, so the first word is a multiple of four.
    const u64 stream_words = Sections<kRank>::stream_bytes(tail.bits) / 4, first_word = own.start / 128 * 4;
    const bool is_last = first_section + n_own_sections<kRank>(chunk) >= sections.sections();
    const u32 n_words = static_cast<u32>((is_last ? stream_words : (own.end + 31) / 32) - first_word);
    const u32* const stream = payload + first_word;
    // If the bits of adjacent threads begin a multiple of four words apart, one word of padding
    // separates them, so that they are in different banks.
    const u32 own_bits = kThreadBlocks<kRank> * chunk.max_bits();
    const bool is_padded = chunk.has_fixed_blocks() && own_bits % 128 == 0, has_room = n_words <= Shared::kRoom;
    {
        // Words that begin in the previous tile are added to the checksum by that tile.
        const u32 n_begun = static_cast<u32>((own.start + 31) / 32 - first_word);
        const SmallDivisor own_words(is_padded ? own_bits / 32 : 1);
        UnitSums<kZfpThreads> unit_sums(first_word + 4 * t);
#pragma unroll 1
        for (u32 from = 4 * t; from < n_words; from += kBatch * 4 * kZfpThreads) {
            uint4 units[kBatch];
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                // A unit may extend past the stream's words, since the payload's tail follows them.
                const u32 i = from + k * 4 * kZfpThreads;
                units[k] = i < n_words ? *reinterpret_cast<const uint4*>(stream + i) : uint4{};
            }
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                const u32 i = from + k * 4 * kZfpThreads;
                uint4& unit = units[k];
                if (i + 4 > n_words) {
                    unit.x = i >= n_words ? 0 : unit.x, unit.y = i + 1 >= n_words ? 0 : unit.y, unit.z = i + 2 >= n_words ? 0 : unit.z, unit.w = 0;
                }
                if (has_room && i < n_words) {
                    u32 rest;
                    u32* const to = shared.image + i + (is_padded ? own_words.divide(i, rest) : 0);
                    if (is_padded) {
                        to[0] = unit.x, to[1] = unit.y, to[2] = unit.z, to[3] = unit.w;
                    } else {
                        *reinterpret_cast<uint4*>(to) = unit;
                    }
                }
                if (i < n_begun) {
                    unit.x = 0, unit.y = i + 1 < n_begun ? 0 : unit.y, unit.z = i + 2 < n_begun ? 0 : unit.z, unit.w = i + 3 < n_begun ? 0 : unit.w;
                }
                unit_sums.add(unit);
            }
        }
        unit_sums.finish(sums);
        const u64 rest = tile.n_bytes / 4 - stream_words, share = (rest + tile.tiles - 1) / tile.tiles, first = min(tile.tile * share, rest);
        sum_words(payload, stream_words + first, stream_words + min(first + share, rest), sums);
    }
    // Write zeros after the last word.
    if (has_room && !is_padded) {
        __syncthreads();
        if (t < kZeroWords) shared.image[n_words + t] = 0;
    }
    __syncthreads();

    const BlockGrid<kRank> grid(chunk);
    const u32 place = static_cast<u32>(own.own - first_word * 32), table = shared_address(shared.codes), stage = Slice<W, kRank>::own_address(shared.stage);
    const u32 cells = shared_address(shared.image) + t / kQuarterLanes * kCellWords * 4;
    const auto decode = [&](auto words) {
        BitReader<decltype(words)> reader{words, place};
        const auto restore = [&](W(&v)[kOwnNumbers<kRank>], const Form& form) {
            restore_block<W, kRank, Lines>(v, chunk, form, cells);
            if (tile.args.flags & kSwapBytes) {
#pragma unroll
                for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) v[i] = swapped_bytes(v[i]);
            }
        };
        if constexpr (kRank == 4) {
            const bool is_wanted = blocks.first < blocks.end_wanted;
            W v[kOwnNumbers<kRank>] = {};
            Form form{};
            if (is_wanted) form = read_block<W, kRank, Lines>(reader, table, stage, chunk, tail.minexp, v);
            // Numbers are exchanged in the shared memory that contains the stream, which is no
            // longer read after this barrier.
            if (!__syncthreads_or(is_wanted)) return;
            restore(v, form);
            if (is_wanted) target.store(v, own_part(grid, grid.place(blocks.first)));
        } else {
#pragma unroll 1
            for (u32 block = blocks.first; reader.words.goes_on(block < blocks.end_wanted, reader.place, kWordsOfBlock<W, kRank>); ++block) {
                if (block >= blocks.end_wanted) continue;
                W v[kOwnNumbers<kRank>];
                restore(v, read_block<W, kRank, Lines>(reader, table, stage, chunk, tail.minexp, v));
                target.store(v, grid.place(block));
            }
        }
        const bool is_all = blocks.end_wanted == blocks.end;
        if (!chunk.has_fixed_blocks() && (is_all ? reader.place != place + own.n_own : reader.place > place + own.n_own)) tile.report(kMarkCorrupt);
    };
    if (likely(has_room)) {
        decode(SharedWords{shared_address(shared.image) + (is_padded ? t / kBlockThreads<kRank> * 4 : 0), n_words});
    } else if constexpr (kRank == 4) {
        decode(GlobalWords{stream, n_words});
    } else {
        decode(WindowWords({stream, n_words}, shared.image, place));
    }
    if (likely(tail.units == 0)) return;

    const u64 ends_at = stream_words + (sections.ends_bytes() + sections.groups_bytes()) / 4, exceptions_at = ends_at + sections.exception_ends_bytes() / 4;
    const u32 n_sections = min(n_own_sections<kRank>(chunk), sections.sections() - first_section);
#pragma unroll 1
    for (u32 section = first_section; section < first_section + n_sections; ++section) {
        // If there are several sections, each warp has the groups of one of them.
        const bool is_of_section = n_sections == 1 || section == first_section + t / kWarp;
        if (!__syncthreads_or(is_of_section && blocks.first < blocks.end_wanted)) continue;
        const u32 before = section ? payload[ends_at + section - 1] : 0, end = payload[ends_at + section];
        bool is_sound = before <= end && end <= tail.units && (section + 1 < sections.sections() || end == tail.units);
        if (is_sound && before < end) {
            is_sound = apply_exceptions<W>(shared.exceptions, payload + exceptions_at + before, end - before, [&](u32 place, W word) {
                const PlacedElement<kRank> element(grid, chunk, section, place);
                if (element.exists) target.store(tile.args.flags & kSwapBytes ? swapped_bytes(word) : word, element.offset);
                return element.exists || (element.has_block && !touches(target, grid, element.block));
            });
        }
        if (!is_sound) tile.report(kMarkCorrupt);
    }
}

template <typename W, u32 kRank, typename Lines, typename Target>
__device__ __forceinline__ void zfp_decompress(const DecompressArgs<Chunk>& args) {
    using Shared = DecodeShared<W, kRank>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_bytes);
    const DecompressTile<Chunk> tile(args);
    const Chunk& chunk = args.own;
    const Sections<kRank> sections(chunk);
    const Target target(args, tile.array);
    const u32 t = threadIdx.x, per_tile = n_own_sections<kRank>(chunk);
    const u64 table_bytes = sections.ends_bytes() + sections.groups_bytes() + kTailBytes, raw_bytes = chunk.elements() * sizeof(W);

    for (u32 i = t; i < PlanesOf<kRank>::kEntries; i += kZfpThreads) shared.codes[i] = PlanesOf<kRank>::entry(i);
    Sums sums;
    u32 damage = 0;
    const bool is_stored_frame = tile.frame_bytes >= args.stored.n_bytes && is_stored(args.stored, tile.frame);
    if (!is_stored_frame) {
        damage = tile.check_frame(table_bytes);
        // The end of a truncated frame is not a tail.
        if (damage == 0) damage = tile.check_length(tile.n_bytes, header_payload_bytes(tile.frame));
    } else if constexpr (Target::kIsRegion) {
        damage = tile.check_length(tile.frame_bytes, args.stored.n_bytes + raw_bytes);
        if (damage == 0) copy_region<kZfpThreads>(target.region, sizeof(W), tile.frame + args.stored.n_bytes, tile.array, tile.tile, tile.tiles);
    } else {
        damage = tile.template copy_share<kZfpThreads, Pieces::kWords>(raw_bytes, static_cast<u64>(per_tile) * kSectionElements * sizeof(W), sums);
    }
    if (!is_stored_frame && damage == 0) {
        const Tail<kRank> tail(sections, tile.payload, tile.n_bytes);
        const u32 first_section = (chunk.first_tile + tile.tile) * per_tile, n_sections = min(per_tile, sections.sections() - first_section);
        const OwnBlocks blocks = own_blocks<kRank>(chunk, first_section, target);
        OwnBits own{};
        if (tail.is_sound) own = find_bits(sections, tail, tile.payload, first_section, n_sections, blocks.first < blocks.end_wanted);
        if (__syncthreads_or(!tail.is_sound || own.damage)) {
            damage = kMarkCorrupt;
        } else {
            decode_tile<W, kRank, Lines>(tile, shared, sections, tail, own, blocks, first_section, target, sums);
        }
    }
    tile.add(shared.sums, sums, damage);
    tile.finish(tile.count(), !chunk.is_part && !(Target::kIsRegion && is_stored_frame));
}
