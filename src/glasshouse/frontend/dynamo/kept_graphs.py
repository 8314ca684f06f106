"""Captured graphs that are kept on disk, so that the next process need not trace them again.

Tracing what Dynamo hands over takes more time than all passes do (GPT-2 small: 0.6 of 1.0 s in the
warm case). A kept graph is what was captured, before any pass, with lines and module paths; weights
are not in it, but put in from the call. So passes, lowering and their recording are those of this
process. `graph_key.py` says when a graph is the same.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from glasshouse.backend.cache import write_bytes
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.errors import GlasshouseError
from glasshouse.frontend.torch.dtypes import dtype_of
from glasshouse.frontend.torch.program import Captured
from glasshouse.frontend.torch.weights import data_of
from glasshouse.ir.dtype import DType, as_dtype
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Op, op_named
from glasshouse.runtime.late_array import DeviceArray

_LOG = logging.getLogger("glasshouse.torch")
_LARGEST = 32 << 20  # bytes of a kept graph; larger ones hold tables that are as quickly computed
Weights = Mapping[str, torch.Tensor]


def _rows(graph: Graph) -> tuple[Any, ...]:
    """A graph as plain rows: objects that point to one another are deeper than pickle goes."""
    place = {v: (i, v.index) for i, n in enumerate(graph.nodes) for v in n.outputs}
    nodes = [
        (n.id, n.op, [place[v] for v in n.inputs], dict(n.attrs), [v.type for v in n.outputs],
         n.origin)
        for n in graph.nodes
    ]  # fmt: skip
    at = {n: i for i, n in enumerate(graph.nodes)}
    return (
        graph.name, nodes, [place[v] for v in graph.inputs], [place[v] for v in graph.outputs],
        graph.output_names, [(at[n], place[v]) for n, v in graph.updates.items()],
        graph.signature, dict(graph.written), graph._next_id,
    )  # fmt: skip


def _graph(rows: tuple[Any, ...]) -> Graph:
    name, nodes, inputs, outputs, output_names, updates, signature, written, next_id = rows
    graph = Graph(name)
    made: list[Any] = []
    for id, op, operands, attrs, types, origin in nodes:
        values = tuple(made[i].outputs[k] for i, k in operands)
        made.append(graph._add(op, values, attrs, types, origin, id))
    graph.inputs = [made[i].outputs[k] for i, k in inputs]
    graph._set_outputs([made[i].outputs[k] for i, k in outputs], output_names)
    for number, (i, k) in updates:
        graph._set_update(made[number], made[i].outputs[k])
    graph.signature, graph.written, graph._next_id = signature, written, next_id
    return graph


class _GraphPickler(pickle.Pickler):
    """Ops, element types and weights by name; whatever else Python cannot pickle is refused."""

    def __init__(self, out: io.BytesIO, names: Mapping[int, str]) -> None:
        super().__init__(out, protocol=5)
        self._names = names  # by id of the array

    def persistent_id(self, held: Any) -> Any:
        return self._names.get(id(held)) if isinstance(held, (np.ndarray, DeviceArray)) else None

    def reducer_override(self, held: Any) -> Any:
        if isinstance(held, Op):
            return op_named, (held.name,)
        if isinstance(held, DType):
            return as_dtype, (held.name,)
        if isinstance(held, Graph):
            return _graph, (_rows(held),)
        return NotImplemented


class _GraphUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes, weights: Weights) -> None:
        super().__init__(io.BytesIO(data))
        self._weights = weights

    def persistent_load(self, name: Any) -> Any:
        tensor = self._weights[name]
        return data_of(tensor, dtype_of(tensor.dtype))


class KeptGraph:
    """What was captured of one graph: without weights, to be captured with any."""

    def __init__(
        self, names: Mapping[int, str], layouts: list[Any], data: bytes, earlier: bool = False
    ) -> None:
        """`names` are those of weights by number of the argument, `layouts` those of results.

        `earlier`: another process captured it.
        """
        self.names = dict(names)
        self.layouts = layouts
        self.earlier = earlier
        self.packed = 0  # bytes of weights that the first module prepared
        self.ahead: Any = None  # memory for them, until that module is made
        self._data = data

    @staticmethod
    def of(captured: Captured, names: Mapping[int, str], layouts: list[Any]) -> KeptGraph | None:
        """What was captured, unless something in it cannot be pickled."""
        data = io.BytesIO()
        arrays = {
            id(n.attrs["data"]): n.attrs["name"]
            for n in captured.graph.nodes
            if n.attrs.get("name") in names.values() and n.attrs.get("data") is not None
        }
        fields = {k: v for k, v in vars(captured).items() if k not in ("graph", "out_spec")}
        try:
            spec = pytree.treespec_dumps(captured.out_spec) if captured.out_spec else ""
            _GraphPickler(data, arrays).dump((captured.graph, fields, spec))
        except Exception as error:  # whatever the objects in it do when they are pickled
            _LOG.debug("a graph is not kept: %r", error)
            return None
        return KeptGraph(names, layouts, data.getvalue()) if data.tell() <= _LARGEST else None

    def captured(self, tensors: Mapping[int, torch.Tensor]) -> Captured:
        """The graph with these weights."""
        named = {self.names[i]: tensor.detach() for i, tensor in tensors.items()}
        with unset_fake_temporarily():
            graph, fields, spec = _GraphUnpickler(self._data, named).load()
        return Captured(graph, out_spec=pytree.treespec_loads(spec) if spec else None, **fields)

    def keep(self, key: str) -> None:
        """Write it to disk, for other processes."""
        with suppress(GlasshouseError):
            fields = (self.names, self.layouts, self._data, self.packed)
            whole = pickle.dumps(fields, protocol=5)
            write_bytes(made_cache_folder() / f"graph-{key}.pickle", whole)


def find_kept(key: str, examples: Sequence[Any]) -> tuple[KeptGraph, Captured] | None:
    """What was kept under a key, and captured with the weights among the arguments of a call; a
    file that cannot be read is as good as none."""
    from glasshouse.runtime.prefault import Prefaulted

    ahead = None
    try:
        path = made_cache_folder() / f"graph-{key}.pickle"
        names, layouts, data, packed = pickle.loads(path.read_bytes())
        kept = KeptGraph(names, layouts, data, earlier=True)
        kept.packed, kept.ahead = packed, Prefaulted(packed)  # beside all that comes before packing
        ahead = kept.ahead
        first = kept.captured({i: examples[i] for i in names})
        os.utime(path)
    except Exception as error:
        if ahead is not None:
            ahead.close()
        if not isinstance(error, FileNotFoundError):
            _LOG.debug("a kept graph cannot be read: %r", error)
        return None
    _LOG.info("a graph of %d weights was captured before", len(names))
    return kept, first
