// Marks, a bit for each of many numbers, read: from what is coded of them to words of 32 bits in shared memory, which say of
// any number whether it is marked, and how many before it are.
//
// Coded are a bit for each word, set if the word is not 0; four bits for each of those words, one a byte, set if the byte is
// not 0; and these bytes. So counts of bits say where a word's bytes are. Every warp finds all counts by itself, with three
// scans, and then makes 32 words at a time without waiting for other warps.
//
// Changes, each of which is a mark XOR the one a distance before it, are undone in few steps: the string becomes itself XOR
// itself shifted by the distance, then by twice as much, and so on, as long as anything is left of it.

#pragma once

#include "../common/warp.cuh"
#include "unpack.cuh"
#include "words.cuh"

constexpr u32 kMarksPerWord = 32;
constexpr u32 kSparseHeader = 4;  // bytes in front of the marks of sparse numbers

// Strings of coded marks, by a warp: lane j has bits 32·j to 32·j + 31 of the first string, and of the second the same and
// those 1024 bits behind them. That is enough for 2^14 numbers.
struct CodedMarks {
    const u32* string;
    u32 n_words;                       // of the marks
    u32 words, words_before;           // which words are not 0; how many of them are before
    u32 bytes[2], bytes_before[2];     // which bytes of these are not 0
    u32 values;                        // where these bytes begin
    u32 n_bytes;                       // of all strings
    bool is_sound;

    // Marks of n numbers, of which there are `available` bytes from `from`, which is aligned to 4.
    __device__ __forceinline__ CodedMarks(const unsigned char* from, u32 available, u32 n)
        : string(reinterpret_cast<const u32*>(from)), n_words((n + kMarksPerWord - 1) / kMarksPerWord), values(0), n_bytes((n_words + 7) / 8),
          is_sound(n_bytes <= available) {
        if (!is_sound) return;
        u32 n_present, n_values = 0;
        words = load(0, n_words, lane_id());
        words_before = bits_before(words, n_present);
        const u32 second = n_bytes;
        n_bytes += (n_present + 1) / 2;
        is_sound = n_bytes <= available;
        if (!is_sound) return;
        values = n_bytes;
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            bytes[k] = load(second * 8, n_present * 4, k * kWarp + lane_id());
            u32 n;
            bytes_before[k] = n_values + bits_before(bytes[k], n);
            n_values += n;
        }
        n_bytes += n_values;
        is_sound = n_bytes <= available;
    }

    // Word i of a string of n bits, which begins at bit `at`.
    __device__ __forceinline__ u32 load(u32 at, u32 n, u32 i) const {
        return i * 32 < n ? load_bits(string, at + i * 32, min(n - i * 32, 32u), 0u) : 0;
    }
    // How many bits are set in the words of the lanes before, and in all.
    static __device__ __forceinline__ u32 bits_before(u32 word, u32& all) {
        const u32 n = __popc(word), through = warp_inclusive_sum(n);
        all = __shfl_sync(kAllLanes, through, kWarp - 1);
        return through - n;
    }

    // Word 32·i + j of the marks, by lane j.
    __device__ __forceinline__ u32 word(u32 i) const {
        const u32 present = __shfl_sync(kAllLanes, words, i);
        // The word's four bits are in a lane's words of the second string.
        const u32 number = __shfl_sync(kAllLanes, words_before, i) + __popc(present & lanes_below()), lane = number / 8 % kWarp;
        const u32 low = __shfl_sync(kAllLanes, bytes[0], lane), high = __shfl_sync(kAllLanes, bytes[1], lane);
        const u32 low_before = __shfl_sync(kAllLanes, bytes_before[0], lane), high_before = __shfl_sync(kAllLanes, bytes_before[1], lane);
        if (!(present >> lane_id() & 1)) return 0;
        const bool is_high = number / 8 >= kWarp;
        const u32 fours = is_high ? high : low, at = number % 8 * 4, own = fours >> at & 0xf;
        if (own == 0) return 0;
        const u32 before = (is_high ? high_before : low_before) + __popc(fours & low_bits(0u, at));
        u32 left = load_bits(string, (values + before) * 8, __popc(own) * 8, 0u), word = 0;
#pragma unroll
        for (u32 b = 0; b < 4; ++b) {
            if (!(own >> b & 1)) continue;
            word |= (left & 0xff) << b * 8;
            left >>= 8;
        }
        return word;
    }
};

// Marks of up to kNumbers numbers in shared memory, by all kThreads threads of a CTA.
template <u32 kNumbers, u32 kThreads>
struct Marks {
    static constexpr u32 kWords = kNumbers / kMarksPerWord, kWarps = kThreads / kWarp;
    static_assert(kNumbers <= 1 << 14, "what a warp has of coded marks");

    u32 words[kWords];
    unsigned short before[kWords];  // how many are marked before a word's

    static __device__ __forceinline__ u32 n_words(u32 n) { return (n + kMarksPerWord - 1) / kMarksPerWord; }

    // Word i of the marks of n numbers; is false if numbers behind the last one are marked.
    __device__ __forceinline__ bool put(u32 i, u32 n, u32 word) {
        const u32 possible = low_bits(0u, min(n - i * kMarksPerWord, kMarksPerWord));
        words[i] = word & possible;
        return (word & ~possible) == 0;
    }

    // Reads coded marks, or words as they are. Both are false in some thread if numbers behind the last one are marked.
    __device__ __forceinline__ bool read(const CodedMarks& coded, u32 n) {
        bool is_sound = true;
#pragma unroll 1
        for (u32 i = threadIdx.x / kWarp; i * kWarp < n_words(n); i += kWarps) {
            const u32 own = i * kWarp + lane_id(), word = coded.word(i);
            if (own < n_words(n)) is_sound &= put(own, n, word);
        }
        return is_sound;
    }
    __device__ __forceinline__ bool read(const u32* from, u32 n) {
        bool is_sound = true;
#pragma unroll 1
        for (u32 i = threadIdx.x; i < n_words(n); i += kThreads) is_sound &= put(i, n, from[i]);
        return is_sound;
    }

    // Undoes changes over this distance.
    __device__ __forceinline__ void undo_changes(u32 n, u32 distance) {
        constexpr u32 kOwn = (kWords + kThreads - 1) / kThreads;
#pragma unroll 1
        for (u32 shift = distance; shift < n; shift *= 2) {
            const u32 whole = shift / kMarksPerWord;
            u32 changed[kOwn];
            __syncthreads();
#pragma unroll
            for (u32 k = 0; k < kOwn; ++k) {
                const u32 i = k * kThreads + threadIdx.x;
                if (i >= n_words(n)) continue;
                const u32 low = i > whole ? words[i - whole - 1] : 0, high = i >= whole ? words[i - whole] : 0;
                changed[k] = words[i] ^ __funnelshift_l(low, high, shift);
            }
            __syncthreads();
#pragma unroll
            for (u32 k = 0; k < kOwn; ++k) {
                const u32 i = k * kThreads + threadIdx.x;
                if (i < n_words(n)) put(i, n, changed[k]);
            }
        }
    }

    // Counts the marks of n numbers. Is true, in all threads, if there are `expected` ones, and if `is_sound` is true in all.
    __device__ __forceinline__ bool count(u32 n, u32 expected, bool is_sound) {
        __syncthreads();
        if (threadIdx.x < kWarp) {
            u32 sum = 0;
#pragma unroll 1
            for (u32 first = 0; first < n_words(n); first += kWarp) {
                const u32 i = first + lane_id();
                u32 all;
                const u32 in_lanes_before = CodedMarks::bits_before(i < n_words(n) ? words[i] : 0, all);
                if (i < n_words(n)) before[i] = static_cast<unsigned short>(sum + in_lanes_before);
                sum += all;
            }
            is_sound &= sum == expected;
        }
        return __syncthreads_and(is_sound);
    }

    // Whether number 32·i + j is marked, in lane j, and how many before it are.
    __device__ __forceinline__ bool has(u32 i) const { return words[i] >> lane_id() & 1; }
    __device__ __forceinline__ u32 n_before(u32 i) const { return before[i] + __popc(words[i] & lanes_below()); }
};
