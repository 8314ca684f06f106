"""Every node knows the line and the module that it comes from."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import GlasshouseError
from glasshouse.nn import module


def here() -> int:
    """The line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def innermost(tensor: gh.Tensor) -> tuple[str, int, str]:
    frame = tensor.value.node.origin.source.frames[-1]
    return frame.file, frame.line, frame.function


def test_a_node_has_the_users_line() -> None:
    x = gh.array([1.0])
    y, line = x + 1, here()
    assert innermost(y) == (__file__, line, "test_a_node_has_the_users_line")


def test_frames_are_the_users_outermost_first() -> None:
    def inner(x: gh.Tensor) -> gh.Tensor:
        return x.softmax(-1)

    def outer(x: gh.Tensor) -> gh.Tensor:
        return inner(x)

    frames = outer(gh.array([1.0])).value.node.origin.source.frames
    assert [f.function for f in frames][-3:] == [
        "test_frames_are_the_users_outermost_first",
        "outer",
        "inner",
    ]
    assert not any("glasshouse/" in f.file and "/tests/" not in f.file for f in frames)
    # What launched the tests is not the user's code.
    assert frames[0].file == __file__


def test_a_launcher_of_another_environment_is_no_user() -> None:
    """Packages may be installed where this interpreter's own are not."""
    launcher: dict[str, Any] = {}
    file = "/opt/other/lib/python3/site-packages/launcher.py"
    exec(compile("def launch(run):\n    return run()", file, "exec"), launcher)
    tensor = launcher["launch"](lambda: gh.array([1.0]) + 1)
    files = [f.file for f in tensor.value.node.origin.source.frames]
    assert files[0] == __file__
    assert file in files  # below the user's first line, it is part of the stack


def test_all_nodes_of_a_decomposed_function_have_its_line() -> None:
    x = gh.array([[1.0, 2.0]])
    graph, line = gh.trace(lambda a: nn.functional.cross_entropy(a, gh.array([1])), x), here()
    assert len(graph) > 5
    for node in graph.nodes:
        assert node.origin.source.frames[-1].line == line


class Inner(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Parameter(gh.ones(1))

    def forward(self, x: gh.Tensor) -> gh.Tensor:
        return x * self.scale  # inner line


class Outer(nn.Module):
    def __init__(self) -> None:
        self.one = Inner()
        self.many = nn.ModuleList([Inner(), Inner()])
        self.steps = nn.Sequential(Inner(), nn.ReLU())

    def forward(self, x: gh.Tensor) -> gh.Tensor:
        x = self.one(x)  # call one
        for inner in self.many:
            x = inner(x)  # call many
        x = self.steps(x)  # call steps
        return self.many[0](x) + 1


def line_of(text: str) -> int:
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


def scopes(node) -> list[tuple[str, str, int]]:
    return [(s.name, s.cls, s.line) for s in node.origin.source.scopes]


def test_module_paths_have_names_classes_and_lines_of_the_call() -> None:
    model = Outer()
    graph, line = gh.trace(model, gh.spec((2,))), here()
    nodes = [n for n in graph.nodes if n.inputs]
    root = ("", "Outer", line)
    assert scopes(nodes[0]) == [root, ("one", "Inner", line_of("# call one"))]
    many = line_of("# call many")
    assert scopes(nodes[1]) == [root, ("many", "ModuleList", many), ("0", "Inner", many)]
    assert scopes(nodes[2])[1:] == [("many", "ModuleList", many), ("1", "Inner", many)]
    steps = line_of("# call steps")
    assert scopes(nodes[3])[1:] == [("steps", "Sequential", steps), ("0", "Inner", steps)]
    assert scopes(nodes[4])[1:] == [("steps", "Sequential", steps), ("1", "ReLU", steps)]
    assert nodes[5].origin.source.path == "many.0"
    assert scopes(nodes[6]) == [root]
    assert [n.origin.source.path for n in nodes[:3]] == ["one", "many.0", "many.1"]
    assert nodes[0].origin.source.frames[-1].line == line_of("# inner line")
    assert all(s.file == __file__ for n in nodes for s in n.origin.source.scopes)


def test_frames_of_nested_modules_are_not_repeated() -> None:
    graph = gh.trace(Outer(), gh.spec((2,)))
    functions = [f.function for f in graph.nodes[2].origin.source.frames]
    assert functions == ["test_frames_of_nested_modules_are_not_repeated", "forward", "forward"]


def test_outside_of_trace_the_root_has_the_users_name_for_it() -> None:
    network = Outer()
    y = network(gh.array([1.0, 2.0]))
    assert y.value.node.origin.source.path == "network"
    y = Outer()(gh.array([1.0, 2.0]))
    assert y.value.node.origin.source.path == "Outer"


def test_a_module_is_named_once_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is looked for among all of the user's variables."""
    asked: list[str] = []
    find = module.caller_name

    def seen(thing: object, frame: Any, default: str) -> str:
        asked.append(find(thing, frame, default))
        return asked[-1]

    monkeypatch.setattr(module, "caller_name", seen)
    x, one, two = gh.array([[1.0, 2.0]]), nn.Linear(2, 2), nn.Linear(2, 2)
    paths = []
    for _ in range(3):
        paths += [net(x).value.node.origin.source.path for net in (one, two)]
    paths.append(one(x).value.node.origin.source.path)
    assert asked == ["net", "net", "one"]
    assert paths == [*["net"] * 6, "one"]


def test_a_module_that_moves_is_found_again() -> None:
    model = Outer()
    model(gh.ones(2))
    model.many = nn.ModuleList([nn.Identity(), model.many[0]])
    graph = gh.trace(model, gh.spec((2,)))
    assert {n.origin.source.path for n in graph.nodes if n.inputs} >= {"many.1"}


def test_weights_belong_to_the_module_that_reads_them() -> None:
    graph = gh.trace(Outer(), gh.spec((2,)))
    constant = next(n for n in graph.nodes if n.attrs.get("name") == "many.1.scale")
    assert constant.origin.source.path == "many.1"
    assert constant.origin.name == "many.1.scale"


def test_initialisation_has_its_own_place() -> None:
    model, line = Outer(), here()
    origin = model.one.scale.value.node.origin
    assert [(s.name, s.cls) for s in origin.source.scopes] == [
        ("Outer_init", "Outer"),
        ("Inner_init", "Inner"),
    ]
    assert origin.source.scopes[0].line == line


def test_an_error_names_the_users_line_and_module() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(3, 4)

        def forward(self, x: gh.Tensor) -> gh.Tensor:
            return self.layer(x)  # wrong shape

    model = Wrong()
    with pytest.raises(GlasshouseError) as caught:
        model(gh.ones(2, 5))
    assert f"{__file__}:{line_of('# wrong shape')} in model.layer" in str(caught.value)
    assert "float32[2, 5]" in str(caught.value)


def test_an_error_while_running_names_the_users_line() -> None:
    table = gh.ones(3, 2)
    y, line = table[gh.array([7])], here()
    with pytest.raises(GlasshouseError) as caught:
        y.numpy()
    assert f"{__file__}:{line}" in str(caught.value)


def test_the_place_is_left_when_a_module_raises() -> None:
    class Raises(nn.Module):
        def forward(self, x: gh.Tensor) -> gh.Tensor:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Raises()(gh.ones(1))
    assert (gh.array([1.0]) + 1).value.node.origin.source.scopes == ()


def test_origins_are_shared_between_calls() -> None:
    model = Outer()
    first, second = (model(gh.array(np.ones(2, np.float32))).value.node.origin for _ in range(2))
    assert first is second
