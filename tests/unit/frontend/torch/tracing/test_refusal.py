"""What is said when PyTorch cannot capture a model, and what is tried before."""

import inspect

import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import same_as_torch
from glasshouse.errors import CaptureError
from glasshouse.frontend.torch import opaque_ops
from glasshouse.frontend.torch.tracing.capture import LooseCapture


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_branch_on_data_is_captured_as_it_went_and_a_warning_says_so():
    with pytest.warns(LooseCapture, match=f"{__file__}:{line_of(Branch.forward, 'x.sum')}"):
        captured = same_as_torch(Branch(), torch.ones(3), others=[(torch.ones(3) * 4,)])
    assert [n.op.name for n in captured.graph.nodes] == ["input", "constant", "multiply"]


def test_inputs_that_do_not_fit_name_the_users_line():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x):
            return self.linear(x)

    with pytest.raises(CaptureError) as caught:
        gh.trace(Model(), torch.randn(2, 5))
    assert f"{__file__}:{line_of(Model.forward, 'self.linear(x)')}" in str(caught.value)
    assert "[2, 5]" in str(caught.value)


def test_missing_arguments_are_named():
    with pytest.raises(CaptureError, match="arguments do not fit"):
        gh.trace(Branch())


def test_a_size_that_is_not_free():
    class Halves(nn.Module):
        def forward(self, x):
            return x.reshape(2, -1) + x.reshape(2, -1)[:, :1]

    shapes = ({0: torch.export.Dim("batch")},)
    with pytest.raises(CaptureError, match="dynamic is not free"):
        gh.trace(Halves(), torch.randn(4, 3), dynamic_shapes=shapes)


def test_other_objects_and_files_are_refused(tmp_path):
    with pytest.raises(CaptureError, match=r"\.onnx and \.pt2"):
        gh.trace(str(tmp_path / "model.bin"))
    (tmp_path / "broken.pt2").write_bytes(b"no archive")
    with pytest.raises(CaptureError, match=r"cannot be read"):
        gh.trace(tmp_path / "broken.pt2")


def test_writes_and_layers_of_a_model_that_was_captured_by_running_it():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 6, 2, batch_first=True)
            self.conv = nn.Conv1d(6, 3, 3, padding=1, padding_mode="circular")

        def forward(self, x):
            if x.sum() > 0:  # what torch.export refuses
                x = x * 2
            half = torch.div(torch.tensor(x.shape[1]), 2, rounding_mode="trunc").item()
            y, _ = self.lstm(x)
            return self.conv(y.transpose(1, 2))[..., :half]

    with pytest.warns(LooseCapture):
        captured = same_as_torch(Net(), torch.rand(2, 6, 4))
    assert not opaque_ops(captured.graph)


def test_a_model_on_another_device_than_its_input_is_named():
    with pytest.raises(CaptureError, match=r"on different devices[\s\S]*model\.to\(x\.device\)"):
        gh.trace(nn.Linear(3, 2).to("meta"), torch.randn(4, 3))
