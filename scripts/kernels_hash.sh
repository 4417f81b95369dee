#!/bin/sh
# kernels_hash.sh: prints a hash of the kernels' code, without comments, and of nvcc's options.
# Results of the GPU tests record it; they are stale if it differs.
set -eu
cd "$(dirname "$0")/.."
nvcc=$(scripts/nvcc.sh)
code=$(mktemp)
trap 'rm -f "$code" "$code.options"' EXIT
"$nvcc" --version | grep -o 'release [0-9.]*' >"$code"
# The list of options in build.rs, from its first to its last one.
sed -n '/^        "-fatbin",$/,/^        "-Ikernels",$/p' build.rs >"$code.options"
grep -q fmad=false "$code.options"
cat "$code.options" >>"$code"
for source in kernels/*/*.cu kernels/*/*.cuh; do
    # Removes comments. Nothing is included or expanded, so code for every architecture counts.
    echo "$source" >>"$code"
    c++ -w -fpreprocessed -dD -E -P -x c++ "$source" >>"$code"
done
sha256sum "$code" | cut -c 1-16
