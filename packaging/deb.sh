#!/bin/sh
# deb.sh: packs the results of `make` as target/gridz_VERSION_ARCH.deb, with dpkg-deb.
#
# The package also has links to the plugin in the default plugin folders of Debian's HDF5 libraries,
# serial and OpenMPI. So no environment variable is needed.
set -eu
umask 022
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2> /dev/null || cc -print-multiarch)
stage=target/deb
rm -rf "$stage"

PREFIX=/usr PLUGINDIR=/usr/lib/hdf5/plugin DESTDIR=$PWD/$stage packaging/install.sh install > /dev/null
for flavour in serial openmpi; do
    folder=/usr/lib/$multiarch/hdf5/$flavour/plugins
    mkdir -p "$stage$folder"
    link=$(realpath --no-symlinks --canonicalize-missing --relative-to="$folder" /usr/lib/libgridz.so.0)
    ln -s "$link" "$stage$folder/libh5gridz.so"
done
gzip --best --no-name "$stage/usr/share/man/man3/gridz.3"
cat LICENSE-MIT LICENSE-APACHE > "$stage/usr/share/doc/gridz/copyright"
rm "$stage"/usr/share/doc/gridz/LICENSE-*

mkdir -p "$stage/DEBIAN"
cat > "$stage/DEBIAN/control" << CONTROL
Package: gridz
Version: $version
Architecture: $arch
Maintainer: The gridz developers <gridz@localhost>
Section: science
Priority: optional
Depends: libc6 (>= 2.34), libgcc-s1
Suggests: hdf5-tools
Installed-Size: $(du -sk "$stage/usr" | cut -f1)
Description: compression of scientific arrays for HDF5, netCDF-4, C, C++ and Fortran
 An HDF5 filter plugin (number 34013) and a C library that compress arrays of numbers without loss. Programs with
 Debian's HDF5 libraries find the plugin without configuration.
CONTROL
printf 'activate-noawait ldconfig\n' > "$stage/DEBIAN/triggers"
dpkg-deb --root-owner-group --build "$stage" "target/gridz_${version}_$arch.deb" > /dev/null
echo "target/gridz_${version}_$arch.deb"
