"""The error of setting an attribute of an op, which names the remedy.

A pipeline is traced once, so an attribute that is set later would have no effect. A frozen
dataclass refuses it, but its error names no remedy, and each dataclass has its own `__setattr__`.
Therefore `seal` replaces it when the first instance of a class is made.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, NoReturn

from stoker.protocol.errors import UsageError


class FrozenOpError(UsageError, dataclasses.FrozenInstanceError):
    """An attribute of an op was set or deleted: make another op."""


def seal(cls: type[Any]) -> None:
    """Make instances of a dataclass of parameters refuse all changes with `FrozenOpError`."""
    if vars(cls).get("__setattr__") is not _refuse_set:
        type.__setattr__(cls, "__setattr__", _refuse_set)
        type.__setattr__(cls, "__delattr__", _refuse_delete)


def _refuse_set(self: Any, name: str, value: object) -> NoReturn:
    kind, names = type(self).__name__, [field.name for field in dataclasses.fields(self)]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise FrozenOpError(
            f"{kind}.{name} cannot be set: {meant}an op has its parameters alone "
            f"({', '.join(names) or 'none'}), given when it is made"
        )
    made = f"{name}={value!r}"
    raise FrozenOpError(
        f"{kind}.{name} cannot be set: pipelines that have the op keep its parameters. Make "
        f"another op, {kind}({made}) or dataclasses.replace(op, {made}), and build the pipeline "
        "with it; a value that changes from epoch to epoch follows ctx.epoch or ctx.progress, see "
        "schedules in docs/pipelines.md"
    )


def _refuse_delete(self: Any, name: str) -> NoReturn:
    raise FrozenOpError(f"{type(self).__name__}.{name} cannot be deleted: make another op")
