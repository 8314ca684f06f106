"""How the page on PyTorch's ops reads: docs/reference/torch-ops.md, from `table.txt` alone.

Run: PYTHONPATH=tests python -m opinfo.page
"""

from __future__ import annotations

from pathlib import Path

from opinfo.samples import LIMIT
from opinfo.table import MORE, STATES, Table, load

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "torch-ops.md"

_MEANING = {
    "ok": "core ops alone; results and gradients equal PyTorch's",
    "opaque in part": "equal to PyTorch's; some arguments need a node that PyTorch runs",
    "opaque": "equal to PyTorch's; one node that PyTorch runs",
    "skipped": "not compared, for the reason below",
}


def text(table: Table) -> str:
    counts = table.counts()
    lines = [
        "# PyTorch's ops",
        "",
        "<!-- Made by `python -m opinfo.page` from tests/opinfo/table.txt; do not edit. -->",
        "",
        _about(len(table.states)),
        "",
        "| state | ops | meaning |",
        "| --- | ---: | --- |",
        *[f"| {state} | {counts[state]} | {_MEANING[state]} |" for state in STATES],
    ]
    for state in STATES[1:]:
        lines += ["", f"## {state.capitalize()}", ""]
        lines += _by_reason({n: why for n, (s, why) in table.states.items() if s == state})
    for kind in MORE:
        if table.more[kind]:
            lines += ["", f"## {kind.capitalize()}", "", *_by_reason(table.more[kind])]
    return "\n".join(lines) + "\n"


def _about(ops: int) -> str:
    return f"""PyTorch tests its ops with samples (`op_db`: {ops} ops and variants). Each is traced
with at most {LIMIT} of its float32 samples (int64 where it takes no floats, complex64 where it
takes neither): the first, the last, and evenly between them. It runs on the reference executor and
is compared with PyTorch, and so are its gradients where it has any; the same samples are compiled
for the CPU and compared, random numbers in their shapes and types. `make test-models` runs all of
it, `make test` a share."""


def _by_reason(reasons: dict[str, str]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for name, why in reasons.items():
        groups.setdefault(why, []).append(f"`{name}`")
    return [f"- {why}: {', '.join(names)}" for why, names in sorted(groups.items())]


if __name__ == "__main__":
    PAGE.write_text(text(load()), encoding="utf-8")
    print(PAGE)
