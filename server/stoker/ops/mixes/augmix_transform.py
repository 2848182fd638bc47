"""One of AugMix's transforms, of a drawn kind, level and sign; the size is kept.

Names, levels and magnitudes are torchvision's (AugMix, after Hendrycks and others, ICLR 2020): with
part = level / 9, shears have the tangent 0.3 part; shifts are a third of the side times part,
truncated to integer pixels; rotations are 30 part degrees; factors are 1 + 0.9 part; all of them
with a sign. Posterize keeps 4 - round(4 part) bits; solarize inverts from 255 (1 - part) on,
rounded up. Shears are about the image's center (in torchvision about its upper left corner).

Draws: 0 the transform, all equally likely; 1 the level, below `severity`; 2 the sign, 1 if
uniform < 0.5, else -1. All 13 are one op, so a chain of them costs one kernel
and not 13 branches per link.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, require_fill
from stoker.ops.bases.pixelwise import LEVELS, begin
from stoker.ops.bases.rotated import Filter
from stoker.ops.color.autocontrast import Autocontrast, stretch_levels
from stoker.ops.color.brightness import Brightness
from stoker.ops.color.contrast import Contrast
from stoker.ops.color.equalize import Equalize, spread_levels
from stoker.ops.color.posterize import Posterize, mask_levels, upper_bits
from stoker.ops.color.saturation import Saturation
from stoker.ops.color.solarize import Solarize, invert_from
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Flag, Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import GRAY_OR_RGB
from stoker.ops.contract.states import State
from stoker.ops.filters.sharpness import Sharpness, sharpen
from stoker.ops.kernels.affinity import inverse_steps
from stoker.ops.kernels.color import LOW, blend_with, fixed, mean_level, saturate
from stoker.ops.kernels.warp import fixed as position
from stoker.ops.kernels.warp import plain_warp_affine, warp_affine
from stoker.rng.draws import bernoulli, integers

TRANSFORMS: Final = (
    "shear_x", "shear_y", "translate_x", "translate_y", "rotate",
    "posterize", "solarize", "autocontrast", "equalize",
    "brightness", "color", "contrast", "sharpness",
)  # fmt: skip
"""By number; the last four are used only with `all_ops`."""
(
    SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y, ROTATE,
    POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE,
    BRIGHTNESS, COLOR, CONTRAST, SHARPNESS,
) = range(len(TRANSFORMS))  # fmt: skip
FEWER: Final = 9
MANY: Final = len(TRANSFORMS)
MOST_SEVERE: Final = 10


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["transform"] = integers(key, 0, MANY if params["all_ops"] else FEWER)
    record["level"] = integers(key, 1, params["severity"])
    record["sign"] = 1 if bernoulli(key, 2, 0.5) else -1


@kernel
def geometry(which: int, size: int, height: int, width: int) -> Any:
    """Return the steps that `warp_affine` takes; `size` is the level with its sign."""
    if which == ROTATE:
        return inverse_steps((-30.0 * size / 9.0, 0.0, 0.0, 1.0, 0.0, 0.0), height, width)
    tangent = 0.3 * size / 9.0
    lean = tangent if which == SHEAR_X else 0.0
    rise = tangent if which == SHEAR_Y else 0.0
    sign = 1 if size > 0 else -1
    right = sign * (width * abs(size) // 27) if which == TRANSLATE_X else 0
    down = sign * (height * abs(size) // 27) if which == TRANSLATE_Y else 0
    x, y = 0.5 - width * 0.5 - right, 0.5 - height * 0.5 - down
    c, f = x + lean * y + width * 0.5, rise * x + y + height * 0.5
    one = position(1.0)
    return one, position(lean), position(c), position(rise), one, position(f)


@kernel
def kept_bits(level: int) -> int:
    """Return the number of bits that posterize keeps."""
    return 4 - (8 * level + 9) // 18


@kernel
def least_inverted(level: int) -> int:
    """Return the threshold of solarize."""
    return 255 - 255 * level // 9


@kernel
def factor_of(record: Any) -> float:
    """Return the factor of brightness, color, contrast and sharpness."""
    return 1.0 + int(record["sign"]) * int(record["level"]) / 10.0


@kernel
def change_levels(image: Any, shape: Any, record: Any, scratch: Any) -> None:
    """Apply a transform of levels to a flat image, in place."""
    height, width, channels = shape
    which, level = int(record["transform"]), int(record["level"])
    factor = fixed(factor_of(record))
    if which == POSTERIZE:
        mask_levels(image, upper_bits(kept_bits(level)))
    elif which == SOLARIZE:
        invert_from(image, np.uint8(least_inverted(level)))
    elif which == AUTOCONTRAST:
        stretch_levels(image, channels, scratch)
    elif which == EQUALIZE:
        spread_levels(image, channels, scratch)
    elif which == BRIGHTNESS:
        blend_with(image, factor, LOW)
    elif which == CONTRAST:
        blend_with(image, factor, mean_level(image, height * width, channels))
    elif which == COLOR and channels == 3:
        saturate(image, factor)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    which = int(record["transform"])
    if which <= ROTATE:
        size = int(record["level"]) * int(record["sign"])
        steps = geometry(which, size, src.shape[0], src.shape[1])
        warp_affine(src, dst, steps, int(params["interpolation"]), params["fill"])
        return
    image = begin(src, dst)
    if which == SHARPNESS:
        sharpen(src, image, fixed(factor_of(record)))
    else:
        change_levels(image, src.shape, record, scratch)


PLAIN: Final[Mapping[int, Callable[..., None]]] = {
    POSTERIZE: Posterize.kernels["image"].plain,
    SOLARIZE: Solarize.kernels["image"].plain,
    AUTOCONTRAST: Autocontrast.kernels["image"].plain,
    EQUALIZE: Equalize.kernels["image"].plain,
    BRIGHTNESS: Brightness.kernels["image"].plain,
    COLOR: Saturation.kernels["image"].plain,
    CONTRAST: Contrast.kernels["image"].plain,
    SHARPNESS: Sharpness.kernels["image"].plain,
}
"""The plain forms of the ops behind the transforms of levels."""


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    which, level = int(record["transform"]), int(record["level"])
    if which <= ROTATE:
        steps = geometry(which, level * int(record["sign"]), *src.shape[:2])
        code = int(params["interpolation"])
        plain_warp_affine(src, dst, steps, code, np.asarray(params["fill"]))
        return
    parameters = {"bits": kept_bits(level), "threshold": least_inverted(level)}
    PLAIN[which](src, dst, parameters, {"apply": 1, "factor": factor_of(record)}, None)


@register
class AugmixTransform(Op):
    """One of AugMix's transforms."""

    severity: Annotated[
        int, Whole(1, MOST_SEVERE), "number of levels; the first changes little"
    ] = 3
    all_ops: Annotated[bool, Flag(), "also brightness, color, contrast and sharpness"] = True
    interpolation: Filter = "bilinear"
    fill: Fill = 0

    image_channels = GRAY_OR_RGB
    moves_pixels = True
    examples = ({"severity": 10, "fill": 114}, {"all_ops": False, "interpolation": "nearest"})
    picture = {"severity": 10}
    varied = {"severity": (10,), "all_ops": (True, False)}
    random = True
    record = np.dtype([("transform", "u1"), ("level", "u1"), ("sign", "i1")])
    kernels = {"image": Kernel(_run, _plain)}
    draw = staticmethod(_draw)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        require_fill(self.name, states, self.fill, 0)
        return states, max(8 * LEVELS + LEVELS * state.bound[2] for state in states)


augmix_transform = function(AugmixTransform)
