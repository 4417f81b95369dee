// Decodes symbols coded by rANS, each with the table of its context, and tails of their numbers that
// are in the same string. One warp decodes 32 symbols per step, one per lane. The counterpart of
// crates/gridz-codecs/src/stage/entropy/rans.rs, tables.rs and steps.rs.
//
// Each lane has a state. Its low bits are a slot of the context's table. A bucket covers four slots
// and holds the symbol of its first slot. The slot's symbol is this one or the next one, rarely a
// later one. The symbol's slot range determines the next state. If a state has become small, after
// a symbol or after bits of a tail, its lane takes the next word of the string. All lanes share the
// string and take words in lane order, which a ballot finds. The next words are in shared memory,
// and the words after them are in flight to registers.
//
// Decoding is limited by latency, as all steps form one dependency chain. So each step should have
// few instructions, and each warp should use little shared memory, so that many warps are resident.

#pragma once

#include "../common/warp.cuh"
#include "words.cuh"

constexpr u32 kLogSlots = 10, kContextSlots = 1 << kLogSlots;
// Maximum tail bits that are taken from a state at a time; and together with a symbol.
constexpr u32 kMostStepBits = 16, kBitsWithSymbol = kMostStepBits - kLogSlots;
constexpr u32 kMostSymbols = 132;
// Numbers below this are their own symbols. The symbol of a larger number holds its length and
// second bit.
constexpr u32 kOwnSymbols = 8;
constexpr u32 kStateBytes = 4 * kWarp;
constexpr u32 kLowestState = 1 << 16;

// Number of symbols of numbers that fit a word.
template <typename W>
constexpr u32 kWordSymbols = kOwnSymbols + 2 * (8 * sizeof(W) - 3);

// The running sums of the lengths of tails in four rows, one row after the other, through the lane's
// number of each row. Returns the sum of all. Two rows share a word while they are summed.
__device__ __forceinline__ u32 tail_ends(const u32 (&lengths)[4], u32 (&ends)[4]) {
    constexpr u32 kHalf = 16, kLow = (1u << kHalf) - 1;
    u32 before = 0;
#pragma unroll
    for (u32 k = 0; k < 4; k += 2) {
        const u32 both = warp_inclusive_sum(lengths[k] | lengths[k + 1] << kHalf), all = __shfl_sync(kAllLanes, both, kWarp - 1);
        ends[k] = before + (both & kLow), before += all & kLow;
        ends[k + 1] = before + (both >> kHalf), before += all >> kHalf;
    }
    return before;
}

// The tables of kContexts contexts, in shared memory. Symbols from kKnown on are invalid; all of
// them are mapped to kKnown.
template <u32 kContexts, u32 kKnown>
struct RansTables {
    static constexpr u32 kBucketSlots = 4, kBuckets = kContextSlots / kBucketSlots, kSymbols = kKnown, kStarts = kKnown + 3, kWindow = 256;

    // Ring buffer of the string's words around the next one. The struct's address is a multiple of
    // this buffer's size, so an OR replaces an addition in addresses.
    alignas(16) unsigned short window[kWindow];
    // The symbol of the first slot of every bucket of four.
    unsigned char buckets[kContexts][kBuckets];
    // The first slot of each symbol. An absent symbol has that of the next one.
    unsigned short starts[kContexts][kStarts];
    u32 n_bytes;
    u32 is_sound;
    // Bit mask of contexts with a table of their own. Any other context shares the table of the
    // next context in the mask.
    u32 owners;

    // Reads the tables from `available` bytes at any address. Called by all kThreads threads of a
    // CTA; contains barriers.
    template <u32 kThreads>
    __device__ __forceinline__ void read(const unsigned char* from, u32 available) {
        static_assert(kContexts <= 32, "a bit for each");
        for (u32 i = threadIdx.x; i < sizeof(buckets) / 4; i += kThreads) reinterpret_cast<u32*>(buckets)[i] = 0;
        for (u32 i = threadIdx.x; i < kContexts * kStarts; i += kThreads) reinterpret_cast<unsigned short*>(starts)[i] = 0;
        __syncthreads();
        if (threadIdx.x == 0) read_frequencies(from, available);
        __syncthreads();
        const u32 warp = threadIdx.x / kWarp, n_warps = kThreads / kWarp;
        if (is_sound) {
            for (u32 context = warp; context < kContexts; context += n_warps) {
                if (owners >> context & 1) fill(context);
            }
        }
        __syncthreads();
        if (is_sound) {
            for (u32 context = warp; context < kContexts; context += n_warps) {
                if (!(owners >> context & 1)) share(context, context + __ffs(owners >> context) - 1);
            }
        }
        __syncthreads();
    }

    struct Bits {
        const unsigned char* from;
        u32 available, at;
        // Takes up to 16 bits. Zeros follow the end.
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
    // Reads the frequencies of symbols into `starts`, where fill() replaces them by first slots.
    // Called by one thread.
    __device__ __forceinline__ void read_frequencies(const unsigned char* from, u32 available) {
        constexpr u32 kLengthBits = 4, kKept = 3;
        Bits bits{from, available, 0};
        u32 own = 0;
        bool sound = true;
#pragma unroll 1
        for (u32 context = 0; context < kContexts && sound; ++context) {
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
                add(context, symbol, frequency);
                others += frequency;
            }
            sound &= others < kContextSlots;
            if (sound) add(context, rest, kContextSlots - others);
        }
        owners = own;
        n_bytes = (bits.at + 7) / 8;
        is_sound = sound && own >> (kContexts - 1) && n_bytes <= available;
    }
    __device__ __forceinline__ void add(u32 context, u32 symbol, u32 frequency) {
        starts[context][min(symbol, kKnown)] += static_cast<unsigned short>(frequency);
    }
    // Computes first slots and buckets from the frequencies of a context's symbols. Called by a
    // warp.
    __device__ __forceinline__ void fill(u32 context) {
        const u32 lane = lane_id();
        unsigned short* const own = starts[context];
        u32 before = 0;
#pragma unroll 1
        for (u32 first = 0; first < kStarts; first += kWarp) {
            const u32 symbol = first + lane, frequency = symbol <= kKnown ? own[symbol] : 0;
            const u32 through = warp_inclusive_sum(frequency), start = before + through - frequency;
            // In a context without symbols, all slots are past the last symbol.
            if (symbol < kStarts) own[symbol] = static_cast<unsigned short>(symbol < kStarts - 1 ? start : 0xffff);
            const u32 bucket = (start + kBucketSlots - 1) / kBucketSlots;
            if (bucket * kBucketSlots < start + frequency && bucket < kBuckets) buckets[context][bucket] = static_cast<unsigned char>(symbol);
            before += __shfl_sync(kAllLanes, through, kWarp - 1);
        }
        __syncwarp();
        // Symbols ascend with their slots, so a running maximum fills the gaps.
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
    // Copies the table of `owner` to a context. Called by a warp.
    __device__ __forceinline__ void share(u32 context, u32 owner) {
        for (u32 i = lane_id(); i < kStarts; i += kWarp) starts[context][i] = starts[owner][i];
        for (u32 i = lane_id(); i < kBuckets / 4; i += kWarp) reinterpret_cast<u32*>(buckets[context])[i] = reinterpret_cast<const u32*>(buckets[owner])[i];
    }
};

// Decodes the symbols. Used by a warp. The first kNone symbols stand for elements without a number;
// the symbols of numbers follow.
template <typename W, typename Tables, u32 kNone>
struct RansReader {
    static constexpr u32 kPart = 4 * kWarp, kWindow = sizeof(Tables::window);      // bytes

    const u32 buckets, starts, window;  // addresses in shared memory
    const u32 below;                    // mask of the lanes before this one
    const u32* const string;            // aligned; the string begins at bit `shift`
    const u32 shift, n_words;
    u32 state;
    u32 low, high, next;    // words in flight; index of the next ones
    u32 n_taken, n_loaded;  // bytes of the string taken, and loaded into the window
    u32 greatest;           // greatest symbol so far

    // States and string begin at `from`, where `available` bytes are readable; they end at a
    // multiple of 4.
    __device__ __forceinline__ RansReader(Tables& tables, const unsigned char* from, u32 available)
        : buckets(shared_address(tables.buckets)), starts(shared_address(tables.starts)), window(shared_address(tables.window)), below(lanes_below()),
          string(reinterpret_cast<const u32*>(reinterpret_cast<u64>(from) & ~u64{3})), shift(static_cast<u32>(reinterpret_cast<u64>(from)) % 4 * 8),
          n_words((available + shift / 8) / 4), next(lane_id()), n_taken(0), n_loaded(0), greatest(0) {
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
    // Stores the words in flight into their part of the window.
    __device__ __forceinline__ void load() {
        store_shared_4(window | (n_loaded + 4 * lane_id()) % kWindow, loaded());
        n_loaded += kPart;
        fetch_next();
        __syncwarp();
    }
    // Ensures that the window holds more words than a step takes.
    __device__ __forceinline__ void keep_loaded() {
        if (unlikely(n_taken + 2 * kPart > n_loaded)) load();
    }

    // Gives the next words of the string to the lanes with small states, one to each.
    __device__ __forceinline__ void refill() {
        const bool is_low = state < kLowestState;
        const u32 taking = __ballot_sync(kAllLanes, is_low), at = n_taken + 2 * __popc(taking & below);
        const u32 word = load_shared_2(window | at % kWindow);
        if (is_low) state = state << 16 | word;
        n_taken += 2 * __popc(taking);
    }

    // Finds the symbols of the states in a context, and takes them from the states of lanes that
    // take part; kAll: all do. Callers refill().
    template <bool kAll>
    __device__ __forceinline__ u32 take(u32 context, bool takes_part) {
        const u32 slot = state % kContextSlots, context_starts = starts + context * (2 * Tables::kStarts);
        u32 symbol = load_shared_1(buckets + slot / Tables::kBucketSlots + context * Tables::kBuckets);
        u32 at = context_starts + 2 * symbol, start = load_shared_2(at), end = load_shared_2(at + 2);
        // Loaded unconditionally: among 32 lanes, one nearly always needs it.
        const u32 second = load_shared_2(at + 4);
        if (slot >= end) ++symbol, at += 2, start = end, end = second;
        while (unlikely(__any_sync(kAllLanes, slot >= end))) {
            if (slot >= end) ++symbol, at += 2, start = end, end = load_shared_2(at + 2);
        }
        if (kAll || takes_part) {
            state = (end - start) * (state >> kLogSlots) + (slot - start);
            greatest = max(greatest, symbol);
        }
        return symbol;
    }
    // Decodes the next symbol of each lane, as take() does.
    template <bool kAll>
    __device__ __forceinline__ u32 symbol(u32 context, bool takes_part) {
        const u32 symbol = take<kAll>(context, takes_part);
        refill();
        keep_loaded();
        return symbol;
    }

    // Decodes the next symbol of each lane, as take() does, and the tail that the states hold after
    // it. Returns the symbol's number.
    template <bool kAll>
    __device__ __forceinline__ W number(u32 context, bool takes_part, u32& symbol) {
        symbol = take<kAll>(context, takes_part);
        const bool is_long = symbol >= kOwnSymbols + kNone && (kAll || takes_part);
        // Limits the tails of invalid symbols, which n_bytes() reports as damage.
        constexpr u32 kLongest = 8 * sizeof(W) - 2;
        const u32 of_number = max(symbol, kNone) - kNone;
        const u32 length = is_long ? min(of_number / 2 + 2 - kOwnSymbols / 2, kLongest) : 0, n_bits = min(length, kBitsWithSymbol);
        W number = static_cast<W>(is_long ? of_number & 1 | 2 : kAll || takes_part ? of_number : 0) << length;
        number |= state & ((1u << n_bits) - 1);
        state >>= n_bits;
#pragma unroll 1
        for (u32 done = kBitsWithSymbol;; done += kMostStepBits) {
            refill();
            keep_loaded();
            if (likely(!__any_sync(kAllLanes, length > done))) break;
            const u32 n_bits = min(length - min(length, done), kMostStepBits);
            number |= static_cast<W>(state & ((1u << n_bits) - 1)) << done;
            state >>= n_bits;
        }
        return number;
    }

    // Returns the bytes of states and string in all lanes, or 0 if a symbol was invalid or the
    // final states are not those with which an encoder starts.
    __device__ __forceinline__ u32 n_bytes() const {
        const bool is_damaged = greatest >= Tables::kSymbols || state != kLowestState;
        return __any_sync(kAllLanes, is_damaged) ? 0 : kStateBytes + n_taken;
    }
};
