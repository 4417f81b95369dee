// Encodes exact elements: a CTA per piece of the array. One pass finds them and measures their
// encoded size. The last pass writes them, once their place in the payload is known (place.cuh).
// The counterpart of exact.rs.

#pragma once

#include "../stage/bitmap_write.cuh"
#include "compress.cuh"

constexpr u32 kExactThreads = 256, kExactWarps = kExactThreads / kWarp;
constexpr u32 kPieceWords = kPiece / 32, kOwnWords = kPieceWords / kExactThreads;

// Contents of a piece.
struct PieceInfo {
    u64 fill;
    u32 n_filled, n_outliers;
    u32 bitmap;    // bytes of the fill mask; the flag kCodedBitmap if it is coded
    u32 n_bytes;  // encoded bytes of the piece
};
static_assert(sizeof(PieceInfo) == 24, "crates/gridz-codecs/src/codec/multigrid/cuda.rs leaves so much");

struct ExactShared {
    using Bitmap = BitmapWriter<kExactThreads, kOwnWords>;

    // Marks of exact elements and of filled elements. A zero follows the last word of each.
    u32 exact[kPieceWords + 1], fill_mask[kPieceWords + 1];
    u32 coded[kPieceWords + kPieceWords / 4];
    typename Bitmap::Sum totals[kExactWarps];
    u32 counts[64];
    u64 fill;
    u32 n_marked, n_equal, first;
};

template <typename W>
struct PieceWriter {
    using Bitmap = ExactShared::Bitmap;
    ExactShared& shared;
    const Array<W> array;
    const u32* const bitmap;  // marks of the piece's exact elements
    const u32 start, m, row;

    __device__ __forceinline__ PieceWriter(const CompressArgs<Chunk>& args, ExactShared& shared, u32 chunk, u32 piece)
        : shared(shared), array(args, chunk), bitmap(work_of<W>(args, chunk).bitmap() + piece * kPieceWords), start(piece * kPiece),
          m(min(args.own.elements() - piece * kPiece, kPiece)), row(args.own.extents[kAxes - 1]) {}

    __device__ __forceinline__ u32 n_words() const { return (m + 31) / 32; }
    __device__ __forceinline__ W word(u32 i) const { return array[start + i]; }

    // Loads the marks of exact elements to shared memory. Returns their number. Called by all
    // threads; contains barriers.
    __device__ __forceinline__ u32 load() const {
        if (threadIdx.x == 0) shared.n_marked = shared.n_equal = 0, shared.first = ~0u, shared.exact[kPieceWords] = shared.fill_mask[kPieceWords] = 0;
        if (threadIdx.x < 64) shared.counts[threadIdx.x] = 0;
        __syncthreads();
        u32 n = 0, first = ~0u;
        for (u32 i = threadIdx.x; i < kPieceWords; i += kExactThreads) {
            const u32 own = i < n_words() ? bitmap[i] : 0;
            shared.exact[i] = own, n += __popc(own);
            if (own && first == ~0u) first = 32 * i + __ffs(own) - 1;
        }
        n = warp_sum(n), first = warp_min_unsigned(first);
        if (lane_id() == 0 && n > 0) atomicAdd(&shared.n_marked, n), atomicMin(&shared.first, first);
        __syncthreads();
        return shared.n_marked;
    }
    // Calls `f(i, word, is_mine)` for each nonzero word i of the marks, with one warp each.
    // `is_mine`: true if the lane's element is marked; `word` is then that element, otherwise 0.
    template <typename F>
    __device__ __forceinline__ void for_words(F f) const {
#pragma unroll 1
        for (u32 i = threadIdx.x / kWarp; i < n_words(); i += kExactWarps) {
            const u32 own = shared.exact[i];
            if (own == 0) continue;
            const bool is_mine = own >> lane_id() & 1;
            f(i, is_mine ? word(32 * i + lane_id()) : W(0), is_mine);
        }
    }
    // Marks the exact elements that equal `fill` in the fill mask. Returns their number. Contains
    // barriers.
    __device__ __forceinline__ u32 mark_filled(W fill) const {
        for (u32 i = threadIdx.x; i < kPieceWords; i += kExactThreads) shared.fill_mask[i] = 0;
        if (threadIdx.x == 0) shared.n_equal = 0;
        __syncthreads();
        u32 n = 0;
        for_words([&](u32 i, W word, bool is_mine) {
            const u32 equal = __ballot_sync(kAllLanes, is_mine && word == fill);
            if (lane_id() == 0) shared.fill_mask[i] = equal;
            n += __popc(equal);
        });
        if (lane_id() == 0 && n > 0) atomicAdd(&shared.n_equal, n);
        __syncthreads();
        return shared.n_equal;
    }
    // The bitwise majority of the exact elements. If more than half of them are the same word, it
    // is that word. Contains a barrier.
    __device__ __forceinline__ W likely_word() const {
        for_words([&](u32, W word, bool is_mine) {
            u32 own[sizeof(W) / 4] = {};
#pragma unroll 1
            for (u32 b = 0; b < 8 * sizeof(W); ++b) {
                const u32 n = __popc(__ballot_sync(kAllLanes, is_mine && word >> b & 1));
                if (lane_id() == b % kWarp) own[b / kWarp] = n;
            }
#pragma unroll
            for (u32 k = 0; k < sizeof(W) / 4; ++k) {
                if (own[k] > 0) atomicAdd(&shared.counts[k * kWarp + lane_id()], own[k]);
            }
        });
        __syncthreads();
        W word = 0;
        for (u32 b = 0; b < 8 * sizeof(W); ++b) word |= static_cast<W>(2 * shared.counts[b] > shared.n_marked) << b;
        return word;
    }
    // Computes the coded form of the fill mask. Contains a barrier.
    __device__ __forceinline__ Bitmap changes() const {
        u32 own[kOwnWords];
#pragma unroll
        for (u32 k = 0; k < kOwnWords; ++k) {
            const u32 at = kOwnWords * threadIdx.x + k, exist = low_bits(0u, min(m - min(m, 32 * at), 32u));
            own[k] = (row < m ? bitmap_changes(shared.fill_mask, row, at) : shared.fill_mask[at]) & exist;
        }
        return Bitmap(own, n_words(), shared.totals);
    }
    __device__ __forceinline__ u32 outlier_bytes(u32 n) const { return aligned_up(2 + 2 * n, 4) + n * static_cast<u32>(sizeof(W)); }

    // Finds the contents of the piece and their encoded size. Called by all threads; contains
    // barriers.
    __device__ __forceinline__ void measure(PieceInfo& to) const {
        PieceInfo info = {};
        const u32 n = load();
        if (n > 0) {
            W fill = word(shared.first);
            u32 n_filled = mark_filled(fill);
            if (2 * n_filled <= n) {
                fill = likely_word();
                n_filled = mark_filled(fill);
            }
            // A single filled element is shorter as an outlier. If no word has the majority, there
            // are no filled elements.
            if (n_filled < 2 || 2 * n_filled <= n) n_filled = 0;
            info.fill = fill, info.n_filled = n_filled, info.n_outliers = n - n_filled, info.n_bytes = 4;
            if (n_filled > 0) {
                const u32 coded_bytes = changes().n_bytes(), plain_bytes = 4 * n_words();
                info.bitmap = coded_bytes <= plain_bytes ? coded_bytes | kCodedBitmap : plain_bytes;
                info.n_bytes += static_cast<u32>(sizeof(W)) + 4 + aligned_up(min(coded_bytes, plain_bytes), 4);
            }
            if (info.n_outliers > 0) info.n_bytes += outlier_bytes(info.n_outliers);
        }
        if (threadIdx.x == 0) to = info;
    }

    // Adds the piece's marks to `before`, the marks of the layers before, for the next layers.
    // `has_before`: true if the layers before have marked any element.
    __device__ __forceinline__ void save_bitmap(u32* before, bool has_before) const {
        for (u32 i = threadIdx.x; i < n_words(); i += kExactThreads) before[i] = (has_before ? before[i] : 0) | bitmap[i];
    }

    // Writes a measured piece. Called by all threads; contains barriers.
    __device__ __forceinline__ void write(const PieceInfo& info, u32* to) const {
        load();
        mark_filled(static_cast<W>(info.fill));
        if (info.n_filled == 0) {
            // There are no filled elements, but outliers may equal `info.fill` and were marked.
            for (u32 i = threadIdx.x; i < kPieceWords; i += kExactThreads) shared.fill_mask[i] = 0;
        }
        __syncthreads();
        if (threadIdx.x == 0) *to = (info.n_filled > 0 ? kFillMask : 0) | (info.n_outliers > 0 ? kOutliers : 0);
        ++to;
        if (info.n_filled > 0) {
            const u32 n_words = aligned_up(info.bitmap & ~kCodedBitmap, 4) / 4;
            if (threadIdx.x == 0) {
                to[0] = static_cast<u32>(info.fill);
                if (sizeof(W) == 8) to[1] = static_cast<u32>(info.fill >> 32);
                to[sizeof(W) / 4] = info.n_filled | info.bitmap << 16;
            }
            to += sizeof(W) / 4 + 1;
            const u32* from = shared.fill_mask;
            if (info.bitmap & kCodedBitmap) {
                for (u32 i = threadIdx.x; i < n_words; i += kExactThreads) shared.coded[i] = 0;
                __syncthreads();
                changes().write(reinterpret_cast<unsigned char*>(shared.coded), 0);
                __syncthreads();
                from = shared.coded;
            }
            for (u32 i = threadIdx.x; i < n_words; i += kExactThreads) to[i] = from[i];
            to += n_words;
        }
        if (info.n_outliers > 0) write_outliers(info.n_outliers, to);
    }
    __device__ __forceinline__ void write_outliers(u32 n, u32* to) const {
        u32 own[kOwnWords];
#pragma unroll
        for (u32 k = 0; k < kOwnWords; ++k) own[k] = shared.exact[kOwnWords * threadIdx.x + k] & ~shared.fill_mask[kOwnWords * threadIdx.x + k];
        __syncthreads();
        const Bitmap outliers(own, n_words(), shared.totals);
        unsigned short* const places = reinterpret_cast<unsigned short*>(to);
        u32* const elements = to + aligned_up(2 + 2 * n, 4) / 4;
        if (threadIdx.x == 0) {
            places[0] = static_cast<unsigned short>(n);
            if (n % 2 == 0) places[n + 1] = 0;
        }
        u32 at = outliers.marked_before();
#pragma unroll
        for (u32 k = 0; k < kOwnWords; ++k) {
#pragma unroll 1
            // `at < n`: if the array changes after the measurement, there may be more outliers than
            // measured.
            for (u32 left = own[k]; left != 0 && at < n; left &= left - 1, ++at) {
                const u32 i = 32 * (kOwnWords * threadIdx.x + k) + __ffs(left) - 1;
                places[at + 1] = static_cast<unsigned short>(i);
                const u64 bits = word(i);
                elements[sizeof(W) / 4 * at] = static_cast<u32>(bits);
                if (sizeof(W) == 8) elements[2 * at + 1] = static_cast<u32>(bits >> 32);
            }
        }
    }
};

template <typename W>
__device__ __forceinline__ PieceInfo& piece_info(const Work<W>& work, u32 piece) {
    return reinterpret_cast<PieceInfo*>(work.start + work.own.pieces)[piece];
}

template <typename W, bool kLayered>
__device__ __forceinline__ void multigrid_measure_exact(const CompressArgs<Chunk>& args) {
    __shared__ ExactShared shared;
    const u32 n_pieces = args.own.n_pieces, chunk = blockIdx.x / n_pieces, piece = blockIdx.x % n_pieces;
    const Work<W> work = work_of<W>(args, chunk);
    Plan& plan = work.plan();
    const CompressZeroed& zeroed = zeroed_of(args, chunk);
    if (plan.is_stored || !zeroed.has_exact) return;
    PieceInfo& info = piece_info(work, piece);
    const PieceWriter<W> writer(args, shared, chunk, piece);
    writer.measure(info);
    if (kLayered) writer.save_bitmap(work.bitmap_before() + piece * kPieceWords, zeroed.has_exact_before);
    if (threadIdx.x > 0) return;
    // The first piece also counts the table.
    const u32 n_bytes = info.n_bytes + (piece == 0 ? 4 * n_pieces : 0);
    if (n_bytes > 0) atomicAdd(reinterpret_cast<unsigned long long*>(&plan.layers[layer_of<kLayered>(plan)].n_exact), static_cast<unsigned long long>(n_bytes));
}
