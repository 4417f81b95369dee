// Last pass of compression: finds the places of blocks and of pieces of exact elements by the
// protocol of common/ordered_frames.cuh, and writes them there. The tiles of a chunk are its blocks
// (the maximum number), then its pieces. With several layers, the pass runs once for each; the
// protocol's tiles are then those of all layers, and the head (layers_write.cuh).

#pragma once

#include "exact_write.cuh"
#include "numbers_write.cuh"

constexpr u32 kPlaceThreads = kExactThreads, kPlaceWarps = kPlaceThreads / kWarp;

struct PlaceShared {
    Ticket ticket[2];
    CtaSums<kPlaceWarps> sums;
    u64 before;
    ExactShared exact;
};

template <typename W, bool kLayered>
struct Placer {
    const CompressArgs<Chunk>& args;
    PlaceShared& shared;
    const Chunk& own;
    const OrderedFrames<FrameLayout> frames;

    __device__ __forceinline__ Placer(const CompressArgs<Chunk>& args, PlaceShared& shared)
        : args(args), shared(shared), own(args.own), frames(args, FrameLayout{args.own, sizeof(W)}, args.own.n_tiles, args.own.n_tiles) {}

    __device__ __forceinline__ void run() const {
        frames.run<kPlaceThreads>(shared.ticket, shared.sums, [](const Ticket&) {}, [&](const Ticket& tile) { return put(tile); });
    }

    // For the current layer: number of tiles per chunk, units of the table of blocks, bytes of
    // exact elements, and units of the payload between the head and the layer.
    __device__ __forceinline__ u32 n_tiles() const { return own.n_blocks + own.n_pieces; }
    static __device__ __forceinline__ u64 table_units(const Plan& plan) { return static_cast<u64>(kEntryBytes / kUnit) * plan.n_blocks; }
    static __device__ __forceinline__ u64 n_exact(const Plan& plan) { return plan.layers[layer_of<kLayered>(plan)].n_exact; }
    __device__ __forceinline__ u64 start(const Plan& plan) const { return kLayered ? (plan.layers[plan.layer].start - own.head_bytes()) / kUnit : 0; }
    // Length of a tile, in units.
    __device__ __forceinline__ u64 length(const Plan& plan, const Work<W>& work, u32 index) const {
        // To make the protocol store a chunk, its first tile publishes a length greater than the
        // stored array's, and all others publish 0.
        if (plan.is_stored) return index == 0 && layer_of<kLayered>(plan) == 0 ? (static_cast<u64>(own.elements()) * sizeof(W) + 4096) / kUnit : 0;
        const u64 table = index == 0 ? table_units(plan) : 0;
        if (index < own.n_blocks) return table + (index < plan.n_blocks ? made_block(work, NumberBlock(plan, index), index).n_units : 0);
        const u32 piece = index - own.n_blocks;
        return n_exact(plan) == 0 ? 0 : (piece == 0 ? own.n_pieces : 0) + piece_info(work, piece).n_bytes / kUnit;
    }

    // Writes a tile of the layer to its place. Returns its checksum sums in the first thread.
    __device__ __forceinline__ Sums put(const Ticket& tile) const {
        const u32 chunk = tile.chunk, index = tile.index;
        const Work<W> work = work_of<W>(args, chunk);
        const Plan& plan = work.plan();
        const u64 length = this->length(plan, work, index);
        const u32 of_all = layer_of<kLayered>(plan) * n_tiles() + index;
        if (threadIdx.x == 0) frames.publish(chunk, of_all, length);
        if (threadIdx.x < kWarp) {
            const u64 before = frames.place(chunk, of_all, length);
            if (threadIdx.x == 0) shared.before = before;
        }
        __syncthreads();
        const u64 before = shared.before;
        Sums sums, entries;
        // A tile that does not fit is not written, because its chunk will be stored.
        if (!plan.is_stored && own.head_bytes() + (before + length) * kUnit <= own.payload_bound(sizeof(W)) * (kLayered ? 2 : 1)) {
            if (index >= own.n_blocks) {
                put_piece(plan, work, chunk, index - own.n_blocks, before, sums);
            } else {
                if (index < plan.n_blocks) entries = put_block(plan, work, chunk, index, before, sums);
                if (!kLayered && index == 0) put_head(plan, chunk, sums);
            }
        }
        shared.sums.share(sums);
        __syncthreads();
        Sums all;
        if (threadIdx.x == 0) {
            all = shared.sums.sum(), all.a += entries.a, all.b += entries.b;
            if (kLayered && index >= own.n_blocks && n_exact(plan) > 0) add(zeroed_of(args, chunk).exact[plan.layer], all);
        }
        return all;
    }
    static __device__ __forceinline__ void add(Sums& to, const Sums& sums) {
        atomicAdd(reinterpret_cast<unsigned long long*>(&to.a), static_cast<unsigned long long>(sums.a));
        atomicAdd(reinterpret_cast<unsigned long long*>(&to.b), static_cast<unsigned long long>(sums.b));
    }
    __device__ __forceinline__ u32* payload(u32 chunk) const { return reinterpret_cast<u32*>(frames.payload(chunk)); }

    // Writes a block and adds its sums. Returns the sums of its table entry in the first thread.
    // Contains barriers.
    __device__ __forceinline__ Sums put_block(const Plan& plan, const Work<W>& work, u32 chunk, u32 index, u64 before, Sums& sums) const {
        const NumberBlock block(plan, index);
        const MadeBlock<W>& made = made_block(work, block, index);
        const u64 table_at = own.head_bytes() / 4 + this->start(plan), table = table_units(plan), start = index == 0 ? 0 : before - this->start(plan) - table, first = table_at + table + start;
        const auto store = [&](auto word_of) { store_words<kPlaceThreads>(payload(chunk) + first, first, made.n_units, sums, word_of); };
        if (likely(made.kind == kCoded)) {
            store(FrontAndString(reinterpret_cast<const u32*>(made.bytes(block.m)), made.front_bytes, made.string, made.string_bytes));
        } else {
            const NumberPlaces places(block);
            const u32 kind = made.kind;
            const W* const numbers = work.numbers();
            store([&](u32 i) {
                constexpr u32 kPer = sizeof(W) / 4;
                return i == 0 ? kind : static_cast<u32>(static_cast<u64>(numbers[places((i - 1) / kPer)]) >> 32 * ((i - 1) % kPer));
            });
        }
        shared.sums.share(sums);
        __syncthreads();
        Sums entry_sums;
        if (threadIdx.x == 0) {
            const Sums of_block = shared.sums.sum();
            const u64 entry_word = table_at + 2 * u64{index};
            const u32 end = static_cast<u32>(start + made.n_units), check = static_cast<u32>(checksum_of(of_block.a, of_block.b, static_cast<u64>(made.n_units) * kUnit));
            u32* const entry = payload(chunk) + entry_word;
            if (kLayered) {
                // Layers begin at any word, so the entry may not be aligned to 8 bytes.
                entry[0] = end, entry[1] = check;
            } else {
                *reinterpret_cast<uint2*>(entry) = make_uint2(end, check);
            }
            entry_sums.add(entry_word, end), entry_sums.add(entry_word + 1, check);
        }
        __syncthreads();
        return entry_sums;
    }
    __device__ __forceinline__ void put_head(const Plan& plan, u32 chunk, Sums& sums) const {
        u32* const to = payload(chunk);
        store_words<kPlaceThreads>(to, 0, own.head_bytes() / 4, sums, [&](u32 i) -> u32 {
            const auto half = [&](u64 bits) { return static_cast<u32>(bits >> 32 * (i % 2)); };
            const auto bits = [](double x) { return static_cast<u64>(__double_as_longlong(x)); };
            if (i < 2) return half(bits(plan.layers[0].bound));
            if (i < 4) return half(plan.first);
            if (i < 6) return i == 4 ? plan.order : 0;
            if (i < 8) return half(plan.layers[0].cubic);
            const u32 level = i / 2 - 4;
            return half(level < own.n_levels ? bits(plan.layers[0].bins[own.n_levels - 1 - level]) : plan.layers[0].n_exact);
        });
    }
    // Writes a piece and its table entry, and adds their sums. Contains barriers.
    __device__ __forceinline__ void put_piece(const Plan& plan, const Work<W>& work, u32 chunk, u32 piece, u64 before, Sums& sums) const {
        if (n_exact(plan) == 0) return;
        const PieceInfo info = piece_info(work, piece);
        const u64 section = own.head_bytes() / 4 + start(plan) + table_units(plan) + plan.block_units, entry = section + piece;
        const u64 first = own.head_bytes() / 4 + before + (piece == 0 ? own.n_pieces : 0);
        u32* const to = payload(chunk);
        if (threadIdx.x == 0) to[entry] = info.n_bytes, sums.add(entry, info.n_bytes);
        if (info.n_bytes == 0) return;
        PieceWriter<W>(args, shared.exact, chunk, piece).write(info, to + first);
        __syncthreads();
        StridedSums<kPlaceThreads> word_sums(first + threadIdx.x);
        for (u32 i = threadIdx.x; i < info.n_bytes / 4; i += kPlaceThreads) word_sums.add(to[first + i]);
        word_sums.finish(first + threadIdx.x, sums);
    }
};

template <typename W>
__device__ __forceinline__ void multigrid_place(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    Placer<W, false>(args, *reinterpret_cast<PlaceShared*>(bytes)).run();
}
