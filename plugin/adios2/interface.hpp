// ADIOS2's interface of operator plugins, of the version of the installed headers. 2.12 has version
// 2, which is self-contained. 2.9 to 2.11 have the interface now called version 1, a class derived
// from a class inside the library.
#ifndef GRIDZ_ADIOS2_INTERFACE_HPP
#define GRIDZ_ADIOS2_INTERFACE_HPP

#include <adios2/common/ADIOSConfig.h>
#include <adios2/common/ADIOSTypes.h>

#if __has_include(<adios2/plugin/PluginOperatorInterface.h>)
#include <adios2/plugin/PluginOperatorInterface.h>
#else
#include <adios2/operator/plugin/PluginOperatorInterface.h>
#endif

#ifdef ADIOS2_PLUGIN_OPERATOR_INTERFACE
static_assert(ADIOS2_PLUGIN_OPERATOR_INTERFACE == 2,
              "gridz supports versions 1 and 2 of ADIOS2's operator plugin interface; a newer gridz may support this ADIOS2");
#else
static_assert(ADIOS2_VERSION_MAJOR == 2 && ADIOS2_VERSION_MINOR >= 9 && ADIOS2_VERSION_MINOR <= 11,
              "gridz supports the operator plugins of ADIOS2 2.9 to 2.12");
#endif

#endif // GRIDZ_ADIOS2_INTERFACE_HPP
