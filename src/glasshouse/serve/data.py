"""A saved model over the batches of a Ray dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError, nearest
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.load import check_saved, load
from glasshouse.serve.batching import BatchedModel, raise_error
from glasshouse.serve.deploy import ray_missing


def map_batches(
    dataset: Any,
    folder: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    threads: int = 1,
    batch_size: int = 256,
    concurrency: int | tuple[int, int] = 1,
    **options: Any,
) -> Any:
    """The dataset with the outputs of a saved model as further columns, named as the outputs are.

    Each input is the column of its name, or the one that `columns` gives for it; a dataset with one
    column needs neither. The model must have been compiled with a symbolic batch size. Actors, as
    many as `concurrency` says, load the folder once; `options` are those of `Dataset.map_batches`.
    """
    try:
        import ray.data  # noqa: F401
    except ImportError as error:
        raise ray_missing(error) from None
    path = Path(folder).resolve()
    check_saved(path)
    return dataset.map_batches(
        BatchRunner,
        fn_constructor_args=(str(path), dict(columns or {}), threads),
        batch_format="numpy", batch_size=batch_size, num_cpus=threads,
        **{"compute": _actors(concurrency), **options},
    )  # fmt: skip


def _actors(concurrency: int | tuple[int, int]) -> Any:
    from ray.data import ActorPoolStrategy

    if isinstance(concurrency, int):
        return ActorPoolStrategy(size=concurrency)
    least, most = concurrency
    return ActorPoolStrategy(min_size=least, max_size=most)


class BatchRunner:
    """What each actor of Ray Data holds: the loaded model, called with columns as arrays."""

    def __init__(self, folder: str, columns: Mapping[str, str], threads: int) -> None:
        self._model = BatchedModel(load(folder, threads=threads))
        if self._model.batch is None:
            raise ExecutionError(
                f"{folder}: the model was not compiled for batches of any size",
                hint='gh.compile(model, gh.spec(("batch", 64))) does',
            )
        self._columns = columns

    def __call__(self, batch: dict[str, Array]) -> dict[str, Array]:
        names = self._model.module.input_names
        wanted = {n: self._columns.get(n, n) for n in names}
        if len(names) == len(batch) == 1 and not self._columns:
            wanted = dict(zip(names, batch, strict=True))
        for name, column in wanted.items():
            if column not in batch:
                raise ExecutionError(
                    f"the dataset has no column {column!r} for the input {name!r}",
                    hint=f"columns={{{name!r}: ...}}; {nearest(column, batch, 'columns are')}",
                )
        given = {n: _whole(batch[c]) for n, c in wanted.items()}
        outputs = raise_error(*self._model.answers([self._model.checked((), given)]))
        return {**batch, **dict(zip(self._model.output_names, outputs, strict=True))}


def _whole(column: Array) -> Array:
    """Rows that are arrays of their own as one array."""
    return np.stack(list(column)) if column.dtype == object else column
