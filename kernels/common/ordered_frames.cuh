// Frames whose tiles follow each other in the payload, made in one pass: what the CTAs of such a kernel tell each other. It
// is the same for every codec; what a tile becomes is the codec's.
//
// A chunk is cut into tiles. Its payload has parts of known length, such as tables, and what the tiles become, one after
// the other; how long that is, in units of the codec's own, is known only when a tile is made. So, for every tile:
//
//   1. A CTA draws it (draw, locate). Tiles are handed out in their order, chunk after chunk, to CTAs that stay.
//   2. It finds out what the tile becomes, or at least how long, and publishes the length as soon as it can: others wait.
//   3. A warp looks back for the place: the sum of all lengths before (place).
//   4. The CTA writes what the tile becomes to its place, its entries of a table, and whatever else nobody else writes; and
//      sums it up for the checksum (checksum.cuh).
//   5. Warps add their sums to the chunk's and count the parts of tiles that they have finished (count). Who has counted
//      the last part of a chunk writes the header and the frame's length (complete).
//
// A chunk that does not get smaller is stored instead, but that is known only when its last tile is placed. If it has been
// written the wrong way, it is put on a list. Behind the last tile of all chunks, CTAs draw the tiles of the chunks on the
// list, as soon as all chunks are finished for the first time (await_again); then everything is known beforehand.
//
// Who waits waits for tiles before its own only; so nothing depends on which CTAs are resident, or how many there are.
//
// The author of a codec writes a Layout, which says how long things are:
//
//   struct Layout {
//       using Own = …;                           // the codec's own arguments (types.cuh)
//       using Sum = u32;                         // or u64, of which 62 bits count: what a chunk's lengths add up to
//       static constexpr u32 kPartsPerTile = 1;  // by how many warps or CTAs a tile is counted
//       u64 raw_bytes() const;                   // of the array
//       u64 payload_bytes(Sum sum) const;        // of the payload, if all lengths add up to that
//   };
//
// Where a CTA makes one tile at a time, run() is the kernel's loop, and stores what has to be. The codec's part is a function
// that one thread calls first, and one that makes a tile, by all threads:
//
//   const OrderedFrames<Layout> frames(args, Layout{args.own}, n_tiles, n_tiles);
//   const auto prepare = [&](const Drawn& tile) { … };
//   frames.run<kThreads>(shared.drawn, shared.sums, prepare, [&](const Drawn& tile) {
//       …                                   // from frames.source(tile.chunk); how long is the tile?
//       if (threadIdx.x == 0) frames.publish(tile.chunk, tile.index, length);
//       …
//       if (threadIdx.x < kWarp) before = frames.place(tile.chunk, tile.index, length);
//       …                                   // to frames.payload(tile.chunk), from `before` on; sums of what is written
//       shared.sums.share(sums);
//       __syncthreads();
//       return shared.sums.sum();
//   });
//
// A codec that knows all lengths beforehand spares the rest: only the first tile has a place that is told (the last argument
// is 1), and publishes 0. selftest.cu has the simplest codec that does not. The launch is that of ordered_launch(), and
// scratch is zeroed.

#pragma once

#include "checksum.cuh"
#include "frame.cuh"
#include "lookback.cuh"
#include "types.cuh"
#include "warp.cuh"

enum TileKind : u32 {
    kFirst,   // seen for the first time
    kAgain,   // of a chunk that is written once more
    kStart,   // none: before the first of a CTA that looks ahead
    kBeyond,  // behind the last tile that is seen for the first time: nobody knows yet whether it exists
    kNone,    // does not exist
};

// A tile that was drawn.
struct alignas(16) Drawn {
    TileKind kind;
    u32 number;  // that the counter gave
    u32 chunk;
    u32 index;   // in the chunk
};

// Scratch, zeroed: this, then ChunkScratch per chunk, then one look-back state per tile. Counters that many look at are apart.
struct FramesScratch {
    u32 next_tile;
    u32 reserved[31];
    u32 n_finished;  // chunks
    u32 n_again;     // of which so many are written once more
    u32 reserved2[30];
};
struct ChunkScratch {
    Totals first, again;
    u32 to_again;  // entry of a list that all chunks share
    u32 reserved[3];
};

// How to launch such a kernel.
constexpr LaunchInfo ordered_launch(u32 threads, u32 shared_bytes, u32 blocks_per_tile) {
    return LaunchInfo{threads, shared_bytes, 1, blocks_per_tile, sizeof(FramesScratch), sizeof(ChunkScratch), sizeof(u64)};
}

template <typename Layout>
struct OrderedFrames {
    using Args = CompressArgs<typename Layout::Own>;
    using Sum = typename Layout::Sum;

    const Args& args;
    const Layout layout;
    const u32 tiles, n_placed;  // of a chunk; those that have a length come first
    FramesScratch* const scratch;
    ChunkScratch* const chunks;
    u64* const states;

    __device__ __forceinline__ OrderedFrames(const Args& args, const Layout& layout, u32 tiles, u32 n_placed)
        : args(args), layout(layout), tiles(tiles), n_placed(n_placed), scratch(static_cast<FramesScratch*>(args.scratch)),
          chunks(reinterpret_cast<ChunkScratch*>(scratch + 1)), states(reinterpret_cast<u64*>(chunks + args.n_chunks)) {}

    // Where things are.
    __device__ __forceinline__ const char* source(u32 chunk) const { return static_cast<const char*>(args.src) + chunk * args.src_stride; }
    __device__ __forceinline__ char* frame(u32 chunk) const { return static_cast<char*>(args.dst) + chunk * args.dst_stride; }
    __device__ __forceinline__ char* payload(u32 chunk) const { return frame(chunk) + args.encoded.n_bytes; }
    __device__ __forceinline__ unsigned char* stored_payload(u32 chunk) const {
        return reinterpret_cast<unsigned char*>(frame(chunk)) + args.stored.n_bytes;
    }
    __device__ __forceinline__ u64* chunk_states(u32 chunk) const { return states + static_cast<u64>(chunk) * tiles; }

    // The number of the next tile that nobody has. Not to be drawn before the one before is made as far as its length: tiles
    // behind it would wait for one that nobody works on. Sooner is right, too, and pays where places are asked for much later.
    __device__ __forceinline__ u32 draw() const { return atomicAdd(&scratch->next_tile, 1); }

    // The tile with this number.
    __device__ __forceinline__ Drawn locate(u32 number) const {
        const u32 chunk = args.n_chunks == 1 ? (number >= tiles) : min(number / tiles, args.n_chunks);
        return Drawn{chunk < args.n_chunks ? kFirst : kBeyond, number, chunk, number - chunk * tiles};
    }

    // What a tile that was kBeyond is, once all chunks are finished for the first time. By a thread that
    // those do not wait for who still count what the CTA has made.
    __device__ __forceinline__ Drawn await_again(u32 number) const {
        u32 n_finished;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n_finished) : "l"(&scratch->n_finished) : "memory");
        } while (n_finished < args.n_chunks);
        const u32 again = number - args.n_chunks * tiles, entry = again / tiles;
        const bool exists = entry < *static_cast<volatile u32*>(&scratch->n_again);
        const u32 chunk = exists ? *static_cast<volatile u32*>(&chunks[entry].to_again) : 0;
        return Drawn{exists ? kAgain : kNone, number, chunk, again - entry * tiles};
    }

    // Publishes the length of a tile.
    __device__ __forceinline__ void publish(u32 chunk, u32 index, Sum length) const {
        publish_state(chunk_states(chunk) + index, length, index == 0 ? kPrefix : kOwn);
    }
    // The sum of all lengths before a tile, by a warp.
    __device__ __forceinline__ Sum look_back(u32 chunk, u32 index) const { return ::look_back<Sum>(chunk_states(chunk), index); }
    // Publishes where a tile ends, so that nobody looks back beyond it.
    __device__ __forceinline__ void publish_end(u32 chunk, u32 index, Sum end) const {
        if (index > 0) publish_state(chunk_states(chunk) + index, end, kPrefix);
    }
    // Both, by one warp of all that make the tile.
    __device__ __forceinline__ Sum place(u32 chunk, u32 index, Sum length) const {
        const Sum before = look_back(chunk, index);
        if (lane_id() == 0) publish_end(chunk, index, before + length);
        return before;
    }

    // All lengths of a chunk, as soon as they are known, and what follows from them.
    __device__ __forceinline__ Sum await_sum(u32 chunk) const { return static_cast<Sum>(await_prefix(chunk_states(chunk) + n_placed - 1)); }
    __device__ __forceinline__ bool is_stored(Sum sum) const {
        return args.encoded.n_bytes + layout.payload_bytes(sum) >= args.stored.n_bytes + layout.raw_bytes();
    }

    // By a warp: adds the sums of so many parts of a chunk's tiles, of which n_stored were stored. The first lane has the sums, and
    // knows how many parts are done now.
    __device__ __forceinline__ u32 count(TileKind kind, u32 chunk, Sums sums, u32 parts, u32 n_stored) const {
        ChunkScratch& mine = chunks[chunk];
        Totals& totals = kind == kAgain ? mine.again : mine.first;
        // The sums are those of all lanes, and so is what was written.
        __syncwarp();
        if (lane_id() != 0) return 0;
        totals.add(sums);
        if (n_stored) atomicAdd(&totals.n_stored, n_stored);
        return totals.count(0, parts) + parts;
    }
    // By the same warp, sooner or later: if the parts done were all, completes the frame, or has the chunk written once more.
    __device__ __forceinline__ void complete(TileKind kind, u32 chunk, u32 n_done) const {
        const u32 parts = tiles * Layout::kPartsPerTile;
        if (likely(__shfl_sync(kAllLanes, n_done, 0) != parts)) return;
        Totals::acquire();
        ChunkScratch& mine = chunks[chunk];
        const volatile Totals& totals = kind == kAgain ? mine.again : mine.first;
        // All loads are under way together.
        const Sums sums{totals.sum_a, totals.sum_b};
        const u32 n_stored = totals.n_stored;
        const Sum sum = await_sum(chunk);
        const bool stores = is_stored(sum), is_right = n_stored == (stores ? parts : 0);
        if (is_right) {
            const FrameForm& form = stores ? args.stored : args.encoded;
            const u64 n_bytes = stores ? layout.raw_bytes() : layout.payload_bytes(sum);
            write_header(form, frame(chunk), n_bytes, checksum_of(sums.a, sums.b, n_bytes));
            if (lane_id() == 0) args.frame_bytes[chunk] = form.n_bytes + n_bytes;
        }
        if (kind == kAgain || lane_id() != 0) return;
        if (unlikely(!is_right)) {
            chunks[atomicAdd(&scratch->n_again, 1)].to_again = chunk;
            // Who sees the count sees the list and overwrites what is written; of chunks that are right nobody needs anything.
            __threadfence();
        }
        atomicAdd(&scratch->n_finished, 1);
    }

    // The loop of a CTA of kThreads threads that makes one tile at a time: `prepare(tile)` is done by the last thread, while the first
    // warp may still count the tile before; then `make(tile)` by all of them, which gives the first thread the CTA's sums, by `sums` or
    // after another barrier. Behind its last barrier `make` must not read the tile, nor what `prepare` changes.
    template <u32 kThreads, typename Prepare, typename Make>
    __device__ __forceinline__ void run(Drawn (&drawn)[2], CtaSums<kThreads / kWarp>& sums, Prepare prepare, Make make) const {
        for (;;) {
            if (threadIdx.x == kThreads - 1) {
                Drawn next = locate(draw());
                if (unlikely(next.kind == kBeyond)) next = await_again(next.number);
                if (likely(next.kind == kFirst)) prepare(next);
                drawn[0] = next;
            }
            __syncthreads();
            const TileKind kind = drawn[0].kind;
            if (unlikely(kind == kNone)) return;
            // In shared memory, where it takes no registers meanwhile.
            if (threadIdx.x == 0) drawn[1] = drawn[0];
            const Sums all = likely(kind == kFirst) ? make(drawn[0]) : store<kThreads>(drawn[0].chunk, drawn[0].index, sums);
            if (threadIdx.x >= kWarp) continue;
            const Drawn tile = drawn[1];
            complete(tile.kind, tile.chunk, count(tile.kind, tile.chunk, all, 1, tile.kind == kAgain));
        }
    }
    // Stores what has to be, behind the last tile that was seen for the first time, which is that in `drawn`; for a CTA with a loop of its
    // own.
    template <u32 kThreads>
    __device__ __forceinline__ void run_again(Drawn& drawn, CtaSums<kThreads / kWarp>& sums) const {
        u32 number = drawn.number;
        for (;;) {
            __syncthreads();
            if (threadIdx.x == kThreads - 1) drawn = await_again(number);
            __syncthreads();
            const Drawn tile = drawn;
            if (tile.kind == kNone) return;
            const Sums all = store<kThreads>(tile.chunk, tile.index, sums);
            if (threadIdx.x < kWarp) complete(kAgain, tile.chunk, count(kAgain, tile.chunk, all, 1, 1));
            if (threadIdx.x == kThreads - 1) number = draw();
        }
    }
    // Copies a tile's share of a chunk that is stored, by all threads of the CTA.
    template <u32 kThreads>
    __device__ __forceinline__ Sums store(u32 chunk, u32 index, CtaSums<kThreads / kWarp>& shared_sums) const {
        const u64 n_bytes = layout.raw_bytes(), share = (n_bytes / tiles / kUnitBytes + 1) * kUnitBytes, first = index * share;
        unsigned char* const array = reinterpret_cast<unsigned char*>(const_cast<char*>(source(chunk)));
        Sums sums;
        if (first < n_bytes) {
            const u32 n = static_cast<u32>(min(n_bytes - first, share));
            copy_stored<StoredCopy<kThreads, 2, Towards::kPayload, Pieces::kBytes>>(threadIdx.x, array, stored_payload(chunk), first, n, sums);
        }
        shared_sums.share(sums);
        __syncthreads();
        return shared_sums.sum();
    }
};
