"""How functions are inlined: the model's own, and the bodies that ONNX defines for ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glasshouse.errors import CaptureError
from glasshouse.frontend.onnx.dtypes import TO_ONNX
from glasshouse.frontend.onnx.item import Item
from glasshouse.frontend.onnx.origins import called
from glasshouse.frontend.onnx.package import onnx_package

if TYPE_CHECKING:
    from glasshouse.frontend.onnx.call import OnnxCall
    from glasshouse.frontend.onnx.importer import OnnxImporter

_GRAPH, _GRAPHS = 5, 10  # kinds of attributes that hold bodies


def attributes(node: Any, folder: str | None = None) -> dict[str, Any]:
    """A node's attributes as Python values; strings decoded, tensors and graphs as they are."""
    helper = onnx_package().helper
    out: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            raise CaptureError(
                f"{node.op_type}: attribute {attribute.name!r} refers to a function's "
                f"{attribute.ref_attr_name!r} outside of a function"
            )
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
            value = [v.decode("utf-8", "replace") for v in value]
        elif attribute.type in (6, 7):
            value = list(value)
        out[attribute.name] = value
    return out


def inlined(importer: OnnxImporter, node: Any, function: Any, given: list[Any]) -> tuple[Any, ...]:
    """The results of a function's nodes, each with the call in its path."""
    if len(given) > len(function.input) or len(node.output) > len(function.output):
        raise CaptureError(
            f"{node.op_type} is called with {len(given)} operands and {len(node.output)} results, "
            f"it has {len(function.input)} and {len(function.output)}"
        )
    env = {
        name: item for name, item in zip(function.input, given, strict=False) if item is not None
    }
    attrs = {a.name: a for a in function.attribute_proto}
    attrs |= {a.name: a for a in node.attribute}
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in function.opset_import}
    inner = importer.inner(env, opsets=opsets, prefix=called(node, importer.prefix))
    for info in getattr(function, "value_info", ()):
        inner.protos[info.name] = info.type
    for name, outer in zip(function.output, node.output, strict=False):
        if outer in importer.protos:
            inner.protos[name] = importer.protos[outer]
    inner.run(_without_missing(bound(n, attrs), env) for n in function.node)
    wanted = [name for name, outer in zip(function.output, node.output, strict=False) if outer]
    found = dict(zip(wanted, inner.results(wanted), strict=True))
    return tuple(found.get(name) for name in function.output)


def _without_missing(node: Any, env: dict[str, Any]) -> Any:
    """Operands that the caller left out are left out inside as well."""
    if all(not name or name in env for name in node.input):
        return node
    out = type(node)()
    out.CopyFrom(node)
    for i, name in enumerate(out.input):
        if name and name not in env:
            out.input[i] = ""
    return out


def bound(node: Any, attrs: dict[str, Any]) -> Any:
    """A node of a function with the call's attributes in the place of references to them."""
    if not _refers(node):
        return node
    out = type(node)()
    out.CopyFrom(node)
    del out.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            source = attrs.get(attribute.ref_attr_name)
            if source is None:
                continue
            made = out.attribute.add()
            made.CopyFrom(source)
            made.name = attribute.name
            continue
        made = out.attribute.add()
        made.CopyFrom(attribute)
        for body in [made.g] if made.type == _GRAPH else made.graphs:
            nodes = [bound(n, attrs) for n in body.node]
            del body.node[:]
            body.node.extend(nodes)
    return out


def _refers(node: Any) -> bool:
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return True
        for body in [attribute.g] if attribute.type == _GRAPH else attribute.graphs:
            if any(_refers(n) for n in body.node):
                return True
    return False


def of_schema(call: OnnxCall) -> Any:
    """The body that ONNX defines for an op in terms of simpler ones, if it does."""
    onnx, node = onnx_package(), call.node
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        schema = onnx.defs.get_schema(node.op_type, call.opset, domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        return _with_defaults(schema, schema.function_body)
    if not schema.has_context_dependent_function:
        return None
    types = [type_proto(i).SerializeToString() if i is not None else b"" for i in call.items]
    try:
        data = schema.get_context_dependent_function(node.SerializeToString(), types)
        function = onnx.FunctionProto()
        function.ParseFromString(data)
    except Exception:  # what ONNX cannot build for these types has no body
        return None
    return _with_defaults(schema, function) if function.node else None


def _with_defaults(schema: Any, function: Any) -> Any:
    """A body in which attributes that a call leaves out have the values that the op says."""
    have = {a.name for a in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name not in have and attribute.default_value.name:
            function.attribute_proto.append(attribute.default_value)
    return function


def type_proto(item: Item) -> Any:
    """An item's type as ONNX writes it."""
    dims = [d if isinstance(d, int) else str(d) for d in item.type.shape]
    return onnx_package().helper.make_tensor_type_proto(TO_ONNX[item.dtype], dims)
