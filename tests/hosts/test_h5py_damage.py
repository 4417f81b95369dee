"""h5py: files that were damaged, machines without memory, and readers without the plugin."""

import ctypes

import h5py
import numpy as np
import pytest

from support import GRIDZ, PLUGIN, environment, noise, python, run, same, smooth, wheel_library

READ = """
    import h5py
    with h5py.File(sys.argv[1]) as file:
        try:
            file["x"][()]
            print("read")
        except OSError as error:
            print(error)
"""


def write(path, data, chunks=(64, 64)):
    """Writes `data` and returns position and length of every chunk in the file."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks, compression=GRIDZ)
    with h5py.File(path) as file:
        infos = [file["x"].id.get_chunk_info(i) for i in range(file["x"].id.get_num_chunks())]
        return [(info.byte_offset, info.size) for info in infos]


def flip(path, *positions):
    content = bytearray(path.read_bytes())
    for position in positions:
        content[position] ^= 0x10
    path.write_bytes(content)


def test_one_line_for_many_damaged_chunks(tmp_path):
    path = tmp_path / "x.h5"
    chunks = write(path, smooth("f4", (512, 512)))
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
    # One line for each cause; a flipped bit may break the structure before the checksum tells.
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 4 and len(set(lines)) == len(lines)
    assert all(line.startswith("gridz: ") for line in lines)
    assert "gridz: the data is damaged: its checksum does not match" in lines


@pytest.mark.parametrize("part", ["magic", "header", "payload", "last byte"])
@pytest.mark.parametrize("kind", ["smooth", "noise", "integers"])
def test_every_part_of_a_chunk_is_guarded(tmp_path, rng, kind, part):
    path = tmp_path / "x.h5"
    data = {
        "smooth": smooth("f4", (64, 64)),
        "noise": noise("f8", (64, 64), rng),
        "integers": noise("i2", (64, 64), rng),
    }[kind]
    ((offset, size),) = write(path, data)
    flip(path, offset + {"magic": 1, "header": 20, "payload": size // 2, "last byte": size - 1}[part])
    done = python(READ, path)
    assert "read\n" not in done.stdout and "filter" in done.stdout
    (line,) = done.stderr.splitlines()
    expected = {
        "magic": "not a gridz frame",
        "header": "damaged frame header",
        "payload": "damaged",
        "last byte": "damaged",
    }[part]
    assert line.startswith("gridz: ") and expected in line


def test_chunks_beside_a_damaged_one_are_read(tmp_path):
    path, data = tmp_path / "x.h5", smooth("f4", (128, 128))
    chunks = write(path, data)
    flip(path, chunks[0][0] + 200)
    with h5py.File(path) as file:
        with pytest.raises(OSError):
            file["x"][:64, :64]
        same(file["x"][64:], data[64:])
        same(file["x"][:64, 64:], data[:64, 64:])


def test_a_reader_may_do_without_checksums(tmp_path):
    # H5Pset_edc_check, which h5py does not offer: whoever saves what can be saved gets the damaged chunk.
    path, data = tmp_path / "x.h5", smooth("f4", (4096,))
    ((offset, size),) = write(path, data, (4096,))
    flip(path, offset + size - 1)
    hdf5 = wheel_library(h5py, "h5py.libs", "libhdf5-*")
    transfer = h5py.h5p.create(h5py.h5p.DATASET_XFER)
    with h5py.File(path) as file:
        got = np.zeros_like(data)
        with pytest.raises(OSError):
            file["x"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, got, dxpl=transfer)
        assert hdf5.H5Pset_edc_check(ctypes.c_int64(transfer.id), 0) == 0
        file["x"].id.read(h5py.h5s.ALL, h5py.h5s.ALL, got, dxpl=transfer)
    wrong = np.flatnonzero(got.view("u4") != data.view("u4"))
    assert 0 < wrong.size < data.size and wrong[0] > 0


def test_a_frame_of_another_shape_in_place_of_a_chunk(tmp_path):
    # What libhdf5 gets must never be shorter than a chunk: up to 2.0 it would read past its end.
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
    assert done.stderr.count("gridz: no memory for") == len(done.stderr.splitlines()) > 0


def test_without_memory_for_a_chunk_reading_fails(tmp_path):
    path = tmp_path / "x.h5"
    write(path, np.zeros(16 << 20, "f4"), (16 << 20,))
    done = python(
        LIMIT_MEMORY
        + """
    data = numpy.ones(16 << 20, dtype="f4")
    with h5py.File(sys.argv[1]) as file:
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
    assert done.stderr == f"gridz: no memory for {4 * (16 << 20)} bytes of chunk\n"


def test_without_the_plugin(tmp_path):
    path = tmp_path / "x.h5"
    write(path, smooth("f4", (64, 64)))
    empty = tmp_path / "empty"
    empty.mkdir()
    done = python(READ, path, HDF5_PLUGIN_PATH=empty)
    # h5py shows the last cause only, which does not name the filter; h5dump and the whole error stack do.
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
