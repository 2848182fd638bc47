"""Calls that no output needs, noted while a pipeline is traced.

The normal form drops them. A tracer notes them next to the graph, with the calls that they need;
`planning.binding.unneeded_kinds` checks that list when states are known.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Apply, Draw, If, Input, Unneeded
from stoker.pipeline.graph.normal import Places, live_values
from stoker.protocol.canonical import canonical_bytes


def unneeded_calls(graph: Graph) -> tuple[Unneeded, ...]:
    """Return the calls that no output needs and those that they need, in order.

    Args:
        graph: as traced, not in normal form.
    """
    places = Places(graph)
    live = live_values(graph, places)
    sites = {value: (file, line) for value, file, line in graph.sites}
    calls: list[Unneeded] = []
    numbers: dict[bytes, int] = {}
    made_by: dict[int, int] = {}
    runs: set[int] = set()
    for value, (node, first) in sorted(places.owners.items()):
        if not isinstance(node, Apply):
            continue
        of = tuple(_source(v, places, made_by) for v in node.made_of(value - first))
        match places.owners[node.draw][0]:
            case Draw(op=op, params=params, varies=varies, version=version):
                given = None if varies else params
                call = Unneeded(op, given, of, *sites.get(value, ("", 0)), version)
        key = canonical_bytes(msgspec.to_builtins((call.op, call.version, call.params, call.of)))
        made_by[value] = numbers.setdefault(key, len(calls))
        if made_by[value] == len(calls):
            calls.append(call)
        if value in live:
            runs.add(made_by[value])
    return _with_needs(calls, set(range(len(calls))) - runs)


def _source(value: int, places: Places, made_by: Mapping[int, int]) -> str | int | None:
    """Return the source of a value, in the form of `Unneeded.of`."""
    node, first = places.owners[value]
    while isinstance(node, If):
        value = node.then.results[value - first]
        node, first = places.owners[value]
    return node.field if isinstance(node, Input) else made_by.get(value)


def _with_needs(calls: list[Unneeded], wanted: set[int]) -> tuple[Unneeded, ...]:
    """Return some of the calls and those that they need, with new numbers."""
    for at in reversed(range(len(calls))):
        if at in wanted:
            wanted.update(of for of in calls[at].of if isinstance(of, int))
    numbers = {at: number for number, at in enumerate(sorted(wanted))}
    return tuple(
        msgspec.structs.replace(
            calls[at], of=tuple(numbers[of] if isinstance(of, int) else of for of in calls[at].of)
        )
        for at in numbers
    )
