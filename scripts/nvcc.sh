#!/bin/sh
# nvcc.sh: prints the nvcc that build.rs uses too: NVCC, CUDA_HOME, PATH, or that of `make cuda`.
set -eu
cd "$(dirname "$0")/.."
for nvcc in "${NVCC:-}" "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "$(command -v nvcc || true)" .venv-cuda/lib/*/site-packages/nvidia/cu13/bin/nvcc; do
    if [ -n "$nvcc" ] && [ -x "$nvcc" ]; then
        echo "$nvcc"
        exit 0
    fi
done
echo "no nvcc; make cuda fetches it" >&2
exit 1
