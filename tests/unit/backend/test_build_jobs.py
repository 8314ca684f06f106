"""How many compilers a build runs at a time is said by its share of the machine."""

import os

import pytest

from glasshouse.backend.cpu.spawn import compilers_at_once
from glasshouse.errors import BuildError


def test_a_share_of_the_machine(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for given, wanted in (("3", 3), ("0", 8), ("", 8)):
        monkeypatch.setenv("GLASSHOUSE_BUILD_JOBS", given)
        assert compilers_at_once() == wanted
    monkeypatch.setenv("GLASSHOUSE_BUILD_JOBS", "many")
    with pytest.raises(BuildError, match="GLASSHOUSE_BUILD_JOBS is 'many'"):
        compilers_at_once()
