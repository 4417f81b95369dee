#!/bin/sh
# serial_hdf5.sh COMMAND...: runs a command for which HDF5 is the serial one.
#
# Where Debian's parallel HDF5 is installed beside the serial one, pkg-config names the parallel one, and the Rust tests
# would be linked with that. It is not thread-safe, and they have threads.
set -eu
for folder in /usr/lib/*/hdf5/serial; do
    [ ! -e "$folder/include/hdf5.h" ] || export HDF5_DIR="${HDF5_DIR:-$folder}"
done
exec "$@"
