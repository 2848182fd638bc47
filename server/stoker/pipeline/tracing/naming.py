"""Stream names: the names of the random sources that calls of ops draw from.

The default is the op's name, prefixed by the open scopes. An instance keeps the name of its first
call, so calling it again repeats its decision. Two calls that would share a default name are
refused, because accepting them would be a choice that the author did not make. Runs in the author's
process; scopes are those of the running context.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import NamedTuple

from stoker.ops.contract.op import Op
from stoker.pipeline.graph.sites import Site, user_site
from stoker.pipeline.tracing.value_refusals import fault
from stoker.rng.streams import RESERVED_PREFIX

_shared: contextvars.ContextVar[bool] = contextvars.ContextVar("shared", default=False)
_scopes: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("scopes", default=())


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """Prefix the default stream names of the ops called inside with `name/`.

    Args:
        name: text without a slash at its ends, such as "left".

    Raises:
        BuildError: the name is empty or begins or ends with a slash.
    """
    reserved = RESERVED_PREFIX.rstrip("/")
    if not isinstance(name, str) or not name or name.strip("/") != name or name == reserved:
        raise fault(f"scope: expected a name such as 'left', not {reserved!r}, got {name!r}")
    token = _scopes.set((*_scopes.get(), name))
    try:
        yield
    finally:
        _scopes.reset(token)


@contextlib.contextmanager
def shared_views() -> Iterator[None]:
    """Share the decisions of the ops called inside between all views of a position.

    Outside, each of the `views=n` rows of a position has decisions of its own.
    """
    token = _shared.set(True)
    try:
        yield
    finally:
        _shared.reset(token)


def scoped(name: str) -> str:
    """Return a name prefixed by the open scopes."""
    return "/".join((*_scopes.get(), name))


def views_are_shared() -> bool:
    """Return whether a decision made now is shared by all views of a position."""
    return _shared.get()


class _Named(NamedTuple):
    op: Op
    stream: str
    site: Site


class Names:
    """The stream names that one pipeline has given so far."""

    def __init__(self) -> None:
        self._instances: dict[int, _Named] = {}
        self._default_names: dict[str, _Named] = {}

    def name(self, op: Op, stream: str | None, default: str) -> str | None:
        """Return the stream that a call draws from; None for an op that draws nothing.

        Args:
            op: the op that is called; an instance keeps the name of its first call.
            stream: the name given by the author, if any.
            default: the name otherwise, prefixed by open scopes; no second op may take it.

        Raises:
            BuildError: the name is invalid, or another call took the default.
        """
        if not op.random:
            if stream is not None:
                raise fault(
                    f"{op.name} draws nothing, so stream={stream!r} has no effect; leave it out",
                    op=op.name,
                )
            return None
        if stream is not None:
            if not isinstance(stream, str) or not stream or stream.startswith(RESERVED_PREFIX):
                raise fault(
                    f"{op.name}: expected a stream name that is a string and does not begin with "
                    f"{RESERVED_PREFIX!r}, got {stream!r}",
                    op=op.name,
                )
            self._instances.setdefault(id(op), _Named(op, stream, user_site()))
            return stream
        seen = self._instances.get(id(op))
        if seen is not None:
            return seen.stream
        return self._default_stream(op, default)

    def of(self, op: Op) -> str | None:
        """Return the stream of an instance that was called; None if it draws nothing."""
        named = self._instances.get(id(op))
        return named.stream if named is not None else None

    def _default_stream(self, op: Op, default: str) -> str:
        named = _Named(op, scoped(default), user_site())
        before = self._default_names.get(named.stream)
        if before is not None:
            raise fault(
                f"{default}: the default stream name {named.stream!r} is taken by the call at "
                f"{before.site}. If both calls should make the same decision, give both the same "
                f"stream='...' (or call one instance twice, or call the op once with all fields); "
                f"if each should decide for itself, give this one its own stream='...', or put "
                f"it in `with scope('...')`",
                named.site,
                op=op.name,
                stream=named.stream,
            )
        self._default_names[named.stream] = self._instances[id(op)] = named
        return named.stream
