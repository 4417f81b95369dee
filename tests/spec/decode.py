"""A decoder of gridz frames, written from src/format/SPEC.md alone to show that the text is complete.

    decode.py FRAME ARRAY       from file to file

It shares nothing with the crate, is slow, and performs the checks that the text requires. Each
codec but `stored` has a module with its rank and expansion and a function `decode(dtype, extents,
parameters, payload)`, which gets the folded extents and returns the bytes of the little-endian
elements.
"""

import math
import pathlib
import struct
import sys
from collections import namedtuple

import numpy as np

import cci
import huffman
import lorenzo
import multigrid
import ndzip
import quant
import zfp
from parts import Bytes, check, checksum, fold, known

CODECS = {0: None, 1: ndzip, 2: lorenzo, 3: quant, 4: zfp, 5: multigrid, 6: huffman, 7: cci}
TYPES = [
    # name, bytes of an element, bytes of a number
    ("opaque", None, None),
    ("uint8", 1, 1),
    ("uint16", 2, 2),
    ("uint32", 4, 4),
    ("uint64", 8, 8),
    ("int8", 1, 1),
    ("int16", 2, 2),
    ("int32", 4, 4),
    ("int64", 8, 8),
    ("float16", 2, 2),
    ("bfloat16", 2, 2),
    ("float32", 4, 4),
    ("float64", 8, 8),
    ("complex64", 8, 4),
    ("complex128", 16, 8),
]
MISSING = {3: lambda p: p[3] >> 2 if len(p) > 3 else 0, 4: lambda p: p[1] if len(p) > 1 else 0, 5: lambda p: p[3] if len(p) > 3 else 0}
"""The code of the missing elements in the parameters of codecs with a bound."""
Header = namedtuple(
    "Header",
    "magic version codec codec_version flags dtype rank fold n_parameters element_size"
    " payload_bytes payload_checksum header_checksum reserved",
)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def decode(frame):
    """Decodes a frame to the bytes of its array."""
    source = Bytes(frame)
    header = Header._make(struct.unpack("<4s8BIQQII", source.take(40)))
    check(header.magic == b"GRDZ", "magic")
    extents = list(struct.unpack(f"<{header.rank}Q", source.take(8 * header.rank)))
    parameters = source.take(header.n_parameters)
    padding = source.take(-source.at % 16)
    check(crc32c(frame[:32] + bytes(4) + frame[36 : source.at]) == header.header_checksum, "header checksum")

    known(header.version == 8, "format version")
    known(header.codec in CODECS, "codec")
    has_list = header.codec in MISSING and MISSING[header.codec](parameters) > 0
    is_second = has_list or header.codec == 2 and header.n_parameters != 1
    known(header.codec_version == (2 if is_second else 1), "codec version")
    known(header.flags <= 1, "flags")
    known(header.dtype < len(TYPES), "element type")
    known(header.fold in (0, 1, 3), "fold")
    known(header.reserved == 0 and not any(padding), "reserved bytes")
    dtype, size, number = TYPES[header.dtype]
    big_endian = header.flags == 1
    check(header.rank <= 32, "rank")
    check(header.element_size >= 1 if size is None else header.element_size == size, "element size")
    check(not big_endian or size not in (None, 1), "big-endian bytes")
    check(math.prod(n for n in extents if n) * header.element_size < 1 << 63, "sizes")
    check(source.left() == header.payload_bytes, "payload length")
    payload = source.take(header.payload_bytes)
    check(checksum(payload) == header.payload_checksum, "payload checksum")

    n_bytes = math.prod(extents) * header.element_size
    codec = CODECS[header.codec]
    if codec is None:
        check(header.n_parameters == 0, "parameters")
        check(len(payload) == n_bytes, "stored bytes")
        return payload
    check(n_bytes <= len(payload) * codec.EXPANSION, "more than a payload of this length can hold")
    array = codec.decode(dtype, fold(extents, header.fold, codec.RANK), parameters, payload)
    return np.frombuffer(array, f"u{number}").byteswap().tobytes() if big_endian else array


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_bytes(decode(pathlib.Path(sys.argv[1]).read_bytes()))
