"""A template in the viewer's place, so that tests of pages need no node; and a small recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from glasshouse.record import Recording, RecordingBuilder
from glasshouse.show import page


@pytest.fixture(autouse=True)
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the viewer's build makes, as far as Python cares."""
    built = tmp_path / "viewer.html"
    built.write_text(
        "<html><head><title>Glasshouse</title></head><body><!--glass:data--></body></html>"
    )
    monkeypatch.setattr(page, "TEMPLATE", built)
    return built


def make(title: str = "tiny") -> Recording:
    """Two nodes."""
    made = RecordingBuilder(title)
    graph = made.graph("tiny")
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[2]"])
    graph.node("Relu", name="act", inputs=[x], outputs=["float32[2]"])
    return made.finish()


@pytest.fixture
def recording() -> Callable[..., Recording]:
    return make
