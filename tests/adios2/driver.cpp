// Tests the plugin without ADIOS2: this program is its host, and passes buffers of exactly the
// required size, under AddressSanitizer. It needs only the headers of ADIOS2, with which the plugin
// was also compiled.
//
//     driver LIBRARY REQUEST…     parameters separated by semicolons, such as "codec=quant;abs=1e-3"
#include <dlfcn.h>

#include <adios2/common/ADIOSConfig.h>
#ifdef ANOTHER_VERSION
#undef ADIOS2_VERSION_STR
#define ADIOS2_VERSION_STR "2.11.1"
#endif
#if __has_include(<adios2/plugin/PluginOperatorInterface.h>)
#include <adios2/plugin/PluginOperatorInterface.h>
#else
#include <adios2/operator/plugin/PluginOperatorInterface.h>
#endif

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using adios2::DataType;
using adios2::Dims;
using adios2::Params;
using adios2::plugin::PluginOperatorInterface;

#define CHECK(condition)                                                                                                           \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                   \
            std::exit(1);                                                                                                          \
        }                                                                                                                          \
    } while (false)

// The plugin recognizes a host with a statically linked ADIOS2 by this text.
const char *version = ADIOS2_VERSION_STR;

PluginOperatorInterface *(*create)(const Params &);
void (*destroy)(PluginOperatorInterface *);

struct Destroy {
    void operator()(PluginOperatorInterface *made) const { destroy(made); }
};
using Operator = std::unique_ptr<PluginOperatorInterface, Destroy>;

Operator make(const std::string &request)
{
    Params parameters{{"pluginname", "gridz"}, {"pluginlibrary", "gridz_adios2"}};
    std::size_t begin = 0;
    while (begin < request.size()) {
        const std::size_t end = std::min(request.find(';', begin), request.size()), equals = request.find('=', begin);
        CHECK(equals < end);
        parameters[request.substr(begin, equals - begin)] = request.substr(equals + 1, end - equals - 1);
        begin = end + 1;
    }
    return Operator(create(parameters));
}

struct Type {
    DataType type;
    std::size_t size;
    int parts; // numbers of an element: 0 for integers
    bool is_double;
};

const Type TYPES[] = {
    {DataType::Char, 1, 0, false},          {DataType::Int8, 1, 0, false},         {DataType::Int16, 2, 0, false},
    {DataType::Int32, 4, 0, false},         {DataType::Int64, 8, 0, false},        {DataType::UInt8, 1, 0, false},
    {DataType::UInt16, 2, 0, false},        {DataType::UInt32, 4, 0, false},       {DataType::UInt64, 8, 0, false},
    {DataType::Float, 4, 1, false},         {DataType::Double, 8, 1, true},        {DataType::FloatComplex, 8, 2, false},
    {DataType::DoubleComplex, 16, 2, true}, {DataType::LongDouble, 16, 0, false},
};

// The last shape has more axes than gridz supports.
const std::vector<Dims> SHAPES = {
    {},          {1},          {0},       {1000},          {3, 0, 5},           {30, 41},       {9, 10, 11},
    {5, 6, 7, 8}, {2, 3, 4, 5, 6}, {2, 3, 2, 3, 2, 3}, {70000}, Dims(35, 1), {2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5},
};

std::size_t count(const Dims &shape)
{
    std::size_t n = 1;
    for (const std::size_t extent : shape)
        n *= extent;
    return n;
}

using Bytes = std::unique_ptr<char[]>; // on the heap, so that AddressSanitizer detects overruns

Bytes elements(const Type &type, std::size_t n, bool is_noise)
{
    Bytes bytes(new char[n * type.size]);
    std::mt19937_64 random(n);
    if (type.parts == 0 || is_noise) {
        for (std::size_t i = 0; i < n * type.size; i++)
            bytes[i] = static_cast<char>(is_noise ? random() : i % type.size == 0 ? i / type.size / 7 : 0);
    }
    if (type.parts == 0)
        return bytes;
    for (std::size_t i = 0; i < n * static_cast<std::size_t>(type.parts); i++) {
        // Noise in all bits of the mantissa and a few of the exponent: a bound can be kept, and
        // the array is incompressible.
        const double value = is_noise ? std::ldexp(static_cast<double>(random() >> 11) + 1, static_cast<int>(random() % 40) - 60)
                                      : std::sin(static_cast<double>(i) / 50);
        const float narrow = static_cast<float>(value);
        if (type.is_double)
            std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
        else
            std::memcpy(&bytes[i * sizeof narrow], &narrow, sizeof narrow);
    }
    return bytes;
}

// The frame in a buffer of exactly its size; null if the codec refuses such elements, with an error
// text.
struct Frame {
    Bytes bytes;
    std::size_t size = 0;
};

Frame compress(PluginOperatorInterface &op, const Type &type, const Dims &shape, const char *data, bool asks = true)
{
    const std::size_t n = count(shape);
    // Without GetEstimatedSize there are 128 more bytes, minus ADIOS2's own header, which contains
    // the names "gridz" and "gridz_adios2".
    const std::size_t room = asks ? op.GetEstimatedSize(n, type.size, shape.size(), shape.data()) : n * type.size + 128 - 49;
    CHECK(room >= n * type.size);
    Bytes out(new char[room]);
    Frame frame;
    try {
        frame.size = op.Operate(data, Dims(shape.size(), 0), shape, type.type, out.get());
    } catch (const std::exception &error) {
        CHECK(std::strlen(error.what()) > 20);
        return frame;
    }
    CHECK(frame.size > 0 && frame.size <= room);
    frame.bytes.reset(new char[frame.size]);
    std::memcpy(frame.bytes.get(), out.get(), frame.size);
    return frame;
}

void round_trips(const std::string &request)
{
    const bool is_lossless = request.find("abs") == std::string::npos && request.find("rel") == std::string::npos &&
                             request.find("rate") == std::string::npos && request.find("rms") == std::string::npos &&
                             request.find("precision") == std::string::npos && request.find("expert") == std::string::npos;
    const Operator writer = make(request), reader = make("");
    std::size_t done = 0;
    for (const Type &type : TYPES)
        for (const Dims &shape : SHAPES)
            for (const bool is_noise : {false, true}) {
                const std::size_t n = count(shape);
                const Bytes data = elements(type, n, is_noise);
                CHECK(writer->IsDataTypeValid(type.type));
                const Frame frame = compress(*writer, type, shape, data.get());
                if (!frame.bytes) {
                    CHECK(!is_lossless);
                    continue;
                }
                // An estimate holds for one block. Without one, the operator has less room, and
                // stores blocks that do not fit.
                const Frame other = compress(*writer, type, shape, data.get(), false);
                CHECK(other.bytes);
                Bytes back(new char[n * type.size]);
                reader->InverseOperate(other.bytes.get(), other.size, back.get());
                CHECK(!is_lossless || std::memcmp(back.get(), data.get(), n * type.size) == 0);
                const std::size_t size = reader->InverseOperate(frame.bytes.get(), frame.size, back.get());
                CHECK(size == std::max<std::size_t>(n * type.size, 1));
                CHECK(!is_lossless || std::memcmp(back.get(), data.get(), n * type.size) == 0);
                done++;
            }
    CHECK(done > 0);
}

void fails(const char *wanted, PluginOperatorInterface &op, const char *in, std::size_t size, char *out)
{
    try {
        op.InverseOperate(in, size, out);
    } catch (const std::exception &error) {
        CHECK(std::strlen(error.what()) > 20);
        return;
    }
    std::fprintf(stderr, "%s: no error\n", wanted);
    std::exit(1);
}

// Damages each byte of a frame in turn, truncates the frame to each length, and appends bytes.
void damage(const std::string &request)
{
    const Operator op = make(request);
    const Type &type = TYPES[10];
    const Dims shape = {6, 9, 10};
    const Bytes data = elements(type, count(shape), false);
    const Frame frame = compress(*op, type, shape, data.get());
    CHECK(frame.bytes);
    const std::size_t n_bytes = count(shape) * type.size;
    Bytes back(new char[n_bytes]);
    for (std::size_t i = 0; i < frame.size; i++) {
        const char kept = frame.bytes[i];
        frame.bytes[i] = static_cast<char>(kept ^ (1 << i % 8));
        fails("a damaged byte", *op, frame.bytes.get(), frame.size, back.get());
        frame.bytes[i] = kept;
        Bytes cut(new char[i]);
        std::memcpy(cut.get(), frame.bytes.get(), i);
        fails("a frame cut short", *op, cut.get(), i, back.get());
    }
    Bytes longer(new char[frame.size + 1]);
    std::memcpy(longer.get(), frame.bytes.get(), frame.size);
    longer[frame.size] = 0;
    fails("a byte more", *op, longer.get(), frame.size + 1, back.get());
    CHECK(op->InverseOperate(frame.bytes.get(), frame.size, back.get()) == n_bytes);
}

void refuses(const std::string &request, const char *wanted)
{
    const Operator op = make(request); // no error here, where ADIOS2 would abort
    const Type &type = TYPES[10];
    const Dims shape = {100};
    const Bytes data = elements(type, 100, false);
    for (int i = 0; i < 2; i++) {
        const std::size_t room = op->GetEstimatedSize(100, type.size, 1, shape.data());
        Bytes out(new char[room]);
        try {
            op->Operate(data.get(), {0}, shape, type.type, out.get());
        } catch (const std::exception &error) {
            if (std::strstr(error.what(), wanted) != nullptr)
                continue;
            std::fprintf(stderr, "%s: \"%s\" does not say \"%s\"\n", request.c_str(), error.what(), wanted);
            std::exit(1);
        }
        std::fprintf(stderr, "%s: no error\n", request.c_str());
        std::exit(1);
    }
}

void bad_parameters()
{
    refuses("codec=nothing", "nothing");
    refuses("codec=quant;abs=-1", "above 0");
    refuses("codec=quant;abs=much", "abs");
    refuses("codec=quant", "quant");
    refuses("codec=lorenzo;level=9", "level");
    refuses("codec=lorenzo;colour=red", "colour");
    refuses("level=2", "codec");
    refuses("codec=quant;gridz=quant,abs=1", "remove one");
    refuses("codec=lorenzo;threads=0x4", "threads");
    refuses("codec=lorenzo;threads=-1", "threads");
    refuses("codec=lorenzo;threads=2000", "threads");
    refuses("codec=lorenzo;backend=tpu", "backend");
    refuses("codec=lorenzo;backend=cpu;device=0", "device");
    refuses("codec=lorenzo;device=first", "device");
    refuses("codec=lorenzo;order=fortran", "order");
}

// Types that are not numbers: IsDataTypeValid rejects them, and so does Operate, for an ADIOS2 that
// does not call it.
void other_types()
{
    const Operator op = make("");
    for (const DataType type : {DataType::None, DataType::String, DataType::Struct}) {
        CHECK(!op->IsDataTypeValid(type));
        char data[8] = {}, out[256];
        bool is_refused = false;
        try {
            op->Operate(data, {0}, {1}, type, out);
        } catch (const std::exception &) {
            is_refused = true;
        }
        CHECK(is_refused);
    }
}

// The bytes do not depend on the number of threads. If the first axis varies fastest, order=column
// gives smaller blocks.
void same_bytes_and_order()
{
    const Type &type = TYPES[9];
    const Dims shape = {256, 100, 3};
    Bytes data(new char[count(shape) * type.size]);
    for (std::size_t i = 0; i < count(shape); i++) {
        const std::size_t x = i % 256, y = i / 256 % 100, z = i / 25600;
        const float value = static_cast<float>(std::sin(static_cast<double>(x) / 40) + static_cast<double>(y * z) / 100);
        std::memcpy(&data[i * type.size], &value, type.size);
    }
    const Frame one = compress(*make("codec=quant;abs=1e-4;threads=1"), type, shape, data.get());
    const Frame two = compress(*make("gridz=quant,abs=1e-4;threads=3;backend=cpu"), type, shape, data.get());
    CHECK(one.size == two.size && std::memcmp(one.bytes.get(), two.bytes.get(), one.size) == 0);
    const Frame column = compress(*make("codec=quant;abs=1e-4;order=column"), type, shape, data.get());
    const Frame reversed = compress(*make("codec=quant;abs=1e-4"), type, {3, 100, 256}, data.get());
    CHECK(column.size == reversed.size && std::memcmp(column.bytes.get(), reversed.bytes.get(), column.size) == 0);
    CHECK(column.size < one.size);
}

// Several threads use one operator, for writing and reading.
void threads()
{
    const Operator op = make("codec=lorenzo");
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++)
        all.emplace_back([&op] {
            for (int i = 0; i < 20; i++) {
                const Dims shape = {100, 101};
                const Bytes data = elements(TYPES[10], count(shape), i % 2 == 0);
                const Frame frame = compress(*op, TYPES[10], shape, data.get());
                Bytes back(new char[count(shape) * 8]);
                op->InverseOperate(frame.bytes.get(), frame.size, back.get());
                CHECK(std::memcmp(back.get(), data.get(), count(shape) * 8) == 0);
            }
        });
    for (std::thread &thread : all)
        thread.join();
}

} // namespace

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    create = reinterpret_cast<decltype(create)>(dlsym(library, "OperatorCreate"));
    destroy = reinterpret_cast<decltype(destroy)>(dlsym(library, "OperatorDestroy"));
    CHECK(create != nullptr && destroy != nullptr);
    CHECK(dlsym(library, "EngineCreate") == nullptr); // ADIOS2 would take it for an engine
    for (int i = 2; i < argc; i++) {
        round_trips(argv[i]);
        damage(argv[i]);
    }
    bad_parameters();
    other_types();
    same_bytes_and_order();
    threads();
    std::printf("the plugin alone: passed, for ADIOS2 %s\n", version);
    return 0;
}
