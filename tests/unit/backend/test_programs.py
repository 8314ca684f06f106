"""The main file of a program: calls alone, so that it compiles in no time."""

from __future__ import annotations

import numpy as np

import glasshouse as gh
from glasshouse.backend.cpu import parsed_headers, templates
from glasshouse.backend.cpu.emit import emit

KERNELS = '#include "glasshouse/kernels.h"'
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_calls_need_no_headers_of_kernels() -> None:
    program = gh.compile(lambda x: (x * 2.0).sum(axis=1), X).program
    main = emit(program).main
    assert templates.is_program(main)
    assert KERNELS not in main
    assert not parsed_headers.reads_headers(main)


def test_packed_weights_are_packed_by_templates() -> None:
    w = np.ones((3, 4), np.float32)
    program = gh.compile(lambda x: x @ w, X).program
    assert program.memory.packed
    main = emit(program).main
    assert templates.is_program(main)
    assert parsed_headers.reads_headers(main)


def test_loops_need_no_library_of_cxx() -> None:
    """Linking one with it takes as long again."""
    module = gh.compile(lambda x: x * 2.0 + 1.0, X)
    assert np.array_equal(module(X), X * 2 + 1)
    assert b"libstdc++" not in module.library_path.read_bytes()
