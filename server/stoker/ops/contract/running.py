"""The pipeline that the running context traces; attributes of ops find it here."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_TRACER: ContextVar[Any] = ContextVar("tracer", default=None)


@contextmanager
def tracing(tracer: Any) -> Iterator[None]:
    """Make a `Tracer` that of the context."""
    token = _TRACER.set(tracer)
    try:
        yield
    finally:
        _TRACER.reset(token)


def running_tracer() -> Any:
    """Return the `Tracer` of the context; None outside of a pipeline's function."""
    return _TRACER.get()
