"""Datasets of single features for the Law: floats, maps of half the size, clips."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stoker.dataset import schema, write

CLIP_LENGTHS = (30, 12, 10, 7, 1, 19)
CLIP_FIELDS = [
    schema.image(encoding="png"),
    schema.mask(encoding="png"),
    schema.label(classes=("run", "walk")),
    schema.scalar("clip", "int64"),
    schema.scalar("frame", "int64"),
]


def write_floats(dest: Path, photographs: Sequence[np.ndarray]) -> None:
    """Write cuts of photographs as linear light of four channels, and masks of 70,000 classes."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(30):
        photo = photographs[number % len(photographs)]
        height, width = rng.integers(40, 70, 2)
        cut = photo[:height, :width].astype(np.float32) / np.float32(255)
        linear = np.concatenate([cut * cut, cut[..., :1] - np.float32(0.5)], 2)
        mask = photo[:height, :width, 1].astype(np.int32) * 277
        rows.append({"image": linear, "mask": mask, "photo": photo[:height, :width].copy()})
    fields = [
        schema.image(encoding="raw", dtype="float32", channels=4),
        schema.mask(encoding="bands", dtype="int32"),
        schema.image("photo"),
    ]
    write(dest, fields, rows)


def write_halves(dest: Path, photographs: Sequence[np.ndarray]) -> None:
    """Write cuts of photographs with grids, and maps in bands of half their size, rounded."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(30):
        photo = photographs[number % len(photographs)]
        height, width = rng.integers(120, 260, 2)
        cut = np.ascontiguousarray(photo[:height, :width])
        depth = np.ascontiguousarray(cut[number % 2 :: 2, ::2, 1].astype(np.uint16) * 201)
        rows.append({"image": cut, "depth": depth})
    fields = [schema.image(grid=True), schema.mask("depth", encoding="bands", dtype="uint16")]
    write(dest, fields, rows)


def frames(
    photographs: Sequence[np.ndarray], numbers: Sequence[int] | None = None, height: int = 70
) -> Iterator[dict[str, Any]]:
    """Yield rows: clips of a crop that moves over a photograph, with a mask and a class.

    Args:
        photographs: one for each clip.
        numbers: of the clips; None: 0, 1, and so on.
        height: of the frames.
    """
    for clip, length in enumerate(CLIP_LENGTHS):
        for frame in range(length):
            photo = photographs[clip % len(photographs)][frame : frame + 70, 3 * frame :][:, :90]
            photo = np.ascontiguousarray(photo[:height])
            mask = (photo.astype(int).sum(2) // 192).astype(np.uint8)
            number = clip if numbers is None else numbers[clip]
            yield {"image": photo, "mask": mask, "label": clip % 2, "clip": number, "frame": frame}


def write_clips(dest: Path, rows: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> None:
    """Write rows of `frames`."""
    write(dest, CLIP_FIELDS, rows)
