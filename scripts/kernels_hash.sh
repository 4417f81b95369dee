#!/bin/sh
# kernels_hash.sh: a hash of the code of the kernels, without comments, and of how nvcc is called. Results of the GPU tests name
# it; they are stale when it differs.
set -eu
cd "$(dirname "$0")/.."
nvcc=$(scripts/nvcc.sh)
code=$(mktemp)
trap 'rm -f "$code"' EXIT
{
    "$nvcc" --version | grep -o 'release [0-9.]*'
    grep -o '"-std=.*"-fmad=false"' build.rs
} >"$code"
for source in kernels/*/*.cu; do
    # Line markers tell the files; those of the compiler and of the system are not ours.
    "$nvcc" -E -std=c++17 -arch=compute_90 -Ikernels "$source" |
        awk '/^# [0-9]+ "/ { ours = $3 ~ /^"kernels\//; next } ours && NF' >>"$code"
done
sha256sum "$code" | cut -c 1-16
