"""Shortcuts: a plan that computes less for the same bytes. Workers use them.

A graph is rewritten before it is bound; its results, its draws and its identity do not change. The
interpreter, replay and everything else that shows a pipeline bind the graph as it was written, so
every comparison with them also proves the rewriting. There is one shortcut so far: a resize whose
result is read only by a center crop becomes one op, which computes and reads the kept part only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from stoker.ops.contract.registry import lookup, make
from stoker.ops.contract.rules import SIGNED, WIDE
from stoker.ops.contract.states import State
from stoker.ops.geometry.center_crop import CenterCrop
from stoker.ops.geometry.resize_center_crop import RESIZES, ResizeCenterCrop
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Apply, Draw, If, Input, Node
from stoker.pipeline.graph.normal import normalize, number_nodes, values_of


def shorter(graph: Graph, states: Mapping[str, State]) -> Graph:
    """Return a graph in normal form that computes the same outputs, if possible with less work.

    Args:
        graph: in normal form.
        states: field name -> state of the field in the dataset.
    """
    nodes = list(graph.nodes)
    numbered = number_nodes(graph.nodes, 0)[0]
    made = {first: (place, node) for place, (node, first) in enumerate(numbered)}
    users = _users(graph)
    changed = False
    for place, (node, first) in enumerate(numbered):
        if not (isinstance(node, Draw) and node.op == CenterCrop.name and _is_plain(node)):
            continue
        applies = [made[user] for user in users[first] if user in made]
        found = _pair(node, [apply for _, apply in applies], made, users, first)
        if found is None or len(applies) != len(users[first]):
            continue
        resize, sources = found
        if not all(_is_pixels(source, made, states) for source in sources.values()):
            continue
        nodes[place] = _joined(resize, node, sources)
        for at, apply in applies:
            assert isinstance(apply, Apply)
            nodes[at] = Apply(first, (sources[apply.to[0]],), 1)
        changed = True
    if not changed:
        return graph
    return normalize(msgspec.structs.replace(graph, nodes=tuple(nodes)))


def _pair(
    crop: Draw,
    applies: Iterable[Node],
    made: dict[int, tuple[int, Node]],
    users: dict[int, list[int]],
    number: int,
) -> tuple[Draw, dict[int, int]] | None:
    """Return the resize before a crop, and its inputs: resized value -> its source."""
    sources: dict[int, int] = {}
    resizes: dict[int, Draw] = {}
    for value in {*crop.of, *(a.to[0] for a in applies if isinstance(a, Apply))}:
        _, before = made.get(value, (0, None))
        if not isinstance(before, Apply) or before.relative:
            return None
        _, draw = made.get(before.draw, (0, None))
        if not isinstance(draw, Draw) or draw.op not in RESIZES or draw.varies:
            return None
        for user in users[value]:  # the crop's decision, and its apply
            _, reader = made.get(user, (0, None))
            crops = isinstance(reader, Apply) and reader.draw == number
            if user != number and not crops:
                return None
        resizes[before.draw] = draw
        sources[value] = before.to[0]
    return (next(iter(resizes.values())), sources) if len(resizes) == 1 else None


def _is_plain(draw: Draw) -> bool:
    """Return whether its parameters are constant, and valid for the op's current version."""
    return not draw.varies and draw.version == lookup(draw.op).version


def _is_pixels(value: int, made: dict[int, tuple[int, Node]], states: Mapping[str, State]) -> bool:
    """Return whether a value is certainly an image or mask, and not made from images of 16 bits.

    The joined op has no rule for those.
    """
    _, node = made.get(value, (0, None))
    while isinstance(node, Apply):
        _, node = made.get(node.to[0], (0, None))
    if not isinstance(node, Input) or node.field not in states:
        return False
    state = states[node.field]
    return state.kind == "mask" or (state.kind == "image" and state.dtype not in (WIDE, SIGNED))


def _joined(resize: Draw, crop: Draw, sources: dict[int, int]) -> Draw:
    given = {
        "by": resize.op,
        "size": resize.params["size"],
        "max_size": resize.params.get("max_size", 0),
        "interpolation": resize.params["interpolation"],
        "crop": crop.params["size"],
        "fill": crop.params["fill"],
        "mask_fill": crop.params["mask_fill"],
    }
    op = make(ResizeCenterCrop.name, given)
    of = tuple(sources[value] for value in crop.of)
    return Draw(op.name, op.version, op.params_data(), None, of)


def _users(graph: Graph) -> dict[int, list[int]]:
    """Return value -> the first numbers of the nodes that use it; -1 means an output."""
    found: dict[int, list[int]] = defaultdict(list)

    def walk(nodes: tuple[Node, ...], start: int) -> None:
        for node, first in number_nodes(nodes, start)[0]:
            for value in values_of(node):
                found[value].append(first)
            if isinstance(node, If):
                for block in (node.then, node.orelse):
                    for value in block.results:
                        found[value].append(-1)
                    # Numbers inside a block never equal those of a top-level node.
                    walk(block.nodes, -(10**9))

    walk(graph.nodes, 0)
    for _, value in graph.outputs:
        found[value].append(-1)
    return found
