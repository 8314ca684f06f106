"""Which module a node belongs to: its own stack, or for a node that a quantiser put there
the stack of the op it serves.
"""

from __future__ import annotations

import re
from typing import Any

from glasshouse.compat.executorch.clusters import is_dequantize, is_quantize
from glasshouse.formats.pt2.read import module_path

Path = tuple[list[str], list[str]]  # names and classes, the root left out
# A module that is called again is entered as "layer@1".
_AGAIN = re.compile(r"@\d+$")
# Roots that tracing a second time puts around a model.
_TRACERS = ("torch.export.", "torch.fx.")


def module_of(node: Any) -> tuple[Path, str]:
    """The modules around a node, and the name of the node they were taken from if not its own.

    Quantising and exporting again leaves quantize and dequantize with the root alone; without this
    they would all stand beside the model, and every edge between two modules would pass there.
    """
    own = _path(node)
    if own[0]:
        return own, ""
    if is_dequantize(node):
        served = list(node.users)
    elif is_quantize(node):
        served = node.all_input_nodes[:1]
    else:
        return own, ""
    for other in served:
        found = _path(other)
        if found[0]:
            return found, other.name
    return own, ""


def _path(node: Any) -> Path:
    # Spelled as in `.pt2` files: "key,path,class;...".
    entries = []
    for key, (path, cls) in (node.meta.get("nn_module_stack") or {}).items():
        if not key.startswith("_empty_nn_module_stack"):
            entries.append(f",{_AGAIN.sub('', path)},{_name(cls)}")
    return module_path(";".join(entries))


def root_class(nodes: Any) -> str:
    """The class of the model: the root of the first module stack that has one; "" if none has."""
    for node in nodes:
        for path, cls in (node.meta.get("nn_module_stack") or {}).values():
            name = _name(cls)
            if not path and not name.startswith(_TRACERS):
                return name.rpartition(".")[2]
    return ""


def _name(cls: Any) -> str:
    return cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
