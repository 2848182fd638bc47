"""Mirror image and mask, always: the flips without a draw, for views of one image side by side."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
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
    if params["vertical"]:
        move_rows(src, dst, (height - 1) * width, -width)
    else:
        mirror_image(src, dst, width - 1, width)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src[::-1] if params["vertical"] else src[:, ::-1]


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    if params["vertical"]:
        return scaled(1.0, -1.0, 0.0, sizes[0])
    return scaled(-1.0, 1.0, sizes[1], 0.0)


@register
@dataclass(frozen=True)
class Mirror(Op):
    """Mirror, always.

    Attributes:
        axis: the direction in which pixels are swapped: horizontal (left and right) or vertical.
    """

    axis: str = "horizontal"

    name: ClassVar[str] = "mirror"
    image_dtypes = ANY_DTYPE
    examples = ({}, {"axis": "vertical"})
    varied = {"axis": ("horizontal", "vertical")}
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("vertical", "u1")])
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run, _plain),
        "mask": Kernel(_run, _plain),
    }
    mirrors: ClassVar[str] = "always"
    forward = staticmethod(_forward)
    affine: ClassVar[bool] = True
    rescale = staticmethod(keep_record)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(axis=checks.choice(self.name, "axis", self.axis, AXES))

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((AXES.index(self.axis),), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        return states, 0


def mirror(
    *values: Value,
    axis: str = "horizontal",
    swap: Pairs | str | None = None,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Mirror values of a pipeline, always; see `Mirror`.

    With `swap`, pairs as for `swap_keypoints`, the last value is keypoints, whose left and right
    change places where it mirrors.
    """
    return swap_last(Mirror(axis)(*values, stream=stream, relative=relative), swap)
