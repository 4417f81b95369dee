#include "host.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "interface.hpp"

#ifndef GRIDZ_ADIOS2_LIBRARY
#error "compile with -DGRIDZ_ADIOS2_LIBRARY='\"libadios2_core.so.2.12\"', the soname of ADIOS2's library; CMake sets it"
#endif

namespace gridz_adios2 {
namespace {

struct Name {
    std::string stem, version; // "libadios2_core", "2.11"
};

// Parses a file name or path; the version is empty if there is none, or only one number.
Name name_of(const std::string &path)
{
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::size_t end = name.find(".so.");
    if (end == std::string::npos)
        return {name, ""};
    const std::size_t begin = end + 4, dot = name.find('.', begin);
    return {name.substr(0, end), dot == std::string::npos ? "" : name.substr(begin, name.find('.', dot + 1) - begin)};
}

#ifdef ADIOS2_PLUGIN_OPERATOR_INTERFACE

// True if a text such as "2.12.1" is in memory. Searches byte by byte: in programs with
// AddressSanitizer, functions of the C library refuse to read between variables.
bool has_version(const char *memory, std::size_t size, const std::string &version)
{
    const std::string wanted = version + ".";
    const auto is_part = [](char c) { return c == '.' || std::isalnum(static_cast<unsigned char>(c)); };
    for (std::size_t at = 0; at + wanted.size() < size; at++) {
        std::size_t n = 0;
        while (n < wanted.size() && memory[at + n] == wanted[n])
            n++;
        const bool is_digit = std::isdigit(static_cast<unsigned char>(memory[at + n])) != 0;
        if (n == wanted.size() && is_digit && (at == 0 || !is_part(memory[at - 1])))
            return true;
    }
    return false;
}

struct Search {
    std::uintptr_t caller;
    const std::string &version;
    bool is_found;
};

// Callback for each loaded file: searches the file that contains the caller.
int look_in(dl_phdr_info *file, std::size_t, void *data)
{
    Search &search = *static_cast<Search *>(data);
    bool is_host = false;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const auto &part = file->dlpi_phdr[i];
        is_host |= part.p_type == PT_LOAD && search.caller - (file->dlpi_addr + part.p_vaddr) < part.p_memsz;
    }
    if (!is_host)
        return 0;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const auto &part = file->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || (part.p_flags & PF_R) == 0 || (part.p_flags & PF_W) != 0)
            continue;
        const auto *begin = reinterpret_cast<const char *>(file->dlpi_addr + part.p_vaddr);
        search.is_found |= has_version(begin, part.p_filesz, search.version);
    }
    return 1;
}

bool is_same(const Name &built_for, const Name &host, const void *caller)
{
    if (!host.version.empty())
        return host.version == built_for.version;
    Search search{reinterpret_cast<std::uintptr_t>(caller), built_for.version, false};
    dl_iterate_phdr(look_in, &search);
    return search.is_found;
}

#else

bool is_same(const Name &built_for, const Name &host, const void *)
{
    return host.version == built_for.version && host.stem == built_for.stem;
}

#endif

} // namespace

void check_host(const void *caller)
{
    Dl_info host{};
    static std::atomic<const void *> known{nullptr}; // ADIOS2 stays loaded
    if (dladdr(caller, &host) == 0 || host.dli_fname == nullptr || host.dli_fbase == known)
        return;
    // The name by which it was loaded may be a link without a version.
    const std::unique_ptr<char, decltype(&std::free)> path(realpath(host.dli_fname, nullptr), std::free);
    const Name found = name_of(path ? path.get() : host.dli_fname), built_for = name_of(GRIDZ_ADIOS2_LIBRARY);
    if (!is_same(built_for, found, caller))
        throw std::runtime_error("this gridz_adios2 was built for ADIOS2 " + built_for.version + " (" + built_for.stem +
                                 "), but the program has " + (found.version.empty() ? "another" : found.version) + " (" +
                                 found.stem + "); build the plugin for that version (make install-adios2), and set ADIOS2_PLUGIN_PATH to its folder");
    known = host.dli_fbase;
}

} // namespace gridz_adios2
