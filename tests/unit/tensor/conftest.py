"""What tests of lazy tensors share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glasshouse.tensor.execute import set_executor
from kept_graphs import Keeps


@pytest.fixture
def keeps() -> Iterator[Keeps]:
    made = Keeps()
    before = set_executor(made)
    yield made
    set_executor(before)
