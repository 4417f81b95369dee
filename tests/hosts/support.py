"""Helpers for the tests of several hosts: arrays, exact comparison, processes, reference data."""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
"""PYTHONPATH for processes that import this module."""
GRIDZ = 34013
"""Id of the filter."""
ROOT = FOLDER.parents[1]
PLUGIN = pathlib.Path(os.environ.get("HDF5_PLUGIN_PATH") or ROOT / "target" / "plugin").resolve() / "libh5gridz.so"
REFERENCE = pathlib.Path(os.environ.get("GRIDZ_SHARED") or ROOT.parent / "shared") / "data"
STORED, NDZIP, LORENZO, QUANT, ZFP, MULTIGRID, HUFFMAN, CCI = 0, 1, 2, 3, 4, 5, 6, 7
"""Ids of the codecs."""
FAST, DENSE, MAX = 1, 2, 3
"""Levels: lorenzo and quant have all of them, zfp and multigrid only the first; cci has the second (its
default) and the first."""
DEFAULT = LORENZO, FAST
"""Codec and level for empty cd_values."""
SPECS = [(STORED, 0), (NDZIP, 0), (LORENZO, FAST), (LORENZO, DENSE), (LORENZO, MAX), (ZFP, FAST), (HUFFMAN, 0), (CCI, DENSE), (CCI, FAST)]
"""Every lossless codec with every level."""
BOUNDED = [(QUANT, FAST), (QUANT, DENSE), (QUANT, MAX)]
"""Every codec and level that keeps its bound in any rewrites."""
DRIFTING = [(MULTIGRID, FAST)]
"""Codecs that keep their bound only until a part of a chunk is rewritten."""


def same(got, expected):
    """Asserts bit-for-bit equality: NaN payloads, signs of zeros and byte order matter."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


def smooth(dtype, shape):
    """A wave that compresses well and, for floats, has a distinct value at every position."""
    n, dtype = int(np.prod(shape)), np.dtype(dtype)
    wave = np.sin(np.arange(n, dtype="f8") / 40) * 100 + np.arange(n) / 1000
    if dtype.kind in "iu":
        wave = np.rint(wave + 100 * (dtype.kind == "u")).astype("i8")  # small types wrap around
    return wave.reshape(shape).astype(dtype)


def noise(dtype, shape, rng):
    """Elements of random bytes: every bit pattern of the type can occur."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def specials(dtype, shape):
    """A smooth float array with NaNs of several payloads, infinities, zeros and subnormals."""
    dtype = np.dtype(dtype)
    bits, mantissa = dtype.itemsize * 8, {2: 10, 4: 23, 8: 52}[dtype.itemsize]
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    sign, quiet = 1 << (bits - 1), 1 << (mantissa - 1)
    magnitudes = [
        infinity,
        infinity | quiet,
        infinity | quiet | 5,
        infinity | 1,
        0,
        1,
        (1 << mantissa) - 1,
        infinity - 1,
    ]
    patterns = np.array([m | s for m in magnitudes for s in (0, sign)], f"{dtype.byteorder}u{dtype.itemsize}")
    array = smooth(dtype, shape).ravel()
    places = np.arange(0, array.size, 3)
    array[places] = np.resize(patterns.view(dtype), places.size)
    return array.reshape(shape)


def environment(**variables):
    """This process's environment with `variables` set, or removed if None."""
    env = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return {name: value for name, value in env.items() if variables.get(name, "") is not None}


def run(*command, check=True, timeout=60, env=None, cwd=None):
    """Runs a program and returns its exit status and outputs; by default a failure fails the
    test."""
    command = [str(word) for word in command]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=env, cwd=cwd, errors="replace"
    )
    if check and done.returncode != 0:
        pytest.fail(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def python(code, *arguments, check=True, cwd=None, **variables):
    """Runs Python code in a fresh process, with `variables` in its environment."""
    code = "import sys\n" + textwrap.dedent(code)
    return run(sys.executable, "-c", code, *arguments, check=check, env=environment(**variables), cwd=cwd)


def codec_of(frame):
    """The codec id in a frame."""
    assert frame[:4] == b"GRDZ", "not a gridz frame"
    return frame[5]


def header_bytes(frame):
    """The length of a frame's header, parameters and padding included (SPEC.md)."""
    return (40 + 8 * frame[9] + frame[11] + 15) // 16 * 16


def options(codec, mode, value, level=0):
    """cd_values for a mode with a value."""
    low, high = np.frombuffer(np.float64(value).tobytes(), "u4")
    return (codec, mode, int(low), int(high), level)


def takes(codec, dtype):
    """True if a codec encodes elements of a type; otherwise it stores them."""
    dtype = np.dtype(dtype)
    if codec == HUFFMAN:
        return dtype.kind in "biu" and dtype.itemsize < 8
    if codec == CCI:
        return dtype.kind in "iu" and dtype.itemsize >= 4
    kinds = {NDZIP: "f", ZFP: "fi"}.get(codec)
    return kinds is None or dtype.kind in kinds and dtype.itemsize > 2


def typed(spec, dtype):
    """An element type that the codec encodes: `dtype`, or integers."""
    return dtype if takes(spec[0], dtype) else "<i4"


def made(spec, dtype):
    """Codec and level in a frame of compressible elements."""
    return spec if takes(spec[0], dtype) else (STORED, 0)


def written(spec):
    """Codecs and levels of frames that a request may give: lorenzo at level max also tries the lower levels."""
    return {(LORENZO, level) for level in (FAST, DENSE, MAX)} if spec == (LORENZO, MAX) else {spec}


def spec_of(frame):
    """The codec id in a frame and the level that wrote it. zfp and multigrid have one level. lorenzo's
    is derived from its first parameter, the block size; quant's is its fourth parameter, and cci's
    its second. Otherwise it is 0."""
    codec, rank, n_parameters = codec_of(frame), frame[9], frame[11]
    parameters = frame[40 + 8 * rank :][:n_parameters]
    if codec in (ZFP, MULTIGRID):
        return codec, FAST
    if codec == QUANT:
        return codec, {0: FAST, 1: MAX, 2: DENSE, 3: MAX}[parameters[3]]  # 1: blocks of dense, for a request for max
    if codec == LORENZO:
        assert n_parameters == 1 or parameters[0] == 18
        return codec, {12: FAST, 13: DENSE, 18: MAX}[parameters[0]]
    if codec == CCI:
        return codec, {0: FAST, 1: DENSE}[parameters[1]]
    assert n_parameters == (codec == HUFFMAN)
    return codec, 0


def record(*words):
    """A cd_values record of these words: prefixed by the magic word and followed by a checksum,
    which a flag announces."""
    words, crc = (0x475A0001, words[0], words[1] | 1 << 28, *words[2:]), 0xFFFFFFFF
    for byte in np.array(words, "<u4").tobytes():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return (*words, crc ^ 0xFFFFFFFF)


def spec_in(values):
    """Codec and level in stored cd_values; lorenzo's level 0 is fast."""
    assert tuple(values) == record(*values[1:-1]), "not a record"
    codec, mode, level = values[1] & 0xFF, values[1] >> 8 & 0xFF, values[1] >> 16
    assert mode == 0
    return codec, FAST if (codec, level) == (LORENZO, 0) else level


def frames(dataset):
    """The stored bytes of every chunk of an h5py dataset. gridz must have compressed every chunk."""
    return [frame for _, frame in placed_frames(dataset)]


def placed_frames(dataset):
    """The stored bytes of every chunk, with the offset of its first element."""
    plist = dataset.id.get_create_plist()
    place = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())].index(GRIDZ)
    found = []
    for i in range(dataset.id.get_num_chunks()):
        offset = dataset.id.get_chunk_info(i).chunk_offset
        mask, frame = dataset.id.read_direct_chunk(offset)
        assert not mask >> place & 1, "a chunk was stored without gridz"
        found.append((offset, bytes(frame)))
    return found


def wheel_library(package, folder, pattern):
    """A shared library inside a wheel, without declared argument types. The package must already be
    imported, so that this is the same library that the package uses."""
    (path,) = (pathlib.Path(package.__file__).parents[1] / folder).glob(pattern)
    return ctypes.CDLL(str(path))


def reference_manifest():
    """The manifest of the reference data, or None if this clone has none."""
    manifest = REFERENCE / "MANIFEST.json"
    return json.loads(manifest.read_text()) if manifest.is_file() else None


def need_reference():
    """Skips the test if there is no reference data and logs that in target/skips.log, which `make
    test` counts. With GRIDZ_REQUIRE_SHARED=1, it fails the test."""
    if reference_manifest() is not None:
        return
    text = f"no reference data at {REFERENCE}"
    if "GRIDZ_REQUIRE_SHARED" in os.environ:
        pytest.fail(text)
    log = ROOT / "target" / "skips.log"
    log.parent.mkdir(exist_ok=True)
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)").removesuffix(" (setup)")
    with log.open("a") as out:
        out.write(f"{test}: SKIPPED, {text}\n")
    pytest.skip(text)
