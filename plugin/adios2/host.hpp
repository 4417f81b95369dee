// Checks that the ADIOS2 that has loaded this library is the one that it was built for. ADIOS2
// itself does not compare versions: calls of virtual functions, whose table slots differ between
// versions, would reach wrong functions.
#ifndef GRIDZ_ADIOS2_HOST_HPP
#define GRIDZ_ADIOS2_HOST_HPP

namespace gridz_adios2 {

// Throws std::runtime_error, naming both versions, if the library that contains the address
// `caller` is another ADIOS2 according to its file name: "libadios2_core.so.2.11.0".
//
// Interface 2 requires the same version, "2.11". Interface 1 links with ADIOS2 and also requires
// the same name before the version: on some systems the MPI build has another name and its own
// classes. A file without a version in its name contains ADIOS2 statically. Interface 1 refuses
// such a file; interface 2 accepts it only if the version occurs in the file's read-only data.
void check_host(const void *caller);

} // namespace gridz_adios2

#endif // GRIDZ_ADIOS2_HOST_HPP
