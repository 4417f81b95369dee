"""gridz for Spack 1.0 and newer. There is no public address yet, so it is built from a clone.

Copy this file to packages/gridz/ of a package repository of your own (`spack repo create`, `spack repo add`). Then, in
an environment and in the clone: `spack develop --path "$PWD" gridz@0.1.0`, `spack add gridz`, `spack install`.

Untested: none of our machines has Spack. tests/installed/test_workflow.py checks that the targets of make exist.
"""

import os

from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class Gridz(Package):
    """Compression of scientific arrays: an HDF5 filter plugin and a C library, lossless and within error bounds."""

    license("MIT OR Apache-2.0")

    version("0.1.0")

    variant("cuda", default=False, description="Kernels for NVIDIA GPUs; running needs no more than the driver")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("rust@1.89:", type="build")
    depends_on("cxx", type="build", when="+cuda")
    # build.rs takes nvcc 13 only: PTX of a newer one needs a newer driver.
    depends_on("cuda@13", type="build", when="+cuda")

    def setup_build_environment(self, env):
        """The kernels, and where cargo keeps the crates that it downloads."""
        env.set("GRIDZ_CUDA", "require" if self.spec.satisfies("+cuda") else "off")
        env.set("CARGO_HOME", os.path.join(self.stage.path, "cargo"))
        if self.spec.satisfies("+cuda"):
            env.set("CUDA_HOME", self.spec["cuda"].prefix)
            env.set("GRIDZ_CUDA_ARCHS", "all")

    def setup_run_environment(self, env):
        """HDF5 finds the filter."""
        env.prepend_path("HDF5_PLUGIN_PATH", self.prefix.lib.hdf5.plugin)

    def install(self, spec, prefix):
        """Builds and installs; neither links HDF5, whichever the programs use."""
        make("build")
        make("install", f"PREFIX={prefix}", f"PLUGINDIR={prefix.lib.hdf5.plugin}")
