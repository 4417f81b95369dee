#include "request.hpp"

#include <charconv>
#include <sstream>
#include <stdexcept>

namespace gridz_adios2 {
namespace {

// The parameters of ADIOS2 itself: it passes all parameters to the plugin, with keys in lower case.
bool is_of_adios2(const std::string &key) { return key == "pluginname" || key == "pluginlibrary" || key == "verbose"; }

std::uint32_t number(const std::string &key, const std::string &value, std::uint32_t largest)
{
    std::uint32_t found = 0;
    const char *end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, found);
    if (error != std::errc() || stop != end || found > largest)
        throw std::invalid_argument(key + "=" + value + ": " + key + " must be a whole number of at most " +
                                    std::to_string(largest));
    return found;
}

bool is_column(const std::string &order)
{
    if (order != "row" && order != "column")
        throw std::invalid_argument("order=" + order + ": order must be row, or column for arrays whose first axis varies fastest");
    return order == "column";
}

// One of GRIDZ_DEVICE_*, or 1 + the number of a GPU.
std::uint32_t device(const std::string &backend, const std::string &device)
{
    if (!device.empty() && backend == "cpu")
        throw std::invalid_argument("device=" + device + " is a GPU, but backend=cpu; remove one of the two parameters");
    if (device == "all")
        return GRIDZ_DEVICE_ALL;
    if (!device.empty())
        return 1 + number("device", device, 65535);
    if (backend.empty() || backend == "auto")
        return GRIDZ_DEVICE_AUTO;
    if (backend == "cpu")
        return GRIDZ_DEVICE_CPU;
    if (backend == "cuda")
        return GRIDZ_DEVICE_CUDA;
    throw std::invalid_argument("backend=" + backend + ": backend must be auto, cpu or cuda");
}

} // namespace

Request::Request(const adios2::Params &parameters)
{
    std::string codec, terms, backend, gpu;
    std::uint32_t threads = 0;
    for (const auto &[key, value] : parameters) {
        if (is_of_adios2(key)) {
        } else if (key == "codec" || key == "gridz") {
            if (!codec.empty())
                throw std::invalid_argument("both codec=" + codec + " and gridz=" + value + "; both mean the same, so remove one of them");
            codec = value;
        } else if (key == "threads") {
            threads = number(key, value, 1024);
        } else if (key == "order") {
            is_column_major_ = is_column(value);
        } else if (key == "backend") {
            backend = value;
        } else if (key == "device") {
            gpu = value;
        } else if (key == "fill") {
            // ADIOS2 stores each key once, so several fill values are words of one parameter.
            std::istringstream fills(value);
            if (value.find_first_not_of(" \t\n") == std::string::npos)
                throw std::invalid_argument("fill has no value; give numbers, such as fill=-999, or remove the parameter");
            for (std::string fill; fills >> fill;)
                terms += ",fill=" + fill;
        } else {
            // All other keys are passed to gridz as codec settings; gridz reports unknown ones.
            terms += value.empty() ? "," + key : "," + key + "=" + value;
        }
    }
    if (codec.empty() && !terms.empty())
        throw std::invalid_argument("no codec is given for \"" + terms.substr(1) +
                                    "\"; add the parameter codec, such as codec=quant");
    text_ = codec + terms;
    const std::uint32_t where = device(backend, gpu);
    if (threads != 0 || where != GRIDZ_DEVICE_AUTO)
        context_.emplace(threads, 0, where);
}

gridz_options Request::options() const noexcept
{
    gridz_options options{};
    options.struct_size = sizeof options;
    options.request = text_.empty() ? nullptr : text_.c_str();
    options.context = context_ ? context_->get() : nullptr;
    return options;
}

} // namespace gridz_adios2
