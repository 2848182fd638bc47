"""Which modules of an author's a pipeline needs in another process of the same author.

A pipeline travels as graph data; ops and functions of users stand in it as `module:attr`. A process
imports such names only from modules that it was told to allow. Where an author sends a pipeline to
a process of his own, to a worker of a torch DataLoader for example, the modules that it was made
with go along and are allowed there. A daemon never does this: there the operator allows.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.ops.contract.registry import lookup
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Draw, Unneeded, draws_of


def code_modules(graph: Graph) -> tuple[str, ...]:
    """Return the modules that the ops and functions of users in a graph are imported from."""
    calls: tuple[Draw | Unneeded, ...] = (*draws_of(graph.nodes), *graph.unneeded)
    names = [name for call in calls for name in _names(call)]
    return tuple(sorted({name.partition(":")[0] for name in names}))


def _names(call: Draw | Unneeded) -> Iterator[str]:
    if ":" in call.op:
        yield call.op
    elif lookup(call.op, call.version).calls_python:
        function = (call.params or {}).get("function")
        if isinstance(function, str):
            yield function
