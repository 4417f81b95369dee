// Encodes numbers as the strings of Huffman codes that huff.cuh reads, with the same codes as the
// CPU encoder. Called by all threads of a CTA; each warp has 32 runs.
//
// A number's key consists of its length and of its context, which the two preceding lengths
// determine.
//
//   1. count: one pass over all runs counts the keys and stores them.
//   2. make_codes: builds a code tree for each context. Eight trees are built at a time: for each
//      context one from the counts and one from halved counts, because a tree that is too deep is
//      rebuilt from halved counts. Warps sort the leaves. Eight lanes of the first warp merge
//      nodes, each in its own tree. Then warps determine the depths of the leaves.
//   3. measure: each thread adds up the bits of one run from its keys. This gives the position of
//      each run.
//   4. write: ORs the bits into zeros. Adjacent lanes have adjacent numbers of a run.

#pragma once

#include "../common/warp.cuh"
#include "boxes.cuh"
#include "groups.cuh"
#include "huff.cuh"
#include "pack.cuh"
#include "trees.cuh"
#include "words.cuh"

constexpr u32 kRun = kRow;            // numbers of a run
constexpr u32 kRunsPerWarp = 32;
constexpr u32 kStrings = 32;

// State of the encoder, in shared memory.
template <typename W, u32 kThreads>
struct HuffState {
    static constexpr u32 kSymbols = Word<W>::kBits + 1, kWarps = kThreads / kWarp;
    // counts: occurrences of each key, except in runs of zeros. zero_counts: zeros in these runs,
    // by context.
    u32 counts[kContexts * kSymbols], zero_counts[kContexts];
    // Indexed by key: code | bits of the code << 16 | bits of code and tail << 24. The last entry
    // is for missing numbers.
    u32 entries[kContexts * kSymbols + 1];
    u32 zero_runs[kWarps];              // bitmap of each warp's runs of zeros
    u32 run_bits[kThreads];             // bits of each run; later the position of its first bit
    u32 string_bytes[kStrings];
    u32 least_bytes, field_bits;        // of the shortest string; bits of the other ones' further bytes
    u32 n, row;                         // number of numbers; in column order the length of a row, else 0
    SmallDivisor columns;               // divisor: the numbers of a column
    u32 pivot, lowest, highest, n_bytes;
    bool marks_zeros;                   // runs of zeros are marked and have no codes

    // Called by one thread, before a barrier.
    __device__ __forceinline__ void set(u32 n_numbers, u32 columns_of_row) {
        n = n_numbers, row = columns_of_row, columns = SmallDivisor(row ? n / row : 1);
    }
};

// Trees that are built at the same time.
template <u32 kSymbols>
struct HuffTrees {
    static constexpr u32 kTrees = 8, kStride = kSymbols | 1;  // odd, so lanes at the same index have no bank conflict
    u32 leaves[kTrees][kStride], nodes[kTrees][kStride];      // weights
    unsigned char taken[kTrees][kSymbols];                    // leaves consumed before each node was built
    u32 n_leaves[kTrees], is_low[kTrees];

    // Both functions are called by a lane. merge() builds tree t; depth() is the depth of a leaf in
    // it.
    __device__ __forceinline__ void merge(u32 t) { merge_leaves<0>(leaves[t], n_leaves[t], nodes[t], taken[t]); }
    __device__ __forceinline__ u32 depth(u32 t, u32 leaf) const { return depth_of_leaf(leaf, n_leaves[t], taken[t]); }
};

template <typename W, u32 kThreads>
struct WrittenHuff {
    using State = HuffState<W, kThreads>;
    static constexpr u32 kSymbols = State::kSymbols, kWarps = State::kWarps, kRounds = (kSymbols + kWarp - 1) / kWarp;
    using Trees = HuffTrees<kSymbols>;
    static_assert(Trees::kTrees == kWarps && kWarps == 2 * kContexts, "a warp has a tree");
    static_assert(kRunsPerWarp * kWarps == kThreads, "a thread has a run");
    static constexpr u32 kNoKey = kContexts * kSymbols, kPerWord = kNoKey < 256 ? 4 : 2;  // keys in a word
    using Key = std::conditional_t<kPerWord == 4, unsigned char, unsigned short>;
    // Shared memory that is only needed until the codes are known.
    struct Work {
        alignas(16) Key keys[kThreads * kRun];
        Trees trees;
    };

    State& state;
    const W* const numbers;

    __device__ __forceinline__ u32 n_runs() const { return (state.n + kRun - 1) / kRun; }
    __device__ __forceinline__ u32 runs_per_string() const { return (n_runs() + kStrings - 1) / kStrings; }

    // Clears the counts. Called by all threads; a barrier must follow.
    static __device__ __forceinline__ void clear(State& state) {
        for (u32 key = threadIdx.x; key < kContexts * kSymbols; key += kThreads) state.counts[key] = 0;
        if (threadIdx.x < kContexts) state.zero_counts[threadIdx.x] = 0;
    }

    // The median length: the least length that more than half of the numbers do not exceed. Called
    // by a warp.
    __device__ __forceinline__ u32 pivot_of(const u32 (&lengths)[kWarps][Word<W>::kBits + 1]) const {
        constexpr u32 kParts = Word<W>::kBits / kWarp;
        u32 above = 0, pivot = 0;
#pragma unroll
        for (u32 p = kParts; p-- > 0;) {
            // Lane 31 - k counts the numbers longer than 32 * p + k bits.
            u32 own = 0;
#pragma unroll
            for (u32 w = 0; w < kWarps; ++w) own += lengths[w][(p + 1) * kWarp - lane_id()];
            const u32 longer = warp_inclusive_sum(own) + above;
            above = __shfl_sync(kAllLanes, longer, kWarp - 1);
            pivot += __popc(__ballot_sync(kAllLanes, 2 * longer >= state.n));
        }
        return pivot;
    }

    // A lane's number of a run.
    struct Number {
        W value;
        u32 symbol, context;
        bool exists;
    };
    // Calls `f(run, two)` for the warp's runs, two at a time. `two` has the lane's numbers of runs
    // `run` and `run + 1`. The second run may not exist.
    template <typename F>
    __device__ __forceinline__ void for_runs(u32 pivot, F f) const {
        const u32 lane = opaque_thread_id() % kWarp, per_string = runs_per_string(), first = warp_id() * kRunsPerWarp, last = min(first + kRunsPerWarp, n_runs());
        if (first >= last) return;
        // Kept in registers; otherwise they would be reloaded from shared memory for every run.
        const u32 end = min(last * kRun, state.n), row = state.row;
        const SmallDivisor columns = state.columns;
        const auto value_of = [=](u32 i) {
            if (likely(row == 0)) return numbers[i];
            u32 y;
            const u32 x = columns.divide(i, y);
            return numbers[y * row + x];
        };
        u32 in_string = first % per_string;
        // Symbols of the previous run.
        u32 before = in_string > 0 ? bit_length(value_of((first - 1) * kRun + lane)) : pivot;
#pragma unroll 1
        for (u32 run = first; run < last; run += 2) {
            Number two[2];
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                if (in_string == 0) before = pivot;
                const u32 i = (run + k) * kRun + lane;
                const bool exists = i < end;
                const W v = exists ? value_of(i) : 0;
                const u32 symbol = bit_length(v);
                const u32 last_one = __shfl_sync(kAllLanes, lane == kWarp - 1 ? before : symbol, (lane + kWarp - 1) % kWarp);
                const u32 last_two = __shfl_sync(kAllLanes, lane >= kWarp - 2 ? before : symbol, (lane + kWarp - 2) % kWarp);
                two[k] = Number{v, symbol, context_of(static_cast<s32>(last_one + last_two - 2 * pivot)), exists};
                before = symbol;
                if (++in_string == per_string) in_string = 0;
            }
            f(run, two);
        }
    }

    // Determines the codes, and returns the total number of bytes. `lengths`: number of numbers of
    // each length above 0, in kWarps lists. Contains barriers, one at the end.
    __device__ __forceinline__ u32 look(const u32 (&lengths)[kWarps][Word<W>::kBits + 1], Work& work) const {
        const u32 pivot = pivot_of(lengths);
        if (threadIdx.x == 0) state.pivot = pivot;
        count(pivot, work.keys);
        __syncthreads();
        const bool marks_zeros = marks_zero_runs();
        if (threadIdx.x == 0) state.marks_zeros = marks_zeros, state.entries[kNoKey] = 0;
        make_codes(work.trees, marks_zeros);
        return measure(work.keys, marks_zeros);
    }

    // Counts the keys of all runs and stores them.
    __device__ __forceinline__ void count(u32 pivot, Key* keys) const {
        const u32 first = threadIdx.x / kWarp * kRunsPerWarp;
        u32 zero_runs = 0;
        for_runs(pivot, [&](u32 run, const Number (&two)[2]) {
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                const u32 key = two[k].symbol + kSymbols * two[k].context;
                keys[(run + k) * kRun + lane_id()] = static_cast<Key>(two[k].exists ? key : kNoKey);
                const bool is_zero = __all_sync(kAllLanes, two[k].symbol == 0);
                // Lane 0 has a number in every existing run.
                if (unlikely(is_zero) && two[k].exists) zero_runs |= 1u << (run + k - first);
                if (two[k].exists) add_one(unlikely(is_zero) ? state.zero_counts + two[k].context : state.counts + key);
            }
        });
        if (lane_id() == 0) state.zero_runs[threadIdx.x / kWarp] = zero_runs;
    }
    static __device__ __forceinline__ void add_one(u32* count) { asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(shared_address(count)) : "memory"); }

    // True if runs of zeros are marked.
    __device__ __forceinline__ bool marks_zero_runs() const {
        u32 n_zero_runs = 0;
#pragma unroll
        for (u32 w = 0; w < kWarps; ++w) n_zero_runs += __popc(state.zero_runs[w]);
        // The codes of a run's zeros take at least one bit each; marks take one bit per run.
        return kRun * n_zero_runs > n_runs();
    }

    // Builds the codes. Ends with a barrier.
    __device__ __forceinline__ void make_codes(Trees& trees, bool marks_zeros) const {
        const u32 warp = threadIdx.x / kWarp, lane = lane_id(), context = warp % kContexts;
        u32 counts[kRounds];
#pragma unroll
        for (u32 k = 0; k < kRounds; ++k) {
            const u32 symbol = k * kWarp + lane;
            counts[k] = symbol < kSymbols ? state.counts[context * kSymbols + symbol] : 0;
        }
        if (lane == 0 && !marks_zeros) counts[0] += state.zero_counts[context];
        u32 done = 0;
#pragma unroll 1
        for (u32 halvings = warp / kContexts; done != low_bits(0u, kContexts); halvings += Trees::kTrees / kContexts) {
            // Leaves are sorted by weight, then by symbol.
            constexpr u32 kSymbolBits = 7;
            u32 keys[kRounds], ranks[kRounds], n_leaves = 0;
#pragma unroll
            for (u32 k = 0; k < kRounds; ++k) keys[k] = counts[k] ? (((counts[k] - 1) >> halvings) + 1) << kSymbolBits | (k * kWarp + lane) : ~0u, ranks[k] = 0;
#pragma unroll
            for (u32 k = 0; k < kRounds; ++k) {
                u32 left = __ballot_sync(kAllLanes, counts[k] > 0);
                n_leaves += __popc(left);
#pragma unroll 1
                for (; left != 0; left &= left - 1) {
                    const u32 other = __shfl_sync(kAllLanes, keys[k], __ffs(left) - 1);
#pragma unroll
                    for (u32 i = 0; i < kRounds; ++i) ranks[i] += other < keys[i];
                }
            }
#pragma unroll
            for (u32 k = 0; k < kRounds; ++k) {
                if (counts[k]) trees.leaves[warp][ranks[k]] = keys[k] >> kSymbolBits;
            }
            if (lane == 0) trees.n_leaves[warp] = n_leaves;
            __syncthreads();
            if (threadIdx.x < Trees::kTrees) trees.merge(threadIdx.x);
            __syncthreads();
            u32 depths[kRounds], deepest = 0;
#pragma unroll
            for (u32 k = 0; k < kRounds; ++k) depths[k] = counts[k] ? trees.depth(warp, ranks[k]) : 0, deepest = max(deepest, depths[k]);
            const bool is_low = __all_sync(kAllLanes, deepest <= kMaxCode);
            if (lane == 0) trees.is_low[warp] = is_low;
            __syncthreads();
            const bool is_first = warp < kContexts || !trees.is_low[context];
            if (is_low && is_first && !(done >> context & 1)) give_codes(context, depths);
#pragma unroll
            for (u32 c = 0; c < kContexts; ++c) done |= static_cast<u32>(trees.is_low[c] || trees.is_low[c + kContexts]) << c;
        }
        __syncthreads();
    }
    // Assigns codes of these lengths, in the order of length and symbol. Called by a warp.
    __device__ __forceinline__ void give_codes(u32 context, const u32 (&lengths)[kRounds]) const {
        u32 next = 0, codes[kRounds] = {};
#pragma unroll 1
        for (u32 l = 1; l <= kMaxCode; ++l) {
            next *= 2;
#pragma unroll
            for (u32 k = 0; k < kRounds; ++k) {
                const u32 same = __ballot_sync(kAllLanes, lengths[k] == l);
                if (lengths[k] == l) codes[k] = __brev(next + __popc(same & lanes_below())) >> (32 - l);
                next += __popc(same);
            }
        }
#pragma unroll
        for (u32 k = 0; k < kRounds; ++k) {
            const u32 symbol = k * kWarp + lane_id();
            if (symbol < kSymbols) state.entries[context * kSymbols + symbol] = lengths[k] > 0 ? codes[k] | lengths[k] << 16 | (lengths[k] + tail_bits(symbol)) << 24 : 0;
        }
    }

    static __device__ __forceinline__ u32 tail_bits(u32 symbol) { return max(symbol, 1u) - 1; }
    __device__ __forceinline__ bool is_coded(u32 run, bool marks_zeros) const {
        return !(marks_zeros && state.zero_runs[run / kRunsPerWarp] >> run % kRunsPerWarp & 1);
    }

    // Computes the total number of bytes, and the position of each run.
    __device__ __forceinline__ u32 measure(const Key* keys, bool marks_zeros) const {
        const u32 lane = lane_id();
        u32 own = 0;
        if (threadIdx.x < n_runs() && is_coded(threadIdx.x, marks_zeros)) {
            const uint4* const units = reinterpret_cast<const uint4*>(keys + threadIdx.x * kRun);
#pragma unroll
            for (u32 u = 0; u < kRun * sizeof(Key) / kUnitBytes; ++u) {
                const uint4 unit = units[u];
                const u32 words[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
                for (u32 k = 0; k < 4 * kPerWord; ++k) own += state.entries[words[k / kPerWord] >> k % kPerWord * (8 * sizeof(Key)) & low_bits(0u, 8 * sizeof(Key))] >> 24;
            }
        }
        state.run_bits[threadIdx.x] = own;
        __syncthreads();
        if (threadIdx.x < kWarp) {
            // Each lane has one string.
            const u32 per_string = runs_per_string(), first = min(lane * per_string, n_runs()), last = min(first + per_string, n_runs());
            u32 bits = 0;
#pragma unroll 1
            for (u32 run = first; run < last; ++run) bits += state.run_bits[run];
            const u32 bytes = (bits + 7) / 8, least = warp_min_unsigned(bytes), most = warp_max_unsigned(bytes), end = warp_inclusive_sum(bytes), n_bytes = __shfl_sync(kAllLanes, end, kWarp - 1);
            state.string_bytes[lane] = bytes;
            u32 at = 8 * (end - bytes);
#pragma unroll 1
            for (u32 run = first; run < last; ++run) {
                const u32 next = at + state.run_bits[run];
                state.run_bits[run] = at;
                at = next;
            }
            // Symbols that have a code in any context.
            u32 lowest = kSymbols, highest = 0;
#pragma unroll
            for (u32 k = 0; k < kRounds; ++k) {
                const u32 symbol = k * kWarp + lane;
                bool has_code = false;
#pragma unroll
                for (u32 c = 0; c < kContexts; ++c) has_code |= symbol < kSymbols && state.entries[c * kSymbols + min(symbol, kSymbols - 1)] != 0;
                if (has_code) lowest = min(lowest, symbol), highest = max(highest, symbol);
            }
            highest = warp_max_unsigned(highest), lowest = min(warp_min_unsigned(lowest), highest);
            if (lane == 0) {
                state.lowest = lowest, state.highest = highest;
                state.least_bytes = least, state.field_bits = bit_length(most - least);
                state.n_bytes = strings_at(marks_zeros, lowest, highest) + n_bytes;
            }
        }
        __syncthreads();
        return state.n_bytes;
    }
    // Byte offsets of the code lengths and of the strings.
    __device__ __forceinline__ u32 lengths_at(bool marks_zeros) const { return kHuffHeader + (marks_zeros ? (n_runs() + 7) / 8 : 0); }
    __device__ __forceinline__ u32 strings_at(bool marks_zeros, u32 lowest, u32 highest) const {
        return lengths_at(marks_zeros) + kContexts / 2 * (highest - lowest + 1) + kStrings / 8 * state.field_bits;
    }

    // ORs all sections into zeros, from byte `begin` of the stage on, which is a multiple of 4.
    __device__ __forceinline__ void write(unsigned char* stage, u32 begin) const {
        const u32 pivot = state.pivot;
        const bool marks_zeros = state.marks_zeros;
        const u32 words = shared_address(stage), lowest = state.lowest, highest = state.highest, t = threadIdx.x;
        const u32 lengths = begin + lengths_at(marks_zeros), strings = begin + strings_at(marks_zeros, lowest, highest);
        const u32 least = state.least_bytes, field_bits = state.field_bits;
        if (t == 0) {
            or_shared(words + begin, lowest | highest << 8 | pivot << 16 | field_bits << 24 | static_cast<u32>(marks_zeros) << 31);
            or_shared(words + begin + 4, least);
        }
        if (marks_zeros && t < kWarps) add_bits(words, 8 * (begin + kHuffHeader) + t * kRunsPerWarp, state.zero_runs[t]);
        const u32 n_symbols = highest - lowest + 1;
        for (u32 key = t; key < kContexts * kSymbols; key += kThreads) {
            const u32 context = key / kSymbols, symbol = key % kSymbols, length = state.entries[key] >> 16 & 0xff;
            if (length > 0) add_bits(words, 8 * lengths + 4 * (context * n_symbols + symbol - lowest), length);
        }
        if (t < kStrings) add_bits(words, 8 * strings - (kStrings - t) * field_bits, state.string_bytes[t] - least);
        for_runs(pivot, [&](u32 run, const Number (&two)[2]) {
            // One prefix sum gives the bits before the lane's number in both runs.
            u32 entries[2], widths = 0;
            bool are_written[2];
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                entries[k] = state.entries[two[k].symbol + kSymbols * two[k].context];
                are_written[k] = two[k].exists && is_coded(run + k, marks_zeros);
                widths |= (two[k].exists ? entries[k] >> 24 : 0) << 16 * k;
            }
            const u32 before = warp_inclusive_sum(widths) - widths;
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                if (!are_written[k]) continue;
                const u32 code = entries[k] & 0xffff, code_bits = entries[k] >> 16 & 0xff, n_low = (entries[k] >> 24) - code_bits;
                const u32 at = 8 * strings + state.run_bits[run + k] + (before >> 16 * k & 0xffff);
                add_number(words, at, code, code_bits, two[k].value & ~(~W(0) << n_low));
            }
        });
    }
    // ORs a code at bit `at`, followed by `low`, the number's bits below its highest one.
    static __device__ __forceinline__ void add_number(u32 words, u32 at, u32 code, u32 code_bits, u32 low) {
        // The bits are in three words at most.
        const u32 first = code | low << code_bits, second = __funnelshift_l(low, 0, code_bits);
        words += at / 32 * 4;
        or_shared(words, first << at % 32);
        const u32 behind = __funnelshift_l(first, second, at), last = __funnelshift_l(second, 0, at);
        if (behind) or_shared(words + 4, behind);
        if (unlikely(last)) or_shared(words + 8, last);
    }
    static __device__ __forceinline__ void add_number(u32 words, u32 at, u32 code, u32 code_bits, u64 low) {
        add_bits(words, at, code);
        add_bits(words, at + code_bits, low);
    }
};
