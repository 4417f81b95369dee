// What the parameters of an operator ask for.
#ifndef GRIDZ_ADIOS2_REQUEST_HPP
#define GRIDZ_ADIOS2_REQUEST_HPP

#include <optional>
#include <string>

#include <gridz.hpp>

#include "interface.hpp"

namespace gridz_adios2 {

// A codec with its settings, and the threads and devices to work with. Does not change once it is made, so several threads may
// use one.
class Request {
public:
    // Throws std::invalid_argument naming the parameter that nobody knows or that has no such value, and gridz::Error for
    // threads or devices that cannot be had. What is wrong with the codec's own settings is found when it is used.
    explicit Request(const adios2::Params &parameters);

    // Points into this object.
    gridz_options options() const noexcept;

    // Whether the first axis is the fastest-varying one, as in programs in Fortran. ADIOS2 does not tell operators.
    bool is_column_major() const noexcept { return is_column_major_; }

private:
    // In gridz's text form; empty = the default codec.
    std::string text_;
    bool is_column_major_ = false;
    // None = threads and devices of the process.
    std::optional<gridz::Context> context_;
};

} // namespace gridz_adios2

#endif // GRIDZ_ADIOS2_REQUEST_HPP
