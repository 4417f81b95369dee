"""What to compress with: a codec, its mode and level, as h5py, hdf5plugin and the other hosts take them.

The classes (`Lorenzo`, `Ndzip`, `Szp`, `Zfp`, …) are made from the library's own list, and what they are given is checked by
the library, with its words: a codec of a later version needs nothing here.
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
"""The filter's number in HDF5, from the range for private use until one is registered."""


class Codec(Mapping):
    """A codec with its mode and level, for arrays and for datasets.

    It is a mapping of h5py's `compression` and `compression_opts`: `f.create_dataset(name, data=a, **codec)`, and h5py
    takes it as `compression=codec` too. `str(codec)` is the text form, which every host of gridz understands; two codecs are
    equal if that is. Codecs do not change, can be pickled, and may be used by several threads.
    """

    filter_id = FILTER_ID
    filter_name = "gridz"

    def __init__(self, text: str):
        """Reads the text form. Raises `InvalidArgument` or `UnsupportedJob`, saying what is allowed."""
        *parts, self.fill = _without_fill(text)
        canonical = _text_of(_values_of(",".join(parts)))
        self.name, *settings = canonical.split(",")
        self.mode, self.value, self.level, self.extras = "lossless", 0.0, None, {}
        for setting in settings:
            key, _, value = setting.partition("=")
            if key in MODES:
                self.mode, self.value = key, float(value or 0)
            elif key == "level":
                self.level = value
            else:
                self.extras[key] = float(value)
        self._text = canonical if self.fill is None else f"{canonical},fill={self.fill}"

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
        """Whether every bit of every value comes back."""
        return self.mode == "lossless"

    @property
    def filter_options(self) -> tuple[int, ...]:
        """The cd_values of the HDF5 filter.

        Raises `UnsupportedJob` for a bound that is relative to the range, which the filter, who sees one chunk at a
        time, cannot know.
        """
        if self.mode == "rel":
            raise UnsupportedJob(
                f"{self}: a dataset is compressed chunk by chunk, so the range of the whole must be known before; use "
                f"codec.bounded_for(array), which measures it and gives the codec with abs=, or give abs= yourself"
            )
        if self.fill is not None and not self.is_lossless:
            raise InvalidArgument(
                f"{self}: in HDF5 the fill value is that of the dataset; leave fill= out and create the dataset with "
                f"fillvalue={self.fill}"
            )
        return _values_of(str(self).partition(",fill=")[0])

    def bounded_for(self, array) -> Codec:
        """The same codec with a bound for this array: `rel=` becomes `abs=`, `rel` times the range of the finite values
        that are not the fill value. Every other codec is its own answer.

        A range of 0, which no bound is for, gives the smallest normal number.
        """
        if self.mode != "rel":
            return self
        from gridz.arrays import range_of

        return self.bounded_by(*range_of(array, fill=self.fill))

    def bounded_by(self, minimum: float, maximum: float) -> Codec:
        """As `bounded_for`, by the ends of the range: for arrays that are not in memory as a whole."""
        if self.mode != "rel":
            return self
        bound = lib.gridz_relative_bound(minimum, maximum, self.value) or float(np.finfo(float).tiny)
        parts = str(self).split(",")
        return parse(",".join(f"abs={bound!r}" if part.startswith("rel=") else part for part in parts))

    def get_config(self) -> dict[str, Any]:
        """The arguments with which the class of its name makes it again: `{"abs": 0.001, "level": "fast"}`."""
        mode = {} if self.mode == "lossless" else {self.mode: self.value or True}
        rest = {"level": self.level, "fill": self.fill, **self.extras}
        return {**mode, **{key: value for key, value in rest.items() if value is not None}}

    @classmethod
    def from_filter_options(cls, values) -> Codec:
        """The codec in cd_values: those of a user, or those that are stored with a dataset."""
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
    """The codec that a text names, such as `"lorenzo,level=dense"` or `"szp,abs=1e-3"`."""
    name = text.partition(",")[0].strip()
    made = object.__new__(CLASSES.get(name, Codec))
    Codec.__init__(made, text)
    return made


def codec(given: Codec | str | None) -> Codec:
    """A codec as it is, or of its text; None is the default lossless one."""
    if given is None:
        return Codec.from_filter_options(())
    return given if isinstance(given, Codec) else parse(given)


@dataclass(frozen=True)
class CodecInfo:
    """A codec of this library."""

    name: str
    id: int
    description: str
    levels: tuple[str, ...]
    """The names of its levels; the first one is the default."""
    modes: tuple[str, ...]
    dtypes: tuple[np.dtype, ...]
    """The types that it encodes; others it keeps as they are, if it is lossless."""
    backends: tuple[str, ...]
    """What can compute it here: "cpu", and "cuda" where there are kernels and a GPU for them."""


def codecs() -> list[CodecInfo]:
    """All codecs of this library. Asks for GPUs: a process that is forked afterwards has none."""
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


def _values_of(request: str) -> tuple[int, ...]:
    values, n = ffi.new("uint32_t[64]"), ffi.new("size_t *")
    check(lib.gridz_cd_values(request.encode(), values, len(values), n))
    return tuple(values[0 : n[0]])


def _text_of(values: tuple[int, ...]) -> str:
    chars, n = ffi.new("char[1024]"), ffi.new("size_t *")
    check(lib.gridz_cd_text(ffi.new("uint32_t[]", values), len(values), chars, len(chars), n))
    return text(chars)


def _without_fill(request: str) -> list:
    """The parts of a text but its fill value, and that one, or None."""
    parts = [part.strip() for part in request.split(",")]
    fills = [part[len("fill=") :] for part in parts if part.startswith("fill=")]
    if len(fills) > 1:
        raise InvalidArgument(f'"{request}" names a second fill; keep one')
    for fill in fills:
        if not re.fullmatch(r"0x([0-9a-fA-F]{2}){1,16}|[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?inf|nan", fill):
            raise InvalidArgument(
                f'"{request}": fill is followed by a number, such as fill=-999, or the bits of an element, such as '
                f"fill=0x7fc00001"
            )
    return [part for part in parts if not part.startswith("fill=")] + [fills[0] if fills else None]


def _class_of(name: str) -> type[Codec]:
    """The class of a codec of the library, which is called as its text form is written."""

    def __init__(self, level: str | int | None = None, *, fill=None, **settings):
        parts = [name]
        for key, value in settings.items():
            if value is not None:
                parts.append(key if value is True else f"{key}={number_text(value)}")
        if level is not None:
            parts.append(f"level={level}")
        if fill is not None:
            parts.append(f"fill={number_text(fill)}")
        Codec.__init__(self, ",".join(parts))

    __init__.__doc__ = (
        f"`{name}` with a level by its name or number, a mode by its name with its value (such as `abs=1e-3`), and the "
        f"value that stands where there is no data. `gridz.codecs()` tells which it takes."
    )
    doc = f"The codec `{name}` of the library."
    return type(name.capitalize(), (Codec,), {"__init__": __init__, "__doc__": doc, "__module__": "gridz"})


def number_text(value) -> str:
    """A number as text that is read as the same one: of NumPy's complex ones the bits."""
    if isinstance(value, np.complexfloating):
        return f"0x{value.astype(value.dtype.newbyteorder('<')).tobytes()[::-1].hex()}"
    if isinstance(value, complex):
        raise InvalidArgument(f"{value}: give a scalar of the array's type, such as numpy.complex64({value})")
    return str(value) if isinstance(value, (str, int, np.number)) else repr(float(value))


def fill_element(fill, dtype: np.dtype) -> bytes:
    """The bytes of one element, in its own byte order, that is a fill value: a number, or its text."""
    fill_text = number_text(np.asarray(fill, dtype)[()] if isinstance(fill, complex) else fill)
    if fill_text.startswith("0x"):
        bits = bytes.fromhex(fill_text[2:])[::-1]
        if len(bits) != dtype.itemsize:
            raise InvalidArgument(f"fill={fill_text} has {len(bits)} bytes, elements of {dtype} have {dtype.itemsize}")
        return np.frombuffer(bits, dtype.newbyteorder("<")).astype(dtype).tobytes()
    number = int(fill_text) if re.fullmatch(r"[-+]?\d+", fill_text) else float(fill_text)
    if dtype.kind in "iu" and number == int(number):
        number = int(number)
    try:
        return np.array(number, dtype).tobytes()
    except (OverflowError, ValueError):
        raise InvalidArgument(f"fill={fill_text} is no element of {dtype}") from None


CLASSES: dict[str, type[Codec]] = {}
"""The classes by the names of their codecs."""
for _i in range(lib.gridz_codec_count()):
    _name = text(lib.gridz_codec_name(_i))
    CLASSES[_name] = _class_of(_name)
