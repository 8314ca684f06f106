"""What goes into a traced model and comes out: containers, numbers, state, views, sizes."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import as_array, assert_same, outputs_of, same_as_torch
from glasshouse.frontend.torch import capture, opaque_ops


def module(function):
    class Function(nn.Module):
        def forward(self, *args, **kwargs):
            return function(*args, **kwargs)

    return Function()


def test_arguments_and_results_of_all_kinds():
    class Model(nn.Module):
        def forward(self, pair, options, scale, flag=True, nothing=None):
            x = pair[0] * scale + pair[1]
            out = x if flag else -x
            return {"sum": out, "more": (options["b"] * 2, None, 3, "text"), "size": x.shape[0]}

    x = torch.randn(2, 3)
    captured = same_as_torch(Model(), (x, x + 1), {"b": x}, 2, flag=False)
    assert len(captured.graph.inputs) == 3
    assert captured.graph.output_names == ["sum", "more.0"]


def test_objects_of_a_class_of_ones_own_go_in_and_out():
    @dataclass
    class State:
        values: torch.Tensor
        steps: int

    model = module(lambda state: State(state.values * 2, state.steps + 1))
    captured = capture(model, (State(torch.ones(3), 4),))
    out = captured.results(outputs_of(captured.graph, [torch.ones(3)]))
    assert type(out) is State
    assert_same(out.values, torch.full((3,), 2.0))
    assert out.steps == 5


def test_dynamic_sizes_have_the_names_of_their_dims():
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length")
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    shapes = ({0: batch, 1: length},)
    x = torch.randn(2, 3, 4)
    captured = same_as_torch(
        model, x, dynamic_shapes=shapes, others=[(torch.randn(5, 7, 4),), (torch.randn(1, 9, 4),)]
    )
    assert str(captured.graph.inputs[0].type) == "float32[batch, length, 4]"
    assert str(captured.graph.outputs[0].type) == "float32[batch, length, 8]"


def test_specs_stand_for_inputs_with_named_sizes():
    model = module(lambda x: x.reshape(x.shape[0], -1).sum(1))
    graph = gh.trace(model, gh.spec(("n", 2, 3)))
    assert str(graph.outputs[0].type) == "float32[n]"
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    np.testing.assert_allclose(outputs_of(graph, [x])[0], x.reshape(4, -1).sum(1))


def test_batch_norm_in_training_updates_its_statistics():
    model = nn.BatchNorm2d(3, momentum=0.3)
    x = torch.randn(4, 3, 5, 5)
    captured = capture(model.train(), (x,))
    state: dict = {}
    outputs = [outputs_of(captured.graph, [x * (i + 1)], variables=state)[0] for i in range(3)]
    wanted = [model(x * (i + 1)) for i in range(3)]
    for got, want in zip(outputs, wanted, strict=True):
        assert_same(got, want)
    for name, buffer in model.named_buffers():
        assert_same(state[name], buffer)


def test_a_cache_kept_in_a_buffer():
    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(2, 6, 4))

        def forward(self, new, place):
            self.keys[:, place] = new
            return self.keys.sum(1)

    new, place = torch.randn(2, 4), torch.tensor([1])
    captured = capture(Cache(), (new[:, None], place))
    state: dict = {}
    outputs_of(captured.graph, [new[:, None], place], variables=state)
    total = outputs_of(captured.graph, [new[:, None] + 1, place + 2], variables=state)[0]
    assert_same(total, new + new + 1)
    assert_same(state["keys"][:, 1], new)


def test_a_written_input_comes_out_as_a_further_output():
    def forward(x):
        x.add_(1)
        return x * 2

    captured = capture(module(forward), (torch.ones(3),))
    assert len(captured.written) == 1
    outputs = outputs_of(captured.graph, [np.ones(3, np.float32)])
    assert_same(captured.results(outputs), torch.full((3,), 4.0))
    assert_same(outputs[captured.written[0][1]], torch.full((3,), 2.0))


def through_views(x):
    y = x * 1
    rows = y.view(6, 4)
    rows[1] = 7.0
    column = y.transpose(0, 2)[1]
    column.mul_(3)
    first, second = y.split(2, dim=1)[:2]
    second += first.sum()
    y[..., ::2].copy_(torch.zeros_like(y[..., ::2]))
    torch.diagonal(y, 0, 1, 2).fill_(5.0)
    return rows, column, y, second


def test_writes_into_views_reach_everything_that_shares_the_memory():
    same_as_torch(module(through_views), torch.randn(2, 3, 4))


def test_a_shape_that_is_changed_in_place():
    def forward(x):
        y = x * 1
        rows = y.view(12)
        y.unsqueeze_(0)
        z = y.transpose_(1, 2)
        z.add_(1)
        y.squeeze_(0)
        y[0] = 3
        return y * 2, rows, x.t_() + 1

    captured = same_as_torch(module(forward), torch.randn(3, 4))
    assert not opaque_ops(captured.graph)


def test_a_copy_does_not_share_memory():
    def forward(x):
        y = x.clone()
        z = y.detach().clone()
        y[0] = 9.0
        return x + 0, y, z

    same_as_torch(module(forward), torch.randn(3))


def test_out_arguments_and_ops_that_only_exist_in_place():
    def forward(x):
        out = torch.empty_like(x)
        torch.add(x, x, out=out)
        out.clamp_(max=0.5).neg_()
        return out.masked_fill_(x > 1, 3.0)

    same_as_torch(module(forward), torch.randn(4, 5))


def test_complex_tensors_are_pairs_of_reals():
    def rotate(x, angle):
        turned = torch.view_as_complex(x) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned), turned.abs()

    captured = same_as_torch(module(rotate), torch.randn(3, 4, 2), torch.randn(4))
    assert not any(n.op.name == "opaque" for n in captured.graph.nodes)


@torch.library.custom_op("glasshouse_tests::reversed_rows", mutates_args=())
def reversed_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy()[::-1].copy())


@reversed_rows.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_op_without_spelling_is_an_opaque_node_that_runs():
    captured = same_as_torch(module(lambda x: reversed_rows(x) @ x), torch.randn(3, 3))
    opaque = [n for n in captured.graph.nodes if n.op.name == "opaque"]
    assert [n.attrs["target"] for n in opaque] == ["glasshouse_tests.reversed_rows.default"]
    assert opaque[0].origin.source.frames[-1].file == __file__
    assert opaque_ops(captured.graph) == {"glasshouse_tests.reversed_rows.default": 1}


def test_sizes_that_depend_on_data():
    captured = same_as_torch(
        module(lambda x: x[x > 0].sum() + torch.nonzero(x).shape[0]), torch.randn(7),
        others=[(torch.ones(7),), (-torch.ones(7),)],
    )  # fmt: skip
    assert any(n.op.name == "opaque" for n in captured.graph.nodes)


def test_random_ops_draw_anew_in_every_run():
    model = nn.Dropout(0.5)
    captured = capture(model.train(), (torch.ones(64),))
    state: dict = {}
    first, second = (outputs_of(captured.graph, [np.ones(64)], variables=state)[0] for _ in "ab")
    assert set(np.unique(first)) == {0.0, 2.0}
    assert not np.array_equal(first, second)


def test_graph_modules_are_taken_as_they_are():
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.randn(3, 4)
    made = make_fx(lambda x: (x.sin() + 1, x.shape[0]))(x)
    graph = gh.trace(made, x)
    assert [n.op.name for n in graph.nodes] == ["input", "sin", "constant", "add"]
    plain = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))
    assert_same(outputs_of(gh.trace(plain, x), [x])[0], plain(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_element_types_stay(dtype):
    x = (torch.randn(3, 4) * 5).to(dtype)
    captured = same_as_torch(module(lambda x: (x * 2, x + x.sum())), x, tolerance=2e-2)
    assert captured.graph.outputs[0].type.dtype.name == str(dtype).removeprefix("torch.")
    assert as_array(x).shape == (3, 4)


def test_autocast_computes_in_half_precision():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.linear(x)

    captured = same_as_torch(Model(), torch.randn(2, 4), tolerance=2e-2)
    matmul = next(n for n in captured.graph.nodes if n.op.name == "matmul")
    assert matmul.inputs[0].type.dtype is gh.bfloat16


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("size", [1, 2, 33, 64])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_sorted_rows_are_searched_as_pytorch_searches_them(right, size, lead):
    torch.manual_seed(size)
    row = torch.sort(torch.randint(0, 20, (*lead, size)).float(), -1)[0]
    values = torch.randint(-2, 23, (*lead, 30)).float()
    values[..., :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    broken = row.clone()
    broken[..., -1] = float("nan")  # sorts last
    search = module(lambda t, x: torch.searchsorted(t, x, right=right))
    same_as_torch(search, row, values, others=[(broken, values)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_norm_without_eps_has_that_of_its_sums(dtype):
    """Rows of 1e-3: with float16's own eps of 1e-3 results would be 30 times too small."""
    same_as_torch(nn.RMSNorm(16, dtype=dtype), (torch.randn(3, 16) * 1e-3).to(dtype))
    small = module(lambda x: torch.ops.aten._fused_rms_norm(x, [16], None, None))
    same_as_torch(small, (torch.randn(3, 16) * 1e-3).to(dtype))


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((3, 5), (7, 2), 3), ((2, 3, 4), (40, 0, 1), 5), ((), (), 7), ((1,), (99,), 0),
        ((5, 1, 2), (3, 11, 3), 0), ((0, 3), (1, 1), 0), ((4, 5), (1, 4), 2), ((4, 5), (0, 0), 2),
    ],
)  # fmt: skip
def test_strided_views_are_windows_not_tables_of_places(size, stride, offset):
    strided = module(lambda x: torch.as_strided(x * 1.0, size, stride, offset))
    x = torch.randn(4, 30)
    same_as_torch(strided, x)
    assert "take" not in {n.op.name for n in gh.trace(strided, x).nodes}


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("count", [3, 100])
def test_elements_among_few_or_many_are_found_as_pytorch_finds_them(invert, count):
    nan, inf = float("nan"), float("inf")
    torch.manual_seed(count)
    elements = torch.tensor([[1.0, nan, inf], [-inf, -0.0, 3.0]])
    among = module(lambda x, t: torch.isin(x, t, invert=invert))
    tables = [torch.randint(-9, 9, (count,)).float() for _ in range(3)]
    tables[1][:2] = torch.tensor([nan, inf])
    tables[2][...] = nan
    same_as_torch(among, elements, tables[0], others=[(elements, t) for t in tables[1:]])
    limits = torch.tensor([2**63 - 1, -(2**63), 0])
    numbers = torch.cat([torch.arange(count) - 5, limits[:2]])
    same_as_torch(among, limits, numbers)


@pytest.mark.parametrize(
    ("x", "mask", "source"),
    [
        ((6, 4), (6, 1), (9, 4)),  # whole rows, more than are asked for
        ((6, 4), (6, 1), (24,)),  # elements that go on across rows
        ((6, 4), (4,), (6, 4)),
        ((2, 3, 4), (2, 1, 1), (6, 4)),
        ((2, 3, 4), (2, 1, 1), (2, 3, 4)),
        ((1, 4), (3, 1), (3, 4)),
    ],
)
def test_a_masked_scatter_of_rows_is_one_of_elements(x, mask, source):
    given = torch.randn(x), torch.rand(mask) > 0.5, torch.randn(source)
    model = module(lambda x, mask, source: x.masked_scatter(mask, source))
    others = [(given[0], mask, given[2]) for mask in (given[1] & False, given[1] | True)]
    same_as_torch(model, *given, others=others)


@pytest.mark.parametrize(
    "spelled",
    [
        lambda x, mask, source: x.masked_scatter(mask, source),
        lambda x, mask, source: x.masked_scatter(mask.expand_as(x), source),
    ],
)
def test_a_masked_scatter_by_rows_counts_rows(spelled):
    model = module(spelled)
    x, mask = torch.randn(6, 4), torch.tensor([[True], [False], [True], [True], [False], [True]])
    same_as_torch(model, x, mask, x + 9)
    graph = gh.trace(model, x, mask, x)
    counted = [n.output.type.shape for n in graph.nodes if n.op.name == "cumsum"]
    assert counted == [(6,)]
