"""Options that no run could mean are refused before any work, with what is wanted."""

from __future__ import annotations

import pytest

from glasshouse import cli
from glasshouse.checking.finding import KINDS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("bench", "--seconds", "-1"), "a number above 0 is wanted, got '-1'"),
        (("check", "--tolerance", "-1"), "a number above 0 is wanted, got '-1'"),
        (("check", "--tolerance", "x"), "a number above 0 is wanted, got 'x'"),
        (("bisect", "--tolerance", "nan"), "a number above 0 is wanted, got 'nan'"),
        (("diff", "--max-worse", "inf"), "a number above 0 is wanted, got 'inf'"),
        (("tune", "--jobs", "0"), "a whole number from 1 on is wanted, got '0'"),
        (("check", "--fail-on", "fallbak"), "there is no kind 'fallbak'; did you mean 'fallback'?"),
    ],
    ids=lambda given: given[1] if isinstance(given, tuple) else "",
)
def test_refused(words, told, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([*words, "m.py:f"])
    assert stop.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_every_kind_of_finding_can_fail_a_check() -> None:
    args = cli.build_parser(["check"]).parse_args(["check", "m", "--fail-on", ", ".join(KINDS)])
    assert args.fail_on == {k.lower() for k in KINDS}
