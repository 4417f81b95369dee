"""gridz's C API by ctypes, for arrays of CuPy."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

import cupy
import numpy

DTYPES = {"uint8": 1, "int16": 6, "float32": 11, "float64": 12}


class Array(ctypes.Structure):
    """gridz_array"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_uint32),
        ("byte_order", c_uint32),
        ("element_size", c_uint32),
        ("rank", c_uint32),
        ("extents", POINTER(c_uint64)),
    ]

    def __init__(self, dtype, shape):
        order = 2 if numpy.dtype(dtype).byteorder == ">" else 1
        extents = (c_uint64 * len(shape))(*shape)
        super().__init__(ctypes.sizeof(Array), DTYPES[numpy.dtype(dtype).name], order, 0, len(shape), extents)


class Options(ctypes.Structure):
    """gridz_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("request", c_char_p),
        ("flags", c_uint64),
        ("fill_value", c_void_p),
        ("n_fill_values", c_size_t),
        ("valid_min", c_void_p),
        ("valid_max", c_void_p),
    ]


class BatchStruct(ctypes.Structure):
    """gridz_batch"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("array", POINTER(Array)),
        ("n", c_size_t),
        ("arrays", c_void_p),
        ("array_stride", c_size_t),
        ("frames", c_void_p),
        ("frame_stride", c_size_t),
        ("frame_bytes", c_void_p),
        ("packed", c_void_p),
        ("packed_bytes", c_size_t),
        ("offsets", c_void_p),
        ("statuses", c_void_p),
        ("start", POINTER(c_uint64)),
        ("count", POINTER(c_uint64)),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("stream", c_void_p),
        ("options", POINTER(Options)),
    ]

    def __init__(self, array, n, options, **fields):
        super().__init__(ctypes.sizeof(BatchStruct), ctypes.pointer(array), n, **fields)
        if options is not None:
            self.options = ctypes.pointer(options)


class Error(Exception):
    """The text of gridz_last_error; `status` is the code."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


class Gridz:
    """The functions that the tests use."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.gridz_last_error.restype = c_char_p
        array, options, size = POINTER(Array), POINTER(Options), c_size_t
        signatures = {
            "gridz_compress_bound": [array, options, POINTER(size)],
            "gridz_compress": [array, c_void_p, size, c_void_p, size, POINTER(size), options],
            "gridz_packed_bound": [array, size, POINTER(size)],
            "gridz_compress_chunks": [POINTER(BatchStruct), POINTER(size)],
            "gridz_decompress_chunks": [POINTER(BatchStruct)],
            "gridz_async_workspace_bytes": [POINTER(BatchStruct), POINTER(size)],
            "gridz_compress_async": [POINTER(BatchStruct)],
            "gridz_decompress_async": [POINTER(BatchStruct)],
            "gridz_pack_async": [POINTER(BatchStruct)],
            "gridz_unpack_async": [POINTER(BatchStruct), c_void_p],
        }
        for name, arguments in signatures.items():
            getattr(self.library, name).argtypes = arguments
            getattr(self.library, name).restype = c_int32

    def call(self, name, *arguments):
        """Calls the function `name`; a nonzero status raises an Error."""
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise Error(status, self.library.gridz_last_error().decode())

    def size(self, name, *arguments):
        """The size that the function `name` returns."""
        found = c_size_t()
        self.call(name, *arguments, byref(found))
        return found.value

    def compress(self, chunk, options=None):
        """The frame of a NumPy array, compressed in host memory."""
        array = Array(chunk.dtype, chunk.shape)
        frame = numpy.empty(self.size("gridz_compress_bound", array, options), numpy.uint8)
        n_bytes = c_size_t()
        src, dst = chunk.ctypes.data, frame.ctypes.data
        self.call("gridz_compress", array, src, chunk.nbytes, dst, frame.nbytes, byref(n_bytes), options)
        return frame[: n_bytes.value].tobytes()


class Batch:
    """Chunks along the first axis of a CuPy array, their frames, and the memory for both
    results."""

    def __init__(self, gridz, chunks, options=None):
        self.gridz, self.chunks, self.n_chunks = gridz, chunks, len(chunks)
        self.options = options
        self.array = Array(chunks.dtype, chunks.shape[1:])
        self.slot = gridz.size("gridz_compress_bound", self.array, options)
        self.frames = cupy.zeros((self.n_chunks, self.slot), cupy.uint8)
        self.lengths = cupy.zeros(self.n_chunks, cupy.uint64)
        self.statuses = cupy.full(self.n_chunks, -1, cupy.int32)
        self.back = cupy.zeros_like(chunks)
        n_bytes = gridz.size("gridz_async_workspace_bytes", BatchStruct(self.array, self.n_chunks, options))
        self.workspace = cupy.empty(max(n_bytes, 1), cupy.uint8)

    def struct(self, stream, **fields):
        """gridz_batch with the frames and the stream; `fields` are added or replaced."""
        n = fields.pop("n", self.n_chunks)
        given = dict(frames=self.frames.data.ptr, frame_stride=self.slot, frame_bytes=self.lengths.data.ptr, stream=stream.ptr)
        return BatchStruct(self.array, n, self.options, **(given | fields))

    def _space(self, own):
        return dict(workspace=self.workspace.data.ptr, workspace_bytes=self.workspace.nbytes) if own else {}

    def compress(self, stream, own_workspace=True):
        """Submits the compression to `stream`."""
        arrays = dict(arrays=self.chunks.data.ptr, array_stride=self.chunks.strides[0])
        self.gridz.call("gridz_compress_async", self.struct(stream, **arrays, **self._space(own_workspace)))

    def decompress(self, stream, own_workspace=True):
        """Submits the decompression to `stream`."""
        arrays = dict(arrays=self.back.data.ptr, array_stride=self.back.strides[0], statuses=self.statuses.data.ptr)
        self.gridz.call("gridz_decompress_async", self.struct(stream, **arrays, **self._space(own_workspace)))

    def frame(self, i):
        """Frame `i` as bytes. Waits for the GPU."""
        return self.frames[i, : int(self.lengths[i])].get().tobytes()
