// Conversion between array elements and words of 32 or 64 bits.

#pragma once

#include "bits.cuh"
#include "types.cuh"

// The type of the array's elements, from the header that the host has prepared.
struct Element {
    u32 bytes;
    bool is_float;   // float32 or float64
    bool is_signed;  // signed integers are sign-extended to words

    __device__ __forceinline__ explicit Element(const FrameForm& form) {
        const u32 type = form.words[2] & 0xff;
        bytes = form.words[3];
        is_float = type == 11 || type == 12;
        is_signed = type > 4;
    }
};

// Converts an element to a word, which is at least as long. Swaps the element's bytes if `swaps`.
template <typename W>
__device__ __forceinline__ W word_of_element(u64 word, const Element&, bool swaps) { return swaps ? swapped_bytes(word) : word; }
template <typename W>
__device__ __forceinline__ W word_of_element(u32 word, const Element&, bool swaps) { return swaps ? swapped_bytes(word) : word; }
template <typename W>
__device__ __forceinline__ W word_of_element(unsigned short bytes, const Element& element, bool swaps) {
    const u32 word = swaps ? __byte_perm(bytes, 0, 0x4401) : bytes;
    return element.is_signed ? static_cast<u32>(static_cast<s32>(static_cast<short>(word))) : word;
}
template <typename W>
__device__ __forceinline__ W word_of_element(unsigned char byte, const Element& element, bool) {
    return element.is_signed ? static_cast<u32>(static_cast<s32>(static_cast<signed char>(byte))) : byte;
}

// Loads the element at `from` as a word.
template <typename W>
__device__ __forceinline__ W load_element(const void* from, const Element& element, bool swaps) {
    if (sizeof(W) == 8 || element.bytes == 4) return word_of_element<W>(*static_cast<const W*>(from), element, swaps);
    if (element.bytes == 2) return word_of_element<W>(*static_cast<const unsigned short*>(from), element, swaps);
    return word_of_element<W>(*static_cast<const unsigned char*>(from), element, swaps);
}

template <typename W>
__device__ __forceinline__ void store_element(void* to, const Element& element, bool swaps, W word) {
    if (sizeof(W) == 8 || element.bytes == 4) {
        *static_cast<W*>(to) = swaps ? swapped_bytes(word) : word;
    } else if (element.bytes == 2) {
        *static_cast<unsigned short*>(to) = static_cast<unsigned short>(swaps ? __byte_perm(static_cast<u32>(word), 0, 0x4401) : word);
    } else {
        *static_cast<unsigned char*>(to) = static_cast<unsigned char>(word);
    }
}
