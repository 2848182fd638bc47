"""Photographs of which a worker decodes only the part that a crop reads, and bytes gone wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from damage import accept_damage
from law_rig import encoded

from stoker.dataset import open_dataset, schema, write

ROWS = 40
DAMAGED = {
    ("image", 2): 0.97, ("image", 5): 0.8, ("image", 11): 0.6, ("image", 14): 0.4,
    ("image", 16): 0.98, ("image", 17): 0.2, ("image", 20): 0.98, ("image", 23): 0.9,
    ("image", 29): 0.98, ("image", 31): 0.01, ("image", 34): 0.98, ("image", 36): 0.98,
    ("mask", 8): 0.9, ("mask", 20): 0.1, ("mask", 36): 0.9,
}  # fmt: skip
"""(field, id) -> where in the stored bytes, as a part of their length."""


def write_pictures(dest: Path, photographs: Sequence[np.ndarray]) -> None:
    """Pack cuts of photographs with a grid, and masks of four bands each."""
    rng, rows = np.random.default_rng(9), []
    for number in range(ROWS):
        photo = photographs[number % len(photographs)]
        height, width = rng.integers(220, 290, 2)
        cut = np.ascontiguousarray(photo[5 : 5 + height, 9 : 9 + width])
        mask = (cut.astype(int).sum(2) // 192).astype(np.uint8)
        rows.append({"image": encoded(cut, "JPEG"), "mask": mask, "label": number % 2})
    write(dest, [schema.image(grid=True), schema.mask(encoding="bands"), schema.label()], rows)


def damage(dest: Path) -> None:
    """Write zeros over a few bytes of some pictures."""
    with open_dataset(dest) as dataset:
        for (field, number), part in DAMAGED.items():
            file, offset = dataset.locate(field, number)
            size = len(dataset.read(field, number))
            with (dest / file.name).open("r+b") as data:
                data.seek(offset + int(part * size))
                data.write(bytes(max(size // 200, 4)))
    accept_damage(dest)
