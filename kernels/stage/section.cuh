// Decodes a section of Huffman codes: the 32 lanes of one warp decode a row at a time, in lockstep.
// The counterpart of crates/gridz-codecs/src/stage/entropy/section/read.rs.
//
//   1. A warp reads the code lengths, 32 half bytes at a time. The number of preceding fifteens
//      determines the meaning of a half byte.
//   2. Codes are ordered by length and symbol. All threads fill a table that is indexed by the next
//      bits and gives the code with which they begin.
//   3. The warp looks up codes, row by row, and stores the symbols of a batch of rows. The next words
//      are in shared memory, enough for a batch; the words after them are in flight to registers.
//   4. The caller gets the symbols of a batch. It can process consecutive numbers in each lane, so
//      that a batch takes one scan over the warp and a few wide stores.
//
// Decoding is limited by latency and by instructions: the bits of a lane select a table entry, whose
// code length determines the lane's next bits. Many resident CTAs hide this latency, so the table in
// shared memory must be small. Codes longer than its index are rare and are decoded bit by bit; blocks
// without such codes do not test for them.

#pragma once

#include "symbols.cuh"

// Rows that are decoded before their symbols are used.
constexpr u32 kBatchRows = 8;

// The tails of numbers, stored contiguously in the order of the numbers. Resides in shared memory,
// since many blocks have none.
struct TailBits {
    const u32* words;  // aligned
    u32 shift, end;    // position of the first bit; number of bits
    u32 at;

    // Called by one thread.
    __device__ __forceinline__ void begin(const unsigned char* from, u32 n_bytes) {
        words = reinterpret_cast<const u32*>(reinterpret_cast<u64>(from) & ~u64{3});
        shift = static_cast<u32>(reinterpret_cast<u64>(from)) % 4 * 8, end = 8 * n_bytes, at = 0;
    }
    // Reserves n bits for each lane; returns the position of the lane's bits. Called by a warp.
    __device__ __forceinline__ u32 reserve(u32 n) {
        const u32 through = at + warp_inclusive_sum(n);
        __syncwarp();
        if (lane_id() == kWarp - 1) at = through;
        __syncwarp();
        return through - n;
    }
    // n bits (n < 32) at position `first`; zeros past the end.
    __device__ __forceinline__ u32 read(u32 first, u32 n) const {
        const bool is_there = n > 0 && first + n <= end;
        const u32 from = shift + first, last = from + n - 1;
        const u32 low = is_there ? words[from / 32] : 0, high = is_there ? words[last / 32] : 0;
        return __funnelshift_r(low, high, from) & low_bits(0u, n);
    }
    __device__ __forceinline__ bool is_done() const { return (at + 7) / 8 * 8 == end; }
};

// Tables for decoding a section, in shared memory.
template <typename T>
struct SectionTables {
    using Symbol = Symbols<T>;
    // For bytes, the table covers all codes that encoders write.
    static constexpr u32 kTableBits = Symbol::kHasTails ? 12 : kDirectBits;
    static constexpr u32 kLonger = 0xffff;  // entry of a code that is too long for the table
    static constexpr u32 kRounds = (Symbol::kCount + kWarp - 1) / kWarp;
    static constexpr u32 kWindow = 512;

    // Ring buffer of the words around the next one. The struct's address is a multiple of this
    // buffer's size, so an OR replaces an addition in addresses.
    alignas(16) unsigned short window[kWindow];
    // The symbols of a batch of rows; 0 in rows that the section leaves out.
    alignas(16) unsigned short symbols[kBatchRows * kRow];
    union {
        // Indexed by the next bits: the symbol of the code with which they begin and, from bit 12
        // on, the length of this code.
        unsigned short entries[1 << kTableBits];
        // Code lengths of the symbols, until the entries are filled in.
        unsigned char lengths[kRounds * kWarp];
    };
    // The same entries in the order of codes, that is, by length and symbol.
    unsigned short by_rank[kRounds * kWarp];
    // Indexed by length. next: number of codes, later the rank of the next code. limits: 16 bits
    // that are not less than this begin with a longer code. offsets: a code plus the offset is its
    // rank.
    u32 next[kCodeWordBits];
    u32 limits[kCodeWordBits], offsets[kCodeWordBits];
    u32 shortest, longest;  // bits of the shortest and the longest code
    u32 n_codes;
    u32 is_sound;
    TailBits tails;

    // Reads the code lengths that the head describes from `from`. Called by all kThreads threads;
    // contains barriers, one at the end.
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

    // Called by a warp. Returns true if the half bytes describe exactly head.n_symbols symbols.
    __device__ __forceinline__ bool read_lengths(const SectionHead& head, const unsigned char* from) {
        const u32 lane = lane_id(), n_halves = 2 * head.length_bytes;
        // Symbols so far; half bytes that belong to them; whether the last half byte opened a gap.
        u32 at = 0, n_read = 0;
        bool is_open = false;
#pragma unroll 1
        for (u32 first = 0; first < n_halves; first += kWarp) {
            const u32 i = first + lane, half = i < n_halves ? from[i / 2] >> i % 2 * 4 & 15 : 0;
            const u32 others = ~__ballot_sync(kAllLanes, half == kGapHalf) & lanes_below();
            // In a run of fifteens, every second one is the length of a gap. So is a half byte
            // after an odd number of fifteens.
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
            // Half bytes that are not needed must be zero.
            if (__any_sync(kAllLanes, i < n_halves && !is_needed && half != 0)) return false;
            at += __shfl_sync(kAllLanes, through, kWarp - 1);
            is_open = __shfl_sync(kAllLanes, is_gap, kWarp - 1);
            if (at > head.n_symbols + kWarp * (kGapHalf + kLeastGap)) return false;
        }
        // Each unneeded half byte, a zero, has also counted as one symbol.
        return at - (n_halves - n_read) == head.n_symbols && (n_read + 1) / 2 == head.length_bytes;
    }

    // Computes codes from the number of codes of each length. Called by one thread. Returns true if
    // the code is complete.
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

    // Sorts the symbols by their codes. Called by a warp.
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
    // The entry of the code with which the 16 bits `top` begin, or kLonger if this code has more
    // than `known` bits. It has at least `shortest` bits.
    __device__ __forceinline__ u32 entry_of(u32 top, u32 shortest, u32 known) const {
        u32 length = shortest;
        while (length < longest && top >= limits[length]) ++length;
        return length > known ? kLonger : by_rank[(top >> (kCodeWordBits - length)) + offsets[length]];
    }
};

// Decodes the symbols of a section. Called by a warp.
template <typename T>
struct SectionReader {
    using Tables = SectionTables<T>;
    // Bytes: of the window, and of a part of it, which is at least what a batch of rows takes.
    static constexpr u32 kWindow = sizeof(Tables::window), kPart = kBatchRows * kRow * 2, kLoads = kPart / (4 * kWarp);
    static_assert(kWindow == 2 * kPart, "a part is loaded while a batch takes words from the other one");

    const Tables& tables;
    const u32 entries, window, symbols;  // addresses in shared memory
    const u32 below;               // mask of the lanes before this one
    const u32* const words;        // 16-bit words of the lanes, stored in pairs
    const u32 n_pairs;
    const u32 longest, shift;      // (bits >> 1) >> shift is the index into the table
    u32 bits, count;               // the lane's bits, left-aligned; their number
    u32 loaded[kLoads], next;      // pairs in flight; index of the next one
    u32 n_taken, n_loaded;         // bytes taken, and loaded into the window

    __device__ __forceinline__ SectionReader(Tables& tables, const unsigned char* from, u32 n_words)
        : tables(tables), entries(shared_address(tables.entries)), window(shared_address(tables.window)),
          symbols(shared_address(tables.symbols) + 2 * lane_id()), below(lanes_below()), words(reinterpret_cast<const u32*>(from)),
          n_pairs((n_words + 1) / 2), longest(tables.longest), shift(31 - min(tables.longest, Tables::kTableBits)), bits(0), count(0),
          next(lane_id()), n_taken(0), n_loaded(0) {
        fetch_next();
    }
    __device__ __forceinline__ void fetch_next() {
#pragma unroll
        for (u32 k = 0; k < kLoads; ++k) {
            loaded[k] = next < n_pairs ? words[next] : 0;
            next += kWarp;
        }
    }
    // Stores the pairs in flight into their part of the window.
    __device__ __forceinline__ void load() {
#pragma unroll
        for (u32 k = 0; k < kLoads; ++k) store_shared_4(window | (n_loaded + 4 * (k * kWarp + lane_id())) % kWindow, loaded[k]);
        n_loaded += kPart;
        fetch_next();
    }

    // Decodes a batch of n rows, except those of the mask `left_out`. Called after a barrier of the
    // warp, and ends with one.
    __device__ __forceinline__ void decode(u32 n, u32 left_out) {
        if (n_taken + kPart > n_loaded) load();
        __syncwarp();
        if (likely(longest <= Tables::kTableBits)) {
            decode_rows<false>(n, left_out);
        } else {
            decode_rows<true>(n, left_out);
        }
        __syncwarp();
    }
    template <bool kHasLonger>
    __device__ __forceinline__ void decode_rows(u32 n, u32 left_out) {
        if (!kHasLonger && likely(n == kBatchRows && left_out == 0)) {
#pragma unroll
            for (u32 k = 0; k < kBatchRows; ++k) store_shared_2(symbols + 2 * kRow * k, symbol<kHasLonger>());
        } else {
#pragma unroll 1
            for (u32 k = 0; k < n; ++k) store_shared_2(symbols + 2 * kRow * k, left_out >> k & 1 ? 0 : symbol<kHasLonger>());
        }
    }
    // The next symbol of each lane.
    template <bool kHasLonger>
    __device__ __forceinline__ u32 symbol() {
        const bool takes = count < longest;
        const u32 taking = __ballot_sync(kAllLanes, takes);
        const u32 word = load_shared_2(window | (n_taken + 2 * __popc(taking & below)) % kWindow);
        if (takes) bits |= word << (kCodeWordBits - count), count += kCodeWordBits;
        n_taken += 2 * __popc(taking);
        u32 entry = load_shared_2(entries + 2 * (bits >> 1 >> shift));
        if (kHasLonger && unlikely(__any_sync(kAllLanes, entry == Tables::kLonger))) {
            if (entry == Tables::kLonger) entry = tables.entry_of(bits >> kCodeWordBits, Tables::kTableBits + 1, kMostCodeBits);
        }
        const u32 length = entry >> 12;
        bits <<= length, count -= length;
        return entry & 0xfff;
    }
    __device__ __forceinline__ bool is_done(u32 n_words) const { return n_taken == 2 * n_words; }
};

// Calls `take(first, n)` for each batch of n rows of a section at `from`: `tables.symbols` has the
// symbols of the numbers from index `first` on, `tables.tails` their tails. Returns true if the
// section is sound. Called by a warp.
template <typename T, typename F>
__device__ __forceinline__ bool read_batches(SectionTables<T>& tables, const SectionHead& head, const unsigned char* from, u32 m, F take) {
    // The bits of a batch are a byte of the bitmap.
    static_assert(kBatchRows == 8, "a byte");
    const u32 n_rows = (m + kWarp - 1) / kWarp;
    const unsigned char* const bitmap = head.has_bitmap ? from + head.bitmap() : nullptr;
    if (lane_id() == 0) tables.tails.begin(from + head.tails(n_rows), head.tail_bytes);
    SectionReader<T> reader(tables, from + SectionHead::kBytes, head.n_words);
#pragma unroll 1
    for (u32 first = 0; first < n_rows; first += kBatchRows) {
        const u32 n = min(n_rows - first, kBatchRows), left_out = bitmap ? bitmap[first / 8] & low_bits(0u, n) : 0;
        if (unlikely(tables.n_codes == 0) && left_out != low_bits(0u, n)) return false;
        reader.decode(n, left_out);
        take(first * kRow, n);
        __syncwarp();
    }
    return reader.is_done(SectionHead(reinterpret_cast<const u32*>(from)).n_words) && tables.tails.is_done();
}

// Calls `take(i, number, exists)` for the numbers of a section at `from`, a row at a time. A lane
// gets number i, which exists if i < m. Returns true if the section is sound. Called by a warp.
template <typename T, typename F>
__device__ __forceinline__ bool read_section(SectionTables<T>& tables, const SectionHead& head, const unsigned char* from, u32 m, F take) {
    using Symbol = Symbols<T>;
    return read_batches<T>(tables, head, from, m, [&](u32 first, u32 n) {
#pragma unroll 1
        for (u32 k = 0; k < n; ++k) {
            const u32 i = first + k * kRow + lane_id(), symbol = tables.symbols[k * kRow + lane_id()];
            const bool exists = i < m;
            u32 number = Symbol::above_tail(symbol);
            const u32 n_tail = exists ? Symbol::tail_bits(symbol) : 0;
            if (Symbol::kHasTails && unlikely(__any_sync(kAllLanes, n_tail > 0))) number = number << n_tail | tables.tails.read(tables.tails.reserve(n_tail), n_tail);
            take(i, number, exists);
        }
    });
}
