"""A resize and a center crop after it in one op: only pixels that the crop keeps are computed.

Users never write it: `planning.graph_shortcuts` puts it into the plans of workers, in place of
`resize`, `resize_short` or `resize_long` and a `center_crop` that is the only reader of the result.
Its pixels are those of the two ops. It reports the box of the image that it reads, so a decoder may
skip the rest.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import fit_long, fit_short
from stoker.ops.bases.resizing import INTERPOLATIONS, NEAREST, filter_of, plain_image, plain_mask
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Levels, MaskClass, SidePair, Word
from stoker.ops.contract.read_box import box_inside
from stoker.ops.contract.registry import make, register_unlisted
from stoker.ops.contract.states import State
from stoker.ops.geometry.center_crop import CenterCrop, offset
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.part import nearest_part, resample_part, source_part
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.resample_floats import resample_floats
from stoker.ops.kernels.taps import radius_of

RESIZES: Final = ("resize", "resize_short", "resize_long")
EXACT: Final = 0
SHORT: Final = 1


@kernel
def resized(params: Any, height: int, width: int) -> tuple[int, int]:
    """Return the size between the two ops."""
    if params["by"] == EXACT:
        return int(params["first"]), int(params["second"])
    if params["by"] == SHORT:
        return fit_short(height, width, int(params["first"]), int(params["second"]))
    return fit_long(height, width, int(params["first"]))


@kernel
def kept(params: Any, size: Any) -> Any:
    """Return the part of the resized image that the crop keeps, and the crop's (top, left)."""
    tall, wide = int(params["height"]), int(params["width"])
    top, left = offset(size[0], tall), offset(size[1], wide)
    return box_inside(top, left, (tall, wide), size[0], size[1]), top, left


@kernel
def target(dst: Any, part: Any, scratch: Any) -> Any:
    """Return where the part is written, flat, and the remaining scratch.

    It is written to the output if it fills it, else to the end of the scratch, until `frame`.
    """
    if part[2] == dst.shape[0] and part[3] == dst.shape[1]:
        return dst.reshape(dst.size), scratch
    need = part[2] * part[3] * dst.shape[2] * dst.itemsize
    at = (scratch.size - need) // 64 * 64
    return scratch[at : at + need].view(dst.dtype), scratch[:at]


@kernel
def frame(flat: Any, part: Any, dst: Any, top: int, left: int, fill: Any) -> None:
    """Move the part from its `target` into the center of the fill, unless it fills the output."""
    if part[2] != dst.shape[0] or part[3] != dst.shape[1]:
        inner = flat.reshape((part[2], part[3], dst.shape[2]))
        cut(inner, dst, top - part[0], left - part[1], fill)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = resized(params, src.shape[0], src.shape[1])
    part, top, left = kept(params, size)
    flat, rest = target(dst, part, scratch)
    _part_of_image(src, size, part, flat, params, rest)
    frame(flat, part, dst, top, left, params["fill"])


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = resized(params, src.shape[0], src.shape[1])
    part, top, left = kept(params, size)
    flat, rest = target(dst, part, scratch)
    _part_of_floats(src, size, part, flat, params, rest)
    frame(flat, part, dst, top, left, params["fill"])


@kernel
def _part_of_floats(src: Any, size: Any, part: Any, flat: Any, params: Any, scratch: Any) -> None:
    if params["interpolation"] == NEAREST:
        nearest_part(src, size, part, flat, scratch)
    else:
        box = (0, 0, src.shape[0], src.shape[1])
        number = filter_of(params["interpolation"])
        resample_floats(src, box, size, part, flat, number, scratch)


@kernel
def _part_of_image(src: Any, size: Any, part: Any, flat: Any, params: Any, scratch: Any) -> None:
    if params["interpolation"] == NEAREST:
        nearest_part(src, size, part, flat, scratch)
    else:
        resample_part(src, size, part, flat, filter_of(params["interpolation"]), scratch)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = resized(params, src.shape[0], src.shape[1])
    part, top, left = kept(params, size)
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    result = dst.reshape((dst.shape[0], dst.shape[1], 1))
    flat, rest = target(result, part, scratch)
    nearest_part(whole, size, part, flat, rest)
    frame(flat, part, result, top, left, params["mask_fill"])


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = resized(params, *src.shape[:2])
    between = np.empty((*size, src.shape[2]), src.dtype)
    plain_image(src, between, (0, 0, *src.shape[:2]), int(params["interpolation"]))
    _, top, left = kept(params, size)
    plain_cut(between, dst, top, left, np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = resized(params, *src.shape[:2])
    between = np.empty(size, src.dtype)
    plain_mask(src, between, (0, 0, *src.shape[:2]))
    _, top, left = kept(params, size)
    plain_cut(between, dst, top, left, np.asarray(params["mask_fill"]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    size = resized(params, height, width)
    radius = 0.0
    if params["interpolation"] != NEAREST:
        radius = float(radius_of(filter_of(params["interpolation"])))
    part, _, _ = kept(params, size)
    top, left, tall, wide = source_part((height, width, size[0], size[1]), part, radius)
    # A mask of the same call uses nearest: one more pixel on every side covers its reads.
    return box_inside(top - 1, left - 1, (tall + 2, wide + 2), height, width)


FILL, MASK_FILL = Levels(), MaskClass()


@register_unlisted
@dataclass(frozen=True)
class ResizeCenterCrop(Op):
    """Resize, then cut out the center.

    Attributes:
        by: the op that resizes: resize, resize_short or resize_long.
        size: the size parameter of that op.
        max_size: the max_size of resize_short, which may be None; else 0.
        interpolation: the interpolation of that op.
        crop: the size of center_crop.
        fill: the fill of center_crop.
        mask_fill: the mask_fill of center_crop.
    """

    by: str
    size: int | tuple[int, int]
    max_size: int | None
    interpolation: str
    crop: int | tuple[int, int]
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0

    name: ClassVar[str] = "resize_center_crop"
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("by", "u1"), ("first", "i4"), ("second", "i4"), ("interpolation", "u1"),
            ("height", "i4"), ("width", "i4"), *MASK_FILL.fields("mask_fill"), *FILL.fields("fill"),
        ]
    )  # fmt: skip
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    floats: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run_floats, _plain_image)}
    out_size = staticmethod(_out_size)
    reads = staticmethod(_reads)

    @property
    def resize(self) -> Op:
        """The op that resizes."""
        given: dict[str, Any] = {"size": self.size, "interpolation": self.interpolation}
        if self.by == "resize_short":
            given["max_size"] = self.max_size
        return make(self.by, given)

    def check(self) -> None:
        """Check the parameters."""
        Word(RESIZES).check(self.name, "by", self.by)
        crop = CenterCrop(self.crop, self.fill, self.mask_fill)
        self.settle(crop=crop.size, fill=crop.fill, mask_fill=crop.mask_fill)
        self.settle(size=self.resize.params_data()["size"])

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        first, second = (
            SidePair(1).check(self.name, "size", self.size)
            if self.by == "resize"
            else (self.size, MAX_SIDE if self.max_size is None else self.max_size)
        )
        code = INTERPOLATIONS.index(self.interpolation)
        crop = SidePair(1).check(self.name, "crop", self.crop)
        fills = (*MASK_FILL.store(self.mask_fill), *FILL.store(self.fill))
        numbers = (RESIZES.index(self.by), first, second, code, *crop, *fills)
        return np.array(numbers, self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the crop's size."""
        between, scratch = self.resize.declare(states)
        crop = CenterCrop(self.crop, self.fill, self.mask_fill)
        after, _ = crop.declare(between)
        need = max((state.bound_bytes for state in after), default=0)
        return after, int(padded(scratch)) + int(padded(need)) + 64
