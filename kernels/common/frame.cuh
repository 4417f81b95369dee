// Reads and writes frames: the header before every payload, and stored payloads (the array's bytes
// verbatim). The host prepares the header fields that do not depend on the payload (FrameForm).

#pragma once

#include "checksum.cuh"
#include "types.cuh"
#include "warp.cuh"

// Words of a header that depend on the payload: its length, its checksum and the header's CRC.
constexpr u32 kLengthWord = 4, kChecksumWord = 6, kCrcWord = 8;

// The value of a header word. `fields` are bytes 16 to 31 of the header.
__device__ __forceinline__ u32 header_word(const FrameForm& form, u32 word, ulonglong2 fields, u32 crc) {
    if (word == kCrcWord) return crc;
    if (word < kLengthWord || word > kCrcWord) return form.words[word];
    const u64 field = word < kChecksumWord ? fields.x : fields.y;
    return static_cast<u32>(field >> word % 2 * 32);
}

// Computes the CRC-32C of the header, whose bytes 16 to 31 are `fields`. Called by a warp.
__device__ __forceinline__ u32 header_crc(const FrameForm& form, ulonglong2 fields) {
    constexpr u32 kBits = 128 / kWarp;
    const u32 first = lane_id() * kBits;
    const u64 field = first < 64 ? fields.x : fields.y;
    u32 crc = 0;
    for (u32 i = 0; i < kBits; ++i) {
        if (field >> (first + i) % 64 & 1) crc ^= form.crc_of_bit[first + i];
    }
#pragma unroll
    for (u32 step = kWarp / 2; step > 0; step /= 2) crc ^= __shfl_xor_sync(kAllLanes, crc, step);
    return form.crc ^ crc;
}

// Writes the header of a frame. Called by a warp.
__device__ __forceinline__ void write_header(const FrameForm& form, void* frame, u64 payload_bytes, u64 checksum) {
    const ulonglong2 fields = make_ulonglong2(payload_bytes, checksum);
    const u32 crc = header_crc(form, fields);
    for (u32 word = lane_id(); word < form.n_bytes / 4; word += kWarp) {
        static_cast<u32*>(frame)[word] = header_word(form, word, fields, crc);
    }
}

// Compares the header of a frame with the expected one. Called by a warp. All bytes of the header
// must be readable.
__device__ __forceinline__ Status check_header(const FrameForm& form, const void* frame, u64 payload_bytes, u64 checksum,
                                               bool with_checksum) {
    const u32* const words = static_cast<const u32*>(frame);
    const auto field = [=](u32 word) { return static_cast<u64>(words[word + 1]) << 32 | words[word]; };
    const ulonglong2 fields = make_ulonglong2(field(kLengthWord), field(kChecksumWord));
    const u32 crc = header_crc(form, fields);
    bool differs = false;
    for (u32 word = lane_id(); word < form.n_bytes / 4; word += kWarp) {
        differs |= words[word] != header_word(form, word, fields, crc);
    }
    if (__any_sync(kAllLanes, differs)) return kCorrupt;
    if (fields.x != payload_bytes) return fields.x > payload_bytes ? kTruncated : kCorrupt;
    return with_checksum && fields.y != checksum ? kCorrupt : kOk;
}

// The payload length stored in a frame's header.
__device__ __forceinline__ u64 header_payload_bytes(const void* frame) {
    const u32* const words = static_cast<const u32*>(frame);
    return static_cast<u64>(words[kLengthWord + 1]) << 32 | words[kLengthWord];
}

// True if the payload is stored, according to the codec in the header's second word.
__device__ __forceinline__ bool is_stored(const FrameForm& stored, const void* frame) {
    return static_cast<const u32*>(frame)[1] == stored.words[1];
}

// Alignment of an array. kWords: address and length are multiples of 4 bytes. kBytes: they are
// arbitrary.
enum class Pieces : u32 { kWords, kBytes };

// Loads the word at `from`. `n_bytes`: bytes of the array from there on; bytes past the end are 0.
template <Pieces kPieces>
__device__ __forceinline__ u32 load_word(const unsigned char* from, u32 n_bytes) {
    u32 word = 0;
    if (kPieces == Pieces::kWords || (reinterpret_cast<u64>(from) % 4 == 0 && n_bytes >= 4)) {
        word = *reinterpret_cast<const u32*>(from);
    } else {
        for (u32 i = 0; i < 4 && i < n_bytes; ++i) word |= static_cast<u32>(from[i]) << 8 * i;
    }
    return word;
}
template <Pieces kPieces>
__device__ __forceinline__ void store_word(unsigned char* to, u32 n_bytes, u32 word) {
    if (kPieces == Pieces::kWords || (reinterpret_cast<u64>(to) % 4 == 0 && n_bytes >= 4)) {
        *reinterpret_cast<u32*>(to) = word;
    } else {
        for (u32 i = 0; i < 4 && i < n_bytes; ++i) to[i] = static_cast<unsigned char>(word >> 8 * i);
    }
}

// Destination of a copy.
enum class Towards : u32 { kArray, kPayload };

// Parameters of copy_stored: number of cooperating threads, loads in flight per thread, direction,
// array alignment.
template <u32 threads, u32 batch, Towards towards, Pieces pieces>
struct StoredCopy {
    static constexpr u32 kThreads = threads, kBatch = batch;
    static constexpr bool kToArray = towards == Towards::kArray;
    static constexpr Pieces kPieces = pieces;
};

// Copies bytes [first, first + n) between the array and the payload of a stored frame, and adds the
// payload's sums. `thread` is the calling thread's index, from 0. `first` is a multiple of 16. The
// payload is aligned to 16 bytes; the array need not be.
template <typename How>
__device__ __forceinline__ void copy_stored(u32 thread, unsigned char* array, unsigned char* payload, u64 first, u32 n, Sums& sums) {
    constexpr u32 kThreads = How::kThreads, kBatch = How::kBatch;
    unsigned char* const from = (How::kToArray ? payload : array) + first;
    unsigned char* const to = (How::kToArray ? array : payload) + first;
    const u32 n_units = reinterpret_cast<u64>(array) % kUnitBytes == 0 ? n / kUnitBytes : 0;
    UnitSums<kThreads> unit_sums(first / 4 + 4 * thread);
    for (u32 u = thread; u < n_units; u += kBatch * kThreads) {
        uint4 units[kBatch];
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            if (u + j * kThreads < n_units) units[j] = reinterpret_cast<const uint4*>(from)[u + j * kThreads];
        }
#pragma unroll
        for (u32 j = 0; j < kBatch; ++j) {
            if (u + j * kThreads >= n_units) continue;
            store_global_16(to + kUnitBytes * (u + j * kThreads), units[j]);
            unit_sums.add(units[j]);
        }
    }
    unit_sums.finish(sums);
    const u32 n_words = (n + 3) / 4, first_word = 4 * n_units + thread;
    StridedSums<kThreads> word_sums(first / 4 + first_word);
#pragma unroll 4
    for (u32 w = first_word; w < n_words; w += kThreads) {
        const u32 word = load_word<How::kPieces>(from + 4 * w, n - 4 * w);
        store_word<How::kPieces>(to + 4 * w, n - 4 * w, word);
        word_sums.add(word);
    }
    word_sums.finish(first / 4 + first_word, sums);
}
