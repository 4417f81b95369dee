// A simulation that stores its checkpoints as gridz frames in plain files, without HDF5.
//
//     heat_cpp             computes 40 steps, writes heat_cpp.gridz after 20 of them
//     heat_cpp restart     reads that and computes the other 20
//
// Both print a checksum of the last state. The checksums are equal, because every bit of a
// checkpoint is restored.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gridz.hpp"

namespace {

constexpr int N = 64, STEPS = 40, CHECKPOINT = 20;
constexpr const char *FILE_NAME = "heat_cpp.gridz";
using Field = std::vector<float>;

std::size_t at(int y, int x) { return static_cast<std::size_t>(y) * N + static_cast<std::size_t>(x); }

Field start()
{
    Field t(static_cast<std::size_t>(N) * N, 300.0f);
    for (int y = N / 4; y < N / 2; y++)
        for (int x = N / 3; x < N / 2; x++)
            t[at(y, x)] = 900.0f + static_cast<float>(x);
    return t;
}

void step(Field &t)
{
    const Field before = t;
    for (int y = 1; y < N - 1; y++)
        for (int x = 1; x < N - 1; x++)
            t[at(y, x)] += 0.2f * (before[at(y, x - 1)] + before[at(y, x + 1)] + before[at(y - 1, x)] +
                                   before[at(y + 1, x)] - 4.0f * before[at(y, x)]);
}

void save(const Field &t)
{
    const gridz::Frame frame = gridz::compress(t, {N, N});
    std::ofstream file(FILE_NAME, std::ios::binary);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    file.write(reinterpret_cast<const char *>(frame.data()), static_cast<std::streamsize>(frame.size()));
    std::printf("checkpoint: %zu of %zu bytes\n", frame.size(), t.size() * sizeof(float));
}

Field load()
{
    std::ifstream file(FILE_NAME, std::ios::binary);
    const gridz::Frame frame{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return gridz::decompress<float>(frame, {}, N * N);
}

} // namespace

int main(int argc, char **argv)
try {
    const bool is_restart = argc > 1 && std::string(argv[1]) == "restart";
    Field t = is_restart ? load() : start();
    for (int i = is_restart ? CHECKPOINT : 0; i < STEPS; i++) {
        step(t);
        if (i + 1 == CHECKPOINT)
            save(t);
    }
    std::uint64_t sum = 0;
    for (const float value : t) {
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        sum = sum * 31 + bits;
    }
    std::printf("step %d: %016llx\n", STEPS, static_cast<unsigned long long>(sum));
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "heat_cpp: %s\n", error.what());
    return 1;
}
