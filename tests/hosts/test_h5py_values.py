"""h5py: valid cd_values and environment settings, and the errors for all others."""

import h5py
import numpy as np
import pytest

from support import (
    DEFAULT,
    DENSE,
    FAST,
    FOLDER,
    GRIDZ,
    LORENZO,
    NDZIP,
    SPECS,
    STORED,
    frames,
    python,
    record,
    same,
    smooth,
    spec_in,
    spec_of,
    takes,
)

DATA = smooth("f4", (128, 128))


def create(path, values, **options):
    with h5py.File(path, "w") as file:
        options = {"chunks": (64, 64), "compression": GRIDZ, "compression_opts": values} | options
        file.create_dataset("x", data=DATA, **options)


def stored_values(path):
    with h5py.File(path) as file:
        return file["x"].id.get_create_plist().get_filter_by_id(GRIDZ)[1]


ALLOWED_VALUES = [
    (None, DEFAULT),
    ((), DEFAULT),
    ((2,), DEFAULT),
    ((2, 0), DEFAULT),
    ((2, 0, 0), DEFAULT),
    ((2, 0, 1), (LORENZO, FAST)),
    ((2, 0, 2), (LORENZO, DENSE)),
    ((1,), (NDZIP, 0)),
    ((1, 0), (NDZIP, 0)),
    ((1, 0, 0), (NDZIP, 0)),
    ((0,), (STORED, 0)),
    ((0, 0), (STORED, 0)),
    ((0, 0, 0), (STORED, 0)),
]


@pytest.mark.parametrize(("values", "spec"), ALLOWED_VALUES)
def test_allowed_values(tmp_path, values, spec):
    create(tmp_path / "x.h5", values)
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], DATA)
        assert {spec_of(frame) for frame in frames(file["x"])} == {spec}


def test_the_default_and_what_it_stands_for_write_the_same_bytes(tmp_path):
    written = {}
    for i, (values, spec) in enumerate(ALLOWED_VALUES):
        create(tmp_path / f"{i}.h5", values)
        with h5py.File(tmp_path / f"{i}.h5") as file:
            assert frames(file["x"]) == written.setdefault(spec, frames(file["x"]))
    sizes = {spec: sum(map(len, found)) for spec, found in written.items()}
    assert sizes[LORENZO, DENSE] < sizes[LORENZO, FAST] < sizes[NDZIP, 0] < sizes[STORED, 0]


@pytest.mark.parametrize(("values", "spec"), ALLOWED_VALUES)
def test_what_is_stored(tmp_path, values, spec):
    # The record, as in CD_VALUES.md: magic and version, codec and mode and level, type and order and
    # rank, element size, the mode's value, extents of the chunk.
    create(tmp_path / "x.h5", values)
    stored = stored_values(tmp_path / "x.h5")
    assert spec_in(stored) == spec
    assert stored == record(stored[1], 11 | 2 << 16, 4, 0, 0, 64, 0, 64, 0)
    # The record names the codec, not the default; storing it again, any number of times, changes
    # nothing.
    create(tmp_path / "y.h5", stored)
    assert stored_values(tmp_path / "y.h5") == stored
    # These codecs ignore a fill value.
    create(tmp_path / "y.h5", record(stored[1], stored[2] | 2 << 24, *stored[3:-1], 0xC479C000))
    assert stored_values(tmp_path / "y.h5") == stored
    create(tmp_path / "z.h5", stored, chunks=(32, 128))
    assert stored_values(tmp_path / "z.h5") == record(*stored[1:6], 32, 0, 128, 0)
    create(tmp_path / "again.h5", stored_values(tmp_path / "z.h5"))
    assert stored_values(tmp_path / "again.h5") == stored
    for path in ("y.h5", "z.h5", "again.h5"):
        with h5py.File(tmp_path / path) as file:
            same(file["x"][()], DATA)
            assert {spec_of(frame) for frame in frames(file["x"])} == {spec}


@pytest.mark.parametrize("values", [None, (), (2,), (2, 0), (2, 0, 0)])
def test_the_level_is_stored_as_what_was_in_force(tmp_path, values):
    # docs/writer.md: codec and level, never "default", so that a later default does not change old datasets.
    create(tmp_path / "x.h5", values)
    assert stored_values(tmp_path / "x.h5")[1] == LORENZO | FAST << 16


def test_values_of_one_dataset_for_another_type(tmp_path):
    # Codec and level are taken from the record; the description of the chunk is recomputed.
    for codec, level in SPECS:
        create(tmp_path / "x.h5", (codec, 0, level))
        values = stored_values(tmp_path / "x.h5")
        with h5py.File(tmp_path / "y.h5", "w") as file:
            data = smooth(">i2", (3, 50, 70))
            file.create_dataset("x", data=data, chunks=(2, 50, 50), compression=GRIDZ, compression_opts=values)
        stored = stored_values(tmp_path / "y.h5")
        assert stored == record(values[1], 6 | 1 << 8 | 3 << 16, 2, 0, 0, 2, 0, 50, 0, 50, 0)
        with h5py.File(tmp_path / "y.h5") as file:
            same(file["x"][()], data)
            expected = (codec, level) if takes(codec, ">i2") else (STORED, 0)
            assert {spec_of(frame) for frame in frames(file["x"])} == {expected}


ALLOWED = "[codec, 0, level]"
DOUBLE = tuple(int(word) for word in np.frombuffer(np.float64(1e-3).tobytes(), "<u4"))


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((99,), ["codec 99 is unknown", "0 stored", "1 ndzip", "2 lorenzo"]),
        ((8,), ["codec 8 is unknown", "2 lorenzo", "3 quant"]),
        ((3,), ["quant: use mode 1, abs"]),
        ((0xFFFFFFFF,), ["codec 4294967295 is unknown"]),
        ((99, 0, 0), ["codec 99 is unknown"]),
        ((1, 1, *DOUBLE), ["ndzip: use mode 0, lossless; it has no mode 1, abs"]),
        ((1, 2, *DOUBLE), ["no mode 2, rel"]),
        ((1, 3, *DOUBLE, 1), ["no mode 3, rate"]),
        ((1, 4, *DOUBLE), ["no mode 4, precision"]),
        ((0, 5, *DOUBLE), ["stored: use mode 0, lossless; it has no mode 5, pwrel"]),
        ((2, 6, *DOUBLE), ["lorenzo: use mode 0, lossless; it has no mode 6, rms"]),
        ((2, 7, 0, 0), ["no mode 7, expert"]),
        ((1, 8, *DOUBLE), ["ndzip: use mode 0, lossless; there is no mode 8"]),
        ((1, 0, 1), ["ndzip has no levels; use 0, not 1"]),
        ((0, 0, 7), ["stored has no levels; use 0, not 7"]),
        ((2, 0, 4), ["lorenzo does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"]),
        ((2, 0, 0xFFFF), ["lorenzo does not have level 65535; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"]),
        ((2, 0, 0x10001), ["lorenzo does not have level 65537; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"]),
        ((2, 1), ["[2, 1] are invalid", ALLOWED]),
        ((2, 0, *DOUBLE, 1), ["[2, 0, ", ALLOWED]),
        ((2, 0, 2, 0), ["[2, 0, 2, 0] are invalid", ALLOWED]),
        ((1, 0, 0xFFFFFFFF), ["not 4294967295"]),
        ((1, 0, 0, 0), ["[1, 0, 0, 0] are invalid", ALLOWED]),
        ((1, 1, 0), ["[1, 1, 0] are invalid", ALLOWED]),
        ((1, *(0,) * 6), ["[1, 0, 0, 0, 0, 0, …] are invalid", ALLOWED]),
        ((1,) * 256, ["ndzip: use mode 0, lossless"]),
        ((0x475A0001,), ["damaged filter values", "too few"]),
        ((0x475A0002, 1, 11, 4, 0, 0), ["version 2", "a newer gridz"]),
        ((0x475A0001, 1, 0x1000000B, 4, 0, 0), ["damaged filter values", "checksum"]),
        ((0x475A0001, 9, 0x0B, 4, 0, 0), ["codec 9 is unknown"]),
        ((0x475A0001, LORENZO | 4 << 16, 0x0B, 4, 0, 0), ["lorenzo does not have level 4; its levels are 1 fast, 2 dense, 3 max, and 0 for the default"]),
        ((0x475A0001, NDZIP | 1 << 16, 0x0B, 4, 0, 0), ["ndzip has no levels; use 0, not 1"]),
        ((0x475A0001, 0x0101, 0x0B, 4, 0, 0), ["it has no mode 1, abs", "a newer gridz"]),
        ((0x475A0001, 0x0001, 0x2000000B, 4, 0, 0), ["its filter values contain entries that this version does not know", "a newer gridz"]),
        ((0x475A0001, 0x0001, 0x0800000B, 4, 0, 0), ["damaged filter values", "the list of fill values and limits is invalid"]),
        ((0x475A0001, 0x0001, 0x0200000B, 4, 0, 0), ["damaged filter values", "a fill value or limit is incomplete"]),
    ],
    ids=lambda value: "-".join(map(str, value[:4])) if isinstance(value, tuple) else "",
)
def test_refused_values(tmp_path, values, texts):
    with pytest.raises(ValueError) as error:
        create(tmp_path / "x.h5", values)
    for text in texts:
        assert text in str(error.value)
    # The library is not left in a state in which the next dataset fails.
    create(tmp_path / "y.h5", None)
    with h5py.File(tmp_path / "x.h5") as file:
        assert "x" not in file


def test_a_refusal_is_on_stderr_once(tmp_path):
    # gridz cannot know that h5py, which suppresses HDF5's printing of errors, raises them itself.
    done = python(
        """
        import h5py
        with h5py.File(sys.argv[1], "w") as file:
            for values in ((99,), (2, 0, 4), (99,), (2, 0, 4)):
                try:
                    file.create_dataset("x", (64, 64), "f4", chunks=(64, 64), compression=34013, compression_opts=values)
                except ValueError:
                    print("refused")
        """,
        tmp_path / "x.h5",
    )
    assert done.stdout == 4 * "refused\n"
    first, second = done.stderr.splitlines()
    assert first.startswith("gridz: a dataset is refused: codec 99 is unknown to gridz")
    assert second.startswith("gridz: a dataset is refused: lorenzo does not have level ")


def test_more_values_than_hdf5_hands_out(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((64, 64))
        plist.set_filter(GRIDZ, h5py.h5z.FLAG_OPTIONAL, (1,) * 257)
        with pytest.raises(ValueError, match="257 cd_values are too many; gridz supports at most"):
            h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((128, 128)), plist)


def test_a_filter_that_is_mandatory_or_optional_stays_so(tmp_path):
    for flag in (0, h5py.h5z.FLAG_OPTIONAL):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((64, 64))
            plist.set_filter(GRIDZ, flag, ())
            h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((128, 128)), plist)
        with h5py.File(tmp_path / "x.h5") as file:
            assert file["x"].id.get_create_plist().get_filter_by_id(GRIDZ)[0] == flag


def test_the_name_says_what_to_install(tmp_path):
    create(tmp_path / "x.h5", None)
    with h5py.File(tmp_path / "x.h5") as file:
        name = file["x"].id.get_create_plist().get_filter_by_id(GRIDZ)[2]
    assert name.startswith(b"gridz ") and b"HDF5_PLUGIN_PATH" in name


def test_groups_are_refused(tmp_path):
    # HDF5 allows filters on the heap that holds a group's links, although h5py does not.
    done = python(
        """
        import ctypes, h5py
        from support import wheel_library
        hdf5 = wheel_library(h5py, "h5py.libs", "libhdf5-*")
        with h5py.File(sys.argv[1], "w", libver="latest") as file:
            plist = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
            hdf5.H5Pset_link_phase_change(ctypes.c_int64(plist.id), 0, 0)
            print("set", hdf5.H5Pset_filter(ctypes.c_int64(plist.id), 34013, 0, ctypes.c_size_t(0), None))
            try:
                group = h5py.Group(h5py.h5g.create(file.id, b"g", gcpl=plist))
                for i in range(100):
                    group.create_group(f"member {i}")
                print("created")
            except Exception as error:
                print(error)
        """,
        tmp_path / "x.h5",
        PYTHONPATH=FOLDER,
    )
    assert done.stdout.startswith("set 0\n")
    assert "gridz compresses datasets, not groups" in done.stdout + done.stderr
    assert "created" not in done.stdout


BAD_SETTINGS = [
    ("GRIDZ_THREADS", "0"),
    ("GRIDZ_THREADS", "many"),
    ("GRIDZ_THREADS", "-1"),
    ("GRIDZ_THREADS", "100000"),
    ("GRIDZ_LOG", "loud"),
    ("GRIDZ_BACKEND", "gpu"),
    ("GRIDZ_DEVICE", "first"),
]


def creates(path, **environment):
    """Runs a process that creates a dataset with the filter and prints the error, if any."""
    return python(
        """
        import h5py, numpy
        with h5py.File(sys.argv[1], "w") as file:
            try:
                file.create_dataset("x", (64, 64), "f4", chunks=(64, 64), compression=34013)
            except ValueError as error:
                print(error)
        """,
        path,
        **environment,
    )


def reads(path, **environment):
    """Runs a process that prints the values of the dataset."""
    return python(
        """
        import h5py
        with h5py.File(sys.argv[1]) as file:
            sys.stdout.write(file["x"][()].tobytes().hex())
        """,
        path,
        **environment,
    )


@pytest.mark.parametrize(("variable", "value"), BAD_SETTINGS)
def test_a_bad_setting_is_an_error_for_writers_and_a_warning_for_readers(tmp_path, variable, value):
    path = tmp_path / "x.h5"
    create(path, None)
    done = creates(tmp_path / "new.h5", **{variable: value})
    assert f"{variable}={value} is not valid" in done.stdout
    done = reads(path, **{variable: value})
    assert bytes.fromhex(done.stdout) == DATA.tobytes()
    (line,) = done.stderr.splitlines()
    assert f"{variable}={value} is not valid" in line and "the default is used" in line


def test_requiring_the_gpu_reports_that_there_is_none(tmp_path):
    for name in ("libcuda.so", "libcuda.so.1"):
        (tmp_path / name).write_text("no library")  # hides a real one
    environment = {"GRIDZ_BACKEND": "cuda", "LD_LIBRARY_PATH": str(tmp_path)}
    reason = "the required GPU cannot be used: no NVIDIA driver is installed"
    path = tmp_path / "x.h5"
    create(path, None)
    done = creates(tmp_path / "new.h5", **environment)
    assert reason in done.stdout
    # Data that the GPU wrote can be read without a GPU.
    done = reads(path, **environment)
    assert bytes.fromhex(done.stdout) == DATA.tobytes()
    (line,) = done.stderr.splitlines()
    assert reason in line and "the CPU takes over" in line


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GRIDZ_THREADS", "3"),
        ("GRIDZ_THREADS", ""),
        ("GRIDZ_BACKEND", "cpu"),
        ("GRIDZ_BACKEND", "auto"),
        ("GRIDZ_DEVICE", "0"),
        ("GRIDZ_LOG", ""),
    ],
)
def test_good_settings_say_nothing(tmp_path, variable, value):
    done = python(
        """
        import h5py, numpy
        data = numpy.arange(1 << 20, dtype="f4").reshape(1024, 1024)
        with h5py.File(sys.argv[1], "w") as file:
            file.create_dataset("x", data=data, chunks=data.shape, compression=34013)
        with h5py.File(sys.argv[1]) as file:
            assert (file["x"][()] == data).all()
        """,
        tmp_path / "x.h5",
        **{variable: value},
    )
    assert done.stderr == ""


@pytest.mark.parametrize(("values", "codec"), [((), "lorenzo"), ((2, 0, 2), "lorenzo"), ((1,), "ndzip")])
@pytest.mark.parametrize("level", ["info", "debug"])
def test_log_tells_what_was_done(tmp_path, level, values, codec):
    done = python(
        """
        import h5py, numpy
        options = {"chunks": (64, 64), "compression": 34013, "compression_opts": tuple(map(int, sys.argv[2:]))}
        with h5py.File(sys.argv[1], "w") as file:
            file.create_dataset("x", data=numpy.ones((64, 128), "f4"), **options)
            file["x"][()]
        """,
        tmp_path / "x.h5",
        *values,
        GRIDZ_LOG=level,
    )
    lines = done.stderr.splitlines()
    assert any(f"new dataset: chunks of float32 [64, 64] by {codec}" in line for line in lines)
    assert len([line for line in lines if f"compressed float32 [64, 64] by {codec}" in line]) >= (
        2 if level == "debug" else 0
    )
    assert level == "debug" or len(lines) == 1
