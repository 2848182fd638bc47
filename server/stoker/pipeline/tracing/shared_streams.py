"""Calls that share a stream name: they must make the same decision.

Two calls of one op under one name draw the same words. With other parameters they would still
decide differently (a crop of 64 and one of 32, a rotation by up to 10 and one by up to 20 degrees),
so fields that should stay in step would drift apart. Calls in two branches of one `if` never run
for the same row and may differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stoker.pipeline.graph.sites import Site, user_site
from stoker.pipeline.tracing.value_refusals import fault
from stoker.protocol.canonical import canonical_bytes


class _Call(NamedTuple):
    params: Mapping[str, Any]
    given: bytes
    blocks: tuple[int, ...]
    site: Site


class Sharing:
    """The calls of a pipeline by op and stream name."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], list[_Call]] = {}
        self._siblings: dict[int, int] = {}

    def exclude(self, then: int, orelse: int) -> None:
        """Note two blocks of one `if`."""
        self._siblings |= {then: orelse, orelse: then}

    def check(
        self, op: str, stream: str, params: Mapping[str, Any], said: Any, blocks: tuple[int, ...]
    ) -> None:
        """Note a call, and compare it with those before it.

        Args:
            op: name of the op.
            stream: name of its stream.
            params: those of its parameters that decide.
            said: schedules of parameters.
            blocks: numbers of the open blocks, the outermost first.

        Raises:
            BuildError: another call of the op under that name has other parameters; names both
                lines and the first parameter that differs.
        """
        call = _Call(params, canonical_bytes([params, said]), blocks, user_site())
        for other in self._calls.setdefault((op, stream), []):
            if other.given != call.given and not self._apart(other.blocks, blocks):
                self._refuse(op, stream, other, call)
        self._calls[op, stream].append(call)

    def _apart(self, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        """Return whether two calls are in different branches of one `if`."""
        pairs = zip(one, other, strict=False)
        return any(self._siblings.get(a) == b for a, b in pairs if a != b)

    def _refuse(self, op: str, stream: str, other: _Call, call: _Call) -> None:
        names = [name for name in call.params if call.params[name] != other.params.get(name)]
        what = "another schedule or value of the row"
        if names:
            one, two = (found.params.get(names[0]) for found in (other, call))
            what = f"{names[0]}={_shown(two)} here and {names[0]}={_shown(one)} there"
        raise fault(
            f"{op}: the call at {other.site} has the same stream name {stream!r} but other "
            f"parameters ({what}): they would make different decisions from the same draws. Give "
            "both the same parameters, or this one a stream='...' of its own",
            call.site,
            op=op,
            stream=stream,
        )


def _shown(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
