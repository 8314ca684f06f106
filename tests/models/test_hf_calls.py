"""How Hugging Face models are called: caches in and out, training steps, torch.compile."""

import copy

import pytest

pytest.importorskip("transformers")

import torch
from torch.utils import _pytree as pytree

from frontend_torch import as_array, assert_same, compare, outputs_of
from glasshouse.frontend import dynamo
from glasshouse.frontend.torch import capture
from glasshouse.frontend.torch.tracing.training import capture_training
from glasshouse.numpy_ref import run
from hf_models import build
from hf_models.common import ids

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


# ------------------------------------------------------------------------------------------- caches
@pytest.mark.parametrize("name", ["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_a_cache_goes_in_and_comes_out_longer(name):
    model, _ = build(name)
    with torch.no_grad():
        past = model(input_ids=ids(5), use_cache=True).past_key_values
    inputs = {"input_ids": ids(1), "past_key_values": past, "use_cache": True}
    captured = capture(model, (), copy.deepcopy(inputs))
    compare(captured, model, (), inputs, 1e-4)
    outputs = outputs_of(captured.graph, captured.flat_inputs((), inputs))
    found = captured.results(outputs)
    assert type(found.past_key_values) is type(past)
    assert found.past_key_values.layers[0].keys.shape[2] == 6
    assert "past_key_values.layers.1.values" in captured.graph.output_names


@pytest.mark.slow
def test_a_length_that_is_left_open():
    model, _ = build("llama")
    length = torch.export.Dim("length", max=32)
    captured = capture(model, (), {"input_ids": ids(5)}, {"input_ids": {1: length}})
    assert str(captured.graph.inputs[0].type) == "int64[2, length]"
    for size in (9, 3):
        compare(captured, model, (), {"input_ids": ids(size)}, 1e-4)


# ----------------------------------------------------------------------------------------- training
def language(inputs):
    return {"labels": inputs.get("decoder_input_ids", inputs.get("input_ids")).clone()}


def classes(_):
    return {"labels": torch.tensor([0, 1])}


TRAINING = {
    "gpt2": (language, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "llama": (language, lambda p: torch.optim.AdamW(p, 1e-3)),
    "t5": (language, lambda p: torch.optim.Adam(p, 1e-3)),
    "vit": (classes, lambda p: torch.optim.SGD(p, 0.1)),
    "resnet": (classes, lambda p: torch.optim.AdamW(p, 1e-3)),
}


@pytest.mark.parametrize(
    "name", [n if n == "gpt2" else pytest.param(n, marks=pytest.mark.slow) for n in TRAINING]
)
def test_three_training_steps_equal_pytorchs(name):
    labels, optimizer = TRAINING[name]
    model, inputs = build(name)
    inputs = {**inputs, **labels(inputs)}
    twin = copy.deepcopy(model)
    captured = capture_training(model, None, optimizer(model.parameters()), **inputs)
    graph = captured.graph
    phases = {n.origin.label("phase") for n in graph.nodes}
    assert {"forward", "backward", "optimizer"} <= phases
    links = {n.origin.grad_of for n in graph.nodes} - {None}
    linked = {n.origin.label("phase") for n in graph.nodes if n.id in links}
    assert linked - {None} == {"forward"}
    step, state = optimizer(twin.parameters()), {}
    arrays = [as_array(t) for t in captured.flat_inputs((), inputs)]
    for _ in range(3):
        got = run(graph, arrays, variables=state)[0]
        step.zero_grad()
        loss = twin(**inputs).loss
        loss.backward()
        step.step()
        assert float(got) == pytest.approx(loss.item(), rel=1e-4)
    if isinstance(step, torch.optim.SGD):
        # Adam turns gradients that are 0 but for rounding (a key's bias) into whole steps.
        for key, weight in twin.named_parameters():
            if key in state:
                assert_same(state[key], weight.detach(), 1e-4)


# ------------------------------------------------------------------------------------ torch.compile
@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    dynamo.reset()
    yield
    torch._dynamo.reset()
    dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_torch_compile_for_inference(name):
    model, inputs = build(name)
    quick = torch.compile(model, backend="glasshouse")
    with torch.no_grad():
        assert_same(quick(**inputs), model(**inputs), 1e-4)
    graphs = dynamo.compiled_graphs()
    assert graphs
    assert all(g.phase == "inference" and g.recording is not None for g in graphs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_torch_compile_for_training(name):
    model, inputs = build(name)
    twin = copy.deepcopy(model)
    quick = torch.compile(model, backend="glasshouse", options={"executor": "reference"})
    for module in (quick, twin):
        out = [o for o in pytree.tree_leaves(module(**inputs)) if isinstance(o, torch.Tensor)]
        sum((o**2).mean() for o in out).backward()
    for (key, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        if theirs.grad is not None:
            size = float(theirs.grad.abs().max())
            worst = float((ours.grad - theirs.grad).abs().max())
            assert worst <= 1e-3 * max(size, 1e-3), key
    assert {g.phase for g in dynamo.compiled_graphs()} == {"forward", "backward"}


@pytest.mark.slow
def test_torch_compile_with_lengths_that_change():
    model, _ = build("gpt2")
    quick = torch.compile(
        model, backend="glasshouse", dynamic=True, options={"executor": "reference"}
    )
    with torch.no_grad():
        for length in (5, 8, 11):
            given = ids(length)
            assert_same(quick(given, use_cache=False), model(given, use_cache=False), 1e-4)
    assert len(dynamo.compiled_graphs()) <= 2


def test_switches_and_none_among_the_inputs():
    model, inputs = build("resnet")
    inputs = {**inputs, "output_hidden_states": True, "labels": None, "return_dict": True}
    captured = capture(model, (), inputs)
    compare(captured, model, (), inputs, 1e-4)
    assert len(captured.graph.inputs) == 1
    assert captured.graph.output_names[0] == "logits"
    assert "hidden_states.0" in captured.graph.output_names
