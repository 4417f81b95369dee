#!/bin/sh
# kernels_hash.sh: a hash of the PTX that the kernels become. Results of the GPU tests name it; they are
# stale when it differs.
set -eu
cd "$(dirname "$0")/.."
nvcc=$(scripts/nvcc.sh)
for source in kernels/*/*.cu; do
    # Comment lines hold versions and times of the compiler's own build.
    "$nvcc" -ptx -std=c++17 -O3 -fmad=false -arch=compute_90 -Ikernels -o - "$source" | grep -v '^//'
done | sha256sum | cut -c 1-16
