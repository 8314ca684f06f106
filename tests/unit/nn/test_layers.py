"""Layers and functions, forward and backward, against PyTorch's with the same state."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import ShapeError, TypeMismatch, Unsupported
from glasshouse.nn import functional as F

RNG = np.random.default_rng(0)


def image(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


LAYERS = {
    "linear": (lambda n: n.Linear(4, 3), (2, 4)),
    "linear batched, no bias": (lambda n: n.Linear(4, 3, bias=False), (2, 5, 4)),
    "bilinear": (lambda n: n.Bilinear(4, 3, 2), (2, 4), (2, 3)),
    "conv1d": (lambda n: n.Conv1d(2, 4, 3, padding=1), (2, 2, 7)),
    "conv2d": (lambda n: n.Conv2d(4, 6, 3, 2, 1, groups=2), (2, 4, 9, 8)),
    "conv2d dilated": (lambda n: n.Conv2d(2, 3, (3, 2), dilation=2, bias=False), (1, 2, 9, 8)),
    "conv2d same": (lambda n: n.Conv2d(2, 3, (5, 3), padding="same"), (1, 2, 7, 6)),
    "conv2d circular": (
        lambda n: n.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (1, 2, 5, 6),
    ),
    "conv2d reflect": (
        lambda n: n.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect"), (1, 2, 5, 6),
    ),
    "conv3d": (lambda n: n.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "conv transpose 1d": (lambda n: n.ConvTranspose1d(2, 3, 3, 2), (2, 2, 5)),
    "conv transpose 2d": (lambda n: n.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (2, 4, 4, 5)),
    "conv transpose 3d": (lambda n: n.ConvTranspose3d(2, 1, 2, 2), (1, 2, 2, 3, 2)),
    "layer norm": (lambda n: n.LayerNorm((3, 4)), (2, 3, 4)),
    "layer norm plain": (lambda n: n.LayerNorm(4, elementwise_affine=False), (2, 3, 4)),
    "rms norm": (lambda n: n.RMSNorm(4, eps=1e-6), (2, 3, 4)),
    "group norm": (lambda n: n.GroupNorm(2, 4), (2, 4, 5)),
    "batch norm 1d": (lambda n: n.BatchNorm1d(4), (6, 4)),
    "batch norm 1d sequence": (lambda n: n.BatchNorm1d(4, momentum=None), (3, 4, 5)),
    "batch norm 2d": (lambda n: n.BatchNorm2d(3, momentum=0.3), (4, 3, 5, 4)),
    "batch norm eval": (lambda n: n.BatchNorm2d(3).eval(), (4, 3, 5, 4)),
    "batch norm untracked": (
        lambda n: n.BatchNorm2d(3, track_running_stats=False).eval(), (4, 3, 5, 4),
    ),
    "instance norm": (lambda n: n.InstanceNorm2d(3, affine=True), (2, 3, 5, 4)),
    "max pool 1d": (lambda n: n.MaxPool1d(3, 2), (2, 3, 9)),
    "max pool 2d": (lambda n: n.MaxPool2d(3, 2, 1, ceil_mode=True), (2, 3, 8, 8)),
    "avg pool 2d": (lambda n: n.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 3, 8, 7)),
    "avg pool 3d": (lambda n: n.AvgPool3d(2), (1, 2, 4, 4, 4)),
    "adaptive avg": (lambda n: n.AdaptiveAvgPool2d((3, 2)), (2, 3, 7, 5)),
    "adaptive max": (lambda n: n.AdaptiveMaxPool2d(2), (2, 3, 7, 5)),
    "upsample nearest": (lambda n: n.Upsample(scale_factor=2), (1, 2, 3, 4)),
    "upsample bilinear": (lambda n: n.Upsample((7, 5), mode="bilinear"), (1, 2, 3, 4)),
    "upsample corners": (
        lambda n: n.Upsample((7, 5), mode="bilinear", align_corners=True), (1, 2, 3, 4),
    ),
    "relu": (lambda n: n.ReLU(), (3, 4)),
    "relu6": (lambda n: n.ReLU6(), (3, 4)),
    "leaky": (lambda n: n.LeakyReLU(0.2), (3, 4)),
    "elu": (lambda n: n.ELU(0.5), (3, 4)),
    "selu": (lambda n: n.SELU(), (3, 4)),
    "gelu": (lambda n: n.GELU(), (3, 4)),
    "gelu tanh": (lambda n: n.GELU("tanh"), (3, 4)),
    "silu": (lambda n: n.SiLU(), (3, 4)),
    "mish": (lambda n: n.Mish(), (3, 4)),
    "hardswish": (lambda n: n.Hardswish(), (3, 4)),
    "hardsigmoid": (lambda n: n.Hardsigmoid(), (3, 4)),
    "softplus": (lambda n: n.Softplus(2.0), (3, 4)),
    "softsign": (lambda n: n.Softsign(), (3, 4)),
    "log sigmoid": (lambda n: n.LogSigmoid(), (3, 4)),
    "softmax": (lambda n: n.Softmax(dim=1), (3, 4)),
    "log softmax": (lambda n: n.LogSoftmax(dim=0), (3, 4)),
    "flatten": (lambda n: n.Flatten(), (2, 3, 4)),
    "identity": (lambda n: n.Identity(), (2, 3)),
}  # fmt: skip


def agree(ours: gh.Tensor, theirs: torch.Tensor, what: str) -> None:
    np.testing.assert_allclose(
        ours.numpy(), theirs.detach().numpy(), rtol=2e-4, atol=2e-5, err_msg=what
    )


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    make, *shapes = LAYERS[name]
    torch.manual_seed(0)
    theirs, ours = make(torch.nn), make(nn)
    with torch.no_grad():  # no parameter or statistic at its start, where mistakes hide
        for tensor in theirs.state_dict().values():
            if tensor.dtype.is_floating_point:
                tensor.uniform_(0.5, 1.5)
    ours.load_state_dict(theirs.state_dict())
    arrays = [image(*shape) for shape in shapes]
    inputs = [gh.array(a, requires_grad=True) for a in arrays]
    wanted_inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out, wanted = ours(*inputs), theirs(*wanted_inputs)
    (out * out).sum().backward()
    (wanted * wanted).sum().backward()
    agree(out, wanted, "output")
    for number, (mine, other) in enumerate(zip(inputs, wanted_inputs, strict=True)):
        agree(mine.grad, other.grad, f"gradient of input {number}")
    grads = dict(theirs.named_parameters())
    for key, parameter in ours.named_parameters():
        agree(parameter.grad, grads[key].grad, f"gradient of {key}")
    for key, buffer in ours.named_buffers():
        agree(buffer, theirs.state_dict()[key], key)


def test_embedding_and_its_padding() -> None:
    theirs, ours = torch.nn.Embedding(5, 3, padding_idx=1), nn.Embedding(5, 3, padding_idx=1)
    assert ours.weight.numpy()[1].tolist() == [0, 0, 0]
    ours.load_state_dict(theirs.state_dict())
    ids = np.array([[0, 1], [4, 0]])
    out, wanted = ours(gh.array(ids)), theirs(torch.tensor(ids))
    (out * out).sum().backward()
    (wanted * wanted).sum().backward()
    agree(out, wanted, "output")
    agree(ours.weight.grad, theirs.weight.grad, "gradient")


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("case", ["plain", "causal", "padding", "bool mask", "3d mask", "cross"])
def test_multihead_attention(case: str, batch_first: bool) -> None:
    torch.manual_seed(0)
    options = {"batch_first": batch_first}
    theirs, ours = (
        torch.nn.MultiheadAttention(8, 2, **options),
        nn.MultiheadAttention(8, 2, **options),
    )
    ours.load_state_dict(theirs.state_dict())
    shape = (3, 5, 8) if batch_first else (5, 3, 8)
    x = image(*shape)
    other = image(*((3, 4, 8) if batch_first else (4, 3, 8))) if case == "cross" else x
    masks: dict[str, np.ndarray] = {}
    later = np.triu(np.ones((5, 5), bool), 1)
    if case == "bool mask":
        masks["attn_mask"] = later
    elif case == "3d mask":
        masks["attn_mask"] = np.tile(np.where(later, -1e9, 0.5).astype(np.float32), (6, 1, 1))
    elif case == "padding":
        masks["key_padding_mask"] = np.arange(5) >= np.array([[5], [3], [4]])
    for weights in (False, True):
        kwargs = {"need_weights": weights}
        a, b = gh.array(x), gh.array(other)
        b = a if case != "cross" else b
        causal = {"is_causal": True} if case == "causal" else {}
        out, seen = ours(a, b, b, **{k: gh.array(m) for k, m in masks.items()}, **kwargs, **causal)
        if case == "causal":
            causal = {"is_causal": True, "attn_mask": torch.tensor(later)}
        wanted, wanted_seen = theirs(
            torch.tensor(x), torch.tensor(other), torch.tensor(other),
            **{k: torch.tensor(m) for k, m in masks.items()}, **kwargs, **causal,
        )  # fmt: skip
        agree(out, wanted, f"weights {weights}")
        if weights:
            agree(seen, wanted_seen, "weights")
        else:
            assert seen is None


LINEAR = {
    "add": (1, lambda y, a: y + a),
    "add_add": (2, lambda y, a, b: y + a + b),
    "add_add_relu": (2, lambda y, a, b: np.maximum(y + a + b, 0)),
    "add_relu": (1, lambda y, a: np.maximum(y + a, 0)),
    "fast_gelu": (
        0, lambda y: 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))),
    ),
    "gelu": (0, lambda y: torch.nn.functional.gelu(torch.tensor(y)).numpy()),
    "hardswish": (0, lambda y: y * np.clip(y + 3, 0, 6) / 6),
    "mul": (1, lambda y, a: y * a),
    "mul_add": (2, lambda y, a, b: y * a + b),
    "mul_tanh": (1, lambda y, a: np.tanh(y * a)),
    "relu": (0, lambda y: np.maximum(y, 0)),
    "sigmoid": (0, lambda y: 1 / (1 + np.exp(-y))),
    "sigmoid_mul": (1, lambda y, a: a / (1 + np.exp(-y))),
    "sigmoid_mul_tanh": (1, lambda y, a: np.tanh(a / (1 + np.exp(-y)))),
    "softmax": (0, lambda y: np.exp(y) / np.exp(y).sum(-1, keepdims=True)),
    "swish": (0, lambda y: y / (1 + np.exp(-y))),
    "tanh": (0, np.tanh),
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR)
def test_specializations_of_linear(name: str) -> None:
    count, meaning = LINEAR[name]
    layer = nn.Linear(4, 3, specialization=name)
    x, more = image(2, 4), [image(2, 3) for _ in range(count)]
    plain = x.astype(np.float64) @ layer.weight.numpy().T + layer.bias.numpy()
    out = layer(gh.array(x), *[gh.array(m) for m in more])
    np.testing.assert_allclose(out.numpy(), meaning(plain, *more), 1e-5, 1e-5)
    assert f"specialization={name!r}" in repr(layer)
    with pytest.raises(TypeMismatch, match=f"takes {count} further operands"):
        layer(gh.array(x), *[gh.array(image(2, 3))] * (count + 1))


def test_permuting_linear() -> None:
    layer = nn.Linear(4, 12, specialization="permute", shape=(5, 3, 2), layout="m2n3")
    x = image(2 * 5, 4)
    plain = (x @ layer.weight.numpy().T + layer.bias.numpy()).reshape(2, 5, 3, 2, 2)
    wanted = plain.transpose(2, 0, 3, 1, 4)
    np.testing.assert_allclose(layer(gh.array(x)).numpy(), wanted, 1e-4, 1e-5)
    layer = nn.Linear(4, 12, specialization="permute", shape=(5, 3), layout="0213")
    plain = (x @ layer.weight.numpy().T + layer.bias.numpy()).reshape(2, 5, 3, 4)
    np.testing.assert_allclose(layer(gh.array(x)).numpy(), plain.transpose(0, 2, 1, 3), 1e-4, 1e-5)
    with pytest.raises(TypeMismatch, match="no specialization 'quick'; it has add, add_add"):
        nn.Linear(1, 1, specialization="quick")


LOSSES = {
    "MSELoss": ({}, "floats"),
    "L1Loss": ({}, "floats"),
    "SmoothL1Loss": ({"reduction": "sum"}, "floats"),
    "BCEWithLogitsLoss": ({}, "halves"),
    "CrossEntropyLoss": ({"label_smoothing": 0.1}, "classes"),
    "CrossEntropyLoss ": ({"ignore_index": 2, "reduction": "none"}, "classes"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    options, kind = LOSSES[name]
    x = image(6, 4)
    targets = {
        "floats": image(6, 4), "halves": RNG.random((6, 4), np.float32),
        "classes": np.array([0, 1, 2, 3, 2, 1]),
    }  # fmt: skip
    ours, theirs = gh.array(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    out = getattr(nn, name.strip())(**options)(ours, gh.array(targets[kind]))
    wanted = getattr(torch.nn, name.strip())(**options)(theirs, torch.tensor(targets[kind]))
    agree(out, wanted, "loss")
    out.sum().backward()
    wanted.sum().backward()
    agree(ours.grad, theirs.grad, "gradient")


def test_dropout_in_training_only() -> None:
    gh.manual_seed(0)
    layer = nn.Dropout(0.25)
    x = gh.ones(4000)
    out = layer(x).numpy()
    np.testing.assert_allclose(sorted(set(out)), [0, 4 / 3], 1e-6)
    assert 0.7 < (out > 0).mean() < 0.8
    assert layer(x).tolist() != layer(x).tolist()
    assert layer.eval()(x) is x


def test_dropped_elements_get_no_gradient() -> None:
    x = gh.array(np.ones(100, np.float32), requires_grad=True)
    out = F.dropout(x, 0.5)
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == out.tolist()


def test_attention_with_dropout() -> None:
    q = gh.array(image(2, 3, 4))
    with pytest.raises(Unsupported, match="attn_mask"):
        F.scaled_dot_product_attention(q, q, q, dropout_p=0.1, is_causal=True)
    mask = gh.array(np.tril(np.ones((3, 3), bool)))
    out = F.scaled_dot_product_attention(q, q, q, mask, dropout_p=1e-9)
    plain = F.scaled_dot_product_attention(q, q, q, mask)
    np.testing.assert_allclose(out.numpy(), plain.numpy(), 1e-4, 1e-5)


def test_mistakes_name_the_line() -> None:
    with pytest.raises(ShapeError, match="takes 2 or 3 dimensions") as caught:
        nn.BatchNorm1d(3)(gh.ones(1, 2, 3, 4))
    assert __file__ in str(caught.value)
    with pytest.raises(ShapeError, match="more than one value"):
        nn.BatchNorm1d(3)(gh.ones(1, 3))
    with pytest.raises(ShapeError, match="3 groups do not divide 4"):
        nn.Conv2d(4, 6, 1, groups=3)
    with pytest.raises(ShapeError, match="3 heads do not divide 8"):
        nn.MultiheadAttention(8, 3)
    with pytest.raises(Unsupported, match="modes nearest"):
        F.interpolate(gh.ones(1, 1, 2, 2), size=4, mode="area")


def test_layers_keep_symbolic_sizes() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip
    for mode in (True, False):
        graph = gh.trace(model.train(mode), gh.spec(("n", 3, 8, 8)))
        assert str(graph.outputs[0].type) == "float32[n, 2]"
