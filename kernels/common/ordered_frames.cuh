// Ordered frames: frames whose tiles follow each other in the payload, compressed in one pass. This
// file is the protocol between the CTAs. It is shared; only the tile encoder is codec-specific.
//
// A chunk is cut into tiles. Its payload has parts of known length, such as tables, and then the
// encoded tiles in order. The encoded length of a tile, in a unit that the codec chooses, is known
// only once the tile is encoded. For every tile:
//
//   1. A CTA takes the tile (take, resolve). Tiles are handed out in order, chunk after chunk, to
//      persistent CTAs.
//   2. It encodes the tile, or at least computes the length, and publishes the length as soon as
//      possible: other CTAs wait for it.
//   3. A warp looks back for the tile's position: the sum of all lengths before it (place).
//   4. The CTA writes the encoded tile to that position, its table entries, and anything else that
//      no other CTA writes. It adds what it writes to the checksum (checksum.cuh).
//   5. Warps add their sums to the chunk's totals and count the parts of tiles that they have
//      finished (count). The warp that counts the last part of a chunk writes the header and the
//      frame's length (complete).
//
// A chunk that does not shrink is stored instead, but this is known only when its last tile has a
// position. If parts of the chunk were already written in the other form, it is put on a rewrite
// list. After the last tile of all chunks, CTAs take the tiles of the chunks on the list. They wait
// until the first round has finished all chunks (await_rewrite); from then on all lengths are
// known.
//
// A CTA only waits for lower-numbered tiles. So progress never depends on which or how many CTAs
// are resident.
//
// A codec provides a Layout, which describes lengths:
//
//   struct Layout {
//       using Own = …;                           // the codec's own arguments (types.cuh)
//       using Sum = u32;                         // type of a chunk's sum of lengths: u32, or u64 (62 bits)
//       static constexpr u32 kPartsPerTile = 1;  // warps or CTAs that count one tile
//       u64 raw_bytes() const;                   // size of the array
//       u64 payload_bytes(Sum sum) const;        // size of the payload if the lengths add up to `sum`
//   };
//
// If a CTA encodes one tile at a time, run() is the kernel's main loop, which also stores chunks
// that do not shrink. The codec passes two functions. One thread calls the first one to prepare;
// all threads call the second one to encode the tile:
//
//   const OrderedFrames<Layout> frames(args, Layout{args.own}, n_tiles, n_tiles);
//   const auto prepare = [&](const Ticket& tile) { … };
//   frames.run<kThreads>(shared.ticket, shared.sums, prepare, [&](const Ticket& tile) {
//       …                                   // encode frames.source(tile.chunk); compute the length
//       if (threadIdx.x == 0) frames.publish(tile.chunk, tile.index, length);
//       …
//       if (threadIdx.x < kWarp) before = frames.place(tile.chunk, tile.index, length);
//       …                                   // write to frames.payload(tile.chunk) from `before` on; add sums
//       shared.sums.share(sums);
//       __syncthreads();
//       return shared.sums.sum();
//   });
//
// If the codec knows all lengths in advance, it passes 1 as the last argument (n_placed): only the
// first tile publishes a length, which is 0. selftest.cu has the simplest codec that needs
// look-back. Launch as ordered_launch() describes, with zeroed scratch memory.

#pragma once

#include "checksum.cuh"
#include "frame.cuh"
#include "lookback.cuh"
#include "types.cuh"
#include "warp.cuh"

enum TileKind : u32 {
    kFirst,    // in the first round
    kRewrite,  // tile of a chunk that is rewritten
    kStart,    // no tile: initial state of a CTA that looks ahead
    kPastEnd,  // past the first round; whether it exists is not known yet
    kNone,     // no tile: none is left
};

// A tile that a CTA has taken.
struct alignas(16) Ticket {
    TileKind kind;
    u32 number;  // value of the tile counter
    u32 chunk;
    u32 index;   // index of the tile in its chunk
};

// Scratch layout, zeroed: this struct, one ChunkScratch per chunk, one look-back state per tile.
// The padding puts counters that many CTAs poll on separate cache lines.
struct FramesScratch {
    u32 next_tile;
    u32 reserved[31];
    u32 n_finished;  // number of chunks that the first round has finished
    u32 n_rewrites;  // number of chunks on the rewrite list
    u32 reserved2[30];
};
struct ChunkScratch {
    Totals first, rewrite;
    u32 to_rewrite;  // chunk i's scratch holds entry i of the rewrite list
    u32 reserved[3];
};

// Launch parameters of a kernel that compresses to ordered frames.
constexpr LaunchInfo ordered_launch(u32 threads, u32 shared_bytes, u32 blocks_per_tile) {
    return LaunchInfo{threads, shared_bytes, 1, blocks_per_tile, sizeof(FramesScratch), sizeof(ChunkScratch), sizeof(u64)};
}

template <typename Layout>
struct OrderedFrames {
    using Args = CompressArgs<typename Layout::Own>;
    using Sum = typename Layout::Sum;

    const Args& args;
    const Layout layout;
    const u32 tiles, n_placed;  // tiles per chunk; the first n_placed of them have a length
    FramesScratch* const scratch;
    ChunkScratch* const chunks;
    u64* const states;

    __device__ __forceinline__ OrderedFrames(const Args& args, const Layout& layout, u32 tiles, u32 n_placed)
        : args(args), layout(layout), tiles(tiles), n_placed(n_placed), scratch(static_cast<FramesScratch*>(args.scratch)),
          chunks(reinterpret_cast<ChunkScratch*>(scratch + 1)), states(reinterpret_cast<u64*>(chunks + args.n_chunks)) {}

    // Addresses of a chunk's data.
    __device__ __forceinline__ const char* source(u32 chunk) const { return static_cast<const char*>(args.src) + chunk * args.src_stride; }
    __device__ __forceinline__ char* frame(u32 chunk) const { return static_cast<char*>(args.dst) + chunk * args.dst_stride; }
    __device__ __forceinline__ char* payload(u32 chunk) const { return frame(chunk) + args.encoded.n_bytes; }
    __device__ __forceinline__ unsigned char* stored_payload(u32 chunk) const {
        return reinterpret_cast<unsigned char*>(frame(chunk)) + args.stored.n_bytes;
    }
    __device__ __forceinline__ u64* chunk_states(u32 chunk) const { return states + static_cast<u64>(chunk) * tiles; }

    // Takes the next tile and returns its number. A CTA should first publish the length of its
    // previous tile. Otherwise, CTAs with later tiles wait for the new tile, which no CTA works on
    // yet. Taking a tile earlier is still correct, and faster if positions are needed much later.
    __device__ __forceinline__ u32 take() const { return atomicAdd(&scratch->next_tile, 1); }

    // Finds the chunk and the tile of a number in the first round.
    __device__ __forceinline__ Ticket resolve(u32 number) const {
        const u32 chunk = args.n_chunks == 1 ? (number >= tiles) : min(number / tiles, args.n_chunks);
        return Ticket{chunk < args.n_chunks ? kFirst : kPastEnd, number, chunk, number - chunk * tiles};
    }

    // True if the tile's chunk is another launch's. Such tiles need no work, and the first one
    // finishes the chunk.
    __device__ __forceinline__ bool skips(const Ticket& tile) const {
        if (likely(!has_other_fold(args, tile.chunk))) return false;
        if (tile.index == 0) atomicAdd(&scratch->n_finished, 1);
        return true;
    }

    // Resolves a tile that was kPastEnd. Waits until the first round has finished all chunks. A
    // warp with pending count() and complete() calls must not call this, because the wait would
    // never end.
    __device__ __forceinline__ Ticket await_rewrite(u32 number) const {
        u32 n_finished;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n_finished) : "l"(&scratch->n_finished) : "memory");
        } while (n_finished < args.n_chunks);
        const u32 rewrite = number - args.n_chunks * tiles, entry = rewrite / tiles;
        const bool exists = entry < *static_cast<volatile u32*>(&scratch->n_rewrites);
        const u32 chunk = exists ? *static_cast<volatile u32*>(&chunks[entry].to_rewrite) : 0;
        return Ticket{exists ? kRewrite : kNone, number, chunk, rewrite - entry * tiles};
    }

    // Publishes the length of a tile.
    __device__ __forceinline__ void publish(u32 chunk, u32 index, Sum length) const {
        publish_state(chunk_states(chunk) + index, length, index == 0 ? kPrefix : kOwn);
    }
    // The sum of all lengths before a tile. Called by a warp.
    __device__ __forceinline__ Sum look_back(u32 chunk, u32 index) const { return ::look_back<Sum>(chunk_states(chunk), index); }
    // Publishes the end of a tile, so that no look-back continues beyond it.
    __device__ __forceinline__ void publish_end(u32 chunk, u32 index, Sum end) const {
        if (index > 0) publish_state(chunk_states(chunk) + index, end, kPrefix);
    }
    // Looks back for the sum of all lengths before a tile, publishes the tile's end, and returns
    // the sum. Called by one of the warps that encode the tile.
    __device__ __forceinline__ Sum place(u32 chunk, u32 index, Sum length) const {
        const Sum before = look_back(chunk, index);
        if (lane_id() == 0) publish_end(chunk, index, before + length);
        return before;
    }

    // Waits for the sum of all lengths of a chunk, and returns it.
    __device__ __forceinline__ Sum await_sum(u32 chunk) const { return static_cast<Sum>(await_prefix(chunk_states(chunk) + n_placed - 1)); }
    // True if a chunk whose lengths add up to `sum` does not shrink, so that it is stored.
    __device__ __forceinline__ bool is_stored(Sum sum) const {
        return args.encoded.n_bytes + layout.payload_bytes(sum) >= args.stored.n_bytes + layout.raw_bytes();
    }

    // Counts `parts` finished parts of a chunk's tiles, `n_stored` stored ones among them, and adds
    // their sums. Called by a warp. Lane 0 passes the sums, and gets the number of parts finished
    // so far.
    __device__ __forceinline__ u32 count(TileKind kind, u32 chunk, Sums sums, u32 parts, u32 n_stored) const {
        ChunkScratch& mine = chunks[chunk];
        Totals& totals = kind == kRewrite ? mine.rewrite : mine.first;
        // All lanes have written their data before lane 0 counts it.
        __syncwarp();
        if (lane_id() != 0) return 0;
        totals.add(sums);
        if (n_stored) atomicAdd(&totals.n_stored, n_stored);
        return totals.count(0, parts) + parts;
    }
    // If all parts are finished, completes the frame or puts the chunk on the rewrite list. Called
    // after count(), by the same warp.
    __device__ __forceinline__ void complete(TileKind kind, u32 chunk, u32 n_done) const {
        const u32 parts = tiles * Layout::kPartsPerTile;
        if (likely(__shfl_sync(kAllLanes, n_done, 0) != parts)) return;
        Totals::acquire();
        ChunkScratch& mine = chunks[chunk];
        const volatile Totals& totals = kind == kRewrite ? mine.rewrite : mine.first;
        // Issue all loads together.
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
        if (kind == kRewrite || lane_id() != 0) return;
        if (unlikely(!is_right)) {
            chunks[atomicAdd(&scratch->n_rewrites, 1)].to_rewrite = chunk;
            // A CTA that sees n_finished must also see the list, and its writes must come after
            // those of the first round. Chunks in the right form need no such order.
            __threadfence();
        }
        atomicAdd(&scratch->n_finished, 1);
    }

    // The main loop of a CTA of kThreads threads that encodes one tile at a time. The last thread
    // calls `prepare(tile)`, while the first warp may still count the previous tile. Then all
    // threads call `make(tile)`, which returns the CTA's sums in the first thread. `make` must
    // contain a barrier after its last write (such as the one between sums.share() and sums.sum()).
    // After its last barrier, it must not read the tile or anything that `prepare` changes.
    template <u32 kThreads, typename Prepare, typename Make>
    __device__ __forceinline__ void run(Ticket (&ticket)[2], CtaSums<kThreads / kWarp>& sums, Prepare prepare, Make make) const {
        for (;;) {
            if (threadIdx.x == kThreads - 1) {
                Ticket next;
                do {
                    next = resolve(take());
                } while (unlikely(next.kind == kFirst && skips(next)));
                if (unlikely(next.kind == kPastEnd)) next = await_rewrite(next.number);
                if (likely(next.kind == kFirst)) prepare(next);
                ticket[0] = next;
            }
            __syncthreads();
            const TileKind kind = ticket[0].kind;
            if (unlikely(kind == kNone)) return;
            // The ticket is kept in shared memory, so that `make` has more registers.
            if (threadIdx.x == 0) ticket[1] = ticket[0];
            const Sums all = likely(kind == kFirst) ? make(ticket[0]) : store<kThreads>(ticket[0].chunk, ticket[0].index, sums);
            if (threadIdx.x >= kWarp) continue;
            const Ticket tile = ticket[1];
            complete(tile.kind, tile.chunk, count(tile.kind, tile.chunk, all, 1, tile.kind == kRewrite));
        }
    }
    // Stores the chunks on the rewrite list. For kernels that have their own main loop instead of
    // run(). On entry, `ticket` is the CTA's first tile past the first round.
    template <u32 kThreads>
    __device__ __forceinline__ void run_rewrites(Ticket& ticket, CtaSums<kThreads / kWarp>& sums) const {
        u32 number = ticket.number;
        for (;;) {
            __syncthreads();
            if (threadIdx.x == kThreads - 1) ticket = await_rewrite(number);
            __syncthreads();
            const Ticket tile = ticket;
            if (tile.kind == kNone) return;
            const Sums all = store<kThreads>(tile.chunk, tile.index, sums);
            if (threadIdx.x < kWarp) complete(kRewrite, tile.chunk, count(kRewrite, tile.chunk, all, 1, 1));
            if (threadIdx.x == kThreads - 1) number = take();
        }
    }
    // Copies a tile's share of a stored chunk. Called by all threads of the CTA.
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
