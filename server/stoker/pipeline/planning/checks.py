"""Statuses of rows that do not fit, and where values lie."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.pipeline.graph.sites import Site


@dataclass(frozen=True)
class Check:
    """What a status other than 0 means.

    Attributes:
        kind: "input", "same_size", "relative" (the same, where it could be
            given), "ratio", "out_size", "items" or "padded".
        what: text about the values, for the message.
        field: the dataset field, where the fault is that of one field.
        site: where the user wrote the op.
    """

    kind: str
    what: str
    field: str | None
    site: Site


@dataclass(frozen=True)
class Location:
    """Where a value lies.

    Attributes:
        kind: "input" (column `index`), "output" (row of output `index`), "arena" (from byte
        `index`),
            "register" (a scalar), or "join" (wherever the block that ran has it).
        index: see kind.
    """

    kind: str
    index: int = 0
