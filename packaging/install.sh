#!/bin/sh
# Installs the results of `make`, or removes them, for `make install` and `make uninstall`:
#
#     install.sh install|uninstall        with PREFIX, PLUGINDIR and DESTDIR in the environment
#
# There is one library: PREFIX/lib/libgridz.so.VERSION. The names for loading (libgridz.so.0) and for
# linking (libgridz.so) are links to it, and so is the HDF5 plugin: a program that uses both holds one
# copy. HDF5 opens every library in its plugin folder, so this folder contains nothing else.
#
# The command PREFIX/bin/gridz runs the Python package in PREFIX/lib/gridz/python, whose library is a
# third link.
set -eu
umask 022
cd "$(dirname "$0")/.."

fail() {
    echo "$*" >&2
    exit 1
}

PREFIX=${PREFIX%/}
ADIOS2_PLUGINDIR=${ADIOS2_PLUGINDIR:-$PREFIX/lib/adios2/plugin}
for folder in "$PREFIX" "$PLUGINDIR"; do
    case $folder in
    /*) ;;
    *) fail "PREFIX and PLUGINDIR must be absolute paths, but one is '$folder'; begin it with a /" ;;
    esac
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
soname=libgridz.so.0
built=target/release
lib=$PREFIX/lib
include=$PREFIX/include
cmake=$lib/cmake/gridz
doc=$PREFIX/share/doc/gridz
man=$PREFIX/share/man
command=$PREFIX/bin/gridz
python=$lib/gridz/python
plugin=$PLUGINDIR/libh5gridz.so

headers="gridz.h gridz_batch.h gridz_cuda.h gridz_hdf5.h gridz_hdf5_by.h gridz_progressive.h gridz_quality.h gridz_sparse.h"
headers="$headers gridz.hpp gridz_cci.hpp gridz_hdf5.hpp gridz.f90 gridz_cci.f90 gridz_hdf5.f90 gridz_bulk.f90"
documents="LICENSE-MIT LICENSE-APACHE CHANGELOG.md README.md src/format/*.md docs/*.md docs/tutorial.ipynb docs/images/* docs/ratio-speed-*.svg docs/results/* examples/c/* examples/checkpoint/* examples/mpi/* examples/sparse/* examples/adios2/* plugin/adios2/*"

# Every file and link that belongs to gridz.
everything() {
    for name in libgridz.so.$version $soname libgridz.so libgridz.a pkgconfig/gridz.pc pkgconfig/gridz-static.pc; do
        echo "$lib/$name"
    done
    for name in config config-version; do echo "$cmake/gridz-$name.cmake"; done
    for name in $headers; do echo "$include/$name"; done
    for name in $documents; do echo "$doc/$name"; done
    echo "$man/man1/gridz.1"
    echo "$man/man3/gridz.3"
    echo "$command"
    echo "$python/start.py"
    echo "$python/gridz" # a folder
    echo "$plugin"
}

# fill TEMPLATE FILE VARIABLE: writes FILE from a template, with the values of this installation. Paths
# inside the prefix begin with the VARIABLE that the file uses for the prefix.
fill() {
    case $PLUGINDIR in
    "$PREFIX"/*) plugins="\${$3}${PLUGINDIR#"$PREFIX"}" ;;
    *) plugins=$PLUGINDIR ;;
    esac
    quoted() { printf '%s' "$1" | sed 's/[&|\\]/\\&/g'; }
    sed -e "s|@PREFIX@|$(quoted "$PREFIX")|g" -e "s|@VERSION@|$version|g" \
        -e "s|@STATIC_LIBS@|$static_libs|g" -e "s|@STATIC_LIBS_LIST@|$(echo "$static_libs" | tr ' ' ';')|g" \
        -e "s|@PLUGINDIR@|$(quoted "$plugins")|g" "$1" > "$DESTDIR$2"
    chmod 644 "$DESTDIR$2"
}

# Removes libraries of other releases with the same soname.
remove_others() {
    rm -f "$DESTDIR$lib/$soname".[0-9]*
}

uninstall() {
    remove_others
    rm -rf "$DESTDIR$python/gridz" "$DESTDIR$python/__pycache__"
    # The operator for ADIOS2 is installed by a separate target.
    { everything; echo "$ADIOS2_PLUGINDIR/libgridz_adios2.so"; } | while read -r file; do
        rm -f "$DESTDIR$file"
        # Removes folders that are now empty, up to the prefix.
        folder=$(dirname "$file")
        case $folder in
        "$PREFIX"/*) (cd "$DESTDIR$PREFIX" && rmdir -p --ignore-fail-on-non-empty ".${folder#"$PREFIX"}") 2> /dev/null ;;
        *) rmdir --ignore-fail-on-non-empty "$DESTDIR$folder" 2> /dev/null ;;
        esac || true
    done
    echo "Removed from ${DESTDIR:-/}: gridz $version"
}

# Installs the command. Its modules are those of this release only, and no bytecode of others.
install_command() {
    rm -rf "$DESTDIR$python/gridz"
    (cd python && find gridz -name '*.py') | while read -r module; do
        install -D -m 644 "python/$module" "$DESTDIR$python/$module"
    done
    python3 python/hatch_build.py --installed "$DESTDIR$python/gridz" || fail "the modules of the command could not be written"
    chmod 644 "$DESTDIR$python/gridz"/*.py
    mkdir -p "$DESTDIR$python/gridz/plugin"
    ln -sfn "../../../../$soname" "$DESTDIR$python/gridz/plugin/libgridz.so"
    install -m 644 packaging/command/start.py "$DESTDIR$python/start.py"
    install -m 755 packaging/command/gridz "$DESTDIR$command"
}

install_all() {
    command -v python3 > /dev/null || fail "python3 is missing; it writes the modules of the command gridz"
    for file in libgridz.so libgridz.a native-static-libs; do
        [ -e "$built/$file" ] || fail "$built/$file does not exist; run make first"
    done
    # make writes native-static-libs after every build, also if cargo has compiled nothing.
    newer=$(find -H src crates plugin kernels build.rs Cargo.toml Cargo.lock -type f -newer "$built/native-static-libs" | head -n 1)
    [ -z "$newer" ] || fail "$newer is newer than the last build; run make first"
    static_libs=$(cat "$built/native-static-libs")

    everything | while read -r file; do mkdir -p "$DESTDIR$(dirname "$file")"; done
    remove_others
    install -m 755 "$built/libgridz.so" "$DESTDIR$lib/libgridz.so.$version"
    ln -sfn "libgridz.so.$version" "$DESTDIR$lib/$soname"
    ln -sfn "$soname" "$DESTDIR$lib/libgridz.so"
    install -m 644 "$built/libgridz.a" "$DESTDIR$lib/libgridz.a"
    for name in $headers; do install -m 644 "include/$name" "$DESTDIR$include/$name"; done
    for name in $documents; do install -m 644 "$name" "$DESTDIR$doc/$name"; done
    for section in 1 3; do install -m 644 "docs/gridz.$section" "$DESTDIR$man/man$section/gridz.$section"; done
    install_command
    for name in gridz gridz-static; do fill "packaging/$name.pc.in" "$lib/pkgconfig/$name.pc" prefix; done
    for name in config config-version; do
        fill "packaging/gridz-$name.cmake.in" "$cmake/gridz-$name.cmake" _gridz_prefix
    done
    # A relative link inside the prefix, so that the prefix can be moved. Outside the prefix the path may
    # contain links, so the link is absolute.
    case $PLUGINDIR in
    "$PREFIX"/*) to=$(realpath --no-symlinks --canonicalize-missing --relative-to="$PLUGINDIR" "$lib/$soname") ;;
    *) to=$lib/$soname ;;
    esac
    ln -sfn "$to" "$DESTDIR$plugin"
    if [ -z "$DESTDIR" ]; then
        [ -e "$plugin" ] || fail "$plugin is a link to $to, which does not exist; check the links in its path"
        # Programs then find the library in the system's folders.
        [ "$(id -u)" != 0 ] || ldconfig 2> /dev/null || true
    fi

    echo "Installed, under ${DESTDIR:-/}: gridz $version"
    everything | grep -v "^$doc/" | sed 's/^/    /'
    echo "    $doc/"
    echo "The default plugin folder differs between builds of HDF5. If HDF5 does not find the plugin:"
    echo "    export HDF5_PLUGIN_PATH=$PLUGINDIR"
}

case ${1-} in
install) install_all ;;
uninstall) uninstall ;;
*) fail "usage: install.sh install|uninstall" ;;
esac
