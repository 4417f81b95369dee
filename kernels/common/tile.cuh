// Decompression of a frame by one CTA per tile: a tile's position, its damage, and the combination
// of the results of a chunk's CTAs.
//
// Every tile adds its sums and marks to one of the chunk's slots, which spreads the atomic
// operations over several addresses. The last tile of a slot adds the slot to the chunk's totals.
// The last tile of the chunk verifies the header and its checksum.

#pragma once

#include "checksum.cuh"
#include "frame.cuh"
#include "tuning.cuh"
#include "warp.cuh"

// Scratch layout: per chunk its totals, then kSlots slots. The marks of these Totals are Damage
// flags.
enum Damage : u32 { kMarkCorrupt = 1, kMarkTruncated = 2, kMarkUnsupported = 4 };
constexpr u32 kDecompressScratch = (1 + kSlots) * sizeof(Totals);

template <typename Own>
struct DecompressTile {
    const DecompressArgs<Own>& args;
    const u32 tiles, chunk, tile;  // tiles per chunk; this CTA's chunk and its tile there
    const char* const frame;
    const u64 frame_bytes;
    const char* const payload;
    const u64 n_bytes;  // length of the payload
    char* const array;

    __device__ __forceinline__ explicit DecompressTile(const DecompressArgs<Own>& args)
        : args(args), tiles(args.n_chunks == 1 ? gridDim.x : gridDim.x / args.n_chunks),
          chunk(args.n_chunks == 1 ? 0 : blockIdx.x / tiles), tile(blockIdx.x - chunk * tiles),
          frame(static_cast<const char*>(args.src) + chunk * args.src_stride), frame_bytes(args.frame_bytes[chunk]),
          payload(frame + args.encoded.n_bytes), n_bytes(frame_bytes - args.encoded.n_bytes),
          array(static_cast<char*>(args.dst) + chunk * args.dst_stride) {}

    // False if another launch decompresses the frame, because it has another fold or other
    // parameters. Called before everything else.
    __device__ __forceinline__ bool is_mine() const {
        const u32 flags = args.flags;
        if (likely(!(flags & (kOnlyFold | kNotFold | kOnlyParam | kNotParam)))) return true;
        const unsigned char* const header = reinterpret_cast<const unsigned char*>(frame);
        constexpr u32 kFoldAt = 10, kExtentsAt = 40;
        if (flags & (kOnlyFold | kNotFold) && (header[kFoldAt] == fold_of(flags)) != ((flags & kOnlyFold) != 0)) return false;
        if (!(flags & (kOnlyParam | kNotParam))) return true;
        // The rank is that of the launch: the frame may be damaged.
        const u32 rank = args.encoded.words[2] >> 8 & 0xff, param = kExtentsAt + 8 * rank + (flags >> kParamIndexShift);
        return (header[param] == (flags >> kParamShift & 0xff)) == ((flags & kOnlyParam) != 0);
    }

    // Returns a damage code if the `have` bytes are not exactly the `need` bytes required,
    // otherwise 0.
    static __device__ __forceinline__ u32 check_length(u64 have, u64 need) {
        return have == need ? 0 : have < need ? kMarkTruncated : kMarkCorrupt;
    }
    // Checks the length of an encoded frame whose payload begins with a table of `table_bytes`
    // bytes. Returns a damage code, or 0.
    __device__ __forceinline__ u32 check_frame(u64 table_bytes) const {
        const bool is_short = (frame_bytes < args.encoded.n_bytes + table_bytes) | (frame_bytes < args.stored.n_bytes);
        return is_short ? kMarkTruncated : frame_bytes > args.max_frame_bytes ? kMarkCorrupt : 0;
    }

    // Copies a tile's share of a stored frame: at most `share` bytes (a multiple of 16) of the
    // array's `raw_bytes`. Returns a damage code, or 0 if the frame's length is right.
    template <u32 kThreads, Pieces kPieces>
    __device__ __forceinline__ u32 copy_share(u64 raw_bytes, u64 share, Sums& sums) const {
        const u32 damage = check_length(frame_bytes, args.stored.n_bytes + raw_bytes);
        const u64 first = tile * share;
        if (damage == 0 && first < raw_bytes) {
            unsigned char* const from = reinterpret_cast<unsigned char*>(const_cast<char*>(frame)) + args.stored.n_bytes;
            copy_stored<StoredCopy<kThreads, 4, Towards::kArray, kPieces>>(threadIdx.x, reinterpret_cast<unsigned char*>(array), from, first,
                                                                           static_cast<u32>(min(raw_bytes - first, share)), sums);
        }
        return damage;
    }

    // Records damage. Called by any thread, before the barrier that precedes count().
    __device__ __forceinline__ void report(u32 damage) const {
        if (damage) atomicOr(&slot()->marks, damage);
    }

    // Adds the sums of all threads, and records the damage that thread 0 passes. Contains a
    // barrier; count() may follow.
    template <u32 kWarps>
    __device__ __forceinline__ void add(CtaSums<kWarps>& all, Sums sums, u32 damage) const {
        all.share(sums);
        __syncthreads();
        if (threadIdx.x == 0) {
            slot()->add(all.sum());
            report(damage);
        }
    }

    // Counts the CTA's tile. Returns, in thread 0, the number of tiles that the slot had counted
    // before. A barrier must separate the call from all sums and reports of other threads. The
    // stores of the CTA's output need not have completed.
    __device__ __forceinline__ u32 count() const { return threadIdx.x == 0 ? slot()->count(0, 1) : 0; }

    // Finishes a tile; `n_before` is the result of count(). The last CTA of a slot adds the slot to
    // the chunk's totals. The last CTA of the chunk checks the header and sets the status. It also
    // compares the checksum if the tiles have computed the payload's sums (`has_sums`).
    __device__ __forceinline__ void finish(u32 n_before, bool has_sums = true) const {
        if (threadIdx.x >= kWarp) return;
        // Recompute the members that only this code needs from laundered values. The compiler does
        // not know that they equal the originals, so it does not keep those in registers until
        // here.
        u32 n_chunks = args.n_chunks, chunk = this->chunk;
        launder(n_chunks), launder(chunk);
        const u32 tiles = n_chunks == 1 ? gridDim.x : gridDim.x / n_chunks;
        bool is_last = false;
        if (threadIdx.x == 0 && n_before + 1 == (tiles - tile % kSlots + kSlots - 1) / kSlots) {
            __threadfence();
            const volatile Totals* const sums = slot();
            totals()->add(Sums{sums->sum_a, sums->sum_b});
            const u32 marks = sums->marks, n = sums->n_done;
            is_last = totals()->count(marks, n) + n == tiles;
        }
        if (likely(!__shfl_sync(kAllLanes, is_last, 0))) return;
        Totals::acquire();
        const u32 marks = *static_cast<volatile u32*>(&totals()->marks);
        const char* const frame = static_cast<const char*>(args.src) + chunk * args.src_stride;
        const u64 frame_bytes = args.frame_bytes[chunk];
        Status status = marks & kMarkCorrupt ? kCorrupt : marks & kMarkTruncated ? kTruncated : kOk;
        // A stored frame may be shorter than the header of an encoded one.
        if (frame_bytes >= args.stored.n_bytes) {
            const FrameForm& form = is_stored(args.stored, frame) ? args.stored : args.encoded;
            const bool with_checksum = has_sums && status == kOk && !(args.flags & kSkipChecksum);
            const u64 n_bytes = frame_bytes - form.n_bytes;
            if (frame_bytes >= form.n_bytes) {
                const Status of_header = check_header(form, frame, n_bytes, totals()->checksum(n_bytes), with_checksum);
                if (status == kOk || of_header == kCorrupt) status = of_header;
            }
        }
        if (status == kOk && marks & kMarkUnsupported) status = kUnsupportedFormat;
        if (threadIdx.x == 0) args.statuses[chunk] = status;
    }
    __device__ __forceinline__ Totals* totals() const {
        return static_cast<Totals*>(args.scratch) + chunk * static_cast<u64>(1 + kSlots);
    }
    __device__ __forceinline__ Totals* slot() const { return totals() + 1 + tile % kSlots; }
};
