"""The recipe for packing a scanned source: the input of workers in addition to the items."""

import msgspec

from stoker.dataset.format.fields import Schema
from stoker.dataset.format.image_conversion import Conversion
from stoker.dataset.format.source_item import Container


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The recipe for all files of a dataset; with the items, everything that their bytes depend on.

    Attributes:
        source: folder that the source's paths are relative to.
        reader: the reader of items, by its name in `open_reader.READERS`.
        settings: further input of that reader.
        containers: the source's files of many values.
        aligned: whether all images of a sample have one size; if not, masks have that of the first.
        schema: columns to write.
        conversion: conversions of images and masks before they are stored.
        max_bad: how many bad items are listed.
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
