"""`glasshouse diff --json`, the table that is commented from it, and traces of runs."""

import importlib.util
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import glasshouse as gh
from glasshouse import cli, formats
from glasshouse.show.subject import recording_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    x = np.ones((4, 8), np.float32)
    for name, function in (("a", gh.relu), ("b", lambda x: gh.softmax(gh.relu(x)))):
        module = gh.compile(function, x)
        formats.write(module.recording(x, count=1), folder / f"{name}.glass")
    formats.write(recording_of(gh.trace(gh.relu, x)), folder / "plain.glass")
    return folder


def diff(capsys, *arguments):
    code = cli.main(["diff", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_it_follows_its_schema(files, capsys):
    schema = json.loads((ROOT / "docs/diff.schema.json").read_text())
    code, made = diff(capsys, files / "a.glass", files / "b.glass")
    jsonschema.validate(made, schema)
    assert code == 0
    assert made["past_limits"] == []
    assert made["slower"] > 0
    assert made["nodes"]["added"] or made["nodes"]["changed"]


def test_what_was_not_measured_is_null_and_no_limit_holds(files, capsys):
    plain = files / "plain.glass"
    code, made = diff(capsys, plain, plain, "--max-slower", "1.5")
    assert code == 1
    assert made["slower"] is None
    assert made["past_limits"] == ["not measured in both files, so it cannot be checked"]


def test_the_table_of_a_comparison(files, capsys):
    path = ROOT / ".github/actions/compare/table.py"
    spec = importlib.util.spec_from_file_location("compare_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _, made = diff(capsys, files / "a.glass", files / "b.glass", "--max-nodes", "0")
    lines = module.table(made).splitlines()
    assert lines[2] == "| | base | pull request | ratio |"
    assert all(line.count("|") == 5 for line in lines[2:7])
    assert lines[-1].startswith("- past the limit: ")


def test_a_run_as_a_trace(files, tmp_path, capsys):
    out = tmp_path / "run.trace.json"
    assert cli.main(["convert", str(files / "b.glass"), str(out)]) == 0
    trace = json.loads(out.read_text())
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert slices
    assert names
    end = 0.0
    for slice in slices:
        assert slice["ts"] >= end - 1e-6
        end = slice["ts"] + slice["dur"]
    assert cli.main(["convert", str(files / "plain.glass"), str(out)]) == 0
    assert "cannot hold: anything: nothing was timed in it" in capsys.readouterr().err
