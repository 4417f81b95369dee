#!/bin/bash
# pack.sh FOLDER: builds the files that tests/gpu/run.sh needs and copies them to FOLDER, for a
# machine with an NVIDIA GPU and without Rust. Needs nvcc (`make cuda` downloads it) and the
# reference data. nvCOMP, which is only a peer for comparison, is downloaded from PyPI once.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:?usage: pack.sh FOLDER}
shared=${GRIDZ_SHARED:-../shared}
export GRIDZ_CUDA=require
target=${CARGO_TARGET_DIR:-target}

cargo build --locked --release --lib --example throughput --example gpu_throughput
test_program() { # NAME: builds it and prints its path
    cargo test --locked --release --no-run --test "$1" --message-format=json |
        sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p'
}
gpu_test=$(test_program gpu)
cuda_test=$(test_program cuda)
mkdir -p "$folder/plugin" "$folder/shared/vectors"
cp "$gpu_test" "$folder/gpu_test"
cp "$cuda_test" "$folder/cuda_test"
cp "$target/release/examples/throughput" "$target/release/examples/gpu_throughput" "$folder/"
cp "$target/release/libgridz.so" "$folder/plugin/libh5gridz.so"
strip "$folder/gpu_test" "$folder/cuda_test" "$folder/throughput" "$folder/gpu_throughput"
cp tests/gpu/run.sh tests/gpu/*.py include/gridz_hdf5.h "$shared/fields.py" "$folder/"
cp -r "$shared/vectors/ndzip" "$folder/shared/vectors/"
chmod -R u+w "$folder"

# Only the files for the GPU and Python 3.12: all of them would be twice as large.
nvcomp=$target/nvcomp
if [ ! -e "$nvcomp/complete" ]; then
    rm -rf "$nvcomp"
    if python3 -m pip --quiet download --no-deps --only-binary=:all: --python-version 3.12 \
        --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64 --dest "$nvcomp/wheels" \
        nvidia-nvcomp-cu13==6.0.0.12 nvidia-libnvcomp-cu13==6.0.0.12; then
        for wheel in "$nvcomp"/wheels/*.whl; do
            python3 -m zipfile -e "$wheel" "$nvcomp/unpacked"
        done
        touch "$nvcomp/complete"
    else
        echo "pack.sh: no nvCOMP, so peers.py will show gridz alone" >&2
    fi
fi
rm -rf "$folder/nvcomp"
if [ -e "$nvcomp/complete" ]; then
    cp -r "$nvcomp/unpacked" "$folder/nvcomp"
    rm -rf "$folder"/nvcomp/nvidia/libnvcomp/{bin,include}
    find "$folder/nvcomp" -name 'nvcomp_impl*' ! -name '*cpython-312-*' -delete
fi
{
    echo "- commit: $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' and uncommitted changes')"
    echo "- kernels: $(scripts/kernels_hash.sh)"
} >"$folder/version"
du -sh "$folder"
