"""Runs the commands of docs/programs.md with the programs that this machine has."""

import re
import shutil
import subprocess
import sys

import pytest

import skips
from support import ROOT

SECTIONS = {
    heading: [(language, block) for language, block in re.findall(r"^```(sh|r|octave)\n(.*?)^```$", text, flags=re.M | re.S)]
    for heading, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", (ROOT / "docs/programs.md").read_text(), flags=re.M | re.S)
}
NEEDS = {"CDO": "cdo", "NCO": "ncks", "GDAL": "gdalinfo", "R": "Rscript", "Octave": "octave-cli", "Without gridz": "h5repack"}
RUN = {"sh": "bash -euo pipefail", "r": "Rscript", "octave": "octave-cli --quiet"}
MAKE = """
import netCDF4, numpy
with netCDF4.Dataset("plain-run.nc", "w") as nc:
    for name, extent, units in ("time", 12, "days since 2000-01-01"), ("lat", 60, "degrees_north"), ("lon", 90, "degrees_east"):
        nc.createDimension(name, extent)
        axis = nc.createVariable(name, "f8", (name,))
        axis.units = units
        axis[:] = numpy.arange(extent)
    t = nc.createVariable("t", "f4", ("time", "lat", "lon"), fill_value=-999)
    t[:] = 280 + 10 * numpy.sin(numpy.arange(t.size) / 700).reshape(t.shape)
"""


def test_all_are_listed():
    assert {heading for heading, blocks in SECTIONS.items() if blocks} == set(NEEDS)


@pytest.mark.parametrize("heading", NEEDS)
def test_program(installed, heading):
    if shutil.which(NEEDS[heading]) is None:
        skips.skip(f"there is no {NEEDS[heading]} here")
    # Plain netCDF-4, since the wheel of netCDF4 has an HDF5 of its own.
    subprocess.run([sys.executable, "-c", MAKE], cwd=installed.folder, check=True)
    installed.run("nccopy -F t,34013 -c time/12,lat/60,lon/90 plain-run.nc run.nc && ncdump -hs run.nc | grep t:_Filter.*34013")
    for number, (language, block) in enumerate(SECTIONS[heading]):
        package = re.search(r"library\((\w+)\)", block)
        if package and subprocess.run(["Rscript", "-e", package[0]], capture_output=True).returncode != 0:
            skips.skip(f"R has no package {package[1]}")
        name = f"block{number}"
        (installed.folder / name).write_text(block)
        installed.run(f"{RUN[language]} {name}")
    # What the programs wrote holds the same values.
    checks = {
        "CDO": "cdo -s diffn mean.nc mean-small.nc && cdo -s diffn run.nc plain-run.nc && ncdump -hs mean-small.nc | grep t:_Filter",
        "NCO": "h5diff part.nc part-uncompressed.nc /t /t && ncdump -hs part.nc | grep t:_Filter",
        "GDAL": "gdalinfo -stats first.tif | grep STATISTICS_MAXIMUM=290",
        "Without gridz": "h5diff run.nc plain.nc && h5diff run.nc gzip.nc && ! ncdump -hs gzip.nc | grep 34013",
    }
    if heading in checks:
        installed.run(checks[heading])
