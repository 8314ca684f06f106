"""Typical mistakes of a newcomer, through Python and the command line, with what each is told.

A message names the mistake, where it is, and the way out. Texts are exact; PATH stands for the
folder of the test.
"""

import os
import shlex
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse import cli, formats
from glasshouse.errors import GlasshouseError, LostGradient, StaleWeights

MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)

def net():
    return Net(), (torch.ones(2, 4),)

def a_class():
    return Net, (torch.ones(2, 4),)

def wrong_shape():
    return Net(), (torch.ones(2, 5),)

def three():
    return Net(), torch.ones(2, 4), 3

def text():
    return Net(), "hello"

def fails():
    return undefined_name
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mistakes")
    (made / "m.py").write_text(MODELS)
    graph = gh.trace(nn.Linear(4, 4).eval(), torch.ones(2, 4))
    from glasshouse.show.subject import recording_of

    formats.write(recording_of(graph), made / "net.glass")
    (made / "text.txt").write_text("hello\n")
    (made / "empty.onnx").write_bytes(b"")
    (made / "broken.glass").write_bytes(b"PK\x03\x04 and nothing more")
    return made


@pytest.fixture(scope="module")
def model():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()


@pytest.fixture(scope="module")
def module(model):
    return gh.compile(model, torch.ones(2, 4))


def told(function):
    """The message of the mistake."""
    with pytest.raises((GlasshouseError, OSError)) as caught:
        function()
    error = caught.value
    return (
        str(error) if isinstance(error, GlasshouseError) else f"{error.filename}: {error.strerror}"
    )


PYTHON = {
    "a class for an instance": (
        lambda m, k: gh.compile(nn.Linear, torch.ones(2, 4)),
        "Linear is a class, not a model\n  give an instance: Linear(...)",
    ),
    "no model at all": (
        lambda m, k: gh.compile(3, torch.ones(2, 4)),
        ("int cannot be traced\n"
        "  a function, a module of glasshouse or PyTorch, or the path of a model file can"),
    ),
    "device=": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), device="cpu"),
        ("neither compile nor Sequential.forward has a keyword 'device'\n"
        "  target='cpu' says what to compile for"),
    ),
    "mode=": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), mode="max-autotune"),
        ("neither compile nor Sequential.forward has a keyword 'mode'\n"
        "  tune=True measures more, tune=False nothing; there are no modes"),
    ),
    "a typo in an option": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), num_runtime=2),
        ("neither compile nor Sequential.forward has a keyword 'num_runtime'\n"
        "  did you mean 'num_runtimes'? compile and the model take: target, progress, "
        "num_runtimes, tune, tolerance, precision, follow_weights, take_weights, threads, arch, "
        "dynamic_shapes, name, partition, freeze, input"),
    ),
    "a target that is not there": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), target="gpu"),
        "there is no target 'gpu'\n  did you mean 'cuda'? there are: cpu, cuda, interp",
    ),
    "a precision of whole numbers": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), precision="int8"),
        ("precision must be float32, tf32 (or tf32_products, tf32_convolutions), float16 or "
         "bfloat16, not int8\n"
        "  quantised models bring their whole numbers with them"),
    ),
    "a precision that is not there": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), precision="fp8"),
        ("precision must be float32, tf32 (or tf32_products, tf32_convolutions), float16 or "
         "bfloat16, not 'fp8'\n"
        "  quantised models bring their whole numbers with them"),
    ),
    "no threads": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), threads=0),
        "threads is a number of threads, from 1 on, got 0",
    ),
    "no runtimes": (
        lambda m, k: gh.compile(m, torch.ones(2, 4), num_runtimes=0),
        "num_runtimes is 0\n  a model that updates variables has 1; others have at least 1",
    ),
    "an argument too many at a call": (
        lambda m, k: k(torch.ones(2, 4), torch.ones(2, 4)),
        "the module takes 1 input, 2 were given\n  inputs are input: float32[2, 4]",
    ),
    "no argument at a call": (
        lambda m, k: k(),
        "the module takes 1 input, 0 were given\n  inputs are input: float32[2, 4]",
    ),
    "another shape at a call": (
        lambda m, k: k(torch.ones(3, 4)),
        "input must be float32[2, 4], got shape [3, 4]",
    ),
    "another element type at a call": (
        lambda m, k: k(torch.ones(2, 4, dtype=torch.float64)),
        "input must be float32[2, 4], got float64[2, 4]\n  give its to(torch.float32)",
    ),
    "text for a tensor": (
        lambda m, k: k("hello"),
        "input must be float32[2, 4], got a str",
    ),
    "a sparse tensor": (
        lambda m, k: k(torch.ones(2, 4).to_sparse()),
        "input must be float32[2, 4], got a sparse_coo float32[2, 4]\n  give its to_dense()",
    ),
    "a constant that is not there": (
        lambda m, k: k.set_constant("weight", np.ones(3)),
        ("there is no constant 'weight'\n  there are 2: 0.weight, 0.bias ... (one that a pass "
        "folded into another is gone)"),
    ),
    "a constant of another shape": (
        lambda m, k: k.set_constant("0.bias", np.ones(3, np.float32)),
        "0.bias must be float32[4], got shape [3]",
    ),
    "weights of another model": (
        lambda m, k: k.update_weights({"q": torch.ones(3)}),
        ("no weight of this module is called as one of these\n"
        "  the module's are: 0.weight, 0.bias; these are: q"),
    ),
    "weights from nothing": (
        lambda m, k: k.update_weights(3),
        "weights are taken from a model or its state_dict(), got a int",
    ),
    "a profile of no runs": (
        lambda m, k: k.profile(torch.ones(2, 4), count=0),
        "count is how often to run, an int from 1 on, got 0",
    ),
    "a theme that is not there": (
        lambda m, k: gh.plot_graph(k, "x.html", theme="drak"),
        "there is no theme 'drak'\n  did you mean 'dark'? there are: light, dark",
    ),
    "a colour that is not there": (
        lambda m, k: gh.plot_graph(k, "x.html", color="tme"),
        ("there is no color 'tme'\n  did you mean 'time'? there are: type, time, limit, error, "
        "inherited, bytes, flops, params"),
    ),
    "a grouping that is not there": (
        lambda m, k: gh.plot_graph(gh.trace(m, torch.ones(2, 4)), "x.html", group_by="modul"),
        "there is no grouping 'modul'\n  did you mean 'module'? there are: module, torch op",
    ),
    "a keyword of a page that is not there": (
        lambda m, k: gh.view(k, them="dark", open_browser=False),
        ("a page has no option 'them'\n  did you mean 'theme'? known: theme, grouping, color, "
        "graph, stage, query, select, hint, compare"),
    ),
    "something that cannot be shown": (
        lambda m, k: gh.plot_graph(3, "x.html"),
        ("int cannot be shown\n  a graph, a compiled module, a recording or the path of a model "
        "file can; a model is traced first: glasshouse.trace(model, *inputs)"),
    ),
    "a folder that is not there": (
        lambda m, k: gh.plot_graph(k, "/nodir/x.html"),
        "/nodir/x.html: there is no folder /nodir",
    ),
    "a link": (
        lambda m, k: gh.plot_graph("https://example.com/net.onnx"),
        ("https://example.com/net.onnx: a link, not a file\n"
        "  download it first: curl -LO https://example.com/net.onnx"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PYTHON)
def test_python(mistake, model, module, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    make, message = PYTHON[mistake]
    assert told(lambda: make(model, module)) == message


def test_a_wrong_shape_at_compile_time_names_the_users_line(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    # A worker that leaves this file and comes back has another folder.
    monkeypatch.delitem(sys.modules, "m", raising=False)
    import m as users

    assert told(lambda: gh.compile(users.Net(), torch.ones(2, 5))) == (
        "Net cannot be captured: the model itself fails on these inputs (RuntimeError: a and b "
        "must have same reduction dim, but got [2, 5] X [4, 4].)\n"
        f"  at {folder}/m.py:11 in forward\n"
        "  call it once in PyTorch with the same inputs"
    )


def test_options_of_passes():
    for options, message in (
        (
            {"fuse_operatr": {}},
            "options for unknown passes: fuse_operatr\n  did you mean 'fuse_operator'? known: ",
        ),
        (
            {"fuse_operator": {"max_input": 2}},
            (
                "pass fuse_operator has no option 'max_input'\n  did you mean 'max_inputs'? its "
                "options: "
            ),
        ),
    ):
        with gh.PassContext(options=options):
            assert told(lambda: gh.optimize(gh.trace(gh.relu, np.ones(3, np.float32)))).startswith(
                message
            )


def test_an_input_that_requires_a_gradient(module):
    with pytest.warns(LostGradient) as said:
        module(torch.ones(2, 4, requires_grad=True))
    assert str(said[0].message) == (
        "input requires a gradient, and the results of a compiled module carry none: call it "
        'under torch.no_grad(); torch.compile(model, backend="glasshouse") keeps gradients'
    )


def test_threads_that_are_no_number(monkeypatch):
    from glasshouse.backend.cpu.threads import default_threads

    monkeypatch.setenv("GLASSHOUSE_THREADS", "abc")
    assert told(default_threads) == (
        "GLASSHOUSE_THREADS is 'abc', and must be a number of threads\n"
        "  GLASSHOUSE_THREADS=4; 0, or none, for all processors"
    )


def test_ranks_share_the_processors(monkeypatch):
    from glasshouse.backend.cpu import threads

    monkeypatch.delenv("GLASSHOUSE_THREADS", raising=False)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert threads.default_threads() == 2


def test_a_compiler_that_does_not_work(tmp_path):
    from glasshouse.backend.cpu.cache import compile_into

    (tmp_path / "k.cpp").write_text("int x;\n")
    message = told(
        lambda: compile_into(
            tmp_path / "k.o", ["false", "-c", str(tmp_path / "k.cpp")], "k0_matmul"
        )
    )
    assert message == (
        "the C++ compiler false does not work: it fails on an empty file, too\n"
        "  set CXX to one that works: CXX=g++"
    )


def test_an_exported_program_without_torch(monkeypatch):
    import glasshouse.frontend as frontend

    monkeypatch.setattr(frontend, "find_spec", lambda name: None)
    assert told(lambda: frontend.trace("net.pt2")) == (
        "'net.pt2': compiling an exported program needs PyTorch\n"
        "  pip install 'glasshouse[torch]'; glasshouse view opens it without"
    )


# ------------------------------------------------------------------------------------ command line
COMMANDS = {
    "a command that is not there": (
        ["vieww", "net.glass"],
        ("glasshouse: error: argument COMMAND: there is no 'vieww' (did you mean 'view'?): demo, "
        "view, html, convert, compile, tune, bench, explain, check, bisect, ablate, diff, "
        "cache"),
    ),
    "a theme that is not there": (
        ["html", "net.glass", "--theme", "drak"],
        ("glasshouse html: error: argument --theme: there is no 'drak' (did you mean 'dark'?): "
        "light, dark"),
    ),
    "a grouping that is not there": (
        ["html", "net.glass", "--group-by", "modul"],
        ("glasshouse html: there is no grouping 'modul'\n"
        "  did you mean 'module'? there are: module, torch op"),
    ),
    "a file that is not there": (
        ["view", "nofile.onnx", "--no-browser"],
        "glasshouse view: nofile.onnx: cannot be read (No such file or directory)",
    ),
    "a device": (
        ["view", "/dev/null", "--no-browser"],
        "glasshouse view: /dev/null: a pipe or a device, not a file\n  save it as a file first",
    ),
    "an empty file": (
        ["explain", "empty.onnx"],
        "glasshouse explain: empty.onnx: the file is empty",
    ),
    "a port past the last": (
        ["view", "net.glass", "--no-browser", "--port", "80000"],
        ("glasshouse view: cannot listen on 127.0.0.1:80000 (a port is a number from 0 to 65535)\n"
        "  try another --port, or 0"),
    ),
    "a link": (
        ["view", "hf://google/bert/model.onnx", "--no-browser"],
        ("glasshouse view: hf://google/bert/model.onnx: a link, not a file\n"
        "  download it first: hf download google/bert"),
    ),
    "a link to compile": (
        ["compile", "http://x.org/a.onnx", "-o", "out"],
        ("glasshouse compile: http://x.org/a.onnx: a link, not a file\n"
        "  download it first: curl -LO http://x.org/a.onnx"),
    ),
    "output to a folder that is not there": (
        ["html", "net.glass", "-o", "/nodir/x.html"],
        "glasshouse html: /nodir/x.html: there is no folder /nodir",
    ),
    "output to the terminal": (
        ["html", "net.glass", "-o", "-"],
        ("glasshouse html: - is no file: what is written here is not for a terminal\n"
        "  name a file: -o NAME"),
    ),
    "an extension that is not known": (
        ["convert", "net.glass", "x.glas"],
        ("glasshouse convert: x.glas: no format is written with this extension\n"
        "  did you mean '.glass'? known: "),
    ),
    "a format that is not known": (
        ["convert", "net.glass", "x", "--to", "jitor"],
        "glasshouse convert: no format is called 'jitor'\n  did you mean 'jittor'? known: ",
    ),
    "a function that is not there": (
        ["compile", "m.py:nett", "-o", "out"],
        ("glasshouse compile: m.py has no function 'nett'\n  did you mean 'net'? it has: net, "
        "a_class, wrong_shape, three, text, fails"),
    ),
    "a function that fails": (
        ["compile", "m.py:fails", "-o", "out"],
        ("glasshouse compile: fails() failed: NameError: name 'undefined_name' is not defined\n"
        "  at PATH/m.py:29"),
    ),
    "a function of another kind": (
        ["compile", "m.py:three", "-o", "out"],
        ("glasshouse compile: three() must return a model and its inputs, it returned tuple of 3\n"
        "  at m.py\n  end it with: return model, (x,); of a training step: return model, (x, y), "
        "loss, optimizer"),
    ),
    "a file without a function": (
        ["compile", "m.py", "-o", "out"],
        ("glasshouse compile: m.py: Python code; which of its functions returns the model?\n"
        "  give m.py:net, which returns a model and its inputs; without arguments it has: net, "
        "a_class, wrong_shape, three, text, fails"),
    ),
    "a file to look at without a function": (
        ["explain", "m.py"],
        ("glasshouse explain: m.py: Python code; which of its functions returns the model?\n"
        "  give m.py:net, which returns a model and its inputs; without arguments it has: net, "
        "a_class, wrong_shape, three, text, fails"),
    ),
    "text for inputs": (
        ["compile", "m.py:text", "-o", "out"],
        ("glasshouse compile: text() must return a model and its inputs, its inputs are 'hello'\n"
        "  at m.py\n  inputs are tensors or arrays: return model, (x,)"),
    ),
    "a file for a folder": (
        ["compile", "m.py:net", "-o", "text.txt"],
        ("glasshouse compile: text.txt: a file, and a folder is written\n"
        "  name another: -o DIR"),
    ),
    "a class from a function": (
        ["compile", "m.py:a_class", "-o", "out"],
        "glasshouse compile: Net is a class, not a model\n  give an instance: Net(...)",
    ),
    "two files that are not there": (
        ["diff", "net.glass", "nofile.glass"],
        "glasshouse diff: nofile.glass: cannot be read (No such file or directory)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", COMMANDS)
def test_command_line(mistake, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    arguments, message = COMMANDS[mistake]
    try:
        code = cli.main(arguments)
    except SystemExit as error:  # argparse's way
        code = error.code
    said = capsys.readouterr().err.replace(str(folder), "PATH").strip()
    assert code == 2
    assert message.strip() in said
    assert "Traceback" not in said


def test_a_saved_folder_is_shown_as_its_recording(tmp_path, folder, capsys):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "module.json").write_text("{}")
    (tmp_path / "saved" / "recording.glass").write_bytes((folder / "net.glass").read_bytes())
    assert cli.main(["explain", str(tmp_path / "saved")]) == 0
    assert "Linear" in capsys.readouterr().out


def test_a_conversion_that_loses_the_weights_is_no_success(folder, tmp_path, capsys):
    pytest.importorskip("onnx")
    out = str(tmp_path / "net.onnx")
    assert cli.main(["convert", str(folder / "net.glass"), out]) == 1
    assert "cannot hold: values of weights" in capsys.readouterr().err
    assert cli.main(["convert", str(folder / "net.glass"), out, "--no-weights"]) == 0


# ----------------------------------------------------------------------------------------- weights
def trained(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)


def test_weights_that_changed_are_told_once_and_taken_over():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    x = torch.ones(2, 4)
    module = gh.compile(model, x)
    module(x)
    trained(model)
    with pytest.warns(StaleWeights) as said:
        module(x)
    assert str(said[0].message) == (
        "2 weights of the model have changed since it was compiled (0.weight, 0.bias ...), and "
        "this module computes with old ones: call module.update_weights(model), or compile with "
        "follow_weights=True"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(x)  # once
    module.update_weights(model)
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x))


def test_weights_are_followed():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    x = torch.ones(2, 4)
    module = gh.compile(model, x, follow_weights=True)
    for _ in range(2):
        trained(model)
        with torch.no_grad():
            torch.testing.assert_close(module(x), model(x))


def test_weights_that_were_folded_are_named():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    module = gh.compile(model, torch.ones(1, 3, 8, 8), tune=False)
    assert told(lambda: module.update_weights(model)) == (
        "0.bias, 0.weight, 1.bias, 1.running_mean and 2 more: folded into other constants when "
        "the model was compiled\n  compile it again: glasshouse.compile(model, *inputs); kernels "
        "that were built are not built again"
    )


def test_there_are_as_many_mistakes_as_were_tried():
    assert len(PYTHON) + len(COMMANDS) >= 46


STRANGE = {
    "not python.py": (
        "def net(:\n",
        (
            "not python.py cannot be imported: SyntaxError: invalid syntax "
            "(not python.py, line 1)\n  at PATH/not python.py:1"
        ),
    ),
    "ends.py": (
        "import sys\nsys.exit(3)\n",
        "ends.py cannot be imported: SystemExit: 3\n  at PATH/ends.py:2",
    ),
    "wants.py": (
        "def net(a, b): ...\n",
        (
            "net() cannot be called without arguments: missing a required argument: 'a'\n"
            "  at wants.py\n"
            "  the function takes none, and returns a model and its inputs: return model, (x,)"
        ),
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_file_with_a_function_that_cannot_be_used(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, wanted = STRANGE[name]
    (tmp_path / name).write_text(text)
    assert cli.main(["explain", f"{name}:net"]) == 2
    said = capsys.readouterr().err.replace(str(tmp_path), "PATH")
    assert said == f"glasshouse explain: {wanted}\n"


@pytest.mark.parametrize("count", ["-1", "0", "many", "1.5"])
def test_a_count_that_is_none(count, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["explain", "net.onnx", "--runs", count])
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(f"argument --runs: a whole number from 1 on is wanted, got '{count}'")


# What a shell can do to a command: (how it is run, its exit code, what it says on standard error)
SHELLS = {
    "a full disk": ("> /dev/full", 2, "glasshouse explain: No space left on device\n"),
    "no standard output": (">&-", 0, ""),
    "no standard input": ("<&- > /dev/null", 0, ""),
    "a reader that has gone": ("| true; exit ${PIPESTATUS[0]}", 0, ""),
    "letters that a terminal has not": (
        "> /dev/null", 0, "", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "no home": ("> /dev/null", 0, "", {"HOME": ""}),
}  # fmt: skip


@pytest.mark.parametrize("how", SHELLS)
def test_a_shell_that_is_not_as_usual(how, folder, tmp_path):
    rest, code, said, *more = SHELLS[how]
    named = tmp_path / 'it\'s a "path" with ü'
    named.mkdir()
    shutil.copy(folder / "net.glass", named / "net.glass")
    command = f"{shlex.quote(sys.executable)} -m glasshouse explain net.glass {rest}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=named, env={**os.environ, **(more[0] if more else {})},
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "bool"])
def test_an_element_type_that_the_model_refuses_too(dtype, model, module):
    x = torch.ones(2, 4).to(getattr(torch, dtype))
    with pytest.raises(RuntimeError):  # PyTorch promotes no operand of a product
        model(x)
    assert told(lambda: module(x)) == (
        f"input must be float32[2, 4], got {dtype}[2, 4]\n  give its to(torch.float32)"
    )


def test_element_types_mixed_inside_a_model_are_promoted_as_in_pytorch():
    def mixed(x, i, h):
        return x + i, i / 2, h * i, h + x, torch.where(i > 1, h, x), i + True

    given = torch.rand(3), torch.arange(3), torch.rand(3).half()
    wanted, made = mixed(*given), gh.compile(mixed, *given, target="interp")(*given)
    assert [t.dtype for t in made] == [t.dtype for t in wanted]
    for a, b in zip(made, wanted, strict=True):
        torch.testing.assert_close(a, b)
