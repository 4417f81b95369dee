// Whether the ADIOS2 that has loaded this library is the one that it was built for. ADIOS2 itself does not compare: virtual
// functions that differ between its versions would be called by their places in a table.
#ifndef GRIDZ_ADIOS2_HOST_HPP
#define GRIDZ_ADIOS2_HOST_HPP

namespace gridz_adios2 {

// Throws std::runtime_error, naming both, if the library that holds the address `caller` is another ADIOS2, as its file's name
// tells: "libadios2_core.so.2.11.0".
//
// Interface 2 needs the same version, "2.11". Interface 1 links with ADIOS2 and needs the same name before it, too: the build
// for MPI of some systems has another one, and classes of its own. A file without a version in its name has ADIOS2 in it
// statically: that is refused by interface 1, and by interface 2 unless the version is among the file's texts.
void check_host(const void *caller);

} // namespace gridz_adios2

#endif // GRIDZ_ADIOS2_HOST_HPP
