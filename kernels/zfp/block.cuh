// Loads a block of the array into registers, pads it, and encodes it.

#pragma once

#include "encode.cuh"
#include "encode_quarters.cuh"
#include "layout.cuh"
#include "quarters.cuh"
#include "scratch.cuh"

// Blocks whose exponent exceeds that of the bound by more than this may violate the bound.
template <typename W>
constexpr s32 kSureExponents = sizeof(W) == 8 ? 48 : 19;

// Finds elements of a chunk that cannot be coded.
template <typename W>
struct LeftOut {
    W limit;   // floats of at least this magnitude cannot be coded; at most infinity
    const Missing& missing;
    W bound;   // the error bound, rounded down to the type
    s32 minexp;
    bool is_float, has_missing, has_bound;

    __device__ __forceinline__ LeftOut(const Chunk& chunk, const Bound& in_force)
        : limit(Floats<W>::kInfinity), missing(chunk.missing), bound(rounded_down(in_force.bits, W())), minexp(in_force.minexp),
          is_float(chunk.is_float()), has_missing(chunk.missing.any()), has_bound(chunk.has_bound()) {
        const s32 exponent = minexp + static_cast<s32>(Floats<W>::kFraction) + 2;
        if (has_bound && exponent <= Floats<W>::kBias) limit = max(power_of_two<W>(exponent), W{1});
    }
    __device__ __forceinline__ bool is_missing(W word) const { return has_missing && missing.has(word, is_float ? kFloatType<W> : kIntegerType<W>); }
    __device__ __forceinline__ bool has(W word) const {
        const bool is_large = is_float ? (word & Floats<W>::kMagnitude) >= limit : ((word ^ word << 1) & kTopBit<W>) != 0;
        return is_large || is_missing(word);
    }
    // Whether an element is decoded wrongly: with an error that is not below the bound; without a
    // bound, as zero in a block that is too small to be coded (is_tiny); or as a missing element.
    __device__ __forceinline__ bool differs(W word, W decoded, bool is_tiny) const {
        const bool is_off = has_bound ? !is_near(word, decoded, bound) : is_tiny && (word & Floats<W>::kMagnitude) != 0;
        return is_off || is_missing(decoded);
    }
};

// Whether an element of a block may decode to a missing one. Decoded magnitudes are at most
// `limit`: with few planes, elements may round to exactly that.
template <typename W>
__device__ __forceinline__ bool may_become_missing(const Missing& missing, W limit) {
    bool may_be = missing.has_range;
    for (u32 i = 0; i < missing.n_fills; ++i) may_be |= (static_cast<W>(missing.fills[i]) & Floats<W>::kMagnitude) <= limit;
    return may_be;
}

// Loads the words of a block, or of a cube of a block of four axes. Padding gets the words of the
// elements that it copies.
template <typename W, u32 kRank, typename Grid>
__device__ __forceinline__ void load_block(W (&v)[kBlock<kRank>], const W* array, const Grid& grid, const BlockPlace<kRank>& place, bool is_aligned,
                                           bool swaps) {
    const W* const start = array + place.start;
    if (likely(place.is_whole)) {
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; i += 4) {
            const W* const row = start + grid.offset(i);
            if (likely(is_aligned)) {
#pragma unroll
                for (u32 k = 0; k < 4; k += Word<W>::kPerUnit) split(__ldg(reinterpret_cast<const uint4*>(row + k)), &v[i + k]);
            } else {
#pragma unroll
                for (u32 k = 0; k < 4; ++k) v[i + k] = row[k];
            }
        }
    } else {
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = is_there(place.there, i) ? start[grid.offset(i)] : 0;
        pad<kRank>(v, place.there);
    }
    if (unlikely(swaps)) {
#pragma unroll
        for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = swapped_bytes(v[i]);
    }
}

// Replaces the words of elements that cannot be coded: by that of the last codable element before
// them, or of the first one in the block.
template <typename W, u32 kRank>
__device__ __forceinline__ void replace_left_out(W (&v)[kBlock<kRank>], const BlockPlace<kRank>& place, const LeftOut<W>& left_out) {
    W last = 0;
#pragma unroll
    for (u32 i = kBlock<kRank>; i-- > 0;) {
        if (is_there(place.there, i) && !left_out.has(v[i])) last = v[i];
    }
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) {
        if (!is_there(place.there, i)) continue;
        if (left_out.has(v[i])) v[i] = last;
        last = v[i];
    }
    pad<kRank>(v, place.there);
}
// The same for a cube of a block. Meanwhile the words are in cells (quarters.cuh), which a loop can
// index. With words in registers, this code and the exchange between four lanes would take too many
// registers.
template <typename W>
__device__ __forceinline__ void replace_left_out(u32 cells, W (&v)[kQuarterNumbers], const Cube& cube, const LeftOut<W>& left_out) {
    const OwnCells<W> own(cells);
#pragma unroll
    for (u32 i = 0; i < kQuarterNumbers; ++i) own.store(i, v[i]);
    W first = 0, last = 0;
    bool has_any = false;
#pragma unroll 1
    for (u32 i = 0; i < kQuarterNumbers; ++i) {
        const W word = own.load(i);
        if (!is_there(cube.there, i) || left_out.has(word)) continue;
        if (!has_any) first = word;
        last = word, has_any = true;
    }
    last = word_before(cube, first, last, has_any);
#pragma unroll 1
    for (u32 i = 0; i < kQuarterNumbers; ++i) {
        if (!is_there(cube.there, i)) continue;
        const W word = own.load(i);
        if (left_out.has(word)) {
            own.store(i, last);
        } else {
            last = word;
        }
    }
#pragma unroll
    for (u32 i = 0; i < kQuarterNumbers; ++i) v[i] = own.load(i);
    pad<3>(v, cube.there);
}

// Whether any element is decoded wrongly from `precision` planes of the block's numbers. Overwrites
// the numbers `v`. `load` returns the word of an element by its index.
template <typename W, u32 kRank, typename Load>
__device__ __forceinline__ bool any_differs(W (&v)[kBlock<kRank>], u32 precision, s32 e, const BlockPlace<kRank>& place, const LeftOut<W>& left_out, Load load) {
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) v[i] = from_negabinary(v[i] & ~low_bits(W(), Word<W>::kBits - precision));
    transform_back<kRank, Lossy>(v);
    const W scale = power_of_two<W>(e - static_cast<s32>(Word<W>::kBits) + 2);
    bool differs = false;
#pragma unroll
    for (u32 i = 0; i < kBlock<kRank>; ++i) {
        if (is_there(place.there, i)) differs |= left_out.differs(load(i), scaled_down(v[i], scale), false);
    }
    return differs;
}

// Transforms a thread's part of a block. Number i in the order of the stream is then
// v[place_of(i)].
template <typename W, u32 kRank, typename Lines, typename Writer>
__device__ __forceinline__ void numbers_of_block(const Writer& writer, W (&v)[kOwnNumbers<kRank>]) {
    if constexpr (kRank == 4) {
        order_of_cubes<Lines>(writer.slot, v);
    } else {
        transform_forth<kRank, Lines>(v);
    }
#pragma unroll
    for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) v[i] = to_negabinary(v[i]);
}
template <typename W, u32 kRank, typename Writer>
__device__ __forceinline__ void put_numbers(Writer& writer, u32 table, u32 own, const W (&v)[kOwnNumbers<kRank>], u32 precision, u32 limit) {
    if constexpr (kRank == 4) {
        put_quarters(writer, table, own, v, precision, limit);
    } else {
        put_planes<W, kRank>(writer, table, own, v, precision, limit);
    }
}

// Encodes a block, without padding it to the minimum number of bits. Returns whether it may have
// exceptions. `load` reloads the word of an element by its index. Threads that share a block each
// handle their part, and do not diverge.
template <typename W, u32 kRank, typename Writer, typename Place, typename Load>
__device__ __forceinline__ bool encode_lossy(Writer& writer, u32 table, u32 own, W (&v)[kOwnNumbers<kRank>], const Place& place, const Chunk& chunk,
                                             const LeftOut<W>& left_out, Load load) {
    using F = Floats<W>;
    const u32 limit = writer.n + chunk.max_bits();
    W all = 0;
    const auto measure = [&] {
        all = 0;
#pragma unroll
        for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) {
            if (left_out.is_float) {
                all = max(all, v[i] & F::kMagnitude);
            } else {
                all |= v[i] ^ v[i] << 1;
            }
        }
        if constexpr (kBlockThreads<kRank> > 1) all = left_out.is_float ? max_of_block<kRank>(all) : or_of_block<kRank>(all);
    };
    measure();
    bool has_left_out = left_out.is_float ? all >= left_out.limit : (all & kTopBit<W>) != 0;
    if (unlikely(left_out.has_missing)) {
#pragma unroll
        for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) has_left_out |= left_out.is_missing(v[i]);
    }
    has_left_out = any_of_block<kRank>(has_left_out);
    if (unlikely(any_of_warp<kRank>(has_left_out))) {
        if constexpr (kRank == 4) {
            replace_left_out(writer.slot, v, place, left_out);
        } else {
            replace_left_out<W, kRank>(v, place, left_out);
        }
        measure();
    }
    bool is_suspect = has_left_out, may_overflow = false;
    u32 precision = Word<W>::kBits;
    s32 e = 0;
    if (left_out.is_float) {
        e = exponent_of(all);
        const bool is_tiny = e < F::kTiny;
        const s32 above = e - left_out.minexp;
        is_suspect |= is_tiny && all != 0;
        // The head of finish.cuh explains why no other block can violate the bound.
        if (left_out.has_bound) {
            is_suspect |= above > kSureExponents<W> || left_out.bound == 0;
            is_suspect |= max(e, left_out.minexp) > F::kBias;
            may_overflow = above == -1 && all >> (F::kFraction - 1) & 1;
        }
        if (left_out.has_missing) is_suspect |= e >= F::kBias || may_become_missing(left_out.missing, power_of_two<W>(e + 1));
        const s32 wanted = is_tiny ? 0 : above + 2 * static_cast<s32>(kRank) + 2;
        precision = static_cast<u32>(max(0, min(wanted, static_cast<s32>(chunk.max_precision()))));
        writer.put(precision ? 2 * static_cast<u32>(e + F::kBias) + 1 : 0, precision ? F::kExponentBits + 1 : 1);
        if (kRank < 4 && precision == 0) return is_suspect;
        const W scale = static_cast<W>(static_cast<s32>(Word<W>::kBits) - 2 - e + F::kBias) << F::kFraction;
#pragma unroll
        for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) v[i] = scaled_up(v[i], scale);
    } else {
        is_suspect |= left_out.has_missing;
        precision = min(precision, chunk.max_precision());
    }
    numbers_of_block<W, kRank, Lossy>(writer, v);
    precision = min(precision, Word<W>::kBits);
    put_numbers<W, kRank>(writer, table, own, v, precision, limit);
    if constexpr (kRank == 4) {
        is_suspect |= may_overflow;
    } else {
        // Such blocks are frequent in arrays whose values are close to the bound. Decoding them
        // here costs less than making their section a suspect.
        if (may_overflow && !is_suspect) is_suspect = any_differs<W, kRank>(v, precision, e, place, left_out, load);
    }
    return is_suspect;
}

template <typename W, u32 kRank, typename Writer>
__device__ __forceinline__ void encode_reversible(Writer& writer, u32 table, u32 own, W (&v)[kOwnNumbers<kRank>], const Chunk& chunk) {
    using F = Floats<W>;
    const u32 limit = writer.n + chunk.max_bits();
    bool is_zero = false;
    if (chunk.is_float()) {
        W all = 0, words = 0;
#pragma unroll
        for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) all = max(all, v[i] & F::kMagnitude), words |= v[i];
        all = max_of_block<kRank>(all), is_zero = or_of_block<kRank>(words) == 0;
        const s32 e = exponent_of(all);
        if (is_zero) {
            writer.put(0, 1);
            if (kRank < 4) return;
        }
        bool comes_back = e >= F::kTiny && all < F::kInfinity;
        W up = static_cast<W>(static_cast<s32>(Word<W>::kBits) - 2 - e + F::kBias) << F::kFraction;
        const W down = power_of_two<W>(e - static_cast<s32>(Word<W>::kBits) + 2);
#pragma unroll
        for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) comes_back &= scaled_down(scaled_up(v[i], up), down) == v[i];
        comes_back = !any_of_block<kRank>(!comes_back);
        // Numbers are computed again, rather than kept in registers.
        launder(up);
#pragma unroll
        for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) v[i] = comes_back ? scaled_up(v[i], up) : fold_sign(v[i]);
        if (!is_zero) writer.put(comes_back ? 1 | static_cast<u32>(e + F::kBias) << 2 : 3, comes_back ? F::kExponentBits + 2 : 2);
    }
    numbers_of_block<W, kRank, Reversible>(writer, v);
    W any = 0;
#pragma unroll
    for (u32 i = 0; i < kOwnNumbers<kRank>; ++i) any |= v[i];
    any = or_of_block<kRank>(any);
    const u32 precision = is_zero ? 0 : min(any ? Word<W>::kBits - trailing_zeros(any) : 1, chunk.max_precision());
    if (!is_zero) writer.put(precision - 1, F::kPlaneCountBits);
    put_numbers<W, kRank>(writer, table, own, v, precision, limit);
}
