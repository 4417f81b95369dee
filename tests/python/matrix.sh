#!/bin/bash
# matrix.sh WHEEL PYTHON...: installs the wheel into a clean environment of each Python, once with
# the newest NumPy and h5py that pip finds for it, and once with the oldest pair of this list that
# it can install. Each time it runs first_steps.py without any environment variable. Then it runs
# zarr2_steps.py in the first Python that can install Zarr 2.18.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wheel=$(realpath "$1")
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
OLD="numpy==1.22.4,h5py==3.7.0 numpy==1.26.4,h5py==3.8.0 numpy==1.26.4,h5py==3.10.0 numpy==2.1.3,h5py==3.12.1"

try() { # PROGRAM PYTHON REQUIREMENT...: 1 if the requirements cannot be installed
    local program=$1 python=$2
    shift 2
    "$python" -m venv --clear "$folder/venv"
    "$folder/venv/bin/pip" --quiet --disable-pip-version-check install --only-binary :all: "$wheel" "$@" 2>/dev/null || return 1
    env -i PATH=/usr/bin:/bin HOME="$folder" "$folder/venv/bin/python" "$here/$program" || exit 1
    env -i PATH=/usr/bin:/bin HOME="$folder" "$folder/venv/bin/gridz" --version >/dev/null || exit 1
}

for python in "$@"; do
    try first_steps.py "$python" numpy h5py || { echo "$python: NumPy and h5py cannot be installed" >&2; exit 1; }
    found=
    for old in $OLD; do
        # The pair is split into words for pip.
        # shellcheck disable=SC2086
        try first_steps.py "$python" ${old//,/ } && { found=1; break; }
    done
    [ -n "$found" ] || { echo "$python: none of the old versions can be installed" >&2; exit 1; }
done

for python in "$@"; do
    try zarr2_steps.py "$python" "zarr==2.18.*" "numcodecs<0.16" && exit
done
echo "none of these Pythons can install Zarr 2.18: not tested" >&2
exit 1
