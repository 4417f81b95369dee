#!/bin/sh
# serial_hdf5.sh COMMAND...: runs a command with the serial HDF5.
#
# If Debian's parallel HDF5 is also installed, pkg-config names the parallel one, and the Rust tests
# would be linked with it. That library is not thread-safe, and the tests use threads.
set -eu
for folder in /usr/lib/*/hdf5/serial; do
    [ ! -e "$folder/include/hdf5.h" ] || export HDF5_DIR="${HDF5_DIR:-$folder}"
done
exec "$@"
