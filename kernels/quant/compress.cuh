// Compression in one pass, by the protocol of common/ordered_frames.cuh. A CTA encodes one block of
// 4096 elements at a time; many CTAs share a multiprocessor.
//
// Nearly all blocks of floats have small codes. narrow.cuh handles them: two codes share a word,
// and residuals stay in registers. It also handles clipped boxes, if they do not have too many rows
// and no row is longer than 32. All other blocks use the steps below. Steps 4 and 5 are common to
// both, but blocks of small codes have their staging buffers elsewhere.
//   1. Words become codes in registers, which are stored in shared memory (quantize.cuh). If all
//      elements are in the first zone of the quantizer, a code takes one product. Otherwise words
//      are quantized one by one. Words that have no code, or violate the bound, are marked
//      (exceptions.cuh).
//   2. Some rows are predicted with each candidate for the orders (orders.cuh).
//   3. Each thread differences a row of 32 numbers in registers, using the previous rows. A
//      histogram in shared memory counts the groups of eight of each bit length.
//   4. The first warp chooses the widths, and the block's length is published. Meanwhile the other
//      warps clear the stage, the block's staging buffer, which overlays the numbers. A prefix sum
//      gives the start of each group, and threads write their groups to the stage
//      (byte_groups.cuh).
//   5. A warp looks back at earlier blocks to find the block's position, at a time when all of them
//      have probably published their lengths. Then the stage is copied to the payload and summed
//      for the checksum, and the block is counted as complete.
//
// A CTA that looks back at once waits for the slowest of all earlier blocks. So blocks of small
// codes stay in their stages while the next ones are encoded. Each part of step 5 handles another
// block and runs on warps that would otherwise wait at a barrier:
//   - While orders of 2 are tried, one block is placed and the next one is taken.
//   - While the first warp chooses widths, the others copy the placed block and count the one
//     before it.
//
// Once a length is published, the input of the next block is prefetched to the L2 cache. A block
// without small codes takes all shared memory, so the pending blocks are written to the payload
// first.
//
// A CTA only waits for blocks that precede one whose length it has already published. While it
// waits, it holds no block that is taken but unfinished, except later ones. So the CTA with the
// first unfinished block never waits.
//
// Blocks whose rows do not have 32 elements are differenced row by row (stage/differences.cuh) into
// a separate buffer. So are blocks with numbers that may need 64 bits.
//
// For a relative bound, a separate pass before this one finds the range of each array (range.cuh).

#pragma once

#include "../common/checksum.cuh"
#include "../common/elements.cuh"
#include "../common/ordered_frames.cuh"
#include "../common/warp.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "../stage/words.cuh"
#include "block_work.cuh"
#include "each_element.cuh"
#include "exceptions.cuh"
#include "layout.cuh"
#include "narrow.cuh"
#include "numbers.cuh"
#include "byte_groups.cuh"
#include "orders.cuh"
#include "payload_write.cuh"
#include "quantize.cuh"
#include "range.cuh"

template <typename W>
struct QuantCompressor {
    using Shared = QuantShared<W>;
    static constexpr u32 kPerUnit = Word<W>::kPerUnit;
    // Differences of 64-bit codes fit 32 bits if the magnitudes of the codes are below
    // 2^kNarrowBits and the orders add up to at most kNarrowOrders.
    static constexpr u32 kNarrowBits = 19, kNarrowOrders = 10;

    // The bit lengths or widths of a thread's four groups, one byte each.
    using Four = u32;

    const CompressArgs<Chunk>& args;
    Shared& shared;
    const Element element;  // an element, or one part of a complex element
    const OrderedFrames<FrameLayout> frames;

    __device__ __forceinline__ QuantCompressor(const CompressArgs<Chunk>& args, Shared& shared)
        : args(args), shared(shared), element(args.own.part(args.encoded)),
          frames(args, FrameLayout{args.own, element.bytes << args.own.log_parts()}, args.own.n_blocks, args.own.n_blocks) {}

    __device__ __forceinline__ void run() const {
        if (threadIdx.x == kQuantThreads - 1) {
            shared.quantized_chunk = ~0u, shared.narrow_misses = shared.is_found = 0;
            for (u32 i = 0; i <= kNow; ++i) shared.pending[i].exists = 0;
            shared.grid = BoxGrid(args.own.extents, kLogBlock);
        }
        u32 turn = 0;
        for (;; turn = after(turn)) {
            if (threadIdx.x >= kQuantThreads - kWarp) begin();
            __syncthreads();
            if (unlikely(shared.ticket.kind != kFirst)) break;
            encode(shared.ticket, turn);
        }
        flush_all(turn);
        frames.run_rewrites<kQuantThreads>(shared.ticket, shared.pending[0].sums);
    }
    // Blocks of small codes use the entries of `pending` in turn. While a block is encoded, the
    // second block before it is placed and copied, and the third before it is counted. Any other
    // block is copied as soon as it is encoded, from entry kNow.
    static constexpr u32 kTurns = 3, kNow = kTurns;
    static __device__ __forceinline__ u32 after(u32 turn) { return turn + 1 == kTurns ? 0 : turn + 1; }

    // Takes the next block and finds its box. Called by one thread.
    __device__ __forceinline__ void find_next() const {
        Ticket next;
        do {
            next = frames.resolve(frames.take());
        } while (unlikely(next.kind == kFirst && frames.skips(next)));
        shared.next = next, shared.is_found = 1;
        if (likely(next.kind == kFirst)) shared.next_box.set(shared.grid.box(args.own.extents, next.index >> args.own.log_parts()), kLogBlock);
    }
    // Makes the next block the current one, for all threads. Called by the last warp.
    __device__ __forceinline__ void begin() const {
        // All lanes read the last lane's earlier writes, before it writes again.
        __syncwarp();
        const bool is_found = shared.is_found;
        __syncwarp();
        if (unlikely(!is_found)) {
            if (lane_id() == kWarp - 1) find_next();
            __syncwarp();
        }
        constexpr u32 kWords = sizeof(RowBox) / 4;
        static_assert(kWords <= kWarp, "a lane copies a word");
        if (lane_id() < kWords) reinterpret_cast<u32*>(&shared.box)[lane_id()] = reinterpret_cast<const u32*>(&shared.next_box)[lane_id()];
        __syncwarp();
        if (lane_id() < kWarp - 1) return;
        const Ticket tile = shared.next;
        shared.ticket = tile, shared.is_found = 0;
        if (likely(tile.kind == kFirst)) prepare(tile);
    }
    __device__ __forceinline__ void prepare(const Ticket& tile) const {
        const u32 chunk = args.own.mode() == kRel ? tile.chunk : 0;
        if (unlikely(shared.quantized_chunk != chunk)) {
            shared.quantizer.set(args.own, bound_of<W>(args, chunk));
            shared.quantized_chunk = chunk;
        }
        shared.n_filled = shared.n_outliers = 0;
        if (shared.narrow_misses >= kMiss) --shared.narrow_misses;
    }

    // The result of encoding a block.
    struct Made {
        u32 header = 0;  // of raw and constant blocks
        u32 n_units;
        W word;      // of a constant block
        u32 stage;   // of other blocks: byte offset in the buffers
    };

    // Encodes a block. Called by all threads.
    __device__ __forceinline__ void encode(const Ticket& tile, u32 turn) const {
        const RowBox& box = shared.box;
        const bool has_rows = box.sx == kRow || box.is_line();
        Made made;
        bool is_made = false;
        if (likely(may_be_narrow())) {
            is_made = make_narrow(tile, made, turn);
            if (likely(is_made && !(made.header & kRawBlock))) return;
            __syncthreads();
        }
        // Encoding this block takes the memory of the pending ones.
        flush_all(turn);
        if (has_rows && unlikely(!is_made)) {
            is_made = make<true>(tile, made);
            if (unlikely(!is_made)) __syncthreads();
        }
        if (unlikely(!is_made)) make<false>(tile, made);
        if (threadIdx.x == 0) save(kNow, tile, made);
        __syncthreads();
        flush(kNow, turn, made);
    }

    // Prefetches the next block to the L2 cache: one row per thread.
    static constexpr u32 kLine = 128;
    __device__ __forceinline__ void fetch_next() const {
        const RowBox& box = shared.next_box;
        const bool is_line = box.is_line();
        if (unlikely(shared.next.kind != kFirst) || threadIdx.x >= box.n_rows() || (is_line && threadIdx.x * kRow >= box.m)) return;
        u32 y;
        const u32 z = box.planes.divide(threadIdx.x, y);
        const u64 rows = (z * args.own.extents[1] + y) * (is_line ? kRow : args.own.extents[2]);
        const char* const row = frames.source(shared.next.chunk) + (box.start + rows) * sizeof(W);
#pragma unroll
        for (u32 i = 0; i < kRow * sizeof(W); i += kLine) prefetch_l2(row + min(i, (box.sx - 1) * static_cast<u32>(sizeof(W))));
    }

    // Records an encoded block as pending. Called by one thread.
    __device__ __forceinline__ void save(u32 to, const Ticket& tile, const Made& made) const {
        PendingBlock& pending = shared.pending[to];
        pending.exists = 1, pending.chunk = tile.chunk, pending.index = tile.index, pending.n_units = made.n_units, pending.stage = made.stage;
    }
    // Finds the position of a pending block in the payload. Called by one warp.
    __device__ __forceinline__ void place(PendingBlock& pending) const {
        if (!pending.exists) return;
        const u32 before = frames.place(pending.chunk, pending.index, pending.n_units);
        if (lane_id() == 0) pending.before = before;
    }
    // Places, copies and counts pending block `last`, and counts block `before`, which precedes it.
    // Called by all threads, after a barrier.
    __device__ __forceinline__ void flush(u32 last, u32 before, const Made& made) const {
        // If `last` does not exist, neither does `before`.
        if (!shared.pending[last].exists) return;
        if (threadIdx.x < kWarp) place(shared.pending[last]);
        if (threadIdx.x / kWarp == 1) settle(shared.pending[before]);
        __syncthreads();
        copy<kQuantThreads>(threadIdx.x, shared.pending[last], made);
        __syncthreads();
        if (threadIdx.x >= kWarp) return;
        settle(shared.pending[last]);
    }

    // Flushes all pending blocks.
    __device__ __forceinline__ void flush_all(u32 turn) const {
#pragma unroll 1
        for (u32 last = after(turn); last != turn; last = after(last)) flush(last, turn, Made());
    }

    // Copies a block to the payload and shares its sums. `kThreads` threads take part.
    template <u32 kThreads>
    __device__ __forceinline__ void copy(u32 thread, PendingBlock& pending, const Made& made) const {
        const u32 log_unit = args.own.log_unit(), n_bytes = pending.n_units << log_unit;
        const u64 first = args.own.table_bytes() + (static_cast<u64>(pending.before) << log_unit);
        char* const to = frames.payload(pending.chunk) + first;
        Sums sums;
        if (likely(!(made.header & kRawBlock) && log_unit >= 3)) {
            const u64 pair = first / 8 + thread;
            const uint2* const stage = reinterpret_cast<const uint2*>(reinterpret_cast<const unsigned char*>(shared.buffers) + pending.stage);
            PairSums<kThreads> pair_sums(pair);
#pragma unroll 1
            for (u32 i = thread; i < n_bytes / 8; i += kThreads) {
                const uint2 words = stage[i];
                reinterpret_cast<uint2*>(to)[i] = words;
                pair_sums.add(words);
            }
            pair_sums.finish(pair, sums);
        } else {
            const bool is_plain = made.header & kRawBlock, swaps = args.flags & kSwapBytes;
            const u32* const stage = reinterpret_cast<const u32*>(reinterpret_cast<const unsigned char*>(shared.buffers) + pending.stage);
            const Finder elements(args.own, shared.box);
            const char* const array = source(pending.chunk, pending.index);
            StridedSums<kThreads> word_sums(first / 4 + thread);
#pragma unroll 1
            for (u32 i = thread; i < n_bytes / 4; i += kThreads) {
                const u32 word = is_plain ? plain_word<W>(made.header, made.word, i, elements, array, element, shared.box.m, swaps) : stage[i];
                reinterpret_cast<u32*>(to)[i] = word;
                word_sums.add(word);
            }
            word_sums.finish(first / 4 + thread, sums);
        }
        pending.sums.share(sums);
    }
    // Writes the table entry of a copied block, whose sums are shared, and counts the block as
    // complete. Called by one warp.
    __device__ __forceinline__ void settle(PendingBlock& pending) const {
        if (!pending.exists) return;
        const u32 chunk = pending.chunk, block = pending.index;
        Sums sums;
        if (lane_id() == 0) {
            sums = pending.sums.sum();
            add_entry<W>(frames, chunk, block, pending.before, pending.n_units, sums);
        }
        frames.complete(kFirst, chunk, frames.count(kFirst, chunk, sums, 1, 0));
        if (lane_id() == 0) pending.exists = 0;
    }

    // Index of the part of each element that a block holds, and the address of this part in the
    // array's first element.
    __device__ __forceinline__ u32 part(u32 index) const { return part_of(args.own, index); }
    __device__ __forceinline__ const char* source(u32 chunk, u32 index) const { return frames.source(chunk) + part(index) * element.bytes; }

    // ORs `found` over all threads. Has a barrier.
    __device__ __forceinline__ u32 share(u32 found) const {
        found = warp_or(found);
        if (lane_id() == 0) shared.found[threadIdx.x / kWarp] = found;
        __syncthreads();
        const uint4 all = *reinterpret_cast<const uint4*>(shared.found);
        return all.x | all.y | all.z | all.w;
    }

    // Rows that all threads together load at once, if each thread loads `kN` elements.
    template <u32 kN>
    static constexpr u32 kRowsOf = kQuantThreads / (kRow / kN);
    // Loads in flight per thread: as many as registers allow.
    static constexpr u32 kBatch = sizeof(W) == 4 ? 4 : 8;
    __device__ __forceinline__ bool may_be_near() const {
        return shared.quantizer.near_limit > Float<W>(0) && args.own.has_plain_elements() && (shared.box.sz == 1 || shared.box.sy >= kRowsOf<1>);
    }
    // Stores the codes of a block minus its first code, and returns flags: kFar if an element is
    // not in the first zone.
    __device__ __forceinline__ u32 load_near(const char* start, const Numbers<W, true>& numbers) const {
        const u32 next_row = shared.box.is_line() ? 0 : static_cast<u32>(args.own.extents[2] * sizeof(W));
        const bool is_aligned = (static_cast<u32>(reinterpret_cast<u64>(start)) | next_row) % kUnitBytes == 0 && !(args.flags & kSwapBytes);
        return likely(is_aligned) ? load_near_by<kPerUnit>(start, numbers) : load_near_by<1>(start, numbers);
    }
    // Implements load_near(), with `kN` elements at a time.
    template <u32 kN>
    __device__ __forceinline__ u32 load_near_by(const char* start, const Numbers<W, true>& numbers) const {
        using F = Float<W>;
        constexpr u32 kPerRow = kRow / kN, kRowsAtOnce = kRowsOf<kN>;
        const RowBox& box = shared.box;
        const Quantizer<W>& quantizer = shared.quantizer;
        const F step = quantizer.steps[0], inverse = quantizer.inverses[0], bound = quantizer.bound, limit = quantizer.near_limit;
        const bool swaps = args.flags & kSwapBytes;
        // Adding this rounds a small number to an integer, whose bits are then the low bits of the
        // sum.
        const F magic = sizeof(W) == 8 ? static_cast<F>(6755399441055744.0) : static_cast<F>(12582912.0f);
        const W first_word = load_element<W>(start, element, swaps);
        const u32 first = static_cast<u32>(bits_of(float_of(first_word) * inverse + magic));
        if (threadIdx.x == 0) shared.first_word = first_word, shared.first_code = sign_extended(first - static_cast<u32>(bits_of(magic)));
        const u32 n_rows = box.m / kRow, height = box.planes.divisor;
        const u64 row_bytes = (box.is_line() ? kRow : args.own.extents[2]) * sizeof(W), plane_bytes = args.own.extents[1] * row_bytes;
        const u32 own_row = threadIdx.x / kPerRow, x = threadIdx.x % kPerRow;
        u32 y;
        const u32 z = box.planes.divide(own_row, y);
        const char* from = start + z * plane_bytes + y * row_bytes + x * kN * sizeof(W);
        // If a plane has as many rows as are loaded at once, or there is only one plane, all loads
        // are equally far apart.
        const bool is_even = height == kRowsAtOnce || box.sz == 1;
        const u64 next_rows = height == kRowsAtOnce ? plane_bytes : kRowsAtOnce * row_bytes, next_plane = plane_bytes - height * row_bytes;
        bool is_near = true;
        W words_differ = 0;
        u32 codes_differ = 0;
#pragma unroll 1
        for (u32 row = own_row; row - own_row < n_rows; row += kBatch * kRowsAtOnce) {
            W words[kBatch][kN];
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                // Loads past the last row read the first row instead.
                const char* const at = row + k * kRowsAtOnce < n_rows ? from : start + x * kN * sizeof(W);
                if (kN == 1) {
                    words[k][0] = *reinterpret_cast<const W*>(at);
                } else {
                    split(*reinterpret_cast<const uint4*>(at), words[k]);
                }
                from += next_rows;
                if (kN == 1) {
                    // A plane has at least kRowsAtOnce rows, so at most one plane ends.
                    y += kRowsAtOnce;
                    const bool ends = !is_even && y >= height;
                    y -= ends ? height : 0;
                    from += ends ? next_plane : 0;
                } else if (unlikely(!is_even)) {
                    y += kRowsAtOnce;
                    while (y >= height) y -= height, from += next_plane;
                }
            }
#pragma unroll
            for (u32 k = 0; k < kBatch; ++k) {
                const u32 at = row + k * kRowsAtOnce;
                u32 codes[kN];
#pragma unroll
                for (u32 i = 0; i < kN; ++i) {
                    if (kN == 1 && swaps) words[k][i] = swapped_bytes(words[k][i]);
                    const F value = float_of(words[k][i]), whole = value * inverse + magic;
                    is_near &= (size_of(value - (whole - magic) * step) <= bound) & (size_of(value) < limit);
                    codes[i] = static_cast<u32>(bits_of(whole)) - first;
                    words_differ |= words[k][i] ^ first_word, codes_differ |= codes[i];
                }
                if (at >= n_rows) continue;
                if (kN == 4) {
                    numbers.chunk(at, x) = make_uint4(codes[0], codes[1 % kN], codes[2 % kN], codes[3 % kN]);
                } else if (kN == 2) {
                    reinterpret_cast<uint2*>(&numbers.chunk(at, x / 2))[x % 2] = make_uint2(codes[0], codes[1 % kN]);
                } else {
                    numbers[at * kRow + x] = codes[0];
                }
            }
        }
        return (words_differ ? kWordsDiffer : 0) | (codes_differ ? kCodesDiffer : 0) | (is_near ? 0 : kFar);
    }
    static __device__ __forceinline__ W sign_extended(u32 code) { return static_cast<W>(static_cast<s64>(static_cast<s32>(code))); }

    // Stores the numbers of any block, codes or words, one by one. For codes, marks elements that
    // have no code or violate the bound. Returns the thread's Found flags.
    template <bool kRows>
    __device__ __forceinline__ u32 load_any(const Finder& elements, const char* array, const Numbers<W, kRows>& numbers, bool are_codes, const Missing& missing) const {
        using N = typename Numbers<W, kRows>::N;
        const EachElement<W> each{shared.quantizer, elements, array, element, (args.flags & kSwapBytes) != 0, args.own.has_missing(), missing, shared.box.m};
        W first_word;
        const W first = each.first(are_codes, first_word);
        if (threadIdx.x == 0) shared.first_word = first_word, shared.first_code = first;
        return each.template load<kQuantWarps>(are_codes, first_word, first, shared.uncoded, shared.outliers, kElements / 32, [&](u32 i, W number) {
            numbers[i] = static_cast<N>(number);
            const bool is_far = sizeof(N) < sizeof(W) && shifted_signed(number, kNarrowBits) != shifted_signed(number, 63);
            return is_far ? kFar : 0u;
        });
    }

    // Whether to try a block as one of small codes (narrow.cuh). After repeated misses, it is not
    // tried for a while.
    static constexpr u32 kMiss = 8, kMostMisses = 15;
    __device__ __forceinline__ bool may_be_narrow() const {
        const RowBox& box = shared.box;
        // With a finite limit, no product of a code and the step is infinite.
        const Float<W> limit = shared.quantizer.near_limit, most = rounded_down(__longlong_as_double(0x7fefffffffffffffll), W());
        const bool has_rows = box.is_line() ? box.m == kElements : box.sx <= kRow && box.sz * box.sy <= kNarrowRows && (box.sz == 1 || box.sy >= kRowsOf<1>);
        return limit > Float<W>(0) && limit <= most && args.own.has_plain_elements() && has_rows && shared.narrow_misses < kMiss;
    }
    // Stores the codes of such a block. The result contains Found flags and, from bit kSizesAt on,
    // the OR of all magnitudes.
    static constexpr u32 kSizesAt = 16;
    __device__ __forceinline__ u32 load_narrow(const char* start, const NarrowNumbers<W>& numbers) const {
        constexpr u32 kRows = kRowsOf<kPerUnit>;
        const RowBox& box = shared.box;
        const u32 next_row = static_cast<u32>(row_bytes());
        const bool is_aligned = (static_cast<u32>(reinterpret_cast<u64>(start)) | next_row) % kUnitBytes == 0 && !(args.flags & kSwapBytes);
        const bool is_whole = box.m == kElements && box.sx >= kRow && (box.sz == 1 || box.sy == kRows || box.sy == 2 * kRows);
        return likely(is_aligned && is_whole) ? load_narrow_whole(start, numbers) : load_narrow_any(start, numbers);
    }

    // Bytes from the start of one row to that of the next.
    __device__ __forceinline__ u64 row_bytes() const { return (shared.box.is_line() ? kRow : args.own.extents[2]) * sizeof(W); }

    // Quantizes elements and collects the properties of all of them.
    struct NarrowMaker {
        using F = Float<W>;
        const F step, inverse, bound, limit;
        W first_word;
        u32 zero;
        bool is_near = true;
        W words_differ = 0;
        u32 not_sizes = ~0u;

        __device__ __forceinline__ explicit NarrowMaker(const Quantizer<W>& quantizer)
            : step(quantizer.steps[0]), inverse(quantizer.inverses[0]), bound(quantizer.bound), limit(quantizer.near_limit) {}
        // Adding this rounds a small number to an integer, whose bits are then the low bits of the
        // sum.
        static __device__ __forceinline__ F magic() { return sizeof(W) == 8 ? static_cast<F>(6755399441055744.0) : static_cast<F>(12582912.0f); }
        __device__ __forceinline__ void begin(W word, Shared& shared) {
            first_word = word;
            const u32 first = static_cast<u32>(bits_of(float_of(word) * inverse + magic()));
            zero = first - 0x8000;
            if (threadIdx.x == 0) shared.first_word = word, shared.first_code = sign_extended(first - static_cast<u32>(bits_of(magic())));
        }
        // The element's code minus the first one, as an unsigned 16-bit number with a bias of 2^15.
        __device__ __forceinline__ u32 number(W word) {
            const F value = float_of(word), whole = value * inverse + magic();
            // The product is exact, so a fused multiply-add gives the same result.
            is_near &= (size_of(less_product(value, whole - magic(), step)) <= bound) & (size_of(value) < limit);
            const u32 number = static_cast<u32>(bits_of(whole)) - zero;
            // The first zone of 32-bit words has fewer codes than this.
            if (sizeof(W) == 8) is_near &= number < 0x10000;
            words_differ |= word ^ first_word;
            return number;
        }
        __device__ __forceinline__ u32 pair(W low, W high) {
            const u32 first = number(low), pair = first + (number(high) << 16);
            not_sizes &= pair ^ broadcast_signs(pair);
            return pair;
        }
        __device__ __forceinline__ u32 single(W word) {
            const u32 own = number(word), pair = own + (kZeros & 0xffff0000u);
            not_sizes &= pair ^ broadcast_signs(pair);
            return own;
        }
        __device__ __forceinline__ u32 found() const {
            const u32 sizes = (~not_sizes | ~not_sizes >> 16) & 0x7fff;
            return (words_differ ? kWordsDiffer : 0) | (is_near ? 0 : kFar) | sizes << kSizesAt;
        }
        static __device__ __forceinline__ float less_product(float x, float n, float step) { return __fmaf_rn(-n, step, x); }
        static __device__ __forceinline__ double less_product(double x, double n, double step) { return __fma_rn(-n, step, x); }
    };

    // Loads a full block with aligned rows. All loads are in flight together.
    __device__ __forceinline__ u32 load_narrow_whole(const char* start, const NarrowNumbers<W>& numbers) const {
        constexpr u32 kPerRow = kRow / kPerUnit, kRows = kRowsOf<kPerUnit>, kLoads = kNarrowRows / kRows;
        static_assert(kRows % 8 == 0, "groups of rows that are so far from each other are in the same places of them");
        const RowBox& box = shared.box;
        const u64 row_bytes = this->row_bytes(), plane_bytes = args.own.extents[1] * row_bytes;
        const bool are_planes = box.sz > 1 && box.sy == kRows, are_halves = box.sz > 1 && box.sy == 2 * kRows;
        const u64 next = are_planes ? plane_bytes : kRows * row_bytes, next_two = are_halves ? plane_bytes : 2 * next;
        const u32 own_row = threadIdx.x / kPerRow, x = threadIdx.x % kPerRow * kPerUnit;
        const char* const from = start + own_row * row_bytes + x * sizeof(W);
        uint4 units[kLoads];
#pragma unroll
        for (u32 k = 0; k < kLoads; ++k) units[k] = *reinterpret_cast<const uint4*>(from + k / 2 * next_two + k % 2 * next);
        NarrowMaker maker(shared.quantizer);
        maker.begin(*reinterpret_cast<const W*>(start), shared);
        unsigned char* const to = reinterpret_cast<unsigned char*>(&numbers.byte_group(own_row, x / kByteGroup)) + x % kByteGroup * 2;
#pragma unroll
        for (u32 k = 0; k < kLoads; ++k) {
            W words[kPerUnit];
            split(units[k], words);
            unsigned char* const at = to + k * kRows * NarrowNumbers<W>::kRowBytes;
            const u32 low = maker.pair(words[0], words[1]);
            if (kPerUnit == 2) {
                *reinterpret_cast<u32*>(at) = low;
            } else {
                *reinterpret_cast<uint2*>(at) = make_uint2(low, maker.pair(words[2 % kPerUnit], words[3 % kPerUnit]));
            }
        }
        return maker.found();
    }
    // Loads any block, one element per lane at a time; a warp handles a row.
    __device__ __forceinline__ u32 load_narrow_any(const char* start, const NarrowNumbers<W>& numbers) const {
        constexpr u32 kLoads = 8;
        const RowBox& box = shared.box;
        const bool swaps = args.flags & kSwapBytes;
        const u32 n_rows = box.n_rows(), height = box.sz == 1 ? kNarrowRows : box.sy;
        const u64 row_bytes = this->row_bytes(), plane_bytes = args.own.extents[1] * row_bytes;
        // Lanes past the end of a row repeat its last element.
        const u32 own_row = threadIdx.x / kWarp, x = min(lane_id(), box.sx - 1);
        const char* from = start + own_row * row_bytes + x * sizeof(W);
        u32 y = own_row;
        const u64 next_rows = kQuantWarps * row_bytes, next_plane = next_rows + plane_bytes - height * row_bytes;
        NarrowMaker maker(shared.quantizer);
        maker.begin(load_element<W>(start, element, swaps), shared);
#pragma unroll 1
        for (u32 row = own_row; row < n_rows; row += kLoads * kQuantWarps) {
            W words[kLoads];
#pragma unroll
            for (u32 k = 0; k < kLoads; ++k) {
                // Loads past the last row read the first element instead.
                words[k] = *reinterpret_cast<const W*>(row + k * kQuantWarps < n_rows ? from : start);
                y += kQuantWarps;
                const bool ends = y >= height;
                y -= ends ? height : 0;
                from += ends ? next_plane : next_rows;
            }
#pragma unroll
            for (u32 k = 0; k < kLoads; ++k) {
                const u32 number = maker.single(swaps ? swapped_bytes(words[k]) : words[k]), at = row + k * kQuantWarps;
                if (at < n_rows) numbers.number(at, lane_id()) = static_cast<unsigned short>(number);
            }
        }
        return maker.found();
    }

    // Returns kCodesDiffer if any number of the thread's row is not 0. Has a barrier.
    __device__ __forceinline__ u32 have_codes(const NarrowNumbers<W>& numbers) const {
        u32 found = 0;
        for (u32 x = 0; x < min(shared.box.sx, kRow) && threadIdx.x < shared.box.n_rows(); ++x) {
            if (numbers.number(threadIdx.x, x) != 0x8000) found = kCodesDiffer;
        }
        __syncthreads();
        return found;
    }

    // Like make(), for a block of small codes. Also returns false if its codes are not small.
    __device__ __forceinline__ bool make_narrow(const Ticket& tile, Made& made, u32 turn) const {
        const RowBox& box = shared.box;
        const NarrowNumbers<W> numbers(shared);
        const u32 m = box.m, t = threadIdx.x, n_rows = box.n_rows();
        const Keep keeper{*this, tile, made, turn};
        // The buffers hold the 16-bit numbers, then one stage per turn. A stage has room for as
        // many bytes as the numbers, the front of the block, and one unit.
        constexpr u32 kNumberBytes = kElements * 2, kStageBytes = kNumberBytes + 512;
        static_assert(kNumberBytes + kTurns * kStageBytes <= sizeof shared.buffers && kMaxWidths * kByteGroups / 16 + 64 <= kStageBytes - kNumberBytes, "stages fit");
        const u32 stage = kNumberBytes + turn * kStageBytes;
        if (t < 72) shared.n_of_length[t] = 0;
        if (t < 8) shared.narrow_costs[t] = 0;
        const u32 found = share(load_narrow(frames.source(tile.chunk) + box.start * sizeof(W), numbers)), sizes = found >> kSizesAt;
        Orders orders;
        u32 base = 0;
        bool is_narrow = !(found & kFar) && sizes < kMostNarrow;
        if (likely(is_narrow)) {
            if (unlikely(!(found & kWordsDiffer))) return make_const(tile, made, shared.first_word);
            // 0 and -1 have the same magnitude here, so the numbers themselves must be compared.
            if (unlikely(sizes == 0) && !(share(have_codes(numbers)) & kCodesDiffer)) return make_const(tile, made, shared.quantizer.value(shared.first_code));
            is_narrow = NarrowOrders<W>(shared).choose(sizes, orders, base, keeper) && ((2 * sizes + 1) << (orders.z + orders.y + orders.x)) <= 0xffff;
        }
        if (t == 0) shared.narrow_misses = is_narrow ? shared.narrow_misses - min(shared.narrow_misses, 1u) : min(shared.narrow_misses + kMiss, kMostMisses);
        if (unlikely(!is_narrow)) return false;
        NarrowRow<W> row;
        if (likely(t < n_rows)) {
            row.difference(numbers, box, t, orders, base);
        } else {
            row.clear();
        }
        if (unlikely(box.sx < kRow)) {
            // Joins the short rows, so that each thread gets 32 consecutive numbers.
            unsigned short* const line = reinterpret_cast<unsigned short*>(reinterpret_cast<unsigned char*>(shared.buffers) + stage);
#pragma unroll
            for (u32 i = 0; i < kPairs; ++i) {
                if (t < n_rows && 2 * i < box.sx) line[t * box.sx + 2 * i] = static_cast<unsigned short>(row.pairs[i]);
                if (t < n_rows && 2 * i + 1 < box.sx) line[t * box.sx + 2 * i + 1] = static_cast<unsigned short>(row.pairs[i] >> 16);
            }
            if (t < aligned_up(m, kByteGroup) - m) line[m + t] = 0;
            __syncthreads();
#pragma unroll
            for (u32 c = 0; c < 4; ++c) split(reinterpret_cast<const uint4*>(line)[4 * t + c], &row.pairs[4 * c]);
        }
        Four lengths = 0;
#pragma unroll
        for (u32 c = 0; c < 4; ++c) lengths |= row.length(c) << 8 * c;
        made.stage = stage, made.header = 0;
        const u32 n_groups = (m + kByteGroup - 1) / kByteGroup;
        finish<kStageBytes, 16>(tile, made, orders, shared.first_code + sign_extended(base), lengths, NoExceptions(), AddRow{row, n_groups}, keeper);
        return true;
    }
    struct AddRow {
        const NarrowRow<W>& row;
        const u32 n_groups;
        __device__ __forceinline__ void operator()(Four widths, u32 at) const {
#pragma unroll
            for (u32 c = 0; c < 4; ++c) {
                const u32 width = widths >> 8 * c & 0xff;
                if (4 * threadIdx.x + c < n_groups) add_narrow_group(row.pairs[4 * c], row.pairs[4 * c + 1], row.pairs[4 * c + 2], row.pairs[4 * c + 3], width, at);
                at += width;
            }
        }
    };
    // Work done while a block is encoded: a pending block is placed and copied, the one before it
    // is counted, and the next block is taken.
    struct Keep {
        const QuantCompressor& of;
        const Ticket& tile;
        const Made& made;
        const u32 turn;
        // Called by the last two warps, while the other warps try orders.
        __device__ __forceinline__ void place() const {
            if (threadIdx.x >= kQuantThreads - kWarp) of.place(of.shared.pending[after(turn)]);
            if (threadIdx.x == kQuantThreads - 2 * kWarp) of.find_next();
        }
        // Called by every warp. The first one calls it after it has chosen the widths.
        __device__ __forceinline__ void copy() const {
            constexpr u32 kThreads = kQuantThreads - 2 * kWarp;
            const u32 thread = threadIdx.x - kWarp;
            PendingBlock& before = of.shared.pending[after(turn)];
            if (thread < kThreads) {
                if (likely(before.exists)) of.template copy<kThreads>(thread, before, Made());
                return;
            }
            before.sums.clear();
            if (threadIdx.x >= kWarp) of.settle(of.shared.pending[turn]);
        }
        // Called once the length is published.
        __device__ __forceinline__ void go_on() const {
            if (threadIdx.x == 0) of.save(turn, tile, made), of.shared.pending[turn].exists = !made.header;
            of.fetch_next();
        }
    };
    struct KeepNothing {
        __device__ __forceinline__ void copy() const {}
        __device__ __forceinline__ void go_on() const {}
    };
    struct NoExceptions {
        __device__ __forceinline__ u32 fill_mask_bytes() const { return 0; }
        __device__ __forceinline__ u32 outlier_bytes() const { return 0; }
        __device__ __forceinline__ void write(unsigned char*, u32) const {}
    };

    // Encodes a block in its stage and publishes its length. Returns false, in all threads, if the
    // numbers or their differences may not fit N. Has barriers.
    template <bool kRows>
    __device__ __forceinline__ bool make(const Ticket& tile, Made& made) const {
        using N = typename Numbers<W, kRows>::N;
        const RowBox& box = shared.box;
        const Numbers<W, kRows> numbers(shared);
        const Finder elements(args.own, box);
        const char* const array = source(tile.chunk, tile.index);
        const Missing& missing = args.own.missing[part(tile.index) == 0 ? 0 : 1];
        const u32 m = box.m, t = threadIdx.x, log_unit = args.own.log_unit();
        if (t < 72) shared.n_of_length[t] = 0;
        const bool has_codes = shared.quantizer.kind != Quantized::kNothing;
        u32 found = kFar;
        const bool has_long_rows = kRows ? m % kRow == 0 : box.sx >= kRow / 2 && !box.is_line();
        if (likely(has_long_rows && may_be_near())) {
            found = share(load_rows(array + box.start * element.bytes, numbers));
            if (unlikely(found & kFar)) __syncthreads();
        }
        if (unlikely(found & kFar)) {
            found = share(load_any<kRows>(elements, array, numbers, has_codes, missing));
            if (sizeof(N) < sizeof(W) && found & kFar) return false;
        }
        if (unlikely(!(found & kWordsDiffer))) return make_const(tile, made, shared.first_word);
        u32 header = 0;
        bool is_coded = has_codes;
        const QuantExceptions<W, kRows> exceptions{shared, numbers, elements, array, element, (args.flags & kSwapBytes) != 0};
        if (unlikely(has_codes && found & (kUncoded | kOutside))) {
            is_coded = exceptions.find();
            header = (is_coded && shared.n_filled ? kHasFillMask : 0) | (is_coded && shared.n_outliers ? kHasOutliers : 0);
        } else if (unlikely(has_codes && !(found & kCodesDiffer))) {
            return make_const(tile, made, shared.quantizer.value(shared.first_code));
        }
        if (unlikely(!is_coded)) {
            header = kHasWords;
            if (has_codes) {
                __syncthreads();
                found = share(load_any<kRows>(elements, array, numbers, false, missing));
                if (sizeof(N) < sizeof(W) && found & kFar) return false;
            }
        }

        Orders orders;
        N base;
        QuantOrders<W, kRows>(shared).choose(static_cast<N>(shared.first_code), orders, base);
        if (sizeof(N) < sizeof(W) && orders.z + orders.y + orders.x > kNarrowOrders) return false;
        const Residuals<kRows> residuals{shared};
        const Four lengths = make_residuals(residuals, numbers, base, orders);
        // A block of 32-bit numbers with exceptions takes at most 1.5 times the bytes of the
        // numbers.
        constexpr u32 n_stage_bytes = sizeof(N) < sizeof(W) ? kElements * sizeof(N) / 2 * 3 : sizeof(Buffer<W>);
        made.stage = 0, made.header = header;
        const W start = shared.first_code + (sizeof(N) < sizeof(W) ? sign_extended(static_cast<u32>(base)) : static_cast<W>(base));
        finish<n_stage_bytes, 8 * sizeof(N)>(tile, made, orders, start, lengths, exceptions, AddResiduals<kRows>{residuals}, KeepNothing());
        return true;
    }

    // Completes a block whose group lengths are known: publishes its length and fills its stage.
    // `add(widths, at)` writes the thread's groups to shared memory, from address `at` on. `keeper`
    // does other work meanwhile. Has barriers.
    template <u32 kStageBytes, u32 kLongest, typename Exceptions, typename Add, typename Keeper>
    __device__ __forceinline__ void finish(const Ticket& tile, Made& made, const Orders& orders, W start, Four lengths, const Exceptions& exceptions, Add add,
                                           Keeper keeper) const {
        const u32 m = shared.box.m, t = threadIdx.x, log_unit = args.own.log_unit(), n_groups = (m + kByteGroup - 1) / kByteGroup;
#pragma unroll
        for (u32 c = 0; c < 4; ++c) {
            if (4 * t + c < n_groups) atomicAdd(&shared.n_of_length[lengths >> 8 * c & 0xff], 1u);
        }
        __syncthreads();
        unsigned char* const stage = reinterpret_cast<unsigned char*>(shared.buffers) + made.stage;
        if (t < kWarp) {
            choose_table<kLongest>(shared, n_groups);
        } else {
            constexpr u32 n_units = kStageBytes / kUnitBytes;
#pragma unroll 4
            for (u32 u = t - kWarp; u < n_units; u += kQuantThreads - kWarp) reinterpret_cast<uint4*>(stage)[u] = make_uint4(0, 0, 0, 0);
        }
        keeper.copy();
        __syncthreads();
        const u32 n_widths = shared.n_widths, bits = index_bits(n_widths), base_at = aligned_up(2 + n_widths, kAlignment);
        u32 header = made.header;
        const bool has_exceptions = header & (kHasFillMask | kHasOutliers);
        const u32 exceptions_at = base_at + sizeof(W), index = exceptions_at + (unlikely(has_exceptions) ? exceptions.fill_mask_bytes() + exceptions.outlier_bytes() : 0);
        const u32 byte_groups = index + aligned_up((n_groups * bits + 7) / 8, kAlignment);
        made.n_units = units_of(byte_groups + shared.group_bytes, log_unit), made.header = 0;
        const u32 raw_units = units_of(kAlignment + m * element.bytes, log_unit);
        if (unlikely(made.n_units >= raw_units)) made.n_units = raw_units, made.header = kRawBlock;
        if (t == 0) frames.publish(tile.chunk, tile.index, made.n_units);
        keeper.go_on();
        if (unlikely(made.header)) return;

        u32 entries = 0;
        Four widths = 0;
#pragma unroll
        for (u32 c = 0; c < 4; ++c) {
            const u32 both = 4 * t + c < n_groups ? shared.width_of_length[lengths >> 8 * c & 0xff] : 0;
            widths |= (both & 0xff) << 8 * c;
            entries |= both >> 16 << c * bits;
        }
        const u32 own = (widths & 0xff) + (widths >> 8 & 0xff) + (widths >> 16 & 0xff) + (widths >> 24);
        const u32 through = warp_inclusive_sum(own);
        if (lane_id() == kWarp - 1) shared.totals[t / kWarp] = through;
        const u32 to = shared_address(stage);
        if (t < n_widths) stage[2 + t] = shared.table[t];
        if (t == 0) {
            header |= orders.x | orders.y << 3 | orders.z << 6 | (n_widths - 1) << kWidthsAt;
            *reinterpret_cast<unsigned short*>(stage) = static_cast<unsigned short>(header);
            const u64 all = start;
            u32* const words = reinterpret_cast<u32*>(stage + base_at);
            words[0] = static_cast<u32>(all);
            if (sizeof(W) == 8) words[1] = static_cast<u32>(all >> 32);
        }
        if (bits > 0) add_bits(to, 8 * index + 4 * t * bits, entries);
        if (unlikely(has_exceptions)) exceptions.write(stage, exceptions_at);
        __syncthreads();
        u32 at = to + byte_groups + through - own;
#pragma unroll
        for (u32 w = 0; w < kQuantWarps - 1; ++w) {
            if (w < t / kWarp) at += shared.totals[w];
        }
        add(widths, at);
    }
    __device__ __forceinline__ u32 load_rows(const char* start, const Numbers<W, true>& numbers) const { return load_near(start, numbers); }
    // load_near() for a box whose rows have any length; a warp handles a row.
    __device__ __forceinline__ u32 load_rows(const char* start, const Numbers<W, false>& numbers) const {
        using F = Float<W>;
        constexpr u32 kBatch = 4;
        const RowBox& box = shared.box;
        const Quantizer<W>& quantizer = shared.quantizer;
        const F step = quantizer.steps[0], inverse = quantizer.inverses[0], bound = quantizer.bound, limit = quantizer.near_limit;
        const bool swaps = args.flags & kSwapBytes;
        const F magic = sizeof(W) == 8 ? static_cast<F>(6755399441055744.0) : static_cast<F>(12582912.0f);
        const W first_word = load_element<W>(start, element, swaps);
        const u32 first = static_cast<u32>(bits_of(float_of(first_word) * inverse + magic));
        if (threadIdx.x == 0) shared.first_word = first_word, shared.first_code = sign_extended(first - static_cast<u32>(bits_of(magic)));
        const u32 n_rows = box.sz * box.sy;
        const u64 row_bytes = args.own.extents[2] * sizeof(W), next_rows = kQuantWarps * row_bytes;
        const u64 next_plane = next_rows + (args.own.extents[1] - box.sy) * row_bytes;
        bool is_near = true;
        W words_differ = 0;
        u32 codes_differ = 0;
#pragma unroll 1
        for (u32 x = lane_id(); x < box.sx; x += kWarp) {
            u32 y;
            const u32 z = box.planes.divide(threadIdx.x / kWarp, y);
            const char* from = start + (z * args.own.extents[1] + y) * row_bytes + x * sizeof(W);
#pragma unroll 1
            for (u32 row = threadIdx.x / kWarp; row < n_rows; row += kBatch * kQuantWarps) {
                W words[kBatch];
#pragma unroll
                for (u32 k = 0; k < kBatch; ++k) {
                    words[k] = *reinterpret_cast<const W*>(row + k * kQuantWarps < n_rows ? from : start);
                    y += kQuantWarps;
                    const bool ends = y >= box.sy;
                    if (ends) y -= box.sy;
                    from += ends ? next_plane : next_rows;
                }
#pragma unroll
                for (u32 k = 0; k < kBatch; ++k) {
                    if (swaps) words[k] = swapped_bytes(words[k]);
                    const F value = float_of(words[k]), whole = value * inverse + magic;
                    is_near &= (size_of(value - (whole - magic) * step) <= bound) & (size_of(value) < limit);
                    const u32 code = static_cast<u32>(bits_of(whole)) - first;
                    words_differ |= words[k] ^ first_word, codes_differ |= code;
                    if (row + k * kQuantWarps < n_rows) numbers[(row + k * kQuantWarps) * box.sx + x] = sign_extended(code);
                }
            }
        }
        return (words_differ ? kWordsDiffer : 0) | (codes_differ ? kCodesDiffer : 0) | (is_near ? 0 : kFar);
    }

    // Encodes a block whose elements are all equal.
    __device__ __forceinline__ bool make_const(const Ticket& tile, Made& made, W word) const {
        made.header = kConstBlock, made.word = word;
        made.n_units = word == 0 ? 0 : units_of(kAlignment + sizeof(W), args.own.log_unit());
        if (threadIdx.x == 0) frames.publish(tile.chunk, tile.index, made.n_units);
        return true;
    }

    // Residuals, in the second buffer; each thread loads its own 32. If kRows, a thread's 16-byte
    // pieces are interleaved with those of the other threads.
    template <bool kRows, typename = void>
    struct Residuals {
        Shared& shared;
        __device__ __forceinline__ void load(u32 c, W (&r)[kByteGroup]) const {
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) r[i] = shared.buffers[1].words[(4 * threadIdx.x + c) * kByteGroup + i];
        }
    };
    template <typename Any>
    struct Residuals<true, Any> {
        Shared& shared;
        __device__ __forceinline__ uint4* at(u32 c) const { return reinterpret_cast<uint4*>(shared.buffers[1].words) + threadIdx.x + 2 * c * kQuantThreads; }
        __device__ __forceinline__ void store(u32 c, const u32 (&r)[kByteGroup]) const { at(c)[0] = join(r), at(c)[kQuantThreads] = join(r + 4); }
        __device__ __forceinline__ void load(u32 c, u32 (&r)[kByteGroup]) const { split(at(c)[0], r), split(at(c)[kQuantThreads], r + 4); }
    };
    template <bool kRows>
    struct AddResiduals {
        const Residuals<kRows>& residuals;
        __device__ __forceinline__ void operator()(Four widths, u32 at) const {
#pragma unroll 1
            for (u32 c = 0; c < 4; ++c) {
                typename Numbers<W, kRows>::N r[kByteGroup];
                residuals.load(c, r);
                const u32 width = widths >> 8 * c & 0xff;
                add_group(r, width, at);
                at += width;
            }
        }
    };

    // Differences a thread's row, stores the residuals, and returns the bit lengths of its groups.
    __device__ __forceinline__ Four make_residuals(const Residuals<true>& residuals, const Numbers<W, true>& numbers, u32 base, const Orders& o) const {
        const RowBox& box = shared.box;
        const u32 row = threadIdx.x;
        if (row * kRow >= box.m) return 0;
        const RowDifferences<W> differences{numbers, box};
        u32 y;
        const u32 z = differences.place(row, o, y), n = min(box.m - row * kRow, kRow);
        const auto put = [&](u32 c, u32 (&d)[kByteGroup]) {
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) d[i] = zigzag(d[i]);
            if (unlikely(n < (c + 1) * kByteGroup)) {
#pragma unroll
                for (u32 i = 0; i < kByteGroup; ++i) d[i] = c * kByteGroup + i < n ? d[i] : 0;
            }
            u32 any = 0;
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) any |= d[i];
            residuals.store(c, d);
            return bit_length(any) << 8 * c;
        };
        Four lengths = 0;
        if (likely((o.z | o.y | o.x) <= 1)) {
            const u32 keeps = 0 - o.x;
            // Whether the differences subtract the previous row along y, and the one along z: the
            // order is above 0, and the block has such a row.
            const bool has_y = o.y > 0 && y > 0, has_z = o.z > 0 && z > 0;
            u32 before = box.is_line() && row > 0 ? numbers[row * kRow - 1] - base : 0;
#pragma unroll 1
            for (u32 c = 0; c < 4; ++c) {
                u32 d[kByteGroup];
                differences.load(row, c * kByteGroup, d);
                if (has_y) differences.add(row - 1, c * kByteGroup, ~0u, d);
                if (has_z) {
                    differences.add(row - box.sy, c * kByteGroup, ~0u, d);
                    if (has_y) differences.add(row - box.sy - 1, c * kByteGroup, 1u, d);
                }
                if (unlikely(base != 0)) {
#pragma unroll
                    for (u32 i = 0; i < kByteGroup; ++i) d[i] -= base;
                }
                const u32 last = d[kByteGroup - 1];
#pragma unroll
                for (u32 i = kByteGroup - 1; i > 0; --i) d[i] += d[i - 1] * keeps;
                d[0] += before * keeps;
                before = last;
                lengths |= put(c, d);
            }
            return lengths;
        }
        Carries carries;
        // On a line, starts with the last group of the previous row, which the first differences
        // need.
#pragma unroll 1
        for (u32 c = box.is_line() && row > 0 ? 0 : 1; c < 5; ++c) {
            u32 d[kByteGroup];
            if (c == 0) {
                differences.load(row - 1, kRow - kByteGroup, d);
            } else {
                differences.load_zy(row, z, y, (c - 1) * kByteGroup, o, 0, d);
            }
            carries.difference(d, o.x);
            if (c > 0) lengths |= put(c - 1, d);
        }
        return lengths;
    }
    __device__ __forceinline__ Four make_residuals(const Residuals<false>&, const Numbers<W, false>& numbers, W base, const Orders& o) const {
        const RowBox& box = shared.box;
        const Differences<W, kQuantWarps> differences{box};
        W* const residuals = shared.buffers[1].words;
        if (box.sx <= kRow && !box.is_line() && o.y <= 1) {
            differences.difference_rows(numbers.at, residuals, base, o);
        } else {
            differences.for_residuals(numbers.at, base, o, 0, 1, [&](u32 i, W r) { residuals[i] = r; });
        }
        // Zeros complete the last group.
        if (threadIdx.x < aligned_up(box.m, kByteGroup) - box.m) residuals[box.m + threadIdx.x] = 0;
        __syncthreads();
        Four lengths = 0;
#pragma unroll 1
        for (u32 c = 0; c < 4; ++c) {
            W any = 0;
#pragma unroll
            for (u32 i = 0; i < kByteGroup; ++i) any |= residuals[(4 * threadIdx.x + c) * kByteGroup + i];
            lengths |= bit_length(any) << 8 * c;
        }
        return lengths;
    }
};

template <typename W>
__device__ __forceinline__ void quant_compress(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    QuantCompressor<W>(args, *reinterpret_cast<QuantShared<W>*>(bytes)).run();
}

template <typename W>
constexpr LaunchInfo kQuantCompressInfo = quant_launch(kQuantThreads, sizeof(QuantShared<W>));
