"""gridz for Spack 1.0 and newer. There is no public address yet, so it is built from a clone.

Copy this file to packages/gridz/ of your own package repository (`spack repo create`, `spack repo add`). Then, in an
environment and in the clone: `spack develop --path "$PWD" gridz@0.1.0`, `spack add gridz`, `spack install`.

Untested: the developers have no machine with Spack. tests/installed/test_workflow.py checks that the targets of make exist.
"""

import os

from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class Gridz(Package):
    """Compression of scientific arrays: an HDF5 filter plugin and a C library, lossless and within error bounds."""

    license("MIT OR Apache-2.0")

    version("0.1.0")

    variant("cuda", default=False, description="Kernels for NVIDIA GPUs; at run time only the driver is needed")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("rust@1.89:", type="build")
    # The command gridz.
    depends_on("python@3.9:", type=("build", "run"))
    for name in ("numpy@1.22:", "cffi@1.15:", "h5py@3.7:", "click@8.1:", "rich@12:", "tqdm@4.60:"):
        depends_on("py-" + name, type="run")
    depends_on("cxx", type="build", when="+cuda")
    # build.rs accepts nvcc 13 only: the PTX of a newer version needs a newer driver.
    depends_on("cuda@13", type="build", when="+cuda")

    def setup_build_environment(self, env):
        """Sets whether kernels are built, and the folder for the crates that cargo downloads."""
        env.set("GRIDZ_CUDA", "require" if self.spec.satisfies("+cuda") else "off")
        env.set("CARGO_HOME", os.path.join(self.stage.path, "cargo"))
        if self.spec.satisfies("+cuda"):
            env.set("CUDA_HOME", self.spec["cuda"].prefix)
            env.set("GRIDZ_CUDA_ARCHS", "all")

    def setup_run_environment(self, env):
        """Adds the plugin's folder to HDF5's search path."""
        env.prepend_path("HDF5_PLUGIN_PATH", self.prefix.lib.hdf5.plugin)

    def install(self, spec, prefix):
        """Builds and installs. Nothing is linked with HDF5, so programs may use any version of it."""
        make("build")
        make("install", f"PREFIX={prefix}", f"PLUGINDIR={prefix.lib.hdf5.plugin}")
