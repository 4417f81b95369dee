#!/bin/sh
# Installs what `make` built, as `make install` asks:
#
#     DESTDIR + PLUGINDIR/libh5gridz.so      the HDF5 filter plugin
#     DESTDIR + PREFIX/lib/libgridz.so       the C library
#     DESTDIR + PREFIX/include/gridz.h       its header
#
# Plugin and library are the same file under two names: HDF5 opens every library in its plugin
# folder, so that folder holds nothing else, and a linker expects libgridz.so among the libraries.
set -eu
cd "$(dirname "$0")/../.."

for file in target/plugin/libh5gridz.so target/release/libgridz.so include/gridz.h; do
    [ -e "$file" ] || { echo "$file is not there; run make first" >&2; exit 1; }
done
install -D -m 755 target/plugin/libh5gridz.so "$DESTDIR$PLUGINDIR/libh5gridz.so"
install -D -m 755 target/release/libgridz.so "$DESTDIR$PREFIX/lib/libgridz.so"
install -D -m 644 include/gridz.h "$DESTDIR$PREFIX/include/gridz.h"

echo "Installed, under ${DESTDIR:-/}:  $PLUGINDIR/libh5gridz.so  $PREFIX/lib/libgridz.so  $PREFIX/include/gridz.h"
echo "Where HDF5 looks for plugins by default differs from build to build. If it does not look there:"
echo "    export HDF5_PLUGIN_PATH=$PLUGINDIR"
