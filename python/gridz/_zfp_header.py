"""The mode of an H5Z-ZFP dataset (HDF5 filter 32013), from the zfp header in its cd_values."""

from __future__ import annotations


def mode_of(cd_values) -> str:
    """`rate=8`, `precision=16`, `abs=0.001` (the power of two that zfp derived from it),
    `lossless`, or the parameters of expert mode; "" if the values are not such a header."""
    header = sum(word << 32 * i for i, word in enumerate(cd_values[1:]))
    if len(cd_values) < 4 or header & 0xFFFFFF != int.from_bytes(b"zfp", "little"):
        return ""
    rank, mode = (header >> 34 & 3) + 1, header >> 84
    short = mode & 0xFFF
    if short < 2048:
        return f"rate={(short + 1) / 4**rank:g}"
    if short < 2176:
        return f"precision={short - 2047}"
    if short == 2176:
        return "lossless"
    if short < 4095:
        return f"abs={2.0 ** (short - 2177 - 1074):g}"
    minbits, maxbits, maxprec = (mode >> 12 & 0x7FFF) + 1, (mode >> 27 & 0x7FFF) + 1, (mode >> 42 & 0x7F) + 1
    minexp = (mode >> 49 & 0x7FFF) - 16495
    return f"minbits={minbits},maxbits={maxbits},maxprec={maxprec},minexp={minexp}"
