"""What `torch.compile(model, backend="glasshouse")` does with what Dynamo captures.

A graph that needs no gradient is captured above autograd, where layers are still whole. One that
does is split by AOTAutograd into a forward and a backward graph, and both are compiled. Each is
kept, with its recording, in `compiled_graphs()` until `reset()`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch.aot_autograd import make_boxed_func
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from glasshouse.errors import GlasshouseError, NotCompiled, Unsupported
from glasshouse.frontend.dynamo.batched import serving_batches
from glasshouse.frontend.dynamo.boundary import (
    Boundary,
    one_under_two_names,
    saved_orders,
)
from glasshouse.frontend.dynamo.counted_calls import capture_counted_calls
from glasshouse.frontend.dynamo.crossing import Boxed, crossing
from glasshouse.frontend.dynamo.default_device import asked_by_all_constructors
from glasshouse.frontend.dynamo.donated import donate_nothing
from glasshouse.frontend.dynamo.execute import EXECUTORS, Runner, compiled, get_ready
from glasshouse.frontend.dynamo.fixed_sizes import fix_odd_sizes
from glasshouse.frontend.dynamo.followed import Followed
from glasshouse.frontend.dynamo.graph_key import graph_key, known_sizes
from glasshouse.frontend.dynamo.held import HeldModules
from glasshouse.frontend.dynamo.inner_autocast import entered_autocasts
from glasshouse.frontend.dynamo.inner_gradients import (
    capture_inner_gradients,
    turns_gradients_on,
)
from glasshouse.frontend.dynamo.joint import partition
from glasshouse.frontend.dynamo.kept_graphs import KeptGraph, find_kept
from glasshouse.frontend.dynamo.left_eager import watch
from glasshouse.frontend.dynamo.lifted import called_with, lift_weights
from glasshouse.frontend.dynamo.margin_loss import keep_margin_losses
from glasshouse.frontend.dynamo.masked_sizes import capture_masked_sizes
from glasshouse.frontend.dynamo.names import own_paths, weight_names
from glasshouse.frontend.dynamo.open_weights import keep_open
from glasshouse.frontend.dynamo.plain_training import PlainTraining, plain_results
from glasshouse.frontend.dynamo.recurrent_layers import capture_recurrent_layers
from glasshouse.frontend.dynamo.replaced_calls import replace_calls
from glasshouse.frontend.dynamo.result_layout import ResultLayout, in_order_of_memory
from glasshouse.frontend.dynamo.second_gradients import SecondGradients
from glasshouse.frontend.dynamo.unheld import WithArguments, can_be_arguments, take_as_arguments
from glasshouse.frontend.dynamo.whole_attention import keep_attention
from glasshouse.frontend.dynamo.whole_recurrent import keep_recurrent
from glasshouse.frontend.torch.devices import GpuOf, gpu_of, plain_ops
from glasshouse.frontend.torch.graph_module import import_graph_module
from glasshouse.frontend.torch.joint_solves import spell_solves
from glasshouse.frontend.torch.program import Captured
from glasshouse.frontend.torch.tracing.transforms import closed_transforms, holds_transforms
from glasshouse.frontend.torch.tracing.validation import masks_as_given
from glasshouse.ir.graph import Graph


@dataclass(frozen=True)
class Compiled:
    """One graph that Dynamo handed over: what it became, and what runs it."""

    phase: str  # "inference", "forward" or "backward"
    captured: Captured
    runner: Runner

    @property
    def graph(self) -> Graph:
        return self.captured.graph

    @property
    def recording(self) -> Any:
        """What the compiler wrote down, or why the reference executor runs the graph."""
        return self.runner.recording


_COMPILED: list[Compiled] = []
watch()


def compiled_graphs() -> list[Compiled]:
    """Every graph compiled so far, in order: one for each part between graph breaks and phase."""
    return list(_COMPILED)


def reset() -> None:
    """Forget the graphs that were compiled."""
    _COMPILED.clear()


def backend(
    module: Any, examples: Sequence[Any], *, options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """The entry point: `torch.compile(model, backend="glasshouse", options={...})`.

    Options: `executor` is "auto" (compiled where that is possible), "compiled" or "reference".
    `hold_weights=False` prepares weights in every call: for code that writes single elements of
    them through `.data`, which PyTorch does not count as a change.

    With "auto", a graph that cannot be captured is PyTorch's to run, op by op, and that is told: a
    model that runs without us also runs with us.
    """
    executor = _executor(options or {})
    hold = (options or {}).get("hold_weights", True)
    try:
        return _made(module, examples, executor, hold)
    except TorchDynamoException:  # what Dynamo itself is told by
        raise
    except Exception as error:
        if executor != "auto":
            raise
        return _left_to_pytorch(module, error)


def _left_to_pytorch(module: Any, error: Exception) -> Callable[..., Any]:
    why = error.message if isinstance(error, GlasshouseError) else repr(error)
    warnings.warn(f"a graph is left to PyTorch: {why}", NotCompiled, stacklevel=3)
    left: Callable[..., Any] = module.forward
    return left


def _made(module: Any, examples: Sequence[Any], executor: str, hold: bool) -> Callable[..., Any]:
    gpu = gpu_of(examples)
    if executor != "reference":
        get_ready("cuda" if gpu else None)
    if not _needs_gradient(module, examples):
        return _inference(module, examples, executor, hold, gpu)

    second = SecondGradients(module)  # before what it calls is replaced
    if gpu is not None:
        keep_attention(module)
    keep_recurrent(module)
    keep_margin_losses(module)
    training = _Training(executor, gpu, examples, second)
    train = aot_autograd(
        fw_compiler=training.compiler("forward"),
        bw_compiler=training.compiler("backward"),
        inference_compiler=training.compiler("inference"),
        partition_fn=training.partition,
        # Statistics of norms are written by kernels; PyTorch would copy each, 16 us beside a GPU.
        keep_inference_input_mutations=gpu is not None,
    )
    with plain_ops(gpu):
        made = training.followed.call(train(module, examples))
    return made if training.plain is None else training.plain.call(made)


capture_recurrent_layers(backend)
capture_inner_gradients(backend)
capture_masked_sizes(backend)
capture_counted_calls(backend)
masks_as_given()
asked_by_all_constructors()


class _Training:
    """The graphs of one function that is trained: what one saves, the other is given."""

    def __init__(
        self, executor: str, gpu: GpuOf | None, arguments: Sequence[Any], second: SecondGradients
    ) -> None:
        self.followed = Followed(second)
        self.plain: PlainTraining | None = None  # where AOTAutograd need not be asked in each step
        # Inside of autocast, what PyTorch is left to run is run outside of it.
        self._may_be_plain = not torch._C._is_any_autocast_enabled() and all(
            isinstance(a, torch.Tensor) for a in arguments
        )
        self._required = [getattr(a, "requires_grad", False) for a in arguments]
        self._executor = executor
        self._gpu = gpu
        self._returned = 0  # outputs of the forward graph that are not saved for the backward graph
        self._orders: dict[str, tuple[int, ...]] = {}  # in which those that are saved lie, by name
        self._same: dict[str, str] = {}  # saved ones that are another one, by name

    def partition(self, joint: Any, inputs: Any, **known: Any) -> tuple[Any, Any]:
        self._returned = known["num_fwd_outputs"]
        return partition(joint, inputs, self._gpu is not None, **known)

    def compiler(self, phase: str) -> Callable[..., Any]:
        def compile(graph: Any, fakes: Sequence[Any]) -> Callable[..., Any]:
            try:
                return self._made(phase, graph, fakes)
            except TorchDynamoException:
                raise
            except Exception as error:
                # A backward graph is compiled when a step needs it: nobody but us can catch that.
                if phase != "backward" or self._executor != "auto":
                    raise
                boxed: Callable[..., Any] = make_boxed_func(_left_to_pytorch(graph, error))
                return boxed

        return compile

    def _made(self, phase: str, graph: Any, fakes: Sequence[Any]) -> Callable[..., Any]:
        # AOTAutograd calls this inside of its fake mode; constants of the graph are real.
        if phase == "backward":
            self.followed.look_at_backward(graph.graph, len(self._required))
        elif phase == "inference":  # the others are parts of a joint graph, where this was done
            spell_solves(graph)
        fix_odd_sizes(graph)
        own_paths(graph)
        boundary, captured = self._imported(phase, graph, fakes)
        if phase == "forward":
            donate_nothing()
            self.followed.look_at_forward(graph.graph, len(self._required))
            self._orders = saved_orders(boundary, captured, self._returned)
            if self._orders:  # known now that the graph is
                boundary, captured = self._imported(phase, graph, fakes)
            self._same = one_under_two_names(boundary, self._returned)
        with unset_fake_temporarily():
            runner = Runner(captured, self._executor, device=self._gpu)
        if runner.module is not None and phase != "inference":
            returned = self._returned if phase == "forward" else 0
            runner.module.results_together = boundary.unseen(captured, returned)
        _COMPILED.append(Compiled(phase, captured, runner))
        gpu = self._gpu
        homes = [] if gpu is None else gpu.homes(boundary.bases)

        def call(*flat: Any) -> list[Any]:
            made = runner(boundary.enter(flat))
            return boundary.leave(flat, made if gpu is None else gpu.leave(made, homes))

        general = serving_batches(call, graph) if phase == "backward" else call
        with unset_fake_temporarily():
            made = crossing(boundary, runner, general, any(homes))
        self._note(phase, boundary, made)
        return made

    def _note(self, phase: str, boundary: Boundary, made: Boxed) -> None:
        if phase == "forward":
            results = plain_results(len(self._required), self._returned)
            if results is not None and self._may_be_plain:
                self.plain = PlainTraining(results, made, self.followed)
        elif phase == "backward" and self.plain is not None:
            got = zip(self._required, boundary.names, strict=True)
            self.plain.cut = tuple(i for i, (asks, name) in enumerate(got) if asks and not name)
            orders = dict(zip(boundary.numbers, boundary.entering, strict=True))
            first = boundary.count - len(self.plain.results.tangents)
            self.plain.dense = tuple(orders.get(i) is None for i in range(first, boundary.count))
            self.plain.backward = made

    def _imported(self, phase: str, graph: Any, fakes: Sequence[Any]) -> tuple[Boundary, Captured]:
        if phase == "forward":
            boundary = Boundary(graph, self._orders, self._returned)
        else:
            boundary = Boundary(graph, self._orders, same=self._same)
        own = phase if phase != "inference" else ""
        with unset_fake_temporarily():
            given = boundary.once(fakes)
            return boundary, import_graph_module(boundary.inside, given, phase, phase=own)


def _executor(options: dict[str, Any]) -> str:
    unknown = set(options) - {"executor", "hold_weights"}
    if unknown:
        raise Unsupported(
            f"glasshouse has no option {', '.join(sorted(unknown))}",
            hint=f"there are executor ({', '.join(EXECUTORS)}) and hold_weights (True, False)",
        )
    return str(options.get("executor", "auto"))


def _needs_gradient(module: Any, examples: Sequence[Any]) -> bool:
    return (torch.is_grad_enabled() or turns_gradients_on(module)) and any(
        isinstance(e, torch.Tensor) and e.requires_grad for e in examples
    )


def _inference(
    module: Any, examples: Sequence[Any], executor: str, hold: bool, gpu: GpuOf | None
) -> Callable[..., Any]:
    known = [n.meta.get("example_value") for n in module.graph.nodes if n.op == "placeholder"]
    fakes = [f for f in (*known, *examples) if isinstance(f, FakeTensor)]
    mode = fakes[0].fake_mode if fakes else FakeTensorMode(allow_non_fake_inputs=True)
    module, held = lift_weights(module, mode)
    made = _without_gradients(module, [*examples, *held], mode, executor, hold, gpu)
    return called_with(made, held)


def _without_gradients(
    module: Any, examples: Sequence[Any], mode: Any, executor: str, hold: bool, gpu: GpuOf | None
) -> Callable[..., Any]:
    # The placeholders know which sizes are dynamic; the examples may be real tensors.
    nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
    fakes = [n.meta.get("example_value", e) for n, e in zip(nodes, examples, strict=True)]
    _without_checkpoints(module)
    traced: list[_Traced] = []

    def trace() -> _Traced:
        if not traced:
            traced.append(_Traced(module, fakes, mode, nodes, examples))
        return traced[0]

    if hold and executor != "reference":
        key = graph_key(module, fakes, examples) if gpu is None else None
        kept = None if key is None else find_kept(key, examples)
        try:
            if kept is not None:
                return _holding(*kept, examples, gpu)
            known = known_sizes(fakes)
            if trace().names:
                first = trace().captured({i: examples[i] for i in trace().names})
                own = None if gpu else KeptGraph.of(first, trace().names, trace().layouts)
                is_general = known == known_sizes(fakes)  # no guard was added
                # PyTorch's graph, with its lines and fake tensors, need not stay beside ours.
                made = _holding(own or trace(), first, examples, gpu)
                if key and own and is_general:
                    own.keep(key)
                return made
        except GlasshouseError:  # said below, where it is tried with weights as arguments
            if executor == "compiled":
                raise
    graph = trace()
    captured = import_graph_module(graph.graph, fakes, "inference")
    return _kept("inference", captured, executor, graph.layouts, graph.homes(gpu), gpu)


class _Traced:
    """A graph of Dynamo's, traced to ATen ops: to be captured with any weights."""

    def __init__(
        self, module: Any, fakes: Sequence[Any], mode: Any, nodes: Sequence[Any],
        examples: Sequence[Any],
    ) -> None:  # fmt: skip
        # Run node by node, so that what it becomes has its line and its modules.
        above = not holds_transforms(module)
        # What `torch.func.grad` takes gradients of is computed as its caller has it; without
        # gradients all that it gives would be zero.
        grads = not above and torch.is_grad_enabled()
        with (
            mode, torch.set_grad_enabled(grads), fx_traceback.preserve_node_meta(),
            closed_transforms(), entered_autocasts(module),
        ):  # fmt: skip
            self.graph = make_fx(torch.fx.Interpreter(module).run, pre_dispatch=above)(*fakes)
        fix_odd_sizes(self.graph)
        own_paths(self.graph)
        self.names = weight_names(nodes, examples, self.graph)
        self.layouts = in_order_of_memory(self.graph)
        self._fakes = fakes

    def homes(self, gpu: GpuOf | None) -> list[Any]:
        """Where results lie, on a GPU."""
        return [] if gpu is None else gpu.homes(_outputs(self.graph))

    def captured(self, tensors: Mapping[int, torch.Tensor]) -> Captured:
        """The graph with these weights."""
        given = {i: (t.detach(), self.names[i]) for i, t in tensors.items()}
        with unset_fake_temporarily():
            return import_graph_module(self.graph, self._fakes, "inference", given)


def _without_checkpoints(module: Any) -> None:
    """Without gradients nothing is computed again, so a checkpointed body is called as it is.

    PyTorch cannot trace the op of one above autograd, unless it was given a `context_fn`.
    """
    replace_calls(module, {torch.ops.higher_order.tag_activation_checkpoint}, _called_as_it_is)


def _called_as_it_is(node: torch.fx.Node) -> bool:
    node.target, node.kwargs = _called, {}
    return True


def _called(body: Any, *args: Any) -> Any:
    return body(*args)


def _holding(
    source: _Traced | KeptGraph, first: Captured, examples: Sequence[Any], gpu: GpuOf | None
) -> Callable[..., Any]:
    """A graph whose weights are constants of the module that is compiled for them; `first` is it
    with those that are there now."""
    target = None if gpu is None else gpu.target
    imported = [first.graph]  # the first to be compiled

    def make(tensors: Mapping[int, torch.Tensor], is_open: bool, free: Collection[str]) -> Any:
        graph = imported.pop() if imported else source.captured(tensors).graph
        named = {source.names[i]: t for i, t in tensors.items() if source.names[i] in free}
        weights = {name: named[name] for name in can_be_arguments(graph, named)}
        take_as_arguments(graph, list(weights))
        if is_open:
            keep_open(graph, source.names.values())
        module = compiled_now(graph)
        return WithArguments(module, weights) if weights else module

    def compiled_now(graph: Graph) -> Any:
        if not isinstance(source, KeptGraph):
            return compiled(graph, target, shares=gpu is None)
        ahead, source.ahead = source.ahead, None
        try:
            module = compiled(graph, target, shares=True, prefaulted=ahead)
        finally:
            if ahead is not None:
                ahead.close()
        source.packed = module.packed_bytes
        if source.earlier:
            module.watched.recorder.facts["captured"] = "by an earlier process, kept on disk"
        return module

    held = HeldModules(source.names, examples, make, gpu is not None)
    homes = source.homes(gpu) if isinstance(source, _Traced) else []
    return _kept("inference", first, "compiled", source.layouts, homes, gpu, held)


def _kept(
    phase: str,
    captured: Captured,
    executor: str,
    layouts: Sequence[ResultLayout | None],
    homes: Sequence[Any],
    gpu: GpuOf | None,
    held: HeldModules | None = None,
) -> Callable[..., Any]:
    """What runs a graph; `layouts` and `homes` say how and where its results lie."""
    runner = Runner(captured, executor, held, gpu)
    _COMPILED.append(Compiled(phase, captured, runner))

    if not any(layouts) and not any(homes):
        return runner.direct()

    def call(*flat: Any) -> list[Any]:
        results = runner(flat)
        if gpu is not None:
            results = gpu.leave(results, homes)
        return [r if lies is None else lies.of(r) for r, lies in zip(results, layouts, strict=True)]

    return call


def _outputs(graph: Any) -> list[Any]:
    output = next(n for n in graph.graph.nodes if n.op == "output")
    found: list[Any] = pytree.tree_leaves(output.args[0], is_leaf=lambda n: n is None)
    return found
