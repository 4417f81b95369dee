// Strings of Huffman codes, back to numbers: the 32 lanes of one warp decode a string each, in lockstep.
//
// A lane's next ten bits are looked up in the table of its context, which gives the symbol and the length of its
// code. The strings are copied to shared memory first, each to the end of the place where its numbers will be: almost
// always these are longer than what is left of the string, so nothing is written over that is still to be read. Where
// it is, the lane notices, and the strings are read from the frame.

#pragma once

#include "../common/warp.cuh"
#include "groups.cuh"
#include "words.cuh"

constexpr u32 kContexts = 4;
constexpr u32 kMaxCode = 10;  // bits
constexpr u32 kTableEntries = kContexts << kMaxCode;

// A table entry has the code's length in bits 0 to 3, or is 0 if no code begins so; in bits 4 to 9 how many low bits of the
// number follow; in bit 10 whether it is not 0. The last two add up to the symbol.
struct alignas(16) HuffTables {
    unsigned short entries[kTableEntries];
};

// The context of a number, by the sum of the two symbols before it, less twice the pivot: how many of -3, 0 and 2 that is not below.
__device__ __forceinline__ u32 context_of(s32 sum) {
    // A byte for each of -4 to 2.
    return __byte_perm(0x01010100, 0x030202, min(max(sum + 4, 0), 6));
}

// Sections of a block of such strings, in bytes from its first.
struct HuffPlan {
    u32 lo, hi, pivot, flag;
    u32 lengths;    // where the code lengths begin
    u32 lane, end;  // where the lane's string begins and ends
    u32 n_bytes;    // of all
    bool is_sound;

    // By a warp. The payload has `available` bytes from `from`, which is aligned to 4.
    __device__ __forceinline__ HuffPlan(const unsigned char* from, u32 available, u32 m, u32 word_bits)
        : lo(0), hi(0), pivot(0), flag(0), lengths(0), lane(0), end(0), n_bytes(0), is_sound(available >= 4) {
        const u32 n_runs = (m + kRow - 1) / kRow;
        if (!is_sound) return;
        const u32 head = *reinterpret_cast<const u32*>(from);
        lo = head & 0xff, hi = head >> 8 & 0xff, pivot = head >> 16 & 0xff, flag = head >> 24;
        lengths = 4 + (flag ? (n_runs + 7) / 8 : 0);
        const u32 lanes = lengths + 2 * (hi - lo + 1);
        is_sound = lo <= hi && hi <= word_bits && pivot <= word_bits && flag <= 1 && available >= lanes + 2 * kWarp;
        if (!is_sound) return;
        // They may be at odd addresses.
        const unsigned char* const mine = from + lanes + 2 * lane_id();
        const u32 own = mine[0] | mine[1] << 8;
        const u32 through = warp_inclusive_sum(own);
        end = lanes + 2 * kWarp + through;
        lane = end - own;
        n_bytes = __shfl_sync(kAllLanes, end, kWarp - 1);
        is_sound = n_bytes <= available;
    }
};

// Makes the table of one context, by a warp. Is false if codes overlap or are too long.
__device__ __forceinline__ bool make_table(const unsigned char* lengths, const HuffPlan& plan, u32 context, HuffTables& tables) {
    constexpr u32 kRounds = 3;  // up to 65 symbols, one a lane at a time
    constexpr u32 kSize = 1u << kMaxCode, kFewEntries = kWarp / 2, kLongCode = kMaxCode - 4;
    static_assert(kSize >> kLongCode == kFewEntries, "a long code has few entries");
    const u32 n = plan.hi - plan.lo + 1, lane = lane_id();
    unsigned short* const entries = tables.entries + context * kSize;
    for (u32 i = lane; i < kSize * sizeof(*entries) / kUnitBytes; i += kWarp) reinterpret_cast<uint4*>(entries)[i] = make_uint4(0, 0, 0, 0);
    u32 length[kRounds] = {}, code[kRounds] = {};
    u32 next = 0;  // code of the length that is looked at
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
        // Entries of a short code are written by all lanes, those of long ones by a lane each.
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

// A lane's string: three words, the position of the next bit in the first, and the two words behind them, which are
// loaded anew after every number and not looked at before the next.
struct BitReader {
    const u32* const words;  // of all strings
    const u32 last;          // word that has bits of the string; it stands for all behind it
    u32 index;               // of the first of the three
    u32 at;
    u32 own[3], ahead[2];

    // The string is bytes [first, behind) of `words`, maybe none; there is something before it.
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
    // The 32 bits after those.
    __device__ __forceinline__ u32 peek_behind() const { return __funnelshift_r(own[1], own[2], at); }
    // At most 64.
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
    // Where the reader is, in bits.
    __device__ __forceinline__ u32 position() const { return index * 32 + at; }
    // The first word that may be read later: those ahead are loaded again if what is skipped next ends in the same word.
    __device__ __forceinline__ const u32* unread() const { return words + index + 3; }
};

// The runs that a lane decodes.
struct Runs {
    u32 first, last;

    __device__ __forceinline__ Runs(u32 lane, u32 m) {
        const u32 n_runs = (m + kRow - 1) / kRow, per_lane = (n_runs + kWarp - 1) / kWarp;
        first = min(n_runs, lane * per_lane);
        last = min(n_runs, first + per_lane);
    }
};

// Where a lane's string is put: to the end of the place of its runs.
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

// Starts to copy all strings, by all kWarps warps. Is false if they do not fit.
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

// Where the strings are that are decoded: copied to the tile, or in the frame.
enum class Strings : u32 { kInTile, kInFrame };

enum Outcome : u32 { kDecoded, kDamaged, kOverwritten };

// Decodes all numbers of a block and undoes their signs, by a warp, to the tile in shared memory. If they are in the frame, they
// may come by columns of a box with rows of `stride` numbers; else it is 1.
template <typename Place, Strings kStrings>
__device__ __forceinline__ Outcome decode_strings(const unsigned char* from, const HuffPlan& plan, u32 m, u32 stride, const HuffTables& tables, unsigned char* to) {
    using W = typename Place::Word;
    constexpr bool kCopied = kStrings == Strings::kInTile;
    const Runs runs(lane_id(), m);
    const unsigned char* const empty = from + 4;
    const StringPlace<Place> place(plan.lane, plan.end, runs, to);
    BitReader reader(kCopied ? place.to - place.first_word : reinterpret_cast<const u32*>(from), plan.lane, plan.end);
    // Symbols before, less the pivot.
    const s32 pivot = static_cast<s32>(plan.pivot);
    s32 one = 0, two = 0;
    s32 slack = 0;  // between what is written and what is not read yet, where it is below 0
    u32 least = ~0u;  // entry
    // The next number's place, if it is not the one behind the last.
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
    // What is behind the string is not read, whatever is in its place.
    if (kCopied && __any_sync(kAllLanes, slack < 0)) return kOverwritten;
    return __all_sync(kAllLanes, least > 0 && reader.position() <= plan.end * 8) ? kDecoded : kDamaged;
}
