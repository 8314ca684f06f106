"""The gradient of an op that PyTorch runs: PyTorch's own, traced for this one call.

LAPACK's factorisations and other ops without a spelling stay nodes that PyTorch runs. When reverse
mode reaches one, autograd's formula is traced on tensors without data and imported: most of it is
products and sums of ours. It reads the results of the node, which is not run again.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from glasshouse.errors import GradientError
from glasshouse.frontend.torch.call import AtenCall
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.joint_solves import spell_solves
from glasshouse.frontend.torch.slot import Slot
from glasshouse.ir.graph import Node, Value
from glasshouse.ops.create import full_near

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer


@dataclass(frozen=True)
class TracedGradient:
    """What reverse mode does at a node that PyTorch runs."""

    importer: Importer
    call: AtenCall
    node: Node
    results: Any  # handles, as the op gives them; None for those that nothing reads

    def __call__(self, arrived: Sequence[Any]) -> list[Any]:
        """Gradients of the node's operands."""
        leaves, spec = pytree.tree_flatten((list(self.call.node.args), dict(self.call.node.kwargs)))
        handles = pytree.tree_leaves((list(self.call.args), dict(self.call.kwargs)))
        places = [i for i, leaf in enumerate(leaves) if _is_tensor(leaf)]
        given = {o: g for o, g in zip(self.node.outputs, arrived, strict=True) if g is not None}
        try:
            module, numbers = self._traced(leaves, spec, places, given)
        except Exception as error:  # whatever autograd raises
            raise GradientError(
                f"{self.call.target} has no gradient: {next(iter(str(error).splitlines()), '')}",
                str(self.node.origin.source),
            ) from error
        read = pytree.tree_leaves(self.results, is_leaf=lambda r: r is None)
        seeds = [_seed(read[n], given) for n in numbers]
        held = [r for r in read if r is not None]
        inputs = [Slot(h) for h in (*(handles[p] for p in places), *seeds, *held)]
        with self.importer.inside(self.importer.builder.origin):
            found = self.importer.run(module, inputs)
        by = {
            _value(handles[p]): _plain(g.read())
            for p, g in zip(places, found, strict=True)
            if g is not None
        }
        return [by.get(v) for v in self.node.inputs]

    def _traced(
        self, leaves: Sequence[Any], spec: Any, places: Sequence[int], given: Mapping[Value, Any]
    ) -> tuple[fx.GraphModule, list[int]]:
        """A graph from operands, gradients of results and results to gradients of the operands;
        and which results have a gradient here: zeros for others would be infinite times zero in
        formulas for vectors of equal singular values."""
        fakes = [leaves[p].meta["val"] for p in places]
        mode = next(f.fake_mode for f in fakes if isinstance(f, FakeTensor))
        read = pytree.tree_leaves(self.results, is_leaf=lambda r: r is None)
        flat = pytree.tree_leaves(self.call.node.meta["val"])
        numbers = [
            i for i, (r, v) in enumerate(zip(read, flat, strict=True))
            if r is not None and _value(r) in given and _has_gradient(v)
        ]  # fmt: skip

        def gradients(*tensors: torch.Tensor) -> list[Any]:
            own = [t.detach().requires_grad_(_has_gradient(t)) for t in tensors[: len(places)]]
            filled = list(leaves)
            for place, tensor in zip(places, own, strict=True):
                filled[place] = tensor
            args, kwargs = pytree.tree_unflatten(filled, spec)
            outs = pytree.tree_leaves(self.call.target(*args, **kwargs))
            pairs = [(outs[n], g) for n, g in zip(numbers, tensors[len(places) :], strict=True)]
            pairs = [(o, g) for o, g in pairs if o.requires_grad]
            wanted = [t for t in own if t.requires_grad]
            found = iter(
                torch.autograd.grad(
                    [o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True
                )
            )
            return [next(found) if t.requires_grad else None for t in own]

        with mode, torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Row by row, as operands lie here: PyTorch's formulas ask for that (a determinant's
            # factors are those of the transpose then).
            rows = [torch.empty(f.shape, dtype=f.dtype, device=f.device) for f in fakes]
            module = make_fx(gradients)(*rows, *(torch.empty_like(flat[n]) for n in numbers))
        self._take_results(module, read)
        spell_solves(module)
        module.graph.eliminate_dead_code()
        return module, numbers

    def _take_results(self, module: fx.GraphModule, read: Sequence[Any]) -> None:
        """The op inside of its gradient is the node that is there: its results come in."""
        graph = module.graph
        again = next((n for n in graph.nodes if n.target is self.call.target), None)
        if again is None:  # a composite op, of which no decomposition could be imported
            raise GradientError("it is not one op to autograd", str(self.node.origin.source))
        last = [n for n in graph.nodes if n.op == "placeholder"][-1]
        many = isinstance(again.meta["val"], (tuple, list))
        for number, handle in enumerate(read):
            if handle is None:
                continue
            with graph.inserting_after(last):
                last = graph.placeholder(f"result_{number}")
            parts = (
                [u for u in again.users if u.target is operator.getitem and u.args[1] == number]
                if many
                else [again]
            )
            vals = pytree.tree_leaves(again.meta["val"])
            last.meta["val"] = vals[number]
            for part in parts:
                part.replace_all_uses_with(last)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, fx.Node) and isinstance(leaf.meta.get("val"), torch.Tensor)


def _has_gradient(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _plain(handle: Any) -> Any:
    return handle.pairs if isinstance(handle, Complex) else handle


def _value(handle: Any) -> Value:
    found: Value = _plain(handle).value
    return found


def _seed(result: Any, given: dict[Value, Any]) -> Any:
    """The gradient that arrived at a result; zeros where none did."""
    found = given.get(_value(result))
    if found is None:
        near = _plain(result)
        found = full_near(near, near.shape, 0, near.dtype)
    return Complex(found) if isinstance(result, Complex) else found
