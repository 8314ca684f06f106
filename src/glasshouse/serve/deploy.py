"""A saved folder as an application of Ray Serve."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.runtime.load import check_saved
from glasshouse.serve.gather import check_limits


def deployment(
    folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    threads: int = 1,
    max_batch_size: int = 64,
    batch_wait_timeout_s: float = 0.002,
    **options: Any,
) -> Any:
    """An application that serves the model in a folder: `ray.serve.run(deployment("saved"))`.

    Requests that come while the model is busy, or within `batch_wait_timeout_s` of the first, are
    answered by one call of the model, up to `max_batch_size` of them, where it was compiled with a
    symbolic batch size; any other model answers one at a time. Each replica has `threads` threads,
    and as many of its node's processors. `options` are those of `ray.serve.deployment`:
    num_replicas, autoscaling_config, health_check_period_s. Requests are counted in metrics, and
    not logged one by one unless `logging_config` says so. All nodes must see the folder under its
    path.
    """
    try:
        from ray import serve
    except ImportError as error:
        raise ray_missing(error) from None
    check_limits(max_batch_size, batch_wait_timeout_s)
    path = Path(folder).resolve()
    check_saved(path)  # reported here, not by a replica that does not start
    actor = {"num_cpus": threads, **options.pop("ray_actor_options", {})}
    name = name or path.name
    # The next batches gather. A replica that is full is asked again after pauses of up to half a
    # second: with 4 at a time, 13 single calls a second got through, of 180 that it can answer.
    options.setdefault("max_ongoing_requests", max(4 * max_batch_size, 64))
    # Two thirds of the Python that Ray runs in a replica for a request write its line of the log.
    options.setdefault("logging_config", {"enable_access_log": False})
    from glasshouse.serve.replica import Replica

    made = serve.deployment(
        Replica,
        name=name,
        ray_actor_options=actor,
        user_config={
            "max_batch_size": max_batch_size, "batch_wait_timeout_s": batch_wait_timeout_s,
        },
        **options,
    )  # fmt: skip
    return made.bind(str(path), name, threads)


def app(arguments: Mapping[str, str]) -> Any:
    """For Ray's command and configuration: `serve run glasshouse.serve:app folder=saved`."""
    given = dict(arguments)
    if "folder" not in given:
        raise Unsupported("which model?", hint="serve run glasshouse.serve:app folder=saved")
    kinds = {"threads": int, "num_replicas": int, "max_batch_size": int,
             "batch_wait_timeout_s": float}  # fmt: skip
    options: dict[str, Any] = {k: kinds.get(k, str)(v) for k, v in given.items()}
    return deployment(**options)


def ray_missing(error: ImportError) -> Unsupported:
    return Unsupported(
        f"Ray Serve and Ray Data are not installed ({error})",
        hint="pip install 'glasshouse[serve]'; without Ray: examples/cpp/http.cpp",
    )
