"""Requests are joined where they fit together, and each gets the answer that it would get alone."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import ExecutionError, FormatError, Unsupported
from glasshouse.ir.dim import Symbol
from glasshouse.serve.batching import BatchedModel, batch_symbol
from glasshouse.serve.data import BatchRunner
from glasshouse.serve.deploy import app, deployment
from glasshouse.serve.wire import answer_json, model_json, request_arrays


class Calls(BatchedModel):
    """Counts the rows of each call, and can be told to fail at a number."""

    def __init__(self, module):
        super().__init__(module)
        self.rows_of_calls, self.fails_at = [], None

    def _run(self, requests):
        self.rows_of_calls.append(sum(map(self.rows, requests)))
        if any((r[0] == self.fails_at).any() for r in requests):
            raise ExecutionError("that number")
        return super()._run(requests)


@pytest.fixture(scope="module")
def module():
    gh.manual_seed(0)
    batch = gh.symbol("batch", 1, 8)
    return gh.compile(nn.Linear(4, 3), gh.spec((batch, 4)))


@pytest.fixture
def model(module):
    return Calls(module)


def rows(count, first=0.0):
    return np.arange(count * 4, dtype=np.float32).reshape(count, 4) + np.float32(first)


def test_requests_are_answered_together_up_to_the_greatest_batch(model, module):
    requests = [model.checked([rows(n, 10 * n)], {}) for n in (1, 3, 2, 5, 1)]
    answers = model.answers(requests)
    assert model.rows_of_calls == [6, 6]  # of at most 8
    for (x,), (y,) in zip(requests, answers, strict=True):
        np.testing.assert_allclose(y, module(x), rtol=1e-6)


def test_what_fails_is_told_to_who_asked_it_alone(model, module):
    model.fails_at = 20
    good, bad = model.checked([rows(1)], {}), model.checked([rows(1, 20)], {})
    first, failed, last = model.answers([good, bad, good])
    assert isinstance(failed, ExecutionError)
    for answer in (first, last):
        np.testing.assert_allclose(answer[0], module(good[0]), rtol=1e-6)


@pytest.mark.parametrize(
    "given",
    [np.ones((1, 5), np.float32), np.ones((9, 4), np.float32), np.ones((0, 4), np.float32),
     np.ones((1, 4), "U1"), None],
)  # fmt: skip
def test_a_wrong_request_does_not_come_into_a_batch(model, given):
    with pytest.raises(ExecutionError):
        model.checked([given], {})


def test_only_rows_of_inputs_and_outputs_are_batched():
    n, batch = gh.symbol("n"), gh.symbol("batch")
    spec = gh.spec

    def symbol(function, *specs):
        return batch_symbol(gh.trace(function, *specs))

    assert symbol(lambda x: x + 1, spec((batch, 4))) == Symbol("batch")
    assert symbol(lambda x, y: (x + y, x), spec((batch, n)), spec((batch, n))) == Symbol("batch")
    assert symbol(lambda x: x + 1, spec((2, 4))) is None
    assert symbol(lambda x: x.sum(0), spec((batch, 4))) is None
    assert symbol(lambda x: x @ x.T, spec((batch, 4))) is None
    assert symbol(lambda x, y: x + y, spec((batch, 4)), spec((1, 4))) is None


def test_sizes_other_than_rows_keep_requests_apart():
    batch, n = gh.symbol("batch"), gh.symbol("n")
    model = Calls(gh.compile(lambda x: x * 2, gh.spec((batch, n))))
    requests = [model.checked([np.ones((1, size), np.float32)], {}) for size in (3, 5, 3)]
    answers = model.answers(requests)
    assert model.rows_of_calls == [2, 1]
    assert [y.shape for (y,) in answers] == [(1, 3), (1, 5), (1, 3)]
    assert [a.shape for a in model.smallest()] == [(1, 1)]


def test_what_is_no_number_of_json_is_a_string(model):
    """Readers that are strict refuse NaN and Infinity as Python writes them."""
    tensor = {**TENSOR, "shape": [1, 4], "data": ["NaN", 1.5, "-Infinity", "Infinity"]}
    _, given = request_arrays(json.dumps({"inputs": [tensor]}).encode())
    (x,) = given.values()
    np.testing.assert_array_equal(x, [[np.nan, 1.5, -np.inf, np.inf]])

    def refuse(word):
        raise AssertionError(word)

    answer = json.loads(answer_json(model, "mlp", None, [x]), parse_constant=refuse)
    assert answer["outputs"][0]["data"] == ["NaN", 1.5, "-Infinity", "Infinity"]


def test_json_of_the_protocol(model, module):
    x = rows(2)
    (name,) = module.input_names
    about = json.loads(model_json(model, "mlp"))
    assert about["inputs"] == [{"name": name, "datatype": "FP32", "shape": [-1, 4]}]
    tensor = {"name": name, "shape": [2, 4], "datatype": "FP32", "data": x.tolist()}
    id, given = request_arrays(json.dumps({"id": "7", "inputs": [tensor]}).encode())
    assert id == "7"
    np.testing.assert_array_equal(given[name], x)
    answer = json.loads(answer_json(model, "mlp", id, module.run_flat([x])))
    (out,) = answer["outputs"]
    assert (answer["id"], out["shape"], out["datatype"]) == ("7", [2, 3], "FP32")
    np.testing.assert_allclose(np.reshape(out["data"], (2, 3)), module(x), rtol=1e-6)


TENSOR = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
WRONG = [
    b"", b"\xff", b"[]", b'{"inputs": 3}', b"[" * 100_000,
    *(
        json.dumps({"inputs": [{**TENSOR, **change}]}).encode()
        for change in (
            {"shape": [3]}, {"shape": [-1, -2]}, {"shape": "ab"}, {"datatype": "FP31"},
            {"data": ["a", "b"]}, {"data": [[1], [2, 3]]}, {"shape": [2**62, 2**62]},
            {"datatype": "INT8", "data": [1, 300]}, {"data": None},
        )
    ),
    json.dumps({"inputs": [TENSOR, TENSOR]}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG)
def test_what_is_no_request_is_told(body):
    with pytest.raises(FormatError):
        request_arrays(body)


def test_batches_of_a_dataset_get_columns(module, tmp_path):
    module.save(tmp_path / "saved")
    x = rows(5)
    out = "output_0"
    only = BatchRunner(str(tmp_path / "saved"), {}, 1)({"features": x})
    np.testing.assert_allclose(only[out], module(x), rtol=1e-6)
    np.testing.assert_array_equal(only["features"], x)
    ragged = np.array([*map(np.asarray, x), None], dtype=object)[:5]
    named = BatchRunner(str(tmp_path / "saved"), {module.input_names[0]: "f"}, 1)
    np.testing.assert_allclose(named({"f": ragged, "g": x})[out], only[out])
    with pytest.raises(ExecutionError, match="did you mean 'ff'"):
        named({"ff": x})


def test_what_is_no_saved_model_is_told_before_ray_is_started(module, tmp_path):
    pytest.importorskip("ray.serve")
    with pytest.raises(FormatError, match="no saved model there"):
        deployment(tmp_path)
    module.save(tmp_path / "saved")
    deployment(tmp_path / "saved")
    with pytest.raises(Unsupported, match="batches of 0 requests"):
        deployment(tmp_path / "saved", max_batch_size=0)
    library = tmp_path / "saved/libmodel.so"
    os.truncate(library, library.stat().st_size - 100)
    with pytest.raises(FormatError, match="not the weights that were saved: another size"):
        deployment(tmp_path / "saved")
    os.truncate(library, 100)
    with pytest.raises(FormatError, match="not the library that was saved"):
        deployment(tmp_path / "saved")
    with pytest.raises(Unsupported, match="batches of 0 requests"):
        deployment(tmp_path / "saved", max_batch_size=0)
    library.unlink()
    with pytest.raises(FormatError, match="cannot be read"):
        deployment(tmp_path / "saved")
    with pytest.raises(Unsupported, match="which model"):
        app({})


def test_a_model_that_learns_is_not_served():
    module = SimpleNamespace(graph=SimpleNamespace(updates={"weight": "new weight"}))
    with pytest.raises(Unsupported, match="updates its variables"):
        BatchedModel(module)
