"""The exceptions of gridz: one class for each kind of failure that the library distinguishes."""

from __future__ import annotations


class Error(Exception):
    """A failed call of the library. The text names the problem and, if there is one, the remedy."""

    status = 0
    """The library's number of the error, `GRIDZ_ERROR_*` of gridz.h."""


class InvalidArgument(Error, ValueError):
    """A value that no version of gridz accepts."""


class UnsupportedJob(Error, ValueError):
    """A valid request that this version, or the codec, does not support."""


class MissingFilter(UnsupportedJob):
    """A dataset cannot be read because this machine lacks one of its HDF5 filters."""


class Cancelled(Error):
    """The progress function canceled the call."""


class Corrupt(Error):
    """The bytes are not a frame, or were damaged after they were written."""


class Truncated(Corrupt):
    """A truncated frame."""


class UnsupportedFormat(Error):
    """An intact frame of a newer gridz."""


class OutOfMemory(Error, MemoryError):
    """Out of memory."""


class DeviceError(Error):
    """The GPU or its driver is missing, too old, or failed."""


class HostError(Error):
    """libhdf5 refused an operation that gridz needs."""


BY_NAME = {
    "GRIDZ_ERROR_INVALID_ARGUMENT": InvalidArgument,
    "GRIDZ_ERROR_DST_TOO_SMALL": InvalidArgument,
    "GRIDZ_ERROR_UNSUPPORTED_JOB": UnsupportedJob,
    "GRIDZ_ERROR_CANCELLED": Cancelled,
    "GRIDZ_ERROR_CORRUPT": Corrupt,
    "GRIDZ_ERROR_TRUNCATED": Truncated,
    "GRIDZ_ERROR_UNSUPPORTED_FORMAT": UnsupportedFormat,
    "GRIDZ_ERROR_OUT_OF_MEMORY": OutOfMemory,
    "GRIDZ_ERROR_DEVICE": DeviceError,
    "GRIDZ_ERROR_HOST": HostError,
}
"""The class for each status name."""
