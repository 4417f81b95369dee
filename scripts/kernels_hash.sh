#!/bin/sh
# kernels_hash.sh: a hash of the PTX that the kernels become. Results of the GPU tests name it; they are
# stale when it differs.
set -eu
cd "$(dirname "$0")/.."
nvcc=$(scripts/nvcc.sh)
ptx=$(mktemp)
trap 'rm -f "$ptx" "$ptx.all"' EXIT
for source in kernels/*/*.cu; do
    for arch in compute_75 compute_90; do
        "$nvcc" -ptx -std=c++17 -O3 -fmad=false -arch=$arch -Ikernels -o "$ptx" "$source"
        # Comment lines hold versions and times of the compiler's own build.
        grep -v '^//' "$ptx" >>"$ptx.all"
    done
done
sha256sum "$ptx.all" | cut -c 1-16
