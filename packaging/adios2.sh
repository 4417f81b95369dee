#!/bin/sh
# Builds gridz's operator for ADIOS2 and installs it, for `make install-adios2`:
#
#     adios2.sh        with PREFIX, DESTDIR, ADIOS2 and ADIOS2_PLUGINDIR in the environment
#
# gridz must be installed in PREFIX (make install). ADIOS2 is the folder of an ADIOS2 installation, or
# of its Python package. If it is empty, CMake searches its default locations. Each version of ADIOS2
# needs a separate plugin in a separate folder, ADIOS2_PLUGINDIR.
set -eu
umask 022
cd "$(dirname "$0")/.."

installed=${DESTDIR%/}${PREFIX%/}
if [ ! -e "$installed/lib/cmake/gridz/gridz-config.cmake" ]; then
    echo "gridz is not installed in $installed; run make install PREFIX=${PREFIX%/} first" >&2
    exit 1
fi
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
log=$build/log
{
    cmake -S plugin/adios2 -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$installed" -DCMAKE_INSTALL_PREFIX="$PREFIX" \
        -DADIOS2="${ADIOS2:-}" -DGRIDZ_ADIOS2_DIR="$ADIOS2_PLUGINDIR" &&
        cmake --build "$build" && DESTDIR=$DESTDIR cmake --install "$build"
} > "$log" 2>&1 || {
    cat "$log" >&2
    echo "The operator was not built. If CMake did not find ADIOS2, run make install-adios2 ADIOS2=FOLDER with its folder, such as that of its Python package" >&2
    exit 1
}
sed -n 's/^-- Found adios2: .*found suitable version "\([^"]*\)".*/Built for ADIOS2 \1/p' "$log"
echo "Installed: ${DESTDIR%/}$ADIOS2_PLUGINDIR/libgridz_adios2.so"
echo "Programs with ADIOS2 find it after:  export ADIOS2_PLUGIN_PATH=$ADIOS2_PLUGINDIR"
