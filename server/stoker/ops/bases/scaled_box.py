"""A box of an image that was decoded at a fraction of its size, resized to a fixed size.

The ops behind `decode="scaled"`. The decoder reduces a JPEG by 1, 2, 4 or 8, the greatest divisor
at which the box is still as large as the result in both directions (`divisor_of`); pixel i of the
reduced image covers the pixels from i * divisor to (i + 1) * divisor. The box keeps its place: in
the reduced image its edges may be between edges of pixels. Its pixels there are those that it
touches, and no others are read. They are resized as Pillow's `resize(size, filter, box)` does.

An image that cannot be reduced comes whole, and is resized as by the exact op. The kernel knows the
difference by the size: the record has the size that the box was drawn for. Masks are always whole.
"""

from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_resize import BOX_KERNELS, BOX_RECORD, box_of
from stoker.ops.bases.resized import ResizedPart
from stoker.ops.bases.resizing import filter_of
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.parameter_limits import refuse
from stoker.ops.contract.relative import rescale_box
from stoker.ops.kernels.resample import plain_resample, resample_spans

DIVISORS: Final = (8, 4, 2)
_OF: Final = (("of_height", "i4"), ("of_width", "i4"))


@kernel
def divisor_of(height: int, width: int, size_y: int, size_x: int) -> int:
    """Return by how much an image is reduced whose box becomes an image of a size; 1: it is not."""
    for divisor in DIVISORS:
        if divisor * size_y <= height and divisor * size_x <= width:
            return divisor
    return 1


@kernel
def touched(first: Any, count: Any, divisor: Any) -> Any:
    """Return first pixel and number of the pixels of a reduced axis that a part of it touches."""
    start = first // divisor
    return start, (first + count - 1) // divisor + 1 - start


@kernel
def reduced_box(src: Any, dst: Any, record: Any) -> Any:
    """Return the box of the source as it is, and the spans in it; see `resample_spans`."""
    top, left, height, width = box_of(record)
    divisor = np.int64(divisor_of(height, width, dst.shape[0], dst.shape[1]))
    if src.shape[0] == record["of_height"] and src.shape[1] == record["of_width"]:
        divisor = np.int64(1)
    y, rows = touched(top, height, divisor)
    x, columns = touched(left, width, divisor)
    down = (top / divisor - y, height / divisor)
    across = (left / divisor - x, width / divisor)
    return (y, x, rows, columns), (down, across)


@kernel
def set_sizes(record: Any, height: int, width: int) -> None:
    """Write the size that a box was drawn for into its record."""
    record["of_height"], record["of_width"] = height, width


@kernel
def draw_whole(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Take the whole image: `Op.draw` of resizes."""
    record["top"], record["left"] = 0, 0
    record["height"], record["width"] = height, width
    set_sizes(record, height, width)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    box, spans = reduced_box(src, dst, record)
    resample_spans(src, box, spans, dst, filter_of(params["interpolation"]), scratch)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    (y, x, rows, columns), spans = reduced_box(src, dst, record)
    part = src[y : y + rows, x : x + columns]
    number = filter_of(int(params["interpolation"]))
    dst[...] = plain_resample(part, dst.shape[:2], number, spans=spans)


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    set_sizes(record, sizes[2], sizes[3])
    return rescale_box(params, record, sizes)


class ScaledBox(ResizedPart):
    """First base of ops that resize a box of an image that is decoded at a fraction of its size.

    The second one is the exact op, which declares states.

    Attributes:
        exact: name of the op that decodes exactly, of the same parameters and draws.
    """

    exact: ClassVar[str]

    record = np.dtype([*BOX_RECORD.descr, *_OF])
    kernels = {**BOX_KERNELS, "image": Kernel(_run_image, _plain_image)}
    rescale = staticmethod(_rescale)
    decodes_scaled = True

    def divisor(self, box: tuple[int, int, int, int]) -> int:
        """Return by how much an image is reduced of which a box (top, left, height, width) is read.

        Masks of the call are whole.
        """
        return int(divisor_of(box[2], box[3], *self.size_of(box[2], box[3])))

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of the result for a box of that size."""
        raise NotImplementedError

    def check(self) -> None:
        """Check the parameters; nearest picks pixels of the whole image."""
        super().check()
        if self.interpolation == "nearest":
            what = 'a filter, because decode="scaled" averages pixels and nearest picks one'
            raise refuse(self.exact, "interpolation", what, self.interpolation)


class ScaledImage(ScaledBox):
    """First base of those whose box is the whole image."""

    random = False
    draw = staticmethod(draw_whole)
