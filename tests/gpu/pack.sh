#!/bin/bash
# pack.sh FOLDER: builds what tests/gpu/run.sh needs and puts it into FOLDER, to be carried to a machine with
# an NVIDIA GPU and without Rust. Needs nvcc (`make cuda` fetches it) and the reference data.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:?usage: pack.sh FOLDER}
shared=${GRIDZ_SHARED:-../shared}
export GRIDZ_CUDA=require
target=${CARGO_TARGET_DIR:-target}

cargo build --locked --release --lib --example throughput
test_program() { # NAME: builds it and prints its path
    cargo test --locked --release --no-run --test "$1" --message-format=json |
        sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p'
}
gpu_test=$(test_program gpu)
cuda_test=$(test_program cuda_gpu)
nvcc=$(scripts/nvcc.sh)
root=$(dirname "$(dirname "$nvcc")")
mkdir -p "$folder/plugin" "$folder/shared/vectors"
"$nvcc" -O3 -std=c++17 -Werror=all-warnings -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_75,code=compute_75 \
    -I"$root/include" -L"$root/lib" -o "$folder/kernels" tests/gpu/kernels/kernels.cu
cp "$gpu_test" "$folder/gpu_test"
cp "$cuda_test" "$folder/cuda_test"
cp "$target/release/examples/throughput" "$folder/throughput"
cp "$target/release/libgridz.so" "$folder/plugin/libh5gridz.so"
strip "$folder/gpu_test" "$folder/cuda_test" "$folder/throughput" "$folder/kernels"
cp tests/gpu/run.sh tests/gpu/h5py_filter.py "$shared/fields.py" "$folder/"
cp -r "$shared/vectors/ndzip" "$folder/shared/vectors/"
chmod -R u+w "$folder"
{
    echo "- commit: $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' and uncommitted changes')"
    echo "- kernels: $(scripts/kernels_hash.sh)"
} >"$folder/version"
