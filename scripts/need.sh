#!/bin/sh
# need.sh PACKAGE...: ensures that the commands and libraries of these Debian packages are
# available.
#
# If they are present, nothing happens, and no password is requested.  If not, the packages are
# installed with apt-get by root or if sudo needs no password; otherwise the command line is printed
# and the exit status is 1.
#
# The files of a package are looked for directly, so a compiler or an HDF5 that was not installed by
# apt counts too.
set -eu

links() {
    program=$(mktemp)
    status=0
    echo 'int main(void) { return 0; }' | cc -x c - -o "$program" || status=1
    rm -f "$program"
    return "$status"
}

present() {
    case $1 in
    gcc) command -v cc ;;
    g++) command -v c++ ;;
    gfortran) command -v gfortran ;;
    cmake) command -v cmake ;;
    man-db) command -v man ;;
    dpkg-dev) command -v dpkg-architecture ;;
    openmpi-bin) command -v mpirun ;;
    libhdf5-openmpi-dev) command -v h5pcc && command -v h5pfc ;;
    libc6-dev) links ;; # gcc alone does not install it
    libhdf5-dev) command -v h5cc ;;
    hdf5-tools) command -v h5repack && command -v h5dump && command -v h5diff ;;
    netcdf-bin) command -v nccopy && command -v ncdump ;;
    libnetcdf-dev) pkg-config --exists netcdf ;;
    pkg-config) command -v pkg-config ;;
    valgrind) command -v valgrind ;;
    python3) command -v python3 ;;
    python3-venv) python3 -c 'import ensurepip, venv' ;;
    *) dpkg-query --show --showformat='${db:Status-Status}' "$1" | grep -qx installed ;;
    esac >/dev/null 2>&1
}

missing=
for package in "$@"; do
    present "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "Missing: the contents of the Debian packages$missing. Install them, then run make again." >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "Missing:$missing. Run this as root (or with sudo), then make again:" >&2
    echo "    apt-get update && apt-get install -y$missing" >&2
    exit 1
fi

echo "Installing$missing"
# The variables hold lists of plain words; word splitting is intended.
# shellcheck disable=SC2086
{
    $as_root apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing >/dev/null
}
for package in $missing; do
    present "$package" || { echo "$package was installed, but its programs or libraries cannot be found (PATH?)" >&2; exit 1; }
done
