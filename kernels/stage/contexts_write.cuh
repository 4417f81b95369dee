// Encodes the numbers of a block for rans.cuh: builds the tables of their contexts, and writes the
// string and, if they are apart from it, the tails. The counterpart of tables.rs, frequencies.rs,
// steps.rs and contexts/ in crates/gridz-codecs/src/stage/entropy/, which define the rules.

#pragma once

#include "pack.cuh"
#include "rans.cuh"

// Parameters of a coding: word type, number of contexts, and kNone. The first kNone symbols stand
// for elements without a number; the symbols of numbers follow. kTailsApart: the tails are not in the
// string.
template <typename W, u32 kContextsOfAll, u32 kNoneOfAll, bool kTailsApartOfAll>
struct Coding {
    using Word = W;
    static constexpr bool kTailsApart = kTailsApartOfAll;
    static constexpr u32 kContexts = kContextsOfAll, kNone = kNoneOfAll, kSymbols = kNone + kWordSymbols<W>, kKeys = kContexts * kSymbols;
};

__device__ __forceinline__ float cut_to_float(u32 number) { return __uint2float_rz(number); }
__device__ __forceinline__ float cut_to_float(u64 number) { return __ull2float_rz(number); }
// The symbol of a number holds its length and second bit; the remaining low bits are its tail. If
// the number is converted to a float, the exponent and the highest mantissa bit are adjacent and
// contain exactly these. Numbers below 8 are their own symbols; the value from the float is never
// smaller than these.
template <typename W>
__device__ __forceinline__ u32 symbol_of(W number) {
    static_assert(kOwnSymbols == 8, "from 8 on a symbol is twice the length plus the second bit");
    constexpr u32 kSecondBitAt = 22, kOfLength = 2 * 126;
    return static_cast<u32>(min(number, static_cast<W>((__float_as_uint(cut_to_float(number)) >> kSecondBitAt) - kOfLength)));
}
// Number of tail bits of a symbol's numbers.
__device__ __forceinline__ u32 tail_bits(u32 symbol) { return symbol >= kOwnSymbols ? (symbol - kOwnSymbols) / 2 + 2 : 0; }

// A number in 16 bits: its key, kSymbols · context + symbol; above the key, as many of the number's
// lowest bits as fit. They hold most tails completely. Callers ignore bits above 16.
template <typename Coding>
struct ContextEntry {
    using W = typename Coding::Word;
    static constexpr u32 kSymbols = Coding::kSymbols, kKeyBits = Coding::kKeys <= 1 << 10 ? 10 : Coding::kKeys < 1 << 11 ? 11 : 12, kBits = 16 - kKeyBits;
    static_assert(Coding::kKeys <= 1 << kKeyBits && kBits <= kBitsWithSymbol, "half a word has room for it");

    // of() gives a number's entry in context 1. in_context_of() then adds the position of the sum's
    // highest bit to the context.
    static __device__ __forceinline__ u32 of(W number) { return (static_cast<u32>(number) << kKeyBits) + (symbol_of(number) + kSymbols); }
    static __device__ __forceinline__ u32 in_context_of(u32 sum, u32 entry) { return entry + (bit_length(sum) - 1) * kSymbols; }
    static __device__ __forceinline__ u32 key(u32 entry) { return entry & ((1u << kKeyBits) - 1); }
    static __device__ __forceinline__ u32 tail(u32 entry) { return entry >> kKeyBits; }
    // True if the tail does not fit into the entry.
    static __device__ __forceinline__ bool is_long(W number) { return number >> (kBits + 2) != 0; }
    // The entry of a number whose key is known; cuts the number to the available bits.
    static __device__ __forceinline__ u32 with_key(W number, u32 key) { return (static_cast<u32>(number) << kKeyBits | key) & 0xffff; }
    // The entry of a lane without a number.
    static constexpr u32 kNothing = (1u << kKeyBits) - 1;
};

// Builds the tables of the contexts with a CTA of kThreads threads.
template <typename Coding, u32 kThreads>
struct ContextTablesMaker {
    static constexpr u32 kContexts = Coding::kContexts, kSymbols = Coding::kSymbols;
    static constexpr u32 kPer = (kSymbols + kWarp - 1) / kWarp, kMaxWords = (kContexts * (17 + 7 * kSymbols) + 31) / 32 + 2;

    // State in shared memory.
    struct State {
        u32 counts[kContexts * kSymbols];  // indexed by key
        unsigned short frequencies[kContexts][kSymbols];
        u32 rests[kContexts], bits[kContexts];
        u32 owners, n_bits;     // bit mask of contexts with a table of their own; bits of all tables
        u32 n_tail_bits;        // bits of all tails
        u32 words[kMaxWords];   // the bits of the tables
    };
    State& state;

    // Called by all threads; a barrier must follow.
    __device__ __forceinline__ void clear() const {
        for (u32 i = threadIdx.x; i < kContexts * kSymbols; i += kThreads) state.counts[i] = 0;
        for (u32 i = threadIdx.x; i < kMaxWords; i += kThreads) state.words[i] = 0;
        if (threadIdx.x == 0) state.n_tail_bits = 0;
    }
    // Counts a key: kSymbols · context + symbol.
    __device__ __forceinline__ void count(u32 key) const { atomicAdd(&state.counts[key], 1u); }

    // A lane's part of a table: the frequencies of symbols lane, lane + 32, …
    struct Table {
        u32 of[kPer];
        u32 rest;  // the symbol that gets the remaining slots
        u32 bits;  // approximate bits of the table and of its symbols in the string
    };
    // Returns the largest value over all lanes. `symbol`: the first symbol that has it.
    static __device__ __forceinline__ u32 first_largest(const u32 (&n)[kPer], u32& symbol) {
        u32 best = 0;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) best = max(best, n[k] << 8 | (255 - (k * kWarp + lane_id())));
        best = warp_max_unsigned(best);
        symbol = 255 - (best & 0xff);
        return best >> 8;
    }
    // Keeps the four most significant bits.
    static __device__ __forceinline__ u32 cut(u32 frequency) {
        const u32 below = max(bit_length(frequency), 4u) - 4;
        return frequency >> below << below;
    }
    // Builds the table of a context from its counts `n`. Called by a warp.
    static __device__ __forceinline__ Table make(const u32 (&n)[kPer]) {
        constexpr u64 kLog2_256ths = 0xe8cfb39676522c00ull;  // log2(1 + i/8) in units of 1/256, one byte each
        Table table;
        u32 own = 0;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) own += n[k];
        const u32 total = warp_sum(own);
        table.rest = 0, table.bits = 16;
        if (total == 0) {
#pragma unroll
            for (u32 k = 0; k < kPer; ++k) table.of[k] = 0;
            return table;
        }
        first_largest(n, table.rest);
        u32 own_others = 0;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) {
            const bool is_rest = k * kWarp + lane_id() == table.rest;
            table.of[k] = n[k] > 0 && !is_rest ? cut(max((n[k] << kLogSlots) / total, 1u)) : 0;
            own_others += table.of[k];
        }
        u32 others = warp_sum(own_others);
        while (others >= kContextSlots) {
            u32 symbol;
            const u32 largest = first_largest(table.of, symbol), half = cut(largest / 2);
            others -= largest - half;
#pragma unroll
            for (u32 k = 0; k < kPer; ++k) table.of[k] = k * kWarp + lane_id() == symbol ? half : table.of[k];
        }
        u32 symbols = 0, bits = 0;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) {
            if (k * kWarp + lane_id() == table.rest) table.of[k] = kContextSlots - others;
            if (table.of[k] == 0) continue;
            const u32 length = bit_length(table.of[k]) - 1, below = (table.of[k] << 3 >> length) & 7;
            symbols += n[k] * ((kLogSlots - length) * 256 - static_cast<u32>(kLog2_256ths >> 8 * below & 0xff));
            bits += 4 + min(length, 3u);
        }
        table.bits += warp_sum(bits) + warp_sum(symbols) / 256;
        return table;
    }
    __device__ __forceinline__ void load_counts(u32 context, u32 (&n)[kPer]) const {
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) n[k] = k * kWarp + lane_id() < kSymbols ? state.counts[context * kSymbols + k * kWarp + lane_id()] : 0;
    }
    __device__ __forceinline__ void store(u32 context, const Table& table) const {
        __syncwarp();  // all lanes have read the old table
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) {
            if (k * kWarp + lane_id() < kSymbols) state.frequencies[context][k * kWarp + lane_id()] = static_cast<unsigned short>(table.of[k]);
        }
        if (lane_id() == 0) state.rests[context] = table.rest, state.bits[context] = table.bits;
    }
    __device__ __forceinline__ Table load(u32 context) const {
        Table table;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) table.of[k] = k * kWarp + lane_id() < kSymbols ? state.frequencies[context][k * kWarp + lane_id()] : 0;
        table.rest = state.rests[context], table.bits = state.bits[context];
        return table;
    }

    // Builds the tables from the counts, and from them the ranges of the symbols. Called by all
    // threads; contains barriers.
    __device__ __forceinline__ void run(u32 (&ranges)[kContexts * kSymbols]) const {
        const u32 warp = threadIdx.x / kWarp;
#pragma unroll 1
        for (u32 context = warp; context < kContexts; context += kThreads / kWarp) {
            u32 n[kPer];
            load_counts(context, n);
            if (Coding::kTailsApart) add_tail_bits(n);
            store(context, make(n));
        }
        __syncthreads();
        if (warp == 0) share_tables();
        __syncthreads();
#pragma unroll 1
        for (u32 context = warp; context < kContexts; context += kThreads / kWarp) {
            const u32 bits = put<false>(context, 0);
            if (lane_id() == 0) state.bits[context] = bits;
        }
        __syncthreads();
#pragma unroll 1
        for (u32 context = warp; context < kContexts; context += kThreads / kWarp) {
            const u32 at = warp_sum(lane_id() < context ? state.bits[min(lane_id(), kContexts - 1)] : 0), end = at + put<true>(context, at);
            if (context + 1 == kContexts && lane_id() == 0) state.n_bits = end;
            const unsigned short* const own = state.frequencies[context + __ffs(state.owners >> context) - 1];
            u32 before = 0;
#pragma unroll
            for (u32 k = 0; k < kPer; ++k) {
                const u32 symbol = k * kWarp + lane_id(), frequency = symbol < kSymbols ? own[symbol] : 0, through = warp_inclusive_sum(frequency);
                if (symbol < kSymbols) ranges[context * kSymbols + symbol] = (before + through - frequency) | frequency << 16;
                before += __shfl_sync(kAllLanes, through, kWarp - 1);
            }
        }
        __syncthreads();
    }
    // Adds the bits of the tails of symbols with these counts. Called by a warp.
    __device__ __forceinline__ void add_tail_bits(const u32 (&n)[kPer]) const {
        u32 bits = 0;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) bits += n[k] * tail_bits(max(k * kWarp + lane_id(), Coding::kNone) - Coding::kNone);
        bits = warp_sum(bits);
        if (lane_id() == 0) atomicAdd(&state.n_tail_bits, bits);
    }
    static __device__ __forceinline__ bool has_any(const u32 (&n)[kPer]) {
        u32 any = 0;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) any |= n[k];
        return __any_sync(kAllLanes, any != 0);
    }
    // Merges the tables of adjacent contexts where this takes no more bits. Called by a warp.
    __device__ __forceinline__ void share_tables() const {
        u32 last[kPer], owners = 0;
        load_counts(0, last);
        Table of_last = load(0);
#pragma unroll 1
        for (u32 next = 1; next < kContexts; ++next) {
            u32 own[kPer], both[kPer];
            load_counts(next, own);
#pragma unroll
            for (u32 k = 0; k < kPer; ++k) both[k] = last[k] + own[k];
            const Table of_next = load(next);
            // If one context is empty, the merged table is that of the other context.
            const bool is_empty = !has_any(own), was_empty = !has_any(last);
            const Table together = is_empty ? of_last : was_empty ? of_next : make(both);
            const bool shares = together.bits <= of_last.bits + of_next.bits;
            if (!shares) store(next - 1, of_last), owners |= 1u << (next - 1);
            of_last = shares ? together : of_next;
#pragma unroll
            for (u32 k = 0; k < kPer; ++k) last[k] = shares ? both[k] : own[k];
        }
        store(kContexts - 1, of_last);
        if (lane_id() == 0) state.owners = owners | 1u << (kContexts - 1);
        __syncwarp();
    }
    // Returns the number of bits of a context's table. If kWrites, ORs them into zeroed words, from
    // bit `at` on. Called by a warp.
    template <bool kWrites>
    __device__ __forceinline__ u32 put(u32 context, u32 at) const {
        const u32 words = shared_address(state.words), lane = lane_id(), begin = at;
        const bool is_own = state.owners >> context & 1;
        if (kWrites && !is_own && lane == 0) add_bits(words, at, 1u);
        ++at;
        if (!is_own) return 1;
        const Table table = load(context);
        u32 own_last = 0;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) own_last = table.of[k] > 0 ? k * kWarp + lane + 1 : own_last;
        const u32 n = warp_max_unsigned(own_last);
        if (kWrites && lane == 0) add_bits(words, at, n | table.rest << 8);
        at += n > 0 ? 16 : 8;
#pragma unroll
        for (u32 k = 0; k < kPer; ++k) {
            const u32 symbol = k * kWarp + lane, frequency = table.of[k], length = bit_length(frequency);
            const u32 kept = min(max(length, 1u) - 1, 3u), below = length > 1 ? frequency >> (length - 1 - kept) & low_bits(0u, kept) : 0;
            const u32 n_bits = symbol < n && symbol != table.rest ? 4 + kept : 0, through = kWrites ? warp_inclusive_sum(n_bits) : 0;
            if (kWrites && n_bits > 0) add_bits(words, at + through - n_bits, length | below << 4);
            at += kWrites ? __shfl_sync(kAllLanes, through, kWarp - 1) : warp_sum(n_bits);
        }
        return at - begin;
    }
};

// Writes the string of numbers backwards, from its end to its front. Called by a warp.
template <typename Coding>
struct ContextWriter {
    using W = typename Coding::Word;
    static constexpr u32 kSymbols = Coding::kSymbols;
    // kParts: maximum number of further parts of a tail, beyond the bits taken with the symbol.
    // kRowWords: maximum number of 16-bit words of a row.
    static constexpr u32 kParts = (8 * sizeof(W) - 2 - kBitsWithSymbol + kMostStepBits - 1) / kMostStepBits, kRowWords = kWarp * (1 + kParts);

    // Per key, in shared memory: first slot, frequency and tail bits in one word; then the inverse
    // of the frequency. With many symbols, the inverses are in a separate table, indexed by
    // frequency.
    static constexpr u32 kFrequencyAt = 10, kTailAt = 21;
    static constexpr bool kHasInverses = Coding::kKeys <= 1 << 10;
    static constexpr u32 kWords = kHasInverses ? 2 : 1;
    struct Ranges {
        alignas(8) u32 of[Coding::kKeys * kWords];
        u32 inverses[kHasInverses ? 1 : kContextSlots + 1];

        static __device__ __forceinline__ u32 inverse(u32 frequency) { return 0xffffffffu / max(frequency, 1u); }
        // Returns true if any symbol that occurs has a tail longer than an entry holds.
        __device__ __forceinline__ bool load(const u32 (&ranges)[Coding::kKeys]) {
            bool is_long = false;
            for (u32 i = lane_id(); i < Coding::kKeys; i += kWarp) {
                const u32 range = ranges[i], start = range & 0xffff, frequency = range >> 16, length = Coding::kTailsApart ? 0 : tail_bits(max(i % kSymbols, Coding::kNone) - Coding::kNone);
                of[kWords * i] = start % kContextSlots | frequency << kFrequencyAt | length << kTailAt;
                if (kHasInverses) of[kWords * i + kWords - 1] = inverse(frequency);
                is_long |= frequency > 0 && length > ContextEntry<Coding>::kBits;
            }
            for (u32 i = lane_id(); !kHasInverses && i <= kContextSlots; i += kWarp) inverses[i] = inverse(i);
            return __any_sync(kAllLanes, is_long);
        }
    };

    const u32 ranges, inverses, below;
    unsigned short* const string;
    u32 at;  // index of the first word written
    u32 state = kLowestState;

    __device__ __forceinline__ ContextWriter(const Ranges& ranges, unsigned short* string, u32 end)
        : ranges(shared_address(&ranges.of)), inverses(shared_address(&ranges.inverses)), below(lanes_below()), string(string), at(end) {}

    // Renormalization: moves the low halves of states that are too large to the string. drain()
    // shortens the states, append() stores the halves. States do not depend on the positions of the
    // halves, so several drains may be pending; they are appended in the same order.
    struct Drained {
        u32 state;
        bool is_large;
    };
    __device__ __forceinline__ Drained drain(bool is_large) {
        const Drained drained{state, is_large};
        state = is_large ? state >> 16 : state;
        return drained;
    }
    __device__ __forceinline__ void append(const Drained& drained) {
        const u32 all = __ballot_sync(kAllLanes, drained.is_large);
        at -= __popc(all);
        if (drained.is_large) string[at + __popc(all & below)] = static_cast<unsigned short>(drained.state);
    }
    __device__ __forceinline__ Drained put_bits(u32 bits, u32 n) {
        const Drained drained = drain(state >> 1 >> (31 - n));
        state = state << n | (bits & ((1u << n) - 1));
        return drained;
    }
    __device__ __forceinline__ uint2 range(u32 key) const {
        if (kHasInverses) return load_shared_8(ranges + key * 8);
        const u32 range = load_shared_4(ranges + key * 4);
        return make_uint2(range, load_shared_4(inverses + 4 * (range >> kFrequencyAt & (2 * kContextSlots - 1))));
    }
    // True if a number with this key has a tail longer than an entry holds.
    __device__ __forceinline__ bool has_long_tail(u32 key) const { return load_shared_4(ranges + key * 4 * kWords) >> kTailAt > ContextEntry<Coding>::kBits; }
    // Puts a row of numbers in front of the string. In each number, at least the bits of the tail
    // are valid. Lanes that do not take part pass key 0. kShort: every tail fits into the bits
    // taken with the symbol.
    template <bool kShort>
    __device__ __forceinline__ void put(W number, u32 key, bool takes_part) {
        const uint2 range = this->range(key);
        const u32 length = range.x >> kTailAt, frequency = range.x >> kFrequencyAt & (2 * kContextSlots - 1), start = range.x % kContextSlots;
        if (!kShort) {
#pragma unroll 1
            for (u32 part = kParts; part-- > 0;) {
                const u32 first = kBitsWithSymbol + part * kMostStepBits;
                append(put_bits(static_cast<u32>(number >> first), min(length - min(length, first), kMostStepBits)));
            }
        }
        const u32 n = kShort ? length : min(length, kBitsWithSymbol);
        const Drained drained = drain(takes_part && state >> (32 - kLogSlots - n) >= frequency);
        const u32 with_bits = state << n | (static_cast<u32>(number) & ((1u << n) - 1));
        u32 quotient = __umulhi(with_bits, range.y), rest = with_bits - quotient * frequency;
        if (rest >= frequency) ++quotient, rest -= frequency;
        state = takes_part ? quotient << kLogSlots | (rest + start) : state;
        append(drained);
    }
    // Puts the states in front of the string. Zeros precede them, since readers load whole words.
    static constexpr u32 kZeros = 4;
    __device__ __forceinline__ void finish() {
        at -= kStateBytes / 2;
        if (lane_id() < kZeros) string[at - 1 - lane_id()] = 0;
        string[at + 2 * lane_id()] = static_cast<unsigned short>(state);
        string[at + 2 * lane_id() + 1] = static_cast<unsigned short>(state >> 16);
    }
};

// kStringRowsBytes: upper bound on the bytes of rows written together, plus the states.
// kStringEndBytes: bytes of zeros after the string's end, since readers load whole words.
constexpr u32 kStringRowsBytes = 3072, kStringEndBytes = 8;

// True if a front and the rows written together fit before byte `end_bytes`.
__device__ __forceinline__ bool has_room(u32 front_bytes, u32 end_bytes) { return front_bytes <= end_bytes && end_bytes - front_bytes >= kStringRowsBytes; }

// Places of residuals that have the same indices as their entries.
struct SamePlaces {
    __device__ __forceinline__ u32 operator()(u32 entry) const { return entry; }
};

// Writes the string of entries, 32 per row. Takes a number from `residuals` if the entry does not
// hold its whole tail. Entries are loaded some rows ahead. The dependency chain between rows is
// short, since symbols and tails do not depend on states.
// kHasGaps: entries may be kNothing. Places: maps indices of entries to indices of residuals.
template <typename Coding, bool kHasGaps, typename Places = SamePlaces>
struct StringWriter {
    using W = typename Coding::Word;
    using Entry = ContextEntry<Coding>;
    using Writer = ContextWriter<Coding>;
    // kAhead: rows loaded together. kFetched: rows from a prefetch to the load.
    static constexpr u32 kRow = kWarp, kAhead = 8, kFetched = 4 * kAhead;
    static_assert(2 * (kAhead * Writer::kRowWords + Writer::kZeros) + kStateBytes <= kStringRowsBytes, "there is room");

    const typename Writer::Ranges& ranges;
    const bool may_be_long;
    const unsigned short* const entries;
    const W* const residuals;
    const u32 m;  // number of entries
    unsigned char* const to;  // output: the front, then the string
    const Places places = {};

    static __device__ __forceinline__ u32 place(u32 row) { return row * kRow + lane_id(); }
    static __device__ __forceinline__ bool exists(u32 entry) { return !kHasGaps || Entry::key(entry) != Entry::kNothing; }
    static __device__ __forceinline__ u32 key(u32 entry) { return exists(entry) ? Entry::key(entry) : 0; }
    // The number of an entry; at least all bits of its tail are valid.
    __device__ __forceinline__ W number(const Writer& writer, u32 entry, u32 i) const { return writer.has_long_tail(key(entry)) ? residuals[places(i)] : Entry::tail(entry); }

    // Writes the string so that it ends at byte `end_bytes`. Returns its first byte, or 0 if it
    // does not fit after `front_bytes`. Called by a warp.
    __device__ __forceinline__ u32 write(u32 front_bytes, u32 end_bytes) const {
        Writer writer(ranges, reinterpret_cast<unsigned short*>(to), end_bytes / 2);
        const u32 least = (front_bytes + kStringRowsBytes) / 2;
        u32 end = (m + kRow - 1) / kRow;
        // Writes the last rows one by one, so that whole rows remain, in groups of kAhead.
#pragma unroll 1
        for (; end % kAhead != 0 || end * kRow > m; --end) {
            if (unlikely(writer.at < least)) return 0;
            const u32 i = place(end - 1), entry = i < m ? entries[i] : 0;
            writer.template put<false>(number(writer, entry, i), key(entry), i < m && exists(entry));
        }
        u32 rows[kAhead], next[kAhead];
        // Loads the rows before `end`. Near the front it loads rows that are not used, which saves
        // a branch. Prefetches the rows of later calls.
        const auto load = [&](u32 end) {
            const unsigned short* const from = entries + place(max(end, kAhead) - kAhead);
            prefetch_l2(entries + (max(end, kFetched) - kFetched + lane_id() % kAhead) * kRow);
#pragma unroll
            for (u32 k = 0; k < kAhead; ++k) next[k] = from[(kAhead - 1 - k) * kRow];
        };
        if (end > 0) load(end);
#pragma unroll 1
        for (; end > 0; end -= kAhead) {
            if (unlikely(writer.at < least)) return 0;
#pragma unroll
            for (u32 k = 0; k < kAhead; ++k) rows[k] = next[k];
            load(end - kAhead);
            bool have_long = false;
#pragma unroll
            for (u32 k = 0; may_be_long && k < kAhead; ++k) have_long |= writer.has_long_tail(key(rows[k]));
            if (unlikely(may_be_long && __any_sync(kAllLanes, have_long))) {
                W numbers[kAhead];
#pragma unroll
                for (u32 k = 0; k < kAhead; ++k) numbers[k] = number(writer, rows[k], place(end - 1 - k));
#pragma unroll 1
                for (u32 k = 0; k < kAhead; ++k) {
                    writer.template put<false>(numbers[0], key(rows[0]), exists(rows[0]));
#pragma unroll
                    for (u32 i = 1; i < kAhead; ++i) numbers[i - 1] = numbers[i], rows[i - 1] = rows[i];
                }
            } else {
#pragma unroll
                for (u32 k = 0; k < kAhead; ++k) writer.template put<true>(Entry::tail(rows[k]), key(rows[k]), exists(rows[k]));
            }
        }
        writer.finish();
        if (lane_id() < kStringEndBytes / 4) reinterpret_cast<u32*>(to + end_bytes)[lane_id()] = 0;
        return 2 * writer.at;
    }
};

// Writes the tails of numbers as a bit string. Used by a warp.
template <typename Coding, typename Places = SamePlaces>
struct TailWriter {
    using W = typename Coding::Word;
    using Entry = ContextEntry<Coding>;
    // Rows that are written together.
    static constexpr u32 kRow = kWarp, kRows = 4;
    static_assert(Coding::kTailsApart && Coding::kNone == 0, "the tails of all symbols are here");
    // Words that their tails may touch.
    static constexpr u32 kWords = kRows * kWarp * (8 * sizeof(W) - 2) / 32 + 2;

    // The words of some rows, in shared memory. All are zero before the first row.
    struct Buffer {
        u32 words[kWords];
    };
    Buffer& buffer;
    const unsigned short* const entries;
    const W* const residuals;
    const u32 m;     // number of entries
    u32* const to;   // aligned output; the tails begin at byte `begin`
    const Places places = {};

    // Writes the tails, and zeros up to the end of their last word. Bytes before `begin` are kept.
    __device__ __forceinline__ void write(u32 begin) const {
        const u32 lane = lane_id(), n_rows = (m + kRow - 1) / kRow;
        for (u32 i = lane; i < kWords; i += kWarp) buffer.words[i] = 0;
        __syncwarp();
        // Index of the word with the next bit, and the bits of it that are taken.
        u32 word = begin / 4, taken = begin % 4 * 8;
        if (lane == 0 && taken) buffer.words[0] = to[word] & low_bits(0u, taken);
        __syncwarp();
        // Entries are loaded two rounds ahead, numbers one round.
        u32 later[kRows], next[kRows], lengths[kRows], next_lengths[kRows];
        W numbers[kRows], next_numbers[kRows];
        const auto load_entries = [&](u32 row) {
#pragma unroll
            for (u32 k = 0; k < kRows; ++k) {
                const u32 i = (row + k) * kRow + lane;
                later[k] = i < m ? entries[i] : 0;
            }
        };
        const auto load_numbers = [&](u32 row) {
#pragma unroll
            for (u32 k = 0; k < kRows; ++k) {
                const u32 i = (row + k) * kRow + lane;
                next[k] = later[k];
                next_lengths[k] = i < m ? tail_bits(Entry::key(next[k]) % Coding::kSymbols) : 0;
                next_numbers[k] = next_lengths[k] > Entry::kBits ? residuals[places(i)] : static_cast<W>(Entry::tail(next[k]));
            }
        };
        load_entries(0);
        load_numbers(0);
        load_entries(kRows);
#pragma unroll 1
        for (u32 row = 0; row < n_rows; row += kRows) {
            u32 ends[kRows], any = 0;
#pragma unroll
            for (u32 k = 0; k < kRows; ++k) lengths[k] = next_lengths[k], numbers[k] = next_numbers[k], any |= lengths[k];
            load_numbers(row + kRows);
            load_entries(row + 2 * kRows);
            if (!__any_sync(kAllLanes, any != 0)) continue;
            const u32 n_bits = tail_ends(lengths, ends);
            const bool are_short = !__any_sync(kAllLanes, any > kShort);
#pragma unroll
            for (u32 k = 0; k < kRows; ++k) {
                const u32 at = taken + ends[k] - lengths[k];
                const W tail = numbers[k] & low_bits(W(0), lengths[k]);
                if (are_short) {
                    put_fours(at, static_cast<u32>(tail), lengths[k]);
                } else if (lengths[k] > 0) {
                    put(at, tail, lengths[k]);
                }
            }
            __syncwarp();
            // Stores all words but the last one, which becomes the first one.
            const u32 n = (taken + n_bits) / 32;
            for (u32 i = lane; i < n; i += kWarp) to[word + i] = buffer.words[i], buffer.words[i] = 0;
            if (lane == 0 && n > 0) buffer.words[0] = buffer.words[n], buffer.words[n] = 0;
            __syncwarp();
            word += n, taken = (taken + n_bits) % 32;
        }
        if (lane == 0 && taken) to[word] = buffer.words[0];
    }
    // Tails up to this length are joined in fours, since lanes that change the same word at once take
    // turns.
    static constexpr u32 kShort = 7;
    __device__ __forceinline__ void put_fours(u32 at, u32 tail, u32 length) const {
        tail |= __shfl_down_sync(kAllLanes, tail, 1) << length;
        const u32 of_two = length + __shfl_down_sync(kAllLanes, length, 1);
        tail |= __shfl_down_sync(kAllLanes, tail, 2) << of_two;
        const u32 shift = at % 32;
        if (lane_id() % 4 != 0 || tail == 0) return;
        atomicOr(buffer.words + at / 32, tail << shift);
        if (shift > 32 - 4 * kShort) atomicOr(buffer.words + at / 32 + 1, tail >> (32 - shift));
    }
    // ORs a tail into the buffer, from bit `at` on.
    __device__ __forceinline__ void put(u32 at, W tail, u32 length) const {
        u32* const words = buffer.words + at / 32;
        const u32 shift = at % 32;
        if (sizeof(W) == 4) {
            const u32 low = static_cast<u32>(tail);
            atomicOr(words, low << shift);
            if (shift + length > 32) atomicOr(words + 1, low >> (32 - shift));
        } else {
            const u64 low = static_cast<u64>(tail) << shift;
            atomicOr(words, static_cast<u32>(low));
            if (shift + length > 32) atomicOr(words + 1, static_cast<u32>(low >> 32));
            if (shift + length > 64) atomicOr(words + 2, static_cast<u32>(static_cast<u64>(tail) >> (64 - shift)));
        }
    }
};

// Reads two byte ranges, the tables in front and the coded bits further on, as one contiguous range
// of words.
struct FrontAndString {
    const u32* const words;  // base address of both
    const u32 front_bytes, end;
    const u32 string, shift;  // distance of the string from the contiguous position, in words and bits

    // `at`: byte offset of the string from the front's start.
    __device__ __forceinline__ FrontAndString(const u32* words, u32 front_bytes, u32 at, u32 string_bytes)
        : words(words), front_bytes(front_bytes), end(front_bytes + string_bytes), string((at - front_bytes) / 4), shift((at - front_bytes) % 4 * 8) {}
    __device__ __forceinline__ u32 operator()(u32 i) const {
        const u32 at = 4 * i;
        u32 word = 0;
        if (at + 4 > front_bytes && at < end) {
            word = shift ? __funnelshift_r(words[i + string], words[i + string + 1], shift) : words[i + string];
            // Mask the string's first word to the bytes after the front, and its last word to its
            // end.
            if (at < front_bytes) word &= ~0u << 8 * (front_bytes - at);
            if (at + 4 > end) word &= low_bits(0u, 8 * (end - at));
        }
        return at < front_bytes ? word | words[i] : word;
    }
};
