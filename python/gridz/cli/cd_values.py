"""`gridz cd-values`: converts a codec to the numbers for HDF5's programs, and back."""

from __future__ import annotations

import click

import gridz
from gridz.cli.common import Command, json_option, print_json


@click.command(
    cls=Command,
    examples=[
        "gridz cd-values quant,abs=1e-3              # the numbers, and the command lines with them",
        "gridz cd-values lorenzo,level=dense --json",
        "gridz cd-values 2 0 2                     # back: the codec for the numbers of a file",
    ],
)
@click.argument("codec", nargs=-1, required=True)
@json_option
def command(codec: "tuple[str, ...]", as_json: bool) -> None:
    """Convert CODEC, such as quant,abs=1e-3, to the cd_values of the HDF5 filter, and back.

    CODEC may also be cd_values, as h5dump and ncdump print them; they are converted to the text form.
    """
    request = ",".join(codec)
    parts = [part for part in request.replace(" ", ",").split(",") if part]
    if parts and all(part.isdigit() for part in parts):
        found = gridz.Codec.from_filter_options([int(part) for part in parts])
    else:
        found = gridz.parse(request)
    values = found.filter_options
    numbers = ",".join(map(str, values))
    list_of = f"{len(values)},{numbers}" if values else "0"
    document = {
        "codec": str(found),
        "cd_values": list(values),
        "h5py": f"compression={gridz.FILTER_ID}, compression_opts={values}",
        "h5repack": f"h5repack -f UD={gridz.FILTER_ID},0,{list_of} in.h5 out.h5",
        "nccopy": f"nccopy -F '*,{gridz.FILTER_ID}{',' if values else ''}{numbers}' in.nc out.nc",
        "C": f"H5Pset_filter(dcpl, {gridz.FILTER_ID}, H5Z_FLAG_MANDATORY, {len(values)}, "
        f"(const unsigned[]){{{numbers.replace(',', ', ')}}});",
    }
    if as_json:
        print_json(document)
        return
    for name, value in document.items():
        click.echo(f"{name:<10} {' '.join(map(str, value)) if isinstance(value, list) else value}")
