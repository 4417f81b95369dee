"""`gridz repack` on the HDF5 and netCDF files in the test data of Python packages.

Many programs and versions wrote the files: h5py, PyTables, netCDF-C, MATLAB, AnnData, NeXus, NWB
and the software of modeling centers. No file is refused, and a comparison that is independent of
gridz finds no difference in any copy.
"""

import collections
import importlib.util
import pathlib
import shutil
import subprocess
import tarfile

import gridz
import h5py
import numpy as np
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
    """Copies of all files, by their kind. Each name begins with that of its package."""
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


@pytest.mark.parametrize("codec", [None, "quant,abs=1e-3"], ids=["lossless", "bound"])
def test_hdf5(tmp_path, corpus, codec):
    """Minimum counts of each kind of object prove that the comparison covered it."""
    problems, counts, target = [], collections.Counter(), tmp_path / "copy"
    for source in corpus["HDF5"]:
        try:
            done = gridz.repack(source, target, codec)
        except Exception as error:  # of any kind: continue with the other files
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
        least |= {"quant": 50, "elements within a bound": 25_000_000, "missing elements": 100}
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


def make_small(path, changed: str = "") -> None:
    """A file with one object of each kind; `changed` names the one that differs."""
    pick = lambda name, usual, other: other if name == changed else usual  # noqa: E731
    padded = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 16})
    with h5py.File(path, "w", track_order=True, userblock_size=pick("user block", 0, 512)) as file:
        for name in pick("order of links", "xy", "yx"):
            file.create_group(name)
        file["x"].attrs["text"] = pick("attribute", "ab", "ac")
        file["x"].attrs["number"] = np.array(5, pick("type of an attribute", "i4", "i8"))
        file["x/soft"] = h5py.SoftLink(pick("soft link", "/x", "/y"))
        file["x/external"] = h5py.ExternalLink("other.h5", pick("external link", "/x", "/y"))
        file["x/hard"] = file[pick("hard link", "/x", "/y")]
        values = np.arange(40.0)
        values[7] += pick("element", 0, 1e-9)
        fill = pick("fill value", -9.0, 0.0)
        limits = {"chunks": (pick("chunks", 10, 20),), "maxshape": (pick("extents", 40, 80),)}
        file.create_dataset("d", data=values, fillvalue=fill, **limits)
        texts = [b"a", pick("element of variable length", b"bc", b"b")]
        file.create_dataset("texts", data=texts, dtype=h5py.string_dtype("ascii"))
        rows = np.zeros(3, padded)
        rows["b"][2] = pick("member", 1, 2)
        file["rows"] = rows
        file["references"] = np.array([file[pick("reference", "x", "y")].ref], h5py.ref_dtype)
        region = file["d"].regionref[2 : pick("region", 5, 6)]
        file["regions"] = np.array([region], h5py.regionref_dtype)
        file["type"] = np.dtype(pick("named type", "f4", "f8"))
        file.create_dataset("typed", (2,), file["type"] if pick("name of a type", 1, 0) else "f4")
        file.create_dataset("z", data=values, compression="gzip", compression_opts=pick("filter", 1, 2))


CHANGES = [
    "user block", "order of links", "attribute", "type of an attribute", "soft link", "external link", "hard link",
    "element", "fill value", "chunks", "extents", "element of variable length", "member", "reference", "region",
    "named type", "name of a type", "filter",
]  # fmt: skip


@pytest.mark.parametrize("changed", ["", *CHANGES])
def test_the_comparison_finds_each_difference(tmp_path, changed):
    make_small(tmp_path / "a.h5")
    make_small(tmp_path / "b.h5", changed)
    found = h5walk.Walk({}).compare(tmp_path / "a.h5", tmp_path / "b.h5").differences
    assert bool(found) == bool(changed), found


@pytest.mark.parametrize("bound, changed, finds", [
    (0.0, 7, "elements"), (0.5, 7, None), (0.4, 7, "an error of 0.5"), (9.0, 3, "missing"), (99.0, 5, "missing"),
])  # fmt: skip
def test_the_comparison_knows_bounds_and_missing_elements(tmp_path, bound, changed, finds):
    """Element 3 has the fill value in the first file. In the second one it does not, or element 5
    has it too."""
    data = np.arange(40.0)
    data[3] = -9
    other = data.copy()
    other[changed] = {3: -8, 5: -9, 7: 7.5}[changed]
    for name, values in (("a", data), ("b", other)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("d", data=values, fillvalue=-9.0)
    found = h5walk.Walk({"/d": bound}).compare(tmp_path / "a.h5", tmp_path / "b.h5").differences
    assert found == [] if finds is None else finds in found[0]
