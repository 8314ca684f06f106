"""The registry's ops on hostile values: all samples of a family and a type in one program.

A program is compiled once and called with every fill, so that compiling costs once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from glasshouse.ir import GraphBuilder, Kind, Node, NoGradient, op_named
from glasshouse.ir.dtype import DType, as_dtype, finish, to_storage
from glasshouse.ir.op import REGISTRY
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph
from hostile.difference import difference
from hostile.values import FILLS, filled
from ops.harness import attrs_of, call_vjp, torch_outputs, typed_inputs, types_of
from ops.samples import SAMPLES
from ops.samples.sample import Sample

Array = np.ndarray[Any, Any]
RTOL = {"float64": 1e-10, "float32": 1e-5, "float16": 1e-2, "bfloat16": 4e-2}
# Functions of one element: there even the sign of zero is theirs.
EXACT = ("elementwise", "math", "activation")
NOT_HERE = {
    "normal": "random numbers", "uniform": "random numbers", "dropout": "random numbers",
    "opaque": "PyTorch computes it", "if": "control flow", "while": "control flow",
    "scan": "control flow", "barrier": "it does nothing",
}  # fmt: skip
CONSTANT = {"batch_norm": (1, 2)}  # operands to which PyTorch gives no gradient


@dataclass
class Case:
    """One sample of an op in one type."""

    op: str
    sample: Sample
    inputs: list[tuple[DType, Array]]
    node: Node
    cotangents: list[Array] = field(default_factory=list)
    grads: list[int] = field(default_factory=list)  # operands that have a gradient

    def floats(self) -> list[int]:
        return [i for i, (d, _) in enumerate(self.inputs) if d.is_float]


def cases_of(family: str, dtype: str, per_op: int) -> Iterator[tuple[str, Sample]]:
    """Samples with a floating operand that PyTorch can judge."""
    for name, samples in SAMPLES.items():
        if name not in REGISTRY or name in NOT_HERE or op_named(name).family != family:
            continue
        usable = [
            s for s in samples
            if s.torch is not None and dtype in s.dtypes and s.dtypes[0] == "float64"
            and any(np.asarray(a).dtype.kind == "f" for a in s.inputs)
        ]  # fmt: skip
        for sample in usable[:per_op]:
            yield name, sample


FAMILIES = sorted({op.family for op in REGISTRY.values() if op.kind is not Kind.SOURCE})


class Program:
    """A graph of many cases, and what runs it."""

    def __init__(self, family: str, dtype: str, per_op: int, gradients: bool) -> None:
        self.dtype, self.gradients = dtype, gradients
        builder = GraphBuilder()
        self.cases: list[Case] = []
        outputs: list[Any] = []
        for name, sample in cases_of(family, dtype, per_op):
            op = op_named(name)
            if gradients and (isinstance(op.vjp, NoGradient) or not sample.grad):
                continue
            inputs = typed_inputs(sample, dtype)
            operands = [builder.input(t.dtype, t.shape) for t in types_of(inputs, {})]
            builder.apply(op, *operands, **attrs_of(op, sample, {}))
            node = builder.graph.nodes[-1]
            case = Case(name, sample, inputs, node)
            if gradients:
                given = [
                    builder.input(v.type.dtype, v.type.shape) if v.type.dtype.is_float else None
                    for v in node.outputs
                ]
                rng = np.random.default_rng(5)
                case.cotangents = [
                    finish(rng.uniform(0.5, 1.5, v.type.shape), v.type.dtype)
                    for v, g in zip(node.outputs, given, strict=True) if g is not None
                ]  # fmt: skip
                found = call_vjp(builder, node, given)
                constant = CONSTANT.get(name, ())
                case.grads = [i for i, g in enumerate(found) if g is not None and i not in constant]
                outputs += [found[i] for i in case.grads]
            else:
                outputs += [builder.wrap(v) for v in node.outputs]
            self.cases.append(case)
        self.graph = builder.finish(*outputs) if outputs else None

    def runners(self) -> dict[str, Any]:
        """The ways to run: the reference, each op by itself, and fused."""
        assert self.graph is not None
        plain, fused = compile_graph(self.graph), compile_graph(optimize(self.graph))
        types = [v.type.dtype for v in self.graph.inputs]

        def compiled(module: Any) -> Any:
            def call(arrays: list[Array]) -> list[Array]:
                stored = [to_storage(a, d) for a, d in zip(arrays, types, strict=True)]
                out = module(*stored)
                return list(out) if isinstance(out, (tuple, list)) else [out]

            return call

        return {
            "reference": lambda arrays: run(self.graph, arrays),
            "unfused": compiled(plain), "fused": compiled(fused),
        }  # fmt: skip

    def differences(self) -> Iterator[tuple[str, str, str, str]]:
        """(op, fill, way, what differs) for everything that PyTorch does not give."""
        if self.graph is None:
            return
        runners = self.runners()
        used = {v: i for i, v in enumerate(self.graph.inputs)}
        for fill in FILLS:
            for whole in (False, True) if fill in ("mixed", "inf", "one nan") else (False,):
                arrays: list[Array] = []
                wanted: list[tuple[Case, list[Array], float]] = []
                for case in self.cases:
                    given = _hostile(case, fill, self.dtype, whole)
                    arrays += [a for _, a in given] + case.cotangents
                    wanted.append((case, self._torch(case, given), _scale(given)))
                assert len(arrays) == len(used)
                with np.errstate(all="ignore"):
                    results = {way: call(arrays) for way, call in runners.items()}
                for way, found in results.items():
                    at = 0
                    for case, theirs, scale in wanted:
                        ours = found[at : at + len(theirs)]
                        at += len(theirs)
                        said = self._compared(case, ours, theirs, scale, way)
                        if said:
                            yield case.op, fill + (" in all" if whole else ""), way, said

    def _compared(
        self, case: Case, ours: list[Array], theirs: list[Array], scale: float, way: str
    ) -> str:
        op = op_named(case.op)
        exact = op.family in EXACT and not self.gradients
        rtol = RTOL[self.dtype] * max(case.sample.tol, 1.0)
        for mine, yours in zip(ours, theirs, strict=True):
            said = difference(mine, yours, self.dtype, rtol, 0.0 if exact else scale, exact)
            if said:
                return said
        return ""

    def _torch(self, case: Case, given: list[tuple[DType, Array]]) -> list[Array]:
        if not self.gradients:
            return torch_outputs(case.sample, given)[0]
        half = as_dtype(self.dtype) if self.dtype in ("float16", "bfloat16") else None
        tensors = [
            torch.from_numpy(np.array(a, np.float32 if d.is_float and half else d.carrier))
            for d, a in given
        ]
        for i in case.grads:
            tensors[i].requires_grad_()
        assert case.sample.torch is not None
        out = case.sample.torch(*tensors, **case.sample.attrs)
        many = [
            t for t in (out if isinstance(out, (tuple, list)) else [out]) if t.is_floating_point()
        ]
        weights = [torch.from_numpy(np.array(c, t.detach().numpy().dtype))
                   for c, t in zip(case.cotangents, many, strict=True)]  # fmt: skip
        leaves = [tensors[i] for i in case.grads]
        if not leaves:
            return []
        tied = [(t, w) for t, w in zip(many, weights, strict=True) if t.requires_grad]
        if not tied:
            return [np.zeros(t.shape, t.detach().numpy().dtype) for t in leaves]
        found = torch.autograd.grad(
            [t for t, _ in tied], leaves, [w for _, w in tied], materialize_grads=True
        )
        return [finish(f.numpy(), half) if half else f.numpy() for f in found]


def _hostile(case: Case, fill: str, dtype: str, whole: bool) -> list[tuple[DType, Array]]:
    out = list(case.inputs)
    for i in case.floats() if whole else case.floats()[:1]:
        kind, array = out[i]
        out[i] = (kind, filled(fill, array.shape, kind.name))
    return out


def _scale(given: list[tuple[DType, Array]]) -> float:
    """The greatest finite magnitude among the operands: sums round against it."""
    sizes = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for d, a in given if d.is_float]
    return float(max(sizes, default=0.0))


__all__ = ["FAMILIES", "Program"]
