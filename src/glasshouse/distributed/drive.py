"""Compiling a set of models: each is planned, its problems are measured, then it is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from glasshouse.distributed.schedule import Scheduler, WorkerNode
from glasshouse.distributed.task import BUILD, MEASURE, PLAN, Result, Task, content_of, notes_of
from glasshouse.errors import ExecutionError, TypeMismatch

Progress = Callable[[int, int, str], None]


@dataclass
class Report:
    """What came of one model on one kind of machine."""

    model: str
    hardware: str
    precision: str = ""
    nodes: int = 0
    kernels: int = 0
    measured: int = 0  # problems whose variants were measured, or had been
    unsure: int = 0  # problems that no machine was quiet enough to measure
    known: bool = False  # whether nothing was left to do
    error: str = ""


class Workers(Protocol):
    """Who does tasks: processes of this machine, or a cluster."""

    def nodes(self) -> list[WorkerNode]: ...

    def submit(self, task: Task, node: WorkerNode) -> None: ...

    def wait(self) -> list[tuple[Task, dict[str, Any] | None]]: ...

    def changes(self) -> tuple[list[WorkerNode], list[str]]: ...

    def close(self) -> None: ...


def compile(
    models: Iterable[Any],
    *,
    ray: str | None = None,
    jobs: int | None = None,
    precisions: Sequence[str] = ("",),
    tune: bool | None = None,
    tries: int = 4,
    progress: Progress | None = None,
) -> list[Report]:
    """Compile models so that `glasshouse.compile` finds them built: here, or on a Ray cluster.

    A model is what commands take: a .onnx or .pt2 file, or `path.py:function`. With `ray` (an
    address, or "auto") every kind of processor in the cluster gets its own measurements and builds;
    all nodes must see the models under their paths, and the store that GLASSHOUSE_CACHE names.
    `jobs` builds run at a time on this machine. `tune` is that of `glasshouse.compile`, which must
    be given the same to find the build: large problems are measured first, or all (True), or none
    (False); each alone on its machine. A task whose process or machine dies is tried again, `tries`
    times in all. What is done is noted: a call that was cut off goes on where it was.
    """
    given = list(models)
    wrong = [m for m in given if not isinstance(m, str)]
    if wrong or isinstance(models, str):
        kind = "a text" if isinstance(models, str) else type(wrong[0]).__name__
        raise TypeMismatch(
            f"distributed.compile takes a list of model files, not {kind}",
            hint='["model.onnx", "models.py:bert"]; the function returns a model and its inputs',
        )
    workers = _workers(ray, jobs)
    try:
        drive = _Drive(Scheduler(workers.nodes(), tries), workers, progress)
        contents = {model: content_of(model) for model in given}
        kinds = list(dict.fromkeys(n.hardware for n in drive.scheduler.nodes.values()))
        for hardware in kinds:
            for model in given:
                for precision in precisions:
                    drive.add(Task(PLAN, hardware, model, contents[model], precision, tune))
        drive.run()
        return list(drive.reports.values())
    finally:
        workers.close()


def _workers(ray: str | None, jobs: int | None) -> Workers:
    if ray is None:
        from glasshouse.distributed.local import LocalWorkers

        return LocalWorkers(jobs)
    from glasshouse.distributed.on_ray import RayWorkers

    return RayWorkers(ray)


@dataclass
class _Drive:
    """Turns what comes of tasks into further tasks, until nothing is left."""

    scheduler: Scheduler
    workers: Workers
    progress: Progress | None
    reports: dict[Task, Report] = field(default_factory=dict)  # by the plan of each model
    _needs: dict[Task, set[Task]] = field(default_factory=dict)  # plan -> measurements not done
    _measured: dict[Task, Result] = field(default_factory=dict)
    _asked: dict[Task, list[Task]] = field(default_factory=dict)  # measurement -> plans
    _plan_of: dict[Task, Task] = field(default_factory=dict)  # build -> plan
    _fresh: list[Task] = field(default_factory=list)  # whose notes were not looked for yet
    _done: int = 0
    _total: int = 0

    def add(self, task: Task) -> None:
        """Do a task, unless a note says what comes of it."""
        if task.kind == PLAN:
            self.reports[task] = Report(task.model, task.hardware, task.precision, known=True)
        self._total += 1
        self._fresh.append(task)

    def _look(self) -> None:
        """Look for the notes of all tasks that were added, and of those that follow from them."""
        while self._fresh:
            fresh, self._fresh = self._fresh, []
            for task, known in zip(fresh, notes_of(fresh), strict=True):
                if known is not None:
                    self._came(task, known)
                else:
                    for plan in self._plans(task):
                        self.reports[plan].known = False
                    self.scheduler.add(task)

    def run(self) -> None:
        self._look()
        while self.scheduler.waits:
            for task, node in self.scheduler.assign():
                self.workers.submit(task, node)
            if not self.scheduler.place:
                self._give_up()
                continue
            for task, answer in self.workers.wait():
                self._answered(task, answer)
            came, gone = self.workers.changes()
            for node in came:
                self.scheduler.join(node)
            lost = [task for id in gone for task in self.scheduler.leave(id)]
            for task in lost:
                if task in self.scheduler.failed:
                    self._failed(task)
            self._look()

    def _answered(self, task: Task, answer: dict[str, Any] | None) -> None:
        if task not in self.scheduler.place:  # its machine left meanwhile, and it waits again
            return
        if answer is None:
            if not self.scheduler.lost(task, "its process died, again and again"):
                self._failed(task)
        elif "error" in answer:
            self.scheduler.refuse(task, answer["error"])
            self._failed(task)
        else:
            self.scheduler.done(task)
            self._came(task, answer["result"])

    def _came(self, task: Task, result: Result) -> None:
        self._tell(task)
        if task.kind == PLAN:
            self._planned(task, result["problems"])
        elif task.kind == MEASURE:
            self._measured[task] = result
            for plan in self._asked[task]:
                self._count(plan, result)
                self._needs[plan].discard(task)
                self._build_if_ready(plan)
        else:
            report = self.reports[self._plan_of[task]]
            report.nodes, report.kernels = result["nodes"], result["kernels"]

    def _planned(self, plan: Task, problems: Iterable[str]) -> None:
        """Ask for the measurements that no model asked for yet, and wait for those not done."""
        wanted = [Task(MEASURE, plan.hardware, problem=p) for p in dict.fromkeys(problems)]
        fresh = [m for m in wanted if m not in self._asked]
        for measure in wanted:
            self._asked.setdefault(measure, []).append(plan)
            if measure in self._measured:
                self._count(plan, self._measured[measure])
        self._needs[plan] = {m for m in wanted if m not in self._measured}
        for measure in fresh:
            self.add(measure)
        self._build_if_ready(plan)

    def _count(self, plan: Task, result: Result) -> None:
        report = self.reports[plan]
        report.unsure += bool(result.get("busy"))
        report.measured += not result.get("busy")

    def _build_if_ready(self, plan: Task) -> None:
        build = replace(plan, kind=BUILD)
        if not self._needs[plan] and build not in self._plan_of:
            self._plan_of[build] = plan
            self.add(build)

    def _failed(self, task: Task) -> None:
        if task.kind == MEASURE:  # the usual variant will do
            self._came(task, {"busy": True})
        else:
            self._tell(task)
            self.reports[self._plan_of.get(task, task)].error = self.scheduler.failed[task]

    def _give_up(self) -> None:
        """No machine is left for what waits."""
        stuck = self.scheduler.stuck()
        raise ExecutionError(
            f"no machine is left for {len(stuck)} tasks, such as {stuck[0].name}"
            if stuck
            else "tasks wait, and none can run",
            hint="start the same again: what is done is kept",
        )

    def _plans(self, task: Task) -> list[Task]:
        if task.kind == MEASURE:
            return self._asked[task]
        return [self._plan_of.get(task, task)]

    def _tell(self, task: Task) -> None:
        self._done += 1
        if self.progress is not None:
            self.progress(self._done, self._total, task.name)
