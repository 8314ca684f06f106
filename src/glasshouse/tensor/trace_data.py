"""Decides what is kept of the work that ran."""

from __future__ import annotations

from typing import Any


def recorder(graph: Any, nodes: Any, tensors: Any) -> Any:
    return None
