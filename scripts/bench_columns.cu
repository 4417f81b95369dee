// Measures how fast a GPU decodes only the columns of a sparse matrix: gridz_cci.hpp's iterator,
// with the sum of a row's columns as the operation, which costs next to nothing. Values and vectors
// are not read.
//
//     nvcc -O3 -std=c++17 -arch=native bench_columns.cu -o bench_columns -lgridz
//     ./bench_columns FRAME...
//
// FRAME is the output of gridz.cci's Matrix.save. Sums are first compared with the CPU's. Prints
// 10^9 bytes of 32-bit columns per second, medians of 11 times 5 runs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include <gridz_cci.hpp>

using gridz::cci::LANES;
using gridz::cci::NO_ROW;
using gridz::cci::View;
using Sum = unsigned long long;

template <class T> GRIDZ_HOST_DEVICE Sum sum_of(const View<T> &matrix, std::uint32_t slice, std::uint32_t lane)
{
    Sum sum = 0;
    for (const auto element : matrix.elements(slice, lane))
        sum += element.column;
    return sum;
}

template <class T> __global__ void add(const View<T> matrix, Sum *sums)
{
    const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    const std::uint32_t slice = thread / LANES, lane = thread % LANES;
    if (slice >= matrix.n_slices())
        return;
    const std::uint64_t row = matrix.row(slice, lane);
    if (row == NO_ROW)
        return;
    if (matrix.is_shared(slice))
        atomicAdd(&sums[row], sum_of(matrix, slice, lane));
    else
        sums[row] = sum_of(matrix, slice, lane);
}

static void must(cudaError_t error)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

template <class T> static void measure(const char *name, const gridz::cci::Matrix &matrix)
{
    const auto frame = matrix.frame();
    void *copy;
    Sum *sums;
    must(cudaMalloc(&copy, frame.size()));
    must(cudaMemcpy(copy, frame.data(), frame.size(), cudaMemcpyHostToDevice));
    const auto host = matrix.view<T>();
    const auto device = matrix.view<T>(copy);
    const std::size_t sum_bytes = host.n_rows() * sizeof(Sum);
    must(cudaMalloc(&sums, sum_bytes));
    const auto run = [&] { add<<<(device.n_slices() * LANES + 255) / 256, 256>>>(device, sums); };

    std::vector<Sum> want(host.n_rows()), got(host.n_rows());
    for (std::uint32_t slice = 0; slice < host.n_slices(); slice++)
        for (std::uint32_t lane = 0; lane < LANES; lane++) {
            const std::uint64_t row = host.row(slice, lane);
            if (row != NO_ROW)
                want[row] += sum_of(host, slice, lane);
        }
    must(cudaMemset(sums, 0, sum_bytes));
    run();
    must(cudaGetLastError());
    must(cudaMemcpy(got.data(), sums, sum_bytes, cudaMemcpyDeviceToHost));
    if (got != want) {
        std::printf("%s: the columns on the GPU differ\n", name);
        std::exit(1);
    }

    cudaEvent_t start, end;
    must(cudaEventCreate(&start));
    must(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < 11; i++) {
        must(cudaEventRecord(start));
        for (int k = 0; k < 5; k++)
            run();
        must(cudaEventRecord(end));
        must(cudaEventSynchronize(end));
        float ms;
        must(cudaEventElapsedTime(&ms, start, end));
        times.push_back(ms / 5);
    }
    std::sort(times.begin(), times.end());
    std::printf("%s: %.0f GB/s of 32-bit columns, %llu elements\n", name, host.nnz() * 4 / times[5] / 1e6,
                static_cast<unsigned long long>(host.nnz()));
    must(cudaFree(copy));
    must(cudaFree(sums));
}

int main(int n_arguments, char **arguments)
{
    for (int i = 1; i < n_arguments; i++) {
        std::ifstream file(arguments[i], std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        const auto matrix = gridz::cci::Matrix::open(bytes.data(), bytes.size());
        if (matrix.info().dtype == GRIDZ_DTYPE_F32)
            measure<float>(arguments[i], matrix);
        else
            measure<double>(arguments[i], matrix);
    }
}
