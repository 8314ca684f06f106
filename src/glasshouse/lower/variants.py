"""The variant of a tile, and all that follows from it: forms of constants, scratch, workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from glasshouse.lower.choice import BY_SHAPE, Candidate, Choice, Chooser, Problem
from glasshouse.lower.kernel.kernel import Buffer, Kernel
from glasshouse.lower.kernel.statement import Form, Statement, Tile
from glasshouse.lower.target import Target
from glasshouse.lower.workspace import total


def with_variant(tile: Tile, variant: str, target: Target) -> Tile:
    """The tile in one of its variants."""
    tile = replace(tile, variant=variant)
    forms, scratch = target.needs(tile)
    return replace(tile, forms=forms, scratch=scratch)


def assembled(
    name: str, buffers: Sequence[Buffer], body: Sequence[Statement], ops: tuple[str, ...]
) -> Kernel:
    """A kernel of these statements, with what its tiles need."""
    tiles = [s for s in body if isinstance(s, Tile)]
    forms: dict[Form, None] = {}
    for tile in tiles:
        forms.update(dict.fromkeys(form for form in tile.forms if form.once))
    variant = (tiles[-1].variant or tiles[-1].op) if tiles else "loops"
    return Kernel(
        name, tuple(buffers), tuple(body), ops, variant, total(buffers, body), tuple(forms)
    )


def candidates(tile: Tile) -> tuple[str, ...]:
    """The variants that can be told apart by measuring them."""
    return tuple(name for name in tile.variants if name != BY_SHAPE)


def _estimated(choice: Choice, problem: Problem, target: Target) -> Choice:
    """The choice with the target's estimates for what was not measured, and called so."""

    def told(one: Candidate) -> Candidate:
        found = None if one.seconds else target.estimate(problem, one.name, target)
        if found is None:
            return one
        parts = [f"estimate {found[0] * 1e6:.3g} us", found[1], one.why]
        return replace(one, why="; ".join(filter(None, parts)))

    return replace(choice, candidates=tuple(map(told, choice.candidates)))


def chosen(kernel: Kernel, choose: Chooser, target: Target) -> tuple[Kernel, tuple[Choice, ...]]:
    """The kernel with each of its tiles in the variant that is chosen for it, and the choices."""
    body: list[Statement] = []
    choices: list[Choice] = []
    for s in kernel.body:
        if isinstance(s, Tile) and s.problem is not None:
            choice = choose(s.problem, candidates(s), s.variants[0])
            choices.append(_estimated(choice, s.problem, target))
            if choice.name != s.variant:
                s = with_variant(s, choice.name, target)
        body.append(s)
    if not choices:
        return kernel, ()
    return assembled(kernel.name, kernel.buffers, body, kernel.ops), tuple(choices)
