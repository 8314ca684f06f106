"""How nodes of an ONNX graph are written: names, constants, sizes computed from inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.dtypes import TO_ONNX
from glasshouse.frontend.onnx.package import onnx_package
from glasshouse.ir.dim import Dim, Function, Symbol, SymDim, as_symbol
from glasshouse.ir.dtype import DType, float8_e5m2, int64
from glasshouse.ir.graph import Graph, Node, Value

Spelling = Callable[["Emitter", Node], Any]
TABLE: dict[str, Spelling] = {}


def export(*names: str) -> Callable[[Spelling], Spelling]:
    """Register how a core op is written: gives the name of each output."""

    def register(spelling: Spelling) -> Spelling:
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = spelling
        return spelling

    return register


class Emitter:
    """Writes one ONNX graph; bodies have emitters of their own that share names and constants."""

    def __init__(self, outer: Emitter | None = None) -> None:
        self.onnx = onnx_package()
        self.outer = outer
        self.nodes: list[Any] = []
        self.initializers: list[Any] = [] if outer is None else outer.initializers
        self.names: dict[Value, str] = {} if outer is None else dict(outer.names)
        self.taken: dict[str, int] = {} if outer is None else outer.taken
        self.sizes: dict[str, tuple[str, int]] = {} if outer is None else dict(outer.sizes)
        self._dims: dict[Dim, str] = {}
        self._constants: dict[tuple[Any, ...], str] = {} if outer is None else outer._constants
        self.node_of: Node | None = None if outer is None else outer.node_of

    # --------------------------------------------------------------------------------------- names
    def fresh(self, wish: str) -> str:
        name, number = wish, self.taken.get(wish, 0)
        while name in self.taken or not name:
            number += 1
            name = f"{wish}_{number}"
        self.taken[wish] = number  # where the next search for a free name begins
        self.taken.setdefault(name, 0)
        return name

    def __getitem__(self, value: Value) -> str:
        return self.names[value]

    def inputs(self, node: Node) -> list[str]:
        return [self.names[v] for v in node.inputs]

    # --------------------------------------------------------------------------------------- nodes
    def make(self, op: str, *inputs: str, count: int = 1, **attrs: Any) -> Any:
        """The name of a new node's output; a list where there are several."""
        node = self.node_of
        path = "/".join(s.name for s in node.origin.source.scopes if s.name) if node else ""
        name = self.fresh(f"/{path}/{op}" if path else op)
        outputs = [self.fresh(f"{name}_output_{i}") for i in range(count)]
        made = self.onnx.helper.make_node(
            op,
            list(inputs),
            outputs,
            name=name,
            **{k: v for k, v in attrs.items() if v is not None},
        )
        if node is not None:
            _metadata(made, node)
        self.nodes.append(made)
        return outputs[0] if count == 1 else outputs

    def constant(self, data: Any, dtype: DType = int64) -> str:
        """A small constant, stored once."""
        array = np.asarray(data, dtype.carrier)
        key = (dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.stored(array, dtype, "const")
        return self._constants[key]

    def stored(self, array: Any, dtype: DType, wish: str) -> str:
        """An initializer with these elements (as they are stored)."""
        from glasshouse.ir.dtype import to_storage

        name = self.fresh(wish)
        data = np.ascontiguousarray(to_storage(np.asarray(array), dtype))
        tensor = self.onnx.TensorProto(
            name=name, data_type=TO_ONNX[dtype], dims=np.shape(array), raw_data=data.tobytes()
        )
        self.initializers.append(tensor)
        return name

    def cast(self, name: str, dtype: DType) -> str:
        infinite = {"saturate": 0} if dtype is float8_e5m2 else {}
        found: str = self.make("Cast", name, to=TO_ONNX[dtype], **infinite)
        return found

    # --------------------------------------------------------------------------------------- sizes
    def ints(self, dims: Sequence[Dim]) -> str:
        """An int64 vector of sizes, computed from the inputs' shapes where they are symbolic."""
        if not any(isinstance(d, SymDim) for d in dims):
            return self.constant(np.asarray(dims, np.int64).reshape(-1))
        parts = [self.size(d) for d in dims]
        found: str = parts[0] if len(parts) == 1 else self.make("Concat", *parts, axis=0)
        return found

    def size(self, dim: Dim) -> str:
        """One size as an int64 vector of one element."""
        if not isinstance(dim, SymDim):
            return self.constant([dim])
        if dim not in self._dims:
            self._dims[dim] = self._size(dim)
        return self._dims[dim]

    def _size(self, dim: SymDim) -> str:
        symbol = as_symbol(dim)
        if symbol is not None:
            return self._symbol(symbol)
        total = ""
        for monomial, coefficient in dim.terms:
            term = self.constant([coefficient]) if coefficient != 1 or not monomial else ""
            for atom in monomial:
                part = self._symbol(atom) if isinstance(atom, Symbol) else self._function(atom)
                term = self.make("Mul", term, part) if term else part
            total = self.make("Add", total, term) if total else term
        return total

    def _symbol(self, symbol: Symbol) -> str:
        if symbol.name not in self.sizes:
            raise Unsupported(f"the size {symbol.name} is no axis of an input")
        source, axis = self.sizes[symbol.name]
        found: str = self.make("Shape", source, start=axis, end=axis + 1)
        return found

    def _function(self, atom: Function) -> str:
        op = {"//": "Div", "%": "Mod", "min": "Min", "max": "Max"}[atom.kind]
        found: str = self.make(op, self.size(atom.left), self.size(atom.right))
        return found

    # -------------------------------------------------------------------------------------- graphs
    def run(self, graph: Graph) -> None:
        """Write the nodes of a graph whose inputs have names."""
        for node in graph.nodes:
            if node.op.name == "input":
                continue
            self.node_of = node
            if node.op.name in ("constant", "variable"):
                self._stored(node)
                continue
            spelling = TABLE.get(node.op.name)
            if spelling is None:
                raise Unsupported(
                    f"{node.op.name} cannot be written as ONNX", str(node.origin.source)
                )
            made = spelling(self, node)
            many = made if isinstance(made, list) else [made]
            self.names.update(zip(node.outputs, many, strict=True))

    def _stored(self, node: Node) -> None:
        if node.attrs["data"] is None:
            raise Unsupported(f"{node.attrs['name'] or 'a constant'} has no data")
        wish = node.attrs["name"] or f"constant_{node.id}"
        self.names[node.output] = self.stored(node.attrs["data"], node.output.type.dtype, wish)


def _metadata(made: Any, node: Node) -> None:
    """Module path, classes and source line, under the names that PyTorch's exporter uses."""
    source = node.origin.source
    if source.scopes:
        names = [s.name for s in source.scopes]
        paths = [".".join(filter(None, names[: i + 1])) for i in range(len(names))]
        _add(made, "pkg.torch.onnx.name_scopes", repr([*paths, node.op.name]))
        classes = [s.cls for s in source.scopes]
        _add(made, "pkg.torch.onnx.class_hierarchy", repr([*classes, node.op.name]))
    if source.frames:
        lines = [f'File "{f.file}", line {f.line}, in {f.function or "?"}' for f in source.frames]
        _add(made, "pkg.torch.onnx.stack_trace", "\n".join(lines))


def _add(made: Any, key: str, value: str) -> None:
    entry = made.metadata_props.add()
    entry.key, entry.value = key, value
