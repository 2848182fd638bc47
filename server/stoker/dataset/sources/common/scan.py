"""The result of scanning a source, and the user's request."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import Container, Item


@dataclass(frozen=True)
class Request:
    """The user's options for a source.

    Attributes:
        asked: whether the user named its kind; if not, a source that may have another kind is
            rejected.
        fields: NAME -> KIND, for folders, columns, arrays and so on whose kind does not follow from
            their name; each kind of source defines NAME and KIND.
        images: folder of the images, if paths in the source are not relative to the source.
        classes: names of the classes of labels, in the order of their numbers; empty: the classes
            that are found, in alphabetical order.
        split: which part of the source to use, if it has several, such as "train".
        masks: what is painted from outlines, "semantic" or "instance"; empty for no mask.
        clip: clip boxes to their image and leave out keypoints outside of it, instead of rejecting
            the sample.
        all_keypoints: keep keypoints that are not labeled (visibility 0), at the image's corner.
    """

    asked: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    classes: tuple[str, ...] = ()
    split: str = ""
    masks: str = ""
    clip: bool = False
    all_keypoints: bool = False


@dataclass
class SourceScan:
    """A scanned source.

    Attributes:
        kind: kind of the source, one of `stoker.dataset.sources.kinds.KINDS`.
        root: the folder that paths are relative to.
        fields: fields of a sample.
        items: the samples, in order; read several times, and may be made on demand.
        containers: files that hold many values; items refer to them by number.
        reader: the reader of items, one of `stoker.dataset.sources.open_reader.READERS`.
        settings: further input of that reader.
        aligned: whether all images of a sample have one size; if not, masks have that of the first.
        in_place: whether its values are stored in the containers as they are used, so that it can
            be read without packing; its reader is a `Locator`.
        bad: (path, reason) of everything that cannot be part of a sample.
        notes: changes to annotations, with the names of the samples.
        ignored: what was left out, with counts, for example `.txt files`.
        remarks: what the owner should know about how the source was read, one line each.
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
    remarks: list[str] = field(default_factory=list)
