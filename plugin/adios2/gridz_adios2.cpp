// gridz as an operator of ADIOS2: libgridz_adios2.so, which ADIOS2 loads as a plugin.
//
// Each block of a variable becomes one gridz frame. The frame describes its contents, so a reader
// needs no parameters, and ADIOS2 passes none for reading.
//
// Errors are exceptions. A return value of 0 means to ADIOS2 that the operator did nothing: ADIOS2
// would then take the frame for elements, or the elements for a frame. The constructor does not
// throw for user errors, since ADIOS2 creates operators in places where an exception ends the
// program. The first Operate reports invalid parameters.
//
// ADIOS2 does not pass the size of the destination. BP5 from 2.10 on calls GetEstimatedSize before
// each Operate, on the same thread; the estimate is a true upper bound. All other callers have room
// for the elements and little more, and Operate stays within that. InverseOperate relies on the
// size in the frame's header, after it has verified the header's own checksum.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gridz.hpp>

#include "device.hpp"
#include "host.hpp"
#include "interface.hpp"
#include "request.hpp"

namespace gridz_adios2 {
namespace {

using adios2::DataType;
using adios2::Dims;

// True if the process has a stderr when ADIOS2 loads this plugin. Without one, descriptor 2 becomes
// the next file that is opened, possibly one of ADIOS2's own.
const bool has_stderr = fcntl(STDERR_FILENO, F_GETFD) != -1;

struct Element {
    gridz_dtype dtype;
    std::uint32_t size;
};

std::optional<Element> element_of(DataType type)
{
    switch (type) {
    case DataType::Char:
    case DataType::Int8: return Element{GRIDZ_DTYPE_I8, 1};
    case DataType::Int16: return Element{GRIDZ_DTYPE_I16, 2};
    case DataType::Int32: return Element{GRIDZ_DTYPE_I32, 4};
    case DataType::Int64: return Element{GRIDZ_DTYPE_I64, 8};
    case DataType::UInt8: return Element{GRIDZ_DTYPE_U8, 1};
    case DataType::UInt16: return Element{GRIDZ_DTYPE_U16, 2};
    case DataType::UInt32: return Element{GRIDZ_DTYPE_U32, 4};
    case DataType::UInt64: return Element{GRIDZ_DTYPE_U64, 8};
    case DataType::Float: return Element{GRIDZ_DTYPE_F32, 4};
    case DataType::Double: return Element{GRIDZ_DTYPE_F64, 8};
    case DataType::FloatComplex: return Element{GRIDZ_DTYPE_C64, 8};
    case DataType::DoubleComplex: return Element{GRIDZ_DTYPE_C128, 16};
    // No codec interprets long double: lossless codecs store its bytes, lossy codecs refuse it.
    case DataType::LongDouble: return Element{GRIDZ_DTYPE_OPAQUE, sizeof(long double)};
    default: return std::nullopt;
    }
}

// An array as gridz describes it.
class Block {
public:
    Block(Element element, const std::size_t *extents, std::size_t rank, bool is_column_major)
        : extents_(extents, extents + rank)
    {
        if (is_column_major)
            std::reverse(extents_.begin(), extents_.end());
        // gridz supports at most GRIDZ_MAX_RANK axes: merge each extra leading axis into the next
        // one.
        while (extents_.size() > GRIDZ_MAX_RANK) {
            extents_[1] *= extents_[0];
            extents_.erase(extents_.begin());
        }
        array_.struct_size = sizeof array_;
        array_.dtype = element.dtype;
        array_.element_size = element.size;
        array_.rank = static_cast<std::uint32_t>(extents_.size());
        array_.extents = extents_.data();
        bytes_ = element.size;
        for (const std::uint64_t extent : extents_)
            bytes_ *= extent;
    }
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;

    std::size_t bytes() const noexcept { return bytes_; }

    // Computes the upper bound of the compressed size.
    gridz_status find_bound(const gridz_options &options, std::size_t &bound) const
    {
        return gridz_compress_bound(&array_, &options, &bound);
    }

    // Compresses the block; returns the bytes of the frame.
    std::size_t compress(const char *data, char *out, std::size_t capacity, const gridz_options &options) const
    {
        std::size_t size = 0;
        gridz::check(gridz_compress(&array_, data, bytes_, out, capacity, &size, &options));
        return size;
    }

private:
    std::vector<std::uint64_t> extents_;
    gridz_array array_{};
    std::size_t bytes_ = 0;
};

class GridzOperator : public adios2::plugin::PluginOperatorInterface {
public:
    explicit GridzOperator(const adios2::Params &parameters) : PluginOperatorInterface(parameters) {}

    std::size_t Operate(const char *data, const Dims &, const Dims &count, const DataType type, char *out) override
    {
        return reporting_failure([&] { return encode(data, count, type, out); });
    }

    std::size_t InverseOperate(const char *in, const std::size_t size, char *out) override
    {
        return reporting_failure([&] { return decode(in, size, out); });
    }

    bool IsDataTypeValid(const DataType type) const override { return element_of(type).has_value(); }

    // ADIOS2 does not pass the element type, so this is the maximum over all types of this size.
    std::size_t GetEstimatedSize(const std::size_t n, const std::size_t element_size, const std::size_t rank,
                                 const std::size_t *extents) const override
    {
        // Operate reports an invalid request, and then writes nothing.
        std::size_t largest = n * element_size;
        try {
            const gridz_options options = request().options();
            for (int number = 0; number <= static_cast<int>(DataType::Struct); number++) {
                const std::optional<Element> element = element_of(static_cast<DataType>(number));
                if (!element || element->size != element_size)
                    continue;
                const Block block(*element, extents, rank, request().is_column_major());
                std::size_t bound = 0;
                if (block.find_bound(options, bound) == GRIDZ_OK)
                    largest = std::max(largest, bound);
            }
        } catch (const std::exception &) {
        }
        last_estimate() = {id_, n * element_size, largest};
        return largest;
    }

private:
    std::size_t encode(const char *data, const Dims &count, DataType type, char *out) const
    {
        const std::optional<Element> element = element_of(type);
        if (!element)
            throw std::invalid_argument("gridz compresses numbers, but not structs or strings; remove the operation from "
                                        "this variable");
        const Block block(*element, count.data(), count.size(), request().is_column_major());
        const gridz_options options = request().options();
        std::size_t bound = 0;
        gridz::check(block.find_bound(options, bound));
        wait_for_device(data);
        const std::size_t capacity = room(block);
        if (bound <= capacity)
            return block.compress(data, out, bound, options);
        const std::unique_ptr<char[]> frame(new char[bound]);
        const std::size_t size = block.compress(data, frame.get(), bound, options);
        if (size <= capacity) {
            std::copy_n(frame.get(), size, out);
            return size;
        }
        return store(block.bytes(), data, out, capacity);
    }

    std::size_t decode(const char *in, std::size_t size, char *out) const
    {
        gridz_frame_info info{};
        info.struct_size = sizeof info;
        gridz::check(gridz_inspect(in, size, &info));
        const gridz_options options = resources();
        std::size_t bytes = 0;
        gridz::check(gridz_decompress(in, size, out, info.array_bytes, &bytes, &options));
        // Return 1 for an empty block: 0 would mean that nothing was done.
        return std::max<std::size_t>(bytes, 1);
    }

    // Runs `work`, and prints its exception to stderr before it rethrows, each text once per
    // process. Reason: after an exception from a Put, ADIOS2 itself may crash when the step or file
    // is closed. Python closes the file before it shows the exception.
    template <class Work> static std::size_t reporting_failure(const Work &work)
    {
        try {
            return work();
        } catch (const std::exception &error) {
            static std::mutex mutex;
            static std::set<std::string> reported;
            const std::lock_guard<std::mutex> lock(mutex);
            if (has_stderr && reported.size() < 100 && reported.insert(error.what()).second)
                std::fprintf(stderr, "gridz_adios2: %s\n", error.what());
            throw;
        }
    }

    // The parsed parameters. They are parsed on the first use, and again after a failure, so that
    // each call reports it.
    const Request &request() const
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!request_)
            request_.emplace(m_Parameters);
        return *request_;
    }

    // The threads and devices for reading. Reading ignores all other parameters.
    gridz_options resources() const
    {
        gridz_options options = request().options();
        options.request = nullptr;
        return options;
    }

    // The last result of GetEstimatedSize on a thread: the operator (`by`), the bytes of elements
    // and the estimate. It is valid for one Operate.
    struct Estimate {
        std::uint64_t by = 0;
        std::size_t bytes = 0, room = 0;
    };
    static Estimate &last_estimate()
    {
        static thread_local Estimate last;
        return last;
    }

    // Unlike an address, an id is never reused.
    static std::uint64_t new_id()
    {
        static std::atomic<std::uint64_t> last{0};
        return ++last;
    }

    // Number of bytes that Operate may write. Without a preceding GetEstimatedSize, the destination
    // has room for the elements and 128 bytes. ADIOS2's own header, which contains both names, also
    // takes part of these.
    std::size_t room(const Block &block) const
    {
        const Estimate last = std::exchange(last_estimate(), {});
        if (last.by == id_ && last.bytes == block.bytes())
            return last.room;
        const auto length = [this](const char *key) {
            const auto found = m_Parameters.find(key);
            return found == m_Parameters.end() ? std::size_t(0) : found->second.size();
        };
        const std::size_t header = 4 + 1 + 2 + 10 + length("pluginname") + 2 + 13 + length("pluginlibrary");
        return block.bytes() + 128 - std::min<std::size_t>(header, 128);
    }

    // Stores the bytes unchanged, with the shortest possible header.
    std::size_t store(std::size_t bytes, const char *data, char *out, std::size_t capacity) const
    {
        gridz_options options = resources();
        options.request = "stored";
        const Block plain({GRIDZ_DTYPE_U8, 1}, &bytes, 1, false);
        std::size_t bound = 0;
        gridz::check(plain.find_bound(options, bound));
        if (bound > capacity)
            throw std::length_error("this version of ADIOS2 provides too little memory for the block and its header; choose a PluginName and "
                                    "PluginLibrary of at most 48 characters together");
        return plain.compress(data, out, capacity, options);
    }

    const std::uint64_t id_ = new_id();
    mutable std::mutex mutex_;
    mutable std::optional<Request> request_;
};

} // namespace
} // namespace gridz_adios2

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The two entry points that ADIOS2 looks up. The caller owns the operator that OperatorCreate
// returns, and destroys it with OperatorDestroy.
EXPORTED adios2::plugin::PluginOperatorInterface *OperatorCreate(const adios2::Params &parameters)
{
    gridz_adios2::check_host(__builtin_return_address(0));
    return new gridz_adios2::GridzOperator(parameters);
}

EXPORTED void OperatorDestroy(adios2::plugin::PluginOperatorInterface *made) { delete made; }
