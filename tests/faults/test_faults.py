"""Every planted fault is found by its command, and called by its name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from faults import edges, native, planted, speed  # noqa: F401  # fill FAULTS
from faults.fault import FAULTS, Fault
from glasshouse import cli

MODELS = Path(__file__).with_name("models.py")
EACH = [pytest.param(f, id=f.name, marks=[pytest.mark.slow] if f.slow else []) for f in FAULTS]


@pytest.mark.parametrize("fault", EACH)
def test_found(
    fault: Fault,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = f"{MODELS}:{fault.model}"
    monkeypatch.chdir(tmp_path)
    target = "cpu" if fault.slow else "interp"
    record = ["explain", model, "--target", target, "--runs", "100" if fault.slow else "1", "-o"]
    compares = "before.glass" in fault.command
    if compares:
        cli.main([*record, "before.glass"])
    fault.plant(monkeypatch)
    if compares:
        cli.main([*record, "after.glass"])
    capsys.readouterr()
    code = cli.main([part.replace("{}", model) for part in fault.command])
    said = capsys.readouterr().out
    assert code == (0 if fault.command[0] == "explain" else 1), said
    for text in fault.says:
        assert text in said, said


def test_there_are_enough() -> None:
    areas = Counter(f.area for f in FAULTS)
    assert len({f.name for f in FAULTS}) == len(FAULTS) >= 40
    assert areas["native"] >= 12
    assert areas["speed"] >= 6
