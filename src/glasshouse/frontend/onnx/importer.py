"""How an ONNX graph becomes nodes: one after the other, each with its origin.

A node is spelled in core ops; where that refuses, the body that ONNX itself defines for the op is
inlined; where there is none, an opaque node runs it through ONNX's reference evaluator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import CaptureError, FormatError, GlasshouseError
from glasshouse.frontend.onnx import functions, registry, sizes
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.fold import Folder
from glasshouse.frontend.onnx.item import Array, Item, of_handle
from glasshouse.frontend.onnx.load import OnnxModel
from glasshouse.frontend.onnx.opaque import opaque_call
from glasshouse.frontend.onnx.shapes import declared_type
from glasshouse.frontend.onnx.tensors import array_of
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.origin import Scope
from glasshouse.ir.sources import INPUT
from glasshouse.ir.types import TensorType

Env = dict[str, Any]  # name -> Item, or a tuple of items for a sequence
MAX_DEPTH = 100  # functions that call functions, bodies in bodies
MAX_SPARSE = 1 << 28  # elements of a sparse tensor, which is made dense
MAX_NODES = 2_000_000  # functions that call each other twice unfold without end
# What a node with missing or senseless attributes ends in, somewhere inside a spelling.
_DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, AssertionError,
)  # fmt: skip


class OnnxImporter:
    """Adds the nodes of ONNX graphs to a builder's graph."""

    def __init__(
        self,
        model: OnnxModel,
        builder: GraphBuilder,
        env: Env,
        *,
        opsets: Mapping[str, int],
        prefix: tuple[Scope, ...] = (),
        folder: Folder | None = None,
        depth: int = 0,
    ) -> None:
        if depth > MAX_DEPTH:
            raise CaptureError(f"functions and bodies are nested more than {MAX_DEPTH} deep")
        self.model = model
        self.builder = builder
        self.env = env
        self.opsets = opsets
        self.prefix = prefix
        self.folder = folder or Folder()
        self.depth = depth
        self.protos: dict[str, Any] = {}  # the types that the file declares

    # ------------------------------------------------------------------------------------- graphs
    def initializers(self, graph: Any) -> None:
        for tensor in graph.initializer:
            data, dtype = array_of(tensor, self.model.folder)
            self.env[tensor.name] = Item(self.builder, dtype, data=data, name=tensor.name)
        for sparse in graph.sparse_initializer:
            values, dtype = array_of(sparse.values, self.model.folder)
            places, _ = array_of(sparse.indices, self.model.folder)
            name = sparse.values.name
            if min(sparse.dims, default=1) < 0 or math.prod(sparse.dims) > MAX_SPARSE:
                raise FormatError(f"sparse tensor {name!r} has the shape {list(sparse.dims)}")
            dense = np.zeros(tuple(sparse.dims), values.dtype)
            try:
                if places.ndim == 1:
                    dense.reshape(-1)[places] = values
                else:
                    dense[tuple(places.T)] = values
            except (IndexError, ValueError) as error:
                raise FormatError(f"sparse tensor {name!r} is damaged ({error})") from None
            self.env[name] = Item(self.builder, dtype, data=dense, name=name)

    def declare(self, graph: Any) -> None:
        for info in (*graph.value_info, *graph.output):
            self.protos[info.name] = info.type

    def run(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            self.model.count += 1
            if self.model.count > MAX_NODES:
                raise CaptureError(f"the model unfolds into more than {MAX_NODES:,} nodes")
            with self.builder.at(self.model.sources.origin(node, self.prefix)):
                try:
                    results = self.node(node)
                except GlasshouseError:
                    raise
                except _DAMAGE as error:
                    said = CaptureError(f"damaged, or unlike anything known ({error!r})")
                    raise self._failure(node, said) from error
            for name, result in zip(node.output, results, strict=False):
                if name:
                    self.env[name] = result

    def results(self, names: Sequence[str]) -> list[Any]:
        return [self.lookup(name) for name in names]

    def lookup(self, name: str) -> Any:
        found = self.env.get(name)
        if found is None:
            raise CaptureError(
                f"{name!r} is read and nothing makes it", self.builder.where(),
                "the file is damaged, or its nodes are not in order",
            )  # fmt: skip
        return found

    # --------------------------------------------------------------------------------------- nodes
    def node(self, node: Any) -> tuple[Any, ...]:
        """What a node gives: an item, or a tuple of items, for each output."""
        given = [self.lookup(name) if name else None for name in node.input]
        local = self.model.functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return functions.inlined(self, node, local, given)
        call = OnnxCall(self, node, given, functions.attributes(node, self.model.folder))
        found = sizes.evaluate(call)
        if found is not None:
            return (found,)
        return self._spelled(call)

    def _spelled(self, call: OnnxCall) -> tuple[Any, ...]:
        node = call.node
        refusal: GlasshouseError | None = None
        spelling = registry.find(node.domain, node.op_type)
        if spelling is not None:
            try:
                return self.items(spelling(call))
            except GlasshouseError as error:
                refusal = error
        body = functions.of_schema(call)
        if body is not None:
            try:
                return functions.inlined(self, node, body, call.items)
            except GlasshouseError as error:
                refusal = refusal or error
        try:
            out = self.items(opaque_call(self, call))
        except GlasshouseError as error:
            raise self._failure(node, refusal or error) from None
        self.model.refused.append((node.op_type, refusal.message if refusal else "no spelling"))
        return out

    def _failure(self, node: Any, error: GlasshouseError) -> CaptureError:
        name = f" {node.name!r}" if node.name else ""
        inside = f"in {self.model.name}" if self.model.name else ""
        return CaptureError(
            f"{node.op_type}{name}: {error.message}", error.where or inside, error.hint
        )

    def items(self, results: Any) -> tuple[Any, ...]:
        many = results if isinstance(results, (tuple, list)) else (results,)
        return tuple(r if isinstance(r, (Item, tuple)) or r is None else of_handle(r) for r in many)

    # ------------------------------------------------------------------------------- what is known
    def opset(self, domain: str) -> int:
        return self.opsets.get("" if domain == "ai.onnx" else domain, 1)

    def value(self, item: Item) -> Array | None:
        """The elements of an item: known from the start, or made from constants alone."""
        if item.value is not None:
            return item.value
        return self.folder.value(item.handle.value)

    def want(self, item: Item) -> None:
        """Note the graph inputs on which an element depends that an op needs as a number."""
        pending, seen = [item.handle.value.node], set()
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                pending += [v.node for v in node.inputs]
                if node.op is INPUT and node.attrs["name"] in self.model.inputs:
                    self.model.wanted[node.attrs["name"]] = None

    def declared(self, name: str) -> TensorType | None:
        return declared_type(self.protos.get(name), self.model.symbols)

    def inner(self, env: Env, **changes: Any) -> OnnxImporter:
        """An importer for a function's or a body's nodes."""
        options: dict[str, Any] = {
            "opsets": self.opsets, "prefix": self.prefix, "folder": self.folder,
            "depth": self.depth + 1,
        }  # fmt: skip
        builder = changes.pop("builder", self.builder)
        return OnnxImporter(self.model, builder, env, **(options | changes))
