"""JSON from a file that nobody vouches for: what it becomes in memory is paid for before."""

from __future__ import annotations

import json
from typing import Any

from glasshouse.errors import FormatError
from glasshouse.record.budget import OBJECT, Budget


def charge_json(budget: Budget, data: str | bytes) -> None:
    """Spend what a JSON text becomes in memory, before it is parsed: brackets and commas tell."""
    if isinstance(data, str):
        containers, commas = data.count("[") + data.count("{"), data.count(",")
    else:
        containers, commas = data.count(b"[") + data.count(b"{"), data.count(b",")
    budget.spend("objects", containers)
    budget.spend("decoded_bytes", OBJECT * (containers + commas // 2) + len(data))


def parse_json(where: str, data: bytes, budget: Budget) -> Any:
    """JSON from a file that nobody vouches for."""
    charge_json(budget, data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FormatError(f"{where}: not JSON ({reason}); the file is damaged") from None
