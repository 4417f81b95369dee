// Tests gridz.hpp: its guarantees, and that invalid calls throw. Run under AddressSanitizer.
#include <array>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#if __has_include(<mdspan>)
#include <mdspan>
#endif

#include "gridz.hpp"

// The interface of std::mdspan, for compilers without it: two axes with any strides.
template <class T> struct View2 {
    struct extents_type {};
    struct layout_type {};
    using element_type = T;

    T *data;
    std::size_t extents[2], strides[2];

    static constexpr std::size_t rank() { return 2; }
    std::size_t extent(std::size_t axis) const { return extents[axis]; }
    std::size_t stride(std::size_t axis) const { return strides[axis]; }
    T *data_handle() const { return data; }
};

// A user-defined type.
struct half {
    std::uint16_t bits;
};
template <> struct gridz::dtype<half> {
    static constexpr gridz_dtype value = GRIDZ_DTYPE_F16;
};

// A type with a wrong gridz::dtype.
struct liar {
    std::uint32_t bits;
};
template <> struct gridz::dtype<liar> {
    static constexpr gridz_dtype value = GRIDZ_DTYPE_F16;
};

namespace {

void must(bool is_good, const char *what, int line)
{
    if (!is_good) {
        std::fprintf(stderr, "test_hpp.cpp:%d: %s\n", line, what);
        std::exit(1);
    }
}
#define MUST(condition) must(condition, #condition, __LINE__)

// The status of the error that a call throws.
template <class Call> gridz_status status_of(Call call)
{
    try {
        call();
    } catch (const gridz::Error &error) {
        MUST(std::strlen(error.what()) > 10);
        return error.status();
    }
    return GRIDZ_OK;
}

template <class T> void round_trip(T start)
{
    std::vector<T> values(6 * 7 * 8, start);
    std::memset(static_cast<void *>(values.data() + 10), 0x3c, 100 * sizeof(T));
    const gridz::Frame frame = gridz::compress(values, {6, 7, 8});
    const gridz::Info info(frame);
    MUST((info.extents() == gridz::Extents{6, 7, 8}) && info.dtype() == gridz::dtype<T>::value);
    MUST(info.mode() == GRIDZ_MODE_LOSSLESS && info.value() == 0 && info.bound() == 0);
    MUST(info.frame_bytes() == frame.size() && info.array_bytes() == values.size() * sizeof(T));
    const std::vector<T> back = gridz::decompress<T>(frame);
    MUST(back.size() == values.size() && std::memcmp(back.data(), values.data(), values.size() * sizeof(T)) == 0);
}

void every_type()
{
    round_trip<float>(-0.0f);
    round_trip<double>(std::numeric_limits<double>::quiet_NaN());
    round_trip<std::int8_t>(-1);
    round_trip<std::uint8_t>(255);
    round_trip<std::int16_t>(-300);
    round_trip<std::uint16_t>(300);
    round_trip<int>(-70000);
    round_trip<unsigned>(70000);
    round_trip<long>(-1);
    round_trip<long long>(std::numeric_limits<long long>::min());
    round_trip<unsigned long long>(std::numeric_limits<unsigned long long>::max());
    round_trip<std::complex<float>>({1, -1});
    round_trip<std::complex<double>>({1, -1});
    round_trip<half>({0x3c00});
    static_assert(gridz::dtype<std::int16_t>::value == GRIDZ_DTYPE_I16);
    static_assert(gridz::dtype<unsigned long>::value == GRIDZ_DTYPE_U64);
}

// A Span is only constructible from containers that outlive it; temporaries are accepted only for
// reading.
static_assert(std::is_constructible_v<gridz::Span<float>, std::vector<float> &>);
static_assert(!std::is_constructible_v<gridz::Span<float>, std::vector<float>>);
static_assert(!std::is_constructible_v<gridz::Span<float>, const std::vector<float> &>);
static_assert(!std::is_constructible_v<gridz::Span<float>, std::vector<double> &>);
static_assert(std::is_constructible_v<gridz::Span<const float>, std::vector<float>>);
static_assert(std::is_constructible_v<gridz::Span<const float>, const std::array<float, 3> &>);

void wrong_calls()
{
    MUST(status_of([] { gridz::compress(std::vector<liar>(8), {8}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    // Refused before that much memory is allocated.
    MUST(status_of([] { gridz::compress(std::vector<float>(8), {std::uint64_t{1} << 45}); }) ==
         GRIDZ_ERROR_INVALID_ARGUMENT);
    const std::vector<float> values(24, 1.5f);
    const gridz::Frame frame = gridz::compress(values, {2, 3, 4});
    MUST(status_of([&] { gridz::compress(values, {2, 3, 5}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::compress(values, gridz::Extents(33, 1)); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::compress(values, {UINT64_MAX, UINT64_MAX}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::decompress<double>(frame); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::decompress<int>(frame); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::decompress<float>(frame, {}, 23); }) == GRIDZ_ERROR_CORRUPT);
    std::vector<float> small(23);
    MUST(status_of([&] { gridz::decompress_into<float>(frame, small); }) == GRIDZ_ERROR_DST_TOO_SMALL);
    MUST(status_of([&] { gridz::decompress_region<float>(frame, {0, 0, 0}, {2, 3, 5}); }) ==
         GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::decompress_region<float>(frame, {0, 0}, {2, 3, 4}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::compress(values, {24}, "zip"); }) == GRIDZ_ERROR_UNSUPPORTED_JOB);
    MUST(status_of([] { gridz::Context context(5000); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([] { gridz::Info info{gridz::Frame()}; }) == GRIDZ_ERROR_TRUNCATED);
    for (std::size_t i = 0; i < frame.size(); i++) {
        gridz::Frame damaged = frame;
        damaged[i] ^= 0x10;
        MUST(status_of([&] { gridz::decompress<float>(damaged, {}, 24); }) != GRIDZ_OK);
        damaged.resize(i);
        MUST(status_of([&] { gridz::decompress<float>(damaged, {}, 24); }) != GRIDZ_OK);
    }
}

void regions_and_empty_arrays()
{
    std::vector<double> values(50 * 60);
    for (std::size_t i = 0; i < values.size(); i++)
        values[i] = std::sin(static_cast<double>(i));
    const gridz::Frame frame = gridz::compress(values, {50, 60}, "lorenzo,level=dense");
    const std::vector<double> part = gridz::decompress_region<double>(frame, {10, 20}, {5, 7});
    for (std::size_t y = 0; y < 5; y++)
        for (std::size_t x = 0; x < 7; x++)
            MUST(part[y * 7 + x] == values[(y + 10) * 60 + x + 20]);
    MUST(gridz::decompress_region<double>(frame, {50, 0}, {0, 60}).empty());
    const gridz::Frame nothing = gridz::compress(std::vector<float>(), {0, 5});
    MUST(gridz::decompress<float>(nothing).empty());
}

void parts()
{
    std::vector<float> values(40 * 50 * 60);
    for (std::size_t i = 0; i < values.size(); i++)
        values[i] = std::sin(1e-3f * static_cast<float>(i));
    const gridz::Frame frame = gridz::compress(values, {40, 50, 60}, "multigrid,abs=1e-4,layers=3");
    const gridz::PartInfo coarse(frame, gridz::Detail::level(1));
    MUST((coarse.extents() == gridz::Extents{20, 25, 30}) && coarse.level() == 1 && coarse.layers() == 1);
    MUST(coarse.bound() == 64e-4 && coarse.mode() == GRIDZ_MODE_ABS && coarse.n_levels() == 6 && coarse.n_layers() == 3);
    MUST(coarse.frame_bytes() < frame.size());
    const gridz::Frame first(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(coarse.frame_bytes()));
    const std::vector<float> grid = gridz::decompress_progressive<float>(first, gridz::Detail::level(1));
    MUST(grid.size() == 20 * 25 * 30);
    for (std::size_t i = 0; i < grid.size(); i++)
        MUST(std::fabs(grid[i] - values[i / 750 * 6000 + i / 30 % 25 * 120 + i % 30 * 2]) <= 64.001e-4f);
    MUST(gridz::decompress_progressive<float>(frame, gridz::Detail::layers(3)) == gridz::decompress<float>(frame));
    MUST(gridz::PartInfo(frame, gridz::Detail::error(1e-3)).layers() == 2);
    MUST(status_of([&] { gridz::decompress_progressive<float>(first, gridz::Detail::layers(3)); }) == GRIDZ_ERROR_TRUNCATED);
    MUST(status_of([&] { gridz::decompress_progressive<double>(frame, gridz::Detail::level(1)); }) ==
         GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::decompress_progressive<float>(frame, gridz::Detail::level(1), {}, 14999); }) ==
         GRIDZ_ERROR_CORRUPT);
    MUST(status_of([&] { gridz::PartInfo(frame, gridz::Detail::level(7)); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::PartInfo(gridz::compress(values, {120000}), gridz::Detail::level(0)); }) ==
         GRIDZ_ERROR_UNSUPPORTED_JOB);
}

void requests_and_codecs()
{
    const std::vector<float> values(5000, 1.5f);
    const gridz::Options dense("lorenzo,level=dense");
    MUST(gridz::request("lorenzo", GRIDZ_MODE_LOSSLESS, 0, 2) == dense.request);
    MUST(gridz::request("quant", GRIDZ_MODE_ABS, 1e-3) == "quant,abs=1e-3,level=fast");
    MUST(gridz::compress(values, {5000}, gridz::request("lorenzo", 0, 0, 2)) == gridz::compress(values, {5000}, dense));
    const float missing = -999;
    gridz::Options with_fill = dense;
    with_fill.fill_value = &missing;
    MUST(gridz::compress(values, {5000}, with_fill) == gridz::compress(values, {5000}, dense));
    MUST(status_of([&] { gridz::compress(values, {5000}, "lorenzo,level=most"); }) == GRIDZ_ERROR_UNSUPPORTED_JOB);
    MUST(status_of([&] { gridz::request("lorenzo", GRIDZ_MODE_ABS, 1e-3); }) == GRIDZ_ERROR_UNSUPPORTED_JOB);
    for (const gridz_codec &codec : gridz::codecs()) {
        // A bound so small that only the exact values meet it.
        const bool is_lossless = (codec.modes & 1u << GRIDZ_MODE_LOSSLESS) != 0;
        const std::string request = codec.name + std::string(is_lossless ? "" : ",abs=1e-300");
        const gridz::Frame frame = gridz::compress(values, {5000}, request);
        MUST(gridz::decompress<float>(frame) == values && !std::string(codec.description).empty());
    }
}

void spans_and_mdspans()
{
    std::vector<float> values(40 * 50);
    for (std::size_t i = 0; i < values.size(); i++)
        values[i] = 0.25f * static_cast<float>(i % 77);
    const gridz::Frame frame = gridz::compress(values, {40, 50});

    const View2<const float> view{values.data(), {40, 50}, {50, 1}};
    MUST(gridz::compress(view) == frame && gridz::compress(view, "lorenzo,level=fast") == frame);
    std::vector<float> back(values.size());
    gridz::decompress_into(frame, View2<float>{back.data(), {40, 50}, {50, 1}});
    MUST(back == values);
    // Strides of axes with one element do not matter.
    MUST(gridz::compress(View2<float>{values.data(), {1, 50}, {7, 1}}) ==
         gridz::compress(gridz::Span<const float>(values.data(), 50), {1, 50}));
    MUST(gridz::decompress<float>(gridz::compress(View2<float>{values.data(), {0, 50}, {3, 9}})).empty());
    const View2<float> columns{back.data(), {40, 50}, {1, 40}}, other{back.data(), {50, 40}, {40, 1}};
    MUST(status_of([&] { gridz::compress(columns); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::decompress_into(frame, columns); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::decompress_into(frame, other); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
#ifdef __cpp_lib_span
    const std::span<const float> elements(values);
    MUST(gridz::compress(elements, {40, 50}) == frame);
    MUST(gridz::decompress<float>(std::span<const std::uint8_t>(frame)) == values);
    back.assign(back.size(), 0);
    MUST(gridz::decompress_into<float>(std::span(frame), std::span(back)) == values.size() && back == values);
    std::vector<std::uint8_t> room(gridz::compress_bound<float>({40, 50}));
    const std::size_t n = gridz::compress_into<float>(elements, {40, 50}, std::span(room));
    MUST(n == frame.size() && std::memcmp(room.data(), frame.data(), n) == 0);
    const std::span<const std::uint8_t> same = gridz::Span<const std::uint8_t>(frame);
    MUST(same.data() == frame.data() && same.size() == frame.size());
#endif
#ifdef __cpp_lib_mdspan
    MUST(gridz::compress(std::mdspan(values.data(), 40, 50)) == frame);
    back.assign(back.size(), 0);
    gridz::decompress_into(frame, std::mdspan(back.data(), 40, 50));
    MUST(back == values);
#endif
}

void many_arrays()
{
    std::vector<double> values(9 * 10 * 20);
    for (std::size_t i = 0; i < values.size(); i++)
        values[i] = std::floor(10 * std::sin(0.1 * static_cast<double>(i)));
    const gridz::PackedFrames packed = gridz::compress_chunks(values, {10, 20}, "lorenzo,level=dense");
    MUST(packed.lengths.size() == 9 && packed.bytes.size() % 16 == 0);
    const std::vector<double> third(values.begin() + 400, values.begin() + 600);
    const gridz::Frame frame = gridz::compress(third, {10, 20}, "lorenzo,level=dense");
    std::size_t at = 0;
    for (std::size_t i = 0; i < 2; i++)
        at += (packed.lengths[i] + 15) / 16 * 16;
    MUST(packed.lengths[2] == frame.size() && std::memcmp(&packed.bytes[at], frame.data(), frame.size()) == 0);
    MUST(gridz::decompress_chunks<double>(packed, {10, 20}) == values);
    MUST(status_of([&] { gridz::decompress_chunks<double>(packed, {20, 10}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::compress_chunks(values, {7, 20}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::compress_chunks(values, {0, 20}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);

    // A batch of 0 arrays needs no GPU. Host memory is refused on every machine.
    gridz::Batch<float> none({10, 20}, 0), one({10, 20}, 1, nullptr, "lorenzo,level=dense");
    MUST(none.workspace_bytes() == 0 && one.slot_bytes() % 16 == 0);
    MUST(one.slot_bytes() == gridz::compress_bound<float>({10, 20}, "lorenzo,level=dense"));
    none.set_workspace(nullptr, 0);
    none.compress(nullptr, nullptr, nullptr);
    none.decompress(nullptr, nullptr, nullptr, nullptr);
    none.decompress_region(nullptr, nullptr, {1, 2}, {3, 4}, nullptr, nullptr);
    alignas(16) static char slot[4096];
    std::size_t length = 0;
    gridz_status status = GRIDZ_OK;
    std::vector<float> array(200);
    for (const gridz_status found :
         {status_of([&] { one.compress(array.data(), slot, &length); }),
          status_of([&] { one.decompress(slot, &length, array.data(), &status); }),
          status_of([&] { one.decompress_region(slot, &length, {1, 2}, {3, 4}, array.data(), &status); })})
        MUST(found == GRIDZ_ERROR_DEVICE || found == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { one.decompress_region(slot, &length, {1}, {3}, array.data(), &status); }) ==
         GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(one.c().n == 1 && one.c().array_stride == 800 && one.c().start == nullptr);
}

void eight_threads()
{
    const gridz::Context context(2);
    gridz::Options options;
    options.context = &context;
    std::vector<std::thread> threads;
    std::vector<int> good(8);
    for (std::size_t i = 0; i < good.size(); i++)
        threads.emplace_back([&, i] {
            std::vector<float> values(200 * 300, static_cast<float>(i));
            for (std::size_t k = 0; k < values.size(); k++)
                values[k] += static_cast<float>(k % 97);
            const gridz::Frame frame = gridz::compress(values, {200, 300}, options);
            good[i] = gridz::decompress<float>(frame, options) == values &&
                      status_of([&] { gridz::decompress<int>(frame); }) == GRIDZ_ERROR_INVALID_ARGUMENT;
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const int is_good : good)
        MUST(is_good);
}

} // namespace

int main()
{
    every_type();
    wrong_calls();
    regions_and_empty_arrays();
    parts();
    requests_and_codecs();
    spans_and_mdspans();
    many_arrays();
    eight_threads();
    std::puts("test_hpp: all passed");
    return 0;
}
