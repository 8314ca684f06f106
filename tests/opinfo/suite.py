"""How a sample of an op is tried: traced through a module, run, compared, differentiated.

The module takes the sample's tensors and holds everything else. What it gives, and what it leaves
in tensors that it writes to, must equal PyTorch's on the reference executor; so must gradients by
every float tensor for random gradients of the results. A sample for which PyTorch draws random
numbers is compared in number, shapes and element types of its results alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from frontend_torch import as_array
from glasshouse.errors import GlasshouseError
from glasshouse.frontend.torch import Captured, capture, opaque_ops
from glasshouse.frontend.torch.sparse_parts import taken_apart
from glasshouse.frontend.torch.tracing.capture import LooseCapture
from glasshouse.ir import verify
from glasshouse.numpy_ref import run
from glasshouse.tensor.grad import differentiate
from opinfo.references import REFERENCES
from opinfo.samples import op_infos, samples_of

RTOL, ATOL = 1e-4, 1e-5
HALF = 20.0
"""By how much more half floats may: two units in the last place."""
LOOSER = 5.0
"""By how much more gradients may differ: they add up what the forward pass rounds."""


class Applied(torch.nn.Module):
    """An op as a model: its tensors are inputs, its other arguments are fixed."""

    def __init__(self, name: str, sample: Any) -> None:
        super().__init__()
        self.op = op_infos()[name]
        self.reference = REFERENCES.get(name, self.op)
        arguments = ((sample.input, *sample.args), sample.kwargs)
        self.leaves, self.form = pytree.tree_flatten(arguments)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [self.leaves[p].detach() for p in self.places]
        self.wanted = [self.leaves[p].requires_grad for p in self.places]
        for place in self.places:
            self.leaves[place] = None  # else export would find it as a constant of the module

    def forward(self, *tensors: torch.Tensor) -> Any:
        args, kwargs = self._arguments(tensors)
        return self.op(*args, **kwargs)

    def wanted_of(self, *tensors: torch.Tensor) -> Any:
        """What PyTorch gives on this machine."""
        args, kwargs = self._arguments(tensors)
        return self.reference(*args, **kwargs)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor to give away; one whose op reads the memory around it has that around it too."""
        if not self.op.name.startswith("as_strided"):
            return tensor.clone()
        count = tensor.untyped_storage().nbytes() // tensor.itemsize
        memory = tensor.as_strided((count,), (1,), 0).clone()
        return memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _arguments(self, tensors: Sequence[torch.Tensor]) -> Any:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        return pytree.tree_unflatten(leaves, self.form)


@dataclass
class Found:
    """How the samples of one op went."""

    samples: int = 0
    random: int = 0  # samples that draw random numbers
    opaque: int = 0  # samples that run through PyTorch, at least in part
    loose: int = 0  # samples that `torch.export` refuses
    gradients: int = 0  # samples whose gradients were compared
    targets: set[str] = field(default_factory=set)  # what runs through PyTorch
    failed: list[str] = field(default_factory=list)
    undifferentiated: list[str] = field(default_factory=list)  # why there is no gradient
    differing: list[str] = field(default_factory=list)  # how a gradient is not PyTorch's

    @property
    def state(self) -> str:
        if self.failed:
            return "failed"
        if self.random == self.samples:  # or there is none
            return "skipped"
        if self.opaque:
            return "opaque" if self.opaque == self.samples else "opaque in part"
        return "ok"

    def __str__(self) -> str:
        said = f"{self.samples} samples: {self.random} random, {self.opaque} opaque, "
        said += f"{self.loose} captured by running once, {self.gradients} with gradients"
        lines = [*sorted(self.targets), *self.failed, *self.undifferentiated, *self.differing]
        return "\n".join([said, *lines])


def try_op(name: str) -> Found:
    """Trace, run and compare every sample of an op."""
    found = Found()
    for number, sample in enumerate(samples_of(name)):
        found.samples += 1
        try:
            _try_sample(found, Applied(name, sample))
        except Exception as error:
            said = " ".join(str(error).split())[:300]
            found.failed.append(f"sample {number}: {type(error).__name__}: {said}")
    return found


def _try_sample(found: Found, module: Applied) -> None:
    given = [module.copy(t) for t in module.tensors]
    captured, loose = _captured(module, given)
    verify(captured.graph)
    random = is_random(module)
    _forward(captured, module, values=not random)
    found.random += random
    opaque = opaque_ops(captured.graph)
    why = dict(captured.refused)
    found.targets |= {f"{op}: {why.get(op, 'no spelling')}" for op in opaque}
    found.opaque += bool(opaque)
    found.loose += loose
    if not (opaque or random or captured.written):
        try:
            found.gradients += _backward(captured, module)
        except GlasshouseError as error:
            found.undifferentiated.append(error.message)
        except AssertionError as error:
            found.differing.append(" ".join(str(error).split())[:300])


def _captured(module: Applied, given: list[Any]) -> tuple[Captured, bool]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        captured = capture(module, given)
    return captured, any(issubclass(w.category, LooseCapture) for w in said)


class _Drawing(TorchDispatchMode):
    """Notes whether an op that draws random numbers runs."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def is_random(module: Applied) -> bool:
    """Whether PyTorch draws random numbers for this sample."""
    with _Drawing() as mode:
        _results(module)
    return mode.seen


def _results(module: Applied) -> Any:
    with torch.no_grad():
        return module.wanted_of(*[module.copy(t) for t in module.tensors])


def _forward(captured: Captured, module: Applied, values: bool) -> None:
    ours, theirs = ([module.copy(t) for t in module.tensors] for _ in range(2))
    with torch.no_grad():
        wanted = module.wanted_of(*theirs)
    outputs = run(captured.graph, [as_array(t) for t in captured.flat_inputs(leaves_of(ours))])
    same(captured.flat_results(outputs), leaves_of(wanted), "results", values)
    for place, output in captured.written:
        same([outputs[output]], [theirs[place]], "written tensors", values)


def leaves_of(results: Any) -> list[Any]:
    """Results one by one, sparse ones as their parts."""
    leaves: list[Any] = pytree.tree_leaves(taken_apart(results))
    return leaves


def _backward(captured: Captured, module: Applied) -> bool:
    """Compares gradients; False where PyTorch has none for this sample."""
    graph = captured.graph
    if captured.complex or captured.apart or any(t.is_complex() for t in module.tensors):
        return False
    if any(t.layout is not torch.strided for t in module.tensors):
        return False
    leaves = pytree.tree_leaves(_results(module))
    results = [o for o, r in zip(captured.outputs, leaves, strict=True) if torch.is_tensor(r)]
    seeds = [torch.randn(graph.outputs[o].type.shape) for o in results]
    wanted = _torch_gradients(module, seeds)
    if wanted is None:
        return False
    by = [graph.inputs[captured.inputs.index(i)] for i, w in enumerate(module.wanted) if w]
    used = [i for i, depends in enumerate(wanted.depends) if depends]
    made = differentiate(graph, [results[i] for i in used], by, seeds="inputs")
    arriving = [
        as_array(seeds[i]).astype(v.type.dtype.carrier)
        for i, v in zip(used, [graph.outputs[results[i]] for i in used], strict=True)
    ]
    arrays = [as_array(t) for t in captured.flat_inputs(module.tensors)]
    outputs = run(made, [*arrays, *arriving])[len(graph.outputs) :]
    try:
        same(outputs, wanted.gradients, "gradients")
    except AssertionError:
        # PyTorch's own float32 may be the one that is off.
        exact = _torch_gradients(module, seeds, wide=True)
        assert exact is not None
        rounded = [e.to(w.dtype) for e, w in zip(exact.gradients, wanted.gradients, strict=True)]
        same(outputs, rounded, "gradients")
    return True


@dataclass
class _Gradients:
    gradients: list[Any]  # by each tensor that wants one
    depends: list[bool]  # for each result, whether it depends on them


def _torch_gradients(module: Applied, seeds: list[Any], wide: bool = False) -> _Gradients | None:
    leaves = []
    for tensor, wanted in zip(module.tensors, module.wanted, strict=True):
        start = tensor.double() if wide and tensor.is_floating_point() else tensor
        leaves.append(start.clone().requires_grad_(wanted))
    results = [
        r for r in pytree.tree_leaves(module.wanted_of(*leaves)) if isinstance(r, torch.Tensor)
    ]
    pairs = [(r, s.to(r.dtype)) for r, s in zip(results, seeds, strict=True) if r.requires_grad]
    if not pairs:
        return None
    by = [leaf for leaf in leaves if leaf.requires_grad]
    try:
        found = torch.autograd.grad(
            [r for r, _ in pairs], by, [s for _, s in pairs],
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
    except RuntimeError:  # "derivative for aten::scatter is not implemented"
        return None
    # A number in the place of PyTorch's zeros without memory.
    return _Gradients([g + 0.0 for g in found], [r.requires_grad for r in results])


def same(got: list[Any], wanted: list[Any], what: str, values: bool = True) -> None:
    """Equal in number, shapes, element types, and values up to the largest of each tensor."""
    assert len(got) == len(wanted), f"{what}: {len(got)} instead of {len(wanted)}"
    for ours, theirs in zip(got, wanted, strict=True):
        if not isinstance(theirs, torch.Tensor):
            equal = ours == theirs or (ours != ours and theirs != theirs)
            assert equal, f"{what}: {ours} instead of {theirs}"
            continue
        left, right = np.asarray(as_array(ours)), as_array(theirs)
        assert left.shape == right.shape, f"{what}: shape {left.shape} instead of {right.shape}"
        assert left.dtype == right.dtype, f"{what}: {left.dtype} instead of {right.dtype}"
        if not values:
            continue
        finite = np.abs(right[np.isfinite(right)])
        largest = max(1.0, float(finite.max(initial=0)))
        wider = LOOSER if what == "gradients" else 1.0
        wider *= HALF if right.dtype == np.float16 else 1.0
        np.testing.assert_allclose(left, right, RTOL * wider, ATOL * wider * largest, err_msg=what)
