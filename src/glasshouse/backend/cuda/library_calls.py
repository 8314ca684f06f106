"""Calls of libraries as the plan of a program has them, made ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from glasshouse.backend.cuda.cublaslt import CUBLASLT, LibraryProduct
from glasshouse.backend.cuda.cudnn import CUDNN, LibraryConvolution
from glasshouse.backend.cuda.installed_library import LibraryCall

_CALLS: dict[str, Callable[[Mapping[str, Any]], LibraryCall]] = {
    CUBLASLT: LibraryProduct, CUDNN: LibraryConvolution,
}  # fmt: skip


def library_call(described: Mapping[str, Any]) -> LibraryCall:
    """The call that a plan describes, of the library that it names."""
    return _CALLS[described["library"]](described)
