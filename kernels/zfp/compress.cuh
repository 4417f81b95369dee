// First pass of compression: the stream. One CTA per section of 8192 elements, one thread per 64 of
// them.
//
//   1. A thread encodes its blocks one after another in registers (block.cuh). It writes their bits
//      to its own slot in shared memory, which has room for any result, since their final position
//      is not known yet. A block of four axes is encoded by four threads, a quarter each, which
//      write to one slot (quarters.cuh, encode_quarters.cuh). Afterwards each of them has a share
//      of the slot's words.
//   2. A prefix sum over the CTA gives the position of each thread's bits in the section. Decoupled
//      look-back gives the position of the section in the stream. If blocks have a fixed size, that
//      position is known in advance.
//   3. Threads move their bits to their positions in the image, a buffer in shared memory with
//      words of the stream. The CTA copies the image to the payload and adds it to the checksum.
//      This takes several rounds if the image has no room for the whole section.
//
// Two sections may share the word at their border. Each of them adds its bits and a count to a
// common variable, and the last one to do so writes the word. The checksum's sums are linear in the
// words, so each section adds the sums of its own bits.
//
// In mode rel, a separate pass before this one finds the range of values, which gives the bound
// (range.cuh).

#pragma once

#include "../common/checksum.cuh"
#include "../common/frame.cuh"
#include "../common/lookback.cuh"
#include "block.cuh"
#include "image.cuh"
#include "scratch.cuh"

template <typename W, u32 kRank>
struct StreamShared {
    // Maximum number of bits of a block: header, bits of planes, and group-test bits.
    static constexpr u32 kBlockBits = 1 + 1 + Floats<W>::kExponentBits + 6 + kBlock<kRank> * (Word<W>::kBits + 1) + Word<W>::kBits;
    // A slot has an odd number of words (with four axes, of units of four words), so that the slots
    // of adjacent threads begin in different banks. Before they encode a block of four axes, its
    // threads exchange numbers in its slot.
    static constexpr u32 kMostWords = kThreadBlocks<kRank> * kBlockBits / 32 + 1;
    static constexpr u32 kSlotWords = kRank == 4 ? aligned_up(kMostWords, 4) : kMostWords | 1;
    static_assert(kRank < 4 || (kSlotWords >= kBlock<4> * sizeof(W) / 4 && kSlotWords % 8 == 4), "room for cells, and as they begin");
    // Blocks of four numbers need the longest slots. Compute capability 7.5 allows 64 KiB of shared
    // memory per CTA, which is too little for words of 64 bits; 8.6, 8.9 and 12.0 allow 99 KiB.
    static constexpr u32 kImageWords = kRank > 1 ? 4096 : sizeof(W) == 4 ? 3072 : 1536;
    static_assert(kImageWords % (4 * kZfpThreads) == 0, "threads sum units up that are so far from each other");
    static constexpr u32 kMostBytes = sizeof(W) == 4 ? 64 << 10 : 99 << 10;

    union {
        alignas(16) u32 image[kImageWords];
        u32 stage[8 * Slice<W, kRank>::kWords * kZfpThreads];  // before the image
    };
    u32 codes[CodesOf<kRank>::kEntries];
    alignas(16) u32 slots[kZfpThreads / kBlockThreads<kRank> * kSlotWords];
    CtaSums<kZfpWarps> sums;
    u32 warp_bits[kZfpWarps];
    u32 tile;
    u32 is_suspect;
    u64 start;
};

// Writes the words of a unit that also has bits of another section, or for which there may be no
// room. If two sections share a word, both add their bits to the `border` of the later section, and
// the last one to do so writes the word.
__device__ __forceinline__ void put_ends(uint4 unit, u32 at, u32* words, u32 n_kept, u32 phase, u32 last_bit, bool is_last, Section* section) {
    u32 own[4];
    split(unit, own);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        const u32 first = 32 * (at + k);
        if (first + 32 <= phase || first >= last_bit || at + k >= n_kept) continue;
        const bool is_begun = first < phase, goes_on = first + 32 > last_bit && !is_last;
        u32 word = own[k];
        if (is_begun || goes_on) {
            u64* const border = &section[is_begun ? 0 : 1].border;
            const u64 others = atomicAdd(reinterpret_cast<unsigned long long*>(border), 1ull << 32 | word);
            if (!(others >> 32)) continue;
            word |= static_cast<u32>(others);
        }
        words[at + k] = word;
    }
}

template <typename W, u32 kRank, typename Lines>
__device__ __forceinline__ void zfp_compress(const CompressArgs<Chunk>& args) {
    using Shared = StreamShared<W, kRank>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    Shared& shared = *reinterpret_cast<Shared*>(shared_bytes);
    static_assert(sizeof(Shared) <= Shared::kMostBytes, "more shared memory than GPUs allow");
    const Chunk& chunk = args.own;
    const u32 tiles = gridDim.x / args.n_chunks, t = threadIdx.x, warp = t / kWarp;

    if (t == 0) shared.tile = atomicAdd(&static_cast<Tickets*>(args.scratch)->first, 1), shared.is_suspect = 0;
    for (u32 i = t; i < CodesOf<kRank>::kEntries; i += kZfpThreads) shared.codes[i] = CodesOf<kRank>::entry(i);
    __syncthreads();
    const u32 chunk_number = args.n_chunks == 1 ? 0 : shared.tile / tiles, tile = shared.tile - chunk_number * tiles;
    const ScratchView scratch(args.scratch, args.n_chunks, tiles, chunk_number);
    const u32 table = shared_address(shared.codes), own = Slice<W, kRank>::own_address(shared.stage);
    u32 slot = shared_address(shared.slots) + t / kBlockThreads<kRank> * Shared::kSlotWords * 4;

    // Encode the thread's blocks.
    u32 n_bits;
    {
        const W* const array = reinterpret_cast<const W*>(static_cast<const char*>(args.src) + chunk_number * args.src_stride);
        const BlockGrid<kRank> grid(chunk);
        const bool is_aligned = (reinterpret_cast<u64>(array) | (kRank > 1 ? grid.extents[0] * sizeof(W) : 0)) % kUnitBytes == 0;
        const LeftOut<W> left_out(chunk, bound_of<W>(chunk, *scratch.chunk));
        const u32 first = first_own_block<kRank>(tile);
        bool is_suspect = false;
        const auto encode = [&](auto& writer, u32 block) {
            const auto place = own_source(grid, grid.place(block));
            const u32 start = writer.n;
            W v[kOwnNumbers<kRank>];
            load_block<W, kOwnAxes<kRank>>(v, array, grid, place, is_aligned, args.flags & kSwapBytes);
            if constexpr (Lines::kIsReversible) {
                encode_reversible<W, kRank>(writer, table, own, v, chunk);
            } else {
                u64 block_start = place.start;
                launder(block_start);
                const auto load = [&](u32 i) {
                    const W word = array[block_start + grid.offset(i)];
                    return args.flags & kSwapBytes ? swapped_bytes(word) : word;
                };
                is_suspect |= encode_lossy<W, kRank>(writer, table, own, v, place, chunk, left_out, load);
            }
            writer.end_at(start + max(min(writer.n - start, chunk.max_bits()), chunk.min_bits()));
        };
        if constexpr (kRank == 4) {
            // Threads without a block take part in the exchanges of their warp: they encode the
            // chunk's last block, and discard the bits.
            QuarterWriter<Shared::kSlotWords> writer(slot);
            encode(writer, min(first, chunk.n_blocks - 1));
            n_bits = first < chunk.n_blocks ? writer.share(slot) : 0;
        } else {
            BitWriter writer(slot);
#pragma unroll 1
            for (u32 block = first; block < min(first + kThreadBlocks<kRank>, chunk.n_blocks); ++block) encode(writer, block);
            writer.finish();
            n_bits = writer.n;
        }
        if (is_suspect) shared.is_suspect = 1;
    }

    // Find the positions of these bits.
    const u32 through = warp_inclusive_sum(n_bits);
    if (lane_id() == kWarp - 1) shared.warp_bits[warp] = through;
    __syncthreads();
    u32 before = through - n_bits, all = 0;
#pragma unroll
    for (u32 w = 0; w < kZfpWarps; ++w) {
        if (w < warp) before += shared.warp_bits[w];
        all += shared.warp_bits[w];
    }
    Section& section = scratch.sections[tile];
    section.bits[t] = static_cast<unsigned short>(n_bits);
    if (!chunk.has_fixed_blocks()) {
        if (t == 0) publish_state(scratch.bits + tile, all, tile == 0 ? kPrefix : kOwn);
        if (warp == 0) {
            const u64 start = look_back<u64>(scratch.bits, tile);
            if (t == 0) {
                if (tile > 0) publish_state(scratch.bits + tile, start + all, kPrefix);
                shared.start = start;
            }
        }
    } else if (t == 0) {
        shared.start = static_cast<u64>(tile) * Sections<kRank>::kBlocks * chunk.max_bits();
    }
    __syncthreads();
    const u64 start = shared.start, end = start + all;
    if (t == 0) {
        section.end = end;
        if (shared.is_suspect) section.is_suspect = 1, atomicAdd(&scratch.chunk->n_suspects, 1);
    }

    // The stream's words, in units of four, from the unit of the section's first bit on. The stream
    // of a chunk that will be stored may exceed its room.
    const u64 first_word = start / 128 * 4, first_of_thread = first_word + 4 * t;
    u32* const words = reinterpret_cast<u32*>(static_cast<char*>(args.dst) + chunk_number * args.dst_stride + args.encoded.n_bytes) + first_word;
    // In the smallest chunks, the header of an encoded frame is longer than the whole stored frame.
    const u64 stored_bytes = args.stored.n_bytes + chunk.elements() * sizeof(W);
    const u64 room = (stored_bytes - min(stored_bytes, static_cast<u64>(args.encoded.n_bytes))) / 4;
    const u32 phase = static_cast<u32>(start % 128), last_bit = phase + all, n_words = (last_bit + 31) / 32;
    const u32 n_kept = static_cast<u32>(min(room - min(room, first_word), static_cast<u64>(n_words)));
    const u32 own_start = phase + before, own_shift = own_start % 32, own_first = own_start / 32;
    const u32 own_words = n_bits ? (own_shift + n_bits + 31) / 32 : 0, slot_words = (n_bits + 31) / 32;
    Sums sums;
    UnitSums<kZfpThreads> unit_sums(first_of_thread);
    u32 j = 0, last = 0;
#pragma unroll 1
    for (u32 from = 0; from < n_words; from += Shared::kImageWords) {
        const u32 n = min(n_words - from, Shared::kImageWords);
        for (u32 i = 4 * t; i < aligned_up(n, 32); i += 4 * kZfpThreads) *reinterpret_cast<uint4*>(shared.image + i) = uint4{};
        __syncthreads();
#pragma unroll 1
        for (; j < own_words && own_first + j < from + n; ++j) {
            const u32 next = j < slot_words ? load_shared_4(slot + 4 * j) : 0;
            const u32 word = __funnelshift_l(last, next, own_shift);
            u32* const to = shared.image + image_place(own_first + j - from);
            if (j == 0 || j + 1 == own_words) {
                atomicOr(to, word);
            } else {
                *to = word;
            }
            last = next;
        }
        __syncthreads();
#pragma unroll 1
        for (u32 i = 4 * t; i < n; i += 4 * kZfpThreads) {
            const uint4 unit = *reinterpret_cast<const uint4*>(shared.image + image_place(i));
            const u32 at = from + i;
            unit_sums.add(unit);
            if (likely(32 * at >= phase && 32 * at + 128 <= last_bit && at + 4 <= n_kept)) {
                store_global_16(words + at, unit);
            } else {
                put_ends(unit, at, words, n_kept, phase, last_bit, tile + 1 == tiles, &section);
            }
        }
        if (from + n < n_words) __syncthreads();
    }
    // The last section pads the stream to a multiple of 64 bits.
    if (t == 0 && tile + 1 == tiles && n_words % 2 && first_word + n_words < room) words[n_words] = 0;
    unit_sums.finish(sums);
    shared.sums.share(sums);
    __syncthreads();
    if (t == 0) scratch.chunk->stream.add(shared.sums.sum());
}
