"""The error for a Python file that is given where a model is wanted, without a function's name."""

from __future__ import annotations

import ast

from glasshouse.errors import FormatError


def python_file_error(name: str, text: str) -> FormatError:
    """Says how a model inside of a Python file is named, with the file's own functions."""
    found = _callable_without_arguments(text)
    shown = f"; without arguments it has: {', '.join(found)}" if found else ""
    return FormatError(
        f"{name}: Python code; which of its functions returns the model?",
        hint=f"give {name}:{found[0] if found else 'FUNCTION'}, which returns a model and its "
        f"inputs{shown}",
    )


def _callable_without_arguments(text: str) -> list[str]:
    """Public functions that could return a model. The text is parsed, never run."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    functions = [s for s in body if isinstance(s, ast.FunctionDef) and not s.name.startswith("_")]
    return [f.name for f in functions if _needs_none(f.args)]


def _needs_none(args: ast.arguments) -> bool:
    positional = len(args.posonlyargs) + len(args.args)
    return positional == len(args.defaults) and None not in args.kw_defaults
