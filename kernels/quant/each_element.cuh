// Converts the elements of any block to numbers one by one: codes or words, minus the first one.
// Called by all threads of a CTA.

#pragma once

#include "block_work.cuh"
#include "exceptions.cuh"
#include "quantize.cuh"

template <typename W>
struct EachElement {
    const Quantizer<W>& quantizer;
    const Finder& elements;
    const char* const array;
    const Element& element;
    const bool swaps, has_missing;
    const Missing& missing;
    const u32 m;

    __device__ __forceinline__ W word(u32 i) const { return load_element<W>(elements.find(array, i, element.bytes), element, swaps); }
    // Returns the number of the first element, and sets `first_word`.
    __device__ __forceinline__ W first(bool are_codes, W& first_word) const {
        first_word = word(0);
        return are_codes ? quantizer.code(first_word).code : first_word;
    }

    // Calls `put(i, number)` for each element, which returns Found flags. For codes, also writes
    // two bitmaps of `n_bitmap_words` words each: `uncoded` marks elements that have no code,
    // `outliers` elements that violate the bound. Returns the thread's Found flags.
    template <u32 kWarps, typename Put>
    __device__ __forceinline__ u32 load(bool are_codes, W first_word, W first, u32* uncoded, u32* outliers, u32 n_bitmap_words, Put put) const {
        u32 found = 0;
#pragma unroll 1
        for (u32 k = threadIdx.x / kWarp; k < n_bitmap_words; k += kWarps) {
            const u32 i = k * 32 + lane_id();
            bool is_uncoded = false, is_beyond = false;
            if (i < m) {
                const W word = this->word(i);
                W number = word;
                if (are_codes) {
                    const Coded<W> coded = has_missing ? quantizer.code_beside(missing, word) : quantizer.code(word);
                    number = coded.code;
                    is_uncoded = !coded.is_coded, is_beyond = coded.is_coded && !coded.is_within;
                }
                number -= first;
                found |= put(i, number) | (word != first_word ? kWordsDiffer : 0) | (number != 0 ? kCodesDiffer : 0);
            }
            if (!are_codes) continue;
            const u32 uncoded_here = __ballot_sync(kAllLanes, is_uncoded), outliers_here = __ballot_sync(kAllLanes, is_beyond);
            if (lane_id() == 0) uncoded[k] = uncoded_here, outliers[k] = outliers_here;
            found |= (uncoded_here ? kUncoded : 0) | (outliers_here ? kOutside : 0);
        }
        return found;
    }
};
