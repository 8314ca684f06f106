"""Tasks on a Ray cluster: each on the node that the scheduler chose; Ray tells who died."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from glasshouse.backend.store import store_url
from glasshouse.distributed.schedule import WorkerNode
from glasshouse.distributed.task import Task, hardware
from glasshouse.distributed.worker import answer
from glasshouse.errors import ExecutionError, Unsupported

_SETTINGS = ("GLASSHOUSE_CACHE", "GLASSHOUSE_CACHE_KEY")
_LOOK = 5.0  # seconds between two looks at which nodes there are


class RayWorkers:
    """A cluster, by its address; "auto" is the one that this machine belongs to."""

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError:
            raise Unsupported(
                "Ray is not installed",
                hint="pip install 'glasshouse[ray]'; without ray= the same runs on this machine",
            ) from None
        self._ray: Any = ray
        self._settings = {k: os.environ[k] for k in _SETTINGS if k in os.environ}
        self._started = not ray.is_initialized()
        if self._started:
            try:
                _knock(address)
                ray.init(address=address, log_to_driver=False, logging_level="warning")
            except OSError as error:  # refused, timed out, no such host
                raise ExecutionError(
                    f"there is no Ray cluster at {address}: {error}",
                    hint="ray start --head starts one; its address is ADDRESS:6379",
                ) from None
        self._do = ray.remote(max_retries=0)(_answer)
        self._running: dict[Any, Task] = {}
        self._latest: dict[Task, Any] = {}
        self._known: set[str] = set()
        self._looked = 0.0

    def nodes(self) -> list[WorkerNode]:
        """All nodes of the cluster that have processors."""
        alive = self._alive()
        hosts = {n["NodeManagerAddress"] for n in alive.values()}
        if len(hosts) > 1 and store_url() is None:
            raise ExecutionError(
                f"the cluster has {len(hosts)} machines, and no store that all of them reach",
                hint="GLASSHOUSE_CACHE=s3://bucket/fleet, or file:///shared/folder",
            )
        return self._nodes(alive)

    def submit(self, task: Task, node: WorkerNode) -> None:
        """Run a task on its node; one that must be alone takes all of the node's processors."""
        processors = node.slots if task.alone else 1
        made = self._do.options(num_cpus=processors, scheduling_strategy=self._on(node.id))
        settings = {**self._settings, "GLASSHOUSE_BUILD_JOBS": str(processors)}
        ref = made.remote(task.to_json(), settings)
        self._running[ref], self._latest[task] = task, ref

    def wait(self) -> list[tuple[Task, dict[str, Any] | None]]:
        """Answers of tasks that ended, None for those whose process or node died; soon."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_LOOK)
        ended = [(self._running.pop(ref), ref) for ref in ready]
        # A task of a node that left may run elsewhere by now: its first end does not count.
        return [(task, self._answer(ref)) for task, ref in ended if self._latest[task] == ref]

    def changes(self) -> tuple[list[WorkerNode], list[str]]:
        """Nodes that joined, and those that are gone."""
        if time.monotonic() - self._looked < _LOOK:
            return [], []
        alive = self._alive()
        gone = [id for id in self._known if id not in alive]
        self._known.difference_update(gone)
        fresh = {id: n for id, n in alive.items() if id not in self._known}
        return self._nodes(fresh), gone

    def close(self) -> None:
        """Cancel what runs, and leave the cluster."""
        for ref in self._running:
            self._ray.cancel(ref, force=True)
        self._running.clear()
        if self._started:
            self._ray.shutdown()

    def _alive(self) -> dict[str, Any]:
        self._looked = time.monotonic()
        return {
            n["NodeID"]: n
            for n in self._ray.nodes()
            if n["Alive"] and n["Resources"].get("CPU", 0) >= 1
        }

    def _nodes(self, found: dict[str, Any]) -> list[WorkerNode]:
        """Each asked for its hardware; one that dies meanwhile is none."""
        ask = self._ray.remote(max_retries=0)(hardware)
        asked = {
            id: ask.options(num_cpus=0, scheduling_strategy=self._on(id)).remote() for id in found
        }
        out = []
        for id, ref in asked.items():
            try:
                kind = self._ray.get(ref, timeout=120)
            except self._ray.exceptions.RayError:
                continue
            self._known.add(id)
            out.append(WorkerNode(id, kind, int(found[id]["Resources"]["CPU"])))
        return out

    def _on(self, id: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(id, soft=False)

    def _answer(self, ref: Any) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:  # a mistake of ours, told as it is
            return {"error": str(error)}
        except self._ray.exceptions.RayError:  # the process or its node died
            return None
        return found


def _knock(address: str) -> None:
    """See whether anybody is at HOST:PORT: Ray would try for a minute, and print what it tries."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _answer(text: str, settings: dict[str, str]) -> dict[str, Any]:
    os.environ.update(settings)
    return answer(text)
