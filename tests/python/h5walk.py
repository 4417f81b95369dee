"""Finds the differences between two HDF5 files: links, objects, types, creation properties,
attributes and elements.

The walk calls the C functions of h5py's libhdf5. It reads elements in the type of the file and compares their bytes, so
it needs neither NumPy's types nor gridz. Padding between the members of compounds is ignored.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections import Counter

import h5py
import numpy as np
from h5py import h5, h5a, h5d, h5f, h5g, h5i, h5l, h5o, h5p, h5s, h5t

_lib = ctypes.CDLL(h5py.h5.__file__)
_hid = ctypes.c_int64
DEFAULT = _hid(0)
KINDS = {h5g.GroupID: "groups", h5d.DatasetID: "datasets"}
ROWS_BYTES = 64 << 20
"""Approximate number of bytes of elements that are read at once."""


def _call(name: str, *arguments, result=ctypes.c_int):
    function = getattr(_lib, name)
    function.restype = result
    return function(*(_hid(a.id) if hasattr(a, "id") else a for a in arguments))


@dataclasses.dataclass
class Walk:
    """A comparison of two files. `bounds` maps the path of each dataset whose storage has changed
    to the largest absolute error that its elements may have, 0 for none."""

    bounds: dict[str, float]
    counts: Counter = dataclasses.field(default_factory=Counter)
    differences: list[str] = dataclasses.field(default_factory=list)

    def compare(self, a, b) -> Walk:
        """Compares the files of two paths."""
        self._files = [h5f.open(os.fsencode(path), h5f.ACC_RDONLY) for path in (a, b)]
        self._seen: list[dict] = [{}, {}]
        self._references: list[tuple] = []
        opened = ((h5o.open(self._files[0], os.fsencode(path)), bound) for path, bound in self.bounds.items())
        self._bounds = {h5o.get_info(dataset).addr: bound for dataset, bound in opened}
        try:
            self._same("", "user block", *(_user_block(path, file) for path, file in zip((a, b), self._files)))
            self._object("/", *(h5g.open(file, b"/") for file in self._files))
            for place, kind, *raw in self._references:
                self._same(place, "reference", *(self._target(i, kind, value) for i, value in enumerate(raw)))
            self.counts["files"] += 1
        finally:
            for file in self._files:
                file.close()
        return self

    def _same(self, place: str, what: str, one, two) -> bool:
        if one != two:
            self.differences.append(f"{place}: {what}: {str(one)[:200]} and {str(two)[:200]}")
        return one == two

    # ---- links and objects ----------------------------------------------------------------------

    def _object(self, place: str, one, two) -> None:
        """Compares two objects, once for all of their links."""
        addresses = [h5o.get_info(item).addr for item in (one, two)]
        names = [seen.get(address) for seen, address in zip(self._seen, addresses)]
        if not self._same(place, "first path of the object", *names) or names[0] is not None:
            return
        for seen, address in zip(self._seen, addresses):
            seen[address] = place
        if not self._same(place, "kind of object", type(one).__name__, type(two).__name__):
            return
        self.counts[KINDS.get(type(one), "named types")] += 1
        self._same(place, "comment", *(_comment(item) for item in (one, two)))
        if isinstance(one, h5g.GroupID):
            self._same(place, "properties", *(_group_properties(group) for group in (one, two)))
            self._links(place, one, two)
        elif isinstance(one, h5d.DatasetID):
            self._dataset(place, one, two)
        else:
            self._types(place, one, two)
        self._attributes(place, one, two)

    def _links(self, place: str, one: h5g.GroupID, two: h5g.GroupID) -> None:
        lists = [_links_of(group) for group in (one, two)]
        if not self._same(place, "links", *lists):
            return
        for name, kind, *_ in lists[0]:
            self.counts["links"] += 1
            if kind == h5l.TYPE_HARD:
                path = f"{place.rstrip('/')}/{name.decode(errors='surrogateescape')}"
                self._object(path, *(h5o.open(group, name) for group in (one, two)))

    def _attributes(self, place: str, one, two) -> None:
        names = []
        for item in (one, two):
            ids = [h5a.open(item, index=i, index_type=_order(item, "attr")) for i in range(h5a.get_num_attrs(item))]
            names.append([_bytes(attribute.name) for attribute in ids])
        if not self._same(place, "attributes", *names):
            return
        for name in names[0]:
            here = f"{place}@{name.decode(errors='replace')}"
            attributes = [h5a.open(item, name) for item in (one, two)]
            self.counts["attributes"] += 1
            self._same(here, "encoding of the name", *(_name_encoding(attribute) for attribute in attributes))
            if self._shapes(here, *attributes):
                kinds = [attribute.get_type() for attribute in attributes]
                n = attributes[0].get_space().get_simple_extent_npoints()
                rooms = [ctypes.create_string_buffer(max(n * kind.get_size(), 1)) for kind in kinds]
                for attribute, kind, room in zip(attributes, kinds, rooms):
                    assert n == 0 or _call("H5Aread", attribute, kind, room) >= 0, here
                self._values(here, kinds, n, rooms, 0.0)

    def _shapes(self, place: str, one, two) -> bool:
        """Compares types and extents; returns True if elements can be compared."""
        same = self._types(place, one.get_type(), two.get_type())
        spaces = [item.get_space() for item in (one, two)]
        kinds = [(space.get_simple_extent_type(), *_extents(space)) for space in spaces]
        return self._same(place, "extents", *kinds) and same

    def _types(self, place: str, one: h5t.TypeID, two: h5t.TypeID) -> bool:
        self.counts["types"] += 1
        is_same = _call("H5Tequal", one, two) > 0
        if not is_same:
            self.differences.append(f"{place}: types {one} and {two}")
        committed = [bool(kind.committed()) for kind in (one, two)]
        if self._same(place, "named type", *committed) and committed[0]:
            names = [seen.get(h5o.get_info(kind).addr) for seen, kind in zip(self._seen, (one, two))]
            if names != [None, None]:  # both None: a type without a link, or whose link comes later
                self._same(place, "name of the type", *names)
        return is_same

    # ---- datasets -------------------------------------------------------------------------------

    def _dataset(self, place: str, one: h5d.DatasetID, two: h5d.DatasetID) -> None:
        bound = self._bounds.get(h5o.get_info(one).addr)
        converted = bound is not None
        lists = [dataset.get_create_plist() for dataset in (one, two)]
        if not self._shapes(place, one, two):
            return
        self._same(place, "properties", *(_dataset_properties(plist, converted) for plist in lists))
        self._same(place, "time of modification", *(h5o.get_info(dataset).mtime > 0 for dataset in (one, two)))
        kinds = [dataset.get_type() for dataset in (one, two)]
        if lists[0].fill_value_defined() == lists[1].fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
            rooms = [ctypes.create_string_buffer(kind.get_size()) for kind in kinds]
            for plist, kind, room in zip(lists, kinds, rooms):
                assert _call("H5Pget_fill_value", plist, kind, room) >= 0, place
            self._values(f"{place}, fill value", kinds, 1, rooms, 0.0)
        layout = lists[0].get_layout()
        if lists[0].get_external_count() or layout == h5d.VIRTUAL:
            self.counts["elements elsewhere"] += 1
            return
        if not converted and layout == h5d.CHUNKED and any(map(_misses_a_filter, lists)):
            self._same(place, "stored chunks", *(_chunks(dataset) for dataset in (one, two)))
            self.counts["datasets compared as stored"] += 1
            return
        self.counts["datasets compared"] += 1
        self._fills = _fills(one) if bound else None
        self._elements(place, one, two, kinds, bound or 0.0)

    def _elements(self, place: str, one, two, kinds, bound: float) -> None:
        space = one.get_space()
        shape, size = (space.shape if space.get_simple_extent_type() == h5s.SIMPLE else ()), kinds[0].get_size()
        if not space.get_simple_extent_npoints():
            return
        row = int(np.prod(shape[1:], dtype=object)) * size
        step = max(1, ROWS_BYTES // max(row, 1))
        for first in range(0, shape[0] if shape else 1, step):
            count = (min(step, shape[0] - first), *shape[1:]) if shape else ()
            memory = h5s.create_simple(count) if shape else h5s.create(h5s.SCALAR)
            if shape:
                space.select_hyperslab((first, *[0] * (len(shape) - 1)), count)
            n = memory.get_simple_extent_npoints()
            rooms = [ctypes.create_string_buffer(n * size) for _ in kinds]
            for dataset, kind, room in zip((one, two), kinds, rooms):
                assert _call("H5Dread", dataset, kind, memory, space, DEFAULT, room) >= 0, place
            self.counts["elements"] += n
            self._values(place, kinds, n, rooms, bound)

    # ---- elements -------------------------------------------------------------------------------

    def _values(self, place: str, kinds, n: int, rooms, bound: float) -> None:
        """Compares elements in memory, within a bound or, for 0, bit for bit."""
        size = kinds[0].get_size()
        plain, special = np.zeros(size, bool), []
        _split(kinds[0], 0, plain, special)
        arrays = [np.frombuffer(room, np.uint8, n * size).reshape(n, size) for room in rooms]
        if bound:
            self._within(place, *(array.reshape(-1).view(kinds[0].dtype) for array in arrays), bound)
        elif plain.all():
            self._same(place, "elements", True, np.array_equal(*arrays))
        else:
            self._same(place, "elements", True, np.array_equal(*(array[:, plain] for array in arrays)))
        for offset, kind in special:
            for i in range(n):
                raw = [bytes(array[i, offset : offset + kind.get_size()]) for array in arrays]
                self._pointer(f"{place}[{i}]", kind, *raw)

    def _pointer(self, place: str, kind, one: bytes, two: bytes) -> None:
        """Compares two elements that are pointers or references."""
        self.counts["pointers"] += 1
        if kind.get_class() == h5t.REFERENCE:
            self._references.append((place, kind, one, two))
        elif kind.get_class() == h5t.STRING:
            texts = [ctypes.cast(int.from_bytes(raw, "little"), ctypes.c_char_p).value for raw in (one, two)]
            self._same(place, "text", *texts)
        else:
            lengths, places = zip(*(np.frombuffer(raw, np.uint64).tolist() for raw in (one, two)))  # hvl_t
            if self._same(place, "length", *lengths) and lengths[0]:
                parent = kind.get_super()
                rooms = [ctypes.string_at(start, lengths[0] * parent.get_size()) for start in places]
                self._values(place, [parent, parent], lengths[0], rooms, 0.0)

    def _within(self, place: str, one: np.ndarray, two: np.ndarray, bound: float) -> None:
        """Checks that finite numbers are within the bound, and that all other and all missing
        elements have the same bits."""
        missing = [np.isin(array, self._fills) for array in (one, two)]
        self.counts["missing elements"] += int(missing[0].sum())
        self._same(place, "places of missing elements", True, np.array_equal(*missing))
        self._same(place, "missing elements", one[missing[0]].tobytes(), two[missing[0]].tobytes())
        finite = np.isfinite(one)
        self.counts["elements within a bound"] += int(finite.sum())
        wide = [array[finite].astype("c32" if array.dtype.kind == "c" else "g") for array in (one, two)]
        self._same(place, "elements that are not finite", one[~finite].tobytes(), two[~finite].tobytes())
        error = wide[0] - wide[1]
        largest = max(np.abs(error.real).max(initial=0), np.abs(error.imag).max(initial=0))
        if not largest <= bound:
            self.differences.append(f"{place}: an error of {largest}, and the bound is {bound}")

    def _target(self, i: int, kind, raw: bytes):
        """The target of a reference in file `i`: the path of the object, and the selection of a region. In a copy,
        references to objects without a link are null."""
        if not any(raw):
            return "null"
        is_region, room = kind.get_size() == 12, ctypes.create_string_buffer(raw)
        assert kind.get_size() in (8, 12), f"unknown references of {kind.get_size()} bytes"
        number = _call("H5Rdereference2", self._files[i], DEFAULT, int(is_region), room, result=ctypes.c_int64)
        path = self._seen[i].get(h5o.get_info(h5i.wrap_identifier(number)).addr, "null") if number > 0 else "null"
        if not is_region or path == "null":
            return path
        region = h5s.SpaceID(_call("H5Rget_region", self._files[i], 1, room, result=ctypes.c_int64))
        return path, _selection(region)


def _user_block(path, file: h5f.FileID) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(file.get_create_plist().get_userblock())


def _split(kind, offset: int, plain: np.ndarray, special: list) -> None:
    """Marks the bytes of an element that are compared directly, and lists its pointers and
    references."""
    of = kind.get_class()
    if of == h5t.COMPOUND:
        for i in range(kind.get_nmembers()):
            _split(kind.get_member_type(i), offset + kind.get_member_offset(i), plain, special)
    elif of == h5t.ARRAY:
        parent = kind.get_super()
        for i in range(kind.get_size() // parent.get_size()):
            _split(parent, offset + i * parent.get_size(), plain, special)
    elif of in (h5t.VLEN, h5t.REFERENCE) or of == h5t.STRING and kind.is_variable_str():
        special.append((offset, kind))
    else:
        plain[offset : offset + kind.get_size()] = True


def _fills(dataset: h5d.DatasetID) -> np.ndarray:
    """The numbers that mark missing elements: the user-defined fill values, in HDF5 and in the attributes of netCDF."""
    dataset, found = h5py.Dataset(dataset), []
    if dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
        found.append(dataset.fillvalue)
    for name in ("_FillValue", "missing_value"):
        value = np.asarray(dataset.attrs.get(name, []))
        found += value.ravel().tolist() if value.dtype.kind in "iufc" else []
    return np.array(found, dataset.dtype)


def _bytes(name) -> bytes:
    return name if isinstance(name, bytes) else name.encode(errors="surrogateescape")


def _name_encoding(attribute: h5a.AttrID) -> int:
    number, plist = ctypes.c_int(), _hid(_call("H5Aget_create_plist", attribute, result=ctypes.c_int64))
    assert _call("H5Pget_char_encoding", plist, ctypes.byref(number)) >= 0
    _call("H5Pclose", plist)
    return number.value


def _comment(item) -> bytes:
    text = ctypes.create_string_buffer(1 << 12)
    assert _call("H5Oget_comment", item, text, ctypes.c_size_t(len(text)), result=ctypes.c_ssize_t) >= 0
    return text.value


def _order(item, of: str) -> int:
    """The index by which HDF5 lists links or attributes in the order that the file tracks."""
    if isinstance(item, h5t.TypeID):
        return h5.INDEX_NAME
    flags = getattr(item.get_create_plist(), f"get_{of}_creation_order")()
    return h5.INDEX_CRT_ORDER if flags & h5p.CRT_ORDER_TRACKED else h5.INDEX_NAME


def _links_of(group: h5g.GroupID) -> list[tuple]:
    names = []
    group.links.iterate(names.append, idx_type=_order(group, "link"), order=h5.ITER_INC)
    infos = [group.links.get_info(name) for name in names]
    values = [None if info.type == h5l.TYPE_HARD else group.links.get_val(name) for name, info in zip(names, infos)]
    return [(name, info.type, info.cset, value) for name, info, value in zip(names, infos, values)]


def _group_properties(group: h5g.GroupID) -> dict:
    plist = group.get_create_plist()
    return {
        "link order": plist.get_link_creation_order(),
        "attribute order": plist.get_attr_creation_order(),
        "times": plist.get_obj_track_times(),
    }


def _dataset_properties(plist: h5p.PropDCID, converted: bool) -> dict:
    """The properties that a copy preserves: all of them if the dataset is not converted."""
    found = {
        "attribute order": plist.get_attr_creation_order(),
        "fill value": plist.fill_value_defined(),
        "fill time": plist.get_fill_time(),
        "external": [plist.get_external(i) for i in range(plist.get_external_count())],
    }
    layout = plist.get_layout()
    if layout == h5d.VIRTUAL:
        found["sources"] = [
            (plist.get_virtual_filename(i), plist.get_virtual_dsetname(i), _selection(plist.get_virtual_vspace(i)))
            for i in range(plist.get_virtual_count())
        ]
    if not converted:
        found |= {"layout": layout, "allocation": plist.get_alloc_time(), "filters": _filters(plist)}
        found |= {"chunks": plist.get_chunk() if layout == h5d.CHUNKED else None}
    return found


def _filters(plist: h5p.PropDCID) -> list[tuple]:
    return [plist.get_filter(i) for i in range(plist.get_nfilters())]


def _misses_a_filter(plist: h5p.PropDCID) -> bool:
    return not all(h5py.h5z.filter_avail(number) for number, *_ in _filters(plist))


def _chunks(dataset: h5d.DatasetID) -> dict:
    places = [dataset.get_chunk_info(i).chunk_offset for i in range(dataset.get_num_chunks())]
    return {place: dataset.read_direct_chunk(place) for place in places}


def _extents(space: h5s.SpaceID) -> tuple:
    is_simple = space.get_simple_extent_type() == h5s.SIMPLE
    return (space.get_simple_extent_dims(), space.get_simple_extent_dims(True)) if is_simple else ()


def _selection(space: h5s.SpaceID) -> tuple:
    kind = space.get_select_type()
    if kind == h5s.SEL_POINTS:
        return kind, space.get_select_elem_pointlist().tolist()
    if kind == h5s.SEL_HYPERSLABS and not space.is_regular_hyperslab():
        return kind, space.get_select_hyper_blocklist().tolist()
    return kind, _extents(space), space.get_regular_hyperslab() if kind == h5s.SEL_HYPERSLABS else None
