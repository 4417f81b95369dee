// gridz in HDF5 programs, for C++17: wraps the functions of gridz_hdf5.h with types, containers and
// exceptions.
//
//     gridz::h5::set(dcpl, "quant,abs=1e-3");
//     gridz::h5::write<float>(dset, field);
//     std::vector<float> back = gridz::h5::read<float>(dset);
//
// gridz_hdf5.h documents the functions in detail. Programs link with -lgridz and HDF5, 1.10.5 or
// newer. A failed call throws gridz::Error.
#ifndef GRIDZ_HDF5_HPP
#define GRIDZ_HDF5_HPP

#include <exception>
#include <functional>

#include "gridz.hpp"
#include "gridz_hdf5.h"

namespace gridz {
namespace h5 {

// Selects gridz with a request in text form for the datasets created with this property list. Throws
// if HDF5 does not find the plugin (HDF5_PLUGIN_PATH must contain its folder).
inline void set(hid_t dcpl, const std::string &request)
{
    std::uint32_t values[64];
    std::size_t n = 0;
    check(gridz_cd_values(request.c_str(), values, 64, &n));
    if (H5Zfilter_avail(GRIDZ_H5_FILTER) <= 0)
        throw Error(GRIDZ_ERROR_HOST, "HDF5 does not find the plugin of gridz; add its folder to HDF5_PLUGIN_PATH");
    if (H5Pset_filter(dcpl, GRIDZ_H5_FILTER, H5Z_FLAG_MANDATORY, n, values) < 0)
        throw Error(GRIDZ_ERROR_HOST, "H5Pset_filter failed; pass a dataset creation property list");
}

// The memory type of elements of T: H5T_NATIVE_*.
template <class T> hid_t native_type()
{
    static_assert((std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8) || std::is_same_v<T, float> ||
                      std::is_same_v<T, double>,
                  "gridz::h5 supports integers, float and double; call gridz_h5_write for other types");
    if constexpr (std::is_same_v<T, float>)
        return H5T_NATIVE_FLOAT;
    else if constexpr (std::is_same_v<T, double>)
        return H5T_NATIVE_DOUBLE;
    else if constexpr (std::is_signed_v<T>)
        return sizeof(T) == 1 ? H5T_NATIVE_INT8 : sizeof(T) == 2 ? H5T_NATIVE_INT16 : sizeof(T) == 4 ? H5T_NATIVE_INT32 : H5T_NATIVE_INT64;
    else
        return sizeof(T) == 1 ? H5T_NATIVE_UINT8 : sizeof(T) == 2 ? H5T_NATIVE_UINT16 : sizeof(T) == 4 ? H5T_NATIVE_UINT32 : H5T_NATIVE_UINT64;
}

// A box of a dataset: `count` elements from `start` on, along each axis. Both empty = the whole dataset.
struct Box {
    Extents start, count;
};

// How to transfer a dataset. The default is that of the library.
struct Options {
    const Context *context = nullptr;
    // Called after every chunk with the bytes that are done and their total; false cancels the
    // transfer. An exception also cancels the transfer and propagates to the caller.
    std::function<bool(std::uint64_t done, std::uint64_t total)> progress;
    // Approximate limit for buffers in bytes; 0 = 1 GiB.
    std::uint64_t memory_limit = 0;
    // Data transfer property list; 0 = H5P_DEFAULT.
    hid_t dxpl = 0;
    // A cudaStream_t whose work the call waits for, if the memory is that of a GPU.
    void *stream = nullptr;
};

namespace detail {

// The options of the C API, with a place for an exception of the callback.
class Transfer {
public:
    explicit Transfer(const Options &options = {}) : progress_(options.progress)
    {
        c_.struct_size = sizeof c_;
        c_.context = options.context ? options.context->get() : nullptr;
        c_.memory_limit = options.memory_limit;
        c_.dxpl = options.dxpl;
        c_.stream = options.stream;
        if (progress_) {
            c_.progress = report;
            c_.progress_data = this;
        }
    }
    Transfer(const Transfer &) = delete;
    Transfer &operator=(const Transfer &) = delete;

    const gridz_h5_options *c() const noexcept { return &c_; }

    // Throws the exception of the callback, or the error of the call.
    void finish(gridz_status status) const
    {
        if (thrown_)
            std::rethrow_exception(thrown_);
        check(status);
    }

private:
    // An exception must not pass through the library.
    static std::int32_t report(void *data, std::uint64_t done, std::uint64_t total)
    {
        Transfer *self = static_cast<Transfer *>(data);
        try {
            return self->progress_(done, total) ? 0 : 1;
        } catch (...) {
            self->thrown_ = std::current_exception();
            return 1;
        }
    }

    std::function<bool(std::uint64_t, std::uint64_t)> progress_;
    gridz_h5_options c_{};
    std::exception_ptr thrown_;
};

inline Extents extents_of(hid_t dset)
{
    const hid_t space = H5Dget_space(dset);
    const int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    Extents extents(rank > 0 ? static_cast<std::size_t>(rank) : 0);
    std::vector<hsize_t> found(extents.size() + 1);
    const bool is_good = rank >= 0 && H5Sget_simple_extent_dims(space, found.data(), nullptr) >= 0;
    if (space >= 0)
        H5Sclose(space);
    if (!is_good)
        throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "the extents of the dataset cannot be read; pass an open dataset");
    for (std::size_t axis = 0; axis < extents.size(); axis++)
        extents[axis] = found[axis];
    return extents;
}

// Start and count of a box for the C API; null for the whole dataset.
class Selection {
public:
    Selection(hid_t dset, const Box &box)
        : extents_(extents_of(dset)), start_(box.start.begin(), box.start.end()), count_(box.count.begin(), box.count.end())
    {
        const bool is_whole = start_.empty() && count_.empty();
        if (!is_whole && (start_.size() != extents_.size() || count_.size() != extents_.size()))
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT,
                        "start and count of a box need one number for each axis of the dataset; leave both empty for the whole dataset");
    }

    const hsize_t *start() const noexcept { return start_.empty() ? nullptr : start_.data(); }
    const hsize_t *count() const noexcept { return count_.empty() ? nullptr : count_.data(); }

    // Number of elements of the box.
    std::size_t size() const
    {
        const Extents count(count_.begin(), count_.end());
        return static_cast<std::size_t>(gridz::detail::product(count_.empty() ? extents_ : count));
    }

    void check_size(std::size_t n) const
    {
        if (n != size())
            throw Error(GRIDZ_ERROR_INVALID_ARGUMENT, "the array has another number of elements than the box of the dataset");
    }

private:
    Extents extents_;
    std::vector<hsize_t> start_, count_;
};

} // namespace detail

// Writes contiguous elements to a dataset or a box of it, with all threads.
template <class T> void write(hid_t dset, Span<const T> values, const Box &box = {}, const Options &options = {})
{
    const detail::Selection selection(dset, box);
    selection.check_size(values.size());
    detail::Transfer transfer(options);
    transfer.finish(gridz_h5_write(dset, native_type<T>(), selection.start(), selection.count(), values.data(), transfer.c()));
}

// Reads a dataset or a box of it to contiguous elements, with all threads.
template <class T> void read_into(hid_t dset, Span<T> values, const Box &box = {}, const Options &options = {})
{
    const detail::Selection selection(dset, box);
    selection.check_size(values.size());
    detail::Transfer transfer(options);
    transfer.finish(gridz_h5_read(dset, native_type<T>(), selection.start(), selection.count(), values.data(), transfer.c()));
}

// Reads a dataset or a box of it.
template <class T> std::vector<T> read(hid_t dset, const Box &box = {}, const Options &options = {})
{
    std::vector<T> values(detail::Selection(dset, box).size());
    read_into<T>(dset, values, box, options);
    return values;
}

// Reads a part of a dataset that multigrid has compressed: a coarser grid, or fewer layers. Writes the
// description of the result to `info` if it is not nullptr.
template <class T>
std::vector<T> read_progressive(hid_t dset, const Detail &how_much, const Box &box = {}, const Options &options = {},
                                gridz_h5_part_info *info = nullptr)
{
    const detail::Selection selection(dset, box);
    gridz_h5_part_info part{};
    part.struct_size = sizeof part;
    Options silent = options;
    silent.progress = nullptr;
    detail::Transfer quiet(silent);
    quiet.finish(gridz_h5_inspect_progressive(dset, selection.start(), selection.count(), how_much.kind(), how_much.value(),
                                              &part, quiet.c()));
    const Extents found(part.extents, part.extents + part.rank);
    std::vector<T> values(static_cast<std::size_t>(gridz::detail::product(found)));
    detail::Transfer transfer(options);
    transfer.finish(gridz_h5_read_progressive(dset, native_type<T>(), selection.start(), selection.count(), how_much.kind(),
                                              how_much.value(), values.data(), &part, transfer.c()));
    if (info != nullptr)
        *info = part;
    return values;
}

// Copies all elements of a dataset to another dataset of the same extents.
inline void copy(hid_t src, hid_t dst, const Options &options = {})
{
    detail::Transfer transfer(options);
    transfer.finish(gridz_h5_copy(src, dst, transfer.c()));
}

} // namespace h5
} // namespace gridz

#endif // GRIDZ_HDF5_HPP
