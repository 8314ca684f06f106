"""ONNX's own backend tests hold: what passes, what is skipped and why, counted."""

from __future__ import annotations

import pytest

from onnx_suite.suite import Tally, run_kind

# (kind, cases, passed, passed in core ops alone). A case that stops passing fails this; so does one
# that starts to, until the number here says so. Cases belong to onnx 1.23 (see constraints.txt).
COUNTS = [
    ("node", 1884, 1661, 1582),
    ("simple", 23, 15, 15),
    ("pytorch-converted", 82, 82, 82),
    ("pytorch-operator", 35, 35, 35),
]
REASONS = (
    "element type ",
    "sequence values as inputs or outputs",
    "optional values as inputs or outputs",
    "classical machine learning (ai.onnx.ml)",
    "training (ai.onnx.preview.training)",
    "random numbers: ",
    "ImageDecoder: ",
)


@pytest.mark.filterwarnings("ignore")  # the cases divide by zero and overflow on purpose
@pytest.mark.parametrize(("kind", "cases", "passed", "spelled"), COUNTS)
def test_counts(
    kind: str, cases: int, passed: int, spelled: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tally: Tally = run_kind(kind)
    with capsys.disabled():
        print(f"\n{tally.text(kind)}")
    assert tally.count("failed") == 0
    skipped = [r for r in tally.results if r.status == "skipped"]
    assert all(r.reason.startswith(REASONS) for r in skipped)
    found = (len(tally.results), tally.count("passed"), tally.spelled)
    assert found == (cases, passed, spelled)
