"""h5py: damaged files, machines without free memory, and readers without the plugin."""

import ctypes

import h5py
import numpy as np
import pytest

from support import (
    DENSE,
    FAST,
    FOLDER,
    GRIDZ,
    LORENZO,
    MAX,
    NDZIP,
    PLUGIN,
    SPECS,
    environment,
    frames,
    header_bytes,
    noise,
    python,
    run,
    same,
    smooth,
    spec_of,
    wheel_library,
)

READ = """
    import h5py
    with h5py.File(sys.argv[1]) as file:
        try:
            file["x"][()]
            print("read")
        except OSError as error:
            print(error)
"""


COMPRESSED = [(NDZIP, 0), (LORENZO, FAST), (LORENZO, DENSE), (LORENZO, MAX)]


def write(path, data, chunks=(64, 64), spec=None):
    """Writes `data` and returns offset and length of every chunk in the file."""
    values = spec and (spec[0], 0, spec[1])
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks, compression=GRIDZ, compression_opts=values)
    with h5py.File(path) as file:
        infos = [file["x"].id.get_chunk_info(i) for i in range(file["x"].id.get_num_chunks())]
        return [(info.byte_offset, info.size) for info in infos]


def flip(path, *positions):
    content = bytearray(path.read_bytes())
    for position in positions:
        content[position] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("spec", COMPRESSED)
def test_one_line_for_many_damaged_chunks(tmp_path, spec):
    path = tmp_path / "x.h5"
    chunks = write(path, smooth("f4", (512, 512)), spec=spec)
    assert len(chunks) == 64
    flip(path, *(offset + size - 100 for offset, size in chunks))
    done = python(
        """
        import h5py
        failed = 0
        with h5py.File(sys.argv[1]) as file:
            for i in range(8):
                for j in range(8):
                    try:
                        file["x"][64 * i : 64 * i + 64, 64 * j : 64 * j + 64]
                    except OSError:
                        failed += 1
        print(failed)
        """,
        path,
    )
    assert done.stdout == "64\n"
    # One line for each cause; a flipped bit may break the structure before the checksum is
    # compared.
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 4 and len(set(lines)) == len(lines)
    assert all(line.startswith("gridz: ") for line in lines)
    assert {
        NDZIP: "gridz: the data is damaged: its checksum does not match",
        LORENZO: "gridz: lorenzo block 0 is damaged: its checksum does not match",
    }[spec[0]] in lines


PARTS = {
    "magic": "not a gridz frame",
    "header": "the frame header is damaged",
    "parameter": "the frame header is damaged",
    "payload": "damaged",
    "last byte": "damaged",
}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", ["smooth", "noise", "integers", "counts"])
def test_every_part_of_a_chunk_is_guarded(tmp_path, rng, kind, spec):
    data = {
        "smooth": smooth("f4", (64, 64)),
        "noise": noise("f8", (64, 64), rng),
        "integers": noise("i2", (64, 64), rng),
        "counts": smooth("u2", (64, 64)),
    }[kind]
    for part in PARTS:
        path = tmp_path / part
        ((offset, size),) = write(path, data, spec=spec)
        at = {"magic": 1, "header": 20, "parameter": 56, "payload": size // 2, "last byte": size - 1}
        flip(path, offset + at[part])
    done = python(
        """
        import os, h5py
        for part in sys.argv[2:]:
            print("part", part, file=sys.stderr, flush=True)
            with h5py.File(os.path.join(sys.argv[1], part)) as file:
                try:
                    file["x"][()]
                    print("read")
                except OSError as error:
                    print(error)
        """,
        tmp_path,
        *PARTS,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(PARTS) and all("filter" in line for line in lines)
    # Each part prints at most one line: none if the same message was printed before.
    said = []
    for part in done.stderr.split("part ")[1:]:
        name, *messages = part.splitlines()
        assert len(messages) <= 1
        said += messages
        assert any(PARTS[name] in line for line in said)
    assert len(said) >= 3 and all(line.startswith("gridz: ") for line in said)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", ">u8", "u1"])
@pytest.mark.parametrize("spec", COMPRESSED[1:])
def test_every_byte_of_a_chunk_is_guarded(tmp_path, spec, dtype):
    # A dataset whose chunks are damaged frames, each with one wrong bit, at positions from the
    # first byte to the last.
    data = smooth(dtype, (50, 100))
    done = python(
        """
        import h5py, numpy
        from support import frames, smooth
        data = smooth(sys.argv[2], (50, 100))
        values = tuple(map(int, sys.argv[3:]))
        options = {"chunks": data.shape, "compression": 34013, "compression_opts": values}
        with h5py.File(sys.argv[1], "w") as file:
            dataset = file.create_dataset("x", data=data, **options)
            file.flush()
            (frame,) = frames(dataset)
            found = 0
            for i in range(len(frame)):
                damaged = bytearray(frame)
                damaged[i] ^= 1 << i % 8
                dataset.id.write_direct_chunk((0, 0), bytes(damaged))
                try:
                    dataset[()]
                except OSError:
                    found += 1
            dataset.id.write_direct_chunk((0, 0), frame)
            assert (dataset[()] == data).all()
        print(found == len(frame), found > 100)
        """,
        tmp_path / "x.h5",
        dtype,
        spec[0],
        0,
        spec[1],
        PYTHONPATH=FOLDER,
    )
    assert done.stdout == "True True\n"
    with h5py.File(tmp_path / "x.h5") as file:
        same(file["x"][()], data)
        assert {spec_of(frame) for frame in frames(file["x"])} == {spec}
    lines = done.stderr.splitlines()
    assert 2 <= len(lines) <= 65 and len(set(lines)) == len(lines)
    # Every line names its subject.
    assert all(line.startswith("gridz: ") for line in lines)
    words = ("damaged", "lorenzo", "gridz frame", "newer", "further")
    assert all(any(word in line for word in words) for line in lines)


@pytest.mark.parametrize("spec", COMPRESSED)
def test_chunks_beside_a_damaged_one_are_read(tmp_path, spec):
    path, data = tmp_path / "x.h5", smooth("f4", (128, 128))
    chunks = write(path, data, spec=spec)
    flip(path, chunks[0][0] + 200)
    with h5py.File(path) as file:
        with pytest.raises(OSError):
            file["x"][:64, :64]
        same(file["x"][64:], data[64:])
        same(file["x"][:64, 64:], data[:64, 64:])


def without_checksums():
    """A transfer property list with H5Pset_edc_check, which h5py does not offer."""
    hdf5 = wheel_library(h5py, "h5py.libs", "libhdf5-*")
    transfer = h5py.h5p.create(h5py.h5p.DATASET_XFER)
    assert hdf5.H5Pset_edc_check(ctypes.c_int64(transfer.id), 0) == 0
    return transfer


def read_as(path, data, transfer):
    """Reads the dataset's values into an array like `data`."""
    got = np.zeros_like(data)
    with h5py.File(path) as file:
        file["x"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, got, dxpl=transfer)
    return got


def wrong(got, data):
    return np.flatnonzero(got.view(f"u{data.itemsize}") != data.view(f"u{data.itemsize}"))


def test_a_reader_of_ndzip_may_do_without_checksums(tmp_path):
    # A reader that disables checksums to salvage data gets the damaged chunk.
    path, data = tmp_path / "x.h5", smooth("f4", (4096,))
    ((offset, size),) = write(path, data, (4096,), (NDZIP, 0))
    flip(path, offset + size - 1)
    with pytest.raises(OSError):
        read_as(path, data, h5py.h5p.create(h5py.h5p.DATASET_XFER))
    places = wrong(read_as(path, data, without_checksums()), data)
    assert 0 < places.size < data.size and places[0] > 0


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", ">u8"])
@pytest.mark.parametrize("level", [FAST, DENSE])
def test_a_reader_of_lorenzo_may_do_without_checksums(tmp_path, level, dtype):
    # A damaged block either has an invalid structure and is refused, or has wrong values; all other
    # blocks are correct.
    block = {FAST: 4096, DENSE: 8192}[level]
    # All values have one sign and exponent: in CUT blocks nearly all damage would be detected, as
    # the tails would change length.
    path, data = tmp_path / "x.h5", (smooth(dtype, (4 * block,)) + 300).astype(dtype)
    ((offset, size),) = write(path, data, data.shape, (LORENZO, level))
    sound = path.read_bytes()
    begin = header_bytes(sound[offset : offset + size])
    table = np.frombuffer(sound[offset + begin :][: 4 * 8], "<u4").reshape(4, 2)
    ends = np.concatenate([[0], table[:, 0].astype(int) * 16])
    assert begin + 4 * 8 + ends[-1] == size, "the payload is its table and its blocks"
    default = h5py.h5p.create(h5py.h5p.DATASET_XFER)
    read, refused = 0, 0
    for i in range(4):
        for at in np.linspace(ends[i], ends[i + 1] - 1, 30).astype(int):
            flip(path, offset + begin + 4 * 8 + at)
            with pytest.raises(OSError):
                read_as(path, data, default)
            try:
                places = wrong(read_as(path, data, without_checksums()), data)
                assert ((places >= i * block) & (places < (i + 1) * block)).all()
                read += places.size > 0
            except OSError:
                refused += 1
            path.write_bytes(sound)
    # A wrong block check does not change any value.
    flip(path, offset + begin + 4)
    with pytest.raises(OSError):
        read_as(path, data, default)
    same(read_as(path, data, without_checksums()), data)
    assert read >= 40 and refused >= 1


def test_a_frame_of_another_shape_in_place_of_a_chunk(tmp_path):
    # The filter's result must never be shorter than a chunk: libhdf5 up to 2.0 would read past its
    # end.
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        small = file.create_dataset("small", data=np.ones((8, 8), "f4"), chunks=(8, 8), compression=GRIDZ)
        large = file.create_dataset("large", data=np.ones((640, 640), "f4"), chunks=(640, 640), compression=GRIDZ)
        file.flush()
        for name, source in (("x", small), ("y", large)):
            target = file.create_dataset(name, (64, 64), "f4", chunks=(64, 64), compression=GRIDZ)
            target.id.write_direct_chunk((0, 0), source.id.read_direct_chunk((0, 0))[1])
    for name in "xy":
        done = python(READ.replace('"x"', f'"{name}"'), path)
        assert "read\n" not in done.stdout, f"{name}: a chunk of the wrong length was accepted"
        assert done.stderr.startswith("gridz: ")


LIMIT_MEMORY = """
    import h5py, numpy, resource
    unlimited = (resource.RLIM_INFINITY,) * 2
    def limit_memory(free):
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + free, unlimited[1]))
"""


def test_without_memory_for_a_frame_the_chunk_stays_raw(tmp_path):
    done = python(
        LIMIT_MEMORY
        + """
    data = numpy.random.default_rng(1).random(16 << 20, dtype="f4")
    small = data[:4096].copy()
    with h5py.File(sys.argv[1], "w") as file:
        file.create_dataset("first", data=small, chunks=small.shape, compression=34013)
        limit_memory(data.nbytes + (6 << 20))  # enough for libhdf5's copy of the chunk
        file.create_dataset("x", data=data, chunks=data.shape, compression=34013)
        file.flush()
        resource.setrlimit(resource.RLIMIT_AS, unlimited)
        print(file["x"].id.get_chunk_info(0).filter_mask, (file["x"][()] == data).all())
    """,
        tmp_path / "x.h5",
        GRIDZ_THREADS=1,
    )
    assert done.stdout == "1 True\n"
    assert done.stderr.count(" could not be allocated") == len(done.stderr.splitlines()) > 0


def test_without_memory_for_a_chunk_reading_fails(tmp_path):
    path = tmp_path / "x.h5"
    write(path, np.zeros(16 << 20, "f4"), (16 << 20,))
    with h5py.File(path, "r+") as file:
        file.create_dataset("first", data=smooth("f4", (64, 64)), chunks=(64, 64), compression=34013)
    done = python(
        LIMIT_MEMORY
        + """
    data = numpy.ones(16 << 20, dtype="f4")
    with h5py.File(sys.argv[1]) as file:
        file["first"][()]  # the plugin is loaded while there is memory for it
        limit_memory(20 << 20)
        try:
            file["x"].read_direct(data)
            print("read")
        except OSError:
            resource.setrlimit(resource.RLIMIT_AS, unlimited)
            print((file["x"][()] == 0).all())
    """,
        path,
        GRIDZ_THREADS=1,
    )
    assert done.stdout == "True\n"
    assert done.stderr == f"gridz: {4 * (16 << 20)} bytes of chunk could not be allocated\n"


def test_without_the_plugin(tmp_path):
    path = tmp_path / "x.h5"
    write(path, smooth("f4", (64, 64)))
    empty = tmp_path / "empty"
    empty.mkdir()
    done = python(READ, path, HDF5_PLUGIN_PATH=empty)
    # h5py shows only the last cause, which does not name the filter; h5dump and the whole error
    # stack name it.
    assert "can't find plugin" in done.stdout and "gridz" not in done.stdout
    shown = run("h5dump", "-p", "-H", path, env=environment(HDF5_PLUGIN_PATH=empty)).stdout
    assert "FILTER_ID 34013" in shown
    assert "COMMENT gridz " in shown and "install the gridz HDF5 plugin" in shown
    refused = run("h5dump", "--enable-error-stack", path, env=environment(HDF5_PLUGIN_PATH=empty), check=False)
    assert refused.returncode != 0
    assert "required filter 'gridz " in refused.stdout + refused.stderr


def test_registering_by_hand_instead_of_a_plugin_path(tmp_path):
    path, data = tmp_path / "x.h5", smooth("f4", (64, 64))
    write(path, data)
    done = python(
        """
        import ctypes, h5py
        plugin = ctypes.CDLL(sys.argv[2])
        plugin.H5PLget_plugin_info.restype = ctypes.c_void_p
        assert not h5py.h5z.filter_avail(34013)
        assert h5py.h5z.register_filter(plugin.H5PLget_plugin_info())
        with h5py.File(sys.argv[1], "r+") as file:
            data = file["x"][()]
            file.create_dataset("y", data=data, chunks=(64, 64), compression=34013)
            sys.stdout.write(file["y"][()].tobytes().hex())
        """,
        path,
        PLUGIN,
        HDF5_PLUGIN_PATH=tmp_path,
    )
    assert bytes.fromhex(done.stdout) == data.tobytes() and done.stderr == ""
