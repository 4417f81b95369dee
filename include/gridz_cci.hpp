// Sparse matrices that stay compressed in memory, for C++17 and CUDA: products, and iterators over
// elements, so that your own operations can decode elements while they use them.
//
//     gridz::cci::Matrix matrix = gridz::cci::Matrix::of_rows<float, int>(n_rows, n_cols, starts, columns, values);
//     matrix.multiply<float>(x, y);                                        // y = A x
//
//     const gridz::cci::View<float> view = matrix.view<float>();           // the smallest x[column] of each row
//     for (std::uint32_t slice = 0; slice < view.n_slices(); slice++)
//         for (std::uint32_t lane = 0; lane < gridz::cci::LANES; lane++) {
//             const std::uint64_t row = view.row(slice, lane);
//             if (row == gridz::cci::NO_ROW) continue;
//             for (const auto element : view.elements(slice, lane))
//                 least[row] = std::min(least[row], x[element.column]);
//         }
//
// A matrix consists of slices of 32 lanes. Each lane holds one row, from its first element to its
// last. If the threads of a warp process the lanes of one slice, their memory accesses are
// adjacent. Rows that are much longer than the other rows are divided into several slices, which
// follow all other slices: view.is_shared(slice). All lanes of a shared slice hold parts of one
// row, so their results must be combined: on a GPU within the warp, or by atomic operations. The
// loop above combines them because one thread processes all slices.
//
// A View consists of a few pointers and numbers and can be passed to a kernel. It reads the frame
// of the matrix. For a GPU, copy the frame to its memory and pass the address of the copy. With
// nvcc all of View compiles for host and device. A failed call throws gridz::Error. Link with
// -lgridz.
#ifndef GRIDZ_CCI_HPP
#define GRIDZ_CCI_HPP

#include <cstring>

#include "gridz.hpp"
#include "gridz_sparse.h"

#if defined(__CUDACC__) || defined(__HIPCC__)
#define GRIDZ_HOST_DEVICE __host__ __device__
#else
#define GRIDZ_HOST_DEVICE
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "gridz_cci.hpp supports little-endian machines only; use gridz_cci_decode on other machines"
#endif

namespace gridz {
namespace cci {

// Number of lanes in a slice.
constexpr std::uint32_t LANES = 32;
// Row number of a lane without a row.
constexpr std::uint64_t NO_ROW = ~std::uint64_t(0);

// Element of a matrix.
template <class T> struct Element {
    std::uint64_t column;
    T value;
};

// The tables of a frame, as SPARSE.md describes them.
namespace layout {

struct Slice {
    std::uint64_t base;
    std::uint32_t place, values_at, codes_at, steps_at, order_at;
    std::uint8_t n_steps, width, flags, n_lanes;
};
struct Step {
    std::uint32_t offset, mask;
};
struct Long {
    std::uint64_t row;
    std::uint32_t first, n;
};
struct ValueBlock {
    std::uint64_t first, rest;
};
static_assert(sizeof(Slice) == 32 && sizeof(Step) == 8 && sizeof(Long) == 16 && sizeof(ValueBlock) == 16,
              "the tables have no gaps");

constexpr std::uint8_t RELATIVE = 1, BLOCKED = 2;
constexpr std::uint32_t IN_ORDER = ~std::uint32_t(0), WINDOW = 3840, UNIT = 64, HEADER_BYTES = 128;
enum : std::uint8_t { PLAIN, CONSTANT, DICTIONARY8, DICTIONARY16, BLOCKS };

// Reads a little-endian number of `width` bytes.
GRIDZ_HOST_DEVICE inline std::uint64_t number(const unsigned char *at, std::uint32_t width)
{
    std::uint64_t found = 0;
    for (std::uint32_t i = 0; i < width; i++)
        found |= std::uint64_t(at[i]) << (8 * i);
    return found;
}

// Entry `index` of a table of U. All tables are aligned for U.
template <class U> GRIDZ_HOST_DEVICE U entry(const unsigned char *table, std::uint64_t index)
{
    return reinterpret_cast<const U *>(table)[index];
}

// Code number `index`. `width` is the size of a code in bytes: 0, 1, 2, 4 or 8.
GRIDZ_HOST_DEVICE inline std::uint64_t code(const unsigned char *codes, std::uint64_t index, std::uint32_t width)
{
    switch (width) {
    case 0: return 0;
    case 1: return codes[index];
    case 2: return entry<std::uint16_t>(codes, index);
    case 4: return entry<std::uint32_t>(codes, index);
    default: return entry<std::uint64_t>(codes, index);
    }
}

} // namespace layout

template <class T> class View;

// Elements of a lane, in their original order; for (const auto element : …).
template <class T> class Elements {
public:
    struct End {};

    class Iterator {
    public:
        GRIDZ_HOST_DEVICE Element<T> operator*() const
        {
            return {column_ + sub_, of_.value(std::uint64_t(step_) * of_.side_ + sub_)};
        }
        GRIDZ_HOST_DEVICE Iterator &operator++()
        {
            if (++sub_ == of_.side_) {
                sub_ = 0;
                step_++;
                find();
            }
            return *this;
        }
        GRIDZ_HOST_DEVICE bool operator!=(End) const { return step_ != of_.n_steps_; }

    private:
        friend class Elements;
        GRIDZ_HOST_DEVICE explicit Iterator(const Elements &of) : of_(of) { find(); }

        // Advances to the first step, from the current one on, at which the lane has an element.
        GRIDZ_HOST_DEVICE void find()
        {
            for (; step_ != of_.n_steps_; step_++) {
                const layout::Step step = of_.steps_[step_];
                if (step.mask >> of_.lane_ & 1) {
                    const std::uint64_t index = std::uint64_t(step_) * of_.n_codes_ + of_.node_;
                    column_ = of_.origin_ + step.offset + layout::code(of_.codes_, index, of_.width_);
                    return;
                }
            }
        }

        const Elements &of_;
        std::uint64_t column_ = 0;
        std::uint32_t step_ = 0, sub_ = 0;
    };

    GRIDZ_HOST_DEVICE Iterator begin() const { return Iterator(*this); }
    GRIDZ_HOST_DEVICE End end() const { return {}; }

private:
    friend class View<T>;
    Elements() = default;

    // Value of the lane at a step.
    GRIDZ_HOST_DEVICE T value(std::uint64_t step) const
    {
        const std::uint64_t index = step * LANES + lane_;
        switch (codec_) {
        case layout::PLAIN: return layout::entry<T>(values_, index);
        case layout::CONSTANT: return different_[0];
        case layout::DICTIONARY8: return different_[values_[index]];
        case layout::DICTIONARY16: return different_[layout::entry<std::uint16_t>(values_, index)];
        default: break;
        }
        const std::uint64_t more = layout::number(values_ + index * number_bytes_, number_bytes_) << shift_;
        const std::uint64_t bits = first_ + more;
        T value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }

    const layout::Step *steps_ = nullptr;
    const unsigned char *codes_ = nullptr, *values_ = nullptr;
    const T *different_ = nullptr;
    // Added to all columns, and to the bits of values in blocks.
    std::uint64_t origin_ = 0, first_ = 0;
    std::uint32_t n_steps_ = 0, n_codes_ = 0, width_ = 0, side_ = 1, node_ = 0, lane_ = 0, number_bytes_ = 0, shift_ = 0;
    std::uint8_t codec_ = 0;
};

// Read access to the elements of a matrix, for host code and kernels. T is float or double.
template <class T> class View {
public:
    // Views the frame of a matrix that gridz has created or opened. `frame` is in host memory,
    // aligned to 64 bytes. `copy` is the copy of the frame that the view reads, such as one in GPU
    // memory; nullptr = `frame` itself. The bytes that the view reads must outlive it. The
    // constructor checks only the format and the type of the values. Pass untrusted frames to
    // Matrix::open.
    explicit View(const void *frame, const void *copy = nullptr)
    {
        const auto *head = static_cast<const unsigned char *>(frame);
        if (std::memcmp(head, "GRDM\1", 5) != 0)
            throw Error(GRIDZ_ERROR_CORRUPT, "the frame is not a sparse matrix of format version 1; this header reads only this version");
        if (head[5] != dtype<T>::value)
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "the sparse matrix has values of another type than the view");
        codec_ = head[6];
        block_ = head[7];
        const auto word = [head](int i) { return layout::number(head + 8 + 8 * i, 8); };
        n_rows_ = word(0);
        n_cols_ = word(1);
        nnz_ = word(2);
        n_short_ = static_cast<std::uint32_t>(word(3));
        n_slices_ = static_cast<std::uint32_t>(word(3) + word(4));
        n_long_ = static_cast<std::uint32_t>(word(7));
        const auto *at = static_cast<const unsigned char *>(copy ? copy : frame) + layout::HEADER_BYTES;
        const auto next = [&at](std::uint64_t n_bytes) {
            const unsigned char *start = at;
            at += (n_bytes + layout::UNIT - 1) / layout::UNIT * layout::UNIT;
            return start;
        };
        slices_ = reinterpret_cast<const layout::Slice *>(next(n_slices_ * sizeof(layout::Slice)));
        steps_ = reinterpret_cast<const layout::Step *>(next(word(5) * sizeof(layout::Step)));
        order_ = next(word(6) * 2);
        long_ = reinterpret_cast<const layout::Long *>(next(word(7) * sizeof(layout::Long)));
        different_ = reinterpret_cast<const T *>(next(word(8) * sizeof(T)));
        const std::uint64_t n_blocks = codec_ == layout::BLOCKS ? n_slices_ : 0;
        blocks_ = reinterpret_cast<const layout::ValueBlock *>(next(n_blocks * sizeof(layout::ValueBlock)));
        codes_ = next(word(9));
        values_ = at;
    }

    GRIDZ_HOST_DEVICE std::uint64_t n_rows() const { return n_rows_; }
    GRIDZ_HOST_DEVICE std::uint64_t n_cols() const { return n_cols_; }
    GRIDZ_HOST_DEVICE std::uint64_t nnz() const { return nnz_; }
    // Number of slices. Slices of long rows follow the other slices.
    GRIDZ_HOST_DEVICE std::uint32_t n_slices() const { return n_slices_; }
    // True if all lanes of a slice hold parts of one long row, which other slices may share.
    GRIDZ_HOST_DEVICE bool is_shared(std::uint32_t slice) const { return slice >= n_short_; }

    // Row of a lane, or NO_ROW. Lanes of slices that are not shared have different rows. If such a
    // row is long, the lane has no elements; shared slices hold them.
    GRIDZ_HOST_DEVICE std::uint64_t row(std::uint32_t slice, std::uint32_t lane) const
    {
        if (is_shared(slice))
            return long_row(slice - n_short_);
        const layout::Slice one = slices_[slice];
        return lane < one.n_lanes ? row_of(one, lane).row : NO_ROW;
    }

    // Elements of a lane. Empty if the lane has no row.
    GRIDZ_HOST_DEVICE Elements<T> elements(std::uint32_t slice, std::uint32_t lane) const
    {
        const layout::Slice one = slices_[slice];
        const bool is_blocked = (one.flags & layout::BLOCKED) != 0;
        Elements<T> found;
        found.steps_ = steps_ + one.steps_at;
        found.codes_ = codes_ + std::uint64_t(one.codes_at) * 32;
        found.different_ = different_;
        found.origin_ = one.base;
        found.n_steps_ = one.n_steps;
        found.width_ = one.width;
        found.side_ = is_blocked ? block_ : 1;
        found.lane_ = lane;
        found.codec_ = codec_;
        if ((one.flags & layout::RELATIVE) && lane < one.n_lanes) {
            const Row place = row_of(one, lane);
            found.origin_ += is_blocked ? place.row - place.sub : place.row;
        }
        const std::uint32_t phase = phase_of(one);
        found.node_ = is_blocked ? (phase + lane) / block_ : lane;
        found.n_codes_ = is_blocked ? (phase + LANES - 1) / block_ + 1 : LANES;
        const std::uint64_t first_value = std::uint64_t(one.values_at) * LANES;
        switch (codec_) {
        case layout::PLAIN: found.values_ = values_ + first_value * sizeof(T); break;
        case layout::DICTIONARY8: found.values_ = values_ + first_value; break;
        case layout::DICTIONARY16: found.values_ = values_ + first_value * 2; break;
        case layout::BLOCKS: {
            const layout::ValueBlock block = blocks_[slice];
            found.first_ = block.first;
            found.values_ = values_ + (block.rest & ((std::uint64_t(1) << 48) - 1));
            found.number_bytes_ = block.rest >> 48 & 0xff;
            found.shift_ = static_cast<std::uint32_t>(block.rest >> 56);
            break;
        }
        default: break;
        }
        return found;
    }

private:
    // A row, and its index in its node of block_ rows.
    struct Row {
        std::uint64_t row;
        std::uint32_t sub;
    };

    GRIDZ_HOST_DEVICE std::uint32_t phase_of(const layout::Slice &slice) const
    {
        return slice.place % (layout::WINDOW / LANES) * LANES % block_;
    }

    GRIDZ_HOST_DEVICE Row row_of(const layout::Slice &slice, std::uint32_t lane) const
    {
        const std::uint32_t at = phase_of(slice) + lane;
        if (slice.order_at == layout::IN_ORDER)
            return {std::uint64_t(slice.place) * LANES + lane, at % block_};
        const std::uint64_t window = slice.place / (layout::WINDOW / LANES);
        const std::uint64_t node = layout::entry<std::uint16_t>(order_, std::uint64_t(slice.order_at) + at / block_);
        return {window * layout::WINDOW + node * block_ + at % block_, at % block_};
    }

    // Row of a slice of long rows: the last long row that begins at or before this slice.
    GRIDZ_HOST_DEVICE std::uint64_t long_row(std::uint32_t slice) const
    {
        std::uint32_t low = 0, high = n_long_;
        while (high - low > 1) {
            const std::uint32_t middle = low + (high - low) / 2;
            (long_[middle].first <= slice ? low : high) = middle;
        }
        return long_[low].row;
    }

    const layout::Slice *slices_;
    const layout::Step *steps_;
    const layout::Long *long_;
    const layout::ValueBlock *blocks_;
    const T *different_;
    const unsigned char *order_, *codes_, *values_;
    std::uint64_t n_rows_, n_cols_, nnz_;
    std::uint32_t n_slices_, n_short_, n_long_, block_;
    std::uint8_t codec_;
};

// A compressed matrix. Several threads may use it at the same time.
class Matrix {
public:
    // Compresses a matrix in rows (CSR): row r has the elements from starts[r] to before starts[r +
    // 1]. I is a signed integer of 4 or 8 bytes, T is float or double. `kept` is a value coding,
    // one of GRIDZ_CCI_VALUES_*.
    template <class T, class I>
    static Matrix of_rows(std::uint64_t n_rows, std::uint64_t n_cols, Span<const I> starts, Span<const I> columns,
                          Span<const T> values, std::uint32_t kept = GRIDZ_CCI_VALUES_BEST, const Context *context = nullptr)
    {
        return create(GRIDZ_CCI_ROWS, n_rows, n_cols, starts, columns, values, kept, context);
    }

    // Compresses a matrix in columns (CSC).
    template <class T, class I>
    static Matrix of_columns(std::uint64_t n_rows, std::uint64_t n_cols, Span<const I> starts, Span<const I> rows,
                             Span<const T> values, std::uint32_t kept = GRIDZ_CCI_VALUES_BEST,
                             const Context *context = nullptr)
    {
        return create(GRIDZ_CCI_COLUMNS, n_rows, n_cols, starts, rows, values, kept, context);
    }

    // Creates a matrix from its frame, which is validated.
    static Matrix open(const void *frame, std::size_t frame_bytes, const Context *context = nullptr)
    {
        gridz_cci *made = nullptr;
        check(gridz_cci_open(frame, frame_bytes, context ? context->get() : nullptr, &made));
        return Matrix(made);
    }

    // Computes Y = A X, or Y = Aᵀ X, in a semiring, one of GRIDZ_CCI_SEMIRING_*. Element c of
    // vector j is x[c * n_vectors + j].
    template <class T>
    void multiply(Span<const T> x, Span<T> y, std::uint32_t semiring = GRIDZ_CCI_SEMIRING_PLUS_TIMES,
                  bool transposed = false, std::size_t n_vectors = 1, const Context *context = nullptr) const
    {
        if (frame().data()[5] != dtype<T>::value)
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "the vectors have another type than the values of the sparse matrix");
        check(gridz_cci_multiply(cci_.get(), semiring, transposed, n_vectors, x.data(), x.bytes(), y.data(), y.bytes(),
                                 context ? context->get() : nullptr));
    }

    gridz_cci_info info() const
    {
        gridz_cci_info info{};
        info.struct_size = sizeof info;
        check(gridz_cci_inspect(cci_.get(), &info));
        return info;
    }

    // The frame of the matrix, valid as long as the matrix, aligned to 64 bytes.
    Span<const unsigned char> frame() const
    {
        const void *frame = nullptr;
        std::size_t n_bytes = 0;
        check(gridz_cci_frame(cci_.get(), &frame, &n_bytes));
        return {static_cast<const unsigned char *>(frame), n_bytes};
    }

    // View of the elements. `copy` is the address of a copy of the frame; see View.
    template <class T> View<T> view(const void *copy = nullptr) const { return View<T>(frame().data(), copy); }

    // For the functions of gridz.h.
    const gridz_cci *get() const noexcept { return cci_.get(); }

private:
    struct End {
        void operator()(gridz_cci *cci) const noexcept { gridz_cci_destroy(cci); }
    };

    explicit Matrix(gridz_cci *made) : cci_(made) {}

    template <class T, class I>
    static Matrix create(std::uint32_t layout, std::uint64_t n_rows, std::uint64_t n_cols, Span<const I> starts,
                         Span<const I> indices, Span<const T> values, std::uint32_t kept, const Context *context)
    {
        const std::uint64_t n_starts = layout == GRIDZ_CCI_ROWS ? n_rows : n_cols;
        if (starts.size() == 0 || starts.size() - 1 != n_starts || indices.size() != values.size())
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT,
                        (std::to_string(starts.size()) + " starts for " + std::to_string(n_starts) + " rows (or columns), " +
                            std::to_string(indices.size()) + " indices and " + std::to_string(values.size()) +
                            " values; there must be one start more than rows (or columns), and as many indices as values")
                            .c_str());
        gridz_csr csr{};
        csr.struct_size = sizeof csr;
        csr.n_rows = n_rows;
        csr.n_cols = n_cols;
        csr.nnz = values.size();
        csr.dtype = dtype<T>::value;
        csr.index_dtype = dtype<I>::value;
        csr.layout = layout;
        csr.starts = starts.data();
        csr.indices = indices.data();
        csr.values = values.data();
        gridz_cci *made = nullptr;
        check(gridz_cci_create(&csr, kept, context ? context->get() : nullptr, &made));
        return Matrix(made);
    }

    std::unique_ptr<gridz_cci, End> cci_;
};

} // namespace cci
} // namespace gridz

#endif
