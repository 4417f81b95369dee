"""`gridz compress` and `gridz decompress`: convert .npy files and raw arrays to single frames, and
back.

A frame describes itself, so it is sufficient to restore the array.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import time
from typing import Iterator, Tuple

import click
import numpy as np

import gridz
from gridz._native import is_recorded
from gridz._output import replacing
from gridz.cli.common import EXIT, Command, bytes_text, extents_of, fail, json_option, print_json, say

SUFFIX = ".gridz"

force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
threads_option = click.option("--threads", type=click.IntRange(min=1), help="Threads; by default GRIDZ_THREADS or all.")


def dtype_of(name: str) -> np.dtype:
    """Parses a type name: NumPy's (`float32`, `<f4`, `>i2`) or one with bits (`f32`, `u16`).
    Little-endian by default.

    After a letter, numbers up to 8 (16 for complex numbers) are bytes, as in NumPy, and larger ones are bits.
    """
    match = re.fullmatch(r"([<>=]?)([fiuc])(\d+)", name)
    in_numpy = name
    if match:
        order, kind, size = match[1], match[2], int(match[3])
        is_bits = size > (16 if kind == "c" else 8) and size % 8 == 0
        in_numpy = f"{order}{kind}{size // 8 if is_bits else size}"
    try:
        dtype = np.dtype(in_numpy)
    except TypeError:
        raise click.BadParameter(f"{name!r} is not an element type; give one such as f32, f64, i16, uint8, <f4 or >f4")
    if not is_recorded(dtype):
        raise click.BadParameter(f"a frame does not record {name!r}; give f32, u8 or the like, or V12 for 12 opaque bytes")
    # NumPy's names without an order mean the machine's order; raw files are nearly always
    # little-endian.
    return dtype if name[0] in "<>=|" else dtype.newbyteorder("<")


def shape_of(text: str) -> Tuple[int, ...]:
    """Parses a shape such as `512x512x512`, slowest axis first."""
    shape = extents_of(text)
    if shape is None:
        raise click.BadParameter(f"{text!r} is not a shape; give the extents, slowest axis first, such as 100x500x500")
    return shape


def array_options(function):
    """Adds `--dtype` and `--shape`, which describe a raw file."""
    dtype = click.option(
        "--dtype",
        metavar="TYPE",
        callback=lambda ctx, option, value: value and dtype_of(value),
        help="Elements of a raw file: f32, f64, i16, uint8, <f4, >f4, …; little-endian by default.",
    )
    shape = click.option(
        "--shape",
        metavar="AxBxC",
        callback=lambda ctx, option, value: value and shape_of(value),
        help="Extents of the array in a raw file, slowest axis first.",
    )
    return dtype(shape(function))


def open_array(path: pathlib.Path, dtype, shape) -> np.ndarray:
    """The array in a .npy or raw file, memory-mapped and not read."""
    if path.suffix == ".npy":
        if dtype is not None or shape is not None:
            fail(f"{path} records its own type and shape", "leave out --dtype and --shape", EXIT.USAGE)
        try:
            return np.load(path, mmap_mode="r")
        except ValueError as error:
            fail(f"{path}: {error}", "is it a .npy file of numbers?", EXIT.FILE)
    if dtype is None or shape is None:
        fail(
            f"{path} is not a .npy file, so its type and shape must be given", "give --dtype f32 --shape 100x500x500", EXIT.USAGE
        )
    there, said = path.stat().st_size, int(np.prod(shape, dtype=object)) * dtype.itemsize
    if there != said:
        text = f"{path} has {there} bytes, but {'x'.join(map(str, shape))} elements of {dtype} have {said}"
        fail(text, "correct --dtype or --shape", EXIT.USAGE)
    return np.memmap(path, dtype, "r", shape=shape) if said else np.empty(shape, dtype)


@contextlib.contextmanager
def new_file(path: pathlib.Path, force: bool) -> Iterator:
    """A file to write to, which is renamed to its final name when complete; without `force`, no
    file is replaced."""
    if path.is_file() and not force:
        fail(f"{path} exists", "choose another name with -o, or replace it with --force", EXIT.FILE)
    with replacing(path) as (descriptor, _), os.fdopen(os.dup(descriptor), "wb") as file:
        yield file


@click.command(
    cls=Command,
    examples=[
        "gridz compress field.npy                                            # field.npy.gridz",
        "gridz compress field.npy --codec quant,abs=1e-3 --verify",
        "gridz compress U.bin.f32 --dtype f32 --shape 100x500x500 -o U.gridz",
    ],
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=pathlib.Path), help="Default: FILE.gridz.")
@click.option("--codec", metavar="CODEC", help="Codec, such as lorenzo,level=dense or quant,abs=1e-3.")
@array_options
@click.option("--verify", is_flag=True, help="Decompress again and compare before the file is written.")
@click.option("--force", is_flag=True, help="Replace the output if it exists; accept ranges that outliers determine.")
@threads_option
@json_option
def compress(source, output, codec, dtype, shape, verify, force, threads, as_json) -> None:
    """Compress the array in FILE, .npy or raw, to one self-describing frame."""
    codec = gridz.codec(codec)
    array = open_array(source, dtype, shape)
    output = output or source.with_name(source.name + SUFFIX)
    try:
        n_bytes = gridz.bound_of(array, codec)
    except gridz.UnsupportedJob as error:
        fail(f"{source}: {error}", code=EXIT.USAGE)
    with new_file(output, force) as file:
        room = np.empty(n_bytes, np.uint8)
        start = time.perf_counter()
        frame = room[: gridz.compress(array, codec, threads=threads, out=room, force=force)]
        seconds = time.perf_counter() - start
        checked = _verify(array, frame, codec, threads) if verify else {}
        file.write(frame)
    _tell({**_done(source, output, str(codec), array, frame.nbytes, seconds), **checked}, as_json)


@click.command(
    cls=Command,
    examples=[
        "gridz decompress field.npy.gridz           # field.npy",
        "gridz decompress U.gridz -o U.npy",
        "gridz decompress U.gridz -o U.bin.f32      # raw: every name that does not end in .npy",
    ],
)
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="Written as .npy if the name ends in .npy, otherwise raw. Default: FILE without .gridz.",
)
@force_option
@threads_option
@json_option
def decompress(source, output, force, threads, as_json) -> None:
    """Decompress the frame in FILE to a .npy or raw file."""
    if output is None:
        if source.suffix != SUFFIX:
            fail(f"{source} does not end in {SUFFIX}", "name the output with -o", EXIT.USAGE)
        output = source.with_suffix("")
    frame = np.memmap(source, np.uint8, "r") if source.stat().st_size else b""
    info = gridz.inspect(frame)
    with new_file(output, force) as file:
        start = time.perf_counter()
        array = gridz.decompress(frame, threads=threads)
        seconds = time.perf_counter() - start
        if output.suffix == ".npy":
            np.save(file, array)
        else:
            file.write(array.reshape(-1).view(np.uint8))
    _tell(_done(source, output, info.codec, array, info.frame_bytes, seconds), as_json)


def _done(source, output, codec: str, array: np.ndarray, frame_bytes: int, seconds: float) -> dict:
    """The summary that both commands print."""
    return {
        "input": str(source),
        "output": str(output),
        "codec": codec,
        "dtype": array.dtype.str,
        "shape": array.shape,
        "array_bytes": array.nbytes,
        "frame_bytes": frame_bytes,
        "ratio": array.nbytes / frame_bytes,
        "GB_per_s": array.nbytes / seconds / 1e9,
    }


def _verify(array, frame, codec, threads) -> dict:
    """Verifies the decompressed array; ends the command if it breaks the codec's guarantee."""
    back = gridz.decompress(frame, threads=threads)
    if codec.is_lossless:
        # Compare bytes, not values: NaN differs from itself, and -0 equals 0.
        if not np.array_equal(_bytes_of(back), _bytes_of(array)):
            fail("the decompressed array differs from the original", "this is a defect of gridz; please report it", EXIT.DATA)
        return {"verified": "bit for bit"}
    quality = gridz.quality(array, back, bound=codec)
    if not quality.ok:
        problem = f"the largest error is {quality.largest_error:g}, above the guarantee of {codec}"
        fail(problem, "this is a defect of gridz; please report it", EXIT.DATA)
    return {"verified": "within the bound", "largest_error": quality.largest_error, "psnr": quality.psnr}


def _bytes_of(array) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _tell(document: dict, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    size = f"{bytes_text(document['array_bytes'])}, frame {bytes_text(document['frame_bytes'])}"
    shape = "x".join(map(str, document["shape"])) or "scalar"
    say(
        f"{document['output']}: {document['codec']}, {document['dtype']} {shape}, {size}, "
        f"ratio {document['ratio']:.3f}, {document['GB_per_s']:.2f} GB/s"
    )
    if "verified" in document:
        error = (
            f", largest error {document['largest_error']:g}, PSNR {document['psnr']:.1f} dB"
            if "psnr" in document
            else ""
        )
        say(f"verified: {document['verified']}{error}")
