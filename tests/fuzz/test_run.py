"""The driver: what campaigns find, and what becomes of those that crash, hang or raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import run

CAMPAIGN = """\
import os, time
NAME = "probe"
def run(seed, until, report):
    for number in range(3):
        report.case(f"case number {number} of seed {seed}")
    BODY
"""


def campaign(folder: Path, name: str, body: str) -> None:
    (folder / f"{name}.py").write_text(CAMPAIGN.replace("BODY", body))


def drive(folder: Path, *more: str) -> int:
    out = str(folder / "out")
    return run.main(["--folder", str(folder), "--out", out, "--seed", "5", *more])


def test_cases_are_counted_and_nothing_found_is_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign(tmp_path, "good", "pass")
    assert drive(tmp_path, "--minutes", "0.01") == 0
    told = capsys.readouterr().out
    assert "seed 5" in told
    assert "good: 3 cases, 0 findings" in told


def test_findings_are_told_once_with_the_way_to_repeat_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign(tmp_path, "finds", "[report.found('wrong sum', f'{n}', f'sum {n}') for n in (4, 2)]")
    assert drive(tmp_path, "--minutes", "0.01") == 1
    told = capsys.readouterr().out
    assert "[finds] wrong sum (2 times)" in told
    assert "again: sum 4" in told
    assert "again: sum 2" not in told


def test_a_crash_and_an_exception_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign(tmp_path, "crashes", "os.abort()")
    campaign(tmp_path, "raises", "raise ValueError('this one')")
    assert drive(tmp_path, "--minutes", "0.01") == 1
    told = capsys.readouterr().out
    assert "[crashes] the campaign ended with signal SIGABRT" in told
    assert "again: case number 2 of seed 5" in told
    assert "ValueError: this one" in told


def test_a_hang_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign(tmp_path, "hangs", "__import__('threading').Event().wait()")
    assert drive(tmp_path, "--minutes", "0.01", "--grace", "0.5") == 1
    assert "[hangs] the campaign hangs" in capsys.readouterr().out


def test_an_unknown_campaign_is_refused(tmp_path: Path) -> None:
    campaign(tmp_path, "good", "pass")
    with pytest.raises(SystemExit):
        drive(tmp_path, "other")
