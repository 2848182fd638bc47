"""Mixtures: the request for several datasets in one stream, as bytes.

Each part names a dataset of the daemon, its ratio, and its pipeline, by name or as graph data. The
order is specified in docs/contracts/order.md, the bytes in docs/protocol.md.
"""

import math
from typing import Annotated, Final

import msgspec

from stoker.protocol.analysis import analyzed
from stoker.protocol.canonical import canonical_bytes, canonical_value
from stoker.protocol.errors import UsageError

MAX_PARTS: Final = 64
MAX_MIX_BYTES: Final = 2**20
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One dataset of a mixture.

    Attributes:
        dataset: its name at the daemon.
        ratio: how many rows it has, relative to the ratios of the others.
        pipeline: name of its pipeline at the daemon, or empty.
        graph: canonical form of its pipeline's graph data, if it has no name.
    """

    dataset: Name
    ratio: float
    pipeline: Annotated[str, msgspec.Meta(max_length=256)] = ""
    graph: str = ""


def mix_to_bytes(parts: list[Component]) -> bytes:
    """Return the canonical form, as `Open.mix` carries it.

    Raises:
        UsageError: there are too many parts or bytes.
    """
    _check(parts)
    data = canonical_bytes([msgspec.to_builtins(part) for part in parts])
    if len(data) > MAX_MIX_BYTES:
        raise UsageError(
            f"mix: the pipelines have {len(data)} bytes, but at most {MAX_MIX_BYTES} can be sent; "
            "name them at the daemon instead (--pipeline NAME=module:attribute)"
        )
    return data


def mix_from_bytes(data: bytes) -> list[Component]:
    """Parse what `mix_to_bytes` returned.

    Raises:
        UsageError: the bytes are not a mixture.
    """
    try:
        parts = msgspec.convert(canonical_value(data), analyzed(list[Component]))
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(f"mix: expected a mixture: {error}") from None
    _check(parts)
    return parts


def _check(parts: list[Component]) -> None:
    if not 1 <= len(parts) <= MAX_PARTS:
        raise UsageError(f"mix: expected 1 to {MAX_PARTS} datasets, got {len(parts)}")
    for part in parts:
        if not (math.isfinite(part.ratio) and part.ratio > 0):
            raise UsageError(
                f"mix: expected a positive ratio of {part.dataset!r}, got {part.ratio}; leave the "
                "dataset out if it should not come"
            )
        if bool(part.pipeline) == bool(part.graph):
            raise UsageError(f"mix: expected one pipeline of {part.dataset!r}, by name or as graph")
    if len({part.dataset for part in parts}) < len(parts):
        raise UsageError("mix: a dataset comes twice")
