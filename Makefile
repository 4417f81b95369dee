# gridz: `make` builds, `make cuda` also builds the CUDA kernels, `make demo` runs a demonstration,
# `make test` runs all tests, and `make help` lists all targets. On a Debian machine, scripts/need.sh
# installs missing packages, except Rust. The CUDA compiler is downloaded from PyPI.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.NOTPARALLEL:

# In these targets and their prerequisites, a build without CUDA kernels is an error. In tests, so are
# kernels that spill registers.
cuda wheel test lint test-unit test-rust test-plugin test-side-by-side test-hosts test-installed test-spec test-adios2 test-python test-demo test-emulated emulated: export GRIDZ_CUDA := require
test lint test-unit test-rust test-plugin test-side-by-side test-hosts test-installed test-spec test-adios2 test-python test-demo test-emulated emulated: export GRIDZ_CUDA_CHECK ?= 1

# All build results are in target/, whatever the caller's cargo settings are.
export CARGO_TARGET_DIR := $(CURDIR)/target
export GRIDZ_CUDA_CACHE := $(CURDIR)/target/kernels

LIBRARY := target/release/libgridz.so
# HDF5 opens every file of a plugin folder whose name begins with "lib", so this folder contains only
# the plugin.
PLUGIN := target/plugin/libh5gridz.so
PYTHON := .venv/bin/python
# Runs cargo for everything that links HDF5.
CARGO_HDF5 := scripts/serial_hdf5.sh cargo
# In tests, the library is built with the dependencies of the Rust tests, so that both share one build,
# also if a test runs make.
export BUILD_WITH_TESTS := $(or $(if $(filter test% release-check,$(MAKECMDGOALS)),--test api),$(BUILD_WITH_TESTS))
# Marker files of the complete virtual environments: for the tests, with the CUDA compiler, with the
# tools that build wheels, with ADIOS2, and with the generator of the documentation site.
VENV := .venv/complete
CUDA_VENV := .venv-cuda/complete
WHEEL_VENV := .venv-wheel/complete
ADIOS2_VENV := .venv-adios2/complete
DOCS_VENV := .venv-docs/complete
# Older versions of ADIOS2 with the older operator interface, tested in addition to the newest one. Only
# the files of their Python packages are used, so the version of Python does not matter.
ADIOS2_BEFORE := 2.9.0 2.11.0.1014
# Source distributions of packages whose test data contains HDF5 and netCDF files.
CORPUS := target/corpus/complete
# Wheels are for systems with this glibc or a newer one.
WHEEL_TARGET := x86_64-unknown-linux-gnu
WHEEL_GLIBC := 2.28
WHEEL_PLATFORM := manylinux_2_28_x86_64

# ---- variables of the command line -------------------------------------------------------------

# make demo FILE=my.h5: the demo with your own file.
FILE ?=
# make demo N=256: cells per side of the demo's simulation.
N ?= 128
# make regress BASE=v0.1.0: the revision to compare with.
BASE ?= HEAD~1
# make fuzz SECONDS_EACH=3600: how long each fuzz target runs.
SECONDS_EACH ?= 600
# make release-check PYTHONS="python3.9 python3.13": the Python versions that test the wheel.
PYTHONS ?= python3
# make install PREFIX=... PLUGINDIR=... DESTDIR=...: the destination.
PREFIX ?= /usr/local
PLUGINDIR ?= $(PREFIX)/lib/hdf5/plugin
DESTDIR ?=
# make install-adios2 ADIOS2=... ADIOS2_PLUGINDIR=...: the folders of ADIOS2 and of the plugin.
ADIOS2 ?=
ADIOS2_PLUGINDIR ?= $(PREFIX)/lib/adios2/plugin

# The folders, quoted for the shell, since their names may contain any character.
quoted = '$(subst ','\'',$(1))'
FOLDERS = PREFIX=$(call quoted,$(PREFIX)) PLUGINDIR=$(call quoted,$(PLUGINDIR)) DESTDIR=$(call quoted,$(DESTDIR)) \
    ADIOS2=$(call quoted,$(ADIOS2)) ADIOS2_PLUGINDIR=$(call quoted,$(ADIOS2_PLUGINDIR))

# ---- what users need ---------------------------------------------------------------------------

.PHONY: build
build: need-rust ## (default) build target/plugin/libh5gridz.so and target/release/libgridz.so
	@scripts/need.sh gcc libc6-dev  # cargo links with the C compiler
	$(if $(BUILD_WITH_TESTS),$(CARGO_HDF5),cargo) build --locked --release --lib $(BUILD_WITH_TESTS)
	@scripts/native_static_libs.sh > target/release/native-static-libs.$$$$ && \
	    mv target/release/native-static-libs.$$$$ target/release/native-static-libs
	@ln -sf libgridz.so target/release/libgridz.so.0  # the soname, which linked programs load
	@cmp --silent $(LIBRARY) $(PLUGIN) || install -D $(LIBRARY) $(PLUGIN)
	@echo "HDF5 programs find the filter after:  export HDF5_PLUGIN_PATH=$(CURDIR)/target/plugin"

.PHONY: cuda
cuda: need-nvcc build ## build with CUDA kernels, downloading nvcc; GRIDZ_CUDA_ARCHS=all for every GPU, as in releases

.PHONY: demo
demo: build ## write, convert and verify data, then one table of codecs and a picture; FILE=my.h5 does it with your own file
	@scripts/need.sh libhdf5-dev hdf5-tools
	@FILE=$(call quoted,$(FILE)) N='$(N)' examples/demo/run.sh

# Builds only if no build exists: root often has no Rust.
.PHONY: install
install: $(if $(wildcard $(LIBRARY)),,build) ## install everything; PREFIX=/usr/local PLUGINDIR=PREFIX/lib/hdf5/plugin
	@scripts/need.sh python3  # writes modules of the command gridz
	@$(FOLDERS) packaging/install.sh install

.PHONY: install-adios2
install-adios2: ## after install: build and install the operator for ADIOS2=FOLDER, an installation or a Python package
	@scripts/need.sh g++ libc6-dev cmake
	@$(FOLDERS) packaging/adios2.sh

.PHONY: uninstall
uninstall: ## remove the installed files, with the same PREFIX and PLUGINDIR
	@$(FOLDERS) packaging/install.sh uninstall

.PHONY: deb
deb: build ## make target/gridz_VERSION_ARCH.deb and gridz-dev_…; Debian's HDF5 finds the plugin without a variable
	@scripts/need.sh dpkg-dev python3
	@packaging/deb.sh

.PHONY: dist
dist: build ## make target/gridz-VERSION-ARCH-linux.tar.gz, which works in any folder
	@scripts/need.sh python3
	@packaging/dist.sh

.PHONY: wheel
wheel: need-rust need-nvcc $(WHEEL_VENV) ## make target/wheels/gridz-VERSION-py3-none-manylinux_2_28_x86_64.whl, with CUDA kernels
	@scripts/need.sh gcc libc6-dev
	@rm -f target/wheels/gridz-*-$(WHEEL_PLATFORM).whl  # the checks below and those of releases use this wheel
	PATH="$(CURDIR)/.venv-wheel/bin:$$PATH" cargo zigbuild --locked --release --lib --target $(WHEEL_TARGET).$(WHEEL_GLIBC)
	GRIDZ_LIBRARY=target/$(WHEEL_TARGET)/release/libgridz.so GRIDZ_WHEEL_PLATFORM=$(WHEEL_PLATFORM) \
	    .venv-wheel/bin/python -m build --wheel --no-isolation --outdir target/wheels
	.venv-wheel/bin/auditwheel show target/wheels/gridz-*-$(WHEEL_PLATFORM).whl | tr '\n' ' ' | grep -F '"$(WHEEL_PLATFORM)"' \
	    || { echo "the wheel needs symbols that glibc $(WHEEL_GLIBC) lacks" >&2; exit 1; }

.PHONY: sdist
sdist: $(WHEEL_VENV) ## make target/wheels/gridz-VERSION.tar.gz, from which pip builds a wheel (needs Rust)
	.venv-wheel/bin/python -m build --sdist --no-isolation --outdir target/wheels

.PHONY: docs
docs: $(DOCS_VENV) ## make the documentation site, target/site/index.html; a dead link is an error
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "target/site/index.html; with search:  python3 -m http.server --directory target/site"

.PHONY: bench
bench: build $(VENV) ## measure the filter in h5py, compared with other filters
	@scripts/need.sh libhdf5-dev pkg-config
	$(PYTHON) scripts/bench_filter.py

.PHONY: regress
regress: need-rust $(VENV) ## compare frame sizes and speeds with those of a revision, BASE=HEAD~1; fails if they are worse
	@scripts/need.sh gcc libc6-dev
	$(PYTHON) scripts/regress $(call quoted,$(BASE))

# ---- tests -------------------------------------------------------------------------------------

ALL_TESTS := test-side-by-side test-goldens
# Each of these suites uses one core; the longest ones run first. The first suite compiles the library
# of the release profile for the later ones. The second and third suites do not need it.
SIDE_BY_SIDE := test-rust lint test-unit test-hosts test-installed test-emulated test-python test-spec test-adios2 test-plugin test-demo
.PHONY: test
test: test-begin need-nvcc $(ALL_TESTS) ## run everything; installs what it needs
	@cat target/times.log target/skips.log
	@scripts/check_gpu_results.sh || true  # CI has no GPU
	@echo "make test: lint, Rust tests, plugin, HDF5 hosts, installation, ADIOS2, Python, SPEC.md's decoder, demo, fuzz targets, emulated kernels and goldens" \
	    "passed;" \
	    "$$(wc -l < target/skips.log) skipped"

# target/skips.log lists the tests that cannot run on this machine, for lack of reference data or
# history.
.PHONY: test-begin
test-begin:
	@mkdir -p target
	@: > target/skips.log
	@: > target/times.log

.PHONY: test-side-by-side
test-side-by-side: need-rust need-nvcc need-test-packages $(VENV)
	printf '%s\n' $(SIDE_BY_SIDE) | xargs -P 2 -I SUITE bash -c \
	    'TIMEFORMAT="SUITE: %0R s, %0U s of CPU time"; \
	    { time $(MAKE) SUITE > target/SUITE.log 2>&1; } 2>> target/times.log; status=$$?; cat target/SUITE.log; exit $$status'

# The library is compiled twice: for its unit tests, with overflow checks and debug assertions, and in
# the release profile for all other tests.
.PHONY: test-unit
test-unit: need-rust need-test-packages need-nvcc ## the unit tests of the codecs, with overflow checks and debug assertions
	$(CARGO_HDF5) test --locked --package gridz-codecs --lib

.PHONY: test-rust
test-rust: need-rust need-test-packages need-nvcc ## all other Rust tests, with the C API's C programs
	$(CARGO_HDF5) test --locked --release --no-fail-fast --test '*'
	$(CARGO_HDF5) test --locked --release --workspace --exclude gridz-codecs --lib
	$(CARGO_HDF5) test --locked --release --workspace --doc

.PHONY: test-plugin
test-plugin: need-nvcc build need-test-packages ## the .so alone, as installed, with h5repack, h5dump and h5diff
	rm -rf target/installed
	@PREFIX=/usr PLUGINDIR=/usr/lib/hdf5/plugin DESTDIR=$(CURDIR)/target/installed packaging/install.sh install
	plugin/hdf5/smoke_test.sh target/installed/usr/lib/hdf5/plugin

.PHONY: test-hosts
test-hosts: need-nvcc build need-test-packages $(VENV) ## the filter in h5py, netCDF4, PyTables, xarray and C programs
	HDF5_PLUGIN_PATH=$(CURDIR)/target/plugin $(PYTHON) -m pytest -q tests/hosts

.PHONY: test-installed
test-installed: need-nvcc build need-test-packages $(VENV) ## an installation: C, C++, Fortran, MPI, and all commands in docs/
	@scripts/need.sh libhdf5-openmpi-dev openmpi-bin libnetcdf-dev dpkg-dev nco
	$(PYTHON) -m pytest -q tests/installed

.PHONY: test-adios2
test-adios2: need-nvcc build need-test-packages $(ADIOS2_VENV) ## the operator of ADIOS2, in the Python package of ADIOS2 and in C++ programs
	env -u HDF5_PLUGIN_PATH .venv-adios2/bin/python -m pytest -q tests/adios2

.PHONY: test-python
test-python: need-nvcc build need-test-packages $(WHEEL_VENV) $(CORPUS) ## the Python package and the command, installed from a wheel
	rm -rf target/wheels/here .venv-python
	GRIDZ_LIBRARY=$(LIBRARY) .venv-wheel/bin/python -m build --wheel --no-isolation --outdir target/wheels/here
	python3 -m venv .venv-python
	.venv-python/bin/pip --quiet --disable-pip-version-check install target/wheels/here/*.whl --requirement requirements-python.txt
	env -u HDF5_PLUGIN_PATH .venv-python/bin/python -m pytest -q tests/python

.PHONY: test-spec
test-spec: build $(VENV) ## golden and damaged frames, decoded by a second decoder that is written from SPEC.md alone
	$(PYTHON) -m pytest -q tests/spec

.PHONY: test-demo
test-demo: need-nvcc build need-test-packages ## a small run of the demo
	FILE= N=32 examples/demo/run.sh

.PHONY: fuzz
fuzz: need-rust need-test-packages ## every fuzz target for SECONDS_EACH=600 seconds
	fuzz/run.sh $(SECONDS_EACH)

.PHONY: test-emulated
test-emulated: need-nvcc need-test-packages ## the GPU tests with kernels compiled for the CPU, except two long ones
	GRIDZ_GPU_CASES=4 tests/emulator/run.sh --skip waiting::large_arrays --skip threads_share_a_gpu

.PHONY: emulated
emulated: need-nvcc need-test-packages ## all GPU tests with kernels compiled for the CPU, with more cases
	tests/emulator/run.sh

.PHONY: test-goldens
test-goldens: ## check that no committed golden file was ever changed
	scripts/check_goldens.sh

.PHONY: release-check
release-check: export GRIDZ_ALL_CASES := 1
release-check: test emulated ## all checks for a release: all tests in full, GPU results of the current kernels, the wheel in PYTHONS, the crate
	$(CARGO_HDF5) test --locked --workspace
	fuzz/run.sh 60
	scripts/check_gpu_results.sh
	$(MAKE) wheel
	tests/python/matrix.sh target/wheels/gridz-*-$(WHEEL_PLATFORM).whl $(PYTHONS)
	cargo publish --dry-run --locked --workspace
	TEST_KILLS=200 HDF5_PLUGIN_PATH=$(CURDIR)/target/plugin $(PYTHON) -m pytest -q tests/hosts/test_bulk.py -k flushed

# The crates that differ from the last commit.
CHANGED = $(shell git diff --name-only HEAD -- crates | cut -d/ -f2 | sort -u | sed 's/^/-p /')
.PHONY: check
check: need-rust need-test-packages ## during work: formatting, clippy, and the unit tests of the crates that differ from HEAD
	cargo fmt --all --check
	GRIDZ_CUDA=off $(CARGO_HDF5) clippy --locked --workspace --all-targets --profile dev-fast -- -D warnings
	$(if $(CHANGED),GRIDZ_CUDA=off $(CARGO_HDF5) test --locked --profile dev-fast --lib $(CHANGED))

.PHONY: lint
lint: need-test-packages need-nvcc ## formatting, clippy and documentation, warnings denied
	@scripts/need_rust.sh clippy rustfmt
	cargo fmt --all --check
	$(CARGO_HDF5) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO_HDF5) doc --locked --workspace --no-deps
	@# Checks that the fuzz targets compile; libFuzzer itself is not needed for that.
	CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a cargo clippy --locked --manifest-path fuzz/Cargo.toml -- -D warnings

# ---- prerequisites -----------------------------------------------------------------------------

.PHONY: need-rust
need-rust:
	@scripts/need_rust.sh

.PHONY: need-test-packages
need-test-packages:
	@scripts/need.sh gcc g++ gfortran libc6-dev pkg-config cmake man-db valgrind python3 python3-venv \
	    libhdf5-dev hdf5-tools netcdf-bin

# NVCC=... is an existing compiler.
.PHONY: need-nvcc
need-nvcc: $(if $(NVCC),,$(CUDA_VENV))

$(CUDA_VENV): requirements-cuda.txt
	@scripts/need.sh g++ libc6-dev python3 python3-venv
	python3 -m venv --clear .venv-cuda
	.venv-cuda/bin/pip --quiet --disable-pip-version-check install --requirement requirements-cuda.txt
	@touch $@

$(VENV): requirements-test.txt
	@scripts/need.sh python3 python3-venv
	@python3 -c 'import sys; sys.version_info < (3, 11) and sys.exit("The tests need Python 3.11; python3 is " + sys.version)'
	python3 -m venv --clear .venv
	.venv/bin/pip --quiet --disable-pip-version-check install --requirement requirements-test.txt
	@touch $@

$(WHEEL_VENV): requirements-wheel.txt
	@scripts/need.sh python3 python3-venv
	python3 -m venv --clear .venv-wheel
	.venv-wheel/bin/pip --quiet --disable-pip-version-check install --requirement requirements-wheel.txt
	@touch $@

# pip runs the build script of each package to find its dependencies; that of netCDF4 needs the
# libraries.
$(CORPUS): requirements-corpus.txt $(WHEEL_VENV)
	@scripts/need.sh pkg-config libhdf5-dev libnetcdf-dev
	rm -rf target/corpus && mkdir -p target/corpus
	.venv-wheel/bin/pip --quiet --disable-pip-version-check download --no-deps --dest target/corpus --requirement requirements-corpus.txt \
	    --no-binary "$$(sed -n 's/==.*//p' requirements-corpus.txt | paste -sd,)"
	@touch $@

$(ADIOS2_VENV): requirements-adios2.txt
	@scripts/need.sh python3 python3-venv
	python3 -m venv --clear .venv-adios2
	.venv-adios2/bin/pip --quiet --disable-pip-version-check install --requirement requirements-adios2.txt
	for version in $(ADIOS2_BEFORE); do \
	    .venv-adios2/bin/pip --quiet --disable-pip-version-check install --no-deps --only-binary=:all: --python-version 3.11 \
	        --implementation cp --target .venv-adios2/before/$$version adios2==$$version; \
	done
	@touch $@

$(DOCS_VENV): requirements-docs.txt
	@scripts/need.sh python3 python3-venv
	python3 -m venv --clear .venv-docs
	.venv-docs/bin/pip --quiet --disable-pip-version-check install --requirement requirements-docs.txt
	@touch $@

.PHONY: clean
clean: ## remove everything that was built or downloaded here
	rm -rf target .venv .venv-cuda .venv-wheel .venv-adios2 .venv-python .venv-docs fuzz/target python/gridz/plugin python/gridz/_abi.py python/gridz/_h5_functions.py
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
