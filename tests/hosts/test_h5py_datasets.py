"""h5py: the life of a dataset, from its fill value to its last partial rewrite."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest

from support import (
    CCI,
    DEFAULT,
    FOLDER,
    GRIDZ,
    NDZIP,
    SPECS,
    STORED,
    QUANT,
    ZFP,
    frames,
    noise,
    placed_frames,
    python,
    same,
    smooth,
    spec_in,
    spec_of,
    written,
    specials,
    takes,
    typed,
    wheel_library,
)


def reopened(path):
    with h5py.File(path) as file:
        return file["x"][()]


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFF80_0001, 0x7F80_0000, 0x3F80_0000])
def test_early_allocation_writes_the_fill_value(tmp_path, bits):
    fill = np.array(bits, "u4").view("f4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((64, 64))
        plist.set_fill_value(fill)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5py.h5d.FILL_TIME_ALLOC)
        plist.set_filter(GRIDZ, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((100, 130))
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, plist))
        assert len(frames(dataset)) == 2 * 3, "libhdf5 filters every chunk at creation"
    expected = np.full((100, 130), fill)
    same(reopened(tmp_path / "x.h5"), expected)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file["x"][70:, 5] = expected[70:, 5] = 3.5
    same(reopened(tmp_path / "x.h5"), expected)


def test_a_fill_value_is_known_when_the_file_is_opened_again(tmp_path):
    """HDF5 calls filters once more when it first writes to a dataset of a reopened file. At that
    point it has no datatype for the fill value: H5Pget_fill_value crashes."""
    bound = np.frombuffer(np.float64(0.01).tobytes(), "<u4")
    options = {"compression": GRIDZ, "compression_opts": (QUANT, 1, *map(int, bound))}
    expected = smooth("f4", (40, 90))
    expected[:, 30:60] = -999.25
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=expected, chunks=(20, 90), fillvalue=-999.25, **options)
    for row in range(0, 40, 7):
        with h5py.File(tmp_path / "x.h5", "r+") as file:
            file["x"][row] = expected[row] = np.roll(expected[row], row)
    got = reopened(tmp_path / "x.h5")
    assert ((got == -999.25) == (expected == -999.25)).all()
    assert np.abs(got.astype("f8") - expected).max() <= 0.01


def test_chunks_never_written_read_as_fill_value(tmp_path):
    expected = np.full((500, 40), -7.25, "f4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", (500, 40), "f4", chunks=(100, 40), fillvalue=-7.25, compression=GRIDZ)
        dataset[110:120] = expected[110:120] = 1
    same(reopened(tmp_path / "x.h5"), expected)
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["x"].id.get_num_chunks() == 1


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "i4", ">u2", "noise"])
def test_shrink_and_extend(tmp_path, rng, dtype, spec):
    path = tmp_path / "x.h5"
    if dtype == "noise":
        dtype, data = "i8", noise("i8", (150, 90), rng)
    else:
        data = (specials if "f" in dtype else smooth)(dtype, (150, 90))
    options = {"maxshape": (None, None), "compression": GRIDZ, "compression_opts": (spec[0], 0, spec[1])}
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(64, 64), **options)
    # Shrinking makes libhdf5 decode the chunks at the new edge, clear the elements outside, and
    # encode them again.
    with h5py.File(path, "r+") as file:
        file["x"].resize((70, 65))
    same(reopened(path), data[:70, :65])
    with h5py.File(path, "r+") as file:
        file["x"].resize((200, 100))
    expected = np.zeros((200, 100), dtype)
    expected[:70, :65] = data[:70, :65]
    same(reopened(path), expected)
    with h5py.File(path, "r+") as file:
        file["x"][70:] = expected[70:] = 11
        file.flush()
        found = {spec_of(frame) for frame in frames(file["x"])}
        assert len(frames(file["x"])) == 4 * 2 and found <= written(spec) | {(STORED, 0)}
        assert found & written(spec) or not takes(spec[0], dtype)
    same(reopened(path), expected)
    with h5py.File(path, "r+") as file:
        file["x"].resize((0, 100))
        file["x"].resize((3, 3))
    same(reopened(path), np.zeros((3, 3), dtype))


def test_time_steps_appended_in_many_sessions(tmp_path):
    path, steps = tmp_path / "x.h5", smooth("f4", (12, 30, 40))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (0, 30, 40), "f4", chunks=(5, 30, 40), maxshape=(None, 30, 40), compression=GRIDZ)
    for n, step in enumerate(steps):
        with h5py.File(path, "r+") as file:
            file["x"].resize(n + 1, axis=0)
            file["x"][n] = step
        same(reopened(path), steps[: n + 1])


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i2"])
@pytest.mark.parametrize("values", [(), (1,), (2, 0, 1), (2, 0, 2)])
def test_partial_overwrites_after_reopening(tmp_path, rng, values, dtype):
    path, data = tmp_path / "x.h5", (smooth if dtype == "i2" else specials)(dtype, (90, 120))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(40, 64), compression=GRIDZ, compression_opts=values)
    for _ in range(30):
        rows = np.sort(rng.choice(91, 2, replace=False))
        columns = np.sort(rng.choice(121, 2, replace=False))
        part = noise(dtype, (rows[1] - rows[0], columns[1] - columns[0]), rng)
        where = slice(*rows), slice(*columns)
        data[where] = part
        with h5py.File(path, "r+") as file:
            stored = file["x"].id.get_create_plist().get_filter(0)
            file["x"][where] = part
            assert file["x"].id.get_create_plist().get_filter(0) == stored
    same(reopened(path), data)


@pytest.mark.parametrize("spec", SPECS)
def test_a_rewritten_chunk_keeps_codec_and_level(tmp_path, rng, spec):
    # Smooth, then noise, then smooth again: a chunk that is temporarily incompressible is not
    # stored forever.
    dtype = typed(spec, "<f4")
    path, data = tmp_path / "x.h5", smooth(dtype, (128, 128))
    with h5py.File(path, "w") as file:
        options = {"compression": GRIDZ, "compression_opts": (spec[0], 0, spec[1])}
        file.create_dataset("x", data=data, chunks=(64, 64), **options)
    with h5py.File(path) as file:
        before = frames(file["x"])
        assert [spec_of(frame) for frame in before] == [spec] * 4
    with h5py.File(path, "r+") as file:
        file["x"][64:, 64:] = noise(dtype, (64, 64), rng)
    with h5py.File(path) as file:
        assert frames(file["x"])[:3] == before[:3]
        assert spec_of(frames(file["x"])[3]) == (STORED, 0)
    with h5py.File(path, "r+") as file:
        file["x"][64:, 64:] = data[64:, 64:]
    with h5py.File(path) as file:
        # The same values give the same bytes.
        assert frames(file["x"]) == before
    same(reopened(path), data)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i4"])
def test_frames_of_every_codec_in_one_dataset(tmp_path, dtype):
    # A reader follows the frame; the dataset's cd_values determine how new chunks are written.
    data = smooth(dtype, (3, 128, 128))
    specs = ([spec for spec in SPECS if takes(spec[0], dtype)] * 3)[:12]

    def found(file):
        # zfp cannot compress the noise in the last bits.
        stored = [(STORED, 0) if spec[0] == ZFP else spec for spec in specs]
        made = [{stored[i]} | written(stored[i]) - {DEFAULT} for i in range(len(specs))]
        return [specs[i] if spec_of(frame) in made[i] else spec_of(frame) for i, frame in enumerate(frames(file["x"]))]

    with h5py.File(tmp_path / "x.h5", "w") as file:
        mixed = file.create_dataset("x", data.shape, dtype, chunks=(1, 64, 64), compression=GRIDZ)
        for i, (codec, level) in enumerate(specs):
            options = {"compression": GRIDZ, "compression_opts": (codec, 0, level)}
            source = file.create_dataset(f"{i}", data=data, chunks=(1, 64, 64), **options)
            file.flush()
            place, frame = placed_frames(source)[i]
            mixed.id.write_direct_chunk(place, frame)
    with h5py.File(tmp_path / "x.h5") as file:
        assert found(file) == specs
        for dataset in file.values():
            same(dataset[()], data)
            same(dataset[:, 60:70, 5:100], data[:, 60:70, 5:100])
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file["x"][:, 10:20, 10:100] = data[:, 10:20, 10:100] = 7
    with h5py.File(tmp_path / "x.h5") as file:
        assert found(file) == [DEFAULT if i % 4 < 2 else spec for i, spec in enumerate(specs)]
        same(file["x"][()], data)


def test_rows_through_a_chunk_cache_that_is_too_small(tmp_path):
    # Every row evicts the chunk: it is encoded and decoded repeatedly.
    path, data = tmp_path / "x.h5", specials("f4", (64, 4096))
    with h5py.File(path, "w", rdcc_nbytes=1000) as file:
        dataset = file.create_dataset("x", data.shape, "f4", chunks=data.shape, compression=GRIDZ)
        for i, row in enumerate(data):
            dataset[i] = row
    same(reopened(path), data)


def test_unfiltered_edge_chunks(tmp_path):
    # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS, which h5py does not offer: chunks at the edge stay raw.
    hdf5 = wheel_library(h5py, "h5py.libs", "libhdf5-*")
    data = smooth("f4", (100, 100))
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((64, 64))
        plist.set_filter(GRIDZ, 0, ())
        assert hdf5.H5Pset_chunk_opts(ctypes.c_int64(plist.id), 2) == 0
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((100, 100)), plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    same(reopened(tmp_path / "x.h5"), data)
    with h5py.File(tmp_path / "x.h5") as file:
        _, frame = file["x"].id.read_direct_chunk((0, 0))
        assert spec_of(frame) == DEFAULT
        _, raw = file["x"].id.read_direct_chunk((64, 0))
        assert len(raw) == 64 * 64 * 4


def test_direct_chunks_are_frames_that_move_between_datasets(tmp_path):
    data = smooth("f4", (128, 200))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", data=data, chunks=(64, 64), compression=GRIDZ)
        copy = file.create_dataset("copy", data.shape, "f4", chunks=(64, 64), compression=GRIDZ)
        again = file.create_dataset("again", data=data, chunks=(64, 64), compression=GRIDZ)
        file.flush()
        assert {spec_of(frame) for frame in frames(dataset)} == {DEFAULT}
        for i, frame in enumerate(frames(dataset)):
            copy.id.write_direct_chunk(dataset.id.get_chunk_info(i).chunk_offset, frame)
        # The same input gives the same bytes.
        assert frames(again) == frames(dataset)
    with h5py.File(tmp_path / "x.h5") as file:
        assert frames(file["copy"]) == frames(file["x"])
        same(file["copy"][()], data)


@pytest.mark.parametrize("values", [(), (1,), (2, 0, 2)])
def test_smooth_data_shrinks_and_noise_grows_by_a_header_at_most(tmp_path, rng, values):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        options = {"chunks": (64, 64), "compression": GRIDZ, "compression_opts": values}
        for dtype in ("<f4", ">f4", "<f8", ">f8") + (() if values == (1,) else ("<f2", "i1", ">u2", "<i4", ">i8")):
            good = file.create_dataset(f"smooth{dtype}", data=smooth(dtype, (256, 256)), **options)
            bad = file.create_dataset(f"noise{dtype}", data=noise(dtype, (256, 256), rng), **options)
            file.flush()
            assert good.id.get_storage_size() < 0.9 * good.nbytes
            assert bad.id.get_storage_size() <= bad.nbytes + 16 * 64
        chunk = (2,) * 6 + (1,) * 26
        bad = file.create_dataset("rank32", data=noise("f4", chunk, rng), **options | {"chunks": chunk})
        file.flush()
        assert bad.id.get_storage_size() <= bad.nbytes + 304


def test_the_number_of_threads_does_not_change_the_bytes(tmp_path):
    contents = []
    for threads in (1, 2, 5):
        done = python(
            """
            import glob, h5py
            from support import smooth, specials
            with h5py.File(sys.argv[1], "w") as file:
                for dtype, values in [(dtype, values) for dtype in ("<f4", ">f8") for values in ((), (1,), (2, 0, 2))]:
                    arrays = {"smooth": smooth(dtype, (100, 120, 130)), "specials": specials(dtype, (1000, 1100))}
                    for name, data in arrays.items():
                        options = {"chunks": data.shape, "compression": 34013, "compression_opts": values}
                        file.create_dataset(f"{name}{dtype}{values}", data=data, **options)
            names = [open(path).read() for path in glob.glob("/proc/self/task/*/comm")]
            print(len([name for name in names if name.startswith("gridz-")]))
            """,
            tmp_path / "x.h5",
            PYTHONPATH=FOLDER,
            GRIDZ_THREADS=threads,
        )
        assert int(done.stdout) == (threads if threads > 1 else 0)
        with h5py.File(tmp_path / "x.h5") as file:
            contents.append({name: frames(dataset) for name, dataset in file.items()})
            for values in ((), (1,), (2, 0, 2)):
                same(file[f"specials<f4{values}"][()], specials("<f4", (1000, 1100)))
    assert contents[0] == contents[1] == contents[2]


def test_a_reader_follows_a_writer(tmp_path):
    # Single writer, multiple readers: the other process sees whole chunks only.
    path, steps = tmp_path / "x.h5", smooth("f4", (9, 64, 64))
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset(
            "x", (0, 64, 64), "f4", chunks=(2, 64, 64), maxshape=(None, 64, 64), compression=GRIDZ
        )
        file.swmr_mode = True
        for n, step in enumerate(steps, start=1):
            dataset.resize(n, axis=0)
            dataset[n - 1] = step
            dataset.flush()
            if n % 4 == 1:
                done = python(
                    """
                    import h5py
                    with h5py.File(sys.argv[1], swmr=True) as file:
                        sys.stdout.write(file["x"][()].tobytes().hex())
                    """,
                    path,
                )
                assert bytes.fromhex(done.stdout) == steps[:n].tobytes()


@pytest.mark.parametrize("shape", [(100,), (1000, 900), (50, 60, 70)])
def test_chunks_that_h5py_chooses(tmp_path, shape):
    data = specials("f8", shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=data, compression=GRIDZ)
    same(reopened(tmp_path / "x.h5"), data)


@pytest.mark.parametrize("spec", SPECS)
def test_file_copied_object_by_object(tmp_path, spec):
    dtype = typed(spec, "<f8")
    other, other_type = (">f4", h5py.h5t.IEEE_F32BE)
    if dtype == "<i4":
        other, other_type = (">i8", h5py.h5t.STD_I64BE) if spec[0] == CCI else (">i2", h5py.h5t.STD_I16BE)
    data = smooth(dtype, (80, 90))
    with h5py.File(tmp_path / "x.h5", "w") as source, h5py.File(tmp_path / "y.h5", "w") as target:
        options = {"compression": GRIDZ, "compression_opts": (spec[0], 0, spec[1])}
        source.create_dataset("x", data=data, chunks=(60, 90), **options)
        source.copy("x", target, "x")
        # A property list that was read from a dataset carries the stored cd_values to another
        # dataset with other chunks and another type.
        plist = source["x"].id.get_create_plist()
        plist.set_chunk((70, 70))
        space = h5py.h5s.create_simple((80, 90))
        h5py.h5d.create(target.id, b"y", other_type, space, plist).write(h5py.h5s.ALL, h5py.h5s.ALL, data)
    with h5py.File(tmp_path / "y.h5") as file:
        same(file["x"][()], data)
        same(file["y"][()], data.astype(other))
        for name in "xy":
            values = file[name].id.get_create_plist().get_filter_by_id(GRIDZ)[1]
            assert spec_in(values) == spec
            assert spec in {spec_of(frame) for frame in frames(file[name])} <= {spec, (STORED, 0)}
        same(values[6:-1], (70, 0, 70, 0))


def test_a_copy_of_a_copy_has_the_same_values(tmp_path):
    # The stored cd_values are accepted as input, through h5py's own options.
    data = smooth("i4", (70, 90))
    for values in ((), (2,), (2, 0, 1), (2, 0, 2), (1,), (0,)):
        seen = []
        for i in range(3):
            with h5py.File(tmp_path / f"{i}.h5", "w") as file:
                options = {"compression": GRIDZ, "compression_opts": values}
                dataset = file.create_dataset("x", data=data, chunks=(64, 64), **options)
                file.flush()
                values = dataset.id.get_create_plist().get_filter_by_id(GRIDZ)[1]
                seen.append((values, frames(dataset)))
        assert seen[0] == seen[1] == seen[2]


def test_threads_of_python(tmp_path):
    def work(i):
        data = specials("f4", (300, 300))
        data[1, 1] = i
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            file.create_dataset("x", data=data, chunks=(100, 128), compression=GRIDZ)
        with h5py.File(tmp_path / f"{i}.h5") as file:
            same(file["x"][()], data)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(24)))
