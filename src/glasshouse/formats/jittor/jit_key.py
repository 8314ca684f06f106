"""How a Jittor jit_key reads: the ops of an executed group and the choices made for it.

A key is a run of fields that start with a guillemet, `name:text` or `name=hexadecimal`. `opkeyN:`
(N hexadecimal) opens the fields of the N-th op; from `JIT:` on the fields are of the whole group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SEPARATOR = "«"
_OP = re.compile(r"opkey[0-9a-f]+:(.*)", re.DOTALL)
_MASKS = ("BCAST", "REDUCE")
"""Fields whose bits are axes."""


@dataclass
class KeyOp:
    name: str
    fields: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        said = ", ".join(f"{k}={v}" for k, v in self.fields.items())
        return f"{self.name}({said})"


@dataclass
class JitKey:
    ops: list[KeyOp]
    fields: dict[str, str]  # of the whole group
    choices: dict[str, str]

    @property
    def relayed(self) -> bool:
        """The group really ran as a call of a library, not as the generated loops."""
        return any(k.startswith("relay") and v != "0" for k, v in self.choices.items())

    @property
    def target(self) -> str:
        return "cuda" if "JIT_cuda" in self.fields else "cpu"


def decode(key: str) -> JitKey:
    """The fields of a key; an empty or strange key gives few fields, never an error."""
    out = JitKey([], {}, {})
    parts = key.split(SEPARATOR)
    if parts[0]:
        out.ops.append(KeyOp(parts[0]))
    in_op = bool(out.ops)
    for part in parts[1:]:
        opened = _OP.fullmatch(part)
        if opened:
            out.ops.append(KeyOp(opened[1]))
            in_op = True
            continue
        name, text = _field(part)
        if name.startswith("JIT"):
            in_op = False
        if name == "choices":
            for choice in text.split(","):
                which, colon, value = choice.partition(":")
                if colon:
                    out.choices[which] = value
        elif in_op:
            out.ops[-1].fields[name] = text
        else:
            out.fields[name] = text
    for op in out.ops:
        what = op.fields.pop("OP", "")
        if what:
            op.name = f"{op.name}.{what}"
    return out


def _field(part: str) -> tuple[str, str]:
    colon, equals = part.find(":"), part.find("=")
    if equals >= 0 and (colon < 0 or equals < colon):
        name, text = part[:equals], part[equals + 1 :]
        if re.fullmatch("[0-9a-f]{1,15}", text):
            number = int(text, 16)
            if name in _MASKS:
                axes = [str(bit) for bit in range(number.bit_length()) if number >> bit & 1]
                return {"BCAST": "broadcast axes", "REDUCE": "reduced axes"}[name], str_list(axes)
            return name, str(number)
        return name, text
    if colon >= 0:
        return part[:colon], part[colon + 1 :].lstrip(":")
    return part, ""


def str_list(items: list[str]) -> str:
    return f"[{', '.join(items)}]"
