// Decompression in one pass, with one CTA per block (stage/flat_tile.cuh).
//
//   1. All threads sum up the bytes of the block, and build the table of its codes
//      (stage/section.cuh).
//   2. The first warp decodes a batch of rows at a time. Each lane then has consecutive numbers: it adds
//      up differences and stores elements. The other warp waits.

#pragma once

#include "../stage/flat_tile.cuh"
#include "../stage/section.cuh"
#include "layout.cuh"

constexpr u32 kHuffmanThreads = 64, kHuffmanWarps = kHuffmanThreads / kWarp;

template <typename T>
struct HuffmanShared {
    SectionTables<T> tables;
    CtaSums<kHuffmanWarps> sums;
};

template <typename T, bool kPart>
struct HuffmanDecompressor : FlatTile<HuffmanDecompressor<T, kPart>, T, kHuffmanThreads, kPart> {
    using Base = FlatTile<HuffmanDecompressor, T, kHuffmanThreads, kPart>;
    using Symbol = Symbols<T>;
    using Base::args, Base::array, Base::block, Base::check_units, Base::kBytes;

    // Numbers of a lane in a batch.
    static constexpr u32 kPerLane = kBatchRows * kRow / kWarp;

    HuffmanShared<T>& shared;

    __device__ __forceinline__ HuffmanDecompressor(const DecompressArgs<Flat>& args, HuffmanShared<T>& shared)
        : Base(args, shared.sums), shared(shared) {}

    __device__ __forceinline__ u32 decode(const unsigned char* source, u32 block_bytes, u32 m, bool is_checked) const {
        const u32 kind = *reinterpret_cast<const u32*>(source);
        if (kind == kRawBlock) {
            const u32 damage = check_units(static_cast<u64>(m) * kBytes + kBlockHead, block_bytes);
            if (damage == 0) store_raw(source + kBlockHead, m);
            return damage;
        }
        if (kind == kConstBlock) {
            const u32 damage = check_units(kBytes + kBlockHead, block_bytes), element = *reinterpret_cast<const T*>(source + kBlockHead);
            if (damage == 0) {
                for (u32 i = threadIdx.x; i < m; i += kHuffmanThreads) store(i, element);
            }
            return damage;
        }
        const bool has_codes = (kind & ~0x100u) == kCodesBlock;
        return has_codes ? decode_section(source + kBlockHead, block_bytes, m, kind >> 8) : Base::unknown(is_checked);
    }

    // Decodes the section at `from` in a block of `block_bytes` bytes. Thread 0 returns a damage
    // code, or 0 if the section is sound.
    __device__ __forceinline__ u32 decode_section(const unsigned char* from, u32 block_bytes, u32 m, bool are_differences) const {
        const SectionHead head(reinterpret_cast<const u32*>(from));
        const u32 n_rows = (m + kWarp - 1) / kWarp;
        if (head.lowest + head.n_symbols > Symbol::kCount || head.tail_bytes > block_bytes) return kMarkCorrupt;
        if (const u32 damage = check_units(static_cast<u64>(head.tails(n_rows)) + head.tail_bytes + kBlockHead, block_bytes)) return damage;
        shared.tables.template read<kHuffmanThreads>(head, from + head.lengths(n_rows));
        if (!shared.tables.is_sound) return kMarkCorrupt;
        if (warp_id() > 0) return 0;
        u32 before = 0;
        const bool is_sound = read_batches<T>(shared.tables, head, from, m, [&](u32 first, u32) {
            take(first + lane_id() * kPerLane, m, are_differences, before);
        });
        return is_sound ? 0 : kMarkCorrupt;
    }

    // Stores the lane's numbers of a batch, from index i on. `before`: the element before the batch.
    // Called by a warp.
    __device__ __forceinline__ void take(u32 i, u32 m, bool are_differences, u32& before) const {
        const uint4 symbols = load_shared_16(shared_address(shared.tables.symbols) + 2 * kPerLane * lane_id());
        const u32 pairs[] = {symbols.x, symbols.y, symbols.z, symbols.w};
        u32 of[kPerLane];
#pragma unroll
        for (u32 k = 0; k < kPerLane; ++k) of[k] = k % 2 ? pairs[k / 2] >> 16 : pairs[k / 2] & 0xffff;
        static_assert(!Symbol::kHasTails || Symbol::kCount < 2 * kDirectSymbols, "the highest bit of a symbol is set if there is a tail");
        constexpr u32 kTails = kDirectSymbols | kDirectSymbols << 16;
        if (Symbol::kHasTails && unlikely(__any_sync(kAllLanes, (symbols.x | symbols.y | symbols.z | symbols.w) & kTails))) {
            TailBits& tails = shared.tables.tails;
            u32 n = 0;
#pragma unroll
            for (u32 k = 0; k < kPerLane; ++k) n += i + k < m ? Symbol::tail_bits(of[k]) : 0;
            u32 at = tails.reserve(n);
#pragma unroll
            for (u32 k = 0; k < kPerLane; ++k) {
                // One number after the other: all at once would take too many registers.
                launder(at), launder(of[k]);
                const u32 n_tail = i + k < m ? Symbol::tail_bits(of[k]) : 0;
                of[k] = Symbol::above_tail(of[k]) << n_tail | tails.read(at, n_tail);
                at += n_tail;
            }
        }
        if (are_differences || args.own.flag()) {
#pragma unroll
            for (u32 k = 0; k < kPerLane; ++k) of[k] = Symbol::unfold_sign(of[k]);
        }
        if (are_differences) {
#pragma unroll
            for (u32 k = 1; k < kPerLane; ++k) of[k] += of[k - 1];
            const u32 through = before + warp_inclusive_sum(of[kPerLane - 1]), begin = through - of[kPerLane - 1];
#pragma unroll
            for (u32 k = 0; k < kPerLane; ++k) of[k] += begin;
            before = __shfl_sync(kAllLanes, through, kWarp - 1);
        }
        store(i, m, of);
    }
    // Stores kPerLane elements from i on, which is a multiple of kPerLane.
    __device__ __forceinline__ void store(u32 i, u32 m, const u32 (&of)[kPerLane]) const {
        T* const to = reinterpret_cast<T*>(array) + (static_cast<u64>(block) << args.own.log_block()) + i;
        constexpr u32 kPerWord = 4 / kBytes, kWords = kPerLane / kPerWord;
        if (likely(!kPart && i + kPerLane <= m && reinterpret_cast<u64>(to) % (kWords % 4 == 0 ? kUnitBytes : 8) == 0 && (kBytes == 1 || !(args.flags & kSwapBytes)))) {
            u32 words[kWords] = {};
#pragma unroll
            for (u32 k = 0; k < kPerLane; ++k) words[k / kPerWord] |= (of[k] & low_bits(0u, 8 * kBytes)) << k % kPerWord * 8 * kBytes;
#pragma unroll
            for (u32 w = 0; w < kWords; w += 4) {
                if (kWords % 4 == 0) {
                    store_global_16(reinterpret_cast<u32*>(to) + w, make_uint4(words[w], words[w + 1], words[(w + 2) % kWords], words[(w + 3) % kWords]));
                } else {
                    store_global_8(to, make_uint2(words[0], words[1]));
                }
            }
            return;
        }
#pragma unroll
        for (u32 k = 0; k < kPerLane; ++k) {
            if (i + k < m) store(i + k, of[k]);
        }
    }

    // Stores the elements of a raw block, where they are in native byte order.
    __device__ __forceinline__ void store_raw(const unsigned char* from, u32 m) const {
        T* const to = reinterpret_cast<T*>(array) + (static_cast<u64>(block) << args.own.log_block());
        if (!kPart && reinterpret_cast<u64>(to) % 4 == 0 && (kBytes == 1 || !(args.flags & kSwapBytes))) {
            const u32 n_words = m * kBytes / 4;
            for (u32 i = threadIdx.x; i < n_words; i += kHuffmanThreads) reinterpret_cast<u32*>(to)[i] = reinterpret_cast<const u32*>(from)[i];
            for (u32 i = 4 / kBytes * n_words + threadIdx.x; i < m; i += kHuffmanThreads) store(i, reinterpret_cast<const T*>(from)[i]);
        } else {
            for (u32 i = threadIdx.x; i < m; i += kHuffmanThreads) store(i, reinterpret_cast<const T*>(from)[i]);
        }
    }
    // Stores element i of the block. For a region, stores it only if the region contains it.
    __device__ __forceinline__ void store(u32 i, u32 element) const {
        u64 at;
        if (!Base::find(i, at)) return;
        store_element(array + at * kBytes, Element(args.encoded), args.flags & kSwapBytes, element);
    }
};

template <typename T>
__device__ __forceinline__ void huffman_decompress(const DecompressArgs<Flat>& args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    HuffmanDecompressor<T, false>(args, *reinterpret_cast<HuffmanShared<T>*>(shared)).run();
}

template <typename T>
__device__ __forceinline__ void huffman_decompress_region(const RegionArgs<Flat>& args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    HuffmanDecompressor<T, true>(args, *reinterpret_cast<HuffmanShared<T>*>(shared)).run();
}

template <typename T>
constexpr LaunchInfo kHuffmanDecompressInfo = {kHuffmanThreads, sizeof(HuffmanShared<T>), 0, 1, 0, kDecompressScratch, 0};
