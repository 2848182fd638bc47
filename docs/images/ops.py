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
from stoker.pipeline.plain.replay import replay
from stoker.pipeline.planning.planner import bind
from stoker.protocol.items import ItemField
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
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "affine": {"degrees": (20, 20), "scale": (0.8, 0.8), "shear": (12, 12)},
    "augmix_transform": {"severity": 10},
    "blend": {"weights": (2, 1)},
    "box_blur": {"size_range": (7, 7)},
    "brightness": {"factor_range": (1.5, 1.5)},
    "center_crop": {"size": 120},
    "clahe": {"limit_range": (4, 4)},
    "coarse_dropout": {"holes_range": (6, 6), "fill": 127},
    "brightness_contrast": {"brightness_limit": (0.1, 0.1), "contrast_limit": (0.5, 0.5)},
    "color_jitter": {"brightness": 0.3, "contrast": 0.3, "saturation": 0.5, "hue": 0.3},
    "contrast": {"factor_range": (1.8, 1.8)},
    "corner_crop": {"size": 120, "corner": "bottom_right"},
    "crop": {"size": (120, 140), "top": 10, "left": 50},
    "crop_around_box": {"margin": 0.1},
    "crop_non_empty_mask": {"size": 80},
    "defocus": {"radius_range": (6, 6)},
    "downscale": {"down": "area"},
    "elastic": {"amount_range": (12, 12)},
    "erase": {"scale": (0.1, 0.2), "fill": 127},
    "fit_bucket": {"size": (160, 120)},
    "gamma": {"gamma_range": (2.0, 2.0)},
    "gaussian_blur": {"kernel_size": 15, "sigma_range": (3, 3)},
    "gaussian_noise": {"sigma_range": (25, 25)},
    "grid_distortion": {"stretch_range": (-0.6, 0.6)},
    "grid_mask": {"unit_range": (40, 40)},
    "hue": {"turn_range": (0.35, 0.35)},
    "rgb_shift": {"red_range": (60, 60), "blue_range": (-60, -60)},
    "iou_crop": {"options": (0.5,)},
    "jpeg_compression": {"quality_range": (8, 8)},
    "letterbox": {"size": 160, "fill": 114},
    "median_blur": {"size_range": (7, 7)},
    "motion_blur": {"size_range": (15, 15), "degrees": (30, 30)},
    "optical_distortion": {"distort_range": (0.7, 0.7)},
    "pad": {"padding": 24, "mode": "reflect"},
    "pad_to_size": {"size": (200, 300), "fill": 114},
    "posterize": {"bits": 2},
    "random_blend": {"count": 2},
    "random_crop": {"size": 120},
    "random_resized_crop": {"size": (160, 240), "scale": (0.2, 0.4)},
    "safe_rotate": {"degrees": (20, 20)},
    "scale_jitter": {"size": 160, "scale": (0.5, 0.5)},
    "random_short_side_scale": {"sizes": (80, 120), "max_size": 240},
    "resize": {"size": (160, 120)},
    "resize_long": {"size": 120},
    "resize_short": {"size": 100, "max_size": 240},
    "rot90": {"turns": (1,)},
    "rotate": {"degrees": (30, 30)},
    "rotate_expand": {"degrees": (30, 30)},
    "saturation": {"factor_range": (0.3, 0.3)},
    "sharpness": {"factor_range": (6, 6)},
    "zoom_out": {"side_range": (1.6, 1.6), "fill": 114},
}
"""Parameters for drawing ops whose defaults are missing or would show little."""

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
    chance = {"p": 1.0} if "p" in lookup(name).__dataclass_fields__ else {}
    after = result(make(name, {**PARAMETERS.get(name, {}), **chance}), before)
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
