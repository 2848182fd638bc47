"""Folders of frames: every folder that holds images is a clip, its images are frames in order.

`SOURCE/CLASS/CLIP/frame_0001.jpg`, or `SOURCE/CLIP/frame_0001.jpg` without classes. A frame is a
row: its image, the label of its class, the number of its clip and its number in the clip, both
from 0. Clips are in the order of their paths. Frames are in the order of their names, in which
numbers count as numbers: frame_2 comes before frame_10.
"""

import re
from collections import Counter
from itertools import groupby
from pathlib import Path

from stoker.dataset.format import schema
from stoker.dataset.format.source_item import SourceFile, item_of_files
from stoker.dataset.sources.common.class_order import order_classes
from stoker.dataset.sources.common.lookalikes import remarks_on_lookalikes
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import check_folder, walk
from stoker.dataset.sources.formats.folder_checks import remarks_on_twins
from stoker.protocol.errors import UsageError

_DIGITS = re.compile(r"(\d+)")
_NUMBERED = re.compile(r"(.*?)(\d+)")
_FRAME = re.compile(r"frame|frm", re.IGNORECASE)
_FEWEST = 3


def scan_clips(source: Path, request: Request) -> SourceScan:
    """Scan folders of frames.

    Raises:
        UsageError: there are no images, or none in a folder.
    """
    check_folder(source)
    ignored: Counter[str] = Counter()
    files = walk(source, "", ignored)
    clips = clips_of([file for file in files if "/" in file.path])
    if not clips:
        raise UsageError(
            f"{source}: expected folders of frames, CLIP/frame_0001.jpg or "
            f"CLASS/CLIP/frame_0001.jpg, found {len(files)} images and none in a folder"
        )
    deep = [clip for clip in clips if "/" in clip]
    bad = [
        (clip, "it is a clip next to folders of classes; move it into one")
        for clip in clips
        if deep and "/" not in clip
    ]
    bad += [(file.path, "it is in no clip; move it into a folder") for file in files
            if "/" not in file.path]  # fmt: skip
    fields = [schema.image(), schema.scalar("clip", "int64"), schema.scalar("frame", "int64")]
    names = order_classes({clip.partition("/")[0] for clip in deep}, request.classes)
    numbers = {name: number for number, name in enumerate(names)}
    if deep:
        fields.append(schema.label(classes=names))
    items = []
    for number, (clip, frames) in enumerate((name, clips[name]) for name in deep or clips):
        label = (numbers[clip.partition("/")[0]],) if deep else ()
        items += [
            item_of_files((file,), number, place, *label) for place, file in enumerate(frames)
        ]
    remarks = [*remarks_on_lookalikes(names), *remarks_on_twins(files)]
    return SourceScan(
        "clips", source, tuple(fields), items, bad=bad, ignored=ignored, remarks=remarks
    )


def clips_of(files: list[SourceFile]) -> dict[str, list[SourceFile]]:
    """Return the frames of each folder, in order, by its path."""
    found = groupby(sorted(files, key=lambda file: _folder(file).split("/")), _folder)
    return {folder: sorted(frames, key=_in_order) for folder, frames in found}


def look_like_clips(files: list[SourceFile]) -> bool:
    """Return whether images in folders may be frames.

    They may if, in each folder, their names are one text and the numbers of a sequence, and either
    the folders are two levels deep or the names say so (`frame_0001.jpg`).
    """
    clips = clips_of([file for file in files if "/" in file.path])
    deep = bool(clips) and all("/" in clip for clip in clips)
    named = all(_FRAME.search(Path(file.path).stem) for file in files)
    return (deep or named) and bool(clips) and all(map(_is_sequence, clips.values()))


def _is_sequence(frames: list[SourceFile]) -> bool:
    found = [_NUMBERED.fullmatch(Path(file.path).stem) for file in frames]
    texts = {match[1] if match else None for match in found}
    numbers = [int(match[2]) for match in found if match]
    whole = len(numbers) >= _FEWEST and numbers[-1] - numbers[0] == len(numbers) - 1
    return None not in texts and len(texts) == 1 and whole


def _folder(file: SourceFile) -> str:
    return file.path.rpartition("/")[0]


def _in_order(file: SourceFile) -> list[tuple[int, str]]:
    """Return a name as texts and numbers, which compare as numbers."""
    parts = _DIGITS.split(file.path.rpartition("/")[2])
    return [(int(part), part) if at % 2 else (-1, part) for at, part in enumerate(parts)]
