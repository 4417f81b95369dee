// Reads a bitmap that marks some of many numbers, and decodes it to 32-bit words in shared memory.
// For any number, these words give whether it is marked, and how many marked numbers precede it.
//
// The coded bitmap consists of three strings: one bit per word, set if the word is not 0; four bits
// for each nonzero word, one per byte, set if the byte is not 0; and the nonzero bytes. So counts
// of bits locate a word's bytes. Every warp computes all counts by itself, with a few prefix sums.
// Then it decodes 32 words at a time without waiting for other warps.
//
// The bitmap may be coded as changes: each bit XOR the bit `distance` before it. To undo this, the
// string is XORed with itself shifted by the distance, then by twice the distance, and so on, until
// the shift exceeds the string.

#pragma once

#include "../common/warp.cuh"
#include "unpack.cuh"
#include "words.cuh"

constexpr u32 kBitmapWordBits = 32;
constexpr u32 kSparseHeader = 4;  // bytes before the bitmap of sparse numbers

// Number of bits set in the words of the preceding lanes, and in all words.
__device__ __forceinline__ u32 bits_before(u32 word, u32& all) {
    const u32 n = __popc(word), through = warp_inclusive_sum(n);
    all = __shfl_sync(kAllLanes, through, kWarp - 1);
    return through - n;
}

// A coded bitmap of up to kNumbers numbers, distributed over a warp. Lane j has words j, j + 32, …
// of the first and of the second string.
template <u32 kNumbers = 1 << 14>
struct CodedBitmap {
    static constexpr u32 kStringWord = 32, kBitmapWords = kNumbers / kBitmapWordBits;
    static constexpr u32 kFirst = (kBitmapWords + kStringWord * kWarp - 1) / (kStringWord * kWarp);
    static constexpr u32 kSecond = (4 * kBitmapWords + kStringWord * kWarp - 1) / (kStringWord * kWarp);

    const u32* string;
    u32 n_words;                                     // words of the bitmap
    u32 words[kFirst], words_before[kFirst];         // first string; set bits before its words
    u32 bytes[kSecond], bytes_before[kSecond];       // second string; set bits before its words
    u32 values;                                      // byte offset of the nonzero bytes
    u32 n_bytes;                                     // total of all strings
    bool is_sound;

    // Reads the coded bitmap of n numbers from `available` bytes at `from`, which is aligned to 4.
    __device__ __forceinline__ CodedBitmap(const unsigned char* from, u32 available, u32 n)
        : string(reinterpret_cast<const u32*>(from)), n_words((n + kBitmapWordBits - 1) / kBitmapWordBits), values(0), n_bytes((n_words + 7) / 8),
          is_sound(n_bytes <= available) {
        if (!is_sound) return;
        u32 n_present = 0, n_values = 0;
#pragma unroll
        for (u32 k = 0; k < kFirst; ++k) {
            words[k] = load(0, n_words, k * kWarp + lane_id());
            words_before[k] = before(words[k], n_present);
        }
        const u32 second = n_bytes;
        n_bytes += (n_present + 1) / 2;
        is_sound = n_bytes <= available;
        if (!is_sound) return;
        values = n_bytes;
#pragma unroll
        for (u32 k = 0; k < kSecond; ++k) {
            bytes[k] = load(second * 8, n_present * 4, k * kWarp + lane_id());
            bytes_before[k] = before(bytes[k], n_values);
        }
        n_bytes += n_values;
        is_sound = n_bytes <= available;
    }

    // Word i of a string of n bits that begins at bit `at`.
    __device__ __forceinline__ u32 load(u32 at, u32 n, u32 i) const {
        return i * 32 < n ? load_bits(string, at + i * 32, min(n - i * 32, 32u), 0u) : 0;
    }
    // Returns `sum` plus the number of bits set in the words of the preceding lanes. Adds the
    // number of bits set in all lanes to `sum`.
    static __device__ __forceinline__ u32 before(u32 word, u32& sum) {
        u32 all;
        const u32 n = sum + bits_before(word, all);
        sum += all;
        return n;
    }
    // Element i / 32 of the array of lane i % 32.
    template <u32 kN>
    static __device__ __forceinline__ u32 of_lane(const u32 (&of_all)[kN], u32 i) {
        u32 value = 0;
#pragma unroll
        for (u32 k = 0; k < kN; ++k) {
            const u32 own = __shfl_sync(kAllLanes, of_all[k], i % kWarp);
            if (i / kWarp == k) value = own;
        }
        return value;
    }

    // Word 32·i + j of the bitmap, in lane j.
    __device__ __forceinline__ u32 word(u32 i) const {
        const u32 present = of_lane(words, i);
        // The word's four bits are in some lane's words of the second string.
        const u32 number = of_lane(words_before, i) + __popc(present & lanes_below());
        const u32 fours = of_lane(bytes, number / 8), fours_before = of_lane(bytes_before, number / 8);
        if (!(present >> lane_id() & 1)) return 0;
        const u32 at = number % 8 * 4, own = fours >> at & 0xf;
        if (own == 0) return 0;
        const u32 before = fours_before + __popc(fours & low_bits(0u, at));
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

// A bitmap of up to kNumbers numbers in shared memory. Used by all kThreads threads of a CTA.
template <u32 kNumbers, u32 kThreads>
struct Bitmap {
    static constexpr u32 kWords = kNumbers / kBitmapWordBits, kWarps = kThreads / kWarp;

    u32 words[kWords];
    unsigned short before[kWords];  // number of marked numbers before each word

    static __device__ __forceinline__ u32 n_words(u32 n) { return (n + kBitmapWordBits - 1) / kBitmapWordBits; }

    // Sets word i of the bitmap of n numbers. Returns false if numbers past the last one are
    // marked.
    __device__ __forceinline__ bool put(u32 i, u32 n, u32 word) {
        const u32 possible = low_bits(0u, min(n - i * kBitmapWordBits, kBitmapWordBits));
        words[i] = word & possible;
        return (word & ~possible) == 0;
    }

    // Reads a coded bitmap, or words stored verbatim. Both return false in at least one thread if
    // numbers past the last one are marked.
    template <u32 kMost>
    __device__ __forceinline__ bool read(const CodedBitmap<kMost>& coded, u32 n) {
        static_assert(kNumbers <= kMost, "what a warp has of coded marks");
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

    // Undoes the coding as changes over `distance`.
    __device__ __forceinline__ void undo_changes(u32 n, u32 distance) {
        constexpr u32 kOwn = (kWords + kThreads - 1) / kThreads;
#pragma unroll 1
        for (u32 shift = distance; shift < n; shift *= 2) {
            const u32 whole = shift / kBitmapWordBits;
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

    // Computes `before`. Returns true in all threads if `expected` numbers are marked and
    // `is_sound` is true in all threads.
    __device__ __forceinline__ bool count(u32 n, u32 expected, bool is_sound) {
        __syncthreads();
        if (threadIdx.x < kWarp) {
            u32 sum = 0;
#pragma unroll 1
            for (u32 first = 0; first < n_words(n); first += kWarp) {
                const u32 i = first + lane_id();
                u32 all;
                const u32 in_lanes_before = bits_before(i < n_words(n) ? words[i] : 0, all);
                if (i < n_words(n)) before[i] = static_cast<unsigned short>(sum + in_lanes_before);
                sum += all;
            }
            is_sound &= sum == expected;
        }
        return __syncthreads_and(is_sound);
    }

    // In lane j: whether number 32·i + j is marked, and how many marked numbers precede it.
    __device__ __forceinline__ bool has(u32 i) const { return words[i] >> lane_id() & 1; }
    __device__ __forceinline__ u32 n_before(u32 i) const { return before[i] + __popc(words[i] & lanes_below()); }
};
