// The request in an operator's parameters.
#ifndef GRIDZ_ADIOS2_REQUEST_HPP
#define GRIDZ_ADIOS2_REQUEST_HPP

#include <optional>
#include <string>

#include <gridz.hpp>

#include "interface.hpp"

namespace gridz_adios2 {

// A codec with its settings, and the threads and devices to use. Immutable, so several threads may
// share one.
class Request {
public:
    // Throws std::invalid_argument naming the unknown parameter or the parameter with an invalid
    // value, and gridz::Error for unavailable threads or devices. Errors in the codec's own
    // settings are detected on use.
    explicit Request(const adios2::Params &parameters);

    // The pointers in the result are valid while this object lives.
    gridz_options options() const noexcept;

    // True if the first axis is the fastest-varying one, as in Fortran programs. ADIOS2 does not
    // pass this to operators.
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
