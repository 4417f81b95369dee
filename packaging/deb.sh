#!/bin/sh
# deb.sh: packs the results of `make` as two Debian packages in target/, with dpkg-deb:
#
#     gridz_VERSION_ARCH.deb        the library, the HDF5 plugin, the command, documents
#     gridz-dev_VERSION_ARCH.deb    what compilers need: headers, the library for static linking
#
# The first package also has links to the plugin in the default plugin folders of Debian's HDF5
# libraries, serial and OpenMPI. So no environment variable is needed.
#
# DEBFULLNAME and DEBEMAIL, Debian's own variables, name the maintainer of the packages.
set -eu
umask 022
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2> /dev/null || cc -print-multiarch)
stage=target/deb
dev=target/deb-dev
rm -rf "$stage" "$dev"

PREFIX=/usr PLUGINDIR=/usr/lib/hdf5/plugin DESTDIR=$PWD/$stage packaging/install.sh install > /dev/null
for flavour in serial openmpi; do
    folder=/usr/lib/$multiarch/hdf5/$flavour/plugins
    mkdir -p "$stage$folder"
    link=$(realpath --no-symlinks --canonicalize-missing --relative-to="$folder" /usr/lib/libgridz.so.0)
    ln -s "$link" "$stage$folder/libh5gridz.so"
done
gzip --best --no-name "$stage"/usr/share/man/man*/gridz.*
cat LICENSE-MIT LICENSE-APACHE > "$stage/usr/share/doc/gridz/copyright"
rm "$stage"/usr/share/doc/gridz/LICENSE-*
for path in include lib/libgridz.so lib/libgridz.a lib/pkgconfig lib/cmake share/man/man3; do
    mkdir -p "$dev/usr/$(dirname "$path")"
    mv "$stage/usr/$path" "$dev/usr/$path"
done
install -D -m 644 "$stage/usr/share/doc/gridz/copyright" "$dev/usr/share/doc/gridz-dev/copyright"

# pack FOLDER NAME < FIELDS: makes one package; the fields are those that differ.
pack() {
    mkdir -p "$1/DEBIAN"
    cat > "$1/DEBIAN/control" << CONTROL
Package: $2
Version: $version
Architecture: $arch
Maintainer: ${DEBFULLNAME:-The gridz developers}${DEBEMAIL:+ <$DEBEMAIL>}
Priority: optional
Installed-Size: $(du -sk "$1/usr" | cut -f1)
CONTROL
    cat >> "$1/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$1" "target/$2_${version}_$arch.deb" > /dev/null
    echo "target/$2_${version}_$arch.deb"
}

pack "$dev" gridz-dev << FIELDS
Section: libdevel
Depends: gridz (= $version), libc6-dev
Description: compression of scientific arrays: files for development
 Headers for C, C++ and Fortran, pkg-config and CMake files, the manual, and the library for static linking.
FIELDS
mkdir -p "$stage/DEBIAN"
printf 'activate-noawait ldconfig\n' > "$stage/DEBIAN/triggers"
# If root runs the command, Python writes files that dpkg does not know.
printf '#!/bin/sh\nset -e\nfind /usr/lib/gridz -name __pycache__ -prune -exec rm -rf {} +\n' > "$stage/DEBIAN/prerm"
chmod 755 "$stage/DEBIAN/prerm"
pack "$stage" gridz << FIELDS
Section: science
Depends: libc6 (>= 2.34), libgcc-s1
Recommends: python3 (>= 3.9), python3-numpy, python3-h5py, python3-cffi, python3-click, python3-rich, python3-tqdm
Suggests: gridz-dev, hdf5-tools
Description: compression of scientific arrays for HDF5, netCDF-4, C, C++ and Fortran
 An HDF5 filter plugin (number 34013), a C library and a command that compress arrays of numbers, without loss or
 within error bounds. Programs with Debian's HDF5 libraries find the plugin without configuration. The command
 needs the recommended packages.
FIELDS
