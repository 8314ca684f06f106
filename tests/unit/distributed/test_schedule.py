"""Measurements run alone, builds beside each other, and nothing is lost with a machine."""

import random

import pytest

from glasshouse.distributed.schedule import Scheduler, WorkerNode
from glasshouse.distributed.task import BUILD, MEASURE, Task


def builds(count, hardware="zen"):
    return [Task(BUILD, hardware, f"model{i}") for i in range(count)]


def measures(count, hardware="zen"):
    return [Task(MEASURE, hardware, problem=f'{{"key": "conv {i}"}}') for i in range(count)]


def added(scheduler, tasks):
    for task in tasks:
        scheduler.add(task)
    return scheduler


def test_builds_fill_the_slots_of_machines_with_their_hardware():
    nodes = [WorkerNode("a", "zen", 2), WorkerNode("b", "arm", 4)]
    scheduler = added(Scheduler(nodes), builds(3))
    first = scheduler.assign()
    assert [n.id for _, n in first] == ["a", "a"]
    assert scheduler.assign() == []
    scheduler.done(first[0][0])
    assert [t.model for t, _ in scheduler.assign()] == ["model2"]


def test_a_measurement_waits_for_its_machine_to_be_empty_and_keeps_others_off():
    scheduler = added(Scheduler([WorkerNode("a", "zen", 2)]), builds(1))
    ((build, node),) = scheduler.assign()
    (measure,) = measures(1)
    added(scheduler, [measure, *builds(2)[1:]])
    assert scheduler.assign() == []  # the machine empties
    scheduler.done(build)
    assert scheduler.assign() == [(measure, node)]
    assert scheduler.assign() == []  # alone
    scheduler.done(measure)
    assert [t.model for t, _ in scheduler.assign()] == ["model1"]


def test_a_lost_task_is_tried_again_but_not_for_ever():
    scheduler = added(Scheduler([WorkerNode("a", "zen", 1)], tries=2), builds(1))
    for again in (True, False):
        ((task, _),) = scheduler.assign()
        assert scheduler.lost(task, "killed") is again
    assert scheduler.failed == {task: "killed"}
    assert not scheduler.waits


def test_what_ran_or_waited_on_a_machine_that_leaves_goes_to_another():
    scheduler = added(Scheduler([WorkerNode("a", "zen", 1)]), builds(1))
    scheduler.assign()
    (measure,) = measures(1)
    added(scheduler, [measure])
    scheduler.assign()  # machine a is kept for it
    scheduler.leave("a")
    assert scheduler.waits
    assert {t.kind for t in scheduler.stuck()} == {BUILD, MEASURE}
    scheduler.join(WorkerNode("b", "zen", 1))
    assert not scheduler.stuck()
    assert [t for t, _ in scheduler.assign()] == [measure]


@pytest.mark.parametrize("seed", range(5))
def test_every_task_is_done_once_whatever_is_lost(seed):
    """Ten machines of two kinds that lose tasks and come and go at random."""
    dice = random.Random(seed)
    tasks = [*builds(40), *measures(40), *builds(20, "arm"), *measures(20, "arm")]
    nodes = [WorkerNode(f"n{i}", ("zen", "arm")[i % 2], 2) for i in range(10)]
    scheduler = added(Scheduler(nodes, tries=1000), tasks)
    done, running, number = [], [], 10
    while scheduler.waits:
        running += [t for t, _ in scheduler.assign()]
        for node in scheduler.nodes.values():
            assert len(node.running) <= node.slots
            assert len(node.running) == 1 or not any(t.alone for t in node.running)
        task = running.pop(dice.randrange(len(running)))
        fate = dice.random()
        if fate < 0.2:
            scheduler.lost(task, "killed")
        elif fate < 0.25:
            gone = scheduler.place[task]
            running = [t for t in running if t not in gone.running]
            scheduler.leave(gone.id)
            number += 1
            scheduler.join(WorkerNode(f"n{number}", gone.hardware, 2))
        else:
            scheduler.done(task)
            done.append(task)
    assert sorted(done, key=Task.to_json) == sorted(tasks, key=Task.to_json)
