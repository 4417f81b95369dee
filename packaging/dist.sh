#!/bin/sh
# dist.sh: packs the results of `make` as target/gridz-VERSION-ARCH-linux.tar.gz, which works in any
# folder where it is unpacked.
set -eu
umask 022
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=gridz-$version-$(uname -m)-linux
stage=target/dist
rm -rf "$stage"

PREFIX=/$name PLUGINDIR=/$name/lib/hdf5/plugin DESTDIR=$PWD/$stage packaging/install.sh install > /dev/null
# All other files find their location at run time.
# shellcheck disable=SC2016 # pkg-config replaces the variable
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$stage/$name"/lib/pkgconfig/*.pc
tar --create --gzip --owner=0 --group=0 --numeric-owner --sort=name --directory="$stage" \
    --file="target/$name.tar.gz" "$name"
echo "target/$name.tar.gz"
