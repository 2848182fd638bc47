"""A pipeline's function: traced once, and checked for what it returns."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, cast

from stoker.ops.contract.running import tracing
from stoker.pipeline.authoring.outputs import forms_of
from stoker.pipeline.authoring.row_context import Context
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.sites import Site, raised_at
from stoker.pipeline.graph.wellformed import check
from stoker.pipeline.tracing.own_draws import traced_once
from stoker.pipeline.tracing.rewrite import rewritten
from stoker.pipeline.tracing.trace import GraphTracer
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedSample, TracedValue, Unusable, tracer_of
from stoker.protocol.errors import BuildError
from stoker.protocol.slot_layout import MAX_NAME, MAX_OUTPUTS, reserved

Define = Callable[..., Mapping[str, Any]]


def trace(define: Define, name: str) -> Graph:
    """Run a pipeline function with placeholders and return the graph it describes.

    Raises:
        BuildError: see `Pipeline.graph`.
    """
    return traced_once(define, site_of(define), lambda: _trace(define, name))


def _trace(define: Define, name: str) -> Graph:
    tracer = GraphTracer()
    try:
        with tracing(tracer):
            result = run_definition(define, TracedSample(tracer))
    except BuildError as error:
        if "file" in error.details:
            raise
        site = raised_at(error.__traceback__)
        raise type(error)(
            f"{site}: {error.message}", **{"file": site.file, "line": site.line, **error.details}
        ) from None
    except RecursionError:
        raise fault(
            f"{name}: the function, or one of its helpers, calls itself without end",
            site_of(define),
        ) from None
    result, forms = forms_of(result)
    outputs = check_outputs(result, name, site_of(define))
    for key, value in outputs.items():
        tracer.check_visible(value, f"output {key!r}", site_of(define))
    graph = tracer.graph(outputs, forms)
    try:
        check(graph)
    except BuildError as error:
        raise fault(f"{name}: {error.message}", site_of(define)) from None
    return graph


def run_definition(define: Define, sample: TracedSample) -> Mapping[str, Any]:
    """Call a pipeline function, with `ctx` too if it takes two arguments."""
    arguments: tuple[Any, ...] = (sample,)
    if len(required_arguments(define)) == 2:
        arguments = (sample, Context(cast("GraphTracer", tracer_of(sample))))
    result: Mapping[str, Any] = rewritten(define)(*arguments)
    return result


def required_arguments(define: Define) -> list[str]:
    """Return the names of the arguments that have no default."""
    parameters = inspect.signature(define).parameters
    return [name for name, found in parameters.items() if found.default is found.empty]


def check_outputs(result: object, name: str, site: Site) -> dict[str, TracedValue]:
    """Return what the function returned, if it is a dict of traced values."""
    if isinstance(result, Unusable):
        result.refuse(site)
    if not isinstance(result, Mapping):
        raise fault(
            f"{name}: a pipeline returns a dict of named outputs, such as "
            f'{{"image": image}}, got {type(result).__name__}',
            site,
        )
    if not 1 <= len(result) <= MAX_OUTPUTS:
        raise fault(f"{name}: expected 1 to {MAX_OUTPUTS} outputs, got {len(result)}", site)
    for key, value in result.items():
        if not isinstance(key, str) or not 1 <= len(key) <= MAX_NAME:
            raise fault(
                f"{name}: expected the names of outputs to be strings of 1 to {MAX_NAME}"
                f" characters, got {reprlib.repr(key)}",
                site,
            )
        if why := reserved(key):
            raise fault(f"{name}: {why}", site)
        if isinstance(value, Unusable):
            value.refuse(site)
        if isinstance(value, Mapping | tuple | list):
            raise fault(
                f"{name}: output {key!r}: expected a value, got {type(value).__name__}: outputs "
                f"cannot be nested; give each value in it its own name, such as '{key}.left'"
                "",
                site,
            )
        if not isinstance(value, TracedValue):
            raise fault(
                f"{name}: output {key!r}: expected a value made from the sample's fields, got "
                f"{type(value).__name__}",
                site,
            )
    return dict(result)


def site_of(define: Callable[..., Any]) -> Site:
    """Return the file and line of a function."""
    while isinstance(define, functools.partial):
        define = define.func
    code = getattr(inspect.unwrap(define), "__code__", None)
    return Site(code.co_filename, code.co_firstlineno) if code else Site("", 0)
