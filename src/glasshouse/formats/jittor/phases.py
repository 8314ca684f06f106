"""Which phase a traced node belongs to: initialisation, forward, backward or optimiser.

The outermost stack entry tells it for most: `Model_init` is a constructor, `grad`/`Grad` a gradient
(once for each order), a scope whose class is an optimiser an update. Nodes outside any scope follow
what they compute with: a loss made from the model's output is still forward.
"""

from __future__ import annotations

from glasshouse.formats.jittor.trace import Trace, TraceNode

INITIALISATION, FORWARD, OPTIMISER = "initialisation", "forward", "optimiser"
ORDER = (INITIALISATION, FORWARD, "backward", OPTIMISER)
_OPTIMISERS = {
    "SGD", "Adam", "AdamW", "RMSprop", "Adan", "Adagrad", "Adadelta", "Adamax", "LBFGS", "Lamb",
    "Lion", "Momentum", "NAdam", "RAdam", "Muon",
}  # fmt: skip


def phases(trace: Trace) -> dict[int, str]:
    """The phase of every node, by id."""
    by_id = {node.id: node for node in trace.nodes}
    found: dict[int, str] = {}
    undecided: list[TraceNode] = []
    for node in trace.nodes:
        phase = _own_phase(node)
        if phase:
            found[node.id] = phase
        else:
            undecided.append(node)
    # Ids grow with creation, so producers are decided before consumers.
    for node in undecided:
        before = {found.get(i) for i in node.inputs}
        later = [p for p in before if p is not None and p not in (INITIALISATION, FORWARD)]
        if later:
            found[node.id] = later[0]
    for node in reversed(undecided):
        if node.id not in found:
            after = {found[o] for o in node.outputs if o in by_id and o in found}
            found[node.id] = after.pop() if len(after) == 1 else FORWARD
    _give_seeds_back(trace, found)
    return found


def _give_seeds_back(trace: Trace, found: dict[int, str]) -> None:
    """What an optimiser's `step(loss)` makes for the gradient (its seed) is backward, not update.

    Such a node feeds backward and does not come from it; an updated weight comes from it.
    """
    from_gradient: set[int] = set()
    for node in trace.nodes:
        if any(i in from_gradient or found.get(i, "").startswith("backward") for i in node.inputs):
            from_gradient.add(node.id)
    for node in reversed(trace.nodes):
        if found[node.id] != OPTIMISER or node.id in from_gradient:
            continue
        if any(found.get(o, "").startswith("backward") for o in node.outputs):
            found[node.id] = "backward"


def _own_phase(node: TraceNode) -> str:
    grads = 0
    for frame in node.stack:
        if not frame.is_grad:
            break
        grads += 1
    if grads:
        return "backward" if grads == 1 else f"backward (order {grads})"
    if not node.stack or not node.stack[0].type:
        return ""
    outer = node.stack[0]
    if outer.is_line:
        return ""
    if outer.name.endswith("_init"):
        return INITIALISATION
    if outer.type in _OPTIMISERS or outer.type.lower().endswith(("optimizer", "optimiser")):
        return OPTIMISER
    return FORWARD
