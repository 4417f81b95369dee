// A simulation that writes its state to ADIOS2 through gridz, several blocks in each step, and a
// reader that reads a part of it.
//
//     heat_adios2 write [CONFIG.xml]     10 steps to heat.bp; the compression is set by the file, or else
//                                        by the program
//     heat_adios2 read                   a window across the blocks of each step, and the whole last step
//
// With MPI (compiled with -DADIOS2_USE_MPI) each rank has a slab of rows, in two blocks. For a
// reader, the file is the same.
#include <adios2.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#if ADIOS2_USE_MPI
#include <mpi.h>
#endif

namespace {

constexpr std::size_t NX = 512, ROWS = 512, STEPS = 10, BLOCKS = 2; // blocks of each rank
constexpr double BOUND = 1e-3;

struct Ranks {
    std::size_t rank = 0, count = 1;
};

// The simulated field: a hot spot that spreads. It is given by a formula, so that the reader can
// verify the values.
double temperature(std::size_t step, std::size_t y, std::size_t x)
{
    const double t = 1.0 + static_cast<double>(step), dy = static_cast<double>(y) / ROWS - 0.5,
                 dx = static_cast<double>(x) / NX - 0.4;
    return 300.0 + 600.0 / t * std::exp(-40.0 / t * (dx * dx + dy * dy));
}

int material(std::size_t y, std::size_t x) { return static_cast<int>(y / 100 * 10 + x / 100); }

void define_operations(adios2::ADIOS &adios, adios2::Variable<double> &field, adios2::Variable<int> &materials)
{
    // The field is compressed within a bound, the material numbers exactly. Both operators have
    // type "plugin" and use the same library.
    adios2::Operator bounded = adios.DefineOperator(
        "bounded", "plugin",
        {{"PluginName", "gridz"}, {"PluginLibrary", "gridz_adios2"}, {"codec", "quant,abs=1e-3,level=2"}});
    adios2::Operator exact = adios.DefineOperator(
        "exact", "plugin", {{"PluginName", "gridz"}, {"PluginLibrary", "gridz_adios2"}, {"codec", "lorenzo"}});
    field.AddOperation(bounded);
    materials.AddOperation(exact);
}

void write(adios2::ADIOS &adios, Ranks ranks, bool is_configured)
{
    adios2::IO io = adios.DeclareIO("heat");
    if (!is_configured)
        io.SetEngine("BP5");
    const std::size_t ny = ROWS * ranks.count;
    auto field = io.DefineVariable<double>("temperature", {ny, NX}, {0, 0}, {1, NX});
    auto materials = io.DefineVariable<int>("material", {ny, NX}, {0, 0}, {1, NX});
    if (!is_configured)
        define_operations(adios, field, materials);

    adios2::Engine engine = io.Open("heat.bp", adios2::Mode::Write);
    constexpr std::size_t block_rows = ROWS / BLOCKS;
    std::vector<double> values(block_rows * NX);
    std::vector<int> numbers(block_rows * NX);
    for (std::size_t step = 0; step < STEPS; step++) {
        engine.BeginStep();
        for (std::size_t block = 0; block < BLOCKS; block++) {
            const std::size_t first = ranks.rank * ROWS + block * block_rows;
            for (std::size_t y = 0; y < block_rows; y++)
                for (std::size_t x = 0; x < NX; x++) {
                    values[y * NX + x] = temperature(step, (first + y) % ROWS, x);
                    numbers[y * NX + x] = material((first + y) % ROWS, x);
                }
            field.SetSelection({{first, 0}, {block_rows, NX}});
            engine.Put(field, values.data(), adios2::Mode::Sync);
            if (step == 0) { // it does not change
                materials.SetSelection({{first, 0}, {block_rows, NX}});
                engine.Put(materials, numbers.data(), adios2::Mode::Sync);
            }
        }
        engine.EndStep();
    }
    engine.Close();
}

void check(const std::vector<double> &found, std::size_t step, std::size_t y0, std::size_t x0, std::size_t nx)
{
    for (std::size_t i = 0; i < found.size(); i++) {
        const double wanted = temperature(step, (y0 + i / nx) % ROWS, x0 + i % nx);
        if (!(std::fabs(found[i] - wanted) <= BOUND))
            throw std::runtime_error("step " + std::to_string(step) + ": an element is off by " +
                                     std::to_string(found[i] - wanted));
    }
}

void read(adios2::ADIOS &adios)
{
    // The reader names no operator: blocks describe themselves.
    adios2::IO io = adios.DeclareIO("reader");
    adios2::Engine engine = io.Open("heat.bp", adios2::Mode::Read);
    std::vector<double> part, whole;
    std::vector<int> numbers;
    std::size_t step = 0, ny = 0;
    for (; engine.BeginStep() == adios2::StepStatus::OK; step++) {
        auto field = io.InquireVariable<double>("temperature");
        ny = field.Shape()[0];
        // Rows from two blocks, and some columns.
        const std::size_t y0 = ROWS / BLOCKS - 20, x0 = 100, nx = 50;
        field.SetSelection({{y0, x0}, {40, nx}});
        engine.Get(field, part, adios2::Mode::Sync);
        check(part, step, y0, x0, nx);
        if (step == STEPS - 1) {
            field.SetSelection({{0, 0}, {ny, NX}});
            engine.Get(field, whole, adios2::Mode::Sync);
            check(whole, step, 0, 0, NX);
        }
        if (step == 0) {
            auto materials = io.InquireVariable<int>("material");
            engine.Get(materials, numbers, adios2::Mode::Sync);
            for (std::size_t i = 0; i < numbers.size(); i++)
                if (numbers[i] != material(i / NX % ROWS, i % NX))
                    throw std::runtime_error("the material has changed");
        }
        engine.EndStep();
    }
    engine.Close();
    if (step != STEPS)
        throw std::runtime_error("heat.bp has " + std::to_string(step) + " steps");
    std::printf("%zu steps of %zu x %zu: every element is within %g\n", step, ny, NX, BOUND);
}

int run(int argc, char **argv, adios2::ADIOS &adios, Ranks ranks)
{
    if (argc > 1 && std::strcmp(argv[1], "write") == 0)
        write(adios, ranks, argc > 2);
    else if (argc > 1 && std::strcmp(argv[1], "read") == 0)
        read(adios);
    else
        throw std::runtime_error("heat_adios2 write [CONFIG.xml] | read");
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string config = argc > 2 ? argv[2] : "";
    int status = 1;
#if ADIOS2_USE_MPI
    MPI_Init(&argc, &argv);
    int rank = 0, count = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    const Ranks ranks{static_cast<std::size_t>(rank), static_cast<std::size_t>(count)};
#else
    const Ranks ranks;
#endif
    try {
#if ADIOS2_USE_MPI
        adios2::ADIOS adios(config, MPI_COMM_WORLD);
#else
        adios2::ADIOS adios(config);
#endif
        status = run(argc, argv, adios, ranks);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
#if ADIOS2_USE_MPI
        MPI_Abort(MPI_COMM_WORLD, 1); // other ranks would wait for this one
#endif
    }
#if ADIOS2_USE_MPI
    MPI_Finalize();
#endif
    return status;
}
