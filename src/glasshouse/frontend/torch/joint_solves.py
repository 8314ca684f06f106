"""Matrices that are factored in a joint graph of AOTAutograd: as PyTorch's gradients expect them.

A gradient of a determinant takes up the factors that the forward op gives beside it. PyTorch
factors the transpose of a matrix that lies row by row, and its gradient, written for that, is in
the joint graph. And whether a factoring failed is asked by an op with an effect, around which
AOTAutograd passes tokens from op to op: compiled code does not ask (a singular matrix gives what
IEEE arithmetic gives), so both go. A small system that is solved again for its gradient is solved
from the matrix: that is arithmetic on elements, where its factors are a loop over columns to make
and a second one to use (62 of them took 4 ms of a Kalman filter's step of 16 observations).
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import torch
from torch import fx

from glasshouse.frontend.torch.aten.small_solve import SMALL

_SOLVE = torch.ops.aten._linalg_solve_ex.default
_FROM_FACTORS = torch.ops.aten.linalg_lu_solve.default
_CHECK = torch.ops.aten._linalg_check_errors.default
_FACTORED = {
    torch.ops.aten._linalg_det.default: (1, 2),
    torch.ops.aten._linalg_slogdet.default: (2, 3),
}
"""Ops that give factors beside their result, and which of their results these are."""


def spell_solves(joint: fx.GraphModule) -> None:
    """Take the checks out, let factors be those that gradients expect, and do without them where
    matrices are small."""
    for node in list(joint.graph.nodes):
        if node.target is torch.ops.higher_order.with_effects and node.args[1] is _CHECK:
            _forget(node)
        elif node.target in _FACTORED and _gives(node, _FACTORED[node.target]):
            _turn(joint.graph, node)
        elif node.target is _FROM_FACTORS and (matrix := _small_matrix(node)) is not None:
            _solve_again(joint.graph, node, matrix)


def _forget(check: fx.Node) -> None:
    """The token in front of a check is the one behind it."""
    token: Any = check.args[0]
    for part in list(check.users):
        part.replace_all_uses_with(token)
        check.graph.erase_node(part)
    check.graph.erase_node(check)  # an effect: not dead by itself


def _small_matrix(again: fx.Node) -> fx.Node | None:
    """The matrix of a system that is solved by the factors of an earlier solve of it, if a solver
    of it is written out and both have as many axes (else columns could be taken for vectors)."""
    parts = again.args[:2]
    if any(not isinstance(p, fx.Node) or p.target is not operator.getitem for p in parts):
        return None
    (solve, first), (other, second) = (p.args for p in parts)
    if solve is not other or solve.target is not _SOLVE or (first, second) != (1, 2):
        return None
    matrix, right = solve.args[0], again.args[2]
    value, rows = matrix.meta["val"], matrix.meta["val"].shape[-1]
    if not isinstance(rows, int) or rows > SMALL or value.is_complex():
        return None
    return matrix if value.dim() == right.meta["val"].dim() else None


def _solve_again(graph: fx.Graph, again: fx.Node, matrix: fx.Node) -> None:
    turned = again.kwargs.get("adjoint", False)
    left = again.kwargs.get("left", True)
    with graph.inserting_before(again), matrix.meta["val"].fake_mode:
        if turned:
            matrix = _added(graph, again, torch.ops.aten.transpose.int, matrix, -2, -1)
        both = _added(graph, again, _SOLVE, matrix, again.args[2], left=left)
        found = _added(graph, again, operator.getitem, both, 0)
    again.replace_all_uses_with(found)
    graph.erase_node(again)


def _added(graph: fx.Graph, like: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A call at the place of another node, where that is from."""
    made = graph.call_function(target, args, kwargs)
    given = fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
    made.meta = {**like.meta, "val": target(*given[0], **given[1])}
    return made


def _gives(node: fx.Node, places: tuple[int, ...]) -> bool:
    return any(
        user.target is operator.getitem and user.args[1] in places and user.users
        for user in node.users
    )


def _turn(graph: fx.Graph, node: fx.Node) -> None:
    """A determinant is that of the transpose, too: from its factors, which are what was asked for,
    and not those of whatever lies row by row when it is computed."""
    value = node.args[0].meta["val"]
    aten, last = torch.ops.aten, value.shape[-1]
    call = partial(_added, graph, node)

    with graph.inserting_before(node), value.fake_mode:
        matrix: Any = node.args[0]
        if value.is_contiguous() and not value.is_complex():
            matrix = call(aten.transpose.int, matrix, -2, -1)
        factors = call(aten.linalg_lu_factor_ex.default, matrix)
        both, pivots = (call(operator.getitem, factors, i) for i in range(2))
        diagonal = call(aten.diagonal.default, both, 0, -2, -1)
        places = call(aten.arange.start, 1, last + 1, dtype=torch.int32, device=value.device)
        swaps = call(aten.sum.dim_IntList, call(aten.ne.Tensor, pivots, places), [-1])
        sign = call(aten.rsub.Scalar, call(aten.remainder.Scalar, swaps, 2), 1, 2)
        if node.target is aten._linalg_det.default:
            results = [call(aten.mul.Tensor, call(aten.prod.dim_int, diagonal, -1), sign)]
        else:
            signs = call(aten.prod.dim_int, call(aten.sign.default, diagonal), -1)
            logs = call(aten.log.default, call(aten.abs.default, diagonal))
            results = [call(aten.mul.Tensor, signs, sign), call(aten.sum.dim_IntList, logs, [-1])]
    for part in list(node.users):
        part.replace_all_uses_with([*results, both, pivots][part.args[1]])
        graph.erase_node(part)
    graph.erase_node(node)
