#!/bin/sh
# native_static_libs.sh: what a program must link with beside libgridz.a, as the Rust compiler says. gridz itself links
# nothing but what every Rust library does.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'pub fn nothing() {}' > "$folder/nothing.rs"
libs=$(rustc --crate-type staticlib --print native-static-libs --out-dir "$folder" "$folder/nothing.rs" 2>&1 |
    sed -n 's/^note: native-static-libs: //p')
[ -n "$libs" ] || { echo "rustc does not say which libraries a static one needs" >&2; exit 1; }
echo "$libs"
