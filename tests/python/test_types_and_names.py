"""Datasets of any type, layout and name: `info`, `check`, `repack` and `bench` list, read and
preserve them all."""

import json
import os
import pathlib
import subprocess
import sys

import gridz
import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from gridz.cli import main
from h5py import h5d, h5p, h5s, h5t

N = 200
"""Number of elements of each dataset."""


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == code, (done.output, done.stderr)
    return done


def quad():
    kind = h5t.IEEE_F64LE.copy()
    kind.set_size(16)
    kind.set_precision(128)
    kind.set_fields(127, 112, 15, 0, 112)
    kind.set_ebias(16383)
    return kind


def small_float():
    """Four bytes, but not IEEE: the exponent bias is smaller by 8."""
    kind = h5t.IEEE_F32LE.copy()
    kind.set_ebias(119)
    return kind


def bfloat16():
    kind = h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_precision(16)
    kind.set_size(2)
    return kind


def integer(size, precision=None, base=h5t.STD_I64LE):
    kind = base.copy()
    kind.set_size(max(size, 8))
    kind.set_precision(precision or 8 * min(size, 8))
    kind.set_size(size)
    return kind


def opaque(tag):
    kind = h5t.create(h5t.OPAQUE, 7)
    kind.set_tag(tag)
    return kind


def compound(size, **members):
    """A compound type; members are an offset and a type, and the rest is padding."""
    kind = h5t.create(h5t.COMPOUND, size)
    for name, (place, member) in members.items():
        kind.insert(name.encode(), place, member)
    return kind


def enumeration(base):
    kind = h5t.enum_create(base)
    kind.enum_insert(b"a", 1)
    kind.enum_insert(b"b", 7)
    return kind


PADDED = compound(16, a=(0, h5t.STD_I8BE), b=(8, h5t.IEEE_F64BE))
TYPES = {
    "array": h5t.array_create(h5t.IEEE_F32LE, (3,)),
    "array of arrays": h5t.array_create(h5t.array_create(h5t.STD_I16BE, (2,)), (2, 2)),
    "array of compounds": h5t.array_create(PADDED, (2,)),
    "array of times": h5t.array_create(h5t.UNIX_D32LE, (2,)),
    "time 32": h5t.UNIX_D32LE,
    "time 64 big-endian": h5t.UNIX_D64BE,
    "float 128": quad(),
    "float 32 of another bias": small_float(),
    "long double": h5t.NATIVE_LDOUBLE,
    "bfloat16": bfloat16(),
    "one half": h5t.IEEE_F16BE,
    "integer 24": integer(3),
    "integer 24 big-endian": integer(3, base=h5t.STD_I64BE),
    "integer 20 in 32": integer(4, 20),
    "integer 128": integer(16),
    "opaque": opaque(b""),
    "opaque with a tag": opaque(b"raw \x1b[31m"),
    "bits 8": h5t.STD_B8LE,
    "bits 64 big-endian": h5t.STD_B64BE,
    "enumeration": enumeration(h5t.STD_I32LE),
    "enumeration of 3 bytes": enumeration(integer(3)),
    "padded compound": PADDED,
    "padded compound, one byte": compound(16, a=(0, h5t.STD_U8BE), b=(8, h5t.IEEE_F64BE)),
    "compound in a compound": compound(40, x=(4, PADDED), y=(24, h5t.array_create(PADDED, (1,)))),
    "compound with a time": compound(12, a=(0, h5t.STD_I32LE), b=(8, h5t.UNIX_D32LE)),
    "compound with bits": compound(9, a=(0, h5t.STD_I32LE), b=(8, h5t.STD_B8BE)),
    "compound with a quad": compound(24, a=(0, h5t.STD_I32LE), b=(8, quad())),
    "complex compound": h5t.py_create(np.dtype("c8")),
    "strings": h5t.py_create(np.dtype("S5")),
    "one double": h5t.IEEE_F64LE,
    "one short, big-endian": h5t.STD_I16BE,
    "one byte, big-endian": h5t.STD_I8BE,
}
if hasattr(h5t, "COMPLEX_IEEE_F32LE"):
    TYPES["complex of HDF5 2"] = h5t.COMPLEX_IEEE_F32LE


def layouts():
    """Yields name, creation properties, and the number of elements that are written."""
    yield "contiguous", h5p.create(h5p.DATASET_CREATE), N
    compact = h5p.create(h5p.DATASET_CREATE)
    compact.set_layout(h5d.COMPACT)
    yield "compact", compact, N
    for name, n, fill in (("chunks", N, None), ("some chunks", 70, None), ("no chunks", 0, None), ("gzip", N, "gzip")):
        create = h5p.create(h5p.DATASET_CREATE)
        create.set_chunk((30,))
        if fill:
            create.set_shuffle()
            create.set_deflate(1)
            create.set_fletcher32()
        yield name, create, n
    yield "contiguous, not written", h5p.create(h5p.DATASET_CREATE), 0


CONVENTIONS = (
    b"units",
    b"_FillValue",
    b"axis",
    b"missing_value",
    b"coordinates",
    b"valid_range",
    b"standard_name",
    b"bounds",
    b"valid_min",
)
"""Attributes with a meaning in netCDF; here they have elements of any type."""


def make_types(path, attributes=CONVENTIONS):
    """Writes a file with all types in all layouts, of random bytes; returns the number of its
    datasets."""
    rng, made = np.random.default_rng(3), 0
    with h5py.File(path, "w", libver="latest") as file:
        for type_name, kind in TYPES.items():
            group = file.create_group(type_name)
            for layout, create, n in layouts():
                dataset = h5d.create(group.id, layout.encode(), kind, h5s.create_simple((N,)), create)
                data = np.frombuffer(rng.bytes(N * kind.get_size()), np.uint8).copy()
                if n:
                    place = h5s.create_simple((N,))
                    place.select_hyperslab((0,), (n,))
                    dataset.write(h5s.create_simple((n,)), place, data, mtype=kind)
                made += 1
            for name in (b"any", *attributes[made // 7 % 3 :: 3]):
                attribute = h5py.h5a.create(dataset, name, kind, h5s.create_simple((3,)))
                attribute.write(np.frombuffer(rng.bytes(3 * kind.get_size()), np.uint8).copy(), mtype=kind)
        kind = h5t.IEEE_F64LE
        for name, space in (
            ("null", h5s.create(h5s.NULL)),
            ("scalar", h5s.create(h5s.SCALAR)),
            ("none", h5s.create_simple((0, 4))),
        ):
            h5d.create(file.id, name.encode(), kind, space)
            made += 1
        file["named type"] = np.dtype([("x", "i4"), ("y", "f8")])
        file.create_dataset("of a named type", (9,), file["named type"])
        file.create_dataset("sequences", (5,), h5py.vlen_dtype("i2"))[2] = [1, 2, 3]
        file.create_dataset("texts", data=["a", "", "ä" * 99], dtype=h5py.string_dtype())
        inner = h5t.vlen_create(h5t.UNIX_D32LE)
        h5d.create(file.id, b"sequences of times", inner, h5s.create_simple((5,)))
        file.create_dataset("reference", data=file["texts"].ref)
        layout = h5py.VirtualLayout((10,), "f8")
        layout[...] = h5py.VirtualSource("not there.h5", "x", (10,))
        file.create_virtual_dataset("virtual", layout, fillvalue=3)
        file["plain"] = np.arange(5000.0)
        made += 7
    return made


def attributes(owner):
    """Names, types and bytes."""
    found = []
    for i in range(h5py.h5a.get_num_attrs(owner)):
        attribute = h5py.h5a.open(owner, index=i)
        kind = attribute.get_type()
        rows = np.zeros(attribute.get_space().get_simple_extent_npoints() * kind.get_size(), np.uint8)
        attribute.read(rows, mtype=kind)
        found.append((attribute.name, h5t.TypeID.encode(kind), rows.tobytes()))
    return found


def stored(path):
    """For each dataset: its type, its elements by H5Dread in that type (with padding), and the
    offsets of its stored chunks."""
    found = {}
    with h5py.File(path) as file:

        def note(name, item):
            if not isinstance(item, h5py.Dataset) or item.is_virtual or item.shape is None:
                return
            kind = item.id.get_type()
            if (
                kind.get_class() in (h5t.VLEN, h5t.REFERENCE)
                or kind.get_class() == h5t.STRING
                and kind.is_variable_str()
            ):
                return
            rows = np.zeros(item.size * kind.get_size(), np.uint8)
            if item.size:
                item.id.read(h5s.ALL, h5s.ALL, rows, mtype=kind)
            chunked = name.rpartition("/")[2] in ("chunks", "some chunks", "no chunks", "gzip")
            infos = [item.id.get_chunk_info(i) for i in range(item.id.get_num_chunks())] if chunked else []
            places = sorted(info.chunk_offset for info in infos)
            found[name] = (h5t.TypeID.encode(kind), rows.tobytes(), places, attributes(item.id))

        file.visititems(note)
    return found


def test_every_type_and_layout(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    made = make_types(source)
    assert made == len(TYPES) * 7 + 10
    before = stored(source)
    assert len(before) == len(TYPES) * 7 + 4
    assert sum(len(names) for *_, names in before.values()) == len(TYPES) * 4
    for rules in ({}, {"*": "lorenzo"}, {"*": "stored"}, {"*": "keep"}):
        done = gridz.repack(source, target, datasets=rules)
        assert len(done) == made and stored(target) == before, rules
        changed = {d.path for d in done if d.codec}
        assert ("/plain" in changed) == (rules != {"*": "keep"})
        with h5py.File(target) as file:
            assert list(file["sequences"][2]) == [1, 2, 3] and file[file["reference"][()]] == file["texts"]
            assert [text.decode() for text in file["texts"][...]] == ["a", "", "ä" * 99]
    assert len(changed) == 0
    shown = json.loads(run("info", source, "--json").stdout)["datasets"]
    assert len(shown) == made and not any("error" in d for d in shown) and all(d["dtype"] for d in shown)
    assert f"{made} datasets read, 0 parts damaged" in run("check", source).stdout
    assert "plain" in run("bench", source, "--codec", "lorenzo", "--repeats", 1).stdout


@pytest.mark.parametrize("rule", ["quant,abs=1e-3", "zfp,rate=8"])
def test_lossy_rules_are_for_numbers_only(tmp_path, rule):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    make_types(source, attributes=())
    before = stored(source)
    kept = {name for name in before if name.partition("/")[0] not in ("one double", "array", "plain", "none", "scalar")}
    done = gridz.repack(source, target, datasets={"*": "keep", "/one double/*": rule, "/array/*": rule, "plain": rule})
    assert sum(d.codec is not None for d in done) == 2 * 7 + 1
    after = stored(target)
    assert len(kept) >= 180 and all(after[name] == before[name] for name in kept)


def test_damage_in_one_dataset_keeps_no_other_from_being_read(tmp_path):
    path = tmp_path / "a.h5"
    make_types(path)
    with h5py.File(path, "a", libver="latest") as file:
        file.create_dataset("zz", data=np.arange(9000.0), chunks=(1000,), **gridz.Lorenzo())
        place = file["zz"].id.get_chunk_info(3)
        file["gzip"] = np.arange(9.0)
        header = h5py.h5o.get_info(file["gzip"].id).addr
    before = path.read_bytes()
    with open(path, "r+b") as file:
        file.seek(place.byte_offset + place.size // 2)
        file.write(b"\xaa\x55\xaa")
        file.seek(header)
        file.write(b"xxxx")
    assert path.read_bytes() != before
    shown = run("info", path, code=1)
    assert shown.stdout.count("\n") == len(TYPES) * 7 + 10 + 2 + 1
    assert "/gzip:" in shown.stderr and f"{path}: /zz: chunk (3000,)" in shown.stderr
    checked = run("check", path, code=1).stdout
    assert "/zz, from element (3000,) on" in checked and "2 parts damaged" in checked
    assert f"{path}: /gzip cannot be copied" in run("repack", path, tmp_path / "b.h5", code=1).output
    run("bench", path, "--codec", "lorenzo", "--repeats", 1, code=1)


def test_damaged_chunks_are_named_by_repack(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, options in ("x", gridz.Quant(abs=0.1)), ("z", {"compression": "gzip"}):
            file.create_dataset(name, data=np.arange(9000.0) ** 1.5, chunks=(1000,), **options)
        places = [file[name].id.get_chunk_info(3) for name in "xz"]
    damaged = path.read_bytes()
    for name, place in zip("xz", places):
        (tmp_path / name).write_bytes(damaged)
        with open(tmp_path / name, "r+b") as file:
            file.seek(place.byte_offset + place.size // 2)
            file.write(b"\xaa\x55\xaa")
        said = run("repack", tmp_path / name, tmp_path / "b.h5", "--dataset", f"{name}=lorenzo", code=1).stderr
        assert f"gridz: {tmp_path / name}: /{name} cannot be copied: chunk (3000,): " in said


MODES = ["zfp,rate=8", "zfp,precision=20", "zfp,expert,minbits=1,maxbits=900,maxprec=20,minexp=-20", "multigrid,rms=1e-2",
         "multigrid,rms=1e-2,s=-1", "zfp,abs=1e-3", "multigrid,abs=1e-3", "quant,pwrel=1e-3"]  # fmt: skip


@pytest.mark.parametrize("codec", MODES)
@pytest.mark.parametrize("chunk", ["keep", "auto", "7,16,16"])
def test_modes(tmp_path, codec, chunk):
    """Whole and cut chunks, some of them never written, with and without a fill value."""
    source, target, rng = tmp_path / "a.h5", tmp_path / "b.h5", np.random.default_rng(0)
    x = rng.normal(size=(20, 33, 40)).cumsum(0)
    with h5py.File(source, "w") as file:
        for name, dtype, options in [
            ("f4", "f4", {}),
            ("f8", ">f8", {"fillvalue": -999.0}),
            ("plain", "f4", {"chunks": None}),
        ]:
            file.create_dataset(name, (20, 33, 40), dtype, **{"chunks": (8, 16, 16), **options})[...] = x
        file.create_dataset("sparse", (64, 64, 64), "f4", chunks=(8, 16, 16))[9:30, 5:20, 20] = 7
        file["text"] = "kept"
    out = json.loads(run("repack", source, target, "--dataset", f"*={codec}", "--chunk", chunk, "--json").stdout)
    done = {d["path"]: d["codec"] for d in out["datasets"]}
    assert (
        done.pop("/text") is None and len(done) == 4 and all(c.startswith(codec.split(",")[0]) for c in done.values())
    )
    with h5py.File(source) as one, h5py.File(target) as two:
        for path in done:
            error = np.abs(one[path][...].astype("f8") - two[path][...])
            assert error.max() < 1 and (path == "/sparse" or error.max() > 0)
            if codec == "multigrid,rms=1e-2" and path != "/sparse":
                assert np.sqrt((error**2).mean()) <= 1.5e-2


def test_codecs_that_cannot_be_are_refused_before_the_work(tmp_path):
    source, begun = tmp_path / "a.h5", []
    with h5py.File(source, "w") as file:
        file["a"], file["n"] = np.arange(9000.0), np.arange(9000, dtype="i2")
    for rule in ("zfp,rate=8", "multigrid,rms=1e-2", "quant,pwrel=1e-3"):
        with pytest.raises(gridz.Error, match="/n cannot be compressed with"):
            gridz.repack(source, tmp_path / "b.h5", datasets={"*": rule}, progress=begun.append)
    assert not begun and os.listdir(tmp_path) == ["a.h5"]


def test_what_was_never_written_takes_no_time_and_no_space(tmp_path):
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("empty", (8 << 30,), "f8", chunks=(1 << 16,), fillvalue=5.0)
        file.create_dataset("one", (4096, 2048, 1024), "f8", chunks=(16, 64, 64))[17, 100, 100] = 3
        file.create_dataset("texts", (1 << 33,), h5py.string_dtype(), chunks=(1000,))[5_000_000] = "x"
    reads = []
    counted = lambda function: (
        lambda *args, **kwargs: reads.append(np.prod(kwargs.get("count") or 0)) or function(*args, **kwargs)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gridz.h5, "read", counted(gridz.h5.read))
        for codec in (None, "quant,abs=1e-3", "quant,rel=1e-3", "zfp,rate=8"):
            reads.clear()
            done = {d.path: d for d in gridz.repack(source, target, codec)}
            assert 0 < sum(reads) <= 8 * 16 * 64 * 64 and target.stat().st_size < 1 << 20
            assert done["/empty"].codec and done["/one"].codec and not done["/texts"].codec
            with h5py.File(target) as file:
                assert file["empty"][12345] == 5 and file["texts"][5_000_000] == b"x"
                assert abs(file["one"][17, 100, 100] - 3) < 0.01 and file["one"].id.get_num_chunks() == 1
    assert "3 datasets read" in run("check", target).stdout and "texts" in run("info", target).stdout


NAMES = [b"temp\xe9rature", b"gr\xfcn", b"a\x1b[31mRED\x1b]0;owned\x07", b"line\nfake: all read back and compared",
         "\x9b31m".encode(), "\u202egpj.exe".encode(), b"\xff\xfe", b"tab\there", "日本 é".encode()]  # fmt: skip


def test_names_are_kept_and_never_steer_a_terminal(tmp_path):
    source, target = tmp_path / "a\x1b[31m\nb.h5", tmp_path / "b\u202e.h5"
    with h5py.File(source, "w") as file:
        for name in NAMES:
            group = file.create_group(name)
            group.create_dataset(name, data=np.arange(20_000.0), chunks=(5000,), **gridz.Lorenzo())
            group.attrs["x"] = np.zeros((2,), [("\x1b]0;x\x07", "i4")])
            group.create_dataset("c", (3,), [("\x1b]0;x\x07", "i4"), ("padded", "f8")])
    python = [sys.executable, "-m", "gridz"]
    outputs = 0
    for arguments, code in [
        (["info", source], 0), (["check", source], 0), (["repack", source, target], 0), (["info", target, "--json"], 0),
        (["repack", source, target], 3), (["bench", source, "--codec", "lorenzo", "--repeats", "1"], 0),
        (["bench", source, "--dataset", "a\x1b[31mb"], 2),
        (["repack", source, target, "--force", "--dataset", "*=quant,pwrel=2"], 2),
        (["info", tmp_path / "no\x1b[31m"], 2), (["repack", source, tmp_path / "no\x1b[31m" / "c"], 3),
        (["repack", source, target, "--force", "--json"], 0), (["check", target, "--json"], 0),
    ]:  # fmt: skip
        done = subprocess.run(
            [*python, *arguments], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"}
        )
        assert done.returncode == code, (arguments, done.stderr)
        text = (done.stdout + done.stderr).decode()  # must be UTF-8
        bad = [c for c in text if not c.isprintable() and c != "\n"]
        assert not bad and "\nfake" not in text, (arguments, bad)
        outputs += len(text) > 50
    assert outputs >= 11
    names = json.loads(run("info", target, "--json").stdout)["datasets"]
    found = {d["path"].rpartition("/")[2].encode(errors="surrogateescape") for d in names}
    assert found == {*NAMES, b"c"} and len(names) == 2 * len(NAMES)
    with h5py.File(target) as file:
        read = [(file[name][name][...] == np.arange(20_000.0)).all() for name in NAMES]
    assert read == [True] * len(NAMES)


def test_missing_filters_are_one_line_each(tmp_path):
    pytest.importorskip("hdf5plugin")
    path = tmp_path / "a.h5"
    made = f"import h5py, hdf5plugin, numpy as np; f = h5py.File({str(path)!r}, 'w'); x = np.arange(9000.0)\n"
    made += "for n, o in (('z', hdf5plugin.Zstd()), ('b', hdf5plugin.Bitshuffle())):\n"
    made += "    f.create_dataset(n, data=x, chunks=(100,), **o)\n"
    made += "f['plain'] = x; f.create_dataset('empty', (9,), 'f4', chunks=(3,), **hdf5plugin.Zstd())\n"
    made += "f.create_dataset('zfp', data=x, chunks=(900,), **hdf5plugin.Zfp(reversible=True))"
    subprocess.run([sys.executable, "-c", made], check=True)
    gridz_command = lambda *args: subprocess.run([sys.executable, "-m", "gridz", *args], capture_output=True, text=True)
    checked = gridz_command("check", path)
    assert (
        checked.returncode == 4 and checked.stdout.count("\n") == 3 and checked.stdout.count("Zstandard (32015)") == 1
    )
    assert "3 datasets read, 0 parts damaged, 2 datasets not checked" in checked.stdout and not checked.stderr
    document = json.loads(gridz_command("check", path, "--json").stdout)
    assert [p["path"] for p in document["missing"]] == ["/b", "/z"] and document["damaged"] == []
    assert (
        gridz_command("info", path).returncode == 0 and gridz_command("repack", path, tmp_path / "b.h5").returncode == 0
    )
    measured = gridz_command("bench", path, "--codec", "lorenzo", "--repeats", "1")
    assert measured.returncode == 4 and "/a.h5: z: not measured: needs Zstandard" in measured.stderr
    assert "plain: float64" in measured.stdout and "zfp: float64" in measured.stdout


def test_values_of_filters_are_kept(tmp_path):
    """Filters of hdf5plugin that compute their cd_values when a dataset is created, with stored
    cd_values of other versions."""
    pytest.importorskip("hdf5plugin")
    code = """
import gridz, h5py, hdf5plugin, numpy as np, sys
from h5py import h5d, h5p, h5s, h5t
options = {"blosc": hdf5plugin.Blosc(), "blosc2": hdf5plugin.Blosc2(), "bitshuffle": hdf5plugin.Bitshuffle(),
           "zfp": hdf5plugin.Zfp(accuracy=1e-3), "sz3": hdf5plugin.SZ3(absolute=1e-3), "gzip": {"compression": "gzip"}}
with h5py.File(sys.argv[1], "w") as file:
    for name, made_by in options.items():
        file.create_dataset(name, data=np.arange(9000.0), chunks=(1000,), **made_by)
data = open(sys.argv[1], "rb").read()
with h5py.File(sys.argv[1]) as file:
    number, flags, values, _ = file["blosc"].id.get_create_plist().get_filter(0)
old = np.array(values, "<u4").tobytes()
assert data.count(old) == 1
open(sys.argv[1], "wb").write(data.replace(old, np.array([3, 10, *values[2:]], "<u4").tobytes()))
done = gridz.repack(sys.argv[1], sys.argv[2], datasets={"*": "keep"})
same = 0
with h5py.File(sys.argv[1]) as one, h5py.File(sys.argv[2]) as two:
    for name in options:
        a, b = one[name], two[name]
        lists = [d.id.get_create_plist() for d in (a, b)]
        assert lists[0].get_filter(0) == lists[1].get_filter(0), name
        assert a[...].tobytes() == b[...].tobytes()
        same += 1
print(same)
"""
    command = [sys.executable, "-c", code, tmp_path / "a.h5", tmp_path / "b.h5"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "6\n"


def test_texts_whose_filter_is_missing_are_named(tmp_path):
    pytest.importorskip("hdf5plugin")
    path = tmp_path / "a.h5"
    for kind, data in ("h5py.string_dtype()", "['a'] * 90"), ("h5py.ref_dtype", "[f['x'].ref] * 90"):
        made = f"import h5py, hdf5plugin; f = h5py.File({str(path)!r}, 'w'); f['x'] = 1\n"
        made += f"f.create_dataset('t', data={data}, dtype={kind}, chunks=(9,), **hdf5plugin.Zstd())"
        subprocess.run([sys.executable, "-c", made], check=True)
        command = [sys.executable, "-m", "gridz", "repack", path, tmp_path / "b.h5"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 4 and f"gridz: {path}: /t needs Zstandard (32015)" in done.stderr, done.stderr
        assert os.listdir(tmp_path) == ["a.h5"]


def test_external_files_that_are_missing_are_no_damage(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("outside", (4,), "f8", external=[(str(tmp_path / "raw.bin"), 0, 32)])
        file["x"] = np.arange(9000.0)
    assert "external files" in run("check", tmp_path / "a.h5", code=4).stdout
    run("repack", tmp_path / "a.h5", tmp_path / "b.h5")
    (tmp_path / "raw.bin").write_bytes(np.arange(4.0).tobytes())
    run("check", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert list(file["outside"][...]) == [0, 1, 2, 3]


def test_files_that_are_open_elsewhere_are_named(tmp_path):
    path = tmp_path / "a.h5"
    code = f"import h5py, sys; f = h5py.File({str(path)!r}, 'w'); f['x'] = 1; f.flush()\n"
    code += "print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        said = [
            run(*args, code=3).stderr for args in (["info", path], ["check", path], ["repack", path, tmp_path / "b"])
        ]
        writer.stdin.close()
    assert all(text.startswith(f"gridz: {path}: another program has the file open for writing") for text in said)


def test_edges_that_are_kept_without_filters(tmp_path):
    """H5Pset_chunk_opts: chunks at the edges are not frames, although their filter masks
    claim that they are."""
    from gridz._libhdf5 import call, id_of

    import ctypes

    path, x = tmp_path / "a.h5", np.random.default_rng(0).normal(size=(50, 50))
    with h5py.File(path, "w", libver="latest") as file:
        for name, codec in ("a", gridz.Lorenzo()), ("b", gridz.Quant(abs=1e-3)), ("z", gridz.Zfp(rate=16)):
            create = h5p.create(h5p.DATASET_CREATE)
            create.set_chunk((16, 16))
            create.set_filter(codec.filter_id, 0, codec.filter_options)
            call("H5Pset_chunk_opts", id_of(create), ctypes.c_uint(2))
            made = h5d.create(file.id, name.encode(), h5t.IEEE_F64LE, h5s.create_simple(x.shape), create)
            made.write(h5s.ALL, h5s.ALL, x)
    run("check", path)
    assert json.loads(run("info", path, "--json").stdout)["datasets"][0]["sampled_chunks"] == 9
    for codec in ("lorenzo,level=dense", "quant,abs=1e-2", "zfp,rate=8", "multigrid,rms=1e-2"):
        run("repack", path, tmp_path / "b.h5", "--force", "--dataset", f"*={codec}")
        with h5py.File(tmp_path / "b.h5") as file:
            assert np.abs(file["a"][...] - x).max() < 0.5


def test_info_counts_stored_chunks(tmp_path):
    rng, names = np.random.default_rng(0), []
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["other"] = np.arange(9.0)
        for name, x, codec in [
            ("noise", np.frombuffer(rng.bytes(40_000)), "lorenzo"), ("three", np.arange(3.0), "lorenzo"),
            ("ndzip", np.arange(5000.0), "ndzip"), ("quant of noise", np.frombuffer(rng.bytes(40_000)), "quant,abs=1e-3"),
            ("stored", np.zeros(500), "stored"), ("strings", np.array([b"abc"] * 500), "lorenzo"),
        ]:  # fmt: skip
            file.create_dataset(name, data=x, chunks=(len(x),), **gridz.codec(codec))
            names.append(name)
    found = {d["path"][1:]: d for d in json.loads(run("info", tmp_path / "a.h5", "--json").stdout)["datasets"]}
    assert len(found) == 7 and not any("error" in d for d in found.values())
    assert {n for n in names if found[n]["stored_chunks"]} == {"noise", "three", "quant of noise", "stored", "strings"}
    table = run("info", tmp_path / "a.h5").stdout
    assert "1 of 1 chunks stored" in table and all(line == line.rstrip() for line in table.splitlines())


def test_references_of_the_newest_kind(tmp_path):
    """H5T_STD_REF: to objects, a region, an attribute, and null; in datasets and in an attribute."""
    script = pathlib.Path(__file__).with_name("standard_references.py")
    subprocess.run([sys.executable, script, tmp_path / "a.h5"], check=True)
    env = {**os.environ, "HDF5_PLUGIN_PATH": gridz.PLUGIN_PATH}
    command = lambda path: [sys.executable, script, path, "--show"]
    show = lambda path: subprocess.run(command(path), check=True, capture_output=True, text=True, env=env).stdout
    before = show(tmp_path / "a.h5")
    assert before.count("/target") == 3 * 3 and before.count("object") == 2 * 3
    gridz.repack(tmp_path / "a.h5", tmp_path / "b.h5", datasets={"*": "lorenzo"})
    assert show(tmp_path / "b.h5") == before
