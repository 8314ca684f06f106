"""Signatures out of a file: what is wrong in one is told."""

from __future__ import annotations

import pytest

from glasshouse.errors import FormatError
from glasshouse.runtime.signature_json import _structure_from_json


@pytest.mark.parametrize("kind", ["print", "tensor ", None, ["int"]])
def test_a_kind_that_there_is_not_is_refused(kind: object) -> None:
    with pytest.raises(FormatError, match="a result of kind"):
        _structure_from_json({"slot": 0, "kind": kind}, 1)
