// Tests and times the ndzip kernels alone, without the crate.
//
//   kernels vectors DIR            all vectors of DIR, both ways
//   kernels random SEED N          N random shapes, alignments, batches and bit patterns against the CPU
//   kernels hostile SEED N         N damaged payloads: refused if and only if the format says so
//   kernels bench FILE TYPE EXTENTS [CHUNKS] [reference]
//                                  times, verified by a round trip and, if asked, against the CPU
//
// Every output buffer lies between guard zones and is poisoned before each launch. Exit status 0 if all is well.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "../../../kernels/ndzip/ndzip.cu"
#include "reference.h"

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        const cudaError_t error = call;                                                               \
        if (error != cudaSuccess) {                                                                   \
            std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));     \
            std::exit(2);                                                                             \
        }                                                                                             \
    } while (0)

using reference::Extents;

struct Kernel {
    const void* function;
    LaunchInfo info;
};

struct Codec {
    Kernel compress, decompress;
};

template <typename Symbol>
Kernel load(const void* function, const Symbol& symbol) {
    Kernel kernel{function, {}};
    CHECK(cudaMemcpyFromSymbol(&kernel.info, symbol, sizeof(LaunchInfo)));
    CHECK(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.info.shared_bytes));
    return kernel;
}

#define LOAD(name) load(reinterpret_cast<const void*>(name), name##_info)
#define CODEC(type, rank) Codec{LOAD(ndzip_compress_##type##_##rank##d), LOAD(ndzip_decompress_##type##_##rank##d)}

const Codec& codec(bool is_f64, int rank) {
    static const Codec codecs[2][3] = {{CODEC(f32, 1), CODEC(f32, 2), CODEC(f32, 3)},
                                       {CODEC(f64, 1), CODEC(f64, 2), CODEC(f64, 3)}};
    return codecs[is_f64][rank - 1];
}

// A kernel's grid and scratch for a launch, as README.md says.
struct Launch {
    uint64_t tiles, grid, scratch_bytes;
    Launch(const Kernel& kernel, const reference::Grid& layout, uint32_t n_chunks) {
        const LaunchInfo& info = kernel.info;
        const uint64_t per_tile = info.blocks_per_tile, elements = per_tile * 4096;
        tiles = std::max<uint64_t>(1, (layout.n_blocks + per_tile - 1) / per_tile + (layout.n_border() + elements - 1) / elements);
        grid = tiles * n_chunks;
        if (info.persistent) {
            int per_sm, n_sms;
            CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel.function, info.threads, info.shared_bytes));
            CHECK(cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, 0));
            grid = std::min<uint64_t>(grid, per_sm * n_sms);
        }
        scratch_bytes = info.scratch_fixed_bytes + n_chunks * (info.scratch_bytes_per_chunk + tiles * info.scratch_bytes_per_tile);
    }
};

// Device memory of `bytes` bytes from `offset` on behind a multiple of 256, between guard zones.
class Buffer {
public:
    explicit Buffer(uint64_t bytes, uint64_t offset = 0) : bytes_(bytes), offset_(offset) {
        CHECK(cudaMalloc(&memory_, bytes + offset + 2 * kGuard));
        poison();
    }
    ~Buffer() { cudaFree(memory_); }
    Buffer(const Buffer&) = delete;

    template <typename T = void>
    T* get() const {
        return reinterpret_cast<T*>(memory_ + kGuard + offset_);
    }
    void poison() { CHECK(cudaMemset(memory_, 0xa5, bytes_ + offset_ + 2 * kGuard)); }
    void put(const void* from, uint64_t n, uint64_t at = 0) { CHECK(cudaMemcpy(get<char>() + at, from, n, cudaMemcpyHostToDevice)); }
    std::vector<uint8_t> read(uint64_t n, uint64_t at = 0) const {
        std::vector<uint8_t> host(n);
        CHECK(cudaMemcpy(host.data(), get<char>() + at, n, cudaMemcpyDeviceToHost));
        return host;
    }
    // Whether bytes [from, to) and the guard zones still hold the poison, of which [0, from) may not.
    bool untouched(uint64_t from, uint64_t to) const {
        const auto poisoned = [](const std::vector<uint8_t>& v) { return std::all_of(v.begin(), v.end(), [](uint8_t b) { return b == 0xa5; }); };
        std::vector<uint8_t> before(kGuard + offset_);
        CHECK(cudaMemcpy(before.data(), memory_, before.size(), cudaMemcpyDeviceToHost));
        return poisoned(before) && poisoned(read(to - from, from)) && poisoned(read(kGuard, bytes_));
    }
    uint64_t bytes() const { return bytes_; }

private:
    static constexpr uint64_t kGuard = 4096;
    char* memory_ = nullptr;
    uint64_t bytes_, offset_;
};

template <typename W>
uint64_t payload_bound(const reference::Grid& grid) {
    const uint64_t table = (4 * grid.n_blocks + sizeof(W) - 1) / sizeof(W) * sizeof(W);
    return table + (grid.n_blocks * (4096 + 4096 / (8 * sizeof(W))) + grid.n_border()) * sizeof(W);
}

constexpr uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// Chunks of one shape on the device, and both directions.
template <typename W>
struct Batch {
    const int rank;
    const Extents extents;
    const reference::Grid grid;
    const uint32_t n_chunks;
    const uint64_t raw_bytes, raw_stride, bound, slot;
    const Codec& kernels;
    const Launch compress_launch, decompress_launch;
    Buffer raw, packed, back, results, sizes, scratch;

    // Arrays begin `offset` bytes behind a multiple of 256, with `gap` bytes between them.
    Batch(int rank, Extents extents, uint32_t n_chunks, uint64_t offset = 0, uint64_t gap = 0)
        : rank(rank), extents(extents), grid(rank, extents), n_chunks(n_chunks), raw_bytes(grid.n_elements * sizeof(W)),
          raw_stride(raw_bytes + gap), bound(payload_bound<W>(grid)), slot(round_up(bound, 16)),
          kernels(codec(sizeof(W) == 8, rank)), compress_launch(kernels.compress, grid, n_chunks),
          decompress_launch(kernels.decompress, grid, n_chunks), raw(n_chunks * raw_stride, offset), packed(n_chunks * slot),
          back(n_chunks * raw_stride, offset), results(n_chunks * sizeof(ChunkResult)), sizes(n_chunks * 8),
          scratch(std::max(compress_launch.scratch_bytes, decompress_launch.scratch_bytes)) {}

    void compress(cudaStream_t stream = 0) {
        NdzipCompressArgs args{raw.get(), raw_stride, packed.get(), slot, results.get<ChunkResult>(), scratch.get(),
                               {extents[0], extents[1], extents[2]}, n_chunks, 0};
        launch(kernels.compress, compress_launch, &args, stream);
    }
    void decompress(cudaStream_t stream = 0) {
        NdzipDecompressArgs args{packed.get(), slot, sizes.get<u64>(), back.get(), raw_stride, results.get<ChunkResult>(),
                                 scratch.get(), {extents[0], extents[1], extents[2]}, n_chunks, 0};
        launch(kernels.decompress, decompress_launch, &args, stream);
    }
    std::vector<ChunkResult> read_results() const {
        CHECK(cudaDeviceSynchronize());
        std::vector<ChunkResult> host(n_chunks);
        CHECK(cudaMemcpy(host.data(), results.get(), n_chunks * sizeof(ChunkResult), cudaMemcpyDeviceToHost));
        return host;
    }

private:
    void launch(const Kernel& kernel, const Launch& launch, void* args, cudaStream_t stream) {
        CHECK(cudaMemsetAsync(scratch.get(), 0, launch.scratch_bytes, stream));
        CHECK(cudaLaunchKernel(kernel.function, dim3(launch.grid), dim3(kernel.info.threads), &args, kernel.info.shared_bytes, stream));
    }
};

int n_failed = 0;
#define EXPECT(condition, ...)                                  \
    do {                                                        \
        if (!(condition)) {                                     \
            if (++n_failed <= 20) {                             \
                std::printf("FAILED %s: ", #condition);         \
                std::printf(__VA_ARGS__);                       \
                std::printf("\n");                              \
            }                                                   \
        }                                                       \
    } while (0)

// Both ways, every chunk against its expected payload.
template <typename W>
void check(Batch<W>& batch, const std::vector<std::vector<uint8_t>>& raw, const std::vector<std::vector<uint8_t>>& expected,
           const char* name) {
    for (uint32_t c = 0; c < batch.n_chunks; ++c) batch.raw.put(raw[c].data(), raw[c].size(), c * batch.raw_stride);
    batch.packed.poison(), batch.back.poison(), batch.results.poison();
    batch.compress();
    std::vector<ChunkResult> results = batch.read_results();
    std::vector<uint64_t> sizes;
    for (uint32_t c = 0; c < batch.n_chunks; ++c) {
        const reference::Sums sums = reference::checksum(expected[c]);
        EXPECT(results[c].n_bytes == expected[c].size(), "%s chunk %u: %llu, not %zu bytes", name, c, (unsigned long long)results[c].n_bytes,
               expected[c].size());
        EXPECT(results[c].sum_a == sums.a && results[c].sum_b == sums.b, "%s chunk %u: compress sums", name, c);
        EXPECT(results[c].status == kOk && results[c].reserved == 0, "%s chunk %u: compress status", name, c);
        EXPECT(batch.packed.read(expected[c].size(), c * batch.slot) == expected[c], "%s chunk %u: payload", name, c);
        EXPECT(batch.packed.untouched(c * batch.slot + expected[c].size(), (c + 1) * batch.slot), "%s chunk %u: written past the payload", name, c);
        sizes.push_back(expected[c].size());
        batch.packed.put(expected[c].data(), expected[c].size(), c * batch.slot);
    }
    batch.sizes.put(sizes.data(), 8 * sizes.size());
    batch.results.poison();
    batch.decompress();
    results = batch.read_results();
    for (uint32_t c = 0; c < batch.n_chunks; ++c) {
        const reference::Sums sums = reference::checksum(expected[c]);
        EXPECT(results[c].status == kOk && results[c].n_bytes == expected[c].size(), "%s chunk %u: decompress status %u", name, c, results[c].status);
        EXPECT(results[c].sum_a == sums.a && results[c].sum_b == sums.b, "%s chunk %u: decompress sums", name, c);
        EXPECT(batch.back.read(batch.raw_bytes, c * batch.raw_stride) == raw[c], "%s chunk %u: elements", name, c);
        EXPECT(batch.back.untouched(c * batch.raw_stride + batch.raw_bytes, (c + 1) * batch.raw_stride), "%s chunk %u: written past the array", name, c);
    }
}

std::vector<uint8_t> read_file(const std::string& path, uint64_t max_bytes = ~0ull) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) {
        std::printf("cannot read %s\n", path.c_str());
        std::exit(2);
    }
    std::vector<uint8_t> bytes(std::min<uint64_t>(file.tellg(), max_bytes));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
    return bytes;
}

Extents parse_extents(const std::string& text, int& rank) {
    Extents extents = {1, 1, 1};
    rank = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('x', at), text.size());
        extents = {extents[1], extents[2], std::stoull(text.substr(at, end - at))};
        ++rank;
        at = end + 1;
    }
    return extents;
}

template <typename W>
void run_vector(const std::string& name, int rank, Extents extents, const std::vector<uint8_t>& raw, std::vector<uint8_t> stream) {
    const reference::Grid grid(rank, extents);
    // What the reference's pad holds is not specified.
    if (sizeof(W) == 8 && grid.n_blocks % 2 == 1) std::memset(&stream[4 * grid.n_blocks], 0, 4);
    EXPECT(reference::encode(reinterpret_cast<const W*>(raw.data()), rank, extents) == stream, "%s: the CPU reference", name.c_str());
    Batch<W> batch(rank, extents, 1);
    check(batch, {raw}, {stream}, name.c_str());
}

void run_vectors(const std::string& dir) {
    int n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
        const std::string name = entry.path().stem().string();
        if (entry.path().extension() != ".raw") continue;
        // f32_3d_17x18x19_smooth, f64_1d_n4096_zero
        std::string text = name.substr(7, name.find('_', 7) - 7);
        if (text[0] == 'n') text.erase(0, 1);
        int rank;
        const Extents extents = parse_extents(text, rank);
        const auto raw = read_file(entry.path().string()), stream = read_file(dir + "/" + name + ".ndz");
        if (name[1] == '3') {
            run_vector<u32>(name, rank, extents, raw, stream);
        } else {
            run_vector<u64>(name, rank, extents, raw, stream);
        }
        ++n;
    }
    std::printf("vectors: %d, failed checks: %d\n", n, n_failed);
    if (n == 0) n_failed = 1;
}

using Random = std::mt19937_64;
uint64_t below(Random& random, uint64_t n) { return random() % n; }

// Elements of very different compressibility, changing within the array.
template <typename W>
std::vector<uint8_t> random_array(Random& random, uint64_t n) {
    std::vector<W> words(n);
    uint64_t left = 0;
    int kind = 0;
    W value = 0;
    uint32_t shift = 0;
    for (W& word : words) {
        if (left-- == 0) {
            left = below(random, 3) ? below(random, 300) : below(random, 20000);
            kind = below(random, 5);
            shift = below(random, 8 * sizeof(W));
            value = random();
        }
        if (kind == 0) word = random();
        if (kind == 1) word = W(random()) >> shift;
        if (kind == 2) word = value += W(random()) >> shift;
        if (kind == 3) word = value;
        if (kind == 4) word = 0;
    }
    std::vector<uint8_t> bytes(n * sizeof(W));
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return bytes;
}

Extents random_extents(Random& random, int rank, uint64_t max_elements) {
    for (;;) {
        Extents extents = {1, 1, 1};
        const uint64_t scale = rank == 1 ? 200000 : rank == 2 ? 700 : 120;
        for (int k = 3 - rank; k < 3; ++k) {
            extents[k] = below(random, scale >> below(random, 6)) + (below(random, 50) ? 1 : 0);
            // Often multiples of the side or of 16 bytes, or nearly.
            const uint64_t side = reference::sides(rank)[k];
            if (below(random, 2)) extents[k] = round_up(extents[k], below(random, 2) ? side : 4);
        }
        if (extents[0] * extents[1] * extents[2] <= max_elements) return extents;
    }
}

template <typename W>
void run_random_case(Random& random, int number) {
    const int rank = 1 + below(random, 3);
    const uint32_t n_chunks = below(random, 3) ? 1 : 1 + below(random, below(random, 8) ? 5 : 300);
    const Extents extents = random_extents(random, rank, n_chunks > 10 ? 40000 : 1000000);
    const uint64_t offset = sizeof(W) * below(random, 5), gap = below(random, 2) ? 0 : sizeof(W) * below(random, 40);
    Batch<W> batch(rank, extents, n_chunks, offset, gap);
    std::vector<std::vector<uint8_t>> raw, expected;
    for (uint32_t c = 0; c < n_chunks; ++c) {
        raw.push_back(random_array<W>(random, batch.grid.n_elements));
        expected.push_back(reference::encode(reinterpret_cast<const W*>(raw[c].data()), rank, extents));
    }
    char name[160];
    std::snprintf(name, sizeof name, "case %d: f%zu %d-D %llux%llux%llu, %u chunks, offset %llu gap %llu", number, 8 * sizeof(W), rank,
                  (unsigned long long)extents[0], (unsigned long long)extents[1], (unsigned long long)extents[2], n_chunks,
                  (unsigned long long)offset, (unsigned long long)gap);
    check(batch, raw, expected, name);
}

void run_random(uint64_t seed, int n) {
    Random random(seed);
    for (int i = 0; i < n; ++i) {
        if (below(random, 2)) {
            run_random_case<u32>(random, i);
        } else {
            run_random_case<u64>(random, i);
        }
    }
    std::printf("random cases: %d, failed checks: %d\n", n, n_failed);
}

template <typename W>
int run_hostile_case(Random& random) {
    const int rank = 1 + below(random, 3);
    const Extents extents = random_extents(random, rank, 60000);
    Batch<W> batch(rank, extents, 1);
    const auto raw = random_array<W>(random, batch.grid.n_elements);
    auto payload = reference::encode(reinterpret_cast<const W*>(raw.data()), rank, extents);
    const uint64_t table = 4 * batch.grid.n_blocks;
    // Damage to the table, to heads, anywhere; a wrong length; rubbish.
    const int kind = below(random, 6);
    if (payload.size() < 4 || kind == 0) {
        payload.resize(below(random, payload.size() + 1));
    } else if (kind == 1) {
        payload.resize(std::min(payload.size() + below(random, 100), batch.slot));
    } else if (kind == 2 && table) {
        const uint32_t word = below(random, 2) ? random() : below(random, 10000);
        std::memcpy(&payload[4 * below(random, table / 4)], &word, 4);
    } else if (kind == 3) {
        for (uint64_t i = std::min<uint64_t>(payload.size(), below(random, 2) * table); i < payload.size(); ++i) payload[i] = random();
    } else {
        const uint64_t n = kind == 4 ? payload.size() : std::min<uint64_t>(payload.size(), table + 600);
        payload[below(random, n)] ^= 1 << below(random, 8);
    }
    const bool valid = reference::valid<W>(payload, rank, extents);
    batch.packed.put(payload.data(), payload.size());
    const uint64_t size = payload.size();
    batch.sizes.put(&size, 8);
    batch.decompress();
    const ChunkResult result = batch.read_results()[0];
    EXPECT((result.status == kOk) == valid && result.status <= kTruncated, "hostile f%zu %d-D %llux%llux%llu kind %d: status %u, valid %d", 8 * sizeof(W), rank,
           (unsigned long long)extents[0], (unsigned long long)extents[1], (unsigned long long)extents[2], kind, result.status, valid);
    EXPECT(batch.back.untouched(batch.raw_bytes, batch.raw_bytes), "hostile: written outside of the array");
    if (valid) {
        const reference::Sums sums = reference::checksum(payload);
        EXPECT(result.sum_a == sums.a && result.sum_b == sums.b, "hostile: sums");
    }
    return valid;
}

void run_hostile(uint64_t seed, int n) {
    Random random(seed);
    int n_valid = 0;
    for (int i = 0; i < n; ++i) n_valid += below(random, 2) ? run_hostile_case<u32>(random) : run_hostile_case<u64>(random);
    std::printf("hostile cases: %d, of which still valid: %d, failed checks: %d\n", n, n_valid, n_failed);
}

template <typename Body>
double median_ms(Body body) {
    constexpr int kWarmUps = 3, kRuns = 25;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < kWarmUps + kRuns; ++i) {
        CHECK(cudaEventRecord(begin));
        body();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (i >= kWarmUps) times.push_back(ms);
    }
    CHECK(cudaGetLastError());
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

template <typename W>
void bench(const std::string& file, const std::string& text, uint32_t n_chunks, bool with_reference) {
    int rank;
    const Extents extents = parse_extents(text, rank);
    Batch<W> batch(rank, extents, n_chunks);
    const uint64_t total = batch.raw_bytes * n_chunks;
    const auto raw = read_file(file, total);
    if (raw.size() < total) {
        std::printf("%s is too short for %s\n", file.c_str(), text.c_str());
        std::exit(2);
    }
    batch.raw.put(raw.data(), total);
    const double compress_ms = median_ms([&] { batch.compress(); });
    batch.packed.poison();
    batch.compress();
    const std::vector<ChunkResult> compressed = batch.read_results();
    uint64_t packed_bytes = 0;
    std::vector<uint64_t> sizes;
    for (const ChunkResult& result : compressed) sizes.push_back(result.n_bytes), packed_bytes += result.n_bytes;
    batch.sizes.put(sizes.data(), 8 * sizes.size());
    const double decompress_ms = median_ms([&] { batch.decompress(); });
    batch.back.poison();
    batch.decompress();
    const std::vector<ChunkResult> decompressed = batch.read_results();
    for (uint32_t c = 0; c < n_chunks; ++c) {
        EXPECT(compressed[c].status == kOk && decompressed[c].status == kOk, "chunk %u: status", c);
        EXPECT(compressed[c].sum_a == decompressed[c].sum_a && compressed[c].sum_b == decompressed[c].sum_b, "chunk %u: sums", c);
    }
    EXPECT(batch.back.read(total) == raw, "elements after the round trip");
    if (with_reference) {
        for (uint32_t c = 0; c < n_chunks; ++c) {
            const auto expected = reference::encode(reinterpret_cast<const W*>(raw.data() + c * batch.raw_bytes), rank, extents);
            const reference::Sums sums = reference::checksum(expected);
            EXPECT(batch.packed.read(sizes[c], c * batch.slot) == expected, "chunk %u: payload", c);
            EXPECT(sums.a == compressed[c].sum_a && sums.b == compressed[c].sum_b, "chunk %u: checksum", c);
        }
    }
    std::printf("%-14s f%zu %-16s x%-5u ratio %.4f  compress %7.1f GB/s %8.1f us  decompress %7.1f GB/s %8.1f us%s\n",
                std::filesystem::path(file).filename().c_str(), 8 * sizeof(W), text.c_str(), n_chunks, double(packed_bytes) / total,
                total / compress_ms / 1e6, compress_ms * 1e3, total / decompress_ms / 1e6, decompress_ms * 1e3,
                n_failed ? "  FAILED" : with_reference ? "  = CPU" : "");
}

int main(int argc, char** argv) {
    const std::vector<std::string> args(argv + 1, argv + argc);
    const std::string mode = args.empty() ? "" : args[0];
    if (mode == "vectors" && args.size() == 2) {
        run_vectors(args[1]);
    } else if (mode == "random" && args.size() == 3) {
        run_random(std::stoull(args[1]), std::stoi(args[2]));
    } else if (mode == "hostile" && args.size() == 3) {
        run_hostile(std::stoull(args[1]), std::stoi(args[2]));
    } else if (mode == "bench" && args.size() >= 4) {
        const uint32_t n_chunks = args.size() > 4 ? std::stoul(args[4]) : 1;
        const bool with_reference = args.size() > 5 && args[5] == "reference";
        args[2] == "f32" ? bench<u32>(args[1], args[3], n_chunks, with_reference) : bench<u64>(args[1], args[3], n_chunks, with_reference);
    } else {
        std::printf("usage: kernels vectors DIR | random SEED N | hostile SEED N | bench FILE f32|f64 EXTENTS [CHUNKS] [reference]\n");
        return 2;
    }
    CHECK(cudaDeviceSynchronize());
    return n_failed ? 1 : 0;
}
