"""Parallel HDF5: ranks that share chunks, ranks without data, and a filter that fails on one rank.
GPUs with MPI."""

import shutil
import sys

import pytest

from support import ROOT, WARNINGS

MPI = ROOT / "examples/mpi"
# Hashes the bytes of a dataset, as a serial HDF5 reads them.
READ = "import sys, h5py, hashlib; print(hashlib.sha256(h5py.File(sys.argv[1])[\"x\"][...].tobytes()).hexdigest())"
RUN = "timeout 120 mpirun --allow-run-as-root --oversubscribe -n"


@pytest.fixture(autouse=True)
def parallel_hdf5():
    if shutil.which("h5pcc") is None or shutil.which("mpirun") is None:
        pytest.skip("no parallel HDF5 here")


@pytest.fixture
def programs(installed):
    """Compiles the parallel programs in the folder of the installation."""
    installed.run(
        f"h5pcc {WARNINGS} -I$GRIDZ_PREFIX/include {MPI}/collective.c -o collective_c -lm && "
        f"h5pcc {WARNINGS} -I$GRIDZ_PREFIX/include {ROOT}/tests/installed/damaged.c -o damaged && "
        f"h5pcc {WARNINGS} -I$GRIDZ_PREFIX/include {MPI}/boxes.c -o boxes -L$GRIDZ_PREFIX/lib -lgridz -lm && "
        f"h5pfc -O2 -Wall -Werror -I. $GRIDZ_PREFIX/include/gridz_hdf5.f90 {MPI}/collective.f90 -o collective_f90"
    )
    return installed


@pytest.mark.parametrize("program", ["collective_c", "collective_f90", "boxes"])
def test_any_number_of_ranks_writes_the_same(programs, program):
    """Ranks share chunks, and with 4 ranks one has no data; serial programs read the same data from
    each file."""
    for ranks in [1, 2, 4]:
        printed = programs.run(f"{RUN} {ranks} ./{program} {ranks}.h5")
        assert printed.startswith(f"{ranks} rank") and printed.endswith("the same bit for bit\n")
        assert programs.run(f"h5dump -pH {ranks}.h5").count("FILTER_ID 34013") == 1
        assert programs.run(f"{sys.executable} -c '{READ}' {ranks}.h5") == programs.run(f"{sys.executable} -c '{READ}' 1.h5")


@pytest.mark.parametrize("how", ["independently", "collectively"])
def test_a_damaged_chunk(programs, how):
    """The rank that reads the damaged chunk gets the error, the other ranks get their data, and no
    rank hangs."""
    lines = sorted(programs.run(f"{RUN} 3 ./damaged {how}").splitlines())
    assert lines == ["rank 0: right", "rank 1: right", "rank 2: refused"]


def test_a_damaged_chunk_is_written_in_part(programs):
    """HDF5 has to decompress the chunk first. The rank on which that fails aborts all ranks, which
    would otherwise wait for it."""
    programs.run(f"! {RUN} 3 ./damaged write 2>errors && grep -q 'rank 2: the write was refused' errors")


def test_no_plugin(programs):
    """Every rank gets the error before anything is written."""
    programs.run(f"! {RUN} 2 ./collective_c 2.h5 2>errors && grep -q 'gridz_h5_set' errors", HDF5_PLUGIN_PATH="/nowhere")


@pytest.mark.parametrize("ranks", [1, 2])
def test_halo(installed, cuda, ranks):
    """With a GPU it compares ghost planes and prints its table; without one it reports that, with a
    distinct exit status."""
    installed.run(
        f"mpicc -std=c11 {WARNINGS} -I$GRIDZ_PREFIX/include -I$CUDA_HOME/include {MPI}/halo.c -o halo "
        "-L$GRIDZ_PREFIX/lib -lgridz -L$CUDA_HOME/lib64 -lcudart -lm",
        **cuda,
    )
    installed.run(
        f"{RUN} {ranks} ./halo >printed 2>errors && status=0 || status=$?; "
        "case $status in 0) grep 'lorenzo' printed ;; 77) grep 'rank 0: no GPU' errors ;; *) cat errors; false ;; esac",
        **cuda,
    )
