"""Weights in other files: read in place, and from nowhere but the model's own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import glasshouse as gh
from glasshouse.errors import FormatError
from glasshouse.numpy_ref import run
from unit.frontend.onnx.onnx_models import F, info, model, node, save, values, weight


def external(folder: Path, location: str, offset: int = 0, length: int | None = None) -> str:
    proto = model(
        [node("MatMul", ["x", "w"], ["y"])], [info("x", F, [1, 4])], [info("y", F, [1, 4])],
        [weight("w", np.zeros((4, 4), np.float32))],
    )  # fmt: skip
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    places: dict[str, Any] = {"location": location, "offset": offset}
    if length is not None:
        places["length"] = length
    for key, value in places.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return save(proto, folder / "model.onnx")


def test_data_beside_the_model_is_mapped(tmp_path: Path) -> None:
    w = values(4, 4)
    (tmp_path / "weights.bin").write_bytes(b"12345678" + w.tobytes())
    graph = gh.trace(external(tmp_path, "weights.bin", 8, 64))
    held = next(n.attrs["data"] for n in graph if n.op.name == "constant")
    assert isinstance(held.base, np.memmap) or isinstance(held, np.memmap)
    x = values(1, 4, seed=1)
    np.testing.assert_allclose(run(graph, [x])[0], x @ w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("location", ["../secret.bin", "a/../../secret.bin", "/etc/hostname", ""])
def test_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    with pytest.raises(FormatError, match="lies outside the model's folder"):
        gh.trace(external(folder, location))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (folder / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(FormatError, match="lies outside the model's folder"):
        gh.trace(external(folder, "weights.bin"))


def test_missing_and_short_data_is_said(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is missing"):
        gh.trace(external(tmp_path, "weights.bin"))
    (tmp_path / "weights.bin").write_bytes(bytes(60))
    with pytest.raises(FormatError, match="needs 64 bytes from 0"):
        gh.trace(external(tmp_path, "weights.bin"))
    with pytest.raises(FormatError, match="needs 64 bytes"):
        gh.trace(external(tmp_path, "weights.bin", -8))


def test_a_model_in_memory_has_no_folder(tmp_path: Path) -> None:
    proto = onnx.load(external(tmp_path, "weights.bin"), load_external_data=False)
    with pytest.raises(FormatError, match="the model has no folder"):
        gh.trace(proto)
