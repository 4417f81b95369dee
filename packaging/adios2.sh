#!/bin/sh
# Builds gridz's operator for ADIOS2 and installs it, as `make install-adios2` asks:
#
#     adios2.sh        with PREFIX, DESTDIR, ADIOS2 and ADIOS2_PLUGINDIR in the environment
#
# gridz is in PREFIX already (make install). ADIOS2 names the folder of an ADIOS2, or of its Python package; empty, CMake looks
# where it does for all. Each version of ADIOS2 needs its own plugin, in a folder of its own: ADIOS2_PLUGINDIR.
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
    echo "Where is ADIOS2? make install-adios2 ADIOS2=FOLDER names it, such as that of the Python package" >&2
    exit 1
}
sed -n 's/^-- Found adios2: .*found suitable version "\([^"]*\)".*/Built for ADIOS2 \1/p' "$log"
echo "Installed: ${DESTDIR%/}$ADIOS2_PLUGINDIR/libgridz_adios2.so"
echo "Programs with ADIOS2 find it after:  export ADIOS2_PLUGIN_PATH=$ADIOS2_PLUGINDIR"
