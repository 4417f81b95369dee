// Decodes strings of Huffman codes to numbers: each of the 32 lanes of one warp decodes one string,
// in lockstep.
//
// A lane looks up its next ten bits in the table of its context. The entry gives the symbol and the
// length of its code. The strings are first copied to shared memory, each to the end of the space
// for its numbers. Numbers are written from the start of this space on. The remaining numbers are
// almost always longer than the rest of the string, so no unread word is overwritten. If one is,
// the lane detects it, and the strings are decoded from the frame instead.

#pragma once

#include "../common/warp.cuh"
#include "groups.cuh"
#include "unpack.cuh"
#include "words.cuh"

constexpr u32 kContexts = 4;
constexpr u32 kMaxCode = 10;  // maximum bits of a code
constexpr u32 kTableEntries = kContexts << kMaxCode;

// A table entry. Bits 0 to 3: length of the code. Bits 4 to 9: number of low bits of the number
// that follow the code. Bit 10: set if the number is not 0. The last two fields add up to the
// symbol. An entry is 0 if no code begins with its index.
struct alignas(16) HuffTables {
    unsigned short entries[kTableEntries];
};

// The context of a number. `sum`: the sum of the two preceding symbols, minus twice the pivot. The
// context is the number of thresholds -3, 0 and 2 that the sum reaches.
__device__ __forceinline__ u32 context_of(s32 sum) {
    // One byte for each sum from -4 to 2.
    return __byte_perm(0x01010100, 0x030202, min(max(sum + 4, 0), 6));
}

constexpr u32 kHuffHeader = 6;        // bytes before the sections
constexpr u32 kMaxFieldBits = 16;     // maximum bits of a string's length less the shortest one's

// Sections of a block of Huffman strings. Offsets are in bytes from the block's start.
struct HuffPlan {
    u32 lo, hi, pivot, flag;
    u32 lengths;    // offset of the code lengths
    u32 lane, end;  // start and end of the lane's string
    u32 n_bytes;    // total bytes of the sections
    bool is_sound;

    // Reads the plan of a block of m numbers. Called by a warp. The payload has `available` bytes
    // from `from`, which is aligned to 4.
    __device__ __forceinline__ HuffPlan(const unsigned char* from, u32 available, u32 m, u32 word_bits)
        : lo(0), hi(0), pivot(0), flag(0), lengths(0), lane(0), end(0), n_bytes(0), is_sound(available >= kHuffHeader) {
        const u32 n_runs = (m + kRow - 1) / kRow;
        if (!is_sound) return;
        // Sections have at least 8 bytes, because they begin and end at multiples of 8.
        const u32* const words = reinterpret_cast<const u32*>(from);
        const u32 head = words[0], least = words[1] & 0xffff, field_bits = head >> 24 & 0x7f;
        lo = head & 0xff, hi = head >> 8 & 0xff, pivot = head >> 16 & 0xff, flag = head >> 31;
        lengths = kHuffHeader + (flag ? (n_runs + 7) / 8 : 0);
        const u32 fields = lengths + 2 * (hi - lo + 1), strings = fields + kWarp / 8 * field_bits;
        is_sound = lo <= hi && hi <= word_bits && pivot <= word_bits && field_bits <= kMaxFieldBits && available >= strings;
        if (!is_sound) return;
        const u32 own = least + (field_bits > 0 ? load_bits(words, 8 * fields + lane_id() * field_bits, field_bits, 0u) : 0);
        const u32 through = warp_inclusive_sum(own);
        end = strings + through;
        lane = end - own;
        n_bytes = __shfl_sync(kAllLanes, end, kWarp - 1);
        is_sound = n_bytes <= available && __all_sync(kAllLanes, own < 1u << 16);
    }
};

// Builds the table of one context. Called by a warp. Returns false if codes overlap or are too
// long.
__device__ __forceinline__ bool make_table(const unsigned char* lengths, const HuffPlan& plan, u32 context, HuffTables& tables) {
    constexpr u32 kRounds = 3;  // up to 65 symbols, one per lane and round
    constexpr u32 kSize = 1u << kMaxCode, kFewEntries = kWarp / 2, kLongCode = kMaxCode - 4;
    static_assert(kSize >> kLongCode == kFewEntries, "a long code has few entries");
    const u32 n = plan.hi - plan.lo + 1, lane = lane_id();
    unsigned short* const entries = tables.entries + context * kSize;
    for (u32 i = lane; i < kSize * sizeof(*entries) / kUnitBytes; i += kWarp) reinterpret_cast<uint4*>(entries)[i] = make_uint4(0, 0, 0, 0);
    u32 length[kRounds] = {}, code[kRounds] = {};
    u32 next = 0;  // next code of the current length
    bool is_sound = true;
#pragma unroll
    for (u32 k = 0; k < kRounds; ++k) {
        const u32 s = k * kWarp + lane, field = context * n + s;
        if (s < n) length[k] = lengths[field / 2] >> field % 2 * 4 & 0xf;
        is_sound &= length[k] <= kMaxCode;
    }
    for (u32 l = 1; l <= kMaxCode; ++l) {
        next *= 2;
#pragma unroll
        for (u32 k = 0; k < kRounds; ++k) {
            if (k * kWarp >= n) break;
            const u32 same = __ballot_sync(kAllLanes, length[k] == l);
            if (length[k] == l) code[k] = next + __popc(same & lanes_below());
            next += __popc(same);
        }
        is_sound &= next <= 1u << l;
    }
    is_sound = __all_sync(kAllLanes, is_sound);
    if (!is_sound) return false;
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < kRounds; ++k) {
        if (k * kWarp >= n) break;
        const u32 l = length[k], symbol = plan.lo + k * kWarp + lane, first = l > 0 ? __brev(code[k]) >> (32 - l) : 0;
        const u32 entry = l | (max(symbol, 1u) - 1) << 4 | (symbol > 0) << 10;
        // All lanes write the entries of a short code together. One lane writes those of a long
        // code.
        u32 short_codes = __ballot_sync(kAllLanes, l > 0 && l < kLongCode);
        while (short_codes) {
            const u32 from = __ffs(short_codes) - 1;
            short_codes &= short_codes - 1;
            const u32 of_code = __shfl_sync(kAllLanes, l | first << 4, from), own = __shfl_sync(kAllLanes, entry, from), step = of_code & 0xf;
            for (u32 i = lane; i < kSize >> step; i += kWarp) entries[of_code >> 4 | i << step] = static_cast<unsigned short>(own);
        }
        if (l >= kLongCode) {
            for (u32 i = first; i < kSize; i += 1u << l) entries[i] = static_cast<unsigned short>(entry);
        }
    }
    return true;
}

// Reader of a lane's string. It holds three words, the position of the next bit in the first one,
// and the two following words. These two are loaded after every number and not used before the next
// one.
struct BitReader {
    const u32* const words;  // words of all strings
    const u32 last;          // last word of the string; it replaces all later words
    u32 index;               // index of the first of the three words
    u32 at;
    u32 own[3], ahead[2];

    // The string is bytes [first, behind) of `words`. It may be empty. At least one byte precedes
    // it.
    __device__ __forceinline__ BitReader(const u32* words, u32 first, u32 behind)
        : words(words), last((behind - 1) / 4), index(first / 4), at(first % 4 * 8) {
        for (u32 i = 0; i < 3; ++i) own[i] = words[min(index + i, last)];
        look_ahead();
    }
    __device__ __forceinline__ void look_ahead() {
        for (u32 i = 0; i < 2; ++i) ahead[i] = words[min(index + 3 + i, last)];
    }
    // The next 32 bits.
    __device__ __forceinline__ u32 peek() const { return __funnelshift_r(own[0], own[1], at); }
    // The 32 bits after the next 32 bits.
    __device__ __forceinline__ u32 peek_behind() const { return __funnelshift_r(own[1], own[2], at); }
    // Skips n bits, at most 64.
    __device__ __forceinline__ void skip(u32 n) {
        at += n;
        const bool one = at >= 32, two = at >= 64;
        own[0] = two ? own[2] : one ? own[1] : own[0];
        own[1] = two ? ahead[0] : one ? own[2] : own[1];
        own[2] = two ? ahead[1] : one ? ahead[0] : own[2];
        index += at / 32;
        at %= 32;
        look_ahead();
    }
    // Position of the next bit.
    __device__ __forceinline__ u32 position() const { return index * 32 + at; }
    // The first word that may still be read. The words in `ahead` count as unread: they are loaded
    // again if the next skip ends in the same word.
    __device__ __forceinline__ const u32* unread() const { return words + index + 3; }
};

// The runs (of 32 numbers each) that a lane decodes: [first, last).
struct Runs {
    u32 first, last;

    __device__ __forceinline__ Runs(u32 lane, u32 m) {
        const u32 n_runs = (m + kRow - 1) / kRow, per_lane = (n_runs + kWarp - 1) / kWarp;
        first = min(n_runs, lane * per_lane);
        last = min(n_runs, first + per_lane);
    }
};

// Destination of a lane's string in the tile: the end of the space for its runs.
template <typename Place>
struct StringPlace {
    u32 first_word, n_words;  // in the frame
    u32* to;
    bool fits;

    __device__ __forceinline__ StringPlace(u32 first, u32 behind, const Runs& runs, unsigned char* tile) {
        first_word = first / 4;
        n_words = behind > first ? (behind - 1) / 4 - first_word + 1 : 0;
        const u32 begin = Place::row(runs.first), end = runs.last > runs.first ? Place::row(runs.last - 1) + Place::in_row(kRow) - kUnitBytes : begin;
        fits = n_words * 4 <= end - begin;
        to = reinterpret_cast<u32*>(tile + end) - n_words;
    }
};

// Starts the copies of all strings. Called by all kWarps warps. Returns false if a string does not
// fit.
template <typename Place, u32 kWarps>
__device__ __forceinline__ bool copy_strings(const unsigned char* from, const HuffPlan& plan, u32 m, unsigned char* tile) {
    const StringPlace<Place> own(plan.lane, plan.end, Runs(lane_id(), m), tile);
    if (!__all_sync(kAllLanes, own.fits)) return false;
    for (u32 lane = threadIdx.x / kWarp; lane < kWarp; lane += kWarps) {
        const u32 first = __shfl_sync(kAllLanes, plan.lane, lane), behind = __shfl_sync(kAllLanes, plan.end, lane);
        const StringPlace<Place> place(first, behind, Runs(lane, m), tile);
        const u32* const source = reinterpret_cast<const u32*>(from) + place.first_word;
        for (u32 i = lane_id(); i < place.n_words; i += kWarp) copy_async<4>(shared_address(place.to + i), source + i);
    }
    return true;
}

// Location of the strings: copied to the tile, or in the frame.
enum class Strings : u32 { kInTile, kInFrame };

enum Outcome : u32 { kDecoded, kDamaged, kOverwritten };

// Decodes all numbers of a block to the tile in shared memory, and undoes the zigzag coding. Called
// by a warp. Strings in the frame may have the numbers in column order, in a box with rows of
// `stride` numbers; otherwise `stride` is 1.
template <typename Place, Strings kStrings>
__device__ __forceinline__ Outcome decode_strings(const unsigned char* from, const HuffPlan& plan, u32 m, u32 stride, const HuffTables& tables, unsigned char* to) {
    using W = typename Place::Word;
    constexpr bool kCopied = kStrings == Strings::kInTile;
    const Runs runs(lane_id(), m);
    const unsigned char* const empty = from + kHuffHeader;
    const StringPlace<Place> place(plan.lane, plan.end, runs, to);
    BitReader reader(kCopied ? place.to - place.first_word : reinterpret_cast<const u32*>(from), plan.lane, plan.end);
    // The two preceding symbols, each minus the pivot.
    const s32 pivot = static_cast<s32>(plan.pivot);
    s32 one = 0, two = 0;
    s32 slack = 0;  // minimum of 0 and the bytes from the written numbers to the unread words
    u32 least = ~0u;  // least entry so far
    // Position of the next number in the box, for strings in the frame.
    u32 place_in_box = kCopied ? 0 : runs.first * kRow / (m / stride) + runs.first * kRow % (m / stride) * stride;
    const auto next_place = [&]() {
        const u32 own = place_in_box;
        place_in_box += stride;
        if (place_in_box >= m) place_in_box -= m - 1;
        return reinterpret_cast<W*>(to + Place::number(own));
    };
    for (u32 run = runs.first;; ++run) {
        for (; plan.flag && run < runs.last && empty[run / 8] >> run % 8 & 1; ++run) {
            one = two = -pivot;
            const u32 count = kCopied ? kRow : min(m - run * kRow, kRow);
            for (u32 i = 0; i < count; ++i) *(kCopied ? reinterpret_cast<W*>(to + Place::row(run) + Place::in_row(i)) : next_place()) = 0;
            if (kCopied) slack = min(slack, static_cast<s32>(reinterpret_cast<const unsigned char*>(reader.unread()) - (to + Place::row(run + 1))));
        }
        if (run >= runs.last) break;
        const u32 count = min(m - run * kRow, kRow);
        unsigned char* const row = to + Place::row(run);
#pragma unroll 1
        for (u32 i = 0; i < count; ++i) {
            const u32 context = context_of(one + two);
            const u32 next = reader.peek();
            const u32 entry = tables.entries[context << kMaxCode | (next & ((1u << kMaxCode) - 1))];
            const u32 length = entry & 0xf, n_low = entry >> 4 & 0x3f, is_some = entry >> 10;
            least = min(least, entry);
            two = one;
            one = static_cast<s32>(n_low + is_some) - pivot;
            W r = is_some;
            if (sizeof(W) == 4) {
                r = r << n_low | (__funnelshift_r(next, reader.peek_behind(), length) & ~(~0u << n_low));
                reader.skip(length + n_low);
            } else {
                reader.skip(length);
                const u64 low = static_cast<u64>(reader.peek_behind()) << 32 | reader.peek();
                r = r << n_low | static_cast<W>(low & low_bits(static_cast<u64>(0), n_low));
                reader.skip(n_low);
            }
            W* const number = kCopied ? reinterpret_cast<W*>(row + Place::in_row(i)) : next_place();
            *number = unzigzag(r);
            if (kCopied) slack = min(slack, static_cast<s32>(shared_address(reader.unread()) - shared_address(number + 1)));
        }
    }
    // Words after the string are never read, so it does not matter if numbers overwrite them.
    if (kCopied && __any_sync(kAllLanes, slack < 0)) return kOverwritten;
    return __all_sync(kAllLanes, least > 0 && reader.position() <= plan.end * 8) ? kDecoded : kDamaged;
}
