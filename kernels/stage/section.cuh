// A section of Huffman codes, back to numbers: the 32 lanes of one warp decode a row at a time, in lockstep. The twin of
// src/stage/entropy/section.rs.
//
//   1. A warp reads the lengths of codes, 32 half bytes at a time: what a half byte is follows from how many fifteens are before it.
//   2. Codes are ordered by length and symbol; all threads fill a table of what each combination of bits begins with.
//   3. The warp takes words of the lanes and looks up codes, row by row. Words are in shared memory, those behind on their way to
//      registers, as in contexts.cuh.
//
// A row waits for the one before: the bits of a lane, the table, the length of the code. So what counts is how many CTAs are there at once,
// and that the table is small: longer codes, which are rare, are found bit by bit.

#pragma once

#include "symbols.cuh"

// In shared memory.
template <typename T>
struct SectionTables {
    using Symbol = Symbols<T>;
    // Codes of bytes have no more from any encoder.
    static constexpr u32 kTableBits = Symbol::kHasTails ? 12 : kDirectBits;
    static constexpr u32 kLonger = 0xffff;  // an entry: the code is longer than the table knows
    static constexpr u32 kRounds = (Symbol::kCount + kWarp - 1) / kWarp;
    static constexpr u32 kWindow = 256;

    // Words, around the next one. The struct is at a multiple of their length, in bytes, so that a place needs no addition.
    alignas(16) unsigned short window[kWindow];
    // The symbol of the code that such bits begin with and, above 12 bits, its length.
    unsigned short entries[1 << kTableBits];
    // The same of codes by length and symbol.
    unsigned short by_rank[kRounds * kWarp];
    unsigned char lengths[kRounds * kWarp];
    // By length: how many codes, then the place of the next one; bits that no code up to this length begins with; what is added to a code to
    // get its place.
    u32 next[kCodeWordBits];
    u32 limits[kCodeWordBits], offsets[kCodeWordBits];
    u32 shortest, longest;  // codes
    u32 n_codes;
    u32 is_sound;

    // Reads the lengths of codes from `from`, as the head says. By all kThreads threads; barriers, also at the end.
    template <u32 kThreads>
    __device__ __forceinline__ void read(const SectionHead& head, const unsigned char* from) {
        for (u32 i = threadIdx.x; i < kRounds * kWarp; i += kThreads) lengths[i] = 0;
        if (threadIdx.x < kCodeWordBits) next[threadIdx.x] = 0;
        __syncthreads();
        if (warp_id() == 0) {
            const bool is_read = read_lengths(head, from);
            __syncwarp();
            if (threadIdx.x == 0) is_sound = is_read && order();
            __syncwarp();
            if (is_sound) rank(head.lowest, head.n_symbols);
        }
        __syncthreads();
        if (is_sound) fill<kThreads>();
        __syncthreads();
    }

    // By a warp. Whether the half bytes are those of so many symbols.
    __device__ __forceinline__ bool read_lengths(const SectionHead& head, const unsigned char* from) {
        const u32 lane = lane_id(), n_halves = 2 * head.length_bytes;
        // Symbols before, half bytes that belong to them, and whether a gap goes on from the half bytes before.
        u32 at = 0, n_read = 0;
        bool is_open = false;
#pragma unroll 1
        for (u32 first = 0; first < n_halves; first += kWarp) {
            const u32 i = first + lane, half = i < n_halves ? from[i / 2] >> i % 2 * 4 & 15 : 0;
            const u32 others = ~__ballot_sync(kAllLanes, half == kGapHalf) & lanes_below();
            // Every second one of fifteens behind each other tells how long a gap is, and so does what is behind an odd number of them.
            const u32 before = lane - bit_length(others);
            const bool is_gap_length = (before + (others == 0 && is_open)) % 2 == 1, is_gap = half == kGapHalf && !is_gap_length;
            const u32 n = i >= n_halves ? 0 : is_gap_length ? half + kLeastGap : is_gap ? 0 : 1;
            const u32 through = warp_inclusive_sum(n), symbol = at + through - n;
            const bool is_needed = i < n_halves && symbol < head.n_symbols;
            if (is_needed && n == 1 && half > 0) {
                lengths[head.lowest + symbol] = static_cast<unsigned char>(half);
                atomicAdd(&next[half], 1);
            }
            n_read += __popc(__ballot_sync(kAllLanes, is_needed));
            // A half byte that nothing needs is a zero.
            if (__any_sync(kAllLanes, i < n_halves && !is_needed && half != 0)) return false;
            at += __shfl_sync(kAllLanes, through, kWarp - 1);
            is_open = __shfl_sync(kAllLanes, is_gap, kWarp - 1);
            if (at > head.n_symbols + kWarp * (kGapHalf + kLeastGap)) return false;
        }
        // What nothing needs adds to the symbols, too: a zero does, by one.
        return at - (n_halves - n_read) == head.n_symbols && (n_read + 1) / 2 == head.length_bytes;
    }

    // Finds codes by the number of each length, by one thread. Whether they leave nothing over.
    __device__ __forceinline__ bool order() {
        u32 code = 0, rank = 0, low = 0, high = 0;
        bool overlap = false;
#pragma unroll 1
        for (u32 length = 1; length <= kMostCodeBits; ++length) {
            const u32 n = next[length];
            code *= 2;
            offsets[length] = rank - code;
            next[length] = rank;
            code += n, rank += n;
            overlap |= code > 1u << length;
            limits[length] = code << (kCodeWordBits - length);
            if (n > 0) low = low == 0 ? length : low, high = length;
        }
        n_codes = rank;
        // A single code has no bits.
        const bool is_single = rank == 1 && high == 1;
        shortest = is_single ? 0 : low, longest = is_single ? 0 : high;
        offsets[0] = 0;
        return rank == 0 || is_single || (!overlap && code == 1u << kMostCodeBits);
    }

    // Puts the symbols in the order of their codes, by a warp.
    __device__ __forceinline__ void rank(u32 lowest, u32 n_symbols) {
        const bool is_single = longest == 0;
#pragma unroll 1
        for (u32 first = lowest; first < lowest + n_symbols; first += kWarp) {
            const u32 symbol = first + lane_id(), length = symbol < lowest + n_symbols ? lengths[symbol] : 0;
            const u32 same = __match_any_sync(kAllLanes, length);
            const u32 at = next[length] + __popc(same & lanes_below());
            if (length > 0) by_rank[at] = static_cast<unsigned short>(symbol | (is_single ? 0 : length) << 12);
            __syncwarp();
            if (length > 0 && (same & lanes_below()) == 0) next[length] += __popc(same);
            __syncwarp();
        }
    }

    template <u32 kThreads>
    __device__ __forceinline__ void fill() {
        const u32 known = min(longest, kTableBits);
#pragma unroll 1
        for (u32 bits = threadIdx.x; bits < 1u << known; bits += kThreads) {
            const u32 top = bits << (kCodeWordBits - known);
            entries[bits] = static_cast<unsigned short>(n_codes == 0 ? 0 : entry_of(top, shortest, known));
        }
    }
    // The entry of the code that these 16 bits begin with, which has `shortest` bits at least, if it is no longer than `known`.
    __device__ __forceinline__ u32 entry_of(u32 top, u32 shortest, u32 known) const {
        u32 length = shortest;
        while (length < longest && top >= limits[length]) ++length;
        return length > known ? kLonger : by_rank[(top >> (kCodeWordBits - length)) + offsets[length]];
    }
};

// Reads the numbers of a section, by a warp.
template <typename T>
struct SectionReader {
    using Tables = SectionTables<T>;
    using Symbol = Symbols<T>;
    static constexpr u32 kPart = 4 * kWarp, kWindow = sizeof(Tables::window);  // bytes

    const Tables& tables;
    const u32 entries, window;     // addresses in shared memory
    const u32 below;               // lanes before this one
    const u32* const words;        // pairs of words, of which so many are there
    const u32 n_pairs, n_words;
    const u32 longest, shift;      // a lane's bits, without the last one, by that much are what the table is looked up with
    u32 bits, count;               // of the lane, on top of zeros
    u32 loaded, next;              // a pair that is on its way, and which comes then
    u32 n_taken, n_loaded;         // bytes that are taken, and that are in the window

    __device__ __forceinline__ SectionReader(Tables& tables, const unsigned char* from, u32 n_words)
        : tables(tables), entries(shared_address(tables.entries)), window(shared_address(tables.window)), below(lanes_below()),
          words(reinterpret_cast<const u32*>(from)), n_pairs((n_words + 1) / 2), n_words(n_words), longest(tables.longest),
          shift(31 - min(tables.longest, Tables::kTableBits)), bits(0), count(0), next(lane_id()), n_taken(0), n_loaded(0) {
        fetch_next();
        load(), load(), load();
    }
    __device__ __forceinline__ void fetch_next() {
        loaded = next < n_pairs ? words[next] : 0;
        next += kWarp;
    }
    // Puts the pairs that were on their way, a part of the window, into it.
    __device__ __forceinline__ void load() {
        store_shared_4(window | (n_loaded + 4 * lane_id()) % kWindow, loaded);
        n_loaded += kPart;
        fetch_next();
        __syncwarp();
    }

    // The next symbol of each lane.
    __device__ __forceinline__ u32 symbol() {
        const bool takes = count < longest;
        const u32 taking = __ballot_sync(kAllLanes, takes), at = n_taken + 2 * __popc(taking & below);
        const u32 word = load_shared_2(window | at % kWindow);
        if (takes) bits |= word << (kCodeWordBits - count), count += kCodeWordBits;
        n_taken += 2 * __popc(taking);
        if (unlikely(n_taken + kPart > n_loaded)) load();
        u32 entry = load_shared_2(entries + 2 * (bits >> 1 >> shift));
        if (unlikely(__any_sync(kAllLanes, entry == Tables::kLonger))) {
            if (entry == Tables::kLonger) entry = tables.entry_of(bits >> kCodeWordBits, Tables::kTableBits + 1, kMostCodeBits);
        }
        const u32 length = entry >> 12;
        bits <<= length, count -= length;
        return entry & 0xfff;
    }
    __device__ __forceinline__ bool is_done() const { return n_taken == 2 * n_words; }
};

// The tails of numbers, behind each other in the order of these.
struct TailBits {
    const u32* words;  // aligned
    u32 shift, end;    // where the first bit is, and how many there are
    u32 at;

    __device__ __forceinline__ TailBits(const unsigned char* from, u32 n_bytes)
        : words(reinterpret_cast<const u32*>(reinterpret_cast<u64>(from) & ~u64{3})), shift(static_cast<u32>(reinterpret_cast<u64>(from)) % 4 * 8),
          end(8 * n_bytes), at(0) {}
    // The next n bits of each lane, less than 32, by a warp.
    __device__ __forceinline__ u32 take(u32 n) {
        const u32 through = warp_inclusive_sum(n), first = shift + at + through - n, last = first + n - 1;
        const bool is_there = n > 0 && at + through <= end;
        const u32 low = is_there ? words[first / 32] : 0, high = is_there ? words[last / 32] : 0;
        at += __shfl_sync(kAllLanes, through, kWarp - 1);
        return __funnelshift_r(low, high, first) & low_bits(0u, n);
    }
    __device__ __forceinline__ bool is_done() const { return (at + 7) / 8 * 8 == end; }
};

// Calls `take(i, number, exists)` for the numbers of a section at `from`, a row at a time: a lane has number i, if that is below m. Is whether
// the section is sound. By a warp.
template <typename T, typename F>
__device__ __forceinline__ bool read_section(SectionTables<T>& tables, const SectionHead& head, const unsigned char* from, u32 m, F take) {
    using Symbol = Symbols<T>;
    const u32 lane = lane_id(), n_rows = (m + kWarp - 1) / kWarp;
    SectionReader<T> reader(tables, from + SectionHead::kBytes, head.n_words);
    TailBits tails(from + head.tails(n_rows), head.tail_bytes);
    const unsigned char* const marks = from + head.marks();
    bool has_codes = false;
#pragma unroll 1
    for (u32 first = 0; first < n_rows; first += kWarp) {
        // Rows that are left out.
        const u32 row = first + lane;
        const u32 left_out = head.has_marks ? __ballot_sync(kAllLanes, row < n_rows && marks[row / 8] >> row % 8 & 1) : 0;
        const u32 n = min(n_rows - first, kWarp);
#pragma unroll 1
        for (u32 k = 0; k < n; ++k) {
            const u32 i = (first + k) * kRow + lane;
            const bool exists = i < m;
            u32 number = 0;
            if (!(left_out >> k & 1)) {
                has_codes = true;
                const u32 symbol = reader.symbol();
                number = Symbol::above_tail(symbol);
                const u32 n_tail = exists ? Symbol::tail_bits(symbol) : 0;
                if (Symbol::kHasTails && unlikely(__any_sync(kAllLanes, n_tail > 0))) number = number << n_tail | tails.take(n_tail);
            }
            take(i, number, exists);
        }
    }
    return reader.is_done() && tails.is_done() && (tables.n_codes > 0 || !has_codes);
}
