"""Models train on two ranks as they do in eager, with every graph compiled, on every rank."""

import pytest

from distributed.ranks import run_ranks
from glasshouse.record.reader import Recording
from glasshouse.record.schema import NEVER, DataRow, TimeRow

# Graphs, forward and backward each, that Dynamo makes of a model: DDP cuts at its buckets (one
# here), FSDP2 at its hooks, tensor parallel not at all. Layers of one class and of the same shapes
# share their graphs.
GRAPHS = {
    "mlp": {"ddp": 1, "fsdp": 2, "tp": 1},
    "gpt2": {"ddp": 1, "fsdp": 1, "tp": 1},
    "resnet": {"ddp": 1, "fsdp": 5, "tp": 1},
}
WITHOUT_GRADIENT = {("gpt2", "fsdp"): 1}  # the numbers of positions, by themselves


def check(rank, name, steps):
    for found in rank["trained"]:
        forward, backward = (found["phases"].count(p) for p in ("forward", "backward"))
        assert (forward, backward) == (GRAPHS[name][found["spread"]],) * 2, found
        inference = WITHOUT_GRADIENT.get((name, found["spread"]), 0)
        assert found["phases"].count("inference") == inference
        assert found["apart"] < 1e-5, found
        eager, compiled = found["losses"]
        assert len(eager) == steps
        assert eager == pytest.approx(compiled, abs=1e-5)


def test_layers_on_two_ranks_meet_in_collectives(tmp_path):
    """The reference executor runs the graphs: no kernel is built, the collectives are real."""
    case = {"model": "mlp", "spread": ["tp"], "steps": 3, "executor": "reference"}
    for rank in run_ranks("training_rank.py", tmp_path, case):
        check(rank, "mlp", 3)
        (sum_of_parts,) = rank["trained"][0]["collectives"]
        assert sum_of_parts["target"] == "_c10d_functional.all_reduce.default"
        assert sum_of_parts["group"].endswith("ranks 0 1")
        assert sum_of_parts["bytes"] == 6 * 32 * 4


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_two_ranks_train_as_in_eager_with_every_graph_compiled(tmp_path, name):
    """With an empty cache: rank 0 runs all compilers, and the other one finds what they made."""
    case = {"model": name, "spread": ["ddp", "fsdp", "tp"], "steps": 10, "executor": "compiled",
            "record": str(tmp_path / "ranks.glass")}  # fmt: skip
    cold = {
        "GLASSHOUSE_CACHE": str(tmp_path / "cache"),
        "GLASSHOUSE_CXXFLAGS": "",
    }  # as users build
    ranks = run_ranks("training_rank.py", tmp_path, case, environment=cold, seconds=1800)
    for rank in ranks:
        check(rank, name, 10)
        assert all(all(found["compiled"]) for found in rank["trained"])
    first, second = (rank["compiling"] for rank in ranks)
    print(f"{name}: compiling took {first['seconds']:.1f} s of processor time on rank 0, "
          f"{second['seconds']:.2f} s on rank 1 ({second['seconds'] / first['seconds']:.1%}), "
          f"{first['programs']} programs, {first['compilers']} runs of compilers")  # fmt: skip
    assert first["programs"] == second["programs"]
    assert first["compilers"] > 0
    assert second["compilers"] == 0
    assert second["seconds"] < 0.1 * first["seconds"]
    told = [rank["trained"][-1]["told"] for rank in ranks]
    assert told[0] == told[1]
    check_recording(tmp_path / "ranks.glass", len(ranks[0]["trained"][-1]["phases"]))


def check_recording(path, graphs):
    """Each graph stands for both ranks, which leave every collective at the same moment."""
    with Recording.open(path) as recording:
        whole = [v for v in recording.graphs if v.info.parent == NEVER]
        assert [v.name.rpartition(" ")[2] for v in whole] == ["0", "1"] * graphs
        ends = []
        for view in whole:
            starts = {t.node: t.start for t in view.table(TimeRow)}
            assert starts
            ends.append(
                [starts[d.node] + d.number for d in view.table(DataRow) if d.name == "waited (s)"]
            )
        assert any(ends)
        for mine, others in zip(ends[::2], ends[1::2], strict=True):
            assert mine == pytest.approx(others)
