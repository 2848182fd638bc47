"""Draw the pictures of docs/ops.md: a photograph, and what each op makes of it.

    python docs/images/ops.py [OP ...]

writes `docs/images/ops/<op>.jpg` for these ops, or for all. Left is the photograph (coffee of
scikit-image, by Rachel Michetti, CC0), right the op's result, by the interpreter with a fixed row.
`BEFORE` has the ops that are applied to the photograph first. Ops that mix several
images get the photograph and its mirror image. Ops whose result cannot be seen (they change dtype,
layout or kind) have no picture.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import skimage.data
from PIL import Image

from stoker import ops
from stoker.ops import lookup, make, registered
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import folds
from stoker.ops.contract.states import State
from stoker.pipeline import Pipeline, pipeline
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items
from stoker.rng.row import Row

FOLDER: Final = Path(__file__).parent / "ops"
SIDES: Final = (160, 240)
GAP: Final = 8
QUALITY: Final = 85
BOXES: Final = State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 1, "image")
CUP: Final = np.array([[64, 16, 176, 128]], np.float32)
"""The place of the cup, for ops that decide from boxes or a mask."""
MASK: Final = State.fixed("mask", "uint8", SIDES)
UNSEEN: Final = frozenset(
    (
        "cast",
        "clip",
        "fit_length",
        "from_float",
        "layout",
        "normalize",
        "one_hot",
        "stack",
        "to_float",
        "to_rgb",
        "window",
    )
)
BEFORE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "autocontrast": ("contrast", {"factor_range": (0.4, 0.4), "p": 1.0}),
    "equalize": ("contrast", {"factor_range": (0.4, 0.4), "p": 1.0}),
    "hsv_to_rgb": ("rgb_to_hsv", {}),
    "ycbcr_to_rgb": ("rgb_to_ycbcr", {}),
}
"""Ops that show little on the photograph as it is, and the op that was applied to it before."""


def pictured() -> list[str]:
    """Return the names of the ops that have a picture."""
    seen = [name for name, op in registered().items() if "image" in op.kernels]
    return sorted({*seen, *folds()} - UNSEEN)


def draw(name: str) -> Image.Image:
    """Return the picture of an op: the photograph, and the result next to it."""
    before = np.asarray(Image.fromarray(skimage.data.coffee()).resize(SIDES[::-1]))
    if name in BEFORE:
        before = result(make(*BEFORE[name]), before)
    cls = lookup(name)
    chance = {"p": 1.0} if "p" in cls.__dataclass_fields__ else {}
    after = result(cls(**{**cls.picture, **chance}), before)
    page = Image.new("RGB", (2 * SIDES[1] + GAP, SIDES[0]), (255, 255, 255))
    page.paste(Image.fromarray(before), (0, 0))
    shown = Image.fromarray(after[..., 0] if after.shape[2] == 1 else after)
    shown.thumbnail(SIDES[::-1])
    page.paste(shown, (SIDES[1] + GAP, 0))
    return page


def result(op: Op, image: np.ndarray) -> np.ndarray:
    """Return what an op makes of an image, (H, W, 3) uint8."""
    fields = {"image": State.fixed("image", "uint8", image.shape), "boxes": BOXES, "mask": MASK}
    plan = bind(_showing(op).graph(), fields)
    left, top, right, bottom = CUP[0].astype(int)
    mask = np.zeros(SIDES, np.uint8)
    mask[top:bottom, left:right] = 1
    given = {"image": image, "boxes": pack_items(BOXES.items, {"xyxy": CUP}), "mask": mask}
    row = Row(seed=0, id=4, epoch=0)
    steps = replay(plan, row, [given[name] for name in plan.fields]).steps
    return next(step for step in steps if step.op == op.name).values[0].array


def _showing(op: Op) -> Pipeline:
    @pipeline
    def shown(sample: Any) -> dict[str, Any]:
        if op.folds:
            image = op(sample.image, ops.mirror(sample.image))
        else:
            looked_at = [sample[op.draws_from]] if op.draws_from else []
            images = op(sample.image, *looked_at)
            image = images[0] if looked_at else images
        return {"image": ops.resize(image, size=(8, 8))}

    return shown


def main(names: list[str]) -> None:
    """Write the pictures of these ops, or of all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or pictured():
        draw(name).save(FOLDER / f"{name}.jpg", quality=QUALITY, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
