#include "device.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gridz_adios2 {
namespace {

// Declarations from CUDA's driver API: its types are numbers and pointers, and its functions are
// stable.
using Status = int;
using Handle = void *;
constexpr int ATTRIBUTE_CONTEXT = 1, ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_DEVICE = 9, MEMORY_OF_DEVICE = 2;

template <class Function> Function find(Handle driver, const char *name)
{
    const auto found = reinterpret_cast<Function>(dlsym(driver, name));
    if (found == nullptr)
        throw std::runtime_error(std::string("the CUDA driver lacks the function ") + name);
    return found;
}

void check(Status status, const char *what)
{
    if (status != 0)
        throw std::runtime_error(std::string(what) + " failed with CUDA error " + std::to_string(status) +
                                 ", while gridz waited for an array in GPU memory");
}

struct Close {
    Handle driver;
    ~Close() { dlclose(driver); }
};

} // namespace

void wait_for_device(const void *data)
{
    const Handle driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == nullptr || data == nullptr)
        return;
    const Close close{driver};
    const auto attribute = find<Status (*)(void *, int, std::uint64_t)>(driver, "cuPointerGetAttribute");
    const auto address = reinterpret_cast<std::uint64_t>(data);
    unsigned type = 0;
    if (attribute(&type, ATTRIBUTE_MEMORY_TYPE, address) != 0 || type != MEMORY_OF_DEVICE)
        return;

    const auto push = find<Status (*)(Handle)>(driver, "cuCtxPushCurrent_v2");
    const auto pop = find<Status (*)(Handle *)>(driver, "cuCtxPopCurrent_v2");
    const auto synchronize = find<Status (*)()>(driver, "cuCtxSynchronize");
    const auto retain = find<Status (*)(Handle *, int)>(driver, "cuDevicePrimaryCtxRetain");
    const auto release = find<Status (*)(int)>(driver, "cuDevicePrimaryCtxRelease_v2");

    // Memory of pools belongs to no context: then use the primary context, which CUDA runtimes use.
    Handle context = nullptr;
    int device = 0;
    const bool has_context = attribute(&context, ATTRIBUTE_CONTEXT, address) == 0 && context != nullptr;
    if (!has_context) {
        check(attribute(&device, ATTRIBUTE_DEVICE, address), "cuPointerGetAttribute");
        check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    }
    Status done = push(context);
    if (done == 0) {
        done = synchronize();
        Handle popped = nullptr;
        pop(&popped);
    }
    if (!has_context)
        release(device);
    check(done, "cuCtxSynchronize");
}

} // namespace gridz_adios2
