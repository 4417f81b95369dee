"""Names and paths of objects and files as text. They may contain any bytes, and must not control a
terminal."""

from __future__ import annotations


def text_of(name: bytes) -> str:
    """A name in a file as text. Bytes that are not UTF-8 become surrogates, as in Python's file
    names."""
    return name.decode(errors="surrogateescape")


def bytes_of(name: str) -> bytes:
    """The inverse of `text_of`, for h5py, which accepts names as bytes."""
    return name.encode(errors="surrogateescape")


def shown(text: str) -> str:
    """A text for terminals: control characters, line breaks, direction marks and bytes other than
    UTF-8 are escaped."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code > 0x7F:
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character.encode("unicode_escape").decode()
