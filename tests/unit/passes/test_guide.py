"""The guide's code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from glasshouse.passes import PIPELINE
from glasshouse.passes.base import PASSES
from glasshouse.passes.subgraph_rewrite import RULES

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "write-a-pass.md"


def test_the_guide_runs(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    passes, pipeline, rules = dict(PASSES), list(PIPELINE), dict(RULES)
    names: dict[str, object] = {"__name__": "guide"}
    try:
        for block in re.findall(
            r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL
        ):
            exec(compile(block, str(GUIDE), "exec", dont_inherit=True), names)
    finally:
        for kept, before in ((PASSES, passes), (RULES, rules)):
            kept.clear()
            kept.update(before)
        PIPELINE[:] = pipeline
    out = capsys.readouterr().out
    assert "Dropout" not in out.split("WrongPass")[0]
    assert "FusedRelu*" in out
    assert "WrongPass changed the numbers" in out
    assert "rule swap on %2: it looked symmetric" in out
    assert "'drop-dropout': 1" in out
    assert (tmp_path / "example.glass").exists()
