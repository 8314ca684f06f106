"""The generated JSON Schema and TypeScript say what schema.py says."""

from __future__ import annotations

import pytest

import generate_schema
from glasshouse.record.columns import fields_of
from glasshouse.record.schema import FILE_TABLES, GRAPH_TABLES


def test_generated_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_schema.main(["--check"]) == 0, capsys.readouterr().out


def test_every_column_has_a_type_and_every_default_is_storable() -> None:
    for row_class in (*GRAPH_TABLES.values(), *FILE_TABLES.values()):
        for field in fields_of(row_class):
            if field.type.startswith("list") or field.type == "text":
                assert not field.default, f"{row_class.__name__}.{field.name}"
