#!/bin/sh
# Installs what `make` built, or removes it again, as `make install` and `make uninstall` ask:
#
#     install.sh install|uninstall        with PREFIX, PLUGINDIR and DESTDIR in the environment
#
# One library serves all: PREFIX/lib/libgridz.so.VERSION. The names by which programs find it when they start
# (libgridz.so.0) and when they are linked (libgridz.so) are links to it, and so is the HDF5 plugin: a program that
# uses both holds one copy. HDF5 opens every library in its plugin folder, which therefore holds nothing else.
set -eu
cd "$(dirname "$0")/.."
action=${1:?install or uninstall}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
soname=libgridz.so.0
lib=$PREFIX/lib
include=$PREFIX/include
cmake=$lib/cmake/gridz
doc=$PREFIX/share/doc/gridz
man=$PREFIX/share/man/man3

headers="gridz.h gridz.hpp gridz_hdf5.h gridz.f90 gridz_hdf5.f90"
licences="LICENSE-MIT LICENSE-APACHE"

# Every file and link that belongs to gridz.
everything() {
    for name in libgridz.so.$version $soname libgridz.so libgridz.a pkgconfig/gridz.pc; do echo "$lib/$name"; done
    for name in config config-version; do echo "$cmake/gridz-$name.cmake"; done
    for name in $headers; do echo "$include/$name"; done
    for name in $licences README.md SPEC.md; do echo "$doc/$name"; done
    echo "$man/gridz.3"
    echo "$PLUGINDIR/libh5gridz.so"
}

# fill TEMPLATE FILE VARIABLE: a template with the values of this installation. Folders inside the prefix are named by
# the variable that stands for it there.
fill() {
    case $PLUGINDIR in
    "$PREFIX"/*) plugins="\${$3}${PLUGINDIR#"$PREFIX"}" ;;
    *) plugins=$PLUGINDIR ;;
    esac
    sed -e "s|@PREFIX@|$PREFIX|g" -e "s|@VERSION@|$version|g" -e "s|@STATIC_LIBS@|$static_libs|g" \
        -e "s|@PLUGINDIR@|$plugins|g" "$1" > "$DESTDIR$2"
    chmod 644 "$DESTDIR$2"
}

if [ "$action" = uninstall ]; then
    everything | while read -r file; do rm -f "$DESTDIR$file"; done
    rmdir "$DESTDIR$cmake" "$DESTDIR$doc" 2> /dev/null || true
    echo "Removed from ${DESTDIR:-/}: gridz $version"
    exit
fi

for file in target/release/libgridz.so target/release/libgridz.a target/release/native-static-libs; do
    [ -e "$file" ] || { echo "$file is not there; run make first" >&2; exit 1; }
done
static_libs=$(cat target/release/native-static-libs)

everything | while read -r file; do mkdir -p "$DESTDIR$(dirname "$file")"; done
install -m 755 target/release/libgridz.so "$DESTDIR$lib/libgridz.so.$version"
ln -sf libgridz.so.$version "$DESTDIR$lib/$soname"
ln -sf $soname "$DESTDIR$lib/libgridz.so"
install -m 644 target/release/libgridz.a "$DESTDIR$lib/libgridz.a"
for name in $headers; do install -m 644 "include/$name" "$DESTDIR$include/$name"; done
for name in $licences README.md src/format/SPEC.md; do install -m 644 "$name" "$DESTDIR$doc/"; done
install -m 644 docs/gridz.3 "$DESTDIR$man/gridz.3"
fill packaging/gridz.pc.in "$lib/pkgconfig/gridz.pc" prefix
for name in config config-version; do
    fill "packaging/gridz-$name.cmake.in" "$cmake/gridz-$name.cmake" _gridz_prefix
done
ln -sf "$(realpath --no-symlinks --canonicalize-missing --relative-to="$PLUGINDIR" "$lib/$soname")" "$DESTDIR$PLUGINDIR/libh5gridz.so"

echo "Installed, under ${DESTDIR:-/}: gridz $version"
everything | sed 's/^/    /'
echo "Where HDF5 looks for plugins by default differs from build to build. If it does not look there:"
echo "    export HDF5_PLUGIN_PATH=$PLUGINDIR"
