"""AITemplate's compiled models: run, constants in one and two buffers, names, sizes that vary."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from glasshouse.compat.aitemplate.compiler import Model, compile_model
from glasshouse.compat.aitemplate.frontend import IntVar, Tensor, nn
from glasshouse.compat.aitemplate.testing import detect_target
from glasshouse.compat.aitemplate.testing.benchmark_pt import benchmark_torch_function
from glasshouse.errors import ExecutionError


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense1 = nn.Linear(8, 16, specialization="relu")
        self.dense2 = nn.Linear(16, 4)

    def forward(self, x):
        return self.dense2(self.dense1(x))


def output_of(rows: object) -> Tensor:
    model = Mlp()
    model.name_parameter_tensor()
    y = model(Tensor(shape=[rows, 8], name="X", dtype="float32", is_input=True))
    y._attrs["is_output"] = True
    y._attrs["name"] = "Y"
    return y


@pytest.fixture(scope="module")
def theirs() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)]
    return torch.nn.Sequential(*layers).requires_grad_(False)


@pytest.fixture(scope="module")
def weights(theirs: torch.nn.Module) -> dict[str, torch.Tensor]:
    parts = {"dense1": theirs[0], "dense2": theirs[2]}
    return {f"{k}_{n}": p for k, m in parts.items() for n, p in m.named_parameters()}


def test_constants_of_compile_time_and_a_saved_model(theirs, weights, tmp_path: Path) -> None:
    x, y = torch.randn(3, 8), torch.empty(3, 4)
    with compile_model(output_of(3), detect_target(), tmp_path, "mlp", constants=weights) as model:
        named = model.run_with_tensors({"X": x}, {"Y": y})
        assert named["Y"] is y
        torch.testing.assert_close(y, theirs(x))
        assert model.get_constant_names() == []
        assert model.get_input_name_to_index_map() == {"X": 0}
        assert model.get_output_name_to_index_map() == {"Y": 0}
        assert model.get_output_dtype("Y") == "float32"
        mean, deviation, outputs = model.benchmark_with_tensors([x], [y], count=3)
        assert mean > 0
        assert deviation >= 0
        assert outputs["Y"] is y
        times = model.profile_with_tensors([x], [y], 2, str(tmp_path / "times.json"))
        assert json.loads((tmp_path / "times.json").read_text()) == times
        with pytest.raises(ExecutionError, match="the inputs are X"):
            model.run_with_tensors({"Z": x}, [y])
    again = Model(tmp_path / "mlp" / "libmodel.so")
    z = torch.empty(3, 4)
    again.run_with_tensors([x], [z])
    assert torch.equal(y, z)


def test_constants_can_be_set_later_and_swapped(theirs, weights, tmp_path: Path) -> None:
    x, y = torch.randn(3, 8), torch.empty(3, 4)
    with compile_model(output_of(3), detect_target(), tmp_path, "mlp") as model:
        assert set(model.get_constant_names()) == set(weights)
        model.set_many_constants(weights)
        assert model.get_constant_names() == []
        assert set(model.get_constant_names(unbound_constants_only=False)) == set(weights)
        model.run_with_tensors([x], [y])
        torch.testing.assert_close(y, theirs(x))
        model.set_double_buffer_constant("dense2_bias", weights["dense2_bias"] + 1)
        model.run_with_tensors([x], [y])
        torch.testing.assert_close(y, theirs(x))
        model.swap_constants()
        model.run_with_tensors([x], [y])
        torch.testing.assert_close(y, theirs(x) + 1)
        with pytest.raises(ExecutionError, match="dense2_bias must be"):
            model.set_constant("dense2_bias", torch.zeros(5))
        with pytest.raises(ExecutionError, match="there is no constant 'dense3'"):
            model.set_constant("dense3", torch.zeros(5))


def test_buffers_for_the_greatest_size(theirs, weights, tmp_path: Path) -> None:
    rows = IntVar([1, 6], name="rows")
    model = compile_model(output_of(rows), detect_target(), tmp_path, "m", constants=weights)
    assert model.get_output_maximum_shape("Y") == [6, 4]
    y = torch.empty(6, 4)
    for size in (1, 5, 6):
        x = torch.randn(size, 8)
        got = model.run_with_tensors([x], [y])["Y"]
        assert tuple(got.shape) == (size, 4)
        assert got.data_ptr() == y.data_ptr()
        torch.testing.assert_close(got, theirs(x))


def test_without_optimising(theirs, weights, tmp_path: Path) -> None:
    x = np.ones((3, 8), np.float32)
    out = np.empty((3, 4), np.float32)
    model = compile_model(
        output_of(3), detect_target(), tmp_path, "m", constants=weights, do_optimize_graph=False
    )
    model.run_with_tensors([x], [out])
    np.testing.assert_allclose(out, theirs(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-5)


def test_times_of_torch_functions() -> None:
    calls: list[int] = []
    assert benchmark_torch_function(3, calls.append, 1) >= 0
    assert len(calls) > 3
