"""gridz compared with nvCOMP in one run: arrays of 512 MiB in GPU memory.

    peers.py LIBRARY FOLDER-OF-FIELDS [FOLDER-OF-NVCOMP]

FOLDER-OF-NVCOMP has the unpacked wheels nvidia-nvcomp-cu13 and nvidia-libnvcomp-cu13. Times are
medians by events around a call on one stream. The stream is first kept busy with other work, so
that everything is submitted before the call begins. So a time includes the GPU's work for the call,
and not the host's. nvCOMP runs as its documentation recommends: buffers and configurations created
beforehand, no checksums; gridz always computes its checksum. Every codec's arrays are compared with
the source. Prints a table in Markdown.
"""

import sys
import time

import cupy
import numpy

from capi import Batch, Gridz

ROUNDS, WARM_UPS = 21, 3
# Slow codecs are measured only a few times, which the table states.
SECONDS, FEW_ROUNDS = 0.6, 3
FIELDS = [
    ("turb3d.f32", "<f4", (512, 512, 512)),
    ("smooth3d.f32", "<f4", (512, 512, 512)),
    ("random.f32", "<f4", (512, 512, 512)),
    ("turb3d.f64", "<f8", (256, 512, 512)),
    ("noisy1d.f64", "<f8", (67108864,)),
]


def import_nvcomp():
    """nvCOMP's module, or None."""
    sys.path[:0] = sys.argv[3:4]
    try:
        from nvidia import nvcomp

        return nvcomp
    except (ImportError, OSError) as error:
        print(f"SKIPPED, no nvCOMP: {error}")
        return None


def microseconds(stream, delay, call):
    """The median time of a call, and the number of rounds."""
    begin, end, times = cupy.cuda.Event(), cupy.cuda.Event(), []
    latest = time.monotonic() + SECONDS
    while len(times) < WARM_UPS + ROUNDS:
        delay()
        begin.record(stream)
        call()
        end.record(stream)
        end.synchronize()
        times.append(1e3 * cupy.cuda.get_elapsed_time(begin, end))
        if len(times) >= FEW_ROUNDS and time.monotonic() > latest:
            break
    times = times[min(WARM_UPS, len(times) - FEW_ROUNDS) :]
    return float(numpy.median(times)), len(times)


def with_gridz(gridz, stream, delay, src):
    """Compressed bytes, times of both directions, and the decompressed array."""
    batch = Batch(gridz, src[None])
    compress = microseconds(stream, delay, lambda: batch.compress(stream))
    decompress = microseconds(stream, delay, lambda: batch.decompress(stream))
    assert not batch.statuses.get().any()
    return int(batch.lengths[0]), compress, decompress, batch.back[0]


def with_nvcomp(nvcomp, options, stream, delay, src):
    """Like `with_gridz`, for nvCOMP."""
    codec = nvcomp.Codec(cuda_stream=stream.ptr, **options)
    raw = nvcomp.as_array(src.ravel().view(cupy.uint8), cuda_stream=stream.ptr)
    config = codec.compression_config(src.nbytes)
    packed = codec.encode(raw)
    # Larger than any codec's bound, so that no call allocates.
    room, out = cupy.empty(2 * src.nbytes, cupy.uint8), cupy.zeros(src.nbytes, cupy.uint8)
    targets = {"out": room}
    try:
        codec.encode(raw, compression_config=config, **targets)
    except (ValueError, RuntimeError):  # a codec that needs to allocate its own buffer
        targets = {}
    compress = microseconds(stream, delay, lambda: codec.encode(raw, compression_config=config, **targets))
    unpack = codec.decompression_config(packed)
    decompress = microseconds(stream, delay, lambda: codec.decode(packed, out=out, decompression_config=unpack))
    return packed.buffer_size, compress, decompress, out


def peers(dtype):
    """Names and options of nvCOMP's codecs for elements of `dtype`."""
    yield "Bitcomp 0", {"algorithm": "Bitcomp", "data_type": dtype, "algorithm_type": 0}
    yield "Bitcomp 1", {"algorithm": "Bitcomp", "data_type": dtype, "algorithm_type": 1}
    yield "ANS", {"algorithm": "ANS", "data_type": dtype if dtype == "<f4" else "|u1"}
    yield "Cascaded", {"algorithm": "Cascaded", "data_type": dtype.replace("f", "u")}
    yield "LZ4", {"algorithm": "LZ4"}
    yield "Snappy", {"algorithm": "Snappy"}
    yield "GDeflate 0", {"algorithm": "GDeflate", "algorithm_type": 0}
    yield "Zstd", {"algorithm": "Zstd"}


def main():
    """One row of the table per field and codec."""
    gridz, nvcomp = Gridz(sys.argv[1]), import_nvcomp()
    stream = cupy.cuda.Stream(non_blocking=True)
    failed = 0
    with stream:
        # Long enough for the host to submit the measured work.
        work = cupy.zeros(1 << 30, cupy.uint8)

        def delay():
            work.fill(0)

        print("| field | codec | ratio | compress GB/s | decompress GB/s |\n|---|---|---|---|---|")
        for name, dtype, shape in FIELDS:
            src = cupy.asarray(numpy.fromfile(f"{sys.argv[2]}/{name}", dtype).reshape(shape))
            runs = [("gridz lorenzo", lambda: with_gridz(gridz, stream, delay, src))]
            for codec, options in peers(dtype) if nvcomp else ():
                runs.append((f"nvCOMP {codec}", lambda o=options: with_nvcomp(nvcomp, o, stream, delay, src)))
            for codec, run in runs:
                try:
                    n_bytes, *times, back = run()
                except Exception as error:  # a failing codec must not hide the results of the others
                    text = str(error).replace("\n", " ").replace("|", "/")
                    print(f"| {name} | {codec} | {type(error).__name__}: {text} | | |", flush=True)
                    failed += codec.startswith("gridz")
                    continue
                same = bool((back.ravel().view(cupy.uint8) == src.ravel().view(cupy.uint8)).all())
                failed += not same
                ratio = f"{n_bytes / src.nbytes:.4f}" + ("" if same else " WRONG DATA")
                speeds = [f"{src.nbytes / 1e3 / t:.0f}" + (f" (of {n})" if n < ROUNDS else "") for t, n in times]
                print(f"| {name} | {codec} | {ratio} | {' | '.join(speeds)} |", flush=True)
    if nvcomp:
        print(f"\nnvCOMP {nvcomp.__version__}")
    return failed != 0


sys.exit(main())
