"""Recurrent layers on CPUs: one routine for the whole loop over time."""

from __future__ import annotations

from glasshouse.backend.cpu.matmul import FORMS as PANELS
from glasshouse.backend.cpu.recipe import Recipe, dot_parts
from glasshouse.backend.cpu.routine import FormSpelling, Routine, buffer_of, dot_kind, prepared
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.graph import Node
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.statement import Form, Tile
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile, write_all
from glasshouse.lower.view import whole
from glasshouse.ops.recurrent import GATES

LOOP, LOOP_GRAD = "recurrent", "recurrent_grad"
_HEADER = "recurrent.h"
_CELL = {"lstm": "Lstm", "gru": "Gru", "tanh": "Tanh", "relu": "Relu"}


def recurrent(builder: KernelBuilder, node: Node) -> None:
    """Add the loop of a layer, or its gradient."""
    operands = [whole(builder, v) for v in node.inputs]
    add_tile(builder, node, node.op.name, operands, writes=write_all(builder, node))


# ------------------------------------------------------------------------------------ rendering
def _sequence(tile: Tile) -> str:
    """`gh::Sequence`, from the first operand: the gates, or the gradient of the states."""
    steps, batch, width = tile.operands[0].shape
    hidden = width // GATES[tile.attr("cell")] if tile.op == LOOP else width
    reverse = "true" if tile.attr("reverse") else "false"
    return f"gh::Sequence{{{size_text(steps)}, {size_text(batch)}, {size_text(hidden)}, {reverse}}}"


def _needs(tile: Tile) -> Needs:
    weights = tile.operands[2]
    attrs = (GATES[tile.attr("cell")], weights.shape[1])
    return (
        Form(buffer_of(weights), "recurrent", weights.element.dtype, attrs, weights.constant),
    ), ()


def _loop(out: KernelText, tile: Tile) -> None:
    given, state, _, *rest = (buffer_of(o) for o in tile.operands)
    packed = prepared(out, tile.forms[0], FORMS["recurrent"])
    kind = dot_kind(tile.dtype)
    extra = rest[0] if rest else "nullptr"
    places = [buffer for _, buffer in tile.writes]
    memories = places[1] if len(places) > 1 else "nullptr"
    cell = f"gh::{_CELL[tile.attr('cell')]}Cell"
    given = f"{_sequence(tile)}, {given}, {state}, {extra}, {packed}, {places[0]}, {memories}"
    types = f"{kind}, {cell}, {C_TYPE[tile.dtype]}"
    out.add(f"gh::recurrent<{types}>(ctx, {given});", tile.ops)


def _grad_needs(tile: Tile) -> Needs:
    weights = tile.operands[3]
    gates, hidden = weights.shape
    attrs = (hidden, 1, gates, hidden)
    return (Form(buffer_of(weights), "panels", weights.element.dtype, attrs, weights.constant),), ()


def _grad(out: KernelText, tile: Tile) -> None:
    g, given, recurred, _, *rest = (buffer_of(o) for o in tile.operands)
    cell = tile.attr("cell")
    packed = prepared(out, tile.forms[0], PANELS["panels"])
    by_gates, by_state, *more = (buffer for _, buffer in tile.writes)
    none = "nullptr"
    a, b, c = {"lstm": rest, "gru": [*rest[:1], none, *rest[1:]]}.get(cell, [none] * 3)
    results = {"lstm": [*more, none], "gru": [none, *more]}.get(cell, [none] * 2)
    text = ", ".join([g, given, recurred, a, b, c, packed, by_gates, by_state, *results])
    types = f"{dot_kind(tile.dtype)}, gh::{_CELL[cell]}Back, {C_TYPE[tile.dtype]}"
    out.add(f"gh::recurrent_grad<{types}>(ctx, {_sequence(tile)}, {text});", tile.ops)


def _of_type(tile: Tile) -> Recipe:
    return Recipe(dot_parts(tile.dtype), 0.6, headers=(_HEADER,))


def _pack(form: Form) -> str:
    gates, hidden = map(size_text, form.attrs)
    return f"gh::recurrent_pack<{dot_kind(form.dtype)}>(threads, source, {gates}, {hidden}, out);"


def _bytes(form: Form) -> str:
    gates, hidden = map(size_text, form.attrs)
    return f"gh::recurrent_weight_bytes<{dot_kind(form.dtype)}>({gates}, {hidden})"


ROUTINES = {
    LOOP: Routine(_loop, _needs, _of_type),
    LOOP_GRAD: Routine(_grad, _grad_needs, _of_type),
}
FORMS = {"recurrent": FormSpelling(_pack, _bytes, _HEADER)}
