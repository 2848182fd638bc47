"""Fields in the user's notation: a name and a KIND, such as `pose` and `float32[3]`.

KIND is image, mask, flow, normals, label, text, bytes, a number (`int64`), or an array of numbers
(`float32[3,4]`, or `float32[?,4]` if the first side differs between samples). Files of one channel
and more than 8 bits, such as masks of instances, X-rays, CT and depth maps, are `mask[uint16]`,
`mask[int32]`, `image[uint16]`, `image[int16]` or `image[float32]`. After a KIND, `,fill=NUMBER`
makes the field optional: samples that lack it get that number. Texts, bytes and arrays of any
length have `,optional` instead. `,relative` declares an image or mask whose size differs from that
of its image.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from stoker.dataset.format import schema
from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.protocol.errors import UsageError

IGNORE = "ignore"
TEXT = "text"
DEEP: Final[Mapping[str, Callable[[str], schema.Field]]] = {
    "mask[uint16]": lambda name: schema.mask(name, "raw", dtype="uint16"),
    "mask[int32]": lambda name: schema.mask(name, "raw", dtype="int32"),
    "image[uint16]": lambda name: schema.image(name, "raw", dtype="uint16", channels=1),
    "image[int16]": lambda name: schema.image(name, "raw", dtype="int16", channels=1),
    "image[float32]": lambda name: schema.image(name, "raw", dtype="float32", channels=1),
}
"""KIND of images and masks of more than 8 bits -> the function that declares the field."""
_PLAIN: Final[Mapping[str, Callable[[str], schema.Field]]] = {
    "image": schema.image,
    "mask": schema.mask,
    "label": schema.label,
    TEXT: schema.blob,
    "bytes": schema.blob,
    "flow": schema.flow,
    "normals": schema.normals,
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_MARKED = re.compile(r"(.+),(optional|relative|fill=(.*))")
_NUMBERS = re.compile(r"([a-z]+[0-9]*)(?:\[((?:\?|[1-9][0-9]*)(?:,[1-9][0-9]*)*)\])?")


def declare(name: str, kind: str, of: str) -> schema.Field:
    """Return the field of a name and a KIND.

    Args:
        name: the field's name.
        kind: KIND as above.
        of: the user's name for the value, such as a column or an array, for errors.

    Raises:
        UsageError: there is no such KIND.
    """
    if said := _MARKED.fullmatch(kind):
        field = declare(name, said[1], of)
        if said[2] == "relative":
            return schema.relative(field)
        return schema.optional(field, None if said[3] is None else _fill(of, said[3]))
    if kind in _PLAIN or kind in DEEP:
        return _PLAIN[kind](name) if kind in _PLAIN else DEEP[kind](name)
    found = _NUMBERS.fullmatch(kind)
    if found is None or found[1] not in ITEM_BYTES:
        raise UsageError(
            f"{of}: expected a kind among {', '.join((*_PLAIN, *DEEP, IGNORE))}, or a dtype such "
            f"as int64 or float32[3], got {kind!r}"
        )
    if found[2] is None:
        return schema.scalar(name, found[1])
    sides = (None if side == "?" else int(side) for side in found[2].split(","))
    return schema.array(name, found[1], tuple(sides))


def plain_kind(kind: str) -> str:
    """Return a KIND without `,fill=NUMBER`, `,optional` and `,relative`."""
    said = _MARKED.fullmatch(kind)
    return plain_kind(said[1]) if said else kind


def marks_of(kind: str) -> list[str]:
    """Return what follows a KIND: `fill=NUMBER`, `optional`, `relative`."""
    return kind[len(plain_kind(kind)) :].split(",")[1:]


def is_optional(kind: str) -> bool:
    """Return whether a KIND declares an optional field."""
    return any(mark.startswith(("fill=", "optional")) for mark in marks_of(kind))


def _fill(of: str, text: str) -> float:
    try:
        return int(text) if _INTEGER.fullmatch(text) else float(text)
    except ValueError:
        raise UsageError(f"{of}: expected a number after fill=, got {text!r}") from None


def field_name(text: str) -> str:
    """Turn a name into an identifier: invalid characters become underscores."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{name}" if not name or name[0].isdigit() else name
