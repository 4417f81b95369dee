"""`gridz repack` on the HDF5 and netCDF files in the test data of Python packages.

Many programs and versions wrote the files: h5py, PyTables, netCDF-C, MATLAB, AnnData, NeXus, NWB and the software of
modelling centres. No file is refused, and a comparison that is independent of gridz finds no difference in any copy.
"""

import collections
import importlib.util
import pathlib
import shutil
import subprocess
import tarfile

import gridz
import pytest
from click.testing import CliRunner
from gridz.cli import main

import h5walk

INSTALLED = ("h5py", "tables", "xarray", "scipy.io")
"""Packages whose wheels contain their test data."""

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "target" / "corpus"
"""Source distributions of other packages, which `make test-python` downloads."""

LEAST = {"HDF5": 128, "classic": 9}
"""Minimum number of files of each kind; newer versions of the packages may have more."""


def kind_of(start: bytes) -> str | None:
    """The kind of a file, from its first bytes; None for other files."""
    if start[:3] == b"CDF":
        return "classic"
    places = [0, *(512 << i for i in range(7))]  # after a user block
    return "HDF5" if any(start[i : i + 8] == b"\x89HDF\r\n\x1a\n" for i in places) else None


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> dict[str, list[pathlib.Path]]:
    """Copies of all files, by their kind. The name of each begins with that of its package."""
    folder, found, names = tmp_path_factory.mktemp("corpus"), collections.defaultdict(list), collections.Counter()

    def add(package: str, name: str, stream) -> None:
        kind = kind_of(stream.read(1 << 16))
        if kind is not None:
            stream.seek(0)
            name = f"{package}-{name}"
            names[name] += 1
            path = folder / f"{names[name]}-{name}"
            with open(path, "wb") as copy:
                shutil.copyfileobj(stream, copy)
            found[kind].append(path)

    for package in INSTALLED:
        for root in importlib.util.find_spec(package).submodule_search_locations:
            for path in sorted(pathlib.Path(root).rglob("*")):
                if path.is_file() and path.suffix not in (".py", ".pyc", ".so"):
                    with open(path, "rb") as stream:
                        add(package, path.name, stream)
    for archive in sorted(SOURCES.glob("*.tar.gz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and not member.name.endswith((".py", ".pyx", ".c")):
                    add(archive.name.partition("-")[0], pathlib.PurePath(member.name).name, tar.extractfile(member))
    assert {kind: len(paths) >= LEAST[kind] for kind, paths in found.items()} == dict.fromkeys(LEAST, True), (
        f"{ {kind: len(paths) for kind, paths in found.items()} } files; make test-python downloads {SOURCES}"
    )
    return found


@pytest.mark.parametrize("codec", [None, "szp,abs=1e-3"], ids=["lossless", "bound"])
def test_hdf5(tmp_path, corpus, codec):
    """Minimum counts of each kind of object prove that the comparison reached it."""
    problems, counts, target = [], collections.Counter(), tmp_path / "copy"
    for source in corpus["HDF5"]:
        try:
            done = gridz.repack(source, target, codec)
        except Exception as error:  # of any kind: the other files are tried as well
            problems.append(f"{source.name}: refused: {type(error).__name__}: {error}")
            continue
        codecs = {dataset.path: gridz.parse(dataset.codec) for dataset in done if dataset.codec is not None}
        walk = h5walk.Walk({path: made.value for path, made in codecs.items()}).compare(source, target)
        problems += [f"{source.name}: {difference}" for difference in walk.differences]
        counts += walk.counts + collections.Counter(made.name for made in codecs.values())
    print(dict(counts))
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems[:50])
    least = {
        "files": LEAST["HDF5"], "datasets compared": 3500, "datasets compared as stored": 15, "groups": 900,
        "attributes": 9000, "links": 4000, "pointers": 8000, "elements": 40_000_000, "lorenzo": 10,
    }  # fmt: skip
    if codec is None:
        least |= {"lorenzo": 60}
    else:
        least |= {"szp": 50, "elements within a bound": 25_000_000, "missing elements": 100}
    assert {name: n for name, n in least.items() if counts[name] < n} == {}, counts


def test_classic_netcdf_is_refused_with_a_remedy_that_works(tmp_path, corpus):
    target, netcdf4 = tmp_path / "copy", tmp_path / "NEW.nc"
    for source in corpus["classic"]:
        done = CliRunner().invoke(main, ["repack", str(source), str(target)])
        assert done.exit_code == 3 and not target.exists(), (source.name, done.output)
        assert f"nccopy -k nc4 {source} NEW.nc" in done.stderr, (source.name, done.stderr)
        subprocess.run(["nccopy", "-k", "nc4", source, netcdf4], check=True)
        codecs = {dataset.path: 0.0 for dataset in gridz.repack(netcdf4, target) if dataset.codec is not None}
        walk = h5walk.Walk(codecs).compare(netcdf4, target)
        assert not walk.differences, (source.name, walk.differences)
        target.unlink()
