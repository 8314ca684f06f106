"""Every planted fault is found by its command, and called by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.planted import FAULTS, Fault
from glasshouse import cli

MODELS = Path(__file__).with_name("models.py")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_found(
    fault: Fault, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault.plant(monkeypatch)
    call = [part.replace("{}", f"{MODELS}:{fault.model}") for part in fault.command]
    assert cli.main(call) == 1
    said = capsys.readouterr().out
    for text in fault.says:
        assert text in said, said
