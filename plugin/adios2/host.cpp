#include "host.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "interface.hpp"

#ifndef GRIDZ_ADIOS2_LIBRARY
#error "compile with -DGRIDZ_ADIOS2_LIBRARY='\"libadios2_core.so.2.12\"', or what the library's soname is; CMake does so"
#endif

namespace gridz_adios2 {
namespace {

struct Name {
    std::string stem, version; // "libadios2_core", "2.11"
};

// Of a file's name or path; without a version, or with one number only, that is empty.
Name name_of(const std::string &path)
{
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::size_t end = name.find(".so.");
    if (end == std::string::npos)
        return {name, ""};
    const std::size_t begin = end + 4, dot = name.find('.', begin);
    return {name.substr(0, end), dot == std::string::npos ? "" : name.substr(begin, name.find('.', dot + 1) - begin)};
}

bool is_same(const Name &built_for, const Name &host)
{
#ifdef ADIOS2_PLUGIN_OPERATOR_INTERFACE
    return host.version == built_for.version;
#else
    return host.version == built_for.version && host.stem == built_for.stem;
#endif
}

} // namespace

void check_host(const void *caller)
{
    Dl_info host{};
    if (dladdr(caller, &host) == 0 || host.dli_fname == nullptr)
        return;
    // The name by which it was loaded may be a link without a version.
    const std::unique_ptr<char, decltype(&std::free)> path(realpath(host.dli_fname, nullptr), std::free);
    const Name found = name_of(path ? path.get() : host.dli_fname), built_for = name_of(GRIDZ_ADIOS2_LIBRARY);
    if (!found.version.empty() && !is_same(built_for, found))
        throw std::runtime_error("this gridz_adios2 was built for ADIOS2 " + built_for.version + " (" + built_for.stem +
                                 "), but the program has " + found.version + " (" + found.stem +
                                 "); build one for that (make install-adios2), and let ADIOS2_PLUGIN_PATH name its folder");
}

} // namespace gridz_adios2
