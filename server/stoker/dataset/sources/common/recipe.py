"""How a scanned source is packed: what workers are told besides the items."""

import msgspec

from stoker.dataset.format.convert import Conversion
from stoker.dataset.format.item import Container
from stoker.dataset.format.schema import Schema


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What all files of a dataset are packed by; with the items, all that their bytes depend on.

    Attributes:
        source: folder that the source's paths are relative to.
        reader: what turns an item into values, by its name in `sources.opening`.
        settings: what that reader must know besides.
        containers: the source's files of many values.
        aligned: whether all pictures of a sample have one size; else masks have the first's.
        schema: columns to write.
        conversion: what is done to pictures before they are stored.
        max_bad: how many bad items are named.
        in_place: whether an index is made: large values stay in the containers.
    """

    source: str
    reader: str
    settings: dict[str, str]
    containers: tuple[Container, ...]
    aligned: bool
    schema: Schema
    conversion: Conversion
    max_bad: int
    in_place: bool = False
