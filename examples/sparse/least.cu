// A custom operation, fused with decoding: the smallest neighbor of each row of a graph, on a GPU
// and on the CPU.
//
//     nvcc -std=c++17 least.cu -o least -lgridz
//
// The matrix is copied to the GPU in compressed form; its columns are decoded where they are used.
// Exits with status 77 if there is no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include <gridz_cci.hpp>

using gridz::cci::LANES;
using gridz::cci::NO_ROW;
using gridz::cci::View;

// The smallest x[column] of a lane's elements.
GRIDZ_HOST_DEVICE int least_of(const View<float> &matrix, std::uint32_t slice, std::uint32_t lane, const int *x, int none)
{
    int least = none;
    for (const auto element : matrix.elements(slice, lane))
        least = x[element.column] < least ? x[element.column] : least;
    return least;
}

// Each warp processes a slice, each of its lanes a row, or a part of a long row.
__global__ void least(const View<float> matrix, const int *x, int *y, int none)
{
    const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    const std::uint32_t slice = thread / LANES, lane = thread % LANES;
    if (slice >= matrix.n_slices())
        return;
    const std::uint64_t row = matrix.row(slice, lane);
    if (row != NO_ROW)
        atomicMin(&y[row], least_of(matrix, slice, lane, x, none));
}

static void must(cudaError_t error)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

template <class T> static T *on_gpu(const T *from, std::size_t n)
{
    T *to;
    must(cudaMalloc(&to, n * sizeof(T)));
    must(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyHostToDevice));
    return to;
}

int main()
{
    // Each node has a link to the next node and a few random links; the last node has links to all
    // other nodes.
    const int n = 100000;
    std::vector<int> starts{0}, columns;
    for (int row = 0; row < n; row++) {
        columns.push_back((row + 1) % n);
        for (int i = 0; i < row % 5; i++)
            columns.push_back(static_cast<int>((row * 7919LL + i * 104729LL) % n));
        if (row == n - 1)
            for (int column = 0; column < n; column += 3)
                columns.push_back(column);
        starts.push_back(static_cast<int>(columns.size()));
    }
    const std::vector<float> ones(columns.size(), 1);
    const auto matrix = gridz::cci::Matrix::of_rows<float, int>(n, n, starts, columns, ones);
    std::printf("%zu bytes for %zu links\n", matrix.frame().size(), columns.size());

    const int none = std::numeric_limits<int>::max();
    std::vector<int> x(n), want(n, none), got(n);
    for (int i = 0; i < n; i++)
        x[i] = static_cast<int>(i * 48271LL % 2147483647);
    const auto view = matrix.view<float>();
    for (std::uint32_t slice = 0; slice < view.n_slices(); slice++)
        for (std::uint32_t lane = 0; lane < LANES; lane++) {
            const std::uint64_t row = view.row(slice, lane);
            if (row != NO_ROW)
                want[row] = std::min(want[row], least_of(view, slice, lane, x.data(), none));
        }
    for (int row = 0; row < n; row++) {
        int least = none;
        for (int i = starts[row]; i < starts[row + 1]; i++)
            least = std::min(least, x[columns[i]]);
        if (least != want[row])
            return std::printf("row %d differs\n", row), 1;
    }

    int n_gpus = 0;
    if (cudaGetDeviceCount(&n_gpus) != cudaSuccess || n_gpus == 0)
        return std::puts("the same on the CPU; there is no GPU"), 77;
    const auto frame = matrix.frame();
    const auto of_gpu = matrix.view<float>(on_gpu(frame.data(), frame.size()));
    int *y = on_gpu(std::vector<int>(n, none).data(), n);
    least<<<(view.n_slices() * LANES + 255) / 256, 256>>>(of_gpu, on_gpu(x.data(), n), y, none);
    must(cudaGetLastError());
    must(cudaMemcpy(got.data(), y, n * sizeof(int), cudaMemcpyDeviceToHost));
    if (got != want)
        return std::puts("the GPU finds different minima"), 1;
    std::puts("the same on the CPU and the GPU");
    return 0;
}
