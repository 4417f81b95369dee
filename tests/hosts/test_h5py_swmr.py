"""h5py: one process writes a dataset while others read it (SWMR, single writer, multiple readers).

If a chunk's filtered length changes, HDF5 writes the chunk to new space, and leaves the old bytes
in place as long as the file is open for SWMR. A chunk of the same length overwrites the old one.
HDF5 retries the reads of metadata, but not those of chunks.
"""

import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from support import GRIDZ, LORENZO, NDZIP, STORED, environment, noise, smooth

NONE = {}
GZIP = {"compression": "gzip", "compression_opts": 1}
FLETCHER = {"fletcher32": True}


def codec(number):
    return {"compression": GRIDZ, "compression_opts": (number,)}


WRITER = """
import sys, h5py, numpy as np
path, n, options = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
rows = np.load(sys.argv[4])
with h5py.File(path, "w", libver="latest") as file:
    dataset = file.create_dataset("x", (0, 64, 80), "f4", chunks=(1, 64, 80), maxshape=(None, 64, 80), **options)
    file.swmr_mode = True
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(n):
        dataset.resize(i + 1, axis=0)
        dataset[i] = rows[i % len(rows)]
        dataset.flush()
    # Open until the reader has seen all rows.
    sys.stdin.readline()
"""


@pytest.mark.parametrize(
    "options",
    [NONE, GZIP, codec(STORED), codec(NDZIP), codec(LORENZO)],
    ids=["none", "gzip", "stored", "ndzip", "lorenzo"],
)
def test_readers_follow_a_writer_that_appends_chunks(tmp_path, options):
    rows, n_rows = smooth("f4", (16, 64, 80)), 300
    np.save(tmp_path / "rows.npy", rows)
    command = [sys.executable, "-c", WRITER, tmp_path / "x.h5", n_rows, repr(options), tmp_path / "rows.npy"]
    writer = subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )
    n_meanwhile = n_read = n_seen = 0
    with writer:
        assert writer.stdout.readline() == "ready\n"
        with h5py.File(tmp_path / "x.h5", swmr=True) as file:
            dataset = file["x"]
            writer.stdin.write("go\n")
            writer.stdin.flush()
            while n_seen < n_rows:
                dataset.refresh()
                n = len(dataset)
                n_meanwhile += n_seen < n < n_rows
                # The new rows, and one that existed before.
                for i in [*range(n_seen, n), n // 2][: n + 1]:
                    if i < n:
                        assert (dataset[i] == rows[i % len(rows)]).all(), f"row {i} of {n}"
                        n_read += 1
                n_seen = n
                assert writer.poll() is None, "the writer failed"
            writer.stdin.close()
        assert writer.wait() == 0
    assert n_read >= n_rows and n_meanwhile >= 3, f"{n_read} rows read, {n_meanwhile} times while others were written"


def bytes_at(path, place):
    with open(path, "rb") as file:
        file.seek(place.byte_offset)
        return file.read(place.size)


@pytest.mark.parametrize(
    "options, of_one_length",
    [(NONE, True), (FLETCHER, True), (codec(STORED), True), (GZIP, False), (codec(NDZIP), False), (codec(LORENZO), False)],
    ids=["none", "fletcher32", "stored", "gzip", "ndzip", "lorenzo"],
)
def test_a_chunk_is_rewritten_in_place_only_with_the_same_length(tmp_path, options, of_one_length, rng):
    """The cause of failed reads during a rewrite: a reader finds only half of the new bytes. With a
    checksum that is an error, and a later read succeeds; without one the values are wrong."""
    path = tmp_path / "x.h5"
    old, other = smooth("f4", (64, 80)), smooth("f4", (64, 80))
    other[20:] = noise("u2", (44, 80), rng)
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("x", data=old, chunks=(64, 80), **options)
        dataset.flush()
        file.swmr_mode = True
        first = dataset.id.get_chunk_info(0)
        old_bytes = bytes_at(path, first)

        dataset[:] = other
        dataset.flush()
        second = dataset.id.get_chunk_info(0)
        assert (second.size == first.size) == of_one_length
        assert (second.byte_offset == first.byte_offset) == of_one_length
        # A reader that has found the old address in the index still reads the old chunk.
        assert (bytes_at(path, first) == old_bytes) == (not of_one_length)

        before = bytes_at(path, second)
        dataset[:] = changed = same_of_length(dataset, other, second, path)
        dataset.flush()
        third = dataset.id.get_chunk_info(0)
        assert (third.byte_offset, third.size) == (second.byte_offset, second.size), "not in place"
        after = bytes_at(path, third)
        assert before != after
        shutil.copy(path, tmp_path / "torn.h5")
    # The copy as a reader finds it when half of the new bytes have been written.
    differ = [i for i in range(len(after)) if after[i] != before[i]]
    half = differ[len(differ) // 2]
    with open(tmp_path / "torn.h5", "r+b") as file:
        file.seek(third.byte_offset)
        file.write(after[:half] + before[half:])
    with h5py.File(tmp_path / "torn.h5", swmr=True) as file:
        if options is NONE:
            values = file["x"][:]
            assert not (values == other).all() and not (values == changed).all(), "no filter sees a torn chunk"
        else:
            with pytest.raises(OSError):
                file["x"][:]
    with open(tmp_path / "torn.h5", "r+b") as file:
        file.seek(third.byte_offset)
        file.write(after)
    with h5py.File(tmp_path / "torn.h5", swmr=True) as file:
        assert (file["x"][:] == changed).all()


def same_of_length(dataset, values, place, path):
    """Other values whose filtered length is the same; found by trial."""
    with h5py.File(path.with_name("trial.h5"), "w") as file:
        plist = dataset.id.get_create_plist()
        trial = h5py.h5d.create(file.id, b"x", dataset.id.get_type(), dataset.id.get_space(), plist)
        for k in range(1, 80):
            changed = values.copy()
            changed[-1] = np.roll(values[-1], k)
            trial.write(h5py.h5s.ALL, h5py.h5s.ALL, changed)
            trial.flush()
            if trial.get_chunk_info(0).size == place.size and not (changed == values).all():
                return changed
    pytest.fail("no other values of that length")
