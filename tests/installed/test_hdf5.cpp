// Tests gridz_hdf5.hpp: datasets, boxes, coarser grids, callbacks, and that invalid calls throw.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "gridz_hdf5.hpp"

namespace {

void must(bool is_good, const char *what, int line)
{
    if (!is_good) {
        std::fprintf(stderr, "test_hdf5.cpp:%d: %s\n", line, what);
        std::exit(1);
    }
}
#define MUST(condition) must(condition, #condition, __LINE__)

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

// A dataset of 40 x 60 elements in chunks of 20 x 60; the caller closes it.
hid_t create(hid_t file, const char *name, hid_t type, const char *request)
{
    const hsize_t extents[2] = {40, 60}, chunk[2] = {20, 60};
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, extents, nullptr);
    H5Pset_chunk(dcpl, 2, chunk);
    gridz::h5::set(dcpl, request);
    const hid_t dset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    MUST(dset >= 0);
    H5Sclose(space);
    H5Pclose(dcpl);
    return dset;
}

template <class T> void round_trip(hid_t file, const char *name)
{
    std::vector<T> values(40 * 60);
    for (std::size_t i = 0; i < values.size(); i++)
        values[i] = static_cast<T>(i % 100);
    const hid_t dset = create(file, name, gridz::h5::native_type<T>(), "lorenzo,level=dense");
    gridz::h5::write<T>(dset, values);
    MUST(gridz::h5::read<T>(dset) == values);
    std::vector<T> by_hdf5(values.size());
    H5Dread(dset, gridz::h5::native_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, by_hdf5.data());
    MUST(by_hdf5 == values);
    H5Dclose(dset);
}

} // namespace

int main()
{
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const hid_t file = H5Fcreate("cpp.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    MUST(file >= 0);
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    MUST(gridz_h5_set_request(dcpl, "quant") < 0 && H5Pget_nfilters(dcpl) == 0);
    MUST(gridz_h5_set_request(dcpl, "quant,abs=0.01") >= 0 && H5Pget_nfilters(dcpl) == 1);
    H5Pclose(dcpl);
    round_trip<float>(file, "f4");
    round_trip<double>(file, "f8");
    round_trip<std::int8_t>(file, "i1");
    round_trip<std::uint16_t>(file, "u2");
    round_trip<int>(file, "i4");
    round_trip<unsigned long>(file, "u8");

    std::vector<double> values(40 * 60);
    for (std::size_t i = 0; i < values.size(); i++)
        values[i] = std::sin(0.05 * static_cast<double>(i % 60)) + 0.01 * static_cast<double>(i / 60);
    const hid_t dset = create(file, "box", H5T_NATIVE_DOUBLE, "quant,abs=1e-3");
    const gridz::h5::Box rows{{10, 0}, {5, 60}};
    gridz::h5::write<double>(dset, values);
    gridz::h5::write<double>(dset, std::vector<double>(300, 7), rows);
    const std::vector<double> row = gridz::h5::read<double>(dset, {{12, 3}, {1, 50}});
    for (const double value : row)
        MUST(std::fabs(value - 7) <= 1e-3);
    MUST(row.size() == 50 && gridz::h5::read<double>(dset, {{39, 59}, {1, 1}}).size() == 1);
    MUST(status_of([&] { gridz::h5::read<double>(dset, {{39, 59}, {}}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);

    const hid_t layered = create(file, "layers", H5T_NATIVE_DOUBLE, "multigrid,abs=1e-3");
    gridz::h5::write<double>(layered, values);
    gridz_h5_part_info info{};
    const std::vector<double> coarse = gridz::h5::read_progressive<double>(layered, gridz::Detail::level(2), {}, {}, &info);
    MUST(coarse.size() == 10 * 15 && info.level == 2 && info.extents[1] == 15);
    for (std::size_t i = 0; i < coarse.size(); i++)
        MUST(std::fabs(coarse[i] - values[i / 15 * 240 + i % 15 * 4]) <= info.bound);
    const hid_t copied = create(file, "copy", H5T_NATIVE_DOUBLE, "multigrid,abs=1e-3");
    gridz::h5::copy(layered, copied);
    MUST(gridz::h5::read<double>(copied) == gridz::h5::read<double>(layered));

    // A callback reports progress, cancels, or throws.
    gridz::h5::Options options;
    const gridz::Context context(2);
    options.context = &context;
    std::uint64_t last = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
        MUST(done >= last && done <= total && total == values.size() * sizeof(double));
        last = done;
        return true;
    };
    gridz::h5::write<double>(dset, values, {}, options);
    MUST(last == values.size() * sizeof(double));
    options.progress = [](std::uint64_t, std::uint64_t) { return false; };
    MUST(status_of([&] { gridz::h5::read<double>(dset, {}, options); }) == GRIDZ_ERROR_CANCELLED);
    options.progress = [](std::uint64_t, std::uint64_t) -> bool { throw std::runtime_error("stop"); };
    try {
        gridz::h5::read<double>(dset, {}, options);
        MUST(false);
    } catch (const std::runtime_error &error) {
        MUST(std::string(error.what()) == "stop");
    }

    MUST(status_of([&] { gridz::h5::set(H5P_DEFAULT, "zip"); }) == GRIDZ_ERROR_UNSUPPORTED_JOB);
    MUST(status_of([&] { gridz::h5::write<double>(dset, std::vector<double>(7)); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::h5::read<double>(dset, {{1}, {1}}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::h5::read<double>(dset, {{40, 0}, {1, 1}}); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    MUST(status_of([&] { gridz::h5::read<double>(-1); }) == GRIDZ_ERROR_INVALID_ARGUMENT);
    for (const hid_t open : {dset, layered, copied})
        H5Dclose(open);
    H5Fclose(file);
    std::puts("test_hdf5: all passed");
    return 0;
}
