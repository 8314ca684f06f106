"""What is said when PyTorch cannot capture a model: what, where, what to change."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from glasshouse.errors import CaptureError
from glasshouse.frontend.torch.source import is_library, is_ours
from glasshouse.ir.origin import Frame

_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
DATA = "a branch, size or Python number depends on the values in a tensor"
LEAVES = "the model leaves PyTorch in the middle (numpy, a C extension)"
# (what the message or the exception's name says, what it means, what to do), the first that fits.
_KNOWN = (
    (
        r"GuardOnDataDependentSymNode|data-dependent|Data-dependent|Could not guard on",
        DATA,
        "use torch.where or torch.cond for a branch, a mask for a size, torch._check for a number",
    ),
    (
        r"Constraints violated|ConstraintViolationError|was inferred to be a constant|specialized",
        "a size that was given as dynamic is not free",
        "give the range or the multiple that the model needs, or leave the size fixed",
    ),
    (
        r"\.numpy\(\) is not supported|Cannot access data pointer|\.tolist\(\)",
        LEAVES,
        "compute it with torch ops, or wrap it with torch.library.custom_op",
    ),
    (
        r"not a known type|register a pytree",
        "the model takes or returns an object that PyTorch cannot take apart",
        "register its class with torch.export.register_dataclass or torch.utils._pytree",
    ),
    (
        r"unexpected keyword argument|missing (\d+|a) required|positional argument",
        "the arguments do not fit the model's forward",
        "give example inputs as the model is called: positional ones, then keywords",
    ),
    (
        r"two different devices|tensors to be on the same device",
        "the model and what it is given lie on different devices",
        "move one of them: model.to(x.device)",
    ),
    (
        r"shapes cannot be multiplied|must match|same reduction dim|size mismatch|expected input",
        "the model itself fails on these inputs",
        "call it once in PyTorch with the same inputs",
    ),
)  # fmt: skip


def refusal(error: BaseException, model: Any) -> CaptureError:
    """What PyTorch's exception means for the person who wrote the model."""
    said = f"{type(error).__name__}: {error}"
    meaning, hint = "PyTorch cannot capture it", "capture it in parts, or with torch.compile"
    for pattern, what, todo in _KNOWN:
        if re.search(pattern, said):
            meaning, hint = what, todo
            break
    line = next((part for part in str(error).splitlines() if part.strip()), "").strip()
    frame = user_frame(error)
    where = f"{frame.file}:{frame.line} in {frame.function}" if frame else ""
    return CaptureError(
        f"{type(model).__name__} cannot be captured: {meaning} ({type(error).__name__}: "
        f"{line[:300]})",
        where,
        hint,
    )


def user_frame(error: BaseException) -> Frame | None:
    """The innermost line of the model that an exception passed through."""
    found: Frame | None = None
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        step = current.__traceback__
        inside = False
        while step is not None:
            code = step.tb_frame.f_code
            # What lies before PyTorch called the model is how we got here, not the model.
            inside = inside or is_library(code.co_filename)
            if inside and not is_library(code.co_filename) and not _is_fixed(code.co_filename):
                found = Frame(code.co_filename, step.tb_lineno, code.co_name)
            step = step.tb_next
        current = current.__cause__ or current.__context__
        if found is not None:
            break
    return found


def _is_fixed(file: str) -> bool:
    """Files of this frontend and of Python itself, which no user can change."""
    if is_ours(file) or file.startswith("<"):
        return True
    return file.startswith(_STDLIB) and not file.startswith(_SITE)  # site-packages lie inside


@contextmanager
def quiet() -> Iterator[None]:
    """PyTorch logs and prints what it stumbles over, at length; the exception has what matters.

    What a model itself writes to stderr comes out when it is captured after all.
    """

    def silent(record: logging.LogRecord) -> bool:
        return False

    names = [n for n in list(logging.root.manager.loggerDict) if n.startswith("torch")]
    handlers = [h for n in names for h in logging.getLogger(n).handlers]
    for handler in handlers:
        handler.addFilter(silent)
    written = io.StringIO()
    try:
        with contextlib.redirect_stderr(written):
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(silent)
    sys.stderr.write(written.getvalue())
