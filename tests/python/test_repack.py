"""`gridz repack`, `info`, `check`: everything in a file is preserved, damage is reported, and a
killed process leaves the old file intact."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import anndata
import gridz
import h5py
import netCDF4
import numpy as np
import pytest
from click.testing import CliRunner
from gridz.cli import main

import h5trees
import h5walk

SEEDS = range(int(os.environ.get("REPACK_SEEDS", 100)))
T = np.random.default_rng(1).normal(size=(30, 64, 64)).astype("f4").cumsum(0)


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, (done.output, done.stderr, done.exception)
    return done.stdout if code == 0 else done.output + done.stderr


def rubbish(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("seed", SEEDS)
def test_made_files(tmp_path, seed):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    h5trees.make(source, seed)
    before = source.read_bytes()
    done = gridz.repack(source, target, chunk=["keep", "auto", (8, 8)][seed % 3])
    assert source.read_bytes() == before and not rubbish(tmp_path)
    codecs = {dataset.path: 0.0 for dataset in done if dataset.codec is not None}
    assert h5walk.Walk(codecs).compare(source, target).differences == []
    with h5py.File(target) as file:
        for dataset in done:
            assert (gridz.filters.stored_codec(file[dataset.path]) is not None) == (dataset.codec is not None)
    gridz.repack(source, target, datasets={"*": "keep"})
    assert h5walk.Walk({}).compare(source, target).differences == []
    compared = subprocess.run(["h5diff", source, target], capture_output=True, text=True)
    assert "differences found" not in compared.stdout.replace("0 differences found", ""), compared.stdout


DATA = pathlib.Path(os.environ.get("GRIDZ_SHARED") or pathlib.Path(__file__).resolve().parents[3] / "shared") / "data"
FILES = [path for path in sorted(DATA.glob("*__orig__*")) if path.suffix in (".hdf5", ".h5ad", ".nc") and h5py.is_hdf5(path)]


@pytest.mark.skipif(not FILES, reason="no reference data")
@pytest.mark.parametrize("chunk", ["keep", "auto"])
@pytest.mark.parametrize("source", FILES, ids=lambda path: path.suffix[1:])
def test_files_of_others(tmp_path, source, chunk):
    """Files of LIGO (HDF5), the Met Office (netCDF) and AnnData: the copies are equal for each
    format's tools and readers."""
    target = tmp_path / source.name
    assert any(done.codec is not None for done in gridz.repack(source, target, chunk=chunk))
    environment = {**os.environ, "HDF5_PLUGIN_PATH": str(gridz.PLUGIN_PATH)}
    show = lambda *command: subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    copy = shutil.copy(source, tmp_path / "copy")  # h5diff cannot compare some objects with themselves
    assert show("h5diff", "-c", source, target) == show("h5diff", "-c", source, copy)
    if source.suffix == ".nc":
        assert show("ncdump", source) == show("ncdump", target)
    if source.suffix == ".h5ad":
        before, after = anndata.read_h5ad(source), anndata.read_h5ad(target)
        assert before.shape == after.shape and (before.X != after.X).sum() == 0
        assert before.obs.equals(after.obs) and before.var.equals(after.var)
        assert before.uns.keys() == after.uns.keys() and all((before.obsm[k] == after.obsm[k]).all() for k in before.obsm)


def test_codecs_and_rules(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file["t"], file["n"], file["lat"] = T, np.arange(30_000), np.linspace(0, 1, 9000)
        file["lat"].make_scale("lat")
        file.create_dataset("g/z", data=T, chunks=(30, 64, 64), compression="gzip")
        file.create_dataset("g/lossy", data=T, chunks=(30, 64, 64), **gridz.Quant(abs=0.5))
        file.create_dataset("g/so", data=T, chunks=(30, 64, 64), scaleoffset=2)
        file["small"] = np.arange(10.0)
    out = json.loads(run("repack", source, target, "--rel", "1e-3", "--dataset", "z=quant,abs=0.25", "--json"))
    codecs = {d["path"]: d["codec"] for d in out["datasets"]}
    lossless = str(gridz.codec(None))
    assert codecs["/n"] == codecs["/lat"] == lossless and codecs["/g/z"] == str(gridz.Quant(abs=0.25))
    assert codecs["/g/lossy"] is codecs["/g/so"] is codecs["/small"] is None
    assert gridz.parse(codecs["/t"]).value == pytest.approx(np.ptp(T) * 1e-3, rel=1e-6)
    with h5py.File(target) as file:
        assert 0 < np.abs(file["t"][...] - T.astype("f8")).max() <= gridz.parse(codecs["/t"]).value
        assert 0 < np.abs(file["g/z"][...] - T.astype("f8")).max() <= 0.25
    run("repack", source, target, code=3)
    assert "--force" in run("repack", source, target, code=3)
    assert "cannot be compressed" in run("repack", source, target, "--force", "--dataset", "n=quant,pwrel=1e-3", code=2)
    assert "GLOB=CODEC" in run("repack", source, target, "--dataset", "n", code=2)
    assert not rubbish(tmp_path)


def test_in_place_keeps_mode_and_follows_links(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["t"] = T
    path.chmod(0o640)
    (tmp_path / "link.h5").symlink_to(path)
    assert "1 datasets compressed" in run("repack", tmp_path / "link.h5", path)
    assert path.stat().st_mode & 0o777 == 0o640 and not path.is_symlink() and (tmp_path / "link.h5").is_symlink()
    assert path.stat().st_size < 0.95 * T.nbytes
    with h5py.File(path) as file:
        assert (file["t"][...] == T).all()


def test_what_is_no_hdf5(tmp_path):
    (tmp_path / "c.nc").write_bytes(b"CDF\x01" + bytes(100))
    (tmp_path / "x").write_bytes(b"hello")
    assert "nccopy -k nc4" in run("repack", tmp_path / "c.nc", tmp_path / "y", code=3)
    for command in (["info"], ["check"], ["repack", tmp_path / "x"]):
        assert "not an HDF5 file" in run(*command, tmp_path / "x", code=3)


def test_info_and_check(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=T, chunks=(8, 64, 64), **gridz.Quant(abs=1e-2))
        file.create_dataset("z", data=T, chunks=(8, 64, 64), compression="gzip", fletcher32=True)
        file["s"], file["one"] = ["a", "bc"], 5
        places = [file[name].id.get_chunk_info(2) for name in "tz"]
    found = {d["path"]: d for d in json.loads(run("info", path, "--json"))["datasets"]}
    assert found["/t"]["codec"] == str(gridz.Quant(abs=1e-2)) and found["/t"]["bound"] == pytest.approx(1e-2)
    assert found["/t"]["sampled_chunks"] == 4 and sum(found["/t"]["blocks"].values()) > 0
    assert set(found["/z"]["filters"]) == {"gzip", "fletcher32"} and found["/z"]["ratio"] > 1
    assert "/t" in run("info", path) and "0 parts damaged" in run("check", path)
    with open(path, "r+b") as file:
        for place in places:
            file.seek(place.byte_offset + place.size // 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 16]))
    damaged = json.loads(CliRunner().invoke(main, ["check", str(path), "--json"]).stdout)["damaged"]
    assert [(d["path"], d["start"]) for d in damaged] == [("/t", [16, 0, 0]), ("/z", [16, 0, 0])]
    assert "2 parts damaged" in run("check", path, code=1)
    before = path.read_bytes()
    run("repack", path, path, "--dataset", "*=lorenzo", code=1)
    assert path.read_bytes() == before and not rubbish(tmp_path)


def test_killed_at_any_time(tmp_path):
    path, random_ = tmp_path / "a.h5", random.Random(5)
    with h5py.File(path, "w") as file:
        for i in range(40):
            file[f"t{i}"] = np.tile(T, (2, 2, 2))
    before = path.read_bytes()
    command = [pathlib.Path(sys.executable).with_name("gridz"), "repack", path, path]
    killed = 0
    for _ in range(20):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random_.uniform(0.2, 1.2))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        assert not rubbish(tmp_path)
        if path.read_bytes() != before:  # the repacking was complete
            with h5py.File(path) as file:
                assert all((file[f"t{i}"][...] == np.tile(T, (2, 2, 2))).all() for i in range(40))
            path.write_bytes(before)
    assert killed >= 5


def test_netcdf(tmp_path):
    source, target = tmp_path / "a.nc", tmp_path / "b.nc"
    with netCDF4.Dataset(source, "w") as file:
        for name, extent in (("z", None), ("b", 64), ("a", 64)):
            file.createDimension(name, extent)
            file.createVariable(name, "f8", (name,))[:] = np.arange(extent or 30)
        file.createDimension("alone", 7)
        file.createVariable("t", "f4", ("z", "b", "a"), zlib=True, fill_value=-9)[:] = T
        file["t"].units = "K"
        file.createVariable("name", str, ("b",))[:] = np.array(["x"] * 64, object)
        pair = file.createCompoundType(np.dtype([("x", "f4"), ("y", "i4")]), "pair")
        file.createVariable("pairs", pair, ("b",))[:] = np.zeros(64, pair.dtype)
        file.createGroup("inner").createVariable("u", "i2", ("z", "a"))[:] = T[:, 0] * 10
    assert {d.path for d in gridz.repack(source, target) if d.codec} == {"/t"}
    with netCDF4.Dataset(source) as one, netCDF4.Dataset(target) as two:
        assert described(one) == described(two) and len(described(one)) == 12
        assert (one["t"][...] == two["t"][...]).all()


def described(group):
    """Dimensions, variables, types and attributes of a netCDF group, in the file's order."""
    lines = [f"{d.name} = {d.size} {d.isunlimited()}" for d in group.dimensions.values()]
    lines += [f"type {name} {kind.dtype}" for name, kind in group.cmptypes.items()]
    for name, variable in group.variables.items():
        values = variable[...].tobytes() if variable.dtype is not str else list(variable[...])
        lines.append((name, str(variable.dtype), variable.dimensions, variable.__dict__, values))
    return lines + [(name, described(inner)) for name, inner in group.groups.items()]


def test_a_filter_that_is_not_here(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    made = f"import h5py, hdf5plugin, numpy; f = h5py.File({str(source)!r}, 'w'); f['t'] = numpy.arange(9000.0)\n"
    made += "d = f.create_dataset('z', data=f['t'][...], chunks=(4000,), **hdf5plugin.Zstd()); d.attrs['t'] = f['t'].ref"
    subprocess.run([sys.executable, "-c", made], check=True)
    command = [pathlib.Path(sys.executable).with_name("gridz"), "repack", source, target]  # without hdf5plugin
    assert "1 datasets compressed" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    with h5py.File(source) as one, h5py.File(target) as two:
        stored = [[file["z"].id.read_direct_chunk((place,)) for place in (0, 4000, 8000)] for file in (one, two)]
        assert stored[0] == stored[1] and two[two["z"].attrs["t"]] == two["t"]
    done = subprocess.run([*command, "--force", "--dataset", "z=ndzip"], capture_output=True, text=True)
    assert done.returncode == 4 and "/z needs Zstandard (32015), which is not available here; install the plugin" in done.stderr


WRITE_ZFP = """
import h5py, hdf5plugin, numpy as np, sys
rng = np.random.default_rng(0)
modes = dict(rate=dict(rate=7.5), precision=dict(precision=14), accuracy=dict(accuracy=1e-3), lossless=dict(reversible=True),
             expert=dict(minbits=1, maxbits=900, maxprec=20, minexp=-20))
with h5py.File(sys.argv[1], "w") as file:
    for dtype, shape, chunks in [("f4", (20, 33, 17), (8, 33, 17)), ("f8", (400, 300), (100, 100)), ("f4", (5000,), (1024,)),
                                 ("f8", (9, 10, 11, 6), (4, 10, 11, 6)), ("i4", (70, 80), (64, 64)), ("i8", (1, 70, 1, 80), (1, 64, 1, 64))]:
        data = (rng.normal(size=shape).cumsum(axis=len(shape) - 1) * (1000 if dtype[0] == "i" else 1)).astype(dtype)
        for name, options in modes.items():
            if dtype[0] == "i" and name in ("accuracy", "expert"):
                continue
            file.create_dataset(f"{dtype}, {len(shape)}-D, {name}", data=data, chunks=chunks, **hdf5plugin.Zfp(**options))
with h5py.File(sys.argv[1]) as file:
    np.savez(sys.argv[2], **{path: dataset[...] for path, dataset in file.items()})
"""


def test_zfp_of_others_is_read_without_its_plugin(tmp_path):
    source, target, values = tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "values.npz"
    subprocess.run([sys.executable, "-c", WRITE_ZFP, source, values], check=True)
    gridz_command = lambda *args: subprocess.run(
        [sys.executable, "-m", "gridz", *map(str, args)], check=True, capture_output=True, text=True
    ).stdout
    found = {d["path"][1:]: d["filters"] for d in json.loads(gridz_command("info", source, "--json"))["datasets"]}
    assert found["f4, 3-D, rate"] == ["ZFP rate=7.5"] and found["f8, 2-D, lossless"] == ["ZFP lossless"]
    assert found["f4, 1-D, precision"] == ["ZFP precision=14"] and found["f8, 4-D, accuracy"] == ["ZFP abs=0.000976562"]
    assert found["f4, 3-D, expert"] == ["ZFP minbits=1,maxbits=900,maxprec=20,minexp=-20"]
    done = json.loads(gridz_command("repack", source, target, "--dataset", "*=lorenzo", "--json"))
    assert all(d["codec"].startswith("lorenzo") for d in done["datasets"]) and len(done["datasets"]) == len(found) == 26
    with h5py.File(target) as file, np.load(values) as expected:
        for path in found:
            assert file[path][...].tobytes() == expected[path].tobytes(), path


READ_BIG_ENDIAN = """
import gridz, h5py, sys
from h5py import h5d, h5p, h5s, h5t
with h5py.File(sys.argv[1]) as source, h5py.File(sys.argv[2], "w") as file:
    before = source["f8, 2-D, rate"]
    for name, kind in ("little", h5t.IEEE_F64LE), ("big", h5t.IEEE_F64BE):
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk(before.chunks)
        plist.set_filter(32013, h5py.h5z.FLAG_OPTIONAL, before.id.get_create_plist().get_filter(0)[2])
        made = h5d.create(file.id, name.encode(), kind, h5s.create_simple(before.chunks), plist)
        made.write_direct_chunk((0, 0), before.id.read_direct_chunk((0, 0))[1])
    first = before.chunks
    assert (gridz.h5.read(file["little"]) == gridz.h5.read(before)[: first[0], : first[1]]).all()
    try:
        gridz.h5.read(file["big"])
    except gridz.Error as error:
        print(error)
"""


def test_zfp_in_an_order_that_its_filter_never_writes_is_left_to_hdf5(tmp_path):
    source, values = tmp_path / "a.h5", tmp_path / "values.npz"
    subprocess.run([sys.executable, "-c", WRITE_ZFP, source, values], check=True)
    command = [sys.executable, "-c", READ_BIG_ENDIAN, source, tmp_path / "b.h5"]
    assert "H5Dread" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
