"""Copies a whole HDF5 file to a new one: everything except the elements of the datasets that the
caller writes.

First, the links are walked from the root, in creation order if the file tracks it. An object is
created at its first link; further links to it become links to its copy. An object that a fill value
refers to is created earlier. When all objects exist, the attributes are copied, and the elements
that hold references, which are re-pointed. Unchanged datasets are copied chunk by chunk, byte for
byte; by H5Ocopy if H5Dcreate refuses a missing filter.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from dataclasses import dataclass
from typing import Callable, Iterator

import h5py
from h5py import h5, h5a, h5d, h5f, h5g, h5l, h5o, h5p, h5s, h5t

from gridz._chunks import BOX_BYTES, boxes_of, chunks_of
from gridz._libhdf5 import DEFAULT, address_of, call, elements, holds, id_of, made, pointer, room_for
from gridz._names import bytes_of, shown, text_of
from gridz._pipeline import missing_filters, pipeline_of
from gridz._references import References
from gridz.errors import Error, HostError, MissingFilter

WITHOUT_ATTRIBUTES = h5o.COPY_WITHOUT_ATTR_FLAG
ELEMENTS_AT_ONCE = 1 << 16
"""Approximate number of elements with pointers or references that are copied at once."""

Maker = Callable[[str, h5d.DatasetID, h5t.TypeID, h5f.FileID], "h5d.DatasetID | None"]
"""Makes the copy of a dataset, at a path, of a type, in a file, without a link; returns None to
copy it unchanged."""

PROBLEMS = (OSError, ValueError, RuntimeError, TypeError, KeyError, HostError)
"""Errors of h5py and `call` for operations that HDF5 or NumPy does not support."""


def open_file(path) -> h5py.File:
    """Opens a file for reading. Errors name the file, and the remedy if another program has it open for writing."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        text = reason_of(error)
        if error.errno in (errno.EAGAIN, errno.EACCES) and "lock" in text:
            text = "another program has the file open for writing; close it there, or set HDF5_USE_FILE_LOCKING=FALSE"
        raise OSError(error.errno, text, os.fspath(path)) from None


@dataclass(frozen=True)
class Found:
    """An object found by a walk, or one that could not be opened, with the error."""

    path: str
    id: h5d.DatasetID | h5g.GroupID | h5t.TypeID | None
    error: str = ""

    @property
    def dataset(self) -> h5py.Dataset:
        """The object as an h5py dataset."""
        return h5py.Dataset(self.id)


def datasets_of(file: h5f.FileID) -> Iterator[Found]:
    """All datasets, whatever their names and types, and the objects that could not be opened."""
    return (found for found in objects_of(file) if found.id is None or isinstance(found.id, h5d.DatasetID))


def objects_of(file: h5f.FileID) -> Iterator[Found]:
    """All objects reachable by hard links, each once; depth first, in the order of the links."""
    seen, stack = set(), [("", None, b"/")]
    while stack:
        path, parent, name = stack.pop()
        try:
            opened = h5o.open(parent or file, name)
            if address_of(opened) in seen:
                continue
            seen.add(address_of(opened))
            yield Found(path or "/", opened)
            if isinstance(opened, h5g.GroupID):
                links = [link for link in _names_of_links(opened) if opened.links.get_info(link).type == h5l.TYPE_HARD]
                stack.extend((f"{path}/{text_of(link)}", opened, link) for link in reversed(links))
        except PROBLEMS as error:
            yield Found(path or "/", None, reason_of(error))


def reason_of(error: Exception) -> str:
    """The text of an error, in one line; KeyError puts quotes around its own."""
    return " ".join(str(error.args[0] if isinstance(error, KeyError) and error.args else error).split())


def _names_of_links(group: h5g.GroupID) -> list[bytes]:
    """Names of a group's links, in creation order if the group tracks it, otherwise in name
    order."""
    tracked = group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    group.links.iterate(names.append, idx_type=h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME, order=h5.ITER_INC)
    return names


def create_like(path: str, source: h5f.FileID) -> h5f.FileID:
    """A new, empty file with the creation properties of `source`: user block, link order, space,
    superblock."""
    access, create = access_by_descriptor(), source.get_create_plist()
    root = h5g.open(source, b"/").get_create_plist()  # the file's own list lacks the root group's properties
    create.set_link_creation_order(root.get_link_creation_order())
    create.set_attr_creation_order(root.get_attr_creation_order())
    create.set_obj_track_times(root.get_obj_track_times())
    versions = {0: h5f.LIBVER_EARLIEST, 1: h5f.LIBVER_EARLIEST, 2: h5f.LIBVER_V18}
    newest = getattr(h5f, "LIBVER_V110", h5f.LIBVER_LATEST)
    access.set_libver_bounds(versions.get(_superblock_version(source), newest), h5f.LIBVER_LATEST)
    return h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=create, fapl=access)


def access_by_descriptor() -> h5p.PropFAID:
    """File access properties for `/proc/self/fd/N`: HDF5's default driver fails to resolve a real
    path for it."""
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_stdio()
    access.set_fclose_degree(h5f.CLOSE_STRONG)  # also closes all open objects of the file after an error
    return access


def _superblock_version(file: h5f.FileID) -> int:
    """The superblock version: it follows the user block and the eight-byte signature."""
    with open(file.name, "rb") as stream:
        stream.seek(file.get_create_plist().get_userblock() + 8)
        return stream.read(1)[0]


class Copy:
    """The copy of one file. `places` maps the addresses of the original objects to their copies."""

    def __init__(self, source: h5f.FileID, target: h5f.FileID, make: Maker):
        self._source, self._target, self._make = source, target, make
        self.places, self._objects = {}, []
        self._paths, self._unwalked, self._begun = None, set(), set()
        self._references = References(source, self.places.get)
        self._fill_references = References(source, self._made_ahead)

    def run(self) -> None:
        """Copies links and objects, then attributes and references."""
        roots = [h5g.open(file, b"/") for file in (self._source, self._target)]
        self._note("/", *roots)
        groups = [("", *roots)]
        while groups:
            groups.extend(self._links(*groups.pop()))
        for path, original, copied in self._objects:
            self._attributes(path, original, copied)
            if isinstance(original, h5d.DatasetID) and holds(original.get_type(), h5t.REFERENCE):
                _need_filters(path, original)
                with self._naming(path):
                    self._elements(original, copied)

    @contextlib.contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        """Adds the file and the path to the text of errors."""
        try:
            yield
        except (Error, *PROBLEMS) as error:
            if isinstance(error, Error) and shown(path) in str(error):
                raise
            kind, file = type(error) if isinstance(error, Error) else HostError, shown(text_of(self._source.name))
            raise kind(f"{file}: {shown(path)} cannot be copied: {reason_of(error)}") from error

    def _note(self, path: str, original, copied) -> None:
        self.places[address_of(original)] = copied
        self._objects.append((path, original, copied))

    def _links(self, path: str, group: h5g.GroupID, copied: h5g.GroupID) -> list:
        """Copies the links of a group, and the objects whose first link is among them; returns the
        groups among these objects."""
        with self._naming(path or "/"):
            names = _names_of_links(group)
        found = []
        for name in names:
            place = f"{path}/{text_of(name)}"
            with self._naming(place):
                original = self._link(place, group, copied, name)
                if isinstance(original, h5g.GroupID):
                    found.append((place, original, self.places[address_of(original)]))
        return found

    def _link(self, path: str, group: h5g.GroupID, copied: h5g.GroupID, name: bytes):
        """Copies one link. If it is the first link to an object, copies and returns the object."""
        info = group.links.get_info(name)
        if info.type != h5l.TYPE_HARD:
            call("H5Lcopy", id_of(group), name, id_of(copied), name, DEFAULT, DEFAULT)
            return None
        link = h5p.create(h5p.LINK_CREATE)
        link.set_char_encoding(info.cset)
        original = h5o.open(group, name)
        is_new = address_of(original) not in self.places
        if is_new and isinstance(original, h5d.DatasetID) and self._dataset(path, original, copied, name, link):
            return original
        if is_new and not isinstance(original, h5d.DatasetID):
            made_like = self._type if isinstance(original, h5t.TypeID) else self._group
            self._note(path, original, made_like(original))
        address = address_of(original)
        h5o.link(self.places[address], copied, name, lcpl=link)
        is_new |= address in self._unwalked
        self._unwalked.discard(address)
        return original if is_new else None

    def _group(self, original: h5g.GroupID) -> h5g.GroupID:
        # Build a new list: the list of an open group contains file addresses of its links, and HDF5
        # would copy these.
        old, create = original.get_create_plist(), h5p.create(h5p.GROUP_CREATE)
        for what in ("link_phase_change", "est_link_info"):
            numbers = ctypes.c_uint(), ctypes.c_uint()
            call(f"H5Pget_{what}", id_of(old), *map(ctypes.byref, numbers))
            call(f"H5Pset_{what}", id_of(create), *numbers)
        create.set_link_creation_order(old.get_link_creation_order())
        create.set_attr_creation_order(old.get_attr_creation_order())
        create.set_attr_phase_change(*old.get_attr_phase_change())
        create.set_obj_track_times(old.get_obj_track_times())
        return h5g.create(self._target, None, gcpl=create)

    def _type(self, original: h5t.TypeID) -> h5t.TypeID:
        copied = original.copy()
        with made("H5Pclose", "H5Tget_create_plist", id_of(original)) as create:
            call("H5Tcommit_anon", id_of(self._target), id_of(copied), create, DEFAULT)
        return copied

    def type_of(self, owner) -> h5t.TypeID:
        """The type for a copied dataset or attribute: for a committed type, its copy."""
        kind = owner.get_type()
        if not kind.committed():
            return kind
        if address_of(kind) not in self.places:
            self._note("a committed type without a link", kind, self._type(kind))
        return self.places[address_of(kind)]

    def _dataset(self, path: str, original: h5d.DatasetID, group, name: bytes, link) -> bool:
        """Copies a dataset; returns True if the copy already has its link."""
        copied = self._without_link(path, original)
        if copied is not None:
            self._note(path, original, copied)
            return False
        how = h5p.create(h5p.OBJECT_COPY)
        how.set_copy_object(WITHOUT_ATTRIBUTES)
        try:
            h5o.copy(original, b".", group, name, how, link)
        except PROBLEMS:
            _need_filters(path, original)
            raise
        self._note(path, original, h5d.open(group, name))
        return True

    def _without_link(self, path: str, original: h5d.DatasetID) -> h5d.DatasetID | None:
        """The copy of a dataset; None if only H5Ocopy can make it, because of its filters."""
        self._begun.add(address_of(original))
        copied = self._make(path, original, self.type_of(original), self._target)
        if copied is not None:
            return copied
        try:
            layout = self.type_of(original), original.get_space(), self._creation_list(original)
            copied = h5d.create(self._target, None, *layout)
            # A filter may recompute its cd_values when a dataset is created, but stored chunks need
            # the original ones.
            if pipeline_of(copied) != pipeline_of(original):
                return None
            self._stored(original, copied)
            return copied
        except PROBLEMS:
            return None

    def _creation_list(self, original: h5d.DatasetID) -> h5p.PropDCID:
        """The creation properties of a dataset, with references in its fill value re-pointed."""
        create, kind = original.get_create_plist(), original.get_type()
        if holds(kind, h5t.REFERENCE) and create.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
            space = h5s.create(h5s.SCALAR)
            with room_for(1, kind, space) as element:
                call("H5Pget_fill_value", id_of(create), id_of(kind), pointer(element))
                self._fill_references.repoint(element, kind)
                call("H5Pset_fill_value", id_of(create), id_of(kind), pointer(element))
        return create

    def _made_ahead(self, address: int):
        """The copy of an object, which is created now if the walk has not reached it: HDF5 accepts
        a fill value only when a dataset is created. Returns None for objects without a link, and
        for an object that refers to a dataset whose copying is in progress."""
        if address not in self.places and address not in self._begun:
            if self._paths is None:
                self._paths = {address_of(found.id): found.path for found in objects_of(self._source) if found.id}
            path = self._paths.get(address)
            if path is None:
                return None
            original = h5o.open(self._source, bytes_of(path))
            if isinstance(original, h5d.DatasetID):
                copied = self._without_link(path, original)
            else:
                copied = (self._type if isinstance(original, h5t.TypeID) else self._group)(original)
                self._unwalked.add(address)
            if copied is not None:
                self._note(path, original, copied)
        return self.places.get(address)

    def _stored(self, original: h5d.DatasetID, copied: h5d.DatasetID) -> None:
        """Copies a dataset's stored elements: chunks byte for byte. References are copied later."""
        create, kind = original.get_create_plist(), original.get_type()
        if not original.get_storage_size() or create.get_external_count() or holds(kind, h5t.REFERENCE):
            return
        if create.get_layout() == h5d.CHUNKED and not holds(kind, h5t.VLEN):
            for chunk in chunks_of(original):
                mask, stored = original.read_direct_chunk(chunk.chunk_offset)
                copied.write_direct_chunk(chunk.chunk_offset, stored, mask)
        elif create.get_layout() != h5d.VIRTUAL:
            self._elements(original, copied)

    def _attributes(self, path: str, original, copied) -> None:
        for i in range(h5a.get_num_attrs(original)):
            # If creation order is not tracked, this is name order.
            with self._naming(path):
                attribute = h5a.open(original, index=i, index_type=h5.INDEX_CRT_ORDER, order=h5.ITER_INC)
            name = _name_of(attribute)
            with self._naming(f"{path}, attribute {text_of(name)},"):
                self._attribute(attribute, name, copied)

    def _attribute(self, attribute: h5a.AttrID, name: bytes, copied) -> None:
        kind, space = self.type_of(attribute), attribute.get_space()
        with made("H5Pclose", "H5Aget_create_plist", id_of(attribute)) as create:
            new = "H5Acreate2", id_of(copied), name, id_of(kind), id_of(space), create, DEFAULT
            n = space.get_simple_extent_npoints()
            with made("H5Aclose", *new) as written, room_for(n, kind, space) as room:
                if len(room):
                    memory = attribute.get_type()
                    call("H5Aread", id_of(attribute), id_of(memory), pointer(room))
                    self._references.repoint(room, memory)
                    call("H5Awrite", written, id_of(memory), pointer(room))

    def _elements(self, original: h5d.DatasetID, copied: h5d.DatasetID) -> None:
        """Copies the stored elements in the type of the file and re-points references within."""
        kind = original.get_type()
        has_pointers = holds(kind, h5t.VLEN, h5t.REFERENCE)
        limit = ELEMENTS_AT_ONCE * kind.get_size() if has_pointers else BOX_BYTES
        for start, count in boxes_of(original, limit=limit):
            with elements(original, start, count) as (rows, arguments):
                self._references.repoint(rows, kind)
                call("H5Dwrite", id_of(copied), *arguments)


def _need_filters(path: str, dataset: h5d.DatasetID) -> None:
    """Raises an error for a missing filter, without which elements that hold addresses cannot be
    copied."""
    missing = missing_filters(dataset)
    if missing:
        raise MissingFilter(f"{shown(path)} {missing}")


def _name_of(attribute: h5a.AttrID) -> bytes:
    return attribute.name if isinstance(attribute.name, bytes) else attribute.name.encode(errors="surrogateescape")
