"""The drawing: columns and signs, blocks of flat graphs, text, the camera, training, delegates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from browser.kernels import compiled
from browser.recordings import chain, rich
from glasshouse import formats, nn
from glasshouse.nn.models import Llama, LlamaConfig
from glasshouse.nn.models.self_attention import SelfAttention
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.show.subject import recording_of

DATA = Path(__file__).parents[1] / "data"

BOXES = """() => {
  const { view } = window.glasshouse, out = [];
  const { scene } = view;
  const walk = (v, x, y) => {
    const r = v.shape.rect;
    for (let i = 0; i < v.count; i++) {
      if (r[4 * i + 2] === 0) continue;
      const box = {title: scene.title(v, i), sub: scene.sub(v, i), item: v.batch.item[v.first + i],
        x: x + r[4 * i], y: y + r[4 * i + 1], w: r[4 * i + 2], h: r[4 * i + 3]};
      const inside = scene.open(v, i);
      out.push({...box, open: inside !== null});
      if (inside) walk(inside, box.x, box.y);
    }
  };
  walk(scene.root, 0, 0);
  return out;
}"""
SIGNS = """() => {
  const { scene } = window.glasshouse.view, out = [];
  const { tagEnd, tagLabel } = scene.root.shape;
  tagEnd.forEach((end, k) => { if (end) out.push([end, scene.labels[tagLabel[k]]]); });
  return out;
}"""
LANES = """() => {
  const { shape } = window.glasshouse.view.scene.root, out = [];
  for (let e = 0; e < shape.edgeSrc.length; e++) {
    const xs = [];
    for (let i = shape.pathStart[e]; i < shape.pathStart[e + 1]; i++) xs.push(shape.points[3 * i]);
    out.push([shape.edgeSrc[e], shape.edgeDst[e], Math.min(...xs), Math.max(...xs)]);
  }
  return out;
}"""


def boxes(v: Any) -> dict[str, dict[str, Any]]:
    v.settle()
    return {b["title"]: b for b in v.page.evaluate(BOXES)}


def traced(model: Any, *inputs: Any) -> Recording:
    model.eval()
    return recording_of(gh.trace(model, *inputs))


class Skip(nn.Module):
    """Two layers, a skip connection around the second."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.fc1(x))
        return self.fc3(x + nn.functional.relu(self.fc2(x)))


def flat_chain(count: int) -> Recording:
    made = RecordingBuilder("flat")
    graph = made.graph("flat")
    graph.stage("traced")
    at = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    for i in range(count):
        at = graph.node(f"Op{i}", kind="elementwise", inputs=[at], outputs=["float32[8]"])
    graph.set_io([], [(at, 0)])
    return made.finish()


# ---------------------------------------------------------------------------- 1. columns
def test_what_reads_well_is_one_column_with_its_skip_at_the_right(viewer) -> None:
    v = viewer(traced(Skip(), np.zeros((4, 8), np.float32)))
    found = boxes(v)
    outer = [b for b in found.values() if b["title"] in ("fc1", "fc2", "fc3", "output")]
    middles = [b["x"] + b["w"] / 2 for b in outer]
    assert max(middles) - min(middles) < 60, "one column"
    assert v.page.evaluate(SIGNS) == []
    # The skip goes around the whole block, and is nowhere left of it.
    block = found["fc2"]
    skips = [lane for lane in v.page.evaluate(LANES) if lane[3] > block["x"] + block["w"]]
    assert skips, "the skip runs beside its block"
    assert all(lane[2] >= block["x"] for lane in skips), "at the right"


def test_query_key_and_value_stand_side_by_side(viewer) -> None:
    x, mask = np.zeros((1, 16, 96), np.float32), np.zeros((1, 1, 1, 16), np.float32)
    v = viewer(traced(SelfAttention(96, 4), x, mask))
    v.key("e")
    v.see("query")
    found = boxes(v)
    query, key, value = (found[name] for name in ("query", "key", "value"))
    assert query["y"] == key["y"] == value["y"], "at one height"
    assert query["x"] + query["w"] < key["x"] < key["x"] + key["w"] < value["x"]
    assert v.page.evaluate(SIGNS) == [], "twenty ops fit a column"


def test_what_cannot_be_read_wraps_with_the_same_sign_at_both_ends(viewer) -> None:
    v = viewer(flat_chain(40))
    signs = v.page.evaluate(SIGNS)
    leaving = {text.split(" → ")[0]: text.split(" → ")[1] for end, text in signs if end == 1}
    going_on = {text.split(" ← ")[0]: text.split(" ← ")[1] for end, text in signs if end == 2}
    assert leaving
    assert leaving.keys() == going_on.keys()
    for letter, reader in leaving.items():
        maker = going_on[letter]
        assert int(reader[2:]) == int(maker[2:]) + 1, "the sign names the neighbour across the gap"
    v.see("A → Op")
    v.see("A ← Op")
    # Nothing is drawn across the gap: every stroke stays in its column.
    assert all(high - low < 400 for _, _, low, high in lanes_without_jumps(v))


def lanes_without_jumps(v: Any) -> list[list[float]]:
    return v.page.evaluate(
        """() => {
          const { shape } = window.glasshouse.view.scene.root, out = [];
          for (let e = 0; e < shape.edgeSrc.length; e++) {
            let xs = [];
            const end = () => { out.push([0, 0, Math.min(...xs), Math.max(...xs)]); xs = []; };
            for (let i = shape.pathStart[e]; i < shape.pathStart[e + 1]; i++) {
              if (Number.isNaN(shape.points[3 * i + 2])) end();
              xs.push(shape.points[3 * i]);
            }
            end();
          }
          return out;
        }"""
    )


def test_small_groups_do_not_wrap(viewer) -> None:
    v = viewer(chain(16, 2))
    v.key("e")
    v.see("layers.1")
    found = v.page.evaluate(BOXES)
    for layer in ("layers.0", "layers.1"):
        sheet = next(b for b in found if b["title"] == layer)
        inside = [
            b for b in found
            if b["title"].startswith("part") and sheet["y"] < b["y"] < sheet["y"] + sheet["h"]
            and sheet["x"] <= b["x"] < sheet["x"] + sheet["w"]
        ]  # fmt: skip
        assert len(inside) == 8
        assert len({round(b["x"] + b["w"] / 2) for b in inside}) == 1, "one column"


def test_lists_that_computation_returns_to_are_no_boxes(viewer) -> None:
    """As in a U-Net: `down` is used, then a pool, then `down` again."""
    made = RecordingBuilder("unet")
    graph = made.graph("unet")
    graph.stage("traced")
    at = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    for i in range(2):
        group = graph.group_path("module", ["down", str(i)], ["ModuleList", "Double"])
        for op in ("Conv", "Relu"):
            at = graph.node(op, kind="conv", inputs=[at], outputs=["float32[8]"], groups=[group])
        at = graph.node("Pool", kind="reduction", inputs=[at], outputs=["float32[8]"])
    v = viewer(made.finish())
    v.key("c")
    v.see("down.1")
    found = boxes(v)
    assert "down" not in found
    assert found["down.0"]["y"] < found["down.1"]["y"]


# ---------------------------------------------------------------------------- 2. flat graphs
def flat_layers(layers: int, width: int = 0) -> Recording:
    """Layers of a transformer as a bare list of operators; names and order tell nothing."""
    made = RecordingBuilder("flat")
    graph = made.graph("flat")
    graph.stage("dump")
    hidden = "float32[1, 8, 16]"
    x = graph.node("Input", name="x", kind="source", outputs=[hidden])
    mask = graph.node("Input", name="mask", kind="source", outputs=["float32[1, 8]"])
    mask = graph.node("Reshape", kind="shape", inputs=[mask], outputs=["float32[1, 1, 8]"])

    def op(name: str, kind: str, *inputs: int, **attrs: str) -> int:
        return graph.node(name, kind=kind, inputs=list(inputs), outputs=[hidden], attrs=attrs)

    def weight() -> int:
        return graph.node("Constant", kind="source", outputs=["float32[16, 16]"])

    for i in range(layers):
        q, k, w = (op("Matmul", "matmul", x, weight()) for _ in range(3))
        score = op("Add", "elementwise", op("Matmul", "matmul", q, k), mask)
        mixed = op("Matmul", "matmul", op("Softmax", "reduction", score), w)
        x = op("Norm", "norm", op("Add", "elementwise", x, mixed))
        up = op("Gelu", "elementwise", op("Matmul", "matmul", x, weight()))
        down = op("Matmul", "matmul", up, weight(), alpha=str(float(i == width)))
        x = op("Norm", "norm", op("Add", "elementwise", x, down))
    graph.set_io([], [(x, 0)])
    return made.finish()


def u_net(levels: int) -> Recording:
    """Down and up again, a skip connection at each level."""
    made = RecordingBuilder("u")
    graph = made.graph("u")
    graph.stage("traced")
    start = at = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    kept = []

    def op(name: str, *inputs: int) -> int:
        group = graph.group_path("module", [name])
        shape = ["float32[8]"]
        work = graph.node("Conv", kind="conv", inputs=[*inputs], outputs=shape, groups=[group])
        return graph.node("Relu", kind="elementwise", inputs=[work], outputs=shape, groups=[group])

    for i in range(levels):
        at = op(f"down{i}", at)
        kept.append(at)
        at = op(f"pool{i}", at)
    at = op("middle", at)
    for i in reversed(range(levels)):
        at = op(f"up{i}", op(f"rise{i}", at), kept[i])
    graph.set_io([start], [(at, 0)])
    return made.finish()


def test_skips_around_the_middle_make_a_u(viewer) -> None:
    v = viewer(u_net(6), size=(1280, 720))
    v.page.evaluate("() => window.glasshouse.foldAll()")
    found = boxes(v)
    assert v.page.evaluate(SIGNS) == [], "nothing wraps"
    for i in range(6):
        down, up = found[f"down{i}"], found[f"up{i}"]
        assert abs(down["y"] - up["y"]) < 1, "both ends of a skip at one height"
        assert up["x"] > down["x"] + down["w"]
    assert found["down5"]["y"] > found["down0"]["y"]
    # It stays a U when something on the way up is unfolded.
    v.page.evaluate("(item) => window.glasshouse.setFold(item, 1)", found["up3"]["item"])
    found = boxes(v)
    assert found["up3"]["open"]
    assert v.page.evaluate(SIGNS) == []
    assert found["up0"]["y"] < found["up3"]["y"] < found["up5"]["y"] < found["middle"]["y"]


def test_the_shape_of_a_tensor_that_turns_back_stands_outside_of_its_box(viewer) -> None:
    v = viewer(u_net(4), size=(1280, 1200))
    v.page.evaluate("() => window.glasshouse.foldAll()")
    v.see("middle")
    [(x, y)] = v.places("middle")
    near = [at for at in v.places("f32[") if abs(at[0] - x) < 120 and abs(at[1] - y) < 60]
    assert [at for at in near if at[1] > y + 20], "it is written below"
    assert not [at for at in near if abs(at[1] - y) < 20]


def test_repeated_blocks_of_a_flat_graph_are_groups(viewer) -> None:
    v = viewer(flat_layers(12, width=-1))
    v.see("block × 12")
    assert not v.page.is_visible("text=Group by"), "there is one way to group it"
    v.page.evaluate("() => window.glasshouse.setFold(window.glasshouse.view.scene.itemOfKey(0), 0)")
    names = [b["title"] for b in v.page.evaluate(BOXES)]
    assert len(names) < 40, "the model at a glance"
    v.key("e")
    v.see("block.1")


def test_blocks_are_told_apart_by_attributes(viewer) -> None:
    """Layer 5 differs in one number: it is none of the blocks around it."""
    v = viewer(flat_layers(12, width=5))
    v.key("c")
    v.see("block × 5")
    v.see("block × 6")


def test_groupings_that_group_nothing_are_not_offered(viewer) -> None:
    made = RecordingBuilder("one")
    graph = made.graph("one")
    graph.stage("traced")
    everything = graph.group_path("module", ["all"])
    kinds = [graph.group_path("phase", [name]) for name in ("a", "b")]
    at: list[int] = []
    for i in range(6):
        groups = [everything, kinds[i // 3]]
        at = [graph.node("Relu", inputs=at, outputs=["float32[8]"], groups=groups)]
    v = viewer(made.finish())
    offered = v.page.evaluate("() => window.glasshouse.result.groupings")
    assert offered == ["phase"]


# ---------------------------------------------------------------------------- 3. text
ZOOM = """(scale) => {
  const app = window.glasshouse, c = app.view.camera, s = app.view.size;
  app.view.zoomBy(scale / c.scale);
}"""


def texts(v: Any) -> list[tuple[str, float, float, float, float]]:
    """Text, x, y, size and anchor of every word that is drawn."""
    v.settle()
    svg = v.page.evaluate("() => window.glasshouse.view.toSvg(false)")
    found = []
    for mark in re.findall(r"<text [^>]*>[^<]*</text>", svg):
        x, y = (float(re.search(rf' {k}="([^"]*)"', mark).group(1)) for k in "xy")
        size = float(re.search(r'font-size[:=]"?([\d.]+)', mark).group(1))
        found.append((re.sub("<[^>]*>", "", mark), x, y, size, 0.0))
    return found


def test_letters_keep_their_size(viewer) -> None:
    v = viewer(rich())
    v.key("e")
    v.see("FusedMatmul")
    for scale in (0.5, 1.0, 2.0, 4.0):
        v.page.evaluate(ZOOM, scale)
        sizes = [size for _, _, _, size, _ in texts(v)]
        assert sizes, scale
        assert min(sizes) >= 11, scale
        assert max(sizes) <= 13.5, "zooming in shows more, not larger letters"


def test_zooming_in_adds_facts(viewer) -> None:
    v = viewer(rich())
    v.pick("op:fusedmatmul")
    v.miss("of limit")
    v.page.evaluate(ZOOM, 2.2)
    v.see("50\u2009% of limit")
    v.page.evaluate(ZOOM, 4.0)
    v.see("void kernel_0")


def test_attributes_are_drawn_on_the_node(viewer) -> None:
    v = viewer(compiled(), stage=0)
    v.pick("op:matmul in:layer.2")
    v.miss("transpose_b")
    v.page.evaluate(ZOOM, 2.2)
    v.see("transpose_b = True")


def test_headers_stay_in_view_at_their_size(viewer) -> None:
    """Zoomed in until a group's top is far above the window, its name still stands at the top."""
    v = viewer(rich())
    v.key("e")
    v.pick("op:fusedmatmul")
    v.page.evaluate(ZOOM, 4.0)
    v.page.evaluate(
        """() => {
          const { view } = window.glasshouse;
          view.move(view.camera.pan(0, -200));
        }"""
    )
    group = boxes(v)["block0"]
    camera = v.page.evaluate("() => window.glasshouse.view.camera")
    assert camera["y"] + group["y"] * camera["scale"] < 0, "the group begins above the window"
    heads = [(y, size) for text, _, y, size, _ in texts(v) if text == "block0"]
    assert heads
    assert all(0 < y < 120 and 11 <= size <= 13.5 for y, size in heads)


@pytest.mark.parametrize("size", [(1280, 720), (900, 640)])
def test_breadcrumbs_cover_no_word(viewer, size: tuple[int, int]) -> None:
    v = viewer(rich(), size=size)
    v.key("e")
    v.pick("op:fusedmatmul")
    v.key("f")
    v.page.wait_for_selector(".crumbs .crumb")
    crumbs, ground = (v.page.locator(mark).bounding_box() for mark in (".crumbs", ".graph-canvas"))
    assert crumbs["y"] + crumbs["height"] <= ground["y"], "wherever the drawing is moved to"


def test_the_unfold_sign_covers_no_letter(viewer) -> None:
    made = RecordingBuilder("long")
    graph = made.graph("long")
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    body = made.graph("body", parent=0)
    body.stage("body")
    a = body.node("Input", kind="source", outputs=["float32[8]"])
    b = body.node("Relu", kind="elementwise", inputs=[a], outputs=["float32[8]"])
    body.set_io([a], [(b, 0)])
    name = " + ".join(["dense", "gelu"] * 9)  # longer than any box
    kernel = graph.node(
        "FusedMatmul*", name=name, kind="matmul", inputs=[x], outputs=["float32[8]"], bodies=[1]
    )
    graph.set_io([x], [(kernel, 0)])
    v = viewer(made.finish())
    v.see("dense")
    ((text, left, _, size, _),) = [t for t in texts(v) if t[0].startswith("dense")]
    wide = v.page.evaluate(
        "([t, px]) => window.glasshouse.view.builder.textWidth(t, px, 'bold')", [text, size]
    )
    box = next(b for b in v.page.evaluate(BOXES) if b["title"].startswith("dense"))
    camera = v.page.evaluate("() => window.glasshouse.view.camera")
    right = camera["x"] + (box["x"] + box["w"]) * camera["scale"]
    assert left + wide <= right - 12, "the corner with the sign is free"


# ---------------------------------------------------------------------------- 4. the camera
IN_WINDOW = """() => {
  const { view } = window.glasshouse, e = view.scene.extent(), c = view.camera, s = view.size;
  return c.x >= -1 && c.y >= -1 && c.x + e.w * c.scale <= s.width + 1 && c.y + e.h * c.scale <= s.height + 1;
}"""  # noqa: E501


def test_what_was_fitted_is_fitted_again(viewer) -> None:
    v = viewer(rich())
    v.key("c", "f")
    v.settle()
    assert v.page.evaluate("() => window.glasshouse.view.fitted")
    v.page.evaluate(
        "() => window.glasshouse.toggle(window.glasshouse.view.scene.root.batch.item[1])"
    )
    v.see("block1")
    assert v.page.evaluate(IN_WINDOW), "unfolding"
    v.key("[")
    v.page.wait_for_function("() => window.glasshouse.spec.stage === 0")
    v.settle()
    assert v.page.evaluate(IN_WINDOW), "stepping"
    assert v.page.evaluate("() => window.glasshouse.view.fitted")


def test_changes_that_are_shown_are_fitted_too(viewer) -> None:
    v = viewer(compiled(), size=(900, 640))
    v.key("e", "f")
    v.settle()
    assert v.page.evaluate("() => window.glasshouse.view.fitted")
    before = v.page.evaluate("() => window.glasshouse.view.scene.extent()")
    v.key("\\")
    v._until(
        lambda: v.page.evaluate("() => window.glasshouse.view.scene.extent()") != before,
        "what was removed is not drawn",
    )
    v._until(lambda: v.page.evaluate(IN_WINDOW), "the drawing sticks out of the window")


def test_what_is_opened_comes_into_view_with_the_least_move(viewer) -> None:
    v = viewer(chain(60, 4))
    v.key("c")
    v.see("layers")
    v.page.evaluate(
        "() => window.glasshouse.view.go(window.glasshouse.view.camera.pan(7, 250), false)"
    )
    assert not v.page.evaluate("() => window.glasshouse.view.fitted")
    item = boxes(v)["layers"]["item"]
    v.page.evaluate("(i) => window.glasshouse.toggle(i)", item)
    v.see("layers.3")
    sheet = v.page.evaluate(
        """(i) => {
          const { view } = window.glasshouse, p = view.scene.place(i), c = view.camera;
          return [c.y + p.y * c.scale, c.y + (p.y + p.h) * c.scale, view.size.height];
        }""",
        item,
    )
    top, bottom, height = sheet
    assert top >= 0
    assert bottom <= height


def test_what_was_opened_is_not_dimmed(viewer) -> None:
    v = viewer(rich())
    v.key("c")
    v.see("net")
    item = boxes(v)["net"]["item"]
    v.page.evaluate("(i) => window.glasshouse.select(i)", item)
    v.page.wait_for_function("() => window.glasshouse.view.strokes !== null")
    v.page.evaluate("(i) => window.glasshouse.toggle(i)", item)
    v.see("block1")
    v.page.wait_for_function("() => window.glasshouse.view.strokes !== null")
    svg = v.page.evaluate("() => window.glasshouse.view.toSvg(false)")
    assert "<path" in svg
    faint = re.findall(r'<path [^>]*stroke-opacity="0\.[0-5][^>]*>', svg)
    assert not faint, faint[:3]


# ---------------------------------------------------------------------------- 5. training
def training(steps: int) -> Recording:
    from glasshouse import optim

    gh.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = optim.AdamW(model.named_parameters(), lr=0.02)

    def run(x: Any, target: Any) -> Any:
        losses = []
        for _ in range(steps):
            losses.append(nn.functional.cross_entropy(model(x), target))
            optimizer.step(losses[-1])
        return losses

    return recording_of(gh.trace(run, np.zeros((3, 4), np.float32), np.zeros(3, np.int64)))


def test_training_is_steps_of_forward_backward_and_update(viewer) -> None:
    v = viewer(training(3))
    v.see("step × 3")
    found = boxes(v)
    names = [next(n for n in found if n.startswith(p)) for p in ("forward", "backward", "update")]
    heights = [found[n]["y"] for n in names]
    assert heights == sorted(heights), "in the order of a step"
    assert not found["state"]["open"], "where training starts from is no part of a step"
    assert v.page.evaluate("() => window.glasshouse.spec.grouping") == "step"


def test_a_traced_step_has_its_update_and_no_boxes_for_tensors(viewer) -> None:
    v = viewer(formats.read(DATA / "jittor" / "simple_model_train.pkl"))
    v.see("update")
    found = boxes(v)
    assert found["initialisation"]["y"] < found["update.opt"]["y"]
    assert not found["initialisation"]["open"], "the first view shows what trains"
    assert any(b["open"] for b in found.values())
    v.key("e")
    v._until(lambda: len(v.page.evaluate(BOXES)) > 100, "all of it is drawn")
    tensors = sorted(b["sub"] for b in v.page.evaluate(BOXES) if b["title"] == "Var")
    # A tensor is an edge: of 123 in this trace eight are boxes, of the parameters' shapes.
    assert tensors == sorted(2 * ["f32[10,1]", "f32[10]", "f32[1,10]", "f32[1]"])


def test_a_gradient_names_the_op_that_it_is_of(viewer) -> None:
    """And goes there: the op of the forward pass is part of the drawing, not a number that died."""
    v = viewer(training(1), size=(1600, 900))
    v.search("is:gradient")
    v.page.wait_for_selector(".palette .hit")
    v.key("Enter")
    link = v.page.locator(".details dt:has-text('Gradient of') + dd button")
    link.wait_for()
    name = link.inner_text()
    assert name
    assert not name.lstrip("%").isdigit()
    link.click()
    v.key("Escape")
    v.page.wait_for_selector(".crumbs:has-text('forward')")
    v.page.wait_for_selector(f".details h2:has-text({name.split()[0]!r})")


def test_the_first_view_opens_what_matters(viewer) -> None:
    """Many small ops in one group, one large product in the other: the product is what is shown."""
    made = RecordingBuilder("weights")
    graph = made.graph("weights")
    graph.stage("traced")
    at = graph.node("Input", name="x", kind="source", outputs=["float32[8, 8]"])
    # Both would fill the window; there is room for one of them.
    for name, count, op, kind in (
        ("norm", 9, "Scale", "elementwise"),
        ("core", 9, "Product", "matmul"),
    ):
        group = graph.group_path("module", ["net", name])
        shape = "float32[512, 512]" if op == "Product" else "float32[8, 8]"
        for _ in range(count):
            at = graph.node(op, kind=kind, inputs=[at], outputs=[shape], groups=[group])
    v = viewer(made.finish(), size=(1280, 620))
    v.see("Product")
    v.miss("Scale")


def test_a_model_opens_on_its_layers_not_on_tables_of_positions(viewer) -> None:
    """What is computed from constants alone is one box; a layer's parts are what one sees."""
    config = LlamaConfig(
        vocab_size=16, hidden_size=8, intermediate_size=16, num_hidden_layers=3,
        num_attention_heads=2, num_key_value_heads=2,
    )  # fmt: skip
    v = viewer(traced(Llama(config), np.zeros((1, 4), np.int64)))
    for name in ("self_attn", "mlp", "from constants"):
        v.see(name)
    assert not {"Cos", "Sin", "Power"} & boxes(v).keys()
    v.search("group:constants")
    v.page.wait_for_selector(".palette .hit:has-text('from constants')")


def test_a_delegate_is_named_by_its_backend_and_opens_in_place(viewer) -> None:
    made = RecordingBuilder("edge")
    graph = made.graph("edge")
    graph.stage("edge")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    graph.node("Constant", name="old.weight", kind="source", outputs=["float32[8]"])
    graph.node("Constant", name="old.bias", kind="source", outputs=["float32[8]"])
    room = graph.node("memory.alloc", kind="move", outputs=["float32[8]"])
    inside = made.graph("given away", parent=0)
    inside.stage("body")
    a = inside.node("Input", kind="source", outputs=["float32[8]"])
    b = inside.node("Input", kind="source", outputs=["float32[8]"])
    deep = inside.node("DeepRelu", kind="elementwise", inputs=[a], outputs=["float32[8]"])
    inside.set_io([a, b], [(deep, 0)])
    call = graph.node(
        "executorch_call_delegate", kind="opaque", inputs=[x, room],
        outputs=["float32[8]", "float32[8]"], attrs={"delegate": "NpuBackend"}, bodies=[1],
    )  # fmt: skip
    first = graph.node("getitem", name="getitem_1", inputs=[(call, 1)], outputs=["float32[8]"])
    last = graph.node("Relu", kind="elementwise", inputs=[first], outputs=["float32[8]"])
    graph.set_io([x], [(last, 0)])
    v = viewer(made.finish())
    v.see("NpuBackend")
    found = boxes(v)
    assert not {"getitem", "memory.alloc", "old.weight", "executorch_call_delegate"} & found.keys()
    assert found["not read"]["sub"] == "2 values"
    v.page.evaluate("(i) => window.glasshouse.toggle(i)", found["NpuBackend"]["item"])
    v.see("DeepRelu")


# ---------------------------------------------------------------------------- 17. frames
def test_no_frame_waits_for_a_layout(viewer) -> None:
    """The page answers while thousands of boxes are being laid out: layout is the worker's."""
    v = viewer(chain(6000, 40))
    seen = v.page.evaluate(
        """async () => {
          const app = window.glasshouse;
          const done = app.flatten();
          let frames = 0, open = true;
          done.then(() => { open = false; });
          while (open) { await new Promise((r) => requestAnimationFrame(r)); frames++; }
          return [frames, app.result.boxes];
        }"""
    )
    frames, drawn = seen
    assert frames > 2, "frames were drawn while the layout ran"
    assert drawn > 5000
