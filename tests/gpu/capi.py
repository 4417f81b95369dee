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
            "gridz_pack_async": [size, c_void_p, size, c_void_p, c_void_p, size, c_void_p, c_void_p],
            "gridz_unpack_async": [size, c_void_p, size, c_void_p, c_void_p, c_void_p, size, c_void_p, c_void_p],
            "gridz_packed_bound": [array, size, POINTER(size)],
            "gridz_compress_chunks": [array, size, c_void_p, size, c_void_p, size, c_void_p, POINTER(size), options],
            "gridz_decompress_chunks": [array, size, c_void_p, size, c_void_p, c_void_p, size, options],
            "gridz_async_workspace_bytes": [array, size, c_void_p, options, POINTER(size)],
            "gridz_compress_async": [array, size, c_void_p, size, c_void_p, size, c_void_p]
            + [c_void_p, size, c_void_p, options],
            "gridz_decompress_async": [array, size, c_void_p, size, c_void_p, c_void_p, size, c_void_p]
            + [c_void_p, size, c_void_p, options],
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
        self.slot = -(-gridz.size("gridz_compress_bound", self.array, options) // 16) * 16
        self.frames = cupy.zeros((self.n_chunks, self.slot), cupy.uint8)
        self.lengths = cupy.zeros(self.n_chunks, cupy.uint64)
        self.statuses = cupy.full(self.n_chunks, -1, cupy.int32)
        self.back = cupy.zeros_like(chunks)
        n_bytes = gridz.size("gridz_async_workspace_bytes", self.array, self.n_chunks, None, options)
        self.workspace = cupy.empty(max(n_bytes, 1), cupy.uint8)

    def _space(self, own):
        return (self.workspace.data.ptr, self.workspace.nbytes) if own else (None, 0)

    def compress(self, stream, own_workspace=True):
        """Submits the compression to `stream`."""
        src, stride = self.chunks.data.ptr, self.chunks.strides[0]
        dst = (self.frames.data.ptr, self.slot, self.lengths.data.ptr)
        space = self._space(own_workspace)
        arguments = (self.array, self.n_chunks, src, stride, *dst, *space, stream.ptr, self.options)
        self.gridz.call("gridz_compress_async", *arguments)

    def decompress(self, stream, own_workspace=True):
        """Submits the decompression to `stream`."""
        src = (self.frames.data.ptr, self.slot, self.lengths.data.ptr)
        dst = (self.back.data.ptr, self.back.strides[0], self.statuses.data.ptr)
        space = self._space(own_workspace)
        arguments = (self.array, self.n_chunks, *src, *dst, *space, stream.ptr, self.options)
        self.gridz.call("gridz_decompress_async", *arguments)

    def frame(self, i):
        """Frame `i` as bytes. Waits for the GPU."""
        return self.frames[i, : int(self.lengths[i])].get().tobytes()
