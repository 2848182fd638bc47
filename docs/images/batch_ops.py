"""Draw the pictures of the batch ops in docs/ops.md: photographs, and what becomes of the first.

    python docs/images/batch_ops.py [OP ...]

writes `docs/images/batch_ops/<op>.jpg` for these ops, or for all: left the photographs of
scikit-image that the row is made of, right the row, by a batch in process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import skimage.data
from PIL import Image

from stoker import ops
from stoker.ops.bases.batch_op import BatchOp
from stoker.pipeline import pipeline

FOLDER: Final = Path(__file__).parent / "batch_ops"
SIDES: Final = (160, 200)
GAP: Final = 8
QUALITY: Final = 85
DRAWN: Final[dict[str, tuple[BatchOp, list[int], int]]] = {
    "copy_paste": (ops.CopyPaste("semantic", object_p=1.0, sigma=1.0), [0, 1], 0),
    "cutmix": (ops.Cutmix(), [0, 1], 13),
    "mixup": (ops.Mixup(alpha=8.0), [0, 1], 0),
    "mosaic": (ops.Mosaic(center_range=(0.4, 0.6)), [0], 27),
    "mosaic_scaled": (ops.MosaicScaled((0.4, 0.6), (0.4, 1.4), 114), [0], 27),
}
"""The op, the ids of the rows of the batch, and the seed."""


def _cat() -> np.ndarray:
    """Return a mask of about the cat's head in the second photograph, (H, W) uint8."""
    y, x = np.mgrid[: SIDES[0], : SIDES[1]]
    return (((y - 72) / 60) ** 2 + ((x - 100) / 62) ** 2 < 1).astype(np.uint8)


CAT: Final = _cat()


def photographs() -> list[np.ndarray]:
    """Return four photographs, (H, W, 3) uint8."""
    found = (skimage.data.coffee(), skimage.data.chelsea(), skimage.data.astronaut())
    small = [
        Image.fromarray(photo).resize(SIDES[::-1]) for photo in (*found, skimage.data.rocket())
    ]
    return [np.asarray(photo) for photo in small]


def draw(name: str) -> Image.Image:
    """Return the picture of a batch op."""
    op, ids, seed = DRAWN[name]

    @pipeline
    def shown(sample: Any) -> dict[str, Any]:
        if not isinstance(op, ops.CopyPaste):
            return {"image": op(sample.image)}
        image, mask = op(sample.image, sample.mask)
        return {"image": image, "mask": mask}

    photos = photographs()
    samples = [{"image": photo, "mask": CAT} for photo in photos]
    row = shown.batch(samples, ids, seed=seed, kinds={"mask": "mask"})[0]["image"]
    pictures = [*photos[: 4 if op.of_dataset else 2], row]
    page = Image.new("RGB", (len(pictures) * (SIDES[1] + GAP) - GAP, SIDES[0]), (255, 255, 255))
    for place, picture in enumerate(pictures):
        page.paste(Image.fromarray(picture), (place * (SIDES[1] + GAP), 0))
    return page


def main(names: list[str]) -> None:
    """Write the pictures of these ops, or of all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or DRAWN:
        draw(name).save(FOLDER / f"{name}.jpg", quality=QUALITY, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
