"""Batches as trees of arrays, for `torch.utils._pytree` and `jax.tree`.

`jax.device_put(batch)`, a function under `jax.jit` and torch's `tree_map` take a batch apart and
put it together from changed arrays. The structure that they compare, and that `jax.jit` compiles
for, has the names of entries alone: with epoch and step in it each batch would compile a step
again. So a batch that was put together has entries alone, like every other rebuilt `Batch`.

JAX and torch are never imported here: each new batch calls `register`, which registers the classes
with those of the two that the process has imported since.
"""

import sys
from collections.abc import Callable, Hashable, Iterable
from types import ModuleType
from typing import Any, Final, NamedTuple

from stoker.protocol.item_fields import OFFSETS
from stoker.protocol.output_forms import VALUES, RaggedArray
from stoker.protocol.ragged import Ragged
from stoker.protocol.slot_layout import SIZE

Parts = tuple[list[tuple[str, Any]], Hashable]
"""Children, each with a name for messages, and the structure."""


class Node(NamedTuple):
    """Functions that split an instance of a class into named children, and build it from them."""

    kind: type
    parts: Callable[[Any], Parts]
    build: Callable[[Any, Iterable[Any]], Any]


def _parts_of_items(items: Ragged) -> Parts:
    own = [(VALUES, items.values), (OFFSETS, items.offsets)]
    return [*own, *items.fields.items()], (items.format, *items.fields)


def _items(structure: tuple[str, ...], values: Iterable[Any]) -> Ragged:
    coordinates, offsets, *fields = values
    form, *names = structure
    return Ragged(form, coordinates, offsets, dict(zip(names, fields, strict=True)))


def _parts_of_rows(rows: RaggedArray) -> Parts:
    return [(VALUES, rows.values), (OFFSETS, rows.offsets), (SIZE, rows.sizes)], None


def _rows(_: None, values: Iterable[Any]) -> RaggedArray:
    return RaggedArray(*values)


nodes: Final = [
    Node(Ragged, _parts_of_items, _items),
    Node(RaggedArray, _parts_of_rows, _rows),
]
"""The classes; `batch` adds its own."""


def _to_torch(module: ModuleType) -> None:
    for kind, parts, build in nodes:
        module.register_pytree_node(
            kind,
            lambda value, parts=parts: _listed(*parts(value)),
            lambda values, structure, build=build: build(structure, values),
            serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        )


def _to_jax(module: ModuleType) -> None:
    def keyed(parts: list[tuple[str, Any]], structure: Hashable) -> tuple[list[Any], Hashable]:
        return [(module.DictKey(name), value) for name, value in parts], structure

    for kind, parts, build in nodes:
        module.register_pytree_with_keys(
            kind, lambda value, parts=parts: keyed(*parts(value)), build
        )


def _listed(parts: list[tuple[str, Any]], structure: Hashable) -> tuple[list[Any], Hashable]:
    return [value for _, value in parts], structure


_waiting: Final[dict[str, tuple[str, Callable[[ModuleType], None]]]] = {
    "torch.utils._pytree": ("register_pytree_node", _to_torch),
    "jax.tree_util": ("register_pytree_with_keys", _to_jax),
}
"""Module that was not imported yet -> the name of a function in it, and what registers there."""


def register() -> None:
    """Register with the frameworks that are imported; a second time does nothing."""
    for name in tuple(_waiting):
        module = sys.modules.get(name)
        if module is None:
            continue
        function, announce = _waiting[name]
        # Without the function, another thread is importing the module.
        if hasattr(module, function) and _waiting.pop(name, None) is not None:
            announce(module)
