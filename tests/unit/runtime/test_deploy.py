"""Programs that use a saved model: with CMake, with the C++ wrapper, and built from its sources."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.runtime.compiler import compile_graph

CXX = os.environ.get("CXX", "g++")
STRICT = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic"]
PROGRAM = r"""
#include <cstdio>
#include "net.hpp"

int main(int argc, char** argv) {
  namespace net = glasshouse::net;
  try {
    net::Model first(argc > 1 ? argv[1] : "", 1);
    net::Model model = std::move(first);
    for (const net::Symbol& s : net::Model::symbols())
      std::printf("%s %d..%d\n", s.name.c_str(), int(s.low), int(s.high));
    for (std::int64_t rows : {2, 5}) {
      const net::Tensor about = net::Model::inputs({rows})[0];
      std::vector<float> x(about.count(), 1.0f);
      const auto y = model.run({x.data()}, {rows});
      const int high = int(y[0].shape[0]), wide = int(y[0].shape[1]);
      std::printf("%s %s[%d, %d]:", y[0].name.c_str(), y[0].type.c_str(), high, wide);
      for (std::size_t i = 0; i < y[0].count(); ++i) std::printf(" %g", y[0].as<float>()[i]);
      std::puts("");
      try { y[0].as<double>(); } catch (const std::invalid_argument& e) { std::puts(e.what()); }
    }
    try { model.run({}, {2}); } catch (const std::invalid_argument& e) { std::puts(e.what()); }
    try { model.run({nullptr}); } catch (const std::invalid_argument& e) { std::puts(e.what()); }
    try { model.run({nullptr}, {99}); } catch (const std::out_of_range& e) { std::puts(e.what()); }
    try { model.run({nullptr}, {2}); } catch (const std::runtime_error& e) { std::puts(e.what()); }
    try { model.run_into({"x"}, {nullptr}, {2}); }
    catch (const std::runtime_error& e) { std::puts(e.what()); }
    try { first.run({"x"}, {2}); } catch (const std::runtime_error& e) { std::puts(e.what()); }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "failed: %s\n", error.what());
    return 1;
  }
}
"""
SAYS = """\
n 1..9
y float32[2, 2]: 4 7 4 7
y holds float32, whose elements are not 8 bytes long
y float32[5, 2]: 4 7 4 7 4 7 4 7 4 7
y holds float32, whose elements are not 8 bytes long
0 inputs given, 1 needed
0 sizes given, 1 needed
n is 99, compiled for 1 to 9
an input is NULL: x
an output is NULL: y
there is no model: none was created, or it was moved away
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x of n rows times a matrix, plus a row."""
    builder = GraphBuilder()
    x = builder.input("float32", [symbol("n", 1, 9), 3], name="x")
    weight = builder.constant(np.array([[1, 2], [1, 2], [1, 2]], np.float32))
    bias = builder.constant(np.array([1, 1], np.float32))
    graph = builder.finish(x.apply("matmul", weight) + bias, names=["y"])
    return compile_graph(graph).save(tmp_path_factory.mktemp("saved"), name="net")


def ran(command: list[str], cwd: Path, **env: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def program(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled and not yet linked."""
    made = tmp_path_factory.mktemp("program")
    (made / "app.cpp").write_text(PROGRAM)
    ran([CXX, *STRICT, f"-I{folder}", "-c", "app.cpp", "-o", "app.o"], made)
    return made / "app.o"


def test_with_the_compiler_alone(folder: Path, program: Path, tmp_path: Path) -> None:
    link = [f"-L{folder}", "-lnet", f"-Wl,-rpath,{folder}"]
    ran([CXX, str(program), "-o", "app", *link], tmp_path)
    assert ran(["./app"], tmp_path) == SAYS


def test_the_library_is_found_by_its_name(folder: Path, program: Path, tmp_path: Path) -> None:
    """Linked by path, a library without a SONAME would be looked for at that path for ever."""
    ran([CXX, str(program), "-o", "app", str(folder / "libnet.so")], tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copy(folder / "libnet.so", moved)
    assert ran(["./app"], tmp_path, LD_LIBRARY_PATH=str(moved)) == SAYS
    lost = subprocess.run(["./app"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "libnet.so" in lost.stderr


def cmake() -> str:
    return shutil.which("cmake") or pytest.skip("no cmake: apt-get install cmake")


LISTS = """
cmake_minimum_required(VERSION 3.16)
project(app CXX)
find_package(glasshouse_net VERSION_WANTED REQUIRED)
add_executable(app app.cpp)
target_compile_features(app PRIVATE cxx_std_17)
target_link_libraries(app PRIVATE glasshouse::net)
"""


def test_with_cmake(folder: Path, tmp_path: Path) -> None:
    tool = cmake()
    (tmp_path / "app.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(LISTS.replace("VERSION_WANTED", gh.__version__))
    prefix = [f"-DCMAKE_PREFIX_PATH={folder}", f"-DCMAKE_CXX_COMPILER={CXX}"]
    ran([tool, "-S", ".", "-B", "build", *prefix], tmp_path)
    ran([tool, "--build", "build"], tmp_path)
    assert ran(["build/app"], tmp_path) == SAYS
    for given, says in (
        (["99.0"], "99.0"),
        ([gh.__version__, "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=riscv64"],
         f"for {platform.machine()}"),
    ):  # fmt: skip
        (tmp_path / "CMakeLists.txt").write_text(LISTS.replace("VERSION_WANTED", given[0]))
        command = [tool, "-S", ".", "-B", f"other{given[0]}", *prefix, *given[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert says in done.stderr


def test_the_sources_build_alone(folder: Path, program: Path, tmp_path: Path) -> None:
    """In a folder where nothing else is; the weights stay behind."""
    shutil.copytree(folder / "source", tmp_path / "source")
    kernels = sorted(p.name for p in (tmp_path / "source").glob("*.cpp"))
    ran([CXX, "@flags", *kernels, "-o", "../libnet.so"], tmp_path / "source")
    ran([CXX, str(program), "-o", "app", "-L.", "-lnet"], tmp_path)
    assert ran(["./app", str(folder)], tmp_path, LD_LIBRARY_PATH=str(tmp_path)) == SAYS
    alone = subprocess.run(
        ["./app"], cwd=tmp_path, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "not the file that this model was saved with" in alone.stderr


@pytest.mark.slow
def test_the_sources_build_with_cmake(folder: Path, tmp_path: Path) -> None:
    tool = cmake()
    ran([tool, "-S", str(folder / "source"), "-B", "build", f"-DCMAKE_CXX_COMPILER={CXX}"],
        tmp_path)  # fmt: skip
    ran([tool, "--build", "build"], tmp_path)
    assert (tmp_path / "build" / "libnet.so").exists()


def test_a_loaded_module_is_saved_again(folder: Path, tmp_path: Path) -> None:
    again = gh.load(folder).save(tmp_path / "again", name="other")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(gh.load(again)(x), gh.load(folder)(x))
    text = (again / "source" / "main.cpp").read_text()
    assert text.count("The C interface of the saved model") == 1
    assert (again / "cmake" / "glasshouse_other-config.cmake").exists()
