"""Names that users of other libraries look for in `stoker.ops`, for the error's hint.

Pure: a table and a lookup. The keys are lower-case, without underscores and without a leading
"random".
"""

import difflib
from collections.abc import Sequence

ELSEWHERE = {
    "adjustsharpness": "ops.sharpness",
    "augmix": "stoker.pipeline.augmix",
    "autoaugment": "stoker.pipeline.auto_augment",
    "blur": "ops.box_blur",
    "boundingboxes": "a field of kind boxes",
    "channeldropout": "ops.channel_drop",
    "channelpermutation": "ops.channel_shuffle",
    "compose": "a function under @stoker.pipeline.pipeline",
    "copyandpaste": "ops.copy_paste",
    "cropnonemptymaskifexists": "ops.crop_non_empty_mask",
    "cutout": "ops.coarse_dropout",
    "elastictransform": "ops.elastic",
    "erasing": "ops.erase",
    "flip": "ops.horizontal_flip or ops.vertical_flip",
    "fliplr": "ops.horizontal_flip",
    "flipud": "ops.vertical_flip",
    "gaussnoise": "ops.gaussian_noise",
    "griddropout": "ops.grid_mask",
    "hflip": "ops.horizontal_flip",
    "huesaturationvalue": "ops.hue, ops.saturation and ops.brightness",
    "imagecompression": "ops.jpeg_compression",
    "invertimg": "ops.invert",
    "ioucrop": "ops.iou_crop",
    "jpeg": "ops.jpeg_compression",
    "lambda": "ops.python",
    "longestmaxsize": "ops.resize_long",
    "oneof": "stoker.pipeline.one_of",
    "padifneeded": "ops.pad_to_size",
    "randaugment": "stoker.pipeline.rand_augment",
    "apply": "stoker.pipeline.random_apply",
    "rotation": "ops.rotate",
    "rotate90": "ops.rot90",
    "sequential": "a function under @stoker.pipeline.pipeline",
    "sharpen": "ops.sharpness",
    "shiftscalerotate": "ops.affine",
    "simplecopypaste": "ops.copy_paste",
    "sizedbboxsafecrop": "ops.bbox_safe_random_crop, and ops.resize after it",
    "shortestsize": "ops.random_short_side_scale",
    "smallestmaxsize": "ops.resize_short",
    "someof": "stoker.pipeline.some_of",
    "toimage": "ops.normalize with layout='CHW'",
    "todtype": "ops.to_float, ops.from_float or ops.cast",
    "totensor": "ops.normalize with layout='CHW'",
    "totensorv2": "ops.normalize with layout='CHW'",
    "trivialaugmentwide": "stoker.pipeline.trivial_augment_wide",
    "vflip": "ops.vertical_flip",
    "zoomout": "ops.zoom_out",
}


def missing_message(name: str, known: Sequence[str]) -> str:
    """Return the message for a name that `stoker.ops` does not have, with the nearest that it has.

    Args:
        name: what was requested.
        known: the names of the package.
    """
    found = f"stoker.ops has no {name!r}"
    sought = _folded(name)
    meant = ELSEWHERE.get(sought) or ELSEWHERE.get(sought.removeprefix("random"))
    if meant is not None:
        return f"{found}; use {meant}"
    functions = [other for other in known if other.islower()]
    if name[:1].isupper():
        functions = [other for other in known if other[:1].isupper()]
    by_fold = {_folded(other): other for other in functions}
    near = difflib.get_close_matches(sought, by_fold, 1, 0.7) or difflib.get_close_matches(
        sought.removeprefix("random"), by_fold, 1, 0.7
    )
    if near:
        return f"{found}; did you mean ops.{by_fold[near[0]]}?"
    return f"{found}; docs/ops.md lists the ops, and ops.define makes one of your own"


def _folded(name: str) -> str:
    return name.lower().replace("_", "")
