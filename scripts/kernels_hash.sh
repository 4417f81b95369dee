#!/bin/sh
# kernels_hash.sh: a hash of the PTX that the kernels become. Results of the GPU tests name it; they are
# stale when it differs.
set -eu
cd "$(dirname "$0")/.."
nvcc=$(scripts/nvcc.sh)
ptx=$(mktemp -d)
trap 'rm -rf "$ptx"' EXIT
# One file for each source and architecture, as many at a time as there are cores.
for source in kernels/*/*.cu; do
    for arch in compute_75 compute_90; do
        echo "-arch=$arch -o $ptx/$(echo "$source" | tr / _).$arch $source"
    done
done | xargs -P "$(nproc)" -L 1 "$nvcc" -ptx -std=c++17 -O3 -fmad=false -Ikernels
# Comment lines hold versions and times of the compiler's own build.
for source in kernels/*/*.cu; do
    for arch in compute_75 compute_90; do
        grep -v '^//' "$ptx/$(echo "$source" | tr / _).$arch"
    done
done >"$ptx/all"
sha256sum "$ptx/all" | cut -c 1-16
