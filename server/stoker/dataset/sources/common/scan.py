"""What scanning a source gives, and what its user said of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.dataset.format.item import Container, Item
from stoker.dataset.format.schema import Field


@dataclass(frozen=True)
class Request:
    """What the user said of a source.

    Attributes:
        asked: whether its kind was named; if not, what may be another kind is refused.
        fields: NAME -> KIND, for folders, columns, arrays and so on whose kind their name does not
            say; each kind of source says what NAME and KIND may be.
        images: folder of the pictures, where paths in the source are not relative to itself.
        classes: names of the classes of labels, in the order of their numbers; empty: those that
            are found, in alphabetical order.
        split: which part of the source, if it has several, such as "train".
        masks: what is painted from outlines, "semantic" or "instance"; empty for no mask.
        clip: clip boxes to their picture and leave out keypoints outside of it, where they would be
            refused.
    """

    asked: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    classes: tuple[str, ...] = ()
    split: str = ""
    masks: str = ""
    clip: bool = False


@dataclass
class Scan:
    """A scanned source.

    Attributes:
        kind: of the source, one of `stoker.dataset.sources.kinds.KINDS`.
        root: the folder that paths are relative to.
        fields: fields of a sample.
        items: the samples, in order; read several times, and may make them as they are asked for.
        containers: files that hold many values; items name them by number.
        reader: what turns an item into values, one of `stoker.dataset.sources.opening.READERS`.
        settings: what that reader must know besides.
        aligned: whether all pictures of a sample have one size; else masks have that of the first.
        in_place: whether its values lie in the containers as they are used, so that it can be read
            without packing; its reader is a `Locator`.
        bad: (path, reason) of what cannot be part of a sample.
        notes: what was done to annotations, with the names of the samples.
        ignored: what was left out, with counts, for example `.txt files`.
    """

    kind: str
    root: Path
    fields: tuple[Field, ...]
    items: Sequence[Item]
    containers: Sequence[Container] = ()
    reader: str = "files"
    settings: Mapping[str, str] = field(default_factory=dict)
    aligned: bool = True
    in_place: bool = False
    bad: list[tuple[str, str]] = field(default_factory=list)
    notes: Mapping[str, list[str]] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
