"""The codec of a request with its mode and level, as h5py, hdf5plugin and the other hosts accept
it.

The classes (`Lorenzo`, `Ndzip`, `Quant`, `Zfp`, …) are created from the library's own list. The
library checks their arguments and supplies the error texts, so a codec of a later version needs no
changes here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridz._native import DTYPES, MODES, check, ffi, lib, struct, text
from gridz.errors import InvalidArgument, UnsupportedJob

FILTER_ID = 34013
"""The filter's id in HDF5, from the range for private use until one is registered."""


class Codec(Mapping):
    """A codec with its mode and level, for arrays and for datasets.

    It is a mapping of h5py's `compression` and `compression_opts`: `f.create_dataset(name, data=a,
    **codec)`. h5py also accepts it as `compression=codec`. `str(codec)` is the text form, which
    every host of gridz understands; two codecs are equal if their text forms are. Codecs are
    immutable, can be pickled, and may be used by several threads.
    """

    filter_id = FILTER_ID
    filter_name = "gridz"

    def __init__(self, text: str):
        """Parses the text form. Raises `InvalidArgument` or `UnsupportedJob`, with the allowed
        values."""
        self._text = _canonical(text)
        self.name, *settings = self._text.split(",")
        self.mode, self.value, self.level, self.extras = "lossless", 0.0, None, {}
        self.fills, self.valid_min, self.valid_max = (), None, None
        for setting in settings:
            key, _, value = setting.partition("=")
            if key in MODES:
                self.mode, self.value = key, float(value or 0)
            elif key == "fill":
                self.fills += (value,)
            elif key in ("level", "valid_min", "valid_max"):
                setattr(self, key, value)
            else:
                self.extras[key] = float(value)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in self.get_config().items())
        return f"gridz.{CLASSES[self.name].__name__}({settings})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codec) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self):
        return parse, (self._text,)

    @property
    def is_lossless(self) -> bool:
        """True if every bit of every value is restored."""
        return self.mode == "lossless"

    @property
    def filter_options(self) -> tuple[int, ...]:
        """The cd_values of the HDF5 filter.

        Raises `UnsupportedJob` for a bound that is relative to the range: the filter gets one chunk
        at a time and cannot know the range.
        """
        if self.mode == "rel":
            raise UnsupportedJob(
                f"{self}: a dataset is compressed chunk by chunk, so its range must be known first; use "
                f"codec.bounded_for(array), which measures it and returns the codec with abs=, or give abs= yourself"
            )
        return _values_of(self._text)

    def bounded_for(self, array, *, force: bool = False) -> Codec:
        """The codec with an absolute bound for this array: `rel=` becomes `abs=`, `rel` times the
        range of the valid numbers. The masked elements of a masked array become a fill value of the
        codec. Other codecs are unchanged.

        A range of 0, for which no bound exists, gives the smallest normal number. Raises
        `InvalidArgument` if outliers, such as an undeclared fill value, determine the range;
        `force` accepts them.
        """
        if self.is_lossless:
            return self
        from gridz._missing import of_codec, with_mask
        from gridz._ranges import Range
        from gridz.device import memory_of

        array, codec = with_mask(array, self)
        if codec.mode != "rel":
            return codec
        memory = memory_of(array)
        measured = Range(of_codec(codec, memory.dtype))
        measured.add(memory.array)
        if not force:
            measured.check("the array")
        return codec.bounded_by(measured.minimum, measured.maximum)

    def bounded_by(self, minimum: float, maximum: float) -> Codec:
        """As `bounded_for`, from the limits of the range: for arrays that do not fit in memory."""
        if self.mode != "rel":
            return self
        bound = lib.gridz_relative_bound(minimum, maximum, self.value) or float(np.finfo(float).tiny)
        parts = str(self).split(",")
        return parse(",".join(f"abs={bound!r}" if part.startswith("rel=") else part for part in parts))

    def get_config(self) -> dict[str, Any]:
        """The arguments with which the codec's class recreates it: `{"abs": 0.001, "level":
        "fast"}`."""
        mode = {} if self.mode == "lossless" else {self.mode: self.value or True}
        fill = self.fills[0] if len(self.fills) == 1 else self.fills or None
        limits = {"valid_min": self.valid_min, "valid_max": self.valid_max}
        rest = {"level": self.level, "fill": fill, **limits, **self.extras}
        return {**mode, **{key: value for key, value in rest.items() if value is not None}}

    @classmethod
    def from_filter_options(cls, values) -> Codec:
        """The codec of cd_values, as a user writes them or as a dataset stores them."""
        return parse(_text_of(tuple(values)))

    def __getitem__(self, key: str):
        if key == "compression":
            return self.filter_id
        if key == "compression_opts":
            return self.filter_options
        raise KeyError(key)

    def __iter__(self):
        return iter(("compression", "compression_opts"))

    def __len__(self) -> int:
        return 2


def parse(text: str) -> Codec:
    """Parses the text form of a codec, such as `"lorenzo,level=dense"` or `"quant,abs=1e-3"`."""
    name = text.partition(",")[0].strip()
    made = object.__new__(CLASSES.get(name, Codec))
    Codec.__init__(made, text)
    return made


def codec(given: Codec | str | None) -> Codec:
    """The codec itself, or parsed from its text; None is the default lossless one."""
    if given is None:
        return Codec.from_filter_options(())
    return given if isinstance(given, Codec) else parse(given)


@dataclass(frozen=True)
class CodecInfo:
    """Describes a codec of this library."""

    name: str
    id: int
    description: str
    levels: tuple[str, ...]
    """The names of its levels; the first one is the default."""
    modes: tuple[str, ...]
    dtypes: tuple[np.dtype, ...]
    """The types that it encodes; a lossless codec stores all others."""
    backends: tuple[str, ...]
    """The available back ends: "cpu", and "cuda" if there are kernels and a GPU for them."""


def codecs() -> list[CodecInfo]:
    """All codecs of this library. This initializes CUDA: a process that is forked afterwards cannot
    use GPUs."""
    found = []
    for i in range(lib.gridz_codec_count()):
        info = struct("gridz_codec")
        check(lib.gridz_codec_info(i, info))
        found.append(
            CodecInfo(
                name=text(info.name),
                id=info.id,
                description=text(info.description),
                levels=tuple(text(info.level_names[k]) for k in range(info.n_levels)),
                modes=tuple(name for name, number in MODES.items() if info.modes >> number & 1),
                dtypes=tuple(dtype for number, dtype in DTYPES.items() if info.dtypes >> number & 1),
                backends=("cpu", "cuda") if info.backends & lib.GRIDZ_BACKEND_CUDA else ("cpu",),
            )
        )
    return found


def _canonical(request: str) -> str:
    return _text_of(_values_of(request))


def _values_of(request: str) -> tuple[int, ...]:
    values, n = ffi.new("uint32_t[256]"), ffi.new("size_t *")
    check(lib.gridz_cd_values(request.encode(), values, len(values), n))
    return tuple(values[0 : n[0]])


def _text_of(values: tuple[int, ...]) -> str:
    chars, n = ffi.new("char[2048]"), ffi.new("size_t *")
    check(lib.gridz_cd_text(ffi.new("uint32_t[]", values), len(values), chars, len(chars), n))
    return text(chars)


def _class_of(name: str) -> type[Codec]:
    """Creates the class of a codec of the library. Its arguments are written as in the text
    form."""

    def __init__(self, level: str | int | None = None, *, fill=None, valid_min=None, valid_max=None, **settings):
        parts = [name]
        for key, value in settings.items():
            if value is not None:
                parts.append(key if value is True else f"{key}={number_text(value)}")
        if level is not None:
            parts.append(f"level={level}")
        parts += [f"fill={number_text(value)}" for value in listed(fill)]
        limits = ("valid_min", valid_min), ("valid_max", valid_max)
        parts += [f"{key}={number_text(limit)}" for key, limit in limits if limit is not None]
        Codec.__init__(self, ",".join(parts))

    __init__.__doc__ = (
        f"`{name}` with a level (name or number) and a mode with its value, such as `abs=1e-3`. `fill` is the value, or "
        f"a sequence of values, that marks missing data; elements below `valid_min` or above `valid_max` are missing, "
        f"too. Missing elements are restored bit for bit. `gridz.codecs()` lists levels and modes."
    )
    doc = f"The codec `{name}` of the library."
    return type(name.capitalize(), (Codec,), {"__init__": __init__, "__doc__": doc, "__module__": "gridz"})


def listed(fill) -> list:
    """The fill values of a caller as a list: none, one, or a sequence."""
    if fill is None:
        return []
    return list(fill) if isinstance(fill, (list, tuple, np.ndarray)) and np.ndim(fill) else [fill]


def number_text(value) -> str:
    """A number as text that parses to the same number; for NumPy's complex numbers, the bits."""
    if isinstance(value, np.complexfloating):
        return f"0x{value.astype(value.dtype.newbyteorder('<')).tobytes()[::-1].hex()}"
    if isinstance(value, complex):
        raise InvalidArgument(f"{value}: give a scalar of the array's type, such as numpy.complex64({value})")
    return str(value) if isinstance(value, (str, int, np.number)) else repr(float(value))


def fill_element(fill, dtype: np.dtype) -> bytes:
    """The bytes of one element that is a fill value, in the element's byte order. The value is a
    number, or its text."""
    fill_text = number_text(np.asarray(fill, dtype)[()] if isinstance(fill, complex) else fill)
    try:
        if fill_text.startswith("0x"):
            number = bytes.fromhex(fill_text[2:])[::-1]
        else:
            number = int(fill_text) if re.fullmatch(r"[-+]?\d+", fill_text) else float(fill_text)
    except ValueError:
        raise InvalidArgument(
            f"fill={fill_text} is not a number; give one, such as -999, or the bits of an element, such as 0x7fc00001"
        ) from None
    if isinstance(number, bytes):
        if len(number) != dtype.itemsize:
            raise InvalidArgument(
                f"fill={fill_text} has {len(number)} bytes, elements of {dtype} have {dtype.itemsize}"
            )
        return np.frombuffer(number, dtype.newbyteorder("<")).astype(dtype).tobytes()
    if dtype.kind in "iu" and np.isfinite(number) and number == int(number):
        number = int(number)
    try:
        with np.errstate(over="ignore"):
            return np.array(number, dtype).tobytes()
    except (OverflowError, ValueError):
        raise InvalidArgument(f"fill={fill_text} is not a value of type {dtype}; give a number that the type can represent") from None


CLASSES: dict[str, type[Codec]] = {}
"""The classes by codec name."""
for _i in range(lib.gridz_codec_count()):
    _name = text(lib.gridz_codec_name(_i))
    CLASSES[_name] = _class_of(_name)
