// Decodes the numbers of a block that are coded by rANS, each in a context of preceding symbols.
// The counterpart of crates/gridz-codecs/src/stage/entropy/contexts/, which defines the contexts.
//
// A warp, the leader, decodes 32 symbols per step (rans.cuh). A second warp, the follower, adds the
// tails, which are in a bit string of their own, and passes the numbers on. Symbols go from one to
// the other through shared memory, in rounds of some rows. So the leader, whose steps form one
// dependency chain, does nothing else.
//
// In blocks of rows of 32, and in lines, the neighbors of a number are in registers of the leader,
// except for those in the previous plane.

#pragma once

#include "boxes.cuh"
#include "rans.cuh"
#include "unpack.cuh"

constexpr u32 kNumberContexts = 12;
constexpr u32 kFarthest = 1 << 12;   // largest distance of a neighbor
constexpr u32 kLargestSize = 255;
// Bytes of the field before the tables: the number of bytes of the tails.
constexpr u32 kTailsField = 4;

// The size of a symbol: half of its smallest number, rounded up, and at most kLargestSize.
__device__ __forceinline__ u32 size_of_symbol(u32 symbol) {
    const u32 shift = min(symbol / 2 - kOwnSymbols / 2 + 1, 8u);
    return symbol < kOwnSymbols ? (symbol + 1) / 2 : min((symbol & 1 | 2) << shift, kLargestSize);
}

// Tables of the contexts, sizes of recent symbols, and symbols on their way from the leader to the
// follower, in shared memory.
template <typename W>
struct ContextTables : RansTables<kNumberContexts, kWordSymbols<W>> {
    using Tables = RansTables<kNumberContexts, kWordSymbols<W>>;
    // Rows of a round.
    static constexpr u32 kRoundRows = 64, kRound = kRoundRows * kRow;

    // Ring buffer of the sizes of the last 4096 symbols.
    unsigned char sizes[kFarthest];
    // The symbols of the round that the leader decodes, and of the one before.
    alignas(4) unsigned char symbols[2 * kRound];
    u32 tails_bytes;

    // Reads the field and the tables from `available` bytes at any address, and clears the sizes.
    // Called by all kThreads threads of a CTA; contains barriers. is_sound says whether the tails
    // fit, too.
    template <u32 kThreads>
    __device__ __forceinline__ void read(const unsigned char* from, u32 available) {
        for (u32 i = threadIdx.x; i < kFarthest / 4; i += kThreads) reinterpret_cast<u32*>(sizes)[i] = 0;
        if (threadIdx.x == 0) {
            u32 n = 0;
            for (u32 i = 0; i < kTailsField; ++i) n |= i < available ? from[i] << 8 * i : 0;
            tails_bytes = n;
        }
        const u32 field = min(kTailsField, available);
        Tables::template read<kThreads>(from + field, available - field);
        const u32 before = field + this->n_bytes;
        // The states follow the tails.
        if (threadIdx.x == 0) this->is_sound &= field == kTailsField && before <= available && tails_bytes <= available - before && available - before - tails_bytes >= kStateBytes;
        __syncthreads();
    }
    // Bytes of the field and the tables; and with the tails, too.
    __device__ __forceinline__ u32 tails_at() const { return kTailsField + this->n_bytes; }
    __device__ __forceinline__ u32 string_at() const { return tails_at() + tails_bytes; }
};

// How the two warps wait for each other, and their results, in shared memory.
struct Relay {
    // A phase of `led` completes when the leader has decoded a round, a phase of `followed` when the
    // follower begins the next one.
    Mbarrier led, followed;
    u32 n_led;         // bytes of the block, or 0 if the leader found damage
    u32 has_followed;  // 0 if the follower found damage
};

// Distances from a number to the neighbors that determine its context. A neighbor that counts
// several times is listed once.
struct Near {
    u32 up, beside, plane, below;  // plane: 0 if there is no previous plane
    bool is_row;                   // the neighbors lie in rows of 32

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

// Decodes the symbols of a block. Used by the leader.
template <typename W>
struct ContextReader : RansReader<W, ContextTables<W>, 0> {
    using Tables = ContextTables<W>;
    using Reader = RansReader<W, Tables, 0>;

    Tables& tables;
    Relay& relay;
    const u32 sizes;  // address in shared memory
    u32 rounds = 0;   // that were led

    // `from` and `available`: as in RansReader.
    __device__ __forceinline__ ContextReader(Tables& tables, Relay& relay, const unsigned char* from, u32 available)
        : Reader(tables, from, available), tables(tables), relay(relay), sizes(shared_address(tables.sizes)) {}

    // Decodes the symbols of a box.
    __device__ __forceinline__ void read(const Box& box) {
        const Near near(box);
        if (!near.is_row) {
            read_any(near, box.m);
        } else if (near.plane) {
            read_rows<true>(near, box.m);
        } else {
            read_rows<false>(near, box.m);
        }
    }

    // Calls `step(all, i)` for each row, where i is the index of the lane's symbol, and all.value is
    // true if every lane has one. It returns the symbol.
    template <typename F>
    __device__ __forceinline__ void for_rows(u32 m, F step) {
        const u32 n_whole = m / kRow, n_rows = (m + kRow - 1) / kRow;
        u32 i = lane_id();
#pragma unroll 1
        for (u32 row = 0; row < n_rows; lead()) {
            const u32 end = min(row + Tables::kRoundRows, n_rows), whole_end = min(end, n_whole);
#pragma unroll 1
            for (; row < whole_end; ++row, i += kRow) put(i, step(Bool<true>(), i));
            if (row < end) put(i, step(Bool<false>(), i)), ++row;
        }
    }
    __device__ __forceinline__ void put(u32 i, u32 symbol) { tables.symbols[i % (2 * Tables::kRound)] = static_cast<unsigned char>(symbol); }
    // Passes a round to the follower, which must have begun with the round before.
    __device__ __forceinline__ void lead() {
        if (rounds > 0) relay.followed.wait(rounds - 1);
        ++rounds;
        relay.led.arrive();
    }

    template <bool kValue>
    struct Bool {
        static constexpr bool value = kValue;
    };
    // read() for blocks in which the neighbors of a number are in rows of 32 numbers.
    template <bool kPlane>
    __device__ __forceinline__ void read_rows(const Near& near, u32 m) {
        const u32 lane = lane_id(), lane_before = (lane + kRow - 1) % kRow;
        const bool is_last = lane == kRow - 1, is_below = near.below != near.plane;
        // Sizes one and two rows before, and in the previous plane. `at`: index in `sizes` of the
        // number at distance near.below.
        u32 one = 0, two = 0, plane = 0, at = 0 - near.below + lane;
        for_rows(m, [&](auto all, u32 i) {
            const u32 before = __shfl_sync(kAllLanes, is_last ? two : one, lane_before);
            u32 sum;
            if (kPlane) {
                const u32 next = load_shared_1(sizes + at % kFarthest);
                sum = 3 * one + two + 2 * (is_below ? plane : next) + next + before;
                plane = next;
            } else {
                sum = 5 * one + two + 2 * before;
            }
            const u32 symbol = Reader::template symbol<decltype(all)::value>(bit_length(sum), i < m);
            two = one, one = size_of_symbol(symbol), at += kRow;
            // All lanes have read the size that this replaces, as the votes in symbol() synchronize
            // them.
            if (kPlane) store_shared_1(sizes + i % kFarthest, one);
            return symbol;
        });
    }

    // read() for all other blocks.
    __device__ __forceinline__ void read_any(const Near& near, u32 m) {
        for_rows(m, [&](auto all, u32 i) {
            const auto size = [&](u32 distance) { return load_shared_1(sizes + (i - distance) % kFarthest); };
            const u32 up = size(near.up), behind = size(near.up + 1), beside = size(near.beside), two = size(2 * near.up);
            const u32 sum = near.plane ? 2 * up + behind + beside + two + 2 * size(near.plane) + size(near.below) : 3 * up + 2 * behind + 2 * beside + two;
            const u32 symbol = Reader::template symbol<decltype(all)::value>(bit_length(sum), i < m);
            store_shared_1(sizes + i % kFarthest, size_of_symbol(symbol));
            __syncwarp();
            return symbol;
        });
    }
};

// Adds the tails to the symbols of a block. Used by the follower.
template <typename W>
struct TailReader {
    using Tables = ContextTables<W>;
    // Rows that are completed together. Their loads are in flight at the same time.
    static constexpr u32 kBatch = 4;
    static_assert(Tables::kRoundRows % kBatch == 0, "a batch is in one round");

    const Tables& tables;
    Relay& relay;
    const u32* const words;  // aligned; contain the tails, and words after them
    const u32 first, end;    // indices of bits
    u32 at;                  // index of the next bit

    // The tails begin at `from`. The coder's states follow, so words of these can be loaded, too.
    __device__ __forceinline__ TailReader(const Tables& tables, Relay& relay, const unsigned char* from)
        : tables(tables), relay(relay), words(reinterpret_cast<const u32*>(reinterpret_cast<u64>(from) & ~u64{3})),
          first(static_cast<u32>(reinterpret_cast<u64>(from)) % 4 * 8), end(first + 8 * tables.tails_bytes), at(first) {}

    // Number of tail bits of a symbol. Limits those of invalid symbols, which the leader reports.
    static __device__ __forceinline__ u32 tail_bits(u32 symbol) {
        return symbol < kOwnSymbols ? 0 : min(symbol / 2 + 2 - kOwnSymbols / 2, static_cast<u32>(8 * sizeof(W)) - 2);
    }
    // The bits from index `at` on.
    __device__ __forceinline__ u32 bits(u32 at, u32) const { return __funnelshift_r(words[at / 32], words[at / 32 + 1], at % 32); }
    __device__ __forceinline__ u64 bits(u32 at, u64) const {
        const u32 low = words[at / 32], middle = words[at / 32 + 1], high = words[at / 32 + 2];
        return static_cast<u64>(__funnelshift_r(middle, high, at % 32)) << 32 | __funnelshift_r(low, middle, at % 32);
    }

    // Replaces the symbols that have tails by their numbers. Tails have fewer bits than a T, and end
    // at the bits `ends` from `at` on.
    template <typename T>
    __device__ __forceinline__ void complete(const u32 (&symbols)[kBatch], const u32 (&lengths)[kBatch], const u32 (&ends)[kBatch], W (&numbers)[kBatch]) const {
#pragma unroll
        for (u32 k = 0; k < kBatch; ++k) {
            // Damaged tails may be too short.
            const T tail = bits(min(at + ends[k] - lengths[k], end), T(0)) & low_bits(T(0), lengths[k]);
            if (lengths[k] > 0) numbers[k] = static_cast<W>(symbols[k] & 1 | 2) << lengths[k] | tail;
        }
    }

    // Calls `take(row, n, numbers)` for up to kBatch rows at a time, from row `row` on. The first n
    // rows have numbers: the lane has one of each. Numbers after the m-th one are arbitrary.
    template <typename F>
    __device__ __forceinline__ void follow(u32 m, F take) {
        const u32 n_rows = (m + kRow - 1) / kRow;
#pragma unroll 1
        for (u32 row = 0; row < n_rows; row += kBatch) {
            if (row % Tables::kRoundRows == 0) {
                const u32 round = row / Tables::kRoundRows;
                if (round > 0) relay.followed.arrive();
                relay.led.wait(round);
            }
            u32 symbols[kBatch], lengths[kBatch], ends[kBatch], any = 0;
            W numbers[kBatch];
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                const u32 i = (row + k) * kRow + lane_id();
                symbols[k] = i < m ? tables.symbols[i % (2 * Tables::kRound)] : 0;
                numbers[k] = symbols[k], lengths[k] = tail_bits(symbols[k]), any |= lengths[k];
            }
            if (__any_sync(kAllLanes, any != 0)) {
                // The next batch's tails begin in this line or the next one.
                prefetch_l1(words + min(at / 32 + kWarp * (1 + lane_id() % 2), end / 32));
                const u32 n_bits = tail_ends(lengths, ends);
                if (sizeof(W) == 4 || likely(!__any_sync(kAllLanes, any >= 32))) {
                    complete<u32>(symbols, lengths, ends, numbers);
                } else {
                    complete<W>(symbols, lengths, ends, numbers);
                }
                at += n_bits;
            }
            take(row, min(n_rows - row, kBatch), numbers);
        }
    }
    // True if these were all bits of the tails.
    __device__ __forceinline__ bool is_whole() const { return (at - first + 7) / 8 == tables.tails_bytes; }
};

// Decodes the numbers of a box with two warps. Calls take() in the follower only, as
// TailReader::follow() does. Returns the number of bytes that were read of the `n_bytes` at `source`,
// or 0 if they are damaged, in all threads. Called by all threads; contains barriers.
template <u32 kThreads, typename W, typename F>
__device__ __forceinline__ u32 read_in_contexts(ContextTables<W>& tables, Relay& relay, const unsigned char* source, u32 n_bytes, const Box& box, F take) {
    static_assert(kThreads == 2 * kWarp, "a leader and a follower");
    if (threadIdx.x == 0) relay.led.init(kWarp), relay.followed.init(kWarp);
    tables.template read<kThreads>(source, n_bytes);
    if (!tables.is_sound) return 0;
    const u32 string_at = tables.string_at();
    if (warp_id() == 0) {
        ContextReader<W> reader(tables, relay, source + string_at, n_bytes - string_at);
        reader.read(box);
        const u32 n_read = reader.n_bytes();
        if (threadIdx.x == 0) relay.n_led = n_read ? string_at + n_read : 0;
    } else {
        TailReader<W> reader(tables, relay, source + tables.tails_at());
        reader.follow(box.m, take);
        if (lane_id() == 0) relay.has_followed = reader.is_whole();
    }
    __syncthreads();
    return relay.has_followed ? relay.n_led : 0;
}
