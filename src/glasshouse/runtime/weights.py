"""Weights of a compiled model that change afterwards: noticed, reported once, or followed.

Some constants of a module are the model's own memory, others are packed copies, others were folded
into one another. So a model that is trained on does not change its module, or changes a part of it.
Every tensor of PyTorch has a counter of the writes to it; comparing them is what noticing costs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import ref

from glasshouse.errors import ExecutionError, StaleWeights

FIRST, SELDOM = 16, 4096
"""Counters are compared at each of the first calls, then whenever there were as many calls again as
before, at least at every so many: two layers take 15 us to compare, and 3 us to run."""


def state_of(model: Any) -> dict[str, Any]:
    """Parameters and buffers by name, of a model or as `state_dict()` gives them; not those that
    have no data (on the meta device), because a module took it over."""
    if isinstance(model, Mapping):
        return dict(model)
    if not hasattr(model, "named_parameters"):
        raise ExecutionError(
            f"weights are taken from a model or its state_dict(), got a {type(model).__name__}"
        )
    found = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor for name, tensor in found.items() if not tensor.is_meta}


class Folded:
    """Names of weights that the graph had and the module has not: passes made others of them."""

    def __init__(self, traced: Iterable[str], kept: Iterable[str]) -> None:
        self.names = sorted(set(traced) - set(kept))

    def refuse(self, changed: Iterable[str]) -> None:
        """Those among the changed ones cannot be set."""
        lost = [name for name in self.names if name in set(changed)]
        if lost:
            some = ", ".join(lost[:4]) + (f" and {len(lost) - 4} more" if len(lost) > 4 else "")
            raise ExecutionError(
                f"{some}: folded into other constants when the model was compiled",
                hint="compile it again: glasshouse.compile(model, *inputs); kernels that were "
                "built are not built again",
            )


class Watch:
    """The model that a module was compiled from, and its counters as they were then."""

    def __init__(self, model: Any, follow: bool) -> None:
        self._model = ref(model)
        self.follow = follow
        self._calls = 0  # up to the next look
        self._known = _versions(model)

    def next_look(self) -> int:
        """How many calls may go by until counters are compared again."""
        gap = 1 if self.follow or self._calls < FIRST else min(self._calls, SELDOM)
        self._calls += gap
        return gap - 1

    def changed(self) -> dict[str, Any]:
        """What was written to, or replaced, since it was last reported."""
        model = self._model()
        if model is None:
            return {}
        now = _versions(model)
        names = [name for name, version in now.items() if self._known.get(name) != version]
        state = state_of(model) if names else {}
        return {name: state[name] for name in names}

    def reported(self) -> None:
        model = self._model()
        if model is not None:
            self._known = _versions(model)


def look(watch: Watch, update: Callable[[Mapping[str, Any]], None]) -> bool:
    """Follow or tell of what has changed; whether to go on watching."""
    changed = watch.changed()
    if not changed:
        return True
    if watch.follow:
        update(changed)
        watch.reported()
        return True
    some = ", ".join(list(changed)[:3])
    warnings.warn(
        f"{len(changed)} weights of the model have changed since it was compiled ({some} ...), and "
        "this module computes with old ones: call module.update_weights(model), or compile with "
        "follow_weights=True",
        StaleWeights,
        stacklevel=4,
    )
    return False


def _versions(model: Any) -> dict[str, tuple[int, int]]:
    found = {}
    for name, tensor in state_of(model).items():
        try:
            found[name] = (tensor.data_ptr(), tensor._version)
        except RuntimeError:  # made in inference mode, or without memory: it has no counter
            found[name] = (id(tensor), 0)
    return found
