// gridz for C++17: wraps the functions of gridz.h with types, containers and exceptions.
//
//     std::vector<float> field(64 * 128 * 128);
//     gridz::Frame frame = gridz::compress(field, {64, 128, 128}, "quant,abs=1e-3");
//     std::vector<float> back = gridz::decompress<float>(frame);
//
// Arrays are containers with data() and size(), std::span, or std::mdspan in C order.
// Extents are in elements, slowest-varying first. Several threads may call all functions at the
// same time. A failed call throws gridz::Error with a status of gridz.h and a text for people. A
// failed allocation throws gridz::Error in the library, and std::bad_alloc in the containers of
// this header. Link with -lgridz.
#ifndef GRIDZ_HPP
#define GRIDZ_HPP

#if __cplusplus < 201703L
#error "gridz.hpp needs C++17 (-std=c++17 or newer)"
#endif

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#endif

#include "gridz_cuda.h"
#include "gridz_progressive.h"

namespace gridz {

// Error of a failed call.
class Error : public std::runtime_error {
public:
    Error(gridz_status status, const char *text) : std::runtime_error(text), status_(status) {}

    // One of GRIDZ_ERROR_*.
    gridz_status status() const noexcept { return status_; }

private:
    gridz_status status_;
};

inline void check(gridz_status status)
{
    if (status != GRIDZ_OK)
        throw Error(status, gridz_last_error());
}

// Non-owning view of contiguous elements: std::span for C++17.
template <class T> class Span {
public:
    Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    // Views a container that has data() and size(). A temporary container needs a const element
    // type.
    template <class Container, class = std::enable_if_t<
                                   std::is_convertible_v<decltype(std::declval<Container &>().data()), T *>>>
    Span(Container &container) noexcept : data_(container.data()), size_(container.size())
    {
    }
    template <class Container,
              class = std::enable_if_t<std::is_const_v<T> && std::is_convertible_v<
                                           decltype(std::declval<const Container &>().data()), T *>>>
    Span(const Container &container) noexcept : data_(container.data()), size_(container.size())
    {
    }

#ifdef __cpp_lib_span
    // Views a std::span, also a temporary one, and converts to one.
    template <class U, std::size_t N, class = std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>>>
    Span(std::span<U, N> elements) noexcept : data_(elements.data()), size_(elements.size())
    {
    }
    operator std::span<T>() const noexcept { return {data_, size_}; }
#endif

    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::size_t bytes() const noexcept { return size_ * sizeof(T); }

private:
    T *data_;
    std::size_t size_;
};

// The GRIDZ_DTYPE_* of a C++ type. Specialize it for your own types, such as a half.
template <class T, class = void> struct dtype;

template <class T> struct dtype<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
    static_assert(sizeof(T) <= 8, "gridz has integers of up to 8 bytes");
    static constexpr gridz_dtype value = (std::is_signed_v<T> ? GRIDZ_DTYPE_I8 : GRIDZ_DTYPE_U8) +
                                         (sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3);
};
template <> struct dtype<float> { static constexpr gridz_dtype value = GRIDZ_DTYPE_F32; };
template <> struct dtype<double> { static constexpr gridz_dtype value = GRIDZ_DTYPE_F64; };
template <> struct dtype<std::complex<float>> { static constexpr gridz_dtype value = GRIDZ_DTYPE_C64; };
template <> struct dtype<std::complex<double>> { static constexpr gridz_dtype value = GRIDZ_DTYPE_C128; };

using Extents = std::vector<std::uint64_t>;

// Worker threads and a memory limit for calls. Without a context, calls use the worker threads of
// the process. Several threads may use a context at the same time. It must outlive the calls.
class Context {
public:
    // threads: 0 = share the worker threads of the process. memory_limit: in bytes, 0 = no limit.
    // device: one of GRIDZ_DEVICE_*, or the number of a GPU, counted from 1.
    explicit Context(std::uint32_t threads = 0, std::uint64_t memory_limit = 0,
                     std::uint32_t device = GRIDZ_DEVICE_AUTO)
    {
        gridz_context_options options{};
        options.struct_size = sizeof options;
        options.threads = threads;
        options.memory_limit = memory_limit;
        options.device = device;
        gridz_context *made = nullptr;
        check(gridz_context_create(&options, &made));
        context_.reset(made);
    }

    const gridz_context *get() const noexcept { return context_.get(); }

private:
    struct End {
        void operator()(gridz_context *context) const noexcept { gridz_context_destroy(context); }
    };
    std::unique_ptr<gridz_context, End> context_;
};

// Makes a request in text form from its parts: the name of a codec, a mode with its value, and the
// number of a level (0 = the codec's default). Parameters and fill values may be appended to it.
inline std::string request(const std::string &codec, gridz_mode mode = GRIDZ_MODE_LOSSLESS, double value = 0,
                           std::uint32_t level = 0)
{
    char text[256];
    check(gridz_request_text(codec.c_str(), mode, value, level, text, sizeof text, nullptr));
    return text;
}

// How to compress and decompress. The default is that of the library: lossless and fast. A request in
// text form converts to Options: gridz::compress(field, extents, "quant,abs=1e-3").
struct Options {
    Options() = default;
    Options(std::string text) : request(std::move(text)) {}
    Options(const char *text) : request(text != nullptr ? text : "") {}

    // Request in text form, such as "lorenzo,level=dense"; empty = the default codec.
    std::string request;
    const Context *context = nullptr;
    // Decompress without verifying checksums.
    bool skip_checksum = false;
    // Fill values, which mark elements without data: `n_fill_values` consecutive elements of the
    // array's type, which must outlive the call. nullptr = none. `n_fill_values` 0 = one. Lossless
    // codecs ignore them.
    const void *fill_value = nullptr;
    std::size_t n_fill_values = 0;
    // Smallest and largest valid number, one element each. nullptr = no limit. Elements outside
    // this range are treated like fill values.
    const void *valid_min = nullptr;
    const void *valid_max = nullptr;

    // The struct of the C API, valid while this object lives.
    gridz_options c() const noexcept
    {
        gridz_options options{};
        options.struct_size = sizeof options;
        options.request = request.empty() ? nullptr : request.c_str();
        options.context = context ? context->get() : nullptr;
        options.flags = skip_checksum ? GRIDZ_FLAG_SKIP_CHECKSUM : 0;
        options.fill_value = fill_value;
        options.n_fill_values = n_fill_values;
        options.valid_min = valid_min;
        options.valid_max = valid_max;
        return options;
    }
};

// The codecs of the library.
inline std::vector<gridz_codec> codecs()
{
    std::vector<gridz_codec> all(gridz_codec_count());
    for (std::size_t i = 0; i < all.size(); i++) {
        all[i].struct_size = sizeof all[i];
        check(gridz_codec_info(i, &all[i]));
    }
    return all;
}

// A compressed array.
using Frame = std::vector<std::uint8_t>;

// Selects the part of a frame of multigrid to decompress.
class Detail {
public:
    // The grid of a level: every 2^level-th element along each axis, from the first layer. Level 0
    // is the whole array.
    static Detail level(std::uint32_t level) noexcept { return Detail(GRIDZ_DETAIL_LEVEL, level); }
    // All elements, from the first `layers` layers.
    static Detail layers(std::uint32_t layers) noexcept { return Detail(GRIDZ_DETAIL_LAYERS, layers); }
    // All elements, from the fewest layers whose error bound (root mean square in mode
    // GRIDZ_MODE_RMS) is at most `error`. All layers if none qualifies.
    static Detail error(double error) noexcept { return Detail(GRIDZ_DETAIL_ERROR, error); }

    std::uint32_t kind() const noexcept { return kind_; }
    double value() const noexcept { return value_; }

private:
    Detail(std::uint32_t kind, double value) noexcept : kind_(kind), value_(value) {}

    std::uint32_t kind_;
    double value_;
};

// Description of a part of a frame of multigrid. The first bytes of the frame are enough.
class PartInfo {
public:
    PartInfo(Span<const std::uint8_t> frame, const Detail &detail)
    {
        info_.struct_size = sizeof info_;
        check(gridz_inspect_progressive(frame.data(), frame.size(), detail.kind(), detail.value(), &info_));
    }

    Extents extents() const { return Extents(info_.extents, info_.extents + info_.rank); }
    std::uint64_t array_bytes() const noexcept { return info_.array_bytes; }
    // Number of bytes at the start of the frame that are needed.
    std::uint64_t frame_bytes() const noexcept { return info_.frame_bytes; }
    std::uint32_t level() const noexcept { return info_.level; }
    // Number of levels above level 0.
    std::uint32_t n_levels() const noexcept { return info_.n_levels; }
    std::uint32_t layers() const noexcept { return info_.layers; }
    std::uint32_t n_layers() const noexcept { return info_.n_layers; }
    // Guarantee of the result: GRIDZ_MODE_*, the number that belongs to it, and the bound of the
    // absolute error.
    gridz_mode mode() const noexcept { return static_cast<gridz_mode>(info_.mode); }
    double value() const noexcept { return info_.value; }
    double bound() const noexcept { return info_.bound; }

private:
    gridz_part_info info_{};
};

// Description of a frame, from its header.
class Info {
public:
    explicit Info(Span<const std::uint8_t> frame)
    {
        info_.struct_size = sizeof info_;
        check(gridz_inspect(frame.data(), frame.size(), &info_));
    }

    gridz_dtype dtype() const noexcept { return info_.dtype; }
    gridz_byte_order byte_order() const noexcept { return info_.byte_order; }
    Extents extents() const { return Extents(info_.extents, info_.extents + info_.rank); }
    std::uint64_t array_bytes() const noexcept { return info_.array_bytes; }
    std::uint64_t frame_bytes() const noexcept { return info_.frame_bytes; }
    // Empty if the library does not know the codec.
    std::string codec() const { return info_.codec_name ? info_.codec_name : ""; }
    // Guarantee of the frame: GRIDZ_MODE_*, the number that belongs to it, and the bound of the
    // absolute error, which is NaN if there is none.
    gridz_mode mode() const noexcept { return info_.mode; }
    double value() const noexcept { return info_.value; }
    double bound() const noexcept { return info_.bound; }

private:
    gridz_frame_info info_{};
};

namespace detail {

template <class T> gridz_array describe(const Extents &extents)
{
    gridz_array array{};
    array.struct_size = sizeof array;
    array.dtype = dtype<std::remove_cv_t<T>>::value;
    array.element_size = sizeof(T);
    array.rank = static_cast<std::uint32_t>(extents.size());
    array.extents = extents.data();
    return array;
}

// Throws unless the array in the frame has elements of type T.
template <class T> void check_type(const Info &info)
{
    const bool is_native = sizeof(T) == 1 || info.byte_order() == GRIDZ_BYTE_ORDER_LITTLE;
    if (info.dtype() != dtype<T>::value || !is_native)
        throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "the array in the frame has another element type or byte order");
}

// True for std::mdspan and other classes with its interface.
template <class Array, class = void> struct is_mdspan : std::false_type {};
template <class Array>
struct is_mdspan<Array, std::void_t<typename Array::extents_type, typename Array::layout_type,
                                    decltype(std::declval<const Array &>().data_handle())>> : std::true_type {};
template <class Array> using if_mdspan = std::enable_if_t<is_mdspan<Array>::value>;

// The extents of an mdspan. Throws unless its elements are contiguous in C order.
template <class Array> Extents extents_of(const Array &array)
{
    const std::size_t rank = Array::rank();
    Extents extents(rank);
    bool is_empty = false;
    for (std::size_t axis = 0; axis < rank; axis++) {
        extents[axis] = static_cast<std::uint64_t>(array.extent(axis));
        is_empty = is_empty || extents[axis] == 0;
    }
    std::uint64_t step = 1;
    for (std::size_t axis = rank; axis-- > 0 && !is_empty; step *= extents[axis])
        if (extents[axis] > 1 && static_cast<std::uint64_t>(array.stride(axis)) != step)
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT,
                        "the mdspan is not contiguous in C order; copy it to one with layout_right");
    return extents;
}

// The number of elements of an array.
inline std::uint64_t product(const Extents &extents)
{
    std::uint64_t n = 1;
    for (const std::uint64_t extent : extents) {
        if (extent != 0 && n > UINT64_MAX / extent)
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "the product of the extents exceeds 2^64");
        n *= extent;
    }
    return n;
}

} // namespace detail

// Destination size in bytes that is always enough to compress an array of T, whatever its values.
template <class T> std::size_t compress_bound(const Extents &extents, const Options &options = {})
{
    const gridz_array array = detail::describe<T>(extents);
    const gridz_options c = options.c();
    std::size_t bound = 0;
    check(gridz_compress_bound(&array, &c, &bound));
    return bound;
}

// Compresses into a destination of at least compress_bound bytes. Returns the length of the frame
// in bytes.
template <class T>
std::size_t compress_into(Span<const T> values, const Extents &extents, Span<std::uint8_t> dst,
                          const Options &options = {})
{
    const gridz_array array = detail::describe<T>(extents);
    const gridz_options c = options.c();
    std::size_t n = 0;
    check(gridz_compress(&array, values.data(), values.bytes(), dst.data(), dst.size(), &n, &c));
    return n;
}

// Compresses the elements of a container.
template <class Container> Frame compress(const Container &values, const Extents &extents, const Options &options = {})
{
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(values.data())>>;
    const Span<const T> elements(values.data(), values.size());
    const gridz_array array = detail::describe<T>(extents);
    const gridz_options c = options.c();
    // Without a destination, the call checks the extents against the number of elements and returns
    // the needed size.
    Frame frame;
    std::size_t n = 0;
    gridz_status status = GRIDZ_ERROR_DST_TOO_SMALL;
    for (int pass = 0; pass < 2 && status == GRIDZ_ERROR_DST_TOO_SMALL; pass++) {
        frame.resize(n);
        status = gridz_compress(&array, elements.data(), elements.bytes(), frame.data(), frame.size(), &n, &c);
    }
    check(status);
    frame.resize(n);
    return frame;
}

// Compresses the elements of a std::mdspan in C order, with its extents.
template <class Array, class = detail::if_mdspan<Array>> Frame compress(const Array &array, const Options &options = {})
{
    using T = std::remove_cv_t<typename Array::element_type>;
    const Extents extents = detail::extents_of(array);
    const std::size_t n = static_cast<std::size_t>(detail::product(extents));
    return compress(Span<const T>(array.data_handle(), n), extents, options);
}

// Decompresses to the start of a destination. Returns the number of elements.
template <class T>
std::size_t decompress_into(Span<const std::uint8_t> frame, Span<T> dst, const Options &options = {})
{
    detail::check_type<T>(Info(frame));
    const gridz_options c = options.c();
    std::size_t n = 0;
    check(gridz_decompress(frame.data(), frame.size(), dst.data(), dst.bytes(), &n, &c));
    return n / sizeof(T);
}

// Decompresses to a std::mdspan in C order, which has the extents of the array in the frame.
template <class Array, class = detail::if_mdspan<Array>>
void decompress_into(Span<const std::uint8_t> frame, const Array &dst, const Options &options = {})
{
    using T = typename Array::element_type;
    const Extents extents = detail::extents_of(dst);
    if (Info(frame).extents() != extents)
        throw Error(GRIDZ_ERROR_INVALID_ARGUMENT,
                    "the array in the frame has other extents than the destination; gridz::Info reports them");
    decompress_into<T>(frame, Span<T>(dst.data_handle(), static_cast<std::size_t>(detail::product(extents))), options);
}

// Decompresses a frame. `limit` is the largest number of elements that the caller expects; an
// untrusted frame can claim any number.
template <class T>
std::vector<T> decompress(Span<const std::uint8_t> frame, const Options &options = {},
                          std::uint64_t limit = UINT64_MAX / sizeof(T))
{
    const Info info(frame);
    detail::check_type<T>(info);
    if (info.array_bytes() / sizeof(T) > limit)
        throw Error(GRIDZ_ERROR_CORRUPT, "the array in the frame is larger than expected");
    std::vector<T> values(static_cast<std::size_t>(info.array_bytes() / sizeof(T)));
    decompress_into<T>(frame, Span<T>(values), options);
    return values;
}

// Decompresses a part of a frame of multigrid. The frame may be cut after PartInfo::frame_bytes()
// bytes. `limit` as for decompress.
template <class T>
std::vector<T> decompress_progressive(Span<const std::uint8_t> frame, const Detail &how_much, const Options &options = {},
                                      std::uint64_t limit = UINT64_MAX / sizeof(T))
{
    detail::check_type<T>(Info(frame));
    const PartInfo part(frame, how_much);
    if (part.array_bytes() / sizeof(T) > limit)
        throw Error(GRIDZ_ERROR_CORRUPT, "the array in the frame is larger than expected");
    std::vector<T> values(static_cast<std::size_t>(part.array_bytes() / sizeof(T)));
    const gridz_options c = options.c();
    gridz_part_info info{};
    info.struct_size = sizeof info;
    check(gridz_decompress_progressive(frame.data(), frame.size(), how_much.kind(), how_much.value(), values.data(),
                                       values.size() * sizeof(T), &info, &c));
    return values;
}

// Decompresses a region of an array: `count` elements from `start` on, along each axis.
template <class T>
std::vector<T> decompress_region(Span<const std::uint8_t> frame, const Extents &start, const Extents &count,
                                 const Options &options = {})
{
    detail::check_type<T>(Info(frame));
    if (start.size() != count.size())
        throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "start and count of a region have different ranks");
    const gridz_options c = options.c();
    std::size_t n = 0;
    // Without a destination, the call checks the region and returns its size in bytes.
    const auto rank = static_cast<std::uint32_t>(start.size());
    const auto call = [&](T *dst, std::size_t bytes) {
        return gridz_decompress_region(frame.data(), frame.size(), rank, start.data(), count.data(), dst, bytes, &n,
                                       &c);
    };
    const gridz_status status = call(nullptr, 0);
    if (status != GRIDZ_ERROR_DST_TOO_SMALL)
        check(status);
    std::vector<T> values(n / sizeof(T));
    check(call(values.data(), n));
    return values;
}

// Frames of many arrays of one type and shape. Frame i has lengths[i] bytes. Each begins in `bytes` at
// the first multiple of 16 after the previous one.
struct PackedFrames {
    Frame bytes;
    std::vector<std::size_t> lengths;
};

// Compresses arrays of one type and shape that follow each other in a container, on all threads.
// `extents` are those of one array.
template <class Container>
PackedFrames compress_chunks(const Container &values, const Extents &extents, const Options &options = {})
{
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(values.data())>>;
    const std::uint64_t n_elements = detail::product(extents);
    if (n_elements == 0 || values.size() % n_elements != 0)
        throw Error(GRIDZ_ERROR_INVALID_ARGUMENT,
                    "the number of elements is not a multiple of the elements of one array; check the extents");
    const gridz_array array = detail::describe<T>(extents);
    const gridz_options c = options.c();
    PackedFrames packed;
    packed.lengths.resize(static_cast<std::size_t>(values.size() / n_elements));
    gridz_batch batch{};
    batch.struct_size = sizeof batch;
    batch.array = &array;
    batch.n = packed.lengths.size();
    batch.arrays = const_cast<T *>(values.data()); // only read
    batch.array_stride = static_cast<std::size_t>(n_elements * sizeof(T));
    batch.frame_bytes = packed.lengths.data();
    batch.options = &c;
    check(gridz_packed_bound(&array, batch.n, &batch.packed_bytes));
    packed.bytes.resize(batch.packed_bytes);
    batch.packed = packed.bytes.data();
    std::size_t n_bytes = 0;
    check(gridz_compress_chunks(&batch, &n_bytes));
    packed.bytes.resize(n_bytes);
    return packed;
}

// Decompresses the frames of compress_chunks, on all threads. `extents` are those of one array.
template <class T>
std::vector<T> decompress_chunks(const PackedFrames &packed, const Extents &extents, const Options &options = {})
{
    const gridz_array array = detail::describe<T>(extents);
    const gridz_options c = options.c();
    const std::size_t n_elements = static_cast<std::size_t>(detail::product(extents));
    std::vector<T> values(packed.lengths.size() * n_elements);
    gridz_batch batch{};
    batch.struct_size = sizeof batch;
    batch.array = &array;
    batch.n = packed.lengths.size();
    batch.arrays = values.data();
    batch.array_stride = n_elements * sizeof(T);
    batch.packed = const_cast<std::uint8_t *>(packed.bytes.data()); // only read
    batch.packed_bytes = packed.bytes.size();
    batch.frame_bytes = const_cast<std::size_t *>(packed.lengths.data());
    batch.options = &c;
    check(gridz_decompress_chunks(&batch));
    return values;
}

// Many arrays of one type and shape in GPU memory, and their frames in slots: the asynchronous calls
// of gridz_cuda.h, which enqueue work on a CUDA stream. The caller owns the memory, which stays valid
// until the stream has completed the work. An object may be used by one thread at a time.
template <class T> class Batch {
public:
    // `extents` are those of one array. `stream` is a cudaStream_t; nullptr = the default stream.
    Batch(const Extents &extents, std::size_t n, void *stream = nullptr, const Options &options = {})
        : extents_(extents), options_(options), array_(detail::describe<T>(extents_)), c_options_(options_.c())
    {
        batch_.struct_size = sizeof batch_;
        batch_.array = &array_;
        batch_.n = n;
        batch_.array_stride = static_cast<std::size_t>(detail::product(extents_) * sizeof(T));
        batch_.stream = stream;
        batch_.options = &c_options_;
        check(gridz_compress_bound(&array_, &c_options_, &batch_.frame_stride));
    }
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;

    // The struct of the C API, for fields without a function here, such as array_stride. Its pointers
    // to the array and the options are valid while this object lives.
    gridz_batch &c() noexcept { return batch_; }

    // Bytes of the slot of a frame, a multiple of 16.
    std::size_t slot_bytes() const noexcept { return batch_.frame_stride; }

    // Bytes of the workspace that compress and decompress need. Also loads the kernels.
    std::size_t workspace_bytes() const
    {
        std::size_t n_bytes = 0;
        check(gridz_async_workspace_bytes(&batch_, &n_bytes));
        return n_bytes;
    }

    // Uses this GPU memory instead of allocating a workspace in each call.
    void set_workspace(void *workspace, std::size_t n_bytes) noexcept
    {
        batch_.workspace = workspace;
        batch_.workspace_bytes = n_bytes;
    }

    // Compresses `arrays` to slots at `frames`; writes the lengths to `frame_bytes`.
    void compress(const T *arrays, void *frames, std::size_t *frame_bytes)
    {
        set_memory(const_cast<T *>(arrays), frames, frame_bytes);
        check(gridz_compress_async(&batch_));
    }

    // Decompresses frames in slots to `arrays`; writes a status of each to `statuses`.
    void decompress(const void *frames, const std::size_t *frame_bytes, T *arrays, gridz_status *statuses)
    {
        set_memory(arrays, const_cast<void *>(frames), const_cast<std::size_t *>(frame_bytes));
        batch_.statuses = statuses;
        check(gridz_decompress_async(&batch_));
    }

    // Decompresses a region of each array: `count` elements from `start` on, along each axis.
    void decompress_region(const void *frames, const std::size_t *frame_bytes, const Extents &start, const Extents &count,
                           T *regions, gridz_status *statuses)
    {
        if (start.size() != extents_.size() || count.size() != extents_.size())
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "start and count of a region need one number for each axis of the arrays");
        set_memory(regions, const_cast<void *>(frames), const_cast<std::size_t *>(frame_bytes));
        gridz_batch batch = batch_;
        batch.statuses = statuses;
        batch.start = start.data();
        batch.count = count.data();
        batch.array_stride = static_cast<std::size_t>(detail::product(count) * sizeof(T));
        check(gridz_decompress_async(&batch));
    }

private:
    void set_memory(T *arrays, void *frames, std::size_t *frame_bytes) noexcept
    {
        batch_.arrays = arrays;
        batch_.frames = frames;
        batch_.frame_bytes = frame_bytes;
    }

    Extents extents_;
    Options options_;
    gridz_array array_;
    gridz_options c_options_;
    gridz_batch batch_{};
};

} // namespace gridz

#endif // GRIDZ_HPP
