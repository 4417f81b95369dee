"""The elements of an array that mark missing data: fill values, and elements outside the valid
range.

Each host has one function here that collects them: `of_attributes` (netCDF, xarray), `of_dataset`
(HDF5), `of_codec` (a request), `filled` (NumPy masks). Codecs, ranges and comparisons get them as
one `Missing`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Mapping

import numpy as np

from gridz._codecs import Codec, fill_element, listed, number_text, parse
from gridz._native import ffi
from gridz.errors import InvalidArgument
from gridz.filters import stored_codec

MOST = 8
"""Largest number of fill values that a codec keeps."""


@dataclass(frozen=True)
class Missing:
    """Elements of a type that mark missing data. Each is the bytes of one element, in the type's
    byte order."""

    dtype: np.dtype
    fills: tuple[bytes, ...] = ()
    valid_min: bytes | None = None
    """Elements below are missing; None: no limit."""
    valid_max: bytes | None = None

    def __or__(self, other: Missing) -> Missing:
        """The elements that are missing by either operand: all fill values, and the narrower valid
        range."""
        least = [limit for limit in (self.valid_min, other.valid_min) if limit is not None]
        most = [limit for limit in (self.valid_max, other.valid_max) if limit is not None]
        return replace(
            self,
            fills=tuple(dict.fromkeys((*self.fills, *other.fills))),
            valid_min=max(least, key=self._value, default=None),
            valid_max=min(most, key=self._value, default=None),
        )

    def kept_by(self, codec: Codec, name: str = "") -> Codec:
        """The codec with these elements in its request, so that they are restored bit for bit. A
        lossless codec is returned unchanged. `name` is that of the dataset or variable, for
        errors."""
        if codec.is_lossless:
            return codec
        whole = of_codec(codec, self.dtype) | self
        # Every codec restores NaN and infinities bit for bit.
        fills = [fill for fill in whole.fills if self.is_number(fill)]
        if len(fills) > MOST:
            texts = ", ".join(map(self.text, fills))
            raise InvalidArgument(
                f"{name or 'the array'} has {len(fills)} fill values, {texts}; a lossy codec keeps {MOST}: "
                f"use a lossless codec, such as lorenzo, or name fewer values"
            )
        parts = [part for part in str(codec).split(",") if not part.startswith(("fill=", "valid_min=", "valid_max="))]
        parts += [f"fill={self.text(fill)}" for fill in fills]
        limits = ("valid_min", whole.valid_min), ("valid_max", whole.valid_max)
        return parse(",".join(parts + [f"{key}={self.text(limit)}" for key, limit in limits if limit is not None]))

    def mask(self, array: np.ndarray) -> np.ndarray:
        """True for each missing element of the array."""
        found, words = np.zeros(array.shape, bool), _words(array)
        for fill in self.fills:
            found |= _all(word == own for word, own in zip(words, np.frombuffer(fill, words[0].dtype)))
        if self.valid_min is not None:
            found |= array < self._value(self.valid_min)
        if self.valid_max is not None:
            found |= array > self._value(self.valid_max)
        return found

    def is_kept(self, original: np.ndarray, decoded: np.ndarray) -> bool:
        """True if the same elements are missing in both arrays, with the same bits."""
        if not self.fills and self.valid_min is None and self.valid_max is None:
            return True
        missing = self.mask(original)
        same = _all(a == b for a, b in zip(_words(original), _words(decoded)))
        return np.array_equal(missing, self.mask(decoded)) and bool((same | ~missing).all())

    def set_options(self, options) -> list:
        """Sets the fields of a C struct that name missing elements; returns the memory that they
        point to."""
        kept = [ffi.new("char[]", b"".join(self.fills) or b"\0")]
        options.fill_value, options.n_fill_values = (kept[0], len(self.fills)) if self.fills else (ffi.NULL, 0)
        for key in ("valid_min", "valid_max"):
            limit = getattr(self, key)
            if limit is not None:
                kept.append(ffi.new("char[]", limit))
                setattr(options, key, kept[-1])
        return kept

    def text(self, element: bytes) -> str:
        """An element in the form for requests: a number, or its bits."""
        value = self._value(element)
        if self.dtype.kind != "c" and np.isfinite(value):
            return number_text(value)
        return f"0x{np.array(value, self.dtype.newbyteorder('<')).tobytes()[::-1].hex()}"

    def is_number(self, element: bytes) -> bool:
        """True if an element, or a part of a complex one, is finite."""
        value = self._value(element)
        return bool(np.isfinite(value.real) or (self.dtype.kind == "c" and np.isfinite(value.imag)))

    def _value(self, element: bytes):
        return np.frombuffer(element, self.dtype)[0]


def of_codec(codec: Codec, dtype) -> Missing:
    """The elements that a request names."""
    return of_values(dtype, codec.fills, codec.valid_min, codec.valid_max)


def of_values(dtype, fill=None, valid_min=None, valid_max=None) -> Missing:
    """The elements that a caller names: a fill value or a sequence of them, and limits, as numbers
    or texts. Raises `InvalidArgument` for values that are not elements of the type."""
    dtype = np.dtype(dtype)
    limits = (None if limit is None else fill_element(limit, dtype) for limit in (valid_min, valid_max))
    return Missing(dtype, tuple(dict.fromkeys(fill_element(value, dtype) for value in listed(fill))), *limits)


def of_attributes(attributes: Mapping, dtype, *fills) -> Missing:
    """The elements that netCDF's attributes name, and `fills`, which the host stores elsewhere.

    `_FillValue` and `missing_value` are scalars or arrays; `valid_range` takes precedence over
    `valid_min` and `valid_max`. Values of another type are cast as readers do. Texts, numbers that
    are not elements of the type, and limits for complex numbers are ignored.
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "iufc":
        return Missing(dtype)
    values = [*fills, attributes.get("_FillValue"), attributes.get("missing_value")]
    reads_as = _read_as(attributes, dtype)
    elements = (_element(value, dtype, reads_as) for group in values for value in _numbers(group))
    found = Missing(dtype, tuple(dict.fromkeys(element for element in elements if element is not None)))
    if dtype.kind == "c" or reads_as != dtype:  # limits of unsigned numbers are not a range of signed ones
        return found
    limits = [_numbers(attributes.get(name)) for name in ("valid_min", "valid_max")]
    both = _numbers(attributes.get("valid_range"))
    if len(both) == 2:
        limits = [both[:1], both[1:]]
    least, most = (limit[0] if len(limit) == 1 else None for limit in limits)
    return replace(found, valid_min=_limit(least, dtype, 1), valid_max=_limit(most, dtype, -1))


def of_dataset(dataset) -> Missing:
    """The elements that an `h5py.Dataset` names: by the user-defined fill value, by netCDF's
    attributes, and by the request of the lossy codec that it is stored with."""
    found = of_attributes(attributes_of(dataset, NAMES), dataset.dtype.base, *user_fill(dataset))
    stored = stored_codec(dataset)
    return found if stored is None or stored.is_lossless else found | of_codec(stored, found.dtype)


def user_fill(dataset) -> list:
    """The fill value that the user of an `h5py.Dataset` defined, if any."""
    from h5py import h5d

    is_defined = dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    return [dataset.fillvalue] if is_defined else []


NAMES = ("_FillValue", "missing_value", "valid_min", "valid_max", "valid_range", "_Unsigned")
"""The attributes that `of_attributes` reads."""


def attributes_of(item, names) -> dict:
    """Some attributes of an HDF5 object: those that exist and that h5py can read."""
    found = {}
    for name in names:
        try:
            if name in item.attrs:
                found[name] = item.attrs[name]
        except (OSError, TypeError, ValueError, RuntimeError, KeyError):  # an attribute of a type that NumPy lacks
            continue
    return found


def is_read_as_unsigned(attributes: Mapping, dtype) -> bool:
    """True if `_Unsigned` makes readers interpret integers with the other signedness."""
    return _read_as(attributes, np.dtype(dtype)) != dtype


def with_mask(array, codec: Codec) -> tuple:
    """An array without its mask, and the codec that keeps the masked elements, which are filled as
    by `filled`.

    Arrays without a mask, and their codec, are returned unchanged.
    """
    array = as_given(array)
    if not isinstance(array, np.ma.MaskedArray):
        return array, codec
    plain, missing = filled(array, of_codec(codec, array.dtype))
    return plain, missing.kept_by(codec)


def as_given(array):
    """Converts an object to a NumPy array with its mask; objects that own memory are unchanged."""
    if isinstance(getattr(array, "_meta", None), np.ma.MaskedArray):  # dask
        return array.compute()
    is_made = hasattr(array, "__array__") and not hasattr(array, "__array_interface__")
    if is_made and not hasattr(array, "__cuda_array_interface__") and not hasattr(array, "__dlpack__"):
        return np.asanyarray(array)
    return array


def unmasked(array):
    """The elements of a masked array, including the masked ones; other arrays are unchanged."""
    return array.data if isinstance(array, np.ma.MaskedArray) else array


def filled(array: np.ma.MaskedArray, named: Missing) -> tuple[np.ndarray, Missing]:
    """The elements of a masked array, with masked elements replaced by a fill value; and `named`
    with that value.

    The value is the array's own `fill_value`, or the first one of `named` if that names others. Raises
    `InvalidArgument` if an element that is not masked has the value: the mask would be lost.
    """
    if array.dtype.names:
        raise InvalidArgument(f"a masked array with fields, {array.dtype}, is not supported; give array.filled(…)")
    if not np.ma.is_masked(array):
        return array.data, named
    with np.errstate(over="ignore"):  # NumPy's default, 1e20, becomes infinity in float16
        own = np.asarray(array.fill_value).astype(array.dtype).tobytes()
    element = own if own in named.fills or not named.fills else named.fills[0]
    value, mask = np.frombuffer(element, array.dtype)[0], np.ma.getmaskarray(array)
    n = np.count_nonzero(~mask & ((array.data == value) | ((array.data != array.data) & bool(value != value))))
    if n:
        raise InvalidArgument(
            f"{n} elements that are not masked have the fill value of the masked array, {value}, so the mask would be "
            f"lost; choose another value: array.fill_value = …, or fill= of the codec"
        )
    plain = np.where(mask, value, array.data).astype(array.dtype, copy=False)
    return plain, named | Missing(array.dtype, (element,))


def refuse_mask(array, what: str) -> None:
    """Raises `InvalidArgument` for a masked array where masks are not supported."""
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(f"{what} is a masked array, whose mask would be lost; give array.filled(…) or array.data")


def _read_as(attributes: Mapping, dtype: np.dtype) -> np.dtype:
    """The type with which readers interpret the elements: `_Unsigned` changes it for integers of
    netCDF-3's types."""
    unsigned = np.ravel(attributes.get("_Unsigned", ""))[:1].astype(str)
    kind = {"true": "u", "false": "i"}.get("".join(unsigned).lower())
    return np.dtype(f"{dtype.byteorder}{kind}{dtype.itemsize}") if kind and dtype.kind in "iu" else dtype


def _element(value, dtype: np.dtype, reads_as: np.dtype) -> bytes | None:
    """A number as an element of the type, or None if it is not one."""
    if dtype.kind != "c" and value.dtype.kind == "c":
        if value.imag:
            return None
        value = value.real
    if dtype.kind in "iu":
        for kind in dict.fromkeys((dtype, reads_as)):
            limits = np.iinfo(kind)
            if np.isfinite(value) and value == int(value) and limits.min <= int(value) <= limits.max:
                return np.array(int(value), kind).tobytes()
        return None
    with np.errstate(over="ignore"):
        element = np.array(value).astype(dtype)
    return element.tobytes() if np.isfinite(element) or not np.isfinite(value) else None


def _limit(value, dtype: np.dtype, inward: int) -> bytes | None:
    """A limit as an element of the type: the nearest one inside the valid range; None if that is
    not a limit."""
    if value is None or value.dtype.kind == "c" or not np.isfinite(value):
        return None
    if dtype.kind in "iu":
        whole = int(np.ceil(value) if inward > 0 else np.floor(value))
        limits = np.iinfo(dtype)
        return np.array(whole, dtype).tobytes() if limits.min <= whole <= limits.max else None
    with np.errstate(over="ignore"):
        element = np.array(value).astype(dtype)
    if np.isfinite(element) and (element.astype("f8") < value if inward > 0 else element.astype("f8") > value):
        # Readers compare in either type: in neither may an element cross the limit.
        element = np.nextafter(element, np.array(inward * np.inf, dtype)).astype(dtype)
    return element.tobytes() if np.isfinite(element) else None


def _numbers(value) -> list:
    """The numbers of an attribute, also from lists of variable length."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return [number for item in value.ravel() if isinstance(item, np.ndarray) for number in _numbers(item)]
    return [] if value is None else [item for item in np.ravel(value) if isinstance(item, np.number)]


def _words(array: np.ndarray) -> list[np.ndarray]:
    """The bits of each element as unsigned integers: one array for each word of an element."""
    size = next(size for size in (8, 4, 2, 1) if array.dtype.itemsize % size == 0)
    words = np.ascontiguousarray(array).reshape(*array.shape, 1).view(f"u{size}")
    return [words[..., i] for i in range(words.shape[-1])]


def _all(conditions) -> np.ndarray:
    """Element-wise conjunction of several conditions."""
    return functools.reduce(np.logical_and, conditions)
