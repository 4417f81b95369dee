// Tests gridz_cci.hpp: every element of matrices of all kinds is restored, and invalid calls throw.
// Run under sanitizers.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "gridz_cci.hpp"

namespace {

void must(bool is_good, const char *what, int line)
{
    if (!is_good) {
        std::fprintf(stderr, "test_cci.cpp:%d: %s\n", line, what);
        std::exit(1);
    }
}
#define MUST(condition) must(condition, #condition, __LINE__)

template <class Call> gridz_status status_of(Call call)
{
    try {
        call();
    } catch (const gridz::Error &error) {
        return error.status();
    }
    return GRIDZ_OK;
}

// A matrix in CSR form.
template <class T, class I> struct Rows {
    std::uint64_t n_rows, n_cols;
    std::vector<I> starts, columns;
    std::vector<T> values;

    gridz::cci::Matrix compress(std::uint32_t kept) const
    {
        return gridz::cci::Matrix::of_rows<T, I>(n_rows, n_cols, starts, columns, values, kept);
    }
};

std::mt19937_64 random_bits(1);

std::uint64_t below(std::uint64_t n) { return random_bits() % n; }

// A matrix of nodes with `block` rows and `length(node)` blocks each, at columns(node, i).
template <class T, class I, class Length, class Column>
Rows<T, I> made(std::uint64_t n_nodes, std::uint64_t n_cols, std::uint64_t block, Length length, Column column)
{
    Rows<T, I> rows{n_nodes * block, n_cols, {0}, {}, {}};
    for (std::uint64_t node = 0; node < n_nodes; node++) {
        std::vector<std::uint64_t> firsts;
        const std::uint64_t n = length(node);
        for (std::uint64_t i = 0; i < n; i++)
            firsts.push_back(column(node, i));
        for (std::uint64_t sub = 0; sub < block; sub++) {
            for (const std::uint64_t first : firsts)
                for (std::uint64_t j = 0; j < block; j++) {
                    rows.columns.push_back(static_cast<I>(first + j));
                    rows.values.push_back(static_cast<T>(1 + static_cast<double>(below(9)) / 8));
                }
            rows.starts.push_back(static_cast<I>(rows.columns.size()));
        }
    }
    return rows;
}

// Reads all elements by the iterator; they must equal the input, in the order of each row. The
// elements of a long row are distributed over the lanes of a warp: there the order is by slice and
// step.
template <class T, class I> void comes_back(const Rows<T, I> &rows, std::uint32_t kept, bool must_be_long)
{
    const gridz::cci::Matrix matrix = rows.compress(kept);
    const auto frame = matrix.frame();
    // A copy at another address, as on a GPU.
    std::vector<std::uint64_t> copy(frame.bytes() / 8);
    std::memcpy(copy.data(), frame.data(), frame.bytes());
    const gridz::cci::View<T> view(frame.data(), copy.data());
    MUST(view.n_rows() == rows.n_rows && view.n_cols() == rows.n_cols && view.nnz() == rows.values.size());
    using Pair = std::pair<std::uint64_t, T>;
    std::vector<std::vector<Pair>> found(rows.n_rows);
    std::vector<int> times(rows.n_rows);
    bool any_long = false;
    for (std::uint32_t slice = 0; slice < view.n_slices(); slice++) {
        // For a long row, collect by lanes; element e is in lane e % 32.
        std::vector<std::vector<Pair>> lanes(gridz::cci::LANES);
        for (std::uint32_t lane = 0; lane < gridz::cci::LANES; lane++) {
            const std::uint64_t row = view.row(slice, lane);
            std::uint64_t n = 0;
            for (const auto element : view.elements(slice, lane)) {
                lanes[lane].push_back({element.column, element.value});
                n++;
            }
            if (row == gridz::cci::NO_ROW) {
                MUST(n == 0);
                continue;
            }
            MUST(row < rows.n_rows);
            if (!view.is_shared(slice)) {
                times[row]++;
                found[row].insert(found[row].end(), lanes[lane].begin(), lanes[lane].end());
            }
        }
        if (view.is_shared(slice)) {
            any_long = true;
            auto &row = found[view.row(slice, 0)];
            for (std::size_t i = 0; i < lanes[0].size(); i++)
                for (std::uint32_t lane = 0; lane < gridz::cci::LANES && i < lanes[lane].size(); lane++)
                    row.push_back(lanes[lane][i]);
        }
    }
    MUST(any_long || !must_be_long);
    for (std::uint64_t row = 0; row < rows.n_rows; row++) {
        MUST(times[row] <= 1);
        std::vector<Pair> want;
        for (auto i = static_cast<std::size_t>(rows.starts[row]); i < static_cast<std::size_t>(rows.starts[row + 1]); i++)
            want.push_back({static_cast<std::uint64_t>(rows.columns[i]), rows.values[i]});
        MUST(found[row] == want);
    }
}

template <class T, class I> void all_values(Rows<T, I> rows, bool must_be_long = false)
{
    for (const std::uint32_t kept :
         {GRIDZ_CCI_VALUES_BEST, GRIDZ_CCI_VALUES_PLAIN, GRIDZ_CCI_VALUES_DICTIONARY, GRIDZ_CCI_VALUES_BLOCKS})
        comes_back(rows, kept, must_be_long);
    // More values than a byte can count.
    for (std::size_t i = 0; i < rows.values.size(); i++)
        rows.values[i] = static_cast<T>(i % 700);
    comes_back(rows, GRIDZ_CCI_VALUES_DICTIONARY, must_be_long);
    rows.values.assign(rows.values.size(), T(3));
    comes_back(rows, GRIDZ_CCI_VALUES_CONSTANT, must_be_long);
}

template <class T, class I> void all_matrices()
{
    const auto three = [](std::uint64_t) { return std::uint64_t(3); };
    const auto few = [](std::uint64_t node) { return node % 7 == 3 ? 0 : below(node % 40 == 0 ? 60 : 5); };
    // A stencil; random columns; columns near the diagonal; rows of all lengths, so that windows
    // are sorted; with long rows; an empty matrix.
    all_values(made<T, I>(200, 204, 1, three, [](std::uint64_t node, std::uint64_t i) { return node + 2 * i; }));
    all_values(made<T, I>(130, 90000, 1, three, [](std::uint64_t, std::uint64_t) { return below(90000); }));
    all_values(made<T, I>(4000, 5000, 1, few, [](std::uint64_t node, std::uint64_t) { return node + below(200); }));
    const auto some = [](std::uint64_t node) { return node % 1500 == 7 ? std::uint64_t(5000) : below(4); };
    all_values(made<T, I>(4000, 90000, 1, some, [](std::uint64_t, std::uint64_t) { return below(90000); }), true);
    for (const std::uint64_t block : {2, 3, 4, 5, 6, 8}) {
        all_values(made<T, I>(100, 900, block, three, [](std::uint64_t, std::uint64_t) { return below(890); }));
        all_values(made<T, I>(1500, 20000, block, few, [](std::uint64_t node, std::uint64_t) { return node + below(200); }));
    }
    all_values(made<T, I>(1, 1, 1, [](std::uint64_t) { return 1; }, [](std::uint64_t, std::uint64_t) { return 0; }));
    comes_back(made<T, I>(50, 3, 1, [](std::uint64_t) { return 0; }, [](std::uint64_t, std::uint64_t) { return 0; }),
               GRIDZ_CCI_VALUES_BEST, false);
    comes_back(Rows<T, I>{0, 0, {0}, {}, {}}, GRIDZ_CCI_VALUES_PLAIN, false);
}

void far_columns()
{
    const std::uint64_t n_cols = std::uint64_t(1) << 40;
    all_values(made<double, std::int64_t>(90, n_cols, 1, [](std::uint64_t) { return 4; },
                                          [n_cols](std::uint64_t, std::uint64_t) { return below(n_cols); }));
}

void matrices()
{
    const auto rows = made<float, std::int32_t>(100, 100, 1, [](std::uint64_t) { return 4; },
                                                [](std::uint64_t, std::uint64_t) { return below(100); });
    const gridz::Context context(2);
    const auto matrix = gridz::cci::Matrix::of_rows<float, std::int32_t>(100, 100, rows.starts, rows.columns, rows.values,
                                                                         GRIDZ_CCI_VALUES_BEST, &context);
    const std::vector<float> x(100, 0.5f);
    std::vector<float> y(100), other(100), wrong(99);
    matrix.multiply<float>(x, y, GRIDZ_CCI_SEMIRING_PLUS_TIMES, false, 1, &context);
    const auto view = matrix.view<float>();
    for (std::uint32_t slice = 0; slice < view.n_slices(); slice++)
        for (std::uint32_t lane = 0; lane < gridz::cci::LANES; lane++)
            for (const auto element : view.elements(slice, lane))
                other[view.row(slice, lane)] += element.value * x[element.column];
    MUST(y == other);

    // The same arrays interpreted as columns are the transpose.
    const auto turned =
        gridz::cci::Matrix::of_columns<float, std::int32_t>(100, 100, rows.starts, rows.columns, rows.values);
    turned.multiply<float>(x, other, GRIDZ_CCI_SEMIRING_MIN_PLUS, true);
    matrix.multiply<float>(x, y, GRIDZ_CCI_SEMIRING_MIN_PLUS);
    MUST(y == other);

    const auto frame = matrix.frame();
    auto again = gridz::cci::Matrix::open(frame.data(), frame.bytes(), &context);
    MUST(again.info().nnz == 400 && again.info().frame_bytes == frame.bytes() && again.get() != nullptr);
    std::vector<unsigned char> damaged(frame.data(), frame.data() + frame.bytes());
    damaged[200] ^= 1;
    MUST(status_of([&] { gridz::cci::Matrix::open(damaged.data(), damaged.size()); }) == GRIDZ_ERROR_CORRUPT);
    MUST(status_of([&] { gridz::cci::Matrix::open(damaged.data(), 99); }) == GRIDZ_ERROR_TRUNCATED);
    damaged[0] = 0;
    MUST(status_of([&] { gridz::cci::View<float> none(damaged.data()); }) == GRIDZ_ERROR_CORRUPT);
    MUST(status_of([&] { matrix.view<double>(); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { matrix.multiply<float>(x, wrong); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    std::vector<double> wide(50);
    MUST(status_of([&] { matrix.multiply<double>(wide, wide); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] {
             gridz::cci::Matrix::of_rows<float, std::int32_t>(99, 100, rows.starts, rows.columns, rows.values);
         }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] {
             gridz::cci::Matrix::of_rows<float, std::int32_t>(100, 50, rows.starts, rows.columns, rows.values);
         }) == GRIDZ_ERROR_INVALID_ARGUMENT);
}

} // namespace

int main()
{
    all_matrices<float, std::int32_t>();
    all_matrices<double, std::int64_t>();
    far_columns();
    matrices();
    std::puts("gridz_cci.hpp: all passed");
}
