"""gridz_h5_write, gridz_h5_read and gridz_h5_read_progressive with arrays in GPU memory.

    h5_bulk.py PLUGIN HEADER [FOLDER]

Random boxes of datasets are written from CuPy arrays of any strides and read into them, alternating
with h5py. The chunks must equal those of host arrays byte for byte. Whole datasets follow, from both
kinds of memory. Then one dataset of 2 GiB is written to FOLDER (/dev/shm) and read back, from both
kinds of memory. With GRIDZ_BACKEND=cuda, the GPU also processes arrays in host memory. HEADER is gridz_hdf5.h, which
lists the functions of libhdf5.
"""

import ctypes
import os
import re
import sys
import tempfile
import time
from ctypes import POINTER, byref, c_char_p, c_double, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

os.environ["HDF5_PLUGIN_PATH"] = os.path.dirname(sys.argv[1])

import cupy
import h5py
import numpy

UNSUPPORTED, CORRUPT = 102, 200


class Function(ctypes.Structure):
    """gridz_h5_function"""

    _fields_ = [("name", c_char_p), ("address", c_void_p)]


class Options(ctypes.Structure):
    """gridz_h5_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("strides", POINTER(c_int64)),
        ("progress", c_void_p),
        ("progress_data", c_void_p),
        ("memory_limit", c_uint64),
        ("dxpl", c_int64),
        ("stream", c_void_p),
    ]


def functions(header):
    """The functions of h5py's libhdf5, as gridz_hdf5.h lists them."""
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if re.search(r"/libhdf5[-.][^/]*so", line))
    hdf5 = ctypes.CDLL(path)
    names = sorted(set(re.findall(r"GRIDZ_H5_\((H5\w+)\)", header)))
    found = [(name.encode(), ctypes.cast(getattr(hdf5, name), c_void_p)) for name in names if hasattr(hdf5, name)]
    return (Function * (len(found) + 1))(*found, (None, None))


class Failed(Exception):
    """A failed call, with its status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Bulk:
    """gridz's functions."""

    def __init__(self, plugin, header):
        self.library = ctypes.CDLL(plugin)
        self.library.gridz_last_error.restype = c_char_p
        with open(header) as file:
            self.functions = functions(file.read())

    def move(self, name, dataset, array, start, stream=None):
        """Transfers a CuPy or NumPy `array`, whose first element is at `start` of the dataset.
        Waits for `stream`, or for the whole device."""
        on_gpu = isinstance(array, cupy.ndarray)
        address = array.data.ptr if on_gpu else array.ctypes.data
        rank = array.ndim
        strides = None if array.flags.c_contiguous else (c_int64 * rank)(*array.strides)
        options = Options(ctypes.sizeof(Options), None, strides, None, None, 0, 0, stream.ptr if stream else None)
        box = (c_uint64 * rank)(*start), (c_uint64 * rank)(*array.shape)
        function = getattr(self.library, f"gridz_h5_{name}_by")
        if not stream:
            cupy.cuda.runtime.deviceSynchronize()
        mem_type = h5py.h5t.py_create(array.dtype)
        status = function(self.functions, c_int64(dataset.id.id), c_int64(mem_type.id), *box, c_void_p(address), byref(options))
        if status != 0:
            raise Failed(status, self.library.gridz_last_error().decode())

    def grid(self, dataset, level, array):
        """Reads the grid of a level into `array`, which is as for `move`."""
        on_gpu = isinstance(array, cupy.ndarray)
        strides = None if array.flags.c_contiguous else (c_int64 * array.ndim)(*array.strides)
        options = Options(ctypes.sizeof(Options), None, strides, None, None, 0, 0, None)
        address = c_void_p(array.data.ptr if on_gpu else array.ctypes.data)
        cupy.cuda.runtime.deviceSynchronize()
        function = self.library.gridz_h5_read_progressive_by
        dset, detail = c_int64(dataset.id.id), (c_uint32(0), c_double(level))
        status = function(self.functions, dset, c_int64(0), None, None, *detail, address, None, byref(options))
        if status != 0:
            raise Failed(status, self.library.gridz_last_error().decode())
        return array

    def words(self, request):
        """The cd_values of a request in text form."""
        values, n = (c_uint32 * 32)(), c_size_t()
        assert self.library.gridz_cd_values(request, values, c_size_t(32), byref(n)) == 0
        return tuple(values[: n.value])


def chunks_of(dataset):
    """The encoded bytes of all chunks, by their offsets."""
    found = (dataset.id.get_chunk_info(i).chunk_offset for i in range(dataset.id.get_num_chunks()))
    return {offset: dataset.id.read_direct_chunk(offset) for offset in found}


def with_strides(rng, array):
    """The same array with other strides, on the GPU."""
    kind = rng.integers(4)
    if kind == 0 or array.ndim == 0:
        return cupy.asarray(array)
    if kind == 1:
        return cupy.asarray(array.T.copy()).T
    if kind == 2:
        return cupy.asarray(array[::-1].copy())[::-1]
    wide = cupy.zeros(tuple(2 * n for n in array.shape), array.dtype)
    view = wide[tuple(slice(1, 2 * n, 2) for n in array.shape)]
    view[...] = cupy.asarray(array)
    return view


def turns(bulk, folder):
    """Random boxes, written and read alternately by gridz and h5py."""
    rng = numpy.random.default_rng(3)
    n_boxes = 0
    for case in range(40):
        rank = int(rng.integers(1, 5))
        most = [4000, 90, 30, 14][rank - 1]
        shape = tuple(int(n) for n in rng.integers(1, most, rank))
        chunk = tuple(int(rng.integers(1, n + 1)) for n in shape)
        dtype = numpy.dtype(rng.choice(["<f4", "<f8", "<i2", "u1", "<c8"]))
        values = (int(rng.choice([1, 2])) if dtype.kind == "f" else 2, 0)
        shuffle = bool(rng.integers(3) == 0)
        extra = {"fillvalue": numpy.array(7, dtype)} if rng.integers(2) else {}
        with h5py.File(f"{folder}/turns.h5", "w") as file:
            dataset = file.create_dataset("x", shape, dtype, chunks=chunk, compression=34013, compression_opts=values, shuffle=shuffle, **extra)
            twin = file.create_dataset("y", shape, dtype, chunks=chunk, compression=34013, compression_opts=values, shuffle=shuffle, **extra)
            wanted = dataset[()]
            for _ in range(6):
                start = tuple(int(rng.integers(0, n)) for n in shape)
                count = tuple(int(rng.integers(1, n - at + 1)) for n, at in zip(shape, start))
                box = tuple(slice(at, at + n) for at, n in zip(start, count))
                data = (rng.standard_normal(count).cumsum(axis=-1) * 50).astype(dtype)
                if rng.integers(3):
                    bulk.move("write", dataset, with_strides(rng, data), start)
                    bulk.move("write", twin, data, start)
                else:
                    dataset[box] = data
                    twin[box] = data
                wanted[box] = data
                file.flush()
                assert numpy.array_equal(dataset[()], wanted), f"case {case}: {shape} {chunk} {dtype} {box}"
                back = with_strides(rng, numpy.zeros(count, dtype))
                bulk.move("read", dataset, back, start)
                assert numpy.array_equal(back.get(), wanted[box]), f"case {case}: read {shape} {chunk} {dtype} {box}"
                n_boxes += 1
            assert chunks_of(dataset) == chunks_of(twin), f"case {case}: chunks differ from those of the host"
    return n_boxes


def whole(bulk, folder):
    """Datasets of many chunks, written as a whole and read from a file that is open for reading only:
    then a GPU gets batches of chunks, and threads read the file. Chunks equal those of the filter."""
    rng = numpy.random.default_rng(5)
    requests = [b"lorenzo", b"lorenzo,level=dense", b"quant,abs=1e-2", b"quant,pwrel=1e-3,level=max", b"multigrid,abs=1e-2", b"ndzip", b"zfp,abs=1e-2"]
    n_boxes, kinds = 0, set()
    for case in range(50):
        rank = int(rng.integers(1, 5))
        chunk = tuple(int(rng.integers(2, [3000, 60, 20, 9][rank - 1])) for _ in range(rank))
        # At least 64 chunks, the last one along each axis often cut by the edge.
        n_chunks = [int(rng.integers(1, 5)) for _ in range(rank - 1)]
        n_chunks.append(-(-64 // int(numpy.prod(n_chunks))) + 1)
        shape = tuple(n * size - (int(rng.integers(0, size)) if n > 1 else 0) for n, size in zip(n_chunks, chunk))
        request = requests[case % len(requests)]
        dtype = numpy.dtype(rng.choice(["<f4", "<f8", ">f4"] if b"lorenzo" not in request else ["<f4", "<f8", "<i2", "u1", "<c8", ">i4"]))
        on_gpu = case // len(requests) % 2 == 0
        dtype = dtype.newbyteorder("<") if on_gpu else dtype
        extra = {"fillvalue": numpy.array(7, dtype)} if rng.integers(2) and dtype.kind in "fi" else {}
        options = dict(chunks=chunk, compression=34013, compression_opts=bulk.words(request), shuffle=bool(rng.integers(4) == 0) and b"=" not in request.replace(b"level=", b""), **extra)
        data = (rng.standard_normal(shape).cumsum(axis=-1) * 50).astype(dtype)
        n_rows = int(rng.integers(0, 2)) * chunk[0] if n_chunks[0] > 1 and n_chunks[0] * 64 <= numpy.prod(n_chunks) else 0
        start = (n_rows,) + (0,) * (rank - 1)
        with h5py.File(f"{folder}/whole.h5", "w") as file:
            dataset = file.create_dataset("x", shape, dtype, **options)
            twin = file.create_dataset("y", shape, dtype, **options)
            source = with_strides(rng, data[n_rows:]) if on_gpu else numpy.asfortranarray(data[n_rows:]) if rng.integers(2) else data[n_rows:]
            # Some host arrays have another byte order than the file.
            if not on_gpu and rng.integers(4) == 0 and dtype.itemsize > 1:
                source = source.astype(dtype.newbyteorder())
            bulk.move("write", dataset, source, start)
            twin[n_rows:] = data[n_rows:]
            assert chunks_of(dataset) == chunks_of(twin), f"case {case}: {request} {shape} {chunk} {dtype}"
        with h5py.File(f"{folder}/whole.h5") as file:
            dataset, wanted = file["x"], file["x"][()]
            for turn in range(3):
                at = tuple(int(rng.integers(0, n)) for n in shape) if turn else (0,) * rank
                count = tuple(int(rng.integers(1, n - a + 1)) for n, a in zip(shape, at)) if turn else shape
                box = tuple(slice(a, a + n) for a, n in zip(at, count))
                back = with_strides(rng, numpy.zeros(count, dtype)) if on_gpu else numpy.zeros(count[::-1], dtype).T
                bulk.move("read", dataset, back, at)
                got = back.get() if on_gpu else back
                assert got.tobytes() == wanted[box].tobytes(), f"case {case}: read {request} {shape} {chunk} {dtype} {box}"
                n_boxes += 1
        kinds.add((request, on_gpu))
        with open(f"{folder}/whole.h5", "r+b") as file:
            offset = h5py.File(f"{folder}/whole.h5")["x"].id.get_chunk_info(40)
            file.seek(offset.byte_offset + offset.size // 2)
            byte = file.read(1)[0]
            file.seek(offset.byte_offset + offset.size // 2)
            file.write(bytes([byte ^ 16]))
        with h5py.File(f"{folder}/whole.h5") as file:
            back = cupy.zeros(shape, dtype) if on_gpu else numpy.zeros(shape, dtype)
            try:
                bulk.move("read", file["x"], back, (0,) * rank)
            except Failed as error:
                assert error.status >= CORRUPT, error
            else:
                raise AssertionError(f"case {case}: damage is not reported")
    assert len(kinds) == 2 * len(requests), kinds
    return n_boxes


def grids(bulk, folder):
    """Coarser grids are read into GPU memory as into host memory, from existing and missing
    chunks."""
    rng = numpy.random.default_rng(4)
    with h5py.File(f"{folder}/grids.h5", "w") as file:
        dataset = file.create_dataset("x", (90, 70, 128), "<f4", chunks=(32, 70, 64), fillvalue=3, compression=34013, compression_opts=bulk.words(b"multigrid,abs=1e-3,layers=2"))
        dataset[:40] = rng.standard_normal((40, 70, 128)).cumsum(axis=-1)
        for level in range(6):
            shape = tuple(-(-n // (1 << level)) for n in dataset.shape)
            wanted = bulk.grid(dataset, level, numpy.zeros(shape, "<f4"))
            for _ in range(4):
                got = bulk.grid(dataset, level, with_strides(rng, numpy.zeros(shape, "<f4")))
                assert numpy.array_equal(got.get(), wanted), f"level {level}"


def refusals(bulk, folder):
    """Refused calls report a remedy."""
    with h5py.File(f"{folder}/refused.h5", "w") as file:
        data = cupy.arange(1000, dtype=cupy.float32)
        swapped = file.create_dataset("swapped", (1000,), ">f4", chunks=(100,), compression=34013)
        gzip = file.create_dataset("gzip", (1000,), "<f4", chunks=(100,), compression="gzip")
        for dataset, part in ((swapped, "byte order"), (gzip, "GPU memory")):
            for way in ("write", "read"):
                try:
                    bulk.move(way, dataset, data, (0,))
                except Failed as error:
                    assert error.status == UNSUPPORTED and part in str(error) and "host" in str(error), error
                else:
                    raise AssertionError(f"{dataset.name} is not refused")
        good = file.create_dataset("good", (1000,), "<f4", chunks=(100,), compression=34013)
        good[()] = data.get()
        frame = bytearray(good.id.read_direct_chunk((300,))[1])
        frame[-9] ^= 4
        good.id.write_direct_chunk((300,), bytes(frame))
        try:
            bulk.move("read", good, cupy.zeros(1000, cupy.float32), (0,))
        except Failed as error:
            assert error.status == CORRUPT, error
        else:
            raise AssertionError("damage is not reported")


def speed(bulk, folder):
    """2 GiB from and to both kinds of memory, medians of 3."""
    n = 1024
    line = cupy.linspace(0, 30, n, dtype=cupy.float32)
    field = cupy.empty((512, n, n), cupy.float32)
    for z in range(512):
        field[z] = cupy.sin(line)[None, :] * cupy.cos(line)[:, None] * z + cupy.random.standard_normal((n, n), dtype=cupy.float32) * 1e-3
    host = field.get()
    with h5py.File(f"{folder}/speed.h5", "w") as file:
        for name, array in (("GPU", field), ("host", host)):
            times = {"write": [], "read": []}
            for i in range(4):
                dataset = file.create_dataset(f"{name}{i}", array.shape, "<f4", chunks=(16, 256, 256), compression=34013, compression_opts=(2, 0))
                for way in times:
                    begin = time.perf_counter()
                    bulk.move(way, dataset, array, (0, 0, 0))
                    times[way].append(time.perf_counter() - begin)
                ratio = array.nbytes / dataset.id.get_storage_size()
                del file[f"{name}{i}"]
            write, read = (array.nbytes / 1e9 / float(numpy.median(found[1:])) for found in times.values())
            print(f"{name} memory to HDF5 in {folder}: {write:.1f} GB/s written, {read:.1f} read, ratio {ratio:.2f}")
            assert name == "host" or cupy.array_equal(field, cupy.asarray(host))


def streams(bulk, folder):
    """A call waits for its stream: for the work that produces the data to be written, and for the
    work that reads the memory to be overwritten."""
    stream, n = cupy.cuda.Stream(non_blocking=True), 4096
    with stream:
        slow = cupy.ones((n, n), "f8")
    with h5py.File(f"{folder}/streams.h5", "w") as file:
        dataset = file.create_dataset("x", (n, n), "f8", chunks=(512, 512), compression=34013)
        before = numpy.arange(n * n, dtype="f8").reshape(n, n)
        with stream:
            array = cupy.zeros((n, n), "f8")
            for _ in range(40):
                array += slow @ slow
        assert not stream.done, "the work that the call must wait for ended too soon"
        bulk.move("write", dataset, array, (0, 0), stream)
        assert (dataset[...] == 40.0 * n).all(), "written before it was computed"
        dataset[...] = before
        with stream:
            for _ in range(40):
                slow @ slow
            kept = array.copy()
        assert not stream.done, "the work that the call must wait for ended too soon"
        bulk.move("read", dataset, array, (0, 0), stream)
        assert (array.get() == before).all() and (kept.get() == 40.0 * n).all(), "overwritten before it was used"
        try:
            bulk.move("write", dataset, before, (0, 0), stream)
            raise AssertionError("a stream for an array of the host")
        except Failed as failed:
            assert "is not GPU memory" in str(failed), failed


def main():
    bulk = Bulk(*sys.argv[1:3])
    folder = sys.argv[3] if len(sys.argv) > 3 else "/dev/shm"
    with tempfile.TemporaryDirectory(dir=folder) as files:
        n_boxes, n_whole = turns(bulk, files), whole(bulk, files)
        grids(bulk, files)
        refusals(bulk, files)
        streams(bulk, files)
        speed(bulk, files)
    print(f"{n_boxes} boxes in 40 datasets are right, and {n_whole} in 50 whole ones")


if __name__ == "__main__":
    main()
