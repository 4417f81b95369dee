"""The mini-apps and short programs for every interface, with the installed headers and
libraries."""

import shutil

import pytest

from support import HDF5, ROOT, WARNINGS

APPS = ROOT / "examples/checkpoint"
C_COMPILERS = [("gcc", "g++"), ("clang", "clang++")]


def restarts(installed, program):
    """A run that is restarted from its checkpoint has the same final bits as an uninterrupted
    one."""
    last = [installed.run(line).splitlines()[-1] for line in [program, f"{program} restart"]]
    assert last[0].startswith("step 40: ") and last[0] == last[1]


@pytest.fixture(params=C_COMPILERS, ids=lambda names: names[0])
def compilers(request):
    """A C and a C++ compiler."""
    for name in request.param:
        if shutil.which(name) is None:
            pytest.skip(f"no {name} here")
    return request.param


def test_c_with_hdf5(installed, compilers):
    installed.run(
        f"{compilers[0]} -std=c11 {WARNINGS} {APPS}/heat.c -o heat $(pkg-config --cflags gridz) "
        f"$(pkg-config --cflags --libs {HDF5})"
    )
    restarts(installed, "./heat")
    assert installed.run("h5dump -pH heat_c.h5").count("FILTER_ID 34013") == 1


def test_cpp(installed, compilers):
    installed.run(
        f"{compilers[1]} -std=c++17 -Wpedantic {WARNINGS} {APPS}/heat.cpp -o heat $(pkg-config --cflags --libs gridz)"
    )
    restarts(installed, "./heat")


def test_static_library(installed, compilers):
    flags = "$(pkg-config --cflags --libs gridz-static)"
    installed.run(f"{compilers[1]} -std=c++17 {WARNINGS} {APPS}/heat.cpp -o heat {flags}")
    restarts(installed, "./heat")
    installed.run(f"{compilers[0]} -std=c99 {WARNINGS} {ROOT}/examples/c/compress_array.c -o array {flags} && ./array")
    assert "libgridz" not in installed.run("ldd heat array")


def test_fortran(installed):
    include = installed.flags("--cflags", HDF5)
    libraries = installed.flags("--libs-only-L", HDF5) + " -lhdf5_fortran -lhdf5"
    installed.run(
        f"gfortran -std=f2018 {WARNINGS} -Wno-maybe-uninitialized $GRIDZ_PREFIX/include/gridz.f90 "
        f"$GRIDZ_PREFIX/include/gridz_hdf5.f90 {APPS}/heat.f90 -o heat {include} $(pkg-config --libs gridz) {libraries}"
    )
    restarts(installed, "./heat")


def test_cmake(installed):
    installed.run(
        f"cmake -S {APPS} -B build -DCMAKE_C_FLAGS='{WARNINGS}' -DCMAKE_CXX_FLAGS='{WARNINGS}' && cmake --build build"
    )
    for app in ["heat_c", "heat_cpp", "heat_cpp_static", "heat_f90"]:
        restarts(installed, f"build/{app}")


def test_cmake_refuses_another_series(installed):
    (installed.folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(gridz 0.2 REQUIRED)\n"
    )
    installed.run("cmake -S . -B build", status=1)


HDF5_MODULES = "$GRIDZ_PREFIX/include/gridz_hdf5.f90 $GRIDZ_PREFIX/include/gridz_bulk.f90"


@pytest.mark.parametrize(
    ("source", "compile"),
    [
        ("test_hpp.cpp", f"g++ -std=c++17 -g {WARNINGS} -fsanitize=address,undefined -fno-sanitize-recover=all"),
        ("test_hpp.cpp", f"g++ -std=c++20 -g {WARNINGS} -fsanitize=address,undefined -fno-sanitize-recover=all"),
        ("test_hdf5.cpp", f"g++ -std=c++17 -g {WARNINGS} $(pkg-config --cflags {HDF5})"),
        ("test_fortran.f90", "gfortran -std=f2018 -g -fcheck=all $GRIDZ_PREFIX/include/gridz.f90"),
        ("test_cci.cpp", f"g++ -std=c++17 -g {WARNINGS} -fsanitize=address,undefined -fno-sanitize-recover=all"),
        ("test_cci.f90", "gfortran -std=f2018 -g -fcheck=all $GRIDZ_PREFIX/include/gridz.f90 $GRIDZ_PREFIX/include/gridz_cci.f90"),
        ("test_bulk.f90", f"h5fc -shlib -std=f2018 -g -fcheck=all {HDF5_MODULES}"),
    ],
)
def test_every_procedure(installed, source, compile):
    """The C++ layer and the Fortran module, including invalid calls, under a sanitizer or with all
    runtime checks."""
    installed.run(
        f"{compile} {ROOT}/tests/installed/{source} -o test $(pkg-config --cflags --libs gridz {HDF5}) && ./test",
        ASAN_OPTIONS="detect_leaks=1",
    )


def test_sparse_matrix_in_a_kernel(installed, cuda):
    """The program whose kernel decodes columns; without a GPU, it only decodes on the CPU."""
    installed.run(
        f"{cuda['NVCC']} -std=c++17 -arch=sm_90 -Werror=all-warnings {ROOT}/examples/sparse/least.cu -o least "
        "-L$(dirname $NVCC)/../lib $(pkg-config --cflags --libs gridz) && (./least || [ $? = 77 ])",
        **cuda,
    )


def test_c_under_valgrind(installed):
    """Runs the C test of the library, which makes every invalid call, with the installed library
    under Valgrind."""
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind here")
    installed.run(
        f"gcc -std=c99 -O1 -g {WARNINGS} {ROOT}/tests/c_abi/test_gridz.c -o test $(pkg-config --cflags --libs gridz) "
        f"-lpthread -lm && valgrind --quiet --error-exitcode=9 --suppressions={ROOT}/tests/installed/valgrind.supp ./test",
        GRIDZ_CPU_LEVEL="avx2",
    )
