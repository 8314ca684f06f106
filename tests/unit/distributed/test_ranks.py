"""Ranks meet in collectives: who comes last is named, and times are on one clock."""

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.distributed.ranks import RankGraph, merged
from glasshouse.distributed.timeline import RankStep, lined_up
from glasshouse.record.schema import DataRow, KernelRow, TimeRow
from glasshouse.record.writer import RecordingBuilder


def steps(*seconds):
    """Work and waits in turns; the last is work."""
    return [RankStep(f"k{i}", s, "sum" if i % 2 else "") for i, s in enumerate(seconds)]


def test_all_leave_a_collective_together_and_who_comes_last_is_known():
    line = lined_up([steps(1, 5, 2, 1, 4), steps(3, 3, 2, 1, 4), steps(6, 0.5, 1, 2, 4)])
    first, second = line.meetings
    assert (first.came, first.ended, first.last) == ((1, 3, 6), 6.5, 2)
    assert (first.late, first.kept_by) == (4, "k0")  # behind the middle of 1 and 3
    assert second.came == (8.5, 8.5, 7.5)
    assert second.ended == 9.5
    assert line.starts[0] == [0, 1, 6.5, 8.5, 9.5]
    assert line.seconds == 13.5
    assert line.straggler() == (2, 4)


def test_nobody_is_a_straggler_among_equals():
    assert lined_up([steps(1, 0.1, 1)] * 4).straggler() is None
    assert lined_up([steps(1, 0.1, 1)]).straggler() is None
    assert lined_up([]).seconds == 0


def test_ranks_with_fewer_collectives_are_lined_up_as_far_as_they_go():
    line = lined_up([steps(1, 1, 1), steps(1, 1, 1, 1, 1)])
    assert len(line.meetings) == 1
    assert [len(s) for s in line.starts] == [3, 5]


def rank_graph(code, seconds):
    """A recording with work, a wait for a collective, and work."""
    builder = RecordingBuilder("forward")
    graph = builder.graph("forward")
    graph.stage("compiled")
    wait = {"target": "_c10d_functional.wait_tensor.default", "group": "0: ranks 0 1"}
    for id, attrs in enumerate(({}, wait, {})):
        graph.node("Opaque", id=id, inputs=[id - 1] if id else [], attrs=attrs)
        graph.add(KernelRow(id, f"kernel{id}", id, [id], "cpu", "", f"{code}{id}"))
    return RankGraph("forward 0", builder.finish().to_bytes(), seconds)


def test_one_recording_holds_all_ranks():
    ranks = [[rank_graph("a", [1e-3, 4e-3, 1e-3])], [rank_graph("a", [4e-3, 1e-3, 1e-3])]]
    recording, told = merged(ranks)
    names = [g.name for g in recording.graphs]
    assert names == ["forward 0, rank 0", "forward 0, rank 1"]
    starts = [[t.start for t in g.table(TimeRow)] for g in recording.graphs]
    np.testing.assert_allclose(starts, [[0, 1e-3, 5e-3], [0, 4e-3, 5e-3]])
    waited = [[d.number for d in g.table(DataRow)] for g in recording.graphs]
    np.testing.assert_allclose(waited, [[4e-3], [1e-3]])
    (said,) = told
    assert said.startswith("forward 0: the others wait 3000 of 6000 µs for rank 1; most at the ")
    assert said.endswith("collective of 0: ranks 0 1, kept by kernel0")
    assert recording.header.facts["ranks: note 1"] == told[0]


def test_kernels_of_one_rank_alone_are_named():
    _, told = merged([[rank_graph("a", [1, 0, 1])], [rank_graph("b", [1, 0, 1])]])
    assert told == [
        "forward 0: rank 0 has 3 kernels of its own: kernel0, kernel1, kernel2",
        "forward 0: rank 1 has 3 kernels of its own: kernel0, kernel1, kernel2",
    ]
    _, told = merged([[rank_graph("a", [1, 0, 1])], []])
    assert told == ["forward 0: rank 1 has no such graph"]


def test_without_a_process_group_it_is_said():
    pytest.importorskip("torch")
    with pytest.raises(gh.errors.ExecutionError, match="no process group"):
        gh.distributed.record_ranks("never.glass")
