"""The user modules that a pipeline needs in another process of the same user.

A pipeline travels as graph data, which names user ops and functions as `module:attr`. A process
imports such names only from modules that it has been allowed to import. When users send a pipeline
to a process of their own, for example a worker of a torch DataLoader, the modules of the pipeline
are sent along and allowed there. A daemon never does this: there the operator allows modules.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.ops.contract.registry import lookup
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Draw, Unneeded, draws_of


def code_modules(graph: Graph) -> tuple[str, ...]:
    """Return the modules of the user ops and functions in a graph."""
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
