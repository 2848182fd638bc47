"""Mirror image and mask, always: the flips without a draw, for views of one image side by side."""

from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameters import Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import scaled
from stoker.ops.kernels.reorder import mirror_image, move_rows
from stoker.ops.values.swap_keypoints import Pairs, swap_last

AXES: Final = ("horizontal", "vertical")


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width = src.shape[0], src.shape[1]
    if params["axis"]:
        move_rows(src, dst, (height - 1) * width, -width)
    else:
        mirror_image(src, dst, width - 1, width)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src[::-1] if params["axis"] else src[:, ::-1]


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    if params["axis"]:
        return scaled(1.0, -1.0, 0.0, sizes[0])
    return scaled(-1.0, 1.0, sizes[1], 0.0)


@register
class Mirror(Op):
    """Mirror, always."""

    axis: Annotated[str, Word(AXES), "horizontal swaps left and right"] = "horizontal"

    image_dtypes = ANY_DTYPE
    examples = ({}, {"axis": "vertical"})
    varied = {"axis": ("horizontal", "vertical")}
    kernels = {
        "image": Kernel(_run, _plain),
        "mask": Kernel(_run, _plain),
    }
    mirrors = "always"
    forward = staticmethod(_forward)
    affine = True
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        return states, 0


@calls(Mirror)
def mirror(call: FunctionCall, swap: Pairs | str | None = None) -> Any:
    """Mirror, always; with `swap`, left and right keypoints change places.

    `swap` has pairs as for `swap_keypoints`. The last value is then keypoints.
    """
    return swap_last(call(Mirror), swap)
