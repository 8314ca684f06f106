"""Nothing is alarmed on models without a fault."""

from __future__ import annotations

import inspect

import pytest

from faults import models
from faults.test_faults import MODELS
from glasshouse import cli

CLEAN = [
    n
    for n, f in vars(models).items()
    if inspect.isfunction(f) and not inspect.signature(f).parameters
]


@pytest.mark.parametrize("name", CLEAN)
def test_no_alarm(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", f"{MODELS}:{name}", "--target", "interp"]) == 0
    told = capsys.readouterr().out
    assert "right: no pass and no kernel is further from the model than rounding" in told


def test_there_are_enough() -> None:
    assert len(CLEAN) >= 20
