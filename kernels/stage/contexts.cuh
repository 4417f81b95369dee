// Numbers of a block by rANS, each in a context of numbers before it, back to numbers: by one warp, 32 numbers a step, one a lane. The
// twin of src/stage/entropy/contexts.rs, which says how contexts are made.
//
// A lane has a state. Its low bits are a slot of the context's table: of four slots together it is known which symbol the first one has; that,
// the one behind, or rarely one behind that it is. Where the symbol's slots begin and end tells what becomes of the state. Lanes whose states have
// become small, when the first bits of the tail are taken, too, take words of the string, which all share, in their order: a ballot says which. The
// next words are in shared memory, and those behind on their way to registers.
//
// A step waits for the one before, each instruction for the one before. So what counts is how few there are, and how many warps do this side
// by side: how little shared memory each needs.
//
// In blocks of rows of 32, and in lines, what is near a number is in registers, but for the plane before.

#pragma once

#include "../common/warp.cuh"
#include "boxes.cuh"
#include "unpack.cuh"
#include "words.cuh"

constexpr u32 kNumberContexts = 12;
constexpr u32 kLogSlots = 10, kContextSlots = 1 << kLogSlots;
constexpr u32 kMostSymbols = 132;
constexpr u32 kOwnSymbols = 8;       // of the smallest numbers; all others have symbols for their length and second bit
constexpr u32 kFarthest = 1 << 12;   // nothing is near that is farther away
constexpr u32 kLargestSize = 255;
constexpr u32 kStateBytes = 4 * kWarp;
constexpr u32 kLowestState = 1 << 16;

// In shared memory.
struct ContextTables {
    static constexpr u32 kBucketSlots = 4, kBuckets = kContextSlots / kBucketSlots, kStarts = kMostSymbols + 2, kWindow = 256;

    // Words of the string, around the next one. The struct is at a multiple of their length, in bytes, so that a place needs no addition.
    alignas(16) unsigned short window[kWindow];
    // The symbol of the first slot of every four.
    unsigned char buckets[kNumberContexts][kBuckets];
    // Half of each number, rounded up: those of the last 4096.
    unsigned char sizes[kFarthest];
    // The first slot of each symbol; of no symbol that of the one behind.
    unsigned short starts[kNumberContexts][kStarts];
    u32 n_bytes;
    u32 is_sound;
    u32 owners;  // a bit for each context that has a table of its own; others have that of the next one that has

    // Reads the tables from the start of `available` bytes, at any address. By all kThreads threads of a CTA; barriers.
    template <u32 kThreads>
    __device__ __forceinline__ void read(const unsigned char* from, u32 available) {
        static_assert(sizeof(buckets) % 4 == 0 && kFarthest >= 2 * kNumberContexts * kMostSymbols, "room for frequencies");
        clear<kThreads>(buckets, sizeof(buckets));
        clear<kThreads>(sizes, sizeof(sizes));
        __syncthreads();
        if (threadIdx.x == 0) read_frequencies(from, available);
        __syncthreads();
        if (is_sound) {
            for (u32 context = threadIdx.x / kWarp; context < kNumberContexts; context += kThreads / kWarp) fill(context);
        }
        __syncthreads();
        clear<kThreads>(sizes, sizeof(sizes));
        __syncthreads();
    }
    template <u32 kThreads>
    static __device__ __forceinline__ void clear(void* memory, u32 n_bytes) {
        for (u32 i = threadIdx.x; i < n_bytes / 4; i += kThreads) static_cast<u32*>(memory)[i] = 0;
    }

    struct Bits {
        const unsigned char* from;
        u32 available, at;
        // Up to 16 bits; behind the end are zeros.
        __device__ __forceinline__ u32 take(u32 n) {
            const u32 byte = at / 8;
            u32 word = 0;
#pragma unroll
            for (u32 i = 0; i < 3; ++i) word |= byte + i < available ? from[byte + i] << 8 * i : 0;
            word = word >> at % 8 & low_bits(0u, n);
            at += n;
            return word;
        }
    };
    // The frequencies of a context's symbols, in place of sizes.
    __device__ __forceinline__ unsigned short* frequencies(u32 context) { return reinterpret_cast<unsigned short*>(sizes) + context * kMostSymbols; }
    // By one thread.
    __device__ __forceinline__ void read_frequencies(const unsigned char* from, u32 available) {
        constexpr u32 kLengthBits = 4, kKept = 3;
        Bits bits{from, available, 0};
        u32 own = 0;
        bool sound = true;
#pragma unroll 1
        for (u32 context = 0; context < kNumberContexts && sound; ++context) {
            if (bits.take(1)) continue;
            own |= 1u << context;
            const u32 n = bits.take(8), rest = n ? bits.take(8) : 0;
            if (n == 0) continue;
            sound = n <= kMostSymbols && rest < n;
            u32 others = 0;
#pragma unroll 1
            for (u32 symbol = 0; symbol < n && sound; ++symbol) {
                if (symbol == rest) continue;
                const u32 length = bits.take(kLengthBits);
                if (length == 0) continue;
                const u32 kept = min(length - 1, kKept), frequency = (1u << kept | bits.take(kept)) << (length - 1 - kept);
                sound = length <= kLogSlots;
                frequencies(context)[symbol] = static_cast<unsigned short>(frequency);
                others += frequency;
            }
            sound &= others < kContextSlots;
            if (sound) frequencies(context)[rest] = static_cast<unsigned short>(kContextSlots - others);
        }
        owners = own;
        n_bytes = (bits.at + 7) / 8;
        is_sound = sound && own >> (kNumberContexts - 1) && n_bytes <= available;
    }
    // Makes first slots and buckets of the frequencies of a context's symbols. By a warp.
    __device__ __forceinline__ void fill(u32 context) {
        const u32 lane = lane_id();
        const unsigned short* const own = frequencies(context + __ffs(owners >> context) - 1);
        u32 before = 0;
#pragma unroll 1
        for (u32 first = 0; first < kStarts; first += kWarp) {
            const u32 symbol = first + lane, frequency = symbol < kMostSymbols ? own[symbol] : 0;
            const u32 through = warp_inclusive_sum(frequency), start = before + through - frequency;
            // Where a context has no symbols, all slots are behind the last one.
            if (symbol < kStarts) starts[context][symbol] = static_cast<unsigned short>(symbol < kStarts - 1 ? start : 0xffff);
            const u32 bucket = (start + kBucketSlots - 1) / kBucketSlots;
            if (bucket * kBucketSlots < start + frequency && bucket < kBuckets) buckets[context][bucket] = static_cast<unsigned char>(symbol);
            before += __shfl_sync(kAllLanes, through, kWarp - 1);
        }
        __syncwarp();
        // Symbols ascend with their slots.
        static_assert(kBuckets == 8 * kWarp, "a lane has two words");
        u32* const words = reinterpret_cast<u32*>(buckets[context]) + 2 * lane;
        u32 filled[2] = {}, last = 0;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            last = max(last, words[i / 4] >> i % 4 * 8 & 0xff);
            filled[i / 4] |= last << i % 4 * 8;
        }
        u32 through = last;
#pragma unroll
        for (u32 step = 1; step < kWarp; step *= 2) {
            const u32 other = __shfl_up_sync(kAllLanes, through, step);
            if (lane >= step) through = max(through, other);
        }
        const u32 from_before = __shfl_up_sync(kAllLanes, through, 1), four = (lane > 0 ? from_before : 0) * 0x01010101u;
        words[0] = __vmaxu4(filled[0], four), words[1] = __vmaxu4(filled[1], four);
    }
};

// Which numbers are near another one in a box: their distances from it, of those that there are several times but once.
struct Near {
    u32 up, beside, plane, below;  // no plane: 0
    bool is_row;                   // rows are seen as ones of 32

    __device__ __forceinline__ explicit Near(const Box& box) {
        const u32 row = box.sz * box.sy == 1 || box.sx > kFarthest / 2 ? kRow : box.sx;
        up = row * ((kRow + row - 1) / row);
        beside = up - 1 >= kRow ? up - 1 : up;
        plane = box.sy * box.sx;
        if (box.sz == 1 || plane < kRow || plane > kFarthest) plane = 0;
        below = plane - min(plane, up) >= kRow ? plane - up : plane;
        is_row = row == kRow;
    }
};

// Reads the numbers, by a warp.
template <typename W>
struct ContextReader {
    // Symbols of numbers that have no more bits than a word.
    static constexpr u32 kWordSymbols = kOwnSymbols + 2 * (8 * sizeof(W) - 3);
    static constexpr u32 kMostBits = 16, kBitsWithSymbol = kMostBits - kLogSlots;  // of a step
    static constexpr u32 kPart = 4 * kWarp, kWindow = sizeof(ContextTables::window);  // bytes
    // Rows after which others are told.
    static constexpr u32 kToldRows = 64;

    const u32 buckets, starts, sizes, window;  // addresses in shared memory
    const u32 below;                           // lanes before this one
    const u32* const string;                   // words of memory, which the string's are shifted against
    const u32 shift, n_words;
    u32 state;
    u32 low, high, next;      // words of memory that are on their way, and which come then
    u32 n_taken, n_loaded;    // bytes of the string that are taken, and that are in the window
    u32 greatest;             // of all symbols

    // States and string begin at `from`, behind which there are `available` bytes, up to an address that is a multiple of 4.
    __device__ __forceinline__ ContextReader(ContextTables& tables, const unsigned char* from, u32 available)
        : buckets(shared_address(tables.buckets)), starts(shared_address(tables.starts)), sizes(shared_address(tables.sizes)),
          window(shared_address(tables.window)), below(lanes_below()), string(reinterpret_cast<const u32*>(reinterpret_cast<u64>(from) & ~u64{3})),
          shift(static_cast<u32>(reinterpret_cast<u64>(from)) % 4 * 8), n_words((available + shift / 8) / 4), next(lane_id()), n_taken(0), n_loaded(0),
          greatest(0) {
        fetch_next();
        state = loaded();
        fetch_next();
        load(), load(), load();
        if (available < kStateBytes || state < kLowestState) greatest = ~0u;
    }
    __device__ __forceinline__ void fetch_next() {
        low = next < n_words ? string[next] : 0, high = next + 1 < n_words ? string[next + 1] : 0;
        next += kWarp;
    }
    __device__ __forceinline__ u32 loaded() const { return __funnelshift_r(low, high, shift); }
    // Puts the words that were on their way, a part of the window, into it.
    __device__ __forceinline__ void load() {
        store_shared_4(window | (n_loaded + 4 * lane_id()) % kWindow, loaded());
        n_loaded += kPart;
        fetch_next();
        __syncwarp();
    }
    // There are always more words than a step takes.
    __device__ __forceinline__ void keep_loaded() {
        if (unlikely(n_taken + 2 * kPart > n_loaded)) load();
    }

    // Gives the next words to the lanes whose states are small: at most 32 in all.
    __device__ __forceinline__ void refill() {
        const bool is_low = state < kLowestState;
        const u32 taking = __ballot_sync(kAllLanes, is_low), at = n_taken + 2 * __popc(taking & below);
        const u32 word = load_shared_2(window | at % kWindow);
        if (is_low) state = state << 16 | word;
        n_taken += 2 * __popc(taking);
    }

    // The next number of each lane, or of those that take part, in the context of sizes that add up to `sum`.
    template <bool kAll>
    __device__ __forceinline__ W number(u32 sum, bool takes_part) {
        const u32 context = bit_length(sum), slot = state % kContextSlots;
        const u32 context_starts = starts + context * (2 * ContextTables::kStarts);
        u32 symbol = load_shared_1(buckets + slot / ContextTables::kBucketSlots + context * ContextTables::kBuckets);
        u32 at = context_starts + 2 * symbol, start = load_shared_2(at), end = load_shared_2(at + 2);
        // Of 32 lanes, one is nearly always there.
        const u32 second = load_shared_2(at + 4);
        if (slot >= end) ++symbol, at += 2, start = end, end = second;
        while (unlikely(__any_sync(kAllLanes, slot >= end))) {
            if (slot >= end) ++symbol, at += 2, start = end, end = load_shared_2(at + 2);
        }
        const bool is_long = symbol >= kOwnSymbols && (kAll || takes_part);
        // Symbols of numbers with more bits are found at the end.
        constexpr u32 kLongest = 8 * sizeof(W) - 2;
        const u32 length = is_long ? min(symbol / 2 + 2 - kOwnSymbols / 2, kLongest) : 0, n_bits = min(length, kBitsWithSymbol);
        W number = static_cast<W>(is_long ? symbol & 1 | 2 : kAll || takes_part ? symbol : 0) << length;
        if (kAll || takes_part) {
            state = (end - start) * (state >> kLogSlots) + (slot - start);
            greatest = max(greatest, symbol);
        }
        number |= state & ((1u << n_bits) - 1);
        state >>= n_bits;
#pragma unroll 1
        for (u32 done = kBitsWithSymbol;; done += kMostBits) {
            refill();
            keep_loaded();
            if (likely(!__any_sync(kAllLanes, length > done))) break;
            const u32 n_bits = min(length - min(length, done), kMostBits);
            number |= static_cast<W>(state & ((1u << n_bits) - 1)) << done;
            state >>= n_bits;
        }
        return number;
    }
    static __device__ __forceinline__ u32 size_of_number(W number) {
        return static_cast<u32>(min(static_cast<W>((number >> 1) + (number & 1)), static_cast<W>(kLargestSize)));
    }

    // Calls `take(i, number)` for all numbers i of a box, and `told()` after every kToldRows rows, and behind the last one.
    template <typename F, typename Told>
    __device__ __forceinline__ void read(const Box& box, F take, Told told) {
        const Near near(box);
        const u32 m = box.m;
        if (!near.is_row) {
            read_any(near, m, take, told);
        } else if (near.plane) {
            read_rows<true>(near, m, take, told);
        } else {
            read_rows<false>(near, m, take, told);
        }
    }

    template <bool kValue>
    struct Bool {
        static constexpr bool value = kValue;
    };
    // Where what is near is in rows of 32.
    template <bool kPlane, typename F, typename Told>
    __device__ __forceinline__ void read_rows(const Near& near, u32 m, F take, Told told) {
        const u32 lane = lane_id(), lane_before = (lane + kRow - 1) % kRow;
        const bool is_last = lane == kRow - 1, is_below = near.below != near.plane;
        // Sizes one and two rows before, and in the plane before; and the place of those in the plane's next row.
        u32 one = 0, two = 0, plane = 0, at = 0 - near.below + lane;
        const auto step = [&](auto all, u32 i) {
            const u32 before = __shfl_sync(kAllLanes, is_last ? two : one, lane_before);
            u32 sum;
            if (kPlane) {
                const u32 next = load_shared_1(sizes + at % kFarthest);
                sum = 3 * one + two + 2 * (is_below ? plane : next) + next + before;
                plane = next;
            } else {
                sum = 5 * one + two + 2 * before;
            }
            const W number = this->number<decltype(all)::value>(sum, i < m);
            two = one, one = size_of_number(number);
            // All have read what is replaced, as they have voted since.
            if (kPlane) store_shared_1(sizes + i % kFarthest, one);
            if (decltype(all)::value || i < m) take(i, number);
        };
        const u32 n_whole = m / kRow;
        u32 i = lane;
#pragma unroll 1
        for (u32 row = 0; row < n_whole;) {
            const u32 end = min(row + kToldRows, n_whole);
#pragma unroll 1
            for (; row < end; ++row, i += kRow, at += kRow) step(Bool<true>(), i);
            told();
        }
        if (n_whole * kRow < m) step(Bool<false>(), i);
    }

    // Where it is anywhere.
    template <typename F, typename Told>
    __device__ __forceinline__ void read_any(const Near& near, u32 m, F take, Told told) {
#pragma unroll 1
        for (u32 i = lane_id(); i - lane_id() < m; i += kRow) {
            const auto size = [&](u32 distance) { return load_shared_1(sizes + (i - distance) % kFarthest); };
            const u32 up = size(near.up), behind = size(near.up + 1), beside = size(near.beside), two = size(2 * near.up);
            const u32 sum = near.plane ? 2 * up + behind + beside + two + 2 * size(near.plane) + size(near.below) : 3 * up + 2 * behind + 2 * beside + two;
            const W number = this->number<false>(sum, i < m);
            store_shared_1(sizes + i % kFarthest, size_of_number(number));
            __syncwarp();
            if (i < m) take(i, number);
        }
    }

    // How many bytes states and string have, if they end as an encoder begins; else 0. In all lanes.
    __device__ __forceinline__ u32 n_bytes() const {
        const bool is_damaged = greatest >= kWordSymbols || state != kLowestState;
        return __any_sync(kAllLanes, is_damaged) ? 0 : kStateBytes + n_taken;
    }
};
