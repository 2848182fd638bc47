"""Statuses of rows that do not fit, and where values lie."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.pipeline.graph.sites import Site


@dataclass(frozen=True)
class Check:
    """The meaning of a status other than 0.

    Attributes:
        kind: "input", "same_size", "relative" (the same, if relative=True is possible there),
            "ratio", "out_size", "items", "padded", "element", "same_shape" or "fits".
        what: text about the values, for the message.
        field: the dataset field, if the fault is in one field.
        site: where the user wrote the op.
    """

    kind: str
    what: str
    field: str | None
    site: Site


@dataclass(frozen=True)
class Location:
    """Where a value is stored.

    Attributes:
        kind: "input" (column `index`), "output" (row of output `index`), "arena" (from byte
            `index`), "register" (a scalar), or "join" (the value's place in the block that ran).
        index: see kind.
    """

    kind: str
    index: int = 0
