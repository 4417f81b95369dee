#!/bin/sh
# dist.sh: makes target/gridz-VERSION-ARCH-linux.tar.gz of what `make` built, which works wherever it is unpacked.
set -eu
umask 022
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=gridz-$version-$(uname -m)-linux
stage=target/dist
rm -rf "$stage"

PREFIX=/$name PLUGINDIR=/$name/lib/hdf5/plugin DESTDIR=$PWD/$stage packaging/install.sh install > /dev/null
# The other files know their place by themselves.
# shellcheck disable=SC2016 # pkg-config replaces the variable
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$stage/$name"/lib/pkgconfig/*.pc
tar --create --gzip --owner=0 --group=0 --numeric-owner --sort=name --directory="$stage" \
    --file="target/$name.tar.gz" "$name"
echo "target/$name.tar.gz"
