"""A saved folder gives the same results: loaded in Python without a compiler, and from C++."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import FormatError, Unsupported
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.record.schema import KernelRow, TimeRow
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.module import Module
from glasshouse.runtime.saved import text_digest

RNG = np.random.default_rng(0)
ROOT = Path(__file__).parents[3]


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Module, Path]:
    """A small model with packed weights, channels-last convolution and a pass-made constant."""
    gh.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    module = gh.compile(model.eval(), floats(2, 3, 12, 12))
    return module, module.save(tmp_path_factory.mktemp("saved"))


def test_a_loaded_module_gives_the_same(saved: tuple[Module, Path]) -> None:
    module, folder = saved
    x = floats(2, 3, 12, 12)
    again = gh.load(folder)
    np.testing.assert_array_equal(again(x), module(x))
    view = again.recording(x).graphs[0]
    kernels = list(view.table(KernelRow))
    assert [k.name for k in kernels] == [
        k.name for k in module.recording().graphs[0].table(KernelRow)
    ]
    assert "gh::" in kernels[0].code
    assert {t.node for t in view.table(TimeRow)} == {k.node for k in kernels}


def test_loading_needs_no_compiler(saved: tuple[Module, Path], tmp_path: Path) -> None:
    module, folder = saved
    x = floats(2, 3, 12, 12)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np, glasshouse as gh; m = gh.load(sys.argv[1]);"
        "np.save('y.npy', m(np.load('x.npy'))); assert 'torch' not in sys.modules"
    )
    env = {**os.environ, "CXX": "/nonexistent", "GLASSHOUSE_CACHE": str(tmp_path / "none")}
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=tmp_path, env=env, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), module(x))


def test_runs_from_cpp_without_python(saved: tuple[Module, Path], tmp_path: Path) -> None:
    module, folder = saved
    x = floats(2, 3, 12, 12)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    compiler = os.environ.get("CXX", "g++")
    link = [f"-L{folder}", "-lmodel"]
    source = ROOT / "examples" / "cpp" / "run.cpp"
    command = [compiler, "-std=c++17", "-Wall", "-Werror", f"-I{folder}", str(source)]
    subprocess.run([*command, "-o", "run", *link], cwd=tmp_path, check=True)
    assert not (folder / "weights.bin").exists()
    beside = module.save(tmp_path / "beside", weights="file")
    assert (beside / "weights.bin").stat().st_size > 128 * 10 * 4
    for home in (folder, beside):  # the same program, with either library
        env = {**os.environ, "LD_LIBRARY_PATH": str(home)}
        subprocess.run(["./run", str(home), "x.bin"], cwd=tmp_path, env=env, check=True)
        y = np.fromfile(tmp_path / "output_0.bin", np.float32).reshape(2, 10)
        np.testing.assert_array_equal(y, module(x))
        np.testing.assert_array_equal(gh.load(home)(x), module(x))
    gone = subprocess.run(
        ["./run", "nowhere"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert gone.returncode == 1
    assert "nowhere/weights.bin: No such file" in gone.stderr


def test_loaded_weights_are_in_memory_once(tmp_path: Path) -> None:
    """Those that kernels read packed; the others where they are mapped."""
    count, size = 4, 2048  # 64 MiB
    weights = [gh.from_numpy(floats(size, size) / size) for _ in range(count)]

    def model(x: Any) -> Any:
        for weight in weights:
            x = x @ weight
        return x

    x = floats(2, size)
    module = gh.compile(model, x)
    folder = module.save(tmp_path / "saved")
    np.save(tmp_path / "x.npy", x)
    code = f"""
import re, numpy, glasshouse as gh, glasshouse.runtime.load
def peak(): return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024
before = peak()
y = gh.load({str(folder)!r})(numpy.load({str(tmp_path / "x.npy")!r}))
numpy.save({str(tmp_path / "y.npy")!r}, y)
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1.6 * count * size * size * 4
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), module(x))


def test_the_header_is_plain_c(saved: tuple[Module, Path], tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "a.c").write_text('#include "model.h"\nint main(void) { return 0; }\n')
    command = [compiler, "-std=c99", "-pedantic", "-Wall", "-Werror", f"-I{saved[1]}", "a.c"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_symbols_and_variables_survive(tmp_path: Path) -> None:
    builder = GraphBuilder()
    n = symbol("n", 1, 9)
    x = builder.input("float32", [n, 3], name="x")
    total = builder.variable(np.zeros(3, np.float32), name="total")
    new = total + x.apply("sum", axes=[0])
    builder.update(total, new)
    module = compile_graph(builder.finish(x * 2.0, total, x))
    x_ = floats(4, 3)
    module(x_)
    again = gh.load(module.save(tmp_path))  # with what the variable holds now
    for _ in range(2):
        for ours, theirs in zip(again(x_), module(x_), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def _call_c(
    folder: Path, name: str, inputs: list[Any], outputs: list[Any], sizes: list[int]
) -> int:
    """Through the C interface, twice on one model; gives what the second run returned."""
    import ctypes

    library = ctypes.CDLL(str(folder / f"lib{name}.so"))
    create, run = library[f"{name}_create"], library[f"{name}_run"]
    create.restype = ctypes.c_void_p
    made = ctypes.c_void_p(create(str(folder).encode(), 2))
    assert made.value
    pointers = [(ctypes.c_void_p * len(x))(*(a.ctypes.data for a in x)) for x in (inputs, outputs)]
    numbers = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
    run(made, *pointers, numbers)
    code: int = run(made, *pointers, numbers)
    library[f"{name}_destroy"](made)
    return code


def test_c_is_told_what_is_wrong_with_the_data(tmp_path: Path) -> None:
    import ctypes

    builder = GraphBuilder()
    x, y = builder.input("int64", [4], name="x"), builder.input("int64", [4], name="y")
    folder = compile_graph(builder.finish(x // y, x.apply("take", y, axis=0))).save(tmp_path)
    error = ctypes.CDLL(str(folder / "libmodel.so")).model_error
    error.restype = ctypes.c_char_p
    x_, out = np.arange(4), [np.zeros(4, np.int64), np.zeros(4, np.int64)]
    assert _call_c(folder, "model", [x_, np.array([1, 2, 3, 1])], out, []) == 0
    assert _call_c(folder, "model", [x_, np.array([1, 2, 0, 1])], out, []) == 1
    assert b"an integer was divided by zero" in error()
    assert _call_c(folder, "model", [x_, np.array([1, 2, 9, 1])], out, []) == 1
    assert b"an index lies outside" in error()


def test_c_runs_with_symbols_variables_and_repeated_outputs(tmp_path: Path) -> None:
    builder = GraphBuilder()
    n = symbol("n", 1, 9)
    x = builder.input("float32", [n, 3], name="x")
    total = builder.variable(np.ones(3, np.float32), name="total")
    builder.update(total, total + x.apply("sum", axes=[0]))
    y = x * 2.0
    module = compile_graph(builder.finish(y, total, x, y))
    folder = module.save(tmp_path, name="sums")
    x_ = floats(4, 3)
    out = [np.zeros(v.type.shape[-1] if v.type.rank == 1 else (4, 3), np.float32)
           for v in module.graph.outputs]  # fmt: skip
    assert _call_c(folder, "sums", [x_], out, [4]) == 0
    module(x_)
    for ours, theirs in zip(out, module(x_), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert _call_c(folder, "sums", [x_], out, [10]) == 1


def test_new_constants_are_saved_and_can_be_set_again(tmp_path: Path) -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [2, 8], name="x")
    w = builder.weight(floats(8, 16), name="w")
    module = compile_graph(builder.finish(x.apply("matmul", w)))
    x_, first, second = floats(2, 8), floats(8, 16), floats(8, 16)
    module.set_constant("w", first)
    again = gh.load(module.save(tmp_path))
    np.testing.assert_allclose(again(x_), x_ @ first, rtol=1e-5, atol=1e-5)
    again.set_constant("w", second)
    np.testing.assert_allclose(again(x_), x_ @ second, rtol=1e-5, atol=1e-5)


def test_what_needs_python_says_so_in_c(tmp_path: Path) -> None:
    body = GraphBuilder()
    doubled = body.finish(body.input("float32", [2, 3]) * 2.0)
    builder = GraphBuilder()
    x = builder.input("float32", [2, 3])
    asked = builder.input("bool", [])
    y = asked.apply("cond", x, then=doubled, other=doubled)
    module = compile_graph(builder.finish(y))
    folder = module.save(tmp_path)
    x_ = floats(2, 3)
    np.testing.assert_array_equal(gh.load(folder)(x_, np.array(True)), module(x_, np.array(True)))
    import ctypes

    library = ctypes.CDLL(str(folder / "libmodel.so"))
    library.model_error.restype = ctypes.c_char_p
    assert library.model_create(str(folder).encode(), 1) == 0
    assert b"needs Python: cond" in library.model_error()


def test_damaged_folders_are_refused(saved: tuple[Module, Path], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    with pytest.raises(FormatError, match="no saved model there"):
        gh.load(folder)
    shutil.copytree(saved[1], folder)
    about = json.loads((folder / "module.json").read_text())
    needs = {**about["library"]["needs"], "processor": ["amx9"]}
    for change, message in (
        ({"version": 99}, "version 99"),
        ({"version": 2}, "version 2"),
        ({"library": {}}, "damaged"),
        ({"library": {**about["library"], "needs": needs}}, "processor with amx9"),
    ):
        (folder / "module.json").write_text(json.dumps(about))
        rewritten(folder, lambda about, change=change: about.update(change))
        with pytest.raises(FormatError, match=message):
            gh.load(folder)
    (folder / "module.json").write_text(json.dumps(about))
    with (folder / "libmodel.so").open("ab") as out:  # behind the code: the weights
        out.write(b"more")
    with pytest.raises(FormatError, match="another size"):
        gh.load(folder)
    # A new file: this process has the old one mapped, and the system's loader reads names in it.
    (folder / "libmodel.so").unlink()
    (folder / "libmodel.so").write_bytes(b"x")
    with pytest.raises(FormatError, match="not the library that was saved"):
        gh.load(folder)


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change module.json, with the right hash of itself: what no accident does."""
    path = folder / "module.json"
    about = json.loads(path.read_text())
    change(about)
    about["sha256"] = text_digest(about)
    path.write_text(json.dumps(about))


@pytest.fixture
def copied(saved: tuple[Module, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved[1], tmp_path / "copy"))


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as data:
        data.seek(at)
        byte = data.read(1)[0]
        data.seek(at)
        data.write(bytes([byte ^ 1]))


@pytest.mark.parametrize(
    "key, value",
    [("arena_bytes", 0), ("arena_bytes", 64), ("work_offset", 1 << 40), ("table", []),
     ("packed", []), ("steps", []), ("symbols", ["n"]), ("orders", []), ("arena", [])],
)  # fmt: skip
def test_no_bound_can_be_changed(copied: Path, key: str, value: Any) -> None:
    """`arena_bytes: 0` was a segmentation fault."""
    rewritten(copied, lambda about: about.update({key: value}))
    with pytest.raises(FormatError, match=r"not what libmodel\.so was built for"):
        gh.load(copied)


def test_no_shape_can_be_changed(copied: Path) -> None:
    rewritten(copied, lambda about: about["graph"]["nodes"][0]["types"][0][1].append(7))
    with pytest.raises(FormatError, match=r"not what libmodel\.so was built for"):
        gh.load(copied)
    with pytest.raises(FormatError, match=r"not what libmodel\.so was built for"):
        gh.load(copied, verify=False)


def test_any_flipped_byte_is_found(saved: tuple[Module, Path], tmp_path: Path) -> None:
    module, _ = saved
    folder = module.save(tmp_path, weights="file")
    about = json.loads((folder / "module.json").read_text())
    x = floats(2, 3, 12, 12)
    places = {
        "weights.bin": (0, about["weights"]["bytes"] - 1),
        "libmodel.so": (5000,),
        "module.json": (20, 200),
        "recording.glass": (100,),
        "model.h": (10,),
        "source/main.cpp": (10,),
    }
    for name, offsets in places.items():
        for at in offsets:
            flip(folder / name, at)
            with pytest.raises(FormatError, match=Path(name).name):
                gh.load(folder)
            flip(folder / name, at)
    flip(folder / "weights.bin", 3)
    changed = gh.load(folder, verify=False)(x)  # as asked for
    assert not np.array_equal(changed, module(x))
    flip(folder / "weights.bin", 3)
    shutil.rmtree(folder / "source")
    for unneeded in ("recording.glass", "model.h"):
        (folder / unneeded).unlink()
    np.testing.assert_array_equal(gh.load(folder)(x), module(x))


def test_a_part_outside_of_the_folder_is_refused(copied: Path) -> None:
    for name in ("../secret", "/etc/hostname"):
        rewritten(copied, lambda about, name=name: about.update(parts={name: ""}))
        with pytest.raises(FormatError, match="is no part of the folder"):
            gh.load(copied)


def test_nested_brackets_are_no_json(copied: Path) -> None:
    (copied / "module.json").write_text("[" * 200_000)
    with pytest.raises(FormatError, match="not JSON"):
        gh.load(copied)


@pytest.mark.parametrize("weights", ["library", "file"])
def test_c_finds_changed_weights(
    saved: tuple[Module, Path], tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    folder = saved[0].save(tmp_path, weights=weights)
    about = json.loads((folder / "module.json").read_text())["weights"]
    flip(folder / about["file"], about["begin"] + about["bytes"] // 2)
    library = ctypes.CDLL(str(folder / "libmodel.so"))
    library.model_create.restype = ctypes.c_void_p
    library.model_error.restype = ctypes.c_char_p
    assert not library.model_create(str(folder).encode(), 1)
    assert b"the weights are not those that were saved" in library.model_error()
    monkeypatch.setenv("GLASSHOUSE_VERIFY", "0")
    made = library.model_create(str(folder).encode(), 1)
    assert made
    library.model_destroy(ctypes.c_void_p(made))


def test_a_library_that_lost_its_weights_says_so_in_c(
    saved: tuple[Module, Path], tmp_path: Path
) -> None:
    import ctypes

    data = (saved[1] / "libmodel.so").read_bytes()
    (tmp_path / "libmodel.so").write_bytes(data[:-1000])
    library = ctypes.CDLL(str(tmp_path / "libmodel.so"))
    library.model_error.restype = ctypes.c_char_p
    assert library.model_create(None, 1) == 0
    assert b"libmodel.so: not the file that this model was saved with" in library.model_error()


def test_a_name_that_c_cannot_have(saved: tuple[Module, Path], tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="'library' or 'file', not in 'cloud'"):
        saved[0].save(tmp_path, weights="cloud")
    with pytest.raises(Unsupported, match="cannot name a model"):
        saved[0].save(tmp_path, name="my-model")
