#!/bin/sh
# native_static_libs.sh: prints the libraries that a program must link in addition to libgridz.a, as
# the Rust compiler reports them. gridz itself needs only those that every Rust library needs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'pub fn nothing() {}' > "$folder/nothing.rs"
libs=$(rustc --crate-type staticlib --print native-static-libs --out-dir "$folder" "$folder/nothing.rs" 2>&1 |
    sed -n 's/^note: native-static-libs: //p')
[ -n "$libs" ] || { echo "rustc does not report the libraries that a static one needs" >&2; exit 1; }
echo "$libs"
