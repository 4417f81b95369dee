"""The mini-apps, in C++ and Python, with this ADIOS2 and with older ones; plugins loaded by an
ADIOS2 of another version."""

import sys

import pytest

from support import BEFORE, ROOT, WHEEL, flags, frames, make, run

EXAMPLES = ROOT / "examples/adios2"
LAST = "10 steps of 512 x 512: every element is within 0.001\n"


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The mini-app for each installed version of ADIOS2."""
    found = {}
    for package in [WHEEL, *BEFORE]:
        version = "new" if package == WHEEL else package.parent.name
        build = tmp_path_factory.mktemp(version)
        settings = [f"-DADIOS2={package}", f"-DCMAKE_CXX_FLAGS={flags(package)} -O2 -Wall -Wextra -Werror"]
        run(["cmake", "-S", EXAMPLES, "-B", build, *settings], build)
        run(["cmake", "--build", build], build)
        found[version] = build / "heat_adios2"
    return found


@pytest.fixture(scope="session")
def plugins(prefix, plugin):
    """The folder of the plugin for each version."""
    found = {"new": plugin.parent}
    for package in BEFORE:
        version = package.parent.name
        found[version] = prefix / "lib/adios2" / version
        make("install-adios2", flags(package), PREFIX=prefix, ADIOS2=package, ADIOS2_PLUGINDIR=found[version])
    return found


def test_older_ones_are_here():
    assert [package.parent.name.rsplit(".", 2)[0] for package in BEFORE], "run make test-adios2 to download them"


def test_cpp(tmp_path, programs, plugins):
    """Each version writes, by a program that sets operators in code and by one configured by XML;
    each version reads all files."""
    for writer, program in programs.items():
        for config in [[], [EXAMPLES / "adios2.xml"]]:
            run([program, "write", *config], tmp_path, ADIOS2_PLUGIN_PATH=str(plugins[writer]))
            assert len(frames(tmp_path / "heat.bp")) == 10 * 2 + 2, writer
            for reader, other in programs.items():
                found = run([other, "read"], tmp_path, ADIOS2_PLUGIN_PATH=str(plugins[reader]))
                assert found == LAST, (writer, reader)


def test_python(tmp_path):
    run([sys.executable, EXAMPLES / "heat.py", "write"], tmp_path)
    assert len(frames(tmp_path / "heat_py.bp")) == 40
    assert "every element is within 0.001" in run([sys.executable, EXAMPLES / "heat.py", "read"], tmp_path)


def test_versions_that_differ(tmp_path, programs, plugins):
    """A plugin built for another version ends the program with a message, and never by a signal
    without one."""
    for version, program in programs.items():
        for other, folder in plugins.items():
            if other == version:
                continue
            # If the library that the plugin is linked with cannot be found, the plugin is not
            # loaded at all, and ADIOS2 reports that.
            found = run([program, "write"], tmp_path, "failure", ADIOS2_PLUGIN_PATH=str(folder))
            assert "this gridz_adios2 was built for ADIOS2" in found or "plugin gridz_adios2 could not be loaded" in found


def test_two_in_a_process(tmp_path, programs, plugins):
    """The library that the plugin is linked with is found, but it is not the program's. (Such a
    pair crashes at exit.)"""
    before = next(package for package in BEFORE if package.parent.name.startswith("2.11"))
    settings = {"ADIOS2_PLUGIN_PATH": str(plugins[before.parent.name]), "LD_LIBRARY_PATH": str(before)}
    found = run([programs["new"], "write"], tmp_path, "failure", **settings)
    assert "this gridz_adios2 was built for ADIOS2 2.11 (libadios2_core), but the program has 2.12" in found


NOISE = """
#include <adios2.h>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

// Incompressible blocks of all shapes. Older versions provide 128 bytes in addition to the block.
int main(int argc, char **)
{
    const std::vector<adios2::Dims> shapes = {{5}, {40, 50}, {3, 4, 5}, {2, 3, 4, 5}, {2, 3, 2, 3, 2}, {1, 2, 1, 2, 3, 2},
                                              {2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7}, {0, 7}};
    adios2::ADIOS adios;
    if (argc == 1) {
        adios2::IO io = adios.DeclareIO("writer");
        io.SetEngine("BP5");
        adios2::Operator op =
            adios.DefineOperator("o", "plugin", {{"PluginName", "gridz"}, {"PluginLibrary", "gridz_adios2"}, {"codec", "lorenzo"}});
        adios2::Engine engine = io.Open("noise.bp", adios2::Mode::Write);
        engine.BeginStep();
        for (std::size_t i = 0; i < shapes.size(); i++) {
            std::size_t n = 1;
            for (std::size_t extent : shapes[i])
                n *= extent;
            std::mt19937_64 random(i);
            std::vector<double> values(n);
            for (double &value : values)
                value = std::uniform_real_distribution<double>(-1, 1)(random) * std::pow(10.0, random() % 200);
            auto variable = io.DefineVariable<double>("x" + std::to_string(i), shapes[i], adios2::Dims(shapes[i].size(), 0), shapes[i]);
            variable.AddOperation(op);
            engine.Put(variable, values.data(), adios2::Mode::Sync);
        }
        engine.EndStep();
        engine.Close();
        return 0;
    }
    adios2::IO io = adios.DeclareIO("reader");
    adios2::Engine engine = io.Open("noise.bp", adios2::Mode::Read);
    engine.BeginStep();
    for (std::size_t i = 0; i + 1 < shapes.size(); i++) {
        std::mt19937_64 random(i);
        auto variable = io.InquireVariable<double>("x" + std::to_string(i));
        std::vector<double> values;
        engine.Get(variable, values, adios2::Mode::Sync);
        for (double value : values)
            if (value != std::uniform_real_distribution<double>(-1, 1)(random) * std::pow(10.0, random() % 200)) {
                std::printf("x%zu is wrong\\n", i);
                return 1;
            }
    }
    engine.EndStep();
    engine.Close();
    std::puts("the same");
    return 0;
}
"""


@pytest.mark.parametrize("package", [WHEEL, *BEFORE], ids=lambda path: path.parent.name)
def test_room(tmp_path, package, plugins):
    """Incompressible blocks: the written bytes fit into the room that this version provides, and
    the blocks are restored."""
    version = "new" if package == WHEEL else package.parent.name
    (tmp_path / "noise.cpp").write_text("#include <cmath>\n" + NOISE)
    bindings = "cxx" if (package / "libadios2_cxx.so").exists() else "cxx11"
    run(["g++", "-std=c++17", "-O1", *flags(package).split(), "noise.cpp", "-isystem", package / "include", f"-L{package}",
         f"-ladios2_{bindings}", "-ladios2_core", f"-Wl,-rpath,{package},--allow-shlib-undefined", "-o", "noise"], tmp_path)  # fmt: skip
    run([tmp_path / "noise"], tmp_path, ADIOS2_PLUGIN_PATH=str(plugins[version]), MALLOC_CHECK_="3")
    # The room is 128 bytes beyond the array, minus ADIOS2's own header, or the bound.
    assert len(frames(tmp_path / "noise.bp")) == 8
    assert run([tmp_path / "noise", "read"], tmp_path, ADIOS2_PLUGIN_PATH=str(plugins[version])) == "the same\n"
