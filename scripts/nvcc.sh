#!/bin/sh
# nvcc.sh: prints the nvcc that build.rs uses: the first one of release 13 in NVCC, CUDA_HOME, PATH
# and the download of `make cuda`.
set -eu
cd "$(dirname "$0")/.."
for nvcc in "${NVCC:-}" "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "$(command -v nvcc || true)" .venv-cuda/lib/*/site-packages/nvidia/cu13/bin/nvcc; do
    if [ -n "$nvcc" ] && "$nvcc" --version 2>/dev/null | grep -q 'release 13\.'; then
        echo "$nvcc"
        exit 0
    fi
done
echo "no nvcc 13; run make cuda to download it" >&2
exit 1
